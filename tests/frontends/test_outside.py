"""Compiled functions that read outside state: their answers are those of the plain function, however it changes."""

from __future__ import annotations

import dataclasses
import functools
import random
from collections import Counter
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pytest
import scipy.special
import scipy.stats

import wiregrad as wg
from wiregrad import nn
from wiregrad.frontends.replay.outside_state import MAX_BYTES, MAX_THINGS, OutsideState

from ..support.outside_holders import HOLDERS, Holder, Plain
from ..support.sampling import choose_count

Read = Callable[[], Any]


def by_closure(read: Read) -> Callable[[Any], Any]:
    return lambda x: x * read() + 1.0


def by_default(read: Read) -> Callable[[Any], Any]:
    def f(x: Any, read: Read = read) -> Any:
        return x * read() + 1.0

    return f


def by_global(read: Read) -> Callable[[Any], Any]:
    scope: dict[str, Any] = {"read": read}
    exec("def f(x): return x * read() + 1.0", scope)
    f: Callable[[Any], Any] = scope["f"]
    return f


def by_object(read: Read) -> Callable[[Any], Any]:
    class Model:
        def __init__(self) -> None:
            self.read = read

        def __call__(self, x: Any) -> Any:
            return x * self.read() + 1.0

    return Model()


def by_method(read: Read) -> Callable[[Any], Any]:
    class Model:
        def __init__(self) -> None:
            self.readers = {"one": [read]}

        def loss(self, x: Any) -> Any:
            return x * self.readers["one"][0]() + 1.0

    return Model().loss


def by_partial(read: Read) -> Callable[[Any], Any]:
    return functools.partial(lambda reader, x: x * reader() + 1.0, read)


def by_wrapper(read: Read) -> Callable[[Any], Any]:
    def plain(x: Any) -> Any:
        return x * read() + 1.0

    @functools.wraps(plain)
    def wrapper(*args: Any) -> Any:
        return plain(*args)

    return wrapper


def by_nested_function(read: Read) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        def inner() -> Any:
            return read()

        return x * inner() + 1.0

    return f


ROUTES = [by_closure, by_default, by_global, by_object, by_method, by_partial, by_wrapper, by_nested_function]
"""The ways by which a function comes to what it reads."""


def outcome(f: Callable[..., Any], x: float) -> Any:
    """Return what a function answers, or the kind of exception it raises."""
    try:
        return np.float64(f(x)).tobytes()
    except Exception as error:
        return type(error)


def run_trial(seed: int) -> tuple[str, bool]:
    """Change what a compiled function reads, in random ways, between random calls; returns the holder, and replays."""
    rng = random.Random(seed)
    name = sorted(HOLDERS)[seed % len(HOLDERS)]
    start = float(rng.randrange(1, 50))
    worlds: list[Holder] = [HOLDERS[name](start) for _ in range(2)]
    route = rng.choice(ROUTES)
    plain, read_by_compiled = (route(world.read) for world in worlds)
    fast = wg.compile(read_by_compiled)
    told = [f"seed {seed}: {name}, {route.__name__}"]
    for _ in range(rng.randrange(3, 9)):
        if rng.random() < 0.6:
            x = rng.choice([0.5, 2.0, -1.5])
            told.append(f"f({x})")
            assert outcome(fast, x) == outcome(plain, x), "\n".join(told)
        else:
            which, number = rng.randrange(len(worlds[0].changes)), float(rng.randrange(1, 50))
            told.append(f"change {which} with {number}")
            assert _changed(worlds[0], which, number) == _changed(worlds[1], which, number)
    return name, any(variant.hits for variant in fast.info.variants)


def _changed(world: Holder, which: int, number: float) -> Any:
    """Apply a change; returns the kind of exception, where one cannot be applied (twice, say)."""
    try:
        world.changes[which](number)
    except Exception as error:
        return type(error)
    return None


def test_there_are_many_kinds_of_holders() -> None:
    assert len(HOLDERS) >= 100


