"""What the drop-in forms of verl share: batches read and sliced, and a count that all ranks agree on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from packing import _checks
from packing._checks import Int64Array
from packing.errors import ConfigError, InfeasibleError
from packing.micro_batching import MicroBatches, micro_batches

__all__ = [
    "NoPartitionError",
    "Wanted",
    "as_array",
    "full_widths",
    "index_lists",
    "is_batch",
    "is_tensor",
    "lengths_of",
    "sliced",
    "taken",
    "tensor_like",
]


class NoPartitionError(InfeasibleError, AssertionError):
    """No partition of that kind can exist; an AssertionError for those who catch what verl raises."""


# ------------------------------------------------------------------------------------------------------------ tensors


def is_tensor(value: Any) -> bool:
    """Whether it is a torch tensor; torch is not imported for that."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def as_array(values: Any) -> Any:
    """Tensors, from whatever device, as arrays; all else as it is."""
    return values.detach().cpu().numpy() if is_tensor(values) else values


def tensor_like(tensor: Any, values: Int64Array) -> Any:
    """Values as an int64 tensor on the device of another one."""
    return sys.modules["torch"].from_numpy(values).to(tensor.device)


def taken(rows: Any, index: list[int]) -> Any:
    """Rows of a tensor (nested ones too), an array, a list or a TensorDict."""
    if isinstance(rows, (list, tuple)):
        return [rows[at] for at in index]
    if is_tensor(rows) and rows.is_nested:
        nested, parts = sys.modules["torch"].nested, rows.unbind()
        return nested.as_nested_tensor([parts[at] for at in index], layout=rows.layout)
    return rows[index]


# ------------------------------------------------------------------------------------------------------------ batches


def is_batch(batch: Any) -> bool:
    """Whether it is a mapping of columns, not a column of lengths."""
    return isinstance(batch, Mapping) or (hasattr(batch, "keys") and hasattr(batch, "batch_size"))


def lengths_of(batch: Any) -> Int64Array:
    """int64[n]: tokens of each sample without padding, at least 1."""
    names = set(batch.keys()) if is_batch(batch) else set()
    if not is_batch(batch):
        lengths = batch
    elif "input_ids" in names and getattr(batch["input_ids"], "is_nested", False):
        lengths = batch["input_ids"].offsets().diff()
    elif "attention_mask" in names:
        mask = np.asarray(as_array(batch["attention_mask"]))
        if mask.ndim != 2:
            raise ConfigError(f"`batch['attention_mask']` must have shape [n, S], but got {mask.shape}.")
        lengths = mask.astype(np.int64).sum(axis=1)
    else:
        there = ", ".join(sorted(map(str, names)))
        raise ConfigError(f"`batch` must have 'attention_mask' or nested 'input_ids', but has: {there}.")
    return np.maximum(_checks.integers("batch", as_array(lengths)), 1)


def full_widths(batch: Any) -> Int64Array:
    """int64[n]: the width of the whole batch for each sample."""
    if not is_batch(batch):
        lengths = lengths_of(batch)
        return np.full_like(lengths, lengths.max(initial=1))
    name = "input_ids" if "input_ids" in set(batch.keys()) else "attention_mask"
    return np.full(len(batch[name]), batch[name].shape[-1], np.int64)


def sliced(batch: Any, index: list[list[int]]) -> list[Any]:
    """The batch, one micro-batch after another."""
    if isinstance(batch, Mapping) and not hasattr(batch, "batch_size"):
        return [{name: taken(rows, members) for name, rows in batch.items()} for members in index]
    return [taken(batch, members) for members in index]


# ------------------------------------------------------------------------------------------------------------- counts


