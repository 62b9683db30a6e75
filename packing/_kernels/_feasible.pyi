"""Pair repair; `packing._reference.feasible` is the specification."""

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
UInt8 = npt.NDArray[np.uint8]

MAKESPAN: int
BALANCE: int

def round_objective(loads: Int64, group_size: int, objective: int) -> int: ...
def repair_pairs_workspace(num_samples: int, num_bins: int, table_entries: int, max_pairs: int) -> int: ...
def repair_pairs(
    tokens: Int64,
    cost: Int64,
    order: Int32,
    capacity: int,
    pad_cost: Int64,
    group_size: int,
    objective: int,
    max_pairs: int,
    offsets: Int32,
    items: Int32,
    workspace: UInt8,
) -> int: ...