@pytest.mark.parametrize("name", sorted(HOLDERS))
def test_no_answer_is_stale_after_any_change_of_a_holder(name: str) -> None:
    count = len(HOLDERS[name](2.0).changes)
    for which in range(count):
        worlds = [HOLDERS[name](2.0) for _ in range(2)]
        plain, fast = by_closure(worlds[0].read), wg.compile(by_closure(worlds[1].read))
        for number in (7.0, 7.0, 3.0):
            found = [(outcome(fast, x), outcome(plain, x)) for x in (2.0, 0.5)]
            for world in worlds:
                _changed(world, which, number)

            assert [one for one, _ in found] == [other for _, other in found], f"change {which}"


@pytest.mark.parametrize("shard", range(4))
def test_random_changes_outside_leave_no_stale_answer(shard: int) -> None:
    for seed in range(shard, choose_count(120, 300), 4):
        run_trial(seed)


@pytest.mark.full
@pytest.mark.parametrize("shard", range(20))
def test_twenty_thousand_random_changes_outside_leave_no_stale_answer(shard: int) -> None:
    replayed: Counter[str] = Counter()
    for seed in range(shard, 20_000, 20):
        name, hit = run_trial(seed)
        replayed[name] += hit

    assert sum(count > 0 for count in replayed.values()) > len(replayed) / 3, "what can be compared is replayed"


REPLAYED = sorted(
    set(HOLDERS)
    - {
        # Their state cannot be seen, or they change when they are read.
        *(
            "generator",
            "generator_in_an_object",
            "iterator",
            "endless_count",
            "mapped_numbers",
            "coroutine_like_object",
        ),
        *("python_random", "random_generator", "queue_of_numbers", "ctypes_number", "ctypes_array", "shared_number"),
        *("weak_reference", "weak_dictionary", "context_variable", "thread_local", "decimal_context", "text_file"),
        *("memory_view", "mapping_proxy", "flat_iterator", "function_with_a_cache", "single_dispatch"),
        *("array_of_objects", "array_of_lists", "structured_array_of_objects", "structured_number", "matrix"),
        *("masked_array", "ufunc_of_a_python_function", "getters_of_operator", "leaf_value"),
        "function_class_of_ones_own",
        # They are looked up in ways that code does not show, or are too many.
        *("variable_by_name", "module_by_name", "module_in_sys_modules", "very_long_list", "config_parser"),
        *("environment", "subclasses"),
        # They change what they read.
        *("moving_average", "counter_of_calls", "array_changed_through_an_alias", "heap", "bound_method_that_appends"),
        *("attribute_that_a_function_gives_itself", "attribute_of_a_library"),
    }
)
"""Holders that are compared, so that functions which read them are replayed."""


@pytest.mark.parametrize("name", REPLAYED)
def test_functions_that_read_what_can_be_compared_are_replayed(name: str) -> None:
    fast = wg.compile(by_closure(HOLDERS[name](2.0).read))
    for _ in range(4):
        fast(2.0)

    assert not any("unnoticed" in reason for reason, _ in fast.info.fallbacks)
    assert sum(variant.hits for variant in fast.info.variants) >= 2


@pytest.mark.parametrize("name", sorted(set(HOLDERS) - set(REPLAYED)))
def test_what_cannot_be_compared_is_named_by_info(name: str) -> None:
    fast = wg.compile(by_closure(HOLDERS[name](2.0).read))
    fast(2.0)

    ((reason, count),) = fast.info.fallbacks
    assert count == 1
    assert reason.startswith("it ")


PLANNED: dict[str, Callable[[Any], Any]] = {
    "reshape": lambda x: wg.reshape(x, (4, 3)),
    "ravel": lambda x: wg.ravel(x, "C"),
    "expand_dims": lambda x: wg.expand_dims(x, 0),
    "squeeze": lambda x: wg.squeeze(x, ()),
    "transpose": lambda x: wg.transpose(x, (1, 0)),
    "swapaxes": lambda x: wg.swapaxes(x, 0, 1),
    "moveaxis": lambda x: wg.moveaxis(x, 0, -1),
    "diagonal": lambda x: wg.diagonal(x, 1),
}


