"""Repair of layouts under all limits at once: what is left out is placed, if need be at the cost of others."""
# (a) Layout: amounts and room are tables with one row per entry and bin, so that every limit is one more column.
# (b) The loops are manual because every step depends on the ones before it.
# (c) Ties: the first one found; bins are looked at in turn, entries of a bin from the one that came last.
# (d) Time: `max_checks` counts the sets that are looked at; a step looks at a little more than ENOUGH of them, and at
#     the columns of all bins. Memory: O((K + E) (B + 2)) in the workspace.

from packing._kernels._relieve_search cimport Search, find_place
from packing._kernels._relieve_state cimport (
    State, draw, eject, home_of, is_bound, leave_out, put, samples_of, take_out, takes, takes_alone, within,
)
from packing._kernels._typedefs cimport int32_t, int64_t, uint8_t

cdef enum:
    SHUFFLES = 16  # exchanges tried after a step that helped nothing
    TRADES = 32    # one such step in so many is followed by two bins that change places

cdef int64_t UNLIMITED = <int64_t>1 << 62


def relieve_workspace(int64_t num_entries, int64_t num_bins, int64_t num_budgets, int64_t num_groups):
    """Bytes of workspace that `relieve` needs."""
    cdef int64_t width = num_budgets + 2
    wide = num_entries * (width + 1) + num_bins * (2 * width + 3) + width + num_groups
    return 8 * wide + 4 * (7 * num_entries + 2 * num_groups + num_bins + width + 2) + 64


def relieve(
    const int64_t[::1] weight,  # IN int64[E], positive, descending
    const int64_t[::1] tokens,  # IN int64[E]
    const int32_t[::1] count,  # IN int32[E]: samples that one entry stands for, or int32[0]: one each
    const int64_t[:, ::1] footprints,  # IN int64[E, B]
    const int64_t[::1] forbid,  # IN int64[E], or int64[0]: none
    const int32_t[::1] group,  # IN int32[E]: entries of one group (0 .. num_groups - 1) share a rank, -1: none; or int32[0]
    int64_t num_groups,
    const int64_t[::1] capacity,  # IN int64[K]
    const int64_t[::1] budgets,  # IN int64[B]
    const int64_t[::1] space,  # IN int64[K]: weight that every bin can hold, about
    int64_t ranks,
    int64_t bins_per_rank,
    int64_t max_items,  # 0: no limit
    int64_t rank_items,  # most samples of a rank, 0: no limit
    bint oversized_single,
    int64_t max_checks,
    int32_t[::1] bin_of,  # IN and OUT int32[E]: any layout; -1: left out
    uint8_t[::1] workspace,  # OUT uint8[relieve_workspace(E, K, B, num_groups)]
):
    """Returns (entries that are left out plus empty bins, the checks that were made)."""
    cdef State state
    cdef Search search
    cdef int64_t num_entries = weight.shape[0], num_bins = ranks * bins_per_rank, i, budget
    if ranks < 1 or bins_per_rank < 1:
        raise ValueError("ranks and bins_per_rank must be positive")
    if not (tokens.shape[0] == bin_of.shape[0] == footprints.shape[0] == num_entries):
        raise ValueError("weight, tokens, footprints and bin_of must have the same length")
    if not (capacity.shape[0] == space.shape[0] == num_bins) or footprints.shape[1] != budgets.shape[0]:
        raise ValueError("capacity and space must have one value per bin, footprints one column per budget")
    for length in (count.shape[0], forbid.shape[0], group.shape[0]):
        if length not in (0, num_entries):
            raise ValueError("count, forbid and group must be empty or have one value per entry")
    if workspace.shape[0] < relieve_workspace(num_entries, num_bins, budgets.shape[0], num_groups):
        raise ValueError("the workspace is too small")
    for i in range(num_entries):
        if not -1 <= bin_of[i] < num_bins:
            raise ValueError("bin_of must name bins")
        if group.shape[0] and not -1 <= group[i] < num_groups:
            raise ValueError("group must name groups")
    if num_entries < num_bins:
        return num_bins, 0
    state.num_entries, state.num_bins, state.slots = num_entries, num_bins, bins_per_rank
    state.width = 2 + budgets.shape[0]
    state.oversized_single, state.counts_ranks = oversized_single, rank_items > 0
    state.weight, state.bin_of = &weight[0], &bin_of[0]
    state.forbid = &forbid[0] if forbid.shape[0] else NULL
    state.group = &group[0] if group.shape[0] else NULL
    search.state = &state
    carve(&search, &workspace[0], ranks, num_groups)
    for i in range(num_entries):
        state.amount[i * state.width] = tokens[i]
        state.amount[i * state.width + 1] = count[i] if count.shape[0] else 1
        for budget in range(budgets.shape[0]):
            state.amount[i * state.width + 2 + budget] = footprints[i, budget]
    for i in range(num_bins):
        state.slack[i] = space[i]
        state.limit[i * state.width] = capacity[i]
        state.limit[i * state.width + 1] = max_items if max_items else UNLIMITED
        for budget in range(budgets.shape[0]):
            state.limit[i * state.width + 2 + budget] = budgets[budget]
    for i in range(ranks):
        state.rank_room[i] = rank_items if rank_items else UNLIMITED
    with nogil:
        start(&state, num_groups)
        solve(&search, max_checks)
    return state.num_left_out + state.num_empty, state.checks


