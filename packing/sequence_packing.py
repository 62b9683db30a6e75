"""Sequence packing: a stream of batches of sequences in, rows of equal work for every optimizer update out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from packing import _checks
from packing._checks import Int64Array, shown
from packing._identities import settings_fingerprint
from packing._labels import labels_of
from packing._overflow import POLICIES, Groups, Pieces
from packing._row_items import RowItems
from packing._row_search import FoundRows, RowSearch, in_order
from packing._row_settings import MOST_PACKS, CostModel, canonical_order, combined_labels, row_search
from packing._updates import Update, updates
from packing.alignment import Alignment
from packing.errors import ConfigError
from packing.materialization import check_form
from packing.packed_batch import PackedBatch
from packing.row_layout import RowLayout
from packing.sequences import Sequences

__all__ = ["pack_sequences"]

_ORDERS = ("balanced", "sampler", "shuffled")


def pack_sequences(
    batches: Iterable[Any],
    *,
    num_packs: int,
    max_token_budget: int,
    packing_strategy: Any = "kk",
    order: str = "balanced",
    seed: int | None = None,
    overflow: str = "error",
    sequences_per_update: int | None = None,
    update_id: str | None = None,
    last_update: str = "error",
    group: str | None = None,
    group_scope: str = "bin",
    forbid: str | Iterable[str] | None = None,
    data_parallel_size: int | None = None,
    max_segments_per_row: int | None = None,
    alignment: Any = 1,
    estimator: Any = "attention",
    pad_id: int = 0,
    padding: Mapping[str, Any] | None = None,
    labels: str | None = None,
    ignore_index: int = -100,
    position_start: int = 0,
    num_segments: int | None = None,
) -> Iterator[PackedBatch]:
    """Packs a stream of batches, one optimizer update after the other.

    Every sequence of an update is in its rows exactly once, or is counted in `PackedBatch.losses`. The number of rows
    is a multiple of `num_packs`, the smallest one for which a layout is found; dummy rows are only where an update has
    fewer sequences (or groups) than rows. Sequences never cross an update. The same stream gives the same rows on every
    rank and machine.

    Settings are checked here, before the stream is touched, except for what depends on it: names of values and of
    features, and whether their dtypes hold `pad_id`, `padding` and `ignore_index`, are checked when an update has been
    read, before it is packed. Batches are read one by one when the updates are asked for.

    After an error about the sequences of one update, asking for the next update gives the one after it; an error about
    the stream (a malformed batch, batches that do not fit together, an `update_id` that is missing or comes again, an
    end inside an update) ends it.

    Args:
        batches: an iterable of batches, each in any form that `Sequences.of` takes: lists of ids, (prompt, completion)
            pairs or mappings with features and values, or a `Sequences`. A batch without sequences adds nothing. For a
            stream of single sequences: `([sequence] for sequence in stream)`.
        num_packs: rows of a step, such as one for each data-parallel rank; at most 2**20.
        max_token_budget: T, columns of a row.
        packing_strategy: how the sequences of an update are laid out. "kk": largest differencing of their work (of each
            kind that `forbid` keeps apart by itself), then repair of what is over the cap; where it finds no layout, or
            there are groups or a limit on segments, by `auto`.
            "first_fit": each into the first row that may take it, in the order of `order` (with groups on ranks by
            `auto`). "auto": the most even rows.
            Or any algorithm by name or config, as in `Planner`; where it finds no layout, there are more rows.
        order: how rows and their sequences are arranged. "balanced": rows by work descending, so that those of a step
            are alike. "sampler": rows by their first sequence, sequences as they came. "shuffled": the same after a
            random permutation of every update, another one for each.
        seed: of "shuffled", a non-negative integer.
        overflow: what to do with a sequence that no row can hold, alignment included: "error"; "single" (a row of its
            own, and the rows of this update are as long as it needs); "truncate_left" and "truncate_right" (tokens are
            removed at that end); "split" (into segments that each fill a row, and a rest); "drop" (with the whole
            `group`, and groups that no row can hold as well).
        sequences_per_update: sequences of an update, regrouped from batches of any size.
        update_id: name of a per-sequence value instead; sequences of one value follow each other and make an update.
            Without both, every batch is an update.
        last_update: "error" or "pack": a stream that ends inside an update of `sequences_per_update`.
        group: name of a per-sequence value; sequences with one value (a preference pair, a rollout group, a shared
            prefix) stay together. None and -1: in no group.
        group_scope: "bin" (in one row) or "rank" (in the rows of one rank; needs `data_parallel_size`).
        forbid: name of a per-sequence value, or names; sequences with different ones (policy version, adapter) never
            share a row. None is a value like any other.
        data_parallel_size: g, divides `num_packs`; of every step, rank r takes the rows [r * num_packs / g, (r + 1) *
            num_packs / g), and the work of a rank's rows together is balanced. `PackedBatch.steps` and `loss_weights`
            take it from here. None: every row by itself.
        max_segments_per_row: most segments in one row.
        alignment: to what segments and rows are rounded up; see `packing.Alignment`.
        estimator: the work of a sequence, as in `Planner`; values of that name are its columns. A split sequence counts
            by its segments.
        num_segments: the width of `cu_seqlens`, as in `packing.materialize`; no row has more segments. None:
            `max_segments_per_row`, or what the rows of an update need.
        pad_id, padding, labels, ignore_index, position_start: of `packing.materialize`.

    Returns:
        An iterator over the updates.

    Raises:
        ConfigError: a setting has a wrong type or value. While iterating: a malformed batch, a value or feature that is
            missing or does not fit a setting, a stream that ends inside an update.
        InfeasibleError: while iterating: a sequence or group that no row can hold; a `group` in one row whose members
            `forbid` keeps apart, whatever `overflow` is.
        UnsupportedProblemError: while iterating: the algorithm cannot keep a limit that is asked for.
        NoCandidateError: while iterating: the algorithm finds no layout in any number of rows.
    """
    if isinstance(batches, (str, bytes, Mapping, Sequences)) or not isinstance(batches, Iterable):
        raise ConfigError(f"`batches` must be an iterable of batches, but got {shown(batches)}.")
    seed = _checked_seed(_checks.one_of("order", order, _ORDERS), seed)
    _checks.one_of("overflow", overflow, POLICIES)
    sequences_per_update = _checks.optional_integer("sequences_per_update", sequences_per_update, minimum=1)
    if update_id is not None and sequences_per_update is not None:
        raise ConfigError("`update_id` and `sequences_per_update` must not both be given.")
    _checks.one_of("last_update", last_update, ("error", "pack"))
    _checks.one_of("group_scope", group_scope, ("bin", "rank"))
    kinds = [forbid] if isinstance(forbid, str) or not isinstance(forbid, Iterable) else list(forbid)
    _check_names([("update_id", update_id), ("group", group), *(("forbid", kind) for kind in kinds)])
    num_packs = _checks.integer("num_packs", num_packs, minimum=1, maximum=MOST_PACKS)
    limits = [
        _checks.integer(name, limit, minimum=1, maximum=2**31)
        for name, limit in (("max_segments_per_row", max_segments_per_row), ("num_segments", num_segments))
        if limit is not None
    ]
    search = row_search(
        packing_strategy,
        num_packs,
        max_token_budget,
        alignment=alignment,
        max_segments_per_row=min(limits, default=None),
        first_fit=isinstance(packing_strategy, str) and packing_strategy == "first_fit",
        ranks=_ranks(data_parallel_size, num_packs, group, group_scope),
        group_scope=group_scope,
        oversized="single" if overflow == "single" else "error",
        lenient=isinstance(packing_strategy, str) and packing_strategy == "kk",
    )
    form = _form(pad_id, padding, labels, ignore_index, position_start, limits[-1] if limits else None)
    kinds = [kind for kind in kinds if kind is not None]
    cost_model = CostModel(estimator)
    pads = {name: str(value) for name, value in (form["padding"] or {}).items()}
    fingerprint = settings_fingerprint(
        search.fingerprint,
        cost_model.fingerprint,
        [overflow, order, seed, sequences_per_update, update_id, last_update, group, kinds, form | {"padding": pads}],
    )
    packer = _Packer(
        search=search,
        budget=int(max_token_budget),
        alignment=Alignment.of(alignment),
        overflow=overflow,
        order=order,
        seed=seed,
        group=group,
        kinds=kinds,
        cost_model=cost_model,
        form=form,
        fingerprint=fingerprint,
    )
    return map(packer.pack, updates(batches, sequences_per_update, update_id, last_update == "pack"))


def _checked_seed(order: str, seed: Any) -> int | None:
    number = _checks.optional_integer("seed", seed, minimum=0)
    if (number is None) == (order == "shuffled"):
        raise ConfigError(
            f'`seed` must be given with `order` "shuffled" and only then, but got {number} with {order!r}.'
        )
    return number


def _check_names(options: list[tuple[str, Any]]) -> None:
    for option, name in options:
        if name is not None and not isinstance(name, str):
            raise ConfigError(f"`{option}` must be the name of a per-sequence value, but got {shown(name)}.")


def _ranks(data_parallel_size: Any, num_packs: int, group: str | None, group_scope: str) -> int | None:
    ranks = _checks.optional_integer("data_parallel_size", data_parallel_size, minimum=1)
    if ranks is None and group is not None and group_scope == "rank":
        raise ConfigError('`data_parallel_size` must be given with `group_scope` "rank".')
    if ranks is not None and num_packs % ranks:
        raise ConfigError(f"`data_parallel_size` must divide `num_packs` {num_packs}, but got {ranks}.")
    return ranks


def _form(
    pad_id: Any, padding: Any, labels: Any, ignore_index: Any, position_start: Any, num_segments: int | None
) -> dict[str, Any]:
    """Arguments of `materialize`; a ConfigError for what it would refuse whatever the sequences are."""
    if padding is not None and not isinstance(padding, Mapping):
        raise ConfigError(f"`padding` must map features to values, but got {shown(padding)}.")
    wrong = [name for name in padding or () if not isinstance(name, str)]
    if wrong:
        raise ConfigError(f"`padding` must map names of features to values, but got {shown(wrong[0])}.")
    return {
        "pad_id": _checks.integer("pad_id", pad_id),
        "padding": None if padding is None else dict(padding),
        "labels": None if labels is None else _checks.one_of("labels", labels, ("unshifted", "shifted")),
        "ignore_index": _checks.integer("ignore_index", ignore_index),
        "position_start": _checks.integer("position_start", position_start, minimum=0, maximum=2**31 - 1),
        "num_segments": num_segments,
    }


@dataclass(frozen=True)
class _Packer:
    """The settings of `pack_sequences`, checked."""

    search: RowSearch
    budget: int
    alignment: Alignment
    overflow: str
    order: str
    seed: int | None
    group: str | None
    kinds: list[str]
    cost_model: CostModel
    form: Mapping[str, Any]
    fingerprint: str

    def pack(self, update: Update) -> PackedBatch:
        """The rows of one update."""
        sequences = update.sequences
        check_form(sequences, self.form)
        groups = None if self.group is None else _labels("group", self.group, sequences, none=-1)
        pieces = self._pieces(sequences.lengths, groups, update.first)
        items = self._items(sequences, groups, pieces, update.first)
        values = {name: _taken(column, pieces.sequences) for name, column in sequences.values.items()}
        costs = self.cost_model(pieces.lengths, values)
        position = self._positions(len(sequences), update.number)[pieces.sequences]
        in_turn = np.lexsort((pieces.starts, position))
        by_work = self.order == "balanced"
        order = canonical_order(items, pieces.lengths, costs) if by_work and not self.search.first_fit else in_turn
        found = self.search.search(items.take(order), pieces.lengths[order], costs[order])
        turn = np.empty_like(in_turn)
        turn[in_turn] = np.arange(in_turn.size)
        rows = [np.sort(turn[order[row]]) for row in found.rows]  # each in turn
        arranged = np.argsort(-found.loads, kind="stable") if by_work else in_order(rows, np.arange(turn.size))
        found = FoundRows([in_turn[row] for row in rows], found.loads, found.plan, found.algorithm)
        found = found.arranged(arranged, self.search.num_packs, self.search.ranks)
        plan = found.plan
        return PackedBatch(
            update=update.name,
            sequences=sequences,
            indices=update.first + np.arange(len(sequences)),
            layout=self._layout(len(sequences), pieces, found.rows),
            num_packs=self.search.num_packs,
            data_parallel_size=self.search.ranks,
            losses=pieces.overflows,
            loads=found.loads,
            lower_bound=None if plan is None else plan.lower_bound,
            gap=0.0 if plan is None else plan.gap,
            algorithm=found.algorithm,
            is_complete=update.is_complete,
            config_fingerprint=self.fingerprint,
            _form=self.form,
        )

    def _pieces(self, lengths: Int64Array, groups: Int64Array | None, first: int) -> Pieces:
        """The runs of tokens to lay out; an InfeasibleError for a sequence that no row can hold."""
        share_row, most = self.search.group_scope == "bin", self.search.plans.planner.max_items
        whole = None if groups is None else Groups(groups, share_row, most)
        return Pieces.of(lengths, self.budget, self.alignment, self.overflow, first, whole)

    def _items(self, sequences: Sequences, groups: Int64Array | None, pieces: Pieces, first: int) -> RowItems:
        """The pieces with their labels; an InfeasibleError for a group that no row can hold."""
        kinds = combined_labels([_labels("forbid", name, sequences) for name in self.kinds])
        items = RowItems(
            pieces.footprints,
            None if kinds is None else kinds[pieces.sequences],
            None if groups is None else groups[pieces.sequences],
        )
        if self.search.group_scope == "bin":
            items.check_groups(
                self.budget,
                self.search.plans.planner.max_items,
                lambda at: f"sequence {first + pieces.sequences[at]}",
                '; `overflow` "drop" leaves such groups out, `group_scope` "rank" keeps them on one rank',
            )
        return items

    def _positions(self, count: int, number: int) -> Int64Array:
        """int64[N]: where each sequence of an update comes in its order."""
        if self.seed is None:
            return np.arange(count)
        return np.random.default_rng((self.seed, number)).permutation(count)

    def _layout(self, num_sequences: int, pieces: Pieces, rows: list[Int64Array]) -> RowLayout:
        chosen = np.concatenate(rows)
        row = self.alignment.row
        longest = -(-int(pieces.footprints.max(initial=0)) // row) * row
        return RowLayout(
            num_sequences,
            np.concatenate(([0], np.cumsum([one.size for one in rows]))),
            pieces.sequences[chosen],
            pieces.starts[chosen],
            pieces.lengths[chosen],
            pieces.footprints[chosen],
            max(self.budget, longest),
            self.alignment,
        )


def _labels(option: str, name: str, sequences: Sequences, none: int | None = None) -> Int64Array:
    if name not in sequences.values:
        there = ", ".join(map(repr, sequences.values)) or "none"
        raise ConfigError(f"`{option}` names the value {name!r}, but the sequences have: {there}.")
    return labels_of(name, sequences.values[name], len(sequences), none=none)


def _taken(column: Any, indices: Int64Array) -> Any:
    return column[indices] if isinstance(column, np.ndarray) else [column[at] for at in indices.tolist()]
