"""The native loop that runs a stream of instructions, and the kernels that are the same for every circuit.

An instruction is a row of 64-bit words: the address of a kernel, the number of words, then what the kernel needs. A
kernel is `void kernel(char *workspace, const int64_t *instruction)`. The workspace begins with a table of addresses
(the workspace itself, the caller's arrays, the results, the constants), so an operand is two words: where its address
is in that table, and an offset in bytes. Instructions therefore never change, and any number of threads may run the
same stream, each on a workspace of its own.

Matrix products are done by the BLAS library that NumPy itself uses, called by address (`find_blas`), or, at sizes
where that is faster, in tiles (`compile_tiled_product`). Both take strides, so transposed and sliced matrices are not
copied.
"""

from __future__ import annotations

import ctypes
import math
import os
import sys
import threading
from collections.abc import Callable, Sequence
from functools import cache
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wiregrad.backends.native import jit
from wiregrad.backends.native.llvm_writer import (
    FOR_READING,
    FOR_READING_LATER,
    FOR_WRITING,
    LINE_BYTES,
    REAL_BITS,
    LlvmOperand,
    LlvmValue,
    LlvmVariable,
    LlvmWriter,
    allocate_variable,
    call_intrinsic,
    count_loop,
    format_intrinsic_suffix,
    format_pointer,
    leave_if,
    loop_over,
    transpose_blocks,
    when_all,
)
from wiregrad.ir import TABLE, Op

ROW_MAJOR = 101
NO_TRANSPOSE = 111
TRANSPOSE = 112
"""Constants of the CBLAS interface."""
BLAS_NAMES = {"d": "dgemm", "f": "sgemm"}
"""The matrix product of BLAS, by NumPy's character of the dtype."""
SCALAR_CALL_HEAD_WORDS = 6
"""Words of a scalar call before those of its arrays."""
FILL_BYTES = 64
"""The number of bytes that are written at once where a number is written to many elements."""
MAX_BATCH_AXES = 3
"""The number of loops around a matrix product."""


class FixedKernels(NamedTuple):
    """The addresses of the kernels that every stream may use."""

    run: int
    """`void run(char *workspace, const int64_t *first, const int64_t *end)` runs the instructions in a row."""
    enter: int
    """`void enter(PyObject *arrays, char *workspace, const int64_t *first, const int64_t *end)` writes the addresses of
    the arrays of a tuple into the workspace's table, behind its own, and runs the instructions."""
    fill: dict[int, int]
    """Writes one number to n elements, by the size of an element."""
    gather: dict[int, int]
    """Copies the elements that a table names; -1 in the table is a zero."""
    scatter: dict[str, int]
    """Adds elements where a table says, by dtype; -1 in the table is nowhere."""


class _InstructionReader:
    """Reads the words of an instruction, one after the other."""

    def __init__(self, w: LlvmWriter, first: int = 2) -> None:
        self.w = w
        self._next = first

    def take_word(self) -> LlvmValue:
        """Write the load of the next word."""
        w = self.w
        word = w.load("i64", w.point_to("i64", w.name_value("%i", "ptr", 1), self._next), 1)
        self._next += 1
        return word

    def take_address(self) -> LlvmValue:
        """Write the address of an operand: an entry of the workspace's table, and an offset."""
        w = self.w
        entry = w.point_to("i8", w.name_value("%w", "ptr", 1), self.take_word())
        return w.point_to("i8", w.load("ptr", entry, 1), self.take_word())


def _begin_kernel(w: LlvmWriter, name: str) -> _InstructionReader:
    w.begin_function(f"void @{name}(ptr %w, ptr %i)")
    return _InstructionReader(w)


def _write_run(w: LlvmWriter) -> None:
    w.begin_function("void @run(ptr %w, ptr %first, ptr %end)")
    begin, body, done = (w.new_name("l") for _ in range(3))
    w.begin_block(begin)
    following = f"%{w.new_name('next')}"
    place = w.emit_value("ptr", f"phi ptr [%first, %entry], [{following}, %{body}]", 1)
    more = w.emit_value("i1", f"icmp ult {place.typed}, %end", 1)
    w.branch_if(more, body, done)
    w.begin_block(body, falls=False)
    kernel = w.load("ptr", place, 1)
    w.emit_line(f"call void {kernel}(ptr %w, {place.typed})")
    count = w.load("i64", w.point_to("i64", place, 1), 1)
    w.emit_line(f"{following} = getelementptr i64, {place.typed}, {count.typed}")
    w.emit_line(f"br label %{begin}")
    w.begin_block(done, falls=False)
    w.end_function()


def _write_run_shared(w: LlvmWriter) -> None:
    """Write the loop that several threads run at the same time on one workspace.

    A round is some instructions that need not wait for each other. Each thread takes the next instruction that nobody
    has taken, and goes on to the next round when all of this one are done.
    """
    w.begin_function("void @run_shared(ptr %w, ptr %instructions, ptr %ends, i64 %rounds, ptr %taken, ptr %done)")
    ends, taken, done = (w.name_value(f"%{name}", "ptr", 1) for name in ("ends", "taken", "done"))
    with loop_over(0, w.name_value("%rounds", "i64", 1)) as k:
        first = w.load("i64", w.point_to("i64", ends, k), 1)
        count = w.load("i64", w.point_to("i64", ends, k + 1), 1) - first
        place = w.point_to("i64", done, k)
        take, body, wait, rest, after = (w.new_name("l") for _ in range(5))
        w.begin_block(take)
        number = w.emit_value("i64", f"atomicrmw add {w.point_to('i64', taken, k).typed}, i64 1 monotonic", 1)
        w.branch_if(number < count, body, wait)
        w.begin_block(body, falls=False)
        instruction = w.load("ptr", w.point_to("ptr", w.name_value("%instructions", "ptr", 1), first + number), 1)
        w.emit_line(f"call void {w.load('ptr', instruction, 1)}(ptr %w, {instruction.typed})")
        w.emit_line(f"{w.name_value('%' + w.new_name(), 'i64', 1)} = atomicrmw add {place.typed}, i64 1 release")
        w.emit_line(f"br label %{take}")
        w.begin_block(wait, falls=False)
        finished = w.emit_value("i64", f"load atomic i64, {place.typed} acquire, align 8", 1)
        w.branch_if(finished < count, rest, after)
        w.begin_block(rest, falls=False)
        if find_yield():
            w.emit_line(f"call i32 {format_pointer(find_yield())}()")
        w.emit_line(f"br label %{wait}")
        w.begin_block(after, falls=False)
    w.end_function()


