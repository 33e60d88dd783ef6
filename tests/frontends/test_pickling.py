"""The results of transforms are pickled and copied as the calls that made them, ops as the ops of the table."""

from __future__ import annotations

import copy
import inspect
import pickle
import pydoc
import subprocess
import sys
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.ir import TABLE, Op

from ..support.limits import PATIENCE


def square(x: Any, y: Any = 2.0) -> Any:
    """Return a number."""
    return x * x * y


def square_with_aux(x: Any) -> Any:
    return x * x, "aux"


def square_complex(z: Any) -> Any:
    return z * z


def sum_of_squares(x: Any) -> Any:
    return (x * x).sum()


def neighbours(x: Any) -> Any:
    return x[1:] * x[:-1]


def halve(f: Any, x0: Any) -> Any:
    low, high = x0 - 4.0, x0 + 4.0
    for _ in range(100):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if f(middle) < 0.0 else (low, middle)
    return high


def equation(x: Any) -> Any:
    return x * x - 2.0


def solve_equation(f: Any) -> Any:
    return f(equation, 1.0)


@wg.grad
def slope(x: Any) -> Any:
    """Return a slope."""
    return x**3


@wg.compile
@wg.value_and_grad
def compiled_pair(x: Any) -> Any:
    return x**3


class Spring:
    def __init__(self, stiffness: float) -> None:
        self.stiffness = stiffness
        self.force = wg.grad(self.energy)

    def energy(self, x: Any) -> Any:
        return 0.5 * self.stiffness * x * x

    @partial(wg.value_and_grad, argnums=1)
    def pair(self, x: Any) -> Any:
        return x * x

    @staticmethod
    @wg.grad
    def cube_slope(x: Any) -> Any:
        return x**3

    @wg.compile
    def compiled(self, x: Any) -> Any:
        return x * x


def find_transforms() -> dict[str, Callable[..., Any]]:
    """Return every public function that makes a new function of one."""
    functions = {name: getattr(wg, name) for name in wg.__all__ if inspect.isfunction(getattr(wg, name))}
    transforms = {}
    for name, function in functions.items():
        if next(iter(inspect.signature(function).parameters), "") in ("f", "solver"):
            try:
                result = function(square)
            except (TypeError, wg.WiregradError):
                continue
            if callable(result):
                transforms[name] = function
    return transforms


TRANSFORMS = find_transforms()
OPTIONS: dict[str, Any] = {
    "argnums": (0,),
    "argnames": ["x"],
    "mode": "forward",
    "has_aux": True,
    "holomorphic": True,
    "in_axes": -1,
    "out_axes": [-1],
    "limit": 3,
    "assume": "finite",
    "device": "cpu",
}
"""A value for each option that a transform has."""
CALLS = [
    (name, option)
    for name, transform in TRANSFORMS.items()
    for option in [None, *list(inspect.signature(transform).parameters)[1:]]
]
COPIES = {"pickle": lambda f: pickle.loads(pickle.dumps(f)), "copy": copy.copy, "deepcopy": copy.deepcopy}
EVERY_COPY = pytest.mark.parametrize("make_copy", COPIES.values(), ids=COPIES)


def test_the_transforms_are_found() -> None:
    assert {"grad", "value_and_grad", "jacobian", "hessian", "vmap", "checkpoint", "compile", "implicit"} <= {
        *TRANSFORMS
    }


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize(("name", "option"), CALLS)
def test_every_transform_is_pickled_with_each_option(name: str, option: str | None, protocol: int) -> None:
    options = {} if option is None else {option: OPTIONS[option]}
    result = TRANSFORMS[name](square, **options)
    again = pickle.loads(pickle.dumps(result, protocol))
    made, (function, *_) = result.__reduce__()[:2]
    made_again, (function_again, *_) = again.__reduce__()[:2]

    assert type(again) is type(result)
    assert (made_again.func, made_again.keywords, function_again) == (made.func, made.keywords, function)
    assert options.items() <= made.keywords.items()


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (wg.grad(square), (3.0,)),
        (wg.grad(square, argnums=(0, 1)), (3.0, 4.0)),
        (wg.grad(square, argnames="y"), (3.0, 4.0)),
        (wg.grad(square_with_aux, has_aux=True), (3.0,)),
        (wg.grad(square_complex, holomorphic=True), (1.0 + 2.0j,)),
        (wg.value_and_grad(square), (3.0,)),
        (wg.elementwise_grad(square), (np.arange(3.0),)),
        (wg.jacobian(neighbours, mode="forward"), (np.arange(3.0),)),
        (wg.jacfwd(neighbours), (np.arange(3.0),)),
        (wg.jacrev(neighbours), (np.arange(3.0),)),
        (wg.hessian(sum_of_squares), (np.arange(3.0),)),
        (wg.vmap(sum_of_squares, in_axes=1), (np.arange(6.0).reshape(2, 3),)),
        (wg.vmap(wg.grad(square), in_axes=(0, None)), (np.arange(3.0), 2.0)),
        (wg.grad(wg.grad(wg.checkpoint(square))), (3.0,)),
        (wg.compile(wg.grad(square)), (3.0,)),
        (wg.grad(wg.compile(square)), (3.0,)),
        (wg.compile(square).value_and_grad, (3.0,)),
        (wg.grad(np.sin), (3.0,)),
        (wg.implicit(halve), (equation, 1.0)),
        (wg.grad(Spring(3.0).energy), (2.0,)),
        (Spring(3.0).pair, (2.0,)),
        (Spring(3.0).compiled, (2.0,)),
        (wg.vmap(slope), (np.arange(3.0),)),
    ],
)
@EVERY_COPY
def test_copies_compute_the_same(function: Any, arguments: tuple[Any, ...], make_copy: Any) -> None:
    np.testing.assert_equal(make_copy(function)(*arguments), function(*arguments))


