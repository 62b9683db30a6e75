"""The registry: who offers which names, loaded as late as possible, broken plugins kept apart."""

from __future__ import annotations

import difflib
import os
import re
import time
import types
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Literal

import pluggy

from packing._version import __version__
from packing.errors import AmbiguousNameError, PluginError, UnknownNameError
from packing.plugin import API_VERSION, AlgorithmSpec, EstimatorSpec, Host
from packing.registry import _builtins, _hooks

__all__ = ["BUILTIN", "ENTRY_POINT_GROUP", "Offer", "PluginWarning", "Registry"]

ENTRY_POINT_GROUP = "packing"
BUILTIN = "packing"
"""The namespace of the built-in names."""

Kind = Literal["algorithm", "estimator"]
Spec = AlgorithmSpec | EstimatorSpec
_HOOKS: dict[Kind, str] = {"algorithm": "packing_algorithms", "estimator": "packing_estimators"}
_SPECS: dict[Kind, type[Spec]] = {"algorithm": AlgorithmSpec, "estimator": EstimatorSpec}


class PluginWarning(UserWarning):
    """A plugin could not be loaded and is left out."""


@dataclass(frozen=True, slots=True)
class Offer:
    """One name that one plugin offers.

    Attributes:
        kind: "algorithm" or "estimator".
        namespace: the plugin's entry-point name ("packing" for the built-ins).
        spec: what the plugin said about it.
        distribution, version: where it comes from.
    """

    kind: Kind
    namespace: str
    spec: Spec
    distribution: str
    version: str

    @property
    def full_name(self) -> str:
        """ "namespace/name"."""
        return f"{self.namespace}/{self.spec.name}"


@dataclass(slots=True)
class _Plugin:
    """A plugin as found; `offers` and `error` are filled when it is loaded."""

    namespace: str
    load: Callable[[], Any]
    distribution: str
    version: str
    allowed: bool = True
    loaded: bool = False
    load_seconds: float = 0.0
    offers: tuple[Offer, ...] = ()
    error: str | None = None


