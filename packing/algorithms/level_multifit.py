"""Level MULTIFIT: levels for the rounds that outliers rule and one level for all others, found by bisection."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from packing import _checks, _kernels
from packing.algorithms._full_bins import fit_tokens
from packing.algorithms._levels import LevelSearch
from packing.algorithms._open_bins import smallest_count
from packing.assignment import Assignment
from packing.partition import Int32Array
from packing.problem import Problem

__all__ = ["LevelMultifit", "level_multifit"]

_STEPS = 12
_PROFILES = 3


@dataclass(frozen=True, slots=True)
class _Profile:
    """Levels (m_1, ..., m_j, mu, ..., mu) of the rounds: what the first j are, and where the search for mu begins."""

    estimate: int  # of the sum over rounds of the largest unit, if everything fits as it should
    outliers: list[int]  # m_1 .. m_j
    least: int  # the smallest mu that can be enough


def level_multifit(
    problem: Problem, order: Int32Array | None = None, *, start: Assignment | None = None, steps: int = _STEPS
) -> Assignment | None:
    """The best layout found by the density rule below levels that are raised and lowered by bisection.

    Args:
        problem: with a fixed number of bins per rank.
        order: int32[N], the samples by cost, then tokens, descending, then index; sorted here if None.
        start: a layout that keeps every limit and is returned where nothing better is found, or None.
        steps: most levels tried for each number of outlier rounds.

    Returns:
        A layout that keeps every limit, or None where no way led to one.
    """
    search = LevelSearch(problem, order)
    if not search.possible:
        return start
    search.offer(start)
    profiles, bound = _profiles(search)
    for profile in profiles[:_PROFILES]:
        if search.score is None or max(profile.estimate, bound) < search.score[1]:
            _bisect(search, profile, steps)
    return fit_tokens(search) if search.score is None else search.best()


def _bisect(search: LevelSearch, profile: _Profile, steps: int) -> None:
    """Tries levels mu from `profile.least` upwards, in growing strides, then halves what is left."""
    levels = np.empty(search.num_units, np.int64)
    first = len(profile.outliers) * search.round_size
    for r, level in enumerate(profile.outliers):
        levels[r * search.round_size : (r + 1) * search.round_size] = level
    low, high, stride = profile.least, None, 0
    for _ in range(steps):
        if high is not None and low >= high:
            return
        mu = low + stride if high is None else (low + high) // 2
        levels[first:] = mu
        levels[:first] = np.maximum(levels[:first], mu)
        excess = search.attempt(levels, _kernels.level_fit.DENSITY)
        if excess is not None and excess <= 0:
            high = mu
        else:
            low, stride = mu + 1, max(1, profile.least >> 10, 4 * stride)


def _profiles(search: LevelSearch) -> tuple[list[_Profile], int]:
    """One for each number of outlier rounds, the most promising first, and what no sum over rounds should go below.

    Outlier round r has the level of the costliest entry that no earlier one leads. What is left for the other rounds is
    the total less what the outlier rounds can hold, below their levels and within their tokens, costliest first.
    """
    cost, tokens, size = search.entries.cost, search.entries.tokens, search.round_size
    # Groups and kinds that come first break the order of cost.
    order = np.argsort(-cost, kind="stable") if search.reordered else search.order
    rounds = search.num_units // size
    leaders: list[int] = cost[order[: rounds * size : size]].tolist()
    costs, room = np.cumsum(cost[order]), np.cumsum(tokens[order])
    total = int(costs[-1]) + search.expected_padding
    capacity = search.total_capacity // rounds
    profiles, bound = [], 0
    for j in range(len(leaders)):
        fit = int(np.searchsorted(room, j * capacity, "right")) if capacity * rounds < room[-1] * 2 else order.size
        held, taken = int(costs[fit - 1]) if fit else 0, sum(leaders[:j])
        least = max(-(-(total - min(held, taken * size)) // ((rounds - j) * size)), leaders[j])
        profiles.append(_Profile(taken + (rounds - j) * least, leaders[:j], least))
        bound = max(bound, taken + max(-(-(total - held) // size), sum(leaders[j:])))
    # Below the bound an estimate says nothing: of those, fewer outlier rounds leave more room.
    profiles.sort(key=lambda one: (max(one.estimate, bound), len(one.outliers)))
    return profiles, bound


@dataclass(frozen=True)
class LevelMultifit:
    """MULTIFIT on cost levels that differ by round, under every limit.

    A few outliers rule the largest packs of a window. They go into the same rounds, whose level is then their cost, so
    that the other packs of these rounds hold cost for free; all other rounds share one level, the smallest that a
    bisection finds. Entries are placed by cost descending into the bin, among those where they stay below the level,
    that has the most slack below its level per token of room: long samples go where much cost is wanted and little
    room is left. The best layout by the problem's objective is taken, those that exceed a level included.

    Levels are of packs under the objective `rounds`, else of ranks. With a single round it is MULTIFIT under caps.
    Where every level runs into a dead end, tokens come first: placement that overflows, repaired, then best-fit and
    first-fit decreasing.

    Args:
        steps: most levels tried for each of at most three numbers of outlier rounds; at least 1.

    Raises:
        ConfigError: an option has a wrong type or value.
    """

    steps: int = _STEPS

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", _checks.integer("steps", self.steps, minimum=1))

    def assign(self, problem: Problem) -> Assignment | None:
        """The layout, or None where some sample found no bin at any level."""
        solve = partial(level_multifit, steps=self.steps)
        return solve(problem) if problem.bins_per_rank is not None else smallest_count(problem, solve)
