"""Sequence packing with the signatures and return forms of tunix."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from packing import _checks, balanced_packs, partition, sequence_packing
from packing._checks import Int64Array, shown
from packing._updates import joined
from packing.errors import ConfigError, InfeasibleError
from packing.packed_batch import PackedBatch
from packing.packed_rows import PackedRows
from packing.sequences import Sequences

__all__ = ["balanced_pack", "group_by_version", "karmarkar_karp", "pack_sequences"]

AnyArray = npt.NDArray[Any]

PER_TOKEN = ("ref_per_token_logps", "old_per_token_logps", "returns", "old_values", "sampler_is_weights")
"""Per-token features of a completion that an example may have."""

_NEEDED = ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask", "advantages")


def karmarkar_karp(vals: Any, k: int) -> list[list[int]]:
    """Indices of the values in `k` groups of nearly equal sums by largest differencing, largest sum first.

    Groups may be empty where `k` is more than the number of values. No values are `k` empty groups (tunix fails).

    Args:
        vals: whole numbers of at least 0.
        k: at least 1.

    Raises:
        ConfigError: anything else.
    """
    return partition.karmarkar_karp(vals, k)


def group_by_version(valid: Sequence[tuple[Any, int]]) -> list[list[tuple[Any, int]]]:
    """(item, tokens) pairs grouped by `item["policy_version"]`, versions in the order in which they first occur.

    Items without a version are one group. The order inside a group stays.

    Args:
        valid: pairs of a mapping and its tokens. A version is a number or an array of one.

    Raises:
        ConfigError: a version that is no whole number.
    """
    versions = [_version(at, item) for at, (item, _) in enumerate(valid)]
    return [[valid[at] for at in group] for group in balanced_packs.group_by_version(versions).values()]


def balanced_pack(
    items_with_tokens: Sequence[tuple[Any, int]],
    max_token_budget: int,
    num_packs: int,
    *,
    estimator: Any = "attention",
) -> list[list[Any]]:
    """The items in packs of nearly equal work, none over the budget, their number a multiple of `num_packs`.

    Where tunix differs: it balances tokens, not work; adds packs until differencing happens to keep the budget; returns
    no multiple of `num_packs` where there are fewer items; and a pack over the budget where one item is. Here packs
    without items are empty lists, an item that is too long is an error, and items of different `policy_version` share
    no pack. See `packing.balanced_pack`.

    Args:
        items_with_tokens: pairs of an item and its tokens.
        max_token_budget: most tokens in a pack.
        num_packs: packs of a step.
        estimator: the work of an item by its tokens; "tokens" is what tunix balances.

    Raises:
        ConfigError: an argument has a wrong type or value.
        InfeasibleError: an item is longer than the budget.
    """
    items = [item for item, _ in items_with_tokens]
    packs = balanced_packs.balanced_pack(
        [tokens for _, tokens in items_with_tokens],
        num_packs,
        max_token_budget,
        estimator=estimator,
        versions=[_version(at, item) for at, item in enumerate(items)],
    )
    return [[items[at] for at in row] for row in packs.to_lists()]


def pack_sequences(
    item_iterator: Iterable[Sequence[Any]],
    max_token_budget: int,
    pad_id: int = 0,
    target_items_per_update: int | None = None,
    num_packs: int = 1,
    packing_strategy: str = "kk",
    *,
    max_segments_per_packed_row: int | None = None,
    estimator: Any = "attention",
) -> Iterator[list[Any]]:
    """Packs lists of train examples into examples of [num_packs, max_token_budget], list by list.

    An example has `prompt_ids`, `prompt_mask` (left-padded, [B, P]), `completion_ids`, `completion_mask` (right-padded,
    [B, C]) and `advantages` ([B] or [B, C]); it may have `completion_attention_mask` [B, C], per-token features
    ([B, C], the names in `PER_TOKEN`) and `policy_version` [B]. What comes out is of the class of the list's first
    example, with NumPy arrays: `completion_ids` holds prompts and completions, `prompt_ids` has no columns,
    `segment_ids` counts from 1 (0 is padding), `segment_positions` restart in every segment, and `completion_mask`,
    `advantages` and the features are 0 over prompts and padding.

    Where tunix differs: a sequence over the budget is left out with a warning, here it is an error; "kk" balances
    tokens and may break a multiple, here work is balanced under the cap; "first_fit" only ever looks at its newest
    pack, here at every pack; a completion ends after as many tokens as its mask has ones, here at the last one, so that
    tokens which a tool wrote in between stay; and a stream that ends inside an update is an error, not a step that is
    never made. Every policy version of a list is laid out by itself, as in tunix, but the multiple holds for all of
    them together.

    Args:
        item_iterator: lists of examples; lists without sequences are left out and do not count.
        max_token_budget: T.
        pad_id: the id where no token is.
        target_items_per_update: `is_update_step` is set in the last example of every so many lists; None: never.
        num_packs: rows of an example.
        packing_strategy: "kk" or "first_fit".
        max_segments_per_packed_row: most sequences in one row.
        estimator: the work of a sequence by its tokens.

    Yields:
        Lists of one example.

    Raises:
        ConfigError: an argument has a wrong type or value, at once; while iterating a malformed example, or a stream
            that ends inside an update.
        InfeasibleError: while iterating: a sequence over the budget.
    """
    _checks.one_of("packing_strategy", packing_strategy, ("kk", "first_fit"))
    target = _checks.optional_integer("target_items_per_update", target_items_per_update, minimum=1)
    if not isinstance(item_iterator, Iterable):
        raise ConfigError(f"`item_iterator` must be an iterable of lists of examples, but got {shown(item_iterator)}.")
    segments = _checks.optional_integer("max_segments_per_packed_row", max_segments_per_packed_row, minimum=1)
    classes: deque[type] = deque()
    batches = sequence_packing.pack_sequences(
        _read(item_iterator, max_token_budget, classes),
        num_packs=num_packs,
        max_token_budget=max_token_budget,
        packing_strategy=packing_strategy,
        order="sampler" if packing_strategy == "first_fit" else "balanced",
        forbid="policy_version",
        max_segments_per_row=segments,
        estimator=estimator,
        pad_id=pad_id,
    )
    return _examples(batches, classes, target)


def _examples(batches: Iterator[PackedBatch], classes: deque[type], target: int | None) -> Iterator[list[Any]]:
    lists = 0
    for batch in batches:
        lists += 1
        kind = classes.popleft()
        ends = lists == target
        for step, rows in enumerate(batch.steps()):
            yield [_example(batch, step, rows, kind, ends and step == batch.num_steps - 1)]
        lists = 0 if ends else lists
    if target is not None and lists:
        raise ConfigError(
            f"the stream ends inside an update: it has {lists} of the {target} lists `target_items_per_update`."
        )


def _example(batch: PackedBatch, step: int, rows: PackedRows, kind: type, is_update: bool) -> Any:
    """One step's rows as an example of the given class."""
    layout = batch.step_layout(step)
    features = dict(rows.features)
    nothing = np.empty((layout.num_rows, 0), rows.input_ids.dtype)
    values: dict[str, Any] = {
        "prompt_ids": nothing,
        "prompt_mask": nothing.astype(features["completion_mask"].dtype),
        "completion_ids": rows.input_ids,
        "ref_per_token_logps": None,
        "old_per_token_logps": None,
        "segment_ids": rows.segment_ids,
        "segment_positions": rows.position_ids,
        "is_update_step": np.array([is_update]),
        **features,
    }
    versions = batch.values["policy_version"]
    if isinstance(versions, np.ndarray):
        first = np.zeros(layout.num_rows, np.int64)  # dummy rows name a version that there is
        first[~layout.is_dummy] = layout.sequences[layout.row_offsets[:-1][~layout.is_dummy]]
        values["policy_version"] = versions[first]
    if dataclasses.is_dataclass(kind):
        known = {one.name for one in dataclasses.fields(kind) if one.init}
        values = {name: value for name, value in values.items() if name in known}
    return kind(**values)


