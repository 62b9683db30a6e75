"""Settling: bins a little over their capacity are brought down to it, token by token."""
# (a) Layout: entries are numbered by tokens descending, so that those of one length are found by bisection, and a bin's
#     linked list, ascending by number, is sorted; the subsets of two bins are sorted and walked side by side.
# (b) The loops are manual because every exchange depends on the ones before it.
# (c) Ties: the first one found, in the order that the twin spells out.
# (d) Time: `max_checks` counts what is looked at. Memory: O(K + E) and three lists of subsets in the workspace.

from packing._kernels._exchange_lists cimport Subset, enumerate_subsets, sort_descending
from packing._kernels._typedefs cimport int32_t, int64_t, uint8_t, uint64_t

cdef enum:
    MOST_PAIRED = 64
    MOST_TRIPLED = 16
    MOST_LISTED = 2112  # subsets of 64 entries in pairs, of 16 in threes, and the empty one
    EQUAL = 8


cdef struct State:
    int64_t num_entries, num_bins, num_over, num_under, checks
    const int64_t* cost
    const int64_t* tokens
    int32_t* bin_of
    int64_t* excess   # [K] tokens over capacity, negative: below it
    int32_t* entries  # [K] how many
    int32_t* head     # [K] first entry of a bin
    int32_t* after    # [E] next entry of the same bin, ascending
    int32_t* over     # [K] bins over capacity,
    int32_t* under    # [K] and below it
    int32_t* place    # [K] where a bin stands on its side
    Subset* mine
    Subset* theirs
    Subset* spare
    uint64_t random


cdef struct Exchange:
    Subset x, y  # what leaves the bin, and what comes in return
    int64_t other  # from this one; -1: no exchange


def settle_workspace(int64_t num_entries, int64_t num_bins):
    """Bytes of workspace that `settle` needs."""
    return 3 * MOST_LISTED * sizeof(Subset) + 8 * num_bins + 4 * (5 * num_bins + num_entries) + 64


def settle(
    const int64_t[::1] cost,  # IN int64[E]
    const int64_t[::1] tokens,  # IN int64[E], descending
    int64_t capacity,
    int64_t num_bins,
    int64_t max_checks,
    int32_t[::1] bin_of,  # IN and OUT int32[E]
    uint8_t[::1] workspace,  # OUT uint8[settle_workspace(E, K)]
):
    """Exchanges entries of bins with too many or too few tokens and returns (tokens over capacity, the checks made)."""
    cdef State state
    cdef int64_t num_entries = tokens.shape[0], i, left = 0
    if not (cost.shape[0] == bin_of.shape[0] == num_entries):
        raise ValueError("cost, tokens and bin_of must have the same length")
    if num_bins < 1 or workspace.shape[0] < settle_workspace(num_entries, num_bins):
        raise ValueError("num_bins must be positive, and the workspace large enough")
    for i in range(num_entries):
        if not 0 <= bin_of[i] < num_bins or (i and tokens[i] > tokens[i - 1]):
            raise ValueError("bin_of must name bins, and tokens must descend")
    if num_entries == 0:
        return 0, 0
    state.num_entries, state.num_bins, state.checks = num_entries, num_bins, 0
    state.cost, state.tokens, state.bin_of = &cost[0], &tokens[0], &bin_of[0]
    state.random = 0x9E3779B97F4A7C15
    carve(&state, &workspace[0])
    with nogil:
        start(&state, capacity)
        solve(&state, max_checks)
        for i in range(num_bins):
            left += state.excess[i] if state.excess[i] > 0 else 0
    return left, state.checks


cdef void carve(State* state, uint8_t* memory) noexcept nogil:
    """Divides the workspace: structs and int64 first, from an 8-byte boundary."""
    cdef int64_t bins = state.num_bins
    cdef int32_t* narrow
    memory += (8 - <size_t>memory % 8) % 8
    state.mine = <Subset*>memory
    state.theirs = state.mine + MOST_LISTED
    state.spare = state.theirs + MOST_LISTED
    state.excess = <int64_t*>(state.spare + MOST_LISTED)
    narrow = <int32_t*>(state.excess + bins)
    state.entries, state.head, state.over = narrow, narrow + bins, narrow + 2 * bins
    state.under, state.place, state.after = narrow + 3 * bins, narrow + 4 * bins, narrow + 5 * bins


