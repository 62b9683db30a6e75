"""Units of micro-batches (a sample, or samples that stay together): in how few they fit, and how evenly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from packing._checks import Int64Array
from packing._fewest_bins import EFFORTS
from packing.alignment import Alignment
from packing.bins import fit_bins, fit_fewest
from packing.errors import InfeasibleError, NoCandidateError
from packing.plan import Plan
from packing.planner import Planner
from packing.problem import Problem

__all__ = ["Bins", "Settings", "Solver", "Units", "gathered"]

Bins = list[Int64Array]
"""The units of each micro-batch; none of them empty."""


@dataclass(frozen=True)
class Settings:
    """The checked arguments of `micro_batches`; `ranks` is None where it was not given."""

    budget: int
    budget_name: str
    ranks: int | None
    multiple_of: int
    min_count: int
    estimator: Any
    algorithm: Any
    order: str
    alignment: Alignment
    max_items: int | None
    equal_count: bool
    padded: bool

    def count(self, needed: int) -> int:
        """The smallest allowed count that is not below `needed`."""
        return -(-max(needed, self.min_count) // self.multiple_of) * self.multiple_of


@dataclass(frozen=True)
class Units:
    """What is dealt out as a whole: U units, in the order of their first samples.

    Attributes:
        of_sample: int64[N], the unit of each sample.
        tokens, costs, counts: int64[U], sums over the samples of each unit.
        kinds: int64[U], units of different kinds never share a micro-batch; None: all may.
    """

    of_sample: Int64Array
    tokens: Int64Array
    costs: Int64Array
    counts: Int64Array
    kinds: Int64Array | None

    @property
    def size(self) -> int:
        """U."""
        return self.tokens.size

    def samples(self, members: Int64Array) -> Int64Array:
        """The samples of some units."""
        if self.size == self.of_sample.size:
            return members
        return np.concatenate([self._by_unit[unit] for unit in members.tolist()])

    @cached_property
    def _by_unit(self) -> list[Int64Array]:
        return np.split(np.argsort(self.of_sample, kind="stable"), np.cumsum(self.counts)[:-1])


def gathered(problem: Problem, settings: Settings, describe: Callable[[int], str]) -> Units:
    """The units of a problem.

    Raises:
        InfeasibleError: a sample or a group does not fit into any micro-batch; names it and the limit.
    """
    limit, budget = f"`{settings.budget_name}` = {settings.budget}", settings.budget
    over = problem.tokens > budget
    if over.any():
        at = int(np.argmax(over))
        raise InfeasibleError(
            f"{describe(at)} takes {problem.tokens[at]} tokens, over {limit} ({int(over.sum())} such samples)."
        )
    n = problem.num_samples
    labels = np.arange(n) if problem.group is None else np.where(problem.group < 0, n + np.arange(n), problem.group)
    _, first, of_sample = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(first.size, np.int64)
    rank[np.argsort(first)] = np.arange(first.size)  # units by their first sample, whatever the labels are
    of_sample, first = rank[of_sample], np.sort(first)
    tokens, costs = np.zeros(first.size, np.int64), np.zeros(first.size, np.int64)
    np.add.at(tokens, of_sample, problem.tokens)
    np.add.at(costs, of_sample, problem.cost)
    counts = np.bincount(of_sample, minlength=first.size)
    kinds = None if problem.forbid is None else problem.forbid[first]
    units = Units(of_sample, tokens, costs, counts, kinds)
    if (units.tokens > budget).any():
        at = int(np.argmax(units.tokens > budget))
        raise InfeasibleError(
            f"the group of {describe(int(first[at]))} takes {units.tokens[at]} tokens in {units.counts[at]} samples, "
            f"over {limit}."
        )
    _check_groups(problem, units, first, describe)
    return units


def _check_groups(problem: Problem, units: Units, first: Int64Array, describe: Callable[[int], str]) -> None:
    if problem.max_items is not None and (units.counts > problem.max_items).any():
        at = int(np.argmax(units.counts > problem.max_items))
        raise InfeasibleError(
            f"the group of {describe(int(first[at]))} has {units.counts[at]} samples, over `max_items` = "
            f"{problem.max_items}."
        )
    if units.kinds is not None and problem.forbid is not None:
        mixed = problem.forbid != units.kinds[units.of_sample]
        if mixed.any():
            at = int(np.argmax(mixed))
            raise InfeasibleError(
                f"the group of {describe(int(first[units.of_sample[at]]))} must share a micro-batch, but `forbid` "
                f"keeps {describe(at)} apart."
            )


@dataclass(frozen=True)
class Solver:
    """Layouts of units in a given number of micro-batches, by the algorithm that the user chose.

    Attributes:
        units: all of them.
        capacity: most tokens in a micro-batch.
        max_items: most samples in one, or None.
        algorithm: config, as the planner takes it.
    """

    units: Units
    capacity: int
    max_items: int | None
    algorithm: Any
    _planners: dict[tuple[Any, ...], Planner] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def _counted(self) -> bool:
        """Whether `max_items` counts more than units."""
        return self.max_items is not None and bool((self.units.counts > 1).any())

    def fewest(self, chosen: Int64Array) -> Bins:
        """The chosen units in as few micro-batches as first-fit decreasing, best-fit decreasing and a search find."""
        kinds = np.zeros(chosen.size, np.int64) if self.units.kinds is None else self.units.kinds[chosen]
        return [members for kind in np.unique(kinds) for members in self._fewest_of(chosen[kinds == kind])]

    def _fewest_of(self, chosen: Int64Array) -> Bins:
        tokens = self.units.tokens[chosen]
        if self._counted:
            return self._first_fit_decreasing(chosen)
        offsets, items, _, _ = fit_fewest(
            tokens, self.capacity, None, self.max_items, max_steps=EFFORTS["fast"] * min(chosen.size, 64) ** 2 // 64**2
        )
        kind = "first_fit_decreasing"  # best-fit decreasing may need more, if rarely
        if (other := fit_bins(tokens, None, self.capacity, kind, None, self.max_items))[0].size < offsets.size:
            offsets, items = other
        return [chosen[members] for members in np.split(items, offsets[1:-1])]

    def _first_fit_decreasing(self, chosen: Int64Array) -> Bins:
        """With both tokens and samples counted."""
        assert self.max_items is not None
        room, places = np.full(chosen.size, self.capacity), np.full(chosen.size, self.max_items)
        bins: list[list[int]] = []
        for unit in chosen[np.argsort(-self.units.tokens[chosen], kind="stable")].tolist():
            tokens, count = self.units.tokens[unit], self.units.counts[unit]
            at = int(np.argmax((room >= tokens) & (places >= count)))
            bins += [[]] if at == len(bins) else []
            bins[at].append(unit)
            room[at] -= tokens
            places[at] -= count
        return [np.asarray(members, np.int64) for members in bins]

    def balanced(self, chosen: Int64Array, count: int, start: Bins) -> Bins:
        """The chosen units in exactly `count` micro-batches, the largest load as small as found, then the others.

        Args:
            chosen: at least `count` units.
            start: a layout in at most `count` micro-batches.
        """
        alone = self._alone(chosen, count)
        if alone.size:
            rest = chosen[~np.isin(chosen, alone)]
            packed = self.fewest(rest)
            if len(packed) <= count - alone.size:
                bins = self._even(rest, count - alone.size, packed)
                if self._largest(bins) <= int(self.units.costs[alone].max()):
                    return [*alone[:, None], *bins]
        return self._even(chosen, count, start)

    def _alone(self, chosen: Int64Array, count: int) -> Int64Array:
        """Units that cost at least the mean of what they leave: nothing is put beside them."""
        costs = self.units.costs[chosen]
        order = np.argsort(-costs, kind="stable")
        left, alone = int(costs.sum()), 0
        for cost in costs[order].tolist():
            if count - alone <= 1 or cost * (count - alone) <= left:
                break
            left, alone = left - cost, alone + 1
        return chosen[order[:alone]]

    def _largest(self, bins: Bins) -> int:
        return max(int(self.units.costs[members].sum()) for members in bins)

    def _even(self, chosen: Int64Array, count: int, start: Bins) -> Bins:
        if count == 1:
            return [chosen]
        plan = self._planner(ranks=count).plan(self._columns(chosen), _positions(chosen, _split(start, count)))
        return [chosen[members] for members in plan.bins()]

    def in_rounds(self, count: int, ranks: int, start: Bins | None, *, equal_count: bool = False) -> Plan | None:
        """All units on `ranks` ranks of `count` micro-batches, by the sum over the rounds of the largest.

        Args:
            start: a layout in ranks * count micro-batches, rank-major; the plan is never worse.

        Returns:
            The plan, or None where the algorithm found nothing.
        """
        planner = self._planner(ranks=ranks, local_batch_size=count, objective="rounds", equal_count=equal_count)
        chosen = np.arange(self.units.size)
        try:
            return planner.plan(self._columns(chosen), None if start is None else _positions(chosen, start))
        except (InfeasibleError, NoCandidateError):
            return None

    def dealt(self, ranks: int) -> Int64Array:
        """int64[U]: equally many units on every rank, with nearly equal work; caps do not count yet."""
        planner = Planner(data_parallel_size=ranks, local_batch_size=1, equal_count=True)
        plan = planner.plan({"length": self.units.tokens, "cost": self.units.costs})
        rank_of = np.empty(self.units.size, np.int64)
        rank_of[plan.items] = np.repeat(np.arange(ranks), np.diff(plan.offsets))
        return rank_of

    def _planner(
        self, *, ranks: int, local_batch_size: int = 1, objective: str | None = None, **options: Any
    ) -> Planner:
        key = (ranks, local_batch_size, objective, *options.items())
        if key not in self._planners:
            self._planners[key] = Planner(
                data_parallel_size=ranks,
                seq_len=self.capacity,
                local_batch_size=local_batch_size,
                algorithm=self.algorithm,
                objective=objective,
                max_items=None if self._counted else self.max_items,
                packing_budgets={"samples": self.max_items} if self.max_items is not None and self._counted else None,
                forbid=None if self.units.kinds is None else "kind",
                **options,
            )
        return self._planners[key]

    def _columns(self, chosen: Int64Array) -> dict[str, Int64Array]:
        units = self.units
        columns = {"length": units.tokens, "cost": units.costs, "samples": units.counts}
        columns |= {} if units.kinds is None else {"kind": units.kinds}
        return {name: column[chosen] for name, column in columns.items()}


def _positions(chosen: Int64Array, bins: Bins) -> Bins:
    """Units named by where they are among the chosen ones, which ascend or not."""
    where = np.empty(int(chosen.max()) + 1, np.int64)
    where[chosen] = np.arange(chosen.size)
    return [where[members] for members in bins]


def _split(bins: Bins, count: int) -> Bins:
    """The same in exactly `count` micro-batches: units leave those that hold several."""
    result, missing = [], count - len(bins)
    for members in bins:
        leaving = min(missing, members.size - 1)
        missing -= leaving
        result += [members[leaving:], *members[:leaving, None]]
    return result
