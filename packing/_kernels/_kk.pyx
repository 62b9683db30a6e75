"""k-way largest differencing: repeatedly merge the two arrangements of k sums with the largest spreads.

(a) Layout: a value is named by its place in the sorted order. One flat array holds a bucket (sum, count, lowest
    position) per position, smallest value first. A run of k consecutive positions is then an arrangement already: its
    buckets ascend, which also makes it a min-heap. Who shares a bucket is kept as a forest in which every position
    points to a lower one, so joining is one store and one ascending pass names every position's group.
(b) The loop is manual because each step depends on the one before. Two facts keep it short. An arrangement with an
    empty bucket has its largest sum as spread, so once on top it stays there until it is full: it is always a run of
    untouched positions, never stored, and at most N / k full arrangements ever exist. And what joins a full
    arrangement joins its smallest buckets: a heap absorbs it, and sorting waits until two full ones meet.
(c) Ties: buckets go by sum descending, count descending, lowest position ascending; arrangements by spread
    descending, those with an empty bucket first, then by top bucket. No two are equal.
(d) Time N log k + (N / k) log(N / k) for sorted values, memory 16 bytes a value, 32 an arrangement, 16 a group.

Source: N. Karmarkar, R. M. Karp, "The Differencing Method of Set Partitioning", UCB/CSD 82/113, 1982.
"""

from libc.string cimport memset

from packing._kernels._buckets cimport Bucket, Scratch, is_smaller, join, sift_down, sift_up, sort_buckets
from packing._kernels._radix cimport counter_size
from packing._kernels._typedefs cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t


cdef struct Arrangement:
    int64_t spread
    Bucket top  # a copy of the largest bucket, which a heap does not keep in a known place
    int32_t start  # where its k buckets lie in the flat array
    int32_t is_sorted  # ascending, or only a min-heap


cdef struct State:
    Py_ssize_t n
    Py_ssize_t k
    int32_t* parent  # [n], a lower position of the same bucket, or itself
    Bucket* buckets  # [n], the singleton of position p at n - 1 - p
    Arrangement* queue  # [n // k], a max-heap
    Py_ssize_t queued
    Scratch scratch


# Arrangements


cdef inline bint comes_before(const Arrangement* one, const Arrangement* other) noexcept nogil:
    if one.spread != other.spread:
        return one.spread > other.spread
    return is_smaller(&other.top, &one.top)


cdef inline void push(State* state, const Arrangement* arrangement) noexcept nogil:
    cdef Arrangement* queue = state.queue
    cdef Py_ssize_t above, place = state.queued
    state.queued += 1
    while place > 0:
        above = (place - 1) // 2
        if not comes_before(arrangement, &queue[above]):
            break
        queue[place] = queue[above]
        place = above
    queue[place] = arrangement[0]


cdef inline void replace_first(State* state, const Arrangement* arrangement) noexcept nogil:
    """Put `arrangement` where the first of the queue was."""
    cdef Arrangement* queue = state.queue
    cdef Py_ssize_t place = 0, child = 1, size = state.queued
    while child < size:
        if child + 1 < size and comes_before(&queue[child + 1], &queue[child]):
            child += 1
        if not comes_before(&queue[child], arrangement):
            break
        queue[place] = queue[child]
        place = child
        child = 2 * place + 1
    queue[place] = arrangement[0]


cdef inline Arrangement pop(State* state) noexcept nogil:
    cdef Arrangement first = state.queue[0]
    state.queued -= 1
    if state.queued > 0:
        replace_first(state, &state.queue[state.queued])
    return first


cdef inline int64_t value_at(const State* state, Py_ssize_t position) noexcept nogil:
    return state.buckets[state.n - 1 - position].total


cdef inline Arrangement full_run(State* state, Py_ssize_t position) noexcept nogil:
    """The arrangement of the untouched positions from `position` to `position` + k - 1."""
    cdef Arrangement run
    cdef Py_ssize_t start = state.n - position - state.k
    run.start = <int32_t>start
    run.top = state.buckets[start + state.k - 1]
    run.spread = run.top.total - state.buckets[start].total
    run.is_sorted = True
    return run


cdef inline void join_position(
    State* state, Arrangement* arrangement, Bucket* bucket, Py_ssize_t position
) noexcept nogil:
    join(bucket, &state.buckets[state.n - 1 - position], state.parent)
    if is_smaller(&arrangement.top, bucket):
        arrangement.top = bucket[0]


cdef void absorb(State* state, Arrangement* arrangement, Py_ssize_t position, Py_ssize_t num_positions) noexcept nogil:
    """Join untouched positions, fewer than k, to the smallest buckets, the largest value to the smallest bucket."""
    cdef Bucket* heap = state.buckets + arrangement.start
    cdef Py_ssize_t i, last, k = state.k
    if arrangement.is_sorted:
        for i in range(num_positions):
            join_position(state, arrangement, &heap[i], position + i)
        for i in range(num_positions - 1, -1, -1):
            sift_down(heap, k, i)
    else:
        for last in range(k - 1, k - num_positions, -1):
            heap[0], heap[last] = heap[last], heap[0]
            sift_down(heap, last, 0)
        # The smallest bucket now lies last, and so on down to the one at the root, which stays there.
        for i in range(num_positions - 1):
            join_position(state, arrangement, &heap[k - 1 - i], position + i)
        join_position(state, arrangement, &heap[0], position + num_positions - 1)
        sift_down(heap, k - num_positions + 1, 0)
        for last in range(k - num_positions + 1, k):
            sift_up(heap, last)
    arrangement.is_sorted = False
    arrangement.spread = arrangement.top.total - heap[0].total


