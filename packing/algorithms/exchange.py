"""Exchanges on whole layouts: the local search that every solver here ends with, and an algorithm by itself."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from packing import _kernels
from packing._checks import Int64Array
from packing._fixed_point import exact_sum
from packing.algorithms._effort import Effort, checks_of, effort_of
from packing.algorithms._entries import Entries, entries_of
from packing.algorithms._open_bins import smallest_count
from packing.algorithms.placement import lpt_start
from packing.algorithms.repair import repaired_layout
from packing.assignment import Assignment
from packing.bounds import lower_bound
from packing.partition import Int32Array, descending_order
from packing.problem import Problem

__all__ = ["DESCENT_SHARE", "Exchange", "Exchanges"]

_NONE64, _NONE8 = np.empty(0, np.int64), np.empty(0, np.uint8)

NUM_PARTNERS = 16
"""Partners that are looked at together: the first one that helps well is taken, else the best of them."""

DESCENT_SHARE = 4
"""Which part of the checks of a step one descent may make; the others are for other starts and for kicks."""

MOST_KICKS = 1 << 40
"""No limit: checks run out first."""


class Exchanges:
    """One set of sorted arrays for many searches from layouts of one problem.

    Args:
        problem: with a fixed number of bins per rank.

    Attributes:
        possible: False where there is nothing to exchange (fewer than two bins), or groups contradict `forbid`.
    """

    def __init__(self, problem: Problem) -> None:
        if problem.group is not None and problem.group_scope == "rank" and problem.bins_per_rank == 1:
            problem = replace(problem, group_scope="bin", reference=None)  # the same thing, and groups move as one
        self.problem = problem
        entries = entries_of(problem)
        self.possible = entries is not None and entries.tokens.size > 1 and problem.num_bins > 1
        if entries is None or not self.possible:
            return
        self._entries: Entries = entries
        self._order = descending_order(entries.cost, entries.tokens)
        self._first = _first_members(entries)
        self._locked = _locked(entries)
        self._budgets = _NONE64 if problem.budgets is None else problem.budgets
        components = 0 if problem.components is None else problem.components.shape[1]
        size = self._order.size, problem.num_bins, self._budgets.size + components
        self._workspace = np.empty(_kernels.exchange.exchange_workspace(*size), np.uint8)

    def improve(
        self, layout: Assignment, target: int, checks: int, *, depth: int = 2, kicks: bool = False
    ) -> tuple[Assignment, int]:
        """A layout no worse by the problem's objective, and the checks that were made.

        Args:
            layout: keeps every limit.
            target: the search ends where the objective's load is no larger.
            checks: most checks, a count of what is looked at.
            depth: most entries on one side of an exchange, 1 to 3.
            kicks: go on where nothing helps, from a slightly disturbed layout.
        """
        problem, entries = self.problem, self._entries
        bin_of = layout.bin_of()[self._first]
        if problem.components is not None:
            used = self._by_component(problem.components, bin_of, checks, depth, kicks)
        else:
            limits = entries.footprints, self._budgets
            used = self._search(entries.cost, self._order, *limits, bin_of, target, checks, depth, kicks)
        found = entries.layout(self._order, bin_of, problem.num_bins)
        return (found, used) if problem.score(found) <= problem.score(layout) else (layout, used)

    def _by_component(self, components: Int64Array, bin_of: Int32Array, checks: int, depth: int, kicks: bool) -> int:
        """Lowers the largest rank in one component after the other, with the largest of all others as a cap."""
        loads = np.stack([self._entries.total(column) for column in components.T], axis=1)
        num_components, used = loads.shape[1], 0
        for turn in range(2 * num_components):
            sums = np.zeros((self.problem.ranks, num_components), np.int64)
            np.add.at(sums, bin_of // (self.problem.bins_per_rank or 1), loads)
            own, others = turn % num_components, np.arange(num_components) != turn % num_components
            cost = np.ascontiguousarray(loads[:, own])
            footprints = np.hstack([self._entries.footprints, loads[:, others]])
            budgets = np.concatenate([self._budgets, sums.max(axis=0)[others]])
            target = -(-int(cost.sum()) // self.problem.ranks)
            order, share = descending_order(cost, self._entries.tokens), checks // (2 * num_components)
            used += self._search(cost, order, footprints, budgets, bin_of, target, share, depth, kicks)
        return used

    def _search(
        self, cost: Int64Array, order: Int32Array, footprints: Int64Array, budgets: Int64Array, bin_of: Int32Array,
        target: int, checks: int, depth: int, kicks: bool,
    ) -> int:  # fmt: skip
        """One run of the kernel on entries with this cost; changes `bin_of`, int32[E], and returns the checks."""
        problem, entries, kernel = self.problem, self._entries, _kernels.exchange
        mode = {"rounds": kernel.BY_ROUNDS, "balance": kernel.BY_EVERY}.get(problem.objective.name, kernel.BY_LARGEST)
        weight = problem.objective.stages - 1
        shift = _halvings(cost, problem, weight)
        pad_cost = _NONE64 if problem.pad_cost is None else problem.pad_cost >> shift
        count = entries.count[order] if entries.count.size else entries.count
        forbid = entries.forbid[order] if entries.forbid.size else entries.forbid
        locked = self._locked[order] if self._locked.size else self._locked
        sorted_bins = bin_of[order]
        _, used = kernel.exchange(
            cost[order] >> shift, entries.tokens[order], count, np.ascontiguousarray(footprints[order]), forbid, locked,
            problem.capacities(), budgets, budgets.size - self._budgets.size, pad_cost, problem.ranks,
            problem.bins_per_rank or 1, problem.round_size or 1,
            problem.max_items or 0, problem.equal_count, mode, weight, target >> shift, depth, NUM_PARTNERS,
            MOST_KICKS if kicks else 0, checks, sorted_bins, self._workspace,
        )  # fmt: skip
        bin_of[order] = sorted_bins
        return used


def _first_members(entries: Entries) -> npt.NDArray[np.intp]:
    """int[E], one sample of each entry."""
    if entries.entry_of is None:
        return np.arange(entries.tokens.size)
    return np.unique(entries.entry_of, return_index=True)[1]


def _locked(entries: Entries) -> npt.NDArray[np.uint8]:
    """Entries that must stay on their rank, because others of their group are there."""
    if not entries.rank_group.size:
        return _NONE8
    grouped = entries.rank_group >= 0
    sizes = np.bincount(entries.rank_group[grouped], minlength=entries.num_rank_groups)
    locked = np.zeros(entries.rank_group.size, np.uint8)
    locked[grouped] = sizes[entries.rank_group[grouped]] > 1
    return locked


def _halvings(cost: Int64Array, problem: Problem, weight: int) -> int:
    """How often costs must be halved for their weighted sum to stay below 2**62."""
    padding = 0 if problem.pad_cost is None else int(problem.pad_cost.max()) * problem.num_bins
    return max(0, ((exact_sum(cost) + padding) * (weight + 1)).bit_length() - 62)


@dataclass(frozen=True)
class Exchange:
    """LPT, or the reference where that finds no layout, improved by moves and exchanges of up to two samples for two.

    The heaviest rank (under `rounds` the leader of every round, under `balance` every rank) gives up to two samples of
    one of its bins to a lighter one for up to two or none, so that the larger of the two falls most, until nothing
    helps. Every limit is kept throughout.

    Args:
        effort: "fast", "normal", "thorough", or a number of checks per sample, a quarter of which a descent may make; a
            count, so that the same input gives the same layout.

    Raises:
        ConfigError: an option has a wrong type or value.
    """

    effort: Effort = "normal"

    def __post_init__(self) -> None:
        object.__setattr__(self, "effort", effort_of("effort", self.effort))

    def assign(self, problem: Problem) -> Assignment | None:
        """The layout, or None where there is none to start from."""
        return self._solve(problem) if problem.bins_per_rank is not None else smallest_count(problem, self._solve)

    def _solve(self, problem: Problem) -> Assignment | None:
        layout = lpt_start(problem)
        if layout is None:
            layout = problem.reference or repaired_layout(problem)
        if layout is None:
            return None
        search = Exchanges(problem)
        if search.possible:
            checks = checks_of(self.effort, problem.num_samples) // DESCENT_SHARE
            layout, _ = search.improve(layout, lower_bound(problem).score, checks)
        return layout
