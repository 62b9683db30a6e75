"""The bound by token prices: never above the optimum, and close to it on windows of real documents."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packing import _kernels
from packing._bound_prices import priced_rounds
from packing.algorithms.level_multifit import level_multifit
from packing.problem import Problem
from tests.problems import column, examples

SLOW = _kernels.backend == "reference"


def heads_of(cost: np.ndarray, tokens: np.ndarray, capacity: int, rounds: int, round_size: int) -> list[int]:
    """Samples over half the capacity have packs of their own; some pack holds the costliest sample."""
    apart = np.sort(cost[2 * tokens > capacity])[::-1]
    heads = [int(apart[r * round_size]) if r * round_size < apart.size else 0 for r in range(rounds)]
    return [int(cost.max()), *heads[1:]]


def fewest(cost: list[int], tokens: list[int], capacity: int, num_bins: int, round_size: int) -> int | None:
    """The smallest sum over rounds of the largest load, by trying every placement; None where there is none."""
    best: int | None = None
    loads, used = [0] * num_bins, [0] * num_bins

    def place(i: int) -> None:
        nonlocal best
        rounds = sum(sorted(loads, reverse=True)[::round_size])
        if best is not None and rounds >= best:
            return
        if i == len(cost):
            best = rounds
            return
        for b in range(num_bins):
            if used[b] + tokens[i] <= capacity:
                loads[b] += cost[i]
                used[b] += tokens[i]
                place(i + 1)
                loads[b] -= cost[i]
                used[b] -= tokens[i]
            if used[b] == 0:
                break  # the other empty packs are alike

    place(0)
    return best


@examples(300)
@given(st.data())
def test_never_above_the_optimum(data):
    round_size, rounds = data.draw(st.integers(1, 2)), data.draw(st.integers(2, 3))
    count, capacity = data.draw(st.integers(2, 7)), data.draw(st.integers(8, 16))
    tokens = np.asarray(data.draw(column(count, 1, capacity)), np.int64)
    convex = data.draw(st.booleans())
    cost = tokens * data.draw(st.integers(0, 9)) + tokens * tokens if convex else None
    cost = np.asarray(data.draw(column(count, 0, 50)), np.int64) if cost is None else cost
    cost = cost << data.draw(st.sampled_from([0, 0, 1, 52]))
    optimum = fewest(cost.tolist(), tokens.tolist(), capacity, rounds * round_size, round_size)
    if optimum is None:
        return
    heads = heads_of(cost, tokens, capacity, rounds, round_size)
    assert priced_rounds(cost, tokens, capacity, round_size, heads) <= optimum


def test_a_known_window():
    """Two rounds of two packs of 10: at the level of 9 the first two hold 18 of 24, so the other two share 6."""
    cost = np.asarray([9, 8, 1, 1, 1, 1, 1, 1, 1], np.int64)
    assert fewest(cost.tolist(), cost.tolist(), 10, 4, 2) == 12
    assert priced_rounds(cost, cost, 10, 2, [9, 0]) == 12


@pytest.mark.parametrize(("rounds", "most"), [(4, 0.001), (8, 0.005)])
def test_it_proves_windows_of_documents_to_be_near_the_optimum(lengths_of, rounds, most):
    ranks, capacity = (4 if SLOW else 32), 1 << 17
    lengths = lengths_of("wlbllm_docs")
    lengths = lengths[lengths <= capacity]
    lengths = lengths[: int(np.searchsorted(np.cumsum(lengths), 0.95 * ranks * rounds * capacity))]
    cost = lengths * 49152 + lengths * lengths
    problem = Problem(lengths, cost, ranks * rounds, capacity=capacity, round_size=ranks, objective="rounds")
    heads = heads_of(cost, lengths, capacity, rounds, ranks)
    bound = priced_rounds(cost, lengths, capacity, ranks, heads)
    score = problem.score(level_multifit(problem))
    assert bound <= score
    if not SLOW:
        assert score <= (1 + most) * bound


@pytest.mark.parametrize("scale", [0, 7, 20])
def test_the_scale_of_the_costs_plays_no_part(lengths_of, scale):
    lengths = np.minimum(lengths_of("wlbllm_docs")[:600], 1 << 16)
    cost = lengths * 49152 + lengths * lengths
    heads = heads_of(cost, lengths, 1 << 16, 4, 8)
    plain = priced_rounds(cost, lengths, 1 << 16, 8, heads)
    scaled = priced_rounds(cost << scale, lengths, 1 << 16, 8, [head << scale for head in heads])
    assert abs(scaled - (plain << scale)) <= (2 << scale) + (plain << scale >> 30)


def test_nothing_to_bound():
    none = np.empty(0, np.int64)
    assert priced_rounds(none, none, 8, 1, [0, 0]) == 0
    assert priced_rounds(np.ones(3, np.int64), np.ones(3, np.int64), 8, 3, [1]) == 0
