"""PackedBatch: the rows of one optimizer update, where each sequence went, and what is in no row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from packing import _checks
from packing._checks import Int64Array, shown
from packing._identities import layout_digest
from packing._overflow import Overflow
from packing.errors import ConfigError
from packing.plan import LowerBound
from packing.row_layout import RowLayout
from packing.sequences import Sequences

if TYPE_CHECKING:
    from packing.loss_weighting import LossWeights
    from packing.packed_rows import PackedRows

__all__ = ["Overflow", "PackedBatch"]


@dataclass(frozen=True, eq=False)
class PackedBatch:
    """The N sequences of one update in R rows, R a multiple of `num_packs`, dealt out to R / num_packs steps.

    Rows are made when they are asked for: all of them by `rows`, or those of one step after the other by `steps`.

    Attributes:
        update: the `update_id` of the sequences, or the number of the update in the stream, from 0.
        sequences: all N, in stream order.
        indices: int64[N], their positions in the stream.
        layout: the R rows, step after step. Under `overflow` "single" its rows are as long as the longest sequence
            where that is more than `max_token_budget`.
        num_packs: rows of a step.
        data_parallel_size: ranks that share the rows, as `pack_sequences` was given it; None: it was not.
        losses: what no row could hold as it was, one entry for each reason; empty where every token is in a row.
        loads: float64[R], the work of each row in the unit of the estimator.
        lower_bound: no layout in so many rows has a smaller largest load (with `data_parallel_size`, of the rows of a
            rank together), and the name of what binds; None: no row has a sequence.
        gap: how far the largest load is above it, relative.
        algorithm: the one that made the layout; "first_fit" for first fit in order. None: no row has a sequence.
        is_complete: False only for a last update that has fewer than `sequences_per_update` sequences.
        config_fingerprint: of the package's version and all settings; equal on every rank of a healthy job.
    """

    update: Any
    sequences: Sequences
    indices: Int64Array
    layout: RowLayout
    num_packs: int
    data_parallel_size: int | None
    losses: tuple[Overflow, ...]
    loads: npt.NDArray[np.float64]
    lower_bound: LowerBound | None
    gap: float
    algorithm: str | None
    is_complete: bool
    config_fingerprint: str
    _form: Mapping[str, Any]

    @property
    def num_rows(self) -> int:
        """R."""
        return self.layout.num_rows

    @property
    def num_steps(self) -> int:
        """R / num_packs."""
        return self.num_rows // self.num_packs

    @property
    def num_dummy_rows(self) -> int:
        """Rows without a sequence."""
        return int(self.layout.is_dummy.sum())

    @property
    def num_lost_tokens(self) -> int:
        """Tokens of the sequences that are in no row."""
        return sum(loss.num_lost_tokens for loss in self.losses)

    @property
    def fill(self) -> float:
        """Tokens per column of the rows; 1.0 is no padding at all."""
        return int(self.layout.lengths.sum()) / (self.num_rows * self.layout.row_length)

    @property
    def values(self) -> Mapping[str, Any]:
        """The per-sequence values, N of each, in stream order."""
        return self.sequences.values

    @cached_property
    def rows(self) -> PackedRows:
        """The arrays of all R rows."""
        return self._materialized(self.layout)

    @cached_property
    def digest(self) -> str:
        """Of the settings, the lengths, their position in the stream, and the layout.

        Ranks that agree on it have the same rows; no token, feature or value is part of it.
        """
        return layout_digest(self.config_fingerprint, self.layout, self.sequences.lengths, self.indices[:1])

    def steps(
        self, *, rank: int | None = None, form: str = "rows", out: Mapping[str, npt.NDArray[Any]] | None = None
    ) -> Iterator[PackedRows]:
        """The arrays of each step's rows, one step after the other, with the padding and labels of `pack_sequences`.

        `loss_weights(...).micro_batch(step)` are the weights of these rows, `loss_weights(...).rank(r).micro_batch(
        step)` those of the rows of rank r; both with `token_weights(form)`.

        Args:
            rank: the rows that this rank takes of every step, in [0, data_parallel_size); None: those of all ranks.
            form, out: of `packing.materialize`.

        Raises:
            ConfigError: no such rank. While iterating: a wrong `form` or `out`.
        """
        layouts = [self.step_layout(step, rank=rank) for step in range(self.num_steps)]
        return (self._materialized(layout, form=form, out=out) for layout in layouts)

    def step_layout(self, step: int, *, rank: int | None = None) -> RowLayout:
        """The rows of one step, in [0, num_steps), or those of it that a rank takes; sequences keep their numbers.

        Raises:
            ConfigError: no such step or rank; a rank without a `data_parallel_size`.
        """
        step = _checks.integer("step", step, minimum=0, maximum=self.num_steps - 1)
        first, count = step * self.num_packs, self.num_packs
        if rank is not None:
            if self.data_parallel_size is None:
                raise ConfigError("`rank` needs the `data_parallel_size` of `pack_sequences`.")
            count //= self.data_parallel_size
            first += count * _checks.integer("rank", rank, minimum=0, maximum=self.data_parallel_size - 1)
        return self.layout.select(slice(first, first + count))

    def unpack(self, values: Any) -> list[Any]:
        """Per-token results [R, T, ...] of `rows` by sequence, N of them in stream order; None for a dropped one."""
        return self.rows.unpack(values)

    def loss_weights(
        self,
        reduction: str = "token",
        *,
        prompts: str | None = None,
        groups: str | None = None,
        data_parallel_size: int | None = None,
    ) -> LossWeights:
        """What each token counts in the loss of the update: of all R rows, with the step of a row as its micro-batch.

        The columns are those of `rows` and `steps`: under `labels` "shifted" each weight is where the label is.

        `weights.micro_batch(step)` are those of a step's rows, `weights.rank(rank).micro_batch(step)` those that a rank
        takes of it.

        Args:
            reduction: "token", "sequence", "prompt" or "group", see `packing.loss_weights`.
            prompts: the name of the per-sequence value that tells prompts apart; for "prompt".
            groups: the same of groups; for "group".
            data_parallel_size: g, divides `num_packs`; of every step, rank r takes the rows
                [r * num_packs / g, (r + 1) * num_packs / g). None: that of `pack_sequences`, or 1.

        Raises:
            ConfigError: a name that no value has, a malformed argument.
        """
        from packing.loss_weighting import loss_weights

        given = self.data_parallel_size or 1 if data_parallel_size is None else data_parallel_size
        size = _checks.integer("data_parallel_size", given, minimum=1)
        if self.num_packs % size:
            raise ConfigError(f"`data_parallel_size` must divide `num_packs` {self.num_packs}, but got {size}.")
        row = np.arange(self.num_rows)
        return loss_weights(
            self.layout,
            self.sequences,
            reduction=reduction,
            labels=self._form["labels"] or "unshifted",
            prompts=self._named("prompts", prompts),
            groups=self._named("groups", groups),
            data_parallel_size=size,
            row_ranks=row % self.num_packs // (self.num_packs // size),
            micro_batches=row // self.num_packs,
        )

    def _named(self, option: str, name: str | None) -> Any:
        """The values of that name."""
        if name is None:
            return None
        if not isinstance(name, str) or name not in self.values:
            there = ", ".join(map(repr, self.values)) or "none"
            raise ConfigError(f"`{option}` names the value {shown(name)}, but the sequences have: {there}.")
        return self.values[name]

    def _materialized(self, layout: RowLayout, **options: Any) -> PackedRows:
        from packing.materialization import materialize

        form = {**self._form, **options}
        together = max(1, layout.num_rows) if form.get("form") == "flat" else 1
        if form["num_segments"] is not None:
            form["num_segments"] *= together
        else:  # one shape for all steps
            counts = np.diff(self.layout.row_offsets).reshape(-1, together).sum(axis=1)
            form["num_segments"] = max(1, int(counts.max()))
        return materialize(self.sequences, layout, **form)

    def __repr__(self) -> str:
        return (
            f"PackedBatch(update {self.update!r}, {len(self.sequences)} sequences in {self.num_rows} rows of "
            f"{self.layout.row_length}, {self.num_dummy_rows} dummies, {self.num_lost_tokens} tokens lost)"
        )
