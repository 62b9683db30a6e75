"""Files and standard input as tables of named columns, whatever their format."""

from __future__ import annotations

import contextlib
import csv
import importlib
import io
import json
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np
import numpy.typing as npt

from packing._checks import shown
from packing.errors import ConfigError

__all__ = ["STANDARD_INPUT", "ArrayTable", "Table", "read_array", "read_table"]

STANDARD_INPUT = "-"

# Columns without a name are called by their position, and so is the only column of a plain list.
_ONLY_COLUMN = "0"
_DELIMITERS = (",", "\t", ";")


Values = npt.NDArray[Any] | Sequence[object]


class Table(Protocol):
    """Columns by name. Columns are converted when they are asked for: a file may hold text that nobody needs."""

    @property
    def names(self) -> Sequence[str]:
        """Every column, in the order of the file."""
        ...

    def is_numeric(self, name: str) -> bool:
        """Whether the column holds numbers and nothing else (missing values aside)."""
        ...

    def numbers(self, name: str) -> Values:
        """The column's numbers, one per sample.

        Raises:
            ConfigError: a value is missing or no number; the message says which and where.
        """
        ...

    def values(self, name: str) -> Values:
        """The column as it is, text and missing values (None) included."""
        ...


@dataclass(frozen=True)
class ArrayTable:
    """Columns of NumPy arrays."""

    columns: Mapping[str, npt.NDArray[Any]]

    @property
    def names(self) -> Sequence[str]:
        """Every column, in the order of the file."""
        return list(self.columns)

    def is_numeric(self, name: str) -> bool:
        """Whether the column is one-dimensional and of integers or floats."""
        array = self.columns[name]
        return array.ndim == 1 and array.dtype.kind in "iuf"

    def numbers(self, name: str) -> Values:
        """The array as it is: what it holds is checked where it is used."""
        return self.columns[name]

    def values(self, name: str) -> Values:
        """The array as it is."""
        return self.columns[name]


@dataclass(frozen=True)
class ListTable:
    """Columns of Python values that came from text; None stands for a missing value."""

    columns: Mapping[str, Sequence[object]]
    number: Callable[[object], int | float | None]
    place: Callable[[int], str]

    @property
    def names(self) -> Sequence[str]:
        """Every column, in the order of the file."""
        return list(self.columns)

    def is_numeric(self, name: str) -> bool:
        """Whether there is a value and every value is a number."""
        present = [value for value in self.columns[name] if value is not None]
        return bool(present) and all(self.number(value) is not None for value in present)

    def numbers(self, name: str) -> Values:
        """The column's numbers; a missing value or text is an error that says where."""
        numbers: list[int | float] = []
        for index, value in enumerate(self.columns[name]):
            number = None if value is None else self.number(value)
            if number is None:
                got = "nothing" if value is None else shown(value)
                raise ConfigError(f"`{name}` must be a number, but got {got} ({self.place(index)}).")
            numbers.append(number)
        return numbers

    def values(self, name: str) -> Values:
        """Numbers where all are numbers, otherwise what the file holds."""
        column = self.columns[name]
        if not self.is_numeric(name):
            return column
        return [None if value is None else self.number(value) for value in column]


@dataclass(frozen=True)
class ParquetTable:
    """The columns of one Parquet file, read one by one."""

    file: Any
    types: Any

    @property
    def names(self) -> Sequence[str]:
        """Every column, in the order of the file."""
        return list(self.file.schema_arrow.names)

    def is_numeric(self, name: str) -> bool:
        """Whether the column is of integers or floats; the index that pandas stores is not taken for data."""
        kind = self.file.schema_arrow.field(name).type
        return not name.startswith("__index_level_") and (self.types.is_integer(kind) or self.types.is_floating(kind))

    def numbers(self, name: str) -> Values:
        """The column's numbers; a null is an error that says where."""
        column = self._column(name)
        if column.null_count:
            missing = int(np.argmax(column.is_null().to_numpy()))
            raise ConfigError(f"`{name}` must be a number, but got nothing (row {missing}).")
        array: npt.NDArray[Any] = column.to_numpy()
        return array

    def values(self, name: str) -> Values:
        """The column as Python values, or as an array where it holds numbers only."""
        column = self._column(name)
        values: Values = column.to_pylist() if column.null_count or not self.is_numeric(name) else column.to_numpy()
        return values

    def _column(self, name: str) -> Any:
        with _parsing("Parquet"):
            return self.file.read(columns=[name]).column(0)


