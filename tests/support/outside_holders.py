"""Things outside a function that hold a number, each with the ways in which Python lets the number become another.

A holder is made twice with the same number, for two worlds that do not touch: in one the plain function reads it, in
the other the compiled one. `read` gives the number and is code of its own, which the compiled function calls; each
of `changes` makes it another number.
"""

from __future__ import annotations

import abc
import argparse
import array
import builtins
import collections
import collections.abc
import configparser
import contextvars
import ctypes
import dataclasses
import decimal
import enum
import functools
import heapq
import io
import itertools
import multiprocessing
import operator
import os
import queue
import random
import sys
import threading
import types
import typing
import warnings
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import wiregrad as wg

Change = Callable[[float], Any]


@dataclass(frozen=True)
class Holder:
    """How a number is read, and what makes it another one."""

    read: Callable[[], Any]
    changes: tuple[Change, ...]


Make = Callable[[float], Holder]
HOLDERS: dict[str, Make] = {}
_numbers = itertools.count()


def holder(make: Make) -> Make:
    HOLDERS[make.__name__] = make
    return make


def fresh_name(stem: str = "outside") -> str:
    return f"{stem}_{next(_numbers)}"


class Plain:
    """An object with attributes."""

    def __init__(self, number: float) -> None:
        self.number = number

    def doubled(self) -> float:
        return 2.0 * self.number


class Other(Plain):
    """Reads the same attribute in another way."""

    @property
    def shown(self) -> float:
        return -self.number


# Variables ------------------------------------------------------------------------------------------------------------


@holder
def cell(v: float) -> Holder:
    number = v

    def change(w: float) -> None:
        nonlocal number
        number = w

    return Holder(lambda: number, (change,))


@holder
def global_variable(v: float) -> Holder:
    scope: dict[str, Any] = {"number": v, "__builtins__": builtins}
    exec("def read(): return number", scope)
    return Holder(scope["read"], (lambda w: scope.update(number=w), lambda w: exec(f"number = {w!r}", scope)))


@holder
def global_that_shadows_a_builtin(v: float) -> Holder:
    scope: dict[str, Any] = {"v": v}
    exec("def read(): return v + abs(-1.0)", scope)
    return Holder(scope["read"], (lambda w: scope.update(abs=lambda _: w), lambda w: scope.pop("abs", None)))


@holder
def builtin_of_ones_own(v: float) -> Holder:
    name = fresh_name()
    setattr(builtins, name, v)
    scope: dict[str, Any] = {}
    exec(f"def read(): return {name}", scope)
    return Holder(scope["read"], (lambda w: setattr(builtins, name, w),))


@holder
def variable_by_name(v: float) -> Holder:
    scope: dict[str, Any] = {"number": v}
    exec("def read(): return globals()['num' + 'ber']", scope)
    return Holder(scope["read"], (lambda w: scope.update(number=w),))


@holder
def default_argument(v: float) -> Holder:
    def inner(number: float = v, *, more: float = 0.0) -> float:
        return number + more

    return Holder(
        lambda: inner(),
        (
            lambda w: setattr(inner, "__defaults__", (w,)),
            lambda w: setattr(inner, "__kwdefaults__", {"more": w}),
            lambda w: (inner.__kwdefaults__ or {}).update(more=w),
        ),
    )


@holder
def code_of_a_function(v: float) -> Holder:
    def one() -> float:
        return v

    def two() -> float:
        return -v

    codes = [one.__code__, two.__code__]
    return Holder(lambda: one(), (lambda w: setattr(one, "__code__", codes[one.__code__ is codes[0]]),))


@holder
def module_variable(v: float) -> Holder:
    module = types.ModuleType("settings")
    module.number = v  # type: ignore[attr-defined]
    return Holder(lambda: module.number, (lambda w: setattr(module, "number", w),))


@holder
def module_as_an_alias(v: float) -> Holder:
    module = types.ModuleType("settings")
    module.number = v  # type: ignore[attr-defined]

    def read() -> Any:
        alias = module
        return alias.number

    return Holder(read, (lambda w: setattr(module, "number", w),))


@holder
def module_by_name(v: float) -> Holder:
    module = types.ModuleType("settings")
    module.number = v  # type: ignore[attr-defined]
    name = "number"
    return Holder(lambda: getattr(module, name), (lambda w: setattr(module, "number", w),))


@holder
def module_with_getattr(v: float) -> Holder:
    module = types.ModuleType("settings")
    table = {"number": v}
    module.__getattr__ = table.__getitem__  # type: ignore[method-assign]
    return Holder(
        lambda: module.number,
        (lambda w: table.update(number=w), lambda w: setattr(module, "number", w)),
    )


@holder
def module_imported_inside(v: float) -> Holder:
    name = fresh_name()
    module = sys.modules[name] = types.ModuleType(name)
    module.number = v  # type: ignore[attr-defined]
    scope: dict[str, Any] = {}
    exec(f"def read():\n    import {name} as m\n    return m.number", scope)

    def replace(w: float) -> None:
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].number = w  # type: ignore[attr-defined]

    return Holder(scope["read"], (lambda w: setattr(sys.modules[name], "number", w), replace))


@holder
def name_imported_inside(v: float) -> Holder:
    name = fresh_name()
    module = sys.modules[name] = types.ModuleType(name)
    module.number = v  # type: ignore[attr-defined]
    scope: dict[str, Any] = {}
    exec(f"def read():\n    from {name} import number\n    return number", scope)
    return Holder(scope["read"], (lambda w: setattr(module, "number", w),))


@holder
def module_in_sys_modules(v: float) -> Holder:
    name = fresh_name()
    module = sys.modules[name] = types.ModuleType(name)
    module.number = v  # type: ignore[attr-defined]
    return Holder(lambda: sys.modules[name].number, (lambda w: setattr(module, "number", w),))


