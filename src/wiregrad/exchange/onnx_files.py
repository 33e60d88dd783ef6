"""ONNX files: `to_onnx` writes a circuit to one, `from_onnx` reads a circuit from one.

Writing is the interpretation of `framework_export` with a library whose arrays are names of ONNX values: every call of
a function adds a node to the graph. The graph uses opset 18. In float64 it uses only nodes that onnxruntime computes in
float64, and writes the others (`arctan`, `sinh`, `erf`) with these.

Reading runs the nodes of a graph on the wires of a builder, with wiregrad's own functions; what depends on no input is
computed at once. Files may come from strangers: their size, types and order are checked, data in other files is not
read, and the nodes that wiregrad does not know are listed all at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache, partial, reduce
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wiregrad import files
from wiregrad.errors import FileFormatError, NoRuleError, require_package
from wiregrad.exchange.framework_export import (
    ArrayLibrary,
    LibraryProgram,
    expand_index,
    hold_certificates,
    list_axes,
)
from wiregrad.ir import CircuitGraph
from wiregrad.ir.certificates import add_check_outputs
from wiregrad.passes import gradient_circuit

OPSET = 18
IR_VERSION = 8
MAX_FILE_BYTES = (1 << 31) - 1
"""Maximum size of an ONNX file: the limit of its format."""


class OnnxArray:
    """A value of an ONNX graph: its name, dtype and shape; a constant also has its numbers."""

    __slots__ = ("dtype", "library", "name", "numbers", "shape")

    def __init__(
        self,
        library: OnnxLibrary,
        name: str,
        dtype: np.dtype[Any],
        shape: tuple[int, ...],
        numbers: NDArray[Any] | None = None,
    ) -> None:
        self.library = library
        self.name = name
        self.dtype = dtype
        self.shape = shape
        self.numbers = numbers

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def __add__(self, other: Any) -> OnnxArray:
        return self.library.apply_binary("Add", self, other)

    def __radd__(self, other: Any) -> OnnxArray:
        return self.library.apply_binary("Add", other, self)

    def __sub__(self, other: Any) -> OnnxArray:
        return self.library.apply_binary("Sub", self, other)

    def __rsub__(self, other: Any) -> OnnxArray:
        return self.library.apply_binary("Sub", other, self)

    def __mul__(self, other: Any) -> OnnxArray:
        return self.library.apply_binary("Mul", self, other)

    def __rmul__(self, other: Any) -> OnnxArray:
        return self.library.apply_binary("Mul", other, self)

    def __truediv__(self, other: Any) -> OnnxArray:
        return self.library.apply_binary("Div", self, other)

    def __rtruediv__(self, other: Any) -> OnnxArray:
        return self.library.apply_binary("Div", other, self)

    def __neg__(self) -> OnnxArray:
        return self.library.negative(self)

    def __lt__(self, other: Any) -> OnnxArray:
        return self.library.apply_binary("Less", self, other, np.dtype(bool))

    def __le__(self, other: Any) -> OnnxArray:
        return self.library.apply_binary("LessOrEqual", self, other, np.dtype(bool))

    def __gt__(self, other: Any) -> OnnxArray:
        return self.library.apply_binary("Greater", self, other, np.dtype(bool))

    def __ge__(self, other: Any) -> OnnxArray:
        return self.library.apply_binary("GreaterOrEqual", self, other, np.dtype(bool))

    def __and__(self, other: OnnxArray) -> OnnxArray:
        return self.library.apply_binary("And", self, other)

    def __or__(self, other: OnnxArray) -> OnnxArray:
        return self.library.apply_binary("Or", self, other)

    def __matmul__(self, other: OnnxArray) -> OnnxArray:
        return self.library.matmul(self, other)


SAME_IN_ONNX = {
    "exp": "Exp",
    "log": "Log",
    "sqrt": "Sqrt",
    "sin": "Sin",
    "cos": "Cos",
    "tanh": "Tanh",
    "floor": "Floor",
    "ceil": "Ceil",
    "rint": "Round",
    "absolute": "Abs",
    "abs": "Abs",
    "negative": "Neg",
    "reciprocal": "Reciprocal",
    "positive": "Identity",
}
"""The nodes of one input that compute what NumPy's functions do, in float64 too."""
BINARY_NODES = {
    "add": "Add",
    "subtract": "Sub",
    "multiply": "Mul",
    "divide": "Div",
    "power": "Pow",
    "logical_and": "And",
    "logical_or": "Or",
    "logical_xor": "Xor",
}
COMPARISON_NODES = {
    "less": "Less",
    "less_equal": "LessOrEqual",
    "greater": "Greater",
    "greater_equal": "GreaterOrEqual",
    "equal": "Equal",
}
NUMPY_NAMES_OF_NODES = {node: name for name, node in {**BINARY_NODES, **COMPARISON_NODES}.items()}
SINGLE_PRECISION_NODES = {
    "tan": "Tan",
    "arcsin": "Asin",
    "arccos": "Acos",
    "arctan": "Atan",
    "sinh": "Sinh",
    "cosh": "Cosh",
    "arcsinh": "Asinh",
    "arccosh": "Acosh",
    "arctanh": "Atanh",
    "erf": "Erf",
}
"""The nodes that onnxruntime computes in float32 alone; in float64 they are written with others."""


