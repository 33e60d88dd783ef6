"""Calls of a compiled circuit answered the complete way: any arguments, checked; results given back in kind.

Arguments and errors are those of `circuit(...)` and `circuit.run(...)`. Native builtins answer the common cases by
themselves and hand everything else to this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wiregrad.backends import interpreter
from wiregrad.dtypes import plain
from wiregrad.errors import InputError, shown
from wiregrad.ir import Circuit, listed

ORDINARY = frozenset([float, int, np.float64, np.float32, np.int64, np.int32])
"""Types of numbers that need no look at what they are."""


Numbers: TypeAlias = Sequence[Any] | NDArray[Any]


class Engine(Protocol):
    """What computes a circuit at a point that was checked."""

    @property
    def calls(self) -> int:
        """How often it was asked."""

    def values(self, point: Any) -> Numbers:
        """Return the outputs."""

    def gradient(self, point: Any) -> tuple[Any, Numbers]:
        """Return the only output, and its gradient by every input."""


class Interpreted:
    """A circuit that the interpreter computes.

    >>> from wiregrad.ir import parse_text
    >>> Interpreted(parse_text("input x\\ny = multiply x x\\noutput y")).gradient([3.0])
    (np.float64(9.0), [np.float64(6.0)])
    """

    def __init__(self, circuit: Circuit) -> None:
        self.circuit, self.calls = circuit, 0
        self._types = [circuit.type_of(node) for node in circuit.input_indices()]

    def values(self, point: Any) -> Sequence[Any]:
        """Return the outputs."""
        self.calls += 1
        return list(interpreter.outputs(self.circuit, self._typed(point)).values())

    def gradient(self, point: Any) -> tuple[Any, Sequence[Any]]:
        """Return the only output, and its gradient by every input."""
        self.calls += 1
        run = interpreter.run(self.circuit, self._typed(point))
        return run.values[self.circuit.root()], [run.gradient(node) for node in self.circuit.input_indices()]

    def _typed(self, point: Any) -> list[Any]:
        with np.errstate(over="ignore"):
            return [np.asarray(x, kind.dtype)[()] for x, kind in zip(point, self._types, strict=True)]


class Answers:
    """Functions that answer any call with what an engine computes."""

    def __init__(self, circuit: Circuit, engine: Engine, real: np.dtype[Any]) -> None:
        self.engine, self._circuit, self._real = engine, circuit, real
        self._names, self._labels = circuit.inputs, circuit.outputs
        inputs = [circuit.type_of(node) for node in circuit.input_indices()]
        outputs = [circuit.type_of(node) for node in circuit.columns.outputs.tolist()]
        self.scalar = not any(kind.shape for kind in inputs)
        """Whether every input is one number or condition, so that a point is one vector."""
        self._reals = self.scalar and all(kind.dtype.kind == "f" for kind in inputs)
        self._conditions = [kind.dtype.kind == "b" and not kind.shape for kind in outputs]
        self.real = self._reals and all(kind.dtype.kind == "f" for kind in outputs)
        """Whether inputs and outputs are real numbers throughout, which builtins take and return as they are."""

    def value(self, /, *vector: Any, **inputs: Any) -> Any:
        """Return the output, or a dict of them if there are several."""
        found = self._told(self.engine.values(self.point(vector, inputs)))
        return found[0] if len(found) == 1 else dict(zip(self._labels, found, strict=True))

    def value_and_grad(self, /, *vector: Any, **inputs: Any) -> tuple[Any, Any]:
        """Return the output, and its gradient in the way the inputs came: by name, as a vector, or one by one."""
        value, grads = self.engine.gradient(self.point(vector, inputs))
        return self._told([value])[0], self._in_kind(grads, vector, inputs)

    def point(self, vector: Sequence[Any], inputs: Mapping[str, Any]) -> Sequence[Any]:
        """Return a value for every input; raise if something is missing, unknown or no number."""
        found = self._numbers(vector, inputs) if self._reals else None
        return interpreter.bind(self._circuit, vector, inputs) if found is None else found

    def _numbers(self, vector: Sequence[Any], inputs: Mapping[str, Any]) -> Sequence[Any] | None:
        """Return the point of a call that has all inputs as ordinary numbers, in a tenth of the time; else None."""
        given: Any = vector[0] if len(vector) == 1 and not inputs else None
        if _is_plain(given, len(self._names)):
            with np.errstate(over="ignore"):
                array: Sequence[Any] = given.astype(self._real)
            return array
        if not vector and len(inputs) == len(self._names):
            given = [inputs.get(name) for name in self._names]
        if (
            type(given) not in (list, tuple)
            or len(given) != len(self._names)
            or not ORDINARY.issuperset(map(type, given))
        ):
            return None
        try:
            return [*map(float, given)]
        except OverflowError:
            return None

    def points(self, given: Any) -> NDArray[Any]:
        """Return many points, a row each, as numbers of the type that is computed in; raise if they are none."""
        array = self._rows(given)
        if not self._reals:
            for column, kind in zip(array.T, self._types(), strict=True):
                if kind == "b" and not np.isin(column, (0, 1)).all():
                    raise InputError("a condition among the inputs must be true or false, or 1 or 0, at every point")
        with np.errstate(over="ignore"):
            return np.ascontiguousarray(array, self._real)

    def _rows(self, given: Any) -> NDArray[Any]:
        wanted = f"wanted one row of {len(self._names)} numbers ({listed(self._names)}) per point"
        if isinstance(given, str | bytes) or not hasattr(given, "__len__") or isinstance(given, Mapping):
            raise InputError(f"{wanted}; got {type(given).__name__} {shown(given)}")
        try:
            array = np.asarray(given)
        except ValueError:
            raise InputError(f"{wanted}; got rows of different lengths") from None
        if array.ndim != 2 or array.shape[1] != len(self._names):
            one = "; for one point write [point]" if array.shape == (len(self._names),) else ""
            raise InputError(f"{wanted}; got shape {array.shape}{one}")
        if array.dtype.kind in "fiu" and array.dtype.itemsize <= 8:
            return array
        # Whatever it is, each number is judged as in a call with one point.
        rows = [self.point([list(row)], {}) for row in array]
        return np.array(rows, np.float64).reshape(array.shape)

    def _types(self) -> list[str]:
        return [self._circuit.type_of(node).dtype.kind for node in self._circuit.input_indices()]

    def _told(self, values: Numbers) -> list[Any]:
        """Return outputs as Python has them; native code has 0 and 1 for conditions."""
        found = zip(values, self._conditions, strict=True)
        return [bool(value) if condition else plain(value) for value, condition in found]

    def _in_kind(self, grads: Numbers, vector: Sequence[Any], inputs: Mapping[str, Any]) -> Any:
        if by_name(vector, inputs):
            return dict(zip(self._names, map(plain, grads), strict=True))
        if self.scalar:
            return np.array(grads, self._real)
        return grads[0] if len(vector) == 1 else tuple(grads)


def by_name(vector: Sequence[Any], inputs: Mapping[str, Any]) -> bool:
    """Return whether a call gives inputs by name, so that its answer has names too.

    >>> by_name([[1.0]], {}), by_name([{"x": 1.0}], {})
    (False, True)
    """
    return bool(inputs) or not vector or isinstance(vector[0], Mapping)


def _is_plain(x: Any, length: int) -> bool:
    """Return whether a vector holds real numbers that can be turned into others all at once."""
    return type(x) is np.ndarray and x.shape == (length,) and x.dtype.kind in "fiu" and x.dtype.itemsize <= 8
