"""What gradients mean at awkward points of arrays: the edge table as data, each row three ways."""

from __future__ import annotations

import gc
import itertools
import math
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_equal

import wiregrad as wg
from wiregrad.errors import GradientError, MutationError, NoRuleError, ShapeError

from ..support.limits import wait_for_thread
from ..support.sampling import sample_pairs

inf, nan = math.inf, math.nan
# A known fault of wiregrad: the mark goes when the fault does.
TINY = 5e-324


@dataclass(frozen=True)
class Row:
    """A function of arrays to a number, a point, and the gradients that must come out, one per argument."""

    name: str
    rule: str
    f: Callable[..., Any]
    at: tuple[Any, ...]
    grads: tuple[Any, ...]

    def __str__(self) -> str:
        return self.name


def row(name: str, rule: str, f: Callable[..., Any], at: Any, grads: Any) -> Row:
    """Return a row; a tuple means several arguments."""
    points = at if isinstance(at, tuple) else (at,)
    wanted = grads if isinstance(grads, tuple) else (grads,)
    return Row(name, rule, f, tuple(_array(x) for x in points), tuple(_array(x) for x in wanted))


def _array(x: Any) -> Any:
    return np.array(x) if isinstance(x, list) else x


def softmaxed(x: Any) -> Any:
    return (wg.softmax(x) * np.array([1.0, 2.0, 3.0])).sum()


