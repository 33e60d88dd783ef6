"""What other code asks functions: results of transforms and compiled functions answer as the function itself does."""

from __future__ import annotations

import doctest
import functools
import inspect
import pydoc
import types
import typing
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wiregrad as wg


def area(width: float, height: float = 2.0, *, count: int = 3) -> float:
    """Return the area of some rectangles.

    >>> area(1.0)
    6.0
    """
    return width * height * count


TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "grad": wg.grad,
    "value_and_grad": wg.value_and_grad,
    "jacobian": wg.jacobian,
    "hessian": wg.hessian,
    "vmap": wg.vmap,
    "compile": wg.compile,
    "grad of grad": lambda f: wg.grad(wg.grad(f)),
    "compile of grad": lambda f: wg.compile(wg.grad(f)),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_questions_about_a_function_are_answered_as_by_the_function_itself(name: str) -> None:
    made = TRANSFORMS[name](area)

    assert inspect.signature(made) == inspect.signature(area)
    assert typing.get_type_hints(made) == typing.get_type_hints(area)
    assert inspect.getdoc(made) == inspect.getdoc(area)
    assert inspect.getsource(made) == inspect.getsource(area)
    assert inspect.getmodule(made) is inspect.getmodule(area)
    assert (made.__name__, made.__qualname__) == ("area", "area")
    assert made.__code__ is area.__code__
    assert inspect.isroutine(made)
    assert "area(width: 'float', height: 'float' = 2.0" in pydoc.render_doc(made, renderer=pydoc.plaintext)
    assert functools.wraps(made)(lambda: 0).__name__ == "area"


@pytest.mark.parametrize("f", [np.sin, functools.partial(area, count=2), types.MethodType(area, 2.0)])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_functions_without_annotations_or_code_of_their_own(name: str, f: Any) -> None:
    made = TRANSFORMS[name](f)

    assert made.__annotations__ == getattr(f, "__annotations__", {})
    assert getattr(made, "__code__", None) is getattr(f, "__code__", None)
    assert inspect.signature(made) == inspect.signature(f)


class Spring:
    """A class whose methods are differentiated or compiled."""

    stiffness = 2.0

    @functools.partial(wg.grad, argnums=1)
    def force(self, x: float) -> Any:
        """Return the force.

        >>> Spring().force(3.0)
        12.0
        """
        return self.stiffness * x * x

    @wg.compile
    def energy(self, x: float) -> Any:
        """Return the energy.

        >>> Spring().energy(3.0)
        18.0
        """
        return self.stiffness * x * x

    @staticmethod
    @wg.grad
    def double(x: float) -> Any:
        return x * x

    @classmethod
    @functools.partial(wg.grad, argnums=1)
    def scale(cls, x: float) -> Any:
        return cls.stiffness * x * x


def test_methods_are_bound_to_their_objects() -> None:
    spring = Spring()

    assert (spring.force(3.0), spring.energy(3.0), spring.double(3.0), Spring.scale(3.0)) == (12.0, 18.0, 6.0, 12.0)
    assert inspect.ismethod(spring.force)
    assert list(inspect.signature(spring.force).parameters) == ["x"]
    assert list(inspect.signature(Spring.energy).parameters) == ["self", "x"]


def test_doctest_finds_the_examples_of_decorated_methods() -> None:
    examples = [test.name for test in doctest.DocTestFinder().find(Spring, "Spring", globs=globals()) if test.examples]

    assert examples == ["Spring.energy", "Spring.force"]
    assert all(
        doctest.DocTestRunner().run(test).failed == 0
        for test in doctest.DocTestFinder().find(Spring, "Spring", globs=globals())
    )
