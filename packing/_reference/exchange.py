"""Plain-Python specification of the local search by moves and exchanges on a whole layout."""

from __future__ import annotations

from typing import Any

from packing._reference._exchange_layout import BY_EVERY, BY_LARGEST, BY_ROUNDS, Layout

NOTHING_LEFT, NOTHING_HELPS, NO_CHECKS_LEFT = 0, 1, 2
"""Why it ended: the target is reached; no exchange helps and the kicks are used up; the checks are used up."""

_FAR = 1 << 61


def exchange_workspace(num_entries: int, num_bins: int, num_budgets: int) -> int:
    """Bytes of workspace that `exchange` needs; the twin needs none."""
    return 0


def exchange(
    cost: Any,  # IN int64[E], descending
    tokens: Any,  # IN int64[E]
    count: Any,  # IN int32[E]: samples that one entry stands for, or int32[0]: one each
    footprints: Any,  # IN int64[E, B]
    forbid: Any,  # IN int64[E], or int64[0]: none
    locked: Any,  # IN uint8[E]: 1: the entry stays on its rank; or uint8[0]
    capacity: Any,  # IN int64[K]
    budgets: Any,  # IN int64[B]
    rank_budgets: int,  # how many of them, the last ones, are caps of a whole rank
    pad_cost: Any,  # IN int64[max capacity + 1], or int64[0]: none
    ranks: int,
    bins_per_rank: int,
    round_size: int,
    max_items: int,  # 0: no limit
    equal_count: bool,  # every rank keeps its number of samples
    mode: int,  # BY_LARGEST, BY_ROUNDS or BY_EVERY
    weight: int,  # of the largest bin in the value of a rank
    target: int,  # BY_LARGEST: nothing is left to do at this largest value
    depth: int,  # most entries of one side of an exchange: 1 to 3
    num_partners: int,
    max_kicks: int,
    max_checks: int,
    bin_of: Any,  # IN and OUT int32[E]: a layout that keeps every limit
    workspace: Any,  # OUT uint8[exchange_workspace(E, K, B)]
) -> tuple[int, int]:
    """Improves the layout and returns (why it ended, the checks that were made).

    A unit is a rank, or under BY_ROUNDS a bin; its value is the sum of its bins' loads (pad cost included) plus
    `weight` times the largest. Sources are the largest unit, the leader of every round, or every unit in turn. A source
    exchanges up to `depth` entries of one of its bins for up to `depth`, or none, of a partner's bin, so that the
    larger of the two excesses falls; excess is the value, under BY_ROUNDS minus the leader of the round in which the
    unit now is. When nothing helps, kicks swap a few entries at random; what then ends worse is taken back.
    """
    search = _Search(
        _integers(cost), _integers(tokens), _integers(count), _integers(forbid), _integers(locked), _integers(capacity),
        _integers(budgets), [_integers(row) for row in footprints], _integers(pad_cost), rank_budgets,
        bins_per_rank, round_size, max_items, equal_count, mode, 0 if mode == BY_ROUNDS else weight, target, depth,
        num_partners, max_checks, _integers(bin_of),
    )  # fmt: skip
    if len(search.cost) < len(search.capacity):
        return NOTHING_HELPS, 0
    status = search.descend(undoable=False)
    if status == NOTHING_HELPS and mode != BY_EVERY and search.num_units > 1:
        status = search.kick_and_descend(max_kicks)
    bin_of[:] = search.bin_of
    return status, search.checks


def _integers(column: Any) -> list[int]:
    return [int(value) for value in column]


