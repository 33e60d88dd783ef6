"""Writes files completely or not at all, and removes what killed writers left behind.

A file is written under a temporary name beside its target and then renamed. While a process writes, it holds a lock on
the file, which the system releases when the process ends, however it ends. So a file with a temporary name that can be
locked has no writer any more: the next write into the folder removes it.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

HAS_LOCKS = sys.platform != "win32"
if sys.platform != "win32":
    import fcntl

_TEMPORARY_NAME = re.compile(r"\.wiregrad-[0-9a-f]{16}\.tmp")
_SAFE_OPEN_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def write_atomically(target: Path, parts: Iterable[memoryview]) -> None:
    """Write a file, or replace one, such that no reader ever sees part of it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_atomically(Path(folder, "a.txt"), [memoryview(b"all of it")])
    ...     print(os.listdir(folder))
    ['a.txt']
    """
    remove_leftovers(target.parent)
    fresh, descriptor = _create_locked_file(target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
            fresh.chmod(_find_file_mode(target))
            if HAS_LOCKS:
                # Before the file is closed, because closing it releases the lock.
                fresh.replace(target)
        if not HAS_LOCKS:
            # Windows does not rename a file that is open.
            fresh.replace(target)
    except BaseException:
        with suppress(OSError):
            fresh.unlink()
        raise


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files in a folder whose writers were killed; all other files stay."""
    if not HAS_LOCKS:
        return
    with suppress(OSError), os.scandir(folder) as entries:
        for name in [entry.name for entry in entries if _TEMPORARY_NAME.fullmatch(entry.name)]:
            with suppress(OSError), _lock_if_abandoned(folder / name) as is_abandoned:
                if is_abandoned:
                    (folder / name).unlink()


@contextmanager
def _lock_if_abandoned(path: Path) -> Iterator[bool]:
    """Yield whether a file has no writer any more; inside the block no process can start to write it."""
    descriptor = os.open(path, os.O_RDWR | _SAFE_OPEN_FLAGS)
    try:
        status = os.fstat(descriptor)
        is_own = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
        yield is_own and _lock_file(descriptor, path)
    finally:
        os.close(descriptor)


def _create_locked_file(folder: Path) -> tuple[Path, int]:
    """Create a temporary file, locked so that no other process takes it for a leftover."""
    while True:
        path = folder / f".wiregrad-{secrets.token_hex(8)}.tmp"
        # Other users may not read it before it has the mode of the file it replaces.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
        try:
            if _lock_file(descriptor, path):
                return path, descriptor
        except OSError:
            # Some network file systems have no locks; there, no process removes leftovers either.
            return path, descriptor
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        # Another process saw it before it was locked, and removes it: try again.
        os.close(descriptor)


def _lock_file(descriptor: int, path: Path) -> bool:
    """Lock an open file; return False if another process holds it, or if the path no longer leads to this file."""
    if not HAS_LOCKS:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(descriptor), os.stat(path, follow_symlinks=False))
    except (BlockingIOError, FileNotFoundError):
        return False


def _find_file_mode(path: Path) -> int:
    """Return the mode of a file, or the mode that a new file would get."""
    if path.exists():
        return stat.S_IMODE(path.stat().st_mode)
    # The mask can only be read by setting it.
    mask = os.umask(0o077)
    os.umask(mask)
    return 0o666 & ~mask
