"""From a trainer's config to an instance: the config grammar and the binding of options."""

from __future__ import annotations

import copy
import difflib
import functools
import importlib
import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from packing._checks import shown
from packing.errors import ConfigError, PluginError
from packing.plugin import CAPABILITIES, plain_options
from packing.registry._registry import Kind, Offer, Registry

__all__ = ["Resolved", "resolve"]


@dataclass(frozen=True, slots=True)
class Resolved:
    """An algorithm or estimator, ready to be called, and where it came from.

    Attributes:
        name: the name as users know it: bare for built-ins, "plugin/name", or "module:qualname" of an object.
        instance: what `assign` or the call is asked of.
        capabilities: declared features (algorithms).
        options: the options of the config, JSON values.
        objective: the objective that the config of the algorithm asks for, a name or a mapping, or None.
        distribution, version: where it comes from ("" for an object that was handed in).
        record_style: True for an algorithm whose `assign` takes bins of sample keys (the keyword `reference_bins`)
            instead of a Problem; the planner adapts it.
    """

    name: str
    instance: Any
    capabilities: frozenset[str]
    options: Mapping[str, Any]
    objective: Any
    distribution: str
    version: str
    record_style: bool = False

    def identity(self) -> list[Any]:
        """What `config_fingerprint` hashes; options included, `objective` not (it is a setting of the planner)."""
        return [self.name, self.distribution, self.version, dict(self.options)]


def resolve(registry: Registry, kind: Kind, config: Any) -> Resolved:
    """An instance for a config: a name, a mapping with "name" and options, a class or factory, or an object.

    The caller's mapping is not changed.

    Raises:
        ConfigError: the config or an option has a wrong type, or an option does not exist.
        UnknownNameError, AmbiguousNameError: see `Registry.find`.
        PluginError: the factory cannot be imported or raises.
    """
    if isinstance(config, str):
        return _named(registry.find(kind, config), {})
    if isinstance(config, Mapping):
        options = dict(config)
        name = options.pop("name", None)
        if not isinstance(name, str):
            raise ConfigError(f'`{kind}` must have a "name" that is text, but got {shown(name)}.')
        return _named(registry.find(kind, name), plain_options(options))
    ready = hasattr(config, "assign") if kind == "algorithm" else callable(config) and hasattr(config, "columns")
    if ready and not inspect.isclass(config):
        return _object(kind, config, config)
    if inspect.isclass(config) or (kind == "algorithm" and callable(config)):
        return _object(kind, _call(kind, shown(config), config, _parameters(config), {}), config)
    raise ConfigError(
        f"`{kind}` must be a name, a mapping with a name, a class or factory, or an object with "
        f"{'`assign`' if kind == 'algorithm' else '`columns` and a call'}, but got {shown(config)}."
    )


def _named(offer: Offer, options: dict[str, Any]) -> Resolved:
    name = offer.spec.name if offer.namespace == "packing" else offer.full_name
    factory = _factory(offer)
    objective = options.get("objective") if offer.kind == "algorithm" else None
    accepted = copy.deepcopy(options)  # what the factory does with them must not change what is recorded
    parameters = _parameters(factory)
    if offer.kind == "algorithm" and "objective" not in (parameters or {}):
        accepted.pop("objective", None)
    instance = _call(offer.kind, name, factory, parameters, accepted)
    _check_instance(offer.kind, name, instance)
    recorded = {key: value for key, value in options.items() if key != "objective" or offer.kind != "algorithm"}
    capabilities = frozenset(offer.spec.capabilities)
    record_style = offer.kind == "algorithm" and _is_record_style(instance)
    if record_style and objective is not None and "objective" not in accepted:
        raise ConfigError(
            f"`algorithm` {name!r} has no option `objective` (got {shown(objective)}); it has an objective of its own."
        )
    return Resolved(name, instance, capabilities, recorded, objective, offer.distribution, offer.version, record_style)


