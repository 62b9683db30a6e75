"""Balanced packs: rows of equal work under a token cap, their number a multiple of the packs of a step."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from packing import _checks
from packing._checks import Int64Array
from packing._fixed_point import exact_sum, finite
from packing._identities import layout_digest, settings_fingerprint
from packing._labels import grouped, labels_of
from packing._row_items import RowItems
from packing._row_settings import MOST_PACKS, CostModel, canonical_order, combined_labels, row_search
from packing.alignment import Alignment
from packing.assignment import Assignment
from packing.errors import ConfigError, InfeasibleError
from packing.plan import LowerBound
from packing.row_layout import RowLayout

__all__ = ["BalancedPacks", "balanced_pack", "group_by_version"]


@dataclass(frozen=True, eq=False)
class BalancedPacks:
    """N sequences in R rows, R a multiple of `num_packs`; rows by work descending, so that those of a step are alike.

    Attributes:
        layout: the rows; dummy rows come last.
        num_packs: rows of a step.
        loads: float64[R], the work of each row in the unit of the costs; a dummy row has none.
        lower_bound: no layout of these sequences in so many rows has a smaller largest load, and the name of what
            binds: "longest_sample" where that is one sequence. None: there are no sequences.
        gap: how far the largest load is above the lower bound, relative; 0 is proven optimal.
        algorithm: the one that made the layout.
        config_fingerprint: of the package's version and all settings; equal on every rank of a healthy job.
    """

    layout: RowLayout
    num_packs: int
    loads: npt.NDArray[np.float64]
    lower_bound: LowerBound | None
    gap: float
    algorithm: str | None
    config_fingerprint: str

    @cached_property
    def digest(self) -> str:
        """Of the settings, the lengths and the layout: ranks that agree on it have the same rows."""
        return layout_digest(self.config_fingerprint, self.layout)

    @property
    def num_rows(self) -> int:
        """R."""
        return self.layout.num_rows

    @property
    def num_dummy_rows(self) -> int:
        """Rows without a sequence: only where there are fewer sequences (or groups) than rows."""
        return int(self.layout.is_dummy.sum())

    @property
    def makespan(self) -> float:
        """The largest load."""
        return float(self.loads.max())

    @property
    def fill(self) -> float:
        """Tokens per column of the rows; 1.0 is no padding at all."""
        return int(self.layout.lengths.sum()) / (self.num_rows * self.layout.row_length)

    @cached_property
    def assignment(self) -> Assignment:
        """The sequences of each row as offsets and items."""
        return Assignment(self.layout.row_offsets, self.layout.sequences)

    def to_lists(self) -> list[list[int]]:
        """The sequences of each row; dummy rows are empty lists."""
        sequences, edges = self.layout.sequences.tolist(), self.layout.row_offsets.tolist()
        return [sequences[start:stop] for start, stop in pairwise(edges)]


def balanced_pack(
    lengths: Any,
    num_packs: int,
    max_token_budget: int,
    *,
    estimator: Any = "attention",
    costs: Any = None,
    versions: Any = None,
    group: Any = None,
    forbid: Any = None,
    max_segments_per_row: int | None = None,
    alignment: Any = 1,
    algorithm: Any = "auto",
) -> BalancedPacks:
    """Packs sequences into rows of at most `max_token_budget` tokens and nearly equal work.

    The number of rows is a multiple of `num_packs`, and the smallest one for which a layout is found: never more than
    first-fit decreasing needs, rounded up. Work is balanced and tokens are capped; the two are kept apart. Permuting
    the sequences permutes the answer: every row keeps its lengths.

    Args:
        lengths: N positive whole numbers, in tokens. None at all: `num_packs` dummy rows.
        num_packs: rows of a step, such as one for each data-parallel rank. Where there are fewer sequences than rows,
            each has one for itself and dummy rows follow. At most 2**20.
        max_token_budget: T, columns of a row.
        estimator: the work of a sequence by its length, a name, a mapping with "name" and options, or a function of one
            record, as in `Planner`.
        costs: N non-negative numbers, the work of each sequence; the estimator is not asked.
        versions: the policy version of each sequence; a row never mixes versions. None values are one version.
        group: a label for each sequence; those of one label (a preference pair, a rollout group, a shared prefix) share
            a row. None and -1: of no group.
        forbid: a further label for each sequence; sequences of different labels never share a row. None is a label.
        max_segments_per_row: most sequences in one row.
        alignment: to what segments and rows are rounded up; see `packing.Alignment`.
        algorithm: what looks for a layout in a given number of rows, a name or config as in `Planner`. That rows are
            never more than first-fit decreasing needs is true of `auto`.

    Raises:
        ConfigError: an argument has a wrong type or value.
        InfeasibleError: a sequence or a group that no row can hold; named before any search.
        UnsupportedProblemError: the algorithm cannot keep a limit that is asked for.
        NoCandidateError: the algorithm finds no layout in any number of rows; never raised by `auto`.
    """
    lengths = _checks.integers("lengths", lengths, minimum=1)
    num_packs = _checks.integer("num_packs", num_packs, minimum=1, maximum=MOST_PACKS)
    search = row_search(
        algorithm, num_packs, max_token_budget, alignment=alignment, max_segments_per_row=max_segments_per_row
    )
    cost_model = CostModel(estimator)
    alignment = Alignment.of(alignment)
    if exact_sum(lengths) + lengths.size * alignment.segment >= 2**62:
        raise ConfigError(f"`lengths` must add up to less than 2**62, but got {exact_sum(lengths)}.")
    labels = [
        labels_of(name, values, lengths.size)
        for name, values in (("versions", versions), ("forbid", forbid))
        if values is not None
    ]
    groups = None if group is None else labels_of("group", group, lengths.size, none=-1)
    items = RowItems(alignment.aligned(lengths), combined_labels(labels), groups)
    work = cost_model(lengths, {}) if costs is None else finite("costs", costs, length=lengths.size)
    _check_lengths(lengths, items.tokens, int(max_token_budget))
    items.check_groups(int(max_token_budget), max_segments_per_row, "sequence {}".format)
    # Sequences that agree in all that counts are alike to every algorithm: the order they came in plays no part.
    order = canonical_order(items, lengths, work)
    found = search.search(items.take(order), lengths[order], work[order])
    found = found.arranged(np.argsort(-found.loads, kind="stable"), num_packs, None)
    rows = [np.sort(order[row]) for row in found.rows]
    layout = RowLayout.from_bins(lengths, rows, row_length=max_token_budget, alignment=alignment)
    plan = found.plan
    bound, gap = (None, 0.0) if plan is None else (plan.lower_bound, plan.gap)
    fingerprint = settings_fingerprint(search.fingerprint, cost_model.fingerprint if costs is None else None)
    return BalancedPacks(layout, num_packs, found.loads, bound, gap, found.algorithm, fingerprint)


def _check_lengths(lengths: Int64Array, tokens: Int64Array, budget: int) -> None:
    over = tokens > budget
    if over.any():
        at = int(np.argmax(over))
        aligned = "" if lengths[at] > budget else f" ({tokens[at]} once aligned)"
        raise InfeasibleError(
            f"sequence {at} has {lengths[at]} tokens{aligned}, over `max_token_budget` = {budget} "
            f"({int(over.sum())} such sequences)."
        )


def group_by_version(versions: Any) -> dict[Hashable, list[int]]:
    """The indices of each version, by version in the order in which versions first occur; indices ascend.

    Args:
        versions: one hashable value for each sequence, such as its policy version; None is a version of its own.

    Raises:
        ConfigError: no sequence of hashable values.
    """
    return grouped("versions", versions)
