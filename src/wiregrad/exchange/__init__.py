"""Exchange with other frameworks: watch a PyTorch run, take circuits in from frameworks, and give them out.

Start with `observed_run`: the ops of a framework's run with the framework's own values and gradients. What can be asked
of them is there too, in `observed_explain`, `observed_flow` and `observed_errors`; `observed_advice` says what to write
instead of an op that broke. `torch_watch` records one from PyTorch, and `torch_import` makes a circuit of it, by the
map of ops in `torch_ops`. `jax_import` makes circuits of JAX functions. `framework_export` gives circuits to JAX and
PyTorch, and `onnx_files` writes and reads ONNX. A framework is imported when it is first needed; without it, the error
says how to install it.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, overload

from wiregrad.errors import InputError, short_repr
from wiregrad.ir.circuit import CIRCUIT_MAKERS
from wiregrad.lazy import load_module_lazily

if TYPE_CHECKING:
    from wiregrad.exchange import jax_import, onnx_files, torch_import
else:
    jax_import = load_module_lazily("wiregrad.exchange.jax_import")
    onnx_files = load_module_lazily("wiregrad.exchange.onnx_files")
    torch_import = load_module_lazily("wiregrad.exchange.torch_import")

__all__ = ["from_jax", "from_onnx", "from_torch", "watch"]


@overload
def watch(model: Any = None, *, keep: int | str = "auto", stop: bool = False) -> "torch_import.WatchedProgram": ...


@overload
def watch(
    model: Callable[..., Any], argument: object, /, *args: object, max_steps: int = 1000
) -> "jax_import.WatchedFunction | torch_import.WatchedProgram": ...


def watch(model: Any = None, *args: object, keep: int | str = "auto", stop: bool = False, max_steps: int = 1000) -> Any:
    """Record what PyTorch does inside a `with` block, or what JAX does for a function, so that it can be asked why.

    For PyTorch, `model` gives modules and parameters their names; other modules are named after their class. `keep`
    says how many bytes of values to hold, or `"all"`; beyond that, and with `"summaries"`, sizes and counts are held
    instead. With `"auto"`, program and watch together take at most three times the memory of the program. With `stop`
    the block ends with a `NonFiniteError` after the first step whose loss or gradients are not finite.

    A function of JAX or PyTorch is watched with its arguments: it is run once, on copies of them, with the gradient of
    its first result. Loops of JAX are unrolled up to `max_steps` steps.

    >>> import torch
    >>> x = torch.zeros(2, requires_grad=True)
    >>> with watch() as seen:
    ...     x.sqrt().sum().backward()
    >>> seen.blame().origins[0].op
    'sqrt'
    >>> watch(lambda x: x.sqrt().sum(), torch.zeros(2)).blame().origins[0].op
    'sqrt'
    >>> import jax.numpy as jnp
    >>> watch(lambda x: jnp.sum(jnp.sqrt(x)), jnp.zeros(2)).blame().origins[0].op
    'sqrt'
    """
    if not args:
        if callable(model) and not is_of_torch(model):
            raise InputError(
                f"watch({short_repr(model)}) lacks arguments: a function is watched as "
                "wg.watch(loss, params, x), and a PyTorch program as `with wg.watch(model) as seen:`"
            )
        return torch_import.WatchedProgram(model, keep=keep, stop=stop)
    if not callable(model) or keep != "auto" or stop:
        raise InputError("watch(function, *args) takes a function; keep= and stop= are for `with wg.watch(model)`")
    check_arguments("watch", model, args, {})
    if any(map(holds_tensors, (model, *args))):
        return torch_import.watch_function(model, args, {})
    return jax_import.WatchedFunction(model, args, max_steps)


def watch_whole(function: Callable[..., Any], framework: str, args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """Watch a function of the named framework, with a gradient of 1 from every number of all its results."""
    if framework == "torch":
        return torch_import.watch_function(function, args, keywords, whole=True)
    return jax_import.WatchedFunction(function, args, whole=True)


def check_arguments(
    caller: str, function: Callable[..., Any], args: Sequence[object], keywords: Mapping[str, object]
) -> None:
    """Raise if a function does not take these arguments: it is run with them at once, not called later.

    >>> check_arguments("from_jax", lambda p, x: p, (), {})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    wiregrad.errors.InputError: wg.from_jax runs the function at once, ...
    """
    forward = getattr(function, "forward", None) if is_of_torch(function) else None
    try:
        signature = inspect.signature(forward or function)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*args, **keywords)
    except TypeError as mismatch:
        name = getattr(function, "__name__", "")
        if not name.isidentifier():
            name = "model" if forward else "f"
        parameters = signature.parameters.values()
        needed = [parameter for parameter in parameters if parameter.default is parameter.empty]
        names = ", ".join(map(describe_parameter, needed or parameters))
        not_later = f", not wg.{caller}({name})({names})" if not args and not keywords else ""
        raise InputError(
            f"wg.{caller} runs the function at once, with arguments that follow it: write "
            f"wg.{caller}({name}, {names}){not_later}; {mismatch}"
        ) from None


def describe_parameter(parameter: inspect.Parameter) -> str:
    """Write a parameter of a function as an argument of a call.

    >>> [describe_parameter(one) for one in inspect.signature(lambda x, n=2, *args: x).parameters.values()]
    ['x', 'n', '*args']
    """
    stars: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
        return f"{parameter.name}={parameter.name}"
    return f"{stars.get(parameter.kind, '')}{parameter.name}"


def holds_tensors(value: object) -> bool:
    """Return whether a value is a module or tensor of PyTorch, or a dict or list that has one.

    >>> holds_tensors([3.0])
    False
    """
    if isinstance(value, Mapping):
        return any(map(holds_tensors, value.values()))
    if isinstance(value, list | tuple):
        return any(map(holds_tensors, value))
    return is_of_torch(value)


def is_of_torch(value: object) -> bool:
    """Return whether a value is a module or tensor of PyTorch, which need not be installed.

    >>> is_of_torch(3.0)
    False
    """
    return any(kind.__module__.partition(".")[0] == "torch" for kind in type(value).__mro__)


def from_torch(function: Callable[..., Any], /, *args: object, opaque: bool = False, **kwargs: object) -> Any:
    """Run a PyTorch function or module once and return its circuit, an `ImportedCircuit`.

    Floating tensors among the arguments, and parameters, are inputs under their names; modules are groups, and nodes
    have the lines of your files. Gradients follow wiregrad's rules. Ops that wiregrad does not know raise
    `UnknownOpsError`, which lists them all; with `opaque=True` they become nodes that call PyTorch.

    >>> import torch
    >>> circuit = from_torch(lambda x: torch.where(x > 0, x.sqrt(), 0.0).sum(), torch.tensor([0.0, 4.0]))
    >>> circuit.run().grads["x"].tolist()
    [0.0, 0.25]
    """
    check_arguments("from_torch", function, args, kwargs)
    return torch_import.make_circuit(*torch_import.import_function(function, args, kwargs, opaque=opaque))


def from_jax(function: Callable[..., Any], /, *args: object, max_steps: int = 1000) -> Any:
    """Return the circuit of a JAX function at a point, an `ImportedCircuit`: real and complex arguments are its inputs.

    Nodes have the lines of your files. `scan` and `while` are unrolled, up to `max_steps` steps; of a `cond` the branch
    of these arguments is taken, and the circuit raises `BranchError` where another one would be. Functions with a rule
    of their own (`custom_vjp`, `custom_jvp`) are nodes that call JAX; all other gradients follow wiregrad's rules.

    >>> from_jax(lambda x: x * x, 3.0).run().grads
    {'x': 6.0}
    """
    check_arguments("from_jax", function, args, {})
    circuit, point = jax_import.import_function(function, *args, max_steps=max_steps)
    return CIRCUIT_MAKERS[0](circuit.columns, point, ())


def from_onnx(
    path: str | PathLike[str], *, shapes: Mapping[str, Sequence[int]] | None = None, weights: bool = True
) -> Any:
    """Read a circuit from an ONNX file, an `ImportedCircuit`; files from untrusted sources are safe to read.

    Float arrays in the file are inputs that keep their values, unless `weights=False` makes them constants. Inputs
    whose shape the file leaves open get it from `shapes`, by name.

    >>> import tempfile
    >>> import wiregrad as wg
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     wg.circuit("y = x * x").to_onnx(f"{folder}/square.onnx")
    ...     print(from_onnx(f"{folder}/square.onnx").run(x=3.0).grads)
    {'x': 6.0}
    """
    circuit, point = onnx_files.read_onnx(path, shapes=shapes, weights=weights)
    return CIRCUIT_MAKERS[0](circuit.columns, point, point)
