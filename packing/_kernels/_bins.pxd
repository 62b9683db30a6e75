# The bins of a layout under construction: limits, loads, and what each score would be after placing an entry.
#
# `balance` is compared as an exact integer. A double only rules out scores that are larger by far more than its error.

from libc.string cimport memmove

from packing._kernels._typedefs cimport int32_t, int64_t, uint8_t

cdef extern from *:
    """
    #include <stdint.h>
    typedef unsigned __int128 packing_uint128;
    static const int64_t packing_unlimited = ((int64_t)1) << 62;
    """
    ctypedef unsigned long long uint128_t "packing_uint128"
    const int64_t UNLIMITED "packing_unlimited"  # a capacity that is no cap


cdef enum:
    BY_LOAD = 0
    BY_MAKESPAN = 1
    BY_BALANCE = 2
    BY_ROUNDS = 3


cdef struct Bins:
    int64_t num_bins, ranks, slots, round_size, num_budgets, max_items
    int score
    bint oversized_single
    const int64_t* capacity
    const int64_t* budgets
    const int64_t* pad_cost  # NULL: none
    int64_t* unused          # [K] capacity left, negative with an oversized sample
    int64_t* pack_load       # [K]
    int64_t* rank_load       # [R]
    int64_t* rank_tokens     # [R]
    int64_t* items           # [K]
    int64_t* value           # [K] `forbid` of the samples in the bin
    int64_t* used            # [K, B]
    int64_t* home            # [groups] rank of each group, -1: none yet
    int64_t* descending      # [K] pack loads sorted descending
    int64_t* room            # [2 * leaves] tree: largest room below the node, -1: none
    int64_t* winner          # [2 * leaves] tree: rank with the smallest key below the node, -1: none
    int64_t leaves
    int64_t top_rank, top_load, next_load  # the largest rank load and the largest of the others
    int64_t rounds_total     # sum of the round leaders
    uint128_t squares        # sum of rank_load**2
    int64_t total            # sum of rank_load


cdef struct Entry:
    int64_t sample, tokens, cost, count, forbid, home
    const int64_t* footprints


cdef struct Choice:
    uint128_t score
    int64_t left, tokens, bin


cdef inline int64_t leaves_of(int64_t ranks) noexcept nogil:
    cdef int64_t leaves = 1
    while leaves < ranks:
        leaves *= 2
    return leaves


cdef inline int64_t* take(uint8_t** cursor, int64_t length) noexcept nogil:
    cdef int64_t* part = <int64_t*>cursor[0]
    cursor[0] += 8 * length
    return part


cdef inline void carve(Bins* bins, uint8_t* memory, int64_t num_groups) noexcept nogil:
    """Divides the workspace; it starts at an 8-byte boundary."""
    cdef uint8_t* cursor = memory + (8 - <size_t>memory % 8) % 8
    bins.leaves = leaves_of(bins.ranks)
    bins.unused = take(&cursor, bins.num_bins)
    bins.pack_load = take(&cursor, bins.num_bins)
    bins.items = take(&cursor, bins.num_bins)
    bins.value = take(&cursor, bins.num_bins)
    bins.descending = take(&cursor, bins.num_bins)
    bins.used = take(&cursor, bins.num_bins * bins.num_budgets)
    bins.rank_load = take(&cursor, bins.ranks)
    bins.rank_tokens = take(&cursor, bins.ranks)
    bins.home = take(&cursor, num_groups)
    bins.room = take(&cursor, 2 * bins.leaves)
    bins.winner = take(&cursor, 2 * bins.leaves)


