"""Builtins: functions in native code with CPython's own calling signature, which cost a fraction of a microsecond.

One function is compiled for each kind of call and each type of real, whatever the circuit. What it needs of a circuit
stands in `Fields`, the memory of an `Entry`; the builtin's `__self__` is a `Frame`, which knows where the fields are
and keeps the entry alive. The fast cases are one float vector, one list or tuple of floats, and the inputs by name in
their order; anything else goes to `slow` with the same arguments.

Kept true: the GIL is held from the first read to the last, and no Python code can run between writing the inputs into
the working buffer and reading the answers from it, so one buffer serves all threads and calls within calls. Results
are allocated before (an allocation may collect garbage, and so call anything).
"""

from __future__ import annotations

import ctypes
import re
import struct
import sys
import sysconfig
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from wiregrad.backends.native import machine
from wiregrad.backends.native.callcode import TEXT
from wiregrad.backends.native.program import Program, aligned
from wiregrad.errors import NotNativeError, OperandError

NEVER = 2**62
"""A count that calls do not reach."""
REALS = {np.dtype(np.float64): "double", np.dtype(np.float32): "float"}
HEAD = object.__basicsize__
"""How many bytes of every object Python itself uses; the last of them point to its type."""


class Work(ctypes.Structure):
    """Code and the buffer it works on."""

    _fields_: ClassVar = [("code", ctypes.c_int64), ("buffer", ctypes.c_int64)]


class Fields(ctypes.Structure):
    """What a builtin knows of its circuit, as native code reads it."""

    _fields_: ClassVar = [("work", Work)] + [
        (name, ctypes.c_int64)
        for name in (
            "enter",  # the function that runs code on a buffer
            "inputs",
            "outputs",
            "calls",  # how many there were
            "limit",  # after how many calls `slow` is asked once
            "copy",  # makes a new vector for a gradient
            "names",  # of the inputs: so many addresses of interned strings
            "grads",  # a dict with these keys, to be copied
            "labels",  # of the outputs
            "values",
            "checks",  # how many outputs behind the results carry what is expected wherever the results count
            "expected",  # what they are to carry
        )
    ]


class Judge(Protocol):
    """What has the last word where native code finds that a check does not hold."""

    def values(self, point: Any) -> Any:
        """Return the outputs, or raise."""

    def gradient(self, point: Any) -> tuple[Any, Any]:
        """Return the only output and its gradient, or raise."""


@dataclass(frozen=True)
class Checks:
    """What the last outputs of a program carry wherever its results count, and what answers elsewhere."""

    expected: NDArray[np.floating]
    judge: Judge

    def fail(self, outputs: NDArray[np.floating]) -> NDArray[np.bool_]:
        """Return whether some check does not hold, for outputs of one point or of many, a row each."""
        bits = f"u{self.expected.itemsize}"
        found = np.ascontiguousarray(outputs[..., outputs.shape[-1] - len(self.expected) :])
        different: NDArray[np.bool_] = (found.view(bits) != self.expected.view(bits)).any(-1)
        return different


