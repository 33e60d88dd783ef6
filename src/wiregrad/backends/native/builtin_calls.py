"""Builtins: native functions with CPython's own calling convention, whose calls cost a fraction of a microsecond.

There are two: `make_call_builtin` for compiled circuits and `make_replay_builtin` for replays of recordings. Each is
compiled once per type of real, whatever the circuit; what it needs to know of a circuit stands in a ctypes structure
(`CallFields`, `ReplayFields`) that its `__self__`, a `BuiltinFrame`, points to and keeps alive.

The fast cases of a call are one vector of floats, one list or tuple of floats, and the inputs by name in their order;
every other call goes to `SlowPath` with the same arguments. A replay takes exact floats, one per input; for anything
else it returns None, as if a branch had flipped, and the caller handles it.

Kept true: the GIL is held from the first read to the last, and no Python code can run between writing the inputs into
the working buffer and reading the results from it, so one buffer serves all threads and nested calls. Results are
allocated before that, because an allocation may collect garbage and so run any code.
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
from string import Template
from typing import Any, ClassVar, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from wiregrad.backends.native import jit
from wiregrad.backends.native.tiers import NativeProgram, copy_aligned
from wiregrad.errors import NotNativeError, OperandError

CALL_TEMPLATE = """
; Whether an object is exactly of a type, not of a subclass, so that reading it runs no user code.
define internal i1 @is_exactly(ptr %object, ptr %type) alwaysinline {
  %at = getelementptr i8, ptr %object, i64 $at.type$
  %found = load ptr, ptr %at
  %same = icmp eq ptr %found, %type
  ret i1 %same
}

; Count a call; returns whether the limit of calls is exceeded.
define internal i1 @count(ptr %fields) alwaysinline {
  %calls.at = getelementptr i8, ptr %fields, i64 $field.calls$
  %limit.at = getelementptr i8, ptr %fields, i64 $field.limit$
  %before = load i64, ptr %calls.at
  %calls = add i64 %before, 1
  store i64 %calls, ptr %calls.at
  %limit = load i64, ptr %limit.at
  %due = icmp sgt i64 %calls, %limit
  ret i1 %due
}

define internal i1 @take(ptr %object, ptr %slot) alwaysinline {
  %exact = call i1 @is_exactly(ptr %object, ptr $type.float$)
  br i1 %exact, label %yes, label %no
yes:
  %double = call double $PyFloat_AsDouble$(ptr %object)
  %rounded = $round$
  store $real$ %rounded, ptr %slot
  ret i1 true
no:
  ret i1 false
}

define internal i1 @take_items(ptr %sequence, ptr %getter, ptr %w, i64 %n) {
start:
  br label %next
next:
  %k = phi i64 [0, %start], [%following, %taken]
  %done = icmp eq i64 %k, %n
  br i1 %done, label %all, label %item
item:
  %object = call ptr %getter(ptr %sequence, i64 %k)
  %slot = getelementptr $real$, ptr %w, i64 %k
  %ok = call i1 @take(ptr %object, ptr %slot)
  br i1 %ok, label %taken, label %other
taken:
  %following = add i64 %k, 1
  br label %next
all:
  ret i1 true
other:
  ret i1 false
}

define internal i1 @take_array(ptr %array, ptr %w, i64 %n) {
  %nd.at = getelementptr i8, ptr %array, i64 $at.nd$
  %flags.at = getelementptr i8, ptr %array, i64 $at.flags$
  %descr.at = getelementptr i8, ptr %array, i64 $at.descr$
  %nd = load i32, ptr %nd.at
  %all.flags = load i32, ptr %flags.at
  %descr = load ptr, ptr %descr.at
  %flat = icmp eq i32 %nd, 1
  %flags = and i32 %all.flags, $flags$
  %plain = icmp eq i32 %flags, $flags$
  %fitting = icmp eq ptr %descr, $descr$
  %so = and i1 %flat, %plain
  %such = and i1 %so, %fitting
  br i1 %such, label %sized, label %other
sized:
  %dimensions.at = getelementptr i8, ptr %array, i64 $at.dimensions$
  %dimensions = load ptr, ptr %dimensions.at
  %length = load i64, ptr %dimensions
  %right = icmp eq i64 %length, %n
  br i1 %right, label %copy, label %other
copy:
  %data.at = getelementptr i8, ptr %array, i64 $at.data$
  %data = load ptr, ptr %data.at
  %bytes = mul i64 %n, $size$
  call void @llvm.memcpy.p0.p0.i64(ptr %w, ptr %data, i64 %bytes, i1 false)
  ret i1 true
other:
  ret i1 false
}

