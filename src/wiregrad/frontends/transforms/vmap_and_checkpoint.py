"""Two transforms that change how a function runs, not what it computes.

`vmap` runs a function of one example on many at once: it is recorded for the first example and replayed on all of them.
Every op is written over trailing axes, so a batch is one more axis in front. Where values steered Python (an `if`, a
number taken out) or the function may draw random numbers, the examples may differ in what they do, and the function
runs once per example instead.

`checkpoint` makes one node of a function: what happens inside is not kept for the backward pass but computed again.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

import numpy as np

from wiregrad.errors import GradientError, OperandError, ShapeError, format_user_line, short_repr
from wiregrad.frontends.recording.arguments import (
    ContainerTree,
    PackedParts,
    ensure_owned,
    fill_places,
    flatten,
    is_static,
    refuse_subclass,
    refuse_tensor,
    unflatten,
)
from wiregrad.frontends.recording.library_hooks import OVERLAY
from wiregrad.frontends.recording.record import (
    common_tape,
    convention,
    finish_node,
    no_grad,
    place_on_tape,
    record_op,
)
from wiregrad.frontends.recording.session import (
    RecordingSession,
    add_input,
    check_callable,
    data_of,
    function_name,
    make_distinct,
    pause_watching,
    push_by_transpose,
)
from wiregrad.frontends.recording.tape import STATE, Tape, TapeKind
from wiregrad.frontends.recording.transformed_function import TransformedFunction
from wiregrad.frontends.recording.value import (
    Scalar,
    Value,
    as_numpy_number,
    as_python_number,
    is_python_number,
    number_class,
)
from wiregrad.ir import INPUT, TABLE, Op, Pattern
from wiregrad.ir.columns import chosen_convention, decode_mode
from wiregrad.lazy import load_module_lazily
from wiregrad.ops import Elementwise
from wiregrad.ops.array_ops import ArrayOp, General
from wiregrad.ops.functions import FUNCTIONS
from wiregrad.ops.functions.shape import pick_elements
from wiregrad.ops.gradient_flow import shape_of

if TYPE_CHECKING:
    from wiregrad.frontends.recording import trace
    from wiregrad.frontends.replay import outside_state
else:
    trace = load_module_lazily("wiregrad.frontends.recording.trace")
    outside_state = load_module_lazily("wiregrad.frontends.replay.outside_state")

P = ParamSpec("P")
Result = TypeVar("Result")
MAX_SAMPLE = 4_096
"""About how many elements of a large array count in a checksum of rows."""
AxesSpec = int | list[Any] | tuple[Any, ...] | dict[Any, Any] | None
"""An axis for all leaves of an argument, or one for each, in the structure of the argument; None means no axis."""


@overload
def vmap(f: np.ufunc, in_axes: AxesSpec = 0, out_axes: AxesSpec = 0) -> Callable[..., Any]: ...
@overload
def vmap(f: Callable[P, object], in_axes: AxesSpec = 0, out_axes: AxesSpec = 0) -> Callable[P, Any]: ...
def vmap(f: Callable[..., Any], in_axes: AxesSpec = 0, out_axes: AxesSpec = 0) -> Callable[..., Any]:
    """Return the function that applies f along an axis of its arguments, all examples at once.

    `in_axes` gives the axis of the examples for each argument; None for an argument that all examples share. Keyword
    arguments are mapped over their first axis.

    >>> import numpy as np
    >>> vmap(lambda x, w: (x * w).sum(), in_axes=(0, None))(np.eye(2), np.array([3.0, 4.0])).tolist()
    [3.0, 4.0]
    """
    check_callable(f)

    def call_batched(*args: object, **kwargs: object) -> Any:
        leaves, tree = flatten((args, kwargs))
        axes = [*find_leaf_axes(in_axes, args, f), *_axes_for(0, kwargs)]
        size = _batch_size(leaves, axes, f)
        fronted = [
            leaf if axis is None else _move_axis_to_front(leaf, axis) for leaf, axis in zip(leaves, axes, strict=True)
        ]
        batched = [axis is not None for axis in axes]
        outputs, shape = _run_examples(f, fronted, batched, tree, size)
        outs = _axes_of_results(out_axes, shape, len(outputs))
        results = [_move_axis_to_place(y, axis, size) for y, axis in zip(outputs, outs, strict=True)]
        return unflatten(shape, make_distinct(results, [(None, leaf) for leaf in leaves]))

    return TransformedFunction(call_batched, vmap, f, in_axes=in_axes, out_axes=out_axes)


def _run_examples(
    f: Callable[..., Any], leaves: list[Any], batched: list[bool], tree: ContainerTree, size: int
) -> tuple[list[tuple[Any, bool]], ContainerTree]:
    """Return the results and their structure; each result with a flag: whether its first axis is that of examples."""

    def take_example(k: int) -> list[Any]:
        return [leaf[k] if flag else leaf for leaf, flag in zip(leaves, batched, strict=True)]

    if size == 0:
        raise ShapeError(f"vmap needs at least one example to run {function_name(f)} on{format_user_line()}")
    # A recording would have the random numbers of the first example, and making it would draw them from the generator.
    if not outside_state.may_draw_numbers(f, *filter(is_static, leaves)):
        traced = trace.run_traced(f, *unflatten(tree, take_example(0)))
        guard = traced.guard
        if not guard.certificates and guard.leak is None and guard.late_identity_test is None:
            results = _replay_batch(traced, leaves, batched, size)
            if results is not None:
                return results, traced.tree
    rows = []
    for k in range(size):
        args, kwargs = unflatten(tree, take_example(k))
        rows.append(flatten(OVERLAY.call(f, args, kwargs)))
    first = rows[0][1]
    for _, shape in rows:
        if shape != first:
            raise OperandError(
                f"{function_name(f)} returns {first} for one example and {shape} for another{format_user_line()}"
            )
    columns = zip(*(row for row, _ in rows), strict=True)
    return [(_stack_results(list(column), f), True) for column in columns], first


def _stack_results(rows: list[Any], f: Callable[..., Any]) -> Any:
    """Stack the results of all examples to one array."""
    shapes = {shape_of(row) for row in rows}
    if len(shapes) > 1:
        raise ShapeError(
            f"{function_name(f)} returns shapes {sorted(shapes)} for different examples{format_user_line()}"
        )
    return FUNCTIONS["stack"].run(rows)


def _replay_batch(
    traced: trace.TracedFunction, leaves: list[Any], batched: list[bool], size: int
) -> list[tuple[Any, bool]] | None:
    """Replay a recording on all examples; None if they have to be run one by one.

    That is so if the inputs cannot be matched with the arguments, or if an example has a matrix that is refused.
    """
    tape = traced.tape
    roots = traced.root_offsets()
    lifted = [(leaf, flag) for leaf, flag in zip(leaves, batched, strict=True) if _is_lifted(leaf)]
    if len(lifted) != len(traced.inputs) or any(
        flag and not _is_lifted(leaf) for leaf, flag in zip(leaves, batched, strict=True)
    ):
        return None
    computed: dict[int, tuple[Any, bool]] = dict(zip(traced.inputs, lifted, strict=True))
    for offset in traced.needed_offsets([*roots, *traced.list_unread_errors()]):
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
            try:
                computed[offset] = _apply_node(tape, offset, operands, size)
            except np.linalg.LinAlgError:
                return None
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
        notes = tape.notes
        watch.check_unrecorded(op, xs, data_of(result[0]), notes.place_at(offset), notes.derived.get(offset))
    return result


def _is_lifted(leaf: object) -> bool:
    return isinstance(leaf, Value) or np.asarray(leaf).dtype.kind in "fc"


def apply_batched(op: Op, operands: Sequence[tuple[Any, bool]], size: int) -> tuple[Any, bool]:
    """Apply an op to operands; the flag of each says whether its first axis is that of examples."""
    if not any(flag for _, flag in operands):
        return op(*(x for x, _ in operands)), False
    if isinstance(op, Elementwise):
        return op(*_align_ranks(operands)), True
    if isinstance(op, ArrayOp) and op.batches:
        return op(*(x if flag else _repeat_example(x, size) for x, flag in operands)), True
    apply_to_rows = getattr(op, "apply_to_rows", None)
    if apply_to_rows is not None:
        return apply_to_rows(operands, size), True
    rows = [op(*(pick_elements(x, k) if flag else x for x, flag in operands)) for k in range(size)]
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


def find_leaf_axes(in_axes: AxesSpec, args: tuple[Any, ...], f: Callable[..., Any]) -> list[int | None]:
    """Return the axis of the examples for every leaf of the arguments; None for what all examples share."""
    if isinstance(in_axes, list | tuple):
        if len(in_axes) != len(args):
            raise OperandError(
                f"in_axes has {len(in_axes)} entries; "
                f"{function_name(f)} was called with {len(args)} arguments{format_user_line()}"
            )
        return [axis for spec, arg in zip(in_axes, args, strict=True) for axis in _axes_for(spec, arg)]
    return [axis for arg in args for axis in _axes_for(in_axes, arg)]


def _axes_for(spec: AxesSpec, item: Any, what: str = "in_axes") -> list[int | None]:
    """Return an axis for every leaf of an argument; an axis given for a container applies to all its leaves.

    Text, whole numbers and other single objects in a container have no axis: all examples share them.
    """
    if spec is None or isinstance(spec, int):
        leaves, tree = flatten(item)
        return [None if tree.children and is_static(leaf) and not shape_of(leaf) else spec for leaf in leaves]
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
                    f"vmap of {function_name(f)}: axis {axis} does not exist "
                    f"in an argument of shape {shape}{format_user_line()}"
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
        refuse_tensor(leaf, "an argument of vmap")
        return np.moveaxis(np.asarray(leaf), axis, 0)
    return FUNCTIONS["moveaxis"].run(leaf, axis, 0) if axis else leaf


def _axes_of_results(out_axes: AxesSpec, tree: ContainerTree, count: int) -> list[int | None]:
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


@overload
def checkpoint(f: np.ufunc) -> Callable[..., Any]: ...
@overload
def checkpoint(f: Callable[P, Result]) -> Callable[P, Result]: ...
def checkpoint(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return f as one node: its inner values are not stored for the backward pass but computed again there.

    This saves memory and costs time. Values that f uses without being passed them are found when it first runs.

    >>> import numpy as np
    >>> import wiregrad as wg
    >>> wg.grad(lambda x: wg.checkpoint(np.sin)(x) * x)(0.0)
    0.0
    """
    check_callable(f)

    def call_checkpointed(*args: object, **kwargs: object) -> Any:
        if runs_plainly():
            return f(*args, **kwargs)
        leaves, tree = flatten((args, kwargs))
        values = [k for k, leaf in enumerate(leaves) if isinstance(leaf, Value)]
        return record_segment(CheckpointSegment(f, leaves, values, tree), leaves)

    return TransformedFunction(call_checkpointed, checkpoint, f)


