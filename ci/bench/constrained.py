"""Random problems with many limits at once, each with a hidden layout that keeps them all."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from drawing import Draw, attention, length_files, lengths_of

from packing.assignment import Assignment
from packing.problem import Problem

__all__ = ["constrained_problem", "unconstrained_twin", "with_idle_limits"]

OBJECTIVES = ("makespan", "balance", "rounds")
SLACKS = (1000, 1000, 1020, 1100, 1500)
"""Thousandths of what the fullest bin of the hidden layout needs."""


def constrained_problem(seed: int) -> tuple[Problem, Assignment]:
    """Budgets, several bins per rank, `max_items`, `group` and `forbid` together, most with a cap; and the hidden
    layout from which all limits were taken. One problem in 250 is large.
    """
    draw = Draw(f"constraints/{seed}")
    ranks, slots = (16, 4) if seed % 250 == 0 else (1 + draw.below(6), 2 + draw.below(2))
    num_bins = ranks * slots
    count = num_bins + draw.below(num_bins * 8)
    tokens = _tokens(draw, count)
    bin_of = np.concatenate([np.arange(num_bins), draw.integers(count - num_bins, num_bins)])
    bin_of = bin_of[draw.permutation(count)]
    hidden = Assignment.from_bins([np.flatnonzero(bin_of == b).tolist() for b in range(num_bins)])
    cost = (attention(tokens), tokens, draw.integers(count, 50))[draw.below(3)]
    scope = ("bin", "rank")[draw.below(2)]
    footprints = draw.integers(count * (1 + draw.below(3)), 40).reshape(count, -1)
    limits: dict[str, Any] = {
        "footprints": footprints,
        "budgets": _widened(draw, hidden.sums(footprints).max(axis=0)),
        "max_items": int(np.diff(hidden.offsets).max()) + draw.below(3),
        "group": _groups(draw, bin_of if scope == "bin" else bin_of // slots),
        "group_scope": scope,
        "forbid": draw.integers(num_bins, 3)[bin_of],
        "capacity": _capacity(draw, hidden.sums(tokens)),
    }
    divisors = [g for g in range(1, ranks + 1) if ranks % g == 0]
    problem = Problem(
        tokens=tokens, cost=cost, ranks=ranks, bins_per_rank=slots, objective=OBJECTIVES[draw.below(3)],
        round_size=divisors[draw.below(len(divisors))], **limits,
    )  # fmt: skip
    return problem, hidden


def unconstrained_twin(seed: int) -> Problem:
    """A step with several bins per rank and at most a cap, which 8 % of slack makes easy to keep."""
    draw = Draw(f"idle_limits/{seed}")
    ranks, slots = 1 + draw.below(16), 1 + draw.below(4)
    tokens = _tokens(draw, ranks * slots * (3 + draw.below(30)))
    capacity = max(int(tokens.max()), int(tokens.sum()) * 108 // (100 * ranks * slots) + 1)
    return Problem(
        tokens=tokens, cost=attention(tokens), ranks=ranks, bins_per_rank=slots,
        capacity=None if seed % 4 == 0 else capacity,
    )  # fmt: skip


def with_idle_limits(seed: int) -> Problem:
    """The same step with every kind of limit, none of which binds."""
    twin = unconstrained_twin(seed)
    count = twin.num_samples
    return dataclasses.replace(
        twin,
        footprints=np.stack([twin.tokens, np.ones(count, np.int64)], axis=1),
        budgets=[int(twin.tokens.sum()), count],
        budget_names=("image_tokens", "images"),
        max_items=count,
        group=np.arange(count) if seed % 2 else np.full(count, -1),
        group_scope=("bin", "rank")[seed // 2 % 2],
        forbid=np.zeros(count, np.int64),
    )


def _tokens(draw: Draw, count: int) -> np.ndarray:
    """Real lengths of one file, or small numbers with many ties."""
    files = length_files()
    choice = draw.below(len(files) + 3)
    if choice >= len(files):
        return 1 + draw.integers(count, 12)
    lengths = lengths_of(files[choice])
    return lengths[draw.integers(count, lengths.size)]


def _widened(draw: Draw, needed: np.ndarray) -> np.ndarray:
    slack = np.array(SLACKS)[draw.integers(needed.size, len(SLACKS))]
    return -(-needed * slack // 1000)


def _capacity(draw: Draw, used: np.ndarray) -> np.ndarray | int | None:
    """No cap, one cap for every bin, or a cap of its own for each."""
    kind = draw.below(8)
    if kind == 0:
        return None
    return _widened(draw, used) if kind == 1 else int(_widened(draw, used.max(keepdims=True))[0])


def _groups(draw: Draw, place_of: np.ndarray) -> np.ndarray:
    """Up to two groups in every place, of a third of its samples; -1 for the others."""
    label = 2 * place_of + draw.integers(place_of.size, 2)
    return np.where(draw.integers(place_of.size, 3) == 0, label, -1)
