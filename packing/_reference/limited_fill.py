"""Plain-Python specification of filling bins that may hold only so many samples."""

from __future__ import annotations

from typing import Any

STEPS_PER_BIN = 2048
"""Pairs tried for one bin: where lengths are many, one of the first few fills it."""


def fill_workspace(num_samples: int, num_classes: int) -> int:
    """Bytes of workspace that `fill` needs; the twin needs none."""
    return 0


def fill(
    lengths: Any,  # IN int64[D], positive, descending, all different
    counts: Any,  # IN int32[D], positive, N together
    capacity: int,  # at least lengths[0]
    max_items: int,  # at least 1
    max_steps: int,
    offsets: Any,  # OUT int32[N+1], the first num_bins + 1 of them
    classes: Any,  # OUT int32[N]: the class of each sample of each bin, in the order of placement
    workspace: Any,  # OUT uint8[fill_workspace(N, D)]
) -> int:
    """Fills bins one after another and returns their number.

    Filling from the longest sample downwards leaves short samples to the end, and then their number, no longer their
    tokens, asks for bins. Here every bin takes its share of the number: what is left over the bins that it needs, by
    tokens or by `max_items`, whichever asks for more. It is rounded up.

    Each bin takes the longest sample left; the shortest ones, while they fit, up to two below the share; and then, if
    there is place for two, the best of what fits: one sample, the longest, or a pair. Pairs are tried from the shortest
    sample upwards, each with the longest sample beside it that is not shorter, until one fills the bin or at the end of
    STEPS_PER_BIN pairs for this bin or `max_steps` for all bins. The best leaves the least room, and of those the first
    pair, or the one sample where the share is met with it. At last the bin takes the longest samples that still fit.
    """
    left = [int(count) for count in counts]
    sizes = [int(length) for length in lengths]
    if any(not 1 <= size <= capacity for size in sizes) or sizes != sorted(set(sizes), reverse=True) or 0 in left:
        raise ValueError("lengths must be positive, descending and at most the capacity, and counts positive")
    tokens, samples = sum(size * count for size, count in zip(sizes, left, strict=True)), sum(left)
    if tokens >= 1 << 62:
        raise ValueError("all samples together must have fewer than 2**62 tokens")
    if samples != len(classes):
        raise ValueError("counts must add up to the length of classes")
    if max_items < 1:
        raise ValueError("a bin must hold at least one sample")
    steps = num_bins = 0
    offsets[0] = 0
    while samples:
        limit = min(steps + STEPS_PER_BIN, max_steps)
        needed = max(1, -(-tokens // capacity), -(-samples // max_items))
        share = min(max_items, -(-samples // needed))
        chosen: list[int] = []
        room = capacity

        def take(*some: int, chosen: list[int] = chosen) -> None:
            nonlocal room, tokens, samples
            for c in some:
                chosen.append(c)
                left[c] -= 1
                room -= sizes[c]
                tokens -= sizes[c]
                samples -= 1

        take(next(c for c, count in enumerate(left) if count))
        while len(chosen) < share - 2:
            shortest = next((c for c in reversed(range(len(sizes))) if left[c]), None)
            if shortest is None or sizes[shortest] > room:
                break
            take(shortest)
        one = _longest(sizes, left, room)
        if len(chosen) + 2 <= max_items and one is not None:
            best: tuple[int, ...] = (one,)
            best_room, pair_first = room - sizes[one], len(chosen) + 2 <= share
            for short in reversed(range(len(sizes))):
                if not left[short]:
                    continue
                if 2 * sizes[short] > room or steps >= limit or (best_room == 0 and not pair_first):
                    break
                steps += 1
                long = _longest(sizes, left, room - sizes[short])
                if long is None or long > short or (long == short and left[short] < 2):
                    break
                rest = room - sizes[short] - sizes[long]
                if rest < best_room or (rest == best_room and pair_first and len(best) == 1):
                    best, best_room = (short, long), rest
                if rest == 0:
                    break
            take(*best)
        while len(chosen) < max_items:
            one = _longest(sizes, left, room)
            if one is None:
                break
            take(one)
        begin = int(offsets[num_bins])
        classes[begin : begin + len(chosen)] = chosen
        num_bins += 1
        offsets[num_bins] = begin + len(chosen)
    return num_bins


def _longest(sizes: list[int], left: list[int], room: int) -> int | None:
    """The class of the longest sample left that fits."""
    return next((c for c, count in enumerate(left) if count and sizes[c] <= room), None)
