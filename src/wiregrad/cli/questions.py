"""The commands that ask one question about a run: `blame`, `explain`, `paths`, `branches`, `kinks`, `rounding`."""

from __future__ import annotations

from dataclasses import dataclass

import click

from wiregrad.cli.common import Verb, as_document, one_output, show
from wiregrad.cli.targets import Target, known


@dataclass(frozen=True)
class Question:
    """A question about a run: `run.NAME()` in Python, `wiregrad NAME` in a terminal."""

    name: str
    doc: str
    example: str
    of: str = ""
    """The help of `--of`, for a question about one node; empty for a question about the whole run."""

    def command(self) -> click.Command:
        """Build the command that asks the question."""
        options = [click.Option(["--of", "name"], required=True, metavar="NAME", help=self.of)] if self.of else []
        return Verb(self.name, self.doc, self.example, self.ask, [*options, one_output(), as_document()])

    def ask(self, target: Target, document: bool, name: str | None = None) -> None:
        """Ask the question and print the answer."""
        run = target.run()
        answer = getattr(run, self.name)(*([] if name is None else [known(run.circuit, name)]))
        show(self.name, answer, document, has_problem=False)


def _blame(target: Target, document: bool) -> None:
    answer = target.blame()
    show("blame", answer, document, has_problem=bool(answer))


blame = Verb(
    "blame",
    "Name the op that first made something non-finite.\n\nThe exit code is 1 if there is one.",
    'blame "sqrt(x*x + y*y)" x=0 y=0',
    _blame,
    [one_output(), as_document()],
)

QUESTIONS = (
    Question(
        "explain",
        "Say why a gradient is zero, absent, tiny, huge or what it is.",
        'explain --of w "tanh(w * x)" w=50 x=2',
        of="The node whose gradient is asked for.",
    ),
    Question(
        "paths",
        "Show the paths that carry most of a gradient.",
        'paths --of a "(a + b) * c + a * a" a=2 b=-3 c=10',
        of="The node whose gradient is asked for.",
    ),
    Question(
        "branches",
        "Show what each use of a value sends back.",
        'branches --of x "x * x + x" x=3',
        of="The value whose uses are compared.",
    ),
    Question("kinks", "List the nodes on or near a kink.", 'kinks "abs(x) + relu(y)" x=0 y=1'),
    Question("rounding", "Estimate the rounding error of output and gradients.", 'rounding "(1 + x) - 1" x=1e-9'),
)
