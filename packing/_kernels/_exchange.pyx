"""Local search on a whole layout: moves and exchanges of up to three entries against three, with kicks."""
# (a) Layout: entries are numbered by cost descending, so that a bin's linked list, ascending by number, is sorted; the
#     subsets of two bins are laid out as two sorted lists and walked side by side.
# (b) The loops are manual because every exchange depends on the ones before it.
# (c) Ties: the first pair found with the smallest larger value, in the order that the twin spells out.
# (d) Time: `max_checks` counts what is looked at; a pair of bins costs the sum of its lists plus what lies in the window
#     of tokens or near half the gap. Memory: O(K B + E) and three lists of MOST_SUBSETS in the workspace.

from packing._kernels._exchange_lists cimport MOST_SUBSETS, Subset
from packing._kernels._exchange_search cimport Search, gained, look_at_bins
from packing._kernels._exchange_state cimport (
    EVERY, LARGEST, ROUNDS, State, account, apply_exchange, comes_before, draw, excess, exchangeable, insert,
    keeps_limits, leaders_of, revalue, score_of, unit_of, unlink, value_with,
)
from packing._kernels._typedefs cimport int32_t, int64_t, uint8_t, uint64_t

BY_LARGEST, BY_ROUNDS, BY_EVERY = 0, 1, 2
NOTHING_LEFT, NOTHING_HELPS, NO_CHECKS_LEFT = 0, 1, 2

cdef enum:
    DONE = 0
    STUCK = 1
    SPENT = 2

cdef int64_t FAR = <int64_t>1 << 61


def exchange_workspace(int64_t num_entries, int64_t num_bins, int64_t num_budgets):
    """Bytes of workspace that `exchange` needs."""
    return 8 * num_bins * (6 + num_budgets) + 4 * (4 * num_bins + 10 * num_entries + 2048) + 3 * MOST_SUBSETS * 40 + 64


def exchange(
    const int64_t[::1] cost,  # IN int64[E], descending
    const int64_t[::1] tokens,  # IN int64[E]
    const int32_t[::1] count,  # IN int32[E]: samples that one entry stands for, or int32[0]: one each
    const int64_t[:, ::1] footprints,  # IN int64[E, B]
    const int64_t[::1] forbid,  # IN int64[E], or int64[0]: none
    const uint8_t[::1] locked,  # IN uint8[E]: 1: the entry stays on its rank; or uint8[0]
    const int64_t[::1] capacity,  # IN int64[K]
    const int64_t[::1] budgets,  # IN int64[B]
    int64_t rank_budgets,  # how many of them, the last ones, are caps of a whole rank
    const int64_t[::1] pad_cost,  # IN int64[max capacity + 1], or int64[0]: none
    int64_t ranks,
    int64_t bins_per_rank,
    int64_t round_size,
    int64_t max_items,  # 0: no limit
    bint equal_count,  # every rank keeps its number of samples
    int mode,  # BY_LARGEST, BY_ROUNDS or BY_EVERY
    int64_t weight,  # of the largest bin in the value of a rank
    int64_t target,  # BY_LARGEST: nothing is left to do at this largest value
    int64_t depth,  # most entries of one side of an exchange: 1 to 3
    int64_t num_partners,
    int64_t max_kicks,
    int64_t max_checks,
    int32_t[::1] bin_of,  # IN and OUT int32[E]: a layout that keeps every limit
    uint8_t[::1] workspace,  # OUT uint8[exchange_workspace(E, K, B)]
):
    """Improves the layout and returns (why it ended, the checks that were made)."""
    cdef State state
    cdef Search search
    cdef int64_t num_entries = cost.shape[0], num_bins = ranks * bins_per_rank, i
    cdef int status = DONE
    if ranks < 1 or bins_per_rank < 1 or round_size < 1 or ranks % round_size:
        raise ValueError("ranks, bins_per_rank and round_size must be positive, and round_size must divide ranks")
    if not (tokens.shape[0] == bin_of.shape[0] == footprints.shape[0] == num_entries):
        raise ValueError("cost, tokens, footprints and bin_of must have the same length")
    if capacity.shape[0] != num_bins or footprints.shape[1] != budgets.shape[0]:
        raise ValueError("capacity must have one value per bin, footprints one column per budget")
    for length in (count.shape[0], forbid.shape[0], locked.shape[0]):
        if length not in (0, num_entries):
            raise ValueError("count, forbid and locked must be empty or have one value per entry")
    if workspace.shape[0] < exchange_workspace(num_entries, num_bins, budgets.shape[0]):
        raise ValueError("the workspace is too small")
    if not 0 <= rank_budgets <= budgets.shape[0]:
        raise ValueError("rank_budgets must be 0 to the number of budgets")
    if not BY_LARGEST <= mode <= BY_EVERY or not 1 <= depth <= 3:
        raise ValueError("mode must be one of the three modes and depth 1 to 3")
    for i in range(num_entries):
        if not 0 <= bin_of[i] < num_bins:
            raise ValueError("bin_of must name bins")
    if num_entries < num_bins:
        return NOTHING_HELPS, 0
    state.num_entries, state.num_bins, state.slots, state.mode = num_entries, num_bins, bins_per_rank, mode
    state.bins_per_unit = 1 if mode == BY_ROUNDS else bins_per_rank
    state.num_units = num_bins // state.bins_per_unit
    state.stride = round_size if mode == BY_ROUNDS else state.num_units if mode == BY_LARGEST else 1
    state.num_budgets, state.max_items, state.equal_count = budgets.shape[0], max_items, equal_count
    state.rank_budgets = rank_budgets
    state.weight = 0 if mode == BY_ROUNDS else weight
    state.target = target
    state.cost, state.tokens, state.capacity, state.bin_of = &cost[0], &tokens[0], &capacity[0], &bin_of[0]
    state.count = &count[0] if count.shape[0] else NULL
    state.forbid = &forbid[0] if forbid.shape[0] else NULL
    state.locked = &locked[0] if locked.shape[0] else NULL
    state.footprints = &footprints[0, 0] if budgets.shape[0] else NULL
    state.budgets = &budgets[0] if budgets.shape[0] else NULL
    state.pad_cost = &pad_cost[0] if pad_cost.shape[0] else NULL
    state.max_checks = max_checks
    search.state = &state
    search.num_partners, search.max_depth = num_partners, depth
    search.plain = pad_cost.shape[0] == 0 and state.weight == 0
    search.aim = FAR
    search.source = -1
    search.patient = True
    carve(&search, &workspace[0])
    with nogil:
        start(&state)
        status = descend(&search, False)
        if status == STUCK and mode != EVERY and state.num_units > 1:
            status = kick_and_descend(&search, max_kicks)
    return status, state.checks


