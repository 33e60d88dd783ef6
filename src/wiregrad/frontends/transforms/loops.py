"""Loops and branches as single nodes: `scan`, `fori_loop`, `while_loop`, `cond` and `switch`.

The names, the order of arguments and their meaning are those of `jax.lax`. The body is traced once, whatever the number
of steps, and the node holds its circuit; `wiregrad.frontends.transforms.loop_ops` has the ops and their rules. An
ordinary Python loop is recorded step by step, as before.

Kept true: the body is a circuit, so it must not branch on values, nor read their numbers: that raises `EscapeError`.
Where nothing is recorded at all, the functions are plain Python loops.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from math import isqrt
from typing import Any, NamedTuple, NoReturn

import numpy as np

from wiregrad.dtypes import WIRE_DTYPES, WireType
from wiregrad.errors import EscapeError, OperandError, ShapeError, format_user_line, short_repr
from wiregrad.frontends.recording.arguments import ContainerTree, as_array, flatten, unflatten
from wiregrad.frontends.recording.record import record_op
from wiregrad.frontends.recording.session import check_callable, data_of, function_name
from wiregrad.frontends.recording.tape import STATE
from wiregrad.frontends.recording.trace import TracedFunction, TraceWriter, leaf_names, run_traced
from wiregrad.frontends.recording.value import Value, as_python_number, is_python_number, notes_of
from wiregrad.frontends.transforms.loop_ops import (
    SCAN_OP,
    SWITCH_OP,
    WHILE_OP,
    BodyWriter,
    ControlOp,
    ControlPlan,
    ScanPlan,
    SwitchPlan,
    WhilePlan,
    check_branch,
    input_types,
    output_types,
    raise_limit,
)
from wiregrad.ir import TABLE, CircuitGraph
from wiregrad.ir.columns import type_of_constant
from wiregrad.ops.functions import FUNCTIONS


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    *,
    checkpoint: bool | int = False,
) -> tuple[Any, Any]:
    """Run `carry, y = f(carry, x)` for each x along the first axis of xs; returns the last carry and all y, stacked.

    `checkpoint` saves memory in the backward pass: only every k-th carry is stored, the others are computed again. True
    chooses k so that about twice the square root of the number of steps are stored.

    >>> import numpy as np
    >>> scan(lambda total, x: (total + x, total), 0.0, np.array([1.0, 2.0, 3.0]))
    (6.0, array([0., 1., 3.]))
    """
    check_callable(f)
    rows, tree = flatten(xs)
    rows = [_as_operand(row, "xs") for row in rows]
    count = _count_steps(rows, length)
    if checkpoint:
        every = isqrt(max(count - 1, 0)) + 1 if checkpoint is True else operator.index(checkpoint)
        if 1 < every < count:
            return _scan_in_chunks(f, init, unflatten(tree, rows), count, reverse, every)
    if STATE.tape is None and count and not _has_values((init, xs)):
        plain = _scan_plainly(f, init, rows, tree, count, reverse)
        if plain is not None:
            return plain
    return _record_scan(f, init, rows, tree, count, reverse)


def fori_loop(
    lower: Any, upper: Any, body_fun: Callable[[Any, Any], Any], init_val: object, *, checkpoint: bool | int = False
) -> Any:
    """Run `carry = body_fun(i, carry)` for i from lower to upper - 1; returns the last carry.

    >>> fori_loop(0, 5, lambda i, total: total + i, 0.0)
    10.0
    """
    check_callable(body_fun)
    if isinstance(lower, Value) or isinstance(upper, Value):
        _, last = while_loop(
            lambda pair: pair[0] < upper, lambda pair: (pair[0] + 1, body_fun(*pair)), (lower, init_val)
        )
        return last
    steps = np.arange(operator.index(lower), operator.index(upper), dtype=np.int64)

    def run_step(carry: object, i: object) -> tuple[Any, None]:
        return body_fun(i, carry), None

    run_step.__name__ = function_name(body_fun)
    return scan(run_step, init_val, steps, checkpoint=checkpoint)[0]


def while_loop(
    cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: object, *, limit: int | None = None
) -> Any:
    """Run `carry = body_fun(carry)` as long as `cond_fun(carry)` is true; returns the last carry.

    Both modes of differentiation work: the number of steps is recorded. After `limit` steps a condition that still
    holds raises `ConvergenceError`.

    >>> while_loop(lambda x: x < 100.0, lambda x: 2.0 * x, 3.0)
    192.0
    """
    check_callable(cond_fun)
    check_callable(body_fun)
    if STATE.tape is None and not _has_values(init_val):
        plain = _loop_plainly(cond_fun, body_fun, init_val, limit)
        if plain is not None:
            return plain[0]
    return _record_while(cond_fun, body_fun, init_val, limit)


def cond(pred: object, true_fun: Callable[..., Any], false_fun: Callable[..., Any], *operands: Any) -> Any:
    """Return `true_fun(*operands)` if pred is true, else `false_fun(*operands)`; only that function is computed.

    >>> cond(True, lambda x: x + 1.0, lambda x: x - 1.0, 3.0)
    4.0
    """
    check_callable(true_fun)
    check_callable(false_fun)
    kind = np.asarray(data_of(pred))
    if kind.shape or kind.dtype != np.bool_:
        raise OperandError(
            f"wg.cond takes one condition, True or False; got {short_repr(data_of(pred))}: write x > 0"
            f"{format_user_line()}"
        )
    if not isinstance(pred, Value):
        return (true_fun if pred else false_fun)(*operands)
    return _record_switch(TABLE["cast"](pred, dtype="int64"), (false_fun, true_fun), operands, "cond")


def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: object) -> Any:
    """Return `branches[index](*operands)`; only that function is computed.

    >>> switch(1, [lambda x: x, lambda x: x * x], 3.0)
    9.0
    """
    for branch in branches:
        check_callable(branch)
    kind = np.asarray(data_of(index))
    if kind.shape or kind.dtype.kind not in "iu":
        raise OperandError(
            f"wg.switch takes one whole number as index; got {short_repr(data_of(index))}{format_user_line()}"
        )
    check_branch("switch", int(data_of(index)) if branches else 0, len(branches))
    if not isinstance(index, Value):
        return branches[int(index)](*operands)
    return _record_switch(index, branches, operands, "switch")


def _has_values(container: object) -> bool:
    return any(isinstance(leaf, Value) for leaf in flatten(container)[0])


def _as_operand(leaf: object, what: str) -> Any:
    """Return a leaf as an array or NumPy number of a type that a wire can have; values stay as they are."""
    if isinstance(leaf, Value):
        return leaf
    if isinstance(leaf, str | bytes) or callable(leaf):
        raise OperandError(f"{what} must consist of numbers and arrays; got {short_repr(leaf)}{format_user_line()}")
    array = as_array(leaf, what)
    if array.dtype.kind in "iu":
        array = array.astype(np.int64)
    if array.dtype not in WIRE_DTYPES:
        raise OperandError(f"{what} must not have the dtype {array.dtype}{format_user_line()}")
    return array[()]


def _count_steps(rows: Sequence[object], length: int | None) -> int:
    """Return the number of steps; raises if xs and length disagree."""
    sizes = set()
    for row in rows:
        shape = np.shape(data_of(row))
        if not shape:
            raise ShapeError(f"each part of xs needs a first axis, along which steps go{format_user_line()}")
        sizes.add(shape[0])
    if length is not None:
        sizes.add(operator.index(length))
    if len(sizes) != 1:
        asked = "give xs or length=" if not sizes else f"xs and length disagree: {sorted(sizes)}"
        raise ShapeError(f"wg.scan needs one number of steps; {asked}{format_user_line()}")
    count = int(sizes.pop())
    if count < 0:
        raise ShapeError(f"wg.scan needs a length of 0 or more; got {count}{format_user_line()}")
    return count


def _scan_plainly(
    f: Callable[..., Any], init: object, rows: Sequence[Any], tree: ContainerTree, count: int, reverse: bool
) -> tuple[Any, Any] | None:
    """Run a scan as a Python loop; None if the first step shows that values are recorded."""
    for leaf in flatten(init)[0]:
        _as_operand(leaf, "the carry")
    carry = init
    results: list[Any] = []
    for step in range(count - 1, -1, -1) if reverse else range(count):
        before = flatten(carry)
        carry, y = _split_pair(f(carry, unflatten(tree, [row[step] for row in rows])), f)
        if not results and _has_values((carry, y)):
            return None
        _check_carry(before, flatten(carry), f)
        results.append(y)
    # NumPy's numbers come from rows of xs; a carry that was a Python number stays one.
    pairs = zip(flatten(carry)[0], flatten(init)[0], strict=True)
    last = [_as_python(new) if is_python_number(old) else new for new, old in pairs]
    return unflatten(flatten(carry)[1], last), _stack_rows(results[::-1] if reverse else results)


def _stack_rows(results: Sequence[object]) -> Any:
    columns = zip(*[flatten(result)[0] for result in results], strict=True)
    return unflatten(flatten(results[0])[1], [np.stack(column) for column in columns])


def _split_pair(result: object, f: Callable[..., Any]) -> tuple[Any, Any]:
    if not isinstance(result, tuple) or len(result) != 2:
        raise OperandError(
            f"{function_name(f)} must return two things, the carry and y (None if there is no y); "
            f"got {short_repr(result)}{format_user_line()}"
        )
    return result


def _check_carry(
    before: tuple[list[object], ContainerTree], after: tuple[list[object], ContainerTree], f: Callable[..., Any]
) -> None:
    """Raise if a step returns a carry of another structure or of other shapes."""
    if before[1] != after[1]:
        raise OperandError(
            f"{function_name(f)} must return a carry like the one it was given, {before[1]}; got {after[1]}"
            f"{format_user_line()}"
        )
    for k, (old, new) in enumerate(zip(before[0], after[0], strict=True)):
        if np.shape(data_of(old)) != np.shape(data_of(new)):
            _raise_changed(f, k, len(before[0]), f"shape {np.shape(data_of(old))}", f"{np.shape(data_of(new))}")


def _raise_changed(f: Callable[..., Any], k: int, count: int, wanted: str, got: str) -> NoReturn:
    which = "the carry" if count == 1 else f"leaf {k} of the carry"
    raise ShapeError(
        f"{function_name(f)} changes {which}: wanted {wanted}, as before the step; got {got}{format_user_line()}"
    )


def _scan_in_chunks(
    f: Callable[..., Any], init: object, xs: object, count: int, reverse: bool, every: int
) -> tuple[Any, Any]:
    """Run a scan as a scan of scans: what is stored are the carries between the inner ones."""
    whole = count // every * every
    start = count - whole if reverse else 0
    rows, tree = flatten(xs)

    def cut_rows(first: int, last: int) -> Any:
        return unflatten(tree, [row[first:last] for row in rows])

    chunks = [
        FUNCTIONS["reshape"].run(row[start : start + whole], (whole // every, every, *np.shape(data_of(row))[1:]))
        for row in rows
    ]

    def run_chunk(carry: object, chunk: object) -> tuple[Any, Any]:
        return scan(f, carry, chunk, every, reverse)

    run_chunk.__name__ = function_name(f)
    carry, parts = scan(run_chunk, init, unflatten(tree, chunks), whole // every, reverse)
    leaves, out_tree = flatten(parts)
    ys = [FUNCTIONS["reshape"].run(y, (whole, *np.shape(data_of(y))[2:])) for y in leaves]
    if whole < count:
        left = (0, count - whole) if reverse else (whole, count)
        carry, others = scan(f, carry, cut_rows(*left), count - whole, reverse)
        pairs = zip(flatten(others)[0], ys, strict=True) if reverse else zip(ys, flatten(others)[0], strict=True)
        ys = [FUNCTIONS["concatenate"].run(list(pair)) for pair in pairs]
    return carry, unflatten(out_tree, ys)


class TracedBody(NamedTuple):
    """A body as a circuit, the values from outside that it reads, and the structure of its results."""

    circuit: CircuitGraph
    captured: list[Value]
    tree: ContainerTree
    results: list[Any]


def trace_body(f: Callable[..., Any], args: tuple[object, ...], what: str) -> TracedBody | None:
    """Trace a body at sample arguments; values from outside become further inputs. None if it returns nothing."""
    traced = run_traced(f, args, {}, named=True, replayed=False, discrete=True)
    _check_steering(traced, f, what)
    if not traced.results:
        return None
    traced.root_offsets()
    outside = {
        offset: value for offset, value in traced.tape.leaves.items() if notes_of(value).born != traced.tape.serial
    }
    names = leaf_names(f, args)
    traced.inputs += outside
    held = traced.holders.names_of(outside.values())
    names += [value.name or name or "v" for value, name in zip(outside.values(), held, strict=True)]
    circuit = TraceWriter(traced, names, function_name(f)).write_circuit()
    # A value of the body that is kept somewhere must not be taken for a number later.
    traced.tape.owner = None
    return TracedBody(circuit, list(outside.values()), traced.tree, traced.results)


def describe_steering(traced: TracedFunction) -> str | None:
    """Return how values steered Python in a traced function, which holds at one point then; None if they did not."""
    guard = traced.guard
    reads = [place for *_, place in (*guard.certificates, *guard.escapes)]
    if not reads:
        return guard.leak or guard.late_identity_test
    where = next((f" ({place.file}:{place.line})" for place in reads if place is not None), "")
    return f"it branches on a value or reads its number{where}"


def _check_steering(traced: TracedFunction, f: Callable[..., Any], what: str) -> None:
    """Raise if values steered Python in a body: its circuit would be that of one step alone."""
    reason = describe_steering(traced)
    if reason is None:
        return
    raise EscapeError(
        f"{function_name(f)} cannot be the body of wg.{what}, which is traced once for all steps: {reason}; use "
        f"wg.cond, np.where or wg.while_loop, or an ordinary Python loop{format_user_line()}"
    )


def _sample_of(leaf: object, kind: WireType) -> Any:
    """Return what a body is traced with for a leaf: the leaf itself, as a plain number or array of a type."""
    data = np.asarray(data_of(leaf)).astype(kind.dtype)[()]
    is_python = is_python_number(leaf) and kind.dtype == np.float64
    return float(data) if is_python else data


def _type_of(leaf: object) -> WireType:
    return type_of_constant(np.asarray(data_of(leaf))[()])


def _is_weak(leaf: object) -> bool:
    """Return whether a leaf is a Python whole number or condition, which takes the type of what it meets."""
    return type(leaf) in (int, bool)


def _record_scan(
    f: Callable[..., Any], init: object, rows: Sequence[object], tree: ContainerTree, count: int, reverse: bool
) -> tuple[Any, Any]:
    """Trace the body of a scan and record the loop as one node."""
    carry = CarriedLeaves(init)
    samples = [_sample_row(row) for row in rows]

    def trace_step() -> TracedBody | None:
        traced = trace_body(f, (carry.sample(), unflatten(tree, samples)), "scan")
        return traced

    def check_pair(traced: TracedBody) -> int:
        pair = unflatten(traced.tree, traced.results)
        return carry.check(flatten(_split_pair(pair, f)[0]), output_types(traced.circuit), f)

    traced = trace_step()
    if traced is None:
        return init, None
    if check_pair(traced):
        traced = trace_step()
        assert traced is not None
        check_pair(traced)
    size = len(carry.leaves)
    plan = ScanPlan(
        body=carry.cast_outputs(traced.circuit),
        carry=size,
        xs=len(rows),
        length=count,
        reverse=reverse,
        called=f"scan of {function_name(f)}",
    )
    results = _run_node(SCAN_OP, plan, [*carry.operands(), *rows, *traced.captured])
    y_tree = traced.tree.children[1]
    return carry.restore(results[:size]), unflatten(y_tree, results[size:])


def _sample_row(row: object) -> Any:
    """Return the first row of one of xs, or zeros if there is none."""
    data = data_of(row)
    return data[0] if len(data) else np.zeros(np.shape(data)[1:], data.dtype)[()]


class CarriedLeaves:
    """The leaves of a carry, and the types that they have in the loop."""

    def __init__(self, init: object) -> None:
        given, self.tree = flatten(init)
        self.given = given
        self.leaves = [_as_operand(leaf, "the carry") for leaf in given]
        self.types = [_type_of(leaf) for leaf in self.leaves]

    def sample(self) -> Any:
        """Return a carry to trace the body with."""
        return unflatten(self.tree, [_sample_of(*pair) for pair in zip(self.given, self.types, strict=True)])

    def operands(self) -> list[Any]:
        """Return the leaves with the types that they have in the loop."""
        return [
            leaf if isinstance(leaf, Value) else np.asarray(leaf, kind.dtype)[()]
            for leaf, kind in zip(self.leaves, self.types, strict=True)
        ]

    def check(
        self, after: tuple[list[object], ContainerTree], types: Sequence[WireType], f: Callable[..., Any]
    ) -> bool:
        """Compare the carry that a step returns; returns whether Python's whole numbers became floats, so try again."""
        _check_carry((self.leaves, self.tree), after, f)
        changed = False
        for k, (new, kind) in enumerate(zip(after[0], types, strict=False)):
            wanted = self.types[k]
            if kind == wanted or (not isinstance(new, Value) and np.can_cast(kind.dtype, wanted.dtype)):
                continue
            if not _is_weak(self.given[k]) or kind.dtype.kind not in "ifc":
                _raise_changed(f, k, len(self.types), str(wanted), str(kind))
            self.types[k] = kind
            changed = True
        return changed

    def cast_outputs(self, circuit: CircuitGraph) -> CircuitGraph:
        """Return the body with the carry that it returns in the types of the loop, where it is a plain number."""
        found = output_types(circuit)[: len(self.types)]
        if found == self.types:
            return circuit
        writer = BodyWriter(circuit)
        outputs = writer.copy_body(writer.add_inputs(input_types(circuit)))
        for k, (kind, wanted) in enumerate(zip(found, self.types, strict=True)):
            if kind != wanted:
                outputs[k] = TABLE["cast"](outputs[k], dtype=wanted.dtype.name)
        return writer.build(outputs)

    def restore(self, results: Sequence[object]) -> Any:
        """Return the last carry in its own structure; Python numbers are Python numbers again."""
        leaves = [
            _as_python(result) if is_python_number(leaf) else result
            for leaf, result in zip(self.given, results, strict=True)
        ]
        return unflatten(self.tree, leaves)


