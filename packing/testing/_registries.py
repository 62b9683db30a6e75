"""Registries for tests: only the built-ins and given plugins, or what is installed and one more."""

from __future__ import annotations

import importlib
import os
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from packing.errors import ConfigError, PluginError, UnknownNameError
from packing.plugin import AlgorithmSpec, EstimatorSpec, Host, hookimpl
from packing.registry import PluginWarning, Registry, get_registry, use_registry

__all__ = ["GivenPlugin", "GivenRegistry", "isolated_registry", "temporary_plugin"]

_GROUP = "packing"


@dataclass(frozen=True, slots=True)
class GivenPlugin:
    """A plugin that a test gives: a module with hooks, or specs. Its pickle names the module, to be imported again.

    Attributes:
        namespace: what an entry point would be called.
        module: with hooks, or None where specs are given.
        algorithms, estimators: specs, where there is no module.
    """

    namespace: str
    module: types.ModuleType | None = None
    algorithms: tuple[AlgorithmSpec, ...] = ()
    estimators: tuple[EstimatorSpec, ...] = ()

    def __reduce__(self) -> tuple[object, ...]:
        name = None if self.module is None else self.module.__name__
        return _from_pickle, (self.namespace, name, self.algorithms, self.estimators)

    def load(self) -> types.ModuleType:
        """What an entry point would load: the module, or for specs a new one whose hooks return them."""
        if self.module is not None:
            return self.module
        module = types.ModuleType(f"temporary plugin {self.namespace}")
        for hook, specs in (("packing_algorithms", self.algorithms), ("packing_estimators", self.estimators)):
            if specs:
                setattr(module, hook, _hook(hook, specs))
        return module


def _from_pickle(
    namespace: str, module: str | None, algorithms: tuple[AlgorithmSpec, ...], estimators: tuple[EstimatorSpec, ...]
) -> GivenPlugin:
    return GivenPlugin(namespace, None if module is None else importlib.import_module(module), algorithms, estimators)


def _hook(name: str, specs: Sequence[AlgorithmSpec | EstimatorSpec]) -> object:
    def hook(host: Host) -> list[AlgorithmSpec | EstimatorSpec]:
        return list(specs)

    hook.__name__ = name
    return hookimpl(hook)


class _Distribution(metadata.Distribution):
    """Where a given plugin says that it comes from."""

    def __init__(self, name: str) -> None:
        self._name = name

    def read_text(self, filename: str) -> str | None:
        return f"Metadata-Version: 2.1\nName: {self._name}\nVersion: 0\n" if filename == "METADATA" else None

    def locate_file(self, path: str | os.PathLike[str]) -> Any:
        return Path(path)


class _EntryPoint(metadata.EntryPoint):
    """An entry point that loads a given plugin."""

    def __init__(self, plugin: GivenPlugin) -> None:
        super().__init__(name=plugin.namespace, value=plugin.namespace, group=_GROUP)
        # Entry points refuse assignment.
        vars(self).update(plugin=plugin, dist=_Distribution(f"test-{plugin.namespace}"))

    def load(self) -> types.ModuleType:
        plugin: GivenPlugin = vars(self)["plugin"]
        return plugin.load()


@dataclass(frozen=True, slots=True)
class _Points:
    """The entry points of a registry, asked for when it first needs them."""

    plugins: tuple[GivenPlugin, ...]
    isolated: bool

    def __iter__(self) -> Iterator[metadata.EntryPoint]:
        if not self.isolated:
            yield from metadata.entry_points(group=_GROUP)
        yield from map(_EntryPoint, self.plugins)


class GivenRegistry(Registry):
    """A registry with given plugins.

    Args:
        plugins: besides the built-ins.
        isolated: whether those are all; otherwise installed plugins are there too.

    Raises:
        PluginError: a given plugin cannot be loaded.
    """

    def __init__(self, plugins: Sequence[GivenPlugin], *, isolated: bool) -> None:
        self.plugins = tuple(plugins)
        self.isolated = isolated
        given = [plugin.namespace for plugin in plugins]
        allowed = given if isolated else None
        if not isolated and "PACKING_PLUGINS" in os.environ:
            allowed = [*(name.strip() for name in os.environ["PACKING_PLUGINS"].split(",")), *given]
        super().__init__(_Points(self.plugins, isolated), allowed)
        for plugin in self.plugins:
            self._require(plugin)

    def _require(self, plugin: GivenPlugin) -> None:
        """A test must not pass because what it tests was left out."""
        try:
            for spec in plugin.algorithms:
                self.find("algorithm", f"{plugin.namespace}/{spec.name}")
            for other in plugin.estimators:
                self.find("estimator", f"{plugin.namespace}/{other.name}")
            if plugin.module is not None:
                self._require_any(plugin.namespace)
        except (UnknownNameError, PluginWarning) as error:
            raise PluginError(f"plugin {plugin.namespace!r} cannot be used: {error}") from error

    def _require_any(self, namespace: str) -> None:
        """A module's offers are known only when it was asked."""
        for row in self.listing():
            if row["kind"] == "plugin" and row["name"] == namespace:
                raise PluginError(f"plugin {namespace!r} cannot be used: {row['error']}.")


@contextmanager
def isolated_registry(**plugins: types.ModuleType) -> Iterator[Registry]:
    """While the block runs, names mean built-ins and the given plugins; no entry point of an installed one is seen.

    Every thread sees it. What was before is restored afterwards, whatever happened.

    Args:
        plugins: namespace = module with hooks, which is what an entry point names.

    Raises:
        PluginError: a given plugin cannot be loaded.

    Example:
        with isolated_registry(acme=packing_acme):
            plan = Planner(data_parallel_size=8, algorithm="acme/zigzag").plan(lengths)
    """
    for namespace, module in plugins.items():
        if not isinstance(module, types.ModuleType):
            raise ConfigError(f"`{namespace}` must be a module with hooks, but got {module!r}.")
    given = [GivenPlugin(namespace, module) for namespace, module in plugins.items()]
    with use_registry(GivenRegistry(given, isolated=True)) as registry:
        yield registry


@contextmanager
def temporary_plugin(
    namespace: str, *, algorithms: Sequence[AlgorithmSpec] = (), estimators: Sequence[EstimatorSpec] = ()
) -> Iterator[Registry]:
    """While the block runs, there is one more plugin; what could be named before still can.

    Every thread sees it. What was before is restored afterwards, whatever happened. Inside `isolated_registry`, and
    inside another temporary plugin, it adds to those.

    Args:
        namespace: as an entry point would be called, `[a-z][a-z0-9_]*`.
        algorithms, estimators: what the plugin offers; at least one spec. For checks in a new process their factories
            must be "module:attribute" or importable by name.

    Raises:
        PluginError: nothing is offered, the namespace is taken or malformed, or a spec is refused.
    """
    if not algorithms and not estimators:
        raise PluginError(f"plugin {namespace!r} must offer at least one algorithm or estimator.")
    plugin = GivenPlugin(namespace, None, tuple(algorithms), tuple(estimators))
    current = get_registry()
    before, isolated = (current.plugins, current.isolated) if isinstance(current, GivenRegistry) else ((), False)
    with use_registry(GivenRegistry([*before, plugin], isolated=isolated)) as registry:
        yield registry
