"""A transformer trained on packed rows has the loss and the gradients that it has on one sequence at a time."""

from __future__ import annotations

from collections import defaultdict
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest

from packing import Planner, RowLayout, Sequences, loss_weights, materialize, pack_sequences

torch = pytest.importorskip("torch")

VOCABULARY, WIDTH, HEADS, LONGEST = 29, 16, 2, 24
REDUCTIONS = ("token", "sequence", "prompt", "group")
BAR = 1e-10


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """The matrices are tiny."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Block(torch.nn.Module):
    """Attention inside each segment to what came before, then a feed-forward layer."""

    def __init__(self):
        super().__init__()
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(WIDTH) for _ in range(2))
        self.inputs, self.output = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.up, self.down = torch.nn.Linear(WIDTH, 2 * WIDTH), torch.nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, hidden, seen):
        rows, columns, _ = hidden.shape
        parts = self.inputs(self.norms[0](hidden)).view(rows, columns, 3, HEADS, WIDTH // HEADS)
        query, key, value = (part.transpose(1, 2) for part in parts.unbind(2))
        attended = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=seen[:, None])
        hidden = hidden + self.output(attended.transpose(1, 2).reshape(rows, columns, WIDTH))
        return hidden + self.down(torch.nn.functional.gelu(self.up(self.norms[1](hidden))))


class Transformer(torch.nn.Module):
    """Two blocks in float64; takes tokens, positions and segments, each [rows, columns]."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(7)
        self.tokens, self.positions = torch.nn.Embedding(VOCABULARY, WIDTH), torch.nn.Embedding(LONGEST, WIDTH)
        self.blocks, self.head = torch.nn.ModuleList([Block(), Block()]), torch.nn.Linear(WIDTH, VOCABULARY)
        self.double()

    def forward(self, tokens, positions, segments):
        before = torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool).tril()
        seen = (segments[:, :, None] == segments[:, None, :]) & before
        hidden = self.tokens(tokens) + self.positions(positions)
        for block in self.blocks:
            hidden = block(hidden, seen)
        return torch.log_softmax(self.head(hidden), -1)


@dataclass
class Batch:
    """Sequences of one step, with the prompt and the group of each."""

    sequences: Sequences
    members: list

    def labels(self, reduction):
        return {f"{reduction}s": self.members} if reduction in ("prompt", "group") else {}


def batch_of(seed: int) -> Batch:
    """Eleven (prompt, completion) pairs of eight lengths; one fully masked sequence, one of a single token."""
    rng = np.random.default_rng(seed)
    items = []
    for number in range(11):
        ids = rng.integers(0, VOCABULARY, rng.integers(3, LONGEST))
        mask = np.arange(ids.size) >= rng.integers(0, ids.size)
        items.append({"input_ids": ids[:1] if number == 4 else ids, "loss_mask": mask[:1] if number == 4 else mask})
    items[7]["loss_mask"] = np.zeros(items[7]["input_ids"].size, bool)
    return Batch(Sequences.of(items), ["a", "b", "a", "c", "c", "b", None, "d", "a", "d", "e"])


def tensor(array):
    return torch.from_numpy(np.array(array, np.int64))


def unpacked(batch: Batch, reduction: str):
    """(loss, gradients) one sequence at a time, each mean by its definition."""
    model, losses = Transformer(), {}
    for number, (start, stop) in enumerate(pairwise(batch.sequences.offsets)):
        ids, mask = tensor(batch.sequences.input_ids[start:stop]), batch.sequences.loss_mask[start + 1 : stop].copy()
        logs = model(ids[None], torch.arange(len(ids))[None], torch.ones(1, len(ids), dtype=torch.int64))[0]
        token_losses = -logs[:-1].gather(1, ids[1:, None])[:, 0]
        if mask.any():
            losses[number] = token_losses[torch.from_numpy(mask)]
    families = defaultdict(list)
    for number in losses:
        member = batch.members[number]
        families[number if member is None else member].append(losses[number])
    if reduction == "token":
        loss = torch.cat(list(losses.values())).mean()
    elif reduction == "sequence":
        loss = torch.stack([one.mean() for one in losses.values()]).mean()
    elif reduction == "prompt":
        loss = torch.stack([torch.cat(family).mean() for family in families.values()]).mean()
    else:
        means = [torch.stack([one.mean() for one in family]).mean() for family in families.values()]
        loss = torch.stack(means).mean()
    loss.backward()
    return loss.item(), gradients(model)


def gradients(model):
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


