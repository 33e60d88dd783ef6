"""`wiregrad explore`: the circuit on a page, in the browser or as one HTML file.

`PRESETS` holds the example circuits that can be opened by name; the menu of the page has the same ones
(`web/src/state/presets.ts`, held equal by a test).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
import numpy as np

from wiregrad.api import Circuit, Run
from wiregrad.backends import interpreter
from wiregrad.cli.command_base import (
    TARGET_HELP,
    CommandTarget,
    complete_file_names,
    encode_lines,
    no_color_option,
    parse_target,
    write_output,
)
from wiregrad.dtypes import WireType, WireValue
from wiregrad.errors import WiregradError, suggest_name
from wiregrad.frontends import parse_formula
from wiregrad.ir.columns import normalize_name
from wiregrad.lazy import load_module_lazily

if TYPE_CHECKING:
    from wiregrad.api import diagnostics
    from wiregrad.explorer import html_page, local_server, page_data
    from wiregrad.inspect import flight_recorder
else:
    # A file needs no server, and the server builds its own page.
    html_page = load_module_lazily("wiregrad.explorer.html_page")
    local_server = load_module_lazily("wiregrad.explorer.local_server")
    page_data = load_module_lazily("wiregrad.explorer.page_data")
    # Most targets are no saved trainings.
    diagnostics = load_module_lazily("wiregrad.api.diagnostics")
    flight_recorder = load_module_lazily("wiregrad.inspect.flight_recorder")


class Preset(NamedTuple):
    """A formula and the initial values of its inputs."""

    formula: str
    leaves: dict[str, float]


def _make_network() -> Preset:
    hidden = [f"h{k} = tanh(x1*u{k} + x2*v{k} + b{k})" for k in (1, 2, 3)]
    leaves = {"x1": 1, "u1": 0.5, "x2": -2, "v1": 0.25, "b1": 0.1, "u2": -0.75, "v2": 0.3, "b2": 0, "u3": 0.2}
    leaves |= {"v3": -0.4, "b3": -0.3, "w1": 0.8, "w2": -0.6, "w3": 0.4, "c": 0.1}
    return Preset("; ".join([*hidden, "o = tanh(h1*w1 + h2*w2 + h3*w3 + c)"]), leaves)


def _make_chain(length: int) -> Preset:
    names = ["x", *(f"h{k}" for k in range(1, length + 1))]
    steps = [f"{out} = tanh({into})" for into, out in pairwise(names)]
    return Preset("; ".join(steps), {"x": 2.5})


PRESETS: dict[str, Preset] = {
    "expression": Preset("e = a + b; f = e * c", {"a": 2, "b": -3, "c": 10}),
    "fan-out": Preset("y = x*x + x", {"x": 3}),
    "neuron": Preset(
        "n = x1*w1 + x2*w2 + b; o = tanh(n)", {"x1": 2, "w1": -3, "x2": 0, "w2": 1, "b": 6.8813735870195432}
    ),
    "sigmoid": Preset(
        "d = w0*x0 + w1*x1 + w2; m = -d; p = exp(m); q = 1 + p; L = 1 / q",
        {"w0": 2, "x0": -1, "w1": -3, "x1": -2, "w2": -3},
    ),
    "router": Preset("m = maximum(a, b); r = relu(c); y = 2*m + r", {"a": 3, "b": -1, "c": -2}),
    "softmax": Preset("s = exp(z1) + exp(z2) + exp(z3); p = exp(z2) / s; L = -log(p)", {"z1": 1, "z2": 2, "z3": 0.5}),
    "mlp": _make_network(),
    "vanishing": _make_chain(20),
    "nan": Preset("l = log(q); t = p * l; L = -t", {"p": 0, "q": 0}),
}


MAX_PATH_LENGTH = 4096
"""Longer texts are formulas, not paths."""
DEFAULT_PRESET = "expression"
"""The example that opens when no formula is given."""


def _explore_target(
    formula: str | None,
    values: Sequence[str],
    output: str | None,
    source: bool,
    browser: bool,
    port: int,
    address: str | None,
) -> None:
    formula = _refuse_unknown_options(formula or DEFAULT_PRESET, values)
    flight_path = _find_flight(formula)
    if flight_path is not None:
        _explore_flight(flight_path, values, output, browser, port)
        return
    preset = PRESETS.get(formula)
    text = formula if preset is None else preset.formula
    target = parse_target(text, values)
    circuit, run = run_target(target, {} if preset is None else preset.leaves)
    known_formula = text if _is_formula(circuit, text) else None
    if output is not None:
        _save_page(output, circuit, run, source, known_formula)
        return
    session = page_data.ExplorerSession(circuit, run, source=source, formula=known_formula)
    local_server.open_explorer(session, port=port, address=address or local_server.LOOPBACK_ADDRESS, browser=browser)


def _find_flight(text: str) -> Path | None:
    """Return the path of a saved training, if the text is one."""
    if len(text) > MAX_PATH_LENGTH or "\0" in text or text in PRESETS:
        return None
    path = Path(text)
    try:
        if not path.is_file():
            return None
        with path.open("rb") as file:
            return path if flight_recorder.is_flight(file.read(200)) else None
    except OSError:
        return None


def _explore_flight(path: Path, values: Sequence[str], output: str | None, browser: bool, port: int) -> None:
    if values or output is not None:
        raise click.UsageError(f"{path.name} is a saved training: it takes no values, and is shown in the browser only")
    diagnostics.open_flight(path, flight_recorder.load_flight(path), port=port, browser=browser)


def _refuse_unknown_options(formula: str, values: Sequence[str]) -> str:
    """Return the formula; refuse an unknown option, which click took for a formula or value."""
    for text in (formula, *values):
        if re.match(r"--[a-z]", text) and (text is not formula or re.fullmatch(r"--[a-z-]+", text)):
            option = text.partition("=")[0]
            known = [name for param in explore_command.params if isinstance(param, click.Option) for name in param.opts]
            raise click.UsageError(f"there is no option {option}{suggest_name(option, known)}")
    return formula


def run_target(target: CommandTarget, defaults: Mapping[str, float]) -> tuple[Circuit, Run]:
    """Return the circuit of a target and a run of it; an input without a value gets its default, or else 1.

    If there are several outputs, or an array, the gradient is that of the sum of all their elements.

    >>> run_target(parse_target("a * b", ["a=3"]), {})[1].grads
    {'a': 1.0, 'b': 3.0}
    """
    circuit, values = target.trace_circuit()
    ones = {name: _make_ones(circuit.type_of(circuit.index(name))) for name in circuit.inputs}
    known = {normalize_name(name): value for name, value in defaults.items()}
    point = ones | known | dict(values)
    missing = [name for name in circuit.inputs if name not in known and name not in values]
    if missing and values:
        names = ", ".join(missing[:5]) + " and others" * (len(missing) > 5)
        click.echo(f"note: inputs without a value start at 1: {names}", err=True)
    # Without values, ones may flip a branch of a traced function; then the page shows a note.
    return circuit, Run.from_backend_run(
        interpreter.run_all_outputs(circuit, interpreter.bind_inputs(circuit, [point], {}), check=bool(values))
    )


def _make_ones(kind: WireType) -> WireValue:
    ones: WireValue = np.ones(kind.shape, kind.dtype)[()]
    return ones


def _is_formula(circuit: Circuit, text: str) -> bool:
    """Return whether a text is the formula of a circuit, and not the name of its file."""
    try:
        return parse_formula(text) == circuit
    except WiregradError:
        return False


def _save_page(output: str, circuit: Circuit, run: Run, source: bool, formula: str | None) -> None:
    data = page_data.build_file_data(circuit, run, source=source, formula=formula)
    if "note" in data:
        click.echo(f"note: {data['note']}", err=True)
    write_output(output, encode_lines(html_page.render_page(data, circuit.name)))


explore_command = click.Command(
    "explore",
    params=[
        click.Argument(["formula"], required=False, metavar="[FORMULA]", shell_complete=complete_file_names),
        click.Argument(["values"], nargs=-1, metavar="[NAME=VALUE]..."),
        click.Option(
            ["-o", "--output"], type=click.Path(), metavar="FILE", help="Write one HTML file instead; - is stdout."
        ),
        click.Option(["--source"], is_flag=True, help="Show the lines of code that made the nodes."),
        click.Option(["--browser/--no-browser"], default=True, help="Open the browser, or print the address only."),
        click.Option(["--port"], type=click.IntRange(0, 65535), default=0, help="The port; by default any free one."),
        click.Option(
            ["--allow-remote", "address"],
            metavar="ADDRESS",
            help="Serve at this address of the machine, so that others can connect; not encrypted.",
        ),
        no_color_option(),
    ],
    callback=_explore_target,
    help="Step through the circuit on a page in the browser.\n\n"
    f"Without a formula the page shows an example; the names of examples are {', '.join(PRESETS)}. "
    "Inputs without a value start at 1. Ctrl-C stops it."
    '\n\n\b\nExample: wiregrad explore "e = a + b; f = e * c" a=2 b=-3 c=10',
    short_help="Step through the circuit on a page in the browser.",
    epilog=TARGET_HELP.format(what="FORMULA"),
    # A formula may begin with a minus sign: -h is one, so help is --help alone.
    context_settings={"ignore_unknown_options": True, "help_option_names": ["--help"]},
)
