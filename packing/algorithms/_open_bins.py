"""Open problems: the first number of bins per rank, from the bound upwards, for which an algorithm finds a layout."""

from __future__ import annotations

from collections.abc import Callable

from packing.assignment import Assignment
from packing.bounds import fewest_bins_per_rank
from packing.problem import Problem

__all__ = ["smallest_count"]


def smallest_count(
    problem: Problem, solve: Callable[[Problem], Assignment | None], fewest: int | None = None
) -> Assignment | None:
    """The layout of `solve` for the smallest M that it can do, or None; no bin stays empty, so M <= N / R.

    Args:
        fewest: the first M to try; None: the lower bound.
    """
    if fewest is None:
        fewest, _ = fewest_bins_per_rank(problem)
    for bins_per_rank in range(fewest, problem.num_samples // problem.ranks + 1):
        layout = solve(problem.with_bins_per_rank(bins_per_rank))
        if layout is not None:
            return layout
    return None
