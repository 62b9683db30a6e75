"""Objectives are exact, whatever the size of the loads."""

from __future__ import annotations

import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packing.errors import ConfigError, UnknownNameError
from packing.objectives import OBJECTIVES, Objective, get_objective, rank_loads, squared_variation
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


@pytest.mark.parametrize("name", sorted(OBJECTIVES))
def test_no_work_at_all_scores_zero(name):
    assert get_objective(name).score(np.zeros(6, np.int64), 3, 2, 3) == 0


@pytest.mark.parametrize("name", sorted(OBJECTIVES))
def test_objectives_are_plain_values(name):
    objective = get_objective(name)
    assert isinstance(objective, Objective)
    assert objective.name == name
    assert objective.summary
    assert pickle.loads(pickle.dumps(objective)) is objective


def test_scores_in_the_unit_of_the_costs():
    assert get_objective("makespan").value(12, cost_exponent=3) == 1.5
    assert get_objective("rounds").value(12, cost_exponent=-2) == 48.0
    assert get_objective("balance").value(2**59, cost_exponent=3) == 0.5


def test_unknown_names_list_what_there_is():
    with pytest.raises(UnknownNameError) as error:
        get_objective("makespam")
    assert str(error.value) == (
        "`objective` 'makespam' does not exist; there are: makespan, balance, rounds. Did you mean 'makespan'?"
    )
    with pytest.raises(ConfigError, match="`objective` must be a name, but got 3"):
        get_objective(3)
