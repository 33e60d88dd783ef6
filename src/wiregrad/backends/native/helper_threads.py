"""Threads that take part in batches: they sleep in native code until a batch wakes them, and need no GIL to begin.

A job is native code that all threads of a batch run on the same description, each with a buffer of its own. The thread
of the caller posts it to helpers, takes part itself, and withdraws it in the end. Whether a helper has begun is decided
by one atomic exchange: a job that is withdrawn before is never begun, so a batch does not wait for threads that wake
late. A batch that will post a job can wake helpers before: then they look for it a short while.

Threads sleep on the locks of Python's C interface, which exist on every system and can be used without the GIL.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from wiregrad.backends.native import jit
from wiregrad.backends.native.llvm_writer import LlvmValue, LlvmWriter, leave_if, leave_unless, loop_over, when_all
from wiregrad.lazy import NamedTuple

IDLE, EXPECTING, POSTED, RUNNING = range(4)
"""The states of a helper."""
WORDS = ("state", "is_retired", "lock", "acquire", "release", "code", "job", "buffer", "shares")
"""The words that describe a helper: its state, whether it is to end, its lock with C's functions, and what it runs."""
JOB_WORDS = WORDS[5:]
MAX_POLLS = 1 << 14
"""How often native code looks whether a state has changed before it does something else; well under a millisecond."""
POLL_SECONDS = 2e-4
"""How long a thread sleeps between such polls."""
MAX_IDLE_THREADS = 64
"""How many threads without a job are kept at most."""


class _NativeCode(NamedTuple):
    """The functions of native code that change the state of a helper."""

    serve: Callable[[int], None]
    expect: Callable[[int], None]
    post: Callable[..., None]
    withdraw: Callable[[int, int], int]
    retire: Callable[[int], None]
    addresses: dict[str, int]
    """Where these functions are."""


class HelperThread:
    """A thread that runs what is posted to it."""

    def __init__(self) -> None:
        self._code = _compile_code()
        locks = _find_locks()
        lock = locks.allocate()
        # The thread refers to its helper until it has ended.
        weakref.finalize(self, locks.free, lock).atexit = False
        locks.acquire(lock, 1)
        self._words = np.array([IDLE, 0, lock, *locks.addresses, *[0 for _ in JOB_WORDS]], np.int64)
        self.address: int = self._words.__array_interface__["data"][0]
        """Where native code finds this helper."""
        self._kept: object = None
        """What a job works on, kept alive as long as this thread may run it."""
        self.thread = threading.Thread(target=self._serve, name="wiregrad", daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        self._code.serve(self.address)
        self._kept = None

    def post(self, code: int, job: int, buffer: int, shares: int, kept: object) -> None:
        """Post a job: native code, and what it is called with. `kept` keeps all of this alive."""
        self._kept = kept
        self._code.post(self.address, code, job, buffer, shares)

    def finish(self) -> None:
        """Return when the job is done, or withdrawn because this thread has not begun it."""
        while not self._code.withdraw(self.address, MAX_POLLS):
            time.sleep(POLL_SECONDS)
        self._kept = None

    def retire(self) -> None:
        """End this thread after the job that it may be running."""
        self._code.withdraw(self.address, 0)
        self._code.retire(self.address)


_IDLE_THREADS: list[HelperThread] = []
"""The threads without a job."""


def take_helpers(count: int) -> list[HelperThread]:
    """Return so many threads without a job, fewer if the system starts no more of them."""
    helpers = list[HelperThread]()
    while len(helpers) < count:
        try:
            helpers.append(_IDLE_THREADS.pop())
        except IndexError:
            try:
                helpers.append(HelperThread())
            except RuntimeError:
                break
    return helpers


def return_helpers(helpers: Sequence[HelperThread]) -> None:
    """Keep threads that have finished for later batches, unless enough of them are idle."""
    _IDLE_THREADS.extend(helpers)
    retire_excess()


def retire_excess() -> None:
    """End the threads without a job that are more than are kept."""
    while len(_IDLE_THREADS) > MAX_IDLE_THREADS:
        _IDLE_THREADS.pop().retire()


def describe_helpers() -> tuple[Any, ...]:
    """Return what the extension module needs to have threads take part in a batch."""
    code = _compile_code().addresses
    functions = [code[name] for name in ("expect", "post", "withdraw")]
    return _IDLE_THREADS, take_helpers, retire_excess, MAX_IDLE_THREADS, *functions, MAX_POLLS


if hasattr(os, "register_at_fork"):
    # A forked child has none of its parent's threads.
    os.register_at_fork(after_in_child=_IDLE_THREADS.clear)


class _Locks(NamedTuple):
    """The functions of Python's C interface for locks."""

    allocate: Callable[[], int]
    acquire: Callable[[int, int], int]
    free: Callable[[int], None]
    addresses: tuple[int, int]
    """Where native code finds the functions that acquire and release a lock."""


@cache
def _find_locks() -> _Locks:
    python = ctypes.pythonapi
    acquire, release = python.PyThread_acquire_lock, python.PyThread_release_lock
    addresses = [ctypes.cast(function, ctypes.c_void_p).value or 0 for function in (acquire, release)]
    allocate = ctypes.PYFUNCTYPE(ctypes.c_ssize_t)(("PyThread_allocate_lock", python))
    free = ctypes.PYFUNCTYPE(None, ctypes.c_ssize_t)(("PyThread_free_lock", python))
    try_acquire = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_ssize_t, ctypes.c_int)(("PyThread_acquire_lock", python))
    return _Locks(allocate, try_acquire, free, (addresses[0], addresses[1]))


