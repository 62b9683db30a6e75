"""A problem checks every field, and `BinState.fits` says what may share a bin."""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packing.assignment import Assignment
from packing.errors import ConfigError, UnknownNameError
from packing.problem import CAPABILITIES, BinState, Problem
from tests.problems import examples, problems


def make(**fields) -> Problem:
    return Problem(**({"tokens": [3, 5, 4], "cost": [1, 2, 3], "ranks": 2} | fields))


class TestColumns:
    def test_arrays_are_copied_contiguous_and_read_only(self):
        tokens = np.arange(1, 9, dtype=np.int32)[::2]
        problem = make(
            tokens=tokens, cost=[1.0, 2.0, 3.0, 4.0], group=[-1, 0, 0, 1], forbid=[0, 0, 1, 1],
            footprints=[[1], [2], [3], [4]], budgets=[9], capacity=9, pad_cost=range(10),
        )  # fmt: skip
        tokens[:] = 1
        assert problem.tokens.tolist() == [1, 3, 5, 7]
        for name in ("tokens", "cost", "group", "forbid", "footprints", "budgets", "pad_cost"):
            array = getattr(problem, name)
            assert array.dtype == np.int64
            assert array.flags.c_contiguous
            assert not array.flags.writeable

    def test_defaults(self):
        problem = make()
        assert (problem.num_samples, problem.num_bins, problem.bins_per_rank, problem.round_size) == (3, 2, 1, 2)
        assert problem.max_capacity is None
        assert problem.capacities().tolist() == [2**62, 2**62]
        assert problem.needs() == {"makespan"}

    def test_fields_cannot_be_set(self):
        with pytest.raises(dataclasses.FrozenInstanceError):
            make().ranks = 3

    def test_capacity_for_every_bin(self):
        problem = make(bins_per_rank=2, capacity=[9, 5, 7, 5])
        assert problem.capacities().tolist() == [9, 5, 7, 5]
        assert problem.max_capacity == 9
        assert make(capacity=6).capacities().tolist() == [6, 6]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"tokens": [3, 0, 4]}, "`tokens` must be positive, but got 0 at index 1."),
        ({"tokens": [[3, 5, 4]]}, "`tokens` must be one-dimensional, but got shape (1, 3)."),
        ({"tokens": [1, 2**62, 1]}, f"`tokens` overflows: its sum must stay below 2**62, but got {2**62 + 2}."),
        ({"cost": [1, 2]}, "`cost` must have one value for each of the 3 samples, but got 2."),
        ({"cost": [1, -2, 3]}, "`cost` must be non-negative, but got -2 at index 1."),
        ({"cost": [0.5, 1, 2]}, "`cost` must hold whole numbers, but got 0.5 at index 0."),
        (
            {"cost": [2**61, 2**61, 0]},
            f"`cost` overflows: the sum of all costs, padding included, must stay below 2**62, but got {2**62}.",
        ),
        (
            {"capacity": 5, "pad_cost": [0, 0, 0, 0, 0, 2**61]},
            f"`cost` overflows: the sum of all costs, padding included, must stay below 2**62, but got {2**62 + 6}.",
        ),
        ({"ranks": 0}, "`ranks` must be a positive integer, but got 0."),
        ({"ranks": True}, "`ranks` must be a positive integer, but got True."),
        ({"bins_per_rank": 0}, "`bins_per_rank` must be a positive integer, but got 0."),
        ({"bins_per_rank": 1.5}, "`bins_per_rank` must be a positive integer, but got 1.5."),
        ({"ranks": 6, "round_size": 4}, "`round_size` must divide the 6 ranks, but got 4."),
        ({"round_size": 0}, "`round_size` must be a positive integer, but got 0."),
        ({"capacity": 0}, "`capacity` must be a positive integer, but got 0."),
        ({"capacity": "8"}, "`capacity` must be a positive integer, but got '8'."),
        ({"capacity": 2**63}, f"`capacity` must be a positive integer of at most {2**62}, but got {2**63}."),
        ({"capacity": [5, 0]}, "`capacity` must be positive, but got 0 at index 1."),
        ({"capacity": [5, 5, 5]}, "`capacity` must have one value for each of the 2 bins, got 3."),
        ({"capacity": [[5], [5, 5]]}, "`capacity` must be a one-dimensional array of integers, but got [[5], [5, 5]]."),
        (
            {"capacity": [5, 5], "bins_per_rank": None},
            "`capacity` of an open problem must be one integer or None.",
        ),
        ({"budgets": [5]}, "`footprints` and `budgets` must be given together."),
        ({"footprints": [[5]] * 3}, "`footprints` and `budgets` must be given together."),
        ({"footprints": [[1]] * 2, "budgets": [5]}, "`footprints` must have shape (3, 1), but got (2, 1)."),
        (
            {"footprints": [[1], [2, 3], [4]], "budgets": [5]},
            "`footprints` must have one value for each sample and budget.",
        ),
        ({"footprints": [[1], [-2], [4]], "budgets": [5]}, "`footprints` must be non-negative, but got -2 at index 1."),
        ({"footprints": [[1], [2], [4]], "budgets": [-5]}, "`budgets` must be non-negative, but got -5 at index 0."),
        (
            {"footprints": [[1], [2], [4]], "budgets": [5], "budget_names": ("a", "b")},
            "`budget_names` must name 1 budgets, but got 2.",
        ),
        (
            {"footprints": [[2**61], [2**61], [4]], "budgets": [5], "budget_names": ("memory",)},
            f"`memory` overflows: its sum must stay below 2**62, but got {2**62 + 4}.",
        ),
        ({"objective": 5}, "`objective` must be a name, or a mapping with one, but got 5."),
        ({"pad_cost": [0, 1]}, "`pad_cost` needs a `capacity`."),
        ({"capacity": 5, "pad_cost": [0, 1]}, "`pad_cost` must have 6 values, but got 2."),
        ({"capacity": 1, "pad_cost": [0, -1]}, "`pad_cost` must be non-negative, but got -1 at index 1."),
        ({"max_items": 0}, "`max_items` must be a positive integer, but got 0."),
        ({"max_items": True}, "`max_items` must be a positive integer, but got True."),
        ({"equal_count": 1}, "`equal_count` must be true or false, but got 1."),
        ({"group": [0, 1]}, "`group` must have one value for each of the 3 samples, but got 2."),
        ({"group": [0, -2, 1]}, "`group` must be at least -1, but got -2 at index 1."),
        ({"group_scope": "node"}, '`group_scope` must be one of "bin", "rank", but got \'node\'.'),
        ({"forbid": [0, -1, 1]}, "`forbid` must be non-negative, but got -1 at index 1."),
        ({"oversized": "split"}, '`oversized` must be one of "error", "single", but got \'split\'.'),
        ({"reference": [[0], [1, 2]]}, "`reference` must be an Assignment or None, but got [[0], [1, 2]]."),
        ({"cost_exponent": 0.5}, "`cost_exponent` must be an integer, but got 0.5."),
    ],
)
def test_every_field_is_checked(fields, message):
    with pytest.raises(ConfigError) as error:
        make(**fields)
    assert str(error.value) == message


