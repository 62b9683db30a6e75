"""Plain-Python specification of subset-sum reachability: which sums the last samples of a list can make."""

from __future__ import annotations

from typing import Any


def suffix_sums(tokens: Any, capacity: int) -> list[int]:
    """Row i, as a Python integer: bit s is set where some of the samples i, i + 1, ... sum to s <= capacity."""
    rows = [1]
    for length in reversed([int(length) for length in tokens]):
        rows.append((rows[-1] | (rows[-1] << length)) & ((2 << capacity) - 1))
    return rows[::-1]


def words(capacity: int) -> int:
    """64-bit words of a row: capacity // 64 + 1."""
    return capacity // 64 + 1


def full_table(
    tokens: Any,  # IN int64[M]
    capacity: int,
    table: Any,  # OUT uint64[M + 1, words(capacity)]
) -> None:
    """Every row of `suffix_sums`, bit s of a row in word s // 64."""
    for i, row in enumerate(suffix_sums(tokens, capacity)):
        for word in range(words(capacity)):
            table[i, word] = (row >> (64 * word)) & (2**64 - 1)


def window_offsets(
    tokens: Any,  # IN int64[M]
    capacity: int,
    first_word: Any,  # OUT int64[M + 1]: the word of the full row that the kept part of row i starts at
    offsets: Any,  # OUT int64[M + 2]: row i is kept in `table[offsets[i]:offsets[i + 1]]`
) -> int:
    """Where `window_table` keeps its rows, and how many words they take together.

    Two bins of this capacity share the samples. What is left at row i, `rest` tokens, can only be completed by sums
    from rest - capacity to min(rest, capacity), so only those words are kept.
    """
    rest, used = sum(int(length) for length in tokens), 0
    for i in range(len(tokens) + 1):
        first_word[i] = max(0, rest - capacity) // 64
        offsets[i] = used
        used += max(0, min(rest, capacity) // 64 + 1 - int(first_word[i]))
        rest -= int(tokens[i]) if i < len(tokens) else 0
    offsets[len(tokens) + 1] = used
    return used


def window_table(
    tokens: Any,  # IN int64[M]
    capacity: int,
    first_word: Any,  # IN int64[M + 1]
    offsets: Any,  # IN int64[M + 2]
    table: Any,  # OUT uint64[offsets[M + 1]]
) -> None:
    """The kept words of every row; bits of sums outside the window may lack, those inside are exact."""
    rest = sum(int(length) for length in tokens)
    for i, row in enumerate(suffix_sums(tokens, capacity)):
        low, high = max(0, rest - capacity), min(rest, capacity)
        kept = row & ((2 << high) - 1) & ~((1 << low) - 1) if high >= low else 0
        for word in range(int(offsets[i + 1] - offsets[i])):
            table[offsets[i] + word] = (kept >> (64 * (int(first_word[i]) + word))) & (2**64 - 1)
        rest -= int(tokens[i]) if i < len(tokens) else 0


def latest_workspace(capacity: int) -> int:
    """Bytes of workspace that `latest` needs; the twin needs none."""
    return 0


def latest(
    tokens: Any,  # IN int64[M], positive
    capacity: int,
    last_start: Any,  # OUT int32[capacity + 1]
    workspace: Any,  # OUT uint8[latest_workspace(capacity)]
) -> None:
    """`last_start[s]` = the largest i for which some of the samples i, i + 1, ... sum to s; -1 where none do.

    The whole table in O(capacity) memory: row i has bit s exactly where last_start[s] >= i.
    """
    rows = suffix_sums(tokens, capacity)
    for s in range(capacity + 1):
        last_start[s] = max((i for i, row in enumerate(rows) if row >> s & 1), default=-1)


def subset(
    tokens: Any,  # IN int64[M]
    last_start: Any,  # IN int32[capacity + 1]
    target: int,
    chosen: Any,  # OUT uint8[M]: 1 for the samples of the subset
) -> bool:
    """One subset that sums to `target`: always the latest samples that can; False where there is none."""
    for i in range(len(tokens)):
        chosen[i] = 0
    if not 0 <= target < len(last_start) or last_start[target] < 0:
        return False
    while target > 0:
        i = int(last_start[target])
        chosen[i] = 1
        target -= int(tokens[i])
    return True
