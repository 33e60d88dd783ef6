"""A circuit's value and gradient as an engineer writes them by hand: three-address code, for C and for LLVM.

Unlike wiregrad's own listings it takes nothing for absent: what a relu stops goes on as zeros. That leaves no branches,
so compilers can turn a loop over points into vectors. It knows the ops of the workloads, and their values are finite.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from wiregrad.ir import CONSTANT, INPUT, Circuit

CALLS = ("tanh", "exp", "sin", "cos", "sqrt")
BETWEEN = {"add": ("+", "fadd"), "subtract": ("-", "fsub"), "multiply": ("*", "fmul"), "divide": ("/", "fdiv")}
"""Arithmetic in C, and LLVM's instruction."""


class Step(NamedTuple):
    """One line: a new number, the op that makes it, and what it reads."""

    name: str
    op: str
    operands: tuple[str, ...]


@dataclass
class Tape:
    """The lines of a circuit: values forward, then gradients backward."""

    inputs: list[str]
    value: str
    steps: list[Step] = field(default_factory=list)
    gradient: list[str] = field(default_factory=list)

    def make(self, op: str, *operands: str) -> str:
        """Add a line and return the name of its number."""
        self.steps.append(Step(f"t{len(self.steps)}", op, operands))
        return self.steps[-1].name


def tape(circuit: Circuit) -> Tape:
    """Return the lines of a circuit's value and gradient.

    >>> import wiregrad as wg
    >>> [f"{step.name} = {step.op} {' '.join(step.operands)}" for step in tape(wg.circuit("sin(x)")).steps]
    ['t0 = sin x0', 't1 = cos x0', 't2 = multiply 1.0 t1']
    """
    inputs = circuit.input_indices()
    found = Tape([f"x{k}" for k in range(len(inputs))], "")
    names = dict(zip(inputs, found.inputs, strict=True))
    rows = [row for row in circuit.rows() if row.op is not INPUT]
    for row in rows:
        if row.op is CONSTANT:
            names[row.node] = repr(float(circuit.constant_of(row.node)))
        else:
            names[row.node] = found.make(row.op.name, *(names[source] for source in row.sources))
    found.value = names[circuit.root()]
    arrived = {circuit.root(): "1.0"}
    for row in reversed(rows):
        if row.op is CONSTANT or row.node not in arrived:
            continue
        for slot, source in enumerate(row.sources):
            if circuit.op_of(source) is CONSTANT:
                continue
            operands = [names[k] for k in row.sources]
            sent = SLOPES[row.op.name][slot](found, arrived[row.node], names[row.node], *operands)
            arrived[source] = found.make("add", arrived[source], sent) if source in arrived else sent
    found.gradient = [arrived.get(node, "0.0") for node in inputs]
    return found


def _same(t: Tape, g: str, y: str, *operands: str) -> str:
    return g


def _square_less(t: Tape, g: str, y: str, x: str) -> str:
    return t.make("multiply", g, t.make("subtract", "1.0", t.make("multiply", y, y)))


SLOPES: dict[str, tuple[Callable[..., str], ...]] = {
    "add": (_same, _same),
    "subtract": (_same, lambda t, g, y, a, b: t.make("subtract", "0.0", g)),
    "multiply": (lambda t, g, y, a, b: t.make("multiply", g, b), lambda t, g, y, a, b: t.make("multiply", g, a)),
    "divide": (
        lambda t, g, y, a, b: t.make("divide", g, b),
        lambda t, g, y, a, b: t.make("subtract", "0.0", t.make("multiply", g, t.make("divide", y, b))),
    ),
    "tanh": (_square_less,),
    "exp": (lambda t, g, y, x: t.make("multiply", g, y),),
    "sin": (lambda t, g, y, x: t.make("multiply", g, t.make("cos", x)),),
    "relu": (lambda t, g, y, x: t.make("multiply", g, t.make("step", x)),),
    "sqrt": (lambda t, g, y, x: t.make("divide", t.make("multiply", g, "0.5"), y),),
}
"""What each op sends back along each wire."""


def c_batch(circuit: Circuit) -> str:
    """Return C that gcc turns into vectors: one loop over points, whose numbers stand in columns.

    >>> import wiregrad as wg
    >>> "const double t0 = x0 * x1;" in c_batch(wg.circuit("a * b"))
    True
    """
    found = tape(circuit)
    lines = [f"const double x{k} = x[{k} * n + i];" for k in range(len(found.inputs))]
    lines += [f"const double {step.name} = {_c(step)};" for step in found.steps]
    lines += [f"y[i] = {found.value};"]
    lines += [f"grad[{k} * n + i] = {name};" for k, name in enumerate(found.gradient)]
    return "\n".join(
        [
            "#include <math.h>",
            # Taken for themselves, sin and cos have vector forms; gcc would join them to sincos, which has none.
            *(f"double {name}(double) __attribute__((const));" for name in ("sin", "cos")),
            "void batch(long n, const double *restrict x, double *restrict y, double *restrict grad) {",
            "#pragma GCC ivdep",
            "for (long i = 0; i < n; i++) {",
            *lines,
            "}\n}\n",
        ]
    )


def _c(step: Step) -> str:
    a, b = step.operands[0], step.operands[-1]
    if step.op in BETWEEN:
        return f"{a} {BETWEEN[step.op][0]} {b}"
    return {"relu": f"fmax({a}, 0.0)", "step": f"(double)({a} > 0.0)"}.get(step.op) or f"{step.op}({a})"


def llvm_loop(circuit: Circuit, addresses: Callable[[str], int]) -> str:
    """Return LLVM's text of the whole circuit as one function, and of a loop that repeats it: `loop(n, x, y)`."""
    found = tape(circuit)
    lines = list[str]()
    for k, name in enumerate(found.inputs):
        lines += [f"%p{k} = getelementptr double, ptr %x, i64 {k}", f"%{name} = load double, ptr %p{k}"]
    for step in found.steps:
        lines += _llvm(step, addresses)
    for k, name in enumerate([found.value, *found.gradient]):
        lines += [f"%q{k} = getelementptr double, ptr %y, i64 {k}", f"store double {_read(name)}, ptr %q{k}"]
    head, arguments = "define void @value_and_grad(ptr %x, ptr %y) noinline {", "ptr %x, ptr %y"
    return "\n".join([head, *lines, "ret void", "}", repeated("value_and_grad", arguments)])


def repeated(name: str, arguments: str) -> str:
    """Return LLVM's text of `loop`, which calls a function so many times with the same arguments."""
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


def _llvm(step: Step, addresses: Callable[[str], int]) -> Sequence[str]:
    name, operands = step.name, [_read(operand) for operand in step.operands]
    a, b = operands[0], operands[-1]
    if step.op in BETWEEN:
        return [f"%{name} = {BETWEEN[step.op][1]} double {a}, {b}"]
    if step.op in ("relu", "step"):
        made = a if step.op == "relu" else "1.0"
        return [f"%c{name} = fcmp ogt double {a}, 0.0", f"%{name} = select i1 %c{name}, double {made}, double 0.0"]
    return [f"%{name} = call double inttoptr (i64 {addresses(step.op)} to ptr)(double {a}) memory(none) nounwind"]


def _read(name: str) -> str:
    # LLVM reads a number exactly when it is written as its bits.
    return f"%{name}" if name[0] in "tx" else f"0x{struct.pack('>d', float(name)).hex()}"
