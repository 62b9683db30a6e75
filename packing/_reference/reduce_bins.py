"""Plain-Python specification of the search for fewer bins."""

from __future__ import annotations

from typing import Any

POOL = 64
"""Most samples of one refill. A subset of a few dozen nearly always fills a bin as well as one of all samples would."""

LOOSE = 24
"""Most of them from outside the bin; 12, 24 and 48 did alike on the classical instances."""

_SPILLED = 3
_REFILL_STEPS = 128


def reduce_bins_workspace(num_samples: int, num_bins: int, capacity: int) -> int:
    """Bytes of workspace that `reduce_bins` needs; the twin needs none."""
    return 0


class _State:
    def __init__(self, tokens: list[int], capacity: int, most_items: int, bins: list[list[int]]) -> None:
        self.tokens, self.capacity, self.most_items = tokens, capacity, most_items
        self.bins = bins
        self.loose: list[int] = []
        self.listed: list[int] = []
        self.num_open = self.steps = self.stuck = 0
        self.random = 88172645463325252  # the start in Marsaglia's "Xorshift RNGs" (2003)

    def below(self, limit: int) -> int:
        """A number from 0 to limit - 1: the upper half of Marsaglia's xorshift64 (13, 7, 17), scaled."""
        self.random ^= self.random << 13 & 2**64 - 1
        self.random ^= self.random >> 7
        self.random ^= self.random << 17 & 2**64 - 1
        return (self.random >> 32) * limit >> 32

    def shuffle(self, values: list[int]) -> None:
        for i in range(len(values) - 1, 0, -1):
            other = self.below(i + 1)
            values[i], values[other] = values[other], values[i]

    def sum(self, samples: list[int]) -> int:
        return sum(self.tokens[sample] for sample in samples)

    def list_again(self, b: int) -> None:
        """Keeps the bins with room in front: a bin changes places with the first one behind or the last one before."""
        place, is_open = self.listed.index(b), self.sum(self.bins[b]) < self.capacity
        if is_open == (place < self.num_open):
            return
        goal = self.num_open if is_open else self.num_open - 1
        self.num_open += 1 if is_open else -1
        self.listed[place], self.listed[goal] = self.listed[goal], self.listed[place]

    def draw_loose(self, most: int) -> list[int]:
        drawn = []
        for _ in range(min(most, len(self.loose))):
            other = self.below(len(self.loose))
            drawn.append(self.loose[other])
            last = self.loose.pop()
            if other < len(self.loose):
                self.loose[other] = last
        return drawn

    def choose(self, pool: list[int], room: int) -> list[bool]:
        """Shuffles the pool and says which of it form a subset with the largest sum up to `room`.

        Sums are added sample by sample until `room` itself is reached or the pool ends; then, from the last sample
        added back to the first, a sample is chosen only if those before it cannot reach the sum without it.
        """
        self.shuffle(pool)
        rows, total = [1], 0
        for sample in pool:
            total += self.tokens[sample]
            rows.append(rows[-1] | rows[-1] << self.tokens[sample])
            self.steps += min(total, room) // 64 + 1
            if rows[-1] >> room & 1:
                break
        rest = (rows[-1] & (2 << room) - 1).bit_length() - 1
        chosen = [False] * len(pool)
        for i in range(len(rows) - 2, -1, -1):
            chosen[i] = not rows[i] >> rest & 1
            rest -= self.tokens[pool[i]] if chosen[i] else 0
        self.steps += _REFILL_STEPS
        return chosen

    def refill(self, b: int) -> None:
        """Fills a bin anew from its own and from loose samples; it never holds fewer tokens afterwards."""
        members, before = self.bins[b], self.sum(self.bins[b])
        pool = self.draw_loose(LOOSE)
        take = POOL - len(pool)
        skip = self.below(len(members) - take + 1) if len(members) > take else 0
        self.steps += len(members)
        pool += members[skip : skip + take]
        kept = (members[:skip] + members[skip + take :])[::-1]
        chosen = self.choose(pool, self.capacity - self.sum(kept))
        if len(kept) + sum(chosen) > self.most_items:
            chosen = [sample in members for sample in pool]
        self.bins[b] = [sample for sample, taken in zip(pool, chosen, strict=True) if taken][::-1] + kept
        self.loose += [sample for sample, taken in zip(pool, chosen, strict=True) if not taken]
        self.list_again(b)
        self.stuck = 0 if self.sum(self.bins[b]) > before else self.stuck + 1

    def kick(self) -> None:
        """Empties one to three bins and puts loose samples in, in random order, as long as they fit."""
        number = 1 + self.below(3)
        emptied = []
        for _ in range(number):
            emptied.append(self.below(len(self.bins)))
            self.loose += self.bins[emptied[-1]]
            self.bins[emptied[-1]] = []
        self.shuffle(self.loose)
        self.steps += (number + 1) * len(self.loose)
        for b in emptied:
            left = []
            for sample in self.loose:
                members = self.bins[b]
                if self.sum(members) + self.tokens[sample] <= self.capacity and len(members) < self.most_items:
                    members.insert(0, sample)
                else:
                    left.append(sample)
            self.loose = left
            self.list_again(b)
        self.stuck = 0

    def close(self) -> bool:
        """Puts all loose samples into two new bins; False, and only their order has changed, where they do not fit."""
        if self.sum(self.loose) > 2 * self.capacity:
            return False
        pool = self.draw_loose(POOL)
        chosen = self.choose(pool, self.capacity)
        one = [sample for sample, taken in zip(pool, chosen, strict=True) if taken]
        other = [sample for sample, taken in zip(pool, chosen, strict=True) if not taken] + self.loose
        if self.sum(other) > self.capacity or max(len(one), len(other)) > self.most_items:
            self.loose += pool
            return False
        self.bins += [one[::-1], other[::-1]]
        self.loose = []
        return True

    def spill_least_full(self) -> None:
        """The three bins with the fewest tokens (lowest number on ties) become loose; the last bin takes the number."""
        for _ in range(_SPILLED):
            least = min(range(len(self.bins)), key=lambda b: self.sum(self.bins[b]))
            self.loose += self.bins[least]
            self.bins[least] = self.bins[-1]
            self.bins.pop()
        self.listed, self.num_open, self.stuck = list(range(len(self.bins))), 0, 0
        for b in range(len(self.bins)):
            self.list_again(b)

    def save_one_bin(self, max_steps: int) -> bool:
        """Searches for a packing with one bin fewer; False: the bins are not a packing afterwards."""
        self.spill_least_full()
        while not self.close():
            if self.steps >= max_steps or not self.bins:
                return False
            from_open = self.num_open and self.below(2)
            self.refill(self.listed[self.below(self.num_open)] if from_open else self.below(len(self.bins)))
            if self.stuck > 8 * len(self.bins) + 64:
                self.kick()
        return True


