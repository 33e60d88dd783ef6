"""The circuit as users see it: names and titles, views of nodes and wires made on demand, and checks of its arrays.

A title is what a node is called where people read about it: in answers, pictures, steps and messages. A node with a
name goes by it, unless a formula numbered it (`t3`). Any other goes by the text of the user's code that it is the
result of, as `np.sum(gap**2)`; by what it computes, as `x * w`, if it has no such text; and if that would be long by
its op and line, as `sum (model.py:12)`. Titles are for reading: two nodes may have the same one. Nodes are looked up by
name, or by `%` and their index.

At the end are checks of circuits that come from outside, such as from a file: nothing is trusted before it has passed
them. `verify` checks that arrays form a circuit. Before that, while a file or a text is read, the number of nodes and
the settings of ops are checked. Settings are passed to NumPy by name, so only those that the op's own function declares
are accepted, and only numbers, words and short lists of them as values.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Self, TypeAlias, TypeGuard

import numpy as np

from wiregrad.dtypes import PythonNumber, WireType, WireValue, to_python_number
from wiregrad.errors import CircuitError, DuplicateNameError, UnknownNameError, short_repr, suggest_name
from wiregrad.ir.columns import (
    MAX_LITERAL_SLOTS,
    Certificate,
    CircuitColumns,
    Convention,
    IndexedGraph,
    NodeLabels,
    Place,
    automatic_name,
    check_name,
    infer_types,
    is_automatic_name,
    join_first_names,
    normalize_name,
)
from wiregrad.ir.op import CONSTANT_CODE, INPUT_CODE, TABLE, Op, Pattern, count_inputs, is_variadic

SPLIT_NAME = "split"
"""Name of the op that copies one wire to two readers."""


@dataclass(frozen=True, slots=True)
class Wire:
    """One input of one node, identified by its reader and slot: `x * x` has two wires from x."""

    reader: str
    slot: int
    input: str
    source: str


@dataclass(frozen=True, slots=True, repr=False)
class Node:
    """A view of one node of a circuit; the node and its output wire share the name."""

    circuit: CircuitGraph
    index: int

    @property
    def name(self) -> str:
        """The name to show: the first that was given, else `%` and the index."""
        return self.circuit.name_of(self.index)

    @property
    def names(self) -> tuple[str, ...]:
        """All names of the node."""
        return self.circuit.columns.names.names_of(self.index) or (automatic_name(self.index),)

    @property
    def op(self) -> Op:
        """The record of the op that the node applies."""
        return self.circuit.op_of(self.index)

    @property
    def wires(self) -> tuple[Wire, ...]:
        """The input wires, in order."""
        sources = self.circuit.sources_of(self.index)
        return tuple(
            Wire(self.name, slot, self.op.input_name(slot), self.circuit.name_of(source))
            for slot, source in enumerate(sources)
        )

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the nodes that this one reads."""
        return tuple(wire.source for wire in self.wires)

    @property
    def type(self) -> WireType:
        """Dtype and shape of the output wire."""
        return self.circuit.type_of(self.index)

    @property
    def constant(self) -> WireValue | None:
        """The value of a constant node, else None."""
        return self.circuit.constant_of(self.index)

    @property
    def place(self) -> Place | None:
        """Where in the source code the node was written."""
        return self.circuit.columns.places.label_of(self.index)

    @property
    def group(self) -> str:
        """Path of the groups that contain the node, such as `net/layer1`; empty at the top level."""
        return self.circuit.columns.groups.label_of(self.index) or ""

    @property
    def bodies(self) -> tuple[CircuitGraph, ...]:
        """The circuits that a loop or a branch runs; empty for other nodes."""
        return find_bodies(self.op)

    @property
    def body(self) -> CircuitGraph | None:
        """The body of a loop, or the last branch of a choice; None for other nodes."""
        return self.bodies[-1] if self.bodies else None

    @property
    def mode(self) -> int:
        """How the node treats its kinks (see `wiregrad.ir.columns`)."""
        modes = self.circuit.columns.modes
        return 0 if modes is None else int(modes[self.index])

    def expression(self) -> str:
        """Write what the node computes, such as `e * c` or `tanh(n)`."""
        if self.op.pattern is Pattern.SOURCE:
            return self.op.name if self.constant is None else repr_number(self.constant)
        return write_expression(self.op, [*map(self.circuit.operand_text, self.circuit.sources_of(self.index))])

    @property
    def reference(self) -> str:
        """The name by which the node is looked up; printed, it is the title."""
        return self.circuit.reference_to(self.index)

    @property
    def title(self) -> str:
        """What the node is called in sentences and pictures: its name, or the source text that it is the result of."""
        return self.circuit.title_of(self.index)

    def __str__(self) -> str:
        text = self.expression()
        is_told = self.title.replace(" ", "") == text.replace(" ", "")
        return text if is_told and find_given_name(self.circuit, self.index) is None else f"{self.title} = {text}"

    def __repr__(self) -> str:
        return f"Node({self})"


