"""Builtins: native functions with CPython's own calling convention, whose calls cost a fraction of a microsecond.

There are three: `make_call_builtin` for compiled circuits, `make_replay_builtin` for replays of recordings, and
`make_array_builtin` for both where circuits have arrays. Their machine code is made by `compile_call_functions`
(`value`, `value_and_grad`, `outputs`, and `at_point`, which Python calls by its address), by `compile_replay_function`
and by `compile_array_functions`. Each is compiled once per type of real, whatever the circuit: what it needs to know of
a circuit is in a ctypes structure (`CallFields`, `ReplayFields`, `ArrayCallFields`), which the builtin's `__self__`, a
`BuiltinFrame`, points to and keeps alive.

The fast cases of a call are one vector of floats, one list or tuple of floats, and the inputs by name in their order;
every other call goes to `SlowPath` with the same arguments. A replay takes floats of Python and NumPy, one per input;
where a check does not hold it returns the number of the check, and for anything else None, and the caller handles it.

Kept true: the GIL is held from the first read to the last, and no Python code can run between writing the inputs into
the working buffer and reading the results from it, so one buffer serves all threads and nested calls. Only objects that
are exactly of a builtin type are read, because reading a subclass may run its methods. Results are allocated first,
because an allocation may collect garbage and so run any code. On arrays that take long the GIL is released; while one
call uses the workspace of a builtin, every other call of it goes to Python, which has workspaces of its own.
"""

from __future__ import annotations

import ctypes
import struct
import sys
import weakref
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, ClassVar, NoReturn, Protocol, SupportsIndex, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from wiregrad.backends.native import jit
from wiregrad.backends.native.llvm_writer import (
    LlvmValue,
    LlvmWriter,
    RealType,
    format_pointer,
    leave_if,
    leave_unless,
    loop_over,
    when_all,
)
from wiregrad.backends.native.tiers import NativeProgram, copy_aligned
from wiregrad.errors import NotNativeError, OperandError
from wiregrad.lazy import NamedTuple

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


class OutputChecks(NamedTuple):
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
        self,
        program: NativeProgram,
        names: Sequence[str],
        labels: Sequence[str],
        checks: OutputChecks | None = None,
        shape: tuple[int, ...] | None = None,
    ) -> None:
        """Prepare calls; `shape` is that of the array which a builtin for all outputs, `outputs`, returns."""
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
        self._template = np.zeros(shape or program.inputs, self.buffer.dtype)
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
    """Return a builtin that runs an entry's program: `value`, `value_and_grad` or `outputs`.

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
    "outputs": "Return all outputs: dicts for inputs by name, one array for one vector.",
    "replay": "Return the results at these inputs, the number of the check that fails, or None.",
}


@cache
def _make_call_method(kind: str, real: np.dtype[np.floating]) -> PyMethodDef:
    doc = f"{kind}($self, /, *vector, **inputs)\n--\n\n{BUILTIN_DOCS[kind]}"
    return PyMethodDef(kind.encode(), compile_call_functions(real)[kind], METH_FASTCALL | METH_KEYWORDS, doc.encode())


def make_replay_builtin(
    program: NativeProgram, results: int, expected: bytes, *, gradient: bool, numpy_numbers: bool = False
) -> Callable[..., Any]:
    """Return the builtin for a program in double: the first outputs are results, the others must equal `expected`.

    It takes floats, and with `numpy_numbers` np.float64 too.
    """
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
        other_type=id(np.float64 if numpy_numbers else float),
    )
    frame = BuiltinFrame(ctypes.addressof(fields).to_bytes(8, "little"))
    return create_builtin(_make_replay_method(), frame, (fields, program, working, bits))


def find_replay_fields(builtin: Callable[..., Any]) -> int:
    """Return the address of the `ReplayFields` of a builtin that `make_replay_builtin` made."""
    frame: BuiltinFrame = builtin.__self__  # type: ignore[attr-defined]
    return int.from_bytes(frame, "little")


@cache
def _make_replay_method() -> PyMethodDef:
    doc = "replay($self, /, *inputs)\n--\n\nReturn the results at these inputs, or the number of the check that fails."
    return PyMethodDef(b"replay", compile_replay_function(), METH_FASTCALL, doc.encode())


class CallArray(NamedTuple):
    """An argument or result of a call on arrays."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    recycled: bool = False
    """Whether the memory of a result is used again when nobody else refers to it."""


class ArrayCall(NamedTuple):
    """What a builtin has to know of a program on arrays.

    The workspace begins with a table of addresses: its own, those of the arguments, then those of the results.
    """

    run: int
    """The address of `void run(char *workspace, const int64_t *first, const int64_t *end)`."""
    first: int
    end: int
    workspace: int
    inputs: Sequence[CallArray]
    results: Sequence[CallArray]
    checks: Sequence[Any]
    """What the last results must be, bit for bit."""
    releases: bool
    """Whether the GIL is released while the program runs."""
    names: Sequence[str]
    labels: Sequence[str]


class ArrayCallEntry:
    """The memory of a builtin for calls on arrays; the builtin keeps it alive."""

    def __init__(self, call: ArrayCall, owner: object) -> None:
        self._kept: list[object] = [owner]
        inputs = len(call.inputs)
        results = len(call.results) - len(call.checks)
        kinds = self._keep_rows([self._describe(array) for array in (*call.inputs, *call.results[:results])])
        checks = self._keep_rows([self._describe_check(np.asarray(expected)) for expected in call.checks])
        fixed = [*(row.slot or 0 for row in kinds[inputs:]), *(row.actual for row in checks)]
        table = (ctypes.c_int64 * (1 + inputs + len(fixed))).from_address(call.workspace)
        table[1 + inputs :] = fixed
        self.fields = ArrayCallFields(
            run=call.run,
            first=call.first,
            end=call.end,
            workspace=call.workspace,
            releases=call.releases,
            inputs=inputs,
            results=results,
            checks=len(checks),
            named_only=any(not array.shape for array in call.inputs),
            input_kinds=ctypes.addressof(kinds),
            result_kinds=ctypes.addressof(kinds) + inputs * ctypes.sizeof(CallArrayFields),
            expected=ctypes.addressof(checks),
        )
        self._keep_words("objects", [0] * results)
        self._keep_names(call)

    def _keep_names(self, call: ArrayCall) -> None:
        names = tuple(map(sys.intern, call.names))
        labels = tuple(map(sys.intern, call.labels))
        self._kept += [names, labels]
        self._keep_words("names", list(map(id, names)))
        self._keep_words("labels", list(map(id, labels)))
        self._keep_object("grads", dict.fromkeys(names))
        self._keep_object("values", dict.fromkeys(labels))

    @property
    def calls(self) -> int:
        """The number of calls that native code handled."""
        return int(self.fields.calls)

    def _keep_rows(self, rows: Sequence[Any]) -> Any:
        """Return structures as one array; it has no entries, but an address, if there are none."""
        array = (type(rows[0]) * len(rows))(*rows) if rows else (ctypes.c_int64 * 0)()
        self._kept.append(array)
        return array

    def _keep_words(self, field: str, words: Sequence[int]) -> None:
        array = np.array([*words, 0], np.int64)
        self._kept.append(array)
        setattr(self.fields, field, array.ctypes.data)

    def _keep_object(self, field: str, thing: object) -> None:
        self._kept.append(thing)
        setattr(self.fields, field, id(thing))

    def _describe(self, array: CallArray) -> CallArrayFields:
        lengths = np.array([*array.shape, 0], np.int64)
        slot = None if array.shape else np.zeros(1, np.int64)
        pool = [None] * MAX_KEPT_RESULTS if array.recycled else None
        dtype = np.dtype(array.dtype.type)
        self._kept += [lengths, slot, pool, dtype]
        return CallArrayFields(
            dtype=id(dtype),
            axes=len(array.shape),
            lengths=lengths.ctypes.data,
            slot=0 if slot is None else slot.ctypes.data,
            type_number=dtype.num,
            item_bytes=dtype.itemsize,
            pool=0 if pool is None else id(pool),
        )

    def _describe_check(self, expected: NDArray[Any]) -> CheckFields:
        actual = np.zeros(max(1, expected.nbytes), np.uint8)
        bits = np.frombuffer(expected.tobytes() or b"\0", np.uint8)
        self._kept += [actual, bits]
        return CheckFields(actual.ctypes.data, bits.ctypes.data, expected.nbytes)


