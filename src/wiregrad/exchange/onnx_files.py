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
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from functools import lru_cache, partial, reduce
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wiregrad import files
from wiregrad.dtypes import DTYPES, WireType
from wiregrad.errors import (
    FileFormatError,
    InputError,
    NoRuleError,
    ShapeError,
    UnknownOpsError,
    require_package,
    suggest_name,
)
from wiregrad.exchange.framework_export import (
    ArrayLibrary,
    LibraryProgram,
    expand_index,
    hold_certificates,
    list_axes,
)
from wiregrad.exchange.torch_ops import fn
from wiregrad.ir import TABLE, CircuitGraph, GraphBuilder, Port
from wiregrad.ir.certificates import add_check_outputs
from wiregrad.ir.columns import is_group_label
from wiregrad.ops.functions import FUNCTIONS
from wiregrad.passes import gradient_circuit, simplify

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
        return self.library.apply_unary("Neg", self)

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
        self._outputs: set[str] = set()

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
        output = OnnxArray(self, f"value/{self._count}", np.dtype(dtype), tuple(int(n) for n in shape))
        names = [x.name for x in inputs]
        self.nodes.append(self._onnx.helper.make_node(kind, names, [output.name], **options))
        return output

    def name_output(self, x: OnnxArray, name: str) -> None:
        """Give a value the name of an output; a second name, and that of an input or constant, is a node of its own."""
        maker = next((node for node in self.nodes if x.name in node.output), None)
        if maker is None or x.name in self._outputs:
            self.nodes.append(self._onnx.helper.make_node("Identity", [x.name], [name]))
            return
        self._outputs.add(name)
        maker.output[:] = [name]
        for node in self.nodes:
            node.input[:] = [name if part == x.name else part for part in node.input]
        x.name = name

    def drop_unread(self, outputs: Iterable[str]) -> None:
        """Drop the nodes that no output is computed from, and the constants that no node reads."""
        read = set(outputs)
        nodes = []
        for node in reversed(self.nodes):
            if not read.isdisjoint(node.output):
                read.update(node.input)
                nodes.append(node)
        self.nodes = nodes[::-1]
        self.initializers = [tensor for tensor in self.initializers if tensor.name in read]

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
        name = f"constant/{self._count}"
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

    def apply_unary(self, kind: str, x: OnnxArray) -> OnnxArray:
        """Add a node of one input that keeps dtype and shape."""
        if x.dtype == np.bool_ and kind in ("Abs", "Ceil", "Floor", "Round"):
            # NumPy leaves conditions as they are, and ONNX does not take them.
            return x
        return self.add_node(kind, [x], x.dtype, x.shape)

    def apply_binary(self, kind: str, a: Any, b: Any, dtype: np.dtype[Any] | None = None) -> OnnxArray:
        """Add a node of two inputs; a number takes the dtype of the other."""
        like = a if isinstance(a, OnnxArray) else b
        if not isinstance(like, OnnxArray):
            plain: OnnxArray = getattr(np, NUMPY_NAMES_OF_NODES[kind])(a, b)
            return plain
        a = self.lift(a, like)
        b = self.lift(b, like)
        if a.dtype != b.dtype:
            common = np.result_type(a.dtype, b.dtype)
            a, b = self.astype(a, common), self.astype(b, common)
        if a.dtype == np.bool_ and kind not in ("And", "Or", "Xor", "Equal"):
            kind = {"Add": "Or", "Mul": "And"}.get(kind, kind)
            if kind in COMPARISON_NODES.values():
                a, b = self.astype(a, np.int64), self.astype(b, np.int64)
            elif kind not in ("And", "Or"):
                raise NoRuleError(f"ONNX has no {kind} of conditions")
        return self.add_node(kind, [a, b], dtype or a.dtype, np.broadcast_shapes(a.shape, b.shape))

    def negative(self, x: Any) -> Any:
        """Return the opposite."""
        return self.apply_unary("Neg", x) if isinstance(x, OnnxArray) else -x

    def not_equal(self, a: Any, b: Any) -> OnnxArray:
        """Return whether numbers differ."""
        y: OnnxArray = self.logical_not(self.apply_binary("Equal", a, b, np.dtype(bool)))
        return y

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

    def copysign(self, a: Any, b: Any) -> OnnxArray:
        """Return the size of a with the sign of b."""
        like = a if isinstance(a, OnnxArray) else b
        y: OnnxArray = super().copysign(self.lift(a, like), self.lift(b, like))
        return y

    def sign(self, x: OnnxArray) -> OnnxArray:
        """Return the sign; of NaN, NaN."""
        y = self.apply_unary("Sign", x)
        return self.where(self.isnan(x), x, y) if x.dtype.kind == "f" else y

    def trunc(self, x: OnnxArray) -> OnnxArray:
        """Return numbers without their fraction."""
        if x.dtype == np.bool_:
            return x
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
        half_turn = self.copysign(self.lift(math.pi, a), a)
        turned = self.where(both_zero, half_turn, angle + half_turn)
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

    def _evaluate_polynomial(self, x: OnnxArray, coefficients: NDArray[Any]) -> OnnxArray:
        y = self.lift(coefficients[-1], x)
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
        ranges: list[range] = []
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
def fit_scaled_erfc() -> NDArray[Any]:
    """Return the coefficients of x exp(x^2) erfc(x), for x from 2 to 30, as a polynomial in (x - 4) / (x + 4)."""
    chebyshev = np.polynomial.chebyshev
    low = (2.0 - 4.0) / (2.0 + 4.0)
    high = (30.0 - 4.0) / (30.0 + 4.0)
    places = (low + high) / 2 + (high - low) / 2 * np.cos(np.pi * (np.arange(60) + 0.5) / 60)
    points = 4.0 * (1.0 + places) / (1.0 - places)
    scaled = [_scaled_erfc(x) for x in points.tolist()]
    series = chebyshev.Chebyshev.fit(places, scaled, 26, domain=[low, high])
    polynomial: NDArray[Any] = series.convert(kind=np.polynomial.Polynomial).coef
    return polynomial


def _scaled_erfc(x: float) -> float:
    """Return x exp(x^2) erfc(x), by a continued fraction."""
    tail = 0.0
    for k in range(200, 0, -1):
        tail = k / 2 / (x + tail)
    return x / (x + tail) / math.sqrt(math.pi)


def to_onnx(
    circuit: CircuitGraph,
    path: str | PathLike[str],
    *,
    gradient: bool = False,
    check: bool = True,
    weights: Mapping[str, Any] | None = None,
) -> None:
    """Write a circuit to an ONNX file; with `gradient`, its graph computes the gradient by every input as well.

    The inputs in `weights` are stored with these values, and are no inputs of the file.
    """
    data = build_onnx_model(circuit, gradient=gradient, check=check, weights=weights).SerializeToString()
    files.replace_file(path, [memoryview(data)])


