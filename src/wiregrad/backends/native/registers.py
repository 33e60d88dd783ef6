"""Registers: which numbers are handed from stencil to stencil instead of through the buffer.

A number that is read again soon is given a register from the step that writes it to the step that reads it. Where there
are too few, the one that would be held longest goes without. A step that calls a function loses all registers, so
nothing is kept across one. What goes through the buffer is there about eight cycles later, which is longer than a sum
takes: circuits of plain arithmetic are as fast as their longest chain of steps, and this shortens it.
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
"""For how many steps a register is held at most."""
LONG, FEW = 6_000, 3
"""In programs of more steps so few registers are used: others would bring many more stencils, and little speed."""


def losses(calling: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Return how often registers were lost before each step; `calling` says of each whether it calls a function.

    >>> losses(np.array([False, True, False])).tolist()
    [0, 0, 1, 1]
    """
    return np.concatenate([[0], np.cumsum(calling)]).astype(np.int32)


def near(starts: NDArray[np.int32], ends: NDArray[np.int32], lost: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Return which numbers, written at `starts`, can still be in a register at `ends`.

    `lost` is what `losses` returns. A number that is never read has an end before its start.

    >>> lost = losses(np.array([False, True, False]))
    >>> near(np.array([0, 1, 0], np.int32), np.array([2, 2, 1], np.int32), lost).tolist()
    [False, True, True]
    """
    soon = (ends > starts) & (ends - starts <= WINDOW)
    # A number is written after its own step's call, and read before its reader's.
    kept: NDArray[np.bool_] = lost[np.where(soon, ends, 0)] == lost[np.where(soon, starts + 1, 0)]
    return soon & kept


def assigned(starts: NDArray[np.int32], ends: NDArray[np.int32], steps: int = 0) -> NDArray[np.uint8]:
    """Return a register, from 1, for numbers written at `starts` (in order) and read last at `ends`; 0: none.

    A number that wants none has the end -1. `steps` says how long the program is.

    >>> assigned(np.array([0, 1, 2], np.int32), np.array([2, -1, 3], np.int32)).tolist()
    [1, 0, 1]
    """
    begun, wanted = np.ascontiguousarray(starts, np.int32), np.ascontiguousarray(ends, np.int32)
    found, count = np.zeros(len(starts), np.uint8), FEW if steps > LONG else REGISTERS
    _native()[0](len(starts), begun.ctypes.data, wanted.ctypes.data, found.ctypes.data, count)
    return found


def following(names: NDArray[np.int32], most: int) -> NDArray[np.int32]:
    """Return, for each entry, the next one with the same name, -1 if there is none; names are below `most`.

    An entry whose name is -1 has none.

    >>> following(np.array([0, 1, -1, 0], np.int32), 2).tolist()
    [3, -1, -1, -1]
    """
    given, seen = np.ascontiguousarray(names, np.int32), np.full(most, -1, np.int32)
    found = np.full(len(names), -1, np.int32)
    _native()[1](len(names), given.ctypes.data, seen.ctypes.data, found.ctypes.data)
    return found


def prepare() -> None:
    """Have the loops compiled, which is done once."""
    _native()


@cache
def _native() -> list[Any]:
    assign, follow = machine.compiled(f"{_assign()}\n{_follow()}", "assign", "follow", level=1)
    given = [ctypes.c_int64, *[ctypes.c_void_p] * 3]
    return [ctypes.CFUNCTYPE(None, *given, ctypes.c_int64)(assign), ctypes.CFUNCTYPE(None, *given)(follow)]


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
    """Choose the first register that is free, or take the one held longest away if that is longer than needed here."""
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
