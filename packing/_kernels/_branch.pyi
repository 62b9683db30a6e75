"""Exhaustive search for the smallest largest rank load; `packing._reference.branch` is the specification."""

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
UInt8 = npt.NDArray[np.uint8]

def branch_workspace(num_entries: int, num_bins: int) -> int: ...
def branch(
    cost: Int64,
    tokens: Int64,
    capacity: Int64,
    bins_per_rank: int,
    max_items: int,
    best: int,
    target: int,
    max_steps: int,
    bin_of: Int32,
    workspace: UInt8,
) -> tuple[int, bool]: ...
