"""Complete packs into rounds: which rank gets which pack when."""

from __future__ import annotations

import numpy as np

from packing.assignment import Assignment
from packing.problem import Problem

__all__ = ["into_rounds"]


def into_rounds(problem: Problem, layout: Assignment) -> Assignment:
    """The packs sorted into rounds, heaviest first: what `rounds` scores.

    Left as they are where bins differ in capacity or a limit holds for all packs of a rank together.
    """
    assert problem.bins_per_rank is not None
    assert problem.round_size is not None
    per_rank = (problem.group is not None and problem.group_scope == "rank") or problem.equal_count
    if not (problem.capacity is None or isinstance(problem.capacity, int)) or (per_rank and problem.bins_per_rank > 1):
        return layout
    heaviest = np.argsort(-problem.pack_loads(layout), kind="stable")
    size, slots = problem.round_size, problem.bins_per_rank
    # Synchronous round j of the step is micro-batch `slot` of window round `w`, j = w * M + slot.
    where = heaviest.reshape(problem.ranks // size, slots, size).transpose(0, 2, 1).reshape(-1)
    return layout.reordered(where)
