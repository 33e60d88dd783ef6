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

from wiregrad.codegen.index_maps import IndexMap, LoopNest, count_elements
from wiregrad.codegen.listing import Listing, ListingLine, VariableRole
from wiregrad.codegen.op_forms import ConstantForm, Form, OpForm, SlotForm, find_uniform_value, slots_of, tidy_form
from wiregrad.dtypes import BOOL, WireType
from wiregrad.errors import NoRuleError
from wiregrad.ir import TABLE, Op
from wiregrad.ops import Elementwise

MAX_FOLDED_ELEMENTS = 4096
"""Maximum number of elements of a constant that is computed here rather than read through a map."""


@dataclass(eq=False)
class LoopArray:
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
    guard: ArrayView | None = None
    """One condition per element: where it is false, the element is 0."""


class ArrayView(NamedTuple):
    """Elements of an array in some order; -1 in the map stands for a plain zero."""

    array: LoopArray
    map: IndexMap
    kind: WireType

    @property
    def is_complete(self) -> bool:
        """Whether every entry is an element of the array, none a plain zero."""
        return not np.any(self.map < 0)

    @property
    def is_whole_array(self) -> bool:
        """Whether the view is the whole array, in order."""
        return len(self.map) == self.array.size and bool(np.all(self.map == np.arange(len(self.map))))


@dataclass(eq=False)
class LoopStatement:
    """A loop that assigns a form of views to some elements of an array, element by element."""

    target: LoopArray
    at: IndexMap
    form: Form
    views: Sequence[ArrayView]
    line: ListingLine | None = None
    nest: LoopNest | None = None
    """The loops along target and views, where the maps do not show them."""

    def views_read(self) -> list[ArrayView]:
        """Return the views that the statement reads."""
        return [self.views[slot] for slot in sorted(slots_of(self.form))]


@dataclass(eq=False)
class ViewAlias:
    """A variable that needs no statement because it is a view of another one."""

    name: str
    view: ArrayView
    line: ListingLine


@dataclass(eq=False)
class OrderStep:
    """Indices that sort elements along the middle of three axes, or the index of the element that comes first."""

    target: LoopArray
    source: ArrayView
    lengths: tuple[int, int, int]
    before: Form
    """Whether slot 0 comes before slot 1."""
    first: bool
    """Whether only the element that comes first is wanted."""
    line: ListingLine | None = None

    def views_read(self) -> list[ArrayView]:
        """Return the views that it reads."""
        return [self.source]


@dataclass(eq=False)
class PickStep:
    """Elements picked by computed indices along the middle of three axes, or added at those indices."""

    target: LoopArray
    source: ArrayView
    indices: ArrayView
    lengths: tuple[int, int, int]
    """The shape of the picked elements; the source has the same lengths along the outer axes."""
    along: int
    """The length of the middle axis that the indices point into."""
    adds: bool
    line: ListingLine | None = None

    def views_read(self) -> list[ArrayView]:
        """Return the views that it reads."""
        return [self.source, self.indices]


LoopTask = LoopStatement | OrderStep | PickStep
LoopStep = LoopTask | ViewAlias


