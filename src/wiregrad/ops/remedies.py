"""Remedies: what to write instead where an op breaks, and how the one that fits is chosen.

An op's record names its remedies, from the most specific to the most general: the logarithm of a sum of exponentials
has a better remedy than any other logarithm. Each states exactly when it applies, by the input numbers and by the
formula around the node; if none applies, nothing is advised. The surroundings of a node are read through callbacks, so
both a circuit and a recording that is still growing can be searched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np

from wiregrad.ir import CONSTANT, INPUT, TABLE, Op
from wiregrad.ops.fault import Fault

MAX_TERMS_SEARCHED = 64
"""Maximum number of nodes to search in the surroundings of a node."""


@dataclass(frozen=True)
class Surroundings:
    """The surroundings of a node in a circuit or a recording."""

    op: Callable[[int], Op]
    """The op of a node."""
    operands: Callable[[int], Iterable[tuple[int, Any]]]
    """The operands of a node: for each input the node it reads (negative for a literal) and that node's value."""
    readers: Callable[[int], Iterable[int]]
    """The nodes that read a node, as far as known."""


@dataclass(frozen=True)
class FormulaTerm:
    """A node or a literal, as part of the formula around the node that broke."""

    around: Surroundings
    node: int
    number: Any = None
    """Its value; None for readers of the node that broke."""

    @property
    def op(self) -> Op:
        """The record of its op."""
        return CONSTANT if self.node < 0 else self.around.op(self.node)

    @property
    def name(self) -> str:
        """The name of its op."""
        return self.op.name

    @cached_property
    def operands(self) -> tuple[FormulaTerm, ...]:
        """The terms it reads."""
        if self.node < 0:
            return ()
        return tuple(FormulaTerm(self.around, node, number) for node, number in self.around.operands(self.node))

    @cached_property
    def source_terms(self) -> tuple[FormulaTerm, ...]:
        """The terms it reads, skipping ops that only copy or move elements."""
        return tuple(operand.source_term for operand in self.operands)

    @property
    def source_term(self) -> FormulaTerm:
        """The term itself, or the first one behind it that does more than copy or move elements."""
        term = self
        while term.node >= 0 and only_moves_elements(term.op):
            term = term.operands[0]
        return term

    def find_readers(self) -> Iterator[FormulaTerm]:
        """Iterate over the terms that read it, skipping ops that only copy or move elements."""
        stack = [self.node]
        searched = 0
        while stack:
            for reader in self.around.readers(stack.pop()):
                searched += 1
                if searched > MAX_TERMS_SEARCHED:
                    return
                if only_moves_elements(self.around.op(reader)):
                    stack.append(reader)
                else:
                    yield FormulaTerm(self.around, reader)

    def reads_term(self, slot: int, other: FormulaTerm) -> bool:
        """Return whether its input at a slot is another term, possibly copied or moved."""
        return is_same_term(self.source_terms[slot], other)

    def is_constant(self, number: float) -> bool:
        """Return whether it is a constant that equals a number in every element."""
        return self.name == CONSTANT.name and holds_everywhere(self.number, lambda x: x == number)


@dataclass(frozen=True)
class FaultCase:
    """One op that broke, and the formula around it."""

    term: FormulaTerm
    fault: Fault

    @property
    def is_forward(self) -> bool:
        """Whether its value broke, rather than the gradient it sent back."""
        return self.fault.phase == "forward"

    @property
    def input_numbers(self) -> list[Any]:
        """The inputs, at the element that broke."""
        return [x for _, x in self.fault.inputs]

    @property
    def broken_value(self) -> Any:
        """What broke: the value, or the gradient sent back."""
        return self.fault.value if self.is_forward else self.fault.sent

    @property
    def upstream_gradient(self) -> Any:
        """The upstream gradient; NaN if it is not known."""
        return np.nan if self.fault.factors is None else self.fault.factors[0]

    @property
    def local_slope(self) -> Any:
        """The local derivative; NaN if it is not a single number."""
        return np.nan if self.fault.factors is None else self.fault.factors[1]

    @property
    def is_complex(self) -> bool:
        """Whether an input or the broken value is complex."""
        return any(np.iscomplexobj(x) for x in (*self.input_numbers, self.broken_value))


