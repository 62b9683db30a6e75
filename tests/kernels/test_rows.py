"""The rows kernel: both implementations write the same bytes, all of them and no others."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packing import _kernels
from tests.kernels.conftest import COMPILED, REFERENCE

needs_both = pytest.mark.skipif(_kernels.backend == "reference", reason="the compiled kernels are switched off")

GUARD = 0xA5


@st.composite
def layouts(draw):
    """(total, begins, lengths, row_offsets, positions, row length); segments may come from anywhere."""
    total = draw(st.integers(1, 40))
    row_length = draw(st.integers(0, 30))
    begins, lengths, positions, offsets = [], [], [], [0]
    for _ in range(draw(st.integers(0, 4))):
        cursor = 0
        while cursor < row_length and draw(st.booleans()):
            position = draw(st.integers(cursor, row_length - 1))
            length = draw(st.integers(1, min(total, row_length - position)))
            begins.append(draw(st.integers(0, total - length)))
            lengths.append(length)
            positions.append(position)
            cursor = position + length
        offsets.append(len(lengths))
    columns = [np.asarray(column, np.int64) for column in (begins, lengths, offsets, positions)]
    for column in columns:
        column.flags.writeable = False
    return total, *columns, row_length


def guarded(shape: tuple[int, ...], dtype=np.uint8) -> tuple[np.ndarray, np.ndarray]:
    """(array of that shape full of rubbish, the memory around it and it)."""
    width = np.dtype(dtype).itemsize
    count = int(np.prod(shape))
    memory = np.full((count + 16) * width, GUARD, np.uint8)
    return memory[8 * width : (8 + count) * width].view(dtype).reshape(shape), memory


def random_bytes(*shape: int) -> np.ndarray:
    values = np.random.default_rng(sum(shape)).integers(0, 256, shape, np.uint8)
    values.flags.writeable = False
    return values


def check_guards(memory: np.ndarray, bytes_each: int) -> None:
    assert (memory[: 8 * bytes_each] == GUARD).all()
    assert (memory[-8 * bytes_each :] == GUARD).all()


@needs_both
@settings(max_examples=300, deadline=None)
@given(layouts(), st.sampled_from([1, 2, 4, 8]), st.integers(1, 3), st.booleans())
def test_copies_are_bit_equal(layout, width, planes, zero):
    total, *columns, row_length = layout
    source = random_bytes(planes, total * width)
    padding = np.zeros(width, np.uint8) if zero else np.arange(1, width + 1, dtype=np.uint8)
    results = []
    for implementation in (COMPILED, REFERENCE):
        target, memory = guarded((len(columns[2]) - 1, planes, row_length * width))
        implementation.module("rows").copy_segments(source, *columns, padding, target)
        check_guards(memory, 1)
        results.append(target.tolist())
    assert results[0] == results[1]


@needs_both
@settings(max_examples=300, deadline=None)
@given(layouts(), st.sampled_from([0, 1, 2, 2**31 - 31]))
def test_numbers_are_bit_equal(layout, position_start):
    _, _, lengths, offsets, positions, row_length = layout
    for name, more in (("number_segments", ()), ("number_positions", (position_start,))):
        results = []
        for implementation in (COMPILED, REFERENCE):
            target, memory = guarded((len(offsets) - 1, row_length), np.int32)
            getattr(implementation.module("rows"), name)(lengths, offsets, positions, *more, target)
            check_guards(memory, 4)
            results.append(target.tolist())
        assert results[0] == results[1]


@needs_both
@settings(max_examples=300, deadline=None)
@given(layouts(), st.integers(0, 3))
def test_bounds_are_bit_equal(layout, spare):
    _, _, lengths, offsets, positions, row_length = layout
    shape = (len(offsets) - 1, int(np.diff(offsets).max(initial=0)) + 1 + spare)
    results = []
    for implementation in (COMPILED, REFERENCE):
        (tokens, first), (columns, second) = guarded(shape, np.int32), guarded(shape, np.int32)
        implementation.module("rows").bound_segments(lengths, offsets, positions, row_length, tokens, columns)
        check_guards(first, 4)
        check_guards(second, 4)
        results.append((tokens.tolist(), columns.tolist()))
    assert results[0] == results[1]


@needs_both
@settings(max_examples=300, deadline=None)
@given(layouts(), st.sampled_from([1, 2, 4, 8]), st.booleans(), st.sampled_from([0, 1, 2]))
def test_labels_are_bit_equal(layout, width, shifted, counted):
    total, *columns, row_length = layout
    source = random_bytes(total * width)
    mask = random_bytes(total) % 2 if counted == 2 else np.full(total, counted, np.uint8)
    ignore = np.arange(1, width + 1, dtype=np.uint8)
    results = []
    for implementation in (COMPILED, REFERENCE):
        target, memory = guarded((len(columns[2]) - 1, row_length * width))
        implementation.module("rows").label_segments(source, mask, *columns, shifted, ignore, target)
        check_guards(memory, 1)
        results.append(target.tolist())
    assert results[0] == results[1]


def int64(*values: int) -> np.ndarray:
    return np.asarray(values, np.int64)


def test_known_rows(implementation):
    module = implementation.module("rows")
    source, rows = np.arange(10, dtype=np.uint8)[None], (int64(3, 2), int64(0, 2, 2), int64(0, 4))
    target = np.empty((2, 1, 7), np.uint8)
    module.copy_segments(source, int64(5, 0), *rows, np.asarray([99], np.uint8), target)
    assert target.tolist() == [[[5, 6, 7, 99, 0, 1, 99]], [[99] * 7]]
    numbers = np.empty((2, 7), np.int32)
    module.number_segments(*rows, numbers)
    assert numbers.tolist() == [[1, 1, 1, 0, 2, 2, 0], [0] * 7]
    module.number_positions(*rows, 2, numbers)
    assert numbers.tolist() == [[2, 3, 4, 0, 2, 3, 0], [0] * 7]
    tokens, columns = np.empty((2, 4), np.int32), np.empty((2, 4), np.int32)
    module.bound_segments(*rows, 7, tokens, columns)
    assert tokens.tolist() == [[0, 3, 5, 5], [0, 0, 0, 0]]
    assert columns.tolist() == [[0, 4, 7, 7], [0, 7, 7, 7]]
    mask, ignore, labels = np.ones(10, np.uint8), np.asarray([99], np.uint8), np.empty((2, 7), np.uint8)
    mask[7] = 0
    module.label_segments(source[0], mask, int64(5, 0), *rows, False, ignore, labels)
    assert labels.tolist() == [[99, 6, 99, 99, 99, 1, 99], [99] * 7]
    module.label_segments(source[0], mask, int64(5, 0), *rows, True, ignore, labels)
    assert labels.tolist() == [[6, 99, 99, 99, 1, 99, 99], [99] * 7]


@pytest.mark.parametrize(
    ("begins", "lengths", "offsets", "positions", "message"),
    [
        ([0], [5], [0, 1], [0], "segments must lie in their row one after the other"),  # longer than the row
        ([0], [2], [0, 1], [3], "segments must lie in their row one after the other"),
        ([0], [2], [0, 1], [-1], "segments must lie in their row one after the other"),
        ([0], [0], [0, 1], [0], "segments must lie in their row one after the other"),
        ([0], [2**62], [0, 1], [2**62], "segments must lie in their row one after the other"),
        ([0, 0], [2, 2], [0, 2], [0, 1], "segments must lie in their row one after the other"),
        ([5], [2], [0, 1], [0], "segments must lie in the flat column"),
        ([-1], [2], [0, 1], [0], "segments must lie in the flat column"),
        ([2**62], [2], [0, 1], [0], "segments must lie in the flat column"),
        ([0, 0], [2], [0, 1], [0], "begins, lengths and positions must have the same length"),
        ([0], [2], [0, 1], [], "begins, lengths and positions must have the same length"),
        ([0], [2], [0, 0], [0], "row_offsets must lead from 0 to the number of segments, one more than rows"),
        ([0], [2], [1, 1], [0], "row_offsets must lead from 0 to the number of segments, one more than rows"),
        ([0], [2], [0, 1, 1], [0], "row_offsets must lead from 0 to the number of segments, one more than rows"),
        ([0], [2], [], [0], "row_offsets must lead from 0 to the number of segments, one more than rows"),
    ],
)
def test_no_access_outside_the_arrays(implementation, begins, lengths, offsets, positions, message):
    module = implementation.module("rows")
    begins, lengths, offsets, positions = (int64(*column) for column in (begins, lengths, offsets, positions))
    one, target = np.zeros(1, np.uint8), np.empty((1, 1, 4), np.uint8)
    with pytest.raises(ValueError, match=message):
        module.copy_segments(np.zeros((1, 6), np.uint8), begins, lengths, offsets, positions, one, target)
    mask = np.zeros(6, np.uint8)
    with pytest.raises(ValueError, match=message):
        module.label_segments(mask, mask, begins, lengths, offsets, positions, False, one, target[0])
    if "flat" not in message and len(begins) == len(lengths):
        numbers = np.empty((1, 4), np.int32)
        with pytest.raises(ValueError, match=message):
            module.number_segments(lengths, offsets, positions, numbers)
        with pytest.raises(ValueError, match=message):
            module.number_positions(lengths, offsets, positions, 0, numbers)
        with pytest.raises(ValueError, match=message):
            module.bound_segments(lengths, offsets, positions, 4, numbers, numbers.copy())


def test_offsets_that_descend(implementation):
    module = implementation.module("rows")
    numbers = np.empty((3, 4), np.int32)
    for offsets in (int64(0, 1, 0, 1), int64(0, 2, 1, 1)):
        with pytest.raises(ValueError, match="row_offsets must ascend"):
            module.number_segments(int64(1), offsets, int64(0), numbers)


def test_widths_and_positions_that_do_not_fit(implementation):
    module = implementation.module("rows")
    rows = (int64(1), int64(0, 1), int64(0))
    source, target = np.zeros((1, 12), np.uint8), np.empty((1, 1, 12), np.uint8)
    for width, planes in ((3, 1), (8, 1), (0, 1), (4, 2)):
        with pytest.raises(ValueError, match="elements of one width"):
            module.copy_segments(source, int64(0), *rows, np.zeros(width, np.uint8), np.repeat(target, planes, axis=1))
    for width, tokens in ((3, 4), (4, 4), (8, 2)):
        mask = np.zeros(tokens, np.uint8)
        with pytest.raises(ValueError, match="elements of one width"):
            module.label_segments(source[0], mask, int64(0), *rows, True, np.zeros(width, np.uint8), target[0, :, :10])
    for tokens, columns in (((1, 2), (1, 3)), ((1, 0), (1, 0))):
        with pytest.raises(ValueError, match="tokens and columns must have the same shape"):
            module.bound_segments(*rows, 4, np.empty(tokens, np.int32), np.empty(columns, np.int32))
    with pytest.raises(ValueError, match="a row must have fewer segments than tokens and columns are wide"):
        module.bound_segments(*rows, 4, np.empty((1, 1), np.int32), np.empty((1, 1), np.int32))
    with pytest.raises(ValueError, match="positions must fit into int32"):
        module.number_positions(int64(2), *rows[1:], 2**31 - 1, np.empty((1, 4), np.int32))
