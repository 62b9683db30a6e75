# A whole layout under local search: what every bin holds, the units that the objective compares, and what fits where.
#
# A unit is what the objective takes the largest of: a rank, or under `rounds` a bin. Units are kept sorted by value;
# the leader of its round is the ceiling that a unit may grow to for nothing.

from packing._kernels._exchange_lists cimport Subset
from packing._kernels._typedefs cimport int32_t, int64_t, uint8_t, uint64_t

cdef enum:
    LARGEST = 0
    ROUNDS = 1
    EVERY = 2


cdef struct State:
    int64_t num_entries, num_bins, slots, num_units, bins_per_unit, num_budgets, rank_budgets
    int64_t max_items, stride, weight, target
    int64_t rate  # the least cost of a token, rounded down
    int mode
    bint equal_count
    const int64_t* cost
    const int64_t* tokens
    const int32_t* count      # NULL: one sample each
    const int64_t* footprints
    const int64_t* forbid     # NULL: none
    const uint8_t* locked     # NULL: none
    const int64_t* capacity
    const int64_t* budgets
    const int64_t* pad_cost   # NULL: none
    int32_t* bin_of
    int64_t* bin_cost         # [K]
    int64_t* bin_tokens       # [K]
    int64_t* bin_items        # [K] samples
    int64_t* bin_entries      # [K]
    int64_t* bin_used         # [K, B]
    int64_t* value            # [units]
    int32_t* ranked           # [units] by value descending, then index
    int32_t* place            # [units] where a unit stands in `ranked`
    int32_t* head             # [K] first entry of a bin
    int32_t* after            # [E] next entry of the same bin, ascending
    int32_t* log              # [2 * log_size] entry, bin it came from
    int64_t log_length, log_size
    int64_t checks, max_checks, version
    uint64_t random


cdef inline int64_t load_of(const State* state, int64_t b, int64_t cost, int64_t tokens) noexcept nogil:
    """The load of a bin that holds this much: cost plus the pad cost of what is left."""
    cdef int64_t left = state.capacity[b] - tokens
    if state.pad_cost == NULL:
        return cost
    return cost + state.pad_cost[left if left > 0 else 0]


cdef inline int64_t bin_load(const State* state, int64_t b) noexcept nogil:
    return load_of(state, b, state.bin_cost[b], state.bin_tokens[b])


cdef inline int64_t unit_of(const State* state, int64_t b) noexcept nogil:
    return b // state.bins_per_unit


cdef inline int64_t value_with(const State* state, int64_t unit, int64_t changed, int64_t load) noexcept nogil:
    """The value of a unit whose bin `changed` has this load (-1: as it is): the sum, plus the weighted largest."""
    cdef int64_t b, one, total = 0, largest = 0
    for b in range(unit * state.bins_per_unit, (unit + 1) * state.bins_per_unit):
        one = load if b == changed else bin_load(state, b)
        total += one
        if one > largest:
            largest = one
    return total + state.weight * largest


cdef inline bint comes_before(const State* state, int64_t one, int64_t other) noexcept nogil:
    if state.value[one] != state.value[other]:
        return state.value[one] > state.value[other]
    return one < other


cdef inline void revalue(State* state, int64_t unit) noexcept nogil:
    """Recomputes a unit and moves it to where it belongs among the sorted ones."""
    cdef int64_t at = state.place[unit], other
    state.value[unit] = value_with(state, unit, -1, 0)
    while at > 0 and comes_before(state, unit, state.ranked[at - 1]):
        other = state.ranked[at - 1]
        state.ranked[at] = <int32_t>other
        state.place[other] = <int32_t>at
        at -= 1
    while at + 1 < state.num_units and comes_before(state, state.ranked[at + 1], unit):
        other = state.ranked[at + 1]
        state.ranked[at] = <int32_t>other
        state.place[other] = <int32_t>at
        at += 1
    state.ranked[at] = <int32_t>unit
    state.place[unit] = <int32_t>at


