"""Specification of the rows kernel: segments copied to where they lie, numbers, positions and labels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

__all__ = ["bound_segments", "copy_segments", "label_segments", "number_positions", "number_segments"]


def copy_segments(
    source: Any,  # IN [k, total tokens * width]
    begins: Any,  # IN int64[S]
    lengths: Any,  # IN int64[S]
    row_offsets: Any,  # IN int64[R+1]
    positions: Any,  # IN int64[S]
    padding: Any,  # IN [width]
    target: Any,  # OUT [R, k, T * width]
) -> None:
    """Copies segments of a column, of elements of 1, 2, 4 or 8 bytes, to their rows and pads the rest.

    Args:
        source: IN uint8[k, total tokens * width].
        begins: IN int64[S], the first token of each segment in the source.
        lengths: IN int64[S], at least 1.
        row_offsets: IN int64[R+1]; row r holds the segments `row_offsets[r]:row_offsets[r + 1]`, left to right.
        positions: IN int64[S], the first column of each segment in its row.
        padding: IN uint8[width], the bytes of the element that stands where no segment lies.
        target: OUT uint8[R, k, T * width].

    Raises:
        ValueError: shapes that do not match, or segments outside the source or the target.
    """
    width = len(padding)
    if (
        width not in (1, 2, 4, 8)
        or source.shape[1] % width
        or target.shape[2] % width
        or len(source) != target.shape[1]
    ):
        raise ValueError("source, padding and target must have elements of one width and as many planes")
    total, row_length = source.shape[1] // width, target.shape[2] // width
    _check(total, begins, lengths, row_offsets, positions, len(target), row_length)
    tokens = source.reshape(len(source), total, width)
    rows = np.empty((len(target), row_length, len(source), width), np.uint8)
    rows[:] = padding
    for row, _, begin, position, length in _segments(begins, lengths, row_offsets, positions):
        for i in range(length):
            rows[row, position + i] = tokens[:, begin + i]
    target[:] = np.swapaxes(rows, 1, 2).reshape(target.shape)


def number_segments(
    lengths: Any,  # IN int64[S]
    row_offsets: Any,  # IN int64[R+1]
    positions: Any,  # IN int64[S]
    target: Any,  # OUT int32[R, T]
) -> None:
    """Writes 1 over the tokens of a row's first segment, 2 over those of its second, ..., and 0 over padding.

    Args:
        lengths: IN int64[S], at least 1.
        row_offsets: IN int64[R+1]; row r holds the segments `row_offsets[r]:row_offsets[r + 1]`, left to right.
        positions: IN int64[S], the first column of each segment in its row.
        target: OUT int32[R, T].

    Raises:
        ValueError: shapes that do not match, or segments outside the target.
    """
    _check(0, None, lengths, row_offsets, positions, *target.shape)
    target[:] = 0
    for row, number, _, position, length in _segments(positions, lengths, row_offsets, positions):
        target[row, position : position + length] = number


def number_positions(
    lengths: Any,  # IN int64[S]
    row_offsets: Any,  # IN int64[R+1]
    positions: Any,  # IN int64[S]
    position_start: int,
    target: Any,  # OUT int32[R, T]
) -> None:
    """Writes `position_start`, `position_start` + 1, ... over the tokens of every segment, and 0 over padding.

    Args:
        lengths: IN int64[S], at least 1; `position_start` + length is at most 2**31.
        row_offsets: IN int64[R+1]; row r holds the segments `row_offsets[r]:row_offsets[r + 1]`, left to right.
        positions: IN int64[S], the first column of each segment in its row.
        position_start: of the first token of a segment.
        target: OUT int32[R, T].

    Raises:
        ValueError: shapes that do not match, segments outside the target, or a position that is no int32.
    """
    _check(0, None, lengths, row_offsets, positions, *target.shape)
    if any(position_start + length > 2**31 for length in lengths.tolist()):
        raise ValueError("positions must fit into int32")
    target[:] = 0
    for row, _, _, position, length in _segments(positions, lengths, row_offsets, positions):
        for i in range(length):
            target[row, position + i] = position_start + i


def bound_segments(
    lengths: Any,  # IN int64[S]
    row_offsets: Any,  # IN int64[R+1]
    positions: Any,  # IN int64[S]
    row_length: int,
    tokens: Any,  # OUT int32[R, W]
    columns: Any,  # OUT int32[R, W]
) -> None:
    """Writes where the segments of each row end, counted in tokens and in columns.

    Args:
        lengths: IN int64[S], at least 1.
        row_offsets: IN int64[R+1]; row r holds the segments `row_offsets[r]:row_offsets[r + 1]`, left to right.
        positions: IN int64[S], the first column of each segment in its row.
        row_length: columns of a row.
        tokens: OUT int32[R, W], 0 and the running sum of the lengths, the last one repeated.
        columns: OUT int32[R, W], 0 and the position of the next segment, `row_length` where there is none.

    Raises:
        ValueError: shapes that do not match, W - 1 segments are too few, or segments outside the row.
    """
    if tokens.shape != columns.shape or tokens.shape[1] < 1:
        raise ValueError("tokens and columns must have the same shape, at least one wide")
    _check(0, None, lengths, row_offsets, positions, len(tokens), row_length)
    if (np.diff(row_offsets) >= tokens.shape[1]).any():
        raise ValueError("a row must have fewer segments than tokens and columns are wide")
    for row in range(len(tokens)):
        here = slice(row_offsets[row], row_offsets[row + 1])
        count = here.stop - here.start
        tokens[row] = int(lengths[here].sum())
        tokens[row, : count + 1] = np.cumsum([0, *lengths[here].tolist()])
        columns[row] = row_length
        columns[row, 0] = 0
        columns[row, 1:count] = positions[here][1:]


def label_segments(
    source: Any,  # IN [total tokens * width]
    mask: Any,  # IN uint8[total tokens]
    begins: Any,  # IN int64[S]
    lengths: Any,  # IN int64[S]
    row_offsets: Any,  # IN int64[R+1]
    positions: Any,  # IN int64[S]
    shifted: bool,
    ignore: Any,  # IN [width]
    target: Any,  # OUT [R, T * width]
) -> None:
    """Writes the token to predict where the mask of that token counts it, and `ignore` everywhere else.

    The first token of a segment is predicted by nothing.

    Args:
        source: IN uint8[total tokens * width], token ids of 1, 2, 4 or 8 bytes.
        mask: IN uint8[total tokens], 0 where a token does not count.
        begins: IN int64[S], the first token of each segment in the source.
        lengths: IN int64[S], at least 1.
        row_offsets: IN int64[R+1]; row r holds the segments `row_offsets[r]:row_offsets[r + 1]`, left to right.
        positions: IN int64[S], the first column of each segment in its row.
        shifted: whether a token stands in the column of the token before it, which predicts it, or in its own.
        ignore: IN uint8[width], the bytes of the label that does not count.
        target: OUT uint8[R, T * width].

    Raises:
        ValueError: shapes that do not match, or segments outside the source or the target.
    """
    width, total = len(ignore), len(mask)
    if width not in (1, 2, 4, 8) or len(source) != total * width or target.shape[1] % width:
        raise ValueError("source, ignore and target must have elements of one width, and mask one for each of source")
    row_length = target.shape[1] // width
    _check(total, begins, lengths, row_offsets, positions, len(target), row_length)
    tokens = source.reshape(total, width)
    rows = np.empty((len(target), row_length, width), np.uint8)
    rows[:] = ignore
    for row, _, begin, position, length in _segments(begins, lengths, row_offsets, positions):
        for i in range(1, length):
            if mask[begin + i]:
                rows[row, position + i - shifted] = tokens[begin + i]
    target[:] = rows.reshape(target.shape)


def _segments(begins: Any, lengths: Any, row_offsets: Any, positions: Any) -> Iterator[tuple[int, int, int, int, int]]:
    """(row, number in the row from 1, first token, first column, length) of each segment."""
    for row in range(len(row_offsets) - 1):
        for number, s in enumerate(range(row_offsets[row], row_offsets[row + 1]), start=1):
            yield row, number, int(begins[s]), int(positions[s]), int(lengths[s])


def _check(
    total: int, begins: Any, lengths: Any, row_offsets: Any, positions: Any, num_rows: int, row_length: int
) -> None:
    num_segments = len(lengths)
    if len(positions) != num_segments or (begins is not None and len(begins) != num_segments):
        raise ValueError("begins, lengths and positions must have the same length")
    if len(row_offsets) != num_rows + 1 or row_offsets[0] != 0 or row_offsets[-1] != num_segments:
        raise ValueError("row_offsets must lead from 0 to the number of segments, one more than rows")
    for row in range(num_rows):
        if not row_offsets[row] <= row_offsets[row + 1] <= num_segments:
            raise ValueError("row_offsets must ascend")
        cursor = 0
        for s in range(row_offsets[row], row_offsets[row + 1]):
            if lengths[s] < 1 or positions[s] < cursor or positions[s] > row_length - lengths[s]:
                raise ValueError("segments must lie in their row one after the other")
            cursor = positions[s] + lengths[s]
            if begins is not None and (begins[s] < 0 or begins[s] > total - lengths[s]):
                raise ValueError("segments must lie in the flat column")
