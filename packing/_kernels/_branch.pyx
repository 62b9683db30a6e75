"""Exhaustive search for the smallest largest rank load; `packing._reference.branch` is the specification."""
# (a) Layout: every bin has its own list of the entries that are left when it is filled, as suffix sums of tokens and
#     cost, so that what an entry takes and what all from it on could add are both one subtraction away. Its subset is a
#     stack of positions of that list.
# (b) The loops are manual because the search is depth first, with limits that depend on the path and on the best so far.
# (c) Ties: the first layout with the smallest load is kept; subsets are tried in lexicographic order.
# (d) Time: a few nanoseconds a step, and O(E) for each filled bin. Memory: 24 K E bytes.

from packing._kernels._typedefs cimport int32_t, int64_t, uint8_t


cdef enum:
    LIMIT_BITS = 62


cdef struct Level:
    int64_t count, first, only_first  # entries left; the first that may begin the subset; whether no other may
    int64_t cap, cap_after, load_before, peak  # `peak`: largest of all ranks that are complete
    int64_t least_items, most_items
    int64_t tokens, load, size, at  # of the subset; the next position to look at
    int64_t closes, ranks_after
    int64_t* tokens_from  # [count+1] suffix sums
    int64_t* cost_from
    int32_t* entries  # [count]
    int32_t* chosen  # [size] positions


cdef struct Search:
    int64_t num_entries, num_bins, bins_per_rank, most, best, target, steps
    const int64_t* capacity
    Level* levels
    int32_t* bin_of


cdef void open_level(Search* search, int64_t b) noexcept nogil:
    """Limits of bin `b`; its list of entries is filled in already."""
    cdef Level* level = &search.levels[b]
    cdef Level* before
    cdef int64_t after = search.num_bins - b - 1, c
    cdef bint starts = b % search.bins_per_rank == 0
    level.size = level.tokens = level.load = 0
    level.cap, level.cap_after, level.only_first = search.capacity[b], 0, starts
    for c in range(b + 1, search.num_bins):
        level.cap_after += search.capacity[c]
        if search.capacity[c] != level.cap:
            level.only_first = 0
    level.closes = (b + 1) % search.bins_per_rank == 0
    level.ranks_after = after // search.bins_per_rank
    level.least_items = level.count - after * search.most
    level.most_items = level.count - after if level.count - after < search.most else search.most
    level.load_before, level.peak, level.first = 0, -1, 0
    if b:
        before = &search.levels[b - 1]
        level.peak = before.peak
        if not starts:
            level.load_before = before.load_before + before.load
        elif before.load_before + before.load > level.peak:
            level.peak = before.load_before + before.load
        if level.cap == before.cap and (search.bins_per_rank == 1 or not starts):
            while level.first < level.count and level.entries[level.first] < before.entries[before.chosen[0]]:
                level.first += 1
    level.at = level.first


cdef inline bint is_enough(Search* search, Level* level, int64_t tokens, int64_t load, int64_t size) noexcept nogil:
    """Whether the bins after may hold what is not among these, and no rank before is too large."""
    return (
        size >= level.least_items
        and level.tokens_from[0] - tokens <= level.cap_after
        and (not level.closes or level.cost_from[0] - load <= level.ranks_after * (search.best - 1))
        and level.peak < search.best
    )


cdef inline bint is_small(Search* search, Level* level, int64_t tokens, int64_t load, int64_t size) noexcept nogil:
    """Whether the bin can hold these, and every bin after it gets an entry."""
    return size <= level.most_items and tokens <= level.cap and level.load_before + load < search.best


