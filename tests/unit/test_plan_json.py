"""The JSON form of a plan: readable without the package, equal after a round trip, refused when it is anything else."""

from __future__ import annotations

import copy
import dataclasses
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packing import ConfigError, Plan, Planner, SampleKey
from packing import _plan_json as plan_json
from tests.conftest import ROOT

GOLDEN = ROOT / "tests" / "data" / "plan_schema_1.json"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=6,
)


def _two_or_more(unused: int) -> int:
    """A pad cost that no bound foresees: one unused token costs nothing."""
    return int(unused > 1)


def golden_problem() -> tuple[Planner, dict, list[list[int]]]:
    """Settings, samples and reference of the golden file."""
    generator = np.random.default_rng(7)
    order = generator.permutation(40)
    lengths = generator.integers(20, 400, 40)
    samples = {
        "length": lengths.tolist(),
        "key": [[int(k) % 2, 3, int(k)] for k in order],
        "cost": (lengths * (lengths + 500)).tolist(),
        "images": generator.integers(0, 5, 40).tolist(),
    }
    planner = Planner(
        data_parallel_size=2,
        window=2,
        local_batch_size=2,
        seq_len=2048,
        alignment=16,
        packing_budgets={"images": 20},
        algorithm="lpt",
    )
    return planner, samples, [list(range(40))[b::8] for b in range(8)]


def plans() -> list[Plan]:
    """One of each kind: keyed or not, with or without reference, budgets, cap, pad cost; kept and accepted."""
    planner, samples, reference = golden_problem()
    return [
        planner.plan(samples, reference_bins=reference, step=17),
        Planner(data_parallel_size=3).plan([5, 5, 5, 5, 5, 5]),
        Planner(data_parallel_size=2, seq_len=9, objective="rounds").plan([5, 4, 5, 4, 9, 9]),
        Planner(data_parallel_size=2, objective="balance").plan([4, 4], reference_bins=[[1], [0]]),
        Planner(data_parallel_size=2).plan({"length": [5] * 6, "cost": [1e-300, 2.5e-310, 5e-324, 0, 1e-290, 1.0]}),
        Planner(data_parallel_size=2, seq_len=9, oversized_policy="single").plan(
            {"length": [50, 2], "key": [2**62, 1]}
        ),
        # No cost but padding: the bound is 0 and the gap infinite, which JSON has no word for.
        Planner(data_parallel_size=2, seq_len=9, padding_cost=_two_or_more).plan({"length": [8, 6], "cost": [0, 0]}),
    ]


@pytest.fixture(scope="module")
def body() -> dict:
    return json.loads(GOLDEN.read_text())


def sealed(body: dict) -> str:
    """The text of an edited plan whose checksum fits again, as a careful forger would leave it."""
    return json.dumps(body | {"checksum": plan_json._checksum(body)})


# -------------------------------------------------------------------------------------------------------- golden file


