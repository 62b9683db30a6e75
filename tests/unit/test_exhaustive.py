"""Tiny steps: the best layout there is, by every objective and limit that the exhaustive search knows."""

from __future__ import annotations

import numpy as np
import pytest

from packing import Problem
from packing.algorithms._exhaustive import MOST_SAMPLES, can_exhaust, exhausted
from packing.algorithms.auto import Auto
from packing.audit import is_valid
from packing.partition import descending_order
from tests.brute_force import best_score

MANY = 10**6


def tiny_problem(seed: int) -> Problem:
    """Up to eight samples under caps that are 85 to 100 % full; some cannot be laid out at all."""
    generator = np.random.default_rng(seed)
    bins_per_rank = int(generator.integers(1, 3))
    ranks = int(generator.integers(2, 5)) if bins_per_rank == 1 else 2
    num_bins = ranks * bins_per_rank
    count = int(generator.integers(num_bins, 9 if num_bins < 4 else 8))
    tokens = generator.integers(1, (8, 60, 2000)[seed % 3], count)
    capacity = max(int(tokens.max()), int(tokens.sum() / (num_bins * generator.uniform(0.85, 1.0))) + 1)
    caps = capacity + generator.integers(0, 3, num_bins) if seed % 4 == 0 else capacity
    most = int(generator.integers(-(-count // num_bins), count + 1))
    return Problem(
        tokens=tokens, cost=tokens * tokens if seed % 2 else generator.integers(0, 50, count), ranks=ranks,
        bins_per_rank=bins_per_rank, capacity=caps, max_items=most if seed % 7 == 0 else None,
        objective="rounds" if bins_per_rank == 1 and seed % 5 == 0 else "makespan",
    )  # fmt: skip


@pytest.mark.parametrize("start", range(0, 240, 40))
def test_auto_is_optimal_in_tiny_steps(start):
    found = 0
    for seed in range(start, start + 40):
        problem = tiny_problem(seed)
        assert can_exhaust(problem)
        layout, best = Auto().assign(problem), best_score(problem)
        if best is None:
            assert layout is None
        else:
            assert is_valid(problem, layout)
            assert problem.score(layout) == best
            found += 1
    assert found > 10


def test_a_score_is_beaten_or_proven():
    problem = tiny_problem(3)
    order, best = descending_order(problem.cost, problem.tokens), best_score(problem)
    layout, complete = exhausted(problem, order, best + 1, 0, MANY)
    assert complete
    assert problem.score(layout) == best
    assert exhausted(problem, order, best, 0, MANY) == (None, True)
    assert exhausted(problem, order, None, 0, 0) == (None, False)


def test_only_what_it_can_keep_is_searched():
    tokens = np.array([4, 3, 2, 1])
    plain = {"tokens": tokens, "cost": tokens, "ranks": 2, "capacity": 6}
    assert can_exhaust(Problem(**plain))
    assert can_exhaust(Problem(**plain, objective="rounds"))
    assert not can_exhaust(Problem(**plain, round_size=1, objective="rounds"))
    assert not can_exhaust(Problem(**plain, objective="balance"))
    assert not can_exhaust(Problem(**plain, equal_count=True))
    assert not can_exhaust(Problem(**plain, group=np.array([0, 0, 1, 1])))
    many = np.ones(MOST_SAMPLES + 1, np.int64)
    assert not can_exhaust(Problem(tokens=many, cost=many, ranks=2))


def test_sums_near_the_limit_are_left_alone():
    tokens = np.array([3, 2, 2, 1])
    problem = Problem(tokens=tokens, cost=np.full(4, 1 << 59), ranks=4)
    assert exhausted(problem, np.arange(4, dtype=np.int32), None, 0, MANY) == (None, False)
