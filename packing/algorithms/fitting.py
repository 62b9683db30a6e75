"""The classical bin-packing rules as balancing algorithms: fewest packs first, dealt to the ranks in turn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from packing.assignment import Assignment
from packing.bins import effort_steps, fit_bins
from packing.problem import Problem

__all__ = ["BestFitDecreasing", "ExactFill", "FirstFit", "FirstFitDecreasing", "NextFit"]


@dataclass(frozen=True)
class _Fit:
    """Packs by one rule over all ranks together; pack p goes to rank p % R, slot p // R.

    Where the rule needs fewer packs than there are bins, the samples that it places last get packs of their own, so
    that none stays empty. Where it needs more, there is no candidate. Costs and objective play no part.
    """

    kind: ClassVar[str]

    def assign(self, problem: Problem) -> Assignment | None:
        """The layout, or None where the rule needs more packs than there are bins."""
        ranks, slots = problem.ranks, problem.bins_per_rank
        smallest = None if problem.capacity is None else int(np.min(problem.capacity))
        if not isinstance(problem.capacity, (int, type(None))) and problem.tokens.max(initial=0) > (smallest or 0):
            return None  # the rules know one capacity, the smallest, and cannot tell which bins hold more
        if slots is None:
            slots = -(-(self._pack(problem, None).num_bins) // ranks)
        if problem.num_samples < ranks * slots:
            return None
        packs = self._pack(problem, ranks * slots)
        if packs.num_bins != ranks * slots:
            return None
        return packs.reordered(np.arange(ranks * slots).reshape(slots, ranks).T.reshape(-1))

    def _pack(self, problem: Problem, min_bins: int | None, **effort: int) -> Assignment:
        capacity = None if problem.capacity is None else int(np.min(problem.capacity))
        offsets, items = fit_bins(
            problem.tokens, None, capacity, self.kind, min_bins, problem.max_items, problem.oversized, **effort
        )
        return Assignment(offsets, items)


class NextFit(_Fit):
    """In sample order; a new pack whenever the last one is full. Keeps the order of the samples."""

    kind = "next_fit"


class FirstFit(_Fit):
    """In sample order, each into the first pack with room."""

    kind = "first_fit"


class FirstFitDecreasing(_Fit):
    """Longest first, each into the first pack with room. At most 11/9 OPT + 6/9 packs (Dosa 2007)."""

    kind = "first_fit_decreasing"


class BestFitDecreasing(_Fit):
    """Longest first, each into the fullest pack with room. The same guarantee as first-fit decreasing."""

    kind = "best_fit_decreasing"


@dataclass(frozen=True)
class ExactFill(_Fit):
    """Pack after pack as full as can be, where that beats best-fit decreasing, then a search for fewer packs.

    Never more packs than best-fit decreasing. The search ends where a lower bound proves that there are no fewer, or
    where the fixed number of packs is met.

    Attributes:
        effort: how much is searched: "fast", "normal", "thorough" or a positive number of steps, as in `packing.pack`.
    """

    kind = "exact_fill"
    effort: str | int = "normal"

    def __post_init__(self) -> None:
        effort_steps("effort", self.effort, 0)

    def _pack(self, problem: Problem, min_bins: int | None, **effort: int) -> Assignment:
        return super()._pack(problem, min_bins, max_steps=effort_steps("effort", self.effort, problem.num_samples))
