"""Algorithms that break their contract are caught and named; capabilities say who may be asked at all."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from packing import Assignment, AuditError, NoCandidateError, Planner, PluginError, UnsupportedProblemError
from packing.plugin import CAPABILITIES
from packing.registry import resolve_algorithm

LENGTHS = [9, 7, 5, 3, 2, 2]


@pytest.fixture
def plan(registry_of):
    registry_of("misbehaving")

    def of(name, **settings):
        settings = {"data_parallel_size": 2, "local_batch_size": 1, "seq_len": 16} | settings
        return Planner(algorithm=f"misbehaving/{name}", **settings).plan(LENGTHS)

    return of


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("drops", "sample 4 (2 tokens) is in no bin"),
        ("repeats", "sample 0 occurs 2 times, in bins [0, 1]"),
        ("overflows", "sample 2 (5 tokens) does not fit into bin 0: 16 + 5 tokens exceed the capacity 16"),
        ("empties", "bin 1 is empty"),
        ("invents", "bin 0 holds sample 6, but the samples are 0 to 5"),
        ("toomany", "the layout has 3 bins instead of 2"),
    ],
)
def test_a_broken_layout_is_caught(plan, name, expected):
    settings = {"seq_len": None} if name == "empties" else {}
    with pytest.raises(AuditError) as caught:
        plan(name, **settings)
    assert str(caught.value) == f"algorithm 'misbehaving/{name}' broke its contract: {expected}."


def test_what_is_no_layout_is_caught(plan):
    with pytest.raises(AuditError) as caught:
        plan("garbage")
    assert str(caught.value) == (
        "algorithm 'misbehaving/garbage' must return an Assignment or None, but returned <class 'list'>."
    )


def test_an_exception_comes_through_unchanged(plan):
    with pytest.raises(RuntimeError) as caught:
        plan("fails")
    assert caught.value is sys.modules["misbehaving"].Fails.error
    assert caught.value.args == ("the solver crashed",)
    assert caught.value.__cause__ is None


def test_inputs_are_read_only(plan):
    with pytest.raises(ValueError, match="read-only"):
        plan("writes")


def test_inputs_that_were_changed_all_the_same_are_caught(plan):
    with pytest.raises(AuditError) as caught:
        plan("writesbehind")
    assert (
        str(caught.value) == "algorithm 'misbehaving/writesbehind' broke its contract: it changed the problem's `cost`."
    )


def test_giving_up_is_named(plan):
    with pytest.raises(
        NoCandidateError, match=r"^`algorithm` 'misbehaving/givesup' found no layout of 6 samples in 2 bins"
    ):
        plan("givesup")


def test_a_broken_layout_is_caught_with_a_reference_too(registry_of):
    registry_of("misbehaving")
    planner = Planner(data_parallel_size=2, algorithm="misbehaving/drops")
    with pytest.raises(AuditError, match="in no bin"):
        planner.plan(LENGTHS, reference_bins=[[0, 1], [2, 3, 4, 5]])


@pytest.mark.parametrize("name", ["drops", "repeats", "overflows", "invents", "toomany", "garbage", "writesbehind"])
def test_a_planner_survives_its_algorithm(plan, name):
    with pytest.raises(AuditError):
        plan(name)
    assert Planner(data_parallel_size=2, seq_len=16, algorithm="lpt").plan(LENGTHS).num_bins == 2


# ------------------------------------------------------------------------------------------------------ capabilities


class Anything:
    def assign(self, problem):
        return Assignment.from_bin_of(np.arange(problem.num_samples) % problem.num_bins, problem.num_bins)


def test_what_is_not_declared_is_refused_and_who_can_is_named(registry_of):
    registry_of("good_one")
    with pytest.raises(UnsupportedProblemError) as caught:
        Planner(data_parallel_size=2, algorithm="snake", seq_len=40, local_batch_size=1, max_items=4).plan(LENGTHS)
    assert str(caught.value).startswith(
        "`algorithm` 'good/snake' does not support what this problem needs: `max_items`; those that do: auto, lpt, "
    )
    with pytest.raises(UnsupportedProblemError, match=r"needs: `budgets`, `max_items`; those that do: auto, lpt, "):
        Planner(
            data_parallel_size=2,
            algorithm="kk",
            seq_len=40,
            local_batch_size=1,
            max_items=4,
            packing_budgets={"bytes": 9},
        ).plan({"length": LENGTHS, "bytes": [1] * 6})


def test_a_plugin_that_can_is_named(registry_of):
    registry_of("misbehaving")
    with pytest.raises(UnsupportedProblemError, match=r"needs: `group`; those that do: .*misbehaving/drops"):
        Planner(data_parallel_size=2, algorithm="kk", seq_len=40, local_batch_size=1, group="g").plan(
            {"length": LENGTHS, "g": [1, 1, 2, 2, 3, 3]}
        )


@pytest.mark.parametrize("objective", ["makespan", "balance"])
def test_who_names_no_objective_is_indifferent(registry_of, objective):
    registry_of("good_one")
    # `focused` declares nothing at all, `Anything` has not even the attribute.
    for algorithm in ("focused", Anything()):
        plan = Planner(data_parallel_size=2, algorithm=algorithm, objective=objective).plan(LENGTHS)
        assert plan.objective == objective


def test_who_names_objectives_means_it(registry_of):
    registry_of()
    picky = Anything()
    picky.capabilities = {"makespan"}
    assert Planner(data_parallel_size=2, algorithm=picky).plan(LENGTHS).objective == "makespan"
    with pytest.raises(UnsupportedProblemError, match="needs: `balance`"):
        Planner(data_parallel_size=2, algorithm=picky, objective="balance").plan(LENGTHS)


def test_the_built_ins_declare_only_what_exists(registry_of):
    registry = registry_of()
    offers = registry.offers("algorithm")
    assert {offer.spec.name for offer in offers} >= {
        "lpt", "kk", "equal_count", "first_fit", "first_fit_decreasing", "best_fit_decreasing", "exact_fill",
        "next_fit", "none"
    }  # fmt: skip
    for offer in offers:
        assert offer.spec.capabilities <= CAPABILITIES
        assert offer.spec.summary
        assert callable(resolve_algorithm(offer.spec.name).instance.assign)


def test_an_estimator_that_changes_its_lengths():
    class Quarter:
        columns = ("length",)

        def __call__(self, columns):
            lengths = columns["length"]
            lengths.flags.writeable = True
            lengths //= 4
            return lengths

    planner = Planner(data_parallel_size=2, seq_len=20, estimator=Quarter())
    with pytest.raises(PluginError, match="it changed the column `length`"):
        planner.plan([16] * 4)


def test_an_algorithm_that_would_end_the_program():
    class Leaves:
        def assign(self, problem):
            raise SystemExit(3)

    with pytest.raises(PluginError, match=r"Leaves' raised SystemExit\(3\)"):
        Planner(data_parallel_size=2, algorithm=Leaves()).plan([1, 2])


def test_an_exception_names_whose_it_is():
    class Fails:
        columns = ("length",)

        def __call__(self, columns):
            raise KeyError("bucket 7")

    with pytest.raises(KeyError) as caught:
        Planner(data_parallel_size=2, estimator=Fails()).plan([1, 2])
    assert "Fails" in caught.value.__notes__[0]