def test_the_golden_file_is_read_without_the_package():
    """Only json and numpy: each sample once, every cap kept, all loads as stated."""
    body = json.loads(GOLDEN.read_text())
    assert (body["kind"], body["schema"]) == ("packing.plan", 1)
    offsets, items = np.asarray(body["offsets"]), np.asarray(body["items"])
    tokens, costs = np.asarray(body["tokens"]), np.asarray(body["fixed_costs"])
    ranks, window, slots = body["data_parallel_size"], body["window"], body["bins_per_rank"]
    assert offsets.size == ranks * window * slots + 1
    assert sorted(items.tolist()) == list(range(len(body["lengths"])))
    assert len({tuple(key) for key in body["keys"]}) == items.size
    assert (tokens == -(-np.asarray(body["lengths"]) // 16) * 16).all()

    members = np.split(items, offsets[1:-1])
    assert all(one.size for one in members)
    bin_tokens = [int(tokens[one].sum()) for one in members]
    assert bin_tokens == body["bin_tokens"]
    assert max(bin_tokens) <= body["seq_len"]
    loads = np.asarray([costs[one].sum() for one in members])
    assert loads.tolist() == body["pack_loads"]
    scale = 2.0 ** -body["cost_exponent"]
    rank_loads = loads.reshape(window * ranks, slots).sum(axis=1) * scale
    assert rank_loads.tolist() == body["rank_loads"]
    assert body["metrics"]["largest_rank_load"] == rank_loads.max() == body["decision"]["after"]
    assert body["metrics"]["imbalance"] == pytest.approx(rank_loads.max() / rank_loads.mean())
    assert body["lower_bound"]["score"] * scale <= rank_loads.max()
    assert max(body["baseline"]["rank_loads"]) == body["decision"]["before"]
    assert body["decision"]["accepted"] is True


def test_the_golden_file_is_read_by_the_package(body):
    plan = Plan.from_json(GOLDEN.read_text())
    assert Plan.from_json(GOLDEN.read_bytes()) == plan
    assert plan.digest == body["digest"]
    assert (plan.num_samples, plan.step, plan.window) == (40, 17, 2)
    assert json.loads(plan.to_json())["metrics"].items() >= body["metrics"].items()
    # This version still decides the same way (the digest contains the version, so it may differ).
    planner, samples, reference = golden_problem()
    again = planner.plan(samples, reference_bins=reference, step=17)
    assert again.keys() == plan.keys()
    assert again.pack_loads.tolist() == plan.pack_loads.tolist()
    assert again.inputs_digest == plan.inputs_digest


# --------------------------------------------------------------------------------------------------------- round trip


@pytest.mark.parametrize("index", range(7))
@pytest.mark.parametrize("indent", [None, 2])
def test_a_round_trip_keeps_every_field(index, indent):
    plan = plans()[index]
    text = plan.to_json(indent=indent)
    back = Plan.from_json(text)
    assert back == plan
    assert (back.digest, hash(back), repr(back)) == (plan.digest, hash(plan), repr(plan))
    for one in dataclasses.fields(plan):
        before, after = getattr(plan, one.name), getattr(back, one.name)
        if isinstance(before, np.ndarray):
            assert (after.dtype, after.shape) == (before.dtype, before.shape)
            assert not after.flags.writeable
            np.testing.assert_array_equal(after, before)
        elif one.name == "comparison":
            assert (after.kind, after.num_overflowing_bins) == (before.kind, before.num_overflowing_bins)
            np.testing.assert_array_equal(after.rank_loads, before.rank_loads)
        else:
            assert after == before, one.name
    assert back.metrics == plan.metrics
    assert back.keys() == plan.keys()
    assert back.lower_bound == plan.lower_bound
    assert back.to_json(indent=indent) == text


def test_what_a_number_of_json_cannot_be_is_null():
    plan = plans()[6]
    assert plan.gap == math.inf
    text = plan.to_json()
    assert json.loads(text, parse_constant=pytest.fail)["metrics"]["gap"] is None


@given(
    lengths=st.lists(st.integers(1, 100), min_size=4, max_size=30),
    ranks=st.integers(1, 4),
    objective=st.sampled_from(["makespan", "balance", "rounds"]),
    scale=st.sampled_from([1, 0.1, 1e-200, 2**40]),
    step=st.integers(0, 2**62 - 1),
)
@settings(max_examples=50, deadline=None)
def test_any_plan_makes_the_round_trip(lengths, ranks, objective, scale, step):
    samples = {"length": lengths, "cost": [scale * length for length in lengths]}
    plan = Planner(data_parallel_size=ranks, objective=objective, seq_len=5000).plan(samples, step=step)
    text = plan.to_json()
    assert Plan.from_json(text) == plan
    assert Plan.from_json(text).to_json() == text


# ------------------------------------------------------------------------------------------------------------ refusal


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "this is no plan: Expecting value"),
        ("{", "this is no plan: "),
        ("null", "it must be an object of kind 'packing.plan', but got None."),
        ("[]", "but got []."),
        ("5", "but got 5."),
        ('"packing.plan"', "but got 'packing.plan'."),
        ("{}", "but got {}."),
        ('{"kind": "packing.table", "schema": 1}', "but got {'kind': 'packing.table', 'schema': 1}."),
        ("[" * 100_000, "this is no plan: "),
        ("1" * 10_000, "this is no plan: "),
        (b"\xff\xfe\xfd", "this is no plan: "),
        (None, "this is no plan: it must be JSON text, but got None."),
        ({"kind": "packing.plan"}, "this is no plan: it must be JSON text, but got {'kind': 'packing.plan'}."),
        ('{"kind": "packing.plan"}', "`schema` must be a positive integer, but got None."),
        ('{"kind": "packing.plan", "schema": true}', "`schema` must be a positive integer, but got True."),
        ('{"kind": "packing.plan", "schema": "1"}', "`schema` must be a positive integer, but got '1'."),
        ('{"kind": "packing.plan", "schema": 0}', "`schema` must be a positive integer, but got 0."),
        ('{"kind": "packing.plan", "schema": 1}', "its checksum does not match its content."),
    ],
)
def test_what_is_no_plan_is_refused(text, expected):
    with pytest.raises(ConfigError) as caught:
        Plan.from_json(text)
    assert expected in str(caught.value)


