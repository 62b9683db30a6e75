"""What algorithms and estimators answer, in a form that can be compared and sent between processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from packing.errors import InfeasibleError, NoCandidateError
from packing.plugin import Algorithm, Assignment, Estimator, Problem
from packing.registry import resolve_algorithm, resolve_estimator

__all__ = ["Answer", "CostAnswer", "algorithm_answers", "ask", "ask_for_costs", "estimator_answers"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What `assign` gave.

    Attributes:
        layout: the layout, or None.
        wrong: what came instead of a layout or None, in words, or "".
    """

    layout: Assignment | None = None
    wrong: str = ""

    def __str__(self) -> str:
        return self.wrong or ("no candidate" if self.layout is None else f"bins {self.layout.to_bins()}")


def ask(algorithm: Algorithm, problem: Problem) -> Answer:
    """Asks for a layout. That there can be none (`InfeasibleError`) is no candidate; other exceptions are wrong."""
    try:
        answer: object = algorithm.assign(problem)
    except (InfeasibleError, NoCandidateError):
        return Answer()
    except (Exception, SystemExit) as error:
        return Answer(wrong=f"raised {type(error).__name__}: {error}")
    if answer is None or isinstance(answer, Assignment):
        return Answer(answer)
    return Answer(wrong=f"returned {type(answer)!r} instead of an Assignment or None")


def algorithm_answers(config: Any, problems: list[Problem]) -> list[Answer]:
    """The answers of one newly made algorithm to the problems, in turn."""
    algorithm = resolve_algorithm(config).instance
    return [ask(algorithm, problem) for problem in problems]


@dataclass(frozen=True, slots=True, eq=False)
class CostAnswer:
    """What an estimator gave.

    Attributes:
        costs: the array, or None.
        wrong: what came instead, in words, or "".
    """

    costs: np.ndarray[Any, Any] | None = None
    wrong: str = ""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CostAnswer):
            return NotImplemented
        if self.costs is None or other.costs is None:
            return self.costs is other.costs and self.wrong == other.wrong
        # Bit for bit: ranks compare digests, not values with a tolerance.
        return self.costs.dtype == other.costs.dtype and np.array_equal(self.costs, other.costs)

    __hash__ = None  # type: ignore[assignment]  # equal by content that can change; typeshed declares a method

    def __str__(self) -> str:
        return self.wrong or f"{self.costs}"


def ask_for_costs(estimator: Estimator, columns: Mapping[str, Any]) -> CostAnswer:
    """Asks for the costs of the samples of some columns; every exception is wrong."""
    try:
        costs: object = estimator(columns)
    except (Exception, SystemExit) as error:
        return CostAnswer(wrong=f"raised {type(error).__name__}: {error}")
    if isinstance(costs, np.ndarray):
        return CostAnswer(costs)
    return CostAnswer(wrong=f"returned {type(costs)!r} instead of an array")


def estimator_answers(config: Any, tables: list[Mapping[str, Any]]) -> list[CostAnswer]:
    """The answers of one newly made estimator to tables of columns, in turn."""
    estimator = resolve_estimator(config).instance
    return [ask_for_costs(estimator, columns) for columns in tables]
