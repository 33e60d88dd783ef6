"""The errors wiregrad raises.

Every class is a `WiregradError` and also the built-in exception that a caller would expect, so both
`except WiregradError` and `except ValueError` work. A message says what was expected, what was given, where it was
recorded, and what to try.

A name that people expect on compiled functions, circuits, runs, nodes or `wiregrad`, and that is not there, has a hint
of what to write. A name that another of these has leads there, derived from its public names: `fast.explain` to
`wg.run(f, x).explain`, `run.to_c` to `run.circuit.to_c`. Habits of other libraries have one line in a table. The code
behind `write` is run by a test. Python itself suggests names that are similar.
"""

from __future__ import annotations

import linecache
import sys
import warnings
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import islice
from os.path import dirname
from types import FrameType
from typing import Never

import numpy as np

_PACKAGE_FOLDER = dirname(__file__) + "/"
_NUMPY_FOLDER = dirname(np.__file__) + "/"
_STDLIB_FOLDER = dirname(warnings.__file__) + "/"
_SCIPY_FOLDER = "-packages/scipy/"
_FRAMEWORK_FOLDERS = ("-packages/IPython/", "-packages/ipykernel/", "-packages/jax/", "-packages/torch/")
"""Part of the path of SciPy's files; SciPy itself is optional, so it is not imported to find them."""

MAX_COMPARED_NAMES = 10_000
"""Maximum number of names that are compared when a similar name is suggested."""
MIN_SIMILARITY = 0.75
"""Minimum share of common letters of two names that are called similar."""
MIN_COMPARED_LETTERS = 4
"""Shorter names are similar only to names of the same letters: `cat` is one letter from `cast`, but no slip for it."""


class WiregradError(Exception):
    """Base of every error that wiregrad raises on purpose."""

    def __str__(self) -> str:
        # KeyError would print the message in quotes.
        return str(self.args[0]) if self.args else ""


class CircuitError(WiregradError, ValueError):
    """A circuit is not well formed."""


class CycleError(CircuitError):
    """Nodes depend on each other in a cycle, so they cannot be ordered."""


class FanoutError(CircuitError):
    """In a strict builder, a wire has two readers and no splitter."""


class DuplicateNameError(CircuitError):
    """Two nodes, or two outputs, have the same name."""


class NameSyntaxError(CircuitError):
    """A name contains characters that are not allowed."""


class TextError(CircuitError):
    """The text form of a circuit cannot be parsed."""


class FileFormatError(CircuitError):
    """A circuit file, or the JSON form of a circuit, cannot be read or written."""


class FileAccessError(WiregradError, OSError):
    """A file cannot be opened, read or written: it is missing, not permitted or a folder, or the disk is full."""


class UnknownNameError(WiregradError, KeyError):
    """No node, input or output has this name."""


class UnknownAttributeError(WiregradError, AttributeError):
    """A value, or wiregrad itself, has no attribute of this name; the message says what to write instead."""


class UnknownOpError(WiregradError, AttributeError, LookupError):
    """The op table has no op of this name."""


class UnknownOpsError(UnknownOpError):
    """A program of another framework uses ops that cannot become a circuit; `ops` has their counts and places."""

    def __init__(self, program: str, ops: Mapping[str, Sequence[object]]) -> None:
        """List all of them at once: `ops` has, for each name, the place of each use (None if it is unknown)."""
        self.ops = ops
        lines = [f"  {name}{_describe_uses(places)}" for name, places in ops.items()]
        super().__init__("\n".join([f"{program} uses ops that wiregrad does not know:", *lines]))


MAX_SHOWN_PLACES = 4
"""Maximum number of places that a message lists."""


def _describe_uses(places: Sequence[object]) -> str:
    """Describe how often and where an op is used.

    >>> _describe_uses(["model.py:3"]), _describe_uses(["model.py:3", "model.py:3", None])
    (' at model.py:3', ', 3 times, at model.py:3')
    """
    known = list(dict.fromkeys(str(place) for place in places if place is not None))
    count = f", {len(places):,} times," if len(places) > 1 else ""
    rest = f" and {len(known) - MAX_SHOWN_PLACES} more places" if len(known) > MAX_SHOWN_PLACES else ""
    return f"{count} at {', '.join(known[:MAX_SHOWN_PLACES])}{rest}" if known else count.rstrip(",")


