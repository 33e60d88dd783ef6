"""Containers as arguments: a function sees them as it would without a transform, in order, class and attributes."""

from __future__ import annotations

import collections
import dataclasses
import enum
import typing
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.errors import OperandError
from wiregrad.frontends.recording.arguments import flatten, match_leaves, unflatten


class Table(list[float]):
    """A list with a method, a class attribute and attributes of its own."""

    scale = 2.0

    def scaled(self) -> Any:
        return self[0] * self.scale


class Attributes(dict[str, Any]):
    """A dict whose keys are attributes, as many configuration libraries have it."""

    def __getattr__(self, name: str) -> Any:
        return self[name]


class Doubling(dict[str, Any]):
    """A dict that looks its values up in its own way."""

    def __getitem__(self, key: str) -> Any:
        return 2.0 * super().__getitem__(key)


class Strict(dict[str, Any]):
    """A dict whose constructor wants something else."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name


class Slotted(tuple[float, ...]):
    """A tuple without a dict of attributes."""

    __slots__ = ()

    def last(self) -> float:
        return self[-1]


class Point(typing.NamedTuple):
    """A named tuple with a method."""

    x: float
    y: float

    def norm(self) -> Any:
        return (self.x * self.x + self.y * self.y) ** 0.5


class Unit(list[float]):
    """A list with a slot."""

    __slots__ = ("scale",)


class OwnUnit(Unit):
    """A list with a slot of the same name as its base has."""

    __slots__ = ("scale",)


def with_slots_of_one_name() -> OwnUnit:
    unit = OwnUnit([3.0])
    Unit.scale.__set__(unit, 2.0)  # type: ignore[attr-defined]
    unit.scale = 5.0
    return unit


def with_attribute() -> Table:
    table = Table([3.0])
    table.scale = 5.0
    return table


def with_name() -> Strict:
    strict = Strict("b")
    strict.update(a=3.0, b=4.0)
    return strict


class Reversed(list[float]):
    """A list that is walked through backwards."""

    def __iter__(self) -> Any:
        return reversed([list.__getitem__(self, k) for k in range(len(self))])


CASES: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "dict in its own order": (lambda d: next(iter(d.values())) ** 2, {"b": 2.0, "a": 3.0}),
    "layers by name": (
        lambda d: [x := 1.0, *[x := np.tanh(w * x + 0.1) for w in d.values()]][-1],
        {f"layer{k}": 0.5 + 0.1 * k for k in range(12)},
    ),
    "keys of different kinds": (lambda d: next(iter(d.values())) * 3.0, {2: 4.0, "a": 5.0}),
    "ordered dict": (lambda d: d[next(reversed(d))] ** 2, collections.OrderedDict(b=2.0, a=3.0)),
    "default dict": (lambda d: d["a"] * d["missing"], collections.defaultdict(lambda: 7.0, a=3.0)),
    "counter": (lambda d: d["a"] + d["missing"], collections.Counter(a=3.0)),
    "list with a method": (lambda t: t.scaled(), Table([3.0])),
    "list with an attribute": (lambda t: t.scaled(), with_attribute()),
    "list that is walked through backwards": (lambda t: t[0] * 10.0 + t[1] ** 2, Reversed([1.0, 2.0])),
    "list with two slots of one name": (lambda t: t[0] * t.scale, with_slots_of_one_name()),
    "dict with attributes for keys": (lambda d: d.a * d.b, Attributes(b=2.0, a=3.0)),
    "dict that doubles": (lambda d: d["a"] ** 2, Doubling(a=3.0)),
    "dict with another constructor": (lambda d: d[d.name] ** 2, with_name()),
    "tuple with a method": (lambda t: t.last() ** 2, Slotted((1.0, 3.0))),
    "named tuple": (lambda p: p.norm() * p.y, Point(3.0, 4.0)),
    "nested": (lambda d: d["b"][0].scaled() * d["a"].x, {"b": [with_attribute()], "a": Point(2.0, 1.0)}),
}


@pytest.mark.parametrize("name", CASES)
def test_a_function_sees_its_arguments_as_without_a_transform(name: str) -> None:
    f, argument = CASES[name]
    plain = f(argument)
    value, gradient = wg.value_and_grad(f)(argument)

    assert value == pytest.approx(plain, rel=1e-15)
    assert wg.compile(f)(argument) == pytest.approx(plain, rel=1e-15)
    assert type(gradient) is type(argument)


@pytest.mark.parametrize("name", CASES)
def test_gradients_of_containers_are_those_of_differences(name: str) -> None:
    f, argument = CASES[name]
    leaves, tree = flatten(argument)
    grads = flatten(wg.grad(f)(argument))[0]
    for k, leaf in enumerate(leaves):
        up, down = ([x + h * (j == k) for j, x in enumerate(leaves)] for h in (1e-6, -1e-6))
        slope = (f(unflatten(tree, up)) - f(unflatten(tree, down))) / 2e-6

        assert grads[k] == pytest.approx(slope, rel=1e-6, abs=1e-8), f"leaf {k} = {leaf}"


def test_gradients_have_the_order_of_the_arguments() -> None:
    grads = wg.grad(lambda d: d["b"] * d["a"])({"b": 2.0, "a": 3.0})

    assert list(grads.items()) == [("b", 3.0), ("a", 2.0)]


def test_structures_match_whatever_the_order_of_their_keys() -> None:
    tree = flatten({"b": [1.0, 2.0], "a": None, "c": (3.0,)})[1]

    assert match_leaves(tree, {"c": (30.0,), "a": None, "b": [10.0, 20.0]}, "the tangent") == [10.0, 20.0, 30.0]
    assert wg.jvp(lambda d: d["b"] * d["a"], ({"b": 2.0, "a": 3.0},), ({"a": 1.0, "b": 0.0},)) == (6.0, 2.0)


@pytest.mark.parametrize("other", [{"a": 1.0}, {"a": 1.0, "c": 2.0}, [1.0, 2.0], {"a": [1.0], "b": 2.0}, None, 1.0])
def test_other_structures_are_refused_with_both_of_them(other: Any) -> None:
    tree = flatten({"a": 1.0, "b": 2.0})[1]

    with pytest.raises(OperandError, match=r"the tangent must have the structure \{'a': \*, 'b': \*\}; got "):
        match_leaves(tree, other, "the tangent")


def change_scale(table: Any) -> None:
    type(table).scale = 7.0


def change_attribute(table: Any) -> None:
    table.scale = 11.0


@pytest.mark.parametrize("change", [change_scale, change_attribute])
def test_classes_of_arguments_are_seen_to_change(change: Callable[[Any], None]) -> None:
    class Own(Table):
        pass

    table = Own([3.0])
    fast = wg.compile(lambda t: t.scaled())
    found = [fast(table), fast(table)]
    change(table)

    assert [*found, fast(table)] == [6.0, 6.0, table.scaled()]


def test_members_of_enumerations_given_as_arguments_are_seen_to_change() -> None:
    class Kind(enum.Enum):
        ONE = 2.0

    fast = wg.compile(lambda x, kind: x * kind.value)
    first = fast(3.0, Kind.ONE)
    Kind.ONE._value_ = 5.0

    assert (first, fast(3.0, Kind.ONE)) == (6.0, 15.0)


def test_the_order_of_a_dict_tells_recordings_apart() -> None:
    fast = wg.compile(lambda d: next(iter(d.values())))

    assert [fast({"a": 1.0, "b": 2.0}), fast({"b": 2.0, "a": 1.0}), fast({"a": 3.0, "b": 2.0})] == [1.0, 2.0, 3.0]
    assert fast.info.records == 2


def test_keys_that_are_equal_to_texts_tell_recordings_apart() -> None:
    class Key(enum.StrEnum):
        A = "a"

    fast = wg.compile(lambda d: sum(v * (2.0 if isinstance(k, Key) else 1.0) for k, v in d.items()))

    assert (fast({"a": 1.0}), fast({Key.A: 1.0}), fast({"a": 3.0})) == (1.0, 2.0, 3.0)


def test_functions_that_are_keys_of_arguments_are_followed() -> None:
    scale = [2.0]

    def scaled(x: Any) -> Any:
        return scale[0] * x

    fast = wg.compile(lambda weights, x: sum(w * f(x) for f, w in weights.items()))
    first = fast({scaled: 1.0}, 1.0)
    scale[0] = 5.0

    assert (first, fast({scaled: 1.0}, 1.0)) == (2.0, 5.0)


class Metres(float):
    """A number that multiplies in its own way."""

    def __mul__(self, other: Any) -> Any:
        return 100.0


@pytest.mark.parametrize(
    ("f", "argument"),
    [
        (lambda x: x * 2.0, Metres(3.0)),
        (lambda m: m.data["a"] * 2.0, collections.UserDict(a=1.0)),
        (lambda a: a * 2.0, np.float16(1.5)),
        (lambda a: (a * 2.0).tolist(), np.array([1.0, 2.0], ">f8")),
        (lambda a: a.ravel("K").tolist(), np.asfortranarray(np.arange(6.0).reshape(2, 3))),
        (lambda k: k.ravel("K").tolist(), np.asfortranarray(np.arange(6).reshape(2, 3))),
    ],
)
def test_arguments_that_are_not_recorded_go_to_the_function_itself(f: Callable[[Any], Any], argument: Any) -> None:
    fast = wg.compile(f)

    assert [fast(argument), fast(argument)] == [f(argument), f(argument)]


def test_an_argument_that_contains_itself_goes_to_the_function_itself() -> None:
    items: list[Any] = [1.0]
    items.append(items)

    assert wg.compile(lambda t: t[0] * 2.0)(items) == 2.0


def test_an_order_of_memory_is_refused_where_it_would_be_lost() -> None:
    with pytest.raises(ValueError, match="depends on memory layout"):
        wg.grad(lambda a: np.ravel(a, "K")[1])(np.asfortranarray(np.arange(6.0).reshape(2, 3)))


@dataclasses.dataclass
class Layer:
    """A dataclass as people write parameters: numbers, settings, and a field that is not passed."""

    w: Any
    b: Any = 0.5
    activation: str = "tanh"
    size: int = 2
    scale: Any = dataclasses.field(init=False, default=3.0)

    def __post_init__(self) -> None:
        assert isinstance(self.b, float), "the constructor ran on something else"
        self.note = "set later"

    def apply(self, x: Any) -> Any:
        assert (self.activation, self.note) == ("tanh", "set later")
        return np.tanh(np.sum(self.w * x) + self.b) * self.size * self.scale


@dataclasses.dataclass(frozen=True, slots=True)
class FrozenLayer:
    """A frozen dataclass without a dict of attributes, with another dataclass in it."""

    inner: Layer
    gain: float = 2.0

    def apply(self, x: Any) -> Any:
        return self.inner.apply(x) * self.gain


@dataclasses.dataclass
class Pair:
    """Two numbers."""

    one: Any
    two: Any


class Registered:
    """A class of one's own that is registered as a container."""

    def __init__(self, w: Any, name: str) -> None:
        self.w = w
        self.name = name

    def apply(self, x: Any) -> Any:
        return np.sum(self.w * x)


