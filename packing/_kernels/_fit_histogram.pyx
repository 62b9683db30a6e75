"""Best-fit decreasing on the length histogram: whole runs of bins are filled at once.

(a) Layout. Bins with equal room are one list, found by a table over the rooms 0..capacity; a bit set over the rooms
    (64-ary, one level per factor of 64) gives the smallest room that suffices. A list holds runs of consecutively
    numbered bins; a run is named by its first bin, so every array is indexed by bin and nothing is allocated.
(b) Why by hand. After one copy of a length the same bin is again the tightest one, hence it takes as many copies as
    fit before the next bin is looked at: the work goes with the runs, not with the items.
(c) Ties. Exactly those of `best_fit` with the items in descending order (size descending, then index ascending): the
    tightest bin that can take the item; among bins with equal room the lowest-numbered. Both functions give the same
    bins, item by item. While the current length is above a list's room, runs are only appended to that list; it is
    sorted once, when a length first draws from it. From then on it can gain a run only when it is empty: a bin that
    still has room for the length was in the smallest such list, and its room is now smaller than that.
(d) Cost. O(n + T + V log V) time, V <= n the runs that are moved, T the largest of capacity and sizes; 16 n + 13 T
    bytes of workspace. T must be below 2**31: with few items and a large T, `best_fit` is the better choice.
"""

from packing._kernels._fit_checks cimport aligned, check_workspace, first_wrong_size
from packing._kernels._typedefs cimport int32_t, int64_t, uint8_t, uint64_t

cdef extern from *:
    int count_trailing_zeros "__builtin_ctzll"(unsigned long long word) noexcept nogil

cdef enum:
    MAX_LEVELS = 6  # 64**6 > 2**31


cdef struct Plan:
    int32_t capacity
    int32_t max_items  # 0: no limit
    int32_t opened  # bins so far
    int32_t placed  # items so far
    int32_t* bins  # [N] bin of each item, by position in the order of placement
    int32_t* next_run  # [N] by run: the next one of its list, -1 at the end
    int32_t* length  # [N] by run: its number of bins
    int32_t* used  # [N] by run: items in each of its bins; kept only under max_items
    int32_t* first  # [capacity+1] by room: first run of the list, -1 if empty
    int32_t* last  # [capacity+1] by room: last run, -1 once the list is sorted
    int num_levels
    Py_ssize_t words[MAX_LEVELS]
    uint64_t* level[MAX_LEVELS]  # level[0]: one bit per room; above: one bit per word below


def best_fit_decreasing_workspace(Py_ssize_t n, int64_t capacity, int64_t largest):
    """Bytes of workspace that `best_fit_decreasing` needs for `n` items of at most `largest`."""
    cdef int64_t total = 8 + sizeof(int32_t) * (4 * <int64_t>n + 2 * (capacity + 1) + (largest + 1))
    cdef int64_t words = capacity + 1
    while words > 1:
        words = (words + 63) // 64
        total += words * <int64_t>sizeof(uint64_t)
    return total + <int64_t>sizeof(uint64_t)


def best_fit_decreasing(
    const int64_t[::1] sizes not None,  # IN int64[N], at least 0 and below 2**31
    int64_t capacity,  # below 2**31
    Py_ssize_t min_bins,  # 0: none asked for
    Py_ssize_t max_items,  # 0: no limit
    bint oversized,  # True: an item above the capacity gets a bin of its own; False: it is an error
    int32_t[::1] offsets not None,  # OUT int32[N+1], of which the first K+1 are filled
    int32_t[::1] items not None,  # OUT int32[N], bin b at offsets[b]:offsets[b+1] in order of placement
    uint8_t[::1] workspace not None,  # best_fit_decreasing_workspace(N, capacity, max(sizes)) bytes
):
    """Place the items by size descending, each into the fullest bin that can take it; returns the number of bins."""
    cdef Py_ssize_t n = sizes.shape[0]
    cdef int64_t largest
    cdef int32_t* position
    cdef Plan plan
    if not 0 <= capacity <= 0x7FFFFFFE:
        raise ValueError(f"`capacity` must lie in [0, 2**31 - 1), but got {capacity}.")
    if min_bins < 0 or max_items < 0:
        raise ValueError(f"`min_bins` and `max_items` must be at least 0, but got {min_bins}, {max_items}.")
    if offsets.shape[0] != n + 1 or items.shape[0] != n:
        raise ValueError(f"`offsets` must have length {n + 1} and `items` length {n}.")
    largest = _check_sizes(sizes, 0x7FFFFFFE if oversized else capacity)
    check_workspace(workspace, best_fit_decreasing_workspace(n, capacity, largest))
    with nogil:
        position = _lay_out(&plan, aligned(&workspace[0]), n, capacity, min(max_items, 0x7FFFFFFF))
        _count(sizes, position, largest)
        _place_all(&plan, position, largest)
        if plan.opened < min_bins:
            _open_more(&plan, min_bins)
        _emit(&plan, sizes, position, offsets, items)
    return plan.opened


