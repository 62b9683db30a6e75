"""The cost of unused tokens, tabulated once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from packing import _checks
from packing._checks import shown
from packing._fixed_point import Numbers, finite
from packing.errors import ConfigError

__all__ = ["padding_table"]

LONGEST = 1 << 24
"""The table takes 8 bytes per token of a row, and a second for a few million of them."""


def padding_table(setting: Any, seq_len: int | None) -> Numbers | None:
    """Cost of 0 .. seq_len unused tokens, [seq_len + 1]; None without a setting.

    Args:
        setting: {"linear": a, "quadratic": b}, a function of the number of unused tokens, or None.

    Raises:
        ConfigError: the setting is neither, there is no `seq_len`, or a cost is not a finite non-negative number.
    """
    if setting is None:
        return None
    if seq_len is None:
        raise ConfigError("`padding_cost` needs `seq_len`.")
    if seq_len > LONGEST:
        raise ConfigError(f"`padding_cost` is tabulated for `seq_len` up to {LONGEST}, but got {seq_len}.")
    unused = range(seq_len + 1)
    if callable(setting):
        return finite("padding_cost", [setting(tokens) for tokens in unused])
    if not isinstance(setting, Mapping) or set(setting) - {"linear", "quadratic"}:
        wanted = '{"linear": a, "quadratic": b} or a function'
        raise ConfigError(f"`padding_cost` must be {wanted}, but got {shown(setting)}.")
    linear, quadratic = (setting.get(name, 0) for name in ("linear", "quadratic"))
    for name, value in (("linear", linear), ("quadratic", quadratic)):
        _checks.real(f"padding_cost.{name}", value)
    if isinstance(linear, int) and isinstance(quadratic, int) and (linear + quadratic * seq_len) * seq_len < 1 << 62:
        tokens = np.arange(seq_len + 1)
        return finite("padding_cost", linear * tokens + quadratic * tokens * tokens)
    return finite("padding_cost", [linear * tokens + quadratic * tokens * tokens for tokens in unused])