define internal i1 @take_vector(ptr %x, ptr %w, i64 %n) {
  %is.array = call i1 @is_exactly(ptr %x, ptr $type.ndarray$)
  br i1 %is.array, label %array, label %not.array
array:
  %copied = call i1 @take_array(ptr %x, ptr %w, i64 %n)
  ret i1 %copied
not.array:
  %is.list = call i1 @is_exactly(ptr %x, ptr $type.list$)
  br i1 %is.list, label %list, label %not.list
list:
  %list.length = call i64 $PyList_Size$(ptr %x)
  %list.right = icmp eq i64 %list.length, %n
  br i1 %list.right, label %items, label %other
not.list:
  %is.tuple = call i1 @is_exactly(ptr %x, ptr $type.tuple$)
  br i1 %is.tuple, label %tuple, label %other
tuple:
  %tuple.length = call i64 $PyTuple_Size$(ptr %x)
  %tuple.right = icmp eq i64 %tuple.length, %n
  br i1 %tuple.right, label %items, label %other
items:
  %getter = phi ptr [$PyList_GetItem$, %list], [$PyTuple_GetItem$, %tuple]
  %taken = call i1 @take_items(ptr %x, ptr %getter, ptr %w, i64 %n)
  ret i1 %taken
other:
  ret i1 false
}

; Take the inputs by name: exactly these names, in order. Names in source code are interned, so pointers mostly match.
define internal i1 @take_named(ptr %args, ptr %given, ptr %names, ptr %w, i64 %n) {
start:
  %length = call i64 $PyTuple_Size$(ptr %given)
  %right = icmp eq i64 %length, %n
  br i1 %right, label %next, label %other
next:
  %k = phi i64 [0, %start], [%following, %taken]
  %done = icmp eq i64 %k, %n
  br i1 %done, label %all, label %name
name:
  %called = call ptr $PyTuple_GetItem$(ptr %given, i64 %k)
  %wanted.at = getelementptr ptr, ptr %names, i64 %k
  %wanted = load ptr, ptr %wanted.at
  %same = icmp eq ptr %called, %wanted
  br i1 %same, label %item, label %spelled
spelled:
  %order = call i32 $PyUnicode_Compare$(ptr %called, ptr %wanted)
  %alike = icmp eq i32 %order, 0
  br i1 %alike, label %item, label %other
item:
  %object.at = getelementptr ptr, ptr %args, i64 %k
  %object = load ptr, ptr %object.at
  %slot = getelementptr $real$, ptr %w, i64 %k
  %ok = call i1 @take(ptr %object, ptr %slot)
  br i1 %ok, label %taken, label %other
taken:
  %following = add i64 %k, 1
  br label %next
all:
  ret i1 true
other:
  ret i1 false
}

define internal i1 @take_arguments(ptr %fields, ptr %args, i64 %nargs, ptr %given) {
  %w.at = getelementptr i8, ptr %fields, i64 $field.buffer$
  %n.at = getelementptr i8, ptr %fields, i64 $field.inputs$
  %w = load ptr, ptr %w.at
  %n = load i64, ptr %n.at
  %unnamed = icmp eq ptr %given, null
  br i1 %unnamed, label %positional, label %keywords
positional:
  %one = icmp eq i64 %nargs, 1
  br i1 %one, label %vector, label %other
vector:
  %x = load ptr, ptr %args
  %taken = call i1 @take_vector(ptr %x, ptr %w, i64 %n)
  ret i1 %taken
keywords:
  %none = icmp eq i64 %nargs, 0
  br i1 %none, label %named, label %other
named:
  %names.at = getelementptr i8, ptr %fields, i64 $field.names$
  %names = load ptr, ptr %names.at
  %all = call i1 @take_named(ptr %args, ptr %given, ptr %names, ptr %w, i64 %n)
  ret i1 %all
other:
  ret i1 false
}

