"""Real lengths and seeded draws, the same on every machine and NumPy: what the lists of instances are made of."""

from __future__ import annotations

import hashlib
import os
from functools import cache
from importlib import resources
from pathlib import Path

import numpy as np
import numpy.typing as npt

__all__ = ["DATA", "Draw", "attention", "length_files", "lengths_of"]

Int64Array = npt.NDArray[np.int64]

DATA = Path(os.environ.get("PACKING_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))

LINEAR = 49152
"""Linear part of the attention cost L -> LINEAR * L + L**2: 12 * 4096, causal FLOPs of a dense 8B-class model."""

_LENGTH_COLUMNS = {"servegen_mm_image": (0, 1, 3), "docs_mixed": (0,), "coco_captions_val2017": (0, 1)}
_BUNDLED = "openchat_v1"
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def attention(lengths: Int64Array) -> Int64Array:
    """int64[N]: cost of samples of those lengths."""
    return LINEAR * lengths + lengths * lengths


def length_files() -> list[str]:
    """Names of all files with one length per row, sorted; without the data folder the one that the package bundles."""
    return sorted(path.stem for path in (DATA / "lengths").glob("*.npy")) or [_BUNDLED]


@cache
def lengths_of(name: str) -> Int64Array:
    """int64[N], read-only: total tokens of every sequence of a file, empty ones left out.

    Raises:
        FileNotFoundError: there is no such file, and it is not the bundled one.
    """
    path = DATA / "lengths" / f"{name}.npy"
    if path.exists() or name != _BUNDLED:
        rows = np.load(path)
    else:
        with resources.as_file(resources.files("packing") / "data" / f"{name}.npy") as bundled:
            rows = np.load(bundled)
    rows = rows.astype(np.int64)
    lengths = rows if rows.ndim == 1 else rows[:, list(_LENGTH_COLUMNS.get(name, (0, 1)))].sum(axis=1)
    lengths = np.ascontiguousarray(lengths[lengths > 0])
    lengths.flags.writeable = False
    return lengths


class Draw:
    """Random numbers that depend on a name alone.

    NumPy may change what its generators return; SplitMix64 (Steele, Lea and Flood 2014) over a counter cannot change.
    """

    def __init__(self, name: str) -> None:
        self._state = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")
        self._used = 0

    def bits(self, count: int) -> npt.NDArray[np.uint64]:
        """uint64[count], the next ones."""
        counter = np.arange(self._used + 1, self._used + count + 1, dtype=np.uint64)
        self._used += count
        mixed = np.uint64(self._state) + counter * _GOLDEN
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(mixed ^ (mixed >> np.uint64(31)))

    def integers(self, count: int, stop: int) -> Int64Array:
        """int64[count] in [0, stop)."""
        # The remainder's bias is below stop / 2**63.
        return ((self.bits(count) >> np.uint64(1)) % np.uint64(stop)).astype(np.int64)

    def below(self, stop: int) -> int:
        """One integer in [0, stop)."""
        return int(self.integers(1, stop)[0])

    def permutation(self, count: int) -> Int64Array:
        """int64[count]: 0 .. count - 1 in random order."""
        return np.argsort(self.bits(count), kind="stable")

    def sample(self, lengths: Int64Array, count: int) -> Int64Array:
        """`count` of the lengths, each row at most once."""
        return lengths[self.permutation(lengths.size)[:count]]

    def with_sum(self, lengths: Int64Array, total: int) -> Int64Array:
        """Lengths drawn with replacement until they add up to `total`; the last one is cut so that they do exactly."""
        parts, left = [], total
        block = int(1.2 * total / lengths.mean()) + 16
        while left > 0:
            drawn = lengths[self.integers(block, lengths.size)]
            sums = np.cumsum(drawn)
            drawn = drawn[: int(np.searchsorted(sums, left)) + 1]
            excess = int(drawn.sum()) - left
            if excess > 0:
                drawn[-1] -= excess
            parts.append(drawn)
            left -= int(drawn.sum())
        return np.concatenate(parts)
