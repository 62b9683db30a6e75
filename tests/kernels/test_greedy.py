"""The greedy kernel: both implementations agree over every feature, the tree agrees with the scan."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packing import _kernels
from tests.kernels.conftest import COMPILED, REFERENCE

needs_both = pytest.mark.skipif(_kernels.backend == "reference", reason="the compiled kernels are switched off")
NONE32, NONE64 = np.empty(0, np.int32), np.empty(0, np.int64)


def _place(implementation, case):
    module = implementation.module("greedy")
    bin_of = np.full(case["order"].size, -1, np.int32)
    workspace = np.full(
        module.place_workspace(
            case["order"].size, case["ranks"], case["bins_per_rank"], case["budgets"].size, case["num_groups"]
        ),
        0xAB,
        np.uint8,
    )
    placed = module.place(**case, bin_of=bin_of, workspace=workspace)
    return placed, bin_of.tolist()


@st.composite
def cases(draw, plain: bool = False):
    ranks, bins_per_rank = draw(st.integers(1, 6)), draw(st.integers(1, 3))
    num_bins, count = ranks * bins_per_rank, draw(st.integers(1, 24))
    column = lambda low, high: np.asarray(  # noqa: E731
        draw(st.lists(st.integers(low, high), min_size=count, max_size=count)), np.int64
    )
    flag = st.just(False) if plain else st.booleans()
    tokens, cost = column(1, 12), column(0, draw(st.sampled_from([0, 2, 30, 2**50])))
    tightest = draw(st.integers(6, 40))
    capacity = np.full(num_bins, tightest if draw(st.integers(0, 4)) else 1 << 62, np.int64)
    if draw(flag) and capacity[0] < 1 << 62:
        capacity += np.arange(num_bins) % 3
    num_budgets = draw(st.integers(0, 2)) if draw(flag) else 0
    padded = draw(flag) and capacity[0] < 1 << 62
    grouped = draw(flag)
    table = np.arange(capacity.max() + 1) if padded else NONE64
    return {
        "tokens": tokens,
        "cost": cost,
        "count": column(1, 2).astype(np.int32) if draw(flag) else NONE32,
        "footprints": np.ascontiguousarray(column(0, 4)[:, None] * np.arange(1, num_budgets + 1)),
        "forbid": column(0, 1) if draw(flag) else NONE64,
        "group": column(-1, 3).astype(np.int32) if grouped else NONE32,
        "num_groups": 4 if grouped else 0,
        "order": np.asarray(draw(st.permutations(range(count))), np.int32),
        "capacity": capacity,
        "budgets": np.full(num_budgets, 9, np.int64),
        "pad_cost": np.ascontiguousarray(table * draw(st.integers(0, 3)) + table * table * draw(st.integers(0, 1))),
        "ranks": ranks,
        "bins_per_rank": bins_per_rank,
        "round_size": draw(st.sampled_from([g for g in range(1, ranks + 1) if ranks % g == 0])),
        "max_items": draw(st.sampled_from([0, 2, 4])),
        "oversized_single": draw(st.booleans()),
        "score": 0 if plain else draw(st.integers(0, 3)),
    }  # fmt: skip


@needs_both
@settings(max_examples=600, deadline=None)
@given(cases())
def test_every_feature_is_bit_equal(case):
    assert _place(COMPILED, case) == _place(REFERENCE, case)


@needs_both
@settings(max_examples=400, deadline=None)
@given(cases(plain=True))
def test_the_tree_is_bit_equal(case):
    assert _place(COMPILED, case) == _place(REFERENCE, case)


@needs_both
@pytest.mark.parametrize("score", range(4))
@pytest.mark.parametrize("bins_per_rank", [1, 3])
def test_real_lengths_are_bit_equal(lengths_of, score, bins_per_rank):
    lengths = lengths_of("servegen_r1")[:300]
    case = {
        "tokens": lengths, "cost": lengths * lengths + 4096 * lengths, "count": NONE32,
        "footprints": np.empty((300, 0), np.int64), "forbid": NONE64, "group": NONE32, "num_groups": 0,
        "order": np.argsort(-lengths, kind="stable").astype(np.int32),
        "capacity": np.full(16 * bins_per_rank, 80_000, np.int64), "budgets": NONE64,
        "pad_cost": np.arange(80_001) * 4096 if score else NONE64, "ranks": 16, "bins_per_rank": bins_per_rank,
        "round_size": 4, "max_items": 0, "oversized_single": False, "score": score,
    }  # fmt: skip
    compiled, reference = _place(COMPILED, case), _place(REFERENCE, case)
    assert compiled == reference
    assert compiled[0] == 300


@needs_both
def test_the_tree_and_the_scan_agree_on_many_ranks(lengths_of):
    lengths = lengths_of("wlbllm_docs")
    lengths = lengths[lengths <= 32768][:6000]
    case = {
        "tokens": lengths, "cost": lengths * lengths, "count": NONE32, "footprints": np.empty((6000, 0), np.int64),
        "forbid": NONE64, "group": NONE32, "num_groups": 0,
        "order": np.argsort(-lengths, kind="stable").astype(np.int32),
        "budgets": NONE64, "pad_cost": NONE64, "ranks": 128, "round_size": 128, "max_items": 0,
        "oversized_single": False, "score": 0,
    }  # fmt: skip
    for bins_per_rank, fill in ((1, 0.9), (1, 0.999), (4, 0.98)):
        capacity = max(int(lengths.sum() / 128 / bins_per_rank / fill), 32768)
        case |= {"bins_per_rank": bins_per_rank, "capacity": np.full(128 * bins_per_rank, capacity, np.int64)}
        # One value of `forbid` for all changes nothing but sends the kernel down the scan.
        assert _place(COMPILED, case) == _place(COMPILED, case | {"forbid": np.zeros(6000, np.int64)})


def test_huge_loads_are_compared_exactly(implementation):
    """Squared loads near 2**120 and pad changes of one: doubles could not tell these bins apart."""
    count, capacity = 8, 4
    case = {
        "tokens": np.ones(count, np.int64),
        "cost": np.full(count, (1 << 58) // count - 7, np.int64) - np.arange(count),
        "count": NONE32, "footprints": np.empty((count, 0), np.int64), "forbid": NONE64, "group": NONE32,
        "num_groups": 0, "order": np.arange(count, dtype=np.int32), "capacity": np.full(3, capacity, np.int64),
        "budgets": NONE64, "pad_cost": np.arange(capacity + 1), "ranks": 3, "bins_per_rank": 1, "round_size": 3,
        "max_items": 0, "oversized_single": False, "score": 2,
    }  # fmt: skip
    assert _place(implementation, case) == _place(REFERENCE, case)
    assert _place(implementation, case)[0] == count


def test_malformed_arguments_are_refused(both):
    base = {
        "tokens": np.ones(2, np.int64), "cost": np.ones(2, np.int64), "count": NONE32,
        "footprints": np.empty((2, 0), np.int64), "forbid": NONE64, "group": NONE32, "num_groups": 0,
        "order": np.arange(2, dtype=np.int32), "capacity": np.ones(2, np.int64), "budgets": NONE64,
        "pad_cost": NONE64, "ranks": 2, "bins_per_rank": 1, "round_size": 2, "max_items": 0,
        "oversized_single": False, "score": 0,
    }  # fmt: skip
    for change, message in (
        ({"capacity": np.ones(3, np.int64)}, "one value per bin"),
        ({"cost": np.ones(3, np.int64)}, "same length"),
        ({"round_size": 3}, "round_size"),
        ({"score": 7}, "score"),
        ({"forbid": np.ones(1, np.int64)}, "forbid"),
    ):
        with pytest.raises(ValueError, match=message):
            _place(both[0], base | change)
