"""The bin-packing kernels: both implementations agree, keep every limit and follow the rules they state."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

ONLINE = ("next_fit", "first_fit", "best_fit")
CANARY = 32

stateless = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def guarded(size: int) -> tuple[np.ndarray, np.ndarray]:
    """A workspace full of rubbish at an odd address, and the bytes behind it that nobody may touch."""
    whole = np.full(1 + size + CANARY, 0xAA, np.uint8)
    return whole[1 : 1 + size], whole[1 + size :]


def run_online(implementation, rule, sizes, order, capacity, min_bins=0, max_items=0, oversized=False):
    """The bins as lists, by way of `rule` and `group_by_bin`."""
    fit = implementation.module("fit")
    sizes, order = np.array(sizes, np.int64), np.array(order, np.int32)
    sizes.flags.writeable = order.flags.writeable = False
    bin_of, items = np.full(len(sizes), -7, np.int32), np.full(len(sizes), -7, np.int32)
    arguments = [sizes, order, capacity, min_bins, max_items, oversized, bin_of]
    canary = guarded(0)[1]
    if rule != "next_fit":
        workspace, canary = guarded(getattr(fit, f"{rule}_workspace")(len(sizes)))
        arguments.append(workspace)
    num_bins = getattr(fit, rule)(*arguments)
    offsets = np.full(num_bins + 1, -7, np.int32)
    fit.group_by_bin(bin_of, order, num_bins, offsets, items)
    assert (canary == 0xAA).all()
    bins = as_lists(offsets, items)
    assert all(bin_of[item] == number for number, members in enumerate(bins) for item in members)
    return bins


def run_decreasing(implementation, sizes, capacity, min_bins=0, max_items=0, oversized=False):
    fit = implementation.module("fit_histogram")
    sizes = np.array(sizes, np.int64)
    sizes.flags.writeable = False
    offsets, items = np.full(len(sizes) + 1, -7, np.int32), np.full(len(sizes), -7, np.int32)
    largest = int(sizes.max(initial=0))
    workspace, canary = guarded(fit.best_fit_decreasing_workspace(len(sizes), capacity, largest))
    num_bins = fit.best_fit_decreasing(sizes, capacity, min_bins, max_items, oversized, offsets, items, workspace)
    assert (canary == 0xAA).all()
    return as_lists(offsets[: num_bins + 1], items)


def descending(sizes):
    return sorted(range(len(sizes)), key=lambda index: (-sizes[index], index))


def as_lists(offsets, items):
    assert offsets[0] == 0
    assert offsets[-1] == len(items)
    return [items[begin:end].tolist() for begin, end in pairwise(offsets.tolist())]


@st.composite
def problems(draw, most=40, capacities=(1, 2, 5, 10, 63, 64, 65, 1000, 5000)):
    """(sizes, order, capacity, min_bins, max_items, oversized): many ties, zeros, exact fits and tight limits."""
    capacity = draw(st.sampled_from(capacities))
    oversized = draw(st.booleans())
    top = min(capacity * 2, 2**63 - 1) if oversized else capacity
    size = st.one_of(st.integers(0, top), st.integers(0, max(1, capacity // 4)), st.sampled_from([0, 1, capacity]))
    sizes = draw(st.lists(size, max_size=most))
    order = draw(st.permutations(range(len(sizes))))
    min_bins = draw(st.sampled_from([0, 0, 1, len(sizes) // 2, len(sizes), len(sizes) + 3]))
    max_items = draw(st.sampled_from([0, 0, 1, 2, 3, 7]))
    return sizes, order, capacity, min_bins, max_items, oversized


@st.composite
def crowded(draw):
    """(sizes, capacity, max_items): hundreds of items of few lengths, so that runs of bins split, meet and join."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    capacity = draw(st.sampled_from([12, 30, 64, 100, 257, 4097]))
    lengths = generator.integers(0, capacity + 1, draw(st.integers(1, 60)))
    return generator.choice(lengths, draw(st.integers(0, 900))), capacity, draw(st.sampled_from([0, 0, 2, 5]))


@pytest.mark.parametrize("rule", ONLINE)
@stateless
@given(problem=st.one_of(problems(), problems(capacities=(2**31 - 1, 2**31, 2**62))))
def test_twins_give_equal_bins(both, rule, problem):
    compiled, reference = both
    assert run_online(compiled, rule, *problem) == run_online(reference, rule, *problem)


@stateless
@given(problem=problems())
def test_decreasing_twins_give_equal_bins(both, problem):
    sizes, _, *limits = problem
    compiled, reference = both
    assert run_decreasing(compiled, sizes, *limits) == run_decreasing(reference, sizes, *limits)


@stateless
@given(problem=crowded())
def test_decreasing_twins_give_equal_bins_in_a_crowd(both, problem):
    sizes, capacity, max_items = problem
    compiled, reference = both
    expected = run_decreasing(reference, sizes, capacity, 0, max_items)
    assert run_decreasing(compiled, sizes, capacity, 0, max_items) == expected


