"""The lists on which solvers are measured: the same everywhere, and what they claim of themselves is true."""

from __future__ import annotations

import importlib
import json
import os
import sys

import numpy as np
import pytest

from packing.audit import audit
from packing.bounds import lower_bound
from packing.registry import resolve_algorithm
from tests.conftest import ROOT, data_folder

FOLDER = ROOT / "ci" / "bench"
HERE = data_folder().exists()
DIGESTS = {
    "no_cap/openchat_v1/attention/k64/x4/0": "14f6a7445aa767bc",
    "caps/openchat_v1/64x32k/99.5%/2": "83d2369b7833f521",
    "small/openchat_v1/4x5/97%/0": "fecb2908c9703c8f",
    "full/openchat_v1/8x32k/W4/1": "650e35f8282ea72e",
}
needs_data = pytest.mark.skipif(not HERE, reason="the data folder is not here")


@pytest.fixture(scope="module")
def modules():
    """`drawing`, `constrained` and `instances`, imported as the scripts beside them do."""
    sys.path.insert(0, str(FOLDER))
    try:
        yield {name: importlib.import_module(name) for name in ("drawing", "constrained", "instances")}
    finally:
        sys.path.remove(str(FOLDER))


@pytest.fixture(scope="module")
def lists(modules):
    return modules["instances"].families()


def spread(instances: list, count: int) -> list:
    return instances[:: max(1, len(instances) // count)]


def test_draws_never_change(modules):
    draw = modules["drawing"].Draw("a name")
    assert draw.bits(2).tolist() == [8874905974766881226, 303705436604627844]
    assert draw.integers(5, 10).tolist() == [1, 8, 0, 0, 8]
    assert sorted(draw.permutation(7).tolist()) == list(range(7))


def test_a_draw_of_a_sum_has_that_sum(modules):
    pool = np.array([5, 900, 30])
    for total in (1, 5, 31, 12345):
        drawn = modules["drawing"].Draw(f"sum {total}").with_sum(pool, total)
        assert drawn.sum() == total
        assert drawn.min() > 0
        assert set(drawn[:-1].tolist()) <= set(pool.tolist())


def test_names_are_unique_and_families_are_complete(lists):
    names = [instance.name for instances in lists.values() for instance in instances]
    assert len(set(names)) == len(names)
    assert all(instance.family == family for family, instances in lists.items() for instance in instances)
    assert {"no_cap", "caps_one_round", "caps_small", "full_packs", "constraints", "idle_limits"} <= set(lists)
    if HERE and "PACKING_DATA" not in os.environ:
        assert (len(lists["pcmax"]), len(lists["bins"]), len(lists["constraints"])) == (2341, 1090, 100_000)
        assert len(lists["count_capped"]) == 9 * (300 + 200)


def test_instances_are_built_alike_every_time(modules, lists):
    digest, again = modules["instances"].digest, modules["instances"].families()
    seen = set()
    for family, instances in lists.items():
        for one, other in zip(spread(instances, 6), spread(again[family], 6), strict=True):
            made = digest(one.problem())
            assert made == digest(one.problem()) == digest(other.problem())
            seen.add(made)
    assert len(seen) > 5 * len(lists)


def test_instances_of_the_bundled_lengths_are_these(modules, lists):
    digest = modules["instances"].digest
    by_name = {instance.name: instance for instances in lists.values() for instance in instances}
    for name, expected in DIGESTS.items():
        assert digest(by_name[name].problem())[:16] == expected, name


def test_what_is_full_is_full_and_its_reference_is_valid(lists):
    for instance in spread(lists["full_packs"], 12):
        problem = instance.problem()
        audit(problem, problem.reference, "reference", str)
        assert (problem.reference.sums(problem.tokens) == problem.capacity).all()


def test_fills_are_as_their_labels_say(lists):
    for family in ("caps_one_round", "windows"):
        for instance in spread(lists.get(family, []), 10):
            problem = instance.problem()
            fill = problem.tokens.sum() / (problem.capacity * problem.num_bins)
            assert f"{100 * fill:.3g} % full" in instance.labels
            assert problem.tokens.max() <= problem.capacity


def test_every_hidden_layout_is_valid(modules):
    for seed in range(0, 3000, 2 if HERE else 10):
        problem, hidden = modules["constrained"].constrained_problem(seed)
        audit(problem, hidden, "hidden", str)
        assert {"budgets", "multi_bin", "max_items", "group", "forbid"} <= problem.needs()


def test_idle_limits_bind_nothing(modules):
    """A layout of the step without limits is a layout with them, wherever all samples of a bin may lie."""
    lpt = resolve_algorithm("lpt").instance
    for seed in range(40):
        twin, problem = modules["constrained"].unconstrained_twin(seed), modules["constrained"].with_idle_limits(seed)
        layout = lpt.assign(twin)
        assert layout is not None
        audit(problem, layout, "lpt", str)
        assert problem.score(layout) == twin.score(layout)


@needs_data
def test_known_optima_lie_between_bound_and_greedy(lists):
    lpt = resolve_algorithm("lpt").instance
    for family in ("pcmax", "caps_small"):
        for instance in spread([one for one in lists.get(family, []) if one.optimum is not None], 60):
            problem = instance.problem()
            assert lower_bound(problem).score <= instance.optimum
            layout = lpt.assign(problem)
            assert layout is None or instance.optimum <= problem.score(layout)


def test_proven_optima_are_of_instances_that_exist(modules, lists):
    names = {instance.name for instance in lists["caps_small"]}
    proven = json.loads(modules["instances"].OPTIMA.read_text())
    assert proven
    if HERE:
        assert set(proven) <= names
