"""More bins than a packing needs, out of those that it has."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from itertools import accumulate

__all__ = ["cut_into"]


def cut_into(bins: list[list[int]], tokens: list[int], count: int) -> list[list[int]]:
    """At least `count` bins: again and again the fullest one that holds two samples or more is cut in two.

    The cut lies where the halves are closest in tokens, and the second half becomes the last bin, so that what lay in
    one bin lies in neighbouring order still. Of equally full bins the first is cut.

    Args:
        bins: indices into `tokens`, none of them empty, `count` indices or more together; the lists are not changed.
        tokens: at least 0.
        count: wanted number of bins.
    """
    bins = list(bins)
    fullest = [(-sum(tokens[i] for i in one), at) for at, one in enumerate(bins) if len(one) > 1]
    heapq.heapify(fullest)
    while len(bins) < count:
        _, at = heapq.heappop(fullest)
        bins[at], second = _halves(bins[at], tokens)
        bins.append(second)
        for half in (at, len(bins) - 1):
            if len(bins[half]) > 1:
                heapq.heappush(fullest, (-sum(tokens[i] for i in bins[half]), half))
    return bins


def _halves(samples: list[int], tokens: list[int]) -> tuple[list[int], list[int]]:
    """Two or more samples in two parts, in their order."""
    before = list(accumulate((tokens[i] for i in samples), initial=0))
    total = before[-1]
    cut = bisect_left(before, -(-total // 2))  # the fewest samples that reach a half
    if cut > 1 and total - 2 * before[cut - 1] < 2 * before[cut] - total:
        cut -= 1
    cut = min(max(cut, 1), len(samples) - 1)
    return samples[:cut], samples[cut:]