@stateless
@given(problem=problems())
def test_the_histogram_form_is_best_fit_in_descending_order(implementation, problem):
    sizes, _, *limits = problem
    expected = run_online(implementation, "best_fit", sizes, descending(sizes), *limits)
    assert run_decreasing(implementation, sizes, *limits) == expected


@pytest.mark.parametrize("rule", [*ONLINE, "best_fit_decreasing"])
@stateless
@given(problem=problems(most=25))
def test_every_limit_is_kept(implementation, rule, problem):
    sizes, order, capacity, min_bins, max_items, oversized = problem
    limits = (capacity, min_bins, max_items, oversized)
    if rule == "best_fit_decreasing":
        bins = run_decreasing(implementation, sizes, *limits)
        order = descending(sizes)
    else:
        bins = run_online(implementation, rule, sizes, order, *limits)
    place = {item: position for position, item in enumerate(order)}
    assert sorted(item for members in bins for item in members) == list(range(len(sizes)))
    for members in bins:
        assert members == sorted(members, key=place.__getitem__)
        assert len(members) == 1 or sum(sizes[item] for item in members) <= capacity
        assert not max_items or len(members) <= max_items
    opening = [place[members[0]] for members in bins]  # every bin has a first item: none is empty
    assert opening == sorted(opening)
    assert len(bins) >= min(min_bins, len(sizes))
    if min_bins >= len(sizes):
        assert len(bins) == len(sizes)


@stateless
@given(problem=problems(most=25))
def test_min_bins_comes_out_exactly_where_fewer_would_do(implementation, problem):
    sizes, order, capacity, min_bins, max_items, oversized = problem
    plain = run_online(implementation, "best_fit", sizes, order, capacity, 0, max_items, oversized)
    asked = run_online(implementation, "best_fit", sizes, order, capacity, min_bins, max_items, oversized)
    if len(plain) >= min_bins:
        assert asked == plain
    else:
        assert len(asked) == min(min_bins, len(sizes))


@pytest.mark.parametrize(
    ("rule", "sizes", "capacity", "expected"),
    [
        ("next_fit", [4, 8, 1, 4, 2, 1], 10, [[0], [1, 2], [3, 4, 5]]),
        ("first_fit", [4, 8, 1, 4, 2, 1], 10, [[0, 2, 3, 5], [1, 4]]),
        ("best_fit", [4, 8, 1, 4, 2, 1], 10, [[0, 3, 4], [1, 2, 5]]),
        # Equal room: the lower number wins, whichever bin got to that room first.
        ("best_fit", [5, 9, 4, 1], 10, [[0, 2, 3], [1]]),
        ("best_fit", [9, 5, 4, 1], 10, [[0, 3], [1, 2]]),
        # Size 0 goes where the rule sends it, also into a full bin.
        ("first_fit", [5, 0, 5, 0, 7, 0], 10, [[0, 1, 2, 3, 5], [4]]),
        ("best_fit", [5, 7, 0], 10, [[0], [1, 2]]),
        ("best_fit", [2**61, 2**61, 2**62, 0], 2**62, [[0, 1, 3], [2]]),
    ],
)
def test_worked_examples(implementation, rule, sizes, capacity, expected):
    assert run_online(implementation, rule, sizes, range(len(sizes)), capacity) == expected


@pytest.mark.parametrize("rule", ONLINE)
def test_nothing_joins_an_oversized_item(implementation, rule):
    bins = run_online(implementation, rule, [11, 0, 3, 25, 0], range(5), 10, oversized=True)
    assert bins == ([[0], [1, 2], [3], [4]] if rule == "next_fit" else [[0], [1, 2, 4], [3]])


def test_decreasing_numbers_oversized_items_first(implementation):
    assert run_decreasing(implementation, [11, 0, 3, 25, 11], 10, oversized=True) == [[3], [0], [4], [2, 1]]


@pytest.mark.parametrize("rule", ONLINE)
def test_min_bins_opens_for_the_items_placed_last(implementation, rule):
    assert run_online(implementation, rule, [1] * 6, [5, 4, 3, 2, 1, 0], 10, min_bins=4) == [[5, 4, 3], [2], [1], [0]]


