"""Effort: how much a search may look at, as a count, never as a time."""

from __future__ import annotations

from typing import Any

from packing import _checks
from packing._checks import shown
from packing.errors import ConfigError

__all__ = ["Effort", "checks_of", "effort_of"]

Effort = str | int

_CHECKS_PER_SAMPLE = {"fast": 128, "normal": 1536, "thorough": 131072}
_MOST_CHECKS = {"fast": 1 << 22, "normal": 1 << 25, "thorough": 1 << 40}
"""Of a whole step; with very many samples a rank even a few exchanges come close to the bound."""

_LEAST_SAMPLES = 2048
"""Steps with fewer samples get the checks of so many: a hard one needs them, and they take a few milliseconds."""


def effort_of(name: str, value: Any) -> Effort:
    """A checked setting: "fast", "normal", "thorough", or a positive number of checks per sample.

    Raises:
        ConfigError: it is neither.
    """
    if isinstance(value, str):
        if value not in _CHECKS_PER_SAMPLE:
            names = ", ".join(map(repr, _CHECKS_PER_SAMPLE))
            raise ConfigError(f"`{name}` must be one of {names}, or a positive integer, but got {shown(value)}.")
        return value
    return _checks.integer(name, value, minimum=1, maximum=1 << 32)


def checks_of(effort: Effort, num_samples: int) -> int:
    """Most checks of a step with this many samples; one takes a nanosecond or two."""
    if isinstance(effort, int):
        return effort * num_samples
    return min(_CHECKS_PER_SAMPLE[effort] * max(num_samples, _LEAST_SAMPLES), _MOST_CHECKS[effort])
