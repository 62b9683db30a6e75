"""Records of a step: the user's own where they say what the problem says, copies that do where not."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from packing._checks import Int64Array
from packing._fixed_point import to_float
from packing._samples import Batch
from packing.problem import Problem
from packing.records import SampleKey, SampleMetadata, WorkloadCost

__all__ = ["records_of", "step_keys"]


def step_keys(batch: Batch, own: Sequence[SampleMetadata] | None) -> list[SampleKey]:
    """The keys in key order, those of the user's records (`own`) where they have any; else positions stand in."""
    if batch.keys is None:
        return [SampleKey(0, 0, position) for position in batch.by_key.tolist()]
    if own is None:
        return [SampleKey(*row) for row in batch.keys[batch.by_key].tolist()]
    return [record.key for record in own if record.key is not None]


def records_of(
    problem: Problem, keys: list[SampleKey], own: Sequence[SampleMetadata] | None, limits: Mapping[str, float]
) -> tuple[list[SampleMetadata], Mapping[str, float]]:
    """Records that say what the problem says, and the budgets as the audit will count them."""
    tokens, costs = problem.tokens.tolist(), to_float(problem.cost, problem.cost_exponent).tolist()
    uses, budgets = _budgets(problem, limits)
    if own is None:
        return [
            SampleMetadata(pack_tokens=length, cost=WorkloadCost(llm=cost), packing_costs=use, key=key)
            for length, cost, use, key in zip(tokens, costs, uses, keys, strict=True)
        ], budgets
    same = _same_cost(problem, own)
    records = []
    for index, (record, key, use) in enumerate(zip(own, keys, uses, strict=True)):
        changes: dict[str, Any] = {}
        if record.key is None:
            changes["key"] = key
        if record.pack_tokens != tokens[index]:
            changes["pack_tokens"] = tokens[index]
        if not same[index]:
            changes["cost"] = replace(record.cost, llm=costs[index])
        if any(record.packing_costs.get(name) != value for name, value in use.items()):
            changes["packing_costs"] = {**record.packing_costs, **use}
        records.append(replace(record, **changes) if changes else record)
    return records, budgets


def _same_cost(problem: Problem, own: Sequence[SampleMetadata]) -> list[bool]:
    """Whether the problem's fixed-point cost is what the record's `llm` rounds to."""
    with np.errstate(over="ignore"):
        scaled = np.rint(np.ldexp([record.cost.llm for record in own], problem.cost_exponent))
    same: list[bool] = (scaled == problem.cost.astype(np.float64)).tolist()
    return same


def _budgets(problem: Problem, limits: Mapping[str, float]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Use of each budget by each sample, and the limits: the problem's fixed-point numbers, in the user's unit.

    They differ from the user's own in the last bits at most. An object that counts with them agrees with the audit.
    """
    uses: list[dict[str, Any]] = [{} for _ in range(problem.num_samples)]
    budgets: dict[str, Any] = {}
    if problem.budgets is None or problem.footprints is None:
        return uses, budgets
    for b, (name, limit) in enumerate(limits.items()):
        fixed = int(problem.budgets[b])
        # The scale is a power of two and no footprint is over the limit, so the bit lengths tell it.
        exponent = fixed.bit_length() - (limit.bit_length() if isinstance(limit, int) else math.frexp(limit)[1])
        column: Int64Array = problem.footprints[:, b]
        in_unit = column.tolist() if exponent == 0 else to_float(column, exponent).tolist()
        budgets[name] = fixed if exponent == 0 else math.ldexp(fixed, -exponent)
        for use, value in zip(uses, in_unit, strict=True):
            use[name] = value
    return uses, budgets
