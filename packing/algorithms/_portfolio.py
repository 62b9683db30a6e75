"""The portfolio behind `auto`: several constructions from one sort, the best of them improved by exchanges."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import chain

from packing.algorithms._effort import Effort, checks_of
from packing.algorithms._exhaustive import can_exhaust, exhausted
from packing.algorithms._full_bins import is_full
from packing.algorithms._kinds import by_kinds, few_places, in_parts
from packing.algorithms._resplit import can_resplit, packed_below, resplit_pairs
from packing.algorithms.differencing import KarmarkarKarp
from packing.algorithms.equal_count import EqualCount
from packing.algorithms.exchange import DESCENT_SHARE, Exchange, Exchanges
from packing.algorithms.feasible import FeasibleLPT
from packing.algorithms.fitting import BestFitDecreasing, ExactFill, FirstFitDecreasing
from packing.algorithms.level_multifit import level_multifit
from packing.algorithms.multifit import combine
from packing.algorithms.placement import lpt_start
from packing.algorithms.repair import THOROUGH, needs_repair, repaired_layout
from packing.assignment import Assignment
from packing.audit import is_valid
from packing.bounds import lower_bound
from packing.errors import InfeasibleError, PackingError
from packing.objectives import OBJECTIVES
from packing.partition import descending_order, difference
from packing.problem import Problem

__all__ = ["Portfolio"]

_OBJECTIVES = {"makespan", "balance", "rounds", "pipeline", "components"}

_FEW_PER_UNIT = 8
"""Up to so many samples a rank, bin packing under a level is a better start than differencing (measured)."""

_FULL_EFFORT, _FULL_CHECKS = 16, 5 << 23
"""How much more is looked at where packs are over 99.9 % full, where few exchanges are possible, each of a small gain;
and the most checks of such a step of up to 8,192 samples, some 100 ms."""

_EXHAUSTIVE_SHARE, _FIRST_LOOK = 8, 16
"""Which part of the checks an exhaustive search may make in addition, and how much of it before kicks."""

_MOST_FOR_THREES = 40
"""Samples a bin up to which exchanges of three for three are tried."""

_MOST_FOR_ROUNDS = 1 << 20
"""Samples times bins up to which placement by the rounds' objective is tried: it looks at every bin for each sample."""

_MOST_SCANNED = 1 << 21
"""Samples times bins up to which levels are tried where each of them looks at every bin for every sample."""

_MOST_REPAIRED = 2048
"""Samples up to which differencing is repaired under a cap; the time grows with their square."""

_FEW_SAMPLES = 256
"""Steps of up to so many samples are also given to the other solvers, if the bound is not met."""

_MANY_SAMPLES = 1024
"""From so many samples on, packing below a level does most, with more steps the more samples there are (measured)."""

_LEAST_KICKS, _MOST_EXACT, _MOST_KICKS = 2, 4, 32
"""The first and the longest run of simple kicks where nothing but cost decides, in checks of the step: short where
costs are small whole numbers, since there packing below a level does as much."""

_TIGHT, _FAR, _TIGHT_KICKS, _MOST_TIGHT_KICKS = 100, 100, 32, 1 << 26
"""Where less than 1 % of the bins is free and the layout is 1 % over the bound, few exchanges fit and most checks end
at once: a long run of simple kicks, in checks of the step and at most, takes some 50 ms (measured)."""

_MOST_FROM_NOTHING, _MOST_COMBINED = 1 << 24, 1 << 18
"""Samples times bins up to which a layout more than 1 % over the bound is sought from a start of its own."""

_PRECISION = 24
"""A layout within 2**-24 of the bound ends the search, unless the effort is "thorough": no cost model is as exact."""


_WITHOUT_KICKS = {"rounds", "balance"}
"""Objectives under which kicks change little: every leader, or every rank, is improved before."""


