"""From settings and samples to a Problem: columns in key order, costs and budgets in fixed point."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from packing import _checks
from packing._checks import LARGEST, Int64Array, shown
from packing._costs import estimated_costs, weighted_components
from packing._fixed_point import finite, quantise_budget, quantise_components, quantise_costs
from packing._labels import collected, listed, numbered
from packing._samples import Batch
from packing.alignment import Alignment
from packing.assignment import Assignment
from packing.audit import first_violation
from packing.errors import ConfigError
from packing.problem import Problem

if TYPE_CHECKING:
    from packing.planner import Planner

__all__ = ["build_problem", "checked_budgets", "labels_column"]


def build_problem(planner: Planner, batch: Batch, reference: list[Int64Array] | None) -> Problem:
    """The step that the planner's settings make of the samples, with its reference (bins of input positions).

    Raises:
        ConfigError: a column is missing or malformed, or the reference is no valid layout.
    """
    order = batch.by_key
    ranks = planner.data_parallel_size * planner.window
    bins_per_rank = _bins_per_rank(planner, ranks, None if reference is None else len(reference))
    bins = ranks * bins_per_rank if bins_per_rank is not None else batch.lengths.size + ranks
    # Costs that an estimator computed are named after it; the user has no setting `cost`.
    resolved = planner._estimator
    label = "cost" if resolved is None else f"cost` of estimator `{resolved.name}"
    if planner._objective.weights:
        components, exponent = quantise_components(weighted_components(planner, batch, label))
        fixed, pad_cost = components.sum(axis=1), None
    else:
        cost = finite(label, estimated_costs(planner, batch), length=batch.lengths.size)
        fixed, pad_cost, exponent = quantise_costs(cost, planner._pad_table, bins)
        components = None
    footprints, budgets, budget_exponents = _budgets(planner, batch)
    tokens = _aligned(batch.lengths, Alignment.of(planner.alignment))
    group, forbid = _labels(planner, batch, "group"), _labels(planner, batch, "forbid")
    problem = Problem(
        tokens=tokens[order],
        cost=fixed[order],
        ranks=ranks,
        bins_per_rank=bins_per_rank,
        capacity=planner.seq_len,
        footprints=None if footprints is None else footprints[order],
        budgets=budgets,
        budget_names=() if planner.packing_budgets is None else tuple(planner.packing_budgets),
        round_size=planner.data_parallel_size,
        objective=planner._objective,
        pad_cost=pad_cost,
        max_items=planner.max_items,
        equal_count=planner.equal_count,
        group=None if group is None else group[order],
        group_scope=planner.group_scope,
        forbid=None if forbid is None else forbid[order],
        oversized=planner.oversized_policy,
        cost_exponent=exponent,
        budget_exponents=budget_exponents,
        components=None if components is None else components[order],
    )
    return problem if reference is None else _with_reference(problem, reference, batch)


def _bins_per_rank(planner: Planner, ranks: int, reference_count: int | None) -> int | None:
    """M where it is fixed: by the setting, by the reference, or because nothing could ask for more than one."""
    if reference_count is not None:
        expected = None if planner.local_batch_size is None else ranks * planner.local_batch_size
        if reference_count % ranks or reference_count == 0 or reference_count != (expected or reference_count):
            wanted = f"{expected} bins" if expected else f"a multiple of {ranks} bins"
            raise ConfigError(f"`reference_bins` must be {wanted}, but got {reference_count}.")
        return reference_count // ranks
    limited = planner.seq_len is not None or planner.max_items is not None or planner.packing_budgets or planner.forbid
    return planner.local_batch_size if limited or planner.local_batch_size is not None else 1


def _aligned(lengths: Int64Array, alignment: Alignment) -> Int64Array:
    if int(lengths.max()) > LARGEST - alignment.segment:
        at = int(np.argmax(lengths))
        raise ConfigError(
            f"`samples` must hold lengths of at most 2**62 after `alignment`, but got {lengths[at]} at index {at}."
        )
    return alignment.aligned(lengths)


def _budgets(planner: Planner, batch: Batch) -> tuple[Int64Array | None, Int64Array | None, tuple[int, ...]]:
    """Footprints, budgets and their exponents."""
    if not planner.packing_budgets:
        return None, None, ()
    footprints, limits, exponents = [], [], []
    for name, limit in planner.packing_budgets.items():
        column = finite(name, batch.column("packing_budgets", name), length=batch.lengths.size)
        footprint, fixed_limit, exponent = quantise_budget(column, limit)
        footprints.append(footprint)
        limits.append(fixed_limit)
        exponents.append(exponent)
    return np.stack(footprints, axis=1), np.asarray(limits, np.int64), tuple(exponents)


def labels_column(option: str) -> str:
    """The name of the column of labels that were handed in themselves, not by the name of a column."""
    return f"{option} labels"


def _labels(planner: Planner, batch: Batch, option: str) -> Int64Array | None:
    """The column as int64[N] labels 0, 1, ... in sorted order of the values; -1: no group."""
    name = getattr(planner, option)
    if name is None:
        return None
    words = f"`{option}`" if name == labels_column(option) else f"`{option}` column {name!r}"
    values = batch.given(option, name)
    try:
        column = values if isinstance(values, np.ndarray) and values.dtype.kind in "biuf" else collected(listed(values))
    except TypeError:  # a tensor with dimensions among them
        raise ConfigError(f"{words} must have one value for each sample, but got {shown(values)}.") from None
    is_array = isinstance(column, np.ndarray)
    if option == "forbid" and not is_array and any(value is None for value in column):
        raise ConfigError(f"{words} must have a value for each sample, but has None.")
    if not np.isfinite(column if is_array else [one for one in column if isinstance(one, float)]).all():
        raise ConfigError(f"{words} must hold finite values, but has NaN or infinity.")
    try:
        return numbered(column, -1 if option == "group" else None)
    except TypeError:
        shape = batch.column(option, name).shape
    if any(isinstance(value, (list, np.ndarray)) for value in column):
        raise ConfigError(f"{words} must have one value for each sample, got {shape}.")
    raise ConfigError(f"{words} must hold values of one type.")


def _with_reference(problem: Problem, bins: list[Int64Array], batch: Batch) -> Problem:
    """The problem with its reference, which must be a valid layout."""
    index_of = np.empty_like(batch.by_key)
    index_of[batch.by_key] = np.arange(batch.by_key.size)
    layout = Assignment.from_bins([index_of[members] for members in bins])
    wrong = first_violation(problem, layout, batch.describe_index)
    if wrong is not None:
        raise ConfigError(f"`reference_bins` must be a valid layout, but {wrong}.")
    return replace(problem, reference=layout)


def checked_budgets(budgets: Any) -> Mapping[str, float] | None:
    """The planner's setting `packing_budgets`, checked; a ConfigError for anything but names and limits."""
    if budgets is None:
        return None
    if not isinstance(budgets, Mapping):
        raise ConfigError(f"`packing_budgets` must be a mapping from names to limits, but got {shown(budgets)}.")
    for name, limit in budgets.items():
        if not isinstance(name, str):
            raise ConfigError(f"`packing_budgets` must have names that are text, but got {shown(name)}.")
        _checks.real(f"packing_budgets.{name}", limit)
    # Sorted: two ranks that list the same budgets in another order must agree on the digest.
    return {name: limit.item() if isinstance(limit, np.generic) else limit for name, limit in sorted(budgets.items())}
