"""The pair-repair kernel: both implementations agree, and a repair only ever lowers the round objective."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packing import _kernels
from packing.assignment import Assignment
from packing.partition import descending_order
from tests.kernels.conftest import COMPILED, REFERENCE

needs_both = pytest.mark.skipif(_kernels.backend == "reference", reason="the compiled kernels are switched off")
NONE64 = np.empty(0, np.int64)


@st.composite
def layouts(draw):
    num_bins = draw(st.integers(2, 9))
    sizes = draw(st.lists(st.integers(1, 5), min_size=num_bins, max_size=num_bins))
    count = sum(sizes)
    tokens = np.asarray(draw(st.lists(st.integers(1, 20), min_size=count, max_size=count)), np.int64)
    largest = draw(st.sampled_from([0, 3, 60, 2**45]))
    cost = np.asarray(draw(st.lists(st.integers(0, largest), min_size=count, max_size=count)), np.int64)
    items = np.asarray(draw(st.permutations(range(count))), np.int32)
    offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int32)
    fullest = int(Assignment(offsets, items).sums(tokens).max())
    capacity = fullest + draw(st.sampled_from([0, 0, 1, 7]))
    unused = np.arange(capacity + 1)
    pad_cost = unused * draw(st.integers(0, 3)) + unused * unused if draw(st.booleans()) else NONE64
    return {
        "tokens": tokens,
        "cost": cost,
        "capacity": capacity,
        "pad_cost": pad_cost,
        "group_size": draw(st.sampled_from([g for g in range(1, num_bins + 1) if num_bins % g == 0])),
        "objective": draw(st.integers(0, 1)),
        "max_pairs": draw(st.sampled_from([1, 2, 7, 64])),
    }, Assignment(offsets, items)


def _repair(implementation, case, layout):
    module = implementation.module("feasible")
    offsets, items = layout.offsets.copy(), layout.items.copy()
    entries = 1 + min(case["capacity"], int(case["tokens"].sum()))
    size = module.repair_pairs_workspace(items.size, layout.num_bins, entries, case["max_pairs"])
    order = descending_order(case["cost"], case["tokens"])
    successes = module.repair_pairs(
        **case, order=order, offsets=offsets, items=items, workspace=np.full(size, 0xAB, np.uint8)
    )
    return successes, Assignment(offsets, items)


@needs_both
@settings(max_examples=500, deadline=None)
@given(layouts())
def test_repair_is_bit_equal(drawn):
    case, layout = drawn
    compiled, reference = _repair(COMPILED, case, layout), _repair(REFERENCE, case, layout)
    assert compiled[0] == reference[0]
    assert compiled[1].to_bins() == reference[1].to_bins()


@settings(max_examples=100, deadline=None)
@given(layouts())
def test_a_repair_lowers_the_round_objective_and_keeps_every_promise(drawn):
    case, layout = drawn
    implementation = REFERENCE if _kernels.backend == "reference" else COMPILED
    successes, after = _repair(implementation, case, layout)
    assert sorted(after.items.tolist()) == list(range(after.num_samples))
    assert np.diff(after.offsets).min() >= 1
    assert after.sums(case["tokens"]).max() <= case["capacity"]

    def objective(one):
        loads = one.sums(case["cost"])
        if case["pad_cost"].size:
            loads = loads + case["pad_cost"][case["capacity"] - one.sums(case["tokens"])]
        return implementation.module("feasible").round_objective(loads, case["group_size"], case["objective"])

    before, now = objective(layout), objective(after)
    assert now < before if successes else now == before


@needs_both
@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 2**57), min_size=1, max_size=12), st.integers(0, 1))
def test_round_objectives_are_equal(loads, objective):
    loads = np.asarray(loads, np.int64)
    for size in (g for g in range(1, loads.size + 1) if loads.size % g == 0):
        values = [one.module("feasible").round_objective(loads, size, objective) for one in (COMPILED, REFERENCE)]
        assert values[0] == values[1]


@needs_both
@pytest.mark.parametrize("rounds", [1, 4])
def test_real_lengths_are_bit_equal(lengths_of, rounds):
    lengths = lengths_of("docs_mixed")[:400]
    num_bins = 32
    layout = Assignment.from_bin_of(np.arange(400) % num_bins, num_bins)
    case = {
        "tokens": lengths, "cost": lengths * lengths + 4096 * lengths,
        "capacity": int(layout.sums(lengths).max()), "pad_cost": NONE64, "group_size": num_bins // rounds,
        "objective": 0, "max_pairs": 40,
    }  # fmt: skip
    compiled, reference = _repair(COMPILED, case, layout), _repair(REFERENCE, case, layout)
    assert compiled[0] == reference[0] > 0
    assert compiled[1] == reference[1]


def test_malformed_arguments_are_refused(both):
    module = both[0].module("feasible")
    column, order = np.ones(4, np.int64), np.arange(4, dtype=np.int32)
    offsets = np.asarray([0, 2, 4], np.int32)
    good = [column, column, order, 9, NONE64, 2, 0, 3, offsets, order.copy(), np.zeros(4096, np.uint8)]
    for position, value, message in (
        (1, np.ones(3, np.int64), "same length"),
        (4, np.ones(3, np.int64), "pad_cost"),
        (5, 3, "group_size"),
        (8, np.asarray([0, 5, 4], np.int32), "ascend"),
        (9, np.full(4, 9, np.int32), "name samples"),
        (10, np.zeros(8, np.uint8), "workspace"),
    ):
        with pytest.raises(ValueError, match=message):
            module.repair_pairs(*[*good[:position], value, *good[position + 1 :]])
