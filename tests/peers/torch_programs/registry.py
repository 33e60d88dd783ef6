"""How a broken program of PyTorch or JAX is written down: what is asked about it, and what the right answer is.

The line at fault ends in the comment `# broken`; a second line that the answer must name ends in `# second`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import wiregrad as wg

Question = Callable[[Any], Any]


class BrokenProgram(NamedTuple):
    """A program, the question that finds what is wrong, and the op, module and words of the right answer."""

    run: Callable[[], Any]
    ask: Question
    op: str
    module: str
    words: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.run.__name__

    def find_line(self, marker: str) -> int | None:
        """Return the number of the line that ends in a marker."""
        lines, first = inspect.getsourcelines(self.run)
        return next((first + k for k, line in enumerate(lines) if line.rstrip().endswith(f"# {marker}")), None)


def ask_blame(seen: Any) -> Any:
    return seen.blame().origins[0]


def ask_backward(seen: Any) -> Any:
    return seen.check_backward().findings[0]


def ask_flow(kind: str) -> Question:
    return lambda seen: next(finding for finding in seen.flow().findings if finding.kind == kind)


def ask_explain(name: str) -> Question:
    return lambda seen: seen.explain(name)


def collect_programs() -> tuple[list[BrokenProgram], Callable[..., Callable[[Callable[..., Any]], Callable[..., Any]]]]:
    """Return a list of programs, and the decorator that adds to it."""
    programs: list[BrokenProgram] = []

    def broken(ask: Question, op: str, module: str = "", words: tuple[str, ...] = ()) -> Any:
        def add(run: Callable[..., Any]) -> Callable[..., Any]:
            programs.append(BrokenProgram(run, ask, op, module, words))
            return run

        return add

    return programs, broken


def check_answer(program: BrokenProgram) -> None:
    """Check that a program is explained: by the op, the module or function, the line and the words."""
    answer = program.ask(program.run())
    second = program.find_line("second")

    assert (answer.op, answer.module) == (program.op, program.module)
    assert (None if answer.place is None else answer.place.line) == program.find_line("broken")
    assert second is None or answer.second.line == second
    assert [words for words in program.words if words not in answer.said] == []


def watch_step(model: Any, loss: Callable[[], Any], **settings: Any) -> Any:
    """Run one step under watch; an error of the backward pass is kept, as a user would see it."""
    watched = wg.watch(model, **settings)
    try:
        with watched as seen:
            loss().backward()
    except RuntimeError:
        return watched
    return seen
