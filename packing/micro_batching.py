"""Micro-batches under a token budget: one count for all ranks, decided from all lengths before anything runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from packing import _checks
from packing._checks import Int64Array, shown
from packing._fixed_point import to_float
from packing.alignment import Alignment
from packing.errors import ConfigError
from packing.row_layout import RowLayout

__all__ = ["MicroBatches", "micro_batches"]

ORDERS = ("balanced", "descending", "ascending", "sampler")


@dataclass(frozen=True, eq=False)
class MicroBatches:
    """Which samples each rank runs together, and in which order; `micro_batches` makes it. Arrays are read-only.

    Samples are named by their position in the input, N of them. Every one of the R ranks has M = `count`
    micro-batches; micro-batch j of rank r is number r * M + j. An empty one is a dummy: the rank has fewer samples (or
    groups) than micro-batches, and runs it with weight 0 so that nobody waits for ever.

    Attributes:
        offsets, items: int64[R * M + 1] and int64[N]: micro-batch b holds `items[offsets[b]:offsets[b + 1]]`, sorted.
        lengths, tokens: int64[N] by position, before and after alignment.
        data_parallel_size: R. count: M.
        max_token_budget: most tokens of a micro-batch, alignment (and padding, where `padded`) counted.
        batch_tokens, batch_loads: int64[R * M], tokens that count against the budget, and work in fixed point: value *
            2**cost_exponent; 0 in dummies.
        bound: no layout in R ranks of M micro-batches has a smaller `step_load`, in the same fixed point.
        padded: rows are padded to the longest of their micro-batch.
        order: how each rank's micro-batches are arranged.
        alignment: what lengths were rounded up to.
        forward: micro-batches of the same samples on the same ranks for forward-only passes, or None.
        inputs_digest: of all settings and inputs.
    """

    offsets: Int64Array
    items: Int64Array
    lengths: Int64Array
    tokens: Int64Array
    data_parallel_size: int
    count: int
    max_token_budget: int
    batch_tokens: Int64Array
    batch_loads: Int64Array
    cost_exponent: int
    bound: int
    padded: bool
    order: str
    alignment: Alignment
    forward: MicroBatches | None
    inputs_digest: str

    def __post_init__(self) -> None:
        for value in vars(self).values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False

    def __setstate__(self, state: dict[str, Any]) -> None:
        # NumPy forgets on the way through a pickle that an array is read-only.
        vars(self).update(state)
        self.__post_init__()

    # ----------------------------------------------------------------------------------------------------- layout

    @property
    def num_samples(self) -> int:
        """N."""
        return self.items.size

    def rank(self, rank: int) -> list[list[int]]:
        """The micro-batches of one rank, M lists of input positions; a dummy is an empty list."""
        first = self._checked_rank(rank) * self.count
        edges = self.offsets[first : first + self.count + 1].tolist()
        return [self.items[edges[j] : edges[j + 1]].tolist() for j in range(self.count)]

    @property
    def counts(self) -> Int64Array:
        """int64[R, M]: samples in each micro-batch."""
        return self._by_rank(np.diff(self.offsets))

    @property
    def is_dummy(self) -> npt.NDArray[np.bool_]:
        """bool[R, M]: micro-batches without samples."""
        dummy: npt.NDArray[np.bool_] = self.counts == 0
        return dummy

    @cached_property
    def rank_of(self) -> Int64Array:
        """int64[N]: the rank of each sample."""
        ranks = np.empty(self.items.size, np.int64)
        ranks[self.items] = np.repeat(np.arange(self.data_parallel_size), self.counts.sum(axis=1))
        return ranks

    @property
    def permutation(self) -> Int64Array:
        """int64[N]: input positions in layout order, rank after rank; `samples[permutation]` is the layout."""
        return self.items

    @cached_property
    def inverse_permutation(self) -> Int64Array:
        """int64[N]: where each sample lies in layout order; `laid_out[inverse_permutation]` is the input."""
        inverse = np.empty_like(self.items)
        inverse[self.items] = np.arange(self.items.size)
        return inverse

    def restore(self, values: Any, rank: int | None = None) -> Any:
        """Values in layout order, back in input order.

        Args:
            values: one for each sample, in the order of `permutation`: an array, a tensor or a list; with `rank` those
                of that rank alone, micro-batch after micro-batch.
            rank: whose values they are; None: of all ranks, one after another.

        Returns:
            The same kind, in the order of the input; with `rank` in the order in which that rank's samples have there.

        Raises:
            ConfigError: there are not as many values as samples.
        """
        if rank is None:
            where = self.inverse_permutation
        else:
            first = self._checked_rank(rank) * self.count
            where = np.argsort(self.items[self.offsets[first] : self.offsets[first + self.count]])
        if len(values) != where.size:
            raise ConfigError(f"`values` must be one for each of the {where.size} samples, but got {len(values)}.")
        return [values[at] for at in where.tolist()] if isinstance(values, (list, tuple)) else values[where]

    def layout(self, rank: int | None = None, *, row_length: int | None = None) -> RowLayout:
        """The micro-batches as rows, each one flat run of its samples; dummies are dummy rows.

        Args:
            rank: whose; None: all R * M of them, rank-major.
            row_length: columns of every row; None: the longest row, rounded up to the row alignment.

        Raises:
            ConfigError: padded micro-batches, which have a row for each sample.
            InfeasibleError: a row longer than `row_length`.
        """
        if self.padded:
            raise ConfigError("`padded` micro-batches have a row for each sample: there is no flat layout of them.")
        bins = np.split(self.items, self.offsets[1:-1])
        rows = RowLayout.from_bins(self.lengths, bins, row_length=row_length, alignment=self.alignment)
        if rank is None:
            return rows
        first = self._checked_rank(rank) * self.count
        return rows.select(slice(first, first + self.count))

    # ------------------------------------------------------------------------------------------------------ loads

    @cached_property
    def loads(self) -> npt.NDArray[np.float64]:
        """float64[R, M]: work of each micro-batch in the unit of the estimator."""
        loads: npt.NDArray[np.float64] = to_float(self._by_rank(self.batch_loads), self.cost_exponent)
        loads.flags.writeable = False
        return loads

    @property
    def fill(self) -> float:
        """Tokens of samples per token of budget, dummies included."""
        return int(self.lengths.sum()) / (self.max_token_budget * self.data_parallel_size * self.count)

    @property
    def imbalance(self) -> float:
        """Largest over mean micro-batch load, dummies counted; 1 is perfect."""
        total = int(self.batch_loads.sum())
        return int(self.batch_loads.max()) * self.batch_loads.size / total if total else 1.0

    @property
    def step_load(self) -> float:
        """What a step takes where ranks wait after every micro-batch: the sum of each round's largest load."""
        return float(to_float(self._step, self.cost_exponent))

    @property
    def lower_bound(self) -> float:
        """No layout of these samples in R ranks of M micro-batches has a smaller `step_load`."""
        return float(to_float(self.bound, self.cost_exponent))

    @property
    def gap(self) -> float:
        """How far `step_load` is above `lower_bound`, relative; 0 is proven optimal."""
        return self._step / self.bound - 1 if self.bound else 0.0

    @cached_property
    def _step(self) -> int:
        return int(self._by_rank(self.batch_loads).max(axis=0).sum())

    # ------------------------------------------------------------------------------------------------- identities

    @cached_property
    def digest(self) -> str:
        """Of the inputs, the settings and the layout; ranks that agree on it run the same micro-batches."""
        forward = None if self.forward is None else self.forward.digest
        digest = hashlib.sha256(json.dumps([self.inputs_digest, self.count, self.order, forward]).encode())
        for column in (self.offsets, self.items, self.lengths, self.batch_tokens, self.batch_loads):
            digest.update(np.ascontiguousarray(column, "<i8").tobytes())
        return digest.hexdigest()

    def __eq__(self, other: object) -> bool:
        return self.digest == other.digest if isinstance(other, MicroBatches) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return (
            f"MicroBatches({self.num_samples} samples, {self.data_parallel_size} ranks x {self.count} micro-batches of "
            f"{self.max_token_budget} tokens, {int(self.is_dummy.sum())} dummies, imbalance {self.imbalance:.4f}, "
            f"gap {self.gap:.4f}, digest {self.digest[:12]})"
        )

    def _by_rank(self, values: Int64Array) -> Int64Array:
        return values.reshape(self.data_parallel_size, self.count)

    def _checked_rank(self, rank: int) -> int:
        number = _checks.integer("rank", rank, minimum=0)
        if number >= self.data_parallel_size:
            raise ConfigError(f"`rank` must be below {self.data_parallel_size}, but got {number}.")
        return number


