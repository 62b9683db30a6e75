"""Identities: hashes by which ranks find out that they agree."""

from __future__ import annotations

import hashlib
import json
import platform
from typing import Any

import numpy as np

from packing import _kernels
from packing._version import __version__
from packing.problem import Problem
from packing.row_layout import RowLayout

__all__ = ["environment", "inputs_digest", "layout_digest", "settings_fingerprint"]


def inputs_digest(problem: Problem) -> str:
    """Hash of the inputs that a plan does not hold itself, in key order."""
    digest = hashlib.sha256()
    reference = problem.reference
    columns = {
        "footprints": problem.footprints,
        "budgets": problem.budgets,
        "pad_cost": problem.pad_cost,
        "components": problem.components,
        "group": problem.group,
        "forbid": problem.forbid,
        "reference_offsets": None if reference is None else reference.offsets,
        "reference_items": None if reference is None else reference.items,
    }
    for name, column in columns.items():
        if column is not None:
            digest.update(name.encode())
            digest.update(np.ascontiguousarray(column, "<i8").tobytes())
    return digest.hexdigest()


def settings_fingerprint(*settings: Any) -> str:
    """Hash of settings that JSON can hold, or whose text says all about them."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode()).hexdigest()


def layout_digest(fingerprint: str, layout: RowLayout, *columns: Any) -> str:
    """Hash of a fingerprint, of the segments of every row, and of further columns of integers."""
    head = [fingerprint, layout.num_sequences, layout.row_length, layout.alignment.segment, layout.alignment.row]
    digest = hashlib.sha256(json.dumps(head).encode())
    segments = (layout.row_offsets, layout.sequences, layout.starts, layout.lengths, layout.footprints)
    for column in (*segments, *columns):
        digest.update(np.ascontiguousarray(column, "<i8").tobytes())
    return digest.hexdigest()


def environment() -> dict[str, str]:
    """Backend and versions, for information only."""
    return {
        "kernels": _kernels.backend,
        "numpy": np.__version__,
        "packing": __version__,
        "python": platform.python_version(),
    }
