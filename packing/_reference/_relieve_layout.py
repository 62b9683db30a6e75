"""The partial layout under repair, and what has to leave one of its bins; part of `packing._reference.relieve`."""

from __future__ import annotations

from dataclasses import dataclass, field

_MOST_FOR_PAIRS, _MOST_FOR_TRIPLES, _ENOUGH = 64, 24, 2048
"""Entries of a bin up to which pairs, and threes, are looked at; sets that are looked at before the best one is
taken."""


@dataclass
class Layout:
    weight: list[int]
    amount: list[list[int]]
    forbid: list[int]
    group: list[int]
    limit: list[list[int]]
    slack: list[int]
    slots: int
    rank_room: list[int]
    counts_ranks: bool
    oversized_single: bool
    members: list[list[int]] = field(default_factory=list)
    bin_of: list[int] = field(default_factory=list)
    penalty: list[int] = field(default_factory=list)
    left_out: list[int] = field(default_factory=list)
    checks: int = 0
    turn: int = 0
    enough: int = _ENOUGH
    random: int = 0x9E3779B97F4A7C15

    def start(self, bin_of: list[int]) -> None:
        """Keeps of the layout what fits, entry by entry."""
        self.members = [[] for _ in self.limit]
        self.bin_of = [-1] * len(bin_of)
        self.penalty = list(self.weight)
        for entry, b in enumerate(bin_of):
            if b >= 0 and self.may_join(entry, b):
                self.put(entry, b)
        self.left_out = [entry for entry, b in enumerate(self.bin_of) if b < 0][::-1]

    def violations(self) -> int:
        return len(self.left_out) + sum(not members for members in self.members)

    def draw(self, below: int) -> int:
        """A number below `below`: xorshift64 (Marsaglia 2003) from a fixed seed."""
        mask = (1 << 64) - 1
        self.random ^= self.random << 13 & mask
        self.random ^= self.random >> 7
        self.random ^= self.random << 17 & mask
        return self.random % below

    def bins_of(self, rank: int) -> range:
        return range(rank * self.slots, (rank + 1) * self.slots)

    def put(self, entry: int, b: int) -> None:
        self.members[b].insert(0, entry)
        self.slack[b] -= self.weight[entry]
        self.rank_room[b // self.slots] -= self.amount[entry][1]
        self.bin_of[entry] = b

    def take_out(self, entry: int) -> None:
        b = self.bin_of[entry]
        self.members[b].remove(entry)
        self.slack[b] += self.weight[entry]
        self.rank_room[b // self.slots] += self.amount[entry][1]
        self.bin_of[entry] = -1

    def eject(self, entry: int) -> None:
        self.take_out(entry)
        self.left_out.append(entry)

    def eject_group(self, entry: int) -> None:
        """Takes out all others of the entry's group."""
        for other in self.placed_of_group(entry):
            self.eject(other)

    def placed_of_group(self, entry: int) -> list[int]:
        """The others of the entry's group that are placed."""
        group = self.group[entry]
        if group < 0:
            return []
        return [i for i, g in enumerate(self.group) if g == group and i != entry and self.bin_of[i] >= 0]

    def is_bound(self, entry: int) -> bool:
        """Whether others of its group are placed, the entry itself being placed as well."""
        return bool(self.placed_of_group(entry))

    def home(self, entry: int) -> int:
        """The rank where others of its group are, or -1 where it is free."""
        others = self.placed_of_group(entry)
        return self.bin_of[others[0]] // self.slots if others else -1

    def room(self, b: int) -> list[int]:
        """What is left of every limit of a bin."""
        used = [sum(column) for column in zip(*(self.amount[entry] for entry in self.members[b]), strict=True)]
        return [most - here for most, here in zip(self.limit[b], used or [0] * len(self.limit[b]), strict=True)]

    def exempt(self, entry: int, alone: bool) -> bool:
        """Whether the entry may be over the capacity: a sample alone in its bin, where such samples are allowed."""
        return alone and self.oversized_single and self.amount[entry][1] == 1

    def within(self, entry: int, other: int | None, b: int, alone: bool) -> bool:
        """Whether an entry fits into what a bin has left once `other` is out of it; not asked of kinds."""
        freed = [0] * len(self.limit[b]) if other is None else self.amount[other]
        fits = [a - f <= r for a, f, r in zip(self.amount[entry], freed, self.room(b), strict=True)]
        return all(fits[1:] if self.exempt(entry, alone) else fits)

    def same_kind(self, entry: int, b: int) -> bool:
        return not self.members[b] or self.forbid[self.members[b][0]] == self.forbid[entry]

    def takes(self, entry: int, b: int) -> bool:
        """Whether a bin takes an entry as it is, on whatever rank its group is."""
        if not self.same_kind(entry, b):
            return False
        if self.counts_ranks and self.amount[entry][1] > self.rank_room[b // self.slots]:
            return False
        return self.within(entry, None, b, not self.members[b])

    def may_join(self, entry: int, b: int) -> bool:
        return self.home(entry) in (-1, b // self.slots) and self.takes(entry, b)

    def takes_alone(self, entry: int, b: int) -> bool:
        """Whether a bin would take an entry if it were empty, on whatever rank its group is."""
        fits = [a <= most for a, most in zip(self.amount[entry], self.limit[b], strict=True)]
        freed = sum(self.amount[other][1] for other in self.members[b])
        room = self.rank_room[b // self.slots] + freed
        return all(fits[1:] if self.exempt(entry, True) else fits) and (
            not self.counts_ranks or self.amount[entry][1] <= room
        )

    def needs(self, entry: int, b: int) -> dict[int, int]:
        """By column, how much more room the entry needs than the bin has."""
        more = [a - r for a, r in zip(self.amount[entry], self.room(b), strict=True)]
        if self.counts_ranks:
            more[1] = max(more[1], self.amount[entry][1] - self.rank_room[b // self.slots])
        return {column: need for column, need in enumerate(more) if need > 0}

    def covers(self, entries: tuple[int, ...], needs: dict[int, int]) -> bool:
        return all(sum(self.amount[e][column] for e in entries) >= need for column, need in needs.items())

    def cheapest(self, entry: int, b: int, extra: int, limit: int) -> tuple[int, int, list[int]] | None:
        """(cost, bin, what has to leave it) if that costs less than `limit`, `extra` included, or None."""
        members = self.members[b]
        self.checks += 1 + len(members) // 4
        if not self.same_kind(entry, b):
            cost = extra + sum(self.penalty[one] for one in members)
            return (cost, b, list(members)) if cost < limit and self.takes_alone(entry, b) else None
        needs = self.needs(entry, b)
        if not needs:
            return extra, b, []
        found = self.smallest_set(members, needs, extra, limit)
        if found is not None:
            return found[0], b, list(found[1])
        cost, leaving = self.many(entry, b, needs, extra)
        return (cost, b, leaving) if cost < limit else None

    def smallest_set(
        self, members: list[int], needs: dict[int, int], extra: int, limit: int
    ) -> tuple[int, tuple[int, ...]] | None:
        """The cheapest set of up to three that is enough; pairs and threes of cheap ones only."""
        best: tuple[int, tuple[int, ...]] | None = None
        for one in members:
            self.checks += 1
            cost = extra + self.penalty[one]
            if cost < limit and self.covers((one,), needs):
                best, limit = (cost, (one,)), cost
        if len(members) > _MOST_FOR_PAIRS:
            return best
        for i, one in enumerate(members):
            if extra + self.penalty[one] >= limit:
                continue
            for j, two in enumerate(members[:i]):
                self.checks += 1
                cost = extra + self.penalty[one] + self.penalty[two]
                if cost >= limit:
                    continue
                if self.covers((one, two), needs):
                    best, limit = (cost, (one, two)), cost
                elif len(members) <= _MOST_FOR_TRIPLES:
                    for three in members[:j]:
                        self.checks += 1
                        if cost + self.penalty[three] < limit and self.covers((one, two, three), needs):
                            best, limit = (cost + self.penalty[three], (one, two, three)), cost + self.penalty[three]
        return best

    def many(self, entry: int, b: int, needs: dict[int, int], extra: int) -> tuple[int, list[int]]:
        """One after the other until there is room, then back into the bin whoever need not leave."""
        leaving: list[int] = []
        for one in self.members[b]:
            leaving.append(one)
            if self.covers(tuple(leaving), needs):
                break
        self.checks += len(leaving)
        if not self.covers(tuple(leaving), needs):
            cost = extra + sum(self.penalty[one] for one in leaving)
            return (cost, leaving) if self.takes_alone(entry, b) else (1 << 62, [])
        i = 0
        while i < len(leaving):
            rest = (*leaving[:i], *leaving[i + 1 :])
            if self.covers(rest, needs):
                leaving[i] = leaving[-1]
                leaving.pop()
            else:
                i += 1
        return extra + sum(self.penalty[one] for one in leaving), leaving
