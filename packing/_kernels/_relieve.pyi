"""Repair under all limits at once; `packing._reference.relieve` is the specification."""

import numpy as np
import numpy.typing as npt

_Int64 = npt.NDArray[np.int64]
_Int32 = npt.NDArray[np.int32]
_Bytes = npt.NDArray[np.uint8]

def relieve_workspace(num_entries: int, num_bins: int, num_budgets: int, num_groups: int) -> int: ...
def relieve(
    weight: _Int64,
    tokens: _Int64,
    count: _Int32,
    footprints: _Int64,
    forbid: _Int64,
    group: _Int32,
    num_groups: int,
    capacity: _Int64,
    budgets: _Int64,
    space: _Int64,
    ranks: int,
    bins_per_rank: int,
    max_items: int,
    rank_items: int,
    oversized_single: bool,
    max_checks: int,
    bin_of: _Int32,
    workspace: _Bytes,
) -> tuple[int, int]: ...