@holder
def function_in_a_file_of_packages(v: float) -> Holder:
    scope: dict[str, Any] = {"number": v, "table": [v]}
    exec(compile("def read(): return number + table[0]", "/my-packages/site-packages/own.py", "exec"), scope)
    return Holder(scope["read"], (lambda w: scope.update(number=w), lambda w: scope["table"].__setitem__(0, w)))


@holder
def known_module_patched(v: float) -> Holder:
    module = types.ModuleType("mymath")
    module.sin = lambda x: v * x  # type: ignore[attr-defined]
    return Holder(lambda: module.sin(1.0), (lambda w: setattr(module, "sin", lambda x: w * x),))


# Containers -----------------------------------------------------------------------------------------------------------


@holder
def list_element(v: float) -> Holder:
    items = [1.0, v]
    return Holder(
        lambda: items[1],
        (
            lambda w: items.__setitem__(1, w),
            lambda w: items.insert(1, w),
            lambda w: items.reverse(),
            lambda w: items.__setitem__(slice(0, 2), [w, w]),
        ),
    )


@holder
def list_length(v: float) -> Holder:
    items = [v]
    return Holder(lambda: float(len(items)) + items[-1], (items.append, lambda w: items.extend([w, w])))


@holder
def list_in_a_tuple_in_a_dict(v: float) -> Holder:
    items = {"a": ([v], "text")}
    return Holder(lambda: items["a"][0][0], (lambda w: items["a"][0].__setitem__(0, w),))


@holder
def long_list(v: float) -> Holder:
    items = [v] * 1_500
    return Holder(lambda: items[700], (lambda w: items.__setitem__(700, w),))


@holder
def very_long_list(v: float) -> Holder:
    items = [v] * 11_000
    return Holder(lambda: items[9_999], (lambda w: items.__setitem__(9_999, w),))


@holder
def dict_value(v: float) -> Holder:
    table = {"a": v}
    return Holder(
        lambda: table["a"],
        (lambda w: table.update(a=w), lambda w: (table.clear(), table.update(a=w))),
    )


@holder
def dict_key_not_there(v: float) -> Holder:
    table: dict[str, float] = {}
    return Holder(lambda: table.get("a", v), (lambda w: table.update(a=w), lambda w: table.pop("a", None)))


@holder
def dict_order(v: float) -> Holder:
    table = {"a": v, "b": 1.0}
    return Holder(lambda: next(iter(table.values())), (lambda w: table.update(a=table.pop("a"), b=w),))


@holder
def set_membership(v: float) -> Holder:
    known = {v}
    return Holder(lambda: 2.0 if 3.0 in known else 1.0, (lambda w: known.add(3.0), lambda w: known.discard(3.0)))


@holder
def frozen_set_of_objects(v: float) -> Holder:
    thing = Plain(v)
    known = frozenset([thing])
    return Holder(lambda: sum(one.number for one in known), (lambda w: setattr(thing, "number", w),))


@holder
def deque_element(v: float) -> Holder:
    items = collections.deque([v, 1.0])
    return Holder(lambda: items[0], (items.appendleft, lambda w: items.rotate(1), lambda w: items.__setitem__(0, w)))


@holder
def ordered_dict(v: float) -> Holder:
    table = collections.OrderedDict(a=v, b=1.0)
    return Holder(
        lambda: next(iter(table.values())),
        (lambda w: table.move_to_end("a"), lambda w: table.update(a=w, b=-w)),
    )


@holder
def default_dict(v: float) -> Holder:
    table: Any = collections.defaultdict(lambda: v)
    return Holder(
        lambda: table["a"] if "a" in table else table.default_factory(),
        (lambda w: setattr(table, "default_factory", lambda: w), lambda w: table.update(a=w)),
    )


@holder
def counter(v: float) -> Holder:
    table = collections.Counter({"a": v})
    return Holder(lambda: table["a"], (lambda w: table.update({"a": w}), lambda w: table.subtract({"a": w})))


@holder
def user_dict(v: float) -> Holder:
    table = collections.UserDict(a=v)
    return Holder(
        lambda: table["a"],
        (lambda w: table.update(a=w), lambda w: setattr(table, "data", {"a": w})),
    )


@holder
def user_list(v: float) -> Holder:
    items = collections.UserList([v])
    return Holder(lambda: items[0], (lambda w: items.__setitem__(0, w), lambda w: setattr(items, "data", [w])))


@holder
def chain_map(v: float) -> Holder:
    maps = collections.ChainMap({}, {"a": v})
    return Holder(
        lambda: maps["a"],
        (lambda w: maps.__setitem__("a", w), lambda w: maps.maps[1].update(a=w), lambda w: maps.maps.reverse()),
    )


@holder
def mapping_proxy(v: float) -> Holder:
    table = {"a": v}
    proxy = types.MappingProxyType(table)
    return Holder(lambda: proxy["a"], (lambda w: table.update(a=w),))


@holder
def config_parser(v: float) -> Holder:
    parser = configparser.ConfigParser()
    parser["s"] = {"a": repr(v)}
    return Holder(lambda: parser.getfloat("s", "a"), (lambda w: parser.set("s", "a", repr(w)),))


@holder
def list_of_ones_own(v: float) -> Holder:
    class Table(list[float]):
        scale = 1.0

        def __getitem__(self, index: Any) -> Any:
            return self.scale * super().__getitem__(index)

    items = Table([v])
    return Holder(
        lambda: items[0],
        (
            lambda w: items.__setitem__(0, w),
            lambda w: setattr(items, "scale", w),
            lambda w: setattr(Table, "scale", w),
        ),
    )


