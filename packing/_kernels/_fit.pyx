"""Next-fit, first-fit and best-fit: items are placed one by one, in the order in which they are handed in.

(a) Layout. Bins are numbers in the order of opening and all state is flat arrays indexed by them. First-fit keeps a
    tournament tree of the room left (a heap-shaped array, leaves = bins, grown by doubling, so that a few open bins
    stay in cache). Best-fit keeps a treap whose node is the bin itself, ordered by (room, bin); its priorities are a
    bijective hash of the bin number, so they never tie and the tree is the same everywhere.
(b) Why by hand. Every placement depends on the one before, so nothing vectorises.
(c) Ties. First-fit takes the lowest-numbered open bin with room. Best-fit takes the least room that suffices and,
    among bins with equal room, the lowest-numbered. Next-fit looks at the newest bin only. An item that no open bin
    can take opens the next bin; so does every item once the items left are no more than the bins still owed to
    `min_bins`. A bin with `max_items` items is closed, and so is the bin of an oversized item.
(d) Cost. next_fit O(n) time, no workspace; first_fit O(n log K) time and at most 36 n bytes; best_fit O(n log K)
    expected time and 20 n bytes; group_by_bin O(n) time, no workspace. K is the number of bins.
"""

from packing._kernels._fit_checks cimport aligned, check_workspace, first_outside, first_wrong_size
from packing._kernels._typedefs cimport int32_t, int64_t, uint8_t, uint32_t


cdef struct Limits:
    int64_t capacity  # most that the items of one bin add up to
    int32_t min_bins  # 0: none asked for
    int32_t max_items  # 0: no limit


def next_fit(
    const int64_t[::1] sizes not None,  # IN int64[N], at least 0
    const int32_t[::1] order not None,  # IN int32[N], the indices in order of placement
    int64_t capacity,
    Py_ssize_t min_bins,  # 0: none asked for
    Py_ssize_t max_items,  # 0: no limit
    bint oversized,  # True: an item above the capacity gets a bin of its own; False: it is an error
    int32_t[::1] bin_of not None,  # OUT int32[N], by index
):
    """Place each item into the newest bin or open the next one; returns the number of bins."""
    cdef Limits limits = _limits(capacity, min_bins, max_items)
    cdef int32_t bins
    _check_items(sizes, order, bin_of, capacity, oversized)
    with nogil:
        bins = _next_fit(sizes, order, limits, bin_of)
    return bins


def first_fit_workspace(Py_ssize_t n):
    """Bytes of workspace that `first_fit` needs for `n` items."""
    return 8 + 2 * _leaves(n) * <Py_ssize_t>sizeof(int64_t) + n * <Py_ssize_t>sizeof(int32_t)


def first_fit(
    const int64_t[::1] sizes not None,  # IN int64[N], at least 0
    const int32_t[::1] order not None,  # IN int32[N], the indices in order of placement
    int64_t capacity,
    Py_ssize_t min_bins,  # 0: none asked for
    Py_ssize_t max_items,  # 0: no limit
    bint oversized,  # True: an item above the capacity gets a bin of its own; False: it is an error
    int32_t[::1] bin_of not None,  # OUT int32[N], by index
    uint8_t[::1] workspace not None,  # first_fit_workspace(N) bytes
):
    """Place each item into the lowest-numbered open bin with room or open the next one; returns the number of bins."""
    cdef Limits limits = _limits(capacity, min_bins, max_items)
    cdef int32_t bins = 0
    _check_items(sizes, order, bin_of, capacity, oversized)
    check_workspace(workspace, first_fit_workspace(sizes.shape[0]))
    if sizes.shape[0] > 0:
        with nogil:
            bins = _first_fit(sizes, order, limits, bin_of, aligned(&workspace[0]))
    return bins


def best_fit_workspace(Py_ssize_t n):
    """Bytes of workspace that `best_fit` needs for `n` items."""
    return 8 + n * <Py_ssize_t>(sizeof(int64_t) + 3 * sizeof(int32_t))


