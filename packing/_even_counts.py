"""Equally many units on every rank, from micro-batches that were dealt without regard to it."""

from __future__ import annotations

import numpy as np

from packing._checks import Int64Array
from packing._micro_batch_units import Bins, Settings, Units

__all__ = ["even_counts"]


def even_counts(rows: list[Bins], units: Units, settings: Settings) -> list[Bins] | None:
    """The same micro-batches, dealt anew inside each round, then cheap units moved from ranks with too many.

    Args:
        rows: R lists of M micro-batches, rounds aligned; the number of units is a multiple of R.
        units, settings: for their costs and limits.

    Returns:
        R lists of M, or None where no move keeps the limits.
    """
    layout = _Layout(_dealt_by_count(rows), units, settings)
    wanted = sum(members.size for row in rows for members in row) // len(rows)
    while True:
        totals = layout.totals()
        giver, taker = int(np.argmax(totals)), int(np.argmin(totals))
        if totals[giver] == wanted:
            return layout.rows()
        if not layout.move(giver, taker):
            return None


def _dealt_by_count(rows: list[Bins]) -> list[Bins]:
    """In every round the micro-batch with most units goes to the rank with fewest so far; uneven rounds first."""
    ranks, count = len(rows), len(rows[0])
    sizes = np.asarray([[members.size for members in row] for row in rows])
    result: list[Bins] = [[np.empty(0, np.int64)] * count for _ in rows]
    totals = np.zeros(ranks, np.int64)
    for j in np.argsort(sizes.min(axis=0) - sizes.max(axis=0), kind="stable").tolist():
        givers, takers = np.argsort(-sizes[:, j], kind="stable"), np.argsort(totals, kind="stable")
        for giver, taker in zip(givers.tolist(), takers.tolist(), strict=True):
            result[taker][j] = rows[giver][j]
            totals[taker] += sizes[giver, j]
    return result


class _Layout:
    """[R, M] micro-batches with what moves change."""

    def __init__(self, rows: list[Bins], units: Units, settings: Settings) -> None:
        self.shape = len(rows), len(rows[0])
        self.units, self.settings = units, settings
        self.place = np.empty(units.size, np.int64)  # rank * M + round
        for number, members in enumerate(members for row in rows for members in row):
            self.place[members] = number
        self.loads = self._sums(units.costs)
        self.tokens, self.counts, self.sizes = (
            self._sums(values) for values in (units.tokens, units.counts, np.ones(units.size, np.int64))
        )
        kinds = np.zeros(units.size, np.int64) if units.kinds is None else units.kinds
        self.kinds, self.kind_of = kinds, np.asarray([int(kinds[members[0]]) for row in rows for members in row])

    def _sums(self, values: Int64Array) -> Int64Array:
        sums = np.zeros(self.shape[0] * self.shape[1], np.int64)
        np.add.at(sums, self.place, values)
        return sums

    def totals(self) -> Int64Array:
        """int64[R]: units on each rank."""
        totals: Int64Array = self.sizes.reshape(self.shape).sum(axis=1)
        return totals

    def rows(self) -> list[Bins]:
        """R lists of M."""
        order = np.argsort(self.place, kind="stable")
        bins = np.split(order, np.cumsum(self.sizes)[:-1])
        return [bins[at : at + self.shape[1]] for at in range(0, len(bins), self.shape[1])]

    def move(self, giver: int, taker: int) -> bool:
        """The move that lifts the largest of its round least, then the cheapest unit; whether there is one."""
        units, rounds = self.units, self.shape[1]
        movable = np.flatnonzero((self.place // rounds == giver) & (self.sizes[self.place] > 1))
        to = taker * rounds + np.arange(rounds)
        fits = self.tokens[to] + units.tokens[movable][:, None] <= self.settings.budget
        fits &= self.kind_of[to] == self.kinds[movable][:, None]
        if self.settings.max_items is not None:
            fits &= self.counts[to] + units.counts[movable][:, None] <= self.settings.max_items
        if not fits.any():
            return False
        costs = units.costs[movable][:, None]
        lifted = np.maximum(self.loads[to] + costs - self.loads.reshape(self.shape).max(axis=0), 0)
        candidates = np.flatnonzero(fits.reshape(-1))
        keys = (np.broadcast_to(costs, fits.shape).reshape(-1)[candidates], lifted.reshape(-1)[candidates])
        unit, round_ = divmod(int(candidates[np.lexsort(keys)[0]]), rounds)
        self._put(int(movable[unit]), int(to[round_]))
        return True

    def _put(self, unit: int, place: int) -> None:
        units, old = self.units, int(self.place[unit])
        self.place[unit] = place
        for sums, value in (
            (self.loads, units.costs[unit]), (self.tokens, units.tokens[unit]), (self.counts, units.counts[unit]),
            (self.sizes, 1),
        ):  # fmt: skip
            sums[old] -= value
            sums[place] += value
