"""The public differencing function: what it takes, what it gives, what it refuses and in which words."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packing.errors import ConfigError
from packing.partition import descending_order, difference, karmarkar_karp


class Tensor:
    """Stands in for a CPU tensor: nothing but `__array__`."""

    def __init__(self, values):
        self.values = np.array(values)

    def __array__(self, dtype=None, copy=None):
        return self.values if dtype is None else self.values.astype(dtype)


KNOWN = [8, 7, 6, 5, 4]
RESULT = [[1, 3, 4], [0, 2]]


@pytest.mark.parametrize(
    "values",
    [
        KNOWN,
        tuple(KNOWN),
        [8.0, 7.0, 6.0, 5.0, 4.0],
        np.array(KNOWN, np.uint8),
        np.array(KNOWN, np.int16),
        np.array(KNOWN, np.uint64),
        np.array(KNOWN, np.float32),
        np.array(KNOWN, ">i8"),
        np.repeat(KNOWN, 2)[::2],
        Tensor(KNOWN),
    ],
    ids=lambda values: f"{type(values).__name__}-{getattr(values, 'dtype', '')}",
)
def test_takes_whole_numbers_of_any_kind(values):
    groups = karmarkar_karp(values, 2)
    assert groups == RESULT
    assert all(type(i) is int for group in groups for i in group)


def test_known_answers():
    assert [sum(KNOWN[i] for i in group) for group in karmarkar_karp(KNOWN, 2)] == [16, 14]
    values = list(range(8, 0, -1))
    assert [sum(values[i] for i in group) for group in karmarkar_karp(values, 4)] == [9] * 4


def test_more_groups_than_values_and_no_values():
    assert karmarkar_karp([1, 5], 4) == [[1], [0], [], []]
    assert karmarkar_karp([], 3) == [[], [], []]
    assert karmarkar_karp(np.empty(0), 2, equal_size=True) == [[], []]


def test_zeros_are_values():
    assert karmarkar_karp([0, 0, 0, 0], 2, equal_size=True) == [[0, 3], [1, 2]]
    assert sorted(len(group) for group in karmarkar_karp([0] * 6, 4)) == [1, 1, 2, 2]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 10**6), max_size=60), st.integers(1, 12))
def test_equal_size_shares_out_the_count(values, k):
    values = values[: len(values) - len(values) % k]
    groups = karmarkar_karp(values, k, equal_size=True)
    assert [len(group) for group in groups] == [len(values) // k] * k
    assert sorted(i for group in groups for i in group) == list(range(len(values)))


def test_the_input_is_not_changed():
    values = np.arange(50)[::-1].copy()
    before = values.copy()
    karmarkar_karp(values, 3)
    np.testing.assert_array_equal(values, before)


@pytest.mark.parametrize(
    ("values", "k", "options", "message"),
    [
        ([1, 2], 0, {}, "`k` must be a positive integer, but got 0."),
        ([1, 2], True, {}, "`k` must be a positive integer, but got True."),
        ([1, 2], 1.5, {}, "`k` must be a positive integer, but got 1.5."),
        ([1], 2**31, {}, "`k` and `len(values)` must be below 2**31 - 1, but got 2147483648 and 1."),
        ([1, 2], 1, {"equal_size": 1}, "`equal_size` must be true or false, but got 1."),
        ([3, -1], 2, {}, "`values` must be non-negative, but got -1 at index 1."),
        ([3, 1.5], 2, {}, "`values` must hold whole numbers, but got 1.5 at index 1."),
        ([3, float("nan")], 2, {}, "`values` must hold whole numbers, but got nan at index 1."),
        ([[1, 2]], 2, {}, "`values` must be one-dimensional, but got shape (1, 2)."),
        ([2**62], 2, {}, f"`values` must have a sum below 2**62, but got {2**62}."),
        ([2**62 - 1, 1], 2, {}, f"`values` must have a sum below 2**62, but got {2**62}."),
        ([2**63 - 1] * 4, 2, {}, f"`values` must have a sum below 2**62, but got {4 * (2**63 - 1)}."),
        (
            [1, 2, 3],
            2,
            {"equal_size": True},
            "`len(values)` must be a multiple of `k` with `equal_size`, but got 3 and k=2.",
        ),
    ],
)
def test_bad_input_is_one_clear_error(values, k, options, message):
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        karmarkar_karp(values, k, **options)


def test_the_largest_sum_is_taken():
    assert karmarkar_karp([2**62 - 2, 1], 2) == [[0], [1]]


def test_difference_sorts_by_itself_or_takes_an_order():
    values = np.array([5, 9, 5, 1])
    offsets, items = difference(values, 2)
    assert (offsets.dtype, items.dtype) == (np.int32, np.int32)
    given_order = difference(values, 2, order=descending_order(values))
    np.testing.assert_array_equal(items, given_order[1])
    np.testing.assert_array_equal(offsets, given_order[0])
    assert difference(values, 4, order=np.array([1, 2, 0, 3], np.int32))[1].tolist() == [1, 2, 0, 3]
    assert difference(values, 4)[1].tolist() == [1, 0, 2, 3]


def test_difference_refuses_what_the_kernel_refuses():
    with pytest.raises(ValueError, match="a multiple of `num_groups` values"):
        difference(np.array([1, 2, 3]), 2, equal_count=True)


def test_descending_order_uses_the_second_key():
    assert descending_order(np.array([1, 2, 2, 1]), np.array([0, 3, 4, 0])).tolist() == [2, 1, 0, 3]
