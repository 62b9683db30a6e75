"""The records a trainer hands in: sample keys, sample metadata, workload costs and the constraints of a bin."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from packing._checks import integer, one_of, real, shown
from packing.errors import ConfigError, InfeasibleError

if TYPE_CHECKING:
    from fractions import Fraction

__all__ = ["PackingConstraints", "SampleKey", "SampleMetadata", "WorkloadCost"]

OVERSIZED_POLICIES = ("error", "single")


class ReadOnlyDict(dict[str, Any]):
    """A dict that refuses changes and is hashable; it compares, copies, pickles and dumps to JSON like a dict."""

    __slots__ = ()

    def _refuse(self, *args: object, **kwargs: object) -> NoReturn:
        raise TypeError("the mappings of a record are read-only; build a new record instead")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    # A dict has no hash because it changes; this one does not.
    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        # The default protocol rebuilds a dict by item assignment, which is refused here.
        return ReadOnlyDict, (dict(self),)


_EMPTY = ReadOnlyDict()


@dataclass(frozen=True, slots=True, order=True)
class SampleKey:
    """Where a sample comes from: unique in a step, the same on every rank, and the tie-breaker of every plan.

    Keys order by reader rank, then dataset, then position.

    Args:
        reader_rank: data-parallel rank that read the sample, at least 0.
        dataset_index: index of its dataset in the mixture, at least 0.
        global_sample_position: position in that dataset's stream, at least 0.

    Raises:
        ConfigError: a field is not a non-negative integer (bools are not integers).
    """

    reader_rank: int
    dataset_index: int
    global_sample_position: int = 0

    def __post_init__(self) -> None:
        for name in ("reader_rank", "dataset_index", "global_sample_position"):
            value = getattr(self, name)
            if type(value) is not int or value < 0:
                object.__setattr__(self, name, integer(name, value, minimum=0))


@dataclass(frozen=True, slots=True)
class WorkloadCost:
    """What a sample costs, by stage; costs add field by field, and `sum` works on them.

    Args:
        io, transform, encoder, llm, memory, communication: finite non-negative numbers in one unit of the caller's
            choice per field; stored as floats. `llm` is what `lpt` and `feasible_lpt` balance.

    Raises:
        ConfigError: a field is not a finite non-negative number; also when a sum of costs overflows.
    """

    io: float = 0.0
    transform: float = 0.0
    encoder: float = 0.0
    llm: float = 0.0
    memory: float = 0.0
    communication: float = 0.0

    def __post_init__(self) -> None:
        for name in _COST_FIELDS:
            value = getattr(self, name)
            if type(value) is not float or not 0.0 <= value < math.inf:
                object.__setattr__(self, name, real(name, value))

    def __add__(self, other: object) -> WorkloadCost:
        if not isinstance(other, WorkloadCost):
            return NotImplemented
        return WorkloadCost(*(getattr(self, name) + getattr(other, name) for name in _COST_FIELDS))

    def __radd__(self, other: object) -> WorkloadCost:
        # `sum` starts from the integer 0.
        return self if other == 0 else NotImplemented


_COST_FIELDS = ("io", "transform", "encoder", "llm", "memory", "communication")
_NO_COST = WorkloadCost()


@dataclass(frozen=True, slots=True)
class SampleMetadata:
    """One sample as the planner sees it: its length, its costs and whatever an estimator may want to know.

    Mappings are deep copies that cannot be changed, and lists in them become tuples, so a record is a value: it
    compares, hashes, copies and pickles as one.

    Args:
        pack_tokens: tokens the sample takes in a packed row, at least 1, before any alignment.
        cost: workload estimate by stage.
        sample_id: a name for messages and reports, or None.
        features: JSON-like values by name (None, bools, integers, finite floats, strings, lists, mappings).
        packing_costs: finite non-negative numbers by name; each counts against the packing budget of that name.
        key: identity and tie-breaker, or None where the position in the input serves.

    Raises:
        ConfigError: a field has a wrong type or value; the message quotes the field and the value.
    """

    pack_tokens: int
    cost: WorkloadCost = _NO_COST
    sample_id: str | int | None = None
    features: Mapping[str, Any] = _EMPTY
    packing_costs: Mapping[str, float] = _EMPTY
    key: SampleKey | None = None

    def __post_init__(self) -> None:
        if type(self.pack_tokens) is not int or self.pack_tokens < 1:
            object.__setattr__(self, "pack_tokens", integer("pack_tokens", self.pack_tokens, minimum=1))
        if not isinstance(self.cost, WorkloadCost):
            raise ConfigError(f"`cost` must be a WorkloadCost, but got {shown(self.cost)}.")
        if not isinstance(self.sample_id, (str, int, type(None))) or isinstance(self.sample_id, bool):
            raise ConfigError(f"`sample_id` must be a string, an integer or None, but got {shown(self.sample_id)}.")
        if self.features is not _EMPTY:
            object.__setattr__(self, "features", _features(self.features))
        if self.packing_costs is not _EMPTY:
            object.__setattr__(self, "packing_costs", _numbers("packing_costs", self.packing_costs))
        if self.key is not None and not isinstance(self.key, SampleKey):
            raise ConfigError(f"`key` must be a SampleKey or None, but got {shown(self.key)}.")


@dataclass(frozen=True, slots=True)
class PackingConstraints:
    """What one bin may hold.

    Args:
        seq_len: token cap of a bin, at least 1; None: no cap.
        oversized_policy: "error": a sample longer than `seq_len` is infeasible; "single": it is alone in its bin.
        packing_budgets: hard caps by name on the sums of the samples' `packing_costs`, finite and non-negative; None:
            no budgets. They bind under both policies.

    Raises:
        ConfigError: a field has a wrong type or value.
    """

    seq_len: int | None
    oversized_policy: str = "error"
    packing_budgets: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        if self.seq_len is not None:
            object.__setattr__(self, "seq_len", integer("seq_len", self.seq_len, minimum=1))
        one_of("oversized_policy", self.oversized_policy, OVERSIZED_POLICIES)
        budgets = _EMPTY if self.packing_budgets is None else _numbers("packing_budgets", self.packing_budgets)
        object.__setattr__(self, "packing_budgets", budgets)

    def fits(self, samples: Iterable[SampleMetadata]) -> bool:
        """Whether the samples may share one bin; an empty bin always may.

        Raises:
            ConfigError: a sample has no packing cost for one of the budgets.
        """
        return self._violation(list(samples)) is None

    def validate_sample(self, sample: SampleMetadata) -> None:
        """Accept a sample that some bin can take.

        Raises:
            InfeasibleError: it is over `seq_len` under "error", or over a budget all by itself.
            ConfigError: it has no packing cost for one of the budgets.
        """
        problem = self._violation([sample])
        if problem is not None:
            raise InfeasibleError(f"{_named(sample)} fits into no bin: {problem}.")

    def validate_bin(self, samples: Iterable[SampleMetadata]) -> None:
        """Accept samples that may share one bin.

        Raises:
            InfeasibleError: one of them fits into no bin, or together they break the cap, a budget or "single".
            ConfigError: a sample has no packing cost for one of the budgets.
        """
        members = list(samples)
        for sample in members:
            self.validate_sample(sample)
        problem = self._violation(members)
        if problem is not None:
            raise InfeasibleError(f"a bin of {len(members)} samples is not allowed: {problem}.")

    def _violation(self, samples: Sequence[SampleMetadata]) -> str | None:
        """The first rule that these samples in one bin break, with its numbers, or None."""
        broken = None
        for name, budget in (self.packing_budgets or {}).items():
            costs = [_packing_cost(sample, name) for sample in samples]
            if broken is None and _exceeds(costs, budget):
                broken = f"`{name}` adds up to {_total(costs)}, but `packing_budgets` allows {budget}"
        if self.seq_len is None:
            return broken
        longest = max((sample.pack_tokens for sample in samples), default=0)
        if longest > self.seq_len and self.oversized_policy == "single":
            if len(samples) == 1:
                return broken
            return f"a sample of {longest} tokens is over `seq_len` = {self.seq_len} and must be alone"
        tokens = sum(sample.pack_tokens for sample in samples)
        return f"{tokens} tokens are over `seq_len` = {self.seq_len}" if tokens > self.seq_len else broken


def _named(sample: SampleMetadata) -> str:
    """How a message calls a sample."""
    if sample.sample_id is not None:
        return f"sample {sample.sample_id!r}"
    return "a sample without key" if sample.key is None else f"sample {sample.key}"


def _packing_cost(sample: SampleMetadata, name: str) -> float:
    """The sample's cost against one budget."""
    try:
        return sample.packing_costs[name]
    except KeyError:
        raise ConfigError(
            f"`packing_costs` of {_named(sample)} must name every budget, but has no {name!r}; it has "
            f"{shown(sorted(sample.packing_costs))}."
        ) from None


