"""A compiled circuit: the circuit as an object that people call, in native code where that can be had.

Answers, their types, and errors are those of `circuit(...)` and `circuit.run(...)`. Where there is no native code (an
op or type it has none for, llvmlite missing, executable memory forbidden) the interpreter answers, and `info` says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from wiregrad.backends.answering import Answers, Engine, Interpreted, by_name
from wiregrad.backends.native import batch, calls, machine, tiers
from wiregrad.backends.native.program import Program, build
from wiregrad.dtypes import WireType, counted, plain
from wiregrad.errors import DomainError, InputError, NoRuleError, NotNativeError, OperandError, WiregradError, shown
from wiregrad.ir import Circuit, verify
from wiregrad.passes import gradient_circuit, prune

REALS = ("float64", "float32")
"""The types that a circuit can be compiled for."""
INTERPRETER = "interpreter"


@dataclass(frozen=True, repr=False)
class Info:
    """What became of a circuit that was compiled: how large it is, who answers, and what that took so far."""

    nodes: int
    inputs: int
    outputs: int
    dtype: str
    tier: str
    """`stencils`, `llvm` or `interpreter`."""
    reason: str
    """Why the interpreter answers; empty if it does not."""
    code_bytes: int
    working_bytes: int
    compile_seconds: float
    stencil_seconds: float
    """The part of it that made stencils, which later circuits use too."""
    calls: int

    def lines(self) -> Iterator[str]:
        """Return what there is to say, line by line."""
        ends = f"{counted(self.inputs, 'input')}, {counted(self.outputs, 'output')}"
        yield f"{counted(self.nodes, 'node')}, {ends}, {self.dtype}; {counted(self.calls, 'call')}"
        if self.tier == INTERPRETER:
            yield f"  the interpreter answers: {self.reason}"
        else:
            yield f"  native code ({self.tier}): {self.code_bytes:,} bytes of code, {self.working_bytes:,} of memory"
            made = f", {_time(self.stencil_seconds)} of it for stencils" if self.stencil_seconds else ""
            yield f"  compiled in {_time(self.compile_seconds)}{made}"

    def __str__(self) -> str:
        return "\n".join(self.lines())

    __repr__ = __str__


def _time(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"


class Compiled:
    """A circuit to be called: with inputs by name, or with one vector in their order.

    Made by `circuit.compile()`. Any number of threads may call it.

    >>> from wiregrad.ir import parse_text
    >>> compiled = Compiled(parse_text("input a, b\\ny = multiply a b\\noutput y"))
    >>> compiled(a=2.0, b=3.0), compiled.value_and_grad(a=2.0, b=3.0)
    (6.0, (6.0, {'a': 3.0, 'b': 2.0}))
    >>> compiled.value_and_grad([2.0, 3.0])
    (6.0, array([3., 2.]))
    """

    def __init__(self, circuit: Circuit, dtype: Any = None) -> None:
        self.circuit = circuit
        self._names, self._labels = circuit.inputs, circuit.outputs
        self.dtype = _real_of(circuit, dtype)
        """The type that is computed in."""
        self._own = circuit if dtype is None else retyped(circuit, self.dtype)
        self._engines: list[Engine] = []
        self._vectors: list[Program] = []
        self._reason = ""
        # What most programs ask for is made now, so that the first call is like the others.
        kinds = [circuit.type_of(node) for node in circuit.columns.outputs.tolist()]
        _ = self._gradient if len(kinds) == 1 and not kinds[0].shape else self._value

    def __call__(self, /, *vector: Any, **inputs: Any) -> Any:
        """Compute the output (a dict of them if there are several)."""
        return self.value(*vector, **inputs)

    @cached_property
    def value(self) -> Callable[..., Any]:
        """The function behind a call of this object: `compiled.value(x)` is `compiled(x)`, a little sooner."""
        return self._function("value", self._value)

    @cached_property
    def value_and_grad(self) -> Callable[..., tuple[Any, Any]]:
        """The function that computes the only output and its gradient: a dict by name, or a vector.

        >>> from wiregrad.ir import parse_text
        >>> Compiled(parse_text("input x\\ny = tanh x\\noutput y")).value_and_grad(x=0.0)
        (0.0, {'x': 1.0})
        """
        return self._function("value_and_grad", self._gradient)

    def jacobian(self, /, *vector: Any, **inputs: Any) -> Any:
        """Return the gradient of every output: a row each, or dicts by name.

        >>> from wiregrad.ir import parse_text
        >>> compiled = Compiled(parse_text("input a, b\\np = multiply a b\\ns = add a b\\noutput p, s"))
        >>> compiled.jacobian([2.0, 3.0]).tolist(), compiled.jacobian(a=2.0, b=3.0)["p"]
        ([[3.0, 2.0], [1.0, 1.0]], {'a': 3.0, 'b': 2.0})
        """
        return self._table(self._jacobian, self._labels, vector, inputs)

    def hessian(self, /, *vector: Any, **inputs: Any) -> Any:
        """Return the second derivatives of the only output: a square array, or dicts by name.

        >>> from wiregrad.ir import parse_text
        >>> Compiled(parse_text("input x\\ny = multiply x x\\noutput y")).hessian(x=3.0)
        {'x': {'x': 2.0}}
        """
        return self._table(self._hessian, self._names, vector, inputs)

    def batch(self, points: Any, *, threads: int | None = None) -> NDArray[Any]:
        """Return the output at many points, a row of `points` each; several outputs stand side by side.

        As many threads are used as can run, or at most `threads`; the answers are the same.

        >>> from wiregrad.ir import parse_text
        >>> Compiled(parse_text("input a, b\\ny = multiply a b\\noutput y")).batch([[2.0, 3.0], [4.0, 5.0]])
        array([ 6., 20.])
        """
        self._check_scalar("batch", "wg.vmap")
        _check_threads(threads)
        checked, program = self._value.points(points), self._value_lanes
        if program is not None:
            values, _ = batch.run(program, checked, gradient=False, threads=threads)
        else:
            values = np.empty((len(checked), len(self._labels)), self.dtype)
            for row, point in zip(values, checked, strict=True):
                row[:] = self._value.engine.values(point)
        found = values.astype(np.bool_) if self._conditions() else values
        return found[:, 0] if len(self._labels) == 1 else found

    def batch_value_and_grad(self, points: Any, *, threads: int | None = None) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the only output at many points, and its gradient there, a row each.

        >>> from wiregrad.ir import parse_text
        >>> compiled = Compiled(parse_text("input a, b\\ny = multiply a b\\noutput y"))
        >>> compiled.batch_value_and_grad([[2.0, 3.0], [4.0, 5.0]])[1].tolist()
        [[3.0, 2.0], [5.0, 4.0]]
        """
        self._check_scalar("batch_value_and_grad", "wg.vmap")
        _check_threads(threads)
        checked, program = self._gradient.points(points), self._gradient_lanes
        if program is not None:
            values, grads = batch.run(program, checked, gradient=True, threads=threads)
            assert grads is not None
        else:
            values, grads = np.empty((len(checked), 1), self.dtype), np.empty(checked.shape, self.dtype)
            for k, point in enumerate(checked):
                values[k], grads[k] = self._gradient.engine.gradient(point)
        return (values.astype(np.bool_) if self._conditions() else values)[:, 0], grads

    @property
    def info(self) -> Info:
        """What was compiled, who answers, and what it took: nodes, tier, bytes of code, seconds.

        >>> from wiregrad.ir import parse_text
        >>> Compiled(parse_text("input x\\ny = tanh x\\noutput y")).info.nodes
        1
        """
        entries = [engine for engine in self._engines if isinstance(engine, calls.Entry)]
        programs = [*(entry.program for entry in entries), *self._vectors]
        inputs, nodes, _ = self.circuit.count()
        return Info(
            nodes=nodes,
            inputs=inputs,
            outputs=len(self._labels),
            dtype=self.dtype.name,
            tier=INTERPRETER if self._reason else entries[0].program.tier,
            reason=self._reason,
            code_bytes=sum(program.code_bytes for program in programs),
            working_bytes=sum(program.initial.nbytes for program in programs),
            compile_seconds=sum(program.seconds for program in programs),
            stencil_seconds=sum(program.stencil_seconds for program in programs),
            calls=sum(engine.calls for engine in self._engines),
        )

    def __repr__(self) -> str:
        return f"Compiled({self.circuit!r}, {self.info.tier})"

    def __reduce__(self) -> NoReturn:
        raise OperandError(
            "a compiled circuit cannot be pickled or copied: its code lives in this process; pickle its circuit, and "
            "compile it where it is needed"
        )

    @cached_property
    def _value(self) -> Answers:
        return Answers(self.circuit, self._engine(self._own, None), self.dtype)

    @cached_property
    def _gradient(self) -> Answers:
        self.circuit.root()
        return Answers(self.circuit, self._engine(self._own, 0), self.dtype)

    @cached_property
    def _jacobian(self) -> list[Engine]:
        self._check_scalar("jacobian", "wg.jacobian")
        if len(self._labels) == 1:
            return [self._gradient.engine]
        return self._rows(self._own, self._own.outputs)

    @cached_property
    def _hessian(self) -> list[Engine]:
        self._check_scalar("hessian", "wg.hessian")
        backward = gradient_circuit(self._own)
        return self._rows(backward, backward.outputs[1:])

    def _rows(self, circuit: Circuit, labels: Sequence[str]) -> list[Engine]:
        """Return what computes the gradient of each of some outputs."""
        return [self._engine(prune(circuit.with_output(label)), 0) for label in labels]

    def _table(
        self, rows: Sequence[Engine], names: Sequence[str], vector: Sequence[Any], inputs: Mapping[str, Any]
    ) -> Any:
        """Return a gradient for each row: an array, or dicts by name if the inputs came so."""
        point = (self._gradient if len(self._labels) == 1 else self._value).point(vector, inputs)
        found = [row.gradient(point)[1] for row in rows]
        if not by_name(vector, inputs):
            return np.array(found, self.dtype)
        return {
            name: dict(zip(self._names, map(plain, row), strict=True)) for name, row in zip(names, found, strict=True)
        }

    def _engine(self, circuit: Circuit, gradient: int | None) -> Engine:
        """Return what computes a circuit: native code, or the interpreter with the reason why."""
        program = self._built(circuit, gradient)
        engine: Engine = Interpreted(circuit)
        if program is not None:
            engine = calls.Entry(program, circuit.inputs, circuit.outputs)
            tiers.watch(engine)
        self._engines.append(engine)
        return engine

    @cached_property
    def _value_lanes(self) -> Program | None:
        return self._in_lanes(None)

    @cached_property
    def _gradient_lanes(self) -> Program | None:
        return self._in_lanes(0)

    def _in_lanes(self, gradient: int | None) -> Program | None:
        """Return the program for many points at a time, None where there is none."""
        program = self._built(self._own, gradient, many=True)
        self._vectors += [] if program is None else [program]
        return program

    def _built(self, circuit: Circuit, gradient: int | None, many: bool = False) -> Program | None:
        """Return a program; None, with the reason kept, where there is none."""
        try:
            machine.check_switch()
            return build(circuit, gradient, lanes=batch.lanes_for(self.dtype) if many else 1)
        except NotNativeError as error:
            self._reason = str(error)
            return None

    def _function(self, kind: str, answers: Answers) -> Callable[..., Any]:
        """Return a function to call: a builtin where there is native code for it."""
        complete: Callable[..., Any] = getattr(answers, kind)
        if not isinstance(answers.engine, calls.Entry) or not answers.real:
            return complete
        try:
            return calls.builtin(kind, answers.engine, complete)
        except NotNativeError:
            # A Python whose objects native code does not know: only the call is slower.
            return complete

    def _conditions(self) -> bool:
        """Return whether all outputs are conditions."""
        outputs = self.circuit.columns.outputs.tolist()
        return all(self.circuit.type_of(node).dtype.kind == "b" for node in outputs)

    def _check_scalar(self, question: str, instead: str) -> None:
        for node in (*self.circuit.input_indices(), *self.circuit.columns.outputs.tolist()):
            kind = self.circuit.type_of(node)
            if kind.shape:
                name = self.circuit.name_of(node)
                raise NoRuleError(f"{question} is for circuits of numbers; {name} is {kind}: use {instead}")


