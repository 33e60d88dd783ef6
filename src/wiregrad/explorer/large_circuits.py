"""Where things are in a large circuit: the search for nodes, and the board, which shows groups of nodes as boxes.

The find language is `op:tanh name:/attn/ grad>1e3 nan depth<4`. A node is found if every term holds for it. A term is
one of:

    op:NAME                     the op of the node
    name:TEXT  group:TEXT       text in a name of the node or of its group; `/TEXT/` is a regular expression
    grad>1e3                    a comparison of `grad`, `value`, `depth`, `rank` or `index` with a number
    nan  inf  bad  absent       a value or gradient that is NaN, infinite or either; a gradient that did not arrive
    WORD                        short for name:WORD

`grad` and `value` are magnitudes, for an array its norm. A bound that no magnitude is below (`<0`, `<=0`, and every
negative bound) is compared with the signed number instead; an array counts as negative if all its elements are. `depth`
counts the groups around a node, `rank` the wires on the longest path to it. Every term is evaluated for all nodes at
once, so a search of a million nodes takes the time of a few array operations.

Regular expressions have their own matcher, because the time of Python's `re` can grow exponentially: for `(a+)+$` on
thirty letters it does. Here an expression is a sequence of at most 63 items, one bit each, and all names advance
together by one character at a time, so the time is linear in the length of the names. Groups, counts and lookarounds
are refused with a message that says what to write instead.

A board shows the children of a group: the groups inside it and its own nodes. Groups that are alike and follow each
other, such as the steps of a loop, are merged into a few boxes (`t = 0 … 549`), and so are neighbours where there are
too many of them to be seen. What is open is part of the request, so a board depends on nothing but the circuit, its run
and the request.

Invariant: every function node that is drawn has exactly one box without others inside, and `ranges` of these boxes
together are all positions in a forward pass.
"""

from __future__ import annotations

import operator
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby, pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from wiregrad.backends import RunRecord
from wiregrad.draw.layout.boxes import NodeMasks, Reading, read_value, write_caption
from wiregrad.draw.layout.picture import FlowSizes, find_wires
from wiregrad.errors import InputError, short_repr, suggest_name
from wiregrad.explorer import encode_number
from wiregrad.ir import TABLE, CircuitGraph, Node, join_first_names
from wiregrad.ir.columns import is_automatic_name
from wiregrad.ops.gradient_flow import fill_absent

MAX_REGEX_ITEMS = 63
"""Maximum number of items: one bit each in a 64-bit word, and one more for the end."""
CharacterTest = Callable[[str], bool]
CHARACTER_CLASSES: dict[str, CharacterTest] = {
    "d": str.isdecimal,
    "w": lambda ch: ch.isalnum() or ch == "_",
    "s": str.isspace,
}
"""The characters that a backslash and a letter match."""
UNSUPPORTED_SYNTAX = {
    "(": "groups are not known; write alternatives in full, as in q_proj|k_proj",
    ")": "groups are not known; write alternatives in full, as in q_proj|k_proj",
    "{": "counts are not known; write the item as often as it is wanted, or + for any number",
    "}": "counts are not known; write the item as often as it is wanted, or + for any number",
}


@dataclass(frozen=True)
class RegexItem:
    """One item of an expression: which characters it matches, and how often."""

    test: CharacterTest
    repeats: bool = False
    optional: bool = False


@dataclass(frozen=True)
class RegexAlternative:
    """A sequence of items, possibly anchored to the beginning or the end of a name."""

    items: tuple[RegexItem, ...]
    at_start: bool
    at_end: bool


def parse_regex(text: str) -> list[RegexAlternative]:
    """Parse an expression; raise an `InputError` that says what is wrong with it.

    >>> parse_regex("(a+)+$")
    Traceback (most recent call last):
        ...
    wiregrad.errors.InputError: '(a+)+$': groups are not known; write alternatives in full, as in q_proj|k_proj
    """
    return _RegexParser(text).parse_alternatives()


def match_names(text: str, names: Sequence[str]) -> NDArray[np.bool_]:
    """Return which names an expression matches somewhere.

    >>> match_names("^w.*[0-9]$", ["w1", "w_out", "dw2"]).tolist()
    [True, False, False]
    """
    is_match = np.zeros(len(names), bool)
    alternatives = parse_regex(text)
    lengths = np.fromiter(map(len, names), np.int64, len(names))
    # A lone surrogate is not a valid character, but a name may contain one.
    codes = np.frombuffer("".join(names).encode("utf-32-le", "surrogatepass"), np.uint32)
    for alternative in alternatives:
        is_match |= _match_alternative(alternative, codes, lengths)
    return is_match


