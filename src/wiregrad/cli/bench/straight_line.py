"""A circuit's value and gradient as an engineer would write them by hand: three-address code, in C and in LLVM IR.

Unlike wiregrad's own listings it has no absent gradients: what a relu blocks goes on as zeros. That leaves no branches,
so that compilers can vectorize a loop over points. It supports the ops of the workloads, whose values are finite.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from wiregrad.ir import CONSTANT, INPUT, CircuitGraph

MATH_CALLS = ("tanh", "exp", "sin", "cos", "sqrt")
INFIX_SPELLINGS = {"add": ("+", "fadd"), "subtract": ("-", "fsub"), "multiply": ("*", "fmul"), "divide": ("/", "fdiv")}
"""The operator in C and the instruction in LLVM of each op."""


class CodeLine(NamedTuple):
    """One line of code: a new number, the op that computes it, and its operands."""

    name: str
    op: str
    operands: tuple[str, ...]


@dataclass
class StraightLineCode:
    """Straight-line code of a circuit: values forward, then gradients backward."""

    inputs: list[str]
    value: str
    steps: list[CodeLine] = field(default_factory=list)
    gradient: list[str] = field(default_factory=list)

    def make(self, op: str, *operands: str) -> str:
        """Add a line and return the name of its number."""
        self.steps.append(CodeLine(f"t{len(self.steps)}", op, operands))
        return self.steps[-1].name


def write_straight_line(circuit: CircuitGraph) -> StraightLineCode:
    """Write a circuit's value and gradient as straight-line code.

    >>> import wiregrad as wg
    >>> steps = write_straight_line(wg.circuit("sin(x)")).steps
    >>> [f"{step.name} = {step.op} {' '.join(step.operands)}" for step in steps]
    ['t0 = sin x0', 't1 = cos x0', 't2 = multiply 1.0 t1']
    """
    inputs = circuit.input_indices()
    code = StraightLineCode([f"x{k}" for k in range(len(inputs))], "")
    names = dict(zip(inputs, code.inputs, strict=True))
    constants = circuit.constants()
    rows = [row for row in circuit.rows() if row.op is not INPUT]
    for row in rows:
        if row.op is CONSTANT:
            names[row.node] = repr(float(constants[row.node].item()))
        else:
            names[row.node] = code.make(row.op.name, *(names[source] for source in row.sources))
    code.value = names[circuit.root()]
    arrived = {circuit.root(): "1.0"}
    for row in reversed(rows):
        if row.op is CONSTANT or row.node not in arrived:
            continue
        for slot, source in enumerate(row.sources):
            if circuit.op_of(source) is CONSTANT:
                continue
            operands = [names[k] for k in row.sources]
            sent = GRADIENT_RULES[row.op.name][slot](code, arrived[row.node], names[row.node], *operands)
            arrived[source] = code.make("add", arrived[source], sent) if source in arrived else sent
    code.gradient = [arrived.get(node, "0.0") for node in inputs]
    return code


def _pass_unchanged(t: StraightLineCode, g: str, y: str, *operands: str) -> str:
    return g


def _tanh_gradient(t: StraightLineCode, g: str, y: str, x: str) -> str:
    return t.make("multiply", g, t.make("subtract", "1.0", t.make("multiply", y, y)))


GRADIENT_RULES: dict[str, tuple[Callable[..., str], ...]] = {
    "add": (_pass_unchanged, _pass_unchanged),
    "subtract": (_pass_unchanged, lambda t, g, y, a, b: t.make("subtract", "0.0", g)),
    "multiply": (lambda t, g, y, a, b: t.make("multiply", g, b), lambda t, g, y, a, b: t.make("multiply", g, a)),
    "divide": (
        lambda t, g, y, a, b: t.make("divide", g, b),
        lambda t, g, y, a, b: t.make("subtract", "0.0", t.make("multiply", g, t.make("divide", y, b))),
    ),
    "tanh": (_tanh_gradient,),
    "exp": (lambda t, g, y, x: t.make("multiply", g, y),),
    "sin": (lambda t, g, y, x: t.make("multiply", g, t.make("cos", x)),),
    "relu": (lambda t, g, y, x: t.make("multiply", g, t.make("step", x)),),
    "sqrt": (lambda t, g, y, x: t.make("divide", t.make("multiply", g, "0.5"), y),),
}
"""The gradient that each op sends back along each wire."""


def write_c_batch(circuit: CircuitGraph) -> str:
    """Write C that gcc can vectorize: one loop over points, which are stored in columns.

    >>> import wiregrad as wg
    >>> "const double t0 = x0 * x1;" in write_c_batch(wg.circuit("a * b"))
    True
    """
    code = write_straight_line(circuit)
    lines = [f"const double x{k} = x[{k} * n + i];" for k in range(len(code.inputs))]
    lines += [f"const double {step.name} = {_write_c_line(step)};" for step in code.steps]
    lines += [f"y[i] = {code.value};"]
    lines += [f"grad[{k} * n + i] = {name};" for k, name in enumerate(code.gradient)]
    return "\n".join(
        [
            "#include <math.h>",
            # Separately, sin and cos have vector forms; gcc would join them to sincos, which has none.
            *(f"double {name}(double) __attribute__((const));" for name in ("sin", "cos")),
            "void batch(long n, const double *restrict x, double *restrict y, double *restrict grad) {",
            "#pragma GCC ivdep",
            "for (long i = 0; i < n; i++) {",
            *lines,
            "}\n}\n",
        ]
    )


def _write_c_line(step: CodeLine) -> str:
    a = step.operands[0]
    b = step.operands[-1]
    if step.op in INFIX_SPELLINGS:
        return f"{a} {INFIX_SPELLINGS[step.op][0]} {b}"
    return {"relu": f"fmax({a}, 0.0)", "step": f"(double)({a} > 0.0)"}.get(step.op) or f"{step.op}({a})"


def write_llvm_loop(circuit: CircuitGraph, addresses: Callable[[str], int]) -> str:
    """Write the whole circuit as one function in LLVM IR, with a loop that repeats it: `loop(n, x, y)`."""
    code = write_straight_line(circuit)
    lines: list[str] = []
    for k, name in enumerate(code.inputs):
        lines += [f"%p{k} = getelementptr double, ptr %x, i64 {k}", f"%{name} = load double, ptr %p{k}"]
    for step in code.steps:
        lines += _write_llvm_line(step, addresses)
    for k, name in enumerate([code.value, *code.gradient]):
        lines += [
            f"%q{k} = getelementptr double, ptr %y, i64 {k}",
            f"store double {_write_llvm_operand(name)}, ptr %q{k}",
        ]
    arguments = "ptr %x, ptr %y"
    head = f"define void @value_and_grad({arguments}) noinline {{"
    return "\n".join([head, *lines, "ret void", "}", write_repeat_loop("value_and_grad", arguments)])


def write_repeat_loop(name: str, arguments: str) -> str:
    """Write `loop` in LLVM IR, which calls a function n times with the same arguments."""
    return f"""define void @loop(i64 %n, {arguments}) {{
entry:
  br label %again
again:
  %k = phi i64 [0, %entry], [%next, %again]
  call void @{name}({arguments})
  %next = add i64 %k, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %again, label %done
done:
  ret void
}}"""


def _write_llvm_line(step: CodeLine, addresses: Callable[[str], int]) -> Sequence[str]:
    name = step.name
    a = _write_llvm_operand(step.operands[0])
    b = _write_llvm_operand(step.operands[-1])
    if step.op in INFIX_SPELLINGS:
        return [f"%{name} = {INFIX_SPELLINGS[step.op][1]} double {a}, {b}"]
    if step.op in ("relu", "step"):
        chosen = a if step.op == "relu" else "1.0"
        return [f"%c{name} = fcmp ogt double {a}, 0.0", f"%{name} = select i1 %c{name}, double {chosen}, double 0.0"]
    return [f"%{name} = call double inttoptr (i64 {addresses(step.op)} to ptr)(double {a}) memory(none) nounwind"]


def _write_llvm_operand(name: str) -> str:
    # Numbers are written as their bits, which LLVM reads exactly.
    return f"%{name}" if name[0] in "tx" else f"0x{struct.pack('>d', float(name)).hex()}"