class Registry:
    """Finds offers by name. Read-only from outside: plugins come from entry points, once, at the first need.

    Args:
        entry_points: where to look for plugins; None asks the installed distributions when a name needs them.
        allowed: namespaces that may be loaded; None reads `PACKING_PLUGINS` (comma-separated; unset: all; empty: none).
    """

    def __init__(
        self, entry_points: Iterable[metadata.EntryPoint] | None = None, allowed: Iterable[str] | None = None
    ) -> None:
        self._manager = pluggy.PluginManager("packing")
        self._manager.add_hookspecs(_hooks)
        self._entry_points = entry_points
        if allowed is None and "PACKING_PLUGINS" in os.environ:
            allowed = [name.strip() for name in os.environ["PACKING_PLUGINS"].split(",") if name.strip()]
        self._allowed = None if allowed is None else frozenset(allowed)
        self._third_parties: dict[str, _Plugin] | None = None
        self._failures: list[_Plugin] = []
        self._builtin = _Plugin(BUILTIN, lambda: _builtins, "packing", __version__)
        self._load(self._builtin)
        if self._builtin.error:
            raise PluginError(self._builtin.error)

    def find(self, kind: Kind, name: str) -> Offer:
        """The offer that a bare name or "plugin/name" means.

        Raises:
            UnknownNameError, AmbiguousNameError: nothing, or more than one plugin, offers it.
        """
        namespace, slash, bare = name.rpartition("/")
        if slash:
            plugin = self._builtin if namespace == BUILTIN else self._plugins().get(namespace)
            if plugin is None:
                raise self._unknown(kind, name, f"no plugin {namespace!r} is installed")
            self._load(plugin)
            for offer in plugin.offers:
                if offer.kind == kind and offer.spec.name == bare:
                    return offer
            raise self._unknown(kind, name, plugin.error or f"plugin {namespace!r} offers no {kind} {bare!r}")
        for offer in self._builtin.offers:
            if offer.kind == kind and offer.spec.name == name:
                return offer
        matches = [offer for offer in self.offers(kind) if offer.spec.name == name]
        if len(matches) > 1:
            names = " and ".join(f'"{offer.full_name}" ({offer.distribution})' for offer in matches)
            raise AmbiguousNameError(f"`{kind}` {name!r} is offered by more than one plugin; choose {names}.")
        if not matches:
            raise self._unknown(kind, name, None)
        return matches[0]

    def offers(self, kind: Kind) -> list[Offer]:
        """Every offer of a kind, built-ins first, then by namespace; loads every plugin that is allowed."""
        plugins = [self._builtin, *(plugin for _, plugin in sorted(self._plugins().items()))]
        for plugin in plugins:
            self._load(plugin)
        return [offer for plugin in plugins for offer in plugin.offers if offer.kind == kind]

    def listing(self) -> list[dict[str, Any]]:
        """One row per offer and one per plugin that failed; imports no factory.

        Returns:
            dicts with name, kind, distribution, version, load_seconds, summary, capabilities, error.
        """
        for kind in _HOOKS:
            self.offers(kind)
        rows = []
        plugins = [self._builtin, *(plugin for _, plugin in sorted(self._plugins().items())), *self._failures]
        for plugin in plugins:
            common = {
                "distribution": plugin.distribution,
                "version": plugin.version,
                "load_seconds": plugin.load_seconds,
                "error": plugin.error,
            }
            for offer in plugin.offers:
                name = offer.spec.name if plugin is self._builtin else offer.full_name
                capabilities = sorted(offer.spec.capabilities)
                rows.append(
                    {"name": name, "kind": offer.kind, "summary": offer.spec.summary, "capabilities": capabilities}
                    | common
                )
            if plugin.error or not plugin.allowed:
                reason = plugin.error or "not in PACKING_PLUGINS"
                row = {"name": plugin.namespace, "kind": "plugin", "summary": "", "capabilities": []}
                rows.append(row | common | {"error": reason})
        return rows

    def _plugins(self) -> dict[str, _Plugin]:
        """Third parties by namespace; the first call scans the installed distributions."""
        if self._third_parties is None:
            points = self._entry_points
            found: dict[str, list[_Plugin]] = {}
            for point in metadata.entry_points(group=ENTRY_POINT_GROUP) if points is None else points:
                source = point.dist
                plugin = _Plugin(
                    point.name,
                    point.load,
                    "(unknown)" if source is None else source.name,
                    "" if source is None else source.version,
                    allowed=self._allowed is None or point.name in self._allowed,
                )
                found.setdefault(point.name, []).append(plugin)
            self._third_parties = {}
            for namespace, plugins in sorted(found.items()):
                plugin = plugins[0]
                owners = sorted({one.distribution for one in plugins})
                if not re.fullmatch(r"[a-z][a-z0-9_]*", namespace):
                    self._fail(plugin, f"its namespace {namespace!r} must match [a-z][a-z0-9_]*")
                elif namespace == BUILTIN:
                    self._fail(plugin, f"its namespace {namespace!r} belongs to the built-ins")
                elif len(plugins) > 1:
                    self._fail(plugin, f"its namespace {namespace!r} is claimed by {' and '.join(owners)}")
                else:
                    self._third_parties[namespace] = plugin
                    continue
                self._failures.append(plugin)
        return self._third_parties

    def _load(self, plugin: _Plugin) -> None:
        """Fills the plugin's offers; whatever goes wrong is recorded, warned about once, and touches nothing else."""
        if plugin.loaded or not plugin.allowed:
            return
        plugin.loaded = True
        start = time.perf_counter()
        module = None
        try:
            module = plugin.load()
            if not isinstance(module, types.ModuleType):
                raise PluginError(f"its entry point must name a module, but got {type(module)!r}")
            self._manager.register(module, name=plugin.namespace)
            self._manager.check_pending()
            if not self._manager.get_hookcallers(module):
                raise PluginError("it implements neither packing_algorithms nor packing_estimators")
            plugin.offers = tuple(self._ask(plugin, module))
        except Exception as error:  # a plugin may raise anything; that is why it is kept apart
            if module is not None and self._manager.is_registered(module):
                self._manager.unregister(module)
            self._fail(plugin, f"{type(error).__name__}: {error}")
        plugin.load_seconds = time.perf_counter() - start

    def _ask(self, plugin: _Plugin, module: types.ModuleType) -> list[Offer]:
        others = [one for one in self._manager.get_plugins() if one is not module]
        offers: dict[tuple[str, str], Offer] = {}
        for kind, hook in _HOOKS.items():
            for specs in self._manager.subset_hook_caller(hook, others)(host=Host()):
                for spec in specs:
                    if not isinstance(spec, _SPECS[kind]):
                        raise PluginError(f"{hook} must return {_SPECS[kind].__name__} objects, but got {spec!r}")
                    if spec.api > API_VERSION:
                        raise PluginError(f"{spec.name!r} needs api {spec.api}, but this packing offers {API_VERSION}")
                    if (kind, spec.name) in offers:
                        raise PluginError(f"it offers the {kind} {spec.name!r} twice")
                    offers[kind, spec.name] = Offer(kind, plugin.namespace, spec, plugin.distribution, plugin.version)
        return list(offers.values())

    def _fail(self, plugin: _Plugin, reason: str) -> None:
        plugin.loaded, plugin.error = True, reason
        warnings.warn(
            f"plugin {plugin.namespace!r} of {plugin.distribution} {plugin.version} is left out: {reason}",
            PluginWarning,
            stacklevel=2,
        )

    def _unknown(self, kind: Kind, name: str, reason: str | None) -> UnknownNameError:
        offers = self.offers(kind)
        known = [offer.spec.name if offer.namespace == BUILTIN else offer.full_name for offer in offers]
        parts = [f"`{kind}` {name!r} does not exist" + (f" ({reason})" if reason else "")]
        bare = {one.rpartition("/")[2]: one for one in reversed(known)}
        near = difflib.get_close_matches(name.rpartition("/")[2], bare, n=2)
        if near:
            parts.append(f"Did you mean {' or '.join(repr(bare[one]) for one in near)}?")
        parts.append(f"There are: {', '.join(known)}.")
        broken = [plugin for plugin in [*self._plugins().values(), *self._failures] if plugin.error]
        if broken:
            reasons = "; ".join(f"{plugin.namespace} ({plugin.error})" for plugin in broken)
            parts.append(f"Plugins that could not be loaded: {reasons}.")
        return UnknownNameError(parts[0] + ". " + " ".join(parts[1:]))
