"""Packs lengths into the fewest bins that a fit rule finds: the public `pack`, and the form the planner calls."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from packing._checks import Int64Array, integer, integers, one_of, optional_integer
from packing._fixed_point import exact_sum
from packing._kernels import fit, fit_histogram
from packing.errors import ConfigError, InfeasibleError
from packing.partition import descending_order

__all__ = ["ALGORITHMS", "PackedBins", "fit_bins", "pack"]

Int32Array = npt.NDArray[np.int32]

ALGORITHMS = ("next_fit", "first_fit", "best_fit", "first_fit_decreasing", "best_fit_decreasing")

# A kernel's table over all lengths up to T costs time in T however few samples there are; sorting and searching costs
# time in n log n. Measured for n = 100 to 100,000, the two cross between T = 30 n and T = 90 n. The answer is the same.
_TABLE_ENTRIES_PER_SAMPLE = 32
# The table takes 13 bytes an entry; beyond this one it would outgrow every cache and then the samples' own memory.
_TABLE_ENTRIES = 2**24

# Kernels add up sizes in int64; with every total below this, no sum or difference can overflow.
_TOTAL_LIMIT = 2**62


@dataclass(frozen=True, eq=False)
class PackedBins:
    """The samples of each bin.

    Attributes:
        offsets: int32[num_bins + 1], read-only; bin b holds `items[offsets[b]:offsets[b + 1]]`.
        items: int32[N], read-only; sample indices, inside a bin in the order in which they were placed.
        capacity: the token cap of every bin.
        tokens: the sum of all lengths.
    """

    offsets: Int32Array
    items: Int32Array
    capacity: int
    tokens: int

    @property
    def num_bins(self) -> int:
        """How many bins there are; none of them is empty."""
        return len(self.offsets) - 1

    @property
    def fill(self) -> float:
        """Tokens per token of capacity: 1.0 is no padding at all; above it only through oversized samples."""
        return self.tokens / (self.capacity * self.num_bins) if self.num_bins else 0.0

    def to_lists(self) -> list[list[int]]:
        """The sample indices of each bin as plain lists."""
        items, offsets = self.items.tolist(), self.offsets.tolist()
        return [items[begin:end] for begin, end in pairwise(offsets)]


def pack(
    lengths: Any,
    capacity: int,
    *,
    algorithm: str = "best_fit_decreasing",
    max_items: int | None = None,
    min_bins: int | None = None,
    oversized: str = "error",
) -> PackedBins:
    """Pack samples into bins, no bin above `capacity`, every sample in exactly one bin.

    Equal input gives equal bins everywhere; `lengths` is not changed.

    Args:
        lengths: N positive whole numbers (array or sequence), in tokens; their sum is below 2**62.
        capacity: most tokens in one bin, at least 1.
        algorithm: "next_fit" (only the newest bin is open), "first_fit" (the lowest-numbered bin with room), "best_fit"
            (the fullest bin with room, the lowest-numbered among equals); each takes the samples as they come. The
            "..._decreasing" forms take them by length descending, equal lengths by index.
        max_items: most samples in one bin; None: no limit.
        min_bins: fewest bins; samples placed last get bins of their own where fewer would do. None: no minimum.
        oversized: "error", or "single": a sample longer than `capacity` gets a bin of its own.

    Returns:
        The bins in the order in which they were opened.

    Raises:
        ConfigError: an argument has a wrong type or value.
        InfeasibleError: a sample is longer than `capacity`, or there are fewer samples than `min_bins`.
    """
    tokens = integers("lengths", lengths, minimum=1)
    capacity = integer("capacity", capacity, minimum=1)
    one_of("algorithm", algorithm, ALGORITHMS)
    max_items = optional_integer("max_items", max_items, minimum=1)
    min_bins = optional_integer("min_bins", min_bins, minimum=1)
    one_of("oversized", oversized, ("error", "single"))
    total = exact_sum(tokens)
    if total >= _TOTAL_LIMIT:
        raise ConfigError(f"`lengths` must add up to less than 2**62, but got {total}.")
    offsets, items = fit_bins(tokens, None, capacity, algorithm, min_bins, max_items, oversized)
    offsets.flags.writeable = items.flags.writeable = False
    return PackedBins(offsets, items, capacity, total)


def fit_bins(
    tokens: Int64Array,
    order: Int32Array | None,
    capacity: int | None,
    kind: str,
    min_bins: int | None = None,
    max_items: int | None = None,
    oversized: str = "error",
) -> tuple[Int32Array, Int32Array]:
    """Pack checked columns; what `pack` and the planner's named algorithms share.

    Args:
        tokens: int64[N], at least 0, C-contiguous, their sum below 2**62; may be read-only.
        order: int32[N], a permutation: the order in which the samples are placed; None: by index. The decreasing forms
            bring their own order and take None only.
        capacity: token cap of every bin; None: no cap.
        kind: one of `ALGORITHMS`.
        min_bins: fewest bins; None: no minimum.
        max_items: most samples in one bin; None: no limit.
        oversized: "error" or "single".

    Returns:
        offsets int32[K+1] and items int32[N], bins in the order of opening, items in the order of placement.

    Raises:
        InfeasibleError: a sample is longer than `capacity`, or there are fewer samples than `min_bins`.
    """
    n = len(tokens)
    largest = int(tokens.max(initial=0))
    cap = _TOTAL_LIMIT if capacity is None else min(capacity, _TOTAL_LIMIT)
    if largest > cap and oversized == "error":
        at = int(np.argmax(tokens > cap))
        raise InfeasibleError(
            f"sample {at} has length {tokens[at]}, more than the capacity {cap}; no bin can hold it"
            ' (oversized="single" would give it a bin of its own).'
        )
    if min_bins is not None and n < min_bins:
        raise InfeasibleError(f"{min_bins} non-empty bins need as many samples, but there are only {n}.")
    limits = (cap, min_bins or 0, max_items or 0, oversized == "single")
    if kind == "best_fit_decreasing" and max(cap, largest) <= min(_TABLE_ENTRIES_PER_SAMPLE * n, _TABLE_ENTRIES):
        return _fit_by_histogram(tokens, largest, *limits)
    if kind.endswith("_decreasing"):
        if order is not None:
            raise ValueError(f"`order` must be None for {kind}, which sorts by length itself.")
        order = descending_order(tokens)
    elif order is None:
        order = np.arange(n, dtype=np.int32)
    return _fit_one_by_one(tokens, order, kind.removesuffix("_decreasing"), *limits)


def _fit_by_histogram(
    tokens: Int64Array, largest: int, capacity: int, min_bins: int, max_items: int, oversized: bool
) -> tuple[Int32Array, Int32Array]:
    n = len(tokens)
    offsets, items = np.empty(n + 1, np.int32), np.empty(n, np.int32)
    workspace = np.empty(fit_histogram.best_fit_decreasing_workspace(n, capacity, largest), np.uint8)
    num_bins = fit_histogram.best_fit_decreasing(
        tokens, capacity, min_bins, max_items, oversized, offsets, items, workspace
    )
    # A copy, so that a few bins do not keep n + 1 entries alive.
    return offsets[: num_bins + 1].copy(), items


def _fit_one_by_one(
    tokens: Int64Array, order: Int32Array, rule: str, capacity: int, min_bins: int, max_items: int, oversized: bool
) -> tuple[Int32Array, Int32Array]:
    n = len(tokens)
    bin_of, items = np.empty(n, np.int32), np.empty(n, np.int32)
    limits = (capacity, min_bins, max_items, oversized)
    if rule == "next_fit":
        num_bins = fit.next_fit(tokens, order, *limits, bin_of)
    elif rule == "first_fit":
        num_bins = fit.first_fit(tokens, order, *limits, bin_of, np.empty(fit.first_fit_workspace(n), np.uint8))
    else:
        num_bins = fit.best_fit(tokens, order, *limits, bin_of, np.empty(fit.best_fit_workspace(n), np.uint8))
    offsets = np.empty(num_bins + 1, np.int32)
    fit.group_by_bin(bin_of, order, num_bins, offsets, items)
    return offsets, items
