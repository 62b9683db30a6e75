"""Atomic output files: a reader sees the whole file or none, and an existing one is replaced only when told to."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from pathlib import Path

from packing.errors import ConfigError

__all__ = ["check_target", "write_atomically"]

# What file systems without hard links answer (FAT, some network and FUSE mounts).
_NO_HARD_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EACCES}


def check_target(path: Path, *, force: bool) -> None:
    """Refuse a target that `write_atomically` would refuse, before the work whose result it is to hold.

    Raises:
        ConfigError: the target exists and `force` is false, or it is no regular file, or its folder does not exist.
    """
    target = Path(os.path.realpath(path))
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        if not target.parent.is_dir():
            raise ConfigError(f"`--output` must name a file in an existing folder, but got {str(path)!r}.") from None
        return
    if not stat.S_ISREG(mode):
        raise ConfigError(f"`--output` must name a regular file, but {str(path)!r} is none.")
    if not force:
        raise _exists(path)


def write_atomically(path: Path, text: str, *, force: bool) -> None:
    """Write `text` as UTF-8; the file appears complete and durable, with the permissions that the umask leaves.

    Must not leave anything behind when it fails, nor replace a file that another process creates meanwhile (unless
    `force`). A symbolic link keeps pointing to its target, which is written.

    Raises:
        ConfigError: as `check_target`.
        OSError: the folder cannot be written to, the disk is full.
    """
    check_target(path, force=force)
    target = Path(os.path.realpath(path))
    # A fixed short name: a long target name must not exceed the limit of the file system.
    temporary = target.with_name(f".packing-{secrets.token_hex(8)}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with open(descriptor, "w", encoding="utf-8", newline="") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        if force:
            os.replace(temporary, target)
        else:
            _publish_new(temporary, target, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
    _sync_folder(target.parent)


def _publish_new(temporary: Path, target: Path, shown: Path) -> None:
    """Give the finished file its name, in one step that fails when the name is taken."""
    try:
        os.link(temporary, target)
        return
    except FileExistsError:
        raise _exists(shown) from None
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
    # Without hard links: whoever creates the empty file owns the name.
    try:
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
    except FileExistsError:
        raise _exists(shown) from None
    try:
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(target)
        raise


def _sync_folder(folder: Path) -> None:
    """Make the new name durable where the system can (not every file system lets a folder be synced)."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _exists(path: Path) -> ConfigError:
    return ConfigError(f"`--output` must name a new file, but {str(path)!r} exists (--force replaces it).")
