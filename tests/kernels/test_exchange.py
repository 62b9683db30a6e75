"""The exchange kernel: both implementations agree bit by bit, and every limit is kept while the objective falls."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packing import _kernels
from packing.objectives import OBJECTIVES
from tests.kernels.conftest import COMPILED, REFERENCE

needs_both = pytest.mark.skipif(_kernels.backend == "reference", reason="the compiled kernels are switched off")
NONE32, NONE64, NONE8 = np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.uint8)
ANY = REFERENCE if _kernels.backend == "reference" else COMPILED


@dataclass
class Step:
    """Columns of entries by cost descending, limits that the layout `bin_of` keeps, and what is asked."""

    cost: np.ndarray
    tokens: np.ndarray
    count: np.ndarray
    footprints: np.ndarray
    forbid: np.ndarray
    locked: np.ndarray
    capacity: np.ndarray
    budgets: np.ndarray
    pad_cost: np.ndarray
    ranks: int
    slots: int
    round_size: int
    max_items: int
    equal_count: bool
    bin_of: np.ndarray
    rank_budgets: int = 0

    def samples(self, bin_of):
        weights = self.count if self.count.size else np.ones(self.cost.size, np.int64)
        return np.bincount(bin_of, weights, self.capacity.size).astype(np.int64)

    def sums(self, column, bin_of):
        out = np.zeros(self.capacity.size, np.int64)
        np.add.at(out, bin_of, column)
        return out

    def loads(self, bin_of):
        loads = self.sums(self.cost, bin_of)
        if self.pad_cost.size:
            loads = loads + self.pad_cost[np.maximum(0, self.capacity - self.sums(self.tokens, bin_of))]
        return loads


@st.composite
def steps(draw, plain=False):
    ranks, slots = draw(st.integers(1, 6)), draw(st.integers(1, 3))
    num_bins = ranks * slots
    n = num_bins + draw(st.integers(0, 24))
    largest = draw(st.sampled_from([3, 60, 10**5, 2**40]))
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    cost = np.sort(generator.integers(0, largest + 1, n))[::-1].copy()
    tokens = generator.integers(1, draw(st.sampled_from([2, 30, 500])), n)
    bin_of = np.concatenate([np.arange(num_bins), generator.integers(0, num_bins, n - num_bins)])
    generator.shuffle(bin_of)
    bin_of = bin_of.astype(np.int32)
    maybe = (lambda: False) if plain else (lambda: draw(st.booleans()))
    step = Step(
        cost, tokens, NONE32, np.empty((n, 0), np.int64), NONE64, NONE8, NONE64, NONE64, NONE64,
        ranks, slots, draw(st.sampled_from([g for g in range(1, ranks + 1) if ranks % g == 0])), 0, False, bin_of,
    )  # fmt: skip
    step.capacity = np.empty(num_bins, np.int64)
    room = generator.integers(0, draw(st.sampled_from([1, 20, 4000])), num_bins)
    step.capacity = step.sums(tokens, bin_of) + room
    if maybe():
        step.capacity[:] = step.capacity.max()
    if maybe():
        step.count = generator.integers(1, 4, n).astype(np.int32)
    if maybe():
        step.footprints = generator.integers(0, 9, (n, 2))
        used = np.stack([step.sums(step.footprints[:, b], bin_of) for b in range(2)], axis=1)
        if maybe():
            step.rank_budgets = 1
            used[:, 1] = np.repeat(used[:, 1].reshape(ranks, slots).sum(axis=1), slots)
        step.budgets = used.max(axis=0) + draw(st.integers(0, 4))
    if maybe():
        step.forbid = (bin_of % 2).astype(np.int64)
    if maybe():
        step.locked = generator.integers(0, 2, n).astype(np.uint8)
    if maybe():
        step.max_items = int(step.samples(bin_of).max()) + draw(st.integers(0, 2))
    if maybe():
        step.pad_cost = np.sort(generator.integers(0, largest + 1, int(step.capacity.max()) + 1))
    step.equal_count = maybe()
    return step


def exchange(implementation, step, mode, depth=2, partners=3, kicks=0, checks=20_000, weight=0, target=0):
    module = implementation.module("exchange")
    bin_of = step.bin_of.copy()
    size = module.exchange_workspace(bin_of.size, step.capacity.size, step.budgets.size)
    status, used = module.exchange(
        step.cost, step.tokens, step.count, step.footprints, step.forbid, step.locked, step.capacity, step.budgets,
        step.rank_budgets, step.pad_cost, step.ranks, step.slots, step.round_size, step.max_items, step.equal_count,
        mode, weight, target,
        depth, partners, kicks, checks, bin_of, np.empty(size, np.uint8),
    )  # fmt: skip
    return status, used, bin_of


modes = st.sampled_from([0, 1, 2])


@needs_both
@settings(max_examples=300, deadline=None)
@given(
    steps(), modes, st.integers(1, 3), st.sampled_from([1, 3, 100]), st.sampled_from([0, 5]),
    st.sampled_from([50, 20_000]), st.sampled_from([0, 3]),
)  # fmt: skip
def test_both_implementations_agree(step, mode, depth, partners, kicks, checks, weight):
    compiled = exchange(COMPILED, step, mode, depth, partners, kicks, checks, weight)
    reference = exchange(REFERENCE, step, mode, depth, partners, kicks, checks, weight)
    assert compiled[:2] == reference[:2]
    assert compiled[2].tolist() == reference[2].tolist()


@needs_both
@pytest.mark.parametrize(("n", "depth"), [(9000, 1), (140, 2), (90, 3)])
def test_both_agree_where_a_bin_has_more_entries_than_are_looked_at(n, depth):
    generator = np.random.default_rng(n)
    cost = np.sort(generator.integers(1, 1000, n))[::-1].copy()
    bin_of = generator.integers(0, 1 if n > 1000 else 2, n).astype(np.int32)
    bin_of[-2:] = 1, 0
    step = Step(
        cost, cost.copy(), NONE32, np.empty((n, 0), np.int64), NONE64, NONE8, np.full(2, 10**8), NONE64, NONE64,
        2, 1, 2, 0, False, bin_of,
    )  # fmt: skip
    compiled = exchange(COMPILED, step, 0, depth, checks=300_000)
    reference = exchange(REFERENCE, step, 0, depth, checks=300_000)
    assert compiled[:2] == reference[:2]
    assert compiled[2].tolist() == reference[2].tolist()


@needs_both
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_both_agree_where_tokens_are_huge(depth):
    """Sums near 2**62, whose products would not fit into 64 bits."""
    generator = np.random.default_rng(depth)
    cost = np.sort(generator.integers(1, 1000, 16))[::-1].copy()
    tokens = generator.integers(2**56, 2**57, 16)
    step = Step(
        cost, tokens, NONE32, np.empty((16, 0), np.int64), NONE64, NONE8, np.full(2, 2**62 - 1), NONE64, NONE64,
        2, 1, 2, 0, False, (np.arange(16) > 11).astype(np.int32),
    )  # fmt: skip
    step.capacity = step.sums(tokens, step.bin_of) + 2**57
    compiled = exchange(COMPILED, step, 0, depth)
    reference = exchange(REFERENCE, step, 0, depth)
    assert compiled[:2] == reference[:2]
    assert compiled[2].tolist() == reference[2].tolist()


@settings(max_examples=200 if ANY is COMPILED else 40, deadline=None)
@given(steps(), modes, st.integers(1, 3), st.sampled_from([0, 3]))
def test_limits_hold_and_the_objective_never_rises(step, mode, depth, kicks):
    _, _, after = exchange(ANY, step, mode, depth, kicks=kicks)
    assert (np.bincount(after, minlength=step.capacity.size) > 0).all()
    assert (step.sums(step.tokens, after) <= step.capacity).all()
    for b, limit in enumerate(step.budgets):
        used = step.sums(step.footprints[:, b], after)
        if b >= step.budgets.size - step.rank_budgets:
            used = used.reshape(step.ranks, -1).sum(axis=1)
        assert used.max() <= limit
    if step.max_items:
        assert step.samples(after).max() <= step.max_items
    for b in range(step.capacity.size):
        kinds = step.forbid[after == b] if step.forbid.size else ()
        assert len(set(kinds)) <= 1
    if step.locked.size:
        stay = step.locked == 1
        assert (after[stay] // step.slots == step.bin_of[stay] // step.slots).all()
    if step.equal_count:
        before = step.samples(step.bin_of).reshape(step.ranks, -1).sum(axis=1)
        assert step.samples(after).reshape(step.ranks, -1).sum(axis=1).tolist() == before.tolist()
    name = {0: "makespan", 1: "rounds", 2: "balance"}[mode]
    if mode == 2 and step.pad_cost.size:
        return  # padding changes the total, on which the variation depends
    score = [
        OBJECTIVES[name].score(step.loads(layout), step.ranks, step.slots, step.round_size)
        for layout in (step.bin_of, after)
    ]
    assert score[1] <= score[0]


def test_an_exchange_of_two_for_two_is_found(implementation):
    """Loads 60 and 40; only {20, 10} against {15, 5} makes them equal."""
    step = Step(
        np.array([30, 20, 20, 15, 10, 5]), np.ones(6, np.int64), NONE32, np.empty((6, 0), np.int64), NONE64, NONE8,
        np.array([3, 3]), NONE64, NONE64, 2, 1, 2, 0, False, np.array([0, 0, 1, 1, 0, 1], np.int32),
    )  # fmt: skip
    status, _, after = exchange(implementation, step, 0, target=50)
    assert status == implementation.module("exchange").NOTHING_LEFT
    assert step.loads(after).tolist() == [50, 50]


def test_an_oversized_sample_stays_alone(implementation):
    step = Step(
        np.array([9, 1, 1, 1]), np.array([100, 1, 1, 1]), NONE32, np.empty((4, 0), np.int64), NONE64, NONE8,
        np.array([10, 10]), NONE64, NONE64, 2, 1, 2, 0, False, np.array([0, 1, 1, 1], np.int32),
    )  # fmt: skip
    assert exchange(implementation, step, 0)[2].tolist() == [0, 1, 1, 1]


def test_bad_arguments_are_named(implementation):
    step = Step(
        np.array([2, 1]), np.array([1, 1]), NONE32, np.empty((2, 0), np.int64), NONE64, NONE8, np.array([5, 5]), NONE64,
        NONE64, 2, 1, 2, 0, False, np.array([0, 1], np.int32),
    )  # fmt: skip
    if implementation is COMPILED:
        step.bin_of[1] = 2
        with pytest.raises(ValueError, match="bin_of must name bins"):
            exchange(implementation, step, 0)
        step.bin_of[1] = 1
        with pytest.raises(ValueError, match="depth 1 to 3"):
            exchange(implementation, step, 0, depth=4)


def test_a_single_rank_has_nobody_to_exchange_with(implementation):
    """Without a partner no check is made, so that kicks must end by themselves."""
    step = Step(
        np.array([3, 2, 1]), np.array([1, 1, 1]), NONE32, np.empty((3, 0), np.int64), NONE64, NONE8,
        np.array([5, 5]), NONE64, NONE64, 1, 2, 1, 0, False, np.array([0, 1, 1], np.int32),
    )  # fmt: skip
    status, used, after = exchange(implementation, step, 0, kicks=1 << 40)
    assert (status, used) == (implementation.module("exchange").NOTHING_HELPS, 0)
    assert after.tolist() == [0, 1, 1]
