"""Names to offers: who is found, who is loaded, and what a broken plugin does to the others."""

from __future__ import annotations

import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from packing import AmbiguousNameError, Planner, PluginError, UnknownNameError
from packing.plugin import API_VERSION, CAPABILITIES, AlgorithmSpec, EstimatorSpec
from packing.registry import PluginWarning, Registry, listing, resolve_algorithm

LENGTHS = np.arange(1, 33)

BROKEN = {
    "missing_import": "a_library_that_is_not_there",
    "future_api": "'tomorrow' needs api 2, but this packing offers 1",
    "misspelled_hook": "packing_algoritms",
    "misspelled_argument": "hosts",
    "twice": "it offers the algorithm 'double' twice",
    "WrongCase": "its namespace 'WrongCase' must match [a-z][a-z0-9_]*",
    "no_module": "its entry point must name a module, but got <object object",
    "no_hooks": "it implements neither packing_algorithms nor packing_estimators; a hook is a function",
    "hook_raises": "RuntimeError: no licence server",
    "generator_raises": "RuntimeError: only half of it",
    "returns_text": "packing_algorithms must return AlgorithmSpec objects, but got 'lpt'",
    "returns_number": "packing_algorithms must return AlgorithmSpec objects, but got 5",
    "returns_none": "packing_algorithms must return AlgorithmSpec objects, but returned None",
    "returns_one_spec": "packing_algorithms must return AlgorithmSpec objects, but got AlgorithmSpec(name='single'",
    "wrong_kind": "packing_algorithms must return AlgorithmSpec objects, but got EstimatorSpec(name='mixed_up'",
    "bad_spec": "`api` of 'texty' must be a positive integer, but got '1'",
    "leaves": "SystemExit: this plugin needs another machine",
    "packing": "its namespace 'packing' belongs to the built-ins",
}


class Untouchable:
    """Entry points that nobody may look at."""

    def __iter__(self):
        raise AssertionError("the distributions were scanned")


# ------------------------------------------------------------------------------------------------------------- names


def test_a_built_in_name_scans_nothing():
    registry = Registry(Untouchable())
    for kind, name in (("algorithm", "lpt"), ("algorithm", "packing/lpt"), ("estimator", "attention")):
        offer = registry.find(kind, name)
        assert (offer.namespace, offer.spec.name) == ("packing", name.rpartition("/")[2])
    with pytest.raises(AssertionError, match="were scanned"):
        registry.find("algorithm", "snake")


@pytest.mark.parametrize(("asked", "full"), [("snake", "good/snake"), ("good/snake", "good/snake")])
def test_a_plugin_is_chosen_through_the_planner(registry_of, asked, full):
    registry_of("good_one")
    planner = Planner(data_parallel_size=4, algorithm=asked)
    plan = planner.plan(LENGTHS)
    assert plan.algorithm == full
    assert sorted(sample for members in plan.bins() for sample in members) == list(range(32))
    assert plan.imbalance == 1.0


def test_an_estimator_of_a_plugin_is_chosen_through_the_planner(registry_of):
    registry_of("good_one")
    plan = Planner(data_parallel_size=2, estimator="good/words").plan({"length": [5, 5, 5, 5], "words": [9, 1, 1, 9]})
    assert plan.estimator == "good/words"
    assert plan.rank_loads.tolist() == [10.0, 10.0]


def test_a_full_name_loads_only_that_plugin(registry_of):
    registry = registry_of("good_one", "rival", "broken_ones")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="plugin '(WrongCase|packing)'", category=PluginWarning)
        assert registry.find("algorithm", "good/snake").full_name == "good/snake"
    assert "good_one" in sys.modules
    assert not {"rival", "missing_import", "no_hooks"} & sys.modules.keys()


def test_one_bare_name_of_two_plugins_is_ambiguous(registry_of):
    registry_of("good_one", "rival")
    with pytest.raises(AmbiguousNameError) as caught:
        resolve_algorithm("snake")
    assert str(caught.value) == (
        "`algorithm` 'snake' is offered by more than one plugin; "
        'choose "good/snake" (good-one) or "rival/snake" (rival).'
    )
    assert resolve_algorithm("rival/snake").distribution == "rival"


def test_built_in_names_are_not_shadowed(registry_of):
    registry = registry_of("rival")
    assert len(registry.offers("algorithm")) > 2  # the rival is loaded
    assert resolve_algorithm("lpt").distribution == "packing"
    assert resolve_algorithm({"name": "lpt"}).name == "lpt"
    assert resolve_algorithm("rival/lpt").name == "rival/lpt"


