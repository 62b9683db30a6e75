"""Open problems: the smallest number of bins per rank for which an algorithm finds a layout."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from packing._fixed_point import exact_sum
from packing.assignment import Assignment
from packing.problem import Problem

__all__ = ["fewest_bins_per_rank", "smallest_count"]


def fewest_bins_per_rank(problem: Problem) -> int:
    """A lower bound on M: tokens, budgets and `max_items` divided by what R bins hold, and samples over half a bin."""
    bins = 1
    if problem.capacity is not None:
        capacity = int(np.max(problem.capacity))
        oversized = problem.is_oversized()
        alone = int(oversized.sum())
        tokens = problem.tokens[~oversized]
        bins = max(bins, alone + -(-exact_sum(tokens) // capacity), alone + int((tokens > capacity // 2).sum()))
    if problem.footprints is not None and problem.budgets is not None:
        for b, budget in enumerate(problem.budgets.tolist()):
            if budget > 0:
                bins = max(bins, -(-exact_sum(problem.footprints[:, b]) // budget))
    if problem.max_items is not None:
        bins = max(bins, -(-problem.num_samples // problem.max_items))
    return -(-bins // problem.ranks)


def smallest_count(problem: Problem, solve: Callable[[Problem], Assignment | None]) -> Assignment | None:
    """The layout of `solve` for the smallest M that it can do, or None; no bin stays empty, so M <= N / R."""
    for bins_per_rank in range(fewest_bins_per_rank(problem), problem.num_samples // problem.ranks + 1):
        layout = solve(problem.with_bins_per_rank(bins_per_rank))
        if layout is not None:
            return layout
    return None
