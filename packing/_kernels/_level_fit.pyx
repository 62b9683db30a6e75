"""Placement under cost levels: every entry into a bin where it fits below the level, by one of three rules."""
# (a) Layout: the bins of the greedy kernel, plus slack and room of every unit; a unit is what has a level, a bin or a rank.
# (b) The loop is manual because every choice depends on all the choices before it. Where only tokens and counts limit a
#     bin and no cost but the entry's own is added, trees over the units (or units sorted by slack) find the unit; all
#     else scans the bins.
# (c) Ties: keys that end in the unit, then empty bins first, capacity left, bin; see the twin.
# (d) Time: O(N log U) where units with slack have room, at worst O(N U); best fit moves up to U words an entry as well;
#     the scan O(N K). Memory: O(K B + R) in the workspace.

from packing._kernels._bins cimport (
    BY_LOAD, Bins, Entry, UNLIMITED, added_cost, capacity_left, carve, fits, keeps_other_limits, leaves_of, start,
)
from packing._kernels._level_units cimport (
    BEST, DENSE, FIRST, Units, build_units, carve_units, denser, densest_below, first_below, least_excess, lower_sorted,
    measure_room, refresh_unit, tightest_below, units_words,
)
from packing._kernels._typedefs cimport int32_t, int64_t, uint8_t

FIRST_FIT, BEST_FIT, DENSITY = 0, 1, 2
NO_CAPACITY = 1 << 62


cdef struct Columns:
    const int64_t* tokens
    const int64_t* cost
    const int32_t* count       # NULL: one sample each
    const int64_t* footprints  # [N, B]
    const int64_t* forbid      # NULL: none
    const int32_t* group       # NULL: none
    const int32_t* order
    int64_t num_samples
    bint may_overflow


cdef struct Found:
    int64_t kind, key, unit, occupied, left, bin  # compared in this order; kind: 0 below the level, 1 above, 2 over


def place_workspace(int64_t num_samples, int64_t ranks, int64_t bins_per_rank, int64_t num_budgets, int64_t num_groups):
    """Bytes of workspace that `place` needs."""
    cdef int64_t num_bins = ranks * bins_per_rank
    cdef int64_t words = num_bins * (5 + num_budgets) + 2 * ranks + num_groups + 4 * leaves_of(ranks)
    return 8 * (words + units_words(num_bins)) + 64


def place(
    const int64_t[::1] tokens,  # IN int64[N], positive
    const int64_t[::1] cost,  # IN int64[N], not negative
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
    const int64_t[::1] levels,  # IN int64[K]: of the bins' loads; or int64[R]: of the ranks' loads. At most 2**62
    int64_t max_items,  # 0: no limit
    bint oversized_single,
    int rule,
    bint may_overflow,
    int32_t[::1] bin_of,  # OUT int32[N]
    int64_t[::1] loads,  # OUT int64[K], of the bins, pad cost included; only where all entries are placed
    uint8_t[::1] workspace,  # OUT uint8[place_workspace(...)]
):
    """Places entries one after the other and returns how many it could place (N: all of them)."""
    cdef int64_t num_samples = order.shape[0], num_bins = ranks * bins_per_rank, num_budgets = budgets.shape[0]
    cdef int64_t b, placed
    cdef bint uniform = True
    cdef Bins bins
    cdef Units units
    cdef Columns columns
    if ranks < 1 or bins_per_rank < 1:
        raise ValueError("ranks and bins_per_rank must be positive")
    if not (tokens.shape[0] == cost.shape[0] == footprints.shape[0] == bin_of.shape[0] == num_samples):
        raise ValueError("tokens, cost, footprints, order and bin_of must have the same length")
    if capacity.shape[0] != num_bins or loads.shape[0] != num_bins or footprints.shape[1] != num_budgets:
        raise ValueError("capacity and loads must have one value per bin, footprints one column per budget")
    if levels.shape[0] not in (ranks, num_bins):
        raise ValueError("levels must have one value per bin or per rank")
    for length in (count.shape[0], forbid.shape[0], group.shape[0]):
        if length not in (0, num_samples):
            raise ValueError("count, forbid and group must be empty or have one value per entry")
    if workspace.shape[0] < place_workspace(num_samples, ranks, bins_per_rank, num_budgets, num_groups):
        raise ValueError("the workspace is too small")
    if not FIRST <= rule <= DENSE:
        raise ValueError("rule must be one of the three rules")
    if num_samples == 0:
        return 0

    bins.num_bins, bins.ranks, bins.slots, bins.round_size = num_bins, ranks, bins_per_rank, ranks
    bins.num_budgets, bins.max_items = num_budgets, max_items
    bins.score, bins.oversized_single = BY_LOAD, oversized_single
    bins.capacity = &capacity[0]
    bins.budgets = &budgets[0] if num_budgets else NULL
    bins.pad_cost = &pad_cost[0] if pad_cost.shape[0] else NULL
    carve(&bins, &workspace[0], num_groups)
    units.num_units, units.slots, units.rule = levels.shape[0], num_bins // levels.shape[0], rule
    carve_units(&units, bins.winner + 2 * bins.leaves)
    columns.tokens, columns.cost, columns.order = &tokens[0], &cost[0], &order[0]
    columns.count = &count[0] if count.shape[0] else NULL
    columns.footprints = &footprints[0, 0] if num_budgets else NULL
    columns.forbid = &forbid[0] if forbid.shape[0] else NULL
    columns.group = &group[0] if group.shape[0] else NULL
    columns.num_samples, columns.may_overflow = num_samples, may_overflow
    for b in range(1, num_bins):
        uniform = uniform and capacity[b] == capacity[0]
    with nogil:
        start(&bins, num_groups)
        start_units(&units, &bins, &columns, &levels[0])
        if (
            num_budgets == 0 and bins.pad_cost == NULL and columns.forbid == NULL and columns.group == NULL
            and (columns.count == NULL or max_items == 0) and (uniform or not oversized_single)
        ):
            placed = place_by_tree(&bins, &units, &columns, &bin_of[0])
        else:
            placed = place_by_scan(&bins, &units, &columns, &bin_of[0])
        for b in range(num_bins):
            loads[b] = bins.pack_load[b]
    return placed


