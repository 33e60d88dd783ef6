"""The content of a picture, before anything has a place or a colour: boxes, wires, and the text on them.

`NodeMasks` says which nodes are drawn as what, `write_caption` writes an op into its box, `Picture` holds boxes and
wires, and `add_splitters` gives every wire one reader. Captions follow from the op record and the names of its
settings; no op is known by its name here.

Names, groups and file names come from users and may hold anything. A value is shown as a `Reading`: a short text, and
the magnitude and sign that the colour scale needs. In and under a box are the sign of its op, and its source
expression as a book would set it; `web/src/layout/signs.ts` does the same.

Invariants: boxes are in an order in which wires only lead forward; a wire is identified by its reader and input slot,
so `x * x` has two; the picture's `note` says what is left out or drawn together. The result of `escape_unprintable` has
no control characters, no marks that change the reading direction and no lone surrogates, so every format can hold it
once its own special characters are escaped. Every value has a reading: what was not computed reads as a dash and never
as 0, a blocked gradient reads `no gradient`, and NaN and infinities are distinguished from numbers.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wiregrad.backends import RunRecord, interpreter
from wiregrad.draw.palette import ABSENT_TONE, NONFINITE_TONE, ColourScale
from wiregrad.dtypes import PythonNumber, WireValue, count_with_noun, format_all_digits, format_real
from wiregrad.frontends.formula import FUNCTION_SPELLINGS, PREFIX_FUNCTIONS
from wiregrad.ir import CONSTANT, INPUT, TABLE, CircuitGraph, Op, Pattern
from wiregrad.ir.op import write_index
from wiregrad.ops.gradient_flow import add_flows, fill_absent

MINUS = "\N{MINUS SIGN}"
TIMES = "\N{MULTIPLICATION SIGN}"
DASH = "\N{EN DASH}"
ELLIPSIS = "…"

_LETTER_WIDTHS = (
    (" .,:;'|!ijl", 30),
    ("(){}/\\ftrI-`", 36),
    ('[]"*^°', 42),
    ("Jcksvxyz", 54),
    ("?_0123456789abdeghnopquL$#", 60),
    ("+<>=~±∂‖→" + MINUS + TIMES + DASH, 62),
    ("FTZ&ABEKPSVXYRCDHNU", 73),
    ("GOQwm", 82),
    ("MW%@", 94),
)
LETTER_ADVANCE: dict[str, int] = {letter: width for letters, width in _LETTER_WIDTHS for letter in letters}
"""Widths of characters in hundredths of the font size, slightly wider than in common sans-serif fonts."""


def escape_unprintable(text: str) -> str:
    """Replace characters that do not print by backslash escapes.

    >>> escape_unprintable("a\\nb\\u202ec")
    'a\\\\nb\\\\u202ec'
    """
    if text.isprintable():
        return text
    return "".join(ch if ch.isprintable() else ch.encode("unicode_escape").decode() for ch in text)


def count_columns(text: str) -> int:
    """Return the width of a text in columns of a terminal.

    >>> count_columns("ab"), count_columns("\\u6570")
    (2, 2)
    """
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(ch) else 1 + (unicodedata.east_asian_width(ch) in "WF") for ch in text)


def measure_text(text: str, size: int = 12, *, bold: bool = False) -> int:
    """Estimate the width of a text at a font size, in pixels, rounded up.

    >>> measure_text("tanh"), measure_text("tanh", bold=True)
    (26, 28)
    """
    hundredths = sum(LETTER_ADVANCE.get(ch) or 100 * count_columns(ch) for ch in text)
    return -(-hundredths * size * (107 if bold else 100) // 10000)


def clip_end(text: str, most: int) -> str:
    """Cut a text to at most `most` columns, with an ellipsis at its end if it was cut.

    >>> clip_end("a rather long name", 9)
    'a rather…'
    """
    if count_columns(text) <= most:
        return text
    letters = []
    room = most - 1
    for ch in text:
        room -= count_columns(ch)
        if room < 0:
            break
        letters.append(ch)
    return "".join(letters).rstrip() + ELLIPSIS


def clip_front(text: str, most: int) -> str:
    """Cut the front of a path, its least specific part, to at most `most` columns.

    >>> clip_front("net/block/layer1", 9)
    '…k/layer1'
    """
    if count_columns(text) <= most:
        return text
    return ELLIPSIS + clip_end(text[::-1], most)[:-1][::-1]


def clip_distinctly(names: Sequence[str], most: int) -> list[str]:
    """Cut names to at most `most` columns such that long ones still differ.

    >>> clip_distinctly(["a_rather_long_1_name", "a_rather_long_2_name", "b"], 11)
    ['…_long_1_n…', '…_long_2_n…', 'b']
    """
    long = [name for name in dict.fromkeys(names) if count_columns(name) > most]
    if len(long) < 2:
        return [clip_front(name, most) for name in names]
    first = len(_shared_prefix(long))
    last = len(_shared_prefix([name[::-1] for name in long]))
    return [_clip_around(name, first, last, most) if count_columns(name) > most else name for name in names]


def _shared_prefix(names: Sequence[str]) -> str:
    """Return the longest common prefix of names: that of the first and the last in sorted order."""
    low = min(names)
    high = max(names)
    return low[: next((k for k, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(map(len, names)))]


def _clip_around(name: str, first: int, last: int, most: int) -> str:
    """Return a name without most of its `first` first and `last` last characters, which it shares with other names.

    The part between them is kept, with as much around it as fits; if not even that part fits, its middle is cut.
    """
    end = max(len(name) - last, first + 1)
    core = name[first:end]
    room = most - 2 - count_columns(core)
    if room < 0:
        half = (most - 1) // 2
        return clip_end(core, most - half) + clip_front(core, half + 1)[1:]
    start = first
    stop = end
    while room > 0 and (start > 0 or stop < len(name)):
        take_front = start > 0 and (stop >= len(name) or first - start < 2 * (stop - end) + 4)
        letter = name[start - 1] if take_front else name[stop]
        room -= count_columns(letter)
        if room >= 0 and take_front:
            start -= 1
        elif room >= 0:
            stop += 1
    return ELLIPSIS * (start > 0) + name[start:stop] + ELLIPSIS * (stop < len(name))


def typeset_text(text: str) -> str:
    """Return a number or an op with typographic signs: a minus, a multiplication cross, a caret for powers.

    >>> typeset_text("-1.5e-7") == chr(0x2212) + "1.5e" + chr(0x2212) + "7"
    True
    """
    return text.replace("-", MINUS).replace("**", "^").replace("*", TIMES)


DEFAULT_DIGITS = 4
"""Number of significant digits in pictures."""
UNIFORM_PREFIX = "all "
"""Precedes the number of an array whose elements are all equal."""


class ReadingState(Enum):
    """What a reading shows."""

    NUMBER = "number"
    NONFINITE = "not finite"
    BLOCKED = "blocked"
    ABSENT = "not computed"


@dataclass(frozen=True, slots=True)
class Reading:
    """A value as it is shown: `size` is the number, or the norm of an array (negative if all elements are)."""

    text: str
    size: float = 0.0
    signed: bool = True
    """Whether it has a sign: a real number, or an array without elements of both signs."""
    state: ReadingState = ReadingState.NUMBER
    shape: str = ""
    """The shape of an array, which the text begins with."""

    @property
    def bare_text(self) -> str:
        """The text without the shape."""
        return self.text[len(self.shape) :].lstrip() if self.shape else self.text

    @property
    def uniform_text(self) -> str:
        """The text of the number that all elements are equal to; empty if they differ."""
        text = self.bare_text
        is_uniform = self.state is ReadingState.NUMBER and "‖" not in text
        return text.removeprefix(UNIFORM_PREFIX) if is_uniform else ""

    def describe_gradient(self, role: str = "gradient") -> str:
        """Return the reading of a gradient with what it is: `gradient 10`, or `no gradient`.

        >>> read_value(10.0).describe_gradient(), BLOCKED_READING.describe_gradient()
        ('gradient 10', 'no gradient')
        """
        return self.text if self.state is ReadingState.BLOCKED else f"{role} {self.text}"

    def tone_on(self, scale: ColourScale) -> str:
        """Return its tone on a colour scale."""
        if self.state is ReadingState.NUMBER:
            return scale.tone_of(self.size, signed=self.signed)
        return NONFINITE_TONE if self.state is ReadingState.NONFINITE else ABSENT_TONE


NO_GRADIENT = "no gradient"
"""What is said where no gradient can come."""
BLOCKED_READING = Reading(NO_GRADIENT, state=ReadingState.BLOCKED)
ABSENT_READING = Reading(DASH, state=ReadingState.ABSENT)


def read_value(value: WireValue | PythonNumber | None, digits: int = DEFAULT_DIGITS) -> Reading:
    """Return the reading of a value: a number, a bool, an array, or None for what was not computed.

    >>> read_value(-0.19661193).text, read_value(np.ones(3)).text, read_value(float("nan")).text
    ('-0.1966', '[3] all 1', 'NaN')
    >>> read_value(np.array([-3.0, -4.0])).text, read_value(np.array([3.0, -4.0])).text
    ('[2] -‖5‖', '[2] ‖5‖')
    """
    if value is None:
        return ABSENT_READING
    if isinstance(value, np.ndarray) and value.shape:
        return _read_array(value, digits)
    number: PythonNumber = value.item() if isinstance(value, np.ndarray | np.generic) else value
    if isinstance(number, bool):
        return Reading("true" if number else "false", float(number))
    if isinstance(number, complex):
        return _read_complex(number, digits)
    return _read_real(number, digits)


def _read_real(value: float, digits: int) -> Reading:
    try:
        size = float(value)
    except OverflowError:
        size = math.inf
    state = ReadingState.NUMBER if math.isfinite(size) else ReadingState.NONFINITE
    return Reading(format_real(size, digits), size, state=state)


def _read_complex(value: complex, digits: int) -> Reading:
    if not (math.isfinite(value.real) and math.isfinite(value.imag)):
        has_nan = math.isnan(value.real) or math.isnan(value.imag)
        return Reading("NaN" if has_nan else "Inf", math.nan, state=ReadingState.NONFINITE)
    imaginary = format_real(float(value.imag), digits)
    sign = "" if imaginary.startswith("-") else "+"
    text = f"{format_real(float(value.real), digits)}{sign}{imaginary}i"
    return Reading(text, min(math.hypot(value.real, value.imag), 1.7e308), signed=False)


def _read_array(value: NDArray[Any], digits: int) -> Reading:
    shape = format_shape(value.shape)
    kind = value.dtype.kind
    if not value.size:
        return Reading(f"{shape} empty", 0.0, shape=shape)
    if kind not in "fciub":
        return Reading(f"{shape} {value.dtype}", 0.0, shape=shape)
    if kind == "b":
        return Reading(f"{shape} {int(value.sum()):,} true", float(value.sum()), signed=False, shape=shape)
    nans, infs = count_nonfinite(value)
    if nans or infs:
        return Reading(f"{shape} {format_nonfinite(nans, infs)}", math.nan, state=ReadingState.NONFINITE, shape=shape)
    size = finite_norm(value)
    signed = kind != "c" and bool(value.min() >= 0 or value.max() <= 0)
    negative = signed and bool(value.max() <= 0) and size > 0
    text = f"{shape} {_write_contents(value, '-' if negative else '', size, digits)}"
    return Reading(text, -size if negative else size, signed=signed, shape=shape)


def _write_contents(value: NDArray[Any], sign: str, size: float, digits: int) -> str:
    """Write the content of an array: its number if all elements are equal, else its norm with a sign."""
    first = value.flat[0]
    if bool((value == first).all()):
        return f"{UNIFORM_PREFIX if value.size > 1 else ''}{read_value(first, digits).text}"
    return f"{sign}‖{format_real(float(size), digits)}‖"


def format_shape(shape: Sequence[int]) -> str:
    """Write the shape of an array.

    >>> format_shape((2, 3)) == f"[2{TIMES}3]"
    True
    """
    return f"[{TIMES.join(map(str, shape))}]"


def count_nonfinite(value: ArrayLike) -> tuple[int, int]:
    """Count the elements of a value that are NaN and those that are infinite.

    >>> count_nonfinite(np.array([np.nan, -np.inf, np.inf, 1.0])), count_nonfinite(True)
    ((1, 2), (0, 0))
    """
    array = np.asarray(value)
    if array.dtype.kind not in "fc":
        return 0, 0
    bad = int(array.size - np.isfinite(array).sum())
    nans = int(np.isnan(array).sum()) if bad else 0
    return nans, bad - nans


def format_nonfinite(nans: int, infs: int) -> str:
    """Write how many numbers are NaN and how many are infinite.

    >>> format_nonfinite(2, 1)
    '2 NaN, 1 Inf'
    """
    return ", ".join(f"{number:,} {word}" for number, word in ((nans, "NaN"), (infs, "Inf")) if number)


def finite_norm(value: ArrayLike) -> float:
    """Return the Euclidean norm of the finite elements of a value, without intermediate overflow.

    >>> finite_norm(np.array([0.0, -4e200]))
    4e+200
    """
    sizes = np.abs(np.asarray(value)).astype(np.float64)
    return min(interpreter.euclidean_norm(sizes[np.isfinite(sizes)]), 1.7e308)


def format_in_full(value: WireValue | PythonNumber | None) -> str:
    """Write a value as a tooltip shows it: with all digits, in at most 120 columns.

    >>> format_in_full(np.array([1.0, 2.5]))
    '[1, 2.5]'
    """
    if value is None:
        return DASH
    return clip_end(escape_unprintable(format_all_digits(value)), 120)


MAX_OP_COLUMNS = 20
"""Maximum width of an op in columns."""
MAX_CAPTION_COLUMNS = 16
"""Maximum width of a caption in columns."""
MAX_NAME_COLUMNS = 18
"""Maximum width of a name in columns."""
DIVIDE = "\N{DIVISION SIGN}"
DOT = "\N{MIDDLE DOT}"
FUNCTION_SIGNS = {name: sign for sign, name in {**FUNCTION_SPELLINGS, **PREFIX_FUNCTIONS}.items() if len(sign) == 1}
"""Functions that formulas may write as one sign, and the sign."""

_INFIX = re.compile(r"(\S*) ([^\s,]+) (\S*)")
_MATH_PART = re.compile(r"([^\W\d_](?:[^\W\d]|\.)*)(\d*)|[\W\d_]+")


def write_sign(text: str) -> str:
    """Return an op as its box shows it.

    >>> write_sign("2 / ·"), write_sign("· ** 2"), write_sign("tanh"), write_sign("*") == TIMES, write_sign("sqrt")
    ('2÷', '^2', 'tanh', True, '√')
    >>> write_sign("where(·, ·, 0)")
    'where(·, ·, 0)'
    """
    if text in FUNCTION_SIGNS:
        return FUNCTION_SIGNS[text]
    infix = _INFIX.fullmatch(text)
    bare = "".join(infix.groups()).replace(DOT, "", 1) if infix and DOT in text else text
    typeset = bare.replace("-", MINUS).replace("**", "^").replace("*", TIMES)
    is_sign = not re.search(r"[A-Za-z]", bare)
    return clip_end(typeset.replace("/", DIVIDE) if is_sign else typeset, MAX_OP_COLUMNS)


def is_word(sign: str) -> bool:
    """Return whether an op is written as a word: it then has a wider box and smaller letters.

    >>> is_word("2÷"), is_word("tanh")
    (False, True)
    """
    return len(sign) > 2


def typeset_caption(text: str) -> str:
    """Return a source expression with typographic signs.

    >>> typeset_caption("x1 * w1 + b ** 2")
    'x1·w1 + b^2'
    """
    return text.replace(" ** ", "^").replace("**", "^").replace(" * ", DOT).replace("*", DOT).replace("-", MINUS)


def shorten_caption(text: str) -> str:
    """Return a caption cut to the room that it has."""
    return clip_end(typeset_caption(text), MAX_CAPTION_COLUMNS)


def shorten_name(name: str, most: int = MAX_NAME_COLUMNS) -> str:
    """Return a name cut to the room that it has; of a path the end says most.

    >>> shorten_name("net.layers[2].neurons[1].w", 12)
    '…eurons[1].w'
    """
    return clip_front(name, most) if "." in name or "/" in name else clip_end(name, most)


class MathLook(Enum):
    """How a part of an expression is set."""

    ITALIC = "italic"
    UPRIGHT = "upright"
    SUBSCRIPT = "subscript"


@dataclass(frozen=True, slots=True)
class MathPart:
    """A part of an expression: a name of one letter is italic, the digits behind it are a subscript."""

    text: str
    look: MathLook


def split_math(text: str) -> list[MathPart]:
    """Return the parts of an expression or a name as a book would set them.

    >>> [(part.text, part.look.value) for part in split_math("tanh(x1)")]
    [('tanh', 'upright'), ('(', 'upright'), ('x', 'italic'), ('1', 'subscript'), (')', 'upright')]
    """
    parts: list[MathPart] = []
    for found in _MATH_PART.finditer(text):
        letters, digits = found.groups()
        if letters is None or len(letters) > 1:
            parts.append(MathPart(found[0], MathLook.UPRIGHT))
            continue
        parts.append(MathPart(letters, MathLook.ITALIC))
        if digits:
            parts.append(MathPart(digits, MathLook.SUBSCRIPT))
    return parts


@dataclass(frozen=True, slots=True)
class NodeMasks:
    """Masks over the nodes of a circuit: how each of them is drawn."""

    leaves: NDArray[np.bool_]
    """Inputs, and constants that have a name."""
    folded: NDArray[np.bool_]
    """Constants without a name, and reshaped copies of them; they are written inside their readers."""
    splitters: NDArray[np.bool_]
    inner: NDArray[np.bool_]
    """Function nodes."""

    @classmethod
    def from_circuit(cls, circuit: CircuitGraph) -> NodeMasks:
        """Return the masks of a circuit."""
        codes = circuit.columns.codes
        named = np.zeros(circuit.size, bool)
        named[circuit.columns.names.nodes] = True
        named[circuit.columns.outputs] = True
        constants = codes == TABLE.code_of(CONSTANT)
        leaves = (codes == TABLE.code_of(INPUT)) | (constants & named)
        splitters = np.array([op.pattern is Pattern.MERGE for op in TABLE.by_code()])[codes]
        folded = _add_reshaped_constants(circuit, constants & ~named, ~named)
        return cls(leaves, folded, splitters, ~(leaves | constants | splitters | folded))


def _add_reshaped_constants(
    circuit: CircuitGraph, folded: NDArray[np.bool_], nameless: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Add the nodes that only move the elements of a folded constant, such as a reshape, to the mask."""
    c = circuit.columns
    ops = TABLE.by_code()
    moves = np.array([bool(getattr(op, "moves", False)) and len(op.inputs) == 1 and not op.variadic for op in ops])
    mask = folded.copy()
    for node in np.flatnonzero(moves[c.codes] & nameless).tolist():
        mask[node] = mask[c.sources[c.starts[node]]]
    return mask


