"""Lower ops on whole arrays to statements on elements, using what their records say.

For an op that only moves or adds up elements, running it shows where they go (`index_maps`). An op that repeats a step
along axes has that step in its record, an op that orders elements has its comparison, and a composite op has the ops
that it is made of. Matrix products are written as loops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from wiregrad.codegen.element_statements import (
    ArrayView,
    ElementLowering,
    LoopArray,
    LoopStatement,
    OrderStep,
    PickStep,
    is_one_or_zero,
    is_zero,
    real_constant,
    zero_constant,
)
from wiregrad.codegen.index_maps import IndexMap, LoopNest, count_elements, find_moves, find_strides, find_sums
from wiregrad.codegen.op_forms import ConstantForm, Form, OpForm, SlotForm, extract_forms, slots_of
from wiregrad.dtypes import WireType, WireValue
from wiregrad.errors import NoRuleError
from wiregrad.ir import TABLE, GraphBuilder, Op, Port
from wiregrad.ops import Elementwise
from wiregrad.ops.array_ops import ArrayOp, ArrayRule, Blocking, Linear
from wiregrad.passes import simplify

MAX_SORTED_ELEMENTS = 4096
"""Maximum number of elements that are sorted: insertion sort takes quadratic time."""


class ArrayOpLowering(ElementLowering):
    """Lowers the lines of one listing to statements, including ops on whole arrays."""

    def lower_reach_test(self, form: OpForm, env: dict[int, Form]) -> Form | None:
        """Lower a test whether a gradient reaches each element, which rules write as moved or added ones and zeros."""
        if form.op is not TABLE["greater"] or not is_zero(form.operands[1]):
            return None
        counts = form.operands[0]
        if not isinstance(counts, OpForm) or not isinstance(counts.op, Linear) or not counts.op.moves:
            return None
        first, *rest = counts.operands
        if not is_one_or_zero(first) or not all(isinstance(other, SlotForm | ConstantForm) for other in rest):
            return None
        assert isinstance(first, OpForm)
        mask = self.lower_to_elements(first.operands[0], env)
        others = [self.lower_to_elements(other, env) for other in rest]
        indices = [None, *(other.value if isinstance(other, ConstantForm) else None for other in others)]
        if isinstance(mask, ConstantForm) or any(value is None for value in indices[1:]):
            return None
        types = [first.type, *(other.type for other in others)]
        moves = find_moves(counts.op, types, indices)
        if moves is not None:
            return self.gather_elements(mask, moves - 1, form.type)
        targets = find_sums(counts.op, types, indices, form.type)
        return None if targets is None else self.fold_elements(TABLE["logical_or"], np.False_, mask, targets, form.type)

    def lower_array_op(self, op: Op, operands: Sequence[Form], kind: WireType) -> Form:
        """Lower an op on whole arrays, applied to forms of views."""
        if isinstance(op, ArrayOp):
            for lower in (
                self._lower_move,
                self._lower_sum,
                self._lower_repeated_step,
                self._lower_composite,
                self._lower_ordering,
                self._lower_indexing,
            ):
                form = lower(op, operands, kind)
                if form is not None:
                    return form
        if op is TABLE["matmul"]:
            a, b = (self._make_strided(operand, _matrix_sizes(operand.type.shape)) for operand in operands)
            return self.multiply_matrices(a, b, kind)
        return super().lower_array_op(op, operands, kind)

    def _lower_move(self, op: ArrayOp, operands: Sequence[Form], kind: WireType) -> Form | None:
        """Lower an op that only moves elements."""
        types = [operand.type for operand in operands]
        if not (isinstance(op, Linear) and op.moves) and not (isinstance(op, Blocking) and types == [kind]):
            return None
        indices = [_constant_indices(operand) for operand in operands]
        # Computed indices may be moved like numbers where they are the only operand.
        known = all(map(_is_real, operands, indices)) or (len(types) == 1 and types[0].dtype == kind.dtype)
        moves = find_moves(op, types, indices) if known else None
        if moves is None:
            return None
        moving = [operand for operand, value in zip(operands, indices, strict=True) if value is None]
        if kind.dtype.kind == "f":
            moving = [self._condition_as_number(operand) for operand in moving]
        return (
            self.gather_elements(moving[0], moves - 1, kind)
            if len(moving) == 1
            else self.join_elements(moving, moves - 1, kind)
        )

    def _condition_as_number(self, form: Form) -> Form:
        """Return a condition as 1 or 0."""
        if form.type.dtype.kind != "b":
            return form
        choose = TABLE["where"]
        one = real_constant(1.0)
        assert isinstance(choose, Elementwise)
        return self.lower_elementwise(
            choose, (form, one, real_constant(0.0)), WireType(one.type.dtype, form.type.shape)
        )

    def join_elements(self, operands: Sequence[Form], at: IndexMap, kind: WireType) -> Form:
        """Return an array of elements of several forms, numbered through all of them; -1 stands for a plain zero."""
        target = LoopArray(len(at), kind.dtype.kind)
        start = 0
        if np.any(at < 0):
            self.add_statement(target, np.arange(len(at)), zero_constant(kind))
        for operand in operands:
            stop = start + count_elements(operand.type)
            places = np.flatnonzero((at >= start) & (at < stop))
            part = self.gather_elements(operand, at[places] - start, WireType(operand.type.dtype, places.shape))
            self.add_statement(target, places, self.make_readable(part))
            start = stop
        return self.slot_of_view(ArrayView(target, np.arange(len(at)), kind))

    def _lower_sum(self, op: ArrayOp, operands: Sequence[Form], kind: WireType) -> Form | None:
        """Lower an op that only adds up elements."""
        indices = [_constant_indices(operand) for operand in operands]
        known = all(map(_is_real, operands, indices)) and kind.dtype.kind == "f"
        if not known or not isinstance(op, Linear) or not op.moves:
            return None
        targets = find_sums(op, [operand.type for operand in operands], indices, kind)
        return (
            None
            if targets is None
            else self.fold_elements(TABLE["add"], 0.0, self._condition_as_number(operands[0]), targets, kind)
        )

    def fold_elements(self, step: ArrayRule, start: ArrayLike, form: Form, to: IndexMap, kind: WireType) -> Form:
        """Fold elements into an array: each target element begins as `start` and takes one step per element."""
        target = LoopArray(count_elements(kind), kind.dtype.kind)
        at = np.flatnonzero(to > 0)
        self.add_statement(
            target, np.arange(target.size), ConstantForm(np.asarray(start, kind.dtype)[()], WireType(kind.dtype))
        )
        if len(at):
            short = WireType(kind.dtype, at.shape)
            x = self.make_readable(self.gather_elements(form, at, WireType(form.type.dtype, at.shape)))
            y = self.slot_of_view(ArrayView(target, to[at] - 1, short))
            self.add_statement(
                target, to[at] - 1, self.lower_to_elements(_step_form(step, (y.type, x.type)), {0: y, 1: x})
            )
        return self.slot_of_view(ArrayView(target, np.arange(target.size), kind))

    def _lower_repeated_step(self, op: ArrayOp, operands: Sequence[Form], kind: WireType) -> Form | None:
        """Lower an op that repeats a step along axes: a reduction over `axes`, or a scan along `axis`."""
        if op.step is None or kind.dtype.kind not in "fb":
            return None
        if "axes" in op.options:
            total = TABLE["sum"].bind(op.options)
            assert isinstance(total, Linear)
            to = find_sums(total, [operands[0].type], [None], kind)
            start = _find_neutral_start(op.step, kind.dtype.kind)
            return None if to is None or start is None else self.fold_elements(op.step, start, operands[0], to, kind)
        return self._lower_scan(op.step, operands, op.options["axis"], bool(op.options.get("reverse")), kind)

    def _lower_scan(self, step: ArrayRule, operands: Sequence[Form], axis: int, reverse: bool, kind: WireType) -> Form:
        """Lower a scan along an axis, which keeps every result; the first is the last operand's first element."""
        target = LoopArray(count_elements(kind), kind.dtype.kind)
        order = _elements_along_axis(kind.shape, axis, reverse)
        if target.size:
            first = order[:, 0].copy()
            short = WireType(kind.dtype, first.shape)
            self.add_statement(
                target,
                first,
                self.make_readable(self.gather_elements(self.materialize_form(operands[-1]), first, short)),
            )
        at = order[:, 1:].ravel()
        if len(at):
            short = WireType(kind.dtype, at.shape)
            env: dict[int, Form] = {0: self.slot_of_view(ArrayView(target, order[:, :-1].ravel(), short))}
            for k, operand in enumerate(operands, 1):
                places = _elements_along_axis(operand.type.shape, axis, reverse)[:, 1 - order.shape[1] :].ravel()
                env[k] = self.make_readable(self.gather_elements(self.materialize_form(operand), places, short))
            form = _step_form(step, (short,) * len(env))
            self.add_statement(target, at, self.lower_to_elements(form, env))
        return self.slot_of_view(ArrayView(target, np.arange(target.size), kind))

    def _lower_composite(self, op: ArrayOp, operands: Sequence[Form], kind: WireType) -> Form | None:
        """Lower an op that is composed of other ops."""
        if op.composite is None:
            return None
        shared, form = _composite_forms(op, tuple(operand.type for operand in operands))
        env: dict[int, Form] = dict(enumerate(operands))
        for each in shared:
            env[len(env)] = self.materialize_form(self.lower_to_elements(each, env))
        return self.lower_to_elements(form, env)

    def _lower_ordering(self, op: ArrayOp, operands: Sequence[Form], kind: WireType) -> Form | None:
        """Lower an op that gives the indices that sort an axis, or the index of the element that comes first."""
        source_type = operands[0].type
        is_real = source_type.dtype.kind == "f" and kind.dtype.kind == "i"
        if op.before is None or op.options.get("axis") is None or not is_real:
            return None
        first = "keepdims" in op.options
        lengths = _sizes_around_axis(source_type.shape, op.options["axis"])
        if lengths[1] == 1:
            return ConstantForm(np.zeros(kind.shape, np.int64), kind)
        if lengths[1] > MAX_SORTED_ELEMENTS and not first:
            raise NoRuleError(f"{op.title} of {lengths[1]:,} elements is too slow in loops; use to_numpy()")
        before = _step_form(op.before, (source_type, source_type))
        target = LoopArray(count_elements(kind), "i", bound=lengths[1])
        source = self._make_strided(operands[0], lengths)
        self.steps.append(OrderStep(target, source, lengths, before, first, self.line))
        self.line = None
        return self.slot_of_view(ArrayView(target, np.arange(target.size), kind))

    def _lower_indexing(self, op: ArrayOp, operands: Sequence[Form], kind: WireType) -> Form | None:
        """Lower an op that picks elements along an axis by computed indices, or adds elements at them."""
        axis = op.options.get("axis")
        types = tuple(operand.type for operand in operands)
        if axis is None or len(types) != 2 or types[1].dtype.kind != "i" or kind.dtype.kind != "f":
            return None
        adds = "length" in op.options
        row = len(types[1].shape) == 1
        picks = types[0].shape if adds else kind.shape
        if not (row or types[1].shape == picks) or not _is_pick_by_index(op, types, kind, adds):
            return None
        lengths = _sizes_around_axis(picks, axis)
        source = self._make_strided(operands[0], _sizes_around_axis(types[0].shape, axis))
        indices = self._make_strided(operands[1], (1, lengths[1], 1) if row else lengths)
        target = LoopArray(count_elements(kind), "f")
        along = (kind if adds else types[0]).shape[axis]
        if not 0 < indices.array.bound <= along:
            raise NoRuleError(
                f"{op.title} reads at computed indices that may be out of range; use to_numpy(), which checks them"
            )
        if adds:
            self.add_statement(target, np.arange(target.size), zero_constant(kind))
        self.steps.append(PickStep(target, source, indices, lengths, along, adds, self.line))
        self.line = None
        return self.slot_of_view(ArrayView(target, np.arange(target.size), kind))

    def _make_strided(self, form: Form, lengths: tuple[int, ...]) -> ArrayView:
        """Return the elements of a form with a constant stride along each of the given axes, copied if needed."""
        view = self.views[self.materialize_form(form).number]
        if find_strides(view.map, lengths) is not None:
            return view
        target = LoopArray(len(view.map), view.array.kind, bound=view.array.bound)
        self.store_form(target, self.slot_of_view(view))
        return ArrayView(target, np.arange(target.size), view.kind)

    def multiply_matrices(self, a: ArrayView, b: ArrayView, kind: WireType) -> Form:
        """Return the product of matrices; the innermost loop runs over the columns of a row."""
        count, rows, inner = _matrix_sizes(a.kind.shape)
        columns = b.kind.shape[-1]
        target = LoopArray(count_elements(kind), "f")
        whole = np.arange(count_elements(kind))
        if inner != 1:
            self.add_statement(target, whole, zero_constant(kind))
        if len(whole) and inner:
            at = find_strides(whole, (count, rows, columns))
            by_a = find_strides(a.map, (count, rows, inner))
            by_b = find_strides(b.map, (count, inner, columns))
            assert at is not None
            assert by_a is not None
            assert by_b is not None
            views = [ArrayView(target, whole, kind), a, b]
            form = _step_form(_add_product_step if inner > 1 else _multiply_step, (kind, a.kind, b.kind))
            steps = [(at[0], at[1], 0, at[2]), (*by_a, 0), (by_b[0], 0, by_b[1], by_b[2])]
            order = [steps[0], *(steps[slot] for slot in sorted(slots_of(form)))]
            nest = LoopNest((count, rows, inner, columns), tuple(order))
            self.steps.append(LoopStatement(target, whole, form, views, self.line, nest))
            self.line = None
        return self.slot_of_view(ArrayView(target, whole, kind))


