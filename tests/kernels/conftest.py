"""One object per implementation of the kernels, so that a test runs every one and compares answers."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from types import ModuleType

import pytest

from packing import _kernels


@dataclass(frozen=True)
class Implementation:
    tag: str

    def module(self, name: str) -> ModuleType:
        path = f"packing._kernels._{name}" if self.tag == "compiled" else f"packing._reference.{name}"
        return importlib.import_module(path)


COMPILED, REFERENCE = Implementation("compiled"), Implementation("reference")


@pytest.fixture(params=[COMPILED, REFERENCE], ids=lambda one: one.tag)
def implementation(request: pytest.FixtureRequest) -> Implementation:
    if request.param is COMPILED and _kernels.backend == "reference":
        pytest.skip("the compiled kernels are switched off")
    return request.param


@pytest.fixture
def both() -> tuple[Implementation, Implementation]:
    """(compiled, reference); skipped where only one of them is there."""
    if _kernels.backend == "reference":
        pytest.skip("the compiled kernels are switched off")
    return COMPILED, REFERENCE
