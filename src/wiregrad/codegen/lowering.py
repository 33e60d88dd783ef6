"""Lower forms to C expressions: the text of each op with its operands filled in, conditions converted to numbers."""

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
"""An op whose text has at most this many parts is written inline; a longer one becomes a function."""
AS_NUMBER = "number"
"""The pseudo-function that converts a condition to a number; each language spells it."""


def lowered(form: Form) -> Tree:
    """Return a form as a C expression; slot k becomes the input named k.

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
    arguments = {
        name: _fitted(tree, operand.type, name in op.takes_bool)
        for name, tree, operand in zip(op.inputs, operands, form.operands, strict=True)
    }
    return _condition(_applied(op, arguments), form.type)


def scalar(op: Op) -> Elementwise:
    """Return the op if its record has a scalar C text, else raise NoRuleError."""
    if not isinstance(op, Elementwise) or not op.c:
        kind = "works on whole arrays" if not isinstance(op, Elementwise) else "has no scalar text (`c`) in its record"
        raise NoRuleError(
            f"{op.title} {kind}, so it cannot be written in C, JavaScript or plain Python; to_numpy() writes arrays"
        )
    return op


def _applied(op: Elementwise, arguments: dict[str, Tree]) -> Tree:
    """Return the text of an op with its arguments filled in if that is short, else a call of the op's function."""
    inline = rebuilt(parse(op.c), lambda tree: _decided(arguments[tree.name] if isinstance(tree, Input) else tree))
    repeatable = all(count == 1 or isinstance(arguments[name], Input | Number) for name, count in _uses(op).items())
    # A constant operand may have made a long text short: x ** 2 has no choice left to make.
    shortened = _parts(inline) < _parts(parse(op.c)) and _parts(inline) <= SHORT
    if repeatable and (shortened or not is_function(op)):
        return inline
    return Call(op.name, tuple(arguments[name] for name in op.inputs))


def _decided(tree: Tree) -> Tree:
    """Replace a choice by a comparison of two numbers by its branch, and !(a == b) by a != b."""
    if isinstance(tree, Signed) and isinstance(tree.operand, Between) and tree.operand.sign in _OPPOSITE:
        return tree.operand._replace(sign=_OPPOSITE[tree.operand.sign])
    if isinstance(tree, Choice) and isinstance(tree.condition, Between):
        sign, left, right = tree.condition
        if isinstance(left, Number) and isinstance(right, Number):
            return tree.yes if _COMPARE[sign](left.value, right.value) else tree.no
    return tree


# Not for <: with a NaN, neither a < b nor a >= b holds.
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
    """Return whether an op's text is so long that it is written as a function."""
    return _parts(parse(op.c)) > SHORT


def function_names() -> frozenset[str]:
    """Return the names of all ops that a listing may define as functions."""
    ops = [op for op in TABLE if isinstance(op, Elementwise) and op.c]
    return frozenset(op.name for op in ops if is_function(op) or max(_uses(op).values(), default=0) > 1)


@cache
def _uses(op: Elementwise) -> Counter[str]:
    return Counter(tree.name for tree in walk(parse(op.c)) if isinstance(tree, Input))


def _fitted(tree: Tree, kind: WireType, wants_condition: bool) -> Tree:
    """Convert an operand between condition and number where the op wants the other."""
    has_condition = kind.dtype.kind == "b"
    if has_condition and not wants_condition:
        return Number(float(tree.value)) if isinstance(tree, Number) else Call(AS_NUMBER, (tree,))
    if wants_condition and not has_condition:
        return Between("!=", tree, Number(0.0))
    return tree


def _condition(tree: Tree, kind: WireType) -> Tree:
    """Convert an expression whose type is a condition to one: in NumPy the sum of two conditions is a condition."""
    if kind.dtype.kind != "b" or is_condition(tree) or isinstance(tree, Input | Number):
        return tree
    # An op's function already returns a condition where the op does, and in JavaScript false !== 0.
    returns_condition = (
        isinstance(tree, Call) and tree.name in TABLE and is_condition(parse(scalar(TABLE[tree.name]).c))
    )
    return tree if returns_condition else Between("!=", tree, Number(0.0))
