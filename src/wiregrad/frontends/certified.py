"""A function recorded to be replayed: its circuit, which also outputs everything that steered Python.

Kept true: if the certified nodes of a replay have the same bits as in the recording, the function would have taken the
same path, so the results of the replay are the function's. If that cannot be guaranteed, `leak` says why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from wiregrad.errors import AmbiguousIndexError, short_repr
from wiregrad.frontends.session import data_of
from wiregrad.frontends.tape import Tape
from wiregrad.frontends.trace import TracedFunction, TraceWriter, input_names, run_traced
from wiregrad.frontends.tree import ContainerTree, flatten
from wiregrad.frontends.value import OUTSIDE_VALUE_REASON, Value, is_python_number, wrap_node
from wiregrad.ir import Certificate, CircuitGraph

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


def certify(f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], *, keep: bool = True) -> CertifiedRecording:
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
    checks = _needed_checks(tape, traced.inputs) if keep else []
    circuit = None
    if keep and (moving or checks):
        values = [wrap_node(tape, check.node, tape.value_at(check.node)) for check in checks]
        outputs = [*(traced.results[k] for k in moving), *values]
        with_checks = TracedFunction(tape, traced.inputs, outputs, flatten(outputs)[1], traced.names)
        writer = TraceWriter(with_checks, input_names(f, args, kwargs), getattr(f, "__name__", "f"))
        circuit = writer.write_circuit()
        checks = [check._replace(node=writer.where[check.node]) for check in checks]
    if tape.identity.unforeseen is not None:
        raise NotReplayableError(tape.identity.unforeseen)
    if tape.leaves or tape.refusal:
        raise NotReplayableError(tape.refusal or OUTSIDE_VALUE_REASON)
    expected = tuple(np.asarray(data_of(value))[()] for value in (outputs[len(moving) :] if circuit else ()))
    results = [_plain_leaf(result) for result in traced.results]
    leak = tape.leak or ("it registers a hook on a value" if tape.hooks else None)
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
        kind in FIXED_TYPES or (issubclass(kind, np.generic) and kind is not np.void) or isinstance(result, Enum | np.dtype)
    )
    if not fixed and not (kind is np.ndarray and not result.dtype.hasobject):
        raise NotReplayableError(f"it returns {type(result).__name__} {short_repr(result)}, which may change or hold values")
    return False


def _check_tree(tree: ContainerTree) -> None:
    """Raise if a container among the results has attributes, which a replay would not return."""
    stack = [tree]
    while stack:
        part = stack.pop()
        if part.attributes:
            raise NotReplayableError(f"it returns a {part.kind.__name__} with attributes of its own")
        stack += part.children


def _plain_leaf(result: Any) -> Any:
    """Return a result as the caller gets it: float64 numbers as Python floats, arrays as copies."""
    data = plain_result(data_of(result), in_python=is_python_number(result))
    return data.copy() if type(data) is np.ndarray and not isinstance(result, Value) else data


def plain_result(data: Any, *, in_python: bool = True) -> Any:
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


def _needed_checks(tape: Tape, inputs: Sequence[int]) -> list[Certificate]:
    """Return one certificate per node that depends on an input; the others cannot change."""
    input_offsets = set(inputs)
    depends = dict[int, bool]()
    needed: dict[int, Certificate] = {}
    for certificate in tape.certificates:
        if certificate.node not in needed and _depends_on_input(tape, certificate.node, input_offsets, depends):
            needed[certificate.node] = certificate
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
