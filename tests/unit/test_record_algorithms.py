"""Record-style algorithms of third parties, unchanged, through the planner."""

from __future__ import annotations

import math
import random
import re

import numpy as np
import pytest

from packing import (
    AuditError,
    ConfigError,
    NoCandidateError,
    PackingConstraints,
    Planner,
    PluginError,
    Problem,
    SampleKey,
    SampleMetadata,
    UnsupportedProblemError,
    WorkloadCost,
)
from packing.compat.hyper_parallel import (
    FeasibleLPTBalancingAlgorithm,
    LPTBalancingAlgorithm,
)
from packing.registry import resolve_algorithm
from tests.record_style import COSTS, Returns, Scores, Snake, contiguous, key, planner_of, records

# ------------------------------------------------------------------------------------- third parties in the planner


def test_a_third_partys_class_works_unchanged():
    samples = records(COSTS)
    plan = planner_of(Snake).plan(samples, contiguous(samples, 2))
    assert plan.keys() == [[key(0), key(3), key(4), key(7)], [key(1), key(2), key(5), key(6)]]
    assert plan.rank_loads.tolist() == [18, 18]
    assert plan.algorithm.endswith(":Snake")
    assert (plan.decision.accepted, plan.decision.before, plan.decision.after) == (True, 26, 18)


@pytest.mark.parametrize("form", ["records", "keyless records", "lengths", "columns"])
def test_every_form_of_samples_reaches_it(form):
    samples = {
        "records": records(COSTS),
        "keyless records": [SampleMetadata(cost, WorkloadCost(llm=cost)) for cost in COSTS],
        "lengths": COSTS,
        "columns": {"length": COSTS, "cost": COSTS, "key": np.arange(8)},
    }[form]
    plan = planner_of(Snake()).plan(samples)
    assert plan.bins() == ([[0, 3, 4, 7], [1, 2, 5, 6]])
    assert plan.decision.before is None


def test_the_users_own_records_are_handed_on():
    seen = {}

    class Looks(Snake):
        def assign(self, samples, *, reference_bins, constraints, data_parallel_size, local_batch_size):
            seen.update(locals())
            return super().assign(
                samples,
                reference_bins=reference_bins,
                constraints=constraints,
                data_parallel_size=data_parallel_size,
                local_batch_size=local_batch_size,
            )

    samples = [
        SampleMetadata(cost, WorkloadCost(llm=cost / 7, encoder=3), f"s{cost}", {"a": 1}, {"images": 2}, key(cost))
        for cost in COSTS
    ]
    reference = contiguous(samples, 4)
    planner = planner_of(Looks(), local_batch_size=2, packing_budgets={"images": 6})
    planner.plan(samples, reference)
    assert sorted(map(id, seen["samples"])) == sorted(map(id, samples))
    assert [one.key for one in seen["samples"]] == sorted(one.key for one in samples)
    assert seen["reference_bins"] == reference
    assert seen["constraints"] == PackingConstraints(30, "error", {"images": 6})
    assert (seen["data_parallel_size"], seen["local_batch_size"]) == (2, 2)

    planner_of(Looks(), ranks=4, seq_len=32, alignment=8, estimator=lambda one: 5).plan(samples)
    assert {(one.pack_tokens, one.cost.llm, one.cost.encoder) for one in seen["samples"]} == {(8, 5, 3)}
    assert {one.features["a"] for one in seen["samples"]} == {1}


def test_fractional_budgets_are_those_of_the_audit():
    """An algorithm that fills bins by `constraints.fits` is never told afterwards that they overflow."""
    uses = [0.02, 0.11, 0.87] * 40  # 1 at most, but above it when each is rounded up to the audit's unit

    class NextFit(Snake):
        def assign(self, samples, *, reference_bins, constraints, data_parallel_size, local_batch_size):
            bins = [[]]
            for sample in samples:
                if not constraints.fits([*bins[-1], sample]):
                    bins.append([])
                bins[-1].append(sample)
            while len(bins) < data_parallel_size:
                bins.append([max(bins, key=len).pop()])
            return [[sample.key for sample in members] for members in bins]

    samples = [SampleMetadata(5, WorkloadCost(llm=1.5), None, {}, {"m": use}, key(at)) for at, use in enumerate(uses)]
    planner = planner_of(NextFit(), ranks=60, seq_len=None, packing_budgets={"m": 1.0})
    plan = planner.plan(samples)
    constraints = PackingConstraints(None, "error", {"m": 1.0})
    by_key = {sample.key: sample for sample in samples}
    assert all(constraints.fits([by_key[one] for one in members]) for members in plan.keys() or [[]])


