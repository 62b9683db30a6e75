"""Sorted order of samples: a stable radix argsort by one or two keys, largest first, ties by index.

(a) Layout: the distance of a key from the largest one, and below it the sample's index, packed into one 64-bit word.
    The index rides along in the word, so a pass moves one stream and never gathers. Keys too wide for that are sorted
    in several rounds, least significant part first, each of which packs words in the order found so far.
(b) The loop is manual because a comparison argsort costs log2(N) unpredictable branches a sample, and because no
    NumPy sort takes two keys at once.
(c) Ties: primary descending, then secondary descending, then index ascending.
(d) Time N * ceil(key bits / 11) (a key's bits are those of its range), memory 16 bytes a sample.
"""

from packing._kernels._radix cimport bit_length, counter_size, sort_words
from packing._kernels._typedefs cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

cdef Py_ssize_t SMALL = 48  # below this an insertion sort wins


cdef struct Key:
    const int64_t* values
    int64_t largest
    int bits  # of largest - smallest


cdef inline bint measure(Key* key, const int64_t* values, Py_ssize_t n) noexcept nogil:
    """Fill in the key; false where a value is negative. A key without values is constant."""
    cdef int64_t smallest, largest
    cdef Py_ssize_t i
    key.values, key.largest, key.bits = values, 0, 0
    if values == NULL or n == 0:
        return True
    smallest = largest = values[0]
    for i in range(1, n):
        smallest = min(smallest, values[i])
        largest = max(largest, values[i])
    key.largest = largest
    key.bits = bit_length(<uint64_t>largest - <uint64_t>smallest)
    return smallest >= 0


cdef inline bint comes_before(
    const Key* primary, const Key* secondary, Py_ssize_t one, Py_ssize_t other
) noexcept nogil:
    """Whether sample `one` belongs strictly before `other`, indices left aside."""
    if primary.values[one] != primary.values[other]:
        return primary.values[one] > primary.values[other]
    return secondary.values != NULL and secondary.values[one] > secondary.values[other]


