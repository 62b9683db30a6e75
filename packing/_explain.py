"""Explanations: which algorithms can do a problem, and under which limits nothing was found."""

from __future__ import annotations

from packing.errors import NoCandidateError, UnsupportedProblemError
from packing.objectives import OBJECTIVE_NAMES
from packing.problem import Problem
from packing.registry import Resolved, get_registry

__all__ = ["check_supported", "no_candidate"]


def check_supported(problem: Problem, resolved: Resolved) -> None:
    """Raises an UnsupportedProblemError unless the algorithm declares all that the problem needs."""
    missing = sorted(_missing(problem, resolved.capabilities))
    if missing:
        names = ", ".join(f"`{name}`" for name in missing)
        able = ", ".join(_able(problem)) or "none"
        # An object or class that was handed in has no spec that could declare anything.
        how = "" if resolved.distribution else " (an object declares what it supports in its attribute `capabilities`)"
        if "open_bins" in missing:
            how += " (`open_bins`: set `local_batch_size`, or it must choose the number of bins)"
        raise UnsupportedProblemError(
            f"`algorithm` {resolved.name!r} does not support what this problem needs: {names}{how}; "
            f"those that do: {able}."
        )


def no_candidate(problem: Problem, resolved: Resolved) -> NoCandidateError:
    """The error that names the algorithm, the limits, and the algorithms that could be tried."""
    others = [other for other in _able(problem) if other not in (resolved.name, "none")]
    hint = f"; others to try: {', '.join(others)}" if others else ""
    layout = f"no layout of {problem.num_samples} samples {_limits(problem)}"
    return NoCandidateError(f"`algorithm` {resolved.name!r} found {layout}{hint}.")


def _missing(problem: Problem, capabilities: frozenset[str]) -> frozenset[str]:
    needs = problem.needs()
    # "rounds" is also the feature of several rounds in one step, so alone it does not name an objective.
    if not capabilities & (set(OBJECTIVE_NAMES) - {"rounds"}):  # indifferent to the objective
        needs -= {problem.objective.name}
    return needs - capabilities


def _able(problem: Problem) -> list[str]:
    return [
        offer.spec.name if offer.namespace == "packing" else offer.full_name
        for offer in get_registry().offers("algorithm")
        if not _missing(problem, frozenset(offer.spec.capabilities))
    ]


def _limits(problem: Problem) -> str:
    """The limits under which nothing was found, tightest first, in words."""
    bins = "any number of bins" if problem.bins_per_rank is None else f"{problem.num_bins} bins"
    parts = [f"in {bins}"]
    if problem.capacity is not None:
        share = ""
        if problem.bins_per_rank is not None:
            share = f" ({int(problem.tokens.sum()) / sum(problem.capacities().tolist()):.2%} full)"
        parts.append(f"of {problem.max_capacity} tokens{share}")
    limits = [f"budget {name!r}" for name in problem.budget_names]
    limits += [name for name in ("max_items", "group", "forbid") if getattr(problem, name) is not None]
    limits += ["equal_count"] if problem.equal_count else []
    return " ".join(parts) + (f" under {', '.join(limits)}" if limits else "")