class _Search(Layout):
    """Which unit exchanges with which, and what happens when nothing helps."""

    patient = True
    aim = _FAR
    source = -1
    window = 0

    # -------------------------------------------------------------------------------------------------- descent

    def descend(self, *, undoable: bool) -> int:
        """Improves the sources; leaders of rounds take turns, others go on while they can. Which failed rests until all
        do."""
        turn = since = 0
        sources = self.num_units // self.stride
        rests: set[int] = set()
        while self.checks < self.max_checks:
            if self.mode == BY_LARGEST and self.value[self.ranked[0]] <= self.target:
                return NOTHING_LEFT
            if len(self.log) + 8 > 4 * len(self.cost) + 1024:
                if undoable:
                    return NOTHING_HELPS
                self.log.clear()
            if not self.improve(turn * self.stride):
                since = since if rests else self.version
                rests.add(turn)
            elif self.mode == BY_ROUNDS:
                turn = (turn + 1) % sources
            if len(rests) == sources:
                if self.version == since:
                    return NOTHING_HELPS
                rests.clear()
                turn = 0
            while turn in rests:
                turn = (turn + 1) % sources
        return NO_CHECKS_LEFT

    def improve(self, place: int) -> bool:
        """Lowers the unit at this place: a window of partners in every depth, then the next, from the last helpful."""
        source = self.ranked[place]
        windows = -(-self.num_units // self.num_partners)
        if source != self.source:
            self.source, self.window = source, 0
        self.mine = self.best_key = self.excess(source)
        self.best = None
        for window in range(windows if self.patient else 1):
            here = (self.window + window) % windows
            if self.look_at_window(source, here * self.num_partners):
                if self.best is None:
                    break
                self.window = here
                self.apply(*self.best)
                return True
        return False

    def look_at_window(self, source: int, first: int) -> bool:
        """Looks at some partners at growing depth; True where an exchange was found or the checks are used up."""
        for depth in range(1, self.depth + 1):
            tried = 0
            for position in range(first, min(first + self.num_partners, self.num_units)):
                partner = self.partner_at(position)
                self.theirs = self.excess(partner)
                self.gap = self.mine - self.theirs
                # No exchange brings the larger of the two below their mean.
                if partner == source or self.gap <= 1 or self.mine - self.gap // 2 >= self.best_key:
                    continue
                if self.checks >= self.max_checks:
                    return True
                tried += 1
                if self.look_at_units(source, partner, depth):
                    if tried == 1 and self.aim < _FAR:
                        self.aim *= 2
                    return True
        if self.best is None:
            return False
        self.aim = self.gained() // 2 + 1
        return True

    def partner_at(self, position: int) -> int:
        """Units from the lowest up; under BY_ROUNDS the lowest of every round first, then the second lowest."""
        if self.mode != BY_ROUNDS:
            return self.ranked[self.num_units - 1 - position]
        lap, turn = divmod(position, self.num_units // self.stride)
        return self.ranked[turn * self.stride + self.stride - 1 - lap]

    def look_at_units(self, source: int, partner: int, depth: int) -> bool:
        """Looks at every pair of bins of two units; True where what was found is taken at once."""
        for p in range(source * self.per_unit, (source + 1) * self.per_unit):
            for q in range(partner * self.per_unit, (partner + 1) * self.per_unit):
                self.checks += 1
                if not self.exchangeable(p, q):
                    continue
                self.look_at_bins(p, q, depth)
                gained = self.gained()
                if gained > 0 and (gained >= self.gap // 8 * 3 or gained >= self.aim):
                    return True
                if self.mode == BY_LARGEST and self.best_key <= self.target:
                    return True
        return False

    # ---------------------------------------------------------------------------------------------------- kicks

    def kick_and_descend(self, max_kicks: int) -> int:
        """Disturbs the layout a little and improves it again; what ends worse than before is taken back."""
        best, status = (self.score(), self.leaders()), NOTHING_HELPS
        self.patient = False
        for _ in range(max_kicks):
            if self.checks >= self.max_checks:
                return NO_CHECKS_LEFT
            self.log.clear()
            self.checks += 256
            self.kick()
            status = self.descend(undoable=True)
            score = self.score(), self.leaders()
            if score > best:
                self.take_back()
            best = min(best, score)
            if status == NOTHING_LEFT:
                return status
        return status

    def draw(self, below: int) -> int:
        """A number below `below`: xorshift64 (Marsaglia 2003) from a fixed seed."""
        mask = (1 << 64) - 1
        self.random ^= self.random << 13 & mask
        self.random ^= self.random >> 7
        self.random ^= self.random << 17 & mask
        return self.random % below

    def kick(self) -> None:
        """Swaps one to three pairs at random, the first out of a leader, each next one out of the last partner."""
        swaps = 1 + self.draw(3)
        if self.mode == BY_LARGEST:
            source = self.ranked[0]
        else:
            source = self.ranked[self.draw(self.num_units // self.stride) * self.stride]
        if self.num_units == 1:
            return
        for _ in range(swaps):
            partner = self.draw(self.num_units - 1)
            partner += partner >= source
            self.swap_at_random(source, partner)
            source = partner

    def swap_at_random(self, source: int, partner: int) -> None:
        """Swaps an entry of one unit with one of the other, or with none, where every limit allows it."""
        p = source * self.per_unit + self.draw(self.per_unit)
        q = partner * self.per_unit + self.draw(self.per_unit)
        self.checks += 16 + (len(self.members[p]) + len(self.members[q])) // 16
        if not self.exchangeable(p, q):
            return
        x = self.subset((self.members[p][self.draw(len(self.members[p]))],))
        index = self.draw(len(self.members[q]) + 1)
        y = self.subset(tuple(self.members[q][index : index + 1]))
        longer = x.tokens - y.tokens
        if self.total(self.tokens, q) + longer > self.capacity[q]:
            return
        if self.total(self.tokens, p) - longer > self.capacity[p]:
            return
        if self.keeps_limits(x, y, p, q):
            self.apply(x, y, p, q)

    def take_back(self) -> None:
        for entry, source in reversed(self.log):
            here = self.bin_of[entry]
            self.put(entry, source)
            self.revalue(here, source)
        self.version += 1
