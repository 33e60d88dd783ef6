"""Lower lines on arrays to statements on their elements: what loops compute, before any language writes them.

A line of elementwise ops becomes one statement. An op that only moves elements (reshape, spread, a slice) needs none:
its readers read the elements where they are, through an index map. What depends on constants alone, such as where a
slice sends a gradient, is computed here. An op that cannot be lowered raises `NoRuleError`.
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
"""Maximum number of elements of a constant that is computed here rather than read through a map."""


@dataclass(eq=False)
class Array:
    """The storage of a variable: a flat array of numbers, or one number."""

    size: int
    kind: str
    """f for real numbers, b for conditions, i for indices."""
    name: str = ""
    """Empty for an array that has no name in the listing."""
    indexed: bool = False
    """Whether it is read and written by index even if it has one element."""
    bound: int = 0
    """For indices, a number that all of them are below; 0 if unknown."""
    data: Any = None
    """The elements of a constant."""
    zeros: Any = None
    """Which elements are known to be 0."""
    guard: View | None = None
    """One condition per element: where it is false, the element is 0."""


class View(NamedTuple):
    """Elements of an array in some order; -1 in the map stands for a plain zero."""

    array: Array
    map: Map
    kind: WireType

    @property
    def complete(self) -> bool:
        """Whether every entry is an element of the array, none a plain zero."""
        return not np.any(self.map < 0)

    @property
    def identical(self) -> bool:
        """Whether the view is the whole array, in order."""
        return len(self.map) == self.array.size and bool(np.all(self.map == np.arange(len(self.map))))


@dataclass(eq=False)
class Statement:
    """A loop that assigns a form of views to some elements of an array, element by element."""

    target: Array
    at: Map
    form: Form
    views: Sequence[View]
    line: Line | None = None
    nest: Nest | None = None
    """The loops along target and views, where the maps do not show them."""

    def read(self) -> list[View]:
        """Return the views that the statement reads."""
        return [self.views[slot] for slot in sorted(slots_of(self.form))]


@dataclass(eq=False)
class Same:
    """A variable that needs no statement because it is a view of another one."""

    name: str
    view: View
    line: Line


@dataclass(eq=False)
class Order:
    """Indices that sort elements along the middle of three axes, or the index of the element that comes first."""

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
    """Elements picked by computed indices along the middle of three axes, or added at those indices."""

    target: Array
    source: View
    indices: View
    lengths: tuple[int, int, int]
    """The shape of the picked elements; the source has the same lengths along the outer axes."""
    along: int
    """The length of the middle axis that the indices point into."""
    adds: bool
    line: Line | None = None

    def read(self) -> list[View]:
        """Return the views that it reads."""
        return [self.source, self.indices]


Task = Statement | Order | Pick
Step = Task | Same


class Elements:
    """Lowers the lines of one listing to statements; a subclass lowers the ops on whole arrays."""

    def __init__(self, listing: Listing, names: Sequence[str]) -> None:
        self.listing = listing
        self.names = names
        self.again = {line.target for line in listing.lines() if line.again}
        self.held: dict[int, Array | View | Constant] = {}
        self.steps: list[Step] = []
        self.views: list[View] = []
        self.line: Line | None = None
        self.start = 0
        """Index of the first step of the current line."""
        self.tables: dict[tuple[bytes, str], Array] = {}
        self.titles: dict[int, str] = {}
        self.filled: dict[tuple[Array, bytes], Array] = {}
        """Arrays that hold the elements of a view with plain zeros, by view."""
        for number in listing.inputs.values():
            kind = listing.variables[number].type
            self.held[number] = Array(size_of(kind), kind.dtype.kind, names[number])

    def write(self, line: Line) -> None:
        """Add the statements of a line."""
        self.line = line
        self.views = []
        self.start = len(self.steps)
        if line.again and self._in_part(line):
            return
        kind = self.listing.variables[line.target].type
        form = self.piece(line.form, {slot: self.leaf(line.atoms[slot]) for slot in slots_of(line.form)})
        if not line.again and self._without_statement(line, form, kind):
            return
        if kind.dtype.kind not in "fb":
            raise NoRuleError(f"{line.note} gives {kind}, and loops in C compute real numbers only; use to_numpy()")
        held = self.held.get(line.target)
        target = held if isinstance(held, Array) else Array(size_of(kind), kind.dtype.kind, self.names[line.target])
        self.held[line.target] = target
        self.store(target, form)

    def _in_part(self, line: Line) -> bool:
        """Add the statement of a line that changes only some elements of its target, chosen by a constant mask."""
        form = line.form
        target = self.held[line.target]
        if not isinstance(form, Apply) or not selects(form) or not _is_small(form) or not isinstance(target, Array):
            return False
        condition, yes, no = form.operands
        asked = self.leaf(line.atoms[condition.number]) if isinstance(condition, Slot) else condition
        same = isinstance(no, Slot) and line.atoms[no.number] == line.target
        if not same or not isinstance(asked, Constant) or asked.type.shape != form.type.shape:
            return False
        at = np.flatnonzero(np.ravel(asked.value))
        env = {slot: self._at(self.leaf(line.atoms[slot]), at) for slot in slots_of(yes)}
        value = self.piece(_resized(yes, at.shape), env)
        self.add(target, at, self.readable(value))
        target.guard = None
        if target.zeros is not None:
            target.zeros = target.zeros & ~np.ravel(asked.value)
        return True

    def _at(self, form: Form, at: Map) -> Form:
        single = isinstance(form, Constant) and not form.type.shape
        return form if single else self.pushed(form, at, WireType(form.type.dtype, at.shape))

    def _without_statement(self, line: Line, form: Form, kind: WireType) -> bool:
        """Return whether a line needs no statement: its target becomes a constant or a view of another variable."""
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
            # An array that was made for this line is its result.
            view.array.name = self.names[line.target]
            self.held[line.target] = view.array
            if not final:
                self.filled = {key: array for key, array in self.filled.items() if array is not view.array}
        elif view.complete and final:
            self.held[line.target] = view
            self.steps.append(Same(self.names[line.target], view, line))
        elif final and self.listing.variables[line.target].role is Role.SHARED:
            # A term that is added to some elements of a gradient need not be filled up with zeros first.
            self.held[line.target] = view
        else:
            return False
        return True

    def result(self, number: int) -> View | Constant:
        """Return the elements of a variable."""
        held = self.held[number]
        kind = self.listing.variables[number].type
        return View(held, np.arange(held.size), kind) if isinstance(held, Array) else held

    def leaf(self, atom: int | Constant) -> Form:
        """Return the form of an operand of a line."""
        elements = self.result(atom) if isinstance(atom, int) else atom
        return elements if isinstance(elements, Constant) else self.slot(elements)

    def slot(self, view: View) -> Slot:
        """Return the slot of a view; equal views share a slot."""
        for k, other in enumerate(self.views):
            if other.array is view.array and other.kind == view.kind and np.array_equal(other.map, view.map):
                return Slot(k, view.kind)
        self.views.append(view)
        return Slot(len(self.views) - 1, view.kind)

    def add(self, target: Array, at: Map, form: Form, nest: Nest | None = None) -> None:
        """Add a statement, unless it assigns no element."""
        if len(at):
            self.steps.append(Statement(target, at, form, self.views, self.line, nest))
            self.line = None

    def store(self, target: Array, form: Form) -> None:
        """Add the statements that store a form in an array."""
        whole = np.arange(target.size)
        view = self.views[form.number] if isinstance(form, Slot) else None
        target.zeros = None
        target.guard = None
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
        """Return a form of views in which every op is elementwise; other ops become statements."""
        if isinstance(form, Slot):
            return env[form.number]
        if isinstance(form, Constant):
            return form
        lowered = self.reached(form, env)
        if lowered is None:
            operands = [self.piece(operand, env) for operand in form.operands]
            lowered = self._known(form, operands)
            if lowered is None and isinstance(form.op, Elementwise):
                lowered = self.elementwise(form.op, operands, form.type)
            elif lowered is None:
                lowered = self.array_op(form.op, operands, form.type)
        if isinstance(lowered, Constant) and lowered.type.shape != form.type.shape:
            return Constant(np.broadcast_to(lowered.value, form.type.shape), form.type)
        return lowered

    def reached(self, form: Apply, env: dict[int, Form]) -> Form | None:
        """Return the lowered form if it tests which elements a gradient reaches, else None."""
        return None

    def array_op(self, op: Op, operands: Sequence[Form], kind: WireType) -> Form:
        """Lower an op on whole arrays, applied to forms of views."""
        raise NoRuleError(f"{op.title} cannot be written as loops in C; use to_numpy()")

    def _known(self, form: Apply, operands: Sequence[Form]) -> Form | None:
        """Return the constant that an op computes from constants, if it is small; else None."""
        known = all(isinstance(operand, Constant) or not size_of(operand.type) for operand in operands)
        if not known or form.op.per_call:
            return None
        # An array without elements counts as a constant: its type says everything.
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
        """Lower an elementwise op, applied to forms of views."""
        if op.selects:
            branch = self._chosen(operands, kind)
            if branch is not None:
                return branch
        if op is TABLE["greater"] and is_zero(operands[1]) and is_one_or_zero(operands[0]):
            assert isinstance(operands[0], Apply)
            return operands[0].operands[0]
        return tidied(op, tuple(self.readable(operand) for operand in operands), kind)

    def _chosen(self, operands: Sequence[Form], kind: WireType) -> Form | None:
        """Return the branch of a choice that is already decided, or a shorter choice; None if there is neither."""
        condition, yes, no = operands
        if isinstance(condition, Constant) and uniform(condition.value) is not None:
            branch = yes if uniform(condition.value) else no
            return branch if branch.type == kind else None
        asked = self.readable(condition)
        branches = [_branch(form, asked, part) for part, form in ((1, yes), (2, no))]
        if isinstance(asked, Slot) and (branches[0] is not yes or branches[1] is not no):
            return tidied(TABLE["where"], (asked, *map(self.readable, branches)), kind)
        return yes if self._decides_nothing(condition, yes, no) else None

    def _decides_nothing(self, condition: Form, yes: Form, no: Form) -> bool:
        """Return whether a choice equals its first branch: where the condition is false, both branches are equal."""
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
        asked = self.views[condition.number]
        guard = view.array.guard
        same = (guard.map[view.map] == asked.map) | (view.map < 0)
        return asked.array is guard.array and bool(np.all(same))

    def readable(self, form: Form) -> Form:
        """Return a form that an expression can read: array elements, or one number."""
        if isinstance(form, Constant):
            if form.type.dtype.kind == "i":
                form = Constant(form.value.astype(np.float64), WireType(np.dtype(np.float64), form.type.shape))
            number = uniform(form.value)
            return self.table(form) if number is None else Constant(number, WireType(form.type.dtype))
        complete = not isinstance(form, Slot) or self.views[form.number].complete
        return form if complete else self.kept(form)

    def table(self, constant: Constant) -> Slot:
        """Return a constant as the elements of a table; equal constants share one."""
        data = np.ravel(np.broadcast_to(constant.value, constant.type.shape))
        key = data.tobytes(), data.dtype.char
        table = self.tables.get(key)
        if table is None:
            title = self.titles.get(id(constant.value), "")
            table = self.tables[key] = Array(data.size, data.dtype.kind, title, data=data)
        return self.slot(View(table, np.arange(data.size), constant.type))

    def kept(self, form: Form) -> Slot:
        """Return a form as elements of an array, storing it in a new one if needed."""
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
        """Return the elements of a form at the given places, in that order; -1 stands for a plain zero."""
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
        """Return a form with the elements at the given places gathered in each of its operands."""
        kind = WireType(form.type.dtype, shape)
        if isinstance(form, Apply):
            return Apply(form.op, tuple(self._within(operand, at, shape) for operand in form.operands), kind)
        return form if isinstance(form, Constant) and not form.type.shape else self.pushed(form, at, kind)


def _is_small(form: Form) -> bool:
    """Return whether a form consists of elementwise ops, slots and scalar constants only."""
    if isinstance(form, Apply):
        return isinstance(form.op, Elementwise) and all(map(_is_small, form.operands))
    return isinstance(form, Slot) or not form.type.shape


def _resized(form: Form, shape: tuple[int, ...]) -> Form:
    """Return a form with every slot and op given another shape."""
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
    """Return whether every element of a form is 0 (not -0) or false.

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
    """Return the branch (operand `part`) of a choice whose condition is already decided; any other form unchanged."""
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