@pytest.mark.parametrize("name", PLANNED)
def test_functions_of_wiregrad_that_keep_plans_are_followed(name: str) -> None:
    """Their caches hold what follows from their arguments, so that a gradient inside a function is replayed."""
    arrange = PLANNED[name]

    def find_gradient(x: Any) -> Any:
        return wg.grad(lambda x: wg.sum(arrange(x) ** 3))(x)

    inputs = [np.arange(12.0).reshape(3, 4) + k for k in range(4)]
    wanted = [find_gradient(x) for x in inputs]
    compiled = wg.compile(find_gradient)

    assert all(np.allclose(compiled(x), gradient) for x, gradient in zip(inputs, wanted, strict=True))
    assert (compiled.info.records, compiled.info.fallbacks) == (1, ())


def test_a_cache_of_ones_own_is_not_followed() -> None:
    @functools.lru_cache
    def read(key: int) -> float:
        return 2.0 * key

    compiled = wg.compile(lambda x: x * read(3))
    compiled(1.0)

    ((reason, _),) = compiled.info.fallbacks
    assert "functools._lru_cache_wrapper, which may change unnoticed" in reason


def test_the_reason_names_the_object_and_its_kind() -> None:
    settings = Plain(2.0)
    settings.rng = np.random.default_rng(0)  # type: ignore[attr-defined]
    fast = wg.compile(lambda x: x * settings.rng.random())  # type: ignore[attr-defined]
    fast(2.0)

    ((reason, _),) = fast.info.fallbacks
    assert reason == (
        "it draws random numbers: it uses settings.rng from outside, of type numpy.random._generator.Generator, "
        "which may change unnoticed; to compile it, draw the numbers before the call and pass them as an argument"
    )


@pytest.mark.parametrize(
    "draw",
    [
        lambda x: x * np.random.default_rng(0).random(),
        lambda x: x * np.random.random(),
        lambda x: x * random.random(),
    ],
)
def test_the_reason_says_that_a_function_draws_random_numbers(draw: Callable[[Any], Any]) -> None:
    assert str(OutsideState(draw).opaque).startswith("it draws random numbers: it uses ")


class DrawnModule(nn.Module):
    """A module whose parameters are drawn when it is made."""

    def __init__(self) -> None:
        self.linear = nn.Linear(4, 2, rng=np.random.default_rng(5))

    def forward(self, x: Any) -> Any:
        return FACTOR["scale"] * np.tanh(self.linear(x))


FACTOR = {"scale": 2.0}


class DerivedModule(DrawnModule):
    """A module that inherits `__init__`."""


# The methods that dataclasses compare and print with name `__class__`, which may call the class.
@dataclasses.dataclass(eq=False, repr=False)
class DrawnSettings:
    """A number that is drawn when the object is made."""

    scale: float

    def __post_init__(self) -> None:
        self.scale = np.random.default_rng().random()


@pytest.mark.parametrize("kind", [DrawnModule, DerivedModule])
def test_what_made_a_module_is_not_followed(kind: type[DrawnModule]) -> None:
    model = kind()
    state = OutsideState(lambda x: 2.0 * model(x))

    assert state.opaque is None
    assert not state.changed()


def test_what_a_module_reads_when_it_is_called_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    model = DrawnModule()
    state = OutsideState(lambda x: 2.0 * model(x))
    before = state.changed()
    monkeypatch.setitem(FACTOR, "scale", 3.0)

    assert (before, state.changed()) == (False, True)


MODEL = DrawnModule()


def make_by_class_method(x: Any) -> Any:
    class Made(DrawnModule):
        @classmethod
        def make(cls) -> Any:
            return cls()

    return Made.make()(x)


MAKERS: dict[str, Callable[[Any], Any]] = {
    "class": lambda x: 2.0 * DrawnModule()(x),
    "derived class": lambda x: 2.0 * DerivedModule()(x),
    "type": lambda x: 2.0 * type(MODEL)()(x),
    "__class__": lambda x: 2.0 * MODEL.__class__()(x),
    "__init__": lambda x: (MODEL.__init__(), MODEL(x))[1],  # type: ignore[func-returns-value, misc]
    "class method": make_by_class_method,
    "getattr": lambda x: getattr(MODEL, "__init__")() or MODEL(x),  # noqa: B009 - the way is what is tested
    "list": lambda x: 2.0 * [DrawnModule][0]()(x),
}


