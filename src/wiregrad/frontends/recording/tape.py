"""The tape: the recording behind values, as rows that grow, and the reverse sweep over them.

A scalar node is one packed row of 34 bytes: its value, its two slopes, its two sources and its op. A source is the
offset of a row, so appending needs no lookup; appending is one call, so a Ctrl-C never leaves half a row. Every other
node (arrays, ops of more inputs, leaves) has a row too, marked `EXTRA`; its data is in a dict beside the rows. On a
traced tape, a comparison of two numbers is a packed row too.

A tape belongs to the thread that made it and lives as long as a value on it. Leaves belong to no tape: a tape refers to
its leaves, a leaf only to the serial number of the tape it was last used on, so there are no reference cycles.

Two recorders can append and sweep rows of real numbers: the one in C, an extension module that is built when the
package is installed if there is a compiler, and the one in Python. Both give the same results, bit for bit. The
environment variable WIREGRAD_RECORDER chooses one of them; it is read once (`choose_recorder`).
"""

from __future__ import annotations

import itertools
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum, IntEnum, auto
from functools import cache, partial
from struct import Struct
from types import FrameType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wiregrad.errors import SettingError
from wiregrad.frontends.recording.trace_notes import ROW_SIZE, ReplayGuard, TraceNotes
from wiregrad.frontends.recording.user_code import GroupBlock
from wiregrad.ir import INPUT, TABLE, Op
from wiregrad.ir.columns import Convention, chosen_convention, encode_mode, has_kinks, switch_convention
from wiregrad.ir.op import COMPARISON_METHODS
from wiregrad.lazy import NamedTuple, load_module_lazily
from wiregrad.ops.gradient_flow import GradientBuffer, MaskedFlow, add_flows, begin_sum, is_complex, match_dtype
from wiregrad.settings import (
    RECORDER_C,
    RECORDER_PYTHON,
    RECORDER_VARIABLE,
    OneTimeContext,
    ScopedSetting,
    SettingBlock,
    read_setting,
)

EXTENSION_NAME = "wiregrad._recorder"


class RecorderChoice(NamedTuple):
    """The recorder that serves, and why."""

    module: Any
    """The extension module; None if the Python recorder serves."""
    reason: str
    error: SettingError | None = None
    """Raised when something is recorded: the environment asks for a recorder that there is not."""


def choose_recorder() -> RecorderChoice:
    """Return the C recorder if it was built and is not switched off."""
    try:
        wanted = read_setting(RECORDER_VARIABLE)
    except SettingError as error:
        return RecorderChoice(None, str(error), error)
    if wanted == RECORDER_PYTHON:
        return RecorderChoice(None, f"{RECORDER_VARIABLE}={wanted}")
    try:
        load_module_lazily(EXTENSION_NAME).op_names  # noqa: B018 - loads the module
    except ImportError as missing:
        reason = f"the C recorder cannot be loaded: {missing}"
        refused = SettingError(f"{RECORDER_VARIABLE}={wanted}, but {reason}; {BUILD_ADVICE}")
        return RecorderChoice(None, reason, refused if wanted == RECORDER_C else None)
    module = sys.modules[EXTENSION_NAME]
    return RecorderChoice(module, f"{RECORDER_VARIABLE}={wanted}" if wanted else "it was built with the package")


BUILD_ADVICE = "install a C compiler and Python's headers, and then wiregrad again"
RECORDER_CHOICE = choose_recorder()
RECORDER = RECORDER_CHOICE.module
"""The extension module of the C recorder; None if the Python recorder serves."""
RECORDER_ERROR = RECORDER_CHOICE.error


ROW_FORMAT = Struct("<dddiiH")
STRIDE = ROW_FORMAT.size
assert STRIDE == ROW_SIZE
ROW_COLUMNS = np.dtype([("y", "<f8"), ("p", "<f8"), ("q", "<f8"), ("a", "<i4"), ("b", "<i4"), ("code", "<u2")])
LITERAL = -1
"""The source of an operand that is a plain number; the number is stored in place of the slope."""
EXTRA = -2
"""The first source of a row whose node is an `ExtraNode`."""
BLOCKED = -3
"""`BLOCKED - offset` encodes a source that no gradient flows to."""
EXTRA_ROW = ROW_FORMAT.pack(0.0, 0.0, 0.0, EXTRA, LITERAL, np.iinfo(np.uint16).max)
MAX_TAPE_ROWS = 1 << 17
"""Maximum number of rows before an op on leaves alone begins a new tape, so that a loop does not grow one for ever."""

_tape_serials = itertools.count(1)
_notes_lock = threading.RLock()


class DroppedArray:
    """Shape and dtype of an array that was dropped to free its memory, because no derivative rule reads it."""

    __slots__ = ("dtype", "shape")

    def __init__(self, array: NDArray[Any]) -> None:
        self.dtype = array.dtype
        self.shape = array.shape


MAX_KEPT_ELEMENTS = 4096
"""Arrays with up to this many elements are kept even if no derivative rule reads them."""


class ExtraNode(NamedTuple):
    """A node that does not fit into a packed row: an op on arrays or of more than two inputs, or a leaf."""

    op: Op
    sources: tuple[int, ...]
    xs: tuple[Any, ...]
    y: Any
    mode: int


