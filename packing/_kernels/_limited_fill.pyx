"""Fills bins that may hold only so many samples; `packing._reference.limited_fill` is the specification."""
# (a) Layout: lengths as distinct values with counts, so that equal samples are tried once. `later` and `earlier` skip
#     classes that are used up, towards shorter and towards longer samples (disjoint sets with path halving).
# (b) The loops are manual because every choice depends on the one before it.
# (c) Ties: pairs are tried from the shortest sample upwards and the first of the best is kept; the twin says when one
#     sample is preferred to a pair.
# (d) Time: O(log D) a pair tried, at most STEPS_PER_BIN of them a bin and `max_steps` together. Memory: 12 D bytes.

from packing._kernels._typedefs cimport int32_t, int64_t, uint8_t


cdef enum:
    MOST_STEPS_PER_BIN = 2048

STEPS_PER_BIN = MOST_STEPS_PER_BIN
cdef int64_t SUM_LIMIT = <int64_t>1 << 62


cdef struct State:
    int64_t num_classes
    const int64_t* lengths
    int32_t* counts
    int32_t* later    # [D+1] a class from this one on that may still have samples; itself while it has some
    int32_t* earlier  # [D+1] the same backwards, entry c + 1 for class c; 0: there is none
    int64_t tokens, samples  # that are left
    int64_t room, chosen     # of the bin at hand
    int32_t* classes  # of the bin at hand


cdef inline int64_t first_left(State* state, int64_t at) noexcept nogil:
    """The first class from `at` on with samples, or D."""
    cdef int32_t* later = state.later
    while later[at] != at:
        later[at] = later[later[at]]
        at = later[at]
    return at


cdef inline int64_t last_left(State* state, int64_t at) noexcept nogil:
    """The last class up to `at` with samples, or -1."""
    cdef int32_t* earlier = state.earlier
    at += 1
    while earlier[at] != at:
        earlier[at] = earlier[earlier[at]]
        at = earlier[at]
    return at - 1


cdef inline int64_t longest(State* state, int64_t room) noexcept nogil:
    """The class of the longest sample left that fits into `room`, or D."""
    cdef int64_t low = 0, high = state.num_classes, middle
    while low < high:
        middle = (low + high) // 2
        if state.lengths[middle] > room:
            low = middle + 1
        else:
            high = middle
    return first_left(state, low)


cdef inline void take(State* state, int64_t class_) noexcept nogil:
    """Put a sample of the class into the bin at hand."""
    state.classes[state.chosen] = <int32_t>class_
    state.chosen += 1
    state.room -= state.lengths[class_]
    state.tokens -= state.lengths[class_]
    state.samples -= 1
    state.counts[class_] -= 1
    if state.counts[class_] == 0:
        state.later[class_] = <int32_t>(class_ + 1)
        state.earlier[class_ + 1] = <int32_t>class_


cdef int64_t take_best(State* state, bint pair_first, int64_t limit, int64_t steps) noexcept nogil:
    """One sample or two, the best of those that fit, if any; the number of steps afterwards."""
    cdef int64_t one = longest(state, state.room), best_short = -1, best_long = one, best_room, rest, long_
    cdef int64_t short_ = last_left(state, state.num_classes - 1)
    if one == state.num_classes:
        return steps
    best_room = state.room - state.lengths[one]
    while short_ >= 0:
        # Written so that no sum can overflow.
        if state.lengths[short_] > state.room - state.lengths[short_] or steps >= limit:
            break
        if best_room == 0 and not pair_first:
            break
        steps += 1
        long_ = longest(state, state.room - state.lengths[short_])
        if long_ > short_ or (long_ == short_ and state.counts[short_] < 2):
            break
        rest = state.room - state.lengths[short_] - state.lengths[long_]
        if rest < best_room or (rest == best_room and pair_first and best_short < 0):
            best_short, best_long, best_room = short_, long_, rest
        if rest == 0:
            break
        short_ = last_left(state, short_ - 1)
    if best_short >= 0:
        take(state, best_short)
    take(state, best_long)
    return steps


