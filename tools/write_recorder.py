"""Write the op bodies of the C recorder, `recorder/op_bodies.h`, from the op table: `make derive`.

A body computes the value and the slopes of one op on numbers. It is the Python text of the same op (see
`wiregrad.frontends.recording.scalar`), translated expression by expression. So both recorders compute the same bits,
and where Python would raise (1/0, log(-1)), a body reports it, and the caller takes the same general path.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from wiregrad.frontends.recording.scalar import SlopeCode, is_quick, python_text_of
from wiregrad.ir import TABLE
from wiregrad.ir.columns import Convention, encode_mode, has_kinks
from wiregrad.ir.op import ARITHMETIC_METHODS, SIGN_METHODS
from wiregrad.ops import Elementwise

TARGET = Path(__file__).parents[1] / "recorder" / "op_bodies.h"
HEAD = """\
/* Written by tools/write_recorder.py from the op table; `make derive` writes it again. */
"""
BODY = """
static inline int {name}(double {a}, double {b}, Outcome *outcome)
{{
    int raised = 0;
{lines}
    outcome->y = y;
    outcome->p = {p};
    outcome->q = {q};
    outcome->blocked = {blocked};
    return raised;
}}
"""
METHOD = """
static PyObject *method_{name}(PyObject *self, PyObject *Py_UNUSED(unused))
{{
    return record_unary(&OPS[{k}], {name}_of_values, {has_kinks}, self);
}}
"""
SIGN = """
static PyObject *operator_{python}(PyObject *self)
{{
    return record_unary(&OPS[{k}], {name}_of_values, {has_kinks}, self);
}}
"""
OPERATOR = """
static PyObject *operator_{python}(PyObject *one, PyObject *two{modulus})
{{
{check}    return record_binary(&OPS[{k}], {name}_of_values, {name}_of_literal_second, {name}_of_literal_first,
                         {has_kinks}, one, two);
}}
"""
MODULUS_CHECK = """\
    if (modulus != Py_None)
        Py_RETURN_NOTIMPLEMENTED;
"""
SLOT_NAMES = {
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "true_divide",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "pow": "power",
    "neg": "negative",
    "pos": "positive",
    "abs": "absolute",
}
"""What Python's C interface calls a special method, where it is not the name of the method."""
BINARY_SIGNS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}
BINARY_HELPERS = {ast.Div: "divide", ast.FloorDiv: "floor_divide", ast.Mod: "remain"}
COMPARISON_SIGNS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
NAMED_NUMBERS = {"inf": "INFINITY", "nan": "NAN"}


class Translator:
    """Translates Python expressions on floats to C; remembers which variables are conditions."""

    def __init__(self) -> None:
        self.conditions = set[str]()

    def translate(self, text: str) -> str:
        """Return an expression in C."""
        return self._write(ast.parse(text.strip(), mode="eval").body)

    def translate_line(self, line: str) -> str:
        """Return an assignment in C, as a declaration."""
        name, text = line.split(" = ", 1)
        body = ast.parse(text, mode="eval").body
        if self._is_condition(body):
            self.conditions.add(name)
            return f"    const int {name} = {self._write(body)};"
        return f"    const double {name} = {self._write(body)};"

    def _is_condition(self, tree: ast.expr) -> bool:
        match tree:
            case ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
                return True
            case ast.Constant(value=bool()):
                return True
            case ast.IfExp(body=body):
                return self._is_condition(body)
            case ast.Name(id=name):
                return name in self.conditions
        return False

    def _write(self, tree: ast.expr) -> str:
        match tree:
            case ast.Constant(value=float() | bool() as number):
                text = repr(number if isinstance(number, float) else int(number))
            case ast.Name(id=name):
                text = NAMED_NUMBERS.get(name, name)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                text = f"(-{self._write(operand)})"
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                text = f"(!{self._write(operand)})"
            case ast.BinOp(left=left, op=sign, right=right):
                text = self._write_binary(left, sign, right)
            case ast.Compare(left=left, ops=[sign], comparators=[right]):
                text = f"({self._write(left)} {COMPARISON_SIGNS[type(sign)]} {self._write(right)})"
            case ast.BoolOp(op=ast.And(), values=values):
                text = f"({' && '.join(map(self._write, values))})"
            case ast.BoolOp(values=values):
                text = f"({' || '.join(map(self._write, values))})"
            case ast.IfExp(test=test, body=yes, orelse=no):
                text = f"({self._write(test)} ? {self._write(yes)} : {self._write(no)})"
            case ast.Call(func=ast.Name(id=name), args=[argument]):
                text = f"python_{name}({self._write(argument)}, &raised)"
            case ast.Call(func=ast.Attribute(attr=name), args=arguments):
                text = f"math_{name}({', '.join(map(self._write, arguments))}, &raised)"
            case _:
                raise NotImplementedError(ast.unparse(tree))
        return text

    def _write_binary(self, left: ast.expr, sign: ast.operator, right: ast.expr) -> str:
        helper = BINARY_HELPERS.get(type(sign))
        if helper is not None:
            return f"python_{helper}({self._write(left)}, {self._write(right)}, &raised)"
        return f"({self._write(left)} {BINARY_SIGNS[type(sign)]} {self._write(right)})"


