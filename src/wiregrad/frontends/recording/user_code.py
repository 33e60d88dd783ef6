"""What wiregrad reads off the user's code while it runs: which line, which call, which loop step, which text.

Three questions about the running code: which line is recording something (`find_recording_frame`, `user_place`);
whether a traced function may ask what a condition *is*, `c is True` or `type(c) is bool` (`IdentityScan`); and what a
traced condition is about to index (`counts_as_int`). The last two are answered from bytecode, because Python lets no
object answer `is`, and because a list and an array ask an index the same question, `__index__`, and mean different
things by it.

A call is one group of a circuit, named after what it was called through: `layers[0]`, `neurons[2]`, `encoder.attend`,
or the name of the function (`CallTracker`). While a trace runs, only what is gone later is stored: the frame, the
instruction and the loop variables. Labels of calls are found at the first node that a call records; paths of groups and
texts of nodes are put together when the circuit is written.
"""

from __future__ import annotations

import ast
import builtins
import dis
import re
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from functools import lru_cache, partial, wraps
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from itertools import islice
from types import BuiltinFunctionType, CellType, CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from wiregrad.errors import find_user_frame, is_library_file, read_line_of_code
from wiregrad.frontends.recording.transformed_function import TransformedFunction
from wiregrad.ir import Place
from wiregrad.lazy import NamedTuple
from wiregrad.ops.functions.registry import FUNCTIONS
from wiregrad.settings import SettingBlock

CodeResultT = TypeVar("CodeResultT")
MAX_KNOWN_CODES = 4096
"""Maximum number of functions of the user's code of which something is remembered."""
MAX_LISTED_CODES = 64
"""Maximum number of functions whose instructions are remembered: many objects, which Python's collector looks at."""


def cache_by_code(
    read: Callable[[CodeType], CodeResultT], *, max_codes: int = MAX_KNOWN_CODES
) -> Callable[[CodeType], CodeResultT]:
    """Remember what a function returns for each code object.

    Code objects are told apart by identity: Python hashes and compares them by their contents, which takes time in
    proportion to their length.
    """
    known: dict[int, tuple[CodeType, CodeResultT]] = {}

    @wraps(read)
    def look_up(code: CodeType) -> CodeResultT:
        entry = known.get(id(code))
        if entry is None:
            if len(known) >= max_codes:
                known.clear()
            entry = known[id(code)] = (code, read(code))
        return entry[1]

    return look_up


def cache_by_instruction(read: Callable[[CodeType, int], CodeResultT]) -> Callable[[CodeType, int], CodeResultT]:
    """Remember what a function returns for each instruction of each code object."""
    known: Callable[[CodeType], dict[int, CodeResultT]] = cache_by_code(lambda code: {})

    @wraps(read)
    def look_up(code: CodeType, offset: int) -> CodeResultT:
        results = known(code)
        if offset not in results:
            results[offset] = read(code, offset)
        return results[offset]

    return look_up


class CodeKind(IntEnum):
    """Whose code a frame runs; the C recorder has the same numbers."""

    USER = 0
    LIBRARY = 1
    TRACED_CALL = 2
    """The function in wiregrad that calls the traced function."""


class RecordingFrame(NamedTuple):
    """The user's code that is recording something."""

    frame: FrameType | None
    """The innermost frame of the user's code; None if the traced function itself is not the user's."""
    call: tuple[str, FrameType] | None
    """The composite function that the user's code called, and the frame of that call."""


def find_recording_frame() -> RecordingFrame:
    """Walk the stack from here out to the user's code."""
    call = None
    names = function_names()
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
    """Return the line a frame is at; `frame.f_lineno` would search the whole function for it."""
    return place_in_code(frame.f_code, frame.f_lasti)


_function_names: dict[CodeType, str] = {}
_named_functions = [0]
"""How many functions were loaded when their names were last collected."""


def function_names() -> dict[CodeType, str]:
    """Return the names of the composite functions by their code, always in the same dict.

    Only the functions that are loaded are there: no other one can be running.
    """
    count = len(FUNCTIONS.loaded)
    if count != _named_functions[0]:
        # Another thread may load functions meanwhile.
        entries = tuple(FUNCTIONS.loaded.values())
        _function_names.update({entry.run.__code__: entry.name for entry in entries})
        _named_functions[0] = count
    return _function_names


MAX_SEARCHED_FUNCTIONS = 500
"""Maximum number of functions searched for one trace; if there are more, conditions are plain."""
LATE_QUESTION_MESSAGE = (
    "{} is in a function that tests whether a condition `is` True (or `type(c) is bool`), after conditions were "
    "recorded elsewhere: a recorded condition is never the object True; write `if c:` or `c == True`"
)
"""The message for a recording that may have taken another branch than the function would."""
NAME_LOAD_OPCODES = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_ATTR", "LOAD_METHOD")
QUESTION_OPCODES = frozenset(
    [dis.opmap["IS_OP"], *(code for code in dis.hasname if dis.opname[code] not in NAME_LOAD_OPCODES)]
)
"""Instructions that test the identity of objects, and those that use names in another way than loading them."""
QUESTION_NAMES = frozenset(["is_", "is_not", "type"])
"""Names of functions by which code may test what an object is."""


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
        self._trusted: set[CodeType] = set()
        self._has_conditions = False

    def look(self, frames: list[FrameType]) -> bool:
        """Return whether a condition recorded in these frames must be plain."""
        if not self.asks:
            for frame in frames:
                code = frame.f_code
                if not self.asks and code not in self._trusted and code not in self._seen:
                    self._search_frame(frame)
            if self.asks and self._has_conditions:
                self.unforeseen = LATE_QUESTION_MESSAGE.format("{0.file}:{0.line}".format(place_of(frames[0])))
        self._has_conditions = True
        return self.asks

    def trust_codes(self, codes: Iterable[CodeType]) -> None:
        """Note code that is known to test no identities, and to call nothing that does; it may record conditions."""
        self._trusted.update(codes)
        self._has_conditions = True

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
    kinds = set[type]()
    for thing in queue:
        if isinstance(thing, dict | list | tuple | set | frozenset):
            # Containers are searched level by level; a large one holds data, not functions.
            items = thing.values() if isinstance(thing, dict) else thing
            queue += islice(items, MAX_SEARCHED_FUNCTIONS if len(queue) < MAX_SEARCHED_FUNCTIONS else 0)
        elif isinstance(thing, MethodType):
            queue.append(thing.__func__)
        elif isinstance(thing, partial):
            queue.append(thing.func)
        elif isinstance(thing, TransformedFunction):
            queue.append(thing.__wrapped__)
        elif isinstance(thing, FunctionType):
            queue += [thing.__wrapped__] if hasattr(thing, "__wrapped__") else []
            yield thing
        elif isinstance(thing, ModuleType):
            attributes = (vars(thing).get(name) for name in names)
            queue += [
                attribute for attribute in attributes if isinstance(attribute, FunctionType | TransformedFunction)
            ]
        else:
            kind = thing if isinstance(thing, type) else type(thing)
            if kind not in kinds:
                kinds.add(kind)
                yield from _reach_methods(kind, names)


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


