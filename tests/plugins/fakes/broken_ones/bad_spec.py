"""A spec whose api is no number."""

from packing.plugin import AlgorithmSpec, hookimpl


@hookimpl
def packing_algorithms(host):
    return [AlgorithmSpec("texty", "json:loads", api="1")]