; Run the code; returns a pointer to the outputs.
define internal ptr @run(ptr %fields) {
  %enter.at = getelementptr i8, ptr %fields, i64 $field.enter$
  %code.at = getelementptr i8, ptr %fields, i64 $field.code$
  %w.at = getelementptr i8, ptr %fields, i64 $field.buffer$
  %n.at = getelementptr i8, ptr %fields, i64 $field.inputs$
  %enter = load ptr, ptr %enter.at
  %code = load ptr, ptr %code.at
  %w = load ptr, ptr %w.at
  call void %enter(ptr %code, ptr %w)
  %n = load i64, ptr %n.at
  %outputs = getelementptr $real$, ptr %w, i64 %n
  ret ptr %outputs
}

; Whether the outputs after the results have the expected bits.
define internal i1 @holds(ptr %fields, ptr %outputs, i64 %results) {
start:
  %count.at = getelementptr i8, ptr %fields, i64 $field.checks$
  %count = load i64, ptr %count.at
  %expected.at = getelementptr i8, ptr %fields, i64 $field.expected$
  %expected = load ptr, ptr %expected.at
  %found = getelementptr $real$, ptr %outputs, i64 %results
  br label %next
next:
  %k = phi i64 [0, %start], [%following, %compare]
  %done = icmp eq i64 %k, %count
  br i1 %done, label %all, label %compare
compare:
  %now.at = getelementptr $bits$, ptr %found, i64 %k
  %was.at = getelementptr $bits$, ptr %expected, i64 %k
  %now = load $bits$, ptr %now.at
  %was = load $bits$, ptr %was.at
  %same = icmp eq $bits$ %now, %was
  %following = add i64 %k, 1
  br i1 %same, label %next, label %other
all:
  ret i1 true
other:
  ret i1 false
}

define internal ptr @number(ptr %slot) alwaysinline {
  %narrow = load $real$, ptr %slot
  %double = $widen$
  %made = call ptr $PyFloat_FromDouble$(double %double)
  ret ptr %made
}

; Store numbers in a dict that already has the keys; false if memory ran out.
define internal i1 @fill(ptr %dict, ptr %keys, ptr %slots, i64 %count) {
start:
  br label %next
next:
  %k = phi i64 [0, %start], [%following, %put]
  %done = icmp eq i64 %k, %count
  br i1 %done, label %all, label %item
item:
  %slot = getelementptr $real$, ptr %slots, i64 %k
  %made = call ptr @number(ptr %slot)
  %none = icmp eq ptr %made, null
  br i1 %none, label %failed, label %known
known:
  %key.at = getelementptr ptr, ptr %keys, i64 %k
  %key = load ptr, ptr %key.at
  %code = call i32 $PyDict_SetItem$(ptr %dict, ptr %key, ptr %made)
  call void $Py_DecRef$(ptr %made)
  %bad = icmp slt i32 %code, 0
  br i1 %bad, label %failed, label %put
put:
  %following = add i64 %k, 1
  br label %next
all:
  ret i1 true
failed:
  ret i1 false
}

; The frame holds two addresses: of the fields, and of the Python callable for all other calls.
define internal ptr @ask_slow(ptr %frame, ptr %args, i64 %nargs, ptr %given) {
  %slow.at = getelementptr i8, ptr %frame, i64 8
  %slow = load ptr, ptr %slow.at, align 1
  %answer = call ptr $PyObject_Vectorcall$(ptr %slow, ptr %args, i64 %nargs, ptr %given)
  ret ptr %answer
}