class Entry:
    """A program with its working buffer, and the objects its answers are made of.

    It may outlive the builtin, and the builtin holds on to it. Where checks do not hold, their judge answers.

    >>> from wiregrad.backends.native.program import build
    >>> from wiregrad.ir import parse_text
    >>> entry = Entry(build(parse_text("input a, b\\ny = multiply a b\\noutput y"), 0), ["a", "b"], ["y"])
    >>> entry.gradient([2.0, 3.0])
    (np.float64(6.0), array([3., 2.]))
    """

    def __init__(
        self, program: Program, names: Sequence[str], labels: Sequence[str], checks: Checks | None = None
    ) -> None:
        self.checks = checks
        count = 0 if checks is None else len(checks.expected)
        self.fields = Fields(
            enter=machine.enter_address(),
            inputs=program.inputs,
            outputs=program.outputs - count,
            limit=NEVER,
            checks=count,
            expected=0 if checks is None else checks.expected.ctypes.data,
        )
        self.names, self.labels = tuple(map(sys.intern, names)), tuple(map(sys.intern, labels))
        self.swap(program)
        self._template = np.zeros(program.inputs, self.buffer.dtype)
        self._kept = [
            self._point_to("copy", self._template.copy),
            self._point_to("grads", dict.fromkeys(self.names, 0.0)),
            self._point_to("values", dict.fromkeys(self.labels, 0.0)),
            self._addresses("names", self.names),
            self._addresses("labels", self.labels),
        ]
        # Under the GIL, which this kind of function keeps: in one step, so that no other call comes between.
        self._at_point = ctypes.PYFUNCTYPE(None, *[ctypes.c_void_p] * 3)(functions(self.buffer.dtype)["at_point"])
        self.due: Callable[[Entry], None] | None = None
        """What is called when the limit of calls is reached."""

    def _point_to(self, field: str, thing: Any) -> Any:
        setattr(self.fields, field, id(thing))
        return thing

    def _addresses(self, field: str, things: Sequence[Any]) -> NDArray[np.int64]:
        addresses = np.array([*map(id, things), 0], np.int64)
        setattr(self.fields, field, addresses.ctypes.data)
        return addresses

    @property
    def calls(self) -> int:
        """How often the program was run, about: threads that count at a time may miss one."""
        return int(self.fields.calls)

    def swap(self, program: Program) -> None:
        """Run another program for the same circuit from the next call on."""
        buffer = aligned(program.initial)
        # One step under the GIL, which every call holds to its end: none sees the code of one program and the buffer of
        # another, and none is still using what is let go of then.
        self.fields.work = Work(program.entry, buffer.ctypes.data)
        self.program, self.buffer = program, buffer

    def after(self, calls: int, due: Callable[[Entry], None]) -> None:
        """Have a function called once, before the first call after so many."""
        self.due, self.fields.limit = due, calls

    def run(self, point: Any) -> NDArray[Any]:
        """Run the program at a point that was checked; returns outputs and gradient, one after the other."""
        given = np.array(point, self.buffer.dtype)
        assert len(given) == self.program.inputs
        self.fields.calls += 1
        found = np.empty(self.program.outputs + self.program.inputs, self.buffer.dtype)
        self._at_point(ctypes.addressof(self.fields), given.ctypes.data, found.ctypes.data)
        return found

    def values(self, point: Any) -> NDArray[Any]:
        """Return the outputs at a point that was checked."""
        found = self.run(point)[: self.program.outputs]
        if self.checks is not None and self.checks.fail(found):
            return np.array(self.checks.judge.values(point), found.dtype)
        return found[: self.fields.outputs]

    def gradient(self, point: Any) -> tuple[Any, NDArray[Any]]:
        """Return the only output, and its gradient by every input, at a point that was checked."""
        found, count = self.run(point), self.program.outputs
        if self.checks is not None and self.checks.fail(found[:count]):
            value, grads = self.checks.judge.gradient(point)
            return value, np.array(grads, found.dtype)
        return found[0], found[count:]


class Slow:
    """The complete way to answer a call: what a builtin hands all other cases to."""

    def __init__(self, entry: Entry, answer: Callable[..., Any]) -> None:
        self.entry, self.answer = entry, answer

    def __call__(self, /, *vector: Any, **inputs: Any) -> Any:
        """Answer a call."""
        entry = self.entry
        if entry.fields.calls > entry.fields.limit:
            entry.fields.limit, due = NEVER, entry.due
            if due is not None:
                due(entry)
        # The builtin counted this call, and so does the entry, unless it comes to nothing.
        entry.fields.calls -= 1
        return self.answer(*vector, **inputs)


class Frame(bytes):
    """The `__self__` of a builtin: addresses that its native code starts from, and a hold on what they lead to."""

    held: Any

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise OperandError(
            "native code lives in this process and cannot be pickled or copied; pickle the circuit, and compile it "
            "where it is needed"
        )


def builtin(kind: str, entry: Entry, answer: Callable[..., Any]) -> Callable[..., Any]:
    """Return a builtin that runs an entry's program: `value` or `value_and_grad`.

    `answer` takes the same arguments and serves every case that native code leaves alone, wrong arguments included.

    >>> from wiregrad.backends.native.program import build
    >>> from wiregrad.ir import parse_text
    >>> entry = Entry(build(parse_text("input x\\ny = multiply x x\\noutput y"), 0), ["x"], ["y"])
    >>> function = builtin("value_and_grad", entry, lambda *vector, **inputs: "something else")
    >>> function(x=3.0), function(x="three")
    ((9.0, {'x': 6.0}), 'something else')
    """
    check_python()
    slow = Slow(entry, answer)
    frame = Frame(struct.pack("qq", ctypes.addressof(entry.fields), id(slow)))
    return new_builtin(_method(kind, entry.buffer.dtype), frame, slow)


class Method(ctypes.Structure):
    """PyMethodDef."""

    _fields_: ClassVar = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


