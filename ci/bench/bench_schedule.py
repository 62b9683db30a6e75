"""Whole micro-batches re-assigned to ranks: time, and what a production trace of a 1F1B job would gain."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import time
from pathlib import Path

import numpy as np
from pipeline_replay import replay
from timing import slack

from packing import schedule_rounds

MOST_MICROSECONDS = 200.0
MOST_SLOWDOWN = 1.195
TRACE = (
    Path(os.environ.get("PACKING_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
    / "timings"
    / "straggler_trace_SE.parquet"
)


def read_trace(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Times of the forward and backward computations, float64[steps, ranks, stages, micro-batches]."""
    names = ["step", "dp_rank", "stage", "mb_id", "duration"]
    pyarrow = importlib.import_module("pyarrow.parquet")
    table = pyarrow.read_table(path, columns=["optype", *names])
    kind = np.asarray(table["optype"].to_pylist())
    step, rank, stage, batch, duration = (table[name].to_numpy() for name in names)
    step = np.unique(step, return_inverse=True)[1]
    times = []
    for wanted in ("forward-compute", "backward-compute"):
        chosen = kind == wanted
        where = tuple(column[chosen] for column in (step, rank, stage, batch))
        out = np.full([int(column.max()) + 1 for column in where], np.nan)
        out[where] = duration[chosen]
        assert not np.isnan(out).any()
        times.append(out)
    return times[0], times[1]


def slowdowns(forward: np.ndarray, backward: np.ndarray) -> dict[str, float]:
    """Mean over the steps of the replayed step time over that of perfectly equal operations on all ranks and stages."""
    num_steps, ranks, stages, _ = forward.shape

    def step_time(one: np.ndarray, other: np.ndarray) -> np.ndarray:
        return replay(one, other).max(axis=1)

    def level(times: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
        return np.broadcast_to(times.mean(axis=axes, keepdims=True), times.shape)

    ideal = step_time(level(forward, (1, 2, 3)), level(backward, (1, 2, 3)))
    by_stage = step_time(level(forward, (1, 3)), level(backward, (1, 3)))
    results = {"as it ran": step_time(forward, backward), "equal micro-batches, stages as they are": by_stage}
    # The scheduler sees one number for each micro-batch: its work on all stages.
    loads = (forward + backward).sum(axis=2)
    for name, keep in (("small at both ends, ranks kept", True), ("schedule_rounds", False)):
        moved = []
        for times in (forward, backward):
            packs = times.transpose(0, 1, 3, 2).reshape(num_steps, -1, stages)
            rows = [
                packs[s][schedule_rounds(loads[s], ranks, stages=stages, keep_ranks=keep)] for s in range(num_steps)
            ]
            moved.append(np.stack(rows).transpose(0, 1, 3, 2))
        results[name] = step_time(*moved)
    return {name: float((times / ideal).mean()) for name, times in results.items()}


def orders(steps: int) -> None:
    """Print how the order compares with random ones on equal stages, by exact replay."""
    generator = np.random.default_rng(8)
    print("\norder inside a rank, equal stages, backward = 2 x forward: replay over the work of a stage")
    for stages, count in ((2, 8), (4, 8), (4, 16), (8, 16)):
        rows = []
        for _ in range(steps):
            loads = generator.lognormal(0, 0.6, count)
            chosen = schedule_rounds(loads, 1, stages=stages, keep_ranks=True)
            random = np.stack([generator.permutation(count) for _ in range(500)])
            tried = np.concatenate([chosen, random])
            forward = np.broadcast_to(loads[tried][:, None, :], (len(tried), stages, count))
            ends = replay(forward, 2 * forward) / (3 * loads.sum())
            rows.append([ends[0], ends[1:].min(), ends[1:].mean()])
        ours, best, mean = np.mean(rows, axis=0)
        print(f"{stages} stages, {count:2} micro-batches: {ours:.4f}, best of 500 random {best:.4f}, mean {mean:.4f}")


def microseconds(repeat: int) -> float:
    """The least CPU time for 512 packs, of the slowest shape; each printed."""
    loads = (np.random.default_rng(7).lognormal(0, 0.6, 512) * 1e6).astype(np.int64)
    slowest = 0.0
    for ranks, stages, keep in ((64, None, False), (64, 1, False), (64, 4, False), (8, 4, False), (64, 4, True)):
        times = []
        for _ in range(repeat):
            start = time.process_time()
            schedule_rounds(loads, ranks, stages=stages, keep_ranks=keep)
            times.append(time.process_time() - start)
        least = 1e6 * min(times)
        slowest = max(slowest, least)
        print(f"512 packs on {ranks} ranks, stages {stages}, keep_ranks {keep}: {least:.0f} us")
    return slowest


def main() -> int:
    """Runs the measurements; 1 where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions and steps")
    quick = parser.parse_args().quick
    kept = microseconds(20 if quick else 200) <= MOST_MICROSECONDS * slack(quick)
    orders(5 if quick else 100)
    if TRACE.exists() and importlib.util.find_spec("pyarrow"):
        forward, backward = read_trace(TRACE)
        found = slowdowns(forward[:8], backward[:8]) if quick else slowdowns(forward, backward)
        print("\nstep time of the trace over perfectly equal operations:")
        for name, value in found.items():
            print(f"{name:42} {value:.4f}")
        kept = kept and found["schedule_rounds"] <= MOST_SLOWDOWN
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
