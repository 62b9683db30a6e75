"""Configs to instances: the grammar, options bound by signature, and the objective that is a setting of the planner."""

from __future__ import annotations

import copy
import functools
import json
from types import MappingProxyType

import numpy as np
import pytest

from packing import (
    Assignment,
    ConfigError,
    Planner,
    PluginError,
    SampleKey,
    SampleMetadata,
    UnknownNameError,
    WorkloadCost,
)
from packing.registry import resolve_algorithm, resolve_estimator

LENGTHS = np.arange(1, 33)


class Contiguous:
    """A user's own algorithm."""

    capabilities = frozenset({"multi_bin"})

    def assign(self, problem):
        edges = np.arange(problem.num_bins + 1) * problem.num_samples // problem.num_bins
        return Assignment(edges, np.arange(problem.num_samples))


class Sized(Contiguous):
    def __init__(self, size):
        self.size = size


class Half:
    columns = ("length",)

    def __call__(self, columns):
        return np.asarray(columns["length"]) // 2


def make_contiguous():
    return Contiguous()


# ----------------------------------------------------------------------------------------------------------- grammar


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ("lpt", "lpt"),
        ("packing/lpt", "lpt"),
        ({"name": "lpt"}, "lpt"),
        (MappingProxyType({"name": "good/snake"}), "good/snake"),
        ({"name": "snake", "reverse": True}, "good/snake"),
        (Contiguous, f"{__name__}:Contiguous"),
        (make_contiguous, f"{__name__}:make_contiguous"),
        (functools.partial(Sized, 3), f"{__name__}:Sized"),
        (Contiguous(), f"{__name__}:Contiguous"),
        (lambda: Contiguous(), f"{__name__}:<lambda>"),
    ],
    ids=["name", "full", "mapping", "proxy", "options", "class", "factory", "partial", "object", "lambda"],
)
def test_every_form_of_a_config_makes_a_plan(registry_of, config, name):
    registry_of("good_one")
    plan = Planner(data_parallel_size=4, algorithm=config).plan(LENGTHS)
    assert plan.algorithm == name
    assert sorted(plan.items.tolist()) == list(range(32))
    assert Planner.from_config({"data_parallel_size": 4, "algorithm": config}).plan(LENGTHS) == plan


@pytest.mark.parametrize(
    ("config", "total"),
    [
        ("tokens", 528),
        ({"name": "attention", "linear": 0, "quadratic": 2}, 2 * 11440),
        (Half, 256),
        (Half(), 256),
        (lambda record: 3 * record.pack_tokens, 3 * 528),
    ],
    ids=["name", "options", "class", "object", "function"],
)
def test_every_form_of_an_estimator_gives_its_costs(registry_of, config, total):
    registry_of()
    assert Planner(data_parallel_size=4, estimator=config).plan(LENGTHS).rank_loads.sum() == total


def test_a_function_sees_the_users_own_records():
    records = [
        SampleMetadata(
            5, WorkloadCost(encoder=3.0 * i), sample_id=f"s{i}", features={"pages": i}, key=SampleKey(0, 9 - i)
        )
        for i in range(4)
    ]
    seen = []

    def encoder_cost(record):
        seen.append(record)
        return record.cost.encoder + record.features["pages"]

    plan = Planner(data_parallel_size=2, estimator=encoder_cost).plan(records)
    assert [id(one) for one in seen] == [id(one) for one in records]
    assert plan.fixed_costs.tolist() == [0, 4, 8, 12]


@pytest.mark.parametrize(
    ("config", "error", "expected"),
    [
        (5, ConfigError, "`algorithm` must be a name, a mapping with a name, a class or factory, or an object with"),
        (None, ConfigError, "`algorithm` must be a name, "),
        (["lpt"], ConfigError, "but got ['lpt']."),
        (b"lpt", ConfigError, "but got b'lpt'."),
        ({}, ConfigError, '`algorithm` must have a "name" that is text, but got None.'),
        ({"name": 5}, ConfigError, '`algorithm` must have a "name" that is text, but got 5.'),
        ({"nmae": "lpt"}, ConfigError, '`algorithm` must have a "name" that is text, but got None.'),
        (Sized, ConfigError, "needs the option `size`."),
        (lambda: None, PluginError, f"algorithm '{__name__}:<lambda>' has no method `assign`: got None."),
        (object, PluginError, "algorithm 'builtins:object' has no method `assign`: got <object object"),
        (lambda: 1 // 0, PluginError, "could not be made: ZeroDivisionError"),
        (Half, PluginError, f"algorithm '{__name__}:Half' has no method `assign`"),
    ],
)
def test_what_is_no_config_is_refused(registry_of, config, error, expected):
    registry_of("good_one")
    with pytest.raises(error) as caught:
        Planner(data_parallel_size=4, algorithm=config)
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("config", "error", "expected"),
    [
        (
            5,
            ConfigError,
            "`estimator` must be a name, a mapping with a name, a class or factory, or an object with `col",
        ),
        (Contiguous, PluginError, f"estimator '{__name__}:Contiguous' must have `columns` and be callable"),
        ("tokns", UnknownNameError, "`estimator` 'tokns' does not exist. Did you mean 'tokens'?"),
        ({"name": "attention", "qaudratic": 1}, ConfigError, "Did you mean `quadratic`?"),
    ],
)
def test_what_is_no_estimator_is_refused(registry_of, config, error, expected):
    registry_of("good_one")
    with pytest.raises(error) as caught:
        Planner(data_parallel_size=4, estimator=config)
    assert expected in str(caught.value)


