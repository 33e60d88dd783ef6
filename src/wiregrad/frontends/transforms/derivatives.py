"""Derivatives of functions: gradients, Jacobians, Hessians, and products with them.

A transform records the function once and sweeps the recording. Nested transforms record on the outer one's recording,
and their sweeps run on recorded values; a derivative is taken with respect to nodes, not to levels, so perturbations
cannot be confused.

Jacobians use the mode that needs fewer sweeps. A sweep is linear in what it starts from. So all rows or columns of a
Jacobian come from one sweep, at the end of this module: it is recorded once, for one unit vector, and the recording is
replayed on all of them, with one more axis in front, as `vmap` replays a function.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, TypeVarTuple, overload

import numpy as np
from numpy.typing import NDArray

from wiregrad.errors import GradientError, OperandError, ShapeError, format_user_line, short_repr
from wiregrad.frontends.recording.arguments import flatten, match_leaves, unflatten
from wiregrad.frontends.recording.session import (
    Argnames,
    Argnums,
    LiftedCall,
    RecordingSession,
    SpanNumbers,
    TapeSpan,
    add_input,
    check_argnums,
    check_callable,
    data_of,
    function_name,
    release_result,
    release_results,
)
from wiregrad.frontends.recording.tape import STATE, STRIDE, DroppedArray, Tape, TapeKind
from wiregrad.frontends.recording.transformed_function import TransformedFunction
from wiregrad.frontends.recording.value import Scalar, Value, settle_gradient
from wiregrad.frontends.transforms.vmap_and_checkpoint import apply_batched
from wiregrad.ops import Elementwise
from wiregrad.ops.functions import FUNCTIONS
from wiregrad.ops.gradient_flow import MaskedFlow, has_nan, match_dtype, multiply_flows
from wiregrad.passes import SilentWatcher, sweep_backward, sweep_forward

P = ParamSpec("P")
Result = TypeVar("Result")
Aux = TypeVar("Aux")
Argument = TypeVar("Argument", bound=Any)
"""The first argument, and the gradient by it; the bound lets the parameter of a lambda be anything."""
Arguments = TypeVarTuple("Arguments")

# A ufunc comes first in the overloads: what it takes cannot be read from NumPy's stubs.


@overload
def grad(
    f: np.ufunc,
    argnums: Argnums | None = None,
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
    *,
    argnames: Argnames | None = None,
) -> Callable[..., Any]: ...
@overload
def grad(  # type: ignore[overload-overlap]
    f: Callable[Concatenate[Argument, P], object],
    argnums: Literal[0] | None = None,
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
    *,
    argnames: None = None,
) -> Callable[Concatenate[Argument, P], Argument]: ...
@overload
def grad(
    f: Callable[P, object],
    argnums: int,
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
    *,
    argnames: None = None,
) -> Callable[P, Any]: ...
@overload
def grad(
    f: Callable[P, object],
    argnums: Sequence[int],
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
    *,
    argnames: Argnames | None = None,
) -> Callable[P, tuple[Any, ...]]: ...
@overload
def grad(
    f: Callable[P, object],
    argnums: int | None = None,
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
    *,
    argnames: Argnames,
) -> Callable[P, Any]: ...
@overload
def grad(
    f: Callable[P, tuple[object, Aux]],
    argnums: Argnums | None = None,
    *,
    has_aux: Literal[True],
    holomorphic: bool = False,
    argnames: Argnames | None = None,
) -> Callable[P, tuple[Any, Aux]]: ...
def grad(
    f: Callable[..., Any],
    argnums: Argnums | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
    *,
    argnames: Argnames | None = None,
) -> Callable[..., Any]:
    """Return the function that computes the gradient of f, by the first argument or by those that are named.

    >>> grad(lambda x: x**3)(2.0)
    12.0
    >>> grad(lambda x, w: x * w, argnames="w")(2.0, w=3.0)
    2.0
    """
    compute = make_value_and_grad(f, argnums, argnames, has_aux, holomorphic)

    def compute_gradient(*args: object, **kwargs: object) -> Any:
        value, grads = compute(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads

    return TransformedFunction(
        compute_gradient, grad, f, argnums=argnums, has_aux=has_aux, holomorphic=holomorphic, argnames=argnames
    )


@overload
def value_and_grad(
    f: np.ufunc,
    argnums: Argnums | None = None,
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
    *,
    argnames: Argnames | None = None,
) -> Callable[..., tuple[Any, Any]]: ...
@overload
def value_and_grad(  # type: ignore[overload-overlap]
    f: Callable[Concatenate[Argument, P], Result],
    argnums: Literal[0] | None = None,
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
    *,
    argnames: None = None,
) -> Callable[Concatenate[Argument, P], tuple[Result, Argument]]: ...
@overload
def value_and_grad(
    f: Callable[P, Result],
    argnums: int,
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
    *,
    argnames: None = None,
) -> Callable[P, tuple[Result, Any]]: ...
@overload
def value_and_grad(
    f: Callable[P, Result],
    argnums: Sequence[int],
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
    *,
    argnames: Argnames | None = None,
) -> Callable[P, tuple[Result, tuple[Any, ...]]]: ...
@overload
def value_and_grad(
    f: Callable[P, Result],
    argnums: Argnums | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
    *,
    argnames: Argnames,
) -> Callable[P, tuple[Result, Any]]: ...
@overload
def value_and_grad(
    f: Callable[P, Result],
    argnums: Argnums | None = None,
    *,
    has_aux: Literal[True],
    holomorphic: bool = False,
    argnames: Argnames | None = None,
) -> Callable[P, tuple[Result, Any]]: ...
def value_and_grad(
    f: Callable[..., Any],
    argnums: Argnums | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
    *,
    argnames: Argnames | None = None,
) -> Callable[..., Any]:
    """Return the function that computes the value and the gradient of f; with `has_aux`, f returns (value, anything).

    >>> value_and_grad(lambda x, y: x * y, argnums=(0, 1))(2.0, 3.0)
    (6.0, (3.0, 2.0))
    """
    compute_both = make_value_and_grad(f, argnums, argnames, has_aux, holomorphic)
    return TransformedFunction(
        compute_both, value_and_grad, f, argnums=argnums, has_aux=has_aux, holomorphic=holomorphic, argnames=argnames
    )


def make_value_and_grad(
    f: Callable[..., Any],
    argnums: Argnums | None,
    argnames: Argnames | None,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., tuple[Any, Any]]:
    """Return what the result of `value_and_grad` calls."""
    check_callable(f)
    check_argnums(argnums)

    def compute_both(*args: object, **kwargs: object) -> tuple[Any, Any]:
        call = LiftedCall(f, args, kwargs, argnums, argnames)
        session = call.session
        result, aux = _with_aux(call.result) if has_aux else (call.result, None)
        check_scalar_result(result, f, holomorphic=holomorphic)
        offset = session.offset_of(result)
        grads = session.pull_gradients([] if offset is None else [(offset, _unit_seed(result))], spend=True)
        if holomorphic:
            grads = [np.conjugate(g) for g in grads]
        session.close_recording()
        value = release_result(result, session)
        return (value, release_results(aux, session)) if has_aux else value, call.shape_like_arguments(grads)

    return compute_both


@overload
def elementwise_grad(
    f: np.ufunc, argnums: Argnums | None = None, *, argnames: Argnames | None = None
) -> Callable[..., Any]: ...
@overload
def elementwise_grad(
    f: Callable[P, object], argnums: Argnums | None = None, *, argnames: Argnames | None = None
) -> Callable[P, Any]: ...
def elementwise_grad(
    f: Callable[..., Any], argnums: Argnums | None = None, *, argnames: Argnames | None = None
) -> Callable[..., Any]:
    """Return the function that computes the gradient of the sum of all results of f, as autograd's does.

    For a function that works element by element, this is the derivative of each element.

    >>> import numpy as np
    >>> elementwise_grad(np.sin)(np.array([0.0, np.pi])).tolist()
    [1.0, -1.0]
    """
    check_callable(f)

    def compute_slopes(*args: object, **kwargs: object) -> Any:
        call = LiftedCall(f, args, kwargs, argnums, argnames)
        session = call.session
        results = flatten(call.result)[0]
        for result in results:
            _check_real(result, f, "take its real part or abs")
        seeds = [(at, np.ones_like(data_of(y))[()]) for y in results if (at := session.offset_of(y)) is not None]
        grads = session.pull_gradients(seeds, spend=True)
        session.close_recording()
        return call.shape_like_arguments(grads)

    return TransformedFunction(compute_slopes, elementwise_grad, f, argnums=argnums, argnames=argnames)


def _with_aux(result: object) -> tuple[Any, Any]:
    if not isinstance(result, tuple) or len(result) != 2:
        raise GradientError(f"with has_aux=True the function returns (value, anything); got {short_repr(result)}")
    return result


def check_scalar_result(result: object, f: object, *, holomorphic: bool = False) -> None:
    """Raise unless a result is one real number (or complex, if holomorphic), as reverse mode needs."""
    if isinstance(result, Scalar):
        return
    shape = getattr(result, "shape", None) if not isinstance(result, int | float | complex) else ()
    if shape is None:
        hint = "; for several results use the jacobian" if isinstance(result, list | tuple | dict) else ""
        raise GradientError(
            f"{function_name(f)} must return a number; "
            f"got {type(result).__name__} {short_repr(result)}{hint}{format_user_line()}"
        )
    if shape != ():
        index = ", ".join("0" * len(shape))
        mended = f"return y[{index}]" if set(shape) == {1} else "reduce it (np.sum)"
        raise GradientError(
            f"{function_name(f)} must return one number, not an array of shape {shape}; "
            f"{mended}, or use wg.jacobian{format_user_line()}"
        )
    if not holomorphic:
        _check_real(result, f, "take its real part, abs, or holomorphic=True")


def _check_real(result: object, f: object, advice: str) -> None:
    """Raise if a result is complex."""
    if np.asarray(data_of(result)).dtype.kind == "c":
        raise GradientError(f"{function_name(f)} returns a complex number; {advice}{format_user_line()}")


def _unit_seed(result: Value) -> float | np.inexact[Any]:
    return 1.0 if type(result._data) is float else result._data.dtype.type(1)


@overload
def vjp(f: np.ufunc, *primals: object, has_aux: bool = False) -> Any: ...
@overload
def vjp(
    f: Callable[[*Arguments], Result], *primals: *Arguments, has_aux: Literal[False] = False
) -> tuple[Result, Callable[[Result], tuple[*Arguments]]]: ...
@overload
def vjp(
    f: Callable[[*Arguments], tuple[Result, Aux]], *primals: *Arguments, has_aux: Literal[True]
) -> tuple[Result, Callable[[Result], tuple[*Arguments]], Aux]: ...
def vjp(f: Callable[..., Any], *primals: object, has_aux: bool = False) -> Any:
    """Return f's result and a function that pulls a cotangent of it back to the arguments.

    >>> y, pull = vjp(lambda x, y: x * y, 2.0, 3.0)
    >>> y, pull(1.0)
    (6.0, (3.0, 2.0))
    """
    check_callable(f)
    call = LiftedCall(f, primals, {}, tuple(range(len(primals))))
    result, aux = _with_aux(call.result) if has_aux else (call.result, None)
    results, tree = flatten(result)
    session = call.session
    session.close_recording()
    datas = [data_of(leaf) for leaf in results]
    places = [session.offset_of(leaf) for leaf in results]

    def pullback(cotangent: object) -> Any:
        seeds = [
            (at, as_cotangent(seed, data))
            for at, seed, data in zip(places, match_leaves(tree, cotangent, "the cotangent"), datas, strict=True)
            if at is not None
        ]
        return call.shape_like_arguments(session.pull_gradients(seeds))

    out = unflatten(tree, [release_result(leaf, session) for leaf in results])
    return (out, pullback, release_results(aux, session)) if has_aux else (out, pullback)


def as_cotangent(seed: object, data: Any, what: str = "the cotangent") -> Any:
    """Check a cotangent or tangent of a value, and convert it to the value's dtype."""
    raw = data_of(seed)
    if np.shape(raw) != np.shape(data):
        raise ShapeError(f"{what} must have the shape {np.shape(data)}; got {np.shape(raw)}{format_user_line()}")
    if isinstance(seed, Value):
        return seed
    if np.asarray(raw).dtype.kind not in ("fciu" if np.iscomplexobj(data) else "fiu"):
        raise OperandError(f"{what} must be made of numbers; got {short_repr(seed)}{format_user_line()}")
    return float(raw) if type(data) is float else np.asarray(raw).astype(data.dtype)[()]


