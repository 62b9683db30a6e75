# Rows of reachable sums as bit sets: shifting, masking, and the O(capacity) table, for the kernels that need them.

from libc.string cimport memcpy, memset

from packing._kernels._typedefs cimport int32_t, int64_t, uint64_t

cdef extern from *:
    """
    #include <stdint.h>
    static inline int packing_lowest_bit(uint64_t word) { return __builtin_ctzll(word); }

    /* into[k] = kept[k] | shifted[k] << bits | shifted[k - 1] >> (64 - bits), the loop that takes all the time. It is
       compiled twice where that helps, and the machine is asked at run time; integers give the same bits either way. */
    static inline __attribute__((always_inline)) void packing_join_loop(
        const uint64_t *kept, const uint64_t *shifted, uint64_t *restrict into, int64_t count, int bits)
    {
        if (bits == 0)
            for (int64_t k = 0; k < count; k++) into[k] = kept[k] | shifted[k];
        else
            for (int64_t k = 0; k < count; k++)
                into[k] = kept[k] | shifted[k] << bits | shifted[k - 1] >> (64 - bits);
    }
    #if defined(__x86_64__) && defined(__GNUC__) && defined(__has_builtin)
    #if __has_builtin(__builtin_shufflevector)
    #define PACKING_AVX512
    /* The loads are what limits it, so the words before are taken from the register and not loaded again. */
    typedef uint64_t packing_lanes __attribute__((vector_size(64), aligned(8), may_alias));
    __attribute__((target("avx512f"))) static void packing_join_avx512(
        const uint64_t *kept, const uint64_t *shifted, uint64_t *restrict into, int64_t count, int bits)
    {
        int64_t k = 0;
        if (bits != 0 && count >= 8) {
            const packing_lanes up = (packing_lanes){} + (uint64_t)bits, down = (packing_lanes){} + (uint64_t)(64 - bits);
            packing_lanes before = (packing_lanes){} + shifted[-1], here;
            for (; k + 8 <= count; k += 8, before = here) {
                here = *(const packing_lanes *)(shifted + k);
                *(packing_lanes *)(into + k) = *(const packing_lanes *)(kept + k) | here << up
                    | __builtin_shufflevector(before, here, 7, 8, 9, 10, 11, 12, 13, 14) >> down;
            }
        }
        packing_join_loop(kept + k, shifted + k, into + k, count - k, bits);
    }
    #endif
    #endif
    static void packing_join(
        const uint64_t *kept, const uint64_t *shifted, uint64_t *restrict into, int64_t count, int bits)
    {
    #ifdef PACKING_AVX512
        if (__builtin_cpu_supports("avx512f")) {
            packing_join_avx512(kept, shifted, into, count, bits);
            return;
        }
    #endif
        packing_join_loop(kept, shifted, into, count, bits);
    }
    """
    int lowest_bit "packing_lowest_bit"(uint64_t word) noexcept nogil
    void join "packing_join"(
        const uint64_t* kept, const uint64_t* shifted, uint64_t* into, int64_t count, int bits
    ) noexcept nogil


cdef inline int64_t num_words(int64_t capacity) noexcept nogil:
    return capacity // 64 + 1


cdef inline uint64_t bits_up_to(int64_t bit) noexcept nogil:
    """Bits 0 .. bit of a word; bit >= 63: all."""
    return ~<uint64_t>0 if bit >= 63 else (<uint64_t>2 << bit) - 1


cdef inline uint64_t word_of(const uint64_t* row, int64_t first, int64_t last, int64_t word) noexcept nogil:
    return row[word - first] if first <= word < last else 0


cdef inline int64_t earlier(int64_t one, int64_t other) noexcept nogil:
    return one if one < other else other


cdef inline void add_sample(
    const uint64_t* row, int64_t first, int64_t last, uint64_t* target, int64_t target_first, int64_t target_last,
    int64_t length,
) noexcept nogil:
    """target = row | row << length. `row` holds the words first .. last - 1 of its set, `target` likewise; no overlap.

    One pass over memory, which is what limits it: runs of words that are only copied, copied and shifted, or only
    shifted, and the single words between them.
    """
    cdef int64_t jump = length // 64, word = target_first, stop, k
    cdef int bits = length % 64, back = 63 - bits
    cdef const uint64_t* source = row - first
    cdef uint64_t* into = target - target_first
    while word < target_last:
        stop = target_last
        if first >= last or word < first or (last <= word < first + jump) or word > last + jump:
            if first < last and word < first + jump:
                stop = earlier(stop, first if word < first else first + jump)
            memset(&into[word], 0, (stop - word) * sizeof(uint64_t))
        elif word < first + jump:
            stop = earlier(stop, earlier(last, first + jump))
            memcpy(&into[word], &source[word], (stop - word) * sizeof(uint64_t))
        elif word == first + jump or word >= last + jump:
            stop = word + 1
            into[word] = word_of(row, first, last, word) | word_of(row, first, last, word - jump) << bits
            into[word] |= word_of(row, first, last, word - jump - 1) >> back >> 1
        elif word < last:
            stop = earlier(stop, last)
            join(&source[word], &source[word - jump], &into[word], stop - word, bits)
        else:
            stop = earlier(stop, last + jump)
            for k in range(word, stop):
                into[k] = source[k - jump] << bits | source[k - jump - 1] >> back >> 1
        word = stop


cdef inline void latest_starts(
    const int64_t* tokens, int64_t count, int64_t capacity, int32_t* last_start, uint64_t* reached
) noexcept nogil:
    """last_start[s] = the largest i for which some samples from i on sum to s, -1: none; `reached`: num_words(capacity)."""
    cdef int64_t i, word, jump, top, rest = 0, s
    # Words from full_first to full_last - 1 have all bits set, so nothing new can come there: short samples fill all but
    # the two ends of the sums within reach, and then a row costs no more than the words that the sample adds.
    cdef int64_t full_first = 0, full_last = 0
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
        word = top + 1
        while word > jump:
            word -= 1
            if full_first <= word < full_last:
                word = full_first
                continue
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
        if full_first == full_last:  # look for a first full word, then let the run of them grow
            word = jump
            while word <= top and ~reached[word]:
                word += 1
            full_first = full_last = word if word <= top else 0
        while full_last <= top and full_last > 0 and ~reached[full_last] == 0:
            full_last += 1
        while full_first > 0 and ~reached[full_first - 1] == 0:
            full_first -= 1


cdef inline bint completes(const int32_t* last_start, int64_t low, int64_t high, int64_t start) noexcept nogil:
    """Whether some samples from `start` on sum to a number between low and high."""
    cdef int64_t s
    for s in range(low, high + 1):
        if last_start[s] >= start:
            return True
    return False
