"""The text of every op, read by Python and by C, answers what NumPy answers."""

from __future__ import annotations

import itertools
import math
import operator
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wiregrad.codegen.python_and_numpy import NEVER_RAISE, PYTHON_WORDS
from wiregrad.errors import RecordError
from wiregrad.frontends.recording.scalar import python_text_of
from wiregrad.ir import TABLE
from wiregrad.ops import Elementwise
from wiregrad.ops.c_expressions import (
    MATH_H_FUNCTIONS,
    BinaryExpression,
    CallExpression,
    ChoiceExpression,
    InputExpression,
    NumberExpression,
    PrefixExpression,
    ScalarExpression,
    inline_ops,
    parse_c_text,
    walk_expression,
    write_python_expression,
)

from ..support.limits import PATIENCE

OPS = [op for op in TABLE if isinstance(op, Elementwise) and not op.opaque and not op.library]
MANY = (
    *(0.0, 1.0, 0.5, 2.0, 3.0, 1.5, 0.1, 2.5, 6.0, 36.0, 710.0, 745.0, 1074.0, 1e-8, 5e-324, 1e-310),
    *(2.2250738585072014e-308, 1e17, 9007199254740993.0, 1e308, 1.7976931348623157e308, math.inf),
)
SPECIAL = (*MANY, *(-x for x in MANY), math.nan)
FEW = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 6.0, 1e-310, 1e308, -1e308, math.inf, -math.inf, math.nan)
ULPS = 4
TIES = {op.name for op in OPS if any(kink.alone is not None for kink in op.kinks)}
"""Ops that give either of two equal inputs: for 0.0 and -0.0 NumPy's choice hangs on the processor and the length."""


def whole(op: Elementwise) -> ScalarExpression:
    """Return the expression of an op, with the ops it calls written out."""
    return inline_ops(parse_c_text(op.c), lambda name: (TABLE[name].inputs, getattr(TABLE[name], "c", "")))


def points_of(op: Elementwise) -> list[tuple[float, ...]]:
    """Return samples, all combinations of awkward numbers, and random numbers of every size."""
    rng = np.random.default_rng(len(op.name))
    count = len(op.inputs)
    axes = [(0.0, 1.0) if name in op.takes_bool else SPECIAL if count < 3 else FEW for name in op.inputs]
    small, near = rng.normal(size=(150, count)) * 3.0, rng.uniform(-1.0, 1.0, (150, count))
    every_size = np.ldexp(rng.normal(size=(300, count)), rng.integers(-1070, 1020, (300, count)))
    random = np.concatenate([small, near, every_size])
    flags = [name in op.takes_bool for name in op.inputs]
    random[:, flags] = random[:, flags] > 0.0
    samples = [tuple(map(float, point)) for point in op.sample_points]
    return [*itertools.product(*axes), *samples, *map(tuple, random.tolist())]


def expected(op: Elementwise, points: list[tuple[float, ...]]) -> np.ndarray[Any, Any]:
    """Return NumPy's answers."""
    kinds = [np.bool_ if name in op.takes_bool else np.float64 for name in op.inputs]
    with np.errstate(all="ignore"):
        return np.array(
            [float(op.forward(*(kind(x) for kind, x in zip(kinds, point, strict=True)))) for point in points]
        )


def differences(op: Elementwise, points: list[tuple[float, ...]], got: Any) -> list[Any]:
    """Return the points where answers are not NumPy's: too far off, another infinity or NaN, another sign of 0."""
    want, got = expected(op, points), np.asarray(got, np.float64)
    ranks = [np.where(k < 0, np.iinfo(np.int64).min - k, k) for k in (want.view(np.int64), got.view(np.int64))]
    # Neighbours differ by 1 in rank, and no two numbers by so much that the difference wraps round to a small one.
    near = np.abs(np.clip(ranks[0] - ranks[1], -9, 9)) <= ULPS
    wrong = (ranks[0] != ranks[1]) & ~(near & np.isfinite(want) & np.isfinite(got))
    wrong |= (want == 0.0) & (got == 0.0) & (np.signbit(want) != np.signbit(got)) & (op.name not in TIES)
    wrong &= ~(np.isnan(want) & np.isnan(got))
    return [(points[k], float(want[k]), float(got[k])) for k in np.flatnonzero(wrong)]


