"""Checks of elementwise ops on arrays that follow from their records: every element behaves like a single number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, cached_property, partial
from typing import Any

import numpy as np

from wiregrad.api.values import Value, jvp, vmap
from wiregrad.ops import TABLE, Elementwise

from .compare import (
    FLOAT32,
    FLOAT64,
    MODES_TOLERANCE,
    TOLERANCES,
    PlannedCheck,
    assert_near,
    copy_in_layout,
    data_of,
    distinct_layouts,
    random_like,
    real_inner_product,
    tolerance_scale,
    without_warnings,
)
from .op_checks import smooth_slots


def list_array_checks(op: Elementwise, dtypes: Sequence[Any] = (FLOAT64, FLOAT32)) -> Iterator[PlannedCheck]:
    """Return the checks of an elementwise op on arrays: of size 0 and 1, broadcast, in every dtype and layout."""
    for what, columns in _sample_arrays(op):
        for dtype in dtypes:
            for layout in distinct_layouts(columns):
                xs = [copy_in_layout(x.astype(dtype) if x.dtype.kind == "f" else x, layout) for x in columns]
                yield from BroadcastCase(op, f"{op.name}, {what}, {dtype} {layout}", xs).list_checks()


def _sample_arrays(op: Elementwise) -> Iterator[tuple[str, list[Any]]]:
    """Return operands made of the samples of an op, one array per input, with a label."""
    points = op.sample_points
    columns = [np.array([point[k] for point in points]) for k in range(len(op.inputs))]
    even = len(points) // 2 * 2
    yield "vector", columns
    yield "matrix", [x[:even].reshape(2, -1) for x in columns]
    yield "0-d", [x[0] * np.ones((), x.dtype) for x in columns]
    yield "another 0-d", [np.asarray(x[-1]) for x in columns]
    yield "size 1", [x[1:2].reshape(1, 1) for x in columns]
    yield "size 0", [x[:0].reshape(2, 0) for x in columns]
    for k in range(len(columns) if len(columns) > 1 else 0):
        yield f"{op.inputs[k]} a number", [np.asarray(x[0]) if j == k else x for j, x in enumerate(columns)]
        yield f"{op.inputs[k]} a column", [x[:4, None] if j == k else x[:5] for j, x in enumerate(columns)]
        yield f"{op.inputs[k]} of size 1", [x[:1] if j == k else x[:6].reshape(2, 3) for j, x in enumerate(columns)]
        yield f"{op.inputs[k]} of size 0", [x[:0] if j == k else x[:1] for j, x in enumerate(columns)]


class BroadcastCase:
    """An elementwise op on arrays whose shapes broadcast."""

    def __init__(self, op: Elementwise, name: str, xs: Sequence[Any]) -> None:
        self.op = op
        self.name = name
        self.xs = list(xs)
        self.slots = [k for k, x in enumerate(xs) if x.dtype.kind == "f"]

    def list_checks(self) -> Iterator[PlannedCheck]:
        """Return the checks: value, type, gradients, both modes, vmap, and that nothing changes in place."""
        checked = [("value", self.check_value), ("type", self.check_type)]
        for slot in self.slots:
            checked.append((f"gradient type {self.op.inputs[slot]}", partial(self.check_gradient_type, slot)))
            checked.append((f"gradient {self.op.inputs[slot]}", partial(self.check_gradient, slot)))
        if self.slots:
            checked.append(("modes", self.check_modes))
            checked.append(("vmap", self.check_vmap))
        if any(x.flags.writeable for x in self.xs):
            checked.append(("kept", self.check_unchanged))
        for what, run in checked:
            yield PlannedCheck(f"{self.name}: {what}", without_warnings(run))

    def apply_op(self, *leaves: Any) -> Any:
        """Apply the op with other numbers for its real inputs."""
        rest = iter(leaves)
        return self.op(*[next(rest) if k in self.slots else x for k, x in enumerate(self.xs)])

    @cached_property
    def _recorded_run(self) -> tuple[list[Value], Any]:
        values = [Value(self.xs[slot]) for slot in self.slots]
        return values, self.apply_op(*values)

    @cached_property
    def numpy_output(self) -> Any:
        """The output of the record's `forward`."""
        return np.asarray(self.op.forward(*self.xs))

    @cached_property
    def weights(self) -> Any:
        """Fixed weights of the outputs."""
        return np.asarray(random_like(np.random.default_rng(5), self.numpy_output))

    @cached_property
    def gradients(self) -> dict[int, Any]:
        """The gradient of the weighted sum of the outputs by each input."""
        values, y = self._recorded_run
        if isinstance(y, Value):
            y.backward(self.weights[()])
        zeros = [np.zeros_like(self.xs[slot]) for slot in self.slots]
        gradients = [
            zero if value.grad is None else np.asarray(value.grad) for value, zero in zip(values, zeros, strict=True)
        ]
        return dict(zip(self.slots, gradients, strict=True))

    def check_value(self) -> None:
        """The value is what `forward` gives, bit for bit."""
        # Single numbers are computed by Python's math library, whose last bit may differ from NumPy's.
        assert_near(data_of(self._recorded_run[1]), self.numpy_output, 0.0 if self.numpy_output.ndim else 1e-15)

    def check_type(self) -> None:
        """Dtype and shape are what `forward` gives."""
        got = data_of(self._recorded_run[1])
        assert (got.dtype, got.shape) == (self.numpy_output.dtype, self.numpy_output.shape), (
            f"{got.dtype}{got.shape}, wanted {self.numpy_output.dtype}{self.numpy_output.shape}"
        )

    def check_gradient_type(self, slot: int) -> None:
        """A gradient has its argument's dtype and shape."""
        got = self.gradients[slot]
        wanted = self.xs[slot]
        assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape), (
            f"{got.dtype}{got.shape}, wanted {wanted.dtype}{wanted.shape}"
        )

    def check_gradient(self, slot: int) -> None:
        """The gradient is the sum of the gradients of single numbers."""
        columns = [_without_long_doubles(x).ravel().tolist() for x in np.broadcast_arrays(*self.xs)]
        sent = [_scalar_slopes(self.op, point)[slot] for point in zip(*columns, strict=True)]
        if not isinstance(self._recorded_run[1], Value):
            sent = [0.0] * len(sent)
        each = np.array(sent, np.float64).reshape(self.numpy_output.shape)
        products = np.where(each == 0.0, 0.0, each * np.asarray(self.weights, np.float64))
        shape = self.xs[slot].shape
        stretched = tuple(k for k in range(products.ndim) if ((1,) * (products.ndim - len(shape)) + shape)[k] == 1)
        wanted = products.sum(axis=stretched).reshape(shape)
        # What is too large for float16 is infinite there.
        wanted = np.where(np.abs(wanted) > np.finfo(self.xs[slot].dtype).max, np.copysign(np.inf, wanted), wanted)
        scale = np.maximum(1.0, np.abs(products).sum(axis=stretched).reshape(shape))
        assert_near(
            self.gradients[slot],
            wanted,
            TOLERANCES[self.xs[slot].dtype],
            scale,
        )

    def check_modes(self) -> None:
        """Forward and reverse mode agree: <v, J u> = <J' v, u>."""
        if isinstance(self._recorded_run[1], Value):
            rng = np.random.default_rng(6)
            leaves = [self.xs[slot] for slot in self.slots]
            direction = [random_like(rng, x) for x in leaves]
            _, pushed = jvp(self.apply_op, [x[()] for x in leaves], direction)
            products = [g * u for g, u in zip(self.gradients.values(), direction, strict=True)]
            scale = max(1.0, *(tolerance_scale(np.asarray(product)) * max(1, np.size(product)) for product in products))
            tolerance = MODES_TOLERANCE if leaves[0].dtype == FLOAT64 else TOLERANCES[leaves[0].dtype]
            assert_near(
                real_inner_product(self.weights, pushed), sum(float(np.sum(p)) for p in products), tolerance, scale
            )

    def check_vmap(self) -> None:
        """A batch gives what a loop gives."""
        rows = [[self.xs[slot], self.xs[slot][::-1] if self.xs[slot].ndim else self.xs[slot]] for slot in self.slots]
        wanted = np.stack([data_of(self.apply_op(*[x[()] for x in column])) for column in zip(*rows, strict=True)])
        got = vmap(self.apply_op)(*[np.stack(pair) for pair in rows])
        assert np.shape(got) == wanted.shape, f"shape {np.shape(got)}, wanted {wanted.shape}"
        exact = wanted.dtype == FLOAT64 or wanted.dtype.kind not in "fc"
        assert_near(np.asarray(got), wanted, 1e-15 if exact else TOLERANCES[wanted.dtype])

    def check_unchanged(self) -> None:
        """Nothing was changed in place."""
        copies = [x.copy() for x in self.xs]
        again = BroadcastCase(self.op, self.name, self.xs)
        _ = again.gradients
        for got, wanted in zip(self.xs, copies, strict=True):
            assert_near(got, wanted, 0.0)


def _without_long_doubles(x: Any) -> Any:
    return x.astype(FLOAT64) if x.dtype == np.longdouble else x


@cache
def _scalar_slopes(op: Elementwise, point: tuple[Any, ...]) -> tuple[float, ...]:
    """Return the slopes of an op at single numbers; 0 where there is none."""
    values = [Value(x) if isinstance(x, float) else x for x in point]
    y = op(*values)
    if isinstance(y, Value) and y.op is not None:
        y.backward()
    return tuple([float(v.grad or 0.0) if isinstance(v, Value) else 0.0 for v in values])


def elementwise_ops() -> list[Elementwise]:
    """Return every elementwise op that can be differentiated or takes numbers."""
    return [op for op in TABLE if isinstance(op, Elementwise) and (smooth_slots(op) or not op.takes_bool)]
