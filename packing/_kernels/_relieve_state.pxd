# A partial layout that keeps every limit, and the entries that are left out of it.
#
# All limits are rows of one table: what a bin has left of tokens, samples and every budget, so that "fits" is one loop.

from packing._kernels._typedefs cimport int32_t, int64_t, uint64_t


cdef struct State:
    int64_t num_entries, num_bins, slots, width, num_empty, num_left_out, checks
    bint oversized_single, counts_ranks
    const int64_t* weight
    const int64_t* forbid       # NULL: none
    const int32_t* group        # NULL: none
    int32_t* bin_of             # [E] -1: left out
    int64_t* amount             # [E, width] tokens, samples, budgets
    int64_t* limit              # [K, width]
    int64_t* room               # [K, width] what is left of the limit
    int64_t* slack              # [K] the same in units of weight
    int64_t* entries            # [K] how many a bin holds
    int64_t* rank_room          # [R] samples that a rank may still take
    int64_t* penalty            # [E] what leaving it out costs, more after every failure
    int64_t* need               # [width + 1]
    int64_t* group_placed       # [groups]
    int32_t* home               # [groups] rank, where one of the group is placed
    int32_t* group_head         # [groups] first of the group, and [E] the next one
    int32_t* mate
    int32_t* head               # [K] the last one that came into the bin, and [E] its neighbours
    int32_t* after
    int32_t* before
    int32_t* left_out           # [E] a stack
    int32_t* members            # [E] of the bin that is looked at
    int32_t* chosen             # [E] of them, to be ejected
    int32_t* best               # [E] the same of the best bin so far
    uint64_t random


cdef inline uint64_t draw(State* state, uint64_t below) noexcept nogil:
    """A number below `below`: xorshift64 (Marsaglia 2003) from a fixed seed."""
    state.random ^= state.random << 13
    state.random ^= state.random >> 7
    state.random ^= state.random << 17
    return state.random % below


cdef inline int64_t samples_of(const State* state, int64_t entry) noexcept nogil:
    return state.amount[entry * state.width + 1]


cdef inline void put(State* state, int64_t entry, int64_t b) noexcept nogil:
    cdef int64_t column, group
    state.num_empty -= state.entries[b] == 0
    state.entries[b] += 1
    state.slack[b] -= state.weight[entry]
    state.rank_room[b // state.slots] -= samples_of(state, entry)
    for column in range(state.width):
        state.room[b * state.width + column] -= state.amount[entry * state.width + column]
    state.before[entry] = -1
    state.after[entry] = state.head[b]
    if state.head[b] >= 0:
        state.before[state.head[b]] = <int32_t>entry
    state.head[b] = <int32_t>entry
    state.bin_of[entry] = <int32_t>b
    if state.group != NULL and state.group[entry] >= 0:
        group = state.group[entry]
        state.group_placed[group] += 1
        state.home[group] = <int32_t>(b // state.slots)


cdef inline void take_out(State* state, int64_t entry) noexcept nogil:
    cdef int64_t column, b = state.bin_of[entry]
    state.entries[b] -= 1
    state.num_empty += state.entries[b] == 0
    state.slack[b] += state.weight[entry]
    state.rank_room[b // state.slots] += samples_of(state, entry)
    for column in range(state.width):
        state.room[b * state.width + column] += state.amount[entry * state.width + column]
    if state.before[entry] >= 0:
        state.after[state.before[entry]] = state.after[entry]
    else:
        state.head[b] = state.after[entry]
    if state.after[entry] >= 0:
        state.before[state.after[entry]] = state.before[entry]
    state.bin_of[entry] = -1
    if state.group != NULL and state.group[entry] >= 0:
        state.group_placed[state.group[entry]] -= 1


cdef inline void leave_out(State* state, int64_t entry) noexcept nogil:
    state.left_out[state.num_left_out] = <int32_t>entry
    state.num_left_out += 1


cdef inline void eject(State* state, int64_t entry) noexcept nogil:
    take_out(state, entry)
    leave_out(state, entry)


cdef inline int64_t home_of(const State* state, int64_t entry) noexcept nogil:
    """The rank where others of its group are, or -1 where it is free."""
    if state.group == NULL or state.group[entry] < 0 or state.group_placed[state.group[entry]] == 0:
        return -1
    return state.home[state.group[entry]]


cdef inline bint is_bound(const State* state, int64_t entry) noexcept nogil:
    """Whether others of its group are placed, the entry itself being placed as well."""
    return state.group != NULL and state.group[entry] >= 0 and state.group_placed[state.group[entry]] > 1


cdef inline bint same_kind(const State* state, int64_t entry, int64_t b) noexcept nogil:
    return state.forbid == NULL or state.head[b] < 0 or state.forbid[state.head[b]] == state.forbid[entry]


cdef inline bint within(const State* state, int64_t entry, int64_t other, int64_t b, bint alone) noexcept nogil:
    """Whether an entry fits into what a bin has left, `other` (-1: none) taken out of it before; not asked of kinds.

    A sample that is `alone` in its bin may be over its capacity where such samples are allowed.
    """
    cdef int64_t column, more
    cdef bint exempt = alone and state.oversized_single and samples_of(state, entry) == 1
    for column in range(1 if exempt else 0, state.width):
        more = state.amount[entry * state.width + column]
        if other >= 0:
            more -= state.amount[other * state.width + column]
        if more > state.room[b * state.width + column]:
            return False
    return True


cdef inline bint takes(const State* state, int64_t entry, int64_t b) noexcept nogil:
    """Whether a bin takes an entry as it is, on whatever rank its group is."""
    if not same_kind(state, entry, b):
        return False
    if state.counts_ranks and samples_of(state, entry) > state.rank_room[b // state.slots]:
        return False
    return within(state, entry, -1, b, state.entries[b] == 0)


cdef inline bint takes_alone(const State* state, int64_t entry, int64_t b) noexcept nogil:
    """Whether a bin would take an entry if it were empty, on whatever rank its group is."""
    cdef int64_t column, freed
    cdef bint exempt = state.oversized_single and samples_of(state, entry) == 1
    for column in range(1 if exempt else 0, state.width):
        if state.amount[entry * state.width + column] > state.limit[b * state.width + column]:
            return False
    freed = state.limit[b * state.width + 1] - state.room[b * state.width + 1]
    return not state.counts_ranks or samples_of(state, entry) <= state.rank_room[b // state.slots] + freed
