"""Blame: an exception out of somebody's algorithm or estimator says whose it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from packing.errors import PackingError, PluginError

__all__ = ["blamed_on"]


@contextmanager
def blamed_on(kind: str, name: str) -> Iterator[None]:
    """Lets exceptions through as they are, with a note that names the algorithm or estimator.

    Raises:
        PluginError: instead of SystemExit, which would end a training job without a word.
    """
    try:
        yield
    except PackingError:
        raise
    except Exception as error:
        error.add_note(f"raised by {kind} {name!r}")
        raise
    except SystemExit as error:
        raise PluginError(f"{kind} {name!r} raised SystemExit({error.code!r}).") from error