class ArityError(WiregradError, TypeError):
    """An op was given too few or too many wires."""


class OperandError(WiregradError, TypeError):
    """An operand is not a wire, a number or the name of a node."""


class LiteralError(WiregradError, ValueError):
    """A literal is not a finite number."""


class InputError(WiregradError, TypeError):
    """A call lacks an input, has an unknown one, or one that is not a number."""


class StateError(WiregradError, ValueError):
    """Saved arrays or numbers do not fit: names are missing or unknown, or shapes differ."""


class SettingError(WiregradError, ValueError):
    """An environment variable has a value that is not allowed."""


class OutputError(WiregradError, ValueError):
    """A circuit with several outputs, or none, was asked for its only output."""


class DomainError(WiregradError, TypeError):
    """An op cannot take wires of these types."""


class ShapeError(WiregradError, ValueError):
    """Shapes do not match each other, or not the op."""


class IndexingError(WiregradError, IndexError):
    """An index is out of range for its axis, or is not an index."""


class AxisError(IndexingError, np.exceptions.AxisError):
    """An array has no such axis; as NumPy's class of this name, it is a `ValueError` and an `IndexError`."""


class SingularError(WiregradError, np.linalg.LinAlgError):
    """A matrix is singular, or a decomposition does not exist."""


class ConvergenceError(WiregradError, ArithmeticError):
    """A solver ended without a solution; the message says how far it came and what to try."""


class NoRuleError(WiregradError, TypeError):
    """A NumPy function has no derivative rule in wiregrad."""


class UnknownToLibraryError(NoRuleError, UnknownAttributeError):
    """A function of another library, which has no rule, asked a value for an attribute of arrays."""


class NotNativeError(NoRuleError):
    """A circuit cannot run as native code, or not on this machine; the interpreter can run it."""


class DeviceError(WiregradError, RuntimeError):
    """A GPU, or its driver, is missing or has failed; the message says what was looked for or what failed."""


class WorkerError(WiregradError, RuntimeError):
    """The workers of an executor failed again and again, or raised what cannot be sent to another process."""


class InterpreterWarning(RuntimeWarning):
    """A function that was to run in native code is replayed by the interpreter; the message says why."""


class GradientWarning(RuntimeWarning):
    """A gradient leaves a part out; the message says which, and what to write instead."""


class NotInstalledError(WiregradError, ImportError):
    """A package that only a part of wiregrad needs cannot be imported; the message says how to install it."""

    exit_code = 4
    """The exit code of the command `wiregrad`."""


class EscapeError(WiregradError, TypeError):
    """A recorded value was about to become a plain number, which would silently lose its gradient."""


class AmbiguousIndexError(EscapeError):
    """A recorded condition is used as an index, and it is unknown whether of a list or of an array."""


class MutationError(WiregradError, TypeError):
    """A recorded value was about to be changed in place."""


class GradientError(WiregradError, TypeError):
    """A derivative was requested of something that has none, or in a direction that does not exist."""


class NonFiniteError(WiregradError, FloatingPointError):
    """In anomaly mode: an op made something non-finite; `fault` says how, `place` where it was written."""

    def __init__(self, message: str, *, fault: object = None, place: object = None) -> None:
        super().__init__(message)
        self.fault = fault
        self.place = place


class NoQuestionError(WiregradError, LookupError):
    """A circuit offers no clear question of a kind, or of any kind."""


class CheckError(WiregradError, AssertionError):
    """A check of gradients found something wrong; `report` says what."""

    def __init__(self, message: str, *, report: object = None) -> None:
        super().__init__(message)
        self.report = report


class BranchError(WiregradError, ValueError):
    """A traced circuit was run at inputs where its function would take another branch; `place` is the branch's line."""

    def __init__(self, message: str, *, place: object = None) -> None:
        super().__init__(message)
        self.place = place


class RecordError(WiregradError, ValueError):
    """An op record contradicts itself or the table."""


