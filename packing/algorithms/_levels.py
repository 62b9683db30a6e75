"""Layouts under cost levels: what the MULTIFIT family tries, and the best that it has found."""

from __future__ import annotations

import numpy as np

from packing import _kernels
from packing._checks import Int64Array
from packing._fixed_point import exact_sum
from packing.algorithms._entries import entries_of
from packing.algorithms.placement import placement_order
from packing.assignment import Assignment
from packing.partition import Int32Array, descending_order
from packing.problem import Problem

__all__ = ["LevelSearch"]

_NONE64 = np.empty(0, np.int64)


class LevelSearch:
    """One sort and one set of arrays for many placements of a problem under different levels; keeps the best layout.

    A unit is what has a level: a rank, or a bin where packs are scheduled into rounds. Units wait for each other in
    rounds of `round_size`. Layouts are compared by the problem's score, then by the sum over rounds of the largest
    unit, units sorted into rounds: where the longest sample binds, the other rounds still count.

    Args:
        problem: with a fixed number of bins per rank.
        order: int32[N], the samples by cost, then tokens, descending, then index; sorted here if None.

    Attributes:
        possible: False where no placement can be tried: samples of one group can never share a bin, or there are
            fewer entries than bins. Then there are no other attributes.
        entries, order: what is placed, and in which order; `reordered` where that is not by cost alone.
        total_capacity: tokens of all bins. expected_padding: pad cost of all bins with the unused tokens spread evenly.
    """

    def __init__(self, problem: Problem, order: Int32Array | None = None) -> None:
        assert problem.bins_per_rank is not None
        assert problem.round_size is not None
        self.problem = problem
        self.round_size = problem.round_size
        self.num_units = problem.num_bins if problem.objective.name == "rounds" else problem.ranks
        self._best: tuple[tuple[int, int], Assignment | Int32Array] | None = None
        entries = entries_of(problem)
        self.possible = entries is not None and entries.tokens.size >= problem.num_bins
        if entries is None or not self.possible:
            return
        self.entries = entries
        # An order of samples is one of entries only where nothing was merged.
        self.order = placement_order(entries, None if entries.entry_of is not None else order)
        self.reordered = entries.rank_group.size > 0 or entries.forbid.size > 0
        self._bin_of = np.empty(self.order.size, np.int32)
        self._loads = np.empty(problem.num_bins, np.int64)
        self._capacities = problem.capacities()
        self._budgets = _NONE64 if problem.budgets is None else problem.budgets
        self._pad_cost = _NONE64 if problem.pad_cost is None else problem.pad_cost
        self.total_capacity = exact_sum(self._capacities)
        self.expected_padding = self._padding()
        shape = problem.ranks, problem.bins_per_rank, self._budgets.size, entries.num_rank_groups
        self._workspace = np.empty(_kernels.level_fit.place_workspace(self.order.size, *shape), np.uint8)

    def place(self, levels: Int64Array, rule: int, *, may_overflow: bool = False) -> Assignment | None:
        """One placement, whatever it costs, or None where some entry found no bin. See `level_fit.place`."""
        return self._layout(self._bin_of) if self._place(levels, rule, may_overflow) else None

    def attempt(self, levels: Int64Array, rule: int) -> int | None:
        """One placement; it becomes the best layout if it is better than that.

        Returns:
            By how much the unit that exceeds its level most exceeds it (negative: slack of all), or None where some
            entry found no bin.
        """
        if not self._place(levels, rule, False):
            return None
        # What a component costs is not in the loads; nothing else needs the layout before it is the best.
        key = self._key(self._loads, self._layout(self._bin_of) if self.problem.objective.weights else None)
        if self._improves(key):
            self._best = key, self._bin_of.copy()
        return int((self._loads.reshape(self.num_units, -1).sum(axis=1) - levels).max())

    def offer(self, layout: Assignment | None) -> None:
        """A layout from elsewhere; it becomes the best one if it is better than that. It must keep all limits."""
        if layout is not None:
            key = self._key(self.problem.pack_loads(layout), layout)
            if self._improves(key):
                self._best = key, layout

    @property
    def score(self) -> tuple[int, int] | None:
        """The problem's score and the rounds of the best layout, or None while there is none."""
        return None if self._best is None else self._best[0]

    def best(self) -> Assignment | None:
        """The best layout so far."""
        if self._best is None:
            return None
        found = self._best[1]
        return found if isinstance(found, Assignment) else self._layout(found)

    def _place(self, levels: Int64Array, rule: int, may_overflow: bool) -> bool:
        problem, entries = self.problem, self.entries
        placed = _kernels.level_fit.place(
            entries.tokens, entries.cost, entries.count, entries.footprints, entries.forbid, entries.rank_group,
            entries.num_rank_groups, self.order, self._capacities, self._budgets, self._pad_cost, problem.ranks,
            problem.bins_per_rank or 1, levels, problem.max_items or 0, problem.oversized == "single", rule,
            may_overflow, self._bin_of, self._loads, self._workspace,
        )  # fmt: skip
        return placed == self.order.size

    def sample_order(self) -> Int32Array:
        """int32[N], the samples by cost, then tokens, descending, then index."""
        problem = self.problem
        whole = self.entries.entry_of is None and not self.reordered
        return self.order if whole else descending_order(problem.cost, problem.tokens)

    def _padding(self) -> int:
        if self.problem.pad_cost is None:
            return 0
        bins = self.problem.num_bins
        unused = max(0, self.total_capacity - exact_sum(self.entries.tokens)) // bins
        return bins * int(self._pad_cost[min(unused, self._pad_cost.size - 1)])

    def _improves(self, key: tuple[int, int]) -> bool:
        return self._best is None or key < self._best[0]

    def _key(self, loads: Int64Array, layout: Assignment | None) -> tuple[int, int]:
        problem = self.problem
        if layout is None:
            score = problem.objective.score(loads, problem.ranks, problem.bins_per_rank or 1, self.round_size)
        else:
            score = problem.score(layout)
        units = loads.reshape(self.num_units, -1).sum(axis=1)
        if self.round_size == self.num_units:
            return score, int(units.max())
        return score, int(np.sort(units)[:: -self.round_size].sum())

    def _layout(self, bin_of: Int32Array) -> Assignment:
        return self.entries.layout(self.order, bin_of, self.problem.num_bins)
