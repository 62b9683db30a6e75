"""Feasible LPT: greedy placement, then repair of pairs of bins by subset-sum reachability."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from packing import _checks, _kernels
from packing.algorithms._open_bins import smallest_count
from packing.algorithms.placement import lpt_score, place
from packing.assignment import Assignment
from packing.errors import ConfigError
from packing.partition import descending_order
from packing.problem import Problem

__all__ = ["FeasibleLPT"]

_NONE64 = np.empty(0, np.int64)


@dataclass(frozen=True)
class FeasibleLPT:
    """Greedy placement, then pairs of bins are split anew while the round objective falls.

    Phi, the sum of elements 0, g, 2g, ... of the bin loads sorted descending, is what complete packs cost that are
    scheduled into rounds of g ranks. Pairs with the largest possible gain are tried first; an attempt splits the two
    bins' samples greedily among the sides from which the rest can still be completed, which suffix subset sums tell.
    Where greedy placement finds nothing, the reference is repaired instead.

    Args:
        max_repair_pairs: most attempts in one call, failed ones included; at least 1.
        objective_group_size: g, a divisor of the ranks; None: the problem's round size.
        max_table_bytes: a reachability table beyond it ends the repair. The table takes 4 bytes per token of capacity.

    Raises:
        ConfigError: an option has a wrong type or value.
    """

    max_repair_pairs: int = 64
    objective_group_size: int | None = None
    max_table_bytes: int = 256 << 20

    def __post_init__(self) -> None:
        for name in ("max_repair_pairs", "max_table_bytes"):
            object.__setattr__(self, name, _checks.integer(name, getattr(self, name), minimum=1))
        size = _checks.optional_integer("objective_group_size", self.objective_group_size, minimum=1)
        object.__setattr__(self, "objective_group_size", size)

    def assign(self, problem: Problem) -> Assignment | None:
        """The layout, or None where greedy placement found nothing and there is no reference.

        Raises:
            ConfigError: `objective_group_size` does not divide the ranks.
        """
        if problem.bins_per_rank is None:
            return smallest_count(problem, self.assign)
        size = self.objective_group_size or problem.round_size
        assert size is not None
        if problem.ranks % size:
            raise ConfigError(f"`objective_group_size` must divide the {problem.ranks} ranks, but got {size}.")
        problem = replace(problem, round_size=size)
        by_rounds = problem.objective.name == "makespan" and problem.bins_per_rank == 1 and size < problem.ranks
        greedy = place(problem, score=_kernels.greedy.ROUNDS_AFTER if by_rounds else lpt_score(problem))
        layout = problem.reference if greedy is None else greedy
        if layout is None or not self._can_repair(problem, layout):
            return layout
        if problem.pad_cost is not None and problem.reference is not None:
            layout = min(layout, problem.reference, key=lambda one: _round_objective(problem, one))
        if problem.objective.name == "balance":
            full = (
                problem.reference is not None and (problem.reference.sums(problem.tokens) == problem.capacities()).all()
            )
            if greedy is not None or not full:
                return layout
        return self._repaired(problem, layout, size)

    def _can_repair(self, problem: Problem, layout: Assignment) -> bool:
        """One bin per rank, no budgets, at least two bins, none of them over its capacity."""
        if problem.bins_per_rank != 1 or problem.num_bins < 2 or not isinstance(problem.capacity, int):
            return False
        if problem.budgets is not None and problem.budgets.size:
            return False
        return bool((layout.sums(problem.tokens) <= problem.capacity).all())

    def _repaired(self, problem: Problem, layout: Assignment, size: int) -> Assignment:
        assert isinstance(problem.capacity, int)
        kernel = _kernels.feasible
        # No bin can hold more than all samples, so a larger capacity needs no larger table.
        entries = 1 + min(problem.capacity, int(problem.tokens.sum()))
        if 4 * entries > self.max_table_bytes:
            return layout
        offsets, items = layout.offsets.copy(), layout.items.copy()
        pad_cost = _NONE64 if problem.pad_cost is None else problem.pad_cost
        pairs = self.max_repair_pairs
        workspace = np.empty(kernel.repair_pairs_workspace(items.size, problem.num_bins, entries, pairs), np.uint8)
        kernel.repair_pairs(
            problem.tokens, problem.cost, descending_order(problem.cost, problem.tokens), problem.capacity, pad_cost,
            size, _objective(problem), pairs, offsets, items, workspace,
        )  # fmt: skip
        return Assignment(offsets, items)


def _objective(problem: Problem) -> int:
    return _kernels.feasible.BALANCE if problem.objective.name == "balance" else _kernels.feasible.MAKESPAN


def _round_objective(problem: Problem, layout: Assignment) -> int:
    assert problem.round_size is not None
    return _kernels.feasible.round_objective(problem.pack_loads(layout), problem.round_size, _objective(problem))