def _multiply_step(y: Port, a: Port, b: Port) -> Port:
    product: Port = a * b
    return product


def _add_product_step(y: Port, a: Port, b: Port) -> Port:
    total: Port = y + a * b
    return total


def _matrix_sizes(shape: tuple[int, ...]) -> tuple[int, int, int]:
    return int(np.prod(shape[:-2], dtype=np.int64)), shape[-2], shape[-1]


def _sizes_around_axis(shape: tuple[int, ...], axis: int) -> tuple[int, int, int]:
    """Return the number of elements before, along and behind an axis."""
    axis %= len(shape)
    return int(np.prod(shape[:axis], dtype=np.int64)), shape[axis], int(np.prod(shape[axis + 1 :], dtype=np.int64))


def _is_pick_by_index(op: ArrayOp, types: Sequence[WireType], kind: WireType, adds: bool) -> bool:
    """Return whether an op, run on random numbers, picks or adds by indices along its axis as a pick step does."""
    axis = op.options["axis"]
    rng = np.random.default_rng(0)
    x = rng.integers(-(2**20), 2**20, size=types[0].shape).astype(np.float64)
    along = (kind if adds else types[0]).shape[axis]
    indices = rng.integers(0, along, size=types[1].shape) if along else np.zeros(types[1].shape, np.int64)
    shape = [1] * len(kind.shape)
    shape[axis] = -1
    wide = np.broadcast_to(indices.reshape(shape) if indices.ndim == 1 else indices, x.shape if adds else kind.shape)
    if not adds:
        return np.array_equal(op.compute(x, indices), np.take_along_axis(x, wide, axis))
    totals = np.zeros(kind.shape)
    places = np.take_along_axis(np.arange(totals.size).reshape(kind.shape), wide, axis)
    np.add.at(totals.reshape(-1), places.ravel(), x.ravel())
    return np.array_equal(op.compute(x, indices), totals)