define ptr @value(ptr %self, ptr %args, i64 %nargs, ptr %given) {
  %frame = call ptr $PyBytes_AsString$(ptr %self)
  %fields = load ptr, ptr %frame, align 1
  %m.at = getelementptr i8, ptr %fields, i64 $field.outputs$
  %m = load i64, ptr %m.at
  %one = icmp eq i64 %m, 1
  %due = call i1 @count(ptr %fields)
  br i1 %due, label %slow, label %quick
quick:
  br i1 %one, label %ready, label %several
several:
  %values.at = getelementptr i8, ptr %fields, i64 $field.values$
  %values = load ptr, ptr %values.at
  %dict = call ptr $PyDict_Copy$(ptr %values)
  %none = icmp eq ptr %dict, null
  br i1 %none, label %failed, label %ready
ready:
  %result = phi ptr [null, %quick], [%dict, %several]
  %taken = call i1 @take_arguments(ptr %fields, ptr %args, i64 %nargs, ptr %given)
  br i1 %taken, label %running, label %unlike
unlike:
  br i1 %one, label %slow, label %drop
drop:
  call void $Py_DecRef$(ptr %result)
  br label %slow
running:
  %outputs = call ptr @run(ptr %fields)
  %held = call i1 @holds(ptr %fields, ptr %outputs, i64 %m)
  br i1 %held, label %answer, label %unlike
answer:
  br i1 %one, label %alone, label %together
alone:
  %y = call ptr @number(ptr %outputs)
  ret ptr %y
together:
  %labels.at = getelementptr i8, ptr %fields, i64 $field.labels$
  %labels = load ptr, ptr %labels.at
  %filled = call i1 @fill(ptr %result, ptr %labels, ptr %outputs, i64 %m)
  br i1 %filled, label %good, label %bad
good:
  ret ptr %result
bad:
  call void $Py_DecRef$(ptr %result)
  br label %failed
slow:
  %told = call ptr @ask_slow(ptr %frame, ptr %args, i64 %nargs, ptr %given)
  ret ptr %told
failed:
  ret ptr null
}

define ptr @value_and_grad(ptr %self, ptr %args, i64 %nargs, ptr %given) {
  %frame = call ptr $PyBytes_AsString$(ptr %self)
  %fields = load ptr, ptr %frame, align 1
  %due = call i1 @count(ptr %fields)
  br i1 %due, label %slow, label %quick
quick:
  %unnamed = icmp eq ptr %given, null
  br i1 %unnamed, label %vector, label %dict
vector:
  %copy.at = getelementptr i8, ptr %fields, i64 $field.copy$
  %copy = load ptr, ptr %copy.at
  %array = call ptr $PyObject_CallNoArgs$(ptr %copy)
  br label %made
dict:
  %grads.at = getelementptr i8, ptr %fields, i64 $field.grads$
  %grads = load ptr, ptr %grads.at
  %named = call ptr $PyDict_Copy$(ptr %grads)
  br label %made
made:
  %gradient = phi ptr [%array, %vector], [%named, %dict]
  %none = icmp eq ptr %gradient, null
  br i1 %none, label %failed, label %ready
ready:
  %taken = call i1 @take_arguments(ptr %fields, ptr %args, i64 %nargs, ptr %given)
  br i1 %taken, label %running, label %unlike
unlike:
  call void $Py_DecRef$(ptr %gradient)
  br label %slow
running:
  %outputs = call ptr @run(ptr %fields)
  %n.at = getelementptr i8, ptr %fields, i64 $field.inputs$
  %n = load i64, ptr %n.at
  %held = call i1 @holds(ptr %fields, ptr %outputs, i64 1)
  br i1 %held, label %answer, label %unlike
answer:
  %checks.at = getelementptr i8, ptr %fields, i64 $field.checks$
  %checks = load i64, ptr %checks.at
  %before.slopes = add i64 %checks, 1
  %slopes = getelementptr $real$, ptr %outputs, i64 %before.slopes
  br i1 %unnamed, label %into.vector, label %into.dict
into.vector:
  %data.at = getelementptr i8, ptr %gradient, i64 $at.data$
  %data = load ptr, ptr %data.at
  %bytes = mul i64 %n, $size$
  call void @llvm.memcpy.p0.p0.i64(ptr %data, ptr %slopes, i64 %bytes, i1 false)
  br label %valued
into.dict:
  %names.at = getelementptr i8, ptr %fields, i64 $field.names$
  %names = load ptr, ptr %names.at
  %filled = call i1 @fill(ptr %gradient, ptr %names, ptr %slopes, i64 %n)
  br i1 %filled, label %valued, label %bad
valued:
  %y = call ptr @number(ptr %outputs)
  %lost = icmp eq ptr %y, null
  br i1 %lost, label %bad, label %both
both:
  %pair = call ptr (i64, ...) $PyTuple_Pack$(i64 2, ptr %y, ptr %gradient)
  call void $Py_DecRef$(ptr %y)
  call void $Py_DecRef$(ptr %gradient)
  ret ptr %pair
bad:
  call void $Py_DecRef$(ptr %gradient)
  br label %failed
slow:
  %told = call ptr @ask_slow(ptr %frame, ptr %args, i64 %nargs, ptr %given)
  ret ptr %told
failed:
  ret ptr null
}