class ElementLowering:
    """Lowers the lines of one listing to statements; a subclass lowers the ops on whole arrays."""

    def __init__(self, listing: Listing, names: Sequence[str]) -> None:
        self.listing = listing
        self.names = names
        self.again = {line.target for line in listing.all_lines() if line.again}
        self.held: dict[int, LoopArray | ArrayView | ConstantForm] = {}
        self.steps: list[LoopStep] = []
        self.views: list[ArrayView] = []
        self.line: ListingLine | None = None
        self.start = 0
        """Index of the first step of the current line."""
        self.tables: dict[tuple[bytes, str], LoopArray] = {}
        self.titles: dict[int, str] = {}
        self.filled: dict[tuple[LoopArray, bytes], LoopArray] = {}
        """Arrays that hold the elements of a view with plain zeros, by view."""
        for number in listing.inputs.values():
            kind = listing.variables[number].type
            self.held[number] = LoopArray(count_elements(kind), kind.dtype.kind, names[number])

    def lower_line(self, line: ListingLine) -> None:
        """Add the statements of a line."""
        self.line = line
        self.views = []
        self.start = len(self.steps)
        if line.again and self._update_some_elements(line):
            return
        kind = self.listing.variables[line.target].type
        form = self.lower_to_elements(
            line.form, {slot: self.atom_form(line.atoms[slot]) for slot in slots_of(line.form)}
        )
        if not line.again and self._without_statement(line, form, kind):
            return
        if kind.dtype.kind not in "fb":
            raise NoRuleError(f"{line.note} gives {kind}, and loops in C compute real numbers only; use to_numpy()")
        held = self.held.get(line.target)
        target = (
            held
            if isinstance(held, LoopArray)
            else LoopArray(count_elements(kind), kind.dtype.kind, self.names[line.target])
        )
        self.held[line.target] = target
        self.store_form(target, form)

    def _update_some_elements(self, line: ListingLine) -> bool:
        """Add the statement of a line that changes only some elements of its target, chosen by a constant mask."""
        form = line.form
        target = self.held[line.target]
        if (
            not isinstance(form, OpForm)
            or not is_choice(form)
            or not _is_elementwise(form)
            or not isinstance(target, LoopArray)
        ):
            return False
        condition, yes, no = form.operands
        asked = self.atom_form(line.atoms[condition.number]) if isinstance(condition, SlotForm) else condition
        same = isinstance(no, SlotForm) and line.atoms[no.number] == line.target
        if not same or not isinstance(asked, ConstantForm) or asked.type.shape != form.type.shape:
            return False
        at = np.flatnonzero(np.ravel(asked.value))
        env = {slot: self._select_elements(self.atom_form(line.atoms[slot]), at) for slot in slots_of(yes)}
        value = self.lower_to_elements(_resize_form(yes, at.shape), env)
        self.add_statement(target, at, self.make_readable(value))
        target.guard = None
        if target.zeros is not None:
            target.zeros = target.zeros & ~np.ravel(asked.value)
        return True

    def _select_elements(self, form: Form, at: IndexMap) -> Form:
        single = isinstance(form, ConstantForm) and not form.type.shape
        return form if single else self.gather_elements(form, at, WireType(form.type.dtype, at.shape))

    def _without_statement(self, line: ListingLine, form: Form, kind: WireType) -> bool:
        """Return whether a line needs no statement: its target becomes a constant or a view of another variable."""
        final = line.target not in self.again
        if isinstance(form, ConstantForm) and final and (kind.shape or kind.dtype.kind != "f"):
            self.held[line.target] = form
            self.titles[id(form.value)] = self.names[line.target]
            return True
        if not isinstance(form, SlotForm):
            return False
        view = self.views[form.number]
        new_steps = self.steps[self.start :]
        is_new_array = any(isinstance(step, LoopTask) and step.target is view.array for step in new_steps)
        if is_new_array and view.is_whole_array and not view.array.name:
            # An array that was made for this line is its result.
            view.array.name = self.names[line.target]
            self.held[line.target] = view.array
            if not final:
                self.filled = {key: array for key, array in self.filled.items() if array is not view.array}
        elif view.is_complete and final:
            self.held[line.target] = view
            self.steps.append(ViewAlias(self.names[line.target], view, line))
        elif final and self.listing.variables[line.target].role is VariableRole.SHARED:
            # A term that is added to some elements of a gradient need not be filled up with zeros first.
            self.held[line.target] = view
        else:
            return False
        return True

    def elements_of(self, number: int) -> ArrayView | ConstantForm:
        """Return the elements of a variable."""
        held = self.held[number]
        kind = self.listing.variables[number].type
        return ArrayView(held, np.arange(held.size), kind) if isinstance(held, LoopArray) else held

    def atom_form(self, atom: int | ConstantForm) -> Form:
        """Return the form of an operand of a line."""
        elements = self.elements_of(atom) if isinstance(atom, int) else atom
        return elements if isinstance(elements, ConstantForm) else self.slot_of_view(elements)

    def slot_of_view(self, view: ArrayView) -> SlotForm:
        """Return the slot of a view; equal views share a slot."""
        for k, other in enumerate(self.views):
            if other.array is view.array and other.kind == view.kind and np.array_equal(other.map, view.map):
                return SlotForm(k, view.kind)
        self.views.append(view)
        return SlotForm(len(self.views) - 1, view.kind)

    def add_statement(self, target: LoopArray, at: IndexMap, form: Form, nest: LoopNest | None = None) -> None:
        """Add a statement, unless it assigns no element."""
        if len(at):
            self.steps.append(LoopStatement(target, at, form, self.views, self.line, nest))
            self.line = None

    def store_form(self, target: LoopArray, form: Form) -> None:
        """Add the statements that store a form in an array."""
        whole = np.arange(target.size)
        view = self.views[form.number] if isinstance(form, SlotForm) else None
        target.zeros = None
        target.guard = None
        if view is not None and not view.is_complete:
            target.zeros = view.map < 0
            at = np.flatnonzero(~target.zeros)
            self.add_statement(target, whole, zero_constant(view.kind))
            self.add_statement(
                target, at, self.slot_of_view(ArrayView(view.array, view.map[at], WireType(view.kind.dtype, at.shape)))
            )
            return
        if isinstance(form, OpForm) and is_choice(form) and is_zero(form.operands[2]):
            self._note_guard(target, form.operands[0])
        self.add_statement(target, whole, self.make_readable(form))

    def _note_guard(self, target: LoopArray, condition: Form) -> None:
        """Note where an array is 0 because a condition is false."""
        if isinstance(condition, SlotForm) and len(self.views[condition.number].map) == target.size:
            view = self.views[condition.number]
            target.guard = view
            if view.array.data is not None:
                target.zeros = ~view.array.data[view.map]

    def lower_to_elements(self, form: Form, env: dict[int, Form]) -> Form:
        """Return a form of views in which every op is elementwise; other ops become statements."""
        if isinstance(form, SlotForm):
            return env[form.number]
        if isinstance(form, ConstantForm):
            return form
        lowered = self.lower_reach_test(form, env)
        if lowered is None:
            operands = [self.lower_to_elements(operand, env) for operand in form.operands]
            lowered = self._fold_constants(form, operands)
            if lowered is None and isinstance(form.op, Elementwise):
                lowered = self.lower_elementwise(form.op, operands, form.type)
            elif lowered is None:
                lowered = self.lower_array_op(form.op, operands, form.type)
        if isinstance(lowered, ConstantForm) and lowered.type.shape != form.type.shape:
            return ConstantForm(np.broadcast_to(lowered.value, form.type.shape), form.type)
        return lowered

    def lower_reach_test(self, form: OpForm, env: dict[int, Form]) -> Form | None:
        """Return the lowered form if it tests which elements a gradient reaches, else None."""
        return None

    def lower_array_op(self, op: Op, operands: Sequence[Form], kind: WireType) -> Form:
        """Lower an op on whole arrays, applied to forms of views."""
        raise NoRuleError(f"{op.title} cannot be written as loops in C; use to_numpy()")

    def _fold_constants(self, form: OpForm, operands: Sequence[Form]) -> Form | None:
        """Return the constant that an op computes from constants, if it is small; else None."""
        known = all(isinstance(operand, ConstantForm) or not count_elements(operand.type) for operand in operands)
        if not known or form.op.per_call:
            return None
        # An array without elements counts as a constant: its type says everything.
        values = [
            operand.value if isinstance(operand, ConstantForm) else np.zeros(operand.type.shape, operand.type.dtype)
            for operand in operands
        ]
        try:
            with np.errstate(all="ignore"):
                value = np.asarray(form.op.compute(*values))[()]
        except (ArithmeticError, ValueError):
            return None
        small = (
            value.size <= MAX_FOLDED_ELEMENTS
            or value.size <= max(np.size(x) for x in values)
            or find_uniform_value(value) is not None
        )
        return ConstantForm(value, WireType(value.dtype, value.shape)) if small else None

    def lower_elementwise(self, op: Elementwise, operands: Sequence[Form], kind: WireType) -> Form:
        """Lower an elementwise op, applied to forms of views."""
        if op.selects:
            branch = self._lower_choice(operands, kind)
            if branch is not None:
                return branch
        if op is TABLE["greater"] and is_zero(operands[1]) and is_one_or_zero(operands[0]):
            assert isinstance(operands[0], OpForm)
            return operands[0].operands[0]
        return tidy_form(op, tuple(self.make_readable(operand) for operand in operands), kind)

    def _lower_choice(self, operands: Sequence[Form], kind: WireType) -> Form | None:
        """Return the branch of a choice that is already decided, or a shorter choice; None if there is neither."""
        condition, yes, no = operands
        if isinstance(condition, ConstantForm) and find_uniform_value(condition.value) is not None:
            branch = yes if find_uniform_value(condition.value) else no
            return branch if branch.type == kind else None
        asked = self.make_readable(condition)
        branches = [_take_known_branch(form, asked, part) for part, form in ((1, yes), (2, no))]
        if isinstance(asked, SlotForm) and (branches[0] is not yes or branches[1] is not no):
            return tidy_form(TABLE["where"], (asked, *map(self.make_readable, branches)), kind)
        return yes if self._decides_nothing(condition, yes, no) else None

    def _decides_nothing(self, condition: Form, yes: Form, no: Form) -> bool:
        """Return whether a choice equals its first branch: where the condition is false, both branches are equal."""
        if is_zero(no) and isinstance(yes, SlotForm):
            return self._is_zero_elsewhere(yes, condition)
        if not isinstance(yes, OpForm) or yes.op is not TABLE["add"] or not isinstance(no, SlotForm):
            return False
        before, more = yes.operands
        return more == no and isinstance(before, SlotForm) and self._is_zero_elsewhere(before, condition)

    def _is_zero_elsewhere(self, form: SlotForm, condition: Form) -> bool:
        """Return whether elements are known to be 0 where a condition is false."""
        view = self.views[form.number]
        if isinstance(condition, ConstantForm):
            known = np.zeros(len(view.map), bool) if view.array.zeros is None else view.array.zeros[view.map]
            return bool(np.all(known | (view.map < 0) | np.ravel(condition.value)))
        if not isinstance(condition, SlotForm) or view.array.guard is None:
            return False
        asked = self.views[condition.number]
        guard = view.array.guard
        same = (guard.map[view.map] == asked.map) | (view.map < 0)
        return asked.array is guard.array and bool(np.all(same))

    def make_readable(self, form: Form) -> Form:
        """Return a form that an expression can read: array elements, or one number."""
        if isinstance(form, ConstantForm):
            if form.type.dtype.kind == "i":
                form = ConstantForm(form.value.astype(np.float64), WireType(np.dtype(np.float64), form.type.shape))
            number = find_uniform_value(form.value)
            return self.constant_table(form) if number is None else ConstantForm(number, WireType(form.type.dtype))
        complete = not isinstance(form, SlotForm) or self.views[form.number].is_complete
        return form if complete else self.materialize_form(form)

    def constant_table(self, constant: ConstantForm) -> SlotForm:
        """Return a constant as the elements of a table; equal constants share one."""
        data = np.ravel(np.broadcast_to(constant.value, constant.type.shape))
        key = data.tobytes(), data.dtype.char
        table = self.tables.get(key)
        if table is None:
            title = self.titles.get(id(constant.value), "")
            table = self.tables[key] = LoopArray(data.size, data.dtype.kind, title, data=data)
        return self.slot_of_view(ArrayView(table, np.arange(data.size), constant.type))

    def materialize_form(self, form: Form) -> SlotForm:
        """Return a form as elements of an array, storing it in a new one if needed."""
        if isinstance(form, SlotForm) and self.views[form.number].is_complete:
            return form
        if isinstance(form, ConstantForm) and find_uniform_value(form.value) is None:
            return self.constant_table(form)
        view = self.views[form.number] if isinstance(form, SlotForm) else None
        key = None if view is None else (view.array, view.map.tobytes())
        target = None if key is None else self.filled.get(key)
        if target is None:
            target = LoopArray(count_elements(form.type), form.type.dtype.kind)
            self.store_form(target, form)
            if key is not None:
                self.filled[key] = target
        return self.slot_of_view(ArrayView(target, np.arange(target.size), form.type))

    def gather_elements(self, form: Form, at: IndexMap, kind: WireType) -> Form:
        """Return the elements of a form at the given places, in that order; -1 stands for a plain zero."""
        if isinstance(form, ConstantForm):
            flat = np.append(np.ravel(np.broadcast_to(form.value, form.type.shape)), np.zeros(1, form.type.dtype))
            if len(at) <= max(MAX_FOLDED_ELEMENTS, len(flat)) or find_uniform_value(form.value) is not None:
                return ConstantForm(flat[at].reshape(kind.shape)[()], WireType(flat.dtype, kind.shape))
        if isinstance(form, OpForm) and np.all(at >= 0) and len(at) <= count_elements(form.type):
            return self._gather_in_form(form, at, kind.shape)
        view = self.views[(form if isinstance(form, SlotForm) else self.materialize_form(form)).number]
        places = np.broadcast_to(view.map, len(at)) if len(view.map) == 1 else view.map[at]
        return self.slot_of_view(
            ArrayView(view.array, np.where(at < 0, -1, places), WireType(view.kind.dtype, kind.shape))
        )

    def _gather_in_form(self, form: Form, at: IndexMap, shape: tuple[int, ...]) -> Form:
        """Return a form with the elements at the given places gathered in each of its operands."""
        kind = WireType(form.type.dtype, shape)
        if isinstance(form, OpForm):
            return OpForm(form.op, tuple(self._gather_in_form(operand, at, shape) for operand in form.operands), kind)
        return form if isinstance(form, ConstantForm) and not form.type.shape else self.gather_elements(form, at, kind)


