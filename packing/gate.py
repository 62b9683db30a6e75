"""Gate: takes a candidate only if it is strictly better than the reference layout."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

__all__ = ["Decision", "decide"]


@dataclass(frozen=True, slots=True)
class Decision:
    """What the gate decided.

    Attributes:
        accepted: True where the algorithm's layout is the plan, False where the reference was kept.
        reason: the decision in a sentence.
        before: the objective of the reference (None without one), in the user's unit.
        after: the objective of the candidate (None where the algorithm found none).
        gain: (before - after) / before, or None.
    """

    accepted: bool
    reason: str
    before: float | None
    after: float | None
    gain: float | None


def decide(
    before: int | Fraction | None,
    after: int | Fraction | None,
    min_balance_gain: float,
    *,
    unit: Fraction = Fraction(1),
) -> Decision:
    """Compares exact scores, lower is better.

    Args:
        before: score of the reference, or None where there is none.
        after: score of the candidate, or None where the algorithm found none (then there must be a reference).
        min_balance_gain: in [0, 1); the relative gain must be *strictly* above it.
        unit: what one step of a score is worth, for display.
    """
    if before is None:
        assert after is not None
        return Decision(True, "no reference to compare with", None, float(after * unit), None)
    if after is None:
        return Decision(False, "the algorithm found no candidate", float(before * unit), None, None)
    shown = float(before * unit), float(after * unit)
    if before == 0:
        return Decision(False, "the reference cannot be improved: its objective is 0", *shown, 0.0)
    gain = Fraction(before - after, before)
    if gain > Fraction(min_balance_gain):
        return Decision(True, f"the objective falls by {float(gain):.3%}", *shown, float(gain))
    if gain <= 0:
        return Decision(False, "the candidate is not better than the reference", *shown, float(gain))
    reason = f"the gain {float(gain):.3%} is not above `min_balance_gain` = {min_balance_gain:g}"
    return Decision(False, reason, *shown, float(gain))
