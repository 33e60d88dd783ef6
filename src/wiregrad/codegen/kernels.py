"""Lower ops on whole arrays to statements on elements, using what their records say.

For an op that only moves or adds up elements, running it shows where they go (`maps`). An op that repeats a step along
axes has that step in its record, an op that orders elements has its comparison, and a composite op has the ops that it
is made of. Matrix products are written as loops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from wiregrad.codegen.elements import Array, Elements, Order, Pick, Statement, View, is_one_or_zero, is_zero, real, zero
from wiregrad.codegen.forms import Apply, Constant, Form, Slot, forms_of, slots_of
from wiregrad.codegen.maps import Map, Nest, collected, picked, size_of, straight
from wiregrad.dtypes import WireType
from wiregrad.errors import NoRuleError
from wiregrad.ir import TABLE, Builder, Op
from wiregrad.ops import Elementwise
from wiregrad.ops.array import ArrayOp, Blocking, Linear, Rule
from wiregrad.passes import simplify

SORTED = 4096
"""Maximum number of elements that are sorted: insertion sort takes quadratic time."""


class Kernels(Elements):
    """Lowers the lines of one listing to statements, including ops on whole arrays."""

    def reached(self, form: Apply, env: dict[int, Form]) -> Form | None:
        """Lower a test whether a gradient reaches each element, which rules write as moved or added ones and zeros."""
        if form.op is not TABLE["greater"] or not is_zero(form.operands[1]):
            return None
        counts = form.operands[0]
        if not isinstance(counts, Apply) or not isinstance(counts.op, Linear) or not counts.op.moves:
            return None
        first, *rest = counts.operands
        if not is_one_or_zero(first) or not all(isinstance(other, Slot | Constant) for other in rest):
            return None
        assert isinstance(first, Apply)
        mask = self.piece(first.operands[0], env)
        others = [self.piece(other, env) for other in rest]
        indices = [None, *(other.value if isinstance(other, Constant) else None for other in others)]
        if isinstance(mask, Constant) or any(value is None for value in indices[1:]):
            return None
        types = [first.type, *(other.type for other in others)]
        moves = picked(counts.op, types, indices)
        if moves is not None:
            return self.pushed(mask, moves - 1, form.type)
        targets = collected(counts.op, types, indices, form.type)
        return None if targets is None else self.folded(TABLE["logical_or"], np.False_, mask, targets, form.type)

    def array_op(self, op: Op, operands: Sequence[Form], kind: WireType) -> Form:
        """Lower an op on whole arrays, applied to forms of views."""
        if isinstance(op, ArrayOp):
            for lower in (self._moved, self._summed, self._run, self._composed, self._ordered, self._indexed):
                form = lower(op, operands, kind)
                if form is not None:
                    return form
        if op is TABLE["matmul"]:
            a, b = (self._straight(operand, _matrices(operand.type.shape)) for operand in operands)
            return self.product(a, b, kind)
        return super().array_op(op, operands, kind)

    def _moved(self, op: ArrayOp, operands: Sequence[Form], kind: WireType) -> Form | None:
        """Lower an op that only moves elements."""
        types = [operand.type for operand in operands]
        if not (isinstance(op, Linear) and op.moves) and not (isinstance(op, Blocking) and types == [kind]):
            return None
        indices = [_indices(operand) for operand in operands]
        # Computed indices may be moved like numbers where they are the only operand.
        known = all(map(_is_real, operands, indices)) or (len(types) == 1 and types[0].dtype == kind.dtype)
        moves = picked(op, types, indices) if known else None
        if moves is None:
            return None
        moving = [operand for operand, value in zip(operands, indices, strict=True) if value is None]
        if kind.dtype.kind == "f":
            moving = [self._number(operand) for operand in moving]
        return self.pushed(moving[0], moves - 1, kind) if len(moving) == 1 else self.joined(moving, moves - 1, kind)

    def _number(self, form: Form) -> Form:
        """Return a condition as 1 or 0."""
        if form.type.dtype.kind != "b":
            return form
        choose = TABLE["where"]
        one = real(1.0)
        assert isinstance(choose, Elementwise)
        return self.elementwise(choose, (form, one, real(0.0)), WireType(one.type.dtype, form.type.shape))

    def joined(self, operands: Sequence[Form], at: Map, kind: WireType) -> Form:
        """Return an array of elements of several forms, numbered through all of them; -1 stands for a plain zero."""
        target = Array(len(at), kind.dtype.kind)
        start = 0
        if np.any(at < 0):
            self.add(target, np.arange(len(at)), zero(kind))
        for operand in operands:
            stop = start + size_of(operand.type)
            places = np.flatnonzero((at >= start) & (at < stop))
            part = self.pushed(operand, at[places] - start, WireType(operand.type.dtype, places.shape))
            self.add(target, places, self.readable(part))
            start = stop
        return self.slot(View(target, np.arange(len(at)), kind))

    def _summed(self, op: ArrayOp, operands: Sequence[Form], kind: WireType) -> Form | None:
        """Lower an op that only adds up elements."""
        indices = [_indices(operand) for operand in operands]
        known = all(map(_is_real, operands, indices)) and kind.dtype.kind == "f"
        if not known or not isinstance(op, Linear) or not op.moves:
            return None
        targets = collected(op, [operand.type for operand in operands], indices, kind)
        return None if targets is None else self.folded(TABLE["add"], 0.0, self._number(operands[0]), targets, kind)

    def folded(self, step: Rule, start: Any, form: Form, to: Map, kind: WireType) -> Form:
        """Fold elements into an array: each target element begins as `start` and takes one step per element."""
        target = Array(size_of(kind), kind.dtype.kind)
        at = np.flatnonzero(to > 0)
        self.add(target, np.arange(target.size), Constant(np.asarray(start, kind.dtype)[()], WireType(kind.dtype)))
        if len(at):
            short = WireType(kind.dtype, at.shape)
            x = self.readable(self.pushed(form, at, WireType(form.type.dtype, at.shape)))
            y = self.slot(View(target, to[at] - 1, short))
            self.add(target, to[at] - 1, self.piece(_step_form(step, (y.type, x.type)), {0: y, 1: x}))
        return self.slot(View(target, np.arange(target.size), kind))

    def _run(self, op: ArrayOp, operands: Sequence[Form], kind: WireType) -> Form | None:
        """Lower an op that repeats a step along axes: a reduction over `axes`, or a scan along `axis`."""
        if op.step is None or kind.dtype.kind not in "fb":
            return None
        if "axes" in op.options:
            total = TABLE["sum"].bind(op.options)
            assert isinstance(total, Linear)
            to = collected(total, [operands[0].type], [None], kind)
            start = _neutral(op.step, kind.dtype.kind)
            return None if to is None or start is None else self.folded(op.step, start, operands[0], to, kind)
        return self._scanned(op.step, operands, op.options["axis"], bool(op.options.get("reverse")), kind)

    def _scanned(self, step: Rule, operands: Sequence[Form], axis: int, reverse: bool, kind: WireType) -> Form:
        """Lower a scan along an axis, which keeps every result; the first is the last operand's first element."""
        target = Array(size_of(kind), kind.dtype.kind)
        order = _along(kind.shape, axis, reverse)
        if target.size:
            first = order[:, 0].copy()
            short = WireType(kind.dtype, first.shape)
            self.add(target, first, self.readable(self.pushed(self.kept(operands[-1]), first, short)))
        at = order[:, 1:].ravel()
        if len(at):
            short = WireType(kind.dtype, at.shape)
            env: dict[int, Form] = {0: self.slot(View(target, order[:, :-1].ravel(), short))}
            for k, operand in enumerate(operands, 1):
                places = _along(operand.type.shape, axis, reverse)[:, 1 - order.shape[1] :].ravel()
                env[k] = self.readable(self.pushed(self.kept(operand), places, short))
            form = _step_form(step, (short,) * len(env))
            self.add(target, at, self.piece(form, env))
        return self.slot(View(target, np.arange(target.size), kind))

    def _composed(self, op: ArrayOp, operands: Sequence[Form], kind: WireType) -> Form | None:
        """Lower an op that is composed of other ops."""
        if op.composite is None:
            return None
        shared, form = _composite_forms(op, tuple(operand.type for operand in operands))
        env: dict[int, Form] = dict(enumerate(operands))
        for each in shared:
            env[len(env)] = self.kept(self.piece(each, env))
        return self.piece(form, env)

    def _ordered(self, op: ArrayOp, operands: Sequence[Form], kind: WireType) -> Form | None:
        """Lower an op that gives the indices that sort an axis, or the index of the element that comes first."""
        source_type = operands[0].type
        is_real = source_type.dtype.kind == "f" and kind.dtype.kind == "i"
        if op.before is None or op.options.get("axis") is None or not is_real:
            return None
        first = "keepdims" in op.options
        lengths = _around(source_type.shape, op.options["axis"])
        if lengths[1] == 1:
            return Constant(np.zeros(kind.shape, np.int64), kind)
        if lengths[1] > SORTED and not first:
            raise NoRuleError(f"{op.title} of {lengths[1]:,} elements is too slow in loops; use to_numpy()")
        before = _step_form(op.before, (source_type, source_type))
        target = Array(size_of(kind), "i", bound=lengths[1])
        source = self._straight(operands[0], lengths)
        self.steps.append(Order(target, source, lengths, before, first, self.line))
        self.line = None
        return self.slot(View(target, np.arange(target.size), kind))

    def _indexed(self, op: ArrayOp, operands: Sequence[Form], kind: WireType) -> Form | None:
        """Lower an op that picks elements along an axis by computed indices, or adds elements at them."""
        axis = op.options.get("axis")
        types = tuple(operand.type for operand in operands)
        if axis is None or len(types) != 2 or types[1].dtype.kind != "i" or kind.dtype.kind != "f":
            return None
        adds = "length" in op.options
        row = len(types[1].shape) == 1
        picks = types[0].shape if adds else kind.shape
        if not (row or types[1].shape == picks) or not _picks(op, types, kind, adds):
            return None
        lengths = _around(picks, axis)
        source = self._straight(operands[0], _around(types[0].shape, axis))
        indices = self._straight(operands[1], (1, lengths[1], 1) if row else lengths)
        target = Array(size_of(kind), "f")
        along = (kind if adds else types[0]).shape[axis]
        if not 0 < indices.array.bound <= along:
            raise NoRuleError(
                f"{op.title} reads at computed indices that may be out of range; use to_numpy(), which checks them"
            )
        if adds:
            self.add(target, np.arange(target.size), zero(kind))
        self.steps.append(Pick(target, source, indices, lengths, along, adds, self.line))
        self.line = None
        return self.slot(View(target, np.arange(target.size), kind))

    def _straight(self, form: Form, lengths: tuple[int, ...]) -> View:
        """Return the elements of a form with a constant stride along each of the given axes, copied if needed."""
        view = self.views[self.kept(form).number]
        if straight(view.map, lengths) is not None:
            return view
        target = Array(len(view.map), view.array.kind, bound=view.array.bound)
        self.store(target, self.slot(view))
        return View(target, np.arange(target.size), view.kind)

    def product(self, a: View, b: View, kind: WireType) -> Form:
        """Return the product of matrices; the innermost loop runs over the columns of a row."""
        count, rows, inner = _matrices(a.kind.shape)
        columns = b.kind.shape[-1]
        target = Array(size_of(kind), "f")
        whole = np.arange(size_of(kind))
        if inner != 1:
            self.add(target, whole, zero(kind))
        if len(whole) and inner:
            at = straight(whole, (count, rows, columns))
            by_a = straight(a.map, (count, rows, inner))
            by_b = straight(b.map, (count, inner, columns))
            assert at is not None
            assert by_a is not None
            assert by_b is not None
            views = [View(target, whole, kind), a, b]
            form = _step_form(_add_product if inner > 1 else _product, (kind, a.kind, b.kind))
            steps = [(at[0], at[1], 0, at[2]), (*by_a, 0), (by_b[0], 0, by_b[1], by_b[2])]
            order = [steps[0], *(steps[slot] for slot in sorted(slots_of(form)))]
            nest = Nest((count, rows, inner, columns), tuple(order))
            self.steps.append(Statement(target, whole, form, views, self.line, nest))
            self.line = None
        return self.slot(View(target, whole, kind))


