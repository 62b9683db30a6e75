# What has to leave a bin so that an entry can join it: the cheapest set of up to three, or whatever is enough.

from packing._kernels._relieve_state cimport State, home_of, same_kind, samples_of, takes_alone
from packing._kernels._typedefs cimport int32_t, int64_t

cdef enum:
    MOST_FOR_PAIRS = 64    # entries of a bin up to which pairs are looked at, 2,016 of them
    MOST_FOR_TRIPLES = 24  # and threes, 2,024 of them
    ENOUGH = 2048          # sets that are looked at before the best one is taken


cdef struct Search:
    State* state
    int64_t entry, cost, bin, length, columns
    int32_t* column  # [width] those of which the bin has not enough left
    int64_t turn     # the bin that is looked at next


cdef inline bint covers(const Search* search, int64_t one, int64_t two, int64_t three) noexcept nogil:
    """Whether up to three entries (-1: none) make enough room."""
    cdef const State* state = search.state
    cdef int64_t i, column, freed
    for i in range(search.columns):
        column = search.column[i]
        freed = state.amount[one * state.width + column]
        if two >= 0:
            freed += state.amount[two * state.width + column]
        if three >= 0:
            freed += state.amount[three * state.width + column]
        if freed < state.need[column]:
            return False
    return True


cdef inline void find_needs(Search* search, int64_t b) noexcept nogil:
    cdef State* state = search.state
    cdef int64_t column, more, width = state.width
    search.columns = 0
    for column in range(width):
        more = state.amount[search.entry * width + column] - state.room[b * width + column]
        if column == 1 and state.counts_ranks:
            if samples_of(state, search.entry) - state.rank_room[b // state.slots] > more:
                more = samples_of(state, search.entry) - state.rank_room[b // state.slots]
        if more > 0:
            state.need[column] = more
            search.column[search.columns] = <int32_t>column
            search.columns += 1


cdef inline bint keep(Search* search, int64_t b, int64_t cost, int64_t one, int64_t two, int64_t three) noexcept nogil:
    cdef int32_t* best = search.state.best
    search.cost, search.bin = cost, b
    best[0], best[1], best[2] = <int32_t>one, <int32_t>two, <int32_t>three
    search.length = 1 + (two >= 0) + (three >= 0)
    return True


cdef inline bint look_at_sets(Search* search, int64_t b, int64_t count, int64_t extra) noexcept nogil:
    """Sets of up to three; True where some set is enough, whether or not it is the best."""
    cdef State* state = search.state
    cdef const int32_t* members = state.members
    cdef int64_t i, j, k, one, two
    cdef bint found = False
    for i in range(count):
        state.checks += 1
        one = extra + state.penalty[members[i]]
        if one < search.cost and covers(search, members[i], -1, -1):
            found = keep(search, b, one, members[i], -1, -1)
    if count > MOST_FOR_PAIRS:
        return found
    for i in range(count):
        one = extra + state.penalty[members[i]]
        if one >= search.cost:
            continue
        for j in range(i):
            state.checks += 1
            two = one + state.penalty[members[j]]
            if two >= search.cost:
                continue
            if covers(search, members[i], members[j], -1):
                found = keep(search, b, two, members[i], members[j], -1)
                continue
            if count > MOST_FOR_TRIPLES:
                continue
            for k in range(j):
                state.checks += 1
                if two + state.penalty[members[k]] < search.cost and covers(search, members[i], members[j], members[k]):
                    found = keep(search, b, two + state.penalty[members[k]], members[i], members[j], members[k])
    return found


cdef inline void look_at_many(Search* search, int64_t b, int64_t count, int64_t extra) noexcept nogil:
    """One after the other until there is room, then back into the bin whoever need not leave."""
    cdef State* state = search.state
    cdef int64_t i, at, column, width = state.width, length = 0, cost = extra
    cdef bint enough = False, spare
    while length < count and not enough:
        enough = True
        cost += state.penalty[state.members[length]]
        state.chosen[length] = state.members[length]
        for at in range(search.columns):
            column = search.column[at]
            state.need[column] -= state.amount[state.members[length] * width + column]
            enough = enough and state.need[column] <= 0
        length += 1
    state.checks += length
    if not enough and not takes_alone(state, search.entry, b):
        return
    i = 0
    while enough and i < length:
        spare = True
        for at in range(search.columns):
            column = search.column[at]
            if state.need[column] + state.amount[state.chosen[i] * width + column] > 0:
                spare = False
        if not spare:
            i += 1
            continue
        for at in range(search.columns):
            column = search.column[at]
            state.need[column] += state.amount[state.chosen[i] * width + column]
        cost -= state.penalty[state.chosen[i]]
        length -= 1
        state.chosen[i] = state.chosen[length]
    if cost < search.cost:
        search.cost, search.bin, search.length = cost, b, length
        for i in range(length):
            state.best[i] = state.chosen[i]


cdef inline void look_at_bin(Search* search, int64_t b, int64_t extra) noexcept nogil:
    """What has to leave bin b, in addition to what costs `extra`."""
    cdef State* state = search.state
    cdef int64_t count = 0, cost = extra, at = state.head[b]
    while at >= 0:
        state.members[count] = <int32_t>at
        count += 1
        cost += state.penalty[at]
        at = state.after[at]
    state.checks += 1 + count // 4
    if not same_kind(state, search.entry, b):
        if cost < search.cost and takes_alone(state, search.entry, b):
            search.cost, search.bin, search.length = cost, b, count
            for at in range(count):
                state.best[at] = state.members[at]
        return
    find_needs(search, b)
    if search.columns == 0:
        search.cost, search.bin, search.length = extra, b, 0
    elif not look_at_sets(search, b, count, extra):
        look_at_many(search, b, count, extra)


cdef inline int64_t others_of_group(const State* state, int64_t entry) noexcept nogil:
    """What it costs to leave out the others of a group that are placed."""
    cdef int64_t total = 0, other = state.group_head[state.group[entry]]
    while other >= 0:
        if state.bin_of[other] >= 0:
            total += state.penalty[other]
        other = state.mate[other]
    return total


cdef inline bint find_place(Search* search, int64_t entry) noexcept nogil:
    """The bin that an entry can join at the least cost of what is ejected, other bins first every time."""
    cdef State* state = search.state
    cdef int64_t step, b, home = home_of(state, entry), away = 0, until = state.checks + ENOUGH
    search.entry, search.cost, search.bin = entry, <int64_t>1 << 62, -1
    if home >= 0:
        away = others_of_group(state, entry)
    for step in range(state.num_bins):
        b = search.turn
        search.turn = (search.turn + 1) % state.num_bins
        if home < 0 or home == b // state.slots:
            look_at_bin(search, b, 0)
        elif away < search.cost:
            look_at_bin(search, b, away)
        if search.bin >= 0 and state.checks > until:
            break
    return search.bin >= 0
