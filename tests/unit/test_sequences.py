"""Sequences: what is taken, in which dtypes, and what is refused with which words."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packing import ConfigError, Sequences


def test_lists_and_arrays_lie_flat():
    sequences = Sequences.of([[5, 6, 7], np.asarray([1]), (2, 3)])
    assert sequences.input_ids.tolist() == [5, 6, 7, 1, 2, 3]
    assert sequences.input_ids.dtype == np.int64
    assert sequences.offsets.tolist() == [0, 3, 4, 6]
    assert sequences.lengths.tolist() == [3, 1, 2]
    assert (len(sequences), sequences.num_tokens) == (3, 6)
    assert sequences.loss_mask.tolist() == [True] * 6
    assert sequences.loss_mask.dtype == np.bool_
    assert (sequences.features, sequences.values) == ({}, {})
    assert repr(sequences) == "Sequences(3 sequences, 6 tokens)"
    assert Sequences.of(sequences) is sequences


def test_nothing_can_be_changed_and_nothing_is_shared():
    ids, feature = np.arange(3), np.zeros(3)
    sequences = Sequences.of([{"input_ids": ids, "logprobs": feature, "advantage": 1.0}])
    ids[0] = feature[0] = 9
    assert sequences.input_ids[0] == sequences.features["logprobs"][0] == 0
    for array in (
        sequences.input_ids,
        sequences.loss_mask,
        sequences.features["logprobs"],
        sequences.values["advantage"],
    ):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(TypeError, match="read-only"):
        sequences.features["more"] = feature


def test_flat_arrays_are_taken_without_a_copy():
    ids = np.arange(5, dtype=np.int32)
    sequences = Sequences([0, 2, 5], ids, {"position_ids": np.zeros((3, 5), np.int16)}, np.asarray([0, 1, 1, 0, 1]))
    assert np.shares_memory(sequences.input_ids, ids)
    assert ids.flags.writeable
    assert sequences.loss_mask.tolist() == [False, True, True, False, True]
    assert sequences.features["position_ids"].shape == (3, 5)
    assert Sequences([0], np.empty(0, np.int32)).num_tokens == 0


def test_pairs_count_their_completions():
    expected = [False, False, True, True, True, True]
    for pair in ([([1, 2], [3]), ([], [4, 5, 6])], [[[1, 2], [3]], (np.empty(0), np.asarray([4, 5, 6]))][:1]):
        sequences = Sequences.of(pair)
        assert sequences.input_ids.tolist() == [1, 2, 3, 4, 5, 6][: sequences.num_tokens]
        assert sequences.loss_mask.tolist() == expected[: sequences.num_tokens]
    sequences = Sequences.of([{"prompt_ids": [1, 2], "completion_ids": [3], "logprobs": [0.0, 0.0, -1.5]}])
    assert sequences.loss_mask.tolist() == [False, False, True]
    assert sequences.features["logprobs"].tolist() == [0.0, 0.0, -1.5]
    assert Sequences.of([([1], [])]).loss_mask.tolist() == [False]  # a prompt without an answer counts nothing


def test_two_integers_are_a_sequence_and_no_pair():
    assert Sequences.of([(1, 2), [3, 4]]).lengths.tolist() == [2, 2]
    assert Sequences.of([(np.int32(1), np.int32(2))]).lengths.tolist() == [2]


def test_a_given_mask_takes_the_place_of_the_prompts():
    sequences = Sequences.of([{"prompt_ids": [1, 2], "completion_ids": [3, 4], "loss_mask": [0, 1, 1.0, 0]}])
    assert sequences.loss_mask.tolist() == [False, True, True, False]
    assert sequences.features == {}


def test_features_of_any_dtype_and_of_several_axes():
    sequences = Sequences.of(
        {
            "input_ids": np.arange(length),
            "position_ids": np.arange(3 * length, dtype=np.int16).reshape(3, length),
            "logprobs": np.full(length, 0.5, np.float32),
            "flag": [True] * length,
            "single": np.ones((1, length), np.float16),
        }
        for length in (2, 3)
    )
    shapes = {name: (feature.dtype.name, feature.shape) for name, feature in sequences.features.items()}
    assert shapes == {
        "position_ids": ("int16", (3, 5)),
        "logprobs": ("float32", (5,)),
        "flag": ("bool", (5,)),
        "single": ("float16", (1, 5)),
    }
    assert sequences.features["position_ids"].tolist() == [[0, 1, 0, 1, 2], [2, 3, 3, 4, 5], [4, 5, 6, 7, 8]]
    assert all(feature.flags.c_contiguous for feature in sequences.features.values())


def test_a_value_without_dimensions_is_what_it_holds():
    items = [
        {"input_ids": [1], "uid": np.asarray(at), "name": np.asarray("ab"[at]), "key": (np.asarray(at), 0)}
        for at in (0, 1)
    ]
    values = Sequences.of(items).values
    assert values["uid"].dtype == np.int64
    assert values["uid"].tolist() == [0, 1]
    assert (values["name"], values["key"]) == (["a", "b"], [(0, 0), (1, 0)])
    assert Sequences([0, 1], [1], values={"uid": [np.asarray(7)]}).values["uid"] == [7]


@pytest.mark.parametrize(
    ("column", "dtype"),
    [
        ([2**63, 2**63 + 1, 5], np.uint64),
        ([np.uint64(2**63 + 1), np.int64(5)], np.uint64),
        ([2**63 + 1, -1], None),
        ([2**64, 5], None),
        ([2**53 + 1, 0.5], None),
        ([2**53, 0.5], np.float64),
        ([np.uint64(2**64 - 1), np.uint64(2**64 - 2)], np.uint64),
        ([True, 2**63], None),
    ],
)
def test_integers_are_kept_to_the_last_bit(column, dtype):
    kept = Sequences.of([{"input_ids": [1], "uid": value} for value in column]).values["uid"]
    assert getattr(kept, "dtype", None) == dtype
    assert list(map(int, kept)) == list(map(int, column))


def test_a_tuple_is_one_value():
    sequences = Sequences.of([{"input_ids": [1, 2], "uid": (3, 0)}, {"input_ids": [1, 2], "uid": (3, 1)}])
    assert (dict(sequences.features), sequences.values["uid"]) == ({}, [(3, 0), (3, 1)])
    assert Sequences.of([{"input_ids": (1, 2), "loss_mask": (0, 1)}]).loss_mask.tolist() == [False, True]
    assert Sequences.of([((1, 2), (3,))]).loss_mask.tolist() == [False, False, True]


def test_values_become_arrays_where_they_are_numbers():
    one = {"input_ids": [1], "advantage": 1, "version": 3, "name": "a", "done": True, "mixed": True, "none": None}
    other = one | {"advantage": 0.5, "mixed": 2, "name": None}
    values = Sequences.of([one, other]).values
    assert {name: getattr(column, "dtype", None) for name, column in values.items()} == {
        "advantage": np.float64, "version": np.int64, "name": None, "done": np.bool_, "mixed": None, "none": None
    }  # fmt: skip
    assert values["name"] == ["a", None]
    assert values["mixed"] == [True, 2]
    huge = Sequences.of([{"input_ids": [1], "seed": 2**70}]).values
    assert huge["seed"] == [2**70]
    assert Sequences.of([{"input_ids": [1], "x": np.float32(1)}]).values["x"].dtype == np.float32


@pytest.mark.parametrize(
    ("dtypes", "common"),
    [
        (["int8", "int8"], "int8"), (["int32", "int64"], "int64"), (["uint16", "int16"], "int32"),
        (["uint64"], "uint64"),
        ([">i4", "<i4"], "int32"), (["<u2", ">u2"], "uint16"),
    ],
)  # fmt: skip
def test_integer_dtypes_are_promoted(dtypes, common):
    sequences = Sequences.of([np.asarray([1, 2], dtype) for dtype in dtypes])
    assert sequences.input_ids.dtype == np.dtype(common)
    assert sequences.input_ids.dtype.isnative
    assert sequences.input_ids.tolist() == [1, 2] * len(dtypes)


def test_an_empty_prompt_has_no_say_in_the_dtype():
    assert Sequences.of([([], np.asarray([1], np.int8)), (np.empty(0, np.int64), [1])][:1]).input_ids.dtype == np.int8
    assert Sequences.of([]).input_ids.dtype == np.int64
    assert len(Sequences.of([])) == 0


def test_views_that_are_not_contiguous_and_read_only_ones():
    base = np.arange(12)
    base.flags.writeable = False
    sequences = Sequences.of([{"input_ids": base[::3], "x": base.reshape(3, 4)[:, ::-1]}])
    assert sequences.input_ids.tolist() == [0, 3, 6, 9]
    assert sequences.features["x"].tolist() == base.reshape(3, 4)[:, ::-1].tolist()
    flat = Sequences([0, 4], base[::3], {"x": base.reshape(4, 3).T})
    assert flat.input_ids.flags.c_contiguous
    assert flat.features["x"].tolist() == base.reshape(4, 3).T.tolist()


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.integers(-9, 9), min_size=1, max_size=4), max_size=5), st.data())
def test_take_is_building_from_those_sequences(lists, data):
    items = [
        {
            "input_ids": ids,
            "x": np.asarray([ids, ids], np.float32),
            "loss_mask": [i > 0 for i in ids],
            "v": sum(ids),
            "n": str(ids),
        }
        for ids in lists
    ]
    chosen = data.draw(st.lists(st.integers(0, len(items) - 1), max_size=6)) if items else []
    taken, built = Sequences.of(items).take(chosen), Sequences.of([items[i] for i in chosen])
    assert taken.offsets.tolist() == built.offsets.tolist()
    assert taken.input_ids.tolist() == built.input_ids.tolist()
    assert taken.loss_mask.tolist() == built.loss_mask.tolist()
    for name in built.features:
        assert taken.features[name].tolist() == built.features[name].tolist()
    for name in built.values:
        assert list(taken.values[name]) == list(built.values[name])
    again = pickle.loads(pickle.dumps(taken))
    assert again.input_ids.tolist() == taken.input_ids.tolist()
    assert again.features.keys() == taken.features.keys()
    assert not again.input_ids.flags.writeable


def test_real_lengths_keep_every_token(lengths_of):
    lengths = lengths_of("servegen_r1")
    lengths = lengths[lengths > 0][:2000]
    sequences = Sequences.of([np.full(length, at, np.int32) for at, length in enumerate(lengths)])
    assert np.array_equal(sequences.lengths, lengths)
    assert np.array_equal(sequences.input_ids, np.repeat(np.arange(lengths.size), lengths))


IDS = {"input_ids": [1, 2]}

PER_TOKEN = "; a list or array has a value for each token, those of the prompt included, and a tuple is one value."


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ("text", "`sequences` must be a list of sequences, but got 'text'."),
        (7, "`sequences` must be a list of sequences, but got 7."),
        ({"input_ids": [[1]]}, "`sequences` must be a list of sequences, but got {'input_ids': [[1]]}."),
        ([[1], []], "`input_ids` of sequence 1 must have at least one token, but got none."),
        ([([], [])], "`input_ids` of sequence 0 must have at least one token, but got none."),
        ([np.empty(0, np.int32)], "`input_ids` of sequence 0 must have at least one token, but got none."),
        ([[1], [1.0]], "`input_ids` of sequence 1 must be a one-dimensional array of integers, but got dtype float64."),
        (
            [[1], [True]],
            "`input_ids` of sequence 1 must be a one-dimensional array of integers, but got True at index 0.",
        ),
        (
            [np.asarray([True])],
            "`input_ids` of sequence 0 must be a one-dimensional array of integers, but got dtype bool.",
        ),
        ([5], "`input_ids` of sequence 0 must be a one-dimensional array of integers, but got shape ()."),
        (
            [np.zeros((2, 3), int)],
            "`input_ids` of sequence 0 must be a one-dimensional array of integers, but got shape (2, 3).",
        ),
        (
            [[[1], [2], [3]]],
            "`input_ids` of sequence 0 must be a one-dimensional array of integers, but got shape (3, 1).",
        ),
        ([["a"]], "`input_ids` of sequence 0 must be a one-dimensional array of integers, but got dtype <U1."),
        ([[2**70]], "`input_ids` of sequence 0 must be a one-dimensional array of integers, but got dtype object."),
        (
            [[[1], [2, 3], 4]],
            "`input_ids` of sequence 0 must be a one-dimensional array of integers, but got [[1], [2, 3], 4].",
        ),
        (
            [np.ma.masked_array([1, 2], [True, False])],
            "`input_ids` of sequence 0 must be a one-dimensional array of integers, but got masked values.",
        ),
        (
            [([1], [2.5])],
            "`the completion` of sequence 0 must be a one-dimensional array of integers, but got dtype float64.",
        ),
        (
            [np.asarray([1], np.uint64), np.asarray([1])],
            "`input_ids` must have dtypes with a common integer dtype, but got [dtype('uint64'), dtype('int64')].",
        ),
        (
            [IDS | {"prompt_ids": [1]}],
            'sequence 0 must have either "input_ids", or "prompt_ids" and "completion_ids", '
            "but got the keys ['input_ids', 'prompt_ids'].",
        ),
        (
            [{"ids": [1]}],
            'sequence 0 must have either "input_ids", or "prompt_ids" and "completion_ids", '
            "but got the keys ['ids'].",
        ),
        ([IDS | {"x": [1, 2]}, IDS], "`x` must be given for every sequence, but sequence 1 has none."),
        ([IDS, IDS | {"x": 1}], "`x` must be given for every sequence, but sequence 0 has none."),
        ([IDS | {"loss_mask": [1, 1]}, [1]], "`loss_mask` must be given for every sequence, but sequence 1 has none."),
        ([IDS | {"loss_mask": [1, 2]}], "`loss_mask` must hold zeros and ones, but got array([1, 2])."),
        ([IDS | {"loss_mask": [[1, 1]]}], "`loss_mask` of sequence 0 must be one-dimensional, but got 2 axes."),
        ([IDS, IDS | {"x": [1, 2, 3]}], "`x` must be given for every sequence, but sequence 0 has none."),
        (
            [IDS | {"x": [1, 2]}, IDS | {"x": [1]}],
            f"`x` of sequence 1 must have shape [2] or [k, 2], but got (1,){PER_TOKEN}",
        ),
        (
            [IDS | {"x": np.zeros((2, 3))}],
            f"`x` of sequence 0 must have shape [2] or [k, 2], but got (2, 3){PER_TOKEN}",
        ),
        (
            [IDS | {"x": np.zeros((1, 1, 2))}],
            f"`x` of sequence 0 must have shape [2] or [k, 2], but got (1, 1, 2){PER_TOKEN}",
        ),
        (
            [IDS | {"x": np.zeros(2, "f4")}, IDS | {"x": np.zeros(2, "f8")}],
            "`x` must have one dtype, but got float32 in sequence 0 and float64 in sequence 1.",
        ),
        (
            [IDS | {"x": np.zeros((2, 2))}, IDS | {"x": np.zeros((3, 2))}],
            "`x` must have the shape [k, length] with one k, but got (2, 2) in sequence 0 and (3, 2) in sequence 1.",
        ),
        (
            [IDS | {"x": (1, 2)}, IDS | {"x": [1, 2]}],
            "`x` must be a feature of every sequence or a value of every sequence, but sequence 0 has (1, 2) "
            "and sequence 1 has [1, 2].",
        ),
        (
            [IDS | {"x": ["a", "b"]}],
            "`x` of sequence 0 must have numbers of 1, 2, 4 or 8 bytes, but got dtype <U1; a tuple is one value.",
        ),
        (
            [IDS | {"x": np.zeros(2, "c16")}],
            "`x` of sequence 0 must have numbers of 1, 2, 4 or 8 bytes, but got dtype complex128.",
        ),
        (
            [IDS | {"x": [1, 2]}, IDS | {"x": 1}],
            "`x` must be a feature of every sequence or a value of every sequence, "
            "but sequence 0 has [1, 2] and sequence 1 has 1.",
        ),
        (
            [IDS | {3: 4}],
            "a name of a feature or value must be text and none of "
            "('input_ids', 'prompt_ids', 'completion_ids', 'loss_mask'), but got 3.",
        ),
    ],
)
def test_refusals(items, message):
    with pytest.raises(ConfigError) as caught:
        Sequences.of(items)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 2], [1, 2, 3]), "`offsets` must ascend from 0 to 3, but got [0, 2]."),
        (([0, 2, 2, 3], [1, 2, 3]), "`input_ids` of sequence 1 must have at least one token, but got none."),
        (([0, 3, 2, 3], [1, 2, 3]), "`input_ids` of sequence 1 must have at least one token, but got none."),
        (([0, 2], [1.0, 2.0]), "`input_ids` must be a one-dimensional array of integers, but got float64 (2,)."),
        (([0, 1], [1], {"x": [1, 2]}), "`x` must have shape [1] or [k, 1], but got (2,)."),
        (([0, 1], [1], {}, [1, 2]), "`loss_mask` must have shape [1], but got (2,)."),
        (([0, 1], [1], {}, [float("nan")]), "`loss_mask` must hold zeros and ones, but got array([nan])."),
        (([0, 1], [1], {}, None, {"v": [1, 2]}), "`v` must have 1 values, but got 2."),
        (([0, 1], [1], {}, None, {"v": 3}), "`v` must have a value for each sequence, but got 3."),
        (
            ([0, 1], [1], {}, None, {"v": np.asarray(3)}),
            "`v` must have a value for each sequence, but got array(3).",
        ),
    ],
)
def test_refusals_of_flat_arrays(arguments, message):
    with pytest.raises(ConfigError) as caught:
        Sequences(*arguments)
    assert str(caught.value) == message


def test_indices_out_of_range():
    sequences = Sequences.of([[1]])
    for indices, message in (
        ([1], r"^`indices` must lie in \[0, 1\), but got 1\.$"),
        ([-1], r"^`indices` must be non-negative, but got -1 at index 0\.$"),
    ):
        with pytest.raises(ConfigError, match=message):
            sequences.take(indices)


@pytest.mark.parametrize(
    "build", [Sequences.of, lambda items: Sequences([0, 2], items[0]["input_ids"], {"x": [[1], [1, 2]]})]
)
def test_ragged_features_are_named(build):
    with pytest.raises(
        ConfigError, match=r"^`x`( of sequence 0)? must be an array that NumPy can read, but got \[\[1\]"
    ):
        build([IDS | {"x": [[1], [1, 2]]}])
