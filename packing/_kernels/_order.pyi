"""Sorted order of samples; `packing._reference.order` is the specification."""

import numpy as np
import numpy.typing as npt

def descending_workspace(n: int) -> int: ...
def descending(
    primary: npt.NDArray[np.int64],
    secondary: npt.NDArray[np.int64] | None,
    order: npt.NDArray[np.int32],
    workspace: npt.NDArray[np.uint8],
) -> None: ...