def _product(y: Any, a: Any, b: Any) -> Any:
    return a * b


def _add_product(y: Any, a: Any, b: Any) -> Any:
    return y + a * b


def _matrices(shape: tuple[int, ...]) -> tuple[int, int, int]:
    return int(np.prod(shape[:-2], dtype=np.int64)), shape[-2], shape[-1]


def _around(shape: tuple[int, ...], axis: int) -> tuple[int, int, int]:
    """Return the number of elements before, along and behind an axis."""
    axis %= len(shape)
    return int(np.prod(shape[:axis], dtype=np.int64)), shape[axis], int(np.prod(shape[axis + 1 :], dtype=np.int64))


def _picks(op: ArrayOp, types: Sequence[WireType], kind: WireType, adds: bool) -> bool:
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


def _along(shape: tuple[int, ...], axis: int, reverse: bool) -> Map:
    """Return the element numbers along an axis, from its end if reversed; one row per index of the other axes."""
    moved = np.moveaxis(np.arange(int(np.prod(shape, dtype=np.int64))).reshape(shape), axis, -1)
    rows = moved.reshape(int(np.prod(moved.shape[:-1], dtype=np.int64)), moved.shape[-1])
    return rows[:, ::-1] if reverse else rows


def _step_form(step: Rule, types: tuple[WireType, ...]) -> Form:
    """Return one step as a form: slot 0 is the result so far, the other slots are the elements it takes in."""
    return _step_of(step, tuple(kind.dtype for kind in types))


