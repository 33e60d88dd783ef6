"""Hessians of long functions of many numbers, one direction at a time.

The circuit of a whole Hessian has the nodes of a gradient once for each number that is differentiated by, so for a loop
of n steps with a control in each it grows with n squared. The circuit of its product with one direction does not: it is
compiled once, and run for all directions as a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wiregrad.frontends.recording.arguments import flatten, unflatten
from wiregrad.frontends.recording.transformed_function import TransformedFunction
from wiregrad.frontends.transforms.derivatives import grad, hessian, jvp

MIN_DIRECTIONS = 8
"""Least number of directions for which their batch is tried."""
MAX_HESSIAN_NODES = 20_000
"""A Hessian whose circuit would have more nodes is computed by directions."""


def find_hessian(f: object) -> HessianRows | None:
    """Return what computes the Hessian that a function returns by directions; None if it returns something else."""
    if not isinstance(f, TransformedFunction):
        return None
    transform, options = f.identity
    argnums = options.get("argnums")
    is_plain = options.get("argnames") is None and not options.get("holomorphic")
    if transform is not hessian or not is_plain:
        return None
    return HessianRows(f.__wrapped__, 0 if argnums is None else argnums)


class HessianRows:
    """The Hessian of a function by some of its arguments, as the results of a batch of directions."""

    def __init__(self, f: Callable[..., Any], argnums: int | tuple[int, ...]) -> None:
        self._is_single = isinstance(argnums, int)
        self._argnums = (argnums,) if isinstance(argnums, int) else tuple(argnums)
        self._f = f
        self._products: Any = None
        """The product with a direction, as a compiled function."""
        self._refused: set[object] = set()
        """The kinds of calls that are recorded as a whole."""

    def compute(self, args: tuple[Any, ...], key: object, compile_product: Callable[..., Any]) -> Any:
        """Return the Hessian; None if it is to be recorded as a whole."""
        if key in self._refused:
            return None
        selected = self._select(args)
        blocks = None if selected is None else self._compute_blocks(args, selected, compile_product)
        if selected is None or blocks is None:
            self._refused.add(key)
            return None
        return self._join(selected, blocks)

    def _select(self, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Return the arguments to differentiate by; None if there are few numbers in them, or others than float64."""
        if not all(-len(args) <= k < len(args) for k in self._argnums):
            return None
        selected = tuple([args[k] for k in self._argnums])
        leaves, _ = flatten(selected)
        is_usual = all(type(x) is float or (type(x) is np.ndarray and x.dtype == np.float64) for x in leaves)
        return selected if is_usual and sum(map(np.size, leaves)) >= MIN_DIRECTIONS else None

    def _multiply(self, direction: Sequence[Any], args: tuple[Any, ...]) -> list[Any]:
        """Return the product of the Hessian and a direction, which has a number or array for each of the arguments'."""
        leaves, tree = flatten(tuple([args[k] for k in self._argnums]))

        def compute_slopes(*leaves: Any) -> list[Any]:
            given = list(args)
            for k, argument in zip(self._argnums, unflatten(tree, list(leaves)), strict=True):
                given[k] = argument
            return flatten(grad(self._f, self._argnums)(*given))[0]

        product: list[Any] = jvp(compute_slopes, tuple(leaves), tuple(direction))[1]
        return product

    def _compute_blocks(
        self, args: tuple[Any, ...], selected: tuple[Any, ...], compile_product: Callable[..., Any]
    ) -> list[NDArray[np.float64]] | None:
        """Return the tangents of each part of the gradient, with an axis of directions in front."""
        leaves, _ = flatten(selected)
        count = sum(map(np.size, leaves))
        if self._products is None:
            self._products = compile_product(self._multiply)
        products = self._products
        columns = list(_split_unit_vectors(leaves, count))
        try:
            if not products.info.calls:
                products([column[0] if column.ndim > 1 else float(column[0]) for column in columns], args)
                nodes = sum(variant.nodes for variant in products.info.variants)
                # A function that is too long for its first call has no recording yet.
                if products.info.variants and nodes * count <= MAX_HESSIAN_NODES:
                    return None
            blocks = products.batch(columns, args, in_axes=(0, None))
        except Exception:
            # The function itself raises a proper error, or returns something else than one number.
            return None
        # A direction without a number multiplies the infinite slopes of the others by 0.
        is_finite = all(np.isfinite(block).all() for block in blocks)
        return list(blocks) if is_finite and products.info.variants else None

    def _join(self, selected: tuple[Any, ...], blocks: Sequence[NDArray[np.float64]]) -> Any:
        """Return the blocks in the structure of the arguments, for each number of them in that structure."""
        chosen = selected[0] if self._is_single else selected
        leaves, tree = flatten(chosen)
        stops = np.cumsum([np.size(leaf) for leaf in leaves])
        rows = []
        for leaf, block in zip(leaves, blocks, strict=True):
            parts = np.split(block.reshape(len(block), -1).T, stops[:-1], axis=1)
            shapes = [np.shape(leaf) + np.shape(other) for other in leaves]
            row = [_shape_block(part, shape) for part, shape in zip(parts, shapes, strict=True)]
            rows.append(unflatten(tree, row))
        return unflatten(tree, rows)


def _split_unit_vectors(leaves: Sequence[Any], count: int) -> Iterator[NDArray[np.float64]]:
    """Return all unit vectors as a column for each leaf."""
    units = np.eye(count)
    start = 0
    for leaf in leaves:
        stop = start + prod(np.shape(leaf))
        yield np.ascontiguousarray(units[:, start:stop]).reshape(count, *np.shape(leaf))
        start = stop


def _shape_block(part: NDArray[np.float64], shape: tuple[int, ...]) -> Any:
    return np.ascontiguousarray(part).reshape(shape) if shape else float(part[0, 0])
