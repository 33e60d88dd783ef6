"""Wherever people read, a node without a name goes by its source text or by what it computes, never by its number."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.cli import main
from wiregrad.explorer.circuit_views import CircuitViews
from wiregrad.explorer.page_data import build_page_data
from wiregrad.ir.circuit import NodeReference, binding_level, shorten_middle

from ..support.lecture_mlp import make_model
from ..support.sampling import sample_pairs

AUTOMATIC_NAME = re.compile(r"%\d+")


def unnamed(x: Any, y: Any) -> Any:
    """Return a number computed by many nodes without names."""
    return np.sum(np.sqrt((x - y) ** 2 + 1e-3) * np.where(x > y, np.tanh(x) * 3.0, y)) + np.mean(np.abs(x * y))


def looped(x: Any, y: Any) -> Any:
    """Return a chain of many nodes without names."""
    for _ in range(6):
        x = np.tanh(np.sin(x) * 1.5 + y) - x / 7.0
    return np.max(x) * 2.0 - np.maximum(x[0], 0.0)


def steered(x: Any, y: Any) -> Any:
    """Return what depends on a condition, and drops the gradient of a part."""
    if np.sum(x * x) * 2.0 > 1.0:
        return np.sum(wg.stop_gradient(x * y) * x - wg.relu(y - 10.0) * x)
    return np.sum(x)


def broken(x: Any, y: Any) -> Any:
    """Return a number whose gradient is not finite."""
    return np.sqrt(np.sum((x - x) ** 2)) * 2.0 + np.log(np.sum(y - y) * 3.0)


POINT = np.array([0.5, -1.0, 2.0]), np.array([1.5, 0.25, -0.5])
FUNCTIONS = [unnamed, looped, steered, broken]
RUN_QUESTIONS: dict[str, Callable[[wg.Run], object]] = {
    "steps": lambda run: "\n".join(map(str, run.steps())),
    "blame": lambda run: run.blame(),
    "explain": lambda run: "\n".join(str(run.explain(node.name)) for node in run.circuit.nodes),
    "paths": lambda run: "\n".join(str(run.paths(name)) for name in run.circuit.inputs),
    "paths of a node": lambda run: run.paths(run.circuit.nodes[0].name),
    "branches": lambda run: "\n".join(str(run.branches(node.name)) for node in run.circuit.nodes),
    "kinks": lambda run: run.kinks(),
    "flow": lambda run: run.flow(),
    "flow by rank": lambda run: run.flow(by="rank"),
    "rounding": lambda run: run.rounding(),
    "svg": lambda run: run.to_svg(),
    "svg of splitters": lambda run: run.to_svg(split=True),
    "svg of few boxes": lambda run: run.to_svg(cap=6),
    "dot": lambda run: run.to_dot(),
    "mermaid": lambda run: run.to_mermaid(),
    "terminal": lambda run: run.to_unicode(),
    "terminal of few boxes": lambda run: run.to_unicode(cap=6),
    "repr": repr,
    "nodes": lambda run: "\n".join(map(str, run.circuit.nodes)),
    "page": lambda run: build_page_data(run.circuit, run),
    "parts": lambda run: CircuitViews(run.circuit, run).draw_view(nodes="3-12"),
    "find": lambda run: CircuitViews(run.circuit, run).find_nodes("op:multiply"),
    "node": lambda run: [CircuitViews(run.circuit, run).describe_node(k) for k in range(run.circuit.size)],
    "why": lambda run: [CircuitViews(run.circuit, run).explain_gradient(k) for k in range(run.circuit.size)],
    "diff": lambda run: wg.diff(run.circuit, wg.trace(looped, *POINT)),
}


@pytest.mark.parametrize(("question", "f"), sample_pairs(RUN_QUESTIONS, FUNCTIONS))
def test_no_answer_or_picture_shows_the_number_of_a_node(f: Callable[..., Any], question: str) -> None:
    with np.errstate(all="ignore"):
        shown = str(RUN_QUESTIONS[question](wg.run(f, *POINT)))

    assert not AUTOMATIC_NAME.findall(shown)


@pytest.mark.parametrize("f", [unnamed, looped, steered], ids=lambda f: f.__name__)
def test_checks_do_not_show_the_number_of_a_node(f: Callable[..., Any]) -> None:
    assert not AUTOMATIC_NAME.findall(str(wg.check_grads(f, *POINT)))


def test_a_branch_that_would_be_taken_otherwise_is_named_by_its_text() -> None:
    circuit = wg.trace(steered, *POINT)
    with pytest.raises(wg.WiregradError) as raised:
        circuit(x=np.zeros(3), y=np.zeros(3))

    assert not AUTOMATIC_NAME.findall(str(raised.value))
    assert "np.sum(x * x) * 2.0 > 1.0" in str(raised.value)


@pytest.mark.parametrize("command", ["grad", "blame", "draw", "kinks", "rounding", "check"])
def test_the_command_does_not_show_the_number_of_a_node(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "model.txt"
    file.write_text(
        "circuit y\ninput x, w\n%2 = multiply x w\n%3 = tanh %2\n%4 = exp %3\ny = multiply %4 %2\noutput y\n"
    )
    code = main([command, str(file), "x=0.5", "w=2"])
    shown = capsys.readouterr().out

    assert code == 0, shown
    assert not AUTOMATIC_NAME.findall(shown)


def test_answers_about_a_network_speak_of_its_layers_and_parameters() -> None:
    run = wg.run(make_model(3, 1), [2.0, 3.0])
    flow = str(run.flow())

    assert all(f"layers[{k}]/neurons[0]" in flow for k in range(2))
    assert "layers[0].neurons[0].w[0] reaches" in str(run.paths("layers[0].neurons[0].w[0]"))
    assert "the gradient of layers[1].neurons[0].b is" in str(run.explain("layers[1].neurons[0].b"))


def test_blame_names_the_group_of_the_call_that_broke() -> None:
    model = make_model(2, 1)
    model.layers[1].neurons[0].b.data = float("nan")
    said = str(wg.run(model, [2.0, 3.0]).blame())

    assert "the input layers[1].neurons[0].b is NaN" in said


def test_a_group_called_like_a_function_is_a_layer() -> None:
    def f(x: Any) -> Any:
        for label in ("inner", "mean"):
            with wg.group(label):
                x = np.tanh(np.mean(x) + 2.0 * x)
        return np.sum(x)

    layers = [layer.name for layer in wg.run(f, np.ones(3)).flow().layers]

    assert {"inner", "mean"} <= {*layers}


def test_a_reference_is_looked_up_by_number_and_reads_as_its_title() -> None:
    run = wg.run(lambda x: np.tanh(x * 2.0) + 1.0, 0.5)
    name = run.paths("x").paths[0].nodes[1]

    assert isinstance(name, NodeReference)
    assert AUTOMATIC_NAME.fullmatch(name)
    assert run.circuit[name].title == f"{name}" == "x * 2.0"


@pytest.mark.parametrize(
    ("text", "level"),
    [("a < b", 0), ("a + b", 2), ("a - -b", 2), ("a * (b + c)", 3), ("-x", 4), ("x**2", 5), ("f(a + b)", 9), ("a", 9)],
)
def test_the_outermost_operator_decides_about_parentheses(text: str, level: int) -> None:
    assert binding_level(text) == level


@pytest.mark.parametrize("width", [3, 10, 11, 50])
def test_a_long_text_loses_its_middle(width: int) -> None:
    text = "np.sum((one - two) ** 2)"
    short = shorten_middle(text, width)

    assert len(short) == min(width, len(text))
    assert text.startswith(short.partition("…")[0])
    assert text.endswith(short.rpartition("…")[2])
