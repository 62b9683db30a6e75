"""The optimum of a small problem of any kind, by looking at every way to put each sample into a bin."""

from __future__ import annotations

import numpy as np

from packing.problem import Problem

__all__ = ["best_balance", "best_score"]


def best_score(problem: Problem) -> int | None:
    """The smallest score of a valid layout (under `balance` the smallest largest rank load), or None without one."""
    inside = _valid_layouts(problem)
    return int(_scores(problem, inside).min()) if len(inside) else None


def best_balance(problem: Problem) -> int | None:
    """The smallest score of a valid layout under `balance`, or None without one."""
    inside = _valid_layouts(problem)
    loads = _pack_loads(problem, inside).reshape(len(inside), problem.ranks, problem.bins_per_rank).sum(axis=2)
    different = np.unique(np.sort(loads), axis=0)
    return min((problem.objective.score(each, problem.ranks, 1, problem.ranks) for each in different), default=None)


def _valid_layouts(problem: Problem) -> np.ndarray:
    """bool[layout, sample, bin]: every layout that keeps every limit."""
    num_bins, count = problem.num_bins, problem.num_samples
    places = np.indices((num_bins,) * count).reshape(count, -1).T
    inside = places[:, :, None] == np.arange(num_bins)  # [layout, sample, bin]
    held = inside.sum(axis=1)
    valid = (held > 0).all(axis=1)
    tokens = _sums(inside, problem.tokens)
    if problem.capacity is not None:
        over = tokens > problem.capacities()
        if problem.oversized == "single":
            longest = (inside * problem.tokens[None, :, None]).max(axis=1)
            over &= ~((held == 1) & (longest > problem.capacities()))
        valid &= ~over.any(axis=1)
    if problem.footprints is not None:
        for b, budget in enumerate(problem.budgets.tolist()):
            valid &= (_sums(inside, problem.footprints[:, b]) <= budget).all(axis=1)
    if problem.max_items is not None:
        valid &= (held <= problem.max_items).all(axis=1)
    on_rank = inside.reshape(len(places), count, problem.ranks, -1).any(axis=3)
    if problem.equal_count:
        counts = on_rank.sum(axis=1)
        valid &= (counts == counts[:, :1]).all(axis=1)
    if problem.forbid is not None:
        kinds = [inside[:, problem.forbid == kind].any(axis=1) for kind in np.unique(problem.forbid)]
        valid &= (np.sum(kinds, axis=0) <= 1).all(axis=1)
    if problem.group is not None:
        spread = inside if problem.group_scope == "bin" else on_rank
        for label in np.unique(problem.group[problem.group >= 0]):
            valid &= spread[:, problem.group == label].any(axis=1).sum(axis=1) == 1
    return inside[valid]


def _sums(inside: np.ndarray, values: np.ndarray) -> np.ndarray:
    return np.einsum("lnb,n->lb", inside.astype(np.int64), values)


def _pack_loads(problem: Problem, inside: np.ndarray) -> np.ndarray:
    loads = _sums(inside, problem.cost)
    if problem.pad_cost is not None:
        loads = loads + problem.pad_cost[np.maximum(problem.capacities() - _sums(inside, problem.tokens), 0)]
    return loads


def _scores(problem: Problem, inside: np.ndarray) -> np.ndarray:
    loads = _pack_loads(problem, inside)
    by_rank = loads.reshape(len(loads), problem.ranks, -1)
    name = problem.objective.name
    if name == "rounds":
        return np.sort(loads, axis=1)[:, ::-1][:, :: problem.round_size].sum(axis=1)
    if name == "pipeline":
        return (by_rank.sum(axis=2) + (problem.objective.stages - 1) * by_rank.max(axis=2)).max(axis=1)
    if name == "components":
        parts = [
            _sums(inside, column).reshape(by_rank.shape).sum(axis=2).max(axis=1) for column in problem.components.T
        ]
        return np.sum(parts, axis=0)
    return by_rank.sum(axis=2).max(axis=1)