@dataclass(frozen=True)
class Remedy:
    """Advice, and when it applies.

    `of` names the ops that an input is computed by, `to` those that read the node, nearest first; ops that only copy or
    move elements are skipped.
    """

    advice: str
    when: Callable[[FaultCase], bool] | None = None
    """Condition for a case; None if there is none."""
    of: tuple[str, ...] = ()
    to: tuple[str, ...] = ()
    slot: int = 0
    """The input that `of` begins with."""
    complex: bool = False
    """Whether it also helps with complex numbers."""
    general: bool = False
    """Whether it is so general that a caller who knows how the result is used may have better advice."""

    def applies_to(self, case: FaultCase) -> bool:
        """Return whether the remedy applies to a case."""
        return (
            (self.complex or not case.is_complex)
            and (not self.of or _is_computed_by(case.term.source_terms[self.slot], self.of))
            and (not self.to or _is_read_by([case.term], self.to))
            and (self.when is None or self.when(case))
        )


def _is_computed_by(term: FormulaTerm, steps: Sequence[str]) -> bool:
    """Return whether a term is computed by ops of these names, each the first input of the one before."""
    for k, step in enumerate(steps):
        if k:
            term = term.source_terms[0]
        if term.name != step:
            return False
    return True


def _is_read_by(front: Sequence[FormulaTerm], steps: Sequence[str]) -> bool:
    """Return whether terms are read by ops of these names, one after the other."""
    for step in steps:
        front = [reader for term in front[:MAX_TERMS_SEARCHED] for reader in term.find_readers() if reader.name == step]
    return bool(front)


def holds_everywhere(number: Any, test: Callable[[Any], Any]) -> bool:
    """Return whether a test is true for all elements of a value; False if the value is not known.

    >>> holds_everywhere(np.zeros(2), lambda x: x == 0), holds_everywhere(None, lambda x: x == 0)
    (True, False)
    """
    array = np.asarray(number)
    return array.dtype.kind in "biufc" and bool(np.all(test(array)))


def is_same_term(one: FormulaTerm, other: FormulaTerm) -> bool:
    """Return whether two terms are certainly equal: one node, or the same ops on the same nodes."""
    pairs = [(one, other)]
    compared = 0
    while pairs:
        a, b = (_skip_splitters(term) for term in pairs.pop())
        compared += 1
        if a.node == b.node >= 0:
            continue
        if compared > MAX_TERMS_SEARCHED or not _apply_same_op(a, b):
            return False
        pairs.extend(zip(a.operands, b.operands, strict=True))
    return True


def _skip_splitters(term: FormulaTerm) -> FormulaTerm:
    """Return the term behind splitters."""
    while term.node >= 0 and getattr(term.op, "copies", False):
        term = term.operands[0]
    return term


def _apply_same_op(a: FormulaTerm, b: FormulaTerm) -> bool:
    if a.op is CONSTANT and b.op is CONSTANT:
        return np.array_equal(a.number, b.number)
    if a.op is INPUT or a.op.per_call:
        return False
    return (a.name, a.op.settings, len(a.operands)) == (b.name, b.op.settings, len(b.operands))


def only_moves_elements(op: Op) -> bool:
    """Return whether every element of an op's output is an element of its input.

    >>> [only_moves_elements(TABLE[name]) for name in ("split", "reshape", "getitem", "sum", "exp")]
    [True, True, True, False, False]
    """
    if getattr(op, "moves", False) and not op.variadic:
        return _samples_only_move(op.name)
    return bool(getattr(op, "copies", False))


@cache
def _samples_only_move(name: str) -> bool:
    """Return whether an op that moves or adds up elements only moves them, judged by its samples."""
    op: Any = TABLE[name]
    samples = op.samples(np.random.default_rng(0)) if op.samples else []
    pairs = [(xs[0], op.bind(settings).compute(*xs)) for *xs, settings in samples]
    # A cast rounds, so elements are compared in single precision.
    only_moved = [np.isin(np.asarray(y, np.complex64), np.asarray(x, np.complex64)).all() for x, y in pairs]
    return bool(only_moved) and all(only_moved)


def _is_finite(x: Any) -> bool:
    return holds_everywhere(x, np.isfinite)


GENERAL_REMEDIES = (
    Remedy(
        "what flows back is beyond the largest number: scale the output down",
        when=lambda case: not case.is_forward and _is_finite(case.upstream_gradient) and _is_finite(case.local_slope),
        complex=True,
    ),
)
"""Remedies for any op, tried after its own."""
