"""Arrays that NumPy code makes from values: by constructors, lists, and functions that call functions."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy import array as array_of_numpy

import wiregrad as wg
import wiregrad.numpy as wnp
from tests.support.plain_numpy import POINT, WAYS, slopes_of
from wiregrad.errors import EscapeError, NoRuleError, OperandError, ShapeError
from wiregrad.frontends.recording.library_hooks import ORIGINALS, STAND_INS

from ..support.limits import PATIENCE, wait_for_thread
from ..support.sampling import sample_pairs
from ..support.scripts import run_without_overlay

WEIGHTS = np.arange(1.0, 7.0).reshape(2, 3)

PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "array of a list": lambda x: np.sum(np.array([x[0], x[1] * x[2]]) ** 2),
    "array of a nested list": lambda x: np.linalg.det(np.array([[x[0], x[1]], [x[2], 1.0]])),
    "array of rows": lambda x: np.sum(np.array([x, x**2, [1.0, 2.0, x[0]]]) ** 2),
    "array of a value": lambda x: np.sum(np.array(x) ** 2),
    "asarray as float": lambda x: np.sum(np.asarray(x, dtype=float) ** 2),
    "ascontiguousarray": lambda x: np.sum(np.ascontiguousarray(x) ** 2),
    "ndmin": lambda x: np.sum(np.array([x[0], x[1]], ndmin=2) @ np.array([[1.0], [2.0]])),
    "imported constructor": lambda x: np.sum(array_of_numpy([x[0], x[1] * x[2]]) * x[:2]),
    "imported constructor, nested": lambda x: np.sum(np.exp(array_of_numpy([[x[0], x[1]], [x[2], x[2]]]))),
    "object arrays multiplied": lambda x: np.sum(array_of_numpy([x[0], x[1]]) * array_of_numpy([x[2], 2.0])),
    "rotation": lambda x: np.sum(np.array([[np.cos(x[0]), -np.sin(x[0])], [np.sin(x[0]), np.cos(x[0])]]) @ x[1:]),
    "inverse": lambda x: np.linalg.inv(np.array([[x[0], 1.0, 2.0], [0.0, x[1], 1.0], [1.0, 1.0, x[2]]])).sum(),
    "diag": lambda x: np.sum(np.diag([x[0], x[1]]) @ np.array([1.0, 2.0]) * x[:2]),
    "full": lambda x: np.sum(np.full((2, 3), x[0]) ** 2 * WEIGHTS),
    "full of a row": lambda x: np.sum(np.full((2, 3), x) ** 2 * WEIGHTS),
    "r_": lambda x: np.sum(np.r_[x[0], x, 3.0] ** 2),
    "c_": lambda x: np.sum(np.c_[x, x**2] ** 2),
    "vectorize": lambda x: np.sum(np.vectorize(lambda t: t**2 if t > 1 else -t)(x) * np.arange(3.0)),
    "apply_along_axis": lambda x: np.sum(np.apply_along_axis(lambda r: r.sum() * r, 0, np.stack([x, x**2])) * WEIGHTS),
    "apply_over_axes": lambda x: np.sum(np.apply_over_axes(np.sum, np.stack([x, x**2]), [0]) ** 2),
    "piecewise": lambda x: np.sum(np.piecewise(x, [x < 1, x >= 1], [lambda t: t**2, lambda t: 3 * t])),
    "piecewise with a default": lambda x: np.sum(np.piecewise(x, [x < 1], [lambda t: t**2, 0.5])),
    "select": lambda x: np.sum(np.select([x < 1, x > 2], [x**2, x**3], 0.5)),
    "linspace": lambda x: np.sum(np.linspace(x[0], x[1], 5) ** 2) + np.sum(np.linspace(0.0, x[2], 3, endpoint=False)),
    "logspace": lambda x: np.sum(np.logspace(x[0], x[1], 4)),
    "geomspace": lambda x: np.sum(np.geomspace(x[0], x[1], 4) ** 2),
    "fromiter": lambda x: np.sum(np.fromiter((t**2 for t in x), float)),
    "block": lambda x: np.sum(np.block([[x[0], x[1]], [x[1], 2.0]]) ** 2),
    "meshgrid": lambda x: np.sum(np.prod(np.meshgrid([x[0], x[1]], [x[2], 1.0]), axis=0) ** 2),
    "stack with a number": lambda x: np.sum(np.stack([x[0], 2.0]) ** 2),
    "concatenate with a list": lambda x: np.sum(np.concatenate([[x[0]], x]) ** 2),
    "where with lists": lambda x: np.sum(np.where([True, False, True], [x[0], x[1], 1.0], x) ** 2),
    "dot of lists": lambda x: np.dot([x[0], x[1]], [x[2], 2.0]),
    "matmul of lists": lambda x: np.sum(np.matmul([[x[0], x[1]], [1.0, 2.0]], [x[2], 1.0])),
    "outer of lists": lambda x: np.sum(np.outer([x[0], x[1]], [1.0, x[2]])),
    "cross of lists": lambda x: np.sum(np.cross([x[0], x[1], 1.0], [1.0, x[2], x[0]]) ** 2),
    "norm of a list": lambda x: np.linalg.norm([x[0], x[1]]),
    "polyval of a list": lambda x: np.polyval([x[0], x[1], 1.0], 2.0),
    "sum of a list": lambda x: np.sum([x[0], x[1] ** 2]) + sum([x[2], x[0]]),
    "max of a list": lambda x: np.max([x[0] ** 2, x[1]]),
    "mean of a list": lambda x: np.mean([x[0] ** 2, x[1]]),
    "std and var of a list": lambda x: np.var([x[0], x[1] ** 2]) + np.std([x[0], x[1], 1.0]),
    "ufunc of a list": lambda x: np.sum(np.exp([x[0], x[1]])),
}
NOT_BY_RUN = {
    "array of a nested list": "dtype",
    "asarray as float": "wg.array",
    "inverse": "dtype",
    "fromiter": "sequence",
    "mean of a list": "wg.array",
    "std and var of a list": "wg.array",
}
"""What plain NumPy cannot do outside transforms, and a word of its error."""


@pytest.mark.parametrize(("program", "way"), sample_pairs(PROGRAMS, WAYS))
def test_gradients_flow_through_arrays_made_of_values(program: str, way: str) -> None:
    f = PROGRAMS[program]

    np.testing.assert_allclose(WAYS[way](f, POINT), slopes_of(f, POINT), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("program", [program for program in PROGRAMS if program not in NOT_BY_RUN])
def test_gradients_flow_through_object_arrays_of_values(program: str) -> None:
    f = PROGRAMS[program]
    x = wg.Value(POINT)
    f(x).backward()

    np.testing.assert_allclose(x.grad, slopes_of(f, POINT), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(("program", "word"), NOT_BY_RUN.items())
def test_what_plain_numpy_cannot_do_with_values_is_an_error(program: str, word: str) -> None:
    with pytest.raises((TypeError, ValueError), match=word):
        PROGRAMS[program](wg.Value(POINT))


def test_an_object_array_turns_into_one_value_beside_a_value() -> None:
    a, b = wg.Value(2.0), wg.Value(3.0)
    pair = np.array([a, b])

    assert pair.dtype == object
    for joined in (
        pair * wg.Value(np.ones(2)),
        wg.Value(np.ones(2)) * pair,
        a * pair,
        np.where([True, False], pair, a),
    ):
        assert type(joined) is wg.Value
        assert joined.shape == (2,)
    assert wg.jacobian(lambda x: array_of_numpy([x[0], 2.0 * x[1]]))(np.ones(2)).tolist() == [[1.0, 0.0], [0.0, 2.0]]
    assert wg.grad(lambda v: np.sum(v**2))(pair).data.tolist() == [4.0, 6.0]


def test_an_object_array_of_a_large_value_is_refused_with_what_to_write() -> None:
    x = wg.Value(np.zeros(20_000))

    with pytest.raises(EscapeError, match=r"element by element; instead of `np.asarray\(x\)` write `wg.array\(x\)`"):
        np.asarray(x)


def test_a_list_of_parts_of_different_shapes_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"parts of one shape; got \(\), \(3,\)"):
        wg.grad(lambda x: np.sum(np.array([x, x[0]])))(POINT)


def test_a_constructor_for_another_dtype_names_the_line_to_write() -> None:
    a = wg.Value(2.0)

    with pytest.raises(EscapeError, match=r"instead of `np.array\(\[a, 1.0\], dtype=float\)` write `wg.array\(\["):
        np.array([a, 1.0], dtype=float)


def test_wg_array_is_numpys_without_values_and_one_value_with_them() -> None:
    a = wg.Value(2.0)
    joined = wg.array([[a, 1.0], [a * a, 3]])
    joined.sum().backward()

    assert a.grad == 5.0
    assert joined.shape == (2, 2)
    assert type(wg.array([1.0, 2.0])) is np.ndarray
    assert wg.array([a, 1.0], dtype=np.float32).dtype == np.float32


def test_ties_in_lists_follow_the_convention() -> None:
    assert wg.grad(lambda x: np.max([x[0], x[1]]))(np.ones(2)).tolist() == [0.5, 0.5]


def test_ndenumerate_lists_the_elements_of_plain_arrays_and_values() -> None:
    plain = np.arange(4.0).reshape(2, 2)

    def f(x: Any) -> Any:
        assert list(np.ndenumerate(plain)) == [((0, 0), 0.0), ((0, 1), 1.0), ((1, 0), 2.0), ((1, 1), 3.0)]
        return sum((i + 2.0 * j) * v**2 for (i, j), v in np.ndenumerate(x))

    np.testing.assert_allclose(wg.grad(f)(plain), [[0.0, 4.0], [4.0, 18.0]])


def weigh_rows(x: Any) -> Any:
    rows = np.stack([x, x**2])
    factor = x[:2]
    apply: Any = np.vectorize(lambda row, k: (row * k / row.sum(), row[0]), signature="(n),()->(n),()")
    shares, first = apply(rows, factor)
    return np.sum(shares * np.arange(3.0)) + np.prod(first)


def test_vectorize_with_a_signature_gives_rows_to_the_function() -> None:
    np.testing.assert_allclose(wg.grad(weigh_rows)(POINT), slopes_of(weigh_rows, POINT), rtol=1e-6)


def test_a_function_of_frompyfunc_is_given_the_elements() -> None:
    square: Any = np.frompyfunc(lambda a, b: a * b if a > 0.0 else -a, 2, 1)

    gradient = wg.grad(lambda x: np.sum(square(x, x[::-1])))(np.array([1.0, -2.0, 3.0]))

    np.testing.assert_allclose(gradient, [6.0, -1.0, 2.0])


@pytest.mark.parametrize("name", sorted(STAND_INS))
def test_numpys_own_functions_are_back_after_a_transform(name: str) -> None:
    seen: list[Any] = []

    def f(x: Any) -> Any:
        seen.append(getattr(np, name))
        raise KeyError("stop")

    with pytest.raises(KeyError, match="stop"):
        wg.grad(f)(1.0)

    assert seen == [STAND_INS[name]]
    assert getattr(np, name) is ORIGINALS[name]
    assert seen[0].__name__ == ORIGINALS[name].__name__


def test_nested_transforms_see_values_until_the_outermost_ends() -> None:
    def f(x: Any) -> Any:
        inner = wg.grad(lambda t: np.sum(np.array([t, t * x]) ** 2))(x)
        return np.mean([inner, x])

    assert wg.grad(f)(2.0) == pytest.approx((2 + 3 * 2 * 4 + 1) / 2)
    assert np.array is ORIGINALS["array"]


def test_another_thread_gets_numpys_arrays_while_one_records() -> None:
    results: list[Any] = []
    a = wg.Value(1.0)

    def f(x: Any) -> Any:
        thread = threading.Thread(target=lambda: results.extend([np.zeros(2), np.array([1.0]), np.array([a, a])]))
        thread.start()
        wait_for_thread(thread)
        return x * np.zeros(1).sum()

    wg.grad(f)(1.0)

    assert [type(result) for result in results] == [np.ndarray] * 3
    assert results[2].dtype == object


def test_threads_that_record_at_the_same_time_all_see_values() -> None:
    slopes: list[float] = []
    barrier = threading.Barrier(4, timeout=PATIENCE)

    def work() -> None:
        barrier.wait()
        for _ in range(50):
            slopes.append(wg.grad(lambda x: np.linalg.det(np.array([[x, 1.0], [1.0, x]])))(3.0))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        wait_for_thread(thread)

    np.testing.assert_allclose(slopes, np.full(200, 6.0))
    assert np.array is ORIGINALS["array"]


@pytest.mark.parametrize("name", sorted(STAND_INS.keys() - {"fromiter", "ndenumerate"}))
def test_a_stand_in_does_what_numpy_does_without_values(name: str) -> None:
    calls: list[tuple[Any, ...]] = [
        ([[1.0, 2.0], [3.0, 4.0]],),
        ((2, 3),),
        (3,),
        ([1, 2], 0),
        ("text",),
        ([[1], [1, 2]],),
    ]

    def describe(function: Callable[..., Any], call: tuple[Any, ...]) -> Any:
        try:
            with warnings.catch_warnings(action="ignore"):
                result = function(*call)
        except (TypeError, ValueError, IndexError) as error:
            return type(error), str(error)
        numbers = np.asarray(result)
        return numbers.shape, numbers.dtype, repr(numbers.tolist()) if "empty" not in name else ""

    def f(x: Any) -> Any:
        for call in calls:
            assert describe(STAND_INS[name], call) == describe(ORIGINALS[name], call)
        return x

    wg.grad(f)(1.0)


def test_the_overlay_can_be_turned_off() -> None:
    code = "import numpy as np, wiregrad as wg"
    code += "; print(wg.grad(lambda x: np.sum(np.array([x, x * x])))(3.0), np.array.__name__)"
    code += "; print(wg.grad(lambda x: [print(type(np.zeros(1)).__name__), x][1])(3.0))"

    assert run_without_overlay(code).split() == ["7.0", "array", "ndarray", "1.0"]


def test_the_drop_in_module_has_numpys_names_and_sees_values() -> None:
    a = wg.Value(2.0)
    made = wnp.zeros(2)
    made[0] = a
    y = wnp.linalg.det([[a, 1.0], [1.0, made[0]]]) + wnp.mean([a, a]) + wnp.maximum(a, 0.0) + wnp.array([a, a])[0]
    y.backward()

    assert a.grad == pytest.approx(2 * 2.0 + 1.0 + 1.0 + 1.0)
    assert wnp.pi is np.pi
    assert wnp.ndarray is np.ndarray
    assert wnp.random is np.random
    assert wnp.exp is np.exp
    assert set(dir(wnp)) >= set(np.__all__)
    assert type(wnp.array([1.0])) is np.ndarray
    with pytest.raises(AttributeError, match="no attribute"):
        wnp.no_such_name  # noqa: B018 - it raises


def test_lists_of_arrays_that_were_filled_keep_their_gradient() -> None:
    def f(x: Any) -> Any:
        filled = np.zeros(2)
        filled[0] = x**2
        total = np.zeros(2)
        np.add.at(total, [1, 1], filled)
        joined = np.array([filled, [1.0, x]])
        return (
            np.sum(joined * np.arange(4.0).reshape(2, 2))
            + np.sum(np.stack([filled, filled]))
            + np.mean([filled, total])
        )

    assert wg.grad(f)(3.0) == pytest.approx(3.0 + 2 * 2 * 3.0 + (2 * 3.0 + 2 * 3.0) / 4)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (np.vectorize(np.dot, signature="(n),(n)->()"), OperandError, "has 2 arguments; got 1"),
        (lambda x: list(np.nditer(x)), NoRuleError, "np.nditer reads the memory of an array"),
        (lambda x: np.fromiter(("a" for _ in x), float), ValueError, "could not convert string"),
        (lambda x: np.fromiter([1.0], float, count=2) * x, ValueError, "iterator too short"),
    ],
)
def test_calls_that_numpy_refuses_are_refused(make: Callable[[Any], Any], error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        wg.grad(lambda x: np.sum(make(x)))(POINT)


def test_vectorize_with_a_signature_joins_single_results() -> None:
    def f(x: Any) -> Any:
        product: Any = np.vectorize(lambda a, b: np.sum(a * b), signature="(n),(n)->()")
        return np.prod(product(np.stack([x, x**2]), x))

    np.testing.assert_allclose(wg.grad(f)(POINT), slopes_of(f, POINT), rtol=1e-6)
