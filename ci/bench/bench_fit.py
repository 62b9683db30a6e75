"""Best-fit decreasing and its relatives: speed against LightBinPack, with every count checked."""

from __future__ import annotations

import argparse
import csv
import gzip
import os
import sys
from pathlib import Path

import numpy as np
from timing import argsort_seconds, cpu_minimum

from packing.bin_bounds import bin_lower_bound
from packing.bins import ALGORITHMS, fit_bins, pack
from packing.partition import descending_order

CAPACITY = 8192
LEAST_RATIO = 4.0
DATA = Path(os.environ.get("PACKING_DATA", Path(__file__).resolve().parents[3] / "shared" / "data")) / "lengths"


def inputs(num_samples: int) -> dict[str, np.ndarray]:
    """int64 lengths of at most `CAPACITY`: lognormal, and real requests drawn with a fixed seed where the data lies."""
    generator = np.random.default_rng(20)
    drawn = {"lognormal": generator.lognormal(6.9, 1.0, num_samples).astype(np.int64)}
    rows = DATA / "servegen_r1.npy"
    if rows.exists():
        drawn["servegen_r1, resampled"] = generator.choice(np.load(rows)[:, :2].sum(axis=1), num_samples)
    histogram = DATA / "hist_servegen_r1.csv.gz"
    if histogram.exists():
        with gzip.open(histogram, "rt") as lines:
            table = np.array([[int(row["length"]), int(row["prompt_count"])] for row in csv.DictReader(lines)])
        everyone = np.repeat(table[:, 0], table[:, 1])
        drawn["hist_servegen_r1, prompts"] = generator.permutation(everyone)[:num_samples]
    return {name: np.clip(lengths, 1, CAPACITY).astype(np.int64) for name, lengths in drawn.items()}


def lightbinpack_seconds(lengths: np.ndarray, repeat: int) -> tuple[float, int]:
    """The faster of a list and an array as its input, and the number of bins it finds."""
    from lightbinpack import obfd

    listed = lengths.tolist()
    first, second = (cpu_minimum(lambda given=given: obfd(given, CAPACITY), repeat) for given in (listed, lengths))
    return min(first, second), len(obfd(listed, CAPACITY))


def check_textbook(lengths: np.ndarray, offsets: np.ndarray, items: np.ndarray) -> None:
    """The bins are those of best-fit placing sample after sample in descending order, item by item."""
    expected = fit_bins(lengths, descending_order(lengths), CAPACITY, "best_fit")
    assert np.array_equal(offsets, expected[0])
    assert np.array_equal(items, expected[1])
    loads = np.add.reduceat(lengths[items], offsets[:-1])
    assert loads.max() <= CAPACITY
    assert np.array_equal(np.sort(items), np.arange(len(lengths)))


def compare_with_lightbinpack(num_samples: int, repeat: int) -> bool:
    """Print one line an input; returns whether every ratio is large enough."""
    print(f"best-fit decreasing, {num_samples:,} lengths, capacity {CAPACITY}: CPU ms, minimum of {repeat}")
    print(f"{'input':28} {'bins':>9} {'bound':>9} {'pack':>8} {'int32 in':>8} {'kernel':>8} {'obfd':>8} {'ratio':>6}")
    fast = True
    for name, lengths in inputs(num_samples).items():
        narrow = lengths.astype(np.int32)
        packed = pack(lengths, CAPACITY)
        check_textbook(lengths, packed.offsets, packed.items)
        public = cpu_minimum(lambda given=lengths: pack(given, CAPACITY), repeat)
        public_narrow = cpu_minimum(lambda given=narrow: pack(given, CAPACITY), repeat)
        inside = cpu_minimum(lambda given=lengths: fit_bins(given, None, CAPACITY, "best_fit_decreasing"), repeat)
        theirs, their_bins = lightbinpack_seconds(lengths, repeat)
        assert their_bins == packed.num_bins, f"{name}: {packed.num_bins} bins, LightBinPack finds {their_bins}"
        ratio = theirs / max(public, public_narrow)
        fast = fast and ratio >= LEAST_RATIO
        bound, _ = bin_lower_bound(lengths, CAPACITY)
        figures = " ".join(f"{1e3 * seconds:8.2f}" for seconds in (public, public_narrow, inside, theirs))
        print(f"{name:28} {packed.num_bins:9,} {bound:9,} {figures} {ratio:5.1f}x")
    return fast


def time_every_rule(num_samples: int, repeat: int) -> None:
    """Print the time and the bins of each rule over a few sizes."""
    print(f"\nevery rule: CPU ms of pack, minimum of {repeat}, and bins")
    for count in sorted({1024, min(20_000, num_samples), num_samples}):
        for name, lengths in inputs(count).items():
            figures = []
            for algorithm in ALGORITHMS:
                seconds = cpu_minimum(
                    lambda kind=algorithm, given=lengths: pack(given, CAPACITY, algorithm=kind), repeat
                )
                figures.append(
                    f"{algorithm} {1e3 * seconds:.3f} ({pack(lengths, CAPACITY, algorithm=algorithm).num_bins})"
                )
            print(f"{count:9,} {name:26} " + "  ".join(figures))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the samples, few repeats")
    quick = parser.parse_args().quick
    num_samples, repeat = (100_000, 5) if quick else (1_000_000, 20)
    print(f"np.argsort of 1,000,000 int64 in this run: {1e3 * argsort_seconds():.1f} ms CPU\n")
    fast = compare_with_lightbinpack(num_samples, repeat)
    time_every_rule(num_samples, 3 if quick else 5)
    if not fast:
        print(f"FAILED: less than {LEAST_RATIO:g}x faster than LightBinPack")
    return 0 if fast else 1


if __name__ == "__main__":
    sys.exit(main())
