"""Terms of lower bounds on the largest rank load: what holds for every rank, and what holds under caps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from packing._bound_fill import CheapestFill, least_padding, padding_item, spare
from packing._bound_terms import Term, ceiling, large_samples, shared_by_several, shared_rank
from packing._checks import Int64Array
from packing.problem import Problem

__all__ = ["Placed", "beside", "fewest_on_a_rank", "largest_load_terms", "least_fill", "least_of", "placed"]

_MOST_TOGETHER = 96
"""Longest samples whose ranks are looked at together, at most: their number squared is what it takes."""

_MOST_KINDS = 16
"""Kinds that never share a bin are looked at one by one up to this number."""


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """What is placed as one, E of them: samples, or groups that stay together; and what a cost counts for it."""

    cost: Int64Array
    tokens: Int64Array
    footprints: Int64Array | None
    forbid: Int64Array | None
    most: int  # samples in the largest of them


def placed(problem: Problem, cost: Int64Array, *, on_rank: bool) -> Placed:
    """The samples of the problem with these costs; groups that share a bin (`on_rank`: or a rank) are one."""
    group = problem.group
    if group is None or not (on_rank or problem.group_scope == "bin"):
        return Placed(cost, problem.tokens, problem.footprints, problem.forbid, 1)
    alone = group < 0
    labels = np.where(alone, group.max(initial=0) + 1 + np.arange(group.size), group)
    _, first, entry_of = np.unique(labels, return_index=True, return_inverse=True)

    def total(values: Int64Array) -> Int64Array:
        sums = np.zeros((first.size, *values.shape[1:]), np.int64)
        np.add.at(sums, entry_of, values)
        return sums

    footprints = None if problem.footprints is None else total(problem.footprints)
    one_kind = problem.forbid is not None and problem.group_scope == "bin"
    kinds = problem.forbid[first] if one_kind and problem.forbid is not None else None
    return Placed(total(cost), total(problem.tokens), footprints, kinds, int(np.bincount(entry_of).max()))


def largest_load_terms(problem: Problem, cost: Int64Array, reached: int | None, effort: int) -> Iterator[Term]:
    """Lower bounds on the largest sum of `cost` on one rank, the cheap ones first; pad cost counts with the own cost.

    Args:
        cost: int64[N], the problem's or one component. reached: the largest load of a known layout, or None.
        effort: 0 leaves out what takes more than sorting.
    """
    ranks = problem.ranks
    own = cost is problem.cost
    total = int(cost.sum()) + (least_padding(problem) if own else 0)
    mean = Term(ceiling(total, ranks), "mean", "the mean load: perfectly equal work")
    yield mean
    items = placed(problem, cost, on_rank=True)
    longest = int(items.cost.max(initial=0))
    what = "group" if items.cost is not cost else "sample"
    yield Term(longest, "longest_sample", f"the longest {what}: some rank must take it")
    best = max(mean.score, longest)
    ascending = np.sort(items.cost)
    shared = shared_rank(ascending[::-1], ranks)
    yield shared
    best = max(best, shared.score)
    for term in _with_company(problem, cost):
        yield term
        best = max(best, term.score)
    if problem.bins_per_rank is not None:
        for term in _filled_ranks(problem, items, own, best):
            yield term
            best = max(best, term.score)
    if effort < 1 or (reached is not None and best >= reached):
        return
    if problem.bins_per_rank == 1 and problem.forbid is not None:
        yield _kinds_apart(problem, cost)
    yield shared_by_several(ascending[::-1], ranks)
    yield large_samples(ascending, ranks, best, 2 * best if reached is None else reached)


def fewest_on_a_rank(problem: Problem) -> tuple[int, str, str]:
    """How many samples every rank holds at least, with the name and the reason of what asks for it."""
    ranks, slots, count = problem.ranks, problem.bins_per_rank or 1, problem.num_samples
    if problem.equal_count and count % ranks == 0:
        return count // ranks, "equal_count", "every rank has the same number"
    least = [(slots, "full_bins", "no bin may be empty")]
    if problem.max_items is not None and problem.bins_per_rank is not None:
        elsewhere = (ranks - 1) * slots * problem.max_items
        least.append((count - elsewhere, "max_items", f"`max_items` leaves the other ranks {elsewhere} samples"))
    return max(least, key=lambda one: one[0])


def least_of(cost: Int64Array, count: int) -> int:
    """The sum of the `count` cheapest."""
    return int(np.partition(cost, count - 1)[:count].sum()) if count > 0 else 0


def _with_company(problem: Problem, cost: Int64Array) -> Iterator[Term]:
    """The longest sample and the cheapest ones that its rank must hold as well, because each rank holds so many."""
    count, name, reason = fewest_on_a_rank(problem)
    if not 1 < count <= cost.size:
        return
    company = least_of(cost, count - 1)
    why = f"the rank of the longest sample takes {count - 1} more ({reason}), at best the cheapest"
    yield Term(int(cost.max()) + company, name, why)


def _filled_ranks(problem: Problem, items: Placed, own: bool, best: int) -> Iterator[Term]:
    """A sample and the cheapest fill to what its rank must hold, because the others hold no more than their caps."""
    left, one_bin = spare(problem), problem.bins_per_rank == 1
    if left is not None:
        needs = beside(problem, items.tokens, problem.bins_per_rank or 1, left)
        tokens, cost = items.tokens, items.cost
        if own and one_bin and problem.pad_cost is not None and isinstance(problem.capacity, int):
            needs, tokens, cost = _with_padding(problem, items, left)
        # A cheapest fill costs no more per token than all of them: most steps need no sorting to see that it is less.
        if items.forbid is not None or _at_mean_price(items.cost, needs, tokens, cost) > best:
            values = items.cost + least_fill(items, needs, tokens, cost, apart=one_bin)
            why = "its rank also takes the tokens for which the others have no room, at best the cheapest"
            yield Term(int(values.max()), "cheapest_fill", f"the longest sample: {why}")
        if isinstance(problem.capacity, int):
            if one_bin:
                yield _several_filled(problem, items, left, best)
            yield _several_ranks_filled(problem, items, left, best)
    if items.footprints is not None and problem.budgets is not None:
        slots = problem.bins_per_rank or 1
        for b, budget in enumerate(problem.budgets.tolist()):
            use = items.footprints[:, b]
            need = int(use.sum()) - (problem.ranks - 1) * slots * budget
            if need > 0:
                values = items.cost + least_fill(items, need - use, use, items.cost, apart=one_bin)
                why = f"its rank also takes of budget {problem.budget_names[b]!r} what the others have no room for"
                yield Term(int(values.max()), "cheapest_fill", why)


def _at_mean_price(
    start: Int64Array, needs: Int64Array, units: Int64Array, cost: Int64Array, number: Int64Array | int = 1
) -> float:
    """An upper bound on the largest (start + cheapest fill of the need) / number, a shade too high."""
    price = float(cost.sum()) / max(1.0, float(units.sum()))
    return float(((start + np.maximum(needs, 0) * price) / number).max()) * (1 + 2.0**-40) + 1


def beside(problem: Problem, tokens: Int64Array, slots: int, left: int) -> Int64Array:
    """int64, as `tokens`: what a group of `slots` bins must hold besides the entry that it has.

    All other bins hold at most their caps, so these hold all but what is spare (`left`). Where capacities differ, the
    smallest that has room for the entry is the one that must hold least.
    """
    if isinstance(problem.capacity, int):
        # Samples over the cap may take up to slots - 1 of the bins, and count for nothing there.
        bins = 1 if problem.is_oversized().any() else slots
        return bins * problem.capacity - left - tokens
    sizes = np.sort(problem.capacities().reshape(-1, slots).sum(axis=1))
    at = np.minimum(np.searchsorted(sizes, tokens, "left"), sizes.size - 1)
    needs: Int64Array = sizes[at] - left - tokens
    return needs


def least_fill(items: Placed, needs: Int64Array, units: Int64Array, cost: Int64Array, *, apart: bool) -> Int64Array:
    """int64[E], the cheapest fill of each need; `apart`: out of samples that may share a bin with the entry."""
    if not (needs > 0).any():
        return np.zeros_like(items.cost)
    if not apart or items.forbid is None:
        return CheapestFill.of(units, cost).least(needs)
    kinds, kind_of = np.unique(items.forbid, return_inverse=True)
    if kinds.size > _MOST_KINDS:
        return CheapestFill.of(units, cost).least(needs)
    least = np.zeros_like(items.cost)
    extra = np.arange(items.cost.size, units.size)  # padding, which goes with every kind
    for kind in range(kinds.size):
        own = np.flatnonzero(kind_of == kind)
        members = np.concatenate([own, extra])
        least[own] = CheapestFill.of(units[members], cost[members]).least(needs[own])
    return least


def _with_padding(problem: Problem, items: Placed, left: int) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Needs up to the whole capacity, filled with samples or with unused tokens at their cheapest rate."""
    assert isinstance(problem.capacity, int)
    needs = problem.capacity - items.tokens
    if left <= 0 or problem.is_oversized().any():
        return needs - left, items.tokens, items.cost
    padding = padding_item(problem, left)
    return needs, np.append(items.tokens, left), np.append(items.cost, padding)


