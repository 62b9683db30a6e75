"""A good module under a namespace with a capital letter."""

from packing.plugin import AlgorithmSpec, hookimpl


@hookimpl
def packing_algorithms(host):
    return [AlgorithmSpec("fine", "json:loads")]
