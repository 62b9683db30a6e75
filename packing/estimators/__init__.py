"""Workload estimators: what a sample costs, exactly and from its columns alone; names load on first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from packing.estimators.attention import AttentionEstimator
    from packing.estimators.callables import CallableEstimator
    from packing.estimators.flops import FlopsEstimator
    from packing.estimators.model import count_parameters
    from packing.estimators.tokens import TokenEstimator

__all__ = ["AttentionEstimator", "CallableEstimator", "FlopsEstimator", "TokenEstimator", "count_parameters"]

_HOMES = {
    "AttentionEstimator": "attention",
    "CallableEstimator": "callables",
    "FlopsEstimator": "flops",
    "TokenEstimator": "tokens",
    "count_parameters": "model",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
