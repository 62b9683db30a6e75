"""Layouts where bins are nearly full and placement by cost alone runs into a dead end."""

from __future__ import annotations

import numpy as np

from packing import _kernels
from packing.algorithms._levels import LevelSearch
from packing.algorithms._local_search import within_caps
from packing.algorithms.fitting import BestFitDecreasing, FirstFitDecreasing
from packing.assignment import Assignment
from packing.audit import is_valid

__all__ = ["fit_tokens"]


def fit_tokens(search: LevelSearch) -> Assignment | None:
    """A layout that keeps every limit, with the capacity first and the cost second; None where no way leads to one.

    Placement by density that may overflow, repaired by moves and swaps; else what best-fit or first-fit decreasing
    packs by tokens alone into as many bins.
    """
    problem = search.problem
    mean = -(-(int(search.entries.cost.sum()) + search.expected_padding) // search.num_units)
    overflowing = search.place(np.full(search.num_units, mean, np.int64), _kernels.level_fit.DENSITY, may_overflow=True)
    if overflowing is not None:
        repaired = within_caps(problem, search.sample_order(), overflowing, swaps_only=False)
        if repaired is not None and is_valid(problem, repaired):
            return repaired
    packings = (rule().assign(problem) for rule in (BestFitDecreasing, FirstFitDecreasing))
    return next((layout for layout in packings if layout is not None and is_valid(problem, layout)), None)
