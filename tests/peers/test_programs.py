"""Plain NumPy programs, differentiated unchanged, against JAX and PyTorch running the very same code.

A peer gets the code object of the program with its own module under the name `np`. Where JAX cannot run a program, as
it takes no lists for arrays, the complex step is the reference: exact to rounding, for the program is analytic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from types import FunctionType, ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import wiregrad as wg

from .frameworks import Function
from .programs import PROGRAMS, Program

FIELDS = {
    "statistics",
    "signal",
    "physics",
    "finance",
    "geometry",
    "robotics",
    "test functions",
    "networks",
    "linear algebra",
}
VALUE_TOLERANCE = 1e-12
TOLERANCE = 1e-10
DIFFERENCES = 1e-7
"""What central differences of fourth order are good for, relative to the largest slope of an argument."""

every_program = pytest.mark.parametrize("program", PROGRAMS, ids=str)


def with_numpy(function: Function, module: ModuleType) -> Function:
    """Return the same code, helpers included, where `np` is another module."""
    names = {**function.__globals__, "np": module}
    for name, helper in function.__globals__.items():
        if isinstance(helper, FunctionType) and helper.__globals__ is function.__globals__:
            names[name] = FunctionType(helper.__code__, names, name, helper.__defaults__)
    return names[function.__name__]


def weighted(y: Any) -> Any:
    """Return a number as it is, and an array as the sum of its elements, each with a weight of its own."""
    if not getattr(y, "shape", ()):
        return y
    return (y * np.cos(np.arange(y.size)).reshape(y.shape)).sum()


def loss(program: Program, module: ModuleType = np) -> Function:
    function = program.function if module is np else with_numpy(program.function, module)
    return lambda *xs: weighted(function(*xs))


@cache
def reference(program: Program) -> list[np.ndarray]:
    """Return the gradient along every argument, by JAX if it can."""
    if not program.jax:
        return by_element(program, complex_step)
    slots = tuple(range(len(program.args)))
    return [np.asarray(slope) for slope in jax.grad(loss(program, jnp), slots)(*program.args)]


def by_element(program: Program, slope: Callable[[Function, float], float]) -> list[np.ndarray]:
    """Return the gradient, one element after the other, by the slope of a function of one number."""
    function = loss(program)

    def along(slot: int, index: tuple[int, ...]) -> float:
        def moved(number: complex) -> complex:
            xs = [np.array(x, dtype=np.result_type(x, number)) for x in program.args]
            xs[slot][index] = number
            return function(*(x if x.shape else x.item() for x in xs))

        return slope(moved, np.asarray(program.args[slot])[index].item())

    shapes = map(np.shape, program.args)
    return [np.array([along(k, i) for i in np.ndindex(shape)]).reshape(shape) for k, shape in enumerate(shapes)]


def complex_step(function: Function, x: float) -> float:
    return function(complex(x, 1e-30)).imag / 1e-30


def central_difference(function: Function, x: float) -> float:
    h = 1e-3 * max(1.0, abs(x))
    near, far = function(x + h) - function(x - h), function(x + 2 * h) - function(x - 2 * h)
    return (8 * near - far) / (12 * h)


def assert_gradients(program: Program, got: Sequence[Any]) -> None:
    for slot, (ours, theirs) in enumerate(zip(map(np.asarray, got), reference(program), strict=True)):
        error = np.abs(ours - theirs) / np.maximum(1.0, np.abs(theirs))

        assert ours.shape == theirs.shape, f"{program}, argument {slot}"
        assert np.max(error) <= TOLERANCE, f"{program}, argument {slot}: {ours}, wanted {theirs}"


@every_program
def test_value_and_gradients_are_those_of_the_plain_program_and_of_the_peer(program: Program) -> None:
    plain = loss(program)(*program.args)
    value, grads = wg.value_and_grad(loss(program), argnums=tuple(range(len(program.args))))(*program.args)

    assert abs(value - plain) <= VALUE_TOLERANCE * abs(plain)
    assert_gradients(program, grads)


@every_program
def test_a_program_run_on_values_has_the_same_gradients(program: Program) -> None:
    plain = loss(program)(*program.args)
    values = [wg.Value(x) for x in program.args]
    y = loss(program)(*values)
    y.backward()

    assert abs(y.data - plain) <= VALUE_TOLERANCE * abs(plain)
    assert_gradients(program, [value.grad for value in values])


@every_program
def test_a_gradient_has_the_shape_and_dtype_of_its_argument(program: Program) -> None:
    _, grads = wg.value_and_grad(loss(program), argnums=tuple(range(len(program.args))))(*program.args)
    kinds = [(np.shape(x), np.asarray(x).dtype) for x in program.args]

    assert [(np.shape(grad), np.asarray(grad).dtype) for grad in grads] == kinds


@every_program
def test_the_reference_agrees_with_differences(program: Program) -> None:
    for wanted, rough in zip(reference(program), by_element(program, central_difference), strict=True):
        assert np.max(np.abs(wanted - rough)) <= DIFFERENCES * max(1.0, np.max(np.abs(wanted)))


@pytest.mark.parametrize("program", [p for p in PROGRAMS if p.torch], ids=str)
def test_pytorch_agrees_with_jax(program: Program) -> None:
    xs = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in program.args]
    y = loss(program, torch)(*xs)
    y.backward()

    assert_gradients(program, [x.grad for x in xs])


def test_the_programs_are_many_and_from_every_field() -> None:
    fields = Counter(program.field for program in PROGRAMS)

    assert len(PROGRAMS) >= 60
    assert set(fields) == FIELDS
    assert min(fields.values()) >= 10
    assert len({program.name for program in PROGRAMS}) == len(PROGRAMS)
    assert all(isinstance(x, float | np.ndarray) for program in PROGRAMS for x in program.args)
