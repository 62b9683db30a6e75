"""Layouts under every limit at once: always valid, and found where there is one."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packing.algorithms.auto import Auto
from packing.algorithms.repair import repaired_layout
from packing.assignment import Assignment
from packing.audit import is_valid
from packing.problem import Problem


def random_problem(seed, most_samples, most_bins, *, is_open=False):
    """Every limit is there or not, as tight as a random layout makes it, or a little tighter or looser."""
    generator = np.random.default_rng(seed)
    ranks, slots = 1 + int(generator.integers(most_bins)), 1
    while ranks * slots < most_bins and generator.integers(2):
        slots += 1
    if ranks * slots > most_bins:
        ranks = 1
    num_bins = ranks * slots
    each = max(slots, int(generator.integers(1, max(1, most_samples // ranks) + 1)))
    equal = bool(generator.integers(3) == 0)
    count = ranks * each if equal else max(num_bins, int(generator.integers(1, most_samples + 1)))
    bin_of = np.concatenate([np.arange(num_bins), generator.integers(0, num_bins, count - num_bins)])
    if equal:
        more = [rank * slots + generator.integers(0, slots, each - slots) for rank in range(ranks)]
        bin_of = np.concatenate([np.arange(num_bins), *more])
    bin_of = generator.permutation(bin_of)
    hidden = Assignment.from_bin_of(bin_of, num_bins)
    tokens = generator.integers(1, generator.choice([4, 60]), count)
    limits = {"equal_count": equal, "objective": str(generator.choice(["makespan", "balance", "rounds"]))}
    used = hidden.sums(tokens)
    kind = generator.integers(4)
    if kind == 1 and not is_open:
        limits["capacity"] = used + generator.integers(0, 2, num_bins)
    elif kind:
        limits["capacity"] = int(used.max() + generator.integers(-1, 2)) or 1
        if generator.integers(3) == 0:
            limits["pad_cost"] = np.arange(limits["capacity"] + 1) * int(generator.integers(1, 4))
        if generator.integers(2):
            limits["oversized"] = "single"
            limits["capacity"] = max(1, int(tokens.max()) - 1)
            limits.pop("pad_cost", None)
    if generator.integers(2):
        footprints = generator.integers(0, 6, (count, 2))
        limits |= {"footprints": footprints, "budgets": hidden.sums(footprints).max(axis=0)}
    if generator.integers(2):
        limits["max_items"] = int(np.diff(hidden.offsets).max())
    if generator.integers(2):
        limits["group_scope"] = str(generator.choice(["bin", "rank"]))
        place = bin_of if limits["group_scope"] == "bin" else bin_of // slots
        limits["group"] = np.where(generator.integers(0, 2, count) == 0, place, -1)
    if generator.integers(2):
        limits["forbid"] = generator.integers(0, 2, num_bins)[bin_of]
    cost = tokens if generator.integers(3) else np.zeros(count, np.int64)
    return Problem(tokens=tokens, cost=cost, ranks=ranks, bins_per_rank=None if is_open else slots, **limits)


def possible(problem):
    """Whether some layout keeps every limit; all of them are tried."""
    layouts = product(range(problem.num_bins), repeat=problem.num_samples)
    return any(is_valid(problem, Assignment.from_bin_of(bins, problem.num_bins)) for bins in layouts)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([(6, 3), (14, 4), (40, 9)]), st.booleans())
def test_auto_gives_a_valid_layout_or_none(seed, size, is_open):
    problem = random_problem(seed, *size, is_open=is_open)
    layout = Auto(effort=64).assign(problem)
    if layout is not None:
        closed = problem if not is_open else problem.with_bins_per_rank(layout.num_bins // problem.ranks)
        assert is_valid(closed, layout)


def test_where_some_layout_is_possible_one_is_found():
    """Of 300 small problems, by exhaustion; the bar is 95 of 100."""
    problems = [random_problem(seed, 7, 3) for seed in range(300)]
    feasible = [problem for problem in problems if possible(problem)]
    found = [Auto(effort=64).assign(problem) is not None for problem in feasible]
    assert len(feasible) > 150
    assert sum(found) >= 0.95 * len(found)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 2**32))
def test_any_layout_is_repaired_or_given_up(seed, other):
    problem = random_problem(seed, 14, 4)
    bins = np.random.default_rng(other).integers(0, problem.num_bins, problem.num_samples)
    start = Assignment.from_bin_of(bins, problem.num_bins)
    layout = repaired_layout(problem, start, checks=20_000)
    assert layout is None or is_valid(problem, layout)
    if layout is not None:
        again = repaired_layout(problem, layout)
        assert again is not None
        assert again.bin_of().tolist() == layout.bin_of().tolist()


@pytest.mark.parametrize("tokens", [[5, 5, 5, 5], [2**60, 1, 1, 1]])
def test_as_many_samples_as_bins_go_one_into_each(tokens):
    problem = Problem(tokens=tokens, cost=[0, 0, 0, 0], ranks=2, bins_per_rank=2, equal_count=True, capacity=2**60)
    layout = repaired_layout(problem)
    assert layout is not None
    assert is_valid(problem, layout)


def test_a_group_that_contradicts_forbid_has_no_layout():
    problem = Problem(tokens=[1, 1], cost=[1, 1], ranks=1, group=[0, 0], forbid=[0, 1])
    assert repaired_layout(problem) is None
