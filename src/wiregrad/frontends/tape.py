"""The recording behind values: flat rows that grow, and what flows back along them.

A scalar node is one packed row: its value, its two slopes, its two sources and its op, 34 bytes. A source is the
offset of a row, so nothing is looked up to append; appending is one call, so a Ctrl-C leaves no half row. Everything
else (arrays, ops of more inputs, leaves) has a row too, which says `EXTRA`, and an entry beside the rows.

A recording belongs to the thread that made it and lives as long as a value on it. Leaves belong to none: a recording
knows its leaves, a leaf only the number of the recording it was last seen on, so there is no ring of references.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Iterable, Iterator, Sequence
from struct import Struct
from types import FrameType
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from wiregrad.ir import INPUT, TABLE, Certificate, Op, Place, Row
from wiregrad.ir.blocks import Block, Entry, Setting
from wiregrad.ir.mode import Convention, chosen_convention, encode, has_kinks, switched
from wiregrad.ops.flow import Masked, fit, is_complex, plus

ROW = Struct("<dddiiH")
STRIDE = ROW.size
COLUMNS = np.dtype([("y", "<f8"), ("p", "<f8"), ("q", "<f8"), ("a", "<i4"), ("b", "<i4"), ("code", "<u2")])
LITERAL = -1
"""Stands for a source that is no row: the operand was a number, kept in the slope's place."""
EXTRA = -2
"""Stands in the first source of a row whose node is an `Extra`."""
BLOCKED = -3
"""`BLOCKED - offset` stands for a source that the gradient does not reach."""
EXTRA_ROW = ROW.pack(0.0, 0.0, 0.0, EXTRA, LITERAL, np.iinfo(np.uint16).max)
LIMIT = 1 << 17
"""After so many rows, an op on leaves alone begins a new recording, so that loops do not grow one for ever."""

_serials = itertools.count(1)


class Gone:
    """Stands for an array that no rule reads, so that its memory is free: shape and dtype alone."""

    __slots__ = ("dtype", "shape")

    def __init__(self, array: Any) -> None:
        self.dtype = array.dtype
        self.shape = array.shape


KEEP = 4096
"""Arrays of up to so many elements are kept even where no rule reads them."""


class Extra(NamedTuple):
    """A node that is no packed row: an op on arrays, of more than two inputs, or a leaf."""

    op: Op
    sources: tuple[int, ...]
    xs: tuple[Any, ...]
    y: Any
    mode: int


SPENT = Extra(INPUT, (), (), np.float64(0.0), 0)
"""Stands for a node that will not be asked for again."""


