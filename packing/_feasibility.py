"""Feasibility: what no layout can satisfy, found before any search; names the sample or group and the limit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from packing.bounds import fewest_bins_per_rank
from packing.errors import InfeasibleError
from packing.problem import Problem

__all__ = ["check_feasible"]


def check_feasible(problem: Problem, describe: Callable[[int], str]) -> None:
    """Raises an InfeasibleError where no layout can exist; passing it does not prove that one does.

    Args:
        describe: a sample (its index in the problem) in the words of the user.
    """
    _single_samples(problem, describe)
    if problem.group is not None:
        _groups(problem)
    num_samples, ranks = problem.num_samples, problem.ranks
    if problem.equal_count and num_samples % ranks:
        raise InfeasibleError(
            f"`equal_count` needs a multiple of the {ranks} ranks, but there are {num_samples} samples "
            f"({num_samples % ranks} too many)."
        )
    bins = ranks * (problem.bins_per_rank or 1)
    if num_samples < bins:
        raise InfeasibleError(f"{num_samples} samples cannot fill {bins} bins without leaving one empty.")
    fewest, why = fewest_bins_per_rank(problem)
    if problem.bins_per_rank is not None and fewest > problem.bins_per_rank:
        raise InfeasibleError(
            f"`local_batch_size` must be at least {fewest} on {ranks} ranks ({why}), but got {problem.bins_per_rank}."
        )
    if num_samples < ranks * fewest:
        raise InfeasibleError(
            f"{num_samples} samples cannot fill the {ranks * fewest} bins that they need ({why}, and a multiple of "
            f"{ranks} ranks) without leaving one empty."
        )


def _single_samples(problem: Problem, describe: Callable[[int], str]) -> None:
    oversized = problem.is_oversized()
    if problem.oversized == "error" and oversized.any():
        sample = int(np.argmax(oversized))
        raise InfeasibleError(
            f"{describe(sample)} has {problem.tokens[sample]} tokens, over the cap `seq_len` = {problem.max_capacity} "
            f"({int(oversized.sum())} such samples); `oversized_policy: single` puts each alone into a bin."
        )
    if problem.footprints is not None and problem.budgets is not None:
        over = problem.footprints > problem.budgets
        if over.any():
            sample, b = map(int, np.argwhere(over)[0])
            raise InfeasibleError(
                f"{describe(sample)} needs {problem.footprints[sample, b]} of budget {problem.budget_names[b]!r}, "
                f"over its limit {problem.budgets[b]}."
            )


def _groups(problem: Problem) -> None:
    assert problem.group is not None
    grouped = np.flatnonzero(problem.group >= 0)
    labels, inverse = np.unique(problem.group[grouped], return_inverse=True)
    if labels.size == 0:
        return
    scope, bins = problem.group_scope, 1 if problem.group_scope == "bin" else problem.bins_per_rank
    tokens = np.zeros(labels.size, np.int64)
    np.add.at(tokens, inverse, problem.tokens[grouped])
    counts = np.bincount(inverse)
    capacity = problem.max_capacity
    if capacity is not None and bins is not None:
        over = (tokens > capacity * bins) & ~((counts == 1) & (problem.oversized == "single"))
        if over.any():
            at = int(np.argmax(over))
            raise InfeasibleError(
                f"group {labels[at]} has {tokens[at]} tokens in {counts[at]} samples, but one {scope} holds at most "
                f"{capacity * bins}."
            )
    if problem.max_items is not None and bins is not None and counts.max() > problem.max_items * bins:
        at = int(np.argmax(counts))
        raise InfeasibleError(
            f"group {labels[at]} has {counts[at]} samples, but one {scope} holds at most {problem.max_items * bins}."
        )
    if problem.footprints is not None and problem.budgets is not None and bins is not None:
        used = np.zeros((labels.size, problem.budgets.size), np.int64)
        np.add.at(used, inverse, problem.footprints[grouped])
        over_budget = used > problem.budgets * bins
        if over_budget.any():
            at, b = map(int, np.argwhere(over_budget)[0])
            raise InfeasibleError(
                f"group {labels[at]} needs {used[at, b]} of budget {problem.budget_names[b]!r}, but one {scope} holds "
                f"at most {int(problem.budgets[b]) * bins}."
            )
    if problem.forbid is not None and scope == "bin":
        kinds = problem.forbid[grouped]
        first = np.full(labels.size, -1, np.int64)
        first[inverse[::-1]] = kinds[::-1]
        mixed = kinds != first[inverse]
        if mixed.any():
            at = int(np.argmax(mixed))
            raise InfeasibleError(
                f"group {labels[inverse[at]]} must share a bin, but `forbid` keeps its {first[inverse[at]]} and "
                f"{kinds[at]} apart."
            )
