"""An estimator among the algorithms."""

from packing.plugin import EstimatorSpec, hookimpl


@hookimpl
def packing_algorithms(host):
    return [EstimatorSpec("mixed_up", "json:loads")]
