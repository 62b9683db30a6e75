"""The allocation functions of AReaL: sequences into groups under a token cap, their number a promised multiple."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from packing import _checks
from packing._checks import Int64Array, shown
from packing._fewest_bins import EFFORTS
from packing._fixed_point import exact_sum
from packing.algorithms.auto import Auto
from packing.assignment import Assignment
from packing.bins import fit_fewest
from packing.compat._more_bins import cut_into
from packing.errors import ConfigError, InfeasibleError
from packing.partition import difference
from packing.problem import Problem

__all__ = [
    "PACKING_ALGORITHMS",
    "AllocationError",
    "balanced_greedy_partition",
    "ffd_allocate",
    "get_allocate_fn",
    "kk_allocate",
]

PACKING_ALGORITHMS = ("ffd", "kk")
"""The names that `get_allocate_fn` knows."""

_AUTO = Auto(effort="fast")


class AllocationError(InfeasibleError, RuntimeError):
    """No allocation can exist; AReaL raises a RuntimeError there, and this is one."""


def get_allocate_fn(algorithm: str = "ffd") -> Callable[..., list[list[int]]]:
    """`ffd_allocate` for "ffd", `kk_allocate` for "kk".

    Raises:
        ConfigError: another name; it is a ValueError.
    """
    return {"ffd": ffd_allocate, "kk": kk_allocate}[_checks.one_of("algorithm", algorithm, PACKING_ALGORITHMS)]


def ffd_allocate(
    values: Sequence[int], capacity: int, min_groups: int | None, n_groups_divisor: int = 1
) -> list[list[int]]:
    """Groups of nearly equal sums, none above `capacity`, as few as the limits and a search for the fewest bins allow.

    AReaL's function of this name gives every value, largest first, to the group with the fewest values that has room;
    it can open groups that are not needed and leaves their sums uneven. Here the number of groups is never larger, and
    their sums are balanced as the planner's `auto` (effort "fast") does. Deterministic.

    Args:
        values: N positive whole numbers, the lengths: a list, an array or a CPU tensor.
        capacity: largest sum of a group, at least 1.
        min_groups: fewest groups, at least 0; None: no minimum.
        n_groups_divisor: the number of groups is a multiple of it, at least 1.

    Returns:
        Groups of indices into `values`, ascending in each, none of them empty; the largest sum first.

    Raises:
        ConfigError: an argument has a wrong type or value.
        AllocationError: a value above `capacity`, or fewer values than groups.
    """
    tokens, cap, least, divisor = _checked(values, capacity, min_groups, n_groups_divisor)
    return _balanced(tokens, cap, _promised(tokens, max(least, _fewest(tokens, cap)), divisor))


def kk_allocate(
    values: Sequence[int],
    capacity: int,
    min_groups: int | None,
    n_groups_divisor: int = 1,
    equal_size: bool = False,
) -> list[list[int]]:
    """Largest differencing into as few groups as the sum of the values needs; `ffd_allocate` where it breaks the cap.

    Unlike AReaL's function the number of groups is a multiple of `n_groups_divisor` also where there are few values
    (an AllocationError otherwise), and `equal_size` holds also where differencing breaks the cap.

    Args:
        values, capacity, min_groups, n_groups_divisor: as in `ffd_allocate`.
        equal_size: every group gets N / groups values.

    Returns:
        As `ffd_allocate`.

    Raises:
        ConfigError: an argument has a wrong type or value.
        AllocationError: as in `ffd_allocate`; and with `equal_size` where N is no multiple of the groups, or no
            allocation of equal sizes under the cap was found.
    """
    tokens, cap, least, divisor = _checked(values, capacity, min_groups, n_groups_divisor)
    equal = _checks.boolean("equal_size", equal_size)
    count = _promised(tokens, max(least, -(-exact_sum(tokens) // cap)), divisor)
    if equal and count and len(tokens) % count:
        raise AllocationError(
            f"`len(values)` must be a multiple of the {count} groups with `equal_size`, but got {len(tokens)}."
        )
    if count == 0:
        return []
    layout = Assignment(*difference(tokens, count, equal))
    if int(layout.sums(tokens).max()) <= cap:
        return layout.to_bins()
    if not equal:
        return ffd_allocate(tokens.tolist(), cap, least, divisor)
    found = _AUTO.assign(Problem(tokens, tokens, count, capacity=cap, equal_count=True))
    if found is None:
        raise AllocationError(f"no allocation into {count} groups of equal sizes was found under `capacity` {cap}.")
    return _largest_first(found, tokens)


def balanced_greedy_partition(nums: Sequence[int], K: int) -> list[list[int]]:
    """K groups of equal sizes and nearly equal sums: the better of two greedy forms, improved by swaps (`equal_count`).

    Args:
        nums: N positive whole numbers, N a multiple of `K`.
        K: number of groups, at least 1.

    Returns:
        K lists of N / K indices, ascending in each; the largest sum first.

    Raises:
        ConfigError: an argument has a wrong type or value, or N is no positive multiple of `K`; it is a ValueError.
    """
    tokens, count = _positive("nums", nums), _checks.integer("K", K, minimum=1)
    if len(tokens) == 0 or len(tokens) % count:
        raise ConfigError(f"`len(nums)` must be a positive multiple of `K` = {count}, but got {len(tokens)}.")
    found = _AUTO.assign(Problem(tokens, tokens, count, equal_count=True))
    assert found is not None  # without a cap any deal is a layout
    return _largest_first(found, tokens)


def _checked(values: Any, capacity: Any, min_groups: Any, divisor: Any) -> tuple[Int64Array, int, int, int]:
    tokens = _positive("values", values)
    cap = _checks.integer("capacity", capacity, minimum=1, maximum=_checks.LARGEST)
    least = _checks.optional_integer("min_groups", min_groups, minimum=0) or 0
    multiple = _checks.integer("n_groups_divisor", divisor, minimum=1)
    if tokens.max(initial=0) > cap:
        at = int(tokens.argmax())
        raise AllocationError(f"`values` must be at most `capacity` {cap}, but got {tokens[at]} at index {at}.")
    return tokens, cap, least, multiple


def _positive(name: str, values: Any) -> Int64Array:
    tokens = _checks.integers(name, values, minimum=1)
    if exact_sum(tokens) >= _checks.LARGEST:
        raise ConfigError(f"`{name}` must add up to less than 2**62, but got {shown(exact_sum(tokens))}.")
    return tokens


def _fewest(tokens: Int64Array, capacity: int) -> int:
    return len(fit_fewest(tokens, capacity, max_steps=EFFORTS["fast"])[0]) - 1


def _promised(tokens: Int64Array, least: int, divisor: int) -> int:
    """The number of groups: the smallest multiple that is enough; none for no values where none are asked for."""
    count = -(-least // divisor) * divisor
    if count > len(tokens):
        raise AllocationError(
            f"{count} non-empty groups (a multiple of `n_groups_divisor` {divisor}) need as many values, but there are"
            f" only {len(tokens)}."
        )
    return count


def _balanced(tokens: Int64Array, capacity: int, count: int) -> list[list[int]]:
    """`count` groups, at least as many as a packing has that is known; that one is cut where `auto` finds no layout."""
    if count == 0:
        return []
    found = _AUTO.assign(Problem(tokens, tokens, count, capacity=capacity))
    if found is None:
        packed = Assignment(*fit_fewest(tokens, capacity, max_steps=EFFORTS["fast"])[:2])
        found = Assignment.from_bins(cut_into(packed.to_bins(), tokens.tolist(), count))
    return _largest_first(found, tokens)


def _largest_first(layout: Assignment, tokens: Int64Array) -> list[list[int]]:
    sums = layout.sums(tokens)
    bins = [sorted(one) for one in layout.to_bins()]
    return [bins[at] for at in sorted(range(len(bins)), key=lambda at: (-int(sums[at]), bins[at]))]
