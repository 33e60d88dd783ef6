"""Names that people expect on compiled functions, circuits, runs and modules, and what they are told to write."""

from __future__ import annotations

import ast
import re
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.api import CIRCUIT_NAMES, RUN_NAMES
from wiregrad.errors import MissingName, OperandError, UnknownAttributeError


def square(x: Any) -> Any:
    return x * x


OWNERS: dict[str, Any] = {
    "a circuit": wg.circuit("f = x * x"),
    "a run": wg.run(square, 3.0),
    "a node of a run": wg.run(square, 3.0)["f"],
    "a compiled function": wg.compile(square),
    "a compiled circuit": wg.circuit("f = x * x").compile(),
}


def list_missing_names(owner: Any) -> dict[str, MissingName]:
    names = {name: thing for base in reversed(type(owner).__mro__) for name, thing in vars(base).items()}
    return {name: thing for name, thing in names.items() if isinstance(thing, MissingName)}


MISSING = [(owner, name) for owner, thing in OWNERS.items() for name in sorted(list_missing_names(thing))]


def run_advice(message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Run the code behind `write`."""
    scope = {"wg": wg, "f": square, "x": 3.0, "circuit": OWNERS["a circuit"], "run": OWNERS["a run"]}
    owner = re.sub(" has no .*", "", message)
    scope |= {"fast": OWNERS.get(owner), "node": OWNERS["a node of a run"], "np": np, "optim": wg.optim}
    if owner.endswith("circuit"):
        scope["x"] = [3.0]
    codes = re.findall(r"write (.+?)(?:$| or )", message)
    assert codes
    for code in codes:
        exec(compile(ast.parse(code), "<hint>", "exec"), scope)


@pytest.mark.parametrize(("owner", "name"), MISSING)
def test_a_name_that_is_missing_is_answered_with_code_that_runs(
    owner: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    thing = OWNERS[owner]

    assert not hasattr(thing, name)
    assert name not in dir(thing)
    with pytest.raises(UnknownAttributeError, match=f"^{owner} has no '{name}': ") as caught:
        getattr(thing, name)
    run_advice(str(caught.value), capsys)


@pytest.mark.parametrize("owner", OWNERS)
def test_names_that_are_there_are_listed(owner: str) -> None:
    thing = OWNERS[owner]
    listed = dir(thing)

    assert [name for name in listed if not name.startswith("_") and not hasattr(thing, name)] == []
    assert {"a node of a run": "grad", "a run": "grads", "a circuit": "inputs"}.get(owner, "value_and_grad") in listed


def test_compiled_functions_lead_to_the_questions_of_runs_and_circuits() -> None:
    assert {*RUN_NAMES, *CIRCUIT_NAMES} <= {*dir(wg.compile(square)), *list_missing_names(wg.compile(square))}


@pytest.mark.parametrize("name", sorted({*RUN_NAMES, *CIRCUIT_NAMES} - {*dir(wg), "columns"}))
def test_wiregrad_leads_to_the_questions_of_runs_and_circuits(name: str) -> None:
    if hasattr(wg, name):
        return
    with pytest.raises(UnknownAttributeError, match=r": write wg|; did you mean|call explore|arrays"):
        getattr(wg, name)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("Adam", "optim.Adam"),
        ("adam", "optim.Adam"),
        ("SGD", "optim.SGD"),
        ("Linear", "nn.Linear"),
        ("MLP", "nn.scalar.MLP"),
    ],
)
def test_wiregrad_leads_to_networks_and_optimisers(name: str, wanted: str) -> None:
    with pytest.raises(UnknownAttributeError, match=f"wiregrad has no '{name}': write wg.{wanted}$"):
        getattr(wg, name)


@pytest.mark.parametrize("name", wg.optim.__all__)
def test_an_optimiser_is_found_in_small_letters(name: str) -> None:
    other = name.lower() if name.lower() != name else name.upper()

    with pytest.raises(AttributeError, match=f"wiregrad.optim has no '{other}'; did you mean {name}"):
        getattr(wg.optim, other)


@pytest.mark.parametrize("name", wg.optim.NAMES_ELSEWHERE)
def test_names_of_other_optimisers_are_answered_with_code_that_runs(name: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(wg.optim, name)
    parameters = [wg.Value(1.0)]
    (parameters[0] * 2.0).backward()
    scope = {"wg": wg, "optim": wg.optim, "parameters": parameters, "optimizer": wg.optim.Adam(parameters)}
    for code in re.findall(r"write (.+)$", str(caught.value)):
        exec(compile(ast.parse(code), "<hint>", "exec"), scope)


def test_optimisers_have_their_public_names() -> None:
    own = {name for name, thing in vars(wg.optim).items() if getattr(thing, "__module__", "") == "wiregrad.optim"}

    assert {*wg.optim.__all__} <= own
    assert {name for name in own - {*wg.optim.__all__} if name[0] != "_"} == {
        "LinePoint",
        "ParameterGroup",
        "search_line",
    }


@pytest.mark.parametrize(
    ("thing", "names", "wanted"),
    [
        (OWNERS["a run"], ("w",), r"for a run call run.explain\('w'\)"),
        (OWNERS["a run"], (), r"for a run call run.explain\('x'\)"),
        (OWNERS["a circuit"], ("x",), r"for a circuit call circuit.run\(x\).explain\('x'\)"),
        (square, (3.0,), r"for a function call wg.run\(f, x\).explain\('x'\)"),
        (3.0, (), r"a value is made by wg.Value\(x\)"),
    ],
)
def test_explain_leads_to_the_method_of_what_it_is_given(thing: Any, names: tuple[Any, ...], wanted: str) -> None:
    with pytest.raises(OperandError, match=f"wg.explain takes one value; got .*: {wanted}"):
        wg.explain(thing, *names)


@pytest.mark.parametrize("other", [square, 1.0, "f = x * x"])
def test_diff_says_what_it_compares(other: Any) -> None:
    with pytest.raises(OperandError, match=r"wg\.diff compares circuits or runs; got"):
        wg.diff(other, OWNERS["a run"])


def test_the_gradient_of_a_function_is_not_numpys() -> None:
    with pytest.raises(TypeError, match=r"write wg.grad\(f\)"):
        wg.gradient(square)
