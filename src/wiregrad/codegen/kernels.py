"""How ops on whole arrays become statements on elements, found from their records.

What only moves or adds up elements is asked where they go (`maps`); what repeats a step along axes has that step in its
record, what orders elements its comparison, what is made of other ops those. Matrices are multiplied in loops.
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
"""How many elements are put in order at most: loops take as many steps as there are pairs."""


class Kernels(Elements):
    """Makes the statements of one listing, ops on whole arrays among them."""

    def reached(self, form: Apply, env: dict[int, Form]) -> Form | None:
        """Return whether something reaches an element, where that is asked by moving or adding up ones and zeros."""
        if form.op is not TABLE["greater"] or not is_zero(form.operands[1]):
            return None
        counts = form.operands[0]
        if not isinstance(counts, Apply) or not isinstance(counts.op, Linear) or not counts.op.moves:
            return None
        first, *rest = counts.operands
        if not is_one_or_zero(first) or not all(isinstance(other, Slot | Constant) for other in rest):
            return None
        assert isinstance(first, Apply)
        mask, others = self.piece(first.operands[0], env), [self.piece(other, env) for other in rest]
        given = [None, *(other.value if isinstance(other, Constant) else None for other in others)]
        if isinstance(mask, Constant) or any(value is None for value in given[1:]):
            return None
        types = [first.type, *(other.type for other in others)]
        moved = picked(counts.op, types, given)
        if moved is not None:
            return self.pushed(mask, moved - 1, form.type)
        met = collected(counts.op, types, given, form.type)
        return None if met is None else self.folded(TABLE["logical_or"], np.False_, mask, met, form.type)

    def array_op(self, op: Op, operands: Sequence[Form], kind: WireType) -> Form:
        """Return an op on whole arrays, applied to forms of views."""
        if isinstance(op, ArrayOp):
            for way in (self._moved, self._summed, self._run, self._composed, self._ordered, self._indexed):
                found = way(op, operands, kind)
                if found is not None:
                    return found
        if op is TABLE["matmul"]:
            a, b = (self._straight(form, _matrices(form.type.shape)) for form in operands)
            return self.product(a, b, kind)
        return super().array_op(op, operands, kind)

    def _moved(self, op: ArrayOp, operands: Sequence[Form], kind: WireType) -> Form | None:
        types = [operand.type for operand in operands]
        if not (isinstance(op, Linear) and op.moves) and not (isinstance(op, Blocking) and types == [kind]):
            return None
        given = [_indices(operand) for operand in operands]
        # Indices that are computed move as numbers do, alone.
        known = all(map(_is_real, operands, given)) or (len(types) == 1 and types[0].dtype == kind.dtype)
        found = picked(op, types, given) if known else None
        if found is None:
            return None
        moving = [operand for operand, value in zip(operands, given, strict=True) if value is None]
        if kind.dtype.kind == "f":
            moving = [self._number(operand) for operand in moving]
        return self.pushed(moving[0], found - 1, kind) if len(moving) == 1 else self.joined(moving, found - 1, kind)

    def _number(self, form: Form) -> Form:
        """Return a condition as 1 or 0."""
        if form.type.dtype.kind != "b":
            return form
        choose, one = TABLE["where"], real(1.0)
        assert isinstance(choose, Elementwise)
        return self.elementwise(choose, (form, one, real(0.0)), WireType(one.type.dtype, form.type.shape))

    def joined(self, operands: Sequence[Form], at: Map, kind: WireType) -> Form:
        """Return an array of elements of several forms, counted through all of them; -1 is a plain zero."""
        target, start = Array(len(at), kind.dtype.kind), 0
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
        given = [_indices(operand) for operand in operands]
        known = all(map(_is_real, operands, given)) and kind.dtype.kind == "f"
        if not known or not isinstance(op, Linear) or not op.moves:
            return None
        found = collected(op, [operand.type for operand in operands], given, kind)
        return None if found is None else self.folded(TABLE["add"], 0.0, self._number(operands[0]), found, kind)

    def folded(self, step: Rule, start: Any, form: Form, to: Map, kind: WireType) -> Form:
        """Return elements that begin as a number and meet, one after the other, the elements that belong to them."""
        target, at = Array(size_of(kind), kind.dtype.kind), np.flatnonzero(to > 0)
        self.add(target, np.arange(target.size), Constant(np.asarray(start, kind.dtype)[()], WireType(kind.dtype)))
        if len(at):
            short = WireType(kind.dtype, at.shape)
            x = self.readable(self.pushed(form, at, WireType(form.type.dtype, at.shape)))
            y = self.slot(View(target, to[at] - 1, short))
            self.add(target, to[at] - 1, self.piece(_step_form(step, (y.type, x.type)), {0: y, 1: x}))
        return self.slot(View(target, np.arange(target.size), kind))

    def _run(self, op: ArrayOp, operands: Sequence[Form], kind: WireType) -> Form | None:
        """Return an op that is a step repeated along axes: one result for all of them, or one after every step."""
        if op.step is None or kind.dtype.kind not in "fb":
            return None
        if "axes" in op.options:
            total, given = TABLE["sum"].bind(op.options), operands[0].type
            assert isinstance(total, Linear)
            to = collected(total, [given], [None], kind)
            start = _neutral(op.step, kind.dtype.kind)
            return None if to is None or start is None else self.folded(op.step, start, operands[0], to, kind)
        return self._scanned(op.step, operands, op.options["axis"], bool(op.options.get("reverse")), kind)

    def _scanned(self, step: Rule, operands: Sequence[Form], axis: int, reverse: bool, kind: WireType) -> Form:
        """Return the results of all steps along an axis; the first is the last operand's first element."""
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
        """Return an op that is made of others."""
        if op.composite is None:
            return None
        shared, form = _composite_forms(op, tuple(operand.type for operand in operands))
        env: dict[int, Form] = dict(enumerate(operands))
        for each in shared:
            env[len(env)] = self.kept(self.piece(each, env))
        return self.piece(form, env)

    def _ordered(self, op: ArrayOp, operands: Sequence[Form], kind: WireType) -> Form | None:
        """Return indices along an axis by which elements are in order, or that of the one that comes first."""
        given = operands[0].type
        if op.before is None or op.options.get("axis") is None or given.dtype.kind != "f" or kind.dtype.kind != "i":
            return None
        first, lengths = "keepdims" in op.options, _around(given.shape, op.options["axis"])
        if lengths[1] == 1:
            return Constant(np.zeros(kind.shape, np.int64), kind)
        if lengths[1] > SORTED and not first:
            raise NoRuleError(f"{op.title} of {lengths[1]:,} elements is too slow in loops; use to_numpy()")
        before = _step_form(op.before, (given, given))
        target, source = Array(size_of(kind), "i", bound=lengths[1]), self._straight(operands[0], lengths)
        self.steps.append(Order(target, source, lengths, before, first, self.line))
        self.line = None
        return self.slot(View(target, np.arange(target.size), kind))

    def _indexed(self, op: ArrayOp, operands: Sequence[Form], kind: WireType) -> Form | None:
        """Return elements picked along an axis by indices that are computed, or added where they say."""
        axis, types = op.options.get("axis"), tuple(operand.type for operand in operands)
        if axis is None or len(types) != 2 or types[1].dtype.kind != "i" or kind.dtype.kind != "f":
            return None
        adds, row = "length" in op.options, len(types[1].shape) == 1
        picks = types[0].shape if adds else kind.shape
        if not (row or types[1].shape == picks) or not _picks(op, types, kind, adds):
            return None
        lengths = _around(picks, axis)
        source = self._straight(operands[0], _around(types[0].shape, axis))
        indices = self._straight(operands[1], (1, lengths[1], 1) if row else lengths)
        target, along = Array(size_of(kind), "f"), (kind if adds else types[0]).shape[axis]
        if not 0 < indices.array.bound <= along:
            raise NoRuleError(
                f"{op.title} would read by indices that may be too large; use to_numpy(), which checks them"
            )
        if adds:
            self.add(target, np.arange(target.size), zero(kind))
        self.steps.append(Pick(target, source, indices, lengths, along, adds, self.line))
        self.line = None
        return self.slot(View(target, np.arange(target.size), kind))

    def _straight(self, form: Form, lengths: tuple[int, ...]) -> View:
        """Return elements, in a row for each of some axes, that stand in constant steps."""
        view = self.views[self.kept(form).number]
        if straight(view.map, lengths) is not None:
            return view
        target = Array(len(view.map), view.array.kind, bound=view.array.bound)
        self.store(target, self.slot(view))
        return View(target, np.arange(target.size), view.kind)

    def product(self, a: View, b: View, kind: WireType) -> Form:
        """Return the product of matrices: for each row and each k, all columns at once."""
        (count, rows, inner), columns = _matrices(a.kind.shape), b.kind.shape[-1]
        target, whole = Array(size_of(kind), "f"), np.arange(size_of(kind))
        if inner != 1:
            self.add(target, whole, zero(kind))
        if len(whole) and inner:
            at, by_a = straight(whole, (count, rows, columns)), straight(a.map, (count, rows, inner))
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
    """Return how many elements there are before, along and behind an axis."""
    axis %= len(shape)
    return int(np.prod(shape[:axis], dtype=np.int64)), shape[axis], int(np.prod(shape[axis + 1 :], dtype=np.int64))


