"""Reading lengths: every format gives the same numbers, and whatever is wrong is one message that says where."""

from __future__ import annotations

import io
import json
import pickle
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("click", reason="the extra `cli` is not installed")

from packing.cli import settings as cli_settings
from packing.cli import tables
from packing.cli.lengths import read_lengths
from packing.errors import ConfigError

VALUES = [7, 3, 2048, 1, 90]
in_one_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@pytest.fixture
def write(tmp_path):
    """A function that writes content (text or bytes) to a file of the given name and returns its path."""

    def written(name: str, content: str | bytes) -> str:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)

    return written


@pytest.fixture
def standard_input(monkeypatch):
    """A function that makes the given text the standard input."""

    def given_text(text: str) -> str:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        return tables.STANDARD_INPUT

    return given_text


def array_bytes(array: np.ndarray, *, allow_pickle: bool = False) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=allow_pickle)
    return stream.getvalue()


def archive_bytes(**arrays: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()


def parquet_bytes(columns: dict) -> bytes:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    stream = io.BytesIO()
    parquet.write_table(arrow.table(columns), stream)
    return stream.getvalue()


def listed(path: str, **options: object) -> list[int]:
    lengths = read_lengths(path, **options)
    assert lengths.values.dtype == np.int64
    return lengths.values.tolist()


TEXT_FORMS = {
    "lines.csv": "\n".join(map(str, VALUES)),
    "header.csv": "length\n" + "\n".join(map(str, VALUES)) + "\n",
    "windows.csv": "\ufefflength\r\n" + "\r\n".join(map(str, VALUES)) + "\r\n",
    "blank_lines.csv": "length\n\n" + "\n\n".join(map(str, VALUES)) + "\n\n",
    "beside_text.csv": "text,length\n" + "\n".join(f'"a ""b"", {v}\nc",{v}' for v in VALUES),
    "semicolons.csv": "id;length\n" + "\n".join(f"x;{v}" for v in VALUES),
    "whole_floats.csv": "\n".join(f"{v}.0" for v in VALUES),
    "tabs.tsv": "id\tlength\n" + "\n".join(f"x\t{v}" for v in VALUES),
    "list.json": json.dumps(VALUES),
    "records.json": json.dumps([{"length": v, "text": "x"} for v in VALUES], indent=1),
    "columns.json": json.dumps({"name": "set", "length": VALUES}),
    "json_lines.json": "\n".join(json.dumps({"length": v}) for v in VALUES),
    "records.jsonl": "\n".join(json.dumps({"length": v, "text": "\u2028"}, ensure_ascii=False) for v in VALUES) + "\n",
    "numbers.jsonl": "\n".join(map(str, VALUES)),
    "records.ndjson": "\n".join(json.dumps({"tokens": v, "other": 1}) for v in VALUES),
}


@pytest.mark.parametrize("name", TEXT_FORMS)
def test_text_forms_give_the_lengths(name, write):
    assert listed(write(name, TEXT_FORMS[name])) == VALUES


@pytest.mark.parametrize("name", [name for name in TEXT_FORMS if name != "numbers.jsonl"])
def test_standard_input_detects_the_form(name, standard_input):
    assert listed(standard_input(TEXT_FORMS[name])) == VALUES


def test_a_file_of_another_ending_is_detected(write):
    assert listed(write("lengths.txt", TEXT_FORMS["lines.csv"])) == VALUES
    assert listed(write("lengths", TEXT_FORMS["records.jsonl"])) == VALUES


@pytest.mark.parametrize("dtype", ["<i4", ">i8", "u2", "<u8", "f4", "f8"])
def test_arrays_of_every_number_type(dtype, write):
    assert listed(write("a.npy", array_bytes(np.array(VALUES, dtype)))) == VALUES


def test_two_dimensional_array_has_columns_by_position(write):
    path = write("a.npy", array_bytes(np.array([VALUES, VALUES[::-1]]).T))
    assert listed(path, column="1") == VALUES[::-1]
    assert listed(path, column="0+1") == [a + b for a, b in zip(VALUES, VALUES[::-1], strict=True)]
    with pytest.raises(ConfigError, match=r"several columns hold numbers: '0', '1'; name one"):
        read_lengths(path)
    assert listed(write("one.npy", array_bytes(np.array([VALUES]).T))) == VALUES


def test_structured_array_and_archive_have_columns_by_name(write):
    rows = np.array([(v, v + 1, b"x") for v in VALUES], [("prompt", "i4"), ("length", "i4"), ("name", "S1")])
    path = write("a.npy", array_bytes(rows))
    assert listed(path, column="prompt") == VALUES
    assert listed(path) == [v + 1 for v in VALUES]
    path = write("a.npz", archive_bytes(a=np.array(VALUES), b=np.array(VALUES) + 1, c=np.eye(2)))
    assert listed(path, column="b") == [v + 1 for v in VALUES]


def test_parquet_columns(write):
    path = write("a.parquet", parquet_bytes({"text": ["x"] * 5, "a.b": VALUES, "c": [1.0] * 5}))
    assert listed(path, column="a.b+c") == [v + 1 for v in VALUES]
    # The index that pandas stores as a column is not a second column of numbers.
    path = write("b.parquet", parquet_bytes({"size": VALUES, "__index_level_0__": [0, 1, 2, 3, 4]}))
    assert listed(path) == VALUES
    path = write("c.parquet", parquet_bytes({"length": [1, None, 3]}))
    with pytest.raises(ConfigError, match=r"c\.parquet: `length` must be a number, but got nothing \(row 1\)\."):
        read_lengths(path)


def test_parquet_without_its_library_names_the_extra(write, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    with pytest.raises(ConfigError, match=r"pip install 'packing\[parquet\]'"):
        read_lengths(write("a.parquet", b"PAR1"))


def test_the_bundled_sample():
    lengths = read_lengths(None)
    assert lengths.source == "openchat_v1"
    assert lengths.values.size == 6144
    assert (lengths.values.min(), lengths.values.max()) == (24, 2048)


def test_limit_keeps_the_first_samples(write):
    path = write("a.json", json.dumps(VALUES))
    assert listed(path, limit=2) == VALUES[:2]
    assert listed(path, limit=99) == VALUES


@pytest.mark.parametrize("usual", ["length", "tokens"])
def test_a_usual_name_is_taken_among_several(usual, write):
    assert listed(write("a.csv", f"id,{usual},other\n1,5,6\n2,7,8\n")) == [5, 7]


def test_a_name_with_a_plus_sign_is_a_name(write):
    assert listed(write("a.csv", "a,b,a+b\n1,2,9\n"), column="a+b") == [9]
    assert listed(write("a.csv", "a,b\n1,2\n"), column=" a + b ") == [3]


def test_features_come_with_the_lengths(write):
    path = write("a.csv", "a,b,c\n1,2,3\n4,5,6\n7,8,9\n")
    lengths = read_lengths(path, column="a+b", limit=2, features=["b", "c"])
    assert {name: list(values) for name, values in lengths.samples.items()} == {
        "b": [2, 5],
        "c": [3, 6],
        "length": [3, 9],
    }
    assert read_lengths(path, column="a").samples.tolist() == [1, 4, 7]


def test_features_may_be_text_with_gaps(write):
    rows = [{"length": 1, "kind": "x", "weight": 0.5}, {"length": 2, "kind": None, "weight": 1}]
    for name, content in (
        ("a.json", json.dumps(rows)),
        ("a.csv", "length,kind,weight\n1,x,0.5\n2,,1\n"),
        ("a.parquet", parquet_bytes({key: [row[key] for row in rows] for key in rows[0]})),
    ):
        features = read_lengths(write(name, content), features=["kind", "weight"]).features
        assert list(features["kind"]) == ["x", None], name
        assert list(features["weight"]) == [0.5, 1], name


WRONG = [
    ("a.csv", "a\n1\n", {"features": ["prefix"]}, r"a\.csv: no column 'prefix'; there are 'a'\."),
    ("a.csv", "a,b\n1,2\n", {"column": "length"}, r"a\.csv: no column 'length'; there are 'a', 'b'\."),
    ("a.csv", "a,b\n1,2\n", {"column": "a+c"}, r"a\.csv: no column 'c'; there are 'a', 'b'\."),
    ("a.csv", "a,b\n1,2\n", {"column": "a+a"}, r"`--column` must name each column once, but got 'a\+a'\."),
    ("a.csv", "a,b\n1,2\n", {}, r"several columns hold numbers: 'a', 'b'; name one, or several as A\+B, with --column"),
    ("a.csv", "a,b\nx,y\n", {}, r"no column holds only numbers; there are 'a', 'b'\."),
    ("a.csv", "length\n1\nx\n", {}, r"a\.csv: `length` must be a number, but got 'x' \(line 3\)\."),
    ("a.csv", "length,b\n1,1\n,2\n", {}, r"`length` must be a number, but got nothing \(line 3\)\."),
    ("a.csv", "a,b\n1,2\n3\n", {}, r"line 3 must have 2 cells like the first one, but got 1\."),
    ("a.csv", "a,a\n1,2\n", {}, r"the header must name each column once, but got 'a' twice\."),
    ("a.csv", 'a\n"1\n', {}, r"line 2 is not CSV"),
    ("a.csv", "1\n2.5\n", {}, r"`0` must hold whole numbers, but got 2\.5 at index 1\."),
    ("a.csv", "1\nnan\n", {}, r"`0` must hold whole numbers, but got nan at index 1\."),
    ("a.csv", "1\n-2\n", {}, r"`0` must be non-negative, but got -2 at index 1\."),
    ("a.csv", f"1\n{2**63}\n", {}, r"`0` must"),
    ("a.csv", f"a,b\n{2**62},{2**62}\n", {"column": "a+b"}, r"the sum a \+ b must fit into 64-bit integers\."),
    ("a.csv", "", {}, r"a\.csv: no samples in it\."),
    ("a.csv", "length\n", {}, r"a\.csv: no samples in it\."),
    ("a.csv", b"\xff\xfe1\x00", {}, r"a\.csv: not UTF-8 text \(byte 0\)\."),
    ("a.json", "[1, 2", {}, r"a\.json: line 1 is not JSON"),
    ("a.json", "[" * 100_000, {}, r"a\.json: (not readable JSON|line 1 is not JSON)"),
    ("a.json", "5", {}, r"the JSON must be a list, or an object of columns, but got 5\."),
    ("a.json", "[]", {}, r"no samples in it\."),
    ("a.json", '[{"length": 1}, 2]', {}, r"samples must be all numbers or all objects, but got 2 \(index 1\)\."),
    ("a.json", '[1, {"length": 2}]', {}, r"must be all numbers or all objects, but got \{'length': 2\} \(index 1\)\."),
    ("a.json", '[{"length": 1}, {}]', {}, r"`length` must be a number, but got nothing \(index 1\)\."),
    ("a.json", "[1, true]", {}, r"`0` must be a number, but got True \(index 1\)\."),
    ("a.json", '[1, "2"]', {}, r"`0` must be a number, but got '2' \(index 1\)\."),
    ("a.json", '{"a": [1, 2], "b": [3]}', {"column": "a+b"}, r"equally long, but got \{'a': 2, 'b': 1\}\."),
    ("a.jsonl", '{"length": 1}\n{"length"\n', {}, r"a\.jsonl: line 2 is not JSON"),
    ("a.jsonl", '{"length": 1}\n\n{"length": null}\n', {}, r"must be a number, but got nothing \(line 3\)\."),
    ("a.npy", b"not an array", {}, r"a\.npy: not a readable \.npy file"),
    ("a.npy", array_bytes(np.arange(9))[:-3], {}, r"a\.npy: not a readable \.npy file"),
    ("a.npy", array_bytes(np.zeros((2, 2, 2))), {}, r"must have one or two dimensions, but got shape \(2, 2, 2\)\."),
    ("a.npy", array_bytes(np.zeros((0,), int)), {}, r"no samples in it\."),
    ("a.npy", array_bytes(np.array(["a", "b"])), {}, r"`0` must hold integers, but got dtype <U1"),
    ("a.npz", b"PK", {}, r"a\.npz: not a readable \.npz file"),
    ("a.npz", array_bytes(np.arange(3)), {}, r"a\.npz: not a readable \.npz file"),
    ("a.npz", archive_bytes(a=np.arange(3), b=np.arange(3)), {}, r"several columns hold numbers: 'a', 'b'"),
    ("a.parquet", b"PAR1 and no more", {}, r"a\.parquet: not a readable Parquet file"),
]


@pytest.mark.parametrize(("name", "content", "options", "message"), WRONG)
def test_wrong_input_is_one_message_that_says_where(name, content, options, message, write):
    if name.endswith(".parquet"):
        pytest.importorskip("pyarrow")
    path = write(name, content)
    with pytest.raises(ConfigError, match=message) as caught:
        read_lengths(path, **options)
    assert str(caught.value).startswith(path)


def test_a_missing_file_is_an_os_error(tmp_path):
    for ending in ("npy", "npz", "csv", "json", "jsonl", "parquet"):
        with pytest.raises(FileNotFoundError):
            read_lengths(str(tmp_path / f"none.{ending}"))
    with pytest.raises(IsADirectoryError):
        read_lengths(str(tmp_path))


class Trap:
    """An object whose pickle creates a file when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_pickles_are_never_loaded(write, tmp_path):
    sprung = tmp_path / "sprung"
    objects = np.array([Trap(sprung)], dtype=object)
    contents = {
        "object.npy": array_bytes(objects, allow_pickle=True),
        "object.npz": archive_bytes(a=objects),
        "plain.npy": pickle.dumps(Trap(sprung)),
        "plain.npz": pickle.dumps(Trap(sprung)),
    }
    for name, content in contents.items():
        with pytest.raises(ConfigError):
            read_lengths(write(name, content))
        assert not sprung.exists(), name
    pickle.loads(contents["plain.npy"])
    assert sprung.exists(), "the trap works"


@in_one_folder
@given(values=st.lists(st.integers(0, 2**53 - 1), min_size=1, max_size=30))
def test_every_format_reads_what_was_written(values, write):
    paths = [
        write("p.npy", array_bytes(np.array(values))),
        write("p.npz", archive_bytes(length=np.array(values))),
        write("p.csv", "length\n" + "\n".join(map(str, values))),
        write("p.json", json.dumps([{"length": value} for value in values])),
        write("p.jsonl", "\n".join(json.dumps({"length": value}) for value in values)),
    ]
    assert all(listed(path) == values for path in paths)


@in_one_folder
@given(
    ending=st.sampled_from(["npy", "npz", "csv", "tsv", "json", "jsonl", "txt", "parquet"]),
    seed=st.integers(0, 2**32),
    noise=st.binary(max_size=40),
)
def test_damaged_files_are_config_errors(ending, seed, noise, write):
    generator = random.Random(seed)
    sound = {
        "npy": array_bytes(np.arange(20)),
        "npz": archive_bytes(length=np.arange(20)),
        "parquet": parquet_bytes({"length": list(range(20))}) if ending == "parquet" else b"",
    }.get(ending, TEXT_FORMS["records.json"].encode())
    damaged = bytearray(sound)
    for byte in noise:
        damaged[generator.randrange(len(damaged))] = byte
    del damaged[generator.randrange(len(damaged)) :: generator.choice([1, 7, len(damaged)])]
    path = write(f"damaged.{ending}", bytes(damaged))
    try:
        lengths = read_lengths(path)
    except (ConfigError, OSError, MemoryError):
        return
    assert lengths.values.dtype == np.int64
    assert lengths.values.size > 0
    assert lengths.values.min() >= 0


def test_the_block_of_a_configuration(write):
    assert cli_settings.read_block(Path(write("a.yaml", "seq_len: 8\nalgorithm: {name: lpt}\n"))) == {
        "seq_len": 8,
        "algorithm": {"name": "lpt"},
    }
    trainer = Path(write("b.yaml", "model: x\npacking:\n  seq_len: 8\n  data_parallel_size: 2\n"))
    assert cli_settings.merge(trainer, {"seq_len": None, "window": 3, "data_parallel_size": 4}) == {
        "seq_len": 8,
        "window": 3,
        "data_parallel_size": 4,
    }


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"the configuration must be a mapping of options, but got None\."),
        ("- 1\n", r"must be a mapping of options, but got \[1\]\."),
        ("packing: lpt\n", r"must be a mapping of options, but got 'lpt'\."),
        ("1: 2\n", r"the name of an option must be a string, but got 1\."),
        ("a: b\nc: [\n", r"line 3 is not YAML"),
        ("a: !!python/object/apply:os.getcwd []\n", r"line 1 is not YAML \(could not determine a constructor"),
        (b"\xff\xfe\xfd", r"is not YAML"),
        ("a: 1\n", r"`--ranks` must be given \(or `data_parallel_size` in the configuration\)\."),
    ],
)
def test_wrong_configurations(content, message, write):
    with pytest.raises(ConfigError, match=message):
        cli_settings.merge(Path(write("a.yaml", content)), {"window": None})
