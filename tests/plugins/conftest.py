"""Registries over the fake distributions in `fakes/`, which are found the way installed ones are."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

import pytest

import packing.registry
from packing.registry import Registry

FAKES = Path(__file__).parent / "fakes"


@pytest.fixture
def registry_of(monkeypatch):
    """A function from names of fakes to the process's registry, which sees them and no other plugin."""
    monkeypatch.delenv("PACKING_PLUGINS", raising=False)

    def make(*names: str, allowed=None) -> Registry:
        folders = [str(FAKES / name) for name in names]
        for folder in folders:
            assert Path(folder).is_dir()
            monkeypatch.syspath_prepend(folder)
        found = metadata.distributions(path=folders)
        registry = Registry([point for one in found for point in one.entry_points.select(group="packing")], allowed)
        monkeypatch.setattr(packing.registry, "_shared", registry)
        return registry

    yield make
    for name, module in list(sys.modules.items()):
        if str(FAKES) in (getattr(module, "__file__", None) or ""):
            del sys.modules[name]