SPENT_NODE = ExtraNode(INPUT, (), (), np.float64(0.0), 0)
"""Stands in the place of a node that is not needed any more."""


class TapeKind(Enum):
    """Who records on a tape, and what values of other tapes are there."""

    USER = auto()
    """The user's own values record here. They are compared and hashed by identity."""
    TRANSFORM = auto()
    """A transform records its function here, whose values act as plain numbers."""
    APART = auto()
    """Like `TRANSFORM`, but values of other tapes are leaves here. On the other kinds they are copied, with everything
    they depend on."""


class RowCopies:
    """What a tape knows about rows that were copied: those it copied from other tapes, and who copied its own."""

    __slots__ = ("offsets", "origins", "readers")

    def __init__(self) -> None:
        self.origins: dict[int, tuple[weakref.ref[Tape], int]] = {}
        """For each row here that is a copy: the other tape, and the offset there."""
        self.offsets: dict[tuple[int, int], int] = {}
        """The offset here of each value of another tape, by that tape's serial number and the offset there."""
        self.readers: list[weakref.ref[Tape]] = []
        """The tapes that copied rows of this one."""


class ViewNotes:
    """The views that were taken of the arrays of a tape; while one exists, neither it nor its array changes alone."""

    __slots__ = ("limits", "sources", "views")

    def __init__(self) -> None:
        self.limits: dict[int, int] = {}
        """For the offset of an array with many views, how many may be remembered before those that are gone are
        forgotten."""
        self.sources: dict[int, tuple[weakref.ref[Any], int]] = {}
        """For the offset of each view, the value that it was taken of, and that value's offset."""
        self.views: dict[int, list[tuple[weakref.ref[Any], int]]] = {}
        """For the offset of each array, the views that were taken of it, and their offsets."""

    def add(self, array: Any, offset: int, view: Any) -> None:
        """Remember a view of the array at an offset; forget those that are gone, and of which no view was taken."""
        self.sources[view._index] = (weakref.ref(array), offset)
        views = self.views.setdefault(offset, [])
        views.append((weakref.ref(view), view._index))
        if len(views) > MAX_REMEMBERED_VIEWS and len(views) > self.limits.get(offset, 0):
            views[:] = [(ref, at) for ref, at in views if ref() is not None or at in self.views]
            # So the time that this takes is in proportion to the number of views, however many of them stay.
            self.limits[offset] = 2 * len(views)

    def is_view(self, value: Any) -> bool:
        """Return whether a value is a view of an array that still exists, or of which another view exists."""
        offset = value._index
        while offset in self.sources:
            array, offset = self.sources[offset]
            if _stands_for(array(), offset) or self.has_views(offset, besides=value):
                return True
        return False

    def has_views(self, offset: int, besides: Any = None) -> bool:
        """Return whether a view of an array exists, or a view of a view."""
        waiting = [offset]
        while waiting:
            for ref, at in self.views.get(waiting.pop(), ()):
                view = ref()
                if view is not besides and _stands_for(view, at):
                    return True
                waiting.append(at)
        return False


def _stands_for(value: Any, offset: int) -> bool:
    """Return whether a value exists and is still the node at an offset; a leaf always is."""
    return value is not None and (value._tape is None or value._index == offset)


MAX_REMEMBERED_VIEWS = 64
"""After this many views of one array, those that are gone are forgotten."""


