"""What nodes are called where people read about them: in answers, pictures, steps and messages.

A node with a name goes by it, unless a formula numbered it (`t3`). Any other goes by the text of the user's code that
it is the result of, as `np.sum(gap**2)`; by what it computes, as `x * w`, if it has no such text; and if that would be
long by its op and line, as `sum (model.py:12)`. Titles are for reading: two nodes may have the same one. Nodes are
looked up by name, or by `%` and their index.
"""

from __future__ import annotations

import re
from functools import lru_cache

import numpy as np

from wiregrad.dtypes import PythonNumber, WireValue, to_python_number
from wiregrad.ir.columns import IndexedGraph
from wiregrad.ir.op import Op, Pattern

MAX_TITLE_WIDTH = 48
"""Maximum number of characters of a title; of longer ones the middle is left out."""
MAX_OPERAND_WIDTH = 32
"""Maximum number of characters of a title inside an expression."""
MAX_TITLE_DEPTH = 2
"""Maximum number of nodes inside one another in a title that is written from ops."""
MAX_TITLE_OPERANDS = 4
ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"
ATOM_LEVEL = 9
FORMULA_FILE = "formula"
"""The file name in source locations inside a formula."""
_NUMBERED_NAME = re.compile(r"t[1-9]\d*")
"""The names that formulas give to the nodes that their writer did not name."""
_OPERATOR_LEVELS = (
    (0, re.compile(r"\b(?:if|else|and|or|not|in|is|lambda|for)\b|[<>=!]=?|:=|,")),
    (1, re.compile(r"[|^&]|<<|>>")),
    (2, re.compile(r"(?<=[\w)\]}.…])\s*[+-]")),
    (3, re.compile(r"(?<!\*)\*(?!\*)|/|%|@")),
    (4, re.compile(r"^[-+~]")),
    (5, re.compile(r"\*\*")),
)
_BRACKETED = re.compile(r"\([^()\[\]{}]*\)|\[[^()\[\]{}]*\]|\{[^()\[\]{}]*\}")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_EXPONENT = re.compile(r"(?<=[\d.])e[+-]\d+")


class NodeReference(str):
    """The name by which a node without one is looked up, `%3`; printed, it is the title of the node.

    >>> name = NodeReference("%3", "x * w")
    >>> name == "%3", f"{name} is 2"
    (True, 'x * w is 2')
    """

    __slots__ = ("shown",)

    shown: str

    def __new__(cls, name: str, title: str) -> NodeReference:
        """Make one from the name and the title."""
        reference = super().__new__(cls, name)
        reference.shown = title
        return reference

    def __str__(self) -> str:
        return self.shown

    def __format__(self, spec: str) -> str:
        return format(self.shown, spec)

    def __reduce__(self) -> tuple[type[NodeReference], tuple[str, str]]:
        return NodeReference, (self[:], self.shown)


def shorten_middle(text: str, width: int = MAX_TITLE_WIDTH) -> str:
    """Leave out the middle of a text that is too long.

    >>> shorten_middle("np.sum((x - y) ** 2)", 12)
    'np.su… ** 2)'
    """
    if len(text) <= width:
        return text
    head = (width - 1) // 2
    return text[:head] + ELLIPSIS + text[head + 1 - width :]


@lru_cache(65536)
def binding_level(text: str) -> int:
    """Return how tightly the outermost operator of an expression binds; 9 if it has none.

    >>> binding_level("a + b * c"), binding_level("-x"), binding_level("f(a + b)[0]"), binding_level("1e-05")
    (2, 4, 9, 9)
    """
    flat = _EXPONENT.sub("", _QUOTED.sub("''", text))
    while (reduced := _BRACKETED.sub("_", flat)) != flat:
        flat = reduced
    return next((level for level, pattern in _OPERATOR_LEVELS if pattern.search(flat.strip())), ATOM_LEVEL)


@lru_cache(1024)
def _infix_level(spelling: str) -> int:
    return binding_level(f"a {spelling} b")


def write_expression(op: Op, operands: list[str]) -> str:
    """Write an op applied to operands that may be expressions: with parentheses where they are needed.

    >>> from wiregrad import ops
    >>> write_expression(ops.multiply, ["a + b", "c"]), write_expression(ops.tanh, ["a + b"])
    ('(a + b) * c', 'tanh(a + b)')
    """
    if op.infix and len(operands) == 2:
        level = _infix_level(op.infix[0])
        tight = [level + (level == 5), level + 1]
        operands = [
            f"({text})" if binding_level(text) < least else text for text, least in zip(operands, tight, strict=True)
        ]
    elif op.prefix or isinstance(op.options.get("index"), tuple):
        least = 4 if op.prefix else ATOM_LEVEL
        operands = [f"({text})" if binding_level(text) < least else text for text in operands]
    return op.expression(*operands)