def new_builtin(method: Method, frame: Frame, held: Any) -> Callable[..., Any]:
    """Return a builtin with a frame as its `__self__`, which lives on with all that its native code reads."""
    # The method too: of two threads that make it at a time, the cache keeps only one.
    frame.held = method, held
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    made: Callable[..., Any] = new(ctypes.addressof(method), frame, None)
    return made


FASTCALL = 0x80
WITH_KEYWORDS = 0x02
DOCS = {
    "value": "Return the output (a dict of them if there are several), from inputs by name or as one vector.",
    "value_and_grad": "Return the output and its gradient: a dict for inputs by name, a vector for one vector.",
}


@cache
def _method(kind: str, real: np.dtype[Any]) -> Method:
    doc = f"{kind}($self, /, *vector, **inputs)\n--\n\n{DOCS[kind]}"
    return Method(kind.encode(), functions(real)[kind], FASTCALL | WITH_KEYWORDS, doc.encode())


@cache
def functions(real: np.dtype[Any]) -> dict[str, int]:
    """Return the addresses of the native functions for programs on one type of real."""
    names = [*DOCS, "at_point"]
    return dict(zip(names, machine.compiled(_text(real), *names), strict=True))


ARRAY = {"data": 0, "nd": 8, "dimensions": 16, "descr": 40, "flags": 48}
"""Where an array has its fields, behind the head: NumPy's own headers read them there, so no NumPy 2 can move them."""
CONTIGUOUS_AND_ALIGNED = 0x101


@cache
def check_python() -> None:
    """Raise if this Python, or this NumPy, keeps its objects in another way than the native functions expect."""
    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise NotNativeError("calls in native code need CPython with its global lock")
    for sample in (np.zeros(3), np.zeros((2, 7))[:, ::2], np.zeros(0, np.float32)):
        start = id(sample) + HEAD
        found = (
            ctypes.c_int64.from_address(id(sample) + HEAD - 8).value,
            ctypes.c_int64.from_address(start + ARRAY["data"]).value,
            ctypes.c_int.from_address(start + ARRAY["nd"]).value,
            ctypes.c_int64.from_address(start + ARRAY["descr"]).value,
            ctypes.c_int.from_address(start + ARRAY["flags"]).value & CONTIGUOUS_AND_ALIGNED,
        )
        contiguous = 0x1 * sample.flags.c_contiguous + 0x100 * sample.flags.aligned
        wanted = (id(np.ndarray), sample.ctypes.data, sample.ndim, id(sample.dtype), contiguous)
        shape = ctypes.c_int64.from_address(start + ARRAY["dimensions"]).value if found == wanted else 0
        if not shape or tuple((ctypes.c_int64 * sample.ndim).from_address(shape)) != sample.shape:
            raise NotNativeError("calls in native code do not know this version of NumPy")


PYTHON = """PyBytes_AsString PyDict_Copy PyDict_SetItem PyFloat_AsDouble PyFloat_FromDouble PyList_GetItem PyList_Size
PyObject_CallNoArgs PyObject_Vectorcall PyTuple_GetItem PyTuple_Pack PyTuple_Size PyUnicode_Compare Py_DecRef""".split()
"""Functions of Python's that the native ones call."""


def _text(real: np.dtype[Any]) -> str:
    """Return the native functions in LLVM's language."""
    same, narrow = "bitcast double {} to double", real.itemsize == 4
    words = {
        "real": REALS[real],
        "bits": f"i{8 * real.itemsize}",
        "size": str(real.itemsize),
        "round": "fptrunc double %double to float" if narrow else same.format("%double"),
        "widen": "fpext float %narrow to double" if narrow else same.format("%narrow"),
        "descr": pointer(id(np.dtype(real.type))),
        "flags": str(CONTIGUOUS_AND_ALIGNED),
        "at.type": str(HEAD - 8),
        **{f"at.{name}": str(HEAD + offset) for name, offset in ARRAY.items()},
        **{f"field.{name}": str(getattr(Fields, name).offset) for name, *_ in Fields._fields_},
        **{f"field.{name}": str(Fields.work.offset + getattr(Work, name).offset) for name, *_ in Work._fields_},
        **{f"type.{kind.__name__}": pointer(id(kind)) for kind in (float, list, tuple, np.ndarray)},
        **{name: pointer(python_address(name)) for name in PYTHON},
    }
    return re.sub(r"\$([A-Za-z_.]+)\$", lambda match: words[match[1]], TEXT)


def python_address(name: str) -> int:
    """Return where a function of Python's stands."""
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0


def pointer(address: int) -> str:
    """Write an address in LLVM's language."""
    return f"inttoptr (i64 {address} to ptr)"
