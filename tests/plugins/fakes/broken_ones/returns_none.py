"""A hook whose author forgot to return."""

from packing.plugin import AlgorithmSpec, hookimpl


@hookimpl
def packing_algorithms(host):
    AlgorithmSpec("forgotten", "json:loads")
