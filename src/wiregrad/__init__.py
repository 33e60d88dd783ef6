"""wiregrad: autodiff you can see through.

A formula, a Python function or a hand-built circuit runs forward and backward, and every wire can be inspected: its
value, its local derivative, the gradient that came back along it.

>>> import wiregrad as wg
>>> run = wg.circuit("e = a + b; f = e * c").run(a=2, b=-3, c=10)
>>> run.grads
{'a': 10.0, 'b': 10.0, 'c': -1.0}
>>> wg.grad(lambda x: x**3)(2.0)
12.0
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from wiregrad import ops
from wiregrad.api import Builder, Circuit, Run, circuit, diff, load
from wiregrad.errors import WiregradError, suggest_name

if TYPE_CHECKING:
    from wiregrad.api.diagnostics import anomaly, blame, check_grads, explain, record
    from wiregrad.api.values import (
        Function,
        Value,
        checkpoint,
        compile,
        convention,
        grad,
        group,
        hessian,
        hvp,
        jacobian,
        jvp,
        no_grad,
        once_differentiable,
        op,
        run,
        stop_gradient,
        trace,
        tree_map,
        value_and_grad,
        vjp,
        vmap,
    )

__version__ = "0.1.0.dev0"

__all__ = [
    "Builder",
    "Circuit",
    "Function",
    "Run",
    "Value",
    "WiregradError",
    "anomaly",
    "blame",
    "check_grads",
    "checkpoint",
    "circuit",
    "compile",
    "convention",
    "diff",
    "explain",
    "grad",
    "group",
    "hessian",
    "hvp",
    "jacobian",
    "jvp",
    "load",
    "no_grad",
    "once_differentiable",
    "op",
    "ops",
    "record",
    "run",
    "stop_gradient",
    "trace",
    "tree_map",
    "value_and_grad",
    "vjp",
    "vmap",
]


def __getattr__(name: str) -> Any:
    # Values, transforms and the functions made of ops (wg.softmax, wg.conv2d) are loaded on first use.
    if name.startswith("_"):
        raise AttributeError(name)
    values = import_module("wiregrad.api.values")
    if name in values.__all__:
        attribute = getattr(values, name)
    elif name in __all__:
        # Rarely used, so loaded separately.
        attribute = getattr(import_module("wiregrad.api.diagnostics"), name)
    elif name in values.FUNCTIONS:
        attribute = values.FUNCTIONS[name].run
    elif name in ops.TABLE.callable_names():
        # Not cached: users may define their own op again.
        return ops.TABLE[name]
    else:
        known = [*__all__, *values.FUNCTIONS, *ops.TABLE.callable_names()]
        raise AttributeError(f"wiregrad has no {name!r}{suggest_name(name, known)}")
    globals()[name] = attribute
    return attribute


def __dir__() -> list[str]:
    return [*__all__, *import_module("wiregrad.api.values").FUNCTIONS, *ops.TABLE.callable_names()]
