"""The registry: who offers which names, loaded as late as possible, broken plugins kept apart."""

from __future__ import annotations

import difflib
import os
import re
import threading
import time
import types
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pluggy

from packing._checks import shown
from packing._version import __version__
from packing.errors import AmbiguousNameError, PluginError, UnknownNameError
from packing.plugin import API_VERSION, AlgorithmSpec, EstimatorSpec, Host
from packing.registry import _builtins, _hooks

if TYPE_CHECKING:
    from importlib import metadata

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
        # A plugin that one thread is still loading must not look empty to another.
        self._lock = threading.RLock()
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
            with self._lock:
                return self._find_in(kind, namespace, bare)
        for offer in self._builtin.offers:
            if offer.kind == kind and offer.spec.name == name:
                return offer
        matches = [offer for offer in self.offers(kind) if offer.spec.name == name]
        if len(matches) > 1:
            names = " or ".join(f'"{offer.full_name}" ({offer.distribution})' for offer in matches)
            raise AmbiguousNameError(f"`{kind}` {name!r} is offered by more than one plugin; choose {names}.")
        if not matches:
            raise self._unknown(kind, name, None)
        return matches[0]

    def offers(self, kind: Kind) -> list[Offer]:
        """Every offer of a kind, built-ins first, then by namespace; loads every plugin that is allowed."""
        with self._lock:
            plugins = [self._builtin, *self._plugins().values()]
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
        for plugin in [self._builtin, *self._plugins().values(), *self._failures]:
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
            if plugin.error:
                row = {"name": plugin.namespace, "kind": "plugin", "summary": "", "capabilities": []}
                rows.append(row | common)
        return rows

    def _find_in(self, kind: Kind, namespace: str, name: str) -> Offer:
        """The offer of one plugin; loads no other, unless there is no such offer and names must be suggested."""
        plugin = self._builtin if namespace == BUILTIN else self._plugins().get(namespace)
        failed = [one.error for one in self._failures if one.namespace == namespace]
        if plugin is None:
            reason = failed[0] if failed else f"no plugin {namespace!r} is installed"
        else:
            self._load(plugin)
            for offer in plugin.offers:
                if offer.kind == kind and offer.spec.name == name:
                    return offer
            reason = plugin.error or f"plugin {namespace!r} offers no {kind} {name!r}"
        raise self._unknown(kind, f"{namespace}/{name}", reason)

    def _plugins(self) -> dict[str, _Plugin]:
        """Third parties by namespace, in order; the first call scans the installed distributions."""
        if self._third_parties is None:
            found: dict[str, list[_Plugin]] = {}
            for plugin in self._scan():
                if plugin.error:
                    self._failures.append(plugin)
                else:
                    found.setdefault(plugin.namespace, []).append(plugin)
            # Warnings can be exceptions: nothing is said before everything is recorded.
            self._third_parties = {}
            for namespace, plugins in sorted(found.items()):
                reason = _wrong_namespace(namespace, plugins)
                if self._allowed is not None and namespace not in self._allowed:
                    plugins[0].loaded, plugins[0].error = True, "not in PACKING_PLUGINS"
                    self._third_parties[namespace] = plugins[0]
                elif reason:
                    plugins[0].loaded, plugins[0].error = True, reason
                    self._failures.append(plugins[0])
                else:
                    self._third_parties[namespace] = plugins[0]
            for plugin in self._failures:
                _warn(plugin)
        return self._third_parties

    def _scan(self) -> list[_Plugin]:
        """Every entry point of the group, not loaded."""
        if self._entry_points is not None:
            return [_plugin_of(point, point.dist) for point in self._entry_points]
        from importlib import metadata  # costs more than a plan; built-in names do without

        try:
            return [_plugin_of(point, point.dist) for point in metadata.entry_points(group=ENTRY_POINT_GROUP)]
        except Exception:  # one unreadable distribution, anybody's, must not hide the others
            return list(_scan_one_by_one())

    def _load(self, plugin: _Plugin) -> None:
        """Fills the plugin's offers; whatever goes wrong is recorded, warned about once, and touches nothing else."""
        if plugin.loaded:
            return
        plugin.loaded = True
        start = time.perf_counter()
        try:
            module = plugin.load()
            if not isinstance(module, types.ModuleType):
                raise PluginError(f"its entry point must name a module, but got {shown(module)}")
            self._manager.register(module, name=plugin.namespace)
            self._manager.check_pending()
            plugin.offers = tuple(self._ask(plugin, module))
        except (Exception, SystemExit) as error:  # a plugin may raise anything; that is why it is kept apart
            # By name: the module itself may be registered for another namespace.
            if self._manager.has_plugin(plugin.namespace):
                self._manager.unregister(name=plugin.namespace)
            plugin.error = str(error) if isinstance(error, PluginError) else f"{type(error).__name__}: {error}"
        plugin.load_seconds = time.perf_counter() - start
        if plugin.error:
            _warn(plugin)

    def _ask(self, plugin: _Plugin, module: types.ModuleType) -> list[Offer]:
        others = [one for one in self._manager.get_plugins() if one is not module]
        implemented = {caller.name for caller in self._manager.get_hookcallers(module) or ()}
        if not implemented & set(_HOOKS.values()):
            raise PluginError(
                f"it implements neither {' nor '.join(_HOOKS.values())}; a hook is a function of that name marked "
                "with @hookimpl"
            )
        offers: dict[tuple[str, str], Offer] = {}
        for kind, hook in _HOOKS.items():
            answers = self._manager.subset_hook_caller(hook, others)(host=Host())
            if hook in implemented and not answers:
                raise PluginError(f"{hook} must return {_SPECS[kind].__name__} objects, but returned None")
            for specs in answers:
                if isinstance(specs, str) or not isinstance(specs, Iterable):
                    raise PluginError(f"{hook} must return {_SPECS[kind].__name__} objects, but got {shown(specs)}")
                for spec in specs:
                    if not isinstance(spec, _SPECS[kind]):
                        raise PluginError(f"{hook} must return {_SPECS[kind].__name__} objects, but got {shown(spec)}")
                    if spec.api > API_VERSION:
                        raise PluginError(f"{spec.name!r} needs api {spec.api}, but this packing offers {API_VERSION}")
                    if (kind, spec.name) in offers:
                        raise PluginError(f"it offers the {kind} {spec.name!r} twice")
                    offers[kind, spec.name] = Offer(kind, plugin.namespace, spec, plugin.distribution, plugin.version)
        return list(offers.values())

    def _unknown(self, kind: Kind, name: str, reason: str | None) -> UnknownNameError:
        offers = self.offers(kind)
        known = [offer.spec.name if offer.namespace == BUILTIN else offer.full_name for offer in offers]
        parts = [f"`{kind}` {name!r} does not exist" + (f" ({reason})" if reason else "")]
        bare = {one.rpartition("/")[2]: one for one in reversed(known)}
        near = difflib.get_close_matches(name.rpartition("/")[2].lower(), bare, n=2)
        if near:
            parts.append(f"Did you mean {' or '.join(repr(bare[one]) for one in near)}?")
        parts.append(f"There are: {', '.join(known)}.")
        broken = [plugin for plugin in [*self._plugins().values(), *self._failures] if plugin.error]
        if broken:
            reasons = "; ".join(f"{plugin.namespace} ({plugin.error})" for plugin in broken)
            parts.append(f"Plugins that could not be loaded: {reasons}.")
        return UnknownNameError(parts[0] + ". " + " ".join(parts[1:]))


