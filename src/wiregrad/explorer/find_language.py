"""The find language: `op:tanh name:/attn/ grad>1e3 nan depth<4`. A node is found if every term holds for it.

A term is one of:

    op:NAME                     the op of the node
    name:TEXT  group:TEXT       text in a name of the node or of its group; `/TEXT/` is a regular expression
    grad>1e3                    a comparison of `grad`, `value`, `depth`, `rank` or `index` with a number
    nan  inf  bad  absent       a value or gradient that is NaN, infinite or either; a gradient that did not arrive
    WORD                        short for name:WORD

`grad` and `value` are magnitudes, for an array its norm. `depth` counts the groups around a node, `rank` the wires on
the longest path to it. Every term is evaluated for all nodes at once, so a search of a million nodes takes the time of
a few array operations.

Regular expressions have their own matcher, because the time of Python's `re` can grow exponentially: for `(a+)+$` on
thirty letters it does. Here an expression is a sequence of at most 63 items, one bit each, and all names advance
together by one character at a time, so the time is linear in the length of the names. Groups, counts and lookarounds
are refused with a message that says what to write instead.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wiregrad.errors import InputError, short_repr, suggest_name
from wiregrad.ir import TABLE, CircuitGraph
from wiregrad.ir.columns import is_automatic_name

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
_COMPARISON_TERM = re.compile(r"([a-z]+)(<=|>=|<|>|=)(.+)")


class SearchableCircuit(Protocol):
    """What a search needs of a circuit and its run: arrays with one entry per node."""

    @property
    def circuit(self) -> CircuitGraph:
        """The circuit."""

    @property
    def names(self) -> Sequence[str]:
        """Every name, in the order of the circuit's name table."""

    def get_column(self, name: str) -> NDArray[Any]:
        """Return `grad`, `value`, `depth`, `rank` or `index` of every node."""

    def get_state_mask(self, name: str) -> NodeMask:
        """Return the mask of the nodes that are `nan`, `inf`, `bad` or `absent`."""


COMPARED_COLUMNS = ("grad", "value", "depth", "rank", "index")
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


def _match_term(measured: SearchableCircuit, term: str) -> NodeMask:
    kind, colon, text = term.partition(":")
    if colon and kind in _TEXT_TERMS:
        return _TEXT_TERMS[kind](measured, text)
    match = _COMPARISON_TERM.fullmatch(term)
    if match is not None and match[1] in COMPARED_COLUMNS:
        with np.errstate(all="ignore"):
            compared: NodeMask = COMPARISONS[match[2]](measured.get_column(match[1]), _parse_number(term, match[3]))
        return compared
    if term in STATE_WORDS:
        return measured.get_state_mask(term)
    if colon or match is not None:
        known = [*(f"{name}:" for name in _TEXT_TERMS), *COMPARED_COLUMNS]
        word = match[1] if match is not None and not colon else kind
        raise InputError(f"cannot search for {short_repr(term)}: wanted {', '.join(known)}{suggest_name(word, known)}")
    return _match_name(measured, term)


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