def write_body(op: Elementwise, name: str, slopes: SlopeCode) -> str:
    """Return the C function of an op for some of its inputs; the others are literals, stored in place of a slope."""
    translator = Translator()
    forward = python_text_of(op).format(**{letter: letter for letter in op.inputs})
    lines = [f"    const double y = {translator.translate(forward)};"]
    lines += [translator.translate_line(line) for line in slopes.lines]
    stored = [slopes.names.get(slot, letter) for slot, letter in enumerate(op.inputs)]
    bits = [f"({translator.translate(mask)} ? 0 : {1 << slot})" for slot, mask in slopes.conditions.items()]
    letters = [*op.inputs, "unused"][:2]
    return BODY.format(
        name=name,
        a=letters[0],
        b=letters[1],
        lines="\n".join(lines),
        p=stored[0],
        q=stored[1] if len(stored) > 1 else "0.0",
        blocked=" | ".join(bits) or "0",
    )


def write_op(op: Elementwise, k: int) -> tuple[list[str], str] | None:
    """Return the bodies of an op and its row of the table; None if it cannot be written."""
    slots = list(range(len(op.inputs)))
    variants: list[tuple[str, int, list[int]]] = [("values", 0, slots)]
    if len(slots) == 2:
        modes = [encode_mode(Convention.MIN_NORM, [slot]) if op.kinks else 0 for slot in slots]
        variants += [("literal_second", modes[1], [0]), ("literal_first", modes[0], [1])]
    bodies = []
    for suffix, mode, moving in variants:
        slopes = SlopeCode.from_op(op, mode, moving)
        if slopes is None:
            return None
        bodies.append(write_body(op, f"{op.name}_of_{suffix}", slopes))
    names = [f"{op.name}_of_{suffix}" for suffix, _, _ in variants]
    names += ["NULL"] * (3 - len(names))
    method = f"method_{op.name}" if len(slots) == 1 else "NULL"
    fields = [f'"{op.name}"', str(len(slots)), str(int(has_kinks(op))), *names, method]
    return bodies, f"    {{{', '.join(fields)}, NULL, 0}},"


def write_op_bodies() -> str:
    """Return the whole file."""
    written: list[tuple[Elementwise, list[str], str]] = []
    for op in TABLE:
        if isinstance(op, Elementwise) and is_quick(op) and TABLE[op.name] is op:
            parts = write_op(op, len(written))
            if parts is not None:
                written.append((op, *parts))
    places = {op: k for k, (op, _, _) in enumerate(written)}
    text = [HEAD, *(body for _, bodies, _ in written for body in bodies)]
    text.append("\nstatic ScalarOp OPS[];\n".replace("OPS[]", f"OPS[{len(written)}]"))
    text += [METHOD.format(**_describe_op(op, k)) for op, k in places.items() if len(op.inputs) == 1]
    text += _write_operators(places)
    rows = "\n".join(row for _, _, row in written)
    text.append(f"\nstatic ScalarOp OPS[{len(written)}] = {{\n{rows}\n}};\n")
    return "".join(text)


def _write_operators(places: dict[Elementwise, int]) -> list[str]:
    """Return the functions behind Python's operators, and the list of slots that they fill."""
    text = []
    slots = []
    for spelling, python in ARITHMETIC_METHODS.items():
        op = _find_operator(TABLE.infix[spelling])
        is_power = python == "pow"
        text.append(
            OPERATOR.format(
                python=python,
                **_describe_op(op, places[op]),
                modulus=", PyObject *modulus" if is_power else "",
                check=MODULUS_CHECK if is_power else "",
            )
        )
        slot = SLOT_NAMES.get(python, python)
        slots += [f"    {{Py_nb_{slot}, operator_{python}}},", f"    {{Py_nb_inplace_{slot}, operator_{python}}},"]
    signs: list[tuple[Any, str]] = [(TABLE.prefix[sign], python) for sign, python in SIGN_METHODS.items()]
    for sign, python in [*signs, (TABLE["absolute"], "abs")]:
        op = _find_operator(sign)
        text.append(SIGN.format(python=python, **_describe_op(op, places[op])))
        slots.append(f"    {{Py_nb_{SLOT_NAMES.get(python, python)}, operator_{python}}},")
    joined = " \\\n".join(slots)
    return [*text, f"\n#define OPERATOR_SLOTS \\\n{joined}\n"]


def _describe_op(op: Elementwise, k: int) -> dict[str, Any]:
    """Return the words of the templates that say which op a function records."""
    return {"name": op.name, "k": k, "has_kinks": int(has_kinks(op))}


def _find_operator(op: Any) -> Elementwise:
    assert isinstance(op, Elementwise)
    return op


def main() -> None:
    """Write the file."""
    TARGET.write_text(write_op_bodies(), encoding="utf-8")


if __name__ == "__main__":
    main()
