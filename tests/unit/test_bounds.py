"""No bound is ever above what brute force finds, and the one that binds is named."""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from packing.bounds import fewest_bins_per_rank, lower_bound
from packing.problem import Problem
from tests.problems import column, examples, fewest_valid, partitions, problems, valid_layouts


def flat(costs, ranks, **fields) -> Problem:
    return Problem(tokens=[1] * len(costs), cost=costs, ranks=ranks, **fields)


@examples(150)
@given(problems(max_samples=6, max_ranks=3, max_bins_per_rank=2))
def test_never_above_the_optimum(problem):
    scores = [problem.score(layout) for layout in valid_layouts(problem)]
    assume(scores)
    bound = lower_bound(problem)
    if problem.objective.name == "balance":  # the bound is on the largest load
        scores = [
            int(problem.pack_loads(x).reshape(problem.ranks, -1).sum(axis=1).max()) for x in valid_layouts(problem)
        ]
    assert bound.score <= min(scores)


@examples(200)
@given(st.integers(1, 4), st.data())
def test_never_above_the_largest_load_of_any_partition(ranks, data):
    costs = data.draw(column(data.draw(st.integers(ranks, 8)), 0, 40))
    best = min(max(sum(costs[i] for i in block) for block in blocks) for blocks in partitions(len(costs), ranks))
    assert lower_bound(flat(costs, ranks)).score <= best


@examples(200)
@given(st.integers(1, 3), st.integers(1, 3), st.data())
def test_never_above_the_best_partition_with_equal_counts(ranks, per_rank, data):
    costs = data.draw(column(ranks * per_rank, 0, 40))
    best = min(
        max(sum(costs[i] for i in block) for block in blocks)
        for blocks in partitions(len(costs), ranks)
        if all(len(block) == per_rank for block in blocks)
    )
    assert lower_bound(flat(costs, ranks, equal_count=True)).score <= best


@examples(200)
@given(st.sampled_from([(2, 2), (2, 3), (3, 2), (4, 2)]), st.data())
def test_never_above_the_best_layout_of_full_bins(shape, data):
    """With M bins per rank none of which is empty, every rank holds at least M samples."""
    ranks, slots = shape
    costs = data.draw(column(data.draw(st.integers(ranks * slots, 8)), 0, 40))
    best = min(
        max(sum(costs[i] for i in block) for block in blocks)
        for blocks in partitions(len(costs), ranks)
        if all(len(block) >= slots for block in blocks)
    )
    assert lower_bound(flat(costs, ranks, bins_per_rank=slots)).score <= best


@examples(200)
@given(st.sampled_from([(1, 2), (1, 3), (2, 2), (3, 2), (2, 3)]), st.data())
def test_never_above_the_best_sum_of_rounds(shape, data):
    size, rounds = shape
    costs = data.draw(column(data.draw(st.integers(size * rounds, 8)), 0, 40))
    best = min(
        sum(sorted((sum(costs[i] for i in block) for block in blocks), reverse=True)[::size])
        for blocks in partitions(len(costs), size * rounds)
    )
    problem = flat(costs, size * rounds, round_size=size, objective="rounds")
    assert lower_bound(problem).score <= best
    one_rank_each = flat(costs, size, bins_per_rank=rounds, objective="rounds")
    assert lower_bound(one_rank_each).score == lower_bound(problem).score


FULL = Problem(tokens=[6, 4, 5, 5], cost=[60, 10, 30, 30], ranks=2, capacity=10)
USE = {"footprints": [[6], [4], [5], [5]], "budgets": [10], "budget_names": ("memory",)}
BOTH = {"name": "components", "weights": {"encoder": 1, "llm": 1}}