def reduce_bins(
    tokens: Any,  # IN int64[N], positive
    capacity: int,
    max_items: int,  # 0: no limit
    fewest: int,  # stop at this many bins
    max_steps: int,
    bin_of: Any,  # IN and OUT int32[N]: a packing into num_bins bins
    num_bins: int,
    workspace: Any,  # OUT uint8[reduce_bins_workspace(N, num_bins, capacity)]
) -> int:
    """Lowers the number of bins of a packing as far as it can, and returns it; some of them may be empty.

    To save a bin, the three least full ones are made loose samples. Then bins are refilled, each with a fullest subset
    of its own and of loose samples (at most POOL together, at most LOOSE of them loose; more samples of the bin than
    that stay in it), until the loose ones fit into two bins. Half the refills go to a bin with room, the others to any:
    a full bin that is refilled changes which samples are loose. Where refills no longer help, up to three bins are
    emptied and filled at random. A step is a word of a row of sums or a sample looked at; the search ends at `fewest`
    bins or when `max_steps` are used up.

    Making two bins of the loose samples instead of one, and leaving unassigned what does not fit, are ideas of
    Buljubasic and Vasquez ("Consistent neighborhood search for one-dimensional bin packing", 2016).
    """
    sizes, most_items = [int(length) for length in tokens], max_items or len(tokens)
    if len(sizes) == 0 or num_bins <= 2:
        return num_bins
    bins = [[i for i in range(len(sizes)) if bin_of[i] == b] for b in range(num_bins)]
    state = _State(sizes, capacity, most_items, bins)
    if min(sizes) < 1 or sum(map(len, bins)) != len(sizes) or any(state.sum(members) > capacity for members in bins):
        raise ValueError("bin_of must be a packing of positive tokens into num_bins bins of at most `capacity`")
    if max(map(len, bins)) > most_items:
        raise ValueError("bin_of must be a packing of at most `max_items` samples a bin")
    found = num_bins
    while found > fewest and found > 2 and state.steps < max_steps:
        state.steps += (len(sizes) + 4 * num_bins) // 4
        if not state.save_one_bin(max_steps):
            break
        found -= 1
        for b, members in enumerate(state.bins):
            for sample in members:
                bin_of[sample] = b
    return found
