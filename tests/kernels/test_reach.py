"""The reach kernel: rows of reachable sums, whole, windowed and in one number per sum."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packing import _kernels
from tests.kernels.conftest import COMPILED, REFERENCE

needs_both = pytest.mark.skipif(_kernels.backend == "reference", reason="the compiled kernels are switched off")

lengths = st.lists(st.integers(1, 90) | st.sampled_from([63, 64, 65, 127, 128]), max_size=14)
capacities = st.integers(0, 300) | st.sampled_from([63, 64, 127, 128, 191, 192])


def _full(implementation, tokens, capacity):
    module = implementation.module("reach")
    table = np.full((tokens.size + 1, module.words(capacity)), 0xAB, np.uint64)
    module.full_table(tokens, capacity, table)
    return table


def _window(implementation, tokens, capacity):
    module = implementation.module("reach")
    first_word, offsets = np.empty(tokens.size + 1, np.int64), np.empty(tokens.size + 2, np.int64)
    used = module.window_offsets(tokens, capacity, first_word, offsets)
    table = np.full(used, 0xAB, np.uint64)
    module.window_table(tokens, capacity, first_word, offsets, table)
    return first_word, offsets, table


def _latest(implementation, tokens, capacity):
    module = implementation.module("reach")
    last_start = np.full(capacity + 1, 77, np.int32)
    module.latest(tokens, capacity, last_start, np.full(module.latest_workspace(capacity), 0xAB, np.uint8))
    return last_start


def _bit(table, row, s):
    return bool(int(table[row, s // 64]) >> (s % 64) & 1)


@needs_both
@settings(max_examples=300, deadline=None)
@given(lengths, capacities)
def test_every_form_is_bit_equal(values, capacity):
    tokens = np.asarray(values, np.int64)
    assert np.array_equal(_full(COMPILED, tokens, capacity), _full(REFERENCE, tokens, capacity))
    assert np.array_equal(_latest(COMPILED, tokens, capacity), _latest(REFERENCE, tokens, capacity))
    for one, other in zip(_window(COMPILED, tokens, capacity), _window(REFERENCE, tokens, capacity), strict=True):
        assert np.array_equal(one, other)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 40), max_size=7), st.integers(0, 150))
def test_a_row_holds_the_sums_of_all_subsets(values, capacity):
    tokens = np.asarray(values, np.int64)
    table = _full(REFERENCE if _kernels.backend == "reference" else COMPILED, tokens, capacity)
    for row in range(len(values) + 1):
        sums = {0}
        for value in values[row:]:
            sums |= {one + value for one in sums}
        assert {s for s in range(capacity + 1) if _bit(table, row, s)} == {s for s in sums if s <= capacity}
        assert int(table[row, -1]) >> (capacity % 64 + 1) == 0


@settings(max_examples=100, deadline=None)
@given(lengths, capacities)
def test_the_other_forms_agree_with_the_whole_table(values, capacity):
    implementation = REFERENCE if _kernels.backend == "reference" else COMPILED
    tokens = np.asarray(values, np.int64)
    table, last_start = _full(implementation, tokens, capacity), _latest(implementation, tokens, capacity)
    first_word, offsets, window = _window(implementation, tokens, capacity)
    rest = int(tokens.sum())
    for row in range(tokens.size + 1):
        for s in range(capacity + 1):
            assert (last_start[s] >= row) == _bit(table, row, s)
        for s in range(max(0, rest - capacity), min(rest, capacity) + 1):
            word = int(window[offsets[row] + s // 64 - first_word[row]])
            assert bool(word >> (s % 64) & 1) == _bit(table, row, s)
        rest -= values[row] if row < len(values) else 0


@settings(max_examples=100, deadline=None)
@given(lengths, capacities, st.integers(-2, 310))
def test_a_subset_sums_to_its_target(values, capacity, target):
    implementation = REFERENCE if _kernels.backend == "reference" else COMPILED
    tokens = np.asarray(values, np.int64)
    last_start = _latest(implementation, tokens, capacity)
    chosen = np.full(tokens.size, 9, np.uint8)
    found = implementation.module("reach").subset(tokens, last_start, target, chosen)
    assert found == (0 <= target <= capacity and last_start[target] >= 0)
    assert int(tokens[chosen == 1].sum()) == (target if found else 0)
    assert set(chosen.tolist()) <= {0, 1}


@needs_both
@pytest.mark.parametrize(("shortest", "longest", "count"), [(1, 300, 200), (5, 60, 900), (900, 9000, 40)])
def test_large_sets_agree_with_the_whole_table(shortest, longest, count):
    """Long runs of full words, which `latest` skips."""
    tokens = np.sort(np.random.default_rng(count).integers(shortest, longest, count))[::-1].copy()
    capacity = 20_000
    table, last_start = _full(COMPILED, tokens, capacity), _latest(COMPILED, tokens, capacity)
    for row in range(0, count + 1, 7):
        bits = np.unpackbits(table[row].astype("<u8").view(np.uint8), bitorder="little")[: capacity + 1]
        assert np.array_equal(bits == 1, last_start >= row)


def test_the_window_takes_half_of_a_full_pair(implementation):
    tokens = np.full(60, 640, np.int64)
    if implementation is REFERENCE:
        tokens = tokens[:20]
    capacity = int(tokens.sum()) // 2
    full = (tokens.size + 1) * implementation.module("reach").words(capacity)
    _, offsets, _ = _window(implementation, tokens, capacity)
    assert 0.45 * full < offsets[-1] < 0.55 * full


@needs_both
def test_two_thousand_samples_in_a_million_tokens_take_five_megabytes():
    generator = np.random.default_rng(0)
    tokens = generator.integers(1, 1040, 2000)
    capacity = 1 << 20
    last_start = _latest(COMPILED, tokens, capacity)
    memory = last_start.nbytes + COMPILED.module("reach").latest_workspace(capacity)
    assert memory <= 32 << 20
    chosen = np.zeros(tokens.size, np.uint8)
    target = capacity - 12345
    assert COMPILED.module("reach").subset(tokens, last_start, target, chosen)
    assert tokens[chosen == 1].sum() == target


def test_malformed_arguments_are_refused(both):
    module = both[0].module("reach")
    tokens = np.asarray([3, 5], np.int64)
    with pytest.raises(ValueError, match="positive"):
        module.full_table(np.asarray([0, 1], np.int64), 4, np.zeros((3, 1), np.uint64))
    with pytest.raises(ValueError, match="table"):
        module.full_table(tokens, 4, np.zeros((2, 1), np.uint64))
    with pytest.raises(ValueError, match="workspace"):
        module.latest(tokens, 4, np.zeros(5, np.int32), np.zeros(1, np.uint8))
    with pytest.raises(ValueError, match="does not belong"):
        module.subset(tokens, np.full(5, 1, np.int32), 4, np.zeros(2, np.uint8))
