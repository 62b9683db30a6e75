# The one sorting loop that kernels share: a radix sort of 64-bit words from the least significant digit up.
#
# A word carries its whole key, and whatever travels with it in bits below the key, so a pass reads and writes one
# stream of 8 bytes per element. The histograms of all digits are taken in one read; a digit that is the same in every
# word costs no pass. Stable. `passes * n` time; the caller hands in the second buffer and the counters.
from libc.string cimport memset

from packing._kernels._typedefs cimport uint32_t, uint64_t


cdef inline int bit_length(uint64_t value) noexcept nogil:
    cdef int bits = 0
    while value:
        value >>= 1
        bits += 1
    return bits


cdef inline int digit_width(Py_ssize_t n) noexcept nogil:
    # Counters are cleared and summed once a pass, which should not cost more than the n words do; above 11 bits the
    # write positions no longer stay in a first-level cache.
    return max(4, min(11, bit_length(<uint64_t>n) - 1))


cdef inline Py_ssize_t counter_size(Py_ssize_t n) noexcept nogil:
    """Number of uint32 counters that `sort_words` needs for n words."""
    cdef int width = digit_width(n)
    return <Py_ssize_t>((64 + width - 1) // width) << width


cdef inline void count_digits(
    const uint64_t* words,  # IN [n]
    Py_ssize_t n,
    int shift,
    int width,
    int passes,
    uint32_t* counters,  # OUT [passes << width]
) noexcept nogil:
    cdef uint64_t mask = (<uint64_t>1 << width) - 1
    cdef uint64_t key
    cdef Py_ssize_t i
    cdef int digit
    memset(counters, 0, (<size_t>passes << width) * sizeof(uint32_t))
    for i in range(n):
        key = words[i] >> shift
        for digit in range(passes):
            counters[(<Py_ssize_t>digit << width) + <Py_ssize_t>(key & mask)] += 1
            key >>= width


cdef inline void scatter(
    const uint64_t* words,  # IN [n]
    uint64_t* sorted_words,  # OUT [n]
    Py_ssize_t n,
    int shift,
    int width,
    uint32_t* counters,  # IN [1 << width], the histogram of this digit; spoilt
) noexcept nogil:
    cdef uint64_t mask = (<uint64_t>1 << width) - 1
    cdef uint64_t word
    cdef uint32_t position = 0, count
    cdef Py_ssize_t i, digit
    for digit in range(<Py_ssize_t>1 << width):
        count = counters[digit]
        counters[digit] = position
        position += count
    for i in range(n):
        word = words[i]
        digit = <Py_ssize_t>((word >> shift) & mask)
        sorted_words[counters[digit]] = word
        counters[digit] += 1


cdef inline uint64_t* sort_words(
    uint64_t* words,  # IN [n], spoilt
    uint64_t* spare,  # [n]
    uint32_t* counters,  # [counter_size(n)]
    Py_ssize_t n,
    int first_bit,  # the key is everything from this bit up ...
    int num_bits,  # ... and no bit is set above this many
) noexcept nogil:
    """Sort ascending by key; the result is in the buffer that is returned, either of the two."""
    cdef int width = digit_width(n)
    cdef int passes = (num_bits + width - 1) // width
    cdef int digit, shift
    cdef uint32_t* counts
    if passes == 0 or n < 2:
        return words
    width = (num_bits + passes - 1) // passes
    count_digits(words, n, first_bit, width, passes, counters)
    for digit in range(passes):
        shift = first_bit + digit * width
        counts = counters + (<Py_ssize_t>digit << width)
        if counts[(words[0] >> shift) & ((<uint64_t>1 << width) - 1)] == <uint32_t>n:
            continue
        scatter(words, spare, n, shift, width, counts)
        words, spare = spare, words
    return words