@cache_by_code
def find_questions(code: CodeType) -> IdentityQuestions:
    """Return what the bytecode of a function tells about identity tests.

    >>> find_questions((lambda c: c is True).__code__).asks, find_questions((lambda c: c is None).__code__).asks
    (True, False)
    """
    inner = tuple(constant for constant in code.co_consts if isinstance(constant, CodeType))
    if QUESTION_OPCODES.isdisjoint(code.co_code[::2]) and QUESTION_NAMES.isdisjoint(code.co_names):
        # Most functions ask nothing, and reading their instructions takes long.
        return IdentityQuestions(asks=False, compared_names=frozenset(), names=frozenset(code.co_names), inner=inner)
    steps = [step for step in list_instructions(code) if step.opname not in ("EXTENDED_ARG", "PRECALL")]
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
    return IdentityQuestions(asks, frozenset(compared), names, inner)


def _may_be_condition(before: CodeStep, last: CodeStep) -> bool:
    """Return whether the last two instructions before an `is` may load a condition, as far as one can tell."""
    if last.opname == "LOAD_CONST":
        return isinstance(last.argval, bool)
    if last.opname == "LOAD_ATTR":
        # A name in capitals is a sentinel, not a condition.
        return last.argval in ("True_", "False_") or bool(last.argval.islower())
    is_variable = last.opname in ("LOAD_FAST", "LOAD_DEREF")
    return not (is_variable and before.opname == "LOAD_CONST" and not isinstance(before.argval, bool))


LOAD_ATTRIBUTE = dis.opmap["LOAD_ATTR"]
FOR_ITER = dis.opmap["FOR_ITER"]
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
    steps = list_instructions(frame.f_code)
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
    at = find_instruction(frame)
    before = _step_back(code, at - 2, dis.EXTENDED_ARG)
    # Only an augmented assignment copies the owner on the stack: once for reading, once for setting the attribute.
    return before >= 0 and code[at] == LOAD_ATTRIBUTE and code[before : before + 2] == COPY_TOP


def find_instruction(frame: FrameType) -> int:
    """Return the offset of the instruction that a frame is at.

    `frame.f_lasti` may be the offset of one of the cache entries behind it. Whether it is depends on how often the
    instruction ran.
    """
    return _step_back(frame.f_code.co_code, frame.f_lasti, CACHE)


def _step_back(code: bytes, at: int, opcode: int) -> int:
    """Return the offset of the last instruction before `at`, or at it, that has another opcode."""
    while at > 0 and code[at] == opcode:
        at -= 2
    return at


def is_in_place(frame: FrameType) -> bool:
    """Return whether a frame is at `+=`, or another operator that assigns its result."""
    steps = list_instructions(frame.f_code)
    step = steps[_find_position(steps, frame.f_lasti)]
    return step.opname == "BINARY_OP" and step.argrepr.endswith("=")


def is_update_of_part(frame: FrameType) -> bool:
    """Return whether a frame is at `y[i] += v` or `o.y += v`, which stores the result where it took the operand."""
    steps = list_instructions(frame.f_code)
    at = _find_position(steps, frame.f_lasti)
    return is_in_place(frame) and at + 1 < len(steps) and steps[at + 1].opname == "SWAP"


def _find_position(steps: list[CodeStep], offset: int) -> int:
    """Return the position of the instruction at an offset, which may be that of its inline cache."""
    return bisect_right(steps, offset, key=lambda step: step.offset) - 1


class CodeStep(NamedTuple):
    """An instruction, with the fields that `dis.Instruction` has."""

    offset: int
    opcode: int
    opname: str
    arg: int
    argval: Any
    argrepr: str


JUMP_OPCODES = frozenset([*dis.hasjrel, *dis.hasjabs])


@partial(cache_by_code, max_codes=MAX_LISTED_CODES)
def list_instructions(code: CodeType) -> list[CodeStep]:
    """Return the instructions of a function, in a third of the time of `dis.get_instructions`.

    >>> [step.opname for step in list_instructions((lambda x: -x).__code__)][-3:]
    ['LOAD_FAST', 'UNARY_NEGATIVE', 'RETURN_VALUE']
    """
    rows = _split_bytecode(code.co_code)
    kinds = {(opcode, arg): end - offset for offset, end, opcode, arg in rows if opcode not in JUMP_OPCODES}
    operands = _read_operands(code, kinds)
    steps: list[CodeStep] = []
    new_step: Any = tuple.__new__
    for offset, end, opcode, arg in rows:
        operand = operands.get((opcode, arg))
        if operand is None:
            name = dis.opname[opcode]
            # Jumps count from the next instruction.
            target = end + (-2 * arg if "BACKWARD" in name else 2 * arg)
            operand = name, target, f"to {target}"
        steps.append(new_step(CodeStep, (offset, opcode, operand[0], arg, operand[1], operand[2])))
    return steps


