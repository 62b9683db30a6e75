"""Search for fewer bins; `packing._reference.reduce_bins` is the specification."""
# (a) Layout: a bin is a linked list of samples, because samples come and go; bins with room come first in `listed`, so
#     that one of them is drawn in O(1). Reachable sums are rows of bits, one row a sample of the pool.
# (b) The loops are manual because every step depends on the one before it.
# (c) Ties: all choices are drawn from one generator with a fixed start; the least full bins by (tokens, number).
# (d) Time: a refill takes at most POOL * (capacity // 64 + 1) words, far fewer where a full bin is found early; the whole
#     search `max_steps` of them and a last refill. Memory: 8 * (POOL + 1) * (capacity // 64 + 1) + 12 N + 24 K bytes.

from libc.string cimport memcpy

from packing._kernels._reach_rows cimport add_sample, bits_up_to, num_words
from packing._kernels._typedefs cimport int32_t, int64_t, uint8_t, uint64_t


cdef enum:
    MOST_POOL = 64    # samples of one refill
    MOST_LOOSE = 24   # of them from outside the bin
    SPILLED = 3       # bins that become loose samples; two of them come back
    REFILL_STEPS = 128

POOL, LOOSE = MOST_POOL, MOST_LOOSE


cdef struct State:
    int64_t num_bins, num_loose, num_open, loose_tokens, steps, capacity, most_items, num_pool, stuck
    uint64_t random
    const int64_t* tokens
    int32_t* bin_of   # [N] -1: loose
    int32_t* follows  # [N] the sample after this one in its bin, or -1
    int32_t* loose    # [N] the first num_loose are samples of no bin
    int64_t* used     # [K]
    int32_t* first    # [K] the first sample of a bin, or -1
    int32_t* count    # [K]
    int32_t* listed   # [K] all bins, the num_open ones with room first
    int32_t* place    # [K] where a bin is listed
    uint64_t* rows
    int32_t pool[MOST_POOL]
    uint8_t chosen[MOST_POOL]


cdef inline int64_t below(State* state, int64_t limit) noexcept nogil:
    """A number from 0 to limit - 1: the upper half of Marsaglia's xorshift64 (13, 7, 17), scaled."""
    state.random ^= state.random << 13
    state.random ^= state.random >> 7
    state.random ^= state.random << 17
    return <int64_t>(((state.random >> 32) * <uint64_t>limit) >> 32)


cdef inline void shuffle(State* state, int32_t* values, int64_t count) noexcept nogil:
    cdef int64_t i, other
    cdef int32_t value
    for i in range(count - 1, 0, -1):
        other = below(state, i + 1)
        value = values[i]
        values[i] = values[other]
        values[other] = value


cdef inline void put(State* state, int64_t b, int64_t sample) noexcept nogil:
    state.bin_of[sample] = <int32_t>b
    state.follows[sample] = state.first[b]
    state.first[b] = <int32_t>sample
    state.used[b] += state.tokens[sample]
    state.count[b] += 1


cdef inline void loosen(State* state, int64_t sample) noexcept nogil:
    state.bin_of[sample] = -1
    state.loose[state.num_loose] = <int32_t>sample
    state.num_loose += 1
    state.loose_tokens += state.tokens[sample]


cdef inline void spill(State* state, int64_t b) noexcept nogil:
    """Makes all samples of a bin loose."""
    cdef int64_t sample = state.first[b]
    while sample >= 0:
        loosen(state, sample)
        sample = state.follows[sample]
    state.first[b], state.used[b], state.count[b] = -1, 0, 0


cdef inline void swap_places(State* state, int64_t b, int64_t place) noexcept nogil:
    cdef int32_t other = state.listed[place]
    state.listed[state.place[b]] = other
    state.place[other] = state.place[b]
    state.listed[place] = <int32_t>b
    state.place[b] = <int32_t>place


cdef inline void list_again(State* state, int64_t b) noexcept nogil:
    """Lists a bin where it belongs after its tokens have changed."""
    if state.used[b] < state.capacity and state.place[b] >= state.num_open:
        swap_places(state, b, state.num_open)
        state.num_open += 1
    elif state.used[b] >= state.capacity and state.place[b] < state.num_open:
        state.num_open -= 1
        swap_places(state, b, state.num_open)


cdef inline void add_loose_to_pool(State* state, int64_t most) noexcept nogil:
    """Moves a random choice of loose samples, at most `most`, into the pool."""
    cdef int64_t i, other, take = most if most < state.num_loose else state.num_loose
    for i in range(take):
        other = below(state, state.num_loose)
        state.pool[state.num_pool] = state.loose[other]
        state.num_pool += 1
        state.num_loose -= 1
        state.loose[other] = state.loose[state.num_loose]


cdef inline bint has_bit(const uint64_t* row, int64_t words, int64_t bit) noexcept nogil:
    return bit // 64 < words and (row[bit // 64] >> (bit % 64)) & 1


