"""A hook that raises half-way."""

from packing.plugin import AlgorithmSpec, hookimpl


@hookimpl
def packing_algorithms(host):
    yield AlgorithmSpec("half", "json:loads")
    raise RuntimeError("only half of it")
