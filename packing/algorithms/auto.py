"""The default algorithm: the best of the other solvers, improved by exchanges; the number of bins may be open."""

from __future__ import annotations

from dataclasses import dataclass

from packing import _checks
from packing._fewest_bins import EFFORTS
from packing.algorithms._effort import Effort, effort_of
from packing.algorithms._open_bins import smallest_count
from packing.algorithms._portfolio import Portfolio
from packing.algorithms.repair import QUICK
from packing.assignment import Assignment
from packing.bins import fit_fewest
from packing.bounds import fewest_bins_per_rank
from packing.objectives import OBJECTIVE_NAMES
from packing.problem import Problem

__all__ = ["Auto"]


_PACKED_ALONE = {"capacity", "open_bins", "max_items", "oversized", "pad_cost", *OBJECTIVE_NAMES, "rounds"}
"""Needs of a step whose fewest packs depend on lengths alone."""


@dataclass(frozen=True)
class Auto:
    """The best of the other solvers, improved by exchanges, under every limit at once and with every objective.

    LPT, differencing, COMBINE, level MULTIFIT and equal counts start from one sort, as far as the problem allows each,
    or the reference where none finds a layout. Exchanges improve LPT (under `components` also LPT by each of them) and
    the best start. Unless the best of them is within one part in 2**24 of the lower bound, three-for-three exchanges,
    exact splits of pairs (for small whole costs), random kicks from a fixed seed and packing below a level (for few
    samples a rank that only cost limits) go on from there until the effort is used up. Steps of up to 48 samples with
    one largest load and no limits but caps and counts are also searched exhaustively.

    Samples that `forbid` keeps apart are also laid out kind by kind, each in its share of the bins; and many samples of
    which a bin holds up to 4, part by part. With more than 2**21 samples times bins nothing else is tried then.

    Small steps whose bound is not met are given to every other solver too, so that they are never worse than by another
    name; but not to those that go by the order of the samples (`first_fit`, `next_fit`, `none`).

    Args:
        effort: "fast", "normal", "thorough" (which goes on to the bound itself), or a number of checks per sample;
            a count, so that the same input gives the same layout everywhere.
        extra_packs: for an open number of bins, how many packs more than the fewest found, on all ranks together, may
            be used where that lowers the objective. Every rank gets as many, so what is left over counts for nothing.

    Raises:
        ConfigError: an option has a wrong type or value.
    """

    effort: Effort = "normal"
    extra_packs: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "effort", effort_of("effort", self.effort))
        object.__setattr__(self, "extra_packs", _checks.integer("extra_packs", self.extra_packs, minimum=0))

    def assign(self, problem: Problem) -> Assignment | None:
        """The layout, or None where no way led to one that keeps every limit."""
        if problem.bins_per_rank is not None:
            return self._solve(problem)
        best = smallest_count(problem, self._attempt, _fewest(problem))
        if best is None:
            return None
        fewest = best.num_bins // problem.ranks
        score = problem.with_bins_per_rank(fewest).score(best)
        most = min(fewest + self.extra_packs // problem.ranks, problem.num_samples // problem.ranks)
        for bins_per_rank in range(fewest + 1, most + 1):
            closed = problem.with_bins_per_rank(bins_per_rank)
            layout = self._attempt(closed)
            if layout is not None and closed.score(layout) < score:
                best, score = layout, closed.score(layout)
        return best

    def _attempt(self, problem: Problem) -> Assignment | None:
        """One count of several: where it hardly fits, the next one is better than a long repair."""
        return Portfolio(problem, self.effort, repair=QUICK).solve()

    def _solve(self, problem: Problem) -> Assignment | None:
        return Portfolio(problem, self.effort).solve() if problem.num_samples >= problem.num_bins else None


def _fewest(problem: Problem) -> int | None:
    """Bins per rank for the fewest packs that a search finds; None where lengths alone do not decide."""
    if problem.capacity is None or not problem.needs() <= _PACKED_ALONE:
        return None
    bound, _ = fewest_bins_per_rank(problem)
    too_long = problem.oversized == "error" and problem.is_oversized().any()
    if problem.ranks * bound > problem.num_samples or too_long:
        return bound
    offsets, _, _, _ = fit_fewest(
        problem.tokens, problem.max_capacity, problem.ranks * bound, problem.max_items, problem.oversized,
        EFFORTS["fast"],
    )  # fmt: skip
    return -(-(offsets.size - 1) // problem.ranks)
