"""Micro-batches: conservation, caps, counts, dummies, orders, and how evenly; padded ones against brute force."""

from __future__ import annotations

import pickle
import re
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from packing import ConfigError, InfeasibleError, MicroBatches, SampleMetadata, micro_batches, pack
from packing._padded_runs import PaddedRuns

TOKENS = "tokens"


def examine(made: MicroBatches, lengths, *, forbid=None, group=None, max_items=None, alignment=1, padded=False):
    """What holds for every answer."""
    lengths = np.asarray(lengths)
    aligned = -(-lengths // alignment) * alignment
    rows = [made.rank(rank) for rank in range(made.data_parallel_size)]
    batches = [members for row in rows for members in row]
    assert sorted(sample for members in batches for sample in members) == list(range(lengths.size))
    assert all(len(row) == made.count for row in rows)
    for members, tokens in zip(batches, made.batch_tokens.tolist(), strict=True):
        used = len(members) * max(aligned[members], default=0) if padded else int(aligned[members].sum())
        assert used == tokens <= made.max_token_budget
        assert members == sorted(members)
        assert max_items is None or len(members) <= max_items
        if forbid is not None:
            assert len({forbid[sample] for sample in members}) <= 1
    if group is not None:
        where = {sample: number for number, members in enumerate(batches) for sample in members}
        for label in set(group) - {None}:
            assert len({where[sample] for sample in range(lengths.size) if group[sample] == label}) == 1
    units = [len({("g", group[s]) if group is not None and group[s] is not None else s for m in row for s in m})
             for row in rows]  # fmt: skip
    for row, size, dummies in zip(rows, units, made.is_dummy.sum(axis=1).tolist(), strict=True):
        assert dummies == sum(not members for members in row) == max(0, made.count - size)
    assert made.counts.tolist() == [[len(members) for members in row] for row in rows]
    assert made.lower_bound <= made.step_load * (1 + 1e-12)


def first_fit_decreasing(lengths, budget):
    return pack(lengths, budget, algorithm="first_fit_decreasing").num_bins


# ------------------------------------------------------------------------------------------------------ all options


@given(st.data())
@settings(max_examples=80, deadline=None)
def test_every_sample_once_under_the_budget_in_as_many_micro_batches_on_every_rank(data):
    budget = data.draw(st.integers(4, 40))
    lengths = data.draw(st.lists(st.integers(1, budget), min_size=1, max_size=30))
    n, ranks = len(lengths), data.draw(st.integers(1, 4))
    alignment = data.draw(st.sampled_from([1, 2, 4]))
    assume(max(-(-length // alignment) * alignment for length in lengths) <= budget)
    lies = data.draw(st.none() | st.lists(st.integers(0, ranks - 1), min_size=n, max_size=n))
    max_items = data.draw(st.none() | st.integers(1, 4))
    forbid = data.draw(st.none() | st.lists(st.integers(0, 1), min_size=n, max_size=n))
    multiple_of, min_count = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 4))
    order = data.draw(st.sampled_from(["balanced", "descending", "ascending", "sampler"]))
    options = {
        "data_parallel_size": ranks, "rank_of": lies, "max_items": max_items, "forbid": forbid, "order": order,
        "multiple_of": multiple_of, "min_count": min_count, "alignment": alignment,
    }  # fmt: skip
    made = micro_batches(lengths, budget, **options)
    examine(made, lengths, forbid=forbid, max_items=max_items, alignment=alignment)
    assert made.count % multiple_of == 0
    assert made.count >= min_count
    if lies is not None:
        assert made.rank_of.tolist() == lies
    assert micro_batches(np.asarray(lengths), budget, **options).digest == made.digest


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_groups_stay_together(data):
    n, budget = data.draw(st.integers(1, 24)), 30
    lengths = data.draw(st.lists(st.integers(1, 8), min_size=n, max_size=n))
    group = data.draw(st.lists(st.none() | st.integers(0, 9), min_size=n, max_size=n))
    sums, counts = {}, {}
    for length, label in zip(lengths, group, strict=True):
        sums[label], counts[label] = sums.get(label, 0) + length, counts.get(label, 0) + 1
    assume(all(total <= budget for label, total in sums.items() if label is not None))
    max_items = data.draw(st.none() | st.just(max(counts.values())))
    ranks = data.draw(st.integers(1, 3))
    made = micro_batches(lengths, budget, data_parallel_size=ranks, group=group, max_items=max_items)
    examine(made, lengths, group=group, max_items=max_items)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=60), st.integers(1, 4), st.integers(1, 4))