def test_algorithms_and_estimators_are_looked_up_apart(registry_of):
    registry = registry_of("good_one")
    with pytest.raises(UnknownNameError, match=r"^`estimator` 'good/snake' does not exist \(plugin 'good' offers no"):
        registry.find("estimator", "good/snake")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("lptt", "`algorithm` 'lptt' does not exist. Did you mean 'lpt'? There are: auto, lpt, "),
        ("LPT", "Did you mean 'lpt'?"),
        ("snaek", "Did you mean 'good/snake'?"),
        ("good/snaek", "(plugin 'good' offers no algorithm 'snaek'). Did you mean 'good/snake'?"),
        ("godo/snake", "(no plugin 'godo' is installed). Did you mean 'good/snake'?"),
        ("packing/lptt", "(plugin 'packing' offers no algorithm 'lptt'). Did you mean 'lpt'?"),
        ("zzzzzzzz", "'zzzzzzzz' does not exist. There are: auto, lpt, "),
        ("", "`algorithm` '' does not exist. There are"),
        ("/", "`algorithm` '/' does not exist (no plugin '' is installed)."),
        ("a/b/c", "(no plugin 'a/b' is installed)"),
    ],
)
def test_unknown_names_say_what_there_is(registry_of, name, expected):
    registry_of("good_one")
    with pytest.raises(UnknownNameError) as caught:
        resolve_algorithm(name)
    assert expected in str(caught.value)
    assert "good/snake" in str(caught.value)
    assert "could not be loaded" not in str(caught.value)


# ----------------------------------------------------------------------------------------------------- broken plugins


def test_broken_plugins_break_nothing_else(registry_of):
    registry = registry_of("good_one", "broken_ones")
    with pytest.warns(PluginWarning) as caught:
        rows = registry.listing()
    messages = [str(one.message) for one in caught]
    assert sorted(message.split("'")[1] for message in messages) == sorted(BROKEN)
    for message in messages:
        namespace = message.split("'")[1]
        assert message.startswith(f"plugin {namespace!r} of broken-ones 2.0 is left out: ")
        assert BROKEN[namespace] in message

    failed = {row["name"]: row for row in rows if row["error"]}
    assert failed.keys() == BROKEN.keys()
    for namespace, row in failed.items():
        assert BROKEN[namespace] in row["error"]
        assert (row["kind"], row["distribution"], row["version"]) == ("plugin", "broken-ones", "2.0")
    assert {row["name"] for row in rows if row["distribution"] == "good-one"} == {
        "good/snake", "good/needy", "good/focused", "good/made", "good/words"
    }  # fmt: skip

    # Once: whatever is asked later, nothing is warned about again (a warning is an error in this test suite).
    assert registry.listing() == rows
    assert Planner(data_parallel_size=4, algorithm="snake").plan(LENGTHS).algorithm == "good/snake"
    with pytest.raises(UnknownNameError) as unknown:
        resolve_algorithm("snaek")
    for namespace, reason in BROKEN.items():
        assert f"{namespace} (" in str(unknown.value)
        assert reason in str(unknown.value)


def test_a_broken_plugin_says_why_when_it_is_asked_for(registry_of):
    registry = registry_of("good_one", "broken_ones")
    with pytest.warns(PluginWarning), pytest.raises(UnknownNameError) as caught:
        registry.find("algorithm", "hook_raises/anything")
    assert "`algorithm` 'hook_raises/anything' does not exist (RuntimeError: no licence server)." in str(caught.value)
    with pytest.raises(UnknownNameError, match=r"'WrongCase/fine' does not exist \(its namespace 'WrongCase' must mat"):
        registry.find("algorithm", "WrongCase/fine")


def test_a_namespace_that_two_distributions_claim_belongs_to_neither(registry_of):
    registry = registry_of("claims_b", "claims_a", "good_one")
    with pytest.warns(PluginWarning) as caught, pytest.raises(UnknownNameError) as unknown:
        registry.find("algorithm", "claimed/anything")
    assert len(caught) == 1
    assert "its namespace 'claimed' is claimed by claims-a and claims-b" in str(unknown.value)
    assert registry.find("algorithm", "snake").full_name == "good/snake"
    assert not {"claims_a", "claims_b"} & sys.modules.keys()


def test_one_module_under_two_namespaces_stays_good_under_the_first(registry_of):
    registry = registry_of("good_one", "shares_good")
    with pytest.warns(PluginWarning, match="plugin 'good' of good-one 1.2 is left out: ValueError"):
        assert registry.find("algorithm", "snake").full_name == "alias/snake"
    assert registry.find("algorithm", "alias/needy").distribution == "shares-good"


def test_warnings_as_errors_leave_the_registry_complete(registry_of):
    registry = registry_of("broken_ones", "claims_a", "claims_b", "good_one")
    for _ in range(len(BROKEN) + 2):  # each warning once, as an exception, somewhere
        try:
            registry.offers("algorithm")
            break
        except PluginWarning:
            continue
    failed = {row["name"] for row in registry.listing() if row["error"]}
    assert failed == BROKEN.keys() | {"claimed"}
    assert registry.find("algorithm", "snake").full_name == "good/snake"


