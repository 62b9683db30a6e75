# The subsets of up to three entries of a bin that an exchange may move, sorted by cost or by tokens.

from libc.string cimport memcpy

from packing._kernels._typedefs cimport int32_t, int64_t

cdef enum:
    MOST_SUBSETS = 8192
    MOST_SINGLE = 8191  # entries of a bin that are looked at alone,
    MOST_PAIRED = 127   # in pairs,
    MOST_TRIPLED = 35   # in threes: as many as keep the list below MOST_SUBSETS


cdef struct Subset:
    int64_t cost, tokens
    int32_t count     # samples
    int32_t first, second, third  # entries, -1: none


cdef struct SubsetList:
    int64_t length
    int64_t bin, depth, version  # what the list was made from; bin -1: nothing yet
    bint by_tokens
    Subset* subsets  # [MOST_SUBSETS], descending by cost or by tokens, equal ones in the order of their entries


cdef inline int64_t key_of(const Subset* subset, bint by_tokens) noexcept nogil:
    return subset.tokens if by_tokens else subset.cost


cdef inline void join(Subset* into, const Subset* part, int32_t entry) noexcept nogil:
    """`into` = `part` and one more entry, whose cost, tokens and count `into` holds."""
    into.cost += part.cost
    into.tokens += part.tokens
    into.count += part.count
    into.first = part.first
    into.second = part.second if part.second >= 0 else entry
    into.third = entry if part.second >= 0 else -1


cdef inline int64_t most_entries(int64_t depth) noexcept nogil:
    if depth == 1:
        return MOST_SINGLE
    return MOST_PAIRED if depth == 2 else MOST_TRIPLED


cdef inline int64_t enumerate_subsets(
    const int32_t* entries, int64_t num_entries, int64_t depth, const int64_t* cost, const int64_t* tokens,
    const int32_t* count, Subset* subsets,
) noexcept nogil:
    """All subsets of 1 to `depth` entries, each row of them in the order of `entries`; then the empty one."""
    cdef int64_t i, j, k, length = 0, pair
    for i in range(num_entries):
        subsets[length].cost, subsets[length].tokens = cost[entries[i]], tokens[entries[i]]
        subsets[length].count = count[entries[i]] if count != NULL else 1
        subsets[length].first, subsets[length].second, subsets[length].third = entries[i], -1, -1
        length += 1
    if depth >= 2:
        for i in range(num_entries):
            for j in range(i + 1, num_entries):
                subsets[length] = subsets[j]
                join(&subsets[length], &subsets[i], entries[j])
                length += 1
    if depth >= 3:
        pair = num_entries
        for i in range(num_entries):
            for j in range(i + 1, num_entries):
                for k in range(j + 1, num_entries):
                    subsets[length] = subsets[k]
                    join(&subsets[length], &subsets[pair], entries[k])
                    length += 1
                pair += 1
    subsets[length].cost = subsets[length].tokens = 0
    subsets[length].count = 0
    subsets[length].first = subsets[length].second = subsets[length].third = -1
    return length + 1


cdef inline void sort_descending(Subset* subsets, int64_t length, bint by_tokens, Subset* spare) noexcept nogil:
    """Stable natural merge sort: rows of pairs and threes are runs already."""
    cdef int64_t start, middle, stop, i, j, at, runs
    while True:
        runs = 0
        start = 0
        while start < length:
            middle = start + 1
            while middle < length and key_of(&subsets[middle - 1], by_tokens) >= key_of(&subsets[middle], by_tokens):
                middle += 1
            runs += 1
            if middle == length:
                break
            stop = middle + 1
            while stop < length and key_of(&subsets[stop - 1], by_tokens) >= key_of(&subsets[stop], by_tokens):
                stop += 1
            memcpy(spare, &subsets[start], (middle - start) * sizeof(Subset))
            i, j, at = 0, middle, start
            while i < middle - start and j < stop:
                if key_of(&subsets[j], by_tokens) > key_of(&spare[i], by_tokens):
                    subsets[at] = subsets[j]
                    j += 1
                else:
                    subsets[at] = spare[i]
                    i += 1
                at += 1
            memcpy(&subsets[at], &spare[i], (middle - start - i) * sizeof(Subset))
            start = stop
        if runs <= 1:
            return
