"""Whether a recording still holds at other inputs: values may have decided which way Python went when it was made."""

from __future__ import annotations

from typing import Any

import numpy as np

from wiregrad.backends import Run
from wiregrad.ir import listed


def strayed(run: Run) -> str:
    """Return what to say if values would have steered Python another way than when it was recorded; else nothing.

    >>> import wiregrad as wg
    >>> strayed(wg.circuit("x * x").run(x=3.0))
    ''
    """
    found = [c for c in run.circuit.certificates if not _same(c.outcome, run.values[c.node])]
    if not found:
        return ""
    places = listed(list(dict.fromkeys(str(c.place) for c in found if c.place is not None)), 3)
    at = f" at {places}" if places else ""
    return f"at these inputs Python would have gone another way{at}: the function itself may give something else"


def _same(outcome: Any, value: Any) -> bool:
    """Return whether a value still comes out as it did when it left the recording."""
    try:
        now = np.asarray(value) if np.ndim(outcome) else type(outcome)(np.asarray(value).item())
    except (TypeError, ValueError, OverflowError):
        # NaN and infinities are no whole numbers.
        return False
    one, two = np.asarray(outcome), np.asarray(now)
    return bool(np.array_equal(one, two, equal_nan=one.dtype.kind in "fc" and two.dtype.kind in "fc"))
