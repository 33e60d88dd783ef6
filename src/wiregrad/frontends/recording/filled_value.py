"""Recorded arrays that are filled in place: `y = x.copy()`, then `y[i] = v`, `y[mask] = 0.0`, `y += v`, `row[1] = v`.

A recorded value never changes; a `FilledValue` does, because it stands for another recorded value after each
assignment. Results that were computed from it before keep what they were computed from.

What is kept true: it is what NumPy's array would be. A view (a slice, `.T`, `reshape`) is a `FilledValue` too. It knows
which elements of its root it shows, as an array of their numbers, which NumPy itself took by the same index or
function. It writes to the root, and reads from the root, so every view sees every assignment.

Assignments are kept in a list. A small part that is read is gathered from them and from the array before them; they are
carried out when most of the array is read. So a loop that fills an array element by element records one node at its
end, and `y[i] = f(y[i - 1])` records nothing but `f`.

Then augmented assignment to any recorded array: after `y *= 2.0`, every name of the array sees the change, as in
NumPy. A node never changes, but the object that stands for it may stand for another: `y *= 2.0` records the product and
makes `y` itself stand for it. Numbers are rebound, as in Python. So is a leaf, `wg.Value(...)`: it is a variable of its
own, and the result is a new value. Where NumPy would change another array too (the array is a view of it, or a part of
it was taken before), that array cannot be reached, so the assignment is refused.

Last, plain arrays into which recorded values may be written: what `np.zeros(n)` makes while a function is recorded. A
`FillableArray` is NumPy's array, with its memory, until a recorded value is written to it or to a view of it. From then
on it stands for a `FilledValue`: operators, functions, methods and indices are those of that value. To compiled code it
is an array of raw bytes, which such code refuses, and its memory is NaN, so that nobody takes it for numbers. Its views
are fillable too, and while a function is recorded so are the arrays that ufuncs compute from it. What other functions
compute is a plain array, or a value.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from math import prod
from sys import getrefcount
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from wiregrad.errors import MutationError, OperandError, ShapeError, find_user_frame, format_user_line
from wiregrad.frontends.recording.arguments import ensure_owned
from wiregrad.frontends.recording.hints import LIKE_NAMES, advise_on_update
from wiregrad.frontends.recording.record import is_tracing
from wiregrad.frontends.recording.tape import STATE, Tape
from wiregrad.frontends.recording.user_code import is_update_of_part
from wiregrad.frontends.recording.value import (
    DiscreteValue,
    NumpyScalar,
    Value,
    ValueNotes,
    array_class,
    as_numpy_number,
    describe_method,
    is_constant,
    new_instance,
    notes_of,
)
from wiregrad.ir import INPUT, TABLE
from wiregrad.ir.op import ARITHMETIC_METHODS, COMPARISON_METHODS
from wiregrad.lazy import NamedTuple
from wiregrad.ops.functions import FUNCTIONS
from wiregrad.ops.functions.elements import find_plain_array, join_items, join_row
from wiregrad.ops.functions.registry import FilledMemory, lift
from wiregrad.ops.functions.shape import BASIC_INDEX_TYPES, as_row, cast_like, detach_index, reshape_to
from wiregrad.ops.gradient_flow import shape_of
from wiregrad.ops.shape_records import convert_plain

Places = NDArray[np.intp]
# Bound once: while a function is recorded, NumPy's own names lead to functions whose arrays may be filled.
make_empty, make_zeros = np.empty, np.zeros

VIEW_METHODS = frozenset(
    "reshape ravel view T mT t transpose permute swapaxes moveaxis squeeze unsqueeze expand_dims diagonal real "
    "imag detach broadcast_to expand_as atleast_1d atleast_2d atleast_3d split array_split hsplit vsplit dsplit "
    "unstack flip flipud fliplr rot90 rollaxis permute_dims matrix_transpose diag".split()
)
"""Methods and functions whose result shares its elements with the array, in NumPy or PyTorch."""
SOMETIMES_VIEWS = frozenset("broadcast_arrays diff einsum real_if_close trim_zeros".split())
"""NumPy's functions whose result shares elements with an argument, or is that argument, if nothing is computed."""
UNTRACKED_VIEWS = frozenset("t permute unsqueeze real imag detach expand_as".split())
"""Those that NumPy's arrays of whole numbers do not have, or have in another meaning."""

STALE_VIEW_MESSAGE = (
    "a part of this clone was taken before (a slice, .T, reshape) and would not see what is assigned now; "
    "assign first, or take the part from another clone"
)
NOT_FILLABLE_MESSAGE = (
    "{reason}; fill a copy: y = x.copy(), then y[i] = v; or write x = wg.put(x, i, v), or np.where(mask, v, x)"
)


class CellWrite(NamedTuple):
    """One assignment: the elements of the root that were assigned, and the numbers of the value's elements for them."""

    places: Places
    elements: Places
    value: Any


class ViewOrigin(NamedTuple):
    """How a view was taken: the array that it was taken of, and what was done with that array."""

    parent: FilledValue
    take: Callable[[Value], Any]


NO_PLACES: Places = np.empty(0, np.intp)


class FillNotes(ValueNotes):
    """What a `FilledValue` has besides the value it stands for."""

    __slots__ = ("cells", "dtype", "loose", "origin", "owners", "places", "root", "rows", "seen", "version", "writes")

    def __init__(
        self, places: Places, dtype: np.dtype[Any], root: FilledValue | None = None, origin: ViewOrigin | None = None
    ) -> None:
        super().__init__(constant=True)
        self.root = root
        """The array whose elements a view shows; None if this is no view."""
        self.origin = origin
        """How a view was taken; None if only its places are known."""
        self.places = places
        """The number of each element in the root."""
        self.dtype = dtype
        self.version = 0
        """Counts the assignments to a root."""
        self.seen = -1
        """The version of the root for which a view was last read."""
        self.writes: list[CellWrite] = []
        """The assignments to a root that are not carried out yet."""
        self.owners: Places = NO_PLACES
        """For each element of a root, the number of the pending assignment that determines it; -1 if none does. Empty
        while no assignment is pending, and so is `cells`."""
        self.cells: Places = NO_PLACES
        """For each element of a root, the number of the value's element that the pending assignment puts there; of the
        array's own element before them if none does."""
        self.rows: dict[int, Any] = {}
        """The values of pending assignments as rows, by the number of the assignment; -1 for the array before them."""
        self.loose: list[tuple[weakref.ref[Value], Value | None]] = []
        """The views of a root that do not see assignments, and what they were taken of, so that they are not written
        to."""