@dataclass(frozen=True)
class Wanted:
    """The arguments of verl's functions as they came."""

    max_token_len: Any
    num_batches_divided_by: Any
    min_num_micro_batch: Any
    use_dynamic_bsz_balance: Any
    force_group_size: Any
    padded: bool = False

    def checked(self) -> Wanted:
        """The same with every argument checked."""
        return Wanted(
            _checks.integer("max_token_len", self.max_token_len, minimum=1),
            _checks.optional_integer("num_batches_divided_by", self.num_batches_divided_by, minimum=1),
            _checks.optional_integer("min_num_micro_batch", self.min_num_micro_batch, minimum=0),
            _checks.boolean("use_dynamic_bsz_balance", self.use_dynamic_bsz_balance),
            _checks.integer("force_group_size", self.force_group_size, minimum=1),
            self.padded,
        )

    def num_units(self, lengths: Int64Array) -> int:
        """Samples, or groups of them, after a check that each fits."""
        size, cap = self.force_group_size, self.max_token_len
        if lengths.size == 0:
            raise ConfigError("`batch` must not be empty.")
        if (lengths > cap).any():
            at = int(np.argmax(lengths > cap))
            raise NoPartitionError(f"sample {at} has {lengths[at]} tokens, over `max_token_len` = {cap}.")
        if self.padded and size > 1:
            raise ConfigError(f"`force_group_size` must be 1 where rows are padded, but got {size}.")
        if lengths.size % size:
            raise NoPartitionError(
                f"the number of samples must be a multiple of `force_group_size` {size}, but got {lengths.size}."
            )
        sums = lengths.reshape(-1, size).sum(axis=1)
        if (sums > cap).any():
            at = int(np.argmax(sums > cap))
            raise NoPartitionError(
                f"samples {at * size} to {at * size + size - 1} have {sums[at]} tokens, over `max_token_len` = {cap}."
            )
        return int(sums.size)

    def split(self, lengths: Int64Array, count: int | None = None) -> MicroBatches:
        """Micro-batches of checked lengths, `count` or the fewest."""
        return micro_batches(
            lengths,
            self.max_token_len,
            multiple_of=self.num_batches_divided_by or 1,
            min_count=max(1, self.min_num_micro_batch or 1, count or 1),
            estimator={"name": "attention", "linear": 24576, "quadratic": 1},
            order="balanced" if self.use_dynamic_bsz_balance else "descending",
            group=np.arange(lengths.size) // self.force_group_size if self.force_group_size > 1 else None,
            padded=self.padded,
        )


def index_lists(read: Callable[[], Int64Array], wanted: Wanted, group: Any) -> list[list[int]]:
    """The index lists of this rank's micro-batches, as many as on every rank of the group.

    Nothing is raised before the ranks have spoken: one that left would let the others wait for ever.

    Args:
        read: gives the lengths.
        wanted: the arguments.
        group: a torch.distributed group, or None.
    """
    made, units = None, 0
    failure: Exception | None = None
    try:
        wanted = wanted.checked()
        lengths = read()
        units = wanted.num_units(lengths)
        made = wanted.split(lengths)
        if made.count > units:
            failure = _too_few(made.count, units)
    except Exception as error:
        failure = error
    count = 0 if made is None else made.count
    if group is not None:
        count, units, failed = _agreed(group, count, units, failure is not None)
        if failed and failure is None:
            failure = NoPartitionError(
                f"rank {failed - 1} of `dp_group` cannot split its batch; its own error says why."
            )
        if failure is None and count > units:
            failure = _too_few(count, units)
    if failure is not None:
        raise failure
    assert made is not None
    if count != made.count:
        made = wanted.split(lengths, count)
    return made.rank(0)


def _too_few(count: int, units: int) -> NoPartitionError:
    return NoPartitionError(f"{count} micro-batches need as many samples (groups) on every rank, but one has {units}.")


def _agreed(group: Any, count: int, units: int, failed: bool) -> tuple[int, int, int]:
    """The largest count, the smallest number of samples, and one plus the highest rank that failed (0: none)."""
    import torch
    from torch import distributed

    if not distributed.is_initialized():  # as verl: one process, whatever stands for its group
        return count, units, 0
    device = "cuda" if "nccl" in distributed.get_backend(group) else "cpu"
    values = [count, -units, distributed.get_rank(group) + 1 if failed else 0]
    tensor = torch.tensor(values, dtype=torch.int64, device=device)
    distributed.all_reduce(tensor, op=distributed.ReduceOp.MAX, group=group)
    largest, smallest, failing = tensor.tolist()
    return largest, -smallest, failing