@holder
def dict_of_ones_own(v: float) -> Holder:
    class Table(dict[str, float]):
        missing = v

        def __missing__(self, key: str) -> float:
            return self.missing

    table = Table()
    return Holder(lambda: table["a"], (lambda w: setattr(Table, "missing", w), lambda w: table.update(a=w)))


@holder
def bytes_array(v: float) -> Holder:
    data = bytearray([3, int(abs(v)) % 200])
    return Holder(
        lambda: float(data[1]) + len(data),
        (lambda w: data.__setitem__(1, int(abs(w)) % 250), lambda w: data.append(1)),
    )


@holder
def number_array(v: float) -> Holder:
    data = array.array("d", [v])
    return Holder(lambda: data[0] + len(data), (lambda w: data.__setitem__(0, w), data.append))


@holder
def memory_view(v: float) -> Holder:
    data = array.array("d", [v])
    view = memoryview(data)
    return Holder(lambda: view[0], (lambda w: data.__setitem__(0, w),))


@holder
def queue_of_numbers(v: float) -> Holder:
    waiting: queue.Queue[float] = queue.Queue()
    for k in range(10_000):
        waiting.put(v + k)
    return Holder(waiting.get_nowait, (waiting.put,))


# NumPy ----------------------------------------------------------------------------------------------------------------


@holder
def array_element(v: float) -> Holder:
    data = np.full(5, v)
    view = data[1:4]
    raw = memoryview(data)  # type: ignore[arg-type]
    return Holder(
        lambda: data[2],
        (
            data.fill,
            lambda w: view.__setitem__(1, w),
            lambda w: np.copyto(data, w),
            lambda w: data.sort(),
            lambda w: raw.__setitem__(2, w),
        ),
    )


@holder
def number_of_no_axes(v: float) -> Holder:
    data = np.array(v)
    return Holder(lambda: data[()], (lambda w: data.__setitem__((), w),))


@holder
def large_array(v: float) -> Holder:
    data = np.full(50_000, v)
    return Holder(lambda: data[40_000], (lambda w: data.__setitem__(40_000, w),))


@holder
def array_seen_backwards(v: float) -> Holder:
    data = np.full((4, 4), v)
    view = data[::-2, ::-1]
    return Holder(lambda: view[0, 0], (lambda w: data.__setitem__((3, 3), w),))


@holder
def array_shape(v: float) -> Holder:
    data = np.full(6, v)

    def change(w: float) -> None:
        data.shape = (2, 3) if data.shape == (6,) else (6,)

    return Holder(lambda: data.shape[0] * v, (change,))


@holder
def array_dtype(v: float) -> Holder:
    data = np.full(2, v)

    def change(w: float) -> None:
        data.dtype = np.int64 if data.dtype == np.float64 else np.float64

    return Holder(lambda: float(data[0]) % 1000.0, (change, data.fill))


@holder
def array_sign_of_zero(v: float) -> Holder:
    data = np.array([0.0])
    return Holder(lambda: np.copysign(v, data[0]), (lambda w: data.fill(-0.0), lambda w: data.fill(0.0)))


@holder
def array_of_objects(v: float) -> Holder:
    data = np.array([[v, 1.0], [2.0, 3.0]], object)
    view = data.T
    return Holder(lambda: view[0, 0], (lambda w: data.__setitem__((0, 0), w),))


@holder
def array_of_lists(v: float) -> Holder:
    data = np.empty(2, object)
    data[0], data[1] = [v], None
    return Holder(lambda: data[0][0], (lambda w: data[0].__setitem__(0, w),))


@holder
def structured_array(v: float) -> Holder:
    data = np.zeros(2, [("a", float), ("b", int)])
    data["a"] = v
    return Holder(lambda: data["a"][1], (lambda w: data["a"].fill(w), lambda w: data.__setitem__(1, (w, 1))))


@holder
def structured_array_of_objects(v: float) -> Holder:
    data = np.zeros(1, [("a", object)])
    data["a"][0] = [v]
    return Holder(lambda: data["a"][0][0], (lambda w: data["a"][0].__setitem__(0, w),))


@holder
def structured_number(v: float) -> Holder:
    data = np.zeros(1, [("a", float)])
    record = data[0]
    return Holder(lambda: record["a"] + v, (lambda w: record.__setitem__("a", w), lambda w: data["a"].fill(w)))


@holder
def matrix(v: float) -> Holder:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        data = np.asmatrix([[v]])
    return Holder(lambda: data[0, 0], (lambda w: data.__setitem__((0, 0), w),))


@holder
def masked_array(v: float) -> Holder:
    data = np.ma.array([v, 1.0], mask=[False, False])
    return Holder(
        lambda: float(data.sum()),
        (lambda w: data.__setitem__(0, w), lambda w: data.mask.__setitem__(1, not data.mask[1])),
    )


@holder
def flat_iterator(v: float) -> Holder:
    data = np.full(3, v)
    flat = data.flat
    return Holder(lambda: flat[1], (data.fill,))


@holder
def vectorized_function(v: float) -> Holder:
    table = [v]
    ours = np.vectorize(lambda x: x * table[0])
    return Holder(lambda: float(ours(1.0)), (lambda w: table.__setitem__(0, w),))


@holder
def ufunc_of_a_python_function(v: float) -> Holder:
    table = [v]
    ours = np.frompyfunc(lambda x: x * table[0], 1, 1)
    return Holder(lambda: ours(1.0), (lambda w: table.__setitem__(0, w),))


@holder
def random_generator(v: float) -> Holder:
    rng = np.random.default_rng(int(abs(v)))
    return Holder(lambda: rng.random(), (lambda w: rng.bit_generator.advance(3),))


# Objects and classes --------------------------------------------------------------------------------------------------


@holder
def attribute(v: float) -> Holder:
    thing = Plain(v)
    return Holder(
        lambda: thing.number,
        (
            lambda w: setattr(thing, "number", w),
            lambda w: thing.__dict__.update(number=w),
            lambda w: setattr(thing, "__dict__", {"number": w}),
        ),
    )


