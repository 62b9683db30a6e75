"""The JSON form of a plan: plain lists and numbers, readable without this package."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from packing._checks import shown
from packing.bounds import Bound
from packing.errors import ConfigError
from packing.gate import Decision
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
    body["metrics"] = plan.metrics
    body["environment"] = dict(plan.environment)
    body["digest"] = plan.digest
    return json.dumps(body, indent=indent, allow_nan=False)


def decode(text: str | bytes) -> Plan:
    """See `Plan.from_json`."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"this is no plan: {error}.") from None
    if not isinstance(body, dict) or body.get("kind") != "packing.plan":
        raise ConfigError(f"this is no plan: it must be an object of kind 'packing.plan', but got {shown(body)}.")
    schema = body.get("schema")
    if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
        raise ConfigError(f"this plan's `schema` must be a positive integer, but got {shown(schema)}.")
    if schema > SCHEMA:
        raise ConfigError(
            f"this plan has schema {schema}, written by a newer version of packing; this version reads up to {SCHEMA}."
        )
    try:
        plan = _build(body)
        digest = plan.digest
    except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
        raise ConfigError(f"this plan is damaged: {type(error).__name__}: {error}.") from None
    if digest != body.get("digest"):
        raise ConfigError("this plan was changed after it was written: its digest does not match its content.")
    return plan


def _build(body: dict[str, Any]) -> Plan:
    arrays = {name: np.asarray(body[name], dtype) for name, dtype in _ARRAYS.items()}
    keys = None if body["keys"] is None else np.asarray(body["keys"], np.int64).reshape(-1, 3)
    for array in [*arrays.values(), *([] if keys is None else [keys])]:
        array.flags.writeable = False
    baseline, decision = body["baseline"], body["decision"]
    return Plan(
        **{name: body[name] for name in _SCALARS},
        **arrays,  # type: ignore[arg-type]
        sample_keys=keys,
        bound=Bound(**body["lower_bound"]),
        comparison=Comparison(
            baseline["kind"], np.asarray(baseline["rank_loads"], np.float64), baseline["num_overflowing_bins"]
        ),
        decision=Decision(**decision),
        environment=body["environment"],
    )
