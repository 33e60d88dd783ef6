"""Ops on scalars: Python functions that are generated from the op table.

One function is generated for each op of one or two inputs that can be written in Python. It computes the value and the
slopes on Python floats and appends one packed row, without a NumPy call. The slopes come from the record's `partials`,
run once on a builder and simplified. The general path takes over where Python raises but NumPy returns inf or NaN (1/0,
exp(1000), log(-1)), and where a thread has chosen another convention for kinks.

Each function comes in two flavours, one per class of its result: `Scalar` where the program without recording computes
a Python float, `NumpyScalar` where it computes an np.float64. The flavours differ in nothing else.
"""

from __future__ import annotations

import math
import operator
import re
from collections import Counter
from collections.abc import Callable
from functools import cache
from threading import get_ident
from typing import Any, NamedTuple

import numpy as np

from wiregrad.dtypes import to_python_number
from wiregrad.errors import OperandError
from wiregrad.frontends.recording.record import SCALAR_NAMESPACE, is_tracing, place_one, place_two, record_op
from wiregrad.frontends.recording.tape import BLOCKED, LITERAL, ROW_FORMAT, STATE
from wiregrad.frontends.recording.value import (
    LAST_LOOKUP,
    NumpyScalar,
    Scalar,
    Value,
    as_python_number,
    describe_method,
    is_numeric_operand,
    is_python_number,
    make_leaf,
    refuse_lookup,
)
from wiregrad.ir import CONSTANT, INPUT, TABLE, CircuitGraph, GraphBuilder, Op
from wiregrad.ir.op import ARITHMETIC_METHODS, COMPARISON_METHODS, SIGN_METHODS
from wiregrad.ir.types_and_kinks import Convention, chosen_convention, default_convention, encode_mode, has_kinks
from wiregrad.ops import Elementwise
from wiregrad.ops.c_expressions import inline_ops, parse_c_text, write_python_expression
from wiregrad.ops.gradient_flow import MaskedFlow
from wiregrad.passes import simplify

SCALAR_OPS: dict[Op, Callable[..., Any]] = {}
"""The function that applies each op to scalars."""

SCALAR_NAMESPACE.update(
    chosen=chosen_convention,
    math=math,
    inf=math.inf,
    nan=math.nan,
    Scalar=Scalar,
    NumpyScalar=NumpyScalar,
    get_ident=get_ident,
    place_one=place_one,
    place_two=place_two,
    pack=ROW_FORMAT.pack,
    new=object.__new__,
    BLOCKED=BLOCKED,
    LITERAL=LITERAL,
    STATE=STATE,
)

_ATOM_PATTERN = re.compile(r"[\w.]+")
_APPEND_TEMPLATE = """
        buffer = tape.buffer
        offset = len(buffer)
        buffer += pack(y, {p}, {q}, {i}, {j}, {code})
        value = new({result})
        value._data = y
        value._tape = tape
        value._index = offset
        return value
"""
_ENTER_TEMPLATE = """
        tape = self._tape
        if tape is None or PAUSED or tape.owner != get_ident():
            tape, i = place_one(self)
            if tape is None:
                return {apart}(OP_{name}, {operands}, y)
        else:
            i = self._index
        {masks}
"""
_ONE_TEMPLATE = """
def {name}(self):
        {divert}
        {x} = self._data
        try:
            y = {forward}
            {slopes}
        except (ArithmeticError, ValueError):
            return {quietly}(OP_{name}, (self,))
"""
_TWO_TEMPLATE = """
    if {both}:
        {divert}
        {a} = {one}._data
        {b} = {two}._data
        try:
            y = {forward}
            {slopes}
        except (ArithmeticError, ValueError):
            return {quietly}(OP_{name}, ({one}, {two}))
        tape = {one}._tape
        if tape is None or tape is not {two}._tape or PAUSED or tape.owner != get_ident():
            tape, i, j = place_two({one}, {two})
            if tape is None:
                return {apart}(OP_{name}, ({one}, {two}), y)
            if i < 0 or j < 0:
                return {recorded}(OP_{name}, ({one}, {two}))
        else:
            i = {one}._index
            j = {two}._index
        {masks}
"""
_LITERAL_TEMPLATE = """
    if kind is float or kind is int:
        {divert}
        {x} = self._data
        {literal} = other
        try:
            if kind is int:
                {literal} = float(other)
            y = {forward}
            {slopes}
        except (ArithmeticError, ValueError):
            return {quietly}(OP_{name}, {operands})
"""
_REST_TEMPLATE = """
    return {general}(OP_{name}, {operands})
"""


