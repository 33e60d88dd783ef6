"""Whether a recording still holds at other inputs: values may have decided which way Python went when it was made."""

from __future__ import annotations

from wiregrad.backends import Run
from wiregrad.ir import certificates


def strayed(run: Run) -> str:
    """Return what to say if values would have steered Python another way than when it was recorded; else nothing.

    >>> import wiregrad as wg
    >>> strayed(wg.circuit("x * x").run(x=3.0))
    ''
    """
    certificate = certificates.flipped(run.circuit, run.values)
    if certificate is None:
        return ""
    at = "" if certificate.place is None else f" at {certificate.place.without_folder()}"
    said = certificates.describe(run.circuit, certificate)
    return (
        f"at these inputs Python would have gone another way{at}: {said} when it was traced; "
        "the function itself may give something else"
    )
