"""Plain-Python specification of pair repair: two bins' samples are split anew so that the round objective falls."""

from __future__ import annotations

from typing import Any

from packing._reference.reach import suffix_sums

MAKESPAN, BALANCE = 0, 1
"""Round objectives: the sum of the round leaders (Phi), or the squared variation summed over consecutive rounds."""


def _phi(loads: list[int], group_size: int) -> int:
    return sum(sorted(loads, reverse=True)[::group_size])


def _squared_variation(loads: list[int]) -> int:
    """The squared coefficient of variation, floored to a multiple of 2**-60."""
    total = sum(loads)
    return ((len(loads) * sum(load * load for load in loads) - total * total) << 60) // (total * total) if total else 0


def round_objective(
    loads: Any,  # IN int64[K]
    group_size: int,
    objective: int,
) -> int:
    """The round objective of bin loads that include the pad cost; lower is better."""
    values = [int(load) for load in loads]
    if objective == MAKESPAN:
        return _phi(values, group_size)
    return sum(_squared_variation(values[b : b + group_size]) for b in range(0, len(values), group_size))


def repair_pairs_workspace(num_samples: int, num_bins: int, table_entries: int, max_pairs: int) -> int:
    """Bytes of workspace that `repair_pairs` needs; the twin needs none."""
    return 0


def repair_pairs(
    tokens: Any,  # IN int64[N]
    cost: Any,  # IN int64[N]
    order: Any,  # IN int32[N]: cost descending, tokens descending, index
    capacity: int,
    pad_cost: Any,  # IN int64[capacity + 1], or int64[0]: none
    group_size: int,
    objective: int,
    max_pairs: int,
    offsets: Any,  # IN and OUT int32[K + 1]
    items: Any,  # IN and OUT int32[N]
    workspace: Any,  # OUT uint8[repair_pairs_workspace(...)]
) -> int:
    """Splits pairs of bins anew until `max_pairs` were tried or nothing is left to try; returns how many changed.

    Every bin must keep the capacity. Pairs: each leader (makespan: elements 0, g, 2g, ... of the cost order, load
    descending; balance: the costliest of each round) with the 4 costliest bins, the 4 cheapest and the 4 after it,
    cyclically. Makespan tries the largest potential gain first, balance the smallest pair. A failed pair is not tried
    again until one of its bins has changed. After a success everything is computed anew.
    """
    place = {int(sample): position for position, sample in enumerate(order)}
    bins = [[int(i) for i in items[offsets[b] : offsets[b + 1]]] for b in range(len(offsets) - 1)]
    split = _Split(tokens, cost, int(capacity), [int(c) for c in pad_cost], int(group_size), int(objective))
    loads = [split.load(members) for members in bins]
    changed = [0] * len(bins)  # how often each bin has changed
    tried: dict[tuple[int, int], tuple[int, int]] = {}
    attempts = successes = 0
    while attempts < max_pairs:
        success = False
        for pair in _candidates(loads, bins, cost, group_size, objective):
            a, b = pair
            if attempts == max_pairs or tried.get(pair) == (changed[a], changed[b]):
                continue
            attempts += 1
            tried[pair] = changed[a], changed[b]
            samples = sorted(bins[a] + bins[b], key=place.__getitem__)
            sides = split.attempt(loads, pair, samples)
            if sides is not None:
                bins[a], bins[b] = sides
                loads[a], loads[b] = split.load(sides[0]), split.load(sides[1])
                changed[a] += 1
                changed[b] += 1
                successes += 1
                success = True
                break
        if not success:
            break
    at = 0
    for b, members in enumerate(bins):
        items[at : at + len(members)] = members
        at += len(members)
        offsets[b + 1] = at
    return successes


