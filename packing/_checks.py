"""Argument checks, written once: each returns the checked value or raises a ConfigError that quotes name and value."""

from __future__ import annotations

import math
import operator
from collections.abc import Collection
from typing import Any

import numpy as np
import numpy.typing as npt

from packing.errors import ConfigError

__all__ = [
    "LARGEST",
    "Int64Array",
    "boolean",
    "first_bool",
    "fraction",
    "integer",
    "integers",
    "one_of",
    "optional_integer",
    "real",
    "shown",
]

Int64Array = npt.NDArray[np.int64]

LARGEST = 2**62
"""The largest limit or size: the sum of two still fits into an int64."""


def shown(value: object, limit: int = 80) -> str:
    """`repr(value)`, cut so that a message stays a line."""
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def integer(name: str, value: Any, *, minimum: int | None = None, maximum: int | None = None) -> int:
    """An integer (NumPy integers included, bools not), at least `minimum` and at most `maximum`."""
    kind = {None: "an integer", 0: "a non-negative integer", 1: "a positive integer"}.get(
        minimum, f"an integer of at least {minimum}"
    )
    if isinstance(value, (bool, np.bool_)):
        raise ConfigError(f"`{name}` must be {kind}, but got {value!r}.")
    try:
        number = operator.index(value)
    except TypeError:
        raise ConfigError(f"`{name}` must be {kind}, but got {shown(value)}.") from None
    if minimum is not None and number < minimum:
        raise ConfigError(f"`{name}` must be {kind}, but got {number}.")
    if maximum is not None and number > maximum:
        raise ConfigError(f"`{name}` must be {kind} of at most {maximum}, but got {number}.")
    return number


def optional_integer(name: str, value: Any, *, minimum: int | None = None, maximum: int | None = None) -> int | None:
    """`integer`, or None."""
    return None if value is None else integer(name, value, minimum=minimum, maximum=maximum)


def real(name: str, value: Any, *, minimum: float = 0.0) -> float:
    """A finite real number of at least `minimum` (bools not)."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise ConfigError(f"`{name}` must be a number, but got {shown(value)}.")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number) or number < minimum:
        raise ConfigError(f"`{name}` must be finite and at least {minimum:g}, but got {shown(value)}.")
    return number


def fraction(name: str, value: Any) -> float:
    """A number in [0, 1)."""
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if number and not 0.0 <= value < 1.0:
        raise ConfigError(f"`{name}` must lie in [0, 1), but got {shown(value)}.")
    return real(name, value)


def boolean(name: str, value: Any) -> bool:
    """True or False and nothing that merely looks like it."""
    if not isinstance(value, (bool, np.bool_)):
        raise ConfigError(f"`{name}` must be true or false, but got {shown(value)}.")
    return bool(value)


def one_of(name: str, value: Any, allowed: Collection[str]) -> str:
    """One of a few words."""
    if not isinstance(value, str) or value not in allowed:
        words = ", ".join(f'"{word}"' for word in allowed)
        raise ConfigError(f"`{name}` must be one of {words}, but got {shown(value)}.")
    return value


def first_bool(values: Any) -> int | None:
    """Where a list or tuple holds a bool, which NumPy would take for a number among numbers."""
    if not isinstance(values, (list, tuple)) or not {bool, np.bool_} & set(map(type, values)):
        return None
    return next(at for at, value in enumerate(values) if isinstance(value, (bool, np.bool_)))


def integers(name: str, values: Any, *, minimum: int = 0) -> Int64Array:
    """A one-dimensional array of whole numbers of at least `minimum`, as a new C-contiguous int64[N].

    Whole-valued floats below 2**53 are taken; NaN, infinities, fractions, bools, strings and objects are not.
    """
    if np.ma.is_masked(values):
        raise ConfigError(f"`{name}` must have a value everywhere, but got a masked array with masked values.")
    try:
        array = np.asarray(values)
    except ValueError:
        raise ConfigError(f"`{name}` must be a one-dimensional array of integers, but got {shown(values)}.") from None
    if array.ndim != 1:
        raise ConfigError(f"`{name}` must be one-dimensional, but got shape {array.shape}.")
    if array.size == 0:
        return np.empty(0, np.int64)
    at = first_bool(values)
    if at is not None:
        raise ConfigError(f"`{name}` must hold integers, but got {values[at]!r} at index {at}.")
    if array.dtype.kind == "f":
        array = array.astype(np.float64)
        wrong = ~np.isfinite(array)
        whole = np.where(wrong, 0.5, array)
        wrong |= (whole != np.floor(whole)) | (np.abs(whole) >= 2.0**53)
        if wrong.any():
            at = int(np.argmax(wrong))
            raise ConfigError(f"`{name}` must hold whole numbers, but got {array[at].item()!r} at index {at}.")
    elif array.dtype.kind == "u":
        if array.max() > np.iinfo(np.int64).max:
            raise ConfigError(f"`{name}` must fit into 64-bit integers, but got {array.max().item()}.")
    elif array.dtype.kind != "i":
        listed = array.tolist()
        at = next((i for i, v in enumerate(listed) if not isinstance(v, int) or isinstance(v, bool)), -1)
        if at < 0 and all(-(2**63) <= v < 2**63 for v in listed):
            return integers(name, np.array(listed, np.int64), minimum=minimum)
        if at < 0:  # Python integers that NumPy could not take as such
            at = max(range(len(listed)), key=lambda i: abs(listed[i]))
            raise ConfigError(f"`{name}` must fit into 64-bit integers, but got {shown(listed[at])} at index {at}.")
        raise ConfigError(
            f"`{name}` must hold integers, but got dtype {array.dtype} with {shown(listed[at])} at index {at}."
        )
    result = np.array(array, dtype=np.int64, order="C")
    if result.min() < minimum:
        at = int(np.argmax(result < minimum))
        kind = {0: "non-negative", 1: "positive"}.get(minimum, f"at least {minimum}")
        raise ConfigError(f"`{name}` must be {kind}, but got {int(result[at])} at index {at}.")
    return result
