"""Registers: which numbers are handed from stencil to stencil instead of through the buffer.

A number that is read again soon is given a register from the step that writes it to the step that reads it last, first
come first served. A step that calls a function loses all registers, so nothing is kept across one.
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
"""For how many steps a register is held at most: longer, and others need it more."""


def assigned(starts: NDArray[np.int32], ends: NDArray[np.int32], calling: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Return a register, from 1, for numbers written at `starts` (in order) and read last at `ends`; 0: none.

    `calling` says of each step whether it calls a function. A number that is never read has an end before its start.

    >>> assigned(np.array([0, 1], np.int32), np.array([2, 2], np.int32), np.zeros(3, np.bool_)).tolist()
    [1, 2]
    """
    lost = np.concatenate([[0], np.cumsum(calling)]).astype(np.int32)
    near = (ends > starts) & (ends - starts <= WINDOW)
    # A number is written after its own step's call, and read before its reader's.
    kept = near & (lost[np.where(near, ends, 0)] == lost[np.where(near, starts + 1, 0)])
    wanted = np.ascontiguousarray(np.where(kept, ends, -1), np.int32)
    begun, found = np.ascontiguousarray(starts, np.int32), np.zeros(len(starts), np.uint8)
    _assigner()(len(starts), begun.ctypes.data, wanted.ctypes.data, found.ctypes.data)
    return found


def prepare() -> None:
    """Have the assigner compiled, which is done once."""
    _assigner()


@cache
def _assigner() -> Any:
    address = machine.compiled(_text(), "assign", level=1)[0]
    return ctypes.CFUNCTYPE(None, ctypes.c_int64, *[ctypes.c_void_p] * 3)(address)


def _text() -> str:
    w = Loops({"starts": "i32", "ends": "i32", "found": "i8", "busy": "i32"})
    with w.loop("0", str(REGISTERS)) as register:
        w.put("busy", register, "-2147483648")
    with w.loop("0", "%n") as k, w.when(w.is_("sge", w.at("ends", k), "0")):
        # From the last to the first, so that the first that is free remains.
        w.set("chosen", "-1")
        with (
            w.loop("0", str(REGISTERS), down=True) as register,
            w.when(w.is_("sle", w.at("busy", register), w.at("starts", k))),
        ):
            w.set("chosen", register)
        with w.when(w.is_("sge", w.get("chosen"), "0")):
            w.put("busy", w.get("chosen"), w.at("ends", k))
            w.put("found", k, w.do("add", w.get("chosen"), "1"))
    head = ["define void @assign(i64 %n, ptr noalias %starts, ptr noalias %ends, ptr noalias %found) {", "entry:"]
    variables = [f"  %busy = alloca [{REGISTERS} x i32]", "  %chosen = alloca i64"]
    return "\n".join([*head, *variables, *w.lines, "  ret void", "}"])
