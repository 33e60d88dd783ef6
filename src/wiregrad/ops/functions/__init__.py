"""Functions of arrays that are made of ops, one module per subject; importing this package registers them all."""

from wiregrad.ops.functions import difference, index, linalg, moments, network, order, plain, pointwise, reduce, shape
from wiregrad.ops.functions.registry import BY_NUMPY, FUNCTIONS, Function, function

__all__ = [
    "BY_NUMPY",
    "FUNCTIONS",
    "Function",
    "difference",
    "function",
    "index",
    "linalg",
    "moments",
    "network",
    "order",
    "plain",
    "pointwise",
    "reduce",
    "shape",
]
