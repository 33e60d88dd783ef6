"""The map from PyTorch's ATen ops to circuit ops: one entry per overload packet, a function of wires and arrays.

An entry takes the arguments of the ATen op under their names in ATen's schema. Tensors are wires of a builder, or plain
arrays where nothing of the circuit is in them; lists of tensors are lists of those. It returns one result, or a tuple
for an op of several results, with None for those that have no place in a circuit (workspaces, factors in LAPACK's
packed form). Shapes are ATen's; the importer casts the results to the dtypes that PyTorch gave them.

An op without an entry is the elementwise op of the table with the same name, if there is one (`find_entry`). Variants
that write in place or into `out=` need no entry: the importer writes the result of the plain op. PyTorch itself is not
imported here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from wiregrad.errors import NoRuleError
from wiregrad.ir import TABLE
from wiregrad.ops.functions import FUNCTIONS
from wiregrad.ops.gradient_flow import is_wire, shape_of
from wiregrad.ops.shape_records import encode_index

AtenEntry: TypeAlias = "Callable[..., Any]"
"""Builds the nodes of one ATen op."""


class _Functions:
    """The functions made of ops, as attributes."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        return FUNCTIONS[name].run


fn = _Functions()

OP_NAMES = {
    "_conj": "conjugate",
    "_conj_physical": "conjugate",
    "_neg_view": "negative",
    "bitwise_and": "logical_and",
    "bitwise_not": "logical_not",
    "bitwise_or": "logical_or",
    "bitwise_xor": "logical_xor",
    "conj_physical": "conjugate",
    "detach": "stop_gradient",
    "eq": "equal",
    "float_power": "power",
    "ge": "greater_equal",
    "gt": "greater",
    "le": "less_equal",
    "lgamma": "gammaln",
    "linalg_eigvals": "eigvals",
    "lt": "less",
    "mul": "multiply",
    "ne": "not_equal",
    "neg": "negative",
    "remainder": "mod",
}
"""ATen packets that are an op of another name, with the same arguments."""
FUNCTION_NAMES = {
    "angle": "angle",
    "bessel_i0e": "i0e",
    "bessel_i1e": "i1e",
    "bmm": "matmul",
    "clamp": "clip",
    "clamp_min": "clip",
    "diagonal": "diagonal",
    "dot": "matmul",
    "fmod": "fmod",
    "i0": "i0",
    "linalg_matrix_exp": "expm",
    "matmul": "matmul",
    "mm": "matmul",
    "mv": "matmul",
    "polygamma": "polygamma",
    "round": "round",
    "special_i1": "i1",
    "stack": "stack",
    "t": "transpose",
    "trace": "trace",
    "transpose": "swapaxes",
    "tril": "tril",
    "triu": "triu",
    "trunc": "fix",
    "vdot": "vdot",
    "where": "where",
}
"""ATen packets that are a function made of ops, with the same arguments in the same order."""
ENTRIES: dict[str, AtenEntry] = {}
"""Every entry by the name of the ATen packet."""
SETTLED: dict[str, tuple[str, ...]] = {}
"""The arguments of an op that must be plain arrays, by packet: indices and masks that decide which nodes there are."""
CONDITIONS: dict[str, tuple[str, ...]] = {}
"""The arguments of an op of which conditions must be plain arrays, and whole numbers may be wires, by packet."""
SHAPE_READERS = frozenset(
    ("zeros_like", "ones_like", "full_like", "empty_like", "new_zeros", "new_ones", "new_full", "new_empty", "zero")
)
"""Ops that read the shape and dtype of a tensor but none of its numbers."""
SAMPLERS = frozenset(
    """
    bernoulli binomial cauchy exponential geometric log_normal multinomial normal poisson
    rand_like randint_like randn_like random randperm uniform
    """.split()
)
"""Ops that draw numbers, through which no gradient flows: the numbers that PyTorch drew are constants."""
CHECKERS = frozenset(("_linalg_check_errors", "_assert_async", "_assert_tensor_metadata", "_assert_scalar"))
"""Ops that compute nothing."""


def aten(
    *names: str, settled: tuple[str, ...] = (), conditions: tuple[str, ...] = ()
) -> Callable[[AtenEntry], AtenEntry]:
    """Register the decorated function as the entry of ATen packets.

    `settled` arguments arrive as plain arrays, and so do conditions in the arguments called `conditions`.
    """

    def add_entry(entry: AtenEntry) -> AtenEntry:
        for name in names:
            ENTRIES[name] = entry
            if settled:
                SETTLED[name] = settled
            if conditions:
                CONDITIONS[name] = conditions
        return entry

    return add_entry


def find_entry(packet: str) -> AtenEntry | None:
    """Return the entry of an ATen packet: its own, or the elementwise op of that name; None if there is neither.

    >>> find_entry("tanh") is TABLE["tanh"], find_entry("mul") is TABLE["multiply"], find_entry("no_such_op")
    (True, True, None)
    """
    entry = ENTRIES.get(packet)
    if entry is not None:
        return entry
    if packet in FUNCTION_NAMES:
        return FUNCTIONS[FUNCTION_NAMES[packet]].run
    if packet in OP_NAMES:
        return TABLE[OP_NAMES[packet]]
    name = packet.removeprefix("special_")
    if name in TABLE and TABLE[name].by_element:
        return TABLE[name]
    return None


def refuse_setting(packet: str, setting: str) -> NoRuleError:
    """Return the error for a setting of an ATen op that a circuit does not have; the importer lists its text."""
    return NoRuleError(f"aten.{packet} with {setting}")


def _axes(dim: Any) -> Any:
    """Return ATen's `dim`, where None and an empty list mean all axes, as NumPy's `axis`."""
    if dim is None or (isinstance(dim, list | tuple) and not dim):
        return None
    return tuple(dim) if isinstance(dim, list | tuple) else dim


def _scale(x: Any, factor: Any) -> Any:
    """Return x times a number, without a node if it is 1."""
    return x if not is_wire(factor) and np.ndim(factor) == 0 and factor == 1 else x * factor


def _swap_axes(x: Any, a: int, b: int) -> Any:
    return fn.swapaxes(x, a, b)


def _cut_axis(rank: int, axis: int, item: Any) -> tuple[Any, ...]:
    """Return an index that applies an item along one axis."""
    return (*([slice(None)] * (axis % rank)), item)


def _same(x: Any, *_: Any, **__: Any) -> Any:
    return x


def _reduce_loss(loss: Any, reduction: int) -> Any:
    """Apply ATen's reduction: 0 keeps the elements, 1 is their mean, 2 their sum."""
    return (loss, fn.mean(loss), fn.sum(loss))[reduction] if reduction else loss


