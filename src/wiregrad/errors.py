"""The errors wiregrad raises.

Every class is a `WiregradError` and also the built-in kind a caller would expect, so both `except WiregradError`
and `except ValueError` work. A message says what was wanted, what came, where, and what to try.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from functools import lru_cache
from itertools import islice
from os.path import dirname
from types import FrameType

import numpy as np

_OWN = dirname(__file__) + "/"
_NUMPY = dirname(np.__file__) + "/"
_PYTHON = dirname(warnings.__file__) + "/"

MOST_NAMES = 10_000
"""Among how many names the nearest one is looked for."""


class WiregradError(Exception):
    """Base of every error that wiregrad raises on purpose."""

    def __str__(self) -> str:
        # KeyError would show the message in quotes.
        return str(self.args[0]) if self.args else ""


class CircuitError(WiregradError, ValueError):
    """A circuit is not well formed."""


class CycleError(CircuitError):
    """Nodes feed each other in a ring, so no order can run them."""


class FanoutError(CircuitError):
    """A strict builder saw a wire with two readers and no splitter."""


class DuplicateNameError(CircuitError):
    """Two nodes or outputs ask for one name."""


class NameSyntaxError(CircuitError):
    """A name has characters that names may not have."""


class TextError(CircuitError):
    """The text form of a circuit cannot be read."""


class FileFormatError(CircuitError):
    """A circuit file, or the JSON form of a circuit, cannot be read or written."""


class FileAccessError(WiregradError, OSError):
    """A file cannot be opened, read or written: it is missing, forbidden, a folder, or the disk is full."""


class UnknownNameError(WiregradError, KeyError):
    """No node, input or output has this name."""


class UnknownOpError(WiregradError, AttributeError, LookupError):
    """The op table has no op of this name."""


class ArityError(WiregradError, TypeError):
    """An op was given too few or too many wires."""


class OperandError(WiregradError, TypeError):
    """A thing was used as a wire that is none."""


class LiteralError(WiregradError, ValueError):
    """A literal is not a finite number."""


class InputError(WiregradError, TypeError):
    """A call misses an input, has one too many, or gives one that is not a number."""


class SettingError(WiregradError, ValueError):
    """An environment variable has a value that it cannot have."""


class OutputError(WiregradError, ValueError):
    """A question about the one output was asked of a circuit that has several, or none."""


class DomainError(WiregradError, TypeError):
    """An op cannot take wires of these types."""


class ShapeError(WiregradError, ValueError):
    """Shapes do not fit each other or the op."""


class IndexingError(WiregradError, IndexError):
    """An index lies outside the axis it points into, or is none."""


class SingularError(WiregradError, np.linalg.LinAlgError):
    """A matrix has no inverse, or a decomposition does not exist."""


class NoRuleError(WiregradError, TypeError):
    """A NumPy function has no derivative rule here."""


class NotNativeError(NoRuleError):
    """A circuit, or this machine, cannot be served by native code; the interpreter can."""


class EscapeError(WiregradError, TypeError):
    """A recorded value was about to become a plain number, which would cut its gradient in silence."""


class AmbiguousIndexError(EscapeError):
    """A recorded condition is an index, and cannot tell whether of a list or of an array."""


class MutationError(WiregradError, TypeError):
    """A recorded value was about to be changed in place."""


class GradientError(WiregradError, TypeError):
    """A derivative was asked of something that has none, or in a direction that does not exist."""


class NonFiniteError(WiregradError, FloatingPointError):
    """In anomaly mode: an op made something non-finite; `fault` says how, `place` where it was written."""

    def __init__(self, message: str, *, fault: object = None, place: object = None) -> None:
        super().__init__(message)
        self.fault, self.place = fault, place


class CheckError(WiregradError, AssertionError):
    """A check of gradients found something wrong; `report` says what."""

    def __init__(self, message: str, *, report: object = None) -> None:
        super().__init__(message)
        self.report = report


class BranchError(WiregradError, ValueError):
    """A traced circuit was run where its function would go another way; `place` is the line of the branch."""

    def __init__(self, message: str, *, place: object = None) -> None:
        super().__init__(message)
        self.place = place


class RecordError(WiregradError, ValueError):
    """An op record contradicts itself or the table."""


class FormulaError(WiregradError, ValueError):
    """A formula cannot be read; `line` and `column` (from 1) say where."""

    def __init__(self, message: str, text: str = "", offset: int = 0) -> None:
        self.message, self.text, self.offset = message, text, offset
        self.line, self.column = position(text, offset)
        picture = f"\n  at line {self.line}, column {self.column}\n{self._picture()}" if text else ""
        super().__init__(message + picture)

    def __reduce__(self) -> tuple[type[FormulaError], tuple[str, str, int]]:
        return type(self), (self.message, self.text, self.offset)

    def _picture(self) -> str:
        line = self.text.split("\n")[self.line - 1]
        start = max(0, self.column - 1 - 50)
        shown = "".join(ch if ch.isprintable() else "\N{REPLACEMENT CHARACTER}" for ch in line[start : start + 100])
        return f"    {shown}\n    {' ' * (self.column - 1 - start)}^"


class LimitError(FormulaError):
    """A formula is larger than the limits for formulas allow."""


def user_line() -> str:
    """Return '; recorded at FILE:LINE' for the nearest frame outside wiregrad, or nothing."""
    frame = user_frame()
    return "" if frame is None else f"\n  recorded at {frame.f_code.co_filename}:{frame.f_lineno}"


def user_frame() -> FrameType | None:
    """Return the nearest frame outside wiregrad."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_own(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


@lru_cache(4096)
def is_own(file: str) -> bool:
    """Return whether a file is none of the user's: wiregrad's, NumPy's, or part of Python itself."""
    python = file.startswith(_PYTHON) and "-packages" not in file
    return python or file.startswith((_OWN, _NUMPY, "<wiregrad", "<frozen"))


def position(text: str, offset: int) -> tuple[int, int]:
    """Return line and column, both from 1, of a place in a text.

    >>> position("a\\nbc", 3)
    (2, 2)
    """
    before = text[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1


def suggest(name: str, known: Iterable[str]) -> str:
    """Return '; did you mean ...?' for the nearest known name, or nothing.

    >>> suggest("mulitply", ["add", "multiply"]), suggest("max", ["fmax", "maximum"])
    ('; did you mean multiply?', '; did you mean maximum?')
    """
    from difflib import get_close_matches  # noqa: PLC0415 - only a failing call pays for it

    # Each name takes some microseconds to compare, and a circuit may have millions.
    names = list(islice(known, MOST_NAMES))
    longer = [text for text in names if len(name) > 1 and text.startswith(name)]
    near = sorted(longer, key=len)[:1] or get_close_matches(name, names, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def shown(value: object, width: int = 40) -> str:
    """Write a value into a message, cut to a width.

    >>> shown("a" * 100, 10)
    "'aaaaaa..."
    """
    try:
        text = repr(value)
    except ValueError:
        # Python refuses to write integers of many thousand digits.
        return "a very long number"
    return text if len(text) <= width else text[: width - 3] + "..."
