"""Complete packs into rounds: which rank gets which pack, and when."""

from __future__ import annotations

from typing import Any

import numpy as np

from packing import _checks, _kernels
from packing._checks import Int64Array, shown
from packing._fixed_point import SUM_BITS, exact_sum, finite, quantise_costs
from packing.assignment import Assignment
from packing.errors import ConfigError
from packing.partition import Int32Array, descending_order
from packing.problem import Problem

__all__ = ["into_rounds", "schedule_rounds"]

_NONE32, _NONE64 = np.empty(0, np.int32), np.empty(0, np.int64)


def schedule_rounds(
    pack_loads: Any, data_parallel_size: int, *, stages: int | None = None, keep_ranks: bool = False
) -> Int64Array:
    """Which rank runs which complete pack in which round; no pack is opened, and every rank gets equally many.

    Without `stages` the ranks wait for each other after every round. Packs are sorted by load into rounds, heaviest
    first, so that a round holds packs that are alike: the sum of the largest loads is the smallest possible.

    With `stages` they wait once a step, behind a pipeline of that many stages (1: none) run by 1F1B. Packs go, heaviest
    first, to the rank for which (sum + (stages - 1) * largest) is smallest, the closed form of its time, then swaps
    lower the largest. A rank runs them from the smallest up and down again, so that small ones lie at both ends: there
    the other stages wait for them. On equal stages this is as good as the best of 500 random orders by exact replay.

    Args:
        pack_loads: [K] numbers of at least 0, or [data_parallel_size, K / data_parallel_size] where ranks have packs.
        data_parallel_size: number of ranks; K must be a multiple of it.
        stages: stages of the pipeline, or None: a barrier after every round.
        keep_ranks: every pack stays on its rank, row of `pack_loads` (or K / data_parallel_size consecutive ones).

    Returns:
        int64[data_parallel_size, rounds]: rank r runs pack `result[r, j]` (position in the flattened loads) in round j.

    Raises:
        ConfigError: an argument has a wrong type or value; loads whose number does not fit the ranks.
    """
    ranks = _checks.integer("data_parallel_size", data_parallel_size, minimum=1)
    pipeline = _checks.optional_integer("stages", stages, minimum=1, maximum=1 << 16)
    stay = _checks.boolean("keep_ranks", keep_ranks)
    try:
        array = np.asarray(pack_loads)
    except ValueError:
        raise ConfigError(
            f"`pack_loads` must have the same number of loads in every row, but got {shown(pack_loads)}."
        ) from None
    if array.ndim == 2 and len(array) != ranks:
        raise ConfigError(f"`pack_loads` must have a row for each of the {ranks} ranks, but got {len(array)}.")
    if array.ndim == 0 or array.ndim > 2 or array.size % ranks or array.size == 0:
        raise ConfigError(
            f"`pack_loads` must hold a positive multiple of {ranks} loads, but got {shown(array.tolist())}."
        )
    loads, _, _ = quantise_costs(finite("pack_loads", array.reshape(-1)), None, 1)
    return _scheduled(loads, ranks, pipeline, stay)


