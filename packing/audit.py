"""Audit: every sample exactly once, every cap kept, no bin empty; the first thing wrong is named."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from packing.assignment import Assignment
from packing.errors import AuditError
from packing.problem import BinState, Problem

__all__ = ["audit", "check_unchanged", "first_violation", "inputs_of", "is_valid"]


Describe = Callable[[int], str]
"""A sample of the problem in words; the planner's gives its position in the input and its key."""

_by_index: Describe = "sample {}".format


def first_violation(problem: Problem, layout: Assignment, describe: Describe = _by_index) -> str | None:
    """None for a valid layout, else what is wrong with it: sample, bin and numbers in a sentence."""
    for check in (_conservation, _empty_bins, _limits, _equal_counts):
        wrong = check(problem, layout, describe)
        if wrong is not None:
            return wrong
    return None


def is_valid(problem: Problem, layout: Assignment) -> bool:
    """Whether the layout is valid, without finding out what is wrong with it."""
    checks = (_conservation, _empty_bins, _equal_counts)
    return all(check(problem, layout, _by_index) is None for check in checks) and not _exceeds(problem, layout)


def audit(problem: Problem, layout: object, algorithm: str, describe: Describe = _by_index) -> Assignment:
    """The layout, if it is valid for the problem.

    Raises:
        AuditError: it is not; names the algorithm, the sample, the bin and the numbers.
    """
    if not isinstance(layout, Assignment):
        raise AuditError(f"algorithm {algorithm!r} must return an Assignment or None, but returned {type(layout)!r}.")
    wrong = first_violation(problem, layout, describe)
    if wrong is not None:
        raise AuditError(f"algorithm {algorithm!r} broke its contract: {wrong}.")
    return layout


def inputs_of(problem: Problem) -> dict[str, np.ndarray]:
    """Copies of the problem's arrays, by name."""
    columns = {one.name: getattr(problem, one.name) for one in dataclasses.fields(problem)}
    return {name: column.copy() for name, column in columns.items() if isinstance(column, np.ndarray)}


def check_unchanged(problem: Problem, inputs: dict[str, np.ndarray], algorithm: str) -> None:
    """Raises an AuditError if the problem's arrays are not what `inputs_of` took from them.

    They are read-only for NumPy, but not for a library that shares their memory.
    """
    for name, column in inputs.items():
        if not np.array_equal(getattr(problem, name), column):
            raise AuditError(f"algorithm {algorithm!r} broke its contract: it changed the problem's `{name}`.")


def _conservation(problem: Problem, layout: Assignment, describe: Describe) -> str | None:
    if layout.num_bins != problem.num_bins:
        return f"the layout has {layout.num_bins} bins instead of {problem.num_bins}"
    items = layout.items
    if items.size and (items.min() < 0 or items.max() >= problem.num_samples):
        at = int(np.argmax((items < 0) | (items >= problem.num_samples)))
        where = int(np.searchsorted(layout.offsets, at, side="right")) - 1
        return f"bin {where} holds sample {items[at]}, but the samples are 0 to {problem.num_samples - 1}"
    counts = np.bincount(items, minlength=problem.num_samples)
    if (counts == 1).all():
        return None
    sample = int(np.argmax(counts != 1))
    if counts[sample] == 0:
        return f"{describe(sample)} ({problem.tokens[sample]} tokens) is in no bin"
    places = [b for b, members in enumerate(layout.to_bins()) if sample in members]
    return f"{describe(sample)} occurs {counts[sample]} times, in bins {places}"


def _empty_bins(problem: Problem, layout: Assignment, describe: Describe) -> str | None:
    counts = np.diff(layout.offsets)
    return None if counts.all() else f"bin {int(np.argmin(counts))} is empty"


def _limits(problem: Problem, layout: Assignment, describe: Describe) -> str | None:
    if not _exceeds(problem, layout):
        return None
    # Slow and exact: replay the layout through the predicate to name the sample, the bin and the numbers.
    state = BinState(problem)
    for bin_index, members in enumerate(layout.to_bins()):
        for sample in members:
            why = state.why_not(bin_index, sample)
            if why is not None:
                length = int(problem.tokens[sample])
                return f"{describe(sample)} ({length} tokens) does not fit into bin {bin_index}: {why}"
            state.add(bin_index, sample)
    raise AssertionError("the fast and the exact form of the audit disagree")


def _exceeds(problem: Problem, layout: Assignment) -> bool:
    counts = np.diff(layout.offsets)
    checks: list[Callable[[], bool]] = []
    if problem.capacity is not None:
        over = layout.sums(problem.tokens) > problem.capacities()
        if problem.oversized == "single":
            over &= counts != 1
        checks.append(lambda: bool(over.any()))
    if problem.footprints is not None and problem.budgets is not None:
        used, budgets = layout.sums(problem.footprints), problem.budgets
        checks.append(lambda: bool((used > budgets).any()))
    if problem.max_items is not None:
        most = problem.max_items
        checks.append(lambda: bool(counts.max() > most))
    if problem.forbid is not None or problem.group is not None:
        bins = np.repeat(np.arange(layout.num_bins), counts)
        if problem.forbid is not None:
            kinds = problem.forbid[layout.items]
            checks.append(lambda: _mixed(bins, kinds))
        if problem.group is not None:
            assert problem.bins_per_rank is not None
            places = bins if problem.group_scope == "bin" else bins // problem.bins_per_rank
            groups = problem.group[layout.items]
            checks.append(lambda: _mixed(groups[groups >= 0], places[groups >= 0]))
    return any(check() for check in checks)


def _mixed(owner: np.ndarray, value: np.ndarray) -> bool:
    """Whether some owner has two different values."""
    order = np.lexsort((value, owner))
    owner, value = owner[order], value[order]
    return bool(((owner[1:] == owner[:-1]) & (value[1:] != value[:-1])).any())


def _equal_counts(problem: Problem, layout: Assignment, describe: Describe) -> str | None:
    if not problem.equal_count:
        return None
    counts = np.diff(layout.offsets).reshape(problem.ranks, -1).sum(axis=1)
    if (counts == counts[0]).all():
        return None
    return f"rank {int(np.argmin(counts))} has {counts.min()} samples, rank {int(np.argmax(counts))} {counts.max()}"
