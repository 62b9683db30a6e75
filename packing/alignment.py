"""Alignment: to what multiples segments and rows are rounded up, the same for the planner and for the rows it makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from packing import _checks
from packing._checks import Int64Array, shown
from packing.errors import ConfigError

__all__ = ["Alignment"]


@dataclass(frozen=True, slots=True)
class Alignment:
    """Every segment takes a multiple of `segment` columns of its row, and a row ends at a multiple of `row`.

    Context and tensor parallelism ask for segments of 2 * cp * tp, low-precision and expert-parallel kernels for rows
    of 16, 32 or 128. A plain integer stands for an alignment of segments alone, a mapping for {"segment": s, "row": r}.

    Args:
        segment: at least 1.
        row: at least 1; a fixed row length must be a multiple of it.
    """

    segment: int = 1
    row: int = 1

    def __post_init__(self) -> None:
        for name in ("segment", "row"):
            value = _checks.integer(f"alignment.{name}", getattr(self, name), minimum=1, maximum=_checks.LARGEST)
            object.__setattr__(self, name, value)

    @classmethod
    def of(cls, value: Any) -> Alignment:
        """The alignment that an integer, a mapping or an `Alignment` describes.

        Raises:
            ConfigError: anything else, or a value below 1.
        """
        if isinstance(value, Alignment):
            return value
        if not isinstance(value, Mapping):
            return cls(segment=_checks.integer("alignment", value, minimum=1, maximum=_checks.LARGEST))
        unknown = [key for key in value if key not in ("segment", "row")]
        if unknown:
            raise ConfigError(f"`alignment` must have the keys segment and row, but got {shown(unknown[0])}.")
        return cls(**value)

    def aligned(self, lengths: Int64Array) -> Int64Array:
        """int64[N]: the columns that segments of these lengths take."""
        return lengths if self.segment == 1 else -(-lengths // self.segment) * self.segment

    def check_row_length(self, name: str, length: int) -> None:
        """Raises a ConfigError if rows of a fixed length do not end at a multiple of `row`."""
        if length % self.row:
            raise ConfigError(f"`{name}` must be a multiple of the row alignment {self.row}, but got {length}.")
