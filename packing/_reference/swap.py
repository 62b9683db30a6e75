"""Plain-Python specification of the local search: swaps that lower the largest load, moves that repair overflow."""

from __future__ import annotations

from typing import Any

NUM_PARTNERS = 64
"""With how many bins an overflowing one may exchange samples: enough for a choice, few enough for thousands of bins."""


def lower_largest_workspace(num_samples: int, num_bins: int) -> int:
    """Bytes of workspace that `lower_largest` needs; the twin needs none."""
    return 0


def lower_largest(
    cost: Any,  # IN int64[N], descending
    tokens: Any,  # IN int64[N]
    capacity: Any,  # IN int64[K]
    offsets: Any,  # IN int32[K+1]
    items: Any,  # IN and OUT int32[N]: the samples of each bin, ascending
    target: int,
    max_swaps: int,
    workspace: Any,  # OUT uint8[lower_largest_workspace(N, K)]
) -> int:
    """Swaps samples of the largest bin against cheaper ones of others and returns how many swaps were made.

    The largest bin (lowest index on ties) swaps the pair (x, y) with the smallest (larger of the two new loads,
    other bin, x, y) among those that lower its load, keep the other below it and fit. It ends when the largest load is
    at most `target`, nothing helps, or `max_swaps` are made. Every bin keeps its number of samples.
    """
    num_bins = len(offsets) - 1
    bins = [[int(i) for i in items[offsets[b] : offsets[b + 1]]] for b in range(num_bins)]
    load = [sum(int(cost[i]) for i in members) for members in bins]
    used = [sum(int(tokens[i]) for i in members) for members in bins]
    swaps = 0
    while swaps < max_swaps:
        a = load.index(max(load)) if load else 0
        if not load or load[a] <= target:
            break
        best = None
        for b in range(num_bins):
            for x in bins[a] if b != a else ():
                for y in bins[b]:
                    change = int(cost[x]) - int(cost[y])
                    longer = int(tokens[x]) - int(tokens[y])
                    if not 0 < change < load[a] - load[b]:
                        continue
                    if (longer > 0 and used[b] + longer > int(capacity[b])) or (
                        longer < 0 and used[a] - longer > int(capacity[a])
                    ):
                        continue
                    key = (max(load[a] - change, load[b] + change), b, x, y)
                    if best is None or key < best:
                        best = key
        if best is None:
            break
        _, b, x, y = best
        for here, out, into in ((a, x, y), (b, y, x)):
            bins[here] = sorted([i for i in bins[here] if i != out] + [into])
            load[here] += int(cost[into]) - int(cost[out])
            used[here] += int(tokens[into]) - int(tokens[out])
        swaps += 1
    for b in range(num_bins):
        items[offsets[b] : offsets[b + 1]] = bins[b]
    return swaps


def repair_workspace(num_samples: int, num_bins: int) -> int:
    """Bytes of workspace that `repair` needs; the twin needs none."""
    return 0


def repair(
    cost: Any,  # IN int64[N]
    tokens: Any,  # IN int64[N]
    capacity: Any,  # IN int64[K]
    bins_per_rank: int,  # loads are those of ranks, bins being rank-major; 1: of bins
    bin_of: Any,  # IN and OUT int32[N]
    max_moves: int,
    swaps_only: bool,  # every bin keeps its number of samples
    workspace: Any,  # OUT uint8[repair_workspace(N, K)]
) -> bool:
    """Moves and swaps samples out of bins over their capacity; True where none is left over it.

    The bin with the largest overflow (lowest index on ties) makes the move or swap with the smallest (its overflow
    afterwards, larger of the two new loads, x, other bin, y; y = -1 for a move) among those that lower its overflow, do
    not push the other bin over its capacity and leave no bin empty. Other bins are the NUM_PARTNERS with the most room
    (lowest index on ties). It fails when nothing helps or after `max_moves`.
    """
    num_bins, num_samples = len(capacity), len(cost)
    used, load, count = [0] * num_bins, [0] * num_bins, [0] * num_bins
    for i in range(num_samples):
        used[bin_of[i]] += int(tokens[i])
        load[bin_of[i] // bins_per_rank] += int(cost[i])
        count[bin_of[i]] += 1
    moves = 0
    while True:
        over = [used[b] - int(capacity[b]) for b in range(num_bins)]
        a = over.index(max(over)) if over else 0
        if not over or over[a] <= 0:
            return True
        best = None
        others = [b for b in range(num_bins) if b != a]
        roomy = set(sorted(others, key=lambda b: (used[b] - int(capacity[b]), b))[:NUM_PARTNERS])
        for x in [i for i in range(num_samples) if bin_of[i] == a]:
            partners = [(int(bin_of[y]), y) for y in range(num_samples) if bin_of[y] in roomy]
            if count[a] > 1 and not swaps_only:
                partners += [(b, -1) for b in sorted(roomy)]
            for b, y in partners:
                shorter = int(tokens[x]) - (int(tokens[y]) if y >= 0 else 0)
                if shorter <= 0 or used[b] + shorter > int(capacity[b]):
                    continue
                here, there = a // bins_per_rank, b // bins_per_rank
                change = int(cost[x]) - (int(cost[y]) if y >= 0 else 0) if here != there else 0
                key = (max(0, over[a] - shorter), max(load[here] - change, load[there] + change), x, b, y)
                if best is None or key < best:
                    best = key
        if best is None or moves == max_moves:
            return False
        moves += 1
        _after, _larger, x, b, y = best
        for sample, source, goal in ((x, a, b), (y, b, a)):
            if sample < 0:
                continue
            bin_of[sample] = goal
            used[source] -= int(tokens[sample])
            used[goal] += int(tokens[sample])
            load[source // bins_per_rank] -= int(cost[sample])
            load[goal // bins_per_rank] += int(cost[sample])
            count[source] -= 1
            count[goal] += 1
