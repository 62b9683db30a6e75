"""Bins that are a little over their capacity; `packing._reference.settle` is the specification."""

import numpy as np
import numpy.typing as npt

_Int64 = npt.NDArray[np.int64]
_Int32 = npt.NDArray[np.int32]
_Bytes = npt.NDArray[np.uint8]

def settle_workspace(num_entries: int, num_bins: int) -> int: ...
def settle(
    cost: _Int64, tokens: _Int64, capacity: int, num_bins: int, max_checks: int, bin_of: _Int32, workspace: _Bytes
) -> tuple[int, int]: ...
