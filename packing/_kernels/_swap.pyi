"""Swaps and repairing moves; `packing._reference.swap` is the specification."""

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
UInt8 = npt.NDArray[np.uint8]

NUM_PARTNERS: int

def lower_largest_workspace(num_samples: int, num_bins: int) -> int: ...
def lower_largest(
    cost: Int64,
    tokens: Int64,
    capacity: Int64,
    offsets: Int32,
    items: Int32,
    target: int,
    max_swaps: int,
    workspace: UInt8,
) -> int: ...
def repair_workspace(num_samples: int, num_bins: int) -> int: ...
def repair(
    cost: Int64,
    tokens: Int64,
    capacity: Int64,
    bins_per_rank: int,
    bin_of: Int32,
    max_moves: int,
    swaps_only: bool,
    workspace: UInt8,
) -> bool: ...
