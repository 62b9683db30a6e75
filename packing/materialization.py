"""Materialises a row layout: token ids, segment ids, positions, loss mask, labels, features and `cu_seqlens`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from packing import _checks
from packing._checks import shown
from packing._kernels import rows as kernel
from packing.errors import ConfigError, InfeasibleError
from packing.packed_rows import PackedRows, bound_segments
from packing.row_layout import RowLayout
from packing.sequences import Sequences

__all__ = ["check_form", "materialize"]

AnyArray = npt.NDArray[Any]

FORMS = ("rows", "flat")
LABELS = ("unshifted", "shifted")

_MADE = ("segment_ids", "labels", "cu_seqlens", "cu_seqlens_padded")
"""Arrays that no feature may be named after."""

# cu_seqlens and position_ids are int32, as attention kernels take them.
_INT32 = 2**31


def materialize(
    sequences: Any,
    layout: RowLayout,
    *,
    pad_id: int = 0,
    padding: Mapping[str, Any] | None = None,
    labels: str | None = None,
    ignore_index: int = -100,
    position_start: int = 0,
    num_segments: int | None = None,
    form: str = "rows",
    out: Mapping[str, AnyArray] | None = None,
) -> PackedRows:
    """The arrays of packed rows, [R, T], or of one flat row that holds all their segments, [T].

    In the flat form the segments of all rows lie one after the other, each on the columns it takes in its row; the
    padding at the rows' ends is left out, and the length of the whole is rounded up to the row alignment. Dummy rows
    take no columns there, unless there are no other rows: then the flat row is padding, one alignment long.

    Args:
        sequences: N sequences in any form that `Sequences.of` takes.
        layout: where their segments lie. To make some of the rows, such as those of one rank: `layout.select(rows)`.
        pad_id: the id where no token is.
        padding: the value of a feature where no token is, by name; 0 for those that are not named.
        labels: None, "unshifted" (the id of a token in its own column, for models that shift by themselves) or
            "shifted" (in the column before it, whose logits predict it). A label is `ignore_index` where the loss mask
            of the token that it names is False, and for the first token of a segment, which nothing predicts.
        ignore_index: labels have the dtype of the ids where that holds it, else the next signed one that holds both.
        position_start: the position of a segment's first token, whether or not the segment begins its sequence.
        num_segments: the width of `cu_seqlens` is this + 1, for static shapes; None: the most segments of a row.
        form: "rows" or "flat".
        out: arrays to write into, by the names of `PackedRows.arrays`; those not in it are allocated. Each is
            overwritten completely. The result holds these very arrays.

    Returns:
        Rows of the same bytes everywhere for the same input.

    Raises:
        ConfigError: a malformed argument; a layout of other sequences; an array of the wrong shape, dtype or order;
            T columns or a position that int32 cannot hold.
        InfeasibleError: a row has more segments than `num_segments`.
    """
    sequences = Sequences.of(sequences)
    _check_layout(sequences, layout)
    if labels is not None:
        _checks.one_of("labels", labels, LABELS)
    if _checks.one_of("form", form, FORMS) == "flat":
        layout = layout.flattened()
    _check_int32(layout, _checks.integer("position_start", position_start, minimum=0, maximum=_INT32 - 1))
    pads = _pads(sequences, pad_id, padding)
    ids = sequences.input_ids
    label_dtype = None if labels is None else _label_dtype(ids.dtype, ignore_index)
    width = _num_segments(layout, num_segments) + 1
    columns = {"input_ids": ids, "loss_mask": sequences.loss_mask, **sequences.features}
    lead = () if form == "flat" else (layout.num_rows,)
    arrays = _targets(_wanted(columns, lead, layout.row_length, width, label_dtype), out)

    shape, rows = (layout.num_rows, layout.row_length), (layout.lengths, layout.row_offsets, layout.positions)
    begins = sequences.offsets[layout.sequences] + layout.starts
    for name, column in columns.items():
        planes = math.prod(column.shape[:-1])
        target = _bytes(arrays[name], layout.num_rows, planes)
        kernel.copy_segments(_bytes(column, 1, planes)[0], begins, *rows, pads[name], target)
    kernel.number_segments(*rows, arrays["segment_ids"].reshape(shape))
    if "position_ids" not in columns:
        kernel.number_positions(*rows, position_start, arrays["position_ids"].reshape(shape))
    if label_dtype is not None:
        mask, ignore = sequences.loss_mask, _element("ignore_index", ignore_index, label_dtype)
        if label_dtype != ids.dtype:  # from the rows themselves, in the wider dtype
            ids, mask = arrays["input_ids"].reshape(-1).astype(label_dtype), arrays["loss_mask"].reshape(-1)
            begins = layout.segment_rows * layout.row_length + layout.positions
        target = _bytes(arrays["labels"], layout.num_rows, 1)[:, 0]
        source = (_bytes(ids, 1, 1)[0, 0], mask.view(np.uint8), begins)
        kernel.label_segments(*source, *rows, labels == "shifted", ignore, target)
    bound_segments(layout, arrays["cu_seqlens"], arrays["cu_seqlens_padded"])
    named = ("input_ids", "loss_mask", "segment_ids", "position_ids", "cu_seqlens", "cu_seqlens_padded")
    return PackedRows(
        layout=layout,
        form=form,
        labels=arrays.get("labels"),
        label_columns=labels,
        features={name: arrays[name] for name in sequences.features if name not in named},
        max_seqlen=int(layout.lengths.max(initial=0)),
        max_seqlen_padded=int(np.diff(arrays["cu_seqlens_padded"]).max(initial=0)),
        **{name: arrays[name] for name in named},
    )


def _wanted(
    columns: dict[str, AnyArray],
    lead: tuple[int, ...],
    row_length: int,
    width: int,
    label_dtype: np.dtype[Any] | None,
) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
    """Shape and dtype of every array."""
    int32 = np.dtype(np.int32)
    wanted = dict.fromkeys(("segment_ids", "position_ids"), ((*lead, row_length), int32))
    wanted |= dict.fromkeys(("cu_seqlens", "cu_seqlens_padded"), ((*lead, width), int32))
    wanted |= {name: ((*lead, *column.shape[:-1], row_length), column.dtype) for name, column in columns.items()}
    return wanted if label_dtype is None else wanted | {"labels": ((*lead, row_length), label_dtype)}


def check_form(sequences: Sequences, form: Mapping[str, Any]) -> None:
    """Raises the ConfigError of `materialize` for arguments that do not fit the features and dtypes of sequences."""
    _check_names(sequences)
    _pads(sequences, form["pad_id"], form["padding"])
    if form["labels"] is not None:
        _label_dtype(sequences.input_ids.dtype, form["ignore_index"])


def _label_dtype(ids: np.dtype[Any], ignore_index: Any) -> np.dtype[Any]:
    ignore_index = _checks.integer("ignore_index", ignore_index)
    signed = (np.dtype(f"i{size}") for size in (1, 2, 4, 8))
    for dtype in (ids, *(one for one in signed if np.can_cast(ids, one))):
        if np.iinfo(dtype).min <= ignore_index <= np.iinfo(dtype).max:
            return dtype
    raise ConfigError(f"`ignore_index` must fit into a signed dtype that holds {ids}, but got {ignore_index}.")


def _check_names(sequences: Sequences) -> None:
    named = [name for name in sequences.features if name in _MADE]
    if named:
        raise ConfigError(f"a feature must have another name than {_MADE}, but got {named[0]!r}.")


def _check_layout(sequences: Sequences, layout: Any) -> None:
    if not isinstance(layout, RowLayout):
        raise ConfigError(f"`layout` must be a RowLayout, but got {shown(layout)}.")
    if layout.num_sequences != len(sequences):
        raise ConfigError(
            f"`layout` must be of these {len(sequences)} sequences, but it is of {layout.num_sequences} sequences."
        )
    lengths = sequences.lengths[layout.sequences]
    beyond = layout.starts > lengths - layout.lengths
    if beyond.any():
        at = int(np.argmax(beyond))
        raise ConfigError(
            f"`layout` must lie inside the sequences, but sequence {layout.sequences[at]} has {lengths[at]} tokens and "
            f"a segment of {layout.lengths[at]} that starts at {layout.starts[at]}."
        )
    _check_names(sequences)


def _check_int32(layout: RowLayout, position_start: int) -> None:
    if layout.row_length >= _INT32:
        raise ConfigError(
            f"rows must have fewer than 2**31 columns for int32 `cu_seqlens`, but got {layout.row_length}."
        )
    longest = int(layout.lengths.max(initial=1))
    if position_start + longest > _INT32:
        raise ConfigError(
            f"`position_start` must leave room for {longest} positions below 2**31, but got {position_start}."
        )


def _num_segments(layout: RowLayout, num_segments: Any) -> int:
    counts = np.diff(layout.row_offsets)
    most = int(counts.max(initial=1))
    if num_segments is None:
        return most
    limit = _checks.integer("num_segments", num_segments, minimum=1, maximum=_INT32)
    if most > limit:
        raise InfeasibleError(f"row {int(np.argmax(counts))} has {most} segments, more than `num_segments` {limit}.")
    return limit


def _pads(sequences: Sequences, pad_id: Any, padding: Any) -> dict[str, npt.NDArray[np.uint8]]:
    """The bytes of the element that pads each column."""
    padding = {} if padding is None else padding
    if not isinstance(padding, Mapping):
        raise ConfigError(f"`padding` must map features to values, but got {shown(padding)}.")
    unknown = [name for name in padding if name not in sequences.features]
    if unknown:
        raise ConfigError(
            f"`padding` must name features among {list(sequences.features)}, but got {shown(unknown[0])}."
        )
    pads = {
        name: _element(f"padding[{name!r}]", padding[name], feature.dtype)
        if name in padding
        else np.zeros(feature.dtype.itemsize, np.uint8)
        for name, feature in sequences.features.items()
    }
    pads["input_ids"] = _element("pad_id", pad_id, sequences.input_ids.dtype)
    pads["loss_mask"] = np.zeros(1, np.uint8)
    return pads


def _element(name: str, value: Any, dtype: np.dtype[Any]) -> npt.NDArray[np.uint8]:
    """The bytes of one element; a ConfigError where the dtype cannot hold it."""
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        value = _checks.integer(name, value)
        if not info.min <= value <= info.max:
            raise ConfigError(f"`{name}` must fit into {dtype}, but got {value}.")
    elif dtype.kind == "b":
        value = _checks.boolean(name, value)
    try:
        return np.full(1, value, dtype).view(np.uint8)
    except (TypeError, ValueError, OverflowError):
        raise ConfigError(f"`{name}` must fit into {dtype}, but got {shown(value)}.") from None


def _bytes(array: AnyArray, num_rows: int, planes: int) -> npt.NDArray[np.uint8]:
    """uint8[R, k, T * width] of [R, k, T], [R, T], [k, T] or [T]: the same memory."""
    return array.reshape(-1).view(np.uint8).reshape(num_rows, planes, array.shape[-1] * array.dtype.itemsize)


def _targets(wanted: dict[str, tuple[tuple[int, ...], np.dtype[Any]]], out: Any) -> dict[str, AnyArray]:
    """The arrays to write: those of `out`, checked, and new ones."""
    out = {} if out is None else out
    if not isinstance(out, Mapping):
        raise ConfigError(f"`out` must map names to arrays, but got {shown(out)}.")
    unknown = [name for name in out if name not in wanted]
    if unknown:
        raise ConfigError(f"`out` must have names among {sorted(wanted)}, but got {shown(unknown[0])}.")
    given = list(out.items())
    for name, array in given:
        shape, dtype = wanted[name]
        right = isinstance(array, np.ndarray) and array.shape == shape and array.dtype == dtype
        if not right or not array.flags.carray:
            got = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else shown(array)
            if right:
                got += " that is read-only" if array.flags.c_contiguous else " that is not contiguous"
            raise ConfigError(
                f"`out[{name!r}]` must be a C-contiguous, writeable array {dtype} {shape}, but got {got}."
            )
    for at, (name, array) in enumerate(given):
        for other, another in given[:at]:
            if np.may_share_memory(array, another):
                raise ConfigError(f"`out` must hold separate arrays, but {other!r} and {name!r} share memory.")
    return {name: out[name] if name in out else np.empty(*wanted[name]) for name in wanted}