def _elements_along_axis(shape: tuple[int, ...], axis: int, reverse: bool) -> IndexMap:
    """Return the element numbers along an axis, from its end if reversed; one row per index of the other axes."""
    moved = np.moveaxis(np.arange(int(np.prod(shape, dtype=np.int64))).reshape(shape), axis, -1)
    rows = moved.reshape(int(np.prod(moved.shape[:-1], dtype=np.int64)), moved.shape[-1])
    return rows[:, ::-1] if reverse else rows


def _step_form(step: ArrayRule, types: tuple[WireType, ...]) -> Form:
    """Return one step as a form: slot 0 is the result so far, the other slots are the elements it takes in."""
    return _derive_step_form(step, tuple(kind.dtype for kind in types))


@lru_cache(maxsize=1000)
def _derive_step_form(step: ArrayRule, dtypes: tuple[Any, ...]) -> Form:
    # Derived for scalars: the loop gives the shapes.
    builder = GraphBuilder(finite=False)
    wires = [builder.input(f"x{k}", WireType(dtype)) for k, dtype in enumerate(dtypes)]
    circuit = simplify(builder.build(labels={"y": step(*wires)}, name="step"))
    shared, forms = extract_forms(circuit, range(len(wires)), len(wires))
    assert not shared
    return forms["y"]