WIRE_SIGN = "·"
"""Stands for an input that is a wire, beside inputs that are written as constants."""
MAX_SETTING_COLUMNS = 24
"""Maximum width of a setting in columns."""


def write_caption(op: Op, inside: Sequence[str], *, rank: int = -1, shapes: bool = True) -> str:
    """Write an op; `inside` has a text for every input that is written in the caption, and "" for wires.

    `rank` is the number of axes of the first input; `shapes` says whether the shape of the result is written.

    >>> from wiregrad import ops
    >>> write_caption(ops.multiply, ["2", ""]), write_caption(ops.tanh, [""])
    ('2 * ·', 'tanh')
    """
    index = op.options.get("index")
    if isinstance(index, tuple):
        return f"{inside[0] or WIRE_SIGN}[{clip_end(write_index(index), MAX_SETTING_COLUMNS)}]"
    settings = " ".join(_write_settings(op, rank, shapes))
    bare = replace(op, settings=()) if op.settings and not op.per_call else op
    if any(inside):
        name = str(bare.expression(*(text or WIRE_SIGN for text in inside)))
    else:
        name = op.infix[0] if op.infix else op.prefix or op.title
    return f"{name} {settings}".rstrip()


def _write_settings(op: Op, rank: int, shapes: bool) -> Iterator[str]:
    """Write what distinguishes a node from others of its op: axes, shape, and every setting that is set."""
    options = {} if op.per_call else op.options
    for name, value in options.items():
        if name in ("axis", "axes"):
            # A reduction over all axes is the default and is not written.
            if not ("keepdims" in options and isinstance(value, tuple) and len(value) == rank):
                yield _write_axes(value)
        elif name == "shape":
            if shapes and isinstance(value, tuple):
                yield format_shape(value)
        elif value is True and name != "keepdims":
            yield name
        elif name not in ("rank", "keepdims") and value not in (None, False):
            yield clip_end(f"{name}={value}", MAX_SETTING_COLUMNS)