def packed_loss(model, batch: Batch, weights, form: str):
    """sum(w * l) of some rows, run through the model at once."""
    rows = materialize(batch.sequences, weights.layout, labels=weights.labels, form=form)
    arrays = (rows.input_ids, rows.position_ids, rows.segment_ids, rows.labels)
    ids, positions, segments, labels = (tensor(np.atleast_2d(array)) for array in arrays)
    logs = model(ids, positions, segments)
    if weights.labels == "unshifted":  # the model's own shift: each column is predicted by the one before
        logs = torch.nn.functional.pad(logs, (0, 0, 1, 0))[:, :-1]
    token_losses = -logs.gather(2, labels.clamp(min=0)[:, :, None])[:, :, 0]
    w = torch.from_numpy(np.atleast_2d(weights.token_weights(form)))
    assert torch.equal(w > 0, labels != -100)
    return (w * token_losses).sum()


def regrouped(batch: Batch, seed: int, ranks: int):
    """A random layout with padding and dummy rows, and random ranks and micro-batches of its rows."""
    rng = np.random.default_rng(seed)
    num_rows, lengths = int(rng.integers(4, 9)), batch.sequences.lengths
    place = rng.integers(0, num_rows, lengths.size)
    place[place == 1] = 0  # row 1 is a dummy
    bins = [rng.permutation(np.flatnonzero(place == row)) for row in range(num_rows)]
    alignment = {"segment": int(rng.choice([1, 4])), "row": 8}
    layout = RowLayout.from_bins(lengths, bins, alignment=alignment)
    micro_batches = rng.integers(0, 3, num_rows)
    return layout, {
        "data_parallel_size": ranks, "row_ranks": rng.integers(0, ranks, num_rows), "micro_batches": micro_batches
    }  # fmt: skip


def packed(batch: Batch, weights, form: str):
    """(loss, gradients): each rank adds its micro-batches up, then gradients are averaged over the ranks."""
    total, averaged = 0.0, defaultdict(float)
    for rank in range(weights.data_parallel_size):
        model = Transformer()
        mine = weights.rank(rank)
        for index in range(weights.num_micro_batches):
            part = mine.micro_batch(index)
            if part.layout.num_rows == 0:
                continue
            numerator = packed_loss(model, batch, part, form)
            (weights.scale() * numerator).backward()
            total += numerator.item()
        for name, parameter in model.named_parameters():
            if parameter.grad is not None:
                averaged[name] = averaged[name] + parameter.grad / weights.data_parallel_size
    return total / weights.denominator, averaged


def assert_same(got, wanted):
    assert got[0] == pytest.approx(wanted[0], abs=BAR, rel=0)
    assert got[1].keys() == wanted[1].keys()
    for name, gradient in wanted[1].items():
        assert (got[1][name] - gradient).abs().max() <= BAR, name
    assert max(gradient.abs().max() for gradient in wanted[1].values()) > 1e-2


@pytest.mark.parametrize("form", ["rows", "flat"])
@pytest.mark.parametrize("labels", ["unshifted", "shifted"])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_packed_is_unpacked(reduction, labels, form):
    seed = 100 * REDUCTIONS.index(reduction) + 10 * (labels == "shifted") + (form == "flat")
    batch = batch_of(seed)
    wanted = unpacked(batch, reduction)
    for ranks in (1, 2, 3, 1, 2, 3):
        seed += 1000
        layout, options = regrouped(batch, seed, ranks)
        weights = loss_weights(
            layout, batch.sequences, reduction=reduction, labels=labels, **batch.labels(reduction), **options
        )
        assert layout.is_dummy.any()
        assert_same(packed(batch, weights, form), wanted)


@pytest.mark.parametrize("strategy", ["kk", "first_fit"])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_what_pack_sequences_makes_is_unpacked(reduction, strategy):
    batch = batch_of(6)
    items = [
        {"input_ids": batch.sequences.input_ids[a:b], "loss_mask": batch.sequences.loss_mask[a:b], "prompt": member}
        for (a, b), member in zip(pairwise(batch.sequences.offsets), batch.members, strict=True)
    ]
    options = {"num_packs": 6, "max_token_budget": 32, "alignment": {"segment": 2, "row": 16}, "labels": "shifted"}
    (update,) = pack_sequences([items], packing_strategy=strategy, group="prompt", group_scope="rank",
                               data_parallel_size=3, **options)  # fmt: skip
    names = {f"{reduction}s": "prompt"} if reduction in ("prompt", "group") else {}
    for ranks in (1, 2, 3):
        weights = update.loss_weights(reduction, data_parallel_size=ranks, **names)
        assert_same(packed(batch, weights, "rows"), unpacked(batch, reduction))


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_means_of_means_are_something_else(reduction):
    """The tests can fail: the mean of the micro-batches' own means is another loss."""
    batch = batch_of(3)
    layout = RowLayout.from_bins(batch.sequences.lengths, [[0, 1, 3], [2, 4, 5, 6, 9], [7, 8], [10]])
    weights = loss_weights(layout, batch.sequences, reduction=reduction, **batch.labels(reduction))
    model = Transformer()
    with torch.no_grad():
        means = [
            packed_loss(model, batch, weights.select([row]), "rows").item() / weights.row_denominators[row]
            for row in range(4)
        ]
    assert abs(np.mean(means) - unpacked(batch, reduction)[0]) > 1e-3


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_a_step_that_is_masked_as_a_whole_has_gradients_of_zero(reduction):
    batch = batch_of(3)
    layout, options = regrouped(batch, 5, 2)
    masks = [np.zeros(n, bool) for n in batch.sequences.lengths]
    weights = loss_weights(layout, masks, reduction=reduction, **batch.labels(reduction), **options)
    model = Transformer()
    logs = model(*(torch.zeros(weights.layout.num_rows, weights.layout.row_length, dtype=torch.int64) for _ in "123"))
    w = torch.from_numpy(weights.token_weights())
    (weights.scale() * (w * logs[:, :, 0]).sum()).backward()
    assert all((gradient == 0).all() for gradient in gradients(model).values())