class ScalarFlavour(NamedTuple):
    """The words in the templates that differ between the two kinds of scalars."""

    result: str
    """The class of the result."""
    both: str
    """The condition under which the other operand is a scalar that needs no conversion."""
    prefix: str
    """Prefix of the functions that take over where no packed row can be made."""

    def template_words(self) -> dict[str, str]:
        """Return the values of the templates' fields."""
        helpers = ("quietly", "apart", "general", "recorded")
        return {"result": self.result, **{name: f"{self.prefix}{name}" for name in helpers}}


PYTHON_FLAVOUR = ScalarFlavour("Scalar", "kind is Scalar", "python_")
NUMPY_FLAVOUR = ScalarFlavour("NumpyScalar", "kind is NumpyScalar or kind is Scalar", "")


def generate_scalar_function(
    op: Elementwise, *, reflected: bool = False, flavour: ScalarFlavour = PYTHON_FLAVOUR
) -> Callable[..., Any] | None:
    """Return the generated function `(self)` or `(self, other)` of an op; None if it cannot be written in Python.

    With `reflected`, `other` is the first operand.
    """
    key = f"{'r_' if reflected else ''}{op.name}"
    name = f"made_{flavour.prefix}{key}"
    function: Callable[..., Any] | None = SCALAR_NAMESPACE.get(name)
    if function is None and name not in SCALAR_NAMESPACE:
        text = _write_unary(op, flavour) if len(op.inputs) == 1 else _write_binary(op, flavour, reflected=reflected)
        if text is not None:
            SCALAR_NAMESPACE[f"OP_{op.name}"] = op
            exec(compile(text, f"<wiregrad scalar {key}>", "exec"), SCALAR_NAMESPACE)
            function = describe_method(SCALAR_NAMESPACE.pop(op.name), op.name, op)
        SCALAR_NAMESPACE[name] = function
    return function


def _write_unary(op: Elementwise, flavour: ScalarFlavour) -> str | None:
    """Return the Python text of an op of one input; None if it has none."""
    slopes = SlopeCode.from_op(op, 0, [0])
    if slopes is None:
        return None
    (x,) = op.inputs
    words = {"name": op.name, "operands": "(self,)", **flavour.template_words()}
    forward = _write_call(op, op.inputs)
    divert = _write_diversion(op, "(self,)", flavour)
    head = _ONE_TEMPLATE.format(x=x, divert=divert, forward=forward, slopes=slopes.join_lines(12), **words)
    entered = _ENTER_TEMPLATE.format(masks=slopes.join_mask_lines("i"), **words)
    row = _APPEND_TEMPLATE.format(p=slopes.names[0], q="0.0", i="i", j="LITERAL", code=TABLE.code_of(op), **words)
    return head + entered + row


def _write_binary(op: Elementwise, flavour: ScalarFlavour, *, reflected: bool) -> str | None:
    """Return the Python text of an op of two inputs; None if it has none."""
    wires, literal = (1, 0) if reflected else (0, 1)
    both = SlopeCode.from_op(op, 0, [0, 1])
    mode = encode_mode(Convention.MIN_NORM, [literal]) if op.kinks else 0
    one = SlopeCode.from_op(op, mode, [wires])
    if both is None or one is None:
        return None
    own = op.inputs[wires]
    other = op.inputs[literal]
    forward = _write_call(op, op.inputs)
    code = TABLE.code_of(op)
    operands = "(other, self)" if reflected else "(self, other)"
    words = {"name": op.name, "operands": operands, "code": code, **flavour.template_words()}
    row = (
        {"p": other, "q": one.names[wires], "i": "LITERAL", "j": "i"}
        if reflected
        else {"p": one.names[wires], "q": other, "i": "i", "j": "LITERAL"}
    )
    text = f"\ndef {op.name}(self, other):\n    kind = type(other)\n"
    if not reflected or flavour is NUMPY_FLAVOUR:
        # Of two `Scalar` operands Python always calls the method of the first, so the reflected method never sees both.
        text += _write_two_scalars(op, both, flavour, words, reflected=reflected)
    lines = {"divert": _write_diversion(op, operands, flavour), "forward": forward, "slopes": one.join_lines(12)}
    return (
        text
        + _LITERAL_TEMPLATE.format(x=own, literal=other, **lines, **words)
        + _ENTER_TEMPLATE.format(masks=one.join_mask_lines("i"), **words)
        + _APPEND_TEMPLATE.format(**row, **words)
        + _REST_TEMPLATE.format(**words)
    )