cdef void start_units(Units* units, const Bins* bins, const Columns* columns, const int64_t* levels) noexcept nogil:
    cdef int64_t unit, b, i
    for unit in range(units.num_units):
        units.slack[unit] = levels[unit]
        for b in range(unit * units.slots, (unit + 1) * units.slots):
            units.slack[unit] -= bins.pack_load[b]
        measure_room(units, bins, unit)
    units.least_tokens, units.least_cost = UNLIMITED, UNLIMITED
    for i in range(columns.num_samples):
        units.least_tokens = min(units.least_tokens, columns.tokens[i])
        units.least_cost = min(units.least_cost, columns.cost[i])


cdef inline void read_entry(const Bins* bins, const Columns* columns, int64_t position, Entry* entry) noexcept nogil:
    entry.sample = columns.order[position]
    entry.tokens = columns.tokens[entry.sample]
    entry.cost = columns.cost[entry.sample]
    entry.count = 1 if columns.count == NULL else columns.count[entry.sample]
    entry.forbid = 0 if columns.forbid == NULL else columns.forbid[entry.sample]
    entry.footprints = NULL
    if columns.footprints != NULL:
        entry.footprints = columns.footprints + entry.sample * bins.num_budgets
    entry.home = -1
    if columns.group != NULL and columns.group[entry.sample] >= 0:
        entry.home = bins.home[columns.group[entry.sample]]


cdef inline void settle(Bins* bins, int64_t b, const Entry* entry, int64_t more) noexcept nogil:
    """Puts the entry into the bin; the unit's slack is the caller's."""
    cdef int64_t budget
    bins.unused[b] -= entry.tokens
    bins.pack_load[b] += more
    bins.items[b] += entry.count
    bins.value[b] = entry.forbid
    for budget in range(bins.num_budgets):
        bins.used[b * bins.num_budgets + budget] += entry.footprints[budget]


# --------------------------------------------------------------------------------------------------------------- scan


cdef int64_t place_by_scan(Bins* bins, Units* units, const Columns* columns, int32_t* bin_of) noexcept nogil:
    cdef int64_t position, b, unit, more, empty = bins.num_bins
    cdef Entry entry
    for position in range(columns.num_samples):
        read_entry(bins, columns, position, &entry)
        b = scan(bins, units, columns, &entry, empty, columns.num_samples - position)
        if b < 0:
            return position
        unit = b // units.slots
        more = added_cost(bins, b, &entry)
        empty -= bins.items[b] == 0
        settle(bins, b, &entry, more)
        units.slack[unit] -= more
        measure_room(units, bins, unit)
        if columns.group != NULL and columns.group[entry.sample] >= 0:
            bins.home[columns.group[entry.sample]] = b // bins.slots
        bin_of[entry.sample] = <int32_t>b
    return columns.num_samples