def _split_bytecode(text: bytes) -> list[tuple[int, int, int, int]]:
    """Return the offset, the end, the opcode and the argument of each instruction; caches are part of it."""
    rows: list[tuple[int, int, int, int]] = []
    end = len(text)
    for offset in range(end - 2, -1, -2):
        if text[offset] != CACHE:
            rows.append((offset, end, text[offset], text[offset + 1]))
            end = offset
    rows.reverse()
    if dis.EXTENDED_ARG not in text[::2]:
        return rows
    prefix = 0
    for k, (offset, end, opcode, arg) in enumerate(rows):
        rows[k] = (offset, end, opcode, prefix | arg)
        prefix = (prefix | arg) << 8 if opcode == dis.EXTENDED_ARG else 0
    return rows


def _read_operands(code: CodeType, kinds: dict[tuple[int, int], int]) -> dict[tuple[int, int], tuple[str, Any, str]]:
    """Return the names and arguments of instructions, each of which may occur many times; `kinds` has their lengths."""
    operands: dict[tuple[int, int], tuple[str, Any, str]] = {}
    text = bytearray()
    ordered: list[tuple[int, int]] = []
    for (opcode, arg), length in kinds.items():
        if opcode == dis.EXTENDED_ARG:
            operands[opcode, arg] = "EXTENDED_ARG", arg, ""
            continue
        ordered.append((opcode, arg))
        for shift in (24, 16, 8):
            if arg >> shift:
                text += bytes([dis.EXTENDED_ARG, arg >> shift & 255])
        text += bytes([opcode, arg & 255]) + bytes(length - 2)
    steps = dis.get_instructions(code.replace(co_code=bytes(text), co_exceptiontable=b""))
    named = [step for step in steps if step.opcode not in (CACHE, dis.EXTENDED_ARG)]
    for kind, step in zip(ordered, named, strict=True):
        operands[kind] = step.opname, step.argval, step.argrepr
    return operands


def _find_container(steps: list[CodeStep], at: int, frame: FrameType) -> object:
    """Return the container of a subscript; `UNKNOWN_CONTAINER` unless it is a variable, constant or display."""
    pushed = 0
    start = at
    while pushed < 1 and start > 0:
        start -= 1
        step = steps[start]
        if step.opcode in dis.hasjrel or step.opcode in dis.hasjabs:
            return UNKNOWN_CONTAINER
        has_argument = step.opcode >= dis.HAVE_ARGUMENT
        pushed += dis.stack_effect(step.opcode, step.arg if has_argument else None)
    return _evaluate_load(steps[start - 1], frame) if start else UNKNOWN_CONTAINER


def _evaluate_load(step: CodeStep, frame: FrameType) -> object:
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


TRACED_CALL = "call_traced"
"""The name of the function in wiregrad that calls the traced function."""
MAX_WALKED_PARTS = 10_000
"""Maximum number of parts of variables that are searched for the name of an object."""
MAX_PART_DEPTH = 12
"""Maximum number of attributes, keys and indices in the path of an object."""
MAX_CALLED_DEPTH = 3
"""Maximum number of attributes, keys and indices in the path of an object that is called."""
MAX_LOOP_STEPS = 100_000
"""A loop of more steps than this has no groups for its steps."""
MAX_SEARCHES = 20
"""Maximum number of times that the variables of one call are searched for objects that were not found before."""
CALL_METHODS = frozenset(["__call__", "forward", "call"])
"""Methods whose calls are named after their object alone."""
RESULT_OPCODES = frozenset(
    "BINARY_OP COMPARE_OP BINARY_SUBSCR BINARY_SLICE UNARY_NEGATIVE UNARY_POSITIVE UNARY_INVERT UNARY_NOT LOAD_ATTR "
    "CONTAINS_OP".split()
)
"""Instructions whose every execution computes the expression at their position, in one op or one composite function."""
CALL_OPCODES = frozenset("PRECALL CALL CALL_KW CALL_FUNCTION_EX CALL_INTRINSIC_1".split())
EXPRESSION_OPCODES = RESULT_OPCODES | CALL_OPCODES
COMPREHENSION_OPCODES = frozenset("LIST_APPEND SET_ADD MAP_ADD".split())
ATOMS = (str, bytes, int, float, complex, np.ndarray, np.generic, ModuleType, type, CodeType)
LIBRARY_MODULES = frozenset("builtins functools numpy wiregrad _thread threading weakref".split())
FUNCTION_KINDS = (FunctionType, MethodType, BuiltinFunctionType, TransformedFunction)


class LoopSpan(NamedTuple):
    """A `for` statement in the code of a function: the offsets of its body, and its loop variables."""

    start: int
    end: int
    targets: tuple[str, ...]


LoopStep = tuple[LoopSpan, str, int]
"""A `for` statement, its loop variable, and the whole number that it has."""


class GroupBlock(SettingBlock[str]):
    """A `wg.group` block, which knows where in the user's code it was entered."""

    __slots__ = ("entered",)

    entered: tuple[int, int]
    """The id of the frame that entered it, and the offset of the instruction."""

    def prepare_entry(self, frame: FrameType) -> None:
        """Note the frame and the instruction that enter the block."""
        user_frame = next_user_frame(frame) if is_library_file(frame.f_code.co_filename) else frame
        self.entered = (0, 0) if user_frame is None else (id(user_frame), user_frame.f_lasti)
        super().prepare_entry(frame)


class CallSite(NamedTuple):
    """An instruction of the user's code that is running: in which call, at which offset, inside which blocks."""

    call: UserCall
    offset: int
    steps: tuple[LoopStep, ...] = ()
    """The steps of the `for` statements around it, the outermost first."""
    blocks: tuple[GroupBlock, ...] = ()
    """The `wg.group` blocks that were active."""

    @property
    def place(self) -> Place:
        """The file and line."""
        return place_in_code(self.call.code, self.offset)


