"""What no layout can satisfy is found before any search, and nothing else is refused."""

from __future__ import annotations

import pytest
from hypothesis import given

from packing import Planner
from packing._feasibility import check_feasible
from packing.errors import InfeasibleError
from packing.problem import Problem
from tests.problems import examples, exists, fewest_valid, problems


def make(tokens, ranks=1, **fields) -> Problem:
    return Problem(tokens=tokens, cost=tokens, ranks=ranks, **fields)


def refused(problem) -> str | None:
    try:
        check_feasible(problem, "document {}".format)
    except InfeasibleError as error:
        return str(error)
    return None


@examples(300)
@given(problems(max_samples=6))
def test_what_is_refused_has_no_layout(problem):
    if refused(problem):
        assert not exists(problem)


@examples(300)
@given(problems(max_samples=6, max_ranks=2, bins_per_rank=None))
def test_what_is_refused_has_no_layout_with_any_number_of_bins(problem):
    if refused(problem):
        assert fewest_valid(problem) is None


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (make([1, 1], ranks=3), "2 samples cannot fill 3 bins without leaving one empty."),
        (make([1, 1, 1], ranks=2, bins_per_rank=2), "3 samples cannot fill 4 bins without leaving one empty."),
        (make([], ranks=1), "0 samples cannot fill 1 bins without leaving one empty."),
        (
            make([5, 9, 8], capacity=7),
            "document 1 has 9 tokens, over the cap `seq_len` = 7 (2 such samples); `oversized_policy: single` puts "
            "each alone into a bin.",
        ),
        (
            make([1, 1], footprints=[[3, 0], [0, 6]], budgets=[5, 5], budget_names=("memory", "images")),
            "document 1 needs 6 of budget 'images', over its limit 5.",
        ),
        (
            make([1] * 7, ranks=3, equal_count=True),
            "`equal_count` needs a multiple of the 3 ranks, but there are 7 samples (1 too many).",
        ),
        (
            make([4, 4, 4], capacity=7),
            "`local_batch_size` must be at least 3 on 1 ranks (3 samples over half of 7 tokens, each in a bin of its "
            "own), but got 1.",
        ),
        (
            make([3, 3, 3, 3], ranks=1, capacity=6),
            "`local_batch_size` must be at least 2 on 1 ranks (12 tokens at 6 a bin), but got 1.",
        ),
        (
            make([4, 4, 4], ranks=2, bins_per_rank=None, capacity=7),
            "3 samples cannot fill the 4 bins that they need (3 samples over half of 7 tokens, each in a bin of its "
            "own, and a multiple of 2 ranks) without leaving one empty.",
        ),
        (
            make([4, 4, 1], group=[-1, 5, 5], capacity=4, bins_per_rank=2),
            "the group of document 1 has 5 tokens in 2 samples, but one bin holds at most 4.",
        ),
        (
            make([4, 4, 1], group=[5, 5, 5], capacity=4, bins_per_rank=2, group_scope="rank"),
            "the group of document 0 has 9 tokens in 3 samples, but one rank holds at most 8.",
        ),
        (
            make([1] * 6, ranks=2, group=[0, 0, 0, 1, 2, 3], max_items=2, bins_per_rank=2),
            "the group of document 0 has 3 samples, but one bin holds at most 2.",
        ),
        (
            make([1] * 3, group=[-1, 0, 0], footprints=[[0], [2], [4]], budgets=[5], bins_per_rank=2),
            "the group of document 1 needs 6 of budget 'budget 0', but one bin holds at most 5.",
        ),
        (
            make([1] * 3, group=[-1, 0, 0], forbid=[0, 0, 1], bins_per_rank=2),
            "the group of document 1 must share a bin, but `forbid` keeps document 2 apart.",
        ),
        (
            make([1] * 4, ranks=2, group=[0, 0, 0, 0]),
            "1 groups and 0 other samples cannot fill 2 bins without leaving one empty.",
        ),
        (
            make([1] * 4, ranks=3, group=[0, 0, 0, -1], group_scope="rank"),
            "1 groups and 1 other samples cannot fill 3 ranks without leaving one empty.",
        ),
        (
            make([9, 9, 2], group=[0, 0, 0], group_scope="rank", bins_per_rank=2, capacity=5, oversized="single"),
            "the group of document 0 has 20 tokens in 3 samples, but one rank holds at most 10.",
        ),
        (
            make([9, 2], group=[0, 0], capacity=5, oversized="single"),
            "the group of document 0 has 11 tokens in 2 samples, but one bin holds at most 5.",
        ),
    ],
)
def test_the_message_names_the_sample_or_group_and_the_limit(problem, message):
    assert refused(problem) == message


@pytest.mark.parametrize(
    "problem",
    [
        make([7], capacity=7),
        make([9, 9, 2], capacity=7, oversized="single", ranks=3),
        make([9, 2], group=[0, 0], group_scope="rank", capacity=5, bins_per_rank=2, oversized="single"),
        make([9, 2], group=[0, -1], capacity=5, bins_per_rank=2, oversized="single"),
        make([1] * 4, ranks=2, group=[0, 0, 1, 1], bins_per_rank=2, group_scope="rank"),
        make([1] * 4, group=[0, 0, 1, 1], forbid=[0, 1, 0, 1], bins_per_rank=2, group_scope="rank"),
        make([1] * 2, footprints=[[2**61], [2**61 - 1]], budgets=[2**61], bins_per_rank=2),
        make(
            [1] * 4, group=[0] * 4, group_scope="rank", bins_per_rank=4, footprints=[[2**59]] * 4, budgets=[2**61]
        ),
    ],
)  # fmt: skip
def test_what_has_a_layout_is_not_refused(problem):
    assert exists(problem)
    assert refused(problem) is None


def test_a_group_larger_than_equal_counts_allow_is_named():
    planner = Planner(data_parallel_size=4, group="prompt", equal_count=True)
    samples = {"length": [3] * 16, "prompt": ["a"] * 5 + [None] * 11}
    with pytest.raises(
        InfeasibleError, match=r"the group of sample 0 has 5 samples, but `equal_count` gives each rank 4"
    ):
        planner.plan(samples)


def test_samples_over_half_of_a_budget_need_a_bin_each():
    planner = Planner(data_parallel_size=4, seq_len=100, packing_budgets={"images": 50}, local_batch_size=3)
    with pytest.raises(
        InfeasibleError, match=r"`local_batch_size` must be at least 4 .*16 samples over half of budget"
    ):
        planner.plan({"length": [3] * 16, "images": [30] * 16})