KINKS = [
    row("max, two ties", "K", lambda x: x.max(), [3.0, 1.0, 3.0], [0.5, 0.0, 0.5]),
    row("max, three ties", "K", np.max, [2.0, 2.0, 2.0], [1 / 3] * 3),
    row("max, no tie", "K", lambda x: x.max(), [3.0, 1.0, 2.0], [1.0, 0.0, 0.0]),
    row("max, ties at inf", "K", lambda x: x.max(), [inf, 1.0, inf], [0.5, 0.0, 0.5]),
    row("max, 0 and -0 tie", "K", lambda x: x.max(), [0.0, -0.0], [0.5, 0.5]),
    row("min, two ties", "K", np.min, [1.0, 3.0, 1.0], [0.5, 0.0, 0.5]),
    row(
        "max by axis, ties in one row",
        "K",
        lambda x: (x.max(axis=1) * np.array([1.0, 10.0])).sum(),
        [[1.0, 1.0], [2.0, 3.0]],
        [[0.5, 0.5], [0.0, 10.0]],
    ),
    row("max over several axes, ties", "K", lambda x: x.max(axis=(0, 1)), [[4.0, 4.0], [4.0, 4.0]], [[0.25] * 2] * 2),
    row(
        "max of a matrix, four of six tie",
        "K",
        lambda x: x.max(),
        [[7.0, 7.0, 0.0], [7.0, 1.0, 7.0]],
        [[0.25, 0.25, 0], [0.25, 0, 0.25]],
    ),
    row("amax, one element", "K", np.amax, [[3.0]], [[1.0]]),
    row("ptp of equal elements", "K", np.ptp, [2.0, 2.0], [0.0, 0.0]),
    row("maximum.reduce, ties", "K", np.maximum.reduce, [5.0, 5.0], [0.5, 0.5]),
    row(
        "maximum of two arrays",
        "K",
        lambda a, b: np.maximum(a, b).sum(),
        ([1.0, 2.0], [1.0, 3.0]),
        ([0.5, 0.0], [0.5, 1.0]),
    ),
    row(
        "minimum of two arrays",
        "K",
        lambda a, b: np.minimum(a, b).sum(),
        ([1.0, 2.0], [1.0, 3.0]),
        ([0.5, 1.0], [0.5, 0.0]),
    ),
    row(
        "fmax of two arrays", "K", lambda a, b: np.fmax(a, b).sum(), ([1.0, nan], [1.0, 3.0]), ([0.5, 0.0], [0.5, 1.0])
    ),
    row("maximum with a literal", "K", lambda x: np.maximum(x, 0.0).sum(), [-1.0, 0.0, 1.0], [0.0, 0.0, 1.0]),
    row(
        "maximum with an array of literals",
        "K",
        lambda x: np.maximum(x, np.zeros(3)).sum(),
        [-1.0, 0.0, 1.0],
        [0.0, 0.0, 1.0],
    ),
    row("minimum with a literal on the left", "K", lambda x: np.minimum(1.0, x).sum(), [1.0, 0.0], [0.0, 1.0]),
    row(
        "maximum of an array and a number",
        "K",
        lambda a, s: np.maximum(a, s).sum(),
        ([1.0, 2.0, 0.0], 1.0),
        ([0.5, 1.0, 0.0], 1.5),
    ),
    row(
        "clip at literal bounds", "K", lambda x: np.clip(x, 0.0, 1.0).sum(), [0.0, 0.5, 1.0, 2.0], [0.0, 1.0, 0.0, 0.0]
    ),
    row("clip by a method", "K", lambda x: x.clip(0.0, 1.0).sum(), [0.0, 0.5, 1.0, 2.0], [0.0, 1.0, 0.0, 0.0]),
    row("clip with one bound", "K", lambda x: np.clip(x, 0.0, None).sum(), [-1.0, 0.0, 1.0], [0.0, 0.0, 1.0]),
    row("abs and sign", "K", lambda x: (np.abs(x) + np.sign(x)).sum(), [-2.0, 0.0, 3.0], [-1.0, 0.0, 1.0]),
    row("relu", "K", lambda x: wg.ops.relu(x).sum(), [-1.0, 0.0, 1.0], [0.0, 0.0, 1.0]),
    row("relu6", "K", lambda x: wg.ops.relu6(x).sum(), [0.0, 3.0, 6.0], [0.0, 1.0, 0.0]),
    row("leaky relu", "K", lambda x: wg.ops.leaky_relu(x, 0.01).sum(), [-1.0, 0.0, 1.0], [0.01, 0.01, 1.0]),
    row("norm2 at 0", "K", np.linalg.norm, [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]),
    row("norm2 of a matrix at 0", "K", np.linalg.norm, [[0.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]),
    row(
        "norm2 by rows, one at 0",
        "K",
        lambda x: np.linalg.norm(x, axis=1).sum(),
        [[3.0, 4.0], [0.0, 0.0]],
        [[0.6, 0.8], [0.0, 0.0]],
    ),
    row("norm1 at 0", "K", lambda x: np.linalg.norm(x, 1), [0.0, -2.0, 0.0], [0.0, -1.0, 0.0]),
    row("vector_norm at 0", "K", np.linalg.vector_norm, [0.0, 0.0], [0.0, 0.0]),
    row("norm inf, ties", "K", lambda x: np.linalg.norm(x, inf), [2.0, -2.0, 1.0], [0.5, -0.5, 0.0]),
    row("hypot at 0", "K", lambda a, b: np.hypot(a, b).sum(), ([0.0, 3.0], [0.0, 4.0]), ([0.0, 0.6], [0.0, 0.8])),
    row("arctan2 at 0", "K", lambda a, b: np.arctan2(a, b).sum(), ([0.0], [0.0]), ([0.0], [0.0])),
    row(
        "0**0, both arrays",
        "K",
        lambda a, b: np.power(a, b).sum(),
        ([0.0, 2.0], [0.0, 3.0]),
        ([0.0, 12.0], [0.0, 8 * math.log(2.0)]),
    ),
    row("std of equal elements", "K", np.std, [2.0, 2.0], [0.0, 0.0]),
    row("cumulative maximum, ties", "K", lambda x: np.maximum.accumulate(x).sum(), [1.0, 1.0, 2.0], [1.5, 0.5, 1.0]),
]

STRUCTURE = [
    row("indexing past a sqrt", "S", lambda x: np.sqrt(x)[1], [0.0, 4.0], [0.0, 0.25]),
    row("slicing past a log", "S", lambda x: np.log(x)[1:].sum(), [0.0, 2.0, 4.0], [0.0, 0.5, 0.25]),
    row("negative step past a sqrt", "S", lambda x: np.sqrt(x)[:0:-1].sum(), [0.0, 4.0], [0.0, 0.25]),
    row("take past a sqrt", "S", lambda x: np.take(np.sqrt(x), [1, 1]).sum(), [0.0, 4.0], [0.0, 0.5]),
    row("integer array past a sqrt", "S", lambda x: np.sqrt(x)[[1, 1]].sum(), [0.0, 4.0], [0.0, 0.5]),
    row("mask past a sqrt", "S", lambda x: np.sqrt(x)[np.array([False, True])].sum(), [0.0, 4.0], [0.0, 0.25]),
    row("computed mask past a log", "S", lambda x: np.log(x)[x > 0].sum(), [-1.0, 0.0, 2.0], [0.0, 0.0, 0.5]),
    row("sort past a sqrt", "S", lambda x: np.sort(np.sqrt(x))[1], [4.0, 0.0], [0.25, 0.0]),
    row(
        "take_along_axis past a log",
        "S",
        lambda x: np.take_along_axis(np.log(x), np.array([1]), 0).sum(),
        [0.0, 2.0],
        [0.0, 0.5],
    ),
    row("max past a sqrt", "S", lambda x: np.sqrt(x).max(), [0.0, 4.0], [0.0, 0.25]),
    row("maximum past a sqrt", "S", lambda x: np.maximum(np.sqrt(x), 1.0).sum(), [0.0, 4.0], [0.0, 0.25]),
    row("clip past a sqrt", "S", lambda x: np.clip(np.sqrt(x), 1.0, 5.0).sum(), [0.0, 4.0], [0.0, 0.25]),
    row("where past a sqrt", "S", lambda x: np.where(x > 0, np.sqrt(x), 0.0).sum(), [0.0, 4.0], [0.0, 0.25]),
    row("where past a log", "S", lambda x: np.where(x > 0, np.log(x), 0.0).sum(), [0.0, -1.0, 2.0], [0.0, 0.0, 0.5]),
    row("where past a quotient", "S", lambda x: np.where(x != 0, np.sin(x) / x, 1.0).sum(), [0.0], [0.0]),
    row("where with both branches", "S", lambda x: np.where(x > 0, np.sqrt(x), x * 3.0).sum(), [0.0, 4.0], [3.0, 0.25]),
    row(
        "where broadcasts past a sqrt",
        "S",
        lambda x: np.where(np.array([[True], [False]]), 1.0, np.sqrt(x))[0].sum(),
        [0.0, 4.0],
        [0.0, 0.0],
    ),
    row("select past a log", "S", lambda x: np.select([x > 0], [np.log(x)], 0.0).sum(), [0.0, 2.0], [0.0, 0.5]),
    row("concatenate and cut", "S", lambda x: np.concatenate([np.sqrt(x), x])[1:].sum(), [0.0, 4.0], [1.0, 1.25]),
    row("split past a sqrt", "S", lambda x: np.split(np.sqrt(x), 2)[1].sum(), [0.0, 4.0], [0.0, 0.25]),
    row("stack and pick", "S", lambda x: np.stack([np.log(x), x])[1].sum(), [0.0, 2.0], [1.0, 1.0]),
    row("put over a sqrt", "S", lambda x: wg.put(np.sqrt(x), 0, 7.0).sum(), [0.0, 4.0], [0.0, 0.25]),
    row(
        "reshape and transpose keep absence",
        "S",
        lambda x: np.sqrt(x).reshape(2, 2).T[1].sum(),
        [0.0, 4.0, 0.0, 16.0],
        [0.0, 0.25, 0.0, 0.125],
    ),
    row(
        "triu past a sqrt",
        "S",
        lambda x: np.triu(np.sqrt(x)).sum(),
        [[4.0, 4.0], [0.0, 4.0]],
        [[0.25, 0.25], [0.0, 0.25]],
    ),
    row(
        "diagonal past a sqrt",
        "S",
        lambda x: np.diagonal(np.sqrt(x)).sum(),
        [[4.0, 0.0], [0.0, 4.0]],
        [[0.25, 0.0], [0.0, 0.25]],
    ),
    row("pad past nothing", "S", lambda x: np.pad(np.sqrt(x), 1)[2:3].sum(), [0.0, 4.0], [0.0, 0.25]),
    row("roll and cut", "S", lambda x: np.roll(np.sqrt(x), 1)[0], [0.0, 4.0], [0.0, 0.25]),
    row("median past a sqrt", "S", lambda x: np.median(np.sqrt(x)), [0.0, 4.0, 9.0], [0.0, 0.25, 0.0]),
    row("nansum leaves out NaN", "S", lambda x: np.nansum(x * x), [nan, 3.0], [0.0, 6.0]),
    row("floor past a sqrt", "S", lambda x: np.floor(np.sqrt(x)).sum(), [0.0, 4.0], [0.0, 0.0]),
    row(
        "round, heaviside, floor_divide",
        "S",
        lambda x: (np.round(x) + np.heaviside(x, 0.5) + x // 2.0).sum(),
        [0.4, 0.0, -3.3],
        [0.0, 0.0, 0.0],
    ),
    row("stop_gradient past a sqrt", "S", lambda x: (wg.stop_gradient(np.sqrt(x)) + x).sum(), [0.0, 4.0], [1.0, 1.0]),
    row("a numeric zero stays IEEE", "S", lambda x: (np.sqrt(x) * 0.0).sum(), [0.0, 4.0], [nan, 0.0]),
    row("sqrt squared at 0", "S", lambda x: (np.sqrt(x) ** 2).sum(), [0.0, 4.0], [nan, 1.0]),
    row("norm written out, at 0", "-", lambda x: np.sqrt((x**2).sum()), [0.0, 0.0], [nan, nan]),
    row("norm written out with a product", "-", lambda x: (x @ x) ** 0.5, [0.0, 0.0], [nan, nan]),
]

LIMITS = [
    row("sqrt, cbrt and log at 0", "C", lambda x: np.sqrt(x[0]) + np.cbrt(x[1]) + np.log(x[2]), [0.0] * 3, [inf] * 3),
    row("elementwise sqrt at 0", "C", lambda x: np.sqrt(x).sum(), [0.0, -0.0, 4.0], [inf, inf, 0.25]),
    row(
        "log1p, arcsin, arccosh",
        "C",
        lambda x: np.log1p(x[0]) + np.arcsin(x[1]) + np.arccosh(x[2]),
        [-1.0, 1.0, 1.0],
        [inf] * 3,
    ),
    row("powers at 0", "C", lambda x: x[0] ** 2 + x[1] ** 0 + x[2] ** 1, [0.0] * 3, [0.0, 0.0, 1.0]),
    row("array power at 0", "C", lambda x: (x**0.5).sum(), [0.0, 4.0], [inf, 0.25]),
    row("reciprocal at 0", "C", lambda x: (1.0 / x).sum(), [0.0, 2.0], [-inf, -0.25]),
    row("quotient at 0", "C", lambda a, b: (a / b).sum(), ([1.0, 0.0], [0.0, 0.0]), ([inf, inf], [-inf, nan])),
    row("0 to array powers", "C", lambda a, b: (a**b).sum(), ([0.0, 0.0], [2.0, -1.0]), ([0.0, -inf], [0.0, -inf])),
    row("sqrt and log below 0", "D", lambda x: np.sqrt(x[0]) + np.log(x[1]), [-1.0, -1.0], [nan, nan]),
    row("log below 0, by element", "D", lambda x: np.log(x).sum(), [-1.0, 2.0], [nan, 0.5]),
    row("a negative base", "D", lambda a, b: (a**b).sum(), ([-2.0], [3.0]), ([12.0], [nan])),
    row("a negative base, literal exponent", "D", lambda x: (x**3).sum(), [-2.0], [12.0]),
    row("NaN into floor", "D", lambda x: np.floor(x).sum(), [nan, 1.5], [nan, 0.0]),
    row("NaN into abs", "D", lambda x: np.abs(x).sum(), [nan, -1.0], [nan, -1.0]),
    row("NaN into relu", "D", lambda x: wg.ops.relu(x).sum(), [nan, 1.0], [nan, 1.0]),
    row(
        "NaN into maximum", "D", lambda a, b: np.maximum(a, b).sum(), ([nan, 1.0], [1.0, 0.0]), ([nan, 1.0], [nan, 0.0])
    ),
    row("NaN into clip", "D", lambda x: np.clip(x, 0.0, 1.0).sum(), [nan, 0.5], [nan, 1.0]),
    row("mod", "-", lambda a, b: np.mod(a, b).sum(), ([6.0, -7.0], [3.0, 2.0]), ([1.0, 1.0], [-2.0, 4.0])),
    row("mod by a literal", "-", lambda x: (x % 3.0).sum(), [6.0, 7.5], [1.0, 1.0]),
    row("logsumexp, large and equal", "-", wg.logsumexp, [1000.0, 1000.0], [0.5, 0.5]),
    row("logsumexp, very small and equal", "-", wg.logsumexp, [-1000.0, -1000.0], [0.5, 0.5]),
    row("logsumexp, all -inf", "K", wg.logsumexp, [-inf, -inf], [0.5, 0.5]),
    row("logsumexp, one +inf", "K", wg.logsumexp, [inf, 0.0], [1.0, 0.0]),
    row("logsumexp, two +inf", "K", wg.logsumexp, [inf, 0.0, inf], [0.5, 0.0, 0.5]),
    row("logsumexp, one -inf", "-", wg.logsumexp, [0.0, -inf], [1.0, 0.0]),
    row(
        "logsumexp by rows",
        "K",
        lambda x: wg.logsumexp(x, axis=1).sum(),
        [[1000.0, 1000.0], [-inf, -inf]],
        [[0.5, 0.5], [0.5, 0.5]],
    ),
    row("logaddexp.reduce", "K", np.logaddexp.reduce, [1000.0, 1000.0], [0.5, 0.5]),
    row(
        "logaddexp of arrays",
        "K",
        lambda a, b: np.logaddexp(a, b).sum(),
        ([-inf, inf], [-inf, 0.0]),
        ([0.5, 1.0], [0.5, 0.0]),
    ),
    row("softmax with one -inf", "F", softmaxed, [0.0, 0.0, -inf], [-0.25, 0.25, 0.0]),
    row("softmax, all -inf", "F", softmaxed, [-inf, -inf, -inf], [nan, nan, nan]),
    row("softmax, large", "F", softmaxed, [1000.0, 1000.0, -1000.0], [-0.25, 0.25, 0.0]),
    row("log_softmax, large", "-", lambda x: wg.log_softmax(x)[0], [1000.0, 1000.0], [0.5, -0.5]),
    row("cross_entropy, large", "-", lambda x: wg.cross_entropy(x, np.array([0])), [[1000.0, 1000.0]], [[-0.5, 0.5]]),
    row("softplus, far out", "-", lambda x: wg.ops.softplus(x).sum(), [1000.0, -1000.0], [1.0, 0.0]),
    row(
        "sigmoid and tanh, far out", "-", lambda x: wg.ops.sigmoid(x[0]) + np.tanh(x[1]), [-1000.0, 1000.0], [0.0, 0.0]
    ),
    row("prod, one zero", "-", lambda x: x.prod(), [2.0, 0.0, 3.0], [0.0, 6.0, 0.0]),
    row("prod, two zeros", "-", np.prod, [2.0, 0.0, 0.0], [0.0, 0.0, 0.0]),
    row("prod by rows", "-", lambda x: x.prod(axis=1).sum(), [[0.0, 5.0], [2.0, 3.0]], [[5.0, 0.0], [3.0, 2.0]]),
    row("multiply.reduce, one zero", "-", np.multiply.reduce, [2.0, 0.0], [0.0, 2.0]),
    row("prod, a subnormal factor", "F", lambda x: x.prod(), [TINY, 2.0, 3.0], [6.0, 3 * TINY, 2 * TINY]),
    row("cumprod, one zero", "-", lambda x: np.cumprod(x).sum(), [2.0, 0.0, 3.0], [1.0, 8.0, 0.0]),
    row("cumprod, two zeros", "-", lambda x: np.cumprod(x).sum(), [2.0, 0.0, 0.0, 5.0], [1.0, 2.0, 0.0, 0.0]),
    row("cumprod, a zero in front", "-", lambda x: x.cumprod()[-1], [0.0, 4.0, 5.0], [20.0, 0.0, 0.0]),
    row("a singular determinant", "-", np.linalg.det, [[1.0, 2.0], [2.0, 4.0]], [[4.0, -2.0], [-2.0, 1.0]]),
    row("subnormals are kept", "F", lambda x: (x * 1e-310).sum(), [1.0, 2.0], [1e-310, 1e-310]),
    row("a subnormal squared", "F", lambda x: (x * x).sum(), [TINY], [2 * TINY]),
    row("sum of nothing", "F", lambda x: x.sum() + 1.0, np.zeros(0), np.zeros(0)),
    row("sum of no rows", "F", lambda x: x.sum(axis=0).sum(), np.zeros((0, 3)), np.zeros((0, 3))),
    row("prod of nothing", "F", lambda x: x.prod(), np.zeros((2, 0)), np.zeros((2, 0))),
    row(
        "broadcast to nothing",
        "F",
        lambda x, y: (x * y).sum(),
        (np.zeros((0, 3)), np.ones(3)),
        (np.zeros((0, 3)), np.zeros(3)),
    ),
    row("a number beside nothing", "F", lambda x, y: (x * y).sum(), (np.zeros((0, 3)), 2.0), (np.zeros((0, 3)), 0.0)),
    row("index of nothing", "F", lambda x: x[np.zeros(0, int)].sum(), [1.0, 2.0], [0.0, 0.0]),
    row(
        "matmul over nothing",
        "F",
        lambda a, b: (a @ b).sum(),
        (np.zeros((2, 0)), np.zeros((0, 3))),
        (np.zeros((2, 0)), np.zeros((0, 3))),
    ),
    row(
        "concatenate with nothing",
        "F",
        lambda x, y: np.concatenate([x, y]).sum(),
        (np.zeros(0), np.ones(2)),
        (np.zeros(0), np.ones(2)),
    ),
]

NARROW, WIDE = np.float32, np.float64
TYPES = [
    row("float32 stays float32", "F", lambda x: (x * 2.0).sum(), np.ones(2, NARROW), np.full(2, 2, NARROW)),
    row(
        "float32 beside float64",
        "F",
        lambda x, y: (x * y).sum(),
        (np.ones(2, NARROW), np.full(2, 3.0)),
        (np.full(2, 3, NARROW), np.ones(2)),
    ),
    row(
        "float32 beside a float64 number",
        "F",
        lambda x, y: (x * y).sum(),
        (np.ones(2, NARROW), 3.0),
        (np.full(2, 3, NARROW), 2.0),
    ),
    row(
        "float32 beside integers",
        "F",
        lambda x: (x * np.array([2, 3])).sum(),
        np.ones(2, NARROW),
        np.array([2, 3], NARROW),
    ),
    row("a float32 number", "F", lambda x: x * x, NARROW(3.0), NARROW(6.0)),
    row(
        "float32 to float64 and back",
        "F",
        lambda x: x.astype(WIDE).astype(NARROW).sum(),
        np.ones(2, NARROW),
        np.ones(2, NARROW),
    ),
    row("float32 max, ties", "K", lambda x: x.max(), np.ones(3, NARROW), np.full(3, 1 / 3, NARROW)),
    row("real beside complex", "F", lambda x: np.real(x * (2.0 + 3.0j)).sum(), [1.0, 2.0], [2.0, 2.0]),
    row("complex abs at 0", "K", lambda z: np.abs(z).sum(), [0j, 3 - 4j], [0j, 0.6 - 0.8j]),
    row("complex abs squared", "-", lambda z: (np.abs(z) ** 2).sum(), [1 + 2j], [2 + 4j]),
    row("a complex number's abs squared", "-", lambda z: abs(z) ** 2, 1 + 2j, np.complex128(2 + 4j)),
    row("complex norm at 0", "K", np.linalg.norm, [0j, 0j], [0j, 0j]),
    row("complex real and imag", "-", lambda z: (np.real(z) + 2.0 * np.imag(z)).sum(), [1 + 1j], [1 + 2j]),
    row("complex z conj z", "-", lambda z: np.real(z * np.conj(z)).sum(), [1 + 2j], [2 + 4j]),
    row(
        "complex where past a log",
        "S",
        lambda z: np.real(np.where(np.abs(z) > 0, np.log(z), 0.0)).sum(),
        [0j, 2 + 0j],
        [0j, 0.5 + 0j],
    ),
]
ROWS = [*KINKS, *STRUCTURE, *LIMITS, *TYPES]


def assert_gradients(case: Row, found: tuple[Any, ...]) -> None:
    """Compare to a unit in the last place or two: NaN, inf, dtype and shape are exact."""
    for grad, wanted, x in zip(found, case.grads, case.at, strict=True):
        assert np.shape(grad) == np.shape(x)
        # A circuit gives numbers without axes as Python floats.
        assert np.asarray(grad).dtype == np.asarray(x).dtype or isinstance(grad, float)
        near = 4 * np.finfo(np.asarray(x).dtype).eps
        np.testing.assert_allclose(grad, wanted, rtol=near, atol=0.0, equal_nan=True)


def test_there_are_enough_rows() -> None:
    assert len(ROWS) >= 80
    assert len({case.name for case in ROWS}) == len(ROWS)


def by_backward(case: Row) -> tuple[Any, ...]:
    values = [wg.Value(x) for x in case.at]
    with np.errstate(all="ignore"):
        y = case.f(*values)
    y.backward()
    return tuple(value.grad for value in values)


def by_grad(case: Row) -> tuple[Any, ...]:
    with np.errstate(all="ignore"):
        found: tuple[Any, ...] = wg.grad(case.f, tuple(range(len(case.at))))(*case.at)
    return found


def by_circuit(case: Row) -> tuple[Any, ...]:
    with np.errstate(all="ignore"):
        circuit = wg.trace(case.f, *case.at)
    run = circuit.run(dict(zip(circuit.inputs, case.at, strict=True)))
    return tuple(run.grads[name] for name in circuit.inputs)


def by_backward_circuit(case: Row) -> tuple[Any, ...]:
    with np.errstate(all="ignore"):
        circuit = wg.trace(case.f, *case.at)
    backward = circuit.backward_circuit()
    point = dict(zip(circuit.inputs, case.at, strict=True))
    return tuple(backward.with_output(f"grad_{name}")(point) for name in circuit.inputs)


def by_forward_mode(case: Row) -> tuple[Any, ...]:
    with np.errstate(all="ignore"):
        found: tuple[Any, ...] = wg.jacobian(case.f, tuple(range(len(case.at))), mode="forward")(*case.at)
    return found


WAYS = [by_backward, by_grad, by_circuit, by_backward_circuit]


@pytest.mark.parametrize(
    ("way", "case"), sample_pairs(WAYS, ROWS), ids=lambda item: getattr(item, "__name__", str(item))
)
def test_gradient_at_an_awkward_point(case: Row, way: Callable[[Row], tuple[Any, ...]]) -> None:
    assert_gradients(case, way(case))


def is_finite_and_real(case: Row) -> bool:
    """Return whether a tangent that is 0 along the other elements stays 0: 0 times inf does not."""
    return all(np.asarray(x).dtype == np.float64 and np.isfinite(x).all() for x in (*case.at, *case.grads))


@pytest.mark.parametrize(
    "case",
    [pytest.param(case) for case in filter(is_finite_and_real, [*KINKS, *LIMITS, *TYPES])],
    ids=str,
)
def test_forward_mode_agrees_at_an_awkward_point(case: Row) -> None:
    assert_gradients(case, by_forward_mode(case))


FORWARD = [
    ("sqrt", np.sqrt, 0.0, inf),
    ("log", np.log, 0.0, inf),
    ("log1p", np.log1p, -1.0, inf),
    ("cbrt", np.cbrt, 0.0, inf),
    ("arctanh", np.arctanh, 1.0, inf),
    ("reciprocal", lambda x: 1.0 / x, 0.0, -inf),
    ("0 / 0", lambda x: x / x, 0.0, nan),
    ("hypot", lambda x: np.hypot(x, x), 0.0, 0.0),
    ("x**-1", lambda x: x**-1, 0.0, -inf),
    ("sqrt below 0", np.sqrt, -1.0, nan),
    ("where past a sqrt", lambda x: np.where(x > 0, np.sqrt(x), 0.0), 0.0, 0.0),
]


@pytest.mark.parametrize(("name", "f", "x", "wanted"), FORWARD, ids=[name for name, *_ in FORWARD])
def test_forward_mode_of_arrays_at_an_awkward_point(name: str, f: Callable[..., Any], x: float, wanted: float) -> None:
    with np.errstate(all="ignore"):
        _, moved = wg.jvp(f, (np.array([x]),), (np.array([1.0]),))

    assert_equal(moved, [wanted])


@pytest.mark.parametrize(
    ("name", "f", "x", "wanted"),
    [pytest.param(*line, id=line[0]) for line in FORWARD],
)
def test_forward_mode_of_numbers_at_an_awkward_point(name: str, f: Callable[..., Any], x: float, wanted: float) -> None:
    with np.errstate(all="ignore"):
        _, moved = wg.jvp(f, (x,), (1.0,))

    assert_equal(moved, wanted)


def test_both_modes_give_the_jacobian_of_a_real_function_of_complex_numbers() -> None:
    def f(z: Any) -> Any:
        return np.stack([np.real(z * z), np.imag(z), np.abs(z)])

    assert_equal(wg.jacobian(f, mode="forward")(1 + 2j), wg.jacobian(f, mode="reverse")(1 + 2j))


def test_a_tangent_of_a_real_result_is_real() -> None:
    assert wg.jvp(np.abs, (3 - 4j,), (1j,))[1] == pytest.approx(-0.8)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_both_modes_give_the_jacobian_the_dtype_of_the_argument(mode: Any) -> None:
    x = np.ones(2, np.float32)
    assert wg.jacobian(lambda x: x * np.arange(2.0), mode=mode)(x).dtype == np.float32


SECOND = [
    ("where past a sqrt", lambda x: np.where(x > 0, np.sqrt(x), 0.0).sum(), [0.0, 4.0], [[0.0, 0.0], [0.0, -1 / 32]]),
    ("where past a log", lambda x: np.where(x > 0, np.log(x), 0.0).sum(), [0.0, -1.0, 2.0], np.diag([0.0, 0.0, -0.25])),
    ("mask past a log", lambda x: np.log(x)[x > 0].sum(), [0.0, 2.0], np.diag([0.0, -0.25])),
    ("index past a sqrt", lambda x: np.sqrt(x)[1], [0.0, 4.0], np.diag([0.0, -1 / 32])),
    ("prod, no zero", lambda x: x.prod(), [2.0, 3.0, 4.0], [[0.0, 4.0, 3.0], [4.0, 0.0, 2.0], [3.0, 2.0, 0.0]]),
    ("prod, one zero", lambda x: x.prod(), [2.0, 0.0, 3.0], [[0.0, 3.0, 0.0], [3.0, 0.0, 2.0], [0.0, 2.0, 0.0]]),
    ("prod, two zeros", lambda x: x.prod(), [2.0, 0.0, 0.0], [[0.0, 0.0, 0.0], [0.0, 0.0, 2.0], [0.0, 2.0, 0.0]]),
    ("prod by axis", lambda x: x.prod(axis=-1), [0.0, 5.0], [[0.0, 1.0], [1.0, 0.0]]),
    (
        "cumprod, one zero",
        lambda x: x.cumprod().sum(),
        [2.0, 0.0, 3.0],
        [[0.0, 4.0, 0.0], [4.0, 0.0, 2.0], [0.0, 2.0, 0.0]],
    ),
    (
        "cumprod, two zeros",
        lambda x: np.cumprod(x).sum(),
        [2.0, 0.0, 0.0],
        [[0.0, 1.0, 0.0], [1.0, 0.0, 2.0], [0.0, 2.0, 0.0]],
    ),
    ("logsumexp, large", wg.logsumexp, [1000.0, 1000.0], [[0.25, -0.25], [-0.25, 0.25]]),
    ("softmax with one -inf", softmaxed, [0.0, 0.0, -inf], np.zeros((3, 3))),
    ("max, no tie", lambda x: x.max() ** 2, [3.0, 1.0], [[2.0, 0.0], [0.0, 0.0]]),
    ("norm2 away from 0", np.linalg.norm, [3.0, 4.0], [[0.128, -0.096], [-0.096, 0.072]]),
    ("norm2 at 0", np.linalg.norm, [0.0, 0.0], np.full((2, 2), nan)),
    ("square at 0", lambda x: (x**2).sum(), [0.0, 1.0], np.diag([2.0, 2.0])),
    ("relu squared", lambda x: (wg.ops.relu(x) ** 2).sum(), [-1.0, 2.0], np.diag([0.0, 2.0])),
]


@pytest.mark.parametrize(("name", "f", "x", "wanted"), SECOND, ids=[name for name, *_ in SECOND])
def test_second_derivative_at_an_awkward_point(name: str, f: Callable[..., Any], x: Any, wanted: Any) -> None:
    at = np.array(x)
    with np.errstate(all="ignore"):
        hessian = wg.hessian(f)(at)
        rows = [traced_row(f, at, k) for k in range(len(at))]

    np.testing.assert_allclose(hessian, wanted, rtol=1e-15, atol=1e-16)
    np.testing.assert_allclose(rows, wanted, rtol=1e-15, atol=1e-16)


def traced_row(f: Callable[..., Any], at: np.ndarray, k: int) -> Any:
    """Return how element k of the gradient moves, from the circuit of the gradient."""
    circuit = wg.trace(lambda x: wg.grad(f)(x)[k], at)
    return circuit.run(x=at).grads["x"]


RELUS: list[Callable[..., Any]] = [
    wg.ops.relu,
    lambda x: x.relu(),
    lambda x: np.maximum(x, 0.0),
    lambda x: np.maximum(0.0, x),
    lambda x: np.clip(x, 0.0, None),
    lambda x: x.clip(0.0, 1e300),
    lambda x: np.where(x > 0, x, 0.0),
    lambda x: np.maximum(x, np.zeros(np.shape(x))),
    lambda x: -np.minimum(-x, 0.0),
    lambda x: np.select([x > 0], [x], 0.0),
]


@pytest.mark.parametrize("relu", RELUS)
def test_equal_formulations_of_relu_agree(relu: Callable[..., Any]) -> None:
    x = np.array([-2.0, -0.0, 0.0, 1.5])
    value = wg.Value(x)
    relu(value).sum().backward()
    circuit = wg.trace(lambda x: relu(x).sum(), x)

    assert_equal(value.grad, [0.0, 0.0, 0.0, 1.0])
    assert_equal(wg.grad(lambda x: relu(x).sum())(x), [0.0, 0.0, 0.0, 1.0])
    assert_equal(circuit.run(x=x).grads["x"], [0.0, 0.0, 0.0, 1.0])
    assert_equal(circuit.simplify().run(x=x).grads["x"], [0.0, 0.0, 0.0, 1.0])
    assert [wg.grad(relu)(float(element)) for element in x] == [0.0, 0.0, 0.0, 1.0]


def test_equal_formulations_of_max_agree() -> None:
    x = np.array([2.0, 2.0, 1.0])
    for f in (
        np.max,
        np.maximum.reduce,
        lambda x: x.max(),
        lambda x: x.reshape(3, 1).max(axis=0)[0],
        lambda x: wg.max_pool1d(x.reshape(1, 1, 3), 3).sum(),
        lambda x: -np.min(-x),
    ):
        assert_equal(wg.grad(f)(x), [0.5, 0.5, 0.0])


@pytest.mark.parametrize("x", [np.zeros(0), np.zeros((2, 0))])
@pytest.mark.parametrize("kind", ["max", "min"])
def test_max_of_nothing_is_numpys_error(kind: str, x: Any) -> None:
    with pytest.raises(ValueError, match="zero-size array"):
        getattr(wg.Value(x), kind)()
    with pytest.raises(ValueError, match="zero-size array"):
        wg.grad(getattr(np, kind))(x)


def test_mean_of_nothing_is_nan_and_its_gradient_keeps_the_shape() -> None:
    x = wg.Value(np.zeros((0, 3)))
    with np.errstate(all="ignore"):
        y = x.mean()
    y.backward()

    assert_equal(y.data, nan)
    assert x.grad.shape == (0, 3)
    assert wg.Value(np.zeros((0, 3))).max(axis=1).shape == (0,)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (3, "argument 1 of f.*int 3"),
        (True, "argument 1 of f.*bool"),
        (np.array([1, 2]), r"argument 1 of f.*int64.*astype\(float\)"),
        (np.array([True]), "argument 1 of f.*bool"),
        (np.int32(3), "argument 1 of f.*int32"),
        ([1.0, 2], "argument 1 of f.*int 2"),
        ({"a": 1, "b": np.arange(2)}, "argument 1 of f.*int 1"),
    ],
)
def test_an_integer_that_is_differentiated_is_a_type_error_naming_the_argument(given: Any, words: str) -> None:
    def f(x: Any, y: Any) -> Any:
        return x

    for transform in (wg.grad, wg.value_and_grad, wg.jacobian, wg.hessian):
        with pytest.raises(TypeError, match=words):
            transform(f, argnums=1)(1.0, given)
    with pytest.raises(TypeError, match=words):
        wg.vjp(f, 1.0, given)
    with pytest.raises(TypeError, match=words):
        wg.jvp(f, (1.0, given), (1.0, given))
    assert wg.grad(f)(1.0, given) == 1.0


