"""The commands that ask one question about a run: `blame_command`, `explain`, `paths`, `branches`, `kinks`, `rounding`."""

from __future__ import annotations

from dataclasses import dataclass

import click

from wiregrad.cli.common import TargetCommand, json_option, output_option, print_answer
from wiregrad.cli.targets import CommandTarget, check_node_name


@dataclass(frozen=True)
class RunQuestion:
    """A question about a run: `run.NAME()` in Python, `wiregrad NAME` in a terminal."""

    name: str
    doc: str
    example: str
    of: str = ""
    """The help of `--of`, for a question about one node; empty for a question about the whole run."""

    def build_command(self) -> click.Command:
        """Build the command that asks the question."""
        options = [click.Option(["--of", "name"], required=True, metavar="NAME", help=self.of)] if self.of else []
        return TargetCommand(self.name, self.doc, self.example, self.print_reply, [*options, output_option(), json_option()])

    def print_reply(self, target: CommandTarget, document: bool, name: str | None = None) -> None:
        """Ask the question and print the answer."""
        run = target.run()
        answer = getattr(run, self.name)(*([] if name is None else [check_node_name(run.circuit, name)]))
        print_answer(self.name, answer, document, has_problem=False)


def _print_blame(target: CommandTarget, document: bool) -> None:
    answer = target.blame()
    print_answer("blame", answer, document, has_problem=bool(answer))


blame_command = TargetCommand(
    "blame",
    "Name the op that first made something non-finite.\n\nThe exit code is 1 if there is one.",
    'blame "sqrt(x*x + y*y)" x=0 y=0',
    _print_blame,
    [output_option(), json_option()],
)

RUN_QUESTIONS = (
    RunQuestion(
        "explain",
        "Say why a gradient is zero, absent, tiny, huge or what it is.",
        'explain --of w "tanh(w * x)" w=50 x=2',
        of="The node whose gradient is asked for.",
    ),
    RunQuestion(
        "paths",
        "Show the paths that carry most of a gradient.",
        'paths --of a "(a + b) * c + a * a" a=2 b=-3 c=10',
        of="The node whose gradient is asked for.",
    ),
    RunQuestion(
        "branches",
        "Show what each use of a value sends back.",
        'branches --of x "x * x + x" x=3',
        of="The value whose uses are compared.",
    ),
    RunQuestion("kinks", "List the nodes on or near a kink.", 'kinks "abs(x) + relu(y)" x=0 y=1'),
    RunQuestion("rounding", "Estimate the rounding error of output and gradients.", 'rounding "(1 + x) - 1" x=1e-9'),
)
