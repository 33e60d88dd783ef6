"""What transforms return: functions that are pickled and copied as the call that made them.

`pickle` looks a plain function up by its name, and the result of a transform has the name of the function that was
transformed, so as a plain function it could not be pickled. Only Python's own modules are imported here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import WRAPPER_ASSIGNMENTS, partial, update_wrapper
from operator import attrgetter
from types import CodeType, MethodType
from typing import TYPE_CHECKING, Any

TAKEN_OVER = frozenset([*WRAPPER_ASSIGNMENTS, "__wrapped__"])
"""The attributes that the result of a transform has from the function that was transformed."""


class TransformedFunction:
    """The result of a transform of f: called, bound to objects and documented as f is, pickled as transform(f, ...)."""

    # Python finds what to call in the slot of the object, so that no further function runs in each call.
    __slots__ = ("__call__", "__dict__", "__weakref__", "_options", "_transform")

    # Annotations of the class would be taken for those of a function that has none.
    if TYPE_CHECKING:
        __call__: Callable[..., Any]
        __wrapped__: Callable[..., Any]

    def __init__(
        self, call: Callable[..., Any], transform: Callable[..., Any], f: Callable[..., Any], **options: Any
    ) -> None:
        self.__call__ = call
        self._transform = transform
        self._options = options
        update_wrapper(self, f, updated=())
        vars(self).setdefault("__annotations__", {})

    @property
    def __code__(self) -> CodeType:
        """The code of the function that was transformed, by which joblib notices that it was edited."""
        code: CodeType = self.__wrapped__.__code__
        return code

    def __get__(self, thing: object, owner: type | None = None) -> Callable[..., Any]:
        return self if thing is None else MethodType(self, thing)

    def __repr__(self) -> str:
        f = self.__wrapped__
        name = repr(f) if isinstance(f, TransformedFunction) else getattr(f, "__name__", type(f).__name__)
        given = {key: option for key, option in self._options.items() if option is not None and option is not False}
        options = "".join(f", {key}={option!r}" for key, option in given.items())
        return f"wg.{self._transform.__name__}({name}{options})"

    def __reduce__(self) -> str | tuple[Any, ...]:
        return reduce_to_call(self, self._transform, self._options, self.own_attributes() or None)

    @property
    def identity(self) -> tuple[Callable[..., Any], dict[str, Any]]:
        """The transform, and the keyword arguments that it was given besides f."""
        return self._transform, self._options

    def own_attributes(self) -> dict[str, Any]:
        """Return the attributes that were set on this function later."""
        return {name: value for name, value in vars(self).items() if name not in TAKEN_OVER}


def reduce_to_call(
    result: Any, transform: Callable[..., Any], options: dict[str, Any], attributes: dict[str, Any] | None = None
) -> str | tuple[Any, ...]:
    """Return how pickle and copy get the result of a transform again: `__reduce__` of a result returns this.

    Where the name of the function stands for the result itself, as under `@wg.grad`, it is that name. Everywhere else
    the function is transformed again, with the same options; whether the function can be pickled, pickle finds out.
    """
    name = getattr(result, "__qualname__", "")
    module = sys.modules.get(getattr(result, "__module__", None) or "")
    try:
        is_global = attrgetter(name)(module) is result
    except AttributeError:
        is_global = False
    return name if is_global else (partial(transform, **options), (result.__wrapped__,), attributes)