def _as_python(result: object) -> Any:
    if isinstance(result, Value):
        return as_python_number(result)
    return result.item() if isinstance(result, np.generic) else result


def _run_node(op: ControlOp, plan: ControlPlan, operands: Sequence[object]) -> list[Any]:
    """Apply a loop op, recorded if there are values among its operands; returns its results one by one."""
    bound = op.bind_once(loop=plan)
    if any(isinstance(x, Value) for x in operands):
        return plan.layout.unpack(record_op(bound, operands))
    return plan.layout.unpack(bound.compute(*operands))


def _loop_plainly(
    cond_fun: Callable[..., Any], body_fun: Callable[..., Any], init: object, limit: int | None
) -> tuple[Any] | None:
    """Run a while loop as a Python loop; None if the first step shows that values are recorded."""
    carry = init
    count = 0
    while True:
        runs = cond_fun(carry)
        if isinstance(runs, Value):
            return None
        _check_condition(runs, cond_fun)
        if not runs:
            return (carry,)
        if count == limit:
            raise_limit(f"while_loop of {function_name(body_fun)}", count)
        before = flatten(carry)
        carry = body_fun(carry)
        if not count and _has_values(carry):
            return None
        _check_carry(before, flatten(carry), body_fun)
        count += 1


def _check_condition(runs: Any, cond_fun: Callable[..., Any]) -> None:
    if np.shape(runs) or np.asarray(runs).dtype != np.bool_:
        raise OperandError(
            f"{function_name(cond_fun)} must return one condition, True or False; got {short_repr(runs)}"
            f"{format_user_line()}"
        )


