"""`wiregrad blame train.py`: run a script that imports PyTorch under watch, and say what was watched and what was not.

`wiregrad check` and `wiregrad explain` take such a script too.

Only what PyTorch computes is watched. Of NumPy, its own reports of floating-point errors are noted, with the line: they
name the calls that made NaN or infinities of ordinary numbers. Where the results went is not followed. What a script
means to do it says with `np.errstate(invalid="ignore")`.
"""

from __future__ import annotations

import runpy
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import click
import numpy as np

from wiregrad import exchange
from wiregrad.api import Circuit
from wiregrad.cli.command_base import CommandFailure, run_user_code
from wiregrad.dtypes import count_with_noun
from wiregrad.errors import NonFiniteError, is_library_file
from wiregrad.exchange.observed_run import MAX_ORIGINS, BackwardCheck, ObservedBlame
from wiregrad.inspect.report import Report
from wiregrad.ir import Place

INVALID = "invalid value"
"""How NumPy's reports of NaN begin."""
WIREGRAD_FOLDER = str(Path(__file__).parents[1])


@dataclass(frozen=True)
class NumpyError:
    """A floating-point error that NumPy reported, and the line of the user's that called it."""

    message: str
    """NumPy's words: `divide by zero encountered in log`."""
    place: Place | None

    @property
    def makes_nan(self) -> bool:
        """Whether the result is NaN, and not infinite."""
        return self.message.startswith(INVALID)


class NumpyErrorLog:
    """Notes NumPy's floating-point errors, and warns of each as NumPy does."""

    def __init__(self) -> None:
        self.errors: dict[NumpyError, None] = {}

    def write(self, text: str) -> None:
        """Take a message of NumPy, which calls this from the line that computed."""
        message = text.removeprefix("Warning: ").strip()
        frame = sys._getframe(1)
        if not frame.f_code.co_filename.startswith(WIREGRAD_FOLDER):
            self.errors[NumpyError(message, find_user_place())] = None
        warnings.warn(message, RuntimeWarning, stacklevel=2)


def find_user_place() -> Place | None:
    """Return the innermost line that belongs to no installed library; None if there is none."""
    frame = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        if not is_library_file(file) and "-packages" not in file:
            return Place(file, frame.f_lineno)
        frame = frame.f_back  # type: ignore[assignment]
    return None


@dataclass(frozen=True, repr=False)
class ScriptBlame(ObservedBlame):
    """What broke in a script: found by the watch of PyTorch, or reported by NumPy."""

    watched: str = ""
    """What was watched, in one sentence."""
    unwatched: tuple[NumpyError, ...] = ()
    """The floating-point errors of NumPy."""

    def __bool__(self) -> bool:
        return bool(self.origins) or any(error.makes_nan for error in self.unwatched)

    def lines(self) -> Iterator[str]:
        """Return what PyTorch computed, what NumPy reported, and what was watched."""
        *findings, source = super().lines()
        yield from findings
        for error in self.unwatched[:MAX_ORIGINS]:
            what = "NaN" if error.makes_nan else "an infinity"
            yield f"NumPy made {what}, which was not followed: {error.message}"
            if error.place is not None:
                yield f"  at {error.place}"
        if len(self.unwatched) > MAX_ORIGINS:
            yield f"and {len(self.unwatched) - MAX_ORIGINS} more lines at which NumPy made NaN or infinities"
        yield self.watched
        yield source


@dataclass(frozen=True)
class TorchScript:
    """A script that uses PyTorch, and its arguments; it runs under watch until a loss or gradient is not finite."""

    path: Path
    arguments: tuple[str, ...]

    def blame(self) -> ScriptBlame:
        """Run the script and name the op that broke; an error that explains itself by it is not raised."""
        watched = exchange.watch(stop=True)
        log = NumpyErrorLog()
        try:
            with np.errstate(divide="log", over="log", invalid="log", call=log):
                self._run(watched)
        except CommandFailure:
            answer = self._make_answer(watched, log)
            if not answer.origins:
                raise
            return answer
        return self._make_answer(watched, log)

    def check(self, order: int, meant: Sequence[str] = ()) -> BackwardCheck:
        """Run the script, and derive each op of its last step with a backward pass again."""
        answer: BackwardCheck = self._watch().check_backward(straight_through=meant)
        return answer

    def explain(self, name: str | None) -> Report:
        """Run the script, and explain one gradient of that step, or without a name measure all of them by layers."""
        watched = self._watch()
        answer: Report = watched.flow() if name is None else watched.explain(name)
        return answer

    def trace_circuit(self) -> tuple[Circuit, Mapping[str, Any]]:
        """Refuse: a script has no output to choose."""
        raise click.UsageError(f"--output chooses a node of a formula, circuit or function; {self.path} is a script")

    def _watch(self) -> exchange.torch_import.WatchedProgram:
        """Run the script until a loss or gradient is not finite, which ends it."""
        watched = exchange.watch(stop=True)
        try:
            self._run(watched)
        except CommandFailure as failure:
            if not isinstance(failure.__cause__, NonFiniteError):
                raise
        return watched

    def _run(self, watched: exchange.torch_import.WatchedProgram) -> None:
        with run_user_code(str(self.path), str(self.path)), watched:
            self._run_as_main()

    def _make_answer(self, watched: exchange.torch_import.WatchedProgram, log: NumpyErrorLog) -> ScriptBlame:
        answer = watched.blame()
        facts = {field.name: getattr(answer, field.name) for field in fields(answer)}
        ops = count_with_noun(watched.ops_seen, "op")
        steps = count_with_noun(watched.steps_seen, "step")
        text = f"watched: {ops} of PyTorch in {steps}; not watched: what NumPy, Python or other libraries compute"
        return ScriptBlame(**facts, watched=text, unwatched=tuple(log.errors))

    def _run_as_main(self) -> None:
        arguments = sys.argv
        sys.argv = [str(self.path), *self.arguments]
        sys.path.insert(0, str(self.path.parent))
        try:
            runpy.run_path(str(self.path), run_name="__main__")
        except SystemExit as end:
            if end.code:
                raise
        finally:
            sys.argv = arguments
            sys.path.remove(str(self.path.parent))
