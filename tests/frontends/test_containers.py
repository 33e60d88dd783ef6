"""Containers as arguments: a function sees them as it would without a transform, in order, class and attributes."""

from __future__ import annotations

import collections
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
