"""Exact means for small whole costs that nothing else limits: pairs of ranks split anew, and packing below a level."""

from __future__ import annotations

import numpy as np

from packing import _kernels
from packing.assignment import Assignment
from packing.bins import fit_fewest
from packing.partition import Int32Array
from packing.problem import Problem

__all__ = ["can_resplit", "packed_below", "resplit_pairs"]

_MOST_SUM = 1 << 18
"""Largest sum of a pair's costs: its table takes four bytes a unit, and time in proportion."""

_PER_PAIR = 1 << 17
"""What a pair costs besides its table, in units of table."""

_LEVELS = 5

_MOST_BITS = 18
"""Of the capacity of a bin; what rounding costs is one part in 2**18 for each sample of a rank."""


def can_resplit(problem: Problem, largest: int) -> bool:
    """Whether nothing but cost decides, and sums are small enough for a table; `largest` is the largest load."""
    return problem.needs() <= {"makespan"} and 2 * largest <= _MOST_SUM


def resplit_pairs(problem: Problem, layout: Assignment, target: int, max_work: int) -> Assignment:
    """The layout after the heaviest rank was split anew with others, as evenly as their samples allow.

    It is tried with every other rank, the lightest first; after a success the heaviest rank is looked for anew. It
    ends where the largest load is at most `target`, nothing helps, or `max_work` units of table are used up.
    """
    bins: list[Int32Array] = np.split(layout.items, layout.offsets[1:-1])
    loads = [int(problem.cost[items].sum()) for items in bins]
    work = max_work
    while max(loads) > target and work > 0:
        heaviest = loads.index(max(loads))
        for partner in sorted(range(len(bins)), key=lambda b: (loads[b], b)):
            total = loads[heaviest] + loads[partner]
            if total >= 2 * loads[heaviest] - 1 or work <= 0:
                return Assignment.from_bins(bins)
            work -= _PER_PAIR + total
            parts = _even_parts(problem, np.concatenate([bins[heaviest], bins[partner]]), loads[heaviest])
            if parts is not None:
                for b, part in zip((heaviest, partner), parts, strict=True):
                    bins[b], loads[b] = part, int(problem.cost[part].sum())
                break
        else:
            return Assignment.from_bins(bins)
    return Assignment.from_bins(bins)


def packed_below(problem: Problem, target: int, largest: int, max_steps: int) -> Assignment | None:
    """A layout with a largest load below `largest`, by packing costs into as many bins as there are ranks, or None.

    The capacity of the bins is `target` first if that is near, then halfway to the best so far: the dual of MULTIFIT,
    with a search that finds fewer bins than decreasing fits do. Large costs are halved, rounded up, until a table can
    hold a bin.
    """
    halvings = max(0, largest.bit_length() - _MOST_BITS)
    cost = -(-problem.cost >> halvings)
    positive = np.flatnonzero(problem.cost)
    best, low = None, target
    for attempt in range(_LEVELS):
        if low >= largest or positive.size < problem.ranks:
            break
        # A target far below is seldom reachable; near ones often are, where costs are small numbers.
        level = low if attempt == 0 and largest - low <= low // 256 else (low + largest) // 2
        if cost.max() > level >> halvings:
            low = level + 1
            continue
        offsets, items, _, _ = fit_fewest(
            cost[positive], level >> halvings, min_bins=problem.ranks, max_steps=max_steps // _LEVELS
        )
        if offsets.size - 1 > problem.ranks:
            low = level + 1
            continue
        best = np.split(positive[items], offsets[1:-1])
        largest = max(int(problem.cost[part].sum()) for part in best)
    if best is None:
        return None
    best[0] = np.concatenate([best[0], np.flatnonzero(problem.cost == 0)])
    return Assignment.from_bins(best)


def _even_parts(problem: Problem, items: Int32Array, largest: int) -> tuple[Int32Array, Int32Array] | None:
    """The most even split of some samples into two non-empty sets, the larger below `largest`, or None."""
    items = items[np.argsort(-problem.cost[items], kind="stable")]
    positive = int(np.count_nonzero(problem.cost[items]))
    items, free = items[:positive], items[positive:]
    cost = problem.cost[items]
    half = int(cost.sum()) // 2
    reached = np.empty(half + 1, np.int32)
    _kernels.reach.latest(cost, half, reached, np.empty(_kernels.reach.latest_workspace(half), np.uint8))
    sums = np.flatnonzero(reached >= 0)
    best = int(sums[-1]) if sums.size else 0
    if best == 0 or int(cost.sum()) - best >= largest:
        return None
    chosen = np.zeros(items.size, np.uint8)
    _kernels.reach.subset(cost, reached, best, chosen)
    return np.concatenate([items[chosen == 0], free]), items[chosen == 1]