def runs_plainly() -> bool:
    """Return whether a checkpointed function runs as it is: nothing is recorded, or a circuit is traced."""
    tape = STATE.tape
    return STATE.is_paused or (tape is not None and tape.guard is not None)


def record_segment(segment: CheckpointSegment, leaves: Sequence[Any]) -> Any:
    """Run a checkpointed function on its arguments, given as leaves, and record the call as one node."""
    passed = [leaves[k] for k in segment.values]
    outputs = segment.run_first(passed)
    operands = [*passed, *segment.captured]
    home = common_tape(operands)
    if home is None:
        return unflatten(segment.out_tree, outputs)
    op = CHECKPOINT_OP.bind_once(segment=segment)
    packed = finish_node(home, op, operands, [data_of(x) for x in operands], segment.parts.pack(outputs))
    return unflatten(segment.out_tree, segment.in_python(segment.parts.unpack(packed)))


def digest_rows(tape: Tape) -> int | None:
    """Return a checksum of the rows of a tape: which ops, with which slopes and literals.

    None inside blocks in which rows are recorded in another form, so that their checksum would be another one.
    """
    if STATE.is_careful:
        return None
    parts: list[Any] = []
    for offset, node in tape.extras.items():
        literals = [_take_sample(x) for source, x in zip(node.sources, node.xs, strict=True) if source < 0]
        settings = () if node.op.per_call else node.op.settings
        parts.append((offset, node.op.name, settings, node.sources, node.mode, digest_leaves(literals)))
    return hash((zlib.crc32(tape.buffer), *parts))


