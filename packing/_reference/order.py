"""Specification of the order kernel: samples by one or two keys, largest first, ties by index."""

from __future__ import annotations

from typing import Any

__all__ = ["descending", "descending_workspace"]


def descending_workspace(n: int) -> int:
    """Bytes of workspace that `descending` needs for `n` samples: none here."""
    return 0


def descending(
    primary: Any,  # IN int64[N], not negative
    secondary: Any,  # IN int64[N], not negative, or None
    order: Any,  # OUT int32[N]
    workspace: Any,  # uint8[descending_workspace(N)], not used here
) -> None:
    """Write the permutation that sorts by primary descending, then secondary descending, then index ascending.

    Args:
        primary: IN int64[N], not negative.
        secondary: IN int64[N], not negative, or None when the index alone breaks ties.
        order: OUT int32[N], the sample at each sorted position.
        workspace: uint8[descending_workspace(N)].

    Raises:
        ValueError: shapes that do not match, or a negative value.
    """
    n = len(primary)
    if (secondary is not None and len(secondary) != n) or len(order) != n:
        raise ValueError("`primary`, `secondary` and `order` must have one length.")
    first = [int(value) for value in primary]
    second = [0] * n if secondary is None else [int(value) for value in secondary]
    if min(first, default=0) < 0 or min(second, default=0) < 0:
        raise ValueError("`primary` and `secondary` must not be negative.")
    order[:] = sorted(range(n), key=lambda sample: (-first[sample], -second[sample], sample))
