"""Layouts where bins are nearly full and placement by cost runs into a dead end."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from packing import _kernels
from packing.algorithms._levels import LevelSearch
from packing.algorithms.repair import repaired_layout
from packing.assignment import Assignment
from packing.objectives import OBJECTIVES

__all__ = ["fit_tokens"]


def fit_tokens(search: LevelSearch) -> Assignment | None:
    """A layout that keeps every limit, with the tokens first and the cost second; None where no way leads to one.

    Placement by density that may overflow, repaired; else longest first under every limit, into the
    fullest, the first or the emptiest bin with room (best fit, first fit and worst fit decreasing with as many bins).
    """
    repaired = _repaired(search)
    return _longest_first(search) if repaired is None else repaired


def _repaired(search: LevelSearch) -> Assignment | None:
    problem = search.problem
    mean = -(-(int(search.entries.cost.sum()) + search.expected_padding) // search.num_units)
    levels = np.full(search.num_units, mean, np.int64)
    layout = search.place(levels, _kernels.level_fit.DENSITY, may_overflow=True)
    return None if layout is None else repaired_layout(problem, layout)


def _longest_first(search: LevelSearch) -> Assignment | None:
    problem = search.problem
    # With the tokens as cost, a bin's capacity as its level, slack is room.
    by_tokens = LevelSearch(
        replace(
            problem, cost=problem.tokens, components=None, pad_cost=None, objective=OBJECTIVES["rounds"], reference=None
        )
    )
    kernel, levels = _kernels.level_fit, problem.capacities()
    ways = ((levels, kernel.BEST_FIT), (levels, kernel.FIRST_FIT), (np.zeros_like(levels), kernel.FIRST_FIT))
    layouts = (by_tokens.place(*way) for way in ways)
    return next((layout for layout in layouts if layout is not None), None)