class UserCall:
    """One call of a function of the user's code."""

    __slots__ = (
        "_answers",
        "_loops",
        "_paths",
        "_searches",
        "_step_counts",
        "code",
        "depth",
        "first",
        "frame",
        "frame_id",
        "label",
        "long_loops",
        "owner",
        "parent",
        "sites",
    )

    def __init__(self, frame: FrameType | None, code: CodeType, parent: CallSite | None = None) -> None:
        self.frame = frame
        """The frame, while it is kept."""
        self.frame_id = id(frame)
        self.first: UserCall | None = None
        """For a generator that is resumed from another place: its call from the first place."""
        self.sites: dict[int, CallSite] = {}
        """The latest site at each offset, which most nodes share with the node before."""
        self.code = code
        self.parent = parent
        """The call instruction; None for the traced function, and where only lines are recorded."""
        self.owner: Any = None
        """The object whose method it is; None for a function."""
        self.label = ""
        """The label of its group; empty if it has none, as a comprehension."""
        self.depth: int = 0 if parent is None else parent.call.depth + 1
        """The number of calls around it."""
        self._answers: dict[int, tuple[Any, str]] = {}
        """The paths that `find_path` has returned, by the ids of the objects."""
        self._paths: dict[int, tuple[Any, str]] = {}
        self._searches = 0
        self._loops: dict[int, tuple[LoopSpan, ...]] = {}
        self._step_counts: dict[LoopSpan, int] = {}
        self.long_loops: set[LoopSpan] = set()
        """The loops with so many steps that these are no groups."""

    @property
    def identity(self) -> UserCall:
        """What is one group: the call itself, or the first one of a generator that was resumed elsewhere."""
        # Not an attribute: a call that refers to itself is a reference cycle.
        return self if self.first is None else self.first

    def forget_frame(self) -> None:
        """Let go of the frame, and of all that refers to values or to this call: these are reference cycles."""
        self.frame = self.owner = None
        self.sites = {}
        self._answers = {}
        self._paths = {}

    def loops_at(self, offset: int) -> tuple[LoopSpan, ...]:
        """Return the loops around an instruction whose steps may be groups."""
        loops = self._loops.get(offset)
        if loops is None:
            around = loops_around(self.code, offset)
            loops = self._loops[offset] = tuple(span for span in around if span not in self.long_loops)
        return loops

    def count_steps(self, before: CallSite | None, steps: tuple[LoopStep, ...]) -> None:
        """Count the steps of loops, and stop reading the variables of those with very many."""
        for step in steps:
            if before is not None and step not in before.steps:
                span = step[0]
                self._step_counts[span] = self._step_counts.get(span, 0) + 1
                if self._step_counts[span] > MAX_LOOP_STEPS:
                    self.mark_long_loop(span)

    def mark_long_loop(self, span: LoopSpan) -> None:
        """Stop reading the variables of a loop."""
        self.long_loops.add(span)
        self._loops.clear()

    def find_path(self, thing: object, owner_parts: OwnerParts) -> str | None:
        """Return how this code reaches an object: through an attribute of its own object, or a variable.

        An object keeps the path that it had first in this call.
        """
        answer = self._answers.get(id(thing))
        if answer is not None:
            return answer[1]
        may_search = self._searches < MAX_SEARCHES
        path = None if self.owner is None else owner_parts.find_path(self.owner, thing, search=may_search)
        if path is None:
            if id(thing) not in self._paths and may_search:
                self._search_variables()
            path = self._paths.get(id(thing), (None, None))[1]
        if path is not None:
            self._answers[id(thing)] = thing, path
        return path

    def _search_variables(self) -> None:
        """Add the paths of what variables hold: first themselves, then their parts, then loop variables."""
        self._searches += 1
        if self.frame is None:
            return
        variables = collect_variables(self.frame)
        loops = {name for span in find_loops(self.code) for name in span.targets}
        plain = {name: item for name, item in variables.items() if name not in loops and item is not self.owner}
        _add_parts(self._paths, plain.items())
        _add_parts(self._paths, walk_all(plain, MAX_CALLED_DEPTH))
        _add_parts(self._paths, ((name, item) for name, item in variables.items() if name in loops))


class OwnerParts:
    """The paths of the parts of objects, which are searched once for all calls of their methods."""

    def __init__(self) -> None:
        self._paths: dict[int, tuple[Any, dict[int, tuple[Any, str]]]] = {}
        """For each object by id: the object, and for each of its parts by id the part and its path."""

    def find_path(self, owner: object, thing: object, *, search: bool) -> str | None:
        """Return the path from an object to a part of it; None if it is not found there.

        Without `search`, only what an earlier search has found counts.
        """
        known = self._paths.get(id(owner))
        entry = None if known is None else known[1].get(id(thing))
        if entry is not None and follow_path(owner, entry[1]) is thing:
            return entry[1]
        if not search:
            return None
        paths: dict[int, tuple[Any, str]] = {}
        _add_parts(paths, walk_parts("", owner, MAX_CALLED_DEPTH))
        self._paths[id(owner)] = owner, paths
        return paths.get(id(thing), (None, None))[1]

    def clear(self) -> None:
        """Let go of all objects."""
        self._paths = {}


def _add_parts(paths: dict[int, tuple[Any, str]], parts: Iterable[tuple[str, Any]]) -> None:
    """Add the paths of objects that have none yet."""
    for path, part in islice(parts, MAX_WALKED_PARTS):
        if not isinstance(part, ATOMS):
            paths.setdefault(id(part), (part, path))


@lru_cache(maxsize=4096)
def split_path(path: str) -> tuple[str | int, ...]:
    """Return the names and indices that a path consists of.

    >>> split_path("layers[0].w")
    ('layers', 0, 'w')
    """
    return tuple([int(step) if step.isdecimal() else step for step in re.findall(r"[^.\[\]]+", path)])


def follow_path(item: Any, path: str) -> Any:
    """Return the part that a path leads to now; None if that cannot be told without running code of the user's.

    >>> follow_path({"w": [1.0, {"b": 2.0}]}, "w[1].b")
    2.0
    """
    for step in split_path(path):
        if type(step) is int:
            is_there = isinstance(item, list | tuple) and step < len(item)
            item = item[step] if is_there else item.get(step) if type(item) is dict else None
        else:
            holder = item if type(item) is dict else getattr(item, "__dict__", None)
            item = holder.get(step) if type(holder) is dict else None
    return item


