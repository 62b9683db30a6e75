"""Record-style algorithms, the protocol of bins of sample keys, made to work as algorithms on a Problem."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from packing import _checks
from packing._checks import shown
from packing._fixed_point import to_float
from packing._samples import Batch
from packing.algorithms._step_records import records_of, step_keys
from packing.assignment import Assignment
from packing.audit import first_violation
from packing.errors import AuditError, ConfigError, PluginError, UnsupportedProblemError
from packing.objectives import OBJECTIVES
from packing.problem import Problem
from packing.records import PackingConstraints, SampleKey, SampleMetadata, WorkloadCost

__all__ = ["RecordAlgorithm", "RecordStep", "adapted"]

_COSTS = tuple(one.name for one in dataclasses.fields(WorkloadCost))
_UNDERSTOOD = frozenset({"capacity", "budgets", "multi_bin", "oversized"})


def adapted(resolved: Any) -> Any:
    """What the registry resolved, with a record-style instance made into an algorithm on problems; others as they are.

    A record-style algorithm is taken to honour what its protocol speaks of (capacity, budgets, several bins per rank,
    oversized samples), a pad cost if it has `padding_cost`, rounds if it has `objective_group_size`, and whatever it
    declares in `capabilities`; to the planner's objectives it is indifferent, because it has its own.

    Raises:
        PluginError: it has no method `objective`, or `padding_cost` cannot be called.
    """
    if not resolved.record_style:
        return resolved
    algorithm = RecordAlgorithm(resolved.instance, resolved.name)
    features = set(_UNDERSTOOD) | (OBJECTIVES.keys() - {"rounds"}) | resolved.capabilities
    if algorithm.padding_cost is not None:
        features.add("pad_cost")
    if algorithm.objective_group_size is not None:
        features.add("rounds")
    identity = getattr(resolved.instance, "algorithm_id", None)
    options = dict(resolved.options)
    if isinstance(identity, str):
        options["algorithm_id"] = identity
    if resolved.objective is not None:  # of its own kind, so not the planner's setting
        options["objective"] = resolved.objective
    return replace(resolved, instance=algorithm, capabilities=frozenset(features), options=options)


@dataclass(frozen=True)
class RecordAlgorithm:
    """An object with the record protocol, as an algorithm on a Problem.

    The object has `assign(samples, *, reference_bins, constraints, data_parallel_size, local_batch_size)`, which
    returns rank-major bins of `SampleKey`s, and `objective(rank_costs)`, which returns a finite score of at least 0,
    lower is better. Optional attributes: `padding_cost`, cost of t unused tokens of a bin; `objective_group_size`, how
    many ranks wait for each other, a divisor of the ranks; `objective_name`, one of the planner's objectives, by which
    plans report; `algorithm_id`, text that tells differently set objects apart in fingerprints.

    Args:
        instance: the object.
        name: how messages call it.

    Raises:
        PluginError: there is no method `objective`, or `padding_cost` is neither callable nor None.
    """

    instance: Any
    name: str

    keeps_order: ClassVar[bool] = True
    """The bins stay where the object put them: it scores them there."""

    def __post_init__(self) -> None:
        if not callable(getattr(self.instance, "objective", None)):
            raise PluginError(
                f"algorithm {self.name!r} has an `assign` that takes `reference_bins`, so it must also have a method "
                f"`objective(rank_costs)`: got {shown(self.instance)}."
            )
        if self.padding_cost is not None and not callable(self.padding_cost):
            raise PluginError(
                f"`padding_cost` of algorithm {self.name!r} must be callable or None, but got "
                f"{shown(self.padding_cost)}."
            )

    @property
    def padding_cost(self) -> Any:
        """The object's cost of t unused tokens, or None."""
        return getattr(self.instance, "padding_cost", None)

    @property
    def objective_group_size(self) -> Any:
        """How many ranks wait for each other by the object's own word, or None."""
        return getattr(self.instance, "objective_group_size", None)

    def reported_objective(self, setting: Any, option: Any) -> str:
        """By which objective a plan reports; the gate uses the object's own.

        Args:
            setting: the planner's `objective`.
            option: `objective` of the algorithm's config.

        Raises:
            ConfigError: the planner is asked for an objective that the object does not say it has.
        """
        own = option if option is not None else getattr(self.instance, "objective_name", None)
        own = own if isinstance(own, str) and own in OBJECTIVES else None
        if setting is not None and setting != own:
            raise ConfigError(
                f"`objective` must be None, because `algorithm` {self.name!r} is scored by its own "
                f"`objective(rank_costs)`, but got {shown(setting)}."
            )
        return own or "makespan"

    def assign(self, problem: Problem) -> Assignment | None:
        """The object's layout for a problem alone: records are made of its columns, keyed by sample index."""
        return RecordStep.of_problem(self, problem).assign(problem)

    def bind(
        self, problem: Problem, batch: Batch, budgets: Mapping[str, float] | None, baseline: Callable[[], Assignment]
    ) -> RecordStep:
        """The algorithm for one step, with the user's records.

        Args:
            problem: the step.
            batch: its samples as they were handed in.
            budgets: the limits in the user's unit.
            baseline: gives the layout that stands in for a reference where there is none.
        """
        own = None if batch.records is None else [batch.records[position] for position in batch.by_key.tolist()]
        keys = step_keys(batch, own)
        limits = {} if budgets is None else dict(budgets)
        return RecordStep(self, *records_of(problem, keys, own, limits), baseline)