@lru_cache(maxsize=1000)
def _step_of(step: Rule, dtypes: tuple[Any, ...]) -> Form:
    # Derived for scalars: the loop gives the shapes.
    builder = Builder(finite=False)
    wires = [builder.input(f"x{k}", WireType(dtype)) for k, dtype in enumerate(dtypes)]
    circuit = simplify(builder.build(labels={"y": step(*wires)}, name="step"))
    shared, forms = forms_of(circuit, range(len(wires)), len(wires))
    assert not shared
    return forms["y"]


@lru_cache(maxsize=1000)
def _composite_forms(op: ArrayOp, types: tuple[WireType, ...]) -> tuple[list[Form], Form]:
    assert op.composite is not None
    builder = Builder(finite=False)
    wires = [builder.input(f"x{k}", kind) for k, kind in enumerate(types)]
    circuit = simplify(builder.build(labels={"y": op.composite(*wires, **op.options)}, name=op.name))
    shared, forms = forms_of(circuit, range(len(wires)), len(wires))
    return shared, forms["y"]


@lru_cache(maxsize=1000)
def _neutral(step: Callable[..., Any], kind: str) -> Any:
    """Return the neutral element of a step, which leaves the other operand unchanged; None if there is none."""
    candidates: Sequence[Any] = (np.False_, np.True_) if kind == "b" else (0.0, 1.0, -np.inf, np.inf, np.nan)
    probes = (np.False_, np.True_) if kind == "b" else (2.0, -3.0, 0.5, np.inf, -np.inf, np.nan)
    with np.errstate(all="ignore"):
        for start in candidates:
            if all(np.array_equal(step(start, x), x, equal_nan=kind == "f") for x in map(np.asarray, probes)):
                return start
    return None


def _indices(form: Form) -> Any:
    return form.value if isinstance(form, Constant) and form.type.dtype.kind in "iu" else None


def _is_real(form: Form, indices: Any) -> bool:
    return indices is not None or form.type.dtype.kind in "fb"
