"""Builtins: native functions with CPython's own calling convention, whose calls cost a fraction of a microsecond.

There are two: `make_call_builtin` for compiled circuits and `make_replay_builtin` for replays of recordings. Their
machine code (`builtin_code`) is the same for every circuit. What it needs to know of a circuit is in a ctypes structure
(`CallFields`, `ReplayFields`), which the builtin's `__self__`, a `BuiltinFrame`, points to and keeps alive.

The fast cases of a call are one vector of floats, one list or tuple of floats, and the inputs by name in their order;
every other call goes to `SlowPath` with the same arguments. A replay takes exact floats, one per input; for anything
else it returns None, as if a branch had flipped, and the caller handles it.

Kept true: the GIL is held from the first read to the last, and no Python code can run between writing the inputs into
the working buffer and reading the results from it, so one buffer serves all threads and nested calls. Results are
allocated before that, because an allocation may collect garbage and so run any code.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, NoReturn, Protocol, SupportsIndex, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from wiregrad.backends.native import jit
from wiregrad.backends.native.builtin_code import (
    CallFields,
    ReplayFields,
    WorkFields,
    check_python,
    compile_call_functions,
    compile_replay_function,
)
from wiregrad.backends.native.tiers import NativeProgram, copy_aligned
from wiregrad.errors import OperandError

UNREACHED_CALL_COUNT = 2**62
"""A call count that is never reached."""


NumberSequence: TypeAlias = Sequence[Any] | NDArray[Any]
"""Numbers in the order of a circuit's inputs or outputs."""
Kept = TypeVar("Kept")


class CheckFallback(Protocol):
    """Computes or raises where a check does not hold in native code."""

    def compute_values(self, point: NumberSequence) -> NumberSequence:
        """Return the outputs, or raise."""

    def compute_gradient(self, point: NumberSequence) -> tuple[Any, NumberSequence]:
        """Return the only output and its gradient, or raise."""


@dataclass(frozen=True)
class OutputChecks:
    """The numbers that the last outputs of a program must equal for its results to be valid, and the fallback."""

    expected: NDArray[np.floating]
    fallback: CheckFallback

    def find_failures(self, outputs: NDArray[np.floating]) -> NDArray[np.bool_]:
        """Return whether a check does not hold, for the outputs of one point, or of many points, one row each."""
        bits = f"u{self.expected.itemsize}"
        checked = np.ascontiguousarray(outputs[..., outputs.shape[-1] - len(self.expected) :])
        different: NDArray[np.bool_] = (checked.view(bits) != self.expected.view(bits)).any(-1)
        return different


class NativeEngine:
    """A program with its working buffer, and the objects that its results are made of.

    The builtin keeps its engine alive. Where a check does not hold, the fallback of the checks computes the result.

    >>> from wiregrad.backends.native.tiers import build_program
    >>> from wiregrad.ir import parse_text
    >>> product = parse_text("input a, b\\ny = multiply a b\\noutput y")
    >>> entry = NativeEngine(build_program(product, 0), ["a", "b"], ["y"])
    >>> entry.compute_gradient([2.0, 3.0])
    (np.float64(6.0), array([3., 2.]))
    """

    def __init__(
        self, program: NativeProgram, names: Sequence[str], labels: Sequence[str], checks: OutputChecks | None = None
    ) -> None:
        self.checks = checks
        count = 0 if checks is None else len(checks.expected)
        self.fields = CallFields(
            enter=jit.enter_address(),
            inputs=program.inputs,
            outputs=program.outputs - count,
            limit=UNREACHED_CALL_COUNT,
            checks=count,
            expected=0 if checks is None else checks.expected.ctypes.data,
        )
        self.names = tuple(map(sys.intern, names))
        self.labels = tuple(map(sys.intern, labels))
        self.swap_program(program)
        self._template = np.zeros(program.inputs, self.buffer.dtype)
        self._kept = [
            self._store_address("copy", self._template.copy),
            self._store_address("grads", dict.fromkeys(self.names, 0.0)),
            self._store_address("values", dict.fromkeys(self.labels, 0.0)),
            self._store_addresses("names", self.names),
            self._store_addresses("labels", self.labels),
        ]
        # PYFUNCTYPE keeps the GIL, so that no other call uses the buffer meanwhile.
        self._at_point = ctypes.PYFUNCTYPE(None, *[ctypes.c_void_p] * 3)(
            compile_call_functions(self.buffer.dtype)["at_point"]
        )
        self.due: Callable[[NativeEngine], None] | None = None
        """The function to call when the limit of calls is reached."""

    def _store_address(self, field: str, thing: Kept) -> Kept:
        setattr(self.fields, field, id(thing))
        return thing

    def _store_addresses(self, field: str, things: Sequence[object]) -> NDArray[np.int64]:
        addresses = np.array([*map(id, things), 0], np.int64)
        setattr(self.fields, field, addresses.ctypes.data)
        return addresses

    @property
    def calls(self) -> int:
        """The approximate number of calls: threads that count at the same time may miss one."""
        return int(self.fields.calls)

    def swap_program(self, program: NativeProgram) -> None:
        """Run another program for the same circuit from the next call on."""
        buffer = copy_aligned(program.initial)
        # One assignment under the GIL, which every call holds to its end. So no call sees the code of one program with
        # the buffer of another, and none still uses the old ones when they are freed.
        self.fields.work = WorkFields(program.entry, buffer.ctypes.data)
        self.program = program
        self.buffer = buffer

    def notify_after(self, calls: int, due: Callable[[NativeEngine], None]) -> None:
        """Call `due` once, just before the first call after `calls` calls."""
        self.due = due
        self.fields.limit = calls

    def run_at(self, point: NumberSequence) -> NDArray[np.floating]:
        """Run the program at a checked point; return outputs and gradient in one array."""
        inputs = np.array(point, self.buffer.dtype)
        assert len(inputs) == self.program.inputs
        self.fields.calls += 1
        results = np.empty(self.program.outputs + self.program.inputs, self.buffer.dtype)
        self._at_point(ctypes.addressof(self.fields), inputs.ctypes.data, results.ctypes.data)
        return results

    def compute_values(self, point: NumberSequence) -> NDArray[np.floating]:
        """Return the outputs at a checked point."""
        outputs = self.run_at(point)[: self.program.outputs]
        if self.checks is not None and self.checks.find_failures(outputs):
            return np.array(self.checks.fallback.compute_values(point), outputs.dtype)
        return outputs[: self.fields.outputs]

    def compute_gradient(self, point: NumberSequence) -> tuple[Any, NDArray[np.floating]]:
        """Return the only output, and its gradient by every input, at a checked point."""
        results = self.run_at(point)
        count = self.program.outputs
        if self.checks is not None and self.checks.find_failures(results[:count]):
            value, grads = self.checks.fallback.compute_gradient(point)
            return value, np.array(grads, results.dtype)
        return results[0], results[count:]


