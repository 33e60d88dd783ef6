"""Questions about functions and values: `blame`, `check_grads`, `explain`, `record`. Loaded on first use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from wiregrad.api.circuits import Circuit
from wiregrad.api.live_flight import LiveFlight
from wiregrad.api.values import Value, trace_with_inputs
from wiregrad.backends import interpreter
from wiregrad.errors import CheckError
from wiregrad.frontends.recording.anomaly import anomaly
from wiregrad.inspect.blame import Blame
from wiregrad.inspect.blame import blame as blame_of
from wiregrad.inspect.check import check_gradients
from wiregrad.inspect.check.end_to_end import GradientCheck
from wiregrad.inspect.explain import Explanation, explain_value

__all__ = ["anomaly", "blame", "check_grads", "explain", "record"]


def blame(f: Callable[..., object] | Value, /, *args: object, **kwargs: object) -> Blame:
    """Find the op of a function that first produced a non-finite number, forward or backward, with its line.

    >>> import numpy as np
    >>> def distance(x, y):
    ...     return np.sqrt(np.sum((x - y) ** 2))
    >>> origin = blame(distance, np.ones(3), np.ones(3)).origins[0]
    >>> origin.op, origin.factors
    ('sqrt', (1.0, inf))
    >>> origin.suggestion
    'use np.linalg.norm(x) instead of the root of a sum of squares: its gradient at 0 is 0'
    """
    with np.errstate(all="ignore"):
        circuit, inputs = trace_with_inputs(f, args, kwargs)
        return blame_of(interpreter.run_all_outputs(circuit, inputs))


def check_grads(
    f: Callable[..., object] | Circuit, /, *args: object, order: int = 2, raises: bool = True, **kwargs: object
) -> GradientCheck:
    """Compare the derivative of every op that a function (or circuit) uses with a numerical one, at the values it sees.

    A wrong rule raises `CheckError`, which names the op, the wire, the line and both numbers; with `raises=False` it is
    only reported. The report lists kinks, and points where numerical derivatives cannot decide.

    >>> print(check_grads(lambda x, w: np.tanh(x * w), 0.5, -1.2))
    2 nodes, 3 wires, 3 rules to second order: all rules hold
    """
    report = check_gradients(f, args, kwargs, order=order)
    if raises and not report.ok:
        raise CheckError(str(report), report=report)
    return report


def record(capacity: int = 2000, **options: Any) -> LiveFlight:
    """Return a flight recorder for a training run: statistics per step and group, in bounded memory.

    Give it each step's loss, parameters and gradients. It finds the first step at which a gradient vanished, exploded
    or became non-finite; with `on_event="raise"` it stops the training there. `live=True` opens a page on which the
    training can be watched and paused, and `flight.explore()` opens it later; with `function=loss` the page opens the
    circuits of the steps before the first event.

    >>> flight = record()
    >>> for step in range(3):
    ...     events = flight.step(1.0, {"w": np.ones(2)}, {"w": np.array([0.1, np.nan if step == 2 else 0.2])})
    >>> flight.first("nonfinite").step
    2
    """
    return LiveFlight(capacity, **options)


def explain(value: Value) -> Explanation:
    """Explain the gradient of a value of define-by-run code; for a function use `wg.run(f, ...).explain(name)`.

    >>> w = Value(2.0, name="w")
    >>> explain(w).kind
    'none'
    """
    return explain_value(value)
