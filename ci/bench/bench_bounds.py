"""Lower bounds against optima that CP-SAT proves, on small steps of real lengths: never above, and how close."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from packing.bounds import lower_bound
from packing.problem import Problem

SEED = 41
LEAST_MEDIAN = 0.995
LINEAR = 49152  # of an 8B-class dense model, as the estimator "attention" has it
DATA = Path(os.environ.get("PACKING_DATA", Path(__file__).resolve().parents[3] / "shared" / "data")) / "lengths"
CAPS = {  # of the files that are read
    "openchat_v1": 8192,
    "servegen_r1": 32768,
    "wlbllm_docs": 65536,
    "docs_mixed": 16384,
    "code_python_files": 32768,
}


@dataclass(frozen=True)
class Kind:
    """A kind of step: `fill` is the share of the caps that is used (None: no cap), `full` makes every pack full."""

    name: str
    ranks: int
    rounds: int = 1
    per_pack: float = 4.0
    fill: float | None = None
    full: bool = False


KINDS = [
    *(Kind(f"{fill:.1%} full, {ranks} ranks", ranks, fill=fill) for fill in (0.9, 0.97, 0.995) for ranks in (4, 6, 8)),
    Kind("no cap, 4 ranks", 4),
    Kind("no cap, 8 ranks", 8),
    Kind("window of 3 x 2 ranks, 97.0% full", 2, rounds=3, per_pack=3, fill=0.97),
    Kind("window of 2 x 2 ranks, 97.0% full", 2, rounds=2, fill=0.97),
    Kind("window of 2 x 3 ranks, 90.0% full", 3, rounds=2, per_pack=3, fill=0.9),
    Kind("window of 2 x 2 ranks, no cap", 2, rounds=2),
    Kind("exactly full, 4 ranks", 4, full=True),
    Kind("exactly full, 6 ranks", 6, full=True),
    Kind("exactly full, 2 x 3 ranks", 3, rounds=2, full=True),
]


def lengths_of(name: str) -> np.ndarray:
    """int64 total lengths of a file of real ones."""
    rows = np.load(DATA / f"{name}.npy")
    if rows.ndim == 2:
        rows = rows[:, :2].sum(axis=1) if name == "servegen_r1" else rows[:, 0]
    return rows[rows > 0].astype(np.int64)


def instance(kind: Kind, name: str, generator: np.random.Generator) -> Problem:
    """Consecutive samples of a random place in the file, cut at the cap; a sample costs tokens * (tokens + LINEAR)."""
    lengths, bins = lengths_of(name), kind.ranks * kind.rounds
    count = round(bins * kind.per_pack)
    from_here = np.roll(lengths, -int(generator.integers(lengths.size)))
    tokens = np.minimum(from_here[:count], CAPS[name])
    capacity: int | None = None
    if kind.full:
        tokens, capacity = dealt_into_full_packs(from_here, CAPS[name] // 4, bins)
    elif kind.fill is not None:
        capacity = max(int(tokens.max()), int(np.ceil(tokens.sum() / bins / kind.fill)))
    cost = tokens * (tokens + LINEAR)
    objective = "rounds" if kind.rounds > 1 else "makespan"
    return Problem(tokens=tokens, cost=cost, ranks=bins, round_size=kind.ranks, capacity=capacity, objective=objective)


def dealt_into_full_packs(lengths: np.ndarray, capacity: int, bins: int) -> tuple[np.ndarray, int]:
    """Samples in order, the last one of each pack cut so that the pack is full."""
    tokens: list[int] = []
    at = 0
    for _ in range(bins):
        room = capacity
        while room:
            tokens.append(min(int(lengths[at]), room))
            room -= tokens[-1]
            at += 1
    return np.asarray(tokens), capacity


def optimum(problem: Problem, seconds: float) -> int | None:
    """The score that CP-SAT proves to be the smallest, or None where it does not within the time."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    bins, count = problem.num_bins, problem.num_samples
    cost, tokens = problem.cost.tolist(), problem.tokens.tolist()
    place = [[model.new_bool_var("") for _ in range(bins)] for _ in range(count)]
    loads = [model.new_int_var(0, sum(cost), "") for _ in range(bins)]
    for row in place:
        model.add_exactly_one(row)
    for b, load in enumerate(loads):
        column = [row[b] for row in place]
        model.add(load == cp_model.LinearExpr.weighted_sum(column, cost))
        model.add_at_least_one(column)
        if problem.capacity is not None:
            model.add(cp_model.LinearExpr.weighted_sum(column, tokens) <= int(problem.capacity))
        if b:
            model.add(loads[b - 1] >= load)
    step = problem.round_size if problem.objective.name == "rounds" else bins
    model.minimize(sum(loads[::step]))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 1
    return round(solver.objective_value) if solver.solve(model) == cp_model.OPTIMAL else None


