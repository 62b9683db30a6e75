"""Small problems for property tests, and every valid layout of one by brute force."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from packing import _kernels
from packing.assignment import Assignment
from packing.problem import BinState, Problem

BUILTINS = (
    "auto", "lpt", "exchange", "feasible_lpt", "kk", "combine", "level_multifit", "equal_count", "first_fit",
    "first_fit_decreasing", "best_fit_decreasing", "exact_fill", "next_fit", "none",
)  # fmt: skip


PIPELINE = {"name": "pipeline", "stages": 3}
BOTH = {"name": "components", "weights": {"encoder": 1, "llm": 1}}


def examples(count: int) -> settings:
    """That many examples; a tenth of them with the slow kernels. No deadline: machines are shared."""
    if _kernels.backend == "reference":
        count = max(10, count // 10)
    return settings(max_examples=count, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def column(count: int, low: int, high: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(low, high), min_size=count, max_size=count)


@st.composite
def problems(
    draw: Any, *, max_samples: int = 8, max_ranks: int = 3, max_bins_per_rank: int = 2, **fixed: Any
) -> Problem:
    """A problem with at least one sample per bin and any features; `fixed` fields are as given."""
    ranks = draw(st.integers(1, max_ranks))
    bins_per_rank = fixed.pop("bins_per_rank", draw(st.integers(1, max_bins_per_rank)))
    num_bins = ranks * (bins_per_rank or 1)
    count = draw(st.integers(num_bins, max(num_bins, max_samples)))
    tokens = draw(column(count, 1, 12))
    fields: dict[str, Any] = {
        "cost": tokens if draw(st.booleans()) else draw(column(count, 0, 9)),
        "capacity": draw(st.sampled_from([None, 12, 15, 24, 60])),
        "objective": draw(st.sampled_from(["makespan", "balance", "rounds", PIPELINE, BOTH])),
        "round_size": draw(st.sampled_from([g for g in range(1, ranks + 1) if ranks % g == 0])),
        "max_items": draw(st.sampled_from([None, None, 1, 2, 4])),
        "equal_count": draw(st.booleans()) and draw(st.booleans()),
        "group_scope": draw(st.sampled_from(["bin", "rank"])),
        "oversized": draw(st.sampled_from(["error", "single"])),
    }
    if draw(st.booleans()):
        fields["group"] = draw(column(count, -1, 2))
    if draw(st.booleans()):
        fields["forbid"] = draw(column(count, 0, 1))
    if draw(st.booleans()):
        fields["footprints"] = [[one] for one in draw(column(count, 0, 5))]
        fields["budgets"] = [draw(st.sampled_from([5, 9, 20]))]
    if fields["capacity"] is not None and draw(st.booleans()):
        fields["pad_cost"] = draw(column(fields["capacity"] + 1, 0, 5))
    if fields["objective"] is BOTH:
        fields.pop("pad_cost", None)
        encoder = [draw(st.integers(0, cost)) for cost in fields["cost"]]
        fields["components"] = [[part, cost - part] for part, cost in zip(encoder, fields["cost"], strict=True)]
    fields |= fixed
    if fields["capacity"] is None:
        fields.pop("pad_cost", None)
    return Problem(tokens=tokens, ranks=ranks, bins_per_rank=bins_per_rank, **fields)


def partitions(count: int, num_blocks: int) -> Iterator[list[list[int]]]:
    """Every way to divide 0 .. count - 1 into so many non-empty blocks."""

    def extend(sample: int, blocks: list[list[int]]) -> Iterator[list[list[int]]]:
        if sample == count:
            if len(blocks) == num_blocks:
                yield [list(block) for block in blocks]
            return
        for block in blocks:
            block.append(sample)
            yield from extend(sample + 1, blocks)
            block.pop()
        if len(blocks) < num_blocks:
            blocks.append([sample])
            yield from extend(sample + 1, blocks)
            blocks.pop()

    yield from extend(0, [])


def valid_layouts(problem: Problem) -> Iterator[Assignment]:
    """Every valid layout, up to the order of samples in a bin and of bins on a rank; bins have one capacity."""
    for blocks in partitions(problem.num_samples, problem.num_bins):
        if all(_shares_a_bin(problem, block) for block in blocks):
            for bins in permutations(blocks):
                if _keeps_rank_limits(problem, bins):
                    yield Assignment.from_bins(bins)


def exists(problem: Problem) -> bool:
    return next(valid_layouts(problem), None) is not None


def fewest_valid(problem: Problem) -> int | None:
    """The smallest M for which an open problem has a layout, or None."""
    for bins_per_rank in range(1, problem.num_samples // problem.ranks + 1):
        if exists(problem.with_bins_per_rank(bins_per_rank)):
            return bins_per_rank
    return None


def replay(problem: Problem, layout: Assignment) -> bool:
    """Whether `BinState` takes every sample of the layout, in its order."""
    state = BinState(problem)
    for bin_index, members in enumerate(layout.to_bins()):
        for sample in members:
            if not state.fits(bin_index, sample):
                return False
            state.add(bin_index, sample)
    return True


def _shares_a_bin(problem: Problem, members: list[int]) -> bool:
    state = BinState(problem)
    for sample in members:
        if not state.fits(0, sample):
            return False
        state.add(0, sample)
    return True


def _keeps_rank_limits(problem: Problem, bins: tuple[list[int], ...]) -> bool:
    slots = problem.num_bins // problem.ranks
    held = [[i for b in bins[r * slots : (r + 1) * slots] for i in b] for r in range(problem.ranks)]
    if problem.equal_count and len({len(samples) for samples in held}) > 1:
        return False
    if problem.group is None:
        return True
    places = held if problem.group_scope == "rank" else bins
    labels = np.unique(problem.group[problem.group >= 0]).tolist()
    return all(sum(any(problem.group[i] == label for i in place) for place in places) == 1 for label in labels)