cdef void carve(Search* search, uint8_t* memory) noexcept nogil:
    """Divides the workspace: structs and int64 first, from an 8-byte boundary."""
    cdef State* state = search.state
    cdef int64_t num_bins = state.num_bins
    cdef int64_t* wide
    cdef int32_t* narrow
    memory += (8 - <size_t>memory % 8) % 8
    search.mine.subsets = <Subset*>memory
    search.theirs.subsets = search.mine.subsets + MOST_SUBSETS
    search.spare = search.theirs.subsets + MOST_SUBSETS
    search.mine.bin = search.theirs.bin = -1
    wide = <int64_t*>(search.spare + MOST_SUBSETS)
    state.bin_cost, state.bin_tokens, state.bin_items = wide, wide + num_bins, wide + 2 * num_bins
    state.bin_entries, state.value = wide + 3 * num_bins, wide + 4 * num_bins
    state.bin_used = wide + 5 * num_bins
    narrow = <int32_t*>(state.bin_used + num_bins * state.num_budgets)
    state.head, state.ranked, state.place = narrow, narrow + num_bins, narrow + 2 * num_bins
    search.rests = narrow + 3 * num_bins
    state.after = narrow + 4 * num_bins
    search.entries = state.after + state.num_entries
    state.log = search.entries + state.num_entries
    state.log_size = 4 * state.num_entries + 1024


cdef void start(State* state) noexcept nogil:
    cdef int64_t b, entry, unit, at
    for b in range(state.num_bins):
        state.head[b] = -1
        state.bin_cost[b] = state.bin_tokens[b] = state.bin_items[b] = state.bin_entries[b] = 0
    for b in range(state.num_bins * state.num_budgets):
        state.bin_used[b] = 0
    state.rate = state.cost[0] // state.tokens[0]
    for entry in range(state.num_entries - 1, -1, -1):
        if state.cost[entry] // state.tokens[entry] < state.rate:
            state.rate = state.cost[entry] // state.tokens[entry]
        b = state.bin_of[entry]
        state.after[entry] = state.head[b]
        state.head[b] = <int32_t>entry
        account(state, entry, b, 1)
    for unit in range(state.num_units):
        state.value[unit] = value_with(state, unit, -1, 0)
        state.ranked[unit] = <int32_t>unit
    sort_units(state)
    for at in range(state.num_units):
        state.place[state.ranked[at]] = <int32_t>at
    state.log_length = state.checks = state.version = 0
    state.random = 0x9E3779B97F4A7C15