def _object(kind: Kind, instance: Any, source: Any) -> Resolved:
    if isinstance(source, functools.partial):
        source = source.func
    owner = source if inspect.isclass(source) or inspect.isroutine(source) else type(source)
    name = f"{owner.__module__}:{owner.__qualname__}"
    _check_instance(kind, name, instance)
    capabilities = getattr(instance, "capabilities", ())
    if isinstance(capabilities, str) or not isinstance(capabilities, Collection):
        raise PluginError(f"`capabilities` of {kind} {name!r} must be a set of names, but got {shown(capabilities)}.")
    unknown = sorted(set(capabilities) - CAPABILITIES, key=str)
    if unknown:
        known = ", ".join(sorted(CAPABILITIES))
        raise PluginError(f"`capabilities` of {kind} {name!r} must be among {known}, but got {unknown}.")
    record_style = kind == "algorithm" and _is_record_style(instance)
    return Resolved(name, instance, frozenset(capabilities), {}, None, "", "", record_style)


def _check_instance(kind: Kind, name: str, instance: Any) -> None:
    if kind == "algorithm" and not callable(getattr(instance, "assign", None)):
        raise PluginError(f"algorithm {name!r} has no method `assign`: got {shown(instance)}.")
    if kind == "estimator":
        if not (callable(instance) and hasattr(instance, "columns")):
            raise PluginError(f"estimator {name!r} must have `columns` and be callable: got {shown(instance)}.")
        columns = instance.columns
        names = isinstance(columns, Collection) and not isinstance(columns, str)
        if not names or any(not isinstance(column, str) for column in columns):
            raise PluginError(f"`columns` of estimator {name!r} must be names of columns, but got {shown(columns)}.")


def _is_record_style(instance: Any) -> bool:
    """By signature, never by class: `assign` takes the keyword `reference_bins`."""
    function = getattr(instance.assign, "__func__", instance.assign)
    return _takes_reference(function) if inspect.isfunction(function) else _takes_reference.__wrapped__(function)


@functools.lru_cache(maxsize=64)
def _takes_reference(function: Callable[..., Any]) -> bool:
    # Reading a signature takes as long as the rest of resolving a name: kept for functions, which are hashable.
    taken = (_parameters(function) or {}).get("reference_bins")
    return taken is not None and taken.kind in (taken.POSITIONAL_OR_KEYWORD, taken.KEYWORD_ONLY)


def _factory(offer: Offer) -> Callable[..., Any]:
    factory = offer.spec.factory
    if callable(factory):
        return factory
    module, _, attribute = factory.partition(":")
    try:
        found = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except Exception as error:
        raise PluginError(f"{offer.kind} {offer.full_name!r}: cannot import {factory!r}: {error}") from error
    if not callable(found):
        raise PluginError(f"{offer.kind} {offer.full_name!r}: {factory!r} must be callable, but got {shown(found)}.")
    return found


def _parameters(factory: Callable[..., Any]) -> Mapping[str, inspect.Parameter] | None:
    try:
        return inspect.signature(factory).parameters
    except (TypeError, ValueError):
        return None


def _call(
    kind: Kind,
    name: str,
    factory: Callable[..., Any],
    parameters: Mapping[str, inspect.Parameter] | None,
    options: dict[str, Any],
) -> Any:
    if parameters is not None:
        keywords = [
            key
            for key, parameter in parameters.items()
            if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        ]
        anything = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
        for key, value in options.items():
            if key not in keywords and not anything:
                near = difflib.get_close_matches(key, keywords, n=1)
                hint = f" Did you mean `{near[0]}`?" if near else ""
                has = ", ".join(f"`{one}`" for one in keywords) or "none"
                raise ConfigError(
                    f"`{kind}` {name!r} has no option `{key}` (got {shown(value)}); its options: {has}.{hint}"
                )
        needed = [k for k in keywords if parameters[k].default is inspect.Parameter.empty and k not in options]
        if needed:
            raise ConfigError(f"`{kind}` {name!r} needs the option `{needed[0]}`.")
    try:
        return factory(**options)
    except (ConfigError, PluginError):
        raise
    except Exception as error:
        raise PluginError(f"{kind} {name!r} could not be made: {type(error).__name__}: {error}") from error
