"""How micro-batches are decided: the count first, then what lies in each, then who runs which when."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from packing import _checks
from packing._build_problem import build_problem, labels_column
from packing._checks import Int64Array, shown
from packing._costs import estimated_costs
from packing._fixed_point import finite, quantise_costs
from packing._identities import inputs_digest
from packing._micro_batch_rows import Additive, checked_total, dealt, descending
from packing._micro_batch_units import Bins, Settings, gathered
from packing._padded_runs import PaddedRuns
from packing._samples import Batch, read_samples
from packing.errors import ConfigError, InfeasibleError
from packing.micro_batching import MicroBatches
from packing.planner import Planner
from packing.problem import Problem

__all__ = ["planned"]


def planned(
    lengths: Any, rank_of: Any, group: Any, forbid: Any, settings: Settings, forward: dict[str, Any] | None
) -> MicroBatches:
    """The micro-batches; see `packing.micro_batches`."""
    samples, labels = _with_labels(lengths, {"group": group, "forbid": forbid})
    batch = read_samples(samples, "lengths")
    n = batch.lengths.size
    if rank_of is not None:
        rank_of = _checks.integers("rank_of", rank_of)
        if rank_of.size != n:
            raise ConfigError(f"`rank_of` must have one rank for each of the {n} samples, but got {rank_of.size}.")
        ranks = int(rank_of.max()) + 1 if settings.ranks is None else settings.ranks
        if (rank_of >= ranks).any():
            at = int(np.argmax(rank_of >= ranks))
            raise ConfigError(f"`rank_of` must be below {ranks}, but got {rank_of[at]} at index {at}.")
    else:
        ranks = settings.ranks or 1
    settings = replace(settings, ranks=ranks)
    # Both before any work: what one of them refuses is refused at once.
    step = _Step(batch, labels, settings)
    later = None if forward is None else _Step(batch, labels, replace(settings, **forward, equal_count=False))
    made = step.made(rank_of)
    return made if later is None else replace(made, forward=later.made(made.rank_of))


def _with_labels(lengths: Any, given: dict[str, Any]) -> tuple[Any, dict[str, str]]:
    """The samples with the labels as columns, and the names of these columns."""
    names = {option: value for option, value in given.items() if isinstance(value, str)}
    arrays = {option: value for option, value in given.items() if value is not None and option not in names}
    if not arrays:
        return lengths, names
    batch = read_samples(lengths, "lengths")
    if batch.records is not None:
        raise ConfigError(f"`{next(iter(arrays))}` must be the name of a feature where the samples are records.")
    columns = {name: batch.columns[name] for name in batch.columns}
    for option, values in arrays.items():
        try:
            size = len(values)
        except TypeError:
            raise ConfigError(f"`{option}` must be labels or the name of a column, but got {shown(values)}.") from None
        if size != batch.lengths.size:
            raise ConfigError(
                f"`{option}` must have one label for each of the {batch.lengths.size} samples, but got {size}."
            )
        names[option] = labels_column(option)
        columns[names[option]] = values
    return columns, names


class _Step:
    """One step: samples, settings, and what is made of them."""

    def __init__(self, batch: Batch, labels: Mapping[str, str], settings: Settings) -> None:
        self.batch, self.settings = batch, settings
        assert settings.ranks is not None
        self.ranks = settings.ranks
        settings.alignment.check_row_length(settings.budget_name, settings.budget)
        self.planner = Planner(
            data_parallel_size=self.ranks,
            seq_len=settings.budget,
            estimator=settings.estimator,
            algorithm=settings.algorithm,
            alignment=settings.alignment,
            max_items=settings.max_items,
            group=labels.get("group"),
            forbid=labels.get("forbid"),
        )
        self.problem: Problem = build_problem(self.planner, batch, None)
        self.units = gathered(self.problem, settings, batch.describe_index)
        self.costs, self.cost_exponent = (
            self._padded_costs()
            if settings.padded
            else (
                self.problem.cost,
                self.problem.cost_exponent,
            )
        )

    def made(self, rank_of: Int64Array | None) -> MicroBatches:
        """The micro-batches of samples that lie on given ranks (by input position), or are dealt."""
        settings, order = self.settings, self.batch.by_key
        on = None if rank_of is None else rank_of[order]
        if settings.padded:
            bins, bound = self._padded(on)
        else:
            bins, bound = Additive(self.units, settings, self.ranks, self._units_on(on)).solved()
            bins = [[self.units.samples(members) for members in row] for row in bins]
        tokens, loads = self._measured(bins)
        by_position = [[np.sort(order[members]) for members in row] for row in bins]
        return self._result(by_position, tokens, loads, bound)

    def _units_on(self, on: Int64Array | None) -> Int64Array | None:
        """int64[U]: the rank of each unit; its samples must lie on one."""
        if on is None:
            return None
        units = self.units
        ranks = np.empty(units.size, np.int64)
        ranks[units.of_sample[::-1]] = on[::-1]
        apart = ranks[units.of_sample] != on
        if apart.any():
            at = int(np.argmax(apart))
            first = int(np.argmax(units.of_sample == units.of_sample[at]))
            describe = self.batch.describe_index
            raise InfeasibleError(
                f"the group of {describe(first)} must share a micro-batch, but `rank_of` puts {describe(at)} on rank "
                f"{on[at]} instead of {on[first]}."
            )
        return ranks

    def _measured(self, bins: list[Bins]) -> tuple[list[list[int]], list[list[int]]]:
        """Tokens and loads of the micro-batches of each rank."""

        def sums(values: Int64Array) -> list[list[int]]:
            if self.settings.padded:
                return [[int(values[m].max()) * m.size for m in row] for row in bins]
            return [[int(values[m].sum()) for m in row] for row in bins]

        return sums(self.problem.tokens), sums(self.costs)

    # ------------------------------------------------------------------------------------------------------ padded

    def _padded_costs(self) -> tuple[Int64Array, int]:
        """int64[N] costs in fixed point, N times the largest below 2**62, and their exponent."""
        cost = finite("cost", estimated_costs(self.planner, self.batch), length=self.batch.lengths.size)
        cost = cost[self.batch.by_key]
        fixed, _, exponent = quantise_costs(cost, np.asarray([cost.max()]), cost.size)
        lengths = self.batch.lengths[self.batch.by_key]
        order = np.lexsort((fixed, lengths))
        steps, same = np.diff(fixed[order]), np.diff(lengths[order]) == 0
        if (steps < 0).any() or steps[same].any():
            raise ConfigError("`estimator` must not fall with the length, nor look at anything else, with `padded`.")
        return fixed, exponent

    def _padded(self, on: Int64Array | None) -> tuple[list[Bins], int]:
        settings, problem, costs = self.settings, self.problem, self.costs
        order = np.lexsort((np.arange(costs.size), -costs, -problem.tokens))
        parts = [order] if on is None else [order[on[order] == rank] for rank in range(self.ranks)]
        runs = [PaddedRuns(problem.tokens[p], costs[p], settings.budget, settings.max_items) for p in parts]
        shares = self.ranks if on is None else 1
        count = settings.count(-(-max(one.fewest() for one in runs) // shares))
        checked_total(count * self.ranks)
        found: list[Bins] = []
        bound = 0
        for part, one in zip(parts, runs, strict=True):
            ends, largest = one.smallest_largest(min(count * shares, part.size)) if part.size else ([], 0)
            found.append(np.split(part, ends[:-1]) if ends else [])
            bound = max(bound, largest, -(-int(costs[part].sum()) // shares))
        loads = [[int(costs[members[0]]) * members.size for members in bins] for bins in found]
        if on is None:
            return dealt(found[0], loads[0], self.ranks), bound
        return [descending(bins, load) for bins, load in zip(found, loads, strict=True)], bound

    # ------------------------------------------------------------------------------------------------------ result

    def _result(self, bins: list[Bins], tokens: list[list[int]], loads: list[list[int]], bound: int) -> MicroBatches:
        settings = self.settings
        count = settings.count(max(len(row) for row in bins))
        empty = np.empty(0, np.int64)
        placed, placed_tokens, placed_loads = [], [], []
        for row, row_tokens, row_loads in zip(bins, tokens, loads, strict=True):
            missing = count - len(row)
            padded = [*row, *[empty] * missing]
            where = _arranged(padded, settings.order)
            placed += [padded[j] for j in where]
            placed_tokens += [[*row_tokens, *[0] * missing][j] for j in where]
            placed_loads += [[*row_loads, *[0] * missing][j] for j in where]
        alignment = settings.alignment
        offsets = np.concatenate(([0], np.cumsum([members.size for members in placed])))
        return MicroBatches(
            offsets=offsets,
            items=np.concatenate(placed).astype(np.int64),
            lengths=self.batch.lengths,
            tokens=alignment.aligned(self.batch.lengths),
            data_parallel_size=self.ranks,
            count=count,
            max_token_budget=settings.budget,
            batch_tokens=np.asarray(placed_tokens, np.int64),
            batch_loads=np.asarray(placed_loads, np.int64),
            cost_exponent=self.cost_exponent,
            bound=bound,
            padded=settings.padded,
            order=settings.order,
            alignment=alignment,
            forward=None,
            inputs_digest=self._inputs_digest(),
        )

    def _inputs_digest(self) -> str:
        settings = self.settings
        head = [
            self.planner.config_fingerprint, inputs_digest(self.problem), settings.multiple_of, settings.min_count,
            settings.order, settings.equal_count, settings.padded,
        ]  # fmt: skip
        return hashlib.sha256(json.dumps(head).encode()).hexdigest()


def _arranged(bins: Bins, order: str) -> list[int]:
    """In which order a rank runs its micro-batches, which descend in load, dummies last."""
    count = len(bins)
    if order == "descending":
        return list(range(count))
    ascending = list(range(count))[::-1]
    if order == "ascending":
        return ascending
    if order == "balanced":
        return ascending[::2] + ascending[1::2][::-1]
    return sorted(range(count), key=lambda j: (bins[j].size == 0, int(bins[j][0]) if bins[j].size else 0))
