"""Long functions are not recorded at their first call, which costs no more than a gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.api.compiled_function import LONG_CODE, LONG_FUNCTION, MAX_FIRST_CODE_BYTES, MAX_FIRST_ROWS
from wiregrad.backends.replay_engines import InterpreterReplay
from wiregrad.frontends.recording.tape import RECORDER
from wiregrad.frontends.replay import outside_watches

STEPS = MAX_FIRST_ROWS // 2
IS_COUNTED = RECORDER is not None
"""Whether rows are counted while they are recorded; the Python recorder records a long function at once."""


def spin(x: Any, y: Any) -> Any:
    for _ in range(STEPS):
        x = x * 0.999 + y * 0.001
        y = y * 0.5 - x * 0.1
    return x * y


def test_the_first_call_of_a_long_function_is_not_recorded() -> None:
    fast = wg.compile(spin, argnums=(0, 1))
    wanted = wg.value_and_grad(spin, argnums=(0, 1))(0.5, 0.75)
    first = fast.value_and_grad(0.5, 0.75)
    after_first = fast.info
    found = [fast.value_and_grad(0.5, 0.75) for _ in range(3)]

    assert first == wanted
    assert after_first.records == (0 if IS_COUNTED else 1)
    assert after_first.fallbacks == (((LONG_FUNCTION, 1),) if IS_COUNTED else ())
    assert found == [wanted] * 3
    assert fast.info.records == 1


def test_its_value_is_that_of_the_function() -> None:
    fast = wg.compile(spin)
    found = [fast(0.5, 0.75) for _ in range(4)]

    assert found == [spin(0.5, 0.75)] * 4
    assert {type(y) for y in found} == {float}
    assert fast.info.records == 1


def test_short_functions_are_recorded_at_once() -> None:
    fast = wg.compile(lambda x: x * x)
    fast(2.0)

    assert fast.info.records == 1


def test_what_a_long_function_prints_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: Any) -> Any:
        print("begin")  # noqa: T201
        return spin(x, x)

    fast = wg.compile(f)
    fast(0.5)
    printed = capsys.readouterr().out

    assert printed == "begin\n"
    assert fast.info.records == 1


def test_printing_by_another_name_is_noticed(capsys: pytest.CaptureFixture[str]) -> None:
    show = print

    def f(x: Any) -> Any:
        show("begin")
        return spin(x, x)

    wg.compile(f)(0.5)

    assert capsys.readouterr().out == "begin\n"


def test_what_a_long_function_changes_outside_is_changed_once() -> None:
    log: list[str] = []

    def f(x: Any) -> Any:
        log.append("called")
        return spin(x, x)

    fast = wg.compile(f)
    found = [fast(0.5) for _ in range(6)]

    assert log == ["called"] * 6
    assert found == [spin(0.5, 0.5)] * 6


def test_no_recorded_value_is_left_outside() -> None:
    kept: dict[str, Any] = {}

    def f(x: Any) -> Any:
        kept["x"] = x * 2.0
        return spin(x, x)

    wg.compile(f)(0.5)

    assert kept == {"x": 1.0}


def test_an_error_of_a_long_function_is_raised() -> None:
    def f(x: Any) -> Any:
        y = spin(x, x)
        if x > 1.0:
            raise ValueError("too large")
        return y

    fast = wg.compile(f)
    for _ in range(2):
        with pytest.raises(ValueError, match="too large"):
            fast(2.0)
    with pytest.raises(ValueError, match="too large"):
        fast.value_and_grad(2.0)

    assert fast(0.5) == f(0.5)


@pytest.mark.parametrize("at_first", [True, False])
def test_infinities_are_those_of_later_calls(at_first: bool) -> None:
    def f(x: Any) -> Any:
        return spin(x, x) + 1.0 / x

    fast = wg.compile(f)
    points = [0.0, 0.5, 0.0] if at_first else [0.5, 0.5, 0.0]
    found = [fast(x) for x in points]

    assert found[-1] == np.inf
    assert found[0] == (np.inf if at_first else f(0.5))


def test_a_function_that_catches_everything_is_answered_rightly() -> None:
    def f(x: Any) -> Any:
        y = x
        try:
            y = spin(x, x)
        except BaseException:
            y = x * 0.0
        return y + x

    fast = wg.compile(f)
    found = [fast.value_and_grad(0.5) for _ in range(3)]

    assert found == [wg.value_and_grad(f)(0.5)] * 3


def test_arguments_are_not_changed_by_the_first_call() -> None:
    def f(p: list[Any], counts: Any) -> Any:
        y = spin(p[0], p[1])
        p[0] = 0.0
        return y * counts[0]

    fast = wg.compile(f)
    point, counts = [0.5, 0.75], np.array([1, 2])
    found = [fast(point, counts) for _ in range(3)]

    assert point == [0.5, 0.75]
    assert found == [spin(0.5, 0.75)] * 3


def test_structures_and_classes_of_results_are_those_of_later_calls() -> None:
    def f(x: Any, n: int) -> Any:
        y = spin(x, x)
        return {"y": y, "sign": y > 0.0, "n": n, "both": (y * 2.0, [np.float64(1.5)])}

    fast = wg.compile(f)
    first, second, third = (fast(0.5, 3) for _ in range(3))

    assert first == second == third == f(0.5, 3)
    assert repr(first) == repr(second) == repr(third)


def test_every_kind_of_call_has_a_first_one() -> None:
    fast = wg.compile(lambda p: spin(*p))
    for p in ([0.5, 0.75], (0.5, 0.75), [0.5, 0.75]):
        fast(p)

    assert fast.info.records == (1 if IS_COUNTED else 2)
    assert dict(fast.info.fallbacks).get(LONG_FUNCTION, 0) == (2 if IS_COUNTED else 0)


def test_jacobians_and_batches_of_long_functions_are_right() -> None:
    fast = wg.compile(spin, argnums=(0, 1))
    wanted = wg.value_and_grad(spin, argnums=(0, 1))(0.5, 0.75)
    values, slopes = fast.batch_value_and_grad(np.array([0.5, 0.5, 0.5]), 0.75)

    np.testing.assert_allclose(values, [wanted[0]] * 3, rtol=1e-12)
    np.testing.assert_allclose(slopes[0], [wanted[1][0]] * 3, rtol=1e-12)
    np.testing.assert_allclose(slopes[1], [wanted[1][1]] * 3, rtol=1e-12)


def write_long_code(lines: int) -> Callable[..., Any]:
    """Return a function with many lines that does not run most of them."""
    rarely = "\n".join(["        x = x * 0.999 + y"] * lines)
    scope: dict[str, Any] = {"scale": 3.0}
    exec(f"def f(x, y):\n    if x > 100.0:\n{rarely}\n    return x * y * scale", scope)
    function: Callable[..., Any] = scope["f"]
    return function


LONG_CODE_LINES = MAX_FIRST_CODE_BYTES // 8


def test_the_first_gradient_of_long_code_does_not_read_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    f = write_long_code(LONG_CODE_LINES)
    read = []
    add_code = outside_watches._ReadCollector.add_code
    monkeypatch.setattr(
        outside_watches._ReadCollector,
        "add_code",
        lambda self, code: (read.append(code), add_code(self, code))[1],
    )
    fast = wg.compile(f, argnums=(0, 1))
    first = fast.value_and_grad(0.5, 0.75)
    read_by_first = len(read)
    after_first = fast.info
    second = fast.value_and_grad(0.5, 0.75)

    assert first == second == (1.125, (2.25, 1.5))
    assert read_by_first == 0
    assert f.__code__ in read
    assert (after_first.records, after_first.fallbacks) == (0, ((LONG_CODE, 1),))
    assert fast.info.records == 1


def test_after_its_first_gradient_long_code_is_like_any_other() -> None:
    f = write_long_code(LONG_CODE_LINES)
    fast = wg.compile(f)
    found = []
    for k in range(6):
        f.__globals__["scale"] = 3.0 + k // 3
        found.append(fast.value_and_grad(0.5, 0.75))

    assert found == [(1.125, 2.25)] * 3 + [(1.5, 3.0)] * 3


def test_a_value_of_long_code_is_recorded_at_once() -> None:
    fast = wg.compile(write_long_code(LONG_CODE_LINES))

    assert fast(0.5, 0.75) == 1.125
    assert fast.info.records == 1


def test_code_that_is_not_long_is_recorded_at_its_first_gradient() -> None:
    fast = wg.compile(write_long_code(100))
    fast.value_and_grad(0.5, 0.75)

    assert fast.info.records == 1


def test_an_error_in_the_first_gradient_of_long_code_is_that_of_the_function() -> None:
    f = write_long_code(LONG_CODE_LINES)
    del f.__globals__["scale"]

    with pytest.raises(NameError, match="scale"):
        wg.compile(f).value_and_grad(0.5, 0.75)


def turn_vector(x: Any) -> Any:
    for _ in range(STEPS):
        x = np.stack([x[0] - 0.01 * x[1], x[1] + 0.01 * x[0]])
    return np.sum(x * x)


def test_long_functions_of_small_arrays_are_recorded_at_once() -> None:
    fast = wg.compile(turn_vector)
    start = np.array([1.0, 0.5])
    value, gradient = fast.value_and_grad(start)

    assert fast.info.records == 1
    assert value == turn_vector(start)
    np.testing.assert_array_equal(gradient, wg.grad(turn_vector)(start))


def test_long_functions_of_large_arrays_are_not_recorded_at_once() -> None:
    def f(x: Any) -> Any:
        for _ in range(MAX_FIRST_ROWS):
            x = x * 0.999 + 0.001
        return np.sum(x)

    fast = wg.compile(f)
    fast(np.ones(100))

    assert fast.info.records == (0 if IS_COUNTED else 1)


def test_recordings_that_native_code_reproduces_are_not_interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(InterpreterReplay, "compute_results", lambda self, inputs: asked.append(self))
    found = wg.compile(turn_vector)(np.array([1.0, 0.5]))

    assert found == turn_vector(np.array([1.0, 0.5]))
    assert not asked


def test_recordings_that_depend_on_hidden_state_are_not_replayed() -> None:
    rng = np.random.default_rng(0)
    fast = wg.compile(lambda x: x * np.ones(3) * rng.uniform())
    found = [float(fast(np.array([1.0, 2.0, 3.0]))[0]) for _ in range(3)]

    assert len(set(found)) == 3


def test_results_are_compiled_after_the_gradient_of_arrays() -> None:
    fast = wg.compile(lambda x, y: np.sum(np.tanh(x) * y), argnums=1)
    x = np.linspace(-1.0, 1.0, 1000)
    y = np.cos(x)
    value, gradient = fast.value_and_grad(x, y)

    np.testing.assert_allclose(gradient, np.tanh(x), rtol=1e-14)
    assert fast.info.variants[0].tier == "arrays"
    assert fast(x, y) == value
    assert fast.info.records == 1


def test_results_without_native_code_are_interpreted_after_the_gradient() -> None:
    fast = wg.compile(lambda x: np.sum(np.abs(np.fft.fft(x)) ** 2))
    x = np.linspace(-1.0, 1.0, 1000)
    value, _ = fast.value_and_grad(x)
    found = [fast(x) for _ in range(3)]

    np.testing.assert_allclose(found, value, rtol=1e-12)
    assert fast.info.records == 1


def test_branches_are_checked_by_the_gradient_of_arrays() -> None:
    def f(x: Any) -> Any:
        return np.sum(x * x) if np.sum(x) > 0.0 else np.sum(x)

    fast = wg.compile(f)
    x = np.linspace(0.5, 1.0, 1000)

    np.testing.assert_allclose(fast.value_and_grad(x)[1], 2.0 * x)
    np.testing.assert_allclose(fast.value_and_grad(-x)[1], np.ones(1000))
    np.testing.assert_allclose(fast.value_and_grad(x)[1], 2.0 * x)
    assert fast.info.records == 2