class FilledValue(Value):
    """A value whose elements may be assigned; it then stands for the array with the new elements."""

    __slots__ = ()

    @property
    def _data(self) -> Any:
        _settle(self)
        return GET_DATA(self)

    @_data.setter
    def _data(self, data: object) -> None:
        SET_DATA(self, data)

    @property
    def _tape(self) -> Tape | None:
        _settle(self)
        tape: Tape | None = GET_TAPE(self)
        return tape

    @_tape.setter
    def _tape(self, tape: Tape | None) -> None:
        SET_TAPE(self, tape)

    @property
    def _index(self) -> int:
        _settle(self)
        index: int = GET_INDEX(self)
        return index

    @_index.setter
    def _index(self, index: int) -> None:
        SET_INDEX(self, index)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape."""
        return notes_of_fill(self).places.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype."""
        return notes_of_fill(self).dtype

    @property
    def ndim(self) -> int:
        """How many axes there are."""
        return notes_of_fill(self).places.ndim

    @property
    def size(self) -> int:
        """How many elements there are."""
        return notes_of_fill(self).places.size

    @property
    def __wiregrad_contents__(self) -> Value:
        """The value that the array stands for now."""
        return _current_state(self)

    def fill(self, value: object) -> None:
        """Assign one number to every element."""
        assign_elements(self, ..., value)

    def sort(self, axis: int = -1, kind: str | None = None) -> None:
        """Sort the elements along an axis, in place."""
        assign_elements(self, ..., FUNCTIONS["sort"].run(_current_state(self), axis, kind))

    def partition(self, kth: Any, axis: int = -1, kind: str = "introselect") -> None:
        """Move the smallest elements along an axis to the front, in place."""
        assign_elements(self, ..., FUNCTIONS["partition"].run(_current_state(self), kth, axis))

    def put(self, indices: Any, values: Any, mode: Any = "raise") -> None:
        """Assign elements by their numbers in the array, read as one row."""
        assign_as(self, lambda marks, elements: np.put(marks, indices, elements, mode), values)

    @property
    def flat(self) -> Any:
        """The array as one row; what is assigned to its elements is assigned to the array."""
        row = make_view(self, notes_of_fill(self).places.reshape(-1), FUNCTIONS["ravel"].run)
        row.__class__ = FlatRow
        return row

    @flat.setter
    def flat(self, values: Any) -> None:
        self.put(np.arange(self.size), values)


class FlatRow(FilledValue):
    """`a.flat` of an array that is filled: parts of it are copies, as those of NumPy's iterator."""

    __slots__ = ()

    def __getitem__(self, index: Any) -> Any:
        return copy_filled(FilledValue.__getitem__(self, index))


STATE_SLOTS: tuple[Any, ...] = tuple(vars(Value)[name] for name in ("_data", "_tape", "_index"))
"""The slots for the node that a value stands for; a `FilledValue` brings them up to date when they are read."""
GET_DATA, GET_TAPE, GET_INDEX = (slot.__get__ for slot in STATE_SLOTS)
SET_DATA, SET_TAPE, SET_INDEX = (slot.__set__ for slot in STATE_SLOTS)


def notes_of_fill(value: FilledValue) -> FillNotes:
    """Return the notes of an array that is filled."""
    notes: Any = value._notes
    fill_notes: FillNotes = notes
    return fill_notes


def root_of(value: FilledValue) -> FilledValue:
    """Return the array whose elements a view shows, or the array itself."""
    root = notes_of_fill(value).root
    return value if root is None else root


def make_filled(value: Any) -> FilledValue:
    """Return an array that begins as a value, or a plain array, and may be filled."""
    filled: FilledValue = new_instance(FilledValue)
    shape = shape_of(value)
    filled._notes = FillNotes(_number_elements(shape), value.dtype)
    _set_state(filled, value)
    return filled


def copy_filled(x: Value) -> Any:
    """Return a copy of an array whose elements may be assigned; of conditions and numbers, one that they are not in."""
    if not x.shape or isinstance(x, DiscreteValue):
        return duplicate(x)
    return make_filled(freeze(x) if isinstance(x, FilledValue) else x)


def freeze(value: Any) -> Any:
    """Return the value that an array stands for now; anything else is returned unchanged."""
    return _current_state(value) if isinstance(value, FilledValue) else value


def _number_elements(shape: tuple[int, ...]) -> Places:
    """Return the numbers of the elements of an array of a shape; nobody writes to them."""
    return _number_few(shape) if prod(shape) <= MAX_CACHED_PLACES else _number_many(shape)


MAX_CACHED_PLACES = 1024


def _number_many(shape: tuple[int, ...]) -> Places:
    return np.arange(prod(shape), dtype=np.intp).reshape(shape)


@lru_cache(maxsize=64)
def _number_few(shape: tuple[int, ...]) -> Places:
    numbers = _number_many(shape)
    numbers.setflags(write=False)
    return numbers


def _set_state(filled: FilledValue, value: Any) -> None:
    """Make an array stand for a value or a plain array."""
    if isinstance(value, Value) and value._tape is None and not notes_of(value).constant:
        # A leaf is a variable; its copy is a node, so that gradients are added to the leaf.
        value = TABLE["positive"](value)
    is_recorded = isinstance(value, Value)
    SET_DATA(filled, value._data if is_recorded else ensure_owned(value))
    SET_TAPE(filled, value._tape if is_recorded else None)
    SET_INDEX(filled, value._index if is_recorded else 0)


def _current_state(filled: FilledValue) -> Value:
    """Return a value of its own for the node that an array stands for now."""
    _settle(filled)
    return _make_value(GET_DATA(filled), GET_TAPE(filled), GET_INDEX(filled))


def _make_value(data: Any, tape: Tape | None, index: int) -> Value:
    """Return a value for a node; a constant if it is on no tape."""
    value: Value = new_instance(NumpyScalar if type(data) is float else array_class(data))
    value._data = data
    value._tape = tape
    value._index = index
    if tape is None:
        value._notes = ValueNotes(constant=True)
    return value