def _exceeds(costs: Sequence[float], budget: float) -> bool:
    """Whether the exact sum is above the budget, whatever the order of the samples."""
    if all(type(cost) is int for cost in costs):
        return sum(costs) > budget
    if all(type(cost) is float for cost in (*costs, budget)):
        try:
            # The correctly rounded difference has the sign of the exact one.
            return math.fsum((*costs, -budget)) > 0.0
        except OverflowError:
            pass
    return _exact_sum(costs) > budget


def _total(costs: Sequence[float]) -> float:
    """The sum for a message."""
    total = _exact_sum(costs)
    return int(total) if total.denominator == 1 else float(total)


def _exact_sum(costs: Sequence[float]) -> Fraction:
    # Rare, and the import would cost every process a millisecond.
    from fractions import Fraction

    return sum(map(Fraction, costs), Fraction(0))


def _non_negative(name: str, value: Any) -> float:
    """A finite non-negative number; an integer stays exact."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return integer(name, value, minimum=0)
    return real(name, value)


def _numbers(name: str, values: Any) -> ReadOnlyDict:
    """Finite non-negative numbers by name."""
    return ReadOnlyDict(
        {label: _non_negative(f'{name}["{label}"]', value) for label, value in _items(name, values).items()}
    )


def _features(values: Any) -> ReadOnlyDict:
    """A deep read-only copy of JSON-like features."""
    try:
        return ReadOnlyDict({label: _json(label, value) for label, value in _items("features", values).items()})
    except RecursionError:
        raise ConfigError("`features` must not contain itself or be nested too deeply.") from None


def _json(path: str, value: Any) -> Any:
    """A deep read-only copy of one JSON-like value; `path` is where it stands in `features`."""
    kind = type(value)
    if value is None or kind is bool or kind is str or kind is int:
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return float(value)
    elif isinstance(value, (list, tuple)):
        return tuple([_json(f"{path}[{at}]", entry) for at, entry in enumerate(value)])
    elif isinstance(value, Mapping):
        entries = _items(f"features.{path}", value)
        return ReadOnlyDict({label: _json(f"{path}.{label}", entry) for label, entry in entries.items()})
    elif isinstance(value, (int, str)):
        # Enum members and other subclasses would not survive a round trip through JSON.
        return int(value) if isinstance(value, int) else str(value)
    raise ConfigError(
        f"`features.{path}` must be a JSON value (None, a bool, an integer, a finite float, a string, a list or a "
        f"mapping), but got {shown(value)}."
    )


def _items(name: str, values: Any) -> Mapping[str, Any]:
    """A mapping whose keys are non-empty strings."""
    if not isinstance(values, Mapping):
        raise ConfigError(f"`{name}` must be a mapping, but got {shown(values)}.")
    for label in values:
        if not isinstance(label, str) or not label:
            raise ConfigError(f"`{name}` must have non-empty strings as names, but got {shown(label)}.")
    return values
