"""`pack_dataset` on real datasets: nothing lost that is not said, as few rows as the peer, every kind of dataset."""

from __future__ import annotations

import re
import warnings
from itertools import pairwise

import numpy as np
import pytest

from packing import ConfigError, pack
from packing.compat.trl import pack_dataset

datasets = pytest.importorskip("datasets")
pa = pytest.importorskip("pyarrow")

IN_MEMORY = {"keep_in_memory": True, "load_from_cache_file": False}
STRATEGIES = ("bfd", "bfd_split", "wrapped")


@pytest.fixture(scope="module", autouse=True)
def quiet():
    datasets.disable_progress_bars()


def numbered(lengths, large: bool = False):
    """A dataset in which every token has a number of its own, and a second column of another type follows it."""
    kind, width = (pa.LargeListArray, np.int64) if large else (pa.ListArray, np.int32)
    edges = pa.array(np.concatenate(([0], np.cumsum(lengths))).astype(width))
    tokens = np.arange(sum(lengths))
    columns = [
        kind.from_arrays(edges, pa.array(tokens)),
        kind.from_arrays(edges, pa.array((tokens % 2).astype(np.int8))),
    ]
    return datasets.Dataset(pa.table(columns, ["input_ids", "mask"]))


def example():
    return datasets.Dataset.from_dict(
        {
            "input_ids": [[1, 2, 3, 4, 5], [6, 7], [8, 9, 10], [11]],
            "attention_mask": [[1, 1, 1, 0, 0], [1, 0], [1, 1, 0], [1]],
        }
    )


def pieces(packed) -> list[list[int]]:
    """The pieces of all rows, in order."""
    split = []
    for ids, lengths in zip(packed["input_ids"], packed["seq_lengths"], strict=True):
        edges = np.cumsum([0, *lengths])
        assert edges[-1] == len(ids)
        split += [ids[begin:end] for begin, end in pairwise(edges)]
    return split


def test_the_documented_example():
    with pytest.warns(UserWarning, match=r"^`seq_length` 4 cuts off 1 tokens of 1 longer sequences; .*bfd_split"):
        packed = pack_dataset(example(), seq_length=4)
    assert packed[:] == {
        "input_ids": [[1, 2, 3, 4], [8, 9, 10, 11], [6, 7]],
        "attention_mask": [[1, 1, 1, 0], [1, 1, 0, 1], [1, 0]],
        "seq_lengths": [[4], [3, 1], [2]],
    }
    packed = pack_dataset(example(), seq_length=4, strategy="bfd_split")
    assert packed[:] == {
        "input_ids": [[1, 2, 3, 4], [8, 9, 10, 5], [6, 7, 11]],
        "attention_mask": [[1, 1, 1, 0], [1, 1, 0, 0], [1, 0, 1]],
        "seq_lengths": [[4], [3, 1], [2, 1]],
    }
    packed = pack_dataset(example(), seq_length=4, strategy="wrapped")
    assert packed["input_ids"] == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11]]
    assert packed.column_names == ["input_ids", "attention_mask"]


@pytest.mark.parametrize("seed", range(12))
def test_every_token_is_kept_or_counted(seed):
    random = np.random.default_rng(seed)
    lengths = random.integers(0, 40, int(random.integers(1, 200)))
    most, batch = int(random.integers(1, 50)), int(random.integers(1, 250))
    given = numbered(lengths, large=bool(seed % 2))
    if seed % 3 == 0:
        given = given.shuffle(seed=seed)
    elif seed % 3 == 1 and len(given) > 20:
        given = given.select(range(5, len(given) - 5))  # a slice of the table
    sequences = given["input_ids"][:]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        packed = pack_dataset(given, most, map_kwargs=IN_MEMORY | {"batch_size": batch})
    assert sorted(pieces(packed)) == sorted(one[:most] for one in sequences if one)
    cut = [len(one) - most for one in sequences if len(one) > most]
    assert [str(one.message).partition(";")[0] for one in caught] == (
        [f"`seq_length` {most} cuts off {sum(cut):,} tokens of {len(cut):,} longer sequences"] if cut else []
    )
    for strategy in ("bfd_split", "wrapped"):
        packed = pack_dataset(given, most, strategy, IN_MEMORY | {"batch_size": batch})
        rows = packed["input_ids"]
        assert sorted(t for row in rows for t in row) == sorted(t for one in sequences for t in one)
        assert all(0 < len(row) <= most for row in rows)
        assert all(mask == [token % 2 for token in row] for row, mask in zip(rows, packed["mask"], strict=True))
        if strategy == "bfd_split":
            assert sorted(pieces(packed)) == sorted(
                one[i : i + most] for one in sequences for i in range(0, len(one), most)
            )


def test_rows_are_those_of_best_fit_decreasing(lengths_of):
    lengths = lengths_of("openchat_v1")[:3000]
    packed = pack_dataset(numbered(lengths), 4096, map_kwargs=IN_MEMORY | {"batch_size": 3000})
    bins = pack(lengths, 4096).to_lists()
    assert [list(one) for one in packed["seq_lengths"]] == [lengths[one].tolist() for one in bins]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_against_the_peer(strategy):
    peer = pytest.importorskip("trl.data_utils").pack_dataset
    for seed in range(10):
        random = np.random.default_rng(seed)
        lengths = random.integers(0, 60, 150)
        given = numbered(lengths, large=bool(seed % 2)).with_format("numpy", columns=["input_ids"])
        for most in (7, 32, 64):
            options = IN_MEMORY | {"batch_size": int(random.integers(20, 200))}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ours, theirs = pack_dataset(given, most, strategy, options), peer(given, most, strategy, options)
            assert ours.num_rows == theirs.num_rows
            assert ours.features == theirs.features
            assert ours.format == theirs.format
            ours, theirs = ours.with_format(None), theirs.with_format(None)
            if strategy == "wrapped":
                assert ours[:] == theirs[:]
            else:
                assert sorted(pieces(ours)) == sorted(pieces(theirs))


