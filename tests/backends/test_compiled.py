"""Compiled circuits as people call them: answers, arguments, errors, and the builtins that serve the common cases."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from types import BuiltinFunctionType
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.backends.native import builtin_calls, jit
from wiregrad.backends.native.tiers import build_program
from wiregrad.dtypes import BOOL
from wiregrad.errors import (
    DomainError,
    InputError,
    NoRuleError,
    NotNativeError,
    OperandError,
    OutputError,
)

from ..support.cases import several_outputs
from ..support.limits import PATIENCE, wait_for_thread
from ..support.random_circuits import random_circuit, random_point
from ..support.sampling import choose_count
from ..support.threads import run_in_threads

FORMULA = "e = a + b; f = tanh(e * c) + a * exp(-b * b)"
POINT = {"a": 2.0, "b": -0.5, "c": 0.75}
VECTOR = [*POINT.values()]


@pytest.fixture(params=["native", "interpreter"])
def tier(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a test with native code and again without."""
    if request.param == "interpreter":
        monkeypatch.setenv("WIREGRAD_NATIVE", "0")
    return str(request.param)


def two_outputs() -> Any:
    builder = wg.Builder()
    x, y = builder.input("x"), builder.input("y")
    return builder.build(builder.multiply(x, y, name="p"), builder.add(x, y, name="s"))


def arrays() -> Any:
    return wg.trace(lambda w, x: np.sum(np.tanh(x @ w)), np.ones(2), np.ones((3, 2)))


def test_every_way_to_give_the_inputs_gives_the_answers_of_a_run(tier: str) -> None:
    circuit = wg.circuit(FORMULA)
    compiled, run = circuit.compile(), circuit.run(**POINT)
    ways: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((), POINT),
        ((), dict(reversed(POINT.items()))),
        ((POINT,), {}),
        ((VECTOR,), {}),
        ((tuple(VECTOR),), {}),
        ((np.array(VECTOR),), {}),
        ((np.array(VECTOR, np.float32),), {}),
        ((np.repeat(VECTOR, 2)[::2],), {}),
        ((np.array(VECTOR[::-1])[::-1],), {}),
        (([Fraction(2), np.float64(-0.5), np.array(0.75)],), {}),
        (([2, np.float32(-0.5), 0.75],), {}),
        (({"a": 2},), {"b": -0.5, "c": 0.75}),
    ]
    wanted = [run.output, *run.grads.values()]

    for vector, inputs in ways:
        value, grads = compiled.value_and_grad(*vector, **inputs)
        named = isinstance(grads, dict)
        got = [value, *(grads.values() if named else grads)]

        assert named == (bool(inputs) or isinstance(vector[0], dict))
        assert not named or list(grads) == ["a", "b", "c"]
        assert {type(value), *(map(type, grads.values()) if named else [])} == {float}
        np.testing.assert_allclose(got, wanted, rtol=1e-14)
        np.testing.assert_allclose(compiled(*vector, **inputs), run.output, rtol=1e-14)
    assert compiled.info.tier == ("interpreter" if tier == "interpreter" else "stencils")


