"""Lower forms to C expressions: the text of each op with its operands filled in, conditions converted to numbers."""

from __future__ import annotations

import operator
from collections import Counter
from functools import cache

from wiregrad.codegen.forms import ConstantForm, Form, SlotForm, as_python_number
from wiregrad.dtypes import WireType
from wiregrad.errors import NoRuleError
from wiregrad.ir import TABLE, Op
from wiregrad.ops import Elementwise
from wiregrad.ops.expressions import (
    BinaryExpression,
    CallExpression,
    ChoiceExpression,
    InputExpression,
    NumberExpression,
    PrefixExpression,
    ScalarExpression,
    is_condition,
    parse_c_text,
    rebuild_expression,
    walk_expression,
)

MAX_INLINE_PARTS = 7
"""An op whose text has at most this many parts is written inline; a longer one becomes a function."""
CONDITION_TO_NUMBER = "number"
"""The pseudo-function that converts a condition to a number; each language spells it."""


def lower_to_c(form: Form) -> ScalarExpression:
    """Return a form as a C expression; slot k becomes the input named k.

    >>> from wiregrad import ops
    >>> from wiregrad.codegen.forms import Apply
    >>> from wiregrad.dtypes import FLOAT
    >>> lower_to_c(Apply(ops.multiply, (SlotForm(0, FLOAT), SlotForm(1, FLOAT)), FLOAT))
    Between(sign='*', left=Input(name='0'), right=Input(name='1'))
    """
    match form:
        case SlotForm():
            return InputExpression(str(form.number))
        case ConstantForm():
            return NumberExpression(as_python_number(form.value))
    operands = [lower_to_c(operand) for operand in form.operands]
    op = require_scalar_text(form.op)
    arguments = {
        name: _convert_operand(tree, operand.type, name in op.takes_bool)
        for name, tree, operand in zip(op.inputs, operands, form.operands, strict=True)
    }
    return _ensure_condition(_apply_op_text(op, arguments), form.type)


def require_scalar_text(op: Op) -> Elementwise:
    """Return the op if its record has a scalar C text, else raise NoRuleError."""
    if not isinstance(op, Elementwise) or not op.c:
        kind = "works on whole arrays" if not isinstance(op, Elementwise) else "has no scalar text (`c`) in its record"
        raise NoRuleError(
            f"{op.title} {kind}, so it cannot be written in C, JavaScript or plain Python; to_numpy() writes arrays"
        )
    return op


def _apply_op_text(op: Elementwise, arguments: dict[str, ScalarExpression]) -> ScalarExpression:
    """Return the text of an op with its arguments filled in if that is short, else a call of the op's function."""
    inline = rebuild_expression(parse_c_text(op.c), lambda tree: _fold_comparison(arguments[tree.name] if isinstance(tree, InputExpression) else tree))
    repeatable = all(count == 1 or isinstance(arguments[name], InputExpression | NumberExpression) for name, count in _count_uses(op).items())
    # A constant operand may have made a long text short: x ** 2 has no choice left to make.
    shortened = _count_parts(inline) < _count_parts(parse_c_text(op.c)) and _count_parts(inline) <= MAX_INLINE_PARTS
    if repeatable and (shortened or not needs_function(op)):
        return inline
    return CallExpression(op.name, tuple(arguments[name] for name in op.inputs))


def _fold_comparison(tree: ScalarExpression) -> ScalarExpression:
    """Replace a choice by a comparison of two numbers by its branch, and !(a == b) by a != b."""
    if isinstance(tree, PrefixExpression) and isinstance(tree.operand, BinaryExpression) and tree.operand.sign in _NEGATED_SIGN:
        return tree.operand._replace(sign=_NEGATED_SIGN[tree.operand.sign])
    if isinstance(tree, ChoiceExpression) and isinstance(tree.condition, BinaryExpression):
        sign, left, right = tree.condition
        if isinstance(left, NumberExpression) and isinstance(right, NumberExpression):
            return tree.yes if _COMPARISON_FUNCTIONS[sign](left.value, right.value) else tree.no
    return tree


# Not for <: with a NaN, neither a < b nor a >= b holds.
_NEGATED_SIGN = {"==": "!=", "!=": "=="}
_COMPARISON_FUNCTIONS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _count_parts(tree: ScalarExpression) -> int:
    return sum(1 for _ in walk_expression(tree))


@cache
def needs_function(op: Elementwise) -> bool:
    """Return whether an op's text is so long that it is written as a function."""
    return _count_parts(parse_c_text(op.c)) > MAX_INLINE_PARTS


def op_function_names() -> frozenset[str]:
    """Return the names of all ops that a listing may define as functions."""
    ops = [op for op in TABLE if isinstance(op, Elementwise) and op.c]
    return frozenset(op.name for op in ops if needs_function(op) or max(_count_uses(op).values(), default=0) > 1)


@cache
def _count_uses(op: Elementwise) -> Counter[str]:
    return Counter(tree.name for tree in walk_expression(parse_c_text(op.c)) if isinstance(tree, InputExpression))


def _convert_operand(tree: ScalarExpression, kind: WireType, wants_condition: bool) -> ScalarExpression:
    """Convert an operand between condition and number where the op wants the other."""
    has_condition = kind.dtype.kind == "b"
    if has_condition and not wants_condition:
        return NumberExpression(float(tree.value)) if isinstance(tree, NumberExpression) else CallExpression(CONDITION_TO_NUMBER, (tree,))
    if wants_condition and not has_condition:
        return BinaryExpression("!=", tree, NumberExpression(0.0))
    return tree


def _ensure_condition(tree: ScalarExpression, kind: WireType) -> ScalarExpression:
    """Convert an expression whose type is a condition to one: in NumPy the sum of two conditions is a condition."""
    if kind.dtype.kind != "b" or is_condition(tree) or isinstance(tree, InputExpression | NumberExpression):
        return tree
    # An op's function already returns a condition where the op does, and in JavaScript false !== 0.
    returns_condition = (
        isinstance(tree, CallExpression) and tree.name in TABLE and is_condition(parse_c_text(require_scalar_text(TABLE[tree.name]).c))
    )
    return tree if returns_condition else BinaryExpression("!=", tree, NumberExpression(0.0))
