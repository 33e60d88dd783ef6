"""What wiregrad reads off the user's code while it runs.

Three questions: which line is recording something (`find_recording_frame`, `user_place`); whether a traced function may
ask what a condition *is*, `c is True` or `type(c) is bool` (`IdentityScan`); and what a traced condition is about to
index (`counts_as_int`). The last two are answered from bytecode, because Python lets no object answer `is`, and because
a list and an array ask an index the same question, `__index__`, and mean different things by it.
"""

from __future__ import annotations

import builtins
import dis
import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache, partial
from itertools import islice
from types import CellType, CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from wiregrad.errors import find_user_frame, is_library_file
from wiregrad.frontends.recording.call_sites import TRACED_CALL, next_user_frame
from wiregrad.ir import Place
from wiregrad.ops.functions.registry import FUNCTIONS


class RecordingFrame(NamedTuple):
    """The user's code that is recording something."""

    frame: FrameType | None
    """The innermost frame of the user's code; None if the traced function itself is not the user's."""
    call: tuple[str, FrameType] | None
    """The composite function that the user's code called, and the frame of that call."""


def find_recording_frame() -> RecordingFrame:
    """Walk the stack from here out to the user's code."""
    call = None
    names = _function_names()
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not is_library_file(code.co_filename):
            return RecordingFrame(frame, call)
        if code.co_name == TRACED_CALL:
            break
        if code in names:
            call = names[code], frame
        frame = frame.f_back
    return RecordingFrame(None, call)


def list_user_frames(frame: FrameType | None) -> list[FrameType]:
    """Return a frame of the user's code and those around it, innermost first, out to the traced function."""
    frames = []
    while frame is not None:
        frames.append(frame)
        frame = next_user_frame(frame)
    return frames


def user_place() -> Place | None:
    """Return the innermost line of code outside wiregrad."""
    frame = find_user_frame()
    return None if frame is None else place_of(frame)


def place_of(frame: FrameType) -> Place:
    """Return the line a frame is at."""
    return Place(frame.f_code.co_filename, frame.f_lineno)


@cache
def _function_names() -> dict[CodeType, str]:
    """Return the names of the composite functions by their code."""
    return {entry.run.__code__: entry.name for entry in FUNCTIONS.values()}


MAX_SEARCHED_FUNCTIONS = 500
"""Maximum number of functions searched for one trace; if there are more, conditions are plain."""
LATE_QUESTION_MESSAGE = (
    "{} is in a function that tests whether a condition `is` True (or `type(c) is bool`), after conditions were "
    "recorded elsewhere: a recorded condition is never the object True; write `if c:` or `c == True`"
)
"""The message for a recording that may have taken another branch than the function would."""
NAME_LOAD_OPCODES = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_ATTR", "LOAD_METHOD")


class IdentityQuestions(NamedTuple):
    """What the bytecode of one function tells about identity tests."""

    asks: bool
    """Whether it tests the identity of an object that may be a condition."""
    compared_names: frozenset[str]
    """The globals that it compares objects with by `is`."""
    names: frozenset[str]
    inner: tuple[CodeType, ...]
    """The code of the functions defined inside it."""


class IdentityScan:
    """The search for identity tests during one trace."""

    def __init__(self) -> None:
        self.asks = False
        self.unforeseen: str | None = None
        """The message if a test was found after conditions had been recorded; None if not."""
        self._seen: set[CodeType] = set()
        self._has_conditions = False

    def look(self, frames: list[FrameType]) -> bool:
        """Return whether a condition recorded in these frames must be plain."""
        if not self.asks:
            for frame in frames:
                if not self.asks and frame.f_code not in self._seen:
                    self._search_frame(frame)
            if self.asks and self._has_conditions:
                self.unforeseen = LATE_QUESTION_MESSAGE.format("{0.file}:{0.line}".format(place_of(frames[0])))
        self._has_conditions = True
        return self.asks

    def _search_frame(self, frame: FrameType) -> None:
        """Search the function of a frame and the functions it can call."""
        queue: list[tuple[CodeType, Mapping[str, Any], Iterable[Any]]]
        queue = [(frame.f_code, frame.f_globals, frame.f_locals.values())]
        while queue:
            code, variables, objects = queue.pop()
            if code in self._seen or is_library_file(code.co_filename):
                continue
            self._seen.add(code)
            questions = find_questions(code)
            compared = [variables.get(name) for name in questions.compared_names]
            if questions.asks or any(isinstance(x, bool | np.bool_) for x in compared):
                self.asks = True
            if self.asks or len(self._seen) > MAX_SEARCHED_FUNCTIONS:
                self.asks = True
                return
            queue += [(inner, variables, ()) for inner in questions.inner]
            known = [variables[name] for name in questions.names if name in variables]
            for function in _reach_functions([*objects, *known], questions.names):
                cells = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
                queue.append((function.__code__, function.__globals__, cells))


def _reach_functions(things: Iterable[Any], names: frozenset[str]) -> Iterator[FunctionType]:
    """Return the Python functions among some objects, and those reachable from them by one of the names."""
    queue = list(things)
    for thing in queue:
        if isinstance(thing, dict | list | tuple | set | frozenset):
            # Containers are searched level by level; a large one holds data, not functions.
            items = thing.values() if isinstance(thing, dict) else thing
            queue += islice(items, MAX_SEARCHED_FUNCTIONS if len(queue) < MAX_SEARCHED_FUNCTIONS else 0)
        elif isinstance(thing, MethodType):
            queue.append(thing.__func__)
        elif isinstance(thing, partial):
            queue.append(thing.func)
        elif isinstance(thing, FunctionType):
            queue += [thing.__wrapped__] if hasattr(thing, "__wrapped__") else []
            yield thing
        elif isinstance(thing, ModuleType):
            attributes = (vars(thing).get(name) for name in names)
            yield from (function for function in attributes if isinstance(function, FunctionType))
        else:
            yield from _reach_methods(thing if isinstance(thing, type) else type(thing), names)