def best_fit(
    const int64_t[::1] sizes not None,  # IN int64[N], at least 0
    const int32_t[::1] order not None,  # IN int32[N], the indices in order of placement
    int64_t capacity,
    Py_ssize_t min_bins,  # 0: none asked for
    Py_ssize_t max_items,  # 0: no limit
    bint oversized,  # True: an item above the capacity gets a bin of its own; False: it is an error
    int32_t[::1] bin_of not None,  # OUT int32[N], by index
    uint8_t[::1] workspace not None,  # best_fit_workspace(N) bytes
):
    """Place each item into the fullest open bin that can take it or open the next one; returns the number of bins."""
    cdef Limits limits = _limits(capacity, min_bins, max_items)
    cdef int32_t bins = 0
    _check_items(sizes, order, bin_of, capacity, oversized)
    check_workspace(workspace, best_fit_workspace(sizes.shape[0]))
    if sizes.shape[0] > 0:
        with nogil:
            bins = _best_fit(sizes, order, limits, bin_of, aligned(&workspace[0]))
    return bins


def group_by_bin(
    const int32_t[::1] bin_of not None,  # IN int32[N], values in [0, K)
    const int32_t[::1] order not None,  # IN int32[N], the indices in order of placement
    Py_ssize_t num_bins,  # K
    int32_t[::1] offsets not None,  # OUT int32[K+1]
    int32_t[::1] items not None,  # OUT int32[N], the items of bin b at offsets[b]:offsets[b+1] in order of placement
):
    """List the items bin by bin; inside a bin they keep the order of placement."""
    cdef Py_ssize_t n = bin_of.shape[0]
    if order.shape[0] != n or items.shape[0] != n:
        raise ValueError(f"`order` and `items` must have the length of `bin_of`, {n}.")
    if num_bins < 0 or offsets.shape[0] != num_bins + 1:
        raise ValueError(f"`offsets` must have length {num_bins + 1}, but got {offsets.shape[0]}.")
    _check_range("bin_of", bin_of, num_bins)
    _check_range("order", order, n)
    with nogil:
        _group(bin_of, order, num_bins, offsets, items)


cdef Limits _limits(int64_t capacity, Py_ssize_t min_bins, Py_ssize_t max_items) except *:
    cdef Limits limits
    if capacity < 0 or min_bins < 0 or max_items < 0:
        raise ValueError(
            f"`capacity`, `min_bins` and `max_items` must be at least 0, but got {capacity}, {min_bins}, {max_items}."
        )
    # No more bins or items than 2**31 - 1 can exist, so larger limits mean the same.
    limits.capacity = capacity
    limits.min_bins = <int32_t>min(min_bins, 0x7FFFFFFF)
    limits.max_items = <int32_t>min(max_items, 0x7FFFFFFF)
    return limits


cdef int _check_items(
    const int64_t[::1] sizes, const int32_t[::1] order, int32_t[::1] bin_of, int64_t capacity, bint oversized
) except -1:
    cdef Py_ssize_t n = sizes.shape[0], wrong
    if n > 0x7FFFFFFE:
        raise ValueError(f"`sizes` must hold fewer than 2**31 - 1 items, but got {n}.")
    if order.shape[0] != n or bin_of.shape[0] != n:
        raise ValueError(f"`order` and `bin_of` must have the length of `sizes`, {n}.")
    _check_range("order", order, n)
    wrong = first_wrong_size(sizes, 0x7FFFFFFFFFFFFFFF if oversized else capacity)
    if wrong >= 0:
        limit = "" if oversized else f" and at most `capacity`, {capacity}"
        raise ValueError(f"`sizes` must be at least 0{limit}, but got {sizes[wrong]} at index {wrong}.")
    return 0


cdef int _check_range(str name, const int32_t[::1] values, Py_ssize_t limit) except -1:
    cdef Py_ssize_t wrong = first_outside(values, limit)
    if wrong >= 0:
        raise ValueError(f"`{name}` must hold integers in [0, {limit}), but got {values[wrong]} at position {wrong}.")
    return 0


cdef inline bint _must_open(Limits limits, Py_ssize_t items_left, int32_t opened) noexcept nogil:
    """Whether each item left has to open a bin, so that `min_bins` bins come out."""
    return items_left <= limits.min_bins - opened