def _write_two_scalars(
    op: Elementwise, slopes: SlopeCode, flavour: ScalarFlavour, words: dict[str, Any], *, reflected: bool
) -> str:
    """Return the lines for two scalar operands."""
    a, b = op.inputs
    one, two = ("other", "self") if reflected else ("self", "other")
    fields = {"a": a, "b": b, "one": one, "two": two, "both": flavour.both, "forward": _write_call(op, op.inputs)}
    divert = _write_diversion(op, f"({one}, {two})", flavour)
    head = _TWO_TEMPLATE.format(
        divert=divert, slopes=slopes.join_lines(12), masks=slopes.join_mask_lines("ij"), **fields, **words
    )
    return head + _APPEND_TEMPLATE.format(p=slopes.names[0], q=slopes.names[1], i="i", j="j", **words)


def _write_diversion(op: Elementwise, operands: str, flavour: ScalarFlavour) -> str:
    """Return the line that hands an op with kinks to `record_op` if a convention other than that of rows is chosen."""
    if not has_kinks(op):
        return "pass"
    # If the environment sets the convention, every call has to look it up.
    asked = "" if default_convention() else "CHOSEN and "
    return f"if {asked}chosen(): return {flavour.prefix}quietly(OP_{op.name}, {operands})"


def is_quick(op: Elementwise) -> bool:
    """Return whether a scalar function can be generated for an op."""
    return bool(op.c or op.python) and len(op.inputs) <= 2 and not op.takes_bool and any(op.partials)


class SlopeCode:
    """The slopes of an op as lines of Python, generated from its record."""

    def __init__(self, circuit: CircuitGraph, slots: list[int]) -> None:
        self.slots = slots
        self.lines = list[str]()
        self.names = dict[int, str]()
        self.conditions = dict[int, str]()
        self._write_lines(circuit)

    @classmethod
    def from_op(cls, op: Elementwise, mode: int, slots: list[int]) -> SlopeCode | None:
        """Return the slopes for some inputs; None if an op in them cannot be written in Python."""
        if not is_quick(op):
            return None
        builder = GraphBuilder(finite=False)
        ports = [builder.input(name) for name in op.inputs]
        y = builder.input("y")
        labels: dict[str, Any] = {}
        for slot in slots:
            flow = op.local(slot, ports, y, mode)
            slope = 0.0 if flow is None else flow
            mask = None
            if type(flow) is MaskedFlow:
                slope = flow.value
                mask = flow.mask
            labels[f"slope{slot}"] = slope if hasattr(slope, "builder") else builder.constant(slope)
            if flow is None:
                labels[f"mask{slot}"] = builder.apply("isnan", builder.constant(0.0))
            elif mask is not None:
                labels[f"mask{slot}"] = mask
        circuit = simplify(builder.build(labels=labels))
        try:
            return cls(circuit, slots)
        except OperandError:
            return None

    def _write_lines(self, circuit: CircuitGraph) -> None:
        readers = Counter([*circuit.columns.sources.tolist(), *circuit.columns.outputs.tolist()])
        written: dict[int, str] = {}
        for row in circuit.rows():
            if row.op is INPUT:
                written[row.node] = circuit.name_of(row.node)
            elif row.op is CONSTANT:
                written[row.node] = _write_constant(circuit.constant_of(row.node))
            else:
                assert isinstance(row.op, Elementwise)
                text = _write_call(row.op, [written[k] for k in row.sources])
                # An expression that is read once is inlined: the branch of a `where` that is not taken costs nothing.
                if readers[row.node] > 1:
                    self.lines.append(f"t{row.node} = {text}")
                    text = f"t{row.node}"
                written[row.node] = text
        for label, node in zip(circuit.outputs, circuit.columns.outputs.tolist(), strict=True):
            (self.names if label.startswith("slope") else self.conditions)[int(label[-1])] = written[node]
        for slot, text in self.names.items():
            if not text.isidentifier():
                self.lines.append(f"s{slot} = {text}")
                self.names[slot] = f"s{slot}"

    def join_lines(self, indent: int) -> str:
        """Return the lines as text with an indentation."""
        return f"\n{' ' * indent}".join(self.lines or ["pass"])

    def join_mask_lines(self, letters: str) -> str:
        """Return the lines that block a wire where the mask of its slope is false."""
        wires = dict(zip(self.slots, letters, strict=True))
        lines = [f"if not ({mask}): {wires[slot]} = BLOCKED - {wires[slot]}" for slot, mask in self.conditions.items()]
        return "\n        ".join(lines or ["pass"])


