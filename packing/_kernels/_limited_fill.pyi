"""Fills bins of limited counts; `packing._reference.limited_fill` is the specification."""

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
UInt8 = npt.NDArray[np.uint8]

STEPS_PER_BIN: int

def fill_workspace(num_samples: int, num_classes: int) -> int: ...
def fill(
    lengths: Int64,
    counts: Int32,
    capacity: int,
    max_items: int,
    max_steps: int,
    offsets: Int32,
    classes: Int32,
    workspace: UInt8,
) -> int: ...
