"""A hook that returns names instead of specs."""

from packing.plugin import hookimpl


@hookimpl
def packing_algorithms(host):
    return "lpt"
