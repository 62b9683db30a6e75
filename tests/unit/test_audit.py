"""The audit finds every way of being wrong, names it, and agrees with the one predicate."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from packing.assignment import Assignment
from packing.audit import audit, first_violation, is_valid
from packing.errors import AuditError
from packing.problem import Problem
from tests.problems import column, examples, problems, replay, valid_layouts


def make(**fields) -> Problem:
    return Problem(**({"tokens": [3, 5, 4, 2], "cost": [1, 2, 3, 4], "ranks": 2} | fields))


@pytest.mark.parametrize(
    ("fields", "bins", "violation"),
    [
        ({}, [[0, 1], [2, 3]], None),
        ({}, [[0, 1, 2, 3]], "the layout has 1 bins instead of 2"),
        ({}, [[0, 1], [2, 3], []], "the layout has 3 bins instead of 2"),
        ({}, [[0, 1], [2, 4]], "bin 1 holds sample 4, but the samples are 0 to 3"),
        ({}, [[0, -1], [2, 3]], "bin 0 holds sample -1, but the samples are 0 to 3"),
        ({"bins_per_rank": 2}, [[], [0, 1], [], [9]], "bin 3 holds sample 9, but the samples are 0 to 3"),
        ({}, [[0, 1], [3]], "sample 2 (4 tokens) is in no bin"),
        ({}, [[0, 1, 3], [2, 3]], "sample 3 occurs 2 times, in bins [0, 1]"),
        ({}, [[0, 1, 3, 3], [2]], "sample 3 occurs 2 times, in bins [0]"),
        ({}, [[0, 1, 1], [2]], "sample 1 occurs 2 times, in bins [0]"),
        ({}, [[0, 1, 2, 3], []], "bin 1 is empty"),
        ({"capacity": 8}, [[0, 1], [2, 3]], None),
        (
            {"capacity": 7},
            [[0, 1], [2, 3]],
            "sample 1 (5 tokens) does not fit into bin 0: 3 + 5 tokens exceed the capacity 7",
        ),
        ({"capacity": [6, 8]}, [[2, 3], [0, 1]], None),
        (
            {"capacity": [8, 5]},
            [[0, 1], [2, 3]],
            "sample 3 (2 tokens) does not fit into bin 1: 4 + 2 tokens exceed the capacity 5",
        ),
        ({"capacity": 9, "tokens": [3, 15, 4, 2], "oversized": "single"}, [[1], [0, 2, 3]], None),
        (
            {"capacity": 9, "tokens": [3, 15, 4, 2], "oversized": "single"},
            [[1, 3], [0, 2]],
            "sample 3 (2 tokens) does not fit into bin 0: 15 + 2 tokens exceed the capacity 9",
        ),
        (
            {"capacity": 9, "tokens": [3, 15, 4, 2]},
            [[1], [0, 2, 3]],
            "sample 1 (15 tokens) does not fit into bin 0: 0 + 15 tokens exceed the capacity 9",
        ),
        ({"footprints": [[2], [2], [1], [3]], "budgets": [4]}, [[0, 1], [2, 3]], None),
        (
            {"footprints": [[2], [2], [1], [3]], "budgets": [3], "budget_names": ("memory",)},
            [[0, 2], [1, 3]],
            "sample 3 (2 tokens) does not fit into bin 1: 2 + 3 of budget 'memory' exceed 3",
        ),
        ({"max_items": 2}, [[0, 1], [2, 3]], None),
        (
            {"max_items": 2},
            [[0], [1, 2, 3]],
            "sample 3 (2 tokens) does not fit into bin 1: the bin already holds `max_items` = 2 samples",
        ),
        ({"forbid": [0, 0, 1, 1]}, [[2, 3], [0, 1]], None),
        (
            {"forbid": [0, 1, 1, 1]},
            [[2, 3], [0, 1]],
            "sample 1 (5 tokens) does not fit into bin 1: `forbid` keeps it apart from the samples that are there",
        ),
        ({"group": [0, 0, -1, -1]}, [[2], [0, 1, 3]], None),
        (
            {"group": [0, 0, -1, 0]},
            [[0, 1], [2, 3]],
            "sample 3 (2 tokens) does not fit into bin 1: its group is in bin 0, not in 1",
        ),
        ({"group": [0, 0, 1, 1], "group_scope": "rank", "bins_per_rank": 2}, [[0], [1], [2], [3]], None),
        (
            {"group": [0, 1, 1, 0], "group_scope": "rank", "bins_per_rank": 2},
            [[0], [3], [2], [1]],
            None,
        ),
        (
            {"group": [0, 1, 0, 1], "group_scope": "rank", "bins_per_rank": 2},
            [[0], [1], [2], [3]],
            "sample 2 (4 tokens) does not fit into bin 2: its group is in rank 0, not in 1",
        ),
        ({"equal_count": True}, [[0, 3], [1, 2]], None),
        ({"equal_count": True}, [[0], [1, 2, 3]], "rank 0 has 1 samples, rank 1 3"),
        (
            {"equal_count": True, "bins_per_rank": 2, "tokens": [1] * 6, "cost": [1] * 6},
            [[0], [1, 2], [3, 4], [5]],
            None,
        ),
    ],
)
def test_every_way_of_being_wrong(fields, bins, violation):
    problem, layout = make(**fields), Assignment.from_bins(bins)
    assert first_violation(problem, layout) == violation
    if violation is None:
        assert audit(problem, layout, "snake") is layout
    else:
        with pytest.raises(AuditError) as error:
            audit(problem, layout, "snake")
        assert str(error.value) == f"algorithm 'snake' broke its contract: {violation}."


def test_what_is_no_layout():
    with pytest.raises(AuditError) as error:
        audit(make(), [[0, 1], [2, 3]], "snake")
    assert str(error.value) == "algorithm 'snake' must return an Assignment or None, but returned <class 'list'>."


def test_samples_in_the_words_of_the_caller():
    layout = Assignment.from_bins([[0, 1], [2, 2]])
    assert first_violation(make(), layout, lambda index: f"document {index + 10}") == (
        "document 12 occurs 2 times, in bins [1]"
    )


@st.composite
def problems_with_layouts(draw):
    """Every sample once, no bin empty: what is left to be wrong are the limits."""
    problem = draw(problems(equal_count=False))
    order = draw(st.permutations(range(problem.num_samples)))
    cuts = draw(
        st.lists(
            st.integers(1, max(1, problem.num_samples - 1)),
            min_size=problem.num_bins - 1, max_size=problem.num_bins - 1, unique=True,
        )
    )  # fmt: skip
    edges = [0, *sorted(cuts), problem.num_samples]
    if draw(st.booleans()):
        capacity = draw(column(problem.num_bins, 4, 40))
        problem = replace(problem, capacity=capacity, pad_cost=None)
    return problem, Assignment(edges, order)


@examples(300)
@given(problems_with_layouts())
def test_the_fast_form_agrees_with_the_predicate(case):
    problem, layout = case
    assert (first_violation(problem, layout) is None) is replay(problem, layout)
    assert is_valid(problem, layout) is replay(problem, layout)


@examples(60)
@given(problems(max_samples=5))
def test_every_layout_of_brute_force_passes(problem):
    for layout in valid_layouts(problem):
        assert first_violation(problem, layout) is None