EMPTY_RESULTS = {"ReduceSum": 0, "ReduceProd": 1, "ReduceMax": -math.inf, "ReduceMin": math.inf}
"""What the reduction of no elements is."""


class OnnxLibrary(ArrayLibrary):
    """ONNX under NumPy's names: each call adds nodes to a graph."""

    title = "ONNX"
    array_class = OnnxArray

    def __init__(self) -> None:
        with require_package("onnx", "to_onnx"):
            import onnx  # noqa: PLC0415 - optional
        self._onnx = onnx
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self._count = 0

    def find_function(self, name: str) -> Any:
        """Return the function of a dotted NumPy name."""
        own = super().find_function(name)
        if own is not None:
            return own
        if name in SAME_IN_ONNX:
            return partial(self.apply_unary, SAME_IN_ONNX[name])
        if name in BINARY_NODES:
            return partial(self.apply_binary, BINARY_NODES[name])
        if name in COMPARISON_NODES:
            return partial(self.apply_binary, COMPARISON_NODES[name], dtype=np.dtype(bool))
        if name in SINGLE_PRECISION_NODES:
            return partial(self._apply_in_precision, name)
        return None

    def _apply_in_precision(self, name: str, x: OnnxArray) -> OnnxArray:
        if x.dtype == np.float64:
            y: OnnxArray = getattr(self, f"compute_{name}")(x)
            return y
        return self.apply_unary(SINGLE_PRECISION_NODES[name], x)

    def add_node(
        self, kind: str, inputs: Sequence[OnnxArray], dtype: Any, shape: Sequence[int], **options: Any
    ) -> OnnxArray:
        """Add a node and return its output."""
        if np.dtype(dtype).kind == "c":
            raise NoRuleError("ONNX has no complex numbers")
        self._count += 1
        output = OnnxArray(self, f"value_{self._count}", np.dtype(dtype), tuple(int(n) for n in shape))
        names = [x.name for x in inputs]
        self.nodes.append(self._onnx.helper.make_node(kind, names, [output.name], **options))
        return output

    def dtype_of(self, x: OnnxArray) -> np.dtype[Any]:
        """Return the dtype of a value."""
        return x.dtype

    def astype(self, x: OnnxArray, dtype: Any) -> OnnxArray:
        """Return a value in another dtype."""
        wanted = np.dtype(dtype)
        if x.dtype == wanted:
            return x
        to = self._onnx.helper.np_dtype_to_tensor_dtype(wanted)
        return self.add_node("Cast", [x], wanted, x.shape, to=to)

    def constant(self, value: Any) -> OnnxArray:
        """Return numbers as an initializer of the graph."""
        array = np.asarray(value)
        if array.dtype.kind == "c":
            raise NoRuleError("ONNX has no complex numbers")
        self._count += 1
        name = f"constant_{self._count}"
        self.initializers.append(
            self._onnx.numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
        )
        return OnnxArray(self, name, array.dtype, array.shape, array)

    def integers(self, values: Sequence[int], like: OnnxArray) -> OnnxArray:
        """Return whole numbers as a constant."""
        return self.constant(np.array(values, np.int64))

    def lift(self, x: Any, like: OnnxArray) -> OnnxArray:
        """Return a number as a constant of the dtype of another operand."""
        return x if isinstance(x, OnnxArray) else self.constant(np.asarray(x, like.dtype))

    def apply_unary(self, kind: str, x: Any) -> Any:
        """Add a node of one input that keeps dtype and shape."""
        if not isinstance(x, OnnxArray):
            return -x
        return self.add_node(kind, [x], x.dtype, x.shape)

    def apply_binary(self, kind: str, a: Any, b: Any, dtype: np.dtype[Any] | None = None) -> Any:
        """Add a node of two inputs; a number takes the dtype of the other."""
        like = a if isinstance(a, OnnxArray) else b
        if not isinstance(like, OnnxArray):
            return getattr(np, NUMPY_NAMES_OF_NODES[kind])(a, b)
        a = self.lift(a, like)
        b = self.lift(b, like)
        if a.dtype != b.dtype:
            common = np.result_type(a.dtype, b.dtype)
            a, b = self.astype(a, common), self.astype(b, common)
        if a.dtype == np.bool_ and kind not in ("And", "Or", "Xor", "Equal"):
            raise NoRuleError(f"ONNX has no {kind} of conditions")
        return self.add_node(kind, [a, b], dtype or a.dtype, np.broadcast_shapes(a.shape, b.shape))

    def negative(self, x: Any) -> Any:
        """Return the opposite."""
        return self.apply_unary("Neg", x)

    def not_equal(self, a: Any, b: Any) -> OnnxArray:
        """Return whether numbers differ."""
        return self.logical_not(self.apply_binary("Equal", a, b, np.dtype(bool)))

    def logical_not(self, x: Any) -> Any:
        """Return the opposite condition."""
        if not isinstance(x, OnnxArray):
            return not x
        return self.add_node("Not", [x], x.dtype, x.shape)

    def where(self, condition: OnnxArray, a: Any, b: Any) -> OnnxArray:
        """Return elements of a where a condition is true, else of b."""
        like = next((x for x in (a, b) if isinstance(x, OnnxArray)), None)
        like = like or OnnxArray(self, "", np.dtype(np.float64), ())
        a = self.lift(a, like)
        b = self.lift(b, like)
        common = np.result_type(a.dtype, b.dtype)
        shape = np.broadcast_shapes(condition.shape, a.shape, b.shape)
        return self.add_node("Where", [condition, self.astype(a, common), self.astype(b, common)], common, shape)

    def isnan(self, x: OnnxArray) -> OnnxArray:
        """Return whether numbers are NaN."""
        if x.dtype.kind != "f":
            return self.constant(np.zeros(x.shape, bool))
        return self.add_node("IsNaN", [x], bool, x.shape)

    def isfinite(self, x: OnnxArray) -> OnnxArray:
        """Return whether numbers are finite."""
        return self.apply_unary("Abs", x) < math.inf

    def signbit(self, x: OnnxArray) -> OnnxArray:
        """Return whether numbers have a minus sign; that of NaN is unknown."""
        is_zero = self.apply_binary("Equal", x, 0.0, np.dtype(bool))
        return (x < 0.0) | (is_zero & (1.0 / x < 0.0))

    def copysign(self, a: OnnxArray, b: Any) -> OnnxArray:
        """Return the size of a with the sign of b."""
        size = self.apply_unary("Abs", a if isinstance(a, OnnxArray) else self.lift(a, b))
        return self.where(self.signbit(self.lift(b, size)), -size, size)

    def sign(self, x: OnnxArray) -> OnnxArray:
        """Return the sign; of NaN, NaN."""
        y = self.apply_unary("Sign", x)
        return self.where(self.isnan(x), x, y) if x.dtype.kind == "f" else y

    def trunc(self, x: OnnxArray) -> OnnxArray:
        """Return numbers without their fraction."""
        y = self.where(x < 0.0, self.apply_unary("Ceil", x), self.apply_unary("Floor", x))
        return self.copysign(y, x)

    def fmod(self, a: Any, b: Any) -> OnnxArray:
        """Return the remainder with the sign of a."""
        like = a if isinstance(a, OnnxArray) else b
        a = self.lift(a, like)
        b = self.lift(b, like)
        size = self.apply_unary("Abs", b)
        y = self.add_node("Mod", [a, b], a.dtype, np.broadcast_shapes(a.shape, b.shape), fmod=1)
        # C returns a itself for an infinite b.
        return self.where(self.apply_binary("Equal", size, math.inf, np.dtype(bool)) & self.isfinite(a), a, y)

    def hypot(self, a: OnnxArray, b: OnnxArray) -> OnnxArray:
        """Return the length of (a, b), scaled so that squares neither overflow nor vanish."""
        one = self.apply_unary("Abs", a)
        two = self.apply_unary("Abs", b)
        top = self.where((one > two) | self.isnan(one), one, two)
        scale = self.where((top > 0.0) & (top < math.inf), top, 1.0)
        y = scale * self.apply_unary("Sqrt", (one / scale) * (one / scale) + (two / scale) * (two / scale))
        is_infinite = self.apply_binary("Equal", one, math.inf, np.dtype(bool)) | self.apply_binary(
            "Equal", two, math.inf, np.dtype(bool)
        )
        return self.where(is_infinite, math.inf, y)

    def exp2(self, x: OnnxArray) -> OnnxArray:
        """Return 2 to the power of x."""
        return self.apply_binary("Pow", 2.0, x)

    def log2(self, x: OnnxArray) -> OnnxArray:
        """Return the logarithm to base 2."""
        return self.apply_unary("Log", x) * (1 / math.log(2.0))

    def log10(self, x: OnnxArray) -> OnnxArray:
        """Return the logarithm to base 10."""
        return self.apply_unary("Log", x) * (1 / math.log(10.0))

    def cbrt(self, x: OnnxArray) -> OnnxArray:
        """Return the cube root."""
        y = self.apply_binary("Pow", self.apply_unary("Abs", x), 1 / 3)
        return self.copysign(y, x)

    def expm1(self, x: OnnxArray) -> OnnxArray:
        """Return exp(x) - 1 without cancellation: tanh(x / 2) (exp(x) + 1)."""
        return self.apply_unary("Tanh", x * 0.5) * (self.apply_unary("Exp", x) + 1.0)

    def log1p(self, x: OnnxArray) -> OnnxArray:
        """Return log(1 + x); the rounding of 1 + x is made up for by a factor."""
        total = x + 1.0
        gap = total - 1.0
        is_tiny = self.apply_binary("Equal", gap, 0.0, np.dtype(bool))
        factor = x / self.where(is_tiny, 1.0, gap)
        mended = self.where(is_tiny, x, self.apply_unary("Log", total) * factor)
        return self.where(total > 1e15, self.apply_unary("Log", total), mended)

    def compute_tan(self, x: OnnxArray) -> OnnxArray:
        """Return the tangent."""
        return self.apply_unary("Sin", x) / self.apply_unary("Cos", x)

    def compute_sinh(self, x: OnnxArray) -> OnnxArray:
        """Return the hyperbolic sine."""
        return (self.expm1(x) - self.expm1(-x)) * 0.5

    def compute_cosh(self, x: OnnxArray) -> OnnxArray:
        """Return the hyperbolic cosine."""
        return (self.apply_unary("Exp", x) + self.apply_unary("Exp", -x)) * 0.5

    def compute_arcsinh(self, x: OnnxArray) -> OnnxArray:
        """Return the inverse hyperbolic sine."""
        size = self.apply_unary("Abs", x)
        is_large = size > 1e8
        usual = self.where(is_large, 1.0, size)
        square = usual * usual
        y = self.log1p(usual + square / (self.apply_unary("Sqrt", square + 1.0) + 1.0))
        return self.copysign(self.where(is_large, self.apply_unary("Log", size) + math.log(2.0), y), x)

    def compute_arccosh(self, x: OnnxArray) -> OnnxArray:
        """Return the inverse hyperbolic cosine."""
        is_large = x > 1e8
        gap = self.where(is_large, 2.0, x) - 1.0
        y = self.log1p(gap + self.apply_unary("Sqrt", gap * (gap + 2.0)))
        return self.where(is_large, self.apply_unary("Log", x) + math.log(2.0), y)

    def compute_arctanh(self, x: OnnxArray) -> OnnxArray:
        """Return the inverse hyperbolic tangent."""
        size = self.apply_unary("Abs", x)
        return self.copysign(self.log1p((size * 2.0) / (1.0 - size)) * 0.5, x)

    def compute_arctan(self, x: OnnxArray) -> OnnxArray:
        """Return the angle: that of float32, mended by the angle that is left, which is tiny."""
        is_large = self.apply_unary("Abs", x) > 1.0
        small = self.where(is_large, 1.0 / x, x)
        angle = self.astype(self.apply_unary("Atan", self.astype(small, np.float32)), np.float64)
        sine = self.apply_unary("Sin", angle)
        cosine = self.apply_unary("Cos", angle)
        angle = angle + (small * cosine - sine) / (cosine + small * sine)
        return self.where(is_large, self.where(x < 0.0, -math.pi / 2, math.pi / 2) - angle, angle)

    def compute_arcsin(self, x: OnnxArray) -> OnnxArray:
        """Return the angle whose sine is x."""
        return self.compute_arctan(x / self.apply_unary("Sqrt", (1.0 - x) * (x + 1.0)))

    def compute_arccos(self, x: OnnxArray) -> OnnxArray:
        """Return the angle whose cosine is x."""
        return self.compute_arctan(self.apply_unary("Sqrt", (1.0 - x) / (x + 1.0))) * 2.0

    def arctan2(self, a: OnnxArray, b: OnnxArray) -> OnnxArray:
        """Return the angle of the point (b, a)."""
        both_zero = self.apply_binary(
            "Equal", self.apply_unary("Abs", a) + self.apply_unary("Abs", b), 0.0, np.dtype(bool)
        )
        infinite = [self.apply_binary("Equal", self.apply_unary("Abs", x), math.inf, np.dtype(bool)) for x in (a, b)]
        both_infinite = infinite[0] & infinite[1]
        ratio = self.where(both_infinite, self.sign(a) * self.sign(b), a / self.where(both_zero, 1.0, b))
        angle = self._apply_in_precision("arctan", ratio)
        turned = self.where(both_zero, self.copysign(math.pi, a), angle + self.copysign(math.pi, a))
        return self.where(self.signbit(b), turned, self.where(both_zero, a, angle))

    def compute_erf(self, x: OnnxArray) -> OnnxArray:
        """Return the error function: a series of positive terms near 0, else 1 - erfc."""
        size = self.apply_unary("Abs", x)
        far = self.copysign(1.0 - self._compute_erfc_tail(size), x)
        return self.where(size <= 2.0, self._compute_erf_series(x), far)

    def erfc(self, x: OnnxArray) -> OnnxArray:
        """Return 1 - erf(x), exact where that is tiny."""
        tail = self._compute_erfc_tail(self.apply_unary("Abs", x))
        far = self.where(x > 0.0, tail, 2.0 - tail)
        return self.where(self.apply_unary("Abs", x) <= 2.0, 1.0 - self._compute_erf_series(x), far)

    def _compute_erf_series(self, x: OnnxArray) -> OnnxArray:
        # erf(x) = 2 / sqrt(pi) exp(-x^2) (x + 2 x^3 / 3 + 4 x^5 / 15 + ...)
        square = x * x
        near = self.where(square <= 4.0, square, 0.0)
        factors = [2.0 / (2 * n + 1) for n in range(1, 48)]
        coefficients = np.cumprod([2 / math.sqrt(math.pi), *factors])
        return self._evaluate_polynomial(near, coefficients) * x * self.apply_unary("Exp", -square)

    def _compute_erfc_tail(self, x: OnnxArray) -> OnnxArray:
        """Return erfc of numbers from 2 on: exp(-x^2) / x times a polynomial in (x - 4) / (x + 4)."""
        bounded = self.where(x < 2.0, 2.0, self.where(x > 30.0, 30.0, x))
        bounded = self.where(self.isnan(x), x, bounded)
        series = self._evaluate_polynomial((bounded - 4.0) / (bounded + 4.0), fit_scaled_erfc())
        return series * self.apply_unary("Exp", -(x * x)) / bounded

    def _evaluate_polynomial(self, x: OnnxArray, coefficients: NDArray[np.float64]) -> OnnxArray:
        y: Any = self.lift(coefficients[-1], x)
        for coefficient in coefficients[-2::-1]:
            y = y * x + float(coefficient)
        return y

    def sum(self, x: OnnxArray, axis: Any = None, keepdims: bool = False) -> OnnxArray:
        """Return sums along axes."""
        return self._reduce("ReduceSum", x, axis, keepdims)

    def prod(self, x: OnnxArray, axis: Any = None, keepdims: bool = False) -> OnnxArray:
        """Return products along axes."""
        return self._reduce("ReduceProd", x, axis, keepdims)

    def max(self, x: OnnxArray, axis: Any = None, keepdims: bool = False, initial: float | None = None) -> OnnxArray:
        """Return the largest elements along axes; NaN if one is."""
        return self._reduce_extreme("ReduceMax", x, axis, keepdims)

    def min(self, x: OnnxArray, axis: Any = None, keepdims: bool = False, initial: float | None = None) -> OnnxArray:
        """Return the smallest elements along axes; NaN if one is."""
        return self._reduce_extreme("ReduceMin", x, axis, keepdims)

    def nanmax(self, x: OnnxArray, axis: Any = None, keepdims: bool = False) -> OnnxArray:
        """Return the largest elements along axes that are not NaN."""
        return self._skip_nan("ReduceMax", -math.inf, x, axis, keepdims)

    def nanmin(self, x: OnnxArray, axis: Any = None, keepdims: bool = False) -> OnnxArray:
        """Return the smallest elements along axes that are not NaN."""
        return self._skip_nan("ReduceMin", math.inf, x, axis, keepdims)

    def _reduce_extreme(self, kind: str, x: OnnxArray, axis: Any, keepdims: bool) -> OnnxArray:
        if x.dtype.kind != "f":
            return self._reduce(kind, x, axis, keepdims)
        filler = -math.inf if kind == "ReduceMax" else math.inf
        nan = self.isnan(x)
        y = self._reduce(kind, self.where(nan, filler, x), axis, keepdims)
        return self.where(self.any(nan, axis, keepdims), math.nan, y)

    def _skip_nan(self, kind: str, filler: float, x: OnnxArray, axis: Any, keepdims: bool) -> OnnxArray:
        nan = self.isnan(x)
        y = self._reduce(kind, self.where(nan, filler, x), axis, keepdims)
        return self.where(self.all(nan, axis, keepdims), math.nan, y)

    def _reduce(self, kind: str, x: OnnxArray, axis: Any, keepdims: bool) -> OnnxArray:
        axes = list_axes(axis, x.ndim)
        if not axes:
            return x
        shape = [1 if k in axes else n for k, n in enumerate(x.shape) if keepdims or k not in axes]
        if not x.size:
            return self.constant(np.full(shape, EMPTY_RESULTS[kind], x.dtype))
        operands = [x, self.constant(np.array(axes, np.int64))]
        return self.add_node(kind, operands, x.dtype, shape, keepdims=int(keepdims))

    def any(self, x: OnnxArray, axis: Any = None, keepdims: bool = False) -> OnnxArray:
        """Return whether an element along axes is not 0."""
        return self.count_nonzero(x, axis, keepdims) > 0

    def all(self, x: OnnxArray, axis: Any = None, keepdims: bool = False) -> OnnxArray:
        """Return whether all elements along axes are not 0."""
        count = math.prod(x.shape[k] for k in list_axes(axis, x.ndim))
        return self.count_nonzero(x, axis, keepdims) >= count

    def count_nonzero(self, x: OnnxArray, axis: Any = None, keepdims: bool = False) -> OnnxArray:
        """Return how many elements along axes are not 0."""
        condition = x if x.dtype == np.bool_ else self.not_equal(x, 0)
        return self.sum(self.astype(condition, np.int64), axis, keepdims)

    def argmax(self, x: OnnxArray, axis: int | None = None, keepdims: bool = False) -> OnnxArray:
        """Return the number of the largest element."""
        return self._find_extreme("ArgMax", x, axis, keepdims)

    def argmin(self, x: OnnxArray, axis: int | None = None, keepdims: bool = False) -> OnnxArray:
        """Return the number of the smallest element."""
        return self._find_extreme("ArgMin", x, axis, keepdims)

    def _find_extreme(self, kind: str, x: OnnxArray, axis: int | None, keepdims: bool) -> OnnxArray:
        if axis is None:
            x, axis = self.reshape(x, (x.size,)), 0
        place = axis % x.ndim
        shape = [1 if k == place else n for k, n in enumerate(x.shape) if keepdims or k != place]
        return self.add_node(kind, [x], np.int64, shape, axis=place, keepdims=int(keepdims))

    def searchsorted(self, a: OnnxArray, v: OnnxArray, side: str = "left") -> OnnxArray:
        """Return where numbers belong in a sorted array: how many of its elements come before."""
        column = self.reshape(v, (*v.shape, 1))
        return self.sum(self.astype(a < column if side == "left" else a <= column, np.int64), -1)

    def cumsum(self, x: OnnxArray, axis: int) -> OnnxArray:
        """Return running sums."""
        return self.add_node("CumSum", [x, self.constant(np.int64(axis))], x.dtype, x.shape)

    def cumprod(self, x: OnnxArray, axis: int) -> OnnxArray:
        """Return running products."""
        return self._scan(lambda a, b: a * b, x, axis)

    def maximum_accumulate(self, x: OnnxArray, axis: int) -> OnnxArray:
        """Return running maxima."""
        return self._scan(lambda a, b: self.where((a > b) | self.isnan(a), a, b), x, axis)

    def minimum_accumulate(self, x: OnnxArray, axis: int) -> OnnxArray:
        """Return running minima."""
        return self._scan(lambda a, b: self.where((a < b) | self.isnan(a), a, b), x, axis)

    def _scan(self, combine: Callable[[Any, Any], OnnxArray], x: OnnxArray, axis: int) -> OnnxArray:
        """Combine every element with all before it, in a number of rounds that grows as the logarithm."""
        count = x.shape[axis]
        step = 1
        while step < count:
            head = self._slice_axis(x, axis, 0, step)
            moved = self._slice_axis(x, axis, 0, count - step)
            x = self.concatenate([head, combine(moved, self._slice_axis(x, axis, step, count))], axis)
            step *= 2
        return x

    def _slice_axis(self, x: OnnxArray, axis: int, start: int, stop: int) -> OnnxArray:
        return self.getitem(x, (slice(None),) * (axis % x.ndim) + (slice(start, stop),))

    def logaddexp_reduce(self, x: OnnxArray, axis: Any = None, keepdims: bool = False) -> OnnxArray:
        """Return the logarithm of the sum of exponentials along axes."""
        axes = list_axes(axis, x.ndim)
        if not axes:
            return x
        top = self.max(x, axes, keepdims=True)
        top = self.where(self.isfinite(top), top, 0.0)
        y = self.apply_unary("Log", self.sum(self.apply_unary("Exp", x - top), axes, keepdims=True)) + top
        return y if keepdims else self.squeeze(y, axes)

    def flip(self, x: OnnxArray, axis: int) -> OnnxArray:
        """Return the elements along an axis backwards."""
        return self.getitem(x, (slice(None),) * axis + (slice(None, None, -1),))

    def roll(self, x: OnnxArray, shift: int, axis: int) -> OnnxArray:
        """Return the elements moved along an axis."""
        count = x.shape[axis]
        cut = shift % count if count else 0
        if not cut:
            return x
        parts = [self._slice_axis(x, axis, count - cut, count), self._slice_axis(x, axis, 0, count - cut)]
        return self.concatenate(parts, axis)

    def reshape(self, x: OnnxArray, shape: Sequence[int]) -> OnnxArray:
        """Return the elements in another shape."""
        wanted = np.empty(x.shape, bool).reshape(tuple(shape)).shape
        if x.numbers is not None:
            return self.constant(x.numbers.reshape(wanted))
        if wanted == x.shape:
            return x
        return self.add_node("Reshape", [x, self.constant(np.array(wanted, np.int64))], x.dtype, wanted, allowzero=1)

    def transpose(self, x: OnnxArray, order: Sequence[int] | None = None) -> OnnxArray:
        """Return the axes in another order."""
        perm = tuple(range(x.ndim))[::-1] if order is None else tuple(k % x.ndim for k in order)
        if x.numbers is not None:
            return self.constant(x.numbers.transpose(perm))
        return self.add_node("Transpose", [x], x.dtype, [x.shape[k] for k in perm], perm=list(perm))

    def broadcast_to(self, x: OnnxArray, shape: tuple[int, ...]) -> OnnxArray:
        """Return copies along new and stretched axes."""
        return self.add_node("Expand", [x, self.constant(np.array(shape, np.int64))], x.dtype, shape)

    def squeeze(self, x: OnnxArray, axis: Any = None) -> OnnxArray:
        """Return the array without axes of length 1."""
        axes = list_axes(axis, x.ndim)
        return self.reshape(x, [n for k, n in enumerate(x.shape) if k not in axes])

    def concatenate(self, arrays: Sequence[OnnxArray], axis: int) -> OnnxArray:
        """Return arrays one after the other."""
        place = axis % arrays[0].ndim
        shape = list(arrays[0].shape)
        shape[place] = sum(x.shape[place] for x in arrays)
        common = np.result_type(*(x.dtype for x in arrays))
        return self.add_node("Concat", [self.astype(x, common) for x in arrays], common, shape, axis=place)

    def getitem(self, x: OnnxArray, index: Any) -> OnnxArray:
        """Return part of an array, by whole numbers, slices and None."""
        if x.numbers is not None:
            return self.constant(x.numbers[index])
        items = expand_index(index, x.ndim)
        shape = np.empty(x.shape, bool)[items].shape
        ranges = []
        for item in (item for item in items if item is not None):
            length = x.shape[len(ranges)]
            start = item % length if isinstance(item, int) else 0
            ranges.append(range(start, start + 1) if isinstance(item, int) else range(*item.indices(length)))
        return self.reshape(self._slice(x, ranges), shape)

    def _slice(self, x: OnnxArray, ranges: Sequence[range]) -> OnnxArray:
        cut = [k for k, taken in enumerate(ranges) if taken != range(x.shape[k])]
        if not cut:
            return x
        starts = [ranges[k].start for k in cut]
        # A step backward to the first element ends before it, which only a very negative number says.
        ends = [ranges[k].stop if ranges[k].stop >= 0 else -(1 << 40) for k in cut]
        settings = [np.array(values, np.int64) for values in (starts, ends, cut, [ranges[k].step for k in cut])]
        shape = [len(ranges[k]) if k < len(ranges) else n for k, n in enumerate(x.shape)]
        return self.add_node("Slice", [x, *map(self.constant, settings)], x.dtype, shape)

    def take(self, x: OnnxArray, indices: OnnxArray, axis: int) -> OnnxArray:
        """Return slices by number along an axis."""
        if x.numbers is not None and indices.numbers is not None:
            return self.constant(np.take(x.numbers, indices.numbers, axis=axis))
        shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
        return self.add_node("Gather", [x, indices], x.dtype, shape, axis=axis)

    def take_along_axis(self, x: OnnxArray, indices: OnnxArray, axis: int) -> OnnxArray:
        """Return elements by number along an axis."""
        lead = [n if k != axis else indices.shape[k] for k, n in enumerate(x.shape)]
        rows = indices if list(indices.shape) == lead else self.broadcast_to(indices, tuple(lead))
        return self.add_node("GatherElements", [x, rows], x.dtype, rows.shape, axis=axis)

    def add_at_places(self, x: OnnxArray, places: OnnxArray, length: int) -> OnnxArray:
        """Return zeros with the elements along the last axis of x added at places."""
        assert places.numbers is not None
        rows = self.constant(np.broadcast_to(places.numbers, x.shape))
        return self.add_along_axis(x, rows, x.ndim - 1, length)

    def add_at(self, x: OnnxArray, indices: OnnxArray, axis: int, length: int) -> OnnxArray:
        """Return zeros, so long along an axis, with the slices of x added where a row of indices says."""
        rows = self.reshape(indices, (-1, *(1,) * (x.ndim - axis - 1)))
        return self.add_along_axis(x, self.broadcast_to(rows, x.shape), axis, length)

    def add_along_axis(self, x: OnnxArray, indices: OnnxArray, axis: int, length: int) -> OnnxArray:
        """Return zeros, so long along an axis, with the elements of x added where the indices say."""
        shape = (*x.shape[:axis], length, *x.shape[axis + 1 :])
        zeros = self.constant(np.zeros(shape, x.dtype))
        return self.add_node("ScatterElements", [zeros, indices, x], x.dtype, shape, axis=axis, reduction="add")

    def zeros_like(self, x: OnnxArray) -> OnnxArray:
        """Return zeros in the shape of an array."""
        return self.constant(np.zeros(x.shape, x.dtype))

    def ones_like(self, x: OnnxArray) -> OnnxArray:
        """Return ones in the shape of an array."""
        return self.constant(np.ones(x.shape, x.dtype))

    def matmul(self, a: OnnxArray, b: OnnxArray) -> OnnxArray:
        """Return the product of matrices."""
        shape = (np.empty(a.shape, bool) @ np.empty(b.shape, bool)).shape
        return self.add_node("MatMul", [a, b], a.dtype, shape)

    def conjugate(self, x: OnnxArray) -> OnnxArray:
        """Return a real number itself."""
        return x

    def real(self, x: OnnxArray) -> OnnxArray:
        """Return a real number itself."""
        return x


