"""Reachability tables against Python's big integers, and feasible_lpt through the planner and against its twin."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from bench_plan import checked, lengths_of
from timing import argsort_seconds, cpu_minimum, slack

from packing import Planner
from packing._kernels import feasible, reach
from packing._reference import feasible as twin
from packing.partition import descending_order

CAPACITY = 131072


def big_integers(tokens: list[int], capacity: int) -> list[int]:
    """The whole table as a Python programmer writes it: one big integer a row."""
    rows, mask = [1], (2 << capacity) - 1
    for length in reversed(tokens):
        rows.append((rows[-1] | (rows[-1] << length)) & mask)
    return rows[::-1]


def interleaved(one: Callable[[], object], other: Callable[[], object], repeat: int) -> tuple[float, float]:
    """The least CPU seconds of two functions that take turns, so that both see the same machine."""
    best = [float("inf")] * 2
    for _ in range(repeat):
        for index, function in enumerate((one, other)):
            best[index] = min(best[index], cpu_minimum(function, 1))
    return best[0], best[1]


def real_pair(seed: int = 0) -> np.ndarray:
    """Real documents that fill two packs of `CAPACITY` tokens to 99.9 %, by cost (that is, by length) descending."""
    documents = lengths_of("wlbllm_docs", 4000, 32768, seed)
    kept, total = [], 0
    for length in documents.tolist():
        if total + length <= 2 * CAPACITY - 200:
            kept.append(length)
            total += length
    return np.sort(np.asarray(kept, np.int64))[::-1].copy()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    repeat = 5 if arguments.quick else 20
    figures = {"argsort_1e6_ms": argsort_seconds(repeat=repeat) * 1e3}
    print(f"np.argsort of 1e6 int64: {figures['argsort_1e6_ms']:.1f} ms of CPU (minimum of {repeat})\n")

    room = slack(arguments.quick)

    def note(name: str, value: float, unit: str, least: float | None = None, most: float | None = None) -> None:
        figures[name] = value
        bar = (
            ""
            if least is most is None
            else f"(bar {'>=' if most is None else '<='} {least if most is None else most:g})"
        )
        print(f"{name:<64} {value:10.4g} {unit:<6} {bar}")
        assert least is None or value >= least / room, f"{name}: {value} is below {least}"
        assert most is None or value <= most * room, f"{name}: {value} is over {most}"

    tokens = np.random.default_rng(0).integers(1, 1024, 512)  # what two packs hold
    table = np.empty((513, reach.words(CAPACITY)), np.uint64)
    ours, theirs = interleaved(
        lambda: reach.full_table(tokens, CAPACITY, table), lambda: big_integers(tokens.tolist(), CAPACITY), repeat
    )
    for row, expected in zip(table, big_integers(tokens.tolist(), CAPACITY), strict=True):
        assert int.from_bytes(row.astype("<u8").tobytes(), "little") == expected
    note("full table, 512 samples x 128k", ours * 1e3, "ms")
    note("  against big integers", theirs / ours, "x", least=3)

    pair = real_pair()
    first_word, offsets = np.empty(pair.size + 1, np.int64), np.empty(pair.size + 2, np.int64)
    window = np.empty(reach.window_offsets(pair, CAPACITY, first_word, offsets), np.uint64)

    def windowed() -> None:
        reach.window_offsets(pair, CAPACITY, first_word, offsets)
        reach.window_table(pair, CAPACITY, first_word, offsets, window)

    ours, theirs = interleaved(windowed, lambda: big_integers(pair.tolist(), CAPACITY), repeat)
    full, rest = big_integers(pair.tolist(), CAPACITY), int(pair.sum())
    for row in range(pair.size + 1):
        low, high = max(0, rest - CAPACITY), min(rest, CAPACITY)
        kept = int.from_bytes(window[offsets[row] : offsets[row + 1]].astype("<u8").tobytes(), "little")
        assert kept << (64 * int(first_word[row])) == full[row] & ((2 << high) - 1) & ~((1 << low) - 1)
        rest -= int(pair[row]) if row < pair.size else 0
    note(f"windowed table, a real pair of {pair.size} documents x 128k", ours * 1e3, "ms")
    note("  against big integers (whole table)", theirs / ours, "x", least=10)
    last_start, memory = np.empty(CAPACITY + 1, np.int32), np.empty(reach.latest_workspace(CAPACITY), np.uint8)
    seconds = cpu_minimum(lambda: reach.latest(pair, CAPACITY, last_start, memory), repeat)
    assert all(
        (int(last_start[s]) >= row) == bool(full[row] >> s & 1) for row in (0, 9) for s in range(0, CAPACITY, 997)
    )
    note("one number per sum, the same pair", seconds * 1e3, "ms")
    note("  memory against the whole table", window.size / ((pair.size + 1) * reach.words(CAPACITY)), "x", most=0.6)

    for name, count, ranks, window_size, capacity, most in (
        ("openchat_v1", 1024, 64, 1, 32768, 10),
        ("wlbllm_docs", 1024, 32, 8, 32768, 60),
        ("servegen_r1", 1024, 32, 8, 32768, 60),
        ("openchat_v1", 8192, 512, 1, 32768, 100),
        ("wlbllm_docs", 8192, 512, 1, 65536, 100),
    ):
        step = lengths_of(name, count, 32768)
        planner = Planner(
            data_parallel_size=ranks, window=window_size, seq_len=capacity, local_batch_size=1,
            algorithm="feasible_lpt", estimator="attention",
        )  # fmt: skip
        checked(planner.plan(step), capacity)
        label = f"feasible_lpt, {name}, {count:,} samples, {ranks} ranks x {window_size} rounds"
        note(label, cpu_minimum(lambda p=planner, s=step: p.plan(s), repeat) * 1e3, "ms", most=most)

    against_the_twin(note, arguments.quick)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")


def against_the_twin(note: Callable[..., None], quick: bool) -> None:
    """Pair repair of 8 rounds x 32 ranks by both implementations, from the same layout."""
    step = lengths_of("wlbllm_docs", 1024, 32768)
    cost = step * step + 49152 * step
    start = Planner(
        data_parallel_size=32, window=8, seq_len=32768, local_batch_size=1, algorithm="lpt", estimator="attention"
    ).plan(step)
    order = descending_order(cost, step)
    pairs = 4 if quick else 16
    seconds, answers = [], []
    for module in (feasible, twin):
        offsets, items = start.offsets.copy(), start.items.copy()
        entries = 1 + min(32768, int(step.sum()))
        memory = np.empty(module.repair_pairs_workspace(items.size, 256, entries, pairs), np.uint8)
        begin = time.process_time()
        module.repair_pairs(step, cost, order, 32768, np.empty(0, np.int64), 32, 0, pairs, offsets, items, memory)
        seconds.append(time.process_time() - begin)
        answers.append((offsets.tolist(), items.tolist()))
    assert answers[0] == answers[1], "the kernel and its twin differ"
    note(f"pair repair, 8 rounds x 32 ranks, {pairs} attempts: kernel", seconds[0] * 1e3, "ms")
    note("  against its plain twin", seconds[1] / seconds[0], "x", least=100)


if __name__ == "__main__":
    main()
