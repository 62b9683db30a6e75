"""Packed rows with torch: tensors share memory with `out`, results and gradients come back by sequence."""

from __future__ import annotations

import numpy as np
import pytest

from packing import (
    ConfigError,
    Planner,
    RowLayout,
    Sequences,
    balanced_pack,
    group_by_version,
    loss_weights,
    materialize,
    micro_batches,
    pack_sequences,
)
from packing.compat import verl

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


def test_tensors_without_dimensions_are_labels():
    items = [{"input_ids": [1, 2, 3], "uid": torch.tensor(i // 2), "v": torch.tensor(7)} for i in range(4)]
    update = next(pack_sequences([items], num_packs=1, max_token_budget=64, forbid="v"))
    assert update.num_rows == 1
    assert update.values["uid"].tolist() == [0, 0, 1, 1]
    assert update.loss_weights("group", groups="uid").denominator == 2
    together = next(pack_sequences([items], num_packs=2, max_token_budget=6, group="uid"))
    assert sorted(row.tolist() for row in np.split(together.layout.sequences, 2)) == [[0, 1], [2, 3]]

    same, uids = [torch.tensor(7) for _ in range(4)], [torch.tensor(i // 2) for i in range(4)]
    assert balanced_pack([3] * 4, 1, 64, versions=same, forbid=same).num_rows == 1
    layout = RowLayout.from_bins([2] * 4, [[0, 1, 2, 3]])
    for option in ("group", "prompt"):
        assert loss_weights(layout, [[1, 1]] * 4, reduction=option, **{f"{option}s": uids}).denominator == 2
    assert verl.get_group_balanced_partitions([5, 1, 2, 8], uids, 2) == [[2, 3], [0, 1]]
    assert verl.get_group_balanced_partitions([5, 1, 2, 8], torch.tensor([0, 0, 1, 1]), 2) == [[2, 3], [0, 1]]
    assert group_by_version(uids) == {0: [0, 1], 1: [2, 3]}
    plan = Planner(data_parallel_size=2, group="uid").plan({"length": [5, 1, 2, 8], "uid": uids})
    assert sorted(map(sorted, plan.bins())) == [[0, 1], [2, 3]]


def test_values_of_tensors_are_read_where_they_are_one_column():
    sequences = Sequences([0, 1, 2], torch.tensor([3, 4]), values={"uid": torch.tensor([7, 7])})
    assert sequences.values["uid"] == [7, 7]


@pytest.mark.parametrize(
    ("feature", "reason"),
    [
        (torch.zeros(2, dtype=torch.bfloat16), "ScalarType BFloat16"),
        (torch.zeros(2, requires_grad=True), "Use tensor.detach().numpy() instead."),
    ],
    ids=["bfloat16", "gradient"],
)
def test_tensors_that_numpy_cannot_read_are_named(feature, reason):
    message = "must be an array that NumPy can read, but got tensor"
    plain = {"input_ids": [1, 2], "x": torch.zeros(2)}
    with pytest.raises(ConfigError) as error:
        Sequences.of([plain, plain | {"x": feature}])
    assert str(error.value).startswith(f"`x` of sequence 1 {message}")
    assert str(error.value).endswith(reason)
    with pytest.raises(ConfigError, match=rf"^`x` {message}"):
        Sequences([0, 2], [1, 2], {"x": feature})
    with pytest.raises(ConfigError, match=r"^`input_ids` of sequence 0 must be a one-dimensional array of integers"):
        Sequences.of([feature])


@pytest.mark.parametrize("labels", [list(torch.tensor([[7], [8]])), [torch.tensor([1, 2])] * 2, [(torch.ones(1),)] * 2])
def test_tensors_with_dimensions_are_no_labels(labels):
    with pytest.raises(ConfigError, match=r"^`group` must have a value for each sequence, but got \["):
        balanced_pack([3, 3], 2, 8, group=labels)
    with pytest.raises(ConfigError, match=r"^`group` must have one value for each sample, but got \["):
        micro_batches([3, 3], 8, group=labels)
    with pytest.raises(ConfigError, match=r"^`uid_list` must be a list of hashable values, but got \["):
        verl.get_group_balanced_partitions([3, 3], labels, 2)
