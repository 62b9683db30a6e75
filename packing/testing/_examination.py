"""One algorithm under examination: its instances, its answers, and the same steps as the planner sees them."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from packing.objectives import OBJECTIVE_NAMES
from packing.plugin import Assignment, Problem
from packing.registry import resolve_algorithm
from packing.testing._answers import Answer, ask
from packing.testing._instances import Instance, instances, missing_capabilities
from packing.testing._reports import checked_declarations

__all__ = ["AlgorithmExamination", "planner_step", "run_in_threads"]

Question = TypeVar("Question")
Reply = TypeVar("Reply")

_THREADS = min(8, 2 * (os.cpu_count() or 1))


class AlgorithmExamination:
    """What the checks of an algorithm look at.

    Args:
        config: a name, a mapping with "name" and options, a class or an object, as for `Planner`.
        seed: of the random instances.
        no_candidate: instances on which the algorithm may find nothing although they are easy: name -> reason.
        given: other instances than `instances(seed)`.

    Raises:
        ConfigError, UnknownNameError, PluginError: the config cannot be resolved, or a declaration is malformed.
    """

    def __init__(
        self,
        config: Any,
        *,
        seed: int = 0,
        no_candidate: Mapping[str, str] | None = None,
        given: Sequence[Instance] | None = None,
    ) -> None:
        self.config = config
        resolved = resolve_algorithm(config)
        self.name = resolved.name
        self.algorithm = resolved.instance
        self.capabilities = resolved.capabilities
        everything = instances(seed) if given is None else list(given)
        objectives = [name for name in OBJECTIVE_NAMES if name in self.capabilities] or ["makespan"]
        # All instances under one objective, the random ones under every one.
        self.instances = [
            posed
            for instance in everything
            for objective in (objectives if instance.name.startswith("random") else objectives[:1])
            for posed in [instance.under(objective)]
            if posed is not None and not missing_capabilities(posed.problem, self.capabilities)
        ]
        self.refused = [
            posed
            for instance in everything
            for objective in (OBJECTIVE_NAMES if instance.name == "random" else objectives[:1])
            for posed in [instance.under(objective)]
            if posed is not None
            and missing_capabilities(posed.problem, self.capabilities)
            and posed.difficulty != "impossible"
        ]
        names = [instance.name for instance in self.instances]
        self.no_candidate = checked_declarations("no_candidate", no_candidate, names)

    @cached_property
    def answers(self) -> list[Answer]:
        """The first answer to every instance, in order."""
        return [ask(self.algorithm, instance.fresh()) for instance in self.instances]

    def layouts(self) -> Iterator[tuple[Instance, Problem, Assignment]]:
        """The layouts that can be looked into: of known samples and the right number of bins, with M filled in."""
        for instance, answer in zip(self.instances, self.answers, strict=True):
            if answer.layout is None or wrong_shape(instance.problem, answer.layout) is not None:
                continue
            items = answer.layout.items
            if items.size == 0 or (items.min() >= 0 and items.max() < instance.problem.num_samples):
                yield instance, closed(instance.problem, answer.layout), answer.layout

    def compare(self, others: Sequence[Answer], where: str) -> Iterator[str]:
        """Sentences about instances to which another run gave another answer."""
        for instance, first, other in zip(self.instances, self.answers, others, strict=True):
            if not first.wrong and first != other:
                yield f"instance {instance.name!r}: {where} the answer is {_cut(other)}, but it was {_cut(first)}"


def closed(problem: Problem, layout: Assignment) -> Problem:
    """An open problem closed at the number of bins of the layout."""
    if problem.bins_per_rank is not None:
        return problem
    return problem.with_bins_per_rank(max(1, -(-layout.num_bins // problem.ranks)))


def wrong_shape(problem: Problem, layout: Assignment) -> str | None:
    """What is wrong with the number of bins, or None."""
    expected = closed(problem, layout).num_bins
    return None if layout.num_bins == expected else f"a layout of {layout.num_bins} bins instead of {expected}"


def run_in_threads(ask_one: Callable[[Question], Reply], questions: Sequence[Question]) -> list[list[Reply]]:
    """The replies of several threads that ask all questions at the same time, each beginning at another one."""
    start = threading.Barrier(_THREADS)

    def work(number: int) -> list[Reply]:
        start.wait(timeout=60)
        first = number * len(questions) // _THREADS
        order = [*range(first, len(questions)), *range(first)]
        replies = {at: ask_one(questions[at]) for at in order}
        return [replies[at] for at in range(len(questions))]

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # threads get in each other's way as often as possible
    try:
        with ThreadPoolExecutor(_THREADS) as pool:
            return list(pool.map(work, range(_THREADS)))
    finally:
        sys.setswitchinterval(interval)


def planner_step(problem: Problem) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Settings of a `Planner` and columns of samples that make it pose this problem; None where no setting does."""
    if not (problem.capacity is None or isinstance(problem.capacity, int)) or problem.reference is not None:
        return None
    assert problem.round_size is not None
    settings: dict[str, Any] = {
        "data_parallel_size": problem.round_size,
        "window": problem.ranks // problem.round_size,
        "local_batch_size": problem.bins_per_rank,
        "seq_len": problem.capacity,
        "objective": problem.objective.setting,
        "oversized_policy": problem.oversized,
        "max_items": problem.max_items,
        "equal_count": problem.equal_count,
        "group_scope": problem.group_scope,
    }
    columns: dict[str, Any] = {
        "length": problem.tokens,
        "cost": problem.cost,
        "key": np.arange(problem.num_samples),
    }
    if problem.components is not None:
        for index, (name, _) in enumerate(problem.objective.weights):  # of weight 1
            columns[name] = problem.components[:, index]
    for name in ("group", "forbid"):
        if getattr(problem, name) is not None:
            settings[name], columns[name] = name, getattr(problem, name)
    if problem.budgets is not None and problem.footprints is not None:
        settings["packing_budgets"] = dict(zip(problem.budget_names, problem.budgets.tolist(), strict=True))
        columns |= {name: problem.footprints[:, b] for b, name in enumerate(problem.budget_names)}
    if problem.pad_cost is not None:
        settings["padding_cost"] = problem.pad_cost.tolist().__getitem__
    return settings, columns


def _cut(answer: Answer, limit: int = 120) -> str:
    text = str(answer)
    return text if len(text) <= limit else f"{text[: limit - 3]}..."
