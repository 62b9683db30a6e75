"""Moves and exchanges on a whole layout; `packing._reference.exchange` is the specification."""

import numpy as np
import numpy.typing as npt

_Int64 = npt.NDArray[np.int64]
_Int32 = npt.NDArray[np.int32]
_Bytes = npt.NDArray[np.uint8]

BY_LARGEST: int
BY_ROUNDS: int
BY_EVERY: int
NOTHING_LEFT: int
NOTHING_HELPS: int
NO_CHECKS_LEFT: int

def exchange_workspace(num_entries: int, num_bins: int, num_budgets: int) -> int: ...
def exchange(
    cost: _Int64,
    tokens: _Int64,
    count: _Int32,
    footprints: _Int64,
    forbid: _Int64,
    locked: _Bytes,
    capacity: _Int64,
    budgets: _Int64,
    rank_budgets: int,
    pad_cost: _Int64,
    ranks: int,
    bins_per_rank: int,
    round_size: int,
    max_items: int,
    equal_count: bool,
    mode: int,
    weight: int,
    target: int,
    depth: int,
    num_partners: int,
    max_kicks: int,
    max_checks: int,
    bin_of: _Int32,
    workspace: _Bytes,
) -> tuple[int, int]: ...
