# Units with cost levels (bins, or ranks of several bins), and three ways to find the unit that a rule wants.
#
# Trees over the units hold the largest slack below the level and the largest room below each node, for the density rule
# also the densest unit; best fit keeps the units sorted by slack. An unfit unit is one that can take no entry any more.

from libc.string cimport memmove

from packing._kernels._bins cimport Bins, UNLIMITED, leaves_of
from packing._kernels._typedefs cimport int64_t, uint8_t

cdef extern from *:
    """
    typedef __int128 packing_int128;
    """
    ctypedef long long int128_t "packing_int128"


cdef enum:
    FIRST = 0
    BEST = 1
    DENSE = 2


cdef struct Units:
    int64_t num_units, slots, leaves
    int rule
    int64_t least_tokens, least_cost  # of all entries
    int64_t* slack       # [U] level minus load
    int64_t* room        # [U] tokens of room, over all bins of the unit
    int64_t* most_slack  # [2 * leaves] tree
    int64_t* most_room   # [2 * leaves] tree: room of one bin; -1: all are closed
    int64_t* densest     # [2 * leaves] tree: the unit with the most slack per token of room, -1: none
    int64_t* by_slack    # [U] the units by (slack, unit), best fit only


cdef inline int64_t units_words(int64_t num_bins) noexcept nogil:
    """64-bit words that `carve_units` takes, at most."""
    return 3 * num_bins + 6 * leaves_of(num_bins)


cdef inline void carve_units(Units* units, int64_t* memory) noexcept nogil:
    units.leaves = leaves_of(units.num_units)
    units.slack = memory
    units.room = units.slack + units.num_units
    units.by_slack = units.room + units.num_units
    units.most_slack = units.by_slack + units.num_units
    units.most_room = units.most_slack + 2 * units.leaves
    units.densest = units.most_room + 2 * units.leaves


cdef inline bint denser(const Units* units, int64_t one, int64_t other) noexcept nogil:
    """Whether `one` has strictly more slack per token of room."""
    cdef int64_t room_one = units.room[one], room_other = units.room[other]
    room_one = room_one if room_one > 0 else 1
    room_other = room_other if room_other > 0 else 1
    return <int128_t>units.slack[one] * room_other > <int128_t>units.slack[other] * room_one


# ------------------------------------------------------------------------------------------------------------- trees


cdef inline int64_t measure_room(Units* units, const Bins* bins, int64_t unit) noexcept nogil:
    """Brings `room` of the unit up to date and returns the room of its roomiest open bin, -1 where all are closed."""
    cdef int64_t b, left, total = 0, most = -1
    for b in range(unit * units.slots, (unit + 1) * units.slots):
        left = bins.unused[b]
        if left > most and not (bins.max_items and bins.items[b] >= bins.max_items):
            most = left
        if left > 0:
            total = UNLIMITED if left > UNLIMITED - total else total + left
    units.room[unit] = total
    return most


cdef inline void set_leaf(Units* units, int64_t unit, int64_t most) noexcept nogil:
    cdef int64_t node = units.leaves + unit
    units.most_slack[node] = units.slack[unit]
    units.most_room[node] = most
    units.densest[node] = unit if most >= units.least_tokens and units.slack[unit] >= units.least_cost else -1


cdef inline void join_units(Units* units, int64_t node) noexcept nogil:
    cdef int64_t left = 2 * node, right = 2 * node + 1, one, other
    units.most_slack[node] = max(units.most_slack[left], units.most_slack[right])
    units.most_room[node] = max(units.most_room[left], units.most_room[right])
    if units.rule == DENSE:
        one, other = units.densest[left], units.densest[right]
        if one < 0 or (other >= 0 and denser(units, other, one)):
            one = other
        units.densest[node] = one


cdef inline void build_units(Units* units, const Bins* bins) noexcept nogil:
    cdef int64_t unit, node
    for unit in range(units.leaves):
        node = units.leaves + unit
        if unit < units.num_units:
            set_leaf(units, unit, measure_room(units, bins, unit))
        else:
            units.most_slack[node], units.most_room[node], units.densest[node] = -UNLIMITED - 1, -1, -1
    for node in range(units.leaves - 1, 0, -1):
        join_units(units, node)
    if units.rule == BEST:
        for unit in range(units.num_units):
            insert_sorted(units, unit, unit)


