# A tournament tree over ranks: smallest key and largest room below each node, to find the best bin with room.

from packing._kernels._bins cimport Bins, Choice, capacity_left, comes_first, uint128_t
from packing._kernels._typedefs cimport int64_t


cdef inline bint smaller_key(const Bins* bins, int64_t one, int64_t other) noexcept nogil:
    """Static order of two ranks: load, with one bin per rank the capacity left, then tokens, rank."""
    cdef int64_t left_one, left_other
    if bins.rank_load[one] != bins.rank_load[other]:
        return bins.rank_load[one] < bins.rank_load[other]
    if bins.slots == 1:
        left_one, left_other = capacity_left(bins, one, 0), capacity_left(bins, other, 0)
        if left_one != left_other:
            return left_one < left_other
    if bins.rank_tokens[one] != bins.rank_tokens[other]:
        return bins.rank_tokens[one] < bins.rank_tokens[other]
    return one < other


cdef inline void join(Bins* bins, int64_t node) noexcept nogil:
    cdef int64_t left = bins.winner[2 * node], right = bins.winner[2 * node + 1]
    cdef int64_t room_left = bins.room[2 * node], room_right = bins.room[2 * node + 1]
    bins.room[node] = room_left if room_left > room_right else room_right
    if left < 0 or (right >= 0 and smaller_key(bins, right, left)):
        bins.winner[node] = right
    else:
        bins.winner[node] = left


cdef inline void refresh_leaf(Bins* bins, int64_t rank, int64_t room) noexcept nogil:
    cdef int64_t node = bins.leaves + rank
    bins.room[node] = room
    bins.winner[node] = rank if room >= 0 else -1
    node //= 2
    while node >= 1:
        join(bins, node)
        node //= 2


cdef inline void build_tree(Bins* bins, bint opening) noexcept nogil:
    """Opening: the room of a rank only says that it has an empty bin."""
    cdef int64_t rank, node
    for rank in range(bins.leaves):
        node = bins.leaves + rank
        bins.room[node] = -1
        if rank < bins.ranks:
            bins.room[node] = 0 if opening else largest_room(bins, rank)
        bins.winner[node] = rank if bins.room[node] >= 0 else -1
    for node in range(bins.leaves - 1, 0, -1):
        join(bins, node)


cdef inline int64_t largest_room(const Bins* bins, int64_t rank) noexcept nogil:
    """The most tokens that one of the rank's bins can still take; -1 where all are closed."""
    cdef int64_t b, room = -1
    for b in range(rank * bins.slots, (rank + 1) * bins.slots):
        if bins.unused[b] > room and not (bins.max_items and bins.items[b] >= bins.max_items):
            room = bins.unused[b]
    return room


cdef inline int64_t find_bin(const Bins* bins, int64_t length) noexcept nogil:
    """The open bin with the smallest key among those with room, or -1: depth first, the smaller key first."""
    cdef int64_t stack[160]
    cdef int64_t depth = 1, node, rank, b, best = -1, near, far
    cdef Choice choice, found
    found.score, found.left, found.tokens, found.bin = 0, 0, 0, -1
    stack[0] = 1
    while depth:
        depth -= 1
        node = stack[depth]
        if bins.room[node] < length or bins.room[node] < 0:
            continue
        rank = bins.winner[node]
        if best >= 0:
            if bins.slots == 1:
                if not smaller_key(bins, rank, best):
                    continue
            elif bins.rank_load[rank] > bins.rank_load[best // bins.slots]:
                continue
        if bins.slots == 1 and bins.room[bins.leaves + rank] >= length:
            best = rank
            continue
        if node >= bins.leaves:
            for b in range(rank * bins.slots, (rank + 1) * bins.slots):
                if bins.unused[b] < length or (bins.max_items and bins.items[b] >= bins.max_items):
                    continue
                choice.score = <uint128_t>bins.rank_load[rank]
                choice.left = capacity_left(bins, b, length)
                choice.tokens = bins.rank_tokens[rank]
                choice.bin = b
                if best < 0 or comes_first(&choice, &found):
                    found = choice
                    best = b
            continue
        near, far = 2 * node, 2 * node + 1
        if bins.winner[near] < 0 or (
            bins.winner[far] >= 0 and smaller_key(bins, bins.winner[far], bins.winner[near])
        ):
            near, far = far, near
        if bins.winner[far] >= 0:
            stack[depth] = far
            depth += 1
        if bins.winner[near] >= 0:
            stack[depth] = near
            depth += 1
    return best
