"""verl's functions on torch tensors, and the agreement of real processes on the number of micro-batches."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from packing import micro_batches
from packing.compat import verl
from tests.conftest import ROOT

torch = pytest.importorskip("torch")


def test_workloads_of_tensors():
    lengths = torch.tensor([[46_341, 65_535]], dtype=torch.int32)
    work = verl.calculate_workload(lengths)
    assert work.dtype == torch.int64
    assert work.tolist() == [[24576 * 46_341 + 46_341**2, 24576 * 65_535 + 65_535**2]]
    assert verl.calculate_workload(torch.tensor(7)).tolist() == 24576 * 7 + 49


def test_partitions_of_tensors():
    lengths = torch.from_numpy(np.random.default_rng(0).integers(1, 999, 64))
    parts = verl.get_seqlen_balanced_partitions(lengths, 8, equal_size=True)
    assert parts == verl.get_seqlen_balanced_partitions(lengths.tolist(), 8, equal_size=True)
    assert verl.karmarkar_karp(list(lengths), 8, False) == verl.karmarkar_karp(lengths.tolist(), 8, False)
    metrics = verl.log_seqlen_unbalance(lengths, parts, "x")
    assert metrics["x/mean"] == lengths.sum().item() / 8


def test_batches_of_tensors_come_back():
    mask = (torch.arange(32) < torch.arange(1, 33)[:, None]).long()
    batch = {"attention_mask": mask, "input_ids": torch.arange(32 * 32).reshape(32, 32)}
    parts, index = verl.rearrange_micro_batches(batch, 64, num_batches_divided_by=2)
    assert all(int(part["attention_mask"].sum()) <= 64 for part in parts)
    assert len(parts) % 2 == 0
    rows = torch.cat([part["input_ids"] for part in parts])
    assert torch.equal(verl.restore_dynamic_batch(rows, index), batch["input_ids"])
    reverse = verl.get_reverse_idx(torch.tensor([2, 0, 1], dtype=torch.int32))
    assert reverse.tolist() == [1, 2, 0]


def test_results_in_tensors_come_back_in_input_order():
    lengths = torch.from_numpy(np.random.default_rng(1).integers(1, 50, 40))
    made = micro_batches(lengths, 100, data_parallel_size=2)
    assert torch.equal(made.restore(lengths[made.permutation.copy()]), lengths)
    own = torch.cat([lengths[members] for members in made.rank(1)])
    assert torch.equal(made.restore(own, rank=1), lengths[torch.from_numpy(made.rank_of == 1)])


@pytest.mark.filterwarnings("ignore:.*prototype.*:UserWarning")
def test_nested_batches_come_back():
    pieces = [torch.arange(length) for length in (5, 2, 7, 3)]
    batch = {"input_ids": torch.nested.as_nested_tensor(pieces, layout=torch.jagged)}
    parts, index = verl.rearrange_micro_batches(batch, 10)
    assert [[len(row) for row in part["input_ids"].unbind()] for part in parts] == [
        [(5, 2, 7, 3)[sample] for sample in members] for members in index
    ]
    rows = torch.nested.as_nested_tensor(
        [row for part in parts for row in part["input_ids"].unbind()], layout=torch.jagged
    )
    restored = verl.restore_dynamic_batch(rows, index).unbind()
    assert all(torch.equal(one, other) for one, other in zip(restored, pieces, strict=True))


PROCESS = """
import json, sys
import torch
from torch import distributed
rank, size, store, cases = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], json.loads(sys.argv[4])
distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=size)
from packing import micro_batches
from packing.compat import verl
for lengths, options in cases:
    try:
        answer = verl.rearrange_micro_batches(
            torch.tensor(lengths[rank]), dp_group=distributed.group.WORLD, **options
        )
    except Exception as error:
        answer = [type(error).__name__, str(error)]
    print(json.dumps(answer))
distributed.destroy_process_group()
"""

CASES = [
    [[[5, 5, 5], [9, 9, 9], [1, 1, 1]], {"max_token_len": 10}],
    [[[5, 5, 5, 1], [9, 9, 9, 1], [1, 1, 1, 1]], {"max_token_len": 10, "num_batches_divided_by": 2}],
    [[[5], [9, 9], [1, 1]], {"max_token_len": 10}],
    [[[5, 11], [9, 9], [1, 1]], {"max_token_len": 10}],
    [[[5, 5], [5, 5], [5]], {"max_token_len": 10, "same_micro_num_in_dp": False}],
    [[[5, 5], [5, 5], [2, 2]], {"max_token_len": 10}],
]


def test_processes_agree_or_all_refuse(tmp_path):
    """The last case shows that nobody was left waiting in an earlier one."""
    arguments = [str(tmp_path / "store"), json.dumps(CASES)]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, str(rank), "3", *arguments],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for rank in range(3)
    ]  # fmt: skip
    try:
        outputs = [process.communicate(timeout=100) for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert all(process.returncode == 0 for process in processes), outputs
    by_rank = [[json.loads(line) for line in out.splitlines() if line[:1] == "["] for out, _ in outputs]
    counts, multiples, too_few, too_long, apart, last = zip(*by_rank, strict=True)
    assert [len(index) for index in counts] == [3, 3, 3]
    assert [len(index) for index in multiples] == [4, 4, 4]
    message = "2 micro-batches need as many samples (groups) on every rank, but one has 1."
    assert list(too_few) == [["NoPartitionError", message]] * 3
    assert too_long[0] == ["NoPartitionError", "sample 1 has 11 tokens, over `max_token_len` = 10."]
    other = "rank 0 of `dp_group` cannot split its batch; its own error says why."
    assert list(too_long[1:]) == [["NoPartitionError", other]] * 2
    assert [len(index) for index in apart] == [1, 1, 1]
    assert [len(index) for index in last] == [1, 1, 1]
