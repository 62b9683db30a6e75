"""Local search on a layout: swaps that lower the largest load, moves that repair overflow."""
# (a) Layout: `lower_largest` keeps every bin's samples ascending (costs descending) in place, so that partners are found
#     by walking two sorted lists; `repair` only keeps the bin of each sample, because there counts change.
# (b) The loops are manual because every step depends on the one before it.
# (c) Ties: the keys in the twin's docstrings end in sample numbers; samples come sorted, so equal ones are alike.
# (d) Time: a swap O(K + N) without a binding cap (a bin is skipped unless the mean of the two loads beats the best so
#     far); a repairing move O(|bin| * (N + K)). Memory: O(K) in the workspace.

from packing._kernels._typedefs cimport int32_t, int64_t, uint8_t


NUM_PARTNERS = 64

cdef enum:
    MOST_PARTNERS = 64


cdef struct Layout:
    int64_t num_samples, num_bins, slots
    const int64_t* cost
    const int64_t* tokens
    const int64_t* capacity
    const int32_t* offsets
    int32_t* items
    int64_t* load   # [K], in `repair` of the rank of each bin: [K / M]
    int64_t* used   # [K]
    int64_t* count  # [K], `repair` only
    int32_t* partners  # [N] samples of the bins that may exchange with the fullest one, `repair` only
    uint8_t* roomy     # [K] whether a bin is one of those


cdef struct Pair:
    int64_t after, larger, other, x, y  # x, y: samples; y = -1: a move


cdef inline int64_t* align(uint8_t* memory) noexcept nogil:
    return <int64_t*>(memory + (8 - <size_t>memory % 8) % 8)


# --------------------------------------------------------------------------------------------------- lower_largest


def lower_largest_workspace(int64_t num_samples, int64_t num_bins):
    """Bytes of workspace that `lower_largest` needs."""
    return 16 * num_bins + 8


def lower_largest(
    const int64_t[::1] cost,  # IN int64[N], descending
    const int64_t[::1] tokens,  # IN int64[N]
    const int64_t[::1] capacity,  # IN int64[K]
    const int32_t[::1] offsets,  # IN int32[K+1]
    int32_t[::1] items,  # IN and OUT int32[N]: the samples of each bin, ascending
    int64_t target,
    int64_t max_swaps,
    uint8_t[::1] workspace,  # OUT uint8[lower_largest_workspace(N, K)]
):
    """Swaps samples of the largest bin against cheaper ones of others and returns how many swaps were made."""
    cdef Layout layout
    cdef int64_t swaps, b, i, num_bins = capacity.shape[0], num_samples = cost.shape[0]
    if not (tokens.shape[0] == items.shape[0] == num_samples) or offsets.shape[0] != num_bins + 1:
        raise ValueError("cost, tokens and items must have the same length, and offsets one more than capacity")
    if workspace.shape[0] < lower_largest_workspace(num_samples, num_bins):
        raise ValueError("the workspace is too small")
    if num_bins == 0 or num_samples == 0:
        return 0
    layout.num_samples, layout.num_bins = num_samples, num_bins
    layout.cost, layout.tokens, layout.capacity = &cost[0], &tokens[0], &capacity[0]
    layout.offsets, layout.items = &offsets[0], &items[0]
    layout.load = align(&workspace[0])
    layout.used = layout.load + num_bins
    with nogil:
        for b in range(num_bins):
            layout.load[b] = 0
            layout.used[b] = 0
            for i in range(offsets[b], offsets[b + 1]):
                layout.load[b] += cost[items[i]]
                layout.used[b] += tokens[items[i]]
        swaps = 0
        while swaps < max_swaps and swap_once(&layout, target):
            swaps += 1
    return swaps


cdef bint swap_once(Layout* layout, int64_t target) noexcept nogil:
    """Makes the best swap of the largest bin; False where there is nothing to do or nothing helps."""
    cdef int64_t a = 0, b, gap
    cdef Pair best
    for b in range(1, layout.num_bins):
        if layout.load[b] > layout.load[a]:
            a = b
    if layout.load[a] <= target:
        return False
    best.after, best.other, best.x, best.y = 0, -1, 0, 0
    best.larger = layout.load[a]  # anything accepted must be below it
    for b in range(layout.num_bins):
        gap = layout.load[a] - layout.load[b]
        # No swap brings the larger of the two loads below their mean.
        if gap > 1 and layout.load[a] - gap // 2 < best.larger:
            best_partner(layout, a, b, &best)
    if best.other < 0:
        return False
    exchange(layout, a, best.x, best.y)
    exchange(layout, best.other, best.y, best.x)
    return True


