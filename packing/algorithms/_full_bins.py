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
from packing.partition import Int32Array, descending_order
from packing.problem import Problem

__all__ = ["fit_full", "fit_tokens", "is_full"]

_TOKENS_ALONE = {"capacity", "multi_bin", "rounds", *OBJECTIVE_NAMES}
"""Needs of a step in which nothing but tokens decides what a bin may hold."""

_LIFT = 9
"""Levels are one part in 2**9 above what everything needs: without that the last bins get too many tokens."""

_CHECKS_PER_SAMPLE, _LEAST_CHECKS = 1 << 11, 1 << 22
"""What settling looks at: half of all steps take less than a tenth of it (measured)."""


_SHARES, _FEW, _PARTNERS, _MOST_SUM = (8, 8, 8, 1), 8, 8, 1 << 18
"""Parts of the checks after which bins of up to 8 samples trade one with one of the 8 full bins of the most samples;
the table of subset sums has at most so many entries."""


def is_full(problem: Problem, part: int = 1000) -> bool:
    """Whether less than one part in `part` of all bins together is free: more than 99.9 % is used."""
    if problem.capacity is None:
        return False
    room = exact_sum(problem.capacities())
    return exact_sum(problem.tokens) > room - room // part


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
    settled, tokens, most = bin_of[order], problem.tokens[order], max(_LEAST_CHECKS, _CHECKS_PER_SAMPLE * order.size)
    workspace = np.empty(_kernels.settle.settle_workspace(order.size, problem.num_bins), np.uint8)
    for share in _SHARES:
        over, _ = _kernels.settle.settle(
            problem.cost[order], tokens, problem.capacity, problem.num_bins, most // share, settled, workspace
        )
        if not over:
            break
        if share > 1:
            _trade_for_many(tokens, problem.capacity, settled, problem.num_bins)
    bin_of[order] = settled
    return None if over else search.entries.layout(order, bin_of, problem.num_bins)


def _trade_for_many(tokens: Int64Array, capacity: int, bin_of: Int32Array, num_bins: int) -> None:
    """Settles bins of few samples: the shortest one goes for many that sum to just what is wanted, by subset sums.

    No two or three short samples are as long as a long one, so nothing else helps bins of long ones. Their excess goes
    to a full bin of many samples. Changes `bin_of`, int32[N].
    """
    excess = np.bincount(bin_of, tokens, num_bins).astype(np.int64) - capacity
    counts = np.bincount(bin_of, minlength=num_bins)
    for b in np.flatnonzero((excess != 0) & (counts <= _FEW)).tolist():
        shortest = int(np.flatnonzero(bin_of == b)[-1])
        wanted = int(tokens[shortest] - excess[b])
        if not 0 < wanted <= _MOST_SUM:
            continue
        full = np.flatnonzero(excess == 0)
        for q in full[np.argsort(-counts[full], kind="stable")][:_PARTNERS].tolist():
            items = np.flatnonzero(bin_of == q)
            reached = np.empty(wanted + 1, np.int32)
            _kernels.reach.latest(
                tokens[items], wanted, reached, np.empty(_kernels.reach.latest_workspace(wanted), np.uint8)
            )
            if reached[wanted] >= 0:
                chosen = np.zeros(items.size, np.uint8)
                _kernels.reach.subset(tokens[items], reached, wanted, chosen)
                bin_of[items[chosen == 1]], bin_of[shortest] = b, q
                excess[q], excess[b] = excess[b], 0
                counts[b] += chosen.sum() - 1
                counts[q] -= chosen.sum() - 1
                break


def _least_levels(search: LevelSearch) -> Int64Array:
    """int64[units]: levels (m_1, ..., m_j, mu, ..., mu) of the rounds, of the smallest sum that can hold everything.

    With one round each pack has a level of its own: one high level for all would put long samples together, and packs
    of equal samples cannot be settled.
    """
    problem, total = search.problem, exact_sum(search.problem.cost)
    if search.num_units != problem.num_bins or not isinstance(problem.capacity, int):
        return np.full(search.num_units, -(-total // search.num_units), np.int64)
    size = search.round_size if search.round_size < search.num_units else 1
    rounds, items = search.num_units // size, placed(problem, problem.cost, on_rank=False)
    heads, held = most_held(items.cost, items.tokens, problem.capacity, size, round_heads(problem, items, size, rounds))
    best, least, taken = heads, -1, 0
    for j, (head, most) in enumerate(zip(heads.tolist(), [0, *held[:-1]], strict=True)):
        mu = max(-(-max(0, total - most) // (size * (rounds - j))), head)
        if (j == 0 or mu <= heads[j - 1]) and (least < 0 or taken + mu * (rounds - j) < least):
            best, least = heads.copy(), taken + mu * (rounds - j)
            best[j:] = mu + (mu >> _LIFT)
        taken += head
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