@lru_cache(maxsize=1000)
def _composite_forms(op: ArrayOp, types: tuple[WireType, ...]) -> tuple[list[Form], Form]:
    assert op.composite is not None
    builder = GraphBuilder(finite=False)
    wires = [builder.input(f"x{k}", kind) for k, kind in enumerate(types)]
    circuit = simplify(builder.build(labels={"y": op.composite(*wires, **op.options)}, name=op.name))
    shared, forms = extract_forms(circuit, range(len(wires)), len(wires))
    return shared, forms["y"]


@lru_cache(maxsize=1000)
def _find_neutral_start(step: Callable[..., Any], kind: str) -> np.bool_ | float | None:
    """Return the neutral element of a step, which leaves the other operand unchanged; None if there is none."""
    truths = (np.False_, np.True_)
    numbers = (0.0, 1.0, -np.inf, np.inf, np.nan)
    candidates: Sequence[np.bool_ | float] = truths if kind == "b" else numbers
    probes = truths if kind == "b" else (2.0, -3.0, 0.5, np.inf, -np.inf, np.nan)
    with np.errstate(all="ignore"):
        for start in candidates:
            if all(np.array_equal(step(start, x), x, equal_nan=kind == "f") for x in map(np.asarray, probes)):
                return start
    return None


def _constant_indices(form: Form) -> WireValue | None:
    return form.value if isinstance(form, ConstantForm) and form.type.dtype.kind in "iu" else None


def _is_real(form: Form, indices: WireValue | None) -> bool:
    return indices is not None or form.type.dtype.kind in "fb"
