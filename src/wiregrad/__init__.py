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

from typing import TYPE_CHECKING

from wiregrad import ops
from wiregrad.api import Builder, Circuit, ImportedCircuit, Run, circuit, diff, load
from wiregrad.errors import WiregradError
from wiregrad.ir import TABLE as _TABLE
from wiregrad.lazy import import_module as _import_module
from wiregrad.lazy import load_module_lazily, load_names_lazily

if TYPE_CHECKING:
    from wiregrad.api import functions as _functions
    from wiregrad.api import values as _values
    from wiregrad.api.compiled_function import compile
    from wiregrad.api.diagnostics import anomaly, blame, check_grads, explain, record
    from wiregrad.api.functions import *  # noqa: F403 - the stub lists them
    from wiregrad.api.submodules import draw_batches, mean_value_and_grad, nn, optim, train
    from wiregrad.api.values import (
        Function,
        Value,
        checkpoint,
        cond,
        convention,
        elementwise_grad,
        event,
        fixed_point,
        fori_loop,
        grad,
        group,
        hessian,
        hvp,
        implicit,
        jacfwd,
        jacobian,
        jacrev,
        jvp,
        lbfgs,
        least_squares,
        linear_solve,
        linearize,
        minimize,
        newton,
        no_grad,
        odeint,
        once_differentiable,
        op,
        places,
        plan_memory,
        register_container,
        root,
        run,
        scan,
        sparse_hessian,
        sparse_jacobian,
        stop_gradient,
        switch,
        trace,
        tree_map,
        value_and_grad,
        vjp,
        vmap,
        while_loop,
    )
    from wiregrad.exchange import from_jax, from_onnx, from_torch, watch
    from wiregrad.files import load_arrays, save_arrays
    from wiregrad.learn.quiz import Quiz
else:
    _values = load_module_lazily("wiregrad.api.values")

__version__ = "0.1.0"

__all__ = [
    "Builder",
    "Circuit",
    "Function",
    "ImportedCircuit",
    "Quiz",
    "Run",
    "Value",
    "WiregradError",
    "anomaly",
    "blame",
    "check_grads",
    "checkpoint",
    "circuit",
    "compile",
    "cond",
    "convention",
    "diff",
    "draw_batches",
    "elementwise_grad",
    "event",
    "explain",
    "fixed_point",
    "fori_loop",
    "from_jax",
    "from_onnx",
    "from_torch",
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
    "load",
    "load_arrays",
    "mean_value_and_grad",
    "minimize",
    "newton",
    "nn",
    "no_grad",
    "odeint",
    "once_differentiable",
    "op",
    "ops",
    "optim",
    "places",
    "plan_memory",
    "record",
    "register_container",
    "root",
    "run",
    "save_arrays",
    "scan",
    "sparse_hessian",
    "sparse_jacobian",
    "stop_gradient",
    "switch",
    "trace",
    "train",
    "tree_map",
    "value_and_grad",
    "vjp",
    "vmap",
    "watch",
    "while_loop",
]

if TYPE_CHECKING:
    __all__ += _functions.__all__


def _find_function(name: str) -> object:
    """Return a function made of ops, or an op; users may define an op again, so it is compared with the table."""
    op = _found_ops.get(name)
    if op is not None and name in _TABLE and _TABLE[name] is op:
        return op
    function = _values.find_function(name, __all__, _list_submodules)
    if isinstance(function, ops.Op):
        _found_ops[name] = function
    else:
        globals()[name] = function
    return function


def _list_submodules() -> dict[str, list[str]]:
    """Return the public names of the modules of networks and optimisers."""
    return {name: list(_import_module(f"{__name__}.{name}").__all__) for name in ("optim", "nn", "nn.scalar")}


_found_ops: dict[str, object] = {}


if not TYPE_CHECKING:
    # Values, transforms and the functions made of ops (wg.softmax, wg.conv2d) are loaded on first use; questions, which
    # are rarer, apart from them.
    __getattr__ = load_names_lazily(
        __name__,
        {
            **{name: "wiregrad.api.values" for name in __all__ if name not in globals()},
            **dict.fromkeys(("anomaly", "blame", "check_grads", "explain", "record"), "wiregrad.api.diagnostics"),
            "compile": "wiregrad.api.compiled_function",
            "Quiz": "wiregrad.learn.quiz",
            **dict.fromkeys(("from_jax", "from_onnx", "from_torch", "watch"), "wiregrad.exchange"),
            **dict.fromkeys(("draw_batches", "mean_value_and_grad", "train"), "wiregrad.training"),
            **dict.fromkeys(("load_arrays", "save_arrays"), "wiregrad.files"),
            "nn": "wiregrad.nn",
            "optim": "wiregrad.optim",
        },
        otherwise=_find_function,
    )


def __dir__() -> list[str]:
    return sorted({*__all__, *_values.list_functions()})
