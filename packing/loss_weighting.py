"""Loss weights: what each token of a layout counts in a mean over tokens, sequences, prompts or groups, exactly."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from packing import _checks
from packing._checks import Int64Array, shown
from packing._kernels import rows as kernel
from packing._loss_inputs import BoolArray, read_mask, read_members, read_micro_batches, read_row_ranks
from packing.errors import ConfigError
from packing.row_layout import RowLayout

__all__ = ["LossWeights", "loss_weights"]

Float64Array = npt.NDArray[np.float64]

REDUCTIONS = ("token", "sequence", "prompt", "group")


@dataclass(frozen=True, eq=False)
class LossWeights:
    """What each token of the rows held here counts in the loss of the whole optimizer update; made by `loss_weights`.

    With w the weights and l the losses of tokens, the loss of the update is sum(w * l) / `denominator`, summed over all
    rows of all ranks. Both sums can be taken in any parts: the parts' weights do not depend on how rows are grouped.
    Where gradients are then averaged over ranks, each micro-batch runs backward from `scale() * sum(w * l)`.

    `select`, `rank` and `micro_batch` keep every weight, the `denominator` of the whole update and the number of ranks;
    denominators of segments, rows, micro-batches and ranks are about the rows held. All arrays are read-only.

    Args:
        layout: the R rows held here, with S segments.
        reduction: "token", "sequence", "prompt" or "group".
        labels: "unshifted" or "shifted": the column of a weight, see `loss_weights`.
        denominator: of the whole update: counted tokens, or sequences, prompts or groups that have a counted token.
        data_parallel_size: ranks that share the update.
        num_micro_batches: most micro-batches of one rank.
        row_ranks: int64[R], the rank of each row.
        row_micro_batches: int64[R], the micro-batch of each row on its rank.
        counted: bool over the tokens of all segments, one segment after the other: whether it has a weight.
        segment_weights: float64[S], the weight of each counted token of the segment; 0 where none is counted.
        segment_denominators: float64[S], the sum of the segment's weights: what its mean loss counts.
    """

    layout: RowLayout
    reduction: str
    labels: str
    denominator: int
    data_parallel_size: int
    num_micro_batches: int
    row_ranks: Int64Array
    row_micro_batches: Int64Array
    counted: BoolArray
    segment_weights: Float64Array
    segment_denominators: Float64Array

    def __post_init__(self) -> None:
        for name in ("row_ranks", "row_micro_batches", "counted", "segment_weights", "segment_denominators"):
            getattr(self, name).flags.writeable = False

    def __reduce__(self) -> tuple[Any, ...]:
        names = self.__dataclass_fields__
        return LossWeights, tuple(getattr(self, name) for name in names)

    # -------------------------------------------------------------------------------------------------- denominators

    def scale(self, averaged_over: int | None = None) -> float:
        """The factor of sum(w * l) in the loss to run backward: `averaged_over / denominator`; 0 if nothing counts.

        Args:
            averaged_over: by what number the trainer divides the sum of all gradients. None: `data_parallel_size`, as
                where gradients are averaged over the data-parallel ranks and added up over micro-batches. 1 where they
                are only added up. Times the context-parallel ranks where the average includes them, times the
                micro-batches of a rank where the trainer divides by those too.

        Raises:
            ConfigError: `averaged_over` is no positive integer.
        """
        if averaged_over is None:
            averaged_over = self.data_parallel_size
        averaged_over = _checks.integer("averaged_over", averaged_over, minimum=1)
        return averaged_over / self.denominator if self.denominator else 0.0

    @cached_property
    def segment_counts(self) -> Int64Array:
        """int64[S]: the counted tokens of each segment."""
        return _frozen(_counts(self.counted, self.layout.lengths))

    @cached_property
    def row_denominators(self) -> Float64Array:
        """float64[R]: the sum of each row's weights; 0 for a dummy row. They add up to the update's `denominator`.

        Whole numbers under "token", and under "sequence" unless a sequence is split; else rounded to doubles.
        """
        return self._added(self.layout.segment_rows, self.layout.num_rows)

    @cached_property
    def micro_batch_denominators(self) -> Float64Array:
        """float64[data_parallel_size, num_micro_batches]: the sum of the weights of each rank's micro-batches."""
        shape = (self.data_parallel_size, self.num_micro_batches)
        places = self.row_ranks * self.num_micro_batches + self.row_micro_batches
        return self._added(places[self.layout.segment_rows], shape[0] * shape[1]).reshape(shape)

    @cached_property
    def rank_denominators(self) -> Float64Array:
        """float64[data_parallel_size]: the sum of each rank's weights."""
        return self._added(self.row_ranks[self.layout.segment_rows], self.data_parallel_size)

    def _added(self, places: Int64Array, count: int) -> Float64Array:
        """The segments' denominators, added up by place."""
        return _frozen(np.bincount(places, self.segment_denominators, count))

    # ------------------------------------------------------------------------------------------------------- weights

    def token_weights(self, form: str = "rows", *, dtype: Any = np.float64) -> npt.NDArray[Any]:
        """The weight at every column, 0 at padding and at what does not count.

        Args:
            form: "rows" or "flat": the columns that `materialize` makes with the same `form` and `labels`.
            dtype: np.float64 or np.float32.

        Returns:
            [R, T] with "rows", and [T] of the one flat row with "flat". For a shard of `PackedRows`, whose labels are
            "shifted", `np.take_along_axis(weights, shard.columns, -1)`.

        Raises:
            ConfigError: another form or dtype.
        """
        form = _checks.one_of("form", form, ("rows", "flat"))
        if dtype not in (np.float64, np.float32, "float64", "float32"):
            raise ConfigError(f"`dtype` must be float64 or float32, but got {shown(dtype)}.")
        layout = self.layout if form == "rows" else self.layout.flattened()
        values = np.repeat(self.segment_weights.astype(dtype), layout.lengths)
        values *= self.counted
        if self.labels == "shifted":  # across segments, too: the first token of each has no weight
            values[:-1] = values[1:].copy()
            values[-1:] = 0
        weights = np.empty((layout.num_rows, layout.row_length), dtype)
        begins, pad = np.cumsum(layout.lengths) - layout.lengths, np.zeros(values.itemsize, np.uint8)
        places = (layout.lengths, layout.row_offsets, layout.positions)
        kernel.copy_segments(values.view(np.uint8)[None], begins, *places, pad, weights.view(np.uint8)[:, None])
        return weights if form == "rows" else weights[0]

    # --------------------------------------------------------------------------------------------------------- parts

    def rank(self, rank: int) -> LossWeights:
        """The weights of one rank's rows.

        Raises:
            ConfigError: no such rank.
        """
        rank = _checks.integer("rank", rank, minimum=0, maximum=self.data_parallel_size - 1)
        return self.select(np.flatnonzero(self.row_ranks == rank))

    def micro_batch(self, micro_batch: int) -> LossWeights:
        """The weights of the rows of one micro-batch, on every rank held: `weights.rank(r).micro_batch(m)`.

        Raises:
            ConfigError: no such micro-batch.
        """
        micro_batch = _checks.integer("micro_batch", micro_batch, minimum=0, maximum=self.num_micro_batches - 1)
        return self.select(np.flatnonzero(self.row_micro_batches == micro_batch))

    def select(self, rows: Any) -> LossWeights:
        """The weights of some rows, in the order given; each row counts in the update what it counted.

        Args:
            rows: row indices in [0, R), none of them twice, or a `slice`.

        Raises:
            ConfigError: an index out of range or used twice.
        """
        layout = self.layout.select(rows)
        chosen = np.arange(self.layout.num_rows)[rows] if isinstance(rows, slice) else _checks.integers("rows", rows)
        offsets = self.layout.row_offsets
        segments = _ranges(offsets[chosen], np.diff(offsets)[chosen])
        begins = np.cumsum(self.layout.lengths) - self.layout.lengths
        return LossWeights(
            layout,
            self.reduction,
            self.labels,
            self.denominator,
            self.data_parallel_size,
            self.num_micro_batches,
            self.row_ranks[chosen],
            self.row_micro_batches[chosen],
            _gathered(self.counted, begins[segments], layout.lengths),
            self.segment_weights[segments],
            self.segment_denominators[segments],
        )

    def __repr__(self) -> str:
        return (
            f"LossWeights({self.reduction!r}, {int(self.counted.sum())} tokens in {self.layout.num_rows} rows, "
            f"denominator {self.denominator}, {self.data_parallel_size} ranks)"
        )