def test_an_unknown_objective_is_an_unknown_name():
    with pytest.raises(UnknownNameError, match="Did you mean 'balance'"):
        make(objective="balanced")


def test_an_open_problem_has_no_number_of_bins():
    problem = make(bins_per_rank=None)
    with pytest.raises(ConfigError, match="an open problem has no fixed number of bins"):
        _ = problem.num_bins
    closed = problem.with_bins_per_rank(1)
    assert closed.num_bins == 2
    assert closed.tokens.tolist() == problem.tokens.tolist()


def test_a_padded_open_problem_counts_one_bin_for_each_sample():
    assert make(bins_per_rank=None, capacity=5, pad_cost=[0] * 5 + [2**60]).num_samples == 3
    with pytest.raises(ConfigError, match="padding included"):
        make(tokens=[1] * 4, cost=[0] * 4, bins_per_rank=None, capacity=5, pad_cost=[0] * 5 + [2**60])


@pytest.mark.parametrize(
    ("fields", "needs"),
    [
        ({"capacity": 5}, {"capacity"}),
        ({"bins_per_rank": 2, "tokens": [1] * 4, "cost": [1] * 4}, {"multi_bin"}),
        ({"bins_per_rank": None}, {"open_bins"}),
        ({"round_size": 1}, {"rounds"}),
        ({"objective": "rounds"}, {"rounds"}),
        ({"objective": "balance"}, {"balance"}),
        ({"footprints": [[0]] * 3, "budgets": [0]}, {"budgets"}),
        ({"footprints": np.empty((3, 0)), "budgets": []}, set()),
        ({"capacity": 5, "pad_cost": [0] * 6}, {"capacity", "pad_cost"}),
        ({"capacity": 4, "oversized": "single"}, {"capacity", "oversized"}),
        ({"capacity": 5, "oversized": "single"}, {"capacity"}),
        ({"equal_count": True}, {"equal_count"}),
        ({"group": [0, 0, -1]}, {"group"}),
        ({"forbid": [0, 0, 0]}, {"forbid"}),
        ({"max_items": 2}, {"max_items"}),
    ],
)
def test_what_an_algorithm_must_declare(fields, needs):
    found = make(**fields).needs()
    objective = fields.get("objective", "makespan")
    assert found == needs | {objective}
    assert found <= CAPABILITIES