def _record_while(cond_fun: Callable[..., Any], body_fun: Callable[..., Any], init: object, limit: int | None) -> Any:
    """Trace the condition and the body of a while loop and record the loop as one node."""
    carry = CarriedLeaves(init)
    body = trace_body(body_fun, (carry.sample(),), "while_loop")
    if body is not None and carry.check((body.results, body.tree), output_types(body.circuit), body_fun):
        body = trace_body(body_fun, (carry.sample(),), "while_loop")
    condition = trace_body(cond_fun, (carry.sample(),), "while_loop")
    if body is None or condition is None:
        raise OperandError(f"wg.while_loop needs a carry and a condition{format_user_line()}")
    (runs,) = output_types(condition.circuit)[:1]
    if len(condition.results) != 1 or runs.shape or runs.dtype != np.bool_:
        raise OperandError(
            f"{function_name(cond_fun)} must return one condition, True or False; got {condition.tree} of {runs}"
            f"{format_user_line()}"
        )
    plan = WhilePlan(
        condition.circuit,
        carry.cast_outputs(body.circuit),
        len(carry.leaves),
        limit,
        f"while_loop of {function_name(body_fun)}",
    )
    results = _run_node(WHILE_OP, plan, [*carry.operands(), *condition.captured, *body.captured])
    return carry.restore(results[:-1])