cdef inline void start(Bins* bins, int64_t num_groups) noexcept nogil:
    """Empty bins: a rank's load is the pad cost of its bins."""
    cdef int64_t b, rank, load, at
    for b in range(num_groups):
        bins.home[b] = -1
    for rank in range(bins.ranks):
        bins.rank_load[rank] = 0
        bins.rank_tokens[rank] = 0
    for b in range(bins.num_bins):
        load = bins.pad_cost[bins.capacity[b]] if bins.pad_cost != NULL else 0
        bins.unused[b] = bins.capacity[b]
        bins.pack_load[b] = load
        bins.rank_load[b // bins.slots] += load
        bins.items[b] = 0
        bins.value[b] = 0
        at = b
        while at > 0 and bins.descending[at - 1] < load:
            bins.descending[at] = bins.descending[at - 1]
            at -= 1
        bins.descending[at] = load
    for b in range(bins.num_bins * bins.num_budgets):
        bins.used[b] = 0
    bins.total = 0
    bins.squares = 0
    for rank in range(bins.ranks):
        bins.total += bins.rank_load[rank]
        bins.squares += <uint128_t>bins.rank_load[rank] * <uint128_t>bins.rank_load[rank]
    bins.rounds_total = 0
    at = 0
    while at < bins.num_bins:
        bins.rounds_total += bins.descending[at]
        at += bins.round_size
    find_top(bins)


cdef inline void find_top(Bins* bins) noexcept nogil:
    cdef int64_t rank
    bins.top_rank, bins.top_load, bins.next_load = 0, bins.rank_load[0], 0
    for rank in range(1, bins.ranks):
        if bins.rank_load[rank] > bins.top_load:
            bins.next_load = bins.top_load
            bins.top_rank, bins.top_load = rank, bins.rank_load[rank]
        elif bins.rank_load[rank] > bins.next_load:
            bins.next_load = bins.rank_load[rank]


cdef inline int64_t count_above(const int64_t* descending, int64_t length, int64_t value) noexcept nogil:
    """How many of the descending values are larger than `value`."""
    cdef int64_t low = 0, high = length, middle
    while low < high:
        middle = (low + high) // 2
        if descending[middle] > value:
            low = middle + 1
        else:
            high = middle
    return low


cdef inline int64_t rounds_after(const Bins* bins, int64_t old, int64_t new) noexcept nogil:
    """Sum of the round leaders after one load `old` became `new`: only boundaries between the two places change."""
    cdef int64_t total = bins.rounds_total, first, last, at, g = bins.round_size
    cdef const int64_t* loads = bins.descending
    if new > old:
        first = count_above(loads, bins.num_bins, new)
        last = count_above(loads, bins.num_bins, old - 1) - 1
        at = (first + g - 1) // g * g
        while at <= last:
            total += (new if at == first else loads[at - 1]) - loads[at]
            at += g
    elif new < old:
        first = count_above(loads, bins.num_bins, old)
        last = count_above(loads, bins.num_bins, new) - 1
        at = (first + g - 1) // g * g
        while at <= last:
            total += (new if at == last else loads[at + 1]) - loads[at]
            at += g
    return total


cdef inline void replace_load(Bins* bins, int64_t old, int64_t new) noexcept nogil:
    """Keeps `descending` sorted."""
    cdef int64_t first, last
    cdef int64_t* loads = bins.descending
    if new > old:
        first = count_above(loads, bins.num_bins, new)
        last = count_above(loads, bins.num_bins, old - 1) - 1
        memmove(&loads[first + 1], &loads[first], (last - first) * sizeof(int64_t))
        loads[first] = new
    elif new < old:
        first = count_above(loads, bins.num_bins, old)
        last = count_above(loads, bins.num_bins, new) - 1
        memmove(&loads[first], &loads[first + 1], (last - first) * sizeof(int64_t))
        loads[last] = new


cdef inline uint128_t squared_variation(uint128_t squares, uint128_t total, int64_t ranks) noexcept nogil:
    """floor(2**60 * (ranks * squares / total**2 - 1)), exactly: long division, since the product needs 160 bits."""
    cdef uint128_t divisor = total * total, quotient = 0, rest = 0
    cdef int bit
    if total == 0:
        return 0
    for bit in range(62, -1, -1):
        quotient *= 2
        rest *= 2
        if rest >= divisor:
            rest -= divisor
            quotient += 1
        if (ranks >> bit) & 1:
            rest += squares  # squares <= divisor
            if rest >= divisor:
                rest -= divisor
                quotient += 1
    quotient -= 1  # ranks * squares >= total**2 (Cauchy and Schwarz)
    for bit in range(60):
        quotient *= 2
        rest *= 2
        if rest >= divisor:
            rest -= divisor
            quotient += 1
    return quotient


cdef inline uint128_t squares_after(const Bins* bins, int64_t rank, int64_t more) noexcept nogil:
    cdef uint128_t old = <uint128_t>bins.rank_load[rank], new = <uint128_t>(bins.rank_load[rank] + more)
    return bins.squares - old * old + new * new


cdef inline double rough_variation(const Bins* bins, int64_t rank, int64_t more) noexcept nogil:
    """ranks * squares / total**2 with a relative error below 1e-14."""
    cdef double total = <double>(bins.total + more)
    if total == 0.0:
        return 1.0
    return <double>bins.ranks * (<double>squares_after(bins, rank, more) / total / total)


cdef inline bint fits(const Bins* bins, int64_t b, const Entry* entry, bint forbidding) noexcept nogil:
    if entry.tokens > bins.unused[b] and not (
        bins.oversized_single and entry.count == 1 and bins.items[b] == 0 and entry.tokens > bins.capacity[b]
    ):
        return False
    return keeps_other_limits(bins, b, entry, forbidding)


cdef inline bint keeps_other_limits(const Bins* bins, int64_t b, const Entry* entry, bint forbidding) noexcept nogil:
    """Whether nothing but its tokens may keep the entry out."""
    cdef int64_t budget
    if bins.max_items and bins.items[b] + entry.count > bins.max_items:
        return False
    if forbidding and bins.items[b] and bins.value[b] != entry.forbid:
        return False
    for budget in range(bins.num_budgets):
        if bins.used[b * bins.num_budgets + budget] + entry.footprints[budget] > bins.budgets[budget]:
            return False
    return True


cdef inline int64_t added_cost(const Bins* bins, int64_t b, const Entry* entry) noexcept nogil:
    """The entry's cost plus the change of the bin's pad cost."""
    cdef int64_t left = bins.unused[b], after = bins.unused[b] - entry.tokens
    if bins.pad_cost == NULL:
        return entry.cost
    return entry.cost + bins.pad_cost[after if after > 0 else 0] - bins.pad_cost[left if left > 0 else 0]


cdef inline uint128_t score_of(const Bins* bins, int64_t b, int64_t more) noexcept nogil:
    cdef int64_t rank = b // bins.slots, others, load
    if bins.score == BY_LOAD:
        return <uint128_t>bins.rank_load[rank]
    if bins.score == BY_ROUNDS:
        return <uint128_t>rounds_after(bins, bins.pack_load[b], bins.pack_load[b] + more)
    if bins.score == BY_MAKESPAN:
        others = bins.next_load if rank == bins.top_rank else bins.top_load
        load = bins.rank_load[rank] + more
        return <uint128_t>(load if load > others else others)
    return squared_variation(squares_after(bins, rank, more), <uint128_t>(bins.total + more), bins.ranks)


cdef inline int64_t capacity_left(const Bins* bins, int64_t b, int64_t length) noexcept nogil:
    cdef int64_t left = bins.unused[b] - length
    return 0 if bins.capacity[b] == UNLIMITED or left < 0 else left


cdef inline bint comes_first(const Choice* one, const Choice* other) noexcept nogil:
    if one.score != other.score:
        return one.score < other.score
    if one.left != other.left:
        return one.left < other.left
    if one.tokens != other.tokens:
        return one.tokens < other.tokens
    return one.bin < other.bin


cdef inline void put(Bins* bins, int64_t b, const Entry* entry) noexcept nogil:
    cdef int64_t rank = b // bins.slots, more = added_cost(bins, b, entry), budget
    if bins.score == BY_ROUNDS:
        bins.rounds_total = rounds_after(bins, bins.pack_load[b], bins.pack_load[b] + more)
        replace_load(bins, bins.pack_load[b], bins.pack_load[b] + more)
    bins.squares = squares_after(bins, rank, more)
    bins.total += more
    bins.unused[b] -= entry.tokens
    bins.pack_load[b] += more
    bins.rank_load[rank] += more
    bins.rank_tokens[rank] += entry.tokens if entry.tokens < bins.capacity[b] else bins.capacity[b]
    bins.items[b] += entry.count
    bins.value[b] = entry.forbid
    for budget in range(bins.num_budgets):
        bins.used[b * bins.num_budgets + budget] += entry.footprints[budget]
    if bins.score == BY_MAKESPAN:
        find_top(bins)