def test_tables_larger_than_one_level(implementation):
    """A capacity beyond 64**3 makes the bit set four levels high."""
    capacity = 64**3 + 5
    sizes = [capacity - 1, capacity // 2, 1, 3, capacity // 2 + 1, 2]
    assert run_decreasing(implementation, sizes, capacity) == [[0, 2], [4, 1], [3, 5]]


def test_real_lengths(both, lengths_of):
    compiled, reference = both
    for name, capacity in (("openchat_v1", 8192), ("docs_mixed", 4096)):
        lengths = lengths_of(name)[:3000]
        assert run_decreasing(compiled, lengths, capacity, oversized=True) == run_decreasing(
            reference, lengths, capacity, oversized=True
        )


def wrong_calls():
    """(name, kernel, function, arguments that change, what the message says)."""
    sizes, order, out = np.array([3, 4], np.int64), np.array([1, 0], np.int32), np.empty(2, np.int32)
    work = np.empty(1 << 10, np.uint8)
    first = {"sizes": sizes, "order": order, "capacity": 10, "min_bins": 0, "max_items": 0, "oversized": False}
    best = {**first, "offsets": np.empty(3, np.int32), "items": out, "workspace": work}
    del best["order"]
    first |= {"bin_of": out, "workspace": work}
    nexts = {key: value for key, value in first.items() if key != "workspace"}
    group = {"bin_of": order, "order": order, "num_bins": 2, "offsets": np.empty(3, np.int32), "items": out}
    negative, short = np.array([3, -4], np.int64), np.empty(1, np.int32)
    beyond, minus = np.array([0, 2], np.int32), np.array([0, -1], np.int32)
    huge = np.array([1, 2**31], np.int64)
    below = "must be at least 0"
    for function, base in (("next_fit", nexts), ("first_fit", first), ("best_fit", first)):
        yield "fit", function, {**base, "capacity": 3}, "`sizes` must be .* at most `capacity`, 3, but got 4 at index 1"
        yield "fit", function, {**base, "sizes": negative, "oversized": True}, f"`sizes` {below}, but got -4 at index 1"
        yield "fit", function, {**base, "capacity": -1, "min_bins": -2}, rf"{below}, but got -1, -2, 0\."
        yield (
            "fit",
            function,
            {**base, "order": beyond},
            r"`order` must hold integers in \[0, 2\), but got 2 at pos.* 1",
        )
        yield "fit", function, {**base, "order": minus}, r"`order` must hold integers in \[0, 2\), but got -1"
        yield "fit", function, {**base, "order": short}, "must have the length of `sizes`, 2"
        yield "fit", function, {**base, "bin_of": short}, "must have the length of `sizes`, 2"
    yield "fit", "group_by_bin", {**group, "bin_of": beyond}, r"`bin_of` must hold integers in \[0, 2\), but got 2"
    yield "fit", "group_by_bin", {**group, "order": minus}, r"`order` must hold integers in \[0, 2\), but got -1"
    yield "fit", "group_by_bin", {**group, "items": short}, "must have the length of `bin_of`, 2"
    yield "fit", "group_by_bin", {**group, "num_bins": 3}, "`offsets` must have length 4, but got 3"
    kernel, function = "fit_histogram", "best_fit_decreasing"
    yield kernel, function, {**best, "capacity": 3}, "at least 0 and at most 3, but got 4 at index 1"
    yield kernel, function, {**best, "sizes": negative}, "at least 0 and at most 10, but got -4 at index 1"
    yield kernel, function, {**best, "sizes": huge, "oversized": True}, "but got 2147483648 at index 1"
    yield (
        kernel,
        function,
        {**best, "capacity": 2**31},
        r"`capacity` must lie in \[0, 2\*\*31 - 1\), but got 2147483648",
    )
    yield kernel, function, {**best, "max_items": -1}, f"{below}, but got 0, -1"
    yield kernel, function, {**best, "items": short}, "`offsets` must have length 3 and `items` length 2"


@pytest.mark.parametrize(("kernel", "function", "arguments", "message"), list(wrong_calls()))
def test_wrong_calls_are_refused_in_words(implementation, kernel, function, arguments, message):
    with pytest.raises(ValueError, match=message):
        getattr(implementation.module(kernel), function)(**arguments)


@pytest.mark.parametrize(("kernel", "function", "arguments", "message"), list(wrong_calls()))
def test_twins_refuse_in_the_same_words(both, kernel, function, arguments, message):
    texts = set()
    for implementation in both:
        with pytest.raises(ValueError, match=message) as caught:
            getattr(implementation.module(kernel), function)(**arguments)
        texts.add(str(caught.value))
    assert len(texts) == 1


@pytest.mark.parametrize("function", ["first_fit", "best_fit", "best_fit_decreasing"])
def test_a_small_workspace_is_refused(both, function):
    """Only the compiled form has one to check."""
    sizes, order, out = np.array([3, 4], np.int64), np.array([1, 0], np.int32), np.empty(2, np.int32)
    kernel, arguments = "fit", (sizes, order, 10, 0, 0, False, out)
    if function == "best_fit_decreasing":
        kernel, arguments = "fit_histogram", (sizes, 10, 0, 0, False, np.empty(3, np.int32), out)
    with pytest.raises(ValueError, match=r"`workspace` must have at least \d+ bytes, but got 3\."):
        getattr(both[0].module(kernel), function)(*arguments, np.empty(3, np.uint8))
