"""Written for a version to come, which knows a capability that this one does not."""

from packing.plugin import AlgorithmSpec, hookimpl


@hookimpl
def packing_algorithms(host):
    return [AlgorithmSpec("tomorrow", "json:loads", api=2, capabilities={"teleport"})]
