"""`python -m packing`: the same command as the script `packing`."""

from __future__ import annotations

import sys

from packing.cli import main

if __name__ == "__main__":
    sys.exit(main())