cdef void start(State* state, int64_t capacity) noexcept nogil:
    cdef int64_t b, entry
    for b in range(state.num_bins):
        state.excess[b] = -capacity
        state.entries[b] = 0
        state.head[b] = -1
    for entry in range(state.num_entries - 1, -1, -1):
        b = state.bin_of[entry]
        state.excess[b] += state.tokens[entry]
        state.entries[b] += 1
        state.after[entry] = state.head[b]
        state.head[b] = <int32_t>entry
    state.num_over = state.num_under = 0
    for b in range(state.num_bins):
        enter(state, b)


cdef void enter(State* state, int64_t b) noexcept nogil:
    """Puts a bin at the end of its side."""
    if state.excess[b] > 0:
        state.over[state.num_over] = <int32_t>b
        state.place[b] = <int32_t>state.num_over
        state.num_over += 1
    elif state.excess[b] < 0:
        state.under[state.num_under] = <int32_t>b
        state.place[b] = <int32_t>state.num_under
        state.num_under += 1


cdef void leave(State* state, int64_t b) noexcept nogil:
    """Takes a bin from its side: the last one there fills the place."""
    cdef int32_t last
    if state.excess[b] > 0:
        state.num_over -= 1
        last = state.over[state.num_over]
        state.over[state.place[b]] = last
    else:
        state.num_under -= 1
        last = state.under[state.num_under]
        state.under[state.place[b]] = last
    state.place[last] = state.place[b]


cdef void change(State* state, int64_t b, int64_t more) noexcept nogil:
    """Changes the excess of a bin, and its side with it."""
    cdef int64_t now = state.excess[b] + more
    if (state.excess[b] > 0) == (now > 0) and (state.excess[b] < 0) == (now < 0):
        state.excess[b] = now
        return
    if state.excess[b] != 0:
        leave(state, b)
    state.excess[b] = now
    enter(state, b)


cdef void solve(State* state, int64_t max_checks) noexcept nogil:
    """Draws a bin over capacity and one below it in turn, until none is over, or the checks are used up."""
    cdef Exchange chosen, matched
    cdef int64_t step = 0, b
    while state.num_over > 0 and state.checks < max_checks:
        if step % 2 and state.num_under > 0:
            b = state.under[<int64_t>draw(state, <uint64_t>state.num_under)]
        else:
            b = state.over[<int64_t>draw(state, <uint64_t>state.num_over)]
        state.checks += 8
        if not single(state, b, &chosen):
            match_other(state, b, &matched)
            if matched.other < 0 and chosen.other < 0:
                match_full(state, b, &matched)
            if matched.other >= 0:
                chosen = matched
        if chosen.other >= 0:
            apply_exchange(state, b, &chosen)
        step += 1


cdef bint single(State* state, int64_t b, Exchange* found) noexcept nogil:
    """Finds the exchange of one entry for one that fills b exactly: one that helps, or else one with a full bin."""
    cdef int64_t excess = state.excess[b], most = 0, full = 0, wanted, helped, y, last, q
    cdef int64_t x = state.head[b]
    found.other = -1
    while x >= 0:
        wanted = state.tokens[x] - excess
        y = first_of(state, wanted)
        last = y + EQUAL
        state.checks += 4
        while y < last and y < state.num_entries and state.tokens[y] == wanted:
            state.checks += 1
            q = state.bin_of[y]
            helped = absolute(excess) + absolute(state.excess[q]) - absolute(state.excess[q] + excess)
            if q != b and helped > most:
                most = helped
                note(found, x, y, q)
            elif q != b and most == 0 and state.excess[q] == 0:
                full += 1
                if draw(state, <uint64_t>full) == 0:
                    note(found, x, y, q)
            y += 1
        x = state.after[x]
    return most > 0


cdef inline int64_t absolute(int64_t value) noexcept nogil:
    return value if value >= 0 else -value


cdef inline void note(Exchange* found, int64_t x, int64_t y, int64_t other) noexcept nogil:
    found.x.first, found.x.second, found.x.third = <int32_t>x, -1, -1
    found.y.first, found.y.second, found.y.third = <int32_t>y, -1, -1
    found.other = other


cdef int64_t first_of(const State* state, int64_t tokens) noexcept nogil:
    """The first entry that has no more tokens."""
    cdef int64_t low = 0, high = state.num_entries, middle
    while low < high:
        middle = (low + high) // 2
        if state.tokens[middle] > tokens:
            low = middle + 1
        else:
            high = middle
    return low