@cache
def find_yield() -> int:
    """Return the address of the function that lets other threads run first; 0 if there is none."""
    function = getattr(ctypes.CDLL(None), "sched_yield", None) if sys.platform != "win32" else None
    return jit.name_address(int(ctypes.cast(function, ctypes.c_void_p).value or 0), "sched_yield") if function else 0


@cache
def load_run_shared_function() -> Callable[..., None]:
    """Return the function that threads run together; it releases the GIL."""
    w = LlvmWriter(1)
    _write_run_shared(w)
    address = jit.compile_functions(w.format_module(), "run_shared", level=0)[0]
    kinds = [ctypes.c_void_p] * 3 + [ctypes.c_int64] + [ctypes.c_void_p] * 2
    return ctypes.CFUNCTYPE(None, *kinds)(address)


TUPLE_LENGTH_OFFSET = 16
TUPLE_ITEMS_OFFSET = tuple.__basicsize__
ARRAY_DATA_OFFSET = 16
"""Where CPython keeps the length and items of a tuple, and NumPy the address of an array's data; tried before use."""


def _write_enter(w: LlvmWriter) -> None:
    w.begin_function("void @enter(ptr %arrays, ptr %w, ptr %first, ptr %end)")
    arrays = w.name_value("%arrays", "ptr", 1)
    table = w.point_to("ptr", w.name_value("%w", "ptr", 1), 1)
    items = w.point_to("i8", arrays, TUPLE_ITEMS_OFFSET)
    count = w.load("i64", w.point_to("i8", arrays, TUPLE_LENGTH_OFFSET), 1)
    with loop_over(0, count) as k:
        array = w.load("ptr", w.point_to("ptr", items, k), 1)
        w.store(w.load("ptr", w.point_to("i8", array, ARRAY_DATA_OFFSET), 1), w.point_to("ptr", table, k))
    w.emit_line("call void @run(ptr %w, ptr %first, ptr %end)")
    w.end_function()


def _write_fill(w: LlvmWriter, size: int) -> None:
    words = _begin_kernel(w, f"fill{size}")
    n = words.take_word()
    address = words.take_address()
    kind = f"i{8 * size}"
    number = words.take_word()
    element = number if size == 8 else number.convert("trunc", kind)
    lanes = FILL_BYTES // size
    vector = f"<{lanes} x {kind}>"
    first = w.emit_value(kind, f"insertelement {vector} poison, {element.typed}, i64 0", lanes)
    order = f"<{lanes} x i32> zeroinitializer"
    filled = w.emit_value(kind, f"shufflevector {first.typed}, {vector} poison, {order}", lanes)
    count = n >> (lanes.bit_length() - 1)
    with loop_over(0, count) as k:
        w.store(filled, w.point_to(vector, address, k), ", align 1")
    with loop_over(count << (lanes.bit_length() - 1), n) as k:
        w.store(element, w.point_to(kind, address, k), ", align 1")
    w.end_function()


def _write_gather(w: LlvmWriter, size: int) -> None:
    words = _begin_kernel(w, f"gather{size}")
    n = words.take_word()
    source, table, target = (words.take_address() for _ in range(3))
    kind = f"i{8 * size}"
    with loop_over(0, n) as k:
        place = w.load("i64", w.point_to("i64", table, k), 1)
        missing = place < 0
        # Element 0 is read in place of a missing one; a gather from nothing has n = 0 or reads no source at all.
        found = w.load(kind, w.point_to(kind, source, w.select(missing, 0, place, "i64")), 1)
        w.store(w.select(missing, w.as_value(0, kind, 1), found), w.point_to(kind, target, k))
    w.end_function()


def _write_scatter(w: LlvmWriter, char: str) -> None:
    words = _begin_kernel(w, f"scatter_{char}")
    n = words.take_word()
    source, table, target = (words.take_address() for _ in range(3))
    kind = {"d": "double", "f": "float"}[char]
    with loop_over(0, n) as k:
        place = w.load("i64", w.point_to("i64", table, k), 1)
        with when_all(place >= 0):
            total = w.point_to(kind, target, place)
            w.store(w.load(kind, total, 1) + w.load(kind, w.point_to(kind, source, k), 1), total)
    w.end_function()


@cache
def compile_fixed_kernels() -> FixedKernels:
    """Compile the kernels that every stream may use, once per process."""
    w = LlvmWriter(1)
    _write_run(w)
    _write_enter(w)
    for size in (1, 4, 8):
        _write_fill(w, size)
        _write_gather(w, size)
    for char in BLAS_NAMES:
        _write_scatter(w, char)
    names = ["run", "enter", "fill1", "fill4", "fill8", "gather1", "gather4", "gather8", "scatter_d", "scatter_f"]
    at = dict(zip(names, jit.compile_functions(w.format_module(), *names, level=0), strict=True))
    return FixedKernels(
        at["run"],
        at["enter"],
        {size: at[f"fill{size}"] for size in (1, 4, 8)},
        {size: at[f"gather{size}"] for size in (1, 4, 8)},
        {char: at[f"scatter_{char}"] for char in BLAS_NAMES},
    )


@cache
def load_run_function() -> Callable[[int, int, int], None]:
    """Return the function that runs instructions; it releases the GIL."""
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(compile_fixed_kernels().run)


@cache
def load_enter_function() -> Callable[[tuple[Any, ...], int, int, int], None] | None:
    """Return the function that binds a tuple of arrays and runs instructions; None if objects have another layout."""
    if sys.implementation.name != "cpython" or ctypes.sizeof(ctypes.c_void_p) != ctypes.sizeof(ctypes.c_int64):
        return None
    enter: Any = ctypes.CFUNCTYPE(None, ctypes.py_object, *[ctypes.c_void_p] * 3)(compile_fixed_kernels().enter)
    arrays = (np.zeros(3), np.zeros((), np.float32))
    if not _has_usual_items(arrays) or not all(_has_usual_layout(array) for array in arrays):
        return None
    table = np.zeros(3, np.int64)
    enter(arrays, table.ctypes.data, 0, 0)
    found: Callable[[tuple[Any, ...], int, int, int], None] = enter
    return found if table[1:].tolist() == [array.ctypes.data for array in arrays] else None


def _has_usual_items(items: tuple[Any, ...]) -> bool:
    """Return whether the length and the items of a tuple are where they are expected."""
    length = ctypes.c_int64.from_address(id(items) + TUPLE_LENGTH_OFFSET).value
    addresses = (ctypes.c_int64 * len(items)).from_address(id(items) + TUPLE_ITEMS_OFFSET)
    return length == len(items) and list(addresses) == list(map(id, items))


def _has_usual_layout(array: NDArray[Any]) -> bool:
    """Return whether the address of an array's data is where it is expected, without following a wrong one."""
    data = array.ctypes.data
    return bool(ctypes.c_int64.from_address(id(array) + ARRAY_DATA_OFFSET).value == data)


