"""Algorithms that work on problems, served behind the record protocol: samples in, bins of keys out."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from packing import _checks
from packing._build_problem import build_problem
from packing._checks import shown
from packing._explain import check_supported, no_candidate
from packing._feasibility import check_feasible
from packing._samples import Batch, read_reference, read_samples
from packing.assignment import Assignment
from packing.audit import audit
from packing.errors import ConfigError
from packing.objectives import squared_variation
from packing.planner import Planner
from packing.records import PackingConstraints, SampleKey, SampleMetadata, WorkloadCost

__all__ = ["PaddingCost", "RecordForm", "RecordedCost", "keyed"]

PaddingCost = Callable[[int], float]
"""Cost of t unused tokens of a bin."""


class RecordForm(abc.ABC):
    """An algorithm of the registry behind the record protocol.

    Attributes:
        objective_name: "makespan" or "balance".
        objective_group_size: how many ranks wait for each other, a divisor of `data_parallel_size`; None: all of them.
            Of the built-ins only `feasible_lpt` makes use of it.
        padding_cost: cost of t unused tokens of a bin, a function of t that always answers alike, or None.

    The two last may be set later; they are looked at in every call.
    """

    def __init__(
        self, objective: str, *, objective_group_size: int | None = None, padding_cost: PaddingCost | None = None
    ) -> None:
        self.objective_name = _checks.one_of("objective", objective, ("makespan", "balance"))
        self.objective_group_size = _checks.optional_integer("objective_group_size", objective_group_size, minimum=1)
        if padding_cost is not None and not callable(padding_cost):
            raise ConfigError(f"`padding_cost` must be callable or None, but got {shown(padding_cost)}.")
        self.padding_cost = padding_cost
        # Reading settings and tabulating a pad cost takes longer than small steps do: kept from call to call.
        self._planner: tuple[Any, Planner] | None = None

    @abc.abstractmethod
    def _config(self) -> Any:
        """What the registry resolves."""

    @property
    def algorithm_id(self) -> str:
        """Name and options as text; part of a plan's config fingerprint."""
        return f"{self._config()!r} for {self.objective_name} in groups of {self.objective_group_size}"

    def assign(
        self,
        samples: Sequence[SampleMetadata],
        *,
        reference_bins: Sequence[Sequence[SampleKey]] | None,
        constraints: PackingConstraints,
        data_parallel_size: int,
        local_batch_size: int,
    ) -> list[list[SampleKey]]:
        """Rank-major bins, with the samples of a bin in the order of their placement.

        Only `cost.llm` counts; it is rounded to fixed point as everywhere in the package, so whole costs are exact. The
        order of the samples does not matter.

        Args:
            samples: the records of the step, each with a key of its own.
            reference_bins: the original layout; must be a valid one. None: there is none.
            constraints: token cap, policy and budgets of a bin.
            data_parallel_size: R, ranks.
            local_batch_size: M, bins of each rank.

        Returns:
            R * M bins; those of the reference where the algorithm finds no layout.

        Raises:
            ConfigError, InfeasibleError, UnsupportedProblemError, AuditError: as by `Planner.plan`.
            NoCandidateError: no layout was found, and there is no reference.
        """
        batch = keyed(samples)
        planner = self._planner_for(constraints, data_parallel_size, local_batch_size)
        reference = None if reference_bins is None else read_reference(reference_bins, batch)
        problem = build_problem(planner, batch, reference)
        check_feasible(problem, batch.describe_index)
        resolved = planner._algorithm
        check_supported(problem, resolved)
        layout: Assignment | None = resolved.instance.assign(problem)
        if layout is None:
            layout = problem.reference
        if layout is None:
            raise no_candidate(problem, resolved)
        return audit(problem, layout, resolved.name, batch.describe_index).to_bins(keys_of(batch))

    def objective(self, rank_costs: Sequence[WorkloadCost]) -> float:
        """The largest `llm` cost, or the squared coefficient of variation of the `llm` costs (0 when all are 0).

        Computed exactly and rounded once.

        Raises:
            ConfigError: an element is no WorkloadCost.
        """
        for rank, cost in enumerate(rank_costs):
            if not isinstance(cost, WorkloadCost):
                raise ConfigError(
                    f"`rank_costs` must hold a WorkloadCost for each rank, but rank {rank} has {shown(cost)}."
                )
        loads = [cost.llm for cost in rank_costs]
        if self.objective_name == "makespan":
            return max(loads, default=0.0)
        # The variation does not depend on the unit: one that makes every load whole keeps it exact.
        ratios = [load.as_integer_ratio() for load in loads]
        unit = max((denominator for _, denominator in ratios), default=1)
        return float(squared_variation([numerator * (unit // denominator) for numerator, denominator in ratios]))

    def _planner_for(self, constraints: PackingConstraints, data_parallel_size: int, local_batch_size: int) -> Planner:
        """The planner that the settings of this call describe."""
        for name in ("seq_len", "oversized_policy", "packing_budgets"):
            if not hasattr(constraints, name):
                raise ConfigError(f"`constraints` must be PackingConstraints, but got {shown(constraints)}.")
        size = _checks.optional_integer("objective_group_size", self.objective_group_size, minimum=1)
        settings = {
            "algorithm": self._config(),
            "objective": self.objective_name,
            "padding_cost": self.padding_cost,
            "data_parallel_size": data_parallel_size,
            "local_batch_size": _checks.integer("local_batch_size", local_batch_size, minimum=1),
            "seq_len": constraints.seq_len,
            "oversized_policy": constraints.oversized_policy,
            "packing_budgets": constraints.packing_budgets,
        }
        kept = self._planner
        if kept is None or kept[0] != settings:
            kept = settings, Planner(**settings, estimator=RecordedCost())
            self._planner = kept
        planner = kept[1]
        if size is not None and planner.data_parallel_size % size:
            raise ConfigError(
                f"`objective_group_size` must divide the {planner.data_parallel_size} ranks, but got {size}."
            )
        return planner


class RecordedCost:
    """The records' own `cost.llm` as estimator, also where all of it is 0."""

    columns: ClassVar[tuple[str, ...]] = ()
    takes_records: ClassVar[bool] = True

    def __call__(self, columns: Mapping[str, Any], records: Sequence[SampleMetadata] = ()) -> Any:
        return np.asarray([record.cost.llm for record in records])


def keyed(samples: Any) -> Batch:
    """The samples, which must be records with keys."""
    batch = read_samples(samples)
    if batch.records is None or batch.keys is None:
        got = samples if batch.records is None else batch.records[0]
        raise ConfigError(f"`samples` must be SampleMetadata records with keys, but got {shown(got)}.")
    return batch


def keys_of(batch: Batch) -> list[SampleKey]:
    """The keys in key order."""
    assert batch.records is not None
    keys = [batch.records[position].key for position in batch.by_key.tolist()]
    return [key for key in keys if key is not None]