; Run the code at one point; outputs and gradient are copied to `found`.
define void @at_point(ptr %fields, ptr %x, ptr %found) {
  %w.at = getelementptr i8, ptr %fields, i64 $field.buffer$
  %n.at = getelementptr i8, ptr %fields, i64 $field.inputs$
  %m.at = getelementptr i8, ptr %fields, i64 $field.outputs$
  %w = load ptr, ptr %w.at
  %n = load i64, ptr %n.at
  %checks.at = getelementptr i8, ptr %fields, i64 $field.checks$
  %results = load i64, ptr %m.at
  %checks = load i64, ptr %checks.at
  %m = add i64 %results, %checks
  %given = mul i64 %n, $size$
  call void @llvm.memcpy.p0.p0.i64(ptr %w, ptr %x, i64 %given, i1 false)
  %outputs = call ptr @run(ptr %fields)
  %count = add i64 %n, %m
  %bytes = mul i64 %count, $size$
  call void @llvm.memcpy.p0.p0.i64(ptr %found, ptr %outputs, i64 %bytes, i1 false)
  ret void
}

declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""


UNREACHED_CALL_COUNT = 2**62
"""A call count that is never reached."""
LLVM_REAL_NAMES = {np.dtype(np.float64): "double", np.dtype(np.float32): "float"}
OBJECT_HEAD_BYTES = object.__basicsize__
"""The size of the header of every Python object; its last 8 bytes point to the type."""


class WorkFields(ctypes.Structure):
    """The addresses of code and of the buffer it works on."""

    _fields_: ClassVar = [("code", ctypes.c_int64), ("buffer", ctypes.c_int64)]


class CallFields(ctypes.Structure):
    """What a builtin knows of its circuit, as native code reads it."""

    _fields_: ClassVar = [("work", WorkFields)] + [
        (name, ctypes.c_int64)
        for name in (
            "enter",  # the function that runs code on a buffer
            "inputs",
            "outputs",
            "calls",  # the number of calls so far
            "limit",  # the call count after which `SlowPath` is called once
            "copy",  # makes a new vector for a gradient
            "names",  # of the inputs: an array of addresses of interned strings
            "grads",  # a dict with these keys, to be copied
            "labels",  # of the outputs
            "values",
            "checks",  # the number of outputs after the results that must equal `expected`
            "expected",  # the bits that these outputs must have
        )
    ]


class CheckFallback(Protocol):
    """Computes or raises where a check does not hold in native code."""

    def compute_values(self, point: Any) -> Any:
        """Return the outputs, or raise."""

    def compute_gradient(self, point: Any) -> tuple[Any, Any]:
        """Return the only output and its gradient, or raise."""


@dataclass(frozen=True)
class OutputChecks:
    """The numbers that the last outputs of a program must equal for its results to be valid, and the fallback."""

    expected: NDArray[np.floating]
    judge: CheckFallback

    def find_failures(self, outputs: NDArray[np.floating]) -> NDArray[np.bool_]:
        """Return whether a check does not hold, for the outputs of one point, or of many points, one row each."""
        bits = f"u{self.expected.itemsize}"
        checked = np.ascontiguousarray(outputs[..., outputs.shape[-1] - len(self.expected) :])
        different: NDArray[np.bool_] = (checked.view(bits) != self.expected.view(bits)).any(-1)
        return different


