"""Values, transforms and tracing, as users see them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from wiregrad.api.circuits import Circuit, Run
from wiregrad.backends import interpreter
from wiregrad.errors import CheckError, OperandError, shown
from wiregrad.frontends import dispatch, scalar
from wiregrad.frontends import trace as tracing
from wiregrad.frontends.anomaly import anomaly
from wiregrad.frontends.batch import vmap
from wiregrad.frontends.checkpoint import checkpoint
from wiregrad.frontends.conventions import convention
from wiregrad.frontends.custom import Function, op
from wiregrad.frontends.jacobian import hessian, jacobian
from wiregrad.frontends.record import group, no_grad
from wiregrad.frontends.recorded import recorded
from wiregrad.frontends.transforms import grad, hvp, jvp, stop_gradient, value_and_grad, vjp
from wiregrad.frontends.tree import tree_map
from wiregrad.frontends.value import Value
from wiregrad.inspect.blame import Blame
from wiregrad.inspect.blame import blame as blame_of
from wiregrad.inspect.check import check
from wiregrad.inspect.check.findings import Checked
from wiregrad.inspect.explain import Explanation
from wiregrad.inspect.flight import Flight
from wiregrad.inspect.leaf import explain_value
from wiregrad.ops.functions import FUNCTIONS

__all__ = [
    "FUNCTIONS",
    "Function",
    "Value",
    "anomaly",
    "blame",
    "check_grads",
    "checkpoint",
    "convention",
    "dispatch",
    "explain",
    "grad",
    "group",
    "hessian",
    "hvp",
    "jacobian",
    "jvp",
    "no_grad",
    "op",
    "record",
    "run",
    "scalar",
    "stop_gradient",
    "trace",
    "tree_map",
    "value_and_grad",
    "vjp",
    "vmap",
]


def trace(f: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Circuit:
    """Return the circuit of a function at a point.

    Real and complex arguments become its inputs, under the names of the parameters; inner nodes have the names of the
    variables that held them, the lines they were written on and the functions they were written in. What steered
    Python is kept in `circuit.certificates`.

    >>> import numpy as np
    >>> def neuron(x, w, b):
    ...     n = x * w + b
    ...     return np.tanh(n)
    >>> trace(neuron, 2.0, -3.0, 6.5)
    Circuit(3 inputs, 3 nodes, 0 splitters, output f)
    """
    return Circuit(tracing.trace(f, *args, **kwargs).columns)


def run(f: Callable[..., Any] | Value, /, *args: Any, **kwargs: Any) -> Run:
    """Trace a function at a point and run its circuit there, forward and backward, with every wire kept.

    Of a value, what was recorded for it is run.

    >>> found = run(lambda x, w: x * w + w, 2.0, -3.0)
    >>> found.output, found.grads
    (-9.0, {'x': -3.0, 'w': 3.0})
    >>> a = Value(2.0, name="a")
    >>> run(a * a).grads
    {'a': 4.0}
    """
    circuit, inputs = _traced(f, args, kwargs)
    return Run.of(interpreter.run(circuit, inputs))


def _traced(f: Callable[..., Any] | Value, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Circuit, list[Any]]:
    """Return the circuit of a function at a point, or of what was recorded for a value, and its inputs there."""
    if not isinstance(f, Value):
        circuit, inputs = tracing.trace_at(f, args, kwargs)
        return Circuit(circuit.columns), inputs
    if args or kwargs:
        given = shown((*args, *kwargs.values()))
        raise OperandError(f"a value takes no arguments: it knows what it was computed from; got {given}")
    circuit, inputs = recorded(f)
    return Circuit(circuit.columns), inputs


def blame(f: Callable[..., Any] | Value, /, *args: Any, **kwargs: Any) -> Blame:
    """Find the op of a function that first made something non-finite, forward or backward, with its line.

    >>> import numpy as np
    >>> def distance(x, y):
    ...     return np.sqrt(np.sum((x - y) ** 2))
    >>> found = blame(distance, np.ones(3), np.ones(3))
    >>> found.origins[0].op, found.origins[0].factors
    ('sqrt', (1.0, inf))
    >>> found.origins[0].suggestion
    'use np.linalg.norm(x) instead of the root of a sum of squares: its gradient at 0 is 0'
    """
    with np.errstate(all="ignore"):
        circuit, inputs = _traced(f, args, kwargs)
        return blame_of(interpreter.run_all(circuit, inputs))


def check_grads(
    f: Callable[..., Any] | Circuit, /, *args: Any, order: int = 2, raises: bool = True, **kwargs: Any
) -> Checked:
    """Compare the derivative of every op that a function (or circuit) uses with a numeric one, at the values it sees.

    A wrong rule raises `CheckError`, which names the op, the wire, the line and both numbers; with `raises=False` it is
    in the report instead. Kinks, and points where numbers cannot decide, are listed.

    >>> print(check_grads(lambda x, w: np.tanh(x * w), 0.5, -1.2))
    2 nodes, 3 wires, 3 rules to second order: all rules hold
    """
    report = check(f, args, kwargs, order=order)
    if raises and not report.ok:
        raise CheckError(str(report), report=report)
    return report


def record(capacity: int = 2000, **options: Any) -> Flight:
    """Return a flight recorder of a training: per step and group statistics, in bounded memory.

    Give it each step's loss, parameters and gradients; it finds the first step at which something vanished, exploded
    or went non-finite. With `on_event="raise"` it stops the training there.

    >>> flight = record()
    >>> for step in range(3):
    ...     events = flight.step(1.0, {"w": np.ones(2)}, {"w": np.array([0.1, np.nan if step == 2 else 0.2])})
    >>> flight.first("nonfinite").step
    2
    """
    return Flight(capacity, **options)


def explain(value: Value) -> Explanation:
    """Say why a value of define-by-run code has the gradient it has; of a function ask `wg.run(f, ...).explain(name)`.

    >>> w = Value(2.0, name="w")
    >>> explain(w).kind
    'none'
    """
    return explain_value(value)