def loss_weights(
    layout: RowLayout,
    loss_mask: Any,
    *,
    offsets: Any = None,
    reduction: str = "token",
    labels: str = "unshifted",
    prompts: Any = None,
    groups: Any = None,
    data_parallel_size: int = 1,
    row_ranks: Any = None,
    micro_batches: Any = None,
) -> LossWeights:
    """What each token must weigh so that the packed loss is the mean it would have been without packing.

    A token is counted if the mask counts it and it is not the first of its segment, which no token of its row
    predicts. Tokens that a truncated or dropped sequence lost are not counted. With n counted tokens:

    | reduction | weight of a counted token | denominator |
    |---|---|---|
    | "token" | 1 | counted tokens |
    | "sequence" | 1 / n(its sequence) | sequences with a counted token |
    | "prompt" | 1 / n(all sequences of its prompt) | prompts with a counted token |
    | "group" | 1 / (n(its sequence) * sequences with a counted token in its group) | groups with a counted token |

    So "sequence" is the mean over sequences of their token means; "prompt" the mean over prompts of the token means of
    all their samples together; "group" the mean over groups of their sequences' means. The pieces of a split sequence
    are one sequence, in whatever rows they lie; sequences, prompts and groups without any counted token count nothing,
    in the denominator either. Where nothing is counted, all weights and the denominator are 0.

    n and the denominators are whole numbers over the whole `layout`, which is that of all ranks and micro-batches of
    one optimizer update. A rank that holds only its own rows takes them by `LossWeights.rank`. Where the masks of other
    ranks are not known, make the weights from the rank's own rows and add the `denominator` up over the ranks: that is
    the update's where no sequence, prompt or group lies on two ranks; `scale()` is then their number over that sum.

    Args:
        layout: all rows of the update.
        loss_mask: which tokens count: a `Sequences`, whose own mask is taken; a list of N one-dimensional masks; or one
            flat mask of all tokens with `offsets`. Masks hold bools, or numbers that are 0 or 1.
        offsets: int[N+1] ascending from 0; sequence i has the tokens `offsets[i]:offsets[i + 1]` of a flat mask.
        reduction: "token", "sequence", "prompt" or "group".
        labels: where the loss of predicting a token is computed: at its own column ("unshifted", as where the model
            shifts its logits) or at the column before it ("shifted", labels already moved left by one). The same
            tokens are counted and weigh the same.
        prompts: N labels, equal where sequences are samples of one prompt; None and -1 belong to none and stand for
            themselves. For "prompt" alone.
        groups: the same for "group".
        data_parallel_size: ranks that share the update.
        row_ranks: int[R], the rank of each row. None: equal blocks of consecutive rows, as in a plan of one round; in
            one of several rounds, row k is of rank k // bins_per_rank % data_parallel_size.
        micro_batches: int[R], the micro-batch of each row on its rank. None: all rows of a rank are one.

    Raises:
        ConfigError: a malformed argument, a segment beyond the end of its sequence's mask, or rows that are no
            multiple of `data_parallel_size` without `row_ranks`.
    """
    reduction = _checks.one_of("reduction", reduction, REDUCTIONS)
    labels = _checks.one_of("labels", labels, ("unshifted", "shifted"))
    mask, offsets = read_mask(layout, loss_mask, offsets)
    members = read_members(layout.num_sequences, reduction, prompts, groups)
    data_parallel_size = _checks.integer("data_parallel_size", data_parallel_size, minimum=1, maximum=2**31)
    row_ranks = read_row_ranks(layout.num_rows, data_parallel_size, row_ranks)
    micro_batches = read_micro_batches(layout.num_rows, micro_batches)
    counted = _gathered(mask, offsets[layout.sequences] + layout.starts, layout.lengths)
    counted[np.cumsum(layout.lengths) - layout.lengths] = False
    counts = _counts(counted, layout.lengths)
    divisors, denominator = _divisors(reduction, _sums(counts, layout.sequences, layout.num_sequences), members)
    divisors = divisors[layout.sequences]
    weights = np.divide(1.0, divisors, out=np.zeros(counts.size), where=counts > 0)
    sums = np.divide(counts, divisors, out=np.zeros(counts.size), where=counts > 0)
    return LossWeights(
        layout,
        reduction,
        labels,
        denominator,
        data_parallel_size,
        int(micro_batches.max(initial=0)) + 1,
        row_ranks,
        micro_batches,
        counted,
        weights,
        sums,
    )


