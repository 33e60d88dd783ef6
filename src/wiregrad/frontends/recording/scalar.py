"""The operators of scalars: Python functions that are generated from the op table; and those of traced numbers.

One function is generated for each op of one or two inputs that can be written in Python. It computes the value and the
slopes on Python floats and appends one packed row, without a NumPy call. The slopes come from the record's `partials`,
run once on a builder and simplified. The general path takes over where Python raises but NumPy returns inf or NaN (1/0,
exp(1000), log(-1)), and where a thread has chosen another convention for kinks.

Each function comes in two flavours, one per class of its result: `Scalar` where the program without recording computes
a Python float, `NumpyScalar` where it computes an np.float64. The flavours differ in nothing else.

Traced numbers are Python floats, and conditions and whole numbers of Python and NumPy. Python and NumPy have different
rules for conditions: `True + True` is 2 or True, `~True` is -2 or False, `-True` is -1 or an error. So each traced
number has a class that says what it would be without recording, and its operators follow the rules of that type:

- A `PythonFloat` with Python numbers gives a `PythonFloat`; with a NumPy number, the result is NumPy's.
- A `PythonInt` is a bool or an int. Sums, differences and products are nodes, as long as no result can be too large to
  be exact. Operators without a node (`//`, `**`, `<<`, a division that may be by 0) are computed by Python itself, and
  their operands are certified.
- A `DiscreteValue` is NumPy's. Where NumPy returns a dtype that a wire cannot have, or a function has no op, NumPy
  computes the result itself, and the operands are certified.
"""

from __future__ import annotations

import math
import operator
import os
import re
from collections import Counter
from collections.abc import Callable
from functools import cache
from threading import get_ident
from typing import TYPE_CHECKING, Any

import numpy as np

from wiregrad.dtypes import to_python_number
from wiregrad.errors import AmbiguousIndexError, OperandError, find_user_frame, format_user_line
from wiregrad.frontends.recording.record import SCALAR_NAMESPACE, is_tracing, place_one, place_two, record_op
from wiregrad.frontends.recording.tape import (
    BLOCKED,
    EXTRA_ROW,
    LITERAL,
    MAX_TAPE_ROWS,
    PAUSES,
    RECORDER,
    ROW_FORMAT,
    RUNNING,
    STATE,
    STRIDE,
    ExtraNode,
    Tape,
    TapeKind,
)
from wiregrad.frontends.recording.user_code import counts_as_int
from wiregrad.frontends.recording.value import (
    LAST_LOOKUP,
    MAX_REMEMBERED_PASSES,
    DiscreteValue,
    NumpyScalar,
    PythonFloat,
    PythonInt,
    Scalar,
    Value,
    ValueNotes,
    as_python_number,
    describe_method,
    is_numeric_operand,
    is_python_number,
    make_concrete,
    make_leaf,
    plain_class,
    refuse_lookup,
)
from wiregrad.ir import CONSTANT, INPUT, TABLE, CircuitGraph, GraphBuilder, Op
from wiregrad.ir.columns import (
    CHOSEN_CONVENTIONS,
    Convention,
    chosen_convention,
    default_convention,
    encode_mode,
    has_kinks,
)
from wiregrad.ir.op import ARITHMETIC_METHODS, COMPARISON_METHODS, SIGN_METHODS
from wiregrad.lazy import NamedTuple, load_module_lazily
from wiregrad.ops import Elementwise
from wiregrad.ops.gradient_flow import MaskedFlow
from wiregrad.passes import simplify
from wiregrad.settings import CONVENTION_VARIABLE

if TYPE_CHECKING:
    from wiregrad.ops import c_expressions
else:
    c_expressions = load_module_lazily("wiregrad.ops.c_expressions")

SCALAR_OPS: dict[Op, Callable[..., Any]] = {}
"""The function that applies each op to scalars."""

RECORDED_IN_C: set[Op] = set()
"""The ops that the C recorder records; users' own ops are not among them."""

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

_ATOM_PATTERN = r"[\w.]+"
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
    return op.python or c_expressions.write_python_expression(
        c_expressions.inline_ops(c_expressions.parse_c_text(op.c), _c_text_of)
    )


def _c_text_of(name: str) -> tuple[tuple[str, ...], str]:
    """Return the inputs and the C text of an op of the table."""
    op = TABLE[name]
    assert isinstance(op, Elementwise)
    return op.inputs, op.c


