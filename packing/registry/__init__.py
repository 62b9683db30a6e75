"""Names to instances: the only place where names are resolved."""

from __future__ import annotations

from typing import Any

from packing.registry._registry import Offer, PluginWarning, Registry
from packing.registry._resolve import Resolved, resolve

__all__ = [
    "Offer",
    "PluginWarning",
    "Registry",
    "Resolved",
    "get_registry",
    "listing",
    "resolve_algorithm",
    "resolve_estimator",
]

# Not `_registry`: that is a module of this package.
_shared: Registry | None = None


def get_registry() -> Registry:
    """The process's registry, made on first use."""
    global _shared
    if _shared is None:
        _shared = Registry()
    return _shared


def resolve_algorithm(config: Any) -> Resolved:
    """The balancing algorithm that a config means; see `packing.registry._resolve.resolve`."""
    return resolve(get_registry(), "algorithm", config)


def resolve_estimator(config: Any) -> Resolved:
    """The workload estimator that a config means; see `packing.registry._resolve.resolve`."""
    return resolve(get_registry(), "estimator", config)


def listing() -> list[dict[str, Any]]:
    """What `packing plugins` shows: one row per offer, one per plugin that failed."""
    return get_registry().listing()
