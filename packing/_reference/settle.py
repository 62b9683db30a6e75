"""Plain-Python specification of settling: bins a little over their capacity are brought down to it, token by token."""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from typing import Any

_MOST_PAIRED, _MOST_TRIPLED = 64, 16
"""Of the entries of a bin the last ones are looked at in pairs, and in threes where there are no more than these."""

Exchange = tuple[tuple[int, ...], tuple[int, ...], int]
"""Entries that leave a bin, entries that come in return, and the bin they come from."""

_EQUAL = 8
"""How many entries or subsets with the same tokens are looked at."""


def settle_workspace(num_entries: int, num_bins: int) -> int:
    """Bytes of workspace that `settle` needs; the twin needs none."""
    return 0


def settle(
    cost: Any,  # IN int64[E]
    tokens: Any,  # IN int64[E], descending
    capacity: int,
    num_bins: int,
    max_checks: int,
    bin_of: Any,  # IN and OUT int32[E]
    workspace: Any,  # OUT uint8[settle_workspace(E, K)]
) -> tuple[int, int]:
    """Exchanges entries of bins with too many or too few tokens and returns (tokens over capacity, the checks made).

    In turn a bin over its capacity and one below it is drawn, and one of its entries is exchanged for one of another
    bin that leaves it exactly full, so that its excess goes there: the one that lowers the sum of all excesses and
    shortfalls most. If there is none, subsets of up to three entries are exchanged with a bin of the other kind. If
    that fails, too, the excess goes to a bin that is full, from where other exchanges are possible.

    Among subsets those are exchanged whose costs differ least. It ends where no bin is over, or the checks are used up.

    Raises:
        ValueError: arrays of different lengths, no bins, a small workspace, a number of no bin, tokens that ascend.
    """
    if not len(cost) == len(tokens) == len(bin_of):
        raise ValueError("cost, tokens and bin_of must have the same length")
    if num_bins < 1 or len(workspace) < settle_workspace(len(tokens), num_bins):
        raise ValueError("num_bins must be positive, and the workspace large enough")
    if any(not 0 <= b < num_bins for b in bin_of) or any(a < b for a, b in pairwise(tokens)):
        raise ValueError("bin_of must name bins, and tokens must descend")
    layout = Layout(
        [int(x) for x in cost], [int(x) for x in tokens], int(capacity), num_bins, max_checks, [int(b) for b in bin_of]
    )
    layout.solve()
    bin_of[:] = layout.bin_of
    return sum(max(0, excess) for excess in layout.excess), layout.checks


