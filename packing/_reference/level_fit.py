"""Plain-Python specification of placement under cost levels: every entry into a bin where it fits below the level."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

FIRST_FIT, BEST_FIT, DENSITY = 0, 1, 2
"""Which of the units where an entry fits below the level: the first, the one with the least slack left below its level,
or the one with the most level slack per token of room."""

NO_CAPACITY = 1 << 62


def place_workspace(num_samples: int, ranks: int, bins_per_rank: int, num_budgets: int, num_groups: int) -> int:
    """Bytes of workspace that `place` needs; the twin needs none."""
    return 0


def place(
    tokens: Any,  # IN int64[N], positive
    cost: Any,  # IN int64[N], not negative
    count: Any,  # IN int32[N]: samples that one entry stands for, or int32[0]: one each
    footprints: Any,  # IN int64[N, B]
    forbid: Any,  # IN int64[N], or int64[0]: none
    group: Any,  # IN int32[N]: entries of one group (0 .. num_groups - 1) share a rank, -1: no group; or int32[0]
    num_groups: int,
    order: Any,  # IN int32[N]: the order of placement
    capacity: Any,  # IN int64[K]; NO_CAPACITY: no cap
    budgets: Any,  # IN int64[B]
    pad_cost: Any,  # IN int64[max capacity + 1], or int64[0]: none
    ranks: int,
    bins_per_rank: int,
    levels: Any,  # IN int64[K]: what each bin's load should not exceed; or int64[R]: each rank's. At most 2**62
    max_items: int,  # 0: no limit
    oversized_single: bool,
    rule: int,
    may_overflow: bool,
    bin_of: Any,  # OUT int32[N]
    loads: Any,  # OUT int64[K], of the bins, pad cost included; only where all entries are placed
    workspace: Any,  # OUT uint8[place_workspace(...)]
) -> int:
    """Places entries one after the other and returns how many it could place (N: all of them).

    A unit is what has a level, a bin or a rank. Among the bins that keep every limit, the first of these sets that is
    not empty is taken, and in it the smallest key:

    1. bins where the unit's load stays at or below its level: by `rule` the key is the unit; (slack left below the
       level, unit); or (level slack / tokens of room in the unit, descending, both before placing, unit);
    2. all of them: (excess of the unit's load over its level, unit);
    3. with `may_overflow`, bins within which the entry alone would fit, whatever else they hold, that keep every limit
       but the capacity: (tokens of room, descending).

    Keys of 1 and 2 go on with: empty bins first, capacity left after placing, bin; those of 3 with the bin. Entries
    open empty bins as soon as no more entries are left than empty bins, and entries that share ranks also while there
    is an empty bin on their rank (on any rank before the first of them is placed), so that no bin stays empty.
    """
    num_bins, num_samples = ranks * bins_per_rank, len(order)
    padded, grouped = len(pad_cost) > 0, len(group) > 0
    slots = num_bins // len(levels)
    capacities = [int(c) for c in capacity]
    unused = list(capacities)
    pack_load = [int(pad_cost[c]) if padded else 0 for c in unused]
    slack = [int(levels[u]) - sum(pack_load[u * slots : (u + 1) * slots]) for u in range(len(levels))]
    items = [0] * num_bins
    used = [[0] * len(budgets) for _ in range(num_bins)]
    value = [-1] * num_bins
    home = [-1] * num_groups
    empty = num_bins

    def added(bin_index: int, sample: int) -> int:
        left, more = unused[bin_index], int(cost[sample])
        if padded:
            more += int(pad_cost[max(0, left - int(tokens[sample]))]) - int(pad_cost[max(0, left)])
        return more

    def fits_but_for_tokens(bin_index: int, sample: int) -> bool:
        if any(u + int(f) > int(b) for u, f, b in zip(used[bin_index], footprints[sample], budgets, strict=True)):
            return False
        if max_items and items[bin_index] + (int(count[sample]) if len(count) else 1) > max_items:
            return False
        return not (len(forbid) and items[bin_index] and value[bin_index] != int(forbid[sample]))

    def has_room(bin_index: int, sample: int) -> bool:
        length, samples = int(tokens[sample]), int(count[sample]) if len(count) else 1
        alone = oversized_single and items[bin_index] == 0 and samples == 1 and length > capacities[bin_index]
        return length <= unused[bin_index] or alone

    def rule_key(unit: int, left: int) -> tuple[Fraction, int]:
        if rule == FIRST_FIT:
            return Fraction(0), unit
        if rule == BEST_FIT:
            return Fraction(left), unit
        room = min(NO_CAPACITY, sum(max(0, u) for u in unused[unit * slots : (unit + 1) * slots]))
        return -Fraction(slack[unit], max(1, room)), unit

    for position in range(num_samples):
        sample = int(order[position])
        length = int(tokens[sample])
        at_home = home[int(group[sample])] if grouped and int(group[sample]) >= 0 else -1
        allowed = range(at_home * bins_per_rank, (at_home + 1) * bins_per_rank) if at_home >= 0 else range(num_bins)
        must_open = num_samples - position <= empty or (grouped and any(items[b] == 0 for b in allowed))
        below, above, over = [], [], []
        for bin_index in allowed:
            if (must_open and items[bin_index]) or not fits_but_for_tokens(bin_index, sample):
                continue
            if not has_room(bin_index, sample):
                if may_overflow and length <= capacities[bin_index]:
                    over.append((-unused[bin_index], bin_index))
                continue
            unit = bin_index // slots
            left = slack[unit] - added(bin_index, sample)
            room_left = 0 if capacities[bin_index] == NO_CAPACITY else max(0, unused[bin_index] - length)
            within = items[bin_index] > 0, room_left, bin_index
            if left >= 0:
                below.append((*rule_key(unit, left), *within))
            else:
                above.append((-left, unit, *within))
        chosen = min(below or above or over, default=(-1,))[-1]
        if chosen < 0:
            return position
        more = added(chosen, sample)
        empty -= items[chosen] == 0
        unused[chosen] -= length
        pack_load[chosen] += more
        slack[chosen // slots] -= more
        items[chosen] += int(count[sample]) if len(count) else 1
        used[chosen] = [u + int(f) for u, f in zip(used[chosen], footprints[sample], strict=True)]
        if len(forbid):
            value[chosen] = int(forbid[sample])
        if grouped and int(group[sample]) >= 0:
            home[int(group[sample])] = chosen // bins_per_rank
        bin_of[sample] = chosen
    loads[:] = pack_load
    return num_samples
