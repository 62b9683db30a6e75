"""A hook that raises."""

from packing.plugin import hookimpl


@hookimpl
def packing_algorithms(host):
    raise RuntimeError("no licence server")
