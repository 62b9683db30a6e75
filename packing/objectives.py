"""Objectives by name: what a layout costs, as exact integers, lower is better."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from packing import _checks
from packing._checks import Int64Array, shown
from packing.errors import ConfigError, UnknownNameError

__all__ = [
    "BALANCE_UNIT_BITS",
    "OBJECTIVES",
    "OBJECTIVE_NAMES",
    "Objective",
    "get_objective",
    "rank_loads",
    "squared_variation",
]

BALANCE_UNIT_BITS = 60
"""`balance` is an exact fraction, floored to a multiple of 2**-60."""


def rank_loads(pack_loads: Int64Array, ranks: int) -> Int64Array:
    """int64[R]: the load of each rank, from the loads of its bins, int64[K] with K = R * M, rank-major."""
    loads: Int64Array = pack_loads.reshape(ranks, -1).sum(axis=1)
    return loads


def squared_variation(loads: Int64Array | Sequence[int]) -> Fraction:
    """The squared coefficient of variation, variance / mean**2, exactly; 0 when all loads are 0."""
    values = [int(load) for load in loads]
    total = sum(values)
    if total == 0:
        return Fraction(0)
    return Fraction(len(values) * sum(load * load for load in values) - total * total, total * total)


def _makespan(pack_loads: Int64Array, ranks: int, bins_per_rank: int, round_size: int) -> int:
    return int(rank_loads(pack_loads, ranks).max())


def _balance(pack_loads: Int64Array, ranks: int, bins_per_rank: int, round_size: int) -> int:
    exact = squared_variation(rank_loads(pack_loads, ranks))
    return (exact.numerator << BALANCE_UNIT_BITS) // exact.denominator


def _rounds(pack_loads: Int64Array, ranks: int, bins_per_rank: int, round_size: int) -> int:
    return int(np.sort(pack_loads)[::-1][::round_size].sum())


def _rounds_where_they_lie(pack_loads: Int64Array, ranks: int, bins_per_rank: int, round_size: int) -> int:
    # Ranks of one window round wait for each other after every slot.
    return int(pack_loads.reshape(-1, round_size, bins_per_rank).max(axis=1).sum())


def _pipeline(stages: int, pack_loads: Int64Array, ranks: int, bins_per_rank: int, round_size: int) -> int:
    by_rank = pack_loads.reshape(ranks, -1)
    sums, largest = by_rank.sum(axis=1), by_rank.max(axis=1)
    if stages * int(sums.max()) < 1 << 63:
        return int((sums + (stages - 1) * largest).max())
    scores: list[int] = [load + (stages - 1) * pack for load, pack in zip(sums.tolist(), largest.tolist(), strict=True)]
    return max(scores)


def _components(pack_loads: Int64Array, ranks: int, bins_per_rank: int, round_size: int) -> int:
    by_rank = pack_loads.reshape(ranks, bins_per_rank, -1).sum(axis=1)
    return int(by_rank.max(axis=0).sum())


@dataclass(frozen=True, slots=True)
class Objective:
    """One objective with its parameters; `get_objective` makes it.

    Attributes:
        name: how users choose it.
        summary: one sentence for listings.
        additive: True where the score is a load (it shares the costs' unit), False where it is a multiple of 2**-60.
        stages: P, the stages of a pipeline; a score is P times what it stands for. 1 for all others.
        weights: (name, weight) of each cost component, C of them, by name; empty for all others.
    """

    name: str
    summary: str
    additive: bool
    _score: Callable[[Int64Array, int, int, int], int]
    _delivered: Callable[[Int64Array, int, int, int], int] | None = None
    stages: int = 1
    weights: tuple[tuple[str, float], ...] = ()

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters as JSON values; empty where there are none."""
        stages = {"stages": self.stages} if self.name == "pipeline" else {}
        return stages | ({"weights": dict(self.weights)} if self.weights else {})

    @property
    def setting(self) -> str | dict[str, Any]:
        """What `get_objective` makes it of: the name, or a mapping where there are parameters."""
        return {"name": self.name, **self.parameters} if self.parameters else self.name

    def score(self, pack_loads: Int64Array, ranks: int, bins_per_rank: int, round_size: int) -> int:
        """The exact score of a layout, lower is better.

        Args:
            pack_loads: int64[K], the load of each bin, pad cost included, rank-major; under `components`
                int64[K, C], the weighted load of each bin in each component.
            ranks: R, virtual ranks (rounds times physical ranks).
            bins_per_rank: M, with K = R * M.
            round_size: g, how many ranks wait for each other in one synchronous round.
        """
        return self._score(pack_loads, ranks, bins_per_rank, round_size)

    def delivered(self, pack_loads: Int64Array, ranks: int, bins_per_rank: int, round_size: int) -> int:
        """The exact score of the packs in the slots where they lie; what the gate compares and a plan reports.

        It differs from `score` only under `rounds`: that is the score once the packs are sorted into rounds, which the
        planner does with the layouts that it accepts.
        """
        return (self._delivered or self._score)(pack_loads, ranks, bins_per_rank, round_size)

    def unit(self, cost_exponent: int = 0) -> Fraction:
        """What a score of 1 is worth in the user's unit, where costs are value * 2**cost_exponent."""
        exponent = cost_exponent if self.additive else BALANCE_UNIT_BITS
        return 1 / (Fraction(2) ** exponent * self.stages)

    def value(self, score: int, cost_exponent: int = 0) -> float:
        """A score in the user's unit, for display."""
        return float(score * self.unit(cost_exponent))

    def __str__(self) -> str:
        shown_weights = [f"{name}={weight:g}" for name, weight in self.weights]
        parts = [f"stages={self.stages}"] if self.name == "pipeline" else shown_weights
        return f"{self.name}({', '.join(parts)})" if parts else self.name

    def __eq__(self, other: object) -> bool:
        return self.setting == other.setting if isinstance(other, Objective) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.name, self.stages, self.weights))

    def __reduce__(self) -> tuple[Callable[[Any], Objective], tuple[Any]]:
        return get_objective, (self.setting,)


