"""Blame and explain over the corpus of broken programs: the right op and the right line, every time.

That a program really is broken is shown without asking blame or explain: from its value, its gradients and its run.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.ir import Node
from wiregrad.ops.gradient_flow import MaskedFlow

from ..support.broken import CORPUS, MARK, Broken

MANY = 48
TINY, HUGE, CANCELS = 1e-20, 1e20, 1e10
"""Far enough from ordinary numbers that any sensible threshold calls them so."""

BLAMED = [entry for entry in CORPUS if entry.question == "blame"]
EXPLAINED = [entry for entry in CORPUS if entry.question == "explain"]
ASKED = [*BLAMED, *EXPLAINED]


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    with np.errstate(all="ignore"):
        yield


def each(entries: list[Broken]) -> Any:
    return pytest.mark.parametrize("entry", entries, ids=lambda entry: entry.name)


def marks(entry: Broken) -> list[int]:
    """Return the lines that are marked in the source of an entry."""
    text, first = inspect.getsourcelines(entry.marked)
    return [first + k for k, line in enumerate(text) if line.rstrip().endswith(MARK)]


def unsaid(entry: Broken, text: str) -> list[str]:
    """Return what of an entry's op, words and marked line a report's text leaves out."""
    places = [f"{Path(inspect.getfile(entry.marked)).name}:{line}" for line in marks(entry)]
    patterns = [*(rf"\b{re.escape(word)}" for word in (entry.op, *entry.words)), *(rf"{place}\b" for place in places)]
    return [pattern for pattern in patterns if not re.search(pattern, text, re.IGNORECASE)]


def floats(entry: Broken) -> tuple[int, ...]:
    """Return the positions of the arguments that can be differentiated."""
    return tuple(k for k, arg in enumerate(entry.args) if isinstance(arg, dict) or np.asarray(arg).dtype.kind in "fc")


def value_and_gradients(entry: Broken) -> tuple[Any, dict[str, Any]]:
    """Return what a program gives, its gradients under the names that a run has for the inputs."""
    value, found = wg.value_and_grad(entry.program, argnums=floats(entry))(*entry.args)
    names = list(inspect.signature(entry.program).parameters)
    gradients = {}
    for k, gradient in zip(floats(entry), found, strict=True):
        leaves = {f"_{key}": leaf for key, leaf in gradient.items()} if isinstance(gradient, dict) else {"": gradient}
        gradients.update({names[k] + suffix: leaf for suffix, leaf in leaves.items()})
    return value, gradients


def is_absent(flow: Any) -> bool:
    return flow is None or (isinstance(flow, MaskedFlow) and not np.any(flow.mask))


def kind_of(entry: Broken) -> set[str]:
    """Return every kind that the gradient an entry asks for can be said to be."""
    gradient = np.abs(value_and_gradients(entry)[1][entry.of])
    run = wg.run(entry.program, *entry.args)
    parts = sum((np.abs(branch.sent) for branch in run[entry.of].branches), np.zeros(gradient.shape))
    zero, absent = not gradient.any(), is_absent(run.flows[run.circuit.index(entry.of)])
    kinds = {
        "nonfinite": not np.isfinite(gradient).all(),
        "absent": zero and absent,
        "zero": zero and not absent,
        "tiny": 0.0 < gradient.max() < TINY,
        "huge": bool(HUGE < gradient.max() < np.inf),
        "cancelling": bool((parts > CANCELS * gradient).all()),
    }
    return {kind for kind, holds in kinds.items() if holds}


def is_finite(values: list[Any]) -> bool:
    return all(np.isfinite(value).all() for value in values)


def assert_accused(entry: Broken, found: Any, text: str) -> None:
    """Assert that what a report names first is the op and the line to blame, and that its text says so."""
    # An input is written nowhere: only the report's text can name the line that first reads it.
    place = None if entry.op == "input" else (inspect.getfile(entry.marked), marks(entry)[0])

    assert (found.op, found.place and (found.place.file, found.place.line)) == (entry.op, place)
    assert unsaid(entry, text) == []


def test_the_corpus_is_large_and_its_names_are_distinct() -> None:
    assert len({entry.name for entry in CORPUS}) == len(CORPUS) >= MANY


@each(CORPUS)
def test_an_entry_marks_one_line_unless_nothing_was_written(entry: Broken) -> None:
    unused = entry.question == "explain" and entry.op == "input"

    assert len(marks(entry)) == (0 if unused else 1)


@each([entry for entry in ASKED if marks(entry)])
def test_the_marked_line_is_recorded_with_the_op_to_blame(entry: Broken) -> None:
    circuit = wg.trace(entry.program, *entry.args)
    nodes = [Node(circuit, k) for k in range(circuit.size)]
    there = [node for node in nodes if node.place is not None and node.place.line == marks(entry)[0]]
    named = {node.op.name for node in there}
    read = {circuit[name].op.name for node in there for name in node.inputs}

    assert entry.op in (read if entry.op == "input" else named)


@each(BLAMED)
def test_a_blamed_program_gives_something_that_is_not_finite(entry: Broken) -> None:
    value, gradients = value_and_gradients(entry)
    run = wg.run(entry.program, *entry.args)

    assert is_finite([value, *gradients.values()]) == entry.harmless
    assert not is_finite([value, *gradients.values(), *run.values])
    assert np.array_equal(run.output, value, equal_nan=True)


@each(EXPLAINED)
def test_an_explained_gradient_is_of_the_kind_it_is_said_to_be(entry: Broken) -> None:
    assert entry.kind in kind_of(entry)


@each(BLAMED)
def test_blame_names_the_op_and_the_line(entry: Broken) -> None:
    report = wg.blame(entry.program, *entry.args)

    assert bool(report.origins) != entry.harmless
    assert_accused(entry, (report.harmless if entry.harmless else report.origins)[0], str(report))


@each(EXPLAINED)
def test_explain_names_the_op_and_the_line(entry: Broken) -> None:
    report = wg.run(entry.program, *entry.args).explain(entry.of)

    assert report.kind == entry.kind
    assert_accused(entry, report.causes[0], str(report))


@each([entry for entry in CORPUS if entry.question == "values"])
def test_a_gradient_that_adds_up_is_explained_by_the_second_backward(entry: Broken) -> None:
    leaf = entry.program()

    assert leaf.grad == 3.0 + 5.0
    assert unsaid(entry, str(wg.explain(leaf))) == []
