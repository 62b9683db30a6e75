"""Instances that every algorithm is asked for: the boundaries by name, and seeded random ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from packing.objectives import OBJECTIVE_NAMES, get_objective
from packing.plugin import Assignment, Problem

__all__ = ["DIFFICULTIES", "Instance", "boundary_instances", "instances", "missing_capabilities"]

DIFFICULTIES = ("easy", "hard", "impossible")
"""Easy: any layout with equal counts in all bins fits. Hard: one may or may not be found. Impossible: there is none."""


_PARAMETERS: dict[str, dict[str, Any]] = {
    "pipeline": {"stages": 4},
    "components": {"weights": {"encoder": 1, "llm": 1}},
}


@dataclass(frozen=True, slots=True, eq=False)
class Instance:
    """A problem with a name.

    Attributes:
        name: how messages and declarations refer to it.
        problem: what `assign` is asked.
        difficulty: one of `DIFFICULTIES`.
    """

    name: str
    problem: Problem
    difficulty: str

    def fresh(self) -> Problem:
        """The problem with arrays of its own, so that nobody can spoil it for the next one who asks."""
        reference = self.problem.reference
        if reference is not None:
            reference = Assignment(reference.offsets.copy(), reference.items.copy())
        return dataclasses.replace(self.problem, reference=reference)

    def under(self, objective: str) -> Instance | None:
        """The same instance with another objective; its name says so unless that is "makespan".

        None where the objective does not go together with what the instance has: `components` with a pad cost.
        """
        problem = self.problem
        components = None
        if objective == "components":
            if problem.pad_cost is not None:
                return None
            # Every third sample costs the encoder half of its work, so that the components balance differently.
            encoder = np.where(np.arange(problem.num_samples) % 3 == 0, problem.cost // 2, 0)
            components = np.stack([encoder, problem.cost - encoder], axis=1)
        setting = {"name": objective, **_PARAMETERS.get(objective, {})}
        problem = dataclasses.replace(problem, objective=get_objective(setting), components=components)
        name = self.name if objective == "makespan" else f"{self.name}_{objective}"
        return Instance(name, problem, self.difficulty)


def missing_capabilities(problem: Problem, capabilities: frozenset[str]) -> frozenset[str]:
    """What the problem needs and the capabilities do not declare; who names no objective takes any."""
    needs = problem.needs()
    # "rounds" is also the feature of several rounds in one step, so alone it does not name an objective.
    if not capabilities & (set(OBJECTIVE_NAMES) - {"rounds"}):
        needs -= {problem.objective.name}
    return needs - capabilities


def instances(seed: int = 0) -> list[Instance]:
    """All instances: the boundaries, and random ones for every feature of a `Problem`; the same for the same seed."""
    return [*boundary_instances().values(), *_random_instances(np.random.default_rng(seed))]


def boundary_instances() -> dict[str, Instance]:
    """The instances on which algorithms break first, by name."""
    return {one.name: one for one in (*_shapes(), *_caps(), *_single_features())}


def _instance(name: str, difficulty: str, tokens: Any, ranks: int, cost: Any = None, **limits: Any) -> Instance:
    """Cost, unless given, has a quadratic term: equal tokens are not equal work."""
    lengths = np.asarray(tokens, np.int64)
    work = lengths * (lengths + 64) if cost is None else cost
    return Instance(name, Problem(tokens=lengths, cost=work, ranks=ranks, **limits), difficulty)


def _shapes() -> Iterator[Instance]:
    """Counts and values at their limits, without caps."""
    yield _instance("fewer_samples_than_bins", "impossible", [5, 3, 9], 4)
    yield _instance("as_many_samples_as_bins", "easy", [5, 3, 9, 7], 4)
    yield _instance("one_sample", "easy", [7], 1)
    yield _instance("one_rank", "easy", [9, 1, 4, 4, 2, 8, 3], 1)
    yield _instance("one_giant", "easy", [1, 2, 10_000, 3, 1, 2, 4, 1], 4)
    yield _instance("all_equal", "easy", [17] * 16, 4)
    yield _instance("zero_cost", "easy", [3, 8, 5, 1, 9, 2, 6, 4, 7, 3, 5, 8], 4, cost=[0] * 12)
    yield _instance("zero_cost_but_one", "easy", [3, 8, 5, 1, 9, 2, 6, 4], 4, cost=[0, 0, 0, 0, 7, 0, 0, 0])
    yield _instance("uneven_count", "easy", [9, 7, 5, 3, 2, 8, 6, 4, 1, 9, 5, 7, 3], 4)
    yield _instance("large_costs", "easy", range(1, 9), 4, cost=[(1 << 58) - i for i in range(8)])
    word_edges = [63, 64, 65, 127, 128, 129, 1, 64]
    yield _instance("word_edges", "easy", word_edges, 4)
    yield _instance("word_edges_capped", "easy", word_edges, 4, capacity=2 * 129)


def _caps() -> Iterator[Instance]:
    """Sums exactly at the cap, and one token beside it."""
    for capacity in (63, 64, 65):
        yield _instance(f"bins_full_at_{capacity}", "easy", [capacity] * 4, 4, capacity=capacity)
        halves = [capacity // 2, capacity - capacity // 2] * 4
        yield _instance(f"pairs_full_at_{capacity}", "hard", halves, 4, capacity=capacity)
    full = [40, 24, 33, 31, 50, 14, 20, 30, 14, 62, 1, 1]  # five bins of 64, in order
    yield _instance("exactly_full", "hard", full, 5, capacity=64)
    yield _instance("one_under", "hard", [39, *full[1:]], 5, capacity=64)
    yield _instance("one_over", "impossible", [41, *full[1:]], 5, capacity=64)
    # No sum tells: two fours fit into eleven, but not three.
    yield _instance("one_sample_too_many", "impossible", [4] * 5, 2, capacity=11)
    yield _instance("longer_than_the_cap", "impossible", [65, 3, 4, 5], 2, capacity=64)
    yield _instance("giant_at_the_cap", "hard", [64, 9, 8, 7, 6, 5, 4, 3], 4, capacity=64)
    yield _instance("different_capacities", "hard", [60, 30, 16, 8, 7, 3], 3, capacity=np.asarray([16, 64, 48]))


def _single_features() -> Iterator[Instance]:
    """Features whose smallest form has one answer."""
    yield _instance("oversized_alone", "easy", [5, 90, 7, 64], 4, capacity=64, oversized="single")
    yield _instance("oversized_among_others", "hard", [5, 90, 7, 9, 3, 4], 3, capacity=64, oversized="single")
    yield _instance("never_together", "easy", [5, 9, 7, 3], 4, forbid=[3, 1, 2, 0])
    yield _instance("never_together_impossible", "impossible", [5, 9, 7, 3], 2, forbid=[0, 1, 2, 2])
    yield _instance("group_over_the_cap", "impossible", [9, 9, 3, 3], 2, capacity=16, group=[0, 0, 1, 1])
    yield _instance("full_budget", "easy", [5, 9, 7], 3, footprints=[[4], [4], [4]], budgets=[4])
    yield _instance("budget_one_over", "impossible", [5, 9, 7], 2, footprints=[[4], [4], [4]], budgets=[7])
    yield _instance("one_item_each", "easy", [5, 9, 7], 3, max_items=1)
    yield _instance("one_item_too_many", "impossible", [5, 9, 7, 2], 3, max_items=1)
    yield _instance("equal_count_impossible", "impossible", [5, 9, 7, 2, 4], 2, equal_count=True)


def _lengths(generator: np.random.Generator, count: int) -> npt.NDArray[np.int64]:
    """Heavy-tailed, in random order."""
    return np.clip(generator.lognormal(3.5, 1.0, count).astype(np.int64), 1, 1000)


def _random_instances(generator: np.random.Generator) -> Iterator[Instance]:
    lengths = _lengths(generator, 48)
    longest, total = int(lengths.max()), int(lengths.sum())
    roomy = 6 * longest  # six samples in each of eight bins always fit
    tight = max(longest, -(-total * 103 // (100 * 8)))
    eight: dict[str, Any] = {"ranks": 8, "capacity": roomy}
    two_each: dict[str, Any] = {"ranks": 4, "bins_per_rank": 2, "capacity": roomy}
    yield _instance("random_uncapped", "easy", _lengths(generator, 64), 8)
    yield _instance("random", "easy", lengths, **eight)
    yield _instance("random_tight", "hard", lengths, 8, capacity=tight)
    few = _lengths(generator, 16)
    yield _instance("random_few", "easy", few, 8, capacity=2 * int(few.max()))
    yield _instance("random_multi_bin", "easy", lengths, **two_each)
    yield _instance("random_multi_bin_uncapped", "easy", lengths, 4, bins_per_rank=2)
    yield _instance("random_multi_bin_tight", "hard", lengths, 4, bins_per_rank=2, capacity=tight)
    yield _instance("random_rounds", "easy", lengths, **eight, round_size=4)
    yield _instance("random_rounds_multi_bin", "easy", lengths, **two_each, round_size=2)
    yield from _random_limits(generator, lengths, roomy, eight, two_each)
    dealt = Assignment.from_bin_of(np.arange(48) % 8, 8)
    yield _instance("random_reference", "easy", lengths, **eight, reference=dealt)
    yield _instance("random_open", "easy", lengths, 4, bins_per_rank=None, capacity=2 * longest)
    yield _instance("random_open_tight", "hard", lengths, 4, bins_per_rank=None, capacity=longest)


def _random_limits(
    generator: np.random.Generator,
    lengths: npt.NDArray[np.int64],
    roomy: int,
    eight: dict[str, Any],
    two_each: dict[str, Any],
) -> Iterator[Instance]:
    """48 samples in eight bins, under one further limit each."""
    footprints = generator.integers(0, 50, (48, 2))
    largest, sums = footprints.max(axis=0), footprints.sum(axis=0)
    yield _instance("random_budgets", "easy", lengths, **eight, footprints=footprints, budgets=6 * largest)
    tight = np.maximum(largest, -(-sums * 110 // (100 * 8)))
    yield _instance("random_budgets_tight", "hard", lengths, **eight, footprints=footprints, budgets=tight)
    unused = np.arange(roomy + 1)
    yield _instance("random_pad_cost", "easy", lengths, **eight, pad_cost=unused * (unused + 8))
    yield _instance("random_max_items", "easy", lengths, **eight, max_items=6)
    yield _instance("random_equal_count", "easy", lengths, **eight, equal_count=True)
    yield _instance("random_equal_count_multi_bin", "easy", lengths, **two_each, equal_count=True)
    pairs = np.arange(48) // 2
    some_pairs = np.where(np.arange(48) % 16 < 12, pairs, -1)
    yield _instance("random_group", "easy", lengths, **eight, group=some_pairs)
    yield _instance("random_group_rank", "easy", lengths, **two_each, group=pairs, group_scope="rank")
    yield _instance("random_group_rank_mixed", "hard", lengths, **two_each, group=some_pairs, group_scope="rank")
    yield _instance("random_never_together", "hard", lengths, **eight, forbid=generator.integers(0, 3, 48))
