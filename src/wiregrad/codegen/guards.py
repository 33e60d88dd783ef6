"""Guards: what a listing of a traced circuit checks before it answers.

A traced circuit is its function only where values decide as they did when it was traced. Its listing says so in its
head, has a function that computes what decided (`checks`), and one that gives the number of the first branch that goes
another way, 0 if there is none (`branch`). Where one does, Python, NumPy and JavaScript raise; in C and CUDA every
result is NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from wiregrad.codegen.identifiers import comment
from wiregrad.codegen.listing import Listing, listing
from wiregrad.errors import NoRuleError
from wiregrad.ir import Certificate, Circuit, certificates
from wiregrad.passes import unblock

WrittenT = TypeVar("WrittenT")
MAX_TEXT = 300
"""How long the description of a branch can be."""
MAX_LISTED = 40
"""How many branches the head of a listing says."""
RESULT = "0 where every branch goes as it was traced, else the number of the first that does not"


class Branch(NamedTuple):
    """One thing that decided which way the function went."""

    number: int
    expected: Any
    """What the certified node carried, as its wire carries it."""
    text: str
    """What it was and where; it can stand in a comment and in a string."""


class Checks(NamedTuple):
    """The function that computes what decided, in a language, and the helpers that it calls."""

    text: str
    calls: frozenset[str]


@dataclass(frozen=True)
class Guard:
    """The listing that computes what decided, and how it came out."""

    listing: Listing
    branches: tuple[Branch, ...]

    def described(self, elsewhere: str) -> Iterator[str]:
        """Return the lines in the head of a listing that say where it holds."""
        yield "Traced where"
        yield from (f"  {branch.number}: {branch.text}" for branch in self.branches[:MAX_LISTED])
        if len(self.branches) > MAX_LISTED:
            yield f"  and {len(self.branches) - MAX_LISTED} more"
        yield f"Elsewhere the function would go another way, and {elsewhere}."

    def message(self) -> str:
        """Return what a listing says where a branch goes another way, before it says which."""
        return "at these inputs the function would go another way than it was traced, where "


def guard_of(circuit: Circuit) -> Guard | None:
    """Return the guard of a circuit; None if nothing that can change decided which way its function went.

    >>> import wiregrad as wg
    >>> guard = guard_of(wg.trace(lambda x: x * x if x > 1.0 else x, 3.0))
    >>> [branch.text.partition(" (")[0] for branch in guard.branches]
    ['x > 1.0 was True']
    """
    moving = _moving(circuit)
    known = [certificate for certificate in certificates.distinct(circuit) if moving[certificate.node]]
    if not known:
        return None
    branches = [
        Branch(number, certificates.expected(circuit, certificate), _text(circuit, certificate))
        for number, certificate in enumerate(known, 1)
    ]
    return Guard(_checks(circuit, known), tuple(branches))


def _checks(circuit: Circuit, known: Sequence[Certificate]) -> Listing:
    """Return the listing of the certified nodes."""
    labels = certificates.checked(circuit).circuit.outputs[-len(known) :]
    nodes = np.array([certificate.node for certificate in known], np.int32)
    columns = replace(circuit.columns, outputs=nodes, labels=labels, certificates=())
    return listing(unblock(Circuit(columns)), "value")


def _moving(circuit: Circuit) -> list[bool]:
    """Return for each node whether it depends on an input."""
    found = [False] * circuit.size
    for node in circuit.input_indices():
        found[node] = True
    for row in circuit.rows():
        if row.sources:
            found[row.node] = any(found[source] for source in row.sources)
    return found


def _text(circuit: Circuit, certificate: Certificate) -> str:
    return comment(certificates.describe(circuit, certificate), MAX_TEXT)


def in_language(write: Callable[[], WrittenT]) -> WrittenT:
    """Write a guard; say what to do where its language cannot."""
    try:
        return write()
    except NoRuleError as error:
        raise NoRuleError(
            f"what decided which way the traced function went cannot be checked: {error}; check=False leaves the "
            "guard out"
        ) from None
