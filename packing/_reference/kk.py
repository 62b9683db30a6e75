"""Specification of the kk kernel: k-way largest differencing as the textbook tells it, a heap of k-bucket arrangements.

Source: N. Karmarkar, R. M. Karp, "The Differencing Method of Set Partitioning", UCB/CSD 82/113, 1982.
"""

from __future__ import annotations

import heapq
from typing import Any, NamedTuple

__all__ = ["difference", "difference_workspace"]


class _Bucket(NamedTuple):
    total: int
    positions: tuple[int, ...]  # places in the sorted order, not sample indices: equal values are then interchangeable
    lowest: int  # the smallest of the positions; of no account while there are none

    def joined(self, other: _Bucket) -> _Bucket:
        if not self.positions or not other.positions:
            return self if self.positions else other
        return _Bucket(self.total + other.total, self.positions + other.positions, min(self.lowest, other.lowest))

    def rank(self) -> tuple[int, int, int]:
        """The bucket order: sum descending, count descending, lowest position ascending; empty buckets come last."""
        return -self.total, -len(self.positions), self.lowest


_EMPTY = _Bucket(0, (), 0)


class _Arrangement(NamedTuple):
    rank: tuple[int, bool, tuple[int, int, int]]  # no two are equal: top buckets never share a position
    buckets: list[_Bucket]


def _arranged(buckets: list[_Bucket]) -> _Arrangement:
    """The largest spread comes first, then one with an empty bucket, then the larger top bucket."""
    buckets = sorted(buckets, key=_Bucket.rank)
    is_full = len(buckets[-1].positions) > 0
    return _Arrangement((buckets[-1].total - buckets[0].total, is_full, buckets[0].rank()), buckets)


def _merged(one: _Arrangement, other: _Arrangement) -> _Arrangement:
    """The largest bucket of one meets the smallest of the other, and so on."""
    pairs = zip(one.buckets, reversed(other.buckets), strict=True)
    return _arranged([bucket.joined(partner) for bucket, partner in pairs])


def _seeds(values: list[int], num_groups: int, equal_count: bool) -> list[_Arrangement]:
    """One arrangement per value, or per run of `num_groups` values, so that every bucket gets one."""
    single = [_Bucket(value, (position,), position) for position, value in enumerate(values)]
    width = num_groups if equal_count else 1
    padding = [_EMPTY] * (num_groups - width)
    return [_arranged(single[start : start + width] + padding) for start in range(0, len(single), width)]


def difference_workspace(n: int, num_groups: int) -> int:
    """Bytes of workspace that `difference` needs for `n` values in `num_groups` groups: none here."""
    return 0


def difference(
    values: Any,  # IN int64[N], not negative, sum below 2**62
    order: Any,  # IN int32[N], a permutation; values[order] does not increase
    num_groups: int,
    equal_count: bool,
    offsets: Any,  # OUT int32[num_groups+1]
    items: Any,  # OUT int32[N]
    workspace: Any,  # uint8[difference_workspace(N, num_groups)], not used here
) -> None:
    """Split values into groups of nearly equal sums by k-way largest differencing.

    Args:
        values: IN int64[N], not negative, sum below 2**62.
        order: IN int32[N], a permutation by which the values do not increase.
        num_groups: number of groups, at least 1; groups beyond the number of values stay empty.
        equal_count: every group gets N / num_groups values; N must be a multiple of `num_groups`.
        offsets: OUT int32[num_groups+1], where each group begins in `items`.
        items: OUT int32[N], groups by sum descending, then count descending, then lowest sorted position; inside a
            group by index.
        workspace: uint8[difference_workspace(N, num_groups)].

    Raises:
        ValueError: shapes that do not match, `num_groups` below 1, an `order` that is no permutation or does not sort
            the values, a negative value, or a count that `equal_count` cannot share out.
    """
    n = len(values)
    if num_groups < 1:
        raise ValueError("`num_groups` must be at least 1.")
    if len(order) != n or len(items) != n or len(offsets) != num_groups + 1:
        raise ValueError("`order` and `items` must be as long as `values`, and `offsets` one longer than `num_groups`.")
    if equal_count and n % num_groups:
        raise ValueError("`equal_count` needs a multiple of `num_groups` values.")
    samples = [int(sample) for sample in order]
    if sorted(samples) != list(range(n)):
        raise ValueError("`order` must be a permutation.")
    descending = [int(values[sample]) for sample in samples]
    if descending != sorted(descending, reverse=True):
        raise ValueError("`order` must sort `values` in descending order.")
    if n and descending[-1] < 0:
        raise ValueError("`values` must not be negative.")

    heap = _seeds(descending, num_groups, equal_count)
    heapq.heapify(heap)
    while len(heap) > 1:
        heapq.heappush(heap, _merged(heapq.heappop(heap), heapq.heappop(heap)))
    groups = heap[0].buckets if heap else [_EMPTY] * num_groups

    offsets[0] = 0
    for group, bucket in enumerate(groups):
        offsets[group + 1] = offsets[group] + len(bucket.positions)
        items[offsets[group] : offsets[group + 1]] = sorted(samples[position] for position in bucket.positions)
