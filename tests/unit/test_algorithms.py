"""Every built-in, by name: a valid layout or none, known answers, and what each one promises."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from packing._feasibility import check_feasible
from packing.assignment import Assignment
from packing.audit import first_violation
from packing.bins import pack
from packing.bounds import fewest_bins_per_rank, lower_bound
from packing.errors import InfeasibleError
from packing.problem import Problem
from packing.registry import resolve_algorithm
from tests.problems import BUILTINS, column, examples, fewest_valid, problems

FITS = ("first_fit", "first_fit_decreasing", "best_fit_decreasing", "exact_fill", "next_fit")


def make(tokens, ranks=2, **fields) -> Problem:
    return Problem(**({"tokens": tokens, "cost": tokens, "ranks": ranks} | fields))


def assign(name: str, problem: Problem) -> Assignment | None:
    return resolve_algorithm(name).instance.assign(problem)


def supports(name: str, problem: Problem) -> bool:
    return problem.needs() <= resolve_algorithm(name).capabilities


def loads(problem: Problem, layout: Assignment) -> list[int]:
    return problem.pack_loads(layout).reshape(problem.ranks, -1).sum(axis=1).tolist()


def feasible(problem: Problem) -> bool:
    """What the planner has made sure of before it asks an algorithm."""
    try:
        check_feasible(problem, str)
    except InfeasibleError:
        return False
    return True


# --------------------------------------------------------------------------------------------------------- every name


@pytest.mark.parametrize("name", BUILTINS)
@examples(300)
@given(st.data())
def test_a_valid_layout_or_none(name, data):
    capabilities = resolve_algorithm(name).capabilities
    # Only features that the algorithm declares, so that few examples are thrown away.
    fixed = {}
    defaults = {
        "group": None, "forbid": None, "max_items": None, "pad_cost": None, "equal_count": False, "oversized": "error",
    }  # fmt: skip
    for feature, default in defaults.items():
        if feature not in capabilities:
            fixed[feature] = default
    if "budgets" not in capabilities:
        fixed |= {"footprints": None, "budgets": None}
    if "open_bins" in capabilities and data.draw(st.integers(0, 2)) == 0:
        fixed["bins_per_rank"] = None
    problem = data.draw(problems(max_samples=12, **fixed))
    assume(supports(name, problem) and feasible(problem))
    try:
        layout = assign(name, problem)
    except InfeasibleError:
        assert name == "equal_count"
        assert problem.num_samples % problem.ranks
        return
    if layout is None:
        return
    if problem.bins_per_rank is None:
        assert layout.num_bins % problem.ranks == 0
        problem = problem.with_bins_per_rank(layout.num_bins // problem.ranks)
    assert first_violation(problem, layout) is None


@pytest.mark.parametrize("name", BUILTINS)
@pytest.mark.parametrize("slots", [1, 2, None])
def test_without_limits_there_is_always_a_layout(name, slots):
    random = np.random.default_rng(3)
    for count in (8, 12, 40):
        tokens = random.integers(1, 100, count)
        problem = make(tokens, ranks=4, bins_per_rank=slots)
        if not supports(name, problem):
            pytest.skip(f"{name} does not declare open_bins")
        layout = assign(name, problem)
        assert first_violation(problem.with_bins_per_rank(slots or 1), layout) is None


@pytest.mark.parametrize("name", BUILTINS)
@examples(100)
@given(st.data())
def test_one_sample_for_every_bin(name, data):
    ranks, slots = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    problem = make(data.draw(column(ranks * slots, 1, 9)), ranks, bins_per_rank=slots, capacity=9)
    layout = assign(name, problem)
    assert sorted(map(len, layout.to_bins())) == [1] * (ranks * slots)


@pytest.mark.parametrize("name", BUILTINS)
def test_the_problem_is_not_changed_and_the_answer_repeats(name):
    problem = make([5, 4, 3, 3, 2, 1], bins_per_rank=2, capacity=9)
    before = [array.copy() for array in (problem.tokens, problem.cost)]
    assert assign(name, problem) == assign(name, problem)
    assert [array.tolist() for array in (problem.tokens, problem.cost)] == [array.tolist() for array in before]


@pytest.mark.parametrize(
    "name",
    [
        "auto",
        "lpt",
        "exchange",
        "kk",
        "combine",
        "level_multifit",
        "equal_count",
        "first_fit_decreasing",
        "best_fit_decreasing",
        "exact_fill",
    ],
)
@examples(100)
@given(st.data())
def test_permuted_lengths_keep_the_lengths_in_every_bin(name, data):
    ranks = data.draw(st.integers(1, 3))
    count = ranks * data.draw(st.integers(1, 5))
    tokens = data.draw(column(count, 1, 9))
    permuted = data.draw(st.permutations(tokens))
    capacity = data.draw(st.sampled_from([None, 12, 30]))
    layouts = []
    for values in (tokens, permuted):
        problem = make(values, ranks, bins_per_rank=None, capacity=capacity)
        layout = assign(name, problem)
        layouts.append(layout and [sorted(values[i] for i in members) for members in layout.to_bins()])
    assert layouts[0] == layouts[1]


# -------------------------------------------------------------------------------------------------------- known answers


@pytest.mark.parametrize(
    ("name", "tokens", "ranks", "expected"),
    [
        ("kk", [8, 7, 6, 5, 4], 2, [14, 16]),
        ("kk", [8, 7, 6, 5, 4, 3, 2, 1], 4, [9, 9, 9, 9]),
        ("kk", [4, 5, 6, 7, 8], 3, [8, 11, 11]),
        ("lpt", [8, 7, 6, 5, 4], 2, [13, 17]),
        ("lpt", [5, 5, 4, 4, 3, 3, 3], 3, [8, 8, 11]),
        ("equal_count", [8, 7, 6, 5], 2, [13, 13]),
        ("equal_count", [90, 1, 1, 1, 1, 2], 2, [4, 92]),
        ("none", [1, 2, 3, 4, 5], 2, [3, 12]),
    ],
)
def test_known_loads(name, tokens, ranks, expected):
    problem = make(tokens, ranks)
    assert sorted(loads(problem, assign(name, problem))) == expected


@pytest.mark.parametrize("name", ["lpt", "kk", "equal_count"])
def test_no_rank_is_far_above_the_mean(name):
    """The largest load is at most the mean plus the longest sample (Graham 1969); differencing is not worse."""
    random = np.random.default_rng(11)
    for ranks, count in ((3, 30), (8, 64), (16, 160)):
        tokens = random.lognormal(6, 1, count).astype(np.int64) + 1
        problem = make(tokens, ranks)
        largest = max(loads(problem, assign(name, problem)))
        assert largest <= tokens.sum() / ranks + tokens.max()
        assert largest < 1.5 * max(tokens.sum() / ranks, tokens.max())


# ------------------------------------------------------------------------------------------------------------------ kk


class TestDifferencing:
    def test_an_overflow_is_repaired(self):
        # By cost alone two long samples meet; the cap sends them apart.
        problem = make([8, 8, 1, 1], cost=[5, 1, 5, 1], capacity=9)
        layout = assign("kk", problem)
        assert layout.sums(problem.tokens).tolist() == [9, 9]
        assert loads(problem, layout) == [6, 6]

    def test_none_where_the_repair_fails(self):
        assert assign("kk", make([5, 5, 5, 3], capacity=9)) is None

    def test_bins_are_dealt_to_even_ranks(self):
        problem = make([9, 8, 7, 6, 5, 4, 3, 2], bins_per_rank=2)
        assert sorted(loads(problem, assign("kk", problem))) == [22, 22]


# --------------------------------------------------------------------------------------------------------- equal_count


class TestEqualCount:
    @examples(150)
    @given(st.integers(1, 4), st.integers(1, 4), st.data())
    def test_every_rank_gets_as_many_samples(self, ranks, each, data):
        slots = data.draw(st.integers(1, each))
        problem = make(data.draw(column(ranks * each, 1, 99)), ranks, bins_per_rank=slots, equal_count=True)
        layout = assign("equal_count", problem)
        assert np.diff(layout.offsets).reshape(ranks, -1).sum(axis=1).tolist() == [each] * ranks
        assert first_violation(problem, layout) is None

    def test_a_number_that_cannot_be_shared_out_is_infeasible(self):
        with pytest.raises(InfeasibleError) as error:
            assign("equal_count", make([1] * 7, ranks=3))
        message = "`algorithm` 'equal_count' needs a multiple of the 3 ranks, but there are 7 samples (1 too many)."
        assert str(error.value) == message

    @examples(150)
    @given(st.integers(2, 4), st.integers(1, 4), st.data())
    def test_no_single_swap_lowers_the_largest_load(self, ranks, each, data):
        tokens = data.draw(column(ranks * each, 1, 99))
        problem = make(tokens, ranks)
        bins = assign("equal_count", problem).to_bins()
        held = [sum(tokens[i] for i in members) for members in bins]
        top = held.index(max(held))
        if max(held) == lower_bound(problem, effort=0).score:
            return  # proven optimal: nothing is swapped any more
        for other in range(ranks):
            for x in bins[top]:
                for y in bins[other] if other != top else []:
                    change = tokens[x] - tokens[y]
                    assert not 0 < change < held[top] - held[other]

    def test_heavy_tails(self):
        """Plain equal-size differencing is tens of percent over the bound here."""
        random = np.random.default_rng(5)
        tokens = np.minimum(random.lognormal(7, 1.5, 64).astype(np.int64) + 1, 32768)
        problem = make(tokens, 8, equal_count=True)
        mean = tokens.sum() / 8
        assert max(loads(problem, assign("equal_count", problem))) <= max(
            1.02 * mean, tokens.max() + np.sort(tokens)[:7].sum()
        )

    def test_the_cap_holds(self):
        problem = make([7, 6, 5, 4, 3, 1], capacity=13, equal_count=True)
        layout = assign("equal_count", problem)
        assert layout.sums(problem.tokens).tolist() == [13, 13]
        assert assign("equal_count", make([9, 9, 9, 1, 1, 1], capacity=14, equal_count=True)) is None

    def test_rows_for_every_rank(self):
        problem = make([9, 8, 7, 6, 5, 4], capacity=12, bins_per_rank=3)
        layout = assign("equal_count", problem)
        assert first_violation(problem, layout) is None
        assert np.diff(layout.offsets).tolist() == [1] * 6


# ------------------------------------------------------------------------------------------------------------- packers


class TestFits:
    @pytest.mark.parametrize("name", FITS)
    @examples(150)
    @given(st.data())
    def test_the_packs_are_those_of_the_classical_rule(self, name, data):
        tokens = data.draw(column(data.draw(st.integers(1, 20)), 1, 20))
        most = data.draw(st.sampled_from([None, 1, 2, 3]))
        classical = pack(tokens, 20, algorithm=name, max_items=most)
        layout = assign(name, make(tokens, 1, bins_per_rank=None, capacity=20, max_items=most))
        assert layout.to_bins() == classical.to_lists()

    @pytest.mark.parametrize("name", FITS)
    @examples(100)
    @given(st.integers(1, 4), st.data())
    def test_packs_are_dealt_to_the_ranks_in_turn(self, name, ranks, data):
        tokens = data.draw(column(data.draw(st.integers(ranks, 20)), 1, 20))
        layout = assign(name, make(tokens, ranks, bins_per_rank=None, capacity=20))
        classical = pack(tokens, 20, algorithm=name)
        slots = -(-classical.num_bins // ranks)
        if layout is None:
            assert len(tokens) < ranks * slots
            return
        assert layout.num_bins == ranks * slots
        padded = pack(tokens, 20, algorithm=name, min_bins=ranks * slots).to_lists()
        bins = layout.to_bins()
        assert [bins[(p % ranks) * slots + p // ranks] for p in range(len(padded))] == padded

    @pytest.mark.parametrize(
        ("name", "tokens", "count"),
        [
            ("next_fit", [4, 7, 3, 6, 5, 5], 4),
            ("first_fit", [4, 3, 7, 6, 5, 5], 4),
            ("first_fit_decreasing", [4, 3, 7, 6, 5, 5], 3),
            ("best_fit_decreasing", [4, 3, 7, 6, 5, 5], 3),
            ("best_fit_decreasing", [4, 4, 3, 3, 3, 3], 3),
            ("exact_fill", [4, 4, 3, 3, 3, 3], 2),
        ],
    )
    def test_textbook_counts(self, name, tokens, count):
        assert assign(name, make(tokens, 1, bins_per_rank=None, capacity=10)).num_bins == count

    def test_next_fit_keeps_the_order(self):
        layout = assign("next_fit", make([4, 4, 4, 4, 4], 1, bins_per_rank=None, capacity=9))
        assert layout.to_bins() == [[0, 1], [2, 3], [4]]

    @pytest.mark.parametrize("name", FITS)
    def test_none_where_the_rule_needs_more_packs(self, name):
        assert assign(name, make([6, 6, 6, 1], capacity=10)) is None

    @pytest.mark.parametrize("name", FITS)
    def test_no_bin_is_left_empty(self, name):
        problem = make([1, 1, 1, 1, 1], ranks=2, bins_per_rank=2, capacity=10)
        assert np.diff(assign(name, problem).offsets).min() == 1

    @pytest.mark.parametrize("name", FITS)
    def test_oversized_samples_are_alone(self, name):
        bins = assign(name, make([25, 30, 3, 4], 1, bins_per_rank=None, capacity=10, oversized="single")).to_bins()
        assert [0] in bins
        assert [1] in bins
        assert [2, 3] in [sorted(members) for members in bins]


# ---------------------------------------------------------------------------------------------------------- open counts


@pytest.mark.parametrize(
    "name", ["lpt", "kk", "first_fit_decreasing", "best_fit_decreasing", "exact_fill", "equal_count"]
)
@examples(100)
@given(st.data())
def test_an_open_count_is_one_the_algorithm_could_not_undercut(name, data):
    """Closing the problem at any smaller count gives no layout; the smallest count of all is a bound."""
    ranks = data.draw(st.integers(1, 3))
    tokens = data.draw(column(ranks * data.draw(st.integers(1, 3)), 1, 12))
    problem = make(tokens, ranks, bins_per_rank=None, capacity=12)
    layout = assign(name, problem)
    assume(layout is not None)
    found = layout.num_bins // ranks
    for fewer in range(1, found):
        assert assign(name, problem.with_bins_per_rank(fewer)) is None
    assert found >= fewest_bins_per_rank(problem)[0]


@examples(150)
@given(st.integers(1, 2), st.data())
def test_decreasing_fits_are_near_the_smallest_count(ranks, data):
    tokens = data.draw(column(data.draw(st.integers(ranks, 7)), 1, 12))
    problem = make(tokens, ranks, bins_per_rank=None, capacity=12)
    least = fewest_valid(problem)
    for name in ("first_fit_decreasing", "best_fit_decreasing", "exact_fill"):
        layout = assign(name, problem)
        if layout is None:
            continue
        assert least is not None
        # 11/9 OPT + 6/9 packs (Dosa 2007), which is no more than one above up to six packs.
        packs = pack(tokens, 12, algorithm=name).num_bins
        assert layout.num_bins // ranks == -(-packs // ranks)
        assert layout.num_bins // ranks <= least + 1


def test_the_smallest_count_by_hand():
    for name in ("lpt", "kk", "first_fit_decreasing", "best_fit_decreasing", "exact_fill"):
        layout = assign(name, make([6, 6, 4, 4, 3, 3], ranks=2, bins_per_rank=None, capacity=14))
        assert layout.num_bins == 2
        layout = assign(name, make([6, 6, 4, 4, 3, 3], ranks=2, bins_per_rank=None, capacity=12))
        assert layout.num_bins == 4


# ---------------------------------------------------------------------------------------------------------------- none


class TestIdentity:
    @examples(100)
    @given(st.integers(1, 4), st.integers(1, 3), st.data())
    def test_samples_stay_in_order(self, ranks, slots, data):
        tokens = data.draw(column(data.draw(st.integers(ranks * slots, 15)), 1, 9))
        layout = assign("none", make(tokens, ranks, bins_per_rank=slots))
        assert list(chain.from_iterable(layout.to_bins())) == list(range(len(tokens)))
        counts = np.diff(layout.offsets)
        assert counts.max() - counts.min() <= 1

    def test_the_reference_is_the_answer(self):
        reference = Assignment.from_bins([[3, 1], [0, 2]])
        assert assign("none", make([1, 2, 3, 4], reference=reference)) is reference

    def test_nothing_is_moved_to_fit(self):
        assert assign("none", make([5, 5, 1, 1], capacity=9)) is None
        assert assign("none", make([5, 1, 5, 1], capacity=9)).to_bins() == [[0, 1], [2, 3]]

    def test_an_open_problem_takes_the_first_count_that_fits(self):
        problem = make([5, 5, 1, 1], ranks=1, bins_per_rank=None, capacity=9)
        assert assign("none", problem).to_bins() == [[0], [1], [2, 3]]


def test_every_kind_gets_a_bin_of_its_own():
    """Four kinds in pairs need four bins; the heaviest four samples alone would open them for two kinds only."""
    problem = Problem(
        tokens=[1] * 8,
        cost=[9, 9, 8, 8, 2, 2, 1, 1],
        ranks=2,
        bins_per_rank=None,
        capacity=8,
        forbid=[0, 0, 1, 1, 2, 2, 3, 3],
    )
    layout = resolve_algorithm("lpt").instance.assign(problem)
    assert sorted(map(sorted, layout.to_bins())) == [[0, 1], [2, 3], [4, 5], [6, 7]]
