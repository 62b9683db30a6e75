# The state of pair repair: bins as intrusive lists of samples, their loads, and the bins in cost order.

from packing._kernels._pairs cimport Candidate, Others, sort_candidates
from packing._kernels._reach_rows cimport num_words
from packing._kernels._typedefs cimport int32_t, int64_t, uint8_t, uint64_t

cdef enum:
    NEIGHBOURS = 4
    PARTNERS = 12  # costliest, cheapest and following bins of each leader


cdef struct Repair:
    int64_t num_samples, num_bins, capacity, group_size, num_tried, table_entries
    bint balance
    const int64_t* tokens
    const int64_t* cost
    const int64_t* pad_cost  # NULL: none
    Others others
    int64_t* load        # [K] with pad cost
    int64_t* total       # [K] sample costs
    int64_t* lengths     # [N] tokens of the pair's samples
    Candidate* candidates  # [PARTNERS * K]
    Candidate* samples     # [N] of the pair; gain 0, first: place in the order, second: the sample
    Candidate* spare       # [max(PARTNERS * K, N)]
    uint64_t* reached    # [words of the table]
    int32_t* head        # [K] first sample of each bin
    int32_t* next        # [N] the sample after it in the bin, -1: none
    int32_t* place       # [N] where the order has each sample
    int32_t* by_load     # [K] bins in cost order
    int32_t* where       # [K] place of each bin in it
    int32_t* side        # [N]
    int32_t* last_start  # [table entries]
    int32_t* tried       # [2 * max_pairs] failed pairs of which no bin has changed


cdef inline void carve(Repair* repair, uint8_t* memory) noexcept nogil:
    """Divides the workspace: 8-byte parts first."""
    cdef int64_t* wide = <int64_t*>(memory + (8 - <size_t>memory % 8) % 8)
    cdef int32_t* narrow
    cdef int64_t bins = repair.num_bins, candidates = PARTNERS * repair.num_bins, shift
    if candidates < repair.num_samples:
        candidates = repair.num_samples
    repair.load, repair.total, repair.others.loads = wide, wide + bins, wide + 2 * bins
    wide += 3 * bins
    repair.others.group_size = repair.group_size
    repair.others.count = bins - 2
    repair.others.rounds = (bins + repair.group_size - 1) // repair.group_size
    for shift in range(3):
        repair.others.sums[shift] = wide
        wide += bins + 2
    repair.lengths = wide
    wide += repair.num_samples
    repair.candidates = <Candidate*>wide
    wide += 3 * PARTNERS * bins
    repair.samples = <Candidate*>wide
    wide += 3 * repair.num_samples
    repair.spare = <Candidate*>wide
    wide += 3 * candidates
    repair.reached = <uint64_t*>wide
    narrow = <int32_t*>(wide + num_words(repair.table_entries))
    repair.head, repair.by_load, repair.where = narrow, narrow + bins, narrow + 2 * bins
    narrow += 3 * bins
    repair.next, repair.place, repair.side = narrow, narrow + repair.num_samples, narrow + 2 * repair.num_samples
    narrow += 3 * repair.num_samples
    repair.last_start = narrow
    repair.tried = narrow + repair.table_entries


cdef inline int64_t padded(const Repair* repair, int64_t load, int64_t used) noexcept nogil:
    """A load with the pad cost of what is unused."""
    cdef int64_t unused = repair.capacity - used
    return load if repair.pad_cost == NULL else load + repair.pad_cost[unused if unused > 0 else 0]


cdef inline void link(Repair* repair, int64_t b, const int32_t* members, int64_t count) noexcept nogil:
    """Makes these samples the contents of a bin."""
    cdef int64_t i, used = 0
    repair.head[b] = members[0] if count else -1
    repair.total[b] = 0
    for i in range(count):
        repair.next[members[i]] = members[i + 1] if i + 1 < count else -1
        repair.total[b] += repair.cost[members[i]]
        used += repair.tokens[members[i]]
    repair.load[b] = padded(repair, repair.total[b], used)


cdef inline void sort_bins(Repair* repair) noexcept nogil:
    """Cost order: load descending, then bin."""
    cdef int64_t b
    for b in range(repair.num_bins):
        repair.candidates[b].gain, repair.candidates[b].first, repair.candidates[b].second = repair.load[b], b, 0
    sort_candidates(repair.candidates, repair.num_bins, repair.spare)
    for b in range(repair.num_bins):
        repair.by_load[b] = <int32_t>repair.candidates[b].first
        repair.where[repair.by_load[b]] = <int32_t>b
