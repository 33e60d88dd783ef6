"""Guards: the checks that the listing of a traced circuit makes before it answers.

A traced circuit equals its function only at inputs where the function takes the same branches as during tracing. The
head of its listing says so. The listing has a function that computes the deciding values (`checks`), and one that
returns the number of the first branch that goes another way, or 0 (`branch`). If there is one, Python, NumPy and
JavaScript raise; in C and CUDA every result is NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from wiregrad.codegen.language import escape_comment
from wiregrad.codegen.listing import Listing, build_listing
from wiregrad.errors import NoRuleError
from wiregrad.ir import Certificate, CircuitGraph, certificates
from wiregrad.passes import drop_gradient_stops

WrittenT = TypeVar("WrittenT")
MAX_BRANCH_TEXT = 300
"""Maximum length of the description of a branch."""
MAX_LISTED_BRANCHES = 40
"""Maximum number of branches described in the head of a listing."""
BRANCH_RESULT_TEXT = "0 where every branch goes as it was traced, else the number of the first that does not"


class TracedBranch(NamedTuple):
    """One value that decided which way the traced function went."""

    number: int
    expected: Any
    """The value of the certified node while tracing, in the type of its wire."""
    text: str
    """The condition and its place in the source, safe in a comment and in a string."""


class GuardChecks(NamedTuple):
    """The text of the function that computes the deciding values, and the helpers that it calls."""

    text: str
    calls: frozenset[str]


@dataclass(frozen=True)
class ListingGuard:
    """The listing that computes the deciding values, and the branches with the values expected."""

    listing: Listing
    branches: tuple[TracedBranch, ...]

    def describe_branches(self, elsewhere: str) -> Iterator[str]:
        """Return the lines in the head of a listing that say where it is valid; `elsewhere` ends the last sentence."""
        yield "Traced where"
        yield from (f"  {branch.number}: {branch.text}" for branch in self.branches[:MAX_LISTED_BRANCHES])
        if len(self.branches) > MAX_LISTED_BRANCHES:
            yield f"  and {len(self.branches) - MAX_LISTED_BRANCHES} more"
        yield f"Elsewhere the function would take another branch, and {elsewhere}."

    def failure_message(self) -> str:
        """Return the start of the message for a branch that goes another way; the branch's text follows."""
        return "at these inputs the function would take another branch than when it was traced, where "


def build_guard(circuit: CircuitGraph) -> ListingGuard | None:
    """Return the guard of a circuit; None if no value that depends on an input decided a branch.

    >>> import wiregrad as wg
    >>> guard = build_guard(wg.trace(lambda x: x * x if x > 1.0 else x, 3.0))
    >>> [branch.text.partition(" (")[0] for branch in guard.branches]
    ['x > 1.0 was True']
    """
    depends = _find_input_dependent(circuit)
    certified = [
        certificate for certificate in certificates.distinct_certificates(circuit) if depends[certificate.node]
    ]
    if not certified:
        return None
    branches = [
        TracedBranch(
            number, certificates.expected_value(circuit, certificate), _describe_certificate(circuit, certificate)
        )
        for number, certificate in enumerate(certified, 1)
    ]
    return ListingGuard(_list_checks(circuit, certified), tuple(branches))


def _list_checks(circuit: CircuitGraph, certified: Sequence[Certificate]) -> Listing:
    """Return the listing that computes the certified nodes."""
    labels = certificates.add_check_outputs(circuit).circuit.outputs[-len(certified) :]
    nodes = np.array([certificate.node for certificate in certified], np.int32)
    columns = replace(circuit.columns, outputs=nodes, labels=labels, certificates=())
    return build_listing(drop_gradient_stops(CircuitGraph(columns)), "value")


def _find_input_dependent(circuit: CircuitGraph) -> list[bool]:
    """Return for each node whether it depends on an input."""
    depends = [False] * circuit.size
    for node in circuit.input_indices():
        depends[node] = True
    for row in circuit.rows():
        if row.sources:
            depends[row.node] = any(depends[source] for source in row.sources)
    return depends


def _describe_certificate(circuit: CircuitGraph, certificate: Certificate) -> str:
    return escape_comment(certificates.describe_certificate(circuit, certificate), MAX_BRANCH_TEXT)


def write_or_explain(write: Callable[[], WrittenT]) -> WrittenT:
    """Write a guard; if its language cannot, raise an error that says what to do."""
    try:
        return write()
    except NoRuleError as error:
        raise NoRuleError(
            f"the branches of the traced function cannot be checked in this language: {error}; check=False leaves the "
            "guard out"
        ) from None