def _picks(op: ArrayOp, types: Sequence[WireType], kind: WireType, adds: bool) -> bool:
    """Return whether an op picks or adds by indices along its axis as `Pick` says."""
    axis, rng = op.options["axis"], np.random.default_rng(0)
    x = rng.integers(-(2**20), 2**20, size=types[0].shape).astype(np.float64)
    along = (kind if adds else types[0]).shape[axis]
    indices = rng.integers(0, along, size=types[1].shape) if along else np.zeros(types[1].shape, np.int64)
    shape = [1] * len(kind.shape)
    shape[axis] = -1
    wide = np.broadcast_to(indices.reshape(shape) if indices.ndim == 1 else indices, x.shape if adds else kind.shape)
    if not adds:
        return np.array_equal(op.compute(x, indices), np.take_along_axis(x, wide, axis))
    found = np.zeros(kind.shape)
    places = np.take_along_axis(np.arange(found.size).reshape(kind.shape), wide, axis)
    np.add.at(found.reshape(-1), places.ravel(), x.ravel())
    return np.array_equal(op.compute(x, indices), found)


def _along(shape: tuple[int, ...], axis: int, reverse: bool) -> Map:
    """Return the elements along an axis, from its other end if it is reversed: a row for each place beside it."""
    moved = np.moveaxis(np.arange(int(np.prod(shape, dtype=np.int64))).reshape(shape), axis, -1)
    rows = moved.reshape(int(np.prod(moved.shape[:-1], dtype=np.int64)), moved.shape[-1])
    return rows[:, ::-1] if reverse else rows


def _step_form(step: Rule, types: tuple[WireType, ...]) -> Form:
    """Return one step as a form: slot 0 is what there is so far, the others are what it meets."""
    return _step_of(step, tuple(kind.dtype for kind in types))


@lru_cache(maxsize=1000)
def _step_of(step: Rule, dtypes: tuple[Any, ...]) -> Form:
    # As numbers: the shapes are those of the loop, whatever they are.
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
    """Return the number from which a step makes whatever it meets."""
    tries: Sequence[Any] = (np.False_, np.True_) if kind == "b" else (0.0, 1.0, -np.inf, np.inf, np.nan)
    probes = (np.False_, np.True_) if kind == "b" else (2.0, -3.0, 0.5, np.inf, -np.inf, np.nan)
    with np.errstate(all="ignore"):
        for start in tries:
            if all(np.array_equal(step(start, x), x, equal_nan=kind == "f") for x in map(np.asarray, probes)):
                return start
    return None


def _indices(form: Form) -> Any:
    return form.value if isinstance(form, Constant) and form.type.dtype.kind in "iu" else None


def _is_real(form: Form, indices: Any) -> bool:
    return indices is not None or form.type.dtype.kind in "fb"
