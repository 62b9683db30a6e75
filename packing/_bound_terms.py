"""Terms of lower bounds on the largest load when samples are divided among ranks without regard to caps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from packing._checks import Int64Array
from packing._fixed_point import SUM_BITS

__all__ = ["Term", "ceiling", "large_samples", "shared_by_several", "shared_rank"]

_LARGEST_SHARE = 16
"""Dual feasible functions u^(k) are tried up to this k: a rank of more samples is seldom bound by their number."""

# All pairs of k + 1 and j in 1 .. k + 1, by k, and where each k begins.
_SHARES_OF = np.concatenate([np.full(k + 1, k + 1) for k in range(1, _LARGEST_SHARE + 1)])
_SHARES_J = np.concatenate([np.arange(1, k + 2) for k in range(1, _LARGEST_SHARE + 1)])
_SHARES_FIRST = np.flatnonzero(_SHARES_J == 1)

_SEARCH_STEPS = 40
"""Capacities that the search for the largest one which cannot do tries at most."""


@dataclass(frozen=True, slots=True)
class Term:
    """One proven bound: an exact score, its name and the proof in words."""

    score: int
    name: str
    why: str


def ceiling(numerator: int, denominator: int) -> int:
    """The quotient rounded up."""
    return -(-numerator // denominator)


def shared_rank(descending: Int64Array, ranks: int) -> Term:
    """The best of c[jR] + ... (j + 1 terms ending at c[jR]): some rank holds j + 1 of the jR + 1 largest costs.

    Source: the classical bound for identical parallel machines (Dell'Amico and Martello 1995, L2).
    """
    shared = np.arange(1, (descending.size - 1) // ranks + 1)
    if shared.size == 0:
        return Term(0, "shared_rank", "")
    sums = np.concatenate(([0], np.cumsum(descending[: int(shared[-1]) * ranks + 1])))
    values = sums[shared * ranks + 1] - sums[shared * ranks - shared]
    best = int(np.argmax(values))
    why = f"some rank must take {best + 2} of the {(best + 1) * ranks + 1} longest samples"
    return Term(int(values[best]), "shared_rank", why)


def shared_by_several(descending: Int64Array, ranks: int) -> Term:
    """Some k ranks together hold at least k floor(n/R) + min(k, n mod R) of the n largest costs; their mean counts.

    Source: Haouari, Gharbi and Jemmali 2006, the lifted bounds for identical parallel machines.
    """
    largest = np.arange(ranks + 1, min(descending.size, 4 * ranks) + 1)
    several = np.arange(2, min(ranks, 8) + 1)[:, None]
    if largest.size == 0 or several.size == 0:
        return Term(0, "shared_ranks", "")
    sums = np.concatenate(([0], np.cumsum(descending)))
    held = several * (largest // ranks) + np.minimum(several, largest % ranks)
    means = -(-(sums[largest] - sums[largest - held]) // several)
    row, column = divmod(int(np.argmax(means)), largest.size)
    why = f"some {several[row, 0]} ranks must take {held[row, column]} of the {largest[column]} longest samples"
    return Term(int(means[row, column]), "shared_ranks", why)


def large_samples(ascending: Int64Array, ranks: int, proven: int, reached: int) -> Term:
    """One more than the largest load for which a dual feasible function proves that it takes more ranks.

    If every rank had a load of at most C, then the costs would fit into R bins of size C; any bin-packing bound above R
    refutes that. The bounds are Martello and Toth's L2 and the functions u^(k) of Fekete and Schepers (2001).

    Args:
        ascending: int64[N], costs. proven: a bound already known, at least the largest cost. reached: what is possible.
    """
    nothing = Term(0, "large_samples", "")
    if proven == 0 or ranks * reached >= 1 << SUM_BITS:
        return nothing
    sums = np.concatenate(([0], np.cumsum(ascending)))
    low, high = proven, reached - 1
    trial = low
    for _ in range(_SEARCH_STEPS):
        if low > high:
            break
        if _needs_more(ascending, sums, ranks, trial):
            low = trial + 1
        elif trial == proven:
            return nothing
        else:
            high = trial - 1
        trial = (low + high) // 2
    if low == proven:
        return nothing
    return Term(low, "large_samples", "the large samples do not fit together on fewer ranks any better")


def _needs_more(ascending: Int64Array, sums: Int64Array, ranks: int, size: int) -> bool:
    """Whether some bound proves that the costs do not fit into `ranks` bins of that size."""
    return _l2(ascending, sums, size) > ranks or _by_shares(ascending, ranks, size)


def _l2(ascending: Int64Array, sums: Int64Array, size: int) -> int:
    """Martello and Toth's L2: with a threshold a, costs over size - a stand alone, those over half have a bin each, and
    those of at least a up to half fill what these leave.
    """
    count = ascending.size
    half = int(np.searchsorted(ascending, size // 2, "right"))
    low = max(0, half - 512)
    thresholds = ascending[low:half]
    alone = count - np.searchsorted(ascending, size - thresholds, "right")
    with_room = count - half - alone
    room = with_room * size - (sums[count - alone] - sums[half])
    filling = sums[half] - sums[np.searchsorted(ascending, thresholds, "left")]
    more = np.maximum(0, -((room - filling) // size))
    return int((count - half) + more.max(initial=0))


def _by_shares(ascending: Int64Array, ranks: int, size: int) -> bool:
    """Whether for some k the sum of u^(k)(c) is over `ranks`: u^(k) is floor((k + 1) c / size) / k, and c / size itself
    where (k + 1) c is a multiple of the size.
    """
    if size >= 1 << 57 or ascending.size >= 1 << 31:
        return False
    # floor((k + 1) c / size) counts the j for which c is at least j / (k + 1) of the size.
    places = _SHARES_J * size
    shares = -(-places // _SHARES_OF)
    at_least = ascending.size - np.searchsorted(ascending, shares, "left")
    exactly = np.where(places % _SHARES_OF == 0, np.searchsorted(ascending, shares, "right"), 0)
    exactly = np.where(exactly > 0, exactly - (ascending.size - at_least), 0)
    terms = _SHARES_OF * at_least - _SHARES_J * exactly
    sums = np.add.reduceat(terms, _SHARES_FIRST)
    of = _SHARES_OF[_SHARES_FIRST]
    return bool((sums > ranks * (of - 1) * of).any())