@pytest.mark.parametrize("name", MAKERS)
def test_what_a_module_that_the_function_makes_reads_is_followed(name: str) -> None:
    assert str(OutsideState(MAKERS[name]).opaque).startswith("it draws random numbers: ")


def test_an_object_that_is_replaced_is_made_again() -> None:
    settings = DrawnSettings(1.0)

    assert OutsideState(lambda x: x * settings.scale).opaque is None
    assert OutsideState(lambda x: x * dataclasses.replace(settings).scale).opaque is not None


def read_distribution(distribution: Any) -> Callable[[Any], Any]:
    return lambda x: np.sum(distribution.logpdf(x))


@pytest.mark.parametrize("name", ["norm", "t", "gamma", "expon"])
def test_functions_that_call_methods_of_distributions_are_replayed(name: str) -> None:
    distribution = getattr(scipy.stats, name)
    arguments = (2.5,) if name in ("t", "gamma") else ()
    fast = wg.compile(lambda x: np.sum(distribution.logpdf(x, *arguments)))
    found = [fast(np.array([0.5, x])) for x in (0.5, 1.0, 1.5)]

    np.testing.assert_allclose(found, [distribution.logpdf([0.5, x], *arguments).sum() for x in (0.5, 1.0, 1.5)])
    assert fast.info.fallbacks == ()


@pytest.mark.parametrize("function", [scipy.special.logsumexp, scipy.special.softmax, scipy.special.log_softmax])
def test_functions_that_call_python_functions_of_scipy_special_are_replayed(function: Any) -> None:
    fast = wg.compile(lambda x: np.sum(function(x)))
    for scale in (1.0, 2.0, 3.0):
        x = scale * np.array([0.5, 1.0])

        np.testing.assert_allclose(fast(x), np.sum(function(x)), rtol=1e-15)
    assert fast.info.fallbacks == ()


def test_a_changed_attribute_of_a_distribution_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    fast = wg.compile(read_distribution(scipy.stats.norm))
    x = np.array([0.5, 1.0])
    for _ in range(3):
        fast(x)
    records = fast.info.records
    monkeypatch.setattr(scipy.stats.norm, "badvalue", 7.0)
    fast(x)

    assert fast.info.records > records


@pytest.mark.parametrize("method", ["rvs", "random_state"])
def test_distributions_that_draw_numbers_are_not_replayed(method: str) -> None:
    distribution = scipy.stats.norm
    draws = {"rvs": lambda x: x * distribution.rvs(), "random_state": lambda x: x * distribution.random_state.rand()}
    fast = wg.compile(draws[method])
    fast(2.0)

    ((reason, _),) = fast.info.fallbacks
    assert "RandomState" in reason


def test_distributions_whose_methods_are_looked_up_by_name_are_not_replayed() -> None:
    distribution = scipy.stats.norm
    names = ["".join(["rv", "s"])]
    fast = wg.compile(lambda x: x * getattr(distribution, names[0].lower())())

    assert fast(2.0) != fast(2.0)


def test_a_distribution_of_ones_own_is_no_distribution_of_scipy() -> None:
    class Shifted(scipy.stats.rv_continuous):  # type: ignore[misc]
        def _pdf(self, x: Any) -> Any:
            return np.exp(-x)

    state = OutsideState(read_distribution(Shifted(a=0.0, name="norm")))

    assert state.opaque is not None


def test_attributes_that_no_code_names_may_be_anything() -> None:
    settings = Plain(2.0)
    settings.log = open  # type: ignore[attr-defined]
    settings.numbers = iter([1.0])  # type: ignore[attr-defined]
    fast = wg.compile(lambda x: x * settings.number)
    found = [fast(3.0), fast(4.0)]
    settings.number = 5.0

    assert (found, fast(3.0), fast.info.fallbacks) == ([6.0, 8.0], 15.0, ())


