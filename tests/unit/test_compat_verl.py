"""Drop-in forms of verl: answers, what verl gets wrong, and errors that are also what verl raises."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packing import ConfigError, InfeasibleError
from packing.compat import verl

SIGNATURES = {
    "karmarkar_karp": ["seqlen_list", "k_partitions", "equal_size"],
    "get_seqlen_balanced_partitions": ["seqlen_list", "k_partitions", "equal_size"],
    "get_group_balanced_partitions": ["seqlen_list", "uid_list", "k_partitions"],
    "calculate_workload": ["seqlen_list"],
    "log_seqlen_unbalance": ["seqlen_list", "partitions", "prefix"],
    "get_reverse_idx": ["idx_map"],
    "restore_dynamic_batch": ["data", "batch_idx_list"],
    "rearrange_micro_batches": [
        "batch", "max_token_len", "dp_group", "num_batches_divided_by", "same_micro_num_in_dp", "min_num_micro_batch",
        "use_dynamic_bsz_balance", "force_group_size",
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", SIGNATURES)
def test_argument_names_are_those_of_verl(name):
    assert list(inspect.signature(getattr(verl, name)).parameters) == SIGNATURES[name]


def workload(length: int) -> int:
    return 24576 * length + length * length


# --------------------------------------------------------------------------------------------------------- workloads


@given(st.lists(st.integers(0, 2**31)))
def test_workloads_are_exact(lengths):
    expected = [workload(length) for length in lengths]
    assert verl.calculate_workload(lengths) == expected
    array = verl.calculate_workload(np.asarray(lengths, np.int64))
    assert array.dtype == np.int64
    assert array.tolist() == expected


def test_workloads_keep_kind_and_shape():
    short = np.array([[46_341, 65_535]], np.int32)  # squares overflow in 32 bits
    assert verl.calculate_workload(short).tolist() == [[workload(46_341), workload(65_535)]]
    assert verl.calculate_workload((3,)) == [workload(3)]
    assert verl.calculate_workload(3) == workload(3)
    assert verl.calculate_workload([4.0]) == [workload(4)]
    assert verl.calculate_workload([]) == []
    with pytest.raises(ConfigError, match=r"^`seqlen_list` must hold whole numbers, but got 1\.5 at index 0\.$"):
        verl.calculate_workload([1.5])
    with pytest.raises(ConfigError, match="must fit into 64-bit integers"):
        verl.calculate_workload([2**33])


# -------------------------------------------------------------------------------------------------------- partitions


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=40), st.integers(1, 8), st.booleans())
@settings(max_examples=150, deadline=None)
def test_partitions(lengths, k, equal_size):
    lengths = lengths * k if equal_size else lengths + [0] * k
    for function in (verl.get_seqlen_balanced_partitions, verl.karmarkar_karp):
        parts = function(lengths, k, equal_size)
        assert len(parts) == k
        assert all(part == sorted(part) and part for part in parts)
        assert sorted(index for part in parts for index in part) == list(range(len(lengths)))
        assert not equal_size or {len(part) for part in parts} == {len(lengths) // k}
        sums = [sum(lengths[index] for index in part) for part in parts]
        assert sums == sorted(sums, reverse=True)
        assert all(isinstance(index, int) for part in parts for index in part)
        assert function(tuple(lengths), k, equal_size) == function(np.asarray(lengths), k, equal_size) == parts
        assert function(np.asarray(lengths, np.float64), k, equal_size) == parts
    plain = max(sum(lengths[i] for i in part) for part in verl.karmarkar_karp(lengths, k, equal_size))
    improved = max(
        sum(lengths[i] for i in part) for part in verl.get_seqlen_balanced_partitions(lengths, k, equal_size)
    )
    assert improved <= plain


def test_the_known_differencing():
    assert verl.karmarkar_karp([8, 7, 6, 5, 4], 2, False) == [[1, 3, 4], [0, 2]]
    assert verl.karmarkar_karp([5], 3, False) == [[0], [], []]
    assert verl.karmarkar_karp([], 2, False) == [[], []]


@pytest.mark.parametrize(("n", "k"), [(64, 8), (256, 8), (512, 32), (1024, 64)])
@pytest.mark.parametrize("deviation", [1.0, 1.5, 2.0])
def test_equal_sizes_on_heavy_tails_are_close_to_the_bound(n, k, deviation):
    for seed in range(4):
        lengths = np.exp(np.random.default_rng(seed).normal(6, deviation, n)).astype(np.int64) + 1
        parts = verl.get_seqlen_balanced_partitions(lengths.tolist(), k, True)
        ascending = np.sort(lengths)
        bound = max(-(-int(lengths.sum()) // k), int(ascending[-1] + ascending[: n // k - 1].sum()))
        assert max(int(lengths[part].sum()) for part in parts) <= 1.005 * bound


def test_refusals_are_assertion_errors_too():
    cases = [
        (lambda: verl.get_seqlen_balanced_partitions([1, 2], 3, False),
         "`k_partitions` must be at most the number of items 2, but got 3."),
        (lambda: verl.get_seqlen_balanced_partitions([1, 2, 3], 2, True),
         "`equal_size` needs a number of items that is a multiple of `k_partitions` 2, but got 3."),
        (lambda: verl.karmarkar_karp([1, 2, 3], 2, True),
         "`equal_size` needs a number of items that is a multiple of `k_partitions` 2, but got 3."),
        (lambda: verl.get_group_balanced_partitions([1, 2], ["a", "a"], 2),
         "`k_partitions` must be at most the number of groups 1, but got 2."),
        (lambda: verl.get_group_balanced_partitions([1, 2, 3], ["a", "b", "c"], 2),
         "the number of groups must be a multiple of `k_partitions` 2, but got 3."),
        (lambda: verl.rearrange_micro_batches([5, 9], 8), "sample 1 has 9 tokens, over `max_token_len` = 8."),
        (lambda: verl.rearrange_micro_batches([5, 5], 8, min_num_micro_batch=3),
         "3 micro-batches need as many samples (groups) on every rank, but one has 2."),
        (lambda: verl.rearrange_micro_batches([5, 5, 5], 20, force_group_size=2),
         "the number of samples must be a multiple of `force_group_size` 2, but got 3."),
        (lambda: verl.rearrange_micro_batches([5, 5, 2, 2], 8, force_group_size=2),
         "samples 0 to 1 have 10 tokens, over `max_token_len` = 8."),
    ]  # fmt: skip
    for call, message in cases:
        with pytest.raises(InfeasibleError) as caught:
            call()
        assert isinstance(caught.value, AssertionError)
        assert isinstance(caught.value, ValueError)
        assert str(caught.value) == message


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: verl.karmarkar_karp([1, -2], 1, False),
         "`seqlen_list` must be finite and non-negative, but got -2 at index 1."),
        (lambda: verl.karmarkar_karp([1, float("nan")], 1, False),
         "`seqlen_list` must be finite and non-negative, but got nan at index 1."),
        (lambda: verl.karmarkar_karp([True], 1, False), "`seqlen_list` must hold numbers, but got True at index 0."),
        (lambda: verl.karmarkar_karp([1], 0, False), "`k_partitions` must be a positive integer, but got 0."),
        (lambda: verl.karmarkar_karp([1], 1, 1), "`equal_size` must be true or false, but got 1."),
        (lambda: verl.get_group_balanced_partitions([1, 2], ["a"], 1),
         "`uid_list` must have a value for each of the 2 lengths, but has 1."),
        (lambda: verl.log_seqlen_unbalance([1], [], "x"), "`partitions` must not be empty."),
        (lambda: verl.get_reverse_idx([0, 2]), "`idx_map` must hold each of 0 to 1 once, but got [0, 2]."),
        (lambda: verl.restore_dynamic_batch([1, 2], [[0]]),
         "`batch_idx_list` must have an index for each of the 2 rows, got 1."),
        (lambda: verl.rearrange_micro_batches([], 8), "`batch` must not be empty."),
        (lambda: verl.rearrange_micro_batches([1], 0), "`max_token_len` must be a positive integer, but got 0."),
        (lambda: verl.rearrange_micro_batches({"ids": [1]}, 8),
         "`batch` must have 'attention_mask' or nested 'input_ids', but has: ids."),
        (lambda: verl.rearrange_micro_batches({"attention_mask": np.ones(3)}, 8),
         "`batch['attention_mask']` must have shape [n, S], but got (3,)."),
        (lambda: verl.prepare_dynamic_batch([1], 8, padding_mode="none"),
         '`padding_mode` must be one of "MAX_SEQUENCE_LENGTH_PADDING", "REMOVE_PADDING", "TRUNCATE_PADDING", but got '
         "'none'."),
        (lambda: verl.prepare_dynamic_batch([1, 1], 8, force_group_size=2, padding_mode="TRUNCATE_PADDING"),
         "`force_group_size` must be 1 where rows are padded, but got 2."),
    ],
)  # fmt: skip
def test_refusals(call, message):
    with pytest.raises(ConfigError) as caught:
        call()
    assert str(caught.value) == message


# ------------------------------------------------------------------------------------------------------------ groups


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_groups_stay_together(data):
    k, per_part = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=k * per_part, max_size=k * per_part))
    uids = [f"prompt {group}" for group, size in enumerate(sizes) for _ in range(size)]
    uids = data.draw(st.permutations(uids))
    lengths = data.draw(st.lists(st.integers(1, 500), min_size=len(uids), max_size=len(uids)))
    parts = verl.get_group_balanced_partitions(lengths, uids, k)
    assert sorted(index for part in parts for index in part) == list(range(len(uids)))
    assert [len({uids[index] for index in part}) for part in parts] == [per_part] * k
    assert all(part == sorted(part) for part in parts)


# ----------------------------------------------------------------------------------------------------------- metrics


def test_metrics():
    metrics = verl.log_seqlen_unbalance([1, 2, 3, 4], [[0, 3], [1, 2]], "global_seqlen")
    assert metrics == {
        "global_seqlen/min": 3, "global_seqlen/max": 7, "global_seqlen/minmax_diff": 4, "global_seqlen/balanced_min": 5,
        "global_seqlen/balanced_max": 5, "global_seqlen/mean": 5.0,
    }  # fmt: skip
    # A remainder is no chunk of its own, and fewer numbers than partitions are no error.
    assert verl.log_seqlen_unbalance([4, 4, 4, 4, 4], [[0, 1, 2], [3, 4]], "x")["x/min"] == 8
    assert verl.log_seqlen_unbalance([4], [[0], []], "x")["x/balanced_min"] == 0


# ------------------------------------------------------------------------------------------------------ micro-batches


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_micro_batches_keep_the_cap(data):
    cap = data.draw(st.integers(4, 60))
    size = data.draw(st.sampled_from([1, 1, 2]))
    lengths = data.draw(st.lists(st.integers(0, cap // size), min_size=1, max_size=20)) * size
    divided_by, least = data.draw(st.none() | st.integers(1, 3)), data.draw(st.none() | st.integers(0, 3))
    options = {
        "num_batches_divided_by": divided_by, "min_num_micro_batch": least, "force_group_size": size,
        "use_dynamic_bsz_balance": data.draw(st.booleans()),
    }  # fmt: skip
    try:
        index = verl.rearrange_micro_batches(lengths, max_token_len=cap, **options)
    except InfeasibleError as error:
        if "micro-batches need as many samples" not in str(error):
            raise
        return
    assert sorted(sample for members in index for sample in members) == list(range(len(lengths)))
    assert all(members and sum(lengths[sample] for sample in members) <= cap for members in index)
    assert len(index) % (divided_by or 1) == 0
    assert len(index) >= (least or 0)
    if size == 2:
        assert all(members[::2] == [one - 1 for one in members[1::2]] for members in index)
    work = [sum(workload(max(lengths[sample], 1)) for sample in members) for members in index]
    if not options["use_dynamic_bsz_balance"]:
        assert work == sorted(work, reverse=True)
    else:  # up to the largest, then down
        top = work.index(max(work))
        assert work[: top + 1] == sorted(work[: top + 1])
        assert work[top:] == sorted(work[top:], reverse=True)


def test_verl_breaks_this_cap():
    """Balanced over ceil(total / cap) parts, [6, 6, 6] would be two micro-batches, one of them of 12."""
    assert sorted(verl.rearrange_micro_batches([6, 6, 6], 10)) == [[0], [1], [2]]


def test_batches_of_columns():
    batch = {
        "attention_mask": np.array([[1, 1, 0], [1, 1, 1], [1, 0, 0]]),
        "input_ids": np.arange(9).reshape(3, 3),
        "uid": ["a", "b", "c"],
    }
    parts, index = verl.rearrange_micro_batches(batch, 3)
    assert sorted(map(tuple, index)) == [(0, 2), (1,)]
    for part, members in zip(parts, index, strict=True):
        assert part["uid"] == [batch["uid"][sample] for sample in members]
        assert np.array_equal(part["input_ids"], batch["input_ids"][members])
    rows = np.concatenate([part["input_ids"] for part in parts])
    assert np.array_equal(verl.restore_dynamic_batch(rows, index), batch["input_ids"])
    assert verl.restore_dynamic_batch([part for members in index for part in members], index) == [0, 1, 2]


class Proto:
    """What is used of a DataProto."""

    def __init__(self, batch):
        self.batch = batch

    def select_idxs(self, indices):
        return Proto({name: rows[indices] for name, rows in self.batch.items()})


def test_dynamic_batches():
    mask = np.tril(np.ones((4, 4), np.int64))  # 1 to 4 tokens
    data = Proto({"attention_mask": mask, "input_ids": mask * 7})
    parts, index = verl.prepare_dynamic_batch(data, max_token_len=6)
    assert len(parts) == len(index) == 2
    for part, members in zip(parts, index, strict=True):
        assert np.array_equal(part.batch["input_ids"], data.batch["input_ids"][members])
        assert mask[members].sum() <= 6
    _, index = verl.prepare_dynamic_batch(data, 6, padding_mode=verl.PaddingMode.TRUNCATE_PADDING)
    assert all(len(members) * int(mask[members].sum(axis=1).max()) <= 6 for members in index)
    assert len(index) == 3
    _, index = verl.prepare_dynamic_batch(data, 8, padding_mode=verl.PaddingMode.MAX_SEQUENCE_LENGTH_PADDING)
    assert [len(members) for members in index] == [2, 2]
    parts, index = verl.prepare_dynamic_batch([3, 2, 5], 5)
    assert parts == [[[3, 2, 5][sample] for sample in members] for members in index]


def test_reverse_index():
    assert verl.get_reverse_idx([2, 0, 1]) == [1, 2, 0]
    assert verl.get_reverse_idx((2, 0, 1)) == [1, 2, 0]
    assert verl.get_reverse_idx(np.array([2, 0, 1])).tolist() == [1, 2, 0]
    assert verl.get_reverse_idx([]) == []