class Tape:
    """A growing recording."""

    __slots__ = (
        "__weakref__",
        "apart",
        "buffer",
        "calls",
        "certificates",
        "derived",
        "errors",
        "escapes",
        "extras",
        "frames",
        "groups",
        "hooks",
        "identity",
        "imports",
        "known",
        "leak",
        "leaves",
        "limit",
        "names",
        "of_transform",
        "owner",
        "places",
        "readers",
        "refusal",
        "serial",
        "sweeps",
        "tracing",
    )

    def __init__(self, *, tracing: bool = False, apart: bool = False, of_transform: bool = True) -> None:
        self.buffer = bytearray()
        self.of_transform = of_transform
        """Whether a transform records here, so that values stand for the numbers of a plain function; else they are
        values that a person made, each itself."""
        self.extras: dict[int, Extra] = {}
        self.leaves: dict[int, Any] = {}
        """The values that came from outside, by offset: leaves, and while tracing any value of another recording."""
        self.imports: dict[int, tuple[weakref.ref[Tape], int]] = {}
        """Rows that were copied from another recording, and where they came from."""
        self.known: dict[tuple[int, int], int] = {}
        """Where rows of other recordings, by serial and offset, went."""
        self.hooks: dict[int, list[Any]] = {}
        self.readers: list[weakref.ref[Tape]] = []
        """The recordings that copied rows of this one."""
        self.sweeps: list[SweptGradients] = []
        """What backward passes left at the nodes; no two of them passed the same node, but for leaves."""
        self.owner: int | None = threading.get_ident()
        """The thread that may record here; None once the transform that recorded has ended."""
        self.serial = next(_serials)
        self.limit = LIMIT * STRIDE
        self.tracing = tracing
        """Whether everything is recorded for a circuit: comparisons, places, names, what steered Python."""
        self.errors: Any = None
        """For a recording that is to be replayed: what NumPy did about errors when it began."""
        self.apart = apart or tracing
        """Whether values of other recordings stand here as leaves, instead of being copied with all they came from."""
        self.certificates: list[Certificate] = []
        self.escapes: list[tuple[Any, Any, Place | None]] = []
        """Values from outside whose numbers left while this was traced: the value, the number, and where."""
        self.refusal: str | None = None
        """Why even the results of this recording are not what the function gives: it found out that it is recorded."""
        self.leak: str | None = None
        """Why a replay of this recording may go wrong unnoticed: values steered Python and no certificate says how."""
        self.identity: Any = None
        """While tracing: the search for code that asks whether a condition *is* True, which a recorded one never is."""
        self.derived: dict[int, Op] = {}
        """While somebody watches: the ops whose rules recorded a node."""
        self.frames: dict[FrameType, int] | None = None
        """While names are wanted: the frames of the user's functions that recorded something, with their depth."""
        self.names: dict[int, str] = {}
        """The names given to recorded values."""
        self.places: dict[int, Place] = {}
        self.groups: dict[int, str] = {}
        self.calls: dict[int, tuple[str, int]] = {}
        """The functions made of ops that traced nodes belong to, and which call of them."""

    def append(self, extra: Extra) -> int:
        """Add a node that is no packed row; returns its offset."""
        offset = len(self.buffer)
        # The row first: what interrupts here leaves a row that nothing refers to.
        self.buffer += EXTRA_ROW
        self.extras[offset] = extra
        return offset

    def value_at(self, offset: int) -> Any:
        """Return what a node carried forward."""
        extra = self.extras.get(offset)
        if extra is None:
            return ROW.unpack_from(self.buffer, offset)[0]
        # Rules divide by outputs, so they get NumPy's numbers; a value holds a plain one.
        return float(extra.y) if type(extra.y) is np.float64 and not self.tracing else extra.y

    def node_at(self, offset: int) -> Extra:
        """Return a node in full."""
        extra = self.extras.get(offset)
        return _unpack(ROW.unpack_from(self.buffer, offset), self) if extra is None else extra

    def sources_at(self, offset: int) -> list[int]:
        """Return where the operands of a node stand, literals left out."""
        extra = self.extras.get(offset)
        if extra is not None:
            return [source for source in extra.sources if source >= 0]
        found = [
            BLOCKED - source if source <= BLOCKED else source for source in ROW.unpack_from(self.buffer, offset)[3:5]
        ]
        return [source for source in found if source >= 0]

    def nodes(self, start: int, stop: int) -> Iterator[tuple[int, Extra]]:
        """Walk the nodes between two offsets, last one first."""
        rows = np.frombuffer(memoryview(self.buffer)[start:stop], COLUMNS).tolist()
        for offset, row in zip(range(stop - STRIDE, start - STRIDE, -STRIDE), reversed(rows), strict=True):
            extra = self.extras.get(offset)
            yield offset, _unpack(row, self) if extra is None else extra

    def copies_of(self, offset: int) -> Iterator[tuple[Tape, int]]:
        """Return where a node stands: here, and on the recordings that copied it."""
        yield self, offset
        for reader in self.readers:
            tape = reader()
            if tape is not None and (self.serial, offset) in tape.known:
                yield from tape.copies_of(tape.known[self.serial, offset])

    def is_long(self) -> bool:
        """Return whether a leaf's next op had better begin a new recording, whatever was copied here."""
        return len(self.buffer) > LIMIT * STRIDE

    def keep(self, sweep: SweptGradients, came_from: Tape | None = None) -> None:
        """Keep what a backward pass left; of earlier ones, what has nothing to do with it.

        Two passes have to do with each other if a node that is no leaf was passed by both. A pass may come from
        another recording, which has copies of nodes of this one.
        """
        if self.sweeps == [sweep]:
            self.sweeps[0].backward.replaced = True
            self.sweeps = [sweep]
        else:
            self.sweeps = [*(self._unrelated(sweep.inner(self), sweep.backward) if self.sweeps else []), sweep]
        if self.readers:
            self._forget_copies(sweep, came_from)

    def _unrelated(self, nodes: set[int], backward: Backward) -> list[SweptGradients]:
        """Return what is left after a backward pass that passed some nodes, given by index."""
        for sweep in self.sweeps:
            if sweep.backward is not backward and not sweep.inner(self).isdisjoint(nodes):
                sweep.backward.replaced = True
        return [sweep for sweep in self.sweeps if not sweep.backward.replaced]

    def _forget_copies(self, sweep: SweptGradients, came_from: Tape | None) -> None:
        """Forget what earlier backward passes left, if they passed copies of these nodes on other recordings."""
        seen: dict[int, set[int]] = {}
        stack: list[tuple[Tape, set[int]]] = [(self, sweep.inner(self))]
        while stack:
            home, copied = stack.pop()
            for tape in [reader() for reader in home.readers]:
                if tape is None or tape is self or tape is came_from:
                    continue
                copies = tape.copies_from(home, copied) - seen.get(tape.serial, set())
                if copies:
                    seen[tape.serial] = copies | seen.get(tape.serial, set())
                    tape.sweeps = tape._unrelated(copies, sweep.backward)
                    stack.append((tape, copies))

    def copies_from(self, home: Tape, nodes: set[int]) -> set[int]:
        """Return where copies of nodes of another recording stand, by index."""
        return {
            copy // STRIDE
            for (serial, offset), copy in self.known.items()
            if serial == home.serial and offset // STRIDE in nodes
        }

    def adjoint(self, offset: int) -> Any:
        """Return what a backward pass left at a node: as `SweptGradients.at`."""
        for sweep in reversed(self.sweeps):
            left = None if sweep.backward.replaced else sweep.at(self, offset)
            if left is not None:
                return left
        return None


