"""The default solver: several constructions on one sort, the best of them improved by exchanges."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from packing import _checks
from packing.algorithms._effort import Effort, checks_of, effort_of
from packing.algorithms._open_bins import smallest_count
from packing.algorithms._resplit import can_resplit, packed_below, resplit_pairs
from packing.algorithms.differencing import KarmarkarKarp
from packing.algorithms.equal_count import EqualCount
from packing.algorithms.exchange import Exchanges
from packing.algorithms.level_multifit import level_multifit
from packing.algorithms.multifit import combine
from packing.algorithms.placement import lpt_score, place
from packing.algorithms.repair import THOROUGH, needs_repair, repaired_layout
from packing.assignment import Assignment
from packing.audit import is_valid
from packing.bounds import lower_bound
from packing.partition import descending_order, difference
from packing.problem import Problem

__all__ = ["Auto"]

_FEW_PER_UNIT = 8
"""Up to so many samples a rank, bin packing under a level is a better start than differencing (measured)."""

_FULL_EFFORT = 16
"""How much more may be looked at where packs are over 99.9 % full: few exchanges are possible, each of a small gain."""

_MOST_FOR_THREES = 40
"""Samples a bin up to which exchanges of three for three are tried."""


@dataclass(frozen=True)
class Auto:
    """The best of the other solvers, improved by exchanges, under every limit at once and with every objective.

    LPT, differencing, COMBINE and level MULTIFIT start from one sort, as far as the problem allows each; the best of
    them, or the reference where none finds a layout, is improved by exchanges until the lower bound is met or the
    effort is used up.

    Args:
        effort: "fast", "normal", "thorough", or a number of checks per sample; a count, so that the same input gives
            the same layout everywhere.
        extra_packs: for an open number of bins, how many packs more than the fewest found may be used where that lowers
            the objective.

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
        best = smallest_count(problem, self._solve)
        if best is None:
            return None
        fewest = best.num_bins // problem.ranks
        score = problem.with_bins_per_rank(fewest).score(best)
        for bins_per_rank in range(fewest + 1, fewest + 1 + self.extra_packs // problem.ranks):
            if bins_per_rank * problem.ranks > problem.num_samples:
                break
            closed = problem.with_bins_per_rank(bins_per_rank)
            layout = self._solve(closed)
            if layout is not None and closed.score(layout) < score:
                best, score = layout, closed.score(layout)
        return best

    def _solve(self, problem: Problem) -> Assignment | None:
        if problem.num_samples < problem.num_bins:
            return None
        return _Portfolio(problem, self.effort).solve()


class _Portfolio:
    """What is known about one problem with a fixed number of bins: its order, its bound and the best layout so far."""

    def __init__(self, problem: Problem, effort: Effort) -> None:
        self.problem = problem
        self.effort = effort
        self.order = descending_order(problem.cost, problem.tokens)
        self.target = lower_bound(problem).score
        self.best: Assignment | None = None
        self.score = 0

    def solve(self) -> Assignment | None:
        for start in self._starts():
            if start is not None:
                self._offer(start)
            if self._done():
                return self.best
        if self.best is not None:
            self._improve(self.best, checks_of(self.effort, self.problem.num_samples))
        if not self._done() and self.problem.group is not None and self.problem.group_scope == "rank":
            self._keep_groups_whole()
        return self.best

    def _keep_groups_whole(self) -> None:
        """Groups that must share a rank also share a bin: that is stricter, but as one they can change their rank."""
        if self.problem.bins_per_rank != 1 and (self._gap() > 1e-3 or not self.problem.objective.additive):
            layout = _Portfolio(replace(self.problem, group_scope="bin", reference=None), self.effort).solve()
            if layout is not None:
                self._offer(layout)

    def _done(self) -> bool:
        additive = self.problem.objective.additive
        return self.best is not None and self.score <= (self.target if additive else 0)

    def _offer(self, layout: Assignment) -> None:
        score = self.problem.score(layout)
        if self.best is None or score < self.score:
            self.best, self.score = layout, score

    def _starts(self) -> Iterator[Assignment | None]:
        problem = self.problem
        if problem.equal_count:
            yield from self._equal_starts()
            return
        yield place(problem, score=lpt_score(problem), order=None)
        if not (problem.needs() - {"capacity", "multi_bin", "rounds", "makespan", "balance", "pipeline", "components"}):
            yield self._differenced()
        units = problem.num_bins if problem.objective.name == "rounds" else problem.ranks
        if problem.num_samples <= _FEW_PER_UNIT * units:
            yield combine(problem, self.order, start=self.best)
        if self.best is None or problem.objective.name == "rounds" or self._gap() > 1e-3:
            yield level_multifit(problem, self.order, start=self.best)
        if self.best is None and needs_repair(problem):
            yield repaired_layout(problem, checks=THOROUGH)
        if self.best is None:
            yield problem.reference

    def _gap(self) -> float:
        return self.score / self.target - 1.0 if self.target > 0 else 0.0

    def _differenced(self) -> Assignment | None:
        """Differencing where it happens to keep the caps; repairing it costs more than it brings."""
        problem = self.problem
        layout = Assignment(*difference(problem.cost, problem.num_bins, False, self.order))
        if problem.bins_per_rank != 1:
            return KarmarkarKarp().assign(problem)
        return layout if (layout.sums(problem.tokens) <= problem.capacities()).all() else None

    def _equal_starts(self) -> Iterator[Assignment | None]:
        problem = self.problem
        if not (problem.needs() - {"capacity", "multi_bin", "rounds", "makespan", "balance", "equal_count"}):
            yield EqualCount().assign(problem)
        if problem.bins_per_rank == 1:
            layout = place(problem, score=lpt_score(problem), max_items=problem.num_samples // problem.ranks)
            yield layout if layout is not None and is_valid(problem, layout) else None
        if self.best is None:
            yield repaired_layout(problem, checks=THOROUGH)
        if self.best is None:
            yield problem.reference

    def _improve(self, layout: Assignment, checks: int) -> None:
        problem = self.problem
        search = Exchanges(problem)
        if not search.possible:
            return
        if problem.capacity is not None:
            room, used = int(problem.capacities().sum()), int(problem.tokens.sum())
            checks *= _FULL_EFFORT if used > room - room // 1000 else 1
        before = checks
        by_rounds = problem.objective.name == "rounds"
        few = problem.num_samples <= _MOST_FOR_THREES * problem.num_bins
        phases = [(2, False, 2)] + [(3, False, 4)] * few + [(2, True, 1)] * (not by_rounds)
        for depth, kicks, share in phases:
            if kicks and can_resplit(problem, self.score):
                layout = resplit_pairs(problem, layout, self.target)
                self._offer(layout)
                if self._done():
                    return
            layout, spent = search.improve(layout, self.target, max(1, checks // share), depth=depth, kicks=kicks)
            checks -= spent
            self._offer(layout)
            if self._done():
                return
        if can_resplit(problem, self.score):
            packed = packed_below(problem, self.target, self.score, 4 * before)
            if packed is not None:
                self._offer(packed)