def _is_elementwise(form: Form) -> bool:
    """Return whether a form consists of elementwise ops, slots and scalar constants only."""
    if isinstance(form, OpForm):
        return isinstance(form.op, Elementwise) and all(map(_is_elementwise, form.operands))
    return isinstance(form, SlotForm) or not form.type.shape


def _resize_form(form: Form, shape: tuple[int, ...]) -> Form:
    """Return a form with every slot and op given another shape."""
    if isinstance(form, ConstantForm):
        return form
    kind = WireType(form.type.dtype, shape)
    if isinstance(form, SlotForm):
        return SlotForm(form.number, kind)
    return OpForm(form.op, tuple(_resize_form(operand, shape) for operand in form.operands), kind)


def real_constant(number: float | np.floating[Any]) -> ConstantForm:
    """Return a real number as a constant.

    >>> real_constant(1)
    ConstantForm(value=np.float64(1.0), type=WireType(dtype=dtype('float64'), shape=()))
    """
    return ConstantForm(np.float64(number), WireType(np.dtype(np.float64)))


def zero_constant(kind: WireType) -> ConstantForm:
    """Return the zero of a type, as one number.

    >>> zero_constant(BOOL).value
    np.False_
    """
    return ConstantForm(np.zeros((), kind.dtype)[()], WireType(kind.dtype))