@pytest.mark.parametrize(
    ("problem", "score", "name", "words"),
    [
        (flat([4, 4, 4, 4], 2), 8, "mean", "the mean load"),
        (flat([4, 4, 4, 5], 2), 9, "mean", "the mean load"),
        (flat([90, 4, 4, 4], 2), 90, "longest_sample", "some rank must take it"),
        (flat([9, 9, 9], 2), 18, "shared_rank", "2 of the 3 longest samples"),
        (flat([7, 7, 6, 6, 6], 2), 18, "shared_rank", "3 of the 5 longest samples"),
        (flat([90, 4, 3, 2], 2, equal_count=True), 92, "equal_count", "takes 1 more"),
        (flat([90, 4, 3, 2, 1, 1], 2, equal_count=True), 92, "equal_count", "takes 2 more"),
        (flat([90, 4, 3, 2], 2, bins_per_rank=2), 92, "full_bins", "takes 1 more"),
        (flat([5, 5, 5, 5], 4, round_size=2, objective="rounds"), 10, "mean", "every rank works all the time"),
        (flat([50, 5, 4, 3], 4, round_size=2, objective="rounds"), 54, "levels", "the other rounds"),
        (flat([90, 4, 3, 2, 1], 2, max_items=3), 91, "max_items", "`max_items` leaves the other ranks 3 samples"),
        (FULL, 70, "cheapest_fill", "its rank also takes the tokens for which the others have no room"),
        (dataclasses.replace(FULL, capacity=None, **USE), 70, "cheapest_fill", "budget 'memory'"),
        (flat([2] * 5 + [3] * 3, 3, forbid=[0] * 5 + [1] * 3), 9, "kinds", "2 kinds of samples never share a bin"),
        (flat([10, 10, 6, 5, 4, 3], 3), 14, "large_samples", "do not fit together"),
        (flat([10, 10, 9, 8, 8, 5], 3), 18, "shared_ranks", "some 2 ranks must take 4 of the 5 longest samples"),
        (
            Problem(tokens=[6, 6, 6, 1], cost=[60, 50, 40, 1], ranks=4, round_size=2, capacity=10, objective="rounds"),
            100,
            "levels",
            "filled as cheaply as the caps allow",
        ),
        (
            flat([10, 10, 1, 1], 2, bins_per_rank=2, objective={"name": "pipeline", "stages": 3}),
            31,
            "longest_sample",
            "its rank also waits P - 1 times for its pack: no layout can do better than 1.409x equal packs",
        ),
        (
            flat([10, 10, 10, 3], 2, objective=BOTH, components=[[9, 1], [9, 1], [9, 1], [0, 3]]),
            21,
            "components",
            "encoder: some rank must take 2 of the 3 longest samples; llm: the mean load",
        ),
        (flat([0, 0], 2), 0, "mean", "no work"),
        (flat([], 2), 0, "no_samples", "no work"),
    ],
)
def test_which_bound_binds(problem, score, name, words):
    bound = lower_bound(problem)
    assert (bound.score, bound.name) == (score, name)
    assert words in bound.explanation


def test_the_floor_is_the_smallest_possible_imbalance():
    bound = lower_bound(flat([90, 4, 4, 2], 2))
    assert bound.floor == 1.8
    assert "no layout can do better than 1.8x the mean" in bound.explanation
    assert lower_bound(flat([3, 3], 2)).floor == 1.0
    # The mean is rounded up: one of the two ranks takes 2 of 3.
    assert lower_bound(flat([1, 1, 1], 2)).floor == pytest.approx(4 / 3)


def test_huge_costs_stay_exact():
    costs = [2**60, 2**60 + 1, 2**60 + 3]
    assert lower_bound(flat(costs, 2)).score == 2**61 + 1
    assert lower_bound(flat(costs, 3)).score == 2**60 + 3
    assert Fraction(lower_bound(flat(costs, 1)).score) == sum(costs)


@examples(150)
@given(problems(max_samples=7, max_ranks=2, bins_per_rank=None))
def test_fewest_bins_is_never_above_the_count_that_fits(problem):
    least = fewest_valid(problem)
    assume(least is not None)
    assert fewest_bins_per_rank(problem)[0] <= least


def capped(tokens, ranks=1, **fields) -> Problem:
    return Problem(tokens=tokens, cost=tokens, ranks=ranks, bins_per_rank=None, **fields)