def into_rounds(problem: Problem, layout: Assignment) -> Assignment:
    """The same packs where the objective wants them: sorted into rounds, or in an order for the pipeline.

    Under `rounds` heaviest first, which is what it scores; under `pipeline` dealt to the ranks anew where that lowers
    the score, and small ones at both ends. Packs stay on their rank where a limit holds for all packs of a rank
    together, and all stays as it is where bins differ in capacity, and under other objectives.
    """
    assert problem.bins_per_rank is not None
    assert problem.round_size is not None
    slots, objective = problem.bins_per_rank, problem.objective
    if objective.name not in ("rounds", "pipeline") or isinstance(problem.capacity, np.ndarray):
        return layout
    stay = slots > 1 and (problem.equal_count or (problem.group is not None and problem.group_scope == "rank"))
    loads = problem.pack_loads(layout)
    if objective.name == "rounds":
        size = problem.ranks if stay else problem.round_size
        # Synchronous round j of the step is micro-batch `slot` of window round `w`, j = w * M + slot.
        where = _scheduled(loads, size, None, stay).reshape(size, problem.ranks // size, slots).transpose(1, 0, 2)
        return layout.reordered(where.reshape(-1))
    dealt = None if stay else _scheduled(loads, problem.ranks, objective.stages, False).reshape(-1)
    if dealt is None or _score(problem, loads[dealt]) >= _score(problem, loads):
        dealt = _scheduled(loads, problem.ranks, objective.stages, True).reshape(-1)
    return layout.reordered(dealt)


def _score(problem: Problem, loads: Int64Array) -> int:
    return problem.objective.score(loads, problem.ranks, problem.bins_per_rank or 1, problem.round_size or 1)


def _scheduled(loads: Int64Array, ranks: int, stages: int | None, stay: bool) -> Int64Array:
    """`schedule_rounds` on checked loads, int64[K] with a sum below 2**62."""
    rounds = loads.size // ranks
    if stay:
        by_rank = loads.reshape(ranks, rounds)
        packs = np.argsort(-by_rank, axis=1, kind="stable") + np.arange(0, loads.size, rounds)[:, None]
    elif stages is None:
        return np.argsort(-loads, kind="stable").reshape(rounds, ranks).T
    else:
        packs = _dealt(loads, ranks, stages)
    return packs if stages is None else _small_at_both_ends(packs)


def _small_at_both_ends(packs: Int64Array) -> Int64Array:
    """Rows that descend in load, taken as their smallest, third smallest, ..., largest, ..., second smallest."""
    ascending = packs[:, ::-1]
    return np.concatenate([ascending[:, ::2], ascending[:, 1::2][:, ::-1]], axis=1)


def _dealt(loads: Int64Array, ranks: int, stages: int) -> Int64Array:
    """Equally many packs for every rank, in rows that descend in load.

    The `ranks` heaviest packs go to different ranks. Each is the largest of its rank, so it counts `stages` times, and
    what is left is dividing the others: greedily, then by swaps.
    """
    count, rounds = loads.size, loads.size // ranks
    order = descending_order(loads)
    weights = loads[order]
    shift = max(0, (stages * exact_sum(weights)).bit_length() - SUM_BITS)
    weights >>= shift  # only loads near 2**62 lose their last bits here, and only for the choice of ranks
    weights[:ranks] *= stages
    in_turn, rank_of = np.arange(count, dtype=np.int32), np.empty(count, np.int32)
    _place(weights, in_turn, ranks, rounds, rank_of)
    items: Int32Array = np.argsort(rank_of, kind="stable").astype(np.int32)
    # A heaviest pack takes the one token that a rank has room for: swaps move it only in exchange for another such.
    tokens = (in_turn < ranks).astype(np.int64)
    kernel = _kernels.swap
    kernel.lower_largest(
        weights, tokens, np.ones(ranks, np.int64), np.arange(0, count + 1, rounds, dtype=np.int32), items,
        -(-exact_sum(weights) // ranks), ranks, np.empty(kernel.lower_largest_workspace(count, ranks), np.uint8),
    )  # fmt: skip
    return order[np.sort(items.reshape(ranks, rounds), axis=1)].astype(np.int64)


def _place(weights: Int64Array, order: Int32Array, ranks: int, most: int, rank_of: Int32Array) -> None:
    kernel, count = _kernels.greedy, order.size
    kernel.place(
        np.ones(count, np.int64), weights, _NONE32, np.empty((count, 0), np.int64), _NONE64, _NONE32, 0, order,
        np.full(ranks, kernel.NO_CAPACITY, np.int64), _NONE64, _NONE64, ranks, 1, ranks, most, False,
        kernel.LOAD_BEFORE, rank_of, np.empty(kernel.place_workspace(count, ranks, 1, 0, 0), np.uint8),
    )  # fmt: skip
