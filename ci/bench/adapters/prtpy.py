"""prtpy: partitioning and packing in Python; its partitions know no cap."""

import prtpy

from adapters import Method, Step


def pack(step: Step) -> list[list[int]]:
    items = dict(enumerate(step.lengths))
    return prtpy.pack(algorithm=prtpy.packing.first_fit_decreasing, binsize=step.capacity, items=items)


def kk(step: Step) -> list[list[int]]:
    items = dict(enumerate(step.costs))
    return prtpy.partition(algorithm=prtpy.partitioning.kk, numbins=step.ranks, items=items)


def multifit(step: Step) -> list[list[int]]:
    items = dict(enumerate(step.costs))
    return prtpy.partition(algorithm=prtpy.partitioning.multifit, numbins=step.ranks, items=items)


DISTRIBUTION = "prtpy"
METHODS = {
    "first_fit_decreasing": Method(("packs",), pack, slow=True),
    "kk": Method(("balance", "capped"), kk),
    "multifit": Method(("balance", "capped"), multifit),
}