@pytest.mark.parametrize("capabilities", ["capacity", None, 5, {"speed"}, ["capacity", 5]])
def test_an_object_with_odd_capabilities_is_refused(capabilities):
    thing = Contiguous()
    thing.capabilities = capabilities
    with pytest.raises(PluginError, match=r"`capabilities` of algorithm '.*:Contiguous' must be"):
        Planner(data_parallel_size=4, algorithm=thing)


# ----------------------------------------------------------------------------------------------------------- options


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (
            {"name": "snake", "revers": True},
            "`algorithm` 'good/snake' has no option `revers` (got True); its options: `reverse`, `weights`. "
            "Did you mean `reverse`?",
        ),
        ({"name": "lpt", "depth": 3}, "`algorithm` 'lpt' has no option `depth` (got 3); its options: none."),
        ({"name": "needy"}, "`algorithm` 'good/needy' needs the option `depth`."),
        ({"name": "needy", "width": 2}, "`algorithm` 'good/needy' needs the option `depth`."),
        ({"name": "snake", 5: True}, "the name of an option must be text, but got 5."),
        ({"name": "snake", "reverse": object}, "`reverse` must be a JSON value, but got <class 'object'>."),
        ({"name": "snake", "reverse": np.bool_(True)}, "`reverse` must be a JSON value"),
        ({"name": "snake", "reverse": float("nan")}, "`reverse` must be a JSON value, but got nan."),
        ({"name": "snake", "weights": {"a": [1, {2}]}}, "`weights.a[1]` must be a JSON value, but got {2}."),
        ({"name": "snake", "weights": {5: 1}}, "`weights` must be a JSON value, but got {5: 1}."),
    ],
)
def test_options_are_bound_by_the_signature(registry_of, config, expected):
    registry_of("good_one")
    with pytest.raises(ConfigError) as caught:
        Planner(data_parallel_size=4, algorithm=config)
    assert expected in str(caught.value)


def test_an_option_that_contains_itself_is_refused(registry_of):
    registry_of("good_one")
    loop: dict = {}
    loop["again"] = loop
    with pytest.raises(ConfigError, match="must not contain themselves"):
        Planner(data_parallel_size=4, algorithm={"name": "snake", "weights": loop})


def test_options_reach_the_factory_and_the_callers_mapping_stays(registry_of):
    registry_of("good_one")
    config = {"name": "snake", "reverse": True, "weights": {"a": [1, 2.5, None, "x"]}}
    before = copy.deepcopy(config)
    resolved = resolve_algorithm(config)
    # The factory clears its `weights`: neither the caller nor the fingerprint may notice.
    assert config == before
    assert resolved.instance.reverse is True
    assert resolved.options == {"reverse": True, "weights": {"a": [1, 2.5, None, "x"]}}
    assert resolve_algorithm(config).identity() == resolved.identity()


