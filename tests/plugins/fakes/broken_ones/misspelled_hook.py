"""A hook whose name is wrong."""

from packing.plugin import hookimpl


@hookimpl
def packing_algoritms(host):
    return []