class Tape:
    """A recording that grows while code runs: its rows, and what the reverse sweep needs and leaves."""

    __slots__ = (
        "__weakref__",
        "_notes",
        "buffer",
        "copies",
        "extras",
        "guard",
        "hooks",
        "kind",
        "leaves",
        "limit",
        "owner",
        "refused_conversion",
        "serial",
        "sweeps",
        "views",
    )

    def __init__(self, kind: TapeKind = TapeKind.TRANSFORM, guard: ReplayGuard | None = None) -> None:
        if RECORDER_ERROR is not None:
            raise RECORDER_ERROR
        self.buffer = bytearray()
        """The rows."""
        self.extras: dict[int, ExtraNode] = {}
        """The nodes that are not packed rows, by offset."""
        self.leaves: dict[int, Any] = {}
        """Values from outside the tape by offset: leaves, and on a tape of kind `APART` also values of other tapes."""
        self.hooks: dict[int, list[Callable[[Any], Any]]] = {}
        """The functions that users registered to see or change a gradient, by offset."""
        self.sweeps: list[SweptGradients] = []
        """The gradients of finished backward passes; no two of them visited the same node, except leaves."""
        self.owner: int | None = threading.get_ident()
        """The thread that may record here; None after the transform that made the tape has ended."""
        self.refused_conversion = ""
        """What the error said of a conversion that was refused because its gradient would be lost; empty if none was.

        If the function goes on, it has caught that error.
        """
        self.serial = next(_tape_serials)
        self.limit = MAX_TAPE_ROWS * STRIDE
        """The length of `buffer` at which an op on leaves alone begins a new tape."""
        self.kind = kind
        self.guard = guard
        """What steered Python, and whether the recording may be replayed; only while a function is traced.

        So `guard is not None` says that a circuit is being traced: then comparisons, source lines and names are
        recorded too, and numbers are NumPy's.
        """
        self.copies = RowCopies()
        self.views = ViewNotes()
        self._notes: TraceNotes | None = None

    @property
    def notes(self) -> TraceNotes:
        """The names and source lines of nodes; made when first needed."""
        if self._notes is None:
            with _notes_lock:
                # Another thread may have named a value on this tape in the meantime.
                self._notes = self._notes or TraceNotes()
        return self._notes

    def append_extra(self, extra: ExtraNode) -> int:
        """Append a node that is not a packed row; returns its offset."""
        offset = len(self.buffer)
        # The row comes first: an interrupt between the two lines leaves a row that nothing refers to.
        self.buffer += EXTRA_ROW
        self.extras[offset] = extra
        return offset

    def value_at(self, offset: int) -> Any:
        """Return the value that a node computed."""
        extra = self.extras.get(offset)
        if extra is None:
            row = ROW_FORMAT.unpack_from(self.buffer, offset)
            return row[0] if self.guard is None else _read_output(row[0], row[-1])
        # Derivative rules divide by outputs, so nodes store NumPy floats; a value holds a Python float.
        return float(extra.y) if type(extra.y) is np.float64 and self.guard is None else extra.y

    def node_at(self, offset: int) -> ExtraNode:
        """Return a node with its op, sources, operands and output, unpacking it if it is a packed row."""
        extra = self.extras.get(offset)
        return _unpack_row(ROW_FORMAT.unpack_from(self.buffer, offset), self) if extra is None else extra

    def sources_at(self, offset: int) -> list[int]:
        """Return the offsets of a node's operands, without literals."""
        extra = self.extras.get(offset)
        if extra is not None:
            return [source for source in extra.sources if source >= 0]
        packed = ROW_FORMAT.unpack_from(self.buffer, offset)[3:5]
        sources = [BLOCKED - source if source <= BLOCKED else source for source in packed]
        return [source for source in sources if source >= 0]

    def walk_nodes(self, start: int, stop: int) -> Iterator[tuple[int, ExtraNode]]:
        """Walk the nodes between two offsets, last one first."""
        rows = np.frombuffer(memoryview(self.buffer)[start:stop], ROW_COLUMNS).tolist()
        for offset, row in zip(range(stop - STRIDE, start - STRIDE, -STRIDE), reversed(rows), strict=True):
            extra = self.extras.get(offset)
            yield offset, _unpack_row(row, self) if extra is None else extra

    def reads_before(self, start: int, stop: int) -> bool:
        """Return whether a node between two offsets reads one before them."""
        rows = _copy_columns(self, start, stop)
        for name in "ab":
            sources = np.where(rows[name] <= BLOCKED, BLOCKED - rows[name], rows[name])
            if bool(((sources >= 0) & (sources < start)).any()):
                return True
        others = [extra for offset, extra in self.extras.items() if start <= offset < stop]
        return any(0 <= source < start for extra in others for source in extra.sources)

    def copies_of(self, offset: int) -> Iterator[tuple[Tape, int]]:
        """Walk over a node and its copies: each tape that has it, and the offset there."""
        waiting: list[tuple[Tape, int]] = [(self, offset)]
        # Two tapes may have copied rows of each other.
        seen = {(self.serial, offset)}
        while waiting:
            home, at = waiting.pop()
            yield home, at
            for tape in [reader() for reader in home.copies.readers]:
                copy = None if tape is None else tape.copies.offsets.get((home.serial, at))
                if tape is not None and copy is not None and (tape.serial, copy) not in seen:
                    seen.add((tape.serial, copy))
                    waiting.append((tape, copy))

    def is_long(self) -> bool:
        """Return whether the next op on a leaf should begin a new tape, however many rows were copied here."""
        return len(self.buffer) > MAX_TAPE_ROWS * STRIDE

    def keep_sweep(self, sweep: SweptGradients, came_from: Tape | None = None) -> None:
        """Store the gradients of a backward pass, and drop those of earlier passes that it replaces.

        A pass replaces an earlier one if both visited a node that is not a leaf. A pass may come from another tape,
        which has copies of nodes of this one.
        """
        if self.sweeps == [sweep]:
            self.sweeps[0].backward.replaced = True
            self.sweeps = [sweep]
        else:
            self.sweeps = [
                *(self._unrelated_sweeps(sweep.inner_nodes(self), sweep.backward) if self.sweeps else []),
                sweep,
            ]
        if self.copies.readers:
            self._forget_copies(sweep, came_from)

    def _unrelated_sweeps(self, nodes: set[int], backward: BackwardPass) -> list[SweptGradients]:
        """Return the sweeps that a backward pass over some nodes, given by index, does not replace."""
        for sweep in self.sweeps:
            if sweep.backward is not backward and not sweep.inner_nodes(self).isdisjoint(nodes):
                sweep.backward.replaced = True
        return [sweep for sweep in self.sweeps if not sweep.backward.replaced]

    def _forget_copies(self, sweep: SweptGradients, came_from: Tape | None) -> None:
        """Drop earlier sweeps on other tapes if they visited copies of the nodes of this sweep."""
        seen: dict[int, set[int]] = {}
        stack: list[tuple[Tape, set[int]]] = [(self, sweep.inner_nodes(self))]
        while stack:
            home, copied = stack.pop()
            for tape in [reader() for reader in home.copies.readers]:
                if tape is None or tape is self or tape is came_from:
                    continue
                copies = tape.copies_from(home, copied) - seen.get(tape.serial, set())
                if copies:
                    seen[tape.serial] = copies | seen.get(tape.serial, set())
                    tape.sweeps = tape._unrelated_sweeps(copies, sweep.backward)
                    stack.append((tape, copies))

    def copies_from(self, home: Tape, nodes: set[int]) -> set[int]:
        """Return the indices here of the copies of nodes of another tape."""
        return {
            copy // STRIDE
            for (serial, offset), copy in self.copies.offsets.items()
            if serial == home.serial and offset // STRIDE in nodes
        }

    def adjoint_at(self, offset: int) -> Any:
        """Return the gradient that a backward pass left at a node, in the form of `SweptGradients.gradient_at`."""
        for sweep in reversed(self.sweeps):
            left = None if sweep.backward.replaced else sweep.gradient_at(self, offset)
            if left is not None:
                return left
        return None


