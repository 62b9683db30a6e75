"""Layouts under every limit at once: what does not fit is placed at the cost of others, which are placed next."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from packing import _kernels
from packing._checks import Int64Array
from packing._fixed_point import exact_sum
from packing.algorithms._entries import Entries, entries_of
from packing.assignment import Assignment
from packing.partition import Int32Array
from packing.problem import Problem

__all__ = ["QUICK", "THOROUGH", "needs_repair", "repaired_layout"]

Integer = TypeVar("Integer", np.int32, np.int64)

_NONE64 = np.empty(0, np.int64)

QUICK = 1 << 16
"""Sets looked at before giving up, for every 1,024 entries or part thereof. Half of all problems take fewer than 200
(measured); so many take less than a millisecond."""

THOROUGH = 1 << 22
"""The same where nothing else is left to try."""


def needs_repair(problem: Problem) -> bool:
    """Whether there are other limits than one capacity, which placement under cost levels can do without."""
    limits = {"budgets", "max_items", "group", "forbid", "oversized", "equal_count"}
    return bool(problem.needs() & limits) or not (problem.capacity is None or isinstance(problem.capacity, int))


def repaired_layout(problem: Problem, start: Assignment | None = None, *, checks: int = QUICK) -> Assignment | None:
    """A layout that keeps every limit, or None where none was found.

    Args:
        problem: with a fixed number of bins per rank.
        start: a layout that may break any limit; what fits of it is kept, what matters most first. None: nothing yet.
        checks: most sets of samples that are looked at, for every 1,024 entries or part thereof.
    """
    entries = entries_of(problem)
    if entries is None or entries.tokens.size < problem.num_bins:
        return None
    if problem.equal_count and problem.num_samples % problem.ranks:
        return None
    weight, space = _weights(problem, entries)
    order = np.argsort(-weight, kind="stable").astype(np.int32)
    budgets = _NONE64 if problem.budgets is None else problem.budgets
    shape = order.size, problem.num_bins, budgets.size, entries.num_rank_groups
    bin_of = np.full(order.size, -1, np.int32) if start is None else _bin_of_entries(entries, start)[order]
    violations, _ = _kernels.relieve.relieve(
        weight[order], entries.tokens[order], _sorted(entries.count, order),
        np.ascontiguousarray(entries.footprints[order]),
        _sorted(entries.forbid, order), _sorted(entries.rank_group, order), entries.num_rank_groups,
        problem.capacities(), budgets, space, problem.ranks, problem.bins_per_rank or 1, problem.max_items or 0,
        problem.num_samples // problem.ranks if problem.equal_count else 0, problem.oversized == "single",
        checks * -(-order.size // 1024), bin_of, np.empty(_kernels.relieve.relieve_workspace(*shape), np.uint8),
    )  # fmt: skip
    if violations:
        return None
    by_entry = np.empty_like(bin_of)
    by_entry[order] = bin_of
    return entries.layout(order, by_entry, problem.num_bins)


def _weights(problem: Problem, entries: Entries) -> tuple[Int64Array, Int64Array]:
    """int64[E] and int64[K]: how large an entry and a bin are, all limits together.

    A limit counts by the share of all bins together that something takes, times the share that all entries take: what
    is hard to place is what needs much of the limits that bind.
    """
    samples = entries.count.astype(np.int64) if entries.count.size else np.ones(entries.tokens.size, np.int64)
    each = np.ones(problem.num_bins, np.int64)
    limits: list[tuple[Int64Array, Int64Array]] = []
    if problem.capacity is not None:
        limits.append((entries.tokens, problem.capacities()))
    if problem.budgets is not None:
        limits += [(entries.footprints[:, b], each * budget) for b, budget in enumerate(problem.budgets.tolist())]
    if problem.max_items is not None:
        limits.append((samples, each * problem.max_items))
    weight, space = np.ones_like(entries.tokens), np.zeros_like(each)
    for amounts, most in limits:
        total = max(1, exact_sum(most))
        taken = min(1 << 10, (exact_sum(amounts) << 10) // total)
        shift = max(0, total.bit_length() - 31)  # so that a share is exact to 31 bits, and its product with 2**30 fits
        whole = max(1, total >> shift)
        weight += (np.minimum(amounts >> shift, whole) * (taken << 20)) // whole
        space += (np.minimum(most >> shift, whole) * (taken << 20)) // whole
    return weight, space


def _sorted(column: npt.NDArray[Integer], order: Int32Array) -> npt.NDArray[Integer]:
    """A column of entries in this order, or the empty one that stands for none."""
    return column[order] if column.size else column


def _bin_of_entries(entries: Entries, layout: Assignment) -> Int32Array:
    """int32[E], the bin of each entry; of a group that the layout splits, that of its first sample."""
    bin_of = layout.bin_of()
    if entries.entry_of is None:
        return bin_of
    return bin_of[np.unique(entries.entry_of, return_index=True)[1]]
