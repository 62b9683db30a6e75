"""The gate takes a candidate only where it is strictly better than it must be."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from packing.gate import decide
from tests.problems import examples

SCORES = st.integers(0, 2**62)
GAINS = st.floats(0, 1, exclude_max=True)


@examples(300)
@given(SCORES, SCORES, GAINS)
def test_accepted_exactly_where_the_relative_gain_is_strictly_above(before, after, minimum):
    decision = decide(before, after, minimum)
    assert decision.accepted is (before > 0 and Fraction(before - after, before) > Fraction(minimum))
    assert (decision.before, decision.after) == (float(before), float(after))


def test_a_gain_equal_to_the_minimum_is_not_enough():
    assert not decide(8, 6, 0.25).accepted
    assert decide(8, 6, 0.24999999999999997).accepted
    assert decide(2**61, 2**61 - 1, 0.0).accepted  # doubles see no difference
    assert not decide(2**61, 2**61, 0.0).accepted


def test_decimals_are_compared_as_the_doubles_they_are():
    # The double 0.1 lies above a tenth.
    assert not decide(10, 9, 0.1).accepted
    # The double 0.3 lies below three tenths.
    assert decide(10, 7, 0.3).accepted


@pytest.mark.parametrize(
    ("before", "after", "minimum", "accepted", "reason", "gain"),
    [
        (None, 5, 0.0, True, "no reference to compare with", None),
        (5, None, 0.0, False, "the algorithm found no candidate", None),
        (0, 0, 0.0, False, "the reference cannot be improved: its objective is 0", 0.0),
        (0, 5, 0.0, False, "the reference cannot be improved: its objective is 0", 0.0),
        (8, 6, 0.0, True, "the objective falls by 25.000%", 0.25),
        (8, 8, 0.0, False, "the candidate is not better than the reference", 0.0),
        (8, 10, 0.0, False, "the candidate is not better than the reference", -0.25),
        (8, 7, 0.5, False, "the gain 12.500% is not above `min_balance_gain` = 0.5", 0.125),
    ],
)
def test_every_decision_has_its_reason(before, after, minimum, accepted, reason, gain):
    decision = decide(before, after, minimum)
    assert (decision.accepted, decision.reason, decision.gain) == (accepted, reason, gain)


def test_scores_are_shown_in_the_unit_of_the_costs():
    decision = decide(8, 6, 0.0, unit=Fraction(1, 4))
    assert (decision.before, decision.after, decision.gain) == (2.0, 1.5, 0.25)
    assert decide(None, 6, 0.0, unit=Fraction(4)).after == 24.0
    assert decide(6, None, 0.0, unit=Fraction(4)).before == 24.0
