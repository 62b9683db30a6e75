"""The conformance kit for authors of plugins: checks, instances to try, and registries for tests."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from packing.testing._checks import check_algorithm, check_estimator
    from packing.testing._conformance import AlgorithmConformance, EstimatorConformance
    from packing.testing._instances import Instance, boundary_instances, instances
    from packing.testing._registries import isolated_registry, temporary_plugin
    from packing.testing._reports import CheckResult, Report

__all__ = [
    "AlgorithmConformance",
    "CheckResult",
    "EstimatorConformance",
    "Instance",
    "Report",
    "boundary_instances",
    "check_algorithm",
    "check_estimator",
    "instances",
    "isolated_registry",
    "temporary_plugin",
]

# Loaded on first use: only the conformance classes need pytest.
_HOME = {
    "AlgorithmConformance": "_conformance",
    "CheckResult": "_reports",
    "EstimatorConformance": "_conformance",
    "Instance": "_instances",
    "Report": "_reports",
    "boundary_instances": "_instances",
    "check_algorithm": "_checks",
    "check_estimator": "_checks",
    "instances": "_instances",
    "isolated_registry": "_registries",
    "temporary_plugin": "_registries",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