class NativeEngine:
    """A program with its working buffer, and the objects that its results are made of.

    The builtin keeps its entry alive. Where a check does not hold, the judge of the checks computes the result.

    >>> from wiregrad.backends.native.tiers import build_program
    >>> from wiregrad.ir import parse_text
    >>> program = build_program(parse_text("input a, b\\ny = multiply a b\\noutput y"), 0)
    >>> entry = NativeEngine(program, ["a", "b"], ["y"])
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

    def _store_address(self, field: str, thing: Any) -> Any:
        setattr(self.fields, field, id(thing))
        return thing

    def _store_addresses(self, field: str, things: Sequence[Any]) -> NDArray[np.int64]:
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

    def run_at(self, point: Any) -> NDArray[Any]:
        """Run the program at a checked point; return outputs and gradient in one array."""
        inputs = np.array(point, self.buffer.dtype)
        assert len(inputs) == self.program.inputs
        self.fields.calls += 1
        results = np.empty(self.program.outputs + self.program.inputs, self.buffer.dtype)
        self._at_point(ctypes.addressof(self.fields), inputs.ctypes.data, results.ctypes.data)
        return results

    def compute_values(self, point: Any) -> NDArray[Any]:
        """Return the outputs at a checked point."""
        outputs = self.run_at(point)[: self.program.outputs]
        if self.checks is not None and self.checks.find_failures(outputs):
            return np.array(self.checks.judge.compute_values(point), outputs.dtype)
        return outputs[: self.fields.outputs]

    def compute_gradient(self, point: Any) -> tuple[Any, NDArray[Any]]:
        """Return the only output, and its gradient by every input, at a checked point."""
        results = self.run_at(point)
        count = self.program.outputs
        if self.checks is not None and self.checks.find_failures(results[:count]):
            value, grads = self.checks.judge.compute_gradient(point)
            return value, np.array(grads, results.dtype)
        return results[0], results[count:]


class SlowPath:
    """Handles, in Python, every call that a builtin does not handle itself."""

    def __init__(self, entry: NativeEngine, answer: Callable[..., Any]) -> None:
        self.entry = entry
        self.answer = answer

    def __call__(self, /, *vector: Any, **inputs: Any) -> Any:
        """Handle a call, and first report that the limit of calls is reached if it is."""
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

    held: Any

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
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
    """PyMethodDef."""

    _fields_: ClassVar = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


def create_builtin(method: PyMethodDef, frame: BuiltinFrame, held: Any) -> Callable[..., Any]:
    """Return a builtin with a frame as its `__self__`; the frame keeps everything alive that native code reads."""
    # The method too: if two threads create it at the same time, the cache keeps only one of them.
    frame.held = method, held
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    made: Callable[..., Any] = new(ctypes.addressof(method), frame, None)
    return made


METH_FASTCALL = 0x80
METH_KEYWORDS = 0x02
BUILTIN_DOCS = {
    "value": "Return the output (a dict of them if there are several), from inputs by name or as one vector.",
    "value_and_grad": "Return the output and its gradient: a dict for inputs by name, a vector for one vector.",
}


@cache
def _make_call_method(kind: str, real: np.dtype[Any]) -> PyMethodDef:
    doc = f"{kind}($self, /, *vector, **inputs)\n--\n\n{BUILTIN_DOCS[kind]}"
    return PyMethodDef(kind.encode(), compile_call_functions(real)[kind], METH_FASTCALL | METH_KEYWORDS, doc.encode())


@cache
def compile_call_functions(real: np.dtype[Any]) -> dict[str, int]:
    """Return the addresses of the native functions for programs on one type of real."""
    names = [*BUILTIN_DOCS, "at_point"]
    return dict(zip(names, jit.compile_functions(_fill_call_template(real), *names), strict=True))


NDARRAY_OFFSETS = {"data": 0, "nd": 8, "dimensions": 16, "descr": 40, "flags": 48}
"""Offsets of an array's fields after the object header; NumPy's public headers fix them for all of NumPy 2."""
CONTIGUOUS_AND_ALIGNED = 0x101


@cache
def check_python() -> None:
    """Raise `NotNativeError` if this Python or NumPy lays out its objects differently than native code expects."""
    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
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


CALLED_PYTHON_FUNCTIONS = """PyBytes_AsString PyDict_Copy PyDict_SetItem PyFloat_AsDouble
PyFloat_FromDouble PyList_GetItem PyList_Size PyObject_CallNoArgs
PyObject_Vectorcall PyTuple_GetItem PyTuple_Pack PyTuple_Size PyUnicode_Compare Py_DecRef""".split()
"""Functions of CPython's C API that the native functions call."""