def words() -> dict[str, Any]:
    """Return the functions that a listing in Python would call."""
    namespace: dict[str, Any] = {"math": math}
    for word in PYTHON_WORDS.values():
        exec(word.define, namespace)
    return {name: eval(word.call, namespace) for name, word in PYTHON_WORDS.items()}


WORDS_OF_PYTHON = words()
SIGNS: dict[str, Callable[[Any, Any], Any]] = {
    **{"+": operator.add, "-": operator.sub, "*": operator.mul, "/": WORDS_OF_PYTHON["/"]},
    **{"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne},
    **{"&&": lambda a, b: a and b, "||": lambda a, b: a or b},
}


def value(tree: ScalarExpression, given: dict[str, float]) -> Any:
    """Work an expression out with Python's words."""
    match tree:
        case InputExpression() | NumberExpression():
            return given[tree.name] if isinstance(tree, InputExpression) else tree.value
        case CallExpression():
            return WORDS_OF_PYTHON[tree.name](*(value(part, given) for part in tree.arguments))
        case PrefixExpression():
            return -value(tree.operand, given) if tree.sign == "-" else not value(tree.operand, given)
        case ChoiceExpression():
            return value(tree.yes if value(tree.condition, given) else tree.no, given)
        case BinaryExpression():
            return SIGNS[tree.sign](value(tree.left, given), value(tree.right, given))


def in_c(tree: ScalarExpression) -> str:
    """Write an expression in C, with parentheses everywhere."""
    match tree:
        case InputExpression():
            return tree.name
        case NumberExpression():
            return {"inf": "INFINITY", "-inf": "-INFINITY", "nan": "NAN"}.get(repr(tree.value), repr(tree.value))
        case CallExpression():
            return f"{tree.name}({', '.join(map(in_c, tree.arguments))})"
        case PrefixExpression():
            return f"({tree.sign}{in_c(tree.operand)})"
        case ChoiceExpression():
            return "({} ? {} : {})".format(*map(in_c, tree))
        case BinaryExpression():
            return f"({in_c(tree.left)} {tree.sign} {in_c(tree.right)})"


def program() -> str:
    """Return a program that reads, op by op, how many points there are and the points, and writes the answers."""
    lines = ["#include <math.h>", "#include <stdio.h>"]
    for op in OPS:
        inputs = ", ".join(f"double {name}" for name in op.inputs)
        lines.append(f"static double op_{op.name}({inputs}) {{ return {in_c(whole(op))}; }}")
    lines.append("int main(void) {\n    double n, x[3], y;\n    size_t k, read = 0;")
    for op in OPS:
        count = len(op.inputs)
        call = f"op_{op.name}({', '.join(f'x[{k}]' for k in range(count))})"
        lines.append("    read += fread(&n, sizeof n, 1, stdin);")
        lines.append(f"    for (k = 0; k < (size_t)n; k++) {{ read += fread(x, sizeof *x, {count}, stdin);")
        lines.append(f"        y = {call}; fwrite(&y, sizeof y, 1, stdout); }}")
    return "\n".join([*lines, "    return read == 0;\n}\n"])


@pytest.fixture(scope="module")
def answers_of_c(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray[Any, Any]]:
    folder: Path = tmp_path_factory.mktemp("texts")
    source, runs = folder / "ops.c", folder / "ops"
    source.write_text(program())
    flags = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["gcc", *flags, str(source), "-o", str(runs), "-lm"], check=True, timeout=PATIENCE)
    points = {op.name: points_of(op) for op in OPS}
    given = b"".join(np.array([len(p), *itertools.chain(*p)], np.float64).tobytes() for p in points.values())
    read = np.frombuffer(
        subprocess.run([runs], input=given, capture_output=True, check=True, timeout=PATIENCE).stdout, np.float64
    )
    ends = np.cumsum([len(p) for p in points.values()])
    return dict(zip(points, np.split(read, ends[:-1]), strict=True))


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_every_op_has_a_text_that_uses_its_inputs_and_no_others(op: Elementwise) -> None:
    parts = list(walk_expression(whole(op)))

    assert {part.name for part in parts if isinstance(part, InputExpression)} == set(op.inputs)
    assert {part.name for part in parts if isinstance(part, CallExpression)} <= MATH_H_FUNCTIONS


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_the_text_with_pythons_words_answers_what_numpy_answers(op: Elementwise) -> None:
    tree, points = whole(op), points_of(op)

    got = [float(value(tree, dict(zip(op.inputs, point, strict=True)))) for point in points]

    assert differences(op, points, got) == []


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_the_text_compiled_by_gcc_answers_what_numpy_answers(
    op: Elementwise, answers_of_c: dict[str, np.ndarray[Any, Any]]
) -> None:
    assert differences(op, points_of(op), answers_of_c[op.name]) == []


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_the_text_on_pythons_floats_answers_what_numpy_answers_or_raises(op: Elementwise) -> None:
    function = eval(
        f"lambda {', '.join(op.inputs)}: {python_text_of(op).format(**{name: name for name in op.inputs})}",
        {"math": math, "inf": math.inf, "nan": math.nan},
    )
    answered, got = list[tuple[float, ...]](), list[float]()
    for point in points_of(op):
        try:
            got.append(float(function(*point)))
        except (ArithmeticError, ValueError):
            continue
        answered.append(point)

    assert len(answered) > 8
    assert differences(op, answered, got) == []


