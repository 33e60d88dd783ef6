"""Compiled code on disk, so that a new process need not compile what an earlier one has compiled.

An entry is a file in one folder. Its name is the digest of everything that its content depends on: the text that was
compiled, the processor and its features, and the versions of llvmlite and of wiregrad. So an entry is never out of
date, and nothing is ever changed in place. `CodeCache.load_entry` returns only what `CodeCache.store_entry` wrote.

Machine code is run as it is found, so a file counts only if nobody else can have written it: folder and file belong to
this user, nobody else may write to them, neither is a symbolic link, and the content has the digest that it begins
with, which is computed together with the name. Files are opened relative to the folder that was checked. They are
written under another name and then renamed, so a process that is killed leaves no half entry.

The cache only saves time. Whatever fails here (no space, no rights, a damaged file) means that code is compiled as if
there were no cache. `WIREGRAD_CACHE=0` turns it off, and `WIREGRAD_CACHE=/a/folder` moves it.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import time
from _blake2 import blake2b  # hashlib loads OpenSSL, which takes two milliseconds
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec

from wiregrad import lazy, settings
from wiregrad.lazy import NamedTuple

ENTRY_MAGIC = b"wiregrad code 1\n"
DIGEST_BYTES = 32
ENTRY_SUFFIX = ".code"
UNFINISHED_SUFFIX = ".part"
"""The suffix of files that are being written."""
MAX_FOLDER_BYTES = 128 << 20
"""When the entries are larger than this in all, the oldest ones are removed."""
MAX_ENTRY_BYTES = 32 << 20
STORES_PER_CLEANING = 32
"""The size of the folder is checked at a process's first store, and then after this many."""
UNFINISHED_SECONDS = 3600.0
"""A file that is still unfinished after this time belongs to a process that was killed."""
TOUCH_SECONDS = 86400.0
"""An entry that is used gets a new time, so that it counts as young, at most once in this time."""
WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
HAS_OWNERS = hasattr(os, "geteuid")
"""Whether the owners of files can be checked; where not, nothing is cached."""


class CacheContents(NamedTuple):
    """What is in a cache folder."""

    entries: int
    size: int
    """In bytes."""


class _UntrustedError(OSError):
    """A folder or a file that somebody else can have written."""


