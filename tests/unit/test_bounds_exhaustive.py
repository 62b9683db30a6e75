"""Lower bounds against the optimum of seeded small problems of every kind: never above it, and seldom far below."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from packing.bounds import lower_bound
from packing.problem import Problem
from tests.brute_force import best_score

OBJECTIVES: list[Any] = [
    "makespan",
    "balance",
    "rounds",
    {"name": "pipeline", "stages": 3},
    {"name": "components", "weights": {"encoder": 1, "llm": 1}},
]
SHAPES = [(1, 1), (2, 1), (3, 1), (4, 1), (1, 2), (2, 2), (1, 3), (3, 1), (2, 1), (4, 1)]


def random_problem(generator: np.random.Generator, objective: Any, limits: str) -> Problem:
    """With no limit, a tight cap, or any limits at once."""
    ranks, slots = SHAPES[generator.integers(len(SHAPES))]
    bins = ranks * slots
    count = int(generator.integers(bins, {1: 8, 2: 8, 3: 8, 4: 7}[bins] + 1))
    tokens = generator.integers(1, 13, count) if generator.random() < 0.7 else generator.integers(4, 7, count)
    work = tokens * (tokens + int(generator.integers(0, 30)))
    cost = work if generator.random() < 0.6 else generator.integers(0, 40, count)
    fields: dict[str, Any] = {"round_size": int(generator.choice([g for g in range(1, ranks + 1) if ranks % g == 0]))}
    if limits != "none":
        fields["capacity"] = _capacity(generator, tokens, bins)
    if limits == "many":
        fields |= _many(generator, count, fields["capacity"])
    setting = objective if isinstance(objective, dict) else {"name": objective}
    if setting["name"] == "components":
        fields.pop("pad_cost", None)
        encoder = generator.integers(0, cost + 1)
        fields["components"] = np.stack([encoder, cost - encoder], axis=1)
    return Problem(tokens=tokens, cost=cost, ranks=ranks, bins_per_rank=slots, objective=setting, **fields)


def _capacity(generator: np.random.Generator, tokens: Any, bins: int) -> Any:
    needed = max(int(tokens.max()), -(-int(tokens.sum()) // bins))
    tight = needed + int(generator.integers(0, 3))
    return tight if generator.random() < 0.8 else tight + generator.integers(0, 4, bins)


def _many(generator: np.random.Generator, count: int, capacity: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    chance = generator.random(8) < 0.3
    if chance[0]:
        fields["max_items"] = int(generator.integers(1, 5))
    if chance[1]:
        fields["equal_count"] = True
    if chance[2]:
        fields["group"] = generator.integers(-1, 3, count)
        fields["group_scope"] = str(generator.choice(["bin", "rank"]))
    if chance[3]:
        fields["forbid"] = generator.integers(0, 2, count)
    if chance[4]:
        fields["footprints"] = generator.integers(0, 6, (count, 1))
        fields["budgets"] = [int(generator.integers(6, 20))]
    if chance[5]:
        fields["pad_cost"] = generator.integers(0, 40, int(np.max(capacity)) + 1)
    if chance[6]:
        fields["pad_cost"] = int(generator.integers(1, 20)) * np.arange(int(np.max(capacity)) + 1)
    if chance[7]:
        fields["oversized"] = "single"
        fields["capacity"] = np.maximum(1, np.asarray(capacity) - 3)
        if np.ndim(capacity) == 0:
            fields["capacity"] = int(fields["capacity"])
        fields.pop("pad_cost", None)
    return fields


@pytest.mark.parametrize("limits", ["none", "cap", "many"])
@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda one: one if isinstance(one, str) else one["name"])
def test_no_bound_is_above_the_optimum(objective, limits):
    generator = np.random.default_rng(len(limits))
    ratios = []
    for _ in range(200):
        problem = random_problem(generator, objective, limits)
        best = best_score(problem)
        if best is None:
            continue
        bound = lower_bound(problem)
        assert bound.score <= best, (problem, bound, best)
        assert lower_bound(problem, effort=0).score <= bound.score
        # What is proven does not depend on how good a layout is known.
        assert lower_bound(problem, reached=best).score == bound.score, problem
        ratios.append(bound.score / best if best else 1.0)
    assert len(ratios) >= 40
    assert np.median(ratios) >= 0.95