def collect_variables(frame: FrameType) -> dict[str, Any]:
    """Return the variables that the code of a frame can read: its own, and the globals that it names."""
    outer = frame.f_globals
    return {name: outer[name] for name in frame.f_code.co_names if name in outer} | dict(frame.f_locals)


def walk_all(variables: Mapping[str, Any], depth: int = MAX_PART_DEPTH) -> Iterator[tuple[str, Any]]:
    """Walk over the parts of some variables, level by level."""
    return _walk_level([(name, item) for name, item in variables.items()], depth)


def walk_parts(name: str, item: object, depth: int = MAX_PART_DEPTH) -> Iterator[tuple[str, Any]]:
    """Walk over the attributes and elements of an object, level by level, each with the path that leads to it.

    >>> [path for path, part in walk_parts("p", {"w": [1.0, {"b": [2.0]}]})]
    ['p.w', 'p.w[0]', 'p.w[1]', 'p.w[1].b', 'p.w[1].b[0]']
    """
    return _walk_level([(name, item)], depth)


def _walk_level(level: list[tuple[str, Any]], depth: int) -> Iterator[tuple[str, Any]]:
    seen = {id(item) for _, item in level}
    for _ in range(depth):
        below: list[tuple[str, Any]] = []
        for path, item in level:
            for inner, part in _list_parts(path, item):
                yield inner, part
                if not isinstance(part, ATOMS) and id(part) not in seen:
                    seen.add(id(part))
                    below.append((inner, part))
        level = below
        if not level:
            return


def _list_parts(path: str, item: object) -> Iterator[tuple[str, Any]]:
    """Return the elements of a container or the attributes of an object, with their paths."""
    if isinstance(item, ATOMS) or hasattr(item, "__wiregrad_apply__"):
        return
    if isinstance(item, list | tuple):
        names = getattr(item, "_fields", None)
        for k, part in enumerate(item):
            yield f"{path}.{names[k]}" if names else f"{path}[{k}]", part
    elif isinstance(item, Mapping):
        for key, part in list(item.items()):
            yield _join_key(path, key), part
    elif not isinstance(item, FUNCTION_KINDS) and not is_library_module(type(item)):
        yield from ((_join_key(path, key), part) for key, part in _attributes_of(item))


def is_library_module(kind: type) -> bool:
    """Return whether a class belongs to wiregrad, NumPy or Python, whose attributes are of no interest."""
    return kind.__module__.partition(".")[0] in LIBRARY_MODULES


def _attributes_of(item: object) -> Iterator[tuple[str, Any]]:
    attributes = getattr(item, "__dict__", None)
    if isinstance(attributes, dict):
        yield from list(attributes.items())
    for kind in type(item).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if not name.startswith("__") and hasattr(item, name):
                yield name, getattr(item, name)


def _join_key(path: str, key: object) -> str:
    """Add an attribute or a key to a path: `p.w`, `p[3]`."""
    if type(key) is int and key >= 0:
        return f"{path}[{key}]"
    text = key if isinstance(key, str) and key.isidentifier() else re.sub(r"\W", "_", f"_{key}")
    return f"{path}.{text}" if path else text