class Portfolio:
    """What is known about one problem with a fixed number of bins: its order, its bound and the best layout so far."""

    def __init__(self, problem: Problem, effort: Effort, *, repair: int = THOROUGH, checks: int | None = None) -> None:
        self.problem = problem
        self.repair = repair
        self.effort = effort
        self.checks = checks_of(effort, problem.num_samples) if checks is None else checks
        self.order = descending_order(problem.cost, problem.tokens)
        self.fast, self.thorough = effort == "fast", effort == "thorough"
        self.bound = self.enough = 0
        self.best: Assignment | None = None
        self.score = 0

    def solve(self) -> Assignment | None:
        """The best layout found, or None where no way led to one that keeps every limit."""
        # Exchanges cannot give a bin of one kind to another; in long steps nothing that looks at all bins is worth it.
        apart = by_kinds(self.problem, self._kind) or in_parts(self.problem, self.order, self._part)
        if apart is not None and self._is_long():
            self._offer(self.problem.reference)
            self._offer(apart)
            return self.best
        lpt = self._lpt()
        self._prove(lpt)
        if any(self._offer(start) for start in chain([lpt, apart], self._starts())) or self.best is None:
            return self.best
        self._improve(lpt)
        if self.score > self.bound and not self.fast:
            self._offer(self._with_whole_groups())
            if self.problem.num_samples <= _FEW_SAMPLES:
                any(self._offer(layout) for layout in self._others())
            elif self._is_far():
                any(self._offer(layout) for layout in self._from_elsewhere(lpt))
        return self.best

    def _kind(self, kind: Problem) -> Assignment | None:
        """Some of the samples that nothing keeps apart, with their share of the checks."""
        checks = max(1, self.checks * kind.num_samples // self.problem.num_samples)
        return Portfolio(kind, self.effort, checks=checks).solve()

    def _part(self, part: Problem) -> Assignment | None:
        """Some of the samples, with checks of their own: there are parts only where nothing else helps."""
        return Portfolio(part, self.effort).solve()

    def _is_long(self) -> bool:
        """Whether looking at every bin for every sample takes long."""
        return self.problem.num_samples * self.problem.num_bins > _MOST_SCANNED

    def _with_whole_groups(self) -> Assignment | None:
        """Groups that must share a rank share a bin, too: that is stricter, but as one they can change their rank."""
        problem = self.problem
        near = problem.objective.additive and self.score <= self.bound + self.bound // 1000
        if problem.group is None or problem.group_scope == "bin" or problem.bins_per_rank == 1 or near:
            return None
        return Portfolio(replace(problem, group_scope="bin", reference=None), self.effort).solve()

    def _prove(self, layout: Assignment | None) -> None:
        """The bound, by costly proofs only where the layout does not meet a cheap one."""
        problem = self.problem
        if problem.objective.additive:
            self.bound = lower_bound(problem, reached=None if layout is None else problem.score(layout)).score
            self.enough = self.bound if self.thorough else self.bound + (self.bound >> _PRECISION)

    def _offer(self, layout: Assignment | None) -> bool:
        """Keeps the layout if it is the best; whether the best meets the bound."""
        if layout is not None:
            score = self.problem.score(layout)
            if self.best is None or score < self.score:
                self.best, self.score = layout, score
        return self.best is not None and self.score <= self.bound

    def _needs_only(self, *features: str) -> bool:
        return self.problem.needs() <= _OBJECTIVES | set(features)

    def _lpt(self) -> Assignment | None:
        problem = self.problem
        if problem.objective.name == "rounds" and problem.num_samples * problem.num_bins > _MOST_FOR_ROUNDS:
            return None
        return lpt_start(problem)

    def _starts(self) -> Iterator[Assignment | None]:
        problem = self.problem
        if problem.equal_count and self._needs_only("capacity", "multi_bin", "rounds", "equal_count"):
            yield EqualCount().assign(problem)
        if not problem.equal_count:
            yield from self._free_starts()
        if self.best is None and self._needs_only("capacity", "multi_bin", "rounds", "max_items", "oversized"):
            with suppress(InfeasibleError):  # whoever calls without the planner learns it by None
                yield ExactFill().assign(problem)
        if self.best is None and needs_repair(problem):
            yield repaired_layout(problem, checks=min(self.repair, self.checks))
        if self.best is None or problem.reference is not None:
            yield problem.reference
        if self.best is None and can_exhaust(problem):
            yield exhausted(problem, self.order, None, self.bound, self.checks // _EXHAUSTIVE_SHARE)[0]

    def _free_starts(self) -> Iterator[Assignment | None]:
        """Constructions that do not count samples."""
        problem = self.problem
        by_rounds = problem.objective.name == "rounds"
        one_round = not by_rounds or problem.round_size == problem.num_bins
        if one_round and self._needs_only("capacity", "multi_bin", "rounds"):
            yield self._differenced()
        if self.best is not None and not self._is_quick():
            return
        if problem.num_samples <= _FEW_PER_UNIT * (problem.num_bins if by_rounds else problem.ranks):
            yield combine(problem, self.order, start=self.best)
        far = self.score > self.bound + self.bound // 1000 and not self.fast
        if self.best is None or by_rounds or far:
            # Not from the best so far: its search for a level goes down from there, and a far one misleads it.
            yield level_multifit(problem, self.order)

    def _is_quick(self) -> bool:
        """Whether placement under levels finds a bin without looking at all of them, or there are few to look at."""
        plain = self._needs_only("capacity", "multi_bin", "rounds", "max_items")
        return plain or not self._is_long()

    def _differenced(self) -> Assignment | None:
        """Differencing; with one bin per rank only where it happens to keep the caps, since repairing it takes long."""
        problem = self.problem
        if problem.bins_per_rank != 1:
            few = problem.capacity is None or problem.num_samples <= _MOST_REPAIRED
            return KarmarkarKarp().assign(problem) if few else None
        layout = Assignment(*difference(problem.cost, problem.num_bins, False, self.order))
        return layout if (layout.sums(problem.tokens) <= problem.capacities()).all() else None

    def _improve(self, lpt: Assignment | None) -> None:
        """Exchanges from LPT and from the best start, then what else helps from the better, until that is enough."""
        problem, search, checks = self.problem, Exchanges(self.problem), self._allowed()
        assert self.best is not None
        if not search.possible:
            return
        left, few_per_bin = checks, problem.num_samples <= _MOST_FOR_THREES * problem.num_bins
        # Where packs are full kicks do little; the descents take it all.
        share = DESCENT_SHARE if checks <= self.checks else 2 if few_per_bin else 1
        starts = [self.best] if lpt is None or lpt == self.best else [lpt, self.best]
        for start in chain(starts, self._by_component()):
            layout, used = search.improve(start, self.bound, checks // share)
            self._offer(layout)
            left -= used
            if left <= 0:
                break
        if self._exhaust(_FIRST_LOOK):
            return
        many, exact = problem.num_samples > _MANY_SAMPLES, can_resplit(problem, self.score)
        alone = problem.needs() <= {"makespan"}
        if many and exact:
            self._pack_below(checks * min(problem.num_samples, 2 * _MANY_SAMPLES) // 100)
        if few_per_bin:
            left -= self._exchange(search, checks // share, depth=3)
        if self.score > self.enough and exact:
            self._offer(resplit_pairs(problem, self.best, self.enough, (4 if many else 8) * checks))
        few, long = problem.num_samples <= _FEW_PER_UNIT * problem.ranks, False
        if problem.objective.name not in _WITHOUT_KICKS:
            # Larger steps, and those that can be searched exhaustively, have other means.
            short = problem.num_samples > _FEW_SAMPLES or can_exhaust(problem)
            most = _MOST_KICKS if alone and not exact else _LEAST_KICKS if short or not exact else _MOST_EXACT
            long = few and not (many and exact) and self._kick(search, most) and exact and not short
            self._exchange(search, 2 * checks if long else max(1, left), kicks=True)
        if not many and (exact or few) and alone and not long:
            self._pack_below(3 * checks)
        if not self._exhaust(_EXHAUSTIVE_SHARE) and not self.fast and self._is_tight():
            self._exchange(search, min(_TIGHT_KICKS * self.checks, _MOST_TIGHT_KICKS), depth=1, kicks=True)

    def _is_far(self) -> bool:
        return self.problem.objective.additive and self.score > self.bound + self.bound // _FAR

    def _is_tight(self) -> bool:
        """Whether the bins are nearly full and the best layout is far from the bound."""
        return self._is_far() and self.problem.objective.name not in _WITHOUT_KICKS and is_full(self.problem, _TIGHT)

    def _from_elsewhere(self, lpt: Assignment | None) -> Iterator[Assignment | None]:
        """Layouts from other starts than those that led no nearer to the bound."""
        problem = self.problem
        places = problem.num_samples * problem.num_bins
        if lpt is None and places <= _MOST_FROM_NOTHING:
            yield Exchange(self.effort).assign(problem)  # from where repair of nothing leads
        if not problem.equal_count and places <= _MOST_COMBINED:
            yield combine(problem, self.order)
            yield level_multifit(problem, self.order)

    def _exchange(self, search: Exchanges, checks: int, *, depth: int = 2, kicks: bool = False) -> int:
        """Exchanges from the best layout, unless that is good enough; the checks that were made."""
        if self.best is None or self.score <= self.enough:
            return 0
        layout, used = search.improve(self.best, self.enough, checks, depth=depth, kicks=kicks)
        self._offer(layout)
        return used

    def _kick(self, search: Exchanges, most: int) -> bool:
        """Simple kicks, in runs that double for as long as they help; whether the first run helped.

        With few samples a rank they do more than a few thorough ones (measured).
        """
        layout, share, before = self.best, _LEAST_KICKS, self.score
        while layout is not None and self.score > self.enough and share <= most:
            score = self.score
            layout, _ = search.improve(layout, self.enough, share * self.checks, depth=1, kicks=True)
            self._offer(layout)
            share = 2 * share if self.score < score else most + 1
        return self.score < before

    def _pack_below(self, steps: int) -> None:
        if self.score > self.enough and self.best is not None:
            self._offer(packed_below(self.problem, self.enough, self.score, steps))

    def _exhaust(self, share: int) -> bool:
        """Looks at every layout better than the best if this part of the checks allows; whether that is proven best."""
        if self.score <= self.enough or not can_exhaust(self.problem):
            return self.score <= self.enough
        steps = self.checks // share
        found, complete = exhausted(self.problem, self.order, self.score, self.enough, steps)
        if complete or share == _EXHAUSTIVE_SHARE:  # else the search goes on from where exchanges led
            self._offer(found)
        if complete:
            self.bound = self.enough = self.score
        return complete

    def _by_component(self) -> Iterator[Assignment]:
        """LPT by the cost in each component: from LPT by the sum alone, exchanges hardly trade one for the other."""
        problem = self.problem
        for column in () if problem.components is None else problem.components.T:
            by_column = replace(problem, cost=column, components=None, objective=OBJECTIVES["makespan"])
            layout = lpt_start(by_column)
            if layout is not None:
                yield layout

    def _allowed(self) -> int:
        """Most checks: fewer of them under a cap, where each takes longer, and more where packs are full."""
        problem = self.problem
        if not is_full(problem) and not few_places(problem):
            return self.checks if problem.capacity is None else self.checks * 3 // 4
        most = _FULL_CHECKS * max(1, problem.num_samples >> 13)
        return max(self.checks, min(_FULL_EFFORT * self.checks, most))

    def _others(self) -> Iterator[Assignment | None]:
        """Every other solver, as far as each can keep the limits; none that goes by the order of the samples."""
        solvers = (
            KarmarkarKarp(), FeasibleLPT(), EqualCount(), ExactFill(), BestFitDecreasing(), FirstFitDecreasing(),
        )  # fmt: skip
        for solver in solvers:
            try:
                layout = solver.assign(self.problem)
            except PackingError:
                continue
            if layout is not None and layout.num_bins == self.problem.num_bins and is_valid(self.problem, layout):
                yield layout
        if lpt_start(self.problem) is None:
            yield Exchange(self.effort).assign(self.problem)  # from where repair of nothing led
        if not self.problem.equal_count:
            yield combine(self.problem, self.order)
            yield level_multifit(self.problem, self.order)
        if self.problem.reference is not None:  # from a good one exchanges may end in a worse place
            yield Portfolio(replace(self.problem, reference=None), self.effort).solve()