class CodeCache:
    """Compiled code in one folder."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.problem = ""
        """Why nothing is stored any more; empty while the cache works."""
        self._stores = 0

    def load_entry(self, name: str) -> bytes | None:
        """Return what was stored under a name; None if there is nothing, or nothing that can be trusted."""
        try:
            with self._open_folder() as folder:
                return self._read_entry(folder, name + ENTRY_SUFFIX)
        except FileNotFoundError:
            return None
        except OSError as error:
            self.problem = str(error)
            return None

    def store_entry(self, name: str, content: bytes) -> None:
        """Store content under a name, unless the cache has a problem."""
        if self.problem or len(content) > MAX_ENTRY_BYTES:
            return
        try:
            with self._open_folder(create=True) as folder:
                _write_atomically(folder, name + ENTRY_SUFFIX, _seal_content(name + ENTRY_SUFFIX, content))
                if self._stores % STORES_PER_CLEANING == 0:
                    _remove_oldest(folder)
                self._stores += 1
        except OSError as error:
            self.problem = str(error)

    def measure_contents(self) -> CacheContents:
        """Return the number of entries and their size."""
        try:
            with self._open_folder() as folder:
                sizes = [facts.st_size for name, facts in _list_files(folder) if name.endswith(ENTRY_SUFFIX)]
                return CacheContents(len(sizes), sum(sizes))
        except FileNotFoundError:
            return CacheContents(0, 0)
        except OSError as error:
            self.problem = str(error)
            return CacheContents(0, 0)

    def clear_entries(self) -> CacheContents:
        """Remove all entries and unfinished files; return what was removed."""
        removed = list[int]()
        with contextlib.suppress(FileNotFoundError), self._open_folder() as folder:
            for name, facts in _list_files(folder):
                os.unlink(name, dir_fd=folder)
                removed.append(facts.st_size)
        return CacheContents(len(removed), sum(removed))

    @contextlib.contextmanager
    def _open_folder(self, create: bool = False) -> Iterator[int]:
        """Open the folder and check that nobody else may write to it; yields its descriptor."""
        if create:
            os.makedirs(self.folder, mode=0o700, exist_ok=True)
        folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            _check_trust(os.fstat(folder), self.folder)
            yield folder
        finally:
            os.close(folder)

    def _read_entry(self, folder: int, name: str) -> bytes | None:
        # Without O_NONBLOCK, opening a named pipe would wait for somebody to write to it.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            file = os.open(name, flags, dir_fd=folder)
        except FileNotFoundError:
            return None
        except OSError:
            # A symbolic link, for example: it is replaced when the entry is stored.
            return None
        with os.fdopen(file, "rb") as stream:
            facts = os.fstat(file)
            try:
                _check_trust(facts, name)
            except _UntrustedError:
                return None
            if not stat.S_ISREG(facts.st_mode) or facts.st_size > MAX_ENTRY_BYTES + 1024:
                return None
            content = _unseal_content(name, stream.read())
            if content is not None and time.time() - facts.st_mtime > TOUCH_SECONDS:
                with contextlib.suppress(OSError):
                    os.utime(file)
        return content


def _check_trust(facts: os.stat_result, name: str) -> None:
    """Raise an error unless a file or folder belongs to this user and nobody else may write to it."""
    if facts.st_uid != os.geteuid():
        raise _UntrustedError(f"{name} belongs to another user")
    if facts.st_mode & WRITABLE_BY_OTHERS:
        raise _UntrustedError(f"others may write to {name}")


def _seal_content(name: str, content: bytes) -> bytes:
    """Return the bytes of a file: a mark, the digest of name and content, and the content."""
    return ENTRY_MAGIC + _digest_content(name, content) + content


def _unseal_content(name: str, data: bytes) -> bytes | None:
    """Return the content of a file; None if it is damaged, or belongs to another name."""
    start = len(ENTRY_MAGIC) + DIGEST_BYTES
    content = data[start:]
    if data[:start] != ENTRY_MAGIC + _digest_content(name, content):
        return None
    return content


def _digest_content(name: str, content: bytes) -> bytes:
    return blake2b(name.encode() + b"\0" + content, digest_size=DIGEST_BYTES).digest()


def _write_atomically(folder: int, name: str, data: bytes) -> None:
    """Write a file under another name, then rename it; nothing is left of a file that cannot be written."""
    unfinished = f"{name}.{os.urandom(8).hex()}{UNFINISHED_SUFFIX}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.open(unfinished, flags, 0o600, dir_fd=folder)
    try:
        with os.fdopen(file, "wb") as stream:
            stream.write(data)
        os.replace(unfinished, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(unfinished, dir_fd=folder)
        raise


def _list_files(folder: int) -> list[tuple[str, os.stat_result]]:
    """Return the files of the cache in a folder, entries and unfinished ones; other files are left alone."""
    files = list[tuple[str, os.stat_result]]()
    with os.scandir(folder) as listing:
        for file in listing:
            if file.name.endswith((ENTRY_SUFFIX, UNFINISHED_SUFFIX)):
                # Another process may remove it meanwhile.
                with contextlib.suppress(FileNotFoundError):
                    files.append((file.name, file.stat(follow_symlinks=False)))
    return files


def _remove_oldest(folder: int) -> None:
    """Remove what killed processes left, and the oldest entries until a quarter of the allowed size is free."""
    now = time.time()
    files = sorted(_list_files(folder), key=lambda file: file[1].st_mtime)
    excess = sum(facts.st_size for _, facts in files) - MAX_FOLDER_BYTES
    if excess > 0:
        excess += MAX_FOLDER_BYTES // 4
    for name, facts in files:
        is_forgotten = name.endswith(UNFINISHED_SUFFIX) and now - facts.st_mtime > UNFINISHED_SECONDS
        if is_forgotten or (excess > 0 and name.endswith(ENTRY_SUFFIX)):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)
            excess -= facts.st_size


def open_cache() -> CodeCache | None:
    """Return the cache that the environment asks for; None if it is turned off, or cannot be used here."""
    return _open_cache(settings.read_setting(settings.CACHE_VARIABLE))


@cache
def _open_cache(setting: str) -> CodeCache | None:
    if setting == settings.CACHE_OFF or not HAS_OWNERS:
        return None
    if setting not in ("", settings.CACHE_ON):
        return CodeCache(setting)
    folder = find_user_folder()
    return None if folder is None else CodeCache(folder)


def find_user_folder() -> str | None:
    """Return the folder for the cache of this user, where this system keeps such folders; None if there is no home."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    # The standard says that a relative path counts as not set.
    if os.path.isabs(given):
        return os.path.join(given, "wiregrad")
    home = os.path.expanduser("~")
    if not os.path.isabs(home):
        return None
    return os.path.join(home, "Library/Caches" if sys.platform == "darwin" else ".cache", "wiregrad")


def make_entry_name(*parts: str) -> str:
    """Return the name of an entry whose content depends on nothing but these texts.

    >>> make_entry_name("a", "bc") == make_entry_name("ab", "c")
    False
    """
    digest = blake2b(digest_size=DIGEST_BYTES)
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


@cache
def identify_room() -> str:
    """Return what tells this version of the modules that write entries from others, whose entries are not found."""
    digest = blake2b(str(getattr(sys.modules["wiregrad"], "__version__", "")).encode())
    # Where there are no source files, the version has to do.
    with contextlib.suppress(OSError):
        for module in list_writing_modules():
            with open(module, "rb") as source:
                digest.update(source.read())
    return digest.hexdigest()


def list_writing_modules() -> list[str]:
    """Return the files of the modules that write and read the content of entries, and that write `jit.OwnText`.

    They are the modules in this folder, and the one that makes their classes.
    """
    folder = os.path.dirname(__file__)
    modules = sorted(name for name in os.listdir(folder) if name.endswith(".py"))
    return [str(lazy.__file__), *(os.path.join(folder, module) for module in modules)]


@cache
def identify_llvm() -> str:
    """Return what tells this llvmlite from others, without importing it; empty if it is not installed."""
    try:
        place = find_spec("llvmlite")
    except (ImportError, ValueError):
        return ""
    if place is None or place.origin is None:
        return ""
    folder = os.path.dirname(place.origin)
    try:
        with os.scandir(os.path.join(folder, "binding")) as files:
            facts = next(file.stat() for file in files if "llvmlite." in file.name)
        with open(os.path.join(folder, "_version.py"), encoding="utf-8") as version:
            return f"{version.read()} {facts.st_size} {facts.st_mtime_ns}"
    except (OSError, StopIteration, UnicodeDecodeError):
        return ""
