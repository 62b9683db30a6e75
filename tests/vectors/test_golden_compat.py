"""The golden vectors once more, through the record protocol: shuffled records with keys in, bins of keys out."""

from __future__ import annotations

import random

import pytest

from packing import PackingConstraints, SampleKey, SampleMetadata, WorkloadCost
from packing.compat.hyper_parallel import (
    DynamicPackingPlanner,
    FeasibleLPTBalancingAlgorithm,
    LPTBalancingAlgorithm,
    resolve_balancing_algorithm,
)
from tests.conftest import golden_vectors, vectors_file

CLASSES = {"lpt": LPTBalancingAlgorithm, "feasible_lpt": FeasibleLPTBalancingAlgorithm}


class Step:
    """One vector as a trainer hands it in."""

    def __init__(self, vector: dict) -> None:
        columns = vector["samples"]
        self.keys = [SampleKey(*key) for key in columns["key"]]
        self.records = [
            SampleMetadata(pack_tokens=tokens, cost=WorkloadCost(llm=cost, io=1.0), packing_costs=uses, key=key)
            for key, tokens, cost, uses in zip(
                self.keys, columns["tokens"], columns["cost"], columns["packing_costs"], strict=True
            )
        ]
        self.cost_of = dict(zip(self.keys, columns["cost"], strict=True))
        self.reference = self.bins(vector["reference_bins"])
        self.expected = self.bins(vector["expected_bins"])
        self.ranks, self.slots = vector["data_parallel_size"], vector["local_batch_size"]
        self.constraints = PackingConstraints(
            vector["seq_len"], vector["oversized_policy"], vector["packing_budgets"] or None
        )
        random.Random(vector["name"]).shuffle(self.records)

    def bins(self, positions: list[list[int]]) -> list[list[SampleKey]]:
        return [[self.keys[position] for position in members] for members in positions]

    def rank_costs(self, bins: list[list[SampleKey]]) -> list[WorkloadCost]:
        """Of each rank, without padding."""
        loads = [sum(self.cost_of[key] for key in members) for members in bins]
        slots = self.slots
        return [WorkloadCost(llm=sum(loads[first : first + slots])) for first in range(0, len(loads), slots)]


def padding_of(vector: dict):
    if vector["padding"] is None:
        return None
    linear, quadratic = vector["padding"]
    return lambda unused: linear * unused + quadratic * unused * unused


@pytest.mark.skipif(not vectors_file().exists(), reason="the golden vectors are not here")
def test_there_are_vectors():
    algorithms = {vector["algorithm"] for vector in golden_vectors()}
    assert algorithms
    assert algorithms <= set(CLASSES)


@pytest.mark.parametrize("vector", golden_vectors(), ids=lambda vector: vector["name"])
def test_the_bins_of_keys_are_the_golden_ones(vector):
    step = Step(vector)
    algorithm = CLASSES[vector["algorithm"]](**vector["options"], padding_cost=padding_of(vector))
    bins = algorithm.assign(
        step.records,
        reference_bins=step.reference,
        constraints=step.constraints,
        data_parallel_size=step.ranks,
        local_batch_size=step.slots,
    )
    assert bins == step.expected
    assert (bins == step.reference) is vector["kept_reference"]
    for name, layout in (("objective_before", step.reference), ("objective_after", bins)):
        score = algorithm.objective(step.rank_costs(layout))
        assert score == pytest.approx(vector[name], rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("vector", golden_vectors()[::5], ids=lambda vector: vector["name"])
def test_the_planner_takes_the_golden_bins_where_they_are_better(vector):
    step = Step(vector)
    algorithm = resolve_balancing_algorithm({"name": vector["algorithm"]} | vector["options"])
    algorithm.padding_cost = padding_of(vector)
    planner = DynamicPackingPlanner(
        data_parallel_size=step.ranks,
        seq_len=vector["seq_len"],
        local_batch_size=step.slots,
        algorithm=algorithm,
        oversized_policy=vector["oversized_policy"],
        packing_budgets=vector["packing_budgets"],
    )
    result = planner.plan(step.records, step.reference)
    assert result.bins == (step.expected if result.decision.accepted else step.reference)
    if vector["padding"] is None:
        better = vector["objective_after"] < vector["objective_before"] * (1 - 1e-12)
        assert result.decision.accepted is better
        assert result.decision.before == pytest.approx(vector["objective_before"], rel=1e-12, abs=1e-15)
        assert result.decision.after == pytest.approx(vector["objective_after"], rel=1e-12, abs=1e-15)
