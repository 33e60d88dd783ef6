"""A compiled circuit: a callable object that runs native code where possible, and the interpreter elsewhere.

`Compiled` is what `circuit.compile()` returns. A `CallHandler` checks the arguments of a call and gives the results
back in the form in which the inputs came; a `CircuitEngine` (the interpreter's, or the native one of
`native.builtin_calls`) computes them. Arguments, results and errors are those of `circuit(...)` and `circuit.run(...)`.
Where there is no native code (an op or type without it, llvmlite missing, executable memory forbidden) the interpreter
runs, and `info` says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, Self, Unpack

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from wiregrad import settings
from wiregrad.backends import interpreter
from wiregrad.backends.native import batch, builtin_calls, jit, tiers
from wiregrad.backends.native.builtin_calls import NumberSequence
from wiregrad.backends.native.tiers import NativeProgram, build_program
from wiregrad.codegen import check_assumption
from wiregrad.dtypes import WireType, count_with_noun, to_python_number
from wiregrad.errors import (
    GRADIENT_HABITS,
    BranchError,
    DomainError,
    InputError,
    NoRuleError,
    NotNativeError,
    OperandError,
    ShapeError,
    WiregradError,
    add_missing_names,
    short_repr,
)
from wiregrad.ir import CircuitGraph, certificates, join_first_names, verify
from wiregrad.lazy import NamedTuple, load_module_lazily
from wiregrad.passes import backward_circuit, jacobian_circuit, prune, simplify, simplify_finite

if TYPE_CHECKING:
    from wiregrad import files
    from wiregrad.backends import executors
    from wiregrad.backends.executors import FileProgram, StreamOptions
    from wiregrad.backends.native_arrays import array_program
else:
    # Batches in this process do not need these.
    executors = load_module_lazily("wiregrad.backends.executors")
    files = load_module_lazily("wiregrad.files")
    # Circuits of scalars do not need it.
    array_program = load_module_lazily("wiregrad.backends.native_arrays.array_program")

ORDINARY_NUMBER_TYPES = frozenset([float, int, np.float64, np.float32, np.int64, np.int32])
"""Number types that are converted to float without further checks."""


class CircuitEngine(Protocol):
    """Computes a circuit at a point whose values were already checked."""

    @property
    def calls(self) -> int:
        """The number of calls so far."""

    def compute_values(self, point: NumberSequence) -> NumberSequence:
        """Return the outputs."""

    def compute_gradient(self, point: NumberSequence) -> tuple[Any, NumberSequence]:
        """Return the only output, and its gradient by every input."""


class InterpreterEngine:
    """An engine that computes a circuit with the interpreter.

    >>> from wiregrad.ir import parse_text
    >>> InterpreterEngine(parse_text("input x\\ny = multiply x x\\noutput y")).compute_gradient([3.0])
    (np.float64(9.0), [np.float64(6.0)])
    """

    def __init__(self, circuit: CircuitGraph) -> None:
        self.circuit = circuit
        self.calls = 0
        self._types = [circuit.type_of(node) for node in circuit.input_indices()]

    def compute_values(self, point: NumberSequence) -> Sequence[Any]:
        """Return the outputs."""
        self.calls += 1
        return list(interpreter.evaluate_outputs(self.circuit, self._cast_point(point)).values())

    def compute_gradient(self, point: NumberSequence) -> tuple[Any, Sequence[Any]]:
        """Return the only output, and its gradient by every input."""
        self.calls += 1
        run = interpreter.run_circuit(self.circuit, self._cast_point(point))
        return run.values[self.circuit.root()], [run.gradient(node) for node in self.circuit.input_indices()]

    def _cast_point(self, point: NumberSequence) -> list[Any]:
        with np.errstate(over="ignore"):
            return [np.asarray(x, kind.dtype)[()] for x, kind in zip(point, self._types, strict=True)]


class EngineBuilder:
    """Builds the engines of a circuit: native code where possible, else the interpreter."""

    def __init__(self, circuit: CircuitGraph, dtype: np.dtype[Any], *, finite: bool = False) -> None:
        self.circuit = circuit
        self.dtype = dtype
        self.finite = finite
        """Whether gradients need to be right only where no number is infinite or NaN."""
        self.reason = ""
        """Why there is no native code; empty if there is."""
        self.engines: list[CircuitEngine] = []
        """The engines built so far."""
        self._array_engines: list[array_program.ArrayEngine] = []
        self._lane_programs: dict[bool, NativeProgram | None] = {}

    def build_engine(self, circuit: CircuitGraph, gradient: int | None, *, finite: bool = True) -> CircuitEngine:
        """Return an engine for outputs; with `gradient`, also for the gradient of the output with that index.

        Without `finite`, no number is assumed to be finite.
        """
        program = self._try_to_build(circuit, gradient, finite=finite)
        engine: CircuitEngine = InterpreterEngine(circuit)
        if program is not None:
            engine = builtin_calls.NativeEngine(program, circuit.inputs, circuit.outputs, self.make_checks(circuit))
            tiers.promote_when_hot(engine)
        elif circuit.columns.has_arrays():
            engine = self._build_array_engine(circuit, gradient) or engine
        self.engines.append(engine)
        return engine

    def _build_array_engine(self, circuit: CircuitGraph, gradient: int | None) -> CircuitEngine | None:
        """Return an engine for a circuit on arrays; None, with the reason stored, if there is no native code."""
        if gradient is not None and circuit.type_of(circuit.root()).shape:
            # A gradient needs a scalar output; the interpreter says so when it is asked for.
            self.reason = ""
            return None
        try:
            fallback = InterpreterEngine(circuit)
            engine = array_program.ArrayEngine(circuit, gradient=gradient is not None, fallback=fallback)
        except NotNativeError as error:
            self.reason = str(error)
            return None
        self.reason = ""
        self._array_engines.append(engine)
        return engine

    def list_array_programs(self) -> list[array_program.ArrayProgramFacts]:
        """Return the facts of the array programs built so far."""
        return [engine.facts for engine in self._array_engines]

    def build_table(self, circuit: CircuitGraph, *, finite: bool = True) -> DerivativeTable:
        """Return what computes the derivatives of all outputs; `finite` is that of `build_engine`."""
        engine = self._build_table_engine(circuit, finite=finite)
        if engine is not None:
            return DerivativeTable([engine], engine)
        parts = [prune(circuit.with_output(label)) for label in circuit.outputs]
        return DerivativeTable([self.build_engine(part, 0, finite=finite) for part in parts], None)

    def _build_table_engine(self, circuit: CircuitGraph, *, finite: bool) -> builtin_calls.NativeEngine | None:
        """Return one engine for all derivatives, which computes the outputs once; None if the rows need their own."""
        count = len(circuit.outputs)
        if count == 1 or circuit.certificates or circuit.size * count > MAX_TABLE_NODES:
            return None
        assumes_finite = finite and self.finite and circuit.columns.has_finite_constants()
        try:
            table = (simplify_finite if assumes_finite else simplify)(jacobian_circuit(circuit))
        except (WiregradError, TypeError, ValueError):
            return None
        program = self._try_to_build(table, None, finite=finite)
        if program is None:
            return None
        shape = (count, len(circuit.inputs))
        engine = builtin_calls.NativeEngine(program, circuit.inputs, table.outputs, shape=shape)
        tiers.promote_when_hot(engine)
        self.engines.append(engine)
        return engine

    def make_checks(self, circuit: CircuitGraph) -> builtin_calls.OutputChecks | None:
        """Return the checks of a circuit's certificates in native code; where one fails, the interpreter decides."""
        if not circuit.certificates:
            return None
        values = certificates.add_check_outputs(circuit).expected_values()
        expected = np.array([float(value) for value in values], self.dtype)
        return builtin_calls.OutputChecks(expected, InterpreterEngine(circuit))

    def get_lane_program(self, *, gradient: bool) -> NativeProgram | None:
        """Return the program for vectors of points, built at its first use; None if there is no native code."""
        if gradient not in self._lane_programs:
            self._lane_programs[gradient] = self._try_to_build(self.circuit, 0 if gradient else None, many=True)
        return self._lane_programs[gradient]

    def list_programs(self) -> list[NativeProgram]:
        """Return the native programs built so far."""
        entries = [engine for engine in self.engines if isinstance(engine, builtin_calls.NativeEngine)]
        lane_programs = [program for program in self._lane_programs.values() if program is not None]
        return [*(entry.program for entry in entries), *lane_programs]

    def _try_to_build(
        self, circuit: CircuitGraph, gradient: int | None, *, many: bool = False, finite: bool = True
    ) -> NativeProgram | None:
        """Return a native program; None, with the reason stored, if there is none."""
        try:
            jit.check_native_enabled()
            checked = certificates.add_check_outputs(circuit).circuit if circuit.certificates else circuit
            lanes = batch.count_lanes(self.dtype) if many else 1
            assumes_finite = finite and self.finite and circuit.columns.has_finite_constants()
            return build_program(checked, gradient, lanes=lanes, finite=assumes_finite)
        except NotNativeError as error:
            self.reason = str(error)
            return None


