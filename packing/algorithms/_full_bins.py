"""Layouts where bins are nearly full and placement by cost runs into a dead end."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from packing import _kernels
from packing._bound_loads import placed
from packing._bound_objectives import round_heads
from packing._bound_prices import most_held
from packing._checks import Int64Array
from packing._fixed_point import exact_sum
from packing.algorithms._levels import LevelSearch
from packing.algorithms.repair import repaired_layout
from packing.assignment import Assignment
from packing.objectives import OBJECTIVE_NAMES, OBJECTIVES
from packing.partition import descending_order
from packing.problem import Problem

__all__ = ["fit_full", "fit_tokens", "is_full"]

_TOKENS_ALONE = {"capacity", "multi_bin", "rounds", *OBJECTIVE_NAMES}
"""Needs of a step in which nothing but tokens decides what a bin may hold."""

_LIFT = 9
"""Levels are one part in 2**9 above what everything needs: without that the last bins get too many tokens."""

_CHECKS_PER_SAMPLE, _LEAST_CHECKS = 1 << 11, 1 << 22
"""What settling looks at: half of all steps take less than a tenth of it (measured)."""


def is_full(problem: Problem) -> bool:
    """Whether more than 99.9 % of all bins together is used."""
    if problem.capacity is None:
        return False
    room = exact_sum(problem.capacities())
    return exact_sum(problem.tokens) > room - room // 1000


def fit_full(search: LevelSearch) -> Assignment | None:
    """A layout for bins that are full, or None: placement under the levels of a bound, then settled to the token.

    The bound says which level each round needs at least, and that is nearly enough. By the density rule every bin
    comes close to its level and to its capacity at once; the few tokens over are exchanged without changing costs much.
    """
    problem = search.problem
    if not problem.needs() <= _TOKENS_ALONE or not isinstance(problem.capacity, int):
        return None
    layout = search.place(_least_levels(search), _kernels.level_fit.DENSITY, may_overflow=True)
    if layout is None:
        return None
    order = descending_order(problem.tokens, problem.cost)
    bin_of = layout.bin_of()
    settled = bin_of[order]
    workspace = np.empty(_kernels.settle.settle_workspace(order.size, problem.num_bins), np.uint8)
    over, _ = _kernels.settle.settle(
        problem.cost[order], problem.tokens[order], problem.capacity, problem.num_bins,
        max(_LEAST_CHECKS, _CHECKS_PER_SAMPLE * order.size), settled, workspace,
    )  # fmt: skip
    bin_of[order] = settled
    return None if over else search.entries.layout(order, bin_of, problem.num_bins)


def _least_levels(search: LevelSearch) -> Int64Array:
    """int64[units]: levels (m_1, ..., m_j, mu, ..., mu) of the rounds, of the smallest sum that can hold everything."""
    problem, size = search.problem, search.round_size
    rounds, total = search.num_units // size, exact_sum(problem.cost)
    if search.num_units != problem.num_bins or not isinstance(problem.capacity, int):
        return np.full(search.num_units, -(-total // search.num_units), np.int64)
    items = placed(problem, problem.cost, on_rank=False)
    found = round_heads(problem, items, size, rounds)
    heads, held = most_held(items.cost, items.tokens, problem.capacity, size, found)
    best, least = heads, 1 << 62
    for j, most in enumerate([0, *held[:-1]]):
        mu = max(-(-max(0, total - most) // (size * (rounds - j))), int(heads[j]))
        levels = np.maximum(heads, mu)
        levels[j:] = mu
        if exact_sum(levels) < least:
            best, least = levels, exact_sum(levels)
            best[j:] += mu >> _LIFT
    return np.repeat(best, size)


def fit_tokens(search: LevelSearch) -> Assignment | None:
    """A layout that keeps every limit, with the tokens first and the cost second; None where no way leads to one.

    Placement by density that may overflow, repaired; else longest first under every limit, into the
    fullest, the first or the emptiest bin with room (best fit, first fit and worst fit decreasing with as many bins).
    """
    repaired = _repaired(search)
    return _longest_first(search) if repaired is None else repaired


def _repaired(search: LevelSearch) -> Assignment | None:
    problem = search.problem
    mean = -(-(int(search.entries.cost.sum()) + search.expected_padding) // search.num_units)
    levels = np.full(search.num_units, mean, np.int64)
    layout = search.place(levels, _kernels.level_fit.DENSITY, may_overflow=True)
    return None if layout is None else repaired_layout(problem, layout)


def _longest_first(search: LevelSearch) -> Assignment | None:
    problem = search.problem
    # With the tokens as cost, a bin's capacity as its level, slack is room.
    by_tokens = LevelSearch(
        replace(
            problem, cost=problem.tokens, components=None, pad_cost=None, objective=OBJECTIVES["rounds"], reference=None
        )
    )
    kernel, levels = _kernels.level_fit, problem.capacities()
    ways = ((levels, kernel.BEST_FIT), (levels, kernel.FIRST_FIT), (np.zeros_like(levels), kernel.FIRST_FIT))
    layouts = (by_tokens.place(*way) for way in ways)
    return next((layout for layout in layouts if layout is not None), None)
