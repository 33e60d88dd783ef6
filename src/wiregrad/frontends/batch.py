"""vmap: a function of one example, run on many at once.

The function is recorded for the first example and replayed on all of them: every op works on trailing axes, so a batch
is one more axis in front. If values steered Python (an `if`, `v.item()`), examples may take different branches, and the
function runs once per example instead.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from wiregrad.errors import OperandError, ShapeError, short_repr, format_user_line
from wiregrad.frontends.conventions import convention
from wiregrad.frontends.lift import refuse_subclass
from wiregrad.frontends.session import check_callable, data_of, make_distinct, function_name, pause_watching
from wiregrad.frontends.tape import STATE, Tape
from wiregrad.frontends.trace import TracedFunction, run_traced
from wiregrad.frontends.tree import ContainerTree, flatten, unflatten
from wiregrad.frontends.value import Value
from wiregrad.ir import INPUT, TABLE, Op
from wiregrad.ir.mode import decode_mode
from wiregrad.ops import Elementwise
from wiregrad.ops.array import ArrayOp
from wiregrad.ops.flow import shape_of
from wiregrad.ops.functions import FUNCTIONS

AxesSpec = int | None | Sequence[Any]


def vmap(f: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0) -> Callable[..., Any]:
    """Return the function that applies f along an axis of its arguments, all examples at once.

    `in_axes` gives the axis of the examples for each argument; None for an argument that all examples share. Keyword
    arguments are mapped over their first axis.

    >>> import numpy as np
    >>> vmap(lambda x, w: (x * w).sum(), in_axes=(0, None))(np.eye(2), np.array([3.0, 4.0])).tolist()
    [3.0, 4.0]
    """
    check_callable(f)

    @functools.wraps(f, updated=())
    def call_batched(*args: Any, **kwargs: Any) -> Any:
        leaves, tree = flatten((args, kwargs))
        axes = [*_leaf_axes(in_axes, args, f), *_axes_for(0, kwargs)]
        size = _batch_size(leaves, axes, f)
        fronted = [leaf if axis is None else _move_axis_to_front(leaf, axis) for leaf, axis in zip(leaves, axes, strict=True)]
        batched = [axis is not None for axis in axes]
        outputs, shape = _run_examples(f, fronted, batched, tree, size)
        outs = _axes_of_results(out_axes, shape, len(outputs))
        results = [_move_axis_to_place(y, axis, size) for y, axis in zip(outputs, outs, strict=True)]
        return unflatten(shape, make_distinct(results, [(None, leaf) for leaf in leaves]))

    return call_batched


def _run_examples(
    f: Callable[..., Any], leaves: list[Any], batched: list[bool], tree: ContainerTree, size: int
) -> tuple[list[tuple[Any, bool]], ContainerTree]:
    """Return the results and their structure; each result with a flag: whether its first axis is that of examples."""

    def take_example(k: int) -> list[Any]:
        return [leaf[k] if flag else leaf for leaf, flag in zip(leaves, batched, strict=True)]

    if size == 0:
        raise ShapeError(f"vmap needs at least one example to run {function_name(f)} on{format_user_line()}")
    traced = run_traced(f, *unflatten(tree, take_example(0)))
    if not traced.tape.certificates and traced.tape.leak is None and traced.tape.identity.unforeseen is None:
        results = _replay_batch(traced, leaves, batched, size)
        if results is not None:
            return results, traced.tree
    rows = []
    for k in range(size):
        args, kwargs = unflatten(tree, take_example(k))
        rows.append(flatten(f(*args, **kwargs)))
    for _, shape in rows:
        if shape != traced.tree:
            raise OperandError(
                f"{function_name(f)} returns {traced.tree} for one example and {shape} for another{format_user_line()}"
            )
    columns = zip(*(row for row, _ in rows), strict=True)
    return [(_stack_results(list(column), f), True) for column in columns], traced.tree


def _stack_results(rows: list[Any], f: Callable[..., Any]) -> Any:
    """Stack the results of all examples to one array."""
    shapes = {shape_of(row) for row in rows}
    if len(shapes) > 1:
        raise ShapeError(f"{function_name(f)} returns shapes {sorted(shapes)} for different examples{format_user_line()}")
    return FUNCTIONS["stack"].run(rows)


def _replay_batch(traced: TracedFunction, leaves: list[Any], batched: list[bool], size: int) -> list[tuple[Any, bool]] | None:
    """Replay a recording on all examples; None if its inputs cannot be matched with the arguments."""
    tape = traced.tape
    roots = traced.root_offsets()
    lifted = [(leaf, flag) for leaf, flag in zip(leaves, batched, strict=True) if _is_lifted(leaf)]
    if len(lifted) != len(traced.inputs) or any(
        flag and not _is_lifted(leaf) for leaf, flag in zip(leaves, batched, strict=True)
    ):
        return None
    computed: dict[int, tuple[Any, bool]] = dict(zip(traced.inputs, lifted, strict=True))
    for offset in traced.needed_offsets(roots):
        if offset in computed:
            continue
        node = tape.node_at(offset)
        if node.op is INPUT:
            # A value from outside, or an argument of a derivative that was taken inside.
            computed[offset] = (tape.leaves.get(offset, node.y), False)
            continue
        operands = [
            (x, False) if source < 0 else computed[source] for source, x in zip(node.sources, node.xs, strict=True)
        ]
        # A node keeps the convention it was recorded with, even if another one is active now.
        with convention(decode_mode(node.mode)[0].label) if node.op.kinks else nullcontext():
            computed[offset] = _apply_node(tape, offset, operands, size)
    return [(result, False) if root < 0 else computed[root] for root, result in zip(roots, traced.results, strict=True)]


def _apply_node(tape: Tape, offset: int, operands: list[tuple[Any, bool]], size: int) -> tuple[Any, bool]:
    """Apply a node's op to all examples; the watcher sees the result, with the line of the node."""
    op = tape.node_at(offset).op
    # The watcher raises an error that says more than a warning.
    watch = STATE.watch
    with nullcontext() if watch is None else np.errstate(all="ignore"), pause_watching():
        result = apply_batched(op, operands, size)
    if watch is not None:
        xs = [data_of(x) for x, _ in operands]
        watch.apart(op, xs, data_of(result[0]), tape.places.get(offset), tape.derived.get(offset))
    return result


