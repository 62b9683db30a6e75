"""Plain-Python specification of the exhaustive search for the smallest largest rank load under caps.

Bins are filled one after another with a subset of the entries that are left, as Korf does for partitions ("Multi-way
number partitioning", 2009) and bins ("An improved algorithm for optimal bin packing", 2003). What a bin must take at
least follows from what the bins after it can take at most.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


def branch_workspace(num_entries: int, num_bins: int) -> int:
    """Bytes of workspace that `branch` needs; the twin needs none."""
    return 0


def branch(
    cost: Any,  # IN int64[E], not negative, descending, and tokens descending where it is equal
    tokens: Any,  # IN int64[E], not negative
    capacity: Any,  # IN int64[K], tokens of each bin, bins of one rank side by side
    bins_per_rank: int,
    max_items: int,  # entries of a bin; 0: no limit
    best: int,  # only layouts with a smaller largest rank load are looked for
    target: int,  # the search ends with a layout of this load or less
    max_steps: int,
    bin_of: Any,  # OUT int32[E]: the best layout; unchanged where none is better than `best`
    workspace: Any,  # OUT uint8[branch_workspace(E, K)]
) -> tuple[int, bool]:
    """The largest rank load of the best layout without an empty bin, or `best`, and whether no step was lacking.

    Where none was, the load is the smallest below `best`, or at most `target`, or there is none below `best`.

    The subsets of a bin are tried in lexicographic order, a subset after all that it begins. Of bins that can be
    swapped, because they are of one rank or alone on theirs and next to each other, the one with the smaller first
    entry comes first; if all ranks left are alike, it is the first entry left. Of equal entries the first goes into
    the earlier bin. A step is an entry that is looked at for a bin.
    """
    costs, lengths, caps = [[int(value) for value in column] for column in (cost, tokens, capacity)]
    if not caps or bins_per_rank < 1 or len(caps) % bins_per_rank:
        raise ValueError("there must be some bins, the same number for each rank")
    if len(lengths) != len(costs) or len(bin_of) != len(costs):
        raise ValueError("tokens and bin_of must have one value per entry")
    ordered = all(costs[e - 1] >= costs[e] for e in range(1, len(costs)))
    if not ordered or min(costs + lengths + caps, default=0) < 0:
        raise ValueError("cost must be descending, and no amount negative")
    ranks = len(caps) // bins_per_rank
    if max(sum(costs), sum(lengths), sum(caps), ranks * max(0, best)) >= 1 << 62:
        raise ValueError("amounts must add up to less than 2**62")
    search = _Search(costs, lengths, caps, bins_per_rank, max_items or len(costs), best, target, max_steps)
    if search.fits():
        search.fill(list(range(len(costs))), [])
    if search.found is not None:
        bin_of[:] = search.found
    return search.best, not search.out_of_steps


@dataclass
class _Search:
    cost: list[int]
    tokens: list[int]
    capacity: list[int]
    bins_per_rank: int
    most: int
    best: int
    target: int
    steps: int
    found: list[int] | None = None
    out_of_steps: bool = False
    ended: bool = field(default=False)

    def fits(self) -> bool:
        """Whether sums and counts alone leave a chance."""
        count, num_bins = len(self.cost), len(self.capacity)
        return (
            num_bins <= count <= num_bins * self.most
            and sum(self.tokens) <= sum(self.capacity)
            and sum(self.cost) <= (num_bins // self.bins_per_rank) * (self.best - 1)
        )

    def fill(self, rest: list[int], bins: list[list[int]]) -> None:
        """Every way to fill the bins after `bins` with the entries of `rest`."""
        b = len(bins)
        if b < len(self.capacity) - 1:
            at = 0
            if b and self.capacity[b] == self.capacity[b - 1] and (self.bins_per_rank == 1 or b % self.bins_per_rank):
                at = next((i for i, e in enumerate(rest) if e > bins[-1][0]), len(rest))
            self.extend(rest, bins, [], at)
            return
        largest = max(self.loads([*bins, rest]))
        if largest < self.best:
            self.best = largest
            self.found = [0] * len(self.cost)
            for number, members in enumerate([*bins, rest]):
                for e in members:
                    self.found[e] = number
            self.ended = largest <= self.target

    def loads(self, bins: list[list[int]]) -> list[int]:
        each = [sum(self.cost[e] for e in members) for members in bins]
        return [sum(each[b : b + self.bins_per_rank]) for b in range(0, len(each), self.bins_per_rank)]

    def extend(self, rest: list[int], bins: list[list[int]], chosen: list[int], at: int) -> None:
        """Every subset of the next bin that begins with the positions `chosen` of `rest`, and goes on from `at`."""
        b = len(bins)
        alike = b % self.bins_per_rank == 0 and len(set(self.capacity[b:])) == 1
        for i in range(at, len(rest)):
            if self.steps <= 0:
                self.out_of_steps = self.ended = True
                return
            self.steps -= 1
            if (alike and not chosen and i > 0) or not self.enough(rest, bins, chosen + list(range(i, len(rest)))):
                break
            equal = i > 0 and all(values[rest[i]] == values[rest[i - 1]] for values in (self.cost, self.tokens))
            if (equal and chosen[-1:] != [i - 1]) or not self.small(rest, bins, [*chosen, i]):
                continue
            self.extend(rest, bins, [*chosen, i], i + 1)
            if self.ended:
                return
        if chosen and self.enough(rest, bins, chosen) and self.small(rest, bins, chosen):
            left = [e for i, e in enumerate(rest) if i not in chosen]
            self.fill(left, [*bins, [rest[i] for i in chosen]])

    def enough(self, rest: list[int], bins: list[list[int]], chosen: list[int]) -> bool:
        """Whether the bins after the next one may hold what is not chosen, and no rank before is too large."""
        b, left = len(bins), [e for i, e in enumerate(rest) if i not in chosen]
        bins_after, ranks_after = len(self.capacity) - b - 1, len(self.capacity) // self.bins_per_rank - 1
        ranks_after -= b // self.bins_per_rank
        closes = (b + 1) % self.bins_per_rank == 0
        return (
            len(left) <= bins_after * self.most
            and sum(self.tokens[e] for e in left) <= sum(self.capacity[b + 1 :])
            and (not closes or sum(self.cost[e] for e in left) <= ranks_after * (self.best - 1))
            and max(self.loads(bins), default=-1) < self.best
        )

    def small(self, rest: list[int], bins: list[list[int]], chosen: list[int]) -> bool:
        """Whether the next bin can hold what is chosen, and every bin after it gets an entry."""
        b, members = len(bins), [rest[i] for i in chosen]
        return (
            len(chosen) <= min(self.most, len(rest) - (len(self.capacity) - b - 1))
            and sum(self.tokens[e] for e in members) <= self.capacity[b]
            and self.loads([*bins, members])[-1] < self.best
        )
