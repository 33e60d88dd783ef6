"""The second tier: a program that is called often is compiled again by LLVM, as a whole and in the background."""

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
"""A program with more steps stays as it is: compiling it would keep a core busy for too long."""
COMPILE = 0.5e-3
"""About how many seconds LLVM takes for a step."""
SAVED = 0.5e-9
"""About how many seconds a step then takes less. Both grow with the circuit alike, so a number of calls decides."""


def improved(program: Program) -> Program:
    """Return a program with the same steps on the same buffer, compiled as a whole: about half a millisecond a step."""
    began = time.perf_counter()
    whole = Whole(program.stream)
    seconds = program.seconds + time.perf_counter() - began
    return replace(program, entry=whole.address, code=whole, code_bytes=whole.size, seconds=seconds, tier=LLVM)


class Promoted(Protocol):
    """What runs a program and can be given another one for it."""

    program: Program

    def swap(self, program: Program) -> None:
        """Run another program from the next call on."""

    def after(self, calls: int, due: Callable[[Any], None]) -> None:
        """Have a function called once, after so many calls."""


def watch(entry: Promoted) -> None:
    """Have a program that turns out to be called often compiled as a whole, in the background."""
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
        # The stencils go on answering.
        return
