"""The checks of an algorithm, each a function that yields what is wrong in sentences that name the instance."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from packing import Planner
from packing.errors import PluginError, UnsupportedProblemError
from packing.plugin import Problem
from packing.registry import resolve_algorithm
from packing.testing._answers import ask
from packing.testing._examination import AlgorithmExamination, planner_step, run_in_threads, wrong_shape
from packing.testing._processes import answers_of_new_process
from packing.testing._reports import NotApplicable

__all__ = ["ALGORITHM_CHECKS"]

Findings = Iterator[str]


# ------------------------------------------------------------------------------------------------------- the layouts


def returns_a_layout(exam: AlgorithmExamination) -> Findings:
    """`assign` returns None or an Assignment with the right number of bins, and raises at most InfeasibleError."""
    for instance, answer in zip(exam.instances, exam.answers, strict=True):
        if answer.wrong:
            yield f"instance {instance.name!r}: `assign` {answer.wrong}"
        elif answer.layout is not None:
            wrong = wrong_shape(instance.problem, answer.layout)
            if wrong:
                yield f"instance {instance.name!r}: `assign` returned {wrong}"


def finds_easy_layouts(exam: AlgorithmExamination) -> Findings:
    """Where any layout with equal counts fits, one is found, unless `no_candidate` declares the instance."""
    for instance, answer in zip(exam.instances, exam.answers, strict=True):
        nothing = answer.layout is None
        if answer.wrong:
            continue
        if instance.name in exam.no_candidate:
            if not nothing:
                yield f"instance {instance.name!r}: a layout was found, although `no_candidate` declares that none is"
        elif nothing and instance.difficulty == "easy":
            yield f"instance {instance.name!r}: no candidate, although any layout with equal counts fits"


def every_sample_once(exam: AlgorithmExamination) -> Findings:
    """A layout holds every sample exactly once, and nothing else."""
    for instance, answer in zip(exam.instances, exam.answers, strict=True):
        if answer.layout is None:
            continue
        counts = Counter(answer.layout.items.tolist())
        for sample in sorted({*counts, *range(instance.problem.num_samples)}):
            if not 0 <= sample < instance.problem.num_samples:
                yield f"instance {instance.name!r}: there is no sample {sample}"
            elif counts[sample] != 1:
                yield f"instance {instance.name!r}: sample {sample} occurs {counts[sample]} times"


def no_empty_bins(exam: AlgorithmExamination) -> Findings:
    """No bin of a layout is empty; with fewer samples than bins there is no layout."""
    for instance, _, layout in exam.layouts():
        for index, members in enumerate(layout.to_bins()):
            if not members:
                yield f"instance {instance.name!r}: bin {index} is empty"


def caps_kept(exam: AlgorithmExamination) -> Findings:
    """No bin exceeds its capacity or `max_items`; an oversized sample is alone, and only under the policy "single"."""
    for instance, problem, layout in exam.layouts():
        capacities = problem.capacities().tolist()
        for index, members in enumerate(layout.to_bins()):
            used = sum(problem.tokens[members].tolist())
            alone = problem.oversized == "single" and len(members) == 1
            if used > capacities[index] and not alone:
                yield f"instance {instance.name!r}: bin {index} holds {used} tokens, over its cap {capacities[index]}"
            if problem.max_items is not None and len(members) > problem.max_items:
                yield f"instance {instance.name!r}: bin {index} holds {len(members)} of {problem.max_items} samples"


def budgets_kept(exam: AlgorithmExamination) -> Findings:
    """No bin exceeds a budget."""
    for instance, problem, layout in exam.layouts():
        if problem.budgets is None or problem.footprints is None:
            continue
        for index, members in enumerate(layout.to_bins()):
            for b, name in enumerate(problem.budget_names):
                used, limit = sum(problem.footprints[members, b].tolist()), int(problem.budgets[b])
                if used > limit:
                    yield f"instance {instance.name!r}: bin {index} uses {used} of {name!r}, over its limit {limit}"


def groups_kept(exam: AlgorithmExamination) -> Findings:
    """Samples of one `group` are in one bin or on one rank, and samples that `forbid` keeps apart share no bin."""
    for instance, problem, layout in exam.layouts():
        homes: dict[int, set[int]] = {}
        for index, members in enumerate(layout.to_bins()):
            kinds = set() if problem.forbid is None else set(problem.forbid[members].tolist())
            if len(kinds) > 1:
                yield f"instance {instance.name!r}: bin {index} holds {sorted(kinds)}, which `forbid` keeps apart"
            place = index if problem.group_scope == "bin" else index // (problem.bins_per_rank or 1)
            for group in [] if problem.group is None else problem.group[members].tolist():
                homes.setdefault(group, set()).add(place)
        for group, places in homes.items():
            if group >= 0 and len(places) > 1:
                yield f"instance {instance.name!r}: group {group} is in {problem.group_scope}s {sorted(places)}"


def equal_counts(exam: AlgorithmExamination) -> Findings:
    """Where `equal_count` asks for it, all ranks have the same number of samples."""
    for instance, problem, layout in exam.layouts():
        counts = np.diff(layout.offsets).reshape(problem.ranks, -1).sum(axis=1).tolist()
        if problem.equal_count and len(set(counts)) > 1:
            yield f"instance {instance.name!r}: the ranks hold {counts} samples"


# ------------------------------------------------------------------------------------------------ the same everywhere


def same_answer_twice(exam: AlgorithmExamination) -> Findings:
    """Asked again, in another order of the instances, and newly made, the algorithm answers the same."""
    backwards = [ask(exam.algorithm, instance.fresh()) for instance in reversed(exam.instances)]
    yield from exam.compare(backwards[::-1], "asked again in another order,")
    again = resolve_algorithm(exam.config).instance
    yield from exam.compare([ask(again, instance.fresh()) for instance in exam.instances], "newly made,")


def same_in_threads(exam: AlgorithmExamination) -> Findings:
    """Several threads that ask at the same time get the same answers."""
    for answers in run_in_threads(lambda instance: ask(exam.algorithm, instance.fresh()), exam.instances):
        yield from exam.compare(answers, "in a thread")


def same_in_new_process(exam: AlgorithmExamination) -> Findings:
    """A new process, where strings hash differently and clocks run fast, gives the same answers."""
    try:
        questions = [instance.fresh() for instance in exam.instances]
        answers = answers_of_new_process("algorithm", exam.config, questions)
    except PluginError as error:
        yield str(error)
        return
    yield from exam.compare(answers, "in a new process")


def same_after_relabelling(exam: AlgorithmExamination) -> Findings:
    """Through the planner, neither the order in which keyed samples come in counts nor the numbers of their keys."""
    generator = np.random.default_rng(0)
    for instance in exam.instances:
        step = planner_step(instance.problem)
        if step is None:
            continue
        settings, columns = step
        count = instance.problem.num_samples
        first = _planned(exam.config, settings, columns)
        for order in (np.arange(count)[::-1], generator.permutation(count)):
            moved = {name: np.asarray(values)[order] for name, values in columns.items()}
            if _planned(exam.config, settings, moved) != first:
                yield f"instance {instance.name!r}: the plan depends on the order in which the samples come in"
                break
        if _planned(exam.config, settings, columns | {"key": 3 * columns["key"] + 5}) != first:
            yield f"instance {instance.name!r}: the plan depends on the numbers that are the samples' keys"


def _planned(config: Any, settings: Mapping[str, Any], columns: Mapping[str, Any]) -> Any:
    """Bins of samples, named by the rank of their key; or the kind of the exception."""
    try:
        plan = Planner(algorithm=config, **settings).plan(columns)
    except (Exception, SystemExit) as error:
        return type(error)
    named = np.argsort(np.argsort(columns["key"]))
    return plan.offsets.tolist(), named[plan.items].tolist()


def inputs_not_written(exam: AlgorithmExamination) -> Findings:
    """The problem is as it was, down to the last element, also for code that makes an array writable first."""
    for instance, answer in zip(exam.instances, exam.answers, strict=True):
        if "read-only" in answer.wrong:
            yield f"instance {instance.name!r}: `assign` {answer.wrong}"
            continue
        problem = instance.fresh()
        ask(exam.algorithm, problem)
        for name in _changed(instance.problem, problem):
            yield f"instance {instance.name!r}: `assign` changed the problem's `{name}`"


def _changed(before: Problem, after: Problem) -> Iterator[str]:
    for field in dataclasses.fields(Problem):
        one, other = getattr(before, field.name), getattr(after, field.name)
        same = np.array_equal(one, other) if isinstance(one, np.ndarray) else one == other
        if not same:
            yield field.name


# -------------------------------------------------------------------------------------------------- what is declared


def undeclared_features_refused(exam: AlgorithmExamination) -> Findings:
    """The planner refuses problems that need more than the capabilities, which stay what they are."""
    again = resolve_algorithm(exam.config).capabilities
    if again != exam.capabilities:
        yield f"the capabilities were {sorted(exam.capabilities)}, but asked again {sorted(again)}"
    for instance in exam.refused:
        step = planner_step(instance.problem)
        if step is None:
            continue
        try:
            Planner(algorithm=exam.config, **step[0]).plan(step[1])
        except UnsupportedProblemError:
            continue
        except Exception as error:
            yield f"instance {instance.name!r}: {type(error).__name__} instead of UnsupportedProblemError: {error}"
        else:
            yield f"instance {instance.name!r}: was planned, although the capabilities do not declare what it needs"


def config_round_trips(exam: AlgorithmExamination) -> Findings:
    """The config as JSON, keys sorted, means the same algorithm, and resolving it does not change it."""
    if not isinstance(exam.config, (str, Mapping)):
        yield NotApplicable("the config is a class or an object, not a name")
        return
    before = copy.deepcopy(exam.config)
    try:
        again = json.loads(json.dumps(exam.config, sort_keys=True, allow_nan=False))
    except (TypeError, ValueError) as error:
        yield f"the config is no JSON value: {error}"
        return
    first, second = resolve_algorithm(exam.config), resolve_algorithm(again)
    if exam.config != before:
        yield f"resolving the config changed it from {before!r} to {exam.config!r}"
    if json.dumps(first.identity(), sort_keys=True) != json.dumps(second.identity(), sort_keys=True):
        yield f"as JSON the config means {second.identity()}, but it means {first.identity()}"
    yield from exam.compare(
        [ask(second.instance, instance.fresh()) for instance in exam.instances], "from the config as JSON"
    )


def pickles(exam: AlgorithmExamination) -> Findings:
    """The algorithm survives a pickle and then answers the same, so that it can be sent to workers."""
    try:
        again = pickle.loads(pickle.dumps(exam.algorithm))
    except Exception as error:
        yield f"the algorithm cannot be pickled: {type(error).__name__}: {error}"
        return
    yield from exam.compare([ask(again, instance.fresh()) for instance in exam.instances], "after a pickle")


_CHECKS: tuple[Callable[[AlgorithmExamination], Findings], ...] = (
    returns_a_layout, finds_easy_layouts, every_sample_once, no_empty_bins, caps_kept, budgets_kept, groups_kept,
    equal_counts, same_answer_twice, same_in_threads, same_in_new_process, same_after_relabelling, inputs_not_written,
    undeclared_features_refused, config_round_trips, pickles,
)  # fmt: skip

ALGORITHM_CHECKS = {check.__name__: check for check in _CHECKS}
"""Every check by name, in the order in which they run."""