class SlowPath:
    """Handles, in Python, every call that a builtin does not handle itself."""

    def __init__(self, entry: NativeEngine, answer: Callable[..., Any]) -> None:
        self.entry = entry
        self.answer = answer

    def __call__(self, /, *vector: object, **inputs: object) -> Any:
        """Handle a call; if the limit of calls is reached, report that first."""
        entry = self.entry
        if entry.fields.calls > entry.fields.limit:
            due = entry.due
            entry.fields.limit = UNREACHED_CALL_COUNT
            if due is not None:
                due(entry)
        # The builtin has counted this call already, and the entry counts it again if it runs.
        entry.fields.calls -= 1
        return self.answer(*vector, **inputs)


class BuiltinFrame(bytes):
    """The `__self__` of a builtin: the addresses that its native code starts from; `held` keeps their targets alive."""

    held: object

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise OperandError(
            "native code lives in this process and cannot be pickled or copied; pickle the circuit, and compile it "
            "where it is needed"
        )


def make_call_builtin(kind: str, entry: NativeEngine, answer: Callable[..., Any]) -> Callable[..., Any]:
    """Return a builtin that runs an entry's program: `value` or `value_and_grad`.

    `answer` takes the same arguments and handles every call that native code does not, wrong arguments included.

    >>> from wiregrad.backends.native.tiers import build_program
    >>> from wiregrad.ir import parse_text
    >>> entry = NativeEngine(build_program(parse_text("input x\\ny = multiply x x\\noutput y"), 0), ["x"], ["y"])
    >>> function = make_call_builtin("value_and_grad", entry, lambda *vector, **inputs: "something else")
    >>> function(x=3.0), function(x="three")
    ((9.0, {'x': 6.0}), 'something else')
    """
    check_python()
    slow = SlowPath(entry, answer)
    frame = BuiltinFrame(struct.pack("qq", ctypes.addressof(entry.fields), id(slow)))
    return create_builtin(_make_call_method(kind, entry.buffer.dtype), frame, slow)


class PyMethodDef(ctypes.Structure):
    """CPython's description of a builtin: its name, address, calling convention and docstring."""

    _fields_: ClassVar = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


def create_builtin(method: PyMethodDef, frame: BuiltinFrame, held: object) -> Callable[..., Any]:
    """Return a builtin with a frame as its `__self__`; the frame keeps everything alive that native code reads."""
    # The method too: if two threads create it at the same time, the cache keeps only one of them.
    frame.held = method, held
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    builtin: Callable[..., Any] = new(ctypes.addressof(method), frame, None)
    return builtin


METH_FASTCALL = 0x80
METH_KEYWORDS = 0x02
BUILTIN_DOCS = {
    "value": "Return the output (a dict of them if there are several), from inputs by name or as one vector.",
    "value_and_grad": "Return the output and its gradient: a dict for inputs by name, a vector for one vector.",
}


@cache
def _make_call_method(kind: str, real: np.dtype[np.floating]) -> PyMethodDef:
    doc = f"{kind}($self, /, *vector, **inputs)\n--\n\n{BUILTIN_DOCS[kind]}"
    return PyMethodDef(kind.encode(), compile_call_functions(real)[kind], METH_FASTCALL | METH_KEYWORDS, doc.encode())


def make_replay_builtin(program: NativeProgram, results: int, expected: bytes, *, gradient: bool) -> Callable[..., Any]:
    """Return the builtin for a program in double: the first outputs are results, the others must equal `expected`."""
    check_python()
    working = copy_aligned(program.initial)
    bits = np.frombuffer(expected or bytes(8), np.int64)
    fields = ReplayFields(
        enter=jit.enter_address(),
        work=WorkFields(program.entry, working.ctypes.data),
        expected=bits.ctypes.data,
        inputs=program.inputs,
        results=results,
        checks=program.outputs - results,
        slopes=program.inputs if gradient else 0,
    )
    frame = BuiltinFrame(ctypes.addressof(fields).to_bytes(8, "little"))
    return create_builtin(_make_replay_method(), frame, (fields, program, working, bits))


@cache
def _make_replay_method() -> PyMethodDef:
    doc = (
        "replay($self, /, *inputs)\n--\n\nReturn the results at these inputs, None if Python would branch differently."
    )
    return PyMethodDef(b"replay", compile_replay_function(), METH_FASTCALL, doc.encode())