def read_table(source: str) -> Table:
    """Read a file by the ending of its name (.npy, .npz, .csv, .tsv, .json, .jsonl, .ndjson, .parquet).

    `-` (standard input) and files with another ending are text whose form is detected: JSON, JSON lines, CSV, or one
    number per line. Pickles are never loaded.

    Raises:
        ConfigError: the content is not of that format, or the library for it is missing.
        OSError: the file cannot be read.
    """
    if source == STANDARD_INPUT:
        return _from_text(_decoded(sys.stdin.buffer.read()))
    path = Path(source)
    ending = path.suffix.lower()
    if ending == ".parquet":
        return _from_parquet(path)
    if ending in (".npy", ".npz"):
        with path.open("rb") as stream:
            return read_array(stream) if ending == ".npy" else _from_archive(stream)
    text = _decoded(path.read_bytes())
    if ending in (".csv", ".tsv"):
        return _from_csv(text, delimiters="\t" if ending == ".tsv" else _DELIMITERS)
    if ending == ".json":
        return _from_json(text)
    if ending in (".jsonl", ".ndjson"):
        return _from_json_lines(text)
    return _from_text(text)


def read_array(stream: IO[bytes]) -> ArrayTable:
    """The columns of a .npy file: the only one of a 1-D array, those of a 2-D array, the fields of a structured one."""
    with _parsing(".npy"):
        array = np.lib.format.read_array(stream, allow_pickle=False)
    if array.dtype.names is not None:
        return ArrayTable({name: array[name] for name in array.dtype.names})
    if array.ndim == 2:
        return ArrayTable({str(index): array[:, index] for index in range(array.shape[1])})
    if array.ndim != 1:
        raise ConfigError(f"the array must have one or two dimensions, but got shape {array.shape}.")
    return ArrayTable({_ONLY_COLUMN: array})


def _from_archive(stream: IO[bytes]) -> ArrayTable:
    # Without this look first, NumPy would answer a file of another kind with advice to allow pickles.
    if not zipfile.is_zipfile(stream):
        raise ConfigError("not a readable .npz file (no archive).")
    stream.seek(0)
    with _parsing(".npz"), np.load(stream, allow_pickle=False) as archive:
        return ArrayTable({name: archive[name] for name in archive.files})


def _from_parquet(path: Path) -> ParquetTable:
    try:
        # By name, because the library is optional and brings no types.
        parquet, types = importlib.import_module("pyarrow.parquet"), importlib.import_module("pyarrow.types")
    except ImportError:
        raise ConfigError("Parquet files need `pyarrow`: pip install 'packing[parquet]'.") from None
    # Opened once before, so that a missing file is reported as for any other format.
    with path.open("rb"), _parsing("Parquet"):
        return ParquetTable(parquet.ParquetFile(path), types)


@contextlib.contextmanager
def _parsing(kind: str) -> Iterator[None]:
    """Turn what a parser of foreign bytes raises, which can be nearly anything, into one message."""
    try:
        yield
    except (ConfigError, OSError, MemoryError):
        raise
    except Exception as error:
        raise ConfigError(f"not a readable {kind} file ({error}).") from None


def _decoded(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"not UTF-8 text (byte {error.start}).") from None


def _from_text(text: str) -> ListTable:
    """JSON when it starts like a JSON document or record; otherwise CSV, of which a number per line is a case."""
    return _from_json(text) if text.lstrip()[:1] in ("[", "{") else _from_csv(text, delimiters=_DELIMITERS)