@lru_cache(maxsize=1)
def fit_scaled_erfc() -> NDArray[np.float64]:
    """Return the coefficients of x exp(x^2) erfc(x), for x from 2 to 30, as a polynomial in (x - 4) / (x + 4)."""
    chebyshev = np.polynomial.chebyshev
    low = (2.0 - 4.0) / (2.0 + 4.0)
    high = (30.0 - 4.0) / (30.0 + 4.0)
    places = (low + high) / 2 + (high - low) / 2 * np.cos(np.pi * (np.arange(60) + 0.5) / 60)
    points = 4.0 * (1.0 + places) / (1.0 - places)
    scaled = [_scaled_erfc(x) for x in points.tolist()]
    series = chebyshev.Chebyshev.fit(places, scaled, 26, domain=[low, high])
    polynomial: NDArray[np.float64] = series.convert(kind=np.polynomial.Polynomial).coef
    return polynomial


def _scaled_erfc(x: float) -> float:
    """Return x exp(x^2) erfc(x), by a continued fraction."""
    tail = 0.0
    for k in range(200, 0, -1):
        tail = k / 2 / (x + tail)
    return x / (x + tail) / math.sqrt(math.pi)


def to_onnx(circuit: CircuitGraph, path: str | PathLike[str], *, gradient: bool = False, check: bool = True) -> None:
    """Write a circuit to an ONNX file; with `gradient`, its graph computes the gradient by every input as well."""
    data = build_onnx_model(circuit, gradient=gradient, check=check).SerializeToString()
    files.replace_file(path, [memoryview(data)])