def duplicate(value: Value) -> Value:
    """Return another value for the same node, so that changing one does not change the other.

    Leaves and numbers stay themselves: `y *= 2.0` gives them a new value.
    """
    if isinstance(value, FilledValue):
        return _current_state(value)
    if value._tape is None or not value.shape:
        return value
    twin: Value = new_instance(type(value))
    stand_for(twin, value)
    twin._notes = None
    if isinstance(twin, DiscreteValue) and hasattr(value, "bound"):
        twin.bound = value.bound
    return twin


def _settle(filled: FilledValue) -> None:
    """Carry out what was assigned, so that the slots are those of the array's current node."""
    notes: Any = filled._notes
    root = notes.root
    if root is None:
        if notes.owners.size:
            _carry_out(filled, notes)
        return
    version = notes_of_fill(root).version
    if notes.seen != version:
        _set_state(filled, _read_places(root, notes.places, notes.origin))
        notes.seen = version


def _carry_out(root: FilledValue, notes: FillNotes) -> None:
    """Make a root stand for the array after its pending assignments."""
    state = _gather_elements(root, _number_elements((root.size,)), notes.places.shape)
    _set_state(root, state)
    notes.owners = notes.cells = NO_PLACES
    notes.rows = {}
    notes.writes = []


def _gather_elements(root: FilledValue, places: Places, shape: tuple[int, ...]) -> Any:
    """Return elements of a root by their numbers, in a shape, with what pending assignments put there."""
    notes = notes_of_fill(root)
    owners = notes.owners[places]
    source = make_empty(places.size, np.intp)
    parts: list[Any] = []
    start = 0
    for number in (np.bincount(owners + 1).nonzero()[0] - 1).tolist():
        mine = owners == number
        wanted = notes.cells[places[mine]]
        row = _row_of(root, notes, number)
        if shape_of(row)[0] > MAX_WHOLE_ROW + SPARE_ELEMENTS * wanted.size:
            row = TABLE["take"](row, wanted, axis=-1)
            wanted = _number_elements(wanted.shape)
        source[mine] = wanted + start
        parts.append(row)
        start += shape_of(row)[0]
    with _recording_of(parts):
        return _pick_elements(join_row(parts), source, shape)


MAX_WHOLE_ROW, SPARE_ELEMENTS = 4096, 16
"""A row is joined whole unless it has more elements than this, and many times more than are read."""


def _row_of(root: FilledValue, notes: FillNotes, number: int) -> Any:
    """Return the elements that a pending assignment puts into a root, or for -1 those before it, as one row."""
    row = notes.rows.get(number)
    if row is None:
        value = _base_state(root) if number < 0 else notes.writes[number].value
        with _recording_of([value]):
            row = notes.rows[number] = as_row(value)
    return row


def _base_state(root: FilledValue) -> Any:
    """Return the value or plain array that a root stands for without its pending assignments."""
    data = GET_DATA(root)
    tape = GET_TAPE(root)
    return data if tape is None else _make_value(data, tape, GET_INDEX(root))


def _pick_elements(row: Any, source: Places, shape: tuple[int, ...]) -> Any:
    """Return the elements of a row by their numbers, in a shape."""
    in_order = source.size == shape_of(row)[0] and bool((source == _number_elements(source.shape)).all())
    return reshape_to(row if in_order else TABLE["take"](row, source, axis=-1), shape)


class _NoBlock:
    """A block that does nothing."""

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...


def _recording_of(parts: list[Any]) -> Any:
    """Return a block that records even inside `no_grad`: what was assigned outside it keeps its gradient."""
    if not STATE.is_paused or is_tracing():
        return _NoBlock()
    tapes = [part._tape for part in parts if isinstance(part, Value) and part._tape is not None]
    return STATE.record_on(STATE.tape or (tapes[0] if tapes else STATE.current_tape()))


def _read_places(root: FilledValue, places: Places, origin: ViewOrigin | None = None) -> Any:
    """Return the elements of a root by their numbers; from pending assignments if they are few."""
    notes = notes_of_fill(root)
    if notes.owners.size and places.size:
        owners = notes.owners[places]
        number = int(owners.flat[0])
        if number >= 0 and bool((owners == number).all()):
            return _read_write(root, notes, number, places)
        if places.size <= MAX_GATHERED_SHARE * root.size:
            return _gather_elements(root, places.reshape(-1), places.shape)
    if origin is not None:
        return origin.take(_current_state(origin.parent))
    state = _current_state(root)
    return _pick_elements(reshape_to(state, (root.size,)), places.reshape(-1), places.shape)


MAX_GATHERED_SHARE = 0.25
"""The share of an array up to which what is read is gathered, before pending assignments are carried out."""


def _read_write(root: FilledValue, notes: FillNotes, number: int, places: Places) -> Any:
    """Return elements that one pending assignment determines."""
    value = notes.writes[number].value
    elements = notes.cells[places]
    if shape_of(value) == places.shape and bool((elements == _number_elements(places.shape)).all()):
        return value
    return _pick_elements(_row_of(root, notes, number), elements.reshape(-1), places.shape)


def read_elements(filled: FilledValue, index: Any) -> Any:
    """Return elements by index: a view if NumPy's would be one, a number, or a copy."""
    if not _is_basic_index(index):
        return FUNCTIONS["getitem"].run(_current_state(filled), index)
    places = notes_of_fill(filled).places[index]
    if not isinstance(places, np.ndarray):
        root = root_of(filled)
        if not notes_of_fill(root).owners.size:
            return FUNCTIONS["getitem"].run(_current_state(filled), index)
        number = _read_places(root, convert_plain(places))
        return number[()] if isinstance(number, np.ndarray) else as_numpy_number(number)
    return make_view(filled, places, lambda state: FUNCTIONS["getitem"].run(state, index))


def _is_basic_index(index: object) -> bool:
    """Return whether an index gives a view: slices and whole numbers, not lists, arrays or masks."""
    parts = index if isinstance(index, tuple) else (index,)
    return BASIC_INDEX_TYPES.issuperset(map(type, parts)) or all(
        part is None
        or part is Ellipsis
        or (isinstance(part, int | np.integer | slice) and not isinstance(part, bool | Value))
        for part in parts
    )


def make_view(filled: FilledValue, places: Places, take: Callable[[Value], Any] | None = None) -> FilledValue:
    """Return a view of an array that shows the elements of these numbers; `take` computes it from the array's value."""
    view: FilledValue = new_instance(FilledValue)
    origin = None if take is None else ViewOrigin(filled, take)
    view._notes = FillNotes(places, filled.dtype, root_of(filled), origin)
    return view