def _write_call(op: Elementwise, operands: Any) -> str:
    """Return the Python text of an op applied to operands that are text."""
    if not (op.c or op.python):
        raise OperandError(f"{op.name} has no Python text")
    safe = [text if re.fullmatch(_ATOM_PATTERN, text) else f"({text})" for text in operands]
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
    # A recorded whole number is an instance of np.integer too.
    are_plain = [isinstance(x, np.floating | np.integer) and not isinstance(x, Value) for x in operands]
    if any(are_plain):
        # A NumPy number is converted to a Python float, since the result is float64 either way.
        return op(*(float(x) if is_plain else x for x, is_plain in zip(operands, are_plain, strict=True)))
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
    if op in RECORDED_IN_C:
        SCALAR_OPS[op] = RECORDER.make_function(op.name)
        if len(op.inputs) == 1:
            for name in (op.name, *op.aliases):
                for owner in CLASS_FLAVOURS:
                    RECORDER.install_method(owner, name, op.name, f"{name}($self, /)\n--\n\n{op.doc}")
    elif is_quick(op):
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
        if LAST_LOOKUP and spelling == "==":
            refuse_lookup(self, other)
        kind = type(other)
        if SCALAR_NAMESPACE["PAUSED"] and is_tracing():
            # A value from outside may steer the function that is being traced.
            return record_op(op, (self, other))
        if kind is Scalar:
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
        if LAST_LOOKUP and spelling == "==":
            refuse_lookup(self, other)
        kind = type(other)
        if kind is NumpyScalar or kind is Scalar:
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
    if RECORDER is None:
        _install_python_recorder()
    else:
        _connect_recorder(helpers)
    for owner in CLASS_FLAVOURS:
        owner.__hash__ = Value.__hash__  # type: ignore[method-assign]
    for op in TABLE.by_code():
        if isinstance(op, Elementwise):
            install_scalar_op(op)


def _install_python_recorder() -> None:
    """Give scalars their operators as Python functions."""
    for owner in CLASS_FLAVOURS:
        _install_operators(owner)
    for spelling, python in COMPARISON_METHODS.items():
        setattr(Scalar, f"__{python}__", _make_comparison(spelling))
        setattr(NumpyScalar, f"__{python}__", _make_numpy_comparison(spelling))


RICH_COMPARISONS = ("<", "<=", "==", "!=", ">", ">=")
"""The comparisons in the order of Python's C interface."""


def _connect_recorder(helpers: dict[str, Any]) -> None:
    """Give the C recorder, whose scalars have their operators, what it needs of the Python side."""
    names = [*helpers, "apart"]
    known = [name for name in RECORDER.op_names() if name in TABLE]
    RECORDER.connect(
        {
            "tape_class": Tape,
            "notes_class": ValueNotes,
            "extra_class": ExtraNode,
            "extra_row": EXTRA_ROW,
            "input_op": INPUT,
            "user_kind": TapeKind.USER,
            "float64": np.float64,
            "paused": PAUSES.opened,
            "running": RUNNING,
            "chosen_blocks": CHOSEN_CONVENTIONS.opened,
            "chosen_convention": chosen_convention,
            "asks_convention": CONVENTION_VARIABLE in os.environ,
            "last_lookup": LAST_LOOKUP,
            "current_tape": STATE.current_tape,
            "data_property": vars(Value)["data"],
            "grad_property": vars(Value)["grad"],
            "place_one": place_one,
            "place_two": place_two,
            "numpy_true": np.True_,
            "numpy_false": np.False_,
            "hypot": math.hypot,
            "python_helpers": {name: SCALAR_NAMESPACE[f"python_{name}"] for name in names},
            "numpy_helpers": {name: SCALAR_NAMESPACE[name] for name in names},
            "python_comparisons": tuple(map(_make_comparison, RICH_COMPARISONS)),
            "numpy_comparisons": tuple(map(_make_numpy_comparison, RICH_COMPARISONS)),
            "ops": {name: (TABLE[name], TABLE.code_of(TABLE[name])) for name in known},
            "max_tape_bytes": MAX_TAPE_ROWS * STRIDE,
            "max_passes": MAX_REMEMBERED_PASSES,
        }
    )
    RECORDED_IN_C.update(TABLE[name] for name in known)
    RECORDER.connect_rules(find_rules)


