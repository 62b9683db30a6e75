"""This package: every algorithm that takes part, by name."""

from functools import partial

import numpy as np

from adapters import Method, Step
from packing import pack
from packing.assignment import Assignment
from packing.problem import Problem
from packing.registry import listing, resolve_algorithm

DISTRIBUTION = "packing"


def fewest(algorithm: str, step: Step) -> list[list[int]]:
    return pack(step.lengths, step.capacity, algorithm=algorithm).to_lists()


def assign(algorithm: str, step: Step) -> list[list[int]]:
    problem = Problem(
        tokens=step.lengths, cost=np.array(step.costs), ranks=step.ranks or 1,
        bins_per_rank=None if step.ranks is None else 1, capacity=step.capacity,
    )  # fmt: skip
    layout: Assignment | None = resolve_algorithm(algorithm).instance.assign(problem)
    return [] if layout is None else layout.to_bins()


NAMES = {row["name"] for row in listing() if row["kind"] == "algorithm"}
TASKS = {
    "auto": ("packs", "balance", "capped"),
    "exact_fill": ("packs",),
    "combine": ("balance",),
    "level_multifit": ("balance", "capped"),
    "lpt": ("balance", "capped"),
    "kk": ("balance", "capped"),
}
METHODS = {"best_fit_decreasing": Method(("packs",), partial(fewest, "best_fit_decreasing"))} | {
    name: Method(tasks, partial(assign, name)) for name, tasks in TASKS.items() if name in NAMES
}
