"""The commands about one circuit: they ask about it (`grad`, `blame`, ..., `check`) or write it (`draw`, ...)."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from wiregrad.api import Circuit, Run
from wiregrad.cli.command_base import (
    ANSWER_SCHEMA,
    ARCHIVE_FORM,
    CIRCUIT_FORMS,
    FORM_ENDINGS,
    JSON_FORM,
    MAX_LISTED_NAMES,
    STDIO,
    CircuitTarget,
    CommandFailure,
    CommandTarget,
    FrameworkTarget,
    FunctionTarget,
    TargetCommand,
    check_node_name,
    complete_file_names,
    encode_lines,
    escape_control_characters,
    file_ending,
    join_endings,
    json_option,
    may_use_colours,
    output_option,
    print_answer,
    run_all_outputs,
    to_plain_data,
    write_output,
)
from wiregrad.cli.command_base import document_run as document_of
from wiregrad.codegen import LANGUAGE_MODULES
from wiregrad.codegen.listing import LISTING_FUNCTIONS
from wiregrad.draw.palette import AUTO_THEME, THEMES
from wiregrad.dtypes import count_with_noun, format_all_digits, format_brief_number
from wiregrad.errors import NoRuleError, OperandError, require_package
from wiregrad.files import encode_circuit_file
from wiregrad.inspect.report import format_derivative
from wiregrad.ir import TABLE, CircuitGraph, Node, Pattern
from wiregrad.lazy import load_module_lazily
from wiregrad.ops.gradient_flow import is_finite

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from wiregrad import exchange
    from wiregrad.cli import torch_scripts
    from wiregrad.explorer import circuit_views, large_circuits
else:
    exchange = load_module_lazily("wiregrad.exchange")
    torch_scripts = load_module_lazily("wiregrad.cli.torch_scripts")
    circuit_views = load_module_lazily("wiregrad.explorer.circuit_views")
    large_circuits = load_module_lazily("wiregrad.explorer.large_circuits")


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
    return [f"values     {values or 'none'}", f"gradients  {grads or _explain_no_inputs(run)}"]


def _explain_no_inputs(run: Run) -> str:
    """Say why there are no gradients: each name stands for a number in the formula itself."""
    names = [name for node in _shown_nodes(run) if node.constant is not None for name in node.names]
    if run.circuit.inputs or not names:
        return "none"
    name = names[0]
    return f"none: {name} is a constant here; for its gradient leave {name} = ... out, and write {name}=NUMBER behind"


def _format_local_derivatives(run: Run, node: Node) -> str:
    wires = [
        wire for wire in run[node.name].wires if run.circuit[wire.source].constant is None and wire.local is not None
    ]
    numbers: dict[str, list[str]] = {}
    for wire in wires:
        # A node that reads another twice has a local derivative for each wire.
        numbers.setdefault(format_derivative(wire.reader, wire.source), []).append(format_brief_number(wire.local))
    return ", ".join(f"{name} = {' and '.join(each)}" for name, each in numbers.items())


def _print_grad(target: CommandTarget, document: bool) -> None:
    run = target.run()
    if document:
        click.echo(json.dumps(document_of(run), indent=2, allow_nan=False))
    else:
        click.echo(format_run_table(run), nl=False)
        if _loses_numbers(run):
            click.echo(
                "note: not every number is finite; wiregrad blame with the same words says where it begins", err=True
            )


def _loses_numbers(run: Run) -> bool:
    """Return whether the output or a gradient is not finite, though all inputs are."""
    inputs = [run[name].value for name in run.circuit.inputs]
    results = [run.output, *run.grads.values()]
    return all(map(is_finite, inputs)) and not all(map(is_finite, results))


grad_command = TargetCommand(
    "grad",
    "Show value, local derivatives and gradient of every node.",
    'grad "e = a + b; f = e * c" a=2 b=-3 c=10',
    _print_grad,
    [output_option(), json_option()],
)


def _print_values(target: CommandTarget, document: bool) -> None:
    """Print the value alone, or if there are several outputs a line for each."""
    circuit, point = target.trace_circuit()
    result = circuit(point)
    values = result if len(circuit.outputs) > 1 else {circuit.output: result}
    if document:
        outputs = {name: to_plain_data(value) for name, value in values.items()}
        click.echo(json.dumps({"schema": ANSWER_SCHEMA, "outputs": outputs}, indent=2, allow_nan=False))
        return
    for name, value in values.items():
        text = json.dumps(to_plain_data(value)) if np.ndim(value) else format_all_digits(value)
        click.echo(f"{escape_control_characters(name)} = {text}" if len(values) > 1 else text)


run_command = TargetCommand(
    "run",
    "Print the value alone, without gradients.\n\nSeveral outputs are printed with their names, one in each line.",
    'run "e = a + b; f = e * c" a=2 b=-3 c=10',
    _print_values,
    [output_option("print"), json_option()],
)


def _print_found(target: CommandTarget, query: str, document: bool) -> None:
    circuit, point = target.trace_circuit()
    if query.partition("=")[0].strip() in circuit.inputs:
        raise click.UsageError(f"wanted a query before the values, such as op:tanh; got {query!r}")
    query = _join_comparisons(query)
    run = run_all_outputs(circuit, point) if point or not circuit.inputs else None
    if run is not None and isinstance(target, FrameworkTarget):
        target.note_differences(run)
    terms = large_circuits.find_number_terms(query)
    if run is None and terms:
        wanted = " ".join(f"{name}=..." for name in circuit.inputs[:5])
        raise click.UsageError(f"{terms[0]} asks for numbers of a run: give the values of the inputs, {wanted}")
    found = circuit_views.CircuitViews(circuit, run).find_nodes(query)
    if document:
        data = {"schema": ANSWER_SCHEMA, "question": "find", "answer": to_plain_data(found)}
        click.echo(json.dumps(data, indent=2, allow_nan=False))
        return
    for row in found["nodes"]:
        click.echo(escape_control_characters(_format_found_node(Node(circuit, row["node"]), run)))
    more = f", of which the first {len(found['nodes'])} are listed" if len(found["nodes"]) < found["count"] else ""
    ops = [word for word in query.split() if word in TABLE]
    hint = f"; for nodes of an op write op:{ops[0]}" if ops and not found["count"] else ""
    click.echo(f"{count_with_noun(found['count'], 'node')}{more}{hint}", err=True)


def _join_comparisons(query: str) -> str:
    """Remove the spaces around signs of comparison, which would make terms of their own; `==` is `=`.

    >>> _join_comparisons("op:tanh grad > 2 depth == 1")
    'op:tanh grad>2 depth=1'
    """
    columns = "|".join(large_circuits.COMPARED_COLUMNS)
    return re.sub(rf"(?<!\S)({columns})\s*([<>]=?|=)=?\s*(?=\S)", r"\1\2", query)


def _format_found_node(node: Node, run: Run | None) -> str:
    """Format a node as one line: name, op, numbers and the line of code."""
    parts = [node.title, node.op.name]
    if run is not None:
        view = run[node.name]
        parts += [f"value {format_brief_number(view.value)}", f"gradient {format_brief_number(view.grad)}"]
    return "  ".join([*parts, *([str(node.place)] if node.place is not None else [])])


find_command = TargetCommand(
    "find",
    "List the nodes that match a query.\n\n"
    "A query has terms, which must all hold: op:tanh, name:w1, group:layer1 (names may be regular expressions, "
    "name:/w[0-9]/), comparisons of grad, value, depth, rank and index, such as grad>1e3, and the words nan, inf, bad "
    "(either of them) and absent (no gradient). Numbers need values.\n\n"
    "grad and value are compared by size, without the sign, and arrays by their norm: grad>1 finds a gradient of -2. "
    "With a bound that no size is below, such as grad<0, value<=0 or grad>-1, the signed numbers are compared; an "
    "array counts as negative if all its elements are.",
    'find "u = tanh(x); y = 3 * u" "op:tanh grad>2" x=0.5',
    _print_found,
    [click.Argument(["query"], metavar="QUERY"), output_option("begin at"), json_option()],
)


TORCH_IMPORT = re.compile(rb"^\s*(import|from)\s+torch\b", re.MULTILINE)


class ScriptCommand(TargetCommand):
    """A command that also takes a script that imports PyTorch, with its arguments."""

    def read_target(  # type: ignore[override]
        self, formula: str, values: Sequence[str], form: str | None = None
    ) -> CommandTarget | torch_scripts.TorchScript:
        """Return the target of the command: a script of PyTorch, or what other commands take."""
        path = Path(formula)
        if form is None and path.suffix == ".py" and path.is_file() and TORCH_IMPORT.search(path.read_bytes()):
            return torch_scripts.TorchScript(path, tuple(values))
        return super().read_target(formula, values, form)


def _is_script(target: CommandTarget | torch_scripts.TorchScript) -> TypeIs[torch_scripts.TorchScript]:
    """Return whether a target is a script; PyTorch is not imported to find that out."""
    return not isinstance(target, CircuitTarget | FunctionTarget | FrameworkTarget)


@dataclass(frozen=True)
class RunQuestion:
    """A question about a run: `run.NAME()` in Python, `wiregrad NAME` in a terminal."""

    name: str
    doc: str
    example: str
    of: str = ""
    """The help of `--of`, for a question about one node; empty for a question about the whole run."""
    takes_scripts: bool = False
    """Whether it can be asked of a script that imports PyTorch."""

    def build_command(self) -> click.Command:
        """Build the command that asks the question."""
        help_text = f"{self.of} Not needed if there is only one input."
        options = [click.Option(["--of", "name"], metavar="NAME", help=help_text)] if self.of else []
        kind = ScriptCommand if self.takes_scripts else TargetCommand
        return kind(self.name, self.doc, self.example, self.print_reply, [*options, output_option(), json_option()])

    def print_reply(
        self, target: CommandTarget | torch_scripts.TorchScript, document: bool, name: str | None = None
    ) -> None:
        """Ask the question and print the answer."""
        answer = target.explain(name) if _is_script(target) else self._ask_run(target.run(), name)
        print_answer(self.name, answer, document, has_problem=False)

    def _ask_run(self, run: Run, name: str | None) -> object:
        arguments = [_choose_node(run.circuit, name)] if self.of else []
        answer: object = getattr(run, self.name)(*arguments)
        return answer


def _choose_node(circuit: CircuitGraph, name: str | None) -> str:
    """Return the node that is asked about: the named one, or the only input."""
    if name is not None:
        return check_node_name(circuit, name)
    if len(circuit.inputs) != 1:
        inputs = ", ".join(circuit.inputs[:MAX_LISTED_NAMES])
        raise click.UsageError(f"wanted --of NAME, the node that is asked about; the inputs are {inputs or 'none'}")
    return circuit.inputs[0]


def _print_blame(target: CommandTarget | torch_scripts.TorchScript, document: bool) -> None:
    answer = target.blame()
    if _is_script(target) and not answer:
        click.echo(
            f"note: wiregrad check {target.path} compares backward rules with derivatives, and wiregrad explain "
            f"{target.path} shows gradients by layers, and parameters without one",
            err=True,
        )
    print_answer("blame", answer, document, has_problem=bool(answer))


blame_command = ScriptCommand(
    "blame",
    "Name the op that first made something non-finite.\n\n"
    "A script that imports PyTorch is run under watch, with the arguments that follow it: wiregrad blame train.py. "
    "The exit code is 1 if there is such an op, or if NumPy reported NaN in the script.",
    'blame "sqrt(x*x + y*y)" x=0 y=0',
    _print_blame,
    [output_option(), json_option()],
)

RUN_QUESTIONS = (
    RunQuestion(
        "explain",
        "Say why there is no gradient, or why it is zero, tiny, huge or what it is.\n\n"
        "A script that imports PyTorch is run under watch, with the arguments that follow it: wiregrad explain "
        "train.py --of layer.weight. Without --of the answer has the gradients of all its layers.",
        'explain --of w "tanh(w * x)" w=50 x=2',
        of="The node whose gradient is asked for.",
        takes_scripts=True,
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


def _print_check(
    target: CommandTarget | torch_scripts.TorchScript, order: int, meant: Sequence[str], document: bool
) -> None:
    if _is_script(target) or isinstance(target, FrameworkTarget):
        report = target.check(order, meant)
        has_own_rules = True
    elif meant:
        raise click.UsageError("--straight-through names rules of PyTorch or JAX, which this target has not")
    else:
        report = target.check(order)
        has_own_rules = False
    if not report.ok and has_own_rules:
        click.echo("note: a rule of yours that is meant to differ is left out with --straight-through NAME", err=True)
    print_answer("check", report, document, has_problem=not report.ok)


check_command = ScriptCommand(
    "check",
    "Compare the derivative of every op with differences.\n\n"
    "A script that imports PyTorch is run under watch, with the arguments that follow it: wiregrad check train.py. "
    "The exit code is 1 if a rule is wrong.",
    'check "tanh(x * w) + b" x=2 w=-3 b=6.5',
    _print_check,
    [
        click.Option(
            ["--order"], type=click.IntRange(1, 2), default=2, show_default=True, help="How many derivatives."
        ),
        click.Option(
            ["--straight-through", "meant"],
            metavar="NAME",
            multiple=True,
            help="A rule of yours, in PyTorch or JAX, that is meant to differ from the derivative.",
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


PICTURE_WRITERS = {".svg": "to_svg", ".dot": "to_dot", ".mmd": "to_mermaid", ".txt": "to_unicode"}
"""The method that writes a picture, by the ending of the file."""


def _draw_target(
    target: CommandTarget, output: str, form: str | None, plain: bool, theme: str, **options: object
) -> None:
    ending = _infer_ending(output, form)
    if ending == ".txt":
        options = {"split": options["split"], "ascii": plain}
        if output == STDIO:
            width = shutil.get_terminal_size((100, 24)).columns
            options |= {"width": width, "ascii": plain or not _can_print("╭▶")}
    elif ending == ".svg":
        options["theme"] = theme
    picture = getattr(target.choose_picture(), PICTURE_WRITERS[ending])(**options)
    if output == STDIO:
        # As text, not bytes, so that it is written in the terminal's encoding.
        click.echo(picture)
    else:
        write_output(output, picture.encode())


PIXEL_ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".pdf")
PIXEL_ADVICE = (
    "; write FILE.svg, which browsers open, or a page with wiregrad explore -o FILE.html; a browser makes a PNG of "
    "either: chromium --headless --screenshot=FILE.png --window-size=1200,600 FILE.svg"
)
"""How to get a picture of pixels."""


def _infer_ending(output: str, form: str | None) -> str:
    ending = ".txt" if output == STDIO else Path(output).suffix.lower()
    if form:
        ending = f".{form}"
    if ending not in PICTURE_WRITERS:
        advice = PIXEL_ADVICE if ending in PIXEL_ENDINGS else ""
        raise click.UsageError(f"wanted a file that ends in {', '.join(PICTURE_WRITERS)}; got {output}{advice}")
    return ending


def _can_print(characters: str) -> bool:
    """Return whether the encoding of stdout has these characters."""
    try:
        characters.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


draw_command = TargetCommand(
    "draw",
    "Draw the circuit; with values, what flows on every wire.\n\nA function in a file is run, so it needs values.",
    'draw "e = a + b; f = e * c" a=2 b=-3 c=10 -o expression.svg',
    _draw_target,
    [
        click.Option(
            ["-o", "--output"],
            type=click.Path(),
            metavar="FILE",
            default=STDIO,
            help=f"Write a file instead: {', '.join(PICTURE_WRITERS)}; - is stdout.",
        ),
        click.Option(
            ["--format", "form"],
            type=click.Choice([ending[1:] for ending in PICTURE_WRITERS]),
            help="The form to write, if the file name does not imply it.",
        ),
        click.Option(["--split"], is_flag=True, help="Draw the splitters behind values that are read more than once."),
        click.Option(["--down"], is_flag=True, help="Draw from top to bottom (not in txt)."),
        click.Option(
            ["--theme"],
            type=click.Choice([AUTO_THEME, *THEMES]),
            default=AUTO_THEME,
            help="Colours of an SVG; print is light on white.",
        ),
        click.Option(["--ascii", "plain"], is_flag=True, help="Use ASCII characters only, in txt and the terminal."),
    ],
)


DEFAULT_LANGUAGE = "python"
HEADER_ENDING = ".h"
LANGUAGE_ENDINGS = {".py": "python", ".c": "c", HEADER_ENDING: "c", ".js": "js", ".mjs": "js", ".cu": "cuda"}
"""The language of a file, by the ending of its name."""
LANGUAGES_OF_OPTION = {"real": ("c", "cuda"), "header": ("c",), "test": ("c",)}
"""The languages of the options that not every language has."""


def _write_code(
    target: CommandTarget,
    output: str,
    language: str | None,
    of: str | None,
    expand: bool,
    test: bool,
    document: bool,
    function: str,
    **options: object,
) -> None:
    language = language or _infer_language(output)
    options["header"] = options["header"] or (language == "c" and file_ending(output) == HEADER_ENDING)
    _check_options(language, {**options, "test": test})
    if document and output != STDIO:
        raise click.UsageError(f"--json prints to stdout; leave out either --json or -o {output}")
    circuit, point = _select_circuit(target, of, expand)
    text = write_listing(circuit, language, function=function, test=point if test else None, **options)
    if document:
        answer = {"schema": ANSWER_SCHEMA, "language": language, "function": function, "code": text}
        click.echo(json.dumps(answer, indent=2))
    else:
        write_output(output, encode_lines(text))


def _infer_language(output: str) -> str:
    ending = file_ending(output)
    if output != STDIO and ending not in LANGUAGE_ENDINGS:
        raise click.UsageError(
            f"the file name {output!r} does not imply a language; "
            f"wanted a file that ends in {join_endings(LANGUAGE_ENDINGS)}, or --to LANGUAGE"
        )
    return LANGUAGE_ENDINGS.get(ending, DEFAULT_LANGUAGE)


def _check_options(language: str, options: Mapping[str, object]) -> None:
    """Raise a usage error for an option that does not apply to the language."""
    for name, languages in LANGUAGES_OF_OPTION.items():
        if options[name] and language not in languages:
            raise click.UsageError(f"--{name} is for {' and '.join(languages)}; the language is {language}")
    if options["header"] and options["test"]:
        raise click.UsageError("the self-test is in the listing, not in its header; leave out --header or --test")


def _select_circuit(target: CommandTarget, of: str | None, expand: bool) -> tuple[Circuit, Mapping[str, Any]]:
    """Return the circuit to write, and the values given for its inputs."""
    circuit, point = target.trace_circuit()
    if of is not None:
        circuit = circuit.with_output(check_node_name(circuit, of))
    if not expand:
        return circuit, point
    numbers = [number for name in circuit.inputs if name in point for number in np.ravel(point[name])]
    circuit = circuit.expand()
    return circuit, dict(zip(circuit.inputs, numbers, strict=False))


def write_listing(circuit: Circuit, language: str, *, function: str = "value_and_grad", **options: object) -> str:
    """Return a circuit as a listing; errors name the options of the command, not Python's arguments.

    >>> print(write_listing(Circuit.from_text("input x\\noutput x"), "python", function="value").splitlines()[3])
    def value(x):
    """
    if len(circuit.outputs) > 1 and function not in ("value", "jacobian"):
        outputs = ", ".join(circuit.outputs)
        raise click.UsageError(
            f"{function} needs one output, and there are {len(circuit.outputs)} ({outputs}); choose one with "
            "wiregrad code --of NAME, or take --function value or jacobian"
        )
    applicable = {
        name: value for name, value in options.items() if language in LANGUAGES_OF_OPTION.get(name, LANGUAGE_MODULES)
    }
    try:
        text: str = getattr(circuit, f"to_{language}")(function, **applicable)
    except NoRuleError as error:
        raise CommandFailure(f"{error}{_hint_for_arrays(circuit)}") from None
    except OperandError as error:
        raise click.UsageError(str(error)) from None
    if circuit.certificates:
        click.echo(escape_control_characters(_describe_branches(circuit)), err=True)
    return text


def _hint_for_arrays(circuit: Circuit) -> str:
    has_arrays = any(circuit.type_of(node).shape for node in range(circuit.size))
    return "\n  in this command: wiregrad code --to numpy, or --expand for small arrays" if has_arrays else ""


def _describe_branches(circuit: Circuit) -> str:
    """Return the note that the traced function has branches which depend on values."""
    places = list(dict.fromkeys(str(place) for _, _, place in circuit.certificates if place is not None))
    more = f" and {len(places) - 3} more" if len(places) > 3 else ""
    at = f" at {', '.join(places[:3])}{more}" if places else ""
    return f"note: Python branched on values{at}; the listing is right only at inputs that take the same branches"


code_command = TargetCommand(
    "code",
    "Print the circuit as code, forward and backward, line by line.\n\n"
    "The listing needs nothing but its language. Values matter only to a function in a file, which is traced at them, "
    "and to --test.",
    'code --to c "e = a + b; f = e * c"',
    _write_code,
    [
        click.Option(
            ["--to", "language"],
            type=click.Choice(list(LANGUAGE_MODULES)),
            help=f"The language; by default that of the file name, else {DEFAULT_LANGUAGE}.",
        ),
        click.Option(
            ["-o", "--output"],
            type=click.Path(),
            metavar="FILE",
            default=STDIO,
            help=f"Write a file instead: {', '.join(LANGUAGE_ENDINGS)}; - is stdout.",
        ),
        click.Option(
            ["--function"],
            type=click.Choice(LISTING_FUNCTIONS),
            default="value_and_grad",
            show_default=True,
            help="What the code computes.",
        ),
        click.Option(["--name"], metavar="NAME", help="The name of the function; by default it says what is computed."),
        click.Option(["--of"], metavar="NAME", help="The output or node to write code for."),
        click.Option(["--expand"], is_flag=True, help="Expand a small array circuit to single numbers first."),
        click.Option(["--real"], type=click.Choice(["double", "float"]), help="The type of all numbers (c, cuda)."),
        click.Option(["--header"], is_flag=True, help="Print the header of the listing instead (c)."),
        click.Option(["--test"], is_flag=True, help="Add a self-test at the values, for -DWIREGRAD_TEST (c)."),
        json_option(),
    ],
)


PICTURE_METHODS = {ending[1:]: method for ending, method in PICTURE_WRITERS.items() if ending not in FORM_ENDINGS}
"""The method for each kind of picture; not the one for terminals, whose ending .txt means the text form here."""
PICTURE_ENDINGS = {f".{picture}": picture for picture in PICTURE_METHODS}
CONVERT_ENDINGS = {**FORM_ENDINGS, **PICTURE_ENDINGS, **LANGUAGE_ENDINGS}
"""The form of a file, by the ending of its name."""


def _convert_target(target: CommandTarget, output: str, form: str | None) -> None:
    form = form or _infer_form(output)
    if form == ARCHIVE_FORM and output == STDIO and sys.stdout.isatty():
        raise click.UsageError("a circuit file is binary; name a file for it, or redirect stdout to one")
    write_output(output, _encode_target(target, form, header=file_ending(output) == HEADER_ENDING))


def _infer_form(output: str) -> str:
    form = CONVERT_ENDINGS.get(file_ending(output))
    if form is None:
        what = "stdout has no ending" if output == STDIO else f"the name {output!r} does not say the form"
        raise click.UsageError(f"{what}; wanted a file that ends in {join_endings(CONVERT_ENDINGS)}, or --to FORM")
    return form


def _encode_target(target: CommandTarget, form: str, header: bool) -> bytes:
    """Return the content of a file in the given form."""
    if form in PICTURE_METHODS:
        return encode_lines(getattr(target.choose_picture(), PICTURE_METHODS[form])())
    circuit: Circuit = target.trace_circuit()[0]
    if form in LANGUAGE_MODULES:
        return encode_lines(write_listing(circuit, form, header=header and form == "c"))
    if form == ARCHIVE_FORM:
        return b"".join(encode_circuit_file(circuit))
    return encode_lines(circuit.to_json() if form == JSON_FORM else circuit.to_text())


convert_command = TargetCommand(
    "convert",
    "Write a circuit in another form: text, JSON, file, picture or code.\n\n"
    f"The name of OUT says which: {', '.join(CONVERT_ENDINGS)}. "
    "Here .txt is the text form, which can be read back; for the "
    "picture in characters use draw. A file that is there already is replaced.",
    'convert "e = a + b; f = e * c" expression.json',
    _convert_target,
    [
        click.Argument(["output"], metavar="OUT", shell_complete=complete_file_names),
        click.Option(
            ["--from", "source"],
            type=click.Choice(CIRCUIT_FORMS),
            help="The form of the file or stdin, if its name or content does not imply it.",
        ),
        click.Option(
            ["--to", "form"],
            type=click.Choice([*CIRCUIT_FORMS, *PICTURE_METHODS, *LANGUAGE_MODULES]),
            help="The form to write, if the file name does not imply it; OUT may be -, stdout.",
        ),
    ],
    what="IN",
)