@EVERY_COPY
def test_copies_of_sparse_derivatives_find_the_pattern_again(make_copy: Any) -> None:
    x = np.arange(4.0)
    function = wg.sparse_jacobian(neighbours)

    assert make_copy(function)(x).toarray().tolist() == function(x).toarray().tolist()


@EVERY_COPY
@pytest.mark.parametrize("function", [slope, compiled_pair, Spring.cube_slope, Spring.pair, Spring.compiled])
def test_decorated_functions_are_known_by_their_names(function: Any, make_copy: Any) -> None:
    assert make_copy(function) is function


@EVERY_COPY
def test_attributes_that_were_set_are_copied(make_copy: Any) -> None:
    function: Any = wg.grad(square)
    function.unit = "N"

    assert vars(make_copy(function)) == vars(function)


def test_a_deep_copy_of_an_object_has_its_own_derivatives() -> None:
    spring = Spring(3.0)
    other = copy.deepcopy(spring)
    other.stiffness = 5.0

    assert (spring.force(1.0), other.force(1.0)) == (3.0, 5.0)


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
def test_functions_without_a_global_name_are_copied_but_not_pickled(transform: Callable[..., Any]) -> None:
    def local(x: Any) -> Any:
        return x * x

    function = transform(local)

    assert type(copy.deepcopy(function)) is type(copy.copy(function)) is type(function)
    # The error is that of the function itself.
    with pytest.raises((pickle.PicklingError, AttributeError), match=r"<locals>\.local"):
        pickle.dumps(function)


def test_results_are_documented_as_the_function_is() -> None:
    function = wg.grad(square)

    assert (function.__name__, function.__doc__, function.__module__) == ("square", square.__doc__, __name__)
    assert inspect.signature(function) == inspect.signature(square)
    assert inspect.unwrap(function) is square
    assert "square(x" in pydoc.plain(pydoc.render_doc(function))
    assert weakref.ref(function)() is function


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (wg.grad(square), "wg.grad(square)"),
        (wg.grad(wg.vmap(square, in_axes=1)), "wg.grad(wg.vmap(square, in_axes=1, out_axes=0))"),
        (wg.jacfwd(square), "wg.jacobian(square, mode='forward')"),
        (slope, "wg.grad(slope)"),
    ],
)
def test_results_are_shown_as_the_call_that_made_them(function: Any, text: str) -> None:
    assert repr(function) == text


@EVERY_COPY
@pytest.mark.parametrize("op", [op for op in TABLE if not op.per_call], ids=lambda op: op.name)
def test_a_copy_of_an_op_is_that_op(op: Op, make_copy: Any) -> None:
    assert make_copy(op) is op


@EVERY_COPY
def test_a_copy_of_an_op_with_settings_is_that_op(make_copy: Any) -> None:
    op = TABLE["reshape"].bind({"rank": 1, "shape": (2, 3)})

    assert make_copy(op) is op


SCRIPT = """
import copy
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import wiregrad as wg

def loss(w, x):
    return ((w * x) ** 2).sum()

@wg.grad
def slope(x):
    return x**3

@wg.op(partials=lambda x, y: (3.0 * x * x,))
def cubed(x):
    return x**3

results = {
    "grad": wg.grad(loss),
    "argnums": wg.value_and_grad(loss, argnums=(0, 1)),
    "vmap": wg.vmap(wg.grad(loss), in_axes=(None, 0)),
    "hessian": wg.hessian(loss),
    "compile": wg.compile(wg.grad(loss)),
    "checkpoint": wg.grad(wg.checkpoint(loss)),
}

if __name__ == "__main__":
    w, x = np.array([1.0, 2.0]), np.eye(2)
    context = get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as processes:
        for name, result in results.items():
            (there,) = processes.map(result, [w], [x])
            np.testing.assert_equal(there, result(w, x), name)
        assert [*processes.map(slope, [1.0, 2.0])] == [*processes.map(wg.grad(cubed), [1.0, 2.0])] == [3.0, 12.0]
        assert [*processes.map(wg.ops.exp, [0.0])] == [1.0]
    with context.Pool(1) as pool:
        assert pool.map(slope, [1.0, 2.0]) == [3.0, 12.0]
        assert pool.map(wg.grad(wg.grad(slope)), [1.0, 2.0]) == [6.0, 6.0]
    print("done")
"""


def test_results_are_sent_to_new_processes(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    ended = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False, timeout=PATIENCE)

    assert (ended.stdout, ended.stderr) == ("done\n", "")