cdef int64_t _check_sizes(const int64_t[::1] sizes, int64_t largest_allowed) except -1:
    """Check the range; returns the largest size (0 without items)."""
    cdef Py_ssize_t wrong, index
    cdef int64_t largest = 0
    if sizes.shape[0] > 0x7FFFFFFE:
        raise ValueError(f"`sizes` must hold fewer than 2**31 - 1 items, but got {sizes.shape[0]}.")
    wrong = first_wrong_size(sizes, largest_allowed)
    if wrong >= 0:
        raise ValueError(
            f"`sizes` must be at least 0 and at most {largest_allowed}, but got {sizes[wrong]} at index {wrong}."
        )
    for index in range(sizes.shape[0]):
        largest = max(largest, sizes[index])
    return largest


cdef void _count(const int64_t[::1] sizes, int32_t* counts, int64_t largest) noexcept nogil:
    cdef Py_ssize_t index
    for index in range(<Py_ssize_t>largest + 1):
        counts[index] = 0
    for index in range(sizes.shape[0]):
        counts[sizes[index]] += 1


cdef int32_t* _lay_out(
    Plan* plan, uint8_t* workspace, Py_ssize_t n, int64_t capacity, Py_ssize_t max_items
) noexcept nogil:
    """Cut the workspace into the plan's arrays, all lists empty; returns what follows them."""
    cdef uint64_t* word = <uint64_t*>workspace
    cdef Py_ssize_t rooms = <Py_ssize_t>capacity + 1, words = rooms, index
    plan.num_levels = 0
    while words > 1 or plan.num_levels == 0:
        words = (words + 63) // 64
        plan.words[plan.num_levels] = words
        plan.level[plan.num_levels] = word
        plan.num_levels += 1
        for index in range(words):
            word[index] = 0
        word += words
    plan.capacity = <int32_t>capacity
    plan.max_items = <int32_t>max_items
    plan.opened = 0
    plan.placed = 0
    plan.bins = <int32_t*>word
    plan.next_run = plan.bins + n
    plan.length = plan.next_run + n
    plan.used = plan.length + n
    plan.first = plan.used + n
    plan.last = plan.first + rooms
    for index in range(rooms):
        plan.first[index] = -1
    return plan.last + rooms