SlopeSteps = tuple[tuple[float, ...], tuple[tuple[str, int, int], ...], int]
"""A derivative rule as steps: constants, the ops that it records with their operands, and which operand is the slope.

An operand is the number of an input, or one of those below; -1 if there is none.
"""
OUTPUT_OPERAND = 2
FIRST_CONSTANT = 3
FIRST_RESULT = 9


def find_rules(op: Elementwise) -> tuple[SlopeSteps | tuple[()] | None, ...]:
    """Return the derivative rule of each input of an op, for sweeps in C; None for a rule that is not arithmetic alone.

    A rule that lets nothing flow is empty.

    >>> find_rules(TABLE["square"])
    (((2.0,), (('multiply', 3, 0),), 9),)
    """
    return tuple([_find_steps(op, slot) for slot in range(len(op.inputs))])


def _find_steps(op: Elementwise, slot: int) -> SlopeSteps | tuple[()] | None:
    builder = GraphBuilder(finite=False)
    ports = [builder.input(name) for name in op.inputs]
    slope = op.local(slot, ports, builder.input("y"), 0)
    if slope is None:
        return ()
    if type(slope) is MaskedFlow:
        return None
    circuit = builder.build(labels={"slope": slope if hasattr(slope, "builder") else builder.constant(slope)})
    constants: list[float] = []
    steps: list[tuple[str, int, int]] = []
    operands: list[int] = [*range(len(op.inputs)), OUTPUT_OPERAND]
    for row in circuit.rows():
        if row.op is CONSTANT:
            operands.append(FIRST_CONSTANT + len(constants))
            constants.append(float(np.asarray(circuit.constant_of(row.node))))
        elif row.op is not INPUT:
            if row.op not in RECORDED_IN_C:
                return None
            read = [operands[source] for source in row.sources]
            operands.append(FIRST_RESULT + len(steps))
            steps.append((row.op.name, read[0], read[1] if len(read) > 1 else -1))
    return tuple(constants), tuple(steps), operands[circuit.columns.outputs[0]]


install_scalars()


MAX_EXACT_INT = 2**53
"""Up to this number float64 represents every whole number exactly."""
RESULT_BOUNDS: dict[str, Callable[[int, int], int]] = {"+": operator.add, "-": operator.add, "*": operator.mul}
"""Bound of the absolute result of an operator, given the bounds of its operands."""
BITWISE_NAMES = {"&": "and", "|": "or", "^": "xor"}
"""Python's names of the bitwise operators, which conditions have."""
SHIFT_NAMES = {"<<": "lshift", ">>": "rshift"}


def is_whole_number(operand: object) -> bool:
    """Return whether an operand is a Python bool or int, or would be one without recording."""
    return type(operand) is PythonInt or type(operand) is bool or type(operand) is int


def as_int(operand: Any) -> Any:
    """Return a Python bool or int, traced or not, as an int."""
    if not isinstance(operand, PythonInt):
        return int(operand)
    if operand._data.dtype.kind != "b":
        return operand
    return as_python_number(record_op(TABLE["cast"].bind({"dtype": "int64"}), (operand,)))


def bound_of(operand: Any) -> int:
    """Return the bound of the absolute value of a Python bool or int, traced or not."""
    return operand.bound if isinstance(operand, PythonInt) else abs(operand)


def compute_whole(spelling: str, a: Any, b: Any) -> Any:
    """Apply an operator to two Python bools or ints, at least one of them traced."""
    op = TABLE.infix[spelling]
    if spelling in RESULT_BOUNDS:
        bound = RESULT_BOUNDS[spelling](bound_of(a), bound_of(b))
        if max(bound, bound_of(a), bound_of(b)) <= MAX_EXACT_INT:
            return as_python_number(record_op(op, (as_int(a), as_int(b))), bound)
    if spelling == "/" and type(b) in (int, bool) and 0 < abs(b) <= MAX_EXACT_INT:
        return as_python_number(record_op(op, (as_int(a), int(b))))
    return _compute_in_python(ARITHMETIC_METHODS[spelling], a, b)


def _compute_in_python(name: str, *operands: object) -> Any:
    """Let Python apply an operator to plain numbers; traced operands are certified."""
    return getattr(operator, f"__{name}__")(*map(make_concrete, operands))


def _real_part(self: Value) -> Any:
    return as_int(self) if isinstance(self, PythonInt) else self


def _imaginary_part(self: Value) -> Any:
    return 0 if isinstance(self, PythonInt) else 0.0


