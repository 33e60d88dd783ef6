"""Which slope recordings take on a kink.

The choice is stored with each node as it is recorded, so what is recorded in a block keeps it: a sweep that runs
later, second derivatives, a traced circuit. Each thread chooses for itself.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from wiregrad.frontends.record import NAMESPACE
from wiregrad.frontends.tape import STATE
from wiregrad.ir.mode import named_convention

_choosing = threading.Lock()


@contextmanager
def convention(name: str) -> Iterator[None]:
    """Record with another convention for kinks: `min_norm` (the usual one), `torch` or `jax`.

    The environment variable WIREGRAD_CONVENTION names the one that holds outside all blocks; it is read once.

    >>> import wiregrad as wg
    >>> with convention("torch"):
    ...     wg.grad(lambda x: wg.maximum(x, 0.0))(0.0)
    0.5
    >>> wg.grad(lambda x: wg.maximum(x, 0.0))(0.0)
    0.0
    """
    chosen, before = named_convention(name), STATE.convention
    with _counted():
        STATE.convention = chosen
        try:
            yield
        finally:
            STATE.convention = before


@contextmanager
def _counted() -> Iterator[None]:
    """Have the generated code of scalars ask which convention its thread has chosen."""
    with _choosing:
        NAMESPACE["CHOSEN"] += 1
    try:
        yield
    finally:
        with _choosing:
            NAMESPACE["CHOSEN"] -= 1