@overload
def jvp(f: np.ufunc, primals: Sequence[object], tangents: Sequence[object], has_aux: bool = False) -> Any: ...
@overload
def jvp(
    f: Callable[[*Arguments], Result],
    primals: tuple[*Arguments],
    tangents: tuple[*Arguments],
    has_aux: Literal[False] = False,
) -> tuple[Result, Result]: ...
@overload
def jvp(
    f: Callable[[*Arguments], tuple[Result, Aux]],
    primals: tuple[*Arguments],
    tangents: tuple[*Arguments],
    has_aux: Literal[True],
) -> tuple[Result, Result, Aux]: ...
@overload
def jvp(f: Callable[..., object], primals: list[Any], tangents: list[Any], has_aux: bool = False) -> Any: ...
def jvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False) -> Any:
    """Return f's result and its directional derivative along tangents of the arguments, by forward mode.

    >>> jvp(lambda x: x**3, (2.0,), (1.0,))
    (8.0, 12.0)
    """
    check_callable(f)
    if not isinstance(primals, list | tuple) or not isinstance(tangents, list | tuple):
        raise OperandError("jvp takes primals and tangents as tuples: wg.jvp(f, (x,), (t,))")
    if len(primals) != len(tangents):
        raise OperandError(f"jvp needs one tangent per primal; got {len(primals)} and {len(tangents)}")
    call = LiftedCall(f, tuple(primals), {}, tuple(range(len(primals))))
    session = call.session
    result, aux = _with_aux(call.result) if has_aux else (call.result, None)
    results, tree = flatten(result)
    pushed = session.push_tangents(_match_tangents(call, tangents), results)
    session.close_recording()
    out = unflatten(tree, [release_result(leaf, session) for leaf in results]), unflatten(tree, pushed)
    return (*out, release_results(aux, session)) if has_aux else out


