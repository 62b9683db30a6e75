"""The same question in a new process: another hash seed, and clocks that run fast."""

from __future__ import annotations

import itertools
import json
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from packing.errors import PluginError
from packing.registry import get_registry, use_registry
from packing.testing._answers import algorithm_answers, estimator_answers
from packing.testing._registries import GivenRegistry

__all__ = ["answers_of_new_process"]

_TIMEOUT = 600  # seconds; a hang is a failure, not a test run that never ends
_CLOCKS = ("time", "monotonic", "perf_counter", "process_time", "thread_time")
_JUMP = 3600  # seconds that pass between two looks at a clock
# Imports come from where this process finds them; what is printed must not get between the bytes of the answer.
_CODE = """
import json, os, sys
sys.path[:] = json.loads(sys.argv[1])
answer = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)
from packing.testing._processes import answer_in_new_process
answer.write(answer_in_new_process(sys.stdin.buffer.read()))
answer.close()
"""
_ANSWERS: dict[str, Callable[[Any, list[Any]], list[Any]]] = {
    "algorithm": algorithm_answers,
    "estimator": estimator_answers,
}


def answers_of_new_process(kind: str, config: Any, questions: list[Any]) -> list[Any]:
    """What a newly made algorithm or estimator answers in a process of its own.

    There strings hash differently, and every look at a clock finds it an hour later, so that a search that ends by
    time ends at once.

    Args:
        kind: "algorithm" or "estimator".
        config: as for `Planner`; pickled, so that a class must be importable by name.
        questions: problems, or tables of columns.

    Raises:
        PluginError: config or questions cannot be pickled, or the process failed; the message says how.
    """
    registry = get_registry()
    given = (registry.plugins, registry.isolated) if isinstance(registry, GivenRegistry) else None
    try:
        question = pickle.dumps((kind, given, config, questions))
    except Exception as error:
        raise PluginError(
            f"the config and its plugin must be importable by name, but cannot be pickled: {error}"
        ) from error
    seed = "271828" if os.environ.get("PYTHONHASHSEED") == "314159" else "314159"
    command = [sys.executable, "-c", _CODE, json.dumps([path or os.getcwd() for path in sys.path])]
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    try:
        process = subprocess.run(command, input=question, env=environment, capture_output=True, timeout=_TIMEOUT)
    except subprocess.TimeoutExpired:
        raise PluginError(f"the process gave no answer within {_TIMEOUT} seconds") from None
    if process.returncode != 0:
        lines = process.stderr.decode(errors="replace").strip().splitlines()
        raise PluginError(f"the process ended with status {process.returncode}: {lines[-1] if lines else 'no output'}")
    answers: list[Any] = pickle.loads(process.stdout)
    return answers


def answer_in_new_process(question: bytes) -> bytes:
    """The other side of `answers_of_new_process`: a question in, answers out."""
    _make_clocks_jump()  # before unpickling, which imports the plugin
    kind, given, config, questions = pickle.loads(question)
    if given is None:
        return pickle.dumps(_ANSWERS[kind](config, questions))
    plugins, isolated = given
    with use_registry(GivenRegistry(plugins, isolated=isolated)):
        return pickle.dumps(_ANSWERS[kind](config, questions))


def _make_clocks_jump() -> None:
    """From now on each look at a clock of the module `time` finds it an hour later."""
    looks = itertools.count(1)
    for name in _CLOCKS:
        seconds, nanoseconds = getattr(time, name), getattr(time, f"{name}_ns")
        setattr(time, name, lambda clock=seconds: clock() + _JUMP * next(looks))
        setattr(time, f"{name}_ns", lambda clock=nanoseconds: clock() + _JUMP * 10**9 * next(looks))
