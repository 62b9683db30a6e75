"""Lower bounds: what no layout can beat, with the name of the bound that binds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from packing._bound_fill import least_padding
from packing._bound_loads import largest_load_terms
from packing._bound_objectives import component_terms, pipeline_terms, round_terms
from packing._bound_terms import Term
from packing._fixed_point import exact_sum
from packing.problem import Problem

__all__ = ["Bound", "fewest_bins_per_rank", "lower_bound"]


@dataclass(frozen=True, slots=True)
class Bound:
    """A proven lower bound on the objective's score; under `balance`, on the largest rank load.

    Attributes:
        score: the bound, an exact integer in the unit of the objective's scores (for a load, that of the costs).
        name: what binds: "mean", "longest_sample", "shared_rank", "shared_ranks", "large_samples", "equal_count",
            "full_bins", "max_items", "cheapest_fill", "kinds", "levels", "largest_pack", "components" or "no_samples".
        explanation: the same in a sentence.
        floor: what the bound makes of the ideal, perfectly equal packs: score / ideal, at least 1.
    """

    score: int
    name: str
    explanation: str
    floor: float


def lower_bound(problem: Problem, *, reached: int | None = None, effort: int = 1) -> Bound:
    """The best proven lower bound, and which one binds.

    Every term is a proof, for the objective and all limits of the problem. Under `balance` the bound is on the largest
    load. Terms are tried from the cheapest on, and no further than a layout has come: what is proven does not depend on
    `reached`, because no bound is above the score of a layout.

    Args:
        problem: where its number of bins is open, the bound holds for every number.
        reached: the score (under `balance` the largest rank load) of a valid layout; where a cheap term proves that
            nothing is better, the costly ones are left out.
        effort: 0 leaves out terms that take more than sorting the samples.
    """
    if problem.num_samples == 0:
        return Bound(0, "no_samples", "there is no work to balance", 1.0)
    best = Term(-1, "", "")
    for term in _terms(problem, reached, effort):
        best = term if term.score > best.score else best
        if reached is not None and best.score >= reached:
            break
    if best.score == 0:
        return Bound(0, "mean", "there is no work to balance", 1.0)
    ideal = _ideal(problem)
    floor = max(1.0, float(best.score / ideal)) if ideal else 1.0
    than = "equal packs" if problem.objective.name == "pipeline" else "the mean"
    why = best.why if best.name == "mean" else f"{best.why}: no layout can do better than {floor:.4g}x {than}"
    return Bound(best.score, best.name, why, floor)


def _terms(problem: Problem, reached: int | None, effort: int) -> Iterator[Term]:
    objective = problem.objective
    if objective.name == "rounds":
        return round_terms(problem, effort)
    if objective.name == "pipeline":
        return pipeline_terms(problem, reached, effort)
    if objective.name == "components" and problem.components is not None:
        return component_terms(problem, reached, effort)
    return largest_load_terms(problem, problem.cost, reached, effort)


def _ideal(problem: Problem) -> Fraction:
    """The score of perfectly equal packs, if costs could be cut, with the least padding."""
    total, slots, objective = (
        int(problem.cost.sum()) + least_padding(problem),
        problem.bins_per_rank or 1,
        problem.objective,
    )
    if objective.name == "rounds":
        assert problem.round_size is not None
        return Fraction(total, problem.round_size)
    return Fraction(total, problem.ranks) * Fraction(slots + objective.stages - 1, slots)


def _per_bin(problem: Problem, budget: int, total: int) -> str:
    assert problem.budgets is not None
    amounts = (problem.budget_amount(budget, amount) for amount in (total, int(problem.budgets[budget])))
    return f"budget {problem.budget_names[budget]!r}: {' at '.join(amounts)} a bin"


def fewest_bins_per_rank(problem: Problem) -> tuple[int, str]:
    """A lower bound on the number of bins per rank, and what asks for it in words."""
    needs = [(1, "no bin may be empty")]
    if problem.capacity is not None:
        capacity = int(np.max(problem.capacity))
        oversized = problem.is_oversized()
        alone = int(oversized.sum())
        tokens = np.where(oversized, 0, problem.tokens)
        total = exact_sum(tokens)
        needs.append((alone, f"{alone} samples over {capacity} tokens, each alone in a bin"))
        needs.append((alone + -(-total // capacity), f"{total} tokens at {capacity} a bin"))
        large = int((tokens > capacity // 2).sum())
        needs.append(
            (alone + large, f"{alone + large} samples over half of {capacity} tokens, each in a bin of its own")
        )
        if problem.forbid is not None:
            kinds = np.unique(problem.forbid, return_inverse=True)[1]
            sums = np.zeros(int(kinds.max(initial=-1)) + 1, np.int64)
            np.add.at(sums, kinds, tokens)
            bins = alone + int((-(-sums // capacity)).sum())
            needs.append((bins, f"{sums.size} kinds of samples that never share a bin"))
    elif problem.forbid is not None:
        kinds = np.unique(problem.forbid)
        needs.append((kinds.size, f"{kinds.size} kinds of samples that never share a bin"))
    if problem.footprints is not None and problem.budgets is not None:
        for b, budget in enumerate(problem.budgets.tolist()):
            total = exact_sum(problem.footprints[:, b])
            if budget > 0:
                needs.append((-(-total // budget), _per_bin(problem, b, total)))
                large = int((problem.footprints[:, b] > budget // 2).sum())
                why = f"{large} samples over half of budget {problem.budget_names[b]!r}, each in a bin of its own"
                needs.append((large, why))
    if problem.max_items is not None:
        bins = -(-problem.num_samples // problem.max_items)
        needs.append((bins, f"{problem.num_samples} samples at `max_items` = {problem.max_items} a bin"))
    bins, why = max(needs, key=lambda one: one[0])
    return -(-bins // problem.ranks), why
