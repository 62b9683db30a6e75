"""Plan: the accepted layout of one step with its loads, its bound, its decision and its identities."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from packing._checks import Int64Array
from packing._fixed_point import to_float
from packing.bounds import Bound
from packing.gate import Decision
from packing.objectives import OBJECTIVES, Objective, get_objective
from packing.records import SampleKey

__all__ = ["Comparison", "LowerBound", "Plan"]

Float64Array = npt.NDArray[np.float64]
_Array = TypeVar("_Array", bound=npt.NDArray[Any])


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """What the plan is compared with.

    Attributes:
        kind: "reference" (the layout that was handed in) or "baseline" (the samples dealt out in input order).
        rank_loads: float64[R].
        num_overflowing_bins: bins over the token cap; always 0 for a reference.
    """

    kind: str
    rank_loads: Float64Array
    num_overflowing_bins: int

    def __post_init__(self) -> None:
        self.rank_loads.flags.writeable = False

    def __reduce__(self) -> tuple[Any, ...]:
        return Comparison, (self.kind, self.rank_loads, self.num_overflowing_bins)

    @property
    def imbalance(self) -> float:
        """Largest over mean rank load."""
        return imbalance(self.rank_loads)


@dataclass(frozen=True, slots=True)
class LowerBound:
    """What no layout can beat, in the unit of the costs; see `packing.bounds.Bound`."""

    value: float
    name: str
    explanation: str
    floor: float


def _frozen(array: _Array) -> _Array:
    array.flags.writeable = False
    return array


def imbalance(loads: Float64Array) -> float:
    """Largest over mean load; 1 where there is no work."""
    mean = float(loads.mean())
    return float(loads.max()) / mean if mean > 0 else 1.0


@dataclass(frozen=True, eq=False)
class Plan:
    """One step, decided. Samples are named by their position in the input, N of them; bins are rank-major.

    With g = `data_parallel_size` and W = `window`, virtual rank v = round * g + rank, R = W * g; bin b = v * M + slot.

    Attributes:
        offsets, items: int32[K+1] and int32[N]: bin b holds the samples `items[offsets[b]:offsets[b + 1]]`, in order.
        sample_keys: int64[N, 3] by position, or None: positions are the keys.
        lengths, tokens: int64[N] by position, before and after alignment.
        fixed_costs: int64[N] by position, value * 2**cost_exponent.
        pack_loads: int64[K] in the same fixed point, cost of each bin with its pad cost.
        bound: the proven lower bound, same fixed point. comparison: reference or baseline. decision: the gate's.
        config_fingerprint: of versions, names and options; equal on every rank of a healthy job.
        inputs_digest: of the inputs that are not in the plan itself (budgets, groups, pad cost, reference).
        environment: backend and versions, for information only.
        objective_parameters: those of the objective, as JSON values: `stages` of `pipeline`, `weights` of `components`.
        component_loads: int64[K, C], load of each bin in each component that `components` weighs, by name; else None.
    """

    algorithm: str
    estimator: str
    objective: str
    step: int
    data_parallel_size: int
    window: int
    bins_per_rank: int
    seq_len: int | None
    offsets: npt.NDArray[np.int32]
    items: npt.NDArray[np.int32]
    sample_keys: Int64Array | None
    lengths: Int64Array
    tokens: Int64Array
    fixed_costs: Int64Array
    cost_exponent: int
    pack_loads: Int64Array
    bound: Bound
    comparison: Comparison
    decision: Decision
    config_fingerprint: str
    inputs_digest: str
    environment: Mapping[str, str]
    objective_parameters: Mapping[str, Any] = field(default_factory=dict)
    component_loads: Int64Array | None = None

    def __post_init__(self) -> None:
        for value in vars(self).values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False

    def __setstate__(self, state: dict[str, Any]) -> None:
        # NumPy forgets on the way through a pickle that an array is read-only.
        vars(self).update(state)
        self.__post_init__()

    # ------------------------------------------------------------------------------------------------------ shape

    @property
    def num_samples(self) -> int:
        """N."""
        return self.items.size

    @property
    def ranks(self) -> int:
        """R, virtual ranks: window * data_parallel_size."""
        return self.data_parallel_size * self.window

    @property
    def num_bins(self) -> int:
        """K = R * M."""
        return self.offsets.size - 1

    # ----------------------------------------------------------------------------------------------------- layout

    def bins(self) -> list[list[int]]:
        """The samples (input positions) of every bin, K lists."""
        edges, items = self.offsets.tolist(), self.items.tolist()
        return [items[start:stop] for start, stop in pairwise(edges)]

    def bin(self, rank: int, slot: int = 0, round: int = 0) -> list[int]:
        """The samples (input positions) that physical rank `rank` packs into row `slot` in round `round`."""
        for name, value, limit in (
            ("rank", rank, self.data_parallel_size),
            ("slot", slot, self.bins_per_rank),
            ("round", round, self.window),
        ):
            if not 0 <= value < limit:
                raise IndexError(f"`{name}` must lie in [0, {limit}), but got {value}.")
        b = (round * self.data_parallel_size + rank) * self.bins_per_rank + slot
        return [int(item) for item in self.items[self.offsets[b] : self.offsets[b + 1]]]

    def rank(self, rank: int) -> list[list[int]]:
        """The rows of one physical rank, window * M lists of input positions, by round, then slot."""
        return [self.bin(rank, slot, round) for round in range(self.window) for slot in range(self.bins_per_rank)]

    def keys(self) -> list[list[SampleKey]] | None:
        """The bins as `SampleKey`s, or None where the input had none."""
        if self.sample_keys is None:
            return None
        rows = self.sample_keys.tolist()
        return [[SampleKey(*rows[item]) for item in members] for members in self.bins()]

    @property
    def permutation(self) -> npt.NDArray[np.int32]:
        """int32[N]: input positions in layout order, bin after bin; `samples[permutation]` is the layout."""
        return self.items

    @cached_property
    def inverse_permutation(self) -> npt.NDArray[np.int32]:
        """int32[N]: where each input sample lies in layout order; `laid_out[inverse_permutation]` is the input."""
        inverse = np.empty_like(self.items)
        inverse[self.items] = np.arange(self.items.size, dtype=np.int32)
        return _frozen(inverse)

    # ------------------------------------------------------------------------------------------------------ loads

    @cached_property
    def bin_tokens(self) -> Int64Array:
        """int64[K]: aligned tokens of each bin."""
        running = np.concatenate(([0], np.cumsum(self.tokens[self.items])))
        return _frozen(running[self.offsets[1:]] - running[self.offsets[:-1]])

    @cached_property
    def bin_costs(self) -> Float64Array:
        """float64[K]: load of each bin (pad cost included), in the unit of the estimator."""
        return _frozen(to_float(self.pack_loads, self.cost_exponent))

    @cached_property
    def rank_loads(self) -> Float64Array:
        """float64[R]: load of each virtual rank."""
        return _frozen(to_float(self.pack_loads.reshape(self.ranks, -1).sum(axis=1), self.cost_exponent))

    @property
    def imbalance(self) -> float:
        """Largest over mean rank load; 1 is perfect."""
        return imbalance(self.rank_loads)

    @cached_property
    def round_imbalance(self) -> float:
        """What the window costs when ranks wait for each other after every round, over perfectly equal work.

        The sum over the rounds, as they are laid out, of the largest rank load in each, over total load / g.
        """
        rounds = self.rank_loads.reshape(self.window, -1)
        total = float(rounds.sum())
        return float(rounds.max(axis=1).sum()) * self.data_parallel_size / total if total > 0 else 1.0

    @cached_property
    def objective_value(self) -> float:
        """The objective of this layout: a load in the costs' unit, or the squared variation under `balance`."""
        return self._objective.value(self._delivered(self._objective), self.cost_exponent)

    @cached_property
    def _objective(self) -> Objective:
        return get_objective({"name": self.objective, **self.objective_parameters})

    def _delivered(self, objective: Objective) -> int:
        loads = self.component_loads if objective.weights else self.pack_loads
        assert loads is not None
        return objective.delivered(loads, self.ranks, self.bins_per_rank, self.data_parallel_size)

    @property
    def baseline(self) -> Comparison:
        """What the plan is compared with: the reference, or the samples dealt out in input order."""
        return self.comparison

    @property
    def lower_bound(self) -> LowerBound:
        """What no layout of these samples can beat, and which bound binds."""
        value = self._bounded.value(self.bound.score, self.cost_exponent)
        return LowerBound(value, self.bound.name, self.bound.explanation, self.bound.floor)

    @cached_property
    def gap(self) -> float:
        """How far the plan is above the lower bound, relative: 0 is proven optimal.

        The objective is compared; under `balance`, whose bound is on the largest rank load, that load. Infinite where
        the bound is 0 and the load is not (samples that cost nothing, under a pad cost).
        """
        score = self._delivered(self._bounded)
        return score / self.bound.score - 1 if self.bound.score else (0.0 if score == 0 else float("inf"))

    @property
    def _bounded(self) -> Objective:
        """What the bound is on."""
        return self._objective if self._objective.additive else OBJECTIVES["makespan"]

    @cached_property
    def metrics(self) -> dict[str, float | int | str]:
        """Flat scalars for a logger; the same keys every step."""
        tokens = int(self.bin_tokens.sum())
        room = 0 if self.seq_len is None else self.seq_len * self.num_bins
        return {
            "num_samples": self.num_samples,
            "num_tokens": int(self.lengths.sum()),
            "num_alignment_tokens": tokens - int(self.lengths.sum()),
            "num_bins": self.num_bins,
            "bins_per_rank": self.bins_per_rank,
            "fill": tokens / room if room else 1.0,
            "largest_bin_tokens": int(self.bin_tokens.max()),
            "largest_rank_load": float(self.rank_loads.max()),
            "mean_rank_load": float(self.rank_loads.mean()),
            "imbalance": self.imbalance,
            "round_imbalance": self.round_imbalance,
            "baseline_imbalance": self.comparison.imbalance,
            "baseline_num_overflowing_bins": self.comparison.num_overflowing_bins,
            "lower_bound": self.lower_bound.value,
            "lower_bound_name": self.bound.name,
            "gap": self.gap,
            "objective": str(self._objective),
            "objective_value": self.objective_value,
            "accepted": int(self.decision.accepted),
        }

    # ------------------------------------------------------------------------------------------------- identities

    @cached_property
    def digest(self) -> str:
        """Of the inputs, the options and the layout; independent of the order in which keyed samples came in.

        Ranks that agree on it have the same plan. It changes when a length, a cost, an option, the step or the layout
        does.
        """
        head = [
            self.config_fingerprint, self.inputs_digest, self.step, self.algorithm, self.estimator,
            self._objective.setting, self.data_parallel_size, self.window, self.bins_per_rank, self.seq_len,
            self.cost_exponent,
        ]  # fmt: skip
        digest = hashlib.sha256(json.dumps(head).encode())
        keys = self.items[:, None] if self.sample_keys is None else self.sample_keys[self.items]
        for column in (
            self.offsets,
            keys,
            self.lengths[self.items],
            self.tokens[self.items],
            self.fixed_costs[self.items],
        ):
            digest.update(np.ascontiguousarray(column, "<i8").tobytes())
        return digest.hexdigest()

    # ------------------------------------------------------------------------------------------------------- JSON

    def to_json(self, *, indent: int | None = None) -> str:
        """The plan as JSON, with a schema number; `from_json` gives it back."""
        from packing._plan_json import encode

        return encode(self, indent)

    @classmethod
    def from_json(cls, text: str | bytes) -> Plan:
        """The plan that `to_json` wrote.

        Raises:
            ConfigError: no plan, of a newer schema, or changed since it was written (its digest does not match).
        """
        from packing._plan_json import decode

        return decode(text)

    def __eq__(self, other: object) -> bool:
        return self.digest == other.digest if isinstance(other, Plan) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return (
            f"Plan({self.algorithm!r}, {self.num_samples} samples, {self.data_parallel_size} ranks x "
            f"{self.window} rounds x {self.bins_per_rank} bins, imbalance {self.imbalance:.4f}, "
            f"gap {self.gap:.4f}, digest {self.digest[:12]})"
        )