cdef inline void make_sorted(State* state, Arrangement* arrangement) noexcept nogil:
    if not arrangement.is_sorted:
        sort_buckets(state.buckets + arrangement.start, state.k, state.n, &state.scratch)
        arrangement.is_sorted = True


cdef void merge(State* state, Arrangement* arrangement, Arrangement* other) noexcept nogil:
    """Join the buckets of two full arrangements, the largest of one to the smallest of the other."""
    cdef Bucket* one = state.buckets + arrangement.start
    cdef Bucket* two = state.buckets + other.start
    cdef Py_ssize_t i, k = state.k
    make_sorted(state, arrangement)
    make_sorted(state, other)
    for i in range(k):
        join(&one[i], &two[k - 1 - i], state.parent)
    sort_buckets(one, k, state.n, &state.scratch)
    arrangement.top = one[k - 1]
    arrangement.spread = one[k - 1].total - one[0].total


cdef Bucket* merge_all(State* state, bint equal_count) noexcept nogil:
    """Merge until one arrangement is left; its k buckets, ascending. Needs n >= k >= 2."""
    cdef Arrangement best = full_run(state, 0)  # before anything is full, nothing is larger than the next value
    cdef Arrangement other
    cdef Py_ssize_t start, position = state.k  # the first untouched one
    while equal_count and position < state.n:
        other = full_run(state, position)
        push(state, &other)
        position += state.k
    while True:
        # `best` is what the last step left; it stays outside the queue because it is often first again.
        if state.queued > 0 and comes_before(&state.queue[0], &best):
            other = best
            best = state.queue[0]
            replace_first(state, &other)
        start = position
        while position < min(start + state.k, state.n) and value_at(state, position) >= best.spread:
            position += 1
        if position - start == state.k:
            other = full_run(state, start)
            push(state, &other)
        elif position > start:
            absorb(state, &best, start, position - start)
        elif position < state.n and (state.queued == 0 or value_at(state, position) >= state.queue[0].spread):
            absorb(state, &best, position, 1)
            position += 1
        elif state.queued > 0:
            other = pop(state)
            merge(state, &best, &other)
        else:
            break
    make_sorted(state, &best)
    return state.buckets + best.start


# From positions to groups


