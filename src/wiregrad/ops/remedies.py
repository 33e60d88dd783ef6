"""Remedies: what to write instead where an op breaks, and how it is found out which of them fits.

They stand in the op's record, from the most particular to the most general: a logarithm of a sum of exponentials has a
better answer than any logarithm. Each says exactly when it applies, by the numbers that went in and by what the node
stands among; where none does, nothing is advised. What surrounds a node is asked through `Around`, so that a circuit
and a recording that is still growing can both be asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np

from wiregrad.ir import CONSTANT, INPUT, TABLE, Op
from wiregrad.ops.fault import Fault

FAR = 64
"""How many nodes are looked at before a surrounding counts as not found."""


@dataclass(frozen=True)
class Around:
    """What a node stands among, in a circuit or a recording."""

    op: Callable[[int], Op]
    """The op of a node."""
    operands: Callable[[int], Iterable[tuple[int, Any]]]
    """What a node reads, input by input: the node (negative for a number that was written there) and what it gave."""
    readers: Callable[[int], Iterable[int]]
    """The nodes that read a node, as far as they are known."""


@dataclass(frozen=True)
class Term:
    """A node, or a number that was written where a node could stand, as part of what surrounds another."""

    around: Around
    node: int
    number: Any = None
    """What it carried; None for what reads the node that broke."""

    @property
    def op(self) -> Op:
        """The record of its op."""
        return CONSTANT if self.node < 0 else self.around.op(self.node)

    @property
    def name(self) -> str:
        """The name of its op."""
        return self.op.name

    @cached_property
    def operands(self) -> tuple[Term, ...]:
        """What it reads."""
        if self.node < 0:
            return ()
        return tuple(Term(self.around, node, number) for node, number in self.around.operands(self.node))

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """What it reads, behind ops that only copy or move."""
        return tuple(operand.bare for operand in self.operands)

    @property
    def bare(self) -> Term:
        """The term behind ops that only copy or move."""
        term = self
        while term.node >= 0 and hands_on(term.op):
            term = term.operands[0]
        return term

    def readers(self) -> Iterator[Term]:
        """Walk the terms that read it, behind ops that only copy or move."""
        stack = [self.node]
        looked = 0
        while stack:
            for reader in self.around.readers(stack.pop()):
                looked += 1
                if looked > FAR:
                    return
                if hands_on(self.around.op(reader)):
                    stack.append(reader)
                else:
                    yield Term(self.around, reader)

    def reads(self, slot: int, other: Term) -> bool:
        """Return whether its input at a slot is another term, possibly moved."""
        return same(self.terms[slot], other)

    def is_constant(self, number: float) -> bool:
        """Return whether it is a constant that is a number everywhere."""
        return self.name == CONSTANT.name and every(self.number, lambda x: x == number)


@dataclass(frozen=True)
class Case:
    """One op that broke, among what it stands in."""

    term: Term
    fault: Fault

    @property
    def forward(self) -> bool:
        """Whether its value broke, not what it sent back."""
        return self.fault.phase == "forward"

    @property
    def numbers(self) -> list[Any]:
        """What went in, at the element that broke."""
        return [x for _, x in self.fault.inputs]

    @property
    def value(self) -> Any:
        """What broke: the value, or what was sent back."""
        return self.fault.value if self.forward else self.fault.sent

    @property
    def upstream(self) -> Any:
        """What arrived from the reader; NaN where it is not known."""
        return np.nan if self.fault.factors is None else self.fault.factors[0]

    @property
    def local(self) -> Any:
        """The local derivative; NaN where it is no single number."""
        return np.nan if self.fault.factors is None else self.fault.factors[1]

    @property
    def is_complex(self) -> bool:
        """Whether complex numbers are about."""
        return any(np.iscomplexobj(x) for x in (*self.numbers, self.value))


@dataclass(frozen=True)
class Remedy:
    """Advice, and where it applies.

    `of` names the ops that an input is computed from, `to` those that the node is read by, nearest first; ops that only
    copy or move are looked through.
    """

    advice: str
    when: Callable[[Case], bool] | None = None
    """Whether it applies to a case; None: to all."""
    of: tuple[str, ...] = ()
    to: tuple[str, ...] = ()
    slot: int = 0
    """The input that `of` begins with."""
    complex: bool = False
    """Whether it holds for complex numbers too."""
    general: bool = False
    """Whether it fits any such op, so that whoever knows what became of the result may know better."""

    def applies(self, case: Case) -> bool:
        """Return whether it is of use to a case."""
        return (
            (self.complex or not case.is_complex)
            and (not self.of or _made(case.term.terms[self.slot], self.of))
            and (not self.to or _read([case.term], self.to))
            and (self.when is None or self.when(case))
        )


def _made(term: Term, steps: Sequence[str]) -> bool:
    """Return whether ops of these names lead to a term, each from the first input of the one before."""
    for k, step in enumerate(steps):
        if k:
            term = term.terms[0]
        if term.name != step:
            return False
    return True


def _read(front: Sequence[Term], steps: Sequence[str]) -> bool:
    """Return whether ops of these names lead away from terms."""
    for step in steps:
        front = [reader for term in front[:FAR] for reader in term.readers() if reader.name == step]
    return bool(front)


def every(number: Any, test: Callable[[Any], Any]) -> bool:
    """Return whether a test holds for all elements of what a term carried; never for what is not known.

    >>> every(np.zeros(2), lambda x: x == 0), every(None, lambda x: x == 0)
    (True, False)
    """
    array = np.asarray(number)
    return array.dtype.kind in "biufc" and bool(np.all(test(array)))


def same(one: Term, other: Term) -> bool:
    """Return whether two terms are the same for sure: one node, or the same ops on the same nodes."""
    pairs = [(one, other)]
    looked = 0
    while pairs:
        a, b = (_original(term) for term in pairs.pop())
        looked += 1
        if a.node == b.node >= 0:
            continue
        if looked > FAR or not _alike(a, b):
            return False
        pairs.extend(zip(a.operands, b.operands, strict=True))
    return True


def _original(term: Term) -> Term:
    """Return the term behind splitters."""
    while term.node >= 0 and getattr(term.op, "copies", False):
        term = term.operands[0]
    return term


def _alike(a: Term, b: Term) -> bool:
    if a.op is CONSTANT and b.op is CONSTANT:
        return np.array_equal(a.number, b.number)
    if a.op is INPUT or a.op.per_call:
        return False
    return (a.name, a.op.settings, len(a.operands)) == (b.name, b.op.settings, len(b.operands))


def hands_on(op: Op) -> bool:
    """Return whether every element that an op gives is one that it was given.

    >>> [hands_on(TABLE[name]) for name in ("split", "reshape", "getitem", "sum", "exp")]
    [True, True, True, False, False]
    """
    if getattr(op, "moves", False) and not op.variadic:
        return _only_moves(op.name)
    return bool(getattr(op, "copies", False))


@cache
def _only_moves(name: str) -> bool:
    """Return whether an op that moves or adds up elements adds none up, as its samples show."""
    op: Any = TABLE[name]
    samples = op.samples(np.random.default_rng(0)) if op.samples else []
    pairs = [(xs[0], op.bind(settings).compute(*xs)) for *xs, settings in samples]
    # A cast rounds: what it gives is the same number as far as short floats can tell.
    kept = [np.isin(np.asarray(y, np.complex64), np.asarray(x, np.complex64)).all() for x, y in pairs]
    return bool(kept) and all(kept)


def _is_finite(x: Any) -> bool:
    return every(x, np.isfinite)


ANYWHERE = (
    Remedy(
        "what flows back is beyond the largest number: scale the output down",
        when=lambda case: not case.forward and _is_finite(case.upstream) and _is_finite(case.local),
        complex=True,
    ),
)
"""What applies to any op, after its own remedies."""