@dataclass
class Layout:
    cost: list[int]
    tokens: list[int]
    capacity: int
    num_bins: int
    max_checks: int
    bin_of: list[int]
    members: list[list[int]] = field(default_factory=list)
    excess: list[int] = field(default_factory=list)
    over: list[int] = field(default_factory=list)
    under: list[int] = field(default_factory=list)
    checks: int = 0
    random: int = 0x9E3779B97F4A7C15

    def __post_init__(self) -> None:
        self.members = [[] for _ in range(self.num_bins)]
        self.excess = [-self.capacity] * self.num_bins
        for entry, b in enumerate(self.bin_of):
            self.members[b].append(entry)
            self.excess[b] += self.tokens[entry]
        self.over = [b for b in range(self.num_bins) if self.excess[b] > 0]
        self.under = [b for b in range(self.num_bins) if self.excess[b] < 0]

    def solve(self) -> None:
        step = 0
        while self.over and self.checks < self.max_checks:
            side = self.under if step % 2 and self.under else self.over
            b = side[self.draw(len(side))]
            self.checks += 8
            chosen, helps = self.single(b)
            if not helps:
                chosen = self.match_other(b) or chosen or self.match_full(b)
            if chosen is not None:
                self.exchange(b, *chosen)
            step += 1

    def single(self, b: int) -> tuple[Exchange | None, bool]:
        """The exchange of one entry for one that fills b exactly, and whether it helps; else one with a full bin."""
        excess, most, found, full = self.excess[b], 0, None, 0
        for x in self.members[b]:
            wanted = self.tokens[x] - excess
            first = bisect_left(self.tokens, -wanted, key=lambda length: -length)
            self.checks += 4
            for y in range(first, min(first + _EQUAL, len(self.tokens))):
                if self.tokens[y] != wanted:
                    break
                self.checks += 1
                q = self.bin_of[y]
                helped = abs(excess) + abs(self.excess[q]) - abs(self.excess[q] + excess)
                if q != b and helped > most:
                    most, found = helped, ((x,), (y,), q)
                elif q != b and most == 0 and self.excess[q] == 0:
                    full += 1
                    if self.draw(full) == 0:
                        found = (x,), (y,), q
        return found, most > 0

    def match_other(self, b: int) -> Exchange | None:
        side = self.under if self.excess[b] > 0 else self.over
        if not side:
            return None
        q = side[self.draw(len(side))]
        amount = min(abs(self.excess[b]), abs(self.excess[q]))
        return self.match(b, q, amount if self.excess[b] > 0 else -amount)

    def match_full(self, b: int) -> Exchange | None:
        q = self.draw(self.num_bins)
        return self.match(b, q, self.excess[b]) if self.excess[q] == 0 else None

    def match(self, b: int, q: int, difference: int) -> Exchange | None:
        """Subsets of b and q whose tokens differ by this; of those looked at, the ones with the least cost between."""
        mine, theirs = self.subsets(b), self.subsets(q)
        found, least, first = None, 0, 0
        for x in mine:
            wanted = self.total(self.tokens, x) - difference
            while first < len(theirs) and self.total(self.tokens, theirs[first]) > wanted:
                first += 1
            for y in theirs[first : first + _EQUAL]:
                if self.total(self.tokens, y) != wanted:
                    break
                self.checks += 1
                apart = abs(self.total(self.cost, x) - self.total(self.cost, y))
                emptied = (len(x) == len(self.members[b]) and not y) or (len(y) == len(self.members[q]) and not x)
                if not emptied and (found is None or apart < least):
                    found, least = (x, y, q), apart
        return found

    def subsets(self, b: int) -> list[tuple[int, ...]]:
        """The subsets of a bin's last entries, by tokens descending, and the empty one."""
        entries = self.members[b][-_MOST_PAIRED:]
        depth = 3 if len(entries) <= _MOST_TRIPLED else 2
        subsets = [chosen for size in range(1, depth + 1) for chosen in combinations(entries, size)]
        subsets.append(())
        self.checks += len(self.members[b]) + 8 * len(subsets)
        return sorted(subsets, key=lambda one: -self.total(self.tokens, one))

    def total(self, column: list[int], entries: tuple[int, ...]) -> int:
        return sum(column[entry] for entry in entries)

    def exchange(self, b: int, mine: tuple[int, ...], theirs: tuple[int, ...], q: int) -> None:
        for entries, source, goal in ((mine, b, q), (theirs, q, b)):
            for entry in entries:
                self.members[source].remove(entry)
                insort(self.members[goal], entry)
                self.bin_of[entry] = goal
        moved = self.total(self.tokens, mine) - self.total(self.tokens, theirs)
        self.change(b, -moved)
        self.change(q, moved)

    def change(self, b: int, more: int) -> None:
        """Changes the excess of a bin, and takes it from one side to the other: the last one there fills the place."""
        before = self.excess[b]
        self.excess[b] += more
        for side, was, now in (
            (self.over, before > 0, self.excess[b] > 0),
            (self.under, before < 0, self.excess[b] < 0),
        ):
            if was and not now:
                side[side.index(b)] = side[-1]
                side.pop()
            elif now and not was:
                side.append(b)

    def draw(self, below: int) -> int:
        """A number below `below`: xorshift64 (Marsaglia 2003) from a fixed seed."""
        mask = (1 << 64) - 1
        self.random ^= self.random << 13 & mask
        self.random ^= self.random >> 7
        self.random ^= self.random << 17 & mask
        return self.random % below
