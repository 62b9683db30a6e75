"""The conformance kit: honest plugins pass, every way to cheat is caught by the check that is meant for it."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import threading
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import packing.testing
from packing import ConfigError, Planner, PluginError, UnknownNameError, _kernels
from packing.audit import first_violation
from packing.plugin import AlgorithmSpec, Assignment, EstimatorSpec, hookimpl
from packing.registry import get_registry, listing, resolve_algorithm
from packing.testing import (
    AlgorithmConformance,
    EstimatorConformance,
    Instance,
    boundary_instances,
    check_algorithm,
    check_estimator,
    instances,
    isolated_registry,
    temporary_plugin,
)
from packing.testing._algorithm_checks import ALGORITHM_CHECKS
from packing.testing._estimator_checks import ESTIMATOR_CHECKS
from tests.conftest import ROOT
from tests.plugins import cheats

ALGORITHMS = [
    "auto", "lpt", "exchange", "feasible_lpt", "kk", "combine", "level_multifit", "equal_count", "first_fit",
    "first_fit_decreasing", "best_fit_decreasing", "exact_fill", "next_fit", "none",
]  # fmt: skip
EFFORT = 16 if _kernels.backend == "reference" else 48  # a number: the kit asks a new process for the same answers
OPTIONS = {"auto": {"effort": EFFORT}, "exchange": {"effort": EFFORT}}
NO_CANDIDATE = {"equal_count": {"uneven_count": "its samples are no multiple of the ranks"}}
LLAMA = json.loads((ROOT / "tests" / "data" / "configs" / "llama-3.1-8b.json").read_text())["config"]
CONFIGS = ["tokens", "attention", {"name": "flops", "model": LLAMA, "prefix_column": "prefix"}]


@pytest.fixture(autouse=True)
def _nothing_installed():
    """What happens to be installed beside the package plays no part."""
    with isolated_registry():
        yield


# ---------------------------------------------------------------------------------------------------------- built-ins


def test_every_built_in_is_checked():
    offers = [offer for kind in ("algorithm", "estimator") for offer in get_registry().offers(kind)]
    names = {offer.spec.name for offer in offers}
    assert names == {*ALGORITHMS, "tokens", "attention", "flops"}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_built_in_algorithms_pass(name):
    report = check_algorithm({"name": name, **OPTIONS.get(name, {})}, no_candidate=NO_CANDIDATE.get(name))
    assert report.ok
    assert {result.outcome for result in report.results} == {"passed"}
    assert [result.check for result in report.results] == list(ALGORITHM_CHECKS)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_built_in_algorithms_pass_through_the_door_of_plugins(name):
    specs = [offer.spec for offer in get_registry().offers("algorithm")]
    with temporary_plugin("loopback", algorithms=specs):
        assert resolve_algorithm(f"loopback/{name}").distribution == "test-loopback"
        config = {"name": f"loopback/{name}", **OPTIONS.get(name, {})}
        assert check_algorithm(config, no_candidate=NO_CANDIDATE.get(name)).ok


@pytest.mark.parametrize("config", CONFIGS, ids=["tokens", "attention", "flops"])
def test_the_built_in_estimators_pass(config):
    report = check_estimator(config)
    assert {result.outcome for result in report.results} == {"passed"}
    specs = [offer.spec for offer in get_registry().offers("estimator")]
    name = config if isinstance(config, str) else config["name"]
    options = {} if isinstance(config, str) else config
    with temporary_plugin("loopback", estimators=specs):
        assert check_estimator({**options, "name": f"loopback/{name}"}, seed=1).ok


# ------------------------------------------------------------------------------------------------------------- cheats


def algorithm_failures(config) -> set[str]:
    """The checks that an algorithm fails."""
    with pytest.raises(AssertionError) as caught:
        check_algorithm(config)
    return set(re.findall(r"^  (\w+): failed: instance '\w+'", str(caught.value), flags=re.MULTILINE)) | set(
        re.findall(r"^  (\w+): failed: the ", str(caught.value), flags=re.MULTILINE)
    )


def estimator_failures(config) -> set[str]:
    """The checks that an estimator fails."""
    with pytest.raises(AssertionError) as caught:
        check_estimator(config)
    return set(re.findall(r"^  (\w+): failed: (?:table '\w+'|the )", str(caught.value), flags=re.MULTILINE))


def spec_of(kind, cheat):
    capabilities = getattr(cheat, "capabilities", cheats.LIMITS) if kind is AlgorithmSpec else ()
    return kind("cheat", f"tests.plugins.cheats:{cheat.__name__}", capabilities=capabilities)


def config_of(cheat):
    options = getattr(cheat, "options", None)
    return {"name": "cheats/cheat", **options} if options else "cheats/cheat"


def test_the_honest_ones_pass():
    with temporary_plugin(
        "cheats",
        algorithms=[spec_of(AlgorithmSpec, cheats.Honest)],
        estimators=[spec_of(EstimatorSpec, cheats.HonestCost)],
    ):
        assert check_algorithm("cheats/cheat").ok
        assert check_estimator("cheats/cheat").ok


# A cheat that changes whole answers is noticed by more than one check, but never by one that has nothing to do with it.
_EVERYWHERE = {"same_in_threads", "same_in_new_process", "same_after_relabelling", "config_round_trips", "pickles"}
ALSO = {
    "Drops": {"equal_counts"},
    "Repeats": {"caps_kept", "budgets_kept", "equal_counts"},
    "Overflows": {"budgets_kept", "equal_counts"},
    "Writes": {"returns_a_layout"},
    "Remembers": _EVERYWHERE,
    "Draws": _EVERYWHERE,
    "LooksAtTheClock": _EVERYWHERE,
}


@pytest.mark.parametrize("cheat", cheats.ALGORITHMS, ids=lambda one: one.__name__)
def test_a_cheating_algorithm_is_caught_by_the_named_check(cheat):
    with temporary_plugin("cheats", algorithms=[spec_of(AlgorithmSpec, cheat)]):
        failed = algorithm_failures(config_of(cheat))
    assert cheat.caught_by in failed
    assert failed <= {cheat.caught_by} | ALSO.get(cheat.__name__, set())


def test_capabilities_that_change_are_caught():
    assert "undeclared_features_refused" in algorithm_failures(cheats.ShiftyCapabilities)


@pytest.mark.parametrize("cheat", cheats.ESTIMATORS, ids=lambda one: one.__name__)
def test_a_cheating_estimator_is_caught_by_the_named_check(cheat):
    with temporary_plugin("cheats", estimators=[spec_of(EstimatorSpec, cheat)]):
        assert cheat.caught_by in estimator_failures(config_of(cheat))


def test_every_check_catches_somebody():
    assert {one.caught_by for one in cheats.ALGORITHMS} | {"undeclared_features_refused"} == set(ALGORITHM_CHECKS)
    assert {one.caught_by for one in cheats.ESTIMATORS} == set(ESTIMATOR_CHECKS)


def test_a_plugin_that_another_process_cannot_import_is_named():
    class Local(cheats.Honest):
        pass

    with temporary_plugin("local", algorithms=[AlgorithmSpec("one", Local, capabilities=cheats.LIMITS)]):
        assert "same_in_new_process" in algorithm_failures("local/one")


def test_classes_and_objects_are_checked_too():
    for config in (cheats.Honest, cheats.Honest()):
        report = check_algorithm(config)
        assert report["config_round_trips"].outcome == "skipped"
        assert report.ok
    assert check_estimator(cheats.HonestCost()).ok


# ------------------------------------------------------------------------------------------------------- declarations


def test_declared_failures_are_strict():
    with temporary_plugin("cheats", algorithms=[spec_of(AlgorithmSpec, cheats.Garbage)]):
        report = check_algorithm("cheats/cheat", expected_failures={"returns_a_layout": "lists are what we have"})
        assert report["returns_a_layout"].outcome == "failed as declared"
        assert report["returns_a_layout"].detail == "lists are what we have"
        with pytest.raises(AssertionError, match=r"caps_kept: passed against its declaration: .*\(why not\)"):
            check_algorithm("cheats/cheat", expected_failures={"returns_a_layout": "lists", "caps_kept": "why not"})


def test_declared_instances_without_a_candidate_are_strict():
    with pytest.raises(AssertionError, match="instance 'all_equal': a layout was found, although `no_candidate`"):
        check_algorithm("kk", no_candidate={"all_equal": "it never works"})
    with pytest.raises(AssertionError, match="finds_easy_layouts: failed: instance 'uneven_count': no candidate"):
        check_algorithm("equal_count")


@pytest.mark.parametrize("option", ["expected_failures", "no_candidate"])
def test_declarations_need_known_names_and_reasons(option):
    with pytest.raises(ConfigError, match=f"`{option}` names 'cap_kept', but there are: "):
        check_algorithm("kk", **{option: {"cap_kept": "a typing error"}})
    name = {"expected_failures": "caps_kept", "no_candidate": "all_equal"}[option]
    with pytest.raises(ConfigError, match=f"`{option}` must give a reason for '{name}', but got ''"):
        check_algorithm("kk", **{option: {name: ""}})


def test_an_unknown_config_is_an_error_not_a_failure():
    with pytest.raises(UnknownNameError, match="karmarkar"):
        check_algorithm("karmarkar")
    with pytest.raises(UnknownNameError, match="flop"):
        check_estimator("flop")


# ------------------------------------------------------------------------------------------------------------- pytest


class TestKarmarkarKarp(AlgorithmConformance):
    config: ClassVar = {"name": "kk"}
    seed = 2


class TestEqualCount(AlgorithmConformance):
    config = "equal_count"
    no_candidate = NO_CANDIDATE["equal_count"]


class TestPrefixFlops(EstimatorConformance):
    config = CONFIGS[2]

    def make_columns(self, lengths):
        return {"prefix": lengths // 3}


OUTSIDE = """
from packing.testing import AlgorithmConformance, EstimatorConformance
from tests.plugins import cheats