def micro_batches(
    lengths: Any,
    max_token_budget: int,
    *,
    data_parallel_size: int | None = None,
    rank_of: Any = None,
    multiple_of: int = 1,
    min_count: int | None = None,
    estimator: Any = "attention",
    algorithm: Any = None,
    order: str = "balanced",
    alignment: Any = 1,
    max_items: int | None = None,
    group: Any = None,
    forbid: Any = None,
    equal_count: bool = False,
    padded: bool = False,
    forward_only: Mapping[str, Any] | None = None,
) -> MicroBatches:
    """Split a step into micro-batches of at most `max_token_budget` tokens, as many on every rank.

    The count is the smallest multiple of `multiple_of` for which a layout is found, and one is found wherever
    first-fit decreasing on each rank has one. Every micro-batch holds a sample, unless its rank has fewer samples
    (groups) than micro-batches: then each of them is alone and dummies follow. Work is balanced between all
    micro-batches, and where a long sample rules that out, so that the ranks wait least for each other after each of
    them. All ranks call this with the same lengths and get the same answer; what cannot be done is the same error on
    all of them, before any work.

    With `padded`, rows are padded to the longest of their micro-batch: rows * longest tokens, rows * cost(longest)
    work. That is no sum over samples, so it is no `objective` of the planner, whose kernels and bounds add up costs.
    The fewest micro-batches, and for their count the smallest largest cost, are found exactly (see
    `packing._padded_runs`): runs of the samples
    sorted by length.

    Args:
        lengths: int[N], N >= 1, tokens of each sample, at least 1: an array, a list, or what else `Planner.plan` takes:
            a mapping of columns with "length" and what the estimator needs, or records.
        max_token_budget: T, most tokens of a micro-batch.
        data_parallel_size: R. None: 1, or where `rank_of` is given its largest value plus one.
        rank_of: int[N], where the samples lie already and stay; None: they are dealt to the ranks.
        multiple_of: what the count must be a multiple of: stages of an interleaved pipeline, a group size.
        min_count: the fewest micro-batches of a rank; None: 1.
        estimator: work of a sample, as `Planner` takes it. With `padded` it must not fall with the length and look
            at nothing else; bs * L + 0.001 * bs * L**2 is {"name": "attention", "linear": 1000, "quadratic": 1}.
        algorithm: as `Planner` takes it; None: "auto" with the effort "fast". Where it finds nothing, the packing that
            gave the count stays. Not used with `padded`.
        order: of each rank's micro-batches: "balanced" (small ones at both ends, where pipelines have their bubbles),
            "descending" or "ascending" in work, all of which keep rounds of micro-batches that are alike together, or
            "sampler", by their first sample, which does not: what that costs is in `gap`.
        alignment: an integer (of each sample), a mapping or an `Alignment`; T must be a multiple of its row alignment.
        max_items: most samples in a micro-batch.
        group: labels of samples that share a micro-batch: [N] values, None or -1 for no group, or a column's name.
        forbid: labels; samples of different ones never share a micro-batch: [N] values, none of them None, or the name
            of a column.
        equal_count: every rank gets the same number of samples; not with `rank_of`.
        padded: see above; not with `group`, `forbid` or `equal_count`.
        forward_only: {"max_token_budget": ..., "estimator": ...}: `MicroBatches.forward` is for passes without
            gradients, which fit more tokens: of the same samples on the same ranks, all else as here.

    Raises:
        ConfigError: an argument has a wrong type or value, or there are no samples.
        InfeasibleError: a sample or a group over a limit, or a number of samples that `equal_count` cannot divide.
    """
    from packing._micro_batch_plan import planned
    from packing._micro_batch_units import Settings

    budget = _checks.integer("max_token_budget", max_token_budget, minimum=1, maximum=_checks.LARGEST)
    _checks.one_of("order", order, ORDERS)
    settings = Settings(
        budget=budget,
        budget_name="max_token_budget",
        ranks=_checks.optional_integer("data_parallel_size", data_parallel_size, minimum=1, maximum=2**31 - 2),
        multiple_of=_checks.integer("multiple_of", multiple_of, minimum=1, maximum=2**31 - 2),
        min_count=_checks.optional_integer("min_count", min_count, minimum=1, maximum=2**31 - 2) or 1,
        estimator=estimator,
        algorithm={"name": "auto", "effort": "fast"} if algorithm is None else algorithm,
        order=order,
        alignment=Alignment.of(alignment),
        max_items=_checks.optional_integer("max_items", max_items, minimum=1, maximum=_checks.LARGEST),
        equal_count=_checks.boolean("equal_count", equal_count),
        padded=_checks.boolean("padded", padded),
    )
    forward = None if forward_only is None else _forward_settings(forward_only)
    for name, value in (("group", group), ("forbid", forbid), ("equal_count", equal_count or None)):
        if settings.padded and value is not None:
            raise ConfigError(f"`{name}` must be {False if name == 'equal_count' else None} with `padded`.")
    if equal_count and rank_of is not None:
        raise ConfigError("`equal_count` must be False with `rank_of`, which decides it.")
    return planned(lengths, rank_of, group, forbid, settings, forward)


def _forward_settings(forward_only: Any) -> dict[str, Any]:
    if not isinstance(forward_only, Mapping) or "max_token_budget" not in forward_only:
        raise ConfigError(
            f"`forward_only` must be a mapping with 'max_token_budget', and 'estimator' if you like, but got "
            f"{shown(forward_only)}."
        )
    for key in forward_only:
        if key not in ("max_token_budget", "estimator"):
            raise ConfigError(f"`forward_only` must have no keys but max_token_budget and estimator, got {shown(key)}.")
    path = "forward_only.max_token_budget"
    budget = _checks.integer(path, forward_only["max_token_budget"], minimum=1, maximum=_checks.LARGEST)
    own = {} if forward_only.get("estimator") is None else {"estimator": forward_only["estimator"]}
    return {"budget": budget, "budget_name": path, **own}
