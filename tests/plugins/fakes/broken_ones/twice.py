"""One name, offered twice."""

from packing.plugin import AlgorithmSpec, hookimpl


@hookimpl
def packing_algorithms(host):
    return [AlgorithmSpec("double", "json:loads"), AlgorithmSpec("double", "json:dumps")]
