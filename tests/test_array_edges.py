"""What gradients mean at awkward points of arrays: the edge table as data, each row three ways."""

from __future__ import annotations

import gc
import itertools
import math
import sys
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_equal

import wiregrad as wg
from wiregrad.errors import EscapeError, GradientError, MutationError, NoRuleError, ShapeError

inf, nan = math.inf, math.nan
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
    row("max, three ties", "K", lambda x: np.max(x), [2.0, 2.0, 2.0], [1 / 3] * 3),
    row("max, no tie", "K", lambda x: x.max(), [3.0, 1.0, 2.0], [1.0, 0.0, 0.0]),
    row("max, ties at inf", "K", lambda x: x.max(), [inf, 1.0, inf], [0.5, 0.0, 0.5]),
    row("max, 0 and -0 tie", "K", lambda x: x.max(), [0.0, -0.0], [0.5, 0.5]),
    row("min, two ties", "K", lambda x: np.min(x), [1.0, 3.0, 1.0], [0.5, 0.0, 0.5]),
    row(
        "max by axis, ties in one row",
        "K",
        lambda x: (x.max(axis=1) * np.array([1.0, 10.0])).sum(),
        [[1.0, 1.0], [2.0, 3.0]],
        [[0.5, 0.5], [0.0, 10.0]],
    ),
    row("max over several axes, ties", "K", lambda x: x.max(axis=(0, 1)), [[4.0, 4.0], [4.0, 4.0]], [[0.25] * 2] * 2),
    row("max of a matrix, four of six tie", "K", lambda x: x.max(), [[7.0, 7.0, 0.0], [7.0, 1.0, 7.0]], [[0.25, 0.25, 0], [0.25, 0, 0.25]]),
    row("amax, one element", "K", lambda x: np.amax(x), [[3.0]], [[1.0]]),
    row("ptp of equal elements", "K", lambda x: np.ptp(x), [2.0, 2.0], [0.0, 0.0]),
    row("maximum.reduce, ties", "K", lambda x: np.maximum.reduce(x), [5.0, 5.0], [0.5, 0.5]),
    row("maximum of two arrays", "K", lambda a, b: np.maximum(a, b).sum(), ([1.0, 2.0], [1.0, 3.0]), ([0.5, 0.0], [0.5, 1.0])),
    row("minimum of two arrays", "K", lambda a, b: np.minimum(a, b).sum(), ([1.0, 2.0], [1.0, 3.0]), ([0.5, 1.0], [0.5, 0.0])),
    row("fmax of two arrays", "K", lambda a, b: np.fmax(a, b).sum(), ([1.0, nan], [1.0, 3.0]), ([0.5, 0.0], [0.5, 1.0])),
    row("maximum with a literal", "K", lambda x: np.maximum(x, 0.0).sum(), [-1.0, 0.0, 1.0], [0.0, 0.0, 1.0]),
    row("maximum with an array of literals", "K", lambda x: np.maximum(x, np.zeros(3)).sum(), [-1.0, 0.0, 1.0], [0.0, 0.0, 1.0]),
    row("minimum with a literal on the left", "K", lambda x: np.minimum(1.0, x).sum(), [1.0, 0.0], [0.0, 1.0]),
    row("maximum of an array and a number", "K", lambda a, s: np.maximum(a, s).sum(), ([1.0, 2.0, 0.0], 1.0), ([0.5, 1.0, 0.0], 1.5)),
    row("clip at literal bounds", "K", lambda x: np.clip(x, 0.0, 1.0).sum(), [0.0, 0.5, 1.0, 2.0], [0.0, 1.0, 0.0, 0.0]),
    row("clip by a method", "K", lambda x: x.clip(0.0, 1.0).sum(), [0.0, 0.5, 1.0, 2.0], [0.0, 1.0, 0.0, 0.0]),
    row("clip with one bound", "K", lambda x: np.clip(x, 0.0, None).sum(), [-1.0, 0.0, 1.0], [0.0, 0.0, 1.0]),
    row("abs and sign", "K", lambda x: (np.abs(x) + np.sign(x)).sum(), [-2.0, 0.0, 3.0], [-1.0, 0.0, 1.0]),
    row("relu", "K", lambda x: wg.ops.relu(x).sum(), [-1.0, 0.0, 1.0], [0.0, 0.0, 1.0]),
    row("relu6", "K", lambda x: wg.ops.relu6(x).sum(), [0.0, 3.0, 6.0], [0.0, 1.0, 0.0]),
    row("leaky relu", "K", lambda x: wg.ops.leaky_relu(x, 0.01).sum(), [-1.0, 0.0, 1.0], [0.01, 0.01, 1.0]),
    row("norm2 at 0", "K", lambda x: np.linalg.norm(x), [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]),
    row("norm2 of a matrix at 0", "K", lambda x: np.linalg.norm(x), [[0.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]),
    row("norm2 by rows, one at 0", "K", lambda x: np.linalg.norm(x, axis=1).sum(), [[3.0, 4.0], [0.0, 0.0]], [[0.6, 0.8], [0.0, 0.0]]),
    row("norm1 at 0", "K", lambda x: np.linalg.norm(x, 1), [0.0, -2.0, 0.0], [0.0, -1.0, 0.0]),
    row("vector_norm at 0", "K", lambda x: np.linalg.vector_norm(x), [0.0, 0.0], [0.0, 0.0]),
    row("norm inf, ties", "K", lambda x: np.linalg.norm(x, inf), [2.0, -2.0, 1.0], [0.5, -0.5, 0.0]),
    row("hypot at 0", "K", lambda a, b: np.hypot(a, b).sum(), ([0.0, 3.0], [0.0, 4.0]), ([0.0, 0.6], [0.0, 0.8])),
    row("arctan2 at 0", "K", lambda a, b: np.arctan2(a, b).sum(), ([0.0], [0.0]), ([0.0], [0.0])),
    row("0**0, both arrays", "K", lambda a, b: np.power(a, b).sum(), ([0.0, 2.0], [0.0, 3.0]), ([0.0, 12.0], [0.0, 8 * math.log(2.0)])),
    row("std of equal elements", "K", lambda x: np.std(x), [2.0, 2.0], [0.0, 0.0]),
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
    row("take_along_axis past a log", "S", lambda x: np.take_along_axis(np.log(x), np.array([1]), 0).sum(), [0.0, 2.0], [0.0, 0.5]),
    row("max past a sqrt", "S", lambda x: np.sqrt(x).max(), [0.0, 4.0], [0.0, 0.25]),
    row("maximum past a sqrt", "S", lambda x: np.maximum(np.sqrt(x), 1.0).sum(), [0.0, 4.0], [0.0, 0.25]),
    row("clip past a sqrt", "S", lambda x: np.clip(np.sqrt(x), 1.0, 5.0).sum(), [0.0, 4.0], [0.0, 0.25]),
    row("where past a sqrt", "S", lambda x: np.where(x > 0, np.sqrt(x), 0.0).sum(), [0.0, 4.0], [0.0, 0.25]),
    row("where past a log", "S", lambda x: np.where(x > 0, np.log(x), 0.0).sum(), [0.0, -1.0, 2.0], [0.0, 0.0, 0.5]),
    row("where past a quotient", "S", lambda x: np.where(x != 0, np.sin(x) / x, 1.0).sum(), [0.0], [0.0]),
    row("where with both branches", "S", lambda x: np.where(x > 0, np.sqrt(x), x * 3.0).sum(), [0.0, 4.0], [3.0, 0.25]),
    row("where broadcasts past a sqrt", "S", lambda x: np.where(np.array([[True], [False]]), 1.0, np.sqrt(x))[0].sum(), [0.0, 4.0], [0.0, 0.0]),
    row("select past a log", "S", lambda x: np.select([x > 0], [np.log(x)], 0.0).sum(), [0.0, 2.0], [0.0, 0.5]),
    row("concatenate and cut", "S", lambda x: np.concatenate([np.sqrt(x), x])[1:].sum(), [0.0, 4.0], [1.0, 1.25]),
    row("split past a sqrt", "S", lambda x: np.split(np.sqrt(x), 2)[1].sum(), [0.0, 4.0], [0.0, 0.25]),
    row("stack and pick", "S", lambda x: np.stack([np.log(x), x])[1].sum(), [0.0, 2.0], [1.0, 1.0]),
    row("put over a sqrt", "S", lambda x: wg.put(np.sqrt(x), 0, 7.0).sum(), [0.0, 4.0], [0.0, 0.25]),
    row("reshape and transpose keep absence", "S", lambda x: np.sqrt(x).reshape(2, 2).T[1].sum(), [0.0, 4.0, 0.0, 16.0], [0.0, 0.25, 0.0, 0.125]),
    row("triu past a sqrt", "S", lambda x: np.triu(np.sqrt(x)).sum(), [[4.0, 4.0], [0.0, 4.0]], [[0.25, 0.25], [0.0, 0.25]]),
    row("diagonal past a sqrt", "S", lambda x: np.diagonal(np.sqrt(x)).sum(), [[4.0, 0.0], [0.0, 4.0]], [[0.25, 0.0], [0.0, 0.25]]),
    row("pad past nothing", "S", lambda x: np.pad(np.sqrt(x), 1)[2:3].sum(), [0.0, 4.0], [0.0, 0.25]),
    row("roll and cut", "S", lambda x: np.roll(np.sqrt(x), 1)[0], [0.0, 4.0], [0.0, 0.25]),
    row("median past a sqrt", "S", lambda x: np.median(np.sqrt(x)), [0.0, 4.0, 9.0], [0.0, 0.25, 0.0]),
    row("nansum leaves out NaN", "S", lambda x: np.nansum(x * x), [nan, 3.0], [0.0, 6.0]),
    row("floor past a sqrt", "S", lambda x: np.floor(np.sqrt(x)).sum(), [0.0, 4.0], [0.0, 0.0]),
    row("round, heaviside, floor_divide", "S", lambda x: (np.round(x) + np.heaviside(x, 0.5) + x // 2.0).sum(), [0.4, 0.0, -3.3], [0.0, 0.0, 0.0]),
    row("stop_gradient past a sqrt", "S", lambda x: (wg.stop_gradient(np.sqrt(x)) + x).sum(), [0.0, 4.0], [1.0, 1.0]),
    row("a numeric zero stays IEEE", "S", lambda x: (np.sqrt(x) * 0.0).sum(), [0.0, 4.0], [nan, 0.0]),
    row("sqrt squared at 0", "S", lambda x: (np.sqrt(x) ** 2).sum(), [0.0, 4.0], [nan, 1.0]),
    row("norm written out, at 0", "-", lambda x: np.sqrt((x**2).sum()), [0.0, 0.0], [nan, nan]),
    row("norm written out with a product", "-", lambda x: (x @ x) ** 0.5, [0.0, 0.0], [nan, nan]),
]

LIMITS = [
    row("sqrt, cbrt and log at 0", "C", lambda x: (np.sqrt(x[0]) + np.cbrt(x[1]) + np.log(x[2])), [0.0] * 3, [inf] * 3),
    row("elementwise sqrt at 0", "C", lambda x: np.sqrt(x).sum(), [0.0, -0.0, 4.0], [inf, inf, 0.25]),
    row("log1p, arcsin, arccosh", "C", lambda x: np.log1p(x[0]) + np.arcsin(x[1]) + np.arccosh(x[2]), [-1.0, 1.0, 1.0], [inf] * 3),
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
    row("NaN into maximum", "D", lambda a, b: np.maximum(a, b).sum(), ([nan, 1.0], [1.0, 0.0]), ([nan, 1.0], [nan, 0.0])),
    row("NaN into clip", "D", lambda x: np.clip(x, 0.0, 1.0).sum(), [nan, 0.5], [nan, 1.0]),
    row("mod", "-", lambda a, b: np.mod(a, b).sum(), ([6.0, -7.0], [3.0, 2.0]), ([1.0, 1.0], [-2.0, 4.0])),
    row("mod by a literal", "-", lambda x: (x % 3.0).sum(), [6.0, 7.5], [1.0, 1.0]),
    row("logsumexp, large and equal", "-", lambda x: wg.logsumexp(x), [1000.0, 1000.0], [0.5, 0.5]),
    row("logsumexp, very small and equal", "-", lambda x: wg.logsumexp(x), [-1000.0, -1000.0], [0.5, 0.5]),
    row("logsumexp, all -inf", "K", lambda x: wg.logsumexp(x), [-inf, -inf], [0.5, 0.5]),
    row("logsumexp, one +inf", "K", lambda x: wg.logsumexp(x), [inf, 0.0], [1.0, 0.0]),
    row("logsumexp, two +inf", "K", lambda x: wg.logsumexp(x), [inf, 0.0, inf], [0.5, 0.0, 0.5]),
    row("logsumexp, one -inf", "-", lambda x: wg.logsumexp(x), [0.0, -inf], [1.0, 0.0]),
    row("logsumexp by rows", "K", lambda x: wg.logsumexp(x, axis=1).sum(), [[1000.0, 1000.0], [-inf, -inf]], [[0.5, 0.5], [0.5, 0.5]]),
    row("logaddexp.reduce", "K", lambda x: np.logaddexp.reduce(x), [1000.0, 1000.0], [0.5, 0.5]),
    row("logaddexp of arrays", "K", lambda a, b: np.logaddexp(a, b).sum(), ([-inf, inf], [-inf, 0.0]), ([0.5, 1.0], [0.5, 0.0])),
    row("softmax with one -inf", "F", softmaxed, [0.0, 0.0, -inf], [-0.25, 0.25, 0.0]),
    row("softmax, all -inf", "F", softmaxed, [-inf, -inf, -inf], [nan, nan, nan]),
    row("softmax, large", "F", softmaxed, [1000.0, 1000.0, -1000.0], [-0.25, 0.25, 0.0]),
    row("log_softmax, large", "-", lambda x: wg.log_softmax(x)[0], [1000.0, 1000.0], [0.5, -0.5]),
    row("cross_entropy, large", "-", lambda x: wg.cross_entropy(x, np.array([0])), [[1000.0, 1000.0]], [[-0.5, 0.5]]),
    row("softplus, far out", "-", lambda x: wg.ops.softplus(x).sum(), [1000.0, -1000.0], [1.0, 0.0]),
    row("sigmoid and tanh, far out", "-", lambda x: wg.ops.sigmoid(x[0]) + np.tanh(x[1]), [-1000.0, 1000.0], [0.0, 0.0]),
    row("prod, one zero", "-", lambda x: x.prod(), [2.0, 0.0, 3.0], [0.0, 6.0, 0.0]),
    row("prod, two zeros", "-", lambda x: np.prod(x), [2.0, 0.0, 0.0], [0.0, 0.0, 0.0]),
    row("prod by rows", "-", lambda x: x.prod(axis=1).sum(), [[0.0, 5.0], [2.0, 3.0]], [[5.0, 0.0], [3.0, 2.0]]),
    row("multiply.reduce, one zero", "-", lambda x: np.multiply.reduce(x), [2.0, 0.0], [0.0, 2.0]),
    row("prod, a subnormal factor", "F", lambda x: x.prod(), [TINY, 2.0, 3.0], [6.0, 3 * TINY, 2 * TINY]),
    row("cumprod, one zero", "-", lambda x: np.cumprod(x).sum(), [2.0, 0.0, 3.0], [1.0, 8.0, 0.0]),
    row("cumprod, two zeros", "-", lambda x: np.cumprod(x).sum(), [2.0, 0.0, 0.0, 5.0], [1.0, 2.0, 0.0, 0.0]),
    row("cumprod, a zero in front", "-", lambda x: x.cumprod()[-1], [0.0, 4.0, 5.0], [20.0, 0.0, 0.0]),
    row("a determinant with a zero", "-", lambda x: np.linalg.det(x), [[0.0, 1.0], [1.0, 1.0]], [[1.0, -1.0], [-1.0, 0.0]]),
    row("subnormals are kept", "F", lambda x: (x * 1e-310).sum(), [1.0, 2.0], [1e-310, 1e-310]),
    row("a subnormal squared", "F", lambda x: (x * x).sum(), [TINY], [2 * TINY]),
    row("sum of nothing", "F", lambda x: x.sum() + 1.0, np.zeros(0), np.zeros(0)),
    row("sum of no rows", "F", lambda x: x.sum(axis=0).sum(), np.zeros((0, 3)), np.zeros((0, 3))),
    row("prod of nothing", "F", lambda x: x.prod(), np.zeros((2, 0)), np.zeros((2, 0))),
    row("broadcast to nothing", "F", lambda x, y: (x * y).sum(), (np.zeros((0, 3)), np.ones(3)), (np.zeros((0, 3)), np.zeros(3))),
    row("a number beside nothing", "F", lambda x, y: (x * y).sum(), (np.zeros((0, 3)), 2.0), (np.zeros((0, 3)), 0.0)),
    row("index of nothing", "F", lambda x: x[np.zeros(0, int)].sum(), [1.0, 2.0], [0.0, 0.0]),
    row("matmul over nothing", "F", lambda a, b: (a @ b).sum(), (np.zeros((2, 0)), np.zeros((0, 3))), (np.zeros((2, 0)), np.zeros((0, 3)))),
    row("concatenate with nothing", "F", lambda x, y: np.concatenate([x, y]).sum(), (np.zeros(0), np.ones(2)), (np.zeros(0), np.ones(2))),
]

NARROW, WIDE = np.float32, np.float64
TYPES = [
    row("float32 stays float32", "F", lambda x: (x * 2.0).sum(), np.ones(2, NARROW), np.full(2, 2, NARROW)),
    row("float32 beside float64", "F", lambda x, y: (x * y).sum(), (np.ones(2, NARROW), np.full(2, 3.0)), (np.full(2, 3, NARROW), np.ones(2))),
    row("float32 beside a float64 number", "F", lambda x, y: (x * y).sum(), (np.ones(2, NARROW), 3.0), (np.full(2, 3, NARROW), 2.0)),
    row("float32 beside integers", "F", lambda x: (x * np.array([2, 3])).sum(), np.ones(2, NARROW), np.array([2, 3], NARROW)),
    row("a float32 number", "F", lambda x: x * x, NARROW(3.0), NARROW(6.0)),
    row("float32 to float64 and back", "F", lambda x: x.astype(WIDE).astype(NARROW).sum(), np.ones(2, NARROW), np.ones(2, NARROW)),
    row("float32 max, ties", "K", lambda x: x.max(), np.ones(3, NARROW), np.full(3, 1 / 3, NARROW)),
    row("real beside complex", "F", lambda x: np.real(x * (2.0 + 3.0j)).sum(), [1.0, 2.0], [2.0, 2.0]),
    row("complex abs at 0", "K", lambda z: np.abs(z).sum(), [0j, 3 - 4j], [0j, 0.6 - 0.8j]),
    row("complex abs squared", "-", lambda z: (np.abs(z) ** 2).sum(), [1 + 2j], [2 + 4j]),
    row("a complex number's abs squared", "-", lambda z: abs(z) ** 2, 1 + 2j, np.complex128(2 + 4j)),
    row("complex norm at 0", "K", lambda z: np.linalg.norm(z), [0j, 0j], [0j, 0j]),
    row("complex real and imag", "-", lambda z: (np.real(z) + 2.0 * np.imag(z)).sum(), [1 + 1j], [1 + 2j]),
    row("complex z conj z", "-", lambda z: np.real(z * np.conj(z)).sum(), [1 + 2j], [2 + 4j]),
    row("complex where past a log", "S", lambda z: np.real(np.where(np.abs(z) > 0, np.log(z), 0.0)).sum(), [0j, 2 + 0j], [0j, 0.5 + 0j]),
]
ROWS = [*KINKS, *STRUCTURE, *LIMITS, *TYPES]


def assert_gradients(case: Row, found: tuple[Any, ...]) -> None:
    """Compare to a unit in the last place or two: NaN, inf, dtype and shape are exact."""
    for grad, wanted, x in zip(found, case.grads, case.at, strict=True):
        assert np.shape(grad) == np.shape(x)
        assert np.asarray(grad).dtype == np.asarray(x).dtype
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


WAYS = [by_backward, by_grad, by_circuit, by_backward_circuit, by_forward_mode]


@pytest.mark.parametrize("case", ROWS, ids=str)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_gradient_at_an_awkward_point(case: Row, way: Callable[[Row], tuple[Any, ...]]) -> None:
    assert_gradients(case, way(case))
