"""A call that is recorded to be replayed: its signature, and its circuit with all that steered Python.

A signature is everything about the arguments that a recording takes for granted. Real and complex leaves are inputs,
and only their shapes and dtypes count; everything else counts with its value. What may change unseen (an object of the
user's own) has no signature.

Kept true: a replay whose certified nodes have the same bits as when the function was recorded took the same path as
the function would, so its results are the function's. Where that cannot be promised, `leak` says why.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from enum import Enum
from types import BuiltinFunctionType, EllipsisType, FunctionType, ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wiregrad.dtypes import DTYPES
from wiregrad.errors import AmbiguousIndexError, short_repr
from wiregrad.frontends.recording.arguments import CONTAINER_BASES, ContainerTree, flatten, own_attributes, parts_of
from wiregrad.frontends.recording.session import data_of
from wiregrad.frontends.recording.tape import Tape
from wiregrad.frontends.recording.trace import TracedFunction, TraceWriter, input_names, run_traced
from wiregrad.frontends.recording.value import OUTSIDE_VALUE_REASON, Value, is_python_number, wrap_node
from wiregrad.ir import Certificate, CircuitGraph

VALUE_TYPES = frozenset([bool, int, str, bytes, EllipsisType])
"""Types that are compared by value, as dtypes are; subclasses are not, since they may have attributes."""
IDENTITY_TYPES = frozenset([FunctionType, BuiltinFunctionType, ModuleType, np.ufunc, type(np.sum)])
"""Types that are compared by identity, as classes are; what they refer to may change."""
NUMBER_TYPES = frozenset([np.ndarray, complex])
"""Types of numeric arguments, besides floats and NumPy numbers."""


class NoSignatureError(Exception):
    """An argument may change unnoticed, so the call has no signature; the message says which argument."""


class ValuesGivenError(Exception):
    """An argument is a `wg.Value`."""


class CallSignature:
    """Reads arguments: `key` identifies them, `inputs` are the numbers in them in the order of the leaves.

    >>> call = CallSignature(([1.5, 2], {"name": "tanh"}))
    >>> call.inputs, call.key == CallSignature(([9.5, 2], {"name": "tanh"})).key
    ([1.5], True)
    """

    __slots__ = ("inputs", "marks", "named")

    def __init__(self, item: object) -> None:
        self.inputs: list[Any] = []
        self.marks: list[Hashable] = []
        self.named: list[Any] = []
        """Functions, classes and modules among the arguments."""
        self._read_item(item)

    @property
    def key(self) -> tuple[Hashable, ...]:
        """The key that tells calls apart."""
        return tuple(self.marks)

    def _read_item(self, item: object) -> None:
        kind = type(item)
        if kind is float:
            self.marks.append(float)
            self.inputs.append(item)
        elif item is None:
            self.marks.append(None)
        elif issubclass(kind, dict | list | tuple):
            self._read_container(item, kind)
        elif kind in NUMBER_TYPES or issubclass(kind, np.generic):
            self._read_number(item)
        else:
            self.marks.append(self._mark_static(item))

    def _read_container(self, item: object, kind: type) -> None:
        if kind not in CONTAINER_BASES:
            if own_attributes(item):
                raise NoSignatureError(f"an argument is a {kind.__name__} with attributes of its own")
            # The attributes of its class may change.
            self.named.append(kind)
        keys, parts = parts_of(item)
        self.marks.append((kind, len(parts), *[self._mark_static(key) for key in keys]))
        for part in parts:
            self._read_item(part)

    def _read_number(self, item: object) -> None:
        array = np.asarray(item)
        if array.dtype.kind not in "fc":
            self.marks.append(_mark_fixed_array(array, type(item)))
        elif array.dtype not in DTYPES.values():
            raise NoSignatureError(f"an argument is an array of {array.dtype}, which is not recorded")
        elif array.dtype == np.float64 and not array.ndim:
            # Its comparisons return np.bool_, so it needs another recording than a Python float.
            self.marks.append((type(item),))
            self.inputs.append(float(array))
        else:
            self.marks.append((type(item), array.dtype.str, array.shape, _memory_layout(array)))
            self.inputs.append(array[()])

    def _mark_static(self, item: Any) -> Hashable:
        """Return the mark of an argument that is not a number: its type, and its value or identity."""
        kind = type(item)
        if item is None:
            return None
        if kind is slice or kind is range:
            return kind, self._mark_static(item.start), self._mark_static(item.stop), self._mark_static(item.step)
        if kind is tuple:
            return kind, tuple([self._mark_static(part) for part in item])
        if issubclass(kind, np.generic):
            return _mark_fixed_array(np.asarray(item), kind)
        return self._mark_by_identity(item, kind) or self._mark_by_value(item, kind)

    def _mark_by_identity(self, item: Any, kind: type) -> Hashable:
        """Return the mark of an object that is compared by identity; None if it is not such an object.

        Equality is not used, since a metaclass may define it. The id stays valid, because `OutsideState` keeps the
        object alive.
        """
        if kind is BuiltinFunctionType and not isinstance(item.__self__, ModuleType | None):
            raise NoSignatureError(f"an argument is a method of a {type(item.__self__).__name__}, which may change")
        if kind in IDENTITY_TYPES or issubclass(kind, type | Enum):
            self.named.append(kind if issubclass(kind, Enum) else item)
            return kind, id(item)
        return None

    def _mark_by_value(self, item: Any, kind: type) -> Hashable:
        if kind is float or kind is complex:
            # The text tells 0.0 from -0.0, and is the same for every NaN.
            return kind, repr(item)
        if kind in VALUE_TYPES or issubclass(kind, np.dtype):
            if kind is str and "{" in item:
                # `format` may read attributes named in the text.
                self.named.append(item)
            return kind, item
        if issubclass(kind, Value):
            raise ValuesGivenError
        raise NoSignatureError(
            f"an argument is a {kind.__name__}, which may change between calls; "
            "a method is compiled by wg.compile(object.method)"
        )


def _mark_fixed_array(array: NDArray[Any], kind: type) -> Hashable:
    """Return the mark of an array that is no input: its type, layout and bytes."""
    if array.dtype.kind not in "iubUSmM":
        raise NoSignatureError(f"an argument is an array of {array.dtype}")
    return kind, array.dtype.str, array.dtype.char, array.shape, _memory_layout(array), array.tobytes()


def _memory_layout(array: NDArray[Any]) -> Hashable:
    """Return the strides of an array, on which `ravel("K")` and the like depend; None if it is C-contiguous."""
    return None if array.flags.c_contiguous else array.strides


FIXED_TYPES = frozenset([bool, int, float, complex, str, bytes, range])
"""Types that a result may have besides values, arrays and NumPy numbers: immutable and without values inside."""


@dataclass(frozen=True)
class CertifiedRecording:
    """One recording of a function, ready to be replayed."""

    circuit: CircuitGraph | None
    """Its outputs are the recorded results, then the certified nodes; None if there are neither."""
    inputs: list[Any]
    results: list[Any]
    """The leaves of the result, as plain numbers and arrays."""
    tree: ContainerTree
    moving: tuple[int, ...]
    """The positions of the results that are outputs of the circuit; the others are constants."""
    in_python: tuple[bool, ...]
    """For each of these, whether a condition or whole number is a Python object, not a NumPy one."""
    expected: tuple[Any, ...]
    """The values of the certified nodes, in the order of the outputs after the results."""
    checks: tuple[Certificate, ...]
    leak: str | None
    """Why this recording must not be replayed, although its results are right; None if it may be."""


class NotReplayableError(Exception):
    """The function cannot be recorded for replay at all; the message says why."""


def certify(
    f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], *, keep: bool = True
) -> CertifiedRecording:
    """Run a function once and return its recording; raises `NotReplayableError`, or what the function raises.

    With `keep=False` the recording has results but no circuit.

    >>> recording = certify(lambda x: x * x if x > 0 else -x, (3.0,), {})
    >>> recording.results, [check.outcome for check in recording.checks]
    ([9.0], [True])
    """
    with np.errstate(all="ignore"):
        try:
            traced = run_traced(f, args, kwargs, named=keep)
        except AmbiguousIndexError as error:
            raise NotReplayableError(str(error)) from None
    tape = traced.tape
    _check_tree(traced.tree)
    moving = tuple(k for k, result in enumerate(traced.results) if _is_output(result, tape))
    inputs = [tape.value_at(offset) for offset in traced.inputs]
    checks = _needed_checks(traced) if keep else []
    circuit = None
    if keep and (moving or checks):
        values = [wrap_node(tape, check.node, tape.value_at(check.node)) for check in checks]
        outputs = [*(traced.results[k] for k in moving), *values]
        with_checks = TracedFunction(tape, traced.inputs, outputs, flatten(outputs)[1], traced.names)
        writer = TraceWriter(with_checks, input_names(f, args, kwargs), getattr(f, "__name__", "f"))
        circuit = writer.write_circuit()
        checks = [check._replace(node=writer.where[check.node]) for check in checks]
    guard = traced.guard
    if guard.late_identity_test is not None:
        raise NotReplayableError(guard.late_identity_test)
    if tape.leaves or guard.refusal:
        raise NotReplayableError(guard.refusal or OUTSIDE_VALUE_REASON)
    expected = tuple(np.asarray(data_of(value))[()] for value in (outputs[len(moving) :] if circuit else ()))
    results = [_plain_leaf(result) for result in traced.results]
    leak = guard.leak or ("it registers a hook on a value" if tape.hooks else None)
    in_python = tuple(is_python_number(traced.results[k]) for k in moving)
    return CertifiedRecording(circuit, inputs, results, traced.tree, moving, in_python, expected, tuple(checks), leak)


def _is_output(result: Any, tape: Tape) -> bool:
    """Return whether a result is a recorded node; raises if a replay could not return it."""
    if isinstance(result, Value):
        if result._tape is not tape:
            raise NotReplayableError("it returns a wg.Value from outside")
        return True
    kind = type(result)
    fixed = (
        kind in FIXED_TYPES
        or (issubclass(kind, np.generic) and kind is not np.void)
        or isinstance(result, Enum | np.dtype)
    )
    if not fixed and not (kind is np.ndarray and not result.dtype.hasobject):
        raise NotReplayableError(
            f"it returns {type(result).__name__} {short_repr(result)}, which may change or hold values"
        )
    return False


def _check_tree(tree: ContainerTree) -> None:
    """Raise if a container among the results has attributes, which a replay would not return."""
    stack = [tree]
    while stack:
        part = stack.pop()
        if part.attributes:
            raise NotReplayableError(f"it returns a {part.kind.__name__} with attributes of its own")
        stack += part.children


def _plain_leaf(result: object) -> Any:
    """Return a result as the caller gets it: float64 numbers as Python floats, arrays as copies."""
    data = plain_result(data_of(result), in_python=is_python_number(result))
    return data.copy() if type(data) is np.ndarray and not isinstance(result, Value) else data


def plain_result(data: object, *, in_python: bool = True) -> Any:
    """Return a number as the caller gets it: a Python number, except conditions and whole numbers of NumPy.

    >>> plain_result(np.float64(2.0)), plain_result(np.float32(2.0))
    (2.0, np.float32(2.0))
    >>> plain_result(np.True_), plain_result(np.True_, in_python=False)
    (True, np.True_)
    """
    if type(data) is np.ndarray and not data.ndim:
        data = data[()]
    python_dtypes = "d?lD" if in_python else "dD"
    return data.item() if isinstance(data, np.generic) and data.dtype.char in python_dtypes else data


def _needed_checks(traced: TracedFunction) -> list[Certificate]:
    """Return one certificate per node that depends on an input; the others cannot change."""
    input_offsets = set(traced.inputs)
    depends = dict[int, bool]()
    needed: dict[int, Certificate] = {}
    for certificate in traced.guard.certificates:
        node = certificate.node
        if node not in needed and _depends_on_input(traced.tape, node, input_offsets, depends):
            needed[node] = certificate
    return list(needed.values())


def _depends_on_input(tape: Tape, root: int, inputs: set[int], known: dict[int, bool]) -> bool:
    """Return whether a node depends on an input; `known` caches the answers."""
    stack = [root]
    while stack:
        offset = stack[-1]
        sources = [source for source in tape.node_at(offset).sources if source >= 0]
        missing = [source for source in sources if source not in known]
        if missing and offset not in known:
            stack += missing
            continue
        known[offset] = offset in inputs or any(known[source] for source in sources)
        stack.pop()
    return known[root]