class CircuitGraph(IndexedGraph):
    """A circuit of nodes and wires: inputs on the left, outputs on the right.

    `len(circuit)` counts the function nodes, as `repr` does; inputs, constants and splitters are counted separately.
    """

    __slots__ = ()

    @property
    def name(self) -> str:
        """The circuit's name, by default that of its output."""
        return self.columns.name

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs, in order."""
        return tuple(self.name_of(node) for node in self.input_indices())

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the outputs, in order."""
        return self.columns.labels

    @property
    def output(self) -> str:
        """Name of the only output."""
        self.root()
        return self.columns.labels[0]

    @property
    def certificates(self) -> tuple[Certificate, ...]:
        """The values that steered Python when the circuit was traced: node, outcome and line."""
        return self.columns.certificates

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The function nodes, in topological order."""
        return self._view_nodes(lambda op: op.pattern not in (Pattern.SOURCE, Pattern.MERGE))

    @property
    def splitters(self) -> tuple[Node, ...]:
        """The splitters, in order."""
        return self._view_nodes(lambda op: op.pattern is Pattern.MERGE)

    def _view_nodes(self, keep: Callable[[Op], bool]) -> tuple[Node, ...]:
        is_kept = np.array([keep(op) for op in TABLE.by_code()])[self.columns.codes]
        return tuple(Node(self, node) for node in np.flatnonzero(is_kept).tolist())

    def __len__(self) -> int:
        return self.count()[1]

    def __bool__(self) -> bool:
        # Without this, a circuit without function nodes would be false, since its length is 0.
        return True

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def count(self) -> tuple[int, int, int]:
        """Return the numbers of inputs, function nodes and splitters."""
        counts = np.bincount(self.columns.codes, minlength=len(TABLE.by_code()))
        splitters = int(counts[TABLE.code_of(TABLE[SPLIT_NAME])])
        leaves = int(counts[INPUT_CODE] + counts[CONSTANT_CODE])
        return int(counts[INPUT_CODE]), self.size - leaves - splitters, splitters

    def __getitem__(self, name: str) -> Node:
        return Node(self, self.index(name))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._find_index(name) is not None

    def __repr__(self) -> str:
        inputs, nodes, splitters = self.count()
        parts = [
            count_without_commas(inputs, "input"),
            count_without_commas(nodes, "node"),
            count_without_commas(splitters, "splitter"),
        ]
        return f"Circuit({', '.join(parts)}, output{'s' * (len(self.outputs) != 1)} {join_first_names(self.outputs)})"

    def index(self, name: str) -> int:
        """Return the index of the node with a name; an expression that one node alone computes is its name too.

        >>> from wiregrad.ir import parse_text
        >>> parse_text("input x\\n%1 = tanh x\\ny = exp %1\\noutput y").index("tanh(x)")
        1
        """
        node = self._find_index(name)
        if node is not None:
            return node
        alike = self._find_computing(name)
        if len(alike) == 1:
            return alike[0]
        if alike:
            listed = [self._name_with_line(node) for node in alike]
            raise UnknownNameError(
                f"{len(alike)} nodes compute {short_repr(name)}: name one of them, {join_first_names(listed)}"
            )
        raise UnknownNameError(f"the circuit has no node called {short_repr(name)}{self._suggest_instead(name)}")

    def _name_with_line(self, node: int) -> str:
        place = self.columns.places.label_of(node)
        return self.name_of(node) if place is None else f"{self.name_of(node)} ({place})"

    def _find_computing(self, text: str) -> list[int]:
        """Return the nodes that are printed as an expression or compute it, or the input with such a path."""
        path = self._find_index(_PATH_SEPARATORS.sub("_", text).strip("_")) if text.endswith("]") else None
        wanted = _settle_expression(text)
        computed = [node for node in self._iterate_computed() if wanted in self._list_expressions(node)]
        return computed or ([] if path is None else [path])

    def _iterate_computed(self) -> Iterator[int]:
        """Return the nodes that are looked up by expression; in large circuits there are too many to write."""
        if self.size <= MAX_COMPARED_EXPRESSIONS:
            for node in range(self.size):
                op = self.op_of(node)
                # Copies and broadcasts are printed as what they copy.
                if op.pattern not in (Pattern.SOURCE, Pattern.MERGE) and op.name != "spread":
                    yield node

    def _list_expressions(self, node: int) -> list[str]:
        """Return the expressions that a node is printed as, in one spelling."""
        titles = [] if find_given_name(self, node) is not None else [self.title_of(node)]
        return [_settle_expression(text) for text in (*titles, Node(self, node).expression())]

    def _suggest_instead(self, name: str) -> str:
        """Return a hint for an unknown name: the parts of a container of that name, or the nearest name; the inputs."""
        known = [text for _, text in self.columns.names][:1000]
        parts = [text for text in known if name and text.startswith(f"{name}_")]
        near = f"; did you mean {join_first_names(parts[:3])}?" if parts else suggest_name(name, known)
        inputs = [self.name_of(node) for node in self.input_indices()]
        if not inputs:
            return near
        its = f"{'Its' if near else '; its'} input{'s are' if len(inputs) > 1 else ' is'} {join_first_names(inputs)}"
        return f"{near} {its}" if near else its

    def _find_index(self, name: str) -> int | None:
        if not isinstance(name, str):
            raise UnknownNameError(
                f"nodes are looked up by name, a string; got {short_repr(name)}{_suggest_name_of(name)}"
            )
        if is_automatic_name(name):
            node = int(name[1:])
            return node if node < self.size and not self.columns.names.names_of(node) else None
        name = normalize_name(name)
        node_index = self.columns.names.find_node(name)
        if node_index is None and name in self.columns.labels:
            return int(self.columns.outputs[self.columns.labels.index(name)])
        return node_index

    def with_output(self, name: str) -> Self:
        """Return the same circuit with the named node or output as its only output."""
        node = np.array([self.index(name)], np.int32)
        is_named = name in self and not name.startswith("%")
        label = normalize_name(name) if is_named else "f"
        while not is_named and label in self:
            label += "_"
        return type(self)(replace(self.columns, outputs=node, labels=(label,), name=label))

    def unchecked(self) -> Self:
        """Return the same circuit without its certificates: it takes the branches that were traced at any inputs."""
        return type(self)(replace(self.columns, certificates=()))

    def operand_text(self, node: int) -> str:
        """Return how a node is written inside an expression: its name, or the number if it is an unnamed constant."""
        constant = None if self.columns.names.names_of(node) else self.constant_of(node)
        return write_title(self, node, MAX_OPERAND_WIDTH) if constant is None else repr_number(constant)

    def title_of(self, node: int) -> str:
        """Return what a node is called in sentences and pictures; two nodes may have the same title.

        >>> from wiregrad.ir import parse_text
        >>> parse_text("input x\\n%1 = tanh x\\ny = exp %1\\noutput y").title_of(1)
        'tanh(x)'
        """
        return write_title(self, node)

    def reference_to(self, node: int) -> str:
        """Return the name of a node; one that nobody gave (`%3`, `t3`) reads as the title where it is printed."""
        name = find_given_name(self, node)
        return NodeReference(self.name_of(node), self.title_of(node)) if name is None else name


def find_bodies(op: Op) -> tuple[CircuitGraph, ...]:
    """Return the circuits that an op runs: those that a setting of it holds."""
    held = (getattr(value, "circuits", ()) for _, value in op.settings) if op.per_call else ()
    return tuple([circuit for circuits in held for circuit in circuits])


def count_without_commas(count: int, word: str) -> str:
    """Format a count with its noun, in the plural unless the count is 1; digits without commas.

    >>> count_without_commas(1, "input"), count_without_commas(2, "node")
    ('1 input', '2 nodes')
    """
    return f"{count} {word}{'' if count == 1 else 's'}"


MAX_TITLE_WIDTH = 48
"""Maximum number of characters of a title; of longer ones the middle is left out."""
MAX_OPERAND_WIDTH = 32
"""Maximum number of characters of a title inside an expression."""
MAX_TITLE_DEPTH = 2
"""Maximum number of nodes inside one another in a title that is written from ops."""
MAX_TITLE_OPERANDS = 4
MAX_COMPARED_EXPRESSIONS = 2000
"""In circuits of more nodes, nodes are not looked up by the expressions that they compute."""
ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"
ATOM_LEVEL = 9
FORMULA_FILE = "formula"
"""The file name in source locations inside a formula."""
_WHOLE_FLOAT = re.compile(r"(?<![\w.])(\d+)\.0(?![\w.])")
_PATH_SEPARATORS = re.compile(r"\W+")
"""What stands between the parts of a path like `p['w'][0]`, whose input is called `p_w_0`."""
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


def _settle_expression(text: str) -> str:
    """Return an expression in one of its spellings: without spaces and outer parentheses, `x**2` for `x ^ 2.0`.

    >>> _settle_expression("(a + b)"), _settle_expression("(a + b) * (c - 1.0)"), _settle_expression("x ^ 2")
    ('a+b', '(a+b)*(c-1)', 'x**2')
    """
    text = "".join(text.split()).replace("^", "**")
    text = _WHOLE_FLOAT.sub(r"\1", text)
    while text.startswith("(") and _find_closing(text) == len(text) - 1:
        text = text[1:-1]
    return text


def _find_closing(text: str) -> int:
    """Return where the parenthesis that begins a text is closed; -1 if it is not."""
    depth = 0
    for k, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if not depth:
            return k
    return -1


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


CIRCUIT_MAKERS: list[Callable[[CircuitColumns, dict[str, Any], Collection[str]], CircuitGraph]] = []
"""Makes the circuit that users get of one that was taken from another framework, given the values of its inputs there
and the names of those that are weights of a model; added by the layer of the public classes."""


def _suggest_name_of(thing: object) -> str:
    """Return what to write instead of a value or node that has a name; empty if it has none."""
    name = getattr(thing, "name", None)
    return f"; write its name, {name!r}" if isinstance(name, str) else ""


def verify(circuit: CircuitGraph) -> CircuitGraph:
    """Return the circuit if it is well formed; raise `CircuitError` otherwise."""
    check_arrays(circuit.columns)
    _check_labels(circuit.columns, circuit.columns.places, circuit.columns.groups)
    _check_names(circuit)
    _check_types(circuit)
    return circuit


def check_arrays(columns: CircuitColumns) -> None:
    """Raise `CircuitError` unless the arrays form a circuit; native code relies on no more than this."""
    _check_shape(columns)
    _check_order(columns)
    _check_arity(columns)
    _check_leaves(columns)


def _require(holds: bool | np.bool_, message: str) -> None:
    if not holds:
        raise CircuitError(message)


def _check_shape(c: CircuitColumns) -> None:
    size = len(c.codes)
    _require(len(c.starts) == size + 1, f"{size} nodes need {size + 1} starts; got {len(c.starts)}")
    _require(c.starts[0] == 0 and c.starts[-1] == len(c.sources), "starts must run from 0 to the number of wires")
    _require(np.all(np.diff(c.starts) >= 0), "starts must not decrease")
    _require(len(c.types) == size, f"{size} nodes need {size} types; got {len(c.types)}")
    _require(
        np.all((c.types >= 0) & (c.types < len(c.type_table))),
        "the type of every node must be an index into the type table",
    )
    _require(c.modes is None or len(c.modes) == size, f"{size} nodes need {size} modes")
    if c.modes is not None and np.all(c.codes < len(TABLE.by_code())):
        _require(np.all(c.modes & 3 < len(Convention)), "a mode names a convention that does not exist")
        limits = 4 << np.minimum(TABLE.tabulate(count_inputs), MAX_LITERAL_SLOTS)[c.codes]
        _require(np.all(c.modes < limits), "a mode names an input that does not exist")
    _check_labels(c, c.settings)
    _require(
        size > 0 and np.all((c.codes >= 0) & (c.codes < len(TABLE.by_code()))),
        "every node needs a known op, and a circuit at least one node",
    )


def _check_labels(c: CircuitColumns, *columns: NodeLabels[Any]) -> None:
    """Check labels of nodes; those of a trace are found when they are asked for, so native code does not ask."""
    size = len(c.codes)
    for labels in columns:
        _require(labels.index is None or len(labels.index) == size, f"{size} nodes need {size} labels")
        _require(
            labels.index is None or np.all(labels.index < len(labels.table)),
            "every label must be an index into its table",
        )


def _check_order(c: CircuitColumns) -> None:
    readers = np.repeat(np.arange(len(c.codes)), np.diff(c.starts))
    wrong = np.flatnonzero((c.sources < 0) | (c.sources >= readers))
    if len(wrong):
        k = int(wrong[0])
        raise CircuitError(f"node {readers[k]} reads node {c.sources[k]}, which does not come before it")


def _check_arity(c: CircuitColumns) -> None:
    arities = TABLE.tabulate(count_inputs)[c.codes]
    counts = np.diff(c.starts)
    variadic = TABLE.tabulate(is_variadic)[c.codes]
    wrong = np.flatnonzero((arities != counts) & ~(variadic & (counts > 0)))
    if len(wrong):
        k = int(wrong[0])
        op = TABLE.by_code()[c.codes[k]]
        raise CircuitError(f"node {k} applies {op.name} to {counts[k]} wires; it takes {arities[k]}")


def _check_leaves(c: CircuitColumns) -> None:
    constants = np.flatnonzero(c.codes == CONSTANT_CODE)
    _require(np.array_equal(constants, c.constant_nodes), "constant_nodes must list the constant nodes")
    _require(len(constants) == len(c.constants), f"{len(constants)} constants need as many values")
    _require(len(c.outputs) > 0 and len(c.outputs) == len(c.labels), "a circuit needs an output, each with a label")
    _require(np.all((c.outputs >= 0) & (c.outputs < len(c.codes))), "an output must be one of the nodes")


def _check_names(circuit: CircuitGraph) -> None:
    c = circuit.columns
    for label in (c.name, *c.labels):
        check_name(label)
    _require(
        np.all((c.names.nodes >= 0) & (c.names.nodes < len(c.codes))),
        "a name must belong to one of the nodes",
    )
    if len(set(c.labels)) != len(c.labels):
        raise DuplicateNameError("two outputs have the same label")
    duplicate = c.names.find_duplicate()
    if duplicate is not None:
        raise DuplicateNameError(f"two nodes are called {duplicate}")
    wrong = circuit.misnamed_output()
    _require(wrong is None, f"output {wrong} is not the node called {wrong}")
    unnamed = np.setdiff1d(np.flatnonzero(c.codes == INPUT_CODE), c.names.nodes)
    _require(len(unnamed) == 0, "every input needs a name")


def _check_types(circuit: CircuitGraph) -> None:
    c = circuit.columns
    rows = ((row.op, row.sources) for row in circuit.rows())
    inputs = {node: circuit.type_of(node) for node in circuit.input_indices()}
    types, table = infer_types(rows, inputs, c.constants, circuit.name_of)
    for node, (claimed, inferred) in enumerate(zip(c.types.tolist(), types.tolist(), strict=True)):
        if c.type_table[claimed] != table[inferred]:
            raise CircuitError(f"node {node} states type {c.type_table[claimed]}; its op gives {table[inferred]}")


PlainSetting: TypeAlias = bool | int | float | str | None
FrozenSetting: TypeAlias = PlainSetting | tuple["FrozenSetting", ...]
"""An immutable setting from outside: lists are converted to tuples."""

MAX_NODES = 5_000_000
"""Maximum number of nodes of a circuit from outside."""
MAX_SETTING_ITEMS = 1000
"""Maximum number of items of a setting."""
MAX_SETTING_WORD = 100
"""Maximum length of a word in a setting."""
MAX_SETTING_LEVELS = 4
"""Maximum nesting of the lists in a setting."""


def check_node_count(count: int) -> None:
    """Raise if a circuit from outside has too many nodes."""
    if count > MAX_NODES:
        raise CircuitError(f"the circuit has {count:,} nodes; the limit is {MAX_NODES:,}")


def bind_untrusted(op: Op, settings: Mapping[str, object], circuits: Sequence[CircuitGraph] = ()) -> Op:
    """Bind an op to settings from outside, with lists converted to tuples; raise if the op has no such settings.

    `circuits` are those that a loop or a branch runs.

    >>> from wiregrad.ir import TABLE
    >>> bind_untrusted(TABLE["sum"], {"axes": [-1], "keepdims": False}).settings
    (('axes', (-1,)), ('keepdims', False))
    """
    if op.per_call:
        return op.bind_stored({name: freeze_setting(name, value) for name, value in settings.items()}, circuits)
    if circuits:
        raise CircuitError(f"{op.name} runs no circuits; got {len(circuits)}")
    names, needed = declared_settings(op)
    for name in settings:
        if name not in names:
            has = f"its settings are {', '.join(names)}" if names else "it has none"
            raise CircuitError(f"{op.name} has no setting {short_repr(name)}{suggest_name(name, names)}; {has}")
    missing = [name for name in needed if name not in settings]
    if missing:
        raise CircuitError(f"{op.name} needs the setting {missing[0]}; wanted {', '.join(needed)}")
    return op.bind({name: freeze_setting(name, value) for name, value in settings.items()}) if settings else op


@lru_cache(1024)
def declared_settings(op: Op) -> tuple[list[str], list[str]]:
    """Return the names of an op's settings and of those that are required, as its forward function declares them.

    >>> from wiregrad.ir import TABLE
    >>> declared_settings(TABLE["sum"])
    (['axes', 'keepdims'], ['axes', 'keepdims'])
    """
    if op.by_element or isinstance(op.forward, np.ufunc):
        return [], []
    try:
        parameters = list(inspect.signature(op.forward).parameters.values())
    except (TypeError, ValueError):
        # The forward function of a user's op may have no signature.
        return [], []
    wires = [p for p in parameters if p.kind not in (p.KEYWORD_ONLY, p.VAR_POSITIONAL)][: len(op.inputs)]
    own = [p for p in parameters if p not in wires and p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if op.variadic:
        own = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
    return [p.name for p in own], [p.name for p in own if p.default is p.empty]


def freeze_setting(name: str, value: object) -> FrozenSetting:
    """Return the value of a setting with lists converted to tuples; raise if it is not a valid setting."""
    items_left = [MAX_SETTING_ITEMS]

    def freeze_item(item: object, level: int) -> FrozenSetting:
        items_left[0] -= 1
        if items_left[0] < 0 or level > MAX_SETTING_LEVELS:
            raise CircuitError(
                f"setting {name} has more than {MAX_SETTING_ITEMS} items or {MAX_SETTING_LEVELS} levels of lists"
            )
        if isinstance(item, list | tuple):
            return tuple([freeze_item(part, level + 1) for part in item])
        if not _is_plain_setting(item):
            raise CircuitError(f"setting {name} must be made of numbers, words and lists; got {short_repr(item)}")
        return item

    return freeze_item(value, 0)


def _is_plain_setting(item: object) -> TypeGuard[PlainSetting]:
    if type(item) is int:
        return -(2**63) <= item < 2**63
    if type(item) is str:
        return len(item) <= MAX_SETTING_WORD
    return item is None or type(item) in (bool, float)