@pytest.mark.parametrize(
    ("problem", "fewest", "words"),
    [
        (capped([1, 1]), 1, "no bin may be empty"),
        (capped([5, 5, 5], capacity=5), 3, "15 tokens at 5 a bin"),
        (capped([2, 3, 3, 3], capacity=5), 3, "11 tokens at 5 a bin"),
        (capped([3, 3, 3, 3], capacity=5), 4, "4 samples over half of 5 tokens"),
        (capped([3, 3, 3, 3], ranks=2, capacity=5), 2, "4 samples over half of 5 tokens"),
        (capped([3, 3, 3], ranks=2, capacity=5), 2, "3 samples over half of 5 tokens"),
        (capped([9, 9, 2, 2], capacity=5, oversized="single"), 3, "4 tokens at 5 a bin"),
        (capped([1] * 7, max_items=3), 3, "7 samples at `max_items` = 3 a bin"),
        (capped([1] * 3, forbid=[0, 1, 2]), 3, "3 kinds of samples"),
        (capped([1] * 3, capacity=9, forbid=[0, 1, 2]), 3, "3 kinds of samples"),
        (
            capped([1] * 3, footprints=[[4], [4], [4]], budgets=[6], budget_names=("memory",)),
            3,
            "3 samples over half of budget 'memory', each in a bin of its own",
        ),
        (capped([1] * 3, footprints=[[0]] * 3, budgets=[0]), 1, "no bin may be empty"),
    ],
)
def test_what_asks_for_bins(problem, fewest, words):
    bins, why = fewest_bins_per_rank(problem)
    assert bins == fewest
    assert words in why


def test_huge_lengths_do_not_wrap():
    tokens = np.asarray([2**60] * 3)
    assert fewest_bins_per_rank(capped(tokens, capacity=2**60))[0] == 3


@examples(200)
@given(problems(max_samples=6, max_ranks=3, max_bins_per_rank=2), st.data())
def test_never_above_the_optimum_with_padding(problem, data):
    assume(problem.components is None)  # a pad cost belongs to no component
    capacity = problem.max_capacity or 9
    linear, quadratic = data.draw(st.integers(0, 5)), data.draw(st.integers(0, 2))
    unused = np.arange(capacity + 1)
    shapes = [
        linear * unused + quadratic * unused**2,
        7 * np.ceil(np.sqrt(unused)),
        data.draw(column(capacity + 1, 0, 9)),
    ]
    table = np.asarray(data.draw(st.sampled_from(shapes)), np.int64)
    padded = dataclasses.replace(problem, capacity=capacity, pad_cost=table, reference=None)
    layouts = list(valid_layouts(padded))
    assume(layouts)
    loads = [padded.pack_loads(layout) for layout in layouts]
    if padded.objective.additive:
        scores = [padded.objective.score(x, padded.ranks, padded.bins_per_rank, padded.round_size) for x in loads]
    else:
        scores = [int(x.reshape(padded.ranks, -1).sum(axis=1).max()) for x in loads]
    assert lower_bound(padded).score <= min(scores)


@pytest.mark.parametrize("objective", ["makespan", "rounds", {"name": "pipeline", "stages": 4}], ids=str)
def test_the_bound_of_an_open_problem_holds_for_every_number_of_packs(objective):
    problem = Problem(tokens=[5, 5, 4, 3, 2], cost=[5, 5, 4, 3, 2], ranks=1, bins_per_rank=None, objective=objective)
    bound = lower_bound(problem).score
    for bins_per_rank in range(1, 6):
        closed = problem.with_bins_per_rank(bins_per_rank)
        assert bound <= min(closed.score(layout) for layout in valid_layouts(closed))


def test_the_mean_counts_the_padding_that_nothing_can_avoid():
    problem = Problem(tokens=[4, 4], cost=[4, 4], ranks=2, capacity=10, pad_cost=3 * np.arange(11))
    assert lower_bound(problem).score == 4 + 3 * 6
