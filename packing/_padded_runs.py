"""Padded micro-batches: runs of samples sorted by length, the fewest, and the smallest largest cost, both exactly."""

from __future__ import annotations

import heapq

import numpy as np

from packing._checks import Int64Array

__all__ = ["PaddedRuns"]

# Rows are padded to the longest of their micro-batch, so that one of n samples costs n * f(longest), with f not
# decreasing. Whatever layout there is: sort all samples by length, longest first, sort the micro-batches by their
# longest, and refill them in that order, each with as many samples as it had. A sample longer than the longest of the
# j-th lay in one of the j - 1 before it, so the j-th now begins with a sample no longer than its longest was. Every
# micro-batch keeps its size, none gets a longer longest: no cost, no cap and no objective that grows with the costs
# gets worse. So runs of the sorted samples are enough. Among runs, beginning the next one later is never worse, since
# all that follows is shorter: taking as many as fit gives the fewest, under caps alone or under a level of cost.

_WORTH_BITS = 7
"""A lower level for what is left is searched for where one lower by 2**-7 is possible."""


class PaddedRuns:
    """Runs of samples that descend in length.

    Args:
        lengths: int64[N], descending, from 1 to `capacity`.
        costs: int64[N], descending, what one row costs that is padded to that sample.
        capacity: most tokens of a run, padding counted.
        max_items: most samples in a run, or None.
    """

    def __init__(self, lengths: Int64Array, costs: Int64Array, capacity: int, max_items: int | None) -> None:
        rows = np.minimum(capacity // lengths, lengths.size if max_items is None else max_items)
        self._most: list[int] = rows.tolist()
        self._costs: list[int] = costs.tolist()
        self._behind: list[int] = (int(costs.sum()) - np.cumsum(costs) + costs).tolist()
        self._unlimited = lengths.size * max(self._costs, default=0)

    def fewest(self) -> int:
        """The number of runs that caps alone ask for."""
        return len(self._ends(0, self._unlimited, len(self._most)))

    def smallest_largest(self, count: int) -> tuple[list[int], int]:
        """Ends of exactly `count` runs: the largest cost as small as any layout has it, then that of the others.

        Args:
            count: from `fewest()` to N.

        Returns:
            `(ends, largest)`; no layout in `count` micro-batches has a smaller largest cost.
        """
        largest = level = self._level(0, count, self._unlimited)
        ends: list[int] = []
        at = 0
        pause = due = 1
        while at < len(self._most):
            left = count - len(ends)
            lower = level - max(1, level >> _WORTH_BITS)
            if len(ends) >= due and lower >= self._costs[at]:
                # Looked for ever more seldom, as long as there is none: it takes as long as all the runs.
                found = len(self._ends(at, lower, left)) <= left
                level = self._level(at, left, lower) if found else level
                pause = 1 if found else 2 * pause
                due = len(ends) + pause
            at = self._end(at, level)
            ends.append(at)
        return self._halved(ends, count), largest

    def _end(self, at: int, level: int) -> int:
        rows, cost = self._most[at], self._costs[at]
        return min(at + (min(rows, level // cost) if cost else rows), len(self._most))

    def _ends(self, at: int, level: int, most: int) -> list[int]:
        """Greedy runs from a sample on; gives up after `most` + 1 of them."""
        ends: list[int] = []
        while at < len(self._most) and len(ends) <= most:
            at = self._end(at, level)
            ends.append(at)
        return ends

    def _level(self, at: int, count: int, high: int) -> int:
        """The lowest level, at most `high`, for which `count` runs are enough from a sample on."""
        low = min(high, max(self._costs[at], -(-self._behind[at] // count)))
        while low < high:
            level = (low + high) // 2
            if len(self._ends(at, level, count)) <= count:
                high = level
            else:
                low = level + 1
        return low

    def _halved(self, ends: list[int], count: int) -> list[int]:
        """`count` runs: the costliest that holds several samples is halved again and again."""
        heap: list[tuple[int, int, int]] = []
        done: list[int] = []

        def push(start: int, end: int) -> None:
            if end - start > 1:
                heapq.heappush(heap, (-(end - start) * self._costs[start], start, end))
            else:
                done.append(end)

        for start, end in zip([0, *ends[:-1]], ends, strict=True):
            push(start, end)
        while len(heap) + len(done) < count:
            _, start, end = heapq.heappop(heap)
            middle = (start + end + 1) // 2
            push(start, middle)
            push(middle, end)
        return sorted(done + [end for _, _, end in heap])