def _match_alternative(
    alternative: RegexAlternative, codes: NDArray[np.uint32], lengths: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Match all names in parallel: bit k of a state says that the items before item k have matched."""
    table = _build_accept_table(alternative, codes)
    at = np.cumsum(lengths) - lengths
    repeats = np.uint64(sum(1 << k for k, item in enumerate(alternative.items) if item.repeats))
    optional = np.uint64(sum(1 << k for k, item in enumerate(alternative.items) if item.optional))
    one = np.uint64(1)
    end = np.uint64(1 << len(alternative.items))
    skips = _longest_run([item.optional for item in alternative.items])
    begin = _skip_optional(np.array([1], np.uint64), optional, skips)[0]
    fresh = np.uint64(0) if alternative.at_start else begin
    is_match = np.zeros(len(lengths), bool)
    names = np.arange(len(lengths))
    left = lengths
    states = np.full(len(lengths), begin)
    while len(names):
        is_found = (states & end) != 0
        if alternative.at_end:
            is_found &= left == 0
        is_match[names[is_found]] = True
        is_over = is_found | (left == 0)
        if is_over.any():
            names, at, left, states = (array[~is_over] for array in (names, at, left, states))
        met = states & table[codes[at]]
        states = _skip_optional((met << one) | (met & repeats) | fresh, optional, skips)
        at = at + 1
        left = left - 1
    return is_match


def _build_accept_table(alternative: RegexAlternative, codes: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """Return, for every character that occurs, the items that match it, one bit each."""
    counts = np.bincount(codes, minlength=1)
    table = np.zeros(len(counts), np.uint64)
    for code in np.flatnonzero(counts).tolist():
        table[code] = sum(1 << k for k, item in enumerate(alternative.items) if item.test(chr(code)))
    return table


def _skip_optional(states: NDArray[np.uint64], optional: np.uint64, times: int) -> NDArray[np.uint64]:
    """Return the states with those added that skip optional items."""
    for _ in range(times):
        states = states | ((states & optional) << np.uint64(1))
    return states


def _longest_run(flags: Sequence[bool]) -> int:
    longest = run = 0
    for flag in flags:
        run = run + 1 if flag else 0
        longest = max(longest, run)
    return longest


class _RegexParser:
    """Parses an expression from left to right.

    An expression consists of:

        a \\.          a character; a backslash takes the special meaning from a sign
        .             any character
        [a-z_] [^0-9] one of the listed characters, or any other
        \\d \\w \\s      a digit; a letter, digit or _; a space; in capitals any other character
        * + ?         the item before it: any number of times; at least once; at most once
        ^ $           the beginning and the end of the name
        |             one of several expressions
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def parse_alternatives(self) -> list[RegexAlternative]:
        """Parse the alternatives, which `|` separates."""
        parsed = [self._parse_alternative()]
        while self._at < len(self._text):
            self._at += 1
            parsed.append(self._parse_alternative())
        return parsed

    def _parse_alternative(self) -> RegexAlternative:
        items = list[RegexItem]()
        at_start = self._take_sign("^")
        at_end = False
        while self._at < len(self._text) and self._text[self._at] != "|":
            if at_end:
                raise self._syntax_error("$ stands for the end; nothing may follow it")
            if self._take_sign("$"):
                at_end = True
            else:
                items.append(self._parse_item())
        if len(items) > MAX_REGEX_ITEMS:
            raise self._syntax_error(f"it has {len(items)} items; at most {MAX_REGEX_ITEMS} are taken")
        return RegexAlternative(tuple(items), at_start, at_end)

    def _parse_item(self) -> RegexItem:
        test = self._parse_character()
        sign = self._text[self._at : self._at + 1]
        if sign not in ("*", "+", "?") or not sign:
            return RegexItem(test)
        self._at += 1
        # `.*?` finds the same names as `.*`.
        self._take_sign("?")
        return RegexItem(test, repeats=sign in "*+", optional=sign in "*?")

    def _parse_character(self) -> CharacterTest:
        letter = self._next_character()
        if letter in UNSUPPORTED_SYNTAX:
            raise self._syntax_error(UNSUPPORTED_SYNTAX[letter])
        if letter in "*+?":
            raise self._syntax_error(f"there is nothing before {letter} that it could repeat")
        if letter == "^":
            raise self._syntax_error("^ stands for the beginning; nothing may precede it")
        if letter == ".":
            return lambda ch: True
        if letter == "[":
            return self._parse_bracket()
        return self._parse_escape() if letter == "\\" else _test_equal(letter)

    def _parse_escape(self) -> CharacterTest:
        letter = self._next_character("a backslash ends it")
        known = CHARACTER_CLASSES.get(letter.lower())
        if known is not None:
            return known if letter.islower() else _negate_test(known)
        if letter.isalnum():
            raise self._syntax_error(f"\\{letter} is not known; there are \\d, \\w and \\s, and \\ before a sign")
        return _test_equal(letter)

    def _parse_bracket(self) -> CharacterTest:
        """Parse a set of characters in brackets."""
        is_inverse = self._take_sign("^")
        tests = list[CharacterTest]()
        while not tests or not self._take_sign("]"):
            first = self._next_character("a bracket is not closed")
            if first == "\\":
                tests.append(self._parse_escape())
            elif self._text[self._at : self._at + 1] == "-" and self._text[self._at + 1 : self._at + 2] not in (
                "]",
                "",
            ):
                self._at += 1
                last = self._next_character()
                if last in "\\[" or last < first:
                    raise self._syntax_error(f"{first}-{last} is no range of characters")
                tests.append(_test_range(first, last))
            else:
                tests.append(_test_equal(first))
        one_of: CharacterTest = lambda ch: any(test(ch) for test in tests)  # noqa: E731 - like the other tests
        return _negate_test(one_of) if is_inverse else one_of

    def _take_sign(self, sign: str) -> bool:
        is_next = self._text.startswith(sign, self._at)
        self._at += is_next
        return is_next

    def _next_character(self, otherwise: str = "it ends too soon") -> str:
        if self._at >= len(self._text):
            raise self._syntax_error(otherwise)
        self._at += 1
        return self._text[self._at - 1]

    def _syntax_error(self, what: str) -> InputError:
        return InputError(f"{short_repr(self._text)}: {what}")


def _test_equal(letter: str) -> CharacterTest:
    return lambda ch: ch == letter


def _test_range(first: str, last: str) -> CharacterTest:
    return lambda ch: first <= ch <= last


def _negate_test(test: CharacterTest) -> CharacterTest:
    return lambda ch: not test(ch)


NodeMask = NDArray[np.bool_]
MAX_QUERY_LENGTH = 1000
"""Maximum number of characters of a query."""
COMPARISONS = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt, "=": operator.eq}
_COMPARISON_TERM = re.compile(r"([a-z]+)(<=|>=|<|>|=)(.*)")
_NUMBER_TERM = re.compile(r"(grad|value)[<>=]")


