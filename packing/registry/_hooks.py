"""The two hooks that a plugin can implement."""

from __future__ import annotations

from collections.abc import Iterable

import pluggy

from packing.plugin import AlgorithmSpec, EstimatorSpec, Host

hookspec = pluggy.HookspecMarker("packing")

# Specs have no body to return anything from: pluggy never calls them.


@hookspec
def packing_algorithms(host: Host) -> Iterable[AlgorithmSpec]:  # type: ignore[empty-body]
    """Returns the specs of the balancing algorithms that this plugin offers."""


@hookspec
def packing_estimators(host: Host) -> Iterable[EstimatorSpec]:  # type: ignore[empty-body]
    """Returns the specs of the workload estimators that this plugin offers."""
