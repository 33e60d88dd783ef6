"""The commands that ask about a run or a circuit: `grad`, `blame`, `explain`, `paths`, ..., `check` and `receipt`."""

from __future__ import annotations

import json
import re
import runpy
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from wiregrad.api import Run
from wiregrad.cli.command_base import (
    CommandFailure,
    CommandTarget,
    TargetCommand,
    check_node_name,
    json_option,
    may_use_colours,
    output_option,
    print_answer,
    run_user_code,
)
from wiregrad.cli.command_base import document_run as document_of
from wiregrad.dtypes import format_all_digits, format_brief_number
from wiregrad.errors import require_package
from wiregrad.ir import Node, Pattern
from wiregrad.ir.columns import is_automatic_name
from wiregrad.lazy import load_module_lazily

if TYPE_CHECKING:
    from wiregrad import exchange
    from wiregrad.exchange import observed_questions
else:
    exchange = load_module_lazily("wiregrad.exchange")


def format_run_table(run: Run) -> str:
    """Return a table with a row per node, then one line of values and one of gradients."""
    with require_package("rich", "the table of a run"):
        from rich import box  # noqa: PLC0415 - only a command that prints a table pays for rich
        from rich.console import Console  # noqa: PLC0415
        from rich.table import Table  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

    rows = Table(box=box.SIMPLE_HEAD)
    for heading in ("node", "computes", "value", "local derivatives", "gradient"):
        rows.add_column(heading, justify="right" if heading in ("value", "gradient") else "left", overflow="fold")
    for node in _shown_nodes(run):
        view = run[node.name]
        cells = [
            node.title,
            node.expression(),
            format_brief_number(view.value),
            _format_local_derivatives(run, node),
            format_brief_number(view.grad),
        ]
        rows.add_row(*map(Text, cells))
    console = Console(
        highlight=False, width=None if sys.stdout.isatty() else 120, color_system="auto" if may_use_colours() else None
    )
    with console.capture() as printed:
        console.print(rows)
        for line in _format_summary(run):
            console.print(Text(line), soft_wrap=True)
    return printed.get()


def _shown_nodes(run: Run) -> list[Node]:
    """Return every node except unnamed constants, which appear as numbers in the expressions."""
    nodes = [Node(run.circuit, index) for index in range(run.circuit.size)]
    return [node for node in nodes if node.constant is None or run.circuit.columns.names.names_of(node.index)]


def _format_summary(run: Run) -> list[str]:
    computed = [node for node in _shown_nodes(run) if node.op.pattern is not Pattern.SOURCE]
    values = ", ".join(f"{node.title} = {format_all_digits(run[node.name].value)}" for node in computed)
    grads = " ".join(f"{name}={format_all_digits(value)}" for name, value in run.grads.items())
    return [f"values     {values or 'none'}", f"gradients  {grads or 'none'}"]


def _format_local_derivatives(run: Run, node: Node) -> str:
    wires = [
        wire for wire in run[node.name].wires if run.circuit[wire.source].constant is None and wire.local is not None
    ]
    return ", ".join(
        f"d{_wrap_title(wire.reader)}/d{_wrap_title(wire.source)} = {format_brief_number(wire.local)}" for wire in wires
    )


def _wrap_title(name: str) -> str:
    """Return the title of a node, in parentheses if it is an expression."""
    return f"({name})" if is_automatic_name(name) else name


def _print_grad(target: CommandTarget, document: bool) -> None:
    run = target.run()
    if document:
        click.echo(json.dumps(document_of(run), indent=2, allow_nan=False))
    else:
        click.echo(format_run_table(run), nl=False)