class CallTracker:
    """Finds the calls that recorded nodes belong to; it keeps their frames until `forget_frames`.

    The C recorder notes by itself where rows are recorded, and by which calls. It asks here what it does not know:
    `classify_code`, `describe_code`, `loops_at`, `find_place`, `is_method`, `label_method`, and about generators, which
    may be resumed from anywhere, `find_entered`, `note_number` and `locate_elsewhere`.
    """

    __slots__ = ("calls", "columns", "numbered_calls", "other_sites", "owner_parts", "read_blocks")

    def __init__(self, read_blocks: Callable[[], Sequence[GroupBlock]] = tuple) -> None:
        self.calls: dict[FrameType, UserCall | int] = {}
        """The calls by their frames, in the order in which they were entered; by number if the C recorder did that."""
        self.read_blocks = read_blocks
        """Returns the active `wg.group` blocks."""
        self.columns: Any = None
        """The recorder's object, while it notes calls."""
        self.numbered_calls: dict[int, UserCall] = {}
        """The calls that the C recorder knows by number, as far as somebody has asked for them."""
        self.other_sites: dict[int, tuple[int, CallSite]] = {}
        """The sites in generators, by their ids: their numbers, and the sites."""
        self.owner_parts = OwnerParts()

    @property
    def max_loop_steps(self) -> int:
        """A loop of more steps than this has no groups for its steps."""
        return MAX_LOOP_STEPS

    def classify_code(self, code: CodeType, functions: Mapping[CodeType, str]) -> CodeKind | str:
        """Return whose code this is; the name of a composite function."""
        if not is_library_file(code.co_filename):
            return CodeKind.USER
        if code.co_name == TRACED_CALL:
            return CodeKind.TRACED_CALL
        if code not in functions:
            # It may belong to a module that was loaded since the trace began.
            function_names()
        return functions.get(code, CodeKind.LIBRARY)

    def describe_code(self, code: CodeType) -> tuple[bool, bool, bool, str | None, int]:
        """Return whether a code is a generator, has loops, is inner code, and its first parameter with its place.

        Inner code is a lambda, a comprehension or a generator expression. A parameter that is not at a fixed place in
        a frame has the place -1. A method has a parameter; that of inner code does not matter.
        """
        is_inner = code.co_name.startswith("<")
        first = code.co_varnames[0] if code.co_argcount and not is_inner else None
        is_generator = bool(code.co_flags & CO_GENERATOR)
        return is_generator, bool(find_loops(code)), is_inner, first, -1 if first in code.co_cellvars else 0

    def loops_at(self, code: CodeType, offset: int) -> tuple[tuple[int, tuple[tuple[str, int], ...]], ...]:
        """Return the loops around an instruction: the number of each, and its variables with their places in a frame.

        A variable that is not at a fixed place has the place -1.
        """
        spans = find_loops(code)
        places = {name: k for k, name in enumerate(code.co_varnames) if name not in code.co_cellvars}
        return tuple(
            (spans.index(span), tuple((name, places.get(name, -1)) for name in span.targets))
            for span in loops_around(code, offset)
        )

    def find_place(self, code: CodeType, offset: int) -> Place:
        """Return the file and line of an instruction."""
        return place_in_code(code, offset)

    def mark_long_loop(self, call: int, loop: int) -> None:
        """Note that a loop has so many steps that these are no groups."""
        found = self.call_at(call)
        found.mark_long_loop(find_loops(found.code)[loop])

    def is_method(self, code: CodeType, owner: object) -> bool:
        """Return whether a code with this first argument is a method of it."""
        return _is_method(code, owner)

    def label_method(
        self, scope: int, owner: object, code: CodeType, calling_code: CodeType, offset: int
    ) -> tuple[str, bool, tuple[str | int, ...] | None]:
        """Return the label of a method's call, and whether this object's calls from the scope keep it.

        The last item are the steps of the path, if it leads from the object whose method the scope is.
        """
        around = self.call_at(scope)
        if around.owner is owner:
            return _name_own_method(owner, code), True, ()
        path = around.find_path(owner, self.owner_parts)
        if path is None:
            site = CallSite(UserCall(None, calling_code), offset)
            return _join_method(_read_callee(site, code) or type(owner).__name__, code), False, None
        is_part = around.owner is not None and follow_path(around.owner, path) is owner
        return _join_method(path, code), True, split_path(path) if is_part else None

    def call_at(self, number: int) -> UserCall:
        """Return a call that the C recorder knows by number."""
        unknown = []
        at = number
        while at >= 0 and at not in self.numbered_calls:
            unknown.append((at, self.columns.read_call(at)))
            at = unknown[-1][1][3]
        for k, (code, frame, frame_id, parent, offset, steps, label, owner) in reversed(unknown):
            site = None
            if parent >= 0:
                outer = self.numbered_calls[parent]
                site = CallSite(outer, offset, decode_steps(outer.code, steps))
            call = self.numbered_calls[k] = UserCall(frame, code, site)
            call.frame_id = frame_id
            call.owner = owner
            if site is not None:
                call.label = _label_by_code(code, site) if label is None else label
        return self.numbered_calls[number]

    def find_entered(self, frame: FrameType) -> UserCall:
        """Return the call of a frame that is called, directly or not, by a generator."""
        return self._look_up(frame) or self.find_call(frame)

    def note_number(self, call: UserCall, number: int) -> None:
        """Note the number that the C recorder has given to a call."""
        self.numbered_calls[number] = call

    def _look_up(self, frame: FrameType) -> UserCall | None:
        """Return the call of a frame; None if it is not known."""
        call = self.calls.get(frame)
        return self.call_at(call) if isinstance(call, int) else call

    def locate_elsewhere(self, frame: FrameType) -> int:
        """Return the number of the site where a generator is."""
        site = self.locate(frame, tuple(self.read_blocks()))
        return self.other_sites.setdefault(id(site), (len(self.other_sites), site))[0]

    def locate(self, frame: FrameType, blocks: tuple[GroupBlock, ...]) -> CallSite:
        """Return where a frame of the user's code is."""
        call = self._look_up(frame)
        if call is None or (frame.f_code.co_flags & CO_GENERATOR and not self._is_resumed_alike(call, frame.f_back)):
            call = self.find_call(frame)
        return _read_site(call, frame, blocks)

    def _is_resumed_alike(self, call: UserCall, outer: FrameType | None) -> bool:
        """Return whether a generator runs for the same function, at the same instruction, as before."""
        caller = None if outer is None else self._look_up(outer)
        if caller is None or outer is None or outer.f_code.co_flags & CO_GENERATOR:
            return False
        return _read_site(caller, outer, ()) is call.parent

    def find_call(self, frame: FrameType) -> UserCall:
        """Return the call that a frame is running; a generator may be resumed from another place each time."""
        unknown = [frame]
        outer = next_user_frame(frame)
        while outer is not None and (outer not in self.calls or outer.f_code.co_flags & CO_GENERATOR):
            unknown.append(outer)
            outer = next_user_frame(outer)
        parent = None if outer is None else self._look_up(outer)
        for inner in reversed(unknown):
            parent = self._add_call(inner, parent)
        assert parent is not None
        return parent

    def _add_call(self, frame: FrameType, parent: UserCall | None) -> UserCall:
        known = self._look_up(frame)
        site = None if parent is None or parent.frame is None else _read_site(parent, parent.frame, ())
        if known is not None and known.parent == site:
            return known
        call = self.calls[frame] = UserCall(frame, frame.f_code, site)
        call.owner = _find_owner(frame)
        if known is not None:
            call.first = known.identity
            known.forget_frame()
        if site is not None:
            call.label = _label_call(call, site, self.owner_parts)
        return call

    def frames_inside_out(self) -> list[FrameType]:
        """Return the frames of all calls whose variables can be read, those of inner calls first."""
        known = np.frombuffer(b"" if self.columns is None else self.columns.depths(), np.int32).tolist()
        depths = [known[call] if isinstance(call, int) else call.depth for call in self.calls.values()]
        frames = list(self.calls)
        ordered = [frames[k] for k in np.argsort(-np.array(depths, np.int64), kind="stable").tolist()]
        return [frame for frame in ordered if _keeps_variables(frame.f_code)]

    def forget_frames(self) -> None:
        """Let go of all frames: they refer to values, and values to the tape, which is a reference cycle."""
        entered = [call for call in self.calls.values() if isinstance(call, UserCall)]
        for call in [*self.numbered_calls.values(), *entered]:
            call.forget_frame()
        self.owner_parts.clear()
        self.calls.clear()


RESUMABLE_FLAGS = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR
"""The flags of code whose calls can be left and resumed."""


def _keeps_variables(code: CodeType) -> bool:
    """Return whether the variables of a call can be read after its end.

    Since Python 3.13 the frame of a generator that was dropped before its end has whatever was in memory before
    (python/cpython#125723), and reading it crashes. Nothing tells such a frame from others.
    """
    return sys.version_info < (3, 13) or not code.co_flags & RESUMABLE_FLAGS