def make_array_builtin(
    kind: str, entry: ArrayCallEntry, answer: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """Return a builtin that runs a program on arrays: `value`, `value_and_grad` or `replay`.

    Fast are calls whose arguments are C-contiguous arrays of the right types, in order or by name, and floats where an
    input has no axes. `answer` takes the same arguments and handles all other calls. A replay takes its arguments in
    order and returns all results in a tuple, the number of the check that fails, or None for all other calls.
    """
    check_array_layout()
    frame = BuiltinFrame(struct.pack("qq", ctypes.addressof(entry.fields), id(answer)))
    return create_builtin(_make_array_method(kind), frame, (entry, answer))


@cache
def _make_array_method(kind: str) -> PyMethodDef:
    doc = f"{kind}($self, /, *vector, **inputs)\n--\n\n{BUILTIN_DOCS[kind]}"
    flags = METH_FASTCALL if kind == "replay" else METH_FASTCALL | METH_KEYWORDS
    return PyMethodDef(kind.encode(), compile_array_functions()[kind], flags, doc.encode())


OBJECT_HEAD_BYTES = object.__basicsize__
"""The size of the header of every Python object; its last 8 bytes point to the type."""
NDARRAY_OFFSETS = {"data": 0, "nd": 8, "dimensions": 16, "descr": 40, "flags": 48, "weakrefs": 56}
"""Offsets of an array's fields after the object header; NumPy's public headers fix them for all of NumPy 2."""
CONTIGUOUS_AND_ALIGNED = 0x101
OWNED_AND_WRITEABLE = 0x405
"""Flags of an array that has its own C-contiguous memory and may be written to; aligned comes on top."""
NEW_ARRAY_INDEX = 93
"""The place of `PyArray_New` in NumPy's table of C functions, fixed since NumPy 1."""
MAX_KEPT_RESULTS = 3
"""How many arrays are kept for each recycled result: in a loop the caller still holds those of the round before."""
ARRAY_FUNCTIONS = ("value", "value_and_grad", "replay")
"""The functions that `compile_array_functions` makes."""
CALL_FUNCTIONS = ("value", "value_and_grad", "outputs", "at_point")
"""The functions that `compile_call_functions` makes."""
PYTHON_RESULT_TYPES = {
    "PyBytes_AsString": "ptr",
    "PyEval_SaveThread": "ptr",
    "PyDict_Copy": "ptr",
    "PyDict_SetItem": "i32",
    "PyFloat_AsDouble": "double",
    "PyFloat_FromDouble": "ptr",
    "PyList_GetItem": "ptr",
    "PyList_SetItem": "i32",
    "PyList_Size": "i64",
    "PyLong_FromLongLong": "ptr",
    "PyObject_CallNoArgs": "ptr",
    "PyObject_Vectorcall": "ptr",
    "PyTuple_GetItem": "ptr",
    "PyTuple_New": "ptr",
    "PyTuple_SetItem": "i32",
    "PyTuple_Size": "i64",
    "PyUnicode_Compare": "i32",
}
"""The LLVM type of the result of each function of CPython's C API that native code calls."""


class WorkFields(ctypes.Structure):
    """The addresses of code and of the buffer it works on."""

    _fields_: ClassVar = [("code", ctypes.c_void_p), ("buffer", ctypes.c_void_p)]


class CallFields(ctypes.Structure):
    """What a builtin knows of its circuit, as native code reads it."""

    _fields_: ClassVar = [
        ("work", WorkFields),
        ("enter", ctypes.c_void_p),  # the function that runs code on a buffer
        ("inputs", ctypes.c_int64),
        ("outputs", ctypes.c_int64),
        ("calls", ctypes.c_int64),  # the number of calls so far
        ("limit", ctypes.c_int64),  # the call count after which `SlowPath` is called once
        ("copy", ctypes.c_void_p),  # makes a new array, for a gradient or for all outputs
        ("names", ctypes.c_void_p),  # of the inputs: an array of addresses of interned strings
        ("grads", ctypes.c_void_p),  # a dict with these keys, to be copied
        ("labels", ctypes.c_void_p),  # of the outputs
        ("values", ctypes.c_void_p),
        ("checks", ctypes.c_int64),  # the number of outputs after the results that must equal `expected`
        ("expected", ctypes.c_void_p),  # the bits that these outputs must have
    ]


class ReplayFields(ctypes.Structure):
    """What a builtin knows of its recording, as native code reads it."""

    _fields_: ClassVar = [
        ("work", WorkFields),
        ("enter", ctypes.c_void_p),
        ("inputs", ctypes.c_int64),
        ("results", ctypes.c_int64),
        ("slopes", ctypes.c_int64),
        ("checks", ctypes.c_int64),
        ("expected", ctypes.c_void_p),
        ("other_type", ctypes.c_void_p),  # the type that inputs may have besides float
    ]


class CallArrayFields(ctypes.Structure):
    """The type of an argument or result of a call on arrays, as native code reads it."""

    _fields_: ClassVar = [
        ("dtype", ctypes.c_void_p),
        ("axes", ctypes.c_int64),
        ("lengths", ctypes.c_void_p),
        ("slot", ctypes.c_void_p),  # where the number is, if there are no axes; else null
        ("type_number", ctypes.c_int64),
        ("item_bytes", ctypes.c_int64),
        ("pool", ctypes.c_void_p),  # a list with results that may be used again; null if there is none
        ("oldest", ctypes.c_int64),  # the place in the pool that is given up next
    ]


class CheckFields(ctypes.Structure):
    """A result that must have certain bits: where it is, where they are, and the number of bytes."""

    _fields_: ClassVar = [("actual", ctypes.c_void_p), ("expected", ctypes.c_void_p), ("bytes", ctypes.c_int64)]


class ArrayCallFields(ctypes.Structure):
    """What a builtin knows of its program on arrays, as native code reads it."""

    _fields_: ClassVar = [
        ("run", ctypes.c_void_p),
        ("first", ctypes.c_void_p),
        ("end", ctypes.c_void_p),
        ("workspace", ctypes.c_void_p),
        ("busy", ctypes.c_int64),  # whether a call uses the workspace
        ("calls", ctypes.c_int64),
        ("releases", ctypes.c_int64),
        ("inputs", ctypes.c_int64),
        ("results", ctypes.c_int64),
        ("checks", ctypes.c_int64),
        ("named_only", ctypes.c_int64),  # whether Python handles gradients of calls without names
        ("input_kinds", ctypes.c_void_p),
        ("result_kinds", ctypes.c_void_p),
        ("expected", ctypes.c_void_p),
        ("objects", ctypes.c_void_p),  # the results of the running call
        ("names", ctypes.c_void_p),
        ("grads", ctypes.c_void_p),
        ("labels", ctypes.c_void_p),
        ("values", ctypes.c_void_p),
    ]


@cache
def check_python() -> None:
    """Raise `NotNativeError` if this Python or NumPy lays out its objects differently than native code expects."""
    # `sysconfig` would tell too, but loading its table takes two milliseconds.
    if sys.implementation.name != "cpython" or "free-threading build" in sys.version:
        raise NotNativeError("native calls need CPython with its global interpreter lock")
    for sample in (np.zeros(3), np.zeros((2, 7))[:, ::2], np.zeros(0, np.float32)):
        start = id(sample) + OBJECT_HEAD_BYTES
        actual = (
            ctypes.c_int64.from_address(id(sample) + OBJECT_HEAD_BYTES - 8).value,
            ctypes.c_int64.from_address(start + NDARRAY_OFFSETS["data"]).value,
            ctypes.c_int.from_address(start + NDARRAY_OFFSETS["nd"]).value,
            ctypes.c_int64.from_address(start + NDARRAY_OFFSETS["descr"]).value,
            ctypes.c_int.from_address(start + NDARRAY_OFFSETS["flags"]).value & CONTIGUOUS_AND_ALIGNED,
        )
        contiguous = 0x1 * sample.flags.c_contiguous + 0x100 * sample.flags.aligned
        wanted = (id(np.ndarray), sample.ctypes.data, sample.ndim, id(sample.dtype), contiguous)
        shape = ctypes.c_int64.from_address(start + NDARRAY_OFFSETS["dimensions"]).value if actual == wanted else 0
        if not shape or tuple((ctypes.c_int64 * sample.ndim).from_address(shape)) != sample.shape:
            raise NotNativeError("native calls do not know the array layout of this version of NumPy")


@cache
def find_new_array_function() -> int:
    """Return the address of NumPy's `PyArray_New`, which was tried once; 0 if it is not where it is expected."""
    try:
        capsule = np._core._multiarray_umath._ARRAY_API  # type: ignore[attr-defined]
        find = ctypes.pythonapi.PyCapsule_GetPointer
        find.restype = ctypes.c_void_p
        find.argtypes = [ctypes.py_object, ctypes.c_char_p]
        table = find(capsule, None)
    except (AttributeError, ValueError):
        return 0
    address = ctypes.c_int64.from_address(table + 8 * NEW_ARRAY_INDEX).value
    new = ctypes.PYFUNCTYPE(
        ctypes.py_object,
        ctypes.py_object,
        ctypes.c_int,
        ctypes.c_void_p,
        ctypes.c_int,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_void_p,
    )(address)
    sample = new(np.ndarray, 2, (ctypes.c_int64 * 2)(2, 3), np.dtype(np.float32).num, None, None, 0, 0, None)
    flags = CONTIGUOUS_AND_ALIGNED | OWNED_AND_WRITEABLE
    is_right = type(sample) is np.ndarray and sample.shape == (2, 3) and sample.dtype is np.dtype(np.float32)
    if not is_right or sample.flags.num & flags != flags:
        return 0
    return jit.name_address(address, "numpy.PyArray_New")


@cache
def check_array_layout() -> None:
    """Raise `NotNativeError` unless native code can read, make and recycle arrays of this NumPy."""
    check_python()
    if not find_new_array_function():
        raise NotNativeError("native calls do not know the C functions of this version of NumPy")
    array = np.zeros(3)
    place = id(array) + OBJECT_HEAD_BYTES + NDARRAY_OFFSETS["weakrefs"]
    before = ctypes.c_int64.from_address(place).value
    reference = weakref.ref(array)
    after = ctypes.c_int64.from_address(place).value
    if before or after != id(reference) or ctypes.c_int32.from_address(id(array)).value != 1:
        raise NotNativeError("native calls do not know where this Python counts references to arrays")


@cache
def compile_array_functions() -> dict[str, int]:
    """Return the addresses of the native functions for programs on arrays."""
    addresses = jit.compile_functions(_write_array_functions(), *ARRAY_FUNCTIONS, level=0)
    return dict(zip(ARRAY_FUNCTIONS, addresses, strict=True))


@cache
def compile_call_functions(dtype: np.dtype[np.floating]) -> dict[str, int]:
    """Return the addresses of the native functions for programs on one type of real."""
    addresses = jit.compile_functions(_write_call_functions(dtype), *CALL_FUNCTIONS)
    return dict(zip(CALL_FUNCTIONS, addresses, strict=True))


@cache
def compile_replay_function() -> int:
    """Return the address of the native function for replays, whose programs are in double."""
    return jit.compile_functions(_write_replay_function(), "replay")[0]


def _write_call_functions(dtype: np.dtype[np.floating]) -> str:
    w = LlvmWriter()
    real = RealType("double" if dtype.itemsize == 8 else "float")
    _write_take_items(w, real)
    _write_take_array(w, real)
    _write_take_vector(w)
    _write_take_named(w, real)
    _write_take_arguments(w)
    _write_holds(w, real)
    _write_compute(w, real)
    _write_fill(w, real)
    _write_ask_slow(w)
    _write_value(w, real)
    _write_make_gradient(w)
    _write_store_gradient(w, real)
    _write_value_and_grad(w, real)
    _write_outputs(w, real)
    _write_at_point(w, real)
    return w.format_module()


def _begin(w: LlvmWriter, head: str, **parameters: str) -> list[LlvmValue]:
    """Begin a function with parameters of these names and types; return their values."""
    values = [w.name_value(f"%{name}", kind) for name, kind in parameters.items()]
    w.begin_function(f"{head}({', '.join(value.typed for value in values)})")
    return values


def _call_python(w: LlvmWriter, name: str, *arguments: LlvmValue) -> LlvmValue:
    """Write a call of a function of CPython's C API."""
    return w.call(PYTHON_RESULT_TYPES[name], find_python_function(name), *arguments)


def find_python_function(name: str) -> str:
    """Return a function of CPython's C API as an LLVM pointer constant."""
    address = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0
    return format_pointer(jit.name_address(address, f"python.{name}"))


def _release(thing: LlvmValue) -> None:
    """Write the release of a reference to a Python object."""
    thing.writer.call_void(find_python_function("Py_DecRef"), thing)


def _is_null(pointer: LlvmValue) -> LlvmValue:
    return pointer.compare("eq", pointer.writer.name_value("null", "ptr"))


def _return_null(w: LlvmWriter) -> None:
    """Write a return that tells Python that an exception is set."""
    w.emit_return(w.name_value("null", "ptr"))


def _return_false(w: LlvmWriter) -> None:
    w.emit_return(w.as_value(False, "i1"))


def _is_exactly(thing: LlvmValue, kind: type) -> LlvmValue:
    """Write whether an object is of a type, not of a subclass, so that reading it runs no user code."""
    w = thing.writer
    own = w.load("ptr", w.point_to("i8", thing, OBJECT_HEAD_BYTES - 8))
    return own.compare("eq", w.name_value(format_pointer(id(kind)), "ptr"))


def _field_pointer(fields: LlvmValue, layout: type[ctypes.Structure], name: str) -> LlvmValue:
    offset = getattr(layout, name).offset
    return fields.writer.point_to("i8", fields, offset)


def _load_field(fields: LlvmValue, layout: type[ctypes.Structure], name: str) -> LlvmValue:
    """Write the load of a field that is an address or an integer."""
    kind = {field: kind for field, kind, *_ in layout._fields_}[name]
    return fields.writer.load("ptr" if kind is ctypes.c_void_p else "i64", _field_pointer(fields, layout, name))


def _load_work_field(fields: LlvmValue, layout: type[ctypes.Structure], name: str) -> LlvmValue:
    return _load_field(_field_pointer(fields, layout, "work"), WorkFields, name)


def _copy_bytes(to: LlvmValue, source: LlvmValue, count: LlvmValue, size: int) -> None:
    """Write the copy of `count` numbers of a size in bytes."""
    w = to.writer
    w.declare("void", "@llvm.memcpy.p0.p0.i64", "ptr", "ptr", "i64", "i1")
    w.call_void("@llvm.memcpy.p0.p0.i64", to, source, count * size, w.as_value(False, "i1"))


def _write_run(fields: LlvmValue, layout: type[ctypes.Structure], real: RealType) -> LlvmValue:
    """Write a run of the code; returns a pointer to the outputs."""
    w = fields.writer
    enter = _load_field(fields, layout, "enter")
    code = _load_work_field(fields, layout, "code")
    buffer = _load_work_field(fields, layout, "buffer")
    # Fields are loaded before the call, because after it LLVM must load them again.
    outputs = w.point_to(real.name, buffer, _load_field(fields, layout, "inputs"))
    w.call_void(enter.text, code, buffer)
    return outputs


def _take_float(thing: LlvmValue, slot: LlvmValue, real: RealType) -> None:
    """Write the copy of a float's number into a slot; the function returns false if it is not exactly a float."""
    w = thing.writer
    with leave_unless(_is_exactly(thing, float)):
        _return_false(w)
    number = _call_python(w, "PyFloat_AsDouble", thing)
    w.store(number if real.name == "double" else number.convert("fptrunc", "float"), slot)


def _make_float(slot: LlvmValue, real: RealType) -> LlvmValue:
    """Write a new Python float from the number in a slot; null if memory ran out."""
    w = slot.writer
    number = w.load(real.name, slot)
    return _call_python(w, "PyFloat_FromDouble", number if real.name == "double" else number.convert("fpext", "double"))


def _write_take_items(w: LlvmWriter, real: RealType) -> None:
    """Write the function that takes inputs from a list or tuple, by a function that returns its items."""
    sequence, getter, buffer, n = _begin(
        w, "internal i1 @take_items", sequence="ptr", getter="ptr", buffer="ptr", n="i64"
    )
    with loop_over(0, n) as k:
        _take_float(w.call("ptr", getter.text, sequence, k), w.point_to(real.name, buffer, k), real)
    w.end_function(w.as_value(True, "i1"))


def _write_take_array(w: LlvmWriter, real: RealType) -> None:
    """Write the function that takes inputs from a contiguous vector of the same type of real."""
    array, buffer, n = _begin(w, "internal i1 @take_array", array="ptr", buffer="ptr", n="i64")
    with leave_unless(_is_plain_vector(array, real)):
        _return_false(w)
    with leave_unless(_load_length(array).is_equal_to(n)):
        _return_false(w)
    _copy_bytes(buffer, _load_data(array), n, real.item_bytes)
    w.end_function(w.as_value(True, "i1"))


def _is_plain_vector(array: LlvmValue, real: RealType) -> LlvmValue:
    """Write whether an array is a contiguous, aligned vector of a type of real."""
    w = array.writer
    dtype = w.name_value(format_pointer(id(np.dtype(real.dtype.type))), "ptr")
    is_vector = w.load("i32", _array_field(array, "nd")).is_equal_to(1)
    flags = w.load("i32", _array_field(array, "flags"))
    is_plain = (flags & CONTIGUOUS_AND_ALIGNED).is_equal_to(CONTIGUOUS_AND_ALIGNED)
    return is_vector & is_plain & w.load("ptr", _array_field(array, "descr")).compare("eq", dtype)


def _load_length(vector: LlvmValue) -> LlvmValue:
    return vector.writer.load("i64", vector.writer.load("ptr", _array_field(vector, "dimensions")))


def _load_data(array: LlvmValue) -> LlvmValue:
    return array.writer.load("ptr", _array_field(array, "data"))


def _write_take_vector(w: LlvmWriter) -> None:
    """Write the function that takes inputs from one array, list or tuple."""
    x, buffer, n = _begin(w, "internal i1 @take_vector", x="ptr", buffer="ptr", n="i64")
    with leave_if(_is_exactly(x, np.ndarray)):
        w.emit_return(w.call("i1", "@take_array", x, buffer, n))
    for kind, size, item in ((list, "PyList_Size", "PyList_GetItem"), (tuple, "PyTuple_Size", "PyTuple_GetItem")):
        with leave_if(_is_exactly(x, kind)):
            with leave_unless(_call_python(w, size, x).is_equal_to(n)):
                _return_false(w)
            getter = w.name_value(find_python_function(item), "ptr")
            w.emit_return(w.call("i1", "@take_items", x, getter, buffer, n))
    w.end_function(w.as_value(False, "i1"))


def _write_take_named(w: LlvmWriter, real: RealType) -> None:
    """Write the function that takes the inputs by name: exactly these names, in order."""
    args, keywords, names, buffer, n = _begin(
        w, "internal i1 @take_named", args="ptr", keywords="ptr", names="ptr", buffer="ptr", n="i64"
    )
    with leave_unless(_call_python(w, "PyTuple_Size", keywords).is_equal_to(n)):
        _return_false(w)
    with loop_over(0, n) as k:
        name = _call_python(w, "PyTuple_GetItem", keywords, k)
        input_name = w.load("ptr", w.point_to("ptr", names, k))
        # Names in source code are interned, so that pointers mostly match.
        with when_all(name.compare("ne", input_name)):
            order = _call_python(w, "PyUnicode_Compare", name, input_name)
            with leave_if(order.is_nonzero()):
                _return_false(w)
        _take_float(w.load("ptr", w.point_to("ptr", args, k)), w.point_to(real.name, buffer, k), real)
    w.end_function(w.as_value(True, "i1"))


def _write_take_arguments(w: LlvmWriter) -> None:
    """Write the function that takes the inputs of a call: one vector, or all of them by name."""
    fields, args, nargs, keywords = _begin(
        w, "internal i1 @take_arguments", fields="ptr", args="ptr", nargs="i64", keywords="ptr"
    )
    buffer = _load_work_field(fields, CallFields, "buffer")
    n = _load_field(fields, CallFields, "inputs")
    with leave_if(_is_null(keywords)):
        with leave_unless(nargs.is_equal_to(1)):
            _return_false(w)
        w.emit_return(w.call("i1", "@take_vector", w.load("ptr", args), buffer, n))
    with leave_unless(nargs.is_equal_to(0)):
        _return_false(w)
    names = _load_field(fields, CallFields, "names")
    w.end_function(w.call("i1", "@take_named", args, keywords, names, buffer, n))


def _compare_checks(checked: LlvmValue, expected: LlvmValue, count: LlvmValue, real: RealType) -> None:
    """Write the comparison of checked outputs with the expected bits; the function returns false if they differ."""
    w = checked.writer
    with loop_over(0, count) as k:
        actual = w.load(real.bits_name, w.point_to(real.bits_name, checked, k))
        recorded = w.load(real.bits_name, w.point_to(real.bits_name, expected, k))
        with leave_unless(actual.is_equal_to(recorded)):
            _return_false(w)


def _write_holds(w: LlvmWriter, real: RealType) -> None:
    """Write the function that says whether the outputs after the results have the expected bits."""
    fields, outputs, results = _begin(w, "internal i1 @holds", fields="ptr", outputs="ptr", results="i64")
    expected = _load_field(fields, CallFields, "expected")
    checks = _load_field(fields, CallFields, "checks")
    _compare_checks(w.point_to(real.name, outputs, results), expected, checks, real)
    w.end_function(w.as_value(True, "i1"))


def _write_compute(w: LlvmWriter, real: RealType) -> None:
    """Write the function that takes arguments and runs the code: a pointer to the outputs, null if Python must."""
    fields, args, nargs, keywords, results = _begin(
        w, "internal ptr @compute", fields="ptr", args="ptr", nargs="i64", keywords="ptr", results="i64"
    )
    with leave_unless(w.call("i1", "@take_arguments", fields, args, nargs, keywords)):
        _return_null(w)
    outputs = _write_run(fields, CallFields, real)
    with leave_unless(w.call("i1", "@holds", fields, outputs, results)):
        _return_null(w)
    w.end_function(outputs)


def _write_fill(w: LlvmWriter, real: RealType) -> None:
    """Write the function that stores numbers in a dict that already has the keys; false if memory ran out."""
    target, keys, slots, count = _begin(w, "internal i1 @fill", target="ptr", keys="ptr", slots="ptr", count="i64")
    with loop_over(0, count) as k:
        number = _make_float(w.point_to(real.name, slots, k), real)
        with leave_if(_is_null(number)):
            _return_false(w)
        key = w.load("ptr", w.point_to("ptr", keys, k))
        code = _call_python(w, "PyDict_SetItem", target, key, number)
        _release(number)
        with leave_if(code < 0):
            _return_false(w)
    w.end_function(w.as_value(True, "i1"))


def _write_ask_slow(w: LlvmWriter) -> None:
    """Write the function that passes a call on to Python; the frame holds the address of the callable."""
    frame, args, nargs, keywords = _begin(
        w, "internal ptr @ask_slow", frame="ptr", args="ptr", nargs="i64", keywords="ptr"
    )
    slow = w.load("ptr", w.point_to("i8", frame, 8), how=", align 1")
    w.end_function(_call_python(w, "PyObject_Vectorcall", slow, args, nargs, keywords))


def _begin_call(w: LlvmWriter, name: str) -> tuple[LlvmValue, list[LlvmValue], list[LlvmValue]]:
    """Begin a builtin and count the call; return its fields, and the arguments of `compute` and of `ask_slow`."""
    own, *arguments = _begin(w, f"ptr @{name}", self="ptr", args="ptr", nargs="i64", keywords="ptr")
    frame = _call_python(w, "PyBytes_AsString", own)
    fields = w.load("ptr", frame, how=", align 1")
    calls = _load_field(fields, CallFields, "calls") + 1
    w.store(calls, _field_pointer(fields, CallFields, "calls"))
    with leave_if(calls > _load_field(fields, CallFields, "limit")):
        w.emit_return(w.call("ptr", "@ask_slow", frame, *arguments))
    return fields, [fields, *arguments], [frame, *arguments]


def _write_value(w: LlvmWriter, real: RealType) -> None:
    """Write the builtin that returns the output, or a dict of several outputs."""
    fields, arguments, call = _begin_call(w, "value")
    count = _load_field(fields, CallFields, "outputs")
    with leave_if(count.is_equal_to(1)):
        outputs = w.call("ptr", "@compute", *arguments, count)
        with leave_if(_is_null(outputs)):
            w.emit_return(w.call("ptr", "@ask_slow", *call))
        w.emit_return(_make_float(outputs, real))
    result = _call_python(w, "PyDict_Copy", _load_field(fields, CallFields, "values"))
    with leave_if(_is_null(result)):
        _return_null(w)
    outputs = w.call("ptr", "@compute", *arguments, count)
    with leave_if(_is_null(outputs)):
        _release(result)
        w.emit_return(w.call("ptr", "@ask_slow", *call))
    labels = _load_field(fields, CallFields, "labels")
    with leave_unless(w.call("i1", "@fill", result, labels, outputs, count)):
        _release(result)
        _return_null(w)
    w.end_function(result)


def _write_make_gradient(w: LlvmWriter) -> None:
    """Write the function that makes the object for a gradient: a vector for a vector, a dict for inputs by name."""
    fields, keywords = _begin(w, "internal ptr @make_gradient", fields="ptr", keywords="ptr")
    with leave_if(_is_null(keywords)):
        w.emit_return(_call_python(w, "PyObject_CallNoArgs", _load_field(fields, CallFields, "copy")))
    w.end_function(_call_python(w, "PyDict_Copy", _load_field(fields, CallFields, "grads")))


def _write_store_gradient(w: LlvmWriter, real: RealType) -> None:
    """Write the function that stores slopes in the object for a gradient; false if memory ran out."""
    fields, keywords, gradient, slopes = _begin(
        w, "internal i1 @store_gradient", fields="ptr", keywords="ptr", gradient="ptr", slopes="ptr"
    )
    n = _load_field(fields, CallFields, "inputs")
    with leave_if(_is_null(keywords)):
        data = _load_data(gradient)
        _copy_bytes(data, slopes, n, real.item_bytes)
        w.emit_return(w.as_value(True, "i1"))
    names = _load_field(fields, CallFields, "names")
    w.end_function(w.call("i1", "@fill", gradient, names, slopes, n))


def _write_value_and_grad(w: LlvmWriter, real: RealType) -> None:
    """Write the builtin that returns the only output and its gradient."""
    fields, arguments, call = _begin_call(w, "value_and_grad")
    keywords = arguments[-1]
    gradient = w.call("ptr", "@make_gradient", fields, keywords)
    with leave_if(_is_null(gradient)):
        _return_null(w)
    outputs = w.call("ptr", "@compute", *arguments, w.as_value(1, "i64"))
    with leave_if(_is_null(outputs)):
        _release(gradient)
        w.emit_return(w.call("ptr", "@ask_slow", *call))
    slopes = w.point_to(real.name, outputs, _load_field(fields, CallFields, "checks") + 1)
    with leave_unless(w.call("i1", "@store_gradient", fields, keywords, gradient, slopes)):
        _release(gradient)
        _return_null(w)
    value = _make_float(outputs, real)
    with leave_if(_is_null(value)):
        _release(gradient)
        _return_null(w)
    pack = find_python_function("PyTuple_Pack")
    pair = w.emit_value("ptr", f"call ptr (i64, ...) {pack}(i64 2, {value.typed}, {gradient.typed})")
    _release(value)
    _release(gradient)
    w.end_function(pair)


def _write_outputs(w: LlvmWriter, real: RealType) -> None:
    """Write the builtin that returns all outputs in one array; inputs by name are left to Python."""
    fields, arguments, call = _begin_call(w, "outputs")
    with leave_unless(_is_null(arguments[-1])):
        w.emit_return(w.call("ptr", "@ask_slow", *call))
    array = _call_python(w, "PyObject_CallNoArgs", _load_field(fields, CallFields, "copy"))
    with leave_if(_is_null(array)):
        _return_null(w)
    count = _load_field(fields, CallFields, "outputs")
    outputs = w.call("ptr", "@compute", *arguments, count)
    with leave_if(_is_null(outputs)):
        _release(array)
        w.emit_return(w.call("ptr", "@ask_slow", *call))
    data = _load_data(array)
    _copy_bytes(data, outputs, count, real.item_bytes)
    w.end_function(array)


def _write_at_point(w: LlvmWriter, real: RealType) -> None:
    """Write the function that runs the code at one point, and copies outputs and gradient to `results`."""
    fields, x, results = _begin(w, "void @at_point", fields="ptr", x="ptr", results="ptr")
    n = _load_field(fields, CallFields, "inputs")
    outputs = _load_field(fields, CallFields, "outputs") + _load_field(fields, CallFields, "checks")
    _copy_bytes(_load_work_field(fields, CallFields, "buffer"), x, n, real.item_bytes)
    _copy_bytes(results, _write_run(fields, CallFields, real), n + outputs, real.item_bytes)
    w.end_function()


def _write_replay_function() -> str:
    w = LlvmWriter()
    real = RealType("double")
    _write_replay_run(w, real)
    _write_flip(w)
    _write_replay(w, real)
    return w.format_module()


ALL_CHECKS_HOLD = -1
NOT_FLOATS = -2
"""What a run returns in place of the number of a check that fails."""


def _write_replay_run(w: LlvmWriter, real: RealType) -> None:
    """Write the function that takes floats and runs the code: the number of the first check that fails, or a status."""
    fields = w.name_value("%fields", "ptr")
    args = w.name_value("%args", "ptr")
    w.begin_function(f"internal i64 @replay_run({fields.typed}, {args.typed}) alwaysinline")
    buffer = _load_work_field(fields, ReplayFields, "buffer")
    with loop_over(0, _load_field(fields, ReplayFields, "inputs")) as k:
        thing = w.load("ptr", w.point_to("ptr", args, k))
        own = w.load("ptr", w.point_to("i8", thing, OBJECT_HEAD_BYTES - 8))
        is_other = own.compare("eq", _load_field(fields, ReplayFields, "other_type"))
        # An np.float64 is a float with the same memory, and reading it runs no code.
        with leave_unless(_is_exactly(thing, float) | is_other):
            w.emit_return(w.as_value(NOT_FLOATS, "i64"))
        w.store(_call_python(w, "PyFloat_AsDouble", thing), w.point_to(real.name, buffer, k))
    results = _load_field(fields, ReplayFields, "results")
    expected = _load_field(fields, ReplayFields, "expected")
    checks = _load_field(fields, ReplayFields, "checks")
    checked = w.point_to(real.name, _write_run(fields, ReplayFields, real), results)
    with loop_over(0, checks) as k:
        actual = w.load(real.bits_name, w.point_to(real.bits_name, checked, k))
        recorded = w.load(real.bits_name, w.point_to(real.bits_name, expected, k))
        with leave_unless(actual.is_equal_to(recorded)):
            w.emit_return(k)
    w.end_function(w.as_value(ALL_CHECKS_HOLD, "i64"))


def _return_none(w: LlvmWriter) -> None:
    none = w.name_value(format_pointer(id(None)), "ptr")
    w.call_void(find_python_function("Py_IncRef"), none)
    w.emit_return(none)


def _write_flip(w: LlvmWriter) -> None:
    """Write the function that returns what a replay returns without results: the number of a check, or None."""
    (status,) = _begin(w, "internal ptr @flip", status="i64")
    with leave_if(status < 0):
        _return_none(w)
    w.end_function(_call_python(w, "PyLong_FromLongLong", status))


def _write_replay(w: LlvmWriter, real: RealType) -> None:
    """Write the builtin that returns one result, or a tuple of results and slopes; a number where a check fails."""
    own, args, nargs = _begin(w, "ptr @replay", self="ptr", args="ptr", nargs="i64")
    fields = w.load("ptr", _call_python(w, "PyBytes_AsString", own), how=", align 1")
    inputs = _load_field(fields, ReplayFields, "inputs")
    results = _load_field(fields, ReplayFields, "results")
    count = results + _load_field(fields, ReplayFields, "slopes")
    with leave_unless(nargs.is_equal_to(inputs)):
        _return_none(w)
    outputs = w.point_to(real.name, _load_work_field(fields, ReplayFields, "buffer"), inputs)
    with leave_if(count.is_equal_to(1)):
        status = w.call("i64", "@replay_run", fields, args)
        with leave_unless(status.is_equal_to(ALL_CHECKS_HOLD)):
            w.emit_return(w.call("ptr", "@flip", status))
        w.emit_return(_make_float(outputs, real))
    result = _call_python(w, "PyTuple_New", count)
    with leave_if(_is_null(result)):
        _return_null(w)
    status = w.call("i64", "@replay_run", fields, args)
    with leave_unless(status.is_equal_to(ALL_CHECKS_HOLD)):
        _release(result)
        w.emit_return(w.call("ptr", "@flip", status))
    checks = _load_field(fields, ReplayFields, "checks")
    with loop_over(0, count) as k:
        # The outputs that are checked lie between the results and the slopes.
        place = k + w.select(k >= results, checks, 0)
        number = _make_float(w.point_to(real.name, outputs, place), real)
        with leave_if(_is_null(number)):
            _release(result)
            _return_null(w)
        _call_python(w, "PyTuple_SetItem", result, k, number)
    w.end_function(result)


def _write_array_functions() -> str:
    w = LlvmWriter()
    _write_has_type(w)
    _write_take_operand(w)
    _write_new_result(w)
    _write_take_result(w)
    _write_drop_results(w)
    _write_prepare_results(w)
    _write_take_operands(w)
    _write_find_failure(w)
    _write_make_numbers(w)
    _write_run_arrays(w)
    _write_names_match(w)
    _write_flip(w)
    _write_ask_slow(w)
    _write_fill_dict(w)
    _write_fill_tuple(w)
    _write_array_value(w)
    _write_array_gradient(w)
    _write_array_value_and_grad(w)
    _write_array_replay(w)
    return w.format_module()


MEMORY_ERROR = -3
"""What a run returns, besides `ALL_CHECKS_HOLD` and `NOT_FLOATS`, if an exception is set."""


def _array_field(array: LlvmValue, name: str) -> LlvmValue:
    return array.writer.point_to("i8", array, OBJECT_HEAD_BYTES + NDARRAY_OFFSETS[name])


def _load_array_field(fields: LlvmValue, name: str) -> LlvmValue:
    return _load_field(fields, ArrayCallFields, name)


def _point_to_row(rows: LlvmValue, index: LlvmValue, layout: type[ctypes.Structure]) -> LlvmValue:
    return rows.writer.point_to("i8", rows, index * ctypes.sizeof(layout))


def _write_has_type(w: LlvmWriter) -> None:
    """Write the function that says whether an array has a dtype, shape and flags."""
    array, kind, flags = _begin(w, "internal i1 @has_type", array="ptr", kind="ptr", flags="i32")
    own = w.load("i32", _array_field(array, "flags"))
    axes = _load_field(kind, CallArrayFields, "axes")
    same_axes = w.load("i32", _array_field(array, "nd")).convert("sext", "i64").is_equal_to(axes)
    dtype = _load_field(kind, CallArrayFields, "dtype")
    same_dtype = w.load("ptr", _array_field(array, "descr")).compare("eq", dtype)
    with leave_unless((own & flags).is_equal_to(flags) & same_axes & same_dtype):
        _return_false(w)
    lengths = w.load("ptr", _array_field(array, "dimensions"))
    wanted = _load_field(kind, CallArrayFields, "lengths")
    with loop_over(0, axes) as k:
        actual = w.load("i64", w.point_to("i64", lengths, k))
        with leave_unless(actual.is_equal_to(w.load("i64", w.point_to("i64", wanted, k)))):
            _return_false(w)
    w.end_function(w.as_value(True, "i1"))


def _write_take_operand(w: LlvmWriter) -> None:
    """Write the function that returns where the data of an argument is; null if Python must handle it."""
    thing, kind = _begin(w, "internal ptr @take_operand", thing="ptr", kind="ptr")
    slot = _load_field(kind, CallArrayFields, "slot")
    with leave_unless(_is_null(slot)):
        # An np.float64 is a float with the same memory, and reading it runs no code.
        with leave_unless(_is_exactly(thing, float) | _is_exactly(thing, np.float64)):
            _return_null(w)
        w.store(_call_python(w, "PyFloat_AsDouble", thing), slot)
        w.emit_return(slot)
    with leave_unless(_is_exactly(thing, np.ndarray)):
        _return_null(w)
    flags = w.as_value(CONTIGUOUS_AND_ALIGNED, "i32")
    with leave_unless(w.call("i1", "@has_type", thing, kind, flags)):
        _return_null(w)
    w.end_function(w.load("ptr", _array_field(thing, "data")))


def _write_new_result(w: LlvmWriter) -> None:
    """Write the function that makes an array; null if memory ran out."""
    (kind,) = _begin(w, "internal ptr @new_result", kind="ptr")
    null = w.name_value("null", "ptr")
    none = w.as_value(0, "i32")
    subtype = w.name_value(format_pointer(id(np.ndarray)), "ptr")
    axes = _load_field(kind, CallArrayFields, "axes").convert("trunc", "i32")
    lengths = _load_field(kind, CallArrayFields, "lengths")
    number = _load_field(kind, CallArrayFields, "type_number").convert("trunc", "i32")
    new = format_pointer(find_new_array_function())
    w.end_function(w.call("ptr", new, subtype, axes, lengths, number, null, null, none, none, null))


def _write_take_result(w: LlvmWriter) -> None:
    """Write the function that returns an array for a result: one that nobody uses any more, or a new one."""
    (kind,) = _begin(w, "internal ptr @take_result", kind="ptr")
    pool = _load_field(kind, CallArrayFields, "pool")
    with leave_if(_is_null(pool)):
        w.emit_return(w.call("ptr", "@new_result", kind))
    flags = w.as_value(CONTIGUOUS_AND_ALIGNED | OWNED_AND_WRITEABLE, "i32")
    with loop_over(0, w.as_value(MAX_KEPT_RESULTS, "i64")) as k:
        array = _call_python(w, "PyList_GetItem", pool, k)
        with when_all(_is_exactly(array, np.ndarray)):
            # Whoever uses the data holds a reference to the array; the list holds one.
            unused = w.load("i32", array).is_equal_to(1)
            unwatched = _is_null(w.load("ptr", _array_field(array, "weakrefs")))
            with leave_if(unused & unwatched & w.call("i1", "@has_type", array, kind, flags)):
                w.call_void(find_python_function("Py_IncRef"), array)
                w.emit_return(array)
    array = w.call("ptr", "@new_result", kind)
    with leave_if(_is_null(array)):
        _return_null(w)
    oldest = _load_field(kind, CallArrayFields, "oldest")
    following = w.select(oldest.is_equal_to(MAX_KEPT_RESULTS - 1), w.as_value(0, "i64"), oldest + 1)
    w.store(following, _field_pointer(kind, CallArrayFields, "oldest"))
    w.call_void(find_python_function("Py_IncRef"), array)
    _call_python(w, "PyList_SetItem", pool, oldest, array)
    w.end_function(array)


def _write_drop_results(w: LlvmWriter) -> None:
    """Write the function that releases the results of a call, and gives the workspace free."""
    (fields,) = _begin(w, "internal void @drop_results", fields="ptr")
    objects = _load_array_field(fields, "objects")
    with loop_over(0, _load_array_field(fields, "results")) as k:
        place = w.point_to("ptr", objects, k)
        thing = w.load("ptr", place)
        w.store(w.name_value("null", "ptr"), place)
        with when_all(thing.compare("ne", w.name_value("null", "ptr"))):
            _release(thing)
    w.store(w.as_value(0, "i64"), _field_pointer(fields, ArrayCallFields, "busy"))
    w.end_function()


def _write_prepare_results(w: LlvmWriter) -> None:
    """Write the function that takes an array for every result with axes; false if memory ran out."""
    (fields,) = _begin(w, "internal i1 @prepare_results", fields="ptr")
    kinds = _load_array_field(fields, "result_kinds")
    objects = _load_array_field(fields, "objects")
    table = w.point_to("ptr", _load_array_field(fields, "workspace"), _load_array_field(fields, "inputs") + 1)
    with loop_over(0, _load_array_field(fields, "results")) as k:
        kind = _point_to_row(kinds, k, CallArrayFields)
        with when_all(_is_null(_load_field(kind, CallArrayFields, "slot"))):
            array = w.call("ptr", "@take_result", kind)
            with leave_if(_is_null(array)):
                _return_false(w)
            w.store(array, w.point_to("ptr", objects, k))
            w.store(w.load("ptr", _array_field(array, "data")), w.point_to("ptr", table, k))
    w.end_function(w.as_value(True, "i1"))


def _write_take_operands(w: LlvmWriter) -> None:
    """Write the function that stores the addresses of the arguments in the table; false if Python must handle them."""
    fields, args = _begin(w, "internal i1 @take_operands", fields="ptr", args="ptr")
    kinds = _load_array_field(fields, "input_kinds")
    table = w.point_to("ptr", _load_array_field(fields, "workspace"), 1)
    with loop_over(0, _load_array_field(fields, "inputs")) as k:
        kind = _point_to_row(kinds, k, CallArrayFields)
        data = w.call("ptr", "@take_operand", w.load("ptr", w.point_to("ptr", args, k)), kind)
        with leave_if(_is_null(data)):
            _return_false(w)
        w.store(data, w.point_to("ptr", table, k))
    w.end_function(w.as_value(True, "i1"))


def _write_find_failure(w: LlvmWriter) -> None:
    """Write the function that returns the number of the first check that fails, or `ALL_CHECKS_HOLD`."""
    (fields,) = _begin(w, "internal i64 @find_failure", fields="ptr")
    rows = _load_array_field(fields, "expected")
    with loop_over(0, _load_array_field(fields, "checks")) as k:
        row = _point_to_row(rows, k, CheckFields)
        actual = _load_field(row, CheckFields, "actual")
        expected = _load_field(row, CheckFields, "expected")
        with loop_over(0, _load_field(row, CheckFields, "bytes")) as place:
            byte = w.load("i8", w.point_to("i8", actual, place))
            with leave_unless(byte.is_equal_to(w.load("i8", w.point_to("i8", expected, place)))):
                w.emit_return(k)
    w.end_function(w.as_value(ALL_CHECKS_HOLD, "i64"))


def _write_make_numbers(w: LlvmWriter) -> None:
    """Write the function that makes a float of every result without axes; false if memory ran out."""
    (fields,) = _begin(w, "internal i1 @make_numbers", fields="ptr")
    kinds = _load_array_field(fields, "result_kinds")
    objects = _load_array_field(fields, "objects")
    with loop_over(0, _load_array_field(fields, "results")) as k:
        kind = _point_to_row(kinds, k, CallArrayFields)
        slot = _load_field(kind, CallArrayFields, "slot")
        with when_all(slot.compare("ne", w.name_value("null", "ptr"))):
            is_double = _load_field(kind, CallArrayFields, "item_bytes").is_equal_to(8)
            # A slot has eight bytes, so reading it either way is safe.
            single = w.load("float", slot).convert("fpext", "double")
            number = w.select(is_double, w.load("double", slot), single)
            thing = _call_python(w, "PyFloat_FromDouble", number)
            with leave_if(_is_null(thing)):
                _return_false(w)
            w.store(thing, w.point_to("ptr", objects, k))
    w.end_function(w.as_value(True, "i1"))


def _write_run_arrays(w: LlvmWriter) -> None:
    """Write the function that runs the program on arguments: the number of a check that fails, or a status.

    With `ALL_CHECKS_HOLD` the results are in `objects` and the workspace stays busy until they are dropped.
    """
    fields, args = _begin(w, "internal i64 @run_arrays", fields="ptr", args="ptr")
    busy = _field_pointer(fields, ArrayCallFields, "busy")
    with leave_if(w.load("i64", busy).is_nonzero()):
        w.emit_return(w.as_value(NOT_FLOATS, "i64"))
    w.store(w.as_value(1, "i64"), busy)
    with leave_unless(w.call("i1", "@prepare_results", fields)):
        w.call_void("@drop_results", fields)
        w.emit_return(w.as_value(MEMORY_ERROR, "i64"))
    with leave_unless(w.call("i1", "@take_operands", fields, args)):
        w.call_void("@drop_results", fields)
        w.emit_return(w.as_value(NOT_FLOATS, "i64"))
    run = _load_array_field(fields, "run")
    words = [_load_array_field(fields, name) for name in ("workspace", "first", "end")]
    releases = _load_array_field(fields, "releases").is_nonzero()
    with when_all(releases):
        state = _call_python(w, "PyEval_SaveThread")
        w.call_void(run.text, *words)
        w.call_void(find_python_function("PyEval_RestoreThread"), state)
    with when_all(releases.is_equal_to(0)):
        w.call_void(run.text, *words)
    status = w.call("i64", "@find_failure", fields)
    with leave_unless(status.is_equal_to(ALL_CHECKS_HOLD)):
        w.call_void("@drop_results", fields)
        w.emit_return(status)
    with leave_unless(w.call("i1", "@make_numbers", fields)):
        w.call_void("@drop_results", fields)
        w.emit_return(w.as_value(MEMORY_ERROR, "i64"))
    calls = _field_pointer(fields, ArrayCallFields, "calls")
    w.store(w.load("i64", calls) + 1, calls)
    w.end_function(w.as_value(ALL_CHECKS_HOLD, "i64"))


def _write_names_match(w: LlvmWriter) -> None:
    """Write the function that says whether a call has one argument per input: in order, or by name in this order."""
    fields, nargs, keywords = _begin(w, "internal i1 @names_match", fields="ptr", nargs="i64", keywords="ptr")
    inputs = _load_array_field(fields, "inputs")
    with leave_if(_is_null(keywords)):
        w.emit_return(nargs.is_equal_to(inputs))
    with leave_unless(nargs.is_equal_to(0) & _call_python(w, "PyTuple_Size", keywords).is_equal_to(inputs)):
        _return_false(w)
    names = _load_array_field(fields, "names")
    with loop_over(0, inputs) as k:
        name = _call_python(w, "PyTuple_GetItem", keywords, k)
        input_name = w.load("ptr", w.point_to("ptr", names, k))
        with when_all(name.compare("ne", input_name)):
            order = _call_python(w, "PyUnicode_Compare", name, input_name)
            with leave_if(order.is_nonzero()):
                _return_false(w)
    w.end_function(w.as_value(True, "i1"))


def _write_fill_dict(w: LlvmWriter) -> None:
    """Write the function that copies a dict and stores objects under its keys; null if memory ran out."""
    template, keys, objects, count = _begin(
        w, "internal ptr @fill_dict", template="ptr", keys="ptr", objects="ptr", count="i64"
    )
    copy = _call_python(w, "PyDict_Copy", template)
    with leave_if(_is_null(copy)):
        _return_null(w)
    with loop_over(0, count) as k:
        key = w.load("ptr", w.point_to("ptr", keys, k))
        code = _call_python(w, "PyDict_SetItem", copy, key, w.load("ptr", w.point_to("ptr", objects, k)))
        with leave_if(code < 0):
            _release(copy)
            _return_null(w)
    w.end_function(copy)


def _write_fill_tuple(w: LlvmWriter) -> None:
    """Write the function that makes a tuple of objects; null if memory ran out."""
    objects, count = _begin(w, "internal ptr @fill_tuple", objects="ptr", count="i64")
    made = _call_python(w, "PyTuple_New", count)
    with leave_if(_is_null(made)):
        _return_null(w)
    with loop_over(0, count) as k:
        thing = w.load("ptr", w.point_to("ptr", objects, k))
        w.call_void(find_python_function("Py_IncRef"), thing)
        _call_python(w, "PyTuple_SetItem", made, k, thing)
    w.end_function(made)


def _begin_array_call(w: LlvmWriter, name: str) -> tuple[LlvmValue, LlvmValue]:
    """Begin a builtin and run its program, or return what Python returns; return its fields and the keywords."""
    own, *arguments = _begin(w, f"ptr @{name}", self="ptr", args="ptr", nargs="i64", keywords="ptr")
    args, nargs, keywords = arguments
    frame = _call_python(w, "PyBytes_AsString", own)
    fields = w.load("ptr", frame, how=", align 1")
    unnamed = _is_null(keywords)
    is_left_to_python = unnamed & _load_array_field(fields, "named_only").is_nonzero()
    with leave_if(is_left_to_python | w.call("i1", "@names_match", fields, nargs, keywords).is_equal_to(0)):
        w.emit_return(w.call("ptr", "@ask_slow", frame, *arguments))
    status = w.call("i64", "@run_arrays", fields, args)
    with leave_if(status.is_equal_to(MEMORY_ERROR)):
        _return_null(w)
    with leave_unless(status.is_equal_to(ALL_CHECKS_HOLD)):
        w.emit_return(w.call("ptr", "@ask_slow", frame, *arguments))
    return fields, keywords


def _write_array_value(w: LlvmWriter) -> None:
    """Write the builtin that returns the output, or a dict of several outputs."""
    fields, _ = _begin_array_call(w, "value")
    objects = _load_array_field(fields, "objects")
    count = _load_array_field(fields, "results")
    with leave_if(count.is_equal_to(1)):
        only = w.load("ptr", objects)
        w.call_void(find_python_function("Py_IncRef"), only)
        w.call_void("@drop_results", fields)
        w.emit_return(only)
    values = _load_array_field(fields, "values")
    result = w.call("ptr", "@fill_dict", values, _load_array_field(fields, "labels"), objects, count)
    w.call_void("@drop_results", fields)
    w.end_function(result)


def _write_array_gradient(w: LlvmWriter) -> None:
    """Write the function that returns a gradient as it is given back: by name, one by one, or the only one."""
    fields, keywords = _begin(w, "internal ptr @gradient", fields="ptr", keywords="ptr")
    objects = w.point_to("ptr", _load_array_field(fields, "objects"), 1)
    count = _load_array_field(fields, "inputs")
    with leave_unless(_is_null(keywords)):
        names = _load_array_field(fields, "names")
        w.emit_return(w.call("ptr", "@fill_dict", _load_array_field(fields, "grads"), names, objects, count))
    with leave_if(count.is_equal_to(1)):
        only = w.load("ptr", objects)
        w.call_void(find_python_function("Py_IncRef"), only)
        w.emit_return(only)
    w.end_function(w.call("ptr", "@fill_tuple", objects, count))


def _write_array_value_and_grad(w: LlvmWriter) -> None:
    """Write the builtin that returns the only output and its gradient."""
    fields, keywords = _begin_array_call(w, "value_and_grad")
    gradient = w.call("ptr", "@gradient", fields, keywords)
    with leave_if(_is_null(gradient)):
        w.call_void("@drop_results", fields)
        _return_null(w)
    value = w.load("ptr", _load_array_field(fields, "objects"))
    pack = find_python_function("PyTuple_Pack")
    pair = w.emit_value("ptr", f"call ptr (i64, ...) {pack}(i64 2, {value.typed}, {gradient.typed})")
    _release(gradient)
    w.call_void("@drop_results", fields)
    w.end_function(pair)


def _write_array_replay(w: LlvmWriter) -> None:
    """Write the builtin that returns all results in a tuple; the number of a check that fails; or None."""
    own, args, nargs = _begin(w, "ptr @replay", self="ptr", args="ptr", nargs="i64")
    fields = w.load("ptr", _call_python(w, "PyBytes_AsString", own), how=", align 1")
    with leave_unless(nargs.is_equal_to(_load_array_field(fields, "inputs"))):
        _return_none(w)
    status = w.call("i64", "@run_arrays", fields, args)
    with leave_if(status.is_equal_to(MEMORY_ERROR)):
        _return_null(w)
    with leave_unless(status.is_equal_to(ALL_CHECKS_HOLD)):
        w.emit_return(w.call("ptr", "@flip", status))
    count = _load_array_field(fields, "results")
    result = w.call("ptr", "@fill_tuple", _load_array_field(fields, "objects"), count)
    w.call_void("@drop_results", fields)
    w.end_function(result)
