"""Plans the same seeded steps with every built-in and prints one digest of all plans; see `determinism.sh`.

It is run by every configuration that must agree, so it needs nothing but `packing` and prints nothing else.
"""

from __future__ import annotations

import argparse
import hashlib
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import numpy as np

from packing import Planner
from packing.errors import ConfigError, PackingError, UnsupportedProblemError

RANKS = 3
EFFORT = 2
"""Checks per sample: few enough for the plain twins, and still some moves, kicks and splits of pairs."""

ALGORITHMS: list[Any] = [
    {"name": "auto", "effort": EFFORT},
    {"name": "auto", "effort": EFFORT, "extra_packs": RANKS},
    {"name": "exchange", "effort": EFFORT},
    {"name": "exact_fill", "effort": 200},
    {"name": "feasible_lpt", "max_repair_pairs": 6},
    "lpt", "kk", "combine", "level_multifit", "equal_count",
    "first_fit", "first_fit_decreasing", "best_fit_decreasing", "next_fit", "none",
]  # fmt: skip

OBJECTIVES: list[Any] = [
    "makespan",
    "balance",
    "rounds",
    {"name": "pipeline", "stages": 4},
    {"name": "components", "weights": {"encoder": 0.75, "llm": 1}},
]

LIMITS: list[dict[str, Any]] = [
    {"local_batch_size": 1},
    {"local_batch_size": 2, "seq_len": 6000},
    {"seq_len": 4000, "alignment": 64, "oversized_policy": "single"},
    {"local_batch_size": 1, "seq_len": 8000, "window": 3},
    {"local_batch_size": 2, "seq_len": 6000, "packing_budgets": {"images": 40.5}, "max_items": 8},
    {"local_batch_size": 3, "seq_len": 6000, "group": "prompt", "group_scope": "bin"},
    {"local_batch_size": 2, "seq_len": 8000, "group": "prompt", "group_scope": "rank"},
    {"local_batch_size": 3, "seq_len": 6000, "forbid": "adapter"},
    {"local_batch_size": 2, "seq_len": 6000, "padding_cost": {"linear": 3, "quadratic": 0.5}},
    {"local_batch_size": 2, "seq_len": 8000, "equal_count": True},
]


def steps(quick: bool) -> list[tuple[Planner, dict[str, np.ndarray]]]:
    """Every algorithm under every objective and set of limits, with the columns of a step for each."""
    found = []
    for seed in range(1 if quick else 3):
        for number, limits in enumerate(LIMITS):
            columns = step_columns(10 * seed + number)
            for objective in OBJECTIVES:
                for algorithm in ALGORITHMS:
                    try:
                        planner = Planner(
                            data_parallel_size=RANKS, objective=objective, algorithm=algorithm, estimator=None, **limits
                        )
                    except ConfigError:
                        continue  # components and padding costs exclude each other
                    found.append((planner, columns))
    return found


def step_columns(seed: int) -> dict[str, np.ndarray]:
    """24 samples with heavy-tailed lengths, keyed in no order."""
    random = np.random.default_rng(seed)
    length = 64 + random.integers(0, 1000, 24) * (1 + 3 * (random.integers(0, 8, 24) == 0))
    encoder = random.integers(0, 1 << 20, 24)
    llm = length * (49152 + length)
    return {
        "length": length,
        "key": random.permutation(24),
        "cost": encoder + llm,
        "encoder": encoder,
        "llm": llm,
        "images": random.integers(0, 40, 24) / 8,
        "prompt": np.where(random.integers(0, 2, 24), -1, random.integers(0, 6, 24)),
        "adapter": random.integers(0, 2, 24),
    }


def outcome(planner: Planner, columns: dict[str, np.ndarray]) -> str:
    """The digest of a plan, or why there is none; that, too, must be the same everywhere."""
    try:
        return planner.plan(columns).digest
    except UnsupportedProblemError:
        return "unsupported"
    except PackingError as error:
        return type(error).__name__


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one seed instead of three")
    parser.add_argument("--permuted", action="store_true", help="the samples, with the same keys, in another order")
    parser.add_argument("--threads", type=int, default=1, help="so many threads plan every step at once")
    options = parser.parse_args()
    planned = steps(options.quick)
    if options.permuted:
        order = np.random.default_rng(99).permutation(24)
        planned = [(planner, {name: column[order] for name, column in columns.items()}) for planner, columns in planned]
    together = Barrier(options.threads)

    def plan_all(_: int) -> list[str]:
        together.wait()
        return [outcome(*step) for step in planned]

    with ThreadPoolExecutor(options.threads) as pool:
        answers = list(pool.map(plan_all, range(options.threads)))
    if any(answer != answers[0] for answer in answers):
        raise SystemExit("threads that planned the same steps at once do not agree")
    plans = sum(len(one) == 64 for one in answers[0])
    if plans < len(planned) // 3:
        raise SystemExit(f"only {plans} of {len(planned)} steps have a plan: too few to compare")
    print(hashlib.sha256("\n".join(answers[0]).encode()).hexdigest())


if __name__ == "__main__":
    main()