def is_zero(form: Form) -> bool:
    """Return whether every element of a form is 0 (not -0) or false.

    >>> is_zero(real_constant(0.0)), is_zero(real_constant(-0.0))
    (True, False)
    """
    if not isinstance(form, ConstantForm) or form.type.dtype.kind not in "fb":
        return False
    number = find_uniform_value(form.value)
    return number is not None and not number and not np.signbit(np.float64(number))


def is_choice(form: Form) -> bool:
    """Return whether a form is a choice.

    >>> is_choice(real_constant(0.0))
    False
    """
    return isinstance(form, OpForm) and isinstance(form.op, Elementwise) and form.op.selects


def _take_known_branch(form: Form, condition: Form, part: int) -> Form:
    """Return the branch (operand `part`) of a choice whose condition is already decided; any other form unchanged."""
    if not isinstance(form, OpForm) or not is_choice(form):
        return form
    first = form.operands[0]
    return form.operands[part] if isinstance(first, SlotForm) and first == condition else form


def is_one_or_zero(form: Form) -> bool:
    """Return whether a form is a condition written as 1 or 0.

    >>> is_one_or_zero(real_constant(0.0))
    False
    """
    if not isinstance(form, OpForm) or not is_choice(form) or not is_zero(form.operands[2]):
        return False
    yes = form.operands[1]
    return (
        isinstance(yes, ConstantForm)
        and find_uniform_value(yes.value) == 1.0
        and form.operands[0].type.dtype == BOOL.dtype
    )