cdef void sort_units(State* state) noexcept nogil:
    """Shell sort by value; the order is total, so how it is found does not matter."""
    cdef int64_t step = 1, i, at
    cdef int32_t unit
    while step < state.num_units // 3:
        step = 3 * step + 1
    while step > 0:
        for i in range(step, state.num_units):
            unit = state.ranked[i]
            at = i
            while at >= step and comes_before(state, unit, state.ranked[at - step]):
                state.ranked[at] = state.ranked[at - step]
                at -= step
            state.ranked[at] = unit
        step //= 3


# --------------------------------------------------------------------------------------------------------- descent


cdef int descend(Search* search, bint undoable) noexcept nogil:
    """Improves the sources until nothing is left to do, nothing helps, or checks or log are used up.

    Leaders of rounds take turns, others go on while they can. Which failed rests until all do.
    """
    cdef State* state = search.state
    cdef int64_t sources = state.num_units // state.stride, resting = 0, turn = 0, since = 0, i
    for i in range(sources):
        search.rests[i] = 0
    while state.checks < state.max_checks:
        if state.mode == LARGEST and state.value[state.ranked[0]] <= state.target:
            return DONE
        if state.log_length + 8 > state.log_size:
            if undoable:
                return STUCK
            state.log_length = 0
        if not improve(search, turn * state.stride):
            if resting == 0:
                since = state.version
            search.rests[turn] = 1
            resting += 1
        elif state.mode == ROUNDS:
            turn = (turn + 1) % sources
        if resting == sources:
            if state.version == since:
                return STUCK
            for i in range(sources):
                search.rests[i] = 0
            resting = turn = 0
        while search.rests[turn]:
            turn = (turn + 1) % sources
    return SPENT


cdef bint improve(Search* search, int64_t place) noexcept nogil:
    """Looks for an exchange that lowers the unit at this place and keeps its partner below it.

    A window of partners is looked at in every depth, then the next window, from the one that helped this unit last.
    """
    cdef State* state = search.state
    cdef int64_t source = state.ranked[place], window, first
    cdef int64_t windows = (state.num_units + search.num_partners - 1) // search.num_partners
    if source != search.source:
        search.source, search.window = source, 0
    search.mine_excess = search.best_key = excess(state, source)
    search.best_p = -1
    for window in range(windows if search.patient else 1):
        first = (search.window + window) % windows * search.num_partners
        if look_at_window(search, source, first):
            if search.best_p < 0:
                break
            search.window = (search.window + window) % windows
            apply_exchange(state, &search.best_x, &search.best_y, search.best_p, search.best_q)
            return True
    return False


cdef bint look_at_window(Search* search, int64_t source, int64_t first) noexcept nogil:
    """Looks at some partners at growing depth; True where an exchange was found or the checks are used up."""
    cdef State* state = search.state
    cdef int64_t depth, position, partner, tried, last = first + search.num_partners
    if last > state.num_units:
        last = state.num_units
    for depth in range(1, search.max_depth + 1):
        tried = 0
        for position in range(first, last):
            partner = partner_at(state, position)
            search.their_excess = excess(state, partner)
            search.gap = search.mine_excess - search.their_excess
            # No exchange brings the larger of the two below their mean.
            if partner == source or search.gap <= 1 or search.mine_excess - search.gap // 2 >= search.best_key:
                continue
            if state.checks >= state.max_checks:
                return True
            tried += 1
            if look_at_units(search, source, partner, depth):
                if tried == 1 and search.aim < FAR:
                    search.aim *= 2
                return True
    if search.best_p < 0:
        return False
    search.aim = gained(search) // 2 + 1
    return True


cdef inline int64_t partner_at(const State* state, int64_t position) noexcept nogil:
    """Units from the lowest up; under `rounds` the lowest of every round first, then the second lowest of every one."""
    cdef int64_t rounds, at
    if state.mode != ROUNDS:
        return state.ranked[state.num_units - 1 - position]
    rounds = state.num_units // state.stride
    at = position % rounds * state.stride + state.stride - 1 - position // rounds
    return state.ranked[at]


