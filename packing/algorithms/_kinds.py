"""Kinds that never share a bin, each laid out by itself in its share of the bins."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from packing._checks import Int64Array
from packing._fewest_bins import EFFORTS
from packing.algorithms._entries import entries_of
from packing.algorithms.placement import lpt_start
from packing.assignment import Assignment
from packing.bins import fit_fewest
from packing.objectives import OBJECTIVES
from packing.partition import Int32Array, difference
from packing.problem import Problem

__all__ = ["by_kinds", "few_places", "in_parts"]

_NEEDS = {"makespan", "rounds", "capacity", "multi_bin", "max_items", "oversized", "group", "forbid"}

_MANY_ENTRIES = 64
"""From so many entries of a kind on, the search for its fewest bins is given its full steps."""

_MOST_TRADES = 8
"""Bins that kinds give to the one with the largest load, at most; each time two kinds are laid out anew."""

_PART, _FEWEST_PARTS, _FEW_PER_BIN = 2048, 2, 4
"""Samples of a part, and from how many parts and up to how many samples in a bin parts are worth it (measured)."""


@dataclass
class _Kind:
    """One kind: its samples, a layout of them, and whether it is the best that is looked for."""

    samples: Int64Array
    problem: Problem  # of these samples, in one bin; `fewest` bins hold them, and there are `most` entries
    work: int
    fewest: int
    most: int
    num_bins: int = 1
    layout: Assignment | None = None
    load: int = 1 << 62
    solved: bool = False

    def place(self, num_bins: int, solve: Callable[[Problem], Assignment | None] | None) -> _Kind:
        """Laid out in so many bins: by LPT alone, where that finds one, or by `solve`."""
        problem = replace(self.problem, ranks=num_bins, round_size=None)
        layout: Assignment | None
        if num_bins == 1:
            layout, solved = Assignment.from_bins([np.arange(self.samples.size)]), True
        else:
            layout, solved = lpt_start(problem) if solve is None else solve(problem), solve is not None
        load = 1 << 62 if layout is None else int(layout.sums(problem.cost).max())
        if solved and self.layout is not None and num_bins == self.num_bins and self.load <= load:
            layout, load = self.layout, self.load
        return replace(self, num_bins=num_bins, layout=layout, load=load, solved=solved)


def by_kinds(problem: Problem, solve: Callable[[Problem], Assignment | None]) -> Assignment | None:
    """A layout of kinds that never share a bin, or None where the problem has another limit or no layout was found.

    Every kind gets at least its fewest bins, and the others go one by one to where most work is in each. The kind with
    the largest load is laid out by `solve`, until that is the best of it; others keep what LPT found for them. Last a
    kind with less to do in one bin fewer gives that bin to the one with the largest load, for as long as that helps.

    Args:
        problem: with a fixed number of bins per rank.
        solve: lays out one kind, one bin per rank, or returns None.
    """
    kinds = _kinds(problem)
    if kinds is None:
        return None
    bins = _shares(kinds, problem.num_bins)
    if bins is None:
        return None
    kinds = [kind.place(count, None) for kind, count in zip(kinds, bins, strict=True)]
    trades = 0
    while True:
        at = max(range(len(kinds)), key=lambda k: kinds[k].load)
        worst = kinds[at]
        if not worst.solved:
            kinds[at] = worst.place(worst.num_bins, solve)
            continue
        if worst.layout is None:
            return None
        donors = [
            k for k, one in enumerate(kinds)
            if k != at and one.num_bins > one.fewest and one.work < worst.load * (one.num_bins - 1)
        ]  # fmt: skip
        if not donors or trades == _MOST_TRADES or worst.num_bins == worst.most:
            return _joined(problem, kinds)
        giver = min(donors, key=lambda k: kinds[k].work / (kinds[k].num_bins - 1))
        fewer, more = kinds[giver].place(kinds[giver].num_bins - 1, solve), worst.place(worst.num_bins + 1, solve)
        trades += 1
        if max(fewer.load, more.load) >= worst.load:
            return _joined(problem, kinds)
        kinds[giver], kinds[at] = fewer, more


def in_parts(problem: Problem, order: Int32Array, solve: Callable[[Problem], Assignment | None]) -> Assignment | None:
    """A layout where `max_items` leaves few samples in a bin, or None as `by_kinds` or where the problem is small.

    Exchanges one for one, all that is left of them, take long to get around in many bins. Samples are dealt by cost to
    parts that are alike, and each part is laid out by itself in its share of the bins.

    Args:
        order: int32[N], the samples by cost descending. problem, solve: as in `by_kinds`.
    """
    num_samples, num_bins, most = problem.num_samples, problem.num_bins, problem.max_items
    parts = num_samples // _PART
    if most is None or parts < _FEWEST_PARTS or problem.forbid is not None or problem.group is not None:
        return None
    if num_samples > _FEW_PER_BIN * num_bins or num_samples <= (most - 1) * num_bins:
        return None
    part_of = np.empty(num_samples, np.int64)
    part_of[order] = np.arange(num_samples) % num_bins % parts
    return by_kinds(replace(problem, forbid=part_of, reference=None), solve)


def few_places(problem: Problem) -> bool:
    """Whether a bin holds up to 3 samples, and 99 % of all places are taken."""
    places = (problem.max_items or 0) * problem.num_bins
    return problem.max_items in (2, 3) and places - places // 100 <= problem.num_samples


def _kinds(problem: Problem) -> list[_Kind] | None:
    capacity = problem.capacity
    if problem.forbid is None or not problem.needs() <= _NEEDS or not (capacity is None or isinstance(capacity, int)):
        return None
    if problem.group is not None and problem.group_scope == "rank" and problem.bins_per_rank != 1:
        return None
    entries = entries_of(replace(problem, group_scope="bin", reference=None))
    counted = entries is not None and problem.max_items is not None and entries.count.size > 0
    if entries is None or counted or problem.num_samples < problem.num_bins:
        return None
    by_kind = np.argsort(problem.forbid, kind="stable")
    edges = np.flatnonzero(np.diff(problem.forbid[by_kind])) + 1
    entries_by_kind = np.argsort(entries.forbid, kind="stable")
    entry_edges = np.flatnonzero(np.diff(entries.forbid[entries_by_kind])) + 1
    if edges.size == 0:
        return None
    kinds = []
    for samples, members in zip(np.split(by_kind, edges), np.split(entries_by_kind, entry_edges), strict=True):
        tokens = np.ascontiguousarray(entries.tokens[members])
        fewest = 1
        if capacity is not None or problem.max_items is not None:
            share = min(tokens.size, _MANY_ENTRIES) ** 2
            offsets, _, _, _ = fit_fewest(
                tokens, capacity, None, problem.max_items, problem.oversized,
                EFFORTS["fast"] * share // _MANY_ENTRIES**2,
            )  # fmt: skip
            fewest = offsets.size - 1
        one = Problem(
            tokens=problem.tokens[samples], cost=problem.cost[samples], ranks=1, capacity=capacity,
            max_items=problem.max_items, oversized=problem.oversized, objective=OBJECTIVES["makespan"],
            group=None if problem.group is None else problem.group[samples],
        )  # fmt: skip
        kinds.append(_Kind(samples, one, int(one.cost.sum()), fewest, tokens.size))
    return kinds


def _shares(kinds: list[_Kind], num_bins: int) -> list[int] | None:
    """Bins of each kind, or None where its fewest do not do."""
    bins = [kind.fewest for kind in kinds]
    left = num_bins - sum(bins)
    if left < 0:
        return None
    heap = [(-kind.work / kind.fewest, k) for k, kind in enumerate(kinds) if kind.fewest < kind.most]
    heapq.heapify(heap)
    while left and heap:
        _, k = heap[0]
        bins[k] += 1
        left -= 1
        if bins[k] < kinds[k].most:
            heapq.heapreplace(heap, (-kinds[k].work / bins[k], k))
        else:
            heapq.heappop(heap)
    return None if left else bins


def _joined(problem: Problem, kinds: list[_Kind]) -> Assignment:
    """All bins; where ranks have several, dealt out so that the ranks' loads are even."""
    bins = []
    for kind in kinds:
        assert kind.layout is not None
        bins += [kind.samples[members] for members in np.split(kind.layout.items, kind.layout.offsets[1:-1])]
    layout = Assignment.from_bins(bins)
    if problem.bins_per_rank == 1:
        return layout
    return layout.reordered(difference(layout.sums(problem.cost), problem.ranks, True)[1])