LITERALS = [np.int8, np.int32, np.int64, np.float16, np.float32, np.float64, np.complex64, np.complex128, bool]


@pytest.mark.parametrize("ufunc", [np.add, np.subtract, np.multiply, np.true_divide, np.power])
@pytest.mark.parametrize("kind", [np.float32, np.float64, np.complex128])
@pytest.mark.parametrize("literal", LITERALS)
@pytest.mark.parametrize("shape", [(), (2,)])
def test_dtypes_are_promoted_as_numpy_does(kind: Any, literal: Any, shape: tuple[int, ...], ufunc: Any) -> None:
    x, other = np.ones(2, kind), np.ones(shape, literal)[()]
    for both in ((lambda v, u=ufunc: u(v, other)), (lambda v, u=ufunc: u(other, v))):
        value = wg.Value(x)
        y = both(value)
        np.abs(y).sum().backward()

        assert y.dtype == both(x).dtype
        assert value.grad.dtype == kind


@pytest.mark.parametrize("number", [2, 2.0, np.float32(2), np.float64(2)])
def test_a_python_number_keeps_float32(number: Any) -> None:
    x = np.ones(2, np.float32)
    for f in (lambda x: x * number, lambda x: number - x, lambda x: x**number, lambda x: np.maximum(x, number)):
        assert f(wg.Value(x)).dtype == f(x).dtype
        assert wg.trace(lambda x, f=f: f(x).sum(), x)(x=x) == pytest.approx(float(f(x).sum()))


