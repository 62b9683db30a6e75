"""Planner: settings once, then a plan for every step."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from packing import _checks
from packing._baseline import comparison, dealt_out
from packing._blame import blamed_on
from packing._build_problem import build_problem, checked_budgets
from packing._checks import Int64Array, shown
from packing._explain import check_supported, no_candidate
from packing._feasibility import check_feasible
from packing._identities import environment, inputs_digest
from packing._padding import padding_table
from packing._samples import Batch, read_reference, read_samples
from packing._version import __version__
from packing.algorithms.adapter import RecordAlgorithm, RecordStep, adapted
from packing.alignment import Alignment
from packing.assignment import Assignment
from packing.audit import audit, check_unchanged, inputs_of
from packing.bounds import lower_bound
from packing.errors import ConfigError
from packing.gate import decide
from packing.objectives import Objective, get_objective, rank_loads
from packing.plan import Plan
from packing.problem import Problem
from packing.registry import Resolved, resolve_algorithm, resolve_estimator
from packing.rounds import into_rounds

__all__ = ["Planner"]


@dataclass(frozen=True, kw_only=True)
class Planner:
    """Decides, for every step, which samples share a packed row and which rank gets which row.

    The same settings and the same samples give the same plan on every rank, machine and Python; keyed samples also in
    any order. All settings are checked here, once; `plan` only looks at the samples.

    Args:
        data_parallel_size: g, physical ranks.
        seq_len: token cap of a packed row; None: no cap.
        local_batch_size: M, rows per rank and round; None: the smallest number for which the algorithm finds a layout
            (1 where nothing limits).
        algorithm: a name ("lpt", "kk", "plugin/name"), a mapping with "name" and options, a class or factory, or an
            object with `assign`; see `packing.algorithms.adapter` for those that work on records.
        estimator: the same for the cost of a sample, or a plain function of one record. None: a column "cost" or the
            records' own `cost.llm` where there is any, otherwise "tokens".
        objective: "makespan", "balance", "rounds", {"name": "pipeline", "stages": P} or {"name": "components",
            "weights": {component: weight}}; None: what the algorithm's config says, else "makespan". A component is a
            column, or with records a field of their `cost`; an estimator gives the component "llm".
        min_balance_gain: in [0, 1); with a reference, the relative gain must be strictly above it.
        oversized_policy: "error" or "single" (a sample over `seq_len` gets a row of its own).
        packing_budgets: further hard caps per row: name -> limit. The use of each sample is the column of that name,
            or the record's `packing_costs[name]`.
        window: W, rounds that are planned together.
        alignment: lengths count against `seq_len` rounded up to a multiple of it; also {"segment": s, "row": r}, where
            `seq_len` must be a multiple of r (see `packing.alignment.Alignment`).
        max_items: most samples in one row.
        equal_count: every rank gets the same number of samples.
        group: name of a column or feature; samples with one value stay together in one row ("bin") or on one rank, as
            `group_scope` says. None values and -1 mark samples of no group.
        forbid: name of a column or feature without None; samples with different values never share a row.
        padding_cost: cost of t unused tokens of a row: {"linear": a, "quadratic": b}, or a function of t. Needs
            `seq_len`. None: that of a record-style algorithm which has one.
        baseline: how samples are dealt out for comparison where there is no reference: "contiguous" or "round_robin".

    Raises:
        ConfigError: a setting has a wrong type or value; the message quotes both.
        UnknownNameError, AmbiguousNameError, PluginError: an algorithm, estimator or objective cannot be resolved.
    """

    data_parallel_size: int
    seq_len: int | None = None
    local_batch_size: int | None = None
    algorithm: Any = "auto"
    estimator: Any = None
    objective: str | Mapping[str, Any] | None = None
    min_balance_gain: float = 0.0
    oversized_policy: str = "error"
    packing_budgets: Mapping[str, float] | None = None
    window: int = 1
    alignment: int | Mapping[str, int] | Alignment = 1
    max_items: int | None = None
    equal_count: bool = False
    group: str | None = None
    group_scope: str = "bin"
    forbid: str | None = None
    padding_cost: Mapping[str, Any] | Callable[[int], Any] | None = None
    baseline: str = "contiguous"

    _algorithm: Resolved = field(init=False, repr=False, compare=False)
    _estimator: Resolved | None = field(init=False, repr=False, compare=False)
    _objective: Objective = field(init=False, repr=False, compare=False)
    _pad_table: Int64Array | npt.NDArray[np.float64] | None = field(init=False, repr=False, compare=False)
    _fingerprint: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        put = object.__setattr__
        for name in ("data_parallel_size", "window"):
            put(self, name, _checks.integer(name, getattr(self, name), minimum=1, maximum=_checks.LARGEST))
        for name in ("seq_len", "local_batch_size", "max_items"):
            put(self, name, _checks.optional_integer(name, getattr(self, name), minimum=1, maximum=_checks.LARGEST))
        alignment = Alignment.of(self.alignment)
        put(self, "alignment", alignment.segment if alignment.row == 1 else alignment)
        if self.seq_len is not None:
            alignment.check_row_length("seq_len", self.seq_len)
        put(self, "min_balance_gain", _checks.fraction("min_balance_gain", self.min_balance_gain))
        _checks.one_of("oversized_policy", self.oversized_policy, ("error", "single"))
        _checks.one_of("group_scope", self.group_scope, ("bin", "rank"))
        _checks.one_of("baseline", self.baseline, ("contiguous", "round_robin"))
        put(self, "equal_count", _checks.boolean("equal_count", self.equal_count))
        for name in ("group", "forbid"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise ConfigError(f"`{name}` must be the name of a column, but got {shown(value)}.")
        put(self, "packing_budgets", checked_budgets(self.packing_budgets))
        resolved = adapted(resolve_algorithm(self.algorithm))
        put(self, "_algorithm", resolved)
        put(self, "_estimator", _resolve_estimator(self.estimator))
        put(self, "_objective", self._agreed_objective(resolved))
        put(self, "_pad_table", padding_table(self._agreed_padding(resolved), self.seq_len))
        if self._objective.weights and self._pad_table is not None:
            raise ConfigError(
                "`padding_cost` must be None under the objective `components`: it belongs to none of them."
            )
        put(self, "_fingerprint", self._settings_fingerprint())

    def __hash__(self) -> int:
        return hash(self._fingerprint)  # the config of an algorithm may be a mapping, which has no hash

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Planner:
        """The planner that a mapping of settings (a block of a trainer's YAML) describes; the mapping is not changed.

        Raises:
            ConfigError: no mapping, an unknown setting (the nearest names are suggested), or one that is missing.
        """
        if not isinstance(config, Mapping):
            raise ConfigError(f"the config must be a mapping, but got {shown(config)}.")
        known = [one.name for one in fields(cls) if one.init]
        for key in config:
            if key == "packing" and isinstance(config[key], Mapping):
                raise ConfigError("`packing` is a section, not a setting: hand over config['packing'].")
            if key not in known:
                near = difflib.get_close_matches(str(key), known, n=1)
                hint = f" Did you mean `{near[0]}`?" if near else ""
                raise ConfigError(f"`{key}` is no setting of the planner.{hint} There are: {', '.join(known)}.")
        if "data_parallel_size" not in config:
            raise ConfigError("`data_parallel_size` must be given.")
        return cls(**config)

    def plan(self, samples: Any, reference_bins: Any = None, step: int = 0) -> Plan:
        """Plans one step.

        Args:
            samples: int[N] lengths (array or list), a mapping of columns with "length" (and "key", "cost", whatever
                estimator and limits name), or a sequence of `SampleMetadata`.
            reference_bins: the original layout, K bins of input positions or keys; it must be valid. The plan is taken
                only where it is strictly better, otherwise the reference stays.
            step: number of the step; part of the digest.

        Raises:
            ConfigError: the samples or the reference are malformed.
            InfeasibleError: no layout can exist; found before any search, the same on every rank.
            UnsupportedProblemError: the algorithm does not declare a feature that is needed.
            NoCandidateError: the algorithm found no layout and there is no reference.
            AuditError: the algorithm broke its contract.
        """
        step = _checks.integer("step", step, minimum=0)
        batch = read_samples(samples)
        reference = None if reference_bins is None else read_reference(reference_bins, batch)
        problem = build_problem(self, batch, reference)
        check_feasible(problem, batch.describe_index)
        resolved = self._algorithm
        check_supported(problem, resolved)
        records = self._with_records(problem, batch)
        inputs = inputs_of(problem)
        with blamed_on("algorithm", resolved.name):
            candidate = (records or resolved.instance).assign(problem)
        check_unchanged(problem, inputs, resolved.name)
        if candidate is not None:
            problem = _with_found_bins(problem, candidate)
            candidate = audit(problem, candidate, resolved.name, batch.describe_index)
        elif problem.reference is None:
            raise no_candidate(problem, resolved)
        return self._accept(problem, candidate, batch, step, records)

    # -------------------------------------------------------------------------------------------------- settings

    def _agreed_objective(self, resolved: Resolved) -> Objective:
        asked = resolved.objective
        if resolved.record_style:
            adapter: RecordAlgorithm = resolved.instance
            return get_objective(adapter.reported_objective(self.objective, asked))
        chosen = asked if self.objective is None else self.objective
        objective = get_objective("makespan" if chosen is None else chosen)
        if asked is not None and get_objective(asked) != objective:
            raise ConfigError(
                f"`objective` is {self.objective!r}, but the option of `algorithm` {resolved.name!r} says {asked!r}."
            )
        return objective

    def _agreed_padding(self, resolved: Resolved) -> Any:
        own = resolved.instance.padding_cost if resolved.record_style else None
        if own is not None and self.padding_cost is not None:
            raise ConfigError(f"`padding_cost` must be None, because `algorithm` {resolved.name!r} has its own.")
        return self.padding_cost if own is None else own

    def _settings_fingerprint(self) -> str:
        algorithm, estimator = self._algorithm, self._estimator
        hashed_apart = ("algorithm", "estimator", "objective", "padding_cost", "packing_budgets")
        settings = {
            one.name: getattr(self, one.name) for one in fields(self) if one.init and one.name not in hashed_apart
        }
        if isinstance(self.alignment, Alignment):
            settings["alignment"] = [self.alignment.segment, self.alignment.row]
        budgets = None if self.packing_budgets is None else sorted(self.packing_budgets.items())
        pad = self._pad_table
        identity = [
            __version__,
            algorithm.identity(),
            None if estimator is None else estimator.identity(),
            self._objective.setting,
            budgets,
            None if pad is None else hashlib.sha256(pad.tobytes()).hexdigest(),
            settings,
        ]
        return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the settings ask for besides "length": of the estimator, the cost components, the budgets,
        `group`, `forbid`.
        """
        estimator = () if self._estimator is None else self._estimator.instance.columns
        components = [name for name, _ in self._objective.weights if self._estimator is None or name != "llm"]
        labels = [name for name in (self.group, self.forbid) if name]
        names = [*estimator, *components, *(self.packing_budgets or ()), *labels]
        return tuple(dict.fromkeys(name for name in names if name != "length"))

    @property
    def config_fingerprint(self) -> str:
        """Hash of the package's version, the plugins' distributions and versions, full names and all settings.

        The kernel backend is not part of it. Compare it across ranks once, before the first step.
        """
        return self._fingerprint

    # ------------------------------------------------------------------------------------------------- the answer

    def _with_records(self, problem: Problem, batch: Batch) -> RecordStep | None:
        """What a record-style algorithm is asked instead; None for all others."""
        if not self._algorithm.record_style:
            return None
        adapter: RecordAlgorithm = self._algorithm.instance
        return adapter.bind(problem, batch, self.packing_budgets, lambda: dealt_out(problem, batch, self.baseline))

    def _accept(
        self, problem: Problem, candidate: Assignment | None, batch: Batch, step: int, records: RecordStep | None
    ) -> Plan:
        objective = problem.objective
        keeps_order = getattr(self._algorithm.instance, "keeps_order", False)
        if candidate is not None and not keeps_order:
            candidate = into_rounds(problem, candidate)
        score = problem.delivered_score if records is None else partial(records.score, problem)
        after = None if candidate is None else score(candidate)
        before = None if problem.reference is None else score(problem.reference)
        unit = objective.unit(problem.cost_exponent) if records is None else Fraction(1)
        decision = decide(before, after, self.min_balance_gain, unit=unit)
        layout = candidate if decision.accepted else problem.reference
        assert layout is not None
        assert problem.bins_per_rank is not None
        resolved, estimator = self._algorithm, self._estimator
        lengths = batch.lengths
        by_position = np.empty_like(batch.by_key)
        by_position[batch.by_key] = np.arange(batch.by_key.size)
        return Plan(
            algorithm=resolved.name,
            estimator="given" if estimator is None else estimator.name,
            objective=objective.name,
            step=step,
            data_parallel_size=self.data_parallel_size,
            window=self.window,
            bins_per_rank=problem.bins_per_rank,
            seq_len=self.seq_len,
            offsets=layout.offsets,
            items=_frozen(batch.by_key[layout.items].astype(np.int32)),
            sample_keys=batch.keys,
            lengths=lengths,
            tokens=_frozen(problem.tokens[by_position]),
            fixed_costs=_frozen(problem.cost[by_position]),
            cost_exponent=problem.cost_exponent,
            pack_loads=_frozen(problem.pack_loads(layout)),
            bound=lower_bound(problem, reached=_bounded_score(problem, layout)),
            comparison=comparison(problem, batch, self.baseline),
            decision=decision,
            config_fingerprint=self.config_fingerprint,
            inputs_digest=inputs_digest(problem),
            environment=environment(),
            objective_parameters=objective.parameters,
            component_loads=problem.component_loads(layout),
        )


def _bounded_score(problem: Problem, layout: Assignment) -> int:
    """What the lower bound is on: the objective, or the largest rank load under one that is no load."""
    if problem.objective.additive:
        return problem.delivered_score(layout)
    return int(rank_loads(problem.pack_loads(layout), problem.ranks).max())


def _frozen(array: Any) -> Any:
    array.flags.writeable = False
    return array


def _resolve_estimator(config: Any) -> Resolved | None:
    """None: the costs that come with the samples. A plain function of one record is wrapped."""
    if config is None:
        return None
    if callable(config) and not isinstance(config, type) and not hasattr(config, "columns"):
        from packing.estimators.callables import CallableEstimator

        name = f"{getattr(config, '__module__', '')}:{getattr(config, '__qualname__', type(config).__qualname__)}"
        return Resolved(name, CallableEstimator(config), frozenset(), {}, None, "", "")
    return resolve_estimator(config)


def _with_found_bins(problem: Problem, candidate: Any) -> Problem:
    """An open problem closed at the number of bins that the algorithm chose."""
    if problem.bins_per_rank is not None or not isinstance(candidate, Assignment):
        return problem
    return problem.with_bins_per_rank(max(1, -(-candidate.num_bins // problem.ranks)))
