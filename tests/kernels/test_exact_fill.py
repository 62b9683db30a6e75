"""The exact-fill kernel: both implementations agree, and the bins are as full as the contract says."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packing import _kernels
from tests.kernels.conftest import COMPILED, REFERENCE
from tests.kernels.test_fit import guarded

needs_both = pytest.mark.skipif(_kernels.backend == "reference", reason="the compiled kernels are switched off")
USUAL = REFERENCE if _kernels.backend == "reference" else COMPILED
MANY = 10**6

problems = st.sampled_from([7, 30, 100, 2**40]).flatmap(
    lambda capacity: st.tuples(st.lists(st.integers(1, capacity), max_size=16), st.just(capacity))
)


def fill(implementation, lengths, capacity, max_items=0, max_steps=MANY):
    """The lengths of every bin."""
    module = implementation.module("exact_fill")
    counted = sorted(Counter(lengths).items(), reverse=True)
    values = np.array([value for value, _ in counted], np.int64)
    counts = np.array([count for _, count in counted], np.int32)
    n = len(lengths)
    offsets, classes = np.full(n + 1, -7, np.int32), np.full(n, -7, np.int32)
    workspace, canary = guarded(module.fill_workspace(n, len(values)))
    num_bins = module.fill(values, counts, capacity, max_items, max_steps, offsets, classes, workspace)
    assert (canary == 0xAA).all()
    return [values[classes[offsets[b] : offsets[b + 1]]].tolist() for b in range(num_bins)]


def fullest(longest: int, others: list[int], capacity: int, max_items: int) -> int:
    sizes = range(min(len(others), (max_items or MANY) - 1) + 1)
    sums = (longest + sum(chosen) for size in sizes for chosen in combinations(others, size))
    return max(total for total in sums if total <= capacity)


@needs_both
@settings(max_examples=400, deadline=None)
@given(problems, st.sampled_from([0, 1, 2, 3]), st.sampled_from([0, 5, 40, MANY]))
def test_both_fill_alike(problem, max_items, max_steps):
    assert fill(COMPILED, *problem, max_items, max_steps) == fill(REFERENCE, *problem, max_items, max_steps)


@needs_both
@pytest.mark.parametrize("seed", range(3))
def test_both_stop_alike_at_the_steps_of_one_bin(seed):
    """Sums that never fill a bin use up the steps for it."""
    lengths = (2 * np.random.default_rng(seed).integers(40, 400, 60)).tolist()
    assert fill(COMPILED, lengths, 1501) == fill(REFERENCE, lengths, 1501)


@settings(max_examples=150, deadline=None)
@given(problems, st.sampled_from([0, 1, 2, 3]))
def test_every_bin_has_the_longest_sample_left_and_is_as_full_as_can_be(problem, max_items):
    lengths, capacity = problem
    left = sorted(lengths[:11], reverse=True)
    for members in fill(USUAL, left, capacity, max_items):
        assert members[0] == left[0]
        assert sum(members) == fullest(left[0], left[1:], capacity, max_items)
        assert max_items == 0 or len(members) <= max_items
        for member in members:
            left.remove(member)
    assert left == []


@settings(max_examples=150, deadline=None)
@given(problems, st.sampled_from([0, 1, 2, 3]))
def test_without_steps_the_longest_that_fit_are_taken(problem, max_items):
    lengths, capacity = problem
    left = sorted(lengths, reverse=True)
    for members in fill(USUAL, left, capacity, max_items, 0):
        expected: list[int] = []
        for length in left:
            if sum(expected) + length <= capacity and len(expected) < (max_items or MANY):
                expected.append(length)
        assert members == expected
        for member in members:
            left.remove(member)


def test_of_equally_full_bins_the_one_with_the_longest_samples(implementation):
    assert fill(implementation, [6, 4, 3, 2, 2, 1, 1, 1], 10) == [[6, 4], [3, 2, 2, 1, 1, 1]]
    assert fill(implementation, [7, 5, 3, 3, 2, 2], 12) == [[7, 5], [3, 3, 2, 2]]


def test_many_short_samples_are_no_reason_to_stop(implementation):
    """One descent is longer than the steps for a bin, and is finished all the same."""
    assert fill(implementation, [1] * 5000, 4000, max_steps=10) == [[1] * 4000, [1] * 1000]


def test_no_samples(implementation):
    assert fill(implementation, [], 10) == []


def test_wrong_input_is_refused(implementation):
    module = implementation.module("exact_fill")

    def call(lengths, counts, capacity=10, n=3):
        module.fill(
            np.array(lengths, np.int64), np.array(counts, np.int32), capacity, 0, 9, np.empty(n + 1, np.int32),
            np.empty(n, np.int32), np.empty(99, np.uint8),
        )  # fmt: skip

    for lengths in ([11, 5], [5, 5], [4, 5], [5, 0]):
        with pytest.raises(ValueError, match="lengths must be positive, descending"):
            call(lengths, [2, 1])
    with pytest.raises(ValueError, match="counts must add up"):
        call([5, 4], [2, 2])
    with pytest.raises(ValueError, match=r"must have fewer than 2\*\*62 tokens"):
        call([2**61, 2], [2, 1], 2**61)


def test_a_workspace_that_is_too_small_is_refused(both):
    one = np.ones(1, np.int64), np.ones(1, np.int32)
    with pytest.raises(ValueError, match="workspace"):
        both[0].module("exact_fill").fill(
            *one, 1, 0, 1, np.empty(2, np.int32), np.empty(1, np.int32), np.empty(8, np.uint8)
        )
