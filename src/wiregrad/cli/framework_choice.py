"""Which framework runs a function of a file: PyTorch, JAX, or wiregrad by NumPy's meaning.

Tensors and arrays have methods of the same names with other meanings: `x.std()` of a tensor divides by n - 1. So the
names that a function uses decide, then the annotations of its parameters, then what its file imports. Where that is
open, a note says what was taken, or the command is refused, with the annotation to write.
"""

from __future__ import annotations

import ast
import dis
import functools
import inspect
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import click

from wiregrad.errors import is_library_file
from wiregrad.frontends.recording.transformed_function import TransformedFunction

FRAMEWORKS = {"torch": "torch.Tensor", "jax": "jax.Array"}
"""The packages whose functions are taken as they are, and how a parameter is annotated for each."""
NUMPY_ANNOTATION = "np.ndarray"
PLAIN_PACKAGES = {"numpy", "scipy", "wiregrad"}
"""Packages whose functions wiregrad traces itself."""
NUMBER_PACKAGES = {"math", "cmath"}
"""Packages whose functions take numbers, and cut the gradient of a tensor without an error."""
PACKAGE_OF = {"jaxlib": "jax"}
"""The package that users import, for one that it is made of."""


@dataclass(frozen=True)
class FrameworkChoice:
    """The framework that runs a function, None for wiregrad itself, and what to say about it if that is not plain."""

    framework: str | None
    note: str = ""


@dataclass
class UsedNames:
    """What a function uses, together with the functions of the user's that it calls."""

    packages: set[str] = field(default_factory=set)
    file_packages: set[str] = field(default_factory=set)
    """Packages that the files of these functions import."""
    attributes: list[str] = field(default_factory=list)
    """Attributes of values, such as `std` in `x.std()`; those of modules are no such attributes."""


def choose_framework(function: Callable[..., Any]) -> FrameworkChoice:
    """Return which framework runs a function of a file; raises a usage error if that may be either of two.

    >>> choose_framework(lambda x: x * x)
    FrameworkChoice(framework=None, note='')
    """
    name = str(getattr(function, "__name__", type(function).__name__))
    used = _collect_names(function)
    annotated = _list_annotated_packages(function)
    for named in (used.packages, annotated):
        frameworks = named & set(FRAMEWORKS)
        if len(frameworks) > 1:
            raise _undecided_error(name, f"uses {' and '.join(sorted(frameworks))}", frameworks)
        if frameworks:
            return FrameworkChoice(frameworks.pop())
    imported = used.file_packages & set(FRAMEWORKS)
    if not imported or annotated & PLAIN_PACKAGES:
        return FrameworkChoice(None)
    packages = " and ".join(sorted(imported))
    plain = used.packages & PLAIN_PACKAGES
    if plain and used.attributes:
        what = f"uses {' and '.join(sorted(plain))} in a file that imports {packages}, so .{used.attributes[0]}"
        raise _undecided_error(name, f"{what} may be a method of either", {*imported, NUMPY_ANNOTATION})
    if len(imported) > 1:
        raise _undecided_error(name, f"is in a file that imports {packages}", imported)
    annotations = " or ".join(f"x: {text}" for text in (FRAMEWORKS[packages], NUMPY_ANNOTATION))
    if plain:
        reason = f"its file imports {packages}, but it uses only {' and '.join(sorted(plain))}"
        return FrameworkChoice(None, f"{name} runs by NumPy's meaning: {reason}; a parameter {annotations} decides")
    note = f"{name} runs with {packages}, which its file imports; a parameter {annotations} decides"
    is_open = bool(used.file_packages & PLAIN_PACKAGES) or bool(used.packages & NUMBER_PACKAGES)
    return FrameworkChoice(packages, note if is_open else "")


def _undecided_error(name: str, what: str, packages: Iterable[str]) -> click.UsageError:
    annotations = " or ".join(f"x: {FRAMEWORKS.get(package, package)}" for package in sorted(packages))
    return click.UsageError(f"{name} {what}; say which runs it by the annotation of a parameter: {annotations}")


