"""Search for fewer bins; `packing._reference.reduce_bins` is the specification."""

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
UInt8 = npt.NDArray[np.uint8]

POOL: int
LOOSE: int

def reduce_bins_workspace(num_samples: int, num_bins: int, capacity: int) -> int: ...
def reduce_bins(
    tokens: Int64,
    capacity: int,
    max_items: int,
    fewest: int,
    max_steps: int,
    bin_of: Int32,
    num_bins: int,
    workspace: UInt8,
) -> int: ...