class FormulaError(WiregradError, ValueError):
    """A formula cannot be read; `line` and `column` (from 1) say where, and `picture` points at it."""

    def __init__(self, message: str, text: str = "", offset: int = 0) -> None:
        self.message = message
        self.text = text
        self.offset = offset
        self.line, self.column = line_and_column(text, offset)
        self.picture = self._point_at_column() if text else ""
        place = f"\n  at line {self.line}, column {self.column}\n{self.picture}" if text else ""
        super().__init__(message + place)

    def __reduce__(self) -> tuple[type[FormulaError], tuple[str, str, int]]:
        return type(self), (self.message, self.text, self.offset)

    def _point_at_column(self) -> str:
        line = self.text.split("\n")[self.line - 1]
        start = max(0, self.column - 1 - 50)
        shown = "".join(ch if ch.isprintable() else "\N{REPLACEMENT CHARACTER}" for ch in line[start : start + 100])
        return f"    {shown}\n    {' ' * (self.column - 1 - start)}^"


class LimitError(FormulaError):
    """A formula is larger than the limits for formulas allow."""


@contextmanager
def require_package(package: str, part: str) -> Iterator[None]:
    """Import a package inside this block: if that fails, the error says which part needs it and how to install it.

    >>> with require_package("nosuch", "drawing in colour"):
    ...     import nosuch
    Traceback (most recent call last):
        ...
    wiregrad.errors.NotInstalledError: drawing in colour needs nosuch, which cannot be imported: pip install nosuch
    """
    try:
        yield
    except ImportError as error:
        raise NotInstalledError(
            f"{part} needs {package}, which cannot be imported: pip install {package}", name=error.name
        ) from error


def format_user_line() -> str:
    """Format the nearest frame outside wiregrad as a line below a message: `recorded at FILE:LINE`; empty if none."""
    frame = find_user_frame()
    return "" if frame is None else f"\n  recorded at {frame.f_code.co_filename}:{frame.f_lineno}"


def find_user_frame() -> FrameType | None:
    """Return the nearest frame outside wiregrad."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_library_file(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def warn_at_user_line(message: str, category: type[Warning]) -> None:
    """Warn at the nearest line outside wiregrad, which Python's filters show once."""
    frame = find_user_frame()
    if frame is None:
        warnings.warn(message, category, stacklevel=2)
        return
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    module = frame.f_globals.get("__name__")
    warnings.warn_explicit(message, category, frame.f_code.co_filename, frame.f_lineno, module, registry)


@lru_cache(4096)
def is_library_file(file: str) -> bool:
    """Return whether a file belongs to wiregrad, NumPy, a library beside it or Python itself, not to the user."""
    in_stdlib = file.startswith(_STDLIB_FOLDER) and "-packages" not in file
    in_packages = file.startswith((_PACKAGE_FOLDER, _NUMPY_FOLDER, "<wiregrad", "<frozen"))
    in_framework = any(folder in file.replace("\\", "/") for folder in _FRAMEWORK_FOLDERS)
    return in_stdlib or in_packages or in_framework or is_scipy_file(file)


@lru_cache(4096)
def is_scipy_file(file: str) -> bool:
    """Return whether a file belongs to SciPy."""
    return _SCIPY_FOLDER in file.replace("\\", "/")


