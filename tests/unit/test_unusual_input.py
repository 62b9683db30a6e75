"""What merely looks odd is taken: any dtype and memory, huge and zero numbers, very small inputs."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest

from packing import Planner, SampleMetadata, WorkloadCost
from packing.errors import (
    InfeasibleError,
    NoCandidateError,
)
from tests.planning import planner
from tests.problems import BUILTINS

LENGTHS = [5, 3, 8, 1, 4, 4]


@pytest.mark.parametrize(
    "samples",
    [
        np.asarray(LENGTHS, np.int32),
        np.asarray(LENGTHS, np.uint16),
        np.asarray(LENGTHS, ">i8"),
        np.asarray(LENGTHS, ">u4"),
        np.asarray(LENGTHS, np.float64),
        np.asarray(LENGTHS, np.float16),
        np.repeat(np.asarray(LENGTHS), 2)[::2],
        np.asarray(LENGTHS)[::-1][::-1],
        np.asarray([LENGTHS, LENGTHS]).T[:, 0],
        tuple(LENGTHS),
        memoryview(np.asarray(LENGTHS)),
        {"length": LENGTHS},
        [SampleMetadata(length) for length in LENGTHS],
        [SampleMetadata(length, cost=WorkloadCost()) for length in LENGTHS],
    ],
    ids=lambda samples: f"{type(samples).__name__}-{getattr(samples, 'dtype', '')}",
)
def test_the_form_of_the_lengths_plays_no_part(samples):
    plan = planner(seq_len=16, local_batch_size=1).plan(samples)
    assert plan.digest == planner(seq_len=16, local_batch_size=1).plan(LENGTHS).digest
    assert plan.lengths.tolist() == LENGTHS


def test_read_only_and_mapped_lengths(tmp_path):
    path = tmp_path / "lengths.npy"
    np.save(path, np.asarray(LENGTHS))
    mapped = np.load(path, mmap_mode="r")
    frozen = np.asarray(LENGTHS)
    frozen.flags.writeable = False
    expected = planner().plan(LENGTHS).digest
    assert planner().plan(mapped).digest == planner().plan(frozen).digest == expected
    columns = {"length": mapped, "cost": mapped, "key": np.arange(6)}
    assert planner().plan(columns).lengths.tolist() == LENGTHS


def test_the_input_is_left_alone():
    lengths, keys, costs = np.asarray(LENGTHS), np.arange(6)[::-1].copy(), np.asarray(LENGTHS, float)
    samples = {"length": lengths, "key": keys, "cost": costs, "group": [None, 1, 1, None, 2, 2]}
    plan = planner(seq_len=32, local_batch_size=1, group="group").plan(samples)
    assert sorted(samples) == ["cost", "group", "key", "length"]
    for array in (lengths, keys, costs):
        assert array.flags.writeable
        array[:] = 0
    assert plan.lengths.tolist() == LENGTHS


def test_a_sample_exactly_at_the_cap():
    plan = planner(seq_len=8, local_batch_size=1).plan([8, 8])
    assert plan.bin_tokens.tolist() == [8, 8]
    assert plan.metrics["fill"] == 1.0


@pytest.mark.parametrize("algorithm", BUILTINS)
@pytest.mark.parametrize("length", [2**31 - 1, 2**31, 2**40, 2**61])
def test_huge_lengths(algorithm, length):
    samples = [length] * (1 if length == 2**61 else 4)
    plan = Planner(data_parallel_size=1, algorithm=algorithm).plan(samples)
    assert sorted(plan.bins()[0]) == list(range(len(samples)))
    assert plan.bin_tokens.tolist() == [sum(samples)]
    assert plan.rank_loads.tolist() == [float(sum(samples))]
    capped = Planner(data_parallel_size=1, seq_len=2 * length, algorithm=algorithm).plan(samples)
    assert capped.bins_per_rank == (len(samples) + 1) // 2


@pytest.mark.parametrize("algorithm", BUILTINS)
def test_a_cap_that_no_sum_can_reach(algorithm):
    plan = Planner(data_parallel_size=2, seq_len=2**62, local_batch_size=2, algorithm=algorithm).plan([3, 4, 5, 6])
    assert sorted(plan.bin_tokens.tolist()) == [3, 4, 5, 6]


def test_a_large_cap_and_nothing_found():
    samples = {"length": [1] * 12, "memory": [20] * 12}
    plan = planner(data_parallel_size=8, seq_len=2**61, local_batch_size=1, packing_budgets={"memory": 30}).plan
    with pytest.raises((NoCandidateError, InfeasibleError), match="memory"):
        plan(samples)


@pytest.mark.parametrize("algorithm", BUILTINS)
@pytest.mark.parametrize(("ranks", "lengths"), [(1, [7]), (3, [7, 5, 9]), (2, [4] * 8), (4, [1] * 4)])
def test_small_and_uniform_inputs(algorithm, ranks, lengths):
    plan = Planner(data_parallel_size=ranks, seq_len=16, algorithm=algorithm).plan(lengths)
    assert sorted(chain.from_iterable(plan.bins())) == list(range(len(lengths)))
    assert plan.gap >= 0
    if len(set(lengths)) == 1:
        assert plan.imbalance == 1.0


@pytest.mark.parametrize("algorithm", BUILTINS)
def test_no_cost_at_all(algorithm):
    plan = planner(algorithm=algorithm, local_batch_size=2, seq_len=9).plan({"length": [1, 2, 3, 4], "cost": [0] * 4})
    assert all(len(members) == 1 for members in plan.bins())
    assert (plan.imbalance, plan.gap, plan.lower_bound.value) == (1.0, 0.0, 0.0)


def test_costs_of_any_size_are_balanced():
    for scale in (2.0**-1074, 2.0**-1000, 2.0**-30, 1.0, 2.0**960):
        plan = planner().plan({"length": [1] * 4, "cost": [3 * scale, 3 * scale, 2 * scale, 2 * scale]})
        assert plan.imbalance == 1.0
        assert sorted(map(len, plan.bins())) == [2, 2]
        assert plan.rank_loads.tolist() == [5 * scale, 5 * scale]
