"""Plans of rows: a layout in a given number of rows by an algorithm, by `auto` where that fails, or kind by kind."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from packing._checks import Int64Array
from packing._row_items import RowItems, Wholes
from packing.errors import NoCandidateError, UnsupportedProblemError
from packing.plan import Plan
from packing.planner import Planner

__all__ = ["RowPlanner", "bins_of"]

_CLOSE = 0.02
"""How far above its bound the largest load may be before the search goes on with more effort."""

_FIRST_CHECKS, _MORE_CHECKS, _MOST_ITEMS = 3 << 19, 1 << 24, 1 << 13
"""Checks of `auto` at first (half of its "normal" effort: some 15 ms for 1,024 items in 128 rows) and of the search
that goes on (some 60 ms), up to so many items; beyond, its effort is "normal"."""

_MOST_KINDS = 32
"""Kinds up to which each is planned by itself; every plan takes a millisecond at least."""

_MOST_MADE = 64
"""Planners that are kept; a stream of updates asks for the same few again and again."""


@dataclass(frozen=True)
class RowPlanner:
    """What finds a layout in a given number of rows.

    Attributes:
        planner: cap, alignment, algorithm, most items in a row, oversized policy; ranks and labels are set per plan.
        fallback: the same with the algorithm `auto`; the planner itself where that is its algorithm.
        lenient: the fallback stands in where the planner's algorithm finds no layout or does not know a limit.
    """

    planner: Planner
    fallback: Planner
    lenient: bool
    _made: dict[tuple[bool, str], Planner] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def is_auto(self) -> bool:
        """Whether the planner's algorithm is `auto`."""
        return self.planner is self.fallback

    def plan(
        self, columns: dict[str, Any], settings: dict[str, Any], reference: Sequence[Any] | None, total: int = 0
    ) -> Plan:
        """A layout; by `auto` one whose largest load is close to its bound, or what more effort makes of it.

        Args:
            columns: of the items, "length" and "cost" among them.
            settings: of the planner.
            reference: the bins of a known layout, for `auto` to improve.
            total: items among which the checks are shared out; 0: these.

        Raises:
            NoCandidateError, InfeasibleError, UnsupportedProblemError: as the planner does; by `auto` not with a
                reference.
        """
        if not self.is_auto:
            try:
                return self._with(self.planner, settings).plan(columns)
            except (NoCandidateError, UnsupportedProblemError):
                if not self.lenient:
                    raise
        total = total or columns["length"].size
        plan = self._auto(columns, settings, reference, _FIRST_CHECKS, total)
        return plan if plan.gap <= _CLOSE else self._with_more_effort(columns, settings, plan, total)

    def _auto(
        self,
        columns: dict[str, Any],
        settings: dict[str, Any],
        reference: Sequence[Any] | None,
        checks: int,
        total: int,
    ) -> Plan:
        if self.fallback.algorithm == "auto" and total <= _MOST_ITEMS:
            settings = settings | {"algorithm": {"name": "auto", "effort": max(1, checks // total)}}
        return self._with(self.fallback, settings).plan(columns, reference)

    def _with(self, planner: Planner, settings: dict[str, Any]) -> Planner:
        """The planner with these settings, kept: making it takes a fifth of the time of a small update."""
        key = (planner is self.planner, repr(settings))
        if key not in self._made:
            if len(self._made) >= _MOST_MADE:
                self._made.clear()
            self._made[key] = dataclasses.replace(planner, **settings)
        return self._made[key]

    def _with_more_effort(self, columns: dict[str, Any], settings: dict[str, Any], plan: Plan, total: int) -> Plan:
        if self.fallback.algorithm != "auto" or total > _MOST_ITEMS:
            return plan
        return self._auto(columns, settings, plan.bins(), _MORE_CHECKS, total)

    def as_it_is(self, columns: dict[str, Any], settings: dict[str, Any], layout: Sequence[Any]) -> Plan:
        """A known layout, audited, with its loads and bound."""
        return self._with(self.fallback, settings | {"algorithm": "none"}).plan(columns, layout)

    def plan_by_kind(
        self,
        columns: dict[str, Any],
        settings: dict[str, Any],
        items: RowItems,
        wholes: Wholes,
        row_of: Int64Array,
        order: Int64Array,
    ) -> tuple[Plan, str] | None:
        """A layout in rows of several kinds, and what made it.

        Exchanges cannot give a row of one kind to another. Where they do not come close to the bound, and for another
        algorithm than `auto`, rows are shared out among the kinds by work and each kind is laid out by itself.

        Args:
            columns, settings: as in `plan`; every row is a rank.
            items: with kinds.
            wholes: of the items.
            row_of: int64[W], the rows of a known layout with as few rows as are known to do.
            order: int64[W], as in `Wholes.spread`.

        Returns:
            None where there are too many kinds.
        """
        assert items.kinds is not None
        kinds = np.unique(wholes.kinds)
        if kinds.size > _MOST_KINDS:
            return None
        total = items.tokens.size
        together = None
        if self.is_auto:
            start = Wholes.spread(row_of, order, settings["data_parallel_size"])[wholes.whole_of]
            together = self._auto(columns, settings, bins_of(start), _FIRST_CHECKS, total)
            if together.gap <= _CLOSE:
                return together, together.algorithm
        num_rows = _shared_rows(wholes, row_of, columns["cost"], settings["data_parallel_size"])
        bins: list[Int64Array] = []
        names = set()
        for kind, rows in zip(kinds, num_rows, strict=True):
            chosen, mine = np.flatnonzero(items.kinds == kind), wholes.kinds == kind
            part = RowItems(items.tokens[chosen], None, None if items.groups is None else items.groups[chosen])
            number = np.cumsum(mine) - 1
            known = np.unique(row_of[mine], return_inverse=True)[1]
            known = Wholes.spread(known, number[order[mine[order]]], int(rows))[number[wholes.whole_of[chosen]]]
            sub_columns = {"length": columns["length"][chosen], "cost": columns["cost"][chosen]}
            sub_settings = settings | {"data_parallel_size": int(rows), "forbid": None, "group": None}
            if part.groups is not None:
                sub_columns["group"], sub_settings["group"] = part.groups, "group"
            plan = self.plan(sub_columns, sub_settings, bins_of(known), total)
            names.add(plan.algorithm)
            bins += [chosen[row] for row in plan.bins()]
        plan = self.as_it_is(columns, settings, bins)
        if together is not None:
            plan = min(together, plan, key=lambda one: one.gap)
            plan = plan if plan.gap <= _CLOSE else self._with_more_effort(columns, settings, plan, total)
        return plan, names.pop() if len(names) == 1 else "auto"


def bins_of(rows: Int64Array) -> list[Int64Array]:
    """The items of each row, of the row of each item; no row is empty."""
    by_row = np.argsort(rows, kind="stable")
    return np.split(by_row, np.cumsum(np.bincount(rows))[:-1])


def _shared_rows(wholes: Wholes, row_of: Int64Array, costs: Any, num_rows: int) -> Int64Array:
    """int64[kinds]: rows of each kind; those beyond the fewest known go to where most work is in each, one by one."""
    kind_of = np.unique(wholes.kinds, return_inverse=True)[1]
    most = np.bincount(kind_of)
    work = np.bincount(kind_of[wholes.whole_of], weights=costs.astype(np.float64))
    rows = np.array([np.unique(row_of[kind_of == kind]).size for kind in range(most.size)])
    for _ in range(num_rows - int(rows.sum())):
        rows[np.argmax(np.where(rows < most, work / rows, -1.0))] += 1
    return rows
