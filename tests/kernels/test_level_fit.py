"""The level-fit kernel: both implementations agree over every feature, the trees agree with the scan."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packing import _kernels
from tests.kernels.conftest import COMPILED, REFERENCE

needs_both = pytest.mark.skipif(_kernels.backend == "reference", reason="the compiled kernels are switched off")
NONE32, NONE64 = np.empty(0, np.int32), np.empty(0, np.int64)
FIRST_FIT, BEST_FIT, DENSITY = range(3)


def _place(implementation, case):
    """Entries placed, their bins and, where all are placed, the loads."""
    module = implementation.module("level_fit")
    bin_of, loads = np.full(case["order"].size, -1, np.int32), np.zeros(case["capacity"].size, np.int64)
    shape = case["order"].size, case["ranks"], case["bins_per_rank"], case["budgets"].size, case["num_groups"]
    workspace = np.full(module.place_workspace(*shape), 0xAB, np.uint8)
    placed = module.place(**case, bin_of=bin_of, loads=loads, workspace=workspace)
    return placed, bin_of.tolist(), loads.tolist() if placed == bin_of.size else None


def plain(tokens, cost, levels, capacity=1 << 62, **changes):
    """A case with one bin per level and no limits but the capacity; entries by cost descending."""
    cost = np.asarray(cost, np.int64)
    return {
        "tokens": np.asarray(tokens, np.int64), "cost": cost, "count": NONE32,
        "footprints": np.empty((cost.size, 0), np.int64), "forbid": NONE64, "group": NONE32, "num_groups": 0,
        "order": np.argsort(-cost, kind="stable").astype(np.int32),
        "capacity": np.full(len(levels), capacity, np.int64), "budgets": NONE64, "pad_cost": NONE64,
        "ranks": len(levels), "bins_per_rank": 1, "levels": np.asarray(levels, np.int64), "max_items": 0,
        "oversized_single": False, "rule": DENSITY, "may_overflow": False,
    } | changes  # fmt: skip


@st.composite
def cases(draw, simple: bool = False):
    ranks, bins_per_rank = draw(st.integers(1, 6)), draw(st.integers(1, 3))
    num_bins, count = ranks * bins_per_rank, draw(st.integers(1, 24))

    def column(low, high, size=count):
        return np.asarray(draw(st.lists(st.integers(low, high), min_size=size, max_size=size)), np.int64)

    flag = st.just(False) if simple else st.booleans()
    largest = draw(st.sampled_from([0, 2, 30, 2**50]))
    tokens, cost = column(1, 12), column(0, largest)
    tightest = draw(st.integers(6, 40))
    capacity = np.full(num_bins, tightest if draw(st.integers(0, 4)) else 1 << 62, np.int64)
    if draw(st.booleans()) and capacity[0] < 1 << 62:
        capacity += np.arange(num_bins) % 3
    num_budgets = draw(st.integers(0, 2)) if draw(flag) else 0
    padded = draw(flag) and capacity[0] < 1 << 62
    grouped = draw(flag)
    table = np.arange(capacity.max() + 1) if padded else NONE64
    units = ranks if draw(st.booleans()) else num_bins
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
        "levels": column(0, 3, units) * max(1, largest * draw(st.integers(1, 6)) // 3),
        "max_items": draw(st.sampled_from([0, 2, 4])),
        "oversized_single": draw(st.booleans()),
        "rule": draw(st.sampled_from([FIRST_FIT, BEST_FIT, DENSITY])),
        "may_overflow": draw(st.booleans()),
    }


@needs_both
@settings(max_examples=250, deadline=None)
@given(cases())
def test_every_feature_is_bit_equal(case):
    assert _place(COMPILED, case) == _place(REFERENCE, case)


@needs_both
@settings(max_examples=250, deadline=None)
@given(cases(simple=True))
def test_the_trees_are_bit_equal(case):
    assert _place(COMPILED, case) == _place(REFERENCE, case)


@needs_both
@pytest.mark.parametrize("rule", [FIRST_FIT, BEST_FIT, DENSITY])
@pytest.mark.parametrize(("ranks", "bins_per_rank", "by_bin"), [(16, 1, True), (16, 3, False), (16, 3, True)])
@pytest.mark.parametrize("fill", [0.6, 0.97, 1.01])
def test_real_lengths_are_bit_equal(lengths_of, rule, ranks, bins_per_rank, by_bin, fill):
    lengths = lengths_of("servegen_r1")[:400]
    cost = lengths * lengths + 4096 * lengths
    num_bins = ranks * bins_per_rank
    units = num_bins if by_bin else ranks
    capacity = max(int(lengths.sum() / num_bins / fill), int(lengths.max()))
    for level in (1.0, 1.01, 1.2):
        levels = np.full(units, int(cost.sum() / units * level), np.int64)
        levels[: units // 4] = levels[0] * 3 // 2
        case = plain(lengths, cost, np.zeros(num_bins), capacity, rule=rule, may_overflow=fill > 1) | {
            "ranks": ranks, "bins_per_rank": bins_per_rank, "levels": levels,
        }  # fmt: skip
        compiled = _place(COMPILED, case)
        assert compiled == _place(REFERENCE, case)
        # One value of `forbid` for all changes nothing but sends the kernel down the scan.
        assert compiled == _place(COMPILED, case | {"forbid": np.zeros(400, np.int64)})


def test_first_and_best_fit_below_the_level(implementation):
    first = plain([1] * 4, [6, 5, 4, 3], [9, 9], rule=FIRST_FIT)
    assert _place(implementation, first) == (4, [0, 1, 1, 0], [9, 9])
    # The 3 fits below both levels: best fit takes the bin where nothing is left.
    best = plain([1] * 3, [6, 5, 3], [7, 6, 14], rule=BEST_FIT)
    assert _place(implementation, best)[1] == [1, 0, 2]
    assert _place(implementation, best | {"rule": FIRST_FIT})[1] == [0, 1, 2]


def test_the_density_rule_wants_cost_where_little_room_is_left(implementation):
    """10 / 5 against 10 / 4: the shorter bin wants more cost per token; equal densities go to the first bin."""
    case = plain([2, 1], [4, 1], [10, 10])
    assert _place(implementation, case | {"capacity": np.asarray([5, 4], np.int64)})[1] == [1, 0]
    assert _place(implementation, case | {"capacity": np.asarray([4, 4], np.int64)})[1] == [0, 1]


def test_densities_are_compared_exactly(implementation):
    """(2**61 - 1) / (2**60 - 1) is larger than (2**61 + 1) / 2**60 by one part in 2**60."""
    case = plain([3, 3, 3], [9, 9, 0], [2**61 + 1, 2**61 - 1])
    capacity = np.asarray([2**60, 2**60 - 1], np.int64)
    assert _place(implementation, case | {"capacity": capacity})[1][0] == 1


def test_above_all_levels_the_excess_is_smallest(implementation):
    case = plain([1, 1, 1], [9, 8, 2], [5, 6])
    # 9 exceeds 6 by 3 and 5 by 4; then 8 exceeds 5 by 3; 2 more makes 5 of both, and the first is taken.
    assert _place(implementation, case) == (3, [1, 0, 0], [10, 9])


def test_no_bin_stays_empty(implementation):
    case = plain([1] * 4, [3, 2, 1, 1], [100, 100, 100], rule=FIRST_FIT)
    assert _place(implementation, case) == (4, [0, 0, 1, 2], [5, 1, 1])


def test_a_dead_end_says_how_far_it_came(implementation):
    case = plain([3, 3, 2], [9, 8, 7], [50, 50], capacity=4)
    assert _place(implementation, case)[0] == 2
    overflowing = _place(implementation, case | {"may_overflow": True})
    assert overflowing == (3, [0, 1, 0], [16, 8])


def test_levels_of_ranks_count_all_their_bins(implementation):
    case = plain([1] * 4, [5, 4, 3, 2], [0] * 4) | {"ranks": 2, "bins_per_rank": 2, "levels": np.full(2, 7, np.int64)}
    placed, bin_of, loads = _place(implementation, case)
    assert placed == 4
    assert sorted(np.reshape(loads, (2, 2)).sum(axis=1).tolist()) == [7, 7]
    assert sorted(bin_of) == [0, 1, 2, 3]


def test_padding_counts_in_the_load(implementation):
    """An empty bin of 4 tokens costs 4 in padding; each token placed saves one."""
    case = plain([3, 1], [10, 2], [11, 11], capacity=4, pad_cost=np.arange(5), rule=FIRST_FIT)
    assert _place(implementation, case) == (2, [0, 1], [11, 5])


def test_malformed_arguments_are_refused(both):
    base = plain([1, 1], [1, 1], [1, 1])
    for change, message in (
        ({"capacity": np.ones(3, np.int64)}, "one value per bin"),
        ({"cost": np.ones(3, np.int64)}, "same length"),
        ({"levels": np.ones(3, np.int64)}, "levels"),
        ({"rule": 7}, "rule"),
        ({"forbid": np.ones(1, np.int64)}, "forbid"),
        ({"ranks": 0}, "positive"),
    ):
        with pytest.raises(ValueError, match=message):
            _place(both[0], base | change)
