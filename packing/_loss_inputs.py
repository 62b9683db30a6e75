"""What `loss_weights` is handed in, checked: masks of sequences, labels of prompts and groups, ranks of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from packing import _checks
from packing._checks import Int64Array, shown
from packing._labels import labels_of
from packing.errors import ConfigError
from packing.row_layout import RowLayout
from packing.sequences import Sequences

BoolArray = npt.NDArray[np.bool_]


def read_mask(layout: Any, loss_mask: Any, offsets: Any) -> tuple[BoolArray, Int64Array]:
    """The mask of all tokens as bool[total] and the int64[N+1] offsets of the sequences in it.

    Raises:
        ConfigError: no layout, no mask of its N sequences, or a segment of the layout ends beyond it.
    """
    if not isinstance(layout, RowLayout):
        raise ConfigError(f"`layout` must be a RowLayout, but got {shown(layout)}.")
    if isinstance(loss_mask, Sequences):
        if offsets is not None:
            raise ConfigError(f"`offsets` must be None beside a `Sequences`, but got {shown(offsets)}.")
        mask, ends = loss_mask.loss_mask, loss_mask.offsets
    elif offsets is None:
        if not isinstance(loss_mask, Sequence) or isinstance(loss_mask, (str, bytes)):
            kinds = "a `Sequences`, a list of one mask per sequence, or a flat array with `offsets`"
            raise ConfigError(f"`loss_mask` must be {kinds}, but got {shown(loss_mask)}.")
        masks = [_bools(f"loss_mask[{index}]", one) for index, one in enumerate(loss_mask)]
        ends = np.cumsum([0, *(one.size for one in masks)], dtype=np.int64)
        mask = np.concatenate([np.zeros(0, np.bool_), *masks])
    else:
        mask = _bools("loss_mask", loss_mask)
        ends = _checks.integers("offsets", offsets)
        if ends.size < 1 or ends[0] != 0 or ends[-1] != mask.size or (np.diff(ends) < 0).any():
            raise ConfigError(f"`offsets` must ascend from 0 to {mask.size}, but got {shown(ends.tolist())}.")
    if ends.size - 1 != layout.num_sequences:
        raise ConfigError(
            f"`loss_mask` must have the {layout.num_sequences} sequences of `layout`, but has {ends.size - 1}."
        )
    tokens, needed = np.diff(ends)[layout.sequences], layout.starts + layout.lengths
    if (needed > tokens).any():
        at = int(np.argmax(needed > tokens))
        raise ConfigError(
            f"`loss_mask` must have the {needed[at]} tokens that `layout` holds of sequence {layout.sequences[at]}, "
            f"but has {tokens[at]}."
        )
    return mask, ends


def _bools(name: str, values: Any) -> BoolArray:
    """A one-dimensional mask as bools; numbers must be 0 or 1."""
    try:
        array: npt.NDArray[Any] = np.asarray(values)
    except (TypeError, ValueError, RuntimeError):  # what NumPy and torch raise for what is no array
        raise ConfigError(f"`{name}` must be a one-dimensional mask, but got {shown(values)}.") from None
    if array.ndim != 1:
        raise ConfigError(f"`{name}` must be one-dimensional, but got shape {array.shape}.")
    if array.size and array.dtype.kind not in "biuf":
        raise ConfigError(f"`{name}` must hold bools, zeros and ones, but got dtype {array.dtype}.")
    ones: BoolArray = array == 1
    wrong = ~ones & (array != 0)
    if wrong.any():
        at = int(np.argmax(wrong))
        raise ConfigError(f"`{name}` must hold bools, zeros and ones, but got {array[at].item()!r} at index {at}.")
    return ones


def read_members(num_sequences: int, reduction: str, prompts: Any, groups: Any) -> Int64Array:
    """int64[N]: a number below N for the prompt or group of each sequence, whichever the reduction is about.

    Raises:
        ConfigError: labels that are missing or not asked for, or not N of one type.
    """
    for name, values in (("prompt", prompts), ("group", groups)):
        if values is None and name == reduction:
            raise ConfigError(f'`{name}s` must be given with reduction "{reduction}".')
        if values is not None and name != reduction:
            raise ConfigError(f'`{name}s` must be None with reduction "{reduction}", but got {shown(values)}.')
    if reduction not in ("prompt", "group"):
        return np.arange(num_sequences)
    name, values = ("prompts", prompts) if reduction == "prompt" else ("groups", groups)
    labels = labels_of(name, values, num_sequences, none=-1)
    alone = labels < 0
    labels[alone] = labels.max(initial=-1) + 1 + np.arange(np.count_nonzero(alone))
    return labels


def read_row_ranks(num_rows: int, data_parallel_size: int, row_ranks: Any) -> Int64Array:
    """int64[R]: the rank of each row; equal blocks for None.

    Raises:
        ConfigError: no ranks of R rows, or R rows make no equal blocks.
    """
    if row_ranks is not None:
        return _row_places("row_ranks", num_rows, row_ranks, "`data_parallel_size`", data_parallel_size)
    if num_rows % data_parallel_size:
        size = f"`data_parallel_size` {data_parallel_size}"
        raise ConfigError(
            f"`row_ranks` must be given where the rows are no multiple of {size}, but got {num_rows} rows."
        )
    return np.repeat(np.arange(data_parallel_size), num_rows // data_parallel_size)


def read_micro_batches(num_rows: int, micro_batches: Any) -> Int64Array:
    """int64[R]: the micro-batch of each row; zeros for None.

    Raises:
        ConfigError: no micro-batches of R rows.
    """
    if micro_batches is None:
        return np.zeros(num_rows, np.int64)
    return _row_places("micro_batches", num_rows, micro_batches, "the number of rows", num_rows)


def _row_places(name: str, num_rows: int, values: Any, limit_name: str, limit: int) -> Int64Array:
    places = _checks.integers(name, values)
    if places.size != num_rows:
        raise ConfigError(f"`{name}` must have one value for each of {num_rows} rows, but has {places.size}.")
    if places.size and int(places.max()) >= limit:
        raise ConfigError(f"`{name}` must be below {limit_name} {limit}, but got {int(places.max())}.")
    return places
