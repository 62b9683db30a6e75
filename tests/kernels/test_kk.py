"""The kk kernel: known answers, invariants, and that both implementations give the same answer."""

from __future__ import annotations

import heapq
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packing import _kernels
from packing._reference import kk as reference

if TYPE_CHECKING:
    from tests.kernels.conftest import Implementation


def stable_order(values: np.ndarray) -> np.ndarray:
    return np.argsort(-values, kind="stable").astype(np.int32)


def difference(
    module: ModuleType, values, k: int, equal_count: bool = False, order=None, misaligned: int = 0
) -> list[list[int]]:
    """Groups of indices; outputs and workspace start out as rubbish."""
    values = np.asarray(values, np.int64)
    order = stable_order(values) if order is None else np.asarray(order, np.int32)
    offsets, items = np.full(k + 1, -9, np.int32), np.full(len(values), -9, np.int32)
    workspace = np.full(module.difference_workspace(len(values), k) + misaligned, 0xFF, np.uint8)[misaligned:]
    module.difference(values, order, k, equal_count, offsets, items, workspace)
    assert offsets[0] == 0
    assert offsets[k] == len(values)
    return [items[offsets[group] : offsets[group + 1]].tolist() for group in range(k)]


def sums(values, groups: list[list[int]]) -> list[int]:
    return [sum(int(values[i]) for i in group) for group in groups]


def textbook_sums(values: list[int], k: int) -> list[int]:
    """Sums only, by a heap of k-tuples, with no tie rule; an oracle where no two spreads are equal."""
    heap = [(-value, [value] + [0] * (k - 1)) for value in values]
    heapq.heapify(heap)
    while len(heap) > 1:
        one, two = heapq.heappop(heap)[1], heapq.heappop(heap)[1]
        merged = sorted((a + b for a, b in zip(one, reversed(two), strict=True)), reverse=True)
        heapq.heappush(heap, (merged[-1] - merged[0], merged))
    return heap[0][1]