@pytest.mark.parametrize(
    ("vector", "inputs"),
    [
        ((), {}),
        ((), {"a": 1.0, "b": 2.0}),
        ((), {"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0}),
        ((), {"a": 1.0, "b": 2.0, "cc": 3.0}),
        ((), {"a": 1.0, "b": True, "c": 3.0}),
        ((), {"a": 1.0, "b": None, "c": 3.0}),
        ((), {"a": 1.0, "b": 2j, "c": 3.0}),
        ((), {"a": 1.0, "b": "2", "c": 3.0}),
        ((), {"a": 1.0, "b": [2.0], "c": 3.0}),
        ((), {"a": 1.0, "b": 10**400, "c": 3.0}),
        (([1.0, 2.0],), {}),
        (([1.0, 2.0, 3.0, 4.0],), {}),
        (([1.0, 2.0, [3.0]],), {}),
        (([1.0, 2.0, False],), {}),
        ((np.ones((3, 1)),), {}),
        ((np.ones(4),), {}),
        ((np.ones(3, bool),), {}),
        ((np.ones(3, complex),), {}),
        ((np.array(["a", "b", "c"]),), {}),
        ((1.0, 2.0, 3.0), {}),
        ((1.0,), {}),
        ((None,), {}),
        (("abc",), {}),
        (([1.0, 2.0, 3.0],), {"a": 1.0}),
        (([1.0, 2.0, 3.0],), {"d": 1.0}),
    ],
)
def test_a_wrong_call_raises_what_a_run_raises(tier: str, vector: tuple[Any, ...], inputs: dict[str, Any]) -> None:
    circuit = wg.circuit(FORMULA)
    compiled = circuit.compile()
    with pytest.raises(InputError) as wanted:
        circuit.run(*vector, **inputs)

    for function in (compiled, compiled.value_and_grad, compiled.jacobian, compiled.hessian):
        with pytest.raises(InputError) as got:
            function(*vector, **inputs)
        assert str(got.value) == str(wanted.value)


def test_an_unknown_name_is_told_with_the_nearest_one(tier: str) -> None:
    compiled = wg.circuit("width * height").compile()

    with pytest.raises(InputError, match="did you mean height"):
        compiled.value_and_grad(width=1.0, heigth=2.0)


def test_random_circuits_give_the_answers_of_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(15):
        rng = np.random.default_rng(seed)
        circuit = random_circuit(rng, nodes=8)
        point = random_point(rng, circuit)
        monkeypatch.delenv("WIREGRAD_NATIVE", raising=False)
        native = circuit.compile()
        monkeypatch.setenv("WIREGRAD_NATIVE", "0")
        value, grads = native.value_and_grad(**point)
        wanted, slopes = circuit.compile().value_and_grad(**point)

        # Rounding differs from library to library, and cancellation makes much of it: signs and kinds must agree.
        for got, right in zip([value, *grads.values()], [wanted, *slopes.values()], strict=True):
            assert np.isnan(got) == np.isnan(right), circuit.to_text()
            np.testing.assert_allclose(got, right, rtol=1e-6, atol=1e-6, err_msg=circuit.to_text())


def test_several_outputs_come_by_name_and_their_gradients_as_rows(tier: str) -> None:
    compiled = two_outputs().compile()

    assert compiled(x=2.0, y=3.0) == compiled([2.0, 3.0]) == compiled([2, 3]) == {"p": 6.0, "s": 5.0}
    assert compiled.jacobian([2.0, 3.0]).tolist() == [[3.0, 2.0], [1.0, 1.0]]
    assert compiled.jacobian(x=2.0, y=3.0) == {"p": {"x": 3.0, "y": 2.0}, "s": {"x": 1.0, "y": 1.0}}
    assert compiled.batch([[2.0, 3.0], [4.0, 5.0]]).tolist() == [[6.0, 5.0], [20.0, 9.0]]
    for ask in (lambda: compiled.value_and_grad, lambda: compiled.hessian([1.0, 2.0])):
        with pytest.raises(OutputError, match="p, s"):
            ask()
    with pytest.raises(OutputError, match="p, s"):
        compiled.batch_value_and_grad([[2.0, 3.0]])


@pytest.mark.parametrize("assume", [None, "finite"])
@pytest.mark.parametrize("part", range(4))
def test_a_jacobian_has_the_gradients_of_the_interpreter_as_rows(part: int, assume: str | None) -> None:
    for seed in range(part, choose_count(24, 2_000), 4):
        circuit = several_outputs(seed)
        compiled = circuit.compile(assume=assume)
        point = list(random_point(np.random.default_rng([seed, 2]), circuit).values())
        with np.errstate(all="ignore"):
            rows = [circuit.with_output(label).run(point) for label in circuit.outputs]
            wanted = np.array([[*row.grads.values()] for row in rows])
            finite = all(np.isfinite(value) for row in rows for value in row.values)
        if assume is None or (finite and np.isfinite(wanted).all()):
            np.testing.assert_allclose(
                compiled.jacobian(point), wanted, rtol=1e-6, atol=1e-6, err_msg=circuit.to_text()
            )


def test_derivatives_of_several_outputs_are_computed_together() -> None:
    compiled = two_outputs().compile()
    before = len(compiled._builder.engines)
    table = compiled.jacobian([2.0, 3.0])

    assert table.tolist() == [[3.0, 2.0], [1.0, 1.0]]
    assert len(compiled._builder.engines) == before + 1
    assert compiled.jacobian([2, 3]).tolist() == compiled.jacobian((2.0, 3.0)).tolist() == table.tolist()
    with pytest.raises(InputError, match="x, y"):
        compiled.jacobian([2.0])


def test_large_circuits_have_a_program_for_each_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wiregrad.backends.compiled.MAX_TABLE_NODES", 1)
    compiled = two_outputs().compile()
    before = len(compiled._builder.engines)

    assert compiled.jacobian([2.0, 3.0]).tolist() == [[3.0, 2.0], [1.0, 1.0]]
    assert len(compiled._builder.engines) == before + 2


def test_the_jacobian_of_one_output_is_one_row(tier: str) -> None:
    compiled = wg.circuit("a * b").compile()

    assert compiled.jacobian([2.0, 3.0]).tolist() == [[3.0, 2.0]]
    assert compiled.jacobian(a=2.0, b=3.0) == {"f": {"a": 3.0, "b": 2.0}}


def test_the_hessian_is_the_jacobian_of_the_backward_circuit(tier: str) -> None:
    circuit = wg.circuit("a * a * b + exp(a * c)")
    compiled = circuit.compile()
    a, b, c = 0.5, 2.0, -1.0
    e = np.exp(a * c)
    wanted = [[2 * b + c * c * e, 2 * a, e + a * c * e], [2 * a, 0.0, 0.0], [e + a * c * e, 0.0, a * a * e]]
    named = compiled.hessian(a=a, b=b, c=c)

    np.testing.assert_allclose(compiled.hessian([a, b, c]), wanted, rtol=1e-14)
    np.testing.assert_allclose([[*row.values()] for row in named.values()], wanted, rtol=1e-14)
    assert list(named) == list(named["a"]) == ["a", "b", "c"]


def test_a_batch_has_a_row_for_every_point(tier: str) -> None:
    circuit = wg.circuit(FORMULA)
    compiled = circuit.compile()
    points = np.random.default_rng(0).normal(size=(37, 3))
    values, grads = compiled.batch_value_and_grad(points)
    runs = [circuit.run(point) for point in points]

    np.testing.assert_allclose(values, [run.output for run in runs], rtol=1e-12)
    np.testing.assert_allclose(grads, [[*run.grads.values()] for run in runs], rtol=1e-12)
    for given in (points, points.tolist(), np.asfortranarray(points), np.repeat(points, 2, axis=0)[::2]):
        np.testing.assert_array_equal(compiled.batch(given), compiled.batch(points, threads=1))
    assert compiled.batch(np.zeros((0, 3))).shape == (0,)
    assert [part.shape for part in compiled.batch_value_and_grad(np.zeros((0, 3)))] == [(0,), (0, 3)]
    assert compiled.batch(np.ones((2, 3), np.int64)).tolist() == compiled.batch([[1, 1, 1], [1, 1, 1]]).tolist()
    assert compiled.batch([[Fraction(1, 2), 1, 2.0]]).tolist() == compiled.batch([[0.5, 1.0, 2.0]]).tolist()


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([1.0, 2.0, 3.0], r"got shape \(3,\); for one point write \[point\]"),
        ([[1.0, 2.0]], r"one row of 3 numbers \(a, b, c\) per point; got shape \(1, 2\)"),
        (np.ones((2, 3, 1)), r"got shape \(2, 3, 1\)"),
        ([[1.0, 2.0, 3.0], [1.0]], "rows of different lengths"),
        ([[1.0, 2.0, None]], "input c must be a number; got NoneType"),
        ([[1.0, 2.0, 1j]], "input a must be a number; got complex"),
        ([["a", "b", "c"]], "input a must be a number; got str"),
        (np.ones((2, 3), bool), "input a must be a number; got bool"),
        (None, "got NoneType"),
        (3.0, "got float"),
        ("abc", "got str"),
        ({"a": [1.0]}, "got dict"),
        ([], r"got shape \(0,\)"),
    ],
)
def test_wrong_points_of_a_batch_are_told(tier: str, points: Any, message: str) -> None:
    compiled = wg.circuit(FORMULA).compile()

    for function in (compiled.batch, compiled.batch_value_and_grad):
        with pytest.raises(InputError, match=message):
            function(points)


