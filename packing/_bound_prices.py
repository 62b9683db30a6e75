"""Token prices: what the packs of the first rounds can hold, below their levels and within their tokens."""

from __future__ import annotations

import numpy as np

from packing._checks import Int64Array
from packing._fixed_point import exact_sum

__all__ = ["most_held", "priced_rounds"]

_BITS = 60
"""Scaled numbers and their sums over all packs stay below 2**60."""

_PRICES = 32
"""Prices that are tried; each is a proof, and the best of them are close to each other."""


def priced_rounds(cost: Int64Array, tokens: Int64Array, capacity: int, round_size: int, heads: list[int]) -> int:
    """A lower bound on the sum, over rounds of g packs sorted by load, of the largest load in each.

    Let M_r be the largest load of round r, and H_j(M) the most cost that the packs of the first j rounds can hold. The
    later rounds hold the rest, so the objective is at least M_0 + ... + M_(j-1) + (total - H_j(M)) / g. Raising M_r by
    one raises H_j by g at most, so with heads m_r <= M_r that is least at M_r = m_r.

    H_j is bounded by a price p for each token. A pack holds at most one sample over half the capacity; with such a
    sample of cost c and length t it holds at most min(m_r, c + p * (capacity - t)), and every other sample at most
    max(0, cost - p * length) above its price. The dearest such packs in the first rounds bound H_j, whatever p is: the
    minimum is supermodular, so the largest of these values belongs to the largest head.

    Args:
        cost: int64[E], not negative, their sum below 2**62. tokens: int64[E], positive, none above `capacity`.
        capacity: the largest token cap of a bin.
        round_size: g.
        heads: for each round a lower bound on its largest load, pad cost included or not.

    Returns:
        The best bound over all j and all prices tried; 0 where there is nothing to bound.
    """
    if cost.size == 0 or len(heads) < 2:
        return 0
    total = exact_sum(cost)
    levels, held = most_held(cost, tokens, capacity, round_size, heads)
    best = 0
    for j, most in enumerate(held, 1):
        left = max(0, total - most)
        first, later = sum(levels[:j].tolist()), sum(levels[j:].tolist())
        best = max(best, first + max(-(-left // round_size), later))
    return best


def most_held(
    cost: Int64Array, tokens: Int64Array, capacity: int, round_size: int, heads: list[int]
) -> tuple[Int64Array, list[int]]:
    """The heads made to descend, int64[W], and for each j = 1 .. W an upper bound on what the first j rounds hold.

    That is H_j of `priced_rounds`, with the same arguments.
    """
    levels = np.maximum.accumulate(np.asarray(heads[::-1], np.int64))[::-1]
    num_bins = len(heads) * round_size
    shift = _BITS - max(exact_sum(cost), num_bins * int(levels[0])).bit_length()
    held = _held(_shifted(cost, shift), tokens, capacity, round_size, _shifted(levels, shift))
    return levels, [-(-most >> shift) if shift >= 0 else most << -shift for most in held.tolist()]


def _held(cost: Int64Array, tokens: Int64Array, capacity: int, round_size: int, levels: Int64Array) -> Int64Array:
    """int64[W]: for each j = 1 .. W an upper bound on what the first j rounds hold."""
    large = tokens > capacity - tokens
    small_cost, small_tokens = cost[~large], tokens[~large]
    caps = np.repeat(levels, round_size)
    best = np.full(levels.size, exact_sum(cost), np.int64)
    for price in _prices(small_cost, small_tokens, capacity):
        values = np.full(int(large.sum()) + caps.size, price * capacity, np.int64)
        values[: -caps.size] = cost[large] + price * (capacity - tokens[large])
        values = np.sort(values)[::-1][: caps.size]
        profit = int(np.maximum(small_cost - price * small_tokens, 0).sum())
        best = np.minimum(best, np.cumsum(np.minimum(caps, values))[round_size - 1 :: round_size] + profit)
    return best


def _prices(cost: Int64Array, tokens: Int64Array, capacity: int) -> list[int]:
    """Prices of a token at which the samples that are dearer hold a thirty-second, two ... of all tokens."""
    rates = np.minimum(cost // tokens, (1 << _BITS) // capacity)
    order = np.argsort(-rates, kind="stable")
    room = np.cumsum(tokens[order])
    if room.size == 0:
        return [0]
    marks = [int(room[-1]) * part // _PRICES for part in range(_PRICES)]
    return [0, *np.unique(rates[order[np.searchsorted(room, marks, "right")]]).tolist()]


def _shifted(values: Int64Array, shift: int) -> Int64Array:
    """The values times 2**shift, rounded up."""
    return values << shift if shift >= 0 else -(-values >> -shift)
