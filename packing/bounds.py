"""Lower bounds: what no layout can beat, with the name of the bound that binds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from packing._checks import Int64Array
from packing._fixed_point import exact_sum
from packing.problem import Problem

__all__ = ["Bound", "fewest_bins_per_rank", "lower_bound"]


@dataclass(frozen=True, slots=True)
class Bound:
    """A proven lower bound on the makespan (or, under the objective `rounds`, on the sum of the rounds).

    Attributes:
        score: the bound, an exact integer in the fixed point of the costs.
        name: "mean", "longest_sample", "shared_rank", "equal_count", "full_bins" or "no_samples".
        explanation: the same in a sentence.
        floor: what the bound makes of the ideal: score / (total / R), at least 1; no layout has a smaller
            largest/mean load.
    """

    score: int
    name: str
    explanation: str
    floor: float


def _pigeonhole(descending: Int64Array, ranks: int) -> tuple[int, int]:
    """The best of c[jR] + ... (j + 1 terms ending at c[jR]): some rank holds j + 1 of the jR + 1 largest costs.

    Source: the classical bound for identical parallel machines (Dell'Amico and Martello 1995, L2). Returns the bound
    and how many samples share the rank.
    """
    # Beyond 64 samples on a rank the mean is the larger bound in all but constructed cases.
    shared = np.arange(1, min((descending.size - 1) // ranks, 64) + 1)
    if shared.size == 0:
        return 0, 1
    sums = np.concatenate(([0], np.cumsum(descending[: int(shared[-1]) * ranks + 1])))
    values = sums[shared * ranks + 1] - sums[shared * ranks - shared]
    best = int(np.argmax(values))
    return int(values[best]), best + 2


def _least_padding(problem: Problem) -> int:
    """A lower bound on the pad cost of all bins together.

    The unused tokens of all bins have a known sum. Where the cost of t unused tokens is convex in t, an even spread is
    the cheapest (Jensen); otherwise every unused token costs at least the smallest pad_cost[t] / t.
    """
    if problem.pad_cost is None or problem.bins_per_rank is None or problem.is_oversized().any():
        return 0
    capacities, table = problem.capacities(), problem.pad_cost
    unused = exact_sum(capacities) - exact_sum(problem.tokens)
    if unused < 0:
        return 0
    steps = np.diff(table)
    if isinstance(problem.capacity, int) and (steps[1:] >= steps[:-1]).all():
        each, more = divmod(unused, capacities.size)
        if each >= problem.capacity:
            return int(table[-1]) * capacities.size
        return int(table[each]) * (capacities.size - more) + int(table[each + 1]) * more
    ratios = table[1:] / np.arange(1.0, table.size)
    best = int(np.argmin(ratios)) + 1
    # One part in 2**40 covers the rounding of the quotients that chose the entry.
    return max(0, unused * int(table[best]) // best * ((1 << 40) - 1) >> 40)


def lower_bound(problem: Problem) -> Bound:
    """The best proven lower bound, for the objective's load, and which one binds.

    Every term is a proof: the mean rounded up; the longest sample; j + 1 of the jR + 1 longest samples must share a
    rank; with non-empty bins or equal counts each rank also holds the cheapest samples. The mean counts the least pad
    cost that the unused tokens can have, the other terms none. Under `balance` the bound is on the largest load.
    """
    costs = np.sort(problem.cost)[::-1]
    total = int(costs.sum()) + _least_padding(problem)
    if costs.size == 0 or total == 0:
        return Bound(0, "no_samples" if costs.size == 0 else "mean", "there is no work to balance", 1.0)
    bins_per_rank = problem.bins_per_rank or 1
    groups, slots = problem.ranks, bins_per_rank
    longest = int(costs[0])
    if problem.objective.name == "rounds":
        assert problem.round_size is not None
        groups, slots = problem.round_size, 1
        rounds = problem.ranks * bins_per_rank // groups
        candidates = [
            (-(-total // groups), "mean", "the mean load: every rank works all the time"),
            (
                longest + (rounds - 1) * int(costs[-1]),
                "longest_sample",
                "the longest sample takes a round, and the other rounds are not empty",
            ),
        ]
    else:
        shared, terms = _pigeonhole(costs, groups)
        candidates = [
            (-(-total // groups), "mean", "the mean load: perfectly equal work"),
            (longest, "longest_sample", "the longest sample: some rank must take it"),
            (shared, "shared_rank", f"some rank must take {terms} of the {(terms - 1) * groups + 1} longest samples"),
        ]
        count = costs.size // groups if problem.equal_count and costs.size % groups == 0 else slots
        if 1 < count <= costs.size:
            name = "equal_count" if problem.equal_count else "full_bins"
            why = f"the rank of the longest sample takes {count - 1} more, at best the cheapest"
            candidates.append((longest + int(costs[costs.size - count + 1 :].sum()), name, why))
    if problem.objective.name == "pipeline":
        # The rank with the largest load has a pack of at least an M-th of it; so has that of the longest sample.
        more = problem.objective.stages - 1
        candidates = [(load + more * max(-(-load // bins_per_rank), 0), name, why) for load, name, why in candidates]
        beside = int(costs[costs.size - slots + 1 :].sum()) if 1 < slots <= costs.size else 0
        why = "the longest sample: its rank also waits P - 1 times for its pack"
        candidates.append((longest * (1 + more) + beside, "longest_sample", why))
    if problem.objective.weights and problem.components is not None:
        totals, longest_of = problem.components.sum(axis=0).tolist(), problem.components.max(axis=0).tolist()
        parts = [max(-(-total // groups), longest) for total, longest in zip(totals, longest_of, strict=True)]
        candidates = [(sum(parts), "mean", "the mean load of each component, or its longest sample")]
    score, name, why = max(candidates, key=lambda one: one[0])
    floor = max(1.0, score * groups / total)
    if name != "mean":
        why += f": no layout can do better than {floor:.4g}x the mean"
    return Bound(score, name, why, floor)


def _per_bin(problem: Problem, budget: int, total: int) -> str:
    assert problem.budgets is not None
    amounts = (problem.budget_amount(budget, amount) for amount in (total, int(problem.budgets[budget])))
    return f"budget {problem.budget_names[budget]!r}: {' at '.join(amounts)} a bin"


def fewest_bins_per_rank(problem: Problem) -> tuple[int, str]:
    """A lower bound on the number of bins per rank, and what asks for it in words."""
    needs = [(1, "no bin may be empty")]
    if problem.capacity is not None:
        capacity = int(np.max(problem.capacity))
        oversized = problem.is_oversized()
        alone = int(oversized.sum())
        tokens = np.where(oversized, 0, problem.tokens)
        total = exact_sum(tokens)
        needs.append((alone + -(-total // capacity), f"{total} tokens at {capacity} a bin"))
        large = int((tokens > capacity // 2).sum())
        needs.append(
            (alone + large, f"{alone + large} samples over half of {capacity} tokens, each in a bin of its own")
        )
        if problem.forbid is not None:
            kinds = np.unique(problem.forbid, return_inverse=True)[1]
            sums = np.zeros(int(kinds.max(initial=-1)) + 1, np.int64)
            np.add.at(sums, kinds, tokens)
            bins = alone + int((-(-sums // capacity)).sum())
            needs.append((bins, f"{sums.size} kinds of samples that never share a bin"))
    elif problem.forbid is not None:
        kinds = np.unique(problem.forbid)
        needs.append((kinds.size, f"{kinds.size} kinds of samples that never share a bin"))
    if problem.footprints is not None and problem.budgets is not None:
        for b, budget in enumerate(problem.budgets.tolist()):
            total = exact_sum(problem.footprints[:, b])
            if budget > 0:
                needs.append((-(-total // budget), _per_bin(problem, b, total)))
    if problem.max_items is not None:
        bins = -(-problem.num_samples // problem.max_items)
        needs.append((bins, f"{problem.num_samples} samples at `max_items` = {problem.max_items} a bin"))
    bins, why = max(needs, key=lambda one: one[0])
    return -(-bins // problem.ranks), why
