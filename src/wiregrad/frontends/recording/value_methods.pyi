# Written by `make derive` from the op table.
from collections.abc import Sequence
from types import EllipsisType
from typing import Any, NoReturn, SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from wiregrad.frontends.recording.dispatch import UpdatableElements
from wiregrad.frontends.recording.value import Value
from wiregrad.ir import Op, Port

PlainArray: TypeAlias = complex | np.number[Any] | np.bool | NDArray[Any]
Operand: TypeAlias = Value | Port | PlainArray | list[Any] | tuple[Any, ...]
Index: TypeAlias = SupportsIndex | slice | EllipsisType | Value | NDArray[Any] | list[Any] | tuple[Any, ...] | None

class ValueMethods:
    """The methods and operators that values have from the op table."""
    @property
    def T(self) -> Value:
        """The array with its axes reversed."""
    def __abs__(self) -> Value: ...
    def __add__(self, other: Operand) -> Value: ...
    def __and__(self, other: Operand) -> Any: ...
    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any: ...
    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **settings: Any) -> Any: ...
    def __floordiv__(self, other: Operand) -> Value: ...
    def __ge__(self, other: Operand) -> Any: ...
    def __getitem__(self, index: Index) -> Value: ...
    def __gt__(self, other: Operand) -> Any: ...
    def __invert__(self) -> Any: ...
    def __le__(self, other: Operand) -> Any: ...
    def __lt__(self, other: Operand) -> Any: ...
    def __matmul__(self, other: Operand) -> Value: ...
    def __mod__(self, other: Operand) -> Value: ...
    def __mul__(self, other: Operand) -> Value: ...
    def __neg__(self) -> Value: ...
    def __or__(self, other: Operand) -> Any: ...
    def __pos__(self) -> Value: ...
    def __pow__(self, other: Operand) -> Value: ...
    def __radd__(self, other: Operand) -> Value: ...
    def __rfloordiv__(self, other: Operand) -> Value: ...
    def __rmatmul__(self, other: Operand) -> Value: ...
    def __rmod__(self, other: Operand) -> Value: ...
    def __rmul__(self, other: Operand) -> Value: ...
    def __rpow__(self, other: Operand) -> Value: ...
    def __rsub__(self, other: Operand) -> Value: ...
    def __rtruediv__(self, other: Operand) -> Value: ...
    def __sub__(self, other: Operand) -> Value: ...
    def __truediv__(self, other: Operand) -> Value: ...
    def __wiregrad_apply__(self, op: Op, operands: tuple[Any, ...]) -> Any: ...
    def abs(self) -> Value:
        """Magnitude; slope 0 at 0."""
    def absolute(self) -> Value:
        """Magnitude; slope 0 at 0."""
    def acos(self) -> Value:
        """Angle whose cosine is the wire."""
    def acosh(self) -> Value:
        """Inverse of cosh."""
    def add(self, b: Operand, /) -> Value:
        """Sum of two wires."""
    def all(self, axis: int | Sequence[int] | None = None, *, keepdims: bool = False, where: Any = True) -> Any:
        """Whether no element is 0."""
    def any(self, axis: int | Sequence[int] | None = None, *, keepdims: bool = False, where: Any = True) -> Any:
        """Whether at least one element is not 0."""
    def arccos(self) -> Value:
        """Angle whose cosine is the wire."""
    def arccosh(self) -> Value:
        """Inverse of cosh."""
    def arcsin(self) -> Value:
        """Angle whose sine is the wire."""
    def arcsinh(self) -> Value:
        """Inverse of sinh."""
    def arctan(self) -> Value:
        """Angle whose tangent is the wire."""
    def arctan2(self, b: Operand, /) -> Value:
        """Angle of the point (b, a) from the x axis; slopes 0 at the origin."""
    def arctanh(self) -> Value:
        """Inverse of tanh."""
    def argmax(self, axis: int | Sequence[int] | None = None, *, keepdims: bool = False) -> Any:
        """Index of the largest element; the first if several are."""
    def argmin(self, axis: int | Sequence[int] | None = None, *, keepdims: bool = False) -> Any:
        """Index of the smallest element; the first if several are."""
    def argsort(self, axis: int | Sequence[int] | None = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> NDArray[Any]:
        """Indices that sort an axis."""
    def asin(self) -> Value:
        """Angle whose sine is the wire."""
    def asinh(self) -> Value:
        """Inverse of sinh."""
    def astype(self, dtype: DTypeLike | None, order: str = 'K', casting: str = 'unsafe', subok: bool = True, copy: bool = True) -> Value:
        """The same numbers in another dtype."""
    @property
    def at(self) -> UpdatableElements:
        """The elements, for updates in JAX's words: `x.at[i].set(v)`."""
    def atan(self) -> Value:
        """Angle whose tangent is the wire."""
    def atan2(self, b: Operand, /) -> Value:
        """Angle of the point (b, a) from the x axis; slopes 0 at the origin."""
    def atanh(self) -> Value:
        """Inverse of tanh."""
    def bessel_i(self, x: Operand, /) -> Value:
        """Modified Bessel function of the first kind, of a whole order n."""
    def bessel_ie(self, x: Operand, /) -> Value:
        """exp(-abs(x)) times the modified Bessel function of the first kind, of a whole order n; without overflow."""
    def bessel_j(self, x: Operand, /) -> Value:
        """Bessel function of the first kind, of a whole order n."""
    def bessel_k(self, x: Operand, /) -> Value:
        """Modified Bessel function of the second kind, of a whole order n."""
    def bessel_y(self, x: Operand, /) -> Value:
        """Bessel function of the second kind, of a whole order n."""
    def beta(self, b: Operand, /) -> Value:
        """Beta function: gamma(a) gamma(b) / gamma(a + b)."""
    def beta_moment(self, n: Operand, a: Operand, b: Operand, x: Operand, /) -> Value:
        """Integral of the centred powers log(t)**m log(1 - t)**n over the beta distribution, for t from 0 to x."""
    def betainc(self, b: Operand, x: Operand, /) -> Value:
        """Cumulative probability of x under the beta distribution: the regularized incomplete beta function."""
    def betaincc(self, b: Operand, x: Operand, /) -> Value:
        """1 - betainc(a, b, x), exact for x near 1."""
    def betaln(self, b: Operand, /) -> Value:
        """Logarithm of the absolute value of the beta function."""
    def binom(self, k: Operand, /) -> Value:
        """Binomial coefficient: n over k, also between whole numbers."""
    def bmm(self, b: Operand, /) -> Value:
        """Product of matrices, the last two axes; the axes in front broadcast, and an array of one axis is a vector."""
    def byteswap(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuses: a recorded value does not change in place; write x.data.byteswap()."""
    def cbrt(self) -> Value:
        """Cube root."""
    def ceil(self) -> Value:
        """Smallest whole number not below the wire."""
    def clamp(self, min: object = None, max: object = None) -> Value:
        """Return the elements limited to an interval."""
    def clip(self, a_min: Operand | None = None, a_max: Operand | None = None, *, min: Operand | None = None, max: Operand | None = None) -> Value:
        """The array between two bounds, either of which may be None."""
    def clone(self) -> Value:
        """Return a copy whose elements may be assigned."""
    def compress(self, condition: Operand, axis: int | None = None) -> Value:
        """Slices along an axis where a condition holds."""
    def conj(self) -> Value:
        """The complex conjugate."""
    def conjugate(self) -> Value:
        """The complex conjugate."""
    def copy(self, order: str = 'K', subok: bool = False) -> Value:
        """The array itself: recorded arrays never change, so no copy is needed."""
    def copysign(self, b: Operand, /) -> Value:
        """Magnitude of the first wire with the sign of the second; a NaN counts as positive."""
    def cos(self) -> Value:
        """Cosine of an angle in radians."""
    def cosh(self) -> Value:
        """Hyperbolic cosine."""
    def cumprod(self, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None) -> Value:
        """Running product along an axis, or of everything in one row; exact where factors are 0."""
    def cumsum(self, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None) -> Value:
        """Running sum along an axis, or of everything in one row."""
    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Value:
        """The elements where two indices differ by an offset."""
    def digamma(self) -> Value:
        """Slope of gammaln."""
    def dim(self) -> int:
        """Return the number of axes."""
    def div(self, b: Operand, /) -> Value:
        """Quotient of two wires."""
    def divide(self, b: Operand, /) -> Value:
        """Quotient of two wires."""
    def dot(self, b: Operand) -> Value:
        """Sum of products over the last axis of a and the last but one of b."""
    def dump(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuses: bytes carry no gradient; write v.data.dump()."""
    def dumps(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuses: bytes carry no gradient; write v.data.dumps()."""
    def entr(self) -> Value:
        """-x log(x), the entropy of a probability; 0 at 0."""
    def equal(self, b: Operand, /) -> Any:
        """Whether a = b."""
    def erf(self) -> Value:
        """Error function."""
    def erfc(self) -> Value:
        """1 - erf(x), exact for large x."""
    def erfcinv(self) -> Value:
        """Inverse of erfc."""
    def erfcx(self) -> Value:
        """exp(x**2) erfc(x), without underflow."""
    def erfinv(self) -> Value:
        """Inverse of erf."""
    def exp(self) -> Value:
        """e to the power of the wire."""
    def exp2(self) -> Value:
        """2 to the power of the wire."""
    def expand_as(self, other: Any) -> Value:
        """Return the array broadcast to the shape of another."""
    def expm1(self) -> Value:
        """exp(x) - 1, exact near 0."""
    def fill(self, *args: Any, **kwargs: Any) -> None:
        """Change a copy or a result in place; of any other value, write x = np.full_like(x, value)."""
    @property
    def flat(self) -> Value:
        """All elements in a row, to iterate over and to index."""
    def flatten(self, order: str = 'C') -> Value:
        """The elements in one row."""
    def floor(self) -> Value:
        """Largest whole number not above the wire."""
    def floor_divide(self, b: Operand, /) -> Value:
        """Largest whole number not above a / b."""
    def fmax(self, b: Operand, /) -> Value:
        """The larger of two wires; NaN only if both are NaN."""
    def fmin(self, b: Operand, /) -> Value:
        """The smaller of two wires; NaN only if both are NaN."""
    def gamma(self) -> Value:
        """Gamma function: (x - 1)! for a whole number x."""
    def gamma_moment(self, a: Operand, x: Operand, /) -> Value:
        """Integral of (log t - digamma(a))**n over the gamma distribution of shape a, for t from 0 to x."""
    def gammainc(self, x: Operand, /) -> Value:
        """Cumulative probability of x under the gamma distribution of shape a: the lower incomplete gamma function."""
    def gammaincc(self, x: Operand, /) -> Value:
        """1 - gammainc(a, x), exact for large x."""
    def gammaln(self) -> Value:
        """Logarithm of the absolute value of the gamma function."""
    def gelu(self) -> Value:
        """x times the normal distribution's cumulative probability of x."""
    def getitem(self, index: Any, /) -> Value:
        """Elements by index: integers, slices, None, ..., boolean masks and integer arrays."""
    def greater(self, b: Operand, /) -> Any:
        """Whether a > b."""
    def greater_equal(self, b: Operand, /) -> Any:
        """Whether a >= b."""
    def heaviside(self, b: Operand, /) -> Value:
        """0 for a < 0, 1 for a > 0, b at a = 0."""
    def hypot(self, b: Operand, /) -> Value:
        """Length of the vector (a, b); slopes 0 at the origin."""
    @property
    def imag(self) -> Value:
        """The imaginary part."""
    def isfinite(self) -> Any:
        """Whether the wire is neither NaN nor infinite."""
    def isinf(self) -> Any:
        """Whether the wire is infinite."""
    def isnan(self) -> Any:
        """Whether the wire is NaN."""
    def itemset(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuses: a recorded value does not change in place; write x = wg.put(x, index, value)."""
    def leaky_relu(self, slope: Operand = 0.01, /) -> Value:
        """The wire where it is positive, else the wire times a slope (0.01 if left out)."""
    def less(self, b: Operand, /) -> Any:
        """Whether a < b."""
    def less_equal(self, b: Operand, /) -> Any:
        """Whether a <= b."""
    def ln(self) -> Value:
        """Natural logarithm."""
    def log(self) -> Value:
        """Natural logarithm."""
    def log10(self) -> Value:
        """Logarithm to base 10."""
    def log1p(self) -> Value:
        """log(1 + x), exact near 0."""
    def log2(self) -> Value:
        """Logarithm to base 2."""
    def log_ndtr(self) -> Value:
        """Logarithm of the normal distribution's cumulative probability, exact in both tails."""
    def log_softmax(self, axis: int | Sequence[int] | None = -1) -> Value:
        """log(softmax(x)) along an axis, exact where softmax is nearly 0."""
    def logaddexp(self, b: Operand, /) -> Value:
        """log(exp(a) + exp(b)) without overflow."""
    def logaddexp2(self, b: Operand, /) -> Value:
        """log2(2**a + 2**b) without overflow."""
    def logical_and(self, b: Operand, /) -> Any:
        """Whether both hold."""
    def logical_not(self) -> Any:
        """Whether it does not hold."""
    def logical_or(self, b: Operand, /) -> Any:
        """Whether at least one holds."""
    def logical_xor(self, b: Operand, /) -> Any:
        """Whether exactly one holds."""
    def logsumexp(self, axis: int | Sequence[int] | None = None, *, keepdims: bool = False) -> Value:
        """log(sum(exp(x))) along axes, or of everything, without overflow."""
    @property
    def mT(self) -> Value:
        """The array with its last two axes swapped."""
    def masked_fill(self, mask: object, value: object) -> Value:
        """Return the array with a number where a mask is true."""
    def matmul(self, b: Operand, /) -> Value:
        """Product of matrices, the last two axes; the axes in front broadcast, and an array of one axis is a vector."""
    def max(self, axis: int | Sequence[int] | None = None, *, keepdims: bool = False, initial: Operand | None = None, where: Any = True) -> Any:
        """Largest element along axes, or of all; equal ones share the gradient."""
    def maximum(self, b: Operand, /) -> Value:
        """The larger of two wires; NaN if one is NaN; half the gradient each on a tie."""
    def mean(self, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None, *, keepdims: bool = False, where: Any = True) -> Value:
        """Arithmetic mean along axes, or of everything."""
    def min(self, axis: int | Sequence[int] | None = None, *, keepdims: bool = False, initial: Operand | None = None, where: Any = True) -> Any:
        """Smallest element along axes, or of all; equal ones share the gradient."""
    def minimum(self, b: Operand, /) -> Value:
        """The smaller of two wires; NaN if one is NaN; half the gradient each on a tie."""
    def mm(self, b: Operand, /) -> Value:
        """Product of matrices, the last two axes; the axes in front broadcast, and an array of one axis is a vector."""
    def mod(self, b: Operand, /) -> Value:
        """Remainder of a / b, with the sign of b."""
    def mul(self, b: Operand, /) -> Value:
        """Product of two wires."""
    def multiply(self, b: Operand, /) -> Value:
        """Product of two wires."""
    def ndtri(self) -> Value:
        """Inverse of the normal distribution's cumulative probability."""
    def neg(self) -> Value:
        """The wire with the opposite sign."""
    def negative(self) -> Value:
        """The wire with the opposite sign."""
    def nonzero(self) -> tuple[NDArray[Any], ...]:
        """The indices of the elements that are not 0, one array per axis."""
    def not_equal(self, b: Operand, /) -> Any:
        """Whether a and b differ."""
    def numel(self) -> int:
        """Return the number of elements."""
    def numpy(self) -> Any:
        """Return a constant as a NumPy array; any other value raises, since its gradient would be lost."""
    def partition(self, *args: Any, **kwargs: Any) -> None:
        """Change a copy or a result in place; of any other value, write x = np.partition(x, kth)."""
    def permute(self, *dims: Any) -> Value:
        """Return the array with its axes in another order."""
    def polygamma(self, x: Operand, /) -> Value:
        """Derivative of order n of digamma."""
    def positive(self) -> Value:
        """The wire itself."""
    def pow(self, b: Operand, /) -> Value:
        """First wire to the power of the second."""
    def power(self, b: Operand, /) -> Value:
        """First wire to the power of the second."""
    def prod(self, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None, *, keepdims: bool = False, initial: Operand | None = None, where: Any = True) -> Value:
        """Product along axes, or of everything; exact where factors are 0."""
    def put(self, *args: Any, **kwargs: Any) -> None:
        """Change a copy or a result in place; of any other value, write x = wg.put(x, index, values)."""
    def ravel(self, order: str = 'C') -> Value:
        """The elements in one row."""
    @property
    def real(self) -> Value:
        """The real part."""
    def reciprocal(self) -> Value:
        """One over the wire."""
    def rel_entr(self, b: Operand, /) -> Value:
        """a log(a / b), the relative entropy of two probabilities; 0 where a = 0."""
    def relu(self) -> Value:
        """The wire where it is positive, else 0; slope 0 at 0."""
    def relu6(self) -> Value:
        """The wire between 0 and 6, else the bound; slope 0 on a bound."""
    def repeat(self, repeats: Any, axis: int | None = None) -> Value:
        """Each element several times in a row."""
    def reshape(self, *lengths: Any, shape: int | Sequence[int] | None = None, order: str = 'C', copy: bool | None = None) -> Value:
        """The same elements in another shape; one length may be -1."""
    def resize(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuses: a recorded value does not change in place; write x = np.resize(x, shape)."""
    def round(self, decimals: int = 0) -> Value:
        """Numbers rounded to so many decimals; halves go to the even neighbour."""
    def searchsorted(self, v: Any, side: str = 'left', sorter: Any = None) -> Any:
        """Indices at which to insert elements into a sorted row."""
    def setfield(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuses: a recorded value does not change in place; write x = wg.put(x, index, values)."""
    def sigmoid(self) -> Value:
        """1 / (1 + exp(-x)) without overflow."""
    def sign(self) -> Value:
        """-1, 0 or 1."""
    def silu(self) -> Value:
        """x * sigmoid(x)."""
    def sin(self) -> Value:
        """Sine of an angle in radians."""
    def sinc(self) -> Value:
        """sin(pi x) / (pi x); 1 at 0."""
    def sinh(self) -> Value:
        """Hyperbolic sine."""
    def softmax(self, axis: int | Sequence[int] | None = -1) -> Value:
        """exp(x) / sum(exp(x)) along an axis, without overflow."""
    def softplus(self) -> Value:
        """log(1 + exp(x)) without overflow."""
    def sort(self, *args: Any, **kwargs: Any) -> None:
        """Change a copy or a result in place; of any other value, write x = np.sort(x)."""
    def split(self) -> Value:
        """Splitter: copies one wire to two readers; backward it adds."""
    def sqrt(self) -> Value:
        """Square root."""
    def square(self) -> Value:
        """The wire times itself."""
    def squeeze(self, axis: int | Sequence[int] | None = None) -> Value:
        """The array without axes of length 1."""
    def std(self, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None, *, ddof: float = 0, keepdims: bool = False, where: Any = True, mean: Any = None, correction: float | None = None) -> Value:
        """Standard deviation along axes, or of everything; where all elements are equal its gradient is 0."""
    def stdtr(self, t: Operand, /) -> Value:
        """Cumulative probability of t under Student's distribution with df degrees of freedom."""
    def sub(self, b: Operand, /) -> Value:
        """Difference of two wires."""
    def subtract(self, b: Operand, /) -> Value:
        """Difference of two wires."""
    def sum(self, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None, *, keepdims: bool = False, initial: Operand | None = None, where: Any = True) -> Value:
        """Sum along axes, or of everything."""
    def swapaxes(self, axis1: int, axis2: int) -> Value:
        """The array with two axes swapped."""
    def t(self) -> Value:
        """Return the matrix with its axes exchanged."""
    def take(self, indices: Any, axis: int | None = None, mode: str = 'raise') -> Value:
        """Elements by index along an axis, or of all in a row."""
    def tan(self) -> Value:
        """Tangent of an angle in radians."""
    def tanh(self) -> Value:
        """Hyperbolic tangent."""
    def tobytes(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuses: bytes carry no gradient; write v.data.tobytes()."""
    def tofile(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuses: bytes carry no gradient; write v.data.tofile()."""
    def tolist(self) -> Any:
        """Refuses: it would silently cut the gradient of a recorded value."""
    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Value:
        """The sum along a diagonal."""
    def transpose(self, *order: Any, axes: Any = None) -> Value:
        """The axes in another order; reversed if none is given."""
    def trunc(self) -> Value:
        """Whole part of the wire, rounded towards 0."""
    def unsqueeze(self, dim: int) -> Value:
        """Return the array with one more axis of length 1."""
    def var(self, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None, *, ddof: float = 0, keepdims: bool = False, where: Any = True, mean: Operand | None = None, correction: float | None = None) -> Value:
        """Variance along axes, or of everything."""
    def view(self, *shape: int | Sequence[int] | None, dtype: DTypeLike | None = None) -> Value:
        """The array itself, or reshaped, as PyTorch's `view`; the bits cannot be taken for another dtype."""
    def where(self, a: Operand, b: Operand, /) -> Value:
        """Second wire where the condition holds, else the third; the other one's gradient is absent, not 0."""
    def xlog1py(self, b: Operand, /) -> Value:
        """a log(1 + b), and 0 where a = 0."""
    def xlogy(self, b: Operand, /) -> Value:
        """a log(b), and 0 where a = 0."""