cdef inline void refresh_unit(Units* units, const Bins* bins, int64_t unit) noexcept nogil:
    cdef int64_t node = (units.leaves + unit) // 2
    set_leaf(units, unit, measure_room(units, bins, unit))
    while node:
        join_units(units, node)
        node //= 2


cdef inline int64_t first_below(const Units* units, int64_t tokens, int64_t cost) noexcept nogil:
    """The first unit with the slack and with a bin with the room, or -1."""
    cdef int64_t stack[80]
    cdef int64_t depth = 1, node
    stack[0] = 1
    while depth:
        depth -= 1
        node = stack[depth]
        # Down the left side while it may hold one; the right sides wait on the stack.
        while units.most_slack[node] >= cost and units.most_room[node] >= tokens:
            if node >= units.leaves:
                return node - units.leaves
            stack[depth] = 2 * node + 1
            depth += 1
            node = 2 * node
    return -1


cdef inline int64_t densest_below(const Units* units, int64_t tokens, int64_t cost) noexcept nogil:
    """The densest unit with the slack and with a bin with the room, or -1: depth first, the denser side first."""
    cdef int64_t stack[80]
    cdef int64_t depth = 1, node, unit, near, far, best = -1
    stack[0] = 1
    while depth:
        depth -= 1
        node = stack[depth]
        unit = units.densest[node]
        if unit < 0 or units.most_slack[node] < cost or units.most_room[node] < tokens:
            continue
        if best >= 0 and not denser(units, unit, best) and (unit > best or denser(units, best, unit)):
            continue
        if units.slack[unit] >= cost and units.most_room[units.leaves + unit] >= tokens:
            best = unit
            continue
        if node >= units.leaves:
            continue
        near, far = 2 * node, 2 * node + 1
        if units.densest[near] != unit:
            near, far = far, near
        stack[depth] = far
        stack[depth + 1] = near
        depth += 2
    return best


cdef inline int64_t least_excess(const Units* units, int64_t tokens) noexcept nogil:
    """The unit with the most slack among those with a bin with the room (the first one on ties), or -1."""
    cdef int64_t stack[80]
    cdef int64_t depth = 1, node, near, far, best = -1, slack = 0
    stack[0] = 1
    while depth:
        depth -= 1
        node = stack[depth]
        if units.most_room[node] < tokens or (best >= 0 and units.most_slack[node] < slack):
            continue
        if node >= units.leaves:
            if best < 0 or units.most_slack[node] > slack or node - units.leaves < best:
                best, slack = node - units.leaves, units.most_slack[node]
            continue
        near, far = 2 * node, 2 * node + 1
        if units.most_slack[far] > units.most_slack[near]:
            near, far = far, near
        stack[depth] = far
        stack[depth + 1] = near
        depth += 2
    return best


# -------------------------------------------------------------------------------------------------------- sorted units


cdef inline int64_t place_of(const Units* units, int64_t length, int64_t slack, int64_t unit) noexcept nogil:
    """How many of the first `length` sorted units come before (slack, unit)."""
    cdef int64_t low = 0, high = length, middle, other
    while low < high:
        middle = (low + high) // 2
        other = units.by_slack[middle]
        if units.slack[other] < slack or (units.slack[other] == slack and other < unit):
            low = middle + 1
        else:
            high = middle
    return low


cdef inline void insert_sorted(Units* units, int64_t unit, int64_t length) noexcept nogil:
    """Puts `unit` into the first `length` sorted units."""
    cdef int64_t at = place_of(units, length, units.slack[unit], unit)
    memmove(&units.by_slack[at + 1], &units.by_slack[at], (length - at) * sizeof(int64_t))
    units.by_slack[at] = unit


cdef inline void lower_sorted(Units* units, int64_t unit, int64_t more) noexcept nogil:
    """Takes `more` off the slack of `unit` and keeps the units sorted."""
    cdef int64_t last = place_of(units, units.num_units, units.slack[unit], unit), at
    units.slack[unit] -= more
    at = place_of(units, last, units.slack[unit], unit)
    memmove(&units.by_slack[at + 1], &units.by_slack[at], (last - at) * sizeof(int64_t))
    units.by_slack[at] = unit


cdef inline int64_t tightest_below(const Units* units, int64_t tokens, int64_t cost) noexcept nogil:
    """The unit with the least slack that is enough and with a bin with the room (the first one on ties), or -1."""
    cdef int64_t at
    for at in range(place_of(units, units.num_units, cost, -1), units.num_units):
        if units.most_room[units.leaves + units.by_slack[at]] >= tokens:
            return units.by_slack[at]
    return -1