def take_view(filled: FilledValue, take: Callable[[Value], Any], change: Callable[[Places], Any], name: str) -> Any:
    """Return the result of a function as views where NumPy's function returns views of the array.

    `take` applies the function to a value, `change` to the numbers of elements.
    """
    if name in UNTRACKED_VIEWS:
        state = _current_state(filled)
        return share_elements(filled, state, take(state))
    own = notes_of_fill(filled).places
    try:
        places = change(own)
    except (ValueError, TypeError, IndexError, AttributeError):
        # The function itself raises an error that says what is wrong.
        take(_current_state(filled))
        raise
    if isinstance(places, np.ndarray) and np.may_share_memory(places, own):
        return make_view(filled, places, take)
    result = take(_current_state(filled))
    if isinstance(places, list | tuple):
        return type(places)([_view_or_copy(filled, part, y) for part, y in zip(places, result, strict=True)])
    return _view_or_copy(filled, places, result)


def _view_or_copy(filled: FilledValue, places: Places, result: Any) -> Any:
    if np.may_share_memory(places, notes_of_fill(filled).places):
        return make_view(filled, places)
    return copy_filled(freeze(result))


def install_view_methods() -> None:
    """Give arrays that are filled the methods whose results are views; called when values have all their methods."""
    for name in VIEW_METHODS:
        attribute = getattr(Value, name, None)
        if isinstance(attribute, property):
            setattr(FilledValue, name, property(_make_view_property(name, attribute)))
        elif attribute is not None:
            setattr(FilledValue, name, _make_view_method(name, attribute))


def _make_view_property(name: str, attribute: property) -> Callable[[FilledValue], Any]:
    get: Callable[[Any], Any] = operator.attrgetter(name)

    def view(self: FilledValue) -> Any:
        return take_view(self, get, get, name)

    view.__doc__ = attribute.__doc__
    return view


def _make_view_method(name: str, attribute: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: FilledValue, *args: object, **kwargs: object) -> Any:
        return take_view(
            self,
            lambda state: attribute(state, *args, **kwargs),
            lambda places: _call_numpy(name, places, args, kwargs),
            name,
        )

    return describe_method(method, name, attribute)


