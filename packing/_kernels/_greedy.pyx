"""Greedy (LPT) placement under caps: each entry into the bin with the smallest key."""
# (a) Layout: one struct of pointers into the caller's workspace; bins rank-major, so a rank's bins are neighbours.
# (b) The loop is manual because every choice depends on all the choices before it. Where the score is the rank's load
#     before placing and only tokens and counts limit a bin, a tournament tree over ranks (smallest key, largest room)
#     finds the bin; all else scans the bins.
# (c) Ties: (score, capacity left after placing, tokens of the rank, rank, slot); the last two make it a total order.
# (d) Time: O(N log R) with the tree where loads are distinct, at worst O(N K) as with the scan; with the score ROUNDS
#     O(N K (K/g + log K)). Memory: O(K B + R) in the workspace.

from packing._kernels._bins cimport (
    BY_BALANCE, BY_LOAD, BY_ROUNDS, Bins, Choice, Entry, added_cost, capacity_left, carve, comes_first, fits,
    leaves_of, put, rough_variation, score_of, start,
)
from packing._kernels._rank_tree cimport build_tree, find_bin, largest_room, refresh_leaf
from packing._kernels._typedefs cimport int32_t, int64_t, uint8_t

LOAD_BEFORE, MAKESPAN_AFTER, BALANCE_AFTER, ROUNDS_AFTER = 0, 1, 2, 3
NO_CAPACITY = 1 << 62


def place_workspace(int64_t num_samples, int64_t ranks, int64_t bins_per_rank, int64_t num_budgets, int64_t num_groups):
    """Bytes of workspace that `place` needs."""
    cdef int64_t num_bins = ranks * bins_per_rank
    return 8 * (num_bins * (5 + num_budgets) + 2 * ranks + num_groups + 4 * leaves_of(ranks)) + 64


def place(
    const int64_t[::1] tokens,  # IN int64[N]
    const int64_t[::1] cost,  # IN int64[N]
    const int32_t[::1] count,  # IN int32[N]: samples that one entry stands for, or int32[0]: one each
    const int64_t[:, ::1] footprints,  # IN int64[N, B]
    const int64_t[::1] forbid,  # IN int64[N], or int64[0]: none
    const int32_t[::1] group,  # IN int32[N]: entries of one group share a rank, -1: no group; or int32[0]
    int64_t num_groups,
    const int32_t[::1] order,  # IN int32[N]: the order of placement
    const int64_t[::1] capacity,  # IN int64[K]; NO_CAPACITY: no cap
    const int64_t[::1] budgets,  # IN int64[B]
    const int64_t[::1] pad_cost,  # IN int64[max capacity + 1], or int64[0]: none
    int64_t ranks,
    int64_t bins_per_rank,
    int64_t round_size,
    int64_t max_items,  # 0: no limit
    bint oversized_single,
    int score,
    int32_t[::1] bin_of,  # OUT int32[N]
    uint8_t[::1] workspace,  # OUT uint8[place_workspace(...)]
):
    """Places entries one after the other and returns how many it could place (N: all of them)."""
    cdef int64_t num_samples = order.shape[0], num_bins = ranks * bins_per_rank, num_budgets = budgets.shape[0]
    cdef int64_t position, placed
    cdef bint uniform = True
    cdef Bins bins
    cdef Entry entry
    if ranks < 1 or bins_per_rank < 1 or round_size < 1 or ranks % round_size:
        raise ValueError("ranks, bins_per_rank and round_size must be positive, and round_size must divide ranks")
    if not (tokens.shape[0] == cost.shape[0] == footprints.shape[0] == bin_of.shape[0] == num_samples):
        raise ValueError("tokens, cost, footprints, order and bin_of must have the same length")
    if capacity.shape[0] != num_bins or footprints.shape[1] != num_budgets:
        raise ValueError("capacity must have one value per bin, footprints one column per budget")
    for length in (count.shape[0], forbid.shape[0], group.shape[0]):
        if length not in (0, num_samples):
            raise ValueError("count, forbid and group must be empty or have one value per entry")
    if workspace.shape[0] < place_workspace(num_samples, ranks, bins_per_rank, num_budgets, num_groups):
        raise ValueError("the workspace is too small")
    if not BY_LOAD <= score <= BY_ROUNDS:
        raise ValueError("score must be one of the four scores")
    if num_samples == 0:
        return 0

    bins.num_bins, bins.ranks, bins.slots, bins.round_size = num_bins, ranks, bins_per_rank, round_size
    bins.num_budgets, bins.max_items = num_budgets, max_items
    bins.score, bins.oversized_single = score, oversized_single
    bins.capacity = &capacity[0]
    bins.budgets = &budgets[0] if num_budgets else NULL
    bins.pad_cost = &pad_cost[0] if pad_cost.shape[0] else NULL
    carve(&bins, &workspace[0], num_groups)
    for position in range(1, num_bins):
        uniform = uniform and capacity[position] == capacity[0]
    with nogil:
        start(&bins, num_groups)
        if (
            score == BY_LOAD and uniform and num_budgets == 0 and pad_cost.shape[0] == 0
            and forbid.shape[0] == 0 and group.shape[0] == 0 and count.shape[0] == 0 and num_samples >= num_bins
        ):
            placed = place_by_tree(&bins, &tokens[0], &cost[0], &order[0], num_samples, &bin_of[0])
        else:
            placed = num_samples
            entry.footprints = NULL
            entry.forbid = 0
            for position in range(num_samples):
                entry.sample = order[position]
                entry.tokens = tokens[entry.sample]
                entry.cost = cost[entry.sample]
                entry.count = count[entry.sample] if count.shape[0] else 1
                if num_budgets:
                    entry.footprints = &footprints[entry.sample, 0]
                if forbid.shape[0]:
                    entry.forbid = forbid[entry.sample]
                entry.home = -1
                if group.shape[0] and group[entry.sample] >= 0:
                    entry.home = bins.home[group[entry.sample]]
                if not place_by_scan(&bins, &entry, num_samples - position, forbid.shape[0] > 0, &bin_of[entry.sample]):
                    placed = position
                    break
                if group.shape[0] and group[entry.sample] >= 0:
                    bins.home[group[entry.sample]] = bin_of[entry.sample] // bins.slots
    return placed