@pytest.mark.parametrize("name", ["batch", "batch_value_and_grad"])
@pytest.mark.parametrize("threads", [0, -1, 1.5, True, "two"])
def test_the_number_of_threads_is_whole_and_at_least_one(tier: str, threads: Any, name: str) -> None:
    compiled = wg.circuit("a * b").compile()

    with pytest.raises(InputError, match="threads"):
        getattr(compiled, name)([[1.0, 2.0]], threads=threads)


def test_conditions_go_in_and_come_out_as_conditions(tier: str) -> None:
    builder = wg.Builder()
    which, x = builder.input("which", BOOL), builder.input("x")
    chosen = builder.build(builder.where(which, x, builder.negative(x), name="y"))
    compiled, compared = chosen.compile(), wg.circuit("a > b").compile()

    assert compiled(which=True, x=2.0) == 2.0
    assert compiled.value_and_grad([False, 2.0])[1].tolist() == [0.0, -1.0]
    assert compiled.batch([[1, 2.0], [0, 2.0]]).tolist() == [2.0, -2.0]
    assert compared(a=2.0, b=1.0) is True
    assert compared.value_and_grad(a=2.0, b=1.0) == (True, {"a": 0.0, "b": 0.0})
    assert compared.batch([[2.0, 1.0], [1.0, 2.0]]).tolist() == [True, False]
    assert compared.batch_value_and_grad([[2.0, 1.0]])[0].tolist() == [True]
    with pytest.raises(InputError, match="which must be bool"):
        compiled(which=1.0, x=2.0)
    with pytest.raises(InputError, match="true or false"):
        compiled.batch([[0.5, 2.0]])


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf, -0.0, 5e-324, 1.7e308])
def test_special_numbers_pass_through(tier: str, number: float) -> None:
    compiled = wg.circuit("y = x * 1").compile()

    got = np.array([compiled([number]), compiled(x=number), compiled.batch([[number]])[0]])

    np.testing.assert_array_equal(got, number)
    assert (np.signbit(got) == np.signbit(number)).all()