cdef void carve(Search* search, uint8_t* memory, int64_t ranks, int64_t num_groups) noexcept nogil:
    """Divides the workspace: int64 first, from an 8-byte boundary."""
    cdef State* state = search.state
    cdef int64_t bins = state.num_bins, entries = state.num_entries, width = state.width
    cdef int64_t* wide = <int64_t*>(memory + (8 - <size_t>memory % 8) % 8)
    cdef int32_t* narrow
    state.amount, state.penalty = wide, wide + entries * width
    wide += entries * (width + 1)
    state.limit, state.room = wide, wide + bins * width
    wide += 2 * bins * width
    state.slack, state.entries, state.rank_room = wide, wide + bins, wide + 2 * bins
    state.need = wide + 3 * bins
    state.group_placed = state.need + width
    narrow = <int32_t*>(state.group_placed + num_groups)
    state.after, state.before, state.mate = narrow, narrow + entries, narrow + 2 * entries
    narrow += 3 * entries
    state.left_out, state.members, state.chosen = narrow, narrow + entries, narrow + 2 * entries
    narrow += 3 * entries
    state.home, state.group_head, state.head = narrow, narrow + num_groups, narrow + 2 * num_groups
    search.column = state.head + bins
    state.best = search.column + width
    search.turn = 0


cdef void start(State* state, int64_t num_groups) noexcept nogil:
    """Keeps of the layout what fits, entry by entry."""
    cdef int64_t i, b, entry
    for b in range(state.num_bins):
        state.head[b] = -1
        state.entries[b] = 0
    for i in range(state.num_bins * state.width):
        state.room[i] = state.limit[i]
    for i in range(num_groups):
        state.group_head[i] = -1
        state.group_placed[i] = 0
    state.num_empty, state.num_left_out, state.checks = state.num_bins, 0, 0
    state.random = 0x9E3779B97F4A7C15
    for entry in range(state.num_entries - 1, -1, -1):
        state.penalty[entry] = state.weight[entry]
        if state.group != NULL and state.group[entry] >= 0:
            state.mate[entry] = state.group_head[state.group[entry]]
            state.group_head[state.group[entry]] = <int32_t>entry
    for entry in range(state.num_entries):
        b = state.bin_of[entry]
        state.bin_of[entry] = -1
        if b >= 0 and may_join(state, entry, b):
            put(state, entry, b)
    for entry in range(state.num_entries - 1, -1, -1):
        if state.bin_of[entry] < 0:
            leave_out(state, entry)


