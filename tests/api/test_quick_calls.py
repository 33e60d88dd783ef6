"""Calls of compiled functions that C answers: the same results as in Python, and never a stale one."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable
from types import MethodType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.api import compiled_function
from wiregrad.backends.replay_engines import InterpreterReplay
from wiregrad.errors import GradientError
from wiregrad.frontends.recording.arguments import flatten
from wiregrad.frontends.recording.tape import RECORDER

from ..support.sampling import sample_pairs
from ..support.threads import run_in_threads


def has_quick_answers(fast: Any, count: int) -> bool:
    """Return whether C has answered at least so many calls; without the extension Python answers all of them."""
    return RECORDER is None or sum(quick.hits for quick in fast._quick_calls.values()) >= count


def total(*args: Any) -> Any:
    """Return a number that depends on every number in the arguments, each in its own way."""
    leaves = flatten(args)[0]
    y: Any = 0.25
    for k, leaf in enumerate(leaves):
        if isinstance(leaf, np.ndarray | wg.Value) and getattr(leaf, "ndim", 0):
            y = y + (k + 1) * np.sum(np.tanh(leaf) * leaf)
        elif not isinstance(leaf, str | bool | None):
            y = y * 0.5 + (k + 1) * leaf * leaf
    return y


ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "floats": (1.5, -2.0, 0.25),
    "NumPy numbers": (np.float64(1.5), np.float64(-2.0)),
    "a list": ([1.5, -2.0, 0.25],),
    "a tuple": ((1.5, -2.0),),
    "a dict": ({"b": 1.5, "a": -2.0},),
    "an array": (np.array([1.5, -2.0, 0.25]),),
    "a matrix": (np.array([[1.5, -2.0], [0.25, 3.0]]),),
    "nested": ({"w": [1.5, (np.float64(2.0), 3.0)], "b": np.array([0.5, 0.25])}, 4.0),
    "fixed": (1.5, 3, "text", None, True, [2.0]),
    "empty": (1.5, [], {}, ()),
    "thirty-two": ([k / 8 for k in range(16)], {f"x{k}": k / 4 for k in range(16)}),
}


def list_real_positions(args: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(k for k, arg in enumerate(args) if any(isinstance(x, float | np.ndarray) for x in flatten(arg)[0]))


def assert_same(one: Any, two: Any) -> None:
    """Compare two results by structure, by the classes of their numbers, and by their numbers."""
    if isinstance(one, dict):
        assert list(one) == list(two)
        one, two = list(one.values()), list(two.values())
    if isinstance(one, list | tuple):
        assert type(one) is type(two)
        assert len(one) == len(two)
        for a, b in zip(one, two, strict=True):
            assert_same(a, b)
        return
    assert type(one) is type(two)
    if isinstance(one, str | bytes):
        assert one == two
    elif one is not None:
        np.testing.assert_allclose(one, two, rtol=1e-14)


@pytest.mark.parametrize("name", ARGUMENTS)
def test_c_answers_with_the_structure_and_the_numbers_of_value_and_grad(name: str) -> None:
    args = ARGUMENTS[name]
    places = list_real_positions(args)
    fast = wg.compile(total, argnums=places)
    plain = wg.value_and_grad(total, argnums=places)
    for _ in range(3):
        fast(*args)
        fast.value_and_grad(*args)
    moved = wg.tree_map(lambda x: x * 1.5 if isinstance(x, float | np.ndarray) else x, args)

    assert_same(fast.value_and_grad(*moved), plain(*moved))
    assert_same(fast(*moved), plain(*moved)[0])
    assert has_quick_answers(fast, 4)
    assert fast.info.records == 1


@pytest.mark.parametrize("name", ARGUMENTS)
def test_results_do_not_depend_on_the_extension(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    args = ARGUMENTS[name]
    places = list_real_positions(args)
    fast = wg.compile(total, argnums=places)
    results = [(fast(*args), fast.value_and_grad(*args)) for _ in range(3)]
    monkeypatch.setattr(compiled_function, "HAS_QUICK_CALLS", False)
    slow = wg.compile(total, argnums=places)
    others = [
        (compiled_function.call_slowly(slow, *args), MethodType(type(slow).value_and_grad, slow)(*args))
        for _ in range(3)
    ]

    assert not slow._quick_calls
    assert_same(results, others)


class Own(float):
    """A float of one's own class, whose methods must not run unseen."""


OTHERS: dict[str, tuple[tuple[Any, ...], list[tuple[Any, ...]]]] = {
    "floats": ((1.5, 2.0), [(1, 2.0), (True, 2.0), (np.float64(1.5), 2.0), (np.float32(1.5), 2.0), (Own(1.5), 2.0)]),
    "a list": (([1.5, 2.0],), [((1.5, 2.0),), ([1.5],), ([1.5, 2.0, 3.0],), ([1.5, 2],), (np.array([1.5, 2.0]),)]),
    "a dict": (
        ({"a": 1.5, "b": 2.0},),
        [({"b": 2.0, "a": 1.5},), ({"a": 1.5, "c": 2.0},), ({"a": 1.5},), (OrderedDict(a=1.5, b=2.0),)],
    ),
    "an array": (
        (np.array([1.5, 2.0]),),
        [
            (np.array([1.5, 2.0, 3.0]),),
            (np.array([[1.5, 2.0]]),),
            (np.array([1.5, 2.0], np.float32),),
            (np.array([1.5, 0.0, 2.0, 0.0])[::2],),
            (np.array([1.5, 2.0], ">f8"),),
        ],
    ),
    "fixed": ((1.5, 3, "text", None), [(1.5, 4, "text", None), (1.5, 3, "texts", None), (1.5, 3, "text", False)]),
}


