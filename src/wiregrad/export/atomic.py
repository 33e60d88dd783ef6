"""Files that are written whole or not at all, and what killed writers left behind.

A file is written under a name of its own beside its target and then renamed. While a process writes, it holds a lock on
the file, which the system releases when the process ends, however it ends. So a file with such a name that can be
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

_NAME = re.compile(r"\.wiregrad-[0-9a-f]{16}\.tmp")
_NO_LINKS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def write_whole(target: Path, parts: Iterable[memoryview]) -> None:
    """Put a file in the place of another one, or of none; whatever happens, no half of it is seen there.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_whole(Path(folder, "a.txt"), [memoryview(b"all of it")])
    ...     print(os.listdir(folder))
    ['a.txt']
    """
    remove_leftovers(target.parent)
    fresh, descriptor = _locked_file(target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
            fresh.chmod(_mode_of(target))
            if HAS_LOCKS:
                # Now, since closing the file releases its lock.
                fresh.replace(target)
        if not HAS_LOCKS:
            # Windows does not rename a file that is open.
            fresh.replace(target)
    except BaseException:
        with suppress(OSError):
            fresh.unlink()
        raise


def remove_leftovers(folder: Path) -> None:
    """Remove the files in a folder whose writers were killed; those of living writers, and all others, stay."""
    if not HAS_LOCKS:
        return
    with suppress(OSError), os.scandir(folder) as entries:
        for name in [entry.name for entry in entries if _NAME.fullmatch(entry.name)]:
            with suppress(OSError), _abandoned(folder / name) as is_abandoned:
                if is_abandoned:
                    (folder / name).unlink()


@contextmanager
def _abandoned(path: Path) -> Iterator[bool]:
    """Say whether a file has no writer; inside the block none can begin to write it."""
    descriptor = os.open(path, os.O_RDWR | _NO_LINKS)
    try:
        found = os.fstat(descriptor)
        is_own = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
        yield is_own and _lock(descriptor, path)
    finally:
        os.close(descriptor)


def _locked_file(folder: Path) -> tuple[Path, int]:
    """Create a file with a name of its own that no other process takes for a leftover."""
    while True:
        path = folder / f".wiregrad-{secrets.token_hex(8)}.tmp"
        # Nobody else may read it before it has the mode of the one it replaces.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
        try:
            if _lock(descriptor, path):
                return path, descriptor
        except OSError:
            # Some network file systems have no locks: then nobody can remove it either.
            return path, descriptor
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        # Another process looked at it before it was locked, and removes it.
        os.close(descriptor)


def _lock(descriptor: int, path: Path) -> bool:
    """Lock an open file; return False if another process holds it, or if its name is gone or another file's."""
    if not HAS_LOCKS:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(descriptor), os.stat(path, follow_symlinks=False))
    except (BlockingIOError, FileNotFoundError):
        return False


def _mode_of(path: Path) -> int:
    """Return the mode of a file, or the one that a new file would have."""
    if path.exists():
        return stat.S_IMODE(path.stat().st_mode)
    # Only by setting it can it be read.
    mask = os.umask(0o077)
    os.umask(mask)
    return 0o666 & ~mask
