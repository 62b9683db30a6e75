# What pair repair needs besides reachability: Phi after two loads are replaced, and a small stable sort.

from libc.string cimport memcpy

from packing._kernels._bins cimport count_above
from packing._kernels._typedefs cimport int64_t


cdef struct Candidate:
    int64_t gain, first, second


cdef inline bint before(const Candidate* one, const Candidate* other) noexcept nogil:
    """Larger gain first, then the smaller pair."""
    if one.gain != other.gain:
        return one.gain > other.gain
    if one.first != other.first:
        return one.first < other.first
    return one.second < other.second


cdef inline void sort_candidates(Candidate* items, int64_t count, Candidate* spare) noexcept nogil:
    """Merge sort by `before`; `spare` has room for `count`."""
    cdef int64_t width = 1, start, middle, stop, i, j, k
    while width < count:
        start = 0
        while start < count:
            middle = start + width if start + width < count else count
            stop = middle + width if middle + width < count else count
            i, j = start, middle
            for k in range(start, stop):
                if j >= stop or (i < middle and not before(&items[j], &items[i])):
                    spare[k] = items[i]
                    i += 1
                else:
                    spare[k] = items[j]
                    j += 1
            start = stop
        memcpy(items, spare, count * sizeof(Candidate))
        width *= 2


cdef struct Others:
    # The loads of all bins but two, with sums over the round boundaries t * g, once as they are and once shifted by one
    # and by two places: with two more loads x >= y put in, element t * g is others[t * g], x, others[t * g - 1], y or
    # others[t * g - 2], depending on where x and y come.
    int64_t count, group_size, rounds
    int64_t* loads    # [K - 2], descending
    int64_t* sums[3]  # [rounds + 1] each


cdef inline void sum_boundaries(Others* others) noexcept nogil:
    cdef int64_t t, shift, at
    for shift in range(3):
        others.sums[shift][0] = 0
        for t in range(others.rounds):
            at = t * others.group_size - shift
            others.sums[shift][t + 1] = others.sums[shift][t] + (others.loads[at] if 0 <= at < others.count else 0)


cdef inline int64_t twice_phi(const Others* others, int64_t twice_x, int64_t twice_y) noexcept nogil:
    """Twice the sum of elements 0, g, 2g, ... of the other loads with x and y put in (given doubled)."""
    cdef int64_t g = others.group_size, above_x, above_y, t, until, total = 0
    if twice_x < twice_y:
        twice_x, twice_y = twice_y, twice_x
    # 2 * load > twice_x exactly where load > floor(twice_x / 2).
    above_x = count_above(others.loads, others.count, twice_x // 2)
    above_y = count_above(others.loads, others.count, twice_y // 2) + 1
    t = (above_x + g - 1) // g
    total += 2 * others.sums[0][t]
    if above_x % g == 0:
        total += twice_x
        t += 1
    until = (above_y + g - 1) // g
    total += 2 * (others.sums[1][until] - others.sums[1][t])
    t = until
    if above_y % g == 0:
        total += twice_y
        t += 1
    return total + 2 * (others.sums[2][others.rounds] - others.sums[2][t])
