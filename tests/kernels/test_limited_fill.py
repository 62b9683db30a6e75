"""Filling bins of limited counts: both implementations agree, and the bins are those that the contract describes."""

from __future__ import annotations

from collections import Counter

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
    lambda capacity: st.tuples(st.lists(st.integers(1, capacity), max_size=40), st.just(capacity))
)


def fill(implementation, lengths, capacity, max_items, max_steps=MANY):
    """The lengths of every bin."""
    module = implementation.module("limited_fill")
    counted = sorted(Counter(lengths).items(), reverse=True)
    values = np.array([value for value, _ in counted], np.int64)
    counts = np.array([count for _, count in counted], np.int32)
    n = len(lengths)
    offsets, classes = np.full(n + 1, -7, np.int32), np.full(n, -7, np.int32)
    workspace, canary = guarded(module.fill_workspace(n, len(values)))
    num_bins = module.fill(values, counts, capacity, max_items, max_steps, offsets, classes, workspace)
    assert (canary == 0xAA).all()
    return [values[classes[offsets[b] : offsets[b + 1]]].tolist() for b in range(num_bins)]


@needs_both
@settings(max_examples=600, deadline=None)
@given(problems, st.integers(1, 8), st.sampled_from([0, 3, 20, MANY]))
def test_both_fill_alike(problem, max_items, max_steps):
    assert fill(COMPILED, *problem, max_items, max_steps) == fill(REFERENCE, *problem, max_items, max_steps)


@needs_both
@pytest.mark.parametrize("seed", range(3))
def test_both_stop_alike_at_the_steps_of_one_bin(seed):
    """An odd capacity and even lengths: no pair ever fills a bin, and each of two bins has thousands to try."""
    lengths = np.unique(2 * np.random.default_rng(seed).integers(1, 40_000, 6000)).tolist()
    capacity = sum(lengths) // 2 | 1
    module = COMPILED.module("limited_fill")
    assert len(lengths) > 2 * module.STEPS_PER_BIN
    assert fill(COMPILED, lengths, capacity, 6000) == fill(REFERENCE, lengths, capacity, 6000)


@settings(max_examples=200, deadline=None)
@given(problems, st.integers(1, 8), st.sampled_from([0, 3, MANY]))
def test_every_bin_starts_with_the_longest_left_and_is_closed_only_when_it_must_be(problem, max_items, max_steps):
    lengths, capacity = problem
    left = sorted(lengths, reverse=True)
    for members in fill(USUAL, lengths, capacity, max_items, max_steps):
        assert members[0] == left[0]
        assert sum(members) <= capacity
        assert len(members) <= max_items
        for member in members:
            left.remove(member)
        assert len(members) == max_items or all(sum(members) + one > capacity for one in left)
    assert left == []


def test_short_samples_go_beside_long_ones(implementation):
    # From the longest downwards the three ones would be left for a bin of their own.
    lengths = [7, 7, 7, 2, 2, 2, 1, 1, 1]
    assert fill(implementation, lengths, 10, 3) == [[7, 1, 2]] * 3
    # One sample is preferred to a pair where the share is met with it, and a pair where it leaves less room.
    assert fill(implementation, [7, 7, 3, 3, 2, 1], 10, 3) == [[7, 3], [7, 3], [2, 1]]
    assert fill(implementation, [7, 7, 4, 4, 2, 1], 10, 3) == [[7, 1, 2], [7], [4, 4]]


def test_the_shortest_make_up_for_a_large_share(implementation):
    assert fill(implementation, [6, 3, 2, 1, 1, 1, 1, 1], 16, 8) == [[6, 1, 1, 1, 1, 1, 2, 3]]
    assert fill(implementation, [9, 9, 4, 4, 1, 1, 1, 1, 1, 1], 16, 5) == [[9, 1, 1, 1, 4], [9, 1, 1, 1, 4]]


def test_without_steps_the_longest_that_fits_is_taken(implementation):
    assert fill(implementation, [6, 3, 3, 2, 2], 10, 3, max_steps=0) == [[6, 3], [3, 2, 2]]


def test_no_samples(implementation):
    assert fill(implementation, [], 10, 2) == []


def test_wrong_input_is_refused(implementation):
    module = implementation.module("limited_fill")

    def call(lengths, counts, capacity=10, n=3, max_items=2):
        module.fill(
            np.array(lengths, np.int64), np.array(counts, np.int32), capacity, max_items, 9, np.empty(n + 1, np.int32),
            np.empty(n, np.int32), np.empty(99, np.uint8),
        )  # fmt: skip

    for lengths in ([11, 5], [5, 5], [4, 5], [5, 0]):
        with pytest.raises(ValueError, match="lengths must be positive, descending"):
            call(lengths, [2, 1])
    with pytest.raises(ValueError, match="counts must add up"):
        call([5, 4], [2, 2])
    with pytest.raises(ValueError, match="at least one sample"):
        call([5, 4], [2, 1], max_items=0)
    with pytest.raises(ValueError, match=r"must have fewer than 2\*\*62 tokens"):
        call([2**61, 2], [2, 1], 2**61)


def test_a_workspace_that_is_too_small_is_refused(both):
    one = np.ones(1, np.int64), np.ones(1, np.int32)
    with pytest.raises(ValueError, match="workspace"):
        both[0].module("limited_fill").fill(
            *one, 1, 1, 1, np.empty(2, np.int32), np.empty(1, np.int32), np.empty(8, np.uint8)
        )
