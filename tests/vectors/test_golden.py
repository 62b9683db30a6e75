"""`lpt` and `feasible_lpt` return exactly what the golden vectors say, resolved by name as in a trainer."""

from __future__ import annotations

import numpy as np
import pytest

from packing.assignment import Assignment
from packing.objectives import get_objective
from packing.problem import Problem
from packing.registry import resolve_algorithm
from tests.conftest import golden_vectors, vectors_file


def problem_of(vector: dict) -> tuple[Problem, list[int]]:
    """The problem, and the position in the vector of each of its samples (problems are in key order)."""
    samples = vector["samples"]
    order = sorted(range(len(samples["key"])), key=lambda i: samples["key"][i])
    index_of = {position: index for index, position in enumerate(order)}
    budgets = vector["packing_budgets"] or {}
    pad_cost = None
    if vector["padding"] is not None:
        linear, quadratic = vector["padding"]
        pad_cost = [linear * t + quadratic * t * t for t in range(vector["seq_len"] + 1)]
    problem = Problem(
        tokens=[samples["tokens"][i] for i in order],
        cost=np.asarray([samples["cost"][i] for i in order]),
        ranks=vector["data_parallel_size"],
        bins_per_rank=vector["local_batch_size"],
        capacity=vector["seq_len"],
        footprints=[[samples["packing_costs"][i][name] for name in budgets] for i in order] if budgets else None,
        budgets=list(budgets.values()) if budgets else None,
        budget_names=tuple(budgets),
        objective=vector["options"]["objective"],
        pad_cost=pad_cost,
        oversized=vector["oversized_policy"],
        reference=Assignment.from_bins([[index_of[i] for i in members] for members in vector["reference_bins"]]),
    )
    return problem, order


@pytest.mark.skipif(not vectors_file().exists(), reason="the golden vectors are not here")
def test_there_are_vectors():
    algorithms = {vector["algorithm"] for vector in golden_vectors()}
    assert algorithms
    assert algorithms <= {"lpt", "feasible_lpt"}


@pytest.mark.parametrize("vector", golden_vectors(), ids=lambda vector: vector["name"])
def test_the_layout_is_the_golden_one(vector):
    problem, order = problem_of(vector)
    layout = resolve_algorithm({"name": vector["algorithm"]} | vector["options"]).instance.assign(problem)
    if layout is None:
        assert vector["kept_reference"]
        layout = problem.reference
    assert [[order[index] for index in members] for members in layout.to_bins()] == vector["expected_bins"]

    objective = get_objective(vector["options"]["objective"])
    for name, chosen in (("objective_before", problem.reference), ("objective_after", layout)):
        loads = chosen.sums(problem.cost)
        score = objective.score(loads, problem.ranks, problem.bins_per_rank, problem.round_size)
        assert objective.value(score) == pytest.approx(vector[name], rel=1e-12, abs=1e-15)