cdef int32_t _next_fit(
    const int64_t[::1] sizes, const int32_t[::1] order, Limits limits, int32_t[::1] bin_of
) noexcept nogil:
    cdef Py_ssize_t position, n = sizes.shape[0]
    cdef int64_t size, room = -1
    cdef int32_t item, count = 0, opened = 0
    for position in range(n):
        item = order[position]
        size = sizes[item]
        if size > room or _must_open(limits, n - position, opened):
            opened += 1
            room = limits.capacity
            count = 0
        # An oversized item makes the room negative, and then nothing fits, not even an item of size 0.
        room -= size
        count += 1
        if count == limits.max_items:
            room = -1
        bin_of[item] = opened - 1
    return opened


cdef int32_t _first_fit(
    const int64_t[::1] sizes, const int32_t[::1] order, Limits limits, int32_t[::1] bin_of, uint8_t* workspace
) noexcept nogil:
    cdef Py_ssize_t position, n = sizes.shape[0], leaves = 1
    cdef int64_t* tree = <int64_t*>workspace  # tree[leaves + bin] = room of the bin
    cdef int32_t* count = <int32_t*>(tree + 2 * _leaves(n))  # items per bin
    cdef int64_t size, room
    cdef int32_t item, chosen, opened = 0
    tree[1] = -1
    for position in range(n):
        item = order[position]
        size = sizes[item]
        if tree[1] < size or _must_open(limits, n - position, opened):
            if opened == leaves:
                _double(tree, leaves)
                leaves *= 2
            chosen = opened
            opened += 1
            room = limits.capacity
            count[chosen] = 0
        else:
            chosen = _leftmost(tree, leaves, size)
            room = tree[leaves + chosen]
        room -= size
        count[chosen] += 1
        if room < 0 or count[chosen] == limits.max_items:
            room = -1
        _set_room(tree, leaves + chosen, room)
        bin_of[item] = chosen
    return opened


cdef inline Py_ssize_t _leaves(Py_ssize_t n) noexcept nogil:
    """The leaves of a full tree: the first power of two that is at least `n`."""
    cdef Py_ssize_t leaves = 1
    while leaves < n:
        leaves *= 2
    return leaves


cdef inline int32_t _leftmost(const int64_t* tree, Py_ssize_t leaves, int64_t size) noexcept nogil:
    """The lowest-numbered leaf with at least `size`; the caller knows that there is one."""
    cdef Py_ssize_t node = 1
    while node < leaves:
        node = 2 * node + (tree[2 * node] < size)
    return <int32_t>(node - leaves)


cdef inline void _set_room(int64_t* tree, Py_ssize_t node, int64_t room) noexcept nogil:
    """Set a leaf and the maxima above it, up to the first that does not change."""
    tree[node] = room
    while node > 1:
        room = max(tree[node], tree[node ^ 1])
        node >>= 1
        if tree[node] == room:
            return
        tree[node] = room


cdef void _double(int64_t* tree, Py_ssize_t leaves) noexcept nogil:
    """Twice as many leaves; the new ones hold -1, which no item fits."""
    cdef Py_ssize_t node
    for node in range(leaves):
        tree[2 * leaves + node] = tree[leaves + node]
        tree[3 * leaves + node] = -1
    for node in range(2 * leaves - 1, 0, -1):
        tree[node] = max(tree[2 * node], tree[2 * node + 1])


cdef struct Treap:
    int64_t* room  # by bin
    int32_t* left  # by bin; -1: no child
    int32_t* right
    int32_t root


cdef int32_t _best_fit(
    const int64_t[::1] sizes, const int32_t[::1] order, Limits limits, int32_t[::1] bin_of, uint8_t* workspace
) noexcept nogil:
    cdef Py_ssize_t position, n = sizes.shape[0]
    cdef Treap treap
    cdef int32_t* count
    cdef int32_t* place
    cdef int64_t size
    cdef int32_t item, chosen, opened = 0
    treap.room = <int64_t*>workspace
    treap.left = <int32_t*>(treap.room + n)
    treap.right = treap.left + n
    treap.root = -1
    count = treap.right + n
    for position in range(n):
        item = order[position]
        size = sizes[item]
        place = NULL if _must_open(limits, n - position, opened) else _tightest(&treap, size)
        if place == NULL:
            chosen = opened
            opened += 1
            treap.room[chosen] = limits.capacity
            count[chosen] = 0
        else:
            chosen = place[0]
            _remove(&treap, place)
        treap.room[chosen] -= size
        count[chosen] += 1
        if treap.room[chosen] >= 0 and count[chosen] != limits.max_items:
            _insert(&treap, chosen)
        bin_of[item] = chosen
    return opened


