"""From forms to expressions of C: each op by its text, operands in their places, conditions and numbers told apart."""

from __future__ import annotations

import operator
from collections import Counter
from functools import cache

from wiregrad.codegen.forms import Constant, Form, Slot, item
from wiregrad.dtypes import WireType
from wiregrad.errors import NoRuleError
from wiregrad.ir import TABLE, Op
from wiregrad.ops import Elementwise
from wiregrad.ops.expressions import (
    Between,
    Call,
    Choice,
    Input,
    Number,
    Signed,
    Tree,
    is_condition,
    parse,
    rebuilt,
    walk,
)

SHORT = 7
"""An op whose text has at most so many parts is written where it stands; a longer one becomes a function."""
AS_NUMBER = "number"
"""What a condition is passed to where a number is wanted."""


def lowered(form: Form) -> Tree:
    """Return a form as an expression of C: slot k is the input called k.

    >>> from wiregrad import ops
    >>> from wiregrad.codegen.forms import Apply
    >>> from wiregrad.dtypes import FLOAT
    >>> lowered(Apply(ops.multiply, (Slot(0, FLOAT), Slot(1, FLOAT)), FLOAT))
    Between(sign='*', left=Input(name='0'), right=Input(name='1'))
    """
    match form:
        case Slot():
            return Input(str(form.number))
        case Constant():
            return Number(item(form.value))
    operands = [lowered(operand) for operand in form.operands]
    op = scalar(form.op)
    given = {
        name: _fitted(tree, operand.type, name in op.takes_bool)
        for name, tree, operand in zip(op.inputs, operands, form.operands, strict=True)
    }
    return _condition(_applied(op, given), form.type)


def scalar(op: Op) -> Elementwise:
    """Return the op if it has a scalar text, else raise."""
    if not isinstance(op, Elementwise) or not op.c:
        kind = "works on whole arrays" if not isinstance(op, Elementwise) else "has no scalar text (`c`) in its record"
        raise NoRuleError(
            f"{op.title} {kind}, so it cannot be written in C, JavaScript or plain Python; to_numpy() writes arrays"
        )
    return op


def _applied(op: Elementwise, given: dict[str, Tree]) -> Tree:
    written = rebuilt(parse(op.c), lambda tree: _decided(given[tree.name] if isinstance(tree, Input) else tree))
    plain = all(count == 1 or isinstance(given[name], Input | Number) for name, count in _uses(op).items())
    # A constant operand may have made a long text short: x ** 2 has no choice left to make.
    short = plain and (not is_function(op) or (_parts(written) < _parts(parse(op.c)) and _parts(written) <= SHORT))
    return written if short else Call(op.name, tuple(given[name] for name in op.inputs))


def _decided(tree: Tree) -> Tree:
    """Return a choice by a comparison of two numbers as what it chooses, and not equal as one sign."""
    if isinstance(tree, Signed) and isinstance(tree.operand, Between) and tree.operand.sign in _OPPOSITE:
        return tree.operand._replace(sign=_OPPOSITE[tree.operand.sign])
    if isinstance(tree, Choice) and isinstance(tree.condition, Between):
        sign, left, right = tree.condition
        if isinstance(left, Number) and isinstance(right, Number):
            return tree.yes if _COMPARE[sign](left.value, right.value) else tree.no
    return tree


# Not so for <: where one is NaN, neither a < b nor a >= b holds.
_OPPOSITE = {"==": "!=", "!=": "=="}
_COMPARE = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _parts(tree: Tree) -> int:
    return sum(1 for _ in walk(tree))


@cache
def is_function(op: Elementwise) -> bool:
    """Return whether an op is written as a function of its own, because its text is long."""
    return _parts(parse(op.c)) > SHORT


def function_names() -> frozenset[str]:
    """Return what the functions of ops can be called in a listing."""
    ops = [op for op in TABLE if isinstance(op, Elementwise) and op.c]
    return frozenset(op.name for op in ops if is_function(op) or max(_uses(op).values(), default=0) > 1)


@cache
def _uses(op: Elementwise) -> Counter[str]:
    return Counter(tree.name for tree in walk(parse(op.c)) if isinstance(tree, Input))


def _fitted(tree: Tree, kind: WireType, wants_condition: bool) -> Tree:
    given = kind.dtype.kind == "b"
    if given and not wants_condition:
        return Number(float(tree.value)) if isinstance(tree, Number) else Call(AS_NUMBER, (tree,))
    if wants_condition and not given:
        return Between("!=", tree, Number(0.0))
    return tree


def _condition(tree: Tree, kind: WireType) -> Tree:
    """Return an expression of a condition as one: NumPy's sum of two conditions is a condition again."""
    if kind.dtype.kind != "b" or is_condition(tree) or isinstance(tree, Input | Number):
        return tree
    # A function of an op that is a condition is one, and in JavaScript false is not 0.
    called = isinstance(tree, Call) and tree.name in TABLE and is_condition(parse(scalar(TABLE[tree.name]).c))
    return tree if called else Between("!=", tree, Number(0.0))
