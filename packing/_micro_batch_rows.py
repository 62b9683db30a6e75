"""Which units each rank runs together, where tokens and work add up: the count, the micro-batches, the rounds."""

from __future__ import annotations

import numpy as np

from packing._checks import Int64Array
from packing._even_counts import even_counts
from packing._micro_batch_units import Bins, Settings, Solver, Units
from packing.errors import ConfigError, InfeasibleError, UnsupportedProblemError
from packing.plan import Plan

__all__ = ["Additive", "checked_total", "dealt", "descending"]

_MOST_BATCHES = 2**24  # each is an array of its own, dummies too

_NEAR_BITS = 10
"""Balance between all micro-batches within 2**-10 of the bound on the step ends the search."""


class Additive:
    """Micro-batches whose tokens and work are sums; ranks' rows descend in load, dummies left out."""

    def __init__(self, units: Units, settings: Settings, ranks: int, on: Int64Array | None) -> None:
        self.units, self.settings, self.ranks, self.on = units, settings, ranks, on
        self.solver = Solver(units, settings.budget, settings.max_items, settings.algorithm)

    def solved(self) -> tuple[list[Bins], int]:
        """The units of every rank's micro-batches, and a lower bound on the step."""
        if self.on is not None:
            return self._where_they_lie(self.on)
        everything = np.arange(self.units.size)
        start = self.solver.fewest(everything)
        count = self.settings.count(-(-len(start) // self.ranks))
        checked_total(count * self.ranks)
        if self.settings.equal_count:
            return self._equal_counts(everything, start, count)
        return self._free(everything, start, count)

    def _free(self, everything: Int64Array, start: Bins, count: int) -> tuple[list[Bins], int]:
        slots = count * self.ranks
        if self.units.size <= slots:
            return self._dealt(list(everything[:, None])), self._alone_bound()
        bins = self.solver.balanced(everything, slots, start)
        rows, bound = self._dealt(bins), -(-int(self.units.costs.sum()) // self.ranks)
        if self._step(rows) - bound <= bound >> _NEAR_BITS or self.ranks == 1:
            return rows, bound
        # Some sample is so long that equal micro-batches are out of reach; what counts is each round's largest.
        try:
            plan = self.solver.in_rounds(count, self.ranks, [members for row in rows for members in row])
        except UnsupportedProblemError:  # an algorithm that knows no rounds
            return rows, bound
        return (rows, bound) if plan is None else (self._of_plan(plan), plan.bound.score)

    def _where_they_lie(self, on: Int64Array, least: int = 1) -> tuple[list[Bins], int]:
        parts = [np.flatnonzero(on == rank) for rank in range(self.ranks)]
        starts = [self.solver.fewest(part) for part in parts]
        count = self.settings.count(max(least, max(map(len, starts))))
        checked_total(count * self.ranks)
        rows = []
        for part, start in zip(parts, starts, strict=True):
            bins = self.solver.balanced(part, count, start) if part.size > count else list(part[:, None])
            rows.append(descending(bins, self._loads(bins)))
        totals = [int(self.units.costs[part].sum()) for part in parts]
        return rows, max(*totals, int(self.units.costs.max()))

    def _equal_counts(self, everything: Int64Array, start: Bins, count: int) -> tuple[list[Bins], int]:
        units, ranks = self.units, self.ranks
        if (units.counts != units.counts[0]).any():
            raise ConfigError("`group` must have groups of one size (and no samples beside them) with `equal_count`.")
        if units.size % ranks:
            raise InfeasibleError(
                f"`equal_count` needs a multiple of the {ranks} ranks, but there are {units.size} samples or groups."
            )
        if units.size <= count * ranks:
            return self._free(everything, start, count)
        even = even_counts(self._free(everything, start, count)[0], units, self.settings)
        apart, _ = self._where_they_lie(self.solver.dealt(ranks), count)
        reached = self.settings.count(max(map(len, apart)))
        starts = [] if even is None else [even]
        for fewer in range(count, reached + 1, self.settings.multiple_of):
            starts += [apart] if fewer == reached and all(len(row) == fewer for row in apart) else []
            best = min(starts, key=self._step, default=None)
            lies = None if best is None else [members for row in best for members in row]
            plan = self.solver.in_rounds(fewer, ranks, lies, equal_count=True)
            if plan is not None:
                return self._of_plan(plan), plan.bound.score
        return apart, -(-int(units.costs.sum()) // ranks)

    def _of_plan(self, plan: Plan) -> list[Bins]:
        bins = [np.asarray(members, np.int64) for members in plan.bins()]
        rows = [bins[at : at + plan.bins_per_rank] for at in range(0, len(bins), plan.bins_per_rank)]
        return [descending(row, self._loads(row)) for row in rows]

    def _dealt(self, bins: Bins) -> list[Bins]:
        return dealt(bins, self._loads(bins), self.ranks)

    def _loads(self, bins: Bins) -> list[int]:
        return [int(self.units.costs[members].sum()) for members in bins]

    def _step(self, rows: list[Bins]) -> int:
        """Sum over the rounds of the largest load."""
        loads = [self._loads(row) for row in rows]
        return sum(max(row[j] for row in loads if j < len(row)) for j in range(max(map(len, loads))))

    def _alone_bound(self) -> int:
        """With every unit alone the rounds are as good as they get: sorted."""
        costs = np.sort(self.units.costs)[::-1]
        return int(costs[:: self.ranks].sum())


def checked_total(batches: int) -> None:
    """Raises a ConfigError where there would be more micro-batches than indices."""
    if batches > _MOST_BATCHES:
        raise ConfigError(f"there must be at most {_MOST_BATCHES} micro-batches, but `min_count` asks for {batches}.")


def descending(bins: Bins, loads: list[int]) -> Bins:
    """The micro-batches of a rank, heaviest first."""
    return [bins[b] for b in sorted(range(len(bins)), key=lambda b: -loads[b])]


def dealt(bins: Bins, loads: list[int], ranks: int) -> list[Bins]:
    """Rounds of micro-batches that are alike, heaviest first; in each the heaviest goes to the rank with least so far.

    Sorted into rounds, the sum of the largest of each round is the smallest there is.
    """
    rows: list[Bins] = [[] for _ in range(ranks)]
    totals = [0] * ranks
    order = sorted(range(len(bins)), key=lambda b: -loads[b])
    for first in range(0, len(order), ranks):
        turn = sorted(range(ranks), key=lambda rank: totals[rank])
        for rank, b in zip(turn, order[first : first + ranks], strict=False):
            rows[rank].append(bins[b])
            totals[rank] += loads[b]
    return rows