def _call_numpy(name: str, places: Places, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a method of arrays, or NumPy's function of that name, on the numbers of elements."""
    if name == "view":
        # An argument that is no length is the dtype of the elements, which stays as it is.
        is_shape = bool(args) and isinstance(args[0], int | np.integer | tuple | list)
        return places.reshape(*args) if is_shape else places.view()
    method = getattr(places, name, None)
    return getattr(np, name)(places, *args, **kwargs) if method is None else method(*args, **kwargs)


def share_elements(filled: FilledValue, state: Value, result: Any) -> Any:
    """Return what a function gave for the state of an array, where NumPy's result shares its elements with the array.

    If that is the state itself, it is the array. Any other is remembered, because it does not see assignments; a number
    is a copy and needs no remembering.
    """
    if isinstance(result, list | tuple):
        return type(result)([share_elements(filled, state, part) for part in result])
    if result is state:
        return filled
    result = freeze(result)
    if isinstance(result, Value) and result.shape:
        notes_of_fill(root_of(filled)).loose.append((weakref.ref(result), state))
    return result


def assign_elements(filled: FilledValue, index: Any, value: Any) -> None:
    """Carry out `filled[index] = value`."""
    mask = index if isinstance(index, Value) and index.dtype.kind == "b" else None
    if mask is not None and mask.shape == filled.shape and not np.shape(value):
        # A traced mask stays recorded as an operand; as an index it would be certified.
        state = _current_state(filled)
        number = cast_like(value, state) if isinstance(value, Value) else state.dtype.type(value)
        assign_elements(filled, ..., TABLE["where"](mask, number, state))
        return
    places = notes_of_fill(filled).places[detach_index(index)]
    if isinstance(value, FilledValue) and _shows_places(value, root_of(filled), places):
        # `y[i] += v` has assigned to the part, and assigns the part to itself.
        return
    if isinstance(value, FilledValue) and root_of(value) is root_of(filled) and not STATE.is_paused:
        _copy_cells(root_of(filled), convert_plain(places), value)
        return
    if isinstance(value, list | tuple) and _assign_parts(filled, index, value):
        return
    source = _prepare_source(value, filled)
    elements = _broadcast_elements(shape_of(source), np.shape(places))
    _write_cells(root_of(filled), CellWrite(convert_plain(places), elements, source), value)


def _assign_parts(filled: FilledValue, index: Any, parts: Sequence[Any]) -> bool:
    """Assign parts of an array to it one after the other, as NumPy does; return whether the list has such parts.

    So the later ones see what the earlier ones have changed. A list that has to be broadcast is copied first.
    """
    root = root_of(filled)
    if not any(isinstance(part, FilledValue) and root_of(part) is root for part in parts):
        return False
    target: Any = read_elements(filled, index)
    is_view = isinstance(target, FilledValue) and root_of(target) is root
    if (
        not is_view
        or len(target) != len(parts)
        or {getattr(part, "shape", None) for part in parts} != {target.shape[1:]}
    ):
        return False
    for row, part in enumerate(parts):
        target[row] = part
    return True


def _copy_cells(root: FilledValue, places: Places, view: FilledValue) -> None:
    """Assign a part of an array to another part: both then come from the same pending assignments, and nothing is read.

    >>> import wiregrad as wg
    >>> def repeat_edge(x):
    ...     y = x.copy()
    ...     y[0] = x[1] * 2.0
    ...     y[2] = y[0]
    ...     return np.sum(y)
    >>> wg.grad(repeat_edge)(np.ones(3)).tolist()
    [0.0, 5.0, 0.0]
    """
    notes = notes_of_fill(root)
    own = notes_of_fill(view).places
    source = own.reshape(-1)[_broadcast_elements(own.shape, places.shape)]
    _refuse_stale_views(notes, view)
    if places.size:
        _begin_writing(root, notes)
        # Both are read before one is changed: the parts may overlap.
        owners = notes.owners[source]
        cells = notes.cells[source]
        notes.owners[places] = owners
        notes.cells[places] = cells
        notes.version += 1


def _shows_places(view: FilledValue, root: FilledValue, places: Any) -> bool:
    """Return whether a view shows exactly these elements of a root."""
    own = notes_of_fill(view)
    if own.root is not root or own.places.shape != np.shape(places):
        return False
    return bool((own.places == places).all())


def assign_as(filled: FilledValue, place: Callable[[Any, Any], object], value: Any) -> None:
    """Assign as a function does that writes the elements of its second argument to its first: NumPy shows where to."""
    places = notes_of_fill(filled).places
    source = _prepare_source(value, filled)
    marks = np.full(places.shape, -1)
    place(marks, _number_elements(shape_of(source)))
    chosen = marks >= 0
    _write_cells(root_of(filled), CellWrite(places[chosen], marks[chosen], source), value)


def _prepare_source(value: Any, filled: FilledValue) -> Any:
    """Return what is assigned as a value or array with the dtype of the array it is put into."""
    source = _take_snapshot(value) if isinstance(value, Value) else lift(value)
    if STATE.is_paused and isinstance(source, Value):
        source = source.detach() if is_tracing() else np.asarray(source._data)
    return cast_like(source, filled) if isinstance(source, Value) else _cast_plain(source, filled.dtype)


def _take_snapshot(value: Value) -> Value:
    """Return what a value is now: later updates, as `y += v` or `leaf.data = x`, do not change what was assigned."""
    is_leaf = value._tape is None and not isinstance(value, FilledValue) and not notes_of(value).constant
    snapshot: Value = TABLE["positive"](value) if is_leaf else duplicate(value)
    return snapshot


def _cast_plain(source: Any, dtype: np.dtype[Any]) -> Any:
    if source.dtype != dtype and not np.can_cast(source.dtype, dtype, "same_kind"):
        raise TypeError(f"values of dtype {source.dtype} cannot be put into an array of dtype {dtype}")
    return ensure_copy(source, dtype)


def ensure_copy(source: Any, dtype: np.dtype[Any]) -> Any:
    """Return a copy of a plain array, so that later edits of it have no effect."""
    return np.asarray(source).astype(dtype)


def _broadcast_elements(shape: tuple[int, ...], wanted: tuple[int, ...]) -> Places:
    """Return the numbers of a value's elements, broadcast to the shape that is assigned to."""
    numbers = _number_elements(shape)
    while numbers.ndim > len(wanted) and numbers.shape[0] == 1:
        numbers = numbers[0]
    if numbers.shape == wanted:
        return numbers
    return make_zeros(wanted, np.intp) if numbers.size == 1 else np.broadcast_to(numbers, wanted)


def _write_cells(root: FilledValue, write: CellWrite, value: object) -> None:
    """Note an assignment; raises if a view other than its source exists that would not see it."""
    notes = notes_of_fill(root)
    _refuse_stale_views(notes, value)
    if write.places.size:
        _begin_writing(root, notes)
        notes.owners[write.places] = len(notes.writes)
        notes.cells[write.places] = write.elements
        notes.writes.append(write)
        notes.version += 1


def _refuse_stale_views(notes: FillNotes, value: object) -> None:
    """Raise if a view other than what is assigned exists that would not see the assignment."""
    if notes.loose:
        notes.loose = [(view, source) for view, source in notes.loose if _is_seen(view(), source)]
        if any(view() is not value or _is_seen(None, source, value) for view, source in notes.loose):
            raise MutationError(f"{STALE_VIEW_MESSAGE}{format_user_line()}")


def _is_seen(view: Value | None, source: Value | None, besides: object = None) -> bool:
    """Return whether a view exists, or a view of it, which what it was taken of remembers."""
    if view is not None or source is None or source._tape is None:
        return view is not None
    return source._tape.views.has_views(source._index, besides)


def _begin_writing(root: FilledValue, notes: FillNotes) -> None:
    """Make the arrays that say where the elements of a root come from, unless an assignment is pending already."""
    if not notes.owners.size:
        notes.owners = make_zeros(root.size, np.intp) - 1
        notes.cells = _number_elements((root.size,)).copy()


def begin_filling(value: Value, source: object = None) -> FilledValue:
    """Make a recorded array one that may be filled, in place; raises if NumPy's array would be shared with another.

    A view of it that is the source of the assignment may exist, as in `a[0] = a[1]`.
    """
    if isinstance(value, FilledValue):
        return value
    if isinstance(value, DiscreteValue):
        raise MutationError(
            "conditions and whole numbers of a traced function do not change in place; write m = np.where(chosen, v, m)"
            f"{format_user_line()}"
        )
    if not value.shape:
        raise MutationError(
            "a recorded number has no elements to assign to: give the new number to its name, y = v"
            f"{format_user_line()}"
        )
    reason = find_obstacle(value, source)
    if reason is not None:
        raise MutationError(f"{NOT_FILLABLE_MESSAGE.format(reason=reason)}{format_user_line()}")
    notes = FillNotes(_number_elements(value.shape), value.dtype)
    named = getattr(value, "_notes", None)
    if named is not None:
        notes.name = named.name
    if isinstance(source, Value) and find_shared_elements(value) is not None:
        notes.loose.append((weakref.ref(source), None))
    value.__class__ = FilledValue
    value._notes = notes
    return cast(FilledValue, value)


def find_obstacle(value: Value, source: object = None) -> str | None:
    """Return why the elements of a value cannot be assigned from a source; None if they can."""
    tape = value._tape
    if type(value) is not Value:
        return "a recorded number does not change in place"
    if tape is None:
        return "a recorded value does not change in place"
    if tape.node_at(value._index).op is INPUT:
        return "a recorded value does not change in place: this one was passed to the function"
    return find_shared_elements(value, source)


def find_shared_elements(value: Value, besides: object = None) -> str | None:
    """Return why a recorded array cannot change without another that shares its elements; None if it can."""
    tape = value._tape
    if tape is None:
        return None
    if tape.views.is_view(value):
        name = tape.node_at(value._index).op.name
        if name in PART_ADVICE:
            return PART_ADVICE[name]
        return "a recorded value does not change in place, and this one is a view of another, which would not see it"
    if tape.views.has_views(value._index, besides):
        return (
            "a recorded value does not change in place, and a part of this one was taken before, which would not see it"
        )
    return None


PART_ADVICE = {
    "real": (
        "a recorded value does not change in place, and this is the real part of another: "
        "write z[i] = v + 1j * z[i].imag, or z.real = v"
    ),
    "imag": (
        "a recorded value does not change in place, and this is the imaginary part of another: "
        "write z[i] = z[i].real + 1j * v, or z.imag = v"
    ),
}
"""Why the parts of complex numbers cannot be assigned, by the op that takes the part."""
LAYOUT_ADVICE = {
    "shape": "the shape of a recorded array does not change in place; write z = z.reshape(shape)",
    "dtype": "a recorded array is not read as another dtype; write z = z.astype(dtype) for its numbers in that dtype",
    "strides": "a recorded array has no strides that can be set; take its elements by index",
}
"""Why attributes of a recorded array cannot be assigned, by their names."""


def assign_part(array: Value, name: str, part: Any) -> None:
    """Carry out `z.real = part` or `z.imag = part`."""
    filled = begin_filling(array)
    if filled.dtype.kind == "c":
        assign_elements(filled, ..., _join_parts(_current_state(filled), name, part))
    elif name == "real":
        assign_elements(filled, ..., part)
    else:
        raise TypeError("array does not have imaginary part to set")


def _join_parts(state: Value, name: str, part: Any) -> Any:
    return part + 1j * state.imag if name == "real" else state.real + 1j * part


def install_setters() -> None:
    """Let `z.real = v` and `z.imag = v` assign a part of every element."""
    for kind in (Value, FilledValue):
        for name in PART_ADVICE:
            setattr(kind, name, getattr(kind, name).setter(_make_part_setter(name)))


def _make_part_setter(name: str) -> Callable[[Value, Any], None]:
    def assign(self: Value, part: Any) -> None:
        assign_part(self, name, part)

    return assign


def _make_in_place(name: str) -> Callable[[Any, Any], Any]:
    """Return the method of an operator that assigns, such as `+=`."""
    compute: Callable[[Any, Any], Any] = getattr(operator, f"__{name}__")

    def method(self: FilledValue, other: object) -> FilledValue:
        assign_elements(self, ..., compute(_current_state(self), freeze(other)))
        return self

    return method


for _name in (*ARITHMETIC_METHODS.values(), "matmul"):
    setattr(FilledValue, f"__i{_name}__", _make_in_place(_name))


DISCRETE_METHODS = ("and", "or", "xor", "lshift", "rshift")
"""The operators that only whole numbers and conditions have, without the double underscores."""


def update_array(array: Value, compute: Callable[[Any, Any], Any], operand: object, references: int) -> Any:
    """Make an array stand for what an operator computes from it.

    Numbers and leaves are left to the operator itself. So is a part that `y[1:] += v` takes, which nothing else refers
    to: what the operator returns is assigned to the part.
    """
    tape = array._tape
    if tape is None or not array.shape:
        return NotImplemented
    obstacle = find_shared_elements(array)
    if obstacle is not None:
        if references <= TEMPORARY.count and _is_part_of_statement():
            return NotImplemented
        raise MutationError(f"{obstacle}{advise_on_update()}{format_user_line()}")
    result = compute(array, operand)
    if not isinstance(result, Value):
        return result
    stand_for(array, match_array(result, array))
    return array


class _TemporaryProbe:
    """Counts the references to the operand of `y[i] += v` if nothing holds it but the running statement."""

    def __init__(self) -> None:
        self.count = 0

    def __getitem__(self, index: int) -> _TemporaryProbe:
        return _TemporaryProbe()

    def __setitem__(self, index: int, part: _TemporaryProbe) -> None:
        self.count = part.count

    def __iadd__(self, other: object) -> _TemporaryProbe:
        references = getrefcount(self)
        self.count = references
        return self


TEMPORARY = _TemporaryProbe()
TEMPORARY[0] += None


def _is_part_of_statement() -> bool:
    """Return whether the user's code is at an assignment to a part of something: `y[i] += v`."""
    frame = find_user_frame()
    return frame is not None and is_update_of_part(frame)


def match_array(result: Value, array: Value | np.ndarray[Any, Any]) -> Value:
    """Return a result with the dtype of the array that it is written to; raises where NumPy would not write it."""
    if shape_of(result) != array.shape:
        raise ShapeError(f"an array of shape {array.shape} cannot hold {shape_of(result)}{format_user_line()}")
    if not np.can_cast(result.dtype, array.dtype, "same_kind"):
        raise OperandError(
            f"an array of dtype {array.dtype} cannot hold {result.dtype}{advise_on_update()}{format_user_line()}"
        )
    matched: Value = cast_like(result, array)
    return matched


def stand_for(array: Value, result: Value) -> None:
    """Make an object stand for the node of another."""
    array._data = result._data
    array._tape = result._tape
    array._index = result._index
    # A name and hooks belong to the node that the array stood for.
    array._notes = getattr(result, "_notes", None)


def _make_update(name: str) -> Callable[[Value, object], Any]:
    """Return the method of an operator that assigns, such as `+=`."""
    compute: Callable[[Any, Any], Any] = getattr(operator, f"__{name}__")

    def method(self: Value, other: object) -> Any:
        references = getrefcount(self)
        return update_array(self, compute, other, references)

    return method


def install_updates() -> None:
    """Give recorded arrays the operators that assign."""
    for name in (*ARITHMETIC_METHODS.values(), "matmul"):
        setattr(Value, f"__i{name}__", _make_update(name))
    for name in DISCRETE_METHODS:
        setattr(DiscreteValue, f"__i{name}__", _make_update(name))


LIKE_MAKERS: dict[Any, Callable[..., Any]] = {
    function: function for function in [getattr(np, name) for name in (*LIKE_NAMES, "fromiter", "fromfunction")]
}
"""NumPy's functions with an argument `like=`. The keys are these functions and their stand-ins while a function is
recorded: NumPy looks some of them up by name, whatever name the user's code has for them."""
OWN_ATTRIBUTES = frozenset(
    "__wiregrad_contents__ record_contents is_recorded fill put flat shape ndim size __class__ __dict__".split()
)
"""Attributes that an array has itself after a value was written to it."""


class FillableArray(np.ndarray):
    """An array that stands for a recorded value once one has been written to it."""

    def __array_finalize__(self, source: Any) -> None:
        root = _find_root(self)
        if root is not self:
            np.ndarray.__getattribute__(root, "__dict__").setdefault("views", []).append(weakref.ref(self))

    @property
    def is_recorded(self) -> bool:
        """Whether a recorded value has been written to the array, or to one that shares its elements."""
        return _find_cells(self) is not None

    @property
    def __wiregrad_contents__(self) -> Any:
        """The value that the array stands for, or the plain array."""
        cells = _find_cells(self)
        return self.view(np.ndarray) if cells is None else _view_cells(self, *cells)

    def record_contents(self) -> FilledValue:
        """Return the value that the array stands for from now on."""
        root = _find_root(self)
        if _find_cells(root) is None:
            _begin_recording(root)
        contents: FilledValue = self.__wiregrad_contents__
        return contents

    def __setattr__(self, name: str, value: Any) -> None:
        if name in PART_ADVICE and (find_recorded(value) or _find_cells(self) is not None):
            assign_part(self.record_contents(), name, value)
        elif name in LAYOUT_ADVICE and _find_cells(self) is not None:
            raise MutationError(f"{LAYOUT_ADVICE[name]}{format_user_line()}")
        else:
            super().__setattr__(name, value)

    def __setitem__(self, index: Any, value: Any) -> None:
        if find_recorded(value) or _find_cells(self) is not None:
            contents: Any = self.record_contents()
            contents[_plain_index(index)] = value
        else:
            super().__setitem__(_plain_index(index), value)

    def fill(self, value: Any) -> None:
        """Assign one number to every element."""
        self[...] = value

    def put(self, indices: Any, values: Any, mode: Any = "raise") -> None:
        """Assign elements by their numbers in the array, read as one row."""
        contents: Any = self.record_contents() if find_recorded(values) else self.__wiregrad_contents__
        contents.put(indices, values, mode)

    @property
    def flat(self) -> Any:
        """The array as one row; what is assigned to its elements is assigned to the array."""
        return FlatElements(self)

    @flat.setter
    def flat(self, values: Any) -> None:
        self.put(np.arange(self.size), values)

    def __getitem__(self, index: Any) -> Any:
        if _find_cells(self) is not None:
            return self.__wiregrad_contents__[index]
        return super().__getitem__(index)

    def __getattribute__(self, name: str) -> Any:
        if name in OWN_ATTRIBUTES or _find_cells(self) is None:
            return super().__getattribute__(name)
        return getattr(super().__getattribute__("__wiregrad_contents__"), name)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **settings: Any) -> Any:
        plain = [contents_of(x) for x in inputs]
        out = settings.pop("out", None)
        call = getattr(ufunc, method)
        if method == "at":
            return _update_in_place(call, inputs, plain)
        if out is None:
            result = call(*plain, **settings)
            return make_fillable(result) if method == "__call__" and STATE.tape is not None else result
        targets = out if isinstance(out, tuple) else (out,)
        if not any(isinstance(x, Value) for x in [*plain, *map(contents_of, targets)]):
            call(*plain, **settings, out=tuple(map(contents_of, targets)))
            return out if len(targets) > 1 else targets[0]
        if len(targets) > 1:
            raise MutationError(
                f"np.{ufunc.__name__} has several results and cannot write recorded values to out=; assign the results "
                f"instead{format_user_line()}"
            )
        if method == "__call__" and "where" in settings:
            targets[0][...] = compute_where(ufunc, plain, settings, contents_of(targets[0]))
        else:
            targets[0][...] = call(*plain, **settings)
        return targets[0]

    def __array_function__(
        self, function: Callable[..., Any], types: Iterable[type], args: Iterable[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        args = tuple(args)
        if function.__name__ in VIEW_METHODS and type(args[0]) is FillableArray and _find_cells(args[0]) is None:
            return super().__array_function__(function, types, args, kwargs)
        maker = LIKE_MAKERS.get(function)
        if maker is not None:
            return make_like(maker, _replace_parts(args), _replace_parts(dict(kwargs)))
        out = kwargs.get("out")
        if isinstance(out, FillableArray):
            rest = {key: part for key, part in kwargs.items() if key != "out"}
            out[...] = function(*_replace_parts(args), **_replace_parts(rest))
            return out
        parts = _replace_parts(args)
        if args and isinstance(args[0], FillableArray) and function in IN_PLACE_FUNCTIONS:
            is_written = any(find_recorded(part) for part in [*args[1:], *kwargs.values()])
            parts = (args[0].record_contents(), *parts[1:]) if is_written else parts
        return function(*parts, **_replace_parts(dict(kwargs)))

    def __float__(self) -> float:
        return float(self.__wiregrad_contents__)

    def __int__(self) -> int:
        return int(self.__wiregrad_contents__)

    def __complex__(self) -> complex:
        return complex(self.__wiregrad_contents__)

    def __bool__(self) -> bool:
        return bool(self.__wiregrad_contents__)

    def __repr__(self) -> str:
        return repr(self.__wiregrad_contents__)

    def __str__(self) -> str:
        return str(self.__wiregrad_contents__)

    def __format__(self, spec: str) -> str:
        return format(self.__wiregrad_contents__, spec)

    def __copy__(self) -> Any:
        return self.__wiregrad_contents__.copy()

    def __deepcopy__(self, memo: Any, /) -> Any:
        return self.__wiregrad_contents__.copy()

    def __reduce__(self) -> Any:
        return self.__wiregrad_contents__.__reduce__()


class FlatElements:
    """The elements of a fillable array as one row: `a.flat`."""

    def __init__(self, array: FillableArray) -> None:
        self._array = array

    def __setitem__(self, index: Any, values: Any) -> None:
        if find_recorded(values):
            self._array.record_contents()
        self._row[_plain_index(index)] = values

    def __getitem__(self, index: Any) -> Any:
        return self._row[_plain_index(index)]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._row)

    def __len__(self) -> int:
        return self._array.size

    def __getattr__(self, name: str) -> Any:
        return getattr(self._row, name)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self._row, dtype)

    @property
    def _row(self) -> Any:
        """The row of the value that the array stands for, or NumPy's own iterator."""
        return self._array.__wiregrad_contents__.flat


