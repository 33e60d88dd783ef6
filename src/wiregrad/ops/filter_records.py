"""Record of the recursive part of a digital filter, y[n] = x[n] - a[0] y[n-1] - a[1] y[n-2] - ..."""

from __future__ import annotations

from typing import Any

from wiregrad.ir import TABLE, Pattern
from wiregrad.ops.array_ops import General, conjugate_flow, define_helper
from wiregrad.ops.gradient_flow import shape_of

register = TABLE.register

_RECURSE = '''\
def recurse(x, a):
    """Return y with y[n] = x[n] - a[0] y[n-1] - a[1] y[n-2] - ..., along the last axis."""
    y = np.array(x)
    order, count = a.shape[-1], x.shape[-1]
    if y.size and y.size // count <= 8:
        for place in np.ndindex(x.shape[:-1]):
            row, weights = x[place].tolist(), a[place].tolist()
            for n in range(1, count):
                for k in range(1, min(order, n) + 1):
                    row[n] -= weights[k - 1] * row[n - k]
            y[place] = row
        return y
    for n in range(1, count):
        k = min(order, n)
        y[..., n] -= (a[..., :k] * y[..., n - k : n][..., ::-1]).sum(axis=-1)
    return y
'''


def flip_last(x: Any) -> Any:
    """Return the elements in reverse order along the last axis."""
    return TABLE["getitem"](x, index=(("slice", None, None, -1),))


def _delay(y: Any, steps: int) -> Any:
    """Return y moved to later places along the last axis, with 0 in front."""
    count = shape_of(y)[-1]
    kept = TABLE["getitem"](y, index=(("slice", 0, max(count - steps, 0), None),))
    return TABLE["put_add"](kept, index=(("slice", min(steps, count), None, None),), shape=(count,))


def _recurse_back(slot: int, g: Any, xs: Any, y: Any) -> Any:
    a = conjugate_flow(xs[1])
    sent = flip_last(recurse(flip_last(g), a))
    if slot == 0:
        return sent
    parts = [
        TABLE["sum"](sent * conjugate_flow(_delay(y, k + 1)), axes=(-1,), keepdims=True) for k in range(shape_of(a)[-1])
    ]
    return -TABLE["concatenate"](*parts, axis=-1)


def _recurse_ahead(slot: int, t: Any, xs: Any, y: Any) -> Any:
    if slot == 0:
        return recurse(t, xs[1])
    moved: Any = None
    for k in range(shape_of(t)[-1]):
        weight = TABLE["getitem"](t, index=(("slice", k, k + 1, None),))
        part = TABLE["spread"](weight, rank=1, shape=(shape_of(y)[-1],)) * _delay(y, k + 1)
        moved = part if moved is None else moved + part
    return recurse(-moved, xs[1])


recurse: General = register(
    General(
        name="recurse",
        doc="The recursive part of a digital filter: y[n] = x[n] - a[0] y[n-1] - a[1] y[n-2] - ...",
        inputs=("x", "a"),
        pattern=Pattern.SWAP,
        forward=define_helper(_RECURSE),
        numpy="recurse({x}, {a})",
        numpy_needs=(_RECURSE,),
        back=_recurse_back,
        ahead=_recurse_ahead,
        samples=lambda rng: [
            (rng.normal(size=6), 0.3 * rng.normal(size=2), {}),
            (rng.normal(size=(2, 5)), 0.3 * rng.normal(size=(2, 3)), {}),
            (rng.normal(size=(3, 4, 4)), 0.3 * rng.normal(size=(3, 4, 1)), {}),
            (rng.normal(size=1), 0.3 * rng.normal(size=1), {}),
            (rng.normal(size=2), 0.3 * rng.normal(size=4), {}),
        ],
    )
)