class TestHonest(AlgorithmConformance):
    config = cheats.Honest

class TestDrops(AlgorithmConformance):
    config = cheats.Drops
    expected_failures = {"every_sample_once": "it drops", "caps_kept": "nothing of the kind"}

class TestTypingError(AlgorithmConformance):
    config = "kk"
    expected_failures = {"cap_kept": "no such check"}

class TestNegative(EstimatorConformance):
    config = cheats.Negative
"""


def test_the_classes_in_a_test_run_of_its_own(tmp_path):
    (tmp_path / "test_outside.py").write_text(OUTSIDE)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    process = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", "."],
        cwd=tmp_path,
        env={**_environment(), "PYTHONPATH": f"{Path(packing.__file__).parents[1]}:{ROOT}"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    out = process.stdout
    assert process.returncode == 1, out + process.stderr
    for line in (
        "PASSED test_outside.py::TestHonest::test_conformance[caps_kept]",
        "XFAIL test_outside.py::TestDrops::test_conformance[every_sample_once] - it drops",
        "FAILED test_outside.py::TestDrops::test_conformance[caps_kept]",
        "ERROR test_outside.py::TestTypingError::test_conformance[caps_kept]",
        "FAILED test_outside.py::TestNegative::test_conformance[gives_costs]",
    ):
        assert line in out, out
    assert not re.search(r"(FAILED|ERROR) test_outside.py::TestHonest", out)
    assert "caps_kept: passed against its declaration" in out


def _environment():
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}


def test_only_the_classes_need_pytest():
    code = (
        "import sys; sys.modules['pytest'] = None\n"
        "from packing.testing import check_algorithm, temporary_plugin, instances\n"
        "print(check_algorithm('next_fit').ok)\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", code],
        env={**_environment(), "PYTHONPATH": str(Path(packing.__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert process.stdout == "True\n", process.stderr


def test_the_kit_uses_only_public_names():
    for path in Path(packing.testing.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module.startswith("packing"):
                assert node.module.startswith("packing.testing.") or "._" not in node.module, (path.name, node.module)
                assert not any(alias.name.startswith("_") for alias in node.names), (path.name, node.module)


# ---------------------------------------------------------------------------------------------------------- instances


def test_instances_are_the_same_for_the_same_seed():
    one, other, different = instances(7), instances(7), instances(8)
    assert [instance.name for instance in one] == [instance.name for instance in different]
    assert len({instance.name for instance in one}) == len(one)
    for first, second in zip(one, other, strict=True):
        assert first.difficulty in ("easy", "hard", "impossible")
        assert np.array_equal(first.problem.tokens, second.problem.tokens)
        assert np.array_equal(first.problem.cost, second.problem.cost)
    assert any(not np.array_equal(a.problem.tokens, b.problem.tokens) for a, b in zip(one, different, strict=True))


def test_the_boundaries_are_there_by_name():
    found = boundary_instances()
    assert all(instance.name == name for name, instance in found.items())
    few = found["fewer_samples_than_bins"].problem
    assert few.num_samples < few.num_bins
    equal = found["as_many_samples_as_bins"].problem
    assert equal.num_samples == equal.num_bins
    assert {63, 64, 65, 127, 128, 129} <= set(found["word_edges"].problem.tokens.tolist())
    assert len(set(found["all_equal"].problem.tokens.tolist())) == 1
    assert not found["zero_cost"].problem.cost.any()
    exact, over = found["exactly_full"].problem, found["one_over"].problem
    assert exact.tokens.sum() == exact.num_bins * exact.capacity
    assert over.tokens.sum() == exact.tokens.sum() + 1
    giant = np.sort(found["one_giant"].problem.tokens)
    assert giant[-1] > giant[:-1].sum()


@pytest.mark.parametrize("seed", range(5))
def test_easy_means_that_equal_counts_fit(seed):
    for instance in instances(seed):
        problem = instance.problem
        if instance.difficulty != "easy" or problem.bins_per_rank is None:
            continue
        dealt = Assignment.from_bin_of(
            np.arange(problem.num_samples) * problem.num_bins // problem.num_samples, problem.num_bins
        )
        assert first_violation(problem, dealt) is None, instance.name


def layouts_of(num_samples: int, num_bins: int):
    """Every layout of a few samples."""
    for code in range(num_bins**num_samples):
        yield Assignment.from_bin_of([code // num_bins**i % num_bins for i in range(num_samples)], num_bins)


IMPOSSIBLE = [instance for instance in instances() if instance.difficulty == "impossible"]


@pytest.mark.parametrize("instance", IMPOSSIBLE, ids=lambda one: one.name)
def test_impossible_means_that_there_is_no_layout(instance):
    problem = instance.problem
    if problem.num_bins**problem.num_samples > 5000:
        # Only a sum tells.
        assert problem.tokens.sum() > problem.num_bins * problem.capacity
    else:
        assert all(first_violation(problem, layout) for layout in layouts_of(problem.num_samples, problem.num_bins))


def test_hard_instances_of_full_bins_have_a_layout():
    problem = boundary_instances()["exactly_full"].problem
    bins = [[0, 1], [2, 3], [4, 5], [6, 7, 8], [9, 10, 11]]
    assert first_violation(problem, Assignment.from_bins(bins)) is None
    problem = boundary_instances()["different_capacities"].problem
    assert first_violation(problem, Assignment.from_bins([[3, 4], [0, 5], [1, 2]])) is None


def test_own_instances_are_asked_instead():
    asked = []

    class Counts(cheats.Honest):
        def assign(self, problem):
            asked.append(problem.num_samples)
            return super().assign(problem)

    one = Instance("mine", boundary_instances()["all_equal"].problem, "easy")
    Counts.capabilities = cheats.LIMITS
    check_algorithm(
        Counts,
        instances=[one],
        expected_failures=dict.fromkeys(("same_in_new_process", "pickles"), "a class of this very test"),
    )
    assert set(asked) == {16}


# --------------------------------------------------------------------------------------------------------- registries


def test_a_temporary_plugin_is_there_and_gone():
    before = get_registry()
    spec = spec_of(AlgorithmSpec, cheats.Honest)
    with temporary_plugin("one", algorithms=[spec]):
        with temporary_plugin("two", algorithms=[spec], estimators=[spec_of(EstimatorSpec, cheats.HonestCost)]):
            plan = Planner(data_parallel_size=2, algorithm="one/cheat", estimator="two/cheat").plan([5, 3, 2, 7])
            assert plan.algorithm == "one/cheat"
            names = {row["name"]: row for row in listing()}
            assert {"one/cheat", "two/cheat", "kk"} <= names.keys()
            assert names["one/cheat"]["distribution"] == "test-one"
        with pytest.raises(UnknownNameError, match="no plugin 'two' is installed"):
            resolve_algorithm("two/cheat")
        assert resolve_algorithm("cheat").name == "one/cheat"
    assert get_registry() is before


def test_what_was_before_comes_back_after_an_error():
    before = get_registry()
    with pytest.raises(ZeroDivisionError), temporary_plugin("one", algorithms=[spec_of(AlgorithmSpec, cheats.Honest)]):
        raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError), isolated_registry():
        raise ZeroDivisionError
    assert get_registry() is before


def test_isolated_means_only_what_is_given(monkeypatch):
    monkeypatch.setenv("PACKING_PLUGINS", "somebody_else")
    module = types.ModuleType("tests_plugins_given")

    @hookimpl
    def packing_algorithms(host):
        return [spec_of(AlgorithmSpec, cheats.Honest)]

    module.packing_algorithms = packing_algorithms
    with temporary_plugin("outer", algorithms=[spec_of(AlgorithmSpec, cheats.Honest)]), isolated_registry(given=module):
        assert resolve_algorithm("given/cheat").name == "given/cheat"
        assert not [row for row in listing() if row["name"].startswith("outer/")]
        with pytest.raises(UnknownNameError):
            resolve_algorithm("outer/cheat")


def test_a_given_module_is_found_in_a_new_process(tmp_path, monkeypatch):
    (tmp_path / "given_plugin.py").write_text(
        "from packing.plugin import AlgorithmSpec, hookimpl\n"
        "@hookimpl\n"
        "def packing_algorithms(host):\n"
        "    return [AlgorithmSpec('honest', 'tests.plugins.cheats:Honest', capabilities={'capacity'})]\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    import given_plugin

    with isolated_registry(given=given_plugin):
        assert check_algorithm("given/honest").ok


@pytest.mark.filterwarnings("ignore::packing.registry.PluginWarning")
def test_a_plugin_that_cannot_be_used_is_an_error_at_once():
    spec = spec_of(AlgorithmSpec, cheats.Honest)
    with pytest.raises(PluginError, match="must offer at least one"), temporary_plugin("one"):
        pass
    with (
        pytest.raises(PluginError, match=r"plugin 'One' cannot be used: .*must match"),
        temporary_plugin("One", algorithms=[spec]),
    ):
        pass
    with pytest.raises(PluginError, match=r"cannot be used: .*twice"), temporary_plugin("one", algorithms=[spec, spec]):
        pass
    with (
        temporary_plugin("one", algorithms=[spec]),
        pytest.raises(PluginError, match=r"plugin 'one' cannot be used: .*claimed by"),
        temporary_plugin("one", algorithms=[spec]),
    ):
        pass
    with (
        pytest.raises(PluginError, match=r"plugin 'empty' cannot be used: .*neither"),
        isolated_registry(empty=types.ModuleType("empty")),
    ):
        pass
    with pytest.raises(ConfigError, match="`given` must be a module with hooks, but got 3"), isolated_registry(given=3):
        pass


def test_registries_of_threads_do_not_stay_behind():
    before = get_registry()
    start = threading.Barrier(8)

    def use(number: int) -> None:
        start.wait(timeout=60)
        for _ in range(20):
            with (
                isolated_registry(),
                temporary_plugin(f"t{number}", algorithms=[spec_of(AlgorithmSpec, cheats.Honest)]),
            ):
                get_registry()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(use, range(8)))
    assert get_registry() is before


def test_columns_of_the_kit_can_be_extended():
    """An override starts from what the base class makes."""

    class Flops(EstimatorConformance):
        config: ClassVar = {"name": "flops", "model": LLAMA, "prefix_column": "prefix"}

        def make_columns(self, lengths):
            return {**super().make_columns(lengths), "more": lengths}

    lengths = np.asarray([5, 9, 1], np.int64)
    columns = Flops().make_columns(lengths)
    assert sorted(columns) == ["more", "prefix"]
    assert ((columns["prefix"] >= 0) & (columns["prefix"] <= lengths)).all()
    assert columns["prefix"].tolist() == Flops().make_columns(lengths)["prefix"].tolist()