def test_options_of_any_mapping_and_sequence_are_plain_json(registry_of):
    registry_of("good_one")
    odd = {"name": "snake", "weights": MappingProxyType({"a": (1, MappingProxyType({"b": ()}))})}
    plain = {"name": "snake", "weights": {"a": [1, {"b": []}]}}
    first, second = (Planner(data_parallel_size=4, algorithm=config) for config in (odd, plain))
    assert first.config_fingerprint == second.config_fingerprint
    assert json.loads(json.dumps(resolve_algorithm(odd).options)) == resolve_algorithm(plain).options


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("raises", "algorithm 'bad/raises' could not be made: RuntimeError: no accelerator here"),
        (
            "no_such_module",
            "algorithm 'bad/no_such_module': cannot import 'a_library_that_is_not_there:Thing': No module",
        ),
        ("no_such_attribute", "algorithm 'bad/no_such_attribute': cannot import 'bad_factories:Nothing'"),
        ("not_callable", "algorithm 'bad/not_callable': 'bad_factories:NUMBER' must be callable, but got 7."),
        ("no_assign", "algorithm 'bad/no_assign' has no method `assign`: got <module 'json'"),
    ],
)
def test_a_broken_factory_is_named(registry_of, name, expected):
    registry_of("bad_factories", "good_one")
    with pytest.raises(PluginError) as caught:
        Planner(data_parallel_size=4, algorithm=name)
    assert expected in str(caught.value)
    assert resolve_algorithm("snake").name == "good/snake"


def test_a_broken_estimator_factory_is_named(registry_of):
    registry_of("bad_factories")
    with pytest.raises(PluginError, match="estimator 'bad/no_columns' must have `columns` and be callable"):
        resolve_estimator("no_columns")


# --------------------------------------------------------------------------------------------------------- objective


@pytest.mark.parametrize("name", ["lpt", "focused"], ids=["takes_none", "takes_one"])
def test_the_objective_of_the_algorithm_is_the_planners(registry_of, name):
    registry_of("good_one")
    from_option = Planner(data_parallel_size=4, algorithm={"name": name, "objective": "balance"})
    from_setting = Planner(data_parallel_size=4, algorithm=name, objective="balance")
    both = Planner(data_parallel_size=4, algorithm={"name": name, "objective": "balance"}, objective="balance")
    plans = [planner.plan(LENGTHS) for planner in (from_option, from_setting, both)]
    assert {plan.objective for plan in plans} == {"balance"}
    assert len({plan.digest for plan in plans}) == 1
    assert Planner(data_parallel_size=4, algorithm=name).plan(LENGTHS).objective == "makespan"


def test_an_algorithm_that_takes_the_objective_gets_it(registry_of):
    registry_of("good_one")
    assert resolve_algorithm({"name": "focused", "objective": "balance"}).instance.objective == "balance"
    assert resolve_algorithm("focused").instance.objective == "makespan"


def test_two_different_objectives_are_refused(registry_of):
    registry_of("good_one")
    for name, full in (("lpt", "lpt"), ("focused", "good/focused")):
        with pytest.raises(ConfigError) as caught:
            Planner(data_parallel_size=4, algorithm={"name": name, "objective": "balance"}, objective="makespan")
        assert str(caught.value) == (
            f"`objective` is 'makespan', but the option of `algorithm` '{full}' says 'balance'."
        )


@pytest.mark.parametrize("value", ["", "speed", "Makespan"])
def test_an_unknown_objective_is_refused_wherever_it_stands(value):
    with pytest.raises(
        UnknownNameError, match=r"^`objective` '.*' does not exist; there are: makespan, balance, rounds"
    ):
        Planner(data_parallel_size=4, objective=value)
    with pytest.raises(UnknownNameError, match=r"^`objective` '.*' does not exist"):
        Planner(data_parallel_size=4, algorithm={"name": "lpt", "objective": value})
    with pytest.raises(ConfigError, match=r"^`objective` must be a name, or a mapping with one, but got 5"):
        Planner(data_parallel_size=4, algorithm={"name": "lpt", "objective": 5})


def test_an_objective_of_null_is_none():
    plan = Planner(data_parallel_size=4, algorithm={"name": "lpt", "objective": None}).plan(LENGTHS)
    assert plan.objective == "makespan"
    assert plan == Planner(data_parallel_size=4, algorithm="lpt").plan(LENGTHS)


@pytest.mark.parametrize("columns", ["length", 3, None, ["length", 3]])
def test_columns_of_an_estimator_that_are_no_names(columns):
    class Odd:
        def __call__(self, columns):
            return columns["length"]

    Odd.columns = columns
    with pytest.raises(PluginError, match=r"`columns` of estimator .*Odd' must be names of columns"):
        Planner(data_parallel_size=2, estimator=Odd())


def test_a_column_that_an_estimator_declares_and_the_samples_lack():
    class Images:
        columns = ("length", "image_tokens")

        def __call__(self, columns):
            return columns["length"] + columns["image_tokens"]

    planner = Planner(data_parallel_size=2, estimator=Images())
    with pytest.raises(ConfigError, match=r"needs the column `image_tokens`, but the columns are: `length`\."):
        planner.plan([3, 4])
