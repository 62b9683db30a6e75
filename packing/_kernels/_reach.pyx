"""Subset-sum reachability: which sums the last samples of a list can make, bit-packed."""
# (a) Layout: a row is a set of sums, bit s in 64-bit word s // 64; row i belongs to the samples i, i + 1, ... Rows are
#     kept whole, or only the words that can matter for two bins of one capacity, or as one number per sum (the last row
#     that reaches it), from which every row can be read and a subset be rebuilt.
# (b) The loops are manual because a row is the row after it, shifted by the sample's length and joined; plain words let
#     the compiler vectorise them for whatever the machine has.
# (c) No ties: the answers are sets. `subset` always takes the latest samples that can.
# (d) Time: M * capacity / 64 word operations, about half of them in the windowed form. Memory: (M + 1) * words * 8
#     bytes, about half of it, or 4 bytes per sum.

from libc.string cimport memset

from packing._kernels._reach_rows cimport add_sample, bits_up_to, latest_starts, num_words
from packing._kernels._typedefs cimport int32_t, int64_t, uint8_t, uint64_t


cdef int check_tokens(const int64_t[::1] tokens, int64_t capacity) except -1:
    cdef int64_t i
    if capacity < 0:
        raise ValueError("capacity must not be negative")
    for i in range(tokens.shape[0]):
        if tokens[i] < 1:
            raise ValueError("tokens must be positive")
    return 0


def words(int64_t capacity):
    """64-bit words of a row: capacity // 64 + 1."""
    return num_words(capacity)


def full_table(
    const int64_t[::1] tokens,  # IN int64[M]
    int64_t capacity,
    uint64_t[:, ::1] table,  # OUT uint64[M + 1, words(capacity)]
):
    """Every row: bit s of row i is set where some of the samples i, i + 1, ... sum to s <= capacity."""
    cdef int64_t count = tokens.shape[0], i, width = num_words(capacity), rest = 0, before
    check_tokens(tokens, capacity)
    if table.shape[0] != count + 1 or table.shape[1] != width:
        raise ValueError("table must have one row more than tokens, of words(capacity) words")
    with nogil:
        memset(&table[count, 0], 0, width * sizeof(uint64_t))
        table[count, 0] = 1
        for i in range(count - 1, -1, -1):
            # Beyond the sum of all that follow a row is empty.
            before = num_words(rest if rest < capacity else capacity)
            rest += tokens[i]
            add_sample(&table[i + 1, 0], 0, before, &table[i, 0], 0, width, tokens[i])
            table[i, width - 1] &= bits_up_to(capacity % 64)


def window_offsets(
    const int64_t[::1] tokens,  # IN int64[M]
    int64_t capacity,
    int64_t[::1] first_word,  # OUT int64[M + 1]: the word of the full row that the kept part of row i starts at
    int64_t[::1] offsets,  # OUT int64[M + 2]: row i is kept in `table[offsets[i]:offsets[i + 1]]`
):
    """Where `window_table` keeps its rows, and how many words they take together."""
    cdef int64_t count = tokens.shape[0], i, rest = 0, used = 0, low, high
    check_tokens(tokens, capacity)
    if first_word.shape[0] != count + 1 or offsets.shape[0] != count + 2:
        raise ValueError("first_word must have one value more than tokens, offsets two")
    for i in range(count):
        rest += tokens[i]
    for i in range(count + 1):
        low = rest - capacity if rest > capacity else 0
        high = rest if rest < capacity else capacity
        first_word[i] = low // 64
        offsets[i] = used
        if high // 64 + 1 > first_word[i]:
            used += high // 64 + 1 - first_word[i]
        if i < count:
            rest -= tokens[i]
    offsets[count + 1] = used
    return used


def window_table(
    const int64_t[::1] tokens,  # IN int64[M]
    int64_t capacity,
    const int64_t[::1] first_word,  # IN int64[M + 1]
    const int64_t[::1] offsets,  # IN int64[M + 2]
    uint64_t[::1] table,  # OUT uint64[offsets[M + 1]]
):
    """The kept words of every row; bits of sums outside the window may lack, those inside are exact."""
    cdef int64_t count = tokens.shape[0], i, rest = 0, low, high
    check_tokens(tokens, capacity)
    if first_word.shape[0] != count + 1 or offsets.shape[0] != count + 2 or table.shape[0] != offsets[count + 1]:
        raise ValueError("first_word, offsets and table must be as window_offsets gives them")
    for i in range(count + 1):
        if first_word[i] < 0 or not 0 <= offsets[i] <= offsets[i + 1]:
            raise ValueError("first_word, offsets and table must be as window_offsets gives them")
    with nogil:
        table[offsets[count]] = 1
        for i in range(count - 1, -1, -1):
            rest += tokens[i]
            low = rest - capacity if rest > capacity else 0
            high = rest if rest < capacity else capacity
            if offsets[i + 1] == offsets[i]:
                continue
            add_sample(
                &table[0] + offsets[i + 1], first_word[i + 1], first_word[i + 1] + offsets[i + 2] - offsets[i + 1],
                &table[0] + offsets[i], first_word[i], first_word[i] + offsets[i + 1] - offsets[i], tokens[i],
            )
            table[offsets[i]] &= ~((<uint64_t>1 << (low % 64)) - 1)
            table[offsets[i + 1] - 1] &= bits_up_to(high % 64)


def latest_workspace(int64_t capacity):
    """Bytes of workspace that `latest` needs."""
    return 8 * num_words(capacity) + 8


def latest(
    const int64_t[::1] tokens,  # IN int64[M], positive
    int64_t capacity,
    int32_t[::1] last_start,  # OUT int32[capacity + 1]
    uint8_t[::1] workspace,  # OUT uint8[latest_workspace(capacity)]
):
    """`last_start[s]` = the largest i for which some of the samples i, i + 1, ... sum to s; -1 where none do."""
    check_tokens(tokens, capacity)
    if last_start.shape[0] != capacity + 1:
        raise ValueError("last_start must have capacity + 1 values")
    if workspace.shape[0] < latest_workspace(capacity):
        raise ValueError("the workspace is too small")
    cdef const int64_t* first = &tokens[0] if tokens.shape[0] else NULL
    cdef uint8_t* memory = &workspace[0]
    with nogil:
        latest_starts(
            first, tokens.shape[0], capacity, &last_start[0], <uint64_t*>(memory + (8 - <size_t>memory % 8) % 8)
        )


def subset(
    const int64_t[::1] tokens,  # IN int64[M]
    const int32_t[::1] last_start,  # IN int32[capacity + 1]
    int64_t target,
    uint8_t[::1] chosen,  # OUT uint8[M]: 1 for the samples of the subset
):
    """One subset that sums to `target`: always the latest samples that can; False where there is none."""
    cdef int64_t i, count = tokens.shape[0]
    if chosen.shape[0] != count:
        raise ValueError("chosen must have one value per sample")
    for i in range(count):
        chosen[i] = 0
    if not 0 <= target < last_start.shape[0] or last_start[target] < 0:
        return False
    while target > 0:
        i = last_start[target]
        if not 0 <= i < count or tokens[i] < 1 or tokens[i] > target or chosen[i]:
            raise ValueError("last_start does not belong to these tokens")
        chosen[i] = 1
        target -= tokens[i]
    return True
