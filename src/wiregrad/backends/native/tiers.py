"""The second tier: LLVM compiles a program that is called often again, in the background and as one unit."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

from wiregrad.backends.native.program import LLVM_TIER, NativeProgram
from wiregrad.backends.native.whole import LlvmProgram
from wiregrad.errors import NotNativeError

MAX_PROMOTED_STEPS = 20_000
"""Programs with more steps are not promoted: compiling one would keep a core busy for too long."""
COMPILE_SECONDS_PER_STEP = 0.5e-3
"""Approximate seconds that LLVM needs to compile a step."""
SAVED_SECONDS_PER_STEP = 0.5e-9
"""Approximate seconds that a step saves per call afterwards. Both grow with the circuit, so a call count decides."""


def recompile_with_llvm(program: NativeProgram) -> NativeProgram:
    """Return a program with the same steps on the same buffer, compiled by LLVM; takes about half a ms per step."""
    began = time.perf_counter()
    code = LlvmProgram(program.stream)
    seconds = program.seconds + time.perf_counter() - began
    return replace(program, entry=code.address, code=code, code_bytes=code.size, seconds=seconds, tier=LLVM_TIER)


class PromotableEngine(Protocol):
    """An engine that runs a program and can switch to another one for the same circuit."""

    program: NativeProgram

    def swap_program(self, program: NativeProgram) -> None:
        """Run another program from the next call on."""

    def notify_after(self, calls: int, due: Callable[[Any], None]) -> None:
        """Call `due` once, after the given number of calls."""


def promote_when_hot(entry: PromotableEngine) -> None:
    """Promote an engine's program to the LLVM tier, in the background, once it has been called often."""
    if entry.program.tier != LLVM_TIER and len(entry.program.stream) <= MAX_PROMOTED_STEPS:
        entry.notify_after(round(COMPILE_SECONDS_PER_STEP / SAVED_SECONDS_PER_STEP), _start_promotion)


def _start_promotion(entry: PromotableEngine) -> None:
    threading.Thread(target=_promote_engine, args=(weakref.ref(entry),), name="wiregrad-tier").start()


def _promote_engine(watched: weakref.ref[PromotableEngine]) -> None:
    entry = watched()
    if entry is None:
        return
    try:
        entry.swap_program(recompile_with_llvm(entry.program))
    except NotNativeError:
        # The stencils stay in use.
        return