def _fill_call_template(real: np.dtype[Any]) -> str:
    """Return the native functions as LLVM text."""
    same = "bitcast double {} to double"
    narrow = real.itemsize == 4
    words = {
        "real": LLVM_REAL_NAMES[real],
        "bits": f"i{8 * real.itemsize}",
        "size": str(real.itemsize),
        "round": "fptrunc double %double to float" if narrow else same.format("%double"),
        "widen": "fpext float %narrow to double" if narrow else same.format("%narrow"),
        "descr": format_pointer(id(np.dtype(real.type))),
        "flags": str(CONTIGUOUS_AND_ALIGNED),
        "at.type": str(OBJECT_HEAD_BYTES - 8),
        **{f"at.{name}": str(OBJECT_HEAD_BYTES + offset) for name, offset in NDARRAY_OFFSETS.items()},
        **{f"field.{name}": str(getattr(CallFields, name).offset) for name, *_ in CallFields._fields_},
        **{
            f"field.{name}": str(CallFields.work.offset + getattr(WorkFields, name).offset)
            for name, *_ in WorkFields._fields_
        },
        **{f"type.{kind.__name__}": format_pointer(id(kind)) for kind in (float, list, tuple, np.ndarray)},
        **{name: format_pointer(find_python_function(name)) for name in CALLED_PYTHON_FUNCTIONS},
    }
    return re.sub(r"\$([A-Za-z_.]+)\$", lambda match: words[match[1]], CALL_TEMPLATE)


def find_python_function(name: str) -> int:
    """Return the address of a function of CPython's C API."""
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0


def format_pointer(address: int) -> str:
    """Return an address as an LLVM pointer constant."""
    return f"inttoptr (i64 {address} to ptr)"


REPLAY_PYTHON_FUNCTIONS = """PyBytes_AsString PyFloat_AsDouble PyFloat_FromDouble PyTuple_New PyTuple_SetItem Py_DecRef
Py_IncRef""".split()
"""Functions of CPython's C API that the native function calls."""

