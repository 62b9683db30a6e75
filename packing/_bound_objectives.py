"""Terms of lower bounds for objectives other than the largest load: rounds, pipeline, components."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from packing._bound_fill import CheapestFill, least_padding, spare
from packing._bound_loads import Placed, beside, fewest_on_a_rank, largest_load_terms, least_fill, least_of, placed
from packing._bound_prices import priced_rounds
from packing._bound_terms import Term, ceiling, shared_rank
from packing._checks import Int64Array
from packing.partition import descending_order
from packing.problem import Problem

__all__ = ["component_terms", "pipeline_terms", "round_heads", "round_terms"]

_MOST_SHARING = 8
"""Samples of which at most p fit into one pack are counted up to this p."""


def round_terms(problem: Problem, effort: int) -> Iterator[Term]:
    """Lower bounds on the sum, over rounds of g packs sorted by load, of the largest load in each."""
    assert problem.round_size is not None
    total = int(problem.cost.sum()) + least_padding(problem)
    yield Term(ceiling(total, problem.round_size), "mean", "the mean load: every rank works all the time")
    if problem.bins_per_rank is None:
        longest = int(placed(problem, problem.cost, on_rank=False).cost.max(initial=0))
        yield Term(longest, "longest_sample", "the longest sample: some round must take it")
        return
    yield _levels(problem, problem.round_size, total)
    rounds = problem.ranks * problem.bins_per_rank // problem.round_size
    if effort and rounds > 1 and problem.max_capacity is not None and not problem.is_oversized().any():
        items = placed(problem, problem.cost, on_rank=False)
        heads = round_heads(problem, items, problem.round_size, rounds)
        score = priced_rounds(items.cost, items.tokens, problem.max_capacity, problem.round_size, heads)
        yield Term(score, "levels", "the longest samples take rounds of their own, whose packs hold little else")


def pipeline_terms(problem: Problem, reached: int | None, effort: int) -> Iterator[Term]:
    """Lower bounds on the largest, over ranks, of the sum of its packs and P - 1 times its largest pack."""
    if problem.bins_per_rank is None:  # of ever more packs the largest may be ever smaller: only the load is certain
        yield from largest_load_terms(problem, problem.cost, reached, effort)
        return
    slots, more = problem.bins_per_rank, problem.objective.stages - 1
    # Some rank has the load L, and of its M packs one holds at least an M-th part of it.
    load_reached = None if reached is None else ceiling(reached * slots, slots + more)
    for term in largest_load_terms(problem, problem.cost, load_reached, effort):
        yield Term(term.score + more * ceiling(term.score, slots), term.name, term.why)
    if slots == 1 or more == 0:
        return
    items = placed(problem, problem.cost, on_rank=False)
    in_pack, on_rank = _filled(problem, items, 1), _filled(problem, items, slots)
    company = least_of(problem.cost, fewest_on_a_rank(problem)[0] - items.most)
    # Which entry binds is a matter of taste, so huge loads may be cut here; the score below is exact.
    most = (1 << 61) // more
    scores = np.minimum(np.maximum(on_rank, items.cost + company), 1 << 61) + more * np.minimum(in_pack, most)
    at = int(np.argmax(scores))
    exact = max(int(on_rank[at]), int(items.cost[at]) + company) + more * int(in_pack[at])
    yield Term(exact, "longest_sample", "the longest sample: its rank also waits P - 1 times for its pack")
    # Ranks times the mean over ranks: the largest packs of the ranks sum to no less than the firsts of
    # every M packs, sorted by load.
    total = int(problem.cost.sum()) + least_padding(problem)
    largest = _levels(problem, slots, total).score
    why = "the mean over the ranks, each of which waits P - 1 times for its largest pack"
    yield Term(ceiling(total + more * largest, problem.ranks), "largest_pack", why)


def component_terms(problem: Problem, reached: int | None, effort: int) -> Iterator[Term]:
    """Lower bounds on the sum over the components of the largest rank load in each."""
    assert problem.components is not None
    names = [name for name, _ in problem.objective.weights]
    columns = [np.ascontiguousarray(column) for column in problem.components.T]
    means = sum(ceiling(int(column.sum()), problem.ranks) for column in columns)
    yield Term(means, "mean", "the mean load in each component: perfectly equal work")
    longest = sum(max(ceiling(int(column.sum()), problem.ranks), int(column.max(initial=0))) for column in columns)
    yield Term(longest, "longest_sample", "the longest sample of a component: some rank must take it")
    best = []
    for column in columns:
        terms = largest_load_terms(problem, column, None, effort)
        best.append(max(terms, key=lambda term: term.score))
    why = "; ".join(f"{name}: {term.why}" for name, term in zip(names, best, strict=True))
    yield Term(sum(term.score for term in best), "components", why)
    yield from largest_load_terms(problem, problem.cost, reached, effort)


def _filled(problem: Problem, items: Placed, slots: int) -> Int64Array:
    """int64[E]: what the group of `slots` bins (a pack, or a rank) that holds an entry costs at least."""
    left = spare(problem)
    if left is None:
        return items.cost
    needs = beside(problem, items.tokens, slots, left)
    filled: Int64Array = items.cost + least_fill(items, needs, items.tokens, items.cost, apart=slots == 1)
    return filled


def _levels(problem: Problem, size: int, total: int) -> Term:
    """The level bound on the packs, sorted by load, in rounds of `size`.

    With S the loads in descending order, S[r * size] is at least a level m_r (see `round_heads`), and the loads from
    there on sum to at least a rest F_r (see `_rests`). Let A_r be the sum of S[r * size], S[(r + 1) * size], ...: it is
    at least F_r / size, because no load of a round is above its first, and at least m_r + A_(r+1), where m_r is also no
    less than the mean of the later ones. A_0 is the objective.
    """
    items = placed(problem, problem.cost, on_rank=False)
    rounds = (problem.ranks * (problem.bins_per_rank or 1)) // size
    heads, rests = round_heads(problem, items, size, rounds), _rests(problem, items, size, rounds, total)
    later = 0
    for r in range(rounds - 1, -1, -1):
        level = max(heads[r], ceiling(later, rounds - r - 1)) if r < rounds - 1 else heads[r]
        later = max(level + later, ceiling(rests[r], size))
    if rounds == 1:
        return Term(later, "longest_sample", "the longest sample's pack, filled as cheaply as the caps allow")
    why = "the longest samples take rounds of their own, and the other rounds are not empty"
    if problem.capacity is not None:
        why = "the longest samples take rounds of their own, filled as cheaply as the caps allow"
    return Term(later, "levels", why)


def round_heads(problem: Problem, items: Placed, size: int, rounds: int) -> list[int]:
    """For each round a lower bound on the load of its first pack, that is on the (r * size + 1)-th largest load.

    Where at most p of some samples fit into a pack, the p * r * size + 1 costliest of them lie in more than r * size
    packs, each of which costs at least what the pack of the cheapest of these does. And the costliest samples of all
    packs, none of which is empty, are K different ones.
    """
    num_bins = rounds * size
    starts = np.arange(rounds) * size
    values = _filled(problem, items, 1)
    ascending = np.sort(items.cost)
    heads = np.zeros(rounds, np.int64)
    if items.cost.size >= num_bins:
        heads = ascending[num_bins - 1 - starts]
    heads[0] = max(int(values.max(initial=0)), shared_rank(ascending[::-1], num_bins).score)
    sharing = range(1, _MOST_SHARING + 1) if problem.capacity is not None else range(0)
    order = descending_order(values)
    values, tokens = values[order], items.tokens[order]
    groups = [(p, values[tokens > (problem.max_capacity or 0) // (p + 1)]) for p in sharing]
    if problem.max_items is not None and problem.max_items < 1 << 31:
        groups.append((problem.max_items, values))
    for p, descending in groups:
        places = starts * p
        inside = places < descending.size
        heads[inside] = np.maximum(heads[inside], descending[places[inside]])
    listed: list[int] = heads.tolist()
    return listed


def _rests(problem: Problem, items: Placed, size: int, rounds: int, total: int) -> list[int]:
    """For each round a lower bound on the sum of the loads from its first pack on.

    They hold all tokens (and samples) that the r * size packs before them have no room for, at best the cheapest, and
    one sample each at least. Of all packs together the sum is known.
    """
    starts = np.arange(rounds) * size
    ascending = np.concatenate(([0], np.cumsum(np.sort(problem.cost))))
    count = problem.num_samples
    least = np.minimum(rounds * size - starts, count)
    if problem.max_items is not None and problem.max_items < 1 << 31:
        least = np.maximum(least, count - starts * problem.max_items)
    rests = ascending[least]
    if spare(problem) is not None:
        fitting = ~problem.is_oversized()
        tokens, cost = problem.tokens[fitting], problem.cost[fitting]
        largest = np.concatenate(([0], np.cumsum(np.sort(problem.capacities())[::-1])))
        needs = int(tokens.sum()) - largest[starts]
        rests = np.maximum(rests, CheapestFill.of(tokens, cost).least(needs))
    rests[0] = total
    listed: list[int] = rests.tolist()
    return listed
