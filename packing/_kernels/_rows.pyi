"""Rows from flat columns; `packing._reference.rows` is the specification."""

import numpy as np
import numpy.typing as npt

def copy_segments(
    source: npt.NDArray[np.uint8],
    begins: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
    row_offsets: npt.NDArray[np.int64],
    positions: npt.NDArray[np.int64],
    padding: npt.NDArray[np.uint8],
    target: npt.NDArray[np.uint8],
) -> None: ...
def number_segments(
    lengths: npt.NDArray[np.int64],
    row_offsets: npt.NDArray[np.int64],
    positions: npt.NDArray[np.int64],
    target: npt.NDArray[np.int32],
) -> None: ...
def number_positions(
    lengths: npt.NDArray[np.int64],
    row_offsets: npt.NDArray[np.int64],
    positions: npt.NDArray[np.int64],
    position_start: int,
    target: npt.NDArray[np.int32],
) -> None: ...
def bound_segments(
    lengths: npt.NDArray[np.int64],
    row_offsets: npt.NDArray[np.int64],
    positions: npt.NDArray[np.int64],
    row_length: int,
    tokens: npt.NDArray[np.int32],
    columns: npt.NDArray[np.int32],
) -> None: ...
def label_segments(
    source: npt.NDArray[np.uint8],
    mask: npt.NDArray[np.uint8],
    begins: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
    row_offsets: npt.NDArray[np.int64],
    positions: npt.NDArray[np.int64],
    shifted: bool,
    ignore: npt.NDArray[np.uint8],
    target: npt.NDArray[np.uint8],
) -> None: ...
