"""Terms of a loss that move no parameter, such as a second derivative through a rectifier, which is 0 everywhere.

A loss is divided at its sums and differences, and at products with numbers. What the backward pass sent from a term is
followed to the parameters, over numbers that are not 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from wiregrad.dtypes import format_brief_number
from wiregrad.exchange.observed_explain import is_rectifier
from wiregrad.exchange.observed_run import (
    COPYING_OPS,
    ObservedGradient,
    ObservedOp,
    ObservedRun,
    find_ancestors,
    is_zero,
)

MIN_SHARE = 0.1
"""The share of the loss from which a term is named."""
MAX_TERMS = 32
SUMS = {"add", "sub", "add_any"}
PIECEWISE_LINEAR = {"leaky_relu", "hardtanh", "prelu", "hardsigmoid", "abs"}
"""Ops besides rectifiers whose slope is constant, so that its own slope is 0."""


class LossTerm(NamedTuple):
    """A part of a loss that moves no parameter."""

    op: ObservedOp
    said: str


def list_terms(run: ObservedRun, root: int) -> list[int]:
    """Return the tensors that a loss is the sum of, apart from factors."""
    terms: list[int] = []
    pending = [root]
    while pending and len(terms) + len(pending) <= MAX_TERMS:
        number = pending.pop()
        producer = run.tensors[number].producer
        op = None if producer is None else run.ops[producer]
        parts = () if op is None else op.inputs
        if op is not None and (title_of(op) in SUMS or (len(parts) == 1 and leads_to_sum(run, parts[0], op))):
            pending += parts
        else:
            terms.append(number)
    return [*terms, *pending]


def title_of(op: ObservedOp) -> str:
    """Return the title of an op without the mark of a write in place."""
    return op.title.removesuffix("_")


def leads_to_sum(run: ObservedRun, operand: int, op: ObservedOp) -> bool:
    """Return whether an op copies its operand, or multiplies a sum by a number."""
    if title_of(op) in COPYING_OPS:
        return True
    producer = run.tensors[operand].producer
    return title_of(op) in ("mul", "div") and producer is not None and title_of(run.ops[producer]) in SUMS


class TermSearch:
    """Follows what the last backward pass sent."""

    def __init__(self, run: ObservedRun) -> None:
        self.run = run
        last = max((gradient.backward for gradient in run.gradients), default=0)
        self._records: dict[int, list[ObservedGradient]] = {}
        for gradient in run.gradients:
            if gradient.backward == last:
                self._records.setdefault(gradient.op, []).append(gradient)

    def moves_parameter(self, term: int) -> bool:
        """Return whether anything but 0 came from a term to a parameter, or may have."""
        pending = [term]
        seen = set[int]()
        while pending:
            tensor = self.run.tensors[pending.pop()]
            if tensor.producer is None:
                if tensor.requires_grad and (not self.run.parameters or tensor.name in self.run.parameters):
                    return True
                continue
            if tensor.producer in seen:
                continue
            seen.add(tensor.producer)
            for gradient in self._records.get(tensor.producer, ()):
                for held, target in zip(gradient.sent, gradient.targets, strict=False):
                    if held is None or is_zero(self.run, held):
                        continue
                    if target is None:
                        return True
                    pending.append(target)
        return False


def find_unmoved_terms(run: ObservedRun) -> Iterator[LossTerm]:
    """Yield the terms of the loss that move no parameter and are a large part of it."""
    roots = list(dict.fromkeys(run.last_roots or run.roots))
    if len(roots) != 1 or not run.gradients:
        return
    loss = read_number(run, roots[0])
    search = TermSearch(run)
    terms = list_terms(run, roots[0])
    unmoved = [term for term in terms if not search.moves_parameter(term)]
    if loss is None or len(unmoved) == len(terms):
        # A loss that moves nothing at all is said of each parameter.
        return
    for term in unmoved:
        producer = run.tensors[term].producer
        number = read_number(run, term)
        if producer is None or number is None or not abs(number) >= MIN_SHARE * abs(loss):
            continue
        if all(run.tensors[k].shape == () for k in find_ancestors([term], run.parents_of)):
            # A constant, as in a log-likelihood, is meant.
            continue
        op = run.ops[producer]
        said = f"a term of the loss moves no parameter: {format_brief_number(number)}, by {op.title}"
        yield LossTerm(op, f"{said}{describe_rectifiers(run, term)}")


def describe_rectifiers(run: ObservedRun, term: int) -> str:
    """Say what derivatives of rectifiers are, if a term may hold such derivatives; empty if it holds none."""
    rectifier = next((op for op in run.ops if is_rectifier(op) or op.title in PIECEWISE_LINEAR), None)
    ancestors = find_ancestors([term], run.parents_of)
    makers = [run.ops[producer] for k in ancestors if (producer := run.tensors[k].producer) is not None]
    is_derived = any(op.phase == "backward" for op in makers)
    # JAX drops what a derivative that is 0 by rule was computed from.
    names = {run.tensors[k].name for k in ancestors}
    is_dropped = run.framework == "jax" and names.isdisjoint(run.parameters)
    if rectifier is None or not (is_derived or is_dropped):
        return ""
    where = "" if rectifier.place is None else f" at {rectifier.place}"
    may = "it holds" if is_derived else "if it holds"
    return (
        f"; {may} a second derivative through {rectifier.title}{where}, {'which' if is_derived else 'that'} is 0 "
        "everywhere: take a smooth activation, such as tanh or softplus"
    )


def read_number(run: ObservedRun, tensor: int) -> float | None:
    """Return the value of a tensor that is one real number; None for others."""
    value = run.read_value(tensor)
    return None if value is None or value.size != 1 else float(np.real(value).reshape(()))