def _several_filled(problem: Problem, items: Placed, left: int, best: int) -> Term:
    """The mean load of the packs of the q longest samples of which no two fit into one, filled as cheaply as can be."""
    assert isinstance(problem.capacity, int)
    apart = np.flatnonzero((items.tokens > problem.capacity // 2) & (items.tokens <= problem.capacity))
    if apart.size < 2 or problem.is_oversized().any():
        return Term(0, "cheapest_fill", "")
    apart = apart[np.argsort(-items.cost[apart], kind="stable")]
    number = np.arange(1, apart.size + 1)
    needs = number * problem.capacity - left - np.cumsum(items.tokens[apart])
    if _at_mean_price(np.cumsum(items.cost[apart]), needs, items.tokens, items.cost, number) <= best:
        return Term(0, "cheapest_fill", "")
    sums = np.cumsum(items.cost[apart]) + CheapestFill.of(items.tokens, items.cost).least(needs)
    means = -(-sums // number)
    at = int(np.argmax(means))
    why = f"the {at + 1} longest samples have a bin each, and with these also what the others have no room for"
    return Term(int(means[at]), "cheapest_fill", why)


def _several_ranks_filled(problem: Problem, items: Placed, left: int, best: int) -> Term:
    """The mean load of the ranks of the q costliest samples, filled as cheaply as can be.

    These samples lie on some number r of ranks, at most q of them, and on no fewer than their tokens need. Whatever r
    is, the r ranks also hold the tokens for which the other ranks have no room: the smallest mean over all r is proven.
    """
    assert isinstance(problem.capacity, int)
    if problem.is_oversized().any():
        return Term(0, "cheapest_fill", "")
    rank_capacity, most = (problem.bins_per_rank or 1) * problem.capacity, min(_MOST_TOGETHER, problem.ranks)
    costliest = np.argsort(-items.cost, kind="stable")[:most]
    costs, tokens = np.cumsum(items.cost[costliest]), np.cumsum(items.tokens[costliest])
    number = np.arange(1, costliest.size + 1)
    needs = number * rank_capacity - left - tokens
    if _at_mean_price(costs, needs, items.tokens, items.cost, number) <= best:
        return Term(0, "cheapest_fill", "")
    samples, ranks = np.tril_indices(number.size)  # of q = samples + 1 on r = ranks + 1
    possible = tokens[samples] <= number[ranks] * rank_capacity
    samples, ranks = samples[possible], ranks[possible]
    fill = CheapestFill.of(items.tokens, items.cost).least(number[ranks] * rank_capacity - left - tokens[samples])
    means = -(-(costs[samples] + fill) // number[ranks])
    proven = np.full(number.size, np.iinfo(np.int64).max)
    np.minimum.at(proven, samples, means)
    proven[proven == np.iinfo(np.int64).max] = 0
    at = int(np.argmax(proven))
    why = f"the ranks of the {at + 1} longest samples also take what the others have no room for, at best the cheapest"
    return Term(int(proven[at]), "cheapest_fill", why)


def _kinds_apart(problem: Problem, cost: Int64Array) -> Term:
    """The smallest load L for which the kinds that never share a bin need no more than R bins of load L each."""
    assert problem.forbid is not None
    kind_of = np.unique(problem.forbid, return_inverse=True)[1]
    sums = np.zeros(int(kind_of.max(initial=-1)) + 1, np.int64)
    np.add.at(sums, kind_of, cost)
    totals, low, high = sums.tolist(), 1, int(sums.max(initial=1))
    while low < high:
        load = (low + high) // 2
        if sum(max(1, ceiling(total, load)) for total in totals) > problem.ranks:
            low = load + 1
        else:
            high = load
    enough = sum(max(1, ceiling(total, low)) for total in totals) <= problem.ranks
    why = f"{len(totals)} kinds of samples never share a bin, and each bin has work of one kind"
    return Term(low if enough and max(totals) > 0 else 0, "kinds", why)