# Structure: what a person may and may not do.


def test_buffers_of_recorded_values_are_read_only() -> None:
    x = wg.Value(np.arange(6.0).reshape(2, 3))
    for y in (x * 2.0, x.T, x[0], x.reshape(3, 2), np.concatenate([x, x]), x + np.ones(3), +x):
        with pytest.raises(ValueError, match="read-only"):
            y.data[...] = 0.0


def test_a_view_of_a_buffer_is_copied_too() -> None:
    base = np.arange(6.0)
    view = base[::2]
    view.setflags(write=False)
    x = wg.Value(view)
    y = (x * view).sum()
    base[:] = 100.0
    y.backward()

    assert_equal(x.data, [0.0, 2.0, 4.0])
    assert_equal(x.grad, [0.0, 2.0, 4.0])


def test_a_transform_that_raised_leaves_nothing_behind() -> None:
    def broken(x: Any) -> Any:
        raise KeyError

    wrong = 0
    for _ in range(100):
        with pytest.raises(KeyError):
            wg.grad(broken)(np.ones(3))
        base = np.arange(3.0)
        view = base[:]
        view.setflags(write=False)
        x = wg.Value(view)
        base[:] = 100.0
        wrong += x.data[0] != 0.0

    assert not wrong


def test_an_argument_edited_while_the_function_runs_does_not_matter() -> None:
    data = np.ones(3)

    def f(x: Any) -> Any:
        y = (x * x).sum()
        data[:] = 5.0
        return y

    value, grad = wg.value_and_grad(f)(data)

    assert value == 3.0
    assert_equal(grad, [2.0, 2.0, 2.0])