cdef bint fill_buckets(State* state, const int64_t* values, const int32_t* order) noexcept nogil:
    """Set up the singletons; false where `order` is no permutation."""
    cdef uint32_t* seen = <uint32_t*>state.parent  # one bit a sample, until the parents move in
    cdef uint32_t bit
    cdef Py_ssize_t position, sample
    cdef Bucket* bucket
    memset(seen, 0, <size_t>(state.n // 32 + 1) * sizeof(uint32_t))
    for position in range(state.n):
        sample = order[position]
        if sample < 0 or sample >= state.n:
            return False
        bit = <uint32_t>1 << (sample & 31)
        if seen[sample >> 5] & bit:
            return False
        seen[sample >> 5] |= bit
        bucket = &state.buckets[state.n - 1 - position]
        bucket.total = values[sample]
        bucket.count = 1
        bucket.lowest = <int32_t>position
    return True


cdef inline bint descends(const State* state) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(1, state.n):
        if state.buckets[i].total < state.buckets[i - 1].total:
            return False
    return True


cdef void name_groups(State* state, const Bucket* smallest, Py_ssize_t num_buckets) noexcept nogil:
    """Turn the forest of positions into group numbers, the largest bucket being group 0."""
    cdef int32_t* group = state.parent
    cdef Py_ssize_t position
    for position in range(num_buckets):
        group[smallest[num_buckets - 1 - position].lowest] = ~<int32_t>position
    for position in range(state.n):
        group[position] = ~group[position] if group[position] < 0 else group[group[position]]


cdef void write_groups(
    State* state,
    const int32_t* order,  # IN [n]
    int32_t* offsets,  # OUT [k + 1]
    int32_t* items,  # OUT [n], on entry the group of every position
) noexcept nogil:
    """Counting sort of the samples by group; it reads them by index, so they ascend inside a group."""
    cdef int32_t* group_of = <int32_t*>state.buckets  # the buckets are done with
    cdef int32_t group, total = 0, count
    cdef Py_ssize_t i
    memset(offsets, 0, <size_t>(state.k + 1) * sizeof(int32_t))
    for i in range(state.n):
        group = items[i]
        group_of[order[i]] = group
        offsets[group] += 1
    for i in range(state.k + 1):
        count = offsets[i]
        offsets[i] = total
        total += count
    for i in range(state.n):
        group = group_of[i]
        items[offsets[group]] = <int32_t>i
        offsets[group] += 1
    for i in range(state.k, 0, -1):
        offsets[i] = offsets[i - 1]
    offsets[0] = 0


cdef enum Verdict:
    DONE
    NO_PERMUTATION
    NOT_DESCENDING
    NEGATIVE


cdef Verdict partition(
    State* state,
    const int64_t* values,  # IN [n]
    const int32_t* order,  # IN [n]
    bint equal_count,
    int32_t* offsets,  # OUT [k + 1]
    int32_t* items,  # OUT [n]
) noexcept nogil:
    cdef Py_ssize_t i
    if not fill_buckets(state, values, order):
        return NO_PERMUTATION
    if not descends(state):
        return NOT_DESCENDING
    if state.buckets[0].total < 0:
        return NEGATIVE
    for i in range(state.n):
        state.parent[i] = <int32_t>i
    if state.k == 1:
        memset(state.parent, 0, <size_t>state.n * sizeof(int32_t))
    elif state.k > state.n:
        name_groups(state, state.buckets, state.n)
    else:
        name_groups(state, merge_all(state, equal_count), state.k)
    write_groups(state, order, offsets, items)
    return DONE


def difference_workspace(Py_ssize_t n, Py_ssize_t num_groups):
    """Bytes of workspace that `difference` needs for `n` values in `num_groups` groups."""
    cdef Py_ssize_t k = min(n, num_groups)
    if k < 1:
        return 0
    return (
        sizeof(int64_t)  # to align the rest
        + n * sizeof(Bucket)
        + n // k * sizeof(Arrangement)
        + 2 * k * sizeof(uint64_t)
        + counter_size(k) * sizeof(uint32_t)
    )


cdef void lay_out(State* state, uint8_t* workspace) noexcept nogil:
    """Divide the workspace as `difference_workspace` adds it up."""
    cdef Py_ssize_t k = min(state.n, state.k)
    cdef size_t aligned = (<size_t>workspace + sizeof(int64_t) - 1) // sizeof(int64_t) * sizeof(int64_t)
    state.buckets = <Bucket*>aligned
    state.queue = <Arrangement*>(state.buckets + state.n)
    state.scratch.words = <uint64_t*>(state.queue + state.n // k)
    state.scratch.spare = state.scratch.words + k
    state.scratch.counters = <uint32_t*>(state.scratch.spare + k)
    state.queued = 0


def difference(
    const int64_t[::1] values not None,  # IN int64[N], not negative, sum below 2**62
    const int32_t[::1] order not None,  # IN int32[N], a permutation; values[order] does not increase
    Py_ssize_t num_groups,
    bint equal_count,
    int32_t[::1] offsets not None,  # OUT int32[num_groups+1]
    int32_t[::1] items not None,  # OUT int32[N]
    uint8_t[::1] workspace not None,  # uint8[difference_workspace(N, num_groups)]
):
    """Split values into groups of nearly equal sums by k-way largest differencing.

    Args:
        values: IN int64[N], not negative, sum below 2**62.
        order: IN int32[N], a permutation by which the values do not increase.
        num_groups: number of groups, at least 1; groups beyond the number of values stay empty.
        equal_count: every group gets N / num_groups values; N must be a multiple of `num_groups`.
        offsets: OUT int32[num_groups+1], where each group begins in `items`.
        items: OUT int32[N], groups by sum descending, then count descending, then lowest sorted position; inside a
            group by index.
        workspace: uint8[difference_workspace(N, num_groups)].

    Raises:
        ValueError: shapes that do not match, a workspace that is too small, `num_groups` below 1, an `order` that is
            no permutation or does not sort the values, a negative value, or a count that `equal_count` cannot share
            out.
    """
    cdef State state
    cdef Verdict verdict
    cdef Py_ssize_t n = values.shape[0]
    if num_groups < 1:
        raise ValueError("`num_groups` must be at least 1.")
    if order.shape[0] != n or items.shape[0] != n or offsets.shape[0] != num_groups + 1:
        raise ValueError("`order` and `items` must be as long as `values`, and `offsets` one longer than `num_groups`.")
    if equal_count and n % num_groups:
        raise ValueError("`equal_count` needs a multiple of `num_groups` values.")
    if workspace.shape[0] < difference_workspace(n, num_groups):
        raise ValueError("`workspace` is too small.")
    if n == 0:
        offsets[:] = 0
        return
    state.n, state.k = n, num_groups
    state.parent = &items[0]  # no longer needed when the items are written
    with nogil:
        lay_out(&state, &workspace[0])
        verdict = partition(&state, &values[0], &order[0], equal_count, &offsets[0], &items[0])
    if verdict == NO_PERMUTATION:
        raise ValueError("`order` must be a permutation.")
    if verdict == NOT_DESCENDING:
        raise ValueError("`order` must sort `values` in descending order.")
    if verdict == NEGATIVE:
        raise ValueError("`values` must not be negative.")
