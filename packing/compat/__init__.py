"""Drop-in forms of what other trainers call, one module for each; imported only when used."""

from __future__ import annotations