def write_title(circuit: IndexedGraph, node: int, width: int = MAX_TITLE_WIDTH) -> str:
    """Return what a node is called in sentences and pictures.

    >>> import wiregrad as wg
    >>> c = wg.Circuit.from_text("input x, w\\n%2 = multiply x w\\n%3 = tanh %2\\ny = negative %3\\noutput y")
    >>> [write_title(c, node) for node in range(c.size)]
    ['x', 'w', 'x * w', 'tanh(x * w)', 'y']
    """
    return shorten_middle(_write(circuit, node, MAX_TITLE_DEPTH), width)


def find_given_name(circuit: IndexedGraph, node: int) -> str | None:
    """Return the first name that somebody gave to a node; None if it has none, or only the number of a formula.

    >>> import wiregrad as wg
    >>> c = wg.circuit("e = a + b; (e - 1) * c")
    >>> [find_given_name(c, node) for node in range(c.size)]
    ['a', 'b', 'c', 'e', None, None, 'f']
    """
    names = circuit.columns.names.names_of(node)
    if not names or not _NUMBERED_NAME.fullmatch(names[0]) or not circuit.sources_of(node):
        return names[0] if names else None
    place = circuit.columns.places.label_of(node)
    return None if place is not None and place.file == FORMULA_FILE else names[0]


def _write(circuit: IndexedGraph, node: int, depth: int) -> str:
    name = find_given_name(circuit, node)
    if name is not None:
        return name
    constant = circuit.constant_of(node)
    if constant is not None:
        return write_constant(constant)
    op = circuit.op_of(node)
    if op.name == "spread":
        # Broadcasting is not written in the user's code.
        return _write(circuit, circuit.sources_of(node)[0], depth)
    source = circuit.columns.expressions.label_of(node)
    if source is not None:
        return source
    if op.pattern is Pattern.MERGE:
        return _write_splitter(circuit, node)
    text = _write_applied(circuit, node, op, depth)
    return text if ELLIPSIS not in text or depth < MAX_TITLE_DEPTH else _write_place(circuit, node, op) or text


def write_constant(constant: WireValue) -> str:
    """Write a constant without a name: its number, or its shape."""
    shape = getattr(constant, "shape", ())
    return f"array of shape {shape}" if shape else repr_number(constant)


def repr_number(value: WireValue | PythonNumber) -> str:
    """Write a number in the shortest way that is read back exactly.

    >>> repr_number(np.float64(0.1)), repr_number(np.bool_(True))
    ('0.1', 'true')
    """
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    return repr(to_python_number(value))


def _write_applied(circuit: IndexedGraph, node: int, op: Op, depth: int) -> str:
    sources = circuit.sources_of(node)
    if len(sources) > MAX_TITLE_OPERANDS:
        sources = sources[: MAX_TITLE_OPERANDS - 1]
    operands = [_write_operand(circuit, source, depth) for source in sources]
    more = [ELLIPSIS] if len(circuit.sources_of(node)) > MAX_TITLE_OPERANDS else []
    if op.settings and not (op.infix or op.prefix or "index" in op.options):
        # Settings would take the room of the operands.
        return f"{op.title}({', '.join(operands + more)})"
    return write_expression(op, operands + more)


def _write_operand(circuit: IndexedGraph, node: int, depth: int) -> str:
    has_text = find_given_name(circuit, node) is not None or circuit.columns.expressions.label_of(node) is not None
    if depth or has_text or not circuit.sources_of(node):
        return shorten_middle(_write(circuit, node, depth - 1 if depth else 0), MAX_OPERAND_WIDTH)
    return ELLIPSIS


def _write_place(circuit: IndexedGraph, node: int, op: Op) -> str:
    place = circuit.columns.places.label_of(node)
    return "" if place is None or place.file == FORMULA_FILE else f"{op.title} ({place.without_folder()})"


def _write_splitter(circuit: IndexedGraph, node: int) -> str:
    """Return the title of a splitter: `x (split)`, `x (split 2)` for the second in a chain."""
    number = 0
    while circuit.op_of(node).pattern is Pattern.MERGE:
        number += 1
        node = circuit.sources_of(node)[0]
    return f"{_write(circuit, node, 1)} (split{f' {number}' if number > 1 else ''})"
