"""The checks of an estimator, each a function that yields what is wrong in sentences that name the table."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from packing import Planner, PluginError, SampleMetadata
from packing.registry import resolve_estimator
from packing.testing._answers import CostAnswer, ask_for_costs
from packing.testing._examination import run_in_threads
from packing.testing._processes import answers_of_new_process
from packing.testing._reports import NotApplicable

__all__ = ["ESTIMATOR_CHECKS", "EstimatorExamination", "length_tables", "made_columns"]

Findings = Iterator[str]
ColumnMaker = Callable[[npt.NDArray[np.int64]], Mapping[str, Any]]


def length_tables(seed: int = 0) -> dict[str, npt.NDArray[np.int64]]:
    """Lengths of samples, int64[N], by name: the boundaries, and random ones; the same for the same seed."""
    generator = np.random.default_rng(seed)
    tables = {
        "one_sample": [7],
        "one_token": [1, 1, 1],
        "word_edges": [63, 64, 65, 127, 128, 129],
        "all_equal": [17] * 8,
        "one_giant": [5, 1 << 20, 3],
        "random": np.clip(generator.lognormal(7, 1.2, 64), 1, 1 << 17).astype(np.int64),
    }
    return {name: np.asarray(lengths, np.int64) for name, lengths in tables.items()}


class _Watched(Mapping[str, Any]):
    """Columns that remember which of them were read."""

    def __init__(self, columns: Mapping[str, Any]) -> None:
        self._columns = columns
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)


def made_columns(declared: Sequence[str], lengths: npt.NDArray[np.int64], seed: int) -> dict[str, Any]:
    """For each declared column but "length" int64[N] between 0 and the length, the same for the same seed."""
    generator = np.random.default_rng(seed)
    return {column: generator.integers(0, lengths + 1) for column in declared if column != "length"}


class EstimatorExamination:
    """What the checks of an estimator look at.

    Args:
        config: a name, a mapping with "name" and options, a class or an object, as for `Planner`.
        seed: of the random values.
        columns: makes the columns besides "length" from the lengths; None: for each declared one whole numbers between
            0 and the length.

    Raises:
        ConfigError, UnknownNameError, PluginError: the config cannot be resolved.
    """

    def __init__(self, config: Any, *, seed: int = 0, columns: ColumnMaker | None = None) -> None:
        self.config = config
        resolved = resolve_estimator(config)
        self.name = resolved.name
        self.estimator = resolved.instance
        self.declared: tuple[str, ...] = tuple(resolved.instance.columns)
        self.tables: dict[str, dict[str, Any]] = {}
        for name, lengths in length_tables(seed).items():
            others = made_columns(self.declared, lengths, seed) if columns is None else columns(lengths)
            self.tables[name] = {"length": lengths} | dict(others)

    def fresh(self, name: str) -> dict[str, Any]:
        """Read-only copies of the columns of a table."""
        table = copy.deepcopy(self.tables[name])
        for values in table.values():
            if isinstance(values, np.ndarray):
                values.flags.writeable = False
        return table

    @cached_property
    def answers(self) -> dict[str, CostAnswer]:
        """The first answer to every table."""
        return {name: ask_for_costs(self.estimator, self.fresh(name)) for name in self.tables}

    def compare(self, others: Sequence[CostAnswer], where: str) -> Findings:
        """Sentences about tables to which another run gave other costs."""
        for (name, first), other in zip(self.answers.items(), others, strict=True):
            if not first.wrong and first != other:
                yield f"table {name!r}: {where} the costs are {other}, but they were {first}"

    def ask_all(self, estimator: Any) -> list[CostAnswer]:
        """The answers of an estimator to all tables, in order."""
        return [ask_for_costs(estimator, self.fresh(name)) for name in self.tables]


# --------------------------------------------------------------------------------------------------------- the costs


def gives_costs(exam: EstimatorExamination) -> Findings:
    """A cost for each sample: int64[N] or float64[N], finite and not negative."""
    for name, answer in exam.answers.items():
        costs, count = answer.costs, exam.tables[name]["length"].size
        if costs is None:
            yield f"table {name!r}: the estimator {answer.wrong}"
        elif costs.shape != (count,) or costs.dtype not in (np.int64, np.float64):
            yield f"table {name!r}: the costs are {costs.dtype}{list(costs.shape)} instead of int64[{count}]"
        elif not (np.isfinite(costs) & (costs >= 0)).all():
            at = int(np.argmin(np.isfinite(costs) & (costs >= 0)))
            yield f"table {name!r}: the cost of sample {at} is {costs[at]}, not finite and non-negative"


def reads_declared_columns(exam: EstimatorExamination) -> Findings:
    """It reads "length" and the columns that it declares, no others; the planner asks users for just those."""
    allowed = {"length", *exam.declared}
    for name in exam.tables:
        columns = _Watched(exam.fresh(name) | {f"extra{i}": exam.fresh(name)["length"] for i in range(2)})
        ask_for_costs(exam.estimator, columns)
        for column in sorted(columns.read - allowed):
            yield f"table {name!r}: the column {column!r} is read, but not declared in `columns`"


def plans(exam: EstimatorExamination) -> Findings:
    """The planner balances by its costs, whether samples come as columns or as records, to the same plan."""
    table = exam.fresh("random")
    values = {name: np.asarray(column).tolist() for name, column in table.items() if name != "length"}
    records = [
        SampleMetadata(pack_tokens=length, features={name: column[at] for name, column in values.items()})
        for at, length in enumerate(table["length"].tolist())
    ]
    plans = []
    for form, samples in (("columns", table), ("records", records)):
        try:
            planner = Planner(data_parallel_size=8, algorithm="lpt", estimator=exam.config)
            plans.append(planner.plan(samples))
        except Exception as error:
            yield f"table 'random': with {form}, the planner raised {type(error).__name__}: {error}"
    if len(plans) == 2 and plans[0] != plans[1]:
        yield "table 'random': columns and records of the same samples give different plans"


# ------------------------------------------------------------------------------------------------ the same everywhere


def same_answer_twice(exam: EstimatorExamination) -> Findings:
    """Asked again, and newly made, the estimator gives the same costs to the last bit."""
    yield from exam.compare(exam.ask_all(exam.estimator), "asked again,")
    yield from exam.compare(exam.ask_all(resolve_estimator(exam.config).instance), "newly made,")


def same_in_threads(exam: EstimatorExamination) -> Findings:
    """Several threads that ask at the same time get the same costs."""
    names = list(exam.tables)
    for answers in run_in_threads(lambda name: ask_for_costs(exam.estimator, exam.fresh(name)), names):
        yield from exam.compare(answers, "in a thread")


def same_in_new_process(exam: EstimatorExamination) -> Findings:
    """A new process, where strings hash differently and clocks run fast, gives the same costs."""
    try:
        answers = answers_of_new_process("estimator", exam.config, [exam.fresh(name) for name in exam.tables])
    except PluginError as error:
        yield str(error)
        return
    yield from exam.compare(answers, "in a new process")


def same_after_relabelling(exam: EstimatorExamination) -> Findings:
    """A sample costs the same wherever it stands among the others."""
    generator = np.random.default_rng(0)
    for name, first in exam.answers.items():
        count = exam.tables[name]["length"].size
        if first.costs is None or first.costs.shape != (count,):
            continue
        for order in (np.arange(count)[::-1], generator.permutation(count)):
            moved = {column: np.asarray(values)[order] for column, values in exam.fresh(name).items()}
            if ask_for_costs(exam.estimator, moved) != CostAnswer(first.costs[order]):
                yield f"table {name!r}: the costs depend on the order in which the samples come in"
                break


def inputs_not_written(exam: EstimatorExamination) -> Findings:
    """The columns are as they were, also for code that makes an array writable first."""
    for name, answer in exam.answers.items():
        if "read-only" in answer.wrong:
            yield f"table {name!r}: the estimator {answer.wrong}"
            continue
        table = exam.fresh(name)
        ask_for_costs(exam.estimator, table)
        before = exam.tables[name]
        for column in sorted(before.keys() | table.keys()):
            if column not in table or column not in before or not np.array_equal(before[column], table[column]):
                yield f"table {name!r}: the estimator changed the column {column!r}"


# -------------------------------------------------------------------------------------------------- what is declared


def config_round_trips(exam: EstimatorExamination) -> Findings:
    """The config as JSON, keys sorted, means the same estimator, and resolving it does not change it."""
    if not isinstance(exam.config, (str, Mapping)):
        yield NotApplicable("the config is a class or an object, not a name")
        return
    before = copy.deepcopy(exam.config)
    try:
        again = json.loads(json.dumps(exam.config, sort_keys=True, allow_nan=False))
    except (TypeError, ValueError) as error:
        yield f"the config is no JSON value: {error}"
        return
    first, second = resolve_estimator(exam.config), resolve_estimator(again)
    if exam.config != before:
        yield f"resolving the config changed it from {before!r} to {exam.config!r}"
    if json.dumps(first.identity(), sort_keys=True) != json.dumps(second.identity(), sort_keys=True):
        yield f"as JSON the config means {second.identity()}, but it means {first.identity()}"
    yield from exam.compare(exam.ask_all(second.instance), "from the config as JSON")


def pickles(exam: EstimatorExamination) -> Findings:
    """The estimator survives a pickle and then gives the same costs, so that it can be sent to workers."""
    try:
        again = pickle.loads(pickle.dumps(exam.estimator))
    except Exception as error:
        yield f"the estimator cannot be pickled: {type(error).__name__}: {error}"
        return
    yield from exam.compare(exam.ask_all(again), "after a pickle")


_CHECKS: tuple[Callable[[EstimatorExamination], Findings], ...] = (
    gives_costs, reads_declared_columns, plans, same_answer_twice, same_in_threads, same_in_new_process,
    same_after_relabelling, inputs_not_written, config_round_trips, pickles,
)  # fmt: skip

ESTIMATOR_CHECKS = {check.__name__: check for check in _CHECKS}
"""Every check by name, in the order in which they run."""