MAX_TABLE_NODES = 20_000
"""Maximum number of nodes, times outputs, of a circuit whose derivatives are one circuit: writing it takes a while."""


class DerivativeTable(NamedTuple):
    """Computes all derivatives of several outputs at a point."""

    engines: Sequence[CircuitEngine]
    """One for the gradient of each output, or one whose outputs are all derivatives."""
    whole: builtin_calls.NativeEngine | None
    """The latter, if there is one."""

    def compute(self, point: NumberSequence) -> Sequence[NumberSequence]:
        """Return the gradient of each output."""
        if self.whole is None:
            return [engine.compute_gradient(point)[1] for engine in self.engines]
        rows: NDArray[Any] = self.whole.compute_values(point).reshape(-1, self.whole.program.inputs)
        return list(rows)


class CallHandler:
    """Checks the arguments of a call, has an engine compute, and returns the results in the form of the arguments."""

    def __init__(
        self,
        circuit: CircuitGraph,
        engine: CircuitEngine,
        real: np.dtype[Any],
        computed: CircuitGraph | None = None,
        point: Mapping[str, Any] | None = None,
    ) -> None:
        """Take a circuit, its engine, and the circuit that the engine computes if that has other types.

        Inputs that are left out of a call have their values in `point`.
        """
        self.engine = engine
        self._point = point
        self._circuit = circuit
        self._computed = circuit if computed is None else computed
        self._real = real
        self._names = circuit.inputs
        self._labels = circuit.outputs
        inputs = [circuit.type_of(node) for node in circuit.input_indices()]
        outputs = [circuit.type_of(node) for node in circuit.columns.outputs.tolist()]
        self._has_arrays = circuit.columns.has_arrays()
        self.scalar = not any(kind.shape for kind in inputs)
        """Whether every input is a scalar, so that a point is one vector."""
        self._reals = self.scalar and all(kind.dtype.kind == "f" for kind in inputs)
        self._conditions = [kind.dtype.kind == "b" and not kind.shape for kind in outputs]
        self.real = self._reals and all(kind.dtype.kind == "f" for kind in outputs)
        """Whether all inputs and outputs are real scalars, which native builtins handle."""

    def value(self, /, *vector: object, **inputs: object) -> Any:
        """Return the output, or a dict of them if there are several."""
        out = self._pop_out(inputs)
        point = self.bind_point(vector, inputs)
        if out is None:
            outputs = self._format_outputs(self.engine.compute_values(point))
        else:
            is_single = len(self._labels) == 1
            kinds = [self._computed.type_of(node) for node in self._computed.columns.outputs.tolist()]
            arrays = bind_out([out] if is_single else out, self._labels, kinds, list_arguments(vector, inputs))
            outputs = self._format_outputs(self._compute_values_into(point, arrays))
        return outputs[0] if len(outputs) == 1 else dict(zip(self._labels, outputs, strict=True))

    def value_and_grad(self, /, *vector: object, **inputs: object) -> tuple[Any, Any]:
        """Return the output, and its gradient in the form of the inputs: by name, as a vector, or one by one."""
        out = self._pop_out(inputs)
        point = self.bind_point(vector, inputs)
        if out is None:
            value, grads = self.engine.compute_gradient(point)
        else:
            is_single = len(self._names) == 1 and not is_call_by_name(vector, inputs)
            types = [self._computed.type_of(node) for node in self._computed.input_indices()]
            kinds = [kind if kind.differentiable else WireType(np.dtype(float), kind.shape) for kind in types]
            arrays = bind_out([out] if is_single else out, self._names, kinds, list_arguments(vector, inputs))
            value, grads = self._compute_gradient_into(point, arrays)
        return self._format_outputs([value])[0], self._format_gradient(grads, vector, inputs)

    def _pop_out(self, inputs: dict[str, Any]) -> Any:
        """Take `out` from the inputs by name; an input that is called `out` is meant first."""
        is_option = "out" in inputs and "out" not in self._names and self._has_arrays
        return inputs.pop("out") if is_option else None

    def _compute_values_into(self, point: NumberSequence, out: Sequence[NDArray[Any] | None]) -> list[Any]:
        if isinstance(self.engine, array_program.ArrayEngine):
            values = self.engine.compute_values(point, out)
        else:
            values = self.engine.compute_values(point)
        return copy_into(values, out)

    def _compute_gradient_into(
        self, point: NumberSequence, out: Sequence[NDArray[Any] | None]
    ) -> tuple[Any, list[Any]]:
        if isinstance(self.engine, array_program.ArrayEngine):
            value, grads = self.engine.compute_gradient(point, out)
        else:
            value, grads = self.engine.compute_gradient(point)
        return value, copy_into(grads, out)

    def bind_point(self, vector: Sequence[Any], inputs: Mapping[str, Any]) -> Sequence[Any]:
        """Return a value for every input; raise `InputError` if one is missing, unknown or not a number."""
        is_scalar = isinstance(self.engine, InterpreterEngine | builtin_calls.NativeEngine)
        if not is_scalar and isinstance(self.engine, array_program.ArrayEngine):
            arrays = self.engine.bind_arrays(vector, inputs)
            if arrays is not None:
                return arrays
        numbers = self._bind_ordinary_numbers(vector, inputs) if self._reals else None
        return interpreter.bind_inputs(self._circuit, vector, inputs, self._point) if numbers is None else numbers

    def _bind_ordinary_numbers(self, vector: Sequence[Any], inputs: Mapping[str, Any]) -> Sequence[Any] | None:
        """Return the point if all inputs are ordinary numbers, ten times faster than `bind_inputs`; else None."""
        numbers: Any = vector[0] if len(vector) == 1 and not inputs else None
        if _is_real_vector(numbers, len(self._names)):
            with np.errstate(over="ignore"):
                array: Sequence[Any] = numbers.astype(self._real)
            return array
        if not vector and len(inputs) == len(self._names):
            numbers = [inputs.get(name) for name in self._names]
        if (
            type(numbers) not in (list, tuple)
            or len(numbers) != len(self._names)
            or not ORDINARY_NUMBER_TYPES.issuperset(map(type, numbers))
        ):
            return None
        try:
            return [*map(float, numbers)]
        except OverflowError:
            return None

    def bind_points(self, points: object) -> NDArray[Any]:
        """Return many points, one per row, in the type that is computed in; raise if they are not numbers."""
        array = self.check_rows(points)
        if not self._reals:
            for column, kind in zip(array.T, self._input_kinds(), strict=True):
                if kind == "b" and not np.isin(column, (0, 1)).all():
                    raise InputError("a condition among the inputs must be true or false, or 1 or 0, at every point")
        with np.errstate(over="ignore"):
            return np.ascontiguousarray(array, self._real)

    def check_rows(self, points: object) -> NDArray[Any]:
        """Return points as an array; raise unless they are rows of numbers."""
        wanted = f"expected one row of {len(self._names)} numbers ({join_first_names(self._names)}) per point"
        if isinstance(points, str | bytes) or not hasattr(points, "__len__") or isinstance(points, Mapping):
            raise InputError(f"{wanted}; got {type(points).__name__} {short_repr(points)}")
        try:
            array = np.asarray(points)
        except ValueError:
            raise InputError(f"{wanted}; got rows of different lengths") from None
        if array.ndim != 2 or array.shape[1] != len(self._names):
            one = "; for one point write [point]" if array.shape == (len(self._names),) else ""
            raise InputError(f"{wanted}; got shape {array.shape}{one}")
        if array.dtype.kind in "fiu" and array.dtype.itemsize <= 8:
            return array
        # Other types are checked number by number, as in a call with one point.
        rows = [self.bind_point([list(row)], {}) for row in array]
        return np.array(rows, np.float64).reshape(array.shape)

    def _input_kinds(self) -> list[str]:
        return [self._circuit.type_of(node).dtype.kind for node in self._circuit.input_indices()]

    def _format_outputs(self, values: NumberSequence) -> list[Any]:
        """Return outputs as Python objects; native code returns conditions as 0 and 1."""
        pairs = zip(values, self._conditions, strict=True)
        return [bool(value) if condition else to_python_number(value) for value, condition in pairs]

    def _format_gradient(self, grads: NumberSequence, vector: Sequence[Any], inputs: Mapping[str, Any]) -> Any:
        if is_call_by_name(vector, inputs):
            return dict(zip(self._names, map(to_python_number, grads), strict=True))
        if self.scalar:
            return np.array(grads, self._real)
        return grads[0] if len(vector) == 1 else tuple(grads[: len(vector)])


