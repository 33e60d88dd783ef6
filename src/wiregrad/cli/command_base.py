"""What the commands share: what they work on, their arguments and options, and answers printed as text or JSON.

A command works on a target: a formula, a circuit file, or a function or circuit in a Python file (FILE.py:NAME).

First come files: circuits are read from them and from stdin, results are written to them and to stdout. Nothing in a
circuit file is executed. A file is written completely or not at all. Failures outside wiregrad, in files and in the
user's code, are printed without a traceback (`CommandFailure`).

Then come targets and the NAME=VALUE pairs that follow them. A value is a number, a list of numbers (an array), an array
from a file, true, false or text in quotes. The annotation of a parameter, or else its default, decides more: whole
numbers stay whole for an int, and text needs no quotes for a str.

At the end are the class of all commands about a target, its options, and how answers are printed.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import io
import json
import math
import os
import re
import sys
import traceback
import types
import typing
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol, TypeAlias

import click
import numpy as np
from click.shell_completion import CompletionItem
from numpy.typing import NDArray

from wiregrad import ir
from wiregrad.api import Circuit, ImportedCircuit, Run, load
from wiregrad.backends import interpreter
from wiregrad.cli.framework_choice import choose_framework
from wiregrad.dtypes import JsonValue, PythonNumber, format_brief_number
from wiregrad.errors import (
    FormulaError,
    InputError,
    OutputError,
    UnknownNameError,
    WiregradError,
    is_library_file,
    require_package,
    suggest_name,
)
from wiregrad.files import MAX_FILE_BYTES, decode_circuit_file, read_file_bytes, replace_file
from wiregrad.frontends.formula import NAMED_CONSTANTS, parse_formula_with_notes
from wiregrad.frontends.recording.transformed_function import TransformedFunction
from wiregrad.ir import TABLE, Node
from wiregrad.ir.circuit import find_given_name
from wiregrad.ir.columns import normalize_name
from wiregrad.ir.text_form import MAX_TEXT_BYTES, is_json
from wiregrad.lazy import load_module_lazily

EXIT_UNREADABLE = 3
"""The exit code when the input or output cannot be read, run or written."""

_RECORDED_MARK = "\n  recorded at "
"""What precedes a source location in messages of wiregrad."""


class CommandFailure(click.ClickException):
    """A file or the user's code failed."""

    exit_code = EXIT_UNREADABLE

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the message."""
        click.echo(f"wiregrad: {escape_control_characters(self.message)}", file=file, err=True)


def escape_control_characters(text: str) -> str:
    """Escape control characters, which names in a circuit file may contain, so that they cannot act on the terminal.

    >>> escape_control_characters("red" + chr(27))
    'red\\\\x1b'
    """
    return "".join(ch if ch.isprintable() or ch == "\n" else repr(ch)[1:-1] for ch in text)


def shorten_words(text: str) -> str:
    """Shorten words of 1,000 characters or more in a message.

    >>> len(shorten_words("got " + "9" * 1_000_000))
    84
    """
    return re.sub(r"\S{1000,}", lambda match: match[0][:77] + "...", text)


@contextmanager
def run_user_code(what: str, place: str) -> Iterator[None]:
    """Run the user's code, which begins at `place`: its prints go to stderr, its errors become command failures."""
    try:
        with redirect_stdout(sys.stderr):
            yield
    except click.ClickException:
        raise
    except WiregradError as error:
        raise CommandFailure(_add_user_line(error, place)) from error
    except (Exception, SystemExit) as error:
        line = locate_error(error)
        if not line:
            # No line of the user's code was running, so this is a bug in wiregrad.
            raise
        raise CommandFailure(f"{what} raised {format_error(error)}{line}") from error


def _add_user_line(error: WiregradError, place: str) -> str:
    """Return the message of an error with the user's line that caused it, or else the line where their code begins."""
    text = str(error)
    line = locate_error(error)
    if line:
        return text if _RECORDED_MARK in text else text + line
    # The error arose after the user's code had run, so the location in its message is a line of this command.
    return text.partition(_RECORDED_MARK)[0] + (f"\n  at {place}" if place else "")


def format_error(error: BaseException) -> str:
    """Format an error on one line: its type and message."""
    message = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def locate_error(error: BaseException) -> str:
    """Format the line of the user's code that raised an error as a suffix of a message; empty if there is none."""
    if isinstance(error, SyntaxError) and error.filename and not error.filename.startswith("<"):
        return _format_line(error.filename, error.lineno, error.text)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_user_file(frame.filename)]
    return _format_line(frames[-1].filename, frames[-1].lineno, frames[-1].line) if frames else ""


def _format_line(file: str, line: int | None, text: str | None) -> str:
    return f"\n  at {file}:{line}" + (f"\n    {text.strip()}" if text and text.strip() else "")


def _is_user_file(file: str) -> bool:
    return not is_library_file(file) and "-packages" not in file


STDIO = "-"
"""The file name that means stdin or stdout."""
FORMULA_FORM = "formula"
TEXT_FORM = "text"
JSON_FORM = "json"
ARCHIVE_FORM = "wg"
CIRCUIT_FORMS = (TEXT_FORM, JSON_FORM, ARCHIVE_FORM)
"""The forms that store everything of a circuit."""
FORM_ENDINGS = {".wg": ARCHIVE_FORM, ".json": JSON_FORM, ".txt": TEXT_FORM, ".circuit": TEXT_FORM}
"""The form of a circuit file, by the ending of its name."""

# In a formula, no line begins with one of these words followed by a name.
_TEXT_FORM_LINE = re.compile(r"^[ \t]*(circuit|input|output)[ \t]+[\w%]", re.MULTILINE)


def file_ending(path: str) -> str:
    """Return the ending of a file name in lower case."""
    return Path(path).suffix.lower()


def join_endings(endings: Iterable[str]) -> str:
    """Join endings for a message: `.a, .b or .c`."""
    *most, last = endings
    return f"{', '.join(most)} or {last}" if most else last


def read_circuit(source: str, form: str | None = None) -> tuple[Circuit, str]:
    """Return the circuit in a formula, a circuit file or stdin, and the form that it has there.

    >>> read_circuit("a * b")
    (Circuit(2 inputs, 1 node, 0 splitters, output f), 'formula')
    """
    if source == STDIO:
        data = _read_stdin()
        form = form or _detect_form(data)
        return _parse_circuit(data, form, "stdin"), form
    if form is not None and not Path(source).exists():
        raise click.UsageError(f"there is no file {source}; --from is the form of a file or of stdin, not of a formula")
    form = form or (FORM_ENDINGS.get(file_ending(source)) if "\n" not in source else None)
    return (_read_formula(source), FORMULA_FORM) if form is None else _read_file(source, form)


MAX_FILE_NAME = 250
"""Longer texts are not looked up as file names: systems refuse them."""


