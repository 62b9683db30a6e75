"""The public face: names, docstrings, errors, hooks; values that survive a pickle."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import inspect
import pickle
import re

import numpy as np
import pytest

import packing
from packing import Assignment, Plan, Planner, Problem, SampleKey, SampleMetadata, WorkloadCost, errors, plugin
from packing.registry import _hooks
from tests.contract.sources import module_name, python_files

TREE = {
    "PackingError": Exception,
    "ConfigError": ("PackingError", ValueError),
    "UnknownNameError": ("PackingError", LookupError),
    "AmbiguousNameError": ("PackingError", LookupError),
    "PluginError": ("PackingError",),
    "UnsupportedProblemError": ("PackingError",),
    "InfeasibleError": ("PackingError", ValueError),
    "NoCandidateError": ("PackingError",),
    "AuditError": ("PackingError",),
}


def public_modules() -> list[str]:
    names = [module_name(path) for path in python_files()]
    return [name for name in names if not any(part.startswith("_") for part in name.split("."))]


# ------------------------------------------------------------------------------------------------------------- names


def test_every_public_name_is_there():
    assert len(set(packing.__all__)) == len(packing.__all__)
    assert set(packing._HOME) | {"__version__"} == set(packing.__all__) == set(dir(packing))
    for name in packing.__all__:
        assert getattr(packing, name) is getattr(packing, name)
    scope: dict = {}
    exec("from packing import *", scope)
    assert scope.keys() >= set(packing.__all__)
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*", packing.__version__)


def test_no_module_has_the_name_of_a_public_object():
    """Importing `packing.NAME` as a module would put it in the object's place."""
    assert not {module_name(path) for path in python_files()} & {f"packing.{name}" for name in packing.__all__}


def test_an_unknown_public_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"^module 'packing' has no attribute 'Plannr'$"):
        _ = packing.Plannr
    assert not hasattr(packing, "__path_to_nowhere__")


def _undocumented(name: str, value: object) -> list[str]:
    """Public functions, classes, methods and properties without a docstring of their own."""
    if inspect.isfunction(value):
        return [] if value.__doc__ else [name]
    if not inspect.isclass(value):
        return []
    missing = [] if value.__doc__ and not value.__doc__.startswith(f"{value.__name__}(") else [name]
    for attribute, member in vars(value).items():
        if attribute.startswith("_"):
            continue
        member = getattr(member, "__func__", getattr(member, "fget", getattr(member, "func", member)))
        if inspect.isfunction(member) and not member.__doc__:
            missing.append(f"{name}.{attribute}")
    return missing


@pytest.mark.parametrize("module", public_modules())
def test_every_public_name_has_a_docstring(module):
    try:
        loaded = importlib.import_module(module)
    except ModuleNotFoundError as error:
        pytest.skip(f"needs {error.name}")
    exported = getattr(loaded, "__all__", [name for name in vars(loaded) if not name.startswith("_")])
    for name in exported:
        value = getattr(loaded, name)
        if getattr(value, "__module__", "").startswith("packing"):
            assert not _undocumented(f"{module}.{name}", value)


def test_every_hook_is_documented_in_one_present_tense_sentence():
    hooks = {name: value for name, value in vars(_hooks).items() if name.startswith("packing_")}
    assert hooks.keys() == {"packing_algorithms", "packing_estimators"}
    for hook in hooks.values():
        assert re.fullmatch(r"Returns [^.]+\.", hook.__doc__.strip())
        assert list(inspect.signature(hook).parameters) == ["host"]


def test_the_module_for_plugin_authors_is_complete():
    assert set(plugin.__all__) >= {
        "API_VERSION", "Algorithm", "AlgorithmSpec", "Assignment", "Estimator", "EstimatorSpec", "Problem", "hookimpl"
    }  # fmt: skip
    assert all(hasattr(plugin, name) for name in plugin.__all__)
    assert plugin.Host() == plugin.Host(plugin.API_VERSION, packing.__version__)


# ------------------------------------------------------------------------------------------------------------- errors


def test_the_error_tree():
    found = {name: value for name, value in vars(errors).items() if inspect.isclass(value)}
    assert found.keys() == TREE.keys() == set(errors.__all__)
    for name, bases in TREE.items():
        bases = bases if isinstance(bases, tuple) else (bases,)
        assert found[name].__bases__ == tuple(found[base] if isinstance(base, str) else base for base in bases)
        assert getattr(packing, name) is found[name]
        assert found[name].__doc__


