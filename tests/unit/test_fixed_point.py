"""Costs and budgets become integers exactly, in every order of the input, and never overflow."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packing._fixed_point import exact_sum, finite, is_whole, quantise_budget, quantise_costs, to_float
from packing.errors import ConfigError
from tests.problems import examples

NUMBERS = st.floats(0, 1e290, allow_subnormal=False)
LIMIT = 2**62


def floats(*values: float) -> np.ndarray:
    return np.asarray(values, np.float64)


class TestFinite:
    @pytest.mark.parametrize("dtype", ["i1", "u2", "i4", ">i8", "u8"])
    def test_integers_become_int64(self, dtype):
        result = finite("cost", np.asarray([3, 0, 5], dtype))
        assert result.dtype == np.int64
        assert result.tolist() == [3, 0, 5]

    @pytest.mark.parametrize("dtype", ["f2", "f4", ">f8"])
    def test_floats_become_float64(self, dtype):
        result = finite("cost", np.asarray([0.5, 2], dtype))
        assert result.dtype == np.float64
        assert result.tolist() == [0.5, 2.0]

    def test_the_result_is_a_copy(self):
        source = np.arange(3)
        finite("cost", source)[0] = 7
        assert source.tolist() == [0, 1, 2]

    def test_nothing_is_an_empty_array(self):
        assert finite("cost", []).tolist() == []

    @pytest.mark.parametrize(
        ("values", "message"),
        [
            ([1.0, float("nan")], "`cost` must be finite and non-negative, but got nan at index 1."),
            ([float("inf")], "`cost` must be finite and non-negative, but got inf at index 0."),
            ([0, -3], "`cost` must be finite and non-negative, but got -3 at index 1."),
            ([True, False], "`cost` must hold numbers, but got True at index 0."),
            (["a"], "`cost` must hold numbers, but got 'a' at index 0."),
            ([None, 1], "`cost` must hold numbers, but got None at index 0."),
            ([1j], "`cost` must hold numbers, but got 1j at index 0."),
            (np.uint64([1, 2**63]), "`cost` overflows a 64-bit integer: got 9223372036854775808."),
            ([1, 2**70], "`cost` overflows a 64-bit integer: got 1180591620717411303424."),
            ([[1, 2]], "`cost` must be one-dimensional, but got shape (1, 2)."),
            (5, "`cost` must be one-dimensional, but got shape ()."),
            ([[1], [2, 3]], "`cost` must be a one-dimensional array of numbers, but got [[1], [2, 3]]."),
        ],
    )
    def test_everything_else_is_refused(self, values, message):
        with pytest.raises(ConfigError) as error:
            finite("cost", values)
        assert str(error.value) == message

    def test_a_wrong_length_is_refused(self):
        with pytest.raises(ConfigError, match=r"one number for each of the 3 samples, but got shape \(2,\)"):
            finite("cost", [1, 2], length=3)


@examples(100)
@given(st.lists(st.integers(0, 2**63 - 1), max_size=20))
def test_exact_sum_is_exact(values):
    assert exact_sum(np.asarray(values, np.int64)) == sum(values)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.asarray([2**62]), True),
        (floats(0, 3, 2.0**53 - 1), True),
        (floats(2.0**53), False),
        (floats(0.5), False),
        (floats(), True),
    ],
)
def test_is_whole(values, expected):
    assert is_whole(values) is expected


class TestCosts:
    @examples(100)
    @given(st.lists(st.integers(0, 2**53 - 1), min_size=1, max_size=30), st.booleans())
    def test_whole_numbers_stay_as_they_are(self, values, as_floats):
        cost = np.asarray(values, np.float64 if as_floats else np.int64)
        fixed, pad, exponent = quantise_costs(cost, None, 4)
        assert (fixed.tolist(), pad, exponent) == (values, None, 0)
        assert fixed.dtype == np.int64

    def test_whole_numbers_stay_up_to_the_last_sum_that_fits(self):
        values = [2**61, 2**61 - 1]
        assert quantise_costs(np.asarray(values), None, 1)[0].tolist() == values
        _, _, exponent = quantise_costs(np.asarray([2**61, 2**61]), None, 1)
        assert exponent < 0

    def test_padding_counts_for_every_bin(self):
        cost, pad = np.asarray([2**60]), np.asarray([0, 2**60])
        assert quantise_costs(cost, pad, 2)[2] == 0
        assert quantise_costs(cost, pad, 3)[2] < 0

    @examples(100)
    @given(st.lists(NUMBERS, min_size=1, max_size=30), st.lists(NUMBERS, max_size=8), st.integers(1, 64))
    def test_costs_are_rounded_to_one_unit_and_never_overflow(self, values, padding, num_bins):
        pad = floats(*padding) if padding else None
        fixed, fixed_pad, exponent = quantise_costs(floats(*values), pad, num_bins)
        unit = Fraction(2) ** -exponent
        columns = [(values, fixed)] if fixed_pad is None else [(values, fixed), (padding, fixed_pad)]
        for exact, rounded in columns:
            for one, other in zip(exact, rounded.tolist(), strict=True):
                assert abs(Fraction(one) - other * unit) <= unit / 2
        assert sum(fixed.tolist()) + num_bins * (0 if fixed_pad is None else int(fixed_pad.max())) < LIMIT

    @examples(100)
    @given(st.lists(NUMBERS, min_size=1, max_size=30))
    def test_precision_is_not_given_away(self, values):
        fixed, _, _ = quantise_costs(floats(*values), None, 1)
        # The largest cost keeps all bits that the number of samples leaves free.
        assert (
            max(values) == 0
            or int(fixed.max()) * 2 * 2 ** len(values).bit_length() >= LIMIT
            or is_whole(floats(*values))
        )

    @examples(100)
    @given(st.lists(st.floats(0, 1e12), min_size=2, max_size=30), st.randoms(use_true_random=False))
    def test_the_order_of_the_input_plays_no_part(self, values, random):
        order = list(range(len(values)))
        random.shuffle(order)
        cost = floats(*values)
        fixed, _, exponent = quantise_costs(cost, None, 3)
        permuted, _, permuted_exponent = quantise_costs(cost[order], None, 3)
        assert (permuted.tolist(), permuted_exponent) == (fixed[order].tolist(), exponent)

    def test_zero_costs(self):
        fixed, pad, exponent = quantise_costs(floats(0, 0), floats(0, 0), 2)
        assert (fixed.tolist(), pad.tolist(), exponent) == ([0, 0], [0, 0], 0)

    @pytest.mark.parametrize("largest", [5e-324, 2.0**-1022, 1e300])
    def test_the_whole_range_of_doubles_is_taken(self, largest):
        fixed, _, exponent = quantise_costs(floats(largest, largest / 2), None, 1)
        assert to_float(fixed, exponent).tolist() == [largest, largest / 2]

    def test_a_sum_beyond_the_range_of_doubles_is_refused(self):
        with pytest.raises(ConfigError) as error:
            quantise_costs(floats(*[1e308] * 10), None, 1)
        message = "`cost` overflows: the sum of all costs must stay below 2**1023, but one is 1e+308."
        assert str(error.value) == message


class TestBudgets:
    @examples(100)
    @given(st.lists(st.floats(0, 1e12), min_size=1, max_size=12), st.floats(0, 1e12), st.data())
    def test_a_bin_that_fits_in_fixed_point_fits_exactly(self, values, budget, data):
        fixed, limit, _ = quantise_budget(floats(*values), budget)
        members = data.draw(st.sets(st.integers(0, len(values) - 1)))
        assert sum(fixed.tolist()) < LIMIT
        if sum(int(fixed[i]) for i in members) <= limit:
            assert sum(Fraction(values[i]) for i in members) <= Fraction(budget)

    @examples(100)
    @given(st.lists(st.integers(0, 2**40), min_size=1, max_size=12), st.integers(0, 2**40))
    def test_whole_numbers_stay_exact(self, values, budget):
        fixed, limit, _ = quantise_budget(np.asarray(values), budget)
        assert (fixed.tolist(), limit) == (values, budget)
        fixed, limit, _ = quantise_budget(np.asarray(values, np.float64), float(budget))
        assert (fixed.tolist(), limit) == (values, budget)

    def test_fractions_that_add_up_exactly_still_fit(self):
        fixed, limit, _ = quantise_budget(floats(0.25, 0.5, 0.125), 0.875)
        assert int(fixed.sum()) == limit

    def test_footprints_are_rounded_up_and_the_budget_down(self):
        fixed, limit, _ = quantise_budget(floats(1.0, 1.5 * 2.0**-58, 0.0), 1.5 * 2.0**-58)
        assert fixed.tolist() == [2**58, 2, 0]
        assert limit == 1

    def test_a_footprint_that_underflows_still_counts(self):
        # One huge value leaves only coarse units for the small ones.
        fixed, limit, _ = quantise_budget(floats(1e300, 1e-300), 1e-300)
        assert fixed[1] == 1
        assert limit == 0

    def test_a_budget_beyond_64_bits(self):
        fixed, limit, _ = quantise_budget(np.asarray([1, 0, 1]), 2**70)
        assert fixed.tolist() == [1, 0, 1]
        assert limit > 2


@examples(100)
@given(st.lists(st.integers(0, 2**53 - 1), max_size=8), st.integers(-60, 60))
def test_to_float_undoes_the_scale(values, exponent):
    assert to_float(np.asarray(values, np.int64), exponent).tolist() == [v * 2.0**-exponent for v in values]