def test_a_circuit_can_be_compiled_for_float32(tier: str) -> None:
    circuit = wg.circuit(FORMULA)
    compiled = circuit.compile(np.float32)
    value, grads = compiled.value_and_grad(VECTOR)
    exact, slopes = circuit.compile().value_and_grad(VECTOR)

    assert compiled.info.dtype == "float32"
    assert grads.dtype == compiled.hessian(VECTOR).dtype == np.float32
    assert value == np.float32(value) == compiled(**POINT) == compiled(np.array(VECTOR, np.float32))
    assert 0 < abs(value - exact) < 1e-6
    np.testing.assert_allclose(grads, slopes, rtol=1e-5)
    np.testing.assert_allclose(compiled.batch([VECTOR]), value, rtol=1e-6)
    assert compiled.value_and_grad(**POINT)[1] == dict(zip("abc", grads.tolist(), strict=True))


@pytest.mark.parametrize("dtype", ["int64", "float16", "complex128", "wide", object, 3])
def test_other_types_are_refused(dtype: Any) -> None:
    with pytest.raises(DomainError, match="float64 or float32"):
        wg.circuit("x").compile(dtype)


def test_a_circuit_of_float32_is_compiled_as_it_is(tier: str) -> None:
    compiled = wg.trace(lambda x: x * x, np.float32(3)).compile()

    assert compiled.info.dtype == "float32"
    assert compiled.value_and_grad(x=3.0) == (9.0, {"x": 6.0})


