"""RowLayout: which run of which sequence lies where in which row; what rows, loss weights and shards are made from."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from packing import _checks
from packing._checks import Int64Array, shown
from packing.alignment import Alignment
from packing.assignment import Assignment
from packing.bins import PackedBins
from packing.errors import ConfigError, InfeasibleError
from packing.plan import Plan

__all__ = ["RowLayout"]


@dataclass(frozen=True, eq=False)
class RowLayout:
    """Where the segments of N sequences lie in R rows. A segment is a run of one sequence's tokens inside one row.

    Mostly a segment is a whole sequence; a truncated one is a part of it, and a split one has several segments. A row
    without segments is a dummy row: padding alone, of weight 0. All arrays are read-only.

    Args:
        num_sequences: N; sequences that have no segment here were dropped, or lie in other rows.
        row_offsets: int64[R+1]; row r holds the segments `row_offsets[r]:row_offsets[r + 1]`, left to right.
        sequences: int64[S], the sequence of each segment, in [0, N).
        starts: int64[S], where the segment begins in its sequence, in tokens.
        lengths: int64[S], its tokens, at least 1.
        footprints: int64[S], the columns it takes, at least its length.
        row_length: T, columns of every row.
        alignment: what footprints and rows were rounded up to.

    Raises:
        ConfigError: arrays that do not fit together, or T is no multiple of the row alignment.
        InfeasibleError: a row longer than T.
    """

    num_sequences: int
    row_offsets: Int64Array
    sequences: Int64Array
    starts: Int64Array
    lengths: Int64Array
    footprints: Int64Array
    row_length: int
    alignment: Alignment = field(default_factory=Alignment)

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "num_sequences", _checks.integer("num_sequences", self.num_sequences, minimum=0))
        put(self, "row_length", _checks.integer("row_length", self.row_length, minimum=0, maximum=2**40))
        for name in ("row_offsets", "sequences", "starts", "lengths", "footprints"):
            column = _checks.integers(name, getattr(self, name), minimum=1 if name in ("lengths", "footprints") else 0)
            column.flags.writeable = False
            put(self, name, column)
        offsets, num_segments = self.row_offsets, self.sequences.size
        if offsets.size < 1 or offsets[0] != 0 or offsets[-1] != num_segments or (np.diff(offsets) < 0).any():
            raise ConfigError(f"`row_offsets` must ascend from 0 to {num_segments}, but got {shown(offsets.tolist())}.")
        for name in ("starts", "lengths", "footprints"):
            if getattr(self, name).size != num_segments:
                raise ConfigError(f"`{name}` must have {num_segments} values, but got {getattr(self, name).size}.")
        if num_segments and int(self.sequences.max()) >= self.num_sequences:
            raise ConfigError(f"`sequences` must be below {self.num_sequences}, but got {int(self.sequences.max())}.")
        if (self.footprints < self.lengths).any():
            at = int(np.argmax(self.footprints < self.lengths))
            length, footprint = self.lengths[at], self.footprints[at]
            raise ConfigError(f"`footprints` must be at least the length {length}, but got {footprint}.")
        self.alignment.check_row_length("row_length", self.row_length)
        if self.num_rows and int(self.row_columns.max()) > self.row_length:
            at = int(np.argmax(self.row_columns))
            columns = self.row_columns[at]
            raise InfeasibleError(f"row {at} takes {columns} tokens, more than the row length {self.row_length}.")

    def __reduce__(self) -> tuple[Any, ...]:
        columns = (self.row_offsets, self.sequences, self.starts, self.lengths, self.footprints)
        return RowLayout, (self.num_sequences, *columns, self.row_length, self.alignment)

    @classmethod
    def from_bins(
        cls, lengths: Any, bins: Any, *, row_length: int | None = None, alignment: Any = 1, num_rows: int | None = None
    ) -> RowLayout:
        """Whole sequences, row after row.

        Args:
            lengths: int[N], tokens of each sequence, at least 1.
            bins: a `Plan`, an `Assignment`, a `PackedBins`, or lists of sequence indices, one for each row. No sequence
                may be in it twice; those that are not in it are in no row.
            row_length: T; None: the longest row, rounded up to the row alignment.
            alignment: an integer (of segments), a mapping or an `Alignment`.
            num_rows: dummy rows follow until there are so many; None: none follow.

        Raises:
            ConfigError: a malformed argument, an index out of range or used twice.
            InfeasibleError: a row longer than `row_length`, or more rows than `num_rows`.
        """
        lengths = _checks.integers("lengths", lengths, minimum=1)
        alignment = Alignment.of(alignment)
        if not isinstance(bins, (Plan, Assignment, PackedBins)):
            bins = Assignment.from_bins(bins)
        offsets, items = bins.offsets.astype(np.int64), bins.items.astype(np.int64)
        used = np.bincount(items[(items >= 0) & (items < lengths.size)], minlength=lengths.size)
        if items.size and not 0 <= int(items.min()) <= int(items.max()) < lengths.size:
            wrong = items[(items < 0) | (items >= lengths.size)][0]
            raise ConfigError(f"`bins` must hold indices in [0, {lengths.size}), but got {wrong}.")
        if (used > 1).any():
            raise ConfigError(f"`bins` must hold no sequence twice, but {int(np.argmax(used > 1))} is.")
        rows = offsets.size - 1
        num_rows = rows if num_rows is None else _checks.integer("num_rows", num_rows, minimum=0)
        if rows > num_rows:
            raise InfeasibleError(f"`bins` has {rows} rows, more than `num_rows` {num_rows}.")
        offsets = np.concatenate((offsets, np.full(num_rows - rows, offsets[-1])))
        footprints = alignment.aligned(lengths)[items]
        if row_length is None:
            running = np.concatenate(([0], np.cumsum(footprints)))
            longest = int(np.diff(running[offsets]).max(initial=0))
            row_length = -(-longest // alignment.row) * alignment.row
        starts = np.zeros_like(items)
        return cls(lengths.size, offsets, items, starts, lengths[items], footprints, row_length, alignment)

    @classmethod
    def from_plan(cls, plan: Plan, *, alignment: Any = 1) -> RowLayout:
        """The K rows of a plan, rank-major, each `plan.seq_len` long (the longest row's length where that is None).

        Args:
            plan: what the planner made.
            alignment: the planner's.
        """
        alignment = Alignment.of(alignment)
        if not np.array_equal(alignment.aligned(plan.lengths), plan.tokens):
            raise ConfigError(f"`alignment` must be that of the plan, but got {alignment}.")
        longest = int(plan.bin_tokens.max())
        fits = plan.seq_len is not None and longest <= plan.seq_len
        return cls.from_bins(plan.lengths, plan, row_length=plan.seq_len if fits else None, alignment=alignment)

    @property
    def num_rows(self) -> int:
        """R, dummy rows included."""
        return self.row_offsets.size - 1

    @property
    def num_segments(self) -> int:
        """S."""
        return self.sequences.size

    @cached_property
    def segment_rows(self) -> Int64Array:
        """int64[S]: the row of each segment."""
        return np.repeat(np.arange(self.num_rows), np.diff(self.row_offsets))

    @cached_property
    def positions(self) -> Int64Array:
        """int64[S]: the first column of each segment in its row."""
        running = np.cumsum(self.footprints) - self.footprints
        return running - self._running[self.row_offsets[self.segment_rows]]

    @cached_property
    def row_columns(self) -> Int64Array:
        """int64[R]: the columns that the segments of each row take."""
        return np.diff(self._running[self.row_offsets])

    @cached_property
    def row_tokens(self) -> Int64Array:
        """int64[R]: the tokens in each row, without any padding."""
        return np.diff(np.concatenate(([0], np.cumsum(self.lengths)))[self.row_offsets])

    @property
    def is_dummy(self) -> npt.NDArray[np.bool_]:
        """bool[R]: rows without segments."""
        dummy: npt.NDArray[np.bool_] = np.diff(self.row_offsets) == 0
        return dummy

    @cached_property
    def _running(self) -> Int64Array:
        return np.concatenate(([0], np.cumsum(self.footprints)))

    def select(self, rows: Any) -> RowLayout:
        """The layout of some rows, in the order given; sequences keep their numbers, so N stays.

        Args:
            rows: row indices in [0, R), none of them twice, or a `slice`.

        Raises:
            ConfigError: an index out of range or used twice.
        """
        chosen = np.arange(self.num_rows)[rows] if isinstance(rows, slice) else _checks.integers("rows", rows)
        if chosen.size and int(chosen.max()) >= self.num_rows:
            raise ConfigError(f"`rows` must hold indices in [0, {self.num_rows}), but got {int(chosen.max())}.")
        used = np.bincount(chosen, minlength=1)
        if (used > 1).any():
            raise ConfigError(f"`rows` must hold no row twice, but {int(np.argmax(used > 1))} is.")
        counts = np.diff(self.row_offsets)[chosen]
        offsets = np.concatenate(([0], np.cumsum(counts)))
        segments = np.arange(offsets[-1]) + np.repeat(self.row_offsets[chosen] - offsets[:-1], counts)
        return RowLayout(
            self.num_sequences,
            offsets,
            self.sequences[segments],
            self.starts[segments],
            self.lengths[segments],
            self.footprints[segments],
            self.row_length,
            self.alignment,
        )

    def flattened(self) -> RowLayout:
        """The same segments in one row, which ends at a multiple of the row alignment.

        Dummy rows take no columns in it; where there are no other rows, it is a dummy of one alignment of columns.
        """
        row = self.alignment.row
        length = -(-int(self.row_columns.sum()) // row) * row
        if self.num_segments == 0 and self.num_rows:
            length = math.lcm(self.alignment.segment, row)
        offsets = np.asarray([0, self.num_segments])
        columns = (self.sequences, self.starts, self.lengths, self.footprints)
        return RowLayout(self.num_sequences, offsets, *columns, length, self.alignment)

    def __repr__(self) -> str:
        return (
            f"RowLayout({self.num_sequences} sequences, {self.num_segments} segments, {self.num_rows} rows of "
            f"{self.row_length}, {int(self.is_dummy.sum())} dummies)"
        )