def test_a_newer_schema_is_refused_in_words(body):
    newer = {"kind": "packing.plan", "schema": 2, "all": "different"}
    for text in (json.dumps(newer), json.dumps(body | {"schema": 2})):
        with pytest.raises(ConfigError) as caught:
            Plan.from_json(text)
        assert str(caught.value) == (
            "this plan has schema 2, written by a newer version of packing; this version reads up to 1."
        )


def _edits():
    def add_one(part, key):
        part[key] += 1

    return {
        "length": lambda body: body["lengths"].__setitem__(3, body["lengths"][3] - 1),
        "length as a float": lambda body: body["lengths"].__setitem__(3, body["lengths"][3] + 0.5),
        "token": lambda body: add_one(body["tokens"], 3),
        "cost": lambda body: add_one(body["fixed_costs"], 0),
        "key": lambda body: add_one(body["keys"][0], 2),
        "two samples swapped": lambda body: body["items"].__setitem__(slice(0, 2), body["items"][1::-1]),
        "step": lambda body: add_one(body, "step"),
        "load of a bin": lambda body: add_one(body["pack_loads"], 0),
        "bound": lambda body: add_one(body["lower_bound"], "score"),
        "baseline": lambda body: body["baseline"]["rank_loads"].__setitem__(0, 1.0),
        "decision": lambda body: body["decision"].update(accepted=False),
        "metric": lambda body: body["metrics"].update(imbalance=1.0),
        "environment": lambda body: body["environment"].update(numpy="9.9"),
        "fingerprint": lambda body: body.update(config_fingerprint="0" * 64),
        "digest": lambda body: body.update(digest="0" * 64),
        "checksum": lambda body: body.update(checksum=None),
        "a field more": lambda body: body.update(note="looks good"),
        "a field less": lambda body: body.pop("rank_loads"),
    }


@pytest.mark.parametrize("edit", _edits())
def test_an_edited_plan_is_refused(body, edit):
    edited = copy.deepcopy(body)
    _edits()[edit](edited)
    assert edited != body
    with pytest.raises(ConfigError, match=r"^this plan was changed after it was written: its checksum does not match"):
        Plan.from_json(json.dumps(edited))


@pytest.mark.parametrize(
    "edit", ["length", "token", "cost", "key", "two samples swapped", "step", "fingerprint", "digest"]
)
def test_the_digest_alone_refuses_other_inputs(body, edit):
    edited = copy.deepcopy(body)
    _edits()[edit](edited)
    with pytest.raises(ConfigError, match=r"^this plan was changed after it was written: its digest does not match"):
        Plan.from_json(sealed(edited))


def _put(*path_and_value):
    """A function that changes one value of a document."""
    *path, last, value = path_and_value

    def change(body):
        for key in path:
            body = body[key]
        body[last] = value(body[last]) if callable(value) else value

    return change


def _pop(*path):
    def change(body):
        for key in path:
            body = body[key]
        body.pop()

    return change


