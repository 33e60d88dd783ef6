"""From lines on arrays to statements on their elements: what loops compute, before any language has written them.

A line of ops that work element by element is one statement. What only moves elements (reshape, spread, a slice) costs
none: its readers read the elements where they are, through a map. What depends on constants alone, such as where a
slice sends a gradient, is computed here. An op that cannot be written is a `NoRuleError`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from wiregrad.codegen.forms import Apply, Constant, Form, Slot, forms_of, slots_of, tidied, uniform
from wiregrad.codegen.listing import Line, Listing
from wiregrad.codegen.maps import Map, Nest, collected, picked, size_of, straight
from wiregrad.dtypes import BOOL, WireType
from wiregrad.errors import NoRuleError
from wiregrad.ir import TABLE, Builder, Op
from wiregrad.ops import Elementwise
from wiregrad.ops.array import ArrayOp, Blocking, Linear, Rule
from wiregrad.passes import simplify

SORTED = 4096
"""How many elements are put in order at most: loops take as many steps as pairs."""
KNOWN = 4096
"""A constant of so many elements at most is computed here rather than read through a map."""


@dataclass(eq=False)
class Array:
    """What a variable is: numbers in a row, which may be one alone."""

    size: int
    kind: str
    """f for real numbers, b for conditions, i for indices."""
    name: str = ""
    """Empty for what has no name in the listing."""
    indexed: bool = False
    """Whether it is read and written by index even if it is one number alone."""
    data: Any = None
    """The elements of a constant."""
    zeros: Any = None
    """Which elements are known to be 0."""
    guard: View | None = None
    """Conditions, as many as elements: where one is false, the element is 0."""


class View(NamedTuple):
    """Elements of an array in some order; -1 in the map is a plain zero."""

    array: Array
    map: Map
    kind: WireType

    @property
    def complete(self) -> bool:
        """Whether all of them are elements of the array."""
        return not np.any(self.map < 0)

    @property
    def identical(self) -> bool:
        """Whether they are all elements of the array, in order."""
        return len(self.map) == self.array.size and bool(np.all(self.map == np.arange(len(self.map))))


@dataclass(eq=False)
class Statement:
    """A loop: the elements of an array at some places become a form of views, element by element."""

    target: Array
    at: Map
    form: Form
    views: Sequence[View]
    line: Line | None = None
    nest: Nest | None = None
    """How loops run along target and views, where that cannot be seen from the maps."""

    def read(self) -> list[View]:
        """Return the views that it reads."""
        return [self.views[slot] for slot in sorted(slots_of(self.form))]


@dataclass(eq=False)
class Same:
    """A variable that needs no statement: elements of another."""

    name: str
    view: View
    line: Line


@dataclass(eq=False)
class Order:
    """Indices along the middle one of three axes: in the order of elements, or of the element that comes first."""

    target: Array
    source: View
    lengths: tuple[int, int, int]
    before: Form
    """Whether slot 0 comes before slot 1."""
    first: bool
    """Whether only the element that comes first is wanted."""
    line: Line | None = None

    def read(self) -> list[View]:
        """Return the views that it reads."""
        return [self.source]


@dataclass(eq=False)
class Pick:
    """Elements picked by indices along the middle one of three axes, or added where indices say."""

    target: Array
    source: View
    indices: View
    lengths: tuple[int, int, int]
    """How many are picked; along the other axes the source is as long."""
    along: int
    """How long the middle axis is that indices point to."""
    adds: bool
    line: Line | None = None

    def read(self) -> list[View]:
        """Return the views that it reads."""
        return [self.source, self.indices]


Task = Statement | Order | Pick
Step = Task | Same


class Elements:
    """Makes the statements of one listing."""

    def __init__(self, listing: Listing, names: Sequence[str]) -> None:
        self.listing, self.names = listing, names
        self.again = {line.target for line in listing.lines() if line.again}
        self.held: dict[int, Array | View | Constant] = {}
        self.steps: list[Step] = []
        self.views: list[View] = []
        self.line: Line | None = None
        self.tables: dict[tuple[bytes, str], Array] = {}
        self.titles: dict[int, str] = {}
        for number in listing.inputs.values():
            kind = listing.variables[number].type
            self.held[number] = Array(size_of(kind), kind.dtype.kind, names[number])

    def write(self, line: Line) -> None:
        """Add the statements of a line."""
        self.line, self.views = line, []
        kind = self.listing.variables[line.target].type
        form = self.piece(line.form, {slot: self.leaf(line.atoms[slot]) for slot in slots_of(line.form)})
        if not line.again and self._without_statement(line, form, kind):
            return
        if kind.dtype.kind not in "fb":
            raise NoRuleError(f"{line.note} makes {kind}, and loops in C compute with real numbers; use to_numpy()")
        held = self.held.get(line.target)
        target = held if isinstance(held, Array) else Array(size_of(kind), kind.dtype.kind, self.names[line.target])
        self.held[line.target] = target
        self.store(target, form)

    def _without_statement(self, line: Line, form: Form, kind: WireType) -> bool:
        """Return whether a line is a constant, or elements of another variable; then that is what its target is."""
        final = line.target not in self.again
        if isinstance(form, Constant) and final and (kind.shape or kind.dtype.kind != "f"):
            self.held[line.target] = form
            self.titles[id(form.value)] = self.names[line.target]
            return True
        if not isinstance(form, Slot):
            return False
        view = self.views[form.number]
        if not view.array.name and view.array.data is None and view.identical:
            # What was made for this line alone is its result.
            view.array.name = self.names[line.target]
            self.held[line.target] = view.array
        elif view.complete and final:
            self.held[line.target] = view
            self.steps.append(Same(self.names[line.target], view, line))
        else:
            return False
        return True

    def result(self, number: int) -> View | Constant:
        """Return the elements of a variable."""
        held, kind = self.held[number], self.listing.variables[number].type
        return View(held, np.arange(held.size), kind) if isinstance(held, Array) else held

    def leaf(self, atom: int | Constant) -> Form:
        """Return what a line reads as a form."""
        found = self.result(atom) if isinstance(atom, int) else atom
        return found if isinstance(found, Constant) else self.slot(found)

    def slot(self, view: View) -> Slot:
        """Return the slot of a view, the same one for the same view."""
        for k, other in enumerate(self.views):
            if other.array is view.array and other.kind == view.kind and np.array_equal(other.map, view.map):
                return Slot(k, view.kind)
        self.views.append(view)
        return Slot(len(self.views) - 1, view.kind)

    def add(self, target: Array, at: Map, form: Form, nest: Nest | None = None) -> None:
        """Add a statement, unless it has nothing to do."""
        if len(at):
            self.steps.append(Statement(target, at, form, self.views, self.line, nest))
            self.line = None

    def store(self, target: Array, form: Form) -> None:
        """Make an array what a form is."""
        whole = np.arange(target.size)
        view = self.views[form.number] if isinstance(form, Slot) else None
        target.zeros, target.guard = None, None
        if view is not None and not view.complete:
            target.zeros = view.map < 0
            at = np.flatnonzero(~target.zeros)
            self.add(target, whole, _zero(view.kind))
            self.add(target, at, self.slot(View(view.array, view.map[at], WireType(view.kind.dtype, at.shape))))
            return
        if isinstance(form, Apply) and isinstance(form.op, Elementwise) and form.op.selects and _is_zero(form.operands[2]):
            self._guarded(target, form.operands[0])
        self.add(target, whole, self.readable(form))

    def _guarded(self, target: Array, condition: Form) -> None:
        """Note where an array is 0 because a condition is false."""
        if isinstance(condition, Slot) and len(self.views[condition.number].map) == target.size:
            view = self.views[condition.number]
            target.guard = view
            if view.array.data is not None:
                target.zeros = ~view.array.data[view.map]

    def piece(self, form: Form, env: dict[int, Form]) -> Form:
        """Return a form of views in which every op works element by element; what does not becomes statements."""
        if isinstance(form, Slot):
            return env[form.number]
        if isinstance(form, Constant):
            return form
        found = self._any(form, env)
        if found is None:
            operands = [self.piece(operand, env) for operand in form.operands]
            found = self._known(form, operands)
            if found is None and isinstance(form.op, Elementwise):
                found = self.elementwise(form.op, operands, form.type)
            elif found is None:
                found = self.array_op(form.op, operands, form.type)
        if isinstance(found, Constant) and found.type.shape != form.type.shape:
            return Constant(np.broadcast_to(found.value, form.type.shape), form.type)
        return found

    def _any(self, form: Apply, env: dict[int, Form]) -> Form | None:
        """Return whether something reaches an element, where that is asked by moving or adding up ones and zeros."""
        if form.op is not TABLE["greater"] or not _is_zero(form.operands[1]):
            return None
        counts = form.operands[0]
        if not isinstance(counts, Apply) or not isinstance(counts.op, Linear) or not counts.op.moves:
            return None
        first, *rest = counts.operands
        if not _is_one_or_zero(first) or not all(isinstance(other, Slot | Constant) for other in rest):
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

    def _known(self, form: Apply, operands: Sequence[Form]) -> Form | None:
        """Return what an op makes of constants, where that takes little room."""
        if not all(isinstance(operand, Constant) or not size_of(operand.type) for operand in operands):
            return None
        # An array without elements is no more than its type.
        values = [
            operand.value if isinstance(operand, Constant) else np.zeros(operand.type.shape, operand.type.dtype)
            for operand in operands
        ]
        with np.errstate(all="ignore"):
            value = np.asarray(form.op.compute(*values))[()]
        small = value.size <= KNOWN or value.size <= max(np.size(x) for x in values) or uniform(value) is not None
        return Constant(value, WireType(value.dtype, value.shape)) if small else None

    def elementwise(self, op: Elementwise, operands: Sequence[Form], kind: WireType) -> Form:
        """Return an op that works element by element, applied to forms of views."""
        if op.selects:
            chosen = self._chosen(*operands, kind)
            if chosen is not None:
                return chosen
        if op is TABLE["greater"] and _is_zero(operands[1]) and _is_one_or_zero(operands[0]):
            assert isinstance(operands[0], Apply)
            return operands[0].operands[0]
        return tidied(op, tuple(self.readable(operand) for operand in operands), kind)

    def _chosen(self, condition: Form, yes: Form, no: Form, kind: WireType) -> Form | None:
        """Return a choice that need not be made as what it chooses."""
        if isinstance(condition, Constant) and uniform(condition.value) is not None:
            found = yes if uniform(condition.value) else no
            return found if found.type == kind else None
        asked = self.readable(condition)
        branches = [_branch(form, asked, part) for part, form in ((1, yes), (2, no))]
        if isinstance(asked, Slot) and (branches[0] is not yes or branches[1] is not no):
            return tidied(TABLE["where"], (asked, *map(self.readable, branches)), kind)
        return yes if _is_zero(no) and isinstance(yes, Slot) and self._is_zero_elsewhere(yes, condition) else None

    def _is_zero_elsewhere(self, form: Slot, condition: Form) -> bool:
        """Return whether elements are known to be 0 where a condition is false."""
        view = self.views[form.number]
        if isinstance(condition, Constant):
            known = np.zeros(len(view.map), bool) if view.array.zeros is None else view.array.zeros[view.map]
            return bool(np.all(known | (view.map < 0) | np.ravel(condition.value)))
        if not isinstance(condition, Slot) or view.array.guard is None:
            return False
        asked, guard = self.views[condition.number], view.array.guard
        same = (guard.map[view.map] == asked.map) | (view.map < 0)
        return asked.array is guard.array and bool(np.all(same))

    def readable(self, form: Form) -> Form:
        """Return a form that an expression can read: an element, or one number."""
        if isinstance(form, Constant):
            number = uniform(form.value)
            if number is not None:
                return Constant(number, WireType(form.type.dtype)) if form.type.dtype.kind != "i" else _real(number)
            return self.table(form)
        complete = not isinstance(form, Slot) or self.views[form.number].complete
        return form if complete else self.kept(form)

    def table(self, constant: Constant) -> Slot:
        """Return a constant as elements that stand somewhere."""
        data = np.ravel(np.broadcast_to(constant.value, constant.type.shape))
        key = data.tobytes(), data.dtype.char
        found = self.tables.get(key)
        if found is None:
            title = self.titles.get(id(constant.value), "")
            found = self.tables[key] = Array(data.size, data.dtype.kind, title, data=data)
        return self.slot(View(found, np.arange(data.size), constant.type))

    def kept(self, form: Form) -> Slot:
        """Return a form as elements that stand somewhere."""
        if isinstance(form, Slot) and self.views[form.number].complete:
            return form
        if isinstance(form, Constant) and uniform(form.value) is None:
            return self.table(form)
        target = Array(size_of(form.type), form.type.dtype.kind)
        self.store(target, form)
        return self.slot(View(target, np.arange(target.size), form.type))

    def array_op(self, op: Op, operands: Sequence[Form], kind: WireType) -> Form:
        """Return an op on whole arrays, applied to forms of views."""
        if isinstance(op, ArrayOp):
            for way in (self._moved, self._summed, self._run, self._composed, self._ordered, self._indexed):
                found = way(op, operands, kind)
                if found is not None:
                    return found
        if op is TABLE["matmul"]:
            return self.product(*(self._straight(form, _matrices(form.type.shape)) for form in operands), kind)
        raise NoRuleError(f"{op.title} cannot be written as loops in C; use to_numpy(), which writes every op on arrays")

    def _moved(self, op: ArrayOp, operands: Sequence[Form], kind: WireType) -> Form | None:
        types = [operand.type for operand in operands]
        if not (isinstance(op, Linear) and op.moves) and not (isinstance(op, Blocking) and types == [kind]):
            return None
        given = [_indices(operand) for operand in operands]
        found = picked(op, types, given) if all(map(_is_real, operands, given)) else None
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
        return self.elementwise(TABLE["where"], (form, _real(1.0), _real(0.0)), WireType(_real(0.0).type.dtype, form.type.shape))

    def pushed(self, form: Form, at: Map, kind: WireType) -> Form:
        """Return the elements of a form at some places, in their order; -1 is a plain zero."""
        if isinstance(form, Constant):
            flat = np.append(np.ravel(np.broadcast_to(form.value, form.type.shape)), np.zeros(1, form.type.dtype))
            if len(at) <= max(KNOWN, len(flat)) or uniform(form.value) is not None:
                return Constant(flat[at].reshape(kind.shape)[()], WireType(flat.dtype, kind.shape))
            form = self.readable(form)
        if isinstance(form, Apply):
            if np.any(at < 0) or len(at) > size_of(form.type):
                form = self.kept(form)
            else:
                return self._within(form, at, kind.shape)
        view = self.views[form.number]
        places = np.broadcast_to(view.map, len(at)) if len(view.map) == 1 else view.map[at]
        return self.slot(View(view.array, np.where(at < 0, -1, places), WireType(view.kind.dtype, kind.shape)))

    def _within(self, form: Form, at: Map, shape: tuple[int, ...]) -> Form:
        """Return a form of views with other views in their places."""
        kind = WireType(form.type.dtype, shape)
        if isinstance(form, Apply):
            return Apply(form.op, tuple(self._within(operand, at, shape) for operand in form.operands), kind)
        return form if isinstance(form, Constant) and not form.type.shape else self.pushed(form, at, kind)

    def joined(self, operands: Sequence[Form], at: Map, kind: WireType) -> Form:
        """Return an array of elements of several forms, counted through all of them; -1 is a plain zero."""
        target, start = Array(len(at), kind.dtype.kind), 0
        if np.any(at < 0):
            self.add(target, np.arange(len(at)), _zero(kind))
        for operand in operands:
            stop = start + size_of(operand.type)
            places = np.flatnonzero((at >= start) & (at < stop))
            part = self.pushed(operand, at[places] - start, WireType(operand.type.dtype, places.shape))
            self.add(target, places, self.readable(part))
            start = stop
        return self.slot(View(target, np.arange(len(at)), kind))

    def _summed(self, op: ArrayOp, operands: Sequence[Form], kind: WireType) -> Form | None:
        given = [_indices(operand) for operand in operands]
        if not isinstance(op, Linear) or not op.moves or not all(map(_is_real, operands, given)) or kind.dtype.kind != "f":
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
        target, source = Array(size_of(kind), "i"), self._straight(operands[0], lengths)
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
        target = Array(size_of(kind), "f")
        if adds:
            self.add(target, np.arange(target.size), _zero(kind))
        along = (kind if adds else types[0]).shape[axis]
        self.steps.append(Pick(target, source, indices, lengths, along, adds, self.line))
        self.line = None
        return self.slot(View(target, np.arange(target.size), kind))

    def _straight(self, form: Form, lengths: tuple[int, ...]) -> View:
        """Return elements, in a row for each of some axes, that stand in constant steps."""
        view = self.views[self.kept(form).number]
        if straight(view.map, lengths) is not None:
            return view
        target = Array(len(view.map), view.array.kind)
        self.store(target, self.slot(view))
        return View(target, np.arange(target.size), view.kind)

    def product(self, a: View, b: View, kind: WireType) -> Form:
        """Return the product of matrices: for each row and each k, all columns at once."""
        (count, rows, inner), columns = _matrices(a.kind.shape), b.kind.shape[-1]
        target, whole = Array(size_of(kind), "f"), np.arange(size_of(kind))
        if inner != 1:
            self.add(target, whole, _zero(kind))
        if len(whole) and inner:
            at, by_a = straight(whole, (count, rows, columns)), straight(a.map, (count, rows, inner))
            by_b = straight(b.map, (count, inner, columns))
            assert at is not None and by_a is not None and by_b is not None
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


def _real(number: Any) -> Constant:
    return Constant(np.float64(number), WireType(np.dtype(np.float64)))


def _zero(kind: WireType) -> Constant:
    return Constant(np.zeros((), kind.dtype)[()], WireType(kind.dtype))


def _is_zero(form: Form) -> bool:
    """Return whether a form is 0 all over, and not -0; or false."""
    if not isinstance(form, Constant) or form.type.dtype.kind not in "fb":
        return False
    number = uniform(form.value)
    return number is not None and not number and not np.signbit(np.float64(number))


def _selects(form: Form) -> bool:
    return isinstance(form, Apply) and isinstance(form.op, Elementwise) and form.op.selects


def _branch(form: Form, condition: Form, part: int) -> Form:
    """Return what is left of a choice where the same condition has been asked before."""
    if not isinstance(form, Apply) or not _selects(form):
        return form
    first = form.operands[0]
    return form.operands[part] if isinstance(first, Slot) and first == condition else form


def _is_one_or_zero(form: Form) -> bool:
    """Return whether a form is a condition written as 1 or 0."""
    if not isinstance(form, Apply) or not _selects(form) or not _is_zero(form.operands[2]):
        return False
    yes = form.operands[1]
    return isinstance(yes, Constant) and uniform(yes.value) == 1.0 and form.operands[0].type.dtype == BOOL.dtype