def test_threads_see_a_plugin_whole(registry_of, monkeypatch):
    registry = registry_of("good_one")
    started, go_on = threading.Event(), threading.Event()
    plugin = registry._plugins()["good"]
    load = plugin.load

    def slowly():
        started.set()
        assert go_on.wait(10)
        return load()

    plugin.load = slowly
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(registry.find, "algorithm", "good/snake")
        assert started.wait(10)
        others = [pool.submit(registry.find, "algorithm", name) for name in ("good/snake", "snake")]
        go_on.set()
        assert {one.result().full_name for one in (first, *others)} == {"good/snake"}


# --------------------------------------------------------------------------------------------------------- allow-list


def test_only_allowed_plugins_are_loaded(registry_of, monkeypatch):
    monkeypatch.setenv("PACKING_PLUGINS", "")
    # No warning about the namespaces either: who is not allowed is not judged.
    registry_of("good_one", "rival", "broken_ones", allowed=["good"])
    assert resolve_algorithm("snake").name == "good/snake"
    with pytest.raises(UnknownNameError) as caught:
        resolve_algorithm("rival/snake")
    assert "'rival/snake' does not exist (not in PACKING_PLUGINS). Did you mean 'good/snake'?" in str(caught.value)
    assert {row["name"]: row["error"] for row in listing() if row["kind"] == "plugin"} == dict.fromkeys(
        [*BROKEN, "rival"], "not in PACKING_PLUGINS"
    )
    assert not {"rival", "missing_import"} & sys.modules.keys()


@pytest.mark.parametrize(("value", "found"), [("good", True), (" rival , good,", True), ("rival", False), ("", False)])
def test_the_environment_lists_the_allowed(registry_of, monkeypatch, value, found):
    registry = registry_of("good_one")
    monkeypatch.setenv("PACKING_PLUGINS", value)
    registry = Registry(registry._entry_points)
    assert any(offer.namespace == "good" for offer in registry.offers("algorithm")) is found


# -------------------------------------------------------------------------------------------------- listing and specs


def test_the_listing_imports_no_factory(registry_of):
    registry_of("good_one")
    rows = {row["name"]: row for row in listing()}
    assert "good_one_parts" not in sys.modules
    assert rows["good/snake"]["summary"] == "dealt out forth and back"
    assert rows["good/snake"]["capabilities"] == ["balance", "capacity", "makespan", "multi_bin", "rounds"]
    assert rows["good/words"]["kind"] == "estimator"
    assert rows["lpt"]["distribution"] == "packing"
    assert all(row["load_seconds"] >= 0 and row["error"] is None for row in rows.values())
    wanted = {"name", "kind", "distribution", "version", "load_seconds", "summary", "capabilities", "error"}
    assert all(row.keys() == wanted for row in rows.values())


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("Snake", "a:b"), "a spec's `name` must match [a-z][a-z0-9_]*, but got 'Snake'."),
        (("a/b", "a:b"), "a spec's `name` must match"),
        (("snake\n", "a:b"), "a spec's `name` must match"),
        ((5, "a:b"), "a spec's `name` must match [a-z][a-z0-9_]*, but got 5."),
        (("snake", "a.b"), "`factory` of 'snake' must be \"module:attribute\", but got 'a.b'."),
        (("snake", "a:"), "`factory` of 'snake' must be \"module:attribute\", but got 'a:'."),
        (("snake", 5), "`factory` of 'snake' must be text or callable, but got 5."),
        (("snake", "a:b", "capacity"), "`capabilities` of 'snake' must be a set of names, but got one text."),
        (("snake", "a:b", {"capacity", "speed"}), "must be among balance, budgets, capacity, "),
        (("snake", "a:b", {5}), "but got [5]."),
        (("snake", "a:b", (), 0), "`api` of 'snake' must be a positive integer, but got 0."),
        (("snake", "a:b", (), True), "`api` of 'snake' must be a positive integer, but got True."),
        (("snake", "a:b", (), 1, None), "`summary` of 'snake' must be text, but got None."),
    ],
)
def test_malformed_specs_are_refused(arguments, expected):
    with pytest.raises(PluginError) as caught:
        AlgorithmSpec(*arguments)
    assert expected in str(caught.value)


def test_specs_are_values():
    spec = AlgorithmSpec("snake", "a:b", capabilities=["capacity"])
    assert spec == AlgorithmSpec("snake", "a:b", capabilities={"capacity"})
    assert spec != EstimatorSpec("snake", "a:b", capabilities={"capacity"})
    assert (spec.api, spec.kind) == (API_VERSION, "algorithm")
    assert spec.capabilities <= CAPABILITIES
    with pytest.raises(AttributeError):
        spec.name = "other"
