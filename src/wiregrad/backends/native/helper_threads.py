"""Threads that take part in batches: they sleep until a batch wakes them, and begin with as little Python as possible.

A job is native code that all threads of a batch run on the same description, each with a buffer of its own. The thread
of the caller posts it to helpers, takes part itself, and withdraws it in the end. Whether a helper has begun is decided
by one atomic exchange: a job that is withdrawn before is never begun, so a batch does not wait for threads that wake
late.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from wiregrad.backends.native import jit
from wiregrad.backends.native.llvm_writer import LlvmValue, LlvmWriter, leave_if, loop_over, when_all
from wiregrad.lazy import NamedTuple

IDLE, POSTED, RUNNING = range(3)
"""The states of a helper, its first word; the others describe what it runs."""
WORDS = ("state", "code", "job", "buffer", "shares")
MAX_POLLS = 1 << 14
"""How often native code looks whether a helper has ended, before Python looks for signals; well under a millisecond."""
POLL_SECONDS = 2e-4
"""How long a thread sleeps between such polls."""


MAX_IDLE_THREADS = 64
"""How many threads without a job are kept at most."""


class _NativeCode(NamedTuple):
    """The functions of native code that change the state of a helper."""

    post: Callable[..., None]
    assist: Callable[[int], None]
    withdraw: Callable[[int, int], int]


class HelperThread:
    """A thread that runs what is posted to it."""

    def __init__(self) -> None:
        self._words = np.zeros(len(WORDS), np.int64)
        self._address: int = self._words.__array_interface__["data"][0]
        self._code = _compile_code()
        self._wakes = threading.Lock()
        self._wakes.acquire()
        self._is_retired = False
        self._kept: object = None
        """What a job works on, kept alive as long as this thread may run it."""
        self.thread = threading.Thread(target=self._serve, name="wiregrad", daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        while not self._is_retired:
            self._wakes.acquire()
            self._code.assist(self._address)
        self._kept = None

    def post(self, code: int, job: int, buffer: int, shares: int, kept: object) -> None:
        """Post a job: native code, and what it is called with. `kept` keeps all of this alive."""
        self._kept = kept
        self._code.post(self._address, code, job, buffer, shares)
        self._wake()

    def _wake(self) -> None:
        # It is unlocked still if a job was withdrawn before this thread woke.
        if self._wakes.locked():
            self._wakes.release()

    def finish(self) -> None:
        """Return when the job is done, or withdrawn because this thread has not begun it."""
        while not self._code.withdraw(self._address, MAX_POLLS):
            time.sleep(POLL_SECONDS)
        self._kept = None

    def retire(self) -> None:
        """End this thread after the job that it may be running."""
        self._code.withdraw(self._address, 0)
        self._is_retired = True
        self._wake()


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
    for helper in helpers:
        if len(_IDLE_THREADS) < MAX_IDLE_THREADS:
            _IDLE_THREADS.append(helper)
        else:
            helper.retire()


if hasattr(os, "register_at_fork"):
    # A forked child has none of its parent's threads.
    os.register_at_fork(after_in_child=_IDLE_THREADS.clear)


@cache
def _compile_code() -> _NativeCode:
    text = jit.OwnText("helper threads", _write_code)
    post, assist, withdraw = jit.compile_functions(text, "post", "assist", "withdraw")
    numbers = [ctypes.c_int64] * len(WORDS)
    return _NativeCode(
        ctypes.CFUNCTYPE(None, *numbers)(post),
        ctypes.CFUNCTYPE(None, ctypes.c_int64)(assist),
        ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(withdraw),
    )


def _write_code() -> str:
    """Return the LLVM module of the functions that change the state of a helper."""
    w = LlvmWriter()
    helper = w.name_value("%helper", "ptr")
    words = [w.name_value(f"%{name}", "i64") for name in WORDS[1:]]
    w.begin_function(f"void @post(ptr %helper, {', '.join(word.typed for word in words)})")
    for k, word in enumerate(words, 1):
        w.store(word, w.point_to("i64", helper, k))
    w.emit_line(f"store atomic i64 {POSTED}, {helper.typed} release, align 8")
    w.end_function()

    w.begin_function("void @assist(ptr %helper)")
    with when_all(_write_exchange(helper, POSTED, RUNNING)):
        code, job, buffer, shares = (w.load("i64", w.point_to("i64", helper, k)) for k in range(1, len(WORDS)))
        pointers = [word.convert("inttoptr", "ptr") for word in (code, job, buffer)]
        w.call_void(pointers[0].text, *pointers[1:], shares)
        w.emit_line(f"store atomic i64 {IDLE}, {helper.typed} release, align 8")
    w.end_function()

    w.begin_function("i64 @withdraw(ptr %helper, i64 %polls)")
    with leave_if(_write_exchange(helper, POSTED, IDLE)):
        w.emit_return(w.as_value(1, "i64"))
    with loop_over(0, w.name_value("%polls", "i64")):
        state = w.emit_value("i64", f"load atomic i64, {helper.typed} acquire, align 8")
        with leave_if(state.is_equal_to(IDLE)):
            w.emit_return(w.as_value(1, "i64"))
        jit.write_pause(w)
    w.end_function(w.as_value(0, "i64"))
    return w.format_module()


def _write_exchange(helper: LlvmValue, before: int, after: int) -> LlvmValue:
    """Write the change of one state into another, if it is that one; return whether it was."""
    w = helper.writer
    pair = w.new_name()
    w.emit_line(f"%{pair} = cmpxchg {helper.typed}, i64 {before}, i64 {after} acq_rel acquire")
    return w.emit_value("i1", f"extractvalue {{ i64, i1 }} %{pair}, 1")