def _write_axes(value: object) -> str:
    axes = value if isinstance(value, tuple) else (value,)
    return f"{'axis' if len(axes) == 1 else 'axes'} {', '.join(map(str, axes))}"


class BoxKind(Enum):
    """What a box stands for."""

    INPUT = "input"
    CONSTANT = "constant"
    NODE = "node"
    SPLIT = "splitter"
    GROUP = "group"


@dataclass(frozen=True, slots=True)
class Box:
    """One box of a picture: a leaf, a function node, a splitter or a group."""

    kind: BoxKind
    name: str
    """Its name; empty for a node without one."""
    text: str
    """Its op, or the number of nodes of a group."""
    label: str
    """Its name, or what stands for it in sentences if it has none."""
    node: int
    """The first node it stands for."""
    nodes: int = 1
    group: str = ""
    """The path of the group around it."""
    facts: tuple[str, ...] = ()
    """The lines of its tooltip."""
    value: Reading | None = None
    grad: Reading | None = None
    outputs: tuple[str, ...] = ()
    """The outputs of the circuit that it is."""
    bad: int = 0
    """The number of its values and gradients that are not finite."""
    kink: str = ""
    """The convention that a node on a kink follows; empty for all others."""
    path: str = ""
    """The group that a box of several nodes stands for, or is a piece of; empty if it holds several groups or none."""
    members: tuple[int, ...] = field(default=(), compare=False, repr=False)
    """The nodes of such a box, without inputs that are drawn inside it."""
    caption: str = ""
    """The text under it: its name, or its source expression where the name is elsewhere."""
    shape: str = ""
    """The shape of its array without brackets; empty for a number."""

    @property
    def is_leaf(self) -> bool:
        """Whether it is an input or a constant, which read nothing."""
        return self.kind in (BoxKind.INPUT, BoxKind.CONSTANT)


