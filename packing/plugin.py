"""The one module that authors of plugins import: hook markers, specs, protocols, the API version.

A plugin is a distribution with an entry point in the group `packing`; the entry point's name is the plugin's namespace
(`[a-z][a-z0-9_]*`), its value a module with one or both hooks:

    from packing.plugin import AlgorithmSpec, hookimpl

    @hookimpl
    def packing_algorithms(host):
        return [AlgorithmSpec("snake", "packing_starter.snake:Snake", capabilities={"multi_bin"})]
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import pluggy

from packing._checks import shown
from packing._version import __version__
from packing.assignment import Assignment
from packing.errors import ConfigError, PluginError
from packing.problem import CAPABILITIES, BinState, Problem

__all__ = [
    "API_VERSION",
    "CAPABILITIES",
    "Algorithm",
    "AlgorithmSpec",
    "Assignment",
    "BinState",
    "Estimator",
    "EstimatorSpec",
    "Host",
    "Problem",
    "hookimpl",
]

API_VERSION = 1
"""The version of the contract in this module; a spec made for a later one is refused."""

hookimpl = pluggy.HookimplMarker("packing")
"""Marks a function of a plugin as the implementation of the hook with the same name."""

_NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Host:
    """What a hook is told about the package that calls it.

    Attributes:
        api_version: `API_VERSION` of the running package.
        version: its version.
    """

    api_version: int = API_VERSION
    version: str = __version__


@runtime_checkable
class Algorithm(Protocol):
    """What a balancing algorithm must offer."""

    def assign(self, problem: Problem) -> Assignment | None:
        """A layout that holds every sample exactly once, breaks no limit and leaves no bin empty, or None where the
        algorithm finds none. Must give the same answer for the same problem and must not change it.
        """


class Estimator(Protocol):
    """What a workload estimator must offer: `columns`, the names of the columns it needs, and the call."""

    @property
    def columns(self) -> Sequence[str]:
        """Names of the columns it reads; "length" is always there."""

    def __call__(self, columns: Mapping[str, Any]) -> Any:
        """int64[N] (or float64[N]): the cost of each sample, finite and non-negative, from columns of N values."""


@dataclass(frozen=True, slots=True)
class _Spec:
    """What a plugin says about one name before anything is imported.

    Args:
        name: how users choose it, `[a-z][a-z0-9_]*`.
        factory: "module:attribute", imported on first use, or a callable; called with the options of the config.
        capabilities: see the subclass.
        api: the `API_VERSION` that it was written for.
        summary: one sentence for listings.

    Raises:
        PluginError: the name, the factory or a capability is malformed.
    """

    name: str
    factory: str | Callable[..., Any]
    capabilities: frozenset[str] | Collection[str] = frozenset()
    api: int = API_VERSION
    summary: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise PluginError(f"a spec's `name` must match {_NAME.pattern}, but got {shown(self.name)}.")
        if isinstance(self.factory, str):
            module, _, attribute = self.factory.partition(":")
            if not module or not attribute:
                raise PluginError(f'`factory` of {self.name!r} must be "module:attribute", but got {self.factory!r}.')
        elif not callable(self.factory):
            raise PluginError(f"`factory` of {self.name!r} must be text or callable, but got {shown(self.factory)}.")
        if isinstance(self.capabilities, str):
            raise PluginError(f"`capabilities` of {self.name!r} must be a set of names, but got one text.")
        object.__setattr__(self, "capabilities", frozenset(self.capabilities))
        if not isinstance(self.api, int) or isinstance(self.api, bool) or self.api < 1:
            raise PluginError(f"`api` of {self.name!r} must be a positive integer, but got {shown(self.api)}.")
        if not isinstance(self.summary, str):
            raise PluginError(f"`summary` of {self.name!r} must be text, but got {shown(self.summary)}.")


class AlgorithmSpec(_Spec):
    """A balancing algorithm offered by name. `capabilities` are the features of a `Problem` that it honours, from
    `CAPABILITIES`; one that names no objective is taken to be indifferent to it.
    """

    __slots__ = ()
    kind = "algorithm"

    def __post_init__(self) -> None:
        _Spec.__post_init__(self)
        unknown = sorted(set(self.capabilities) - CAPABILITIES, key=str)
        if unknown and self.api <= API_VERSION:  # a later api may have more; the registry refuses it in its own words
            known = ", ".join(sorted(CAPABILITIES))
            raise PluginError(f"`capabilities` of {self.name!r} must be among {known}, but got {unknown}.")


class EstimatorSpec(_Spec):
    """A workload estimator offered by name."""

    __slots__ = ()
    kind = "estimator"


def plain_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """A deep copy of options made of dicts, lists, text, numbers, booleans and None.

    Raises:
        ConfigError: an option is no JSON value, or its name is not text.
    """
    for key in options:
        if not isinstance(key, str):
            raise ConfigError(f"the name of an option must be text, but got {shown(key)}.")
    try:
        return {key: _plain(key, value) for key, value in options.items()}
    except RecursionError:
        raise ConfigError("the options must not contain themselves or be nested too deeply.") from None


def _plain(path: str, value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, str)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, (list, tuple)):
        return [_plain(f"{path}[{index}]", one) for index, one in enumerate(value)]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: _plain(f"{path}.{key}", one) for key, one in value.items()}
    raise ConfigError(f"`{path}` must be a JSON value, but got {shown(value)}.")
