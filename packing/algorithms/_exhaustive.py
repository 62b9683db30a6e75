"""Exhaustive search in tiny steps: the best layout under caps, often with the proof that none is better."""

from __future__ import annotations

import numpy as np

from packing import _kernels
from packing._fixed_point import exact_sum
from packing.assignment import Assignment
from packing.partition import Int32Array
from packing.problem import Problem

__all__ = ["can_exhaust", "exhausted"]

MOST_SAMPLES = 48
"""Of 24 samples nearly all steps are searched to the end in a few milliseconds; of 40 many still gain (measured)."""

_MOST_SUM = (1 << 62) - 1


def can_exhaust(problem: Problem) -> bool:
    """Whether the step is tiny, and the search knows all that it asks for: one largest load, what a bin may hold."""
    needs, limits = problem.needs(), {"capacity", "multi_bin", "rounds", "max_items"}
    one_load = problem.objective.name == "makespan" or problem.round_size == problem.num_bins
    return one_load and needs <= limits | {"makespan"} and problem.num_samples <= MOST_SAMPLES


def exhausted(
    problem: Problem, order: Int32Array, best: int | None, target: int, max_steps: int
) -> tuple[Assignment | None, bool]:
    """A layout with a score below `best` (any, for None), or None, and whether no other is better or it meets `target`.

    Args:
        order: the samples by cost and then tokens, descending.
        max_steps: most samples that are looked at for a bin; where it is too few, a better layout may be missed.
    """
    cost, tokens = problem.cost[order], problem.tokens[order]
    all_tokens, all_cost = exact_sum(tokens), exact_sum(cost)
    best = all_cost + 1 if best is None else best
    capacity = np.minimum(problem.capacities(), all_tokens)
    assert problem.bins_per_rank is not None
    if max(all_cost, all_tokens, best) > _MOST_SUM // problem.num_bins:
        return None, False
    bin_of = np.empty(order.size, np.int32)
    workspace = np.empty(_kernels.branch.branch_workspace(order.size, problem.num_bins), np.uint8)
    found, complete = _kernels.branch.branch(
        cost, tokens, capacity, problem.bins_per_rank, problem.max_items or 0, best, target, max_steps, bin_of,
        workspace,
    )  # fmt: skip
    if found >= best:
        return None, complete
    bins = [order[bin_of == b] for b in range(problem.num_bins)]
    return Assignment.from_bins(bins), complete
