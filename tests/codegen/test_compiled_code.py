"""Code of compiled functions: values, Jacobians and Hessians, with arrays, against plain Python on every branch."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.errors import OperandError

FLAGS = ("-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-Wshadow")


def build(text: str, folder: Path) -> Any:
    """Compile C code with warnings as errors, and load it."""
    source = folder / f"code{len(list(folder.iterdir()))}.c"
    source.write_text(text)
    library = source.with_suffix(".so")
    subprocess.run(["gcc", *FLAGS, "-shared", "-fPIC", str(source), "-o", str(library), "-lm"], check=True, timeout=60)
    return ctypes.CDLL(str(library))


def call(library: Any, name: str, numbers: Any, *sizes: int) -> tuple[int, float, list[Any]]:
    """Return the status, what a function returns, and its result arrays."""
    point = (ctypes.c_double * len(numbers))(*numbers)
    results = [(ctypes.c_double * max(1, size))() for size in sizes]
    function = getattr(library, name)
    function.restype = ctypes.c_double
    value = function(point, *results)
    status = getattr(library, f"{name}_status")(point)
    return status, value, [np.array(result)[:size] for result, size in zip(results, sizes, strict=True)]


def arm(q: Any, qd: Any, tau: Any) -> Any:
    """Return the accelerations of a planar arm of two links."""
    coupling = 1.0 + np.cos(q[1])
    mass = np.array([[3.0 + 2.0 * np.cos(q[1]), coupling], [coupling, 1.0]])
    speed = np.array([-np.sin(q[1]) * (2.0 * qd[0] * qd[1] + qd[1] ** 2), np.sin(q[1]) * qd[0] ** 2])
    return np.linalg.solve(mass, tau - speed)


def settle(p: Any, scale: Any) -> Any:
    """Return results of several kinds, with branches that are not merged."""
    turns = 0
    x = p["x"]
    while x > scale:
        x = x * 0.5
        turns = turns + 1
    if turns > 1:
        return [x * p["y"], np.stack([x, scale, p["y"] * turns])]
    return [x - p["y"], np.stack([scale * x, x * x, p["y"]])]


def test_results_are_in_order_though_their_names_collide(tmp_path: Path) -> None:
    fast = wg.compile(lambda x: {"b": [x, 2.0 * x], "b_1": 3.0 * x, "a": (4.0 * x, np.stack([5.0 * x]))})
    fast(1.0)
    _, _, (found,) = call(build(fast.to_c("value"), tmp_path), "value", [2.0], 5)
    _, _, (slopes,) = call(build(fast.to_c("jacobian"), tmp_path), "jacobian", [2.0], 5)

    assert found.tolist() == [2.0, 4.0, 6.0, 8.0, 10.0]
    assert slopes.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]


def flatten_numbers(thing: Any) -> list[float]:
    if isinstance(thing, dict):
        return [number for part in thing.values() for number in flatten_numbers(part)]
    if isinstance(thing, list | tuple):
        return [number for part in thing for number in flatten_numbers(part)]
    numbers: list[float] = np.ravel(np.asarray(thing, float)).tolist()
    return numbers


@pytest.mark.parametrize("seed", range(3))
def test_the_jacobian_of_a_function_of_arrays_is_that_of_wg_jacobian(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    fast = wg.compile(arm, argnums=(0, 1, 2))
    fast(*rng.normal(size=(3, 2)))
    point = rng.normal(size=(3, 2))
    status, _, (found,) = call(build(fast.to_c("jacobian"), tmp_path), "jacobian", point.ravel(), 12)
    _, _, (values,) = call(build(fast.to_c("value"), tmp_path), "value", point.ravel(), 2)
    wanted = np.concatenate(wg.jacobian(arm, argnums=(0, 1, 2))(*point), axis=1)

    assert status == 0
    np.testing.assert_allclose(found.reshape(2, 6), wanted, atol=1e-12)
    np.testing.assert_allclose(values, arm(*point), atol=1e-12)


def test_values_and_jacobian_are_one_function_in_code(tmp_path: Path) -> None:
    fast = wg.compile(lambda x, y: [x * y, np.sin(x) - y], argnums=(0, 1))
    with pytest.raises(OperandError, match="value_and_jacobian has recordings of its own"):
        fast.to_c("value_and_jacobian")
    fast.value_and_jacobian(1.0, 2.0)
    wanted = fast.value_and_jacobian(0.5, 3.0)
    text = fast.to_c("value_and_jacobian", test=(0.5, 3.0))
    status, _, (found,) = call(build(text, tmp_path), "value_and_jacobian", [0.5, 3.0], 6)
    python: dict[str, Any] = {}
    exec(fast.to_python("value_and_jacobian"), python)

    assert status == 0
    np.testing.assert_allclose(found, flatten_numbers(wanted), rtol=1e-15)
    np.testing.assert_allclose(list(python["value_and_jacobian"](0.5, 3.0).values()), found, rtol=1e-15)
    assert "function valueAndJacobian(" in fast.to_js("value_and_jacobian")
    assert fast.count_ops("value_and_jacobian").total >= 4


@pytest.mark.parametrize("function", ["value", "jacobian"])
def test_branches_with_several_results_are_right_or_have_a_status(function: str, tmp_path: Path) -> None:
    fast = wg.compile(settle, argnums=(0, 1), limit=8)
    for x in (0.5, 1.5, 2.5, 5.0):
        fast({"x": x, "y": 2.0}, 1.0)
    library = build(fast.to_c(function), tmp_path)
    rng = np.random.default_rng(0)
    statuses = set()
    for x, y, scale in rng.uniform(0.2, 12.0, (200, 3)):
        p = {"x": float(x), "y": float(y)}
        status, _, (found,) = call(library, function, [x, y, scale], {"value": 4, "jacobian": 12}[function])
        statuses.add(status)
        if status:
            assert np.isnan(found).all()
            continue
        if function == "value":
            np.testing.assert_allclose(found, flatten_numbers(settle(p, float(scale))), rtol=1e-13)
            continue
        (by_p, by_scale), (rows_p, rows_scale) = wg.jacobian(settle, argnums=(0, 1))(p, float(scale))
        wanted = [[by_p["x"], by_p["y"], by_scale]]
        wanted += np.stack([rows_p["x"], rows_p["y"], rows_scale], axis=-1).tolist()
        np.testing.assert_allclose(found.reshape(4, 3), wanted, rtol=1e-13)

    assert len(statuses) > 1


@pytest.mark.parametrize("real", ["double", "float"])
@pytest.mark.parametrize("function", ["value", "value_and_grad", "jacobian", "hessian"])
def test_the_self_test_passes_on_every_recorded_branch(function: str, real: str, tmp_path: Path) -> None:
    def f(x: Any, y: Any) -> Any:
        turns = 0
        while x > y:
            x, turns = x * 0.5, turns + 1
        return x * x * np.sin(y) + turns

    fast = wg.compile(f, limit=4)
    for args in ((1.0, 2.0), (3.0, 2.0)):
        fast(*args)
        source = tmp_path / "self_test.c"
        source.write_text(fast.to_c(function, real=real, test=args))
        command = ["gcc", *FLAGS, "-DWIREGRAD_TEST", str(source), "-o", str(tmp_path / "self_test"), "-lm"]
        subprocess.run(command, check=True, timeout=60)
        done = subprocess.run([str(tmp_path / "self_test")], capture_output=True, text=True, check=True, timeout=60)

        assert re.fullmatch(r"(\d+) of \1 results as wanted\n", done.stdout)


def test_a_header_declares_the_function_and_its_status(tmp_path: Path) -> None:
    fast = wg.compile(arm)
    fast(*np.ones((3, 2)))
    header = fast.to_c("jacobian", header=True, name="arm_jacobian")
    (tmp_path / "arm.h").write_text(header)
    build(f'#include "arm.h"\n{fast.to_c("jacobian", name="arm_jacobian")}', tmp_path)

    assert "void arm_jacobian(const double *x, double *jac);\nint arm_jacobian_status(const double *x);" in header


@pytest.mark.parametrize("function", ["value", "jacobian", "hessian"])
def test_python_has_the_same_functions(function: str) -> None:
    def f(x: Any, y: Any) -> Any:
        return x * x * y if x > 0.0 else np.exp(x * y)

    fast = wg.compile(f)
    fast(2.0, 3.0)
    names: dict[str, Any] = {}
    exec(fast.to_python(function), names)
    found = names[function](2.0, 3.0)

    wanted = {
        "value": 12.0,
        "jacobian": {"f": {"x": 12.0, "y": 4.0}},
        "hessian": (12.0, {"x": 12.0, "y": 4.0}, {"x": {"x": 6.0, "y": 4.0}, "y": {"x": 4.0, "y": 0.0}}),
    }[function]
    assert found == wanted


def change_structure(x: Any) -> Any:
    turns = int(wg.stop_gradient(x))
    return [x] * turns


REFUSED: list[tuple[Any, list[tuple[Any, ...]], Any, str]] = [
    (
        lambda x: [x, x],
        [(1.0,)],
        lambda fast: fast.to_c(),
        r'gradient is of one real number, and .* a container of 2 results: ask for the code of "value" or "jacobian"',
    ),
    (
        lambda x: np.sum(x * x),
        [(np.ones(2),)],
        lambda fast: fast.to_c("hessian"),
        r"second derivatives is by numbers, and the input x of .* is an array: call .* with numbers, or lists of num",
    ),
    (
        change_structure,
        [(1.0,), (2.0,)],
        lambda fast: fast.to_c("value"),
        "returns a container of 1 result in one branch and a",
    ),
    (lambda x: [x, "text"], [(1.0,)], lambda fast: fast.to_c("value"), "functions that return numbers.*returns 'text'"),
    (lambda x: 3.0, [(1.0,)], lambda fast: fast.to_c(), "do not depend on its arguments"),
    (
        lambda x: float(x) * 2.0,
        [(1.0,)],
        lambda fast: fast.to_c(),
        "calls ran the function itself: recording it raised",
    ),
    (
        lambda x: x * x,
        [(1.0,)],
        lambda fast: fast.to_c("gradient"),
        "function is one of value, value_and_grad, jac",
    ),
    (lambda x: x * x, [(1.0,)], lambda fast: fast.to_c(test={"x": 1.0}), "test is the arguments of a call, as a tuple"),
    (lambda x: x * x, [(1.0,)], lambda fast: fast.to_c(test=(1,)), r"kind of arguments at test=\(1,\)"),
    (
        lambda x: x * int(wg.stop_gradient(x)),
        [(1.5,)],
        lambda fast: fast.to_c(test=(2.5,)),
        r"takes a branch at test=\(2.5,\) that was not recorded: call it there first",
    ),
]


@pytest.mark.parametrize(("f", "calls", "write", "message"), REFUSED)
def test_what_cannot_be_written_says_what_to_do(f: Any, calls: list[Any], write: Any, message: str) -> None:
    fast = wg.compile(f, limit=4)
    for args in calls:
        fast(*args)

    with pytest.raises(OperandError, match=message):
        write(fast)


@pytest.mark.parametrize("question", ["jacobian", "hessian", "value_and_jacobian"])
def test_a_function_of_which_only_a_transform_was_called_is_said_to_be_that(question: str) -> None:
    fast = wg.compile(lambda x: x * x)
    getattr(fast, question)(2.0)

    with pytest.raises(OperandError, match=f"itself was not called yet, only its {question}, which has recordings"):
        fast.to_c()
    fast(2.0)
    assert "jacobian_status" in fast.to_c("jacobian")
