"""Search for rows: the smallest multiple of a count for which a layout is found, with the work of the rows balanced."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from packing._checks import Int64Array
from packing._identities import settings_fingerprint
from packing._row_items import RowItems, Wholes
from packing._row_plans import RowPlanner, bins_of
from packing.bin_bounds import bin_lower_bound
from packing.errors import InfeasibleError, NoCandidateError
from packing.plan import Plan

__all__ = ["FoundRows", "RowSearch", "in_order"]


@dataclass(frozen=True)
class FoundRows:
    """Rows that keep every limit; the rows that have items come from one plan.

    Attributes:
        rows: one int64 array of items for each of R rows; dummy rows are empty.
        loads: float64[R], the work of each row.
        plan: over the rows (or ranks) that are planned; its items are numbered as they were planned. None: no items.
        algorithm: what made it; None: no items.
    """

    rows: list[Int64Array]
    loads: npt.NDArray[np.float64]
    plan: Plan | None
    algorithm: str | None

    def arranged(self, order: Int64Array, num_packs: int, ranks: int | None) -> FoundRows:
        """The rows one step after another, num_packs in each, and in a step rank after rank.

        Args:
            order: int64[R], the rows in the order wanted; with `ranks` it counts among the rows of each rank.
            num_packs: rows in each step.
            ranks: rows are rank-major in R / ranks rows each; None: every row may come anywhere.
        """
        if ranks is not None:
            per_rank, each = len(self.rows) // ranks, num_packs // ranks
            rank_of = order // per_rank
            by_rank = order[np.argsort(rank_of, kind="stable")].reshape(ranks, per_rank // each, each)
            order = by_rank.transpose(1, 0, 2).reshape(-1)
        rows = [self.rows[row] for row in order.tolist()]
        return FoundRows(rows, self.loads[order], self.plan, self.algorithm)


@dataclass(frozen=True)
class RowSearch:
    """What is searched for; every setting is checked.

    Attributes:
        plans: what finds a layout in a given number of rows.
        num_packs: the number of rows is a multiple of it.
        first_fit: rows by first fit in the order of the items instead; with groups on ranks by `auto`.
        ranks: the rows of a rank are balanced together; None: every row by itself.
        group_scope: "bin" or "rank".
    """

    plans: RowPlanner
    num_packs: int
    first_fit: bool = False
    ranks: int | None = None
    group_scope: str = "bin"

    def search(self, items: RowItems, lengths: Int64Array, costs: npt.NDArray[Any]) -> FoundRows:
        """The rows.

        Args:
            items: P items; where the algorithm breaks ties by index, the first one counts.
            lengths: int64[P], their tokens before alignment.
            costs: [P], int64 or float64, their work.

        Raises:
            NoCandidateError: no layout was found with any number of rows; never by `auto`, except with groups on ranks.
            UnsupportedProblemError: the algorithm does not know a limit.
        """
        if items.tokens.size == 0:
            return FoundRows([np.empty(0, np.int64)] * self.num_packs, np.zeros(self.num_packs), None, None)
        in_rows = items if self.group_scope == "bin" else dataclasses.replace(items, groups=None)
        wholes = Wholes.of(in_rows)
        error: Exception | None = None
        for num_rows, row_of, order in self._counts(items, wholes):
            try:
                return self._planned(items, wholes, lengths, costs, num_rows, row_of, order)
            except (NoCandidateError, InfeasibleError) as found_none:
                error = found_none
        assert error is not None
        raise error

    def _counts(self, items: RowItems, wholes: Wholes) -> Iterator[tuple[int, Int64Array | None, Int64Array]]:
        """(number of rows, rows of the wholes that are known to keep the caps or None, order of placing), ascending."""
        capacity, max_items = self._capacity, self.plans.planner.max_items
        by_index = np.arange(wholes.tokens.size)
        order = by_index if self.first_fit else np.argsort(-wholes.tokens, kind="stable")
        known = wholes.first_fit(order, capacity, max_items)
        most = self._multiple(int(known.max()) + 1)
        on_ranks = items.groups is not None and self.group_scope == "rank"
        if self.first_fit and not on_ranks:
            yield most, known, order
            return
        fewest = self._multiple(self._bound(wholes.tokens, wholes.counts, wholes.kinds))
        if fewest < most:
            searched = wholes.fewest(capacity, max_items)
            if searched is not None:
                fewest = self._multiple(int(searched.max()) + 1)
                if fewest <= most:
                    known, most = searched, fewest
                fewest = most
        if on_ranks:
            # With rows on its rank for every item there is, no group is in the way.
            fewest, most = max(fewest, self._bound_on_ranks(items)), self._multiple(items.tokens.size * self.num_packs)
            for num_rows in range(fewest, most + 1, self.num_packs):
                yield num_rows, None, order
            return
        for num_rows in range(fewest, most, self.num_packs):
            yield num_rows, None, order
        yield most, known, order
        if not (self.plans.is_auto or self.plans.lenient):
            for num_rows in range(most + self.num_packs, self._multiple(wholes.tokens.size) + 1, self.num_packs):
                yield num_rows, None, order

    def _planned(
        self,
        items: RowItems,
        wholes: Wholes,
        lengths: Int64Array,
        costs: npt.NDArray[Any],
        num_rows: int,
        row_of: Int64Array | None,
        order: Int64Array,
    ) -> FoundRows:
        """A layout in this many rows.

        Args:
            row_of, order: as `_counts` gives them.

        Raises:
            NoCandidateError, InfeasibleError: none was found; not by `auto` where rows are known.
        """
        num_items, kinds, groups = lengths.size, items.kinds, items.groups
        filled = min(num_rows, wholes.tokens.size)
        settings: dict[str, Any] = {"data_parallel_size": filled, "local_batch_size": 1}
        if self.ranks is not None:
            settings = {"data_parallel_size": self.ranks, "local_batch_size": num_rows // self.ranks}
            missing = self._missing(items, num_rows, filled)
            if missing:  # a plan has no empty bin: what stands in for nothing shares a row with no item
                lengths = np.concatenate((lengths, np.ones(missing, np.int64)))
                costs = np.concatenate((costs, np.zeros(missing, costs.dtype)))
                kinds = np.zeros(num_items, np.int64) if kinds is None else kinds
                kinds = np.concatenate((kinds, np.full(missing, int(kinds.max()) + 1)))
                groups = None if groups is None else np.concatenate((groups, np.full(missing, -1)))
        columns: dict[str, Any] = {"length": lengths, "cost": costs}
        for option, labels in (("forbid", kinds), ("group", groups)):
            if labels is not None:
                columns[option] = labels
                settings[option] = option
        settings["group_scope"] = self.group_scope
        by_kind = kinds is not None and self.ranks is None and (self.plans.is_auto or self.plans.lenient)
        if row_of is not None and by_kind and not self.first_fit:
            found = self.plans.plan_by_kind(columns, settings, items, wholes, row_of, order)
            if found is not None:
                return self._rows(*found, num_rows, num_items)
        start = None if row_of is None else Wholes.spread(row_of, order, filled)[wholes.whole_of]
        reference = None if start is None else self._reference(start, lengths.size, settings)
        if self.first_fit and reference is not None:
            return self._rows(self.plans.as_it_is(columns, settings, reference), "first_fit", num_rows, num_items)
        plan = self.plans.plan(columns, settings, reference)
        return self._rows(plan, plan.algorithm, num_rows, num_items)

    def _rows(self, plan: Plan, algorithm: str, num_rows: int, num_items: int) -> FoundRows:
        bins = np.split(plan.items.astype(np.int64), plan.offsets[1:-1])
        dummies = num_rows - plan.num_bins
        rows = [row[row < num_items] for row in bins] + [np.empty(0, np.int64)] * dummies
        return FoundRows(rows, np.concatenate((plan.bin_costs, np.zeros(dummies))), plan, algorithm)

    def _missing(self, items: RowItems, num_rows: int, filled: int) -> int:
        """Stand-ins that a plan of all rows on the ranks needs."""
        assert self.ranks is not None
        if items.groups is None or self.group_scope == "bin":
            return num_rows - filled
        placed = Wholes.of(items).tokens.size
        return max(num_rows - items.tokens.size, (self.ranks - placed) * (num_rows // self.ranks), 0)

    def _reference(self, start: Int64Array, num_items: int, settings: dict[str, Any]) -> list[Int64Array] | None:
        """The bins of a known layout, or None where it may break a group's rank."""
        if "group" in settings and self.group_scope == "rank":
            return None
        bins = bins_of(np.concatenate((start, int(start.max()) + 1 + np.arange(num_items - start.size))))
        ranks = settings["data_parallel_size"]
        return [bins[at] for at in np.arange(len(bins)).reshape(-1, ranks).T.reshape(-1)]

    def _bound(self, tokens: Int64Array, counts: Int64Array, kinds: Int64Array) -> int:
        """No layout of these has fewer rows."""
        max_items = self.plans.planner.max_items
        bound = 0
        for kind in np.unique(kinds):
            chosen = kinds == kind
            each, _ = bin_lower_bound(tokens[chosen], self._capacity, quick=True)
            segments = int(counts[chosen].sum())
            bound += each if max_items is None else max(each, -(-segments // max_items))
        return bound

    def _bound_on_ranks(self, items: RowItems) -> int:
        """No layout has fewer rows, because one rank takes the largest group; a multiple of `num_packs`."""
        assert items.groups is not None
        assert self.ranks is not None
        ones = np.ones(items.tokens.size, np.int64)
        kinds = ones if items.kinds is None else items.kinds
        largest = 0
        for group in np.unique(items.groups[items.groups >= 0]):
            chosen = items.groups == group
            largest = max(largest, self._bound(items.tokens[chosen], ones[chosen], kinds[chosen]))
        return self._multiple(largest * self.ranks)

    @property
    def fingerprint(self) -> str:
        """Of the package's version, the algorithm and all settings of the search."""
        plans = self.plans
        own = [plans.lenient, self.num_packs, self.first_fit, self.ranks, self.group_scope]
        return settings_fingerprint(plans.planner.config_fingerprint, plans.fallback.config_fingerprint, own)

    @property
    def _capacity(self) -> int:
        assert self.plans.planner.seq_len is not None
        return self.plans.planner.seq_len

    def _multiple(self, num_rows: int) -> int:
        return max(1, -(-num_rows // self.num_packs)) * self.num_packs


def in_order(rows: list[Int64Array], position: Int64Array) -> Int64Array:
    """int64[R]: the rows by the position of their first item; dummy rows last.

    Args:
        position: int64[P], of each item.
    """
    first = np.array([position[row].min() if row.size else position.size for row in rows], np.int64)
    return np.argsort(first, kind="stable")
