"""What every benchmark shares: the least process CPU time, and a yardstick measured in the same run."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np


def cpu_minimum(function: Callable[[], object], repeat: int = 20) -> float:
    """The least CPU time of this process, in seconds, over `repeat` calls."""
    least = float("inf")
    for _ in range(repeat):
        begin = time.process_time()
        function()
        least = min(least, time.process_time() - begin)
    return least


def argsort_seconds() -> float:
    """CPU time of `np.argsort` on a million random int64: the yardstick to quote beside every figure."""
    values = np.random.default_rng(0).integers(0, 2**62, 1_000_000)
    return cpu_minimum(lambda: np.argsort(values), 5)
