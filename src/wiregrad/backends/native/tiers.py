"""The second tier: LLVM compiles a program that is called often again, in the background and as one unit."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

from wiregrad.backends.native.program import LLVM, Program
from wiregrad.backends.native.whole import Whole
from wiregrad.errors import NotNativeError

LONGEST = 20_000
"""Programs with more steps are not promoted: compiling one would keep a core busy for too long."""
COMPILE = 0.5e-3
"""Approximate seconds that LLVM needs to compile a step."""
SAVED = 0.5e-9
"""Approximate seconds that a step saves per call afterwards. Both grow with the circuit, so a call count decides."""


def improved(program: Program) -> Program:
    """Return a program with the same steps on the same buffer, compiled by LLVM; takes about half a ms per step."""
    began = time.perf_counter()
    code = Whole(program.stream)
    seconds = program.seconds + time.perf_counter() - began
    return replace(program, entry=code.address, code=code, code_bytes=code.size, seconds=seconds, tier=LLVM)


class Promoted(Protocol):
    """An engine that runs a program and can switch to another one for the same circuit."""

    program: Program

    def swap(self, program: Program) -> None:
        """Run another program from the next call on."""

    def after(self, calls: int, due: Callable[[Any], None]) -> None:
        """Call `due` once, after the given number of calls."""


def watch(entry: Promoted) -> None:
    """Promote an engine's program to the LLVM tier, in the background, once it has been called often."""
    if entry.program.tier != LLVM and len(entry.program.stream) <= LONGEST:
        entry.after(round(COMPILE / SAVED), _promote)


def _promote(entry: Promoted) -> None:
    threading.Thread(target=_improve, args=(weakref.ref(entry),), name="wiregrad-tier").start()


def _improve(watched: weakref.ref[Promoted]) -> None:
    entry = watched()
    if entry is None:
        return
    try:
        entry.swap(improved(entry.program))
    except NotNativeError:
        # The stencils stay in use.
        return