cdef inline bint swap_fits(const Layout* layout, int64_t a, int64_t b, int64_t x, int64_t y) noexcept nogil:
    cdef int64_t longer = layout.tokens[x] - layout.tokens[y]
    if longer > 0:
        return layout.used[b] + longer <= layout.capacity[b]
    return longer == 0 or layout.used[a] - longer <= layout.capacity[a]


cdef void best_partner(const Layout* layout, int64_t a, int64_t b, Pair* best) noexcept nogil:
    """Improves `best` by a swap between bins a and b: for each x the y nearest to half the gap, on both sides of it."""
    cdef int64_t gap = layout.load[a] - layout.load[b], i, k, change, larger, x, y, found, found_larger
    cdef int64_t near = layout.offsets[b]  # the first y whose swap moves at least half the gap
    for i in range(layout.offsets[a], layout.offsets[a + 1]):
        x = layout.items[i]
        while near < layout.offsets[b + 1] and 2 * (layout.cost[x] - layout.cost[layout.items[near]]) < gap:
            near += 1
        found, found_larger = -1, best.larger
        k = near - 1
        while k >= layout.offsets[b]:  # moves less than half the gap: a stays the larger one
            y = layout.items[k]
            change = layout.cost[x] - layout.cost[y]
            larger = layout.load[a] - change
            if change <= 0 or larger > found_larger or (found < 0 and larger == best.larger):
                break
            if swap_fits(layout, a, b, x, y):
                found, found_larger = y, larger
            k -= 1
        k = near
        while k < layout.offsets[b + 1]:  # moves at least half the gap: b becomes the larger one
            y = layout.items[k]
            change = layout.cost[x] - layout.cost[y]
            larger = layout.load[b] + change
            if change >= gap or larger >= found_larger:
                break
            if swap_fits(layout, a, b, x, y):
                found, found_larger = y, larger
                break
            k += 1
        if found >= 0:
            best.larger, best.other, best.x, best.y = found_larger, b, x, found


cdef void exchange(Layout* layout, int64_t b, int64_t out, int64_t into) noexcept nogil:
    """Replaces one sample of a bin and keeps its samples ascending."""
    cdef int64_t start = layout.offsets[b], stop = layout.offsets[b + 1], k = start
    cdef int32_t* items = layout.items
    while items[k] != out:
        k += 1
    while k + 1 < stop and items[k + 1] < into:
        items[k] = items[k + 1]
        k += 1
    while k > start and items[k - 1] > into:
        items[k] = items[k - 1]
        k -= 1
    items[k] = <int32_t>into
    layout.load[b] += layout.cost[into] - layout.cost[out]
    layout.used[b] += layout.tokens[into] - layout.tokens[out]


# ---------------------------------------------------------------------------------------------------------- repair


def repair_workspace(int64_t num_samples, int64_t num_bins):
    """Bytes of workspace that `repair` needs."""
    return 25 * num_bins + 4 * num_samples + 8


