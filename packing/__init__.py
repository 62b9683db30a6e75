"""Equal work on every data-parallel rank: balanced, capped, reproducible packing of training samples."""

from packing._version import __version__

__all__ = ["__version__"]