def test_an_index_edited_after_forward_does_not_matter() -> None:
    x = wg.Value(np.arange(3.0))
    index, mask, condition = np.array([0, 0]), np.array([True, False, False]), np.array([True, False, True])
    y = x[index].sum() + x[mask].sum() * 10.0 + np.where(condition, x, 0.0).sum() * 100.0
    index[:], mask[:], condition[:] = 2, True, False
    y.backward()

    assert_equal(x.grad, [112.0, 0.0, 100.0])


@pytest.mark.parametrize(
    "f",
    [
        pytest.param(lambda a, b: a + b),
        lambda a, b: a * b,
        pytest.param(lambda a, b: np.concatenate([a, b])),
        pytest.param(lambda a, b: a - b),
        lambda a, b: np.where(np.array([True, False, True]), a, b),
        pytest.param(lambda a, b: (a + b).reshape(3, 1)),
        lambda a, b: (+a)[::-1] + b,
        pytest.param(lambda a, b: (a * b).sum()),
    ],
)
def test_gradients_belong_to_nobody_else(f: Callable[..., Any]) -> None:
    a, b = wg.Value(np.array([1.0, 2.0, 3.0])), wg.Value(np.array([4.0, 5.0, 6.0]))
    y = f(a, b)
    seed = np.ones(y.shape)
    y.backward(seed)
    before = np.array(b.grad), np.array(y.grad)
    a.grad *= 100.0

    assert_equal((b.grad, y.grad), before)
    assert_equal(seed, np.ones(y.shape))
    assert_equal((a.data, b.data), ([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]))