@dataclass(frozen=True)
class RecordStep:
    """A record-style algorithm with the records of one step.

    Attributes:
        algorithm: the algorithm.
        records: one for each sample of the problem, in its order, each with a key; the user's own wherever those say
            what the problem says, otherwise copies with the problem's tokens, cost (as `llm`) and use of budgets.
        budgets: the limits, in the same unit as the records' `packing_costs`.
        baseline: gives the layout that stands in for a reference where there is none.
    """

    algorithm: RecordAlgorithm
    records: Sequence[SampleMetadata]
    budgets: Mapping[str, float]
    baseline: Callable[[], Assignment]

    @classmethod
    def of_problem(cls, algorithm: RecordAlgorithm, problem: Problem) -> RecordStep:
        """The step of a problem that came without records; the samples dealt out in order are the baseline."""
        keys = [SampleKey(0, 0, index) for index in range(problem.num_samples)]
        budgets = [] if problem.budgets is None else problem.budgets.tolist()
        limits = dict(zip(problem.budget_names, budgets, strict=True))
        places = np.arange(problem.num_samples) * problem.num_bins // max(1, problem.num_samples)
        return cls(
            algorithm,
            *records_of(problem, keys, None, limits),
            lambda: Assignment.from_bin_of(places, problem.num_bins),
        )

    def assign(self, problem: Problem) -> Assignment | None:
        """The object's layout as sample indices, or None where it returns None; the audit is still to come.

        Raises:
            ConfigError: there is no reference and the baseline is no valid layout, or `objective_group_size` is no
                divisor of the ranks.
            AuditError: what came back is no sequence of bins of known keys.
        """
        name = self.algorithm.name
        _check_group_size(self.algorithm.objective_group_size, problem.ranks)
        keys: list[Any] = [record.key for record in self.records]
        returned = self.algorithm.instance.assign(
            self.records,
            reference_bins=self._reference(problem).to_bins(keys),
            constraints=PackingConstraints(_seq_len(problem, name), problem.oversized, self.budgets),
            data_parallel_size=problem.ranks,
            local_batch_size=problem.bins_per_rank,
        )
        if returned is None:
            return None
        return _assignment(returned, {key: index for index, key in enumerate(keys)}, name)

    def score(self, problem: Problem, layout: Assignment) -> Fraction:
        """The object's own objective of a layout, exactly the number it returned.

        It sees the cost of each rank: the correctly rounded sums of its samples' costs, pad cost included in `llm`.

        Raises:
            PluginError: the object returned no finite number of at least 0.
        """
        value = self.algorithm.instance.objective(self._rank_costs(problem, layout))
        number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
        if not number or not math.isfinite(value) or value < 0:
            raise PluginError(
                f"`objective` of algorithm {self.algorithm.name!r} must return a finite number of at least 0, but "
                f"returned {shown(value)}."
            )
        return Fraction(value.item() if isinstance(value, np.generic) else value)

    def _reference(self, problem: Problem) -> Assignment:
        if problem.reference is not None:
            return problem.reference
        layout = self.baseline()
        wrong = first_violation(problem, layout)
        if wrong is not None:
            raise ConfigError(
                f"`reference_bins` must be given, because `algorithm` {self.algorithm.name!r} starts from a valid "
                f"layout, and the samples dealt out in order are none: {wrong}."
            )
        return layout

    def _rank_costs(self, problem: Problem, layout: Assignment) -> list[WorkloadCost]:
        costs = [record.cost for record in self.records]
        columns = {field: [getattr(cost, field) for cost in costs] for field in _COSTS}
        columns = {field: column for field, column in columns.items() if any(column)}
        padding: list[float] = []
        if problem.pad_cost is not None:
            pad_loads = problem.pack_loads(layout) - layout.sums(problem.cost)
            padding = to_float(pad_loads, problem.cost_exponent).tolist()
        edges, items = layout.offsets.tolist(), layout.items.tolist()
        slots = problem.num_bins // problem.ranks
        rank_costs = []
        for first in range(0, problem.num_bins, slots):
            members = items[edges[first] : edges[first + slots]]
            parts = {field: [column[i] for i in members] for field, column in columns.items()}
            if padding:
                parts["llm"] = parts.get("llm", []) + padding[first : first + slots]
            rank_costs.append(WorkloadCost(**{field: _sum(field, values) for field, values in parts.items()}))
        return rank_costs