ENTRIES.update(
    {
        # Arithmetic.
        "add": lambda self, other, alpha=1: self + _scale(other, alpha),
        "sub": lambda self, other, alpha=1: self - _scale(other, alpha),
        "rsub": lambda self, other, alpha=1: other - _scale(self, alpha),
        "rsqrt": lambda self: TABLE["reciprocal"](TABLE["sqrt"](self)),
        "frac": lambda self: self - fn.fix(self),
        "sgn": lambda self: TABLE["sign"](self) if self.dtype.kind != "c" else TABLE["direction"](self),
        "addcmul": lambda self, a, b, *, value=1: self + _scale(a * b, value),
        "addcdiv": lambda self, a, b, *, value=1: self + _scale(a / b, value),
        "lerp": lambda self, end, weight: self + weight * (end - self),
        "xlogy": lambda self, other: fn.where(TABLE["equal"](self, 0.0), 0.0, self * TABLE["log"](other)),
        "nan_to_num": lambda self, nan=None, posinf=None, neginf=None: fn.nan_to_num(
            self, nan=nan or 0.0, posinf=posinf, neginf=neginf
        ),
        # Conditions.
        "masked_fill": lambda self, mask, value: fn.where(mask, value, self),
        "clamp_max": lambda self, max: fn.clip(self, None, max),
        # The same elements.
        **dict.fromkeys(("clone", "alias", "lift_fresh", "lift", "contiguous", "resolve_conj", "resolve_neg"), _same),
        "_to_copy": lambda self, **_: self,
        "copy": lambda self, src, non_blocking=False: fn.broadcast_to(src, shape_of(self)),
        "copy_to": lambda self, src: fn.broadcast_to(src, shape_of(self)),
        "fill": lambda self, value: fn.broadcast_to(value, shape_of(self)),
        # Complex numbers.
        "complex": lambda real, imag: real + TABLE["imaginary"](imag),
        "polar": lambda abs, angle: abs * TABLE["cos"](angle) + TABLE["imaginary"](abs * TABLE["sin"](angle)),
        "view_as_real": lambda self: fn.stack([TABLE["real"](self), TABLE["imag"](self)], -1),
        "view_as_complex": lambda self: fn.getitem(self, (..., 0)) + TABLE["imaginary"](fn.getitem(self, (..., 1))),
        # Activations.
        "celu": lambda self, alpha=1.0: fn.where(self > 0.0, self, alpha * TABLE["expm1"](self / alpha)),
        "threshold": lambda self, threshold, value: fn.where(self > threshold, self, value),
        "hardtanh": lambda self, min_val=-1.0, max_val=1.0: fn.clip(self, min_val, max_val),
        "hardsigmoid": lambda self: TABLE["relu6"](self + 3.0) / 6.0,
        "hardswish": lambda self: self * TABLE["relu6"](self + 3.0) / 6.0,
        "hardshrink": lambda self, lambd=0.5: fn.where(TABLE["absolute"](self) > lambd, self, 0.0),
        "mish": lambda self: self * TABLE["tanh"](TABLE["softplus"](self)),
        "_prelu_kernel": lambda self, weight: fn.where(self > 0.0, self, weight * self),
        "log_sigmoid_forward": lambda self: (fn.log_expit(self), None),
        "_softmax": lambda self, dim, half_to_float=False: fn.softmax(self, axis=dim),
        "_log_softmax": lambda self, dim, half_to_float=False: fn.log_softmax(self, axis=dim),
        # Reductions.
        "sum": lambda self, dim=None, keepdim=False, *, dtype=None: fn.sum(self, axis=_axes(dim), keepdims=keepdim),
        "mean": lambda self, dim=None, keepdim=False, *, dtype=None: fn.mean(self, axis=_axes(dim), keepdims=keepdim),
        "prod": lambda self, dim=None, keepdim=False, *, dtype=None: fn.prod(self, axis=_axes(dim), keepdims=keepdim),
        "amax": lambda self, dim=(), keepdim=False: fn.max(self, axis=_axes(dim), keepdims=keepdim),
        "amin": lambda self, dim=(), keepdim=False: fn.min(self, axis=_axes(dim), keepdims=keepdim),
        "logsumexp": lambda self, dim, keepdim=False: fn.logsumexp(self, axis=_axes(dim), keepdims=keepdim),
        "cumsum": lambda self, dim, *, dtype=None: fn.cumsum(self, axis=dim),
        "cumprod": lambda self, dim, *, dtype=None: fn.cumprod(self, axis=dim),
        "var": lambda self, dim=None, *, correction=None, keepdim=False: _variance(self, dim, correction, keepdim),
        "std": lambda self, dim=None, *, correction=None, keepdim=False: TABLE["sqrt"](
            _variance(self, dim, correction, keepdim)
        ),
        "var_mean": lambda self, dim=None, *, correction=None, keepdim=False: (
            _variance(self, dim, correction, keepdim),
            fn.mean(self, axis=_axes(dim), keepdims=keepdim),
        ),
        "std_mean": lambda self, dim=None, *, correction=None, keepdim=False: (
            TABLE["sqrt"](_variance(self, dim, correction, keepdim)),
            fn.mean(self, axis=_axes(dim), keepdims=keepdim),
        ),
        "linalg_vector_norm": lambda self, ord=2, dim=None, keepdim=False, *, dtype=None: fn.vector_norm(
            self, axis=_axes(dim), keepdims=keepdim, ord=ord
        ),
        "norm": lambda self, p=2, dim=None, keepdim=False, *, dtype=None: fn.vector_norm(
            self, axis=_axes(dim), keepdims=keepdim, ord=2 if p is None else p
        ),
        # Products.
        "addmm": lambda self, a, b, *, beta=1, alpha=1: _scale(self, beta) + _scale(fn.matmul(a, b), alpha),
        "addmv": lambda self, a, b, *, beta=1, alpha=1: _scale(self, beta) + _scale(fn.matmul(a, b), alpha),
        "baddbmm": lambda self, a, b, *, beta=1, alpha=1: _scale(self, beta) + _scale(fn.matmul(a, b), alpha),
        "addr": lambda self, a, b, *, beta=1, alpha=1: _scale(self, beta) + _scale(fn.outer(a, b), alpha),
        "linalg_cross": lambda self, other, *, dim=-1: fn.cross(self, other, axis=dim),
        # Matrices. The factors that PyTorch keeps for its own backward have no place in a circuit.
        "_linalg_det": lambda a: (fn.det(a), None, None),
        "_linalg_slogdet": lambda a: (*fn.slogdet(a), None, None),
        "linalg_inv_ex": lambda a, *, check_errors=False: (fn.inv(a), None),
        "cholesky": lambda self, upper=False: fn.cholesky(self, upper=upper),
        "linalg_cholesky_ex": lambda self, *, upper=False, check_errors=False: (fn.cholesky(self, upper=upper), None),
        "linalg_lstsq": lambda self, b, rcond=None, *, driver=None: (fn.lstsq(self, b)[0], None, None, None),
        # Shapes.
        **dict.fromkeys(("view", "_unsafe_view", "reshape"), lambda self, size: fn.reshape(self, tuple(size))),
        "_reshape_alias": lambda self, size, stride: fn.reshape(self, tuple(size)),
        "permute": lambda self, dims: fn.transpose(self, tuple(dims)),
        "unsqueeze": lambda self, dim: fn.expand_dims(self, dim % (len(shape_of(self)) + 1)),
        "select": lambda self, dim, index: fn.getitem(self, _cut_axis(len(shape_of(self)), dim, index)),
        "cat": lambda tensors, dim=0: fn.concatenate([x for x in tensors if shape_of(x) != (0,)], axis=dim),
        "flip": lambda self, dims: fn.flip(self, axis=tuple(dims)),
        "rot90": lambda self, k=1, dims=(0, 1): fn.rot90(self, k, tuple(dims)),
        "repeat": lambda self, repeats: fn.tile(self, tuple(repeats)),
        # Spectra.
        "_fft_c2c": lambda self, dim, normalization, forward: (fn.fftn if forward else fn.ifftn)(
            self, axes=tuple(dim), norm=_spectrum_norm(normalization, forward)
        ),
        "_fft_r2c": lambda self, dim, normalization, onesided: (fn.rfftn if onesided else fn.fftn)(
            self, axes=tuple(dim), norm=_spectrum_norm(normalization, True)
        ),
        "_fft_c2r": lambda self, dim, normalization, last_dim_size: fn.irfftn(
            self,
            s=(*(shape_of(self)[k] for k in dim[:-1]), last_dim_size),
            axes=tuple(dim),
            norm=_spectrum_norm(normalization, False),
        ),
        # Losses.
        "mse_loss": lambda self, target, reduction=1: _reduce_loss(TABLE["square"](self - target), reduction),
    }
)