def _read(item_iterator: Iterable[Sequence[Any]], budget: int, classes: deque[type]) -> Iterator[Sequences]:
    """The sequences of every list that has any; the class of its examples goes to the end of `classes`."""
    for number, examples in enumerate(item_iterator):
        read = [(at, _sequences(number, at, example)) for at, example in enumerate(examples)]
        for at, sequences in read:
            _check_lengths(sequences.lengths, budget, f"of example {at} in list {number}")
        filled = [(at, sequences) for at, sequences in read if len(sequences)]
        if len({isinstance(one.values["policy_version"], list) for _, one in filled}) > 1:
            raise ConfigError(f"`policy_version` must be in all examples of list {number} or in none.")
        if filled:
            classes.append(type(examples[0]))
            yield joined(filled)


def _check_lengths(lengths: Int64Array, budget: int, where: str) -> None:
    if int(lengths.max(initial=0)) > budget:
        row = int(np.argmax(lengths > budget))
        raise InfeasibleError(f"row {row} {where} has {lengths[row]} tokens, over `max_token_budget` = {budget}.")


def _sequences(number: int, at: int, example: Any) -> Sequences:
    """The unpadded sequences of one example."""
    where = f"of example {at} in list {number}"
    arrays = {name: _array(example, name, where) for name in _NEEDED[:4]}
    for part in ("prompt", "completion"):
        ids, mask = arrays[f"{part}_ids"], arrays[f"{part}_mask"]
        if ids.ndim != 2 or ids.dtype.kind not in "iu" or mask.shape != ids.shape:
            raise ConfigError(
                f"`{part}_ids` {where} must be integers [B, {part[0].upper()}] with a `{part}_mask` of that shape, but "
                f"got {ids.dtype} {ids.shape} and {mask.shape}."
            )
    prompts, completions = arrays["prompt_ids"], arrays["completion_ids"]
    if len(prompts) != len(completions):
        raise ConfigError(
            f"`prompt_ids` {where} must have as many rows as `completion_ids`, but got {len(prompts)} and "
            f"{len(completions)}."
        )
    written = getattr(example, "completion_attention_mask", None)
    written = arrays["completion_mask"] if written is None else np.asarray(written)
    if written.shape != completions.shape:
        raise ConfigError(
            f"`completion_attention_mask` {where} must have shape {completions.shape}, but got {written.shape}."
        )
    starts = np.logical_or.accumulate(arrays["prompt_mask"] != 0, axis=1)
    ends = np.logical_or.accumulate((written != 0)[:, ::-1], axis=1)[:, ::-1]
    valid = np.concatenate((starts, ends), axis=1)

    def flat(values: AnyArray) -> AnyArray:
        nothing = np.zeros(prompts.shape, values.dtype)
        return np.asarray(np.concatenate((nothing, values), axis=1)[valid])

    features = {"completion_mask": flat(arrays["completion_mask"])}
    for name in ("advantages", *PER_TOKEN):
        values = _array(example, name, where) if name in _NEEDED else getattr(example, name, None)
        if values is None:
            continue
        array = np.asarray(values)
        if name == "advantages" and array.shape == (len(completions),):
            array = np.broadcast_to(array[:, None], completions.shape)
        if array.shape != completions.shape:
            raise ConfigError(f"`{name}` {where} must have shape {completions.shape}, but got {array.shape}.")
        features[name] = flat(array)
    lengths = valid.sum(axis=1)
    if lengths.size and not lengths.all():
        raise ConfigError(f"row {int(np.argmin(lengths))} {where} must have at least one token, but got none.")
    return Sequences(
        np.concatenate(([0], np.cumsum(lengths))),
        np.concatenate((prompts, completions), axis=1)[valid],
        features,
        features["completion_mask"] != 0,
        {"policy_version": _versions(example, len(completions), where)},
    )


def _array(example: Any, name: str, where: str) -> AnyArray:
    values = getattr(example, name, None)
    if values is None:
        raise ConfigError(f"`{name}` {where} must be given.")
    return np.asarray(values)


def _versions(example: Any, count: int, where: str) -> Any:
    versions = getattr(example, "policy_version", None)
    if versions is None:
        return [None] * count
    array = np.asarray(versions)
    if array.shape != (count,) or array.dtype.kind not in "iu":
        raise ConfigError(f"`policy_version` {where} must be {count} integers, but got {array.dtype} {array.shape}.")
    return array


def _version(at: int, item: Any) -> int | None:
    version = item.get("policy_version") if isinstance(item, Mapping) else None
    if version is None:
        return None
    array = np.asarray(version)
    if array.size != 1:
        raise ConfigError(f"`policy_version` of item {at} must be one number, but got {shown(version)}.")
    return _checks.integer(f"policy_version of item {at}", array.reshape(-1)[0].item())