def _candidates(
    loads: list[int], bins: list[list[int]], cost: Any, group_size: int, objective: int
) -> list[tuple[int, int]]:
    """The pairs to try, in the order in which they are tried."""
    num_bins = len(loads)
    by_load = sorted(range(num_bins), key=lambda b: (-loads[b], b))
    where = {b: position for position, b in enumerate(by_load)}
    if objective == MAKESPAN:
        leaders = by_load[::group_size]
    else:
        blocks = (range(b, b + group_size) for b in range(0, num_bins, group_size))
        leaders = [max(block, key=lambda b: (loads[b], -b)) for block in blocks]
    pairs = set()
    for leader in leaders:
        following = [by_load[(where[leader] + step) % num_bins] for step in range(1, 5)]
        for partner in [*by_load[:4], *by_load[-4:], *following]:
            if partner != leader:
                pairs.add((min(leader, partner), max(leader, partner)))
    if objective == BALANCE:
        return sorted(pairs)
    return sorted(pairs, key=lambda pair: (-_twice_gain(loads, bins, cost, group_size, pair), pair))


def _twice_gain(loads: list[int], bins: list[list[int]], cost: Any, group_size: int, pair: tuple[int, int]) -> int:
    """Twice the potential gain (the even split may be half an integer)."""
    others = [load for b, load in enumerate(loads) if b not in pair]
    total = sum(int(cost[i]) for b in pair for i in bins[b])
    remainders = {0, -1 % group_size, -2 % group_size}
    boundary = [v for m, v in enumerate(sorted(others, reverse=True)) if m % group_size in remainders and v <= total]
    doubled = [2 * load for load in others]
    splits = [0, total, *(2 * v for v in boundary)]  # all doubled: nothing, half, the boundary values
    best = min(_phi([*doubled, x, 2 * total - x], group_size) for x in splits)
    return 2 * _phi(loads, group_size) - best


class _Split:
    """Splits the samples of two bins anew."""

    def __init__(
        self, tokens: Any, cost: Any, capacity: int, pad_cost: list[int], group_size: int, objective: int
    ) -> None:
        self.tokens, self.cost, self.capacity = tokens, cost, capacity
        self.pad_cost, self.group_size, self.objective = pad_cost, group_size, objective

    def padded(self, load: int, used: int) -> int:
        """A load with the pad cost of what is unused."""
        return load + self.pad_cost[max(0, self.capacity - used)] if self.pad_cost else load

    def load(self, members: list[int]) -> int:
        """The load of a bin with these samples."""
        return self.padded(sum(int(self.cost[i]) for i in members), sum(int(self.tokens[i]) for i in members))

    def attempt(
        self, loads: list[int], pair: tuple[int, int], samples: list[int]
    ) -> tuple[list[int], list[int]] | None:
        """The two sides if every sample found one and the round objective falls strictly, else None."""
        rows = suffix_sums([self.tokens[i] for i in samples], self.capacity)
        rest = sum(int(self.tokens[i]) for i in samples)
        sides: tuple[list[int], list[int]] = ([], [])
        used, placed = [0, 0], [0, 0]
        for position, sample in enumerate(samples):
            length, more = int(self.tokens[sample]), int(self.cost[sample])
            rest -= length
            best = None
            for side in (0, 1):
                after = [used[s] + (length if s == side else 0) for s in (0, 1)]
                # A sum `low` <= s <= `high` of the remaining samples on side 0 completes both sides.
                low = max(0, after[1] + rest - self.capacity, 1 if after[0] == 0 else 0)
                high = min(self.capacity - after[0], rest if after[1] else rest - 1)
                if high < low or not (rows[position + 1] >> low) & ((2 << (high - low)) - 1):
                    continue
                key = (self._score(loads, pair, placed, used, side, more, length), self.capacity - after[side], side)
                if best is None or key < best:
                    best = key
            if best is None:
                return None
            side = best[2]
            sides[side].append(sample)
            used[side] += length
            placed[side] += more
        before, now = list(loads), list(loads)
        now[pair[0]], now[pair[1]] = (self.padded(placed[s], used[s]) for s in (0, 1))
        falls = round_objective(now, self.group_size, self.objective) < round_objective(
            before, self.group_size, self.objective
        )
        return sides if falls else None

    def _score(
        self, loads: list[int], pair: tuple[int, int], placed: list[int], used: list[int], side: int, more: int,
        length: int,
    ) -> int:  # fmt: skip
        if self.objective == BALANCE and not self.pad_cost:
            return placed[side]
        now = list(loads)
        for s in (0, 1):
            here = s == side
            now[pair[s]] = self.padded(placed[s] + (more if here else 0), used[s] + (length if here else 0))
        return round_objective(now, self.group_size, self.objective)
