"""The cheapest fill: what a pack or rank must hold besides its longest sample, because the others hold no more."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from packing._checks import Int64Array
from packing._fixed_point import SUM_BITS, exact_sum
from packing.partition import descending_order
from packing.problem import Problem

__all__ = ["CheapestFill", "least_padding", "padding_item", "spare"]


@dataclass(frozen=True, slots=True, eq=False)
class CheapestFill:
    """The least cost of at least x units (tokens, or the use of a budget): samples by cost per unit, the last one cut.

    The linear relaxation of a covering knapsack (Dantzig 1957): no choice of whole samples is cheaper.
    """

    units: Int64Array  # running sums, cheapest per unit first, from 0
    costs: Int64Array
    sizes: Int64Array
    prices: Int64Array
    inexact: bool

    @classmethod
    def of(cls, sizes: Int64Array, costs: Int64Array) -> CheapestFill:
        """Of samples with these units and costs; both sum to less than 2**62."""
        counts = sizes > 0
        sizes, costs = sizes[counts], costs[counts]
        # Doubles of one sign are in the order of their bits, which the sorting kernel takes.
        order = descending_order((costs / sizes).view(np.int64))[::-1]
        sizes, costs = sizes[order], costs[order]
        # Quotients of integers whose product stays below 2**52 are equal as doubles only where they are equal.
        largest = int(costs.max(initial=0)) * int(sizes.max(initial=0))
        return cls(
            np.concatenate(([0], np.cumsum(sizes))), np.concatenate(([0], np.cumsum(costs))),
            sizes, costs, largest >= 1 << 52,
        )  # fmt: skip

    def least(self, needs: Int64Array) -> Int64Array:
        """int64, as `needs`: a proven lower bound on the cost of so many units; what is not there costs as all."""
        needs = np.clip(needs, 0, self.units[-1])
        if self.sizes.size == 0:
            return np.zeros_like(needs)
        whole = np.minimum(np.searchsorted(self.units, needs, "right") - 1, self.sizes.size - 1)
        cut, size = needs - self.units[whole], self.sizes[whole]
        quotient, rest = np.divmod(self.prices[whole], size)
        small = int(self.sizes.max()) < 1 << 31
        part = quotient * cut + (-(-(rest * cut) // size) if small else 0)
        least: Int64Array = self.costs[whole] + part
        # Quotients that rounding made equal may stand in the wrong order: one part in 2**48 covers that.
        return np.maximum(least - (least >> 48) - 1, 0) if self.inexact else least


def spare(problem: Problem) -> int | None:
    """Tokens that all bins together have left over; None without a cap, or where that cannot be told.

    A sample over the cap (policy "single") has a bin of its own, which counts neither its tokens nor its capacity.
    """
    if problem.capacity is None:
        return None
    if isinstance(problem.capacity, int):
        room = problem.num_bins * problem.capacity
        if room < 1 << SUM_BITS and int(problem.tokens.max(initial=0)) <= problem.capacity:
            return room - int(problem.tokens.sum())
    oversized = problem.is_oversized()
    room = exact_sum(problem.capacities())
    # Where caps differ and a sample over one of them may be alone there (policy "single"), a bin may hold more.
    differ = not isinstance(problem.capacity, int)
    if room >= 1 << SUM_BITS or (differ and problem.oversized == "single"):
        return None
    alone = int(oversized.sum()) * (problem.max_capacity or 0)
    return room - alone - exact_sum(problem.tokens[~oversized])


def least_padding(problem: Problem) -> int:
    """A lower bound on the pad cost of all bins together.

    The unused tokens of all bins have a known sum. Where the cost of t unused tokens is convex in t, an even spread is
    the cheapest (Jensen); otherwise every unused token costs at least the smallest pad_cost[t] / t.
    """
    if problem.pad_cost is None or problem.bins_per_rank is None or problem.is_oversized().any():
        return 0
    capacities, table = problem.capacities(), problem.pad_cost
    unused = exact_sum(capacities) - exact_sum(problem.tokens)
    if unused < 0:
        return 0
    steps = np.diff(table)
    if isinstance(problem.capacity, int) and (steps[1:] >= steps[:-1]).all():
        each, more = divmod(unused, capacities.size)
        if each >= problem.capacity:
            return int(table[-1]) * capacities.size
        return int(table[each]) * (capacities.size - more) + int(table[each + 1]) * more
    return padding_item(problem, unused)


def padding_item(problem: Problem, unused: int) -> int:
    """A lower bound on the cost of so many unused tokens, however they are spread: the cheapest rate of the table."""
    table = problem.pad_cost
    assert table is not None
    ratios = table[1:] / np.arange(1.0, table.size)
    best = int(np.argmin(ratios)) + 1
    # One part in 2**40 covers the rounding of the quotients that chose the entry.
    return max(0, unused * int(table[best]) // best * ((1 << 40) - 1) >> 40)