def _reach_methods(kind: type, names: frozenset[str]) -> Iterator[FunctionType]:
    for owner in kind.__mro__:
        for name in (*names, "__init__", "__call__"):
            method = vars(owner).get(name)
            method = getattr(method, "__func__", getattr(method, "fget", method))
            if isinstance(method, FunctionType):
                yield method


def _is_filled(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - it raises if the cell is empty
    except ValueError:
        return False
    return True


@lru_cache(4096)
def find_questions(code: CodeType) -> IdentityQuestions:
    """Return what the bytecode of a function tells about identity tests.

    >>> find_questions((lambda c: c is True).__code__).asks, find_questions((lambda c: c is None).__code__).asks
    (True, False)
    """
    steps = [step for step in dis.get_instructions(code) if step.opname not in ("CACHE", "EXTENDED_ARG", "PRECALL")]
    names = frozenset(step.argval for step in steps if step.opname in NAME_LOAD_OPCODES)
    asks = "is_" in names or "is_not" in names
    # type(c) is bool, type(c).__name__
    asks = asks or ("type" in names and bool(names & {"bool", "int", "__name__"}))
    compared = set[str]()
    for k, step in enumerate(steps):
        if step.opname == "IS_OP":
            one = steps[k - 2]
            two = steps[k - 1]
            if two.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                compared.add(two.argval)
            else:
                asks = asks or _may_be_condition(one, two)
    inner = tuple(constant for constant in code.co_consts if isinstance(constant, CodeType))
    return IdentityQuestions(asks, frozenset(compared), names, inner)


def _may_be_condition(before: dis.Instruction, last: dis.Instruction) -> bool:
    """Return whether the last two instructions before an `is` may load a condition, as far as one can tell."""
    if last.opname == "LOAD_CONST":
        return isinstance(last.argval, bool)
    if last.opname == "LOAD_ATTR":
        # A name in capitals is a sentinel, not a condition.
        return last.argval in ("True_", "False_") or bool(last.argval.islower())
    is_variable = last.opname in ("LOAD_FAST", "LOAD_DEREF")
    return not (is_variable and before.opname == "LOAD_CONST" and not isinstance(before.argval, bool))


LOAD_ATTRIBUTE = dis.opmap["LOAD_ATTR"]
CACHE = dis.opmap["CACHE"]
"""What stands behind an instruction that Python specializes; Python 3.12 is there while it runs a property."""
COPY_TOP = bytes([dis.opmap["COPY"], 1])
"""The instruction that copies the top of the stack."""
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


def is_augmented_assignment(frame: FrameType) -> bool:
    """Return whether a frame reads an attribute in order to change it and to set it again, as `w.data -= step` does.

    >>> import sys
    >>> class Asked:
    ...     @property
    ...     def data(self):
    ...         answers.append(is_augmented_assignment(sys._getframe(1)))
    ...         return 0
    ...     @data.setter
    ...     def data(self, data):
    ...         pass
    >>> answers, asked = [], Asked()
    >>> asked.data -= 1
    >>> asked.data = asked.data - 1
    >>> answers
    [True, False]
    """
    code = frame.f_code.co_code
    at = _step_back(code, frame.f_lasti, CACHE)
    before = _step_back(code, at - 2, dis.EXTENDED_ARG)
    # Only an augmented assignment copies the owner on the stack: once for reading, once for setting the attribute.
    return before >= 0 and code[at] == LOAD_ATTRIBUTE and code[before : before + 2] == COPY_TOP


def _step_back(code: bytes, at: int, opcode: int) -> int:
    """Return the offset of the last instruction before `at`, or at it, that has another opcode."""
    while at > 0 and code[at] == opcode:
        at -= 2
    return at


def is_in_place(frame: FrameType) -> bool:
    """Return whether a frame is at `+=`, or another operator that assigns its result."""
    steps = _list_instructions(frame.f_code)
    step = steps[_find_position(steps, frame.f_lasti)]
    return step.opname == "BINARY_OP" and step.argrepr.endswith("=")


def is_update_of_part(frame: FrameType) -> bool:
    """Return whether a frame is at `y[i] += v` or `o.y += v`, which stores the result where it took the operand."""
    steps = _list_instructions(frame.f_code)
    at = _find_position(steps, frame.f_lasti)
    return is_in_place(frame) and at + 1 < len(steps) and steps[at + 1].opname == "SWAP"


def _find_position(steps: list[dis.Instruction], offset: int) -> int:
    """Return the position of the instruction at an offset, which may be that of its inline cache."""
    return bisect_right(steps, offset, key=lambda step: step.offset) - 1


@lru_cache(1024)
def _list_instructions(code: CodeType) -> list[dis.Instruction]:
    return [step for step in dis.get_instructions(code) if step.opname != "CACHE"]


def _find_container(steps: list[dis.Instruction], at: int, frame: FrameType) -> object:
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


def _evaluate_load(step: dis.Instruction, frame: FrameType) -> object:
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
