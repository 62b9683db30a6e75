"""The records: what they accept, what they refuse and in which words, and that they behave as values."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from packing.errors import ConfigError, InfeasibleError
from packing.records import PackingConstraints, SampleKey, SampleMetadata, WorkloadCost

FULL = SampleMetadata(
    pack_tokens=7,
    cost=WorkloadCost(llm=2.5),
    sample_id="a",
    features={"tags": ["x", {"deep": [1, None, True]}], "ratio": 0.5},
    packing_costs={"images": 3, "bytes": 1.5},
    key=SampleKey(1, 2, 3),
)


# --- SampleKey -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((-1, 0), "`reader_rank` must be a non-negative integer, but got -1."),
        ((0, True), "`dataset_index` must be a non-negative integer, but got True."),
        ((0, 0, 1.0), "`global_sample_position` must be a non-negative integer, but got 1.0."),
        ((None, 0), "`reader_rank` must be a non-negative integer, but got None."),
        (("3", 0), "`reader_rank` must be a non-negative integer, but got '3'."),
    ],
)
def test_key_refuses(arguments, message):
    with pytest.raises(ConfigError) as caught:
        SampleKey(*arguments)
    assert str(caught.value) == message


def test_key_turns_numpy_integers_into_plain_ones():
    key = SampleKey(np.int32(1), np.uint8(2), np.int64(3))
    assert [type(value) for value in dataclasses.astuple(key)] == [int, int, int]
    assert key == SampleKey(1, 2, 3)


@given(st.lists(st.tuples(*[st.integers(0, 2**70)] * 3)))
def test_keys_order_like_their_fields(rows):
    keys = [SampleKey(*row) for row in rows]
    assert [dataclasses.astuple(key) for key in sorted(keys)] == sorted(rows)
    assert len(set(keys)) == len(set(rows))


# --- WorkloadCost ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["io", "transform", "encoder", "llm", "memory", "communication"])
@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf, True, "1", None, 10**400])
def test_cost_refuses(name, value):
    with pytest.raises(ConfigError, match=f"`{name}` must be"):
        WorkloadCost(**{name: value})


def test_cost_message_quotes_the_value():
    with pytest.raises(ConfigError) as caught:
        WorkloadCost(llm=-0.5)
    assert str(caught.value) == "`llm` must be finite and at least 0, but got -0.5."


def test_costs_add_field_by_field():
    total = sum([WorkloadCost(1, 2, 3, 4, 5, 6), WorkloadCost(llm=1), WorkloadCost(io=0.5)])
    assert total == WorkloadCost(1.5, 2.0, 3.0, 5.0, 5.0, 6.0)
    assert all(type(value) is float for value in dataclasses.astuple(total))
    assert sum([WorkloadCost()]) == WorkloadCost()


@pytest.mark.parametrize("other", [1, 0.5, "x", None])
def test_cost_adds_only_to_costs(other):
    with pytest.raises(TypeError):
        WorkloadCost() + other
    with pytest.raises(TypeError):
        other + WorkloadCost()


def test_cost_that_overflows_is_an_error():
    with pytest.raises(ConfigError, match="`memory` must be finite"):
        WorkloadCost(memory=1e308) + WorkloadCost(memory=1e308)


# --- SampleMetadata --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"pack_tokens": 0}, "`pack_tokens` must be a positive integer, but got 0."),
        ({"pack_tokens": True}, "`pack_tokens` must be a positive integer, but got True."),
        ({"pack_tokens": 2.0}, "`pack_tokens` must be a positive integer, but got 2.0."),
        ({"cost": 3.0}, "`cost` must be a WorkloadCost, but got 3.0."),
        ({"sample_id": 1.5}, "`sample_id` must be a string, an integer or None, but got 1.5."),
        ({"sample_id": False}, "`sample_id` must be a string, an integer or None, but got False."),
        ({"key": (0, 1, 2)}, "`key` must be a SampleKey or None, but got (0, 1, 2)."),
        ({"features": [1]}, "`features` must be a mapping, but got [1]."),
        ({"features": {3: 1}}, "`features` must have non-empty strings as names, but got 3."),
        ({"features": {"a": {"": 1}}}, "`features.a` must have non-empty strings as names, but got ''."),
        ({"packing_costs": {"m": -1}}, '`packing_costs["m"]` must be a non-negative integer, but got -1.'),
        ({"packing_costs": {"m": math.inf}}, '`packing_costs["m"]` must be finite and at least 0, but got inf.'),
        ({"packing_costs": {"m": True}}, '`packing_costs["m"]` must be a number, but got True.'),
        ({"packing_costs": {"m": "1"}}, "`packing_costs[\"m\"]` must be a number, but got '1'."),
        ({"packing_costs": None}, "`packing_costs` must be a mapping, but got None."),
    ],
)
def test_metadata_refuses(fields, message):
    with pytest.raises(ConfigError) as caught:
        SampleMetadata(**{"pack_tokens": 1, **fields})
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("value", "shown"),
    [(math.nan, "nan"), (math.inf, "inf"), ({1}, "{1}"), (1j, "1j"), (b"x", "b'x'"), (np.int64(3), repr(np.int64(3)))],
)
def test_features_hold_json_values_at_every_depth(value, shown):
    with pytest.raises(ConfigError) as caught:
        SampleMetadata(1, features={"a": [0, {"b": value}]})
    assert str(caught.value) == (
        "`features.a[1].b` must be a JSON value (None, a bool, an integer, a finite float, a string, a list or a "
        f"mapping), but got {shown}."
    )


def test_features_must_not_contain_themselves():
    loop = {}
    loop["again"] = loop
    with pytest.raises(ConfigError, match="must not contain itself"):
        SampleMetadata(1, features=loop)


def test_metadata_is_detached_from_what_it_was_made_of():
    inner = [1, 2]
    features, costs = {"a": inner, "b": {"c": inner}}, {"m": 1}
    sample = SampleMetadata(1, features=features, packing_costs=costs)
    inner.append(3)
    features["new"] = costs["new"] = 0
    assert sample.features == {"a": (1, 2), "b": {"c": (1, 2)}}
    assert sample.packing_costs == {"m": 1}


@pytest.mark.parametrize(
    "change",
    [
        lambda mapping: mapping.update(x=1),
        lambda mapping: mapping.__setitem__("x", 1),
        lambda mapping: mapping.__delitem__("ratio"),
        lambda mapping: mapping.pop("ratio"),
        lambda mapping: mapping.popitem(),
        lambda mapping: mapping.clear(),
        lambda mapping: mapping.setdefault("x", 1),
        lambda mapping: mapping.__ior__({"x": 1}),
    ],
)
def test_mappings_are_read_only(change):
    before = dict(FULL.features)
    with pytest.raises(TypeError, match="read-only"):
        change(FULL.features)
    with pytest.raises(TypeError, match="read-only"):
        FULL.features["tags"][1]["deep"] = 0
    assert FULL.features == before


@pytest.mark.parametrize("record", [FULL, FULL.key, FULL.cost, PackingConstraints(8, packing_budgets={"m": 1})])
def test_fields_are_read_only(record):
    name = dataclasses.fields(record)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(record, name, 1)


@pytest.mark.parametrize(
    "record",
    [FULL, SampleMetadata(1), SampleKey(0, 1), WorkloadCost(1), PackingConstraints(8, "single", {"m": 1.5})],
    ids=lambda record: type(record).__name__,
)
def test_records_are_values(record):
    for same in (pickle.loads(pickle.dumps(record)), copy.copy(record), copy.deepcopy(record)):
        assert same == record
        assert hash(same) == hash(record)
    assert dataclasses.replace(record) == record


def test_copies_stay_read_only():
    for same in (pickle.loads(pickle.dumps(FULL)), copy.deepcopy(FULL)):
        with pytest.raises(TypeError, match="read-only"):
            same.features["tags"][1]["deep"] = 0


def test_metadata_compares_by_value():
    assert SampleMetadata(3, features={"a": [1]}) == SampleMetadata(3, features={"a": (1,)})
    assert SampleMetadata(3, features={"a": [1]}) != SampleMetadata(3, features={"a": [2]})
    assert SampleMetadata(3) != SampleMetadata(4)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(min_size=1), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(min_size=1), json_values, max_size=4))
def test_any_json_object_is_a_feature_mapping(features):
    sample = SampleMetadata(1, features=features)
    assert json.loads(json.dumps(sample.features)) == json.loads(json.dumps(features))
    assert pickle.loads(pickle.dumps(sample)) == sample


# --- PackingConstraints ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"seq_len": 0}, "`seq_len` must be a positive integer, but got 0."),
        ({"seq_len": True}, "`seq_len` must be a positive integer, but got True."),
        (
            {"oversized_policy": "drop"},
            '`oversized_policy` must be one of "error", "single", but got \'drop\'.',
        ),
        ({"packing_budgets": [1]}, "`packing_budgets` must be a mapping, but got [1]."),
        ({"packing_budgets": {"m": -0.5}}, '`packing_budgets["m"]` must be finite and at least 0, but got -0.5.'),
    ],
)
def test_constraints_refuse(fields, message):
    with pytest.raises(ConfigError) as caught:
        PackingConstraints(**{"seq_len": 8, **fields})
    assert str(caught.value) == message


def test_sample_over_the_cap():
    constraints = PackingConstraints(8)
    constraints.validate_sample(SampleMetadata(8))
    with pytest.raises(InfeasibleError) as caught:
        constraints.validate_sample(SampleMetadata(9, sample_id="long"))
    assert str(caught.value) == "sample 'long' fits into no bin: 9 tokens are over `seq_len` = 8."


def test_oversized_sample_is_alone_under_single():
    constraints = PackingConstraints(8, "single")
    long, short = SampleMetadata(9), SampleMetadata(1)
    constraints.validate_sample(long)
    constraints.validate_bin([long])
    assert constraints.fits([long])
    assert not constraints.fits([long, short])
    with pytest.raises(InfeasibleError, match="a sample of 9 tokens is over `seq_len` = 8 and must be alone"):
        constraints.validate_bin([short, long])


def test_no_cap():
    constraints = PackingConstraints(None)
    assert constraints.fits([SampleMetadata(10**12)] * 3)
    constraints.validate_bin([SampleMetadata(10**12)] * 3)


def test_bin_over_the_cap():
    constraints = PackingConstraints(8)
    constraints.validate_bin([SampleMetadata(4), SampleMetadata(4)])
    with pytest.raises(InfeasibleError) as caught:
        constraints.validate_bin([SampleMetadata(4), SampleMetadata(5)])
    assert str(caught.value) == "a bin of 2 samples is not allowed: 9 tokens are over `seq_len` = 8."


def test_budgets_bind_under_both_policies():
    heavy = SampleMetadata(9, packing_costs={"images": 4}, key=SampleKey(0, 1, 2))
    constraints = PackingConstraints(8, "single", {"images": 3})
    with pytest.raises(InfeasibleError) as caught:
        constraints.validate_sample(heavy)
    assert str(caught.value) == (
        f"sample {heavy.key} fits into no bin: `images` adds up to 4, but `packing_budgets` allows 3."
    )
    light = SampleMetadata(1, packing_costs={"images": 2})
    assert constraints.fits([light])
    assert not constraints.fits([light, light])


def test_missing_packing_cost_is_a_config_error():
    constraints = PackingConstraints(8, packing_budgets={"images": 3})
    bare = SampleMetadata(1, sample_id=5, packing_costs={"audio": 1})
    for check in (constraints.validate_sample, lambda sample: constraints.fits([sample])):
        with pytest.raises(ConfigError) as caught:
            check(bare)
        assert str(caught.value) == (
            "`packing_costs` of sample 5 must name every budget, but has no 'images'; it has ['audio']."
        )


amounts = st.integers(0, 2**60) | st.floats(0, 1e300) | st.floats(0, 2)


@given(st.lists(amounts, max_size=6), amounts)
@example([0.1, 0.1, 0.1], 0.3)
@example([2**53, 1, 0.0], 2.0**53)
@example([1.7e308, 1.7e308], 1.0)
def test_budgets_compare_exactly(costs, budget):
    samples = [SampleMetadata(1, packing_costs={"m": cost}) for cost in costs]
    constraints = PackingConstraints(None, packing_budgets={"m": budget})
    expected = sum(map(Fraction, costs)) <= Fraction(budget)
    assert constraints.fits(samples) is expected
    assert constraints.fits(reversed(samples)) is expected


@given(
    st.lists(st.integers(1, 12), max_size=6),
    st.integers(1, 12) | st.none(),
    st.sampled_from(["error", "single"]),
)
def test_fits_is_its_definition(lengths, cap, policy):
    samples = [SampleMetadata(length) for length in lengths]
    expected = cap is None or sum(lengths) <= cap or (policy == "single" and len(lengths) == 1)
    constraints = PackingConstraints(cap, policy)
    assert constraints.fits(samples) is expected
    if expected:
        constraints.validate_bin(samples)
    else:
        with pytest.raises(InfeasibleError):
            constraints.validate_bin(samples)