@st.composite
def problems(draw: st.DrawFn) -> tuple[np.ndarray, int, bool]:
    """Values with ties, zeros, heavy tails or none of these; from one group to more groups than values."""
    n = draw(st.integers(0, 90))
    value = draw(
        st.sampled_from(
            [
                st.integers(0, 2),  # nearly all tie
                st.integers(0, 60),
                st.integers(0, 2**54),  # words of sum, count and position do not fit 64 bits
                st.integers(0, 54).map(lambda exponent: 2**exponent),  # one absorbs nearly all others
                st.integers(0, 30).map(lambda exponent: 13**exponent // 10**exponent),  # heaps absorb runs of several
                st.one_of(st.just(0), st.integers(900, 1000)),
                st.one_of(st.integers(10**6, 2 * 10**6), st.integers(0, 100)),  # few outliers, then a long absorption
            ]
        )
    )
    k = draw(st.one_of(st.integers(1, 6), st.integers(1, 50), st.just(n + 1 + draw(st.integers(0, 9)))))
    equal_count = draw(st.booleans())
    size = n - n % k if equal_count else n
    return np.array(draw(st.lists(value, min_size=size, max_size=size)), np.int64), k, equal_count


@pytest.mark.skipif(_kernels.backend == "reference", reason="the compiled kernels are switched off")
@settings(max_examples=600, deadline=None)
@given(problems(), st.integers(0, 7))
def test_compiled_equals_reference(problem, misaligned):
    values, k, equal_count = problem
    compiled = difference(_kernels.kk, values, k, equal_count, misaligned=misaligned)
    assert compiled == difference(reference, values, k, equal_count)


@pytest.mark.parametrize(
    ("values", "k"),
    [
        ([20, 24, 31, 26, 1, 10, 9, 9, 1, 4, 2], 4),
        ([84, 85, 70, 1, 4, 1, 10, 8, 9, 4, 10, 9], 3),
        ([0, 11, 13, 17, 37, 62, 71, 74, 107, 121, 154, 199, 226, 312, 554, 749, 783], 4),
    ],
)
def test_a_heap_that_absorbs_several_at_once_stays_a_heap(both, values: list[int], k: int):
    compiled, plain = (one.module("kk") for one in both)
    assert difference(compiled, values, k) == difference(plain, values, k)


@pytest.mark.parametrize("equal_count", [False, True])
@pytest.mark.parametrize("k", [2, 3, 31, 33, 40, 64, 300, 600])
def test_compiled_equals_reference_at_size(both, k: int, equal_count: bool):
    compiled, plain = (one.module("kk") for one in both)
    rng = np.random.default_rng(k)
    n = 1200
    for values in [
        rng.lognormal(6, 1.2, n).astype(np.int64),
        rng.integers(0, 2**50, n),
        rng.integers(0, 2, n),
        (2.0 ** rng.exponential(5, n)).astype(np.int64),  # heavy tail
        np.concatenate([np.full(k, 10**9), rng.integers(0, 50, n - k)]),
        # one by one across the width at which a bucket no longer fits one word of the radix sort
        *(np.concatenate([[2**bits], rng.integers(0, 2**30, n - 1)]) for bits in range(45, 56, 2)),
        (1.01 ** rng.integers(0, 2000, n)).astype(np.int64),
    ]:
        size = n - n % k if equal_count else n
        groups = difference(compiled, values[:size], k, equal_count)
        assert groups == difference(plain, values[:size], k, equal_count)


@settings(max_examples=150, deadline=None)
@given(problems())
def test_every_value_once_in_the_promised_order(problem):
    values, k, equal_count = problem
    order = stable_order(values).tolist()
    place = {sample: position for position, sample in enumerate(order)}
    groups = difference(_kernels.kk, values, k, equal_count)
    assert sorted(i for group in groups for i in group) == list(range(len(values)))
    assert all(group == sorted(group) for group in groups)
    filled = [(-s, -len(g), min(place[i] for i in g)) for s, g in zip(sums(values, groups), groups, strict=True) if g]
    assert filled == sorted(filled)
    assert all(not group for group in groups[len(filled) :])
    assert len(filled) == min(k, len(values))  # no group is empty while there are values enough
    if equal_count:
        assert {len(group) for group in groups} == {len(values) // k}


@settings(max_examples=100, deadline=None)
@given(problems(), st.randoms(use_true_random=False))
def test_permuting_the_input_keeps_the_values_of_every_group(problem, random):
    values, k, equal_count = problem
    shuffled = values.copy()
    random.shuffle(shuffled)
    before, after = (
        [sorted(data[i] for i in group) for group in difference(_kernels.kk, data, k, equal_count)]
        for data in (values, shuffled)
    )
    assert before == after


@pytest.mark.parametrize(
    ("values", "k", "expected"),
    [([8, 7, 6, 5, 4], 2, [16, 14]), ([8, 7, 6, 5, 4, 3, 2, 1], 4, [9] * 4), ([4, 4, 4, 4, 0], 2, [8, 8])],
)
def test_known_answers(implementation: Implementation, values: list[int], k: int, expected: list[int]):
    assert sums(values, difference(implementation.module("kk"), values, k)) == expected


def test_a_partial_arrangement_goes_before_a_full_one_on_equal_spread(implementation: Implementation):
    # 5 and 1 are full with spread 4, and 4 is next: it must be taken before that arrangement, and the other 4 with it.
    groups = difference(implementation.module("kk"), [9, 5, 4, 4], 2)
    assert groups == [[0, 3], [1, 2]]


@pytest.mark.parametrize("k", [2, 3, 5, 16, 40, 90])
def test_sums_equal_the_textbook_where_nothing_ties(implementation: Implementation, k: int):
    rng = np.random.default_rng(k)
    for _ in range(5):
        values = rng.integers(1, 2**48, 240)
        groups = difference(implementation.module("kk"), values, k)
        assert sums(values, groups) == textbook_sums(values.tolist(), k)


def test_degenerate_shapes(implementation: Implementation):
    module = implementation.module("kk")
    assert difference(module, [], 3) == [[], [], []]
    assert difference(module, [], 3, equal_count=True) == [[], [], []]
    assert difference(module, [2, 9, 4], 1) == [[0, 1, 2]]
    assert difference(module, [2, 9, 4], 1, equal_count=True) == [[0, 1, 2]]
    assert difference(module, [2, 9, 4], 5) == [[1], [2], [0], [], []]
    assert difference(module, [2, 9, 4], 3) == [[1], [2], [0]]
    assert difference(module, [2, 9, 4], 3, equal_count=True) == [[1], [2], [0]]
    assert difference(module, [0, 0, 0], 2) == [[1, 2], [0]]


def test_the_given_order_breaks_ties(implementation: Implementation):
    groups = difference(implementation.module("kk"), [7, 7, 7], 3, order=[2, 0, 1])
    assert groups == [[2], [0], [1]]


def test_real_lengths_are_balanced(both, lengths_of):
    values = lengths_of("openchat_v1")
    groups = difference(both[0].module("kk"), values, 64)
    loads = sums(values, groups)
    assert max(loads) * 64 <= sum(loads) * 1.0001


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_groups": 0, "offsets": np.empty(1, np.int32)}, "`num_groups` must be at least 1"),
        ({"order": np.arange(3, dtype=np.int32)}, "must be as long as `values`"),
        ({"items": np.empty(5, np.int32)}, "must be as long as `values`"),
        ({"offsets": np.empty(2, np.int32)}, "one longer than `num_groups`"),
        ({"num_groups": 3, "offsets": np.empty(4, np.int32), "equal_count": True}, "a multiple of `num_groups` values"),
        ({"order": np.array([0, 1, 2, 2], np.int32)}, "`order` must be a permutation"),
        ({"order": np.array([0, 1, 2, 4], np.int32)}, "`order` must be a permutation"),
        ({"order": np.array([-1, 1, 2, 3], np.int32)}, "`order` must be a permutation"),
        ({"order": np.array([0, 1, 3, 2], np.int32)}, "`order` must sort `values` in descending order"),
        ({"values": np.array([4, 3, 2, -1])}, "`values` must not be negative"),
    ],
)
def test_wrong_arguments_are_refused(implementation: Implementation, changes: dict, message: str):
    module = implementation.module("kk")
    arguments = {
        "values": np.array([4, 3, 2, 1]),
        "order": np.arange(4, dtype=np.int32),
        "num_groups": 2,
        "equal_count": False,
        "offsets": np.empty(3, np.int32),
        "items": np.empty(4, np.int32),
        "workspace": np.empty(module.difference_workspace(4, 4), np.uint8),
    }
    with pytest.raises(ValueError, match=message):
        module.difference(**(arguments | changes))


def test_a_small_workspace_is_refused(both):
    module = both[0].module("kk")
    values = np.ones(100, np.int64)
    workspace = np.empty(module.difference_workspace(100, 8) - 1, np.uint8)
    with pytest.raises(ValueError, match="`workspace` is too small"):
        module.difference(
            values, np.arange(100, dtype=np.int32), 8, False, np.empty(9, np.int32), values.astype(np.int32), workspace
        )


@pytest.mark.parametrize("k", [1, 2, 3, 8, 64, 1024, 333_334, 500_000, 999_999, 10**6, 10**7])
def test_memory_is_linear_for_any_k(both, k: int):
    n = 10**6
    outputs = 4 * n  # items; `offsets` is 4 bytes a group
    order = 4 * n
    sort = both[0].module("order").descending_workspace(n)
    assert both[0].module("kk").difference_workspace(n, k) + outputs + order + sort <= 80 * n


def test_read_only_input_is_taken(implementation: Implementation):
    values, order = np.array([4, 2, 1]), np.array([0, 1, 2], np.int32)
    values.flags.writeable = order.flags.writeable = False
    assert difference(implementation.module("kk"), values, 2, order=order) == [[0], [1, 2]]
