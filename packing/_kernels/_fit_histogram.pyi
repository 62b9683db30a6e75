"""Best-fit decreasing on the length histogram; `packing._reference.fit_histogram` is the specification."""

import numpy as np
import numpy.typing as npt

_Int64 = npt.NDArray[np.int64]
_Int32 = npt.NDArray[np.int32]
_Bytes = npt.NDArray[np.uint8]

def best_fit_decreasing_workspace(n: int, capacity: int, largest: int) -> int: ...
def best_fit_decreasing(
    sizes: _Int64,
    capacity: int,
    min_bins: int,
    max_items: int,
    oversized: bool,
    offsets: _Int32,
    items: _Int32,
    workspace: _Bytes,
) -> int: ...
