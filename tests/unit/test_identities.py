"""Identities: what makes two plans or two configs the same, and what must not."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import packing._version
from packing import Plan, Planner, SampleKey, SampleMetadata, WorkloadCost, _kernels
from packing._identities import environment
from tests.conftest import ROOT
from tests.contract.sources import PACKAGE

SETTINGS = {
    "data_parallel_size": 2,
    "window": 2,
    "local_batch_size": 2,
    "seq_len": 4096,
    "packing_budgets": {"images": 40, "bytes": 900},
    "padding_cost": {"linear": 2},
    "group": "prompt",
    "group_scope": "rank",
    "forbid": "version",
    "estimator": {"name": "attention", "linear": 100},
    "max_items": 30,
    "algorithm": {"name": "auto", "effort": 8},  # a number: named efforts are smaller here than in another process
}


KEYS = [[int(k) % 3, int(k)] for k in np.random.default_rng(5).permutation(32)]
BY_KEY = sorted(range(32), key=KEYS.__getitem__)
REFERENCE = [BY_KEY[start : start + 4] for start in range(0, 32, 4)]
"""Dealt out in key order, four to a bin; a rank has eight in a row, and the groups of three below lie within them."""


def columns() -> dict[str, list]:
    generator = np.random.default_rng(6)
    place = {sample: at for at, sample in enumerate(BY_KEY)}
    return {
        "length": generator.integers(10, 300, 32).tolist(),
        "key": KEYS,
        "images": generator.integers(0, 4, 32).tolist(),
        "bytes": generator.integers(0, 50, 32).tolist(),
        "prompt": [place[i] // 8 if place[i] % 8 < 3 else None for i in range(32)],
        "version": [0] * 32,
    }


def plan_of(columns, reference=None, step=0, **changes) -> Plan:
    return Planner(**(SETTINGS | changes)).plan(columns, reference_bins=reference, step=step)


def permuted(columns: dict, order) -> dict:
    return {name: [values[i] for i in order] for name, values in columns.items()}


# ------------------------------------------------------------------------------------------------------------- digest


def test_the_same_again_has_the_same_digest():
    assert plan_of(columns()).digest == plan_of(columns()).digest
    assert plan_of(columns()) == plan_of(columns())


@given(st.permutations(range(32)))
@settings(max_examples=25, deadline=None)
def test_the_order_of_keyed_samples_changes_nothing(order):
    place = np.argsort(order)
    reference = [[int(place[item]) for item in members] for members in REFERENCE]
    first, second = plan_of(columns(), REFERENCE), plan_of(permuted(columns(), order), reference)
    assert second.digest == first.digest
    assert second.inputs_digest == first.inputs_digest
    assert second.keys() == first.keys()
    assert [order[item] for item in second.items] == first.items.tolist()


def test_keys_as_records_and_as_columns_are_one():
    rows = columns()
    records = [
        SampleMetadata(pack_tokens=length, key=SampleKey(*key), cost=WorkloadCost(llm=7.0 * length))
        for length, key in zip(rows["length"], rows["key"], strict=True)
    ]
    as_columns = {"length": rows["length"], "key": rows["key"], "cost": [7.0 * length for length in rows["length"]]}
    planner = Planner(data_parallel_size=4)
    assert planner.plan(records) == planner.plan(as_columns) == planner.plan(records[::-1])


@given(at=st.integers(0, 31), name=st.sampled_from(["length", "key", "images", "bytes", "prompt", "version", "cost"]))
@settings(max_examples=60, deadline=None)
def test_any_one_value_changes_the_digest(at, name):
    rows = columns() | {"cost": list(range(100, 132))}
    changed = {column: list(values) for column, values in rows.items()}
    changes = {
        "key": lambda key: [key[0], key[1] + 100],
        "prompt": lambda prompt: 99 if prompt is None else None,
    }
    changed[name][at] = changes.get(name, lambda value: value + 1)(changed[name][at])
    estimator = None if name == "cost" else SETTINGS["estimator"]
    assert plan_of(changed, estimator=estimator).digest != plan_of(rows, estimator=estimator).digest


@given(lengths=st.lists(st.integers(1, 50), min_size=4, max_size=20), at=st.integers(0, 19), ranks=st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_any_one_plain_length_changes_the_digest(lengths, at, ranks):
    # Under a common alignment the tokens, and with them the layout, stay as they are.
    planner = Planner(data_parallel_size=ranks, alignment=64, estimator=lambda record: 1)
    changed = list(lengths)
    changed[at % len(lengths)] += 1
    first, second = planner.plan(lengths), planner.plan(changed)
    assert first.bins() == second.bins()
    assert first.digest != second.digest


CHANGES = {
    "data_parallel_size": 4,
    "window": 1,
    "local_batch_size": 3,
    "seq_len": 4097,
    "packing_budgets": {"images": 41, "bytes": 900},
    "padding_cost": {"linear": 3},
    "group": None,
    "group_scope": "bin",
    "forbid": None,
    "estimator": {"name": "attention", "linear": 101},
    "max_items": 31,
    "algorithm": "none",
    "objective": "balance",
    "min_balance_gain": 0.001,
    "oversized_policy": "single",
    "alignment": 2,
    "equal_count": True,
    "baseline": "round_robin",
}


def test_every_setting_is_among_the_changes():
    from dataclasses import fields

    assert {one.name for one in fields(Planner) if one.init} == CHANGES.keys()


@pytest.mark.parametrize("name", CHANGES)
def test_every_setting_changes_both_identities(name):
    before = Planner(**SETTINGS)
    after = Planner(**(SETTINGS | {name: CHANGES[name]}))
    assert before.config_fingerprint != after.config_fingerprint
    if name == "equal_count":  # `lpt` has none
        before, after = (Planner(data_parallel_size=2, algorithm="equal_count", equal_count=on) for on in (False, True))
    assert before.plan(columns()).digest != after.plan(columns()).digest


def test_step_and_reference_change_the_digest():
    first = plan_of(columns())
    assert first.digest != plan_of(columns(), step=1).digest
    with_reference = plan_of(columns(), REFERENCE)
    assert first.digest != with_reference.digest
    assert with_reference.digest != plan_of(columns(), [REFERENCE[1], REFERENCE[0], *REFERENCE[2:]]).digest


def test_the_layout_changes_the_digest():
    kept = Planner(data_parallel_size=2, min_balance_gain=0.9).plan([4, 4, 1, 1], reference_bins=[[0, 1], [2, 3]])
    other = Planner(data_parallel_size=2, min_balance_gain=0.9).plan([4, 4, 1, 1], reference_bins=[[1, 0], [2, 3]])
    assert not kept.decision.accepted
    assert not other.decision.accepted
    assert kept.digest != other.digest


def test_the_order_in_which_settings_are_written_changes_nothing():
    turned = dict(reversed(SETTINGS.items()))
    turned["packing_budgets"] = dict(reversed(SETTINGS["packing_budgets"].items()))
    turned["estimator"] = {"linear": 100, "name": "attention"}
    first, second = Planner.from_config(SETTINGS), Planner.from_config(turned)
    assert first.config_fingerprint == second.config_fingerprint
    assert first.plan(columns()).digest == second.plan(columns()).digest
    assert first == second


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"algorithm": "lpt"}, {"algorithm": "packing/lpt"}),
        ({"algorithm": {"name": "auto"}}, {}),
        ({"algorithm": {"name": "auto", "objective": "balance"}}, {"objective": "balance"}),
        ({"objective": "makespan"}, {}),
        ({"seq_len": np.int32(64)}, {"seq_len": 64}),
        ({"min_balance_gain": 0}, {"min_balance_gain": 0.0}),
        ({"seq_len": 9, "padding_cost": {"linear": 3}}, {"seq_len": 9, "padding_cost": lambda unused: 3 * unused}),
    ],
)
def test_the_same_settings_in_other_words_are_the_same(one, other):
    assert (
        Planner(data_parallel_size=2, **one).config_fingerprint
        == Planner(data_parallel_size=2, **other).config_fingerprint
    )


def test_the_version_of_the_package_is_in_the_fingerprint(monkeypatch):
    before = Planner(data_parallel_size=2)
    monkeypatch.setattr("packing.planner.__version__", packing._version.__version__ + ".post1")
    after = Planner(data_parallel_size=2)
    assert before.config_fingerprint != after.config_fingerprint
    assert before.plan([3, 4]).digest != after.plan([3, 4]).digest


# ------------------------------------------------------------------------------------------------- across processes

PRINT = """
from packing import _kernels
from tests.unit.test_identities import REFERENCE, columns, plan_of
plan = plan_of(columns(), REFERENCE, step=3)
other = plan_of(columns(), algorithm="none", estimator=None)
print(_kernels.backend, plan.config_fingerprint, plan.digest, other.config_fingerprint, other.digest)
"""


def _identities(**environment: str) -> list[str]:
    process = subprocess.run(
        [sys.executable, "-W", "error", "-c", PRINT],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(PACKAGE.parent)])} | environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout.split()


def test_processes_hash_seeds_and_backends_agree():
    plan = plan_of(columns(), REFERENCE, step=3)
    other = plan_of(columns(), algorithm="none", estimator=None)
    here = [plan.config_fingerprint, plan.digest, other.config_fingerprint, other.digest]
    assert len(set(here)) == 4
    for backend in ("reference", _kernels.backend):
        for seed in ("0", "12345"):
            printed = _identities(PYTHONHASHSEED=seed, PACKING_KERNELS=backend)
            assert printed == [backend, *here]


def test_the_backend_is_information_only():
    assert environment()["kernels"] == _kernels.backend
    assert environment().keys() == {"kernels", "numpy", "packing", "python"}
    assert plan_of(columns()).environment == environment()