def write_number_rows(box: Box) -> list[str]:
    """Return the numbers of a box as lines of text: its value, its gradient, and how many are not finite.

    >>> write_number_rows(Box(BoxKind.NODE, "e", "+", "e", 2, value=read_value(1.0), grad=read_value(10.0)))
    ['value 1', 'gradient 10']
    """
    rows = [] if box.value is None else [f"value {typeset_text(box.value.text)}"]
    rows += [] if box.grad is None else [typeset_text(box.grad.describe_gradient())]
    return rows + ([f"{box.bad:,} not finite"] if box.kind is BoxKind.GROUP and box.bad else [])


@dataclass(frozen=True, slots=True)
class PictureLink:
    """A wire from box to box; where it ends at a group, it may stand for several `wires`."""

    source: int
    target: int
    reader: int
    slot: int
    input: str
    local: Reading | None = None
    sent: Reading | None = None
    wires: int = 1
    pill: bool = False
    """Whether a local derivative is written at its port: one number that is not always 1."""
    shape: str = ""
    """The shape of the array it carries; empty for a number."""


@dataclass(frozen=True, slots=True)
class Picture:
    """The boxes and wires that are drawn of a circuit, and of a run if there is one."""

    title: str
    about: str
    boxes: tuple[Box, ...]
    links: tuple[PictureLink, ...]
    note: str = ""
    ran: bool = False

    def gradient_scale(self) -> ColourScale:
        """Return the colour scale of its gradients."""
        readings = [*(box.grad for box in self.boxes), *(link.sent for link in self.links)]
        return ColourScale.from_magnitudes(r.size for r in readings if r is not None and r.state is ReadingState.NUMBER)

    def open_groups(self) -> tuple[str, ...]:
        """Return the paths of the groups that are open, outer ones first, in the order of their first box."""
        paths: dict[str, None] = {}
        for box in self.boxes:
            parts = [*filter(None, box.group.split("/"))]
            paths.update(dict.fromkeys("/".join(parts[: k + 1]) for k in range(len(parts))))
        return tuple(sorted(paths, key=lambda path: path.count("/")))