def _make_comparison(name: str) -> Callable[[FillableArray, Any], Any]:
    """Return the method of a comparison; NumPy compares raw bytes without asking the array."""
    compare: Callable[[Any, Any], Any] = getattr(operator, f"__{name}__")

    def method(self: FillableArray, other: Any) -> Any:
        return compare(self.__wiregrad_contents__, contents_of(other))

    return method


for _name in COMPARISON_METHODS.values():
    setattr(FillableArray, f"__{_name}__", _make_comparison(_name))


IN_PLACE_FUNCTIONS: dict[Any, tuple[int, str]] = {
    np.copyto: (1, "src"),
    np.put: (2, "v"),
    np.place: (2, "vals"),
    np.putmask: (2, "values"),
    np.fill_diagonal: (1, "val"),
    np.put_along_axis: (2, "values"),
}
"""NumPy's functions that write to their first argument: the position and the name of what they write."""


def find_recorded(value: Any) -> bool:
    """Return whether something that is written to an array has a recorded value in it."""
    if isinstance(value, Value):
        return not is_constant(value)
    if isinstance(value, FillableArray):
        return _find_cells(value) is not None
    if isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.dtype.kind == "O"):
        try:
            return find_plain_array(value) is None
        except ValueError:
            # A ragged list: NumPy says so when it is given the list.
            return False
    return False


