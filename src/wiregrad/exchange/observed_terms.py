"""Terms of a loss that move no parameter, such as a second derivative through a rectifier, which is 0 everywhere.

A loss is divided at its sums and differences, and at products with numbers. What the backward pass sent from a term is
followed to the parameters, over numbers that are not 0. A term of data and of frozen parts is meant to move nothing, as
is one at a bound, such as the free bits of a variational autoencoder.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
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
from wiregrad.inspect.loss_terms import MAX_TERMS, MIN_SHARE, advise_smooth

SUMS = {"add", "sub", "add_any"}
PIECEWISE_LINEAR = {"leaky_relu", "hardtanh", "prelu", "hardsigmoid", "abs"}
"""Ops besides rectifiers whose slope is constant, so that its own slope is 0."""
BOUNDS = {"clamp", "clamp_min", "clamp_max", "maximum", "minimum", "max", "min", "hardtanh", "clip"}
"""Ops that send nothing back where they return a bound, which a program chose; rectifiers do too."""


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

    def is_trained(self, number: int) -> bool:
        """Return whether a tensor is a parameter that wants a gradient."""
        tensor = self.run.tensors[number]
        is_leaf = tensor.producer is None and tensor.requires_grad
        return is_leaf and (not self.run.parameters or tensor.name in self.run.parameters)

    def moves_parameter(self, term: int) -> bool:
        """Return whether anything but 0 came from a term to a parameter, may have, or stopped at a bound."""
        pending = [term]
        seen = set[int]()
        while pending:
            number = pending.pop()
            if self.is_trained(number):
                return True
            tensor = self.run.tensors[number]
            if tensor.producer is None or tensor.producer in seen:
                continue
            seen.add(tensor.producer)
            op = self.run.ops[tensor.producer]
            if is_rectifier(op) or title_of(op) in BOUNDS:
                return True
            for gradient in self._records.get(tensor.producer, ()):
                for held, target in zip(gradient.sent, gradient.targets, strict=False):
                    if held is None or is_zero(self.run, held):
                        continue
                    if target is None:
                        return True
                    pending.append(target)
        return False

    def _attached_parents_of(self, number: int) -> tuple[int, ...]:
        """Return the tensors from which a tensor was made, unless it was detached from them."""
        tensor = self.run.tensors[number]
        parents = self.run.parents_of(number)
        is_real = "float" in tensor.dtype and not tensor.requires_grad
        is_detached = is_real and any(self.run.tensors[k].requires_grad for k in parents)
        return () if is_detached else parents

    def is_meant_to_move(self, term: int) -> bool:
        """Return whether a term was made from parameters that want a gradient, and not of data or frozen parts."""
        ancestors = find_ancestors([term], self._attached_parents_of)
        if any(map(self.is_trained, ancestors)) or is_derived(self.run, ancestors) or is_dropped(self.run, ancestors):
            return True
        # Targets are detached on purpose, but a penalty on parameters alone is not.
        sources = find_ancestors([term], self.run.value_sources_of)
        leaves = [k for k in sources if not self.run.value_sources_of(k) and self.run.tensors[k].shape != ()]
        return bool(leaves) and all(map(self.is_trained, leaves))


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
        if not search.is_meant_to_move(term):
            continue
        op = run.ops[producer]
        said = f"a term of the loss moves no parameter: {format_brief_number(number)}, by {op.title}"
        yield LossTerm(op, f"{said}{describe_rectifiers(run, term)}")


def is_derived(run: ObservedRun, ancestors: Iterable[int]) -> bool:
    """Return whether a tensor holds derivatives, given what it was made from."""
    producers = [run.tensors[k].producer for k in ancestors]
    return any(run.ops[producer].phase == "backward" for producer in producers if producer is not None)


def is_dropped(run: ObservedRun, ancestors: Collection[int]) -> bool:
    """Return whether a tensor may hold derivatives that are 0 by rule: JAX drops what they were computed from."""
    if run.framework != "jax" or not {run.tensors[k].name for k in ancestors}.isdisjoint(run.parameters):
        return False
    made = [k for k in ancestors if run.tensors[k].producer is not None and not run.parents_of(k)]
    values = [value for value in map(run.read_value, made) if value is not None and value.ndim]
    return any(not value.any() for value in values)


def describe_rectifiers(run: ObservedRun, term: int) -> str:
    """Say what derivatives of rectifiers are, if a term may hold such derivatives; empty if it holds none."""
    rectifier = next((op for op in run.ops if is_rectifier(op) or op.title in PIECEWISE_LINEAR), None)
    ancestors = find_ancestors([term], run.parents_of)
    holds = is_derived(run, ancestors)
    if rectifier is None or not (holds or is_dropped(run, ancestors)):
        return ""
    where = "" if rectifier.place is None else f" at {rectifier.place}"
    return f"; {advise_smooth(f'{rectifier.title}{where}', is_known=holds)}"


def read_number(run: ObservedRun, tensor: int) -> float | None:
    """Return the value of a tensor that is one real number; None for others."""
    value = run.read_value(tensor)
    return None if value is None or value.size != 1 else float(np.real(value).reshape(()))
