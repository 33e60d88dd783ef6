"""Regular expressions for names, matched in time linear in the length of the names.

The time of Python's `re` can grow exponentially: for `(a+)+$` on thirty letters it does. Here an expression is a
sequence of at most 63 items, one bit each, and all names advance together by one character at a time. Groups, counts
and lookarounds are refused with a message that says what to write instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wiregrad.errors import InputError, short_repr

MAX_REGEX_ITEMS = 63
"""Maximum number of items: one bit each in a 64-bit word, and one more for the end."""
CharacterTest = Callable[[str], bool]
CHARACTER_CLASSES: dict[str, CharacterTest] = {"d": str.isdecimal, "w": lambda ch: ch.isalnum() or ch == "_", "s": str.isspace}
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


def _match_alternative(alternative: RegexAlternative, codes: NDArray[np.uint32], lengths: NDArray[np.int64]) -> NDArray[np.bool_]:
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