def _name_and_version(distribution: metadata.Distribution | None) -> tuple[str, str]:
    """What a distribution says about itself; folders left behind by an interrupted uninstall say nothing."""
    about: Any = {} if distribution is None else distribution.metadata or {}
    return about.get("Name") or "(unknown)", about.get("Version") or ""


def _plugin_of(point: metadata.EntryPoint, distribution: metadata.Distribution | None) -> _Plugin:
    return _Plugin(point.name, point.load, *_name_and_version(distribution))


def _scan_one_by_one() -> Iterator[_Plugin]:
    """The same entry points, distribution by distribution; one that cannot be read becomes a failure of its own."""
    from importlib import metadata

    seen = set()
    for distribution in metadata.distributions():
        name, version = _name_and_version(distribution)
        key = re.sub(r"[-_.]+", "-", name).lower()
        if key in seen:  # the first of a name on the path is the one that is imported
            continue
        seen.add(key)
        try:
            for point in distribution.entry_points.select(group=ENTRY_POINT_GROUP):
                yield _plugin_of(point, distribution)
        except Exception as error:
            reason = f"its entry points cannot be read: {type(error).__name__}: {error}"
            yield _Plugin(name, lambda: None, name, version, loaded=True, error=reason)


def _wrong_namespace(namespace: str, plugins: list[_Plugin]) -> str | None:
    """Why plugins cannot have this namespace, or None."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", namespace):
        return f"its namespace {namespace!r} must match [a-z][a-z0-9_]*"
    if namespace == BUILTIN:
        return f"its namespace {namespace!r} belongs to the built-ins"
    if len(plugins) > 1:
        return f"its namespace {namespace!r} is claimed by {' and '.join(sorted(one.distribution for one in plugins))}"
    return None


def _warn(plugin: _Plugin) -> None:
    source = f"{plugin.distribution} {plugin.version}".rstrip()
    warnings.warn(f"plugin {plugin.namespace!r} of {source} is left out: {plugin.error}", PluginWarning, stacklevel=3)
