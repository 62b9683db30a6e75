"""Sequences: token ids, per-token features and per-sequence values of N sequences, flat, from lists or arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from packing import _checks
from packing._checks import Int64Array, shown
from packing._labels import collected, listed
from packing.errors import ConfigError
from packing.records import ReadOnlyDict

__all__ = ["Sequences"]

AnyArray = npt.NDArray[Any]

ITEM_SIZES = (1, 2, 4, 8)
"""Bytes of one element of a per-token feature; rows are copied by item size, whatever the dtype means."""

_RESERVED = ("input_ids", "prompt_ids", "completion_ids", "loss_mask")


@dataclass(frozen=True, eq=False)
class Sequences:
    """N sequences, one after the other in flat read-only arrays.

    `Sequences.of` builds them from what trainers hand in; the constructor takes flat arrays as they are, without
    copying them (memory-mapped ones included).

    Args:
        offsets: int64[N+1], ascending from 0; sequence n holds the tokens `offsets[n]:offsets[n + 1]`, at least one.
        input_ids: any integer dtype [total tokens]; ids may be negative.
        features: per-token arrays by name, [total] or [k, total], of any dtype with items of 1, 2, 4 or 8 bytes.
        loss_mask: bool[total], True where the token counts in the loss; None: everywhere. Zeros and ones of any numeric
            dtype are taken.
        values: per-sequence values by name, an array [N] or a list of N.

    Raises:
        ConfigError: arrays that do not fit together; names the feature, and the sequence where there is one.
    """

    offsets: Int64Array
    input_ids: AnyArray
    features: Mapping[str, AnyArray] = field(default_factory=ReadOnlyDict)
    loss_mask: npt.NDArray[np.bool_] = None  # type: ignore[assignment]  # None stands for True everywhere
    values: Mapping[str, Any] = field(default_factory=ReadOnlyDict)

    def __post_init__(self) -> None:
        put = object.__setattr__
        offsets = _checks.integers("offsets", self.offsets)
        ids = _array("input_ids`", self.input_ids)
        if ids.ndim != 1 or ids.dtype.kind not in "iu":
            raise ConfigError(
                f"`input_ids` must be a one-dimensional array of integers, but got {ids.dtype} {ids.shape}."
            )
        if offsets.size < 1 or offsets[0] != 0 or offsets[-1] != ids.size:
            raise ConfigError(f"`offsets` must ascend from 0 to {ids.size}, but got {shown(offsets.tolist())}.")
        lengths = np.diff(offsets)
        if (lengths < 1).any():
            raise _empty(int(np.argmax(lengths < 1)))
        features = {_name(name): _array(f"{name}`", feature) for name, feature in self.features.items()}
        for name, feature in features.items():
            if feature.ndim not in (1, 2) or feature.shape[-1] != ids.size:
                raise ConfigError(f"`{name}` must have shape [{ids.size}] or [k, {ids.size}], but got {feature.shape}.")
            _check_dtype(name, feature.dtype)
        values = {_name(name): _column(name, column) for name, column in self.values.items()}
        for name, column in values.items():
            if len(column) != lengths.size:
                raise ConfigError(f"`{name}` must have {lengths.size} values, but got {len(column)}.")
        mask = np.ones(ids.size, np.bool_) if self.loss_mask is None else _mask(self.loss_mask, ids.size)
        put(self, "offsets", _read_only(offsets))
        put(self, "input_ids", _read_only(ids))
        put(self, "loss_mask", _read_only(mask))
        put(self, "features", ReadOnlyDict({name: _read_only(feature) for name, feature in features.items()}))
        put(self, "values", ReadOnlyDict(values))

    def __reduce__(self) -> tuple[Any, ...]:
        return Sequences, (self.offsets, self.input_ids, self.features, self.loss_mask, self.values)

    @classmethod
    def of(cls, sequences: Any) -> Sequences:
        """Sequences from what a trainer has; arrays are copied.

        Args:
            sequences: a `Sequences` (returned as it is), or an iterable of sequences. A sequence is a one-dimensional
                array or a list of integers; a (prompt, completion) pair of those, whose prompt does not count in the
                loss; or a mapping with "input_ids", or "prompt_ids" and "completion_ids". Every other key of a mapping
                whose value has dimensions (an array or a list) is a per-token feature, [L] or [k, L]: L, all tokens of
                the sequence, those of its prompt included, is always the last axis, also where k is L. Everything else
                (a number, text, None, a tuple, an array or tensor without dimensions) is a per-sequence value. A
                feature "loss_mask" (zeros and ones) says which tokens count in the loss, in place of the prompt's.

                All features and values of one name are in all sequences; a feature has one dtype everywhere, token ids
                are promoted to the widest integer dtype among them. Python integers are int64. Values that are numbers
                are an array where one dtype holds all of them exactly, else a list; what has no dimensions is what it
                holds.

        Raises:
            ConfigError: anything else, an empty sequence, a feature of the wrong length, a missing or mixed one; names
                the feature and the sequence (its position).
        """
        if isinstance(sequences, Sequences):
            return sequences
        if isinstance(sequences, (str, bytes, Mapping)) or not isinstance(sequences, Iterable):
            raise ConfigError(f"`sequences` must be a list of sequences, but got {shown(sequences)}.")
        parts: list[AnyArray] = []
        pairs: list[tuple[int, int]] = []  # the parts of a pair: (sequence, tokens of the prompt)
        lengths: list[int] = []
        rows: list[dict[str, Any]] = []
        for at, item in enumerate(sequences):
            prompt, rest, others = _parts(at, item)
            if prompt is not None:
                pairs.append((at, prompt.size))
                parts.append(prompt)
            parts.append(rest)
            lengths.append(rest.size + (0 if prompt is None else prompt.size))
            if lengths[-1] == 0:
                raise _empty(at)
            rows.append(others)
        offsets = np.concatenate(([0], np.cumsum(np.asarray(lengths, np.int64))))
        features, values = _columns(rows, lengths)
        mask = features.pop("loss_mask", None)
        if mask is None:
            mask = np.ones(offsets[-1], np.bool_)
            for at, length in pairs:
                mask[offsets[at] : offsets[at] + length] = False
        elif mask.ndim != 1:
            raise ConfigError(f"`loss_mask` of sequence 0 must be one-dimensional, but got {mask.ndim} axes.")
        return cls(offsets, _joined_ids(parts), features, mask, values)

    def __len__(self) -> int:
        """N."""
        return self.offsets.size - 1

    @cached_property
    def lengths(self) -> Int64Array:
        """int64[N]: tokens of each sequence."""
        return _read_only(np.diff(self.offsets))

    @property
    def num_tokens(self) -> int:
        """Tokens of all sequences."""
        return int(self.offsets[-1])

    def take(self, indices: Any) -> Sequences:
        """Some of the sequences, in the order given; an index may come more than once.

        Args:
            indices: integers in [0, N).

        Raises:
            ConfigError: an index out of range.
        """
        chosen = _checks.integers("indices", indices)
        if chosen.size and int(chosen.max()) >= len(self):
            raise ConfigError(f"`indices` must lie in [0, {len(self)}), but got {int(chosen.max())}.")
        offsets = np.concatenate(([0], np.cumsum(self.lengths[chosen])))
        tokens = np.arange(offsets[-1]) + np.repeat(self.offsets[chosen] - offsets[:-1], self.lengths[chosen])
        features = {name: feature[..., tokens] for name, feature in self.features.items()}
        values = {
            name: column[chosen] if isinstance(column, np.ndarray) else [column[i] for i in chosen.tolist()]
            for name, column in self.values.items()
        }
        return Sequences(offsets, self.input_ids[tokens], features, self.loss_mask[tokens], values)

    def __repr__(self) -> str:
        names = [*self.features, *self.values]
        return f"Sequences({len(self)} sequences, {self.num_tokens} tokens{', ' * bool(names)}{', '.join(names)})"


def _read_only(array: AnyArray) -> AnyArray:
    """The array itself behind a view that refuses changes; a copy only where it is not contiguous and aligned."""
    view = np.require(array, requirements=["C", "A"]).view()
    view.flags.writeable = False
    return view


def _name(name: Any) -> str:
    if not isinstance(name, str) or name in _RESERVED:
        raise ConfigError(f"a name of a feature or value must be text and none of {_RESERVED}, but got {shown(name)}.")
    return name


def _array(name: str, values: Any) -> AnyArray:
    """As NumPy reads it; `name` may go on with the sequence."""
    try:
        return np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:  # a ragged list; a bfloat16 tensor, one with a gradient
        raise ConfigError(f"`{name} must be an array that NumPy can read, but got {shown(values)}: {error}") from None


def _column(name: str, values: Any) -> AnyArray | list[Any]:
    """A value for each sequence, read-only or a new list."""
    try:
        return _read_only(values) if isinstance(values, np.ndarray) and values.ndim else listed(values)
    except TypeError:
        raise ConfigError(f"`{name}` must have a value for each sequence, but got {shown(values)}.") from None


def _joined_values(name: str, column: list[Any]) -> AnyArray | list[Any]:
    try:
        return collected(listed(column))
    except TypeError:  # a tensor with dimensions inside a tuple
        raise ConfigError(f"`{name}` must have a value for each sequence, but got {shown(column)}.") from None


def _empty(at: int) -> ConfigError:
    return ConfigError(f"`input_ids` of sequence {at} must have at least one token, but got none.")


def _check_dtype(name: str, dtype: np.dtype[Any], where: str = "", hint: str = "") -> None:
    if dtype.hasobject or dtype.kind in "SU" or dtype.itemsize not in ITEM_SIZES:
        raise ConfigError(f"`{name}`{where} must have numbers of 1, 2, 4 or 8 bytes, but got dtype {dtype}{hint}.")


def _mask(mask: Any, total: int) -> npt.NDArray[np.bool_]:
    array = _array("loss_mask`", mask)
    if array.shape != (total,):
        raise ConfigError(f"`loss_mask` must have shape [{total}], but got {array.shape}.")
    if array.dtype.kind == "b":
        return array
    if array.dtype.kind not in "iuf" or not ((array == 0) | (array == 1)).all():
        raise ConfigError(f"`loss_mask` must hold zeros and ones, but got {shown(array)}.")
    return np.asarray(array == 1)


# ---------------------------------------------------------------------------------------- from what a trainer hands in


def _has_axes(value: Any) -> bool:
    """Whether it is an array or a list, of whatever library, and no single value."""
    if hasattr(value, "ndim"):
        return bool(value.ndim > 0)
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _parts(at: int, item: Any) -> tuple[AnyArray | None, AnyArray, dict[str, Any]]:
    """(ids of the prompt or None, the other ids, features and values) of one sequence."""
    if isinstance(item, np.ndarray):
        return None, _ids(at, "input_ids", item), {}
    if isinstance(item, Mapping):
        others = {key: value for key, value in item.items() if key not in _RESERVED[:3]}
        if "input_ids" in item and "prompt_ids" not in item and "completion_ids" not in item:
            return None, _ids(at, "input_ids", item["input_ids"]), others
        if "input_ids" not in item and "prompt_ids" in item and "completion_ids" in item:
            ids = [_ids(at, key, item[key]) for key in ("prompt_ids", "completion_ids")]
            return ids[0], ids[1], others
        raise ConfigError(
            f'sequence {at} must have either "input_ids", or "prompt_ids" and "completion_ids", '
            f"but got the keys {shown(list(item))}."
        )
    if isinstance(item, (tuple, list)) and len(item) == 2 and all(map(_has_axes, item)):
        return _ids(at, "the prompt", item[0]), _ids(at, "the completion", item[1]), {}
    return None, _ids(at, "input_ids", item), {}


def _ids(at: int, name: str, values: Any) -> AnyArray:
    """One run of token ids; an empty list is a run of none (a prompt may be empty)."""

    def refuse(got: str) -> NoReturn:
        shape = "a one-dimensional array of integers"
        raise ConfigError(f"`{name}` of sequence {at} must be {shape}, but got {got}.")

    if not isinstance(values, np.ndarray):
        try:
            array = np.asarray(values)
        except (TypeError, ValueError, RuntimeError):
            refuse(shown(values))
        if array.size == 0 and array.ndim == 1 and array.dtype.kind == "f":
            return np.empty(0, np.int8)  # NumPy's dtype for an empty list says nothing about it
        wrong = _checks.first_bool(values)
        if wrong is not None:
            refuse(f"{values[wrong]!r} at index {wrong}")
        values = array
    if values.ndim != 1:
        refuse(f"shape {values.shape}")
    if values.dtype.kind not in "iu":
        refuse(f"dtype {values.dtype}")
    if np.ma.is_masked(values):
        refuse("masked values")
    return np.asarray(values)


def _joined_ids(parts: list[AnyArray]) -> AnyArray:
    dtypes = list(dict.fromkeys(part.dtype for part in parts if part.size))
    common = np.result_type(*dtypes) if dtypes else np.dtype(np.int64)
    if common.kind not in "iu":
        raise ConfigError(f"`input_ids` must have dtypes with a common integer dtype, but got {shown(dtypes)}.")
    return np.concatenate(parts, dtype=common.newbyteorder("=")) if parts else np.empty(0, np.int64)


def _columns(rows: list[dict[str, Any]], lengths: list[int]) -> tuple[dict[str, AnyArray], dict[str, Any]]:
    """Features and values by name, each joined over all sequences."""
    names = dict.fromkeys(name for row in rows for name in row)
    features, values = {}, {}
    for name in names:
        if name != "loss_mask":
            _name(name)
        missing = next((at for at, row in enumerate(rows) if name not in row), None)
        if missing is not None:
            raise ConfigError(f"`{name}` must be given for every sequence, but sequence {missing} has none.")
        column = [row[name] for row in rows]
        single = () if name == "loss_mask" else tuple  # a tuple is one value
        first = _has_axes(column[0]) and not isinstance(column[0], single)
        for at, value in enumerate(column):
            if (_has_axes(value) and not isinstance(value, single)) != first:
                raise ConfigError(
                    f"`{name}` must be a feature of every sequence or a value of every sequence, "
                    f"but sequence 0 has {shown(column[0])} and sequence {at} has {shown(value)}."
                )
        if first:
            features[name] = _joined_feature(name, column, lengths)
        else:
            values[name] = _joined_values(name, column)
    return features, values


def _joined_feature(name: str, column: list[Any], lengths: list[int]) -> AnyArray:
    """[total] or [k, total] of one dtype."""
    arrays: list[AnyArray] = []
    for at, (value, length) in enumerate(zip(column, lengths, strict=True)):
        array = _array(f"{name}` of sequence {at}", value)
        if array.ndim > 2 or array.shape[-1] != length:
            raise ConfigError(
                f"`{name}` of sequence {at} must have shape [{length}] or [k, {length}], but got {array.shape}; "
                "a list or array has a value for each token, those of the prompt included, and a tuple is one value."
            )
        if at == 0:
            hint = "; a tuple is one value" if array.dtype.kind in "SUO" else ""
            _check_dtype(name, array.dtype, " of sequence 0", hint)
        elif array.dtype != arrays[0].dtype:
            raise ConfigError(
                f"`{name}` must have one dtype, but got {arrays[0].dtype} in sequence 0 "
                f"and {array.dtype} in sequence {at}."
            )
        elif array.shape[:-1] != arrays[0].shape[:-1]:
            raise ConfigError(
                f"`{name}` must have the shape [k, length] with one k, but got {arrays[0].shape} in sequence 0 "
                f"and {array.shape} in sequence {at}."
            )
        arrays.append(array)
    return np.concatenate(arrays, axis=-1, dtype=arrays[0].dtype.newbyteorder("="))