def _record_switch(
    index: object, branches: Sequence[Callable[..., Any]], operands: tuple[object, ...], what: str
) -> Any:
    """Trace all branches and record the choice as one node."""
    leaves, tree = flatten(operands)
    given = [_as_operand(leaf, "an operand") for leaf in leaves]
    samples = unflatten(tree, [_sample_of(leaf, _type_of(x)) for leaf, x in zip(leaves, given, strict=True)])
    bodies = [trace_body(branch, tuple(samples), what) for branch in branches]
    first = bodies[0]
    if first is None or any(body is None or body.tree != first.tree for body in bodies):
        raise OperandError(
            f"the branches of wg.{what} must return the same structure; got "
            f"{' and '.join(str(body and body.tree) for body in bodies)}{format_user_line()}"
        )
    known = [body for body in bodies if body is not None]
    captured = [value for body in known for value in body.captured]
    plan = SwitchPlan(
        tuple(_join_branches(known, len(given), what)), f"{what} of {function_name(branches[-1])}", what == "cond"
    )
    results = _run_node(SWITCH_OP, plan, [index, *given, *captured])
    are_python = [all(is_python_number(row[k]) for row in (b.results for b in known)) for k in range(len(results))]
    pairs = zip(results, are_python, strict=True)
    return unflatten(first.tree, [_as_python(result) if flag else result for result, flag in pairs])