def next_user_frame(frame: FrameType) -> FrameType | None:
    """Return the frame of the user's code that called a frame; None outside the traced function."""
    outer = frame.f_back
    while outer is not None and is_library_file(outer.f_code.co_filename):
        if outer.f_code.co_name == TRACED_CALL:
            return None
        outer = outer.f_back
    return outer


def _read_site(call: UserCall, frame: FrameType, blocks: tuple[GroupBlock, ...]) -> CallSite:
    offset = find_instruction(frame)
    loops = call.loops_at(offset)
    steps = _read_steps(loops, frame.f_locals) if loops else ()
    site = call.sites.get(offset)
    if site is None or site.steps != steps or site.blocks != blocks:
        call.count_steps(site, steps)
        site = call.sites[offset] = CallSite(call, offset, steps, blocks)
    return site


def _read_steps(loops: tuple[LoopSpan, ...], variables: Mapping[str, Any]) -> tuple[LoopStep, ...]:
    """Return for each loop the first variable that is a whole number; loops over anything else are left out."""
    steps = []
    for span in loops:
        for name in span.targets:
            number = variables.get(name)
            if type(number) is int or isinstance(number, np.integer):
                steps.append((span, name, int(number)))
                break
    return tuple(steps)


def decode_steps(code: CodeType, numbers: Sequence[int]) -> tuple[LoopStep, ...]:
    """Return the loop steps that the C recorder wrote down: of each the loop, its variable and the whole number."""
    spans = find_loops(code) if numbers else ()
    return tuple(
        [
            (spans[span], spans[span].targets[target], number)
            for span, target, number in zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True)
        ]
    )


def loops_around(code: CodeType, offset: int) -> tuple[LoopSpan, ...]:
    """Return the `for` statements around an instruction, the outermost first."""
    return tuple([span for span in find_loops(code) if span.start <= offset < span.end])


@cache_by_code
def find_loops(code: CodeType) -> tuple[LoopSpan, ...]:
    """Return the `for` statements in the code of a function, those further out first; comprehensions are left out.

    >>> def f(n):
    ...     for k in range(n):
    ...         for i, j in [(0, 1)]:
    ...             pass
    >>> [span.targets for span in find_loops(f.__code__)]
    [('k',), ('i', 'j')]
    """
    if code.co_name.startswith("<") and code.co_name != "<module>":
        return ()
    if FOR_ITER not in code.co_code[::2]:
        # Most functions have no loop, and listing the instructions of a long one takes long.
        return ()
    steps = [step for step in list_instructions(code) if step.opname != "EXTENDED_ARG"]
    spans = []
    for k, step in enumerate(steps):
        if step.opname == "FOR_ITER":
            spans.append(LoopSpan(step.offset, step.argval, _read_targets(steps[k + 1 :])))
    adding = [step.offset for step in steps if step.opname in COMPREHENSION_OPCODES]
    inlined = {max((span for span in spans if span.start <= at < span.end), default=None) for at in adding}
    return tuple(span for span in spans if span not in inlined)


def _read_targets(steps: list[CodeStep]) -> tuple[str, ...]:
    """Return the variables that a loop assigns first: one, or those that an element is unpacked into."""
    count = 1
    targets = []
    for step in steps:
        if step.opname == "UNPACK_SEQUENCE":
            count += step.arg or 0
        elif step.opname.startswith("STORE_FAST_STORE_FAST"):
            targets += list(step.argval)
            break
        elif step.opname in ("STORE_FAST", "STORE_NAME", "STORE_DEREF", "STORE_GLOBAL"):
            targets.append(step.argval)
            count -= 1
            if count <= 1:
                break
        else:
            break
    return tuple(targets)


def _find_owner(frame: FrameType) -> Any:
    """Return the object whose method a frame runs; None for a function."""
    code = frame.f_code
    if not code.co_argcount or code.co_name.startswith("<"):
        return None
    owner = frame.f_locals.get(code.co_varnames[0])
    return owner if _is_method(code, owner) else None


def _is_method(code: CodeType, owner: object) -> bool:
    if owner is None or isinstance(owner, ATOMS) or hasattr(owner, "__wiregrad_apply__"):
        return False
    methods = (vars(kind).get(code.co_name) for kind in type(owner).__mro__)
    return code.co_varnames[0] == "self" or any(getattr(method, "__code__", None) is code for method in methods)


def _label_call(call: UserCall, site: CallSite, owner_parts: OwnerParts) -> str:
    """Return the label of the group of a call."""
    if call.owner is None or call.code.co_name.startswith("<"):
        return _label_by_code(call.code, site)
    scope = site.call
    while scope.code.co_name.startswith("<") and scope.parent is not None:
        # A comprehension, a generator expression or a lambda: what it reads is what the function around it reads.
        scope = scope.parent.call
    if scope.owner is call.owner:
        return _name_own_method(call.owner, call.code)
    path = scope.find_path(call.owner, owner_parts) or _read_callee(site, call.code) or type(call.owner).__name__
    return _join_method(path, call.code)


def _label_by_code(code: CodeType, site: CallSite) -> str:
    """Return the label of a call that is not one of a method."""
    if code.co_name == "<lambda>":
        return _name_lambda(site)
    return "" if code.co_name.startswith("<") else code.co_name


def _name_own_method(owner: object, code: CodeType) -> str:
    """Return the label of a method that another method of the same object calls."""
    return type(owner).__name__ if code.co_name in CALL_METHODS else code.co_name


def _join_method(path: str, code: CodeType) -> str:
    """Return the label of a method of an object that a path leads to."""
    return path if code.co_name in CALL_METHODS else f"{path}.{code.co_name}"


def _read_callee(site: CallSite, code: CodeType) -> str | None:
    """Return the variable that the call instruction calls, or whose method it calls."""
    callee = _parse_callee(site)
    if isinstance(callee, ast.Attribute) and callee.attr == code.co_name:
        callee = callee.value
    return callee.id if isinstance(callee, ast.Name) and not _is_class_name(callee.id) else None


def _is_class_name(name: str) -> bool:
    return name[:1].isupper()


def _name_lambda(site: CallSite) -> str:
    """Return the variable or attribute through which a lambda was called; empty if there is none."""
    callee = _parse_callee(site)
    if isinstance(callee, ast.Name):
        return callee.id
    return callee.attr if isinstance(callee, ast.Attribute) else ""


