"""From a file to sample lengths: which column counts, the sum of several, the bundled sample when there is no file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources

from packing import _checks
from packing._checks import Int64Array
from packing.cli.tables import STANDARD_INPUT, Table, Values, read_array, read_table
from packing.errors import ConfigError

__all__ = ["BUNDLED_SAMPLE", "Lengths", "read_lengths"]

BUNDLED_SAMPLE = "openchat_v1"

# Taken without asking when a file has several columns of numbers.
_USUAL_NAMES = ("length", "tokens")
_MOST_NAMES_SHOWN = 20


@dataclass(frozen=True)
class Lengths:
    """Sample lengths in tokens, int64[N] in the order of the file, and what to call them.

    `features` are the further columns that were asked for, N values each, as the file has them.
    """

    values: Int64Array
    source: str
    column: str
    features: Mapping[str, Values] = field(default_factory=dict)

    @property
    def samples(self) -> Int64Array | dict[str, Values]:
        """What the planner takes: plain lengths, or columns where there are features."""
        return {**self.features, "length": self.values} if self.features else self.values


def read_lengths(
    source: str | None, *, column: str | None = None, limit: int | None = None, features: Sequence[str] = ()
) -> Lengths:
    """Read the length of every sample.

    Args:
        source: a path, `-` for standard input, or None for the bundled sample.
        column: a column's name or position, or several joined by `+` that are summed; None takes the only column of
            numbers, or the one called "length" or "tokens".
        limit: keep only the first so many samples.
        features: names of further columns to read; they may hold text.

    Raises:
        ConfigError: the file is not of its format, holds no samples, lacks the column, leaves open which one is
            meant, or a value is not a whole number of at least 0; the message starts with the source.
        OSError: the file cannot be read.
    """
    label = {None: BUNDLED_SAMPLE, STANDARD_INPUT: "standard input"}.get(source, str(source))
    try:
        table = _bundled() if source is None else read_table(source)
        if not table.names:
            raise ConfigError("no samples in it.")
        parts = _chosen(table, column)
        numbers = {name: _checks.integers(name, table.numbers(name)) for name in parts}
        further = {name: table.values(name) for name in _known(table, features)}
        counts = {name: len(column) for name, column in {**further, **numbers}.items()}
        if len(set(counts.values())) > 1:
            raise ConfigError(f"columns must be equally long, but got {counts}.")
        values = _total(list(numbers.values()), " + ".join(parts))[:limit]
        if not values.size:
            raise ConfigError("no samples in it.")
    except ConfigError as error:
        raise ConfigError(f"{label}: {error}") from None
    return Lengths(values, label, "+".join(parts), {name: column[:limit] for name, column in further.items()})


def _bundled() -> Table:
    with (resources.files("packing") / "data" / f"{BUNDLED_SAMPLE}.npy").open("rb") as stream:
        return read_array(stream)


def _chosen(table: Table, column: str | None) -> Sequence[str]:
    names = table.names
    if column is not None:
        # A name that itself holds a plus sign is taken as it is.
        parts = [column] if column in names else [part.strip() for part in column.split("+")]
        if len(set(parts)) < len(parts):
            raise ConfigError(f"`--column` must name each column once, but got {column!r}.")
        return _known(table, parts)
    if len(names) == 1:
        return names
    numeric = [name for name in names if table.is_numeric(name)]
    if len(numeric) == 1:
        return numeric
    for usual in _USUAL_NAMES:
        if usual in numeric:
            return [usual]
    if not numeric:
        raise ConfigError(f"no column holds only numbers; there are {_listed(names)}.")
    raise ConfigError(f"several columns hold numbers: {_listed(numeric)}; name one, or several as A+B, with --column.")


def _known(table: Table, names: Sequence[str]) -> Sequence[str]:
    """The names, all of which the table has."""
    for name in names:
        if name not in table.names:
            raise ConfigError(f"no column {name!r}; there are {_listed(table.names)}.")
    return names


def _total(parts: Sequence[Int64Array], names: str) -> Int64Array:
    """The checked sum of columns of non-negative numbers, row by row."""
    total = parts[0]
    for part in parts[1:]:
        total = total + part
        # Both are non-negative: a sum that wrapped around is smaller than either.
        if (total < part).any():
            raise ConfigError(f"the sum {names} must fit into 64-bit integers.")
    return total


def _listed(names: Sequence[str]) -> str:
    listed = ", ".join(repr(name) for name in names[:_MOST_NAMES_SHOWN])
    return listed if len(names) <= _MOST_NAMES_SHOWN else f"{listed} and {len(names) - _MOST_NAMES_SHOWN} more"
