"""Counts of operations: those of hand-written code, and those of the text that `to_c` writes."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.errors import NoRuleError, OperandError, UnknownAttributeError
from wiregrad.inspect.op_counts import OpCounts


def count(**kinds: Any) -> OpCounts:
    """Return counts that are 0 unless they are given."""
    names = ("additions", "multiplications", "divisions", "square_roots", "transcendental", "comparisons", "other")
    return OpCounts(**{name: kinds.get(name, 0) for name in names}, functions=kinds.get("functions", ()))


BY_HAND: list[tuple[str, OpCounts]] = [
    ("y = a + b - a", count(additions=2)),
    ("y = a * b / (a * a)", count(multiplications=2, divisions=1)),
    ("y = sqrt(a) * b", count(multiplications=1, square_roots=1, functions=(("sqrt", 1),))),
    ("y = exp(a) * exp(b)", count(multiplications=1, transcendental=2, functions=(("exp", 2),))),
    ("y = sin(a) + cos(b)", count(additions=1, transcendental=2, functions=(("cos", 1), ("sin", 1)))),
    ("y = abs(a) + -b", count(additions=1, other=2, functions=(("fabs", 1),))),
    ("y = where(a > b, a, b)", count(comparisons=2)),
]


@pytest.mark.parametrize(("formula", "counts"), BY_HAND)
def test_operations_of_a_formula_are_counted_by_kind(formula: str, counts: OpCounts) -> None:
    assert wg.circuit(formula).count_ops("value") == counts


@pytest.mark.parametrize("function", ["value", "value_and_grad", "jacobian", "hessian"])
def test_counts_are_those_of_the_text_in_c(function: str) -> None:
    circuit = wg.circuit("y = a * b * a + b / a - (a - b) * a / b")
    counts = circuit.count_ops(function)
    body = circuit.to_c(function).rpartition("\n}")[0].partition(") {")[2]
    text = "\n".join(line.partition("//")[0] for line in body.splitlines())

    assert counts.multiplications == text.count(" * ")
    assert counts.divisions == text.count(" / ")
    assert counts.additions == len(re.findall(r" \+ | - | \+= ", text))


ARRAYS: list[tuple[Any, list[Any], dict[str, int]]] = [
    (lambda a, b: a @ b, [np.ones((2, 3)), np.ones((3, 4))], {"multiplications": 24, "additions": 24}),
    (np.sum, [np.ones(7)], {"additions": 7}),
    (lambda a: a * a + 1.0, [np.ones((3, 5))], {"multiplications": 15, "additions": 15}),
    (lambda a: np.argmax(a) * 1.0 + a[0] * 0.0, [np.ones(4)], {"comparisons": 3}),
    (
        lambda x: wg.fori_loop(0, 10, lambda k, c: np.sin(c) * x, x),
        [1.0],
        {"multiplications": 10, "transcendental": 10},
    ),
]


@pytest.mark.parametrize(("f", "args", "wanted"), ARRAYS)
def test_arrays_count_element_by_element_and_loops_turn_by_turn(f: Any, args: Any, wanted: dict[str, int]) -> None:
    counts = wg.trace(f, *args).count_ops("value")

    assert {name: getattr(counts, name) for name in wanted if name != "comparisons"} == {
        name: number for name, number in wanted.items() if name != "comparisons"
    }
    assert counts.comparisons >= wanted.get("comparisons", 0)


def test_functions_of_matrices_count_as_one_operation_and_are_named() -> None:
    counts = wg.trace(lambda a, b: np.linalg.solve(a, b)[0], np.eye(2), np.ones(2)).count_ops()

    assert ("solve 2x2 2x1", 2) in counts.functions
    assert counts.transcendental == 0
    assert counts.total == counts.multiplications + counts.additions + counts.other + 2


def test_a_compiled_function_counts_the_recording_that_has_most() -> None:
    def f(x: Any) -> Any:
        turns = 0
        while x > 1.0:
            x, turns = x * 0.5, turns + 1
        return x * turns

    fast = wg.compile(f, limit=4)
    totals = []
    for x in (0.5, 1.5, 3.0):
        fast(x)
        totals.append(fast.count_ops("value").multiplications)

    assert totals == sorted(totals)
    assert totals[-1] > totals[0]


def test_counts_are_printed_as_sentences() -> None:
    assert str(wg.circuit("y = sin(a) * b").count_ops("value")) == (
        "2 operations\n  1 multiplication, 1 transcendental function\n  functions: sin 1"
    )
    assert str(wg.circuit("y = 1.0 * a").count_ops("value")).startswith("1 operation\n")


def test_what_cannot_be_counted_says_why() -> None:
    with pytest.raises(NoRuleError, match="eigvalsh"):
        wg.trace(lambda a: np.linalg.eigvalsh(a)[0], np.eye(2)).count_ops()
    with pytest.raises(OperandError, match="one of value, value_and_grad"):
        wg.circuit("x * y").count_ops("gradient")
    with pytest.raises(OperandError, match="was not called yet"):
        wg.compile(lambda x: x).count_ops()


@pytest.mark.parametrize("name", ["n_instructions", "n_nodes", "flops"])
def test_names_of_other_libraries_lead_here(name: str) -> None:
    with pytest.raises(UnknownAttributeError, match=r"write circuit\.count_ops\(\)"):
        getattr(wg.circuit("x * y"), name)
    with pytest.raises(UnknownAttributeError, match=r"write fast\.count_ops\(\)"):
        getattr(wg.compile(lambda x: x), name)
