"""Micro-batches of RL-like steps under all constraints, each answer verified; verl's partitions beside plain Python."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from bench_kk import textbook
from timing import cpu_minimum, slack

from packing import MicroBatches, micro_batches
from packing.compat.verl import get_seqlen_balanced_partitions

DATA = Path(os.environ.get("PACKING_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
FILES = ("servegen_r1", "math_cot_rollouts", "wlbllm_docs")
BUDGETS = (8_192, 32_768, 131_072)

LEAST_SPEEDUP = 300  # list in, list out, 4,096 lengths in 64 parts
MOST_OVER_BOUND = 0.005  # equal sizes on heavy tails


def drawn(pool: np.ndarray, budget: int, rng: np.random.Generator) -> tuple[np.ndarray, dict[str, Any]]:
    """One step: lengths, and options of `micro_batches`; which limits there are is drawn, too."""
    ranks = int(rng.choice([1, 2, 4, 8]))
    # Also steps with fewer samples than ranks or micro-batches.
    n = int(rng.integers(1, 24)) if rng.random() < 0.1 else int(rng.integers(24, 400))
    alignment = int(rng.choice([1, 1, 16, 64]))
    lengths = rng.choice(pool, n)
    lengths = lengths[-(-lengths // alignment) * alignment <= budget]
    options: dict[str, Any] = {"alignment": alignment, "multiple_of": int(rng.choice([1, 1, 2, 4]))}
    options["min_count"] = int(rng.choice([1, 1, 3]))
    options["order"] = str(rng.choice(["balanced", "descending", "sampler"]))
    chosen = {name: bool(rng.random() < 0.3) for name in ("padded", "group", "forbid", "equal_count", "rank_of")}
    if rng.random() < 0.3:
        options["max_items"] = int(rng.choice([4, 16, 64]))
    if chosen["padded"]:
        options["padded"] = True
    elif chosen["equal_count"]:
        lengths = lengths[: lengths.size // ranks * ranks]
        options["equal_count"] = True
    else:
        if chosen["group"]:
            options["group"] = grouped(-(-lengths // alignment) * alignment, budget, options.get("max_items", n))
        if chosen["forbid"]:
            kinds = rng.integers(0, 3, n)
            options["forbid"] = kinds[np.maximum(options["group"], 0)] if chosen["group"] else kinds[: lengths.size]
    if chosen["rank_of"] and "equal_count" not in options:
        lies = rng.integers(0, ranks, n)
        options["rank_of"] = lies[options["group"]] if "group" in options else lies[: lengths.size]
    return lengths, options | {"data_parallel_size": ranks}


def grouped(tokens: np.ndarray, budget: int, most: int) -> np.ndarray:
    """Up to four neighbours each, as many as fit."""
    labels = np.empty(tokens.size, np.int64)
    label, used, count = -1, budget, most
    for at, one in enumerate(tokens.tolist()):
        if used + one > budget or count >= min(most, 4):
            label, used, count = label + 1, 0, 0
        labels[at], used, count = label, used + one, count + 1
    return labels


def first_fit_decreasing(units: list[tuple[int, int, int]], budget: int, most: int) -> int:
    """Micro-batches for (tokens, samples, kind) units: the promise that counts are held against."""
    bins: list[list[int]] = []
    for tokens, count, kind in sorted(units, reverse=True):
        for one in bins:
            if one[0] + tokens <= budget and one[1] + count <= most and one[2] == kind:
                one[0] += tokens
                one[1] += count
                break
        else:
            bins.append([tokens, count, kind])
    return len(bins)


def promised(tokens: np.ndarray, budget: int, options: dict[str, Any]) -> tuple[int, int]:
    """The least and the largest count that may come out."""
    n, ranks = tokens.size, options["data_parallel_size"]
    most, multiple = options.get("max_items", n), options["multiple_of"]
    group = np.asarray(options.get("group", np.arange(n)))
    kinds = np.asarray(options.get("forbid", np.zeros(n, np.int64)))
    lies = options.get("rank_of")
    if options.get("padded"):
        parts = [tokens] if lies is None else [tokens[lies == rank] for rank in range(ranks)]
        counts = []
        for part in parts:
            count, left = 0, np.sort(part)[::-1]
            while left.size:
                count, left = count + 1, left[min(budget // int(left[0]), most) :]
            counts.append(count)
        needed = max(counts) if lies is not None else -(-counts[0] // ranks)
        count = -(-max(needed, options["min_count"]) // multiple) * multiple
        return count, count
    units: dict[int, list[int]] = {}
    for at, (label, one) in enumerate(zip(group.tolist(), tokens.tolist(), strict=True)):
        unit = units.setdefault(label, [0, 0, int(kinds[at]), 0 if lies is None else int(lies[at])])
        unit[0] += one
        unit[1] += 1
    rows = [[tuple(unit[:3]) for unit in units.values() if lies is None or unit[3] == rank] for rank in range(ranks)]
    if lies is not None:
        fewest = max(max(-(-sum(u[0] for u in row) // budget), -(-sum(u[1] for u in row) // most)) for row in rows)
        needed = max(first_fit_decreasing(row, budget, most) for row in rows)
    else:
        fewest = -(-max(-(-int(tokens.sum()) // budget), -(-n // most)) // ranks)
        needed = -(-first_fit_decreasing(rows[0], budget, most) // ranks)
    if options.get("equal_count"):  # dealt first: the count is that of a dealing which first fit knows nothing of
        needed = n // ranks
    least, largest = (-(-max(one, options["min_count"]) // multiple) * multiple for one in (fewest, needed))
    return least, largest


def verified(made: MicroBatches, lengths: np.ndarray, budget: int, options: dict[str, Any]) -> dict[str, int]:
    """How often each promise was broken."""
    alignment, padded = options["alignment"], options.get("padded", False)
    tokens = -(-lengths // alignment) * alignment
    ranks = [made.rank(rank) for rank in range(options["data_parallel_size"])]
    batches = [members for row in ranks for members in row]
    group, lies = options.get("group"), options.get("rank_of")
    least, largest = promised(tokens, budget, options)
    broken = dict.fromkeys(("over the budget", "empty", "counts", "conservation", "limits"), 0)
    for members in batches:
        used = len(members) * int(tokens[members].max(initial=0)) if padded else int(tokens[members].sum())
        broken["over the budget"] += used > budget
        broken["limits"] += len(members) > options.get("max_items", lengths.size)
        broken["limits"] += "forbid" in options and len(set(options["forbid"][members].tolist())) > 1
    for row in ranks:
        samples = np.asarray([sample for members in row for sample in members], np.int64)
        units = samples.size if group is None else len(set(group[samples].tolist()))
        broken["empty"] += sum(not members for members in row) != max(0, made.count - units)
        broken["counts"] += len(row) != made.count
    where = {sample: number for number, members in enumerate(batches) for sample in members}
    if group is not None:
        broken["limits"] += len({(int(group[sample]), number) for sample, number in where.items()}) != len(set(group))
    broken["limits"] += lies is not None and not np.array_equal(made.rank_of, lies)
    broken["limits"] += bool(options.get("equal_count")) and len(set(made.counts.sum(axis=1).tolist())) != 1
    broken["counts"] += made.count % options["multiple_of"] != 0 or not least <= made.count <= largest
    broken["conservation"] += sorted(made.items.tolist()) != list(range(lengths.size))
    broken["conservation"] += not np.array_equal(made.restore(lengths[made.permutation]), lengths)
    broken["conservation"] += int(made.lengths.sum()) != int(lengths.sum())
    return broken


def steps(count: int) -> dict[str, int]:
    """`count` steps of every file and budget, verified; prints times, and gaps where samples are dealt into rounds."""
    total: dict[str, int] = {}
    print(
        f"{'lengths':18} {'budget':>7} {'steps':>6} {'median gap':>11} {'largest':>8} {'median ms':>10} {'largest':>8}"
    )
    for name in FILES:
        file = DATA / "lengths" / f"{name}.npy"
        if not file.exists():
            print(f"no {file}")
            continue
        pool = np.load(file).astype(np.int64).reshape(len(np.load(file, mmap_mode="r")), -1).sum(axis=1)
        for budget in BUDGETS:
            fitting = pool[(pool > 0) & (pool <= budget)]
            gaps, seconds = [], []
            for seed in range(count):
                lengths, options = drawn(fitting, budget, np.random.default_rng([seed, budget]))
                if lengths.size == 0:
                    continue
                start = time.process_time()
                made = micro_batches(lengths, budget, **options)
                seconds.append(time.process_time() - start)
                for what, times in verified(made, lengths, budget, options).items():
                    total[what] = total.get(what, 0) + int(times)
                    if times:
                        print(f"BROKEN: {what}: {name}, budget {budget}, seed {seed}")
                if not options.get("padded") and "rank_of" not in options and options["order"] != "sampler":
                    gaps.append(made.gap)
            print(
                f"{name:18} {budget:7,} {len(seconds):6,} {np.median(gaps):11.5f} {max(gaps):8.4f} "
                f"{1e3 * np.median(seconds):10.2f} {1e3 * max(seconds):8.1f}"
            )
    return total


def speedup(n: int = 4_096, k: int = 64) -> float:
    """How many times as fast as the usual Python form, list in, list out, both measured here."""
    lengths = np.maximum(1, np.random.default_rng(1).lognormal(6.5, 1.0, n)).astype(np.int64).tolist()
    ours = get_seqlen_balanced_partitions(lengths, k, equal_size=False)
    start = time.process_time()
    theirs = textbook(lengths, k)
    slow = time.process_time() - start

    def sums(parts: list[list[int]]) -> list[int]:
        return sorted(sum(lengths[at] for at in part) for part in parts)

    assert sums(ours) == sums(theirs), "not the same differencing"
    fast = cpu_minimum(lambda: get_seqlen_balanced_partitions(lengths, k, equal_size=False), 10)
    print(f"\n{n:,} lengths in {k} parts: {1e3 * fast:.2f} ms, in plain Python {slow:.2f} s, {slow / fast:,.0f} times")
    return slow / fast


def equal_size_bound(values: np.ndarray, k: int) -> int:
    """No part of n / k values each can be below: the mean, or what the longest values and the shortest make together.

    Those parts that hold the j longest are i <= j; what they hold is at least these and the shortest.
    """
    n, size = values.size, values.size // k
    ascending = np.sort(values)
    longest = [0, *np.cumsum(ascending[::-1]).tolist()]
    shortest = [0, *np.cumsum(ascending).tolist()]
    bounds = [-(-longest[n] // k)]
    for j in range(1, k + 1):
        parts = range(-(-j // size), j + 1)
        bounds.append(min(-(-(longest[j] + shortest[i * size - j]) // i) for i in parts))
    return max(bounds)


def over_the_bound(seeds: int) -> float:
    """Equal sizes on heavy tails: the worst excess over the bound."""
    worst = 0.0
    for n, k in ((64, 8), (256, 8), (512, 32), (1024, 64), (4096, 64)):
        for deviation in (1.0, 1.5, 2.0):
            for seed in range(seeds):
                lengths = np.random.default_rng(seed).lognormal(6.0, deviation, n).astype(np.int64) + 1
                for values in (lengths, 24_576 * lengths + lengths**2):
                    parts = get_seqlen_balanced_partitions(values.tolist(), k, equal_size=True)
                    assert {len(part) for part in parts} == {n // k}
                    largest = max(int(values[part].sum()) for part in parts)
                    worst = max(worst, largest / equal_size_bound(values, k) - 1)
    print(f"equal sizes on heavy tails: at most {worst:.4%} over the bound")
    return worst


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="15 steps of every file and budget instead of 1,000")
    parser.add_argument("--steps", type=int, default=1_000, help="steps of every file and budget")
    arguments = parser.parse_args()
    quick = arguments.quick
    broken = steps(15 if quick else arguments.steps)
    print("broken promises: " + ", ".join(f"{what} {times}" for what, times in broken.items()))
    times, worst = speedup(), over_the_bound(2 if quick else 20)
    failed = []
    if any(broken.values()):
        failed.append("a promise was broken")
    if times < LEAST_SPEEDUP / slack(quick):
        failed.append(f"less than {LEAST_SPEEDUP} times as fast as plain Python")
    if worst > MOST_OVER_BOUND:
        failed.append(f"equal sizes more than {MOST_OVER_BOUND:.1%} over the bound")
    for what in failed:
        print(f"FAILED: {what}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