def repair(
    const int64_t[::1] cost,  # IN int64[N]
    const int64_t[::1] tokens,  # IN int64[N]
    const int64_t[::1] capacity,  # IN int64[K]
    int64_t bins_per_rank,  # loads are those of ranks, bins being rank-major; 1: of bins
    int32_t[::1] bin_of,  # IN and OUT int32[N]
    int64_t max_moves,
    bint swaps_only,  # every bin keeps its number of samples
    uint8_t[::1] workspace,  # OUT uint8[repair_workspace(N, K)]
):
    """Moves and swaps samples out of bins over their capacity; True where none is left over it."""
    cdef Layout layout
    cdef int64_t moves = 0, i, num_bins = capacity.shape[0], num_samples = cost.shape[0]
    cdef int state = 1
    if not (tokens.shape[0] == bin_of.shape[0] == num_samples):
        raise ValueError("cost, tokens and bin_of must have the same length")
    if workspace.shape[0] < repair_workspace(num_samples, num_bins):
        raise ValueError("the workspace is too small")
    for i in range(num_samples):
        if not 0 <= bin_of[i] < num_bins:
            raise ValueError("bin_of must name bins")
    if bins_per_rank < 1 or num_bins % bins_per_rank:
        raise ValueError("bins_per_rank must divide the number of bins")
    if num_bins == 0 or num_samples == 0:
        return True
    layout.slots = bins_per_rank
    layout.num_samples, layout.num_bins = num_samples, num_bins
    layout.cost, layout.tokens, layout.capacity = &cost[0], &tokens[0], &capacity[0]
    layout.items = &bin_of[0]
    layout.load = align(&workspace[0])
    layout.used = layout.load + num_bins
    layout.count = layout.used + num_bins
    layout.partners = <int32_t*>(layout.count + num_bins)
    layout.roomy = <uint8_t*>(layout.partners + num_samples)
    with nogil:
        for i in range(3 * num_bins):
            layout.load[i] = 0
        for i in range(num_samples):
            layout.load[bin_of[i] // bins_per_rank] += cost[i]
            layout.used[bin_of[i]] += tokens[i]
            layout.count[bin_of[i]] += 1
        while state == 1:
            state = relieve_once(&layout, moves < max_moves, swaps_only)
            moves += 1
    return state == 2


cdef int relieve_once(Layout* layout, bint allowed, bint swaps_only) noexcept nogil:
    """One step of the fullest bin: 1 a move was made, 2 nothing is over its capacity, 0 nothing helps."""
    cdef int64_t a = 0, b, x, y, over, shorter, i, num_partners
    cdef Pair best
    for b in range(1, layout.num_bins):
        if layout.used[b] - layout.capacity[b] > layout.used[a] - layout.capacity[a]:
            a = b
    over = layout.used[a] - layout.capacity[a]
    if over <= 0:
        return 2
    if not allowed:
        return 0
    num_partners = find_partners(layout, a)
    best.after, best.larger, best.other, best.x, best.y = 0, 0, -1, -1, -1
    for x in range(layout.num_samples):
        if layout.items[x] != a:
            continue
        if layout.count[a] > 1 and not swaps_only:
            for b in range(layout.num_bins):
                if layout.roomy[b] and layout.used[b] + layout.tokens[x] <= layout.capacity[b]:
                    consider(layout, a, over, x, b, -1, &best)
        for i in range(num_partners):
            y = layout.partners[i]
            b = layout.items[y]
            shorter = layout.tokens[x] - layout.tokens[y]
            if shorter > 0 and layout.used[b] + shorter <= layout.capacity[b]:
                consider(layout, a, over, x, b, y, &best)
    if best.other < 0:
        return 0
    move(layout, best.x, best.other)
    if best.y >= 0:
        move(layout, best.y, a)
    return 1


cdef int64_t find_partners(Layout* layout, int64_t a) noexcept nogil:
    """Marks the bins with the most room besides `a`, and returns how many samples of theirs it has listed."""
    cdef int64_t b, i, chosen = 0, count = 0, room
    cdef int64_t best[MOST_PARTNERS]
    for b in range(layout.num_bins):
        layout.roomy[b] = 0
        if b == a:
            continue
        room = layout.capacity[b] - layout.used[b]
        if chosen == MOST_PARTNERS and room <= layout.capacity[best[chosen - 1]] - layout.used[best[chosen - 1]]:
            continue
        i = chosen if chosen < MOST_PARTNERS else MOST_PARTNERS - 1
        while i > 0 and layout.capacity[best[i - 1]] - layout.used[best[i - 1]] < room:
            best[i] = best[i - 1]
            i -= 1
        best[i] = b
        if chosen < MOST_PARTNERS:
            chosen += 1
    for i in range(chosen):
        layout.roomy[best[i]] = 1
    for i in range(layout.num_samples):
        if layout.roomy[layout.items[i]]:
            layout.partners[count] = <int32_t>i
            count += 1
    return count


cdef inline void consider(
    const Layout* layout, int64_t a, int64_t over, int64_t x, int64_t b, int64_t y, Pair* best
) noexcept nogil:
    """Keeps the smaller of `best` and this step by (after, larger, x, other, y)."""
    cdef int64_t shorter = layout.tokens[x], change = layout.cost[x], after, larger
    cdef int64_t here = a // layout.slots, there = b // layout.slots
    if y >= 0:
        shorter -= layout.tokens[y]
        change -= layout.cost[y]
    after = over - shorter if over > shorter else 0
    if here == there:
        change = 0
    larger = layout.load[here] - change
    if layout.load[there] + change > larger:
        larger = layout.load[there] + change
    if best.other >= 0:
        if after != best.after:
            if after > best.after:
                return
        elif larger != best.larger:
            if larger > best.larger:
                return
        elif x != best.x:
            if x > best.x:
                return
        elif b != best.other:
            if b > best.other:
                return
        elif y >= best.y:
            return
    best.after, best.larger, best.other, best.x, best.y = after, larger, b, x, y


cdef inline void move(Layout* layout, int64_t sample, int64_t goal) noexcept nogil:
    cdef int64_t source = layout.items[sample]
    layout.items[sample] = <int32_t>goal
    layout.load[source // layout.slots] -= layout.cost[sample]
    layout.used[source] -= layout.tokens[sample]
    layout.count[source] -= 1
    layout.load[goal // layout.slots] += layout.cost[sample]
    layout.used[goal] += layout.tokens[sample]
    layout.count[goal] += 1
