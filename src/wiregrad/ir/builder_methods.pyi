# Written by `make derive` from the op table.
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from wiregrad.ir.builder import Port

WireOperand: TypeAlias = Port | str | float | np.number[Any] | np.bool

class BuilderMethods:
    """One method per op of the table: it adds a node to a builder, and returns its output wire."""
    def abs(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Magnitude; slope 0 at 0."""
    def absolute(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Magnitude; slope 0 at 0."""
    def acos(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Angle whose cosine is the wire."""
    def acosh(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Inverse of cosh."""
    def add(self, a: WireOperand, b: WireOperand, /, *, name: str | None = None) -> Port:
        """Sum of two wires."""
    def adjugate(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """The transposed matrix of cofactors: the determinant times the inverse, where there is one."""
    def adjugate_slope(self, x: WireOperand, e: WireOperand, /, *, name: str | None = None) -> Port:
        """Derivative of the adjugate of x along e; its own slope with respect to x needs an invertible matrix."""
    def all(self, x: WireOperand, /, *, axes: Sequence[int], keepdims: bool, name: str | None = None) -> Port:
        """Whether no element along axes is 0."""
    def along_axis_add(self, x: WireOperand, indices: WireOperand, /, *, axis: int, length: int, name: str | None = None) -> Port:
        """Adds elements into zeros along an axis at indices: the transpose of take_along_axis."""
    def any(self, x: WireOperand, /, *, axes: Sequence[int], keepdims: bool, name: str | None = None) -> Port:
        """Whether at least one element along axes is not 0."""
    def arccos(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Angle whose cosine is the wire."""
    def arccosh(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Inverse of cosh."""
    def arcsin(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Angle whose sine is the wire."""
    def arcsinh(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Inverse of sinh."""
    def arctan(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Angle whose tangent is the wire."""
    def arctan2(self, a: WireOperand, b: WireOperand, /, *, name: str | None = None) -> Port:
        """Angle of the point (b, a) from the x axis; slopes 0 at the origin."""
    def arctanh(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Inverse of tanh."""
    def argmax(self, x: WireOperand, /, *, axis: int = ..., out: Any = ..., keepdims: bool = ..., name: str | None = None) -> Port:
        """Index of the largest element along an axis; the first if several are."""
    def argmin(self, x: WireOperand, /, *, axis: int = ..., out: Any = ..., keepdims: bool = ..., name: str | None = None) -> Port:
        """Index of the smallest element along an axis; the first if several are."""
    def argsort(self, x: WireOperand, /, *, axis: int = ..., kind: Any = ..., order: Any = ..., stable: Any = ..., name: str | None = None) -> Port:
        """Indices that sort an axis."""
    def asin(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Angle whose sine is the wire."""
    def asinh(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Inverse of sinh."""
    def atan(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Angle whose tangent is the wire."""
    def atan2(self, a: WireOperand, b: WireOperand, /, *, name: str | None = None) -> Port:
        """Angle of the point (b, a) from the x axis; slopes 0 at the origin."""
    def atanh(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Inverse of tanh."""
    def bessel_i(self, n: WireOperand, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Modified Bessel function of the first kind, of a whole order n."""
    def bessel_ie(self, n: WireOperand, x: WireOperand, /, *, name: str | None = None) -> Port:
        """exp(-abs(x)) times the modified Bessel function of the first kind, of a whole order n; without overflow."""
    def bessel_j(self, n: WireOperand, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Bessel function of the first kind, of a whole order n."""
    def bessel_k(self, n: WireOperand, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Modified Bessel function of the second kind, of a whole order n."""
    def bessel_y(self, n: WireOperand, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Bessel function of the second kind, of a whole order n."""
    def beta(self, a: WireOperand, b: WireOperand, /, *, name: str | None = None) -> Port:
        """Beta function: gamma(a) gamma(b) / gamma(a + b)."""
    def beta_moment(self, m: WireOperand, n: WireOperand, a: WireOperand, b: WireOperand, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Integral of the centred powers log(t)**m log(1 - t)**n over the beta distribution, for t from 0 to x."""
    def betainc(self, a: WireOperand, b: WireOperand, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Cumulative probability of x under the beta distribution: the regularized incomplete beta function."""
    def betaincc(self, a: WireOperand, b: WireOperand, x: WireOperand, /, *, name: str | None = None) -> Port:
        """1 - betainc(a, b, x), exact for x near 1."""
    def betaln(self, a: WireOperand, b: WireOperand, /, *, name: str | None = None) -> Port:
        """Logarithm of the absolute value of the beta function."""
    def binom(self, n: WireOperand, k: WireOperand, /, *, name: str | None = None) -> Port:
        """Binomial coefficient: n over k, also between whole numbers."""
    def cast(self, x: WireOperand, /, *, dtype: Any, name: str | None = None) -> Port:
        """The same numbers in another dtype."""
    def cbrt(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Cube root."""
    def ceil(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Smallest whole number not below the wire."""
    def cholesky(self, x: WireOperand, /, *, upper: Any, name: str | None = None) -> Port:
        """The triangular factor of a positive definite matrix; the gradient is symmetric."""
    def clip(self, x: WireOperand, low: WireOperand, high: WireOperand, /, *, name: str | None = None) -> Port:
        """The wire between two bounds, else the bound; on a literal bound the slope is 0."""
    def concatenate(self, *x: WireOperand, axis: int, name: str | None = None) -> Port:
        """Joins arrays along an axis."""
    def conjugate(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """The complex conjugate; a real wire is unchanged."""
    def copysign(self, a: WireOperand, b: WireOperand, /, *, name: str | None = None) -> Port:
        """Magnitude of the first wire with the sign of the second; a NaN counts as positive."""
    def cos(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Cosine of an angle in radians."""
    def cosh(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Hyperbolic cosine."""
    def count_nonzero(self, x: WireOperand, /, *, axes: Sequence[int], keepdims: bool, name: str | None = None) -> Port:
        """How many elements along axes are not 0."""
    def cummax(self, x: WireOperand, /, *, axis: int, name: str | None = None) -> Port:
        """Largest element so far along an axis; equal ones share the gradient."""
    def cummin(self, x: WireOperand, /, *, axis: int, name: str | None = None) -> Port:
        """Smallest element so far along an axis; equal ones share the gradient."""
    def cumprod(self, x: WireOperand, /, *, axis: int, reverse: bool, name: str | None = None) -> Port:
        """Running product along an axis."""
    def cumsum(self, x: WireOperand, /, *, axis: int, reverse: bool, name: str | None = None) -> Port:
        """Running sum along an axis; backward it runs the other way."""
    def det(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """The determinant; its slope is the matrix of cofactors, for singular matrices too."""
    def digamma(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Slope of gammaln."""
    def direction(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """z / |z| of a complex wire; 0 at 0, with slope 0."""
    def divide(self, a: WireOperand, b: WireOperand, /, *, name: str | None = None) -> Port:
        """Quotient of two wires."""
    def eig(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Eigenvectors and, as one more row, eigenvalues of a square matrix; complex."""
    def eigh(self, x: WireOperand, /, *, uplo: Any, name: str | None = None) -> Port:
        """Eigenvectors and, as one more row, eigenvalues of a symmetric matrix; the gradient is symmetric."""
    def eigvals(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Eigenvalues of a square matrix; complex."""
    def eigvalsh(self, x: WireOperand, /, *, uplo: Any, name: str | None = None) -> Port:
        """Eigenvalues of a symmetric matrix, in order; the gradient is symmetric."""
    def entr(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """-x log(x), the entropy of a probability; 0 at 0."""
    def equal(self, a: WireOperand, b: WireOperand, /, *, name: str | None = None) -> Port:
        """Whether a = b."""
    def erf(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Error function."""
    def erfc(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """1 - erf(x), exact for large x."""
    def erfcinv(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Inverse of erfc."""
    def erfcx(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """exp(x**2) erfc(x), without underflow."""
    def erfinv(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Inverse of erf."""
    def exp(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """e to the power of the wire."""
    def exp2(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """2 to the power of the wire."""
    def expm(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """The exponential of a matrix."""
    def expm1(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """exp(x) - 1, exact near 0."""
    def fft(self, x: WireOperand, /, *, n: int, axis: int, norm: str, name: str | None = None) -> Port:
        """The discrete Fourier transform of n elements along an axis; its adjoint is the inverse transform."""
    def floor(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Largest whole number not above the wire."""
    def floor_divide(self, a: WireOperand, b: WireOperand, /, *, name: str | None = None) -> Port:
        """Largest whole number not above a / b."""
    def fmax(self, a: WireOperand, b: WireOperand, /, *, name: str | None = None) -> Port:
        """The larger of two wires; NaN only if both are NaN."""
    def fmin(self, a: WireOperand, b: WireOperand, /, *, name: str | None = None) -> Port:
        """The smaller of two wires; NaN only if both are NaN."""
    def gamma(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Gamma function: (x - 1)! for a whole number x."""
    def gamma_moment(self, n: WireOperand, a: WireOperand, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Integral of (log t - digamma(a))**n over the gamma distribution of shape a, for t from 0 to x."""
    def gammainc(self, a: WireOperand, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Cumulative probability of x under the gamma distribution of shape a: the lower incomplete gamma function."""
    def gammaincc(self, a: WireOperand, x: WireOperand, /, *, name: str | None = None) -> Port:
        """1 - gammainc(a, x), exact for large x."""
    def gammaln(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Logarithm of the absolute value of the gamma function."""
    def gelu(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """x times the normal distribution's cumulative probability of x."""
    def getitem(self, x: WireOperand, /, *, index: Any, name: str | None = None) -> Port:
        """Picks elements by whole numbers and slices; the gradient of the others is absent, not 0."""
    def greater(self, a: WireOperand, b: WireOperand, /, *, name: str | None = None) -> Port:
        """Whether a > b."""
    def greater_equal(self, a: WireOperand, b: WireOperand, /, *, name: str | None = None) -> Port:
        """Whether a >= b."""
    def heaviside(self, a: WireOperand, b: WireOperand, /, *, name: str | None = None) -> Port:
        """0 for a < 0, 1 for a > 0, b at a = 0."""
    def hypot(self, a: WireOperand, b: WireOperand, /, *, name: str | None = None) -> Port:
        """Length of the vector (a, b); slopes 0 at the origin."""
    def ifft(self, x: WireOperand, /, *, n: int, axis: int, norm: str, name: str | None = None) -> Port:
        """The inverse discrete Fourier transform of n elements along an axis."""
    def imag(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """The imaginary part; 0 for a real wire."""
    def imaginary(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """The imaginary number whose imaginary part is the wire."""
    def inv(self, x: WireOperand, /, *, strict: Any, name: str | None = None) -> Port:
        """The inverse of a matrix; with strict=False NaN where it is singular."""
    def irfft(self, x: WireOperand, /, *, n: int, axis: int, norm: str, name: str | None = None) -> Port:
        """The n real elements of whose discrete Fourier transform the first half is given."""
    def isfinite(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Whether the wire is neither NaN nor infinite."""
    def isinf(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Whether the wire is infinite."""
    def isnan(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Whether the wire is NaN."""
    def leaky_relu(self, x: WireOperand, slope: WireOperand = 0.01, /, *, name: str | None = None) -> Port:
        """The wire where it is positive, else the wire times a slope (0.01 if left out)."""
    def less(self, a: WireOperand, b: WireOperand, /, *, name: str | None = None) -> Port:
        """Whether a < b."""
    def less_equal(self, a: WireOperand, b: WireOperand, /, *, name: str | None = None) -> Port:
        """Whether a <= b."""
    def ln(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Natural logarithm."""
    def log(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Natural logarithm."""
    def log10(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Logarithm to base 10."""
    def log1p(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """log(1 + x), exact near 0."""
    def log2(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Logarithm to base 2."""
    def log_ndtr(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Logarithm of the normal distribution's cumulative probability, exact in both tails."""
    def log_softmax(self, x: WireOperand, /, *, axes: Sequence[int], name: str | None = None) -> Port:
        """log(softmax(x)) along axes, exact where softmax is nearly 0."""
    def logaddexp(self, a: WireOperand, b: WireOperand, /, *, name: str | None = None) -> Port:
        """log(exp(a) + exp(b)) without overflow."""
    def logaddexp2(self, a: WireOperand, b: WireOperand, /, *, name: str | None = None) -> Port:
        """log2(2**a + 2**b) without overflow."""
    def logaddexp_reduce(self, x: WireOperand, /, *, axes: Sequence[int], keepdims: bool, name: str | None = None) -> Port:
        """logaddexp of one element after another along an axis."""
    def logical_and(self, a: WireOperand, b: WireOperand, /, *, name: str | None = None) -> Port:
        """Whether both hold."""
    def logical_not(self, a: WireOperand, /, *, name: str | None = None) -> Port:
        """Whether it does not hold."""
    def logical_or(self, a: WireOperand, b: WireOperand, /, *, name: str | None = None) -> Port:
        """Whether at least one holds."""
    def logical_xor(self, a: WireOperand, b: WireOperand, /, *, name: str | None = None) -> Port:
        """Whether exactly one holds."""
    def logm(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """The principal logarithm of a matrix."""
    def logsumexp(self, x: WireOperand, /, *, axes: Sequence[int], keepdims: bool, name: str | None = None) -> Port:
        """log(sum(exp(x))) along axes, without overflow."""
    def lstsq(self, a: WireOperand, b: WireOperand, /, *, rcond: float | None, name: str | None = None) -> Port:
        """The x of smallest norm that minimizes |a @ x - b|; its slope is that among matrices of the same rank."""
    def lu_factors(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Factors of a matrix by elimination without pivoting, in one matrix: L below the diagonal, U above."""
    def lu_rows(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """The order of rows in which elimination with partial pivoting uses them; it has no gradient."""
    def matmul(self, a: WireOperand, b: WireOperand, /, *, name: str | None = None) -> Port:
        """Product of matrices, the last two axes; upstream times the transpose of the other factor."""
    def matrix_rank(self, x: WireOperand, /, *, rtol: Any, name: str | None = None) -> Port:
        """Number of singular values that count as more than 0."""
    def max(self, x: WireOperand, /, *, axes: Sequence[int], keepdims: bool, name: str | None = None) -> Port:
        """Largest element along axes; equal ones share the gradient."""
    def maximum(self, a: WireOperand, b: WireOperand, /, *, name: str | None = None) -> Port:
        """The larger of two wires; NaN if one is NaN; half the gradient each on a tie."""
    def min(self, x: WireOperand, /, *, axes: Sequence[int], keepdims: bool, name: str | None = None) -> Port:
        """Smallest element along axes; equal ones share the gradient."""
    def minimum(self, a: WireOperand, b: WireOperand, /, *, name: str | None = None) -> Port:
        """The smaller of two wires; NaN if one is NaN; half the gradient each on a tie."""
    def mod(self, a: WireOperand, b: WireOperand, /, *, name: str | None = None) -> Port:
        """Remainder of a / b, with the sign of b."""
    def multiply(self, a: WireOperand, b: WireOperand, /, *, name: str | None = None) -> Port:
        """Product of two wires."""
    def nanmax(self, x: WireOperand, /, *, axes: Sequence[int], keepdims: bool, name: str | None = None) -> Port:
        """Largest element along axes; NaN only if all are NaN."""
    def nanmin(self, x: WireOperand, /, *, axes: Sequence[int], keepdims: bool, name: str | None = None) -> Port:
        """Smallest element along axes; NaN only if all are NaN."""
    def ndtri(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Inverse of the normal distribution's cumulative probability."""
    def negative(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """The wire with the opposite sign."""
    def not_equal(self, a: WireOperand, b: WireOperand, /, *, name: str | None = None) -> Port:
        """Whether a and b differ."""
    def permute(self, x: WireOperand, /, *, axes: Sequence[int], name: str | None = None) -> Port:
        """The axes in another order."""
    def pinv(self, x: WireOperand, /, *, rcond: Any, name: str | None = None) -> Port:
        """The pseudo-inverse; its slope is that among matrices of the same rank."""
    def polygamma(self, n: WireOperand, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Derivative of order n of digamma."""
    def positive(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """The wire itself."""
    def pow(self, a: WireOperand, b: WireOperand, /, *, name: str | None = None) -> Port:
        """First wire to the power of the second."""
    def power(self, a: WireOperand, b: WireOperand, /, *, name: str | None = None) -> Port:
        """First wire to the power of the second."""
    def prod(self, x: WireOperand, /, *, axes: Sequence[int], keepdims: bool, name: str | None = None) -> Port:
        """Product along axes; the slope of each factor is the product of the others."""
    def put_add(self, x: WireOperand, /, *, index: Any, shape: Sequence[int], name: str | None = None) -> Port:
        """Puts elements into zeros of a shape at an index: the transpose of getitem."""
    def qr(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Orthogonal columns and, below (or, for a wide matrix, beside) them, the upper triangle."""
    def real(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """The real part."""
    def reciprocal(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """One over the wire."""
    def recurrence(self, a: WireOperand, b: WireOperand, /, *, axis: int, reverse: bool, name: str | None = None) -> Port:
        """h[i] = a[i - 1] * h[i - 1] + b[i] along an axis, from h[0] = b[0]; `a` is one shorter than `b`."""
    def recurse(self, x: WireOperand, a: WireOperand, /, *, name: str | None = None) -> Port:
        """The recursive part of a digital filter: y[n] = x[n] - a[0] y[n-1] - a[1] y[n-2] - ..."""
    def rel_entr(self, a: WireOperand, b: WireOperand, /, *, name: str | None = None) -> Port:
        """a log(a / b), the relative entropy of two probabilities; 0 where a = 0."""
    def relu(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """The wire where it is positive, else 0; slope 0 at 0."""
    def relu6(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """The wire between 0 and 6, else the bound; slope 0 on a bound."""
    def reshape(self, x: WireOperand, /, *, rank: int, shape: Sequence[int], name: str | None = None) -> Port:
        """The same elements in another shape."""
    def rfft(self, x: WireOperand, /, *, n: int, axis: int, norm: str, name: str | None = None) -> Port:
        """The first half of the discrete Fourier transform of n real elements along an axis."""
    def roll(self, x: WireOperand, /, *, shift: int, axis: int, name: str | None = None) -> Port:
        """The elements moved along an axis; those that leave at one end come back at the other."""
    def round(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Nearest whole number, halves to even."""
    def searchsorted(self, row: WireOperand, x: WireOperand, /, *, side: Any = ..., sorter: Any = ..., name: str | None = None) -> Port:
        """Indices at which to insert elements into a sorted row."""
    def sigmoid(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """1 / (1 + exp(-x)) without overflow."""
    def sign(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """-1, 0 or 1."""
    def silu(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """x * sigmoid(x)."""
    def sin(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Sine of an angle in radians."""
    def sinc(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """sin(pi x) / (pi x); 1 at 0."""
    def sinh(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Hyperbolic sine."""
    def slogdet(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Sign and logarithm of the determinant, as two numbers in one array."""
    def softmax(self, x: WireOperand, /, *, axes: Sequence[int], name: str | None = None) -> Port:
        """exp(x) / sum(exp(x)) along axes, without overflow."""
    def softplus(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """log(1 + exp(x)) without overflow."""
    def solve(self, a: WireOperand, b: WireOperand, /, *, strict: bool, name: str | None = None) -> Port:
        """The x for which a @ x = b, for matrices b; with strict=False NaN where a is singular."""
    def solve_banded(self, ab: WireOperand, b: WireOperand, /, *, bands: Any, form: str, transposed: bool, name: str | None = None) -> Port:
        """The x for which a matrix of few diagonals, times x, is b; the gradient of the matrix has these diagonals."""
    def solve_sparse(self, data: WireOperand, rows: WireOperand, columns: WireOperand, b: WireOperand, /, *, transposed: bool, order: str | None, strict: bool, name: str | None = None) -> Port:
        """The x for which a matrix with entries at some places, times x, is b; no gradient flows elsewhere."""
    def solve_triangular(self, a: WireOperand, b: WireOperand, /, *, lower: Any, name: str | None = None) -> Port:
        """The x for which the lower or upper triangle of a, times x, is b; the other triangle is not read."""
    def spread(self, x: WireOperand, /, *, rank: int, shape: Sequence[int], name: str | None = None) -> Port:
        """Copies a wire along new and stretched axes to a shape: broadcasting as a node."""
    def sqrt(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Square root."""
    def sqrtm(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """The principal square root of a matrix."""
    def square(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """The wire times itself."""
    def stdtr(self, df: WireOperand, t: WireOperand, /, *, name: str | None = None) -> Port:
        """Cumulative probability of t under Student's distribution with df degrees of freedom."""
    def stop_gradient(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """The wire as a constant: nothing flows back."""
    def subtract(self, a: WireOperand, b: WireOperand, /, *, name: str | None = None) -> Port:
        """Difference of two wires."""
    def sum(self, x: WireOperand, /, *, axes: Sequence[int], keepdims: bool, name: str | None = None) -> Port:
        """Sum along axes."""
    def sum_to(self, x: WireOperand, /, *, rank: int, shape: Sequence[int], name: str | None = None) -> Port:
        """Adds up along the axes that spread added or stretched: the transpose of spread."""
    def svd(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Left singular vectors, singular values as one row, and right singular vectors (transposed)."""
    def svdvals(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Singular values, the largest first."""
    def take(self, x: WireOperand, indices: WireOperand, /, *, axis: int, name: str | None = None) -> Port:
        """Picks along an axis by a row of indices; the gradient of what is not picked is absent, not 0."""
    def take_add(self, x: WireOperand, indices: WireOperand, /, *, axis: int, length: int, name: str | None = None) -> Port:
        """Adds slices into zeros along an axis at a row of indices: the transpose of take."""
    def take_along_axis(self, x: WireOperand, indices: WireOperand, /, *, axis: int, name: str | None = None) -> Port:
        """Picks elements along an axis by an array of indices of the same length along all other axes."""
    def tan(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Tangent of an angle in radians."""
    def tanh(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Hyperbolic tangent."""
    def trunc(self, x: WireOperand, /, *, name: str | None = None) -> Port:
        """Whole part of the wire, rounded towards 0."""
    def unwindows(self, x: WireOperand, /, *, size: Any, step: Any, dilation: Any, shape: Sequence[int], name: str | None = None) -> Port:
        """Adds windows into zeros of a shape, each where it came from: the transpose of windows."""
    def where(self, condition: WireOperand, a: WireOperand, b: WireOperand, /, *, name: str | None = None) -> Port:
        """Second wire where the condition holds, else the third; the other one's gradient is absent, not 0."""
    def windows(self, x: WireOperand, /, *, size: Any, step: Any, dilation: Any, name: str | None = None) -> Port:
        """All windows of a size along the last axes, `step` apart, with every `dilation`-th element."""
    def xlog1py(self, a: WireOperand, b: WireOperand, /, *, name: str | None = None) -> Port:
        """a log(1 + b), and 0 where a = 0."""
    def xlogy(self, a: WireOperand, b: WireOperand, /, *, name: str | None = None) -> Port:
        """a log(b), and 0 where a = 0."""
