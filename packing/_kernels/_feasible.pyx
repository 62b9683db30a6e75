"""Pair repair: two bins' samples are split anew so that the round objective falls."""
# (a) Layout: a bin is an intrusive list of samples, so that a new split costs what the pair holds; loads are kept with a
#     list of the bins in cost order.
# (b) The loop is manual because each attempt depends on the successes before it.
# (c) Ties: cost order by load, then bin; pairs by gain, then bin numbers; sides by (score, capacity left, side).
# (d) Time: per success O(leaders * 12 * (K + W log K)) for the gains; per attempt the O(capacity) reachability table of
#     the pair and its samples times O(log K). Memory: 4 bytes per token of capacity, O(N + K).

from packing._kernels._bins cimport squared_variation, uint128_t
from packing._kernels._pairs cimport Candidate, sort_candidates, sum_boundaries, twice_phi
from packing._kernels._reach_rows cimport completes, latest_starts, num_words
from packing._kernels._repair_state cimport NEIGHBOURS, PARTNERS, Repair, carve, link, padded, sort_bins
from packing._kernels._typedefs cimport int32_t, int64_t, uint8_t, uint64_t

MAKESPAN, BALANCE = 0, 1

def round_objective(const int64_t[::1] loads, int64_t group_size, int objective):
    """The round objective of bin loads that include the pad cost, int64[K]; lower is better."""
    cdef int64_t b, i, count = loads.shape[0]
    cdef uint128_t squares, total, score
    if group_size < 1 or count % group_size:
        raise ValueError("group_size must be positive and divide the number of bins")
    if objective == 0:
        return sum(sorted(loads, reverse=True)[::group_size])
    result = 0
    for b in range(count // group_size):
        squares, total = 0, 0
        for i in range(b * group_size, (b + 1) * group_size):
            total += <uint128_t>loads[i]
            squares += <uint128_t>loads[i] * <uint128_t>loads[i]
        score = squared_variation(squares, total, group_size)
        result += (int(<uint64_t>(score >> 64)) << 64) + int(<uint64_t>score)
    return result


def repair_pairs_workspace(int64_t num_samples, int64_t num_bins, int64_t table_entries, int64_t max_pairs):
    """Bytes of workspace that `repair_pairs` needs; `table_entries`: 1 + the smaller of capacity and all tokens."""
    cdef int64_t pairs = min(max_pairs, num_bins * (num_bins - 1) // 2)
    cdef int64_t candidates = max(PARTNERS * num_bins, num_samples)
    words = 6 * num_bins + 8 + 4 * num_samples + 3 * PARTNERS * num_bins + 3 * candidates + num_words(table_entries)
    return 8 * words + 4 * (3 * num_bins + 3 * num_samples + table_entries + 2 * pairs + 2) + 16


def repair_pairs(
    const int64_t[::1] tokens,  # IN int64[N]
    const int64_t[::1] cost,  # IN int64[N]
    const int32_t[::1] order,  # IN int32[N]: cost descending, tokens descending, index
    int64_t capacity,
    const int64_t[::1] pad_cost,  # IN int64[capacity + 1], or int64[0]: none
    int64_t group_size,
    int objective,
    int64_t max_pairs,
    int32_t[::1] offsets,  # IN and OUT int32[K + 1]
    int32_t[::1] items,  # IN and OUT int32[N]
    uint8_t[::1] workspace,  # OUT uint8[repair_pairs_workspace(...)]
):
    """Splits pairs of bins anew until `max_pairs` were tried or nothing is left to try; returns how many changed."""
    cdef Repair repair
    cdef int64_t num_samples = items.shape[0], num_bins = offsets.shape[0] - 1, i, b, all_tokens = 0
    cdef int64_t attempts = 0, successes = 0, found
    if not (tokens.shape[0] == cost.shape[0] == order.shape[0] == num_samples):
        raise ValueError("tokens, cost, order and items must have the same length")
    if num_bins < 2 or group_size < 1 or num_bins % group_size:
        raise ValueError("there must be at least two bins, and group_size must divide their number")
    if pad_cost.shape[0] not in (0, capacity + 1):
        raise ValueError("pad_cost must be empty or have capacity + 1 values")
    if offsets[0] != 0 or offsets[num_bins] != num_samples:
        raise ValueError("offsets must go from 0 to the number of items")
    for b in range(num_bins):
        if offsets[b] > offsets[b + 1]:
            raise ValueError("offsets must ascend")
    for i in range(num_samples):
        if not (0 <= items[i] < num_samples and 0 <= order[i] < num_samples) or tokens[i] < 1:
            raise ValueError("items and order must name samples, tokens must be positive")
        all_tokens += tokens[i]
    repair.table_entries = 1 + (capacity if capacity < all_tokens else all_tokens)
    if workspace.shape[0] < repair_pairs_workspace(num_samples, num_bins, repair.table_entries, max_pairs):
        raise ValueError("the workspace is too small")
    repair.num_samples, repair.num_bins, repair.capacity = num_samples, num_bins, capacity
    repair.group_size, repair.balance, repair.num_tried = group_size, objective == 1, 0
    repair.tokens, repair.cost = &tokens[0], &cost[0]
    repair.pad_cost = &pad_cost[0] if pad_cost.shape[0] else NULL
    carve(&repair, &workspace[0])
    with nogil:
        for i in range(num_samples):
            repair.place[order[i]] = <int32_t>i
        for b in range(num_bins):
            link(&repair, b, &items[0] + offsets[b], offsets[b + 1] - offsets[b])
        sort_bins(&repair)
        while attempts < max_pairs:
            found = try_candidates(&repair, max_pairs - attempts)
            attempts += found if found > 0 else -found
            if found <= 0:
                break
            successes += 1
        i = 0
        for b in range(num_bins):
            found = repair.head[b]
            while found >= 0:
                items[i] = <int32_t>found
                i += 1
                found = repair.next[found]
            offsets[b + 1] = <int32_t>i
    return successes


# ------------------------------------------------------------------------------------------------------- candidates


cdef int64_t try_candidates(Repair* repair, int64_t allowed) noexcept nogil:
    """Attempts pairs until one succeeds: the number of attempts, negative where none did."""
    cdef int64_t count = collect(repair), i, attempts = 0, first, second
    for i in range(count):
        first, second = repair.candidates[i].first, repair.candidates[i].second
        if was_tried(repair, first, second):
            continue
        if attempts == allowed:
            break
        attempts += 1
        if attempt(repair, first, second):
            forget(repair, first, second)
            sort_bins(repair)
            return attempts
        repair.tried[2 * repair.num_tried] = <int32_t>first
        repair.tried[2 * repair.num_tried + 1] = <int32_t>second
        repair.num_tried += 1
    return -attempts


cdef int64_t collect(Repair* repair) noexcept nogil:
    """Fills `candidates` with the pairs to try, in order, and returns how many there are."""
    cdef int64_t g = repair.group_size, count = 0, block, b, leader, i, kept = 0
    cdef Candidate* found = repair.candidates
    for block in range(repair.num_bins // g):
        leader = repair.by_load[block * g]
        if repair.balance:
            leader = block * g
            for b in range(block * g + 1, (block + 1) * g):
                if repair.load[b] > repair.load[leader]:
                    leader = b
        for i in range(NEIGHBOURS):
            if i < repair.num_bins:
                count = add_pair(repair, leader, repair.by_load[i], count)
                count = add_pair(repair, leader, repair.by_load[repair.num_bins - 1 - i], count)
            count = add_pair(
                repair, leader, repair.by_load[(repair.where[leader] + 1 + i) % repair.num_bins], count
            )
    sort_candidates(found, count, repair.spare)
    for i in range(count):  # all gains are 0 so far: equal pairs are neighbours
        if kept == 0 or found[i].first != found[kept - 1].first or found[i].second != found[kept - 1].second:
            found[kept] = found[i]
            kept += 1
    if not repair.balance:
        for i in range(kept):
            found[i].gain = twice_gain(repair, found[i].first, found[i].second)
        sort_candidates(found, kept, repair.spare)
    return kept


cdef inline int64_t add_pair(Repair* repair, int64_t one, int64_t other, int64_t count) noexcept nogil:
    if one == other:
        return count
    repair.candidates[count].gain = 0
    repair.candidates[count].first = one if one < other else other
    repair.candidates[count].second = other if one < other else one
    return count + 1


cdef inline bint was_tried(const Repair* repair, int64_t first, int64_t second) noexcept nogil:
    cdef int64_t i
    for i in range(repair.num_tried):
        if repair.tried[2 * i] == first and repair.tried[2 * i + 1] == second:
            return True
    return False


cdef void forget(Repair* repair, int64_t first, int64_t second) noexcept nogil:
    """After a success: pairs with one of these bins may be tried again."""
    cdef int64_t i, kept = 0, one, other
    for i in range(repair.num_tried):
        one, other = repair.tried[2 * i], repair.tried[2 * i + 1]
        if one != first and one != second and other != first and other != second:
            repair.tried[2 * kept] = <int32_t>one
            repair.tried[2 * kept + 1] = <int32_t>other
            kept += 1
    repair.num_tried = kept


cdef void set_others(Repair* repair, int64_t first, int64_t second) noexcept nogil:
    cdef int64_t i, count = 0
    for i in range(repair.num_bins):
        if repair.by_load[i] != first and repair.by_load[i] != second:
            repair.others.loads[count] = repair.load[repair.by_load[i]]
            count += 1
    sum_boundaries(&repair.others)


cdef int64_t twice_gain(Repair* repair, int64_t first, int64_t second) noexcept nogil:
    """Twice the potential gain: Phi now less the best Phi over the splits that can matter."""
    cdef int64_t total = repair.total[first] + repair.total[second], g = repair.group_size, best, now, m, t, shift
    set_others(repair, first, second)
    now = twice_phi(&repair.others, 2 * repair.load[first], 2 * repair.load[second])
    best = twice_phi(&repair.others, total, total)
    best = min_split(repair, 0, total, best)
    if g == 1:  # Phi is the sum of all loads, whatever the split
        return now - best
    for t in range(repair.others.rounds + 1):
        for shift in range(3):
            m = t * g - shift
            if 0 <= m < repair.others.count and repair.others.loads[m] <= total:
                best = min_split(repair, repair.others.loads[m], total, best)
    return now - best


cdef inline int64_t min_split(const Repair* repair, int64_t x, int64_t total, int64_t best) noexcept nogil:
    cdef int64_t value = twice_phi(&repair.others, 2 * x, 2 * (total - x))
    return value if value < best else best


# ---------------------------------------------------------------------------------------------------------- attempt


cdef struct Balance:
    # The squared variation of the one or two rounds that hold the pair, from the loads of their other bins.
    bint together
    uint128_t rest             # the other rounds
    uint128_t total[2]
    uint128_t squares[2]


cdef void set_balance(const Repair* repair, int64_t first, int64_t second, Balance* balance) noexcept nogil:
    cdef int64_t g = repair.group_size, b, block, mine
    cdef uint128_t total, squares, load
    balance.together = first // g == second // g
    balance.rest = 0
    for block in range(repair.num_bins // g):
        total, squares = 0, 0
        for b in range(block * g, (block + 1) * g):
            if b != first and b != second:
                load = <uint128_t>repair.load[b]
                total += load
                squares += load * load
        if block == first // g or block == second // g:
            mine = 0 if block == first // g else 1
            balance.total[mine], balance.squares[mine] = total, squares
        else:
            balance.rest += squared_variation(squares, total, g)


cdef uint128_t balance_with(const Repair* repair, const Balance* balance, int64_t x, int64_t y) noexcept nogil:
    """The round objective with loads x and y of the pair."""
    cdef uint128_t first = <uint128_t>x, second = <uint128_t>y, g = <uint128_t>repair.group_size
    if balance.together:
        return balance.rest + squared_variation(
            balance.squares[0] + first * first + second * second, balance.total[0] + first + second, repair.group_size
        )
    return (
        balance.rest
        + squared_variation(balance.squares[0] + first * first, balance.total[0] + first, repair.group_size)
        + squared_variation(balance.squares[1] + second * second, balance.total[1] + second, repair.group_size)
    )


cdef inline uint128_t objective_with(const Repair* repair, const Balance* balance, int64_t x, int64_t y) noexcept nogil:
    if repair.balance:
        return balance_with(repair, balance, x, y)
    return <uint128_t>twice_phi(&repair.others, 2 * x, 2 * y)


cdef int64_t gather(Repair* repair, int64_t first, int64_t second) noexcept nogil:
    """The pair's samples in the order in which they are placed; returns how many there are."""
    cdef int64_t count = 0, which, sample
    for which in range(2):
        sample = repair.head[first if which == 0 else second]
        while sample >= 0:
            repair.samples[count].gain = 0
            repair.samples[count].first = repair.place[sample]
            repair.samples[count].second = sample
            count += 1
            sample = repair.next[sample]
    sort_candidates(repair.samples, count, repair.spare)
    return count


cdef bint attempt(Repair* repair, int64_t first, int64_t second) noexcept nogil:
    """Splits the pair anew; True where that lowered the round objective, otherwise nothing has changed."""
    cdef int64_t count = gather(repair, first, second), i, side, rest = 0, limit, chosen, sample
    cdef int64_t used[2]
    cdef int64_t placed[2]
    cdef Balance balance
    balance.together, balance.rest = False, 0
    for i in range(count):
        repair.lengths[i] = repair.tokens[repair.samples[i].second]
        rest += repair.lengths[i]
    limit = rest if rest < repair.capacity else repair.capacity
    latest_starts(repair.lengths, count, limit, repair.last_start, repair.reached)
    if repair.balance:
        set_balance(repair, first, second, &balance)
    else:
        set_others(repair, first, second)
    for side in range(2):
        used[side] = 0
        placed[side] = 0
    for i in range(count):
        sample = repair.samples[i].second
        rest -= repair.lengths[i]
        chosen = choose_side(repair, &balance, sample, used, placed, rest, i + 1, limit)
        if chosen < 0:
            return False
        repair.side[i] = <int32_t>chosen
        used[chosen] += repair.tokens[sample]
        placed[chosen] += repair.cost[sample]
    if not (
        objective_with(repair, &balance, padded(repair, placed[0], used[0]), padded(repair, placed[1], used[1]))
        < objective_with(repair, &balance, repair.load[first], repair.load[second])
    ):
        return False
    keep(repair, first, 0, count)
    keep(repair, second, 1, count)
    return True


cdef int64_t choose_side(
    const Repair* repair, const Balance* balance, int64_t sample, const int64_t* used, const int64_t* placed,
    int64_t rest, int64_t following, int64_t limit,
) noexcept nogil:
    """The side for a sample: the smallest (score, capacity left, side) from which the rest can be completed, or -1."""
    cdef int64_t side, other, best = -1, low, high, left, best_left = 0, mine, theirs
    cdef uint128_t score, best_score = 0
    cdef int64_t after[2]
    for side in range(2):
        other = 1 - side
        after[side] = used[side] + repair.tokens[sample]
        after[other] = used[other]
        # A sum from low to high of the remaining samples on side 0 keeps both bins within capacity and non-empty.
        low = after[1] + rest - repair.capacity
        if low < (1 if after[0] == 0 else 0):
            low = 1 if after[0] == 0 else 0
        high = repair.capacity - after[0]
        if high > (rest if after[1] else rest - 1):
            high = rest if after[1] else rest - 1
        if high > limit:
            high = limit
        if high < low or not completes(repair.last_start, low, high, following):
            continue
        if repair.balance and repair.pad_cost == NULL:
            score = <uint128_t>placed[side]
        else:
            mine = padded(repair, placed[side] + repair.cost[sample], after[side])
            theirs = padded(repair, placed[other], used[other])
            score = objective_with(repair, balance, mine if side == 0 else theirs, theirs if side == 0 else mine)
        left = repair.capacity - after[side]
        if best < 0 or score < best_score or (score == best_score and left < best_left):
            best, best_score, best_left = side, score, left
    return best


cdef void keep(Repair* repair, int64_t b, int64_t side, int64_t count) noexcept nogil:
    """Makes the samples that were placed on a side the contents of a bin."""
    cdef int64_t i, kept = 0
    cdef int32_t* members = <int32_t*>repair.spare
    for i in range(count):
        if repair.side[i] == side:
            members[kept] = <int32_t>repair.samples[i].second
            kept += 1
    link(repair, b, members, kept)