@pytest.mark.parametrize("form", ["rows", "flat"])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_the_shards_of_context_parallel_ranks_add_up_to_the_rows(reduction, form):
    """Attention needs the keys of all shards, so the model sees whole rows; each shard has its part of the loss."""
    batch, ranks = batch_of(4), 2
    wanted = unpacked(batch, reduction)
    layout = RowLayout.from_bins(batch.sequences.lengths, [[0, 1, 3, 10], [2, 4, 5, 6], [7, 8, 9], []], alignment=4)
    weights = loss_weights(layout, batch.sequences, reduction=reduction, labels="shifted", **batch.labels(reduction))
    rows = materialize(batch.sequences, layout, labels="shifted", form=form)
    model, total = Transformer(), 0.0
    for rank in range(ranks):
        shard = rows.shard(rank, ranks)
        arrays = (rows.input_ids, rows.position_ids, rows.segment_ids)
        logs = model(*(tensor(np.atleast_2d(array)) for array in arrays))
        columns = tensor(np.atleast_2d(shard.columns))
        mine = logs.gather(1, columns[:, :, None].expand(-1, -1, VOCABULARY))
        labels = tensor(np.atleast_2d(shard.labels))
        w = torch.from_numpy(np.atleast_2d(np.take_along_axis(weights.token_weights(form), shard.columns, -1)))
        assert torch.equal(w > 0, labels != -100)
        numerator = -(w * mine.gather(2, labels.clamp(min=0)[:, :, None])[:, :, 0]).sum()
        (weights.scale(averaged_over=ranks) * numerator / ranks).backward()
        total += numerator.item()
    assert_same((total / weights.denominator, gradients(model)), wanted)


# -------------------------------------------------------------------------------------------------- real processes


def train_on_one_rank(rank: int, folder: str) -> None:
    """A step for each reduction: the plan is made from all lengths, only the rank's own rows are run."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", f"file://{folder}/store", rank=rank, world_size=2)
    batch = batch_of(8)
    plan = Planner(data_parallel_size=2, seq_len=32, alignment=4).plan(batch.sequences.lengths)
    num_rows = plan.num_bins + 2  # a dummy row for each rank
    layout = RowLayout.from_bins(plan.lengths, plan, row_length=32, alignment=4, num_rows=num_rows)
    options = {"data_parallel_size": 2, "row_ranks": [0] * plan.bins_per_rank + [1] * plan.bins_per_rank + [0, 1]}
    for reduction in REDUCTIONS:
        weights = loss_weights(layout, batch.sequences, reduction=reduction, **batch.labels(reduction), **options)
        mine = weights.rank(rank)
        model = torch.nn.parallel.DistributedDataParallel(Transformer())
        total, last = torch.zeros(1, dtype=torch.float64), mine.layout.num_rows - 1
        for row in range(last + 1):
            with nullcontext() if row == last else model.no_sync():
                numerator = packed_loss(model, batch, mine.select([row]), "rows")
                (mine.scale() * numerator).backward()
            total += numerator.detach()
        torch.distributed.all_reduce(total)
        torch.save((total.item() / mine.denominator, gradients(model.module)), f"{folder}/{reduction}-{rank}")
    torch.distributed.destroy_process_group()


@pytest.mark.skipif(not torch.distributed.is_available(), reason="torch without torch.distributed")
def test_two_processes_average_to_the_gradients_of_one(tmp_path):
    torch.multiprocessing.spawn(train_on_one_rank, (str(tmp_path),), nprocs=2)
    for reduction in REDUCTIONS:
        wanted = unpacked(batch_of(8), reduction)
        for rank in range(2):
            assert_same(torch.load(tmp_path / f"{reduction}-{rank}"), wanted)
