"""Balanced partitions and dynamic micro-batches with the signatures and answers of verl and of what copied it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from itertools import chain
from typing import Any

import numpy as np

from packing import _checks
from packing._checks import Int64Array, shown
from packing._fixed_point import finite, quantise_costs
from packing._labels import grouped
from packing.algorithms.auto import Auto
from packing.assignment import Assignment
from packing.compat._verl_batches import (
    NoPartitionError,
    Wanted,
    as_array,
    full_widths,
    index_lists,
    is_batch,
    is_tensor,
    lengths_of,
    sliced,
    taken,
    tensor_like,
)
from packing.errors import ConfigError
from packing.estimators.attention import AttentionEstimator
from packing.partition import difference
from packing.problem import Problem

__all__ = [
    "PaddingMode",
    "calculate_workload",
    "get_group_balanced_partitions",
    "get_reverse_idx",
    "get_seqlen_balanced_partitions",
    "karmarkar_karp",
    "log_seqlen_unbalance",
    "prepare_dynamic_batch",
    "rearrange_micro_batches",
    "restore_dynamic_batch",
]

_WORKLOAD = AttentionEstimator(linear=24576, quadratic=1)


class PaddingMode(Enum):
    """How `prepare_dynamic_batch` counts tokens.

    REMOVE_PADDING: those of the samples; TRUNCATE_PADDING: rows * longest of the micro-batch;
    MAX_SEQUENCE_LENGTH_PADDING: rows * width of the whole batch.
    """

    MAX_SEQUENCE_LENGTH_PADDING = auto()
    REMOVE_PADDING = auto()
    TRUNCATE_PADDING = auto()


def calculate_workload(seqlen_list: Any) -> Any:
    """24576 * L + L**2 for every length, exactly.

    Args:
        seqlen_list: whole numbers of at least 0: a list or tuple, an array, a tensor of any integer type (or of whole
            floats) on any device, or one number.

    Returns:
        The same kind, in 64-bit integers: a list, int64[N], an int64 tensor of the same shape on the same device, or an
        int. verl computes in the type it is given, so that int32 overflows from 46,341 tokens on.

    Raises:
        ConfigError: anything else, or a workload that does not fit into 64 bits.
    """
    lengths = as_array(seqlen_list)
    if not isinstance(lengths, (list, tuple)):
        lengths = np.asarray(lengths).reshape(-1)
    flat = _checks.integers("seqlen_list", lengths)
    workload = _WORKLOAD({"length": flat})
    if is_tensor(seqlen_list):
        return tensor_like(seqlen_list, workload.reshape(seqlen_list.shape))
    if isinstance(seqlen_list, np.ndarray):
        return workload.reshape(seqlen_list.shape)
    return workload.tolist() if isinstance(seqlen_list, (list, tuple)) else int(workload[0])


def karmarkar_karp(seqlen_list: Any, k_partitions: int, equal_size: bool) -> list[list[int]]:
    """Largest differencing.

    Args:
        seqlen_list: n non-negative numbers, a list, an array or a tensor.
        k_partitions: number of parts; beyond n they are empty.
        equal_size: every part gets n / k_partitions.

    Returns:
        `k_partitions` lists of indices, each sorted, by sum descending. (verl's are not sorted inside, and an empty
        input is an IndexError there.)

    Raises:
        ConfigError: numbers or `k_partitions` of a wrong type or value.
        InfeasibleError: with `equal_size`, n is no multiple of `k_partitions`. It is an AssertionError, too, which is
            what verl raises.
    """
    values, k, equal = _checked(seqlen_list, k_partitions, equal_size)
    return Assignment(*difference(values, k, equal)).to_bins()


def get_seqlen_balanced_partitions(seqlen_list: Any, k_partitions: int, equal_size: bool) -> list[list[int]]:
    """Parts of nearly equal sums, none of them empty.

    Without `equal_size` the parts of `karmarkar_karp`. With it those of the algorithm `auto` with equal counts: the
    better of equal-size differencing and count-capped LPT, improved by exchanges until a lower bound is met. verl's
    equal-size differencing alone is 12 to 66 % over the bound on heavy tails.

    Args:
        seqlen_list: n non-negative numbers, a list, an array or a tensor.
        k_partitions: number of parts, at most n.
        equal_size: every part gets n / k_partitions.

    Returns:
        `k_partitions` lists of indices, each sorted, by sum descending.

    Raises:
        ConfigError: numbers or `k_partitions` of a wrong type or value.
        InfeasibleError: fewer numbers than parts, or with `equal_size` n is no multiple of `k_partitions`. It is an
            AssertionError, too, which is what verl raises.
    """
    values, k, equal = _checked(seqlen_list, k_partitions, equal_size)
    if values.size < k:
        raise NoPartitionError(f"`k_partitions` must be at most the number of items {values.size}, but got {k}.")
    if not equal:
        return Assignment(*difference(values, k)).to_bins()
    ones = np.ones(values.size, np.int64)
    layout = Auto(effort="fast").assign(Problem(tokens=ones, cost=values, ranks=k, equal_count=True))
    assert layout is not None
    return _by_sum(layout, values)


def get_group_balanced_partitions(seqlen_list: Any, uid_list: Sequence[Any], k_partitions: int) -> list[list[int]]:
    """Parts of equally many groups with nearly equal workload; the samples of one group stay together.

    Args:
        seqlen_list: n lengths, a list, an array or a tensor.
        uid_list: n hashable values; equal ones are one group, wherever they are. (verl takes samples of one value that
            are not neighbours for several groups, and may part them.)
        k_partitions: number of parts, at most the number of groups.

    Returns:
        `k_partitions` lists of indices, each sorted, by workload descending.

    Raises:
        ConfigError: as many values as lengths are needed, or an argument of a wrong type or value.
        InfeasibleError: fewer groups than parts, or their number is no multiple of `k_partitions`. It is an
            AssertionError, too, which is what verl raises.
    """
    lengths = _checks.integers("seqlen_list", as_array(seqlen_list))
    groups = list(grouped("uid_list", uid_list).values())
    count = sum(map(len, groups))
    if count != lengths.size:
        raise ConfigError(f"`uid_list` must have a value for each of the {lengths.size} lengths, but has {count}.")
    k = _checks.integer("k_partitions", k_partitions, minimum=1)
    if len(groups) < k:
        raise NoPartitionError(f"`k_partitions` must be at most the number of groups {len(groups)}, but got {k}.")
    if len(groups) % k:
        raise NoPartitionError(f"the number of groups must be a multiple of `k_partitions` {k}, but got {len(groups)}.")
    workload = _WORKLOAD({"length": lengths}).tolist()
    work = [sum(workload[at] for at in group) for group in groups]
    parts = get_seqlen_balanced_partitions(work, k, equal_size=True)
    return [sorted(chain.from_iterable(groups[at] for at in part)) for part in parts]


def log_seqlen_unbalance(seqlen_list: Any, partitions: Sequence[Sequence[int]], prefix: str) -> dict[str, float]:
    """Sums before and after balancing, for a logger.

    Args:
        seqlen_list: n numbers, a list, an array or a tensor.
        partitions: k lists of indices.
        prefix: of every key.

    Returns:
        "min", "max" and "minmax_diff" over k consecutive chunks, "balanced_min" and "balanced_max" over the partitions,
        and "mean", each behind `prefix` and a slash. Chunks differ by at most one in size (verl cuts a remainder of its
        own, which then is the minimum, and fails where there are fewer numbers than partitions).

    Raises:
        ConfigError: no partitions, or numbers of a wrong type.
    """
    values = _numbers("seqlen_list", seqlen_list)
    if len(partitions) == 0:
        raise ConfigError("`partitions` must not be empty.")
    chunks = [sum(chunk.tolist()) for chunk in np.array_split(values, len(partitions))]
    balanced = [sum(values[np.asarray(part, np.int64)].tolist()) for part in partitions]
    return {
        f"{prefix}/min": min(chunks),
        f"{prefix}/max": max(chunks),
        f"{prefix}/minmax_diff": max(chunks) - min(chunks),
        f"{prefix}/balanced_min": min(balanced),
        f"{prefix}/balanced_max": max(balanced),
        f"{prefix}/mean": sum(values.tolist()) / len(partitions),
    }


def rearrange_micro_batches(
    batch: Any,
    max_token_len: int,
    dp_group: Any = None,
    num_batches_divided_by: int | None = None,
    same_micro_num_in_dp: bool = True,
    min_num_micro_batch: int | None = None,
    use_dynamic_bsz_balance: bool = True,
    force_group_size: int = 1,
) -> Any:
    """Micro-batches of at most `max_token_len` tokens with nearly equal workload, `calculate_workload`.

    The count is the smallest that keeps the cap. verl's is the total over the cap, rounded up, and its balancer knows
    no cap, so that it has micro-batches over the cap where samples are few or packed densely.

    Args:
        batch: lengths (a list, an array or a tensor), or a mapping (or TensorDict) with "attention_mask", [n, S], or
            with nested "input_ids". The tokens of a sample count against the cap, not its padding; an empty sample
            counts as one.
        max_token_len: at least the longest sample.
        dp_group: a torch.distributed group; its ranks agree on the largest count of theirs.
        num_batches_divided_by: the count is a multiple of it, for interleaved pipelines.
        same_micro_num_in_dp: whether `dp_group` counts.
        min_num_micro_batch: the fewest micro-batches.
        use_dynamic_bsz_balance: small ones at both ends; else by workload descending.
        force_group_size: so many consecutive samples stay together.

    Returns:
        For lengths, the lists of indices of the micro-batches; for a mapping `(micro_batches, index lists)`, where a
        micro-batch is what indexing every tensor, array or list of the batch gives.

    Raises:
        ConfigError: an argument has a wrong type or value.
        InfeasibleError: a sample or a group over the cap, or fewer samples (groups) than micro-batches; an
            AssertionError, too. With `dp_group` every rank raises it, whoever's batch it is (verl asserts on one rank
            and leaves the others waiting).
    """
    wanted = Wanted(
        max_token_len, num_batches_divided_by, min_num_micro_batch, use_dynamic_bsz_balance, force_group_size
    )
    index = index_lists(lambda: lengths_of(batch), wanted, dp_group if same_micro_num_in_dp else None)
    return (sliced(batch, index), index) if is_batch(batch) else index


def prepare_dynamic_batch(
    data: Any,
    max_token_len: int,
    dp_group: Any = None,
    num_batches_divided_by: int | None = None,
    same_micro_num_in_dp: bool = True,
    min_num_micro_batch: int | None = None,
    use_dynamic_bsz_balance: bool = True,
    force_group_size: int = 1,
    padding_mode: Any = PaddingMode.REMOVE_PADDING,
) -> tuple[list[Any], list[list[int]]]:
    """Micro-batches of a DataProto, or of what else `rearrange_micro_batches` takes.

    Args:
        data: an object with a mapping `batch` and a method `select_idxs`, a mapping, or lengths.
        padding_mode: a `PaddingMode`, or verl's of the same name. With TRUNCATE_PADDING the count is the smallest
            possible, and for it the costliest micro-batch as cheap as possible.
        max_token_len, dp_group, num_batches_divided_by, same_micro_num_in_dp, min_num_micro_batch,
            use_dynamic_bsz_balance, force_group_size: as in `rearrange_micro_batches`.

    Returns:
        `(micro_batches, index lists)`; of lengths the micro-batches are lists of lengths.

    Raises:
        ConfigError, InfeasibleError: as in `rearrange_micro_batches`.
    """
    mode = getattr(padding_mode, "name", padding_mode)
    _checks.one_of("padding_mode", mode, [one.name for one in PaddingMode])
    batch = getattr(data, "batch", data)
    wanted = Wanted(
        max_token_len, num_batches_divided_by, min_num_micro_batch, use_dynamic_bsz_balance, force_group_size,
        padded=mode == PaddingMode.TRUNCATE_PADDING.name,
    )  # fmt: skip
    lengths = full_widths if mode == PaddingMode.MAX_SEQUENCE_LENGTH_PADDING.name else lengths_of
    index = index_lists(lambda: lengths(batch), wanted, dp_group if same_micro_num_in_dp else None)
    if batch is not data:
        return [data.select_idxs(members) for members in index], index
    return sliced(batch, index), index


def restore_dynamic_batch(data: Any, batch_idx_list: Sequence[Sequence[int]]) -> Any:
    """What was computed micro-batch after micro-batch, back in the order of the batch.

    Args:
        data: one row for each sample, in the order of the micro-batches: a tensor (nested ones too), an array or a
            list.
        batch_idx_list: the index lists of the micro-batches.

    Raises:
        ConfigError: the lists do not hold every row once.
    """
    indices = list(chain.from_iterable(batch_idx_list))
    if len(indices) != len(data):
        raise ConfigError(f"`batch_idx_list` must have an index for each of the {len(data)} rows, got {len(indices)}.")
    return taken(data, get_reverse_idx(indices))


def get_reverse_idx(idx_map: Any) -> Any:
    """The inverse of a permutation: `result[idx_map[i]] == i`.

    Args:
        idx_map: the n numbers 0 to n - 1 in any order: a list, a tuple, an array or a tensor.

    Returns:
        A list for a list or tuple, else the same kind.

    Raises:
        ConfigError: no permutation (verl gives numbers that are no inverse).
    """
    indices = _checks.integers("idx_map", as_array(idx_map))
    if not np.array_equal(np.sort(indices), np.arange(indices.size)):
        raise ConfigError(f"`idx_map` must hold each of 0 to {indices.size - 1} once, but got {shown(idx_map)}.")
    reverse = np.empty_like(indices)
    reverse[indices] = np.arange(indices.size)
    if is_tensor(idx_map):
        return tensor_like(idx_map, reverse)
    return reverse if isinstance(idx_map, np.ndarray) else reverse.tolist()


def _numbers(name: str, values: Any) -> Any:
    return finite(name, as_array(values))


def _checked(seqlen_list: Any, k_partitions: Any, equal_size: Any) -> tuple[Int64Array, int, bool]:
    values, _, _ = quantise_costs(_numbers("seqlen_list", seqlen_list), None, 1)
    k = _checks.integer("k_partitions", k_partitions, minimum=1, maximum=2**31 - 2)
    equal = _checks.boolean("equal_size", equal_size)
    if equal and values.size % k:
        raise NoPartitionError(
            f"`equal_size` needs a number of items that is a multiple of `k_partitions` {k}, but got {values.size}."
        )
    return values, k, equal


def _by_sum(layout: Assignment, values: Int64Array) -> list[list[int]]:
    bins = layout.to_bins()
    order = np.argsort(-layout.sums(values), kind="stable").tolist()
    return [sorted(bins[b]) for b in order]
