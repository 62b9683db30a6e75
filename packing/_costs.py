"""Costs of the samples: what an estimator computes, what comes with them, and weighted components."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from packing._blame import blamed_on
from packing._fixed_point import Numbers, finite, weighted
from packing._samples import Batch
from packing.errors import ConfigError, PluginError
from packing.records import WorkloadCost

if TYPE_CHECKING:
    from packing.planner import Planner

__all__ = ["estimated_costs", "weighted_components"]

_FIELDS = tuple(one.name for one in dataclasses.fields(WorkloadCost))


def estimated_costs(planner: Planner, batch: Batch) -> Any:
    """The cost of each sample, [N]: of the estimator, of the records, or of the column "cost"; else the lengths."""
    resolved = planner._estimator
    if resolved is not None:
        for name in resolved.instance.columns:
            if name not in batch.columns:
                there = ", ".join(f"`{one}`" for one in batch.columns)
                raise ConfigError(
                    f"the estimator `{resolved.name}` needs the column `{name}`, but the columns are: {there}."
                )
        lengths = batch.lengths.copy()
        with blamed_on("estimator", resolved.name):
            if getattr(resolved.instance, "takes_records", False) and batch.records is not None:
                costs = resolved.instance(batch.columns, records=batch.records)
            else:
                costs = resolved.instance(batch.columns)
        # Read-only for NumPy, but not for who shares its memory: caps would be counted with wrong lengths.
        if not np.array_equal(lengths, batch.lengths):
            raise PluginError(f"estimator {resolved.name!r} broke its contract: it changed the column `length`.")
        return costs
    if batch.records is not None:
        costs = np.asarray([record.cost.llm for record in batch.records])
        return costs if costs.any() else batch.lengths
    return batch.columns.get("cost", batch.lengths)


def weighted_components(planner: Planner, batch: Batch, label: str) -> list[Numbers]:
    """The weighted costs of each component that the objective names, C columns of [N].

    With records a component is a field of their `cost`, otherwise the column of that name. An estimator, where there is
    one, gives the component `llm`.

    Raises:
        ConfigError: there is no such field or column, or it does not hold finite, non-negative numbers.
    """
    names = [name for name, _ in planner._objective.weights]
    if planner._estimator is not None and "llm" not in names:
        raise ConfigError(
            "`estimator` must be None, because it gives the component 'llm', which `objective.weights` does not name."
        )
    columns: list[Numbers] = []
    for name, weight in planner._objective.weights:
        path = f"objective.weights.{name}"
        if name == "llm" and planner._estimator is not None:
            values = finite(label, estimated_costs(planner, batch), length=batch.lengths.size)
        elif batch.records is None:
            values = finite(name, batch.column(path, name), length=batch.lengths.size)
        elif name in _FIELDS:
            values = np.asarray([getattr(record.cost, name) for record in batch.records])
        else:
            raise ConfigError(f"`{path}` names no field of a record's cost; there are: {', '.join(_FIELDS)}.")
        columns.append(weighted(name, values, weight))
    return columns
