"""Which slope recordings use on a kink.

The choice is stored with each node when it is recorded, so it also applies to sweeps that run after the block, to
second derivatives and to traced circuits. Each thread, task and generator chooses for itself.
"""

from __future__ import annotations

from wiregrad.ir.blocks import SettingBlock
from wiregrad.ir.mode import CHOSEN_CONVENTIONS, Convention, find_convention


def convention(name: str) -> SettingBlock[Convention]:
    """Record with another convention for kinks: `min_norm` (the usual one), `torch` or `jax`.

    It applies to recorded code: values, `wg.grad`, `wg.trace`, `wg.run`. Circuits that are written down (formulas,
    `wg.Builder`) have their own: `circuit.with_convention(name)`. The environment variable WIREGRAD_CONVENTION names
    the convention outside all blocks, for recordings too; it is read once.

    >>> import wiregrad as wg
    >>> with convention("torch"):
    ...     wg.grad(lambda x: wg.maximum(x, 0.0))(0.0)
    0.5
    >>> wg.grad(lambda x: wg.maximum(x, 0.0))(0.0)
    0.0
    """
    return CHOSEN_CONVENTIONS.make_block(find_convention(name))
