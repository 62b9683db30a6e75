"""What a plan is compared with: the reference, or the samples dealt out in input order."""

from __future__ import annotations

import numpy as np

from packing._fixed_point import to_float
from packing._samples import Batch
from packing.assignment import Assignment
from packing.objectives import rank_loads
from packing.plan import Comparison
from packing.problem import Problem

__all__ = ["comparison", "dealt_out"]


def dealt_out(problem: Problem, batch: Batch, how: str) -> Assignment:
    """The samples dealt out in input order, "contiguous" or "round_robin"; it may break limits."""
    count, num_bins = problem.num_samples, problem.num_bins
    places = np.arange(count) * num_bins // count if how == "contiguous" else np.arange(count) % num_bins
    return Assignment.from_bin_of(places[batch.by_key], num_bins)


def comparison(problem: Problem, batch: Batch, how: str) -> Comparison:
    """Loads of the reference where there is one, else of the baseline, whose overflowing bins are counted."""
    layout, kind, over = problem.reference, "reference", 0
    if layout is None:
        layout, kind = dealt_out(problem, batch, how), "baseline"
        over = int((layout.sums(problem.tokens) > problem.capacities()).sum())
    loads = rank_loads(problem.pack_loads(layout), problem.ranks)
    return Comparison(kind, to_float(loads, problem.cost_exponent), over)
