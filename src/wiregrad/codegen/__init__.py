"""Write a circuit as straight-line code: Python, NumPy, C, CUDA, JavaScript. Circuit in, text out; nothing is run.

Read `listing` first: it turns a circuit into lines without a language, forward and backward, says what one line
computes (a *form*: ops applied to slots and constants) and lowers forms to C expressions. `language` holds what all
languages share, also how a listing checks the branches of a traced function; `python_and_numpy`, `javascript`
and `c_and_cuda` write files. Arrays in C take one more step: `element_statements` turns lines into statements on
elements, which `c_and_cuda` writes as loops.

Other rooms call `write_listing`, and `write_branches` for a function that was recorded along several branches. The
native backend also uses the forms of `listing`. A language is loaded when it is first asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from wiregrad.errors import GradientError, InputError, OperandError, short_repr, suggest_name
from wiregrad.lazy import load_module_lazily

if TYPE_CHECKING:
    from wiregrad.codegen import c_and_cuda, javascript, listing, python_and_numpy
    from wiregrad.codegen import language as language_base
    from wiregrad.ir import CircuitGraph
else:
    c_and_cuda = load_module_lazily("wiregrad.codegen.c_and_cuda")
    javascript = load_module_lazily("wiregrad.codegen.javascript")
    language_base = load_module_lazily("wiregrad.codegen.language")
    listing = load_module_lazily("wiregrad.codegen.listing")
    python_and_numpy = load_module_lazily("wiregrad.codegen.python_and_numpy")


LANGUAGE_MODULES = {
    "python": python_and_numpy,
    "numpy": python_and_numpy,
    "c": c_and_cuda,
    "js": javascript,
    "cuda": c_and_cuda,
}
"""Which module of this package writes each language."""
WHOLE_NUMBER_LANGUAGE = "numpy"
"""The language that keeps dtypes; the others compute in floats."""
CAMEL_CASE_LANGUAGES = ("js",)
"""Languages that write valueAndGrad where the others write value_and_grad."""
DIFFERENTIATED_BY_ELEMENT = ("jacobian", "hessian")
"""Functions of a listing for which each number of a compiled function's results is an output of its own."""

FINITE_ASSUMPTION = "finite"
"""The value of `assume` that promises that no value or slope is infinite or NaN."""


def check_assumption(assume: object) -> bool:
    """Return whether a caller promises that all numbers are finite; raise if `assume` is anything else."""
    if assume is None:
        return False
    if not isinstance(assume, str) or assume != FINITE_ASSUMPTION:
        raise InputError(f'assume is None or "{FINITE_ASSUMPTION}"; got {short_repr(assume)}')
    return True


def write_listing(
    circuit: CircuitGraph,
    language: str,
    function: str = "value_and_grad",
    name: str | None = None,
    *,
    finite: bool = False,
    wanted: Collection[int] | None = None,
    **options: object,
) -> str:
    """Return a circuit as a listing in a language; `name` is the name of its function.

    With `finite`, gradients are right only where no value or slope is infinite or NaN. `wanted` has the numbers of the
    inputs that derivatives are by, if they are not by all.
    """
    if circuit.certificates:
        options["guard"] = language_base.build_guard(circuit)
    lines = listing.build_listing(
        circuit.unchecked(), function, finite=finite, has_integers=language == WHOLE_NUMBER_LANGUAGE, wanted=wanted
    )
    name = usual_name(function, language) if name is None else _check_function_name(name)
    text: str = getattr(LANGUAGE_MODULES[language], f"to_{language}")(lines, name, **options)
    return text


def write_branches(
    recordings: Sequence[language_base.FunctionRecording],
    language: str,
    function: str = "value_and_grad",
    name: str | None = None,
    *,
    finite: bool = False,
    wanted: Collection[int] | None = None,
    **options: object,
) -> str:
    """Return all recordings of a function as one listing, in Python, C or JavaScript; the results have one structure.

    The options are those of `write_listing`.
    """
    by_element = function in DIFFERENTIATED_BY_ELEMENT
    tree = language_base.build_branch_tree(recordings, function, finite=finite, by_element=by_element, wanted=wanted)
    name = usual_name(function, language) if name is None else _check_function_name(name)
    text: str = getattr(LANGUAGE_MODULES[language], f"write_branches_in_{language}")(tree, name, **options)
    return text


def find_wanted_inputs(circuit: CircuitGraph, argnames: object) -> list[int] | None:
    """Return the numbers of the inputs that are named; None without names.

    >>> from wiregrad.ir import parse_text
    >>> find_wanted_inputs(parse_text("input a, b\\ny = multiply a b\\noutput y"), "b")
    [1]
    """
    if argnames is None:
        return None
    names = [argnames] if isinstance(argnames, str) else argnames
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise GradientError(f"argnames is the name of an input or a tuple of them; got {short_repr(argnames)}")
    for name in names:
        if name not in circuit.inputs:
            near = suggest_name(name, circuit.inputs)
            raise GradientError(f"argnames asks for {short_repr(name)}, which is no input of the circuit{near}")
    return [k for k, name in enumerate(circuit.inputs) if name in names]


def usual_name(function: str, language: str) -> str:
    """Return the name of such a function in a listing if none is given."""
    head, *rest = function.split("_")
    return head + "".join(map(str.capitalize, rest)) if language in CAMEL_CASE_LANGUAGES else function


def _check_function_name(name: object) -> str:
    if not isinstance(name, str) or not name.isascii() or not name.isidentifier() or len(name) > 100:
        raise OperandError(f"a function's name is a plain identifier, such as value_and_grad; got {short_repr(name)}")
    return name