@cache
def python_text_of(op: Elementwise) -> str:
    """Return an op on Python floats as text, with the inputs in braces; may raise where NumPy returns inf or NaN.

    >>> python_text_of(TABLE["exp"])
    'math.exp({x})'
    """
    return op.python or write_python_expression(inline_ops(parse_c_text(op.c), _c_text_of))


def _c_text_of(name: str) -> tuple[tuple[str, ...], str]:
    """Return the inputs and the C text of an op of the table."""
    op = TABLE[name]
    assert isinstance(op, Elementwise)
    return op.inputs, op.c


def _write_call(op: Elementwise, operands: Any) -> str:
    """Return the Python text of an op applied to operands that are text."""
    if not (op.c or op.python):
        raise OperandError(f"{op.name} has no Python text")
    safe = [text if _ATOM_PATTERN.fullmatch(text) else f"({text})" for text in operands]
    return python_text_of(op).format(**dict(zip(op.inputs, safe, strict=True)))


def _write_constant(value: object) -> str:
    return repr(to_python_number(value))


def _record_quietly(op: Elementwise, operands: tuple[Any, ...]) -> Any:
    """Record an op where Python raises but NumPy returns inf or NaN, without NumPy's warnings."""
    with np.errstate(all="ignore"):
        return record_op(op, operands)


def _make_unrecorded(op: Elementwise, operands: tuple[Any, ...], y: float) -> Any:
    """Return the result of an op that gets no packed row: it is recorded in full, or not at all."""
    return _record_quietly(op, operands) if STATE.is_careful else make_leaf(y, constant=True, number=NumpyScalar)


def _make_unrecorded_python(op: Elementwise, operands: tuple[Any, ...], y: float) -> Any:
    """As `_make_unrecorded`, for a result that is a Python number."""
    return as_python_number(_record_quietly(op, operands)) if STATE.is_careful else make_leaf(y, constant=True)


def _apply_general(op: Elementwise, operands: tuple[Any, ...]) -> Any:
    """Apply an op if one operand is neither a scalar nor a Python number."""
    for operand in operands:
        if isinstance(operand, np.floating | np.integer):
            # A NumPy number is converted to a Python float, since the result is float64 either way.
            return op(*(float(x) if isinstance(x, np.floating | np.integer) else x for x in operands))
    return record_op(op, operands)