def test_input_order_does_not_matter():
    samples = records([random.Random(3).randint(1, 99) for _ in range(40)])
    planner = planner_of(Snake(), ranks=4, seq_len=2000)
    reference = contiguous(samples, 4)
    digest = planner.plan(samples, reference).digest
    for seed in range(4):
        shuffled = random.Random(seed).sample(samples, len(samples))
        assert planner.plan(shuffled, reference).digest == digest


def _dropping(bins):
    return [bins[0][:-1], *bins[1:]]


def _repeating(bins):
    return [bins[0] + bins[1][:1], *bins[1:]]


def _all_in_one(bins):
    return [[one for members in bins for one in members][:-1], [bins[-1][-1]]]


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (_dropping, "is in no bin"),
        (_repeating, "occurs 2 times, in bins [0, 1]"),
        (_all_in_one, "exceed the capacity 20"),
        (lambda bins: [*bins, []], "the layout has 3 bins instead of 2"),
        (lambda bins: [bins[0] + bins[1], []], "bin 1 is empty"),
        (lambda bins: [bins[0], [*bins[1][:-1], SampleKey(9, 9, 9)]], "but no sample has that key"),
        (lambda bins: [bins[0], [*bins[1][:-1], 3]], "put 3 into bin 1, which is no SampleKey"),
        (lambda bins: [bins[0], [*bins[1][:-1], []]], "put [] into bin 1, which is no SampleKey"),
        (lambda bins: [bins[0], "ab"], "returned 'ab' as bin 1, which is no sequence of keys"),
        (lambda bins: [bins[0], 5], "returned 5 as bin 1, which is no sequence of keys"),
        (lambda bins: "garbage", "must return a sequence of bins or None, but returned 'garbage'"),
        (lambda bins: 42, "must return a sequence of bins or None, but returned 42"),
        (lambda bins: {"a": bins}, "must return a sequence of bins or None, but returned {'a'"),
    ],
)  # fmt: skip
def test_a_broken_contract_is_named(made, message):
    samples = records(COSTS)
    planner = planner_of(Returns(made), seq_len=20)
    reference = [[key(0), key(3), key(6), key(7)], [key(1), key(2), key(4), key(5)]]
    with pytest.raises(AuditError, match=re.escape(message)) as caught:
        planner.plan(samples, reference)
    assert "Returns' broke its contract" in str(caught.value)


def test_what_it_raises_is_passed_on():
    def fails(bins):
        raise ZeroDivisionError("theirs")

    with pytest.raises(ZeroDivisionError, match=r"^theirs") as caught:
        Planner(data_parallel_size=2, algorithm=Returns(fails)).plan(COSTS)
    assert caught.value.__notes__ == ["raised by algorithm 'tests.record_style:Returns'"]


def test_it_may_find_nothing():
    samples = records(COSTS)
    planner = planner_of(Returns(lambda bins: None))
    plan = planner.plan(samples, contiguous(samples, 2))
    assert plan.keys() == contiguous(samples, 2)
    assert not plan.decision.accepted
    with pytest.raises(NoCandidateError, match="found no layout of 8 samples in 2 bins of 30 tokens"):
        planner.plan(samples)


def test_without_a_reference_it_gets_the_baseline_if_that_is_valid():
    planner = planner_of(Returns(lambda bins: bins), seq_len=26)
    assert planner.plan(COSTS).bins() == [[0, 3, 4, 7], [1, 2, 5, 6]]
    tight = planner_of(Snake(), seq_len=20)
    with pytest.raises(
        ConfigError, match=r"^`reference_bins` must be given, because `algorithm` .*:Snake' starts from"
    ):
        tight.plan(COSTS)
    turned = planner_of(Snake(), seq_len=20, baseline="round_robin")
    assert turned.plan(COSTS).bins() == [[0, 3, 4, 7], [1, 2, 5, 6]]


# ------------------------------------------------------------------------------------------------------------ the gate


def test_the_gate_uses_the_objects_own_objective():
    samples = records(COSTS)
    reference = contiguous(samples, 2)
    seen = []

    def constant(rank_costs):
        seen.append([cost.llm for cost in rank_costs])
        return 5.0

    plan = planner_of(Scores(constant)).plan(samples, reference)
    assert sorted(seen) == [[18, 18], [26, 10]]
    assert not plan.decision.accepted
    assert plan.keys() == reference

    upside_down = Scores(lambda rank_costs: 1000 - max(cost.llm for cost in rank_costs))
    assert not planner_of(upside_down).plan(samples, reference).decision.accepted