@holder
def class_of_an_object(v: float) -> Holder:
    class One:
        number = v

    class Two:
        number = -v

    thing: Any = One()
    return Holder(
        lambda: thing.number,
        (
            lambda w: setattr(thing, "__class__", Two if type(thing) is One else One),
            lambda w: setattr(Two, "number", w),
        ),
    )


@holder
def method(v: float) -> Holder:
    thing = Plain(v)
    return Holder(
        lambda: thing.doubled(),
        (
            lambda w: setattr(thing, "number", w),
            lambda w: setattr(thing, "doubled", lambda: w),
            lambda w: thing.__dict__.pop("doubled", None),
        ),
    )


@holder
def class_attribute(v: float) -> Holder:
    class Own(Plain):
        scale = v

    thing = Own(v)
    return Holder(
        lambda: thing.scale,
        (lambda w: setattr(Own, "scale", w), lambda w: setattr(thing, "scale", w)),
    )


@holder
def attribute_of_a_base(v: float) -> Holder:
    class Base:
        scale = v

    class Middle(Base):
        pass

    class Own(Middle):
        pass

    thing = Own()
    return Holder(
        lambda: thing.scale,
        (
            lambda w: setattr(Base, "scale", w),
            lambda w: setattr(Middle, "scale", w),
            lambda w: setattr(Own, "scale", w),
        ),
    )


@holder
def bases_of_a_class(v: float) -> Holder:
    class One:
        scale = v

    class Two:
        scale = -v

    class Own(One):
        pass

    return Holder(lambda: Own.scale, (lambda w: setattr(Own, "__bases__", (Two,) if Own.__base__ is One else (One,)),))


@holder
def metaclass_attribute(v: float) -> Holder:
    class Meta(type):
        scale = v

    class Own(metaclass=Meta):
        pass

    return Holder(lambda: Own.scale, (lambda w: setattr(Meta, "scale", w),))


@holder
def property_of_a_class(v: float) -> Holder:
    class Own(Other):
        pass

    thing = Own(v)
    return Holder(
        lambda: thing.shown,
        (lambda w: setattr(thing, "number", w), lambda w: setattr(Own, "shown", property(lambda self: w))),
    )


@holder
def property_that_is_cached(v: float) -> Holder:
    class Own(Plain):
        @functools.cached_property
        def slow(self) -> float:
            return self.number

    thing = Own(v)
    return Holder(
        lambda: thing.slow,
        (lambda w: thing.__dict__.update(slow=w), lambda w: (setattr(thing, "number", w), thing.__dict__.pop("slow"))),
    )


@holder
def descriptor(v: float) -> Holder:
    class Field:
        def __init__(self) -> None:
            self.values: dict[int, float] = {}

        def __get__(self, owner: Any, kind: Any) -> float:
            return self.values.get(0, v)

    field = Field()

    class Own:
        number = field

    thing = Own()
    return Holder(lambda: thing.number, (lambda w: field.values.update({0: w}),))


@holder
def dynamic_attribute(v: float) -> Holder:
    class Own:
        def __init__(self) -> None:
            self.table = {"number": v}

        def __getattr__(self, name: str) -> Any:
            return self.__dict__["table"][name]

    thing = Own()
    return Holder(
        lambda: thing.number,
        (lambda w: thing.table.update(number=w), lambda w: setattr(thing, "number", w)),
    )


@holder
def intercepted_attribute(v: float) -> Holder:
    class Own:
        number = v

        def __getattribute__(self, name: str) -> Any:
            return -object.__getattribute__(self, name)

    thing = Own()
    return Holder(lambda: thing.number, (lambda w: setattr(Own, "number", w), lambda w: setattr(thing, "number", w)))


@holder
def attribute_by_name(v: float) -> Holder:
    thing = Plain(v)
    part = "num"
    return Holder(lambda: getattr(thing, part + "ber"), (lambda w: setattr(thing, "number", w),))


@holder
def attributes_as_a_dict(v: float) -> Holder:
    thing = Plain(v)
    return Holder(
        lambda: sum(vars(thing).values()),
        (lambda w: setattr(thing, "number", w), lambda w: setattr(thing, fresh_name(), w)),
    )


@holder
def attribute_that_comes_later(v: float) -> Holder:
    thing = Plain(v)
    return Holder(
        lambda: thing.extra if hasattr(thing, "extra") else v,
        (lambda w: setattr(thing, "extra", w), lambda w: thing.__dict__.pop("extra", None)),
    )


@holder
def attribute_swapped_for_another(v: float) -> Holder:
    thing = Plain(v)
    thing.first = v  # type: ignore[attr-defined]

    def read() -> Any:
        try:
            return thing.second  # type: ignore[attr-defined]
        except AttributeError:
            return v

    def change(w: float) -> None:
        thing.__dict__.pop("first", None)
        thing.__dict__["second"] = w

    return Holder(read, (change,))


@holder
def slots(v: float) -> Holder:
    class Own:
        __slots__ = ("number",)

    thing = Own()
    thing.number = v
    return Holder(lambda: thing.number, (lambda w: setattr(thing, "number", w),))


@holder
def private_slots(v: float) -> Holder:
    class Own:
        __slots__ = ("__number",)

        def __init__(self) -> None:
            self.__number = v

        def get(self) -> float:
            return self.__number

        def put(self, w: float) -> None:
            self.__number = w

    thing = Own()
    return Holder(lambda: thing.get(), (thing.put, lambda w: setattr(thing, "_Own__number", w)))


@holder
def slots_of_a_base(v: float) -> Holder:
    class Base:
        __slots__ = ("number",)

    class Own(Base):
        pass

    thing = Own()
    thing.number = v
    return Holder(
        lambda: thing.number,
        (lambda w: setattr(thing, "number", w), lambda w: setattr(Own, "number", w)),
    )