cdef bint extend(Search* search, Level* level) noexcept nogil:
    """Puts the next entry into the subset, if there is one; negative steps say that they ran out."""
    cdef int64_t i = level.at, count = level.count, steps = search.steps, tokens, load
    # What all that is left must add at least for `is_enough`, and how much fits by `is_small`.
    cdef int64_t tokens_lack = level.tokens_from[0] - level.tokens - level.cap_after
    cdef int64_t load_lack = level.cost_from[0] - level.load - level.ranks_after * (search.best - 1)
    cdef int64_t tokens_room = level.cap - level.tokens
    cdef int64_t load_room = search.best - 1 - level.load_before - level.load
    cdef int64_t end = count - (level.least_items - level.size)  # the last position from which on they are enough
    cdef int64_t last = -1 if level.size == 0 else level.chosen[level.size - 1]  # chosen
    if not level.closes:
        load_lack = 0
    if end >= count:
        end = count - 1
    if level.peak >= search.best or (level.only_first and level.size == 0 and end > 0):
        end = -1 if level.peak >= search.best else 0
    if level.size >= level.most_items:
        tokens_room = -1
    while i < count:
        steps -= 1
        if steps < 0 or i > end or level.tokens_from[i] < tokens_lack or level.cost_from[i] < load_lack:
            break
        tokens = level.tokens_from[i] - level.tokens_from[i + 1]
        load = level.cost_from[i] - level.cost_from[i + 1]
        # An equal of one that was left out is left out.
        if tokens <= tokens_room and load <= load_room and not (
            i > 0 and last != i - 1
            and level.tokens_from[i - 1] - level.tokens_from[i] == tokens
            and level.cost_from[i - 1] - level.cost_from[i] == load
        ):
            level.chosen[level.size] = <int32_t>i
            level.size += 1
            level.tokens += tokens
            level.load += load
            level.at = i + 1
            search.steps = steps
            return True
        i += 1
    search.steps = steps
    return False


cdef bint take_back(Level* level) noexcept nogil:
    """Takes the last entry out of the subset; False where it is empty."""
    cdef int64_t i
    if level.size == 0:
        return False
    level.size -= 1
    i = level.chosen[level.size]
    level.tokens -= level.tokens_from[i] - level.tokens_from[i + 1]
    level.load -= level.cost_from[i] - level.cost_from[i + 1]
    level.at = i + 1
    return True


cdef void hand_down(Search* search, int64_t b) noexcept nogil:
    """The list of bin `b + 1`: what bin `b` leaves."""
    cdef Level* level = &search.levels[b]
    cdef Level* below = &search.levels[b + 1]
    cdef int64_t i, left = level.count - level.size, taken = level.size - 1
    below.count = left
    below.tokens_from[left] = below.cost_from[left] = 0
    for i in range(level.count - 1, -1, -1):
        if taken >= 0 and level.chosen[taken] == i:
            taken -= 1
            continue
        left -= 1
        below.entries[left] = level.entries[i]
        below.tokens_from[left] = below.tokens_from[left + 1] + level.tokens_from[i] - level.tokens_from[i + 1]
        below.cost_from[left] = below.cost_from[left + 1] + level.cost_from[i] - level.cost_from[i + 1]


cdef void record(Search* search) noexcept nogil:
    """Keeps the layout if the last bin with all that is left makes it better."""
    cdef Level* last = &search.levels[search.num_bins - 1]
    cdef Level* level
    cdef int64_t b, i, largest = last.load_before + last.cost_from[0]
    if last.peak > largest:
        largest = last.peak
    if largest >= search.best:
        return
    search.best = largest
    for b in range(search.num_bins - 1):
        level = &search.levels[b]
        for i in range(level.size):
            search.bin_of[level.entries[level.chosen[i]]] = <int32_t>b
    for i in range(last.count):
        search.bin_of[last.entries[i]] = <int32_t>(search.num_bins - 1)


cdef void run(Search* search) noexcept nogil:
    """The whole search; negative steps say that they ran out."""
    cdef int64_t b = 0, last = search.num_bins - 1
    cdef Level* level
    open_level(search, 0)
    if last == 0:
        record(search)
        return
    while True:
        level = &search.levels[b]
        if extend(search, level):
            continue
        if search.steps < 0:
            return
        if level.size and is_enough(search, level, level.tokens, level.load, level.size) and is_small(
            search, level, level.tokens, level.load, level.size
        ):
            hand_down(search, b)
            open_level(search, b + 1)
            if b + 1 < last:
                b += 1
                continue
            record(search)
            if search.best <= search.target:
                return
        while not take_back(&search.levels[b]):
            b -= 1
            if b < 0:
                return


