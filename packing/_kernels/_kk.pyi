"""k-way largest differencing; `packing._reference.kk` is the specification."""

import numpy as np
import numpy.typing as npt

def difference_workspace(n: int, num_groups: int) -> int: ...
def difference(
    values: npt.NDArray[np.int64],
    order: npt.NDArray[np.int32],
    num_groups: int,
    equal_count: bool,
    offsets: npt.NDArray[np.int32],
    items: npt.NDArray[np.int32],
    workspace: npt.NDArray[np.uint8],
) -> None: ...
