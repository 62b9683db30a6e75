# Buckets of sorted positions: their order, joining two, min-heaps and sorting.
#
# The order: sum, then count, then lowest position, a lower one counting as larger. No two buckets are equal.
from packing._kernels._radix cimport bit_length, sort_words
from packing._kernels._typedefs cimport int32_t, int64_t, uint32_t, uint64_t


cdef struct Bucket:
    int64_t total
    int32_t count
    int32_t lowest  # the lowest sorted position in the bucket; it names the bucket


cdef struct Scratch:  # for sorting k buckets
    uint64_t* words  # [k]
    uint64_t* spare  # [k]
    uint32_t* counters  # [counter_size(k)]


cdef inline bint is_smaller(const Bucket* one, const Bucket* other) noexcept nogil:
    if one.total != other.total:
        return one.total < other.total
    if one.count != other.count:
        return one.count < other.count
    return one.lowest > other.lowest


cdef inline void join(Bucket* bucket, const Bucket* other, int32_t* parent) noexcept nogil:
    bucket.total += other.total
    bucket.count += other.count
    if other.lowest < bucket.lowest:
        parent[bucket.lowest] = other.lowest
        bucket.lowest = other.lowest
    else:
        parent[other.lowest] = bucket.lowest


cdef inline void sift_down(Bucket* heap, Py_ssize_t size, Py_ssize_t place) noexcept nogil:
    cdef Bucket moving = heap[place]
    cdef Py_ssize_t child = 2 * place + 1
    while child < size:
        if child + 1 < size and is_smaller(&heap[child + 1], &heap[child]):
            child += 1
        if not is_smaller(&heap[child], &moving):
            break
        heap[place] = heap[child]
        place = child
        child = 2 * place + 1
    heap[place] = moving


cdef inline void sift_up(Bucket* heap, Py_ssize_t place) noexcept nogil:
    cdef Bucket moving = heap[place]
    cdef Py_ssize_t above
    while place > 0:
        above = (place - 1) // 2
        if not is_smaller(&moving, &heap[above]):
            break
        heap[place] = heap[above]
        place = above
    heap[place] = moving


cdef inline void insertion_sort(Bucket* buckets, Py_ssize_t k) noexcept nogil:
    cdef Py_ssize_t i, place
    cdef Bucket moving
    for i in range(1, k):
        moving = buckets[i]
        place = i
        while place > 0 and is_smaller(&moving, &buckets[place - 1]):
            buckets[place] = buckets[place - 1]
            place -= 1
        buckets[place] = moving


cdef inline void heap_sort(Bucket* buckets, Py_ssize_t k) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(k // 2 - 1, -1, -1):
        sift_down(buckets, k, i)
    for i in range(k - 1, 0, -1):
        buckets[0], buckets[i] = buckets[i], buckets[0]
        sift_down(buckets, i, 0)
    for i in range(k // 2):
        buckets[i], buckets[k - 1 - i] = buckets[k - 1 - i], buckets[i]


cdef inline bint radix_sort(Bucket* buckets, Py_ssize_t k, Py_ssize_t num_positions, Scratch* scratch) noexcept nogil:
    """Sort by way of words that hold a whole bucket each; false, and nothing done, where 64 bits do not suffice."""
    cdef int64_t least_total = buckets[0].total, most_total = least_total
    cdef int32_t least_count = buckets[0].count, most_count = least_count
    cdef int position_bits = bit_length(<uint64_t>(num_positions - 1))
    cdef int count_bits, total_bits
    cdef uint64_t word, count_mask, position_mask = (<uint64_t>1 << position_bits) - 1
    cdef uint64_t* words = scratch.words
    cdef Py_ssize_t i
    for i in range(1, k):
        least_total = min(least_total, buckets[i].total)
        most_total = max(most_total, buckets[i].total)
        least_count = min(least_count, buckets[i].count)
        most_count = max(most_count, buckets[i].count)
    count_bits = bit_length(<uint64_t>(most_count - least_count))
    count_mask = (<uint64_t>1 << count_bits) - 1
    total_bits = bit_length(<uint64_t>(most_total - least_total))
    if total_bits + count_bits + position_bits > 64:
        return False
    for i in range(k):
        word = <uint64_t>(buckets[i].total - least_total)
        word = word << count_bits | <uint64_t>(buckets[i].count - least_count)
        words[i] = word << position_bits | <uint64_t>(num_positions - 1 - buckets[i].lowest)
    words = sort_words(words, scratch.spare, scratch.counters, k, 0, total_bits + count_bits + position_bits)
    for i in range(k):
        word = words[i] >> position_bits
        buckets[i].lowest = <int32_t>(num_positions - 1 - <Py_ssize_t>(words[i] & position_mask))
        buckets[i].count = least_count + <int32_t>(word & count_mask)
        buckets[i].total = least_total + <int64_t>(word >> count_bits)
    return True


cdef inline void sort_buckets(Bucket* buckets, Py_ssize_t k, Py_ssize_t num_positions, Scratch* scratch) noexcept nogil:
    """Ascending in the bucket order."""
    if k <= 32:  # where the two were equally fast
        insertion_sort(buckets, k)
    elif not radix_sort(buckets, k, num_positions, scratch):
        heap_sort(buckets, k)