def drop_lone_groups(boxes: Sequence[Box]) -> tuple[Box, ...]:
    """Move each box out of groups in which it is the only box: a frame around one box says nothing."""
    inside: dict[str, int] = {}
    for box in boxes:
        parts = [*filter(None, box.group.split("/"))]
        for k in range(len(parts)):
            path = "/".join(parts[: k + 1])
            inside[path] = inside.get(path, 0) + 1
    moved = []
    for box in boxes:
        path = box.group
        while path and inside[path] == 1:
            path = path.rpartition("/")[0]
        moved.append(box if path == box.group else replace(box, group=path))
    return tuple(moved)


MIN_MERGED_SPLITTERS = 5
"""A value that needs this many splitters or more is drawn with one dot for all of them."""


def add_splitters(drawn: Picture, run: RunRecord | None, digits: int) -> Picture:
    """Add splitters behind every box that has several readers, outputs included."""
    return _SplitterBuilder(drawn, run, digits).rebuild_picture()


class _SplitterBuilder:
    """Collects the new boxes and wires; `place` is the new number of each old box."""

    def __init__(self, drawn: Picture, run: RunRecord | None, digits: int) -> None:
        self.drawn = drawn
        self.run = run
        self.digits = digits
        self.leaving: list[list[int]] = [[] for _ in drawn.boxes]
        for k, link in enumerate(drawn.links):
            self.leaving[link.source].append(k)
        self.boxes: list[Box] = []
        self.place: list[int] = []
        self.added: list[PictureLink] = []
        self.start = [link.source for link in drawn.links]

    def rebuild_picture(self) -> Picture:
        """Return the picture with splitters wherever they are needed."""
        for k, box in enumerate(self.drawn.boxes):
            self.place.append(len(self.boxes))
            self.boxes.append(box)
            for wire in self.leaving[k]:
                self.start[wire] = len(self.boxes) - 1
            # A splitter that is a node of the circuit has two branches already, of which the first stays.
            first_branches = 1 if box.kind is BoxKind.SPLIT else 0
            readers = self.leaving[k][first_branches:]
            if len(readers) + len(box.outputs) > 1:
                self._add_chain(box, readers)
        renumbered = [
            replace(link, source=start, target=self.place[link.target])
            for link, start in zip(self.drawn.links, self.start, strict=True)
        ]
        links = sorted([*renumbered, *self.added], key=lambda link: (link.target, link.slot))
        return replace(self.drawn, boxes=tuple(self.boxes), links=tuple(links))

    def _add_chain(self, box: Box, readers: Sequence[int]) -> None:
        """Add a chain of splitters behind a box, from which its wires leave."""
        needed = len(readers) + len(box.outputs) - 1
        self.boxes[-1] = replace(box, outputs=())
        many = needed >= MIN_MERGED_SPLITTERS
        for step in range(1 if many else needed):
            sent = self._sum_gradients(box, readers[step:])
            ends = (len(self.boxes) - 1, len(self.boxes), box.node, -1 - step)
            self.added.append(PictureLink(*ends, "", None, sent, shape=box.shape))
            self.boxes.append(_make_splitter_box(box, needed if many else 1, sent))
            for wire in readers[step:]:
                self.start[wire] = len(self.boxes) - 1
        self.boxes[-1] = replace(self.boxes[-1], outputs=box.outputs)

    def _sum_gradients(self, box: Box, readers: Sequence[int]) -> Reading | None:
        """Return the gradient that arrives at a splitter: the sum over its branches."""
        if self.run is None or box.grad is None or box.grad.state is ReadingState.ABSENT:
            return box.grad
        starts = self.run.circuit.columns.starts
        links = [self.drawn.links[wire] for wire in readers]
        flows = [self.run.sent[int(starts[link.reader]) + link.slot] for link in links]
        total = 1.0 if box.outputs else None
        with np.errstate(all="ignore"):
            for flow in reversed(flows):
                total = add_flows(total, flow)
        return BLOCKED_READING if total is None else read_value(fill_absent(total), self.digits)


def _make_splitter_box(box: Box, needed: int, sent: Reading | None) -> Box:
    sum_of = () if sent is None else (sent.describe_gradient("gradients that come back add up to"),)
    return Box(
        kind=BoxKind.SPLIT,
        name="",
        text=count_with_noun(needed, "splitter"),
        label=f"{box.label} split",
        node=box.node,
        nodes=needed,
        group=box.group,
        facts=(f"{count_with_noun(needed, 'splitter')} of {box.label}", *sum_of),
        value=box.value,
        grad=sent,
        shape=box.shape,
    )
