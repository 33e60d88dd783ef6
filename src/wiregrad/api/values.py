"""Values, transforms and tracing: what `wg.Value`, `wg.grad`, `wg.trace` and their like are. Loaded on first use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from wiregrad import draw
from wiregrad.api import CIRCUIT_NAMES, RUN_NAMES, Circuit, Run
from wiregrad.backends import interpreter
from wiregrad.errors import (
    OperandError,
    UnknownAttributeError,
    describe_submodule_name,
    lead_to,
    short_repr,
    suggest_name,
)
from wiregrad.frontends.recording.arguments import register_container, tree_map
from wiregrad.frontends.recording.hints import describe_module_name
from wiregrad.frontends.recording.record import convention, group, no_grad, places
from wiregrad.frontends.recording.value import PICTURE_MAKERS, Value
from wiregrad.frontends.transforms.derivatives import (
    elementwise_grad,
    grad,
    hessian,
    hvp,
    jacfwd,
    jacobian,
    jacrev,
    jvp,
    linearize,
    stop_gradient,
    value_and_grad,
    vjp,
)
from wiregrad.frontends.transforms.vmap_and_checkpoint import checkpoint, vmap
from wiregrad.ir import TABLE, CircuitGraph, Op, Pattern
from wiregrad.ir.certificates import pop_check_option
from wiregrad.lazy import load_module_lazily, load_names_lazily
from wiregrad.ops import elementwise_records
from wiregrad.ops.functions import FUNCTIONS

if TYPE_CHECKING:
    from wiregrad.frontends.recording import trace as tracing
    from wiregrad.frontends.recording.custom_ops import Function, once_differentiable, op
    from wiregrad.frontends.transforms.fitting import lbfgs, least_squares, newton
    from wiregrad.frontends.transforms.implicit import fixed_point, implicit, linear_solve, minimize, root
    from wiregrad.frontends.transforms.loops import cond, fori_loop, scan, switch, while_loop
    from wiregrad.frontends.transforms.memory_plans import plan_memory
    from wiregrad.frontends.transforms.ode import event, odeint
    from wiregrad.frontends.transforms.sparse import sparse_hessian, sparse_jacobian
else:
    tracing = load_module_lazily("wiregrad.frontends.recording.trace")
    __getattr__ = load_names_lazily(
        __name__,
        {
            **dict.fromkeys(("Function", "once_differentiable", "op"), "wiregrad.frontends.recording.custom_ops"),
            **dict.fromkeys(
                ("fixed_point", "implicit", "linear_solve", "minimize", "root"),
                "wiregrad.frontends.transforms.implicit",
            ),
            **dict.fromkeys(("lbfgs", "least_squares", "newton"), "wiregrad.frontends.transforms.fitting"),
            **dict.fromkeys(
                ("cond", "fori_loop", "scan", "switch", "while_loop"), "wiregrad.frontends.transforms.loops"
            ),
            "plan_memory": "wiregrad.frontends.transforms.memory_plans",
            **dict.fromkeys(("event", "odeint"), "wiregrad.frontends.transforms.ode"),
            **dict.fromkeys(("sparse_hessian", "sparse_jacobian"), "wiregrad.frontends.transforms.sparse"),
        },
    )

__all__ = [
    "FUNCTIONS",
    "Function",
    "Value",
    "checkpoint",
    "cond",
    "convention",
    "elementwise_grad",
    "event",
    "fixed_point",
    "fori_loop",
    "grad",
    "group",
    "hessian",
    "hvp",
    "implicit",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jvp",
    "lbfgs",
    "least_squares",
    "linear_solve",
    "linearize",
    "minimize",
    "newton",
    "no_grad",
    "odeint",
    "once_differentiable",
    "op",
    "places",
    "plan_memory",
    "register_container",
    "root",
    "run",
    "scan",
    "sparse_hessian",
    "sparse_jacobian",
    "stop_gradient",
    "switch",
    "trace",
    "tree_map",
    "value_and_grad",
    "vjp",
    "vmap",
    "while_loop",
]


QUESTION_HINTS = lead_to(CIRCUIT_NAMES, "wg.trace(f, x)") | lead_to(RUN_NAMES, "wg.run(f, x)")
"""What to write instead of names of circuits and runs."""


def find_function(
    name: str, known: Iterable[str] = (), list_submodules: Callable[[], Mapping[str, Iterable[str]]] = dict
) -> Callable[..., Any]:
    """Return the function or op of a name; the error suggests names among them, the known ones and those of modules.

    >>> find_function("softmax").__name__
    'softmax'
    """
    op = _find_number_op(name)
    if op is not None:
        return op
    if name in FUNCTIONS:
        return FUNCTIONS[name].run
    if name in TABLE and TABLE[name].pattern is not Pattern.SOURCE and not TABLE[name].per_call:
        return TABLE[name]
    hint = describe_module_name(name) or describe_submodule_name(name, list_submodules())
    question = QUESTION_HINTS.get(name)
    hint = hint or (f": {question}" if question else suggest_name(name, [*known, *list_functions()]))
    raise UnknownAttributeError(f"wiregrad has no {name!r}{hint}", name=name)


def _find_number_op(name: str) -> Op | None:
    """Return wiregrad's own op on numbers of this name, unless a function has the name; loads no deferred module.

    No deferred function has the name of such an op.
    """
    op = TABLE.find_loaded(name)
    is_own = op is not None and vars(elementwise_records).get(op.name) is op
    return op if is_own and name not in FUNCTIONS.loaded else None


def list_functions() -> list[str]:
    """Return the names of all functions that come from the op table, without those that people write otherwise.

    An op on whole arrays is left out: its settings are wiregrad's own, and a function with NumPy's arguments
    takes its place.

    >>> "softmax" in list_functions(), "sum_to" in list_functions()
    (True, False)
    """
    functions = [name for name, entry in FUNCTIONS.items() if entry.is_listed]
    return [*functions, *(name for name in TABLE.scalar_names() if name not in FUNCTIONS)]


def trace(f: Callable[..., object], /, *args: object, **kwargs: object) -> Circuit:
    """Return the circuit of a function at a point.

    Real and complex arguments become its inputs, named after the parameters. Inner nodes are named after the variables
    that held them, and know the line and the function they were written in. The values that steered Python are in
    `circuit.certificates`.

    >>> import numpy as np
    >>> def neuron(x, w, b):
    ...     n = x * w + b
    ...     return np.tanh(n)
    >>> trace(neuron, 2.0, -3.0, 6.5)
    Circuit(3 inputs, 3 nodes, 0 splitters, output f)
    """
    return Circuit(tracing.trace(f, *args, **kwargs).columns)


def run(f: Callable[..., object] | Value, /, *args: object, **kwargs: object) -> Run:
    """Trace a function at a point and run its circuit there, forward and backward; every value and gradient is kept.

    For a `Value`, the circuit that was recorded for it is run; a circuit is run itself.

    >>> result = run(lambda x, w: x * w + w, 2.0, -3.0)
    >>> result.output, result.grads
    (-9.0, {'x': -3.0, 'w': 3.0})
    >>> a = Value(2.0, name="a")
    >>> run(a * a).grads
    {'a': 4.0}
    """
    circuit, inputs = trace_with_inputs(f, args, kwargs)
    return Run.from_backend_run(interpreter.run_circuit(circuit, inputs))


MAX_VALUE_BOXES = 24
"""Maximum number of boxes in the picture that a notebook shows of a value."""
MAX_VALUE_BYTES = 100_000
"""Maximum size in bytes of what a notebook shows of a value."""


def _show_value(value: Value) -> dict[str, str]:
    """Return the small picture that a notebook shows of a value."""
    result = run(value)
    return draw.build_mimebundle(result.circuit, result, cap=MAX_VALUE_BOXES, limit=MAX_VALUE_BYTES)


PICTURE_MAKERS |= {"draw": run, "show": _show_value}


def _find_circuit(value: Value) -> tuple[CircuitGraph, list[Any]]:
    """Return the circuit that was recorded for a value, and its inputs."""
    return tracing.circuit_of_value(value)


setattr(Value, "__wiregrad_circuit__", _find_circuit)  # noqa: B010 - `wg.circuit(value)` looks for it


def trace_with_inputs(
    f: Callable[..., object] | Value, args: tuple[object, ...], kwargs: dict[str, object]
) -> tuple[Circuit, list[Any]]:
    """Return the circuit of a function at a point, or the circuit recorded for a value, and its inputs there.

    A circuit is returned itself: a trace of its call would have the inputs that are left out as constants.
    """
    if isinstance(f, Circuit):
        return _bind_circuit(f, args, kwargs)
    if not isinstance(f, Value):
        circuit, inputs = tracing.trace_at(f, args, kwargs)
        return Circuit(circuit.columns), inputs
    if args or kwargs:
        arguments = short_repr((*args, *kwargs.values()))
        raise OperandError(f"a wg.Value already has its inputs, so it takes no arguments; got {arguments}")
    circuit, inputs = tracing.circuit_of_value(f)
    return Circuit(circuit.columns), inputs


def _bind_circuit(circuit: Circuit, vector: tuple[object, ...], inputs: dict[str, object]) -> tuple[Circuit, list[Any]]:
    """Return a circuit and the values of its inputs, which are given as to `circuit.run`."""
    check = pop_check_option(circuit, inputs)
    values = interpreter.bind_inputs(circuit, vector, inputs, circuit._known_inputs)
    return circuit if check else circuit.unchecked(), values