def test_a_stateful_function_has_its_effects_once_and_leaves_plain_numbers() -> None:
    def make() -> tuple[Any, dict[str, Any]]:
        state: dict[str, Any] = {"mean": 0.0, "seen": []}

        def smooth(x: Any) -> Any:
            state["mean"] = 0.9 * state["mean"] + 0.1 * x
            state["seen"].append((x, [x]))
            return state["mean"]

        return smooth, state

    (plain, wanted), (f, state) = make(), make()
    fast = wg.compile(f)

    assert [fast(x) for x in (1.0, 2.0, 3.0, 4.0, 5.0)] == [plain(x) for x in (1.0, 2.0, 3.0, 4.0, 5.0)]
    assert state == wanted
    assert {type(x) for x, _ in state["seen"]} == {float}
    assert dict(fast.info.fallbacks) == {"it changes what it uses from outside": 5}


def test_effects_of_a_function_that_cannot_be_recorded_happen_once() -> None:
    calls = [0]

    def f(x: Any) -> Any:
        calls[0] += 1
        return {"y": x * calls[0], "tags": {1}}

    assert wg.compile(f)(2.0) == {"y": 2.0, "tags": {1}}
    assert calls == [1]


def test_keys_that_are_recorded_values_are_put_back() -> None:
    seen: dict[Any, int] = {}

    def f(x: Any) -> Any:
        seen[x] = 1
        return x * len(seen)

    fast = wg.compile(f)

    assert [fast.value_and_grad(x) for x in (1.5, 2.5, 0.5)] == [(1.5, 1.0), (5.0, 2.0), (1.5, 3.0)]
    assert len(seen) == 3


def test_a_function_that_exits_has_its_effects_once() -> None:
    log: list[Any] = []

    def f(x: Any) -> Any:
        log.append(x)
        raise SystemExit

    with pytest.raises(SystemExit):
        wg.compile(f)(1.5)
    assert [type(x) for x in log] == [float]


class Result(dict[str, Any]):
    """A dict that can have attributes."""


def with_total(x: Any) -> Result:
    result = Result(y=x)
    result.total = 2.0 * x  # type: ignore[attr-defined]
    return result


def test_attributes_of_results_are_those_of_each_call() -> None:
    fast = wg.compile(with_total)

    assert [fast(x).total for x in (1.0, 5.0, 7.0)] == [2.0, 10.0, 14.0]


def test_results_share_no_array_with_arguments() -> None:
    fast, k = wg.compile(lambda x, k: (x * 1.0, k)), np.array([0, 1])
    first = fast(1.0, k)
    k[:] = 7

    assert (first[1].tolist(), fast(1.0, np.array([0, 1]))[1].tolist()) == ([0, 1], [0, 1])


@pytest.mark.parametrize("errors", ["raise", "call"])
def test_numbers_that_raise_make_the_function_run_itself(errors: Any) -> None:
    called: list[Any] = []
    fast = wg.compile(lambda x: 1.0 * np.log(x))
    fast(1.0)
    with np.errstate(all=errors, call=lambda *args: called.append(args)):
        try:
            fast(0.0)
        except FloatingPointError as error:
            called.append(error)

    assert called
    assert fast(1.0) == 0.0


def test_too_much_outside_makes_the_function_run_itself() -> None:
    items = [[1.0] for _ in range(MAX_THINGS)]
    zeros = np.zeros(MAX_BYTES // 8 + 1)

    assert "things from outside, items among them" in str(OutsideState(lambda x: x * items[0][0]).opaque)
    assert "MiB of arrays from outside, zeros among them" in str(OutsideState(lambda x: x * zeros[0]).opaque)


@pytest.mark.parametrize("size", [10, 10_000, 40_000, 200_001])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int8, np.complex128])
def test_one_bit_of_an_array_is_seen_to_change_at_every_size(size: int, dtype: Any) -> None:
    items = np.zeros(size, dtype)
    outside = OutsideState(lambda x: x * items[0])
    before = outside.changed()
    items.view(np.uint8)[-1] = 128

    assert (before, outside.changed()) == (False, True)


KEPT_VALUES: list[Any] = []


