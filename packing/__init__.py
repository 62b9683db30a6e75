"""Equal work on every data-parallel rank: balanced, capped, reproducible packing of training samples."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from packing._version import __version__

if TYPE_CHECKING:
    from packing.alignment import Alignment
    from packing.assignment import Assignment
    from packing.balanced_packs import BalancedPacks, balanced_pack, group_by_version
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
    from packing.loss_weighting import LossWeights, loss_weights
    from packing.materialization import materialize
    from packing.micro_batching import MicroBatches, micro_batches
    from packing.packed_batch import PackedBatch
    from packing.packed_rows import PackedRows
    from packing.partition import karmarkar_karp
    from packing.plan import Plan
    from packing.planner import Planner
    from packing.problem import Problem
    from packing.records import PackingConstraints, SampleKey, SampleMetadata, WorkloadCost
    from packing.rounds import schedule_rounds
    from packing.row_layout import RowLayout
    from packing.sequence_packing import pack_sequences
    from packing.sequences import Sequences

# Loaded on first use: importing the package costs next to nothing and pulls in neither pluggy nor any plugin.
_HOME = {
    "Alignment": "alignment",
    "AmbiguousNameError": "errors",
    "Assignment": "assignment",
    "AuditError": "errors",
    "BalancedPacks": "balanced_packs",
    "ConfigError": "errors",
    "InfeasibleError": "errors",
    "LossWeights": "loss_weighting",
    "MicroBatches": "micro_batching",
    "NoCandidateError": "errors",
    "PackedBatch": "packed_batch",
    "PackedBins": "bins",
    "PackedRows": "packed_rows",
    "PackingConstraints": "records",
    "PackingError": "errors",
    "Plan": "plan",
    "Planner": "planner",
    "PluginError": "errors",
    "Problem": "problem",
    "RowLayout": "row_layout",
    "SampleKey": "records",
    "SampleMetadata": "records",
    "Sequences": "sequences",
    "UnknownNameError": "errors",
    "UnsupportedProblemError": "errors",
    "WorkloadCost": "records",
    "balanced_pack": "balanced_packs",
    "group_by_version": "balanced_packs",
    "karmarkar_karp": "partition",
    "loss_weights": "loss_weighting",
    "materialize": "materialization",
    "micro_batches": "micro_batching",
    "pack": "bins",
    "pack_sequences": "sequence_packing",
    "schedule_rounds": "rounds",
}

__all__ = [
    "Alignment",
    "AmbiguousNameError",
    "Assignment",
    "AuditError",
    "BalancedPacks",
    "ConfigError",
    "InfeasibleError",
    "LossWeights",
    "MicroBatches",
    "NoCandidateError",
    "PackedBatch",
    "PackedBins",
    "PackedRows",
    "PackingConstraints",
    "PackingError",
    "Plan",
    "Planner",
    "PluginError",
    "Problem",
    "RowLayout",
    "SampleKey",
    "SampleMetadata",
    "Sequences",
    "UnknownNameError",
    "UnsupportedProblemError",
    "WorkloadCost",
    "__version__",
    "balanced_pack",
    "group_by_version",
    "karmarkar_karp",
    "loss_weights",
    "materialize",
    "micro_batches",
    "pack",
    "pack_sequences",
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
