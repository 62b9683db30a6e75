"""Names to instances: the only place where names are resolved."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
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
    "use_registry",
]

# Not `_registry`: that is a module of this package.
_shared: Registry | None = None
# What tests put in its place, the last one in force.
_in_place: list[Registry] = []
_in_place_lock = threading.Lock()


def get_registry() -> Registry:
    """The process's registry, made on first use."""
    global _shared
    if _in_place:
        return _in_place[-1]
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


@contextmanager
def use_registry(registry: Registry) -> Iterator[Registry]:
    """While the block runs, names mean what `registry` says, in every thread; for tests of plugins.

    Blocks may nest, and may end in another order than they began (threads): the one entered last counts.
    """
    with _in_place_lock:
        _in_place.append(registry)
    try:
        yield registry
    finally:
        with _in_place_lock:
            del _in_place[max(at for at, one in enumerate(_in_place) if one is registry)]