def bind_out(
    out: object, names: Sequence[str], kinds: Sequence[WireType], arguments: Sequence[Any]
) -> list[NDArray[Any] | None]:
    """Return the array of `out` for each name, or None; raise if results of these types cannot be written there.

    `out` is a mapping by name, or has an array or None for each name in order.
    """
    if isinstance(out, Mapping):
        unknown = [name for name in out if name not in names]
        if unknown:
            raise InputError(f"out= has {short_repr(unknown[0])}; the results are {join_first_names(names)}")
        given = [out.get(name) for name in names]
    elif isinstance(out, list | tuple) and len(out) == len(names):
        given = list(out)
    else:
        wanted = count_with_noun(len(names), "array")
        raise InputError(
            f"out= takes {wanted} in the order of {join_first_names(names)}, or by name; got {_describe_out(out)}"
        )
    arrays = [_check_out_array(array, name, kind) for array, name, kind in zip(given, names, kinds, strict=True)]
    others = [x for x in arguments if isinstance(x, np.ndarray)]
    for number, array in enumerate(arrays):
        later = [other for other in arrays[number + 1 :] if other is not None]
        if array is not None and any(np.may_share_memory(array, other) for other in (*later, *others)):
            raise OperandError(
                f"the array of out= for {names[number]} shares memory with an argument or another array of out="
            )
    return arrays