def test_results_of_transforms_belong_to_nobody_else() -> None:
    x, y, t = np.ones(3), np.ones(3), np.ones(3)
    _, pull = wg.vjp(lambda a, b: a + b, x, y)
    one, two = pull(t)
    one[:] = 7.0
    _, moved = wg.jvp(lambda a: +a, (x,), (t,))
    moved[:] = 7.0
    for mapped in (wg.vmap(lambda a: a)(x), wg.vmap(lambda a, b: (a, b), in_axes=(0, None), out_axes=(0, None))(x, y)):
        for result in mapped if isinstance(mapped, tuple) else (mapped,):
            result[:] = 7.0

    assert_equal((x, y, t, two), [np.ones(3)] * 4)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: np.add(x, 1.0, out=np.zeros(3)),
        lambda x: np.sum(x, out=np.zeros(())),
        lambda x: np.cumsum(x, out=np.zeros(3)),
        lambda x: np.log(x, out=np.zeros(3), where=[True, False, True]),
    ],
)
def test_writing_to_a_plain_array_is_refused(call: Callable[[Any], Any]) -> None:
    x = wg.Value(np.arange(3.0))
    with pytest.raises((MutationError, NoRuleError, AttributeError)):
        call(x)
    with pytest.raises((MutationError, NoRuleError, AttributeError)):
        call(x * 2.0)

    assert_equal(x.data, [0.0, 1.0, 2.0])


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.__setitem__(0, 1.0),
        lambda x: np.add(np.ones(3), 1.0, out=x),
        lambda x: np.add.at(x, [0], 1.0),
        lambda x: np.copyto(x, 1.0),
        lambda x: np.put(x, [0], 1.0),
        lambda x: np.multiply.at(x, [0], 2.0),
        lambda x: np.sin(x, out=x, where=[True, False, True]),
        lambda x: x.sort(),
        lambda x: x.fill(0.0),
        lambda x: x.put([0], 1.0),
        lambda x: x.partition(1),
    ],
)
def test_changing_a_leaf_in_place_is_refused(call: Callable[[Any], Any]) -> None:
    x = wg.Value(np.arange(3.0))
    with pytest.raises(MutationError):
        call(x)

    assert_equal(x.data, [0.0, 1.0, 2.0])


