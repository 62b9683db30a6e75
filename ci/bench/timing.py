"""How every benchmark measures: minima of process CPU time, beside a sort by NumPy in the same run."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["argsort_seconds", "cpu_minimum", "slack"]

SHORTEST = 2e-3  # seconds; shorter calls are timed many at once


def cpu_minimum(function: Callable[[], Any], repeat: int = 20) -> float:
    """Seconds of process CPU time of one call, the minimum of `repeat` measurements after one call to warm up.

    CPU time does not count waiting for a core that others use, and the minimum is the least disturbed measurement.
    """
    start = time.process_time()
    function()
    calls = max(1, round(SHORTEST / max(time.process_time() - start, 1e-7)))
    best = float("inf")
    for _ in range(repeat):
        start = time.process_time()
        for _ in range(calls):
            function()
        best = min(best, time.process_time() - start)
    return best / calls


def argsort_seconds(n: int = 1_000_000, repeat: int = 20) -> float:
    """Seconds of `np.argsort` of `n` random 40-bit int64: the yardstick of this machine."""
    values = np.random.default_rng(0).integers(0, 1 << 40, n)
    return cpu_minimum(lambda: np.argsort(values), repeat)


def slack(quick: bool) -> float:
    """By how much a bar of time may be missed: the short form runs beside other things on whatever machine there is."""
    return 2.0 if quick else 1.0
