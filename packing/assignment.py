"""Assignment: which samples lie in which bin, as two integer arrays (CSR)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from packing._checks import shown
from packing.errors import ConfigError

__all__ = ["Assignment"]

Key = TypeVar("Key")
Int32Array = npt.NDArray[np.int32]


def _frozen_int32(name: str, values: Any) -> Int32Array:
    source = np.asarray(values)
    if source.ndim != 1 or (source.size and source.dtype.kind not in "iu"):
        raise ConfigError(f"`{name}` must be a one-dimensional array of integers, but got {shown(values)}.")
    if source.dtype != np.int32 and source.size and (source.min() < -(2**31) or source.max() >= 2**31):
        raise ConfigError(f"`{name}` must fit into 32-bit integers, but got {shown(values)}.")
    array = np.array(source, dtype=np.int32, order="C")
    array.flags.writeable = False
    return array


@dataclass(frozen=True, slots=True, eq=False)
class Assignment:
    """A layout: bin b holds `items[offsets[b]:offsets[b + 1]]`, in that order; bins are rank-major (rank * M + slot).

    The arrays are copied and made read-only. Whether the layout is a valid one for a problem is the audit's question;
    this class only makes sure that it is well-formed.

    Args:
        offsets: int32[K+1], ascending from 0 to len(items).
        items: int32[N], sample indices.

    Raises:
        ConfigError: an array does not hold 32-bit integers, or `offsets` does not start at 0, descends, or does not
            end at the number of items.
    """

    offsets: npt.NDArray[Any]
    items: npt.NDArray[Any]

    def __post_init__(self) -> None:
        offsets, items = _frozen_int32("offsets", self.offsets), _frozen_int32("items", self.items)
        if offsets.size == 0:
            raise ConfigError("`offsets` must not be empty.")
        if offsets[0] != 0 or offsets[-1] != items.size or (offsets[1:] < offsets[:-1]).any():
            raise ConfigError(f"`offsets` must ascend from 0 to {items.size}, but got {offsets.tolist()[:16]}.")
        object.__setattr__(self, "offsets", offsets)
        object.__setattr__(self, "items", items)

    def __reduce__(self) -> tuple[Any, ...]:
        # NumPy forgets on the way through a pickle that an array is read-only.
        return Assignment, (self.offsets, self.items)

    @property
    def num_bins(self) -> int:
        """K."""
        return self.offsets.size - 1

    @property
    def num_samples(self) -> int:
        """Number of items, repetitions counted."""
        return self.items.size

    @classmethod
    def from_bins(cls, bins: Iterable[Sequence[int] | npt.NDArray[np.integer[Any]]]) -> Assignment:
        """The layout with these bins of sample indices, in this order."""
        rows = [np.asarray(row) for row in bins]
        for b, row in enumerate(rows):
            if row.ndim != 1 or (row.size and row.dtype.kind not in "iu"):
                raise ConfigError(f"bin {b} must be a list of sample indices, but got {shown(row.tolist())}.")
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([row.size for row in rows], out=offsets[1:])
        filled = [row for row in rows if row.size]  # an empty list has no integer type
        return cls(offsets, np.concatenate(filled) if filled else np.empty(0, np.int32))

    @classmethod
    def from_bin_of(cls, bin_of: Any, num_bins: int) -> Assignment:
        """The layout that puts sample i into bin `bin_of[i]`; inside a bin the samples ascend."""
        bins = np.asarray(bin_of, dtype=np.int64)
        offsets = np.zeros(num_bins + 1, np.int64)
        np.cumsum(np.bincount(bins, minlength=num_bins), out=offsets[1:])
        return cls(offsets, np.argsort(bins, kind="stable"))

    def to_bins(self, keys: Sequence[Key] | None = None) -> list[list[Any]]:
        """The bins as lists of sample indices, or of `keys[index]` where keys are given."""
        items: list[Any] = self.items.tolist()
        if keys is not None:
            items = [keys[index] for index in items]
        edges = self.offsets.tolist()
        return [items[start:stop] for start, stop in pairwise(edges)]

    def bin_of(self) -> Int32Array:
        """int32[N]: the bin of each sample (each sample must occur exactly once)."""
        bins = np.empty(self.items.size, np.int32)
        bins[self.items] = np.repeat(np.arange(self.num_bins, dtype=np.int32), np.diff(self.offsets))
        return bins

    def sums(self, values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """int64[K]: the sum of `values` (int64[N], or int64[N, B] giving [K, B]) over each bin; exact."""
        running = np.zeros((values.shape[0] + 1, *values.shape[1:]), np.int64)
        np.cumsum(values[self.items], axis=0, out=running[1:])
        sums: npt.NDArray[np.int64] = running[self.offsets[1:]] - running[self.offsets[:-1]]
        return sums

    def reordered(self, bins: npt.NDArray[np.integer[Any]]) -> Assignment:
        """The same bins in another order: bin b of the result is bin `bins[b]` of this one."""
        counts = np.diff(self.offsets)[bins]
        offsets = np.zeros(self.offsets.size, np.int64)
        np.cumsum(counts, out=offsets[1:])
        starts = np.repeat(self.offsets[:-1][bins] - offsets[:-1], counts)
        return Assignment(offsets, self.items[starts + np.arange(self.items.size)])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Assignment):
            return NotImplemented
        return np.array_equal(self.offsets, other.offsets) and np.array_equal(self.items, other.items)

    def __hash__(self) -> int:
        return hash((self.offsets.tobytes(), self.items.tobytes()))
