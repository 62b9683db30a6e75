"""What a trainer hands in, read into columns: lengths, keys, and what estimators and limits ask for by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from packing import _checks
from packing._checks import Int64Array, shown
from packing._labels import collected
from packing.errors import ConfigError
from packing.records import SampleKey, SampleMetadata

__all__ = ["Batch", "read_reference", "read_samples"]


@dataclass(frozen=True, slots=True)
class Batch:
    """The samples of one step, in the order in which they were handed in.

    Attributes:
        lengths: int64[N], tokens before alignment.
        keys: int64[N, 3] (reader_rank, dataset_index, global_sample_position), or None: positions are the keys.
        columns: name -> values, "length" always among them.
        records: the `SampleMetadata` records, where those were handed in.
        by_key: int64[N], positions in key order.
    """

    lengths: Int64Array
    keys: Int64Array | None
    columns: Mapping[str, Any]
    records: Sequence[SampleMetadata] | None
    by_key: Int64Array

    def column(self, option: str, name: str) -> npt.NDArray[Any]:
        """The column that an option names, or a ConfigError that lists those there are."""
        return _as_array(name, self.given(option, name))

    def given(self, option: str, name: str) -> Any:
        """The same as it was handed in."""
        try:
            return self.columns[name]
        except KeyError:
            there = ", ".join(sorted(map(str, self.columns)))
            raise ConfigError(f"`{option}` names the column {name!r}, but the samples have: {there}.") from None

    def describe(self, position: int) -> str:
        """A sample in words: its position, and its key where it has one."""
        if self.keys is None:
            return f"sample {position}"
        return f"sample {position} with key {tuple(self.keys[position].tolist())}"

    def describe_index(self, index: int) -> str:
        """The same for an index of the problem, which is in key order."""
        return self.describe(int(self.by_key[index]))


class _RecordColumns(Mapping[str, Any]):
    """Columns of records, taken out on first use: "length", named packing costs and features."""

    def __init__(self, records: Sequence[SampleMetadata], lengths: Int64Array) -> None:
        self._records = records
        self._columns: dict[str, Any] = {"length": lengths}

    def __getitem__(self, name: str) -> Any:
        if name not in self._columns:
            self._columns[name] = self._collected(name)
        return self._columns[name]

    def _collected(self, name: str) -> Any:
        values: list[Any] = []
        for record in self._records:
            for source in (record.packing_costs, record.features):
                if name in source:
                    values.append(source[name])
                    break
        if not values:
            raise KeyError(name)
        if len(values) < len(self._records):
            at = next(i for i, r in enumerate(self._records) if name not in r.packing_costs and name not in r.features)
            raise ConfigError(f"`samples` must all have {name!r}, but the record at index {at} has not.")
        exact = collected(values)
        return exact if isinstance(exact, np.ndarray) else _as_array(name, values)

    def __iter__(self) -> Iterator[str]:
        names = {"length"}
        if self._records:
            names |= self._records[0].packing_costs.keys() | self._records[0].features.keys()
        return iter(sorted(names))

    def __len__(self) -> int:
        return len(list(iter(self)))


def _as_array(name: str, values: Any) -> npt.NDArray[Any]:
    try:
        return np.asarray(values)
    except ValueError:
        raise ConfigError(
            f"`samples[{name!r}]` must have one value for each sample, but got {shown(values)}."
        ) from None


def read_samples(samples: Any, argument: str = "samples") -> Batch:
    """Reads an array or list of lengths, a mapping of columns, or a sequence of `SampleMetadata` records.

    Columns: "length" is needed; "key" (N values, or N rows of up to three) identifies samples across ranks.

    Args:
        samples: any of these.
        argument: its name, for messages.

    Raises:
        ConfigError: nothing there, a length that is no positive integer, columns of different lengths, a key twice.
    """
    records: Sequence[SampleMetadata] | None = None
    keys: Int64Array | None = None
    columns: Mapping[str, Any]
    if isinstance(samples, Mapping):
        if "length" not in samples:
            raise ConfigError(f"`{argument}` must have a column 'length', but has: {', '.join(map(str, samples))}.")
        lengths = _lengths(f"{argument}['length']", samples["length"])
        columns = dict(samples) | {"length": lengths}
        for name, values in columns.items():
            try:
                got = f"has {len(values)}" if len(values) != lengths.size else None
            except TypeError:
                got = f"got {shown(values)}"
            if got:
                raise ConfigError(f"`{argument}[{name!r}]` must have {lengths.size} values like 'length', but {got}.")
        if "key" in samples:
            keys = _key_rows(samples["key"])
    elif isinstance(samples, Sequence) and len(samples) and isinstance(samples[0], SampleMetadata):
        for position, record in enumerate(samples):
            if not isinstance(record, SampleMetadata):
                raise ConfigError(f"`{argument}` must all be records, but got {shown(record)} at index {position}.")
        records = samples
        lengths = _checks.integers("pack_tokens", [record.pack_tokens for record in records], minimum=1)
        columns = _RecordColumns(records, lengths)
        keys = _record_keys(records)
    else:
        lengths = _lengths(argument, samples)
        columns = {"length": lengths}
    if lengths.size == 0:
        raise ConfigError(f"`{argument}` must not be empty: there is nothing to plan.")
    lengths.flags.writeable = False
    return Batch(lengths, keys, columns, records, _key_order(keys, lengths.size))


def _lengths(name: str, values: Any) -> Int64Array:
    if isinstance(values, (str, bytes)) or not (hasattr(values, "__len__") or hasattr(values, "__array__")):
        raise ConfigError(f"`{name}` must be lengths, columns or records, but got {shown(values)}.")
    return _checks.integers(name, values, minimum=1)


def _key_rows(values: Any) -> Int64Array:
    try:
        rows: npt.NDArray[Any] = np.asarray(values)
    except ValueError:
        rows = np.empty((0, 0, 0))
    if rows.ndim == 1:
        rows = rows[:, None]
    width = rows.shape[1] if rows.ndim == 2 else 0
    if not 1 <= width <= 3:
        raise ConfigError(f"`samples['key']` must have one to three integers for each sample, but got {shown(values)}.")
    flat = _checks.integers("samples['key']", rows.reshape(-1)).reshape(rows.shape)
    return np.hstack([flat, np.zeros((len(flat), 3 - width), np.int64)])


def _record_keys(records: Sequence[SampleMetadata]) -> Int64Array | None:
    keyless = [position for position, record in enumerate(records) if record.key is None]
    if len(keyless) == len(records):
        return None
    if keyless:
        raise ConfigError(f"`samples` must all have a key or none, but the record at index {keyless[0]} has none.")
    columns = ("reader_rank", "dataset_index", "global_sample_position")
    return np.stack([_checks.integers(f"key.{name}", [getattr(r.key, name) for r in records]) for name in columns], 1)


def _key_order(keys: Int64Array | None, count: int) -> Int64Array:
    if keys is None:
        return np.arange(count)
    order = np.lexsort(keys.T[::-1])
    rows = keys[order]
    same = (rows[1:] == rows[:-1]).all(axis=1)
    if same.any():
        at = int(np.argmax(same))
        raise ConfigError(
            f"`samples` must have distinct keys, but {tuple(rows[at].tolist())} belongs to both index "
            f"{order[at]} and index {order[at + 1]}."
        )
    return order


def read_reference(reference_bins: Any, batch: Batch) -> list[npt.NDArray[np.int64]]:
    """Bins of input positions, from bins of positions or of keys.

    Raises:
        ConfigError: a bin is no sequence, or a sample of the reference is unknown. (Lost and repeated samples and
            broken caps are the audit's.)
    """
    if isinstance(reference_bins, (str, bytes)) or not isinstance(reference_bins, (Sequence, np.ndarray)):
        raise ConfigError(f"`reference_bins` must be a sequence of bins, but got {shown(reference_bins)}.")
    where: dict[tuple[int, ...], int] | None = None
    bins: list[npt.NDArray[np.int64]] = []
    for index, members in enumerate(reference_bins):
        if isinstance(members, (str, bytes)) or not isinstance(members, (Sequence, np.ndarray)):
            raise ConfigError(f"`reference_bins[{index}]` must be a sequence of samples, but got {shown(members)}.")
        if len(members) and isinstance(members[0], (SampleKey, tuple)):
            if where is None:
                where = {tuple(row): i for i, row in enumerate(batch.keys.tolist())} if batch.keys is not None else {}
            bins.append(np.asarray([_position(key, where, index) for key in members], np.int64))
        else:
            positions = _checks.integers(f"reference_bins[{index}]", members)
            if positions.size and positions.max() >= batch.lengths.size:
                raise ConfigError(
                    f"`reference_bins[{index}]` holds sample {positions.max()}, but there are {batch.lengths.size}."
                )
            bins.append(positions)
    return bins


def _position(key: Any, where: Mapping[tuple[int, ...], int], index: int) -> int:
    if isinstance(key, SampleKey):
        row: tuple[int, ...] = (key.reader_rank, key.dataset_index, key.global_sample_position)
    elif isinstance(key, tuple):
        row = (*key, 0, 0)[: max(3, len(key))]
    else:
        raise ConfigError(f"`reference_bins[{index}]` mixes keys and positions: got {shown(key)}.")
    try:
        known = row in where
    except TypeError:  # not even hashable
        known = False
    if not known:
        raise ConfigError(f"`reference_bins[{index}]` holds the key {row}, but no sample has it.")
    return where[row]
