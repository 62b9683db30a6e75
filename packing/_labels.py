"""Labels: values that tell groups or kinds apart, read alike from lists, arrays and tensors, and numbered exactly."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from packing._checks import Int64Array, shown
from packing.errors import ConfigError

__all__ = ["collected", "grouped", "labels_of", "listed", "numbered"]

AnyArray = npt.NDArray[Any]


def listed(values: Any) -> list[Any]:
    """The values of a list, array or tensor one by one; those without dimensions as what they hold.

    A tensor without dimensions is equal to itself alone, and an array without them cannot be hashed. Tuples are
    single values.

    Raises:
        TypeError: a single value, text, a mapping, what cannot be iterated over, or values with dimensions.
    """
    if isinstance(values, (str, bytes, Mapping)):
        raise TypeError
    values = values.tolist() if hasattr(values, "tolist") else list(values)
    if not isinstance(values, list):
        raise TypeError
    kinds = set(map(type, values))
    if tuple in kinds or any(hasattr(kind, "item") and not issubclass(kind, np.generic) for kind in kinds):
        return [_plain(value) for value in values]
    return values


def _plain(value: Any) -> Any:
    if type(value) is tuple:
        return tuple(map(_plain, value))
    dimensions = 0 if isinstance(value, np.generic) else getattr(value, "ndim", None)
    if dimensions:  # a tensor is equal to itself alone
        raise TypeError
    return value.item() if dimensions == 0 and not isinstance(value, np.generic) else value


def collected(values: list[Any]) -> AnyArray | list[Any]:
    """An array where all values are bools, or numbers that one dtype holds exactly; else the list itself.

    NumPy would round integers to doubles where they are beyond int64 or meet floats, and distinct ones would be equal.
    """
    kinds = set(map(type, values))
    bools = {kind for kind in kinds if issubclass(kind, (bool, np.bool_))}
    if (bools and bools != kinds) or not all(issubclass(kind, (int, float, np.number, np.bool_)) for kind in kinds):
        return values
    array = np.asarray(values)
    if array.dtype.kind == "f":
        integers = [int(value) for value in values if isinstance(value, (int, np.integer))]
        if integers and len(integers) == len(values) and min(integers) >= 0 and max(integers) < 2**64:
            return np.asarray(integers, np.uint64)
        if any(abs(value) > 2**53 for value in integers):
            return values
    return array if array.dtype.kind in "biuf" else values


def numbered(values: Any, none: int | None = None) -> Int64Array:
    """Labels 0, 1, ... of values in sorted order, so that equal values have equal labels in any input order.

    Args:
        values: a list, array or tensor of N integers, texts or other sortable values of one type; None is allowed.
        none: the label of None and -1; None: they are values like any other, and None comes first.

    Raises:
        TypeError: mixed types, NaN, or what cannot be hashed.
    """
    is_plain = type(values) is np.ndarray and values.ndim == 1 and values.dtype.kind in "biuf"
    column = values if is_plain else collected(listed(values))
    if isinstance(column, np.ndarray):
        if column.dtype.kind == "f" and np.isnan(column).any():
            raise TypeError
        labels = np.full(column.size, none or 0, np.int64)
        present = np.ones(column.size, np.bool_) if none is None else column != -1
        labels[present] = np.unique(column[present], return_inverse=True)[1]
        return labels
    distinct = {value for value in column if value is not None}
    if any(value != value for value in distinct):
        raise TypeError
    if none is not None:
        distinct.discard(-1)
    first = int(none is None and None in column)
    number: dict[Any, int] = {value: at for at, value in enumerate(sorted(distinct), first)}
    number[None] = 0 if none is None else none
    if none is not None:
        number[-1] = none
    return np.fromiter((number[value] for value in column), np.int64, len(column))


def labels_of(name: str, values: Any, length: int, *, none: int | None = None) -> Int64Array:
    """`numbered` labels of an argument that has a value for each of `length` sequences.

    Raises:
        ConfigError: another number of values, mixed types, NaN, or what cannot be hashed.
    """
    try:
        column = values if type(values) is np.ndarray and values.ndim else listed(values)
    except TypeError:
        raise ConfigError(f"`{name}` must have a value for each sequence, but got {shown(values)}.") from None
    if len(column) != length:
        raise ConfigError(f"`{name}` must have a value for each of the {length} sequences, but got {len(column)}.")
    try:
        return numbered(column, none)
    except TypeError:
        raise ConfigError(f"`{name}` must hold sortable values of one type, but got {shown(listed(column))}.") from None


def grouped(name: str, values: Any) -> dict[Hashable, list[int]]:
    """The indices of each value of an argument, ascending, by value in the order in which values first occur.

    Raises:
        ConfigError: no list of hashable values.
    """
    groups: dict[Hashable, list[int]] = {}
    try:
        for index, value in enumerate(listed(values)):
            groups.setdefault(value, []).append(index)
    except TypeError:
        raise ConfigError(f"`{name}` must be a list of hashable values, but got {shown(values)}.") from None
    return groups
