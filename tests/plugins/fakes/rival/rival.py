"""Offers a name that `good_one` has too, and one that is built in."""

from __future__ import annotations

from packing.plugin import AlgorithmSpec, hookimpl


class Rival:
    def assign(self, problem):
        raise AssertionError("the rival must not be asked")


@hookimpl
def packing_algorithms(host):
    return [AlgorithmSpec("snake", Rival), AlgorithmSpec("lpt", Rival)]
