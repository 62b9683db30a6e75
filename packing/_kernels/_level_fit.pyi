import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
UInt8 = npt.NDArray[np.uint8]

FIRST_FIT: int
BEST_FIT: int
DENSITY: int
NO_CAPACITY: int

def place_workspace(num_samples: int, ranks: int, bins_per_rank: int, num_budgets: int, num_groups: int) -> int: ...
def place(
    tokens: Int64,
    cost: Int64,
    count: Int32,
    footprints: Int64,
    forbid: Int64,
    group: Int32,
    num_groups: int,
    order: Int32,
    capacity: Int64,
    budgets: Int64,
    pad_cost: Int64,
    ranks: int,
    bins_per_rank: int,
    levels: Int64,
    max_items: int,
    oversized_single: bool,
    rule: int,
    may_overflow: bool,
    bin_of: Int32,
    loads: Int64,
    workspace: UInt8,
) -> int: ...