def _collect_names(function: Callable[..., Any]) -> UsedNames:
    """Collect what a function uses, and what the functions and classes of the user's that it uses do."""
    used = UsedNames(set(_list_packages(function)))
    pending = [function]
    seen = set[int]()
    while pending:
        for each in _list_functions(pending.pop()):
            if id(each.__code__) in seen:
                continue
            seen.add(id(each.__code__))
            names = _list_outside(each)
            used.file_packages.update(package for thing in names.values() for package in _list_packages(thing))
            for thing in _list_used_things(each.__code__, names, used):
                used.packages.update(_list_packages(thing))
                pending.append(thing)
    return used


def _list_functions(thing: Any) -> Iterator[types.FunctionType]:
    """Yield the user's functions behind a thing: itself, what it wraps, or the methods of its class."""
    if isinstance(thing, functools.partial):
        thing = thing.func
    thing = getattr(thing, "__func__", thing)
    if isinstance(thing, types.FunctionType | TransformedFunction):
        thing = inspect.unwrap(thing)
        if isinstance(thing, types.FunctionType) and _is_users(thing):
            yield thing
        return
    kind = thing if isinstance(thing, type) else type(thing)
    for attribute in vars(kind).values():
        method = getattr(attribute, "__func__", getattr(attribute, "fget", attribute))
        if isinstance(method, types.FunctionType) and _is_users(method):
            yield method


def _is_users(function: types.FunctionType) -> bool:
    file = function.__code__.co_filename
    return not is_library_file(file) and "-packages" not in file


def _list_outside(function: types.FunctionType) -> dict[str, Any]:
    """Return what the names outside of a function stand for: those of its file and of the functions around it."""
    names = dict(function.__globals__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        # A cell is empty until its variable is set.
        with suppress(ValueError):
            names[name] = cell.cell_contents
    return names


def _list_used_things(code: types.CodeType, names: Mapping[str, Any], used: UsedNames) -> Iterator[Any]:
    """Yield what the names in code stand for, `np` and `np.linalg` too; note imports and the attributes of values."""
    thing: Any = None
    for step in dis.get_instructions(code):
        if step.opname in NAME_STEPS and step.argval in names:
            thing = names[step.argval]
            yield thing
        elif step.opname in ATTRIBUTE_STEPS and isinstance(thing, types.ModuleType | type):
            thing = getattr(thing, step.argval, None)
            yield thing
        elif step.opname in ATTRIBUTE_STEPS:
            used.attributes.append(step.argval)
        elif step.opname != "EXTENDED_ARG":
            thing = None
        if step.opname == "IMPORT_NAME":
            used.packages.add(step.argval.partition(".")[0])
    for part in code.co_consts:
        if isinstance(part, types.CodeType):
            yield from _list_used_things(part, names, used)


NAME_STEPS = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_FROM_DICT_OR_GLOBALS", "LOAD_FROM_DICT_OR_DEREF"}
ATTRIBUTE_STEPS = {"LOAD_ATTR", "LOAD_METHOD"}


def _list_packages(thing: object) -> Iterator[str]:
    """Yield the packages that a thing is of: a module, or something whose class or function one defines."""
    if isinstance(thing, types.ModuleType):
        modules: list[object] = [thing.__name__]
    else:
        kinds = thing.__mro__ if isinstance(thing, type) else type(thing).__mro__
        modules = [getattr(thing, "__module__", None), *(kind.__module__ for kind in kinds)]
    for module in modules:
        package = str(module or "").partition(".")[0]
        yield PACKAGE_OF.get(package, package)


def _list_annotated_packages(function: Callable[..., Any]) -> set[str]:
    """Return the packages that the annotations of a function name."""
    names = getattr(inspect.unwrap(function), "__globals__", {})
    annotations = getattr(inspect.unwrap(function), "__annotations__", {})
    return {package for annotation in annotations.values() for package in _list_type_packages(annotation, names)}


def _list_type_packages(annotation: Any, names: Mapping[str, Any]) -> Iterator[str]:
    """Yield the packages of an annotation and of the types inside it; a text need not be imported."""
    if isinstance(annotation, str):
        with suppress(SyntaxError):
            for node in ast.walk(ast.parse(annotation, mode="eval")):
                if isinstance(node, ast.Name):
                    yield from _list_packages(names[node.id]) if node.id in names else (node.id,)
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield from _list_type_packages(node.value, names)
        return
    parts = [typing.get_origin(annotation), *typing.get_args(annotation), getattr(annotation, "array_type", None)]
    yield from _list_packages(annotation)
    for part in parts:
        if part is not None:
            yield from _list_type_packages(part, names)
