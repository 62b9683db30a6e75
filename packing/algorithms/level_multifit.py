"""Level MULTIFIT: levels for the rounds that outliers rule and one level for all others, found by bisection."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from packing import _checks, _kernels
from packing._fixed_point import SUM_BITS
from packing.algorithms._full_bins import fit_full, fit_tokens, is_full
from packing.algorithms._levels import LevelSearch
from packing.algorithms._open_bins import smallest_count
from packing.assignment import Assignment
from packing.partition import Int32Array
from packing.problem import Problem

__all__ = ["LevelMultifit", "level_multifit"]

_STEPS = 16
_PROFILES = 3
_FEW = 24  # entries in a unit; with more of them best fit by cost hardly ever beats the density rule
_FIRST_STRIDE = 11  # one part in 2**11 of the level, each further stride four times as long
_PRECISION = 14  # a bisection ends where one part in 2**14 of the level is left: less than what single samples decide


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
    if is_full(problem):
        search.offer(fit_full(search))
    profiles, bound = _profiles(search)
    best: _Profile | None = None
    for profile in profiles[:_PROFILES]:
        if search.score is None or search.score[1] > bound:
            best = profile if _bisect(search, profile, steps) else best
        if search.score is None and profile is profiles[0]:
            search.offer(fit_tokens(search))
    while best is not None and best.outliers:
        # Little room may be left in the outlier rounds at their least levels.
        best = _lifted(best, search.num_units // search.round_size)
        best = best if _bisect(search, best, steps) else None
    return search.best()


def _bisect(search: LevelSearch, profile: _Profile, steps: int) -> bool:
    """Searches for the smallest mu below which everything fits; True if the best layout improved.

    In growing strides from `profile.least` upwards; where there is a layout already, downwards from the level at which
    the rounds would cost what they do, and no further where the first stride fails. Then what is left is halved.
    """
    before, low = search.score, profile.least
    if before is None:
        high, stride = low, 0
        while steps and not _fits(search, profile, high):
            low, stride = high + 1, max(1, profile.least >> _FIRST_STRIDE, 4 * stride)
            high, steps = min(low + stride, 1 << SUM_BITS), steps - 1  # all costs together stay below
    else:
        high = _ceiling(search, profile, before[1])
        stride = max(1, high >> _FIRST_STRIDE)
        while steps and low < high:
            mu = max(low, high - stride)
            steps -= 1
            if not _fits(search, profile, mu):
                low = mu + 1
                break
            high, stride = mu, 4 * stride
        if search.score == before:
            return False
    while steps and high - low > high >> _PRECISION:
        mu = (low + high) // 2
        steps -= 1
        if _fits(search, profile, mu):
            high = mu
        else:
            low = mu + 1
    return search.score != before


def _ceiling(search: LevelSearch, profile: _Profile, score: int) -> int:
    """The mu from which on the rounds cost at least `score`, or the last outlier round is none."""
    rounds = search.num_units // search.round_size - len(profile.outliers)
    highest = (score - sum(profile.outliers)) // rounds
    return min(highest, profile.outliers[-1]) if profile.outliers else highest


def _fits(search: LevelSearch, profile: _Profile, mu: int) -> bool:
    """Tries one mu, by density, else with few entries in a unit by best fit: whether everything stays below."""
    levels = np.full(search.num_units, mu, np.int64)
    outliers = np.repeat(np.asarray(profile.outliers, np.int64), search.round_size)
    levels[: outliers.size] = np.maximum(outliers, mu)
    few = search.order.size < _FEW * search.num_units
    for rule in (_kernels.level_fit.DENSITY, _kernels.level_fit.BEST_FIT)[: 1 + few]:
        excess = search.attempt(levels, rule)
        if excess is not None and excess <= 0:
            return True
    return False


def _lifted(profile: _Profile, rounds: int) -> _Profile:
    """The last outlier round with a level higher by a sixteenth, and the other rounds lower by what that can save."""
    more = profile.outliers[-1] >> 4
    outliers = [*profile.outliers[:-1], profile.outliers[-1] + more]
    return _Profile(profile.estimate, outliers, max(0, profile.least - more // (rounds - len(outliers))))


def _profiles(search: LevelSearch) -> tuple[list[_Profile], int]:
    """One for each number of outlier rounds, the most promising first; and a proven bound of the sum over rounds.

    Outlier round r has the level of the costliest entry that no earlier one leads. What is left for the other rounds is
    the total less what the outlier rounds can hold, below their levels and within their tokens, costliest first.
    """
    cost, size = search.entries.cost, search.round_size
    # Groups and kinds that come first break the order of cost.
    order = np.argsort(-cost, kind="stable") if search.reordered else search.order
    rounds = search.num_units // size
    leaders: list[int] = cost[order[: rounds * size : size]].tolist()
    room = [min(j * search.total_capacity // rounds, 1 << SUM_BITS) for j in range(len(leaders))]
    costs = np.concatenate(([0], np.cumsum(cost[order])))
    held: list[int] = costs[np.searchsorted(np.cumsum(search.entries.tokens[order]), room, "right")].tolist()
    total = int(costs[-1]) + search.expected_padding
    profiles, expected = [], 0
    for j, most in enumerate(held):
        taken = sum(leaders[:j])
        least = max(-(-(total - min(most, taken * size)) // ((rounds - j) * size)), leaders[j])
        if not j or least <= leaders[j - 1]:  # otherwise the last outlier round is none
            profiles.append(_Profile(taken + (rounds - j) * least, leaders[:j], least))
        expected = max(expected, taken + max(-(-(total - most) // size), sum(leaders[j:])))
    # An estimate near what is expected or below it says nothing: of those, fewer outlier rounds leave more room.
    expected += expected >> _PRECISION
    profiles.sort(key=lambda one: (max(one.estimate, expected), len(one.outliers)))
    return profiles, max(-(-int(costs[-1]) // size), leaders[0])


@dataclass(frozen=True)
class LevelMultifit:
    """MULTIFIT on cost levels that differ by round, under every limit.

    A few outliers rule the largest packs of a window. They go into the same rounds, whose level is then their cost, so
    that the other packs of these rounds hold cost for free; all other rounds share one level, the smallest that a
    bisection finds. Entries are placed by cost descending into the bin, among those where they stay below the level,
    that has the most slack below its level per token of room: long samples go where much cost is wanted and little
    room is left. Where that exceeds a level and units hold few samples, best fit by cost is tried as well. The best
    layout by the problem's objective is taken, those that exceed a level included.

    Levels are of packs under the objective `rounds`, else of ranks. With a single round it is MULTIFIT under caps.
    Where every level runs into a dead end, tokens come first: placement that overflows, repaired, then best fit, first
    fit and worst fit, longest sample first.

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
