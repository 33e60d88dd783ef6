"""Tells whether a traced circuit still holds at other inputs: a branch in Python may depend on the values."""

from __future__ import annotations

from wiregrad.backends import Run
from wiregrad.ir import certificates


def strayed(run: Run) -> str:
    """Return a note on the first Python branch that would go the other way at the values of a run; empty if none would.

    >>> import wiregrad as wg
    >>> strayed(wg.circuit("x * x").run(x=3.0))
    ''
    """
    certificate = certificates.flipped(run.circuit, run.values)
    if certificate is None:
        return ""
    at = "" if certificate.place is None else f" at {certificate.place.without_folder()}"
    condition = certificates.describe(run.circuit, certificate)
    return (
        f"at these inputs Python would have gone another way{at}: {condition} when it was traced; "
        "the function itself may give something else"
    )
