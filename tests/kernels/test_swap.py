"""The swap kernel: both implementations agree, and do what their contract says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packing import _kernels
from tests.kernels.conftest import COMPILED, REFERENCE

needs_both = pytest.mark.skipif(_kernels.backend == "reference", reason="the compiled kernels are switched off")


@st.composite
def layouts(draw):
    num_bins = draw(st.integers(1, 5))
    size = draw(st.integers(1, 5))
    count = num_bins * size
    cost = np.sort(
        draw(st.lists(st.integers(0, draw(st.sampled_from([3, 50, 2**40]))), min_size=count, max_size=count))
    )
    tokens = np.asarray(draw(st.lists(st.integers(1, 20), min_size=count, max_size=count)), np.int64)
    slack = draw(st.integers(0, 12))
    items = np.asarray(draw(st.permutations(range(count))), np.int32).reshape(num_bins, size)
    items.sort(axis=1)
    capacity = np.asarray([int(tokens[row].sum()) + slack - draw(st.integers(0, 14)) for row in items], np.int64)
    return np.ascontiguousarray(cost[::-1].astype(np.int64)), tokens, capacity, items


def _lower_largest(implementation, cost, tokens, capacity, rows, target=0, max_swaps=100):
    module = implementation.module("swap")
    items = rows.reshape(-1).copy()
    offsets = np.arange(rows.shape[0] + 1, dtype=np.int32) * rows.shape[1]
    workspace = np.empty(module.lower_largest_workspace(items.size, rows.shape[0]), np.uint8)
    swaps = module.lower_largest(cost, tokens, capacity, offsets, items, target, max_swaps, workspace)
    return swaps, items.reshape(rows.shape)


def _repair(implementation, cost, tokens, capacity, rows, max_moves=100, swaps_only=False, bins_per_rank=1):
    module = implementation.module("swap")
    bin_of = np.empty(rows.size, np.int32)
    bin_of[rows.reshape(-1)] = np.repeat(np.arange(rows.shape[0], dtype=np.int32), rows.shape[1])
    workspace = np.empty(module.repair_workspace(rows.size, capacity.size), np.uint8)
    return module.repair(cost, tokens, capacity, bins_per_rank, bin_of, max_moves, swaps_only, workspace), bin_of


@needs_both
@settings(max_examples=300, deadline=None)
@given(layouts(), st.integers(0, 40), st.sampled_from([0, 1, 2, 100]))
def test_swaps_are_bit_equal(layout, target, max_swaps):
    compiled = _lower_largest(COMPILED, *layout, target, max_swaps)
    reference = _lower_largest(REFERENCE, *layout, target, max_swaps)
    assert compiled[0] == reference[0]
    assert compiled[1].tolist() == reference[1].tolist()


@needs_both
@settings(max_examples=300, deadline=None)
@given(layouts(), st.sampled_from([0, 1, 3, 100]), st.booleans(), st.booleans())
def test_repair_is_bit_equal(layout, max_moves, swaps_only, by_rank):
    slots = next(m for m in (3, 2, 1) if layout[3].shape[0] % m == 0) if by_rank else 1
    compiled = _repair(COMPILED, *layout, max_moves, swaps_only, slots)
    reference = _repair(REFERENCE, *layout, max_moves, swaps_only, slots)
    if swaps_only:
        assert np.bincount(compiled[1]).tolist() == [layout[3].shape[1]] * layout[3].shape[0]
    assert compiled[0] == reference[0]
    assert compiled[1].tolist() == reference[1].tolist()


@settings(max_examples=100, deadline=None)
@given(layouts())
def test_a_swap_never_raises_the_largest_load_and_never_breaks_a_kept_cap(layout):
    cost, tokens, capacity, rows = layout
    implementation = REFERENCE if _kernels.backend == "reference" else COMPILED
    _, after = _lower_largest(implementation, *layout)
    assert sorted(after.reshape(-1).tolist()) == list(range(cost.size))
    assert cost[after].sum(axis=1).max() <= cost[rows].sum(axis=1).max()
    over_before = np.maximum(tokens[rows].sum(axis=1), capacity)
    assert (tokens[after].sum(axis=1) <= over_before).all()


@needs_both
@pytest.mark.parametrize("seed", range(3))
def test_more_bins_than_partners_are_bit_equal(seed):
    generator = np.random.default_rng(seed)
    num_bins, size = 90, 4
    tokens = generator.integers(1, 60, num_bins * size)
    cost = np.sort(tokens**2)[::-1].copy()
    rows = generator.permutation(num_bins * size).astype(np.int32).reshape(num_bins, size)
    capacity = np.full(num_bins, int(tokens.sum() / num_bins * 1.06), np.int64)
    compiled = _repair(COMPILED, cost, tokens, capacity, rows, 400)
    reference = _repair(REFERENCE, cost, tokens, capacity, rows, 400)
    assert compiled[0] == reference[0]
    assert compiled[1].tolist() == reference[1].tolist()


def test_known_swaps(implementation):
    cost, big = np.asarray([9, 7, 3, 1], np.int64), np.full(2, 100, np.int64)
    rows = np.asarray([[0, 1], [2, 3]], np.int32)
    swaps, after = _lower_largest(implementation, cost, np.ones(4, np.int64), big, rows)
    assert swaps == 1
    assert sorted(cost[after].sum(axis=1).tolist()) == [10, 10]


def test_a_cap_forbids_the_best_swap(implementation):
    cost, tokens = np.asarray([9, 7, 3, 1], np.int64), np.asarray([5, 5, 1, 1], np.int64)
    rows = np.asarray([[0, 1], [2, 3]], np.int32)
    swaps, after = _lower_largest(implementation, cost, tokens, np.asarray([10, 5], np.int64), rows)
    assert swaps == 0
    assert after.tolist() == rows.tolist()


def test_the_target_ends_the_search(implementation):
    cost = np.asarray([9, 7, 3, 1], np.int64)
    rows = np.asarray([[0, 1], [2, 3]], np.int32)
    swaps, _ = _lower_largest(implementation, cost, np.ones(4, np.int64), np.full(2, 9, np.int64), rows, target=16)
    assert swaps == 0


def test_repair_moves_what_overflows_and_keeps_every_bin_filled(implementation):
    tokens = np.asarray([6, 5, 1], np.int64)
    rows = np.asarray([[0, 1, 2]], np.int32)
    done, bin_of = _repair(implementation, tokens, tokens, np.asarray([6, 6], np.int64), rows)
    assert done
    assert np.bincount(bin_of, weights=tokens).tolist() == [6, 6]


def test_repair_says_when_it_fails(implementation):
    tokens = np.asarray([4, 4, 4], np.int64)
    done, _ = _repair(implementation, tokens, tokens, np.asarray([7, 5], np.int64), np.asarray([[0, 1, 2]], np.int32))
    assert not done


def test_a_workspace_that_is_too_small_is_refused(both):
    module = both[0].module("swap")
    column = np.ones(4, np.int64)
    with pytest.raises(ValueError, match="workspace"):
        module.repair(column, column, column, 1, np.zeros(4, np.int32), 1, False, np.empty(1, np.uint8))
    with pytest.raises(ValueError, match="bin_of"):
        module.repair(column, column, column, 1, np.full(4, 9, np.int32), 1, False, np.empty(999, np.uint8))
