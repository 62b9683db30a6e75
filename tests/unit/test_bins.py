"""`pack` and its bounds: published counts reproduced, limits kept, wrong input refused in words."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packing._kernels import backend
from packing.bin_bounds import (
    bin_lower_bound,
    continuous_bound,
    dual_feasible_bound,
    martello_toth_bound,
    reduction_bound,
)
from packing.bins import ALGORITHMS, fit_bins, pack
from packing.errors import ConfigError, InfeasibleError
from tests.conftest import data_folder

# Published names of the rules that `pack` has too; all take equal lengths in any order, which no count depends on.
small_problems = st.integers(1, 30).flatmap(
    lambda capacity: st.tuples(st.lists(st.integers(1, capacity), max_size=9), st.just(capacity))
)


def needed(path):
    if not path.exists():
        pytest.skip(f"no data file {path.name}")
    return path


def fewest_bins(lengths: list[int], capacity: int) -> int:
    """The optimum, by trying every bin for every sample (longest first, bins of equal load once)."""
    best = len(lengths)
    ordered = sorted(lengths, reverse=True)

    def place(index: int, loads: list[int]) -> None:
        nonlocal best
        if len(loads) >= best and index < len(ordered):
            return
        if index == len(ordered):
            best = min(best, len(loads))
            return
        for load in set(loads):
            if load + ordered[index] <= capacity:
                changed = loads.copy()
                changed[changed.index(load)] += ordered[index]
                place(index + 1, changed)
        place(index + 1, [*loads, ordered[index]])

    place(0, [])
    return best


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@settings(deadline=None)
@given(problem=small_problems, max_items=st.sampled_from([None, 1, 3]), bins=st.sampled_from([None, 1, 4]))
def test_every_sample_once_and_no_bin_over_its_limits(algorithm, problem, max_items, bins):
    lengths, capacity = problem
    if bins is not None and bins > len(lengths):
        bins = None
    packed = pack(lengths, capacity, algorithm=algorithm, max_items=max_items, min_bins=bins)
    lists = packed.to_lists()
    assert sorted(index for members in lists for index in members) == list(range(len(lengths)))
    assert len(lists) == packed.num_bins >= (bins or 0)
    for members in lists:
        assert 0 < sum(lengths[index] for index in members) <= capacity
        assert max_items is None or len(members) <= max_items
    if lengths:
        assert packed.fill == sum(lengths) / (capacity * packed.num_bins)


@pytest.mark.parametrize("algorithm", ["first_fit_decreasing", "best_fit_decreasing", "exact_fill"])
@settings(deadline=None)
@given(data=st.data(), problem=small_problems)
def test_the_order_of_the_input_does_not_change_the_lengths_in_a_bin(algorithm, data, problem):
    lengths, capacity = problem
    shuffled = data.draw(st.permutations(lengths))

    def contents(values):
        return [
            [values[index] for index in members] for members in pack(values, capacity, algorithm=algorithm).to_lists()
        ]

    assert contents(lengths) == contents(shuffled)


@pytest.mark.parametrize("kind", ["first_fit_decreasing", "best_fit_decreasing"])
def test_table_and_search_give_the_same_bins(kind, monkeypatch):
    """Which form runs depends on the number of samples only; the bins must not."""
    lengths = np.random.default_rng(5).integers(1, 500, 400)
    with_table = fit_bins(lengths, None, 512, kind, 120, 4)
    monkeypatch.setattr("packing.bins._TABLE_ENTRIES", 0)
    without = fit_bins(lengths, None, 512, kind, 120, 4)
    assert np.array_equal(with_table[0], without[0])
    assert np.array_equal(with_table[1], without[1])


def test_fit_bins_places_in_the_given_order():
    tokens, order = np.array([6, 5, 4, 5]), np.array([3, 2, 1, 0], np.int32)
    offsets, items = fit_bins(tokens, order, 10, "first_fit")
    assert (offsets.tolist(), items.tolist()) == ([0, 2, 3, 4], [3, 2, 1, 0])
    offsets, items = fit_bins(tokens, order, None, "next_fit", 2)
    assert (offsets.tolist(), items.tolist()) == ([0, 3, 4], [3, 2, 1, 0])
    for kind in ("first_fit_decreasing", "best_fit_decreasing", "exact_fill"):
        with pytest.raises(ValueError, match=f"`order` must be None for {kind}"):
            fit_bins(tokens, order, 10, kind)


def test_a_result_is_small_frozen_and_does_not_touch_its_input():
    lengths = np.array([5, 7, 3], np.int32)
    lengths.flags.writeable = False
    packed = pack(lengths, 10)
    assert packed.to_lists() == [[1, 2], [0]]
    assert (packed.capacity, packed.tokens, packed.fill) == (10, 15, 0.75)
    assert packed.offsets.dtype == packed.items.dtype == np.int32
    with pytest.raises(ValueError, match="read-only"):
        packed.items[0] = 1
    with pytest.raises(AttributeError):
        packed.capacity = 3  # type: ignore[misc]


def test_no_samples_need_no_bins():
    packed = pack([], 10)
    assert (packed.num_bins, packed.to_lists(), packed.fill) == (0, [], 0.0)


def test_oversized_samples_can_have_bins_of_their_own():
    packed = pack([3, 25, 11, 7], 10, oversized="single")
    assert packed.to_lists() == [[1], [2], [3, 0]]
    assert packed.fill == 46 / 30
    assert pack([2**40, 1], 10, oversized="single").to_lists() == [[0], [1]]


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        (([3, 12, 13], 10), {}, InfeasibleError, "sample 1 has length 12, more than the capacity 10;"),
        (([3, 4], 10), {"min_bins": 3}, InfeasibleError, "3 non-empty bins need as many samples, but there are only 2"),
        (([3, 0], 10), {}, ConfigError, "`lengths` must be positive, but got 0 at index 1"),
        (([3, 1.5], 10), {}, ConfigError, "`lengths` must hold whole numbers, but got 1.5 at index 1"),
        (([[3]], 10), {}, ConfigError, "`lengths` must be one-dimensional"),
        (([3], 0), {}, ConfigError, "`capacity` must be a positive integer, but got 0"),
        (([3], True), {}, ConfigError, "`capacity` must be a positive integer, but got True"),
        (([3], 10), {"algorithm": "worst_fit"}, ConfigError, '`algorithm` must be one of "next_fit"'),
        (([3], 10), {"max_items": 0}, ConfigError, "`max_items` must be a positive integer, but got 0"),
        (([3], 10), {"min_bins": -1}, ConfigError, "`min_bins` must be a positive integer, but got -1"),
        (([3], 10), {"effort": "slow"}, ConfigError, "`effort` must be 'fast', 'normal', 'thorough' or a positive int"),
        (([3], 10), {"effort": 0}, ConfigError, "`effort` must be a positive integer, but got 0"),
        (([3], 10), {"effort": 2.5}, ConfigError, "`effort` must be a positive integer, but got 2.5"),
        (([3], 10), {"oversized": "drop"}, ConfigError, '`oversized` must be one of "error", "single"'),
        (([2**61, 2**61], 2**62), {}, ConfigError, r"`lengths` must add up to less than 2\*\*62, but got 46116860"),
    ],
)
def test_wrong_input_is_refused_in_words(arguments, options, error, message):
    with pytest.raises(error, match=message):
        pack(*arguments, **options)


def test_a_capacity_beyond_all_lengths_is_no_cap():
    assert pack([5, 2**60, 7], 2**70, algorithm="first_fit").to_lists() == [[0, 1, 2]]


@settings(deadline=None)
@given(problem=small_problems)
def test_bounds_never_exceed_the_optimum(problem):
    lengths, capacity = problem
    optimum = fewest_bins(lengths, capacity)
    array = np.array(lengths, np.int64)
    assert continuous_bound(array, capacity) <= martello_toth_bound(array, capacity) <= optimum
    assert dual_feasible_bound(array, capacity) <= optimum
    assert reduction_bound(array, capacity) <= optimum
    assert optimum <= pack(lengths, capacity).num_bins


@settings(deadline=None)
@given(st.lists(st.integers(0, 25), max_size=30), st.integers(1, 20))
def test_martello_toth_by_its_definition(lengths, capacity):
    def with_threshold(threshold):
        alone = [each for each in lengths if capacity - threshold < each]
        large = [each for each in lengths if capacity < 2 * each and each <= capacity - threshold]
        small = [each for each in lengths if threshold <= each and 2 * each <= capacity]
        missing = sum(small) - sum(capacity - each for each in large)
        return len(alone) + len(large) + max(0, -(-missing // capacity))

    expected = max(with_threshold(threshold) for threshold in range(capacity // 2 + 1))
    # Samples of length 0 alone still need one bin, which the definition does not know.
    assert martello_toth_bound(np.array(lengths, np.int64), capacity) == max(expected, min(1, len(lengths)))


@pytest.mark.parametrize(
    ("lengths", "max_items", "expected"),
    [
        ([5, 5, 5, 5], None, (2, "tokens")),
        ([6, 6, 6, 1], None, (3, "martello_toth")),
        ([1, 1, 1, 1, 1], 2, (3, "max_items")),
        ([30, 5, 5], 2, (2, "tokens")),
        ([4, 4, 4, 4, 4], None, (3, "dual_feasible")),  # no three of them fit
        ([30, 4, 4, 4, 4, 4], None, (4, "dual_feasible")),
        ([], 4, (0, "tokens")),
        ([0, 0], None, (1, "tokens")),
    ],
)
def test_the_bound_says_what_binds(lengths, max_items, expected):
    assert bin_lower_bound(np.array(lengths, np.int64), 10, max_items) == expected


def test_dual_feasible_functions_by_their_definition():
    """No set of samples that fits is worth more than a bin, so that many such pairs and triples prove no more bins."""
    for capacity in (12, 30, 31):
        for first in range(1, capacity + 1):
            for second in range(1, capacity - first + 1):
                members = [first, second, *([capacity - first - second] if first + second < capacity else [])]
                assert dual_feasible_bound(np.array(members * 50, np.int64), capacity) <= 50


def test_a_reduction_proves_what_nothing_else_does():
    lengths = np.array([64, 44, 39, 30, 21], np.int64)  # 64 and 30 belong together, and the rest needs two bins
    others = (continuous_bound, martello_toth_bound, dual_feasible_bound)
    assert reduction_bound(lengths, 100) == fewest_bins(lengths.tolist(), 100) == 3
    assert max(bound(lengths, 100) for bound in others) == 2


def test_bounds_of_huge_numbers_and_many_lengths():
    """Where products would leave int64 there is no dual feasible bound, and where tables grow only some thresholds."""
    huge = np.array([2**60, 2**60, 2**59], np.int64)
    assert bin_lower_bound(huge, 2**60) == (3, "tokens")
    assert bin_lower_bound(np.arange(1, 30_001), 30_000)[0] == -(-30_001 // 2)
    assert bin_lower_bound(np.full(10_000, 11_000), 30_000) == (5_000, "dual_feasible")


# ---------------------------------------------------------------------------------------------------------- exact fill


@settings(deadline=None, max_examples=200 if backend == "compiled" else 20)
@given(
    problem=small_problems,
    max_items=st.sampled_from([None, 2, 3]),
    bins=st.sampled_from([None, 1, 4]),
    algorithm=st.sampled_from(["exact_fill", "auto"]),
)
def test_a_search_is_between_the_bound_and_best_fit_decreasing(problem, max_items, bins, algorithm):
    lengths, capacity = problem
    limits = {"max_items": max_items, "min_bins": bins if bins and bins <= len(lengths) else None}
    packed = pack(lengths, capacity, algorithm=algorithm, effort=20_000, **limits)
    assert packed.lower_bound <= packed.num_bins <= pack(lengths, capacity, **limits).num_bins
    assert packed.gap == packed.num_bins - packed.lower_bound
    if limits == {"max_items": None, "min_bins": None}:
        assert packed.lower_bound <= fewest_bins(lengths, capacity) <= packed.num_bins


def planted_triplets(num_bins: int, seed: int) -> list[int]:
    generator = np.random.default_rng(seed)
    pairs = generator.integers(250, 380, (num_bins, 2))
    return np.concatenate((pairs, 1000 - pairs.sum(axis=1, keepdims=True)), axis=1).reshape(-1).tolist()


def test_full_triplets_are_found():
    lengths = planted_triplets(20, 1)
    assert pack(lengths, 1000).num_bins > 20
    packed = pack(lengths, 1000, algorithm="exact_fill", effort=2**25)
    assert (packed.num_bins, packed.lower_bound, packed.gap, packed.bound_name) == (20, 20, 0, "tokens")
    assert pack(lengths, 1000).lower_bound is None
    assert pack(lengths, 1000).gap is None


def test_more_effort_finds_more():
    lengths = planted_triplets(60, 2)
    counts = [pack(lengths, 1000, algorithm="exact_fill", effort=effort).num_bins for effort in (1, 10**5, "normal")]
    assert counts[0] > counts[1] > counts[2] == 60


def test_a_search_keeps_every_limit():
    lengths = [4, 4, 3, 3, 3, 3] * 6
    assert pack(lengths, 10).num_bins == 14
    assert pack(lengths, 10, algorithm="exact_fill").num_bins == 12
    packed = pack(lengths, 10, algorithm="exact_fill", min_bins=13)
    assert (packed.num_bins, packed.lower_bound, packed.bound_name) == (13, 13, "min_bins")
    assert pack(lengths, 10, algorithm="exact_fill", min_bins=30).num_bins == 30
    packed = pack([*lengths, 25, 11], 10, algorithm="exact_fill", oversized="single")
    assert packed.num_bins == packed.lower_bound == 14
    assert packed.to_lists()[:2] == [[36], [37]]
    packed = pack(lengths, 10, algorithm="exact_fill", max_items=2)
    assert packed.num_bins == packed.lower_bound == 18
    assert packed.bound_name == "max_items"
    assert pack([25, 11], 10, algorithm="exact_fill", oversized="single").to_lists() == [[0], [1]]


def test_no_bin_of_a_search_is_empty():
    # What is left over here fits into one of the two bins that the search makes of it.
    lengths = [
        12,
        3,
        19,
        2,
        12,
        12,
        1,
        20,
        34,
        48,
        4,
        3,
        9,
        13,
        9,
        19,
        7,
        7,
        5,
        1,
        5,
        2,
        1,
        4,
        7,
        13,
        7,
        14,
        11,
        8,
        6,
        3,
    ]
    packed = pack(lengths, 53, algorithm="exact_fill", max_items=4, effort=2**20)
    assert np.diff(packed.offsets).tolist() == [4] * 8


def test_only_the_proportions_of_the_lengths_matter():
    """Lengths that are multiples of an alignment, under a cap that is not, are searched as if it were."""
    lengths = np.array(planted_triplets(15, 3))
    expected = pack(lengths, 1000, algorithm="exact_fill").to_lists()
    assert pack(lengths * 128, 128 * 1000 + 5, algorithm="exact_fill").to_lists() == expected
    assert pack(lengths * 2**40, 2**40 * 1000, algorithm="exact_fill").to_lists() == expected


def test_a_capacity_too_large_for_tables_is_filled_without_a_search():
    """Odd lengths of 40 bits: filling bins one by one needs no tables."""
    lengths = [2**40 * length + 1 for length in [4, 4, 3, 3, 3, 3]]
    assert pack(lengths, 2**40 * 10 + 3).num_bins == 3
    assert pack(lengths, 2**40 * 10 + 3, algorithm="exact_fill").num_bins == 2


@pytest.mark.skipif(backend == "reference", reason="a thousand searches are for the compiled kernels")
def test_searches_on_classic_instances():
    """Where the optimum is known, the bound is at most it, and hardly any search misses it."""
    instances = np.load(needed(data_folder() / "instances" / "binpacking_classic.npz"))
    offsets, sizes = instances["offsets"], instances["sizes"].astype(np.int64)
    met = []
    for index in range(0, len(instances["name"]), 5):
        lengths, capacity = sizes[offsets[index] : offsets[index + 1]], int(instances["capacity"][index])
        packed = pack(lengths, capacity, algorithm="exact_fill", effort="fast")
        assert packed.lower_bound <= instances["best_bins"][index] <= packed.num_bins
        assert packed.num_bins <= pack(lengths, capacity).num_bins
        met.append(packed.num_bins == instances["best_bins"][index])
    assert np.mean(met) >= 0.9


def test_classic_instances():
    """First-fit decreasing as published; no rule below the known bound, none above 11/9 optimum + 6/9 (Dosa 2007)."""
    instances = np.load(needed(data_folder() / "instances" / "binpacking_classic.npz"))
    offsets, sizes = instances["offsets"], instances["sizes"].astype(np.int64)
    for index, capacity in enumerate(instances["capacity"].tolist()):
        lengths = sizes[offsets[index] : offsets[index + 1]]
        decreasing = pack(lengths, capacity, algorithm="first_fit_decreasing").num_bins
        assert decreasing == instances["ffd_bins"][index], instances["name"][index]
        best = pack(lengths, capacity).num_bins
        bound, _ = bin_lower_bound(lengths, capacity)
        assert bound <= instances["best_bins"][index] <= best <= 11 * instances["best_bins"][index] / 9 + 6 / 9


@pytest.mark.parametrize(
    ("name", "capacity", "max_items"),
    [("alpaca_eval_responses", 2048, 6), ("docs_mixed", 8192, 8), ("servegen_r1", 8192, 4), ("gsm8k_train", 1024, 7)],
)
def test_a_limit_on_samples_is_shared_out(lengths_of, name, capacity, max_items):
    """Where short samples are left to the end, their number and no longer their tokens asks for bins."""
    lengths = lengths_of(name)
    lengths = lengths[(lengths > 0) & (lengths <= capacity)]
    lengths = lengths[:: len(lengths) // 800]
    packed = pack(lengths, capacity, algorithm="exact_fill", max_items=max_items)
    assert np.diff(packed.offsets).max() == max_items
    assert packed.num_bins <= 1.05 * packed.lower_bound
    assert packed.num_bins <= 0.93 * pack(lengths, capacity, max_items=max_items).num_bins