LOOP_HEAD_WORDS = 10
"""Words of a loop before those of its copies."""
COPY_WORDS = 5
"""Words of a copy: source and its stride, target and its stride, in bytes, and the number of bytes."""


@cache
def load_loop_function() -> Callable[[int], int]:
    """Return `int64_t loop(const int64_t *words)`, which runs a stream step after step and returns how many it ran.

    The words are the arguments of `run` (workspace, first, end), the number of the first step, the distance to the
    next, how many steps to run, the address of a number that ends the loop when it is 0 after a step (or 0), whether
    that number is a byte, how many copies are made before each step and how many after, and then the copies. A stride
    is multiplied by the number of the step.
    """
    w = LlvmWriter(1)
    _write_run(w)
    w.begin_function("i64 @loop(ptr %words)")
    words = w.name_value("%words", "ptr", 1)
    head = [w.load("i64", w.point_to("i64", words, k), 1) for k in range(LOOP_HEAD_WORDS)]
    *arguments, first, distance, steps, stop, is_byte, before, after = head
    workspace, start, end = (_as_pointer(w, word) for word in arguments)
    copies = w.point_to("i64", words, LOOP_HEAD_WORDS)
    with loop_over(0, steps) as k:
        number = first + distance * k
        with loop_over(0, before) as row:
            _write_copy(w, w.point_to("i64", copies, row * COPY_WORDS), number)
        w.emit_line(f"call void @run({workspace.typed}, {start.typed}, {end.typed})")
        with loop_over(before, before + after) as row:
            _write_copy(w, w.point_to("i64", copies, row * COPY_WORDS), number)
        with when_all(stop):
            _write_stop(w, stop, is_byte, k + 1)
    w.end_function(steps)
    address = jit.compile_functions(w.format_module(), "loop", level=0)[0]
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(address)


def _as_pointer(w: LlvmWriter, word: LlvmValue) -> LlvmValue:
    return w.emit_value("ptr", f"inttoptr {word.typed} to ptr", 1)


def _write_copy(w: LlvmWriter, row: LlvmValue, number: LlvmValue) -> None:
    """Write a copy of some bytes for the step with a number."""
    words = [w.load("i64", w.point_to("i64", row, k), 1) for k in range(COPY_WORDS)]
    source = _as_pointer(w, words[0] + words[1] * number)
    target = _as_pointer(w, words[2] + words[3] * number)
    size = words[4]
    whole = size >> 3
    with loop_over(0, whole) as k:
        w.store(w.load("i64", w.point_to("i64", source, k), 1, ", align 1"), w.point_to("i64", target, k), ", align 1")
    with loop_over(whole << 3, size) as k:
        w.store(w.load("i8", w.point_to("i8", source, k), 1), w.point_to("i8", target, k))


def _write_stop(w: LlvmWriter, stop: LlvmValue, is_byte: LlvmValue, count: LlvmValue) -> None:
    """Write a return if the number at an address is 0."""
    pointer = _as_pointer(w, stop)
    with when_all(is_byte), leave_if(w.load("i8", pointer, 1).is_equal_to(0)):
        w.emit_return(count)
    with when_all(is_byte.is_equal_to(0)), leave_if(w.load("double", pointer, 1).is_equal_to(0)):
        w.emit_return(count)


@cache
def find_blas(char: str) -> int:
    """Return the address of the matrix product with 64-bit sizes in the library that NumPy carries; 0 if not found."""
    function = _find_blas_function(f"scipy_cblas_{BLAS_NAMES[char]}64_")
    if function is None:
        return 0
    return jit.name_address(int(ctypes.cast(function, ctypes.c_void_p).value or 0), f"blas.{BLAS_NAMES[char]}")


def _find_blas_function(name: str) -> Any:
    folders = [Path(np.__file__).parent.parent / "numpy.libs", Path(np.__file__).parent / ".dylibs"]
    for library in sorted(path for folder in folders for path in folder.glob("*openblas64*")):
        try:
            return getattr(ctypes.CDLL(str(library)), name)
        except (OSError, AttributeError):
            continue
    return None