def test_arrays_are_computed_by_a_stream_of_instructions() -> None:
    circuit = arrays()
    compiled = circuit.compile()
    w, x = np.array([0.5, 1.0]), np.arange(6.0).reshape(3, 2)
    run = circuit.run(w=w, x=x)
    value, (dw, dx) = compiled.value_and_grad(w, x)

    assert compiled(w, x) == compiled(w=w, x=x) == value == pytest.approx(run.output, rel=1e-12)
    np.testing.assert_allclose(dw, run.grads["w"], rtol=1e-12)
    np.testing.assert_allclose(dx, run.grads["x"], rtol=1e-12)
    np.testing.assert_array_equal(compiled.value_and_grad(w=w, x=x)[1]["w"], dw)
    assert compiled.info.tier == "arrays"
    assert compiled.info.reason == ""


@pytest.mark.parametrize("name", ["batch", "batch_value_and_grad", "jacobian", "hessian"])
def test_what_only_native_code_has_is_refused_for_arrays(name: str) -> None:
    with pytest.raises(NoRuleError, match="circuits of real numbers; w is"):
        getattr(arrays().compile(), name)(np.array([0.5, 1.0]))


def test_the_gradient_of_one_array_is_one_array() -> None:
    compiled = wg.trace(lambda x: np.sum(x * x), np.ones(3)).compile()

    assert compiled.value_and_grad(np.arange(3.0))[1].tolist() == [0.0, 2.0, 4.0]


def test_a_circuit_without_inputs_can_be_called(tier: str) -> None:
    builder = wg.Builder()
    compiled = builder.build(builder.exp(builder.constant(0.0), name="y")).compile()

    assert compiled() == compiled([]) == 1.0
    assert compiled.value_and_grad() == (1.0, {})
    assert compiled.value_and_grad([])[1].shape == (0,)
    assert compiled.batch(np.zeros((2, 0))).tolist() == [1.0, 1.0]


def test_info_says_who_answers_and_why(monkeypatch: pytest.MonkeyPatch) -> None:
    native = wg.circuit(FORMULA).compile()
    native(a=1.0, b=2.0, c=3.0)
    native(a=1, b=2, c=3)
    native.value_and_grad([1.0, 2.0, 3.0])
    info = native.info

    assert (info.nodes, info.inputs, info.outputs, info.tier, info.reason) == (8, 3, 1, "stencils", "")
    assert info.calls == 3
    assert min(info.code_bytes, info.working_bytes, info.compile_seconds) > 0
    assert "8 nodes, 3 inputs, 1 output, float64; 3 calls\n  native code (stencils)" in str(info)
    assert repr(native) == "Compiled(Circuit(3 inputs, 8 nodes, 0 splitters, output f), stencils)"

    monkeypatch.setenv("WIREGRAD_NATIVE", "0")
    switched = wg.circuit(FORMULA).compile()
    switched(**POINT)
    assert (switched.info.tier, switched.info.calls, switched.info.code_bytes) == ("interpreter", 1, 0)
    assert "the interpreter answers: native code is switched off by WIREGRAD_NATIVE=0" in repr(switched.info)


def test_where_memory_must_not_be_executed_the_interpreter_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden() -> None:
        raise NotNativeError("this system does not let memory be executed")

    monkeypatch.setattr(jit, "check_executable_memory", forbidden)
    compiled = wg.circuit("x * x").compile()

    assert compiled.value_and_grad(x=3.0) == (9.0, {"x": 6.0})
    assert compiled.info.reason == "this system does not let memory be executed"