def branch_workspace(int64_t num_entries, int64_t num_bins):
    """Bytes of workspace that `branch` needs."""
    return 8 + num_bins * (<int64_t>sizeof(Level) + 24 * (num_entries + 1))


cdef int64_t checked_sum(const int64_t[::1] amounts) except -1:
    cdef int64_t i, total = 0
    for i in range(amounts.shape[0]):
        if amounts[i] < 0:
            raise ValueError("cost must be descending, and no amount negative")
        if amounts[i] >= (<int64_t>1 << LIMIT_BITS) - total:
            raise ValueError("amounts must add up to less than 2**62")
        total += amounts[i]
    return total


cdef void lay_out(Search* search, void* memory) noexcept nogil:
    """Cuts the workspace into levels and their lists."""
    cdef int64_t b, size = search.num_entries + 1
    cdef int64_t* longs
    cdef int32_t* ints
    search.levels = <Level*>memory
    longs = <int64_t*>(search.levels + search.num_bins)
    ints = <int32_t*>(longs + 2 * size * search.num_bins)
    for b in range(search.num_bins):
        search.levels[b].tokens_from, search.levels[b].cost_from = longs, longs + size
        search.levels[b].entries, search.levels[b].chosen = ints, ints + size
        longs += 2 * size
        ints += 2 * size


def branch(
    const int64_t[::1] cost,  # IN int64[E], not negative, descending, and tokens descending where it is equal
    const int64_t[::1] tokens,  # IN int64[E], not negative
    const int64_t[::1] capacity,  # IN int64[K], tokens of each bin, bins of one rank side by side
    int64_t bins_per_rank,
    int64_t max_items,  # entries of a bin; 0: no limit
    int64_t best,  # only layouts with a smaller largest rank load are looked for
    int64_t target,  # the search ends with a layout of this load or less
    int64_t max_steps,
    int32_t[::1] bin_of,  # OUT int32[E]: the best layout; unchanged where none is better than `best`
    uint8_t[::1] workspace,  # OUT uint8[branch_workspace(E, K)]
):
    """The largest rank load of the best layout without an empty bin, or `best`, and whether no step was lacking."""
    cdef int64_t n = cost.shape[0], num_bins = capacity.shape[0], i, ranks, room, all_tokens, all_cost
    cdef Search search
    cdef Level* top
    if num_bins == 0 or bins_per_rank < 1 or num_bins % bins_per_rank:
        raise ValueError("there must be some bins, the same number for each rank")
    if tokens.shape[0] != n or bin_of.shape[0] != n:
        raise ValueError("tokens and bin_of must have one value per entry")
    if workspace.shape[0] < branch_workspace(n, num_bins):
        raise ValueError("the workspace is too small")
    for i in range(1, n):
        if cost[i] > cost[i - 1]:
            raise ValueError("cost must be descending, and no amount negative")
    all_cost, all_tokens, room = checked_sum(cost), checked_sum(tokens), checked_sum(capacity)
    ranks = num_bins // bins_per_rank
    if best >= (<int64_t>1 << LIMIT_BITS) // ranks + (((<int64_t>1 << LIMIT_BITS) % ranks) != 0):
        raise ValueError("amounts must add up to less than 2**62")
    search.num_entries, search.num_bins, search.bins_per_rank = n, num_bins, bins_per_rank
    search.most = max_items if 0 < max_items < n else n
    search.best, search.target, search.steps = best, target, max_steps if max_steps > 0 else 0
    if best < 1 or n < num_bins or n > num_bins * search.most or all_tokens > room or all_cost > ranks * (best - 1):
        return best, True
    search.capacity, search.bin_of = &capacity[0], &bin_of[0]
    with nogil:
        lay_out(&search, &workspace[0] + (8 - <size_t>&workspace[0] % 8) % 8)
        top = &search.levels[0]
        top.count = n
        top.tokens_from[n] = top.cost_from[n] = 0
        for i in range(n - 1, -1, -1):
            top.entries[i] = <int32_t>i
            top.tokens_from[i] = top.tokens_from[i + 1] + tokens[i]
            top.cost_from[i] = top.cost_from[i + 1] + cost[i]
        run(&search)
    return search.best, search.steps >= 0
