"""The writer of LLVM text: what it writes, and that the text does what its control flow says."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import pytest

from wiregrad.backends.native import jit
from wiregrad.backends.native.llvm_writer import (
    LlvmArray,
    LlvmValue,
    LlvmWriter,
    allocate_variable,
    format_real,
    leave_if,
    leave_unless,
    loop_over,
    when_all,
)


def compile_integer_function(write_body: Callable[[LlvmWriter, LlvmValue], LlvmValue]) -> Callable[[int], int]:
    """Return a function of one integer, whose body is written by `write_body`."""
    w = LlvmWriter()
    w.begin_function("i64 @f(i64 %n)")
    w.end_function(write_body(w, w.name_value("%n", "i64")))
    address = jit.compile_functions(w.format_module(), "f")[0]
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)


def test_operators_write_instructions_of_the_type_of_their_operands() -> None:
    w = LlvmWriter(4)
    x = w.name_value("%x", "double")
    n = w.name_value("%n", "i64", 1)

    _ = x * 2.0 + x
    _ = (n - 1) << 2

    assert w.lines == [
        "  %v1 = fmul <4 x double> %x, splat (double 0x4000000000000000)",
        "  %v2 = fadd <4 x double> %v1, %x",
        "  %v3 = sub i64 %n, 1",
        "  %v4 = shl i64 %v3, 2",
    ]


@pytest.mark.parametrize(("shares", "count"), [(True, 1), (False, 2)])
def test_a_writer_that_shares_writes_an_instruction_once(shares: bool, count: int) -> None:
    w = LlvmWriter(shares=shares)
    x = w.name_value("%x", "double")

    names = {(x + 1.0).text, (x + 1.0).text}

    assert len(names) == len(w.lines) == count


def test_loads_are_never_shared() -> None:
    w = LlvmWriter(shares=True)
    place = w.name_value("%p", "ptr")

    assert w.load("i64", place).text != w.load("i64", place).text


def test_a_function_does_not_share_values_of_the_one_before() -> None:
    w = LlvmWriter(shares=True)
    for name in ("f", "g"):
        w.begin_function(f"double @{name}(double %x)")
        w.end_function(w.name_value("%x", "double") + 1.0)

    assert sum("fadd" in line for line in w.lines) == 2


def test_a_select_between_equal_values_writes_nothing() -> None:
    w = LlvmWriter()
    condition = w.name_value("%c", "i1")

    assert w.select(condition, 2.0, 2.0).text == format_real(2.0)
    assert w.lines == []


def test_a_number_too_large_for_a_float_is_infinite() -> None:
    assert format_real(1e300, "float") == format_real(float("inf"))


def test_every_nan_is_the_same_literal() -> None:
    assert format_real(-float("nan")) == format_real(float("nan"))


@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize("n", [-1, 0, 1, 7])
def test_a_loop_visits_each_index_once_in_its_direction(n: int, down: bool) -> None:
    def write_digits(w: LlvmWriter, end: LlvmValue) -> LlvmValue:
        total = allocate_variable(w)
        total.store(0)
        with loop_over(0, end, down=down) as k:
            total.store(total.load() * 10 + k)
        return total.load()

    order = reversed(range(n)) if down else range(n)

    assert compile_integer_function(write_digits)(n) == int("".join(map(str, order)) or "0")


@pytest.mark.parametrize("n", [0, 4, 10, 14])
def test_a_block_runs_only_if_all_conditions_hold(n: int) -> None:
    def write_choice(w: LlvmWriter, number: LlvmValue) -> LlvmValue:
        result = allocate_variable(w)
        result.store(0)
        with when_all(number, number < 12, number & 2):
            result.store(1)
        return result.load()

    assert compile_integer_function(write_choice)(n) == int(0 < n < 12 and bool(n & 2))


@pytest.mark.parametrize(("n", "result"), [(-5, -1), (3, 3), (12, 10)])
def test_a_function_can_be_left_early(n: int, result: int) -> None:
    def write_limits(w: LlvmWriter, number: LlvmValue) -> LlvmValue:
        with leave_if(number < 0):
            w.emit_return(w.as_value(-1, "i64"))
        with leave_unless(number < 10):
            w.emit_return(w.as_value(10, "i64"))
        return number

    assert compile_integer_function(write_limits)(n) == result


@pytest.mark.parametrize(("element", "number"), [("i32", -7), ("i8", 200), ("i16", 65_535)])
def test_entries_of_narrow_arrays_are_read_as_they_were_stored(element: str, number: int) -> None:
    def write_copy(w: LlvmWriter, n: LlvmValue) -> LlvmValue:
        array = LlvmArray(w.emit_value("ptr", f"alloca [4 x {element}]"), element)
        array[3] = n
        array.copy_entry(0, array, 3)
        return array[0]

    assert compile_integer_function(write_copy)(number) == number
