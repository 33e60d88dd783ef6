"""Terms of the loss of a watched program that move no parameter; how they are found, `inspect.loss_terms` says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
from wiregrad.inspect.loss_terms import UNKNOWN, LossTerms, advise_smooth

SUMS = {"add", "sub", "add_any"}
PIECEWISE_LINEAR = {"leaky_relu", "hardtanh", "prelu", "hardsigmoid", "abs"}
"""Ops besides rectifiers whose slope is constant, so that its own slope is 0."""


class LossTerm(NamedTuple):
    """A part of a loss that moves no parameter."""

    op: ObservedOp
    said: str


def title_of(op: ObservedOp) -> str:
    """Return the title of an op without the mark of a write in place."""
    return op.title.removesuffix("_")


class ObservedTerms(LossTerms):
    """The terms of a loss, and what the last backward pass sent from them."""

    def __init__(self, run: ObservedRun, root: int) -> None:
        super().__init__(root)
        self.run = run
        last = max((gradient.backward for gradient in run.gradients), default=0)
        self._records: dict[int, list[ObservedGradient]] = {}
        for gradient in run.gradients:
            if gradient.backward == last:
                self._records.setdefault(gradient.op, []).append(gradient)

    def parts_of(self, value: int) -> Sequence[int]:
        """Return the tensors that a tensor is the sum of, apart from factors; empty if it is no sum."""
        op = self._producer_of(value)
        if op is None or title_of(op) in SUMS:
            return () if op is None else op.inputs
        return op.inputs if len(op.inputs) == 1 and self._leads_to_sum(op) else ()

    def _leads_to_sum(self, op: ObservedOp) -> bool:
        """Return whether an op copies its operand, or multiplies a sum by a number."""
        if title_of(op) in COPYING_OPS:
            return True
        producer = self._producer_of(op.inputs[0])
        return title_of(op) in ("mul", "div") and producer is not None and title_of(producer) in SUMS

    def _producer_of(self, tensor: int) -> ObservedOp | None:
        producer = self.run.tensors[tensor].producer
        return None if producer is None else self.run.ops[producer]

    def is_leaf(self, value: int) -> bool:
        """Return whether no op made a tensor."""
        return self.run.tensors[value].producer is None

    def is_parameter(self, leaf: int) -> bool:
        """Return whether a tensor is a parameter, or where none are known, wants a gradient."""
        tensor = self.run.tensors[leaf]
        return tensor.requires_grad and (not self.run.parameters or tensor.name in self.run.parameters)

    def targets_of(self, value: int) -> Iterable[int]:
        """Return the tensors to which the op that made a tensor sent anything but 0."""
        producer = self.run.tensors[value].producer
        for gradient in () if producer is None else self._records.get(producer, ()):
            for held, target in zip(gradient.sent, gradient.targets, strict=False):
                if held is not None and not is_zero(self.run, held):
                    yield UNKNOWN if target is None else target

    def is_constant(self, term: int) -> bool:
        """Return whether a term is computed from single numbers."""
        return all(self.run.tensors[k].shape == () for k in find_ancestors([term], self.run.parents_of))

    def read_number(self, value: int) -> float | None:
        """Return the value of a tensor that is one real number; None for others."""
        number = self.run.read_value(value)
        return None if number is None or number.size != 1 else float(np.real(number).reshape(()))


def find_unmoved_terms(run: ObservedRun) -> Iterator[LossTerm]:
    """Yield the terms of the loss that move no parameter and are a large part of it."""
    roots = list(dict.fromkeys(run.last_roots or run.roots))
    if len(roots) != 1 or not run.gradients:
        return
    for term, number in ObservedTerms(run, roots[0]).find_unmoved():
        producer = run.tensors[term].producer
        assert producer is not None
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
    return f"; {advise_smooth(f'{rectifier.title}{where}', is_known=is_derived)}"