cdef int64_t choose(State* state, int64_t room) noexcept nogil:
    """Shuffles the pool, marks in `chosen` a subset with the largest sum up to `room`, and returns the sum."""
    cdef int64_t words[MOST_POOL + 1]
    cdef int64_t width = num_words(state.capacity), count = 0, total = 0, sum_, word, i
    cdef uint64_t bits
    cdef uint64_t* row = state.rows
    shuffle(state, state.pool, state.num_pool)
    row[0] = 1
    words[0] = 1
    while count < state.num_pool:
        total += state.tokens[state.pool[count]]
        words[count + 1] = num_words(total if total < room else room)
        add_sample(
            row, 0, words[count], row + width, 0, words[count + 1], state.tokens[state.pool[count]]
        )
        count += 1
        row += width
        state.steps += words[count]
        if has_bit(row, words[count], room):
            break
    word = words[count] - 1
    bits = row[word] & (bits_up_to(room % 64) if word == room // 64 else ~<uint64_t>0)
    while bits == 0:
        word -= 1
        bits = row[word]
    sum_ = 64 * word + 63
    while not bits >> 63:
        bits <<= 1
        sum_ -= 1
    room = sum_
    for i in range(count, state.num_pool):
        state.chosen[i] = 0
    for i in range(count - 1, -1, -1):
        row -= width
        state.chosen[i] = not has_bit(row, words[i], room)
        if state.chosen[i]:
            room -= state.tokens[state.pool[i]]
    state.steps += REFILL_STEPS
    return sum_


cdef int64_t num_chosen(const State* state) noexcept nogil:
    cdef int64_t i, count = 0
    for i in range(state.num_pool):
        count += state.chosen[i]
    return count


cdef void refill(State* state, int64_t b) noexcept nogil:
    """Fills a bin anew from its own and from loose samples; it never holds fewer tokens afterwards."""
    cdef int64_t take, kept = state.count[b], skip = 0, at = 0, i, sample, after, before = state.used[b]
    state.num_pool = 0
    add_loose_to_pool(state, MOST_LOOSE)
    take = MOST_POOL - state.num_pool
    if kept > take:
        skip = below(state, kept - take + 1)
    else:
        take = kept
    sample = state.first[b]
    state.first[b], state.used[b], state.count[b] = -1, 0, 0
    while sample >= 0:
        after = state.follows[sample]
        if skip <= at < skip + take:
            state.pool[state.num_pool] = <int32_t>sample
            state.num_pool += 1
        else:
            put(state, b, sample)
        at += 1
        sample = after
    state.steps += at
    choose(state, state.capacity - state.used[b])
    if state.count[b] + num_chosen(state) > state.most_items:
        for i in range(state.num_pool):
            state.chosen[i] = state.bin_of[state.pool[i]] == b
    for i in range(state.num_pool):
        sample = state.pool[i]
        if state.chosen[i]:
            if state.bin_of[sample] < 0:
                state.loose_tokens -= state.tokens[sample]
            put(state, b, sample)
        else:
            if state.bin_of[sample] < 0:
                state.loose_tokens -= state.tokens[sample]
            loosen(state, sample)
    list_again(state, b)
    state.stuck = 0 if state.used[b] > before else state.stuck + 1


cdef void kick(State* state) noexcept nogil:
    """Empties one to three bins and puts loose samples in, in random order, as long as they fit."""
    cdef int64_t bins[3]
    cdef int64_t number = 1 + below(state, 3), i, k, kept, sample
    for i in range(number):
        bins[i] = below(state, state.num_bins)
        spill(state, bins[i])
    shuffle(state, state.loose, state.num_loose)
    state.steps += (number + 1) * state.num_loose
    for i in range(number):
        kept = 0
        for k in range(state.num_loose):
            sample = state.loose[k]
            if (
                state.used[bins[i]] + state.tokens[sample] <= state.capacity
                and state.count[bins[i]] < state.most_items
            ):
                put(state, bins[i], sample)
                state.loose_tokens -= state.tokens[sample]
            else:
                state.loose[kept] = <int32_t>sample
                kept += 1
        state.num_loose = kept
        list_again(state, bins[i])
    state.stuck = 0


cdef bint close(State* state) noexcept nogil:
    """Puts all loose samples into two new bins; False, and nothing has changed but the order, where they do not fit."""
    cdef int64_t i, number, second, loose = state.loose_tokens
    if loose - state.capacity > state.capacity:
        return False
    state.num_pool = 0
    add_loose_to_pool(state, MOST_POOL)
    second = loose - choose(state, state.capacity)
    number = num_chosen(state)
    if (
        second > state.capacity or number > state.most_items
        or state.num_pool - number + state.num_loose > state.most_items
    ):
        for i in range(state.num_pool):
            state.loose[state.num_loose] = state.pool[i]
            state.num_loose += 1
        return False
    for i in range(state.num_bins, state.num_bins + 2):
        state.first[i], state.used[i], state.count[i] = -1, 0, 0
    for i in range(state.num_pool):
        put(state, state.num_bins + (0 if state.chosen[i] else 1), state.pool[i])
    for i in range(state.num_loose):
        put(state, state.num_bins + 1, state.loose[i])
    state.num_bins += 2
    state.num_loose, state.loose_tokens = 0, 0
    return True


cdef void spill_least_full(State* state) noexcept nogil:
    cdef int64_t turn, b, least, sample
    for turn in range(SPILLED):
        least = 0
        for b in range(1, state.num_bins):
            if state.used[b] < state.used[least]:
                least = b
        spill(state, least)
        state.num_bins -= 1
        b = state.num_bins
        state.first[least], state.used[least], state.count[least] = state.first[b], state.used[b], state.count[b]
        sample = state.first[least] if least < b else -1
        while sample >= 0:
            state.bin_of[sample] = <int32_t>least
            sample = state.follows[sample]
    for b in range(state.num_bins):
        state.listed[b], state.place[b] = <int32_t>b, <int32_t>b
    state.num_open = 0
    for b in range(state.num_bins):
        list_again(state, b)
    state.stuck = 0


cdef bint save_one_bin(State* state, int64_t max_steps) noexcept nogil:
    """Searches for a packing with one bin fewer; False: `bin_of` is not a packing afterwards."""
    cdef int64_t b
    spill_least_full(state)
    while not close(state):
        if state.steps >= max_steps or state.num_bins == 0:
            return False
        b = -1
        if state.num_open and below(state, 2):
            b = state.listed[below(state, state.num_open)]
        refill(state, b if b >= 0 else below(state, state.num_bins))
        if state.stuck > 8 * state.num_bins + 64:
            kick(state)
    return True


def reduce_bins_workspace(int64_t num_samples, int64_t num_bins, int64_t capacity):
    """Bytes of workspace that `reduce_bins` needs."""
    return 8 * (MOST_POOL + 1) * num_words(capacity) + 12 * num_samples + 24 * num_bins + 8


def reduce_bins(
    const int64_t[::1] tokens,  # IN int64[N], positive
    int64_t capacity,
    int64_t max_items,  # 0: no limit
    int64_t fewest,  # stop at this many bins
    int64_t max_steps,
    int32_t[::1] bin_of,  # IN and OUT int32[N]: a packing into num_bins bins
    int64_t num_bins,
    uint8_t[::1] workspace,  # OUT uint8[reduce_bins_workspace(N, num_bins, capacity)]
):
    """Lowers the number of bins of a packing as far as it can, and returns it; some of them may be empty."""
    cdef State state
    cdef int64_t n = tokens.shape[0], i, found = num_bins
    if bin_of.shape[0] != n:
        raise ValueError("tokens and bin_of must have the same length")
    if capacity < 1 or num_bins < 0 or workspace.shape[0] < reduce_bins_workspace(n, num_bins, capacity):
        raise ValueError("the workspace is too small")
    if n == 0 or num_bins <= 2:
        return num_bins
    state.rows = <uint64_t*>(&workspace[0] + (8 - <size_t>&workspace[0] % 8) % 8)
    state.used = <int64_t*>(state.rows + (MOST_POOL + 1) * num_words(capacity))
    state.first = <int32_t*>(state.used + num_bins)
    state.count = state.first + num_bins
    state.listed = state.count + num_bins
    state.place = state.listed + num_bins
    state.bin_of = state.place + num_bins
    state.follows = state.bin_of + n
    state.loose = state.follows + n
    state.tokens, state.capacity, state.most_items = &tokens[0], capacity, max_items if max_items > 0 else n
    state.num_bins, state.num_loose, state.loose_tokens, state.steps, state.stuck = num_bins, 0, 0, 0, 0
    state.num_pool, state.num_open = 0, 0
    state.random = 88172645463325252  # the start in Marsaglia's "Xorshift RNGs" (2003)
    for i in range(num_bins):
        state.first[i], state.used[i], state.count[i] = -1, 0, 0
    for i in range(n - 1, -1, -1):
        if not 0 <= bin_of[i] < num_bins or tokens[i] < 1 or tokens[i] > capacity - state.used[bin_of[i]]:
            raise ValueError("bin_of must be a packing of positive tokens into num_bins bins of at most `capacity`")
        put(&state, bin_of[i], i)
        if state.count[bin_of[i]] > state.most_items:
            raise ValueError("bin_of must be a packing of at most `max_items` samples a bin")
    with nogil:
        while found > fewest and found > 2 and state.steps < max_steps:
            # What is not counted refill by refill: the bins looked through and the samples kept.
            state.steps += (n + 4 * num_bins) // 4
            if not save_one_bin(&state, max_steps):
                break
            found -= 1
            memcpy(&bin_of[0], state.bin_of, n * sizeof(int32_t))
    return found