REPLAY_TEMPLATE = Template("""
define ptr @replay(ptr %self, ptr %args, i64 %nargs) {
start:
  %address = call ptr $PyBytes_AsString(ptr %self)
  %fields = load ptr, ptr %address, align 1
  $loads
  %count = add i64 %results, %slopes
  %fitting = icmp eq i64 %nargs, %inputs
  %single = icmp eq i64 %count, 1
  br i1 %fitting, label %room, label %other
room:
  br i1 %single, label %take, label %make
make:
  %tuple = call ptr $PyTuple_New(i64 %count)
  %none = icmp eq ptr %tuple, null
  br i1 %none, label %failed, label %take
take:
  %made = phi ptr [null, %room], [%tuple, %make]
  br label %next
next:
  %k = phi i64 [0, %take], [%following, %taken]
  %all = icmp eq i64 %k, %inputs
  br i1 %all, label %run, label %argument
argument:
  %object.at = getelementptr ptr, ptr %args, i64 %k
  %object = load ptr, ptr %object.at
  %type.at = getelementptr i8, ptr %object, i64 $type_offset
  %type = load ptr, ptr %type.at
  %exact = icmp eq ptr %type, $float_type
  br i1 %exact, label %taken, label %drop
taken:
  %number = call double $PyFloat_AsDouble(ptr %object)
  %slot = getelementptr double, ptr %buffer, i64 %k
  store double %number, ptr %slot
  %following = add i64 %k, 1
  br label %next
run:
  call void %enter(ptr %code, ptr %buffer)
  %outputs = getelementptr double, ptr %buffer, i64 %inputs
  %checked = getelementptr i64, ptr %outputs, i64 %results
  br label %compare
compare:
  %c = phi i64 [0, %run], [%c.next, %held]
  %sure = icmp eq i64 %c, %checks
  br i1 %sure, label %fill, label %check
check:
  %now.at = getelementptr i64, ptr %checked, i64 %c
  %was.at = getelementptr i64, ptr %expected, i64 %c
  %now = load i64, ptr %now.at
  %was = load i64, ptr %was.at
  %same = icmp eq i64 %now, %was
  br i1 %same, label %held, label %drop
held:
  %c.next = add i64 %c, 1
  br label %compare
fill:
  br i1 %single, label %one, label %item
one:
  %y = load double, ptr %outputs
  %alone = call ptr $PyFloat_FromDouble(double %y)
  ret ptr %alone
item:
  %r = phi i64 [0, %fill], [%r.next, %put]
  %filled = icmp eq i64 %r, %count
  br i1 %filled, label %done, label %read
read:
  %behind = icmp sge i64 %r, %results
  %skipped = select i1 %behind, i64 %checks, i64 0
  %place = add i64 %r, %skipped
  %value.at = getelementptr double, ptr %outputs, i64 %place
  %value = load double, ptr %value.at
  %float = call ptr $PyFloat_FromDouble(double %value)
  %lost = icmp eq ptr %float, null
  br i1 %lost, label %lose, label %put
put:
  %code.of.set = call i32 $PyTuple_SetItem(ptr %made, i64 %r, ptr %float)
  %r.next = add i64 %r, 1
  br label %item
done:
  ret ptr %made
lose:
  call void $Py_DecRef(ptr %made)
  br label %failed
failed:
  ret ptr null
drop:
  br i1 %single, label %other, label %free
free:
  call void $Py_DecRef(ptr %made)
  br label %other
other:
  call void $Py_IncRef(ptr $None)
  ret ptr $None
}""")


class ReplayFields(ctypes.Structure):
    """What the builtin knows of its recording, as native code reads it."""

    _fields_: ClassVar = [
        (name, ctypes.c_void_p if name in ("enter", "code", "buffer", "expected") else ctypes.c_int64)
        for name in ("enter", "code", "buffer", "expected", "inputs", "results", "checks", "slopes")
    ]


def make_replay_builtin(program: NativeProgram, results: int, expected: bytes, *, gradient: bool) -> Callable[..., Any]:
    """Return the builtin for a program in double: the first outputs are results, the others must equal `expected`."""
    check_python()
    working = copy_aligned(program.initial)
    bits = np.frombuffer(expected or bytes(8), np.int64)
    fields = ReplayFields(
        enter=jit.enter_address(),
        code=program.entry,
        buffer=working.ctypes.data,
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
    return PyMethodDef(
        b"replay", jit.compile_functions(_fill_replay_template(), "replay")[0], METH_FASTCALL, doc.encode()
    )


def _fill_replay_template() -> str:
    loads = [
        f"%{name}.at = getelementptr i8, ptr %fields, i64 {getattr(ReplayFields, name).offset}\n"
        f"  %{name} = load {'ptr' if kind is ctypes.c_void_p else 'i64'}, ptr %{name}.at"
        for name, kind, *_ in ReplayFields._fields_
    ]
    words = {name: format_pointer(find_python_function(name)) for name in REPLAY_PYTHON_FUNCTIONS}
    return REPLAY_TEMPLATE.substitute(
        words,
        loads="\n  ".join(loads),
        type_offset=OBJECT_HEAD_BYTES - 8,
        float_type=format_pointer(id(float)),
        **{"None": format_pointer(id(None))},
    )