def list_arguments(vector: Sequence[Any], inputs: Mapping[str, Any]) -> list[Any]:
    """Return the arguments of a call as they were given."""
    given = [*vector, *inputs.values()]
    return [x for each in given for x in (each.values() if isinstance(each, Mapping) else [each])]


def _describe_out(out: object) -> str:
    """Return what was given as `out` for a message."""
    return count_with_noun(len(out), "element") if isinstance(out, list | tuple) else type(out).__name__


def _check_out_array(array: object, name: str, kind: WireType) -> NDArray[Any] | None:
    """Return an array if a result of this type can be written there; None if there is none."""
    if array is None:
        return None
    if not kind.shape:
        raise OperandError(f"the result for {name} is a number, which has no place in out=; write None for it")
    if type(array) is not np.ndarray:
        raise OperandError(f"out= takes NumPy arrays; got {type(array).__name__} for {name}")
    if array.shape != kind.shape:
        raise ShapeError(f"the array of out= for {name} has shape {array.shape}; the result has {kind.shape}")
    if array.dtype != kind.dtype:
        raise OperandError(f"the array of out= for {name} is {array.dtype}; the result is {kind.dtype}")
    flags = array.flags
    if not flags.c_contiguous or not flags.aligned or not flags.writeable:
        raise OperandError(f"the array of out= for {name} must be C-contiguous, aligned and writable")
    return array


def copy_into(values: NumberSequence, out: Sequence[NDArray[Any] | None]) -> list[Any]:
    """Return values in the arrays of `out`; those that are not there yet are copied."""
    results: list[Any] = []
    for value, array in zip(values, out, strict=True):
        if array is not None and value is not array:
            array[...] = value
        results.append(value if array is None else array)
    return results


def is_call_by_name(vector: Sequence[Any], inputs: Mapping[str, Any]) -> bool:
    """Return whether a call passes its inputs by name, so that its gradient is named too.

    >>> is_call_by_name([[1.0]], {}), is_call_by_name([{"x": 1.0}], {})
    (False, True)
    """
    return bool(inputs) or not vector or isinstance(vector[0], Mapping)


def _is_real_vector(x: object, length: int) -> bool:
    """Return whether an argument is a NumPy vector of real numbers that one cast converts."""
    return type(x) is np.ndarray and x.shape == (length,) and x.dtype.kind in "fiu" and x.dtype.itemsize <= 8


COMPILED_DTYPES = ("float64", "float32")
"""The float types that a circuit can be compiled for."""
INTERPRETER_TIER = "interpreter"
BatchPoints = ArrayLike | Iterator[ArrayLike] | Callable[[int], ArrayLike]
"""Points of a batch: a table, tables one after another, or a function that returns the table of a chunk."""
MARK_FLIPPED = "mark"
"""The value of `check` that makes results NaN at points where a branch flips."""


@dataclass(frozen=True, repr=False)
class CompiledCircuitInfo:
    """Facts about a compiled circuit: its size, which backend runs it, and what compiling it took so far."""

    nodes: int
    inputs: int
    outputs: int
    dtype: str
    tier: str
    """`stencils`, `llvm`, `arrays` or `interpreter`."""
    reason: str
    """Why the interpreter runs it; empty if native code does."""
    code_bytes: int
    working_bytes: int
    compile_seconds: float
    stencil_seconds: float
    """The part of `compile_seconds` spent on stencils, which later circuits share."""
    calls: int
    instructions: int = 0
    """The number of instructions of an array program."""
    interpreted: tuple[str, ...] = ()
    """The ops of an array program that the interpreter computes, with the number of their calls."""
    interpreted_share: float = 0.0
    """The share of these calls among all instructions."""
    peak_bytes: int = 0
    """The memory that a call of an array program needs besides its arguments, as it is planned."""

    def lines(self) -> Iterator[str]:
        """Return the report, line by line."""
        ends = f"{count_with_noun(self.inputs, 'input')}, {count_with_noun(self.outputs, 'output')}"
        yield f"{count_with_noun(self.nodes, 'node')}, {ends}, {self.dtype}; {count_with_noun(self.calls, 'call')}"
        if self.tier == INTERPRETER_TIER:
            yield f"  the interpreter answers: {self.reason}"
        else:
            yield f"  native code ({self.tier}): {self.code_bytes:,} bytes of code, {self.working_bytes:,} of memory"
            stencils = f", {_format_seconds(self.stencil_seconds)} of it for stencils" if self.stencil_seconds else ""
            yield f"  compiled in {_format_seconds(self.compile_seconds)}{stencils}"
        if self.instructions:
            peak = f"; a call needs {self.peak_bytes:,} bytes" if self.peak_bytes else ""
            yield f"  {count_with_noun(self.instructions, 'instruction')}{peak}"
        if self.interpreted:
            yield f"  the interpreter computes {self.interpreted_share:.0%} of them: {', '.join(self.interpreted)}"

    def __str__(self) -> str:
        return "\n".join(self.lines())

    __repr__ = __str__