@pytest.mark.parametrize(("least", "accepted"), [(0.24, True), (0.25, False), (0.26, False)])
def test_the_gain_must_be_strictly_above(least, accepted):
    samples = records(COSTS)
    scores = Scores(lambda rank_costs: 4.0 if rank_costs[0].llm > 20 else np.float32(3.0))
    planner = planner_of(scores, min_balance_gain=least)
    decision = planner.plan(samples, contiguous(samples, 2)).decision
    assert (decision.accepted, decision.before, decision.after) == (accepted, 4.0, 3.0)


@pytest.mark.parametrize("value", [math.nan, -1.0, math.inf, "low", None, True, [3.0], 1j])
def test_an_objective_that_is_no_score_is_the_plugins_fault(value):
    samples = records(COSTS)
    planner = planner_of(Scores(value))
    message = re.escape(f"must return a finite number of at least 0, but returned {value!r}.")
    with pytest.raises(PluginError, match=message):
        planner.plan(samples, contiguous(samples, 2))


def test_rank_costs_hold_every_stage_and_the_padding():
    seen = []

    class Padded(Scores):
        def padding_cost(self, unused):
            return unused / 4

    algorithm = Padded(lambda rank_costs: seen.append(rank_costs) or 1.0)
    samples = [
        SampleMetadata(length, WorkloadCost(io=0.1, llm=length / 10, memory=2**-40), key=key(at))
        for at, length in enumerate((3, 5, 4, 11))
    ]
    plan = planner_of(algorithm, seq_len=16).plan(samples, contiguous(samples, 2))
    assert seen[-1] == [
        WorkloadCost(io=0.2, llm=math.fsum([0.3, 0.5, 8 / 4]), memory=2**-39),
        WorkloadCost(io=0.2, llm=math.fsum([0.4, 1.1, 1 / 4]), memory=2**-39),
    ]
    assert plan.rank_loads.max() == pytest.approx(2.8)  # the planner's own loads have the padding as well


# ------------------------------------------------------------------------------------------------- what can be set


def test_an_objective_must_be_there():
    class NoObjective:
        def assign(self, samples, *, reference_bins, **settings):
            return reference_bins

    with pytest.raises(PluginError, match=r"NoObjective' has an `assign` that takes `reference_bins`, so it must also"):
        Planner(data_parallel_size=2, algorithm=NoObjective())


def test_the_signature_decides_and_not_the_class():
    assert resolve_algorithm(Snake()).record_style
    assert resolve_algorithm(LPTBalancingAlgorithm).record_style
    assert not resolve_algorithm("lpt").record_style

    class Held:
        """Its `assign` is a callable object that cannot be hashed."""

        class Unhashable(Snake):
            __hash__ = None
            __call__ = Snake.assign

        assign, objective = Unhashable(), Snake().objective

    assert resolve_algorithm(Held).record_style
    assert planner_of(Held).plan(COSTS).bins() == [[0, 3, 4, 7], [1, 2, 5, 6]]

    class Both(Snake):
        def assign(self, problem):
            return resolve_algorithm("kk").instance.assign(problem)

    assert not resolve_algorithm(Both()).record_style
    assert Planner(data_parallel_size=2, algorithm=Both()).plan(COSTS).rank_loads.tolist() == [18, 18]


@pytest.mark.parametrize("size", [1, 2, 4])
def test_a_group_size_that_divides_is_fine(size):
    algorithm = Snake()
    algorithm.objective_group_size = size
    assert Planner(data_parallel_size=4, algorithm=algorithm).plan(COSTS).ranks == 4
    assert Planner(data_parallel_size=2, window=2, algorithm=algorithm).plan(COSTS).ranks == 4


def test_a_group_size_that_does_not_divide_is_refused():
    algorithm = Snake()
    algorithm.objective_group_size = 3
    with pytest.raises(ConfigError, match=r"^`objective_group_size` must divide the 4 ranks, but got 3\.$"):
        Planner(data_parallel_size=4, algorithm=algorithm).plan(COSTS)
    algorithm.objective_group_size = True
    with pytest.raises(ConfigError, match=r"^`objective_group_size` must be a positive integer, but got True\.$"):
        Planner(data_parallel_size=4, algorithm=algorithm).plan(COSTS)


