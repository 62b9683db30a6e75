"""A hook whose argument is wrong."""

from packing.plugin import hookimpl


@hookimpl
def packing_algorithms(hosts):
    return []
