"""All checks of one algorithm or estimator in one call, without pytest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from packing.testing._algorithm_checks import ALGORITHM_CHECKS
from packing.testing._estimator_checks import ESTIMATOR_CHECKS, ColumnMaker, EstimatorExamination
from packing.testing._examination import AlgorithmExamination
from packing.testing._instances import Instance
from packing.testing._reports import Report, checked_declarations, run_check

__all__ = ["check_algorithm", "check_estimator"]


def check_algorithm(
    config: Any,
    *,
    expected_failures: Mapping[str, str] | None = None,
    no_candidate: Mapping[str, str] | None = None,
    seed: int = 0,
    instances: Sequence[Instance] | None = None,
) -> Report:
    """Asks an algorithm all instances that it declares to be able to do, and checks what it answers.

    Args:
        config: a name, a mapping with "name" and options, a class or an object, as for `Planner`.
        expected_failures: checks that are known to fail: name -> reason. One that passes is an error.
        no_candidate: easy instances on which the algorithm may find nothing: name -> reason. A layout is an error.
        seed: of the random instances.
        instances: what to ask instead of `packing.testing.instances(seed)`.

    Returns:
        What every check found.

    Raises:
        AssertionError: a check failed that was not declared to, or the other way round; names check and instance.
        ConfigError: a declaration has an unknown name or no reason, or the config is malformed.
        UnknownNameError, AmbiguousNameError, PluginError: the config cannot be resolved.
    """
    declared = checked_declarations("expected_failures", expected_failures, list(ALGORITHM_CHECKS))
    exam = AlgorithmExamination(config, seed=seed, no_candidate=no_candidate, given=instances)
    results = [run_check(name, check, exam, declared.get(name)) for name, check in ALGORITHM_CHECKS.items()]
    report = Report(f"algorithm {exam.name!r}", tuple(results))
    report.raise_failures()
    return report


def check_estimator(
    config: Any,
    *,
    expected_failures: Mapping[str, str] | None = None,
    seed: int = 0,
    columns: ColumnMaker | None = None,
) -> Report:
    """Asks an estimator for the costs of several tables of samples, and checks what it answers.

    Args:
        config: a name, a mapping with "name" and options, a class or an object, as for `Planner`.
        expected_failures: checks that are known to fail: name -> reason. One that passes is an error.
        seed: of the random values.
        columns: makes the columns besides "length" from the lengths, int64[N]; None: for each declared one whole
            numbers between 0 and the length.

    Returns:
        What every check found.

    Raises:
        AssertionError: a check failed that was not declared to, or the other way round; names check and table.
        ConfigError: a declaration has an unknown name or no reason, or the config is malformed.
        UnknownNameError, AmbiguousNameError, PluginError: the config cannot be resolved.
    """
    declared = checked_declarations("expected_failures", expected_failures, list(ESTIMATOR_CHECKS))
    exam = EstimatorExamination(config, seed=seed, columns=columns)
    results = [run_check(name, check, exam, declared.get(name)) for name, check in ESTIMATOR_CHECKS.items()]
    report = Report(f"estimator {exam.name!r}", tuple(results))
    report.raise_failures()
    return report
