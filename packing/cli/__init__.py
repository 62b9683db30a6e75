"""The command `packing`; importing this package needs none of the libraries of the extra `cli`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]

_LIBRARIES = ("click", "rich", "yaml")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: the words after the program's name; None takes those of this process.

    Returns:
        The exit status: 0 a plan, 1 infeasible or no candidate, 2 usage, unreadable input or missing libraries,
        130 interrupted, 141 the reader of standard output went away.
    """
    try:
        from packing.cli.application import run

        return run(arguments)
    except KeyboardInterrupt:
        # Only while the libraries are loading: later ones are reported by `run`.
        return 130
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _LIBRARIES:
            raise
        print(f"packing: the command line needs `{missing}`: pip install 'packing[cli]'", file=sys.stderr)
        return 2
