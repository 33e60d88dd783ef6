"""Register allocation: which numbers pass from stencil to stencil in a register instead of through the buffer.

A number that is read again soon gets a register from the step that writes it to the step that reads it. Where there are
too few, the one that would be held longest goes without. A step that calls a function loses all registers, so nothing
is held across a call. A number that goes through the buffer can be read about eight cycles later, longer than an
addition takes. The longest chain of steps bounds circuits of plain arithmetic, and registers shorten it.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wiregrad.backends.native import machine
from wiregrad.backends.native.loops import LlvmLoopWriter
from wiregrad.backends.native.stencils import REGISTER_COUNT

MAX_STEPS_IN_REGISTER = 36
"""Maximum number of steps for which a register is held."""
LONG_PROGRAM_STEPS = 6_000
"""Programs with more steps than this use only `LONG_PROGRAM_REGISTERS` registers: more would need many more stencils for little speed."""
LONG_PROGRAM_REGISTERS = 3


def count_register_losses(calling: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Return how often registers were lost before each step; `calling` says whether a step calls a function.

    >>> count_register_losses(np.array([False, True, False])).tolist()
    [0, 0, 1, 1]
    """
    return np.concatenate([[0], np.cumsum(calling)]).astype(np.int32)


def can_stay_in_register(starts: NDArray[np.int32], ends: NDArray[np.int32], lost: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Return which numbers, written at `starts`, can still be in a register at `ends`.

    `lost` is the result of `count_register_losses`. A number that is never read has an end before its start.

    >>> lost = count_register_losses(np.array([False, True, False]))
    >>> can_stay_in_register(np.array([0, 1, 0], np.int32), np.array([2, 2, 1], np.int32), lost).tolist()
    [False, True, True]
    """
    soon = (ends > starts) & (ends - starts <= MAX_STEPS_IN_REGISTER)
    # A number is written after the call of its own step, and read before the call of its reader.
    kept: NDArray[np.bool_] = lost[np.where(soon, ends, 0)] == lost[np.where(soon, starts + 1, 0)]
    return soon & kept


def assign_registers(starts: NDArray[np.int32], ends: NDArray[np.int32], steps: int = 0) -> NDArray[np.uint8]:
    """Return registers, counted from 1, for numbers written at `starts` (in order) and last read at `ends`; 0: none.

    A number that needs no register has the end -1. `steps` is the length of the program.

    >>> assign_registers(np.array([0, 1, 2], np.int32), np.array([2, -1, 3], np.int32)).tolist()
    [1, 0, 1]
    """
    first = np.ascontiguousarray(starts, np.int32)
    last = np.ascontiguousarray(ends, np.int32)
    registers = np.zeros(len(starts), np.uint8)
    count = LONG_PROGRAM_REGISTERS if steps > LONG_PROGRAM_STEPS else REGISTER_COUNT
    _load_register_loops()[0](len(starts), first.ctypes.data, last.ctypes.data, registers.ctypes.data, count)
    return registers


def find_next_entries(names: NDArray[np.int32], most: int) -> NDArray[np.int32]:
    """Return, for each entry, the next one with the same name, -1 if there is none; names are below `most`.

    An entry whose name is -1 has none.

    >>> find_next_entries(np.array([0, 1, -1, 0], np.int32), 2).tolist()
    [3, -1, -1, -1]
    """
    entries = np.ascontiguousarray(names, np.int32)
    seen = np.full(most, -1, np.int32)
    successors = np.full(len(names), -1, np.int32)
    _load_register_loops()[1](len(names), entries.ctypes.data, seen.ctypes.data, successors.ctypes.data)
    return successors


def compile_register_loops() -> None:
    """Compile the loops, unless that was done before."""
    _load_register_loops()


@cache
def _load_register_loops() -> list[Any]:
    assign, follow = machine.compile_functions(f"{_write_assign_loop()}\n{_write_follow_loop()}", "assign", "follow", level=1)
    parameters = [ctypes.c_int64, *[ctypes.c_void_p] * 3]
    return [ctypes.CFUNCTYPE(None, *parameters, ctypes.c_int64)(assign), ctypes.CFUNCTYPE(None, *parameters)(follow)]


def _write_assign_loop() -> str:
    w = LlvmLoopWriter({"starts": "i32", "ends": "i32", "found": "i8", "busy": "i32", "owners": "i32"})
    with w.loop_over("0", "%count") as register:
        w.store_entry("busy", register, "-2147483648")
    with w.loop_over("0", "%n") as k, w.when_all(w.write_comparison("sge", w.load_entry("ends", k), "0")):
        _write_register_choice(w, k)
        with w.when_all(w.write_comparison("sge", w.load_variable("chosen"), "0")):
            w.store_entry("busy", w.load_variable("chosen"), w.load_entry("ends", k))
            w.store_entry("owners", w.load_variable("chosen"), k)
            w.store_entry("found", k, w.write_binary("add", w.load_variable("chosen"), "1"))
    head = [
        "define void @assign(i64 %n, ptr noalias %starts, ptr noalias %ends, ptr noalias %found, i64 %count) {",
        "entry:",
    ]
    variables = [f"  %{name} = alloca [{REGISTER_COUNT} x i32]" for name in ("busy", "owners")]
    variables += [f"  %{name} = alloca i64" for name in ("chosen", "longest")]
    return "\n".join([*head, *variables, *w.lines, "  ret void", "}"])


def _write_register_choice(w: LlvmLoopWriter, k: str) -> None:
    """Write the choice of a register: the first free one, else the one held longest if that is longer than needed."""
    w.store_variable("chosen", "-1")
    w.store_variable("longest", "0")
    with w.loop_over("0", "%count", down=True) as register:
        with w.when_all(w.write_comparison("sle", w.load_entry("busy", register), w.load_entry("starts", k))):
            w.store_variable("chosen", register)
        with w.when_all(w.write_comparison("sgt", w.load_entry("busy", register), w.load_entry("busy", w.load_variable("longest")))):
            w.store_variable("longest", register)
    with w.when_all(w.write_comparison("slt", w.load_variable("chosen"), "0"), w.write_comparison("sgt", w.load_entry("busy", w.load_variable("longest")), w.load_entry("ends", k))):
        w.store_entry("found", w.load_entry("owners", w.load_variable("longest")), "0")
        w.store_variable("chosen", w.load_variable("longest"))


def _write_follow_loop() -> str:
    w = LlvmLoopWriter({"names": "i32", "seen": "i32", "found": "i32"})
    with w.loop_over("0", "%n", down=True) as k, w.when_all(w.write_comparison("sge", w.load_entry("names", k), "0")):
        name = w.load_entry("names", k)
        w.store_entry("found", k, w.load_entry("seen", name))
        w.store_entry("seen", name, k)
    head = [
        "define void @follow(i64 %n, ptr noalias %names, ptr noalias %seen, ptr noalias %found) {",
        "entry:",
    ]
    return "\n".join([*head, *w.lines, "  ret void", "}"])