def test_augmented_assignment_makes_a_new_value() -> None:
    x = wg.Value(np.arange(3.0))
    y = x
    y += 1.0
    y *= x
    y.sum().backward()

    assert_equal(x.data, [0.0, 1.0, 2.0])
    assert_equal(x.grad, [1.0, 3.0, 5.0])


STRIDED = [
    ("reversed", lambda x: x[::-1, ::-1]),
    ("transposed", lambda x: np.ascontiguousarray(x.T).T),
    ("every second", lambda x: np.repeat(np.repeat(x, 2, 0), 2, 1)[::2, ::2]),
    ("Fortran", np.asfortranarray),
    ("read-only", lambda x: np.broadcast_to(x[:1], x.shape)),
    ("byte offset", lambda x: np.frombuffer(b"\0" * 8 + x.tobytes(), offset=8).reshape(x.shape)),
]


@pytest.mark.parametrize(("name", "view"), STRIDED, ids=[name for name, _ in STRIDED])
def test_strides_do_not_matter(name: str, view: Callable[[Any], Any]) -> None:
    x = view(np.arange(1.0, 13.0).reshape(3, 4))
    plain = x.copy(order="C")
    weights = view(np.linspace(-1.0, 1.0, 12).reshape(3, 4))

    def f(x: Any) -> Any:
        return (
            (x @ weights.T).sum() * x[::-1, 1::2].prod() ** 0.1 + np.sort(x, axis=0)[::-1].cumsum().mean() + x.T.max()
        )

    value = wg.Value(x)
    f(value).backward()
    circuit = wg.trace(f, plain)
    wanted = wg.grad(f)(plain)

    assert_equal(value.data, plain)
    np.testing.assert_allclose(value.grad, wanted, rtol=1e-14)
    np.testing.assert_allclose(wg.grad(f)(x), wanted, rtol=1e-14)
    np.testing.assert_allclose(circuit.run(x=x).grads["x"], wanted, rtol=1e-14)


@pytest.mark.parametrize(
    "turn",
    [
        *(float, int, complex, math.sin),
        lambda v: np.asarray(v, complex),
        lambda v: np.array([v, v], dtype=complex),
        lambda v: [1, 2][v],
    ],
)
@pytest.mark.parametrize("kind", [np.float32(2), np.array([2.0]), 2.0, 2j])
def test_no_kind_of_value_becomes_a_number_in_silence(turn: Callable[[Any], Any], kind: Any) -> None:
    leaf = wg.Value(kind)
    for value in (leaf, leaf * 2.0):
        with pytest.raises(TypeError, match=r"stop_gradient|\.item\(\)"):
            turn(value)


@pytest.mark.parametrize("kind", [np.float32(2), np.array([2.0]), 2.0])
def test_a_value_does_not_slip_into_an_array(kind: Any) -> None:
    # NumPy turns the error into its own, and names the first as the cause.
    target = np.zeros(3)
    with pytest.raises((TypeError, ValueError)):
        target[0] = wg.Value(kind)
    with pytest.raises((TypeError, ValueError)):
        target[:1] = wg.Value(kind)

    assert_equal(target, np.zeros(3))


@pytest.mark.parametrize(
    "call", [np.ix_, np.histogram2d, np.packbits, np.emath.sqrt, np.spacing, np.gcd, np.bitwise_count]
)
def test_a_function_without_a_rule_never_makes_an_object_array(call: Callable[..., Any]) -> None:
    x = wg.Value(np.arange(1.0, 4.0))
    operands = (x, np.ones(3)) if call in (np.gcd, np.histogram2d) else (x,)
    with pytest.raises(NoRuleError, match=call.__name__):
        call(*operands)


def test_a_gradient_before_backward_is_none() -> None:
    x = wg.Value(np.ones(2))
    y = (x * 2.0).sum()

    assert (x.grad, y.grad) == (None, None)
    assert "grad" not in repr(x)
    y.backward()
    assert "grad" in repr(x)


def test_backward_twice_adds_to_arrays_and_leaves_nothing_stale() -> None:
    x, unused = wg.Value(np.array([1.0, 2.0])), wg.Value(np.ones(2))
    y = x * x
    z = y.sum()
    z.backward()
    first = x.grad
    z.backward()

    assert_equal(first, [2.0, 4.0])
    assert_equal(x.grad, [4.0, 8.0])
    assert_equal(y.grad, [1.0, 1.0])
    assert unused.grad is None
    y.backward(np.array([1.0, 0.0]))
    assert_equal(x.grad, [6.0, 8.0])
    assert_equal(y.grad, [1.0, 0.0])
    assert z.grad is None


def test_backward_from_two_roots_adds_up() -> None:
    x = wg.Value(np.array([1.0, 2.0]))
    h = np.tanh(x)
    one, two = (h * 2.0).sum(), (h * h).sum()
    one.backward()
    two.backward()
    both = wg.grad(lambda x: (np.tanh(x) * 2.0).sum() + (np.tanh(x) ** 2).sum())(x.data)

    np.testing.assert_allclose(x.grad, both, rtol=1e-15)


def test_no_perturbation_confusion_with_arrays() -> None:
    x = np.array([3.0, 4.0])

    assert_equal(wg.grad(lambda x: (x * wg.grad(lambda y: (x + y).sum())(x.data)).sum())(x), [1.0, 1.0])
    inner = wg.grad(lambda x: (x * wg.grad(lambda y: (x * y).sum())(np.ones(2))).sum())(x)
    assert_equal(inner, 2 * x)
    assert_equal(wg.grad(lambda x: wg.jvp(lambda y: (x * y * y).sum(), (x,), (np.ones(2),))[1])(x), 4 * x)
    mapped = wg.grad(lambda x: wg.vmap(lambda y: wg.grad(lambda z: (x * y * z).sum())(x).sum())(x).sum())(x)
    assert_equal(mapped, [7.0 + 7.0, 7.0 + 7.0])


def test_a_long_chain_of_arrays_at_the_usual_recursion_limit() -> None:
    length = 5_000
    x = np.array([0.5, -0.5])

    def chain(x: Any) -> Any:
        for _ in range(length):
            x = x * 0.9999 + 1e-5
        return x.sum()

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    try:
        value = wg.Value(x)
        y = chain(value)
        y.backward()
        circuit = wg.trace(chain, x)
        again = wg.Circuit.from_text(circuit.to_text())
        run = again.run(x=x)
        tape = weakref.ref(y._tape)
        del y
        assert tape() is None
    finally:
        sys.setrecursionlimit(limit)

    np.testing.assert_allclose(value.grad, 0.9999**length, rtol=1e-10)
    assert_equal(run.grads["x"], value.grad)
    assert len(circuit) >= 2 * length


