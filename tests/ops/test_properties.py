"""Properties of arrays under broadcasting, indexing and reshaping, and a machine that plays with recordings."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import wiregrad as wg
from wiregrad.errors import GradientError
from wiregrad.frontends.recording import tape as tapes

from ..support.sampling import choose_count

EXAMPLES = choose_count(30, 250)
"""How many examples a property is tried on."""
PROPERTY = settings(max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
MACHINE = settings(PROPERTY, max_examples=choose_count(40, 500), stateful_step_count=50)
Shape = tuple[int, ...]


def drawn(shape: Shape, seed: int) -> Any:
    """Return numbers of a shape that are neither 0 nor equal; a Python float where there is no axis."""
    found = np.random.default_rng(seed).uniform(0.5, 2.0, size=shape)
    return float(found) if shape == () else found


def unstretched(grad: Any, shape: Shape) -> Any:
    """Return a gradient summed over the axes along which an array of some shape was stretched."""
    extra = np.ndim(grad) - len(shape)
    summed = np.sum(grad, axis=tuple(range(extra)))
    axes = tuple(k for k, size in enumerate(shape) if size == 1 and np.shape(summed)[k] != 1)
    return np.sum(summed, axis=axes, keepdims=True).reshape(shape)


def gradients(f: Callable[..., Any], *args: Any) -> Iterator[tuple[Any, ...]]:
    """Return the gradients of a function to a number, by values, by `wg.grad` and by the circuit."""
    values = [wg.Value(arg) for arg in args]
    f(*values).backward()
    yield tuple(value.grad for value in values)
    yield wg.grad(f, tuple(range(len(args))))(*args)
    circuit = wg.trace(f, *args)
    run = circuit.run(dict(zip(circuit.inputs, args, strict=True)))
    yield tuple(run.grads[name] for name in circuit.inputs)


def assert_gradients(f: Callable[..., Any], args: tuple[Any, ...], wanted: tuple[Any, ...]) -> None:
    for found in gradients(f, *args):
        for grad, right, arg in zip(found, wanted, args, strict=True):
            assert np.shape(grad) == np.shape(arg)
            np.testing.assert_allclose(grad, right, rtol=1e-12, atol=1e-13)


BINARY: dict[str, tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]] = {
    "add": (np.add, lambda a, b: 1.0, lambda a, b: 1.0),
    "subtract": (np.subtract, lambda a, b: 1.0, lambda a, b: -1.0),
    "multiply": (np.multiply, lambda a, b: b, lambda a, b: a),
    "divide": (np.divide, lambda a, b: 1 / b, lambda a, b: -a / b**2),
    "power": (np.power, lambda a, b: b * a ** (b - 1), lambda a, b: a**b * np.log(a)),
    "maximum": (np.maximum, lambda a, b: a > b, lambda a, b: b > a),
    "hypot": (np.hypot, lambda a, b: a / np.hypot(a, b), lambda a, b: b / np.hypot(a, b)),
    "where": (
        lambda a, b: np.where(a > 1.0, a * b, b),
        lambda a, b: (a > 1.0) * b,
        lambda a, b: np.where(a > 1.0, a, 1.0),
    ),
}


@st.composite
def pairs_of_shapes(draw: st.DrawFn) -> tuple[tuple[Shape, Shape], Shape]:
    found = draw(hnp.mutually_broadcastable_shapes(num_shapes=2, min_side=0, max_side=3, max_dims=3))
    return found.input_shapes, found.result_shape


@PROPERTY
@given(pairs_of_shapes(), st.sampled_from(sorted(BINARY)), st.integers(0, 99))
def test_a_gradient_is_summed_over_stretched_axes(shapes: Any, name: str, seed: int) -> None:
    (one, two), out = shapes
    f, by_a, by_b = BINARY[name]
    a, b, c = drawn(one, seed), drawn(two, seed + 100), drawn(out, seed + 200)
    wanted = tuple(
        unstretched(np.broadcast_to(c * slope(a, b), out), shape) for slope, shape in ((by_a, one), (by_b, two))
    )

    assert_gradients(lambda a, b: np.sum(f(a, b) * c), (a, b), wanted)


@PROPERTY
@given(pairs_of_shapes(), st.sampled_from(sorted(BINARY)), st.integers(0, 99))
def test_a_literal_is_stretched_as_a_value_is(shapes: Any, name: str, seed: int) -> None:
    (one, two), out = shapes
    f, by_a, by_b = BINARY[name]
    a, b, c = drawn(one, seed), drawn(two, seed + 100), drawn(out, seed + 200)

    assert_gradients(lambda a: np.sum(f(a, b) * c), (a,), (unstretched(np.broadcast_to(c * by_a(a, b), out), one),))
    assert_gradients(lambda b: np.sum(f(a, b) * c), (b,), (unstretched(np.broadcast_to(c * by_b(a, b), out), two),))


@PROPERTY
@given(hnp.mutually_broadcastable_shapes(num_shapes=3, min_side=0, max_side=3, max_dims=3), st.integers(0, 99))
def test_three_arrays_are_stretched_at_once(shapes: Any, seed: int) -> None:
    out = shapes.result_shape
    x, low, c = (drawn(shape, seed + k) for k, shape in enumerate((*shapes.input_shapes[:2], out)))
    condition = np.asarray(drawn(shapes.input_shapes[2], seed + 9)) > 1.0
    wanted = tuple(
        unstretched(np.broadcast_to(np.where(chosen, c, 0.0), out), np.shape(leaf))
        for chosen, leaf in ((condition, x), (~condition, low))
    )

    assert_gradients(lambda x, y: np.sum(np.where(condition, x, y) * c), (x, low), wanted)


SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)


@st.composite
def mixed_indices(draw: st.DrawFn, shape: Shape) -> Any:
    """Return an index with one part per axis, of any kind; arrays in it broadcast."""
    length = draw(st.integers(1, 3))
    parts: list[Any] = []
    for size in shape[: draw(st.integers(0, len(shape)))]:
        kinds = [st.slices(size)]
        if size:
            entry = st.integers(-size, size - 1)
            kinds += [entry, st.lists(entry, min_size=length, max_size=length), entry.map(np.int64)]
            kinds += [st.lists(entry, min_size=length, max_size=length).map(np.array)]
            kinds += [st.lists(entry, min_size=1, max_size=2).map(lambda e: np.array(e)[:, None])]
        parts.append(draw(st.one_of(kinds)))
    for extra in draw(st.lists(st.sampled_from([None, ..., True, False]), max_size=2, unique_by=str)):
        parts.insert(draw(st.integers(0, len(parts))), extra)
    return parts[0] if len(parts) == 1 and draw(st.booleans()) else tuple(parts)


@st.composite
def indexed(draw: st.DrawFn) -> tuple[Shape, Any]:
    shape = draw(SHAPES)
    masks = hnp.arrays(bool, st.integers(0, len(shape)).map(lambda k: shape[:k]))
    kinds = [hnp.basic_indices(shape, allow_newaxis=True), mixed_indices(shape), masks]
    if shape and min(shape) > 0:
        kinds.append(
            hnp.integer_array_indices(shape, result_shape=hnp.array_shapes(max_dims=2, min_side=0, max_side=3))
        )
    if len(shape) > 1 and shape[1]:
        kinds.append(st.tuples(hnp.arrays(bool, shape[:1]), st.integers(-shape[1], shape[1] - 1) | st.slices(shape[1])))
    return shape, draw(st.one_of(kinds))


def fits(x: Any, index: Any) -> bool:
    try:
        np.asarray(x)[index]
    except IndexError:
        return False
    return True


@settings(PROPERTY, max_examples=2 * EXAMPLES)
@given(indexed(), st.integers(0, 99))
def test_the_gradient_of_an_index_adds_at_it(case: tuple[Shape, Any], seed: int) -> None:
    shape, index = case
    x = np.asarray(drawn(shape, seed))
    assume(fits(x, index))
    c = drawn(np.shape(x[index]), seed + 1)
    wanted = np.zeros(shape)
    np.add.at(wanted, index, c)
    value = wg.Value(x)

    np.testing.assert_array_equal(value[index].data, x[index])
    assert_gradients(lambda x: np.sum(x[index] * c), (x if shape else float(x),), (wanted,))
    _, moved = wg.jvp(lambda x: np.sum(x[index] * c), (x,), (x + 1.0,))
    np.testing.assert_allclose(moved, np.sum((x + 1.0)[index] * c), rtol=1e-12)


@PROPERTY
@given(indexed(), st.integers(0, 99))
def test_a_circuit_with_an_index_is_written_and_read_back(case: tuple[Shape, Any], seed: int) -> None:
    shape, index = case
    x = np.asarray(drawn(shape, seed))
    assume(fits(x, index))
    x = x if shape else float(x)
    circuit = wg.trace(lambda x: np.sum(x[index]), x)
    again = wg.Circuit.from_text(circuit.to_text())

    assert again == circuit
    np.testing.assert_array_equal(again.run(x=x).grads["x"], circuit.run(x=x).grads["x"])


@PROPERTY
@given(indexed(), st.integers(0, 99))
def test_put_is_what_numpy_does_to_a_copy(case: tuple[Shape, Any], seed: int) -> None:
    shape, index = case
    x = np.asarray(drawn(shape, seed))
    assume(shape != () and fits(x, index))
    places = np.arange(x.size).reshape(shape)[index]
    assume(np.size(places) and np.unique(places).size == np.size(places))
    v, c = drawn(np.shape(x[index]), seed + 1), drawn(shape, seed + 2)
    changed, kept = x.copy(), c.copy()
    changed[index], kept[index] = v, 0.0

    np.testing.assert_array_equal(wg.put(wg.Value(x), index, v).data, changed)
    assert_gradients(lambda x, v: np.sum(wg.put(x, index, v) * c), (x, v), (kept, c[index]))


@PROPERTY
@given(st.data(), hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3), st.integers(0, 99))
def test_transposes_and_reshapes_are_undone_by_their_gradients(data: st.DataObject, shape: Shape, seed: int) -> None:
    order = data.draw(st.permutations(range(len(shape))))
    sizes = [shape[k] for k in order]
    flat = data.draw(st.sampled_from([(-1,), (math.prod(shape),), (1, *sizes), tuple(sizes[::-1])]))
    assume(math.prod(shape) or -1 not in flat)
    x, c = drawn(shape, seed), np.asarray(drawn((math.prod(shape),), seed + 1))
    back = [order.index(k) for k in range(len(order))]

    def f(x: Any) -> Any:
        moved = np.transpose(x, order).reshape(flat)
        return np.sum(moved.reshape(-1) * c) if moved.size else np.sum(moved)

    assert_gradients(f, (x,), (np.transpose(c.reshape(sizes), back),))
    value = wg.Value(x)
    again = np.transpose(np.transpose(value, order).reshape(flat).reshape(sizes), back)
    np.testing.assert_array_equal(again.data, x)


@PROPERTY
@given(st.data(), hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=3), st.integers(0, 99))
def test_moved_axes_flips_and_rolls_are_undone_by_their_gradients(data: st.DataObject, shape: Shape, seed: int) -> None:
    axis = st.integers(-len(shape), len(shape) - 1)
    one, two, shift = data.draw(axis), data.draw(axis), data.draw(st.integers(-4, 4))
    moves: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
        "swapaxes": (lambda x: np.swapaxes(x, one, two), lambda g: np.swapaxes(g, one, two)),
        "moveaxis": (lambda x: np.moveaxis(x, one, two), lambda g: np.moveaxis(g, two, one)),
        "flip": (lambda x: np.flip(x, one), lambda g: np.flip(g, one)),
        "roll": (lambda x: np.roll(x, shift, one), lambda g: np.roll(g, -shift, one)),
        "roll flat": (lambda x: np.roll(x, shift), lambda g: np.roll(g, -shift)),
        "expand_dims": (lambda x: np.expand_dims(x, one), lambda g: np.squeeze(g, one)),
        "squeeze": (np.squeeze, lambda g: g.reshape(shape)),
        "ravel": (np.ravel, lambda g: g.reshape(shape)),
        "T": (lambda x: x.T, lambda g: g.T),
        "broadcast_to": (lambda x: np.broadcast_to(x, (2, *shape)), lambda g: g.sum(0)),
        "tile": (lambda x: np.tile(x, 2), lambda g: sum(np.split(g, 2, -1))),
        "repeat": (
            lambda x: np.repeat(x, 2, one),
            lambda g: sum(np.take(g, range(k, g.shape[one], 2), one) for k in (0, 1)),
        ),
    }
    there, back = moves[data.draw(st.sampled_from(sorted(moves)))]
    x = drawn(shape, seed)
    c = np.asarray(drawn(np.shape(there(x)), seed + 1))

    assert_gradients(lambda x: np.sum(there(x) * c), (x,), (back(c),))


@PROPERTY
@given(st.data(), hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=3), st.integers(0, 99))
def test_the_gradient_of_concatenate_is_split(data: st.DataObject, shape: Shape, seed: int) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    sizes = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=4))
    parts = []
    for k, size in enumerate(sizes):
        own = list(shape)
        own[axis] = size
        parts.append(drawn(tuple(own), seed + k))
    c = np.asarray(drawn(np.concatenate(parts, axis).shape, seed + 9))
    wanted = np.split(c, np.cumsum(sizes)[:-1], axis)

    assert_gradients(lambda *xs: np.sum(np.concatenate(xs, axis) * c), tuple(parts), tuple(wanted))


@PROPERTY
@given(st.data(), hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4), st.integers(0, 99))
def test_the_gradient_of_split_is_concatenate(data: st.DataObject, shape: Shape, seed: int) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    cuts = sorted(data.draw(st.lists(st.integers(0, shape[axis]), max_size=3)))
    x = drawn(shape, seed)
    pieces = np.split(x, cuts, axis)
    cs = [np.asarray(drawn(piece.shape, seed + k)) for k, piece in enumerate(pieces)]
    used = data.draw(st.lists(st.booleans(), min_size=len(cs), max_size=len(cs)).filter(any))
    wanted = np.concatenate([c if use else 0 * c for c, use in zip(cs, used, strict=True)], axis)

    def f(x: Any) -> Any:
        found = np.split(x, cuts, axis)
        return sum(np.sum(piece * c) for piece, c, use in zip(found, cs, used, strict=True) if use)

    assert_gradients(f, (x,), (wanted,))
    joined = np.concatenate(np.split(wg.Value(x), cuts, axis), axis)
    np.testing.assert_array_equal(joined.data, x)


@PROPERTY
@given(st.data(), hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=3), st.integers(0, 99))
def test_the_gradient_of_a_reduction_is_spread(data: st.DataObject, shape: Shape, seed: int) -> None:
    axes = data.draw(
        st.none() | st.lists(st.integers(0, len(shape) - 1), unique=True, min_size=1, max_size=len(shape)).map(tuple)
    )
    keepdims = data.draw(st.booleans())
    name = data.draw(st.sampled_from(["sum", "mean", "prod", "max", "min", "var", "std"]))
    x = drawn(shape, seed)
    kept = np.sum(x, axis=axes, keepdims=True)
    c = np.asarray(drawn(kept.shape, seed + 1))
    count = x.size // kept.size
    assume(not (name == "std" and count == 1))
    full: dict[str, Any] = {
        "sum": np.ones(shape),
        "mean": np.full(shape, 1 / count),
        "prod": np.prod(x, axis=axes, keepdims=True) / x,
        "max": x == np.max(x, axis=axes, keepdims=True),
        "min": x == np.min(x, axis=axes, keepdims=True),
        "var": 2 * (x - np.mean(x, axis=axes, keepdims=True)) / count,
        "std": (x - np.mean(x, axis=axes, keepdims=True))
        / count
        / (np.std(x, axis=axes, keepdims=True) + (count == 1)),
    }

    def f(x: Any) -> Any:
        reduced = getattr(np, name)(x, axis=axes, keepdims=keepdims)
        return np.sum(reduced * c.reshape(np.shape(reduced)))

    assert_gradients(f, (x,), (full[name] * c,))


# A machine that records, sweeps, clears, changes and drops, beside a tape of a page.


@dataclass(eq=False)
class Node:
    """A node of the reference: what it is, what it came from, and how it passes a gradient on."""

    data: np.ndarray
    parents: list[tuple[Node, Callable[[np.ndarray], np.ndarray]]] = field(default_factory=list)
    leaf: Node | None = None
    """The leaf that this was when it was used: its data may have changed since."""
    grad: np.ndarray | None = None
    scale: float = 1.0
    """What a hook multiplies the complete gradient by."""

    @property
    def constant(self) -> bool:
        return not self.parents and self.leaf is None


def swept(root: Node, seed: np.ndarray) -> dict[Node, np.ndarray]:
    """Return the gradient that arrives at each node that the root depends on, last one first."""
    order: list[Node] = []

    def visit(node: Node) -> None:
        if node not in seen:
            seen.add(node)
            for parent, _ in node.parents:
                visit(parent)
            order.append(node)

    seen: set[Node] = set()
    visit(root)
    found = {node: np.zeros(node.data.shape) for node in order}
    found[root] = found[root] + seed
    for node in reversed(order):
        found[node] = found[node] * node.scale
        for parent, back in node.parents:
            found[parent] = found[parent] + unstretched(back(found[node]), parent.data.shape)
    return found


UNARY: dict[str, tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]] = {
    "tanh": (np.tanh, np.tanh, lambda x: 1 - np.tanh(x) ** 2),
    "negative": (lambda v: -v, lambda x: -x, lambda x: -np.ones_like(x)),
    "scaled": (lambda v: 0.5 * v + 1.0, lambda x: 0.5 * x + 1.0, lambda x: np.full_like(x, 0.5)),
    "square": (lambda v: v**2, lambda x: x**2, lambda x: 2 * x),
    "relu": (wg.ops.relu, lambda x: np.maximum(x, 0), lambda x: (x > 0) * 1.0),
    "checkpoint": (
        wg.checkpoint(lambda v: np.sin(v) * v),
        lambda x: np.sin(x) * x,
        lambda x: np.sin(x) + x * np.cos(x),
    ),
}
MEETING: dict[str, tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]] = {
    "add": (np.add, lambda a, b: np.ones_like(a + b), lambda a, b: np.ones_like(a + b)),
    "subtract": (lambda a, b: a - b, lambda a, b: np.ones_like(a + b), lambda a, b: -np.ones_like(a + b)),
    "multiply": (lambda a, b: a * b, lambda a, b: b + 0 * a, lambda a, b: a + 0 * b),
    "squashed": (
        lambda a, b: np.tanh(a * b),
        lambda a, b: b * (1 - np.tanh(a * b) ** 2),
        lambda a, b: a * (1 - np.tanh(a * b) ** 2),
    ),
}
LEAVES = st.sampled_from([(), (), (1,), (3,), (2, 1), (2, 3)])
WHICH = st.integers(0, 59)


class Recordings(RuleBasedStateMachine):
    """Does the same to values and to the reference, and compares the gradients of all leaves."""

    def __init__(self) -> None:
        super().__init__()
        self.values: list[tuple[wg.Value, Node]] = []
        self.leaves: list[tuple[wg.Value, Node]] = []
        self.limit = tapes.MAX_TAPE_ROWS

    @initialize(limit=st.sampled_from([1, 5, 1 << 14]), seed=WHICH)
    def begin(self, limit: int, seed: int) -> None:
        # Short recordings are left for new ones often, so that their values meet.
        tapes.MAX_TAPE_ROWS = limit
        tapes.STATE.forget_latest()
        self.new_leaf((), seed)
        self.new_leaf((3,), seed)

    def teardown(self) -> None:
        tapes.MAX_TAPE_ROWS = self.limit

    def pick(self, which: int) -> tuple[wg.Value, Node]:
        """Return a value and its node: of four numbers three mean a recorded one, the newest first."""
        recorded = self.values[-15:] if which % 4 else []
        known = recorded or self.leaves
        return known[-1 - which // 4 % len(known)]

    def used(self, node: Node) -> Node:
        """Return a node as it is when it is used: of a leaf, its data of now."""
        return Node(node.data, [], node) if node.leaf is node else node

    def keep(self, value: Any, node: Node) -> None:
        shown = value.data if isinstance(value, wg.Value) else value
        np.testing.assert_allclose(shown, node.data, rtol=1e-9, atol=1e-12)
        if isinstance(value, wg.Value) and np.all(np.abs(node.data) < 1e3):
            self.values.append((value, node))

    @rule(shape=LEAVES, seed=WHICH)
    def new_leaf(self, shape: Shape, seed: int) -> None:
        data = np.asarray(drawn(shape, seed)) - 1.25
        node = Node(data)
        node.leaf = node
        self.leaves.append((wg.Value(data), node))

    @rule(which=WHICH, name=st.sampled_from(sorted(UNARY)))
    def apply(self, which: int, name: str) -> None:
        value, node = self.pick(which)
        ours, theirs, slope = UNARY[name]
        used = self.used(node)
        parents = [] if node.constant else [(used, lambda g, x=node.data: g * slope(x))]
        self.keep(ours(value), Node(theirs(node.data), parents))

    @rule(one=WHICH, two=WHICH, name=st.sampled_from(sorted(MEETING)))
    def meet(self, one: int, two: int, name: str) -> None:
        (value, node), (other, second) = self.pick(one), self.pick(two)
        f, by_a, by_b = MEETING[name]
        a, b = node.data, second.data
        parents = [
            (self.used(side), lambda g, slope=slope: g * slope(a, b))
            for side, slope in ((node, by_a), (second, by_b))
            if not side.constant
        ]
        self.keep(f(value, other), Node(np.asarray(f(a, b)), parents))

    @rule(which=WHICH)
    def add_up(self, which: int) -> None:
        value, node = self.pick(which)
        parents = [] if node.constant else [(self.used(node), lambda g: np.broadcast_to(g, node.data.shape))]
        self.keep(np.sum(value), Node(np.asarray(node.data.sum()), parents))

    @rule(which=WHICH)
    def differentiate_inside(self, which: int) -> None:
        value, node = self.pick(which)
        found = wg.grad(lambda t: np.sum(t * t * value))(np.full(node.data.shape, 0.5))
        parents = [] if node.constant else [(self.used(node), lambda g: g)]
        self.keep(found, Node(node.data * 1.0, parents))

    @rule(one=WHICH, two=WHICH)
    def compute_without_recording(self, one: int, two: int) -> None:
        (value, node), (other, second) = self.pick(one), self.pick(two)
        with wg.no_grad():
            found = value * other
        self.keep(found, Node(node.data * second.data))

    @rule(which=WHICH)
    def stop(self, which: int) -> None:
        value, node = self.pick(which)
        self.keep(wg.stop_gradient(value), Node(node.data))

    @rule(which=WHICH, seed=WHICH)
    def sweep(self, which: int, seed: int) -> None:
        value, node = self.pick(which)
        if node.constant:
            with pytest.raises(GradientError, match="constant"):
                value.backward(np.ones(node.data.shape))
            return
        start = np.asarray(drawn(node.data.shape, seed)) if node.data.shape else np.ones(())
        value.backward(*([start] if node.data.shape else []))
        for passed, grad in swept(self.used(node), start).items():
            if passed.leaf is not None:
                own = passed.leaf
                own.grad = grad if own.grad is None else own.grad + grad
        if node.leaf is None:
            np.testing.assert_allclose(value.grad, start * node.scale, rtol=1e-12)

    @rule(which=WHICH, to=st.sampled_from([None, 0]))
    def clear(self, which: int, to: int | None) -> None:
        value, node = self.leaves[which % len(self.leaves)]
        value.grad = to
        node.grad = None if to is None else np.zeros(node.data.shape)

    @rule(which=WHICH, seed=WHICH)
    def change(self, which: int, seed: int) -> None:
        value, node = self.leaves[which % len(self.leaves)]
        node.data = np.asarray(drawn(node.data.shape, seed)) - 1.25
        value.data = node.data

    @rule(which=WHICH)
    def drop(self, which: int) -> None:
        # What was computed from it lives on.
        group = self.values if which % 3 and self.values else self.leaves
        if len(group) > 1 or group is self.values:
            del group[which % len(group)]

    @invariant()
    def leaves_have_the_gradients_of_the_reference(self) -> None:
        for value, node in self.leaves:
            assert (value.grad is None) == (node.grad is None)
            if node.grad is not None:
                np.testing.assert_allclose(value.grad, node.grad, rtol=1e-9, atol=1e-10)


Recordings.TestCase.settings = MACHINE
TestRecordings = Recordings.TestCase


class HookedRecordings(Recordings):
    """Has hooks too."""

    @rule(which=WHICH)
    def hook(self, which: int) -> None:
        value, node = self.pick(which)
        if node.parents:
            value.register_hook(lambda g: g * 2.0)
            node.scale *= 2.0


HookedRecordings.TestCase.settings = MACHINE
TestHookedRecordings = HookedRecordings.TestCase
