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
from wiregrad.backends.native.loops import Loops
from wiregrad.backends.native.stencils import REGISTERS

WINDOW = 36
"""Maximum number of steps for which a register is held."""
LONG = 6_000
"""Programs with more steps than this use only `FEW` registers: more would need many more stencils for little speed."""
FEW = 3


def losses(calling: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Return how often registers were lost before each step; `calling` says whether a step calls a function.

    >>> losses(np.array([False, True, False])).tolist()
    [0, 0, 1, 1]
    """
    return np.concatenate([[0], np.cumsum(calling)]).astype(np.int32)


def near(starts: NDArray[np.int32], ends: NDArray[np.int32], lost: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Return which numbers, written at `starts`, can still be in a register at `ends`.

    `lost` is the result of `losses`. A number that is never read has an end before its start.

    >>> lost = losses(np.array([False, True, False]))
    >>> near(np.array([0, 1, 0], np.int32), np.array([2, 2, 1], np.int32), lost).tolist()
    [False, True, True]
    """
    soon = (ends > starts) & (ends - starts <= WINDOW)
    # A number is written after the call of its own step, and read before the call of its reader.
    kept: NDArray[np.bool_] = lost[np.where(soon, ends, 0)] == lost[np.where(soon, starts + 1, 0)]
    return soon & kept


def assigned(starts: NDArray[np.int32], ends: NDArray[np.int32], steps: int = 0) -> NDArray[np.uint8]:
    """Return registers, counted from 1, for numbers written at `starts` (in order) and last read at `ends`; 0: none.

    A number that needs no register has the end -1. `steps` is the length of the program.

    >>> assigned(np.array([0, 1, 2], np.int32), np.array([2, -1, 3], np.int32)).tolist()
    [1, 0, 1]
    """
    first = np.ascontiguousarray(starts, np.int32)
    last = np.ascontiguousarray(ends, np.int32)
    registers = np.zeros(len(starts), np.uint8)
    count = FEW if steps > LONG else REGISTERS
    _native()[0](len(starts), first.ctypes.data, last.ctypes.data, registers.ctypes.data, count)
    return registers


def following(names: NDArray[np.int32], most: int) -> NDArray[np.int32]:
    """Return, for each entry, the next one with the same name, -1 if there is none; names are below `most`.

    An entry whose name is -1 has none.

    >>> following(np.array([0, 1, -1, 0], np.int32), 2).tolist()
    [3, -1, -1, -1]
    """
    entries = np.ascontiguousarray(names, np.int32)
    seen = np.full(most, -1, np.int32)
    successors = np.full(len(names), -1, np.int32)
    _native()[1](len(names), entries.ctypes.data, seen.ctypes.data, successors.ctypes.data)
    return successors


def prepare() -> None:
    """Compile the loops, unless that was done before."""
    _native()


@cache
def _native() -> list[Any]:
    assign, follow = machine.compiled(f"{_assign()}\n{_follow()}", "assign", "follow", level=1)
    parameters = [ctypes.c_int64, *[ctypes.c_void_p] * 3]
    return [ctypes.CFUNCTYPE(None, *parameters, ctypes.c_int64)(assign), ctypes.CFUNCTYPE(None, *parameters)(follow)]


def _assign() -> str:
    w = Loops({"starts": "i32", "ends": "i32", "found": "i8", "busy": "i32", "owners": "i32"})
    with w.loop("0", "%count") as register:
        w.put("busy", register, "-2147483648")
    with w.loop("0", "%n") as k, w.when(w.is_("sge", w.at("ends", k), "0")):
        _choose(w, k)
        with w.when(w.is_("sge", w.get("chosen"), "0")):
            w.put("busy", w.get("chosen"), w.at("ends", k))
            w.put("owners", w.get("chosen"), k)
            w.put("found", k, w.do("add", w.get("chosen"), "1"))
    head = [
        "define void @assign(i64 %n, ptr noalias %starts, ptr noalias %ends, ptr noalias %found, i64 %count) {",
        "entry:",
    ]
    variables = [f"  %{name} = alloca [{REGISTERS} x i32]" for name in ("busy", "owners")]
    variables += [f"  %{name} = alloca i64" for name in ("chosen", "longest")]
    return "\n".join([*head, *variables, *w.lines, "  ret void", "}"])


def _choose(w: Loops, k: str) -> None:
    """Write the choice of a register: the first free one, else the one held longest if that is longer than needed."""
    w.set("chosen", "-1")
    w.set("longest", "0")
    with w.loop("0", "%count", down=True) as register:
        with w.when(w.is_("sle", w.at("busy", register), w.at("starts", k))):
            w.set("chosen", register)
        with w.when(w.is_("sgt", w.at("busy", register), w.at("busy", w.get("longest")))):
            w.set("longest", register)
    with w.when(w.is_("slt", w.get("chosen"), "0"), w.is_("sgt", w.at("busy", w.get("longest")), w.at("ends", k))):
        w.put("found", w.at("owners", w.get("longest")), "0")
        w.set("chosen", w.get("longest"))


def _follow() -> str:
    w = Loops({"names": "i32", "seen": "i32", "found": "i32"})
    with w.loop("0", "%n", down=True) as k, w.when(w.is_("sge", w.at("names", k), "0")):
        name = w.at("names", k)
        w.put("found", k, w.at("seen", name))
        w.put("seen", name, k)
    head = [
        "define void @follow(i64 %n, ptr noalias %names, ptr noalias %seen, ptr noalias %found) {",
        "entry:",
    ]
    return "\n".join([*head, *w.lines, "  ret void", "}"])