def _divisors(reduction: str, tokens: Int64Array, members: Int64Array) -> tuple[Int64Array, int]:
    """int64[N], what each sequence's weights are one over, and the denominator; `tokens`: int64[N], those counted."""
    if reduction == "token":
        return np.ones_like(tokens), int(tokens.sum())
    if reduction in ("sequence", "prompt"):
        sums = _sums(tokens, members, tokens.size)
        return sums[members], int((sums > 0).sum())
    sizes = _sums((tokens > 0).astype(np.int64), members, tokens.size)
    return tokens * sizes[members], int((sizes > 0).sum())


def _ranges(begins: Int64Array, lengths: Int64Array) -> Int64Array:
    """The indices `begins[i] .. begins[i] + lengths[i] - 1` of every i, one range after the other."""
    ends = np.cumsum(lengths)
    return np.arange(int(lengths.sum())) + np.repeat(begins - ends + lengths, lengths)


def _gathered(mask: BoolArray, begins: Int64Array, lengths: Int64Array) -> BoolArray:
    """bool[total length]: runs of a mask, one after the other."""
    runs = np.empty(int(lengths.sum()), np.bool_)
    places = (begins, lengths, np.asarray([0, lengths.size]), np.cumsum(lengths) - lengths)
    kernel.copy_segments(mask.view(np.uint8)[None], *places, np.zeros(1, np.uint8), runs.view(np.uint8)[None, None])
    return runs


def _counts(counted: BoolArray, lengths: Int64Array) -> Int64Array:
    """int64[S]: the true values in each of consecutive runs, none of them empty."""
    if not lengths.size:
        return np.zeros(0, np.int64)
    return np.add.reduceat(counted.view(np.uint8), np.cumsum(lengths) - lengths, dtype=np.int64)


def _sums(values: Int64Array, places: Int64Array, count: int) -> Int64Array:
    """int64[count]: values added up by place, in integers."""
    sums = np.zeros(count, np.int64)
    np.add.at(sums, places, values)
    return sums


def _frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    array.flags.writeable = False
    return array