wg.register_container(Registered, lambda item: ([item.w], item.name), lambda name, parts: Registered(*parts, name))


def test_a_gradient_by_a_dataclass_is_such_a_dataclass() -> None:
    layer = Layer(np.array([0.1, 0.2]))
    gradient = wg.grad(lambda layer: layer.apply(1.0))(layer)
    slope = 1.0 - np.tanh(0.8) ** 2

    assert type(gradient) is Layer
    assert np.allclose(gradient.w, 6.0 * slope)
    assert np.isclose(gradient.b, 6.0 * slope)
    assert np.isclose(gradient.scale, 2.0 * np.tanh(0.8))
    assert (gradient.activation, gradient.size) == (None, None)


def test_dataclasses_may_be_frozen_and_nested() -> None:
    layer = FrozenLayer(Layer(np.array([0.1, 0.2])))
    gradient = wg.grad(lambda layer: layer.apply(1.0))(layer)

    assert type(gradient) is FrozenLayer
    assert np.isclose(gradient.gain, layer.inner.apply(1.0))
    assert np.allclose(gradient.inner.w, 2.0 * wg.grad(lambda w: Layer(w).apply(1.0))(layer.inner.w))


def test_a_gradient_by_a_registered_class_is_such_an_object() -> None:
    gradient = wg.grad(lambda item: item.apply(3.0) ** 2)(Registered(np.array([1.0, 2.0]), "first"))

    assert (type(gradient), gradient.name) == (Registered, "first")
    assert gradient.w.tolist() == [54.0, 54.0]


