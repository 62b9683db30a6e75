"""Plain-Python specification of greedy (LPT) placement under caps."""

from __future__ import annotations

from typing import Any

LOAD_BEFORE, MAKESPAN_AFTER, BALANCE_AFTER, ROUNDS_AFTER = 0, 1, 2, 3
"""What a bin is scored by: its rank's load before placing, or an objective of all loads as it would be after."""

NO_CAPACITY = 1 << 62


def place_workspace(num_samples: int, ranks: int, bins_per_rank: int, num_budgets: int, num_groups: int) -> int:
    """Bytes of workspace that `place` needs; the twin needs none."""
    return 0


def place(
    tokens: Any,  # IN int64[N]
    cost: Any,  # IN int64[N]
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
    round_size: int,
    max_items: int,  # 0: no limit
    oversized_single: bool,
    score: int,
    bin_of: Any,  # OUT int32[N]
    workspace: Any,  # OUT uint8[place_workspace(...)]
) -> int:
    """Places entries one after the other, each into the bin with the smallest (score, capacity left after placing,
    tokens of the rank, rank, slot), and returns how many it could place (N: all of them).

    While a bin is empty, entries may only open empty bins, so that none stays empty: without groups these are the
    first K. Only an entry whose group is at home on a rank without an empty bin may join others, as long as enough
    entries are left for the empty ones.
    """
    num_bins, num_samples = ranks * bins_per_rank, len(order)
    padded, grouped = len(pad_cost) > 0, len(group) > 0
    unused = [int(c) for c in capacity]
    pack_load = [int(pad_cost[c]) if padded else 0 for c in unused]
    rank_load = [sum(pack_load[r * bins_per_rank : (r + 1) * bins_per_rank]) for r in range(ranks)]
    rank_tokens = [0] * ranks
    items = [0] * num_bins
    used = [[0] * len(budgets) for _ in range(num_bins)]
    value = [-1] * num_bins
    home = [-1] * num_groups
    empty = num_bins

    def pad_change(bin_index: int, length: int) -> int:
        left = unused[bin_index]
        return int(pad_cost[max(0, left - length)]) - int(pad_cost[max(0, left)]) if padded else 0

    def fits(bin_index: int, sample: int) -> bool:
        length, samples = int(tokens[sample]), int(count[sample]) if len(count) else 1
        alone = oversized_single and items[bin_index] == 0 and samples == 1 and length > int(capacity[bin_index])
        if length > unused[bin_index] and not alone:
            return False
        if any(u + int(f) > int(b) for u, f, b in zip(used[bin_index], footprints[sample], budgets, strict=True)):
            return False
        if max_items and items[bin_index] + samples > max_items:
            return False
        return not (len(forbid) and items[bin_index] and value[bin_index] != int(forbid[sample]))

    def score_after(bin_index: int, more: int) -> int:
        rank = bin_index // bins_per_rank
        if score == LOAD_BEFORE:
            return rank_load[rank]
        if score == ROUNDS_AFTER:
            loads = [*pack_load[:bin_index], pack_load[bin_index] + more, *pack_load[bin_index + 1 :]]
            return sum(sorted(loads, reverse=True)[::round_size])
        loads = [*rank_load[:rank], rank_load[rank] + more, *rank_load[rank + 1 :]]
        if score == MAKESPAN_AFTER:
            return max(loads)
        total = sum(loads)
        if total == 0:
            return 0
        return ((ranks * sum(load * load for load in loads) - total * total) << 60) // (total * total)

    for position in range(num_samples):
        sample = int(order[position])
        length = int(tokens[sample])
        at_home = home[int(group[sample])] if grouped and int(group[sample]) >= 0 else -1
        home_bins = range(at_home * bins_per_rank, (at_home + 1) * bins_per_rank) if at_home >= 0 else range(num_bins)
        must_open = num_samples - position <= empty or any(items[b] == 0 for b in home_bins)
        best: tuple[int, int, int, int] | None = None
        for bin_index in range(num_bins):
            rank = bin_index // bins_per_rank
            if (must_open and items[bin_index]) or (at_home >= 0 and rank != at_home) or not fits(bin_index, sample):
                continue
            more = int(cost[sample]) + pad_change(bin_index, length)
            left = 0 if int(capacity[bin_index]) == NO_CAPACITY else max(0, unused[bin_index] - length)
            key = (score_after(bin_index, more), left, rank_tokens[rank], bin_index)
            if best is None or key < best:
                best = key
        if best is None:
            return position
        chosen = best[3]
        rank = chosen // bins_per_rank
        more = int(cost[sample]) + pad_change(chosen, length)
        empty -= items[chosen] == 0
        unused[chosen] -= length
        pack_load[chosen] += more
        rank_load[rank] += more
        rank_tokens[rank] += min(length, int(capacity[chosen]))
        items[chosen] += int(count[sample]) if len(count) else 1
        used[chosen] = [u + int(f) for u, f in zip(used[chosen], footprints[sample], strict=True)]
        if len(forbid):
            value[chosen] = int(forbid[sample])
        if grouped and int(group[sample]) >= 0:
            home[int(group[sample])] = rank
        bin_of[sample] = chosen
    return num_samples