class Passed:
    """Stands for the gradient of a node that a backward pass came past and to which nothing flows: a zero."""


PASSED = Passed()


class Backward:
    """One call of `backward()`."""

    __slots__ = ("replaced",)

    def __init__(self) -> None:
        self.replaced = False
        """Whether a later one passed a node that this one passed: then nothing is left of it on any recording."""


class SweptGradients:
    """What one backward pass left at the nodes of one recording."""

    __slots__ = ("_adjoints", "_inner", "_passed", "_root", "backward")

    def __init__(self, backward: Backward, adjoints: list[Any], root: int | None = None) -> None:
        self.backward = backward
        self._adjoints: list[Any] | dict[int, Any] = adjoints
        """The gradient by each node, by its index; without the absent ones, once `inner` has been asked for."""
        self._root = root
        """Where the pass began; None if that was on another recording, and zeros are in their places."""
        self._passed: bytearray | None = bytearray() if root is None else None
        """Which nodes the pass came past without leaving a gradient there; worked out when asked."""
        self._inner: set[int] | None = None

    def __eq__(self, other: object) -> bool:
        """Return whether both came past the same nodes: they began at the same one."""
        return isinstance(other, SweptGradients) and self._root is not None and self._root == other._root

    __hash__ = None  # type: ignore[assignment]

    def at(self, tape: Tape, offset: int) -> Any:
        """Return what was left at a node: a flow, `PASSED`, or None if the pass did not come past it."""
        index = offset // STRIDE
        adjoints = self._adjoints
        if isinstance(adjoints, dict):
            return adjoints.get(index)
        flow = adjoints[index] if index < len(adjoints) else None
        return PASSED if flow is None and index < len(self._zeros(tape)) and self._zeros(tape)[index] else flow

    def inner(self, tape: Tape) -> set[int]:
        """Return the indices of the nodes that were passed, but for the leaves."""
        if self._inner is None:
            zeros = dict.fromkeys(np.flatnonzero(np.frombuffer(self._zeros(tape), np.uint8)).tolist(), PASSED)
            assert isinstance(self._adjoints, list)
            left = zeros | {k: flow for k, flow in enumerate(self._adjoints) if flow is not None}
            inner = left.keys() - {offset // STRIDE for offset in tape.leaves}
            # Side by side, so that no interrupt comes between them.
            self._adjoints, self._inner = left, inner
        return self._inner

    def _zeros(self, tape: Tape) -> bytearray:
        if self._passed is None:
            assert isinstance(self._adjoints, list)
            self._passed = reached(tape, self._adjoints)
        return self._passed


def _unpack(row: tuple[Any, ...], tape: Tape) -> Extra:
    y, p, q, a, b, code = row
    if a == EXTRA:
        # An interrupt came between this row and its entry: no value refers to it.
        return SPENT
    op = TABLE.by_code()[code]
    pairs = [(a, p), (b, q)][: len(op.inputs)]
    sources = tuple([source if source >= LITERAL else BLOCKED - source for source, _ in pairs])
    xs = tuple(
        [
            np.float64(number if source == LITERAL else tape.value_at(source))
            for source, (_, number) in zip(sources, pairs, strict=True)
        ]
    )
    return Extra(op, sources, xs, np.float64(y), usual_mode(op, sources))


def mode_of(op: Op, sources: Sequence[int]) -> int:
    """Return how a node that is recorded now treats its kinks: by the convention that its thread or task has chosen."""
    if not op.kinks:
        return 0
    mode = usual_mode(op, sources)
    chosen = chosen_convention()
    return switched(mode, chosen) if chosen and has_kinks(op) else mode


def usual_mode(op: Op, sources: Sequence[int]) -> int:
    """Return how a node treats its kinks by the usual convention, as every packed row does: literals are constants."""
    if not op.kinks or len(sources) == 1 or min(sources) > LITERAL:
        return 0
    return encode(Convention.MIN_NORM, [slot for slot, source in enumerate(sources) if source == LITERAL])


def pull_back(
    tape: Tape, seeds: Sequence[tuple[int, Any]], start: int = 0, *, keep: bool = True, spend: bool = False
) -> list[Any]:
    """Run the reverse sweep on numbers from seeded nodes back to an offset; returns one gradient per node from there.

    This is `passes.reverse` with the slopes taken from the rows: the same products, added in the same order. Unless
    they are to be kept, gradients of inner arrays are dropped once they were passed on; so is what the nodes kept, if
    the recording is spent with this sweep.
    """
    stop = max([offset for offset, _ in seeds]) + STRIDE
    adjoints: list[Any] = [None] * ((stop - start) // STRIDE)
    for offset, seed in seeds:
        node = (offset - start) // STRIDE
        adjoints[node] = plus(adjoints[node], seed)
    if len(tape.extras) * STRIDE == len(tape.buffer) and not tape.hooks:
        _pull_extras(tape.extras, adjoints, start, keep=keep, spend=spend)
        return adjoints
    below = len(adjoints)
    columns = _columns(tape, start, stop)
    for offset in sorted(tape.hooks, reverse=True):
        if start <= offset < stop:
            hooked = (offset - start) // STRIDE
            _pull_rows(tape, columns, adjoints, start, hooked + 1, below)
            for hook in tape.hooks[offset]:
                adjoints[hooked] = hook(adjoints[hooked])
            below = hooked + 1
    _pull_rows(tape, columns, adjoints, start, 0, below)
    return adjoints


def _pull_extras(extras: dict[int, Extra], adjoints: list[Any], start: int, *, keep: bool, spend: bool) -> None:
    """Pass on the gradients of nodes none of which is a packed row."""
    for node in range(len(adjoints) - 1, -1, -1):
        g = adjoints[node]
        if g is not None:
            extra = extras[start + node * STRIDE]
            if extra.sources:
                if not keep:
                    adjoints[node] = None
                if spend:
                    # Memory that is free early is memory that need not be asked for.
                    extras[start + node * STRIDE] = SPENT
                _pull_extra(extra, g, adjoints, start)


def _columns(tape: Tape, start: int, stop: int) -> Any:
    # A copy: a view would keep the buffer from growing.
    return np.frombuffer(memoryview(tape.buffer)[start:stop], COLUMNS).copy()


def _pull_rows(tape: Tape, columns: Any, adjoints: list[Any], start: int, low: int, high: int) -> None:
    """Pass on the gradients of the nodes from `high` (not included) down to `low`."""
    part = columns[low:high][::-1]
    first = _relative(part["a"], start)
    second = _relative(part["b"], start)
    ahead = reversed(adjoints) if high == len(adjoints) else _backwards(adjoints, high)
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
        elif a == OTHER:
            extra = tape.extras.get(start + node * STRIDE)
            if extra is not None:
                _pull_extra(extra, g, adjoints, start)


OTHER = -1
"""Stands in a column of sources for what is no node of the sweep: a literal, a blocked wire, or an `Extra`."""


def _relative(offsets: Any, start: int) -> list[int]:
    """Return offsets as nodes of a sweep; everything outside it is `OTHER`."""
    # A negative offset stays negative when it is divided; one before the start becomes so.
    nodes = offsets // STRIDE if not start else (offsets - start) // STRIDE
    found: list[int] = np.maximum(nodes, OTHER).tolist()
    return found


def _backwards(items: list[Any], high: int) -> Iterator[Any]:
    for k in range(high - 1, -1, -1):
        yield items[k]


def reached(tape: Tape, adjoints: list[Any]) -> bytearray:
    """Return 1 for each node that a sweep came past without leaving a gradient there: its zero is one by structure."""
    found = bytearray(len(adjoints))
    stack = list[int]()
    columns = _columns(tape, 0, len(adjoints) * STRIDE)
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
        if not found[node] and adjoints[node] is None:
            found[node] = 1
            stack.extend(tape.sources_at(offset))
    return found


def _pull_extra(node: Extra, g: Any, adjoints: list[Any], start: int) -> None:
    op, sources, xs, y, mode = node
    for slot in range(len(sources) - 1, -1, -1):
        source = sources[slot]
        if source >= start:
            sent = op.pull(slot, g, xs, y, mode)
            x = xs[slot]
            if type(sent) is not np.ndarray or sent.dtype is not x.dtype:
                sent = fitted(sent, x)
            if sent is not None:
                index = (source - start) // STRIDE
                held = adjoints[index]
                adjoints[index] = sent if held is None else plus(held, sent)


def fitted(flow: Any, x: Any) -> Any:
    """Return a flow with the type of the value it belongs to."""
    if flow is None or (type(x) is not np.float64 and type(x) is not float):
        return fit(flow, x)
    # A flow to a number is one number, and plain: the sweep multiplies it with plain slopes.
    return flow if type(flow) is Masked else float(flow.real if is_complex(flow) else flow)


PAUSES: Setting[None] = Setting("wiregrad_pauses")
"""The blocks in which nothing is recorded (`no_grad`)."""
WATCHES: Setting[Any | None] = Setting("wiregrad_watches", PAUSES.opened)
"""The blocks in which every op is recorded in full, and who sees each one: `(tape, offset, op, xs, y)`, or nobody.

They are noted in `PAUSES.opened` too: while that is empty, scalars take their quick way.
"""
GROUPS: Setting[str] = Setting("wiregrad_groups")
"""The labels of the groups that nodes are recorded in."""
UNCHECKED: Setting[None] = Setting("wiregrad_unchecked")
"""The blocks that check users' own ops themselves, so that these need not at their first call."""


Running: TypeAlias = "tuple[Tape | None, list[Block[None]], On | None]"


class On(Entry):
    """A stretch of code that is recorded on one recording, whatever was paused outside."""

    __slots__ = ("before", "tape")

    def __init__(self, tape: Tape) -> None:
        super().__init__()
        self.tape = tape

    def begin(self, frame: FrameType) -> None:
        """Record on the recording; who asks for `State.tape` ends that once the stretch is over."""
        self.before = STATE.running()
        STATE.innermost, STATE.around, STATE.stretch = self.tape, PAUSES.active(), self


class State(threading.local):
    """What each thread has of its own: the recording of the transform that is running; what the blocks around say.

    A transform runs in one stretch, so that no other task or generator sees its recording unless it is run inside.
    """

    def __init__(self) -> None:
        self.innermost: Tape | None = None
        """As `tape`, but may still be the one of a stretch that is over: for who has values on it anyway."""
        self.around: list[Block[None]] = []
        """The pauses that were active when that transform began, and do not hold inside it."""
        self.stretch: On | None = None
        """The innermost stretch of code that is recorded on one recording."""
        self._latest: weakref.ref[Tape] | None = None

    @property
    def tape(self) -> Tape | None:
        """The recording of the transform that is running."""
        while self.stretch is not None and not self.stretch.is_held:
            self.innermost, self.around, self.stretch = self.stretch.before
        return self.innermost

    def running(self) -> Running:
        """Return what a transform has to put back when it ends."""
        return self.tape, self.around, self.stretch

    @property
    def paused(self) -> bool:
        """Whether nothing is to be recorded."""
        if not PAUSES.opened:
            return False
        if self.tape is None:
            return PAUSES.is_active()
        return any(block not in self.around for block in PAUSES.active())

    @property
    def careful(self) -> bool:
        """Whether every op is to be recorded in full, so that no scalar takes its quick way."""
        return bool(WATCHES.opened) and WATCHES.is_active()

    @property
    def watch(self) -> Any:
        """Who sees every op as it is recorded; None: nobody does."""
        watches = WATCHES.values() if WATCHES.opened else None
        return watches[-1] if watches else None

    @property
    def group(self) -> str:
        """The labels of the groups around, joined by slashes."""
        return "/".join(GROUPS.values())

    @property
    def unchecked(self) -> bool:
        """Whether users' own ops need not check themselves at their first call."""
        return UNCHECKED.is_active()

    def current(self) -> Tape:
        """Return the recording for an op on leaves alone."""
        if self.tape is not None:
            return self.tape
        tape = None if self._latest is None else self._latest()
        if tape is None or len(tape.buffer) > tape.limit:
            tape = Tape(of_transform=False)
            self._latest = weakref.ref(tape)
        return tape

    def on(self, tape: Tape) -> On:
        """Record what runs inside on a recording, whatever was paused outside."""
        return On(tape)

    def turn(self) -> None:
        """Begin a new recording with the next op on leaves."""
        self._latest = None


STATE = State()


class Span:
    """The nodes of a recording between two offsets, as the sweeps see a circuit: by index, from 0."""

    def __init__(self, tape: Tape, start: int, stop: int, roots: Iterable[int]) -> None:
        self.tape = tape
        self.start = start
        self.size = (stop - start) // STRIDE
        self._nodes = [node for _, node in tape.nodes(start, stop)][::-1]
        self._roots = {self.index(offset) for offset in roots}
        self.literals: dict[int, Any] = {}
        self.read: dict[int, Any] = {}
        """What nodes carried, by offset, as far as the nodes that read them kept it."""
        for node in self._nodes:
            for source, x in zip(node.sources, node.xs, strict=True):
                if source >= 0 and type(x) is not Gone:
                    self.read[source] = x

    def index(self, offset: int) -> int:
        """Return the index of a node."""
        return (offset - self.start) // STRIDE

    def seeded(self, seeds: Sequence[tuple[int, Any]]) -> dict[int, Any]:
        """Return by index what a sweep starts from, given by offset; what is given twice adds up."""
        found: dict[int, Any] = {}
        for offset, seed in seeds:
            index = self.index(offset)
            found[index] = found[index] + seed if index in found else seed
        return found

    def active(self) -> bytearray:
        """Return 1 for each node through which a gradient can reach a root, else 0."""
        found = bytearray(self.size)
        for k, node in enumerate(self._nodes):
            if k in self._roots or any(source >= self.start and found[self.index(source)] for source in node.sources):
                found[k] = getattr(node.y, "dtype", np.dtype(float)).kind in "fc"
        return found

    def rows(self, *, backward: bool = False) -> Iterator[Row]:
        """Walk the nodes; what comes from outside the span has a negative index into `literals`."""
        order = range(self.size - 1, -1, -1) if backward else range(self.size)
        for k in order:
            node = self._nodes[k]
            sources = [
                self.index(source) if source >= self.start else self._outside(source, x)
                for source, x in zip(node.sources, node.xs, strict=True)
            ]
            # A root is where the sweep ends: what it was made from is not this span's business.
            yield Row(k, INPUT, [], 0) if k in self._roots else Row(k, node.op, sources, node.mode)

    def _outside(self, source: int, x: Any) -> int:
        number = -1 - len(self.literals)
        self.literals[number] = x if source == LITERAL else (source, x)
        return number