class StructuralZero:
    """The gradient of a node that a backward pass visited without anything flowing there: zero by structure."""


STRUCTURAL_ZERO = StructuralZero()


class BackwardPass:
    """One call of `backward()`."""

    __slots__ = ("replaced",)

    def __init__(self) -> None:
        self.replaced = False
        """Whether a later pass visited a node that this one visited: then its gradients are dropped on every tape."""


class SweptGradients:
    """The gradients that one backward pass left at the nodes of one tape."""

    __slots__ = ("_inner", "_passed", "_root", "_seed", "adjoints", "backward")

    def __init__(
        self, backward: BackwardPass, adjoints: list[Any], root: int | None = None, seed: object = None
    ) -> None:
        self.backward = backward
        self._seed = seed
        """What the pass began with, to compute gradients again that it dropped."""
        self.adjoints: list[Any] | dict[int, Any] = adjoints
        """The gradient of each node by index; after `inner_nodes` was called, a dict without the absent ones."""
        self._root = root
        """The offset where the pass began; None if it began on another tape, and zeros are stored already."""
        self._passed: bytearray | None = bytearray() if root is None else None
        """Marks the nodes that the pass visited without leaving a gradient there; computed on demand."""
        self._inner: set[int] | None = None

    def __eq__(self, other: object) -> bool:
        """Return whether both passes visited the same nodes, because they began at the same one."""
        return isinstance(other, SweptGradients) and self._root is not None and self._root == other._root

    __hash__ = None  # type: ignore[assignment]

    def gradient_at(self, tape: Tape, offset: int) -> Any:
        """Return the gradient at a node: a flow, `STRUCTURAL_ZERO`, or None if the pass did not visit the node."""
        index = offset // STRIDE
        adjoints = self.adjoints
        if isinstance(adjoints, dict):
            flow = adjoints.get(index)
            return self._restore_gradients(tape)[index] if flow is DROPPED_GRADIENT else flow
        flow = adjoints[index] if index < len(adjoints) else None
        if flow is DROPPED_GRADIENT:
            return self._restore_gradients(tape)[index]
        return (
            STRUCTURAL_ZERO
            if flow is None and index < len(self._zero_mask(tape)) and self._zero_mask(tape)[index]
            else flow
        )

    def _restore_gradients(self, tape: Tape) -> list[Any] | dict[int, Any]:
        """Compute the gradients again that the pass dropped; returns all, by index."""
        assert self._root is not None
        hooks = tape.hooks
        try:
            # Hooks that were registered after the pass must not see it.
            tape.hooks = {}
            with np.errstate(all="ignore"):
                again = pull_back(tape, [(self._root, self._seed)])
        finally:
            tape.hooks = hooks
        adjoints = self.adjoints
        for index, flow in enumerate(again):
            if flow is not None and adjoints[index] is DROPPED_GRADIENT:
                adjoints[index] = flow
        return adjoints

    def inner_nodes(self, tape: Tape) -> set[int]:
        """Return the indices of the visited nodes that are not leaves."""
        if self._inner is None:
            zeros = dict.fromkeys(
                np.flatnonzero(np.frombuffer(self._zero_mask(tape), np.uint8)).tolist(), STRUCTURAL_ZERO
            )
            assert not isinstance(self.adjoints, dict)
            left = zeros | {k: flow for k, flow in enumerate(self.adjoints) if flow is not None}
            inner = left.keys() - {offset // STRIDE for offset in tape.leaves}
            # One statement, so that an interrupt cannot leave one of them set without the other.
            self.adjoints, self._inner = left, inner
        return self._inner

    def _zero_mask(self, tape: Tape) -> bytearray:
        if self._passed is None:
            assert not isinstance(self.adjoints, dict)
            self._passed = mark_reached(tape, self.adjoints)
        return self._passed


def _unpack_row(row: tuple[Any, ...], tape: Tape) -> ExtraNode:
    y, p, q, a, b, code = row
    if a == EXTRA:
        # An interrupt came between appending this row and storing its node: no value refers to it.
        return SPENT_NODE
    op = TABLE.by_code()[code]
    pairs = [(a, p), (b, q)][: len(op.inputs)]
    sources = tuple([source if source >= LITERAL else BLOCKED - source for source, _ in pairs])
    xs = tuple(
        [
            np.float64(number if source == LITERAL else tape.value_at(source))
            for source, (_, number) in zip(sources, pairs, strict=True)
        ]
    )
    return ExtraNode(op, sources, xs, _read_output(y, code), usual_mode(op, sources))


@cache
def condition_codes() -> frozenset[int]:
    """Return the codes of the comparisons: a packed row of one has a condition as its value, 0 or 1."""
    return frozenset([TABLE.code_of(TABLE.infix[spelling]) for spelling in COMPARISON_METHODS])


def _read_output(y: float, code: int) -> Any:
    """Return the output of a packed row as a NumPy number."""
    return np.bool_(y) if code in condition_codes() else np.float64(y)


def mode_of(op: Op, sources: Sequence[int]) -> int:
    """Return the mode of a node recorded now: the convention for kinks that its thread or task has chosen."""
    if not op.kinks:
        return 0
    mode = usual_mode(op, sources)
    chosen = chosen_convention()
    return switch_convention(mode, chosen) if chosen and has_kinks(op) else mode


def usual_mode(op: Op, sources: Sequence[int]) -> int:
    """Return a node's mode under the usual convention, which every packed row has: literals are constants."""
    if not op.kinks or len(sources) == 1 or min(sources) > LITERAL:
        return 0
    return _mode_of_literals(tuple([source == LITERAL for source in sources]))


@cache
def _mode_of_literals(literal: tuple[bool, ...]) -> int:
    return encode_mode(Convention.MIN_NORM, [slot for slot, is_literal in enumerate(literal) if is_literal])


class KeptGradients(Enum):
    """Which gradients of nodes other than inputs a sweep keeps after it has passed them on."""

    ALL = auto()
    SMALL = auto()
    """Those of numbers and small arrays; `DROPPED_GRADIENT` is left in the place of others."""
    NONE = auto()
    """Those of numbers; None is left in the place of others."""


class DroppedGradient:
    """Stands for a gradient that was dropped to free its memory, and can be computed again."""


DROPPED_GRADIENT = DroppedGradient()


def _release_gradient(adjoints: list[Any], node: int, g: Any, keep: KeptGradients) -> None:
    """Drop the gradient of an inner array, after its last use but one."""
    if keep is KeptGradients.SMALL:
        value = g.value if type(g) is MaskedFlow else g
        if type(value) is np.ndarray and value.size > MAX_KEPT_ELEMENTS:
            adjoints[node] = DROPPED_GRADIENT


def pull_back(
    tape: Tape,
    seeds: Sequence[tuple[int, Any]],
    start: int = 0,
    *,
    keep: KeptGradients = KeptGradients.ALL,
    spend: bool = False,
) -> list[Any]:
    """Run the reverse sweep on numbers, from seeded nodes back to an offset; returns one gradient per node from there.

    This is `passes.reverse` with the slopes taken from the rows: the same products, added in the same order. `keep`
    says which gradients of inner arrays are kept after they have been passed on. With `spend=True`, this is the last
    sweep over the tape, and the data of its nodes is dropped too.
    """
    stop = max([offset for offset, _ in seeds]) + STRIDE
    size = (stop - start) // STRIDE
    has_rows = len(tape.extras) * STRIDE != len(tape.buffer) or bool(tape.hooks)
    adjoints: list[Any] = [None] * size if RECORDER is None or not has_rows else RECORDER.GradientList(size)
    for offset, seed in seeds:
        node = (offset - start) // STRIDE
        adjoints[node] = add_flows(adjoints[node], seed)
    if not has_rows:
        _pull_extras(tape.extras, adjoints, start, keep=keep, spend=spend)
        return adjoints
    below = len(adjoints)
    columns = _copy_columns(tape, start, stop) if RECORDER is None else None
    for offset in sorted(tape.hooks, reverse=True):
        if start <= offset < stop:
            hooked = (offset - start) // STRIDE
            _pull_rows(tape, columns, adjoints, start, (hooked + 1, below), keep=keep, spend=spend)
            if type(adjoints[hooked]) is GradientBuffer:
                adjoints[hooked] = adjoints[hooked].settle()
            for hook in tape.hooks[offset]:
                adjoints[hooked] = hook(adjoints[hooked])
            below = hooked + 1
    _pull_rows(tape, columns, adjoints, start, (0, below), keep=keep, spend=spend)
    return adjoints


def _pull_extras(
    extras: dict[int, ExtraNode], adjoints: list[Any], start: int, *, keep: KeptGradients, spend: bool
) -> None:
    """Pass on the gradients of a tape that has no packed rows."""
    for node in range(len(adjoints) - 1, -1, -1):
        if adjoints[node] is not None:
            _pull_at(extras, adjoints, start, node, keep, spend)


def _copy_columns(tape: Tape, start: int, stop: int) -> NDArray[np.void]:
    # A copy: a view would keep the buffer from growing.
    return np.frombuffer(memoryview(tape.buffer)[start:stop], ROW_COLUMNS).copy()


def _pull_rows(
    tape: Tape,
    columns: NDArray[np.void] | None,
    adjoints: list[Any],
    start: int,
    span: tuple[int, int],
    *,
    keep: KeptGradients,
    spend: bool,
) -> None:
    """Pass on the gradients of the nodes of a span, last one first; `columns` is None if the C recorder serves."""
    low, high = span
    if columns is None:
        pull_extra = partial(_pull_at, tape.extras, adjoints, start, keep=keep, spend=spend)
        RECORDER.pull_rows(tape, adjoints, start, low, high, pull_extra)
        return
    part = columns[low:high][::-1]
    first = _relative_nodes(part["a"], start)
    second = _relative_nodes(part["b"], start)
    ahead = reversed(adjoints) if high == len(adjoints) else _iterate_backwards(adjoints, high)
    p = part["p"].tolist()
    q = part["q"].tolist()
    nodes = range(high - 1, low - 1, -1)
    for node, g, a, b, slope_a, slope_b in zip(nodes, ahead, first, second, p, q, strict=False):
        if g is None:
            continue
        if b >= 0:
            held = adjoints[b]
            adjoints[b] = g * slope_b if held is None else held + g * slope_b
        if a >= 0:
            held = adjoints[a]
            adjoints[a] = g * slope_a if held is None else held + g * slope_a
        elif a == OUTSIDE_SWEEP and start + node * STRIDE in tape.extras:
            _pull_at(tape.extras, adjoints, start, node, keep, spend)


class NodeMark(IntEnum):
    """Whether a root of a sweep, where it ends or begins, is behind a node; the C recorder has the same numbers."""

    INACTIVE = 0
    ACTIVE = 1
    ROOT = 2


def mark_active(tape: Tape, start: int, stop: int, roots: Sequence[int]) -> bytes | None:
    """Return the `NodeMark` of each node between two offsets; None if one of the nodes is not a real number."""
    if RECORDER is not None:
        found: bytes | None = RECORDER.mark_active(tape, start, stop, list(roots))
        return found
    marks = bytearray((stop - start) // STRIDE)
    for root in roots:
        if start <= root < stop:
            marks[(root - start) // STRIDE] = NodeMark.ROOT
    for k, offset in enumerate(range(start, stop, STRIDE)):
        extra = tape.extras.get(offset)
        if extra is not None and not isinstance(extra.y, float):
            return None
        if not marks[k] and any(
            source >= start and marks[(source - start) // STRIDE] for source in tape.sources_at(offset)
        ):
            marks[k] = NodeMark.ACTIVE
    return bytes(marks)


def push_forward(tape: Tape, seeds: Mapping[int, float], start: int, marks: bytes) -> list[Any]:
    """Run the forward sweep on real numbers, from roots that are seeded, by index; returns one tangent per node.

    The slopes are those of the rows, as in `pull_back`.
    """
    tangents: list[Any] = [None] * len(marks) if RECORDER is None else RECORDER.GradientList(len(marks))
    for node, seed in seeds.items():
        tangents[node] = seed
    push_extra = partial(_push_extra, tape, tangents, start)
    if RECORDER is not None:
        RECORDER.push_rows(tape, tangents, start, marks, push_extra)
        return tangents
    rows = _copy_columns(tape, start, start + len(marks) * STRIDE)
    first = _relative_nodes(rows["a"], start)
    second = _relative_nodes(rows["b"], start)
    is_extra = (rows["a"] == EXTRA).tolist()
    slopes = zip(first, rows["p"].tolist(), second, rows["q"].tolist(), strict=True)
    for node, (a, p, b, q) in enumerate(slopes):
        if marks[node] != NodeMark.ACTIVE:
            continue
        if is_extra[node]:
            push_extra(node)
            continue
        one = None if a < 0 else tangents[a]
        two = None if b < 0 else tangents[b]
        tangents[node] = add_flows(None if one is None else one * p, None if two is None else two * q)
    return tangents


def _push_extra(tape: Tape, tangents: list[Any], start: int, node: int) -> None:
    """Pass on the tangents of a node that is not a packed row, and whose operands are numbers."""
    op, sources, xs, y, mode = tape.extras[start + node * STRIDE]
    arriving = [tangents[(source - start) // STRIDE] if source >= start else None for source in sources]
    if any(tangent is not None for tangent in arriving):
        tangents[node] = fit_flow(op.push(arriving, xs, y, mode), y)


def _pull_at(
    extras: dict[int, ExtraNode], adjoints: list[Any], start: int, node: int, keep: KeptGradients, spend: bool
) -> None:
    """Pass on the gradient of a node that is not a packed row."""
    g = adjoints[node]
    if type(g) is GradientBuffer:
        g = adjoints[node] = g.settle()
    extra = extras[start + node * STRIDE]
    if extra.sources:
        if keep is KeptGradients.NONE:
            # A number stays: it costs nothing, and a sweep over rows of numbers has read it already.
            adjoints[node] = g if type(g) is float else None
        elif type(g) is not float:
            _release_gradient(adjoints, node, g, keep)
        if spend:
            # Memory that is freed early can be used again for the next gradients.
            extras[start + node * STRIDE] = SPENT_NODE
        _pull_extra(extra, g, adjoints, start)


OUTSIDE_SWEEP = -1
"""In a column of sources: not a node of the sweep, but a literal, a blocked wire or an `ExtraNode`."""


def _relative_nodes(offsets: NDArray[np.int32], start: int) -> list[int]:
    """Return the node indices of offsets, relative to the start of a sweep; `OUTSIDE_SWEEP` for all others."""
    # A negative offset stays negative when it is divided; one before the start becomes so.
    nodes = offsets // STRIDE if not start else (offsets - start) // STRIDE
    relative: list[int] = np.maximum(nodes, OUTSIDE_SWEEP).tolist()
    return relative


def _iterate_backwards(items: list[Any], high: int) -> Iterator[Any]:
    for k in range(high - 1, -1, -1):
        yield items[k]


def mark_reached(tape: Tape, adjoints: list[Any]) -> bytearray:
    """Return 1 for each node that a sweep visited without leaving a gradient: its gradient is zero by structure."""
    if RECORDER is not None and type(adjoints) is RECORDER.GradientList:
        marks: bytearray = RECORDER.mark_reached(tape, adjoints)
        return marks
    is_zero = bytearray(len(adjoints))
    stack = list[int]()
    columns = _copy_columns(tape, 0, len(adjoints) * STRIDE)
    for name in "ab":
        for node in np.flatnonzero(columns[name] <= BLOCKED).tolist():
            if adjoints[node] is not None:
                stack.append(BLOCKED - int(columns[name][node]))
    for offset, extra in tape.extras.items():
        if offset < len(adjoints) * STRIDE and adjoints[offset // STRIDE] is not None:
            stack.extend(source for source in extra.sources if source >= 0)
    while stack:
        offset = stack.pop()
        node = offset // STRIDE
        if not is_zero[node] and adjoints[node] is None:
            is_zero[node] = 1
            stack.extend(tape.sources_at(offset))
    return is_zero


def _pull_extra(node: ExtraNode, g: Any, adjoints: list[Any], start: int) -> None:
    op, sources, xs, y, mode = node
    if op.picks_part and sources[0] >= start and type(xs[0]) in ARRAY_STAND_INS:
        part = op.find_part(xs)
        if part is not None:
            _add_part(part, g, xs[0], adjoints, (sources[0] - start) // STRIDE, is_view=op.is_view)
            return
    if op.pulls_together:
        slots = [slot for slot in range(len(sources) - 1, -1, -1) if sources[slot] >= start]
        for slot, sent in zip(slots, op.pull_slots(slots, g, xs, y, mode), strict=True):
            _add_sent(sent, xs[slot], adjoints, (sources[slot] - start) // STRIDE)
        return
    for slot in LAST_FIRST[len(sources)] if len(sources) < 4 else range(len(sources) - 1, -1, -1):
        if sources[slot] >= start:
            _add_sent(op.pull(slot, g, xs, y, mode), xs[slot], adjoints, (sources[slot] - start) // STRIDE)


ARRAY_STAND_INS = frozenset([np.ndarray, DroppedArray])
LAST_FIRST = ((), (0,), (1, 0), (2, 1, 0))
"""The slots of an op of few inputs, last one first."""


def _add_sent(sent: Any, x: Any, adjoints: list[Any], index: int) -> None:
    """Add what was sent along a wire to the gradient of the node it comes from, whose value is `x`."""
    flow = sent.value if type(sent) is MaskedFlow else sent
    if type(flow) is not np.ndarray or flow.dtype is not x.dtype:
        sent = fit_flow(sent, x)
        if sent is None:
            return
    held = adjoints[index]
    if held is None:
        adjoints[index] = sent
    elif type(held) is GradientBuffer:
        held.add_flow(sent)
    else:
        adjoints[index] = begin_sum(held, sent, x)


def _add_part(part: Any, g: Any, x: Any, adjoints: list[Any], index: int, *, is_view: bool) -> None:
    """Add the gradient of a part of an array to the gradient of the array."""
    flow = g.value if type(g) is MaskedFlow else g
    if type(g) is not float and (type(flow) is not np.ndarray or flow.dtype is not x.dtype):
        g = fit_flow(g, x)
    held = adjoints[index]
    if type(held) is not GradientBuffer:
        total = np.empty(x.shape, x.dtype)
        total.fill(-0.0)
        buffer = GradientBuffer(total, empty=True)
        if held is not None:
            buffer.add_flow(held)
        adjoints[index] = held = buffer
    held.add_part(part, g, is_view=is_view)


def fit_flow(flow: Any, x: Any) -> Any:
    """Convert a flow to the type of the value it belongs to."""
    if flow is None or (type(x) is not np.float64 and type(x) is not float):
        return match_dtype(flow, x)
    # A flow to a number is one Python float: the sweep multiplies it with Python floats.
    return flow if type(flow) is MaskedFlow else float(flow.real if is_complex(flow) else flow)


PAUSES: ScopedSetting[None] = ScopedSetting("wiregrad_pauses")
"""The blocks in which nothing is recorded (`no_grad`)."""
WATCHES: ScopedSetting[Any | None] = ScopedSetting("wiregrad_watches", PAUSES.opened)
"""The blocks in which every op is recorded in full; each has a watcher, called with `tape, offset, op, xs, y`, or None.

They are noted in `PAUSES.opened` too: while that is empty, scalars take their fast path.
"""
PLACES: ScopedSetting[None] = ScopedSetting("wiregrad_places", PAUSES.opened)
"""The blocks in which values are recorded with their places and groups, as traced code is."""
GROUPS: ScopedSetting[str] = ScopedSetting("wiregrad_groups")
"""The labels of the groups that nodes are recorded in."""
UNCHECKED: ScopedSetting[None] = ScopedSetting("wiregrad_unchecked")
"""The blocks that check users' own ops themselves, so that the ops skip the check at their first call."""


RunningState: TypeAlias = "tuple[Tape | None, list[SettingBlock[None]], RecordingBlock | None]"


RUNNING: dict[int, bool] = {}
"""The threads that may be running a transform, by identifier; `forget_transform` drops those that are not.

In any other thread the C recorder places leaves by itself. An entry is not dropped when its transform ends, because an
interrupt could come before that.
"""


def forget_transform() -> None:
    """Note that this thread is not running a transform, if it is not."""
    if STATE.tape is None:
        RUNNING.pop(threading.get_ident(), None)


class RecordingBlock(OneTimeContext):
    """A `with` block whose code is recorded on one tape, even inside `no_grad`."""

    __slots__ = ("before", "tape")

    def __init__(self, tape: Tape) -> None:
        super().__init__()
        self.tape = tape

    def prepare_entry(self, frame: FrameType) -> None:
        """Begin to record on the tape; `RecordingState.tape` undoes this when it is read after the block has ended."""
        RUNNING[threading.get_ident()] = True
        self.before = STATE.running_state()
        STATE.innermost, STATE.around, STATE.block = self.tape, PAUSES.active_blocks(), self


class RecordingState(threading.local):
    """The state of recording in each thread: the tape of the running transform, and what the blocks around it ask for.

    A transform runs without yielding to other tasks, so no other task or generator sees its tape unless it is run
    inside the transform.
    """

    def __init__(self) -> None:
        self.innermost: Tape | None = None
        """Like `tape`, but may be the tape of a block that has ended; for code that checks its values' tape anyway."""
        self.around: list[SettingBlock[None]] = []
        """The `no_grad` blocks that were active when the transform began; they do not apply inside it."""
        self.block: RecordingBlock | None = None
        """The innermost `RecordingBlock`."""
        self._latest: weakref.ref[Tape] | None = None

    @property
    def tape(self) -> Tape | None:
        """The tape of the running transform; None outside transforms."""
        while self.block is not None and not self.block.is_held:
            self.innermost, self.around, self.block = self.block.before
        return self.innermost

    def running_state(self) -> RunningState:
        """Return the state that a transform has to restore when it ends."""
        return self.tape, self.around, self.block

    @property
    def is_paused(self) -> bool:
        """Whether recording is off, by `no_grad`."""
        if not PAUSES.opened:
            return False
        if self.tape is None:
            return PAUSES.is_active()
        return any(block not in self.around for block in PAUSES.active_blocks())

    @property
    def is_careful(self) -> bool:
        """Whether every op is to be recorded in full, so that scalars do not take their fast path."""
        return (bool(WATCHES.opened) and WATCHES.is_active()) or (bool(PLACES.opened) and PLACES.is_active())

    @property
    def watch(self) -> Any:
        """The watcher that sees every op as it is recorded; None if there is none."""
        watches = WATCHES.active_values() if WATCHES.opened else None
        return watches[-1] if watches else None

    @property
    def group_blocks(self) -> list[GroupBlock]:
        """The enclosing `wg.group` blocks, the innermost last."""
        return [block for block in GROUPS.active_blocks() if isinstance(block, GroupBlock)]

    @property
    def skips_checks(self) -> bool:
        """Whether users' own ops skip their check at the first call."""
        return UNCHECKED.is_active()

    def current_tape(self) -> Tape:
        """Return the tape for an op on leaves alone."""
        if self.tape is not None:
            return self.tape
        tape = None if self._latest is None else self._latest()
        if tape is None or len(tape.buffer) > tape.limit:
            tape = Tape(TapeKind.USER)
            self._latest = weakref.ref(tape)
        if RECORDER is not None:
            RECORDER.note_latest(self._latest)
        return tape

    def record_on(self, tape: Tape) -> RecordingBlock:
        """Return a block that records on a tape, even inside `no_grad`."""
        return RecordingBlock(tape)

    def forget_latest(self) -> None:
        """Make the next op on leaves begin a new tape."""
        self._latest = None
        if RECORDER is not None:
            RECORDER.note_latest(None)


STATE = RecordingState()