def test_formats_are_kept():
    given = example().with_format("numpy", columns=["input_ids"], dtype="int16")
    packed = pack_dataset(given, 5)
    assert packed.format == {
        "type": "numpy", "format_kwargs": {"dtype": "int16"}, "columns": ["input_ids", "seq_lengths"],
        "output_all_columns": False,
    }  # fmt: skip
    assert given.format["columns"] == ["input_ids"]
    assert packed[0]["input_ids"].dtype == np.int16


def test_splits_keep_their_own_formats():
    given = datasets.DatasetDict(train=example().with_format("numpy", columns=["input_ids"]), test=example())
    with pytest.warns(UserWarning, match="cuts off 2 tokens of 2 longer sequences"):
        packed = pack_dataset(given, 4)
    assert isinstance(packed, datasets.DatasetDict)
    assert packed["train"].format["columns"] == ["input_ids", "seq_lengths"]
    assert packed["test"].format["type"] is None
    assert packed["test"].num_rows == packed["train"].num_rows == 3


def test_streams():
    whole = pack_dataset(example(), 5)[:]
    stream = example().to_iterable_dataset()
    rows = list(pack_dataset(stream.with_format("numpy"), 5))
    assert [row["input_ids"].tolist() for row in rows] == whole["input_ids"]
    with pytest.warns(UserWarning, match=r"^`seq_length` 4 cuts off the ends of longer sequences; .*bfd_split"):
        rows = list(pack_dataset(datasets.IterableDatasetDict(train=stream), 4)["train"])
    assert [row["seq_lengths"] for row in rows] == [[4], [3, 1], [2]]


def test_elements_of_any_type():
    given = datasets.Dataset.from_dict(
        {
            "input_ids": [[1, 2], [3], [4, 5, 6]],
            "position_ids": [[[1, 2, 3], [4, 5, 6]], [[7, 8, 9]], [[0, 0, 0]] * 3],
            "words": [["a", "b"], [None], ["d", "e", "f"]],
        }
    )
    assert pack_dataset(given, 3)[:] == {
        "input_ids": [[4, 5, 6], [1, 2, 3]],
        "position_ids": [[[0, 0, 0]] * 3, [[1, 2, 3], [4, 5, 6], [7, 8, 9]]],
        "words": [["d", "e", "f"], ["a", "b", None]],
        "seq_lengths": [[3], [2, 1]],
    }


def test_missing_and_empty_sequences_are_no_rows():
    table = pa.table({"input_ids": pa.array([[1], None, [], [2, 3]], pa.list_(pa.int32()))})
    for strategy in STRATEGIES:
        assert pack_dataset(datasets.Dataset(table), 8, strategy)["input_ids"] == [
            [2, 3, 1] if strategy != "wrapped" else [1, 2, 3]
        ]
    nothing = datasets.Dataset(table.slice(1, 2))
    for given in (nothing, nothing.select([])):
        packed = pack_dataset(given, 8)
        assert packed.num_rows == 0
        assert packed.column_names == ["input_ids", "seq_lengths"]


def test_the_answer_is_cached_and_several_processes_give_it_too(tmp_path):
    given = numbered(np.random.default_rng(0).integers(1, 20, 100))
    given.save_to_disk(tmp_path / "given")
    stored = datasets.load_from_disk(tmp_path / "given")
    once = pack_dataset(stored, 32)
    assert pack_dataset(stored, 32)._fingerprint == once._fingerprint
    assert pack_dataset(stored, 31)._fingerprint != once._fingerprint
    parts = pack_dataset(stored, 32, map_kwargs={"num_proc": 2})
    assert sorted(pieces(parts)) == sorted(pieces(once))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1], 4), "`dataset` must be a dataset of the package datasets, but got [1]."),
        ((example(), 0), "`seq_length` must be a positive integer, but got 0."),
        ((example(), True), "`seq_length` must be a positive integer, but got True."),
        ((example(), 4, "ffd"), '`strategy` must be one of "bfd", "bfd_split", "wrapped", but got \'ffd\'.'),
        ((example(), 4, "bfd", 3), "`map_kwargs` must be a mapping, but got 3."),
        (
            (example(), 4, "bfd", {"batched": False}),
            "`map_kwargs` must not hold what the packing itself sets, but got 'batched'.",
        ),
        (
            (datasets.Dataset.from_dict({"text": ["a"]}), 4),
            "all columns of `dataset` must hold lists, but 'text' has type string.",
        ),
        (
            (datasets.Dataset.from_dict({"a": [[1], [2]], "b": [[1], [2, 3]]}), 4, "wrapped"),
            "the columns of `dataset` must have equally long lists in each row, but row 1 of its batch has 1 in 'a' and"
            " 2 in 'b'.",
        ),
    ],
)
def test_what_is_wrong_is_named(arguments, message):
    with pytest.raises(ConfigError, match="^" + re.escape(message) + "$"):
        pack_dataset(*arguments)
