"""Fills one bin after another as full as a bounded search can; `packing._reference.exact_fill` is the specification."""
# (a) Layout: lengths as distinct values with counts, so that equal samples are tried once. A search keeps its path, one
#     class a sample, and the best path so far. `later` skips classes that are used up (disjoint sets with path halving).
# (b) The loops are manual because every step depends on the one before it.
# (c) Ties: paths are tried in lexicographic order of classes, longest samples first, and the first of the best is kept.
# (d) Time: O(log D) a step, at most `max_steps` steps and one descent a bin beyond them. Memory: 8 N + 8 D bytes.

from packing._kernels._typedefs cimport int32_t, int64_t, uint8_t


cdef enum:
    MOST_STEPS_PER_BIN = 2048

STEPS_PER_BIN = MOST_STEPS_PER_BIN
cdef int64_t SUM_LIMIT = <int64_t>1 << 62


cdef struct Remaining:
    int64_t num_classes
    const int64_t* lengths
    int32_t* counts
    int32_t* later  # [D+1] a class from this one on that may still have samples; itself while it has some


cdef struct Search:
    int64_t most_items, steps, limit, goal
    int32_t* path
    int32_t* best
    int64_t best_size, best_room


cdef inline int64_t first_left(Remaining* left, int64_t at) noexcept nogil:
    """The first class from `at` on that the bins before this one did not use up, or D."""
    while left.later[at] != at:
        left.later[at] = left.later[left.later[at]]
        at = left.later[at]
    return at


cdef inline int64_t first_fitting(Remaining* left, int64_t at, int64_t room) noexcept nogil:
    """The first class from `at` on with samples that fit into `room`, or D."""
    cdef int64_t low = at, high = left.num_classes, middle
    if low < high and left.lengths[low] > room:
        while low < high:
            middle = (low + high) // 2
            if left.lengths[middle] > room:
                low = middle + 1
            else:
                high = middle
    low = first_left(left, low)
    while low < left.num_classes and left.counts[low] == 0:  # taken on the path
        low = first_left(left, low + 1)
    return low


cdef void fill_one(Remaining* left, Search* search, int64_t top, int64_t room) noexcept nogil:
    """The best path that starts with class `top`; counts are those of before when it returns."""
    cdef int64_t depth = 1, at = top, class_, i
    search.path[0] = <int32_t>top
    left.counts[top] -= 1
    search.best_size = 0
    search.best_room = room + 1
    while True:
        class_ = left.num_classes
        if depth < search.most_items and room > 0:
            class_ = first_fitting(left, at, room)
        if class_ < left.num_classes:
            left.counts[class_] -= 1
            search.path[depth] = <int32_t>class_
            depth += 1
            room -= left.lengths[class_]
            search.steps += 1
            at = class_
            continue
        if room < search.best_room:
            search.best_room, search.best_size = room, depth
            for i in range(depth):
                search.best[i] = search.path[i]
        if search.best_room <= search.goal or search.steps >= search.limit or depth == 1:
            break
        depth -= 1
        at = search.path[depth]
        left.counts[at] += 1
        room += left.lengths[at]
        at += 1
    for i in range(depth):
        left.counts[search.path[i]] += 1


def fill_workspace(int64_t num_samples, int64_t num_classes):
    """Bytes of workspace that `fill` needs."""
    return 8 * num_samples + 8 * num_classes + 16


def fill(
    const int64_t[::1] lengths,  # IN int64[D], positive, descending, all different
    const int32_t[::1] counts,  # IN int32[D], positive, N together
    int64_t capacity,  # at least lengths[0]
    int64_t max_items,  # 0: no limit
    int64_t max_steps,
    int32_t[::1] offsets,  # OUT int32[N+1], the first num_bins + 1 of them
    int32_t[::1] classes,  # OUT int32[N]: the class of each sample of each bin, ascending
    uint8_t[::1] workspace,  # OUT uint8[fill_workspace(N, D)]
):
    """Fills bins one after another and returns their number."""
    cdef int64_t num_classes = lengths.shape[0], n = classes.shape[0], c, num_bins
    cdef int64_t placed = 0, total = 0
    cdef Remaining left
    cdef Search search
    cdef int32_t* memory
    if counts.shape[0] != num_classes or offsets.shape[0] != n + 1:
        raise ValueError("counts must be as long as lengths, and offsets one longer than classes")
    if workspace.shape[0] < fill_workspace(n, num_classes):
        raise ValueError("the workspace is too small")
    for c in range(num_classes):
        if lengths[c] < 1 or lengths[c] > capacity or counts[c] < 1 or (c and lengths[c] >= lengths[c - 1]):
            raise ValueError("lengths must be positive, descending and at most the capacity, and counts positive")
        if lengths[c] > (SUM_LIMIT - 1 - total) // counts[c]:
            raise ValueError("all samples together must have fewer than 2**62 tokens")
        placed += counts[c]
        total += counts[c] * lengths[c]
    if placed != n:
        raise ValueError("counts must add up to the length of classes")
    offsets[0] = 0
    if n == 0:
        return 0
    memory = <int32_t*>(&workspace[0] + (8 - <size_t>&workspace[0] % 8) % 8)
    left.num_classes, left.lengths = num_classes, &lengths[0]
    left.counts, left.later = memory, memory + num_classes
    search.path = left.later + num_classes + 1
    search.best = search.path + n
    search.most_items = max_items if max_items > 0 else n
    search.steps = 0
    with nogil:
        for c in range(num_classes):
            left.counts[c] = counts[c]
            left.later[c] = <int32_t>c
        left.later[num_classes] = <int32_t>num_classes
        num_bins = fill_all(&left, &search, capacity, max_steps, total, n, &offsets[0], &classes[0])
    return num_bins


cdef int64_t fill_all(
    Remaining* left, Search* search, int64_t capacity, int64_t max_steps, int64_t total, int64_t n, int32_t* offsets,
    int32_t* classes,
) noexcept nogil:
    cdef int64_t num_bins = 0, placed = 0, top = 0, i, class_
    while placed < n:
        top = first_left(left, top)
        search.limit = search.steps + MOST_STEPS_PER_BIN
        if search.limit > max_steps:
            search.limit = max_steps
        search.goal = capacity - total if capacity > total else 0
        fill_one(left, search, top, capacity - left.lengths[top])
        for i in range(search.best_size):
            class_ = search.best[i]
            classes[placed + i] = <int32_t>class_
            total -= left.lengths[class_]
            left.counts[class_] -= 1
            if left.counts[class_] == 0:
                left.later[class_] = <int32_t>(class_ + 1)
        placed += search.best_size
        num_bins += 1
        offsets[num_bins] = <int32_t>placed
    return num_bins
