"""COMBINE: longest processing time first, then MULTIFIT from there, under every limit."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from packing import _checks, _kernels
from packing.algorithms._levels import LevelSearch
from packing.algorithms._open_bins import smallest_count
from packing.algorithms.placement import lpt_score, place
from packing.assignment import Assignment
from packing.partition import Int32Array
from packing.problem import Problem

__all__ = ["Combine", "combine"]

_STEPS = 12  # the interval of the search is the gap of LPT, a few per cent: less than one part in 10**5 is left of it


def combine(
    problem: Problem, order: Int32Array | None = None, *, start: Assignment | None = None, steps: int = _STEPS
) -> Assignment | None:
    """The best layout of LPT and of MULTIFIT on the levels between a lower bound and LPT's largest load.

    Args:
        problem: with a fixed number of bins per rank.
        order: int32[N], the samples by cost, then tokens, descending, then index; sorted here if None.
        start: the layout of LPT (or a better one) where the caller has it.
        steps: most levels tried, each by first fit and, where that exceeds the level, by best fit.

    Returns:
        A layout that keeps every limit, or None where neither found one.
    """
    search = LevelSearch(problem, order)
    if not search.possible:
        return None
    search.offer(place(problem, score=lpt_score(problem), order=search.order) if start is None else start)
    known = search.best()
    low = _least_level(search)
    high = 2 * low if known is None else int(problem.pack_loads(known).reshape(search.num_units, -1).sum(axis=1).max())
    for _ in range(steps):
        if low >= high:
            break
        level = (low + high) // 2
        levels = np.full(search.num_units, level, np.int64)
        for rule in (_kernels.level_fit.FIRST_FIT, _kernels.level_fit.BEST_FIT):
            excess = search.attempt(levels, rule)
            if excess is not None and excess <= 0:
                high = level + excess
                break
        else:
            low = level + 1
    return search.best()


def _least_level(search: LevelSearch) -> int:
    """A lower bound on the largest load of a unit: the mean, the largest entry, the two that some unit must share."""
    cost, order, units = search.entries.cost, search.order, search.num_units
    low = max(-(-int(cost.sum()) // units), int(cost[order[0]]))
    # Groups and kinds that come first break the order, and with it the pair.
    if order.size > units and not search.entries.rank_group.size and not search.entries.forbid.size:
        low = max(low, int(cost[order[units - 1]] + cost[order[units]]))
    return low


@dataclass(frozen=True)
class Combine:
    """LPT, then a binary search for the smallest level below which first fit or best fit, by cost, places everything.

    Every limit holds as it does for `lpt`. The level is that of ranks, or of packs under the objective `rounds`. The
    best layout by the problem's objective is taken, those that exceed their level included.

    Args:
        steps: most levels tried; at least 1.

    Raises:
        ConfigError: an option has a wrong type or value.

    Source: Coffman, Garey and Johnson 1978 (MULTIFIT); Lee and Massey, "Multiprocessor scheduling: combining LPT and
    MULTIFIT", 1988.
    """

    steps: int = _STEPS

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", _checks.integer("steps", self.steps, minimum=1))

    def assign(self, problem: Problem) -> Assignment | None:
        """The layout, or None where some sample found no bin at any level."""
        solve = partial(combine, steps=self.steps)
        return solve(problem) if problem.bins_per_rank is not None else smallest_count(problem, solve)
