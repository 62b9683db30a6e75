"""Plans through the public door: time of one plan, and how close to the bound equal counts come."""

from __future__ import annotations

import argparse
import heapq
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from timing import argsort_seconds, cpu_minimum, slack

from packing import Planner
from packing.algorithms.placement import LPT
from packing.problem import Problem

DATA = Path(os.environ.get("PACKING_DATA", Path(__file__).resolve().parents[3] / "shared" / "data")) / "lengths"


def lengths_of(name: str, count: int, longest: int, seed: int = 0) -> np.ndarray:
    """`count` real lengths of at most `longest` tokens, drawn with a fixed seed; lognormal without the data folder."""
    generator = np.random.default_rng(seed)
    path = DATA / f"{name}.npy"
    if not path.exists():
        drawn = generator.lognormal(7.6, 1.1, 4 * count + 100).astype(np.int64) + 1
    else:
        rows = np.load(path).astype(np.int64)
        drawn = rows if rows.ndim == 1 else rows[:, :2].sum(axis=1)
    return generator.choice(drawn[drawn <= longest], count)


def checked(plan: Any, capacity: int | None) -> Any:
    """The plan, after its answer was checked: every sample once, caps kept, no bin empty."""
    assert sorted(plan.items.tolist()) == list(range(plan.num_samples))
    assert np.diff(plan.offsets).min() > 0
    assert capacity is None or plan.bin_tokens.max() <= capacity
    return plan


def plain_lpt(cost: list[int], tokens: list[int], ranks: int, slots: int, capacity: int) -> list[list[int]]:
    """The usual Python form: for every sample the best of all bins, kept in lists."""
    bins: list[list[int]] = [[] for _ in range(ranks * slots)]
    used, load, rank_tokens = [0] * (ranks * slots), [0] * ranks, [0] * ranks
    for position, sample in enumerate(sorted(range(len(cost)), key=lambda i: (-cost[i], -tokens[i], i))):
        best = None
        for index, members in enumerate(bins):
            left = capacity - used[index] - tokens[sample]
            if left < 0 or (position < len(bins) and members):
                continue
            rank = index // slots
            key = (load[rank], left, rank_tokens[rank], rank, index)
            if best is None or key < best:
                best = key
        assert best is not None
        rank, index = best[3], best[4]
        bins[index].append(sample)
        used[index] += tokens[sample]
        load[rank] += cost[sample]
        rank_tokens[rank] += tokens[sample]
    return bins


def equal_size_differencing(cost: np.ndarray, ranks: int) -> float:
    """The usual equal-size differencing (a heap of states in Python): its largest load."""
    order = np.sort(cost)[::-1].tolist()
    states = []
    for number, start in enumerate(range(0, len(order), ranks)):
        part = order[start : start + ranks]
        states.append((part[-1] - part[0], number, part))
    heapq.heapify(states)
    number = len(states)
    while len(states) > 1:
        (_, _, one), (_, _, other) = heapq.heappop(states), heapq.heappop(states)
        sums = sorted((a + b for a, b in zip(one, reversed(other), strict=True)), reverse=True)
        heapq.heappush(states, (sums[-1] - sums[0], number, sums))
        number += 1
    return float(states[0][2][0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, smaller Python forms")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    repeat = 5 if arguments.quick else 20
    figures: dict[str, float] = {"argsort_1e6_ms": argsort_seconds(repeat=repeat) * 1e3}
    print(f"np.argsort of 1e6 int64: {figures['argsort_1e6_ms']:.1f} ms of CPU (minimum of {repeat})\n")

    def bar(name: str, value: float, limit: float, unit: str) -> None:
        figures[name] = value
        print(f"{name:<62} {value:10.4g} {unit:<9} (bar {limit:g})")
        room = slack(arguments.quick) if unit == "ms" else 1.0  # a gap is the same on every machine
        assert value <= limit * room, f"{name}: {value} is over {limit}"

    step = lengths_of("servegen_r1", 1024, 32768)
    for algorithm in ("lpt", "kk"):
        for estimator in ("tokens", "attention"):
            planner = Planner(data_parallel_size=64, seq_len=65536, algorithm=algorithm, estimator=estimator)
            checked(planner.plan(step), 65536)
    chats = lengths_of("openchat_v1", 1024, 32768)
    for algorithm in ("lpt", "kk"):
        planner = Planner(
            data_parallel_size=64, seq_len=32768, local_batch_size=1, algorithm=algorithm, estimator="attention"
        )
        checked(planner.plan(chats), 32768)
        bar(
            f"Planner.plan {algorithm}, 1,024 samples, 64 ranks, 32k",
            cpu_minimum(lambda p=planner: p.plan(chats), repeat) * 1e3,
            2,
            "ms",
        )

    for count, slots, limit in ((8192, 1, 15), (16384, 4, 40)):
        documents = lengths_of("wlbllm_docs", count, 32768)
        capacity = max(32768, int(documents.sum() / (512 * slots) / 0.9))
        cost = documents * documents + 49152 * documents
        problem = Problem(tokens=documents, cost=cost, ranks=512, bins_per_rank=slots, capacity=capacity)
        layout = LPT().assign(problem)
        assert layout is not None
        name = f"lpt, {count:,} samples, 512 ranks x {slots}"
        bar(name, cpu_minimum(lambda p=problem: LPT().assign(p), repeat) * 1e3, limit, "ms")
        if not arguments.quick:
            start = time.process_time()
            expected = plain_lpt(cost.tolist(), documents.tolist(), 512, slots, capacity)
            plain = time.process_time() - start
            assert layout.to_bins() == expected, "the kernel and the usual Python form differ"
            figures[f"{name}, usual Python form, s"] = plain
            print(f"{'  the usual Python form, same bins':<62} {plain:10.4g} s")

    for count, ranks in ((256, 16), (1024, 64), (4096, 64)):
        worst, usual = 0.0, []
        for seed in range(10 if arguments.quick else 50):
            documents = lengths_of("wlbllm_docs", count, 32768, seed)
            plan = checked(
                Planner(
                    data_parallel_size=ranks, algorithm="equal_count", equal_count=True, estimator="attention"
                ).plan(documents),
                None,
            )
            assert set(np.diff(plan.offsets).tolist()) == {count // ranks}
            worst = max(worst, plan.gap)
            usual.append(equal_size_differencing(plan.fixed_costs, ranks) / plan.bound.score - 1)
        bar(f"equal_count, documents <= 32k, {count} x {ranks}, worst gap", worst * 100, 0.1, "%")
        print(f"{'  the usual equal-size differencing, median gap':<62} {np.median(usual) * 100:10.4g} %")
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