def _is_lifted(leaf: Any) -> bool:
    return isinstance(leaf, Value) or np.asarray(leaf).dtype.kind in "fc"


def apply_batched(op: Op, operands: Sequence[tuple[Any, bool]], size: int) -> tuple[Any, bool]:
    """Apply an op to operands; the flag of each says whether its first axis is that of examples."""
    if not any(flag for _, flag in operands):
        return op(*(x for x, _ in operands)), False
    if isinstance(op, Elementwise):
        return op(*_align_ranks(operands)), True
    if isinstance(op, ArrayOp) and op.batches:
        return op(*(x if flag else _repeat_example(x, size) for x, flag in operands)), True
    rows = [op(*(x[k] if flag else x for x, flag in operands)) for k in range(size)]
    return FUNCTIONS["stack"].run(rows), True


def _align_ranks(operands: Sequence[tuple[Any, bool]]) -> list[Any]:
    """Insert axes after that of the examples, so that all operands of an elementwise op have the same rank."""
    rank = max(len(shape_of(x)) - flag for x, flag in operands)
    return [_pad_rank(x, rank) if flag else x for x, flag in operands]


def _pad_rank(x: Any, rank: int) -> Any:
    shape = shape_of(x)
    missing = rank - (len(shape) - 1)
    if not missing:
        return x
    return TABLE["reshape"](x, rank=len(shape), shape=(shape[0], *(1,) * missing, *shape[1:]))


def _repeat_example(x: Any, size: int) -> Any:
    shape = shape_of(x)
    return TABLE["spread"](x, rank=len(shape), shape=(size, *shape))


def _leaf_axes(in_axes: Any, args: tuple[Any, ...], f: Callable[..., Any]) -> list[int | None]:
    if isinstance(in_axes, list | tuple):
        if len(in_axes) != len(args):
            raise OperandError(
                f"in_axes has {len(in_axes)} entries; {function_name(f)} was called with {len(args)} arguments{format_user_line()}"
            )
        return [axis for spec, arg in zip(in_axes, args, strict=True) for axis in _axes_for(spec, arg)]
    return [axis for arg in args for axis in _axes_for(in_axes, arg)]


def _axes_for(spec: Any, item: Any, what: str = "in_axes") -> list[int | None]:
    """Return an axis for every leaf of an argument; an axis given for a container applies to all its leaves."""
    if spec is None or isinstance(spec, int):
        return [spec] * len(flatten(item)[0])
    if isinstance(spec, dict) and isinstance(item, dict) and set(spec) == set(item):
        return [axis for key in item for axis in _axes_for(spec[key], item[key], what)]
    if isinstance(spec, list | tuple) and isinstance(item, list | tuple) and len(spec) == len(item):
        return [axis for one, part in zip(spec, item, strict=True) for axis in _axes_for(one, part, what)]
    raise OperandError(f"{what} {short_repr(spec)} does not fit {short_repr(item)}{format_user_line()}")


def _batch_size(leaves: list[Any], axes: list[int | None], f: Callable[..., Any]) -> int:
    """Return the number of examples; raises if arguments disagree about it."""
    sizes = set()
    for leaf, axis in zip(leaves, axes, strict=True):
        if axis is not None:
            shape = leaf.shape if hasattr(leaf, "shape") else np.shape(leaf)
            if not -len(shape) <= axis < len(shape):
                raise ShapeError(
                    f"vmap of {function_name(f)}: axis {axis} does not exist in an argument of shape {shape}{format_user_line()}"
                )
            sizes.add(shape[axis])
    if len(sizes) != 1:
        wanted = (
            "at least one axis to map over" if not sizes else f"as many examples in every argument; got {sorted(sizes)}"
        )
        raise ShapeError(f"vmap of {function_name(f)} needs {wanted}{format_user_line()}")
    return int(sizes.pop())


def _move_axis_to_front(leaf: Any, axis: int) -> Any:
    if not isinstance(leaf, Value):
        refuse_subclass(leaf, "an argument of vmap")
        return np.moveaxis(np.asarray(leaf), axis, 0)
    return FUNCTIONS["moveaxis"].run(leaf, axis, 0) if axis else leaf


def _axes_of_results(out_axes: Any, tree: ContainerTree, count: int) -> list[int | None]:
    return _axes_for(out_axes, unflatten(tree, [0.0] * count), "out_axes") if count else []


def _move_axis_to_place(output: tuple[Any, bool], axis: int | None, size: int) -> Any:
    """Move the axis of the examples from the front to its place in a result."""
    y, flag = output
    if axis is None:
        if flag:
            raise OperandError(f"out_axes is None for a result that differs between examples{format_user_line()}")
        return y
    batched = y if flag else _repeat_example(np.asarray(y) if not isinstance(y, Value) else y, size)
    if not -batched.ndim <= axis < batched.ndim:
        raise ShapeError(f"out_axes {axis} does not exist in a result of shape {batched.shape}{format_user_line()}")
    if axis == 0:
        return batched
    return FUNCTIONS["moveaxis"].run(batched, 0, axis)