@pytest.mark.parametrize("name", TREE)
def test_errors_survive_a_pickle(name):
    error = getattr(errors, name)("`seq_len` must be a positive integer, but got 0.")
    back = pickle.loads(pickle.dumps(error))
    assert (type(back), str(back)) == (type(error), str(error))


def test_every_error_raised_on_purpose_is_of_the_tree():
    """What else is raised by name is Python's own protocol: attributes, indices, imports, read-only mappings.

    And an InfeasibleError of a drop-in form that is what the original raises, too.
    """
    allowed = {
        *TREE, "AttributeError", "IndexError", "ImportError", "TypeError", "AssertionError", "KeyError", "ValueError",
        "AllocationError", "NoPartitionError",
    }  # fmt: skip
    for path in python_files():
        if "_reference" in path.parts or "cli" in path.parts:
            continue
        for name in re.findall(r"^\s*raise ([A-Z]\w+)\(", path.read_text(), flags=re.MULTILINE):
            assert name in allowed, f"{path} raises {name}"


# ------------------------------------------------------------------------------------------------------------ pickles


def make_plan() -> Plan:
    return Planner(data_parallel_size=2, seq_len=64).plan({"length": [9, 8, 7, 6], "key": [4, 3, 2, 1]}, step=2)


def everything() -> dict[str, object]:
    layout = Assignment.from_bins([[0, 2], [1]])
    return {
        "planner": Planner(
            data_parallel_size=2,
            seq_len=64,
            algorithm={"name": "lpt", "objective": "balance"},
            estimator={"name": "attention", "linear": 5},
            packing_budgets={"images": 4},
            padding_cost={"linear": 1},
        ),
        "plan": make_plan(),
        "assignment": layout,
        "problem": Problem(tokens=[3, 2, 1], cost=[9, 4, 1], ranks=2, capacity=9, reference=layout, group=[0, -1, 0]),
        "record": SampleMetadata(5, WorkloadCost(llm=2.5), features={"a": [1, {"b": None}]}, key=SampleKey(1, 2, 3)),
        "spec": plugin.AlgorithmSpec("snake", "a:b", capabilities={"capacity"}),
    }


@pytest.mark.parametrize("name", everything())
@pytest.mark.parametrize("way", [*range(2, pickle.HIGHEST_PROTOCOL + 1), "deepcopy"])
def test_values_survive_a_pickle(name, way):
    value = everything()[name]
    back = copy.deepcopy(value) if way == "deepcopy" else pickle.loads(pickle.dumps(value, way))
    assert type(back) is type(value)
    for one in dataclasses.fields(value):
        before, after = getattr(value, one.name), getattr(back, one.name)
        if isinstance(before, np.ndarray):
            np.testing.assert_array_equal(after, before)
            assert after.dtype == before.dtype
            assert after.flags.writeable is before.flags.writeable
        elif one.name == "comparison":
            assert (after.kind, after.rank_loads.tolist()) == (before.kind, before.rank_loads.tolist())
        elif one.compare:
            assert after == before, one.name
    if name != "problem":
        assert back == value


def test_a_planner_plans_the_same_after_a_pickle():
    planner = everything()["planner"]
    back = pickle.loads(pickle.dumps(planner))
    samples = {"length": [9, 8, 7, 6], "images": [1, 1, 1, 1]}
    assert back.config_fingerprint == planner.config_fingerprint
    assert back.plan(samples).digest == planner.plan(samples).digest


def test_nothing_of_a_plan_can_be_changed():
    plan = make_plan()
    for one in (plan, pickle.loads(pickle.dumps(plan)), Plan.from_json(plan.to_json())):
        for array in (
            one.offsets, one.items, one.lengths, one.tokens, one.fixed_costs, one.pack_loads, one.sample_keys,
            one.permutation, one.inverse_permutation, one.bin_tokens, one.bin_costs, one.rank_loads,
            one.baseline.rank_loads,
        ):  # fmt: skip
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 0
        with pytest.raises(dataclasses.FrozenInstanceError):
            one.step = 3