@settings(max_examples=80, deadline=None)
def test_the_count_is_never_above_that_of_first_fit_decreasing(lengths, ranks, multiple_of):
    made = micro_batches(lengths, 50, data_parallel_size=ranks, multiple_of=multiple_of)
    wanted = -(-first_fit_decreasing(lengths, 50) // ranks)
    assert made.count <= -(-wanted // multiple_of) * multiple_of
    lies = np.arange(len(lengths)) % ranks
    made = micro_batches(lengths, 50, rank_of=lies, data_parallel_size=ranks, multiple_of=multiple_of)
    parts = [np.asarray(lengths)[lies == rank] for rank in range(ranks)]
    wanted = max(first_fit_decreasing(part, 50) for part in parts if part.size)
    assert made.count <= -(-wanted // multiple_of) * multiple_of


def brute_force_count(lengths, budget):
    """The fewest bins, by trying all assignments."""
    for bins in range(1, len(lengths) + 1):
        for choice in product(range(bins), repeat=len(lengths)):
            if all(sum(x for x, b in zip(lengths, choice, strict=True) if b == one) <= budget for one in range(bins)):
                return bins
    raise AssertionError


@given(st.lists(st.integers(1, 12), min_size=1, max_size=6))
@settings(max_examples=60, deadline=None)
def test_small_counts_are_the_smallest_there_are(lengths):
    assert micro_batches(lengths, 12).count == brute_force_count(lengths, 12)


@pytest.mark.parametrize("algorithm", ["lpt", "first_fit", "kk", {"name": "auto", "effort": 4}])
def test_where_an_algorithm_finds_nothing_the_packing_behind_the_count_stays(algorithm):
    # 4 bins of 10, exactly full: none of the greedy ones finds that.
    lengths = [7, 3, 6, 4, 5, 5, 4, 3, 3]
    made = micro_batches(lengths, 10, algorithm=algorithm, data_parallel_size=2)
    examine(made, lengths)
    assert made.count == 2


# ---------------------------------------------------------------------------------------------------------- dummies


def test_fewer_samples_than_ranks_leave_dummies():
    made = micro_batches([5, 9, 7], 10, data_parallel_size=8)
    assert made.count == 1
    assert [made.rank(rank) for rank in range(8)] == [[[1]], [[2]], [[0]], [[]], [[]], [[]], [[]], [[]]]
    assert made.is_dummy[:, 0].tolist() == [False] * 3 + [True] * 5
    assert made.gap == 0


def test_a_rank_with_too_few_samples_runs_each_alone_and_dummies():
    made = micro_batches([6, 6, 6, 6, 1, 1], 6, rank_of=[0, 0, 0, 0, 1, 1], order="descending")
    assert made.rank(1) == [[4], [5], [], []]
    assert made.count == 4
    made = micro_batches([6, 6, 6, 6, 1, 1], 6, rank_of=[0, 0, 0, 0, 2, 2], data_parallel_size=4)
    assert made.rank(1) == made.rank(3) == [[], [], [], []]


def test_249_samples_are_divisible_by_2(lengths_of):
    lengths = np.random.default_rng(0).choice(lengths_of("math_cot_rollouts").clip(1, 8192), 249)
    made = micro_batches(lengths, 8192, data_parallel_size=2, multiple_of=2)
    examine(made, lengths)
    assert made.count % 2 == 0


# ------------------------------------------------------------------------------------------------------------ order


def test_orders():
    lengths = [1, 9, 3, 7, 5]
    by_order = {
        order: micro_batches(lengths, 9, order=order, min_count=5, estimator=TOKENS).rank(0)
        for order in ("descending", "ascending", "balanced", "sampler")
    }
    assert by_order["descending"] == [[1], [3], [4], [2], [0]]
    assert by_order["ascending"] == [[0], [2], [4], [3], [1]]
    assert by_order["balanced"] == [[0], [4], [1], [3], [2]]
    assert by_order["sampler"] == [[0], [1], [2], [3], [4]]


def test_rounds_hold_what_is_alike():
    made = micro_batches([8, 8, 1, 1], 8, data_parallel_size=2, order="descending", min_count=2, estimator=TOKENS)
    assert made.loads.tolist() == [[8, 1], [8, 1]]
    assert made.step_load == 9
    assert made.gap == 0


def test_a_long_sample_does_not_leave_the_other_micro_batches_uneven():
    """Without it the balance of the others would be anything: the longest sample alone is the largest."""
    lengths = [100] + [10] * 12
    made = micro_batches(lengths, 120, min_count=4, estimator="attention")
    assert sorted(made.counts[0].tolist()) == [1, 4, 4, 4]


# ---------------------------------------------------------------------------------------------------------- balance


@pytest.mark.parametrize("name", ["servegen_r1", "math_cot_rollouts", "wlbllm_docs"])
@pytest.mark.parametrize("budget", [8192, 32768])
def test_real_lengths_come_close_to_the_bound(lengths_of, name, budget):
    pool = lengths_of(name)
    lengths = np.random.default_rng(7).choice(pool[(pool > 0) & (pool <= budget)], 512)
    made = micro_batches(lengths, budget, data_parallel_size=8, multiple_of=2)
    examine(made, lengths)
    assert made.gap < 0.02


def test_equal_counts():
    lengths = np.random.default_rng(0).integers(1, 50, 96)
    made = micro_batches(lengths, 100, data_parallel_size=8, equal_count=True)
    examine(made, lengths)
    assert (made.counts.sum(axis=1) == 12).all()
    assert made.gap < 0.05
    few = micro_batches([5, 4, 3, 2], 10, data_parallel_size=4, equal_count=True, multiple_of=2)
    assert few.counts.sum(axis=1).tolist() == [1, 1, 1, 1]
    together = micro_batches(
        [2, 2, 3, 3, 4, 4, 1, 1], 8, data_parallel_size=2, equal_count=True, group=[0, 0, 1, 1, 2, 2, 3, 3]
    )
    examine(together, [2, 2, 3, 3, 4, 4, 1, 1], group=[0, 0, 1, 1, 2, 2, 3, 3])
    assert together.counts.sum(axis=1).tolist() == [4, 4]


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_equal_counts_under_limits(data):
    ranks, budget = data.draw(st.integers(1, 4)), data.draw(st.integers(6, 30))
    n = ranks * data.draw(st.integers(1, 8))
    lengths = data.draw(st.lists(st.integers(1, budget), min_size=n, max_size=n))
    forbid = data.draw(st.none() | st.lists(st.integers(0, 1), min_size=n, max_size=n))
    max_items = data.draw(st.none() | st.integers(1, 4))
    multiple_of = data.draw(st.integers(1, 2))
    options = {"forbid": forbid, "max_items": max_items, "multiple_of": multiple_of}
    made = micro_batches(lengths, budget, data_parallel_size=ranks, equal_count=True, **options)
    examine(made, lengths, forbid=forbid, max_items=max_items)
    assert set(made.counts.sum(axis=1).tolist()) == {n // ranks}
    assert made.count % multiple_of == 0


def test_equal_counts_of_real_lengths_are_as_even_as_others(lengths_of):
    pool = lengths_of("servegen_r1")
    lengths = np.random.default_rng(3).choice(pool[(pool > 0) & (pool <= 32768)], 288)
    free = micro_batches(lengths, 32768, data_parallel_size=8)
    made = micro_batches(lengths, 32768, data_parallel_size=8, equal_count=True)
    assert made.count == free.count
    assert made.step_load <= 1.02 * free.step_load


def test_an_algorithm_that_knows_no_rounds_still_balances():
    lengths = [100, 20, 20, 20, 20, 20]
    made = micro_batches(lengths, 100, data_parallel_size=2, min_count=2, algorithm="kk")
    examine(made, lengths)


# ----------------------------------------------------------------------------------------------------------- padded


def brute_force_padded(lengths, costs, budget, max_items):
    """count -> the smallest largest rows * cost(longest), over all partitions into that many non-empty parts."""
    best: dict[int, int] = {}

    def place(at, parts):
        if at == len(lengths):
            loads = []
            for members in parts:
                top = max(members, key=lambda i: lengths[i])
                if len(members) * lengths[top] > budget or (max_items and len(members) > max_items):
                    return
                loads.append(len(members) * max(costs[i] for i in members))
            best[len(parts)] = min(best.get(len(parts), max(loads)), max(loads))
            return
        for part in parts:
            part.append(at)
            place(at + 1, parts)
            part.pop()
        parts.append([at])
        place(at + 1, parts)
        parts.pop()

    place(0, [])
    return best


@given(st.data())
@settings(max_examples=80, deadline=None)
def test_padded_runs_are_the_best_of_all_partitions(data):
    lengths = sorted(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=7)), reverse=True)
    slope, square = data.draw(st.integers(0, 3)), data.draw(st.integers(0, 2))
    costs = [slope * length + square * length**2 for length in lengths]
    budget, max_items = data.draw(st.integers(9, 30)), data.draw(st.none() | st.integers(1, 4))
    best = brute_force_padded(lengths, costs, budget, max_items)
    runs = PaddedRuns(np.asarray(lengths), np.asarray(costs), budget, max_items)
    assert runs.fewest() == min(best)
    for count in range(min(best), len(lengths) + 1):
        ends, largest = runs.smallest_largest(count)
        starts = [0, *ends[:-1]]
        assert len(ends) == count
        assert ends[-1] == len(lengths)
        assert all(start < end for start, end in zip(starts, ends, strict=True))
        loads = [(end - start) * costs[start] for start, end in zip(starts, ends, strict=True)]
        assert max(loads) == largest == best[count]
        assert all((end - start) * lengths[start] <= budget for start, end in zip(starts, ends, strict=True))


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_padded_micro_batches_on_ranks(data):
    budget = data.draw(st.integers(10, 60))
    lengths = data.draw(st.lists(st.integers(1, 10), min_size=1, max_size=30))
    ranks, multiple_of = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    lies = data.draw(st.none() | st.lists(st.integers(0, ranks - 1), min_size=len(lengths), max_size=len(lengths)))
    estimator = {"name": "attention", "linear": 1000, "quadratic": 1}
    made = micro_batches(
        lengths,
        budget,
        data_parallel_size=ranks,
        rank_of=lies,
        multiple_of=multiple_of,
        padded=True,
        estimator=estimator,
    )
    examine(made, lengths, padded=True)
    for row, loads in zip([made.rank(rank) for rank in range(ranks)], made.loads.tolist(), strict=True):
        for members, load in zip(row, loads, strict=True):
            longest = max((lengths[i] for i in members), default=0)
            assert load == len(members) * (1000 * longest + longest**2)
    if lies is None:
        best = PaddedRuns(-np.sort(-np.asarray(lengths)), np.ones(len(lengths), np.int64), budget, None).fewest()
        assert made.count == -(-best // (ranks * multiple_of)) * multiple_of


def test_padded_lengths_count_as_aligned():
    made = micro_batches([3, 3, 3, 5], 16, padded=True, alignment=8, estimator=TOKENS)
    assert made.counts.sum() == 4
    assert made.batch_tokens.tolist() == [16, 16]


def test_padded_costs_may_be_fractions_and_zero():
    made = micro_batches([4, 2, 2], 8, padded=True, estimator=lambda record: 0.001 * record.pack_tokens**2)
    assert made.loads.sum() == pytest.approx(0.016 + 2 * 0.004)
    assert micro_batches([4, 2, 2], 8, padded=True, estimator=lambda record: 0).gap == 0


# ---------------------------------------------------------------------------------------------------------- answers


def test_values_come_back_in_input_order():
    lengths = np.random.default_rng(1).integers(1, 20, 40)
    made = micro_batches(lengths, 50, data_parallel_size=3)
    assert np.array_equal(made.restore(lengths[made.permutation]), lengths)
    assert np.array_equal(lengths[made.permutation][made.inverse_permutation], lengths)
    assert made.restore([int(lengths[i]) for i in made.permutation]) == lengths.tolist()
    for rank in range(3):
        own = [i for members in made.rank(rank) for i in members]
        assert made.restore(lengths[own], rank=rank).tolist() == lengths[sorted(own)].tolist()
    two_columns = np.stack([lengths, -lengths], 1)
    assert np.array_equal(made.restore(two_columns[made.permutation]), two_columns)


def test_micro_batches_are_rows():
    lengths = [5, 9, 7, 3]
    made = micro_batches(lengths, 16, data_parallel_size=2, alignment={"segment": 2, "row": 4}, multiple_of=2)
    layout = made.layout(row_length=16)
    assert (layout.num_rows, layout.row_length) == (4, 16)
    assert layout.row_columns.tolist() == made.batch_tokens.tolist()
    assert layout.is_dummy.tolist() == made.is_dummy.reshape(-1).tolist()
    own = made.layout(1)
    assert own.num_rows == 2
    assert sorted(own.sequences.tolist()) == sorted(i for members in made.rank(1) for i in members)
    assert made.layout().row_length % 4 == 0


def test_forward_only_passes_keep_the_ranks():
    lengths = np.random.default_rng(2).integers(1, 100, 60)
    made = micro_batches(
        lengths, 200, data_parallel_size=4, multiple_of=2, forward_only={"max_token_budget": 800, "estimator": TOKENS}
    )
    assert made.forward is not None
    examine(made.forward, lengths)
    assert np.array_equal(made.forward.rank_of, made.rank_of)
    assert made.forward.max_token_budget == 800
    assert made.forward.count < made.count
    assert made.forward.count % 2 == 0
    assert made.digest != micro_batches(lengths, 200, data_parallel_size=4, multiple_of=2).digest


def test_the_digest_changes_with_every_input():
    options = {"data_parallel_size": 2, "multiple_of": 1, "order": "balanced", "estimator": "attention"}
    base = micro_batches([5, 6, 7, 8], 10, **options)
    digests = {base.digest}
    for change in (
        {"multiple_of": 2},
        {"order": "sampler"},
        {"estimator": TOKENS},
        {"max_items": 3},
        {"forbid": [1] * 4},
    ):
        digests.add(micro_batches([5, 6, 7, 8], 10, **options | change).digest)
    digests.add(micro_batches([5, 6, 7, 8], 11, **options).digest)
    digests.add(micro_batches([5, 6, 7, 9], 10, **options).digest)
    assert len(digests) == 8
    back = pickle.loads(pickle.dumps(base))
    assert back == base
    assert hash(back) == hash(base)
    assert not back.items.flags.writeable
    assert re.fullmatch(
        r"MicroBatches\(4 samples, 2 ranks x 2 micro-batches of 10 tokens, 0 dummies, .* digest [0-9a-f]{12}\)",
        repr(base),
    )


def test_columns_records_and_keys_are_taken():
    columns = {"length": [5, 6, 7, 8], "kind": ["a", "b", "a", "b"], "cost": [1, 1, 1, 5]}
    made = micro_batches(columns, 20, forbid="kind", estimator=None)
    examine(made, columns["length"], forbid=columns["kind"])
    assert made.loads.sum() == 8
    records = [SampleMetadata(pack_tokens=length) for length in (5, 6, 7, 8)]
    assert micro_batches(records, 20).items.tolist() == micro_batches([5, 6, 7, 8], 20).items.tolist()
    keyed = {"length": np.array([5, 6, 7, 8, 5, 6]), "key": np.array([3, 1, 2, 6, 5, 4])}
    shuffled = np.array([3, 0, 5, 1, 4, 2])
    one = micro_batches(keyed, 15, data_parallel_size=2)
    other = micro_batches({name: column[shuffled] for name, column in keyed.items()}, 15, data_parallel_size=2)
    keys = [[keyed["key"][members].tolist() for members in one.rank(rank)] for rank in range(2)]
    again = [[keyed["key"][shuffled][members].tolist() for members in other.rank(rank)] for rank in range(2)]
    assert [[sorted(one) for one in row] for row in keys] == [[sorted(one) for one in row] for row in again]


def test_inputs_stay_as_they_are():
    lengths = np.array([5, 6, 7, 8], np.int32)[::-1]
    before = lengths.copy()
    lengths.flags.writeable = False
    made = micro_batches(lengths, 10)
    assert np.array_equal(lengths, before)
    with pytest.raises(ValueError, match="read-only"):
        made.items[0] = 3


# -------------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("lengths", "budget", "options", "error", "message"),
    [
        ([], 8, {}, ConfigError, "`lengths` must not be empty: there is nothing to plan."),
        ([3, 0], 8, {}, ConfigError, "`lengths` must be positive, but got 0 at index 1."),
        ({"length": [3, 0]}, 8, {"group": [1, 1]}, ConfigError,
         "`lengths['length']` must be positive, but got 0 at index 1."),
        ({"length": [3], "kind": [1, 2]}, 8, {}, ConfigError,
         "`lengths['kind']` must have 1 values like 'length', but has 2."),
        ([3], 0, {}, ConfigError, "`max_token_budget` must be a positive integer, but got 0."),
        ([3], True, {}, ConfigError, "`max_token_budget` must be a positive integer, but got True."),
        ([3], 8, {"data_parallel_size": 0}, ConfigError, "`data_parallel_size` must be a positive integer, but got 0."),
        ([3], 8, {"multiple_of": 0}, ConfigError, "`multiple_of` must be a positive integer, but got 0."),
        ([3], 8, {"min_count": -1}, ConfigError, "`min_count` must be a positive integer, but got -1."),
        ([3], 8, {"min_count": 2**30, "data_parallel_size": 4}, ConfigError,
         "there must be at most 16777216 micro-batches, but `min_count` asks for 4294967296."),
        ([3], 8, {"order": "random"}, ConfigError,
         '`order` must be one of "balanced", "descending", "ascending", "sampler", but got \'random\'.'),
        ([3], 9, {"alignment": {"row": 2}}, ConfigError,
         "`max_token_budget` must be a multiple of the row alignment 2, but got 9."),
        ([3, 9, 12], 8, {}, InfeasibleError, "sample 1 takes 9 tokens, over `max_token_budget` = 8 (2 such samples)."),
        ([3, 7], 7, {"alignment": 4}, InfeasibleError,
         "sample 1 takes 8 tokens, over `max_token_budget` = 7 (1 such samples)."),
        ([3, 9], 8, {"padded": True}, InfeasibleError,
         "sample 1 takes 9 tokens, over `max_token_budget` = 8 (1 such samples)."),
        ([3, 5, 4], 8, {"group": [None, "a", "a"]}, InfeasibleError,
         "the group of sample 1 takes 9 tokens in 2 samples, over `max_token_budget` = 8."),
        ([1, 1, 1], 8, {"group": [0, 0, 0], "max_items": 2}, InfeasibleError,
         "the group of sample 0 has 3 samples, over `max_items` = 2."),
        ([1, 1], 8, {"group": [0, 0], "forbid": [0, 1]}, InfeasibleError,
         "the group of sample 0 must share a micro-batch, but `forbid` keeps sample 1 apart."),
        ([1, 1], 8, {"group": [0, 0], "rank_of": [0, 1]}, InfeasibleError,
         "the group of sample 0 must share a micro-batch, but `rank_of` puts sample 1 on rank 1 instead of 0."),
        ([1, 1], 8, {"group": [0]}, ConfigError, "`group` must have one label for each of the 2 samples, but got 1."),
        ([1, 1], 8, {"forbid": 3}, ConfigError, "`forbid` must be labels or the name of a column, but got 3."),
        ([1, 1], 8, {"forbid": [None, 7]}, ConfigError, "`forbid` must have a value for each sample, but has None."),
        ([1, 1], 8, {"group": [1, "a"]}, ConfigError, "`group` must hold values of one type."),
        ({"length": [1, 1], "kind": [1, "a"]}, 8, {"forbid": "kind"}, ConfigError,
         "`forbid` column 'kind' must hold values of one type."),
        ([1, 1], 8, {"forbid": "kind"}, ConfigError, "`forbid` names the column 'kind', but the samples have: length."),
        ([1, 1], 8, {"rank_of": [0]}, ConfigError,
         "`rank_of` must have one rank for each of the 2 samples, but got 1."),
        ([1, 1], 8, {"rank_of": [0, 2], "data_parallel_size": 2}, ConfigError,
         "`rank_of` must be below 2, but got 2 at index 1."),
        ([1, 1], 8, {"rank_of": [0, -1]}, ConfigError, "`rank_of` must be non-negative, but got -1 at index 1."),
        ([1, 1], 8, {"rank_of": [0, 1], "equal_count": True}, ConfigError,
         "`equal_count` must be False with `rank_of`, which decides it."),
        ([1, 1, 1], 8, {"equal_count": True, "data_parallel_size": 2}, InfeasibleError,
         "`equal_count` needs a multiple of the 2 ranks, but there are 3 samples or groups."),
        ([1, 1, 1], 8, {"equal_count": True, "group": [0, 0, None]}, ConfigError,
         "`group` must have groups of one size (and no samples beside them) with `equal_count`."),
        ([1], 8, {"padded": True, "group": [0]}, ConfigError, "`group` must be None with `padded`."),
        ([1], 8, {"padded": True, "forbid": [0]}, ConfigError, "`forbid` must be None with `padded`."),
        ([1], 8, {"padded": True, "equal_count": True}, ConfigError, "`equal_count` must be False with `padded`."),
        ([1, 2], 8, {"padded": True, "estimator": lambda record: 9 - record.pack_tokens}, ConfigError,
         "`estimator` must not fall with the length, nor look at anything else, with `padded`."),
        ([1], 8, {"forward_only": 16}, ConfigError,
         "`forward_only` must be a mapping with 'max_token_budget', and 'estimator' if you like, but got 16."),
        ([1], 8, {"forward_only": {"max_token_budget": 16, "order": "sampler"}}, ConfigError,
         "`forward_only` must have no keys but max_token_budget and estimator, got 'order'."),
        ([1], 8, {"forward_only": {"max_token_budget": 0}}, ConfigError,
         "`forward_only.max_token_budget` must be a positive integer, but got 0."),
        ([5], 8, {"forward_only": {"max_token_budget": 4}}, InfeasibleError,
         "sample 0 takes 5 tokens, over `forward_only.max_token_budget` = 4 (1 such samples)."),
    ],
)  # fmt: skip
def test_refusals(lengths, budget, options, error, message):
    with pytest.raises(error) as caught:
        micro_batches(lengths, budget, **options)
    assert str(caught.value) == message


def test_padded_estimators_must_look_at_the_length_alone():
    columns = {"length": [3, 3], "cost": [1, 2]}
    with pytest.raises(ConfigError, match="nor look at anything else"):
        micro_batches(columns, 8, padded=True, estimator=None)


def test_labels_of_records_are_features():
    records = [SampleMetadata(pack_tokens=3, features={"prompt": one}) for one in "aab"]
    examine(micro_batches(records, 8, group="prompt"), [3, 3, 3], group=list("aab"))
    with pytest.raises(ConfigError, match=r"^`group` must be the name of a feature where the samples are records\.$"):
        micro_batches(records, 8, group=[0, 0, 1])


def test_refusals_of_answers():
    made = micro_batches([5, 6, 7], 10, data_parallel_size=2)
    with pytest.raises(ConfigError, match=r"^`rank` must be below 2, but got 2\.$"):
        made.rank(2)
    with pytest.raises(ConfigError, match=r"^`values` must be one for each of the 3 samples, but got 2\.$"):
        made.restore([1, 2])
    with pytest.raises(ConfigError, match=r"^`padded` micro-batches have a row for each sample"):
        micro_batches([5, 6, 7], 10, padded=True).layout()
