"""Functions of arrays that are made of ops, one module per subject; importing this package registers them all."""

from wiregrad.ops.functions import difference, index, linalg, moments, network, order, plain, pointwise, reduce, shape
from wiregrad.ops.functions.registry import FUNCTIONS_BY_NUMPY, FUNCTIONS, RegisteredFunction, register_function

__all__ = [
    "FUNCTIONS_BY_NUMPY",
    "FUNCTIONS",
    "RegisteredFunction",
    "difference",
    "register_function",
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