def build_onnx_model(
    circuit: CircuitGraph, *, gradient: bool = False, check: bool = True, weights: Mapping[str, Any] | None = None
) -> Any:
    """Return a circuit as an ONNX model; the outputs of the gradient are called `grad_` and the name of the input."""
    stored = dict(weights or {})
    held = sum(np.asarray(value).nbytes for value in (*circuit.constants().values(), *stored.values()))
    if held > MAX_FILE_BYTES:
        raise FileFormatError(f"an ONNX file may have {MAX_FILE_BYTES:,} bytes; the constants alone have {held:,}")
    library = OnnxLibrary()
    # Products with 1 in a derivative are dropped: onnxruntime's optimiser fails on some of them.
    whole = simplify(gradient_circuit(circuit)) if gradient else circuit
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
        library.name_output(y, name)
        outputs.append(OnnxArray(library, name, y.dtype, y.shape))
    library.drop_unread([y.name for y in outputs])
    arrays = {x.name: np.asarray(stored[x.name], x.dtype) for x in inputs if x.name in stored}
    library.initializers += [library._onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(
        library.nodes,
        whole.name,
        [_describe(library, x) for x in inputs if x.name not in arrays],
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


MAX_FOLDED_ELEMENTS = 1 << 20
"""Maximum number of elements of what is computed while a file is read; larger arrays become constants."""
MAX_STEPS = 10_000
"""Maximum number of steps of loops and recurrent layers, which are unrolled, in one file."""
MAX_ELEMENTS = 1 << 28
"""Maximum number of elements of an array that a node makes from a few numbers, such as a shape."""

SAME_OPS = {
    "Add": "add",
    "Sub": "subtract",
    "Mul": "multiply",
    "Pow": "power",
    "Neg": "negative",
    "Abs": "absolute",
    "Reciprocal": "reciprocal",
    "Sqrt": "sqrt",
    "Exp": "exp",
    "Log": "log",
    "Sin": "sin",
    "Cos": "cos",
    "Tan": "tan",
    "Asin": "arcsin",
    "Acos": "arccos",
    "Atan": "arctan",
    "Sinh": "sinh",
    "Cosh": "cosh",
    "Tanh": "tanh",
    "Asinh": "arcsinh",
    "Acosh": "arccosh",
    "Atanh": "arctanh",
    "Erf": "erf",
    "Sigmoid": "sigmoid",
    "Softplus": "softplus",
    "Relu": "relu",
    "Floor": "floor",
    "Ceil": "ceil",
    "Round": "round",
    "Sign": "sign",
    "Equal": "equal",
    "Less": "less",
    "LessOrEqual": "less_equal",
    "Greater": "greater",
    "GreaterOrEqual": "greater_equal",
    "And": "logical_and",
    "Or": "logical_or",
    "Xor": "logical_xor",
    "Not": "logical_not",
    "IsNaN": "isnan",
    "MatMul": "matmul",
    "Where": "where",
    "PRelu": "leaky_relu",
}
"""The ops that compute what nodes of ONNX do, on the same operands."""

NodeRule = Callable[..., Any]
NODE_RULES: dict[str, NodeRule] = {}


def node_rule(*kinds: str) -> Callable[[NodeRule], NodeRule]:
    """Register what is done for nodes of some kinds: a function of the run, the settings and the operands."""

    def add_rule(rule: NodeRule) -> NodeRule:
        NODE_RULES.update(dict.fromkeys(kinds, rule))
        return rule

    return add_rule


class OnnxGraphRun:
    """Runs the nodes of an ONNX graph on the wires of a builder."""

    def __init__(self, onnx: Any, opset: int) -> None:
        self.onnx = onnx
        self.opset = opset
        self.builder = GraphBuilder(finite=False)
        self.values: MutableMapping[str, Any] = {}
        self.point: dict[str, Any] = {}
        self.steps = 0

    def add_input(self, name: str, dtype: Any, shape: Sequence[int], value: Any = None) -> None:
        """Add an input of the circuit, with its value if the file has one."""
        label = self.builder.recording.free_name(as_label(name))
        self.values[name] = self.builder.input(label, WireType(wire_dtype(dtype), tuple(shape)))
        if value is not None:
            self.point[label] = value

    def run_node(self, node: Any) -> None:
        """Compute the outputs of a node."""
        operands = [self.values[name] if name else None for name in node.input]
        settings = {part.name: self.onnx.helper.get_attribute_value(part) for part in node.attribute}
        results = self._apply(node.op_type, settings, operands, len(node.output))
        for name, result in zip(node.output, results, strict=False):
            if name:
                self.values[name] = result

    def _apply(self, kind: str, settings: dict[str, Any], operands: Sequence[Any], count: int) -> list[Any]:
        if any(np.size(x) > MAX_FOLDED_ELEMENTS for x in operands if isinstance(x, np.ndarray)):
            operands = [x if x is None or isinstance(x, Port) else self.lift(x) for x in operands]
        if kind in SAME_OPS:
            return [self.apply_op(SAME_OPS[kind], *operands)]
        settings["outputs"] = count
        result = NODE_RULES[kind](self, settings, *operands)
        return result if isinstance(result, list) else [result]

    def apply_op(self, name: str, *operands: Any) -> Any:
        """Apply an op, or a function of that name, to wires and arrays."""
        if any(isinstance(x, Port) for x in operands):
            operands = tuple(self.lift(x) for x in operands)
        else:
            check_elements(np.broadcast_shapes(*(np.shape(x) for x in operands)) if name != "matmul" else ())
        with np.errstate(all="ignore"):
            return FUNCTIONS[name].run(*operands) if name == "matmul" else TABLE[name](*operands)

    def lift(self, x: Any) -> Port:
        """Return an operand as a wire."""
        if isinstance(x, Port):
            return x
        array = np.asarray(x)
        return self.builder.place_constant(array.astype(wire_dtype(array.dtype))[()])

    def run_graph(self, graph: Any, inputs: dict[str, Any]) -> list[Any]:
        """Run a graph inside of a node, which sees the values around it, and return its outputs."""
        around = self.values
        self.values = ChainMap(inputs, around)
        try:
            for tensor in graph.initializer:
                self.values[tensor.name] = self.onnx.numpy_helper.to_array(tensor)
            for number, node in enumerate(graph.node):
                _run_node(self, node, number)
            return [self.values[value.name] for value in graph.output]
        finally:
            self.values = around

    def count_step(self) -> None:
        """Count a step of a loop or of a recurrent layer; all of them together are bounded."""
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise NoRuleError(f"loops and recurrent layers of more than {MAX_STEPS:,} steps would be unrolled")


def as_text(name: str | bytes) -> str:
    """Return a name of ONNX as text; protobuf gives bytes where it is none."""
    return name if isinstance(name, str) else name.decode("utf-8", "replace")


def as_label(name: str | bytes) -> str:
    """Return a name of ONNX with other signs than letters, digits and underscores replaced.

    >>> as_label("layer.0/weight:0")
    'layer_0_weight_0'
    """
    text = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in as_text(name))[:100]
    return text if text[:1].isalpha() or text[:1] == "_" else f"x{text}"


def wire_dtype(dtype: Any) -> np.dtype[Any]:
    """Return the dtype of a wire for a dtype of ONNX: circuits have one kind of whole numbers."""
    kind: np.dtype[Any] = np.dtype(dtype)
    if kind.kind in "iu":
        return np.dtype(np.int64)
    if kind not in DTYPES.values() or kind.kind == "c":
        raise NoRuleError(f"circuits have no {kind}")
    return kind


def check_elements(shape: Sequence[int]) -> None:
    """Raise `FileFormatError` if an array of a shape would have too many elements."""
    if any(n < 0 for n in shape) or math.prod(map(int, shape)) > MAX_ELEMENTS:
        raise FileFormatError(f"an array of shape {tuple(shape)} has more than {MAX_ELEMENTS:,} elements")


def read_numbers(x: Any, what: str) -> NDArray[Any]:
    """Return an operand that must not depend on the inputs."""
    if isinstance(x, Port):
        raise NoRuleError(f"{what} depends on the inputs, which circuits do not have")
    return np.asarray(x)


def read_integers(x: Any, what: str) -> list[int]:
    """Return an operand that must be whole numbers that do not depend on the inputs."""
    return [int(k) for k in read_numbers(x, what).reshape(-1).tolist()]


@node_rule("Div")
def _divide(run: OnnxGraphRun, settings: dict[str, Any], a: Any, b: Any) -> Any:
    if a.dtype.kind in "iu":
        return np.trunc(read_numbers(a, "a whole quotient") / read_numbers(b, "a whole quotient")).astype(np.int64)
    return run.apply_op("divide", a, b)


@node_rule("Mod")
def _mod(run: OnnxGraphRun, settings: dict[str, Any], a: Any, b: Any) -> Any:
    return fn.fmod(run.lift(a), run.lift(b)) if settings.get("fmod") else run.apply_op("mod", a, b)


@node_rule("Identity", "Dropout")
def _identity(run: OnnxGraphRun, settings: dict[str, Any], x: Any, *_: Any) -> Any:
    return [x, None]


@node_rule("Constant")
def _constant(run: OnnxGraphRun, settings: dict[str, Any]) -> Any:
    for name in ("value", "value_float", "value_int", "value_floats", "value_ints"):
        if name in settings:
            value = settings[name]
            is_float = name.startswith("value_float")
            return (
                run.onnx.numpy_helper.to_array(value)
                if name == "value"
                else np.array(value, np.float32 if is_float else np.int64)
            )
    raise NoRuleError("a constant of text, or with gaps, is not known to wiregrad")


@node_rule("ConstantOfShape")
def _constant_of_shape(run: OnnxGraphRun, settings: dict[str, Any], shape: Any) -> Any:
    lengths = read_integers(shape, "a shape")
    check_elements(lengths)
    value = settings.get("value")
    filler = np.zeros(1, np.float32) if value is None else run.onnx.numpy_helper.to_array(value)
    return np.full(lengths, filler.reshape(-1)[0])


@node_rule("Shape")
def _shape(run: OnnxGraphRun, settings: dict[str, Any], x: Any) -> Any:
    return np.array(x.shape[settings.get("start", 0) : settings.get("end")], np.int64)


@node_rule("Size")
def _size(run: OnnxGraphRun, settings: dict[str, Any], x: Any) -> Any:
    return np.array(math.prod(x.shape), np.int64)


@node_rule("Range")
def _range(run: OnnxGraphRun, settings: dict[str, Any], *bounds: Any) -> Any:
    start, stop, step = (read_numbers(x, "a range") for x in bounds)
    check_elements([max(0, math.ceil((float(stop) - float(start)) / float(step)))])
    return np.arange(start.item(), stop.item(), step.item(), dtype=start.dtype)


@node_rule("Cast")
def _cast(run: OnnxGraphRun, settings: dict[str, Any], x: Any) -> Any:
    dtype = run.onnx.helper.tensor_dtype_to_np_dtype(settings["to"])
    return fn.astype(x, wire_dtype(dtype)) if isinstance(x, Port) else np.asarray(x).astype(dtype)


@node_rule("Gemm")
def _gemm(run: OnnxGraphRun, settings: dict[str, Any], a: Any, b: Any, c: Any = None) -> Any:
    one = fn.swapaxes(run.lift(a), 0, 1) if settings.get("transA") else run.lift(a)
    two = fn.swapaxes(run.lift(b), 0, 1) if settings.get("transB") else run.lift(b)
    y = _scale(fn.matmul(one, two), settings.get("alpha", 1.0))
    return y if c is None else run.apply_op("add", y, _scale(run.lift(c), settings.get("beta", 1.0)))


def _scale(x: Any, factor: float) -> Any:
    return x if factor == 1.0 else x * np.asarray(factor, x.dtype)[()]


@node_rule("Conv")
def _conv(run: OnnxGraphRun, settings: dict[str, Any], x: Any, w: Any, b: Any = None) -> Any:
    x, w = run.lift(x), run.lift(w)
    rank = len(w.shape) - 2
    if rank not in (1, 2):
        raise NoRuleError(f"a convolution over {rank} axes is not known to wiregrad")
    step, dilation, pads = _read_windows(settings, x.shape[2:], w.shape[2:])
    convolve = fn.conv1d if rank == 1 else fn.conv2d
    bias = None if b is None else run.lift(b)
    return convolve(_pad_images(x, pads), w, bias, stride=step, dilation=dilation, groups=settings.get("group", 1))


def _read_windows(
    settings: dict[str, Any], lengths: Sequence[int], size: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...], list[tuple[int, int]]]:
    """Return steps, dilations and the widths of the border of a node with windows."""
    rank = len(size)
    step = tuple(settings.get("strides", (1,) * rank))
    dilation = tuple(settings.get("dilations", (1,) * rank))
    pads = tuple(settings.get("pads", (0,) * 2 * rank))
    widths = list(zip(pads[:rank], pads[rank:], strict=True))
    mode = settings.get("auto_pad", b"NOTSET").decode()
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        widths = []
        for n, s, k, d in zip(lengths, step, size, dilation, strict=True):
            total = max(0, (-(-n // s) - 1) * s + (k - 1) * d + 1 - n)
            half = total // 2
            widths.append((half, total - half) if mode == "SAME_UPPER" else (total - half, half))
    elif mode == "VALID":
        widths = [(0, 0)] * rank
    return step, dilation, widths


def _pad_images(x: Any, pads: Sequence[tuple[int, int]], value: float = 0.0) -> Any:
    widths = [(0, 0), (0, 0), *pads]
    return fn.pad(x, widths, constant_values=value) if any(map(any, widths)) else x


@node_rule("ConvTranspose")
def _conv_transpose(run: OnnxGraphRun, settings: dict[str, Any], x: Any, w: Any, b: Any = None) -> Any:
    x, w = run.lift(x), run.lift(w)
    rank = len(w.shape) - 2
    if rank not in (1, 2) or "output_shape" in settings or settings.get("auto_pad", b"NOTSET") != b"NOTSET":
        raise NoRuleError("this kind of ConvTranspose is not known to wiregrad: give strides and pads for 1 or 2 axes")
    step, dilation, pads = _read_windows(settings, x.shape[2:], w.shape[2:])
    extra = tuple(settings.get("output_padding", (0,) * rank))
    transpose = fn.conv_transpose1d if rank == 1 else fn.conv_transpose2d
    bias = None if b is None else run.lift(b)
    groups = settings.get("group", 1)
    y = transpose(x, w, bias, stride=step, output_padding=extra, groups=groups, dilation=dilation)
    cuts = [slice(low, n - high) for (low, high), n in zip(pads, y.shape[2:], strict=True)]
    return fn.getitem(y, (slice(None), slice(None), *cuts)) if any(map(any, pads)) else y


def _make_pool(*, is_max: bool) -> NodeRule:
    def pool(run: OnnxGraphRun, settings: dict[str, Any], x: Any) -> Any:
        if settings.get("ceil_mode") or settings["outputs"] > 1:
            raise NoRuleError("pooling with ceil_mode, or with indices, is not known to wiregrad")
        return _pool_windows(run.lift(x), tuple(settings["kernel_shape"]), settings, is_max=is_max)

    return pool


NODE_RULES.update(MaxPool=_make_pool(is_max=True), AveragePool=_make_pool(is_max=False))


def _pool_windows(x: Any, size: tuple[int, ...], settings: dict[str, Any], *, is_max: bool) -> Any:
    step, dilation, pads = _read_windows(settings, x.shape[2:], size)
    cut = TABLE["windows"](_pad_images(x, pads, -math.inf if is_max else 0.0), size=size, step=step, dilation=dilation)
    axes = tuple(range(-len(size), 0))
    if is_max:
        return fn.max(cut, axis=axes)
    total = fn.sum(cut, axis=axes)
    if settings.get("count_include_pad") or not any(map(any, pads)):
        return total / math.prod(size)
    ones = np.pad(np.ones(x.shape[2:]), pads)
    counts = TABLE["windows"](ones, size=size, step=step, dilation=dilation).sum(axis=axes)
    return total / np.broadcast_to(counts, total.shape).astype(total.dtype)


NODE_RULES["GlobalAveragePool"] = lambda run, settings, x: fn.mean(x, axis=tuple(range(2, len(x.shape))), keepdims=True)
NODE_RULES["GlobalMaxPool"] = lambda run, settings, x: fn.max(x, axis=tuple(range(2, len(x.shape))), keepdims=True)


@node_rule("BatchNormalization")
def _batch_norm(
    run: OnnxGraphRun, settings: dict[str, Any], x: Any, scale: Any, shift: Any, mean: Any, variance: Any
) -> Any:
    if settings.get("training_mode"):
        raise NoRuleError(
            "BatchNormalization in training mode is not known to wiregrad: export the model for inference"
        )
    column = (-1, *(1,) * (len(x.shape) - 2))
    parts = [fn.reshape(run.lift(part), column) for part in (scale, shift, mean, variance)]
    gain = parts[0] / TABLE["sqrt"](parts[3] + _number(settings.get("epsilon", 1e-5), x))
    return (run.lift(x) - parts[2]) * gain + parts[1]


def _number(value: float, like: Any) -> Any:
    return np.asarray(value, like.dtype)[()]


@node_rule("LayerNormalization")
def _layer_norm(run: OnnxGraphRun, settings: dict[str, Any], x: Any, scale: Any, shift: Any = None) -> Any:
    first = settings.get("axis", -1) % len(x.shape)
    y = _standardize(run.lift(x), tuple(range(first, len(x.shape))), settings.get("epsilon", 1e-5)) * run.lift(scale)
    return [y if shift is None else y + run.lift(shift), None, None]


def _standardize(x: Any, axes: tuple[int, ...], epsilon: float) -> Any:
    gap = x - fn.mean(x, axis=axes, keepdims=True)
    return gap / TABLE["sqrt"](fn.mean(TABLE["square"](gap), axis=axes, keepdims=True) + _number(epsilon, x))


@node_rule("InstanceNormalization")
def _instance_norm(run: OnnxGraphRun, settings: dict[str, Any], x: Any, scale: Any, shift: Any) -> Any:
    column = (-1, *(1,) * (len(x.shape) - 2))
    y = _standardize(run.lift(x), tuple(range(2, len(x.shape))), settings.get("epsilon", 1e-5))
    return y * fn.reshape(run.lift(scale), column) + fn.reshape(run.lift(shift), column)


@node_rule("LeakyRelu")
def _leaky_relu(run: OnnxGraphRun, settings: dict[str, Any], x: Any) -> Any:
    return TABLE["leaky_relu"](run.lift(x), _number(settings.get("alpha", 0.01), x))


def _exponential_unit(run: OnnxGraphRun, x: Any, alpha: float, inner: float = 1.0, gain: float = 1.0) -> Any:
    wire = run.lift(x)
    low = TABLE["expm1"](TABLE["minimum"](wire, _number(0.0, x)) / _number(inner, x)) * _number(alpha, x)
    return _scale(TABLE["where"](wire > _number(0.0, x), wire, low), gain)


NODE_RULES["Elu"] = lambda run, settings, x: _exponential_unit(run, x, settings.get("alpha", 1.0))
NODE_RULES["Celu"] = lambda run, settings, x: _exponential_unit(
    run, x, settings.get("alpha", 1.0), settings.get("alpha", 1.0)
)
NODE_RULES["Selu"] = lambda run, settings, x: _exponential_unit(
    run, x, settings.get("alpha", 1.67326319217681884765625), 1.0, settings.get("gamma", 1.05070102214813232421875)
)


@node_rule("Softsign")
def _softsign(run: OnnxGraphRun, settings: dict[str, Any], x: Any) -> Any:
    return run.lift(x) / (TABLE["absolute"](run.lift(x)) + _number(1.0, x))


def _hard_sigmoid(run: OnnxGraphRun, x: Any, slope: float, shift: float) -> Any:
    y = run.lift(x) * _number(slope, x) + _number(shift, x)
    return TABLE["clip"](y, _number(0.0, x), _number(1.0, x))


NODE_RULES["HardSigmoid"] = lambda run, settings, x: _hard_sigmoid(
    run, x, settings.get("alpha", 0.2), settings.get("beta", 0.5)
)
NODE_RULES["HardSwish"] = lambda run, settings, x: run.lift(x) * _hard_sigmoid(run, x, 1 / 6, 0.5)


@node_rule("Mish")
def _mish(run: OnnxGraphRun, settings: dict[str, Any], x: Any) -> Any:
    return run.lift(x) * TABLE["tanh"](TABLE["softplus"](run.lift(x)))


@node_rule("Gelu")
def _gelu(run: OnnxGraphRun, settings: dict[str, Any], x: Any) -> Any:
    wire = run.lift(x)
    if settings.get("approximate", b"none") == b"none":
        return TABLE["gelu"](wire)
    inner = (wire + wire * wire * wire * _number(0.044715, x)) * _number(math.sqrt(2 / math.pi), x)
    return wire * _number(0.5, x) * (TABLE["tanh"](inner) + _number(1.0, x))


@node_rule("Clip")
def _clip(run: OnnxGraphRun, settings: dict[str, Any], x: Any, low: Any = None, high: Any = None) -> Any:
    low = settings.get("min") if low is None else low
    high = settings.get("max") if high is None else high
    y = run.lift(x)
    if low is not None:
        y = run.apply_op("maximum", y, low if isinstance(low, Port) else np.asarray(low, x.dtype))
    if high is not None:
        y = run.apply_op("minimum", y, high if isinstance(high, Port) else np.asarray(high, x.dtype))
    return y


NODE_RULES["Max"] = lambda run, settings, *xs: reduce(partial(run.apply_op, "maximum"), xs)
NODE_RULES["Min"] = lambda run, settings, *xs: reduce(partial(run.apply_op, "minimum"), xs)
NODE_RULES["Sum"] = lambda run, settings, *xs: reduce(partial(run.apply_op, "add"), xs)
NODE_RULES["Mean"] = lambda run, settings, *xs: reduce(partial(run.apply_op, "add"), xs) / _number(len(xs), xs[0])


@node_rule("IsInf")
def _is_inf(run: OnnxGraphRun, settings: dict[str, Any], x: Any) -> Any:
    wire = run.lift(x)
    if not settings.get("detect_negative", 1):
        return TABLE["equal"](wire, _number(math.inf, x))
    return TABLE["isinf"](wire) if settings.get("detect_positive", 1) else TABLE["equal"](wire, _number(-math.inf, x))


def _read_axes(settings: dict[str, Any], axes: Any, ndim: int) -> tuple[int, ...]:
    """Return the axes of a reduction: an operand in new versions, a setting in old ones; all if there are none."""
    found = settings.get("axes") if axes is None else read_integers(axes, "the axes of a reduction")
    if not found:
        return () if settings.get("noop_with_empty_axes") else tuple(range(ndim))
    return tuple(int(k) % ndim for k in found)


REDUCTIONS: dict[str, Callable[..., Any]] = {
    "ReduceSum": fn.sum,
    "ReduceMean": fn.mean,
    "ReduceMax": fn.max,
    "ReduceMin": fn.min,
    "ReduceProd": fn.prod,
    "ReduceL1": lambda x, **o: fn.sum(TABLE["absolute"](x), **o),
    "ReduceL2": lambda x, **o: TABLE["sqrt"](fn.sum(TABLE["square"](x), **o)),
    "ReduceSumSquare": lambda x, **o: fn.sum(TABLE["square"](x), **o),
    "ReduceLogSum": lambda x, **o: TABLE["log"](fn.sum(x, **o)),
    "ReduceLogSumExp": fn.logsumexp,
}


def _make_reduction(compute: Callable[..., Any]) -> NodeRule:
    def reduce_axes(run: OnnxGraphRun, settings: dict[str, Any], x: Any, axes: Any = None) -> Any:
        found = _read_axes(settings, axes, len(x.shape))
        return compute(x, axis=found, keepdims=bool(settings.get("keepdims", 1))) if found else x

    return reduce_axes


NODE_RULES.update({kind: _make_reduction(compute) for kind, compute in REDUCTIONS.items()})


def _make_softmax(name: str) -> NodeRule:
    def apply(run: OnnxGraphRun, settings: dict[str, Any], x: Any) -> Any:
        axis = settings.get("axis", -1 if run.opset >= 13 else 1) % len(x.shape)
        # Before version 13, all axes from this one on were normalised together.
        axes = axis if run.opset >= 13 else tuple(range(axis, len(x.shape)))
        return FUNCTIONS[name].run(run.lift(x), axis=axes)

    return apply


NODE_RULES.update(Softmax=_make_softmax("softmax"), LogSoftmax=_make_softmax("log_softmax"))


def _make_arg(name: str) -> NodeRule:
    def find(run: OnnxGraphRun, settings: dict[str, Any], x: Any) -> Any:
        if settings.get("select_last_index"):
            raise NoRuleError("the last of several equal elements is not known to wiregrad")
        keepdims = bool(settings.get("keepdims", 1))
        return FUNCTIONS[name].run(x, axis=settings.get("axis", 0), keepdims=keepdims)

    return find


NODE_RULES.update(ArgMax=_make_arg("argmax"), ArgMin=_make_arg("argmin"))


@node_rule("CumSum")
def _cumsum(run: OnnxGraphRun, settings: dict[str, Any], x: Any, axis: Any) -> Any:
    (place,) = read_integers(axis, "the axis of a running sum")
    if settings.get("exclusive"):
        raise NoRuleError("a running sum without its own element is not known to wiregrad")
    if not settings.get("reverse"):
        return fn.cumsum(x, axis=place)
    return fn.flip(fn.cumsum(fn.flip(x, place), axis=place), place)


@node_rule("Reshape")
def _reshape(run: OnnxGraphRun, settings: dict[str, Any], x: Any, shape: Any) -> Any:
    lengths = read_integers(shape, "a shape")
    if not settings.get("allowzero"):
        lengths = [x.shape[k] if n == 0 else n for k, n in enumerate(lengths)]
    return fn.reshape(x, tuple(lengths))


@node_rule("Flatten")
def _flatten(run: OnnxGraphRun, settings: dict[str, Any], x: Any) -> Any:
    axis = settings.get("axis", 1)
    axis = axis if axis >= 0 else axis + len(x.shape)
    return fn.reshape(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))


@node_rule("Squeeze")
def _squeeze(run: OnnxGraphRun, settings: dict[str, Any], x: Any, axes: Any = None) -> Any:
    found = settings.get("axes") if axes is None else read_integers(axes, "axes")
    return fn.squeeze(x) if found is None else fn.squeeze(x, axis=tuple(found))


@node_rule("Unsqueeze")
def _unsqueeze(run: OnnxGraphRun, settings: dict[str, Any], x: Any, axes: Any = None) -> Any:
    found = settings["axes"] if axes is None else read_integers(axes, "axes")
    return fn.expand_dims(x, tuple(found))


@node_rule("Transpose")
def _transpose(run: OnnxGraphRun, settings: dict[str, Any], x: Any) -> Any:
    return fn.transpose(x, tuple(settings["perm"]) if "perm" in settings else None)


@node_rule("Expand")
def _expand(run: OnnxGraphRun, settings: dict[str, Any], x: Any, shape: Any) -> Any:
    lengths = np.broadcast_shapes(tuple(x.shape), tuple(read_integers(shape, "a shape")))
    check_elements(lengths)
    return fn.broadcast_to(x, lengths)


@node_rule("Tile")
def _tile(run: OnnxGraphRun, settings: dict[str, Any], x: Any, repeats: Any) -> Any:
    counts = read_integers(repeats, "repeats")
    check_elements([n * k for n, k in zip(x.shape, counts, strict=True)])
    return fn.tile(x, tuple(counts))


@node_rule("Concat")
def _concat(run: OnnxGraphRun, settings: dict[str, Any], *xs: Any) -> Any:
    if not any(isinstance(x, Port) for x in xs):
        return np.concatenate(xs, settings["axis"])
    return fn.concatenate([run.lift(x) for x in xs], settings["axis"])


@node_rule("Split")
def _split(run: OnnxGraphRun, settings: dict[str, Any], x: Any, split: Any = None) -> Any:
    axis = settings.get("axis", 0)
    sizes = settings.get("split") if split is None else read_integers(split, "sizes")
    if sizes is None:
        parts = settings.get("num_outputs", settings["outputs"])
        size = -(-x.shape[axis] // parts)
        sizes = [min(size, x.shape[axis] - k * size) for k in range(parts)]
    ends = np.cumsum(sizes).tolist()
    lead = (slice(None),) * (axis % len(x.shape))
    return [fn.getitem(x, (*lead, slice(end - size, end))) for size, end in zip(sizes, ends, strict=True)]


@node_rule("Slice")
def _slice(run: OnnxGraphRun, settings: dict[str, Any], x: Any, *bounds: Any) -> Any:
    names = ("starts", "ends", "axes", "steps")
    given = {name: list(settings[name]) for name in names if name in settings}
    for name, bound in zip(names, bounds, strict=False):
        if bound is not None:
            given[name] = read_integers(bound, "bounds")
    starts, ends = given["starts"], given["ends"]
    axes = given.get("axes") or list(range(len(starts)))
    steps = given.get("steps") or [1] * len(starts)
    index = [slice(None)] * len(x.shape)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        stop = None if step < 0 and end < -x.shape[axis] else end
        index[axis] = slice(start, stop, step)
    return fn.getitem(x, tuple(index))


@node_rule("Gather")
def _gather(run: OnnxGraphRun, settings: dict[str, Any], x: Any, indices: Any) -> Any:
    if not isinstance(x, Port) and not isinstance(indices, Port):
        return np.take(x, indices, axis=settings.get("axis", 0))
    return fn.take(run.lift(x), indices, axis=settings.get("axis", 0))


@node_rule("GatherElements")
def _gather_elements(run: OnnxGraphRun, settings: dict[str, Any], x: Any, indices: Any) -> Any:
    axis = settings.get("axis", 0) % len(x.shape)
    cut = [slice(None) if k == axis else slice(0, n) for k, n in enumerate(indices.shape)]
    return fn.take_along_axis(fn.getitem(run.lift(x), tuple(cut)), indices, axis)


@node_rule("ScatterElements")
def _scatter_elements(run: OnnxGraphRun, settings: dict[str, Any], x: Any, indices: Any, updates: Any) -> Any:
    kind = settings.get("reduction", b"none")
    if kind != b"add":
        raise NoRuleError(f"ScatterElements with reduction {kind.decode()} is not known to wiregrad")
    rows = read_numbers(indices, "the indices of ScatterElements")
    axis = settings.get("axis", 0) % len(x.shape)
    grid = list(np.broadcast_arrays(*np.ogrid[tuple(slice(n) for n in rows.shape)]))
    grid[axis] = rows % x.shape[axis]
    places = np.ravel_multi_index(tuple(grid), tuple(x.shape)).reshape(-1)
    flat = fn.reshape(run.lift(updates), (places.size,))
    added = fn.scatter_add(np.zeros(math.prod(x.shape), x.dtype), places, flat)
    return run.lift(x) + fn.reshape(added, tuple(x.shape))


@node_rule("OneHot")
def _one_hot(run: OnnxGraphRun, settings: dict[str, Any], indices: Any, depth: Any, values: Any) -> Any:
    (count,) = read_integers(depth, "the depth of OneHot")
    rows = read_numbers(indices, "the indices of OneHot")
    check_elements([*rows.shape, count])
    off, on = read_numbers(values, "the values of OneHot").tolist()
    axis = settings.get("axis", -1)
    return np.moveaxis(np.where((rows[..., None] % count) == np.arange(count), on, off), -1, axis)


@node_rule("Pad")
def _pad(
    run: OnnxGraphRun, settings: dict[str, Any], x: Any, pads: Any = None, value: Any = None, axes: Any = None
) -> Any:
    widths = settings["pads"] if pads is None else read_integers(pads, "pads")
    mode = settings.get("mode", b"constant").decode()
    if mode not in ("constant", "reflect", "edge", "wrap"):
        raise NoRuleError(f"padding by {mode} is not known to wiregrad")
    found = range(len(x.shape)) if axes is None else [k % len(x.shape) for k in read_integers(axes, "axes")]
    border = [(0, 0)] * len(x.shape)
    half = len(widths) // 2
    for number, axis in enumerate(found):
        border[axis] = (widths[number], widths[half + number])
    check_elements([n + low + high for n, (low, high) in zip(x.shape, border, strict=True)])
    if any(low < 0 or high < 0 for low, high in border):
        raise NoRuleError("padding by less than 0 is not known to wiregrad")
    if mode != "constant":
        return fn.pad(run.lift(x), border, mode=mode)
    filler = settings.get("value", 0.0) if value is None else read_numbers(value, "the padding").reshape(-1)[0]
    return fn.pad(run.lift(x), border, constant_values=filler)


@node_rule("Einsum")
def _einsum(run: OnnxGraphRun, settings: dict[str, Any], *xs: Any) -> Any:
    return fn.einsum(settings["equation"].decode(), *[run.lift(x) for x in xs])


@node_rule("Trilu")
def _trilu(run: OnnxGraphRun, settings: dict[str, Any], x: Any, k: Any = None) -> Any:
    (shift,) = [0] if k is None else read_integers(k, "the diagonal")
    return (fn.triu if settings.get("upper", 1) else fn.tril)(run.lift(x), shift)


@node_rule("TopK")
def _top_k(run: OnnxGraphRun, settings: dict[str, Any], x: Any, k: Any) -> Any:
    (count,) = read_integers(k, "the count of TopK")
    axis = settings.get("axis", -1) % len(x.shape)
    key = TABLE["negative"](run.lift(x)) if settings.get("largest", 1) else run.lift(x)
    order = fn.argsort(key, axis=axis, stable=True)
    best = fn.getitem(order, (*(slice(None),) * axis, slice(0, count)))
    return [fn.take_along_axis(run.lift(x), best, axis), best]


@node_rule("DepthToSpace")
def _depth_to_space(run: OnnxGraphRun, settings: dict[str, Any], x: Any) -> Any:
    size = settings["blocksize"]
    n, c, h, w = x.shape
    if settings.get("mode", b"DCR") == b"DCR":
        split, order = (n, size, size, c // size**2, h, w), (0, 3, 4, 1, 5, 2)
    else:
        split, order = (n, c // size**2, size, size, h, w), (0, 1, 4, 2, 5, 3)
    return fn.reshape(fn.transpose(fn.reshape(x, split), order), (n, c // size**2, h * size, w * size))


@node_rule("Resize", "Upsample")
def _resize(run: OnnxGraphRun, settings: dict[str, Any], x: Any, *rest: Any) -> Any:
    scales = rest[-1] if len(rest) < 3 else rest[1]
    wanted = None if len(rest) < 3 else rest[2]
    if wanted is not None:
        factors = [n / m for n, m in zip(read_integers(wanted, "sizes"), x.shape, strict=True)]
    else:
        factors = read_numbers(scales, "scales").tolist()
    is_plain = settings.get("mode", b"nearest") == b"nearest" and all(f == int(f) and f >= 1 for f in factors)
    if not is_plain:
        raise NoRuleError("Resize is known to wiregrad for the nearest element and whole factors only")
    check_elements([int(n * f) for n, f in zip(x.shape, factors, strict=True)])
    y = run.lift(x)
    for axis, factor in enumerate(factors):
        y = y if factor == 1 else fn.repeat(y, int(factor), axis=axis)
    return y


RECURRENT_FUNCTIONS = {"Sigmoid": "sigmoid", "Tanh": "tanh", "Relu": "relu"}
"""The ops of the functions that recurrent layers apply to their gates."""


class RecurrentCell:
    """The weights of one direction of a recurrent layer, and what one step of it computes."""

    def __init__(self, run: OnnxGraphRun, functions: Sequence[str], weights: Sequence[Port]) -> None:
        self.run = run
        self.functions = functions
        self.w, self.r, self.w_bias, self.r_bias = weights

    def activate(self, k: int, x: Port) -> Any:
        """Apply the function of a kind of gate."""
        return self.run.apply_op(RECURRENT_FUNCTIONS[self.functions[k]], x)

    def add_up(self, x: Port, h: Port) -> Any:
        """Return what all gates receive from the input and from the state."""
        return self.project_input(x) + self.project_state(h)

    def project_input(self, x: Port) -> Any:
        """Return what all gates receive from the input."""
        return fn.matmul(x, fn.swapaxes(self.w, 0, 1)) + self.w_bias

    def project_state(self, h: Port) -> Any:
        """Return what all gates receive from the state."""
        return fn.matmul(h, fn.swapaxes(self.r, 0, 1)) + self.r_bias

    def step(self, x: Port, state: tuple[Port, ...], settings: Mapping[str, Any]) -> tuple[Port, ...]:
        """Return the state after one step."""
        raise NotImplementedError


class PlainCell(RecurrentCell):
    """A step of `RNN`."""

    def step(self, x: Port, state: tuple[Port, ...], settings: Mapping[str, Any]) -> tuple[Port, ...]:
        """Return the state after one step."""
        return (self.activate(0, self.add_up(x, state[0])),)


class LstmCell(RecurrentCell):
    """A step of `LSTM`; the gates come in the order input, output, forget, cell."""

    def step(self, x: Port, state: tuple[Port, ...], settings: Mapping[str, Any]) -> tuple[Port, ...]:
        """Return the state and the cell after one step."""
        h, c = state
        gates = split_gates(self.add_up(x, h), 4)
        c = self.activate(0, gates[2]) * c + self.activate(0, gates[0]) * self.activate(1, gates[3])
        return self.activate(0, gates[1]) * self.activate(2, c), c


class GruCell(RecurrentCell):
    """A step of `GRU`; the gates come in the order update, reset, hidden."""

    def step(self, x: Port, state: tuple[Port, ...], settings: Mapping[str, Any]) -> tuple[Port, ...]:
        """Return the state after one step."""
        (h,) = state
        from_input = split_gates(self.project_input(x), 3)
        from_state = split_gates(self.project_state(h), 3)
        update = self.activate(0, from_input[0] + from_state[0])
        reset = self.activate(0, from_input[1] + from_state[1])
        if settings.get("linear_before_reset", 0):
            hidden = reset * from_state[2]
        else:
            rows = slice(2 * h.shape[-1], None)
            weights = fn.getitem(self.r, (rows,))
            hidden = fn.matmul(reset * h, fn.swapaxes(weights, 0, 1)) + fn.getitem(self.r_bias, (rows,))
        hidden = self.activate(1, from_input[2] + hidden)
        return (update * (h - hidden) + hidden,)


def split_gates(x: Port, count: int) -> list[Port]:
    """Return the gates of a recurrent layer, which lie side by side."""
    size = x.shape[-1] // count
    return [fn.getitem(x, (slice(None), slice(k * size, (k + 1) * size))) for k in range(count)]


CELLS: dict[str, tuple[type[RecurrentCell], int, tuple[str, ...]]] = {
    "RNN": (PlainCell, 1, ("Tanh",)),
    "GRU": (GruCell, 3, ("Sigmoid", "Tanh")),
    "LSTM": (LstmCell, 4, ("Sigmoid", "Tanh", "Tanh")),
}
"""The cell of each recurrent layer, the number of its gates, and its usual functions."""


def _make_recurrent(kind: str) -> NodeRule:
    """Return the rule of a recurrent layer."""
    cell, gates, usual = CELLS[kind]

    def run_layer(run: OnnxGraphRun, settings: dict[str, Any], *operands: Any) -> list[Any]:
        x, w, r, bias, lengths, h, c, peepholes = [*operands, *[None] * 8][:8]
        check_recurrent_settings(settings, x, lengths, peepholes)
        directions, hidden = w.shape[0], r.shape[-1]
        functions = read_gate_functions(settings, usual * directions)
        bias = np.zeros((directions, 2 * gates * hidden), x.dtype) if bias is None else bias
        zeros = np.zeros((directions, x.shape[1], hidden), x.dtype)
        starts = [run.lift(zeros if part is None else part) for part in ((h, c) if kind == "LSTM" else (h,))]
        rows, ends = [], []
        for k in range(directions):
            one = cell(run, functions[k * len(usual) :], pick_weights(run, k, w, r, bias))
            backward = as_text(settings.get("direction", b"forward")) == "reverse" or k == 1
            states = run_cell(one, run.lift(x), tuple(fn.getitem(part, (k,)) for part in starts), settings, backward)
            rows.append(fn.stack([state[0] for state in (states[::-1] if backward else states)]))
            ends.append(states[-1])
        return [fn.stack(rows, axis=1), *(fn.stack(list(parts)) for parts in zip(*ends, strict=True))]

    return run_layer


def read_gate_functions(settings: Mapping[str, Any], usual: Sequence[str]) -> list[str]:
    """Return the names of the functions of the gates, for each direction."""
    functions = [as_text(name) for name in settings.get("activations", usual)]
    unknown = sorted(set(functions) - RECURRENT_FUNCTIONS.keys())
    if unknown:
        raise NoRuleError(f"the functions {', '.join(unknown)} of recurrent layers are not known to wiregrad")
    return functions


def pick_weights(run: OnnxGraphRun, direction: int, w: Any, r: Any, bias: Any) -> list[Port]:
    """Return the weights of one direction, and the biases of the input and of the state."""
    size = w.shape[1]
    halves = [fn.getitem(run.lift(bias), (direction, half)) for half in (slice(0, size), slice(size, None))]
    return [fn.getitem(run.lift(w), (direction,)), fn.getitem(run.lift(r), (direction,)), *halves]


def check_recurrent_settings(settings: Mapping[str, Any], x: Any, lengths: Any, peepholes: Any) -> None:
    """Raise `NoRuleError` for what the rules of recurrent layers do not compute."""
    unknown = [name for name in ("clip", "input_forget", "layout") if settings.get(name, 0)]
    if peepholes is not None:
        unknown.append("peepholes")
    if lengths is not None and set(read_integers(lengths, "lengths")) != {x.shape[0]}:
        unknown.append("sequence_lens")
    if unknown:
        raise NoRuleError(f"{' and '.join(unknown)} of recurrent layers are not known to wiregrad")


def run_cell(
    cell: RecurrentCell, x: Port, state: tuple[Port, ...], settings: Mapping[str, Any], backward: bool
) -> list[tuple[Port, ...]]:
    """Run a cell over the rows of a sequence, from either end, and return the state after each row."""
    recording = cell.run.builder.recording
    around = recording.group
    states = []
    for step in range(x.shape[0])[:: -1 if backward else 1]:
        cell.run.count_step()
        with cell.run.builder.at(None, f"{around}/step {step}" if around else f"step {step}"):
            state = cell.step(fn.getitem(x, (step,)), state, settings)
        states.append(state)
    return states


NODE_RULES.update({kind: _make_recurrent(kind) for kind in CELLS})


@node_rule("If")
def _if(run: OnnxGraphRun, settings: dict[str, Any], condition: Any) -> list[Any]:
    holds = bool(read_numbers(condition, "a condition").all())
    return run.run_graph(settings["then_branch" if holds else "else_branch"], {})


@node_rule("Loop")
def _loop(run: OnnxGraphRun, settings: dict[str, Any], count: Any, condition: Any, *state: Any) -> list[Any]:
    body = settings["body"]
    names = [value.name for value in body.input]
    limit = math.inf if count is None else int(read_numbers(count, "the number of steps of a loop"))
    goes_on = condition is None or bool(read_numbers(condition, "the condition of a loop"))
    columns: list[list[Any]] = [[] for _ in body.output[1 + len(state) :]]
    step = 0
    while goes_on and step < limit:
        run.count_step()
        results = run.run_graph(body, dict(zip(names, [np.array(step), np.array(True), *state], strict=True)))
        goes_on = bool(read_numbers(results[0], "the condition of a loop"))
        state = tuple(results[1 : 1 + len(state)])
        for column, value in zip(columns, results[1 + len(state) :], strict=True):
            column.append(value)
        step += 1
    if columns and not step:
        raise NoRuleError("a loop without steps that collects values is not known to wiregrad")
    return [*state, *(fn.stack([run.lift(value) for value in column]) for column in columns)]


def read_onnx(
    path: str | PathLike[str], *, shapes: Mapping[str, Sequence[int]] | None = None, weights: bool = True
) -> tuple[CircuitGraph, dict[str, Any]]:
    """Return the circuit of an ONNX file, and the values of those inputs that the file has (its weights)."""
    with require_package("onnx", "from_onnx"):
        import onnx  # noqa: PLC0415 - optional
    model = read_onnx_model(onnx, Path(path))
    check_known_nodes(path, model.graph)
    opset = max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=1)
    run = OnnxGraphRun(onnx, opset)
    _add_graph_inputs(run, model.graph, dict(shapes or {}), weights=weights)
    for number, node in enumerate(model.graph.node):
        _run_node(run, node, number)
    return _build_imported(run, model.graph), run.point


def read_onnx_model(onnx: Any, path: Path) -> Any:
    """Read a file that may come from a stranger: everything must be in it, well formed and in order."""
    data = files.read_file_bytes(path, MAX_FILE_BYTES)
    try:
        model = onnx.load_model_from_string(data)
        outside = [tensor.name for tensor in model.graph.initializer if tensor.data_location == tensor.EXTERNAL]
        if not outside:
            onnx.checker.check_model(model)
    except Exception as error:
        if isinstance(error, MemoryError):
            raise
        text = str(error).strip().partition("\n")[0][:200]
        raise FileFormatError(f"{path} is not a valid ONNX file: {text}") from None
    if outside:
        raise FileFormatError(
            f"{path} keeps {outside[0]!r} and perhaps more in other files, which are not read: save the model as one "
            "file, with save_as_external_data=False"
        )
    return model


def check_known_nodes(path: str | PathLike[str], graph: Any) -> None:
    """Raise one `UnknownOpsError` that lists all nodes of a graph that wiregrad does not know."""
    unknown: dict[str, list[Any]] = {}
    for node in list_nodes(graph):
        if node.domain not in ("", "ai.onnx") or node.op_type not in {**SAME_OPS, **NODE_RULES}:
            kind = f"{as_text(node.domain)}.{as_text(node.op_type)}" if node.domain else as_text(node.op_type)
            unknown.setdefault(kind, []).append(as_text(node.name) or None)
    if unknown:
        raise UnknownOpsError(str(path), unknown)


def list_nodes(graph: Any) -> Iterator[Any]:
    """Yield the nodes of a graph, and those of the graphs inside of its nodes."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
                yield from list_nodes(inner)


def _add_graph_inputs(run: OnnxGraphRun, graph: Any, shapes: Mapping[str, Sequence[int]], *, weights: bool) -> None:
    """Add the inputs of a graph and what it stores: floats with axes are inputs too if they are to be trained."""
    stored = {tensor.name for tensor in graph.initializer}
    known = [value.name for value in graph.input if value.name not in stored]
    for name in shapes:
        if name not in known:
            raise InputError(f"{graph.name} has no input called {name!r}{suggest_name(name, known)}")
    for value in graph.input:
        if value.name not in stored:
            run.add_input(value.name, *_read_type(run, value, shapes))
    for tensor in graph.initializer:
        array = run.onnx.numpy_helper.to_array(tensor)
        if weights and array.dtype.kind == "f" and array.ndim:
            run.add_input(tensor.name, array.dtype, array.shape, array)
        else:
            run.values[tensor.name] = array


def _read_type(run: OnnxGraphRun, value: Any, shapes: Mapping[str, Sequence[int]]) -> tuple[Any, tuple[int, ...]]:
    kind = value.type.tensor_type
    dtype = run.onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
    lengths = [part.dim_value if part.HasField("dim_value") else part.dim_param or "?" for part in kind.shape.dim]
    if value.name in shapes:
        wanted = tuple(int(n) for n in shapes[value.name])
        fits = len(wanted) == len(lengths) and all(
            not isinstance(n, int) or n == m for n, m in zip(lengths, wanted, strict=True)
        )
        if not fits:
            raise ShapeError(f"input {value.name} has shape ({', '.join(map(str, lengths))}) in the file; got {wanted}")
        return dtype, wanted
    if any(not isinstance(n, int) for n in lengths):
        example = ", ".join(str(n) if isinstance(n, int) else "2" for n in lengths)
        raise ShapeError(
            f"input {value.name} has shape ({', '.join(map(str, lengths))}), which is not fixed: pass "
            f"shapes={{{value.name!r}: ({example},)}}"
        )
    return dtype, tuple(map(int, lengths))


_REFUSALS = (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError, AssertionError)


def _run_node(run: OnnxGraphRun, node: Any, number: int) -> None:
    name = as_text(node.name)
    title = f"node {name or number} ({node.op_type})"
    group = [part for part in name.split("/")[:-1] if is_group_label(part)]
    try:
        with run.builder.at(None, "/".join(group)):
            run.run_node(node)
    except NoRuleError as error:
        raise NoRuleError(f"{title}: {error}") from None
    except _REFUSALS as error:
        raise FileFormatError(f"{title} cannot be computed: {str(error).partition(chr(10))[0]}") from None
    for name in node.output:
        _name_output(run, name)


def _name_output(run: OnnxGraphRun, name: str) -> None:
    """Give the wire of a value the value's name."""
    wire = run.values.get(name)
    recording = run.builder.recording
    if name and isinstance(wire, Port) and not recording.has_name(wire.index):
        recording.add_name(wire.index, recording.free_name(as_label(name)))


def _build_imported(run: OnnxGraphRun, graph: Any) -> CircuitGraph:
    labels: dict[str, Port] = {}
    for value in graph.output:
        if value.name not in run.values:
            raise FileFormatError(f"no node computes the output {value.name}")
        wire = run.lift(run.values[value.name])
        label = as_label(value.name)
        while label in labels or run.builder.recording.names.get(label, wire.index) != wire.index:
            label += "_"
        labels[label] = wire
    return run.builder.build(name=as_label(graph.name or "model"), labels=labels)
