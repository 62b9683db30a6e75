"""Packs lengths into the fewest bins that a fit rule finds: the public `pack`, and the form the planner calls."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from packing._checks import Int64Array, integer, integers, one_of, optional_integer, shown
from packing._fewest_bins import EFFORTS, exact_fill, fewer_bins, limited_fill
from packing._fixed_point import exact_sum
from packing._kernels import fit, fit_histogram
from packing.bin_bounds import bin_lower_bound
from packing.errors import ConfigError, InfeasibleError
from packing.partition import descending_order

__all__ = ["ALGORITHMS", "RULES", "PackedBins", "effort_steps", "fit_bins", "fit_fewest", "pack"]

Int32Array = npt.NDArray[np.int32]

RULES = ("next_fit", "first_fit", "best_fit", "first_fit_decreasing", "best_fit_decreasing")
"""Algorithms that place sample after sample."""

ALGORITHMS = (*RULES, "exact_fill", "auto")
"""Those, and a search for the fewest bins, which "auto" is another name of."""

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
        lower_bound: no packing has fewer bins; None: not computed (only "exact_fill" and "auto" do).
        bound_name: what asks for that many: "min_bins" or a name that `packing.bin_bounds.bin_lower_bound` gives.
    """

    offsets: Int32Array
    items: Int32Array
    capacity: int
    tokens: int
    lower_bound: int | None = None
    bound_name: str | None = None

    @property
    def num_bins(self) -> int:
        """How many bins there are; none of them is empty."""
        return len(self.offsets) - 1

    @property
    def fill(self) -> float:
        """Tokens per token of capacity: 1.0 is no padding at all; above it only through oversized samples."""
        return self.tokens / (self.capacity * self.num_bins) if self.num_bins else 0.0

    @property
    def gap(self) -> int | None:
        """Bins more than the lower bound, or None without one; 0 proves that no packing has fewer bins."""
        return None if self.lower_bound is None else self.num_bins - self.lower_bound

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
    effort: str | int = "normal",
) -> PackedBins:
    """Pack samples into bins, no bin above `capacity`, every sample in exactly one bin.

    Equal input gives equal bins everywhere; `lengths` is not changed.

    Args:
        lengths: N positive whole numbers (array or sequence), in tokens; their sum is below 2**62.
        capacity: most tokens in one bin, at least 1.
        algorithm: "next_fit" (only the newest bin is open), "first_fit" (the lowest-numbered bin with room), "best_fit"
            (the fullest bin with room, the lowest-numbered among equals); each takes the samples as they come. The
            "..._decreasing" forms take them by length descending, equal lengths by index. "exact_fill" takes the
            better of "best_fit_decreasing" and of filling one bin after another, each by the longest sample left and
            those that leave the least room beside it, and then searches for fewer bins, until a lower bound proves that
            there are none or `effort` is used up. "auto" is whatever finds the fewest, today "exact_fill".
        max_items: most samples in one bin; None: no limit. Where it binds, "exact_fill" also fills bins with an even
            share of the samples each, which often needs far fewer than the rules that go from the longest downwards.
        min_bins: fewest bins; samples placed last get bins of their own where fewer would do. None: no minimum.
        oversized: "error", or "single": a sample longer than `capacity` gets a bin of its own.
        effort: of "exact_fill" and "auto": how much is tried where no lower bound is met, "fast", "normal" (some 50
            ms), "thorough" (some seconds) or a positive number of steps of about a nanosecond. A count, never a time.

    Returns:
        The bins in the order in which they were opened; those of a search by their longest sample.

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
    steps = effort_steps("effort", effort, len(tokens))
    bound = name = None
    if algorithm not in RULES:
        offsets, items, bound, name = fit_fewest(tokens, capacity, min_bins, max_items, oversized, steps)
    else:
        offsets, items = fit_bins(tokens, None, capacity, algorithm, min_bins, max_items, oversized, steps)
    offsets.flags.writeable = items.flags.writeable = False
    return PackedBins(offsets, items, capacity, total, bound, name)


def effort_steps(name: str, effort: Any, num_samples: int) -> int:
    """The number of steps of an effort given by name or as a number; a ConfigError for anything else.

    What a name stands for is less below 64 samples, in proportion to the number of pairs of them: there are fewer
    packings to try.
    """
    if isinstance(effort, str):
        if effort not in EFFORTS:
            raise ConfigError(
                f"`{name}` must be {', '.join(map(repr, EFFORTS))} or a positive integer, but got {shown(effort)}."
            )
        return EFFORTS[effort] * min(num_samples**2, 64**2) // 64**2
    return integer(name, effort, minimum=1, maximum=2**62)


def fit_bins(
    tokens: Int64Array,
    order: Int32Array | None,
    capacity: int | None,
    kind: str,
    min_bins: int | None = None,
    max_items: int | None = None,
    oversized: str = "error",
    max_steps: int = EFFORTS["normal"],
) -> tuple[Int32Array, Int32Array]:
    """Pack checked columns; what `pack` and the planner's named algorithms share.

    Args:
        tokens: int64[N], at least 0 (for "exact_fill" and "auto" 1), C-contiguous, their sum below 2**62; may be
            read-only.
        order: int32[N], a permutation: the order in which the samples are placed; None: by index. Only "next_fit",
            "first_fit" and "best_fit" take one; the others bring their own.
        capacity: token cap of every bin; None: no cap.
        kind: one of `ALGORITHMS`.
        min_bins: fewest bins; None: no minimum.
        max_items: most samples in one bin; None: no limit.
        oversized: "error" or "single".
        max_steps: of "exact_fill" and "auto".

    Returns:
        offsets int32[K+1] and items int32[N], bins in the order of opening, items in the order of placement.

    Raises:
        InfeasibleError: a sample is longer than `capacity`, or there are fewer samples than `min_bins`.
    """
    if order is not None and kind not in ("next_fit", "first_fit", "best_fit"):
        raise ValueError(f"`order` must be None for {kind}, which sorts by length itself.")
    limits = _checked_limits(tokens, capacity, min_bins, max_items, oversized)
    if kind == "best_fit_decreasing":
        return _best_fit_decreasing(tokens, *limits)
    if kind in ("exact_fill", "auto"):
        return fit_fewest(tokens, capacity, min_bins, max_items, oversized, max_steps)[:2]
    if kind == "first_fit_decreasing":
        order = descending_order(tokens)
    elif order is None:
        order = np.arange(len(tokens), dtype=np.int32)
    return _fit_one_by_one(tokens, order, kind.removesuffix("_decreasing"), *limits)


def fit_fewest(
    tokens: Int64Array,
    capacity: int | None,
    min_bins: int | None = None,
    max_items: int | None = None,
    oversized: str = "error",
    max_steps: int = EFFORTS["normal"],
) -> tuple[Int32Array, Int32Array, int, str]:
    """As few bins as best-fit decreasing, exact fill and a search find, and a lower bound.

    Args: as in `fit_bins`; `tokens` are positive. With `min_bins` bins nothing more is tried.

    Returns:
        offsets int32[K+1], items int32[N], the lower bound on the number of bins and its name.

    Raises:
        InfeasibleError: as in `fit_bins`.
    """
    limits = _checked_limits(tokens, capacity, min_bins, max_items, oversized)
    cap, fewest, most_items, _ = limits
    offsets, items = _best_fit_decreasing(tokens, cap, 0, *limits[2:])
    num_bins = len(offsets) - 1
    bound, name = bin_lower_bound(tokens, cap, max_items, quick=True)
    if num_bins <= max(bound, fewest):
        offsets, items = _best_fit_decreasing(tokens, *limits) if num_bins < fewest else (offsets, items)
        return offsets, items, *max((bound, name), (fewest, "min_bins"), key=lambda one: one[0])
    order = descending_order(tokens)
    ordered = tokens[order]
    alone = int(np.count_nonzero(ordered > cap))  # oversized samples, in the first bins
    ordered = ordered[alone:]
    divisor = int(np.gcd.reduce(ordered))
    columns = ordered // divisor, cap // divisor, most_items
    bin_of = np.empty(len(tokens), np.int32)
    bin_of[items] = np.repeat(np.arange(num_bins, dtype=np.int32), np.diff(offsets))
    bins = bin_of[order][alone:] - alone
    filled = [exact_fill(*columns, max_steps)]
    if most_items and np.bincount(filled[0]).max() == most_items:
        filled.append(limited_fill(*columns, max_steps))
    bins = min(bins, *filled, key=lambda one: int(one.max()))
    if bins.max() + 1 + alone > max(bound, fewest):
        bound, name = bin_lower_bound(tokens, cap, max_items)
    if fewest > bound:
        bound, name = fewest, "min_bins"
    if bins.max() + 1 + alone > bound:
        bins = fewer_bins(*columns, bins, bound - alone, max_steps)
    bin_of[order] = np.concatenate((np.arange(alone, dtype=np.int32), bins + alone))
    return *_grouped(bin_of, order, fewest), bound, name


def _grouped(bin_of: Int32Array, order: Int32Array, min_bins: int) -> tuple[Int32Array, Int32Array]:
    """The bins as lists; where there are fewer than `min_bins`, the shortest samples that share one leave it."""
    num_bins = int(bin_of.max()) + 1
    if num_bins < min_bins:
        shares = np.ones(len(order), np.bool_)
        shares[np.unique(bin_of[order], return_index=True)[1]] = False
        bin_of[order[np.flatnonzero(shares)[num_bins - min_bins :]]] = np.arange(num_bins, min_bins)
        num_bins = min_bins
    offsets, items = np.empty(num_bins + 1, np.int32), np.empty(len(order), np.int32)
    fit.group_by_bin(bin_of, order, num_bins, offsets, items)
    return offsets, items


def _checked_limits(
    tokens: Int64Array, capacity: int | None, min_bins: int | None, max_items: int | None, oversized: str
) -> tuple[int, int, int, bool]:
    """The limits as kernels take them; InfeasibleError where no packing can keep them."""
    largest = int(tokens.max(initial=0))
    cap = _TOTAL_LIMIT if capacity is None else min(capacity, _TOTAL_LIMIT)
    if largest > cap and oversized == "error":
        at = int(np.argmax(tokens > cap))
        raise InfeasibleError(
            f"sample {at} has length {tokens[at]}, more than the capacity {cap}; no bin can hold it"
            ' (oversized="single" would give it a bin of its own).'
        )
    if min_bins is not None and len(tokens) < min_bins:
        raise InfeasibleError(f"{min_bins} non-empty bins need as many samples, but there are only {len(tokens)}.")
    return cap, min_bins or 0, max_items or 0, oversized == "single"


def _best_fit_decreasing(
    tokens: Int64Array, capacity: int, min_bins: int, max_items: int, oversized: bool
) -> tuple[Int32Array, Int32Array]:
    n, largest = len(tokens), int(tokens.max(initial=0))
    limits = (capacity, min_bins, max_items, oversized)
    if max(capacity, largest) <= min(_TABLE_ENTRIES_PER_SAMPLE * n, _TABLE_ENTRIES):
        return _fit_by_histogram(tokens, largest, *limits)
    return _fit_one_by_one(tokens, descending_order(tokens), "best_fit", *limits)


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