@holder
def data_class(v: float) -> Holder:
    @dataclasses.dataclass
    class Own:
        number: float
        items: list[float]

    thing = Own(v, [v])
    return Holder(
        lambda: thing.number + thing.items[0],
        (lambda w: setattr(thing, "number", w), lambda w: thing.items.__setitem__(0, w)),
    )


@holder
def frozen_data_class(v: float) -> Holder:
    @dataclasses.dataclass(frozen=True)
    class Own:
        number: float

    thing = Own(v)
    return Holder(lambda: dataclasses.astuple(thing)[0], (lambda w: object.__setattr__(thing, "number", w),))


@holder
def named_tuple(v: float) -> Holder:
    class Own(typing.NamedTuple):
        items: list[float]

        def first(self) -> float:
            return self.items[0]

    thing = Own([v])
    return Holder(lambda: thing.items[0] + thing.first(), (lambda w: thing.items.__setitem__(0, w),))


@holder
def enum_member(v: float) -> Holder:
    class Kind(enum.Enum):
        ONE = v
        TWO = v + 1.0

    def change(w: float) -> None:
        Kind.ONE._value_ = w

    return Holder(lambda: Kind.ONE.value, (change, lambda w: setattr(Kind.TWO, "_value_", w)))


@holder
def enum_attribute(v: float) -> Holder:
    class Kind(enum.Enum):
        ONE = 1

        @property
        def scale(self) -> float:
            return self.held[0]

    Kind.ONE.held = [v]  # type: ignore[attr-defined]
    return Holder(lambda: Kind.ONE.scale, (lambda w: Kind.ONE.held.__setitem__(0, w),))  # type: ignore[attr-defined]


@holder
def generic_class(v: float) -> Holder:
    T = typing.TypeVar("T")

    class Own(typing.Generic[T]):
        scale = v

    thing: Own[float] = Own()
    return Holder(lambda: thing.scale, (lambda w: setattr(Own, "scale", w),))


def shape_classes() -> tuple[type[Any], type[Any]]:
    """Return an abstract class, and a class that may be registered with it."""

    class Shape(abc.ABC):
        @abc.abstractmethod
        def area(self) -> float: ...

    class Square:
        pass

    return Shape, Square


@holder
def abstract_class(v: float) -> Holder:
    shape, square_class = shape_classes()
    square = square_class()
    return Holder(lambda: v if isinstance(square, shape) else -v, (lambda w: shape.register(square_class),))


@holder
def simple_namespace(v: float) -> Holder:
    names = types.SimpleNamespace(inner=types.SimpleNamespace(number=v))
    return Holder(
        lambda: names.inner.number,
        (
            lambda w: setattr(names.inner, "number", w),
            lambda w: setattr(names, "inner", types.SimpleNamespace(number=w)),
            lambda w: vars(names.inner).update(number=w),
        ),
    )


@holder
def parsed_arguments(v: float) -> Holder:
    names = argparse.Namespace(number=v, inner=argparse.Namespace(items=[v]))
    return Holder(
        lambda: names.number + names.inner.items[0],
        (lambda w: setattr(names, "number", w), lambda w: names.inner.items.__setitem__(0, w)),
    )


@holder
def object_that_can_be_called(v: float) -> Holder:
    class Own(Plain):
        def __call__(self) -> float:
            return self.number

    thing = Own(v)
    return Holder(
        lambda: thing(),
        (lambda w: setattr(thing, "number", w), lambda w: setattr(Own, "__call__", lambda self: w)),
    )


@holder
def special_method_that_comes_later(v: float) -> Holder:
    class Own(Plain):
        pass

    thing = Own(v)
    return Holder(lambda: v if thing else -v, (lambda w: setattr(Own, "__bool__", lambda self: w > 0.0),))


@holder
def static_and_class_methods(v: float) -> Holder:
    class Own:
        scale = v

        @staticmethod
        def one() -> float:
            return v

        @classmethod
        def two(cls) -> float:
            return cls.scale

    return Holder(
        lambda: Own.one() + Own.two(),
        (lambda w: setattr(Own, "one", staticmethod(lambda: w)), lambda w: setattr(Own, "scale", w)),
    )


@holder
def object_made_by_the_function(v: float) -> Holder:
    table = [v]

    class Own:
        def __init__(self) -> None:
            self.number = table[0]

    return Holder(
        lambda: Own().number, (lambda w: table.__setitem__(0, w), lambda w: setattr(Own, "__init__", _init(w)))
    )


@holder
def object_made_by_a_base(v: float) -> Holder:
    table = [v]

    class Base:
        def __init__(self) -> None:
            self.number = table[0]

    class Own(Base):
        pass

    return Holder(
        lambda: Own().number, (lambda w: table.__setitem__(0, w), lambda w: setattr(Base, "__init__", _init(w)))
    )


@holder
def exception_of_ones_own(v: float) -> Holder:
    table = [v]

    class ProblemError(Exception):
        def __init__(self) -> None:
            super().__init__()
            self.number = table[0]

    def read() -> float:
        try:
            raise ProblemError
        except ProblemError as problem:
            return problem.number

    return Holder(read, (lambda w: table.__setitem__(0, w),))


@holder
def class_of_a_bare_function(v: float) -> Holder:
    class Own:
        scale = v

        def read(self) -> float:
            return __class__.scale  # type: ignore[name-defined, no-any-return]

    bare = Own.read
    return Holder(lambda: bare(None), (lambda w: setattr(Own, "scale", w),))  # type: ignore[arg-type]


@holder
def text_that_reads_attributes(v: float) -> Holder:
    thing = Plain(v)
    return Holder(lambda: float("{.number}".format(thing)), (lambda w: setattr(thing, "number", w),))  # noqa: UP032


