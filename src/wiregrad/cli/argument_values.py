"""Reads the NAME=VALUE pairs that follow a formula.

A value is a number, a list of numbers (an array), true, false or text in quotes. The annotation of a parameter, or else
its default, decides more: whole numbers stay whole for an int, and text needs no quotes for a str.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import math
import re
import types
import typing
import warnings
from collections.abc import Iterable
from typing import Any, TypeAlias

import click
import numpy as np
from numpy.typing import NDArray

from wiregrad.dtypes import PythonNumber

ArgumentValue: TypeAlias = PythonNumber | str | NDArray[Any]
ParameterTypes = frozenset[Any]
"""The types that a parameter accepts; empty if neither annotation nor default says."""

WHOLE_NUMBER = re.compile(r"[+-]?\d[\d_]*")
_KNOWN_WORDS = {"nan": math.nan, "inf": math.inf, "infinity": math.inf, "true": True, "false": False}
_MANY_DIGITS = re.compile(r"\d[\d_]{4300,}")
"""A whole number with more digits than Python reads."""
_PARSE_ERRORS = (ValueError, SyntaxError, TypeError, MemoryError, RecursionError, OverflowError)


def split_pairs(texts: Iterable[str]) -> dict[str, str]:
    """Split NAME=VALUE texts.

    >>> split_pairs(["a=2", "b = [1, 2]"])
    {'a': '2', 'b': '[1, 2]'}
    """
    values: dict[str, str] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not name:
            raise unreadable_value_error(text)
        if name in values:
            raise click.UsageError(f"{name} is given twice")
        values[name] = value
    return values


def unreadable_value_error(text: str) -> click.UsageError:
    """Return the error for a value that cannot be read."""
    if _MANY_DIGITS.search(text):
        return click.UsageError(f"a whole number has at most 4,300 digits; got {_shorten_text(text)!r}")
    return click.UsageError(f"wanted NAME=NUMBER, like a=2, or NAME=[NUMBERS]; got {_shorten_text(text)!r}")


def _shorten_text(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."


class _TooLargeError(Exception):
    """A number is too large for a float; it must not silently become infinity."""


def read_value(name: str, text: str, kinds: ParameterTypes = frozenset()) -> ArgumentValue:
    """Read the value in a text; `kinds` are the types that the parameter accepts.

    >>> read_value("a", "2"), read_value("n", "2", frozenset([int])), read_value("x", "[1, inf]")
    (2.0, 2, array([ 1., inf]))
    """
    try:
        if WHOLE_NUMBER.fullmatch(text) and kinds & {int, bool} and float not in kinds:
            return int(text) if int in kinds else bool(int(text))
        if str not in kinds:
            return _parse_literal(text)
        return text if text[:1] not in ("'", '"') else _parse_literal(text)
    except _TooLargeError:
        pair = _shorten_text(f"{name}={text}")
        raise click.UsageError(
            f"{pair!r} is too large: a number is below about 1.8e308, and infinity is written inf"
        ) from None
    except _PARSE_ERRORS:
        raise unreadable_value_error(f"{name}={text}") from None


def _parse_literal(text: str) -> ArgumentValue:
    try:
        number = float(text)
    except ValueError:
        value = _parse_expression(text)
    else:
        if math.isinf(number) and any(ch.isdigit() for ch in text):
            raise _TooLargeError
        return number
    if isinstance(value, list):
        return _make_array(value)
    if not isinstance(value, bool | int | float | complex | str):
        raise TypeError
    return float(value) if type(value) is int else value


def _parse_expression(text: str) -> object:
    """Read a text as a Python literal in which nan, inf, true and false are known words."""
    with warnings.catch_warnings():
        # Python warns about invalid escapes such as "\d".
        warnings.simplefilter("ignore")
        tree = ast.parse(text, mode="eval")
    return ast.literal_eval(_WordReplacer().visit(tree))


class _WordReplacer(ast.NodeTransformer):
    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if isinstance(node.value, float | complex) and not np.isfinite(node.value):
            raise _TooLargeError
        return node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        word = _KNOWN_WORDS.get(node.id.lower())
        return node if word is None else ast.copy_location(ast.Constant(word), node)


def _make_array(value: list[Any]) -> NDArray[Any]:
    array = np.array(value)
    if array.dtype.kind not in "fcbiu":
        raise TypeError
    return array.astype(float) if array.dtype.kind in "iu" else array


def parameter_types(parameter: inspect.Parameter) -> ParameterTypes:
    """Return the types that a parameter accepts, from its annotation or else from its default.

    >>> def f(x, n: int | None, mode="mean"): ...
    >>> parameters = inspect.signature(f, eval_str=True).parameters.values()
    >>> [sorted(kind.__name__ for kind in parameter_types(parameter)) for parameter in parameters]
    [[], ['NoneType', 'int'], ['str']]
    """
    annotation = parameter.annotation
    if annotation is parameter.empty:
        return frozenset() if parameter.default is parameter.empty else frozenset([type(parameter.default)])
    if isinstance(annotation, str):
        annotation = getattr(builtins, annotation, object)
    origin = typing.get_origin(annotation)
    if origin in (types.UnionType, typing.Union):
        return frozenset(typing.get_args(annotation))
    if origin is typing.Literal:
        return frozenset(map(type, typing.get_args(annotation)))
    return frozenset([annotation])