OBJECTIVES: dict[str, Objective] = {
    one.name: one
    for one in (
        Objective("makespan", "largest sum of packs on one rank: one synchronisation per step", True, _makespan),
        Objective("balance", "squared coefficient of variation of the rank loads", False, _balance),
        Objective(
            "rounds",
            "sum over synchronous rounds of the largest pack, packs sorted into rounds",
            True,
            _rounds,
            _rounds_where_they_lie,
        ),
    )
}
"""The objectives without parameters, by name."""


def _pipeline_of(stages: Any = None) -> Objective:
    """Closed form of a 1F1B step, max over ranks of (sum + (P - 1) * largest) / P: bubbles are as long as the largest
    micro-batch (Narayanan et al. 2021, PipeDream-Flush, section 2.2, with unequal micro-batches).
    """
    if stages is None:
        raise ConfigError('`objective` "pipeline" needs `stages`, as in {"name": "pipeline", "stages": 4}.')
    number = _checks.integer("objective.stages", stages, minimum=1, maximum=1 << 16)
    summary = "pipeline stages: the sum of a rank's packs and P - 1 times its largest, over P"
    return Objective("pipeline", summary, True, partial(_pipeline, number), stages=number)


def _components_of(weights: Any = None) -> Objective:
    if not isinstance(weights, Mapping) or not weights:
        wanted = 'such as {"llm": 1.0, "encoder": 0.5}'
        raise ConfigError(f"`objective.weights` must map cost components to weights, {wanted}, got {shown(weights)}.")
    checked = []
    for name, weight in weights.items():
        if not isinstance(name, str):
            raise ConfigError(f"`objective.weights` must have names that are text, but got {shown(name)}.")
        number = _checks.real(f"objective.weights.{name}", weight)
        if number == 0:
            raise ConfigError(
                f"`objective.weights.{name}` must be positive (leave out what does not count), but got 0."
            )
        # A whole weight stays one: 1 and 1.0 are the same setting, and whole costs stay whole.
        checked.append((name, int(number) if number.is_integer() and number < 2.0**53 else number))
    summary = "weighted sum over the cost components of the largest rank load in each"
    return Objective("components", summary, True, _components, weights=tuple(sorted(checked)))


_WITH_PARAMETERS: dict[str, tuple[Callable[..., Objective], tuple[str, ...]]] = {
    "pipeline": (_pipeline_of, ("stages",)),
    "components": (_components_of, ("weights",)),
}

OBJECTIVE_NAMES = (*OBJECTIVES, *_WITH_PARAMETERS)
"""All objectives by name; each is a capability that algorithms declare."""


def get_objective(setting: Any) -> Objective:
    """The objective of a setting: a name, or a mapping with "name" and parameters.

    `makespan`, `balance` and `rounds` have none; `pipeline` has `stages`, `components` has `weights`.

    Raises:
        ConfigError: `setting` is neither, or a parameter is unknown, missing or malformed.
        UnknownNameError: there is no such objective; the message lists those that exist.
    """
    if isinstance(setting, Objective):
        return setting
    name, parameters = setting, {}
    if isinstance(setting, Mapping):
        parameters = dict(setting)
        name = parameters.pop("name", None)
    if not isinstance(name, str):
        raise ConfigError(f"`objective` must be a name, or a mapping with one, but got {shown(setting)}.")
    if name not in OBJECTIVE_NAMES:
        near = difflib.get_close_matches(name, OBJECTIVE_NAMES, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise UnknownNameError(f"`objective` {name!r} does not exist; there are: {', '.join(OBJECTIVE_NAMES)}.{hint}")
    make, known = _WITH_PARAMETERS.get(name, (None, ()))
    for parameter in parameters:
        if parameter not in known:
            has = ", ".join(f"`{one}`" for one in known) or "none"
            raise ConfigError(f"`objective` {name!r} has no parameter {shown(parameter)}; its parameters: {has}.")
    return OBJECTIVES[name] if make is None else make(**parameters)