def _join_branches(bodies: Sequence[TracedBody], count: int, what: str) -> list[CircuitGraph]:
    """Return the circuits of branches, each with the inputs of all and with results of the same types."""
    rows = [output_types(body.circuit) for body in bodies]
    wanted = []
    for k, kinds in enumerate(zip(*rows, strict=True)):
        if len({kind.shape for kind in kinds}) > 1:
            raise ShapeError(
                f"result {k} of the branches of wg.{what} must have one shape; got "
                f"{' and '.join(str(kind) for kind in kinds)}{format_user_line()}"
            )
        wanted.append(WireType(np.result_type(*[kind.dtype for kind in kinds]), kinds[0].shape))
    types = [input_types(body.circuit)[count:] for body in bodies]
    return [_widen_branch(body.circuit, count, k, types, wanted) for k, body in enumerate(bodies)]


def _widen_branch(
    circuit: CircuitGraph, count: int, number: int, types: Sequence[Sequence[WireType]], wanted: Sequence[WireType]
) -> CircuitGraph:
    writer = BodyWriter(circuit)
    shared = writer.add_inputs(input_types(circuit)[:count])
    own = [writer.add_inputs(part) for part in types][number]
    outputs = writer.copy_body([*shared, *own])
    return writer.build(
        [
            port if port.dtype == kind.dtype else TABLE["cast"](port, dtype=kind.dtype.name)
            for port, kind in zip(outputs, wanted, strict=True)
        ]
    )
