"""Fixed point: how real costs and footprints become int64, the same on every machine and in every input order."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from packing._checks import Int64Array, first_bool, shown
from packing.errors import ConfigError

__all__ = [
    "SUM_BITS",
    "exact_sum",
    "finite",
    "is_whole",
    "quantise_budget",
    "quantise_components",
    "quantise_costs",
    "to_float",
    "weighted",
]

SUM_BITS = 62
"""Every sum of costs stays below 2**62, so that adding two of them cannot overflow an int64."""

Numbers = npt.NDArray[np.int64] | npt.NDArray[np.float64]


def finite(name: str, values: Any, *, length: int | None = None) -> Numbers:
    """A one-dimensional array of finite, non-negative numbers, as int64 where it holds integers, else float64."""
    try:
        array = np.asarray(values)
    except (ValueError, OverflowError):
        raise ConfigError(f"`{name}` must be a one-dimensional array of numbers, but got {shown(values)}.") from None
    if array.ndim != 1 or (length is not None and array.size != length):
        wanted = "one-dimensional" if length is None else f"one number for each of the {length} samples"
        raise ConfigError(f"`{name}` must be {wanted}, but got shape {array.shape}.")
    if array.size == 0:
        return np.empty(0, np.int64)
    at = first_bool(values)
    if at is not None:
        raise ConfigError(f"`{name}` must hold numbers, but got {values[at]!r} at index {at}.")
    if array.dtype.kind in "iu":
        if array.dtype.kind == "u" and array.max() > np.iinfo(np.int64).max:
            raise ConfigError(f"`{name}` overflows a 64-bit integer: got {array.max().item()}.")
        result: Numbers = np.array(array, np.int64)
    elif array.dtype.kind == "f":
        result = np.array(array, np.float64)
    else:
        at = next(
            (i for i, v in enumerate(array.tolist()) if not isinstance(v, (int, float)) or isinstance(v, bool)), 0
        )
        listed = array.tolist()
        numbers = all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in listed)
        if array.dtype.kind == "O" and numbers and all(abs(v) < 2**63 for v in listed if isinstance(v, int)):
            return finite(name, np.asarray(listed), length=length)
        if array.dtype.kind == "O" and isinstance(array[at], int) and not isinstance(array[at], bool):
            largest = max(array.tolist())
            raise ConfigError(f"`{name}` overflows a 64-bit integer: got {shown(largest)}.")
        raise ConfigError(f"`{name}` must hold numbers, but got {shown(array.tolist()[at])} at index {at}.")
    wrong = ~(np.isfinite(result) & (result >= 0))
    if wrong.any():
        at = int(np.argmax(wrong))
        raise ConfigError(f"`{name}` must be finite and non-negative, but got {result[at].item()!r} at index {at}.")
    return result


def is_whole(values: Numbers) -> bool:
    """True where every value is an integer that a double holds exactly (int64 arrays always are)."""
    if values.dtype == np.int64:
        return True
    return bool(((values == np.floor(values)) & (values < 2.0**53)).all())


def exact_sum(values: Int64Array) -> int:
    """The sum as a Python integer, whatever its size (values are non-negative)."""
    return (int((values >> 31).sum()) << 31) + int((values & 0x7FFFFFFF).sum())


def _bits(largest: float | int) -> int:
    """The smallest b with largest < 2**b."""
    return int(largest).bit_length() if isinstance(largest, int) else math.frexp(largest)[1]


def _scaled(values: Numbers, exponent: int) -> Numbers:
    return np.ldexp(values.astype(np.float64), exponent) if exponent or values.dtype != np.int64 else values


def quantise_costs(cost: Numbers, pad_cost: Numbers | None, num_bins: int) -> tuple[Int64Array, Int64Array | None, int]:
    """Costs and the cost of padding as int64 fixed point with one common exponent e: fixed = round(value * 2**e).

    Whole numbers whose sum stays below 2**62 are kept as they are (e = 0). Otherwise e is the largest exponent for
    which the bit lengths of the largest cost times N and of the largest padding cost times `num_bins` prove that the
    sum stays below 2**62. Bit lengths, not a sum of floats, decide: the result does not depend on the input order.

    Returns:
        (cost int64[N], pad_cost int64[T+1] or None, e).

    Raises:
        ConfigError: a sum could exceed the range of a double, so that no load could be shown.
    """
    parts = [(cost, cost.size)] if pad_cost is None else [(cost, cost.size), (pad_cost, num_bins)]
    if all(is_whole(values) for values, _ in parts):
        whole = [values.astype(np.int64) for values, _ in parts]
        total = exact_sum(whole[0]) + (int(whole[1].max(initial=0)) * num_bins if len(whole) > 1 else 0)
        if total < 1 << SUM_BITS:
            return whole[0], whole[1] if len(whole) > 1 else None, 0
    bits = max(_bits(values.max(initial=0).item()) + count.bit_length() for values, count in parts)
    if bits + len(parts) - 1 > 1023:  # every sum must also be a double, for display
        largest = max(values.max(initial=0).item() for values, _ in parts)
        raise ConfigError(f"`cost` overflows: the sum of all costs must stay below 2**1023, but one is {largest!r}.")
    exponent = SUM_BITS - (bits + len(parts) - 1)
    if all(is_whole(values) for values, _ in parts):
        exponent = min(exponent, 0)
    fixed = [np.rint(_scaled(values, exponent)).astype(np.int64) for values, _ in parts]
    return fixed[0], fixed[1] if len(fixed) > 1 else None, exponent


def weighted(name: str, values: Numbers, weight: float) -> Numbers:
    """`values` times a positive weight: exactly where both are whole and fit, else each product rounded once.

    Raises:
        ConfigError: a product is too large for a double.
    """
    whole = is_whole(values) and is_whole(np.asarray([weight], np.float64))
    if whole and exact_sum(values.astype(np.int64)) * int(weight) < 1 << SUM_BITS:
        return values.astype(np.int64) * int(weight)
    with np.errstate(over="ignore"):
        products: Numbers = values.astype(np.float64) * float(weight)
    return finite(f"objective.weights.{name}` times the component `{name}", products)


def quantise_components(columns: list[Numbers]) -> tuple[Int64Array, int]:
    """Cost components as int64[N, C] fixed point with one exponent; all of them together sum to less than 2**62."""
    whole = all(is_whole(values) for values in columns)
    together = np.concatenate([values.astype(np.int64) if whole else values for values in columns])
    fixed, _, exponent = quantise_costs(together, None, 1)
    return np.ascontiguousarray(fixed.reshape(len(columns), -1).T), exponent


def quantise_budget(footprint: Numbers, budget: float | int) -> tuple[Int64Array, int, int]:
    """One budget and its footprints as int64 with one power-of-two scale; footprints rounded up, the budget down.

    Rounding this way never lets a bin exceed the budget; whole numbers stay exact.

    Returns:
        (footprint int64[N], budget, exponent e): fixed = value * 2**e.
    """
    small = isinstance(budget, int) and budget < 1 << SUM_BITS
    limit: Numbers = np.asarray([budget], np.int64) if small else np.asarray([budget], np.float64)
    largest = max(footprint.max(initial=0).item(), budget)
    bits = _bits(largest) + (footprint.size + 1).bit_length()
    exponent = SUM_BITS - bits
    if is_whole(footprint) and is_whole(limit):
        exponent = min(exponent, 0)
    up = np.ceil(_scaled(footprint, exponent)).astype(np.int64)
    up = np.maximum(up, footprint > 0)  # the scaled value may have underflowed to 0
    return up, int(np.floor(_scaled(limit, exponent))[0]), exponent


def to_float(fixed: Any, exponent: int) -> npt.NDArray[np.float64]:
    """Fixed-point numbers back in the user's unit, for display."""
    return np.ldexp(np.asarray(fixed).astype(np.float64), -exponent)
