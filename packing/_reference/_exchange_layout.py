"""The layout under exchange, and the best exchange between two of its bins; part of `packing._reference.exchange`."""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, NamedTuple

BY_LARGEST, BY_ROUNDS, BY_EVERY = 0, 1, 2
"""What is lowered: the largest rank; the leader of every round of bins; every rank, the largest first."""

MOST_ENTRIES = {1: 8191, 2: 127, 3: 35}
"""Entries of a bin that are looked at, by depth: as many as keep their subsets below 8,192."""

MOST_TOKENS = 1 << 56
"""Of more tokens in a bin a window is only estimated, so that products stay below 2**62."""

WALK, SCAN = 16, 256
"""How many partners of one subset are looked at on each side of half the gap, and in a window of tokens."""


class Subset(NamedTuple):
    cost: int
    tokens: int
    samples: int
    entries: tuple[int, ...]


@dataclass
class Layout:
    cost: list[int]
    tokens: list[int]
    count: list[int]
    forbid: list[int]
    locked: list[int]
    capacity: list[int]
    budgets: list[int]
    footprints: list[list[int]]
    pad_cost: list[int]
    rank_budgets: int
    slots: int
    round_size: int
    max_items: int
    equal_count: bool
    mode: int
    weight: int
    target: int
    depth: int
    num_partners: int
    max_checks: int
    bin_of: list[int]
    members: list[list[int]] = field(default_factory=list)
    value: list[int] = field(default_factory=list)
    ranked: list[int] = field(default_factory=list)
    log: list[tuple[int, int]] = field(default_factory=list)
    mine: int = 0
    theirs: int = 0
    gap: int = 0
    best: tuple[Subset, Subset, int, int] | None = None
    best_key: int = 0
    checks: int = 0
    version: int = 0
    random: int = 0x9E3779B97F4A7C15
    made: dict[str, tuple[tuple[int, int, bool, int], list[Subset]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.per_unit = 1 if self.mode == BY_ROUNDS else self.slots
        self.num_units = len(self.capacity) // self.per_unit
        self.stride = {BY_LARGEST: self.num_units, BY_ROUNDS: self.round_size, BY_EVERY: 1}[self.mode]
        self.members = [[] for _ in self.capacity]
        for entry, b in enumerate(self.bin_of):
            self.members[b].append(entry)
        self.rate = min((cost // tokens for cost, tokens in zip(self.cost, self.tokens, strict=True)), default=0)
        self.value = [self.value_with(unit) for unit in range(self.num_units)]
        self.ranked = sorted(range(self.num_units), key=lambda unit: (-self.value[unit], unit))

    # ----------------------------------------------------------------------------------------------- the layout

    def total(self, column: list[int], b: int) -> int:
        return sum(column[entry] for entry in self.members[b])

    def bins_of_rank(self, b: int) -> list[int]:
        first = b // self.slots * self.slots
        return list(range(first, first + self.slots))

    def samples(self, entries: Any) -> int:
        return sum(self.count[entry] for entry in entries) if self.count else len(entries)

    def load(self, b: int, cost: int = 0, tokens: int = 0) -> int:
        """The load of a bin with this much more in it."""
        load = self.total(self.cost, b) + cost
        if self.pad_cost:
            load += self.pad_cost[max(0, self.capacity[b] - self.total(self.tokens, b) - tokens)]
        return load

    def value_with(self, unit: int, changed: int = -1, cost: int = 0, tokens: int = 0) -> int:
        """The value of a unit, one bin of which has this much more in it."""
        bins = range(unit * self.per_unit, (unit + 1) * self.per_unit)
        loads = [self.load(b, cost, tokens) if b == changed else self.load(b) for b in bins]
        return sum(loads) + self.weight * max(loads)

    def excess(self, unit: int) -> int:
        if self.mode != BY_ROUNDS:
            return self.value[unit]
        leader = self.ranked[self.ranked.index(unit) // self.stride * self.stride]
        return self.value[unit] - self.value[leader]

    def score(self) -> int:
        """What kicks are judged by: the largest value, or the sum of the leaders of the rounds."""
        return sum(self.value[unit] for unit in self.ranked[:: self.stride])

    def leaders(self) -> int:
        """How many units have the largest value."""
        return self.value.count(max(self.value))

    def move(self, entry: int, goal: int) -> None:
        source = self.bin_of[entry]
        self.log.append((entry, source))
        self.checks += 1 + (len(self.members[source]) + len(self.members[goal])) // 16
        self.put(entry, goal)

    def put(self, entry: int, goal: int) -> None:
        self.members[self.bin_of[entry]].remove(entry)
        insort(self.members[goal], entry)
        self.bin_of[entry] = goal

    def revalue(self, *bins: int) -> None:
        for b in bins:
            self.value[b // self.per_unit] = self.value_with(b // self.per_unit)
        self.ranked.sort(key=lambda unit: (-self.value[unit], unit))

    def apply(self, x: Subset, y: Subset, p: int, q: int) -> None:
        for entry in x.entries:
            self.move(entry, q)
        for entry in y.entries:
            self.move(entry, p)
        self.revalue(p, q)
        self.version += 1

    def exchangeable(self, p: int, q: int) -> bool:
        if any(self.total(self.tokens, b) > self.capacity[b] for b in (p, q)):
            return False
        return not self.forbid or self.forbid[self.members[p][0]] == self.forbid[self.members[q][0]]

    def keeps_limits(self, x: Subset, y: Subset, p: int, q: int) -> bool:
        """Whether every limit but the token caps holds after the exchange."""
        if len(self.members[p]) == len(x.entries) and not y.entries:
            return False
        more = x.samples - y.samples
        if self.max_items and (
            (more > 0 and self.samples(self.members[q]) + more > self.max_items)
            or (more < 0 and self.samples(self.members[p]) - more > self.max_items)
        ):
            return False
        if p // self.slots != q // self.slots:
            if self.equal_count and more:
                return False
            if self.locked and any(self.locked[entry] for entry in x.entries + y.entries):
                return False
        for budget, limit in enumerate(self.budgets):
            column = [row[budget] for row in self.footprints]
            more = sum(column[entry] for entry in x.entries) - sum(column[entry] for entry in y.entries)
            if budget < len(self.budgets) - self.rank_budgets:
                mine, theirs = [p], [q]
            elif p // self.slots == q // self.slots:
                continue
            else:
                mine, theirs = self.bins_of_rank(p), self.bins_of_rank(q)
            if more > 0 and sum(self.total(column, b) for b in theirs) + more > limit:
                return False
            if more < 0 and sum(self.total(column, b) for b in mine) - more > limit:
                return False
        return True

    # ----------------------------------------------------------------------------------------- one pair of bins

    def look_at_bins(self, p: int, q: int, depth: int) -> None:
        if depth > 1 and len(self.members[p]) < 2 and len(self.members[q]) < 2:
            return
        my_room = self.capacity[p] - self.total(self.tokens, p)
        their_room = self.capacity[q] - self.total(self.tokens, q)
        by_tokens = self.narrow_window(their_room, q, depth)
        mine = self.subsets("mine", p, depth, by_tokens)
        theirs = self.subsets("theirs", q, depth, by_tokens)
        self.checks += len(mine) + len(theirs)
        match = self.match_tokens if by_tokens else self.match_costs
        match(mine, theirs, p, q, my_room, their_room)

    def narrow_window(self, their_room: int, q: int, depth: int) -> bool:
        """Whether the token caps leave a window of fewer than about 32 subsets of bin q."""
        total = len(self.members[q])
        entries = min(total, MOST_ENTRIES[depth])
        subsets = entries
        if depth >= 2:
            subsets += entries * (entries - 1) // 2
        if depth >= 3:
            subsets += entries * (entries - 1) * (entries - 2) // 6
        span = min(self.total(self.tokens, q), MOST_TOKENS) * depth // max(total, depth)
        return their_room < 32 * (span + 1) // subsets

    def subsets(self, side: str, b: int, depth: int, by_tokens: bool) -> list[Subset]:
        """The subsets of a bin, and the empty one, by tokens or cost descending; as made last where nothing changed."""
        key = b, depth, by_tokens, self.version
        if side in self.made and self.made[side][0] == key:
            return self.made[side][1]
        most, total = MOST_ENTRIES[depth], len(self.members[b])
        taken = [
            entry
            for i, entry in enumerate(self.members[b])
            if total <= most or i * most // total != (i + 1) * most // total
        ]
        if by_tokens:
            taken.sort(key=lambda entry: -self.tokens[entry])
        subsets = [self.subset(chosen) for size in range(1, depth + 1) for chosen in combinations(taken, size)]
        subsets.append(self.subset(()))
        subsets.sort(key=lambda one: -(one.tokens if by_tokens else one.cost))
        self.checks += total + 8 * len(subsets)
        self.made[side] = key, subsets
        return subsets

    def subset(self, entries: tuple[int, ...]) -> Subset:
        cost = sum(self.cost[entry] for entry in entries)
        return Subset(cost, sum(self.tokens[entry] for entry in entries), self.samples(entries), entries)

    def match_costs(
        self, mine: list[Subset], theirs: list[Subset], p: int, q: int, my_room: int, their_room: int
    ) -> None:
        """For each subset of p, those of q around half the gap, the nearest first on both sides."""
        plain = not self.pad_cost and self.weight == 0
        near = 0
        for x in mine:
            if not x.entries:
                continue
            while near < len(theirs) and 2 * (x.cost - theirs[near].cost) < self.gap:
                near += 1
            for y in theirs[max(0, near - WALK) : near][::-1]:
                change = x.cost - y.cost
                if change <= 0 or (plain and self.mine - change >= self.best_key):
                    break
                if self.consider(x, y, p, q, my_room, their_room) and plain:
                    break
            for y in theirs[near : near + WALK]:
                change = x.cost - y.cost
                if change >= self.gap or (plain and self.theirs + change >= self.best_key):
                    break
                if self.consider(x, y, p, q, my_room, their_room) and plain:
                    break

    def match_tokens(
        self, mine: list[Subset], theirs: list[Subset], p: int, q: int, my_room: int, their_room: int
    ) -> None:
        """For each subset of p, all those of q that the token caps allow in exchange, the shortest first."""
        last = 0
        rate = 0 if self.pad_cost or self.weight else self.rate
        for x in mine:
            if not x.entries:
                continue
            # A subset costs at least `rate` per token, so that none of many tokens can be much cheaper than this one.
            if x.tokens > their_room and x.cost - rate * (x.tokens - their_room) <= self.gained():
                continue
            while last < len(theirs) and theirs[last].tokens >= x.tokens - their_room:
                last += 1
            for y in theirs[max(0, last - SCAN) : last][::-1]:
                if y.tokens > x.tokens + my_room:
                    break
                self.checks += 1
                if 0 < x.cost - y.cost < self.gap:
                    self.consider(x, y, p, q, my_room, their_room)
                if x.cost - rate * y.tokens <= self.gained():
                    break

    def gained(self) -> int:
        """By how much the best exchange so far lowers the source."""
        return self.mine - self.best_key

    def consider(self, x: Subset, y: Subset, p: int, q: int, my_room: int, their_room: int) -> bool:
        """Keeps the exchange if it is the best so far; whether it was kept."""
        change, longer = x.cost - y.cost, x.tokens - y.tokens
        self.checks += 4
        if longer > their_room or -longer > my_room:
            return False
        mine = self.mine + self.changed_value(p, -change, -longer)
        theirs = self.theirs + self.changed_value(q, change, longer)
        if max(mine, theirs) >= self.best_key or not self.keeps_limits(x, y, p, q):
            return False
        self.best_key = max(mine, theirs)
        self.best = x, y, p, q
        return True

    def changed_value(self, b: int, cost: int, tokens: int) -> int:
        """By how much the value of a bin's unit changes with the bin's cost and tokens."""
        unit = b // self.per_unit
        return self.value_with(unit, b, cost, tokens) - self.value[unit]