def _take_sample(x: Any) -> Any:
    """Return a literal; of a large array some elements, because it is read twice for each gradient."""
    if type(x) is not np.ndarray or x.size <= MAX_SAMPLE:
        return x
    return x.flat[:: x.size // MAX_SAMPLE]


def digest_leaves(leaves: Iterable[Any]) -> int:
    """Return a checksum of all numbers in some leaves.

    >>> digest_leaves([np.ones(2)]) == digest_leaves([np.ones(2)]) != digest_leaves([np.zeros(2)])
    True
    """
    digest = 0
    for leaf in leaves:
        if isinstance(leaf, np.ndarray | np.generic | float | int | complex):
            digest = zlib.crc32(np.ascontiguousarray(leaf).reshape(-1).view(np.uint8).data, digest)
    return digest


def place_results(tape: Tape, results: Sequence[Any]) -> list[Any]:
    """Return results as nodes of a tape; a value from outside that is returned as it is becomes one."""
    return [
        record_op(TABLE["positive"], (result,)) if isinstance(result, Value) and result._tape is not tape else result
        for result in results
    ]


class CheckpointSegment:
    """A call of a checkpointed function; its inner nodes are recorded only while its gradient is computed."""

    def __init__(self, f: Callable[..., Any], leaves: list[Any], values: list[int], tree: ContainerTree) -> None:
        self.f = f
        self.values = values
        self.tree = tree
        self.called = f"checkpoint of {function_name(f)}"
        self.convention = chosen_convention().label
        kept = [ensure_owned(leaf) if type(leaf) is np.ndarray else leaf for leaf in leaves]
        self.leaves = [None if k in values else leaf for k, leaf in enumerate(kept)]
        self.out_tree = tree
        self.captured: list[Value] = []
        self.kinds: list[type[Scalar]] = []
        """The classes of the values that are numbers, Python's or NumPy's, because their comparisons differ."""
        self.results_in_python: list[bool] = []
        self.parts = PackedParts(())
        self._latest: tuple[Any, list[Any]] | None = None
        self._digest: int | None = None
        """The checksum of the rows that the function recorded first; equal results may have other derivatives."""

    @property
    def identity(self) -> tuple[Any, ...]:
        """The key that tells calls apart: the function, the positions of its values, and the other arguments."""
        return self.f, self.values, self.leaves, self.convention

    def run_first(self, passed: Sequence[Any]) -> list[Any]:
        """Run the function once and note which values from outside it uses; returns the outputs as plain arrays."""
        self.kinds = [number_class(x) for x in passed]
        tape, results = self._run_apart([data_of(x) for x in passed])
        self._digest = digest_rows(tape)
        self.results_in_python = [is_python_number(result) for result in results]
        self.captured = list(tape.leaves.values())
        outputs = [data_of(result) for result in results]
        self.parts = PackedParts(outputs)
        return outputs

    def _run_apart(self, data: Sequence[Any]) -> tuple[Tape, list[Any]]:
        """Run the function on a tape of its own; returns the tape and the results."""
        tape = Tape(TapeKind.APART)
        # The first block makes scalars ask which tape is recorded on; otherwise what is computed from values of another
        # tape alone would be recorded there, and would not be noticed as coming from outside.
        with no_grad(), STATE.record_on(tape):
            values = [add_input(tape, x, kind) for x, kind in zip(data, self.kinds, strict=True)]
            leaves, self.out_tree = flatten(self.call(values))
            return tape, place_results(tape, leaves)

    def in_python(self, outputs: Sequence[Any]) -> list[Any]:
        """Return the outputs; those that the function computed as Python numbers are Python numbers again."""
        pairs = zip(outputs, self.results_in_python, strict=True)
        return [as_python_number(output) if flag else output for output, flag in pairs]

    def call(self, values: Sequence[Any]) -> Any:
        """Call the function with values at their positions among the arguments."""
        args, kwargs = unflatten(self.tree, fill_places(self.leaves, self.values, values))
        with convention(self.convention):
            return OVERLAY.call(self.f, args, kwargs)

    def pull_gradient(self, slot: int, g: Any, xs: Sequence[Any], y: Any) -> Any:
        """Return the gradient of one operand; those of all operands are computed when the first is needed."""
        if self._latest is None or self._latest[0] is not g:
            self._latest = (g, self._recompute_gradients(g, xs, y))
        gradient = self._latest[1][slot]
        if slot == 0:
            self._latest = None
        return gradient

    def _check_same_result(self, results: list[Any], y: Any) -> None:
        """Raise if the function did not return the same results as the first time."""
        again = self.parts.pack([data_of(result) for result in results])
        first = data_of(y)
        if not np.array_equal(again, first, equal_nan=True):
            raise _describe_changed_function()

    def _check_same_rows(self, tape: Tape) -> None:
        """Raise if the function recorded other rows than the first time."""
        digest = None if self._digest is None else digest_rows(tape)
        if digest is not None and digest != self._digest:
            raise _describe_changed_function()

    def _recompute_gradients(self, g: Any, xs: Sequence[Any], y: Any) -> list[Any]:
        """Record the function again and sweep back from its results; returns the gradients of all operands."""
        count = len(self.values)
        recorded = isinstance(g, Value) or any(isinstance(x, Value) for x in xs)
        session = RecordingSession(STATE.tape if recorded else Tape(TapeKind.APART))
        if recorded and self._digest is not None:
            # Among the rows of an outer recording those of the function could not be compared.
            self._check_same_rows(self._run_apart([data_of(x) for x in xs[:count]])[0])
        with no_grad(), STATE.record_on(session.tape):
            lifts = [session.lift_argument(x, lambda: "a checkpointed value") for x in xs[:count]]
            values = [
                as_python_number(value) if kind is Scalar else as_numpy_number(value)
                for value, kind in zip(lifts, self.kinds, strict=True)
            ]
            results = place_results(session.tape, flatten(self.call(values))[0])
            self._check_same_result(results, y)
            if not recorded:
                self._check_same_rows(session.tape)
            for value in self.captured:
                session.offsets.append(place_on_tape(session.tape, value))
                session.data.append(value._data)
        session.start = min([session.start, *session.offsets])
        parts = self.parts.unpack(g)
        seeds = [
            (at, part)
            for result, part in zip(results, parts, strict=True)
            if (at := session.offset_of(result)) is not None
        ]
        return session.pull_gradients(seeds, recorded=recorded)


def _describe_changed_function() -> GradientError:
    return GradientError(
        "a checkpointed function gave another result when it was computed again: it depends on something that has "
        "changed since, such as a loop variable (bind it: lambda z, k=k: ...), a parameter's data, or a random number"
    )


def _checkpoint_back(slot: int, g: Any, xs: Sequence[Any], y: Any, *, segment: CheckpointSegment) -> Any:
    return segment.pull_gradient(slot, g, xs, y)


def _checkpoint_ahead(slot: int, t: Any, xs: Sequence[Any], y: Any, *, segment: CheckpointSegment) -> Any:
    return push_by_transpose(lambda slot, g, xs: segment.pull_gradient(slot, g, xs, y), slot, t, xs, y)


CHECKPOINT_OP = TABLE.add(
    General(
        name="checkpoint",
        doc="A function whose inside is computed again in the backward pass.",
        inputs=("x",),
        variadic=True,
        pattern=Pattern.SCALE,
        forward=lambda *xs, segment: segment.parts.pack([data_of(r) for r in flatten(segment.call(xs))[0]]),
        back=_checkpoint_back,
        ahead=_checkpoint_ahead,
        batches=False,
        per_call=True,
    )
)
