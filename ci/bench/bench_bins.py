"""Fewest bins: `exact_fill` on instances with known optima and on real lengths, with every bound and count checked."""

from __future__ import annotations

import argparse
import os
import sys
import time
from importlib import resources
from pathlib import Path

import numpy as np
from timing import argsort_seconds, slack

from packing.bins import PackedBins, pack

DATA = Path(os.environ.get("PACKING_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
REAL = {"servegen_r1": 2, "wlbllm_docs": 1, "docs_mixed": 1, "openchat_v1": 1}  # token columns of each file
CAPACITIES = (8_192, 32_768, 131_072)

LEAST_OPTIMAL = 0.95  # of the classic instances, each within
MOST_SECONDS = 0.1
MOST_MEDIAN_SECONDS = 0.005


def timed(lengths: np.ndarray, capacity: int, **options: str) -> tuple[PackedBins, float]:
    """The bins, checked, and seconds of CPU time: one call, as a user makes it."""
    start = time.process_time()
    packed = pack(lengths, capacity, **options)
    seconds = time.process_time() - start
    loads = np.add.reduceat(lengths[packed.items], packed.offsets[:-1])
    alone = np.diff(packed.offsets) == 1
    assert (loads[~alone] <= capacity).all()
    assert np.array_equal(np.sort(packed.items), np.arange(len(lengths)))
    return packed, seconds


def known_optima(file: str, every: int, effort: str) -> dict[str, np.ndarray]:
    """Rows of (optimum known, met by best-fit, met, proved, bins too many, seconds) by family; prints their sums."""
    with np.load(DATA / "instances" / file) as archive:
        instances = {name: archive[name] for name in archive.files}
    offsets, sizes = instances["offsets"], instances["sizes"].astype(np.int64)
    families: dict[str, list[list[float]]] = {}
    for i in range(0, len(instances["name"]), every):
        lengths, capacity = sizes[offsets[i] : offsets[i + 1]], int(instances["capacity"][i])
        best, decreasing = int(instances["best_bins"][i]), pack(lengths, capacity).num_bins
        packed, seconds = timed(lengths, capacity, algorithm="exact_fill", effort=effort)
        name = instances["name"][i]
        assert packed.num_bins <= decreasing, f"{name}: {packed.num_bins} bins, best-fit decreasing {decreasing}"
        assert packed.lower_bound <= best, f"{name}: bound {packed.lower_bound}, but {best} bins are enough"
        assert instances["lower_bound"][i] <= packed.num_bins, f"{name}: {packed.num_bins} bins is below the optimum"
        known = instances["lower_bound"][i] == best
        row = [known, known and decreasing == best, known and packed.num_bins == best, packed.gap == 0]
        families.setdefault(str(instances["family"][i]), []).append([*row, packed.num_bins - best, seconds])
    print(f"\n{file}, every {every}, effort {effort!r}; CPU ms")
    heads = f"{'known':>6} {'best-fit':>9} {'optimum':>8} {'proved':>7} {'too many':>9} {'median':>7} {'most':>7}"
    print(f"{'family':14} {heads}")
    tables = {family: np.array(rows, np.float64) for family, rows in families.items()}
    for family, table in [*tables.items(), ("all", np.concatenate(list(tables.values())))]:
        counts = " ".join(
            f"{int(value):{width}}" for value, width in zip(table[:, :5].sum(axis=0), (6, 9, 8, 7, 9), strict=True)
        )
        print(f"{family:14} {counts} {1e3 * np.median(table[:, 5]):7.2f} {1e3 * table[:, 5].max():7.1f}")
    return tables


def real_lengths(quick: bool) -> None:
    """Print the packs of both algorithms, the bound and the times for every file and capacity."""
    print(
        f"\n{'lengths':12} {'capacity':>8} {'samples':>8} {'best-fit':>9} {'ms':>7} {'exact':>7} {'bound':>7} {'ms':>8}"
    )
    for name, columns in REAL.items():
        file = DATA / "lengths" / f"{name}.npy"
        if name == "openchat_v1":  # bundled
            with resources.as_file(resources.files("packing") / "data" / "openchat_v1.npy") as bundled:
                lengths = np.load(bundled)
        elif file.exists():
            lengths = np.load(file)
        else:
            continue
        lengths = lengths.reshape(len(lengths), -1)[:, :columns].sum(axis=1).astype(np.int64)
        lengths = lengths[lengths > 0]
        sizes = [500, 4_000] if quick else [500, 4_000, len(lengths)]
        for capacity in CAPACITIES:
            for count in sizes:
                sample = np.random.default_rng(count).choice(lengths, count, replace=False)
                decreasing, first = timed(sample, capacity, oversized="single")
                packed, second = timed(sample, capacity, oversized="single", algorithm="exact_fill")
                assert packed.lower_bound <= packed.num_bins <= decreasing.num_bins
                print(
                    f"{name:12} {capacity:8,} {count:8,} {decreasing.num_bins:9,} {1e3 * first:7.2f} "
                    f"{packed.num_bins:7,} {packed.lower_bound:7,} {1e3 * second:8.2f}"
                )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="every tenth instance, small samples of the real lengths")
    quick = parser.parse_args().quick
    print(f"np.argsort of 1,000,000 int64 in this run: {1e3 * argsort_seconds():.1f} ms CPU")
    real_lengths(quick)
    classic, hard = "binpacking_classic.npz", "binpacking_bpplib_hard.npz"
    if not (DATA / "instances" / classic).exists():
        print(f"\nno instances with known optima in {DATA / 'instances'}")
        return 0
    rows = np.concatenate(list(known_optima(classic, 10 if quick else 1, "normal").values()))
    if not quick:
        known_optima(classic, 1, "fast")
        if (DATA / "instances" / hard).exists():
            known_optima(hard, 1, "normal")
    in_time = rows[:, 2] * (rows[:, 5] <= MOST_SECONDS * slack(quick))
    optimal, median = in_time.sum() / rows[:, 0].sum(), float(np.median(rows[:, 5]))
    print(f"\noptimum on {optimal:.1%} of them within {1e3 * MOST_SECONDS:g} ms each, median {1e3 * median:.2f} ms")
    failed = optimal < LEAST_OPTIMAL or median > MOST_MEDIAN_SECONDS * slack(quick)
    if failed:
        print(f"FAILED: less than {LEAST_OPTIMAL:.0%}, or a median over {1e3 * MOST_MEDIAN_SECONDS:g} ms")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
