"""Next-fit, first-fit and best-fit; `packing._reference.fit` is the specification."""

import numpy as np
import numpy.typing as npt

_Int64 = npt.NDArray[np.int64]
_Int32 = npt.NDArray[np.int32]
_Bytes = npt.NDArray[np.uint8]

def next_fit(
    sizes: _Int64, order: _Int32, capacity: int, min_bins: int, max_items: int, oversized: bool, bin_of: _Int32
) -> int: ...
def first_fit_workspace(n: int) -> int: ...
def first_fit(
    sizes: _Int64,
    order: _Int32,
    capacity: int,
    min_bins: int,
    max_items: int,
    oversized: bool,
    bin_of: _Int32,
    workspace: _Bytes,
) -> int: ...
def best_fit_workspace(n: int) -> int: ...
def best_fit(
    sizes: _Int64,
    order: _Int32,
    capacity: int,
    min_bins: int,
    max_items: int,
    oversized: bool,
    bin_of: _Int32,
    workspace: _Bytes,
) -> int: ...
def group_by_bin(bin_of: _Int32, order: _Int32, num_bins: int, offsets: _Int32, items: _Int32) -> None: ...