def test_a_class_that_is_not_registered_is_refused_by_name() -> None:
    class Unknown:
        w = 2.0

    with pytest.raises(OperandError, match="Unknown"):
        wg.grad(lambda item: item.w)(Unknown())


@pytest.mark.parametrize("cls", [float, dict, np.ndarray, wg.Value])
def test_known_classes_cannot_be_registered(cls: type) -> None:
    with pytest.raises(OperandError, match="known already"):
        wg.register_container(cls, lambda item: ([], None), lambda rest, parts: rest)


STATIC_PARAMETERS = {"w": np.array([1.0, 2.0]), "name": "relu", "n": 3, "on": True, "places": np.arange(2), "f": np.sin}


def use_static(p: dict[str, Any]) -> Any:
    assert (p["name"], p["on"]) == ("relu", True)
    return np.sum(p["f"](p["w"][p["places"]])) * p["n"]


STATIC_GRADIENT = {
    "w": 3.0 * np.cos(STATIC_PARAMETERS["w"]),
    "name": None,
    "n": None,
    "on": None,
    "places": None,
    "f": None,
}


def assert_static_gradient(gradient: dict[str, Any]) -> None:
    assert list(gradient) == list(STATIC_GRADIENT)
    assert np.allclose(gradient["w"], STATIC_GRADIENT["w"])
    assert [gradient[key] for key in ("name", "n", "on", "places", "f")] == [None] * 5