def _format_seconds(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"


class Compiled:
    """A circuit that can be called with inputs by name, or with one vector in their order.

    Made by `circuit.compile()`. Any number of threads may call it.

    >>> from wiregrad.ir import parse_text
    >>> compiled = Compiled(parse_text("input a, b\\ny = multiply a b\\noutput y"))
    >>> compiled(a=2.0, b=3.0), compiled.value_and_grad(a=2.0, b=3.0)
    (6.0, (6.0, {'a': 3.0, 'b': 2.0}))
    >>> compiled.value_and_grad([2.0, 3.0])
    (6.0, array([3., 2.]))
    """

    def __init__(
        self,
        circuit: CircuitGraph,
        dtype: DTypeLike | None = None,
        *,
        check: bool = True,
        assume: str | None = None,
        point: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(check, bool):
            raise InputError(f"check is True or False; got {short_repr(check)}")
        is_finite = check_assumption(assume)
        self._point = point
        self._assume = assume
        self._is_checked = check or not circuit.certificates
        self._asked = dtype
        self.circuit = circuit if check else prune(circuit.unchecked())
        circuit = self.circuit
        self._names = circuit.inputs
        self._labels = circuit.outputs
        self.dtype = _choose_dtype(circuit, dtype)
        """The float type that results are computed in."""
        self._builder = EngineBuilder(
            circuit if dtype is None else cast_reals(circuit, self.dtype), self.dtype, finite=is_finite
        )
        # What most callers use is compiled now, so that the first call is as fast as the others.
        kinds = [circuit.type_of(node) for node in circuit.columns.outputs.tolist()]
        _ = self._gradient_handler if len(kinds) == 1 and not kinds[0].shape else self._value_handler

    def __call__(self, /, *vector: object, **inputs: object) -> Any:
        """Return the output, or a dict of outputs if there are several."""
        return self.value(*vector, **inputs)

    @cached_property
    def value(self) -> Callable[..., Any]:
        """The function behind a call of this object: `compiled.value(x)` is `compiled(x)`, slightly faster.

        >>> from wiregrad.ir import parse_text
        >>> Compiled(parse_text("input x\\ny = multiply x x\\noutput y")).value(x=3.0)
        9.0
        """
        return self._make_function("value", self._value_handler)

    @cached_property
    def value_and_grad(self) -> Callable[..., tuple[Any, Any]]:
        """The function that returns the only output and its gradient: a dict by name, or a vector.

        >>> from wiregrad.ir import parse_text
        >>> Compiled(parse_text("input x\\ny = tanh x\\noutput y")).value_and_grad(x=0.0)
        (0.0, {'x': 1.0})
        """
        return self._make_function("value_and_grad", self._gradient_handler)

    @cached_property
    def jacobian(self) -> Callable[..., Any]:
        """The function that returns the gradient of every output: one row each, or dicts by name.

        >>> from wiregrad.ir import parse_text
        >>> compiled = Compiled(parse_text("input a, b\\np = multiply a b\\ns = add a b\\noutput p, s"))
        >>> compiled.jacobian([2.0, 3.0]).tolist(), compiled.jacobian(a=2.0, b=3.0)["p"]
        ([[3.0, 2.0], [1.0, 1.0]], {'a': 3.0, 'b': 2.0})
        """
        check_scalar(self.circuit, "jacobian", "wg.jacobian")
        if len(self._labels) == 1:
            table = DerivativeTable([self._gradient_handler.engine], None)
        else:
            table = self._builder.build_table(self._builder.circuit)
        return self._make_table_function(table, self._labels)

    @cached_property
    def hessian(self) -> Callable[..., Any]:
        """The function that returns the second derivatives of the only output: a square array, or dicts by name.

        >>> from wiregrad.ir import parse_text
        >>> Compiled(parse_text("input x\\ny = multiply x x\\noutput y")).hessian(x=3.0)
        {'x': {'x': 2.0}}
        """
        check_scalar(self.circuit, "hessian", "wg.hessian")
        # The promise of finite numbers is about the circuit's own slopes, not about those of its gradient.
        table = self._builder.build_table(backward_circuit(self._builder.circuit), finite=False)
        return self._make_table_function(table, self._names)

    def batch(
        self,
        points: BatchPoints,
        *,
        threads: int | None = None,
        check: bool | str = True,
        **chunked: Unpack[StreamOptions],
    ) -> NDArray[Any]:
        """Return the output at many points, one per row of `points`; several outputs become columns.

        At most `threads` threads are used, by default one per available core; the results do not depend on it. Where a
        traced function would take another branch, `BranchError` is raised. With `check="mark"` the result there is NaN
        instead, and with `check=False` it is that of the traced branch.

        With `executor=`, the points are computed by its workers in chunks of `chunk_size`, each with one thread unless
        `threads` says otherwise. `points` may also be an iterator over tables, or a function that returns the table of
        a chunk by its number, with the number of `chunks=`; then a batch may have more points than memory holds.
        `reduce="sum"` or `"mean"` returns that of all points, the same bits for any executor; `out=` takes an array
        to write into; `progress=True` shows how far it is.

        >>> from wiregrad.ir import parse_text
        >>> Compiled(parse_text("input a, b\\ny = multiply a b\\noutput y")).batch([[2.0, 3.0], [4.0, 5.0]])
        array([ 6., 20.])
        """
        check_scalar(self.circuit, "batch", "wg.vmap")
        settings.check_threads(threads)
        if chunked or _come_in_chunks(points):
            values: NDArray[Any] = self._stream_batch("batch", points, threads, check, chunked)
            return values
        mark = self._read_check_option(check)
        if mark is None:
            return self._without_checks.batch(points, threads=threads)
        rows = self._compute_rows(points, threads, gradient=False, mark=mark)
        outputs = rows.values.astype(np.bool_) if _has_only_conditions(self.circuit) else rows.values
        return outputs[:, 0] if len(self._labels) == 1 else outputs

    def batch_value_and_grad(
        self,
        points: BatchPoints,
        *,
        threads: int | None = None,
        check: bool | str = True,
        **chunked: Unpack[StreamOptions],
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the only output at many points, and its gradient there, one row each; options as in `batch`.

        >>> from wiregrad.ir import parse_text
        >>> compiled = Compiled(parse_text("input a, b\\ny = multiply a b\\noutput y"))
        >>> compiled.batch_value_and_grad([[2.0, 3.0], [4.0, 5.0]])[1].tolist()
        [[3.0, 2.0], [5.0, 4.0]]
        """
        check_scalar(self.circuit, "batch_value_and_grad", "wg.vmap")
        settings.check_threads(threads)
        if chunked or _come_in_chunks(points):
            self.circuit.root()
            both: tuple[NDArray[Any], NDArray[Any]]
            both = self._stream_batch("batch_value_and_grad", points, threads, check, chunked)
            return both
        mark = self._read_check_option(check)
        if mark is None:
            return self._without_checks.batch_value_and_grad(points, threads=threads)
        rows = self._compute_rows(points, threads, gradient=True, mark=mark)
        assert rows.grads is not None
        values = rows.values.astype(np.bool_) if _has_only_conditions(self.circuit) else rows.values
        return values[:, 0], rows.grads

    def batch_jacobian(
        self,
        points: BatchPoints,
        *,
        threads: int | None = None,
        check: bool | str = True,
        **chunked: Unpack[StreamOptions],
    ) -> NDArray[Any]:
        """Return the gradient of every output at many points, with axes points, outputs, inputs; options as in `batch`.

        >>> from wiregrad.ir import parse_text
        >>> compiled = Compiled(parse_text("input a, b\\np = multiply a b\\ns = add a b\\noutput p, s"))
        >>> compiled.batch_jacobian([[2.0, 3.0], [4.0, 5.0]]).tolist()
        [[[3.0, 2.0], [1.0, 1.0]], [[5.0, 4.0], [1.0, 1.0]]]
        """
        check_scalar(self.circuit, "batch_jacobian", "wg.jacobian")
        if chunked or _come_in_chunks(points):
            grads: NDArray[Any] = self._stream_batch("batch_jacobian", points, threads, check, chunked)
            return grads
        rows = [one.batch_value_and_grad(points, threads=threads, check=check)[1] for one in self._each_output]
        return np.stack(rows, axis=1)

    def _stream_batch(
        self, name: str, points: object, threads: int | None, check: bool | str, options: StreamOptions
    ) -> Any:
        """Return what a method for batches returns, computed in chunks."""
        self._read_check_option(check)
        if options.get("executor") is not None and threads is None:
            # Every worker has a core of its own.
            threads = 1
        method = executors.BatchMethod(
            self, name, {"threads": threads, "check": check}, self._get_encoded, self._value_handler.check_rows
        )
        return executors.stream_batch(method, points, options)

    def _get_encoded(self) -> FileProgram:
        """Return what another process needs to compile this circuit, encoded at the first batch."""
        return self._encoded

    @cached_property
    def _encoded(self) -> FileProgram:
        return self._encode()

    def _encode(self) -> FileProgram:
        """Return what another process needs to compile this circuit."""
        data = b"".join(files.encode_circuit_file(self.circuit))
        dtype = None if self._asked is None else self.dtype.name
        return executors.FileProgram(data, (dtype, self._assume), build_from_file)

    @cached_property
    def _each_output(self) -> list[Self]:
        """The circuit once for each output, compiled."""
        if len(self._labels) == 1:
            return [self]
        return [self._compile_alike(prune(self.circuit.with_output(label))) for label in self._labels]

    def _compile_alike(self, circuit: CircuitGraph, *, check: bool = True) -> Self:
        """Return another circuit, compiled with the same options."""
        return type(self)(circuit, self._asked, check=check, assume=self._assume, point=self._point)

    def holds(self, points: ArrayLike, *, threads: int | None = None) -> NDArray[np.bool_]:
        """Return at which points a traced function takes the branches that were traced, so that the circuit equals it.

        >>> import wiregrad as wg
        >>> traced = wg.trace(lambda x: x * x if x < 1.0 else x, 0.5)
        >>> traced.compile().holds([[0.25], [3.0]]).tolist()
        [True, False]
        """
        check_scalar(self.circuit, "holds", "wg.vmap")
        settings.check_threads(threads)
        rows = self._compute_rows(points, threads, gradient=False, mark=True)
        return ~rows.flipped

    def _compute_rows(self, points: object, threads: int | None, *, gradient: bool, mark: bool) -> BatchAnswers:
        """Return the results at many points, one row each; where a branch flips, NaN if `mark`, else raise."""
        answers = self._gradient_handler if gradient else self._value_handler
        return compute_rows(self._builder, answers, points, threads, gradient=gradient, mark=mark)

    def _read_check_option(self, check: object) -> bool | None:
        """Return whether points where a branch flips become NaN (else they raise); None if nothing is checked."""
        if not isinstance(check, bool) and check != MARK_FLIPPED:
            raise InputError(f'check is True, False or "{MARK_FLIPPED}"; got {short_repr(check)}')
        if not self.circuit.certificates:
            if check == MARK_FLIPPED and not self._is_checked:
                raise InputError(
                    f'this circuit was compiled with check=False, so there is no check for check="{MARK_FLIPPED}"'
                )
            return False
        if check == MARK_FLIPPED and _has_only_conditions(self.circuit):
            raise InputError("a condition cannot be NaN, so no point can be marked; use compiled.holds(points)")
        return None if check is False else check == MARK_FLIPPED

    @cached_property
    def _without_checks(self) -> Self:
        return self._compile_alike(self.circuit, check=False)

    @property
    def info(self) -> CompiledCircuitInfo:
        """What was compiled, which backend runs it, and what it took: nodes, tier, bytes of code, seconds.

        >>> from wiregrad.ir import parse_text
        >>> Compiled(parse_text("input x\\ny = tanh x\\noutput y")).info.nodes
        1
        """
        programs = self._builder.list_programs()
        array_programs = self._builder.list_array_programs()
        tiers_used = [*(program.tier for program in array_programs), *(program.tier for program in programs)]
        tier = tiers_used[0] if tiers_used else INTERPRETER_TIER
        inputs, nodes, _ = self.circuit.count()
        return CompiledCircuitInfo(
            nodes=nodes,
            inputs=inputs,
            outputs=len(self._labels),
            dtype=self.dtype.name,
            tier=INTERPRETER_TIER if self._builder.reason else tier,
            reason=self._builder.reason,
            code_bytes=sum(program.code_bytes for program in programs)
            + sum(program.code_bytes for program in array_programs),
            working_bytes=sum(program.initial.nbytes for program in programs)
            + sum(program.workspace_bytes for program in array_programs),
            compile_seconds=sum(program.seconds for program in programs)
            + sum(program.seconds for program in array_programs),
            stencil_seconds=sum(program.stencil_seconds for program in programs)
            + sum(program.stencil_seconds for program in array_programs),
            calls=sum(engine.calls for engine in self._builder.engines),
            instructions=sum(program.instructions for program in array_programs),
            interpreted=tuple(
                dict.fromkeys(f"{name} ({count})" for program in array_programs for name, count in program.interpreted)
            ),
            interpreted_share=max((program.interpreted_share for program in array_programs), default=0.0),
            peak_bytes=max((program.peak_bytes for program in array_programs), default=0),
        )

    def __repr__(self) -> str:
        return f"Compiled({self.circuit!r}, {self.info.tier})"

    def __reduce__(self) -> NoReturn:
        raise OperandError(
            "a compiled circuit cannot be pickled or copied: its code lives in this process; pickle its circuit, and "
            "compile it where it is needed"
        )

    @cached_property
    def _value_handler(self) -> CallHandler:
        computed = self._builder.circuit
        engine = self._builder.build_engine(computed, None)
        return CallHandler(self.circuit, engine, self.dtype, computed, self._point)

    @cached_property
    def _gradient_handler(self) -> CallHandler:
        self.circuit.root()
        computed = self._builder.circuit
        return CallHandler(self.circuit, self._builder.build_engine(computed, 0), self.dtype, computed, self._point)

    def _make_table_function(self, table: DerivativeTable, names: Sequence[str]) -> Callable[..., Any]:
        """Return the function that users call for derivatives of several outputs: a builtin if one engine has all."""
        handler = self._gradient_handler if len(self._labels) == 1 else self._value_handler

        def compute_table(*vector: object, **inputs: object) -> Any:
            """Return the gradients of all rows: an array, or dicts by name if the inputs were given by name."""
            grads = table.compute(handler.bind_point(vector, inputs))
            if not is_call_by_name(vector, inputs):
                return np.array(grads, self.dtype)
            return {
                name: dict(zip(self._names, map(to_python_number, row), strict=True))
                for name, row in zip(names, grads, strict=True)
            }

        if table.whole is None or not handler.real:
            return compute_table
        return self._make_builtin("outputs", table.whole, compute_table)

    def _make_function(self, kind: str, answers: CallHandler) -> Callable[..., Any]:
        """Return the function that users call: a builtin if there is native code."""
        complete: Callable[..., Any] = getattr(answers, kind)
        engine = answers.engine
        if isinstance(engine, builtin_calls.NativeEngine):
            return self._make_builtin(kind, engine, complete) if answers.real else complete
        # The other engines are asked for last, because that loads what circuits of scalars do not need.
        if isinstance(engine, InterpreterEngine) or not isinstance(engine, array_program.ArrayEngine):
            return complete
        return self._make_builtin(kind, engine, complete)

    def _make_builtin(
        self, kind: str, engine: builtin_calls.NativeEngine | array_program.ArrayEngine, complete: Callable[..., Any]
    ) -> Callable[..., Any]:
        """Return a builtin; `complete` answers what it does not."""
        try:
            if isinstance(engine, builtin_calls.NativeEngine):
                return builtin_calls.make_call_builtin(kind, engine, complete)
            return engine.make_builtin(kind, complete)
        except NotNativeError:
            # Native code does not know the object layout of this Python, so only the call itself is slower.
            return complete


@dataclass(frozen=True)
class BatchAnswers:
    """Results at many points, one row each, and the rows that are invalid because a branch flips there."""

    values: NDArray[Any]
    grads: NDArray[Any] | None
    flipped: NDArray[np.bool_]

    @classmethod
    def allocate(cls, count: int, outputs: int, inputs: int | None, dtype: np.dtype[Any]) -> BatchAnswers:
        """Allocate results; without a number of inputs there are no gradients."""
        grads = None if inputs is None else np.empty((count, inputs), dtype)
        return cls(np.empty((count, outputs), dtype), grads, np.zeros(count, np.bool_))

    def compute_row(self, row: int, engine: CircuitEngine, point: NumberSequence) -> None:
        """Compute one row with an engine."""
        if self.grads is None:
            self.values[row] = engine.compute_values(point)
        else:
            self.values[row], self.grads[row] = engine.compute_gradient(point)

    def mark_flipped(self, rows: int | NDArray[np.intp]) -> None:
        """Mark rows as invalid: their results become NaN."""
        self.flipped[rows] = True
        self.values[rows] = np.nan
        if self.grads is not None:
            self.grads[rows] = np.nan

    def mark_flips(self, left: NDArray[np.intp], circuit: CircuitGraph, table: NDArray[Any]) -> NDArray[np.intp]:
        """Mark the rows in which a branch flips by one NumPy pass; return those of `left` that it did not decide."""
        flips = _find_flipped_points(circuit, table[left])
        self.mark_flipped(left[flips])
        return left[~flips]

    def compute_left(self, left: NDArray[np.intp], engine: CircuitEngine, table: NDArray[Any], *, mark: bool) -> None:
        """Compute the rows that are left one by one; where a branch flips, they become NaN if `mark`, else raise."""
        for row in left.tolist():
            try:
                self.compute_row(row, engine, table[row])
            except BranchError as error:
                if not mark:
                    raise BranchError(f"at point {row}: {error}", place=error.place) from None
                self.mark_flipped(row)


def compute_rows(
    builder: EngineBuilder, answers: CallHandler, points: object, threads: int | None, *, gradient: bool, mark: bool
) -> BatchAnswers:
    """Return the results at many points, one row each; where a branch flips, NaN if `mark`, else raise."""
    table = answers.bind_points(points)
    outputs = len(builder.circuit.outputs)
    program = builder.get_lane_program(gradient=gradient)
    if program is None:
        rows = BatchAnswers.allocate(len(table), outputs, table.shape[1] if gradient else None, builder.dtype)
        left = np.arange(len(table))
    else:
        numbers, grads = batch.run_batch(program, table, gradient=gradient, threads=threads)
        rows = BatchAnswers(numbers[:, :outputs], grads, np.zeros(len(table), np.bool_))
        checks = builder.make_checks(builder.circuit)
        left = np.flatnonzero(checks.find_failures(numbers)) if checks is not None else np.arange(0)
        if mark:
            left = rows.mark_flips(left, builder.circuit, table)
    rows.compute_left(left, answers.engine, table, mark=mark)
    return rows


def _come_in_chunks(points: object) -> bool:
    """Return whether points are an iterator over tables, or a function that returns them."""
    return callable(points) or hasattr(points, "__next__")


def build_from_file(data: bytes, dtype: str | None, assume: str | None) -> Compiled:
    """Return the compiled circuit of a file; `dtype` and `assume` are those of `Compiled`."""
    return Compiled(files.decode_circuit_file(data), dtype, assume=assume)


def _find_flipped_points(circuit: CircuitGraph, points: NDArray[Any]) -> NDArray[np.bool_]:
    """Return at which points a certificate does not hold according to NumPy."""
    flipped = np.zeros(len(points), np.bool_)
    if circuit.certificates and len(points):
        values = interpreter.evaluate_nodes(circuit, list(points.T))
        for certificate in certificates.distinct_certificates(circuit):
            wanted = certificates.expected_value(circuit, certificate)
            flipped |= ~certificates.compare_bits_each(values[certificate.node], wanted)
    return flipped


def _has_only_conditions(circuit: CircuitGraph) -> bool:
    """Return whether all outputs are conditions."""
    return all(circuit.type_of(node).dtype.kind == "b" for node in circuit.columns.outputs.tolist())


def check_scalar(circuit: CircuitGraph, question: str, instead: str) -> None:
    """Raise unless all inputs and outputs are real scalars."""
    for node in (*circuit.input_indices(), *circuit.columns.outputs.tolist()):
        kind = circuit.type_of(node)
        if kind.shape or kind.dtype.kind == "c":
            name = circuit.title_of(node)
            raise NoRuleError(f"{question} is for circuits of real numbers; {name} is {kind}: use {instead}")


def _choose_dtype(circuit: CircuitGraph, dtype: DTypeLike | None) -> np.dtype[Any]:
    """Return the float type to compute in: the requested one, else that of the circuit."""
    if dtype is None:
        kinds = {kind.dtype for kind in circuit.columns.list_used_types()}
        reals = [kind for kind in kinds if kind.kind == "f"]
        return reals[0] if len(reals) == 1 else np.dtype(np.float64)
    try:
        real: np.dtype[Any] = np.dtype(dtype)
    except TypeError:
        real = np.dtype(object)
    if real.name not in COMPILED_DTYPES:
        raise DomainError(f"a circuit can be compiled for {' or '.join(COMPILED_DTYPES)}; got {short_repr(dtype)}")
    return real


def cast_reals(circuit: CircuitGraph, real: np.dtype[Any]) -> CircuitGraph:
    """Return the circuit with all its real numbers in one float type.

    >>> from wiregrad.ir import parse_text
    >>> small = cast_reals(parse_text("input x\\ny = exp x\\noutput y"), np.dtype("float32"))
    >>> str(small.type_of(1))
    'float32'
    """
    columns = circuit.columns
    table = tuple(WireType(real, kind.shape) if kind.dtype.kind == "f" else kind for kind in columns.type_table)
    with np.errstate(over="ignore"):
        constants = tuple(_cast_constant(value, real) for value in columns.constants)
    try:
        return verify(type(circuit)(replace(columns, type_table=table, constants=constants)))
    except WiregradError as error:
        raise DomainError(f"the circuit cannot be computed in {real} alone: {error}") from None


def _cast_constant(value: Any, real: np.dtype[Any]) -> Any:
    return np.asarray(value, real)[()] if np.asarray(value).dtype.kind == "f" else value


add_missing_names(Compiled, "a compiled circuit", GRADIENT_HABITS)
