"""Codegen writes a circuit as straight-line code: circuit in, text out; nothing is run.

`listing` makes the lines, each language writes them. A language is loaded when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from wiregrad.errors import OperandError, shown

if TYPE_CHECKING:
    from wiregrad.ir import Circuit

MODULES = {"python": "python", "numpy": "arrays", "c": "c", "js": "javascript", "cuda": "cuda"}
"""The languages, and the module that writes each."""
CAMEL = ("js",)
"""Languages that write valueAndGrad where the others write value_and_grad."""


def write(
    circuit: Circuit, language: str, function: str = "value_and_grad", name: str | None = None, **options: Any
) -> str:
    """Return a circuit as a listing in a language; `name` is what the function is called."""
    if circuit.certificates:
        options["guard"] = import_module("wiregrad.codegen.guards").guard_of(circuit)
    listing = import_module("wiregrad.codegen.listing").listing(circuit.unchecked(), function)
    module = import_module(f"wiregrad.codegen.{MODULES[language]}")
    head, *rest = function.split("_")
    usual = head + "".join(map(str.capitalize, rest)) if language in CAMEL else function
    found: str = getattr(module, f"to_{language}")(listing, usual if name is None else _checked(name), **options)
    return found


def _checked(name: object) -> str:
    if not isinstance(name, str) or not name.isascii() or not name.isidentifier() or len(name) > 100:
        raise OperandError(f"a function's name is a plain identifier, such as value_and_grad; got {shown(name)}")
    return name
