"""A run step by step: forward from the inputs, the seed, then backward to the inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from wiregrad.backends import RunNode, RunRecord, RunWire
from wiregrad.dtypes import PythonNumber, WireValue, format_brief_number, parenthesize_negative
from wiregrad.inspect.report import join_with_and
from wiregrad.ir import CONSTANT, INPUT, Node, Pattern


@dataclass(frozen=True, slots=True)
class RunStep:
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


def steps(run: RunRecord) -> Iterator[RunStep]:
    """Return the steps of a run in the order in which they happened."""
    for node in range(run.circuit.size):
        yield _forward_step(run, Node(run.circuit, node))
    root = Node(run.circuit, run.circuit.root())
    yield RunStep("seed", root.name, (), (1.0,), f"{root.title} is the output: its gradient is 1")
    for node in reversed(range(run.circuit.size)):
        if run.flows[node] is not None:
            yield from _backward_steps(run, Node(run.circuit, node))


def steps_of_node(run: RunRecord, node: int, phase: str) -> list[RunStep]:
    """Return the steps of one node in one phase, `forward` or `backward`."""
    view = Node(run.circuit, node)
    if phase == "forward":
        return [_forward_step(run, view)]
    return [] if run.flows[node] is None else [*_backward_steps(run, view)]


def _forward_step(run: RunRecord, node: Node) -> RunStep:
    view = RunNode(run, node.index)
    value = format_brief_number(view.value)
    arrived = tuple(wire.value for wire in view.wires)
    if node.op is INPUT:
        sentence = f"{node.name} is given: {value}"
    elif node.op is CONSTANT:
        sentence = f"{node.name} is the constant {value}" if _is_named(node) else f"the constant {value}"
    elif node.op.pattern is Pattern.MERGE:
        sentence = f"{node.title} copies {value} from {view.wires[0].source} to two wires"
    else:
        sentence = f"{node} = {node.op.expression(*map(parenthesize_negative, arrived))} = {value}"
    return RunStep("forward", node.name, arrived, (view.value,), sentence)


def _is_named(node: Node) -> bool:
    return bool(node.circuit.columns.names.names_of(node.index))


def _backward_steps(run: RunRecord, node: Node) -> Iterator[RunStep]:
    view = RunNode(run, node.index)
    returned = [wire for wire in view.branches if not wire.blocked]
    if len(returned) > 1:
        yield _merge_step(node, returned[::-1], view.grad)
    sources = zip(view.wires, run.circuit.sources_of(node.index), strict=True)
    wires = [wire for wire, source in sources if run.circuit.op_of(source) is not CONSTANT]
    if wires:
        yield RunStep(
            "backward",
            node.name,
            (view.grad,),
            tuple((wire.source, wire.sent) for wire in wires),
            f"{node.title if node.op.pattern is Pattern.MERGE else node} {_describe_sends(wires)}",
        )


def _merge_step(node: Node, returned: Sequence[RunWire], total: WireValue | PythonNumber) -> RunStep:
    parts = tuple(wire.sent for wire in returned)
    origins = tuple(wire.reader for wire in returned)
    addends = " + ".join(map(parenthesize_negative, parts))
    addition = f"{addends} = {format_brief_number(total)}"
    sentence = f"{node.title} adds what came back from {join_with_and(origins)}: {addition}"
    return RunStep("backward", node.name, parts, (total,), sentence)


def _describe_sends(wires: Sequence[RunWire]) -> str:
    parts = [f"{'nothing' if wire.blocked else format_brief_number(wire.sent)} to {wire.source}" for wire in wires]
    return f"sends {join_with_and(parts)}"
