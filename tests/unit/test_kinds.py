"""Kinds that never share a bin, each laid out by itself, and parts where bins hold few samples."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packing import Planner, _kernels, balanced_pack, micro_batches, pack_sequences
from packing.algorithms._kinds import by_kinds, few_places, in_parts
from packing.algorithms._portfolio import Portfolio
from packing.algorithms.placement import LPT
from packing.assignment import Assignment
from packing.audit import first_violation
from packing.partition import descending_order
from packing.problem import Problem
from tests.problems import examples, problems

FAST = pytest.mark.skipif(_kernels.backend == "reference", reason="many samples take minutes without the kernels")


def alone(problem: Problem) -> Assignment | None:
    return Portfolio(problem, "normal").solve()


def lengths_and_kinds(count: int, kinds: int, seed: int = 0) -> tuple[list[int], list[int]]:
    random = np.random.default_rng(seed)
    return random.integers(1, 2000, count).tolist(), random.integers(0, kinds, count).tolist()


@examples(150)
@given(problems(), st.data())
def test_a_layout_keeps_every_limit(problem, data):
    kinds = data.draw(st.lists(st.integers(0, 2), min_size=problem.num_samples, max_size=problem.num_samples))
    problem = replace(problem, forbid=np.asarray(kinds, np.int64), bins_per_rank=problem.bins_per_rank or 1)
    layout = by_kinds(problem, alone)
    if layout is not None:
        assert first_violation(problem, layout) is None


def test_every_kind_gets_bins_by_its_work():
    costs, kinds = [6, 6, 6, 6, 6, 6, 4, 4], [0] * 6 + [1] * 2
    layout = by_kinds(Problem(tokens=[1] * 8, cost=costs, ranks=4, forbid=kinds), LPT().assign)
    assert layout is not None
    assert sorted(layout.sums(np.asarray(costs)).tolist()) == [8, 12, 12, 12]


def test_groups_stay_together():
    problem = Problem(
        tokens=[3, 3, 3, 3, 2, 2], cost=[3, 3, 3, 3, 2, 2], ranks=3, capacity=8, forbid=[0, 0, 0, 0, 1, 1],
        group=[0, -1, -1, 0, -1, -1],
    )  # fmt: skip
    layout = by_kinds(problem, alone)
    assert layout is not None
    assert first_violation(problem, layout) is None
    assert {frozenset(items) for items in layout.to_bins(list(range(6)))} == {
        frozenset({0, 3}), frozenset({1, 2}), frozenset({4, 5}),
    }  # fmt: skip


def test_a_kind_gives_a_bin_to_one_whose_samples_do_not_divide():
    # By work, 15 and 24 get 2 and 4 bins, but three samples of 5 make a bin of 10.
    problem = Problem(tokens=[1] * 27, cost=[5] * 3 + [1] * 24, ranks=6, forbid=[0] * 3 + [1] * 24)
    layout = by_kinds(problem, alone)
    assert layout is not None
    assert sorted(layout.sums(problem.cost).tolist()) == [5, 5, 5, 8, 8, 8]


@pytest.mark.parametrize(
    "fields",
    [
        {"forbid": None},
        {"forbid": [1, 1, 1, 1]},
        {"footprints": [[1]] * 4, "budgets": [2]},
        {"capacity": [2, 2, 2, 2]},
        {"equal_count": True},
        {"objective": "balance"},
        {"capacity": 1, "ranks": 2},
        {"group": [0, 0, -1, -1], "max_items": 2},
        {"group": [0, 0, -1, -1], "capacity": 1, "ranks": 3},
        {"group": [0, -1, 0, -1], "ranks": 2},
        {"tokens": [1, 1, 1, 3], "capacity": 2, "ranks": 3},
    ],
)
def test_other_limits_and_too_few_bins_are_left_to_others(fields):
    fields = {"tokens": [1] * 4, "cost": [1] * 4, "ranks": 4, "forbid": [0, 0, 1, 1]} | fields
    assert by_kinds(Problem(**fields), alone) is None


@FAST
@pytest.mark.parametrize(("count", "kinds"), [(300, 4), (1000, 4), (4000, 2), (5000, 4)])
def test_auto_is_never_worse_than_differencing_of_every_kind(count, kinds):
    lengths, labels = lengths_and_kinds(count, kinds)
    batch = [{"input_ids": [1] * n, "kind": kind} for n, kind in zip(lengths, labels, strict=True)]
    settings = {"num_packs": 8, "max_token_budget": 8192, "forbid": "kind"}
    auto, differenced = (
        next(pack_sequences([batch], packing_strategy=name, **settings)) for name in ("auto", "kk")
    )  # fmt: skip
    assert (auto.num_rows, auto.loads.max()) <= (differenced.num_rows, differenced.loads.max())
    assert auto.gap <= 1e-3


@FAST
def test_many_sequences_of_many_kinds_come_close_to_the_bound():
    lengths, kinds = lengths_and_kinds(10000, 4)
    assert balanced_pack(lengths, 8, 8192, versions=kinds).gap <= 1e-3
    plan = Planner(data_parallel_size=1250, seq_len=8192, forbid="kind", estimator="attention").plan(
        {"length": lengths, "kind": kinds}
    )
    assert plan.gap <= 1e-3
    batches = micro_batches(lengths, 8192, forbid=kinds, data_parallel_size=8)
    assert batches.batch_loads.max() <= 1.004 * batches.batch_loads.mean()  # the bound of the kinds alone is 1.0026


@FAST
def test_the_order_of_many_sequences_plays_no_part():
    lengths, kinds = lengths_and_kinds(5000, 4)
    order = np.random.default_rng(1).permutation(5000).tolist()
    packs = balanced_pack(lengths, 8, 8192, versions=kinds)
    again = balanced_pack([lengths[i] for i in order], 8, 8192, versions=[kinds[i] for i in order])
    assert [[lengths[i] for i in sorted(row, key=lambda i: (lengths[i], kinds[i]))] for row in packs.to_lists()] == [
        sorted(lengths[order[i]] for i in row) for row in again.to_lists()
    ]


@FAST
@pytest.mark.parametrize("most", [2, 3, 4])
def test_few_sequences_in_every_row(most):
    lengths, _ = lengths_and_kinds(10000, 1)
    assert balanced_pack(lengths, 8, 8192, max_segments_per_row=most).gap <= 4e-3


@FAST
def test_parts_are_for_many_samples_and_few_in_a_bin():
    count = 4096
    problem = Problem(tokens=[1] * count, cost=list(range(count)), ranks=count // 2, max_items=2)
    order = descending_order(problem.cost, problem.tokens)
    layout = in_parts(problem, order, alone)
    assert layout is not None
    assert first_violation(problem, layout) is None
    for fields in (
        {"max_items": None},
        {"max_items": 3},
        {"forbid": np.zeros(count, np.int64)},
        {"group": np.full(count, -1)},
        {"max_items": 8, "ranks": count // 8},
    ):
        assert in_parts(replace(problem, round_size=None, **fields), order, alone) is None


@pytest.mark.parametrize(
    ("count", "most", "expected"), [(30, 3, True), (29, 3, False), (20, 2, True), (10, 1, False), (40, 4, False)]
)
def test_places_are_few_where_nearly_all_are_taken(count, most, expected):
    problem = Problem(tokens=[1] * count, cost=[1] * count, ranks=10, max_items=most)
    assert few_places(problem) is expected