def parse_noted_formula(text: str) -> Circuit:
    """Return the circuit of a formula; what its writer may not have meant is noted on stderr.

    >>> parse_noted_formula("2x")
    Circuit(1 input, 1 node, 0 splitters, output f)
    """
    graph, notes = parse_formula_with_notes(text)
    for note in notes:
        click.echo(f"note: {note.message}", err=True)
    return Circuit(graph.columns)


def _read_formula(source: str) -> Circuit:
    try:
        return parse_noted_formula(source)
    except FormulaError:
        _refuse_path(source)
        raise


_PATH_AND_NAME = re.compile(r"(.+?)(?:\.py)?[:.](\w+)")
"""What people write for FILE.py:NAME: `model:loss`, `model.loss`, `model.py.loss`."""


def _refuse_path(source: str) -> None:
    """Raise if what is no formula is the name of a file or folder, or of a function in a file."""
    if len(source) >= MAX_FILE_NAME or "\0" in source:
        return
    if Path(source).is_file():
        endings = join_endings(FORM_ENDINGS)
        raise CommandFailure(
            f"{source} is a file, but its name does not end in {endings}; give it as - < {source}"
        ) from None
    if Path(source).is_dir():
        raise click.UsageError(f"{source} is a folder; wanted a formula, a circuit file or FILE.py:FUNCTION") from None
    match = _PATH_AND_NAME.fullmatch(source)
    if match is not None and Path(f"{match[1]}.py").is_file():
        raise click.UsageError(
            f"{source} is no formula; for the function in the file write {match[1]}.py:{match[2]}"
        ) from None