cdef void _place_all(Plan* plan, int32_t* counts, int64_t largest) noexcept nogil:
    """Place size after size; `counts` becomes the first position of each size on the way."""
    cdef int32_t size, count, room, at_room
    for size in range(<int32_t>largest, -1, -1):
        count = counts[size]
        counts[size] = plan.placed
        if count > 0 and size > plan.capacity:
            _assign(plan, plan.opened, count, 1)
            plan.opened += count
            count = 0
        while count > 0:
            room = _smallest_room(plan, size)
            if room < 0:
                room = plan.capacity
                at_room = _copies(plan, size, room, 0, count)
                _add_run(plan, room, _open(plan, (count - 1) // at_room + 1))
            count = _draw(plan, room, size, count)


cdef inline int32_t _open(Plan* plan, int32_t length) noexcept nogil:
    """A run of fresh bins."""
    cdef int32_t run = plan.opened
    plan.opened += length
    plan.length[run] = length
    if plan.max_items:
        plan.used[run] = 0
    return run


cdef inline int32_t _copies(Plan* plan, int32_t size, int32_t room, int32_t used, int32_t wanted) noexcept nogil:
    """How many of `wanted` items of one size a bin takes."""
    cdef int32_t copies = wanted
    if size > 0:
        copies = min(copies, room // size)
    if plan.max_items:
        copies = min(copies, plan.max_items - used)
    return copies


cdef int32_t _draw(Plan* plan, int32_t room, int32_t size, int32_t count) noexcept nogil:
    """Place items of one size into the bins of one list, lowest-numbered first; returns how many are left over."""
    cdef int32_t run, copies, bins
    if plan.last[room] >= 0:
        plan.first[room] = _sorted(plan, plan.first[room])
        plan.last[room] = -1
    while count > 0 and plan.first[room] >= 0:
        run = plan.first[room]
        copies = _copies(plan, size, room, plan.used[run] if plan.max_items else 0, count)
        bins = min(plan.length[run], count // copies)
        plan.first[room] = _cut(plan, run, bins)
        _assign(plan, run, bins, copies)
        count -= bins * copies
        if plan.max_items:
            plan.used[run] += copies
            if plan.used[run] == plan.max_items:
                continue
        # Size 0 comes last, so nobody asks for the bin again; it would have to stay in this very list.
        if size > 0:
            _add_run(plan, room - copies * size, run)
    if plan.first[room] < 0:
        _clear_bit(plan, room)
    return count


cdef inline int32_t _cut(Plan* plan, int32_t run, int32_t bins) noexcept nogil:
    """Shorten a run to its first `bins`; returns the run that now heads the list: the remainder or the next."""
    cdef int32_t rest = run + bins
    if bins == plan.length[run]:
        return plan.next_run[run]
    plan.length[rest] = plan.length[run] - bins
    plan.next_run[rest] = plan.next_run[run]
    plan.length[run] = bins
    if plan.max_items:
        plan.used[rest] = plan.used[run]
    return rest


cdef inline void _assign(Plan* plan, int32_t run, int32_t bins, int32_t copies) noexcept nogil:
    """Write down that the next items go to the bins of a run, `copies` into each."""
    cdef int32_t* out = plan.bins + plan.placed
    cdef int32_t index, copy
    plan.placed += bins * copies
    if copies == 1:
        for index in range(bins):
            out[index] = run + index
        return
    for index in range(bins):
        for copy in range(copies):
            out[copy] = run + index
        out += copies


cdef inline bint _continues(Plan* plan, int32_t run, int32_t following) noexcept nogil:
    """Whether two runs of one list are in truth one."""
    return run + plan.length[run] == following and (not plan.max_items or plan.used[run] == plan.used[following])


cdef inline void _add_run(Plan* plan, int32_t room, int32_t run) noexcept nogil:
    """Append a run to the list of its room, joining it to the last run where the numbers go on."""
    cdef int32_t last
    plan.next_run[run] = -1
    if plan.first[room] < 0:
        plan.first[room] = run
        _set_bit(plan, room)
    else:
        last = plan.last[room]
        assert last >= 0, "a sorted list gains a run only when it is empty"
        if _continues(plan, last, run):
            plan.length[last] += plan.length[run]
            return
        plan.next_run[last] = run
    plan.last[room] = run


cdef int32_t _sorted(Plan* plan, int32_t head) noexcept nogil:
    """Sort a list by bin number: its ascending stretches are merged in pairs of like rank (a binary counter)."""
    cdef int32_t pending[32]
    cdef int height = 0, rank
    cdef int32_t stretch, end, rest, result = -1
    while head >= 0:
        stretch = end = head
        while plan.next_run[end] > end:
            end = plan.next_run[end]
        rest = plan.next_run[end]
        plan.next_run[end] = -1
        if rest < 0 and height == 0:
            return stretch
        rank = 0
        while rank < height and pending[rank] >= 0:
            stretch = _merged(plan.next_run, pending[rank], stretch)
            pending[rank] = -1
            rank += 1
        if rank == height:
            height += 1
        pending[rank] = stretch
        head = rest
    for rank in range(height):
        if pending[rank] >= 0:
            result = pending[rank] if result < 0 else _merged(plan.next_run, pending[rank], result)
    _join(plan, result)
    return result


cdef inline int32_t _merged(int32_t* next_run, int32_t one, int32_t other) noexcept nogil:
    """Merge two ascending lists, neither of them empty."""
    cdef int32_t head
    cdef int32_t* link = &head
    while one >= 0 and other >= 0:
        if one < other:
            link[0] = one
            link = &next_run[one]
            one = link[0]
        else:
            link[0] = other
            link = &next_run[other]
            other = link[0]
    link[0] = one if one >= 0 else other
    return head


cdef inline void _join(Plan* plan, int32_t run) noexcept nogil:
    """Join the runs of a sorted list that go on from one to the next."""
    cdef int32_t following
    while run >= 0:
        following = plan.next_run[run]
        if following >= 0 and _continues(plan, run, following):
            plan.length[run] += plan.length[following]
            plan.next_run[run] = plan.next_run[following]
        else:
            run = following


cdef inline void _set_bit(Plan* plan, Py_ssize_t position) noexcept nogil:
    cdef int level
    cdef uint64_t before
    for level in range(plan.num_levels):
        before = plan.level[level][position >> 6]
        plan.level[level][position >> 6] = before | <uint64_t>1 << (position & 63)
        if before:
            return
        position >>= 6


cdef inline void _clear_bit(Plan* plan, Py_ssize_t position) noexcept nogil:
    cdef int level
    for level in range(plan.num_levels):
        plan.level[level][position >> 6] &= ~(<uint64_t>1 << (position & 63))
        if plan.level[level][position >> 6]:
            return
        position >>= 6


cdef inline int32_t _smallest_room(Plan* plan, Py_ssize_t position) noexcept nogil:
    """The smallest room from `position` on whose list is not empty; -1 if there is none."""
    cdef int level
    cdef uint64_t bits
    for level in range(plan.num_levels):
        if position >> 6 >= plan.words[level]:
            return -1
        bits = plan.level[level][position >> 6] >> (position & 63)
        if bits:
            position += count_trailing_zeros(bits)
            while level > 0:
                level -= 1
                position = position * 64 + count_trailing_zeros(plan.level[level][position])
            return <int32_t>position
        position = (position >> 6) + 1
    return -1


cdef void _open_more(Plan* plan, Py_ssize_t min_bins) noexcept nogil:
    """Give each item its own new bin from the moment on when the items left are just the bins still owed.

    Items that were placed before do not depend on it, so this may as well happen afterwards.
    """
    cdef Py_ssize_t position, n = plan.placed
    plan.opened = 0
    for position in range(n):
        if n - position <= min_bins - plan.opened:
            plan.bins[position] = plan.opened
        plan.opened = max(plan.opened, plan.bins[position] + 1)


cdef void _emit(
    Plan* plan, const int64_t[::1] sizes, int32_t* position, int32_t[::1] offsets, int32_t[::1] items
) noexcept nogil:
    """Group by bin: first the slot of each position in placement order, then the item of each slot."""
    cdef Py_ssize_t index, bin_number, n = sizes.shape[0], num_bins = plan.opened
    for bin_number in range(num_bins + 1):
        offsets[bin_number] = 0
    for index in range(n):
        if plan.bins[index] + 2 <= num_bins:
            offsets[plan.bins[index] + 2] += 1
    for bin_number in range(num_bins):
        offsets[bin_number + 1] += offsets[bin_number]
    for index in range(n):
        bin_number = plan.bins[index]
        plan.bins[index] = offsets[bin_number + 1]
        offsets[bin_number + 1] += 1
    for index in range(n):
        items[plan.bins[position[sizes[index]]]] = <int32_t>index
        position[sizes[index]] += 1
