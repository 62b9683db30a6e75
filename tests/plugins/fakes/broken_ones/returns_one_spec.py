"""A hook that returns a spec instead of a list of them."""

from packing.plugin import AlgorithmSpec, hookimpl


@hookimpl
def packing_algorithms(host):
    return AlgorithmSpec("single", "json:loads")
