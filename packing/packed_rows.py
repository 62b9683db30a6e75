"""PackedRows: the arrays a model takes, and the ways back: results by sequence, shards for context parallelism."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from packing import _checks
from packing._checks import Int64Array
from packing._kernels import rows as kernel
from packing.errors import ConfigError
from packing.row_layout import RowLayout

__all__ = ["PackedRows"]

AnyArray = npt.NDArray[Any]
Int32Array = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class PackedRows:
    """R rows of T columns, made by `materialize`. The flat form is one row: its arrays lack the axis R.

    Attributes:
        layout: where which segment lies; of the flat form the one row, of a shard the whole rows.
        form: "rows" or "flat".
        input_ids: the ids' dtype [R, T]; `pad_id` where no token is.
        segment_ids: int32[R, T]; 1 over a row's first segment, 2 over its second, ..., 0 over padding.
        position_ids: int32[R, T]; from `position_start` in every segment, 0 over padding. A feature of that name takes
            its place, in its own dtype and with its own axes.
        loss_mask: bool[R, T]; False over padding.
        labels: [R, T] of the ids' dtype, or of a wider one that holds `ignore_index`; or None.
        label_columns: "unshifted" (a label stands in its token's own column; the model shifts) or "shifted" (it stands
            in the column before, whose logits predict it), or None.
        features: [R, T] or [R, k, T] by name; padding where no token is.
        cu_seqlens: int32[R, num_segments + 1]; 0 and the running sum of the segments' lengths; the last one repeats
            where a row has fewer than `num_segments` segments. Tokens alone: no padding is counted.
        cu_seqlens_padded: int32[R, num_segments + 1]; the same of the columns that segments take, padding included. The
            padding at a row's end belongs to its last segment, so that the last value is T; a dummy row is one segment
            of T columns and no tokens.
        max_seqlen: tokens of the longest segment.
        max_seqlen_padded: columns of the widest segment, the padding at a row's end included.
        columns: int64[R, T / cp_size], the column that each column of a shard has in the whole rows; None: whole rows.
    """

    layout: RowLayout
    form: str
    input_ids: AnyArray
    segment_ids: Int32Array
    position_ids: AnyArray
    loss_mask: npt.NDArray[np.bool_]
    labels: AnyArray | None
    label_columns: str | None
    features: Mapping[str, AnyArray]
    cu_seqlens: Int32Array
    cu_seqlens_padded: Int32Array
    max_seqlen: int
    max_seqlen_padded: int
    columns: Int64Array | None = None

    @property
    def arrays(self) -> dict[str, AnyArray]:
        """All arrays by name, features among them: what `materialize(out=...)` takes for the next step."""
        names = ("input_ids", "segment_ids", "position_ids", "loss_mask", "cu_seqlens", "cu_seqlens_padded")
        arrays = {name: getattr(self, name) for name in names}
        if self.labels is not None:
            arrays["labels"] = self.labels
        return arrays | dict(self.features)

    def unpack(self, values: Any) -> list[Any]:
        """Per-token results by sequence, in the order in which the sequences came.

        Args:
            values: [R, T] or [R, T, ...] (of the flat form [T] or [T, ...]): an array, or a tensor of any library that
                has `shape`, `reshape` and indexing.

        Returns:
            A list of N: [length] or [length, ...] of each sequence, a view where that is possible; None for a sequence
            without a segment here. The segments of a split sequence are joined in the order of its tokens.

        Raises:
            ConfigError: another shape, or these rows are a shard.
        """
        if self.columns is not None:
            raise ConfigError("`unpack` must be called on whole rows: bring the shards together with `unshard` first.")
        flat = self._flat("values", values)
        layout = self.layout
        begins = layout.segment_rows * layout.row_length + layout.positions
        result: list[Any] = [None] * layout.num_sequences
        once = np.bincount(layout.sequences, minlength=layout.num_sequences)[layout.sequences] == 1
        columns = (layout.sequences, begins, begins + layout.lengths)
        for sequence, begin, end in zip(*(column[once].tolist() for column in columns), strict=True):
            result[sequence] = flat[begin:end]
        parts: dict[int, list[Int64Array]] = {}
        split = np.flatnonzero(~once)
        for s in split[np.argsort(layout.starts[split], kind="stable")].tolist():
            indices = np.arange(begins[s], begins[s] + layout.lengths[s])
            parts.setdefault(int(layout.sequences[s]), []).append(indices)
        for sequence, runs in parts.items():
            result[sequence] = flat[np.concatenate(runs)]
        return result

    def shard(self, cp_rank: int, cp_size: int) -> PackedRows:
        """The columns of one context-parallel rank, so that all ranks have equal work under causal attention.

        Every segment, as `cu_seqlens_padded` bounds it, is cut into 2 * cp_size chunks; rank r gets the chunks r and
        2 * cp_size - 1 - r (the zig-zag of Megatron and Transformer Engine). `cu_seqlens` and `cu_seqlens_padded` count
        the tokens and columns of this rank, `columns` says where they come from.

        Args:
            cp_rank: in [0, cp_size).
            cp_size: number of ranks, at least 1.

        Raises:
            ConfigError: a rank out of range; a segment or row whose columns are no multiple of 2 * cp_size; "unshifted"
                labels (what follows the last token of a chunk lies on another rank); or these rows are a shard.
        """
        cp_size = _checks.integer("cp_size", cp_size, minimum=1, maximum=2**20)
        cp_rank = _checks.integer("cp_rank", cp_rank, minimum=0, maximum=cp_size - 1)
        if self.labels is not None and self.label_columns != "shifted":
            raise ConfigError(f'`labels` must be "shifted" to shard rows, but got {self.label_columns!r}.')
        columns = self._shard_columns(cp_rank, cp_size)
        tokens, padded = np.empty_like(self.cu_seqlens), np.empty_like(self.cu_seqlens)
        bound_segments(self.layout, tokens, padded)
        # A segment's tokens come first, so that they are a prefix of what a rank has of it as well.
        lengths, chunks = np.diff(tokens), np.diff(padded) // (2 * cp_size)
        mine = sum(np.clip(lengths - c * chunks, 0, chunks) for c in (cp_rank, 2 * cp_size - 1 - cp_rank))
        np.cumsum(mine, axis=-1, out=tokens[..., 1:])
        if self.form == "flat":
            columns = columns[0]

        def taken(array: AnyArray) -> AnyArray:
            if self.form == "flat":
                return array[..., columns]
            between = (1,) * (array.ndim - 2)
            return np.take_along_axis(array, columns.reshape(len(columns), *between, columns.shape[-1]), axis=-1)

        return replace(
            self,
            input_ids=taken(self.input_ids),
            segment_ids=taken(self.segment_ids),
            position_ids=taken(self.position_ids),
            loss_mask=taken(self.loss_mask),
            labels=None if self.labels is None else taken(self.labels),
            features={name: taken(feature) for name, feature in self.features.items()},
            cu_seqlens=tokens,
            cu_seqlens_padded=padded // cp_size,
            max_seqlen=int(np.max(mine, initial=0)),
            max_seqlen_padded=int(2 * chunks.max(initial=0)),
            columns=columns,
        )

    def unshard(self, values: Any, cp_size: int) -> Any:
        """Per-token results of all shards, back in the columns of the whole rows.

        Args:
            values: [R, T] or [R, T, ...] (of the flat form [T] or [T, ...]): the results of the ranks 0, 1, ... side by
                side along the columns, as an all-gather along that axis gives them.
            cp_size: number of ranks.

        Returns:
            An array or tensor of the same shape.

        Raises:
            ConfigError: another shape, columns that `shard` refuses, or these rows are a shard.
        """
        cp_size = _checks.integer("cp_size", cp_size, minimum=1, maximum=2**20)
        flat = self._flat("values", values)
        columns = np.concatenate([self._shard_columns(rank, cp_size) for rank in range(cp_size)], axis=1)
        place = np.empty_like(columns)
        np.put_along_axis(place, columns, np.arange(columns.shape[1])[None], axis=1)
        place += np.arange(len(place))[:, None] * self.layout.row_length
        return flat[place.reshape(-1)].reshape(values.shape)

    def _flat(self, name: str, values: Any) -> Any:
        """[R * T, ...] from [R, T, ...]."""
        layout = self.layout
        rows = (layout.row_length,) if self.form == "flat" else (layout.num_rows, layout.row_length)
        shape = tuple(getattr(values, "shape", ()))
        if shape[: len(rows)] != rows:
            wanted = ", ".join(map(str, rows))
            raise ConfigError(f"`{name}` must have the shape [{wanted}] or [{wanted}, ...], but got {shape}.")
        return values.reshape((layout.num_rows * layout.row_length, *shape[len(rows) :]))

    def _shard_columns(self, cp_rank: int, cp_size: int) -> Int64Array:
        """int64[R, T / cp_size]."""
        layout = self.layout
        if self.columns is not None:
            raise ConfigError("`shard` and `unshard` must be called on whole rows, but these are a shard.")
        parts = 2 * cp_size
        wrong = np.flatnonzero(layout.footprints % parts)
        if wrong.size:
            s = int(wrong[0])
            raise ConfigError(
                f"segments must take multiples of 2 * cp_size = {parts} columns, but one of sequence "
                f"{layout.sequences[s]} takes {layout.footprints[s]}: plan with an `alignment` of {parts}."
            )
        if layout.row_length % parts:
            raise ConfigError(
                f"rows must have multiples of 2 * cp_size = {parts} columns, but have {layout.row_length}: "
                f"plan with a row alignment of {parts}."
            )
        most = int(np.diff(layout.row_offsets).max(initial=1))
        bounds = np.empty((2, layout.num_rows, most + 1), np.int32)
        bound_segments(layout, *bounds)
        starts, chunks = bounds[1, :, :-1], np.diff(bounds[1]).astype(np.int64) // parts
        begins = np.stack([starts + c * chunks for c in (cp_rank, parts - 1 - cp_rank)], axis=-1).reshape(-1)
        counts = np.repeat(chunks.reshape(-1), 2)
        running = np.cumsum(counts) - counts
        columns: Int64Array = np.arange(int(counts.sum())) + np.repeat(begins - running, counts)
        return columns.reshape(layout.num_rows, layout.row_length // cp_size)


def bound_segments(layout: RowLayout, tokens: Int32Array, columns: Int32Array) -> None:
    """Writes `cu_seqlens` and `cu_seqlens_padded` of a layout into int32[R, num_segments + 1] or, of one row, [...]."""
    shape = (layout.num_rows, tokens.shape[-1])
    rows = (layout.lengths, layout.row_offsets, layout.positions, layout.row_length)
    kernel.bound_segments(*rows, tokens.reshape(shape), columns.reshape(shape))