class TestLoads:
    def test_pad_cost_counts_the_unused_tokens_of_every_bin(self):
        problem = make(capacity=8, pad_cost=[0, 1, 2, 3, 4, 5, 6, 7, 80])
        assert problem.pack_loads(Assignment.from_bins([[0, 1], [2]])).tolist() == [3 + 0, 3 + 4]

    def test_a_bin_over_its_capacity_has_no_unused_tokens(self):
        problem = make(tokens=[3, 5], cost=[1, 2], capacity=4, oversized="single", pad_cost=[9, 1, 2, 3, 4])
        assert problem.pack_loads(Assignment.from_bins([[1], [0]])).tolist() == [2 + 9, 1 + 1]

    def test_score_by_objective(self):
        layout = Assignment.from_bins([[0, 1], [2], [3], []])
        fields = {"tokens": [1] * 4, "cost": [5, 1, 4, 2], "ranks": 2, "bins_per_rank": 2}
        assert make(**fields).score(layout) == 10
        assert make(**fields, objective="rounds").score(layout) == 6 + 2
        assert make(**fields, objective="rounds", round_size=1).score(layout) == 12
        # Loads 10 and 2: variance 16, squared mean 36.
        assert make(**fields, objective="balance").score(layout) == int(Fraction(16, 36) * 2**60)


def state(**fields) -> BinState:
    return BinState(make(**fields))


class TestBinState:
    def test_tokens(self):
        bins = state(capacity=8)
        bins.add(0, 0)
        assert bins.fits(0, 1)
        bins.add(0, 1)
        assert bins.why_not(0, 2) == "8 + 4 tokens exceed the capacity 8"
        assert bins.fits(1, 2)

    def test_every_bin_has_its_own_capacity(self):
        bins = state(capacity=[4, 9])
        assert bins.why_not(0, 1) == "0 + 5 tokens exceed the capacity 4"
        assert bins.fits(1, 1)

    def test_without_a_cap_everything_fits(self):
        bins = state(tokens=[2**60, 2**60, 1])
        bins.add(0, 0)
        assert bins.fits(0, 1)

    def test_budgets(self):
        bins = state(footprints=[[1, 9], [2, 1], [3, 0]], budgets=[3, 9], budget_names=("memory", "images"))
        bins.add(0, 0)
        assert bins.why_not(0, 1) == "9 + 1 of budget 'images' exceed 9"
        assert bins.why_not(0, 2) == "1 + 3 of budget 'memory' exceed 3"
        assert bins.fits(1, 2)

    def test_max_items(self):
        bins = state(max_items=1)
        assert bins.fits(0, 0)
        bins.add(0, 0)
        assert bins.why_not(0, 1) == "the bin already holds `max_items` = 1 samples"

    def test_forbid(self):
        bins = state(forbid=[4, 4, 5])
        bins.add(0, 0)
        assert bins.fits(0, 1)
        assert bins.why_not(0, 2) == "`forbid` keeps it apart from the samples that are there"
        assert bins.fits(1, 2)

    def test_a_group_stays_in_one_bin(self):
        bins = state(group=[7, 7, -1])
        bins.add(1, 0)
        assert bins.why_not(0, 1) == "its group is in bin 1, not in 0"
        assert bins.fits(1, 1)
        assert bins.fits(0, 2)

    def test_a_group_stays_on_one_rank(self):
        bins = state(tokens=[1] * 4, cost=[1] * 4, bins_per_rank=2, group=[0, 0, 1, -1], group_scope="rank")
        bins.add(3, 0)
        assert bins.fits(2, 1)
        assert bins.why_not(1, 1) == "its group is in rank 1, not in 0"
        assert bins.fits(0, 2)

    def test_samples_of_no_group_are_free(self):
        bins = state(group=[-1, -1, -1])
        bins.add(0, 0)
        assert bins.fits(1, 1)

    def test_an_oversized_sample_is_alone_or_nowhere(self):
        bins = state(capacity=4)
        assert bins.why_not(0, 1) == "0 + 5 tokens exceed the capacity 4"
        bins = state(capacity=4, oversized="single", tokens=[3, 5, 1])
        assert bins.fits(0, 1)
        bins.add(0, 1)
        assert not bins.fits(0, 2)
        bins.add(1, 2)
        assert not bins.fits(1, 1)
        assert bins.fits(1, 0)

    def test_budgets_bind_for_oversized_samples_too(self):
        bins = state(capacity=4, oversized="single", footprints=[[0], [2], [0]], budgets=[1])
        assert not bins.fits(0, 1)

    @examples(200)
    @given(problems(), st.data())
    def test_what_fits_keeps_every_limit(self, problem, data):
        bins = BinState(problem)
        for sample in range(problem.num_samples):
            b = data.draw(st.integers(0, problem.num_bins - 1))
            if bins.fits(b, sample):
                bins.add(b, sample)
        places = {}
        for b, members in enumerate(bins.assignment().to_bins()):
            tokens = sum(int(problem.tokens[i]) for i in members)
            assert (
                problem.capacity is None
                or tokens <= problem.capacity
                or (problem.oversized == "single" and len(members) == 1)
            )
            assert problem.max_items is None or len(members) <= problem.max_items
            if problem.budgets is not None:
                assert (problem.footprints[members].sum(axis=0) <= problem.budgets).all()
            if problem.forbid is not None:
                assert len({int(problem.forbid[i]) for i in members}) <= 1
            if problem.group is not None:
                place = b if problem.group_scope == "bin" else b // problem.bins_per_rank
                for i in members:
                    if problem.group[i] >= 0:
                        assert places.setdefault(int(problem.group[i]), place) == place