cdef inline void insertion_sort(const Key* primary, const Key* secondary, int32_t* order, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i, place
    for i in range(n):
        place = i
        while place > 0 and comes_before(primary, secondary, i, order[place - 1]):
            order[place] = order[place - 1]
            place -= 1
        order[place] = <int32_t>i


cdef inline void pack_both(
    const Key* primary,
    const Key* secondary,
    int index_bits,
    Py_ssize_t n,
    uint64_t* words,  # OUT [n]
) noexcept nogil:
    cdef int primary_shift = secondary.bits + index_bits
    cdef Py_ssize_t i
    if secondary.bits == 0:
        for i in range(n):
            words[i] = <uint64_t>(primary.largest - primary.values[i]) << primary_shift | <uint64_t>i
        return
    for i in range(n):
        words[i] = (
            <uint64_t>(primary.largest - primary.values[i]) << primary_shift
            | <uint64_t>(secondary.largest - secondary.values[i]) << index_bits
            | <uint64_t>i
        )


cdef inline void pack_part(
    const Key* key,
    int first_bit,
    int num_bits,
    int index_bits,
    const int32_t* order,  # IN [n], sorted by everything less significant
    Py_ssize_t n,
    uint64_t* words,  # OUT [n]
) noexcept nogil:
    cdef uint64_t mask = (<uint64_t>1 << num_bits) - 1
    cdef Py_ssize_t i, sample
    for i in range(n):
        sample = order[i]
        words[i] = (<uint64_t>(key.largest - key.values[sample]) >> first_bit & mask) << index_bits | <uint64_t>sample


cdef inline void unpack(const uint64_t* words, int index_bits, Py_ssize_t n, int32_t* order) noexcept nogil:
    cdef uint64_t mask = (<uint64_t>1 << index_bits) - 1
    cdef Py_ssize_t i
    for i in range(n):
        order[i] = <int32_t>(words[i] & mask)


cdef void sort_in_rounds(
    const Key* key,
    int32_t* order,  # IN/OUT [n]
    Py_ssize_t n,
    int index_bits,
    uint64_t* words,
    uint64_t* spare,
    uint32_t* counters,
) noexcept nogil:
    """Sort `order` by one key of any width, stable, as many bits at once as an index leaves room for."""
    cdef int room = 64 - index_bits
    cdef int first_bit = 0, num_bits
    cdef uint64_t* result
    while first_bit < key.bits:
        num_bits = min(room, key.bits - first_bit)
        pack_part(key, first_bit, num_bits, index_bits, order, n, words)
        result = sort_words(words, spare, counters, n, index_bits, num_bits)
        unpack(result, index_bits, n, order)
        first_bit += num_bits


cdef void radix_argsort(
    const Key* primary,
    const Key* secondary,
    int32_t* order,  # OUT [n]
    Py_ssize_t n,
    uint64_t* words,  # [2n] and then the counters
) noexcept nogil:
    cdef int index_bits = bit_length(<uint64_t>(n - 1))
    cdef int key_bits = primary.bits + secondary.bits
    cdef uint64_t* spare = words + n
    cdef uint32_t* counters = <uint32_t*>(words + 2 * n)
    cdef uint64_t* result
    cdef Py_ssize_t i
    if key_bits + index_bits <= 64:
        pack_both(primary, secondary, index_bits, n, words)
        result = sort_words(words, spare, counters, n, index_bits, key_bits)
        unpack(result, index_bits, n, order)
        return
    for i in range(n):
        order[i] = <int32_t>i
    sort_in_rounds(secondary, order, n, index_bits, words, spare, counters)
    sort_in_rounds(primary, order, n, index_bits, words, spare, counters)


def descending_workspace(Py_ssize_t n):
    """Bytes of workspace that `descending` needs for `n` samples."""
    if n < SMALL:
        return 0
    return 2 * n * sizeof(uint64_t) + counter_size(n) * sizeof(uint32_t) + sizeof(uint64_t)


def descending(
    const int64_t[::1] primary not None,  # IN int64[N], not negative
    const int64_t[::1] secondary,  # IN int64[N], not negative, or None
    int32_t[::1] order not None,  # OUT int32[N]
    uint8_t[::1] workspace not None,  # uint8[descending_workspace(N)]
):
    """Write the permutation that sorts by primary descending, then secondary descending, then index ascending.

    Args:
        primary: IN int64[N], not negative.
        secondary: IN int64[N], not negative, or None when the index alone breaks ties.
        order: OUT int32[N], the sample at each sorted position.
        workspace: uint8[descending_workspace(N)].

    Raises:
        ValueError: shapes that do not match, a workspace that is too small, or a negative value.
    """
    cdef Py_ssize_t n = primary.shape[0]
    cdef const int64_t* secondary_values = NULL
    cdef Key first, second
    cdef bint valid
    cdef size_t raw
    if (secondary is not None and secondary.shape[0] != n) or order.shape[0] != n:
        raise ValueError("`primary`, `secondary` and `order` must have one length.")
    if workspace.shape[0] < descending_workspace(n):
        raise ValueError("`workspace` is too small.")
    if n == 0:
        return
    if secondary is not None:
        secondary_values = &secondary[0]
    with nogil:
        valid = measure(&first, &primary[0], n)
        valid = measure(&second, secondary_values, n) and valid
        if valid and n < SMALL:
            insertion_sort(&first, &second, &order[0], n)
        elif valid:
            raw = (<size_t>&workspace[0] + sizeof(uint64_t) - 1) // sizeof(uint64_t) * sizeof(uint64_t)
            radix_argsort(&first, &second, &order[0], n, <uint64_t*>raw)
    if not valid:
        raise ValueError("`primary` and `secondary` must not be negative.")
