"""The checks as pytest classes: a subclass names its config, and every check becomes a test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pytest

from packing.registry import resolve_estimator
from packing.testing._algorithm_checks import ALGORITHM_CHECKS
from packing.testing._estimator_checks import ESTIMATOR_CHECKS, EstimatorExamination, made_columns
from packing.testing._examination import AlgorithmExamination
from packing.testing._instances import Instance
from packing.testing._reports import CheckResult, checked_declarations, run_check

__all__ = ["AlgorithmConformance", "EstimatorConformance"]


def _conclude(result: CheckResult) -> None:
    # Skipped: nothing is declared that the check asks about. Failed as declared: with the reason that the author gave.
    if not result.ok:
        pytest.fail(str(result), pytrace=False)
    elif result.outcome == "skipped":
        pytest.skip(result.detail)
    elif result.outcome == "failed as declared":
        pytest.xfail(result.detail)


class AlgorithmConformance:
    """Subclass it in a test module, under a name that begins with "Test":

        class TestZigzag(AlgorithmConformance):
            config = "acme/zigzag"

    Attributes:
        config: as for `Planner(algorithm=...)`; a name or a mapping with "name" and options, mostly.
        expected_failures: checks that are known to fail: name -> reason. One that passes is an error.
        no_candidate: easy instances on which the algorithm may find nothing: name -> reason. A layout is an error.
        seed: of the random instances.
        instances: what to ask instead of `packing.testing.instances(seed)`, or None.
    """

    config: ClassVar[Any]
    expected_failures: ClassVar[Mapping[str, str]] = {}
    no_candidate: ClassVar[Mapping[str, str]] = {}
    seed: ClassVar[int] = 0
    instances: ClassVar[Sequence[Instance] | None] = None

    _examination: ClassVar[AlgorithmExamination]

    @pytest.fixture
    def examination(self) -> AlgorithmExamination:
        """The algorithm with its instances and first answers, once for all checks of the class."""
        cls = type(self)
        if "_examination" not in vars(cls):
            checked_declarations("expected_failures", cls.expected_failures, list(ALGORITHM_CHECKS))
            cls._examination = AlgorithmExamination(
                cls.config, seed=cls.seed, no_candidate=cls.no_candidate, given=cls.instances
            )
        return cls._examination

    @pytest.mark.parametrize("check", ALGORITHM_CHECKS)
    def test_conformance(self, check: str, examination: AlgorithmExamination) -> None:
        """One check; see its docstring in `packing.testing._algorithm_checks`."""
        _conclude(run_check(check, ALGORITHM_CHECKS[check], examination, self.expected_failures.get(check)))


class EstimatorConformance:
    """Subclass it in a test module, under a name that begins with "Test":

        class TestPixels(EstimatorConformance):
            config = {"name": "acme/pixels", "weight": 3}

    Attributes:
        config: as for `Planner(estimator=...)`; a name or a mapping with "name" and options, mostly.
        expected_failures: checks that are known to fail: name -> reason. One that passes is an error.
        seed: of the random values.
    """

    config: ClassVar[Any]
    expected_failures: ClassVar[Mapping[str, str]] = {}
    seed: ClassVar[int] = 0

    _examination: ClassVar[EstimatorExamination]

    def make_columns(self, lengths: npt.NDArray[np.int64]) -> Mapping[str, Any]:
        """The columns besides "length" for samples of these lengths, int64[N]; override it for special values.

        As it is: for each declared column whole numbers between 0 and the length, drawn with `seed`.
        """
        return made_columns(resolve_estimator(self.config).instance.columns, lengths, self.seed)

    @pytest.fixture
    def examination(self) -> EstimatorExamination:
        """The estimator with its tables and first answers, once for all checks of the class."""
        cls = type(self)
        if "_examination" not in vars(cls):
            checked_declarations("expected_failures", cls.expected_failures, list(ESTIMATOR_CHECKS))
            cls._examination = EstimatorExamination(cls.config, seed=cls.seed, columns=self.make_columns)
        return cls._examination

    @pytest.mark.parametrize("check", ESTIMATOR_CHECKS)
    def test_conformance(self, check: str, examination: EstimatorExamination) -> None:
        """One check; see its docstring in `packing.testing._estimator_checks`."""
        _conclude(run_check(check, ESTIMATOR_CHECKS[check], examination, self.expected_failures.get(check)))
