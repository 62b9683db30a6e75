"""What the suite compares: one module a package, each a few functions from a step to lists of sample indices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["PACKAGES", "Method", "Step"]

PACKAGES = ("ours", "lightbinpack", "trl", "prtpy", "binpacking", "ortools")
"""Modules of this folder; a package that cannot be imported is reported as not installed."""


@dataclass(frozen=True)
class Step:
    """What has to be packed.

    Attributes:
        lengths: tokens of every sample. costs: work of every sample.
        ranks: how many bins to balance over; None: as few bins as possible.
        capacity: most tokens in a bin, or None.
    """

    lengths: list[int]
    costs: list[int]
    ranks: int | None
    capacity: int | None


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class Method:
    """One function of a package.

    Attributes:
        tasks: names of the suite's tasks that it is asked.
        solve: what is timed, on what `prepare` made of the step. It may ignore a cap; the suite counts what overflows.
        prepare: brings a `Step` into the package's own input. read: its answer as one list of indices per bin.
        slow: left out of the short form.
    """

    tasks: tuple[str, ...]
    solve: Callable[[Any], Any]
    prepare: Callable[[Step], Any] = _same
    read: Callable[[Any], list[list[int]]] = _same
    slow: bool = False