def test_where_llvmlite_is_missing_the_interpreter_answers() -> None:
    code = (
        "import sys; sys.modules['llvmlite'] = None; import wiregrad as wg; c = wg.circuit('x * x').compile(); "
        "print(c.value_and_grad(x=3.0), c.info.tier, c.info.reason)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE)

    assert done.stdout.startswith("(9.0, {'x': 6.0}) interpreter native code needs llvmlite")


def test_on_a_python_whose_objects_are_unknown_only_the_call_is_slower(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: Any) -> Callable[..., Any]:
        raise NotNativeError("calls in native code do not know this version of NumPy")

    monkeypatch.setattr(builtin_calls, "make_call_builtin", unknown)
    compiled = wg.circuit("x * x").compile()

    assert not isinstance(compiled.value_and_grad, BuiltinFunctionType)
    assert (compiled.value_and_grad([3.0])[0], compiled.value_and_grad(x=3.0)) == (9.0, (9.0, {"x": 6.0}))
    assert compiled.info.tier == "stencils"


def test_importing_wiregrad_loads_no_native_code() -> None:
    code = "import wiregrad, sys; print([name for name in sys.modules if 'llvm' in name or 'native' in name])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE)

    assert done.stdout.strip() == "[]"


def test_the_functions_are_builtins_with_a_signature() -> None:
    function = wg.circuit("x * x").compile().value_and_grad

    assert isinstance(function, BuiltinFunctionType)
    assert (function.__name__, function.__text_signature__) == ("value_and_grad", "($self, /, *vector, **inputs)")
    assert (function.__doc__ or "").startswith("Return the output and its gradient")


def test_common_calls_never_reach_python(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled, several = wg.circuit("a * b").compile(), two_outputs().compile()
    functions = [compiled.value, compiled.value_and_grad, several.value]
    monkeypatch.setattr(
        builtin_calls.SlowPath, "__call__", lambda *_, **__: pytest.fail("a common call was handed to Python")
    )

    for function in functions:
        names = "ab" if function is not several.value else "xy"
        for x in ([2.0, 3.0], (2.0, 3.0), np.array([2.0, 3.0]), np.arange(8.0)[2:4]):
            function(x)
        function(**dict.fromkeys(names, 2.0))


def test_builtins_outlive_the_object_they_came_from() -> None:
    compiled = wg.circuit(FORMULA).compile()
    value, grad = compiled.value, compiled.value_and_grad
    del compiled
    gc.collect()
    junk = [wg.circuit(f"x * {k}").compile() for k in range(20)]
    del junk
    gc.collect()

    assert value(**POINT) == grad(VECTOR)[0]
    with pytest.raises(InputError):
        grad(a=1.0)


def test_answers_are_fresh_objects() -> None:
    compiled = wg.circuit("a * b").compile()
    first = compiled.value_and_grad([2.0, 3.0])[1]
    second = compiled.value_and_grad([5.0, 7.0])[1]
    named = compiled.value_and_grad(a=2.0, b=3.0)[1]
    named["a"] = -1.0
    first[:] = -1.0

    assert second.tolist() == [7.0, 5.0]
    assert second.flags.owndata
    assert second.flags.writeable
    assert compiled.value_and_grad(a=2.0, b=3.0)[1] == {"a": 3.0, "b": 2.0}


def test_nothing_leaks_and_nothing_is_freed_twice() -> None:
    compiled, several = wg.circuit("one_leak * two_leak").compile(), two_outputs().compile()
    x, items, number = np.array([2.0, 3.0]), [2.0, 3.0], 12345.678
    kept = [compiled.value_and_grad, compiled.value, several.value, x, items, number, *compiled.circuit.inputs]

    def common() -> None:
        for function in (compiled.value, compiled.value_and_grad):
            function(x)
            function(items)
            function((2.0, number))
            function(one_leak=2.0, two_leak=number)
        several.value(x)
        several.value(x=number, y=3.0)

    def other() -> None:
        for function in (compiled.value, compiled.value_and_grad):
            function(two_leak=2.0, one_leak=number)
            function([2, 3])
            with suppress(InputError):
                function([None, number])
        several.value([1, 2])

    def grown(ask: Callable[[], None], times: int, count: Callable[[], int]) -> float:
        start = count()
        for _ in range(times):
            ask()
        gc.collect()
        return (count() - start) / times

    for ask in (common, other):
        ask()
    gc.collect()
    before = [sys.getrefcount(thing) for thing in kept]
    tracemalloc.start()
    traced = grown(common, 10_000, lambda: tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    blocks = [grown(common, 1000, sys.getallocatedblocks), grown(other, 1000, sys.getallocatedblocks)]

    assert [sys.getrefcount(thing) for thing in kept] == before
    assert traced < 1.0
    assert max(blocks) < 0.5


def test_a_compiled_circuit_is_freed_with_its_last_holder() -> None:
    freed = []

    class Watch:
        def __del__(self) -> None:
            freed.append(True)

    compiled = wg.circuit("x * x").compile()
    compiled([1.0])
    compiled.value_and_grad.__self__.watch = Watch()
    gc.disable()
    try:
        del compiled
        assert freed
    finally:
        gc.enable()


def test_a_collection_that_calls_again_spoils_no_answer() -> None:
    compiled = wg.circuit("a * b").compile()
    answers, thresholds = [], gc.get_threshold()

    class Caller:
        def __init__(self) -> None:
            self.ring = self

        def __del__(self) -> None:
            answers.append(compiled.value_and_grad(a=50.0, b=70.0))

    gc.set_threshold(1)
    try:
        for k in range(300):
            Caller()
            a = float(k)
            assert compiled.value_and_grad(a=a, b=3.0) == (3.0 * a, {"a": 3.0, "b": a})
            assert compiled.value_and_grad([a, 3.0])[1].tolist() == [3.0, a]
    finally:
        gc.set_threshold(*thresholds)
    assert set(map(str, answers)) == {"(3500.0, {'a': 70.0, 'b': 50.0})"}


def test_a_number_that_calls_again_while_it_is_read_spoils_no_answer() -> None:
    compiled = wg.circuit("a * b").compile()

    class Calling(float):
        def __float__(self) -> float:
            compiled.value_and_grad([11.0, 13.0])
            return 5.0

    assert compiled.value_and_grad([2.0, Calling(3.0)])[1].tolist() == [5.0, 2.0]
    assert compiled.value_and_grad(a=Calling(3.0), b=2.0) == (10.0, {"a": 2.0, "b": 5.0})


def test_threads_get_their_own_answers() -> None:
    compiled, wrong = wg.circuit("a * b").compile(), []

    def work(a: float) -> None:
        for k in range(2000):
            b = float(k)
            if compiled.value_and_grad(a=a, b=b) != (a * b, {"a": b, "b": a}):
                wrong.append((a, b))
            if compiled.value_and_grad([int(a), b])[0] != a * b:
                wrong.append((a, b))

    run_in_threads(work, [0.0, 1.0, 2.0, 3.0], interval=1e-6)

    assert wrong == []


def test_calls_are_counted_and_the_limit_is_told_once() -> None:
    compiled, told = wg.circuit("x * x").compile(), []
    function = compiled.value_and_grad
    entry = function.__self__.held[1].entry
    entry.notify_after(3, lambda found: told.append((found is entry, found.calls)))
    answers = [function([float(k)])[0] for k in range(10)]

    assert answers == [float(k * k) for k in range(10)]
    assert told == [(True, 4)]
    assert entry.calls == 10


def test_another_program_can_take_over_between_calls() -> None:
    square, cube = wg.circuit("x * x").compile(), wg.circuit("x * x * x").compile()
    function = square.value_and_grad
    function([2.0])
    entry = function.__self__.held[1].entry
    entry.swap_program(replace(cube.value_and_grad.__self__.held[1].entry.program, tier="llvm"))
    del cube
    gc.collect()

    assert function(x=2.0) == (8.0, {"x": 12.0})
    assert square.info.tier == "llvm"


def test_programs_change_places_while_other_threads_call() -> None:
    compiled = wg.circuit("a * b").compile()
    function = compiled.value_and_grad
    entry = function.__self__.held[1].entry
    wrong, done = [], threading.Event()

    def work() -> None:
        while not done.is_set():
            for k in range(100):
                if function(a=3.0, b=float(k)) != (3.0 * k, {"a": float(k), "b": 3.0}):
                    wrong.append(k)

    threads = [threading.Thread(target=work) for _ in range(2)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for _ in range(50):
            entry.swap_program(build_program(compiled.circuit, 0))
    finally:
        done.set()
        for thread in threads:
            wait_for_thread(thread)
        sys.setswitchinterval(interval)
    assert wrong == []


@pytest.mark.parametrize(
    "copy_code",
    [
        pickle.dumps,
        copy.deepcopy,
        lambda compiled: pickle.dumps(compiled.value),
        lambda compiled: pickle.dumps(compiled.value_and_grad),
    ],
)
def test_native_code_cannot_be_pickled_and_says_what_to_do(copy_code: Callable[[Any], object]) -> None:
    with pytest.raises(OperandError, match=r"pickle (the|its) circuit"):
        copy_code(wg.circuit("x * x").compile())


def test_a_result_that_no_memory_is_left_for_raises() -> None:
    entry = wg.circuit("x * x").compile().value_and_grad
    fields = entry.__self__.held[1].entry.fields

    def full() -> None:
        raise MemoryError("none left")

    kept, fields.copy = fields.copy, id(full)
    with pytest.raises(MemoryError, match="none left"):
        entry([2.0])
    fields.copy = kept
    assert entry([2.0])[0] == 4.0


def test_compiled_circuits_run_clean_in_development_mode() -> None:
    code = """
import gc, numpy as np, wiregrad as wg
for dtype in ("float64", "float32"):
    c = wg.circuit("e = a + b; f = e * c").compile(dtype)
    for _ in range(2000):
        c.value_and_grad([2.0, -3.0, 10.0]), c.value_and_grad(a=2.0, b=-3.0, c=10.0), c(np.ones(3, dtype))
        try:
            c.value_and_grad(a=1.0, b="x", c=None)
        except TypeError:
            pass
    c.hessian([1, 2, 3]), c.jacobian([1, 2, 3]), c.batch(np.ones((9, 3)))
    del c
    gc.collect()
print("fine")
"""
    command = [sys.executable, "-X", "dev", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ}, timeout=PATIENCE)

    assert (done.returncode, done.stdout, done.stderr) == (0, "fine\n", "")


@pytest.mark.parametrize("make", [lambda c: c, lambda c: c.compile(), lambda c: c.run], ids=["call", "compiled", "run"])
@pytest.mark.parametrize("wrap", [lambda p: p, lambda p: [p]], ids=["dict", "list of dicts"])
def test_a_structure_in_place_of_an_input_is_named(make: Any, wrap: Any) -> None:
    parameters = wrap({"w": np.ones(3), "b": np.ones(3)})
    circuit = wg.trace(lambda p, x: np.sum((p[0] if isinstance(p, list) else p)["w"] * x), parameters, np.ones(3))

    with pytest.raises(wg.errors.InputError):
        make(circuit)(parameters, np.ones(3))
    with pytest.raises(wg.errors.InputError, match=r"as in wg\.run\(f, \*args\), not of its circuit"):
        make(circuit)([parameters] if isinstance(parameters, dict) else parameters)
