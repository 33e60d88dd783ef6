"""From lines on arrays to statements on their elements: what loops compute, before any language has written them.

A line of ops that work element by element is one statement. What only moves elements (reshape, spread, a slice) costs
none: its readers read the elements where they are, through a map. What depends on constants alone, such as where a
slice sends a gradient, is computed here. An op that cannot be written is a `NoRuleError`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from wiregrad.codegen.forms import Apply, Constant, Form, Slot, slots_of, tidied, uniform
from wiregrad.codegen.listing import Line, Listing, Role
from wiregrad.codegen.maps import Map, Nest, size_of
from wiregrad.dtypes import BOOL, WireType
from wiregrad.errors import NoRuleError
from wiregrad.ir import TABLE, Op
from wiregrad.ops import Elementwise

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
    bound: int = 0
    """What all indices are below; 0 where that is not known."""
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
    """Makes the statements of one listing; a subclass says how ops on whole arrays are made of them."""

    def __init__(self, listing: Listing, names: Sequence[str]) -> None:
        self.listing, self.names = listing, names
        self.again = {line.target for line in listing.lines() if line.again}
        self.held: dict[int, Array | View | Constant] = {}
        self.steps: list[Step] = []
        self.views: list[View] = []
        self.line: Line | None = None
        self.start = 0
        """Where the steps of the line begin."""
        self.tables: dict[tuple[bytes, str], Array] = {}
        self.titles: dict[int, str] = {}
        self.filled: dict[tuple[Array, bytes], Array] = {}
        """Arrays that elements were put into, among zeros."""
        for number in listing.inputs.values():
            kind = listing.variables[number].type
            self.held[number] = Array(size_of(kind), kind.dtype.kind, names[number])

    def write(self, line: Line) -> None:
        """Add the statements of a line."""
        self.line, self.views, self.start = line, [], len(self.steps)
        if line.again and self._in_part(line):
            return
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

    def _in_part(self, line: Line) -> bool:
        """Add the statement of a line that changes some elements of its target, where constants say which ones."""
        form, target = line.form, self.held[line.target]
        if not isinstance(form, Apply) or not selects(form) or not _is_small(form) or not isinstance(target, Array):
            return False
        condition, yes, no = form.operands
        asked = self.leaf(line.atoms[condition.number]) if isinstance(condition, Slot) else condition
        same = isinstance(no, Slot) and line.atoms[no.number] == line.target
        if not same or not isinstance(asked, Constant) or asked.type.shape != form.type.shape:
            return False
        at = np.flatnonzero(np.ravel(asked.value))
        env = {slot: self._at(self.leaf(line.atoms[slot]), at) for slot in slots_of(yes)}
        found = self.piece(_resized(yes, at.shape), env)
        self.add(target, at, self.readable(found))
        target.guard = None
        if target.zeros is not None:
            target.zeros = target.zeros & ~np.ravel(asked.value)
        return True

    def _at(self, form: Form, at: Map) -> Form:
        single = isinstance(form, Constant) and not form.type.shape
        return form if single else self.pushed(form, at, WireType(form.type.dtype, at.shape))

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
        made = any(isinstance(step, Task) and step.target is view.array for step in self.steps[self.start :])
        if made and view.identical and not view.array.name:
            # What was made for this line alone is its result.
            view.array.name = self.names[line.target]
            self.held[line.target] = view.array
            if not final:
                self.filled = {key: array for key, array in self.filled.items() if array is not view.array}
        elif view.complete and final:
            self.held[line.target] = view
            self.steps.append(Same(self.names[line.target], view, line))
        elif final and self.listing.variables[line.target].role is Role.SHARED:
            # What is added to some elements of a gradient need not stand among zeros first.
            self.held[line.target] = view
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
            self.add(target, whole, zero(view.kind))
            self.add(target, at, self.slot(View(view.array, view.map[at], WireType(view.kind.dtype, at.shape))))
            return
        if isinstance(form, Apply) and selects(form) and is_zero(form.operands[2]):
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
        found = self.reached(form, env)
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

    def reached(self, form: Apply, env: dict[int, Form]) -> Form | None:
        """Return where something is present, if that is what a form asks."""
        return None

    def array_op(self, op: Op, operands: Sequence[Form], kind: WireType) -> Form:
        """Return an op on whole arrays, applied to forms of views."""
        raise NoRuleError(f"{op.title} cannot be written as loops in C; use to_numpy()")

    def _known(self, form: Apply, operands: Sequence[Form]) -> Form | None:
        """Return what an op makes of constants, where that takes little room."""
        known = all(isinstance(operand, Constant) or not size_of(operand.type) for operand in operands)
        if not known or form.op.per_call:
            return None
        # An array without elements is no more than its type.
        values = [
            operand.value if isinstance(operand, Constant) else np.zeros(operand.type.shape, operand.type.dtype)
            for operand in operands
        ]
        try:
            with np.errstate(all="ignore"):
                value = np.asarray(form.op.compute(*values))[()]
        except (ArithmeticError, ValueError):
            return None
        small = value.size <= KNOWN or value.size <= max(np.size(x) for x in values) or uniform(value) is not None
        return Constant(value, WireType(value.dtype, value.shape)) if small else None

    def elementwise(self, op: Elementwise, operands: Sequence[Form], kind: WireType) -> Form:
        """Return an op that works element by element, applied to forms of views."""
        if op.selects:
            chosen = self._chosen(operands, kind)
            if chosen is not None:
                return chosen
        if op is TABLE["greater"] and is_zero(operands[1]) and is_one_or_zero(operands[0]):
            assert isinstance(operands[0], Apply)
            return operands[0].operands[0]
        return tidied(op, tuple(self.readable(operand) for operand in operands), kind)

    def _chosen(self, operands: Sequence[Form], kind: WireType) -> Form | None:
        """Return a choice that need not be made as what it chooses."""
        condition, yes, no = operands
        if isinstance(condition, Constant) and uniform(condition.value) is not None:
            found = yes if uniform(condition.value) else no
            return found if found.type == kind else None
        asked = self.readable(condition)
        branches = [_branch(form, asked, part) for part, form in ((1, yes), (2, no))]
        if isinstance(asked, Slot) and (branches[0] is not yes or branches[1] is not no):
            return tidied(TABLE["where"], (asked, *map(self.readable, branches)), kind)
        return yes if self._decides_nothing(condition, yes, no) else None

    def _decides_nothing(self, condition: Form, yes: Form, no: Form) -> bool:
        """Return whether a choice is the same as its first branch: both are where the condition is false."""
        if is_zero(no) and isinstance(yes, Slot):
            return self._is_zero_elsewhere(yes, condition)
        if not isinstance(yes, Apply) or yes.op is not TABLE["add"] or not isinstance(no, Slot):
            return False
        before, more = yes.operands
        return more == no and isinstance(before, Slot) and self._is_zero_elsewhere(before, condition)

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
            if form.type.dtype.kind == "i":
                form = Constant(form.value.astype(np.float64), WireType(np.dtype(np.float64), form.type.shape))
            number = uniform(form.value)
            return self.table(form) if number is None else Constant(number, WireType(form.type.dtype))
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
        view = self.views[form.number] if isinstance(form, Slot) else None
        key = None if view is None else (view.array, view.map.tobytes())
        target = None if key is None else self.filled.get(key)
        if target is None:
            target = Array(size_of(form.type), form.type.dtype.kind)
            self.store(target, form)
            if key is not None:
                self.filled[key] = target
        return self.slot(View(target, np.arange(target.size), form.type))

    def pushed(self, form: Form, at: Map, kind: WireType) -> Form:
        """Return the elements of a form at some places, in their order; -1 is a plain zero."""
        if isinstance(form, Constant):
            flat = np.append(np.ravel(np.broadcast_to(form.value, form.type.shape)), np.zeros(1, form.type.dtype))
            if len(at) <= max(KNOWN, len(flat)) or uniform(form.value) is not None:
                return Constant(flat[at].reshape(kind.shape)[()], WireType(flat.dtype, kind.shape))
        if isinstance(form, Apply) and np.all(at >= 0) and len(at) <= size_of(form.type):
            return self._within(form, at, kind.shape)
        view = self.views[(form if isinstance(form, Slot) else self.kept(form)).number]
        places = np.broadcast_to(view.map, len(at)) if len(view.map) == 1 else view.map[at]
        return self.slot(View(view.array, np.where(at < 0, -1, places), WireType(view.kind.dtype, kind.shape)))

    def _within(self, form: Form, at: Map, shape: tuple[int, ...]) -> Form:
        """Return a form of views with other views in their places."""
        kind = WireType(form.type.dtype, shape)
        if isinstance(form, Apply):
            return Apply(form.op, tuple(self._within(operand, at, shape) for operand in form.operands), kind)
        return form if isinstance(form, Constant) and not form.type.shape else self.pushed(form, at, kind)


def _is_small(form: Form) -> bool:
    """Return whether a form has nothing but ops that work element by element, and numbers."""
    if isinstance(form, Apply):
        return isinstance(form.op, Elementwise) and all(map(_is_small, form.operands))
    return isinstance(form, Slot) or not form.type.shape


def _resized(form: Form, shape: tuple[int, ...]) -> Form:
    """Return a form of elements as one of other elements, in another shape."""
    if isinstance(form, Constant):
        return form
    kind = WireType(form.type.dtype, shape)
    if isinstance(form, Slot):
        return Slot(form.number, kind)
    return Apply(form.op, tuple(_resized(operand, shape) for operand in form.operands), kind)


def real(number: Any) -> Constant:
    """Return a real number as a constant.

    >>> real(1)
    Constant(value=np.float64(1.0), type=WireType(dtype=dtype('float64'), shape=()))
    """
    return Constant(np.float64(number), WireType(np.dtype(np.float64)))


def zero(kind: WireType) -> Constant:
    """Return the zero of a type, as one number.

    >>> zero(BOOL).value
    np.False_
    """
    return Constant(np.zeros((), kind.dtype)[()], WireType(kind.dtype))


def is_zero(form: Form) -> bool:
    """Return whether a form is 0 all over, and not -0; or false.

    >>> is_zero(real(0.0)), is_zero(real(-0.0))
    (True, False)
    """
    if not isinstance(form, Constant) or form.type.dtype.kind not in "fb":
        return False
    number = uniform(form.value)
    return number is not None and not number and not np.signbit(np.float64(number))


def selects(form: Form) -> bool:
    """Return whether a form is a choice.

    >>> selects(real(0.0))
    False
    """
    return isinstance(form, Apply) and isinstance(form.op, Elementwise) and form.op.selects


def _branch(form: Form, condition: Form, part: int) -> Form:
    """Return what is left of a choice where the same condition has been asked before."""
    if not isinstance(form, Apply) or not selects(form):
        return form
    first = form.operands[0]
    return form.operands[part] if isinstance(first, Slot) and first == condition else form


def is_one_or_zero(form: Form) -> bool:
    """Return whether a form is a condition written as 1 or 0.

    >>> is_one_or_zero(real(0.0))
    False
    """
    if not isinstance(form, Apply) or not selects(form) or not is_zero(form.operands[2]):
        return False
    yes = form.operands[1]
    return isinstance(yes, Constant) and uniform(yes.value) == 1.0 and form.operands[0].type.dtype == BOOL.dtype