def _parse_callee(site: CallSite) -> ast.expr | None:
    text = read_expression(site.call.code, site.offset)
    if text is None:
        return None
    tree = ast.parse(text, mode="eval").body
    return tree.func if isinstance(tree, ast.Call) else None


@cache_by_instruction
def place_in_code(code: CodeType, offset: int) -> Place:
    """Return the file and line of an instruction."""
    starts, lines = _line_lists(code)
    return Place(code.co_filename, lines[bisect_right(starts, max(offset, 0)) - 1])


def find_lines(code: CodeType, offsets: NDArray[Any]) -> NDArray[Any]:
    """Return the lines of instructions; 1 for those that have none."""
    starts, lines = read_line_table(code)
    found: NDArray[Any] = lines[np.searchsorted(starts, np.maximum(offsets, 0), side="right") - 1]
    return found


@cache_by_code
def _line_lists(code: CodeType) -> tuple[list[int], list[int]]:
    starts, lines = read_line_table(code)
    return starts.tolist(), lines.tolist()


KNOWN_LINE_TABLES = ((3, 11), (3, 12), (3, 13))
"""The versions of Python whose line tables are known to be as CPython's Objects/locations.md describes them."""
ENTRY_BIT = 0x80
"""Set in the first byte of an entry of a line table alone; then come four bits of its kind and three of its length."""
FIRST_STEP_KIND, LAST_STEP_KIND = 10, 12
"""Kinds of entries that go 0, 1 or 2 lines on; those before them stay on their line."""
NUMBER_KINDS = (13, 14)
"""Kinds of entries that begin with a number: how many lines they go on, or back."""
NO_LINE_KIND = 15


@cache_by_code
def read_line_table(code: CodeType) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return offsets of instructions from which on they are on a line, and the lines; 1 for those that have none.

    `code.co_lines()` says the same, one line after the other.
    """
    if sys.version_info[:2] not in KNOWN_LINE_TABLES:
        ranges = list(code.co_lines())
        return np.array([start for start, _, _ in ranges]), np.array([line or 1 for _, _, line in ranges])
    table = np.frombuffer(code.co_linetable, np.uint8)
    entries = np.flatnonzero(table & ENTRY_BIT)
    heads = table[entries].astype(np.int64)
    kinds = heads >> 3 & 0xF
    steps = np.where((kinds >= FIRST_STEP_KIND) & (kinds <= LAST_STEP_KIND), kinds - FIRST_STEP_KIND, 0)
    numbered = np.isin(kinds, NUMBER_KINDS)
    steps[numbered] = _read_signed_numbers(table, entries[numbered] + 1)
    lines = code.co_firstlineno + np.cumsum(steps)
    lengths = ((heads & 7) + 1) * 2
    return np.cumsum(lengths) - lengths, np.where((kinds == NO_LINE_KIND) | (lines == 0), 1, lines)


def _read_signed_numbers(table: NDArray[np.uint8], places: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers at places of a line table: six bits in each byte, lowest first, and the sign in bit 0."""
    numbers = np.zeros(len(places), np.int64)
    unfinished = np.arange(len(places))
    shift = 0
    while len(unfinished):
        bytes_there = table[places[unfinished] + shift // 6].astype(np.int64)
        numbers[unfinished] |= (bytes_there & 0x3F) << shift
        unfinished = unfinished[bytes_there & 0x40 != 0]
        shift += 6
    return np.where(numbers & 1, -(numbers >> 1), numbers >> 1)


@cache_by_code
def _positions_of(code: CodeType) -> list[tuple[int | None, int | None, int | None, int | None]]:
    return list(code.co_positions())


@cache_by_code
def _opcodes_of(code: CodeType) -> dict[int, str]:
    # While a Python function runs, its caller stands at the cache entries behind the call.
    names: dict[int, str] = {}
    for step in dis.get_instructions(code, show_caches=True):
        names[step.offset] = names.get(step.offset - 2, "") if step.opname == "CACHE" else step.opname
    return names


@cache_by_instruction
def read_expression(code: CodeType, offset: int) -> str | None:
    """Return the source text of the expression that an instruction computes, on one line; None if it is not known.

    >>> def f(x):
    ...     return x * (x + 1)
    >>> calls = [read_expression(f.__code__, step.offset) for step in dis.get_instructions(f.__code__)]
    >>> [text for text in calls if text]
    ['x + 1', 'x * (x + 1)']
    """
    if _opcodes_of(code).get(offset) not in EXPRESSION_OPCODES:
        return None
    line, last_line, start, end = _positions_of(code)[offset // 2]
    if line is None or last_line is None or start is None or end is None:
        return None
    lines = [read_line_of_code(code.co_filename, k, {}) for k in range(line, last_line + 1)]
    return _cut_expression([text.encode() for text in lines], start, end)


def _cut_expression(lines: list[bytes], start: int, end: int) -> str | None:
    """Cut an expression out of lines, given the columns in bytes; None if the text is not an expression."""
    try:
        lines[-1] = lines[-1][:end]
        lines[0] = lines[0][start:]
        text = b" ".join(line.strip() for line in lines).decode()
        tree = ast.parse(text, mode="exec").body
    except (SyntaxError, ValueError, IndexError):
        return None
    if len(tree) == 1 and isinstance(tree[0], ast.AugAssign):
        # `x += y` computes `x + y`.
        return ast.unparse(ast.BinOp(tree[0].target, tree[0].op, tree[0].value))
    is_expression = len(tree) == 1 and isinstance(tree[0], ast.Expr)
    return text if is_expression and text.isprintable() else None


@cache_by_instruction
def read_called_name(code: CodeType, offset: int) -> str | None:
    """Return the name of the function that an instruction calls, `tanh` for `np.tanh(x)`; empty for an operator."""
    if _opcodes_of(code).get(offset) in RESULT_OPCODES:
        return ""
    callee = _parse_callee(CallSite(UserCall(None, code), offset))
    name: str | None = getattr(callee, "attr", getattr(callee, "id", None))
    return name