@holder
def pattern_that_reads_attributes(v: float) -> Holder:
    thing = Plain(v)

    def read() -> float:
        match thing:
            case Plain(number=number):
                return number
            case _:
                return -1.0

    return Holder(read, (lambda w: setattr(thing, "number", w),))


def _init(w: float) -> Any:
    return lambda self: setattr(self, "number", w)


@holder
def number_with_attributes(v: float) -> Holder:
    class Own(float):
        scale = 1.0

        def __mul__(self, other: Any) -> Any:
            return float(self) * other * self.scale

    number = Own(v)
    return Holder(lambda: number * 1.0, (lambda w: setattr(number, "scale", w), lambda w: setattr(Own, "scale", w)))


@holder
def attribute_of_a_function(v: float) -> Holder:
    def inner() -> float:
        return inner.scale  # type: ignore[attr-defined, no-any-return]

    inner.scale = v  # type: ignore[attr-defined]
    return Holder(
        lambda: inner(),
        (
            lambda w: setattr(inner, "scale", w),
            lambda w: inner.__dict__.update(scale=w),
            lambda w: setattr(inner, "__dict__", {"scale": w}),
        ),
    )


@holder
def attribute_of_a_function_that_comes_later(v: float) -> Holder:
    def inner() -> float:
        return getattr(inner, "scale", v)

    return Holder(lambda: inner(), (lambda w: setattr(inner, "scale", w),))


# Functions ------------------------------------------------------------------------------------------------------------


@holder
def partial_function(v: float) -> Holder:
    table, settings = [v], {"scale": v}
    ours = functools.partial(lambda items, *, scale: items[0] + scale, table, **settings)
    return Holder(
        lambda: ours(),
        (
            lambda w: table.__setitem__(0, w),
            lambda w: ours.keywords.update(scale=w),
            lambda w: ours.__setstate__((lambda: w, (), {}, None)),
        ),
    )


@holder
def decorated_function(v: float) -> Holder:
    scales = [v]

    def scaled(f: Callable[[], float]) -> Callable[[], float]:
        @functools.wraps(f)
        def wrapper() -> float:
            return scales[0] * f()

        return wrapper

    @scaled
    def inner() -> float:
        return 2.0

    return Holder(lambda: inner(), (lambda w: scales.__setitem__(0, w),))


@holder
def function_with_a_cache(v: float) -> Holder:
    table = [v]

    @functools.lru_cache
    def inner() -> float:
        return table[0]

    return Holder(lambda: inner(), (lambda w: (table.__setitem__(0, w), inner.cache_clear()),))


@holder
def single_dispatch(v: float) -> Holder:
    @functools.singledispatch
    def inner(x: Any) -> float:
        return v

    return Holder(lambda: inner("text"), (lambda w: inner.register(str, lambda _: w),))


@holder
def bound_method_of_a_list(v: float) -> Holder:
    items = [v, 1.0]
    get = items.__getitem__
    return Holder(lambda: get(0), (lambda w: items.__setitem__(0, w),))


@holder
def getters_of_operator(v: float) -> Holder:
    thing, items = Plain(v), [v]
    by_name, by_index = operator.attrgetter("number"), operator.itemgetter(0)
    return Holder(
        lambda: by_name(thing) + by_index(items),
        (lambda w: setattr(thing, "number", w), lambda w: items.__setitem__(0, w)),
    )


@holder
def function_class_of_ones_own(v: float) -> Holder:
    table = [v]

    class Scale(wg.Function):
        check = False

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * table[0]

    return Holder(lambda: Scale.apply(1.0).data, (lambda w: table.__setitem__(0, w),))


@holder
def gradient_of_a_function(v: float) -> Holder:
    table = [v]
    slope = wg.grad(lambda x: x * x * table[0])
    return Holder(lambda: slope(1.0), (lambda w: table.__setitem__(0, w),))


@holder
def compiled_function(v: float) -> Holder:
    table = [v]
    inner = wg.compile(lambda x: x * table[0])
    return Holder(lambda: inner(1.0), (lambda w: table.__setitem__(0, w),))


# What hides its state -------------------------------------------------------------------------------------------------


@holder
def generator(v: float) -> Holder:
    numbers = (v + k for k in itertools.count())
    return Holder(lambda: next(numbers), (lambda w: next(numbers),))


@holder
def generator_in_an_object(v: float) -> Holder:
    names = types.SimpleNamespace(numbers=(v + k for k in itertools.count()))
    return Holder(lambda: next(names.numbers), (lambda w: next(names.numbers),))


@holder
def iterator(v: float) -> Holder:
    numbers = iter([v + k for k in range(100_000)])
    return Holder(lambda: next(numbers), (lambda w: next(numbers),))


@holder
def endless_count(v: float) -> Holder:
    numbers = itertools.count(v)
    return Holder(lambda: next(numbers), (lambda w: next(numbers),))


@holder
def mapped_numbers(v: float) -> Holder:
    numbers = map(abs, itertools.count(int(v)))
    return Holder(lambda: float(next(numbers)), (lambda w: next(numbers),))


@holder
def coroutine_like_object(v: float) -> Holder:
    class Counter:
        def __init__(self) -> None:
            self.number = v

        def __next__(self) -> float:
            self.number += 1.0
            return self.number

    numbers = Counter()
    return Holder(lambda: next(numbers), (lambda w: setattr(numbers, "number", w),))


@holder
def python_random(v: float) -> Holder:
    rng = random.Random(v)
    return Holder(rng.random, (rng.seed,))


@holder
def ctypes_number(v: float) -> Holder:
    number = ctypes.c_double(v)
    return Holder(lambda: number.value, (lambda w: setattr(number, "value", w),))


