"""The record protocol of hyper_parallel: balancing algorithms on keyed records, their resolution, and its planner."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

from packing import _checks
from packing._checks import shown
from packing.algorithms.adapter import adapted
from packing.compat._record_form import PaddingCost, RecordedCost, RecordForm, keyed
from packing.errors import ConfigError
from packing.gate import Decision
from packing.plan import Plan
from packing.planner import Planner
from packing.records import PackingConstraints, SampleKey, SampleMetadata, WorkloadCost
from packing.registry import resolve_algorithm

__all__ = [
    "BalancingAlgorithm",
    "DynamicPackingPlan",
    "DynamicPackingPlanner",
    "FeasibleLPTBalancingAlgorithm",
    "LPTBalancingAlgorithm",
    "NamedBalancingAlgorithm",
    "resolve_balancing_algorithm",
]


@runtime_checkable
class BalancingAlgorithm(Protocol):
    """What a record-style algorithm offers; `packing.Planner` takes such an object as it is."""

    def assign(
        self,
        samples: Sequence[SampleMetadata],
        *,
        reference_bins: Sequence[Sequence[SampleKey]],
        constraints: PackingConstraints,
        data_parallel_size: int,
        local_batch_size: int,
    ) -> Sequence[Sequence[SampleKey]]:
        """Rank-major bins that hold every key exactly once, none of them empty, each within the constraints.

        Gives the reference back where it finds nothing. Must answer alike on every rank and must not change its inputs.
        """

    def objective(self, rank_costs: Sequence[WorkloadCost]) -> float:
        """A finite score of at least 0 for the summed costs of the ranks; lower is better."""


class LPTBalancingAlgorithm(RecordForm):
    """`lpt` behind the record protocol: heaviest sample first, each into the best bin that has room.

    Args:
        objective: "makespan" or "balance".
        objective_group_size: a divisor of the ranks; checked, but without effect on the placement.
        padding_cost: cost of t unused tokens of a bin, or None.

    Raises:
        ConfigError: an argument has a wrong type or value.
    """

    def __init__(
        self,
        objective: str = "makespan",
        *,
        objective_group_size: int | None = None,
        padding_cost: PaddingCost | None = None,
    ) -> None:
        super().__init__(objective, objective_group_size=objective_group_size, padding_cost=padding_cost)

    def _config(self) -> Any:
        return "lpt"


class FeasibleLPTBalancingAlgorithm(RecordForm):
    """`feasible_lpt` behind the record protocol: `lpt`, then pairs of bins are split anew.

    Args:
        objective: "makespan" or "balance".
        max_repair_pairs: most attempts at a pair in one call; at least 1.
        objective_group_size: how many ranks wait for each other, a divisor of the ranks; None: all of them.
        padding_cost: cost of t unused tokens of a bin, or None.
        max_table_bytes: a reachability table beyond it ends the repair.

    Raises:
        ConfigError: an argument has a wrong type or value.
    """

    def __init__(
        self,
        objective: str = "makespan",
        max_repair_pairs: int = 64,
        *,
        objective_group_size: int | None = None,
        padding_cost: PaddingCost | None = None,
        max_table_bytes: int = 256 << 20,
    ) -> None:
        super().__init__(objective, objective_group_size=objective_group_size, padding_cost=padding_cost)
        self.max_repair_pairs = _checks.integer("max_repair_pairs", max_repair_pairs, minimum=1)
        self.max_table_bytes = _checks.integer("max_table_bytes", max_table_bytes, minimum=1)

    def _config(self) -> Any:
        return {
            "name": "feasible_lpt",
            "max_repair_pairs": self.max_repair_pairs,
            "max_table_bytes": self.max_table_bytes,
            "objective_group_size": self.objective_group_size,
        }


class NamedBalancingAlgorithm(RecordForm):
    """Any algorithm that works on problems, built-in or of a plugin, behind the record protocol.

    Args:
        algorithm: a config as `Planner` takes it: a name, a mapping with "name" and options, an object.
        objective: "makespan" or "balance"; None: what the config says, else "makespan".
        objective_group_size: a divisor of the ranks; checked, but the algorithm is not told.
        padding_cost: cost of t unused tokens of a bin, or None.

    Raises:
        ConfigError: an argument has a wrong type or value.
        UnknownNameError, AmbiguousNameError, PluginError: the algorithm cannot be resolved.
    """

    def __init__(
        self,
        algorithm: Any,
        objective: str | None = None,
        *,
        objective_group_size: int | None = None,
        padding_cost: PaddingCost | None = None,
    ) -> None:
        resolved = resolve_algorithm(algorithm)
        if resolved.record_style:
            raise ConfigError(f"`algorithm` {resolved.name!r} has the record protocol already; use it as it is.")
        asked = resolved.objective
        if objective is None:
            objective = "makespan" if asked is None else asked
        super().__init__(objective, objective_group_size=objective_group_size, padding_cost=padding_cost)
        self.algorithm = dict(algorithm) if isinstance(algorithm, Mapping) else algorithm

    def _config(self) -> Any:
        return self.algorithm


def resolve_balancing_algorithm(algorithm: Any = None) -> BalancingAlgorithm:
    """The balancing algorithm that a config means, with the record protocol.

    Args:
        algorithm: None: `LPTBalancingAlgorithm()`. A name or a mapping with "name" and options: through the registry,
            plugins included. A class or factory: called without arguments. An object: as it is. Algorithms that work
            on problems come back behind the record protocol.

    Raises:
        ConfigError, UnknownNameError, AmbiguousNameError: see `packing.Planner`.
        PluginError: the factory raises, or a record-style object has no method `objective`.
    """
    if algorithm is None:
        return LPTBalancingAlgorithm()
    resolved = adapted(resolve_algorithm(algorithm))
    if resolved.record_style:
        ready: BalancingAlgorithm = resolved.instance.instance
        return ready
    objective = "makespan" if resolved.objective is None else resolved.objective
    if resolved.name == "lpt":
        return LPTBalancingAlgorithm(objective)
    if resolved.name == "feasible_lpt":
        return FeasibleLPTBalancingAlgorithm(objective, **resolved.options)
    # An instance where there was none: a factory must not be called anew in every step.
    config = algorithm if isinstance(algorithm, (str, Mapping)) else resolved.instance
    return NamedBalancingAlgorithm(config)


@dataclass(frozen=True, slots=True)
class DynamicPackingPlan:
    """What `DynamicPackingPlanner.plan` decides.

    Attributes:
        bins: the accepted layout, R * M rank-major bins of keys.
        decision: the gate's: whether the algorithm's layout was taken, and its own objective before and after.
        plan: the whole plan, with loads, lower bound and digest.
    """

    bins: list[list[SampleKey]]
    decision: Decision
    plan: Plan


class DynamicPackingPlanner:
    """`packing.Planner` with the arguments and the answer of hyper_parallel's planner.

    Args:
        data_parallel_size: R, ranks. seq_len: token cap of a bin. local_batch_size: M, bins of each rank.
        algorithm: see `resolve_balancing_algorithm`.
        oversized_policy: "error" or "single".
        packing_budgets: hard caps by name on the sums of the samples' `packing_costs`, or None.
        min_balance_gain: in [0, 1); the gain by the algorithm's own objective must be strictly above it.
        cost_model: a function of one record that returns its WorkloadCost; None: the records' own `cost`.

    Raises:
        ConfigError, UnknownNameError, AmbiguousNameError, PluginError: see `packing.Planner`.
    """

    def __init__(
        self,
        *,
        data_parallel_size: int,
        seq_len: int | None,
        local_batch_size: int,
        algorithm: Any = None,
        oversized_policy: str = "error",
        packing_budgets: Mapping[str, float] | None = None,
        min_balance_gain: float = 0.0,
        cost_model: Callable[[SampleMetadata], WorkloadCost] | None = None,
    ) -> None:
        if cost_model is not None and not callable(cost_model):
            raise ConfigError(f"`cost_model` must be callable or None, but got {shown(cost_model)}.")
        self.cost_model = cost_model
        self.algorithm = resolve_balancing_algorithm(algorithm)
        self._planner = Planner(
            data_parallel_size=data_parallel_size,
            seq_len=seq_len,
            local_batch_size=_checks.integer("local_batch_size", local_batch_size, minimum=1),
            algorithm=self.algorithm,
            estimator=RecordedCost(),
            oversized_policy=oversized_policy,
            packing_budgets=packing_budgets,
            min_balance_gain=min_balance_gain,
        )

    def plan(
        self, samples: Sequence[SampleMetadata], reference_bins: Sequence[Sequence[SampleKey]], step: int = 0
    ) -> DynamicPackingPlan:
        """Plans one step; the reference stays unless the algorithm's layout is strictly better by its own objective.

        Args:
            samples: the records of the step, each with a key of its own.
            reference_bins: the original layout, R * M rank-major bins of keys; must be a valid one.
            step: number of the step; part of the digest.

        Raises:
            ConfigError: samples or reference are malformed, or `cost_model` returned no WorkloadCost.
            InfeasibleError, UnsupportedProblemError, AuditError: see `packing.Planner.plan`.
            PluginError: the algorithm's objective is no finite number of at least 0.
        """
        keyed(samples)
        if self.cost_model is not None:
            samples = [self._with_cost(record, self.cost_model(record)) for record in samples]
        plan = self._planner.plan(samples, reference_bins, step)
        keys = [record.key for record in samples if record.key is not None]
        return DynamicPackingPlan([[keys[at] for at in members] for members in plan.bins()], plan.decision, plan)

    def _with_cost(self, record: SampleMetadata, cost: Any) -> SampleMetadata:
        if not isinstance(cost, WorkloadCost):
            raise ConfigError(
                f"`cost_model` must return a WorkloadCost, but returned {shown(cost)} for the sample with the key "
                f"{record.key}."
            )
        return replace(record, cost=cost)
