"""Fixtures for every test: where the data lies, which kernels exist."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

from packing import _fewest_bins, _kernels, _row_plans
from packing.algorithms import _effort

# Machines are shared: how long one example takes says nothing.
settings.register_profile("packing", deadline=None)
settings.load_profile("packing")

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"


def data_folder() -> Path:
    """The folder with `lengths/` and `instances/`; `PACKING_DATA` names another one."""
    return Path(os.environ.get("PACKING_DATA", SHARED / "data"))


def vectors_file() -> Path:
    """The golden vectors; `PACKING_VECTORS` names another file."""
    return Path(os.environ.get("PACKING_VECTORS", SHARED / "vectors" / "seed_algorithms.jsonl.gz"))


def golden_vectors() -> list[dict]:
    """The golden vectors, or none where the file is not here."""
    if not vectors_file().exists():
        return []
    with gzip.open(vectors_file(), "rt") as lines:
        return [json.loads(line) for line in lines]


@pytest.fixture(scope="session", autouse=True)
def affordable_efforts():
    """The named efforts stand for fewer checks and steps: thousands of plans are made, some by the slow plain twins.

    What is searched is the same; only less of it. Another process knows nothing of this: tests that compare its plans
    with others give the effort as a number.
    """
    with pytest.MonkeyPatch.context() as patch:
        if _kernels.backend == "reference":
            patch.setattr(_effort, "_CHECKS_PER_SAMPLE", {"fast": 2, "normal": 8, "thorough": 32})
            patch.setattr(_effort, "_LEAST_SAMPLES", 128)
            patch.setattr(_row_plans, "_FIRST_CHECKS", 1 << 12)
            patch.setattr(_row_plans, "_MORE_CHECKS", 1 << 13)
            for name, steps in (("fast", 2**12), ("normal", 2**17), ("thorough", 2**20)):
                patch.setitem(_fewest_bins.EFFORTS, name, steps)
        else:
            patch.setattr(_effort, "_CHECKS_PER_SAMPLE", {"fast": 16, "normal": 64, "thorough": 1024})
            patch.setattr(_effort, "_LEAST_SAMPLES", 1024)
        yield


@pytest.fixture(scope="session")
def lengths_of():
    """A function from the name of a length file to int64[N]: the sum of its token columns."""
    columns = {"servegen_mm_image": (0, 1, 3), "docs_mixed": (0,), "coco_captions_val2017": (0, 1)}

    def load(name: str) -> np.ndarray:
        path = data_folder() / "lengths" / f"{name}.npy"
        if not path.exists():
            pytest.skip(f"no length file {name}")
        rows = np.load(path).astype(np.int64)
        if rows.ndim == 1:
            return rows
        return rows[:, list(columns.get(name, (0, 1)))].sum(axis=1)

    return load