@holder
def ctypes_array(v: float) -> Holder:
    numbers = (ctypes.c_double * 3)(v, v, v)
    return Holder(lambda: numbers[1], (lambda w: numbers.__setitem__(1, w),))


@holder
def shared_number(v: float) -> Holder:
    number = multiprocessing.Value("d", v)
    return Holder(lambda: number.value, (lambda w: setattr(number, "value", w),))


@holder
def weak_reference(v: float) -> Holder:
    things = [Plain(v)]
    reference = weakref.ref(things[0])
    return Holder(
        lambda: reference().number if reference() is not None else -1.0,  # type: ignore[union-attr]
        (lambda w: setattr(things[0], "number", w) if things else None, lambda w: things.clear()),
    )


@holder
def weak_dictionary(v: float) -> Holder:
    things = {"a": Plain(v)}
    table: Any = weakref.WeakValueDictionary(things)
    return Holder(lambda: table["a"].number if "a" in table else -1.0, (lambda w: things.pop("a", None),))


@holder
def context_variable(v: float) -> Holder:
    number = contextvars.ContextVar(fresh_name(), default=v)
    return Holder(lambda: number.get(), (number.set,))


@holder
def thread_local(v: float) -> Holder:
    local = threading.local()
    local.number = v
    return Holder(lambda: local.number, (lambda w: setattr(local, "number", w),))


@holder
def decimal_context(v: float) -> Holder:
    context = decimal.Context(prec=20)
    return Holder(
        lambda: float(context.divide(decimal.Decimal(1), decimal.Decimal(3))),
        (lambda w: setattr(context, "prec", 1 + int(abs(w)) % 15),),
    )


@holder
def environment(v: float) -> Holder:
    name = fresh_name("WIREGRAD_TEST")
    os.environ[name] = repr(v)
    return Holder(lambda: float(os.environ[name]), (lambda w: os.environ.__setitem__(name, repr(w)),))


@holder
def text_file(v: float) -> Holder:
    file = io.StringIO(repr(v))

    def change(w: float) -> None:
        file.seek(0)
        file.truncate()
        file.write(repr(w))

    return Holder(lambda: float(file.getvalue()), (change,))


@holder
def leaf_value(v: float) -> Holder:
    number = wg.Value(v)
    return Holder(lambda: number.data, (lambda w: setattr(number, "data", w),))


@holder
def mixture(v: float) -> Holder:
    """Holders inside each other, one of each kind that can be compared."""
    bottom = np.array([v])
    names = types.SimpleNamespace(table={"a": (collections.deque([Plain(v)]), bottom)})
    thing = names.table["a"][0][0]
    return Holder(
        lambda: names.table["a"][0][0].number + names.table["a"][1][0],
        (lambda w: setattr(thing, "number", w), bottom.fill, lambda w: names.table["a"][0].appendleft(Plain(w))),
    )


# Ways that are easily overlooked --------------------------------------------------------------------------------------


@holder
def module_imported_under_an_alias(v: float) -> Holder:
    package, name = fresh_name("package"), "settings"
    sys.modules[package] = types.ModuleType(package)
    module = sys.modules[f"{package}.{name}"] = types.ModuleType(f"{package}.{name}")
    sys.modules[package].settings = module  # type: ignore[attr-defined]
    module.number = v  # type: ignore[attr-defined]
    scope: dict[str, Any] = {}
    exec(f"def read():\n    from {package} import settings as s\n    return s.number", scope)
    return Holder(scope["read"], (lambda w: setattr(module, "number", w),))


@holder
def module_in_an_attribute(v: float) -> Holder:
    module = types.ModuleType("settings")
    module.number = v  # type: ignore[attr-defined]
    thing = Plain(v)
    thing.module = module  # type: ignore[attr-defined]

    def read() -> Any:
        match thing:
            case Plain(module=found):
                return found.number

    return Holder(read, (lambda w: setattr(module, "number", w),))


@holder
def backward_of_a_function_class(v: float) -> Holder:
    table = [v]

    class Scale(wg.Function):
        check = False

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2.0

        @staticmethod
        def backward(ctx: Any, upstream: Any) -> Any:
            return upstream * table[0]

    slope = wg.grad(lambda x: Scale.apply(x))
    return Holder(lambda: slope(1.0), (lambda w: table.__setitem__(0, w),))


@holder
def methods_that_a_dict_display_calls(v: float) -> Holder:
    class Table:
        def __init__(self) -> None:
            self.known, self.numbers = ["a"], {"a": v, "b": 2.0}

        def keys(self) -> list[str]:
            return self.known

        def __getitem__(self, key: str) -> float:
            return self.numbers[key]

    table = Table()
    return Holder(
        lambda: sum({**table}.values()),
        (lambda w: table.known.append("b"), lambda w: table.numbers.update(a=w)),
    )


@holder
def methods_that_a_base_calls(v: float) -> Holder:
    class Own(collections.abc.MutableSequence[float]):
        def __init__(self) -> None:
            self.items: list[float] = []
            self.scale = v

        def insert(self, index: int, value: float) -> None:
            self.items.insert(index, value * self.scale)

        def __getitem__(self, index: Any) -> Any:
            return self.items[index]

        def __setitem__(self, index: Any, value: Any) -> None: ...

        def __delitem__(self, index: Any) -> None: ...

        def __len__(self) -> int:
            return len(self.items)

    scales = [v]

    def read() -> Any:
        own = Own()
        own.scale = scales[0]
        own.append(1.0)
        return own[0]

    return Holder(read, (lambda w: scales.__setitem__(0, w), lambda w: setattr(Own, "insert", _inserting(w))))


def _inserting(w: float) -> Any:
    return lambda self, index, value: self.items.insert(index, w)


