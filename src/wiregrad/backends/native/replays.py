"""A builtin that replays a recording in native code: it takes floats and returns floats, or None if a branch flips.

It takes exact floats, one per input; for anything else it returns None too, as if a branch had flipped, and the caller
calls the function itself. Kept true: the result is allocated first, so between writing the inputs and reading the
results no garbage is collected and no Python code runs; with the GIL held, one buffer serves all threads.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from string import Template
from typing import Any, ClassVar

import numpy as np

from wiregrad.backends.native import calls, machine
from wiregrad.backends.native.calls import OBJECT_HEAD_BYTES, BuiltinFrame, PyMethodDef, check_python, create_builtin, format_pointer, find_python_function
from wiregrad.backends.native.program import NativeProgram, copy_aligned

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
        enter=machine.enter_address(),
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
    return PyMethodDef(b"replay", machine.compile_functions(_fill_replay_template(), "replay")[0], calls.METH_FASTCALL, doc.encode())


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