@pytest.mark.parametrize("start", [0.3, np.float64(0.3), np.array([0.3, 0.4])], ids=["float", "float64", "array"])
def test_a_recorded_value_that_a_list_outside_has_kept_may_be_read_by_a_compiled_function(start: Any) -> None:
    KEPT_VALUES.clear()

    def f(x: Any) -> Any:
        KEPT_VALUES.append(np.sum((1.0 - x) ** 2))
        return KEPT_VALUES[-1] * 2.0

    expected = wg.grad(f)(start)

    np.testing.assert_allclose(wg.compile(wg.grad(f))(start), expected)
    np.testing.assert_allclose(wg.compile(f)(start), f(start))


def count_in_a_class() -> Callable[[Any], Any]:
    class Counts:
        pass

    def f(x: Any) -> Any:
        Counts.calls = getattr(Counts, "calls", 0) + 1  # type: ignore[attr-defined]
        return x * Counts.calls  # type: ignore[attr-defined]

    return f


def count_in_a_slot() -> Callable[[Any], Any]:
    class Counts:
        __slots__ = ("calls",)

    counts = Counts()

    def f(x: Any) -> Any:
        counts.calls = getattr(counts, "calls", 0) + 1  # type: ignore[attr-defined]
        return x * counts.calls  # type: ignore[attr-defined]

    return f


def count_in_a_cell() -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        nonlocal calls
        try:
            calls = calls + 1
        except NameError:
            calls = 1
        return x * calls

    if f is None:
        calls = 0
    return f


def count_in_a_default() -> Callable[[Any], Any]:
    def step(calls: int = 0) -> int:
        return calls + 1

    def f(x: Any) -> Any:
        step.__defaults__ = (step(),)
        return x * step()

    return f


def count_in_an_attribute() -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        f.calls = getattr(f, "calls", 0) + 1  # type: ignore[attr-defined]
        return x * f.calls  # type: ignore[attr-defined]

    return f


COUNTERS = [count_in_a_class, count_in_a_slot, count_in_a_cell, count_in_a_default, count_in_an_attribute]


@pytest.mark.parametrize("make", COUNTERS, ids=lambda f: f.__name__)
def test_a_function_that_counts_its_calls_outside_counts_each_once(make: Callable[[], Any]) -> None:
    plain, fast = make(), wg.compile(make())

    assert [fast(x) for x in (2.0, 3.0, 3.0, 5.0)] == [plain(x) for x in (2.0, 3.0, 3.0, 5.0)]
    ((reason, count),) = fast.info.fallbacks
    assert "changes what it uses from outside" in reason
    assert count == 4


def test_names_of_the_fields_of_a_dtype_are_no_constants() -> None:
    kind = np.dtype([("one", float)])
    fast = wg.compile(lambda x: x * len(kind.names[0]))  # type: ignore[index]

    assert fast(2.0) == 6.0
    kind.names = ("three",)
    assert fast(2.0) == 10.0


def test_an_attribute_that_a_protocol_asks_for_is_noticed_when_it_goes() -> None:
    @runtime_checkable
    class Sized(Protocol):
        size: float

    class Box:
        size = 3.0

    box = Box()
    plain = lambda x: x * 2.0 if isinstance(box, Sized) else x  # noqa: E731
    fast = wg.compile(plain)

    assert fast(3.0) == 6.0
    del Box.size
    # Since Python 3.12 isinstance remembers that it was so.
    assert fast(3.0) == plain(3.0)


def test_long_bytes_outside_make_the_function_run_itself() -> None:
    numbers = bytearray(MAX_BYTES + 1)
    fast = wg.compile(lambda x: x * (len(numbers) + numbers[0]))

    assert fast(2.0) == 2.0 * (MAX_BYTES + 1)
    numbers[0] = 1
    assert fast(2.0) == 2.0 * (MAX_BYTES + 2)
    assert "from outside" in fast.info.fallbacks[0][0]


def test_a_value_from_outside_is_returned_as_it_is() -> None:
    outside = wg.Value(3.0)
    fast = wg.compile(lambda x: outside)

    assert fast(2.0) is outside
    assert "wg.Value from outside" in fast.info.fallbacks[0][0]