def measure(names: list[str], wanted: int, seconds: float) -> list[tuple[str, Problem, int]]:
    """Instances with a proven optimum, kinds and files in turn; one line a kind."""
    generator = np.random.default_rng(SEED)
    proven: list[tuple[str, Problem, int]] = []
    tried: Counter[str] = Counter()
    while len(proven) < wanted:
        for kind in KINDS:
            for name in names:
                problem = instance(kind, name, generator)
                best = optimum(problem, seconds)
                tried[kind.name] += 1
                if best is not None:
                    proven.append((kind.name, problem, best))
        print(f"{sum(tried.values())} tried, {len(proven)} proven", file=sys.stderr, flush=True)
    print(f"{'kind':36} {'tried':>6} {'proven':>7} {'violations':>11} {'median':>8} {'mean':>8} {'worst':>8}  binding")
    for kind in KINDS:
        rows = [(lower_bound(problem), best) for name, problem, best in proven if name == kind.name]
        ratios = [bound.score / best for bound, best in rows] or [float("nan")]
        binding = Counter(bound.name for bound, _ in rows).most_common()
        terms = ", ".join(f"{name} {times}" for name, times in binding)
        figures = f"{np.median(ratios):8.4f} {np.mean(ratios):8.4f} {min(ratios):8.4f}"
        above = sum(bound.score > best for bound, best in rows)
        print(f"{kind.name:36} {tried[kind.name]:6} {len(rows):7} {above:11} {figures}  {terms}")
    return proven


def speed() -> bool:
    """Milliseconds of a bound; returns whether the limits are kept."""
    kept = True
    generator = np.random.default_rng(SEED)
    for count, ranks, limit in ((1024, 64, 1.5), (16384, 512, 6.0)):
        tokens = np.minimum(generator.choice(lengths_of("wlbllm_docs"), count), 32768)
        cost = tokens * (tokens + LINEAR)
        capacity = max(int(tokens.max()), int(1.02 * tokens.sum() / ranks))
        for objective in ("makespan", "rounds"):
            problem = Problem(
                tokens=tokens, cost=cost, ranks=ranks, round_size=ranks // 4, capacity=capacity, objective=objective
            )
            mean = -(-int(cost.sum()) // (ranks // 4 if objective == "rounds" else ranks))
            every, met = (
                milliseconds(lambda p=problem: lower_bound(p)),
                milliseconds(lambda p=problem, score=mean: lower_bound(p, reached=score)),
            )
            print(f"{count} samples, {ranks} ranks, {objective}: {every:.3f} ms, {met:.3f} ms where the mean is met")
            kept = kept and every <= limit and met <= 0.1
    return kept


def milliseconds(call: Any, repeat: int = 20) -> float:
    """The least CPU time."""
    times = []
    for _ in range(repeat):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return 1e3 * min(times)


def main() -> int:
    """Runs the comparison; 1 where a bound is above an optimum or the bounds are too far below."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round of the kinds with two files, 0.3 seconds each")
    parser.add_argument("--instances", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=1.0)
    arguments = parser.parse_args()
    if not DATA.exists():
        print(f"no lengths in {DATA}: nothing to measure")
        return 0
    kept = speed()
    if importlib.util.find_spec("ortools") is None:
        print("without ortools there are no optima to compare with")
        return 0 if kept else 1
    names = ["openchat_v1", "wlbllm_docs"] if arguments.quick else list(CAPS)
    wanted, seconds = (1, 0.3) if arguments.quick else (arguments.instances, arguments.seconds)
    proven = measure(names, wanted, seconds)
    ratios = [lower_bound(problem).score / best for _, problem, best in proven]
    above = sum(ratio > 1 for ratio in ratios)
    print(f"{len(proven)} proven optima: {above} violations, median bound/optimum {np.median(ratios):.5f}")
    return 0 if kept and above == 0 and np.median(ratios) >= LEAST_MEDIAN else 1


if __name__ == "__main__":
    sys.exit(main())