def _make_arithmetic(spelling: str, *, reflected: bool) -> Callable[[Any, Any], Any]:
    op = TABLE.infix[spelling]

    def method(self: Value, other: object) -> Any:
        a, b = (other, self) if reflected else (self, other)
        if is_whole_number(a) and is_whole_number(b):
            return compute_whole(spelling, a, b)
        if isinstance(self, PythonInt):
            if not is_numeric_operand(other):
                return NotImplemented
            if self._data.dtype.kind == "i" and getattr(other, "dtype", None) == np.float32:
                # A Python int does not change the dtype of a float32, a node of int64 would.
                a, b = (other, make_concrete(self)) if reflected else (make_concrete(self), other)
        result = record_op(op, (a, b))
        return as_python_number(result) if is_python_number(other) else result

    return method


def _make_numpy_arithmetic(spelling: str, *, reflected: bool) -> Callable[[Any, Any], Any]:
    """Return an operator of NumPy's discrete values; with a list or text, Python decides what it means."""
    op = TABLE.infix[spelling]
    name = ARITHMETIC_METHODS[spelling]

    def method(self: DiscreteValue, other: object) -> Any:
        a, b = (other, self) if reflected else (self, other)
        if isinstance(other, list | tuple | str) and not self.shape:
            return getattr(operator, name)(make_concrete(a), make_concrete(b))
        return record_op(op, (a, b))

    return method


def _make_traced_comparison(spelling: str) -> Callable[[Any, Any], Any]:
    op = TABLE.infix[spelling]

    def method(self: Value, other: object) -> Any:
        if LAST_LOOKUP and spelling == "==":
            refuse_lookup(self, other)
        if not is_numeric_operand(other):
            return NotImplemented
        if type(other) is int and abs(other) > MAX_EXACT_INT and float(other) != other:
            raise OperandError(f"a traced number is compared with {other}, which no float64 equals{format_user_line()}")
        result = record_op(op, (self, other))
        return as_python_number(result) if is_python_number(other) else result

    return method


def _make_sign(spelling: str) -> Callable[[Any], Any]:
    op = TABLE.prefix[spelling]

    def method(self: Value) -> Any:
        if isinstance(self, PythonInt):
            return as_python_number(record_op(op, (as_int(self),)), self.bound)
        return as_python_number(record_op(op, (self,)))

    return method


def _absolute_value(self: Value) -> Any:
    if isinstance(self, PythonInt):
        return as_python_number(record_op(TABLE["absolute"], (as_int(self),)), self.bound)
    return as_python_number(record_op(TABLE["absolute"], (self,)))


def _invert_python(self: PythonInt) -> Any:
    return as_python_number(record_op(TABLE["subtract"], (-1, as_int(self))), self.bound + 1)


def _invert_discrete(self: DiscreteValue) -> Any:
    return record_op(TABLE["logical_not"], (self,)) if _is_condition(self) else _compute_in_python("invert", self)


def _is_condition(operand: object) -> bool:
    return type(operand) is bool or getattr(operand, "dtype", None) == np.bool_


def _make_bitwise(spelling: str, *, reflected: bool) -> Callable[[Any, Any], Any]:
    op = TABLE[{"&": "logical_and", "|": "logical_or", "^": "not_equal"}[spelling]]
    name = BITWISE_NAMES[spelling]

    def method(self: DiscreteValue, other: object) -> Any:
        if not is_numeric_operand(other):
            return NotImplemented
        a, b = (other, self) if reflected else (self, other)
        if _is_condition(a) and _is_condition(b):
            result = record_op(op, (a, b))
            return as_python_number(result) if is_python_number(a) and is_python_number(b) else result
        return _compute_in_python(name, a, b)

    return method


def _make_shift(name: str, *, reflected: bool) -> Callable[[Any, Any], Any]:
    def method(self: DiscreteValue, other: object) -> Any:
        return _compute_in_python(name, other, self) if reflected else _compute_in_python(name, self, other)

    return method


def _divide_by_other(self: Value, other: object) -> tuple[Any, Any]:
    return _compute_divmod(self, other)


def _divide_other(self: Value, other: object) -> tuple[Any, Any]:
    return _compute_divmod(other, self)


def _compute_divmod(a: Any, b: Any) -> tuple[Any, Any]:
    """Return quotient and remainder; as Python numbers if both operands are."""
    if is_whole_number(a) and is_whole_number(b):
        quotient, remainder = divmod(make_concrete(a), make_concrete(b))
        return quotient, remainder
    quotient, remainder = np.divmod(a, b)
    if is_python_number(a) and is_python_number(b):
        return as_python_number(quotient), as_python_number(remainder)
    return quotient, remainder