def hvp(f: Callable[[Argument], object], x: Argument, v: Argument) -> Argument:
    """Return the product of the Hessian of f at x with v, by forward mode over reverse mode.

    >>> import numpy as np
    >>> hvp(lambda x: x[0] ** 2 * x[1], np.array([2.0, 3.0]), np.array([1.0, 0.0])).tolist()
    [6.0, 4.0]
    """
    product: Argument = jvp(grad(f), (x,), (v,))[1]
    return product


def stop_gradient(x: Argument) -> Argument:
    """Return a container of values (or plain numbers) as constants: no gradient flows back through them.

    >>> grad(lambda x: x * stop_gradient(x))(3.0)
    3.0
    """
    leaves, tree = flatten(x)
    stopped: Argument = unflatten(tree, [leaf.detach() if isinstance(leaf, Value) else leaf for leaf in leaves])
    return stopped


@overload
def jacobian(
    f: np.ufunc,
    argnums: Argnums | None = None,
    mode: str | None = None,
    *,
    argnames: Argnames | None = None,
    holomorphic: bool = False,
) -> Callable[..., Any]: ...
@overload
def jacobian(
    f: Callable[P, object],
    argnums: Argnums | None = None,
    mode: str | None = None,
    *,
    argnames: Argnames | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[P, Any]: ...
def jacobian(
    f: Callable[..., Any],
    argnums: Argnums | None = None,
    mode: str | None = None,
    *,
    argnames: Argnames | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """Return the function that computes all derivatives of f's results by its arguments.

    Forward mode if there are fewer numbers in the arguments than in the results, else reverse mode; `mode` ("forward"
    or "reverse") overrides that. The shape of each derivative is that of the result followed by that of the argument.
    The derivative of a complex result by a real argument is complex, and that of a real result by a complex argument
    is its gradient. That of a complex result by a complex argument needs `holomorphic=True`: it is the complex
    derivative of a complex-differentiable function, and no single number for any other.

    >>> import numpy as np
    >>> jacobian(lambda x: x * x)(np.array([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    >>> print(jacobian(lambda x: np.exp(1j * x))(0.0))
    1j
    >>> print(jacobian(lambda z: z**2, holomorphic=True)(1 + 2j))
    (2+4j)
    """
    compute_jacobian = _make_jacobian(
        f, argnums, mode, argnames, COMPLEX_JACOBIAN, has_aux=has_aux, holomorphic=holomorphic
    )
    return TransformedFunction(
        compute_jacobian,
        jacobian,
        f,
        argnums=argnums,
        mode=mode,
        argnames=argnames,
        has_aux=has_aux,
        holomorphic=holomorphic,
    )


COMPLEX_JACOBIAN = (
    "maps complex numbers to complex numbers; its derivative is a complex number only if it is complex-differentiable: "
    "then pass holomorphic=True, else take the Jacobian of its real and imaginary parts by those of the argument"
)
COMPLEX_HESSIAN = (
    "has a complex gradient; its second derivative is a complex number only if it is complex-differentiable: then "
    "pass holomorphic=True, else take the Hessian by the real and imaginary parts of the argument, or wg.hvp along "
    "directions"
)
"""What to do about complex results, or gradients, of complex arguments."""


def _make_jacobian(
    f: Callable[..., Any],
    argnums: Argnums | None,
    mode: str | None,
    argnames: Argnames | None,
    advice: str,
    *,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """Return what the result of `jacobian` calls; `advice` is about complex results of complex arguments."""
    check_callable(f)
    check_argnums(argnums)
    if mode not in (None, "forward", "reverse"):
        raise OperandError(f"mode is 'forward', 'reverse' or None; got {short_repr(mode)}")

    @functools.wraps(f, updated=())
    def compute_jacobian(*args: object, **kwargs: object) -> Any:
        call = LiftedCall(f, args, kwargs, argnums, argnames)
        session = call.session
        result, aux = _with_aux(call.result) if has_aux else (call.result, None)
        results, tree = flatten(result)
        datas = [data_of(leaf) for leaf in results]
        for data in datas:
            if np.asarray(data).dtype.kind not in "fc":
                raise GradientError(
                    f"{function_name(f)} returns {short_repr(data)}, which has no derivative{format_user_line()}"
                )
        has_complex = any(map(np.iscomplexobj, session.data))
        if has_complex:
            _check_complex_results(datas, f, advice, holomorphic=holomorphic)
        chosen = mode or choose_mode(session.data, datas)
        compute_blocks = _forward_blocks if chosen == "forward" else reverse_blocks
        halves, counts = _split_complex(session, results)
        blocks = compute_blocks(session, halves, [data_of(half) for half in halves])
        session.close_recording()
        rows = _join_halves(session, blocks, counts)
        if has_complex and holomorphic:
            # The gradient of the real part is the conjugate of the complex derivative.
            rows = [
                [np.conjugate(one) if np.iscomplexobj(x) else one for one, x in zip(row, session.data, strict=True)]
                for row in rows
            ]
        derivatives = unflatten(tree, [call.shape_like_arguments(row) for row in rows])
        return (derivatives, release_results(aux, session)) if has_aux else derivatives

    return compute_jacobian


def make_value_and_jacobian(
    f: Callable[..., Any], argnums: Argnums | None = None, *, argnames: Argnames | None = None
) -> TransformedFunction:
    """Return the function that computes the results of f and their derivatives, in one run of f.

    >>> make_value_and_jacobian(lambda x: [x * x, 3.0 * x])(2.0)
    ([4.0, 6.0], [4.0, 3.0])
    """

    @functools.wraps(f, updated=())
    def compute_twice(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        result = f(*args, **kwargs)
        return result, result

    differentiated = jacobian(compute_twice, argnums, argnames=argnames, has_aux=True)

    def compute_both(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        derivatives, result = differentiated(*args, **kwargs)
        return result, derivatives

    return TransformedFunction(compute_both, make_value_and_jacobian, f, argnums=argnums, argnames=argnames)


def _check_complex_results(datas: list[Any], f: object, advice: str, *, holomorphic: bool) -> None:
    """Raise unless the derivatives of results by complex arguments are numbers of the kind that is asked for."""
    for data in datas:
        if np.iscomplexobj(data) and not holomorphic:
            raise GradientError(f"{function_name(f)} {advice}{format_user_line()}")
        if holomorphic and not np.iscomplexobj(data):
            raise GradientError(
                f"with holomorphic=True {function_name(f)} must return complex numbers; got {short_repr(data)}: a "
                f"function with real results is not complex-differentiable, so leave it out{format_user_line()}"
            )


@overload
def jacfwd(
    f: np.ufunc,
    argnums: Argnums | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
    *,
    argnames: Argnames | None = None,
) -> Callable[..., Any]: ...
@overload
def jacfwd(
    f: Callable[P, object],
    argnums: Argnums | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
    *,
    argnames: Argnames | None = None,
) -> Callable[P, Any]: ...
def jacfwd(
    f: Callable[..., Any],
    argnums: Argnums | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
    *,
    argnames: Argnames | None = None,
) -> Callable[..., Any]:
    """Return the function that computes the Jacobian of f by forward mode: one sweep per number in the arguments.

    >>> import numpy as np
    >>> jacfwd(lambda x: x * np.ones(3))(2.0).tolist()
    [1.0, 1.0, 1.0]
    """
    return jacobian(f, argnums, "forward", argnames=argnames, has_aux=has_aux, holomorphic=holomorphic)


@overload
def jacrev(
    f: np.ufunc,
    argnums: Argnums | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
    *,
    argnames: Argnames | None = None,
) -> Callable[..., Any]: ...
@overload
def jacrev(
    f: Callable[P, object],
    argnums: Argnums | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
    *,
    argnames: Argnames | None = None,
) -> Callable[P, Any]: ...
def jacrev(
    f: Callable[..., Any],
    argnums: Argnums | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
    *,
    argnames: Argnames | None = None,
) -> Callable[..., Any]:
    """Return the function that computes the Jacobian of f by reverse mode: one sweep per number in the results.

    >>> import numpy as np
    >>> jacrev(lambda x: x[0] * x[1])(np.array([2.0, 3.0])).tolist()
    [3.0, 2.0]
    """
    return jacobian(f, argnums, "reverse", argnames=argnames, has_aux=has_aux, holomorphic=holomorphic)


@overload
def linearize(f: np.ufunc, *primals: object) -> Any: ...
@overload
def linearize(
    f: Callable[[*Arguments], Result], *primals: *Arguments
) -> tuple[Result, Callable[[*Arguments], Result]]: ...
def linearize(f: Callable[..., Any], *primals: object) -> Any:
    """Return f's result and a function that pushes tangents of the arguments forward; f itself runs only once.

    >>> y, push = linearize(lambda x: x**3, 2.0)
    >>> y, push(1.0), push(10.0)
    (8.0, 12.0, 120.0)
    """
    check_callable(f)
    call = LiftedCall(f, primals, {}, tuple(range(len(primals))))
    session = call.session
    results, tree = flatten(call.result)
    session.close_recording()

    def push_forward(*tangents: object) -> Any:
        return unflatten(tree, session.push_tangents(_match_tangents(call, tangents), results))

    return unflatten(tree, [release_result(leaf, session) for leaf in results]), push_forward


def _match_tangents(call: LiftedCall, tangents: Sequence[Any]) -> list[Any]:
    """Return the tangents of all lifted leaves, given one for each argument in its structure."""
    if len(tangents) != len(call.trees):
        raise OperandError(f"one tangent per argument is needed; got {len(tangents)} for {len(call.trees)}")
    leaves = [
        leaf
        for tree, tangent in zip(call.trees, tangents, strict=True)
        for leaf in match_leaves(tree, tangent, "a tangent")
    ]
    return [as_cotangent(t, data, "a tangent") for t, data in zip(leaves, call.session.data, strict=True)]


def choose_mode(inputs: Sequence[Any], outputs: Sequence[Any]) -> str:
    """Return the mode that needs fewer sweeps.

    >>> choose_mode([np.zeros(2)], [np.zeros(5)]), choose_mode([np.zeros(5)], [np.zeros(2)])
    ('forward', 'reverse')
    """
    if any(np.iscomplexobj(x) for x in inputs):
        # Forward mode needs two directions for each complex number.
        return "reverse"
    return "forward" if sum(map(np.size, inputs)) < sum(map(np.size, outputs)) else "reverse"


def _split_complex(session: RecordingSession, results: list[Any]) -> tuple[list[Any], list[int]]:
    """Return the results, complex ones as real and imaginary part if an argument is real; and the parts of each."""
    if all(map(np.iscomplexobj, session.data)) or not any(np.iscomplexobj(data_of(y)) for y in results):
        return results, [1] * len(results)
    real, imag = FUNCTIONS["real"].run, FUNCTIONS["imag"].run
    with STATE.record_on(session.tape):
        parts = [[real(y), imag(y)] if np.iscomplexobj(data_of(y)) else [y] for y in results]
    return [half for part in parts for half in part], list(map(len, parts))


def _join_halves(session: RecordingSession, blocks: list[list[Any]], counts: list[int]) -> list[list[Any]]:
    """Return the derivatives of each result by each argument; complex where only the result is complex."""
    waiting = iter(blocks)
    rows = []
    for count in counts:
        halves = [next(waiting) for _ in range(count)]
        row = halves[0]
        if count == 2:
            row = [
                one if np.iscomplexobj(x) else one + 1j * two for one, two, x in zip(*halves, session.data, strict=True)
            ]
        rows.append(row)
    return rows


def reverse_blocks(session: RecordingSession, results: list[Any], datas: list[Any]) -> list[list[Any]]:
    """Return the derivatives per result and argument, by one reverse sweep per number in the results."""
    blocks = []
    for result, data in zip(results, datas, strict=True):
        batched = pull_units(session, result)
        if batched is not None:
            blocks.append(
                [part.reshape(np.shape(data) + np.shape(x)) for part, x in zip(batched, session.data, strict=True)]
            )
            continue
        at = session.offset_of(result)
        pulled = [session.pull_gradients([] if at is None else [(at, unit)]) for unit in unit_vectors(data)]
        blocks.append(
            [
                _stack_blocks([row[k] for row in pulled], np.shape(data), np.shape(x), x)
                for k, x in enumerate(session.data)
            ]
        )
    return blocks


def _forward_blocks(session: RecordingSession, results: list[Any], datas: list[Any]) -> list[list[Any]]:
    """Return the derivatives per result and argument, by one forward sweep per number in the arguments."""
    pushed = [_push_each_unit(session, k, results) for k in range(len(session.data))]
    return [
        [
            _put_result_axes_first(
                _stack_blocks([match_dtype(column, x) for column in pushed[k][r]], np.shape(x), np.shape(data), x),
                np.ndim(x),
                np.ndim(data),
            )
            for k, x in enumerate(session.data)
        ]
        for r, data in enumerate(datas)
    ]


def _push_each_unit(session: RecordingSession, k: int, results: list[Any]) -> list[Sequence[Any]]:
    """Return the derivatives of each result by the numbers of an argument, one after the other."""
    batched = push_units(session, k, results)
    if batched is not None:
        return batched
    columns = [_push_unit(session, k, unit, results) for unit in unit_vectors(session.data[k])]
    return [[column[r] for column in columns] for r in range(len(results))]


def _push_unit(session: RecordingSession, k: int, unit: Any, results: list[Any]) -> list[Any]:
    """Return the derivatives by one number of an argument; for a complex one, by its real and imaginary part."""
    rest = [None] * (len(session.data) - k - 1)
    along = session.push_tangents([*[None] * k, unit, *rest], results)
    if not np.iscomplexobj(session.data[k]):
        return along
    across = session.push_tangents([*[None] * k, multiply_flows(unit, 1j), *rest], results)
    real = FUNCTIONS["real"].run
    return [real(one) + 1j * real(two) for one, two in zip(along, across, strict=True)]


def unit_vectors(data: Any) -> Iterator[Any]:
    """Return the unit vectors in the shape of a number or array, as flows: their zeros are absent.

    So a slope of inf at another element, as that of a square root at 0, gives 0 and not NaN.
    """
    if np.ndim(data) == 0:
        yield 1.0 if type(data) is float else np.asarray(data).dtype.type(1)
        return
    for k in range(np.size(data)):
        yield mask_zeros(_unit_vector(data, k))


def _unit_vector(data: Any, k: int) -> Any:
    unit = np.zeros(np.shape(data), data.dtype)
    unit.flat[k] = 1.0
    return unit


def mask_zeros(seed: NDArray[Any]) -> MaskedFlow:
    """Return the flow of an array of numbers that is absent where they are 0."""
    return MaskedFlow(seed != 0, seed, filled=True)


def _stack_blocks(parts: list[Any], outer: tuple[int, ...], inner: tuple[int, ...], like: Any) -> Any:
    """Join the results of sweeps to one array of shape `outer + inner`."""
    if not parts:
        return np.zeros(outer + inner, np.asarray(like).dtype)
    if not outer:
        return parts[0]
    return FUNCTIONS["reshape"].run(FUNCTIONS["stack"].run(parts), outer + inner)


def _put_result_axes_first(block: Any, inputs: int, outputs: int) -> Any:
    """Move the result's axes in front of the argument's."""
    if not inputs or not outputs:
        return block
    return FUNCTIONS["transpose"].run(block, (*range(inputs, inputs + outputs), *range(inputs)))


@overload
def hessian(
    f: np.ufunc, argnums: Argnums | None = None, *, argnames: Argnames | None = None, holomorphic: bool = False
) -> Callable[..., Any]: ...
@overload
def hessian(
    f: Callable[P, object],
    argnums: Argnums | None = None,
    *,
    argnames: Argnames | None = None,
    holomorphic: bool = False,
) -> Callable[P, Any]: ...
def hessian(
    f: Callable[..., Any],
    argnums: Argnums | None = None,
    *,
    argnames: Argnames | None = None,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """Return the function that computes the second derivatives of f: the Jacobian of its Jacobian.

    Those by complex arguments need `holomorphic=True` and an f that is complex-differentiable.

    >>> import numpy as np
    >>> hessian(lambda x: x[0] ** 2 * x[1])(np.array([2.0, 3.0])).tolist()
    [[6.0, 4.0], [4.0, 0.0]]
    """
    first = _make_jacobian(f, argnums, None, argnames, COMPLEX_HESSIAN, holomorphic=holomorphic)
    second = _make_jacobian(first, argnums, None, argnames, COMPLEX_HESSIAN, holomorphic=holomorphic)
    return TransformedFunction(second, hessian, f, argnums=argnums, argnames=argnames, holomorphic=holomorphic)


MIN_UNITS = 4
"""The least number of unit vectors for which recording the sweep pays."""
MAX_BATCH_ELEMENTS = 1 << 18
"""Maximum number of elements of an array with an axis of unit vectors; more are split into several batches."""

LinearSweep = Callable[[Any], list[Any]]
"""Runs a sweep from a start, recorded or a flow; returns arrays or values that depend on the start linearly."""


def pull_units(session: RecordingSession, result: Any) -> list[Any] | None:
    """Return the gradients of all arguments for every number of a result, along a first axis.

    None if one sweep for each number is to be run instead.
    """
    data = data_of(result)
    offset = session.offset_of(result)
    if offset is None or not _can_batch(session, offset + STRIDE, data):
        return None
    span = TapeSpan(session.tape, session.start, offset + STRIDE, session.offsets)

    def sweep(seed: Any) -> list[Any]:
        flows = sweep_backward(span, SpanNumbers(span), {span.index_of(offset): seed}, SilentWatcher())
        at = [span.index_of(place) for place in session.offsets]
        found = [flows[k] if k < len(flows) else None for k in at]
        return [settle_gradient(flow, x) for flow, x in zip(found, session.data, strict=True)]

    return _replay_on_units(sweep, span, data)


def push_units(session: RecordingSession, k: int, results: list[Any]) -> list[Any] | None:
    """Return the tangents of all results for every number of an argument, along a first axis.

    None if one sweep for each number is to be run instead.
    """
    x = session.data[k]
    places = [session.offset_of(result) for result in results]
    if any(place is None for place in places) or np.iscomplexobj(x):
        return None
    stop = max(place + STRIDE for place in places if place is not None)
    if session.offsets[k] >= stop or not _can_batch(session, stop, x):
        return None
    span = TapeSpan(session.tape, session.start, stop, session.offsets)

    def sweep(seed: Any) -> list[Any]:
        flows = sweep_forward(span, SpanNumbers(span), {span.index_of(session.offsets[k]): seed})
        found = [flows[span.index_of(place)] for place in places if place is not None]
        return [settle_gradient(flow, data_of(result)) for flow, result in zip(found, results, strict=True)]

    return _replay_on_units(sweep, span, x)


def _can_batch(session: RecordingSession, stop: int, start: Any) -> bool:
    """Return whether a sweep may be recorded: on plain numbers, through ops whose rules are known."""
    if np.size(start) < MIN_UNITS or STATE.watch is not None or session.tape.hooks:
        return False
    if session.outer is not None or session.has_outside_inputs(stop):
        return False
    ops = {node.op for _, node in session.tape.walk_nodes(session.start, stop)}
    return not any(op.per_call or (isinstance(op, Elementwise) and op.opaque) for op in ops)


def _replay_on_units(sweep: LinearSweep, span: TapeSpan, start: Any) -> list[Any] | None:
    """Record a sweep from the first unit vector, and replay it on all of them; None if that cannot be done."""
    largest = max(span.largest_size(), 1)
    count = np.size(start)
    length = min(count, MAX_BATCH_ELEMENTS // largest)
    if length < MIN_UNITS:
        return None
    units = np.eye(count, dtype=start.dtype).reshape(count, *np.shape(start))
    tape = Tape(TapeKind.APART)
    with np.errstate(all="ignore"), STATE.record_on(tape):
        seed = add_input(tape, units[0])
        ends = sweep(seed)
    nodes = _nodes_to_replay(tape, seed, ends)
    if nodes is None:
        return None
    with np.errstate(all="ignore"):
        parts = [_replay_nodes(nodes, seed, ends, units[first : first + length]) for first in range(0, count, length)]
    rows = [np.concatenate(columns) if len(columns) > 1 else columns[0] for columns in zip(*parts, strict=True)]
    return _sweep_absent_zeros(sweep, rows, units)


def _sweep_absent_zeros(sweep: LinearSweep, rows: list[Any], units: Any) -> list[Any]:
    """Return the rows of a Jacobian with those swept again that have a NaN, where zeros of a unit vector are absent.

    A batch multiplies them as numbers, and 0 times an infinite slope is NaN.
    """
    wrong = {k for row in rows if has_nan(row) for k in np.flatnonzero(_find_nan(row)).tolist()}
    if not wrong:
        return rows
    mended = [np.array(row) for row in rows]
    for k in wrong:
        with np.errstate(all="ignore"):
            ends = sweep(mask_zeros(units[k]))
        for row, end in zip(mended, ends, strict=True):
            row[k] = end
    return mended


def _find_nan(row: Any) -> Any:
    """Return for each unit vector whether a derivative along it is NaN."""
    return np.isnan(row.reshape(len(row), -1)).any(axis=1)


def _nodes_to_replay(tape: Tape, seed: Value, ends: list[Any]) -> list[tuple[int, Any]] | None:
    """Return the nodes that the ends of a sweep depend on, in order; None if an operand was not kept."""
    needed = {end._index for end in ends if isinstance(end, Value)}
    nodes = list[tuple[int, Any]]()
    for offset, node in tape.walk_nodes(0, len(tape.buffer)):
        if offset not in needed or offset == seed._index:
            continue
        if any(source < 0 and type(x) is DroppedArray for source, x in zip(node.sources, node.xs, strict=True)):
            return None
        needed.update(source for source in node.sources if source >= 0)
        nodes.append((offset, node))
    return nodes[::-1]


def _replay_nodes(nodes: list[tuple[int, Any]], seed: Value, ends: list[Any], units: Any) -> list[Any]:
    """Return the ends of a sweep for a batch of unit vectors."""
    size = len(units)
    computed: dict[int, tuple[Any, bool]] = {seed._index: (units, True)}
    for offset, node in nodes:
        operands = [
            (x, False) if source < 0 else computed[source] for source, x in zip(node.sources, node.xs, strict=True)
        ]
        computed[offset] = apply_batched(node.op, operands, size)
    return [
        computed[end._index][0] if isinstance(end, Value) else np.broadcast_to(end, (size, *np.shape(end)))
        for end in ends
    ]
