"""Plain-Python specification of repair under all limits at once: what is left out is placed at the cost of others."""

from __future__ import annotations

from typing import Any

from packing._reference._relieve_layout import Layout

_SHUFFLES, _TRADES = 16, 32
"""Exchanges tried after a step that helped nothing; one such step in so many is followed by two bins that change
places."""


def relieve_workspace(num_entries: int, num_bins: int, num_budgets: int, num_groups: int) -> int:
    """Bytes of workspace that `relieve` needs; the twin needs none."""
    return 0


def relieve(
    weight: Any,  # IN int64[E], positive, descending
    tokens: Any,  # IN int64[E]
    count: Any,  # IN int32[E]: samples that one entry stands for, or int32[0]: one each
    footprints: Any,  # IN int64[E, B]
    forbid: Any,  # IN int64[E], or int64[0]: none
    group: Any,  # IN int32[E]: entries of one group (0 .. num_groups - 1) share a rank, -1: none; or int32[0]
    num_groups: int,
    capacity: Any,  # IN int64[K]
    budgets: Any,  # IN int64[B]
    space: Any,  # IN int64[K]: weight that every bin can hold, about
    ranks: int,
    bins_per_rank: int,
    max_items: int,  # 0: no limit
    rank_items: int,  # most samples of a rank, 0: no limit
    oversized_single: bool,
    max_checks: int,
    bin_of: Any,  # IN and OUT int32[E]: any layout; -1: left out
    workspace: Any,  # OUT uint8[relieve_workspace(E, K, B, num_groups)]
) -> tuple[int, int]:
    """Returns (entries that are left out plus empty bins, the checks that were made): 0 for a layout that keeps all
    limits.

    What is placed always keeps every limit; of the layout handed in, what does not fit, in the order of the entries, is
    left out. Then the entry that was left out last is placed: where it fits, else where the entries that must leave for
    it have the smallest sum of penalties. An entry's penalty is its weight, and that much more after every time that
    it did not fit. The weights and `max_checks` must keep their product below 2**61.
    """
    num_entries, num_bins = len(weight), ranks * bins_per_rank
    if num_entries < num_bins:
        return num_bins, 0
    unlimited = 1 << 62
    layout = Layout(
        weight=[int(w) for w in weight],
        amount=[
            [int(tokens[i]), int(count[i]) if len(count) else 1, *(int(f) for f in footprints[i])]
            for i in range(num_entries)
        ],
        forbid=[int(k) for k in forbid] if len(forbid) else [0] * num_entries,
        group=[int(g) for g in group] if len(group) else [-1] * num_entries,
        limit=[[int(c), max_items or unlimited, *(int(b) for b in budgets)] for c in capacity],
        slack=[int(s) for s in space],
        slots=bins_per_rank,
        rank_room=[rank_items or unlimited] * ranks,
        counts_ranks=rank_items > 0,
        oversized_single=oversized_single,
    )
    layout.start([int(b) for b in bin_of])
    while layout.checks < max_checks and layout.violations():
        if not layout.left_out:
            _fill_empty(layout)
            continue
        entry = layout.left_out.pop()
        if not _place(layout, entry):
            _replace(layout, entry)
    bin_of[:] = layout.bin_of
    return layout.violations(), layout.checks


def _place(layout: Layout, entry: int) -> bool:
    """Into the bin with the least slack, or with the most for the first one of a group; False where none takes it."""
    home = layout.home(entry)
    bins = layout.bins_of(home) if home >= 0 else range(len(layout.members))
    layout.checks += 1 + len(bins) // 4
    opens = home < 0 and layout.group[entry] >= 0
    sign = -1 if opens else 1
    fitting = [(sign * layout.slack[b], b) for b in bins if layout.takes(entry, b)]
    if fitting:
        layout.put(entry, min(fitting)[1])
    return bool(fitting)