class SingleBlasThread:
    """A block in which BLAS uses one thread; blocks of several threads may overlap.

    The number belongs to the whole process, so NumPy's own products in other threads use one thread meanwhile.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._blocks = 0
        self._usual = 1

    def __enter__(self) -> None:
        read, write = load_blas_threads()
        with self._lock:
            if not self._blocks:
                self._usual = read()
                if self._usual != 1:
                    write(1)
            self._blocks += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._blocks -= 1
            if not self._blocks and self._usual != 1:
                load_blas_threads()[1](self._usual)


@cache
def single_blas_thread() -> SingleBlasThread:
    """Return the block of this process."""
    return SingleBlasThread()


if hasattr(os, "register_at_fork"):
    # A thread that is inside a block does not exist in a forked child, and would never leave it there.
    os.register_at_fork(after_in_child=single_blas_thread.cache_clear)


@cache
def load_blas_threads() -> tuple[Callable[[], int], Callable[[int], None]]:
    """Return the functions that read and write the number of threads of the library; without it they do nothing."""
    read, write = (_find_blas_function(f"scipy_openblas_{verb}_num_threads64_") for verb in ("get", "set"))
    if read is None or write is None:
        return lambda: 1, lambda threads: None
    return read, write


@cache
def compile_matrix_product(char: str) -> int:
    """Compile the kernel of matrix products for a dtype; 0 if there is no BLAS to call.

    Its words are the lengths of the batch axes, m, n, k, how both factors are laid out, the three leading dimensions,
    whether the product is added to the target, and for each of the three matrices its operand and its strides along the
    batch axes.
    """
    address = find_blas(char)
    if not address:
        return 0
    w = LlvmWriter(1)
    words = _begin_kernel(w, "product")
    real = {"d": "double", "f": "float"}[char]
    counts = [words.take_word() for _ in range(MAX_BATCH_AXES)]
    m, n, k = (words.take_word() for _ in range(3))
    layouts = [words.take_word().convert("trunc", "i32") for _ in range(2)]
    leading = [words.take_word() for _ in range(3)]
    beta = words.take_word().convert("sitofp", real)
    matrices = []
    for _ in range(3):
        at = words.take_address()
        matrices.append((at, [words.take_word() for _ in range(MAX_BATCH_AXES)]))
    with loop_over(0, counts[0]) as first, loop_over(0, counts[1]) as second, loop_over(0, counts[2]) as third:
        places = []
        for at, strides in matrices:
            offset = first * strides[0] + second * strides[1] + third * strides[2]
            places.append(w.point_to("i8", at, offset))
        order = w.as_value(ROW_MAJOR, "i32", 1)
        one = w.as_value(1.0, real, 1)
        a, b, c = zip(places, leading, strict=True)
        w.call_void(format_pointer(address), order, *layouts, m, n, k, one, *a, *b, beta, *c)
    w.end_function()
    return jit.compile_functions(w.format_module(), "product", level=0)[0]


@cache
def compile_search(char: str, side: str) -> int:
    """Compile the kernel that finds where numbers are to be inserted into a row, by NumPy's steps: so unsorted too.

    Its words are the length of the row, the number of numbers, the row, the numbers and the places.
    """
    w = LlvmWriter(1)
    real = {"d": "double", "f": "float"}[char]
    words = _begin_kernel(w, "search")
    low, high, last = (allocate_variable(w) for _ in range(3))
    length, count = (words.take_word() for _ in range(2))
    row, numbers, places = (words.take_address() for _ in range(3))

    def comes_before(one: LlvmValue, two: LlvmValue) -> LlvmValue:
        """Write whether a number is inserted behind one of the row; NaN comes last."""
        first, second = (one, two) if side == "left" else (two, one)
        is_less = first.compare("ult", second) & first.compare("ord", first)
        return is_less if side == "left" else is_less.convert("zext", "i64").is_equal_to(0)

    low.store(0)
    high.store(length)
    last.store(0)
    with loop_over(0, count) as k:
        wanted = w.load(real, w.point_to(real, numbers, k), 1)
        # The search goes on from where the last one ended.
        before = w.load(real, w.point_to(real, numbers, last.load()), 1)
        is_later = comes_before(before, wanted)
        above = high.load() + 1
        low.store(w.select(is_later, low.load(), 0))
        high.store(w.select(is_later, length, w.select(above < length, above, length)))
        last.store(k)
        begin, body, done = (w.new_name("l") for _ in range(3))
        w.begin_block(begin)
        w.branch_if(low.load() < high.load(), body, done)
        w.begin_block(body, falls=False)
        middle = low.load() + ((high.load() - low.load()) >> 1)
        is_behind = comes_before(w.load(real, w.point_to(real, row, middle), 1), wanted)
        new_low = w.select(is_behind, middle + 1, low.load())
        new_high = w.select(is_behind, high.load(), middle)
        low.store(new_low)
        high.store(new_high)
        w.emit_line(f"br label %{begin}")
        w.begin_block(done, falls=False)
        w.store(low.load(), w.point_to("i64", places, k))
    w.end_function()
    return jit.compile_functions(w.format_module(), "search", level=1)[0]


@cache
def compile_index_move(kind: str, *, adds: bool) -> int:
    """Compile the kernel that copies slices from computed places, or adds slices at them, for a type of LLVM.

    Its words are the number of groups, the places in each group with and without slices to choose from, the elements of
    a slice, the source, the places and the target.
    """
    w = LlvmWriter(1)
    words = _begin_kernel(w, "move")
    groups, length, count, width = (words.take_word() for _ in range(4))
    source, places, target = (words.take_address() for _ in range(3))
    with loop_over(0, groups) as group, loop_over(0, count) as k:
        chosen = (group * length + w.load("i64", w.point_to("i64", places, k), 1)) * width
        own = (group * count + k) * width
        first, second = (own, chosen) if adds else (chosen, own)
        with loop_over(0, width) as element:
            moved = w.load(kind, w.point_to(kind, source, first + element), 1)
            place = w.point_to(kind, target, second + element)
            w.store(w.load(kind, place, 1) + moved if adds else moved, place)
    w.end_function()
    return jit.compile_functions(w.format_module(), "move", level=1)[0]


MAX_LAPACK_ELEMENTS = 2048
"""Maximum number of elements of each matrix that LAPACK is given; NumPy's way to LAPACK takes little longer then."""


class LapackRoutine(NamedTuple):
    """How LAPACK computes an op: its routine in double precision, and what is written around its call."""

    name: str
    write: Callable[[LapackWriter, LapackMatrix, list[LapackMatrix], LapackMatrix], None]
    max_rows: int = math.isqrt(MAX_LAPACK_ELEMENTS)
    """Larger matrices are left to NumPy, whose method takes fewer steps for them."""


def runs_in_lapack(op: Op, shapes: Sequence[tuple[int, ...]]) -> bool:
    """Return whether there is a kernel that calls LAPACK for an op on operands of these shapes."""
    if op.name not in LAPACK_ROUTINES:
        return False
    first, *others = shapes
    is_square = len(first) in (2, 3) and first[-1] == first[-2]
    are_alike = all(len(other) == len(first) and other[:-1] == first[:-1] for other in others)
    fit = all(prod(shape[-2:]) <= MAX_LAPACK_ELEMENTS and 0 not in shape for shape in shapes)
    return is_square and are_alike and fit and first[-1] <= LAPACK_ROUTINES[op.name].max_rows


@cache
def find_lapack(name: str) -> int:
    """Return the address of the routine for an op in the library that NumPy carries; 0 if not found."""
    routine = LAPACK_ROUTINES[name].name
    function = _find_blas_function(f"scipy_{routine}_64_")
    if function is None:
        return 0
    return jit.name_address(int(ctypes.cast(function, ctypes.c_void_p).value or 0), f"lapack.{routine}")


def read_lapack_settings(op: Op) -> tuple[int, int]:
    """Return two words: whether a failure is an error, and which triangle is meant (0 for none, 1 lower, 2 upper)."""
    options = op.options
    is_upper = options["upper"] if "upper" in options else not options.get("lower", True)
    has_triangle = "upper" in options or "lower" in options
    return int(options.get("strict", True)), (2 if is_upper else 1) if has_triangle else 0


LAPACK_FAILURES = {1: "Singular matrix", 2: "Matrix is not positive definite"}
"""NumPy's messages for the numbers that a kernel leaves in the workspace."""


class LapackMatrix(NamedTuple):
    """A matrix of a row of matrices: where it is, and its strides in bytes."""

    start: LlvmValue
    along_stack: LlvmValue
    down: LlvmValue
    along: LlvmValue

    def at(self, number: LlvmValue) -> LapackMatrix:
        """Return the matrix with a number."""
        w = self.start.writer
        return self._replace(start=w.point_to("i8", self.start, number * self.along_stack))

    def find_element(self, row: LlvmOperand, column: LlvmOperand) -> LlvmValue:
        """Write the address of an element."""
        w = self.start.writer
        return w.point_to("i8", self.start, self.down * row + self.along * column)