def make_fillable(made: Any) -> Any:
    """Return a new array of real or complex numbers as one that may be filled; anything else is returned unchanged."""
    contents = join_items(made) if isinstance(made, np.ndarray) and made.dtype.kind == "O" else made
    if isinstance(contents, Value):
        return copy_filled(contents)
    if type(contents) is np.ndarray and contents.ndim and contents.dtype.char in "dfD":
        return contents.view(FillableArray)
    return contents


def make_like(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Make an array with one of NumPy's functions that were given `like=` a value; it may be filled with values."""
    args = tuple(map(contents_of, args))
    if args and function not in (np.full, np.fromfunction) and isinstance(args[0], Value | list | tuple):
        items = FUNCTIONS["array"].run(args[0])
        if isinstance(items, Value):
            return copy_filled(FUNCTIONS["array"].run(items, args[1] if len(args) > 1 else kwargs.get("dtype")))
    made = function(*args, **kwargs)
    if args and isinstance(args[0], np.ndarray) and np.may_share_memory(made, args[0]):
        # Values that are written to the result would not be seen in a plain array that has the same memory.
        made = made.copy()
    return make_fillable(made)


def contents_of(x: Any) -> Any:
    """Return the value or the plain array behind a fillable array; anything else is returned unchanged."""
    return x.__wiregrad_contents__ if isinstance(x, FillableArray) else x


def _replace_parts(container: Any) -> Any:
    """Return a container of arguments with the contents of fillable arrays."""
    if isinstance(container, list | tuple) and type(container) in (list, tuple):
        return type(container)([_replace_parts(part) for part in container])
    if type(container) is dict:
        return {key: _replace_parts(part) for key, part in container.items()}
    return contents_of(container)


def compute_where(ufunc: np.ufunc, inputs: Sequence[Any], settings: dict[str, Any], current: Any) -> Any:
    """Return what a ufunc with `where=` writes to `out=`: its results where a mask is true, else what is there now."""
    rest = {key: part for key, part in settings.items() if key != "where"}
    mask = contents_of(settings["where"])
    # NumPy computes nothing where the mask is false: a harmless number there gives neither a warning nor a NaN.
    safe = [np.where(mask, x, HARMLESS_NUMBER) if np.result_type(x).kind in "fc" else x for x in inputs]
    return np.where(mask, ufunc(*safe, **rest), current)


HARMLESS_NUMBER = 0.5
"""A number in the domain of nearly every ufunc, with finite slopes."""


def _plain_index(index: Any) -> Any:
    return tuple(map(contents_of, index)) if isinstance(index, tuple) else contents_of(index)


def _update_in_place(call: Callable[..., Any], inputs: tuple[Any, ...], plain: list[Any]) -> None:
    """Carry out `np.add.at` and its like."""
    if isinstance(inputs[0], FillableArray) and any(find_recorded(part) for part in inputs[1:]):
        plain[0] = inputs[0].record_contents()
    call(*plain)


def _find_root(array: Any) -> FillableArray:
    """Return the array whose memory an array shows."""
    base = np.ndarray.__getattribute__(array, "base")
    while isinstance(base, FillableArray):
        array = base
        base = np.ndarray.__getattribute__(array, "base")
    root: FillableArray = array
    return root


def _find_cells(array: Any) -> tuple[FilledValue, Places, int] | None:
    """Return what an array stands for: the value of the root, the numbers of its elements in memory, its address."""
    cells: tuple[FilledValue, Places, int] | None
    cells = np.ndarray.__getattribute__(_find_root(array), "__dict__").get("cells")
    return cells


def _begin_recording(root: FillableArray) -> None:
    """Make an array stand for a value that begins as the array, and make its memory NaN."""
    plain: NDArray[Any] = np.ndarray.view(root, np.ndarray)
    memory = np.empty(plain.size, np.intp)
    numbers = _show_like(plain, memory, plain.ctypes.data)
    numbers[...] = np.arange(plain.size).reshape(plain.shape)
    cells = make_filled(plain.copy())
    notes_of_fill(cells).places = numbers
    np.ndarray.__getattribute__(root, "__dict__")["cells"] = (cells, memory, plain.ctypes.data)
    FilledMemory.count += 1
    plain[...] = np.nan
    _hide_memory(root, cells.dtype)


def _hide_memory(root: FillableArray, dtype: np.dtype[Any]) -> None:
    """Make an array and its views read-only arrays of raw bytes to compiled code, which then refuses them."""
    hidden = np.dtype((np.void, dtype.itemsize))
    refs = np.ndarray.__getattribute__(root, "__dict__").pop("views", [])
    for array in [root, *(ref() for ref in refs)]:
        if array is not None and np.ndarray.__getattribute__(array, "dtype") == dtype:
            DTYPE_ATTRIBUTE.__set__(array, hidden)
            np.ndarray.setflags(array, write=False)


DTYPE_ATTRIBUTE: Any = vars(np.ndarray)["dtype"]


def _show_like(plain: NDArray[Any], memory: Places, address: int) -> Places:
    """Return whole numbers in memory as an array that lies there as another one does behind an address."""
    start = (plain.ctypes.data - address) // plain.itemsize * memory.itemsize
    steps = [step // plain.itemsize * memory.itemsize for step in plain.strides]
    return np.ndarray(plain.shape, np.intp, memory.data, start, steps)


def _view_cells(array: FillableArray, cells: FilledValue, memory: Places, address: int) -> FilledValue:
    """Return the part of the root's value that an array shows, found by its place in memory."""
    if _find_root(array) is array:
        return cells
    plain = np.ndarray.view(array, np.ndarray)
    if plain.dtype.kind != "V":
        raise MutationError(
            f"this view reads the memory of an array as another dtype, which values do not have{format_user_line()}"
        )
    return make_view(cells, _show_like(plain, memory, address))