class Drawn:
    """A model whose weights are drawn when it is made, and whose methods name the class."""

    gain = 2.0

    def __init__(self, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.weights = rng.normal(size=3)

    def __call__(self, x: Any) -> Any:
        return self.named(x)

    def named(self, x: Any) -> Any:
        return np.sum(self.weights * x) * Drawn.gain

    def by_object(self, x: Any) -> Any:
        return np.sum(self.weights * x) * self.__class__.gain

    @staticmethod
    def alone(x: Any) -> Any:
        return x * Drawn.gain

    def remade(self, x: Any) -> Any:
        return np.sum(Drawn(3).weights * x)

    def remade_through_its_type(self, x: Any) -> Any:
        return np.sum(self.__class__.__call__(3)(x)) if x is None else np.sum(type(self)(3).weights * x)


class DrawnToo(Drawn):
    """A model whose method calls that of its base class."""

    def __init__(self) -> None:
        super().__init__(7)

    def named(self, x: Any) -> Any:
        return super().named(x) * 2.0


@dataclasses.dataclass
class DrawnFields:
    """A model whose fields are drawn when it is made."""

    weights: Any = dataclasses.field(default_factory=lambda: np.random.default_rng(0).normal(size=3))

    def named(self, x: Any) -> Any:
        return np.sum(self.weights * x)


@pytest.mark.parametrize(
    "method",
    [
        Drawn().named,
        Drawn().by_object,
        Drawn.alone,
        Drawn(),
        DrawnToo().named,
        DrawnFields().named,
        functools.partial(lambda model, x: model.named(x), Drawn()),
    ],
)
def test_random_numbers_of_a_constructor_do_not_keep_a_method_from_being_compiled(method: Any) -> None:
    fast = wg.compile(method)

    assert [fast(x) for x in (1.0, 2.0, 3.0)] == [method(x) for x in (1.0, 2.0, 3.0)]
    assert fast.info.records == 1
    assert not fast.info.fallbacks


@pytest.mark.parametrize("method", [Drawn().remade, Drawn().remade_through_its_type])
def test_a_constructor_that_may_be_called_is_named(method: Any) -> None:
    reason = OutsideState(method).opaque

    assert reason is not None
    assert reason.startswith("it draws random numbers: it uses np.random.default_rng from outside")
    assert reason.endswith("it may call Drawn, whose __init__ uses it")


class Scaled:
    """A class whose constructor reads a number that changes."""

    scale = (2.0,)

    def __init__(self, x: Any) -> None:
        self.x = x * Scaled.scale[0]


def make_by_name(x: Any) -> Any:
    return Scaled(x).x


def make_by_alias(x: Any) -> Any:
    kind = Scaled
    return kind(x).x


def make_by_call(x: Any) -> Any:
    return Scaled.__call__(x).x


def make_by_order(x: Any) -> Any:
    return Scaled.mro()[0](x).x


def make_from_list(x: Any, kinds: Any = (Scaled,)) -> Any:
    return kinds[0](x).x


@pytest.mark.parametrize("f", [make_by_name, make_by_alias, make_by_call, make_by_order, make_from_list])
def test_what_a_constructor_reads_is_compared_however_the_class_is_called(
    f: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fast = wg.compile(f)
    before = fast(3.0)
    monkeypatch.setattr(Scaled, "scale", (5.0,))

    assert (before, fast(3.0)) == (6.0, 15.0)


def test_attributes_that_were_set_on_the_result_of_a_transform_are_compared() -> None:
    slope: Any = wg.grad(lambda x: x * x)
    slope.scale = 2.0
    fast = wg.compile(lambda x: slope(x) * slope.scale)
    before = fast(1.0)
    slope.scale = 3.0

    assert (before, fast(1.0)) == (4.0, 6.0)


def test_the_result_of_a_transform_is_compiled_whatever_the_name_of_the_function_is() -> None:
    def load(x: Any) -> Any:
        return x * x

    slope = wg.grad(load)
    fast = wg.compile(lambda x: slope(x) + 1.0)

    assert (fast(1.0), fast(2.0), fast.info.fallbacks) == (3.0, 5.0, ())