@cache
def _compile_code() -> _NativeCode:
    text = jit.OwnText("helper threads", _write_code)
    address = ctypes.c_ssize_t
    # Only those that wait release the GIL.
    kinds = {
        "serve": ctypes.CFUNCTYPE(None, address),
        "expect": ctypes.PYFUNCTYPE(None, address),
        "post": ctypes.PYFUNCTYPE(None, address, *[address for _ in JOB_WORDS]),
        "withdraw": ctypes.CFUNCTYPE(address, address, address),
        "retire": ctypes.PYFUNCTYPE(None, address),
    }
    functions = jit.compile_functions(text, *kinds)
    addresses = dict(zip(kinds, functions, strict=True))
    return _NativeCode(**{name: kind(addresses[name]) for name, kind in kinds.items()}, addresses=addresses)


def _write_code() -> str:
    """Return the LLVM module of the functions that change the state of a helper."""
    w = LlvmWriter()
    helper = w.name_value("%helper", "ptr")
    polls = w.name_value("%polls", "i64")
    w.begin_function("void @serve(ptr %helper)")
    # For ever, until this thread is retired.
    with loop_over(0, w.as_value(1 << 62, "i64")):
        w.call("i32", _load_function(helper, "acquire"), _load_word(helper, "lock", "ptr"), w.as_value(1, "i32"))
        with leave_if(_load_shared(helper, "is_retired").is_nonzero()):
            w.emit_return()
        w.call_void("@await_post", helper, w.as_value(MAX_POLLS, "i64"))
        with when_all(_write_exchange(helper, POSTED, RUNNING)):
            arguments = [_load_word(helper, name, "ptr") for name in ("job", "buffer")]
            w.call_void(_load_function(helper, "code"), *arguments, _load_word(helper, "shares", "i64"))
            w.emit_line(f"store atomic i64 {IDLE}, {helper.typed} release, align 8")
    w.end_function()

    w.begin_function("void @await_post(ptr %helper, i64 %polls)")
    with loop_over(0, polls):
        with leave_unless(_load_shared(helper, "state").is_equal_to(EXPECTING)):
            w.emit_return()
        jit.write_pause(w)
    _write_exchange(helper, EXPECTING, IDLE)
    w.end_function()

    w.begin_function("void @expect(ptr %helper)")
    with when_all(_write_exchange(helper, IDLE, EXPECTING)):
        _write_wake(helper)
    w.end_function()

    words = [w.name_value(f"%{name}", "i64") for name in JOB_WORDS]
    w.begin_function(f"void @post(ptr %helper, {', '.join(word.typed for word in words)})")
    for name, word in zip(JOB_WORDS, words, strict=True):
        w.store(word, _point_to_word(helper, name))
    before = w.emit_value("i64", f"atomicrmw xchg {helper.typed}, i64 {POSTED} acq_rel")
    # A thread that expects a job has been woken.
    with leave_if(before.is_equal_to(EXPECTING)):
        w.emit_return()
    _write_wake(helper)
    w.end_function()

    w.begin_function("i64 @withdraw(ptr %helper, i64 %polls)")
    with leave_if(_write_exchange(helper, POSTED, IDLE)):
        w.emit_return(w.as_value(1, "i64"))
    with loop_over(0, polls):
        with leave_if(_load_shared(helper, "state").is_equal_to(IDLE)):
            w.emit_return(w.as_value(1, "i64"))
        jit.write_pause(w)
    w.end_function(w.as_value(0, "i64"))

    w.begin_function("void @retire(ptr %helper)")
    w.emit_line(f"store atomic i64 1, {_point_to_word(helper, 'is_retired').typed} release, align 8")
    _write_wake(helper)
    w.end_function()
    return w.format_module()


def _point_to_word(helper: LlvmValue, name: str) -> LlvmValue:
    return helper.writer.point_to("i64", helper, WORDS.index(name))


def _load_word(helper: LlvmValue, name: str, kind: str) -> LlvmValue:
    return helper.writer.load(kind, _point_to_word(helper, name))


def _load_shared(helper: LlvmValue, name: str) -> LlvmValue:
    """Write the load of a word that another thread may change."""
    place = _point_to_word(helper, name)
    return helper.writer.emit_value("i64", f"load atomic i64, {place.typed} acquire, align 8")


def _load_function(helper: LlvmValue, name: str) -> str:
    return _load_word(helper, name, "ptr").text


def _write_wake(helper: LlvmValue) -> None:
    helper.writer.call_void(_load_function(helper, "release"), _load_word(helper, "lock", "ptr"))


def _write_exchange(helper: LlvmValue, before: int, after: int) -> LlvmValue:
    """Write the change of one state into another, if it is that one; return whether it was."""
    w = helper.writer
    pair = w.new_name()
    w.emit_line(f"%{pair} = cmpxchg {helper.typed}, i64 {before}, i64 {after} acq_rel acquire")
    return w.emit_value("i1", f"extractvalue {{ i64, i1 }} %{pair}, 1")
