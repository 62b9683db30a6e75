"""The built-ins behind the record protocol, their resolution, and the planner with the signatures of hyper_parallel."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from packing import (
    Assignment,
    ConfigError,
    InfeasibleError,
    NoCandidateError,
    PackingConstraints,
    Planner,
    Problem,
    SampleMetadata,
    UnknownNameError,
    UnsupportedProblemError,
    WorkloadCost,
)
from packing import registry as registry_module
from packing.audit import first_violation
from packing.compat.hyper_parallel import (
    BalancingAlgorithm,
    DynamicPackingPlanner,
    FeasibleLPTBalancingAlgorithm,
    LPTBalancingAlgorithm,
    NamedBalancingAlgorithm,
    resolve_balancing_algorithm,
)
from packing.plugin import AlgorithmSpec
from packing.registry import resolve_algorithm
from tests.record_style import COSTS, Returns, Snake, contiguous, key, planner_of, records

# -------------------------------------------------------------------------------------- our own behind the protocol


def assign(algorithm, samples, reference=None, ranks=2, slots=1, **constraints):
    return algorithm.assign(
        samples,
        reference_bins=reference,
        constraints=PackingConstraints(**({"seq_len": 30} | constraints)),
        data_parallel_size=ranks,
        local_batch_size=slots,
    )


@pytest.mark.parametrize("name", ["lpt", "feasible_lpt", "kk", "equal_count", "best_fit_decreasing", "none"])
def test_every_built_in_is_served_in_record_form(name):
    samples = records(COSTS)
    algorithm = resolve_balancing_algorithm(name)
    assert isinstance(algorithm, BalancingAlgorithm)
    bins = assign(algorithm, samples, contiguous(samples, 2))
    assert sorted(one for members in bins for one in members) == sorted(one.key for one in samples)
    columns = [key(at) for at in range(8)]
    expected = Planner(data_parallel_size=2, seq_len=30, local_batch_size=1, algorithm=name)
    problem_bins = expected.plan(samples)
    if name not in ("none", "feasible_lpt"):
        assert bins == [[columns[at] for at in members] for members in problem_bins.bins()]


def test_where_nothing_is_found_the_reference_comes_back():
    samples = records([6, 6, 4, 4, 4], [6, 6, 4, 4, 4])
    reference = [[key(0), key(1)], [key(2), key(3), key(4)]]
    assert assign(LPTBalancingAlgorithm(), samples, reference, seq_len=12) == reference
    with pytest.raises(NoCandidateError, match="`algorithm` 'lpt' found no layout of 5 samples in 2 bins of 12 tokens"):
        assign(LPTBalancingAlgorithm(), samples, seq_len=12)


def test_zero_costs_stay_zero():
    samples = records([0] * 6, [6, 5, 4, 3, 2, 1])
    plan = DynamicPackingPlanner(data_parallel_size=2, seq_len=30, local_batch_size=1).plan(
        samples, contiguous(samples, 2)
    )
    assert plan.bins == contiguous(samples, 2)
    assert plan.decision.before == 0
    assert plan.plan.rank_loads.tolist() == [0, 0]


finite = st.floats(0, 1e12, allow_nan=False)


@given(st.lists(finite, min_size=4, max_size=24), st.sampled_from(["makespan", "balance"]), st.randoms())
def test_the_record_form_agrees_with_the_planner(costs, objective, shuffle):
    samples = records(costs, [1 + at % 7 for at in range(len(costs))])
    columns = {"length": [one.pack_tokens for one in samples], "cost": costs, "key": [
        (one.key.reader_rank, one.key.dataset_index, one.key.global_sample_position) for one in samples
    ]}  # fmt: skip
    direct = Planner(data_parallel_size=2, seq_len=200, local_batch_size=2, algorithm="lpt", objective=objective)
    expected = direct.plan(columns).keys()
    shuffled = list(samples)
    shuffle.shuffle(shuffled)
    assert assign(LPTBalancingAlgorithm(objective), shuffled, slots=2, seq_len=200) == expected


@given(
    st.lists(st.integers(1, 40), min_size=6, max_size=30),
    st.sampled_from(["makespan", "balance"]),
    st.booleans(),
    st.sampled_from([None, 1, 2]),
)
def test_what_comes_back_is_always_a_valid_layout(tokens, objective, padded, size):
    samples = records([length**2 for length in tokens], tokens)
    reference = contiguous(samples, 2)
    capacity = max(sum(tokens[: len(tokens) // 2]), sum(tokens[len(tokens) // 2 :]))
    algorithm = FeasibleLPTBalancingAlgorithm(
        objective, objective_group_size=size, padding_cost=float if padded else None
    )
    bins = assign(algorithm, samples, reference, seq_len=capacity)
    index = {one.key: at for at, one in enumerate(sorted(samples, key=lambda one: one.key))}
    problem = Problem(
        tokens=[one.pack_tokens for one in sorted(samples, key=lambda one: one.key)],
        cost=[0] * len(tokens), ranks=2, capacity=capacity,
    )  # fmt: skip
    assert first_violation(problem, Assignment.from_bins([[index[one] for one in members] for members in bins])) is None


@given(st.lists(st.floats(0, 1e300, allow_subnormal=True), min_size=1, max_size=12))
def test_objectives_are_exact_and_rounded_once(loads):
    costs = [WorkloadCost(llm=load, io=1.0) for load in loads]
    assert LPTBalancingAlgorithm().objective(costs) == max(loads)
    exact = [Fraction(load) for load in loads]
    mean = sum(exact) / len(exact)
    expected = sum((load - mean) ** 2 for load in exact) / len(exact) / mean**2 if mean else Fraction(0)
    assert LPTBalancingAlgorithm("balance").objective(costs) == float(expected)


def test_objectives_of_nothing_and_of_something_else():
    for objective in ("makespan", "balance"):
        assert FeasibleLPTBalancingAlgorithm(objective).objective([]) == 0
        assert FeasibleLPTBalancingAlgorithm(objective).objective([WorkloadCost()] * 3) == 0
        with pytest.raises(
            ConfigError, match=r"^`rank_costs` must hold a WorkloadCost for each rank, but rank 1 has 3"
        ):
            FeasibleLPTBalancingAlgorithm(objective).objective([WorkloadCost(), 3.0])


def test_attributes_may_be_set_later():
    samples = records([5, 4, 3, 3, 3], [1, 9, 9, 2, 9])
    algorithm = LPTBalancingAlgorithm()
    plain = assign(algorithm, samples)
    algorithm.padding_cost = float
    padded = assign(algorithm, samples)
    assert padded == assign(LPTBalancingAlgorithm(padding_cost=float), samples) != plain
    algorithm.padding_cost = None
    assert assign(algorithm, samples) == plain
    algorithm.objective_group_size = 3
    with pytest.raises(ConfigError, match=r"^`objective_group_size` must divide the 2 ranks, but got 3\.$"):
        assign(algorithm, samples)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LPTBalancingAlgorithm("rounds"), '`objective` must be one of "makespan", "balance", but got'),
        (lambda: LPTBalancingAlgorithm(padding_cost=3), "`padding_cost` must be callable or None, but got 3."),
        (lambda: LPTBalancingAlgorithm(objective_group_size=0),
         "`objective_group_size` must be a positive integer, but got 0."),
        (lambda: FeasibleLPTBalancingAlgorithm(max_repair_pairs=0),
         "`max_repair_pairs` must be a positive integer, but got 0."),
        (lambda: FeasibleLPTBalancingAlgorithm("makespan", True),
         "`max_repair_pairs` must be a positive integer, but got True."),
        (lambda: NamedBalancingAlgorithm(Snake()), "has the record protocol already; use it as it is."),
        (lambda: resolve_balancing_algorithm(7), "`algorithm` must be a name, a mapping"),
        (lambda: resolve_balancing_algorithm({"name": "lpt", "objective": "rounds"}), "`objective` must be one of"),
        (lambda: resolve_balancing_algorithm({"name": "feasible_lpt", "pairs": 1}), "has no option `pairs`"),
        (lambda: DynamicPackingPlanner(data_parallel_size=0, seq_len=9, local_batch_size=1),
         "`data_parallel_size` must be a positive integer, but got 0."),
        (lambda: DynamicPackingPlanner(data_parallel_size=1, seq_len=9, local_batch_size=None),
         "`local_batch_size` must be a positive integer, but got None."),
        (lambda: DynamicPackingPlanner(data_parallel_size=1, seq_len=9, local_batch_size=1, min_balance_gain=1.0),
         "`min_balance_gain` must lie in [0, 1), but got 1.0."),
        (lambda: DynamicPackingPlanner(data_parallel_size=1, seq_len=9, local_batch_size=1, cost_model=3),
         "`cost_model` must be callable or None, but got 3."),
    ],
)  # fmt: skip
def test_settings_out_of_range(make, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        make()


def test_unknown_names():
    with pytest.raises(UnknownNameError, match="Did you mean 'lpt'"):
        resolve_balancing_algorithm("ltp")


@pytest.mark.parametrize(
    ("samples", "reference", "error", "message"),
    [
        ([], None, ConfigError, "`samples` must not be empty"),
        ([3, 4], None, ConfigError, "`samples` must be SampleMetadata records with keys, but got [3, 4]."),
        ([SampleMetadata(3), SampleMetadata(4)], None, ConfigError, "records with keys, but got SampleMetadata("),
        (records([3, 4])[:1] * 2, None, ConfigError, "`samples` must have distinct keys"),
        (records([31, 4]), None, InfeasibleError, "over the cap `seq_len` = 30"),
        (records([3]), None, InfeasibleError, "1 samples cannot fill 2 bins"),
        (records([3, 4]), [[key(0)]], ConfigError, "`reference_bins` must be 2 bins, but got 1."),
        (records([3, 4]), [[key(0)], [key(0)]], ConfigError, "`reference_bins` must be a valid layout"),
        (records([3, 4]), [[key(0)], [key(5)]], ConfigError, "but no sample has it."),
        (records([3, 4]), 7, ConfigError, "`reference_bins` must be a sequence of bins, but got 7."),
    ],
)  # fmt: skip
def test_bad_input_is_refused_as_by_the_planner(samples, reference, error, message):
    with pytest.raises(error, match=re.escape(message)):
        assign(LPTBalancingAlgorithm(), samples, reference)
    planner = DynamicPackingPlanner(data_parallel_size=2, seq_len=30, local_batch_size=1)
    with pytest.raises(error, match=re.escape(message)):
        planner.plan(samples, reference)


def test_other_settings_of_a_call():
    samples = records(COSTS)
    with pytest.raises(ConfigError, match=r"^`constraints` must be PackingConstraints, but got 30\.$"):
        LPTBalancingAlgorithm().assign(
            samples, reference_bins=None, constraints=30, data_parallel_size=2, local_batch_size=1
        )
    with pytest.raises(ConfigError, match=r"^`local_batch_size` must be a positive integer, but got None\.$"):
        assign(LPTBalancingAlgorithm(), samples, slots=None)
    with pytest.raises(ConfigError, match="names the column 'images', but the samples have: length"):
        assign(LPTBalancingAlgorithm(), samples, packing_budgets={"images": 3})
    with pytest.raises(UnsupportedProblemError, match="'kk' does not support what this problem needs: `budgets`"):
        assign(resolve_balancing_algorithm("kk"), records(COSTS, packing_costs={"m": 1}), packing_budgets={"m": 5})


# ------------------------------------------------------------------------------------------------------- resolution


def test_none_is_lpt_and_objects_stay_what_they_are():
    assert isinstance(resolve_balancing_algorithm(), LPTBalancingAlgorithm)
    snake = Snake()
    assert resolve_balancing_algorithm(snake) is snake
    assert isinstance(resolve_balancing_algorithm(Snake), Snake)
    assert isinstance(resolve_balancing_algorithm(lambda: Snake()), Snake)
    columnar = resolve_algorithm("kk").instance
    assert resolve_balancing_algorithm(columnar).algorithm is columnar
    repaired = resolve_balancing_algorithm({"name": "feasible_lpt", "objective": "balance", "max_repair_pairs": 5})
    assert isinstance(repaired, FeasibleLPTBalancingAlgorithm)
    assert (repaired.objective_name, repaired.max_repair_pairs) == ("balance", 5)


@pytest.fixture
def vendor(monkeypatch):
    """A plugin with one algorithm of each kind, for as long as the test runs."""
    registry = registry_module.Registry(entry_points=())
    offers = [
        AlgorithmSpec("snake", Snake),
        AlgorithmSpec("weighted", LPTBalancingAlgorithm),
        AlgorithmSpec("pairs", lambda: resolve_algorithm("kk").instance, {"capacity", "makespan", "balance"}),
    ]
    from packing.registry._registry import _Plugin

    plugin = _Plugin("vendor", lambda: None, "vendor-packing", "1.0", loaded=True)
    plugin.offers = tuple(
        registry_module.Offer("algorithm", "vendor", spec, "vendor-packing", "1.0") for spec in offers
    )
    registry._third_parties = {"vendor": plugin}
    monkeypatch.setattr("packing.registry.get_registry", lambda: registry)


@pytest.mark.usefixtures("vendor")
def test_a_plugins_algorithms_by_name():
    samples = records(COSTS)
    reference = contiguous(samples, 2)
    for name in ("vendor/snake", "snake"):
        assert isinstance(resolve_balancing_algorithm(name), Snake)
        plan = planner_of(name).plan(samples, reference)
        assert (plan.algorithm, plan.decision.accepted) == ("vendor/snake", True)
    pairs = resolve_balancing_algorithm("vendor/pairs")
    assert sorted(map(len, assign(pairs, samples, reference))) == [4, 4]
    planner = DynamicPackingPlanner(data_parallel_size=2, seq_len=30, local_batch_size=1, algorithm="pairs")
    assert planner.plan(samples, reference).decision.after == 18
    config = {"name": "vendor/weighted", "objective": "balance"}
    assert resolve_balancing_algorithm(config).objective_name == "balance"
    plan = planner_of(config).plan(samples, reference)
    assert (plan.objective, plan.decision.after) == ("balance", 0)
    with pytest.raises(ConfigError, match=r"^`algorithm` 'vendor/snake' has no option `objective` \(got 'balance'\)"):
        Planner(data_parallel_size=2, algorithm={"name": "vendor/snake", "objective": "balance"})


# ---------------------------------------------------------------------------------------------------------- planner


def test_the_planner_gives_bins_of_keys_and_the_decision():
    samples = records(COSTS)
    planner = DynamicPackingPlanner(data_parallel_size=2, seq_len=30, local_batch_size=2)
    result = planner.plan(samples, contiguous(samples, 4), step=3)
    assert result.decision.accepted
    assert result.bins == assign(LPTBalancingAlgorithm(), samples, contiguous(samples, 4), slots=2)
    assert result.plan.step == 3
    assert result.plan.keys() == result.bins
    assert result.decision == result.plan.decision
    assert (result.decision.before, result.decision.after) == (26, 18)


def test_the_cost_model_replaces_the_costs():
    samples = records(COSTS)
    seen = []

    def cost_model(metadata):
        seen.append(metadata)
        return WorkloadCost(llm=metadata.pack_tokens**2, io=1)

    planner = DynamicPackingPlanner(data_parallel_size=2, seq_len=30, local_batch_size=1, cost_model=cost_model)
    result = planner.plan(samples, contiguous(samples, 2))
    assert seen == samples
    assert result.decision.before == 174
    assert result.plan.rank_loads.tolist() == [102, 102]
    wrong = DynamicPackingPlanner(data_parallel_size=2, seq_len=30, local_batch_size=1, cost_model=lambda one: 3.0)
    message = r"^`cost_model` must return a WorkloadCost, but returned 3\.0 for the sample with the key SampleKey\("
    with pytest.raises(ConfigError, match=message):
        wrong.plan(samples, contiguous(samples, 2))


def test_worse_and_equal_candidates_keep_the_reference():
    samples = records(COSTS)
    best = [[key(0), key(3), key(4), key(7)], [key(1), key(2), key(5), key(6)]]
    planner = DynamicPackingPlanner(data_parallel_size=2, seq_len=30, local_batch_size=1, algorithm=Snake)
    result = planner.plan(samples, best)
    assert not result.decision.accepted
    assert result.bins == best
    backwards = DynamicPackingPlanner(
        data_parallel_size=2, seq_len=36, local_batch_size=1,
        algorithm=Returns(lambda bins: [bins[0] + bins[1][:-1], bins[1][-1:]]),
    )  # fmt: skip
    result = backwards.plan(samples, best)
    assert (result.decision.accepted, result.bins) == (False, best)
    assert result.decision.gain < 0
