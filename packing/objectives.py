"""Objectives by name: what a layout costs, as exact integers, lower is better."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from packing._checks import Int64Array, shown
from packing.errors import ConfigError, UnknownNameError

__all__ = ["BALANCE_UNIT_BITS", "OBJECTIVES", "Objective", "get_objective", "rank_loads", "squared_variation"]

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


@dataclass(frozen=True, slots=True)
class Objective:
    """One objective.

    Attributes:
        name: how users choose it.
        summary: one sentence for listings.
        additive: True where the score is a load (it shares the costs' unit), False where it is a multiple of 2**-60.
    """

    name: str
    summary: str
    additive: bool
    _score: Callable[[Int64Array, int, int, int], int]
    _delivered: Callable[[Int64Array, int, int, int], int] | None = None

    def score(self, pack_loads: Int64Array, ranks: int, bins_per_rank: int, round_size: int) -> int:
        """The exact score of a layout, lower is better.

        Args:
            pack_loads: int64[K], the load of each bin, pad cost included, rank-major.
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

    def value(self, score: int, cost_exponent: int = 0) -> float:
        """A score in the user's unit, for display."""
        return float(Fraction(score) / (Fraction(2) ** (cost_exponent if self.additive else BALANCE_UNIT_BITS)))

    def __reduce__(self) -> tuple[Callable[[str], Objective], tuple[str]]:
        return get_objective, (self.name,)


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


def get_objective(name: str) -> Objective:
    """The objective of that name.

    Raises:
        ConfigError: `name` is not a string.
        UnknownNameError: there is none; the message lists those that exist.
    """
    if not isinstance(name, str):
        raise ConfigError(f"`objective` must be a name, but got {shown(name)}.")
    if name not in OBJECTIVES:
        near = difflib.get_close_matches(name, OBJECTIVES, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise UnknownNameError(f"`objective` {name!r} does not exist; there are: {', '.join(OBJECTIVES)}.{hint}")
    return OBJECTIVES[name]
