"""The JSON form of a plan: plain lists and numbers, readable without this package."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from packing import _checks
from packing._checks import Int64Array, shown
from packing._fixed_point import SUM_BITS, exact_sum, finite
from packing.bounds import Bound
from packing.errors import ConfigError
from packing.gate import Decision
from packing.objectives import OBJECTIVE_NAMES, get_objective
from packing.plan import Comparison, Plan

__all__ = ["SCHEMA", "decode", "encode"]

SCHEMA = 1
"""Raised whenever a reader of the older form could misunderstand the newer one."""

_SCALARS = (
    "algorithm", "estimator", "objective", "step", "data_parallel_size", "window", "bins_per_rank", "seq_len",
    "cost_exponent", "config_fingerprint", "inputs_digest",
)  # fmt: skip
_ARRAYS = {
    "offsets": np.int32,
    "items": np.int32,
    "lengths": np.int64,
    "tokens": np.int64,
    "fixed_costs": np.int64,
    "pack_loads": np.int64,
}


def encode(plan: Plan, indent: int | None) -> str:
    """See `Plan.to_json`."""
    body: dict[str, Any] = {"kind": "packing.plan", "schema": SCHEMA}
    body |= {name: getattr(plan, name) for name in _SCALARS}
    body |= {name: getattr(plan, name).tolist() for name in _ARRAYS}
    # Later additions to the schema, left out where they say nothing.
    if plan.objective_parameters:
        body["objective_parameters"] = dict(plan.objective_parameters)
    if plan.component_loads is not None:
        body["component_loads"] = plan.component_loads.tolist()
    body["keys"] = None if plan.sample_keys is None else plan.sample_keys.tolist()
    body["lower_bound"] = {
        "score": plan.bound.score,
        "name": plan.bound.name,
        "explanation": plan.bound.explanation,
        "floor": plan.bound.floor,
    }
    body["baseline"] = {
        "kind": plan.comparison.kind,
        "rank_loads": plan.comparison.rank_loads.tolist(),
        "num_overflowing_bins": plan.comparison.num_overflowing_bins,
    }
    decision = plan.decision
    body["decision"] = {name: getattr(decision, name) for name in ("accepted", "reason", "before", "after", "gain")}
    # For readers; `from_json` computes them again.
    body["rank_loads"] = plan.rank_loads.tolist()
    body["bin_tokens"] = plan.bin_tokens.tolist()
    body["metrics"] = {
        name: value if isinstance(value, str) or math.isfinite(value) else None for name, value in plan.metrics.items()
    }
    body["environment"] = dict(plan.environment)
    body["digest"] = plan.digest
    body["checksum"] = _checksum(body)
    return json.dumps(body, indent=indent, allow_nan=False)


def decode(text: str | bytes) -> Plan:
    """See `Plan.from_json`."""
    if not isinstance(text, (str, bytes, bytearray)):
        raise ConfigError(f"this is no plan: it must be JSON text, but got {shown(text)}.")
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"this is no plan: {error}.") from None
    if not isinstance(body, dict) or body.get("kind") != "packing.plan":
        raise ConfigError(f"this is no plan: it must be an object of kind 'packing.plan', but got {shown(body)}.")
    schema = _checks.integer("schema", body.get("schema"), minimum=1)
    if schema > SCHEMA:
        raise ConfigError(
            f"this plan has schema {schema}, written by a newer version of packing; this version reads up to {SCHEMA}."
        )
    if body.get("checksum") != _checksum(body):
        raise ConfigError("this plan was changed after it was written: its checksum does not match its content.")
    try:
        plan = _build(body)
    except KeyError as error:
        raise ConfigError(f"this plan is damaged: it has no {error}.") from None
    except (ConfigError, ValueError, TypeError, OverflowError) as error:
        raise ConfigError(f"this plan is damaged: {error}") from None
    if plan.digest != body.get("digest"):
        raise ConfigError("this plan was changed after it was written: its digest does not match its content.")
    return plan


def _checksum(body: dict[str, Any]) -> str:
    """Of everything in the file but itself; the digest leaves out what follows from the inputs and the layout."""
    rest = {name: value for name, value in body.items() if name != "checksum"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _build(body: dict[str, Any]) -> Plan:
    ranks = _checks.integer("data_parallel_size", body["data_parallel_size"], minimum=1)
    window = _checks.integer("window", body["window"], minimum=1)
    bins_per_rank = _checks.integer("bins_per_rank", body["bins_per_rank"], minimum=1)
    exponent = _checks.integer("cost_exponent", body["cost_exponent"])
    columns = _columns(body, ranks * window * bins_per_rank)
    bound = _mapping(body, "lower_bound")
    parameters = _mapping(body, "objective_parameters") if "objective_parameters" in body else {}
    name = _checks.one_of("objective", body["objective"], OBJECTIVE_NAMES)
    objective = get_objective({**parameters, "name": name})
    score = _checks.integer("lower_bound.score", bound["score"], minimum=0)
    # What every cost stays below, in the unit of the costs: the largest double is just under 2**1024.
    if abs(exponent) > 1200 or max(exact_sum(columns["pack_loads"]), score).bit_length() - exponent > 1023:
        raise ConfigError(f"`cost_exponent` must keep the loads finite, but got {exponent}.")
    return Plan(
        **columns,
        algorithm=_text(body, "algorithm"),
        estimator=_text(body, "estimator"),
        config_fingerprint=_text(body, "config_fingerprint"),
        inputs_digest=_text(body, "inputs_digest"),
        objective=objective.name,
        objective_parameters=objective.parameters,
        component_loads=_component_loads(body, objective.weights, columns["pack_loads"]),
        step=_checks.integer("step", body["step"], minimum=0),
        data_parallel_size=ranks,
        window=window,
        bins_per_rank=bins_per_rank,
        seq_len=_checks.optional_integer("seq_len", body["seq_len"], minimum=1),
        cost_exponent=exponent,
        sample_keys=None if body["keys"] is None else _keys(body["keys"], columns["items"].size),
        bound=Bound(
            score, _text(bound, "name"), _text(bound, "explanation"), _checks.real("lower_bound.floor", bound["floor"])
        ),
        comparison=_comparison(_mapping(body, "baseline"), ranks * window),
        decision=_decision(_mapping(body, "decision")),
        environment={name: _text(_mapping(body, "environment"), name) for name in body["environment"]},
    )


def _columns(body: dict[str, Any], num_bins: int) -> dict[str, Any]:
    """The arrays of a plan, which must fit together."""
    columns = {
        name: _checks.integers(name, body[name], minimum=1 if name in ("lengths", "tokens") else 0) for name in _ARRAYS
    }
    offsets, items = columns["offsets"], columns["items"]
    sizes = dict.fromkeys(_ARRAYS, items.size) | {"offsets": num_bins + 1, "pack_loads": num_bins}
    for name, size in sizes.items():
        if columns[name].size != size:
            raise ConfigError(f"`{name}` must have {size} values, but has {columns[name].size}.")
    if offsets[0] != 0 or offsets[-1] != items.size or (offsets[1:] < offsets[:-1]).any():
        raise ConfigError(f"`offsets` must ascend from 0 to {items.size}, but got {shown(offsets.tolist())}.")
    if not np.array_equal(np.sort(items), np.arange(items.size)):
        raise ConfigError(f"`items` must hold each of the {items.size} samples once, but got {shown(items.tolist())}.")
    for name in ("lengths", "tokens", "fixed_costs", "pack_loads"):
        if exact_sum(columns[name]) >= 1 << SUM_BITS:
            raise ConfigError(f"`{name}` must have a sum below 2**{SUM_BITS}.")
    if (columns["tokens"] < columns["lengths"]).any():
        raise ConfigError("`tokens` must not be smaller than `lengths`.")
    return {name: column.astype(_ARRAYS[name]) for name, column in columns.items()}


def _component_loads(body: dict[str, Any], weights: Sequence[Any], pack_loads: Int64Array) -> Int64Array | None:
    """The load of each bin in each component, which must add up to the loads of the bins."""
    if not weights:
        return None
    rows = np.asarray(body["component_loads"])
    if rows.shape != (pack_loads.size, len(weights)):
        raise ConfigError(f"`component_loads` must have shape {(pack_loads.size, len(weights))}, but got {rows.shape}.")
    loads = _checks.integers("component_loads", rows.reshape(-1)).reshape(rows.shape)
    if not np.array_equal(loads.sum(axis=1), pack_loads):
        raise ConfigError("`component_loads` must add up to `pack_loads`.")
    return loads


def _keys(rows: Any, num_samples: int) -> Int64Array:
    keys = np.asarray(rows)
    if keys.shape != (num_samples, 3):
        raise ConfigError(f"`keys` must have {num_samples} rows of three integers, but got shape {keys.shape}.")
    return _checks.integers("keys", keys.reshape(-1)).reshape(keys.shape)


def _comparison(part: Mapping[str, Any], num_ranks: int) -> Comparison:
    kind = _checks.one_of("baseline.kind", part["kind"], ("reference", "baseline"))
    loads = finite("baseline.rank_loads", part["rank_loads"], length=num_ranks).astype(np.float64)
    if not math.isfinite(float(loads.max()) * num_ranks):
        raise ConfigError("`baseline.rank_loads` must have a finite sum.")
    over = _checks.integer("baseline.num_overflowing_bins", part["num_overflowing_bins"], minimum=0)
    return Comparison(kind, loads, over)


def _decision(part: Mapping[str, Any]) -> Decision:
    numbers = [
        None if part[name] is None else _checks.real(f"decision.{name}", part[name], minimum=-math.inf)
        for name in ("before", "after", "gain")
    ]
    return Decision(_checks.boolean("decision.accepted", part["accepted"]), _text(part, "reason"), *numbers)


def _mapping(body: dict[str, Any], name: str) -> dict[str, Any]:
    value = body[name]
    if not isinstance(value, dict):
        raise ConfigError(f"`{name}` must be an object, but got {shown(value)}.")
    return value


def _text(part: Mapping[str, Any], name: str) -> str:
    if not isinstance(part[name], str):
        raise ConfigError(f"`{name}` must be text, but got {shown(part[name])}.")
    return str(part[name])