def _spectrum_norm(normalization: int, forward: bool) -> str:
    """Return NumPy's name of what ATen divides a transform by: 0 nothing, 1 the root of the count, 2 the count."""
    names = ("backward", "ortho", "forward") if forward else ("forward", "ortho", "backward")
    return names[normalization]


def _variance(x: Any, dim: Any, correction: Any, keepdim: bool) -> Any:
    return fn.var(x, axis=_axes(dim), ddof=1 if correction is None else correction, keepdims=keepdim)


@aten("div", "true_divide")
def _divide(self: Any, other: Any, *, rounding_mode: str | None = None) -> Any:
    if rounding_mode == "floor":
        return TABLE["floor_divide"](self, other)
    quotient = self / other
    return fn.fix(quotient) if rounding_mode == "trunc" else quotient


@aten("logit")
def _logit(self: Any, eps: float | None = None) -> Any:
    return fn.logit(self if eps is None else fn.clip(self, eps, 1.0 - eps))


@aten("any")
def _any(self: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return TABLE["any"](self, axes=_axes_from_end(self, dim), keepdims=keepdim)


@aten("all")
def _all(self: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return TABLE["all"](self, axes=_axes_from_end(self, dim), keepdims=keepdim)


def _axes_from_end(x: Any, dim: Any) -> tuple[int, ...]:
    rank = len(shape_of(x))
    axes = range(rank) if dim is None else (dim if isinstance(dim, list | tuple) else (dim,))
    return tuple(sorted(axis % rank - rank for axis in axes))


# Activations.


@aten("gelu")
def _gelu(self: Any, *, approximate: str = "none") -> Any:
    if approximate == "none":
        return TABLE["gelu"](self)
    inner = math.sqrt(2.0 / math.pi) * (self + 0.044715 * self * self * self)
    return 0.5 * self * (1.0 + TABLE["tanh"](inner))


@aten("softplus")
def _softplus(self: Any, beta: float = 1, threshold: float = 20) -> Any:
    scaled = _scale(self, beta)
    return fn.where(scaled > threshold, self, _scale(TABLE["softplus"](scaled), 1.0 / beta))


@aten("elu")
def _elu(self: Any, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Any:
    bent = _scale(TABLE["expm1"](_scale(self, input_scale)), alpha)
    return _scale(fn.where(self > 0.0, self, bent), scale)


@aten("softshrink")
def _softshrink(self: Any, lambd: float = 0.5) -> Any:
    return fn.where(self > lambd, self - lambd, fn.where(self < -lambd, self + lambd, 0.0))


@aten("glu")
def _glu(self: Any, dim: int = -1) -> Any:
    first, second = fn.split(self, 2, axis=dim)
    return first * TABLE["sigmoid"](second)


@aten("_safe_softmax")
def _safe_softmax(self: Any, dim: int, dtype: Any = None) -> Any:
    """Softmax of rows; a row that is masked altogether is 0."""
    blocked = TABLE["all"](TABLE["equal"](self, -np.inf), axes=_axes_from_end(self, dim), keepdims=True)
    # The softmax of such a row is NaN, and so would be its gradient.
    scores = fn.where(blocked, 0.0, self)
    return fn.where(blocked, 0.0, fn.softmax(scores, axis=dim))


@aten("_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_flash_attention")
def _attend(
    query: Any,
    key: Any,
    value: Any,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    attn_mask: Any = None,
    scale: float | None = None,
) -> Any:
    if dropout_p:
        raise refuse_setting("_scaled_dot_product_flash_attention", f"dropout_p={dropout_p}")
    scores = fn.matmul(query, _swap_axes(key, -1, -2)) * (shape_of(query)[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        scores = fn.where(np.tri(*shape_of(scores)[-2:], dtype=bool), scores, -np.inf)
    if attn_mask is not None:
        is_condition = attn_mask.dtype.kind == "b"
        scores = fn.where(attn_mask, scores, -np.inf) if is_condition else scores + attn_mask
    return (fn.matmul(fn.softmax(scores, axis=-1), value), *[None] * 8)


@aten("_scaled_dot_product_efficient_attention")
def _attend_efficiently(
    query: Any, key: Any, value: Any, attn_bias: Any, compute_log_sumexp: bool, *settings: Any, **named: Any
) -> Any:
    return _attend(query, key, value, *settings, attn_mask=attn_bias, **named)


# Reductions that also give indices, and sorting.


@aten("max")
def _max(self: Any, dim: Any = None, keepdim: bool = False) -> Any:
    if is_wire(dim) or isinstance(dim, np.ndarray):
        return TABLE["maximum"](self, dim)
    if dim is None:
        return fn.max(self)
    return fn.max(self, axis=dim, keepdims=keepdim), _arg("argmax", self, dim, keepdim)


@aten("min")
def _min(self: Any, dim: Any = None, keepdim: bool = False) -> Any:
    if is_wire(dim) or isinstance(dim, np.ndarray):
        return TABLE["minimum"](self, dim)
    if dim is None:
        return fn.min(self)
    return fn.min(self, axis=dim, keepdims=keepdim), _arg("argmin", self, dim, keepdim)


def _arg(op: str, x: Any, dim: int | None, keepdim: bool) -> Any:
    """Return the index of the largest or smallest element along an axis, or of all elements."""
    if dim is None:
        x, dim = fn.ravel(x), -1
    indices = TABLE[op](x, axis=dim % len(shape_of(x)) - len(shape_of(x)))
    return fn.expand_dims(indices, dim) if keepdim else indices


@aten("argmax")
def _argmax(self: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    return _arg("argmax", self, dim, keepdim)


@aten("argmin")
def _argmin(self: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    return _arg("argmin", self, dim, keepdim)


@aten("sort")
def _sort(self: Any, dim: int = -1, descending: bool = False, *, stable: bool | None = None) -> Any:
    key = TABLE["negative"](self) if descending else self
    rank = len(shape_of(self))
    order = TABLE["argsort"](key, axis=dim % rank - rank)
    return fn.take_along_axis(self, order, dim), order


@aten("topk")
def _topk(self: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    values, order = _sort(self, dim, largest)
    first = _cut_axis(len(shape_of(self)), dim, slice(0, k))
    return fn.getitem(values, first), fn.getitem(order, first)


@aten("kthvalue")
def _kthvalue(self: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    values, order = _sort(self, dim)
    item = slice(k - 1, k) if keepdim else k - 1
    index = _cut_axis(len(shape_of(self)), dim, item)
    return fn.getitem(values, index), fn.getitem(order, index)


@aten("median")
def _median(self: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    if dim is None:
        row = fn.ravel(self)
        return _kthvalue(row, (shape_of(row)[0] + 1) // 2)[0]
    return _kthvalue(self, (shape_of(self)[dim] + 1) // 2, dim, keepdim)


@aten("cummax")
def _cummax(self: Any, dim: int) -> Any:
    return fn.maximum_accumulate(self, axis=dim), None


@aten("cummin")
def _cummin(self: Any, dim: int) -> Any:
    return fn.minimum_accumulate(self, axis=dim), None


@aten("logcumsumexp")
def _logcumsumexp(self: Any, dim: int) -> Any:
    """The logarithm of running sums; each prefix has its own maximum, so that nothing underflows."""
    rows = fn.moveaxis(self, dim, -1)
    count = shape_of(rows)[-1]
    prefixes = fn.where(np.tri(count, dtype=bool), fn.expand_dims(rows, -2), -np.inf)
    return fn.moveaxis(fn.logsumexp(prefixes, axis=-1), -1, dim)


# Products and matrices.


@aten("addbmm")
def _addbmm(self: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    return _scale(self, beta) + _scale(fn.sum(fn.matmul(a, b), axis=0), alpha)


@aten("_trilinear")
def _trilinear(
    i1: Any, i2: Any, i3: Any, expand1: Any, expand2: Any, expand3: Any, sumdim: Any, unroll_dim: int = 1
) -> Any:
    a, b, c = (
        fn.expand_dims(x, tuple(axes)) if axes else x for x, axes in ((i1, expand1), (i2, expand2), (i3, expand3))
    )
    return fn.sum(a * b * c, axis=tuple(sumdim))


@aten("_cdist_forward")
def _cdist(x1: Any, x2: Any, p: float, compute_mode: int | None = None) -> Any:
    return fn.vector_norm(fn.expand_dims(x1, -2) - fn.expand_dims(x2, -3), axis=-1, ord=p)


@aten("_linalg_solve_ex")
def _solve(a: Any, b: Any, *, left: bool = True, check_errors: bool = False) -> Any:
    if left:
        return fn.solve(a, b), None, None, None
    return _swap_axes(fn.solve(_swap_axes(a, -1, -2), _swap_axes(b, -1, -2)), -1, -2), None, None, None


@aten("linalg_solve_triangular")
def _solve_triangular(self: Any, b: Any, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Any:
    a, b = (self, b) if left else (_swap_axes(self, -1, -2), _swap_axes(b, -1, -2))
    y = fn.solve_triangular(a, b, lower=not upper if left else upper, unit_diagonal=unitriangular)
    return y if left else _swap_axes(y, -1, -2)


@aten("triangular_solve")
def _triangular_solve(
    self: Any,
    a: Any,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
) -> Any:
    a = _swap_axes(a, -1, -2) if transpose else a
    return _solve_triangular(a, self, upper=upper != transpose, unitriangular=unitriangular), None


@aten("cholesky_solve")
def _cholesky_solve(self: Any, input2: Any, upper: bool = False) -> Any:
    lower = _swap_axes(input2, -1, -2) if upper else input2
    half = fn.solve_triangular(lower, self, lower=True)
    return fn.solve_triangular(_swap_axes(lower, -1, -2), half, lower=False)


@aten("cholesky_inverse")
def _cholesky_inverse(self: Any, upper: bool = False) -> Any:
    return _cholesky_solve(np.eye(shape_of(self)[-1], dtype=self.dtype), self, upper)


@aten("linalg_qr")
def _qr(a: Any, mode: str = "reduced") -> Any:
    if mode == "r":
        return None, fn.qr(a, mode="r")
    return tuple(fn.qr(a, mode=mode))


@aten("_linalg_svd")
def _svd(a: Any, full_matrices: bool = False, compute_uv: bool = True, *, driver: Any = None) -> Any:
    if not compute_uv:
        return None, fn.svdvals(a), None
    return tuple(fn.svd(a, full_matrices=full_matrices))


@aten("_linalg_eigh")
def _eigh(a: Any, uplo: str = "L", compute_v: bool = True) -> Any:
    return tuple(fn.eigh(a, uplo)) if compute_v else (fn.eigvalsh(a, uplo), None)


@aten("linalg_eig")
def _eig(self: Any) -> Any:
    packed = TABLE["eig"](self)
    return fn.getitem(packed, (..., -1, slice(None))), fn.getitem(packed, (..., slice(0, -1), slice(None)))


@aten("linalg_pinv", settled=("atol", "rtol"))
def _pinv(self: Any, *, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Any:
    if atol is not None and np.any(atol):
        raise refuse_setting("linalg_pinv", "atol")
    return fn.pinv(self, rcond=None if rtol is None else float(np.max(rtol)), hermitian=hermitian)


# Shapes and views.


@aten("squeeze")
def _squeeze(self: Any, dim: Any = None) -> Any:
    shape = shape_of(self)
    axes = range(len(shape)) if dim is None else (dim if isinstance(dim, list | tuple) else (dim,))
    long = {axis % len(shape) for axis in axes if shape[axis] == 1} if shape else set()
    return fn.reshape(self, tuple(n for axis, n in enumerate(shape) if axis not in long))


@aten("expand")
def _expand(self: Any, size: Sequence[int], *, implicit: bool = False) -> Any:
    shape = shape_of(self)
    missing = len(size) - len(shape)
    return fn.broadcast_to(self, tuple(shape[k - missing] if n == -1 else n for k, n in enumerate(size)))


@aten("slice")
def _slice(self: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Any:
    return fn.getitem(self, _cut_axis(len(shape_of(self)), dim, slice(start, end, step)))


@aten("split", "unsafe_split")
def _split(self: Any, split_size: int, dim: int = 0) -> Any:
    length = shape_of(self)[dim]
    return fn.split(self, list(range(split_size, length, split_size)), axis=dim) if length else [self]


@aten("split_with_sizes", "unsafe_split_with_sizes")
def _split_with_sizes(self: Any, split_sizes: Sequence[int], dim: int = 0) -> Any:
    return fn.split(self, np.cumsum(split_sizes)[:-1].tolist(), axis=dim)


@aten("unbind")
def _unbind(self: Any, dim: int = 0) -> list[Any]:
    return list(fn.unstack(self, axis=dim))


@aten("roll")
def _roll(self: Any, shifts: Sequence[int], dims: Sequence[int] = ()) -> Any:
    return fn.roll(self, tuple(shifts) if dims else shifts[0], axis=tuple(dims) if dims else None)


@aten("unfold")
def _unfold(self: Any, dimension: int, size: int, step: int) -> Any:
    if not shape_of(self):
        return fn.reshape(self, (1,))
    windows = fn.sliding_window_view(self, size, axis=dimension)
    return fn.getitem(windows, _cut_axis(len(shape_of(self)), dimension, slice(None, None, step)))


@aten("diag_embed")
def _diag_embed(self: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    *_, count = shape_of(self)
    size = count + abs(offset)
    rows = np.arange(count) + max(-offset, 0)
    zeros = np.zeros((*shape_of(self)[:-1], size, size), self.dtype)
    filled = fn.put(zeros, (..., rows, rows + offset), self)
    return fn.moveaxis(filled, (-2, -1), (dim1, dim2))


@aten("constant_pad_nd")
def _pad_constant(self: Any, pad: Sequence[int], value: Any = 0) -> Any:
    rank = len(shape_of(self))
    pairs = [(0, 0)] * (rank - len(pad) // 2) + list(zip(pad[::2], pad[1::2], strict=True))[::-1]
    inner = fn.getitem(
        self, tuple(slice(max(-a, 0), n - max(-b, 0)) for n, (a, b) in zip(shape_of(self), pairs, strict=True))
    )
    return fn.pad(inner, [(max(a, 0), max(b, 0)) for a, b in pairs], constant_values=value)


@aten("reflection_pad1d", "reflection_pad2d", "reflection_pad3d")
def _pad_reflection(self: Any, padding: Sequence[int]) -> Any:
    return _pad_mode(self, padding, "reflect")


@aten("replication_pad1d", "replication_pad2d", "replication_pad3d")
def _pad_replication(self: Any, padding: Sequence[int]) -> Any:
    return _pad_mode(self, padding, "edge")


def _pad_mode(x: Any, padding: Sequence[int], mode: str) -> Any:
    """Pad the last axes by elements of the array itself; an element is picked as often as it is repeated."""
    pairs = list(zip(padding[::2], padding[1::2], strict=True))[::-1]
    for axis, (before, after) in zip(range(-len(pairs), 0), pairs, strict=True):
        order = np.pad(np.arange(shape_of(x)[axis]), (before, after), mode=mode)  # type: ignore[call-overload]
        x = fn.take(x, order, axis=axis)
    return x


@aten("pixel_shuffle")
def _pixel_shuffle(self: Any, upscale_factor: int) -> Any:
    *batch, channels, height, width = shape_of(self)
    r = upscale_factor
    blocks = fn.reshape(self, (-1, channels // r**2, r, r, height, width))
    return fn.reshape(fn.transpose(blocks, (0, 1, 4, 2, 5, 3)), (*batch, channels // r**2, height * r, width * r))


@aten("pixel_unshuffle")
def _pixel_unshuffle(self: Any, downscale_factor: int) -> Any:
    *batch, channels, height, width = shape_of(self)
    r = downscale_factor
    blocks = fn.reshape(self, (-1, channels, height // r, r, width // r, r))
    return fn.reshape(fn.transpose(blocks, (0, 1, 3, 5, 2, 4)), (*batch, channels * r**2, height // r, width // r))


# Indices.


def _as_index(indices: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(slice(None) if index is None else index for index in indices)


def _index_along(index: Any, dim: int) -> tuple[Any, ...]:
    """Return the index that reads or writes one element per element of `index`, which counts along one axis."""
    places = list(np.indices(index.shape, sparse=True))
    places[dim] = index
    return tuple(places)


def _cut_to(x: Any, shape: tuple[int, ...], dim: int | None = None) -> Any:
    """Return the first elements of x along every axis but one."""
    if not is_wire(x) and np.ndim(x) == 0:
        return x
    rank = len(shape)
    own = shape_of(x)
    index = tuple(slice(None) if dim is not None and k == dim % rank else slice(0, n) for k, n in enumerate(shape))
    return (
        x if all(item == slice(None) or item.stop == own[k] for k, item in enumerate(index)) else fn.getitem(x, index)
    )


@aten("index", "_unsafe_index", conditions=("indices",))
def _index(self: Any, indices: Sequence[Any]) -> Any:
    if any(is_wire(index) for index in indices):
        return _index_by_wires(self, indices)
    return fn.getitem(self, _as_index(indices))


def _index_by_wires(x: Any, indices: Sequence[Any]) -> Any:
    """Index by whole numbers that the circuit computes: one index into the joined axes, which come first."""
    shape = shape_of(x)
    axes = [axis for axis, index in enumerate(indices) if index is not None]
    others = [axis for axis in range(len(shape)) if axis not in axes]
    flat: Any = np.int64(0)
    for axis in axes:
        index, length = indices[axis], np.int64(shape[axis])
        flat = flat * length + fn.where(TABLE["less"](index, np.int64(0)), index + length, index)
    rows = fn.reshape(fn.transpose(x, (*axes, *others)), (-1, *(shape[axis] for axis in others)))
    picked = fn.take(rows, flat, axis=0)
    rank = len(shape_of(flat))
    # NumPy and PyTorch put the axes of the index where the indexed axes were, if these are neighbours.
    first = axes[0] if axes[-1] - axes[0] == len(axes) - 1 else 0
    return fn.moveaxis(picked, tuple(range(rank)), tuple(range(first, first + rank)))


@aten("index_put", "_index_put_impl", "_unsafe_index_put", settled=("indices",))
def _index_put(self: Any, indices: Sequence[Any], values: Any, accumulate: bool = False, unsafe: bool = False) -> Any:
    return (fn.scatter_add if accumulate else fn.put)(self, _as_index(indices), values)


@aten("index_select")
def _index_select(self: Any, dim: int, index: Any) -> Any:
    return fn.take(self, index if is_wire(index) else np.atleast_1d(index), axis=dim)


@aten("take")
def _take(self: Any, index: Any) -> Any:
    return fn.take(fn.ravel(self), index)


@aten("gather")
def _gather(self: Any, dim: int, index: Any, *, sparse_grad: bool = False) -> Any:
    return fn.take_along_axis(_cut_to(self, shape_of(index), dim), index, dim)


@aten("scatter", settled=("index",))
def _scatter(self: Any, dim: int, index: Any, src: Any = None, value: Any = None, *, reduce: str | None = None) -> Any:
    values = _cut_to(value if src is None else src, index.shape)
    if reduce is not None:
        return _scatter_reduce(self, dim, index, values, {"add": "sum", "multiply": "prod"}[reduce])
    return fn.put(self, _index_along(index, dim), values)


@aten("scatter_add", settled=("index",))
def _scatter_add(self: Any, dim: int, index: Any, src: Any) -> Any:
    return fn.scatter_add(self, _index_along(index, dim), _cut_to(src, index.shape))


@aten("scatter_reduce", settled=("index",))
def _scatter_reduce(self: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True) -> Any:
    places = np.broadcast_arrays(*_index_along(index, dim))
    count = np.zeros(shape_of(self), int)
    np.add.at(count, tuple(places), 1)
    source = _cut_to(src, index.shape)
    if not include_self:
        start = {"prod": 1.0, "amax": -np.inf, "amin": np.inf}.get(reduce, 0.0)
        self = fn.where(count > 0, start, self)
    if reduce in ("sum", "mean"):
        total = fn.scatter_add(self, tuple(places), source)
        return total if reduce == "sum" else total / np.maximum(count + include_self, 1)
    return _fold_at(TABLE[{"prod": "multiply", "amax": "maximum", "amin": "minimum"}[reduce]], self, places, source)


@aten("index_reduce", settled=("index",))
def _index_reduce(self: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True) -> Any:
    shape = shape_of(source)
    along = np.reshape(index, [-1 if k == dim % len(shape) else 1 for k in range(len(shape))])
    return _scatter_reduce(self, dim, np.broadcast_to(along, shape), source, reduce, include_self=include_self)


def _fold_at(op: Any, x: Any, places: Sequence[Any], source: Any) -> Any:
    """Combine elements into x by an op; elements with the same place come one after the other."""
    flat = np.ravel_multi_index(tuple(places), shape_of(x)).ravel()
    if not is_wire(source) and np.ndim(source) == 0:
        source = np.full(flat.shape, source)
    row, elements = fn.ravel(x), fn.ravel(source)
    order = np.argsort(flat, kind="stable")
    ranks = np.empty(flat.size, int)
    starts = np.searchsorted(flat[order], flat[order])
    ranks[order] = np.arange(flat.size) - starts
    for rank in range(int(ranks.max(initial=-1)) + 1):
        chosen = np.flatnonzero(ranks == rank)
        row = fn.put(row, flat[chosen], op(fn.take(row, flat[chosen]), fn.take(elements, chosen)))
    return fn.reshape(row, shape_of(x))


@aten("index_add", settled=("index",))
def _index_add(self: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Any:
    return fn.scatter_add(self, _cut_axis(len(shape_of(self)), dim, np.atleast_1d(index)), _scale(source, alpha))


@aten("index_copy", settled=("index",))
def _index_copy(self: Any, dim: int, index: Any, source: Any) -> Any:
    return fn.put(self, _cut_axis(len(shape_of(self)), dim, np.atleast_1d(index)), source)


@aten("index_fill", settled=("index",))
def _index_fill(self: Any, dim: int, index: Any, value: Any) -> Any:
    return fn.put(self, _cut_axis(len(shape_of(self)), dim, np.atleast_1d(index)), value)


@aten("select_scatter")
def _select_scatter(self: Any, src: Any, dim: int, index: int) -> Any:
    return fn.put(self, _cut_axis(len(shape_of(self)), dim, index), src)


@aten("slice_scatter")
def _slice_scatter(
    self: Any, src: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Any:
    return fn.put(self, _cut_axis(len(shape_of(self)), dim, slice(start, end, step)), src)


@aten("masked_select", settled=("mask",))
def _masked_select(self: Any, mask: Any) -> Any:
    shape = np.broadcast_shapes(shape_of(self), mask.shape)
    return fn.getitem(fn.broadcast_to(self, shape), np.broadcast_to(mask, shape))


@aten("masked_scatter", settled=("mask",))
def _masked_scatter(self: Any, mask: Any, source: Any) -> Any:
    chosen = np.broadcast_to(mask, shape_of(self))
    return fn.put(self, chosen, fn.getitem(fn.ravel(source), slice(0, int(chosen.sum()))))


@aten("embedding", settled=("indices",))
def _embedding(
    weight: Any, indices: Any, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Any:
    if scale_grad_by_freq:
        raise refuse_setting("embedding", "scale_grad_by_freq=True")
    rows = fn.take(weight, indices, axis=0)
    padding = indices == padding_idx
    return fn.where(padding[..., None], TABLE["stop_gradient"](rows), rows) if padding.any() else rows


@aten("_embedding_bag", "_embedding_bag_forward_only", settled=("indices", "offsets"))
def _embedding_bag(
    weight: Any,
    indices: Any,
    offsets: Any,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> Any:
    """Sum (mode 0), mean (1) or maximum (2) of the rows of each bag; bags begin at offsets."""
    if scale_grad_by_freq:
        raise refuse_setting("_embedding_bag", "scale_grad_by_freq=True")
    starts = offsets[:-1] if include_last_offset else offsets
    bags = np.searchsorted(starts, np.arange(indices.size), side="right") - 1
    kept = indices != padding_idx
    indices, bags = indices[kept], bags[kept]
    rows = fn.take(weight, indices, axis=0)
    if per_sample_weights is not None:
        rows = rows * fn.expand_dims(fn.getitem(per_sample_weights, kept), -1)
    empty = np.zeros((starts.size, shape_of(weight)[1]), weight.dtype)
    if mode == 2:
        places = np.broadcast_arrays(bags[:, None], np.arange(shape_of(weight)[1]))
        filled = _fold_at(TABLE["maximum"], np.full_like(empty, -np.inf), places, rows)
        return fn.where(np.bincount(bags, minlength=starts.size)[:, None] > 0, filled, 0.0), None, None, None
    total = fn.scatter_add(empty, bags, rows)
    count = np.maximum(np.bincount(bags, minlength=starts.size), 1)[:, None]
    return total / count if mode == 1 else total, None, None, None


# Windows: convolution and pooling.


@aten("convolution", "_convolution", "convolution_overrideable")
def _convolution(
    input: Any,
    weight: Any,
    bias: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    *_: Any,
) -> Any:
    rank = len(shape_of(weight)) - 2
    stride = _expand_setting(stride or 1, rank)
    padding = _expand_setting(padding or 0, rank)
    dilation = _expand_setting(dilation or 1, rank)
    output_padding = _expand_setting(output_padding or 0, rank)
    if rank == 3:
        return _convolve_volumes(input, weight, bias, stride, padding, dilation, transposed, groups)
    if transposed:
        convolve = (fn.conv_transpose1d, fn.conv_transpose2d)[rank - 1]
        return convolve(
            input, weight, bias, tuple(stride), tuple(padding), tuple(output_padding), groups, tuple(dilation)
        )
    convolve = (fn.conv1d, fn.conv2d)[rank - 1]
    return convolve(input, weight, bias, tuple(stride), tuple(padding), tuple(dilation), groups)


def _convolve_volumes(
    x: Any,
    weight: Any,
    bias: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    groups: int,
) -> Any:
    """Convolve volumes: one convolution of images per layer of the kernel."""
    if transposed:
        raise refuse_setting("convolution", "transposed=True on volumes")
    x = fn.pad(x, [(0, 0), (0, 0), (padding[0], padding[0]), (0, 0), (0, 0)])
    batch, channels, depth, height, width = shape_of(x)
    layers = shape_of(weight)[2]
    count = (depth - dilation[0] * (layers - 1) - 1) // stride[0] + 1
    total = None
    for layer in range(layers):
        first = layer * dilation[0]
        slab = fn.getitem(x, (slice(None), slice(None), slice(first, first + (count - 1) * stride[0] + 1, stride[0])))
        images = fn.reshape(fn.swapaxes(slab, 1, 2), (batch * count, channels, height, width))
        kernel = fn.getitem(weight, (slice(None), slice(None), layer))
        y = fn.conv2d(images, kernel, None, tuple(stride[1:]), tuple(padding[1:]), tuple(dilation[1:]), groups)
        total = y if total is None else total + y
    out = fn.swapaxes(fn.reshape(total, (batch, count, *shape_of(total)[1:])), 1, 2)
    return out if bias is None else out + fn.reshape(bias, (-1, 1, 1, 1))


def _expand_setting(setting: Any, rank: int) -> list[int]:
    """Return a setting of windows as one number per axis; ATen writes one number for all axes as a list of one."""
    values = list(setting) if isinstance(setting, list | tuple) else [setting]
    return values * rank if len(values) == 1 else values


class _Windows:
    """How windows lie on the last axes of an array: their size, step and dilation, and the border around the array."""

    def __init__(
        self, lengths: Sequence[int], size: Any, stride: Any, padding: Any, dilation: Any = 1, ceil_mode: bool = False
    ) -> None:
        rank = len(lengths)
        self.size = _expand_setting(size, rank)
        self.stride = _expand_setting(stride, rank) if stride else self.size
        self.padding = _expand_setting(padding, rank)
        self.dilation = _expand_setting(dilation, rank)
        self.lengths = list(lengths)
        self.extra = [self._find_extra(k) if ceil_mode else 0 for k in range(rank)]

    def _find_extra(self, axis: int) -> int:
        """Return how far the last window reaches over the end, if a window that begins inside is kept."""
        pad = self.padding[axis]
        span = self.dilation[axis] * (self.size[axis] - 1) + 1
        room = self.lengths[axis] + 2 * pad - span
        count = -(-room // self.stride[axis]) + 1
        if (count - 1) * self.stride[axis] >= self.lengths[axis] + pad:
            count -= 1
        return max((count - 1) * self.stride[axis] + span - self.lengths[axis] - 2 * pad, 0)

    def cut(self, x: Any, border: float) -> Any:
        """Return the windows of an array, with their elements in the last axes."""
        rank = len(self.size)
        widths = [(0, 0)] * (len(shape_of(x)) - rank)
        widths += [(pad, pad + extra) for pad, extra in zip(self.padding, self.extra, strict=True)]
        padded = fn.pad(x, widths, constant_values=border) if any(map(any, widths)) else x
        spans = tuple(d * (k - 1) + 1 for k, d in zip(self.size, self.dilation, strict=True))
        windows = fn.sliding_window_view(padded, spans, axis=tuple(range(-rank, 0)))
        steps = [slice(None, None, s) for s in (*self.stride, *self.dilation)]
        return fn.getitem(windows, (..., *steps))

    def count(self, with_border: bool) -> Any:
        """Return how many elements of each window count for its mean: those of the array, and of its border."""
        ones = np.ones(self.lengths)
        widths = [(pad, pad) for pad in self.padding]
        inner = np.pad(ones, widths, constant_values=1.0 if with_border else 0.0)
        padded = np.pad(inner, [(0, extra) for extra in self.extra])
        view: Any = np.lib.stride_tricks.sliding_window_view(padded, self.size)
        return view[tuple(slice(None, None, s) for s in self.stride)].sum(axis=tuple(range(-len(self.size), 0)))


@aten("max_pool1d_with_indices", "max_pool2d_with_indices", "max_pool3d_with_indices")
def _max_pool(
    self: Any, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> Any:
    rank = len(kernel_size) if len(kernel_size) > 1 else 2
    windows = _Windows(shape_of(self)[-rank:], kernel_size, stride, padding, dilation, ceil_mode)
    return fn.max(windows.cut(self, -np.inf), axis=tuple(range(-rank, 0))), None


@aten("avg_pool1d", "avg_pool2d", "avg_pool3d")
def _avg_pool(
    self: Any,
    kernel_size: Any,
    stride: Any = (),
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    rank = len(kernel_size)
    windows = _Windows(shape_of(self)[-rank:], kernel_size, stride, padding, 1, ceil_mode)
    total = fn.sum(windows.cut(self, 0.0), axis=tuple(range(-rank, 0)))
    count = windows.count(count_include_pad) if divisor_override is None else np.float64(divisor_override)
    return total / count.astype(self.dtype)


@aten("_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_avg_pool2d")
def _adaptive_avg_pool(self: Any, output_size: Sequence[int]) -> Any:
    for axis, count in zip(range(-len(output_size), 0), output_size, strict=True):
        share = _average_matrix(shape_of(self)[axis], count).astype(self.dtype)
        self = fn.moveaxis(fn.matmul(fn.moveaxis(self, axis, -1), share), -1, axis)
    return self


def _average_matrix(length: int, count: int) -> Any:
    """Return the matrix that averages an axis over windows which cover it as evenly as whole numbers allow."""
    matrix = np.zeros((length, count))
    for k in range(count):
        first, last = k * length // count, -(-(k + 1) * length // count)
        matrix[first:last, k] = 1.0 / (last - first)
    return matrix


@aten("adaptive_max_pool2d", "adaptive_max_pool3d")
def _adaptive_max_pool(self: Any, output_size: Sequence[int]) -> Any:
    for axis, count in zip(range(-len(output_size), 0), output_size, strict=True):
        length = shape_of(self)[axis]
        bounds = [(k * length // count, -(-(k + 1) * length // count)) for k in range(count)]
        rank = len(shape_of(self))
        parts = [fn.max(fn.getitem(self, _cut_axis(rank, axis, slice(a, b))), axis=axis) for a, b in bounds]
        self = fn.stack(parts, axis=axis)
    return self, None


# Normalization.


def _normalize(x: Any, axes: Any, eps: float) -> Any:
    centred = x - fn.mean(x, axis=axes, keepdims=True)
    return centred / TABLE["sqrt"](fn.mean(TABLE["square"](centred), axis=axes, keepdims=True) + eps)


def _along_channels(parameter: Any, rank: int) -> Any:
    return fn.reshape(parameter, (-1,) + (1,) * (rank - 2))


@aten("native_batch_norm", "_native_batch_norm_legit", "cudnn_batch_norm")
def _batch_norm(input: Any, weight: Any, bias: Any, *statistics: Any, **named: Any) -> Any:
    if len(statistics) + len(named) == 5:
        mean, variance = statistics[:2]
        statistics = statistics[2:]
    else:
        mean = variance = None
    training, _, eps = statistics
    rank = len(shape_of(input))
    if training or mean is None:
        y = _normalize(input, (0, *range(2, rank)), eps)
    else:
        root = TABLE["sqrt"](variance + eps) if is_wire(variance) else np.sqrt(variance + eps)
        y = (input - _along_channels(mean, rank)) / _along_channels(root, rank)
    y = y if weight is None else y * _along_channels(weight, rank)
    return (y if bias is None else y + _along_channels(bias, rank)), None, None, None


@aten("_batch_norm_with_update")
def _batch_norm_in_training(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, momentum: float, eps: float
) -> Any:
    return _batch_norm(input, weight, bias, running_mean, running_var, True, momentum, eps)


@aten("_native_batch_norm_legit_no_training", "_batch_norm_no_update")
def _batch_norm_in_evaluation(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, momentum: float, eps: float
) -> Any:
    return _batch_norm(input, weight, bias, running_mean, running_var, False, momentum, eps)


@aten("native_layer_norm")
def _layer_norm(input: Any, normalized_shape: Sequence[int], weight: Any, bias: Any, eps: float) -> Any:
    return fn.layer_norm(input, tuple(normalized_shape), weight, bias, eps), None, None


@aten("_fused_rms_norm")
def _rms_norm(input: Any, normalized_shape: Sequence[int], weight: Any, eps: float | None) -> Any:
    axes = tuple(range(-len(normalized_shape), 0))
    epsilon = float(np.finfo(input.dtype).eps) if eps is None else eps
    y = input / TABLE["sqrt"](fn.mean(TABLE["square"](input), axis=axes, keepdims=True) + epsilon)
    return y if weight is None else y * weight, None


@aten("native_group_norm")
def _group_norm(
    input: Any,
    weight: Any,
    bias: Any,
    n: int,
    c: int,
    hxw: int,
    group: int,
    eps: float,
) -> Any:
    shape = shape_of(input)
    y = fn.reshape(_normalize(fn.reshape(input, (n, group, -1)), -1, eps), shape)
    y = y if weight is None else y * _along_channels(weight, len(shape))
    return (y if bias is None else y + _along_channels(bias, len(shape))), None, None


# Losses.


@aten("nll_loss_forward", "nll_loss2d_forward", settled=("target",))
def _nll_loss(self: Any, target: Any, weight: Any, reduction: int, ignore_index: int) -> Any:
    axis = 1 if len(shape_of(self)) > 1 else 0
    kept = target != ignore_index
    classes = np.where(kept, target, 0)
    picked = fn.squeeze(fn.take_along_axis(self, np.expand_dims(classes, axis), axis), axis)
    weights = kept.astype(self.dtype) if weight is None else fn.take(weight, classes) * kept
    loss = fn.where(kept, -(picked * weights), 0.0)
    if reduction == 1:
        return fn.sum(loss) / fn.sum(weights), None
    return (fn.sum(loss) if reduction else loss), None


@aten("smooth_l1_loss")
def _smooth_l1_loss(self: Any, target: Any, reduction: int = 1, beta: float = 1.0) -> Any:
    distance = TABLE["absolute"](self - target)
    if beta == 0.0:
        return _reduce_loss(distance, reduction)
    near = _scale(TABLE["square"](distance), 0.5 / beta)
    return _reduce_loss(fn.where(distance < beta, near, distance - 0.5 * beta), reduction)


@aten("huber_loss")
def _huber_loss(self: Any, target: Any, reduction: int = 1, delta: float = 1.0) -> Any:
    distance = TABLE["absolute"](self - target)
    far = delta * (distance - 0.5 * delta)
    return _reduce_loss(fn.where(distance < delta, 0.5 * TABLE["square"](distance), far), reduction)


@aten("binary_cross_entropy")
def _binary_cross_entropy(self: Any, target: Any, weight: Any = None, reduction: int = 1) -> Any:
    # PyTorch bounds the logarithms at -100, so that a wrong certain answer costs 100 and not infinity.
    right = TABLE["maximum"](TABLE["log"](self), -100.0)
    wrong = TABLE["maximum"](TABLE["log1p"](TABLE["negative"](self)), -100.0)
    loss = (target - 1.0) * wrong - target * right
    return _reduce_loss(loss if weight is None else loss * weight, reduction)


@aten("binary_cross_entropy_with_logits")
def _binary_cross_entropy_with_logits(
    self: Any, target: Any, weight: Any = None, pos_weight: Any = None, reduction: int = 1
) -> Any:
    scale = 1.0 if pos_weight is None else (pos_weight - 1.0) * target + 1.0
    loss = (1.0 - target) * self + scale * TABLE["softplus"](TABLE["negative"](self))
    return _reduce_loss(loss if weight is None else loss * weight, reduction)


@aten("soft_margin_loss")
def _soft_margin_loss(self: Any, target: Any, reduction: int = 1) -> Any:
    return _reduce_loss(TABLE["softplus"](TABLE["negative"](target * self)), reduction)


@aten("_ctc_loss", settled=("targets", "input_lengths", "target_lengths"))
def _ctc_loss(
    log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int = 0, zero_infinity: bool = False
) -> Any:
    """Minus the logarithm of the probability of a text: all alignments, one sequence of the batch after the other."""
    starts = np.concatenate([[0], np.cumsum(target_lengths)])
    losses = []
    for k, (steps, count) in enumerate(zip(input_lengths, target_lengths, strict=True)):
        text = targets[k, :count] if targets.ndim == 2 else targets[starts[k] : starts[k] + count]
        loss = _align_text(fn.getitem(log_probs, (slice(0, int(steps)), k)), text, blank)
        losses.append(fn.where(TABLE["isinf"](loss), 0.0, loss) if zero_infinity else loss)
    return fn.stack(losses), None


def _align_text(log_probs: Any, text: Any, blank: int) -> Any:
    """Return minus the log probability of a text, summed over the ways to repeat its letters and put blanks between."""
    states = np.full(2 * text.size + 1, blank)
    states[1::2] = text
    may_skip = np.zeros(states.size, bool)
    may_skip[2:] = (states[2:] != blank) & (states[2:] != states[:-2])
    scores = fn.take(log_probs, states, axis=1)
    alpha = fn.where(np.arange(states.size) < 2, fn.getitem(scores, 0), -np.inf)
    for step in range(1, shape_of(log_probs)[0]):
        one = fn.pad(fn.getitem(alpha, slice(0, -1)), (1, 0), constant_values=-np.inf)
        two = fn.pad(fn.getitem(alpha, slice(0, -2)), (2, 0), constant_values=-np.inf) if text.size else alpha
        ways = fn.stack([alpha, one, fn.where(may_skip, two, -np.inf)])
        alpha = fn.getitem(scores, step) + fn.logsumexp(ways, axis=0)
    return TABLE["negative"](fn.logsumexp(fn.getitem(alpha, slice(-2, None)), axis=0))


# Recurrent layers that arrive as one kernel.


def _unstack_rows(x: Any) -> list[Any]:
    """Return the rows of an array, taken from blocks of rows.

    The gradient of a part fills an array of the size that it was taken from, which for all rows of one array is
    quadratic.
    """
    count = shape_of(x)[0]
    length = math.isqrt(max(1, count))
    blocks = [fn.getitem(x, slice(start, min(start + length, count))) for start in range(0, count, length)]
    return [fn.getitem(blocks[row // length], row % length) for row in range(count)]


@aten("mkldnn_rnn_layer", settled=("batch_sizes",))
def _mkldnn_lstm(
    input: Any,
    weight0: Any,
    weight1: Any,
    weight2: Any,
    weight3: Any,
    hx_: Any,
    cx_: Any,
    reverse: bool,
    batch_sizes: Any,
    mode: int,
    *_: Any,
    **__: Any,
) -> Any:
    """One direction of one layer of an LSTM, over the first axis of the input; gates are in, forget, cell, out."""
    if mode != 2:
        raise refuse_setting("mkldnn_rnn_layer", f"mode={mode}")
    drive = fn.linear(input, weight0, weight2)
    drive = drive if weight3 is None else drive + weight3
    recur = fn.transpose(weight1)
    hidden, cell = hx_, cx_
    outputs = []
    rows = _unstack_rows(drive)
    width = shape_of(recur)[0]
    # Splitting the gates in each of many steps would look for the same four parts again.
    parts = [slice(k * width, (k + 1) * width) for k in range(4)]
    picks = [TABLE["getitem"].bind({"index": encode_index((..., part), len(shape_of(hx_)))}) for part in parts]
    for row in reversed(rows) if reverse else rows:
        gates = row + fn.matmul(hidden, recur)
        let_in, forget, new, let_out = (pick(gates) for pick in picks)
        cell = TABLE["sigmoid"](forget) * cell + TABLE["sigmoid"](let_in) * TABLE["tanh"](new)
        hidden = TABLE["sigmoid"](let_out) * TABLE["tanh"](cell)
        outputs.append(hidden)
    joined = fn.concatenate(outputs[::-1] if reverse else outputs, axis=0)
    return fn.reshape(joined, (len(outputs), *shape_of(hidden))), hidden, cell, None
