"""A well-behaved plugin: two algorithms and an estimator, all as text."""

from __future__ import annotations

from packing.plugin import AlgorithmSpec, EstimatorSpec, hookimpl

OBJECTIVES = {"makespan", "balance", "rounds"}


@hookimpl
def packing_algorithms(host):
    return [
        AlgorithmSpec(
            "snake",
            "good_one_parts:Snake",
            capabilities={"capacity", "multi_bin"} | OBJECTIVES,
            summary="dealt out forth and back",
        ),
        AlgorithmSpec("needy", "good_one_parts:Needy", capabilities={"capacity"}),
        AlgorithmSpec("focused", "good_one_parts:Focused"),
        AlgorithmSpec("made", "good_one_parts:make_snake"),
    ]


@hookimpl
def packing_estimators(host):
    yield EstimatorSpec("words", "good_one_parts:Words", summary="cost = number of words")