def _from_csv(text: str, *, delimiters: Sequence[str]) -> ListTable:
    first_line = text.lstrip("\r\n").partition("\n")[0]
    delimiter = next((candidate for candidate in delimiters if candidate in first_line), delimiters[0])
    rows: list[list[str]] = []
    lines: list[int] = []
    # A column of documents beside the lengths exceeds the usual limit; this one fits into a 32-bit C long.
    csv.field_size_limit(2**31 - 1)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True, strict=True)
    try:
        for row in reader:
            if not any(cell.strip() for cell in row):
                continue
            if rows and len(row) != len(rows[0]):
                raise ConfigError(
                    f"line {reader.line_num} must have {len(rows[0])} cells like the first one, but got {len(row)}."
                )
            rows.append(row)
            lines.append(reader.line_num)
    except csv.Error as error:
        raise ConfigError(f"line {reader.line_num} is not CSV ({error}).") from None
    if not rows:
        return ListTable({}, _cell_number, str)
    names = [str(index) for index in range(len(rows[0]))]
    if any(cell.strip() and _cell_number(cell) is None for cell in rows[0]):
        names = [cell.strip() or name for cell, name in zip(rows.pop(0), names, strict=True)]
        lines.pop(0)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ConfigError(f"the header must name each column once, but got {twice!r} twice.")
    columns = {name: [row[index].strip() or None for row in rows] for index, name in enumerate(names)}
    return ListTable(columns, _cell_number, lambda index: f"line {lines[index]}")


def _cell_number(cell: object) -> int | float | None:
    """A cell of text as a number: integers exactly, whatever else looks like a number as a float."""
    text = str(cell)
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            return None


def _from_json(text: str) -> ListTable:
    """A list of numbers or of records, a record of columns, or JSON lines under the wrong name."""
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":
            return _from_json_lines(text)
        raise ConfigError(f"line {error.lineno} is not JSON ({error.msg}).") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"not readable JSON ({error}).") from None
    if isinstance(document, list):
        return _from_records(document, lambda index: f"index {index}")
    if not isinstance(document, dict):
        raise ConfigError(f"the JSON must be a list, or an object of columns, but got {shown(document)}.")
    if not any(isinstance(value, list) for value in document.values()):
        return _from_records([document], lambda index: f"index {index}")
    columns = {name: value for name, value in document.items() if isinstance(value, list)}
    return ListTable(columns, _json_number, lambda index: f"index {index}")


def _from_json_lines(text: str) -> ListTable:
    records: list[object] = []
    lines: list[int] = []
    # Not splitlines(): JSON strings may hold the other line separators of Unicode.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError as error:
            raise ConfigError(f"line {number} is not JSON ({error.msg}).") from None
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"line {number} is not readable JSON ({error}).") from None
        lines.append(number)
    return _from_records(records, lambda index: f"line {lines[index]}")


def _from_records(records: Sequence[object], place: Callable[[int], str]) -> ListTable:
    """Numbers, or objects whose keys are the columns; never both."""
    if not records:
        return ListTable({}, _json_number, place)
    if not isinstance(records[0], dict):
        wrong = next((index for index, value in enumerate(records) if isinstance(value, (dict, list))), None)
        if wrong is None:
            return ListTable({_ONLY_COLUMN: records}, _json_number, place)
        raise ConfigError(
            f"samples must be all numbers or all objects, but got {shown(records[wrong])} ({place(wrong)})."
        )
    names: dict[str, None] = {}
    for index, record in enumerate(records):
        if not isinstance(record, dict):
            raise ConfigError(f"samples must be all numbers or all objects, but got {shown(record)} ({place(index)}).")
        names.update(dict.fromkeys(record))
    columns = {name: [record.get(name) for record in records if isinstance(record, dict)] for name in names}
    return ListTable(columns, _json_number, place)


def _json_number(value: object) -> int | float | None:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None
