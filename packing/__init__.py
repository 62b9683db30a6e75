"""Equal work on every data-parallel rank: balanced, capped, reproducible packing of training samples."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from packing._version import __version__

if TYPE_CHECKING:
    from packing.alignment import Alignment
    from packing.assignment import Assignment
    from packing.bins import PackedBins, pack
    from packing.errors import (
        AmbiguousNameError,
        AuditError,
        ConfigError,
        InfeasibleError,
        NoCandidateError,
        PackingError,
        PluginError,
        UnknownNameError,
        UnsupportedProblemError,
    )
    from packing.micro_batching import MicroBatches, micro_batches
    from packing.partition import karmarkar_karp
    from packing.plan import Plan
    from packing.planner import Planner
    from packing.problem import Problem
    from packing.records import PackingConstraints, SampleKey, SampleMetadata, WorkloadCost
    from packing.rounds import schedule_rounds
    from packing.row_layout import RowLayout

# Loaded on first use: importing the package costs next to nothing and pulls in neither pluggy nor any plugin.
_HOME = {
    "Alignment": "alignment",
    "AmbiguousNameError": "errors",
    "Assignment": "assignment",
    "AuditError": "errors",
    "ConfigError": "errors",
    "InfeasibleError": "errors",
    "MicroBatches": "micro_batching",
    "NoCandidateError": "errors",
    "PackedBins": "bins",
    "PackingConstraints": "records",
    "PackingError": "errors",
    "Plan": "plan",
    "Planner": "planner",
    "PluginError": "errors",
    "Problem": "problem",
    "RowLayout": "row_layout",
    "SampleKey": "records",
    "SampleMetadata": "records",
    "UnknownNameError": "errors",
    "UnsupportedProblemError": "errors",
    "WorkloadCost": "records",
    "karmarkar_karp": "partition",
    "micro_batches": "micro_batching",
    "pack": "bins",
    "schedule_rounds": "rounds",
}

__all__ = [
    "Alignment",
    "AmbiguousNameError",
    "Assignment",
    "AuditError",
    "ConfigError",
    "InfeasibleError",
    "MicroBatches",
    "NoCandidateError",
    "PackedBins",
    "PackingConstraints",
    "PackingError",
    "Plan",
    "Planner",
    "PluginError",
    "Problem",
    "RowLayout",
    "SampleKey",
    "SampleMetadata",
    "UnknownNameError",
    "UnsupportedProblemError",
    "WorkloadCost",
    "__version__",
    "karmarkar_karp",
    "micro_batches",
    "pack",
    "schedule_rounds",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'packing' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"packing.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
