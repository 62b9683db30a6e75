"""Objectives are exact, whatever the size of the loads."""

from __future__ import annotations

import json
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packing.errors import ConfigError, UnknownNameError
from packing.objectives import (
    OBJECTIVE_NAMES,
    OBJECTIVES,
    Objective,
    get_objective,
    rank_loads,
    squared_variation,
)
from tests.problems import examples


@st.composite
def loads(draw, largest=2**58):
    """(pack loads, R, M, g) whose sum stays below 2**62."""
    ranks = draw(st.integers(1, 6))
    slots = draw(st.integers(1, 3)) if ranks < 6 else 1
    size = draw(st.sampled_from([g for g in range(1, ranks + 1) if ranks % g == 0]))
    values = draw(st.lists(st.integers(0, largest), min_size=ranks * slots, max_size=ranks * slots))
    return np.asarray(values, np.int64), ranks, slots, size


def by_rank(values, ranks, slots):
    listed = values.tolist()
    return [sum(listed[rank * slots : (rank + 1) * slots]) for rank in range(ranks)]


@examples(300)
@given(loads())
def test_makespan_is_the_largest_rank(case):
    values, ranks, slots, size = case
    assert get_objective("makespan").score(values, ranks, slots, size) == max(by_rank(values, ranks, slots))
    assert rank_loads(values, ranks).tolist() == by_rank(values, ranks, slots)


@examples(300)
@given(loads())
def test_balance_is_the_exact_variation_floored_to_60_bits(case):
    values, ranks, slots, size = case
    on_rank = by_rank(values, ranks, slots)
    exact = Fraction(0)
    if any(on_rank):
        # Dividing the loads by their maximum first gives the same quotient.
        scaled = [Fraction(load, max(on_rank)) for load in on_rank]
        mean = sum(scaled) / ranks
        exact = sum((load - mean) ** 2 for load in scaled) / ranks / mean**2
    score = get_objective("balance").score(values, ranks, slots, size)
    assert Fraction(score, 2**60) <= exact < Fraction(score + 1, 2**60)
    assert squared_variation(rank_loads(values, ranks)) == exact


def test_balance_tells_loads_apart_that_doubles_cannot():
    even, uneven = np.asarray([2**60, 2**60]), np.asarray([2**60 - 2**31, 2**60 + 2**31])
    balance = get_objective("balance")
    assert balance.score(even, 2, 1, 2) == 0
    assert balance.score(uneven, 2, 1, 2) == 4  # (2**31 / 2**60)**2 = 2**-58
    assert balance.score(uneven - np.asarray([2, -2]), 2, 1, 2) == 4
    assert np.square(uneven.astype(float)).sum() / uneven.astype(float).sum() ** 2 == 0.5


@examples(300)
@given(loads())
def test_rounds_sums_the_largest_pack_of_every_round(case):
    values, ranks, slots, size = case
    rounds = sorted(values.tolist(), reverse=True)
    expected = sum(max(rounds[start : start + size]) for start in range(0, len(rounds), size))
    assert get_objective("rounds").score(values, ranks, slots, size) == expected


def test_rounds_by_hand():
    score = get_objective("rounds").score
    values = np.asarray([1, 7, 3, 9, 4, 2])
    assert score(values, 6, 1, 2) == 9 + 4 + 2
    assert score(values, 6, 1, 3) == 9 + 3
    assert score(values, 6, 1, 6) == 9
    assert score(values, 3, 2, 3) == 9 + 3


@examples(300)
@given(loads(), st.integers(1, 9))
def test_pipeline_is_the_largest_rank_with_its_bubbles(case, stages):
    values, ranks, slots, size = case
    objective = get_objective({"name": "pipeline", "stages": stages})
    packs = [values.tolist()[rank * slots : (rank + 1) * slots] for rank in range(ranks)]
    expected = max(sum(rank) + (stages - 1) * max(rank) for rank in packs)
    assert objective.score(values, ranks, slots, size) == expected
    assert objective.delivered(values, ranks, slots, size) == expected
    if stages == 1:
        assert expected == get_objective("makespan").score(values, ranks, slots, size)


def test_pipeline_by_hand():
    objective = get_objective({"name": "pipeline", "stages": 3})
    score = objective.score(np.asarray([5, 1, 4, 3]), 2, 2, 2)
    assert score == 6 + 2 * 5
    assert objective.value(score) == pytest.approx(16 / 3)
    assert objective.value(score, cost_exponent=1) == pytest.approx(8 / 3)


