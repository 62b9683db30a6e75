"""Longest-processing-time placement: the heaviest sample first, each into the best bin."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from packing import _kernels
from packing._checks import Int64Array
from packing.algorithms._entries import Entries, entries_of
from packing.algorithms._open_bins import smallest_count
from packing.assignment import Assignment
from packing.audit import is_valid
from packing.partition import Int32Array, descending_order
from packing.problem import Problem

__all__ = ["LPT", "lpt_score", "lpt_start", "place", "placement_order"]

_NONE32, _NONE64 = np.empty(0, np.int32), np.empty(0, np.int64)


def place(
    problem: Problem, *, score: int, max_items: int | None = None, order: Int32Array | None = None
) -> Assignment | None:
    """Places the samples of a problem with a fixed number of bins, heaviest first.

    Args:
        score: one of the `greedy` kernel's scores.
        max_items: a tighter limit than the problem's own.
        order: int32[N], `placement_order` of the entries where the caller has it.

    Returns:
        A layout that keeps every limit (samples in order of placement), or None where some sample found no bin.
    """
    entries = entries_of(problem)
    if entries is None or problem.bins_per_rank is None or problem.round_size is None:
        return None
    if order is None:
        order = placement_order(entries)
    num_entries = order.size
    if num_entries < problem.num_bins:
        return None
    bin_of = np.empty(num_entries, np.int32)
    budgets = _NONE64 if problem.budgets is None else problem.budgets
    workspace = np.empty(
        _kernels.greedy.place_workspace(
            num_entries, problem.ranks, problem.bins_per_rank, budgets.size, entries.num_rank_groups
        ),
        np.uint8,
    )
    limits = [limit for limit in (problem.max_items, max_items) if limit is not None]
    placed = _kernels.greedy.place(
        entries.tokens, entries.cost, entries.count, entries.footprints, entries.forbid, entries.rank_group,
        entries.num_rank_groups, order, problem.capacities(), budgets,
        _NONE64 if problem.pad_cost is None else problem.pad_cost, problem.ranks, problem.bins_per_rank,
        problem.round_size, min(limits, default=0), problem.oversized == "single", score, bin_of, workspace,
    )  # fmt: skip
    if placed < num_entries:
        return None
    return entries.layout(order, bin_of, problem.num_bins)


def lpt_start(problem: Problem) -> Assignment | None:
    """LPT's layout where it keeps every limit, equal counts among them; on them LPT has no hold but with M = 1."""
    limit = problem.num_samples // problem.ranks if problem.equal_count and problem.bins_per_rank == 1 else None
    layout = place(problem, score=lpt_score(problem), max_items=limit)
    return layout if layout is None or not problem.equal_count or is_valid(problem, layout) else None


def placement_order(entries: Entries, order: Int32Array | None = None) -> Int32Array:
    """int32[E], the entries as greedy rules take them: by cost, then tokens, descending, then index; with groups on
    ranks, a group's entries one after the other; the first entry of every kind before all others.

    Args:
        order: int32[E], the entries by cost, tokens and index where the caller has it; sorted here if None.
    """
    if order is None:
        order = descending_order(entries.cost, entries.tokens)
    if entries.rank_group.size:
        order = _groups_together(order, entries)
    if entries.forbid.size:
        order = _kinds_first(order, entries.forbid)
    return order


def _kinds_first(order: Int32Array, forbid: Int64Array) -> Int32Array:
    """The first of every kind before all others: the first entries open bins, and every kind needs one."""
    first = np.unique(forbid[order], return_index=True)[1]
    later = np.ones(order.size, bool)
    later[first] = False
    return np.concatenate([order[np.sort(first)], order[later]])


def _groups_together(order: Int32Array, entries: Entries) -> Int32Array:
    """Heaviest group first, its members one after the other, so that its rank is chosen while there is room."""
    labels = np.where(entries.rank_group < 0, -1, entries.rank_group)
    weight = entries.cost.copy()
    size = entries.tokens.copy()
    for values, source in ((weight, entries.cost), (size, entries.tokens)):
        sums = np.bincount(labels[labels >= 0], minlength=entries.num_rank_groups) * 0
        np.add.at(sums, labels[labels >= 0], source[labels >= 0])
        values[labels >= 0] = sums[labels[labels >= 0]]
    place_in_order = np.empty(order.size, np.int64)
    place_in_order[order] = np.arange(order.size)
    return np.lexsort((place_in_order, labels, -size, -weight)).astype(np.int32)


def lpt_score(problem: Problem) -> int:
    """By what `lpt` scores a bin: its rank's load before placing, or the objective as it would be after."""
    if problem.objective.name == "rounds":
        return _kernels.greedy.ROUNDS_AFTER
    if problem.pad_cost is None:
        return _kernels.greedy.LOAD_BEFORE
    return _kernels.greedy.BALANCE_AFTER if problem.objective.name == "balance" else _kernels.greedy.MAKESPAN_AFTER


@dataclass(frozen=True)
class LPT:
    """Greedy placement, heaviest sample first; every kind of limit, any objective.

    1. Order: cost descending, tokens descending, index.
    2. The first samples open empty bins, until none is empty; later ones may join any bin.
    3. A bin can take a sample if every limit still holds; one over the cap needs an empty bin (policy "single").
    4. Of these bins, the smallest (score, capacity left after placing, tokens of the rank, rank, slot). The score is
       the rank's load before placing, or with a pad cost the objective of all loads as it would be after.

    Source: Graham, "Bounds on multiprocessing timing anomalies", 1969 (LPT), with hard caps.
    """

    def assign(self, problem: Problem) -> Assignment | None:
        """The layout, or None where some sample found no bin."""
        score = lpt_score(problem)
        solve = partial(place, score=score)
        return solve(problem) if problem.bins_per_rank is not None else smallest_count(problem, solve)
