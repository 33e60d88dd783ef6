"""A run step by step: forward from the inputs, the seed, then backward to the inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from wiregrad.backends import Run, RunWire
from wiregrad.dtypes import number, operand
from wiregrad.inspect.report import in_words
from wiregrad.ir import CONSTANT, INPUT, Node, Pattern


@dataclass(frozen=True, slots=True)
class Step:
    """One event of a run; `str` gives it as a sentence.

    `phase` is forward, seed or backward. `arrived` holds the input values (forward) or the upstream gradient
    (backward). `sent` holds the value (forward), or a pair of source name and gradient for each wire (backward).
    """

    phase: str
    node: str
    arrived: tuple[Any, ...]
    sent: tuple[Any, ...]
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def steps(run: Run) -> Iterator[Step]:
    """Return the steps of a run in the order in which they happened."""
    for node in range(run.circuit.size):
        yield _forward(run, Node(run.circuit, node))
    root = Node(run.circuit, run.circuit.root())
    yield Step("seed", root.name, (), (1.0,), f"{root.name} is the output: its gradient is 1")
    for node in reversed(range(run.circuit.size)):
        if run.flows[node] is not None:
            yield from _backward(run, Node(run.circuit, node))


def _forward(run: Run, node: Node) -> Step:
    view = run[node.name]
    value = number(view.value)
    arrived = tuple(wire.value for wire in view.wires)
    if node.op is INPUT:
        sentence = f"{node.name} is given: {value}"
    elif node.op is CONSTANT:
        sentence = f"{node.name} is the constant {value}"
    elif node.op.pattern is Pattern.MERGE:
        sentence = f"{node.name} copies {value} from {view.wires[0].source} to two wires"
    else:
        sentence = f"{node} = {node.op.expression(*map(operand, arrived))} = {value}"
    return Step("forward", node.name, arrived, (view.value,), sentence)


def _backward(run: Run, node: Node) -> Iterator[Step]:
    view = run[node.name]
    returned = [wire for wire in view.branches if not wire.blocked]
    if len(returned) > 1:
        yield _merge(node, returned[::-1], view.grad)
    wires = [wire for wire in view.wires if run.circuit[wire.source].op is not CONSTANT]
    if wires:
        yield Step(
            "backward",
            node.name,
            (view.grad,),
            tuple((wire.source, wire.sent) for wire in wires),
            f"{'splitter ' + node.name if node.op.pattern is Pattern.MERGE else node} {_sends(wires)}",
        )


def _merge(node: Node, returned: Sequence[RunWire], total: Any) -> Step:
    parts = tuple(wire.sent for wire in returned)
    origins = tuple(wire.reader for wire in returned)
    sentence = (
        f"{node.name} adds what came back from {in_words(origins)}: {' + '.join(map(operand, parts))} = {number(total)}"
    )
    return Step("backward", node.name, parts, (total,), sentence)


def _sends(wires: Sequence[RunWire]) -> str:
    parts = [f"{'nothing' if wire.blocked else number(wire.sent)} to {wire.source}" for wire in wires]
    return f"sends {in_words(parts)}"
