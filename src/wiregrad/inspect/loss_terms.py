"""Terms of a loss that move no parameter, such as a second derivative through a rectifier, which is 0 everywhere.

A loss is divided at its sums and differences, and at products with numbers. What the backward pass sent from a term is
followed to the inputs, over numbers that are not 0. Inputs may be data as well as parameters, so a term that moves some
inputs is named too if it moves none of those that it reads and that other terms move. Only terms that hold the slope of
a straight piece are named: others, such as a bound, a gate or a term of data, may move nothing on purpose.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from wiregrad.dtypes import format_brief_number
from wiregrad.inspect.report import RunIndex, format_node_place
from wiregrad.ir import CONSTANT, INPUT, Node, Pattern, join_first_names
from wiregrad.ops import Elementwise
from wiregrad.ops.gradient_flow import fill_absent, is_nan

MIN_SHARE = 0.1
"""The share of the loss from which a term is named."""
MAX_TERMS = 32
UNKNOWN = -1
"""What a gradient went to, if that is not known."""


class UnmovedTerm(NamedTuple):
    """A part of a loss that moves no parameter, and its value."""

    term: int
    number: float


class TermFinding(NamedTuple):
    """What is said of a term that moves no parameter, and its value."""

    number: float
    sentence: str


def advise_smooth(rectifier: str, *, is_known: bool) -> str:
    """Say what a second derivative through a rectifier is, which a term holds or may hold.

    >>> advise_smooth("relu", is_known=True).partition(":")[0]
    'it holds a second derivative through relu, which is 0 everywhere'
    """
    holds, which = ("it holds", "which") if is_known else ("if it holds", "that")
    return (
        f"{holds} a second derivative through {rectifier}, {which} is 0 everywhere: take a smooth activation, such as "
        "tanh or softplus"
    )


class CircuitTerms:
    """The terms of the output of a circuit, and what the backward pass sent from each of them."""

    def __init__(self, index: RunIndex) -> None:
        self.root = index.root
        self.index = index

    @cached_property
    def terms(self) -> list[int]:
        """What the loss is the sum of."""
        terms: list[int] = []
        pending = [self.root]
        while pending and len(terms) + len(pending) <= MAX_TERMS:
            value = pending.pop()
            parts = self.parts_of(value)
            pending += parts
            if not parts:
                terms.append(value)
        return [*terms, *pending]

    def find_moved(self, term: int) -> Iterator[int]:
        """Yield the parameters to which anything but 0 came from a term, or may have."""
        pending = [term]
        seen = {term}
        while pending:
            value = pending.pop()
            if value == UNKNOWN or self.is_leaf(value):
                if value == UNKNOWN or self.is_parameter(value):
                    yield value
                continue
            fresh = [target for target in self.targets_of(value) if target not in seen]
            seen.update(fresh)
            pending += fresh

    def find_unmoved(self) -> Iterator[UnmovedTerm]:
        """Yield the terms that move no parameter and are a large part of the loss."""
        loss = self.read_number(self.root)
        if loss is None or len(self.terms) == 1:
            return
        unmoved = [term for term in self.terms if self.is_unmoved(term)]
        if len(unmoved) == len(self.terms):
            # A loss that moves nothing at all is said of each parameter.
            return
        for term in unmoved:
            number = self.read_number(term)
            is_large = number is not None and abs(number) >= MIN_SHARE * abs(loss)
            if number is not None and is_large and self.holds_straight_slope(term):
                yield UnmovedTerm(term, number)

    def parts_of(self, value: int) -> Sequence[int]:
        """Return what a number is the sum of, apart from factors; empty if it is no sum."""
        row = self.index.rows[value]
        if not all(self._size_of(node) == 1 for node in (value, *row.sources)):
            return ()
        if row.op.pattern is Pattern.DISTRIBUTE:
            return row.sources
        if row.op.name in ("multiply", "divide"):
            others = [node for node in row.sources if self.index.rows[node].op is not CONSTANT]
            is_scaled = len(others) == 1 and bool(self.parts_of(others[0]))
            return others if is_scaled else ()
        return ()

    def is_leaf(self, value: int) -> bool:
        """Return whether a node is an input or a constant."""
        return not self.index.rows[value].sources

    def is_parameter(self, leaf: int) -> bool:
        """Return whether a leaf is an input."""
        return self.index.rows[leaf].op is INPUT

    def targets_of(self, value: int) -> Iterable[int]:
        """Return the nodes to which a node sent anything but 0."""
        for source, sent in zip(self.index.rows[value].sources, self.index.sent_flows(value), strict=True):
            if sent is not None and np.any(fill_absent(sent)):
                yield source

    def holds_straight_slope(self, term: int) -> bool:
        """Return whether a term was computed from the slope of a straight piece, as of a rectifier.

        Such a slope is written with a NaN, for where the op is undefined. Other terms may move nothing on purpose.
        """
        rows = (self.index.rows[node] for node in self.ancestors_of(term))
        return any(row.op is CONSTANT and is_single_nan(self.index.values[row.node]) for row in rows)

    def read_number(self, value: int) -> float | None:
        """Return the value of a node that is one real number; None for others."""
        number = self.index.values[value]
        return None if np.size(number) != 1 else float(np.real(number).reshape(()))

    def is_unmoved(self, term: int) -> bool:
        """Return whether a term moves no input, or of those that it reads none that other terms move."""
        moved = self._moved[term]
        if not moved:
            return True
        elsewhere = {leaf for other, leaves in self._moved.items() if other != term for leaf in leaves}
        shared = elsewhere & self.ancestors_of(term, past_stops=False)
        return bool(shared) and shared.isdisjoint(moved)

    @cached_property
    def _moved(self) -> dict[int, frozenset[int]]:
        """The inputs that each term moves."""
        return {term: frozenset(self.find_moved(term)) for term in self.terms}

    def ancestors_of(self, term: int, *, past_stops: bool = True) -> set[int]:
        """Return a node and all that it was computed from; optionally only up to where a gradient is stopped."""
        pending = [term]
        seen = {term}
        while pending:
            row = self.index.rows[pending.pop()]
            if past_stops or row.op.name != "stop_gradient":
                fresh = [source for source in row.sources if source not in seen]
                seen.update(fresh)
                pending += fresh
        return seen

    def describe(self, unmoved: UnmovedTerm) -> str:
        """Say which term moves which inputs not, and why this may be."""
        term = unmoved.term
        circuit = self.index.circuit
        ancestors = self.ancestors_of(term)
        names = [circuit.reference_to(k) for k in circuit.input_indices() if k in ancestors - self._moved[term]]
        which = f"none of {join_first_names(names)}, which it reads" if names else "no parameter"
        node = f"{Node(circuit, term).reference}{format_node_place(circuit, term)}"
        number = format_brief_number(unmoved.number)
        return f"a term of the loss moves {which}: {number}, by {node}; {self._advise()}"

    def _advise(self) -> str:
        """Say what to take in place of a rectifier."""
        rectifier = next((row for row in self.index.rows if is_routing(row.op)), None)
        if rectifier is None:
            return advise_smooth("relu or the like", is_known=False)
        place = format_node_place(self.index.circuit, rectifier.node)
        return advise_smooth(f"{rectifier.op.title}{place}", is_known=False)

    def _size_of(self, node: int) -> int:
        return math.prod(self.index.circuit.type_of(node).shape)


def is_routing(op: object) -> bool:
    """Return whether an op passes one of its inputs on and has a kink where the choice changes, as rectifiers do."""
    return isinstance(op, Elementwise) and op.pattern is Pattern.ROUTE and bool(op.kinks)


def is_single_nan(value: Any) -> bool:
    """Return whether a value is one NaN."""
    return np.ndim(value) == 0 and bool(is_nan(value))


def describe_unmoved_terms(index: RunIndex) -> Iterator[TermFinding]:
    """Yield a finding for each term of the output that is a large part of it and moves no parameter.

    >>> import wiregrad as wg
    >>> def loss(w):
    ...     bend = wg.grad(wg.grad(lambda x: wg.relu(w * x)))
    ...     return (bend(2.0) - 3.0) ** 2 + w * w
    >>> for finding in describe_unmoved_terms(RunIndex(wg.run(loss, 1.0))):
    ...     print(finding.number, finding.sentence.partition(":")[0])
    9.0 a term of the loss moves none of w, which it reads
    """
    terms = CircuitTerms(index)
    return (TermFinding(unmoved.number, terms.describe(unmoved)) for unmoved in terms.find_unmoved())
