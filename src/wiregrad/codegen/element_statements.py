"""Lower lines on arrays to statements on their elements: what loops compute, before any language writes them.

A line of elementwise ops becomes one statement (`ElementLowering`). An op that only moves elements (reshape, spread, a
slice) needs none: its readers read the elements where they are, through an index map. What depends on constants alone,
such as where a slice sends a gradient, is computed here. An op that cannot be lowered raises `NoRuleError`.

Ops on whole arrays are lowered by what their records say (`ArrayOpLowering`). For an op that only moves or adds up
elements, running it shows where they go. An op that repeats a step along axes has that step in its record, an op that
orders elements has its comparison, and a composite op has the ops that it is made of. Matrix products are written as
loops.

An index map is a flat array of element numbers, in C order. The map of an op is found by running the op: applied to
element numbers it shows where each element goes, and applied to random numbers it confirms that. `find_loop_nest` then
finds loops in which every map of a statement is a sum of loop variables times constants. A map that no loops describe
is stored as a table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wiregrad.codegen.listing import (
    ConstantForm,
    Form,
    Listing,
    ListingLine,
    OpForm,
    SlotForm,
    VariableRole,
    extract_forms,
    find_uniform_value,
    slots_of,
    tidy_form,
)
from wiregrad.dtypes import BOOL, WireType, WireValue
from wiregrad.errors import NoRuleError
from wiregrad.ir import TABLE, GraphBuilder, Op, Port
from wiregrad.ir.circuit import find_bodies
from wiregrad.lazy import load_module_lazily
from wiregrad.ops import Elementwise
from wiregrad.ops.array_ops import ArrayOp, ArrayRule, Blocking, LinearOp
from wiregrad.passes import simplify

if TYPE_CHECKING:
    from wiregrad.frontends.transforms import loop_ops
    from wiregrad.frontends.transforms.loop_ops import ControlPlan
else:
    loop_ops = load_module_lazily("wiregrad.frontends.transforms.loop_ops")

IndexMap = NDArray[np.int64]

MAX_LOOP_DEPTH = 6
"""Maximum number of nested loops; a map that needs more is stored as a table."""


def count_elements(kind: WireType) -> int:
    """Return the number of elements of a type."""
    return int(np.prod(kind.shape, dtype=np.int64))


def find_moves(op: ArrayOp, types: Sequence[WireType], indices: Sequence[Any]) -> IndexMap | None:
    """Return for each element of the output the element of the operands that it copies, numbered from 1 through all.

    0 stands for a plain zero. Returns None if the op does more than move elements. `indices` holds the values of
    operands that are indices, and None for the others.

    >>> from wiregrad.ir import TABLE
    >>> op = TABLE["permute"].bind({"axes": (-1, -2)})
    >>> find_moves(op, [WireType(np.dtype(float), (2, 3))], [None])
    array([1, 4, 2, 5, 3, 6])
    """
    sizes = [0 if value is not None else count_elements(kind) for kind, value in zip(types, indices, strict=True)]
    numbers = np.arange(1.0, sum(sizes) + 1.0)
    answer = _apply_to_numbers(op, numbers, types, indices, sizes)
    if answer is None or not np.all((answer >= 0) & (answer <= len(numbers)) & (answer == np.floor(answer))):
        return None
    moves: IndexMap = answer.astype(np.int64)
    for values in _probe_arrays(len(numbers)):
        answer = _apply_to_numbers(op, values, types, indices, sizes)
        if answer is None or not np.array_equal(np.append(0.0, values)[moves], answer):
            return None
    return moves


def find_sums(op: LinearOp, types: Sequence[WireType], indices: Sequence[Any], kind: WireType) -> IndexMap | None:
    """Return for each element of the first operand the element of the output that it is added to, numbered from 1.

    0 means that it is added to none. Returns None if the op does more than add up elements.

    >>> from wiregrad.ir import TABLE
    >>> op, kind = TABLE["sum"].bind({"axes": (-1,), "keepdims": False}), WireType(np.dtype(float), (2, 3))
    >>> find_sums(op, [kind], [None], WireType(np.dtype(float), (2,)))
    array([1, 1, 1, 2, 2, 2])
    """
    if indices[0] is not None or any(value is None for value in indices[1:]):
        return None
    numbers = np.arange(1.0, count_elements(kind) + 1.0).reshape(kind.shape)
    sent = op.transpose(numbers, 0, np.zeros(types[0].shape), *indices[1:], **op.options)
    answer = np.broadcast_to(np.asarray(sent, np.float64), types[0].shape).ravel()
    if not np.all((answer >= 0) & (answer <= numbers.size) & (answer == np.floor(answer))):
        return None
    targets = answer.astype(np.int64)
    sizes = [len(answer), *[0] * len(indices[1:])]
    for values in _probe_arrays(len(answer)):
        totals = np.bincount(targets, weights=values, minlength=numbers.size + 1)[1:]
        applied = _apply_to_numbers(op, values, types, indices, sizes)
        if applied is None or not np.array_equal(totals, applied):
            return None
    return targets


def _apply_to_numbers(
    op: ArrayOp,
    numbers: NDArray[np.float64],
    types: Sequence[WireType],
    indices: Sequence[Any],
    sizes: Sequence[int],
) -> NDArray[np.float64] | None:
    """Apply an op to numbers that are split among its operands; return the result as a flat array."""
    parts = np.split(numbers, np.cumsum(sizes)[:-1])
    operands = [
        part.reshape(kind.shape) if value is None else value
        for part, kind, value in zip(parts, types, indices, strict=True)
    ]
    with np.errstate(all="ignore"):
        answer = np.asarray(op.compute(*operands))
    return answer.ravel().astype(np.float64) if answer.dtype.kind == "f" else None


def _probe_arrays(count: int) -> list[Any]:
    # Whole numbers, so that sums are exact in any order; small enough for float32.
    rng = np.random.default_rng(count)
    return [rng.integers(-(2**20), 2**20, size=count).astype(np.float64) for _ in range(2)]


class LoopNest(NamedTuple):
    """Nested loops, outermost first: the length of each, and how far each map moves per round of each loop."""

    lengths: tuple[int, ...]
    steps: tuple[tuple[int, ...] | None, ...]
    """For each map its stride along each loop; None for a map that is stored as a table."""

    @property
    def flat_strides(self) -> tuple[int, ...]:
        """The stride of each loop in the flat count of all rounds."""
        return tuple(int(np.prod(self.lengths[k + 1 :], dtype=np.int64)) for k in range(len(self.lengths)))


def find_loop_nest(maps: Sequence[IndexMap]) -> LoopNest:
    """Return the fewest loops along which maps of the same length move by constant steps.

    >>> find_loop_nest([np.arange(6), np.array([0, 0, 0, 1, 1, 1]), np.array([5, 4, 3, 2, 1, 0])])
    LoopNest(lengths=(2, 3), steps=((3, 1), (1, 0), (-3, -1)))
    """
    count = len(maps[0])
    chain = {count} - {0, 1}
    tables = list[bool]()
    for each in maps:
        cuts = _find_periods(each)
        joined = chain if cuts is None else chain | cuts
        fits = cuts is not None and _divide_evenly(joined) and len(joined) <= MAX_LOOP_DEPTH
        tables.append(not fits)
        if fits:
            chain = joined
    bounds = [1, *sorted(chain)]
    inner = bounds[:-1][::-1]
    lengths = tuple(outer // own for own, outer in pairwise(bounds))[::-1]
    steps = [
        None if table else tuple(int(each[at] - each[0]) for at in inner)
        for each, table in zip(maps, tables, strict=True)
    ]
    return LoopNest(lengths, tuple(steps))


def find_strides(numbers: IndexMap, lengths: Sequence[int]) -> tuple[int, ...] | None:
    """Return the stride of a map along each of the given loops; None if constant strides do not describe it.

    >>> find_strides(np.array([0, 2, 4, 1, 3, 5]), (2, 3))
    (1, 2)
    """
    if not len(numbers):
        return (0,) * len(lengths)
    inner = [int(np.prod(lengths[k + 1 :], dtype=np.int64)) for k in range(len(lengths))]
    steps = [int(numbers[at] - numbers[0]) if n > 1 else 0 for n, at in zip(lengths, inner, strict=True)]
    described = reduce(np.add.outer, (step * np.arange(n) for step, n in zip(steps, lengths, strict=True))).ravel()
    return tuple(steps) if np.array_equal(described + numbers[0], numbers) else None


def _find_periods(numbers: IndexMap) -> set[int] | None:
    """Return the number of elements in one run of each loop that a map needs; None if no loops describe it."""
    rest = numbers
    size = 1
    sizes = set[int]()
    steps = list[IndexMap]()
    while len(rest) > 1:
        gaps = np.diff(rest)
        breaks = np.flatnonzero(gaps != gaps[0])
        run = int(breaks[0]) + 1 if len(breaks) else len(rest)
        if len(rest) % run:
            return None
        steps.append(gaps[0] * np.arange(run))
        rest = rest[::run]
        size *= run
        sizes.add(size)
    described = reduce(lambda inner, outer: np.add.outer(outer, inner).ravel(), steps, numbers[:1])
    return sizes if np.array_equal(described, numbers) else None


def _divide_evenly(bounds: set[int]) -> bool:
    ordered = sorted(bounds)
    return all(outer % inner == 0 for inner, outer in pairwise(ordered))


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


@dataclass(eq=False)
class LoopCall:
    """A loop or a branch of the circuit: a function of its operands, which are joined end to end."""

    target: LoopArray
    operands: ArrayView
    op: Op
    ramps: tuple[tuple[int, float, float], ...]
    """Rows that are evenly spaced constants and not among the operands: number of the operand, start and step."""
    line: ListingLine | None = None

    def views_read(self) -> list[ArrayView]:
        """Return the views that it reads."""
        return [self.operands]


@dataclass(eq=False)
class MatrixCall:
    """A function of whole matrices, such as solving a system; each operand is a whole array."""

    target: LoopArray
    operands: Sequence[ArrayView]
    op: ArrayOp
    line: ListingLine | None = None

    def views_read(self) -> list[ArrayView]:
        """Return the views that it reads."""
        return list(self.operands)


LoopTask = LoopStatement | OrderStep | PickStep | LoopCall | MatrixCall
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
        if isinstance(line.form, OpForm) and find_bodies(line.form.op):
            self.lower_loop(line, line.form)
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

    def lower_loop(self, line: ListingLine, form: OpForm) -> None:
        """Add the call of a loop or a branch; its operands are copied to one array before."""
        plan = form.op.options["loop"]
        kinds = plan.operand_types
        forms = [self.atom_form(atom) for atom in line.atoms]
        ramps = find_ramps(plan, forms)
        known = [number for number, _, _ in ramps]
        sizes = [0 if k in known else count_elements(kind) for k, kind in enumerate(kinds)]
        operands = LoopArray(max(1, sum(sizes)), "f", indexed=True)
        self.line = None
        start = 0
        for each, size in zip(forms, sizes, strict=True):
            if size:
                part = self.make_readable(self.condition_as_number(each))
                self.add_statement(operands, np.arange(start, start + size), part)
            start += size
        kind = self.listing.variables[line.target].type
        is_number = kind.dtype.kind == "f"
        target = LoopArray(count_elements(kind), "f", self.names[line.target] if is_number else "", indexed=True)
        whole = ArrayView(operands, np.arange(operands.size), WireType(np.dtype(float), (operands.size,)))
        self.steps.append(LoopCall(target, whole, form.op, ramps, line))
        self.held[line.target] = target
        if not is_number:
            numbers = self.slot_of_view(
                ArrayView(target, np.arange(target.size), WireType(np.dtype(float), kind.shape))
            )
            self.held[line.target] = conditions = LoopArray(target.size, "b", self.names[line.target])
            self.store_form(conditions, OpForm(TABLE["not_equal"], (numbers, real_constant(0.0)), kind))

    def condition_as_number(self, form: Form) -> Form:
        """Return a condition as 1 or 0."""
        if form.type.dtype.kind != "b":
            return form
        choose = TABLE["where"]
        one = real_constant(1.0)
        assert isinstance(choose, Elementwise)
        return self.lower_elementwise(
            choose, (form, one, real_constant(0.0)), WireType(one.type.dtype, form.type.shape)
        )

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
                operands = [self._spread_form(operand, form.type.shape) for operand in operands]
                lowered = self.lower_elementwise(form.op, operands, form.type)
            elif lowered is None:
                lowered = self.lower_array_op(form.op, operands, form.type)
        if isinstance(lowered, ConstantForm) and lowered.type.shape != form.type.shape:
            return ConstantForm(np.broadcast_to(lowered.value, form.type.shape), form.type)
        return lowered

    def _spread_form(self, form: Form, shape: tuple[int, ...]) -> Form:
        """Return a form with the shape that an elementwise op gives it: masks of rules may have axes of length 1."""
        own = form.type.shape
        if not own or own == shape or not shape:
            return form
        at = np.broadcast_to(np.arange(count_elements(form.type)).reshape(own), shape).ravel()
        return self.gather_elements(form, at, WireType(form.type.dtype, shape))

    def lower_reach_test(self, form: OpForm, env: dict[int, Form]) -> Form | None:
        """Return the lowered form if it tests which elements a gradient reaches, else None."""
        return None

    def lower_array_op(self, op: Op, operands: Sequence[Form], kind: WireType) -> Form:
        """Lower an op on whole arrays, applied to forms of views."""
        raise NoRuleError(
            f"{op.title} cannot be written as loops in C; the code in NumPy is that of a circuit, as in "
            "wg.trace(f, *args).to_numpy()"
        )

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


def find_ramps(plan: ControlPlan, operands: Sequence[Form]) -> tuple[tuple[int, float, float], ...]:
    """Return the rows of a scan that are evenly spaced constants, such as the steps of `fori_loop`."""
    if not isinstance(plan, loop_ops.ScanPlan):
        return ()
    first = plan.counted + plan.carry
    ramps = []
    for number in range(first, first + plan.xs):
        rows = operands[number]
        if isinstance(rows, ConstantForm) and len(rows.type.shape) == 1 and count_elements(rows.type) > 1:
            numbers = np.asarray(rows.value, np.float64)
            start, step = float(numbers[0]), float(numbers[1] - numbers[0])
            if np.array_equal(start + step * np.arange(len(numbers)), numbers):
                ramps.append((number, start, step))
    return tuple(ramps)


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


MAX_MATRIX_SIDE = 200
"""Maximum number of rows and columns of matrices that functions copy to the stack."""
MAX_SORTED_ELEMENTS = 4096
"""Maximum number of elements that are sorted: insertion sort takes quadratic time."""


class ArrayOpLowering(ElementLowering):
    """Lowers the lines of one listing to statements, including ops on whole arrays."""

    def lower_reach_test(self, form: OpForm, env: dict[int, Form]) -> Form | None:
        """Lower a test whether a gradient reaches each element, which rules write as moved or added ones and zeros."""
        if form.op is not TABLE["greater"] or not is_zero(form.operands[1]):
            return None
        counts = form.operands[0]
        if not isinstance(counts, OpForm) or not isinstance(counts.op, LinearOp) or not counts.op.moves:
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
                self._lower_matrix_function,
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
        if not (isinstance(op, LinearOp) and op.moves) and not (isinstance(op, Blocking) and types == [kind]):
            return None
        indices = [_constant_indices(operand) for operand in operands]
        # Computed indices may be moved like numbers where they are the only operand.
        known = all(map(_is_real, operands, indices)) or (len(types) == 1 and types[0].dtype == kind.dtype)
        moves = find_moves(op, types, indices) if known else None
        if moves is None:
            return None
        moving = [operand for operand, value in zip(operands, indices, strict=True) if value is None]
        if kind.dtype.kind == "f":
            moving = [self.condition_as_number(operand) for operand in moving]
        return (
            self.gather_elements(moving[0], moves - 1, kind)
            if len(moving) == 1
            else self.join_elements(moving, moves - 1, kind)
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
        if not known or not isinstance(op, LinearOp) or not op.moves:
            return None
        targets = find_sums(op, [operand.type for operand in operands], indices, kind)
        return (
            None
            if targets is None
            else self.fold_elements(TABLE["add"], 0.0, self.condition_as_number(operands[0]), targets, kind)
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
            assert isinstance(total, LinearOp)
            to = find_sums(total, [operands[0].type], [None], kind)
            start = find_neutral_start(op.step, kind.dtype.kind)
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

    def _lower_matrix_function(self, op: ArrayOp, operands: Sequence[Form], kind: WireType) -> Form | None:
        """Lower an op that C has a function for, called for one matrix at a time."""
        is_real = all(operand.type.dtype.kind == "f" for operand in operands)
        if op.c_function is None or not is_real or kind.dtype.kind != "f":
            return None
        side = max(operand.type.shape[-1] for operand in operands)
        if side > MAX_MATRIX_SIDE:
            raise NoRuleError(
                f"{op.title} of matrices with {side:,} rows or columns is not written in C, at most "
                f"{MAX_MATRIX_SIDE}; use to_numpy()"
            )
        views = [self._make_whole_array(operand) for operand in operands]
        target = LoopArray(count_elements(kind), "f", indexed=True)
        self.steps.append(MatrixCall(target, views, op, self.line))
        self.line = None
        return self.slot_of_view(ArrayView(target, np.arange(target.size), kind))

    def _make_whole_array(self, form: Form) -> ArrayView:
        """Return a form as a whole array, which a function can read by its address."""
        view = self.views[self.materialize_form(form).number]
        if view.is_whole_array and (view.array.size > 1 or view.array.indexed):
            return view
        target = LoopArray(len(view.map), view.array.kind, indexed=True)
        self.add_statement(target, np.arange(target.size), self.slot_of_view(view))
        return ArrayView(target, np.arange(target.size), view.kind)

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
    return derive_step_form(step, tuple(kind.dtype for kind in types))


@lru_cache(maxsize=1000)
def derive_step_form(step: ArrayRule, dtypes: tuple[Any, ...]) -> Form:
    """Return one step on scalars of these dtypes as a form; slot 0 is the result so far."""
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
def find_neutral_start(step: Callable[..., Any], kind: str) -> np.bool_ | float | None:
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