@pytest.mark.parametrize(
    ("cost", "message"),
    [
        (lambda unused: -unused, "`padding_cost` must be finite and non-negative, but got -1 at index 1."),
        (lambda unused: math.nan, "`padding_cost` must be finite and non-negative, but got nan at index 0."),
        (lambda unused: "much", "`padding_cost` must hold numbers, but got 'much' at index 0."),
    ],
)
def test_a_padding_cost_that_is_none(cost, message):
    algorithm = Snake()
    algorithm.padding_cost = cost
    with pytest.raises(ConfigError, match=re.escape(message)):
        planner_of(algorithm)
    samples = records(COSTS)
    with pytest.raises(ConfigError, match=re.escape(message)):
        LPTBalancingAlgorithm(padding_cost=cost).assign(
            samples, reference_bins=None, constraints=PackingConstraints(30), data_parallel_size=2, local_batch_size=1
        )


def test_settings_that_contradict_the_object():
    algorithm = Snake()
    with pytest.raises(ConfigError, match=r"^`objective` must be None, because `algorithm` .*, but got 'balance'\.$"):
        Planner(data_parallel_size=2, algorithm=algorithm, objective="balance")
    with pytest.raises(UnsupportedProblemError, match="`pad_cost`"):
        planner_of(algorithm, padding_cost={"linear": 1}).plan(COSTS)
    algorithm.padding_cost = float
    with pytest.raises(ConfigError, match=r"^`padding_cost` must be None, because `algorithm` .* has its own\.$"):
        planner_of(algorithm, padding_cost={"linear": 1})
    with pytest.raises(ConfigError, match=r"^`padding_cost` needs `seq_len`\.$"):
        Planner(data_parallel_size=2, algorithm=algorithm)
    algorithm.padding_cost = 3
    with pytest.raises(PluginError, match=r"^`padding_cost` of algorithm .* must be callable or None, but got 3\.$"):
        planner_of(algorithm)


@pytest.mark.parametrize("need", [{"max_items": 5}, {"equal_count": True}, {"window": 2}])
def test_what_it_does_not_declare_is_refused(need):
    with pytest.raises(UnsupportedProblemError):
        Planner(data_parallel_size=2, local_batch_size=1, algorithm=Snake(), **need).plan(COSTS)
    declares = Snake()
    declares.capabilities = {"max_items", "equal_count", "rounds"}
    assert Planner(data_parallel_size=2, local_batch_size=1, algorithm=declares, **need).plan(COSTS).num_samples == 8


def test_reports_use_the_objective_that_the_object_names():
    algorithm = LPTBalancingAlgorithm("balance")
    assert planner_of(algorithm).plan(COSTS).objective == "balance"
    assert planner_of(algorithm, objective="balance").plan(COSTS).gap == 0
    assert planner_of(Snake()).plan(COSTS).objective == "makespan"


def test_fingerprints_tell_differently_set_objects_apart():
    fingerprints = {
        planner_of(algorithm).config_fingerprint
        for algorithm in (
            LPTBalancingAlgorithm(),
            LPTBalancingAlgorithm("balance"),
            LPTBalancingAlgorithm(padding_cost=float),
            FeasibleLPTBalancingAlgorithm(),
            FeasibleLPTBalancingAlgorithm(max_repair_pairs=3),
            FeasibleLPTBalancingAlgorithm(objective_group_size=1),
            Snake(),
        )
    }
    assert len(fingerprints) == 7


def test_it_also_works_on_a_problem_alone():
    problem = Problem(tokens=COSTS, cost=COSTS, ranks=2, capacity=26, footprints=[[1]] * 8, budgets=[4])
    planner = Planner(data_parallel_size=2, algorithm=Snake())
    assert planner._algorithm.instance.assign(problem).to_bins() == [[0, 3, 4, 7], [1, 2, 5, 6]]


def test_bins_stay_where_the_object_put_them():
    algorithm = Snake()
    algorithm.objective_name, algorithm.objective_group_size = "rounds", 2
    plan = planner_of(algorithm, window=2).plan(COSTS)
    assert plan.objective == "rounds"
    assert plan.bins() == [[0, 7], [1, 6], [2, 5], [3, 4]]
    lopsided = Returns(lambda bins: [bins[3] + bins[2][1:], bins[2][:1], bins[1], bins[0]])
    lopsided.objective_name, lopsided.objective_group_size = "rounds", 2
    assert planner_of(lopsided, window=2).plan(COSTS).bins() == [[3, 4, 5], [2], [1, 6], [0, 7]]
