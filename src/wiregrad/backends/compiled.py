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

from wiregrad.backends import interpreter
from wiregrad.backends.answering import Answers, Engine, Interpreted, by_name
from wiregrad.backends.native import batch, calls, machine, tiers
from wiregrad.backends.native.program import Program, build
from wiregrad.dtypes import WireType, counted, plain
from wiregrad.errors import (
    BranchError,
    DomainError,
    InputError,
    NoRuleError,
    NotNativeError,
    OperandError,
    WiregradError,
    shown,
)
from wiregrad.ir import Circuit, certificates, verify
from wiregrad.passes import gradient_circuit, prune

REALS = ("float64", "float32")
"""The types that a circuit can be compiled for."""
INTERPRETER = "interpreter"
MARK = "mark"
"""What `check` is where points at which a branch flips are to be marked."""


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

    def __init__(self, circuit: Circuit, dtype: Any = None, *, check: bool = True) -> None:
        if not isinstance(check, bool):
            raise InputError(f"check is True or False; got {shown(check)}")
        self._is_checked, self._asked = check or not circuit.certificates, dtype
        self.circuit = circuit if check else prune(circuit.unchecked())
        circuit = self.circuit
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

    def batch(self, points: Any, *, threads: int | None = None, check: bool | str = True) -> NDArray[Any]:
        """Return the output at many points, a row of `points` each; several outputs stand side by side.

        As many threads are used as can run, or at most `threads`; the answers are the same. Where a traced function
        would go another way, `BranchError` says so; with `check="mark"` the answer there is NaN instead, and with
        `check=False` that of the way that was traced.

        >>> from wiregrad.ir import parse_text
        >>> Compiled(parse_text("input a, b\\ny = multiply a b\\noutput y")).batch([[2.0, 3.0], [4.0, 5.0]])
        array([ 6., 20.])
        """
        self._check_scalar("batch", "wg.vmap")
        _check_threads(threads)
        mark = self._marks(check)
        if mark is None:
            return self._unchecked.batch(points, threads=threads)
        found = self._answer_rows(points, threads, gradient=False, mark=mark)
        values = found.values.astype(np.bool_) if self._conditions() else found.values
        return values[:, 0] if len(self._labels) == 1 else values

    def batch_value_and_grad(
        self, points: Any, *, threads: int | None = None, check: bool | str = True
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the only output at many points, and its gradient there, a row each; `check` is that of `batch`.

        >>> from wiregrad.ir import parse_text
        >>> compiled = Compiled(parse_text("input a, b\\ny = multiply a b\\noutput y"))
        >>> compiled.batch_value_and_grad([[2.0, 3.0], [4.0, 5.0]])[1].tolist()
        [[3.0, 2.0], [5.0, 4.0]]
        """
        self._check_scalar("batch_value_and_grad", "wg.vmap")
        _check_threads(threads)
        mark = self._marks(check)
        if mark is None:
            return self._unchecked.batch_value_and_grad(points, threads=threads)
        found = self._answer_rows(points, threads, gradient=True, mark=mark)
        assert found.grads is not None
        return (found.values.astype(np.bool_) if self._conditions() else found.values)[:, 0], found.grads

    def holds(self, points: Any, *, threads: int | None = None) -> NDArray[np.bool_]:
        """Return at which points a traced function goes the way that was traced, so that the circuit is the function.

        >>> import wiregrad as wg
        >>> traced = wg.trace(lambda x: x * x if x < 1.0 else x, 0.5)
        >>> traced.compile().holds([[0.25], [3.0]]).tolist()
        [True, False]
        """
        self._check_scalar("holds", "wg.vmap")
        _check_threads(threads)
        return ~self._answer_rows(points, threads, gradient=False, mark=True).flipped

    def _marks(self, check: Any) -> bool | None:
        """Return whether points where a branch flips are marked (else they raise); None if nothing is checked."""
        if not isinstance(check, bool) and check != MARK:
            raise InputError(f'check is True, False or "{MARK}"; got {shown(check)}')
        if not self.circuit.certificates:
            if check == MARK and not self._is_checked:
                raise InputError(f'this circuit was compiled with check=False, so check="{MARK}" has nothing to go by')
            return False
        if check == MARK and self._conditions():
            raise InputError("conditions have no NaN to mark a point with; ask compiled.holds(points)")
        return None if check is False else check == MARK

    def _answer_rows(self, points: Any, threads: int | None, *, gradient: bool, mark: bool) -> Rows:
        """Return the answers at many points, a row each; NaN where a branch flips, or else raise there."""
        answers, program = (self._gradient, self._gradient_lanes) if gradient else (self._value, self._value_lanes)
        given = answers.points(points)
        if program is None:
            rows = Rows.empty(len(given), len(self._labels), given.shape[1] if gradient else None, self.dtype)
            left = np.arange(len(given))
        else:
            outputs, grads = batch.run(program, given, gradient=gradient, threads=threads)
            rows = Rows(outputs[:, : len(self._labels)], grads, np.zeros(len(given), np.bool_))
            left = self._doubtful_rows(outputs)
            if mark:
                # NumPy agrees at most of them, all at once; the others are looked at one by one.
                flips = self._flips(given[left])
                rows.mark(left[flips])
                left = left[~flips]
        for row in left.tolist():
            try:
                rows.put(row, answers.engine, given[row])
            except BranchError as error:
                if not mark:
                    raise BranchError(f"at point {row}: {error}", place=error.place) from None
                rows.mark(row)
        return rows

    def _doubtful_rows(self, outputs: NDArray[Any]) -> NDArray[np.intp]:
        """Return the rows in which native code finds that a certificate does not hold."""
        checks = self._checks_of(self._own)
        return np.flatnonzero(checks.fail(outputs)) if checks is not None else np.arange(0)

    def _flips(self, points: NDArray[Any]) -> NDArray[np.bool_]:
        """Return at which points NumPy finds that a certificate does not hold."""
        found = np.zeros(len(points), np.bool_)
        if self._own.certificates and len(points):
            values = interpreter.evaluate(self._own, list(points.T))
            for certificate in certificates.distinct(self._own):
                wanted = certificates.expected(self._own, certificate)
                found |= ~certificates.agree_each(values[certificate.node], wanted)
        return found

    @cached_property
    def _unchecked(self) -> Compiled:
        return Compiled(self.circuit, self._asked, check=False)

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
            engine = calls.Entry(program, circuit.inputs, circuit.outputs, self._checks_of(circuit))
            tiers.watch(engine)
        self._engines.append(engine)
        return engine

    def _checks_of(self, circuit: Circuit) -> calls.Checks | None:
        """Return what the certificates of a circuit want of native code; the interpreter has the last word."""
        if not circuit.certificates:
            return None
        expected = np.array([float(value) for value in certificates.checked(circuit).expected()], self.dtype)
        return calls.Checks(expected, Interpreted(circuit))

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
            whole = certificates.checked(circuit).circuit if circuit.certificates else circuit
            return build(whole, gradient, lanes=batch.lanes_for(self.dtype) if many else 1)
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


@dataclass(frozen=True)
class Rows:
    """Answers at many points, a row each, and where they are none because a branch flips."""

    values: NDArray[Any]
    grads: NDArray[Any] | None
    flipped: NDArray[np.bool_]

    @classmethod
    def empty(cls, count: int, outputs: int, inputs: int | None, dtype: np.dtype[Any]) -> Rows:
        """Return room for answers; without a number of inputs there is none for gradients."""
        grads = None if inputs is None else np.empty((count, inputs), dtype)
        return cls(np.empty((count, outputs), dtype), grads, np.zeros(count, np.bool_))

    def put(self, row: int, engine: Engine, point: Any) -> None:
        """Have one row answered by an engine."""
        if self.grads is None:
            self.values[row] = engine.values(point)
        else:
            self.values[row], self.grads[row] = engine.gradient(point)

    def mark(self, rows: Any) -> None:
        """Make rows NaN."""
        self.flipped[rows] = True
        self.values[rows] = np.nan
        if self.grads is not None:
            self.grads[rows] = np.nan


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
