"""Feasibility: what no layout can satisfy, found before any search; names the sample or group and the limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from packing._checks import Int64Array
from packing.bounds import fewest_bins_per_rank
from packing.errors import InfeasibleError
from packing.problem import Problem

__all__ = ["check_feasible"]

Describe = Callable[[int], str]


def check_feasible(problem: Problem, describe: Describe) -> None:
    """Raises an InfeasibleError where no layout can exist; passing it does not prove that one does.

    Args:
        describe: a sample (its index in the problem) in the words of the user.
    """
    _single_samples(problem, describe)
    num_samples, ranks = problem.num_samples, problem.ranks
    if problem.equal_count and num_samples % ranks:
        raise InfeasibleError(
            f"`equal_count` needs a multiple of the {ranks} ranks, but there are {num_samples} samples "
            f"({num_samples % ranks} too many)."
        )
    bins = ranks * (problem.bins_per_rank or 1)
    if num_samples < bins:
        raise InfeasibleError(f"{num_samples} samples cannot fill {bins} bins without leaving one empty.")
    if problem.group is not None:
        _groups(problem, problem.group, describe)
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


def _single_samples(problem: Problem, describe: Describe) -> None:
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
                f"{describe(sample)} needs {problem.budget_amount(b, int(problem.footprints[sample, b]))} of budget "
                f"{problem.budget_names[b]!r}, over its limit {problem.budget_amount(b, int(problem.budgets[b]))}."
            )


@dataclass(frozen=True, slots=True)
class _Grouped:
    """The groups of a problem, by label: G groups of S grouped samples."""

    problem: Problem
    samples: npt.NDArray[np.intp]  # [S]
    group_of: npt.NDArray[np.intp]  # [S], group of each grouped sample
    counts: npt.NDArray[np.intp]  # [G]
    describe: Describe

    def total(self, values: Int64Array) -> Int64Array:
        """Sums over each group: [G] of [N], [G, B] of [N, B]."""
        sums = np.zeros((self.counts.size, *values.shape[1:]), np.int64)
        np.add.at(sums, self.group_of, values[self.samples])
        return sums

    def name(self, group: int) -> str:
        """A group in the words of the user: by its first sample, since labels are numbered anew."""
        first = int(self.samples[int(np.argmax(self.group_of == group))])
        return f"the group of {self.describe(first)}"


def _samples_per_rank(problem: Problem) -> int | None:
    """Under `equal_count` the samples of every rank, else None."""
    return problem.num_samples // problem.ranks if problem.equal_count else None


def _groups(problem: Problem, group: Int64Array, describe: Describe) -> None:
    samples = np.flatnonzero(group >= 0)
    labels, group_of = np.unique(group[samples], return_inverse=True)
    num_entries = problem.num_samples - samples.size + labels.size
    scope = problem.group_scope
    places = problem.ranks * (problem.bins_per_rank or 1) if scope == "bin" else problem.ranks
    if num_entries < places:
        raise InfeasibleError(
            f"{labels.size} groups and {num_entries - labels.size} other samples cannot fill {places} {scope}s without "
            "leaving one empty."
        )
    bins = 1 if scope == "bin" else problem.bins_per_rank
    if bins is None or labels.size == 0:
        return
    grouped = _Grouped(problem, samples, group_of, np.bincount(group_of), describe)
    _group_tokens(grouped, bins)
    per_rank = _samples_per_rank(problem)
    if per_rank is not None and grouped.counts.max() > per_rank:
        at = int(np.argmax(grouped.counts))
        raise InfeasibleError(
            f"{grouped.name(at)} has {grouped.counts[at]} samples, but `equal_count` gives each rank {per_rank}."
        )
    if problem.max_items is not None and grouped.counts.max() > problem.max_items * bins:
        at = int(np.argmax(grouped.counts))
        raise InfeasibleError(
            f"{grouped.name(at)} has {grouped.counts[at]} samples, but one {scope} holds at most "
            f"{problem.max_items * bins}."
        )
    if problem.footprints is not None and problem.budgets is not None:
        used = grouped.total(problem.footprints)
        for b, budget in enumerate(problem.budgets.tolist()):
            if used[:, b].max() > budget * bins:
                at = int(np.argmax(used[:, b]))
                raise InfeasibleError(
                    f"{grouped.name(at)} needs {problem.budget_amount(b, int(used[at, b]))} of budget "
                    f"{problem.budget_names[b]!r}, but one {scope} holds at most "
                    f"{problem.budget_amount(b, budget * bins)}."
                )
    if problem.forbid is not None and scope == "bin":
        _group_kinds(grouped, problem.forbid)


def _group_tokens(grouped: _Grouped, bins: int) -> None:
    """Tokens against the cap; an oversized sample (policy "single") takes a bin of its own."""
    problem = grouped.problem
    capacity = problem.max_capacity
    if capacity is None:
        return
    oversized = problem.is_oversized()
    tokens = grouped.total(np.where(oversized, 0, problem.tokens))
    alone = grouped.total(oversized.astype(np.int64))
    over = np.asarray(alone + -(-tokens // capacity) > bins)
    if over.any():
        at = int(np.argmax(over))
        raise InfeasibleError(
            f"{grouped.name(at)} has {grouped.total(problem.tokens)[at]} tokens in {grouped.counts[at]} samples, but "
            f"one {problem.group_scope} holds at most {capacity * bins}."
        )


def _group_kinds(grouped: _Grouped, forbid: Int64Array) -> None:
    """Samples of one group that must share a bin, but may not."""
    kinds = forbid[grouped.samples]
    first = np.empty(grouped.counts.size, np.int64)
    first[grouped.group_of[::-1]] = kinds[::-1]
    mixed = kinds != first[grouped.group_of]
    if mixed.any():
        at = int(np.argmax(mixed))
        raise InfeasibleError(
            f"{grouped.name(int(grouped.group_of[at]))} must share a bin, but `forbid` keeps "
            f"{grouped.describe(int(grouped.samples[at]))} apart."
        )