def _read_file(path: str, form: str) -> tuple[Circuit, str]:
    try:
        if not Path(path).exists():
            endings = join_endings(FORM_ENDINGS)
            raise click.UsageError(
                f"there is no file {path}; wanted a formula, a circuit file ({endings}) or FILE.py:FUNCTION"
            )
        if form == ARCHIVE_FORM:
            return load(path), form
        data = read_file_bytes(Path(path), MAX_TEXT_BYTES)
    except (OSError, ValueError) as error:
        if isinstance(error, WiregradError):
            raise
        raise CommandFailure(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    if form == TEXT_FORM:
        form = JSON_FORM if is_json(data) else _detect_text_form(_decode_text(data, path))
    return _parse_circuit(data, form, path), form


def _read_stdin() -> bytes:
    if sys.stdin is None:
        raise CommandFailure("cannot read stdin: it is closed")
    # One byte more than allowed is read, to see whether there is too much.
    read = sys.stdin.buffer.read if hasattr(sys.stdin, "buffer") else lambda most: sys.stdin.read(most).encode()
    data: bytes = read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise CommandFailure(f"cannot read stdin: it has more than {MAX_FILE_BYTES:,} bytes")
    return data


def _detect_form(data: bytes) -> str:
    """Detect the form of data from stdin."""
    if data[8:9] == b"{" and data[4:8] == bytes(4):
        return ARCHIVE_FORM
    return JSON_FORM if is_json(data) else _detect_text_form(data.decode("utf-8", "replace"))


def _detect_text_form(text: str) -> str:
    return TEXT_FORM if _TEXT_FORM_LINE.search(text) else FORMULA_FORM


def _parse_circuit(data: bytes, form: str, where: str) -> Circuit:
    """Parse data in the given form; errors name the file it came from."""
    try:
        if form == ARCHIVE_FORM:
            return Circuit(decode_circuit_file(data).columns)
        if form == JSON_FORM:
            return Circuit.from_json(data)
        text = _decode_text(data, where)
        return parse_noted_formula(text) if form == FORMULA_FORM else Circuit.from_text(text)
    except FormulaError as error:
        reason = "no line begins with circuit, input or output, as the text form has, and it is not a formula either"
        raise CommandFailure(f"cannot read {where} as a circuit: {reason}: {error}") from None
    except WiregradError as error:
        raise CommandFailure(f"cannot read {where} as a circuit: {error}") from None


def _decode_text(data: bytes, where: str) -> str:
    try:
        # Files from Windows may begin with a byte order mark and end lines with carriage returns.
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise CommandFailure(f"cannot read {where}: it is not utf-8 text") from None


def write_output(output: str, data: bytes) -> None:
    """Write to stdout or to a file, the latter completely or not at all."""
    if output == STDIO:
        click.echo(data, nl=False)
        return
    replace_file(Path(output), [memoryview(data)])
    click.echo(f"wrote {output}", err=True)


def encode_lines(text: str) -> bytes:
    """Encode a text for a file: UTF-8, with a newline at the end."""
    return (text if text.endswith("\n") else f"{text}\n").encode()


if TYPE_CHECKING:
    from wiregrad import exchange
    from wiregrad.api import diagnostics, values
    from wiregrad.exchange import observed_run
    from wiregrad.inspect import check
    from wiregrad.inspect.blame import Blame
    from wiregrad.inspect.check import GradientCheck
else:
    # A formula needs no tracing.
    check = load_module_lazily("wiregrad.inspect.check")
    diagnostics = load_module_lazily("wiregrad.api.diagnostics")
    exchange = load_module_lazily("wiregrad.exchange")
    values = load_module_lazily("wiregrad.api.values")


ArgumentValue: TypeAlias = PythonNumber | str | NDArray[Any]
ParameterTypes = frozenset[Any]
"""The types that a parameter accepts; empty if neither annotation nor default says."""

WHOLE_NUMBER = re.compile(r"[+-]?\d[\d_]*")
_KNOWN_WORDS = {"nan": math.nan, "inf": math.inf, "infinity": math.inf, "true": True, "false": False}
_KNOWN_WORDS |= NAMED_CONSTANTS
_MANY_DIGITS = re.compile(r"\d[\d_]{4300,}")
"""A whole number with more digits than Python reads."""
_PARSE_ERRORS = (ValueError, SyntaxError, TypeError, MemoryError, RecursionError, OverflowError)


def join_spaced_pairs(words: Iterable[str]) -> list[str]:
    """Join what was written as NAME = VALUE, with spaces around the sign, to one word.

    >>> join_spaced_pairs(["a", "=", "2", "b=", "-3", "c", "=inf", "d=4"])
    ['a=2', 'b=-3', 'c=inf', 'd=4']
    """
    pairs: list[str] = []
    for word in words:
        before = pairs[-1] if pairs else ""
        name, equals, value = before.partition("=")
        is_value = bool(name and equals) and not value.strip("=") and "=" not in word
        is_sign_and_value = bool(name) and not equals and word.startswith("=")
        if is_value or is_sign_and_value:
            pairs[-1] = before + word
        else:
            pairs.append(word)
    return pairs


def split_pairs(words: Iterable[str]) -> dict[str, str]:
    """Split the words of a command line into names and the texts of their values.

    >>> split_pairs(["a=2", "b = [1, 2]", "c", "=", "3"])
    {'a': '2', 'b': '[1, 2]', 'c': '3'}
    """
    values: dict[str, str] = {}
    pairs = join_spaced_pairs(words)
    for text, following in zip_longest(pairs, pairs[1:], fillvalue=""):
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not name or value.startswith("="):
            raise unreadable_value_error(text, _advise_pair(text, following))
        if name in values:
            raise click.UsageError(f"{name} is given twice")
        values[name] = value
    return values


_OTHER_PAIR = re.compile(r"-*(\w+)(?:==+|:=?)(.+)")
"""What people write for NAME=VALUE: `a:2`, `a==2`."""


def _advise_pair(text: str, following: str) -> str:
    """Return what to write for a word that is no NAME=VALUE, as the end of a message; empty if it may be anything."""
    pair = _OTHER_PAIR.fullmatch(text)
    if pair is not None:
        return f"; write {pair[1]}={pair[2]}"
    if text.isidentifier() and _is_number(following):
        return f"; write {text}={following}"
    # The shell replaces a * that stands alone by the names of files.
    is_part_of_formula = text == "-" or (text[:1] in TABLE.infix and text[:1] != "-")
    return '; a formula with spaces stands in quotes: "a * b"' if is_part_of_formula or os.path.exists(text) else ""


def _is_formula_text(text: str) -> bool:
    """Return whether a text reads as a formula and not as NAME=VALUE: `y = x*x`, `x*x + 1`.

    >>> [_is_formula_text(text) for text in ("x*x + 1", "y = x*x", "x=1e+5", "x = 2", "x=@a+b.csv", "x=[1, 2]")]
    [True, True, False, False, False, False]
    """
    value = text.rpartition("=")[2].strip()
    return bool(re.search(r"[-+*/^(;]", value)) and value[:1] not in "@['\"" and not _is_number(value)


def _is_number(text: str) -> bool:
    with suppress(ValueError):
        return math.isfinite(float(text))
    return False


def unreadable_value_error(text: str, reason: str = "") -> click.UsageError:
    """Return the error for a value that cannot be read, with a reason behind it."""
    if _MANY_DIGITS.search(text):
        return click.UsageError(f"a whole number has at most 4,300 digits; got {_shorten_text(text)!r}")
    return click.UsageError(f"wanted NAME=NUMBER, like a=2; got {_shorten_text(text)!r}{reason or ARRAY_ADVICE}")


def _shorten_text(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."


class _TooLargeError(Exception):
    """A number is too large for a float; it must not silently become infinity."""


def read_value(name: str, text: str, kinds: ParameterTypes = frozenset()) -> ArgumentValue:
    """Read the value in a text; `kinds` are the types that the parameter accepts.

    >>> read_value("a", "2"), read_value("n", "2", frozenset([int])), read_value("x", "[1, inf]")
    (2.0, 2, array([ 1., inf]))
    >>> read_value("a", "2*pi"), read_value("n", "2*3", frozenset([int]))
    (6.283185307179586, 6)
    """
    if text.startswith(ARRAY_FILE_MARK) and str not in kinds:
        return _read_file_value(name, text.removeprefix(ARRAY_FILE_MARK), kinds)
    try:
        if WHOLE_NUMBER.fullmatch(text) and kinds & {int, bool} and float not in kinds:
            return int(text) if int in kinds else bool(int(text))
        if str not in kinds:
            return _parse_literal(text)
        return text if text[:1] not in ("'", '"') else _parse_literal(text)
    except _TooLargeError:
        pair = _shorten_text(f"{name}={text}")
        raise click.UsageError(
            f"{pair!r} is too large: a number is below about 1.8e308, and infinity is written inf"
        ) from None
    except _PARSE_ERRORS:
        number = _evaluate_formula(name, text)
        if not kinds & {int, bool} or float in kinds:
            return number
        if int in kinds and number.is_integer():
            return int(number)
        raise unreadable_value_error(f"{name}={text}", f", which is {number}, for a parameter that is whole") from None


_SEPARATE_PAIRS = re.compile(r"\w+=[^\s,;=]+(?:[\s,;]+\w+=[^\s,;=]+)+[\s,;]*|\w+=[^\s,;=]+\s*;")
"""Several NAME=VALUE in one word, or one with a semicolon: `a=2,b=3`, `a=2 b=3`, `a=2;`."""
ARRAY_ADVICE = "; a FILE.py:FUNCTION takes NAME=[NUMBERS] too"
LIST_ADVICE = "; a list has numbers alone, and all its rows have one length, as in [[1, 2], [3, 4]]"
MAX_VALUE_LETTERS = 200
"""Maximum length of a formula in the place of a number."""


def _evaluate_formula(name: str, text: str) -> float:
    """Return the number that a formula without inputs gives, such as `2*pi`."""
    pair = f"{name}={text}"
    if (words := _SEPARATE_PAIRS.fullmatch(pair)) is not None:
        written = " ".join(re.split(r"[\s,;]+", words[0].rstrip(",; ")))
        quotes = ", without quotes" if " " in pair else ""
        raise unreadable_value_error(pair, f"; write {written}{quotes}") from None
    if file_ending(text) in ARRAY_ENDINGS:
        raise unreadable_value_error(pair, f"; for the array in a file write {name}={ARRAY_FILE_MARK}{text}") from None
    if text.startswith("["):
        raise unreadable_value_error(pair, LIST_ADVICE) from None
    if not text or len(text) > MAX_VALUE_LETTERS or any(mark in text for mark in "=;[\"'\n"):
        raise unreadable_value_error(pair) from None
    if "," in text and all(map(_is_number, text.strip("(,)").split(","))):
        raise unreadable_value_error(pair, _advise_commas(text)) from None
    try:
        formula = Circuit(parse_formula_with_notes(text)[0].columns)
    except FormulaError as error:
        raise unreadable_value_error(pair, f": {str(error).splitlines()[0]}") from None
    if formula.inputs:
        raise unreadable_value_error(pair, "; Euler's number is exp(1)" if text == "e" else "")
    with np.errstate(all="ignore"):
        number = float(formula())
    if not math.isfinite(number):
        raise click.UsageError(f"{pair!r} is {number}; a formula in place of a number must be finite")
    return number


def _advise_commas(text: str) -> str:
    """Return what to write for numbers with commas: several values, a decimal number or a list.

    >>> _advise_commas("2,"), _advise_commas("(1,2)")
    ('; values have spaces between them, and no commas', '; a list stands in brackets: [1,2]')
    >>> _advise_commas("1,5")
    '; a decimal number has a point: 1.5; a list stands in brackets: [1,5]'
    """
    numbers = text.strip("(,)")
    if "," not in numbers:
        return "; values have spaces between them, and no commas"
    is_decimal = re.fullmatch(r"[+-]?\d+,\d+", text)
    decimal = f"; a decimal number has a point: {text.replace(',', '.')}" if is_decimal else ""
    return f"{decimal}; a list stands in brackets: [{numbers}]"


def _parse_literal(text: str) -> ArgumentValue:
    try:
        number = float(text)
    except ValueError:
        value = _parse_expression(text)
    else:
        if math.isinf(number) and any(ch.isdigit() for ch in text):
            raise _TooLargeError
        return number
    if isinstance(value, list):
        return _make_array(value)
    if not isinstance(value, bool | int | float | complex | str):
        raise TypeError
    return float(value) if type(value) is int else value


def _parse_expression(text: str) -> object:
    """Read a text as a Python literal in which nan, inf, true and false are known words."""
    with warnings.catch_warnings():
        # Python warns about invalid escapes such as "\d".
        warnings.simplefilter("ignore")
        tree = ast.parse(text, mode="eval")
    return ast.literal_eval(_WordReplacer().visit(tree))


class _WordReplacer(ast.NodeTransformer):
    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if isinstance(node.value, float | complex) and not np.isfinite(node.value):
            raise _TooLargeError
        return node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        word = _KNOWN_WORDS.get(node.id.lower())
        return node if word is None else ast.copy_location(ast.Constant(word), node)


def _make_array(value: list[Any]) -> NDArray[Any]:
    array = np.array(value)
    if array.dtype.kind not in "fcbiu":
        raise TypeError
    return array.astype(float) if array.dtype.kind in "iu" else array


ARRAY_FILE_MARK = "@"
"""What stands before the name of a file in the place of a value: `x=@data.npy`."""
ARRAY_ENDINGS = (".npy", ".csv")
_MAX_SHOWN_CELL = 40


def _read_file_value(name: str, path: str, kinds: ParameterTypes) -> ArgumentValue:
    """Return the array in a file; one without axes is a number, which is read as one that was typed."""
    array = _read_array_file(path)
    if array.ndim:
        if array.dtype.kind in "iu":
            note = f"{name} is an array of {array.dtype}, which has no gradient; for one, save it as floats"
            click.echo(f"note: {note}", err=True)
        return array
    number: PythonNumber = array.item()
    return float(number) if type(number) is int and int not in kinds else number


def _read_array_file(path: str) -> NDArray[Any]:
    """Return the array in a file, with the dtype that it has there.

    A CSV file has floats; one row or one column of them is a vector. Python objects are never loaded.
    """
    ending = file_ending(path)
    if ending not in ARRAY_ENDINGS:
        raise click.UsageError(
            f"wanted an array in a file that ends in {join_endings(ARRAY_ENDINGS)}, like x=@data.npy; got {path!r}"
        )
    if not os.path.exists(path):
        raise click.UsageError(f"there is no file {path}; wanted a file with an array")
    data = read_file_bytes(Path(path))
    array = _parse_csv(_decode_text(data, path), path) if ending == ".csv" else _parse_npy(data, path)
    if array.dtype.kind not in "fcbiu":
        raise CommandFailure(f"cannot read {path}: wanted an array of numbers; it has dtype {array.dtype}")
    return array


def _parse_npy(data: bytes, path: str) -> NDArray[Any]:
    try:
        array = np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)
    except (ValueError, EOFError, MemoryError) as error:
        reason = f"it is no complete .npy file: {error}"
        if "Object arrays" in str(error):
            reason = "it has Python objects, which are not loaded; save an array of numbers"
        raise CommandFailure(f"cannot read {path}: {reason}") from None
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _parse_csv(text: str, path: str) -> NDArray[np.float64]:
    with warnings.catch_warnings():
        # NumPy warns about a file without numbers.
        warnings.simplefilter("ignore")
        try:
            array = np.loadtxt(io.StringIO(text), delimiter=",")
        except ValueError:
            raise CommandFailure(f"cannot read {path}: {_describe_wrong_csv(text)}") from None
    if not array.size:
        raise CommandFailure(f"cannot read {path}: it has no numbers")
    if np.count_nonzero(np.isinf(array)) > text.lower().count("inf"):
        raise CommandFailure(f"cannot read {path}: a number in it is too large; infinity is written inf")
    return array


def _describe_wrong_csv(text: str) -> str:
    """Say which cell of a table is no number, or that its rows differ in length.

    >>> _describe_wrong_csv("width,height")
    "line 1 has 'width', which is no number; a table has numbers alone, with commas between them"
    """
    for number, line in enumerate(text.splitlines(), 1):
        cells = line.partition("#")[0].split(",")
        for cell in cells if cells != [""] else []:
            try:
                float(cell)
            except ValueError:
                shown = cell.strip()[:_MAX_SHOWN_CELL]
                return (
                    f"line {number} has {shown!r}, which is no number; "
                    "a table has numbers alone, with commas between them"
                )
    return "its lines have different counts of numbers"


def parameter_types(parameter: inspect.Parameter) -> ParameterTypes:
    """Return the types that a parameter accepts, from its annotation or else from its default.

    >>> def f(x, n: int | None, mode="mean"): ...
    >>> parameters = inspect.signature(f, eval_str=True).parameters.values()
    >>> [sorted(kind.__name__ for kind in parameter_types(parameter)) for parameter in parameters]
    [[], ['NoneType', 'int'], ['str']]
    """
    annotation = parameter.annotation
    if annotation is parameter.empty:
        return frozenset() if parameter.default is parameter.empty else frozenset([type(parameter.default)])
    if isinstance(annotation, str):
        annotation = getattr(builtins, annotation, object)
    origin = typing.get_origin(annotation)
    if origin in (types.UnionType, typing.Union):
        return frozenset(typing.get_args(annotation))
    if origin is typing.Literal:
        return frozenset(map(type, typing.get_args(annotation)))
    return frozenset([annotation])


_FILE_TARGET = re.compile(r"(.+\.py)(?::(.*))?")
TARGET_MODULE = "wiregrad_target"
"""The name that the file runs as, so that its `if __name__ == "__main__"` part does not run."""


def load_from_file(target: str) -> Callable[..., Any] | None:
    """Return the function or circuit that FILE.py:NAME names; None if the target has another form."""
    match = _FILE_TARGET.fullmatch(target)
    if match is None:
        return None
    path = Path(match[1])
    name = match[2] or ""
    if not path.is_file():
        raise click.UsageError(f"there is no file {path}; wanted a formula, or FILE.py:FUNCTION")
    names = _run_file(path)
    function: object = names.get(name)
    if isinstance(function, type) and (own := _advise_class(function)):
        raise click.UsageError(f"{name} in {path} is a class; {own}")
    if callable(function):
        return function
    known = [key for key, value in names.items() if _is_own_function(value) or isinstance(value, ir.CircuitGraph)]
    listed = f"\n  it has {', '.join(known) or 'no functions'}"
    if not name:
        raise click.UsageError(f"{path} is a file; wanted a function in it, {path}:NAME{listed}")
    raise click.UsageError(f"{path} has no function called {name}{suggest_name(name, known)}{listed}")


def _run_file(path: Path) -> dict[str, Any]:
    """Run a file and return its global names. It can import its neighbours, and no bytecode of it is written."""
    code = _compile_file(path)
    module = types.ModuleType(TARGET_MODULE)
    module.__file__ = str(path)
    # Dataclasses and pickle look their module up in sys.modules.
    sys.modules[TARGET_MODULE] = module
    sys.path.insert(0, str(path.parent))
    arguments = sys.argv
    # A file that reads its arguments when it is imported would find those of this command.
    sys.argv = [str(path)]
    try:
        with run_user_code(str(path), str(path)):
            exec(code, vars(module))
    finally:
        sys.argv = arguments
    return vars(module)


def _compile_file(path: Path) -> types.CodeType:
    try:
        # The file has its own future imports, and not those of this one.
        return compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    except OSError as error:
        raise CommandFailure(f"cannot read {path}: {error.strerror}") from None
    except (SyntaxError, ValueError) as error:
        raise CommandFailure(f"cannot read {path}: {format_error(error)}{locate_error(error)}") from None


def _advise_class(kind: type) -> str:
    """Return what to name in place of a class whose objects, or whose rule, compute; empty for another class."""
    name = kind.__name__
    if hasattr(kind, "apply") and hasattr(kind, "backward"):
        return f"name a function that calls it, such as: def f(x): return {name}.apply(x)"
    if callable(getattr(kind, "forward", None)):
        return f"name an object of it, such as: model = {name}()"
    return ""


def _is_own_function(value: object) -> bool:
    return isinstance(value, types.FunctionType | TransformedFunction) and value.__module__ == TARGET_MODULE


def locate_function(function: Callable[..., Any]) -> str:
    """Return the FILE:LINE of a function; empty if it is not written in Python."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return "" if code is None else f"{code.co_filename}:{code.co_firstlineno}"


def function_name(function: Callable[..., Any]) -> str:
    """Return the name of a function or callable object."""
    return str(getattr(function, "__name__", type(function).__name__))


MAX_LISTED_NAMES = 40
"""Maximum number of names listed in an error message."""
_WHOLE_WANTED = re.compile(r"\b(an index|an int|integer|integers)\b")
"""Words in the messages of Python and NumPy where they got a float but need a whole number."""


class CommandTarget(Protocol):
    """What every target can do, whether it is a formula, a circuit or a function."""

    def run(self) -> Run:
        """Run it forward and backward."""

    def blame(self) -> Blame | observed_run.ObservedBlame:
        """Find what made something non-finite."""

    def check(self, order: int) -> GradientCheck | observed_run.BackwardCheck:
        """Compare its rules with differences."""

    def choose_picture(self) -> Circuit | Run:
        """Return what a picture shows."""

    def trace_circuit(self) -> tuple[Circuit, Mapping[str, Any]]:
        """Return its circuit, and the values that were given for the inputs."""


_VALUE_ALONE = re.compile(r"\s*\w+\s*=[^=;\n]+")


def parse_target(text: str, values: Sequence[str], form: str | None = None) -> CommandTarget:
    """Return the target for a text and NAME=VALUE pairs; `-` is stdin, and `form` the form of a circuit file."""
    loaded = load_from_file(text) if form is None else None
    if loaded is None:
        loaded, form = read_circuit(text, form)
        if form == FORMULA_FORM:
            if values and not loaded.inputs and _VALUE_ALONE.fullmatch(text):
                raise click.UsageError(f"wanted a formula before the values; got {text!r} in its place")
            return CircuitTarget(loaded, _read_numbers(values))
    texts = split_pairs(values)
    if isinstance(loaded, ir.CircuitGraph):
        return CircuitTarget(Circuit(loaded.columns), _read_typed_values(loaded, texts))
    args, kwargs = bind_arguments(_find_signature_holder(loaded), texts)
    choice = choose_framework(loaded)
    if choice.note:
        click.echo(f"note: {choice.note}", err=True)
    if choice.framework is not None:
        return FrameworkTarget(loaded, choice.framework, args, kwargs)
    return FunctionTarget(loaded, texts, args, kwargs)


def _find_signature_holder(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what has the parameters of a callable: of a module of PyTorch its method `forward`."""
    forward = getattr(function, "forward", None)
    return forward if callable(forward) and not inspect.isfunction(function) else function


def choose_output(target: CommandTarget, name: str) -> CircuitTarget:
    """Return the circuit of a target with the named node as its only output.

    >>> choose_output(parse_target("e = a + b; f = e * c", ["a=2", "b=-3", "c=10"]), "e").run().output
    -1.0
    """
    circuit, values = target.trace_circuit()
    if isinstance(target, FrameworkTarget):
        click.echo(f"note: --output asks the circuit, by wiregrad's rules, not those of {target.framework}", err=True)
    return CircuitTarget(circuit.with_output(check_node_name(circuit, name)), values)


def check_node_name(circuit: ir.CircuitGraph, name: str) -> str:
    """Return the name if the circuit has a node of that name; otherwise raise an error that lists the names."""
    try:
        circuit.index(name)
    except UnknownNameError as error:
        names = list(circuit.columns.names)
        listed = ", ".join([_list_name(circuit, node, text) for node, text in names[:MAX_LISTED_NAMES]])
        more = f" and {len(names) - MAX_LISTED_NAMES} more" if len(names) > MAX_LISTED_NAMES else ""
        raise click.UsageError(f"{error}\n  it has {listed}{more}") from None
    return name


def _list_name(circuit: ir.CircuitGraph, node: int, name: str) -> str:
    """Return a name for a list, with what it stands for if a formula gave it: `t1 (a * b)`."""
    return name if find_given_name(circuit, node) is not None else f"{name} ({circuit.title_of(node)})"


def _read_typed_values(circuit: ir.CircuitGraph, texts: Mapping[str, str]) -> dict[str, Any]:
    """Read the values of a circuit; integers and booleans stay what they are where the circuit has such inputs."""
    kinds = {name: circuit.type_of(circuit.index(name)).dtype.kind for name in circuit.inputs}
    accepted = {"i": frozenset([int]), "b": frozenset([bool])}
    return {
        name: read_value(name, text, accepted.get(kinds.get(name, ""), frozenset())) for name, text in texts.items()
    }


def _read_numbers(values: Sequence[str]) -> dict[str, float]:
    """Read the values of a formula, which takes only numbers."""
    numbers: dict[str, float] = {}
    for name, text in split_pairs(values).items():
        value = read_value(name, text)
        if not isinstance(value, float):
            pair = _shorten_text(f"{name}={text}")
            raise click.UsageError(
                f"the inputs of a formula are numbers; got {pair!r}; a FILE.py:FUNCTION takes arrays, complex numbers, "
                "true, false and text"
            )
        numbers[name] = value
    return numbers


@dataclass(frozen=True)
class CircuitTarget:
    """A circuit and the values of its inputs."""

    circuit: Circuit
    values: Mapping[str, Any]

    def run(self) -> Run:
        """Run it forward and backward."""
        return self.circuit.run(self.values)

    def blame(self) -> Blame:
        """Find what made something non-finite; there may be arrays and several outputs."""
        return run_all_outputs(self.circuit, self.values).blame()

    def check(self, order: int) -> GradientCheck:
        """Compare its rules with differences."""
        return check.check_gradients(self.circuit, [self.values], order=order)

    def choose_picture(self) -> Circuit | Run:
        """Return a run if there are values and a scalar output, else the circuit alone."""
        with suppress(OutputError):
            return self.run() if self.values else self.circuit
        return self.circuit

    def trace_circuit(self) -> tuple[Circuit, Mapping[str, Any]]:
        """Return the circuit and the values."""
        values = {normalize_name(name): value for name, value in self.values.items()}
        interpreter.check_input_names(values, self.circuit.inputs)
        return self.circuit, values


def run_all_outputs(circuit: Circuit, values: Mapping[str, Any]) -> Run:
    """Run a circuit backward from all elements of all outputs at once.

    >>> run_all_outputs(read_circuit("a * b")[0], {"a": 2.0, "b": 3.0}).grads
    {'a': 3.0, 'b': 2.0}
    """
    return Run.from_backend_run(interpreter.run_all_outputs(circuit, interpreter.bind_inputs(circuit, [values], {})))


@dataclass(frozen=True)
class FunctionTarget:
    """A Python function and its arguments; `texts` are the arguments as they were written."""

    function: Callable[..., Any]
    texts: Mapping[str, str]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def run(self) -> Run:
        """Trace it and run its circuit forward and backward."""
        with self._report_failures():
            return values.run(self.function, *self.args, **self.kwargs)

    def blame(self) -> Blame:
        """Find what made something non-finite; the function may return arrays, and several things."""
        with self._report_failures():
            return diagnostics.blame(self.function, *self.args, **self.kwargs)

    def check(self, order: int) -> GradientCheck:
        """Compare its rules with differences."""
        with self._report_failures():
            return check.check_gradients(self.function, self.args, self.kwargs, order=order)

    def choose_picture(self) -> Circuit | Run:
        """Return a run, or the circuit alone if the function does not return a single number."""
        with self._report_failures():
            try:
                return values.run(self.function, *self.args, **self.kwargs)
            except OutputError:
                return values.trace(self.function, *self.args, **self.kwargs)

    def trace_circuit(self) -> tuple[Circuit, Mapping[str, Any]]:
        """Trace it, and return the value of every input."""
        with self._report_failures():
            circuit, inputs = values.trace_with_inputs(self.function, self.args, self.kwargs)
        return circuit, dict(zip(circuit.inputs, inputs, strict=True))

    @contextmanager
    def _report_failures(self) -> Iterator[None]:
        """Turn errors of the function into failures, with a hint if a float was given for a whole number."""
        try:
            with run_user_code(function_name(self.function), locate_function(self.function)), np.errstate(all="ignore"):
                yield
        except CommandFailure as failure:
            hint = self._whole_number_hint() if _WHOLE_WANTED.search(failure.message) else ""
            raise CommandFailure(failure.message + hint) from failure.__cause__

    def _whole_number_hint(self) -> str:
        """Return how to pass whole numbers that were read as floats; empty if there are none."""
        texts = [
            f"{name}={text}"
            for name, text in self.texts.items()
            if WHOLE_NUMBER.fullmatch(text) and isinstance(self._bound_argument(name), float)
        ]
        if not texts:
            return ""
        are = "is a float" if len(texts) == 1 else "are floats"
        name = texts[-1].partition("=")[0]
        return f"\n  {' and '.join(texts)} {are} here; for a whole number annotate the parameter: {name}: int"

    def _bound_argument(self, name: str) -> object:
        return inspect.signature(self.function).bind(*self.args, **self.kwargs).arguments.get(name)


@dataclass(frozen=True)
class FrameworkTarget:
    """A function of PyTorch or JAX, and its arguments as NumPy arrays and numbers.

    What is not finite, and rules of the user's own, are answered by the framework's own run. Everything else is read
    off the circuit, whose gradients follow wiregrad's rules; a note says where the framework's own differ.
    """

    function: Callable[..., Any]
    framework: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def run(self) -> Run:
        """Run its circuit forward and backward, and compare the gradients with the framework's own."""
        run: Run = self._import_circuit().run()
        self.note_differences(run)
        return run

    def blame(self) -> observed_run.ObservedBlame:
        """Find what made something non-finite in the framework's own run."""
        answer: observed_run.ObservedBlame = self._watch().blame()
        return answer

    def check(self, order: int, meant: Sequence[str] = ()) -> GradientCheck | observed_run.BackwardCheck:
        """Compare the user's own rules with what they are rules of, then those of the circuit with differences.

        Rules in `meant` are left out. JAX's are nodes of the circuit, which is then not compared.
        """
        own: observed_run.BackwardCheck = self._watch().check_backward(straight_through=meant)
        is_whole = not meant or self.framework != "jax"
        return self._make_target().check(order) if own.ok and is_whole else own

    def choose_picture(self) -> Circuit | Run:
        """Return a run, or the circuit alone if the function does not return a single number."""
        picture = self._make_target().choose_picture()
        if isinstance(picture, Run):
            self.note_differences(picture)
        return picture

    def trace_circuit(self) -> tuple[Circuit, Mapping[str, Any]]:
        """Return its circuit, and the values that its inputs had."""
        circuit = self._import_circuit()
        return circuit, circuit.point

    def note_differences(self, run: Run) -> None:
        """Say on stderr which gradients of a run are not those of the framework."""
        theirs = self._watch().run.read_gradients()
        names = [name for name, ours in run.grads.items() if not _are_alike(ours, theirs.get(name))]
        if names:
            shown = ", ".join(f"{name} {format_brief_number(theirs.get(name))}" for name in names[:MAX_LISTED_NAMES])
            click.echo(
                f"note: gradients here follow wiregrad's rules; those of {self.framework} itself are {shown}; "
                "wiregrad blame and wiregrad check say why",
                err=True,
            )

    def _watch(self) -> Any:
        """Run the function once in its framework, with a gradient of 1 from every number that it returns."""
        with self._run_in_framework() as (args, kwargs):
            watched = exchange.watch_whole(self.function, self.framework, args, kwargs)
        refusal = getattr(watched, "refusal", "")
        if refusal:
            click.echo(f"note: no gradient of the arguments was computed: {refusal}", err=True)
        return watched

    def _make_target(self) -> CircuitTarget:
        return CircuitTarget(*self.trace_circuit())

    def _import_circuit(self) -> ImportedCircuit:
        """Run the function once in its framework and return its circuit."""
        with self._run_in_framework() as (args, kwargs):
            load = exchange.from_jax if self.framework == "jax" else exchange.from_torch
            circuit: ImportedCircuit = load(self.function, *args, **kwargs)
        return circuit

    @contextmanager
    def _run_in_framework(self) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
        """Give the arguments as arrays of the framework; errors of the function become failures."""
        with run_user_code(function_name(self.function), locate_function(self.function)):
            if self.kwargs and self.framework == "jax":
                raise InputError(f"keyword-only arguments of a function of JAX cannot be given: {[*self.kwargs]}")
            kwargs = {name: self._convert_argument(value) for name, value in self.kwargs.items()}
            yield tuple(map(self._convert_argument, self.args)), kwargs

    def _convert_argument(self, value: object) -> object:
        """Return a number or an array of floats as an array of the framework; anything else as it is."""
        if not isinstance(value, float | complex | np.ndarray):
            return value
        with require_package(self.framework, f"a function of {self.framework}"):
            if self.framework == "jax":
                return importlib.import_module("jax.numpy").asarray(value)
            torch = importlib.import_module("torch")
        # A module has parameters of float32, unless PyTorch was told otherwise.
        array = np.asarray(value)
        return torch.tensor(array, dtype=torch.get_default_dtype() if array.dtype == np.float64 else None)


def _are_alike(ours: object, theirs: object) -> bool:
    """Return whether two gradients are equal up to rounding; an absent one is 0."""
    a, b = (np.asarray(0.0 if gradient is None else gradient) for gradient in (ours, theirs))
    with np.errstate(all="ignore"):
        scale = np.max(np.abs(b[np.isfinite(b)]), initial=0.0)
        return bool(np.allclose(a, b, rtol=GRADIENT_TOLERANCE, atol=GRADIENT_TOLERANCE * scale, equal_nan=True))


GRADIENT_TOLERANCE = 1e-2
"""Relative difference up to which two gradients are the same number in other orders of rounding."""


def bind_arguments(function: Callable[..., Any], texts: Mapping[str, str]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the positional and keyword arguments of a function from texts by parameter name."""
    signature = _read_signature(function)
    accepted = {name: parameter_types(parameter) for name, parameter in signature.parameters.items()}
    values = {name: read_value(name, text, accepted.get(name, frozenset())) for name, text in texts.items()}
    first = [p for p in signature.parameters.values() if p.kind is p.POSITIONAL_ONLY]
    args = [values.pop(p.name, p.default) for p in first if p.name in values or p.default is not p.empty]
    try:
        bound = signature.bind(*args, **values)
    except TypeError as error:
        missing = [p.name for p in signature.parameters.values() if p.default is p.empty and p.name not in texts]
        hint = f"; give {missing[0]}=..." if "missing" in str(error) and missing else ""
        raise InputError(f"{function_name(function)}{signature}: {error}{hint}") from None
    if hasattr(inspect.unwrap(function), "__code__"):
        # Defaults are inputs too, but those of a function in C may be placeholders.
        bound.apply_defaults()
    return bound.args, bound.kwargs


def _read_signature(function: Callable[..., Any]) -> inspect.Signature:
    # An annotation may name something imported only for type checkers; then annotations stay strings.
    for evaluated in (True, False):
        with suppress(Exception):
            return inspect.signature(function, eval_str=evaluated)
    raise click.UsageError(
        f"{function_name(function)} has no signature that Python can read; wrap it in a Python function"
    )


ANSWER_SCHEMA = 1
"""Version of the JSON that commands print."""


def document_run(run: Run) -> dict[str, Any]:
    """Return a run as data for JSON; NaN and infinities, which JSON cannot write, become strings."""
    grads = {name: to_plain_data(value) for name, value in run.grads.items()}
    output = {"name": run.circuit.output, "value": to_plain_data(run.output)}
    return {
        "schema": ANSWER_SCHEMA,
        "output": output,
        "grads": grads,
        "nodes": [_document_node(run, k) for k in range(len(run.values))],
    }


def _document_node(run: Run, index: int) -> dict[str, Any]:
    node = Node(run.circuit, index)
    view = run[node.name]
    wires = [
        {"source": wire.source, "local": to_plain_data(wire.local), "sent": to_plain_data(wire.sent)}
        | ({"blocked": True} if wire.blocked else {})
        for wire in view.wires
    ]
    return {
        "name": view.name,
        "title": node.title,
        "op": view.op.name,
        "computes": node.expression(),
        "value": to_plain_data(view.value),
        "grad": to_plain_data(view.grad),
        "wires": wires,
    }


def to_plain_data(value: object) -> JsonValue:
    """Return any part of an answer as data for JSON; NaN and infinities become strings."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    names = getattr(value, "__dataclass_fields__", None)
    if names is not None:
        value = {name: getattr(value, name) for name in names}
    if isinstance(value, dict):
        return {str(key): to_plain_data(item) for key, item in value.items()}
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return [to_plain_data(item) for item in value]
    if value is None or isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return str(value)


EXIT_FOUND = 1
"""The exit code of a command that found a problem or a difference."""

TARGET_HELP = """\b
{what:<12}a formula; FILE.py:NAME for a circuit in a file or a function,
            which may compute with NumPy, PyTorch or JAX;
            a circuit file: .wg, .json, .txt; or - for a formula or circuit
            from stdin
NAME=VALUE  a number: a=2
            for functions also an array: "x=[1, 2]", or one in a file:
            x=@data.npy, x=@data.csv; true or false, and text:
            mode=mean if the parameter takes text, else mode='"mean"'
            Whole numbers are floats, unless the parameter is annotated int
            or bool, or its default is one: n: int, n=1; those in a file
            keep their dtype"""


def no_color_option() -> click.Option:
    """Return the option `--no-color`; the environment variable NO_COLOR does the same."""

    def disable_colour(context: click.Context, _: click.Parameter, value: bool) -> None:
        if value:
            context.color = False

    return click.Option(
        ["--no-color"],
        is_flag=True,
        expose_value=False,
        callback=disable_colour,
        help="Print no colours, as with NO_COLOR.",
    )


DEBUG_OPTION = "--debug"


def debug_option() -> click.Option:
    """Return the option `--debug`, which `main` looks for among the words of the command line."""
    return click.Option(
        [DEBUG_OPTION], is_flag=True, expose_value=False, help="Print the Python traceback of an error."
    )


class HelpOption(click.Option):
    """The option `--help`; `-h` is the same if it is a word of its own, see `ExampleCommand`."""

    def __init__(self) -> None:
        def show_help(context: click.Context, _: click.Parameter, value: bool) -> None:
            if value and not context.resilient_parsing:
                click.echo(context.get_help(), color=context.color)
                context.exit()

        super().__init__(["--help"], is_flag=True, is_eager=True, expose_value=False, callback=show_help)

    def get_help_record(self, ctx: click.Context) -> tuple[str, str]:
        """Return the line of the help about this option."""
        return "-h, --help", "Show this message."


class ExampleCommand(click.Command):
    """A command whose help begins with an example; all commands are of this class."""

    def __init__(self, name: str | None, *, example: str, params: Sequence[click.Parameter] = (), **settings: Any):
        options = [no_color_option(), debug_option(), HelpOption()]
        super().__init__(name, params=[*params, *options], add_help_option=False, **settings)
        self.example = example

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the example, and then what click writes."""
        formatter.write(f"Example: wiregrad {self.example}\n\n")
        super().format_help(ctx, formatter)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words of the command line; only a whole word -h is help, since a formula may begin with -h**2."""
        end = args.index("--") if "--" in args else len(args)
        words = ["--help" if word == "-h" else word for word in args[:end]]
        try:
            return super().parse_args(ctx, [*words, *args[end:]])
        except click.MissingParameter as error:
            said = f"{error.format_message()}\n  for example: wiregrad {self.example}"
            raise click.UsageError(said, ctx) from None


def may_use_colours() -> bool:
    """Return whether the output may have colours."""
    context = click.get_current_context(silent=True)
    return not os.environ.get("NO_COLOR") and (context is None or context.color is not False)


def json_option() -> click.Option:
    """Return the option `--json`."""
    return click.Option(["--json", "document"], is_flag=True, help="Print JSON instead of text.")


def output_option(verb: str = "differentiate") -> click.Option:
    """Return the option `--output`, which chooses the node to differentiate, or what else a command does."""
    return click.Option(["--output", "chosen"], metavar="NAME", help=f"The output or node to {verb}.")


def print_answer(question: str, answer: object, document: bool, *, has_problem: bool) -> None:
    """Print an answer as text or JSON; exit with 1 if it reports a problem or a difference."""
    if document:
        data = {"schema": ANSWER_SCHEMA, "question": question, "answer": to_plain_data(answer)}
        click.echo(json.dumps(data, indent=2, allow_nan=False))
    else:
        click.echo(escape_control_characters(str(answer)))
    if has_problem:
        raise click.exceptions.Exit(EXIT_FOUND)


class TargetCommand(ExampleCommand):
    """A command that takes a target (a formula, file or function) and NAME=VALUE pairs."""

    def __init__(
        self,
        name: str,
        doc: str,
        example: str,
        callback: Callable[..., None],
        options: Sequence[click.Parameter] = (),
        what: str = "FORMULA",
    ) -> None:
        """Make a command; an argument among the options comes between the target and the values."""
        super().__init__(
            name,
            params=[
                click.Argument(["formula"], metavar=what, shell_complete=complete_file_names),
                *(option for option in options if isinstance(option, click.Argument)),
                click.Argument(["values"], nargs=-1, metavar="[NAME=VALUE]..."),
                *(option for option in options if isinstance(option, click.Option)),
            ],
            callback=lambda formula, values, source=None, chosen=None, **settings: self._ask_target(
                callback, lambda: self.read_target(formula, values, source), chosen, settings
            ),
            example=example,
            help=doc,
            short_help=doc.partition("\n")[0],
            epilog=TARGET_HELP.format(what=what),
            # A formula may begin with a minus sign.
            context_settings={"ignore_unknown_options": True},
        )

    def _ask_target(
        self,
        callback: Callable[..., None],
        read: Callable[[], CommandTarget],
        chosen: str | None,
        settings: dict[str, Any],
    ) -> None:
        """Call back with the target; if one output has to be chosen, the error names the option for it."""
        target = read() if chosen is None else choose_output(read(), chosen)
        try:
            callback(target, **settings)
        except (OutputError, CommandFailure) as error:
            cause = error.__cause__ if isinstance(error, CommandFailure) else error
            if not isinstance(cause, OutputError) or not any(param.name == "chosen" for param in self.params):
                raise
            raise CommandFailure(_reword_for_command(str(error))) from cause

    def read_target(self, formula: str, values: Sequence[str], form: str | None = None) -> CommandTarget:
        """Return the target of the command."""
        refuse_unknown_options(self, formula, values)
        pairs = join_spaced_pairs(values)
        has_of = any("--of" in param.opts for param in self.params)
        if has_of and pairs and formula.isidentifier() and _is_formula_text(pairs[0]):
            # The name of the node came first, and the formula behind it.
            raise unreadable_value_error(pairs[0], f"; the formula comes first, and the node as --of {formula}")
        if has_of and pairs and pairs[0].isidentifier():
            following = pairs[1] if len(pairs) > 1 else ""
            advice = _advise_pair(pairs[0], following) or f"; a node that is asked about is given as --of {pairs[0]}"
            raise unreadable_value_error(pairs[0], advice)
        return parse_target(formula, pairs, form)


def refuse_unknown_options(command: click.Command, formula: str, values: Sequence[str]) -> None:
    """Raise a usage error for an unknown option, which click took for a formula or a value.

    A formula may begin with two minus signs, as in --x, but a word after them is an option.
    """
    words = join_spaced_pairs(values)
    wrong = [formula] if re.fullmatch(r"--[a-z][a-z-]+", formula) else []
    wrong += [text for text in words if re.match(r"--?[a-z]", text)]
    if wrong:
        option, _, value = wrong[0].partition("=")
        known = [name for param in command.params if isinstance(param, click.Option) for name in param.opts]
        following = words[words.index(wrong[0]) + 1 :] if wrong[0] in words else []
        number = next(filter(_is_number, [value, *following[:1]]), "")
        hint = f"; for a value write {option.lstrip('-')}={number}" if number else ""
        raise click.UsageError(f"there is no option {option}{suggest_name(option, known) or hint}")


def _reword_for_command(message: str) -> str:
    """Reword an error about outputs: name the option of the command instead of the Python method."""
    for python, command in {
        "circuit.with_output(name)": "--output NAME",
        "scalar output: reduce it": "scalar output: reduce it, or choose a scalar node with --output NAME",
    }.items():
        message = message.replace(python, command)
    return message


def complete_file_names(context: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[Any]]:
    """Tell the shell to complete file names."""
    return [CompletionItem(incomplete, type="file")]