cdef bint place_by_scan(
    Bins* bins, const Entry* entry, int64_t remaining, bint forbidding, int32_t* chosen
) noexcept nogil:
    """Looks at every bin; False where none can take the entry."""
    cdef Choice best, choice
    cdef int64_t b, first = 0, last = bins.num_bins, empty = 0, empty_at_home = 0, more
    cdef double rough, best_rough = -1.0
    cdef bint must_open
    best.score, best.left, best.tokens, best.bin = 0, 0, 0, -1
    if entry.home >= 0:
        first, last = entry.home * bins.slots, (entry.home + 1) * bins.slots
    for b in range(bins.num_bins):
        empty += bins.items[b] == 0
        empty_at_home += bins.items[b] == 0 and first <= b < last
    must_open = empty_at_home > 0 or (empty > 0 and remaining <= empty)
    for b in range(first, last):
        if (must_open and bins.items[b]) or not fits(bins, b, entry, forbidding):
            continue
        more = added_cost(bins, b, entry)
        if bins.score == BY_BALANCE:
            rough = rough_variation(bins, b // bins.slots, more)
            if best.bin >= 0 and rough > best_rough * (1.0 + 1e-12):
                continue
            if best.bin < 0 or rough < best_rough:
                best_rough = rough
        choice.score = score_of(bins, b, more)
        choice.left = capacity_left(bins, b, entry.tokens)
        choice.tokens = bins.rank_tokens[b // bins.slots]
        choice.bin = b
        if best.bin < 0 or comes_first(&choice, &best):
            best = choice
    if best.bin < 0:
        return False
    put(bins, best.bin, entry)
    chosen[0] = <int32_t>best.bin
    return True


cdef int64_t place_by_tree(
    Bins* bins, const int64_t* tokens, const int64_t* cost, const int32_t* order, int64_t num_samples, int32_t* bin_of
) noexcept nogil:
    """The same choices as the scan for equal capacities, one score and no other limits than tokens and counts."""
    cdef int64_t position, rank, b
    cdef Entry entry
    entry.count, entry.forbid, entry.footprints = 1, 0, NULL
    build_tree(bins, True)
    for position in range(num_samples):
        entry.sample = order[position]
        entry.tokens = tokens[entry.sample]
        entry.cost = cost[entry.sample]
        if position < bins.num_bins:
            if entry.tokens > bins.capacity[0] and not bins.oversized_single:
                return position
            rank = bins.winner[1]
            b = rank * bins.slots
            while bins.items[b]:
                b += 1
            put(bins, b, &entry)
            refresh_leaf(bins, rank, 0 if b + 1 < (rank + 1) * bins.slots else -1)
            if position + 1 == bins.num_bins:
                build_tree(bins, False)
        else:
            b = find_bin(bins, entry.tokens)
            if b < 0:
                return position
            put(bins, b, &entry)
            refresh_leaf(bins, b // bins.slots, largest_room(bins, b // bins.slots))
        bin_of[entry.sample] = <int32_t>b
    return num_samples