class LapackWriter:
    """Writes the kernel that has LAPACK compute an op on a row of matrices, one after the other.

    LAPACK works in double precision and overwrites what it is given, in memory of the kernel, column by column, as
    NumPy has it do. Where it fails, the result is NaN, and if that is an error, its number is left where an entry of
    the table says. The words are this entry, the two settings, the number of matrices, their rows, the columns of the
    last operand, and for each operand and the result where it is, and its strides along the row of matrices, down and
    along.
    """

    def __init__(self, op_name: str, char: str) -> None:
        self.w = LlvmWriter(1)
        self.routine = LAPACK_ROUTINES[op_name]
        self.address = find_lapack(op_name)
        self.real = {"d": "double", "f": "float"}[char]
        words = _begin_kernel(self.w, "lapack")
        w = self.w
        memory = f"alloca [{MAX_LAPACK_ELEMENTS} x double], align {LINE_BYTES}"
        self.matrix, self.right = (w.emit_value("ptr", memory, 1) for _ in range(2))
        self.pivots = w.emit_value("ptr", f"alloca [{math.isqrt(MAX_LAPACK_ELEMENTS)} x i64]", 1)
        self.letter = w.emit_value("ptr", "alloca i8", 1)
        self.rows_place, self.columns_place, self.info, self.is_finite, self.sign = (
            allocate_variable(w) for _ in range(5)
        )
        self.total = w.emit_value("ptr", "alloca double", 1)
        self._status = w.load("ptr", w.point_to("i8", w.name_value("%w", "ptr", 1), words.take_word()), 1)
        self._is_strict, self.triangle = (words.take_word() for _ in range(2))
        self.count, self.rows, self.columns = (words.take_word() for _ in range(3))
        self._words = words

    def write(self, operands: int) -> str:
        """Return the module of the kernel for an op of so many operands."""
        w = self.w
        *sources, target = [
            LapackMatrix(self._words.take_address(), *(self._words.take_word() for _ in range(3)))
            for _ in range(operands + 1)
        ]
        self.rows_place.store(self.rows)
        self.columns_place.store(self.columns)
        with loop_over(0, self.count) as number:
            first, *others, result = (matrix.at(number) for matrix in (*sources, target))
            self.info.store(0)
            self.is_finite.store(1)
            self.routine.write(self, first, others, result)
        jit.write_register_cleanup(w)
        w.end_function()
        return w.format_module()

    def load_element(self, matrix: LapackMatrix, row: LlvmValue, column: LlvmValue) -> LlvmValue:
        """Write the load of an element, in double precision."""
        element = self.w.load(self.real, matrix.find_element(row, column), 1)
        return element if self.real == "double" else element.convert("fpext", "double")

    def store_element(self, element: LlvmValue, matrix: LapackMatrix, row: LlvmOperand, column: LlvmOperand) -> None:
        """Write the store of an element that is in double precision."""
        narrow = element if self.real == "double" else element.convert("fptrunc", "float")
        self.w.store(narrow, matrix.find_element(row, column))

    def find_place(self, memory: LlvmValue, row: LlvmValue, column: LlvmValue) -> LlvmValue:
        """Write the address of an element in the kernel's memory, where columns follow each other."""
        return self.w.point_to("double", memory, column * self.rows + row)

    def read_matrix(self, matrix: LapackMatrix, memory: LlvmValue, columns: LlvmValue) -> None:
        """Write the copy of a matrix into the kernel's memory, with 0 outside the triangle if only one is meant."""
        w = self.w
        exponent = 0x7FF << 52
        with loop_over(0, columns) as column, loop_over(0, self.rows) as row:
            element = self.load_element(matrix, row, column)
            self.is_finite.store(
                self.is_finite.load() & (element.as_bits() & exponent).compare("ne", exponent).convert("zext", "i64")
            )
            w.store(element, self.find_place(memory, row, column))

    def keep_triangle(self) -> None:
        """Write zeros outside the triangle of the first matrix in the kernel's memory."""
        w = self.w
        for setting, is_outside in ((1, "sgt"), (2, "slt")):
            with (
                when_all(self.triangle.is_equal_to(setting)),
                loop_over(0, self.rows) as column,
                loop_over(0, self.rows) as row,
                when_all(column.compare(is_outside, row)),
            ):
                w.store(w.as_value(0.0, "double", 1), self.find_place(self.matrix, row, column))

    def call_routine(self, *arguments: LlvmValue) -> None:
        """Write the call of LAPACK, unless a number is not finite and that is no error: then it fails."""
        w = self.w
        may_call = self.is_finite.load() | self._is_strict
        with when_all(may_call):
            w.call_void(format_pointer(self.address), *arguments, self.info.place)
        with when_all(may_call.is_equal_to(0)):
            self.info.store(1)

    def write_result(self, memory: LlvmValue, columns: LlvmValue, target: LapackMatrix, failure: int) -> None:
        """Write the copy of a matrix to the result, or NaN where LAPACK failed."""
        w = self.w
        has_failed = self.info.load().is_nonzero()
        nan = w.as_value(math.nan, "double", 1)
        with loop_over(0, columns) as column, loop_over(0, self.rows) as row:
            element = w.load("double", self.find_place(memory, row, column), 1)
            self.store_element(w.select(has_failed, nan, element), target, row, column)
        with when_all(has_failed, self._is_strict):
            w.store(w.as_value(failure, "i64", 1), self._status)


def _write_solve(w: LapackWriter, matrix: LapackMatrix, others: list[LapackMatrix], target: LapackMatrix) -> None:
    w.read_matrix(matrix, w.matrix, w.rows)
    w.keep_triangle()
    w.read_matrix(others[0], w.right, w.columns)
    _call_gesv(w, w.columns_place)
    w.write_result(w.right, w.columns, target, failure=1)


def _write_inverse(w: LapackWriter, matrix: LapackMatrix, others: list[LapackMatrix], target: LapackMatrix) -> None:
    w.read_matrix(matrix, w.matrix, w.rows)
    with loop_over(0, w.rows) as column, loop_over(0, w.rows) as row:
        one = row.is_equal_to(column).convert("uitofp", "double")
        w.w.store(one, w.find_place(w.right, row, column))
    _call_gesv(w, w.rows_place)
    w.write_result(w.right, w.rows, target, failure=1)


def _call_gesv(w: LapackWriter, columns: LlvmVariable) -> None:
    rows = w.rows_place.place
    w.call_routine(rows, columns.place, w.matrix, rows, w.pivots, w.right, rows)


def _write_cholesky(w: LapackWriter, matrix: LapackMatrix, others: list[LapackMatrix], target: LapackMatrix) -> None:
    llvm = w.w
    w.read_matrix(matrix, w.matrix, w.rows)
    letter = llvm.select(w.triangle.is_equal_to(2), ord("U"), ord("L"), "i8")
    llvm.store(letter, w.letter)
    w.call_routine(w.letter, w.rows_place.place, w.matrix, w.rows_place.place)
    w.keep_triangle()
    w.write_result(w.matrix, w.rows, target, failure=2)


