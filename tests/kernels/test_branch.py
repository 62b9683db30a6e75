"""The exhaustive search: both implementations agree, and a complete search has the smallest largest rank load."""

from __future__ import annotations

from itertools import product

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


@st.composite
def problems(draw, most_entries=9, most_bins=4):
    """(cost, tokens, capacity, bins_per_rank, max_items), with tight caps, many equal entries and equal bins."""
    bins_per_rank = draw(st.integers(1, 2))
    num_bins = bins_per_rank * draw(st.integers(1, most_bins // bins_per_rank))
    largest = draw(st.sampled_from([2, 5, 30, 2**40]))
    pairs = draw(st.lists(st.tuples(*[st.integers(0, largest)] * 2), max_size=most_entries))
    pairs.sort(reverse=True)
    cost, tokens = (np.array([pair[i] for pair in pairs], np.int64) for i in range(2))
    level = -(-int(tokens.sum()) // num_bins) + draw(st.integers(0, largest))
    extra = draw(st.lists(st.sampled_from([0, 0, 0, 1, largest]), min_size=num_bins, max_size=num_bins))
    return cost, tokens, level + np.array(extra, np.int64), bins_per_rank, draw(st.sampled_from([0, 0, 1, 2, 3, 9]))


def branch(implementation, problem, best=2**58, target=0, max_steps=MANY):
    """(load, whether it is complete, bins): what the kernel answers."""
    cost, tokens, capacity, bins_per_rank, max_items = problem
    module = implementation.module("branch")
    bin_of = np.full(cost.size, -7, np.int32)
    workspace, canary = guarded(module.branch_workspace(cost.size, capacity.size))
    found, complete = module.branch(
        cost, tokens, capacity, bins_per_rank, max_items, best, target, max_steps, bin_of, workspace
    )
    assert (canary == 0xAA).all()
    return found, complete, bin_of.tolist()


def largest_load(problem, bin_of):
    """Of a layout, or None where it breaks a limit."""
    cost, tokens, capacity, bins_per_rank, max_items = problem
    bins = np.asarray(bin_of, np.int64)
    counts = np.bincount(bins, minlength=capacity.size)
    used = np.zeros(capacity.size, np.int64)
    np.add.at(used, bins, tokens)
    if (used > capacity).any() or counts.min() == 0 or (max_items and counts.max() > max_items):
        return None
    loads = np.zeros(capacity.size // bins_per_rank, np.int64)
    np.add.at(loads, bins // bins_per_rank, cost)
    return int(loads.max())


@needs_both
@settings(max_examples=500, deadline=None)
@given(
    problems(), st.sampled_from([2**58, 2**41, 40, 12, 3, 0, -1]), st.integers(0, 12), st.sampled_from([0, 9, 60, MANY])
)
def test_both_search_alike(problem, best, target, max_steps):
    limits = best, target, max_steps
    assert branch(COMPILED, problem, *limits) == branch(REFERENCE, problem, *limits)


@needs_both
@pytest.mark.parametrize("seed", range(6))
def test_both_stop_alike_in_a_long_search(seed):
    generator = np.random.default_rng(seed)
    tokens = np.sort(generator.integers(1, 400, 16))[::-1].copy()
    for bins_per_rank, steps in ((1, 3000), (2, 3001), (1, 12_345)):
        problem = tokens * tokens, tokens, np.full(4, int(tokens.sum()) * 101 // 400), bins_per_rank, 0
        found = branch(COMPILED, problem, max_steps=steps)
        assert found == branch(REFERENCE, problem, max_steps=steps)


@settings(max_examples=250, deadline=None)
@given(problems(most_entries=6), st.sampled_from([2**58, 60, 9]))
def test_a_complete_search_finds_the_smallest_load(problem, best):
    capacity = problem[2]
    found, complete, bin_of = branch(USUAL, problem, best, -1)
    layouts = product(range(capacity.size), repeat=problem[0].size)
    loads = [load for load in (largest_load(problem, layout) for layout in layouts) if load is not None]
    assert complete
    assert found == min([best, *loads])
    assert largest_load(problem, bin_of) == found if found < best else set(bin_of) <= {-7}


@settings(max_examples=200, deadline=None)
@given(problems(most_entries=14), st.integers(0, 200))
def test_an_early_end_leaves_a_layout_within_the_limits_or_none(problem, max_steps):
    found, complete, bin_of = branch(USUAL, problem, max_steps=max_steps)
    if found < 2**58:
        assert largest_load(problem, bin_of) == found
    else:
        assert set(bin_of) <= {-7}
    if complete:
        assert branch(USUAL, problem, max_steps=MANY)[0] == found


def test_the_search_ends_at_its_target(implementation):
    tokens = np.arange(12, 0, -1)
    problem = tokens, tokens, np.full(3, 40), 1, 0
    first, complete, _ = branch(implementation, problem, target=78)
    assert complete
    assert first > branch(implementation, problem, target=26)[0] == 26


def test_malformed_arguments_are_refused(both):
    one = np.ones(2, np.int64)
    wrong = [
        ((one, one, one, 0, 0), "the same number for each rank"),
        ((one, one, np.ones(3, np.int64), 2, 0), "the same number for each rank"),
        ((one, one, one[:0], 1, 0), "the same number for each rank"),
        ((one, one[:1], one, 1, 0), "one value per entry"),
        ((np.array([1, 2]), one, one, 1, 0), "descending"),
        ((one, -one, one, 1, 0), "negative"),
        ((one << 61, one, one, 1, 0), "less than"),
        ((one, one, one << 61, 1, 0), "less than"),
    ]
    for problem, message in wrong:
        for implementation in both:
            with pytest.raises(ValueError, match=message):
                branch(implementation, problem, best=5)
    for implementation in both:
        with pytest.raises(ValueError, match="less than"):
            branch(implementation, (one, one, one, 1, 0), best=1 << 61)
    with pytest.raises(ValueError, match="workspace"):
        COMPILED.module("branch").branch(one, one, one, 1, 0, 5, 0, 9, np.zeros(2, np.int32), np.zeros(8, np.uint8))
