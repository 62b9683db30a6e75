"""What the command reports of a plan, as plain numbers and words."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from packing.plan import Plan

__all__ = ["Failure", "PlanSummary", "as_record", "summarize"]


@dataclass(frozen=True)
class PlanSummary:
    """The figures of one plan; ratios are 1 at best, gaps 0; `fill` needs a token cap; tokens are aligned ones."""

    algorithm: str
    samples: int
    tokens: int
    ranks: int
    window: int
    packs: int
    packs_per_rank: int
    fill: float | None
    largest_over_mean: float
    baseline_largest_over_mean: float
    baseline_overflowing_packs: int
    objective: str
    objective_value: float
    gap: float
    bound: str
    bound_explanation: str
    accepted: bool
    reason: str
    seconds: float | None
    digest: str


@dataclass(frozen=True)
class Failure:
    """An algorithm that gave no plan, and why."""

    algorithm: str
    error: str
    reason: str


def summarize(plan: Plan, *, seconds: float | None = None) -> PlanSummary:
    """Collect the figures of a plan; `seconds` is what planning took, for display."""
    tokens = int(plan.bin_tokens.sum())
    return PlanSummary(
        algorithm=plan.algorithm,
        samples=plan.num_samples,
        tokens=tokens,
        ranks=plan.data_parallel_size,
        window=plan.window,
        packs=plan.num_bins,
        packs_per_rank=plan.bins_per_rank,
        fill=None if plan.seq_len is None else tokens / (plan.num_bins * plan.seq_len),
        largest_over_mean=plan.imbalance,
        baseline_largest_over_mean=plan.baseline.imbalance,
        baseline_overflowing_packs=plan.baseline.num_overflowing_bins,
        objective=str(plan.metrics["objective"]),
        objective_value=plan.objective_value,
        gap=plan.gap,
        bound=plan.lower_bound.name,
        bound_explanation=plan.lower_bound.explanation,
        accepted=plan.decision.accepted,
        reason=plan.decision.reason,
        seconds=seconds,
        digest=plan.digest,
    )


def as_record(row: PlanSummary | Failure) -> dict[str, Any]:
    """A row for JSON: `status` tells plans from failures; figures that are not finite become null."""
    record = {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in asdict(row).items()
    }
    return {"status": "plan" if isinstance(row, PlanSummary) else "no plan", **record}