@pytest.mark.parametrize("name", OTHERS)
def test_arguments_of_another_structure_are_told_apart(name: str) -> None:
    known, others = OTHERS[name]
    fast = wg.compile(total)
    for _ in range(3):
        fast(*known)
    for args in others:
        for _ in range(3):
            np.testing.assert_allclose(fast(*args), wg.Value(total(*args)).data, rtol=1e-6)
            np.testing.assert_allclose(fast(*known), wg.Value(total(*known)).data, rtol=1e-14)


class Model:
    scale = 2.0

    def __init__(self) -> None:
        self.weight = 3.0

    def loss(self, x: Any) -> Any:
        return x * self.weight * self.scale


class Slotted:
    __slots__ = ("weight",)

    def __init__(self) -> None:
        self.weight = 3.0


def make_outside_state() -> Any:
    """Return a namespace of everything that the functions below read, fresh for each test."""
    return SimpleNamespace(
        items=[2.0, 3.0],
        table={"a": 2.0},
        array=np.array([2.0, 3.0]),
        model=Model(),
        slotted=Slotted(),
        queue=deque([2.0]),
        numbers=bytearray(b"\x02\x03"),
        function=lambda x, k=2.0: k * x,
        columns=np.arange(6.0).reshape(2, 3).T,
    )


def change_default(state: Any) -> None:
    state.function.__defaults__ = (5.0,)


def change_code(state: Any) -> None:
    state.function.__code__ = (lambda x, k=2.0: k * x + 1.0).__code__


def change_class(state: Any) -> None:
    Model.scale = 7.0


READS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any], None]]] = {
    "an element of a list": (lambda s, x: s.items[0] * x, lambda s: s.items.__setitem__(0, 5.0)),
    "the length of a list": (lambda s, x: len(s.items) * x, lambda s: s.items.append(1.0)),
    "an emptied list": (lambda s, x: sum(s.items) * x, lambda s: s.items.clear()),
    "a value of a dict": (lambda s, x: s.table["a"] * x, lambda s: s.table.update(a=5.0)),
    "a key of a dict": (lambda s, x: len(s.table) * x, lambda s: s.table.update(b=5.0)),
    "the order of a dict": (
        lambda s, x: next(iter(s.table.values())) * x,
        lambda s: (s.table.update(b=9.0), s.table.update(a=s.table.pop("a"))),
    ),
    "an array": (lambda s, x: s.array[0] * x, lambda s: s.array.__setitem__(0, 5.0)),
    "a view": (lambda s, x: s.columns[1, 0] * x, lambda s: s.columns.__setitem__((1, 0), 5.0)),
    "an attribute": (lambda s, x: s.model.weight * x, lambda s: setattr(s.model, "weight", 5.0)),
    "an attribute of a class": (lambda s, x: s.model.loss(x), change_class),
    "an attribute that hides one of a class": (lambda s, x: s.model.loss(x), lambda s: setattr(s.model, "scale", 5.0)),
    "a slot": (lambda s, x: s.slotted.weight * x, lambda s: setattr(s.slotted, "weight", 5.0)),
    "a queue": (lambda s, x: s.queue[0] * x, lambda s: s.queue.appendleft(5.0)),
    "bytes": (lambda s, x: s.numbers[0] * x, lambda s: s.numbers.__setitem__(0, 5)),
    "a default": (lambda s, x: s.function(x), change_default),
    "code": (lambda s, x: s.function(x), change_code),
    "a variable": (lambda s, x: s.items[0] * x, lambda s: setattr(s, "items", [5.0])),
}


@pytest.mark.parametrize("name", READS)
def test_a_change_outside_is_noticed_by_the_next_call(name: str) -> None:
    read, change = READS[name]
    state = make_outside_state()
    fast = wg.compile(lambda x: read(state, x))
    before = [(fast(2.0), fast.value_and_grad(2.0)) for _ in range(3)]
    try:
        change(state)
        after = [(fast(2.0), fast.value_and_grad(2.0)) for _ in range(3)]
        wanted = read(state, 2.0), (read(state, 2.0), wg.grad(lambda x: read(state, x))(2.0))
    finally:
        Model.scale = 2.0

    assert wanted != before[0]
    assert before == [before[0]] * 3
    assert after == [wanted] * 3


@pytest.mark.parametrize("name", READS)
def test_what_does_not_change_outside_is_compared_in_c(name: str) -> None:
    state, read = make_outside_state(), READS[name][0]
    fast = wg.compile(lambda x: read(state, x))
    for _ in range(6):
        fast.value_and_grad(2.0)

    assert has_quick_answers(fast, 3)


