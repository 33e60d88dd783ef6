"""Which mistake a gradient shows that was written by hand: the mutant backward rules of a quiz, tried one by one.

A mistake is named only if the backward pass that makes it gives every number that was compared, the right ones too.
A value with several readers is tried first, then one wire, one node, every node of one op, and every node.

Start with `name_mistakes`; `wg.check_grads` calls it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wiregrad.errors import WiregradError
from wiregrad.ir import CircuitGraph
from wiregrad.learn.quiz_run import (
    MAX_QUIZ_NODES,
    RULE_MISTAKES,
    QuizCircuit,
    QuizRun,
    Wire,
    mutate_local,
    sweep_with_mistake,
)
from wiregrad.learn.sentences import WORDS
from wiregrad.passes import expand

Changes = dict[Wire, float | None]
"""The local derivatives that a mistake puts in place of the right ones; None sends nothing."""

MAX_SEARCHED_WIRES: Final = 250
"""Maximum number of wires at which mistakes are tried one by one; in larger circuits they are tried op by op."""
MAX_NAMED_MISTAKES: Final = 2
"""If more mistakes than this give the same numbers, none of them is named."""
MATCH_TOLERANCE: Final = 1e-6
ZERO_TOLERANCE: Final = 1e-12
"""What is left of parts that cancel, of the largest gradient."""
TRIED_RULES: Final = ("sign", *(key for key in RULE_MISTAKES if f"spot.{key}.detail" in WORDS))
"""The mistakes in the local derivative of a wire that have words."""


def name_mistakes(circuit: CircuitGraph, inputs: Mapping[str, Any], handwritten: Mapping[str, Any]) -> list[str]:
    """Return the mistakes that give the gradients by hand; empty if none does, or too many do.

    `inputs` are all inputs of the circuit in order, `handwritten` the gradients that are compared, by input.

    >>> from wiregrad.frontends import parse_formula
    >>> name_mistakes(parse_formula("y = x*x + x"), {"x": 3.0}, {"x": 1.0})
    ['x keeps what y sends back alone, where it is read 3 times: add what all of its readers send back']
    """
    if sum(np.size(value) for value in inputs.values()) > MAX_QUIZ_NODES:
        return []
    try:
        owner = QuizCircuit(expand(circuit))
        leaves = _flatten(inputs.values())
        wanted = _flatten(handwritten.get(name, np.zeros(np.shape(value))) for name, value in inputs.items())
        run = owner.run(dict(zip(owner.inputs, leaves.tolist(), strict=True)))
    except (WiregradError, TypeError, ValueError):
        return []  # The questions of a quiz are about circuits of real numbers with one output.
    compared = _flatten(np.full(np.shape(value), name in handwritten) for name, value in inputs.items()) != 0.0
    with np.errstate(all="ignore"):
        return _find_matches(run, wanted, compared)


def _flatten(arrays: Iterable[Any]) -> NDArray[np.float64]:
    """Return the elements of some arrays in a row; raise `TypeError` for complex numbers."""
    return np.array([float(number) for array in arrays for number in np.ravel(array).tolist()])


def _find_matches(run: QuizRun, wanted: NDArray[np.float64], compared: NDArray[np.bool_]) -> list[str]:
    slopes = {wire: run.local(wire) for wire in run.owner.wires}
    leaves = list(run.owner.circuit.input_indices())
    rounding = ZERO_TOLERANCE * float(np.max(np.abs(wanted[compared])))
    for _, mistakes in groupby(_list_mistakes(run, slopes), key=lambda mistake: mistake[0]):
        matches: list[str] = []
        tried: list[Changes] = []
        for _, text, changes in mistakes:
            if changes in tried:
                continue  # The same mistake by another name, as a missing factor -1 and a wrong sign.
            tried.append(changes)
            grads = sweep_with_mistake(run, (slopes | changes).get)
            numbers = np.array([grads.get(leaf, 0.0) for leaf in leaves])
            if np.allclose(numbers[compared], wanted[compared], rtol=MATCH_TOLERANCE, atol=rounding):
                matches.append(text)
        if matches:
            return matches if len(matches) <= MAX_NAMED_MISTAKES else []
    return []


def _list_mistakes(run: QuizRun, slopes: Changes) -> Iterator[tuple[str, str, Changes]]:
    """Yield how far each mistake goes, what it is, and what it changes; those at one place come first."""
    owner = run.owner
    groups: dict[tuple[Wire, ...], tuple[str, str]] = {}
    if len(owner.wires) <= MAX_SEARCHED_WIRES:
        yield from _list_branch_mistakes(run)
        for wire in owner.wires:
            place = f"what {run.describe_reader(wire)} sends to {owner.title(owner.source_of(wire))}"
            groups.setdefault((wire,), ("place", place))
        for node in owner.functions:
            groups.setdefault(_select(owner.wires, (node,)), ("node", f"what {owner.title(node)} sends back"))
    for op in dict.fromkeys(owner.ops[node].name for node in owner.functions):
        nodes = [node for node in owner.functions if owner.ops[node].name == op]
        groups.setdefault(_select(owner.wires, nodes), ("op", f"what every {op} sends back"))
    groups.setdefault(tuple(owner.wires), ("all", "what every node sends back"))
    yield from _list_overwrites(run)
    for wires, (reach, place) in groups.items():
        for key in TRIED_RULES:
            changes = _change_rules(run, slopes, key, wires)
            if changes:
                yield reach, f"{place} is {_describe_product(key)}", changes


def _list_overwrites(run: QuizRun) -> Iterator[tuple[str, str, Changes]]:
    """Yield the mistakes of a backward pass that overwrites, or never adds, at every value with several readers."""
    shared = {node: wires for node, wires in run.owner.readers.items() if len(wires) > 1}
    inputs = {node: wires for node, wires in shared.items() if node in run.owner.leaves}
    rule = "add what all of its readers send back"
    for values, what in ((inputs, "input"), (shared, "value")):
        for kept, which in ((0, "first"), (-1, "last")):
            changes: Changes = {wire: None for wires in values.values() for wire in wires if wire != wires[kept]}
            if changes:
                yield "all", f"every {what} keeps what its {which} reader sends back alone: {rule}", changes


def _describe_product(key: str) -> str:
    """Return what a mistaken rule sends, and what the right one does."""
    product = WORDS[f"spot.{key}.detail"].removeprefix("sent = ")
    return product if key == "sign" else f"{product}; it should be what arrived × local derivative of the wire"


def _select(wires: Sequence[Wire], nodes: Sequence[int]) -> tuple[Wire, ...]:
    return tuple(wire for wire in wires if wire[0] in nodes)


def _list_branch_mistakes(run: QuizRun) -> Iterator[tuple[str, str, Changes]]:
    """Yield the mistakes at a value with several readers: one branch is kept, or one left out."""
    for node, wires in run.owner.readers.items():
        title = run.owner.title(node)
        rule = f"where it is read {len(wires)} times: add what all of its readers send back"
        for wire in wires if len(wires) > 1 else ():
            reader = run.describe_reader(wire)
            others: Changes = dict.fromkeys((other for other in wires if other != wire), None)
            yield "branch", f"{title} keeps what {reader} sends back alone, {rule}", others
            if len(wires) > 2:
                yield "branch", f"{title} leaves out what {reader} sends back, {rule}", {wire: None}


def _change_rules(run: QuizRun, slopes: Changes, key: str, wires: Sequence[Wire]) -> Changes:
    """Return the factors that a mistake puts on wires, where they differ from the right ones."""
    changes: Changes = {}
    for wire in wires:
        local = slopes[wire]
        factor = (None if local is None else -local) if key == "sign" else mutate_local(run, key, wire)
        if factor is not None and factor != local:
            changes[wire] = factor
    return changes