def resume_twice(x: Any) -> Any:
    """Resume a generator from two places."""

    def powers() -> Iterator[Any]:
        y = x
        while True:
            y = y * x
            yield y

    made = powers()
    square = next(made)
    return square + next(made)


def everything() -> None:
    """Use every kind of recording once."""
    w = wg.Value(np.array([1.0, 2.0]))
    h = np.tanh(w * 2.0)
    h.register_hook(lambda g: g * 2.0)
    w.register_hook(lambda g: None)
    (h @ h + wg.checkpoint(lambda x: np.sin(x).sum())(h)).backward()
    wg.hessian(lambda x: (x**3).sum())(np.ones(2))
    wg.vmap(wg.grad(lambda x: (x * w).sum()))(np.ones((2, 2)))
    _, pull = wg.vjp(lambda x: x * w, np.ones(2))
    pull(np.ones(2))
    wg.jvp(np.tanh, (0.3,), (1.0,))
    wg.trace(lambda x: x * x if x > 0 else x, 2.0)
    wg.trace(resume_twice, 2.0)
    with wg.no_grad():
        w * 2.0
    with pytest.raises(GradientError):
        wg.grad(lambda x: x * w)(np.ones(2))
    with pytest.raises(ShapeError):
        w + np.ones(3)


def test_nothing_that_is_recorded_is_a_cycle() -> None:
    everything()
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        everything()
        gc.collect()
        kept = [type(item).__name__ for item in gc.garbage if type(item).__module__.startswith("wiregrad")]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()

    assert not kept


def test_the_same_inputs_give_the_same_bits() -> None:
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(40, 30)), rng.normal(size=(30, 20))

    def f(x: Any, w: Any) -> Any:
        return wg.logsumexp(np.tanh(x @ w), axis=1).mean() + x.std() + np.sort(w, axis=0).cumsum().max()

    def by_values() -> list[np.ndarray]:
        values = [wg.Value(x), wg.Value(w)]
        f(*values).backward()
        return [value.grad for value in values]

    circuit = wg.trace(f, x, w)
    for way in (by_values, lambda: list(wg.grad(f, (0, 1))(x, w)), lambda: list(circuit.run(x=x, w=w).grads.values())):
        found = [[grad.tobytes() for grad in way()] for _ in range(3)]

        assert found[0] == found[1] == found[2]
    for grad, other in zip(by_values(), wg.grad(f, (0, 1))(x, w), strict=True):
        assert np.array_equal(grad, other)


class Interrupt:
    """Raises at the n-th call."""

    def __init__(self, n: int) -> None:
        self.left = n

    def __call__(self, x: Any) -> Any:
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt
        return np.tanh(x) * 2.0


def in_context(step: Any) -> Any:
    x = wg.Value(np.ones(2))
    with wg.group("a"), wg.no_grad():
        step(x)
    with wg.group("b"):
        y = step(step(x)).sum()
    y.register_hook(step)
    y.backward()


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "grad": lambda step: wg.grad(lambda x: step(step(step(x))).sum())(np.ones(2)),
    "grad of grad": lambda step: wg.grad(lambda x: wg.grad(lambda y: step(y * x).sum())(step(x)).sum())(np.ones(2)),
    "vmap of grad": lambda step: wg.vmap(wg.grad(lambda x: step(step(x)).sum()))(np.ones((2, 2))),
    "vmap that branches": lambda step: wg.vmap(lambda x: step(x) if x > 0 else x)(np.ones(3)),
    "jvp": lambda step: wg.jvp(lambda x: step(step(x)), (np.ones(2),), (np.ones(2),)),
    "checkpoint": lambda step: wg.grad(lambda x: wg.checkpoint(lambda y: step(step(y)))(x).sum())(np.ones(2)),
    "trace": lambda step: wg.trace(lambda x: step(step(x)), np.ones(2)),
    "groups": in_context,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_interrupt_at_any_step_leaves_a_clean_state(name: str) -> None:
    x = np.array([0.3, 0.4])
    leaf = wg.Value(x)
    recorded = leaf * 3.0
    for n in itertools.count(1):
        try:
            PROGRAMS[name](Interrupt(n))
        except KeyboardInterrupt:
            interrupted = True
        else:
            interrupted = False
        leaf.grad = None
        (recorded * leaf).sum().backward()

        assert_equal(leaf.grad, 6 * x)
        assert_equal(wg.grad(lambda x: (x * x).sum())(x), 2 * x)
        assert wg.trace(lambda x: x * x, 2.0)["f"].group == ""
        if not interrupted:
            break
    assert n > 2


def test_no_grad_in_one_thread_does_not_pause_another() -> None:
    entered, done = threading.Event(), threading.Event()

    def paused() -> None:
        with wg.no_grad():
            entered.set()
            done.wait(600)

    thread = threading.Thread(target=paused)
    thread.start()
    try:
        assert entered.wait(600)
        for x in (2.0, np.array([2.0])):
            value = wg.Value(x)
            np.sum(value * value).backward()

            assert_equal(value.grad, 2 * x)
            assert_equal(wg.grad(lambda x: (x * x).sum())(x), 2 * x)
    finally:
        done.set()
        wait_for_thread(thread)


def test_a_hook_holds_when_its_value_is_used_on_another_recording() -> None:
    a, other = wg.Value(2.0), wg.Value(5.0)
    b = a * 3.0
    b.register_hook(lambda g: g * 10.0)
    (a * 1.0).backward()
    a.grad = None
    longer = other * 7.0 * 1.0 * 1.0 * 1.0
    (b * longer).backward()

    assert a.grad == 3.0 * 35.0 * 10.0


@pytest.mark.parametrize("detached", [wg.stop_gradient, wg.Value.detach])
def test_what_is_detached_is_not_passed(detached: Any) -> None:
    a, b = wg.Value(2.0), wg.Value(3.0)
    (detached(a) * b).backward()

    assert (a.grad, b.grad) == (None, 2.0)


def test_axes_may_be_an_array() -> None:
    x = wg.Value(np.ones((2, 3)))

    assert np.transpose(x, np.array([1, 0])).shape == (3, 2)


def test_a_circuit_takes_an_array_without_axes_as_a_number() -> None:
    x = np.array(2.0)

    assert wg.trace(lambda x: x * x, x).run(x=x).grads["x"] == 4.0


def test_outputs_of_a_function_class_keep_their_dtypes() -> None:
    class Both(wg.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            return x * 2, y * 2

        @staticmethod
        def backward(ctx: Any, one: Any, two: Any) -> Any:
            return one * 2, two * 2

    narrow, wide = Both.apply(wg.Value(np.ones(2, np.float32)), wg.Value(np.ones(2)))

    assert (narrow.dtype, wide.dtype) == (np.float32, np.float64)


def test_a_derivative_by_something_plain_inside_vmap() -> None:
    found = wg.vmap(lambda v: wg.grad(lambda y: y * y * v)(3.0))(np.array([1.0, 2.0]))

    assert_equal(found, [6.0, 12.0])