def _round_number(self: Any, digits: int | None = None) -> Any:
    if isinstance(self, DiscreteValue):
        return round(make_concrete(self), digits)
    rounded = np.round(self, 0 if digits is None else digits)
    return as_python_number(rounded) if is_python_number(self) else rounded


def _plain_attribute(self: DiscreteValue, name: str) -> Any:
    """Return an attribute of the plain object, for a name that values do not have."""
    kind = plain_class(self)
    if name.startswith("_") or not hasattr(kind, name):
        raise AttributeError(f"{kind.__name__!r} object has no attribute {name!r}")
    return getattr(make_concrete(self), name)


def _as_index(self: DiscreteValue) -> int:
    frame = find_user_frame()
    if type(self) is PythonInt and _is_condition(self) and (frame is None or not counts_as_int(frame)):
        # After this error NumPy converts the index to an array, and so sees a condition.
        raise AmbiguousIndexError(
            "a recorded condition is used as an index; a list would read it as 0 or 1, an array as a mask: write "
            f"items[int(condition)], or assign the indexed object to a variable{format_user_line()}"
        )
    return operator.index(make_concrete(self))


def _plain_text(self: DiscreteValue) -> str:
    return str(make_concrete(self))


def _plain_repr(self: DiscreteValue) -> str:
    return repr(make_concrete(self))


def _plain_format(self: DiscreteValue, spec: str) -> str:
    return format(make_concrete(self), spec)


def install_traced_numbers() -> None:
    """Give traced numbers their operators."""
    kinds = {PythonFloat: _make_arithmetic, PythonInt: _make_arithmetic, DiscreteValue: _make_numpy_arithmetic}
    for owner, arithmetic in kinds.items():
        for spelling, name in ARITHMETIC_METHODS.items():
            setattr(owner, f"__{name}__", arithmetic(spelling, reflected=False))
            setattr(owner, f"__r{name}__", arithmetic(spelling, reflected=True))
    _install_python_operators()
    _install_number_methods()
    _install_discrete_operators()


def _install_python_operators() -> None:
    """Give traced Python numbers their comparisons and signs."""
    for kind in (PythonFloat, PythonInt):
        for spelling, name in COMPARISON_METHODS.items():
            setattr(kind, f"__{name}__", _make_traced_comparison(spelling))
        for spelling, name in SIGN_METHODS.items():
            setattr(kind, f"__{name}__", _make_sign(spelling))
        setattr(kind, "__abs__", _absolute_value)  # noqa: B010 - what is typed is Value's
        kind.__hash__ = Value.__hash__  # type: ignore[method-assign]


def _install_number_methods() -> None:
    """Give traced numbers `divmod`, `round`, and the parts of a complex number."""
    methods = {"divmod": _divide_by_other, "rdivmod": _divide_other, "round": _round_number}
    for name, method in methods.items():
        for number in (Scalar, PythonFloat, DiscreteValue):
            setattr(number, f"__{name}__", method)
    parts = {
        "real": property(_real_part),
        "imag": property(_imaginary_part),
        "conjugate": _real_part,
        "conj": _real_part,
    }
    for name, part in parts.items():
        for python in (Scalar, PythonFloat, PythonInt):
            setattr(python, name, part)


def _install_discrete_operators() -> None:
    """Give traced conditions and whole numbers their bitwise operators, and the text of the plain object."""
    for spelling, name in BITWISE_NAMES.items():
        setattr(DiscreteValue, f"__{name}__", _make_bitwise(spelling, reflected=False))
        setattr(DiscreteValue, f"__r{name}__", _make_bitwise(spelling, reflected=True))
    for name in SHIFT_NAMES.values():
        setattr(DiscreteValue, f"__{name}__", _make_shift(name, reflected=False))
        setattr(DiscreteValue, f"__r{name}__", _make_shift(name, reflected=True))
    others: dict[str, Any] = {
        "__invert__": _invert_discrete,
        "__index__": _as_index,
        "__str__": _plain_text,
        "__repr__": _plain_repr,
        "__format__": _plain_format,
        "__getattr__": _plain_attribute,
    }
    for name, method in others.items():
        setattr(DiscreteValue, name, method)
    setattr(PythonInt, "__invert__", _invert_python)  # noqa: B010 - what is typed is Value's


install_traced_numbers()
