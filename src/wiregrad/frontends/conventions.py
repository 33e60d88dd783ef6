"""Which slope recordings take on a kink.

The choice is stored with each node as it is recorded, so what is recorded in a block keeps it: a sweep that runs
later, second derivatives, a traced circuit. Each thread and each task chooses for itself. A generator has no context of
its own: a block in which it yields holds for whoever runs it, until it leaves the block.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from wiregrad.frontends.record import counting
from wiregrad.ir.mode import CHOICES, named_convention


@contextmanager
def convention(name: str) -> Iterator[None]:
    """Record with another convention for kinks: `min_norm` (the usual one), `torch` or `jax`.

    It holds for what is recorded: values, `wg.grad`, `wg.trace`, `wg.run`. Circuits that are written down (formulas,
    `wg.Builder`) say themselves what they do: `circuit.with_convention(name)`. The environment variable
    WIREGRAD_CONVENTION names the one that holds outside all blocks, for recordings too; it is read once.

    >>> import wiregrad as wg
    >>> with convention("torch"):
    ...     wg.grad(lambda x: wg.maximum(x, 0.0))(0.0)
    0.5
    >>> wg.grad(lambda x: wg.maximum(x, 0.0))(0.0)
    0.0
    """
    choice = object(), named_convention(name)
    with counting("CHOSEN"):
        CHOICES.set((*CHOICES.get(), choice))
        try:
            yield
        finally:
            # A generator may leave its block after others were entered, or in another context: its own choice goes.
            CHOICES.set(tuple([other for other in CHOICES.get() if other is not choice]))
