# The best exchange between two bins: sorted lists of their subsets, matched by cost or by tokens.

from packing._kernels._exchange_lists cimport Subset, SubsetList, enumerate_subsets, most_entries, sort_descending
from packing._kernels._exchange_state cimport State, bin_load, keeps_limits, load_of, unit_of, value_with
from packing._kernels._typedefs cimport int32_t, int64_t

cdef enum:
    WALK = 16   # how many partners of one subset are looked at on each side of half the gap,
    SCAN = 256  # and how many in a window of tokens
    MOST_TOKENS_BITS = 56  # of more tokens in a bin a window is only estimated, so that products stay below 2**62


cdef struct Search:
    State* state
    SubsetList mine, theirs
    Subset* spare
    int32_t* entries  # [E] entries of one bin
    int32_t* rests  # [sources] whether one failed and waits for the others
    int64_t num_partners, max_depth, source, window  # the unit improved last, and the window of partners that helped it
    int64_t p, q, gap, mine_excess, their_excess  # the pair of bins looked at, and the excess of their units
    int64_t best_key, best_p, best_q
    int64_t aim  # a gain that is taken at once: half of what the last whole look at all partners found
    bint patient  # whether a unit that found no help looks beyond the first window
    bint plain  # a value changes by just what the costs say
    Subset best_x, best_y


cdef inline int64_t gained(const Search* search) noexcept nogil:
    """By how much the best exchange so far lowers the source."""
    return search.mine_excess - search.best_key


cdef inline bint narrow_window(const State* state, int64_t their_room, int64_t q, int64_t depth) noexcept nogil:
    """Whether the token caps leave a window of fewer than about 32 subsets of bin q."""
    cdef int64_t entries = state.bin_entries[q], subsets, span, tokens = state.bin_tokens[q]
    if entries > most_entries(depth):
        entries = most_entries(depth)
    subsets = entries
    if depth >= 2:
        subsets += entries * (entries - 1) // 2
    if depth >= 3:
        subsets += entries * (entries - 1) * (entries - 2) // 6
    if tokens > <int64_t>1 << MOST_TOKENS_BITS:
        tokens = <int64_t>1 << MOST_TOKENS_BITS
    span = tokens * depth // (state.bin_entries[q] if state.bin_entries[q] > depth else depth)
    return their_room < 32 * (span + 1) // subsets


cdef inline void list_subsets(
    Search* search, SubsetList* subsets, int64_t b, int64_t depth, bint by_tokens
) noexcept nogil:
    """Makes the sorted list of a bin's subsets, unless it is the one made last."""
    cdef State* state = search.state
    cdef int64_t num_entries = 0, taken = 0, i, j, most = most_entries(depth), total = state.bin_entries[b]
    cdef int32_t entry
    if (
        subsets.bin == b and subsets.depth == depth and subsets.by_tokens == by_tokens
        and subsets.version == state.version
    ):
        return
    subsets.bin, subsets.depth, subsets.by_tokens, subsets.version = b, depth, by_tokens, state.version
    entry = state.head[b]
    while entry >= 0:
        # Of more entries than the list can hold every few-th is taken, evenly.
        if total <= most or num_entries * most // total != (num_entries + 1) * most // total:
            search.entries[taken] = entry
            taken += 1
        num_entries += 1
        entry = state.after[entry]
    if by_tokens:
        for i in range(1, taken):
            entry = search.entries[i]
            j = i
            while j > 0 and state.tokens[search.entries[j - 1]] < state.tokens[entry]:
                search.entries[j] = search.entries[j - 1]
                j -= 1
            search.entries[j] = entry
    subsets.length = enumerate_subsets(
        search.entries, taken, depth, state.cost, state.tokens, state.count, subsets.subsets
    )
    sort_descending(subsets.subsets, subsets.length, by_tokens, search.spare)
    state.checks += num_entries + 8 * subsets.length


cdef inline int64_t changed_value(const State* state, int64_t b, int64_t cost, int64_t tokens) noexcept nogil:
    """By how much the value of a bin's unit changes with the bin's cost and tokens."""
    cdef int64_t load = load_of(state, b, state.bin_cost[b] + cost, state.bin_tokens[b] + tokens)
    if state.weight == 0:
        return load - bin_load(state, b)
    return value_with(state, unit_of(state, b), b, load) - state.value[unit_of(state, b)]