cdef inline int64_t excess(const State* state, int64_t unit) noexcept nogil:
    """The value of a unit over its ceiling, which is 0 unless rounds wait for their leaders."""
    cdef int64_t leader
    if state.mode != ROUNDS:
        return state.value[unit]
    leader = state.ranked[state.place[unit] // state.stride * state.stride]
    return state.value[unit] - state.value[leader]


cdef inline int64_t score_of(const State* state) noexcept nogil:
    """What kicks are judged by: the largest value, or the sum of the leaders of the rounds."""
    cdef int64_t at = 0, total = 0
    if state.mode != ROUNDS:
        return state.value[state.ranked[0]]
    while at < state.num_units:
        total += state.value[state.ranked[at]]
        at += state.stride
    return total


cdef inline int64_t leaders_of(const State* state) noexcept nogil:
    """How many units have the largest value."""
    cdef int64_t count = 1
    while count < state.num_units and state.value[state.ranked[count]] == state.value[state.ranked[0]]:
        count += 1
    return count


cdef inline void unlink(State* state, int64_t entry, int64_t b) noexcept nogil:
    cdef int32_t* link = &state.head[b]
    while link[0] != entry:
        link = &state.after[link[0]]
    link[0] = state.after[entry]


cdef inline void insert(State* state, int64_t entry, int64_t b) noexcept nogil:
    cdef int32_t* link = &state.head[b]
    while link[0] >= 0 and link[0] < entry:
        link = &state.after[link[0]]
    state.after[entry] = link[0]
    link[0] = <int32_t>entry
    state.bin_of[entry] = <int32_t>b


cdef inline void account(State* state, int64_t entry, int64_t b, int64_t sign) noexcept nogil:
    cdef int64_t budget
    state.bin_cost[b] += sign * state.cost[entry]
    state.bin_tokens[b] += sign * state.tokens[entry]
    state.bin_items[b] += sign * (state.count[entry] if state.count != NULL else 1)
    state.bin_entries[b] += sign
    for budget in range(state.num_budgets):
        state.bin_used[b * state.num_budgets + budget] += sign * state.footprints[entry * state.num_budgets + budget]


cdef inline void move(State* state, int64_t entry, int64_t goal) noexcept nogil:
    """Moves one entry without revaluing units; callers make sure that the log has room."""
    cdef int64_t source = state.bin_of[entry]
    state.log[2 * state.log_length] = <int32_t>entry
    state.log[2 * state.log_length + 1] = <int32_t>source
    state.log_length += 1
    state.checks += 1 + (state.bin_entries[source] + state.bin_entries[goal]) // 16
    unlink(state, entry, source)
    account(state, entry, source, -1)
    insert(state, entry, goal)
    account(state, entry, goal, 1)


cdef inline int32_t member(const Subset* subset, int index) noexcept nogil:
    if index == 0:
        return subset.first
    return subset.second if index == 1 else subset.third


cdef inline void apply_exchange(State* state, const Subset* x, const Subset* y, int64_t p, int64_t q) noexcept nogil:
    """x goes from p to q, y from q to p."""
    cdef int index
    for index in range(3):
        if member(x, index) >= 0:
            move(state, member(x, index), q)
    for index in range(3):
        if member(y, index) >= 0:
            move(state, member(y, index), p)
    revalue(state, unit_of(state, p))
    if unit_of(state, q) != unit_of(state, p):
        revalue(state, unit_of(state, q))
    state.version += 1


cdef inline bint exchangeable(const State* state, int64_t p, int64_t q) noexcept nogil:
    """Whether two bins may trade at all: neither holds an oversized sample, and both hold one kind."""
    if state.bin_tokens[p] > state.capacity[p] or state.bin_tokens[q] > state.capacity[q]:
        return False
    return state.forbid == NULL or state.forbid[state.head[p]] == state.forbid[state.head[q]]


cdef inline int64_t footprint(const State* state, const Subset* subset, int64_t budget) noexcept nogil:
    cdef int64_t total = 0
    cdef int index
    for index in range(3):
        if member(subset, index) >= 0:
            total += state.footprints[member(subset, index) * state.num_budgets + budget]
    return total


cdef inline int64_t used_with(const State* state, int64_t b, int64_t other, int64_t budget) noexcept nogil:
    """What a bin, or for the last budgets its rank, uses before it trades with `other`; no limit inside one rank."""
    cdef int64_t rank = b // state.slots, total = 0
    if budget < state.num_budgets - state.rank_budgets:
        return state.bin_used[b * state.num_budgets + budget]
    if rank == other // state.slots:
        return -(<int64_t>1 << 62)
    for b in range(rank * state.slots, (rank + 1) * state.slots):
        total += state.bin_used[b * state.num_budgets + budget]
    return total


cdef inline int64_t size_of(const Subset* subset) noexcept nogil:
    return (subset.first >= 0) + (subset.second >= 0) + (subset.third >= 0)


cdef inline bint keeps_limits(
    const State* state, const Subset* x, const Subset* y, int64_t p, int64_t q
) noexcept nogil:
    """Whether every limit but the token caps holds after the exchange."""
    cdef int64_t budget, more, samples = x.count - y.count
    cdef int index
    if state.bin_entries[p] == size_of(x) and y.first < 0:
        return False
    if state.max_items:
        if samples > 0 and state.bin_items[q] + samples > state.max_items:
            return False
        if samples < 0 and state.bin_items[p] - samples > state.max_items:
            return False
    if p // state.slots != q // state.slots:
        if state.equal_count and samples != 0:
            return False
        if state.locked != NULL:
            for index in range(3):
                if member(x, index) >= 0 and state.locked[member(x, index)]:
                    return False
                if member(y, index) >= 0 and state.locked[member(y, index)]:
                    return False
    for budget in range(state.num_budgets):
        more = footprint(state, x, budget) - footprint(state, y, budget)
        if more > 0 and used_with(state, q, p, budget) + more > state.budgets[budget]:
            return False
        if more < 0 and used_with(state, p, q, budget) - more > state.budgets[budget]:
            return False
    return True


cdef inline uint64_t draw(State* state, uint64_t below) noexcept nogil:
    """A number below `below`: xorshift64 (Marsaglia 2003) from a fixed seed."""
    state.random ^= state.random << 13
    state.random ^= state.random >> 7
    state.random ^= state.random << 17
    return state.random % below
