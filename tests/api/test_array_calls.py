"""Calls of compiled functions on arrays: after the first ones, one native function answers those that are alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.api.compiled_function import CompiledFunction
from wiregrad.backends.native_arrays import array_program

SIZE = 3_000
"""More elements than are computed number by number."""
SCALE = [1.0]


def total(x: Any, w: Any, b: Any) -> Any:
    return np.sum(np.tanh(x * w + b))


def branch(x: Any, w: Any, b: Any) -> Any:
    if np.sum(x) > 0.0:
        return np.sum(x * w) * b
    return np.sum(np.exp(x)) + b


def unused(x: Any, w: Any, b: Any) -> Any:
    return np.sum(np.sin(x)) * b


def scaled(x: Any, w: Any, b: Any) -> Any:
    return np.sum(x * w) * SCALE[0] + b


def elements(x: Any, w: Any, b: Any) -> Any:
    return np.tanh(x * w) + b


def draw(seed: int = 0, size: int = SIZE, dtype: type[np.floating] = np.float64) -> tuple[Any, Any]:
    x, w = np.random.default_rng(seed).normal(size=(2, size)).astype(dtype)
    return np.abs(x), w


def warm(f: Callable[..., Any], argnums: Any = (0, 1, 2)) -> CompiledFunction[..., Any]:
    """Return a compiled function that has answered some calls, so that a native function answers the next ones."""
    fast = wg.compile(f, argnums=argnums)
    for seed in range(5):
        if f is not elements:
            fast.value_and_grad(*draw(seed), 0.5)
        fast(*draw(seed), 0.5)
    assert fast._cache.array_calls
    return fast


def assert_same(found: Any, wanted: Any, *, is_single: bool = False) -> None:
    """Compare results with their types, structure, dtypes and shapes; `is_single` if float32 is among the numbers."""
    if isinstance(wanted, dict):
        assert list(found) == list(wanted)
        found, wanted = tuple(found.values()), tuple(wanted.values())
    if isinstance(wanted, tuple | list):
        assert type(found) is type(wanted)
        assert len(found) == len(wanted)
        for one, two in zip(found, wanted, strict=True):
            assert_same(one, two, is_single=is_single)
        return
    assert type(found) is type(wanted)
    assert np.asarray(found).dtype == np.asarray(wanted).dtype
    relative = 1e-4 if is_single else 1e-12
    largest = np.max(np.where(np.isfinite(wanted), np.abs(wanted), 0.0), initial=1.0)
    np.testing.assert_allclose(found, wanted, rtol=relative, atol=relative * largest)


@pytest.mark.parametrize("argnums", [0, 1, 2, (0,), (2, 0), (0, 1, 2), (1, 0)], ids=str)
@pytest.mark.parametrize("f", [total, branch, scaled])
def test_gradients_equal_those_of_the_plain_function(f: Callable[..., Any], argnums: Any) -> None:
    fast = warm(f, argnums)
    for seed in range(3):
        arguments = (*draw(seed), 0.25)

        assert_same(fast.value_and_grad(*arguments), wg.value_and_grad(f, argnums=argnums)(*arguments))
        assert_same(fast(*arguments), wg.compile(f)(*arguments))


UNUSUAL: dict[str, Callable[[Any, Any], tuple[Any, ...]]] = {
    "another size": lambda x, w: (x[:2_000].copy(), w[:2_000].copy(), 0.5),
    "another branch": lambda x, w: (-x, w, 0.5),
    "reversed": lambda x, w: (x[::-1], w, 0.5),
    "every other": lambda x, w: (np.repeat(x, 2)[::2], w, 0.5),
    "read-only": lambda x, w: (np.broadcast_to(x, x.shape), w, 0.5),
    "float32": lambda x, w: (x.astype(np.float32), w.astype(np.float32), 0.5),
    "one float32": lambda x, w: (x.astype(np.float32), w, 0.5),
    "a matrix": lambda x, w: (x.reshape(3, -1), w.reshape(3, -1), 0.5),
    "shapes that are broadcast": lambda x, w: (x.reshape(3, -1), w[:1_000].copy(), 0.5),
    "an array without axes": lambda x, w: (x, w, np.array(0.5)),
    "a NumPy number": lambda x, w: (x, w, np.float64(0.5)),
    "an array for a number": lambda x, w: (x, w, np.full(1, 0.5)),
    "not aligned": lambda x, w: (np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(np.float64), w, 0.5),
    "the same array twice": lambda x, w: (x, x, 0.5),
    "nan": lambda x, w: (np.where(np.arange(len(x)) == 7, np.nan, x), w, 0.5),
}


@pytest.mark.parametrize("kind", UNUSUAL)
@pytest.mark.parametrize("f", [total, branch])
def test_calls_of_another_kind_are_answered_as_before(f: Callable[..., Any], kind: str) -> None:
    fast = warm(f)
    arguments = UNUSUAL[kind](*draw(7))
    if kind == "an array for a number" and f is branch:
        arguments = (*arguments[:2], 0.75)
    wanted = wg.value_and_grad(f, argnums=(0, 1, 2))(*arguments)
    for _ in range(4):
        assert_same(fast.value_and_grad(*arguments), wanted, is_single="float32" in kind)
        plain = (*draw(1), 0.5)
        assert_same(fast.value_and_grad(*plain), wg.value_and_grad(f, argnums=(0, 1, 2))(*plain))


def test_a_function_that_returns_an_array_is_answered_natively_too() -> None:
    fast = warm(elements)
    arguments = (*draw(3), 0.5)

    assert_same(fast(*arguments), elements(*arguments))
    assert fast(*arguments) is not fast(*arguments)


def test_the_gradient_by_an_argument_that_is_not_used_is_zero() -> None:
    fast = wg.compile(unused, argnums=(0, 1, 2))
    for seed in range(6):
        arguments = (*draw(seed), 0.5)

        assert_same(fast.value_and_grad(*arguments), wg.value_and_grad(unused, argnums=(0, 1, 2))(*arguments))


def test_changed_outside_state_is_noticed() -> None:
    fast = warm(scaled)
    arguments = (*draw(3), 0.5)
    before = fast(*arguments)
    SCALE[0] = 3.0
    try:
        assert_same(fast(*arguments), float(scaled(*arguments)))
        assert_same(fast.value_and_grad(*arguments), wg.value_and_grad(scaled, argnums=(0, 1, 2))(*arguments))
    finally:
        SCALE[0] = 1.0

    assert_same(fast(*arguments), before)


def test_errors_that_numpy_shows_are_shown() -> None:
    fast = warm(branch)
    x, w = draw(0)

    with np.errstate(over="raise"), pytest.raises(FloatingPointError):
        fast(-x * 1e308 * 1e5 * 0.0 - np.where(x > 1.0, -1e4, 1e4), w, 0.5)


def test_a_transform_of_the_function_composes() -> None:
    fast = warm(total)
    x, w = draw(2)

    assert_same(wg.grad(lambda x: fast(x, w, 0.5) ** 2)(x), wg.grad(lambda x: total(x, w, 0.5) ** 2)(x))


def test_calls_and_hits_are_counted() -> None:
    fast = warm(total)
    calls, hits = fast.info.calls, fast.info.variants[0].hits
    for _ in range(10):
        fast.value_and_grad(*draw(0), 0.5)

    assert fast.info.calls - calls == fast.info.variants[0].hits - hits == 10


@pytest.mark.parametrize("f", [total, branch])
def test_functions_that_threads_share_are_answered_the_same(
    f: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(array_program, "MIN_SHARED_WORK", 0)
    monkeypatch.setattr(array_program, "MIN_PIECE_WORK", 64)
    monkeypatch.setenv("WIREGRAD_THREADS", "2")
    fast = warm(f)
    for kind in ("another branch", "another size", "float32", "reversed", "not aligned", "a NumPy number"):
        arguments = UNUSUAL[kind](*draw(7))
        wanted = wg.value_and_grad(f, argnums=(0, 1, 2))(*arguments)

        assert_same(fast.value_and_grad(*arguments), wanted, is_single=kind == "float32")
        assert_same(fast.value_and_grad(*draw(1), 0.5), wg.value_and_grad(f, argnums=(0, 1, 2))(*draw(1), 0.5))


def make_step() -> tuple[Any, list[Any]]:
    x, w = np.random.default_rng(0).normal(size=(2, 40, 30))
    return wg.trace(lambda x, w, b: np.sum(np.tanh(x * w + b) @ w.T), x, w, 0.5), [x, w, 0.5]


@pytest.mark.parametrize("native", ["1", "0"])
def test_gradients_are_written_into_arrays_of_the_caller(monkeypatch: pytest.MonkeyPatch, native: str) -> None:
    monkeypatch.setenv("WIREGRAD_NATIVE", native)
    circuit, (x, w, b) = make_step()
    compiled = circuit.compile()
    wanted_value, wanted = compiled.value_and_grad(x, w, np.array(b))
    out = [np.full_like(x, np.nan), None, None]
    value, grads = compiled.value_and_grad(x, w, np.array(b), out=out)
    named = {"w": np.empty_like(w)}
    by_name = compiled.value_and_grad(x=x, w=w, b=b, out=named)[1]

    assert value == wanted_value
    assert grads[0] is out[0]
    assert by_name["w"] is named["w"]
    for one, two in zip(grads, wanted, strict=True):
        np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(by_name["w"], wanted[1])


@pytest.mark.parametrize("native", ["1", "0"])
@pytest.mark.parametrize("dtype", [None, "float32"])
def test_outputs_are_written_into_arrays_of_the_caller(
    monkeypatch: pytest.MonkeyPatch, native: str, dtype: str | None
) -> None:
    monkeypatch.setenv("WIREGRAD_NATIVE", native)
    x = np.random.default_rng(0).normal(size=(40, 30))
    single = wg.trace(lambda x: np.tanh(x) @ x.T, x).compile(dtype)
    several = wg.trace(lambda x: {"a": np.exp(x), "b": x * 2.0}, x).compile(dtype)
    array = np.empty((40, 40), dtype or float)
    labels = several.circuit.outputs
    out = {labels[0]: np.empty((40, 30), dtype or float)}
    found = several(x, out=out)

    assert single(x, out=array) is array
    np.testing.assert_array_equal(array, single(x))
    assert found[labels[0]] is out[labels[0]]
    for label in labels:
        np.testing.assert_array_equal(found[label], several(x)[label])


def test_a_gradient_that_is_absent_is_written_as_zeros() -> None:
    x = np.ones((30, 40))
    compiled = wg.trace(lambda x, w: np.sum(np.sin(x)) + np.sum(w > 0.0), x, x).compile()
    out = (np.full_like(x, np.nan), np.full_like(x, np.nan))
    _, grads = compiled.value_and_grad(x, x + 1.0, out=out)

    assert [one is two for one, two in zip(grads, out, strict=True)] == [True, True]
    np.testing.assert_array_equal(grads[1], np.zeros_like(x))
    np.testing.assert_array_equal(grads[0], np.cos(x))


def test_arrays_of_the_caller_are_not_used_again_for_other_results() -> None:
    x = np.ones((300, 300))
    compiled = wg.trace(np.exp, x).compile()
    array = np.empty_like(x)
    compiled(x, out=array)
    kept = array.copy()
    for scale in (2.0, 3.0):
        compiled(scale * x)
        compiled.value(scale * x)

    np.testing.assert_array_equal(array, kept)


WRONG_OUT: dict[str, tuple[Callable[..., Any], type[Exception], str]] = {
    "another shape": (lambda x, w: [np.empty((30, 40)), None, None], wg.errors.ShapeError, r"\(30, 40\).*\(40, 30\)"),
    "another dtype": (lambda x, w: [np.empty_like(x, np.float32), None, None], wg.errors.OperandError, "float32"),
    "not contiguous": (lambda x, w: [np.empty((30, 40)).T, None, None], wg.errors.OperandError, "C-contiguous"),
    "read-only": (lambda x, w: [np.broadcast_to(0.0, x.shape), None, None], wg.errors.OperandError, "writable"),
    "an argument": (lambda x, w: [None, x, None], wg.errors.OperandError, "for w shares memory"),
    "twice": (lambda x, w: [(g := np.empty_like(x)), g, None], wg.errors.OperandError, "for x shares memory"),
    "a list": (lambda x, w: [x.tolist(), None, None], wg.errors.OperandError, "NumPy arrays; got list for x"),
    "a number": (lambda x, w: [None, None, np.empty(())], wg.errors.OperandError, "for b is a number"),
    "too few": (lambda x, w: [np.empty_like(x)], wg.errors.InputError, "3 arrays.*got 1 element"),
    "one array": (lambda x, w: np.empty_like(x), wg.errors.InputError, "3 arrays.*got ndarray"),
    "another name": (lambda x, w: {"y": np.empty_like(x)}, wg.errors.InputError, "'y'; the results are x, w, b"),
}


@pytest.mark.parametrize("native", ["1", "0"])
@pytest.mark.parametrize("name", WRONG_OUT)
def test_arrays_that_cannot_be_written_to_are_refused(monkeypatch: pytest.MonkeyPatch, name: str, native: str) -> None:
    monkeypatch.setenv("WIREGRAD_NATIVE", native)
    make_out, error, message = WRONG_OUT[name]
    circuit, (x, w, b) = make_step()
    before = x.copy()

    with pytest.raises(error, match=message):
        circuit.compile().value_and_grad(x, w, np.array(b), out=make_out(x, w))

    np.testing.assert_array_equal(x, before)


def test_an_input_called_out_is_an_input() -> None:
    x = np.arange(6.0).reshape(2, 3)
    compiled = wg.trace(lambda out: np.sum(out * out), x).compile()

    np.testing.assert_array_equal(compiled.value_and_grad(out=x)[1]["out"], 2.0 * x)


def test_circuits_of_numbers_know_no_out() -> None:
    with pytest.raises(wg.errors.InputError, match="out"):
        wg.circuit("x * x").compile().value_and_grad(x=1.0, out=np.empty(1))


def add_layers(layers: Any, x: Any, *rest: Any) -> Any:
    parts = layers.values() if isinstance(layers, dict) else layers
    total = np.sum(np.tanh(x))
    for k, part in enumerate([*parts, *rest]):
        total = total + np.sum(np.sin(part * (k + 1.0)) * x)
    return total


def draw_layers(seed: int, dtype: type[np.floating] = np.float64) -> list[Any]:
    return list(np.random.default_rng(seed).normal(size=(4, 2_000)).astype(dtype))


STRUCTURES: dict[str, Callable[[list[Any]], tuple[Any, ...]]] = {
    "list": lambda parts: (parts[:3], parts[3]),
    "tuple": lambda parts: (tuple(parts[:2]), parts[2], parts[3]),
    "dict": lambda parts: ({"b": parts[0], "a": parts[1]}, parts[2]),
    "a float beside it": lambda parts: ([parts[0], 0.5], parts[1], 2.0),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("argnums", [0, (1, 0), (0,)])
@pytest.mark.parametrize("name", STRUCTURES)
def test_calls_on_containers_of_arrays_are_answered_natively(name: str, argnums: Any, dtype: type[np.floating]) -> None:
    fast = wg.compile(add_layers, argnums=argnums)
    for seed in range(6):
        args = STRUCTURES[name](draw_layers(seed, dtype))
        value, grads = fast.value_and_grad(*args)
        wanted_value, wanted = wg.value_and_grad(add_layers, argnums)(*args)
        assert_same((value, grads), (wanted_value, wanted), is_single=dtype is np.float32)
        assert_same(fast(*args), wanted_value, is_single=dtype is np.float32)
    native = [call for (gradient, _), call in fast._cache.array_calls.items() if gradient]

    # A float beside float32 is a number of another type, which native calls do not read.
    assert len(native) == 1 or (name == "a float beside it" and dtype is np.float32)


def test_containers_of_another_structure_are_told_apart() -> None:
    def weigh(one: Any, two: Any) -> Any:
        return sum(np.sum(x) for x in one) + 10.0 * sum(np.sum(x * x) for x in two)

    fast = wg.compile(weigh, argnums=(0, 1))
    a, b, c = np.random.default_rng(0).normal(size=(3, 2_000))
    for _ in range(4):
        for args in (([a], [b, c]), ([a, b], [c]), ((a, b), [c]), ([a, b, c], [])):
            assert_same(fast.value_and_grad(*args), wg.value_and_grad(weigh, (0, 1))(*args))


def test_names_and_their_order_tell_dicts_apart() -> None:
    def subtract(parts: Any) -> Any:
        return np.sum(parts["a"]) - np.sum(parts["b"] * parts["b"])

    fast = wg.compile(subtract)
    a, b = np.random.default_rng(0).normal(size=(2, 2_000))
    for _ in range(4):
        for parts in ({"a": a, "b": b}, {"b": b, "a": a}, {"b": a, "a": b}):
            assert_same(fast.value_and_grad(parts), wg.value_and_grad(subtract)(parts))


def test_containers_that_hold_something_else_are_answered_in_python() -> None:
    fast = wg.compile(add_layers)
    parts = draw_layers(0)
    for _ in range(4):
        fast.value_and_grad(parts[:3], parts[3])
    for other in ([parts[0], parts[1], 2], [parts[0], [parts[1]], parts[2]], [parts[0], parts[1][:5], parts[2][:5]]):
        with_other = wg.value_and_grad(add_layers)
        try:
            wanted = with_other(other, parts[3])
        except (TypeError, ValueError) as error:
            with pytest.raises(type(error)):
                fast.value_and_grad(other, parts[3])
        else:
            assert_same(fast.value_and_grad(other, parts[3]), wanted)
