"""The allocation functions of AReaL: caps and counts kept, sums balanced, errors that are theirs too."""

from __future__ import annotations

import bisect
import re
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packing import ConfigError, InfeasibleError, pack
from packing.compat import areal
from packing.compat._more_bins import cut_into
from packing.compat.areal import (
    PACKING_ALGORITHMS,
    AllocationError,
    balanced_greedy_partition,
    ffd_allocate,
    get_allocate_fn,
    kk_allocate,
)

BOTH = pytest.mark.parametrize("allocate", [ffd_allocate, kk_allocate])


@st.composite
def inputs(draw):
    capacity = draw(st.integers(1, 60))
    return draw(st.lists(st.integers(1, capacity), max_size=30)), capacity


def valid(groups, values, capacity) -> bool:
    return sorted(chain.from_iterable(groups)) == list(range(len(values))) and all(
        one and one == sorted(one) and sum(values[i] for i in one) <= capacity for one in groups
    )


def fewest_values_first(values, capacity, least):
    """What AReaL's "ffd" does: the largest value to the group with the fewest values that has room."""
    groups, sums = [], []  # sums: (sum, group), ascending
    for index in np.argsort(-np.array(values), kind="stable").tolist():
        if len(groups) < least or sums[0][0] + values[index] > capacity:
            bisect.insort(sums, (values[index], len(groups)))
            groups.append([index])
        else:
            room = bisect.bisect_right(sums, (capacity - values[index], len(values)))
            at = min(range(room), key=lambda at: len(groups[sums[at][1]]))
            total, group = sums.pop(at)
            bisect.insort(sums, (total + values[index], group))
            groups[group].append(index)
    return groups


@BOTH
@given(inputs(), st.one_of(st.none(), st.integers(0, 6)), st.integers(1, 5))
def test_cap_minimum_and_multiple_are_kept_or_refused(allocate, given_, least, divisor):
    values, capacity = given_
    fewest = pack(values, capacity, algorithm="exact_fill").num_bins if values else 0
    promised = -(-max(least or 0, fewest) // divisor) * divisor
    try:
        groups = allocate(values, capacity, least, divisor)
    except AllocationError:
        assert promised > len(values)
        return
    assert valid(groups, values, capacity)
    assert len(groups) >= (least or 0)
    assert len(groups) % divisor == 0
    assert len(groups) == promised
    sums = [sum(values[i] for i in one) for one in groups]
    assert sums == sorted(sums, reverse=True)
    assert groups == allocate(np.array(values, np.int64), capacity, least, divisor)


@given(inputs(), st.integers(1, 4))
def test_never_more_groups_than_the_peer(given_, divisor):
    values, capacity = given_
    least = divisor
    if len(values) < least:
        return
    theirs = fewest_values_first(values, capacity, least)
    while len(theirs) % divisor and len(values) >= least + divisor:
        least += divisor
        theirs = fewest_values_first(values, capacity, least)
    if len(theirs) % divisor == 0:
        assert len(ffd_allocate(values, capacity, divisor, divisor)) <= len(theirs)


def test_real_lengths_are_balanced(lengths_of):
    values = lengths_of("servegen_r1")[:2048].tolist()
    groups = ffd_allocate(values, 65_536, 8, 4)
    sums = [sum(values[i] for i in one) for one in groups]
    assert len(groups) % 4 == 0
    assert max(sums) <= 1.001 * sum(sums) / len(sums)
    theirs = fewest_values_first(values, 65_536, 8)
    assert len(groups) <= len(theirs) + 3
    apart = get_allocate_fn("kk")(values, capacity=int(1e12), min_groups=16)
    sums = [sum(values[i] for i in one) for one in apart]
    assert len(apart) == 16
    assert max(sums) - min(sums) <= 2


def test_names():
    assert [get_allocate_fn(name) for name in PACKING_ALGORITHMS] == [ffd_allocate, kk_allocate]
    assert get_allocate_fn() is ffd_allocate
    with pytest.raises(ConfigError, match=r'^`algorithm` must be one of "ffd", "kk", but got \'lpt\'\.$'):
        get_allocate_fn("lpt")


def test_differencing_is_kept_where_the_cap_allows_it():
    # The known answer of largest differencing; exchanges would find 15 and 15.
    values = [8, 7, 6, 5, 4]
    sums = [sum(values[i] for i in one) for one in kk_allocate(values, 16, 2)]
    assert sums == [16, 14]
    assert [sum(values[i] for i in one) for one in kk_allocate(values, 15, 2)] == [15, 15]


def test_equal_sizes():
    values = [9, 1, 1, 1, 5, 5]
    groups = kk_allocate(values, 100, 2, equal_size=True)
    assert [len(one) for one in groups] == [3, 3]
    capped = kk_allocate([9, 2, 2, 9, 2, 2], 13, 2, equal_size=True)
    assert [len(one) for one in capped] == [3, 3]
    assert valid(capped, [9, 2, 2, 9, 2, 2], 13)
    with pytest.raises(AllocationError, match=r"^`len\(values\)` must be a multiple of the 4 groups with `equal_size`"):
        kk_allocate(values, 100, 4, equal_size=True)
    with pytest.raises(AllocationError, match=r"^no allocation into 2 groups of equal sizes was found under"):
        kk_allocate([8, 8, 8, 1, 1, 1], 16, 2, equal_size=True)


def test_where_auto_finds_nothing_a_packing_is_cut(monkeypatch):
    monkeypatch.setattr(areal, "_AUTO", type("Nothing", (), {"assign": lambda self, problem: None})())
    groups = ffd_allocate([5, 4, 3, 3, 3, 2], 10, 4)
    assert valid(groups, [5, 4, 3, 3, 3, 2], 10)
    assert len(groups) == 4


@given(st.lists(st.integers(0, 30), min_size=1, max_size=20), st.integers(1, 25))
def test_bins_are_cut_in_their_order(tokens, count):
    bins = cut_into([list(range(len(tokens)))], tokens, min(count, len(tokens)))
    assert len(bins) == min(count, len(tokens))
    assert list(chain.from_iterable(sorted(bins))) == list(range(len(tokens)))
    assert all(bins)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=8), st.integers(1, 4))
