"""Jacobians and Hessians, by the mode that needs fewer sweeps."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from wiregrad.errors import GradientError, OperandError, short_repr, format_user_line
from wiregrad.frontends.session import (
    Argnums,
    LiftedCall,
    RecordingSession,
    check_callable,
    data_of,
    function_name,
)
from wiregrad.frontends.tree import flatten, unflatten
from wiregrad.ops.flow import match_dtype
from wiregrad.ops.functions import FUNCTIONS


def jacobian(f: Callable[..., Any], argnums: Argnums = 0, mode: str | None = None) -> Callable[..., Any]:
    """Return the function that computes all derivatives of f's results by its arguments.

    Forward mode if there are fewer numbers in the arguments than in the results, else reverse mode; `mode` ("forward"
    or "reverse") overrides that. The shape of each derivative is that of the result followed by that of the argument.

    >>> import numpy as np
    >>> jacobian(lambda x: x * x)(np.array([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """
    check_callable(f)
    if mode not in (None, "forward", "reverse"):
        raise OperandError(f"mode is 'forward', 'reverse' or None; got {short_repr(mode)}")

    @functools.wraps(f, updated=())
    def compute_jacobian(*args: Any, **kwargs: Any) -> Any:
        call = LiftedCall(f, args, kwargs, argnums)
        session = call.session
        results, tree = flatten(call.result)
        datas = [data_of(leaf) for leaf in results]
        for data in datas:
            if np.asarray(data).dtype.kind not in "fc":
                raise GradientError(f"{function_name(f)} returns {short_repr(data)}, which has no derivative{format_user_line()}")
        chosen = mode or choose_mode(session.data, datas)
        blocks = (_forward_blocks if chosen == "forward" else _reverse_blocks)(session, results, datas)
        session.close_recording()
        return unflatten(tree, [call.shape_like_arguments(row) for row in blocks])

    return compute_jacobian


def choose_mode(inputs: Sequence[Any], outputs: Sequence[Any]) -> str:
    """Return the mode that needs fewer sweeps.

    >>> choose_mode([np.zeros(2)], [np.zeros(5)]), choose_mode([np.zeros(5)], [np.zeros(2)])
    ('forward', 'reverse')
    """
    if any(np.iscomplexobj(x) for x in inputs):
        # Forward mode needs two directions for each complex number.
        return "reverse"
    return "forward" if sum(map(np.size, inputs)) < sum(map(np.size, outputs)) else "reverse"


def _reverse_blocks(session: RecordingSession, results: list[Any], datas: list[Any]) -> list[list[Any]]:
    """Return the derivatives per result and argument, by one reverse sweep per number in the results."""
    blocks = []
    for result, data in zip(results, datas, strict=True):
        at = session.offset_of(result)
        pulled = [session.pull_gradients([] if at is None else [(at, unit)]) for unit in unit_vectors(data)]
        blocks.append(
            [_stack_blocks([row[k] for row in pulled], np.shape(data), np.shape(x), x) for k, x in enumerate(session.data)]
        )
    return blocks


def _forward_blocks(session: RecordingSession, results: list[Any], datas: list[Any]) -> list[list[Any]]:
    """Return the derivatives per result and argument, by one forward sweep per number in the arguments."""
    pushed = [[_push_unit(session, k, unit, results) for unit in unit_vectors(x)] for k, x in enumerate(session.data)]
    return [
        [
            _put_result_axes_first(
                _stack_blocks([match_dtype(column[r], x) for column in pushed[k]], np.shape(x), np.shape(data), x),
                np.ndim(x),
                np.ndim(data),
            )
            for k, x in enumerate(session.data)
        ]
        for r, data in enumerate(datas)
    ]


def _push_unit(session: RecordingSession, k: int, unit: Any, results: list[Any]) -> list[Any]:
    """Return the derivatives by one number of an argument; for a complex one, by its real and imaginary part."""
    rest = [None] * (len(session.data) - k - 1)
    along = session.push_tangents([*[None] * k, unit, *rest], results)
    if not np.iscomplexobj(unit):
        return along
    across = session.push_tangents([*[None] * k, unit * 1j, *rest], results)
    real = FUNCTIONS["real"].run
    return [real(one) + 1j * real(two) for one, two in zip(along, across, strict=True)]


def unit_vectors(data: Any) -> Iterator[Any]:
    """Return the unit vectors in the shape of a number or array."""
    if np.ndim(data) == 0:
        yield 1.0 if type(data) is float else np.asarray(data).dtype.type(1)
        return
    for k in range(np.size(data)):
        unit = np.zeros(np.shape(data), data.dtype)
        unit.flat[k] = 1.0
        yield unit


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


def hessian(f: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """Return the function that computes the second derivatives of f: the Jacobian of its Jacobian.

    >>> import numpy as np
    >>> hessian(lambda x: x[0] ** 2 * x[1])(np.array([2.0, 3.0])).tolist()
    [[6.0, 4.0], [4.0, 0.0]]
    """
    return jacobian(jacobian(f, argnums), argnums)