cdef void match_other(State* state, int64_t b, Exchange* found) noexcept nogil:
    """With a bin of the other side, so that one of the two is full."""
    cdef int64_t q, amount = absolute(state.excess[b])
    found.other = -1
    if (state.num_under if state.excess[b] > 0 else state.num_over) == 0:
        return
    if state.excess[b] > 0:
        q = state.under[<int64_t>draw(state, <uint64_t>state.num_under)]
    else:
        q = state.over[<int64_t>draw(state, <uint64_t>state.num_over)]
    if absolute(state.excess[q]) < amount:
        amount = absolute(state.excess[q])
    match(state, b, q, amount if state.excess[b] > 0 else -amount, found)


cdef void match_full(State* state, int64_t b, Exchange* found) noexcept nogil:
    """With a full bin, to which the excess goes."""
    cdef int64_t q = <int64_t>draw(state, <uint64_t>state.num_bins)
    found.other = -1
    if state.excess[q] == 0:
        match(state, b, q, state.excess[b], found)


cdef void match(State* state, int64_t b, int64_t q, int64_t difference, Exchange* found) noexcept nogil:
    """Subsets of b and q whose tokens differ by this; of those looked at, the ones with the least cost between."""
    cdef int64_t mine = list_subsets(state, b, state.mine), theirs = list_subsets(state, q, state.theirs)
    cdef int64_t i, k, first = 0, wanted, apart, least = 0
    cdef bint emptied
    for i in range(mine):
        wanted = state.mine[i].tokens - difference
        while first < theirs and state.theirs[first].tokens > wanted:
            first += 1
        k = first
        while k < theirs and k < first + EQUAL and state.theirs[k].tokens == wanted:
            state.checks += 1
            apart = absolute(state.mine[i].cost - state.theirs[k].cost)
            emptied = (
                (size_of(&state.mine[i]) == state.entries[b] and state.theirs[k].first < 0)
                or (size_of(&state.theirs[k]) == state.entries[q] and state.mine[i].first < 0)
            )
            if not emptied and (found.other < 0 or apart < least):
                found.x, found.y, found.other = state.mine[i], state.theirs[k], q
                least = apart
            k += 1


cdef int64_t list_subsets(State* state, int64_t b, Subset* subsets) noexcept nogil:
    """The subsets of a bin's last entries, by tokens descending, and the empty one; returns how many."""
    cdef int32_t entries[MOST_PAIRED]
    cdef int64_t skipped = state.entries[b] - MOST_PAIRED, taken = 0, length
    cdef int32_t entry = state.head[b]
    while entry >= 0:
        if skipped > 0:
            skipped -= 1
        else:
            entries[taken] = entry
            taken += 1
        entry = state.after[entry]
    length = enumerate_subsets(
        entries, taken, 3 if taken <= MOST_TRIPLED else 2, state.cost, state.tokens, NULL, subsets
    )
    sort_descending(subsets, length, True, state.spare)
    state.checks += state.entries[b] + 8 * length
    return length


cdef inline int64_t size_of(const Subset* subset) noexcept nogil:
    return (subset.first >= 0) + (subset.second >= 0) + (subset.third >= 0)


cdef void apply_exchange(State* state, int64_t b, const Exchange* chosen) noexcept nogil:
    cdef int64_t moved = move(state, &chosen.x, b, chosen.other) - move(state, &chosen.y, chosen.other, b)
    change(state, b, -moved)
    change(state, chosen.other, moved)


cdef int64_t move(State* state, const Subset* subset, int64_t source, int64_t goal) noexcept nogil:
    """Moves entries from one bin to another; returns their tokens."""
    cdef int64_t tokens = 0
    cdef int32_t* link
    cdef int32_t entry
    cdef int index
    for index in range(3):
        entry = subset.first if index == 0 else subset.second if index == 1 else subset.third
        if entry < 0:
            continue
        link = &state.head[source]
        while link[0] != entry:
            link = &state.after[link[0]]
        link[0] = state.after[entry]
        link = &state.head[goal]
        while link[0] >= 0 and link[0] < entry:
            link = &state.after[link[0]]
        state.after[entry] = link[0]
        link[0] = entry
        state.entries[source] -= 1
        state.entries[goal] += 1
        state.bin_of[entry] = <int32_t>goal
        tokens += state.tokens[entry]
    return tokens


cdef inline uint64_t draw(State* state, uint64_t below) noexcept nogil:
    """A number below `below`: xorshift64 (Marsaglia 2003) from a fixed seed."""
    state.random ^= state.random << 13
    state.random ^= state.random >> 7
    state.random ^= state.random << 17
    return state.random % below