grad_command = TargetCommand(
    "grad",
    "Show value, local derivatives and gradient of every node.",
    'grad "e = a + b; f = e * c" a=2 b=-3 c=10',
    _print_grad,
    [output_option(), json_option()],
)


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
        return TargetCommand(
            self.name, self.doc, self.example, self.print_reply, [*options, output_option(), json_option()]
        )

    def print_reply(self, target: CommandTarget, document: bool, name: str | None = None) -> None:
        """Ask the question and print the answer."""
        run = target.run()
        answer = getattr(run, self.name)(*([] if name is None else [check_node_name(run.circuit, name)]))
        print_answer(self.name, answer, document, has_problem=False)


def _print_blame(target: CommandTarget | TorchScript, document: bool) -> None:
    answer = target.blame()
    print_answer("blame", answer, document, has_problem=bool(answer))


@dataclass(frozen=True)
class TorchScript:
    """A script that uses PyTorch, and its arguments; it runs under watch until a loss or gradient is not finite."""

    path: Path
    arguments: tuple[str, ...]

    def blame(self) -> observed_questions.ObservedBlame:
        """Run the script and name the op that broke; an error that explains itself by it is not raised."""
        watched = exchange.watch(stop=True)
        try:
            with run_user_code(str(self.path), str(self.path)), watched:
                self._run_as_main()
        except CommandFailure:
            answer = watched.blame()
            if not answer:
                raise
            return answer
        return watched.blame()

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


TORCH_IMPORT = re.compile(rb"^\s*(import|from)\s+torch\b", re.MULTILINE)


class BlameCommand(TargetCommand):
    """The command `blame`, which also takes a script that imports PyTorch, with its arguments."""

    def read_target(  # type: ignore[override]
        self, formula: str, values: Sequence[str], form: str | None = None
    ) -> CommandTarget | TorchScript:
        """Return the target of the command: a script of PyTorch, or what other commands take."""
        path = Path(formula)
        if form is None and path.suffix == ".py" and path.is_file() and TORCH_IMPORT.search(path.read_bytes()):
            return TorchScript(path, tuple(values))
        return super().read_target(formula, values, form)


blame_command = BlameCommand(
    "blame",
    "Name the op that first made something non-finite.\n\n"
    "A script that imports PyTorch is run under watch, with the arguments that follow it: wiregrad blame train.py. "
    "The exit code is 1 if there is such an op.",
    'blame "sqrt(x*x + y*y)" x=0 y=0',
    _print_blame,
    [output_option(), json_option()],
)

RUN_QUESTIONS = (
    RunQuestion(
        "explain",
        "Say why there is no gradient, or why it is zero, tiny, huge or what it is.",
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


def _print_check(target: CommandTarget, order: int, document: bool) -> None:
    report = target.check(order)
    print_answer("check", report, document, has_problem=not report.ok)


check_command = TargetCommand(
    "check",
    "Compare the derivative of every op with differences.\n\nThe exit code is 1 if a rule is wrong.",
    'check "tanh(x * w) + b" x=2 w=-3 b=6.5',
    _print_check,
    [
        click.Option(
            ["--order"], type=click.IntRange(1, 2), default=2, show_default=True, help="How many derivatives."
        ),
        json_option(),
    ],
)


def _print_receipt(target: CommandTarget, points: int | None, seed: int, document: bool) -> None:
    circuit, values = target.trace_circuit()
    chosen = points or ([values] if values else None)
    answer = circuit.receipt(seed=seed) if chosen is None else circuit.receipt(chosen, seed=seed)
    print_answer("receipt", answer, document, has_problem=not answer.ok)


receipt_command = TargetCommand(
    "receipt",
    "Run the code of a circuit in every language and compare.\n\n"
    "C is compiled with gcc and JavaScript run with Node, where they are found. The code is run at the values, or at "
    "random points if there are none or --points asks for them. The exit code is 1 if a difference is larger than "
    "rounding explains.",
    'receipt "e = a + b; f = e * c"',
    _print_receipt,
    [
        click.Option(["--points"], type=click.IntRange(1, 10_000), help="How many random points to take."),
        click.Option(["--seed"], type=click.IntRange(0), default=0, show_default=True, help="Which random points."),
        json_option(),
    ],
)
