"""Tells whether a traced circuit still holds at other inputs: a branch in Python may depend on the values."""

from __future__ import annotations

from wiregrad.backends import RunRecord
from wiregrad.ir import certificates


def describe_flipped_branch(run: RunRecord) -> str:
    """Return a note on the first Python branch that would go the other way at the values of a run; empty if none would.

    >>> import wiregrad as wg
    >>> describe_flipped_branch(wg.circuit("x * x").run(x=3.0))
    ''
    """
    certificate = certificates.find_flipped(run.circuit, run.values)
    if certificate is None:
        return ""
    at = "" if certificate.place is None else f" at {certificate.place.without_folder()}"
    condition = certificates.describe_certificate(run.circuit, certificate)
    return (
        f"at these inputs Python would have gone another way{at}: {condition} when it was traced; "
        "the function itself may give something else"
    )