@holder
def methods_that_numpy_calls(v: float) -> Holder:
    class Own:
        def __init__(self) -> None:
            self.number = v

        def max(self, axis: Any = None, out: Any = None) -> float:
            return self.number

    largest, thing = np.amax, Own()
    return Holder(lambda: largest(thing), (lambda w: setattr(thing, "number", w),))  # type: ignore[call-overload]


@holder
def format_text_in_a_variable(v: float) -> Holder:
    thing, text = Plain(v), "{0.number}"
    return Holder(lambda: float(text.format(thing)), (lambda w: setattr(thing, "number", w),))


@holder
def namespaces_that_are_equal(v: float) -> Holder:
    one, two = types.SimpleNamespace(n=1.0), types.SimpleNamespace(n=1.0)
    return Holder(lambda: v if one == two else -v, (lambda w: setattr(one, "n", w),))


@holder
def subclasses(v: float) -> Holder:
    class Base:
        pass

    class Own(Base):
        scale = v

    return Holder(
        lambda: sum(kind.scale for kind in Base.__subclasses__()),  # type: ignore[attr-defined]
        (lambda w: setattr(Own, "scale", w),),
    )


@holder
def doc_of_a_class(v: float) -> Holder:
    class Own:
        """ab"""

    return Holder(lambda: len(Own.__doc__ or "") * v, (lambda w: setattr(Own, "__doc__", "abcd"),))


@holder
def constructor_called_by_name(v: float) -> Holder:
    table = [v]

    class Own:
        def __init__(self) -> None:
            self.number = table[0]

        def fresh(self) -> float:
            self.__init__()  # type: ignore[misc]
            return self.number

    thing = Own()
    return Holder(lambda: thing.fresh(), (lambda w: table.__setitem__(0, w),))


@holder
def reflection_under_another_name(v: float) -> Holder:
    look_up, thing, name = getattr, Plain(v), "num" + "ber"[0:]
    return Holder(lambda: look_up(thing, name), (lambda w: setattr(thing, "number", w),))


@holder
def slots_of_the_same_name(v: float) -> Holder:
    class Base:
        __slots__ = ("number",)

    class Own(Base):
        __slots__ = ("number",)

    thing = Own()
    thing.number = v
    return Holder(lambda: thing.number, (lambda w: setattr(thing, "number", w),))


@holder
def fields_of_a_dtype(v: float) -> Holder:
    data = np.array([(v, v + 1.0)], [("a", float), ("b", float)])

    def change(w: float) -> None:
        data.dtype.names = ("b", "a") if data.dtype.names == ("a", "b") else ("a", "b")

    return Holder(lambda: data["a"][0], (change,))


@holder
def alias_of_a_generic_class(v: float) -> Holder:
    class Own:
        scale = v
        __class_getitem__ = classmethod(types.GenericAlias)

    alias = Own[float]  # type: ignore[misc]
    return Holder(lambda: alias.scale, (lambda w: setattr(Own, "scale", w),))


@holder
def union_of_classes(v: float) -> Holder:
    shape, square_class = shape_classes()
    square, union = square_class(), shape | int
    return Holder(lambda: v if isinstance(square, union) else -v, (lambda w: shape.register(square_class),))


@holder
def module_getattr_replaced(v: float) -> Holder:
    module = types.ModuleType("settings")
    module.__getattr__ = lambda name: v  # type: ignore[method-assign]
    return Holder(lambda: module.number, (lambda w: setattr(module, "__getattr__", lambda name: w),))


@holder
def wrapped_vectorized_function(v: float) -> Holder:
    table = [v]
    ours = functools.wraps(len)(np.vectorize(lambda x: x * table[0]))
    return Holder(lambda: float(ours(1.0)), (lambda w: table.__setitem__(0, w),))


@holder
def flag_of_an_array(v: float) -> Holder:
    data = np.array([v])
    return Holder(lambda: v if data.flags.writeable else -v, (lambda w: data.setflags(write=not data.flags.writeable),))


@holder
def moving_average(v: float) -> Holder:
    state = {"mean": v}

    def read() -> float:
        state["mean"] = 0.5 * state["mean"] + 1.0
        return state["mean"]

    return Holder(read, (lambda w: state.update(mean=w),))


@holder
def counter_of_calls(v: float) -> Holder:
    thing = Plain(v)

    def read() -> float:
        thing.number += 1.0
        thing.history = [*getattr(thing, "history", []), thing.number]  # type: ignore[attr-defined]
        return float(len(thing.history))  # type: ignore[attr-defined]

    return Holder(read, (lambda w: setattr(thing, "number", w),))


@holder
def array_changed_through_an_alias(v: float) -> Holder:
    steps = np.array([v])

    def read() -> float:
        alias = steps
        alias += 1.0
        return float(steps[0])

    return Holder(read, (steps.fill,))


@holder
def heap(v: float) -> Holder:
    items = [v]

    def read() -> float:
        heapq.heappush(items, v + len(items))
        return items[0] * len(items)

    return Holder(read, (items.append,))


@holder
def bound_method_that_appends(v: float) -> Holder:
    items = [v]
    push = items.append

    def read() -> float:
        push(1.0)
        return float(len(items))

    return Holder(read, (items.append,))


@holder
def attribute_that_a_function_gives_itself(v: float) -> Holder:
    def read() -> float:
        read.calls = getattr(read, "calls", 0) + 1  # type: ignore[attr-defined]
        return v * read.calls  # type: ignore[attr-defined, no-any-return]

    return Holder(read, (lambda w: setattr(read, "calls", int(w)),))


@holder
def attribute_of_a_library(v: float) -> Holder:
    name = fresh_name("wiregrad_test")
    scope: dict[str, Any] = {"np": np, "v": v}
    exec(f"def read():\n    np.{name} = getattr(np, '{name}', v) + 1.0\n    return np.{name}", scope)
    return Holder(scope["read"], (lambda w: setattr(np, name, w),))
