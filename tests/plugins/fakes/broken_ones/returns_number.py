"""A hook that returns a number."""

from packing.plugin import hookimpl


@hookimpl
def packing_algorithms(host):
    return 5