cdef int64_t scan(
    const Bins* bins, const Units* units, const Columns* columns, const Entry* entry, int64_t empty, int64_t remaining
) noexcept nogil:
    """The bin with the smallest key among all that the entry may join, or -1."""
    cdef int64_t b, first = 0, last = bins.num_bins, left
    cdef bint must_open = remaining <= empty
    cdef Found best, found
    best.kind, best.key, best.unit, best.occupied, best.left, best.bin = 3, 0, 0, 0, 0, -1
    if entry.home >= 0:
        first, last = entry.home * bins.slots, (entry.home + 1) * bins.slots
    if columns.group != NULL:
        for b in range(first, last):
            must_open = must_open or bins.items[b] == 0
    for b in range(first, last):
        if must_open and bins.items[b]:
            continue
        found.bin, found.unit, found.occupied = b, b // units.slots, bins.items[b] > 0
        if fits(bins, b, entry, columns.forbid != NULL):
            left = units.slack[found.unit] - added_cost(bins, b, entry)
            found.kind = 0 if left >= 0 else 1
            found.key = -left if left < 0 else (left if units.rule == BEST else 0)
            found.left = capacity_left(bins, b, entry.tokens)
        elif columns.may_overflow and fits_but_for_tokens(bins, b, entry, columns.forbid != NULL):
            found.kind, found.key, found.unit, found.occupied, found.left = 2, -bins.unused[b], 0, 0, 0
        else:
            continue
        if precedes(units, &found, &best):
            best = found
    return best.bin


cdef inline bint precedes(const Units* units, const Found* one, const Found* other) noexcept nogil:
    if one.kind != other.kind:
        return one.kind < other.kind
    if one.key != other.key:
        return one.key < other.key
    if one.unit != other.unit:
        if units.rule == DENSE and one.kind == 0:
            if denser(units, one.unit, other.unit):
                return True
            if denser(units, other.unit, one.unit):
                return False
        return one.unit < other.unit
    if one.occupied != other.occupied:
        return one.occupied < other.occupied
    if one.left != other.left:
        return one.left < other.left
    return one.bin < other.bin


cdef inline bint fits_but_for_tokens(const Bins* bins, int64_t b, const Entry* entry, bint forbidding) noexcept nogil:
    """Whether nothing but the tokens of the other samples keeps the entry out."""
    return entry.tokens <= bins.capacity[b] and keeps_other_limits(bins, b, entry, forbidding)


# -------------------------------------------------------------------------------------------------------------- trees


cdef int64_t place_by_tree(Bins* bins, Units* units, const Columns* columns, int32_t* bin_of) noexcept nogil:
    """The same choices as the scan where no limits hold but tokens and counts and no cost is added but the entry's."""
    cdef int64_t position, b, unit, empty = bins.num_bins
    cdef Entry entry
    build_units(units, bins)
    for position in range(columns.num_samples):
        read_entry(bins, columns, position, &entry)
        b = -1
        if columns.num_samples - position > empty and not (
            bins.oversized_single and entry.tokens > bins.capacity[0]
        ):
            unit = find_unit(units, &entry)
            if unit >= 0:
                b = unit if units.slots == 1 else bin_within(bins, units, unit, &entry)
        if b < 0:
            b = scan(bins, units, columns, &entry, empty, columns.num_samples - position)
            if b < 0:
                return position
            unit = b if units.slots == 1 else b // units.slots
        empty -= bins.items[b] == 0
        settle(bins, b, &entry, entry.cost)
        if units.rule == BEST:
            lower_sorted(units, unit, entry.cost)
        else:
            units.slack[unit] -= entry.cost
        refresh_unit(units, bins, unit)
        bin_of[entry.sample] = <int32_t>b
    return columns.num_samples


cdef inline int64_t find_unit(const Units* units, const Entry* entry) noexcept nogil:
    """The unit that the rule wants, else the one with the least excess; -1 where no bin has the room."""
    cdef int64_t unit
    if units.rule == FIRST:
        unit = first_below(units, entry.tokens, entry.cost)
    elif units.rule == BEST:
        unit = tightest_below(units, entry.tokens, entry.cost)
    else:
        unit = densest_below(units, entry.tokens, entry.cost)
    return unit if unit >= 0 else least_excess(units, entry.tokens)


cdef inline int64_t bin_within(const Bins* bins, const Units* units, int64_t unit, const Entry* entry) noexcept nogil:
    """The first empty bin of the unit with the least capacity left, else the bin with the least capacity left."""
    cdef int64_t b, best = -1, left, best_left = 0
    cdef bint occupied, best_occupied = False
    for b in range(unit * units.slots, (unit + 1) * units.slots):
        if not fits(bins, b, entry, False):
            continue
        occupied, left = bins.items[b] > 0, capacity_left(bins, b, entry.tokens)
        if best < 0 or occupied < best_occupied or (occupied == best_occupied and left < best_left):
            best, best_left, best_occupied = b, left, occupied
    return best
