"""Entries: what every solver places as one, a single sample or a whole group that must share a bin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from packing._checks import Int64Array
from packing.assignment import Assignment
from packing.partition import Int32Array
from packing.problem import Problem

__all__ = ["Entries", "entries_of"]

_NONE32, _NONE64 = np.empty(0, np.int32), np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """What is placed as one: single samples, or whole groups that must share a bin."""

    tokens: Int64Array
    cost: Int64Array
    footprints: Int64Array
    forbid: Int64Array
    count: Int32Array  # samples of each entry, or empty: one each
    rank_group: Int32Array  # entries of one group share a rank, or empty
    num_rank_groups: int
    entry_of: Int32Array | None  # entry of each sample, or None: entry = sample

    def total(self, values: Int64Array) -> Int64Array:
        """int64[E], the sum of int64[N] values of samples over each entry."""
        if self.entry_of is None:
            return values
        sums = np.zeros(self.tokens.size, np.int64)
        np.add.at(sums, self.entry_of, values)
        return sums

    def layout(self, order: Int32Array, bin_of: Int32Array, num_bins: int) -> Assignment:
        """The samples of every bin, in the order of their entries.

        Args:
            order: int32[E], the entries in the order in which a bin lists them. bin_of: int32[E], bin of each entry.
        """
        if self.entry_of is not None:
            place_of_entry = np.empty(order.size, np.int64)
            place_of_entry[order] = np.arange(order.size)
            order = np.argsort(place_of_entry[self.entry_of], kind="stable").astype(np.int32)
            bin_of = bin_of[self.entry_of]
        bins = bin_of[order]
        offsets = np.zeros(num_bins + 1, np.int64)
        np.cumsum(np.bincount(bins, minlength=num_bins), out=offsets[1:])
        return Assignment(offsets, order[np.argsort(bins, kind="stable")])


def entries_of(problem: Problem) -> Entries | None:
    """None where two samples of one group can never share a bin."""
    footprints = np.empty((problem.num_samples, 0), np.int64) if problem.footprints is None else problem.footprints
    forbid = _NONE64 if problem.forbid is None else problem.forbid
    plain = Entries(problem.tokens, problem.cost, footprints, forbid, _NONE32, _NONE32, 0, None)
    if problem.group is None:
        return plain
    # Ungrouped samples become groups of one. Numbering by first member keeps the index as the tie-breaker.
    alone = problem.group < 0
    labels = np.where(alone, problem.group.max(initial=0) + 1 + np.arange(problem.num_samples), problem.group)
    _, first, group_of = np.unique(labels, return_index=True, return_inverse=True)
    rank_of = np.argsort(np.argsort(first))
    entry_of: Int32Array = rank_of[group_of].astype(np.int32)
    if problem.group_scope == "rank":
        dense = np.where(alone, -1, entry_of).astype(np.int32)
        return Entries(problem.tokens, problem.cost, footprints, forbid, _NONE32, dense, first.size, None)
    first = np.sort(first)

    def total(values: Int64Array) -> Int64Array:
        sums = np.zeros((first.size, *values.shape[1:]), np.int64)
        np.add.at(sums, entry_of, values)
        return sums

    if forbid.size and (forbid != forbid[first][entry_of]).any():
        return None
    return Entries(
        total(problem.tokens), total(problem.cost), total(footprints), forbid[first] if forbid.size else forbid,
        np.bincount(entry_of).astype(np.int32), _NONE32, 0, entry_of,
    )  # fmt: skip