DAMAGE = {
    "no offsets": ("it has no 'offsets'.", lambda body: body.pop("offsets")),
    "no gain": ("it has no 'gain'.", lambda body: body["decision"].pop("gain")),
    "text": ("`algorithm` must be text, but got 5.", _put("algorithm", 5)),
    "bool": ("`step` must be a non-negative integer, but got True.", _put("step", True)),
    "ranks": ("`data_parallel_size` must be a positive integer, but got 0.", _put("data_parallel_size", 0)),
    "huge": ("`offsets` must have ", _put("data_parallel_size", 10**15)),
    "objective": ("`objective` must be one of ", _put("objective", "speed")),
    "short": ("`lengths` must have 40 values, but has 39.", _pop("lengths")),
    "fraction": ("`items` must hold whole numbers, but got 0.5 at index 0.", _put("items", 0, 0.5)),
    "words": ("`items` must hold integers, ", _put("items", 0, "0")),
    "twice": ("`items` must hold each of the 40 samples once", lambda body: _put("items", 0, body["items"][1])(body)),
    "wrapped": ("`items` must hold each of the 40 samples once", _put("items", 0, lambda item: item + 2**32)),
    "descending": ("`offsets` must ascend from 0 to 40", _put("offsets", 1, 39)),
    "late": ("`offsets` must ascend from 0 to 40", _put("offsets", 0, 1)),
    "no length": ("`lengths` must be positive, but got 0 at index 0.", _put("lengths", 0, 0)),
    "shrunk": ("`tokens` must not be smaller than `lengths`.", _put("tokens", 0, 1)),
    "sum": ("`pack_loads` must have a sum below 2**62.", _put("pack_loads", 0, 2**62 - 1)),
    "keys": ("`keys` must have 40 rows of three integers", _pop("keys")),
    "ragged": ("this plan is damaged", _pop("keys", 0)),
    "exponent": ("`cost_exponent` must keep the loads finite, but got 1000000000.", _put("cost_exponent", 10**9)),
    "infinite": ("`cost_exponent` must keep the loads finite, but got -1010.", _put("cost_exponent", -1010)),
    "bound": ("`lower_bound` must be an object, but got [].", _put("lower_bound", [])),
    "score": ("`lower_bound.score` must be a non-negative integer", _put("lower_bound", "score", 1.5)),
    "baseline": ("`baseline.kind` must be one of", _put("baseline", "kind", "other")),
    "loads": ("`baseline.rank_loads` must be one number for each of the 4", _put("baseline", "rank_loads", [])),
    "loads sum": ("`baseline.rank_loads` must have a finite sum.", _put("baseline", "rank_loads", [1e308] * 4)),
    "accepted": ("`decision.accepted` must be true or false, but got 1.", _put("decision", "accepted", 1)),
    "nan": ("`decision.gain` must be finite", _put("decision", "gain", math.nan)),
    "environment": ("`numpy` must be text, but got 2.", _put("environment", "numpy", 2)),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_plan_says_where(body, damage):
    expected, harm = DAMAGE[damage]
    damaged = copy.deepcopy(body)
    harm(damaged)
    with pytest.raises(ConfigError) as caught:
        Plan.from_json(sealed(damaged))
    assert str(caught.value).startswith("this plan is damaged: ")
    assert expected in str(caught.value)


# --------------------------------------------------------------------------------------------------------------- fuzz


def _places(value, path=()):
    """The path of every value in a JSON document; of long lists the first two and the last."""
    yield path
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in entries:
        if isinstance(value, dict) or key in (0, 1, len(value) - 1):
            yield from _places(inner, (*path, key))


def use(plan: Plan) -> None:
    """Everything that a reader may ask of a plan."""
    assert isinstance(plan.metrics["gap"], float)
    assert plan.num_samples == sum(map(len, plan.bins())) == plan.inverse_permutation.size
    assert [plan.bin(0, 0, 0), plan.rank(0), repr(plan)]
    keys = plan.keys()
    assert keys is None or all(isinstance(key, SampleKey) for members in keys for key in members)
    assert plan.baseline.imbalance >= 0
    assert plan.lower_bound.value >= 0
    assert Plan.from_json(plan.to_json()) == plan


@given(data=st.data())
@settings(max_examples=400, deadline=None)
def test_no_mutation_gives_anything_but_a_config_error(body, data):
    mutated = copy.deepcopy(body)
    for _ in range(data.draw(st.integers(1, 2), label="edits")):
        path = data.draw(st.sampled_from([place for place in _places(mutated) if place]), label="path")
        parent = mutated
        for key in path[:-1]:
            parent = parent[key]
        if data.draw(st.booleans(), label="remove"):
            del parent[path[-1]]
        else:
            parent[path[-1]] = data.draw(JSON, label="value")
    for text in (json.dumps(mutated), sealed(mutated)):
        try:
            plan = Plan.from_json(text)
        except ConfigError:
            continue
        use(plan)


@given(data=st.data())
@settings(max_examples=200, deadline=None)
def test_no_damage_to_the_text_goes_unnoticed(data):
    text = GOLDEN.read_text()
    at = data.draw(st.integers(0, len(text.rstrip()) - 1), label="at")
    if data.draw(st.booleans(), label="truncate"):
        damaged = text[:at]
    else:
        damaged = text[:at] + data.draw(st.characters(codec="utf-8"), label="character") + text[at + 1 :]
    try:
        plan = Plan.from_json(damaged)
    except ConfigError:
        return
    assert json.loads(damaged) == json.loads(text)  # white space, or the same character again
    assert plan == Plan.from_json(text)
