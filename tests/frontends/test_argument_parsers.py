"""The functions that take numbers out of arguments of one structure."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.frontends.recording.arguments import flatten
from wiregrad.frontends.replay.recorded_calls import CallSignature, write_parser, write_restorer


class Key(StrEnum):
    """A key that equals a string and is another one."""

    A = "a"


class OwnList(list[Any]):
    """A list that may behave in its own way."""


CALLS: list[tuple[Any, ...]] = [
    (),
    (1.0,),
    (1.0, 2.0),
    (np.float64(1.0),),
    (1.0, np.float64(2.0)),
    ([1.0, 2.0],),
    ([1.0],),
    ([],),
    ((1.0, 2.0),),
    ({"a": 1.0},),
    ({Key.A: 1.0},),
    ({"a": 1.0, "b": 2.0},),
    ({"b": 1.0, "a": 2.0},),
    (1.0, [2.0, (3.0, {"a": 4.0})]),
    (1.0, 2),
    (1.0, 3),
    (1.0, True),
    (1.0, None),
    (1.0, "text"),
    (1, 2.0),
    (OwnList([1.0]),),
    (np.array([1.0]),),
    (np.array([[1.0]]),),
    (np.array([1.0], np.float32),),
    (np.arange(4.0)[::2],),
    (np.array(1.0),),
    ([np.array([1.0]), 2.0],),
    (np.float32(1.0),),
]


@pytest.mark.parametrize("args", CALLS, ids=repr)
def test_a_parser_takes_exactly_the_calls_of_the_same_signature(args: tuple[Any, ...]) -> None:
    parse = write_parser(args)
    for other in CALLS:
        signature = CallSignature((other, {}))
        same = signature.key == CallSignature((args, {})).key
        if parse is not None and len(other) == len(args):
            numbers = parse(*other)

            assert (numbers is not None) == same, other
            assert numbers is None or list(numbers) == signature.inputs


@pytest.mark.parametrize(
    "args",
    [
        (OwnList([1.0]),),
        (np.array([1.0], np.float32),),
        (np.array(1.0),),
        (np.zeros(600),),
        ({Key.A: 1.0},),
        ([1.0] * 600,),
    ],
    ids=len,
)
def test_other_structures_have_no_parser(args: tuple[Any, ...]) -> None:
    assert write_parser(args) is None


def test_gradients_are_put_into_the_structure_of_the_arguments() -> None:
    _, tree = flatten({"a": [1.0, (2.0,)], "b": 3.0})
    restore = write_restorer([(tree, 1, 4)], single=True)

    assert restore is not None
    assert restore([10.0, 0.0, 1.0, 2.0, 3.0]) == (10.0, {"a": [1.0, (2.0,)], "b": 3.0})


STRUCTURES: dict[str, Callable[[list[float]], tuple[Any, ...]]] = {
    "floats": tuple,
    "list": lambda xs: (xs,),
    "tuple": lambda xs: (tuple(xs),),
    "dict": lambda xs: ({f"k{n}": x for n, x in enumerate(xs)},),
    "NumPy numbers": lambda xs: tuple(map(np.float64, xs)),
    "list of NumPy numbers": lambda xs: ([np.float64(x) for x in xs],),
    "mix": lambda xs: (xs[0], xs[1:], (np.float64(xs[0]), {"a": xs[1]}), 3),
}


@pytest.mark.parametrize("make", STRUCTURES.values(), ids=STRUCTURES)
def test_calls_in_every_structure_give_the_gradients_of_the_transform(make: Callable[..., Any]) -> None:
    def f(*args: Any) -> Any:
        leaves = [x for x in flatten(args)[0] if type(x) is not int]
        return sum(k * x * x for k, x in enumerate(leaves, 1))

    fast = wg.compile(f)
    plain = wg.value_and_grad(f)
    for xs in ([1.0, 2.0, 3.0], [0.5, -1.0, 4.0], [2.0, 2.0, 2.0]):
        assert fast.value_and_grad(*make(xs)) == plain(*make(xs))
        assert fast(*make(xs)) == f(*make(xs))
    assert fast.info.records == 1
    assert not fast.info.fallbacks


FIXED: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "slices": (lambda x, s: np.sum(np.arange(4.0)[s]) * x, [slice(0, 2), slice(1, 3), slice(None, None, 2)]),
    "slices of NumPy's numbers": (lambda x, s: x * int(s.stop), [slice(0, np.int64(2)), slice(0, np.int64(3))]),
    "slices of tuples": (lambda x, s: x * len(s.start), [slice((0, 1), None), slice((0,), None)]),
    "slices of floats": (lambda x, s: x * s.start, [slice(1.5, None), slice(2.5, None), slice(-0.0, None)]),
    "formats": (lambda x, s: x * float(s.format(2.55)), ["{0}", "{0:.1f}"]),
    "text in arrays": (lambda x, s: x * (s[0] == "a"), [np.array(["a"]), np.array(["b"])]),
    "arrays of objects": (lambda x, s: x * s[0], [np.array([2.0], object), np.array([3.0], object)]),
    "arrays of records": (
        lambda x, s: x * s["f"][0],
        [np.full(1, 2.0, [("f", float)]), np.full(1, 3.0, [("f", float)])],
    ),
    "dicts with whole numbers as keys": (lambda x, s: x * s[1], [{1: 2.0}, {1: 3.0}]),
}


@pytest.mark.parametrize("name", FIXED)
def test_compiled_calls_tell_other_arguments_apart(name: str) -> None:
    f, arguments = FIXED[name]
    fast = wg.compile(f)
    for argument in [*arguments, *arguments]:
        assert repr(float(fast(2.0, argument))) == repr(float(f(2.0, argument)))


def test_gradients_by_dicts_with_whole_numbers_as_keys_have_these_keys() -> None:
    fast = wg.compile(lambda d: d[1] * d[2])

    assert [fast.value_and_grad({1: 2.0, 2: x}) for x in (3.0, 4.0)] == [
        (6.0, {1: 3.0, 2: 2.0}),
        (8.0, {1: 4.0, 2: 2.0}),
    ]