def build_onnx_model(circuit: CircuitGraph, *, gradient: bool = False, check: bool = True) -> Any:
    """Return a circuit as an ONNX model; the outputs of the gradient are called `grad_` and the name of the input."""
    held = sum(np.asarray(value).nbytes for value in circuit.constants().values())
    if held > MAX_FILE_BYTES:
        raise FileFormatError(f"an ONNX file may have {MAX_FILE_BYTES:,} bytes; the constants alone have {held:,}")
    library = OnnxLibrary()
    whole = gradient_circuit(circuit) if gradient else circuit
    helper = library._onnx.helper
    kinds = [circuit.type_of(node) for node in circuit.input_indices()]
    inputs = [
        OnnxArray(library, name, kind.dtype, kind.shape) for name, kind in zip(circuit.inputs, kinds, strict=True)
    ]
    if any(kind.dtype.kind == "c" for kind in kinds):
        raise NoRuleError(f"{circuit.name} cannot be given to ONNX:\n  it has complex inputs, and ONNX has none")
    results = _run_program(whole, library, inputs)
    if check and circuit.certificates:
        results = _replace_by_nan(circuit, library, inputs, results)
    names = {x.name for x in inputs}
    outputs = []
    for label, y in zip(whole.outputs, results, strict=True):
        name = label if label not in names else f"{label}_out"
        names.add(name)
        library.nodes.append(helper.make_node("Identity", [y.name], [name]))
        outputs.append(OnnxArray(library, name, y.dtype, y.shape))
    graph = helper.make_graph(
        library.nodes,
        whole.name,
        [_describe(library, x) for x in inputs],
        [_describe(library, y) for y in outputs],
        library.initializers,
    )
    model = helper.make_model(graph, producer_name="wiregrad", opset_imports=[helper.make_opsetid("", OPSET)])
    model.ir_version = IR_VERSION
    return model


def _run_program(circuit: CircuitGraph, library: OnnxLibrary, inputs: Sequence[OnnxArray]) -> list[OnnxArray]:
    """Add the nodes of a circuit to the graph; an op that ONNX cannot compute is named with its nodes."""
    program = LibraryProgram(circuit, library)
    try:
        return program.run(inputs)
    except NoRuleError as error:
        raise NoRuleError(f"{circuit.name} cannot be given to ONNX:\n  {error}") from None


def _replace_by_nan(
    circuit: CircuitGraph, library: OnnxLibrary, inputs: Sequence[OnnxArray], results: Sequence[OnnxArray]
) -> list[OnnxArray]:
    """Return the results, or NaN where the traced function would take another branch."""
    checks = add_check_outputs(circuit)
    values = _run_program(checks.circuit, library, inputs)[len(circuit.outputs) :]
    holds = hold_certificates(library, values, [np.asarray(value) for value in checks.expected_values()])
    return [library.where(holds, y, math.nan) for y in results]


def _describe(library: OnnxLibrary, x: OnnxArray) -> Any:
    helper = library._onnx.helper
    return helper.make_tensor_value_info(x.name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
