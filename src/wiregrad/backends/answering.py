"""How a call of a compiled circuit is handled in Python: arguments are checked, results come back in the same form.

Arguments and errors are those of `circuit(...)` and `circuit.run(...)`. Native builtins handle the common cases
themselves and pass every other call on to this module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wiregrad.backends import interpreter
from wiregrad.dtypes import to_python_number
from wiregrad.errors import InputError, short_repr
from wiregrad.ir import CircuitGraph, join_first_names

ORDINARY_NUMBER_TYPES = frozenset([float, int, np.float64, np.float32, np.int64, np.int32])
"""Number types that are converted to float without further checks."""


ComputedNumbers: TypeAlias = Sequence[Any] | NDArray[Any]


class CircuitEngine(Protocol):
    """Computes a circuit at a point whose values were already checked."""

    @property
    def calls(self) -> int:
        """The number of calls so far."""

    def compute_values(self, point: Any) -> ComputedNumbers:
        """Return the outputs."""

    def compute_gradient(self, point: Any) -> tuple[Any, ComputedNumbers]:
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

    def compute_values(self, point: Any) -> Sequence[Any]:
        """Return the outputs."""
        self.calls += 1
        return list(interpreter.evaluate_outputs(self.circuit, self._cast_point(point)).values())

    def compute_gradient(self, point: Any) -> tuple[Any, Sequence[Any]]:
        """Return the only output, and its gradient by every input."""
        self.calls += 1
        run = interpreter.run_circuit(self.circuit, self._cast_point(point))
        return run.values[self.circuit.root()], [run.gradient(node) for node in self.circuit.input_indices()]

    def _cast_point(self, point: Any) -> list[Any]:
        with np.errstate(over="ignore"):
            return [np.asarray(x, kind.dtype)[()] for x, kind in zip(point, self._types, strict=True)]


class CallHandler:
    """Checks the arguments of a call, has an engine compute, and returns the results in the form of the arguments."""

    def __init__(self, circuit: CircuitGraph, engine: CircuitEngine, real: np.dtype[Any]) -> None:
        self.engine = engine
        self._circuit = circuit
        self._real = real
        self._names = circuit.inputs
        self._labels = circuit.outputs
        inputs = [circuit.type_of(node) for node in circuit.input_indices()]
        outputs = [circuit.type_of(node) for node in circuit.columns.outputs.tolist()]
        self.scalar = not any(kind.shape for kind in inputs)
        """Whether every input is a scalar, so that a point is one vector."""
        self._reals = self.scalar and all(kind.dtype.kind == "f" for kind in inputs)
        self._conditions = [kind.dtype.kind == "b" and not kind.shape for kind in outputs]
        self.real = self._reals and all(kind.dtype.kind == "f" for kind in outputs)
        """Whether all inputs and outputs are real scalars, which native builtins handle."""

    def value(self, /, *vector: Any, **inputs: Any) -> Any:
        """Return the output, or a dict of them if there are several."""
        outputs = self._format_outputs(self.engine.compute_values(self.bind_point(vector, inputs)))
        return outputs[0] if len(outputs) == 1 else dict(zip(self._labels, outputs, strict=True))

    def value_and_grad(self, /, *vector: Any, **inputs: Any) -> tuple[Any, Any]:
        """Return the output, and its gradient in the form of the inputs: by name, as a vector, or one by one."""
        value, grads = self.engine.compute_gradient(self.bind_point(vector, inputs))
        return self._format_outputs([value])[0], self._format_gradient(grads, vector, inputs)

    def bind_point(self, vector: Sequence[Any], inputs: Mapping[str, Any]) -> Sequence[Any]:
        """Return a value for every input; raise `InputError` if one is missing, unknown or not a number."""
        numbers = self._bind_ordinary_numbers(vector, inputs) if self._reals else None
        return interpreter.bind_inputs(self._circuit, vector, inputs) if numbers is None else numbers

    def _bind_ordinary_numbers(self, vector: Sequence[Any], inputs: Mapping[str, Any]) -> Sequence[Any] | None:
        """Return the point if all inputs are ordinary numbers, ten times faster than `interpreter.bind`; else None."""
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

    def bind_points(self, points: Any) -> NDArray[Any]:
        """Return many points, one per row, in the type that is computed in; raise if they are not numbers."""
        array = self._check_rows(points)
        if not self._reals:
            for column, kind in zip(array.T, self._input_kinds(), strict=True):
                if kind == "b" and not np.isin(column, (0, 1)).all():
                    raise InputError("a condition among the inputs must be true or false, or 1 or 0, at every point")
        with np.errstate(over="ignore"):
            return np.ascontiguousarray(array, self._real)

    def _check_rows(self, points: Any) -> NDArray[Any]:
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

    def _format_outputs(self, values: ComputedNumbers) -> list[Any]:
        """Return outputs as Python objects; native code returns conditions as 0 and 1."""
        pairs = zip(values, self._conditions, strict=True)
        return [bool(value) if condition else to_python_number(value) for value, condition in pairs]

    def _format_gradient(self, grads: ComputedNumbers, vector: Sequence[Any], inputs: Mapping[str, Any]) -> Any:
        if is_call_by_name(vector, inputs):
            return dict(zip(self._names, map(to_python_number, grads), strict=True))
        if self.scalar:
            return np.array(grads, self._real)
        return grads[0] if len(vector) == 1 else tuple(grads)


def is_call_by_name(vector: Sequence[Any], inputs: Mapping[str, Any]) -> bool:
    """Return whether a call passes its inputs by name, so that its gradient is named too.

    >>> is_call_by_name([[1.0]], {}), is_call_by_name([{"x": 1.0}], {})
    (False, True)
    """
    return bool(inputs) or not vector or isinstance(vector[0], Mapping)


def _is_real_vector(x: Any, length: int) -> bool:
    """Return whether an argument is a NumPy vector of real numbers that one cast converts."""
    return type(x) is np.ndarray and x.shape == (length,) and x.dtype.kind in "fiu" and x.dtype.itemsize <= 8
