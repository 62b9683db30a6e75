"""The identity plan: what "off" means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from packing.algorithms._open_bins import smallest_count
from packing.assignment import Assignment
from packing.audit import is_valid
from packing.problem import Problem

__all__ = ["Identity"]


@dataclass(frozen=True)
class Identity:
    """Changes nothing: the reference where there is one, else the samples dealt out in order, equally many per bin.

    Without a reference the layout is None where dealing them out breaks a limit; nothing is moved to make it fit.
    """

    keeps_order: ClassVar[bool] = True
    """Packs are not sorted into rounds afterwards either."""

    def assign(self, problem: Problem) -> Assignment | None:
        """The layout, or None."""
        if problem.reference is not None:
            return problem.reference
        return _deal(problem) if problem.bins_per_rank is not None else smallest_count(problem, _deal)


def _deal(problem: Problem) -> Assignment | None:
    edges = np.arange(problem.num_bins + 1) * problem.num_samples // problem.num_bins
    layout = Assignment(edges, np.arange(problem.num_samples))
    return layout if is_valid(problem, layout) else None
