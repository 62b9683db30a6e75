"""The search for fewer bins: both implementations agree, a packing stays a packing, and planted ones are found."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packing import _kernels
from tests.kernels.conftest import COMPILED, REFERENCE
from tests.kernels.test_fit import guarded

needs_both = pytest.mark.skipif(_kernels.backend == "reference", reason="the compiled kernels are switched off")
USUAL = REFERENCE if _kernels.backend == "reference" else COMPILED


def first_fit(tokens, capacity, max_items):
    bin_of, loads, counts = [], [], []
    for length in tokens:
        goal = next(
            (b for b in range(len(loads)) if loads[b] + length <= capacity and counts[b] < (max_items or 10**6)), None
        )
        if goal is None:
            goal = len(loads)
            loads.append(0)
            counts.append(0)
        loads[goal] += length
        counts[goal] += 1
        bin_of.append(goal)
    return np.array(bin_of, np.int32), len(loads)


@st.composite
def packings(draw):
    capacity = draw(st.sampled_from([10, 63, 64, 127, 300]))
    longest = draw(st.integers(1, capacity))
    tokens = draw(st.lists(st.integers(1, longest), max_size=draw(st.sampled_from([12, 60]))))
    max_items = draw(st.sampled_from([0, 0, 2, 4]))
    bin_of, num_bins = first_fit(tokens, capacity, max_items)
    return np.array(tokens, np.int64), capacity, max_items, bin_of, num_bins


def reduce(implementation, packing, fewest=0, max_steps=10_000):
    tokens, capacity, max_items, bin_of, num_bins = packing
    module = implementation.module("reduce_bins")
    bin_of = bin_of.copy()
    workspace, canary = guarded(module.reduce_bins_workspace(len(tokens), num_bins, capacity))
    found = module.reduce_bins(tokens, capacity, max_items, fewest, max_steps, bin_of, num_bins, workspace)
    assert (canary == 0xAA).all()
    return found, bin_of


def planted(num_bins, parts, capacity, seed):
    """Samples of `num_bins` bins that are exactly full."""
    generator = np.random.default_rng(seed)
    cuts = np.sort(generator.permuted(np.tile(np.arange(1, capacity), (num_bins, 1)), axis=1)[:, : parts - 1], axis=1)
    tokens = np.diff(cuts, axis=1, prepend=0, append=capacity).reshape(-1)
    tokens = -np.sort(-tokens)
    return tokens.astype(np.int64), capacity, 0, *first_fit(tokens, capacity, 0)


@needs_both
@settings(max_examples=300, deadline=None)
@given(packings(), st.sampled_from([0, 1, 4]), st.sampled_from([0, 300, 3000, 20_000]))
def test_both_search_alike(packing, fewest, max_steps):
    compiled, reference = (reduce(one, packing, fewest, max_steps) for one in (COMPILED, REFERENCE))
    assert compiled[0] == reference[0]
    assert compiled[1].tolist() == reference[1].tolist()


@needs_both
@pytest.mark.parametrize(("parts", "capacity"), [(3, 100), (4, 300), (90, 4000)])
def test_both_search_alike_where_bins_can_be_saved(parts, capacity):
    """With 90 samples in a bin only some of them come into the pool."""
    packing = planted(8, parts, capacity, 2)
    compiled, reference = (reduce(one, packing, 8, 60_000) for one in (COMPILED, REFERENCE))
    assert compiled[0] == reference[0]
    assert compiled[1].tolist() == reference[1].tolist()


@settings(max_examples=150, deadline=None)
@given(packings(), st.sampled_from([0, 1, 4]))
def test_the_result_is_a_packing_with_no_more_bins(packing, fewest):
    tokens, capacity, max_items, _, num_bins = packing
    found, bin_of = reduce(USUAL, packing, fewest)
    assert min(fewest, num_bins) <= found <= num_bins
    loads, counts = (np.bincount(bin_of, weights, found) for weights in (tokens, None))
    assert loads.size == counts.size == found
    assert loads.max(initial=0) <= capacity
    assert found == 0 or counts.min() > 0
    assert max_items == 0 or counts.max(initial=0) <= max_items


@pytest.mark.parametrize(("parts", "capacity"), [(3, 200), (4, 1000), (7, 1000)])
def test_full_bins_are_found(parts, capacity):
    """First-fit decreasing needs more than the planted number of bins, the search does not."""
    packing = planted(12, parts, capacity, 1)
    assert packing[4] > 12
    assert reduce(USUAL, packing, 0, 10**6)[0] == 12


def test_nothing_is_done_at_the_fewest_or_without_steps(implementation):
    packing = planted(6, 3, 60, 3)
    for fewest, steps in ((packing[4], 10**6), (0, 0)):
        found, bin_of = reduce(implementation, packing, fewest, steps)
        assert found == packing[4]
        assert bin_of.tolist() == packing[3].tolist()


def test_what_is_no_packing_is_refused(implementation):
    tokens = np.array([6, 5, 4, 3], np.int64)
    for bins, items in (([0, 0, 1, 2], 0), ([0, 1, 3, 2], 0), ([0, 1, 2, -1], 0), ([0, 1, 2, 2], 1)):
        with pytest.raises(ValueError, match="bin_of must be a packing"):
            reduce(implementation, (tokens, 10, items, np.array(bins, np.int32), 3))
    with pytest.raises(ValueError, match="bin_of must be a packing"):
        reduce(implementation, (np.array([6, 5, 0], np.int64), 10, 0, np.array([0, 1, 2], np.int32), 3))


def test_a_workspace_that_is_too_small_is_refused(both):
    module = both[0].module("reduce_bins")
    with pytest.raises(ValueError, match="workspace"):
        module.reduce_bins(np.ones(4, np.int64), 1, 0, 0, 1, np.arange(4, dtype=np.int32), 4, np.empty(64, np.uint8))