def read_line_of_code(file: str, number: int, variables: dict[str, object] | None = None) -> str:
    """Return a line of a source file; empty if it is not known.

    All code that was executed from a text has the file name `<string>`, under which Python 3.13 finds the text of
    `python -c`; what is found there may be something else, so it is not shown.
    """
    return "" if file == "<string>" else linecache.getline(file, number, variables)


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """Return the line and the column, both counted from 1, of an offset in a text.

    >>> line_and_column("a\\nbc", 3)
    (2, 2)
    """
    before = text[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1


def suggest_name(name: str, known: Iterable[str], *, min_letters: int = MIN_COMPARED_LETTERS) -> str:
    """Return `; did you mean ...?` with the most similar known name; empty if none is similar.

    Names of fewer than `min_letters` are similar only to names of the same letters.

    >>> suggest_name("mulitply", ["add", "multiply"]), suggest_name("max", ["fmax", "maximum"])
    ('; did you mean multiply?', '; did you mean maximum?')
    >>> suggest_name("cat", ["cast", "tan"]), suggest_name("nosuch", ["cosh"])
    ('', '')
    >>> suggest_name("tahn", ["tan", "tanh"]), suggest_name("sqtr", ["sqrt", "square"])
    ('; did you mean tanh?', '; did you mean sqrt?')
    >>> suggest_name("LeakyReLU", ["relu", "leaky_relu"]), suggest_name("tnh", ["tan", "tanh"], min_letters=3)
    ('; did you mean leaky_relu?', '; did you mean tanh?')
    """
    # Comparing a name takes some microseconds, and a circuit may have millions of names.
    names = [text for text in islice(known, MAX_COMPARED_NAMES) if text != name]
    same = [text for text in names if text.lower() == name.lower()]
    completions = [text for text in names if len(name) > 1 and text.startswith(name)]
    nearest = same[:1] or sorted(completions, key=len)[:1] or _find_similar_names(name, names, min_letters)
    return f"; did you mean {nearest[0]}?" if nearest else ""


def _find_similar_names(name: str, names: list[str], min_letters: int) -> list[str]:
    """Return the most similar name in a list, or an empty list; small and capital letters are alike."""
    from difflib import get_close_matches  # noqa: PLC0415 - only a failing call pays for it

    # Exchanged letters are the commonest slip: `tahn` is nearer to `tanh` than to `tan`.
    letters = sorted(name.lower())
    same_letters = [text for text in names if len(text) == len(name) and sorted(text.lower()) == letters]
    if same_letters or len(name) < min_letters:
        return same_letters[:1]
    by_small_letters = {text.lower(): text for text in reversed(names)}
    nearest = get_close_matches(name.lower(), by_small_letters, n=1, cutoff=MIN_SIMILARITY)
    return [by_small_letters[text] for text in nearest]


def short_repr(value: object, width: int = 40) -> str:
    """Return the repr of a value for a message, in one line that is cut to a maximum width.

    >>> short_repr("a" * 100, 10)
    "'aaaaaa..."
    >>> short_repr(np.eye(2))
    'array([[1., 0.], [0., 1.]])'
    """
    try:
        text = repr(value)
    except ValueError:
        # Python refuses to convert integers of many thousand digits to text.
        return "a very long number"
    text = " ".join(line.strip() for line in text.splitlines())
    return text if len(text) <= width else text[: width - 3] + "..."


CIRCUIT_HABITS: dict[str, str] = {
    **dict.fromkeys(("grad", "gradients", "backward", "value_and_grad"), "write circuit.run(x=3.0).grads"),
    **dict.fromkeys(("eval", "evaluate", "forward", "subs"), "write circuit(x=3.0)"),
    **dict.fromkeys(("plot", "draw", "show"), "write circuit.to_svg() or circuit.explore"),
    **dict.fromkeys(("to_png", "to_pdf", "savefig"), "pictures are SVG, which browsers open; write circuit.to_svg()"),
    **dict.fromkeys(("variables", "leaves", "parameters"), "write circuit.inputs"),
    **dict.fromkeys(("n_instructions", "n_nodes", "flops", "op_count"), "write circuit.count_ops()"),
    **dict.fromkeys(("find", "search", "node", "get"), "for a node write circuit['x']"),
    "diff": "write circuit.backward_circuit()",
    "to_code": "write circuit.to_python()",
}
RUN_HABITS: dict[str, str] = {
    **dict.fromkeys(("grad", "gradients"), "write run.grads"),
    **dict.fromkeys(("value", "result", "data", "item"), "write run.output"),
    "backward": "it has run backward already; write run.grads",
    **dict.fromkeys(("plot", "draw", "show", "svg"), "write run.to_svg() or run.explore"),
    **dict.fromkeys(("to_png", "to_pdf", "savefig"), "pictures are SVG, which browsers open; write run.to_svg()"),
    **dict.fromkeys(("find", "search", "node", "get"), "for a node write run['x']"),
}
NODE_HABITS: dict[str, str] = {
    "gradient": "write node.grad",
    "data": "write node.value",
    **dict.fromkeys(("inputs", "parents", "children"), "write node.wires"),
    "explain": "write run.explain(node.name)",
}
GRADIENT_HABITS: dict[str, str] = {
    **dict.fromkeys(("grad", "gradient", "backward"), "write fast.value_and_grad(x)"),
    **dict.fromkeys(("jac", "jacfwd", "jacrev"), "write fast.jacobian(x)"),
    "hess": "write fast.hessian(x)",
    "batch_grad": "write fast.batch_value_and_grad",
    **dict.fromkeys(("forward", "eval", "run"), "write fast(x)"),
}
"""What to write instead of names that people expect on compiled circuits and functions."""
COMPILED_FUNCTION_HABITS: dict[str, str] = {
    "circuit": "write wg.trace(f, x)",
    "lower": "write print(wg.trace(f, x))",
    **dict.fromkeys(("n_instructions", "n_nodes", "flops", "op_count", "cost_analysis"), "write fast.count_ops()"),
    **{name: f"write wg.{name}" for name in ("hvp", "jvp", "vjp", "vmap")},
    **GRADIENT_HABITS,
}


class MissingName:
    """A name that a class does not have: reading it raises an error that says what to write instead.

    It is a descriptor, not a case of a `__getattr__`, which would slow every other attribute down.
    """

    __slots__ = ("message", "name")

    def __init__(self, name: str, message: str) -> None:
        self.name = name
        self.message = message

    def __get__(self, thing: object, owner: type) -> Never:
        # With a name and no object, Python appends no suggestion of its own.
        raise UnknownAttributeError(self.message, name=self.name)


def refuse_attribute(thing: object, description: str, nodes: Container[str], name: str) -> Never:
    """Raise for an attribute that a run does not have: its hint, or how the node of that name is looked up.

    A class with a `__getattr__` that calls this answers for its `MissingName` too, whose error Python has dropped.
    """
    found = next((vars(base)[name] for base in type(thing).__mro__ if name in vars(base)), None)
    if isinstance(found, MissingName):
        raise UnknownAttributeError(found.message, name=name)
    if name in nodes:
        short = description.rpartition(" ")[2]
        raise UnknownAttributeError(f"{description} has no {name!r}: for that node write {short}[{name!r}]", name=name)
    raise AttributeError(f"{type(thing).__name__!r} object has no attribute {name!r}", name=name, obj=thing)


def _list_present_names(thing: object) -> list[str]:
    found: dict[str, object] = {}
    for base in reversed(type(thing).__mro__):
        found |= vars(base)
    return [name for name in object.__dir__(thing) if not isinstance(found.get(name), MissingName)]


def add_missing_names(cls: type, description: str, hints: Mapping[str, str]) -> None:
    """Let a class answer names that it does not have with hints; `dir` leaves them out."""
    for name in hints.keys() - dir(cls):
        setattr(cls, name, MissingName(name, f"{description} has no {name!r}: {hints[name]}"))
    cls.__dir__ = _list_present_names  # type: ignore[method-assign, assignment]


def list_public_names(cls: type) -> frozenset[str]:
    """Return the public names of a class and its bases that have a docstring."""
    names = [name for base in cls.__mro__ for name, thing in vars(base).items() if getattr(thing, "__doc__", None)]
    return frozenset(name for name in names if not name.startswith("_"))


def lead_to(names: Iterable[str], owner: str) -> dict[str, str]:
    """Return hints that lead names to the object that has them.

    >>> lead_to(["to_c"], "run.circuit")
    {'to_c': 'write run.circuit.to_c'}
    """
    return {name: f"write {owner}.{name}" for name in names}


def describe_submodule_name(name: str, modules: Mapping[str, Iterable[str]]) -> str:
    """Return `: write ...` for a name that a module of wiregrad has, in small or capital letters; else nothing.

    >>> describe_submodule_name("adam", {"optim": ["Adam", "SGD"]}), describe_submodule_name("tan", {})
    (': write wg.optim.Adam', '')
    """
    for module, names in modules.items():
        same = [each for each in names if each.lower() == name.lower()]
        if same:
            return f": write wg.{module}.{same[0]}"
    return ""