def _with_python_result(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function of an op and its operands: the result is a Python number if all operands are."""

    def apply_in_python(op: Elementwise, operands: tuple[Any, ...]) -> Any:
        result = function(op, operands)
        return as_python_number(result) if all(map(is_python_number, operands)) else result

    return apply_in_python


def _generate_lazily(op: Elementwise, name: str, owner: type[Scalar], *, reflected: bool = False) -> Callable[..., Any]:
    """Return a method that replaces itself by the generated one when it is first called."""

    def generate_and_call(self: Scalar, *other: object) -> Any:
        generated = generate_scalar_function(op, reflected=reflected, flavour=CLASS_FLAVOURS[owner])

        def record_instead(self: Scalar, *rest: object) -> Any:
            helper = SCALAR_NAMESPACE[f"{CLASS_FLAVOURS[owner].prefix}recorded"]
            return helper(op, (*rest, self) if reflected else (self, *rest))

        chosen = generated or describe_method(record_instead, name, op)
        setattr(owner, name, chosen)
        return chosen(self, *other)

    return describe_method(generate_and_call, name, op)


def _make_scalar_apply(op: Elementwise) -> Callable[..., Any]:
    """Return a function that applies an op to operands, at least one of them a scalar; the result is NumPy's."""

    def apply_to_scalars(*operands: object) -> Any:
        reflected = type(operands[0]) not in CLASS_FLAVOURS
        generated = generate_scalar_function(op, reflected=reflected, flavour=NUMPY_FLAVOUR)
        if generated is None:
            return record_op(op, operands)
        return generated(*reversed(operands) if reflected else operands)

    return apply_to_scalars


def _install_operators(owner: type[Scalar]) -> None:
    """Give a class of scalars its arithmetic operators."""
    for spelling, python in ARITHMETIC_METHODS.items():
        op = TABLE.infix[spelling]
        assert isinstance(op, Elementwise)
        setattr(owner, f"__{python}__", _generate_lazily(op, f"__{python}__", owner))
        # `x += y` gives the variable a new number; without this it would ask the operator of arrays first.
        setattr(owner, f"__i{python}__", _generate_lazily(op, f"__i{python}__", owner))
        setattr(owner, f"__r{python}__", _generate_lazily(op, f"__r{python}__", owner, reflected=True))
    for op, python in [
        *((TABLE.prefix[sign], python) for sign, python in SIGN_METHODS.items()),
        (TABLE["absolute"], "abs"),
    ]:
        assert isinstance(op, Elementwise)
        setattr(owner, f"__{python}__", _generate_lazily(op, f"__{python}__", owner))


def install_scalar_op(op: Elementwise) -> None:
    """Give scalars the generated function of an op, and its method if it has one input."""
    if is_quick(op):
        SCALAR_OPS[op] = _make_scalar_apply(op)
        if len(op.inputs) == 1:
            for name in (op.name, *op.aliases):
                for owner in CLASS_FLAVOURS:
                    setattr(owner, name, _generate_lazily(op, name, owner))


def _make_comparison(spelling: str) -> Callable[[Scalar, Any], Any]:
    """Return a comparison method for Python numbers, whose result is a bool."""
    op = TABLE.infix[spelling]
    compare: Callable[[Any, Any], bool] = getattr(operator, COMPARISON_METHODS[spelling])

    def method(self: Scalar, other: Any) -> Any:
        kind = type(other)
        if SCALAR_NAMESPACE["PAUSED"] and is_tracing():
            # A value from outside may steer the function that is being traced.
            return record_op(op, (self, other))
        if kind is Scalar:
            if LAST_LOOKUP and spelling == "==":
                refuse_lookup(self, other)
            return compare(self._data, other._data)
        if kind is float or kind is int or kind is bool:
            return compare(self._data, other)
        return record_op(op, (self, other)) if is_numeric_operand(other) else NotImplemented

    return method


def _make_numpy_comparison(spelling: str) -> Callable[[NumpyScalar, Any], Any]:
    """Return a comparison method for NumPy numbers, whose result is an np.bool_."""
    op = TABLE.infix[spelling]
    compare: Callable[[Any, Any], bool] = getattr(operator, COMPARISON_METHODS[spelling])

    def method(self: NumpyScalar, other: Any) -> Any:
        kind = type(other)
        if kind is NumpyScalar or kind is Scalar:
            if LAST_LOOKUP and spelling == "==":
                refuse_lookup(self, other)
            return np.True_ if compare(self._data, other._data) else np.False_
        if kind is float or kind is int:
            return np.True_ if compare(self._data, other) else np.False_
        if other is None and spelling in ("==", "!="):
            return spelling == "!="
        return record_op(op, (self, other))

    return method


def _apply_op(self: Scalar, op: Op, operands: tuple[Any, ...]) -> Any:
    """Apply an op to operands, one of which is a scalar."""
    quick = SCALAR_OPS.get(op)
    if quick is None or len(operands) != len(op.inputs):
        return record_op(op, operands)
    return quick(*operands)


CLASS_FLAVOURS: dict[type[Scalar], ScalarFlavour] = {Scalar: PYTHON_FLAVOUR, NumpyScalar: NUMPY_FLAVOUR}
"""The flavour of each class of scalars."""


def install_scalars() -> None:
    """Give scalars their operators and methods."""
    setattr(Scalar, "__wiregrad_apply__", _apply_op)  # noqa: B010 - what is typed is Value's
    helpers: dict[str, Any] = {"general": _apply_general, "quietly": _record_quietly, "recorded": record_op}
    SCALAR_NAMESPACE.update(helpers, apart=_make_unrecorded, python_apart=_make_unrecorded_python)
    SCALAR_NAMESPACE.update({f"python_{name}": _with_python_result(helper) for name, helper in helpers.items()})
    for owner in CLASS_FLAVOURS:
        _install_operators(owner)
    for spelling, python in COMPARISON_METHODS.items():
        setattr(Scalar, f"__{python}__", _make_comparison(spelling))
        setattr(NumpyScalar, f"__{python}__", _make_numpy_comparison(spelling))
    for op in TABLE:
        if isinstance(op, Elementwise):
            install_scalar_op(op)
    for owner in CLASS_FLAVOURS:
        owner.__hash__ = Value.__hash__  # type: ignore[method-assign]


install_scalars()