def test_a_variable_that_changes_back_and_forth_is_followed() -> None:
    scale = 2.0

    def f(x: Any) -> Any:
        return scale * x

    fast = wg.compile(f)
    found = []
    for k in range(12):
        scale = float(k // 2 % 2 + 2)
        found.append((fast(1.5), fast.value_and_grad(1.5)[1]))

    assert found == [(1.5 * (k // 2 % 2 + 2), float(k // 2 % 2 + 2)) for k in range(12)]


def branches(x: Any, y: Any) -> Any:
    steps = 0
    while x > 1.0:
        x = x / 2.0
        steps = steps + 1
    return x * y * steps + (y if y > 0.5 else -x)


class Namespace:
    """An object whose attributes are the globals of a function."""


GLOBAL_CHANGES: dict[str, Callable[[dict[str, Any], Any], object]] = {
    "stored": lambda names, number: names.__setitem__("scale", number),
    "updated": lambda names, number: names.update(scale=number),
    "merged": lambda names, number: names.__ior__({"scale": number}),
    "by a statement": lambda names, number: exec(f"scale = {number!r}", names),
    "by a global statement": lambda names, number: names["set_scale"](number),
    "deleted first": lambda names, number: (names.pop("scale"), names.setdefault("scale", number)),
    "by the object": lambda names, number: setattr(names["owner"], "scale", number) if "owner" in names else None,
}


@pytest.mark.parametrize("kind", ["a dict", "attributes"])
@pytest.mark.parametrize("change", sorted(GLOBAL_CHANGES))
def test_every_way_to_change_a_global_is_noticed(change: str, kind: str) -> None:
    owner = Namespace()
    names: dict[str, Any] = {} if kind == "a dict" else vars(owner)
    exec("scale = 2.0\ndef f(x): return scale * x\ndef set_scale(y):\n    global scale\n    scale = y\n", names)
    if kind == "attributes":
        names["owner"] = owner
    fast = wg.compile(names["f"])
    for number in (3.0, 4.0, 3.0):
        GLOBAL_CHANGES[change](names, number)
        names["other"] = number
        answers = [fast(5.0) for _ in range(4)]

        assert answers == [5.0 * names["scale"]] * 4


def test_a_name_that_hides_a_builtin_is_noticed() -> None:
    names: dict[str, Any] = {}
    exec("def f(x): return abs(x) * 2.0\n", names)
    fast = wg.compile(names["f"])
    before = [fast(-5.0) for _ in range(4)]
    names["abs"] = lambda x: x

    assert (before, fast(-5.0)) == ([10.0] * 4, -10.0)


def test_branches_lead_to_the_right_recording_in_c() -> None:
    fast = wg.compile(branches, argnums=(0, 1), limit=100)
    plain = wg.value_and_grad(branches, argnums=(0, 1))
    rng = np.random.default_rng(3)
    for x, y in (rng.random((400, 2)) * [9.0, 1.0]).tolist():
        assert fast.value_and_grad(x, y) == plain(x, y)
        assert fast(x, y) == branches(x, y)
    info = fast.info

    assert info.calls == 800
    assert info.records == len(info.variants) < 20
    assert sum(variant.hits for variant in info.variants) + info.records == info.calls


def test_inside_a_transform_the_function_itself_runs() -> None:
    fast = wg.compile(lambda x: x * x * x)
    for _ in range(3):
        fast(2.0), fast.value_and_grad(2.0)

    assert wg.grad(fast)(2.0) == 12.0
    assert wg.grad(lambda x: fast.value_and_grad(x)[1])(2.0) == 12.0
    assert fast(wg.Value(2.0)).data == 8.0


def test_error_settings_and_conventions_are_respected_after_quick_calls() -> None:
    fast = wg.compile(lambda x: abs(x) / x)
    kink = wg.compile(abs)
    for _ in range(3):
        fast(2.0), kink.value_and_grad(0.0)
    usual = kink.value_and_grad(0.0)
    with np.errstate(divide="raise", invalid="raise"), pytest.raises((FloatingPointError, ZeroDivisionError)):
        fast(0.0)
    with wg.convention("jax"):
        other = kink.value_and_grad(0.0)

    assert usual == (0.0, 0.0)
    assert other == (0.0, 1.0)
    assert kink.value_and_grad(0.0) == usual


def test_wrong_calls_raise_what_they_raise_in_python() -> None:
    fast = wg.compile(lambda x: x * x)
    for _ in range(3):
        fast.value_and_grad(2.0)
    with pytest.raises(TypeError):
        fast.value_and_grad()
    with pytest.raises(TypeError):
        fast(2.0, 3.0)
    with pytest.raises(GradientError):
        wg.compile(lambda x: [x]).value_and_grad(2.0)


def test_keywords_and_methods_still_work() -> None:
    class Scaled:
        @wg.compile
        def double(self, x: Any) -> Any:
            return 2.0 * x

    fast = wg.compile(lambda x, y: x * y)
    for _ in range(3):
        fast(2.0, 3.0)

    assert fast(2.0, y=4.0) == 8.0
    assert fast.value_and_grad(2.0, y=4.0) == (8.0, 4.0)
    assert Scaled().double(3.0) == 6.0


def test_a_gradient_function_from_outside_is_followed() -> None:
    scale = 2.0
    inner = wg.compile(lambda x: scale * x * x)
    both = inner.value_and_grad
    outer = wg.compile(lambda x: both(x)[1] + x)
    first = [outer(3.0) for _ in range(3)]
    scale = 5.0

    assert first == [15.0] * 3
    assert [outer(3.0) for _ in range(3)] == [33.0] * 3


def test_a_function_that_calls_itself_from_a_finalizer_gives_right_results() -> None:
    fast = wg.compile(lambda p: p["a"] * p["b"])
    seen = []

    class Caller:
        def __init__(self) -> None:
            self.cycle = self

        def __del__(self) -> None:
            seen.append(fast.value_and_grad({"a": 100.0, "b": 200.0}))

    for _ in range(3):
        fast.value_and_grad({"a": 2.0, "b": 3.0})
    threshold = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for k in range(200):
            Caller()
            assert fast.value_and_grad({"a": 2.0, "b": float(k)}) == (2.0 * k, {"a": float(k), "b": 2.0})
    finally:
        gc.set_threshold(*threshold)

    assert set(map(str, seen)) == {"(20000.0, {'a': 200.0, 'b': 100.0})"}


def test_threads_get_their_own_answers() -> None:
    fast = wg.compile(lambda p, k: np.exp(p[0]) * p[1] * k)
    wrong = []

    def call(number: float) -> None:
        for k in range(300):
            value, slopes = fast.value_and_grad([0.0, float(k)], number)
            if (value, slopes) != (k * number, [k * number, number]):
                wrong.append((number, k, value, slopes))

    run_in_threads(call, [1.0, 2.0, 3.0, 4.0], interval=1e-6)

    assert not wrong


@wg.compile
def tripled(x: Any) -> Any:
    return 3.0 * x


def test_its_gradient_is_pickled_and_copied_as_a_method_is() -> None:
    step = tripled.value_and_grad
    for _ in range(3):
        step(2.0)

    assert pickle.loads(pickle.dumps(step))(2.0) == (6.0, 3.0)
    assert copy.copy(step)(2.0) == copy.deepcopy(step)(2.0) == (6.0, 3.0)
    assert copy.copy(wg.compile(lambda x: x * x).value_and_grad)(3.0) == (9.0, 6.0)


def test_functions_that_are_gone_are_collected() -> None:
    freed = []

    class Witness:
        def __call__(self, x: Any) -> Any:
            return x * x

        def __del__(self) -> None:
            freed.append(True)

    fast = wg.compile(Witness())
    for _ in range(3):
        fast.value_and_grad(2.0)
    del fast
    gc.collect()

    assert freed == [True]


def test_clear_forgets_what_c_answers_with() -> None:
    fast = wg.compile(lambda x: x * x)
    step = fast.value_and_grad
    for _ in range(4):
        step(2.0)
    fast.clear()

    assert (fast.info.calls, fast.info.records) == (0, 0)
    assert step(3.0) == (9.0, 6.0)
    assert (fast.info.calls, fast.info.records) == (1, 1)


def _integrate(p: Any) -> Any:
    s = np.array([1.0, 1.0, 1.0])
    for _ in range(4):
        slope = np.array([p[0] * (s[1] - s[0]), s[0] * (p[1] - s[2]) - s[1], s[0] * s[1] - p[2] * s[2]])
        s = s + 0.01 * slope
    return s[0] + s[1] * s[2]


def _fill(p: Any) -> Any:
    out = np.zeros(3)
    for k in range(3):
        out[k] = p[k] * p[(k + 1) % 3]
    return np.sum(out * out)


ARRAY_FUNCTIONS: dict[str, tuple[Callable[..., Any], Any]] = {
    "state in an array": (lambda p: _integrate(np.array(p)), [10.0, 28.0, 2.5]),
    "an array as the argument": (_integrate, np.array([10.0, 28.0, 2.5])),
    "filled": (_fill, np.array([0.5, 0.25, 2.0])),
    "matrix times vector": (lambda p: np.sum(np.tanh(np.reshape(p, (2, 2)) @ p[:2])), np.array([1.0, 2.0, 3.0, 4.0])),
    "a branch on elements": (lambda p: np.sum(p * p) if p[0] < p[1] else np.prod(p), np.array([1.0, 2.0, 3.0])),
}


@pytest.mark.parametrize("name", ARRAY_FUNCTIONS)
def test_small_arrays_become_scalars(name: str) -> None:
    f, p = ARRAY_FUNCTIONS[name]
    fast = wg.compile(f)
    for factor in (1.0, 1.25, -1.0, 1.0, 1.25):
        moved = [x * factor for x in p] if isinstance(p, list) else p * factor
        value, slopes = fast.value_and_grad(moved)
        wanted, wanted_slopes = wg.value_and_grad(f)(moved)

        assert type(slopes) is type(p)
        np.testing.assert_allclose(value, wanted, rtol=1e-13)
        np.testing.assert_allclose(slopes, wanted_slopes, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(fast(moved), wanted, rtol=1e-13)
    assert {variant.tier for variant in fast.info.variants} == {"stencils"}


def test_functions_that_return_small_arrays_return_new_ones() -> None:
    fast = wg.compile(lambda p: np.array([p[0] * p[1], p[1]]))
    p = np.array([2.0, 3.0])
    one, two = fast(p), fast(p)
    one[0] = 0.0

    assert two.tolist() == fast(p).tolist() == [6.0, 3.0]


def test_large_arrays_stay_arrays() -> None:
    fast = wg.compile(lambda x: np.sum(np.tanh(x) * x))
    fast(np.linspace(0.0, 1.0, 5_000))

    assert fast.info.variants[0].tier == "arrays"


def stop_and_branch(x: Any, y: Any) -> Any:
    steps = 0
    while y > 2.0:
        y = y - 1.0
        steps = steps + 1
    return wg.stop_gradient(x * y) * x + steps * wg.stop_gradient(y)


NATIVE_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "a stopped argument": lambda x, y: x * wg.stop_gradient(y) + y,
    "a stopped product": lambda x, y: wg.stop_gradient(x * y) + x,
    "everything stopped but one": lambda x, y: wg.stop_gradient(np.exp(x)) * wg.stop_gradient(x) * y,
    "a stopped infinity": lambda x, y: wg.stop_gradient(1.0 / (x - x)) * 0.0 + x * y,
    "a stop and branches": stop_and_branch,
    "integer powers": lambda x, y: x**3 + y**-2 + x**0 + (-x) ** 5,
    "a comparison as a number": lambda x, y: (x > y) * x + (x < y) * y,
    "a sum of products with comparisons": lambda x, y: x * (y > 1.0) - (x > 1.0) * 2.0,
}


@pytest.mark.parametrize("name", NATIVE_FUNCTIONS)
def test_gradients_are_native_too(name: str) -> None:
    f = NATIVE_FUNCTIONS[name]
    fast = wg.compile(f, argnums=(0, 1))
    plain = wg.value_and_grad(f, argnums=(0, 1))
    for args in [(1.5, 2.5), (2.5, 0.5), (0.5, 4.0), (1.5, 2.5), (-1.5, 0.25), (2.5, 0.5), (0.5, 4.0)]:
        np.testing.assert_allclose(
            flatten(fast.value_and_grad(*args))[0], flatten(plain(*args))[0], rtol=1e-14, atol=1e-300
        )
        assert_same(fast(*args), fast.value_and_grad(*args)[0])
    variants = fast.info.variants

    assert {(variant.tier, variant.reason) for variant in variants} == {("stencils", "")}
    assert not any(isinstance(tree.recent.replay._pulled, InterpreterReplay) for tree in fast._cache.trees.values())


def total_of_cubes(*args: Any) -> Any:
    """Return a number that depends on every number in the arguments, in arithmetic that has one right rounding."""
    y: Any = 0.25
    for k, leaf in enumerate(flatten(args)[0]):
        y = y * 0.5 + (k + 1) * (np.sum(leaf * leaf * leaf) if getattr(leaf, "ndim", 0) else leaf * leaf)
    return y


def shape_gradient(kind: str) -> tuple[Any, tuple[Any, ...]]:
    """Return a compiled function whose gradient has a structure, and arguments for it."""
    args: tuple[Any, ...] = {
        "tuple": (1.5, -2.0),
        "list": ([1.5, -2.0],),
        "dict": ({"a": 1.5, "b": -2.0},),
        "nested": ([1.5, {"a": -2.0}], {"b": (0.25, 3.0)}),
        "array": (np.array([1.5, -2.0]),),
        "arrays": ([np.array([[1.5, -2.0]]), 0.25], {"b": np.array([3.0])}),
    }[kind]
    positions = tuple(range(len(args)))
    return wg.compile(total_of_cubes, argnums=positions if len(args) > 1 else 0), args


def scale_numbers(thing: Any, factor: float) -> Any:
    """Return nested containers with every number multiplied."""
    if isinstance(thing, dict):
        return {key: scale_numbers(part, factor) for key, part in thing.items()}
    if isinstance(thing, float | np.ndarray):
        return thing * factor
    return type(thing)(scale_numbers(part, factor) for part in thing)


KEEPERS: dict[str, Callable[[Any], Any]] = {
    "the gradient": lambda gradient: gradient,
    "its first number": lambda gradient: flatten(gradient)[0][0],
    "its last number": lambda gradient: flatten(gradient)[0][-1],
    "its parts": lambda gradient: list(gradient.values() if isinstance(gradient, dict) else gradient),
    "a shallow copy": copy.copy,
    "an iterator": lambda gradient: iter(gradient.items() if isinstance(gradient, dict) else gradient),
    "a nested holder": lambda gradient: {"held": [gradient]},
}


@pytest.mark.parametrize("keeper", KEEPERS)
@pytest.mark.parametrize("kind", ["tuple", "list", "dict", "nested", "array", "arrays"])
def test_what_somebody_holds_of_a_gradient_never_changes(kind: str, keeper: str) -> None:
    fast, args = shape_gradient(kind)
    for _ in range(5):
        fast.value_and_grad(*args)
    kept = KEEPERS[keeper](fast.value_and_grad(*args)[1])
    wanted = KEEPERS[keeper](wg.value_and_grad(total_of_cubes, argnums=fast._argnums)(*args)[1])
    for factor in (2.0, 3.0, 4.0, 5.0):
        fast.value_and_grad(*scale_numbers(args, factor))

    if keeper == "an iterator":
        kept, wanted = list(kept), list(wanted)
    assert pickle.dumps(kept) == pickle.dumps(wanted)
    assert has_quick_answers(fast, 5)


def change_list(gradient: Any) -> None:
    gradient.append(7.0)


def change_dict(gradient: Any) -> None:
    gradient["a"] = gradient.pop("a")


def swap_numbers(gradient: Any) -> None:
    gradient["a"], gradient["b"] = gradient["b"], gradient["a"]


def fill_anew(gradient: Any) -> None:
    items = list(gradient.items())
    gradient.clear()
    gradient.update(reversed(items))


def change_shape(gradient: Any) -> None:
    gradient.shape = (2, 1)


def change_size(gradient: Any) -> None:
    if gradient.flags.owndata:
        gradient.resize(3, refcheck=False)


def change_dtype(gradient: Any) -> None:
    gradient.dtype = np.int64


CHANGES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "a number more": ("list", change_list),
    "a number less": ("list", lambda gradient: gradient.pop()),
    "another object": ("list", lambda gradient: gradient.__setitem__(0, "text")),
    "twice the same float": ("list", lambda gradient: gradient.__setitem__(0, gradient[1])),
    "a NumPy number": ("list", lambda gradient: gradient.__setitem__(0, np.float64(2.0))),
    "itself": ("list", lambda gradient: gradient.__setitem__(0, gradient)),
    "keys in another order": ("dict", change_dict),
    "a key less": ("dict", lambda gradient: gradient.pop("a")),
    "a key more": ("dict", lambda gradient: gradient.update(c=1.0)),
    "another key": ("dict", lambda gradient: gradient.update(c=gradient.pop("b"))),
    "swapped numbers": ("dict", swap_numbers),
    "the keys again, in another order": ("dict", fill_anew),
    "another float": ("dict", lambda gradient: gradient.__setitem__("a", float("7"))),
    "one float for two keys": ("dict", lambda gradient: gradient.__setitem__("a", gradient["b"])),
    "a string for a number": ("dict", lambda gradient: gradient.__setitem__("b", "text")),
    "a number of a dict inside": ("nested", lambda gradient: gradient[0][1].__setitem__("a", float("7"))),
    "a container inside": ("nested", lambda gradient: gradient[0].__setitem__(1, {"z": 1.0})),
    "a class inside": ("nested", lambda gradient: gradient[0].__setitem__(1, OrderedDict(a=1.0))),
    "the numbers of an array": ("array", lambda gradient: gradient.fill(7.0)),
    "the shape of an array": ("array", change_shape),
    "the type of an array": ("array", change_dtype),
    "the size of an array": ("array", change_size),
    "whether an array may be written": ("array", lambda gradient: gradient.setflags(write=False)),
    "another array inside": ("arrays", lambda gradient: gradient[0].__setitem__(0, np.zeros((1, 3)))),
    "a view inside": ("arrays", lambda gradient: gradient[0].__setitem__(0, np.zeros((2, 3))[:1, :2])),
}


@pytest.mark.parametrize(("change", "unchanged"), sample_pairs(CHANGES, [0, 1, 4]))
def test_a_gradient_that_was_changed_is_not_returned_again(change: str, unchanged: int) -> None:
    kind, alter = CHANGES[change]
    fast, args = shape_gradient(kind)
    plain = wg.value_and_grad(total_of_cubes, argnums=fast._argnums)
    for factor in (1.0, 2.0, 3.0, 4.0, 5.0, 6.0):
        for _ in range(unchanged):
            fast.value_and_grad(*args)
        point = scale_numbers(args, factor)
        value, gradient = fast.value_and_grad(*point)

        assert repr((value, gradient)) == repr(plain(*point))
        alter(gradient)
        del gradient
    assert has_quick_answers(fast, 4)


VIEWS: dict[str, Callable[[Any], Callable[[], Any]]] = {
    "a view": lambda gradient: gradient[:].view,
    "its buffer": lambda gradient: memoryview(gradient).tolist,
    "a transpose": lambda gradient: gradient.T.view,
    "a weak reference": weakref.ref,
}


@pytest.mark.parametrize("view", VIEWS)
def test_an_array_that_somebody_looks_at_is_not_filled_again(view: str) -> None:
    fast, args = shape_gradient("array")
    for _ in range(5):
        fast.value_and_grad(*args)
    gradient = fast.value_and_grad(*args)[1]
    wanted = gradient.tolist()
    look = VIEWS[view](gradient)
    del gradient
    seen = [look()]
    for factor in (2.0, 3.0, 4.0, 5.0):
        fast.value_and_grad(args[0] * factor)
        seen.append(look())

    assert all(numbers is None or list(numbers) == wanted for numbers in seen)


def test_a_transform_concerns_the_calls_of_its_own_thread_alone() -> None:
    fast = wg.compile(lambda x: x * x + 1.0)
    for x in (1.0, 2.0, 3.0):
        fast(x)

    def count_hits() -> int:
        before = sum(quick.hits for quick in fast._quick_calls.values())
        assert fast(4.0) == 17.0
        return sum(quick.hits for quick in fast._quick_calls.values()) - before

    hits = dict[str, int]()

    def ask_from_everywhere(x: Any) -> Any:
        hits["inside"] = count_hits()
        run_in_threads(lambda place: hits.update({place: count_hits()}), ["beside"])
        hits["inside again"] = count_hits()
        return x * x

    assert wg.grad(ask_from_everywhere)(3.0) == 6.0
    hits["outside"] = count_hits()
    in_c = int(RECORDER is not None)
    assert hits == {"inside": 0, "beside": in_c, "inside again": 0, "outside": in_c}


def make_varied_function() -> Callable[..., Any]:
    """Return a function whose recordings have many certificates: what handles errors is not merged."""
    lines = [f"    y = y * x + {k}.0 if x * y > {k / 4 - 1.0} else y - x" for k in range(8)]
    scope: dict[str, Any] = {}
    lines += ["    try:", "        return y", "    except ValueError:", "        return x"]
    exec("\n".join(["def f(x, y):", *lines]), scope)
    f: Callable[..., Any] = scope["f"]
    return f


def test_calls_without_a_valid_recording_give_the_answers_of_the_function() -> None:
    f = make_varied_function()
    fast = wg.compile(f, argnums=(0, 1))
    plain = wg.value_and_grad(f, argnums=(0, 1))
    points = np.random.default_rng(3).normal(size=(400, 2)).tolist()
    answers = [fast.value_and_grad(*point) for point in points]
    info = fast.info
    hits = sum(variant.hits for variant in info.variants)

    assert answers == [plain(*point) for point in points]
    assert info.calls == 400 == info.records + hits + sum(count for _, count in info.fallbacks)
    assert RECORDER is None or fast._quick_calls[True].skipped > 0


RESULTS: dict[str, Callable[[Any, Any], Any]] = {
    "a list": lambda x, y: [x * y, x + y],
    "a tuple of one": lambda x, y: (x * y,),
    "a dict": lambda x, y: {"b": x * y, "a": x - y},
    "dicts of numbers": lambda x, y: {1: x * y, 2: [x, y]},
    "nested": lambda x, y: {"a": [x * y, (x, {"z": y / x})], "b": ()},
    "constants between": lambda x, y: [1, x * y, None, "text", True, 2.5, b"bytes"],
    "an argument": lambda x, y: [x, x * y],
    "the same number twice": lambda x, y: [x * y, x * y, x],
    "a condition": lambda x, y: [x > y, x * y],
    "arrays": lambda x, y: [np.array([x * y, x]), x + y, np.array([[x], [y]])],
    "an array": lambda x, y: np.array([x * y, x, y]),
    "an array of one": lambda x, y: np.array([x * y]),
    "a constant array": lambda x, y: [np.arange(3.0), x * y],
    "branches of two structures": lambda x, y: [x * y] if x > y else (x, {"a": y}),
}


@pytest.mark.parametrize("name", RESULTS)
def test_results_of_every_structure_are_those_of_the_function(name: str) -> None:
    f = RESULTS[name]
    fast = wg.compile(f, limit=2)
    points = [(1.5, 0.5), (0.5, 2.0), (2.5, -1.0), (-2.0, 3.0), (4.0, 0.25), (0.125, 8.0)]
    for point in points * 2:
        assert_same(fast(*point), f(*point))


@pytest.mark.parametrize("name", sorted(RESULTS.keys() - {"a condition", "a constant array"}))
def test_results_of_these_structures_are_made_in_c(name: str) -> None:
    fast = wg.compile(RESULTS[name])
    for x in (2.0, 3.0, 4.0, 5.0):
        fast(x, 1.0)

    assert has_quick_answers(fast, 2)


@pytest.mark.parametrize("keeper", KEEPERS)
@pytest.mark.parametrize("name", ["a list", "a dict", "nested", "the same number twice"])
def test_what_somebody_holds_of_a_result_never_changes(name: str, keeper: str) -> None:
    f = RESULTS[name]
    fast = wg.compile(f)
    for x in (2.0, 3.0, 4.0):
        fast(x, 1.0)
    kept = KEEPERS[keeper](fast(1.5, -2.0))
    wanted = KEEPERS[keeper](f(1.5, -2.0))
    for x in (5.0, 6.0, 7.0, 8.0):
        fast(x, 1.0)

    assert (list(kept) == list(wanted)) if keeper == "an iterator" else (kept == wanted)


def test_arrays_that_were_returned_belong_to_the_caller() -> None:
    fast = wg.compile(lambda x: [np.array([x, x * x]), x])
    arrays = [fast(float(k))[0] for k in range(6)]
    arrays[3][:] = 0.0

    assert [array.tolist() for array in arrays[4:]] == [[4.0, 16.0], [5.0, 25.0]]
    assert fast(3.0)[0].tolist() == [3.0, 9.0]


@pytest.mark.parametrize("ways", ["jacobian", "hessian", "value_and_jacobian"])
def test_derivatives_are_computed_in_c(ways: str) -> None:
    def turn(q: Any) -> Any:
        x = np.cos(q[0]) * q[2] - np.sin(q[0]) * q[1]
        return x * x if ways == "hessian" else [x, np.sin(q[0]) * q[2] + np.cos(q[0]) * q[1]]

    fast = wg.compile(turn)
    derive = {"jacobian": wg.jacobian, "hessian": wg.hessian, "value_and_jacobian": wg.jacobian}[ways]
    for k in range(5):
        point = [0.25 * k, 1.0, 2.0]
        wanted = derive(turn)(point)
        answer = getattr(fast, ways)(point)
        assert_same(answer, (fast(point), wanted) if ways == "value_and_jacobian" else wanted)

    assert has_quick_answers(fast._derived[ways], 3)


def test_values_and_jacobians_come_from_one_run() -> None:
    runs = []

    def count_runs(x: Any) -> Any:
        runs.append(x)
        return [x * x, x + 1.0]

    pair = compiled_function.make_value_and_jacobian(count_runs, None, argnames=None)(3.0)

    assert pair == ([9.0, 4.0], [6.0, 1.0])
    assert len(runs) == 1


def add_squares(x: Any, y: Any) -> Any:
    return np.sum(x * x * y) + np.sum(y)


ARRAY_KEEPERS: dict[str, Callable[[Any], Any]] = {
    "the gradient": lambda gradient: gradient,
    "one array": lambda gradient: gradient[1],
    "a view": lambda gradient: gradient[0][1:],
    "a transposed view": lambda gradient: gradient[1].reshape(2, 2).T,
    "an iterator": lambda gradient: gradient[0].flat,
    "a memory view": lambda gradient: memoryview(gradient[1]),
    "a buffer": lambda gradient: np.frombuffer(gradient[0]),
}


@pytest.mark.parametrize("keeper", ARRAY_KEEPERS)
def test_what_somebody_holds_of_an_array_never_changes(keeper: str) -> None:
    fast = wg.compile(add_squares, argnums=(0, 1))
    x, y = np.array([1.0, -2.0, 3.0, 0.5]), np.array([2.0, 4.0, -1.0, 1.0])
    for _ in range(5):
        fast.value_and_grad(x, y)
    kept = ARRAY_KEEPERS[keeper](fast.value_and_grad(x, y)[1])
    wanted = ARRAY_KEEPERS[keeper](wg.value_and_grad(add_squares, argnums=(0, 1))(x, y)[1])
    for factor in (2.0, 3.0, 4.0, 5.0):
        fast.value_and_grad(factor * x, y)

    np.testing.assert_array_equal(np.asarray(kept), np.asarray(wanted))
    assert has_quick_answers(fast, 5)


def test_an_array_that_is_watched_weakly_is_not_filled_again() -> None:
    fast = wg.compile(add_squares)
    x = np.array([1.0, -2.0, 3.0])
    for _ in range(5):
        fast.value_and_grad(x, x)
    watch = weakref.ref(fast.value_and_grad(x, x)[1])
    for factor in (2.0, 3.0, 4.0):
        fast.value_and_grad(factor * x, x)
    array = watch()

    assert array is None or array.tolist() == (2.0 * x * x).tolist()


ARRAY_CHANGES: dict[str, Callable[[Any], Any]] = {
    "numbers": lambda array: array.fill(np.nan),
    "flags": lambda array: array.setflags(write=False),
    "shape": lambda array: setattr(array, "shape", (2, 2)),
    "size": lambda array: array.resize(7, refcheck=False) if array.flags.owndata else None,
    "byte order": lambda array: array.byteswap(inplace=True),
}


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("change", ARRAY_CHANGES)
def test_an_array_that_was_changed_is_not_returned_again(change: str, single: bool) -> None:
    fast = wg.compile(add_squares, argnums=0 if single else (1, 0))
    x, y = np.array([1.0, -2.0, 3.0, 0.5]), np.array([2.0, 4.0, -1.0, 1.0])
    for factor in (1.0, 2.0, 3.0, 4.0, 5.0, 6.0):
        value, gradient = fast.value_and_grad(factor * x, y)
        array = gradient if single else gradient[1]

        assert value == add_squares(factor * x, y)
        assert array.flags.writeable
        assert array.dtype == np.float64
        assert array.tolist() == (2.0 * factor * x * y).tolist()
        ARRAY_CHANGES[change](array)
        del array, gradient
    assert has_quick_answers(fast, 4)


def test_arrays_that_nobody_holds_are_filled_again() -> None:
    fast = wg.compile(add_squares, argnums=(0, 1))
    x = np.array([1.0, -2.0, 3.0, 0.5])
    for _ in range(5):
        fast.value_and_grad(x, x)
    addresses = {fast.value_and_grad(x, x)[1][0].ctypes.data for _ in range(50)}

    assert RECORDER is None or len(addresses) <= 2
