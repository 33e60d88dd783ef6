"""Which slope recordings take on a kink.

The choice is stored with each node as it is recorded, so what is recorded in a block keeps it: a sweep that runs
later, second derivatives, a traced circuit. Each thread, each task and each generator chooses for itself.
"""

from __future__ import annotations

from wiregrad.ir.blocks import Block
from wiregrad.ir.mode import CHOICES, Convention, named_convention


def convention(name: str) -> Block[Convention]:
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
    return CHOICES.block(named_convention(name))