class SearchableCircuit(Protocol):
    """What a search needs of a circuit and its run: arrays with one entry per node."""

    @property
    def circuit(self) -> CircuitGraph:
        """The circuit."""

    @property
    def names(self) -> Sequence[str]:
        """Every name, in the order of the circuit's name table."""

    def get_column(self, name: str) -> NDArray[Any]:
        """Return `grad`, `value`, `depth`, `rank` or `index` of every node; of `grad` and `value` the magnitude."""

    def get_negative_mask(self, name: str) -> NodeMask:
        """Return the mask of the nodes whose `grad` or `value` is negative."""

    def get_state_mask(self, name: str) -> NodeMask:
        """Return the mask of the nodes that are `nan`, `inf`, `bad` or `absent`."""


SIGNED_COLUMNS = ("grad", "value")
"""The columns that are magnitudes unless the bound asks for signed numbers."""
COMPARED_COLUMNS = (*SIGNED_COLUMNS, "depth", "rank", "index")
STATE_WORDS = ("nan", "inf", "bad", "absent")


def match_query(measured: SearchableCircuit, query: str) -> NodeMask:
    """Return the mask of the nodes for which every term of a query holds.

    >>> import wiregrad as wg
    >>> from wiregrad.explorer.circuit_views import CircuitViews
    >>> run = wg.circuit("u = tanh(x); y = 3 * u").run(x=0.5)
    >>> np.flatnonzero(match_query(CircuitViews(run.circuit, run), "op:tanh grad>2")).tolist()
    [1]
    """
    if len(query) > MAX_QUERY_LENGTH:
        raise InputError(f"a query has at most {MAX_QUERY_LENGTH:,} characters; this one has {len(query):,}")
    mask = np.ones(measured.circuit.size, bool)
    for term in query.split():
        mask &= _match_term(measured, term)
    return mask


def find_number_terms(query: str) -> list[str]:
    """Return the terms of a query that ask for numbers of a run: values, gradients, or whether they are finite.

    >>> find_number_terms("op:tanh grad>2 depth<3 nan")
    ['grad>2', 'nan']
    """
    return [term for term in query.split() if term in STATE_WORDS or _NUMBER_TERM.match(term)]


def _match_term(measured: SearchableCircuit, term: str) -> NodeMask:
    kind, colon, text = term.partition(":")
    if colon and kind in _TEXT_TERMS:
        return _TEXT_TERMS[kind](measured, text)
    match = _COMPARISON_TERM.fullmatch(term)
    if match is not None and match[1] in COMPARED_COLUMNS:
        return _compare_column(measured, match[1], match[2], _parse_number(term, match[3]))
    if term in STATE_WORDS:
        return measured.get_state_mask(term)
    if colon or match is not None:
        known = [*(f"{name}:" for name in _TEXT_TERMS), *COMPARED_COLUMNS]
        word = match[1] if match is not None and not colon else kind
        raise InputError(f"cannot search for {short_repr(term)}: wanted {', '.join(known)}{suggest_name(word, known)}")
    return _match_name(measured, term)


def _compare_column(measured: SearchableCircuit, name: str, comparison: str, bound: float) -> NodeMask:
    """Compare a column with a bound; signed numbers where magnitudes have no use for the bound."""
    column = measured.get_column(name)
    if name in SIGNED_COLUMNS and (bound < 0 or (bound == 0 and comparison in ("<", "<="))):
        column = np.where(measured.get_negative_mask(name), -column, column)
    with np.errstate(all="ignore"):
        mask: NodeMask = COMPARISONS[comparison](column, bound)
    return mask