cdef inline bint may_join(const State* state, int64_t entry, int64_t b) noexcept nogil:
    cdef int64_t home = home_of(state, entry)
    return (home < 0 or home == b // state.slots) and takes(state, entry, b)


cdef void solve(Search* search, int64_t max_checks) noexcept nogil:
    """Places the entry that was left out last, until none is and no bin is empty, or the checks are used up."""
    cdef State* state = search.state
    cdef int64_t entry
    while state.checks < max_checks and state.num_left_out + state.num_empty > 0:
        if state.num_left_out == 0:
            fill_empty(state)
            continue
        state.num_left_out -= 1
        entry = state.left_out[state.num_left_out]
        if not place(state, entry):
            replace(search, entry)


cdef bint place(State* state, int64_t entry) noexcept nogil:
    """Into the bin with the least slack, or with the most for the first one of a group; False where none takes it."""
    cdef int64_t b, chosen = -1, home = home_of(state, entry), first = 0, last = state.num_bins
    cdef bint opens = home < 0 and state.group != NULL and state.group[entry] >= 0
    if home >= 0:
        first, last = home * state.slots, (home + 1) * state.slots
    state.checks += 1 + (last - first) // 4
    for b in range(first, last):
        if not takes(state, entry, b):
            continue
        if chosen < 0 or (state.slack[b] > state.slack[chosen] if opens else state.slack[b] < state.slack[chosen]):
            chosen = b
    if chosen >= 0:
        put(state, entry, chosen)
    return chosen >= 0


cdef void replace(Search* search, int64_t entry) noexcept nogil:
    """Places an entry at the cost of others; where they cost as much, what is placed is disturbed a little."""
    cdef State* state = search.state
    cdef int64_t i
    cdef bint found
    state.penalty[entry] += state.weight[entry]
    found = find_place(search, entry)
    if found:
        if home_of(state, entry) >= 0 and home_of(state, entry) != search.bin // state.slots:
            eject_group(state, entry)
        for i in range(search.length):
            eject(state, state.best[i])
        put(state, entry, search.bin)
    else:
        leave_out(state, entry)
    if found and search.cost < state.weight[entry]:
        return
    for i in range(SHUFFLES):
        shuffle(state)
    if state.num_bins > 1 and draw(state, TRADES) == 0:
        trade(state)


cdef void eject_group(State* state, int64_t entry) noexcept nogil:
    """Takes out all others of the entry's group."""
    cdef int64_t other = state.group_head[state.group[entry]]
    while other >= 0:
        if other != entry and state.bin_of[other] >= 0:
            eject(state, other)
        other = state.mate[other]


cdef void shuffle(State* state) noexcept nogil:
    """Swaps two entries of different bins, or moves one to the other's bin, where every limit allows it."""
    cdef int64_t x = draw(state, state.num_entries), y = draw(state, state.num_entries)
    cdef int64_t p = state.bin_of[x], q = state.bin_of[y], more = samples_of(state, x) - samples_of(state, y)
    cdef bint far = p // state.slots != q // state.slots
    state.checks += 2
    if p < 0 or q < 0 or p == q or (state.forbid != NULL and state.forbid[x] != state.forbid[y]):
        return
    if far and (is_bound(state, x) or is_bound(state, y)):
        return
    if far and state.counts_ranks and (
        more > state.rank_room[q // state.slots] or -more > state.rank_room[p // state.slots]
    ):
        return
    if within(state, x, y, q, state.entries[q] == 1) and within(state, y, x, p, state.entries[p] == 1):
        take_out(state, x)
        take_out(state, y)
        put(state, x, q)
        put(state, y, p)
    elif state.entries[p] > 1 and not (far and state.counts_ranks) and within(state, x, -1, q, False):
        take_out(state, x)
        put(state, x, q)


cdef void trade(State* state) noexcept nogil:
    """Two bins change places with all that they hold, or two ranks where a group needs it; some then do not fit."""
    cdef int64_t p = draw(state, state.num_bins), q = draw(state, state.num_bins - 1)
    cdef int64_t slot, i, count = 0
    cdef bint whole
    q += q >= p
    whole = p // state.slots != q // state.slots and (holds_bound(state, p) or holds_bound(state, q))
    if whole:
        p -= p % state.slots
        q -= q % state.slots
    for slot in range(state.slots if whole else 1):
        count = gather(state, p + slot, q + slot, count)
        count = gather(state, q + slot, p + slot, count)
    for i in range(count):
        take_out(state, state.members[i])
    for i in range(count):
        if may_join(state, state.members[i], state.chosen[i]):
            put(state, state.members[i], state.chosen[i])
        else:
            leave_out(state, state.members[i])


cdef bint holds_bound(const State* state, int64_t b) noexcept nogil:
    cdef int64_t entry = state.head[b]
    while entry >= 0 and not is_bound(state, entry):
        entry = state.after[entry]
    return entry >= 0


cdef int64_t gather(State* state, int64_t b, int64_t goal, int64_t count) noexcept nogil:
    """Notes what a bin holds, and where it is to go; returns how many are noted."""
    cdef int64_t entry = state.head[b]
    while entry >= 0:
        state.members[count], state.chosen[count] = <int32_t>entry, <int32_t>goal
        count += 1
        state.checks += 1
        entry = state.after[entry]
    return count


cdef void fill_empty(State* state) noexcept nogil:
    """Moves an entry that is drawn at random into the first empty bin, if it may; others of its group are left out."""
    cdef int64_t b = 0, entry = draw(state, state.num_entries)
    while state.entries[b]:
        b += 1
    state.checks += 1 + b // 4
    if state.entries[state.bin_of[entry]] < 2:
        return
    if state.bin_of[entry] // state.slots == b // state.slots:
        take_out(state, entry)
        if not takes(state, entry, b):
            leave_out(state, entry)
            return
    elif takes(state, entry, b):
        take_out(state, entry)
        if home_of(state, entry) >= 0:
            eject_group(state, entry)
    else:
        return
    put(state, entry, b)