cdef bint look_at_units(Search* search, int64_t source, int64_t partner, int64_t depth) noexcept nogil:
    """Looks at every pair of bins of two units; True where what was found is good enough to be taken at once."""
    cdef State* state = search.state
    cdef int64_t p, q
    for p in range(source * state.bins_per_unit, (source + 1) * state.bins_per_unit):
        for q in range(partner * state.bins_per_unit, (partner + 1) * state.bins_per_unit):
            state.checks += 1
            if not exchangeable(state, p, q):
                continue
            search.p, search.q = p, q
            look_at_bins(search, depth)
            if gained(search) > 0 and (gained(search) >= search.gap // 8 * 3 or gained(search) >= search.aim):
                return True
            if state.mode == LARGEST and search.best_key <= state.target:
                return True
    return False


# ----------------------------------------------------------------------------------------------------------- kicks


cdef int kick_and_descend(Search* search, int64_t max_kicks) noexcept nogil:
    """Disturbs the layout a little and improves it again; what ends worse than before is taken back."""
    cdef State* state = search.state
    cdef int64_t kicks, best = score_of(state), score, ties = leaders_of(state), tied
    cdef int status = STUCK
    search.patient = False
    for kicks in range(max_kicks):
        if state.checks >= state.max_checks:
            return SPENT
        state.log_length = 0
        state.checks += 256
        kick(state)
        status = descend(search, True)
        score, tied = score_of(state), leaders_of(state)
        if score > best or (score == best and tied > ties):
            take_back(state)
        else:
            best, ties = score, tied
        if status == DONE:
            return DONE
    return status


cdef void kick(State* state) noexcept nogil:
    """Swaps one to three pairs of entries at random, the first out of a leader, each next one out of the last partner."""
    cdef int64_t swaps = 1 + <int64_t>draw(state, 3), source, partner, leaders = state.num_units // state.stride
    if state.mode == LARGEST:
        source = state.ranked[0]
    else:
        source = state.ranked[<int64_t>draw(state, <uint64_t>leaders) * state.stride]
    while swaps > 0 and state.num_units > 1:
        partner = <int64_t>draw(state, <uint64_t>(state.num_units - 1))
        partner += partner >= source
        swap_at_random(state, source, partner)
        source = partner
        swaps -= 1


cdef void swap_at_random(State* state, int64_t source, int64_t partner) noexcept nogil:
    """Swaps an entry of one unit with one of the other, or with none, where every limit allows it."""
    cdef int64_t p = source * state.bins_per_unit + <int64_t>draw(state, <uint64_t>state.bins_per_unit)
    cdef int64_t q = partner * state.bins_per_unit + <int64_t>draw(state, <uint64_t>state.bins_per_unit), longer
    cdef Subset x, y
    state.checks += 16 + (state.bin_entries[p] + state.bin_entries[q]) // 16
    if not exchangeable(state, p, q):
        return
    pick(state, p, <int64_t>draw(state, <uint64_t>state.bin_entries[p]), &x)
    pick(state, q, <int64_t>draw(state, <uint64_t>(state.bin_entries[q] + 1)), &y)
    longer = x.tokens - y.tokens
    if state.bin_tokens[q] + longer > state.capacity[q] or state.bin_tokens[p] - longer > state.capacity[p]:
        return
    if keeps_limits(state, &x, &y, p, q):
        apply_exchange(state, &x, &y, p, q)


cdef void pick(const State* state, int64_t b, int64_t index, Subset* chosen) noexcept nogil:
    """The entry of a bin with this position, or the empty subset after the last."""
    cdef int32_t entry = state.head[b]
    while index > 0 and entry >= 0:
        entry = state.after[entry]
        index -= 1
    chosen.first, chosen.second, chosen.third = entry, -1, -1
    chosen.cost = state.cost[entry] if entry >= 0 else 0
    chosen.tokens = state.tokens[entry] if entry >= 0 else 0
    chosen.count = 0 if entry < 0 else state.count[entry] if state.count != NULL else 1


cdef void take_back(State* state) noexcept nogil:
    """Undoes all moves in the log, the last one first."""
    cdef int64_t at, source, here, entry
    for at in range(state.log_length - 1, -1, -1):
        entry, source = state.log[2 * at], state.log[2 * at + 1]
        here = state.bin_of[entry]
        unlink(state, entry, here)
        account(state, entry, here, -1)
        insert(state, entry, source)
        account(state, entry, source, 1)
        revalue(state, unit_of(state, here))
        revalue(state, unit_of(state, source))
    state.version += 1
