"""Optimizer updates: a stream of batches regrouped so that every update has all of its sequences and no others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from packing._checks import shown
from packing._labels import collected, listed
from packing.errors import ConfigError
from packing.records import ReadOnlyDict
from packing.sequences import Sequences

__all__ = ["Update", "joined", "updates"]


@dataclass(frozen=True, eq=False)
class Update:
    """The sequences of one update.

    Attributes:
        number: of the update in the stream, from 0.
        name: its `update_id`, or its number.
        sequences: N of them, in stream order.
        first: position of the first one in the stream.
        is_complete: False only for a last update that has fewer than `sequences_per_update`.
    """

    number: int
    name: Any
    sequences: Sequences
    first: int
    is_complete: bool = True


def updates(
    batches: Iterable[Any], sequences_per_update: int | None, update_id: str | None, pack_incomplete: bool
) -> Iterator[Update]:
    """The updates of a stream; without both settings every batch that has sequences is one.

    Raises:
        ConfigError: a malformed batch (its position is named); batches that do not fit together in one update; an
            `update_id` that is missing or comes again; a stream that ends inside an update, unless `pack_incomplete`.
    """
    if update_id is not None:
        runs = _by_name(_read(batches), update_id)
    elif sequences_per_update is not None:
        runs = _by_count(_read(batches), sequences_per_update)
    else:
        runs = ((None, [batch]) for batch in _read(batches))
    first = 0
    for number, (name, parts) in enumerate(runs):
        sequences = joined(parts)
        complete = sequences_per_update is None or len(sequences) == sequences_per_update
        if not complete and not pack_incomplete:
            raise ConfigError(
                f"the stream ends inside update {number}: it has {len(sequences)} of the {sequences_per_update} "
                '`sequences_per_update`; `last_update` "pack" packs them.'
            )
        yield Update(number, number if update_id is None else name, sequences, first, complete)
        first += len(sequences)


def _read(batches: Iterable[Any]) -> Iterator[tuple[int, Sequences]]:
    """(position, sequences) of every batch that has any."""
    for at, batch in enumerate(batches):
        try:
            sequences = Sequences.of(batch)
        except ConfigError as error:
            raise ConfigError(f"batch {at}: {error}") from error
        if len(sequences):
            yield at, sequences


Run = tuple[Any, list[tuple[int, Sequences]]]


def _by_count(batches: Iterator[tuple[int, Sequences]], count: int) -> Iterator[Run]:
    parts: list[tuple[int, Sequences]] = []
    missing = count
    for at, batch in batches:
        start = 0
        while start < len(batch):
            stop = min(len(batch), start + missing)
            parts.append((at, _part(batch, start, stop)))
            missing -= stop - start
            start = stop
            if missing == 0:
                yield None, parts
                parts, missing = [], count
    if parts:
        yield None, parts


def _by_name(batches: Iterator[tuple[int, Sequences]], update_id: str) -> Iterator[Run]:
    parts: list[tuple[int, Sequences]] = []
    seen: set[Any] = set()
    name: Any = None
    position = 0
    for at, batch in batches:
        if update_id not in batch.values:
            there = ", ".join(map(repr, batch.values)) or "none"
            raise ConfigError(
                f"`update_id` names the value {update_id!r}, but the sequences of batch {at} have: {there}."
            )
        column = batch.values[update_id]
        names = column.tolist() if isinstance(column, np.ndarray) else column
        start = 0
        for stop in range(1, len(names) + 1):
            if stop < len(names) and names[stop] == names[start]:
                continue
            if not parts or names[start] != name:
                if parts:
                    yield name, parts
                name, parts = names[start], []
                _check_new(name, seen, update_id, position + start)
            parts.append((at, _part(batch, start, stop)))
            start = stop
        position += len(names)
    if parts:
        yield name, parts


def _check_new(name: Any, seen: set[Any], update_id: str, position: int) -> None:
    try:
        again = name in seen
    except TypeError:
        raise ConfigError(f"`{update_id}` must be hashable, but sequence {position} has {shown(name)}.") from None
    if again or name != name:
        raise ConfigError(
            f"`{update_id}` of sequence {position} is {shown(name)}, but that update has ended: the sequences of an "
            "update must follow each other."
        )
    seen.add(name)


def _part(batch: Sequences, start: int, stop: int) -> Sequences:
    """The sequences [start, stop) without copying their tokens."""
    if (start, stop) == (0, len(batch)):
        return batch
    begin, end = int(batch.offsets[start]), int(batch.offsets[stop])
    return Sequences(
        batch.offsets[start : stop + 1] - begin,
        batch.input_ids[begin:end],
        ReadOnlyDict({name: feature[..., begin:end] for name, feature in batch.features.items()}),
        batch.loss_mask[begin:end],
        ReadOnlyDict({name: column[start:stop] for name, column in batch.values.items()}),
    )


def joined(parts: list[tuple[int, Sequences]] | list[Any]) -> Sequences:
    """All parts of one update, one after the other."""
    if len(parts) == 1:
        one: Sequences = parts[0][1]
        return one
    at, first = parts[0]
    for other_at, other in parts[1:]:
        for kind in ("features", "values"):
            names, others = sorted(getattr(first, kind)), sorted(getattr(other, kind))
            if names != others:
                raise ConfigError(
                    f"batches {at} and {other_at} of an update must have the same {kind}, but got {names} and {others}."
                )
        for name, feature in first.features.items():
            form, other_form = ((one.dtype, one.shape[:-1]) for one in (feature, other.features[name]))
            if form != other_form:
                raise ConfigError(
                    f"`{name}` must have one dtype and form in batches {at} and {other_at} of an update, but got "
                    f"{form[0]} [{', '.join(map(str, (*form[1], '...')))}] and "
                    f"{other_form[0]} [{', '.join(map(str, (*other_form[1], '...')))}]."
                )
    batches = [sequences for _, sequences in parts]
    return Sequences(
        np.concatenate(([0], np.cumsum(np.concatenate([one.lengths for one in batches])))),
        np.concatenate([one.input_ids for one in batches]),
        {name: np.concatenate([one.features[name] for one in batches], axis=-1) for name in first.features},
        np.concatenate([one.loss_mask for one in batches]),
        {name: _joined_values([one.values[name] for one in batches]) for name in first.values},
    )


def _joined_values(columns: list[Any]) -> Any:
    kinds = {column.dtype.kind if isinstance(column, np.ndarray) else None for column in columns}
    if None not in kinds and len(kinds) == 1:
        return np.concatenate(columns)
    return collected([value for column in columns for value in listed(column)])
