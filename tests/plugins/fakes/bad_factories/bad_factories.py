"""Loads well; what its specs point at does not."""

from __future__ import annotations

import json

from packing.plugin import AlgorithmSpec, EstimatorSpec, hookimpl


class Raises:
    def __init__(self, **options) -> None:
        raise RuntimeError("no accelerator here")


def useless():
    return json


NUMBER = 7


@hookimpl
def packing_algorithms(host):
    return [
        AlgorithmSpec("raises", Raises),
        AlgorithmSpec("no_such_module", "a_library_that_is_not_there:Thing"),
        AlgorithmSpec("no_such_attribute", "bad_factories:Nothing"),
        AlgorithmSpec("not_callable", "bad_factories:NUMBER"),
        AlgorithmSpec("no_assign", useless),
    ]


@hookimpl
def packing_estimators(host):
    return [EstimatorSpec("no_columns", useless)]