def test_leaves_that_are_no_numbers_pass_and_have_no_gradient() -> None:
    assert_static_gradient(wg.grad(use_static)(STATIC_PARAMETERS))
    assert_static_gradient(wg.value_and_grad(use_static)(STATIC_PARAMETERS)[1])
    assert_static_gradient(wg.vjp(use_static, STATIC_PARAMETERS)[1](1.0)[0])
    assert_static_gradient(wg.jacobian(use_static)(STATIC_PARAMETERS))
    assert_static_gradient(wg.compile(use_static).value_and_grad(STATIC_PARAMETERS)[1])


def test_tangents_of_static_leaves_may_be_anything() -> None:
    step = {**STATIC_GRADIENT, "w": np.ones(2)}
    (slope,) = wg.jvp(use_static, (STATIC_PARAMETERS,), (step,))[1:]

    assert np.isclose(slope, np.sum(STATIC_GRADIENT["w"]))
    assert np.allclose(wg.hvp(use_static, STATIC_PARAMETERS, step)["w"], -3.0 * np.sin(STATIC_PARAMETERS["w"]))


def test_compiled_functions_replay_parameters_with_static_leaves() -> None:
    fast = wg.compile(lambda p: np.sum(p["w"] ** 2) * p["n"])
    parameters = {"w": np.array([1.0, 2.0]), "name": "relu", "n": 3}
    answers = [fast.value_and_grad(parameters) for _ in range(2)]

    assert [gradient["w"].tolist() for _, gradient in answers] == [[6.0, 12.0]] * 2
    assert [gradient["n"] for _, gradient in answers] == [None, None]
    assert sum(variant.hits for variant in fast.info.variants) >= 1


def test_examples_share_the_static_leaves_of_a_container() -> None:
    batch = {"w": np.arange(6.0).reshape(3, 2), "name": "relu", "n": 2}

    assert wg.vmap(lambda p: np.sum(p["w"]) * p["n"])(batch).tolist() == [2.0, 10.0, 18.0]


def test_an_argument_of_whole_numbers_alone_is_refused() -> None:
    with pytest.raises(TypeError, match=r"argument 0 .* must be real or complex"):
        wg.grad(lambda x: x[0] * x[1])([1, 2])
    with pytest.raises(TypeError, match=r"argument 0 .* must be real or complex"):
        wg.grad(lambda x: x)(3)


def test_inputs_of_a_circuit_are_named_after_fields() -> None:
    circuit = wg.trace(lambda layer: layer.apply(1.0), FrozenLayer(Layer(np.array([0.1, 0.2]))))

    assert circuit.inputs == ("layer_inner_w", "layer_inner_b", "layer_inner_scale", "layer_gain")


def test_functions_may_return_dataclasses_and_registered_objects() -> None:
    jacobian = wg.jacobian(lambda x: Pair(x**2, x**3))(2.0)

    assert jacobian == Pair(4.0, 12.0)
    assert wg.vmap(lambda x: Registered(2.0 * x, "y"))(np.arange(3.0)).w.tolist() == [0.0, 2.0, 4.0]


def test_a_structure_is_shown_with_its_fields() -> None:
    assert repr(flatten([Layer(1.0), Registered(2.0, "first")])[1]).startswith("[Layer(w=*, b=*, activation=*")
