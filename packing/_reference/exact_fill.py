"""Plain-Python specification of filling one bin after another as full as a bounded search can.

The heuristic is MBS' of Gupta and Ho ("A new heuristic algorithm for the one-dimensional bin-packing problem", 1999) as
Fleszar and Hindi changed it ("New heuristics for one-dimensional bin-packing", 2002): the longest sample left is fixed.
"""

from __future__ import annotations

from typing import Any

STEPS_PER_BIN = 2048
"""Samples tried for one bin beyond the first descent: most bins take a few dozen, the rest rarely gain from more."""


def fill_workspace(num_samples: int, num_classes: int) -> int:
    """Bytes of workspace that `fill` needs; the twin needs none."""
    return 0


def fill(
    lengths: Any,  # IN int64[D], positive, descending, all different
    counts: Any,  # IN int32[D], positive, N together
    capacity: int,  # at least lengths[0]
    max_items: int,  # 0: no limit
    max_steps: int,
    offsets: Any,  # OUT int32[N+1], the first num_bins + 1 of them
    classes: Any,  # OUT int32[N]: the class of each sample of each bin, ascending
    workspace: Any,  # OUT uint8[fill_workspace(N, D)]
) -> int:
    """Fills bins one after another and returns their number.

    Each bin takes the longest sample left, and with it the samples that leave the least room. They are searched depth
    first, longest first, so that of equally full bins the one with the longest samples comes first and is kept. A
    search ends when the bin is full (or takes all that is left), when every way was tried, or at the end of a descent
    after STEPS_PER_BIN samples for this bin or `max_steps` for all bins have been put in on trial.
    """
    left = [int(count) for count in counts]
    sizes = [int(length) for length in lengths]
    if any(not 1 <= size <= capacity for size in sizes) or sizes != sorted(set(sizes), reverse=True) or 0 in left:
        raise ValueError("lengths must be positive, descending and at most the capacity, and counts positive")
    if sum(size * count for size, count in zip(sizes, left, strict=True)) >= 1 << 62:
        raise ValueError("all samples together must have fewer than 2**62 tokens")
    if sum(left) != len(classes):
        raise ValueError("counts must add up to the length of classes")
    most_items = max_items or len(classes)
    steps = placed = num_bins = 0
    offsets[0] = 0
    while placed < len(classes):
        limit = min(steps + STEPS_PER_BIN, max_steps)
        goal = max(0, capacity - sum(size * count for size, count in zip(sizes, left, strict=True)))
        top = next(c for c, count in enumerate(left) if count)
        path, room, at = [top], capacity - sizes[top], top
        left[top] -= 1
        best, best_room = [], capacity + 1
        while True:
            extend = range(at, len(sizes)) if len(path) < most_items else ()
            chosen = next((c for c in extend if left[c] and sizes[c] <= room), None)
            if chosen is not None:
                path.append(chosen)
                left[chosen] -= 1
                room -= sizes[chosen]
                steps += 1
                at = chosen
                continue
            if room < best_room:
                best, best_room = list(path), room
            if best_room <= goal or steps >= limit or len(path) == 1:
                break
            at = path.pop()
            left[at] += 1
            room += sizes[at]
            at += 1
        for c in path:
            left[c] += 1
        for c in best:
            left[c] -= 1
        classes[placed : placed + len(best)] = best
        placed += len(best)
        num_bins += 1
        offsets[num_bins] = placed
    return num_bins