cdef inline uint32_t _priority(int32_t bin_number) noexcept nogil:
    """The finaliser of MurmurHash3 (Appleby, public domain): a bijection, so that no two bins have one priority."""
    cdef uint32_t mixed = <uint32_t>bin_number
    mixed = (mixed ^ (mixed >> 16)) * <uint32_t>0x85EBCA6B
    mixed = (mixed ^ (mixed >> 13)) * <uint32_t>0xC2B2AE35
    return mixed ^ (mixed >> 16)


cdef inline bint _before(const Treap* treap, int32_t one, int32_t other) noexcept nogil:
    """The order of the treap: by room, then by number."""
    if treap.room[one] != treap.room[other]:
        return treap.room[one] < treap.room[other]
    return one < other


cdef inline int32_t* _tightest(Treap* treap, int64_t size) noexcept nogil:
    """The link to the first bin whose room is at least `size`; NULL if there is none."""
    cdef int32_t* link = &treap.root
    cdef int32_t* found = NULL
    while link[0] >= 0:
        if treap.room[link[0]] >= size:
            found = link
            link = &treap.left[link[0]]
        else:
            link = &treap.right[link[0]]
    return found


cdef inline void _remove(Treap* treap, int32_t* link) noexcept nogil:
    """Take out the node at `link`: its subtrees are merged in its place."""
    cdef int32_t lower = treap.left[link[0]], upper = treap.right[link[0]]
    while lower >= 0 and upper >= 0:
        if _priority(lower) > _priority(upper):
            link[0] = lower
            link = &treap.right[lower]
            lower = link[0]
        else:
            link[0] = upper
            link = &treap.left[upper]
            upper = link[0]
    link[0] = lower if lower >= 0 else upper


cdef inline void _insert(Treap* treap, int32_t node) noexcept nogil:
    """Put a node in: where its priority is the higher one, the subtree there is split around it."""
    cdef int32_t* link = &treap.root
    cdef int32_t* lower_end = &treap.left[node]
    cdef int32_t* upper_end = &treap.right[node]
    cdef uint32_t priority = _priority(node)
    cdef int32_t rest
    while link[0] >= 0 and _priority(link[0]) > priority:
        link = &treap.left[link[0]] if _before(treap, node, link[0]) else &treap.right[link[0]]
    rest = link[0]
    link[0] = node
    while rest >= 0:
        if _before(treap, rest, node):
            lower_end[0] = rest
            lower_end = &treap.right[rest]
            rest = lower_end[0]
        else:
            upper_end[0] = rest
            upper_end = &treap.left[rest]
            rest = upper_end[0]
    lower_end[0] = -1
    upper_end[0] = -1


cdef void _group(
    const int32_t[::1] bin_of, const int32_t[::1] order, Py_ssize_t num_bins, int32_t[::1] offsets, int32_t[::1] items
) noexcept nogil:
    """A counting sort that needs no cursors: offsets[b+1] starts as the begin of bin b and ends as its end."""
    cdef Py_ssize_t position, n = order.shape[0], bin_number
    cdef int32_t item
    for bin_number in range(num_bins + 1):
        offsets[bin_number] = 0
    for position in range(n):
        bin_number = bin_of[order[position]]
        if bin_number + 2 <= num_bins:
            offsets[bin_number + 2] += 1
    for bin_number in range(num_bins):
        offsets[bin_number + 1] += offsets[bin_number]
    for position in range(n):
        item = order[position]
        bin_number = bin_of[item]
        items[offsets[bin_number + 1]] = item
        offsets[bin_number + 1] += 1