def _write_factors(w: LapackWriter, matrix: LapackMatrix) -> LlvmValue:
    """Write sign and logarithm of the determinant from LU factors, as NumPy adds them up; return the sign."""
    llvm = w.w
    zero, one = (llvm.as_value(number, "double", 1) for number in (0.0, 1.0))
    w.read_matrix(matrix, w.matrix, w.rows)
    rows = w.rows_place.place
    w.call_routine(rows, rows, w.matrix, rows, w.pivots)
    w.sign.store(0)
    llvm.store(zero, w.total)
    llvm.declare("double", "@log", "double")
    with loop_over(0, w.rows) as k:
        swapped = llvm.load("i64", llvm.point_to("i64", w.pivots, k), 1).compare("ne", k + 1).convert("zext", "i64")
        element = llvm.load("double", w.find_place(w.matrix, k, k), 1)
        is_negative = element < zero
        w.sign.store(w.sign.load() ^ swapped ^ is_negative.convert("zext", "i64"))
        size = llvm.select(is_negative, -element, element)
        total = llvm.load("double", w.total, 1) + llvm.call("double", "@log", size)
        llvm.store(total, w.total)
    is_singular = w.info.load().is_nonzero()
    sign = llvm.select(w.sign.load().is_nonzero(), -one, one)
    llvm.store(
        llvm.select(is_singular, llvm.as_value(-math.inf, "double", 1), llvm.load("double", w.total, 1)), w.total
    )
    return llvm.select(is_singular, zero, sign)


def _write_slogdet(w: LapackWriter, matrix: LapackMatrix, others: list[LapackMatrix], target: LapackMatrix) -> None:
    sign = _write_factors(w, matrix)
    w.store_element(sign, target, 0, 0)
    w.store_element(w.w.load("double", w.total, 1), target, 1, 0)


def _write_det(w: LapackWriter, matrix: LapackMatrix, others: list[LapackMatrix], target: LapackMatrix) -> None:
    sign = _write_factors(w, matrix)
    w.w.declare("double", "@exp", "double")
    size = w.w.call("double", "@exp", w.w.load("double", w.total, 1))
    w.store_element(sign * size, target, 0, 0)


def _write_adjugate(w: LapackWriter, matrix: LapackMatrix, others: list[LapackMatrix], target: LapackMatrix) -> None:
    """Write all cofactors, each from the LU factors of its minor; no cofactor needs the matrix to be invertible."""
    llvm = w.w
    one, nan = (llvm.as_value(number, "double", 1) for number in (1.0, math.nan))
    w.read_matrix(matrix, w.matrix, w.rows)
    size = w.rows - 1
    w.columns_place.store(size)
    count = w.columns_place.place
    with loop_over(0, w.rows) as i, loop_over(0, w.rows) as j:
        with loop_over(0, size) as column, loop_over(0, size) as row:
            rows_left, columns_left = (k + (k >= left).convert("zext", "i64") for k, left in ((row, i), (column, j)))
            element = llvm.load("double", w.find_place(w.matrix, rows_left, columns_left), 1)
            llvm.store(element, llvm.point_to("double", w.right, column * size + row))
        with when_all(size):
            w.call_routine(count, count, w.right, count, w.pivots)
        llvm.store(one, w.total)
        w.sign.store((i + j) & 1)
        with loop_over(0, size) as k:
            swapped = llvm.load("i64", llvm.point_to("i64", w.pivots, k), 1).compare("ne", k + 1).convert("zext", "i64")
            w.sign.store(w.sign.load() ^ swapped)
            pivot = llvm.load("double", llvm.point_to("double", w.right, k * size + k), 1)
            llvm.store(llvm.load("double", w.total, 1) * pivot, w.total)
        total = llvm.load("double", w.total, 1)
        cofactor = llvm.select(w.sign.load().is_nonzero(), -total, total)
        w.store_element(llvm.select(w.is_finite.load().is_nonzero(), cofactor, nan), target, j, i)


LAPACK_ROUTINES = {
    "solve": LapackRoutine("dgesv", _write_solve),
    "solve_triangular": LapackRoutine("dgesv", _write_solve),
    "inv": LapackRoutine("dgesv", _write_inverse),
    "cholesky": LapackRoutine("dpotrf", _write_cholesky),
    "slogdet": LapackRoutine("dgetrf", _write_slogdet),
    "det": LapackRoutine("dgetrf", _write_det),
    "adjugate": LapackRoutine("dgetrf", _write_adjugate, max_rows=8),
}
"""The routines by the names of the ops that they compute."""


@cache
def compile_lapack(op_name: str, char: str) -> int:
    """Compile the kernel that has LAPACK compute an op for a dtype."""
    text = LapackWriter(op_name, char).write(len(TABLE[op_name].inputs))
    return jit.compile_functions(text, "lapack", level=1)[0]


TILE_ROWS = 8
"""Rows of a product that a tile computes; with its columns they fill half of the registers with sums."""
TILE_VECTORS = 2
"""Vectors of columns of a tile."""
PANEL_ROWS = 256
"""How many rows of the second factor are multiplied before their products are added to the target."""
PREFETCHED_ROWS = 8
"""How many rows ahead the second factor is fetched while a panel is filled."""
TILE_BYTES = TILE_VECTORS * LINE_BYTES
"""The size of a row of a tile."""
PANEL_BYTES = PANEL_ROWS * TILE_BYTES
"""The size of a panel: some columns of some rows of the second factor, one row behind the other."""


class _TileMatrix(NamedTuple):
    """A matrix: where it begins, and its strides along rows and columns in bytes."""

    at: LlvmValue
    down: LlvmValue
    along: LlvmValue

    def locate(self, row: LlvmOperand, column: LlvmOperand) -> LlvmValue:
        """Write the address of an element."""
        w = self.at.writer
        return w.point_to("i8", self.at, self.down * row + self.along * column)

    def begin_at(self, row: LlvmOperand, column: LlvmOperand) -> _TileMatrix:
        """Write the matrix that begins at an element."""
        return self._replace(at=self.locate(row, column))


class _Tile(NamedTuple):
    """What the tiles of a panel have in common."""

    panel: LlvmValue
    depth: LlvmValue
    """How many products are added up."""
    columns: LlvmValue
    """How many columns of the product are left."""
    adds: LlvmValue
    """1 if the sums are added to the target, else 0."""