cdef int64_t fill_all(
    State* state, int64_t capacity, int64_t max_items, int64_t max_steps, int32_t* offsets, int32_t* classes
) noexcept nogil:
    cdef int64_t num_bins = 0, placed = 0, steps = 0, needed, by_count, share, limit, class_
    while state.samples > 0:
        limit = steps + MOST_STEPS_PER_BIN
        if limit > max_steps:
            limit = max_steps
        needed = (state.tokens - 1) // capacity + 1
        by_count = (state.samples - 1) // max_items + 1
        if by_count > needed:
            needed = by_count
        share = (state.samples - 1) // needed + 1
        if share > max_items:
            share = max_items
        state.room, state.chosen, state.classes = capacity, 0, classes + placed
        take(state, first_left(state, 0))
        while state.chosen < share - 2:
            class_ = last_left(state, state.num_classes - 1)
            if class_ < 0 or state.lengths[class_] > state.room:
                break
            take(state, class_)
        if state.chosen + 2 <= max_items:
            steps = take_best(state, state.chosen + 2 <= share, limit, steps)
        while state.chosen < max_items:
            class_ = longest(state, state.room)
            if class_ == state.num_classes:
                break
            take(state, class_)
        placed += state.chosen
        num_bins += 1
        offsets[num_bins] = <int32_t>placed
    return num_bins


def fill_workspace(int64_t num_samples, int64_t num_classes):
    """Bytes of workspace that `fill` needs."""
    return 12 * num_classes + 16


def fill(
    const int64_t[::1] lengths,  # IN int64[D], positive, descending, all different
    const int32_t[::1] counts,  # IN int32[D], positive, N together
    int64_t capacity,  # at least lengths[0]
    int64_t max_items,  # at least 1
    int64_t max_steps,
    int32_t[::1] offsets,  # OUT int32[N+1], the first num_bins + 1 of them
    int32_t[::1] classes,  # OUT int32[N]: the class of each sample of each bin, in the order of placement
    uint8_t[::1] workspace,  # OUT uint8[fill_workspace(N, D)]
):
    """Fills bins one after another and returns their number."""
    cdef int64_t num_classes = lengths.shape[0], n = classes.shape[0], c, num_bins
    cdef State state
    cdef int32_t* memory
    if counts.shape[0] != num_classes or offsets.shape[0] != n + 1:
        raise ValueError("counts must be as long as lengths, and offsets one longer than classes")
    if workspace.shape[0] < fill_workspace(n, num_classes):
        raise ValueError("the workspace is too small")
    if max_items < 1:
        raise ValueError("a bin must hold at least one sample")
    state.tokens = state.samples = 0
    for c in range(num_classes):
        if lengths[c] < 1 or lengths[c] > capacity or counts[c] < 1 or (c and lengths[c] >= lengths[c - 1]):
            raise ValueError("lengths must be positive, descending and at most the capacity, and counts positive")
        if lengths[c] > (SUM_LIMIT - 1 - state.tokens) // counts[c]:
            raise ValueError("all samples together must have fewer than 2**62 tokens")
        state.samples += counts[c]
        state.tokens += counts[c] * lengths[c]
    if state.samples != n:
        raise ValueError("counts must add up to the length of classes")
    offsets[0] = 0
    if n == 0:
        return 0
    memory = <int32_t*>(&workspace[0] + (4 - <size_t>&workspace[0] % 4) % 4)
    state.num_classes, state.lengths = num_classes, &lengths[0]
    state.counts, state.later = memory, memory + num_classes
    state.earlier = state.later + num_classes + 1
    with nogil:
        for c in range(num_classes):
            state.counts[c] = counts[c]
        for c in range(num_classes + 1):
            state.later[c] = state.earlier[c] = <int32_t>c
        num_bins = fill_all(&state, capacity, max_items, max_steps, &offsets[0], &classes[0])
    return num_bins