@examples(300)
@given(loads(largest=2**56), st.integers(1, 4), st.randoms(use_true_random=False))
def test_components_sum_the_largest_rank_of_each(case, parts, random):
    values, ranks, slots, size = case
    columns = [random.sample(values.tolist(), values.size) for _ in range(parts)]
    objective = get_objective({"name": "components", "weights": {f"part{c}": 1 for c in range(parts)}})
    by_part = [max(by_rank(np.asarray(column), ranks, slots)) for column in columns]
    assert objective.score(np.asarray(columns).T, ranks, slots, size) == sum(by_part)
    if parts == 1:
        assert sum(by_part) == get_objective("makespan").score(np.asarray(columns[0]), ranks, slots, size)


@pytest.mark.parametrize("name", sorted(OBJECTIVES))
def test_no_work_at_all_scores_zero(name):
    assert get_objective(name).score(np.zeros(6, np.int64), 3, 2, 3) == 0


SETTINGS = [
    *OBJECTIVES,
    {"name": "pipeline", "stages": 4},
    {"name": "components", "weights": {"encoder": 0.5, "llm": 1}},
]


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_objectives_are_plain_values(setting):
    objective = get_objective(setting)
    assert isinstance(objective, Objective)
    assert objective.summary
    assert objective.setting == setting
    assert get_objective(json.loads(json.dumps(objective.setting))) == objective
    assert get_objective(objective) is objective
    copy = pickle.loads(pickle.dumps(objective))
    assert (copy, hash(copy), copy.setting) == (objective, hash(objective), setting)


def test_every_objective_has_a_setting_here():
    assert [get_objective(setting).name for setting in SETTINGS] == list(OBJECTIVE_NAMES)


def test_parameters_tell_objectives_apart():
    four = get_objective({"name": "pipeline", "stages": 4})
    assert four != get_objective({"name": "pipeline", "stages": 5})
    assert four == get_objective({"stages": np.int64(4), "name": "pipeline"})
    one = get_objective({"name": "components", "weights": {"llm": 1, "encoder": 0.5}})
    assert one == get_objective({"name": "components", "weights": {"encoder": 0.5, "llm": 1.0}})
    assert one != get_objective({"name": "components", "weights": {"encoder": 0.25, "llm": 1.0}})
    assert get_objective("makespan") == get_objective({"name": "makespan"})
    assert get_objective("makespan") != "makespan"


def test_objectives_in_words():
    assert [str(get_objective(setting)) for setting in SETTINGS] == [
        "makespan", "balance", "rounds", "pipeline(stages=4)", "components(encoder=0.5, llm=1)"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("pipeline", '`objective` "pipeline" needs `stages`, as in {"name": "pipeline", "stages": 4}.'),
        ({"name": "pipeline", "stages": 0}, "`objective.stages` must be a positive integer, but got 0."),
        ({"name": "pipeline", "stages": 2.5}, "`objective.stages` must be a positive integer, but got 2.5."),
        (
            {"name": "pipeline", "stage": 4},
            "`objective` 'pipeline' has no parameter 'stage'; its parameters: `stages`.",
        ),
        ({"name": "makespan", "stages": 4}, "`objective` 'makespan' has no parameter 'stages'; its parameters: none."),
        ({"stages": 4}, "`objective` must be a name, or a mapping with one, but got {'stages': 4}."),
        (
            "components",
            '`objective.weights` must map cost components to weights, such as {"llm": 1.0, "encoder": 0.5}, got None.',
        ),
        (
            {"name": "components", "weights": {}},
            '`objective.weights` must map cost components to weights, such as {"llm": 1.0, "encoder": 0.5}, got {}.',
        ),
        (
            {"name": "components", "weights": {"llm": -1}},
            "`objective.weights.llm` must be finite and at least 0, but got -1.",
        ),
        (
            {"name": "components", "weights": {"llm": 1, "encoder": 0}},
            "`objective.weights.encoder` must be positive (leave out what does not count), but got 0.",
        ),
        (
            {"name": "components", "weights": {"llm": True}},
            "`objective.weights.llm` must be a number, but got True.",
        ),
        (
            {"name": "components", "weights": {3: 1}},
            "`objective.weights` must have names that are text, but got 3.",
        ),
    ],
)
def test_what_parameters_must_be(setting, message):
    with pytest.raises(ConfigError) as error:
        get_objective(setting)
    assert str(error.value) == message


def test_scores_in_the_unit_of_the_costs():
    assert get_objective("makespan").value(12, cost_exponent=3) == 1.5
    assert get_objective("rounds").value(12, cost_exponent=-2) == 48.0
    assert get_objective("balance").value(2**59, cost_exponent=3) == 0.5


def test_unknown_names_list_what_there_is():
    with pytest.raises(UnknownNameError) as error:
        get_objective("makespam")
    assert str(error.value) == (
        "`objective` 'makespam' does not exist; there are: makespan, balance, rounds, pipeline, components. "
        "Did you mean 'makespan'?"
    )
    with pytest.raises(ConfigError, match="`objective` must be a name, or a mapping with one, but got 3"):
        get_objective(3)
