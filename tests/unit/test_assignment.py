"""A layout is well-formed, read-only and exact."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packing.assignment import Assignment
from packing.errors import ConfigError
from tests.problems import examples


@st.composite
def layouts(draw):
    """Bins that hold 0 .. N - 1 once each, in any order; some may be empty."""
    num_bins = draw(st.integers(1, 6))
    order = draw(st.permutations(range(draw(st.integers(0, 12)))))
    edges = sorted(draw(st.lists(st.integers(0, len(order)), min_size=num_bins - 1, max_size=num_bins - 1)))
    cuts = [0, *edges, len(order)]
    return [list(order[start:stop]) for start, stop in pairwise(cuts)]


@examples(100)
@given(layouts())
def test_bins_round_trip(bins):
    layout = Assignment.from_bins(bins)
    assert layout.to_bins() == bins
    assert layout.num_bins == len(bins)
    assert layout.num_samples == sum(map(len, bins))
    assert layout.offsets.dtype == layout.items.dtype == np.int32
    assert layout == Assignment(layout.offsets, layout.items)


@examples(100)
@given(layouts())
def test_bin_of_is_the_inverse_of_the_layout(bins):
    layout = Assignment.from_bins(bins)
    bin_of = layout.bin_of()
    assert all(sample in bins[b] for sample, b in enumerate(bin_of.tolist()))
    assert Assignment.from_bin_of(bin_of, len(bins)).to_bins() == [sorted(members) for members in bins]


@examples(100)
@given(layouts(), st.data())
def test_sums_are_exact(bins, data):
    count = sum(map(len, bins))
    column = st.lists(st.integers(0, 2**57), min_size=count, max_size=count)
    values = np.asarray(data.draw(column), np.int64)
    table = np.stack([values, np.asarray(data.draw(column), np.int64)], axis=1).reshape(count, 2)
    layout = Assignment.from_bins(bins)
    assert layout.sums(values).tolist() == [sum(values[members].tolist()) for members in bins]
    assert layout.sums(table).tolist() == [[sum(table[members, b].tolist()) for b in (0, 1)] for members in bins]
    assert layout.sums(values).dtype == np.int64


@examples(100)
@given(layouts(), st.data())
def test_reordered_bins(bins, data):
    order = data.draw(st.permutations(range(len(bins))))
    assert Assignment.from_bins(bins).reordered(np.asarray(order)).to_bins() == [bins[b] for b in order]


def test_bins_as_keys():
    assert Assignment.from_bins([[2, 0], [1]]).to_bins(["a", "b", "c"]) == [["c", "a"], ["b"]]


def test_the_arrays_are_copies_and_read_only():
    offsets, items = np.asarray([0, 2], np.int32), np.asarray([1, 0], np.int32)
    layout = Assignment(offsets, items)
    items[:] = 7
    assert layout.items.tolist() == [1, 0]
    assert items.flags.writeable
    for array in (layout.offsets, layout.items):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_a_view_does_not_see_later_changes():
    source = np.arange(6, dtype=np.int32)
    layout = Assignment([0, 3], source[::2])
    source[:] = 0
    assert layout.items.tolist() == [0, 2, 4]


def test_equal_layouts_hash_alike():
    one, other = Assignment.from_bins([[0], [1, 2]]), Assignment.from_bins([(0,), np.asarray([1, 2])])
    assert one == other
    assert hash(one) == hash(other)
    assert one != Assignment.from_bins([[0, 1], [2]])
    assert one != Assignment.from_bins([[0], [2, 1]])
    assert one != [[0], [1, 2]]


def test_no_bins_at_all():
    layout = Assignment.from_bins([])
    assert (layout.num_bins, layout.num_samples, layout.to_bins()) == (0, 0, [])


@pytest.mark.parametrize(
    ("offsets", "items", "message"),
    [
        ([], [], "`offsets` must not be empty."),
        ([1, 2], [0, 1], "`offsets` must ascend from 0 to 2, but got [1, 2]."),
        ([0, 1], [0, 1], "`offsets` must ascend from 0 to 2, but got [0, 1]."),
        ([0, 3], [0, 1], "`offsets` must ascend from 0 to 2, but got [0, 3]."),
        ([0, 2, 1, 2], [0, 1], "`offsets` must ascend from 0 to 2, but got [0, 2, 1, 2]."),
        ([[0, 1]], [0], "`offsets` must be a one-dimensional array of integers, but got [[0, 1]]."),
        ([0, 2], [[0], [1]], "`items` must be a one-dimensional array of integers, but got [[0], [1]]."),
        ([0, 2], [0.5, 1.0], "`items` must be a one-dimensional array of integers, but got [0.5, 1.0]."),
        ([0, 2], [True, False], "`items` must be a one-dimensional array of integers, but got [True, False]."),
        ([0, 2], ["a", "b"], "`items` must be a one-dimensional array of integers, but got ['a', 'b']."),
        ([0, 2], [0, 2**32 + 1], "`items` must fit into 32-bit integers, but got [0, 4294967297]."),
    ],
)
def test_malformed_layouts_are_refused(offsets, items, message):
    with pytest.raises(ConfigError) as error:
        Assignment(offsets, items)
    assert str(error.value) == message
