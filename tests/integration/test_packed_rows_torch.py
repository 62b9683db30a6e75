"""Packed rows with torch: tensors share memory with `out`, results and gradients come back by sequence."""

from __future__ import annotations

import numpy as np
import pytest

from packing import RowLayout, materialize

torch = pytest.importorskip("torch")

LAYOUT = RowLayout.from_bins([5, 3, 2], [[2, 0], [1]], alignment=4)
SEQUENCES = [torch.tensor([1, 2, 3, 4, 5]), torch.tensor([6, 7, 8]), torch.tensor([9, 10])]


def test_tensors_go_in_and_come_out():
    ids = torch.empty((2, 12), dtype=torch.int64)
    packed = materialize(SEQUENCES, LAYOUT, out={"input_ids": ids.numpy()})
    assert ids.tolist() == packed.input_ids.tolist()
    back = packed.unpack(ids)
    assert all(torch.equal(got, given) for got, given in zip(back, SEQUENCES, strict=True))


def test_gradients_flow_through_unpack_and_unshard():
    packed = materialize(SEQUENCES, LAYOUT)
    logits = torch.zeros((2, 12, 3), requires_grad=True)
    first, second, third = packed.unpack(logits)
    (first.sum() + 2 * second.sum() + 3 * third.sum()).backward()
    expected = np.asarray([[3] * 2 + [0] * 2 + [1] * 5 + [0] * 3, [2] * 3 + [0] * 9])
    assert logits.grad[..., 0].tolist() == expected.tolist()
    shards = [torch.from_numpy(packed.shard(rank, 2).input_ids).requires_grad_(False) for rank in range(2)]
    assert packed.unshard(torch.cat(shards, dim=1), 2).tolist() == packed.input_ids.tolist()


def test_the_parts_of_a_split_sequence_are_joined():
    layout = RowLayout(1, [0, 1, 2], [0, 0], [3, 0], [2, 3], [2, 3], 3)
    packed = materialize(SEQUENCES[:1], layout)
    assert torch.equal(packed.unpack(torch.from_numpy(packed.input_ids))[0], SEQUENCES[0])