def _check_threads(threads: Any) -> None:
    if threads is not None and (type(threads) is not int or threads < 1):
        raise InputError(f"threads is a whole number, at least 1, or None for as many as can run; got {shown(threads)}")


def _real_of(circuit: Circuit, dtype: Any) -> np.dtype[Any]:
    """Return the type to compute in: the one that is asked for, or else the one that the circuit has."""
    if dtype is None:
        kinds = {circuit.columns.type_table[k].dtype for k in np.unique(circuit.columns.types).tolist()}
        return np.dtype(REALS[1] if kinds & {*map(np.dtype, REALS)} == {np.dtype(REALS[1])} else REALS[0])
    try:
        found: np.dtype[Any] = np.dtype(dtype)
    except TypeError:
        found = np.dtype(object)
    if found.name not in REALS:
        raise DomainError(f"a circuit can be compiled for {' or '.join(REALS)}; got {shown(dtype)}")
    return found


def retyped(circuit: Circuit, real: np.dtype[Any]) -> Circuit:
    """Return a circuit with all real numbers in one type.

    >>> from wiregrad.ir import parse_text
    >>> small = retyped(parse_text("input x\\ny = exp x\\noutput y"), np.dtype("float32"))
    >>> str(small.type_of(1))
    'float32'
    """
    columns = circuit.columns
    table = tuple(WireType(real, kind.shape) if kind.dtype.kind == "f" else kind for kind in columns.type_table)
    with np.errstate(over="ignore"):
        constants = tuple(_in_type(value, real) for value in columns.constants)
    try:
        return verify(type(circuit)(replace(columns, type_table=table, constants=constants)))
    except WiregradError as error:
        raise DomainError(f"the circuit cannot be computed in {real} alone: {error}") from None


def _in_type(value: Any, real: np.dtype[Any]) -> Any:
    return np.asarray(value, real)[()] if np.asarray(value).dtype.kind == "f" else value