def test_python_has_a_word_for_every_function_of_c_and_for_division() -> None:
    assert set(PYTHON_WORDS) == MATH_H_FUNCTIONS | {"/"}


@pytest.mark.parametrize("name", NEVER_RAISE)
def test_a_function_called_as_it_is_never_raises(name: str) -> None:
    function = getattr(math, name)
    count = 2 if name in ("hypot", "atan2", "copysign") else 1

    answers = [function(*point) for point in itertools.product(SPECIAL, repeat=count)]

    assert all(type(answer) is float for answer in answers)


@pytest.mark.parametrize(
    ("c", "python"),
    [
        ("({a} < {b}) != ({b} < 0.0)", "({a} < {b}) != ({b} < 0.0)"),
        ("!({a} && {b}) || {a} == 1.0", "not ({a} and {b}) or {a} == 1.0"),
        ("!{a} == {b}", "(not {a}) == {b}"),
        ("{a} - ({b} - {a}) * -{b}", "{a} - ({b} - {a}) * -{b}"),
        ("({a} > 0.0 ? {a} : {b}) + 1.0", "({a} if {a} > 0.0 else {b}) + 1.0"),
        ("-({a} + INFINITY)", "-({a} + inf)"),
        ("(({a} > 0.0 ? {a} : {b}) ? 1.0 : 2.0)", "1.0 if ({a} if {a} > 0.0 else {b}) else 2.0"),
        ("fabs(rint({a}))", "abs(math.copysign(round({a}), {a}))"),
    ],
)
def test_python_is_written_with_the_parentheses_it_needs_and_no_others(c: str, python: str) -> None:
    assert write_python_expression(parse_c_text(c)) == python


@pytest.mark.parametrize("text", ["{x} +", "exp {x}", "({x}", "{x} {x}", "{x} $ 2.0", "{x} ? 1.0", "", "pi * {x}"])
def test_a_text_that_is_no_expression_is_refused(text: str) -> None:
    with pytest.raises(RecordError, match="the text"):
        parse_c_text(text)