def _sum(field: str, values: list[float]) -> float:
    """The correctly rounded sum, whatever the order."""
    try:
        return math.fsum(values)
    except OverflowError:
        raise ConfigError(f"`cost.{field}` overflows: the sum of one rank must be a finite number.") from None


def _check_group_size(size: Any, ranks: int) -> None:
    if size is not None and ranks % _checks.integer("objective_group_size", size, minimum=1):
        raise ConfigError(f"`objective_group_size` must divide the {ranks} ranks, but got {size}.")


def _seq_len(problem: Problem, name: str) -> int | None:
    if isinstance(problem.capacity, np.ndarray):
        raise UnsupportedProblemError(f"`algorithm` {name!r} knows one capacity only, but the bins differ in theirs.")
    return problem.capacity


def _assignment(returned: Any, index_of: Mapping[Any, int], name: str) -> Assignment:
    """The layout of bins of keys, each of which must be known."""
    broke = f"algorithm {name!r} broke its contract: it"
    if not isinstance(returned, Sequence) or isinstance(returned, (str, bytes)):
        raise AuditError(f"{broke} must return a sequence of bins or None, but returned {shown(returned)}.")
    bins = []
    for number, members in enumerate(returned):
        if not isinstance(members, Sequence) or isinstance(members, (str, bytes)):
            raise AuditError(f"{broke} returned {shown(members)} as bin {number}, which is no sequence of keys.")
        for key in members:
            if not isinstance(key, SampleKey):
                raise AuditError(f"{broke} put {shown(key)} into bin {number}, which is no SampleKey.")
            if key not in index_of:
                raise AuditError(f"{broke} put {key} into bin {number}, but no sample has that key.")
        bins.append([index_of[key] for key in members])
    return Assignment.from_bins(bins)
