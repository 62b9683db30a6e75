# Rows of reachable sums as bit sets: shifting, masking, and the O(capacity) table, for the kernels that need them.

from libc.string cimport memset

from packing._kernels._typedefs cimport int32_t, int64_t, uint64_t

cdef extern from *:
    """
    #include <stdint.h>
    static inline int packing_lowest_bit(uint64_t word) { return __builtin_ctzll(word); }
    """
    int lowest_bit "packing_lowest_bit"(uint64_t word) noexcept nogil


cdef inline int64_t num_words(int64_t capacity) noexcept nogil:
    return capacity // 64 + 1


cdef inline uint64_t bits_up_to(int64_t bit) noexcept nogil:
    """Bits 0 .. bit of a word; bit >= 63: all."""
    return ~<uint64_t>0 if bit >= 63 else (<uint64_t>2 << bit) - 1


cdef inline void add_sample(
    const uint64_t* row, int64_t first, int64_t last, uint64_t* target, int64_t target_first, int64_t target_last,
    int64_t length,
) noexcept nogil:
    """target = row | row << length. `row` holds the words first .. last - 1 of its set, `target` likewise; no overlap."""
    cdef int64_t jump = length // 64, word, low, high
    cdef int bits = length % 64
    low = first if first > target_first else target_first
    high = last if last < target_last else target_last
    memset(target, 0, (target_last - target_first) * sizeof(uint64_t))
    for word in range(low, high):
        target[word - target_first] = row[word - first]
    low = first + jump if first + jump > target_first else target_first
    high = last + jump if last + jump < target_last else target_last
    for word in range(low, high):
        target[word - target_first] |= row[word - jump - first] << bits
    if bits:
        low = first + jump + 1 if first + jump + 1 > target_first else target_first
        high = last + jump + 1 if last + jump + 1 < target_last else target_last
        for word in range(low, high):
            target[word - target_first] |= row[word - jump - 1 - first] >> (64 - bits)


cdef inline void latest_starts(
    const int64_t* tokens, int64_t count, int64_t capacity, int32_t* last_start, uint64_t* reached
) noexcept nogil:
    """last_start[s] = the largest i for which some samples from i on sum to s, -1: none; `reached`: num_words(capacity)."""
    cdef int64_t i, word, jump, top, rest = 0, s
    cdef int bits
    cdef uint64_t shifted, fresh
    memset(reached, 0, num_words(capacity) * sizeof(uint64_t))
    memset(last_start, 0xFF, (capacity + 1) * sizeof(int32_t))
    reached[0] = 1
    last_start[0] = <int32_t>count
    for i in range(count - 1, -1, -1):
        rest += tokens[i]
        if tokens[i] > capacity:
            continue
        jump, bits = tokens[i] // 64, tokens[i] % 64
        top = (rest if rest < capacity else capacity) // 64
        # From the top down, so that the words read are those of the row before.
        for word in range(top, jump - 1, -1):
            shifted = reached[word - jump] << bits
            if bits and word > jump:
                shifted |= reached[word - jump - 1] >> (64 - bits)
            fresh = shifted & ~reached[word]
            if word == capacity // 64:
                fresh &= bits_up_to(capacity % 64)
            reached[word] |= fresh
            while fresh:
                s = 64 * word + lowest_bit(fresh)
                last_start[s] = <int32_t>i
                fresh &= fresh - 1


cdef inline bint completes(const int32_t* last_start, int64_t low, int64_t high, int64_t start) noexcept nogil:
    """Whether some samples from `start` on sum to a number between low and high."""
    cdef int64_t s
    for s in range(low, high + 1):
        if last_start[s] >= start:
            return True
    return False