cdef inline bint consider(
    Search* search, const Subset* x, const Subset* y, int64_t my_room, int64_t their_room
) noexcept nogil:
    """Keeps the exchange if it is the best so far; whether it was kept."""
    cdef State* state = search.state
    cdef int64_t change = x.cost - y.cost, longer = x.tokens - y.tokens, mine, theirs
    state.checks += 4
    if longer > their_room or -longer > my_room:
        return False
    if search.plain:
        mine, theirs = search.mine_excess - change, search.their_excess + change
    else:
        mine = search.mine_excess + changed_value(state, search.p, -change, -longer)
        theirs = search.their_excess + changed_value(state, search.q, change, longer)
    if theirs > mine:
        mine = theirs
    if mine >= search.best_key or not keeps_limits(state, x, y, search.p, search.q):
        return False
    search.best_key, search.best_p, search.best_q = mine, search.p, search.q
    search.best_x, search.best_y = x[0], y[0]
    return True


cdef inline void match_costs(Search* search, int64_t my_room, int64_t their_room) noexcept nogil:
    """For each subset of p, those of q around half the gap, the nearest first on both sides."""
    cdef const Subset* mine = search.mine.subsets
    cdef const Subset* theirs = search.theirs.subsets
    cdef int64_t i, k, walked, near = 0, change, length = search.theirs.length
    for i in range(search.mine.length):
        if mine[i].first < 0:
            continue
        while near < length and 2 * (mine[i].cost - theirs[near].cost) < search.gap:
            near += 1
        walked = 0
        k = near - 1
        while k >= 0 and walked < WALK:
            change = mine[i].cost - theirs[k].cost
            if change <= 0 or (search.plain and search.mine_excess - change >= search.best_key):
                break
            walked += 1
            if consider(search, &mine[i], &theirs[k], my_room, their_room) and search.plain:
                break
            k -= 1
        walked = 0
        k = near
        while k < length and walked < WALK:
            change = mine[i].cost - theirs[k].cost
            if change >= search.gap or (search.plain and search.their_excess + change >= search.best_key):
                break
            walked += 1
            if consider(search, &mine[i], &theirs[k], my_room, their_room) and search.plain:
                break
            k += 1


cdef inline void match_tokens(Search* search, int64_t my_room, int64_t their_room) noexcept nogil:
    """For each subset of p, those of q that the token caps allow in exchange, the shortest first.

    A subset costs at least `rate` per token, so that none of many tokens can be much cheaper than what it is for.
    """
    cdef const Subset* mine = search.mine.subsets
    cdef const Subset* theirs = search.theirs.subsets
    cdef int64_t rate = search.state.rate if search.plain else 0
    cdef int64_t i, k, last = 0, change, length = search.theirs.length
    for i in range(search.mine.length):
        if mine[i].first < 0:
            continue
        if mine[i].tokens > their_room and mine[i].cost - rate * (mine[i].tokens - their_room) <= gained(search):
            continue
        while last < length and theirs[last].tokens >= mine[i].tokens - their_room:
            last += 1
        k = last - 1
        while k >= 0 and k >= last - SCAN and theirs[k].tokens <= mine[i].tokens + my_room:
            change = mine[i].cost - theirs[k].cost
            search.state.checks += 1
            if 0 < change < search.gap:
                consider(search, &mine[i], &theirs[k], my_room, their_room)
            if mine[i].cost - rate * theirs[k].tokens <= gained(search):
                break
            k -= 1


cdef inline void look_at_bins(Search* search, int64_t depth) noexcept nogil:
    """Looks for the exchange between the bins p and q whose larger excess is smallest."""
    cdef State* state = search.state
    cdef int64_t my_room = state.capacity[search.p] - state.bin_tokens[search.p]
    cdef int64_t their_room = state.capacity[search.q] - state.bin_tokens[search.q]
    cdef int64_t fewer = state.bin_entries[search.p]
    cdef bint by_tokens
    if state.bin_entries[search.q] < fewer:
        fewer = state.bin_entries[search.q]
    if depth > 1 and state.bin_entries[search.p] < 2 and state.bin_entries[search.q] < 2:
        return
    # A window of tokens that holds few of a bin's subsets is walked whole; else the nearest in cost are tried.
    by_tokens = narrow_window(state, their_room, search.q, depth)
    list_subsets(search, &search.mine, search.p, depth, by_tokens)
    list_subsets(search, &search.theirs, search.q, depth, by_tokens)
    state.checks += search.mine.length + search.theirs.length
    if by_tokens:
        match_tokens(search, my_room, their_room)
    else:
        match_costs(search, my_room, their_room)