class _TileWriter:
    """Writes the kernel of matrix products in tiles, for reals of one type.

    A tile is some rows and columns of the product, whose sums stay in registers. The columns of the second factor that
    its tiles read are copied to a panel, one behind the other: by the first tile, which needs them anyway, or, if they
    are not contiguous, by transposing squares of a vector's width. Sums are those of `PANEL_ROWS` products each, from
    the first to the last, for every element of the product, so how it is cut into pieces changes no bit.

    Where a tile has more rows than are left, it computes the last one several times. Columns that are too many are
    masked.
    """

    def __init__(self, real: str) -> None:
        self.real = real
        self.lanes = 8 * LINE_BYTES // REAL_BITS[real]
        self.width = TILE_VECTORS * self.lanes
        self.w = LlvmWriter(self.lanes)

    def write(self) -> str:
        """Return the text of the kernel."""
        self._write_tile("first_tile", fills_panel=True)
        self._write_tile("tile", fills_panel=False)
        self._write_transpose()
        self._write_kernel()
        return self.w.format_module()

    def _write_tile(self, name: str, *, fills_panel: bool) -> None:
        """Write the function of one tile; where it fills the panel, it reads rows of the second factor itself."""
        w = self.w
        numbers = ("a_down", "a_along", "b_down", "c_down", "rows", *_Tile._fields[1:])
        heads = ["ptr %a", "ptr %b", "ptr %c", "ptr %panel", *(f"i64 %{each}" for each in numbers)]
        w.begin_function(f"internal void @{name}({', '.join(heads)})", spills_vectors=True)
        a, b, c, panel = (w.name_value(f"%{each}", "ptr", 1) for each in ("a", "b", "c", "panel"))
        a_down, a_along, b_down, c_down, rows, depth, columns, adds = (
            w.name_value(f"%{each}", "i64", 1) for each in numbers
        )
        last = rows - 1
        numbered = [w.select(last < row, last, w.as_value(row, "i64", 1)) for row in range(TILE_ROWS)]
        factors = [w.point_to("i8", a, a_down * row) for row in numbered]
        targets = [w.point_to("i8", c, c_down * row) for row in numbered]
        for target in targets:
            self._prefetch_row(target, FOR_WRITING)
        masks = [self._mask_lanes(columns - k * self.lanes) for k in range(TILE_VECTORS)]
        sums = [w.as_value(0.0, self.real)] * (TILE_ROWS * TILE_VECTORS)
        zero, one = (w.as_value(number, "i64", 1) for number in (0, 1))
        with count_loop(zero, depth, one, sums) as k:
            filed = self._split_row(w.point_to("i8", panel, k * TILE_BYTES))
            if fills_panel:
                vectors = self._copy_row(w.point_to("i8", b, b_down * k), filed, masks)
                self._prefetch_row(w.point_to("i8", b, b_down * (k + PREFETCHED_ROWS)), FOR_READING)
            else:
                vectors = [w.load(self.real, place, how=f", align {LINE_BYTES}") for place in filed]
            offset = a_along * k
            elements = [w.load(self.real, w.point_to("i8", row, offset), 1, ", align 1") for row in factors]
            pairs = product((w.join_lanes([number], self.lanes) for number in elements), vectors)
            sums[:] = [call_intrinsic("fma", *pair, total) for pair, total in zip(pairs, sums, strict=True)]
        places = [place for target in targets for place in self._split_row(target)]
        held = masks * TILE_ROWS
        with count_loop(zero, adds, one, sums):
            # Every row is read before one is written: there may be rows that occur several times.
            terms = zip(sums, places, held, strict=True)
            sums[:] = [total + self._load_under_mask(place, mask) for total, place, mask in terms]
        self._store_tile(sums, places, held, columns >= self.width)
        w.end_function()

    def _split_row(self, address: LlvmValue) -> list[LlvmValue]:
        """Write the addresses of the vectors of a row of a tile."""
        return [self.w.point_to("i8", address, k * LINE_BYTES) for k in range(TILE_VECTORS)]

    def _copy_row(self, source: LlvmValue, filed: list[LlvmValue], masks: list[LlvmValue]) -> list[LlvmValue]:
        """Write the copy of a row to the panel, and return its vectors."""
        vectors = list(map(self._load_under_mask, self._split_row(source), masks))
        for vector, place in zip(vectors, filed, strict=True):
            self.w.store(vector, place, f", align {LINE_BYTES}")
        return vectors

    def _store_tile(
        self, sums: list[LlvmValue], places: list[LlvmValue], masks: list[LlvmValue], is_whole: LlvmValue
    ) -> None:
        """Write the stores of a tile; masks are for tiles with columns that are too many, since they take time."""
        with when_all(is_whole):
            for total, place in zip(sums, places, strict=True):
                self.w.store(total, place, ", align 1")
        with when_all(is_whole.is_equal_to(0)):
            for total, place, mask in zip(sums, places, masks, strict=True):
                self._store_under_mask(total, place, mask)

    def _prefetch_row(self, address: LlvmValue, purpose: str) -> None:
        """Write that the lines of a row of a tile, which may begin within a line, will be needed."""
        w = self.w
        for offset in (*range(0, TILE_BYTES, LINE_BYTES), TILE_BYTES - 1):
            w.prefetch(w.point_to("i8", address, offset), purpose)

    def _mask_lanes(self, count: LlvmValue) -> LlvmValue:
        """Write the mask of the first lanes."""
        w = self.w
        lanes = w.name_value(f"<{', '.join(f'i64 {lane}' for lane in range(self.lanes))}>", "i64")
        return lanes < w.join_lanes([count], self.lanes)

    def _load_under_mask(self, address: LlvmValue, mask: LlvmValue) -> LlvmValue:
        """Write the load of a vector, whose lanes outside the mask are 0."""
        w = self.w
        zero = w.as_value(0.0, self.real)
        callee = f"@llvm.masked.load.{format_intrinsic_suffix(self.real, self.lanes)}.p0"
        w.declare(zero.llvm_type, callee, "ptr", "i32", mask.llvm_type, zero.llvm_type)
        return w.call(self.real, callee, address, w.as_value(1, "i32", 1), mask, zero)

    def _store_under_mask(self, value: LlvmValue, address: LlvmValue, mask: LlvmValue) -> None:
        w = self.w
        callee = f"@llvm.masked.store.{format_intrinsic_suffix(self.real, self.lanes)}.p0"
        w.declare("void", callee, value.llvm_type, "ptr", "i32", mask.llvm_type)
        w.call_void(callee, value, address, w.as_value(1, "i32", 1), mask)

    def _write_transpose(self) -> None:
        """Write the function that fills a panel from columns that are contiguous."""
        w = self.w
        w.begin_function("internal void @transpose(ptr %b, ptr %panel, i64 %b_along, i64 %depth, i64 %columns)")
        b, panel = (w.name_value(f"%{each}", "ptr", 1) for each in ("b", "panel"))
        b_along, depth, columns = (w.name_value(f"%{each}", "i64", 1) for each in ("b_along", "depth", "columns"))
        item = REAL_BITS[self.real] // 8
        zero, step = (w.as_value(number, "i64", 1) for number in (0, self.lanes))
        last = columns - 1
        for number in range(TILE_VECTORS):
            numbered = [w.as_value(number * self.lanes + lane, "i64", 1) for lane in range(self.lanes)]
            sources = [w.point_to("i8", b, b_along * w.select(last < each, last, each)) for each in numbered]
            with count_loop(zero, depth, step, []) as k:
                mask = self._mask_lanes(depth - k)
                square = [self._load_under_mask(w.point_to("i8", each, k * item), mask) for each in sources]
                target = w.point_to("i8", panel, k * TILE_BYTES + number * LINE_BYTES)
                for row, vector in enumerate(transpose_blocks(square)):
                    w.store(vector, w.point_to("i8", target, row * TILE_BYTES), f", align {LINE_BYTES}")
        w.end_function()

    def _write_kernel(self) -> None:
        """Write the kernel: loops over the batch axes, parts of the sums, panels and tiles."""
        w = self.w
        words = _begin_kernel(w, "product")
        counts = [words.take_word() for _ in range(MAX_BATCH_AXES)]
        m, n, k, depth = (words.take_word() for _ in range(4))
        adds = words.take_word()
        panel = words.take_address()
        matrices = []
        for _ in range(3):
            matrix = _TileMatrix(words.take_address(), words.take_word(), words.take_word())
            matrices.append((matrix, [words.take_word() for _ in range(MAX_BATCH_AXES)]))
        zero, width = (w.as_value(number, "i64", 1) for number in (0, self.width))
        with loop_over(0, counts[0]) as first, loop_over(0, counts[1]) as second, loop_over(0, counts[2]) as third:
            a, b, c = (
                matrix._replace(at=w.point_to("i8", matrix.at, first * one + second * two + third * three))
                for matrix, (one, two, three) in matrices
            )
            with count_loop(zero, k, depth, []) as start, count_loop(zero, n, width, []) as column:
                rest = k - start
                rows = w.select(rest < depth, rest, depth)
                tile = _Tile(panel, rows, n - column, (adds + start).is_nonzero().convert("zext", "i64"))
                self._write_panel(tile, m, a.begin_at(0, start), b.begin_at(start, column), c.begin_at(0, column))
        w.end_function()

    def _write_panel(self, tile: _Tile, m: LlvmValue, a: _TileMatrix, b: _TileMatrix, c: _TileMatrix) -> None:
        """Write how a panel is filled, and its tiles; meanwhile they fetch the rows of the next panel."""
        w = self.w
        is_contiguous = b.along.is_equal_to(REAL_BITS[self.real] // 8)
        with when_all(is_contiguous):
            self._call_tile("first_tile", tile, m, a, b, c)
        with when_all(is_contiguous.is_equal_to(0)):
            w.call_void("@transpose", b.at, tile.panel, b.along, tile.depth, tile.columns)
        following = b.begin_at(0, self.width)
        zero, height = (w.as_value(number, "i64", 1) for number in (0, TILE_ROWS))
        share = (tile.depth * TILE_ROWS).combine("udiv", m) + 1
        with count_loop(w.select(is_contiguous, height, zero), m, height, []) as row:
            with when_all(is_contiguous), loop_over(0, share) as k:
                fetched = (tile.depth * row).combine("udiv", m) + k
                self._prefetch_row(following.locate(fetched, 0), FOR_READING_LATER)
            self._call_tile("tile", tile, m - row, a.begin_at(row, 0), b, c.begin_at(row, 0))

    def _call_tile(
        self, name: str, tile: _Tile, rows: LlvmValue, a: _TileMatrix, b: _TileMatrix, c: _TileMatrix
    ) -> None:
        strides = (a.down, a.along, b.down, c.down)
        self.w.call_void(f"@{name}", a.at, b.at, c.at, tile.panel, *strides, rows, *tile[1:])


@cache
def compile_tiled_product(char: str) -> int:
    """Compile the kernel of matrix products in tiles for a dtype.

    Its words are the lengths of the batch axes, m, n, k, how many products are added up at a time (`PANEL_ROWS` at
    most), whether the product is added to the target, the operand of a panel of `PANEL_BYTES`, and for each of the
    three matrices its operand, its strides along rows and columns, and those along the batch axes, in bytes. The
    columns of the target are contiguous, and the rows or the columns of the second factor.
    """
    text = _TileWriter({"d": "double", "f": "float"}[char]).write()
    return jit.compile_functions(text, "product", level=0)[0]


@cache
def compile_scalar_call() -> int:
    """Compile the kernel that runs the code of a scalar circuit on a buffer in the workspace.

    Its words are the offset of the buffer, the address of the code, how many arrays are copied into the buffer before
    and out of it after, and for each of these arrays where its address stands, its offset in the buffer, the number of
    its elements, and whether they are conditions, which the buffer holds as 0.0 and 1.0.
    """
    w = LlvmWriter(1)
    words = _begin_kernel(w, "scalar_call")
    buffer = w.point_to("i8", w.name_value("%w", "ptr", 1), words.take_word())
    code = words.take_word()
    before = words.take_word()
    after = words.take_word()
    rows = w.point_to("i64", w.name_value("%i", "ptr", 1), SCALAR_CALL_HEAD_WORDS)

    def read_row(k: LlvmValue) -> tuple[LlvmValue, LlvmValue, LlvmValue, LlvmValue]:
        row = w.point_to("i64", rows, k * 4)
        entry, offset, count, condition = (w.load("i64", w.point_to("i64", row, place), 1) for place in range(4))
        array = w.load("ptr", w.point_to("i8", w.name_value("%w", "ptr", 1), entry), 1)
        return array, w.point_to("i8", buffer, offset), count, condition

    with loop_over(0, before) as k:
        array, slots, count, _ = read_row(k)
        with loop_over(0, count) as place:
            w.store(w.load("double", w.point_to("double", array, place), 1), w.point_to("double", slots, place))
    target = w.emit_value("ptr", f"inttoptr {code.typed} to ptr", 1)
    w.call_void(format_pointer(jit.enter_address()), target, buffer)
    with loop_over(0, after) as k:
        array, slots, count, condition = read_row(k + before)
        with loop_over(0, count) as place:
            number = w.load("double", w.point_to("double", slots, place), 1)
            with when_all(condition.is_equal_to(0)):
                w.store(number, w.point_to("double", array, place))
            with when_all(condition):
                w.store(number.is_nonzero().convert("zext", "i8"), w.point_to("i8", array, place))
    w.end_function()
    return jit.compile_functions(w.format_module(), "scalar_call", level=0)[0]