def _parse_number(term: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{short_repr(term)} compares with {short_repr(text)}, which is no number") from None


def _match_op(measured: SearchableCircuit, text: str) -> NodeMask:
    if text not in TABLE:
        raise InputError(f"there is no op called {short_repr(text)}{suggest_name(text, TABLE.callable_names())}")
    mask: NodeMask = measured.circuit.columns.codes == TABLE.code_of(TABLE[text])
    return mask


def _match_name(measured: SearchableCircuit, text: str) -> NodeMask:
    """Return the mask of the nodes that have a name, or an output label, that matches a text."""
    circuit = measured.circuit
    mask = np.zeros(circuit.size, bool)
    if is_automatic_name(text) and int(text[1:]) < circuit.size:
        mask[int(text[1:])] = True
    mask[circuit.columns.names.nodes[_select_names(text, measured.names)]] = True
    mask[circuit.columns.outputs[_select_names(text, circuit.columns.labels)]] = True
    return mask


def _match_group(measured: SearchableCircuit, text: str) -> NodeMask:
    labels = measured.circuit.columns.groups
    if labels.index is None:
        return np.zeros(measured.circuit.size, bool)
    # Nodes without a group have index -1, which reads the appended last entry.
    mask: NodeMask = np.append(_select_names(text, [*map(str, labels.table)]), False)[labels.index]
    return mask


def _select_names(text: str, names: Sequence[str]) -> NodeMask:
    """Return which names contain a text, or match it if it is a regular expression between slashes."""
    if len(text) >= 2 and text.startswith("/") and text.endswith("/"):
        return match_names(text[1:-1], names)
    return np.fromiter((text in name for name in names), bool, len(names))


_TEXT_TERMS: dict[str, Callable[[SearchableCircuit, str], NodeMask]] = {
    "op": _match_op,
    "name": _match_name,
    "group": _match_group,
}


def split_into_ranges(nodes: Iterable[int]) -> list[list[int]]:
    """Return sorted indices as ranges of consecutive ones: [first, last] of each.

    >>> split_into_ranges([1, 2, 3, 7])
    [[1, 3], [7, 7]]
    """
    indices = np.fromiter(nodes, np.int64)
    if not len(indices):
        return []
    gaps = np.flatnonzero(np.diff(indices) > 1)
    firsts = indices[[0, *(gaps + 1)]]
    lasts = indices[[*gaps, len(indices) - 1]]
    return [[int(first), int(last)] for first, last in zip(firsts, lasts, strict=True)]


MAX_CHILDREN = 24
"""Maximum number of boxes directly in a group before neighbours are merged."""
MIN_ALIKE = 5
"""Minimum number of consecutive groups with labels that differ only in a number for them to be merged."""
MERGED_PARTS = 6
"""Number of boxes into which a stretch of merged neighbours opens."""
MAX_SHOWN_NEIGHBOURS = 8
"""A stretch of at most this many neighbours opens into themselves."""
MAX_LEAF_BOXES = 6
"""Maximum number of inputs with a box each; more share one."""
MAX_RANGES = 200
"""Maximum number of ranges of positions sent for a box; with more, evenly chosen ones stand for all of them."""
MAX_MARKS = 20_000
"""Maximum number of loop steps whose first nodes are sent."""
MAX_OPEN = 64
"""Maximum number of groups that a request may open."""
MAX_OP_COLUMNS = 6
"""Maximum width of an op with its constants in the box of a node."""
_NUMBERED_LABEL = re.compile(r"(.*?)([ =])(-?\d+)(?: \(\d+\))?")

NodeIndices = NDArray[np.int64]


class BoardChild(NamedTuple):
    """A group or a node directly in a group: its label (empty for a node) and its function nodes, ascending."""

    label: str
    nodes: NodeIndices


@dataclass(frozen=True)
class BoardRequest:
    """What is open: groups by path, and for stretches of merged neighbours the part that is looked at."""

    opened: frozenset[str] = frozenset()
    focus: Mapping[str, tuple[int, int]] = field(default_factory=dict)


def parse_board_request(opened: Sequence[str], focus: Sequence[str]) -> BoardRequest:
    """Parse the query of a request: paths of open groups, and `STRETCH:FIRST-LAST` for merged neighbours.

    >>> parse_board_request(["net"], ["|t:3-9"]).focus
    {'|t': (3, 9)}
    """
    if len(opened) > MAX_OPEN or len(focus) > MAX_OPEN:
        raise InputError(f"at most {MAX_OPEN} groups can be open; close some of them")
    parts = [(text, re.fullmatch(r"(.*):(\d{1,9})-(\d{1,9})", text, re.DOTALL)) for text in focus]
    for text, found in parts:
        if found is None:
            raise InputError(f"wanted focus=STRETCH:FIRST-LAST; got {short_repr(text)}")
    return BoardRequest(
        frozenset(opened), {found[1]: (int(found[2]), int(found[3])) for _, found in parts if found is not None}
    )


def encode_board_request(request: BoardRequest) -> dict[str, list[str]]:
    """Return a request as the query that `parse_board_request` reads.

    >>> encode_board_request(BoardRequest(frozenset(["net"]), {"|t": (3, 9)}))
    {'opened': ['net'], 'focus': ['|t:3-9']}
    """
    focus = [f"{key}:{first}-{last}" for key, (first, last) in request.focus.items()]
    return {"opened": sorted(request.opened), "focus": focus}


def split_label(label: str) -> tuple[str, int | None]:
    """Split the label of a group into what it shares with its neighbours and its number.

    >>> split_label("t=12"), split_label("layer 2"), split_label("loss")
    (('t=', 12), ('layer ', 2), ('loss ', None))
    """
    found = _NUMBERED_LABEL.fullmatch(label)
    return (f"{label} ", None) if found is None else (found[1] + found[2], int(found[3]))


def format_label(label: str) -> str:
    """Format the label of a group for people.

    >>> format_label("t=12"), format_label("dist")
    ('t = 12', 'dist')
    """
    return re.sub(r"^(\w)=(-?\d)", r"\1 = \2", label)


def format_span(first: str, last: str) -> str:
    """Format the labels of merged neighbours from the first to the last.

    >>> format_span("t=0", "t=549"), format_span("dist", "dist 550"), format_span("a", "b")
    ('t = 0 … 549', 'dist 1 … 550', 'a … b')
    """
    stem, start = split_label(first)
    last_stem, end = split_label(last)
    if stem == last_stem and end is not None:
        return f"{format_label(f'{stem}{1 if start is None else start}')} … {end}"
    return format_label(first) if first == last else f"{format_label(first)} … {format_label(last)}"


@dataclass(eq=False)
class BoardBuilder:
    """Builds boards of one circuit and its run."""

    circuit: CircuitGraph
    run: RunRecord | None
    gradients: FlowSizes
    values: FlowSizes

    @cached_property
    def kinds(self) -> NodeMasks:
        """How each node is drawn."""
        return NodeMasks.from_circuit(self.circuit)

    @cached_property
    def inner(self) -> NodeIndices:
        """The function nodes."""
        return np.flatnonzero(self.kinds.inner)

    @cached_property
    def positions(self) -> NodeIndices:
        """The number of function nodes before each node: its position in a forward pass."""
        return np.cumsum(self.kinds.inner) - self.kinds.inner

    @cached_property
    def _label_parts(self) -> list[list[str]]:
        # The last entry is that of nodes without a group, whose index is -1.
        return [[*filter(None, str(label).split("/"))] for label in self.circuit.columns.groups.table] + [[]]

    @cached_property
    def _label_index(self) -> NDArray[np.int32]:
        index = self.circuit.columns.groups.index
        return np.full(self.circuit.size, -1, np.int32) if index is None else index

    @cached_property
    def _children(self) -> dict[str, list[BoardChild]]:
        return {}

    @cached_property
    def _wires(self) -> tuple[NodeIndices, NodeIndices]:
        return find_wires(self.circuit)

    def list_children(self, path: str, nodes: NodeIndices) -> list[BoardChild]:
        """Return what is directly in a group, in the order of first nodes; `nodes` are its function nodes."""
        if path not in self._children:
            self._children[path] = self._split_by_child(path, nodes)
        return self._children[path]

    def _split_by_child(self, path: str, nodes: NodeIndices) -> list[BoardChild]:
        depth = path.count("/") + 1 if path else 0
        names: dict[str, int] = {}
        table = np.full(len(self._label_parts), -1, np.int64)
        used = np.unique(self._label_index[nodes])
        for k in used.tolist():
            parts = self._label_parts[k]
            if len(parts) > depth:
                table[k] = names.setdefault(parts[depth], len(names))
        keys = table[self._label_index[nodes]]
        loose = nodes[keys < 0]
        children = [BoardChild("", np.array([node])) for node in loose.tolist()]
        grouped = np.flatnonzero(keys >= 0)
        order = grouped[np.argsort(keys[grouped], kind="stable")]
        bounds = np.searchsorted(keys[order], np.arange(1, len(names)))
        labels = [*names]
        children += [BoardChild(labels[k], nodes[part]) for k, part in enumerate(np.split(order, bounds)) if len(part)]
        return sorted(children, key=lambda child: int(child.nodes[0]))

    def build_board(self, request: BoardRequest) -> dict[str, Any]:
        """Return the boxes that are visible, the wires between them, and the counts of their nodes."""
        drawing = _BoardDrawing(self, request)
        drawing.draw_leaves()
        drawing.draw_group("", self.inner, -1)
        unknown = request.opened - drawing.opened
        if any(not self._has_group(path) for path in unknown):
            raise InputError(f"there is no group {short_repr(min(unknown))}")
        return {"boxes": drawing.boxes, "links": drawing.link_boxes(*self._wires)}

    def _has_group(self, path: str) -> bool:
        parts = path.split("/")
        return any(label[: len(parts)] == parts for label in self._label_parts)

    def find_request_for(self, node: int) -> BoardRequest:
        """Return the request that opens everything around a node."""
        opened: set[str] = set()
        focus: dict[str, tuple[int, int]] = {}
        path = ""
        nodes = self.inner
        while True:
            children = self.list_children(path, nodes)
            at = next((k for k, child in enumerate(children) if node in child.nodes), None)
            if at is None:
                return BoardRequest(frozenset(opened), focus)
            for key, first, last in list_stretches(path, children):
                if first <= at <= last:
                    focus[key] = (at - first, at - first)
            if not children[at].label:
                for key, (first, _) in list(focus.items()):
                    if key == f"{path}|*" or key.startswith(f"{path}|."):
                        # A node is seen among its neighbours.
                        focus[key] = (max(0, first - 3), min(len(children) - 1, first + 3))
                return BoardRequest(frozenset(opened), focus)
            path = f"{path}/{children[at].label}" if path else children[at].label
            opened.add(path)
            nodes = children[at].nodes

    def find_loop(self) -> dict[str, Any] | None:
        """Return the longest loop near the top: its variable, its numbers and the first node of each step."""
        path = ""
        nodes = self.inner
        for _ in range(8):
            children = self.list_children(path, nodes)
            runs = [
                (last - first, first, last) for key, first, last in list_stretches(path, children) if key[-1] != "*"
            ]
            if runs:
                _, first, last = max(runs)
                stem, start = split_label(children[first].label)
                if last - first >= MAX_MARKS:
                    return None
                starts = [int(child.nodes[0]) for child in children[first : last + 1]]
                name = stem.rstrip("= ")
                return {"name": name, "first": 1 if start is None else start, "starts": starts, "path": path}
            largest = max(children, key=lambda child: len(child.nodes), default=None)
            if largest is None or not largest.label:
                return None
            path = f"{path}/{largest.label}" if path else largest.label
            nodes = largest.nodes
        return None

    def encode_order(self) -> dict[str, Any]:
        """Return which nodes a forward and a backward pass visit, as bits in the order of indices."""
        reached = np.zeros(self.circuit.size, bool)
        if self.run is not None:
            reached = np.fromiter((flow is not None for flow in self.run.flows), bool, self.circuit.size)
        return {
            "forward": _encode_bits(self.kinds.inner),
            "backward": _encode_bits(reached & (self.kinds.inner | self.kinds.leaves)),
        }


def _encode_bits(mask: NDArray[np.bool_]) -> str:
    return b64encode(np.packbits(mask, bitorder="little").tobytes()).decode()


def list_stretches(path: str, children: Sequence[BoardChild]) -> list[tuple[str, int, int]]:
    """Return the stretches of children that are merged: a key, the first and the last child.

    >>> children = [BoardChild(f"t={k}", np.array([k])) for k in range(9)]
    >>> list_stretches("", [BoardChild("", np.array([0])), *children])
    [('|t=', 1, 9)]
    """
    alike = [(f"{path}|{stem}", first, last) for stem, first, last in _find_runs(children) if stem]
    loose = [(f"{path}|.{first}", first, last) for stem, first, last in _find_runs(children) if not stem]
    for stretches in (alike, sorted([*alike, *loose], key=lambda stretch: stretch[1])):
        if len(children) - sum(last - first + 1 - MERGED_PARTS for _, first, last in stretches) <= MAX_CHILDREN:
            return stretches
    return [(f"{path}|*", 0, len(children) - 1)]


def _find_runs(children: Sequence[BoardChild]) -> Iterator[tuple[str, int, int]]:
    """Yield the runs of children with one stem, or of nodes, whose stem is empty; short runs are left out."""
    stems = [child.label and split_label(child.label)[0] for child in children]
    first = 0
    for stem, run in groupby(stems):
        last = first + sum(1 for _ in run) - 1
        if last - first + 1 >= (MIN_ALIKE if stem else MERGED_PARTS + 1):
            yield stem, first, last
        first = last + 1


def split_stretch(count: int, focus: tuple[int, int] | None) -> list[tuple[int, int]]:
    """Return the parts into which a stretch of neighbours is merged; a part of one neighbour is that neighbour.

    >>> split_stretch(1100, (550, 550))
    [(0, 549), (550, 550), (551, 1099)]
    >>> split_stretch(12, None)
    [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9), (10, 11)]
    """
    first, last = (0, count - 1) if focus is None else (min(focus[0], count - 1), min(focus[1], count - 1))
    inside = last - first + 1
    parts = inside if inside <= MAX_SHOWN_NEIGHBOURS else MERGED_PARTS
    cuts = [first + k * inside // parts for k in range(parts + 1)]
    middle = [(a, b - 1) for a, b in pairwise(cuts)]
    before = [(0, first - 1)] if first else []
    after = [(last + 1, count - 1)] if last < count - 1 else []
    return [*before, *middle, *after]


class _BoardDrawing:
    """The boxes of one board while it is drawn."""

    def __init__(self, builder: BoardBuilder, request: BoardRequest) -> None:
        self.builder = builder
        self.circuit = builder.circuit
        self.request = request
        self.boxes: list[dict[str, Any]] = []
        self.owner: NodeIndices = np.full(self.circuit.size, -1, np.int64)
        self.opened: set[str] = set()

    def draw_leaves(self) -> None:
        """Add the boxes of the inputs."""
        leaves = np.flatnonzero(self.builder.kinds.leaves)
        if len(leaves) <= MAX_LEAF_BOXES:
            for node in leaves.tolist():
                self._add_node(node, -1, "input")
        elif len(leaves):
            names = join_first_names([self.circuit.name_of(node) for node in leaves.tolist()])
            self._add_box({"kind": "inputs", "title": f"{len(leaves):,} inputs", "about": names}, leaves, -1)

    def draw_group(self, path: str, nodes: NodeIndices, parent: int) -> None:
        """Add the boxes of what is directly in a group."""
        children = self.builder.list_children(path, nodes)
        if path == "" and len(children) == 1 and children[0].label:
            # A picture of one box says nothing.
            self._draw_child(path, children[0], parent, opened=True)
            return
        stretches = {first: (key, last) for key, first, last in list_stretches(path, children)}
        at = 0
        while at < len(children):
            if at in stretches:
                key, last = stretches[at]
                self._draw_stretch(path, key, children[at : last + 1], parent)
                at = last + 1
            else:
                self._draw_child(path, children[at], parent)
                at += 1

    def _draw_stretch(self, path: str, key: str, children: Sequence[BoardChild], parent: int) -> None:
        for first, last in split_stretch(len(children), self.request.focus.get(key)):
            if first == last:
                self._draw_child(path, children[first], parent)
                continue
            merged = children[first : last + 1]
            nodes = np.sort(np.concatenate([child.nodes for child in merged]))
            labels = [child.label for child in merged if child.label]
            title = format_span(labels[0], labels[-1]) if labels else self._title_nodes(nodes)
            alike = len({split_label(label)[0] for label in labels}) == 1
            about = f"{len(labels):,} {'iterations' if '=' in key else 'calls'}" if alike else ""
            if len(labels) < len(merged):
                about = self._describe_lines(nodes)
            facts = {"kind": "range", "title": title, "about": about, "stretch": key, "first": first, "last": last}
            self._add_box(facts, nodes, parent)

    def _draw_child(self, path: str, child: BoardChild, parent: int, *, opened: bool = False) -> None:
        if not child.label or (len(child.nodes) == 1 and not opened):
            self._add_node(int(child.nodes[0]), parent, "node")
            return
        inside = f"{path}/{child.label}" if path else child.label
        is_open = opened or inside in self.request.opened
        facts = {"kind": "group", "title": self._find_title(inside, child), "path": inside, "open": is_open}
        box = self._add_box(facts | {"about": self._describe_lines(child.nodes)}, child.nodes, parent)
        if is_open:
            self.opened.add(inside)
            self.draw_group(inside, child.nodes, box)

    def _find_title(self, path: str, child: BoardChild) -> str:
        """Return the title of a group: a call of a library function as it is written, else the label."""
        columns = self.circuit.columns
        text = None
        if columns.library_groups is not None and path in columns.library_groups.read():
            text = columns.expressions.label_of(int(child.nodes[-1]))
        return format_label(child.label) if text is None else text

    def _title_nodes(self, nodes: NodeIndices) -> str:
        """Return the title of nodes without groups: from the first to the last."""
        first, last = (self.circuit.title_of(int(nodes[k])) for k in (0, -1))
        return first if first == last else f"{first} … {last}"

    def _describe_lines(self, nodes: NodeIndices) -> str:
        """Return the lines that made some nodes, such as `track.py:9 to 13`; without lines, the nodes."""
        places = self.circuit.columns.places
        if places.index is not None:
            used = [places.table[k] for k in np.unique(places.index[nodes]).tolist() if k >= 0]
            lines = sorted({place.line for place in used})
            files = {place.file for place in used}
            if len(files) == 1:
                file = used[0].without_folder().file
                return f"{file}:{lines[0]}" + (f" to {lines[-1]}" if len(lines) > 1 else "")
        return f"nodes {int(nodes[0]):,} to {int(nodes[-1]):,}"

    def _add_node(self, node: int, parent: int, kind: str) -> None:
        builder = self.builder
        view = Node(self.circuit, node)
        title = self.circuit.title_of(node)
        facts: dict[str, Any] = {"kind": kind, "title": title, "node": node, "about": str(view.type)}
        if kind == "node":
            facts["op"] = self._write_op(view)
        run = builder.run
        if run is not None:
            facts["value"] = _encode_reading(read_value(run.values[node]))
            gradient = None if run.flows[node] is None else run.gradient(node)
            facts["grad"] = None if gradient is None else _encode_reading(read_value(gradient))
        self._add_box(facts, np.array([node]), parent)

    def _write_op(self, view: Node) -> str:
        """Write the op of a node with its constants, or without them if they are long."""
        sources = self.circuit.sources_of(view.index)
        text = write_caption(view.op, [self._write_constant(source) for source in sources], shapes=False)
        return text if len(text) <= MAX_OP_COLUMNS else write_caption(view.op, [""] * len(sources), shapes=False)

    def _write_constant(self, source: int) -> str:
        if not self.builder.kinds.folded[source]:
            return ""
        constant = self.circuit.constant_of(source)
        return "" if constant is None else read_value(constant).text

    def _add_box(self, facts: dict[str, Any], nodes: NodeIndices, parent: int) -> int:
        builder = self.builder
        box = len(self.boxes)
        ranges, exact = self._count_positions(nodes)
        self.owner[nodes] = box
        self.boxes.append(
            {
                **facts,
                "id": box,
                "parent": parent,
                "count": len(nodes),
                "ranges": ranges,
                "exact": exact,
                "largest": encode_number(float(builder.gradients.norms[nodes].max(initial=0.0))),
                "bad": [_first_bad(builder.values, nodes, 0), _first_bad(builder.gradients, nodes, -1)],
            }
        )
        return box

    def _count_positions(self, nodes: NodeIndices) -> tuple[list[list[int]], bool]:
        """Return ranges of the positions of function nodes in a forward pass, and whether they are exact."""
        positions = self.builder.positions[nodes[self.builder.kinds.inner[nodes]]]
        ranges = split_into_ranges(positions.tolist())
        if len(ranges) <= MAX_RANGES:
            return ranges, True
        chosen = positions[np.linspace(0, len(positions) - 1, MAX_RANGES).astype(np.int64)]
        return [[position, position] for position in chosen.tolist()], False

    def link_boxes(self, sources: NodeIndices, readers: NodeIndices) -> list[dict[str, Any]]:
        """Return the wires between different boxes; several between the same two are one link."""
        starts = self.owner[sources]
        ends = self.owner[readers]
        wires = np.flatnonzero((starts >= 0) & (ends >= 0) & (starts != ends))
        pairs = starts[wires] * len(self.boxes) + ends[wires]
        found, first, counts = np.unique(pairs, return_index=True, return_counts=True)
        slots = wires[first] - self.circuit.columns.starts[readers[wires[first]]]
        rows = zip(found.tolist(), readers[wires[first]].tolist(), slots.tolist(), counts.tolist(), strict=True)
        return [
            {"from": pair // len(self.boxes), "to": pair % len(self.boxes), "reader": reader, "slot": slot, "wires": n}
            for pair, reader, slot, n in rows
        ]


def _first_bad(sizes: FlowSizes, nodes: NodeIndices, which: int) -> int:
    """Return the first (0) or the last (-1) of some nodes whose number is not finite; -1 if there is none."""
    bad = nodes[(sizes.nans[nodes] + sizes.infs[nodes]) > 0]
    return int(bad[which]) if len(bad) else -1


def _encode_reading(reading: Reading) -> dict[str, Any]:
    return {"text": reading.text, "size": encode_number(reading.size), "state": reading.state.value}


HEAT_COLUMNS = 240
"""Maximum number of columns of the heat strip, which divide the nodes in the order of a forward pass."""
HEAT_ROWS = 24
"""Maximum number of rows of the heat strip."""
HEAT_DECADES = 12
"""Maximum number of powers of ten in the heat strip; smaller gradients are counted in the lowest row."""


def build_heat_strip(run: RunRecord | None, size: int, gradients: FlowSizes) -> dict[str, Any]:
    """Return a histogram of gradients by the order of nodes and by size in powers of ten.

    A cell is `[column, row, nodes, positive, negative]`; `bad` has the columns in which something is not finite.

    >>> import wiregrad as wg
    >>> run = wg.circuit("y = tanh(3 * x)").run(x=0.5)
    >>> strip = build_heat_strip(run, run.circuit.size, FlowSizes.measure_gradients(run))
    >>> strip["low"], strip["high"], strip["columns"]
    (-1, 0, 4)
    """
    norms = np.asarray(gradients.norms)
    columns = max(1, min(size, HEAT_COLUMNS))
    column = np.arange(size) * columns // max(size, 1)
    bad = (np.asarray(gradients.nans) + np.asarray(gradients.infs)) > 0
    reached = np.zeros(size, bool)
    signs = np.zeros(size)
    if run is not None:
        reached = np.fromiter((flow is not None for flow in run.flows), bool, size)
        signs = np.fromiter((_find_sign(flow) for flow in run.flows), np.float64, size)
    sized = np.flatnonzero(reached & ~bad & (norms > 0))
    logs = np.log10(norms[sized])
    high = int(np.ceil(logs.max())) if len(logs) else 1
    low = max(int(np.floor(logs.min())), high - HEAT_DECADES) if len(logs) else -1
    low = min(low, high - 1)
    rows = min(HEAT_ROWS, 4 * (high - low))
    row = np.clip((logs - low) * rows / (high - low), 0, rows - 1).astype(np.int64)
    cells = column[sized] * rows + row
    total = np.bincount(cells, minlength=columns * rows)
    positive = np.bincount(cells, signs[sized] > 0, minlength=columns * rows).astype(np.int64)
    negative = np.bincount(cells, signs[sized] < 0, minlength=columns * rows).astype(np.int64)
    filled = np.flatnonzero(total)
    return {
        "size": size,
        "columns": columns,
        "rows": rows,
        "low": low,
        "high": high,
        "cells": [
            [cell // rows, cell % rows, *counts]
            for cell, *counts in zip(
                filled.tolist(),
                total[filled].tolist(),
                positive[filled].tolist(),
                negative[filled].tolist(),
                strict=True,
            )
        ],
        "zero": int((reached & ~bad & (norms == 0)).sum()),
        "absent": int((~reached).sum()),
        "bad": np.unique(column[bad & reached]).tolist(),
    }


def _find_sign(flow: Any) -> float:
    """Return the sign of a scalar gradient; 0 for arrays and for what is absent."""
    if type(flow) is np.float64 or type(flow) is float:
        return 1.0 if flow > 0 else -1.0 if flow < 0 else 0.0
    if flow is None:
        return 0.0
    settled = np.asarray(fill_absent(flow))
    if settled.shape or settled.dtype.kind not in "fiu":
        return 0.0
    return float(np.sign(settled)) if np.isfinite(settled) else 0.0
