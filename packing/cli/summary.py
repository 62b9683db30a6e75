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
    """The figures of one plan; ratios are 1 at best, gaps 0."""

    algorithm: str
    samples: int
    tokens: int
    ranks: int
    packs: int
    fill: float | None
    largest_over_mean: float
    baseline_largest_over_mean: float | None
    baseline_overflowing_packs: int | None
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


def summarize(plan: Plan, *, capacity: int | None, seconds: float | None = None) -> PlanSummary:
    """Collect the figures of a plan.

    Args:
        capacity: the token cap of a pack, of which `fill` is the used share; None leaves it out.
        seconds: what planning took, for display.
    """
    tokens = int(plan.bin_tokens.sum())
    baseline = plan.baseline
    return PlanSummary(
        algorithm=plan.algorithm,
        samples=plan.num_samples,
        tokens=tokens,
        ranks=plan.ranks,
        packs=plan.num_bins,
        fill=tokens / (plan.num_bins * capacity) if capacity else None,
        largest_over_mean=float(plan.imbalance),
        baseline_largest_over_mean=None if baseline is None else _largest_over_mean(baseline.rank_loads),
        baseline_overflowing_packs=None if baseline is None else int(baseline.num_overflowing_bins),
        gap=float(plan.gap),
        bound=plan.lower_bound.name,
        bound_explanation=plan.lower_bound.explanation,
        accepted=bool(plan.decision.accepted),
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


def _largest_over_mean(loads: Any) -> float:
    total = float(loads.sum())
    return float(loads.max()) * loads.size / total if total else 1.0