def _replace(layout: Layout, entry: int) -> None:
    """Places an entry at the cost of others; where they cost as much, what is placed is disturbed a little."""
    layout.penalty[entry] += layout.weight[entry]
    best = _find_place(layout, entry)
    if best is None:
        layout.left_out.append(entry)
    else:
        _, b, leaving = best
        if layout.home(entry) not in (-1, b // layout.slots):
            layout.eject_group(entry)
        for other in leaving:
            layout.eject(other)
        layout.put(entry, b)
        if best[0] < layout.weight[entry]:
            return
    for _ in range(_SHUFFLES):
        _shuffle(layout)
    if len(layout.members) > 1 and layout.draw(_TRADES) == 0:
        _trade(layout)


def _find_place(layout: Layout, entry: int) -> tuple[int, int, list[int]] | None:
    """What must leave for the entry at the least cost, bins being looked at in turn until that is ENOUGH."""
    home, until = layout.home(entry), layout.checks + layout.enough
    away = sum(layout.penalty[other] for other in layout.placed_of_group(entry)) if home >= 0 else 0
    best: tuple[int, int, list[int]] | None = None
    for _ in range(len(layout.members)):
        b = layout.turn
        layout.turn = (layout.turn + 1) % len(layout.members)
        extra = 0 if home in (-1, b // layout.slots) else away
        limit = best[0] if best is not None else 1 << 62
        if extra == 0 or extra < limit:
            found = layout.cheapest(entry, b, extra, limit)
            best = found if found is not None else best
        if best is not None and layout.checks > until:
            break
    return best


def _shuffle(layout: Layout) -> None:
    """Swaps two entries of different bins, or moves one to the other's bin, where every limit allows it."""
    x, y = layout.draw(len(layout.weight)), layout.draw(len(layout.weight))
    p, q = layout.bin_of[x], layout.bin_of[y]
    layout.checks += 2
    if p < 0 or q < 0 or p == q or layout.forbid[x] != layout.forbid[y]:
        return
    far = p // layout.slots != q // layout.slots
    more = layout.amount[x][1] - layout.amount[y][1]
    if far and (layout.is_bound(x) or layout.is_bound(y)):
        return
    most, least = layout.rank_room[q // layout.slots], -layout.rank_room[p // layout.slots]
    if far and layout.counts_ranks and not least <= more <= most:
        return
    alone = [len(layout.members[b]) == 1 for b in (p, q)]
    if layout.within(x, y, q, alone[1]) and layout.within(y, x, p, alone[0]):
        layout.take_out(x)
        layout.take_out(y)
        layout.put(x, q)
        layout.put(y, p)
    elif not alone[0] and not (far and layout.counts_ranks) and layout.within(x, None, q, False):
        layout.take_out(x)
        layout.put(x, q)


def _trade(layout: Layout) -> None:
    """Two bins change places with all that they hold, or two ranks where a group needs it; some then do not fit."""
    num_bins, slots = len(layout.members), layout.slots
    p, q = layout.draw(num_bins), layout.draw(num_bins - 1)
    q += q >= p
    pairs = [(p, q)]
    bound = any(layout.is_bound(entry) for b in (p, q) for entry in layout.members[b])
    if p // slots != q // slots and bound:
        pairs = list(zip(layout.bins_of(p // slots), layout.bins_of(q // slots), strict=True))
    moves = []
    for one, other in pairs:
        moves += [(entry, other) for entry in layout.members[one]]
        moves += [(entry, one) for entry in layout.members[other]]
    layout.checks += len(moves)
    for entry, _ in moves:
        layout.take_out(entry)
    for entry, b in moves:
        if layout.may_join(entry, b):
            layout.put(entry, b)
        else:
            layout.left_out.append(entry)


def _fill_empty(layout: Layout) -> None:
    """Moves an entry that is drawn at random into the first empty bin, if it may; others of its group are left out."""
    b = next(i for i, members in enumerate(layout.members) if not members)
    entry = layout.draw(len(layout.weight))
    layout.checks += 1 + b // 4
    source = layout.bin_of[entry]
    if len(layout.members[source]) < 2:
        return
    near = source // layout.slots == b // layout.slots
    if not near and not layout.takes(entry, b):
        return
    layout.take_out(entry)
    if near and not layout.takes(entry, b):
        layout.left_out.append(entry)
        return
    if not near and layout.home(entry) >= 0:
        layout.eject_group(entry)
    layout.put(entry, b)
