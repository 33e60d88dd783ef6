"""What a traced condition is about to index.

For a list, `items[True]` is the second element; for an array, `array[True]` is the array with one more axis. Both call
`__index__` of a traced condition. Which of them is calling is read from the bytecode that is running.
"""

from __future__ import annotations

import builtins
import dis
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

SUBSCRIPT_OPCODES = ("BINARY_SUBSCR", "STORE_SUBSCR", "DELETE_SUBSCR")
INDEXING_FUNCTIONS = frozenset(["getitem", "itemgetter", "__getitem__", "setitem", "__setitem__"])
"""Functions that do what a subscript does."""
UNKNOWN_CONTAINER = object()
"""A container that cannot be told from the bytecode."""


def counts_as_int(frame: FrameType) -> bool:
    """Return whether the code of a frame uses a condition as 0 or 1: anything but an array, as far as one can tell.

    >>> import sys
    >>> class Asked:
    ...     def __index__(self):
    ...         answers.append(counts_as_int(sys._getframe(1)))
    ...         return 0
    >>> answers, items, function = [], [1.0], list
    >>> items[Asked()], range(Asked()), function(items)[Asked()]
    (1.0, range(0, 0), 1.0)
    >>> answers
    [True, True, False]
    """
    steps = _list_instructions(frame.f_code)
    at = next((k for k, step in enumerate(steps) if step.offset == frame.f_lasti), None)
    if at is None:
        return False
    if steps[at].opname not in SUBSCRIPT_OPCODES:
        return not INDEXING_FUNCTIONS & {*frame.f_code.co_names}
    if steps[at - 1].opname == "BUILD_SLICE":
        return True
    return isinstance(_find_container(steps, at, frame), list | tuple | str | bytes | range)


@lru_cache(1024)
def _list_instructions(code: CodeType) -> list[dis.Instruction]:
    return [step for step in dis.get_instructions(code) if step.opname != "CACHE"]


def _find_container(steps: list[dis.Instruction], at: int, frame: FrameType) -> Any:
    """Return the container of a subscript; `UNKNOWN_CONTAINER` unless it is a variable, constant or display."""
    pushed = 0
    start = at
    while pushed < 1 and start > 0:
        start -= 1
        step = steps[start]
        if step.opcode in dis.hasjrel or step.opcode in dis.hasjabs:
            return UNKNOWN_CONTAINER
        pushed += dis.stack_effect(step.opcode, step.arg)
    return _evaluate_load(steps[start - 1], frame) if start else UNKNOWN_CONTAINER


def _evaluate_load(step: dis.Instruction, frame: FrameType) -> Any:
    """Return the object that an instruction pushes on the stack."""
    if step.opname == "LOAD_CONST":
        return step.argval
    if step.opname in ("LOAD_FAST", "LOAD_DEREF", "LOAD_CLOSURE"):
        return frame.f_locals.get(step.argval, UNKNOWN_CONTAINER)
    if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
        scopes = (frame.f_locals, frame.f_globals, vars(builtins))
        return next((scope[step.argval] for scope in scopes if step.argval in scope), UNKNOWN_CONTAINER)
    displays = {"BUILD_LIST": [], "LIST_EXTEND": [], "BUILD_TUPLE": (), "LIST_TO_TUPLE": (), "BUILD_STRING": ""}
    return displays.get(step.opname, UNKNOWN_CONTAINER)
