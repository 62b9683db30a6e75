"""BinState: the contents of every bin while a layout is built, and what still fits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packing.assignment import Assignment

if TYPE_CHECKING:
    from packing.problem import Problem

__all__ = ["BinState"]


class BinState:
    """The contents of every bin while a layout is built, with the one predicate that decides what fits where.

    `fits` is the specification of every cap: tokens, budgets, `max_items`, `forbid`, group and oversized. Algorithms in
    Python build on it; the audit and the kernels are tested against it.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        num_bins = problem.num_bins
        self.capacity = None if problem.capacity is None else problem.capacities().tolist()
        self.members: list[list[int]] = [[] for _ in range(num_bins)]
        self.tokens = [0] * num_bins
        self.used = [[0] * (0 if problem.budgets is None else problem.budgets.size) for _ in range(num_bins)]
        self.home: dict[int, int] = {}

    def why_not(self, bin_index: int, sample: int) -> str | None:
        """None where `sample` fits into the bin as it is, else the reason in words with the numbers."""
        problem, members = self.problem, self.members[bin_index]
        length = int(problem.tokens[sample])
        if self.capacity is not None:
            capacity = self.capacity[bin_index]
            alone = problem.oversized == "single" and not members
            if self.tokens[bin_index] + length > capacity and not (length > capacity and alone):
                return f"{self.tokens[bin_index]} + {length} tokens exceed the capacity {capacity}"
        if problem.budgets is not None and problem.footprints is not None:
            for b, name in enumerate(problem.budget_names):
                used, more, limit = self.used[bin_index][b], int(problem.footprints[sample, b]), int(problem.budgets[b])
                if used + more > limit:
                    amounts = [problem.budget_amount(b, amount) for amount in (used, more, limit)]
                    return f"{amounts[0]} + {amounts[1]} of budget {name!r} exceed {amounts[2]}"
        if problem.max_items is not None and len(members) >= problem.max_items:
            return f"the bin already holds `max_items` = {problem.max_items} samples"
        if problem.forbid is not None and members and problem.forbid[members[0]] != problem.forbid[sample]:
            return "`forbid` keeps it apart from the samples that are there"
        if problem.group is not None and problem.group[sample] >= 0:
            place = self._place(bin_index)
            home = self.home.get(int(problem.group[sample]), place)
            if home != place:
                return f"its group is in {problem.group_scope} {home}, not in {place}"
        return None

    def fits(self, bin_index: int, sample: int) -> bool:
        """Whether `sample` may join the bin as it is now."""
        return self.why_not(bin_index, sample) is None

    def add(self, bin_index: int, sample: int) -> None:
        """Puts `sample` into the bin, without asking."""
        problem = self.problem
        self.members[bin_index].append(sample)
        self.tokens[bin_index] += int(problem.tokens[sample])
        if problem.footprints is not None:
            for b, more in enumerate(problem.footprints[sample].tolist()):
                self.used[bin_index][b] += more
        if problem.group is not None and problem.group[sample] >= 0:
            self.home.setdefault(int(problem.group[sample]), self._place(bin_index))

    def assignment(self) -> Assignment:
        """The layout so far."""
        return Assignment.from_bins(self.members)

    def _place(self, bin_index: int) -> int:
        bins_per_rank = self.problem.bins_per_rank
        assert bins_per_rank is not None
        return bin_index if self.problem.group_scope == "bin" else bin_index // bins_per_rank