def test_groups_of_equal_sizes(nums, count):
    nums = nums * count
    groups = balanced_greedy_partition(nums, count)
    assert valid(groups, nums, sum(nums))
    assert [len(one) for one in groups] == [len(nums) // count] * count


@BOTH
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([3, 9], 8, 1), AllocationError, "`values` must be at most `capacity` 8, but got 9 at index 1."),
        (
            ([1, 1], 8, 3),
            AllocationError,
            "3 non-empty groups (a multiple of `n_groups_divisor` 1) need as many values, but there are only 2.",
        ),
        (([1, 0], 8, 1), ConfigError, "`values` must be positive, but got 0 at index 1."),
        (([1], 0, 1), ConfigError, "`capacity` must be a positive integer, but got 0."),
        (([1], 8, -1), ConfigError, "`min_groups` must be a non-negative integer, but got -1."),
        (([1], 8, 1, True), ConfigError, "`n_groups_divisor` must be a positive integer, but got True."),
    ],
)
def test_what_cannot_be_is_named(allocate, arguments, error, message):
    with pytest.raises(error, match="^" + re.escape(message) + "$"):
        allocate(*arguments)


def test_errors_are_those_of_the_peer_as_well():
    assert issubclass(AllocationError, RuntimeError)
    assert issubclass(AllocationError, InfeasibleError)
    with pytest.raises(ConfigError, match=r"^`len\(nums\)` must be a positive multiple of `K` = 2, but got 3\.$"):
        balanced_greedy_partition([1, 2, 3], 2)
    with pytest.raises(ConfigError, match=r"^`values` must add up to less than 2\*\*62, but got \d+\.$"):
        ffd_allocate([2**61, 2**61], 2**62, 1)


@BOTH
def test_no_values_give_no_group(allocate):
    assert allocate([], 8, None) == allocate([], 8, 0, 4) == []
