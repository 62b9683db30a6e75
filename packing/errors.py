"""The error tree: every exception the package raises on purpose."""

from __future__ import annotations

__all__ = [
    "AmbiguousNameError",
    "AuditError",
    "ConfigError",
    "InfeasibleError",
    "NoCandidateError",
    "PackingError",
    "PluginError",
    "UnknownNameError",
    "UnsupportedProblemError",
]


class PackingError(Exception):
    """Base class of every error that the package raises on purpose."""


class ConfigError(PackingError, ValueError):
    """An option or an input has a wrong type or value; the message quotes its name and the value it got."""


class UnknownNameError(PackingError, LookupError):
    """No algorithm, estimator or objective of that name exists; the message lists what exists and the nearest names."""


class AmbiguousNameError(PackingError, LookupError):
    """Two plugins offer the same bare name; the message lists both full names."""


class PluginError(PackingError):
    """A plugin cannot be loaded or broke the registry's contract."""


class UnsupportedProblemError(PackingError):
    """The chosen algorithm does not declare a feature that the problem needs; the message names those that do."""


class InfeasibleError(PackingError, ValueError):
    """No layout can exist for this input; raised before any search, and names the sample or group and the limit."""


class NoCandidateError(PackingError):
    """The algorithm found no feasible layout and there is no reference to fall back on."""


class AuditError(PackingError):
    """An algorithm broke its contract; names the algorithm, the sample, the bin and the numbers."""
