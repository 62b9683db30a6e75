"""The order kernel: what it promises, and that both implementations give the same answer."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packing import _kernels
from packing._reference import order as reference

if TYPE_CHECKING:
    from tests.kernels.conftest import Implementation

LARGEST = 2**63 - 1


def descending(module: ModuleType, primary, secondary=None, misaligned: int = 0) -> np.ndarray:
    primary = np.asarray(primary, np.int64)
    secondary = None if secondary is None else np.asarray(secondary, np.int64)
    order = np.full(len(primary), -1, np.int32)
    workspace = np.full(module.descending_workspace(len(primary)) + misaligned, 0xFF, np.uint8)[misaligned:]
    module.descending(primary, secondary, order, workspace)
    return order


@st.composite
def keys(draw: st.DrawFn) -> tuple[list[int], list[int] | None]:
    """Two keys of any width, few or many ties, on both sides of the size where the radix sort takes over."""
    n = draw(st.sampled_from([0, 1, 2, 7, 47, 48, 49, 150]))
    high = draw(st.sampled_from([0, 1, 300, 2**20, 2**41, LARGEST]))
    low = draw(st.sampled_from([0, high - min(high, 5)]))
    primary = draw(st.lists(st.integers(low, high), min_size=n, max_size=n))
    limit = draw(st.sampled_from([None, 3, 2**16, LARGEST]))
    return primary, None if limit is None else draw(st.lists(st.integers(0, limit), min_size=n, max_size=n))


@settings(max_examples=300, deadline=None)
@given(keys(), st.integers(0, 7))
def test_both_sort_by_both_keys_and_then_by_index(keys, misaligned):
    primary, secondary = keys
    second = secondary or [0] * len(primary)
    expected = sorted(range(len(primary)), key=lambda i: (-primary[i], -second[i], i))
    for module in {_kernels.order, reference}:
        assert descending(module, primary, secondary, misaligned).tolist() == expected


def test_ties_keep_the_input_order(implementation: Implementation):
    module = implementation.module("order")
    for n in (5, 1000):
        assert descending(module, [3] * n, [2] * n).tolist() == list(range(n))


def test_large_input_against_lexsort(both):
    module = both[0].module("order")
    rng = np.random.default_rng(5)
    n = 70_000
    # 63 + 63 key bits beside 17 index bits: more than one word holds
    for primary, secondary in [
        (rng.integers(0, 50, n), rng.integers(0, LARGEST, n)),
        (rng.integers(0, LARGEST, n), rng.integers(0, 9, n)),
        (rng.integers(0, 3, n) * (LARGEST // 2), rng.integers(0, 3, n) * (LARGEST // 2)),
        (rng.integers(0, 1 << 40, n), None),
    ]:
        second = np.zeros(n, np.int64) if secondary is None else secondary
        expected = np.lexsort((np.arange(n), -second, -primary))
        np.testing.assert_array_equal(descending(module, primary, secondary), expected)


def test_read_only_input_is_taken_and_not_changed(implementation: Implementation):
    primary = np.arange(100)
    primary.flags.writeable = False
    assert descending(implementation.module("order"), primary, primary).tolist() == list(range(99, -1, -1))


@pytest.mark.parametrize("n", [3, 300])
@pytest.mark.parametrize("key", ["primary", "secondary"])
def test_negative_values_are_refused(implementation: Implementation, n: int, key: str):
    arrays = {"primary": np.ones(n, np.int64), "secondary": np.ones(n, np.int64)}
    arrays[key][n - 1] = -1
    with pytest.raises(ValueError, match=r"`primary` and `secondary` must not be negative\."):
        descending(implementation.module("order"), **arrays)


@pytest.mark.parametrize(("secondary", "order"), [(4, 3), (None, 4), (3, 2)])
def test_lengths_that_differ_are_refused(implementation: Implementation, secondary: int | None, order: int):
    module = implementation.module("order")
    second = None if secondary is None else np.ones(secondary, np.int64)
    workspace = np.empty(module.descending_workspace(3), np.uint8)
    with pytest.raises(ValueError, match="must have one length"):
        module.descending(np.ones(3, np.int64), second, np.empty(order, np.int32), workspace)


def test_a_small_workspace_is_refused(both):
    module = both[0].module("order")
    workspace = np.empty(module.descending_workspace(1000) - 1, np.uint8)
    with pytest.raises(ValueError, match="`workspace` is too small"):
        module.descending(np.ones(1000, np.int64), None, np.empty(1000, np.int32), workspace)


def test_workspace_stays_at_two_words_a_sample(both):
    assert both[0].module("order").descending_workspace(10**6) <= 16.1 * 10**6
