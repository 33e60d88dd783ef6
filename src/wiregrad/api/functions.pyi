# Written by `make derive` from the op table.
# Python finds no module of this name: `wiregrad` itself has the functions. Import it under `TYPE_CHECKING`.
from collections.abc import Sequence
from typing import Any, overload

from numpy.typing import DTypeLike, NDArray

from wiregrad.frontends.recording.value import Value
from wiregrad.frontends.recording.value_methods import Operand, PlainArray

__all__: list[str] = [
    "abs",
    "absolute",
    "acos",
    "acosh",
    "add",
    "all",
    "allclose",
    "angle",
    "any",
    "append",
    "apply_along_axis",
    "apply_over_axes",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "argmax",
    "argmin",
    "argpartition",
    "argsort",
    "argwhere",
    "array",
    "array2string",
    "array_equal",
    "array_equiv",
    "array_repr",
    "array_split",
    "array_str",
    "asin",
    "asinh",
    "astype",
    "atan",
    "atan2",
    "atanh",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "average",
    "avg_pool1d",
    "avg_pool2d",
    "bessel_i",
    "bessel_ie",
    "bessel_j",
    "bessel_k",
    "bessel_y",
    "beta",
    "beta_moment",
    "betainc",
    "betaincc",
    "betaln",
    "bincount",
    "binom",
    "block",
    "block_diag",
    "broadcast_arrays",
    "broadcast_to",
    "can_cast",
    "cbrt",
    "ceil",
    "cho_factor",
    "cho_solve",
    "cholesky",
    "choose",
    "circulant",
    "clip",
    "coherence",
    "column_stack",
    "comb",
    "common_type",
    "compress",
    "concatenate",
    "conj",
    "conjugate",
    "conv1d",
    "conv2d",
    "conv_transpose1d",
    "conv_transpose2d",
    "convolve",
    "convolve1d",
    "copy",
    "copysign",
    "copyto",
    "corrcoef",
    "correlate",
    "correlate1d",
    "cos",
    "cosh",
    "count_nonzero",
    "cov",
    "cross",
    "cross_entropy",
    "csd",
    "cubic_spline",
    "cumprod",
    "cumsum",
    "cumulative_prod",
    "cumulative_sum",
    "cumulative_trapezoid",
    "dct",
    "dctn",
    "deg2rad",
    "delete",
    "det",
    "diag",
    "diag_indices_from",
    "diagflat",
    "diagonal",
    "digamma",
    "digitize",
    "divide",
    "divmod",
    "dot",
    "dsplit",
    "dst",
    "dstack",
    "dstn",
    "ediff1d",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "einsum",
    "einsum_path",
    "embedding",
    "empty_like",
    "entr",
    "equal",
    "erf",
    "erfc",
    "erfcinv",
    "erfcx",
    "erfinv",
    "exp",
    "exp10",
    "exp2",
    "expand_dims",
    "expm",
    "expm1",
    "extract",
    "fabs",
    "factorial",
    "fft",
    "fft2",
    "fftconvolve",
    "fftn",
    "fftshift",
    "fix",
    "flatnonzero",
    "flip",
    "fliplr",
    "flipud",
    "float_power",
    "floor",
    "floor_divide",
    "fmax",
    "fmin",
    "fmod",
    "fractional_matrix_power",
    "frexp",
    "full_like",
    "gamma",
    "gamma_moment",
    "gammainc",
    "gammaincc",
    "gammaln",
    "gaussian_filter",
    "gaussian_filter1d",
    "gelu",
    "geomspace",
    "gradient",
    "greater",
    "greater_equal",
    "hankel",
    "heaviside",
    "hfft",
    "histogram",
    "histogram_bin_edges",
    "hsplit",
    "hstack",
    "huber",
    "hypot",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "idct",
    "idctn",
    "idst",
    "idstn",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "imag",
    "inner",
    "insert",
    "interp",
    "inv",
    "irfft",
    "irfft2",
    "irfftn",
    "isclose",
    "iscomplex",
    "iscomplexobj",
    "isfinite",
    "isin",
    "isinf",
    "isnan",
    "isneginf",
    "isposinf",
    "isreal",
    "isrealobj",
    "iv",
    "ive",
    "j0",
    "j1",
    "jv",
    "k0",
    "k1",
    "khatri_rao",
    "kl_div",
    "kron",
    "kv",
    "layer_norm",
    "ldexp",
    "leaky_relu",
    "less",
    "less_equal",
    "lexsort",
    "lfilter",
    "linear",
    "linspace",
    "ln",
    "log",
    "log10",
    "log1p",
    "log2",
    "log_expit",
    "log_ndtr",
    "log_softmax",
    "logaddexp",
    "logaddexp2",
    "loggamma",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logit",
    "logm",
    "logspace",
    "logsumexp",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_solve",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "matvec",
    "max",
    "max_pool1d",
    "max_pool2d",
    "maximum",
    "mean",
    "median",
    "meshgrid",
    "min",
    "min_scalar_type",
    "minimum",
    "mod",
    "modf",
    "moveaxis",
    "mse_loss",
    "multi_dot",
    "multi_margin_loss",
    "multigammaln",
    "multiply",
    "nan_to_num",
    "nanargmax",
    "nanargmin",
    "nancumprod",
    "nancumsum",
    "nanmax",
    "nanmean",
    "nanmedian",
    "nanmin",
    "nanpercentile",
    "nanprod",
    "nanquantile",
    "nanstd",
    "nansum",
    "nanvar",
    "ndim",
    "ndimage_convolve",
    "ndimage_correlate",
    "ndtr",
    "ndtri",
    "negative",
    "nonzero",
    "norm",
    "not_equal",
    "one_hot",
    "ones_like",
    "outer",
    "pad",
    "partition",
    "percentile",
    "periodogram",
    "piecewise",
    "pinv",
    "poly",
    "polyadd",
    "polyder",
    "polydiv",
    "polyfit",
    "polygamma",
    "polyint",
    "polymul",
    "polysub",
    "polyval",
    "positive",
    "pow",
    "power",
    "prod",
    "pseudo_huber",
    "ptp",
    "put",
    "qr",
    "quad",
    "quantile",
    "rad2deg",
    "ravel",
    "real",
    "real_if_close",
    "reciprocal",
    "rel_entr",
    "relu",
    "relu6",
    "repeat",
    "reshape",
    "resize",
    "result_type",
    "rfft",
    "rfft2",
    "rfftn",
    "roll",
    "rollaxis",
    "roots",
    "rot90",
    "round",
    "scatter_add",
    "scipy_cholesky",
    "scipy_convolve",
    "scipy_correlate",
    "scipy_det",
    "scipy_eigh",
    "scipy_eigvalsh",
    "scipy_inv",
    "scipy_lstsq",
    "scipy_norm",
    "scipy_pinv",
    "scipy_qr",
    "scipy_solve",
    "scipy_svd",
    "scipy_svdvals",
    "searchsorted",
    "select",
    "setdiff1d",
    "shape",
    "sigmoid",
    "sign",
    "signbit",
    "silu",
    "simpson",
    "sin",
    "sinc",
    "sinh",
    "size",
    "sliding_window_view",
    "slogdet",
    "softmax",
    "softplus",
    "solve",
    "solve_banded",
    "solve_continuous_lyapunov",
    "solve_ivp",
    "solve_sylvester",
    "solve_toeplitz",
    "solve_triangular",
    "solveh_banded",
    "sort",
    "sort_complex",
    "spectrogram",
    "split",
    "sqrt",
    "sqrtm",
    "square",
    "squeeze",
    "stack",
    "std",
    "stdtr",
    "subtract",
    "sum",
    "svd",
    "svdvals",
    "swapaxes",
    "take",
    "take_along_axis",
    "tan",
    "tanh",
    "tensordot",
    "tensorinv",
    "tensorsolve",
    "tile",
    "toeplitz",
    "transpose",
    "trapezoid",
    "tril",
    "tril_indices_from",
    "trim_zeros",
    "triu",
    "triu_indices_from",
    "trunc",
    "uniform_filter",
    "uniform_filter1d",
    "union1d",
    "unique",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "unstack",
    "unwrap",
    "vander",
    "var",
    "vdot",
    "vecdot",
    "vecmat",
    "vector_norm",
    "vsplit",
    "vstack",
    "welch",
    "where",
    "xlog1py",
    "xlogy",
    "y0",
    "y1",
    "yv",
    "zeros_like",
]

@overload
def abs(x: float, /) -> float:
    """Magnitude; slope 0 at 0."""
@overload
def abs(x: Value, /) -> Value: ...
@overload
def abs(x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def abs(x: Operand, /) -> Any: ...
@overload
def absolute(x: float, /) -> float:
    """Magnitude; slope 0 at 0."""
@overload
def absolute(x: Value, /) -> Value: ...
@overload
def absolute(x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def absolute(x: Operand, /) -> Any: ...
@overload
def acos(x: float, /) -> float:
    """Angle whose cosine is the wire."""
@overload
def acos(x: Value, /) -> Value: ...
@overload
def acos(x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def acos(x: Operand, /) -> Any: ...
@overload
def acosh(x: float, /) -> float:
    """Inverse of cosh."""
@overload
def acosh(x: Value, /) -> Value: ...
@overload
def acosh(x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def acosh(x: Operand, /) -> Any: ...
@overload
def add(a: float, b: float, /) -> float:
    """Sum of two wires."""
@overload
def add(a: Value, b: Operand, /) -> Value: ...
@overload
def add(a: Operand, b: Value, /) -> Value: ...
@overload
def add(a: NDArray[Any], b: PlainArray, /) -> NDArray[Any]: ...
@overload
def add(a: PlainArray, b: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def add(a: Operand, b: Operand, /) -> Any: ...
def all(a: Operand, axis: int | Sequence[int] | None = None, *, keepdims: bool = False, where: Any = True) -> Any:
    """Whether no element is 0."""
def allclose(a: Operand, b: Operand, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Any:
    """Whether two arrays are nearly equal everywhere."""
@overload
def angle(x: NDArray[Any], deg: bool = False) -> NDArray[Any]:
    """The angle of a complex number."""
@overload
def angle(x: Value, deg: bool = False) -> Value: ...
@overload
def angle(x: Operand, deg: bool = False) -> Any: ...
def any(a: Operand, axis: int | Sequence[int] | None = None, *, keepdims: bool = False, where: Any = True) -> Any:
    """Whether at least one element is not 0."""
@overload
def append(x: NDArray[Any], values: PlainArray, axis: int | None = None) -> NDArray[Any]:
    """An array with values joined to its end."""
@overload
def append(x: Value, values: Operand, axis: int | None = None) -> Value: ...
@overload
def append(x: Operand, values: Value, axis: int | None = None) -> Value: ...
@overload
def append(x: Operand, values: Operand, axis: int | None = None) -> Any: ...
@overload
def apply_along_axis(func1d: Any, axis: int, arr: NDArray[Any], *args: Any, **kwargs: Any) -> NDArray[Any]:
    """A function of rows, applied to each row along an axis."""
@overload
def apply_along_axis(func1d: Any, axis: int, arr: Value, *args: Any, **kwargs: Any) -> Value: ...
@overload
def apply_along_axis(func1d: Any, axis: int, arr: Operand, *args: Any, **kwargs: Any) -> Any: ...
@overload
def apply_over_axes(func: Any, a: NDArray[Any], axes: Any) -> NDArray[Any]:
    """A function of an array and an axis, applied over several axes one after the other."""
@overload
def apply_over_axes(func: Any, a: Value, axes: Any) -> Value: ...
@overload
def apply_over_axes(func: Any, a: Operand, axes: Any) -> Any: ...
@overload
def arccos(x: float, /) -> float:
    """Angle whose cosine is the wire."""
@overload
def arccos(x: Value, /) -> Value: ...
@overload
def arccos(x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def arccos(x: Operand, /) -> Any: ...
@overload
def arccosh(x: float, /) -> float:
    """Inverse of cosh."""
@overload
def arccosh(x: Value, /) -> Value: ...
@overload
def arccosh(x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def arccosh(x: Operand, /) -> Any: ...
@overload
def arcsin(x: float, /) -> float:
    """Angle whose sine is the wire."""
@overload
def arcsin(x: Value, /) -> Value: ...
@overload
def arcsin(x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def arcsin(x: Operand, /) -> Any: ...
@overload
def arcsinh(x: float, /) -> float:
    """Inverse of sinh."""
@overload
def arcsinh(x: Value, /) -> Value: ...
@overload
def arcsinh(x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def arcsinh(x: Operand, /) -> Any: ...
@overload
def arctan(x: float, /) -> float:
    """Angle whose tangent is the wire."""
@overload
def arctan(x: Value, /) -> Value: ...
@overload
def arctan(x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def arctan(x: Operand, /) -> Any: ...
@overload
def arctan2(a: float, b: float, /) -> float:
    """Angle of the point (b, a) from the x axis; slopes 0 at the origin."""
@overload
def arctan2(a: Value, b: Operand, /) -> Value: ...
@overload
def arctan2(a: Operand, b: Value, /) -> Value: ...
@overload
def arctan2(a: NDArray[Any], b: PlainArray, /) -> NDArray[Any]: ...
@overload
def arctan2(a: PlainArray, b: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def arctan2(a: Operand, b: Operand, /) -> Any: ...
@overload
def arctanh(x: float, /) -> float:
    """Inverse of tanh."""
@overload
def arctanh(x: Value, /) -> Value: ...
@overload
def arctanh(x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def arctanh(x: Operand, /) -> Any: ...
def argmax(a: Operand, axis: int | Sequence[int] | None = None, *, keepdims: bool = False) -> Any:
    """Index of the largest element; the first if several are."""
def argmin(a: Operand, axis: int | Sequence[int] | None = None, *, keepdims: bool = False) -> Any:
    """Index of the smallest element; the first if several are."""
def argpartition(a: Operand, kth: Any, axis: int | Sequence[int] | None = -1, kind: str = 'introselect', order: Any = None) -> Any:
    """Indices that partition an axis; here those that sort it."""
def argsort(a: Operand, axis: int | Sequence[int] | None = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> NDArray[Any]:
    """Indices that sort an axis."""
def argwhere(x: Operand) -> NDArray[Any]:
    """The indices of the elements that are not 0, one row per element."""
@overload
def array(items: NDArray[Any] | Sequence[NDArray[Any]], dtype: DTypeLike | None = None) -> NDArray[Any]:
    """The array of a nested list; recorded numbers and arrays in it keep their gradient."""
@overload
def array(items: Value | Sequence[Value], dtype: DTypeLike | None = None) -> Value: ...
@overload
def array(items: Operand, dtype: DTypeLike | None = None) -> Any: ...
def array2string(a: Operand, *settings: Any, **keywords: Any) -> Any:
    """The numbers as text."""
def array_equal(a: Operand, b: Operand, equal_nan: bool = False) -> Any:
    """Whether two arrays have one shape and equal elements."""
def array_equiv(a: Operand, b: Operand) -> Any:
    """Whether two arrays have equal elements once they are broadcast."""
def array_repr(arr: Any, *settings: Any, **keywords: Any) -> Any:
    """The numbers as text that Python reads back."""
@overload
def array_split(x: NDArray[Any], indices_or_sections: Any, axis: int = 0) -> Any:
    """An array cut along an axis, into nearly equal parts or at indices."""
@overload
def array_split(x: Value, indices_or_sections: Any, axis: int = 0) -> list[Value]: ...
@overload
def array_split(x: Operand, indices_or_sections: Any, axis: int = 0) -> Any: ...
def array_str(a: Operand, *settings: Any, **keywords: Any) -> Any:
    """The numbers as text."""
@overload
def asin(x: float, /) -> float:
    """Angle whose sine is the wire."""
@overload
def asin(x: Value, /) -> Value: ...
@overload
def asin(x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def asin(x: Operand, /) -> Any: ...
@overload
def asinh(x: float, /) -> float:
    """Inverse of sinh."""
@overload
def asinh(x: Value, /) -> Value: ...
@overload
def asinh(x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def asinh(x: Operand, /) -> Any: ...
@overload
def astype(x: NDArray[Any], dtype: DTypeLike | None, order: str = 'K', casting: str = 'unsafe', subok: bool = True, copy: bool = True) -> NDArray[Any]:
    """The same numbers in another dtype."""
@overload
def astype(x: Value, dtype: DTypeLike | None, order: str = 'K', casting: str = 'unsafe', subok: bool = True, copy: bool = True) -> Value: ...
@overload
def astype(x: Operand, dtype: DTypeLike | None, order: str = 'K', casting: str = 'unsafe', subok: bool = True, copy: bool = True) -> Any: ...
@overload
def atan(x: float, /) -> float:
    """Angle whose tangent is the wire."""
@overload
def atan(x: Value, /) -> Value: ...
@overload
def atan(x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def atan(x: Operand, /) -> Any: ...
@overload
def atan2(a: float, b: float, /) -> float:
    """Angle of the point (b, a) from the x axis; slopes 0 at the origin."""
@overload
def atan2(a: Value, b: Operand, /) -> Value: ...
@overload
def atan2(a: Operand, b: Value, /) -> Value: ...
@overload
def atan2(a: NDArray[Any], b: PlainArray, /) -> NDArray[Any]: ...
@overload
def atan2(a: PlainArray, b: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def atan2(a: Operand, b: Operand, /) -> Any: ...
@overload
def atanh(x: float, /) -> float:
    """Inverse of tanh."""
@overload
def atanh(x: Value, /) -> Value: ...
@overload
def atanh(x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def atanh(x: Operand, /) -> Any: ...
def atleast_1d(*xs: Operand) -> Any:
    """Arrays with one axis or more."""
def atleast_2d(*xs: Operand) -> Any:
    """Arrays with two axes or more."""
def atleast_3d(*xs: Operand) -> Any:
    """Arrays with three axes or more."""
def average(a: Operand, axis: int | Sequence[int] | None = None, weights: Operand | None = None, returned: bool = False, *, keepdims: bool = False) -> Any:
    """Weighted mean along axes, or of everything."""
@overload
def avg_pool1d(input: NDArray[Any], kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, count_include_pad: bool = True) -> NDArray[Any]:
    """Return the mean of every window of signals (batch, channels, length)."""
@overload
def avg_pool1d(input: Value, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, count_include_pad: bool = True) -> Value: ...
@overload
def avg_pool1d(input: Operand, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, count_include_pad: bool = True) -> Any: ...
@overload
def avg_pool2d(input: NDArray[Any], kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, count_include_pad: bool = True) -> NDArray[Any]:
    """Return the mean of every window of images (batch, channels, height, width)."""
@overload
def avg_pool2d(input: Value, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, count_include_pad: bool = True) -> Value: ...
@overload
def avg_pool2d(input: Operand, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, count_include_pad: bool = True) -> Any: ...
@overload
def bessel_i(n: float, x: float, /) -> float:
    """Modified Bessel function of the first kind, of a whole order n."""
@overload
def bessel_i(n: Value, x: Operand, /) -> Value: ...
@overload
def bessel_i(n: Operand, x: Value, /) -> Value: ...
@overload
def bessel_i(n: NDArray[Any], x: PlainArray, /) -> NDArray[Any]: ...
@overload
def bessel_i(n: PlainArray, x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def bessel_i(n: Operand, x: Operand, /) -> Any: ...
@overload
def bessel_ie(n: float, x: float, /) -> float:
    """exp(-abs(x)) times the modified Bessel function of the first kind, of a whole order n; without overflow."""
@overload
def bessel_ie(n: Value, x: Operand, /) -> Value: ...
@overload
def bessel_ie(n: Operand, x: Value, /) -> Value: ...
@overload
def bessel_ie(n: NDArray[Any], x: PlainArray, /) -> NDArray[Any]: ...
@overload
def bessel_ie(n: PlainArray, x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def bessel_ie(n: Operand, x: Operand, /) -> Any: ...
@overload
def bessel_j(n: float, x: float, /) -> float:
    """Bessel function of the first kind, of a whole order n."""
@overload
def bessel_j(n: Value, x: Operand, /) -> Value: ...
@overload
def bessel_j(n: Operand, x: Value, /) -> Value: ...
@overload
def bessel_j(n: NDArray[Any], x: PlainArray, /) -> NDArray[Any]: ...
@overload
def bessel_j(n: PlainArray, x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def bessel_j(n: Operand, x: Operand, /) -> Any: ...
@overload
def bessel_k(n: float, x: float, /) -> float:
    """Modified Bessel function of the second kind, of a whole order n."""
@overload
def bessel_k(n: Value, x: Operand, /) -> Value: ...
@overload
def bessel_k(n: Operand, x: Value, /) -> Value: ...
@overload
def bessel_k(n: NDArray[Any], x: PlainArray, /) -> NDArray[Any]: ...
@overload
def bessel_k(n: PlainArray, x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def bessel_k(n: Operand, x: Operand, /) -> Any: ...
@overload
def bessel_y(n: float, x: float, /) -> float:
    """Bessel function of the second kind, of a whole order n."""
@overload
def bessel_y(n: Value, x: Operand, /) -> Value: ...
@overload
def bessel_y(n: Operand, x: Value, /) -> Value: ...
@overload
def bessel_y(n: NDArray[Any], x: PlainArray, /) -> NDArray[Any]: ...
@overload
def bessel_y(n: PlainArray, x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def bessel_y(n: Operand, x: Operand, /) -> Any: ...
@overload
def beta(a: float, b: float, /) -> float:
    """Beta function: gamma(a) gamma(b) / gamma(a + b)."""
@overload
def beta(a: Value, b: Operand, /) -> Value: ...
@overload
def beta(a: Operand, b: Value, /) -> Value: ...
@overload
def beta(a: NDArray[Any], b: PlainArray, /) -> NDArray[Any]: ...
@overload
def beta(a: PlainArray, b: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def beta(a: Operand, b: Operand, /) -> Any: ...
@overload
def beta_moment(m: float, n: float, a: float, b: float, x: float, /) -> float:
    """Integral of the centred powers log(t)**m log(1 - t)**n over the beta distribution, for t from 0 to x."""
@overload
def beta_moment(m: Value, n: Operand, a: Operand, b: Operand, x: Operand, /) -> Value: ...
@overload
def beta_moment(m: Operand, n: Value, a: Operand, b: Operand, x: Operand, /) -> Value: ...
@overload
def beta_moment(m: Operand, n: Operand, a: Value, b: Operand, x: Operand, /) -> Value: ...
@overload
def beta_moment(m: Operand, n: Operand, a: Operand, b: Value, x: Operand, /) -> Value: ...
@overload
def beta_moment(m: Operand, n: Operand, a: Operand, b: Operand, x: Value, /) -> Value: ...
@overload
def beta_moment(m: NDArray[Any], n: PlainArray, a: PlainArray, b: PlainArray, x: PlainArray, /) -> NDArray[Any]: ...
@overload
def beta_moment(m: PlainArray, n: NDArray[Any], a: PlainArray, b: PlainArray, x: PlainArray, /) -> NDArray[Any]: ...
@overload
def beta_moment(m: PlainArray, n: PlainArray, a: NDArray[Any], b: PlainArray, x: PlainArray, /) -> NDArray[Any]: ...
@overload
def beta_moment(m: PlainArray, n: PlainArray, a: PlainArray, b: NDArray[Any], x: PlainArray, /) -> NDArray[Any]: ...
@overload
def beta_moment(m: PlainArray, n: PlainArray, a: PlainArray, b: PlainArray, x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def beta_moment(m: Operand, n: Operand, a: Operand, b: Operand, x: Operand, /) -> Any: ...
@overload
def betainc(a: float, b: float, x: float, /) -> float:
    """Cumulative probability of x under the beta distribution: the regularized incomplete beta function."""
@overload
def betainc(a: Value, b: Operand, x: Operand, /) -> Value: ...
@overload
def betainc(a: Operand, b: Value, x: Operand, /) -> Value: ...
@overload
def betainc(a: Operand, b: Operand, x: Value, /) -> Value: ...
@overload
def betainc(a: NDArray[Any], b: PlainArray, x: PlainArray, /) -> NDArray[Any]: ...
@overload
def betainc(a: PlainArray, b: NDArray[Any], x: PlainArray, /) -> NDArray[Any]: ...
@overload
def betainc(a: PlainArray, b: PlainArray, x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def betainc(a: Operand, b: Operand, x: Operand, /) -> Any: ...
@overload
def betaincc(a: float, b: float, x: float, /) -> float:
    """1 - betainc(a, b, x), exact for x near 1."""
@overload
def betaincc(a: Value, b: Operand, x: Operand, /) -> Value: ...
@overload
def betaincc(a: Operand, b: Value, x: Operand, /) -> Value: ...
@overload
def betaincc(a: Operand, b: Operand, x: Value, /) -> Value: ...
@overload
def betaincc(a: NDArray[Any], b: PlainArray, x: PlainArray, /) -> NDArray[Any]: ...
@overload
def betaincc(a: PlainArray, b: NDArray[Any], x: PlainArray, /) -> NDArray[Any]: ...
@overload
def betaincc(a: PlainArray, b: PlainArray, x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def betaincc(a: Operand, b: Operand, x: Operand, /) -> Any: ...
@overload
def betaln(a: float, b: float, /) -> float:
    """Logarithm of the absolute value of the beta function."""
@overload
def betaln(a: Value, b: Operand, /) -> Value: ...
@overload
def betaln(a: Operand, b: Value, /) -> Value: ...
@overload
def betaln(a: NDArray[Any], b: PlainArray, /) -> NDArray[Any]: ...
@overload
def betaln(a: PlainArray, b: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def betaln(a: Operand, b: Operand, /) -> Any: ...
def bincount(x: Any, /, weights: Operand | None = None, minlength: int = 0) -> Any:
    """How often each whole number occurs, or the sum of its weights."""
@overload
def binom(n: float, k: float, /) -> float:
    """Binomial coefficient: n over k, also between whole numbers."""
@overload
def binom(n: Value, k: Operand, /) -> Value: ...
@overload
def binom(n: Operand, k: Value, /) -> Value: ...
@overload
def binom(n: NDArray[Any], k: PlainArray, /) -> NDArray[Any]: ...
@overload
def binom(n: PlainArray, k: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def binom(n: Operand, k: Operand, /) -> Any: ...
@overload
def block(xs: NDArray[Any] | Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Arrays joined as nested lists arrange them: the innermost along the last axis, and so on outwards."""
@overload
def block(xs: Value | Sequence[Value]) -> Value: ...
@overload
def block(xs: Operand) -> Any: ...
@overload
def block_diag(*arrs: NDArray[Any]) -> Any:
    """Matrices put along the diagonal of a larger matrix of zeros."""
@overload
def block_diag(*arrs: Value) -> Value: ...
@overload
def block_diag(*arrs: Operand) -> Any: ...
@overload
def broadcast_arrays(*xs: NDArray[Any]) -> Any:
    """Arrays spread to the shape they have in common."""
@overload
def broadcast_arrays(*xs: Value) -> tuple[Value, ...]: ...
@overload
def broadcast_arrays(*xs: Operand) -> Any: ...
@overload
def broadcast_to(x: NDArray[Any], shape: int | Sequence[int] | None) -> NDArray[Any]:
    """The array spread to a shape."""
@overload
def broadcast_to(x: Value, shape: int | Sequence[int] | None) -> Value: ...
@overload
def broadcast_to(x: Operand, shape: int | Sequence[int] | None) -> Any: ...
def can_cast(from_: Any, to: Any, casting: Any = 'safe') -> Any:
    """Whether a dtype can be cast to another."""
@overload
def cbrt(x: float, /) -> float:
    """Cube root."""
@overload
def cbrt(x: Value, /) -> Value: ...
@overload
def cbrt(x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def cbrt(x: Operand, /) -> Any: ...
@overload
def ceil(x: float, /) -> float:
    """Smallest whole number not below the wire."""
@overload
def ceil(x: Value, /) -> Value: ...
@overload
def ceil(x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def ceil(x: Operand, /) -> Any: ...
@overload
def cho_factor(a: NDArray[Any], lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The Cholesky factor in one triangle, for `cho_solve`; the other triangle has the elements of a."""
@overload
def cho_factor(a: Value, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Value, Any]: ...
@overload
def cho_factor(a: Operand, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any: ...
@overload
def cho_solve(c_and_lower: Sequence[Value], b: Operand, overwrite_b: bool = False, check_finite: bool = True) -> Value:
    """The x for which a @ x = b, where `cho_factor` has factored a."""
@overload
def cho_solve(c_and_lower: Operand, b: Value, overwrite_b: bool = False, check_finite: bool = True) -> Value: ...
@overload
def cho_solve(c_and_lower: Operand, b: Operand, overwrite_b: bool = False, check_finite: bool = True) -> Any: ...
@overload
def cholesky(a: NDArray[Any], /, *, upper: bool = False) -> NDArray[Any]:
    """The lower (or upper) triangular factor of a positive definite matrix, of which that triangle is read."""
@overload
def cholesky(a: Value, /, *, upper: bool = False) -> Value: ...
@overload
def cholesky(a: Operand, /, *, upper: bool = False) -> Any: ...
@overload
def choose(a: Any, choices: Sequence[Value], mode: str = 'raise') -> Value:
    """Elements of several arrays, picked by an array of whole numbers."""
@overload
def choose(a: Any, choices: Operand, mode: str = 'raise') -> Any: ...
@overload
def circulant(c: NDArray[Any]) -> NDArray[Any]:
    """The matrix whose columns are the vector, rolled by one more step each."""
@overload
def circulant(c: Value) -> Value: ...
@overload
def circulant(c: Operand) -> Any: ...
@overload
def clip(x: NDArray[Any], a_min: PlainArray | None = None, a_max: PlainArray | None = None, *, min: PlainArray | None = None, max: PlainArray | None = None) -> NDArray[Any]:
    """The array between two bounds, either of which may be None."""
@overload
def clip(x: Value, a_min: Operand | None = None, a_max: Operand | None = None, *, min: Operand | None = None, max: Operand | None = None) -> Value: ...
@overload
def clip(x: Operand, a_min: Operand | None = None, a_max: Operand | None = None, *, min: Operand | None = None, max: Operand | None = None) -> Any: ...
@overload
def coherence(x: NDArray[Any], y: PlainArray, fs: Any = 1.0, window: Any = 'hann', nperseg: Any = None, noverlap: Any = None, nfft: Any = None, detrend: Any = 'constant', axis: int = -1) -> Any:
    """Frequencies and the squared cross spectrum of two real signals, divided by their power spectra."""
@overload
def coherence(x: Value, y: Operand, fs: Any = 1.0, window: Any = 'hann', nperseg: Any = None, noverlap: Any = None, nfft: Any = None, detrend: Any = 'constant', axis: int = -1) -> tuple[Any, Value]: ...
@overload
def coherence(x: Operand, y: Value, fs: Any = 1.0, window: Any = 'hann', nperseg: Any = None, noverlap: Any = None, nfft: Any = None, detrend: Any = 'constant', axis: int = -1) -> tuple[Any, Value]: ...
@overload
def coherence(x: Operand, y: Operand, fs: Any = 1.0, window: Any = 'hann', nperseg: Any = None, noverlap: Any = None, nfft: Any = None, detrend: Any = 'constant', axis: int = -1) -> Any: ...
@overload
def column_stack(xs: NDArray[Any] | Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Rows joined as the columns of a matrix."""
@overload
def column_stack(xs: Value | Sequence[Value]) -> Value: ...
@overload
def column_stack(xs: Operand) -> Any: ...
@overload
def comb(N: NDArray[Any], k: PlainArray, *, exact: bool = False, repetition: bool = False) -> NDArray[Any]:
    """The number of ways to choose k of N things."""
@overload
def comb(N: Value, k: Operand, *, exact: bool = False, repetition: bool = False) -> Value: ...
@overload
def comb(N: Operand, k: Value, *, exact: bool = False, repetition: bool = False) -> Value: ...
@overload
def comb(N: Operand, k: Operand, *, exact: bool = False, repetition: bool = False) -> Any: ...
def common_type(*xs: Any) -> Any:
    """The floating type that holds all of these."""
@overload
def compress(condition: Any, x: NDArray[Any], axis: int | None = None) -> NDArray[Any]:
    """Slices along an axis where a condition holds."""
@overload
def compress(condition: Any, x: Value, axis: int | None = None) -> Value: ...
@overload
def compress(condition: Any, x: Operand, axis: int | None = None) -> Any: ...
@overload
def concatenate(xs: NDArray[Any] | Sequence[NDArray[Any]], axis: int | None = 0, *, dtype: DTypeLike | None = None, casting: str = 'same_kind') -> NDArray[Any]:
    """Arrays joined along an axis they have."""
@overload
def concatenate(xs: Value | Sequence[Value], axis: int | None = 0, *, dtype: DTypeLike | None = None, casting: str = 'same_kind') -> Value: ...
@overload
def concatenate(xs: Operand, axis: int | None = 0, *, dtype: DTypeLike | None = None, casting: str = 'same_kind') -> Any: ...
@overload
def conj(x: NDArray[Any]) -> NDArray[Any]:
    """The complex conjugate."""
@overload
def conj(x: Value) -> Value: ...
@overload
def conj(x: Operand) -> Any: ...
@overload
def conjugate(x: NDArray[Any]) -> NDArray[Any]:
    """The complex conjugate."""
@overload
def conjugate(x: Value) -> Value: ...
@overload
def conjugate(x: Operand) -> Any: ...
@overload
def conv1d(input: NDArray[Any], weight: PlainArray, bias: PlainArray | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> NDArray[Any]:
    """Slide kernels (out, channels, length) over signals (batch, channels, length), without flipping them."""
@overload
def conv1d(input: Value, weight: Operand, bias: Operand | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Value: ...
@overload
def conv1d(input: Operand, weight: Value, bias: Operand | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Value: ...
@overload
def conv1d(input: Operand, weight: Operand, bias: Operand | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Any: ...
@overload
def conv2d(input: NDArray[Any], weight: PlainArray, bias: PlainArray | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> NDArray[Any]:
    """Slide kernels (out, channels, height, width) over images (batch, channels, height, width), without flipping."""
@overload
def conv2d(input: Value, weight: Operand, bias: Operand | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Value: ...
@overload
def conv2d(input: Operand, weight: Value, bias: Operand | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Value: ...
@overload
def conv2d(input: Operand, weight: Operand, bias: Operand | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Any: ...
@overload
def conv_transpose1d(input: NDArray[Any], weight: PlainArray, bias: PlainArray | None = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0, groups: int = 1, dilation: Any = 1) -> NDArray[Any]:
    """Add up kernels (channels, out, length) scaled by each number of a signal: what conv1d sends back."""
@overload
def conv_transpose1d(input: Value, weight: Operand, bias: Operand | None = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0, groups: int = 1, dilation: Any = 1) -> Value: ...
@overload
def conv_transpose1d(input: Operand, weight: Value, bias: Operand | None = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0, groups: int = 1, dilation: Any = 1) -> Value: ...
@overload
def conv_transpose1d(input: Operand, weight: Operand, bias: Operand | None = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0, groups: int = 1, dilation: Any = 1) -> Any: ...
@overload
def conv_transpose2d(input: NDArray[Any], weight: PlainArray, bias: PlainArray | None = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0, groups: int = 1, dilation: Any = 1) -> NDArray[Any]:
    """Add up kernels (channels, out, height, width) scaled by each number of an image: what conv2d sends back."""
@overload
def conv_transpose2d(input: Value, weight: Operand, bias: Operand | None = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0, groups: int = 1, dilation: Any = 1) -> Value: ...
@overload
def conv_transpose2d(input: Operand, weight: Value, bias: Operand | None = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0, groups: int = 1, dilation: Any = 1) -> Value: ...
@overload
def conv_transpose2d(input: Operand, weight: Operand, bias: Operand | None = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0, groups: int = 1, dilation: Any = 1) -> Any: ...
@overload
def convolve(a: NDArray[Any], v: PlainArray, mode: str = 'full') -> NDArray[Any]:
    """Slide one signal, turned around, over another."""
@overload
def convolve(a: Value, v: Operand, mode: str = 'full') -> Value: ...
@overload
def convolve(a: Operand, v: Value, mode: str = 'full') -> Value: ...
@overload
def convolve(a: Operand, v: Operand, mode: str = 'full') -> Any: ...
@overload
def convolve1d(input: NDArray[Any], weights: PlainArray, axis: int = -1, output: Any = None, mode: str = 'reflect', cval: PlainArray = 0.0, origin: int = 0) -> NDArray[Any]:
    """Slide weights, turned around, over an image along one axis."""
@overload
def convolve1d(input: Value, weights: Operand, axis: int = -1, output: Any = None, mode: str = 'reflect', cval: Operand = 0.0, origin: int = 0) -> Value: ...
@overload
def convolve1d(input: Operand, weights: Value, axis: int = -1, output: Any = None, mode: str = 'reflect', cval: Operand = 0.0, origin: int = 0) -> Value: ...
@overload
def convolve1d(input: Operand, weights: Operand, axis: int = -1, output: Any = None, mode: str = 'reflect', cval: Operand = 0.0, origin: int = 0) -> Any: ...
@overload
def copy(x: NDArray[Any], order: str = 'K', subok: bool = False) -> NDArray[Any]:
    """The array itself: recorded arrays never change, so no copy is needed."""
@overload
def copy(x: Value, order: str = 'K', subok: bool = False) -> Value: ...
@overload
def copy(x: Operand, order: str = 'K', subok: bool = False) -> Any: ...
@overload
def copysign(a: float, b: float, /) -> float:
    """Magnitude of the first wire with the sign of the second; a NaN counts as positive."""
@overload
def copysign(a: Value, b: Operand, /) -> Value: ...
@overload
def copysign(a: Operand, b: Value, /) -> Value: ...
@overload
def copysign(a: NDArray[Any], b: PlainArray, /) -> NDArray[Any]: ...
@overload
def copysign(a: PlainArray, b: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def copysign(a: Operand, b: Operand, /) -> Any: ...
def copyto(*_: Any, **__: Any) -> Any:
    """Write to an array that can be filled, as `np.zeros(n)` in a transform; gradients flow to what is written."""
@overload
def corrcoef(x: NDArray[Any], y: PlainArray | None = None, rowvar: bool = True, *, dtype: DTypeLike | None = None) -> NDArray[Any]:
    """Correlations of variables, which are rows unless `rowvar` is false."""
@overload
def corrcoef(x: Value, y: Operand | None = None, rowvar: bool = True, *, dtype: DTypeLike | None = None) -> Value: ...
@overload
def corrcoef(x: Operand, y: Operand | None = None, rowvar: bool = True, *, dtype: DTypeLike | None = None) -> Any: ...
@overload
def correlate(a: NDArray[Any], v: PlainArray, mode: str = 'valid') -> NDArray[Any]:
    """Slide one signal over another, without turning it around."""
@overload
def correlate(a: Value, v: Operand, mode: str = 'valid') -> Value: ...
@overload
def correlate(a: Operand, v: Value, mode: str = 'valid') -> Value: ...
@overload
def correlate(a: Operand, v: Operand, mode: str = 'valid') -> Any: ...
@overload
def correlate1d(input: NDArray[Any], weights: PlainArray, axis: int = -1, output: Any = None, mode: str = 'reflect', cval: PlainArray = 0.0, origin: int = 0) -> NDArray[Any]:
    """Slide weights over an image along one axis."""
@overload
def correlate1d(input: Value, weights: Operand, axis: int = -1, output: Any = None, mode: str = 'reflect', cval: Operand = 0.0, origin: int = 0) -> Value: ...
@overload
def correlate1d(input: Operand, weights: Value, axis: int = -1, output: Any = None, mode: str = 'reflect', cval: Operand = 0.0, origin: int = 0) -> Value: ...
@overload
def correlate1d(input: Operand, weights: Operand, axis: int = -1, output: Any = None, mode: str = 'reflect', cval: Operand = 0.0, origin: int = 0) -> Any: ...
@overload
def cos(x: float, /) -> float:
    """Cosine of an angle in radians."""
@overload
def cos(x: Value, /) -> Value: ...
@overload
def cos(x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def cos(x: Operand, /) -> Any: ...
@overload
def cosh(x: float, /) -> float:
    """Hyperbolic cosine."""
@overload
def cosh(x: Value, /) -> Value: ...
@overload
def cosh(x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def cosh(x: Operand, /) -> Any: ...
def count_nonzero(a: Operand, axis: int | Sequence[int] | None = None, *, keepdims: bool = False) -> Any:
    """How many elements are not 0."""
@overload
def cov(m: NDArray[Any], y: PlainArray | None = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None, fweights: Any = None, aweights: Sequence[PlainArray] | None = None, *, dtype: DTypeLike | None = None) -> Any:
    """Covariances of variables, which are rows unless `rowvar` is false."""
@overload
def cov(m: Value, y: Operand | None = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None, fweights: Any = None, aweights: Operand | None = None, *, dtype: DTypeLike | None = None) -> Value: ...
@overload
def cov(m: Operand, y: Operand | None = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None, fweights: Any = None, aweights: Operand | None = None, *, dtype: DTypeLike | None = None) -> Any: ...
@overload
def cross(a: NDArray[Any], b: PlainArray, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> NDArray[Any]:
    """The vector at right angles to two vectors of length 3 (or 2, whose third element is taken as 0)."""
@overload
def cross(a: Value, b: Operand, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Value: ...
@overload
def cross(a: Operand, b: Value, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Value: ...
@overload
def cross(a: Operand, b: Operand, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Any: ...
@overload
def cross_entropy(input: NDArray[Any], target: PlainArray, reduction: str = 'mean') -> Any:
    """Return minus the logarithm of the softmax of the right class; target is classes, or a probability for each."""
@overload
def cross_entropy(input: Value, target: Operand, reduction: str = 'mean') -> Value: ...
@overload
def cross_entropy(input: Operand, target: Operand, reduction: str = 'mean') -> Any: ...
@overload
def csd(x: NDArray[Any], y: PlainArray, fs: PlainArray = 1.0, window: PlainArray | str = 'hann', nperseg: Any = None, noverlap: Any = None, nfft: Any = None, detrend: Any = 'constant', return_onesided: bool = True, scaling: str = 'density', axis: int = -1, average: str = 'mean') -> Any:
    """Frequencies and the cross spectrum of two real signals, averaged over segments that overlap."""
@overload
def csd(x: Value, y: Operand, fs: Operand = 1.0, window: Operand | str = 'hann', nperseg: Any = None, noverlap: Any = None, nfft: Any = None, detrend: Any = 'constant', return_onesided: bool = True, scaling: str = 'density', axis: int = -1, average: str = 'mean') -> tuple[Any, Value]: ...
@overload
def csd(x: Operand, y: Value, fs: Operand = 1.0, window: Operand | str = 'hann', nperseg: Any = None, noverlap: Any = None, nfft: Any = None, detrend: Any = 'constant', return_onesided: bool = True, scaling: str = 'density', axis: int = -1, average: str = 'mean') -> tuple[Any, Value]: ...
@overload
def csd(x: Operand, y: Operand, fs: Operand = 1.0, window: Operand | str = 'hann', nperseg: Any = None, noverlap: Any = None, nfft: Any = None, detrend: Any = 'constant', return_onesided: bool = True, scaling: str = 'density', axis: int = -1, average: str = 'mean') -> Any: ...
@overload
def cubic_spline(x_new: NDArray[Any], x: Sequence[PlainArray], y: PlainArray, bc_type: Any = 'not-a-knot', nu: int = 0) -> NDArray[Any]:
    """The cubic spline through points (x, y), or a derivative of it, at new places: SciPy's CubicSpline in one call."""
@overload
def cubic_spline(x_new: Value, x: Operand, y: Operand, bc_type: Any = 'not-a-knot', nu: int = 0) -> Value: ...
@overload
def cubic_spline(x_new: Operand, x: Operand, y: Value, bc_type: Any = 'not-a-knot', nu: int = 0) -> Value: ...
@overload
def cubic_spline(x_new: Operand, x: Operand, y: Operand, bc_type: Any = 'not-a-knot', nu: int = 0) -> Any: ...
@overload
def cumprod(a: NDArray[Any], axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None) -> NDArray[Any]:
    """Running product along an axis, or of everything in one row; exact where factors are 0."""
@overload
def cumprod(a: Value, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None) -> Value: ...
@overload
def cumprod(a: Operand, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None) -> Any: ...
@overload
def cumsum(a: NDArray[Any], axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None) -> NDArray[Any]:
    """Running sum along an axis, or of everything in one row."""
@overload
def cumsum(a: Value, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None) -> Value: ...
@overload
def cumsum(a: Operand, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None) -> Any: ...
@overload
def cumulative_prod(x: NDArray[Any], /, *, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None, include_initial: bool = False) -> NDArray[Any]:
    """Running product along an axis; with `include_initial` it starts with 1."""
@overload
def cumulative_prod(x: Value, /, *, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None, include_initial: bool = False) -> Value: ...
@overload
def cumulative_prod(x: Operand, /, *, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None, include_initial: bool = False) -> Any: ...
@overload
def cumulative_sum(x: NDArray[Any], /, *, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None, include_initial: bool = False) -> NDArray[Any]:
    """Running sum along an axis; with `include_initial` it starts with 0."""
@overload
def cumulative_sum(x: Value, /, *, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None, include_initial: bool = False) -> Value: ...
@overload
def cumulative_sum(x: Operand, /, *, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None, include_initial: bool = False) -> Any: ...
@overload
def cumulative_trapezoid(y: NDArray[Any], x: PlainArray | None = None, dx: PlainArray = 1.0, axis: int = -1, initial: Any = None) -> NDArray[Any]:
    """Integrals from the first point to each later one along an axis, by the trapezoidal rule."""
@overload
def cumulative_trapezoid(y: Value, x: Operand | None = None, dx: Operand = 1.0, axis: int = -1, initial: Any = None) -> Value: ...
@overload
def cumulative_trapezoid(y: Operand, x: Operand | None = None, dx: Operand = 1.0, axis: int = -1, initial: Any = None) -> Any: ...
@overload
def dct(x: NDArray[Any], type: int = 2, n: Any = None, axis: int | Sequence[int] | None = -1, norm: Any = None, *scipy: Any, **settings: Any) -> NDArray[Any]:
    """The discrete cosine transform along an axis, of type 1, 2, 3 or 4."""
@overload
def dct(x: Value, type: int = 2, n: Any = None, axis: int | Sequence[int] | None = -1, norm: Any = None, *scipy: Any, **settings: Any) -> Value: ...
@overload
def dct(x: Operand, type: int = 2, n: Any = None, axis: int | Sequence[int] | None = -1, norm: Any = None, *scipy: Any, **settings: Any) -> Any: ...
@overload
def dctn(x: NDArray[Any], type: int = 2, s: Any = None, axes: Any = None, norm: Any = None, *scipy: Any, **settings: Any) -> NDArray[Any]:
    """The discrete cosine transform along several axes."""
@overload
def dctn(x: Value, type: int = 2, s: Any = None, axes: Any = None, norm: Any = None, *scipy: Any, **settings: Any) -> Value: ...
@overload
def dctn(x: Operand, type: int = 2, s: Any = None, axes: Any = None, norm: Any = None, *scipy: Any, **settings: Any) -> Any: ...
@overload
def deg2rad(x: NDArray[Any]) -> NDArray[Any]:
    """Degrees as radians."""
@overload
def deg2rad(x: Value) -> Value: ...
@overload
def deg2rad(x: Operand) -> Any: ...
@overload
def delete(x: NDArray[Any], index: Any, axis: int | None = None) -> NDArray[Any]:
    """The array without some of its slices along an axis."""
@overload
def delete(x: Value, index: Any, axis: int | None = None) -> Value: ...
@overload
def delete(x: Operand, index: Any, axis: int | None = None) -> Any: ...
@overload
def det(a: NDArray[Any]) -> Any:
    """The determinant; first and second derivatives are right for singular matrices too."""
@overload
def det(a: Value) -> Value: ...
@overload
def det(a: Operand) -> Any: ...
@overload
def diag(x: NDArray[Any], k: int = 0) -> NDArray[Any]:
    """The diagonal of a matrix, or the matrix with a row as its diagonal."""
@overload
def diag(x: Value, k: int = 0) -> Value: ...
@overload
def diag(x: Operand, k: int = 0) -> Any: ...
def diag_indices_from(x: Operand) -> tuple[NDArray[Any], ...]:
    """The indices of the diagonal."""
@overload
def diagflat(x: NDArray[Any], k: int = 0) -> NDArray[Any]:
    """The matrix with all elements of an array on its diagonal."""
@overload
def diagflat(x: Value, k: int = 0) -> Value: ...
@overload
def diagflat(x: Operand, k: int = 0) -> Any: ...
@overload
def diagonal(x: NDArray[Any], offset: int = 0, axis1: int = 0, axis2: int = 1) -> NDArray[Any]:
    """The elements where two indices differ by an offset."""
@overload
def diagonal(x: Value, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Value: ...
@overload
def diagonal(x: Operand, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any: ...
@overload
def digamma(x: float, /) -> float:
    """Slope of gammaln."""
@overload
def digamma(x: Value, /) -> Value: ...
@overload
def digamma(x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def digamma(x: Operand, /) -> Any: ...
def digitize(x: Operand, bins: Any, right: bool = False) -> Any:
    """Index of the bin that each element falls into."""
@overload
def divide(a: float, b: float, /) -> float:
    """Quotient of two wires."""
@overload
def divide(a: Value, b: Operand, /) -> Value: ...
@overload
def divide(a: Operand, b: Value, /) -> Value: ...
@overload
def divide(a: NDArray[Any], b: PlainArray, /) -> NDArray[Any]: ...
@overload
def divide(a: PlainArray, b: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def divide(a: Operand, b: Operand, /) -> Any: ...
@overload
def divmod(a: NDArray[Any], b: PlainArray) -> Any:
    """Quotient, rounded down, and remainder."""
@overload
def divmod(a: Value, b: Operand) -> tuple[Value, Value]: ...
@overload
def divmod(a: Operand, b: Value) -> tuple[Value, Value]: ...
@overload
def divmod(a: Operand, b: Operand) -> Any: ...
@overload
def dot(a: NDArray[Any], b: PlainArray) -> Any:
    """Sum of products over the last axis of a and the last but one of b."""
@overload
def dot(a: Value, b: Operand) -> Value: ...
@overload
def dot(a: Operand, b: Value) -> Value: ...
@overload
def dot(a: Operand, b: Operand) -> Any: ...
@overload
def dsplit(x: NDArray[Any], indices_or_sections: Any) -> Any:
    """An array cut along its third axis."""
@overload
def dsplit(x: Value, indices_or_sections: Any) -> list[Value]: ...
@overload
def dsplit(x: Operand, indices_or_sections: Any) -> Any: ...
@overload
def dst(x: NDArray[Any], type: int = 2, n: Any = None, axis: int | Sequence[int] | None = -1, norm: Any = None, *scipy: Any, **settings: Any) -> NDArray[Any]:
    """The discrete sine transform along an axis, of type 1, 2, 3 or 4."""
@overload
def dst(x: Value, type: int = 2, n: Any = None, axis: int | Sequence[int] | None = -1, norm: Any = None, *scipy: Any, **settings: Any) -> Value: ...
@overload
def dst(x: Operand, type: int = 2, n: Any = None, axis: int | Sequence[int] | None = -1, norm: Any = None, *scipy: Any, **settings: Any) -> Any: ...
@overload
def dstack(xs: NDArray[Any] | Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Arrays joined along the third axis."""
@overload
def dstack(xs: Value | Sequence[Value]) -> Value: ...
@overload
def dstack(xs: Operand) -> Any: ...
@overload
def dstn(x: NDArray[Any], type: int = 2, s: Any = None, axes: Any = None, norm: Any = None, *scipy: Any, **settings: Any) -> NDArray[Any]:
    """The discrete sine transform along several axes."""
@overload
def dstn(x: Value, type: int = 2, s: Any = None, axes: Any = None, norm: Any = None, *scipy: Any, **settings: Any) -> Value: ...
@overload
def dstn(x: Operand, type: int = 2, s: Any = None, axes: Any = None, norm: Any = None, *scipy: Any, **settings: Any) -> Any: ...
@overload
def ediff1d(ary: NDArray[Any], to_end: PlainArray | None = None, to_begin: PlainArray | None = None) -> NDArray[Any]:
    """Differences between neighbours of all elements in a row, with numbers before and behind."""
@overload
def ediff1d(ary: Value, to_end: Operand | None = None, to_begin: Operand | None = None) -> Value: ...
@overload
def ediff1d(ary: Operand, to_end: Operand | None = None, to_begin: Operand | None = None) -> Any: ...
@overload
def eig(a: NDArray[Any]) -> Any:
    """Eigenvalues and eigenvectors of a square matrix; complex, unless all are real."""
@overload
def eig(a: Value) -> tuple[Value, Value]: ...
@overload
def eig(a: Operand) -> Any: ...
@overload
def eigh(a: NDArray[Any], UPLO: str = 'L') -> Any:
    """Eigenvalues and eigenvectors of a symmetric matrix, of which one triangle is read; the gradient is symmetric."""
@overload
def eigh(a: Value, UPLO: str = 'L') -> tuple[Value, Value]: ...
@overload
def eigh(a: Operand, UPLO: str = 'L') -> Any: ...
@overload
def eigvals(a: NDArray[Any]) -> NDArray[Any]:
    """Eigenvalues of a square matrix; complex, unless all are real."""
@overload
def eigvals(a: Value) -> Value: ...
@overload
def eigvals(a: Operand) -> Any: ...
@overload
def eigvalsh(a: NDArray[Any], UPLO: str = 'L') -> NDArray[Any]:
    """Eigenvalues of a symmetric matrix, of which one triangle is read; the gradient is symmetric."""
@overload
def eigvalsh(a: Value, UPLO: str = 'L') -> Value: ...
@overload
def eigvalsh(a: Operand, UPLO: str = 'L') -> Any: ...
@overload
def einsum(*operands: NDArray[Any], optimize: Any = False, **keywords: Any) -> Any:
    """Sums of products over named axes, as in "ij,jk->ik"; the order of the products is chosen automatically."""
@overload
def einsum(*operands: Value, optimize: Any = False, **keywords: Any) -> Value: ...
@overload
def einsum(*operands: Operand, optimize: Any = False, **keywords: Any) -> Any: ...
def einsum_path(*operands: Any, optimize: Any = 'greedy', einsum_call: bool = False) -> Any:
    """The order in which einsum would multiply; it depends on shapes alone."""
@overload
def embedding(input: Any, weight: NDArray[Any]) -> NDArray[Any]:
    """Return the rows of a table (numbers, width) that whole numbers name."""
@overload
def embedding(input: Any, weight: Value) -> Value: ...
@overload
def embedding(input: Any, weight: Operand) -> Any: ...
def empty_like(x: Operand, dtype: DTypeLike | None = None, order: Any = 'K', subok: bool = True, shape: int | Sequence[int] | None = None) -> Any:
    """An array of the same shape and dtype, to be filled."""
@overload
def entr(x: float, /) -> float:
    """-x log(x), the entropy of a probability; 0 at 0."""
@overload
def entr(x: Value, /) -> Value: ...
@overload
def entr(x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def entr(x: Operand, /) -> Any: ...
@overload
def equal(a: NDArray[Any], b: PlainArray, /) -> NDArray[Any]:
    """Whether a = b."""
@overload
def equal(a: PlainArray, b: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def equal(a: Operand, b: Operand, /) -> Any: ...
@overload
def erf(x: float, /) -> float:
    """Error function."""
@overload
def erf(x: Value, /) -> Value: ...
@overload
def erf(x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def erf(x: Operand, /) -> Any: ...
@overload
def erfc(x: float, /) -> float:
    """1 - erf(x), exact for large x."""
@overload
def erfc(x: Value, /) -> Value: ...
@overload
def erfc(x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def erfc(x: Operand, /) -> Any: ...
@overload
def erfcinv(x: float, /) -> float:
    """Inverse of erfc."""
@overload
def erfcinv(x: Value, /) -> Value: ...
@overload
def erfcinv(x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def erfcinv(x: Operand, /) -> Any: ...
@overload
def erfcx(x: float, /) -> float:
    """exp(x**2) erfc(x), without underflow."""
@overload
def erfcx(x: Value, /) -> Value: ...
@overload
def erfcx(x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def erfcx(x: Operand, /) -> Any: ...
@overload
def erfinv(x: float, /) -> float:
    """Inverse of erf."""
@overload
def erfinv(x: Value, /) -> Value: ...
@overload
def erfinv(x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def erfinv(x: Operand, /) -> Any: ...
@overload
def exp(x: float, /) -> float:
    """e to the power of the wire."""
@overload
def exp(x: Value, /) -> Value: ...
@overload
def exp(x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def exp(x: Operand, /) -> Any: ...
@overload
def exp10(x: NDArray[Any]) -> NDArray[Any]:
    """10 to the power of the wire."""
@overload
def exp10(x: Value) -> Value: ...
@overload
def exp10(x: Operand) -> Any: ...
@overload
def exp2(x: float, /) -> float:
    """2 to the power of the wire."""
@overload
def exp2(x: Value, /) -> Value: ...
@overload
def exp2(x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def exp2(x: Operand, /) -> Any: ...
@overload
def expand_dims(x: NDArray[Any], axis: int | Sequence[int] | None) -> NDArray[Any]:
    """The array with new axes of length 1."""
@overload
def expand_dims(x: Value, axis: int | Sequence[int] | None) -> Value: ...
@overload
def expand_dims(x: Operand, axis: int | Sequence[int] | None) -> Any: ...
@overload
def expm(A: NDArray[Any]) -> NDArray[Any]:
    """The exponential of a matrix."""
@overload
def expm(A: Value) -> Value: ...
@overload
def expm(A: Operand) -> Any: ...
@overload
def expm1(x: float, /) -> float:
    """exp(x) - 1, exact near 0."""
@overload
def expm1(x: Value, /) -> Value: ...
@overload
def expm1(x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def expm1(x: Operand, /) -> Any: ...
@overload
def extract(condition: Any, x: NDArray[Any]) -> NDArray[Any]:
    """Elements where a condition holds, in one row."""
@overload
def extract(condition: Any, x: Value) -> Value: ...
@overload
def extract(condition: Any, x: Operand) -> Any: ...
@overload
def fabs(x: NDArray[Any]) -> NDArray[Any]:
    """The absolute value of real numbers."""
@overload
def fabs(x: Value) -> Value: ...
@overload
def fabs(x: Operand) -> Any: ...
@overload
def factorial(n: NDArray[Any], exact: bool = False, extend: str = 'zero') -> NDArray[Any]:
    """n!, the gamma function of n + 1; 0 for a negative n."""
@overload
def factorial(n: Value, exact: bool = False, extend: str = 'zero') -> Value: ...
@overload
def factorial(n: Operand, exact: bool = False, extend: str = 'zero') -> Any: ...
@overload
def fft(a: NDArray[Any], n: Any = None, axis: int | Sequence[int] | None = -1, norm: Any = None, *scipy: Any, **settings: Any) -> NDArray[Any]:
    """The discrete Fourier transform along an axis."""
@overload
def fft(a: Value, n: Any = None, axis: int | Sequence[int] | None = -1, norm: Any = None, *scipy: Any, **settings: Any) -> Value: ...
@overload
def fft(a: Operand, n: Any = None, axis: int | Sequence[int] | None = -1, norm: Any = None, *scipy: Any, **settings: Any) -> Any: ...
@overload
def fft2(a: NDArray[Any], s: Any = None, axes: Any = ..., norm: Any = None, *scipy: Any, **settings: Any) -> NDArray[Any]:
    """The discrete Fourier transform along two axes."""
@overload
def fft2(a: Value, s: Any = None, axes: Any = ..., norm: Any = None, *scipy: Any, **settings: Any) -> Value: ...
@overload
def fft2(a: Operand, s: Any = None, axes: Any = ..., norm: Any = None, *scipy: Any, **settings: Any) -> Any: ...
@overload
def fftconvolve(in1: NDArray[Any], in2: PlainArray, mode: str = 'full', axes: Any = None) -> NDArray[Any]:
    """Convolve arrays by multiplying their spectra, along all axes or some of them."""
@overload
def fftconvolve(in1: Value, in2: Operand, mode: str = 'full', axes: Any = None) -> Value: ...
@overload
def fftconvolve(in1: Operand, in2: Value, mode: str = 'full', axes: Any = None) -> Value: ...
@overload
def fftconvolve(in1: Operand, in2: Operand, mode: str = 'full', axes: Any = None) -> Any: ...
@overload
def fftn(a: NDArray[Any], s: Any = None, axes: Any = None, norm: Any = None, *scipy: Any, **settings: Any) -> NDArray[Any]:
    """The discrete Fourier transform along several axes."""
@overload
def fftn(a: Value, s: Any = None, axes: Any = None, norm: Any = None, *scipy: Any, **settings: Any) -> Value: ...
@overload
def fftn(a: Operand, s: Any = None, axes: Any = None, norm: Any = None, *scipy: Any, **settings: Any) -> Any: ...
@overload
def fftshift(x: NDArray[Any], axes: Any = None) -> NDArray[Any]:
    """The elements rolled so that frequency 0 is in the middle."""
@overload
def fftshift(x: Value, axes: Any = None) -> Value: ...
@overload
def fftshift(x: Operand, axes: Any = None) -> Any: ...
@overload
def fix(x: NDArray[Any]) -> NDArray[Any]:
    """The nearest whole number towards 0."""
@overload
def fix(x: Value) -> Value: ...
@overload
def fix(x: Operand) -> Any: ...
def flatnonzero(x: Operand) -> NDArray[Any]:
    """The indices of the elements that are not 0, in one row."""
@overload
def flip(x: NDArray[Any], axis: int | Sequence[int] | None = None) -> NDArray[Any]:
    """The elements in reverse order along axes."""
@overload
def flip(x: Value, axis: int | Sequence[int] | None = None) -> Value: ...
@overload
def flip(x: Operand, axis: int | Sequence[int] | None = None) -> Any: ...
@overload
def fliplr(x: NDArray[Any]) -> NDArray[Any]:
    """The columns in reverse order."""
@overload
def fliplr(x: Value) -> Value: ...
@overload
def fliplr(x: Operand) -> Any: ...
@overload
def flipud(x: NDArray[Any]) -> NDArray[Any]:
    """The rows in reverse order."""
@overload
def flipud(x: Value) -> Value: ...
@overload
def flipud(x: Operand) -> Any: ...
@overload
def float_power(a: NDArray[Any], b: PlainArray) -> NDArray[Any]:
    """First operand to the power of the second, in float64 at least."""
@overload
def float_power(a: Value, b: Operand) -> Value: ...
@overload
def float_power(a: Operand, b: Value) -> Value: ...
@overload
def float_power(a: Operand, b: Operand) -> Any: ...
@overload
def floor(x: float, /) -> float:
    """Largest whole number not above the wire."""
@overload
def floor(x: Value, /) -> Value: ...
@overload
def floor(x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def floor(x: Operand, /) -> Any: ...
@overload
def floor_divide(a: float, b: float, /) -> float:
    """Largest whole number not above a / b."""
@overload
def floor_divide(a: Value, b: Operand, /) -> Value: ...
@overload
def floor_divide(a: Operand, b: Value, /) -> Value: ...
@overload
def floor_divide(a: NDArray[Any], b: PlainArray, /) -> NDArray[Any]: ...
@overload
def floor_divide(a: PlainArray, b: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def floor_divide(a: Operand, b: Operand, /) -> Any: ...
@overload
def fmax(a: float, b: float, /) -> float:
    """The larger of two wires; NaN only if both are NaN."""
@overload
def fmax(a: Value, b: Operand, /) -> Value: ...
@overload
def fmax(a: Operand, b: Value, /) -> Value: ...
@overload
def fmax(a: NDArray[Any], b: PlainArray, /) -> NDArray[Any]: ...
@overload
def fmax(a: PlainArray, b: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def fmax(a: Operand, b: Operand, /) -> Any: ...
@overload
def fmin(a: float, b: float, /) -> float:
    """The smaller of two wires; NaN only if both are NaN."""
@overload
def fmin(a: Value, b: Operand, /) -> Value: ...
@overload
def fmin(a: Operand, b: Value, /) -> Value: ...
@overload
def fmin(a: NDArray[Any], b: PlainArray, /) -> NDArray[Any]: ...
@overload
def fmin(a: PlainArray, b: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def fmin(a: Operand, b: Operand, /) -> Any: ...
@overload
def fmod(a: NDArray[Any], b: PlainArray) -> NDArray[Any]:
    """The remainder of a division, with the sign of the dividend."""
@overload
def fmod(a: Value, b: Operand) -> Value: ...
@overload
def fmod(a: Operand, b: Value) -> Value: ...
@overload
def fmod(a: Operand, b: Operand) -> Any: ...
@overload
def fractional_matrix_power(A: NDArray[Any], t: PlainArray) -> NDArray[Any]:
    """A power of a matrix; unless t is a whole number, that is the exponential of t times the principal logarithm."""
@overload
def fractional_matrix_power(A: Value, t: Operand) -> Value: ...
@overload
def fractional_matrix_power(A: Operand, t: Operand) -> Any: ...
@overload
def frexp(x: NDArray[Any]) -> Any:
    """Mantissa, from 0.5 to 1, and exponent of 2; the exponent is a whole number and has no gradient."""
@overload
def frexp(x: Value) -> tuple[Value, Any]: ...
@overload
def frexp(x: Operand) -> Any: ...
def full_like(x: Operand, fill_value: Any, dtype: DTypeLike | None = None, order: Any = 'K', subok: bool = True, shape: int | Sequence[int] | None = None) -> Any:
    """One number everywhere, in the same shape and dtype; a recorded number keeps its gradient."""
@overload
def gamma(x: float, /) -> float:
    """Gamma function: (x - 1)! for a whole number x."""
@overload
def gamma(x: Value, /) -> Value: ...
@overload
def gamma(x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def gamma(x: Operand, /) -> Any: ...
@overload
def gamma_moment(n: float, a: float, x: float, /) -> float:
    """Integral of (log t - digamma(a))**n over the gamma distribution of shape a, for t from 0 to x."""
@overload
def gamma_moment(n: Value, a: Operand, x: Operand, /) -> Value: ...
@overload
def gamma_moment(n: Operand, a: Value, x: Operand, /) -> Value: ...
@overload
def gamma_moment(n: Operand, a: Operand, x: Value, /) -> Value: ...
@overload
def gamma_moment(n: NDArray[Any], a: PlainArray, x: PlainArray, /) -> NDArray[Any]: ...
@overload
def gamma_moment(n: PlainArray, a: NDArray[Any], x: PlainArray, /) -> NDArray[Any]: ...
@overload
def gamma_moment(n: PlainArray, a: PlainArray, x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def gamma_moment(n: Operand, a: Operand, x: Operand, /) -> Any: ...
@overload
def gammainc(a: float, x: float, /) -> float:
    """Cumulative probability of x under the gamma distribution of shape a: the lower incomplete gamma function."""
@overload
def gammainc(a: Value, x: Operand, /) -> Value: ...
@overload
def gammainc(a: Operand, x: Value, /) -> Value: ...
@overload
def gammainc(a: NDArray[Any], x: PlainArray, /) -> NDArray[Any]: ...
@overload
def gammainc(a: PlainArray, x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def gammainc(a: Operand, x: Operand, /) -> Any: ...
@overload
def gammaincc(a: float, x: float, /) -> float:
    """1 - gammainc(a, x), exact for large x."""
@overload
def gammaincc(a: Value, x: Operand, /) -> Value: ...
@overload
def gammaincc(a: Operand, x: Value, /) -> Value: ...
@overload
def gammaincc(a: NDArray[Any], x: PlainArray, /) -> NDArray[Any]: ...
@overload
def gammaincc(a: PlainArray, x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def gammaincc(a: Operand, x: Operand, /) -> Any: ...
@overload
def gammaln(x: float, /) -> float:
    """Logarithm of the absolute value of the gamma function."""
@overload
def gammaln(x: Value, /) -> Value: ...
@overload
def gammaln(x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def gammaln(x: Operand, /) -> Any: ...
@overload
def gaussian_filter(input: NDArray[Any], sigma: PlainArray, order: Any = 0, output: Any = None, mode: Any = 'reflect', cval: PlainArray = 0.0, truncate: float = 4.0, *, radius: Any = None, axes: Any = None) -> NDArray[Any]:
    """Blur an image with a bell curve along every axis."""
@overload
def gaussian_filter(input: Value, sigma: Operand, order: Any = 0, output: Any = None, mode: Any = 'reflect', cval: Operand = 0.0, truncate: float = 4.0, *, radius: Any = None, axes: Any = None) -> Value: ...
@overload
def gaussian_filter(input: Operand, sigma: Value, order: Any = 0, output: Any = None, mode: Any = 'reflect', cval: Operand = 0.0, truncate: float = 4.0, *, radius: Any = None, axes: Any = None) -> Value: ...
@overload
def gaussian_filter(input: Operand, sigma: Operand, order: Any = 0, output: Any = None, mode: Any = 'reflect', cval: Operand = 0.0, truncate: float = 4.0, *, radius: Any = None, axes: Any = None) -> Any: ...
@overload
def gaussian_filter1d(input: NDArray[Any], sigma: PlainArray, axis: int = -1, order: int = 0, output: Any = None, mode: str = 'reflect', cval: PlainArray = 0.0, truncate: float = 4.0, *, radius: int | None = None) -> NDArray[Any]:
    """Blur along an axis with a bell curve of a standard deviation; `order` is that of a derivative of the curve."""
@overload
def gaussian_filter1d(input: Value, sigma: Operand, axis: int = -1, order: int = 0, output: Any = None, mode: str = 'reflect', cval: Operand = 0.0, truncate: float = 4.0, *, radius: int | None = None) -> Value: ...
@overload
def gaussian_filter1d(input: Operand, sigma: Value, axis: int = -1, order: int = 0, output: Any = None, mode: str = 'reflect', cval: Operand = 0.0, truncate: float = 4.0, *, radius: int | None = None) -> Value: ...
@overload
def gaussian_filter1d(input: Operand, sigma: Operand, axis: int = -1, order: int = 0, output: Any = None, mode: str = 'reflect', cval: Operand = 0.0, truncate: float = 4.0, *, radius: int | None = None) -> Any: ...
@overload
def gelu(x: float, /) -> float:
    """x times the normal distribution's cumulative probability of x."""
@overload
def gelu(x: Value, /) -> Value: ...
@overload
def gelu(x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def gelu(x: Operand, /) -> Any: ...
@overload
def geomspace(start: NDArray[Any], stop: PlainArray, num: int = 50, endpoint: bool = True, dtype: DTypeLike | None = None, axis: int = 0) -> NDArray[Any]:
    """Numbers between two, each a constant multiple of the one before."""
@overload
def geomspace(start: Value, stop: Operand, num: int = 50, endpoint: bool = True, dtype: DTypeLike | None = None, axis: int = 0) -> Value: ...
@overload
def geomspace(start: Operand, stop: Value, num: int = 50, endpoint: bool = True, dtype: DTypeLike | None = None, axis: int = 0) -> Value: ...
@overload
def geomspace(start: Operand, stop: Operand, num: int = 50, endpoint: bool = True, dtype: DTypeLike | None = None, axis: int = 0) -> Any: ...
def gradient(f: Operand, *varargs: Operand, axis: int | Sequence[int] | None = None, edge_order: int = 1) -> Any:
    """Slopes between neighbours, central inside and one-sided at the edges; one array for each axis."""
@overload
def greater(a: NDArray[Any], b: PlainArray, /) -> NDArray[Any]:
    """Whether a > b."""
@overload
def greater(a: PlainArray, b: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def greater(a: Operand, b: Operand, /) -> Any: ...
@overload
def greater_equal(a: NDArray[Any], b: PlainArray, /) -> NDArray[Any]:
    """Whether a >= b."""
@overload
def greater_equal(a: PlainArray, b: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def greater_equal(a: Operand, b: Operand, /) -> Any: ...
@overload
def hankel(c: NDArray[Any], r: PlainArray | None = None) -> NDArray[Any]:
    """A matrix with constant antidiagonals: c is its first column and r its last row."""
@overload
def hankel(c: Value, r: Operand | None = None) -> Value: ...
@overload
def hankel(c: Operand, r: Operand | None = None) -> Any: ...
@overload
def heaviside(a: float, b: float, /) -> float:
    """0 for a < 0, 1 for a > 0, b at a = 0."""
@overload
def heaviside(a: Value, b: Operand, /) -> Value: ...
@overload
def heaviside(a: Operand, b: Value, /) -> Value: ...
@overload
def heaviside(a: NDArray[Any], b: PlainArray, /) -> NDArray[Any]: ...
@overload
def heaviside(a: PlainArray, b: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def heaviside(a: Operand, b: Operand, /) -> Any: ...
@overload
def hfft(a: NDArray[Any], n: Any = None, axis: int | Sequence[int] | None = -1, norm: Any = None, *scipy: Any, **settings: Any) -> NDArray[Any]:
    """The real transform of a signal of which one half is given, the other being its conjugate."""
@overload
def hfft(a: Value, n: Any = None, axis: int | Sequence[int] | None = -1, norm: Any = None, *scipy: Any, **settings: Any) -> Value: ...
@overload
def hfft(a: Operand, n: Any = None, axis: int | Sequence[int] | None = -1, norm: Any = None, *scipy: Any, **settings: Any) -> Any: ...
def histogram(a: Operand, bins: Operand = 10, range: Operand | None = None, density: Any = None, weights: Operand | None = None) -> Any:
    """How many elements, or how much weight, fall into each bin, and the edges of the bins."""
@overload
def histogram_bin_edges(a: NDArray[Any], bins: Any = 10, range: Any = None, weights: Any = None) -> NDArray[Any]:
    """The edges of the bins of a histogram."""
@overload
def histogram_bin_edges(a: Value, bins: Any = 10, range: Any = None, weights: Any = None) -> Value: ...
@overload
def histogram_bin_edges(a: Operand, bins: Any = 10, range: Any = None, weights: Any = None) -> Any: ...
@overload
def hsplit(x: NDArray[Any], indices_or_sections: Any) -> Any:
    """An array cut along its second axis, or a row along its only one."""
@overload
def hsplit(x: Value, indices_or_sections: Any) -> list[Value]: ...
@overload
def hsplit(x: Operand, indices_or_sections: Any) -> Any: ...
@overload
def hstack(xs: NDArray[Any] | Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Arrays joined beside each other."""
@overload
def hstack(xs: Value | Sequence[Value]) -> Value: ...
@overload
def hstack(xs: Operand) -> Any: ...
@overload
def huber(delta: NDArray[Any], r: PlainArray) -> NDArray[Any]:
    """r**2 / 2 up to abs(r) = delta, beyond it a straight line; inf for a negative delta."""
@overload
def huber(delta: Value, r: Operand) -> Value: ...
@overload
def huber(delta: Operand, r: Value) -> Value: ...
@overload
def huber(delta: Operand, r: Operand) -> Any: ...
@overload
def hypot(a: float, b: float, /) -> float:
    """Length of the vector (a, b); slopes 0 at the origin."""
@overload
def hypot(a: Value, b: Operand, /) -> Value: ...
@overload
def hypot(a: Operand, b: Value, /) -> Value: ...
@overload
def hypot(a: NDArray[Any], b: PlainArray, /) -> NDArray[Any]: ...
@overload
def hypot(a: PlainArray, b: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def hypot(a: Operand, b: Operand, /) -> Any: ...
@overload
def i0(x: NDArray[Any]) -> NDArray[Any]:
    """Modified Bessel function of the first kind, of order 0."""
@overload
def i0(x: Value) -> Value: ...
@overload
def i0(x: Operand) -> Any: ...
@overload
def i0e(x: NDArray[Any]) -> NDArray[Any]:
    """exp(-abs(x)) times the modified Bessel function of the first kind, of order 0."""
@overload
def i0e(x: Value) -> Value: ...
@overload
def i0e(x: Operand) -> Any: ...
@overload
def i1(x: NDArray[Any]) -> NDArray[Any]:
    """Modified Bessel function of the first kind, of order 1."""
@overload
def i1(x: Value) -> Value: ...
@overload
def i1(x: Operand) -> Any: ...
@overload
def i1e(x: NDArray[Any]) -> NDArray[Any]:
    """exp(-abs(x)) times the modified Bessel function of the first kind, of order 1."""
@overload
def i1e(x: Value) -> Value: ...
@overload
def i1e(x: Operand) -> Any: ...
@overload
def idct(x: NDArray[Any], type: int = 2, n: Any = None, axis: int | Sequence[int] | None = -1, norm: Any = None, *scipy: Any, **settings: Any) -> NDArray[Any]:
    """The inverse of the discrete cosine transform of a type."""
@overload
def idct(x: Value, type: int = 2, n: Any = None, axis: int | Sequence[int] | None = -1, norm: Any = None, *scipy: Any, **settings: Any) -> Value: ...
@overload
def idct(x: Operand, type: int = 2, n: Any = None, axis: int | Sequence[int] | None = -1, norm: Any = None, *scipy: Any, **settings: Any) -> Any: ...
@overload
def idctn(x: NDArray[Any], type: int = 2, s: Any = None, axes: Any = None, norm: Any = None, *scipy: Any, **settings: Any) -> NDArray[Any]:
    """The inverse of the discrete cosine transform along several axes."""
@overload
def idctn(x: Value, type: int = 2, s: Any = None, axes: Any = None, norm: Any = None, *scipy: Any, **settings: Any) -> Value: ...
@overload
def idctn(x: Operand, type: int = 2, s: Any = None, axes: Any = None, norm: Any = None, *scipy: Any, **settings: Any) -> Any: ...
@overload
def idst(x: NDArray[Any], type: int = 2, n: Any = None, axis: int | Sequence[int] | None = -1, norm: Any = None, *scipy: Any, **settings: Any) -> NDArray[Any]:
    """The inverse of the discrete sine transform of a type."""
@overload
def idst(x: Value, type: int = 2, n: Any = None, axis: int | Sequence[int] | None = -1, norm: Any = None, *scipy: Any, **settings: Any) -> Value: ...
@overload
def idst(x: Operand, type: int = 2, n: Any = None, axis: int | Sequence[int] | None = -1, norm: Any = None, *scipy: Any, **settings: Any) -> Any: ...
@overload
def idstn(x: NDArray[Any], type: int = 2, s: Any = None, axes: Any = None, norm: Any = None, *scipy: Any, **settings: Any) -> NDArray[Any]:
    """The inverse of the discrete sine transform along several axes."""
@overload
def idstn(x: Value, type: int = 2, s: Any = None, axes: Any = None, norm: Any = None, *scipy: Any, **settings: Any) -> Value: ...
@overload
def idstn(x: Operand, type: int = 2, s: Any = None, axes: Any = None, norm: Any = None, *scipy: Any, **settings: Any) -> Any: ...
@overload
def ifft(a: NDArray[Any], n: Any = None, axis: int | Sequence[int] | None = -1, norm: Any = None, *scipy: Any, **settings: Any) -> NDArray[Any]:
    """The inverse discrete Fourier transform along an axis."""
@overload
def ifft(a: Value, n: Any = None, axis: int | Sequence[int] | None = -1, norm: Any = None, *scipy: Any, **settings: Any) -> Value: ...
@overload
def ifft(a: Operand, n: Any = None, axis: int | Sequence[int] | None = -1, norm: Any = None, *scipy: Any, **settings: Any) -> Any: ...
@overload
def ifft2(a: NDArray[Any], s: Any = None, axes: Any = ..., norm: Any = None, *scipy: Any, **settings: Any) -> NDArray[Any]:
    """The inverse discrete Fourier transform along two axes."""
@overload
def ifft2(a: Value, s: Any = None, axes: Any = ..., norm: Any = None, *scipy: Any, **settings: Any) -> Value: ...
@overload
def ifft2(a: Operand, s: Any = None, axes: Any = ..., norm: Any = None, *scipy: Any, **settings: Any) -> Any: ...
@overload
def ifftn(a: NDArray[Any], s: Any = None, axes: Any = None, norm: Any = None, *scipy: Any, **settings: Any) -> NDArray[Any]:
    """The inverse discrete Fourier transform along several axes."""
@overload
def ifftn(a: Value, s: Any = None, axes: Any = None, norm: Any = None, *scipy: Any, **settings: Any) -> Value: ...
@overload
def ifftn(a: Operand, s: Any = None, axes: Any = None, norm: Any = None, *scipy: Any, **settings: Any) -> Any: ...
@overload
def ifftshift(x: NDArray[Any], axes: Any = None) -> NDArray[Any]:
    """The inverse of `fftshift`."""
@overload
def ifftshift(x: Value, axes: Any = None) -> Value: ...
@overload
def ifftshift(x: Operand, axes: Any = None) -> Any: ...
@overload
def ihfft(a: NDArray[Any], n: Any = None, axis: int | Sequence[int] | None = -1, norm: Any = None, *scipy: Any, **settings: Any) -> NDArray[Any]:
    """The inverse of `hfft`."""
@overload
def ihfft(a: Value, n: Any = None, axis: int | Sequence[int] | None = -1, norm: Any = None, *scipy: Any, **settings: Any) -> Value: ...
@overload
def ihfft(a: Operand, n: Any = None, axis: int | Sequence[int] | None = -1, norm: Any = None, *scipy: Any, **settings: Any) -> Any: ...
@overload
def imag(x: NDArray[Any]) -> NDArray[Any]:
    """The imaginary part."""
@overload
def imag(x: Value) -> Value: ...
@overload
def imag(x: Operand) -> Any: ...
@overload
def inner(a: NDArray[Any], b: PlainArray, /) -> Any:
    """Sum of products over the last axes."""
@overload
def inner(a: Value, b: Operand, /) -> Value: ...
@overload
def inner(a: Operand, b: Value, /) -> Value: ...
@overload
def inner(a: Operand, b: Operand, /) -> Any: ...
@overload
def insert(x: NDArray[Any], index: Any, values: PlainArray, axis: int | None = None) -> NDArray[Any]:
    """The array with values put between its slices along an axis."""
@overload
def insert(x: Value, index: Any, values: Operand, axis: int | None = None) -> Value: ...
@overload
def insert(x: Operand, index: Any, values: Value, axis: int | None = None) -> Value: ...
@overload
def insert(x: Operand, index: Any, values: Operand, axis: int | None = None) -> Any: ...
@overload
def interp(x: NDArray[Any], xp: PlainArray, fp: PlainArray, left: PlainArray | None = None, right: PlainArray | None = None, period: float | None = None) -> NDArray[Any]:
    """Linear interpolation between points; constant beyond the first and last, or periodic."""
@overload
def interp(x: Value, xp: Operand, fp: Operand, left: Operand | None = None, right: Operand | None = None, period: float | None = None) -> Value: ...
@overload
def interp(x: Operand, xp: Value, fp: Operand, left: Operand | None = None, right: Operand | None = None, period: float | None = None) -> Value: ...
@overload
def interp(x: Operand, xp: Operand, fp: Value, left: Operand | None = None, right: Operand | None = None, period: float | None = None) -> Value: ...
@overload
def interp(x: Operand, xp: Operand, fp: Operand, left: Operand | None = None, right: Operand | None = None, period: float | None = None) -> Any: ...
@overload
def inv(a: NDArray[Any]) -> NDArray[Any]:
    """The inverse of a matrix."""
@overload
def inv(a: Value) -> Value: ...
@overload
def inv(a: Operand) -> Any: ...
@overload
def irfft(a: NDArray[Any], n: Any = None, axis: int | Sequence[int] | None = -1, norm: Any = None, *scipy: Any, **settings: Any) -> NDArray[Any]:
    """The real numbers whose transform `rfft` gave; `n` says how many, 2 (m - 1) of m elements by default."""
@overload
def irfft(a: Value, n: Any = None, axis: int | Sequence[int] | None = -1, norm: Any = None, *scipy: Any, **settings: Any) -> Value: ...
@overload
def irfft(a: Operand, n: Any = None, axis: int | Sequence[int] | None = -1, norm: Any = None, *scipy: Any, **settings: Any) -> Any: ...
@overload
def irfft2(a: NDArray[Any], s: Any = None, axes: Any = ..., norm: Any = None, *scipy: Any, **settings: Any) -> NDArray[Any]:
    """The real numbers whose transform `rfft2` gave."""
@overload
def irfft2(a: Value, s: Any = None, axes: Any = ..., norm: Any = None, *scipy: Any, **settings: Any) -> Value: ...
@overload
def irfft2(a: Operand, s: Any = None, axes: Any = ..., norm: Any = None, *scipy: Any, **settings: Any) -> Any: ...
@overload
def irfftn(a: NDArray[Any], s: Any = None, axes: Any = None, norm: Any = None, *scipy: Any, **settings: Any) -> NDArray[Any]:
    """The real numbers whose transform `rfftn` gave."""
@overload
def irfftn(a: Value, s: Any = None, axes: Any = None, norm: Any = None, *scipy: Any, **settings: Any) -> Value: ...
@overload
def irfftn(a: Operand, s: Any = None, axes: Any = None, norm: Any = None, *scipy: Any, **settings: Any) -> Any: ...
def isclose(a: Operand, b: Operand, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Any:
    """Where two arrays are nearly equal."""
def iscomplex(x: Operand) -> Any:
    """Where the imaginary part is not 0."""
def iscomplexobj(x: Operand) -> bool:
    """Whether the dtype is complex."""
@overload
def isfinite(x: NDArray[Any], /) -> NDArray[Any]:
    """Whether the wire is neither NaN nor infinite."""
@overload
def isfinite(x: Operand, /) -> Any: ...
def isin(element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *, kind: Any = None) -> Any:
    """Which elements occur in another array."""
@overload
def isinf(x: NDArray[Any], /) -> NDArray[Any]:
    """Whether the wire is infinite."""
@overload
def isinf(x: Operand, /) -> Any: ...
@overload
def isnan(x: NDArray[Any], /) -> NDArray[Any]:
    """Whether the wire is NaN."""
@overload
def isnan(x: Operand, /) -> Any: ...
def isneginf(x: Operand) -> Any:
    """Where a number is -inf."""
def isposinf(x: Operand) -> Any:
    """Where a number is inf."""
def isreal(x: Operand) -> Any:
    """Where the imaginary part is 0."""
def isrealobj(x: Operand) -> bool:
    """Whether the dtype is not complex."""
@overload
def iv(v: Any, z: NDArray[Any]) -> NDArray[Any]:
    """Modified Bessel function of the first kind, of a whole order n."""
@overload
def iv(v: Any, z: Value) -> Value: ...
@overload
def iv(v: Any, z: Operand) -> Any: ...
@overload
def ive(v: Any, z: NDArray[Any]) -> NDArray[Any]:
    """exp(-abs(x)) times the modified Bessel function of the first kind, of a whole order n; without overflow."""
@overload
def ive(v: Any, z: Value) -> Value: ...
@overload
def ive(v: Any, z: Operand) -> Any: ...
@overload
def j0(x: NDArray[Any]) -> NDArray[Any]:
    """Bessel function of the first kind, of order 0."""
@overload
def j0(x: Value) -> Value: ...
@overload
def j0(x: Operand) -> Any: ...
@overload
def j1(x: NDArray[Any]) -> NDArray[Any]:
    """Bessel function of the first kind, of order 1."""
@overload
def j1(x: Value) -> Value: ...
@overload
def j1(x: Operand) -> Any: ...
@overload
def jv(v: Any, z: NDArray[Any]) -> NDArray[Any]:
    """Bessel function of the first kind, of a whole order n."""
@overload
def jv(v: Any, z: Value) -> Value: ...
@overload
def jv(v: Any, z: Operand) -> Any: ...
@overload
def k0(x: NDArray[Any]) -> NDArray[Any]:
    """Modified Bessel function of the second kind, of order 0."""
@overload
def k0(x: Value) -> Value: ...
@overload
def k0(x: Operand) -> Any: ...
@overload
def k1(x: NDArray[Any]) -> NDArray[Any]:
    """Modified Bessel function of the second kind, of order 1."""
@overload
def k1(x: Value) -> Value: ...
@overload
def k1(x: Operand) -> Any: ...
@overload
def khatri_rao(a: NDArray[Any], b: PlainArray) -> NDArray[Any]:
    """The columns of a and b multiplied each with each, column by column."""
@overload
def khatri_rao(a: Value, b: Operand) -> Value: ...
@overload
def khatri_rao(a: Operand, b: Value) -> Value: ...
@overload
def khatri_rao(a: Operand, b: Operand) -> Any: ...
@overload
def kl_div(x: NDArray[Any], y: PlainArray) -> NDArray[Any]:
    """x log(x / y) - x + y, the summand of the Kullback-Leibler divergence."""
@overload
def kl_div(x: Value, y: Operand) -> Value: ...
@overload
def kl_div(x: Operand, y: Value) -> Value: ...
@overload
def kl_div(x: Operand, y: Operand) -> Any: ...
@overload
def kron(a: NDArray[Any], b: PlainArray) -> NDArray[Any]:
    """A copy of b for each element of a, multiplied by it."""
@overload
def kron(a: Value, b: Operand) -> Value: ...
@overload
def kron(a: Operand, b: Value) -> Value: ...
@overload
def kron(a: Operand, b: Operand) -> Any: ...
@overload
def kv(v: Any, z: NDArray[Any]) -> NDArray[Any]:
    """Modified Bessel function of the second kind, of a whole order n."""
@overload
def kv(v: Any, z: Value) -> Value: ...
@overload
def kv(v: Any, z: Operand) -> Any: ...
@overload
def layer_norm(input: NDArray[Any], normalized_shape: Any, weight: PlainArray | None = None, bias: PlainArray | None = None, eps: float = 1e-05) -> NDArray[Any]:
    """Shift and scale the numbers along the last axes to mean 0 and variance 1, then by weight and bias."""
@overload
def layer_norm(input: Value, normalized_shape: Any, weight: Operand | None = None, bias: Operand | None = None, eps: float = 1e-05) -> Value: ...
@overload
def layer_norm(input: Operand, normalized_shape: Any, weight: Operand | None = None, bias: Operand | None = None, eps: float = 1e-05) -> Any: ...
@overload
def ldexp(x1: NDArray[Any], x2: Any) -> NDArray[Any]:
    """A number times a power of 2."""
@overload
def ldexp(x1: Value, x2: Any) -> Value: ...
@overload
def ldexp(x1: Operand, x2: Any) -> Any: ...
@overload
def leaky_relu(x: float, slope: float = 0.01, /) -> float:
    """The wire where it is positive, else the wire times a slope (0.01 if left out)."""
@overload
def leaky_relu(x: Value, slope: Operand = 0.01, /) -> Value: ...
@overload
def leaky_relu(x: Operand, slope: Value, /) -> Value: ...
@overload
def leaky_relu(x: NDArray[Any], slope: PlainArray = 0.01, /) -> NDArray[Any]: ...
@overload
def leaky_relu(x: PlainArray, slope: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def leaky_relu(x: Operand, slope: Operand = 0.01, /) -> Any: ...
@overload
def less(a: NDArray[Any], b: PlainArray, /) -> NDArray[Any]:
    """Whether a < b."""
@overload
def less(a: PlainArray, b: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def less(a: Operand, b: Operand, /) -> Any: ...
@overload
def less_equal(a: NDArray[Any], b: PlainArray, /) -> NDArray[Any]:
    """Whether a <= b."""
@overload
def less_equal(a: PlainArray, b: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def less_equal(a: Operand, b: Operand, /) -> Any: ...
def lexsort(keys: Sequence[Operand], axis: int = -1) -> Any:
    """Indices that sort by several rows, the last one first."""
def lfilter(b: Operand, a: Operand, x: Operand, axis: int = -1, zi: Operand | None = None) -> Any:
    """Filter a signal along an axis: a[0] y[n] = b[0] x[n] + b[1] x[n-1] + ... - a[1] y[n-1] - ..."""
@overload
def linear(input: NDArray[Any], weight: PlainArray, bias: PlainArray | None = None) -> NDArray[Any]:
    """Multiply vectors (..., in) by a matrix (out, in) and add a bias."""
@overload
def linear(input: Value, weight: Operand, bias: Operand | None = None) -> Value: ...
@overload
def linear(input: Operand, weight: Value, bias: Operand | None = None) -> Value: ...
@overload
def linear(input: Operand, weight: Operand, bias: Operand | None = None) -> Any: ...
def linspace(start: Operand, stop: Operand, num: int = 50, endpoint: bool = True, retstep: bool = False, dtype: DTypeLike | None = None, axis: int = 0) -> Any:
    """Numbers at equal distances between two."""
@overload
def ln(x: float, /) -> float:
    """Natural logarithm."""
@overload
def ln(x: Value, /) -> Value: ...
@overload
def ln(x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def ln(x: Operand, /) -> Any: ...
@overload
def log(x: float, /) -> float:
    """Natural logarithm."""
@overload
def log(x: Value, /) -> Value: ...
@overload
def log(x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def log(x: Operand, /) -> Any: ...
@overload
def log10(x: float, /) -> float:
    """Logarithm to base 10."""
@overload
def log10(x: Value, /) -> Value: ...
@overload
def log10(x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def log10(x: Operand, /) -> Any: ...
@overload
def log1p(x: float, /) -> float:
    """log(1 + x), exact near 0."""
@overload
def log1p(x: Value, /) -> Value: ...
@overload
def log1p(x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def log1p(x: Operand, /) -> Any: ...
@overload
def log2(x: float, /) -> float:
    """Logarithm to base 2."""
@overload
def log2(x: Value, /) -> Value: ...
@overload
def log2(x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def log2(x: Operand, /) -> Any: ...
@overload
def log_expit(x: NDArray[Any]) -> NDArray[Any]:
    """log(sigmoid(x)), exact where sigmoid is nearly 0."""
@overload
def log_expit(x: Value) -> Value: ...
@overload
def log_expit(x: Operand) -> Any: ...
@overload
def log_ndtr(x: float, /) -> float:
    """Logarithm of the normal distribution's cumulative probability, exact in both tails."""
@overload
def log_ndtr(x: Value, /) -> Value: ...
@overload
def log_ndtr(x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def log_ndtr(x: Operand, /) -> Any: ...
@overload
def log_softmax(x: NDArray[Any], axis: int | Sequence[int] | None = -1) -> NDArray[Any]:
    """log(softmax(x)) along an axis, exact where softmax is nearly 0."""
@overload
def log_softmax(x: Value, axis: int | Sequence[int] | None = -1) -> Value: ...
@overload
def log_softmax(x: Operand, axis: int | Sequence[int] | None = -1) -> Any: ...
@overload
def logaddexp(a: float, b: float, /) -> float:
    """log(exp(a) + exp(b)) without overflow."""
@overload
def logaddexp(a: Value, b: Operand, /) -> Value: ...
@overload
def logaddexp(a: Operand, b: Value, /) -> Value: ...
@overload
def logaddexp(a: NDArray[Any], b: PlainArray, /) -> NDArray[Any]: ...
@overload
def logaddexp(a: PlainArray, b: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def logaddexp(a: Operand, b: Operand, /) -> Any: ...
@overload
def logaddexp2(a: float, b: float, /) -> float:
    """log2(2**a + 2**b) without overflow."""
@overload
def logaddexp2(a: Value, b: Operand, /) -> Value: ...
@overload
def logaddexp2(a: Operand, b: Value, /) -> Value: ...
@overload
def logaddexp2(a: NDArray[Any], b: PlainArray, /) -> NDArray[Any]: ...
@overload
def logaddexp2(a: PlainArray, b: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def logaddexp2(a: Operand, b: Operand, /) -> Any: ...
@overload
def loggamma(z: NDArray[Any]) -> NDArray[Any]:
    """The logarithm of the gamma function of real numbers; NaN for negative ones, unlike `gammaln`."""
@overload
def loggamma(z: Value) -> Value: ...
@overload
def loggamma(z: Operand) -> Any: ...
@overload
def logical_and(a: NDArray[Any], b: PlainArray, /) -> NDArray[Any]:
    """Whether both hold."""
@overload
def logical_and(a: PlainArray, b: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def logical_and(a: Operand, b: Operand, /) -> Any: ...
@overload
def logical_not(a: NDArray[Any], /) -> NDArray[Any]:
    """Whether it does not hold."""
@overload
def logical_not(a: Operand, /) -> Any: ...
@overload
def logical_or(a: NDArray[Any], b: PlainArray, /) -> NDArray[Any]:
    """Whether at least one holds."""
@overload
def logical_or(a: PlainArray, b: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def logical_or(a: Operand, b: Operand, /) -> Any: ...
@overload
def logical_xor(a: NDArray[Any], b: PlainArray, /) -> NDArray[Any]:
    """Whether exactly one holds."""
@overload
def logical_xor(a: PlainArray, b: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def logical_xor(a: Operand, b: Operand, /) -> Any: ...
@overload
def logit(x: NDArray[Any]) -> NDArray[Any]:
    """log(x / (1 - x)), the inverse of sigmoid."""
@overload
def logit(x: Value) -> Value: ...
@overload
def logit(x: Operand) -> Any: ...
@overload
def logm(A: NDArray[Any], disp: Any = True) -> NDArray[Any]:
    """The principal logarithm of a matrix; for a matrix with negative eigenvalues pass it as complex numbers."""
@overload
def logm(A: Value, disp: Any = True) -> Value: ...
@overload
def logm(A: Operand, disp: Any = True) -> Any: ...
@overload
def logspace(start: NDArray[Any], stop: PlainArray, num: int = 50, endpoint: bool = True, base: PlainArray = 10.0, dtype: DTypeLike | None = None, axis: int = 0) -> NDArray[Any]:
    """Powers of a base whose exponents are at equal distances."""
@overload
def logspace(start: Value, stop: Operand, num: int = 50, endpoint: bool = True, base: Operand = 10.0, dtype: DTypeLike | None = None, axis: int = 0) -> Value: ...
@overload
def logspace(start: Operand, stop: Value, num: int = 50, endpoint: bool = True, base: Operand = 10.0, dtype: DTypeLike | None = None, axis: int = 0) -> Value: ...
@overload
def logspace(start: Operand, stop: Operand, num: int = 50, endpoint: bool = True, base: Operand = 10.0, dtype: DTypeLike | None = None, axis: int = 0) -> Any: ...
@overload
def logsumexp(x: NDArray[Any], axis: int | Sequence[int] | None = None, *, keepdims: bool = False) -> Any:
    """log(sum(exp(x))) along axes, or of everything, without overflow."""
@overload
def logsumexp(x: Value, axis: int | Sequence[int] | None = None, *, keepdims: bool = False) -> Value: ...
@overload
def logsumexp(x: Operand, axis: int | Sequence[int] | None = None, *, keepdims: bool = False) -> Any: ...
@overload
def lstsq(a: NDArray[Any], b: PlainArray, rcond: PlainArray | None = None) -> Any:
    """Least squares: the solution, the sums of squared residuals, the rank and the singular values."""
@overload
def lstsq(a: Value, b: Operand, rcond: Operand | None = None) -> tuple[Value, Value, Any, Value]: ...
@overload
def lstsq(a: Operand, b: Value, rcond: Operand | None = None) -> tuple[Value, Value, Any, Any]: ...
@overload
def lstsq(a: Operand, b: Operand, rcond: Operand | None = None) -> Any: ...
def lu(a: Operand, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True, p_indices: bool = False) -> Any:
    """Factors of a square matrix, a = P @ L @ U, by elimination with partial pivoting."""
@overload
def lu_factor(a: NDArray[Any], overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """Factors of a square matrix in one matrix, and the rows that were exchanged, for `lu_solve`."""
@overload
def lu_factor(a: Value, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Value, Any]: ...
@overload
def lu_factor(a: Operand, overwrite_a: bool = False, check_finite: bool = True) -> Any: ...
@overload
def lu_solve(lu_and_piv: Sequence[Value], b: Operand, trans: int = 0, overwrite_b: bool = False, check_finite: bool = True) -> Value:
    """The x for which a @ x = b, where `lu_factor` has factored a."""
@overload
def lu_solve(lu_and_piv: Operand, b: Value, trans: int = 0, overwrite_b: bool = False, check_finite: bool = True) -> Value: ...
@overload
def lu_solve(lu_and_piv: Operand, b: Operand, trans: int = 0, overwrite_b: bool = False, check_finite: bool = True) -> Any: ...
@overload
def matmul(a: NDArray[Any], b: PlainArray, /) -> Any:
    """Product of matrices, the last two axes; the axes in front broadcast, and an array of one axis is a vector."""
@overload
def matmul(a: Value, b: Operand, /) -> Value: ...
@overload
def matmul(a: Operand, b: Value, /) -> Value: ...
@overload
def matmul(a: Operand, b: Operand, /) -> Any: ...
@overload
def matrix_norm(x: NDArray[Any], /, *, keepdims: bool = False, ord: PlainArray | str = 'fro') -> Any:
    """Size of the matrices in the last two axes."""
@overload
def matrix_norm(x: Value, /, *, keepdims: bool = False, ord: Operand | str = 'fro') -> Value: ...
@overload
def matrix_norm(x: Operand, /, *, keepdims: bool = False, ord: Operand | str = 'fro') -> Any: ...
@overload
def matrix_power(a: NDArray[Any], n: Any) -> NDArray[Any]:
    """A square matrix to a whole power; negative powers are those of the inverse."""
@overload
def matrix_power(a: Value, n: Any) -> Value: ...
@overload
def matrix_power(a: Operand, n: Any) -> Any: ...
def matrix_rank(a: Operand, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:
    """Number of singular values above a fraction of the largest; it has no gradient."""
@overload
def matrix_transpose(x: NDArray[Any], /) -> NDArray[Any]:
    """The last two axes exchanged."""
@overload
def matrix_transpose(x: Value, /) -> Value: ...
@overload
def matrix_transpose(x: Operand, /) -> Any: ...
@overload
def matvec(x1: NDArray[Any], x2: PlainArray, /) -> NDArray[Any]:
    """Products of matrices and vectors."""
@overload
def matvec(x1: Value, x2: Operand, /) -> Value: ...
@overload
def matvec(x1: Operand, x2: Value, /) -> Value: ...
@overload
def matvec(x1: Operand, x2: Operand, /) -> Any: ...
def max(a: Operand, axis: int | Sequence[int] | None = None, *, keepdims: bool = False, initial: Operand | None = None, where: Any = True) -> Any:
    """Largest element along axes, or of all; equal ones share the gradient."""
@overload
def max_pool1d(input: NDArray[Any], kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False) -> NDArray[Any]:
    """Return the largest number of every window of signals (batch, channels, length)."""
@overload
def max_pool1d(input: Value, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False) -> Value: ...
@overload
def max_pool1d(input: Operand, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False) -> Any: ...
@overload
def max_pool2d(input: NDArray[Any], kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False) -> NDArray[Any]:
    """Return the largest number of every window of images (batch, channels, height, width)."""
@overload
def max_pool2d(input: Value, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False) -> Value: ...
@overload
def max_pool2d(input: Operand, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False) -> Any: ...
@overload
def maximum(a: float, b: float, /) -> float:
    """The larger of two wires; NaN if one is NaN; half the gradient each on a tie."""
@overload
def maximum(a: Value, b: Operand, /) -> Value: ...
@overload
def maximum(a: Operand, b: Value, /) -> Value: ...
@overload
def maximum(a: NDArray[Any], b: PlainArray, /) -> NDArray[Any]: ...
@overload
def maximum(a: PlainArray, b: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def maximum(a: Operand, b: Operand, /) -> Any: ...
@overload
def mean(a: NDArray[Any], axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None, *, keepdims: bool = False, where: Any = True) -> Any:
    """Arithmetic mean along axes, or of everything."""
@overload
def mean(a: Value, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None, *, keepdims: bool = False, where: Any = True) -> Value: ...
@overload
def mean(a: Operand, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None, *, keepdims: bool = False, where: Any = True) -> Any: ...
@overload
def median(a: NDArray[Any], axis: int | Sequence[int] | None = None, *, overwrite_input: bool = False, keepdims: bool = False) -> Any:
    """Middle element, or mean of the two in the middle."""
@overload
def median(a: Value, axis: int | Sequence[int] | None = None, *, overwrite_input: bool = False, keepdims: bool = False) -> Value: ...
@overload
def median(a: Operand, axis: int | Sequence[int] | None = None, *, overwrite_input: bool = False, keepdims: bool = False) -> Any: ...
@overload
def meshgrid(*xs: NDArray[Any], copy: bool = True, sparse: bool = False, indexing: str = 'xy') -> Any:
    """Arrays of the coordinates of a grid, from its axes."""
@overload
def meshgrid(*xs: Value, copy: bool = True, sparse: bool = False, indexing: str = 'xy') -> tuple[Value, ...]: ...
@overload
def meshgrid(*xs: Operand, copy: bool = True, sparse: bool = False, indexing: str = 'xy') -> Any: ...
def min(a: Operand, axis: int | Sequence[int] | None = None, *, keepdims: bool = False, initial: Operand | None = None, where: Any = True) -> Any:
    """Smallest element along axes, or of all; equal ones share the gradient."""
def min_scalar_type(a: Operand) -> Any:
    """The smallest dtype that holds a number; the dtype of an array."""
@overload
def minimum(a: float, b: float, /) -> float:
    """The smaller of two wires; NaN if one is NaN; half the gradient each on a tie."""
@overload
def minimum(a: Value, b: Operand, /) -> Value: ...
@overload
def minimum(a: Operand, b: Value, /) -> Value: ...
@overload
def minimum(a: NDArray[Any], b: PlainArray, /) -> NDArray[Any]: ...
@overload
def minimum(a: PlainArray, b: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def minimum(a: Operand, b: Operand, /) -> Any: ...
@overload
def mod(a: float, b: float, /) -> float:
    """Remainder of a / b, with the sign of b."""
@overload
def mod(a: Value, b: Operand, /) -> Value: ...
@overload
def mod(a: Operand, b: Value, /) -> Value: ...
@overload
def mod(a: NDArray[Any], b: PlainArray, /) -> NDArray[Any]: ...
@overload
def mod(a: PlainArray, b: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def mod(a: Operand, b: Operand, /) -> Any: ...
@overload
def modf(x: NDArray[Any]) -> Any:
    """Fractional and integral part, both with the sign of the number."""
@overload
def modf(x: Value) -> tuple[Value, Value]: ...
@overload
def modf(x: Operand) -> Any: ...
@overload
def moveaxis(x: NDArray[Any], source: Any, destination: Any) -> NDArray[Any]:
    """The array with some axes moved to other places."""
@overload
def moveaxis(x: Value, source: Any, destination: Any) -> Value: ...
@overload
def moveaxis(x: Operand, source: Any, destination: Any) -> Any: ...
@overload
def mse_loss(input: NDArray[Any], target: PlainArray, reduction: str = 'mean') -> Any:
    """Return the mean of the squared differences."""
@overload
def mse_loss(input: Value, target: Operand, reduction: str = 'mean') -> Value: ...
@overload
def mse_loss(input: Operand, target: Value, reduction: str = 'mean') -> Value: ...
@overload
def mse_loss(input: Operand, target: Operand, reduction: str = 'mean') -> Any: ...
@overload
def multi_dot(arrays: Sequence[Value]) -> Value:
    """Product of several matrices, in the order that multiplies least; the first and the last may be vectors."""
@overload
def multi_dot(arrays: Operand) -> Any: ...
@overload
def multi_margin_loss(input: NDArray[Any], target: Any, p: int = 1, margin: float = 1.0, reduction: str = 'mean') -> Any:
    """Return how far each wrong class comes within a margin of the right one: the hinge loss of several classes."""
@overload
def multi_margin_loss(input: Value, target: Any, p: int = 1, margin: float = 1.0, reduction: str = 'mean') -> Value: ...
@overload
def multi_margin_loss(input: Operand, target: Any, p: int = 1, margin: float = 1.0, reduction: str = 'mean') -> Any: ...
@overload
def multigammaln(a: NDArray[Any], d: Any) -> NDArray[Any]:
    """The logarithm of the multivariate gamma function of dimension d."""
@overload
def multigammaln(a: Value, d: Any) -> Value: ...
@overload
def multigammaln(a: Operand, d: Any) -> Any: ...
@overload
def multiply(a: float, b: float, /) -> float:
    """Product of two wires."""
@overload
def multiply(a: Value, b: Operand, /) -> Value: ...
@overload
def multiply(a: Operand, b: Value, /) -> Value: ...
@overload
def multiply(a: NDArray[Any], b: PlainArray, /) -> NDArray[Any]: ...
@overload
def multiply(a: PlainArray, b: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def multiply(a: Operand, b: Operand, /) -> Any: ...
@overload
def nan_to_num(x: NDArray[Any], copy: bool = True, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> NDArray[Any]:
    """The array with numbers in place of NaN and infinities; what was replaced has no gradient."""
@overload
def nan_to_num(x: Value, copy: bool = True, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Value: ...
@overload
def nan_to_num(x: Operand, copy: bool = True, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Any: ...
def nanargmax(a: Operand, axis: int | Sequence[int] | None = None, *, keepdims: bool = False) -> Any:
    """Index of the largest element that is not NaN; the first if several are."""
def nanargmin(a: Operand, axis: int | Sequence[int] | None = None, *, keepdims: bool = False) -> Any:
    """Index of the smallest element that is not NaN; the first if several are."""
@overload
def nancumprod(a: NDArray[Any], axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None) -> NDArray[Any]:
    """Running product in which a NaN counts as 1."""
@overload
def nancumprod(a: Value, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None) -> Value: ...
@overload
def nancumprod(a: Operand, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None) -> Any: ...
@overload
def nancumsum(a: NDArray[Any], axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None) -> NDArray[Any]:
    """Running sum in which a NaN counts as 0."""
@overload
def nancumsum(a: Value, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None) -> Value: ...
@overload
def nancumsum(a: Operand, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None) -> Any: ...
def nanmax(a: Operand, axis: int | Sequence[int] | None = None, *, keepdims: bool = False, initial: Operand | None = None, where: Any = True) -> Any:
    """Largest element that is not NaN, along axes or of all."""
@overload
def nanmean(a: NDArray[Any], axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None, *, keepdims: bool = False, where: Any = True) -> Any:
    """Mean of all that is not NaN, along axes or of everything."""
@overload
def nanmean(a: Value, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None, *, keepdims: bool = False, where: Any = True) -> Value: ...
@overload
def nanmean(a: Operand, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None, *, keepdims: bool = False, where: Any = True) -> Any: ...
@overload
def nanmedian(a: NDArray[Any], axis: int | Sequence[int] | None = None, *, overwrite_input: bool = False, keepdims: bool = False) -> Any:
    """Middle element of those that are not NaN, or mean of the two in the middle."""
@overload
def nanmedian(a: Value, axis: int | Sequence[int] | None = None, *, overwrite_input: bool = False, keepdims: bool = False) -> Value: ...
@overload
def nanmedian(a: Operand, axis: int | Sequence[int] | None = None, *, overwrite_input: bool = False, keepdims: bool = False) -> Any: ...
def nanmin(a: Operand, axis: int | Sequence[int] | None = None, *, keepdims: bool = False, initial: Operand | None = None, where: Any = True) -> Any:
    """Smallest element that is not NaN, along axes or of all."""
@overload
def nanpercentile(a: NDArray[Any], q: Any, axis: int | Sequence[int] | None = None, *, overwrite_input: bool = False, method: str = 'linear', keepdims: bool = False) -> Any:
    """Quantiles at `q`, from 0 to 100, of all that is not NaN."""
@overload
def nanpercentile(a: Value, q: Any, axis: int | Sequence[int] | None = None, *, overwrite_input: bool = False, method: str = 'linear', keepdims: bool = False) -> Value: ...
@overload
def nanpercentile(a: Operand, q: Any, axis: int | Sequence[int] | None = None, *, overwrite_input: bool = False, method: str = 'linear', keepdims: bool = False) -> Any: ...
@overload
def nanprod(a: NDArray[Any], axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None, *, keepdims: bool = False, initial: Any = None, where: Any = True) -> Any:
    """Product of all that is not NaN, along axes or of everything."""
@overload
def nanprod(a: Value, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None, *, keepdims: bool = False, initial: Any = None, where: Any = True) -> Value: ...
@overload
def nanprod(a: Operand, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None, *, keepdims: bool = False, initial: Any = None, where: Any = True) -> Any: ...
@overload
def nanquantile(a: NDArray[Any], q: PlainArray | Sequence[PlainArray], axis: int | Sequence[int] | None = None, *, overwrite_input: bool = False, method: str = 'linear', keepdims: bool = False) -> Any:
    """Quantiles at `q`, from 0 to 1, of all that is not NaN."""
@overload
def nanquantile(a: Value, q: Operand, axis: int | Sequence[int] | None = None, *, overwrite_input: bool = False, method: str = 'linear', keepdims: bool = False) -> Value: ...
@overload
def nanquantile(a: Operand, q: Operand, axis: int | Sequence[int] | None = None, *, overwrite_input: bool = False, method: str = 'linear', keepdims: bool = False) -> Any: ...
@overload
def nanstd(a: NDArray[Any], axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None, *, ddof: float = 0, keepdims: bool = False, where: Any = True, mean: Any = None, correction: float | None = None) -> Any:
    """Standard deviation of all that is not NaN, along axes or of everything; its gradient is 0 where all are equal."""
@overload
def nanstd(a: Value, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None, *, ddof: float = 0, keepdims: bool = False, where: Any = True, mean: Any = None, correction: float | None = None) -> Value: ...
@overload
def nanstd(a: Operand, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None, *, ddof: float = 0, keepdims: bool = False, where: Any = True, mean: Any = None, correction: float | None = None) -> Any: ...
@overload
def nansum(a: NDArray[Any], axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None, *, keepdims: bool = False, initial: Any = None, where: Any = True) -> Any:
    """Sum of all that is not NaN, along axes or of everything."""
@overload
def nansum(a: Value, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None, *, keepdims: bool = False, initial: Any = None, where: Any = True) -> Value: ...
@overload
def nansum(a: Operand, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None, *, keepdims: bool = False, initial: Any = None, where: Any = True) -> Any: ...
@overload
def nanvar(a: NDArray[Any], axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None, *, ddof: float = 0, keepdims: bool = False, where: Any = True, mean: Any = None, correction: float | None = None) -> Any:
    """Variance of all that is not NaN, along axes or of everything."""
@overload
def nanvar(a: Value, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None, *, ddof: float = 0, keepdims: bool = False, where: Any = True, mean: Any = None, correction: float | None = None) -> Value: ...
@overload
def nanvar(a: Operand, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None, *, ddof: float = 0, keepdims: bool = False, where: Any = True, mean: Any = None, correction: float | None = None) -> Any: ...
def ndim(x: Operand) -> int:
    """The number of axes."""
@overload
def ndimage_convolve(input: NDArray[Any], weights: PlainArray, output: Any = None, mode: Any = 'reflect', cval: PlainArray = 0.0, origin: Any = 0, *, axes: Any = None) -> NDArray[Any]:
    """Slide an array of weights, turned around, over an image."""
@overload
def ndimage_convolve(input: Value, weights: Operand, output: Any = None, mode: Any = 'reflect', cval: Operand = 0.0, origin: Any = 0, *, axes: Any = None) -> Value: ...
@overload
def ndimage_convolve(input: Operand, weights: Value, output: Any = None, mode: Any = 'reflect', cval: Operand = 0.0, origin: Any = 0, *, axes: Any = None) -> Value: ...
@overload
def ndimage_convolve(input: Operand, weights: Operand, output: Any = None, mode: Any = 'reflect', cval: Operand = 0.0, origin: Any = 0, *, axes: Any = None) -> Any: ...
@overload
def ndimage_correlate(input: NDArray[Any], weights: PlainArray, output: Any = None, mode: Any = 'reflect', cval: PlainArray = 0.0, origin: Any = 0, *, axes: Any = None) -> NDArray[Any]:
    """Slide an array of weights over an image."""
@overload
def ndimage_correlate(input: Value, weights: Operand, output: Any = None, mode: Any = 'reflect', cval: Operand = 0.0, origin: Any = 0, *, axes: Any = None) -> Value: ...
@overload
def ndimage_correlate(input: Operand, weights: Value, output: Any = None, mode: Any = 'reflect', cval: Operand = 0.0, origin: Any = 0, *, axes: Any = None) -> Value: ...
@overload
def ndimage_correlate(input: Operand, weights: Operand, output: Any = None, mode: Any = 'reflect', cval: Operand = 0.0, origin: Any = 0, *, axes: Any = None) -> Any: ...
@overload
def ndtr(x: NDArray[Any]) -> NDArray[Any]:
    """The normal distribution's cumulative probability, exact in both tails."""
@overload
def ndtr(x: Value) -> Value: ...
@overload
def ndtr(x: Operand) -> Any: ...
@overload
def ndtri(x: float, /) -> float:
    """Inverse of the normal distribution's cumulative probability."""
@overload
def ndtri(x: Value, /) -> Value: ...
@overload
def ndtri(x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def ndtri(x: Operand, /) -> Any: ...
@overload
def negative(x: float, /) -> float:
    """The wire with the opposite sign."""
@overload
def negative(x: Value, /) -> Value: ...
@overload
def negative(x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def negative(x: Operand, /) -> Any: ...
def nonzero(x: Operand) -> tuple[NDArray[Any], ...]:
    """The indices of the elements that are not 0, one array per axis."""
@overload
def norm(x: NDArray[Any], ord: PlainArray | str | None = None, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Any:
    """Length of vectors or size of matrices; the gradient at 0 is 0."""
@overload
def norm(x: Value, ord: Operand | str | None = None, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Value: ...
@overload
def norm(x: Operand, ord: Operand | str | None = None, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Any: ...
@overload
def not_equal(a: NDArray[Any], b: PlainArray, /) -> NDArray[Any]:
    """Whether a and b differ."""
@overload
def not_equal(a: PlainArray, b: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def not_equal(a: Operand, b: Operand, /) -> Any: ...
def one_hot(tensor: Operand, num_classes: int = -1) -> Any:
    """Return whole numbers as rows of 0 with a 1 at the number's place."""
def ones_like(x: Operand, dtype: DTypeLike | None = None, order: Any = 'K', subok: bool = True, shape: int | Sequence[int] | None = None) -> Any:
    """Ones of the same shape and dtype."""
@overload
def outer(a: NDArray[Any], b: PlainArray) -> NDArray[Any]:
    """Products of every element of a with every element of b."""
@overload
def outer(a: Value, b: Operand) -> Value: ...
@overload
def outer(a: Operand, b: Value) -> Value: ...
@overload
def outer(a: Operand, b: Operand) -> Any: ...
@overload
def pad(x: NDArray[Any], pad_width: Any, mode: str = 'constant', *, constant_values: PlainArray = 0, reflect_type: str = 'even', stat_length: Any = None, end_values: Any = 0) -> NDArray[Any]:
    """The array with elements added around it: a constant, copies of its own, their mean or extreme, or a ramp."""
@overload
def pad(x: Value, pad_width: Any, mode: str = 'constant', *, constant_values: Operand = 0, reflect_type: str = 'even', stat_length: Any = None, end_values: Any = 0) -> Value: ...
@overload
def pad(x: Operand, pad_width: Any, mode: str = 'constant', *, constant_values: Operand = 0, reflect_type: str = 'even', stat_length: Any = None, end_values: Any = 0) -> Any: ...
@overload
def partition(a: NDArray[Any], kth: Any, axis: int | Sequence[int] | None = -1, kind: str = 'introselect', order: Any = None) -> NDArray[Any]:
    """The array with its `kth` elements where sorting would put them, smaller ones before and larger ones behind."""
@overload
def partition(a: Value, kth: Any, axis: int | Sequence[int] | None = -1, kind: str = 'introselect', order: Any = None) -> Value: ...
@overload
def partition(a: Operand, kth: Any, axis: int | Sequence[int] | None = -1, kind: str = 'introselect', order: Any = None) -> Any: ...
@overload
def percentile(a: NDArray[Any], q: Any, axis: int | Sequence[int] | None = None, *, overwrite_input: bool = False, method: str = 'linear', keepdims: bool = False) -> Any:
    """Quantiles at `q`, from 0 to 100, interpolated linearly between elements."""
@overload
def percentile(a: Value, q: Any, axis: int | Sequence[int] | None = None, *, overwrite_input: bool = False, method: str = 'linear', keepdims: bool = False) -> Value: ...
@overload
def percentile(a: Operand, q: Any, axis: int | Sequence[int] | None = None, *, overwrite_input: bool = False, method: str = 'linear', keepdims: bool = False) -> Any: ...
@overload
def periodogram(x: NDArray[Any], fs: PlainArray = 1.0, window: Any = 'boxcar', nfft: Any = None, detrend: Any = 'constant', return_onesided: bool = True, scaling: str = 'density', axis: int = -1) -> Any:
    """Frequencies and the power spectrum of a real signal, taken as one segment."""
@overload
def periodogram(x: Value, fs: Operand = 1.0, window: Any = 'boxcar', nfft: Any = None, detrend: Any = 'constant', return_onesided: bool = True, scaling: str = 'density', axis: int = -1) -> tuple[Any, Value]: ...
@overload
def periodogram(x: Operand, fs: Operand = 1.0, window: Any = 'boxcar', nfft: Any = None, detrend: Any = 'constant', return_onesided: bool = True, scaling: str = 'density', axis: int = -1) -> Any: ...
@overload
def piecewise(x: NDArray[Any], condlist: Any, funclist: Sequence[PlainArray], *args: Any, **kw: Any) -> NDArray[Any]:
    """A function given piece by piece: where a condition holds, its function of those elements."""
@overload
def piecewise(x: Value, condlist: Any, funclist: Operand, *args: Any, **kw: Any) -> Value: ...
@overload
def piecewise(x: Operand, condlist: Any, funclist: Operand, *args: Any, **kw: Any) -> Any: ...
@overload
def pinv(a: NDArray[Any], rcond: Any = None, hermitian: bool = False, **keywords: Any) -> NDArray[Any]:
    """The pseudo-inverse; the gradient is that among matrices of the same rank."""
@overload
def pinv(a: Value, rcond: Any = None, hermitian: bool = False, **keywords: Any) -> Value: ...
@overload
def pinv(a: Operand, rcond: Any = None, hermitian: bool = False, **keywords: Any) -> Any: ...
@overload
def poly(seq_of_zeros: NDArray[Any]) -> NDArray[Any]:
    """The polynomial with these zeros, or the characteristic polynomial of a matrix."""
@overload
def poly(seq_of_zeros: Value) -> Value: ...
@overload
def poly(seq_of_zeros: Operand) -> Any: ...
@overload
def polyadd(a1: NDArray[Any], a2: PlainArray | Sequence[PlainArray]) -> NDArray[Any]:
    """The sum of two polynomials."""
@overload
def polyadd(a1: Value, a2: Operand) -> Value: ...
@overload
def polyadd(a1: Operand, a2: Value | Sequence[Value]) -> Value: ...
@overload
def polyadd(a1: Operand, a2: Operand) -> Any: ...
@overload
def polyder(p: NDArray[Any], m: int = 1) -> NDArray[Any]:
    """The derivative of a polynomial, taken `m` times."""
@overload
def polyder(p: Value, m: int = 1) -> Value: ...
@overload
def polyder(p: Operand, m: int = 1) -> Any: ...
def polydiv(u: Operand, v: Operand) -> Any:
    """The quotient and the remainder of two polynomials."""
def polyfit(x: Operand, y: Operand, deg: int, rcond: float | None = None, full: bool = False, w: Operand | None = None, cov: Any = False) -> Any:
    """The polynomial of a degree that fits points best, by least squares."""
@overload
def polygamma(n: Any, x: NDArray[Any]) -> NDArray[Any]:
    """The derivative of order n of digamma."""
@overload
def polygamma(n: Any, x: Value) -> Value: ...
@overload
def polygamma(n: Any, x: Operand) -> Any: ...
@overload
def polyint(p: NDArray[Any], m: int = 1, k: PlainArray | None = None) -> NDArray[Any]:
    """The integral of a polynomial, taken `m` times; `k` are the constants."""
@overload
def polyint(p: Value, m: int = 1, k: Operand | None = None) -> Value: ...
@overload
def polyint(p: Operand, m: int = 1, k: Operand | None = None) -> Any: ...
@overload
def polymul(a1: NDArray[Any], a2: PlainArray | Sequence[PlainArray]) -> NDArray[Any]:
    """The product of two polynomials."""
@overload
def polymul(a1: Value, a2: Operand) -> Value: ...
@overload
def polymul(a1: Operand, a2: Value | Sequence[Value]) -> Value: ...
@overload
def polymul(a1: Operand, a2: Operand) -> Any: ...
@overload
def polysub(a1: NDArray[Any], a2: PlainArray | Sequence[PlainArray]) -> NDArray[Any]:
    """The difference of two polynomials."""
@overload
def polysub(a1: Value, a2: Operand) -> Value: ...
@overload
def polysub(a1: Operand, a2: Value | Sequence[Value]) -> Value: ...
@overload
def polysub(a1: Operand, a2: Operand) -> Any: ...
@overload
def polyval(p: NDArray[Any] | Sequence[NDArray[Any]], x: PlainArray) -> Any:
    """The value of a polynomial whose coefficients start with the highest power."""
@overload
def polyval(p: Value | Sequence[Value], x: Operand) -> Value: ...
@overload
def polyval(p: Operand, x: Value) -> Value: ...
@overload
def polyval(p: Operand, x: Operand) -> Any: ...
@overload
def positive(x: float, /) -> float:
    """The wire itself."""
@overload
def positive(x: Value, /) -> Value: ...
@overload
def positive(x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def positive(x: Operand, /) -> Any: ...
@overload
def pow(a: float, b: float, /) -> float:
    """First wire to the power of the second."""
@overload
def pow(a: Value, b: Operand, /) -> Value: ...
@overload
def pow(a: Operand, b: Value, /) -> Value: ...
@overload
def pow(a: NDArray[Any], b: PlainArray, /) -> NDArray[Any]: ...
@overload
def pow(a: PlainArray, b: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def pow(a: Operand, b: Operand, /) -> Any: ...
@overload
def power(a: float, b: float, /) -> float:
    """First wire to the power of the second."""
@overload
def power(a: Value, b: Operand, /) -> Value: ...
@overload
def power(a: Operand, b: Value, /) -> Value: ...
@overload
def power(a: NDArray[Any], b: PlainArray, /) -> NDArray[Any]: ...
@overload
def power(a: PlainArray, b: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def power(a: Operand, b: Operand, /) -> Any: ...
@overload
def prod(a: NDArray[Any], axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None, *, keepdims: bool = False, initial: PlainArray | None = None, where: Any = True) -> Any:
    """Product along axes, or of everything; exact where factors are 0."""
@overload
def prod(a: Value, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None, *, keepdims: bool = False, initial: Operand | None = None, where: Any = True) -> Value: ...
@overload
def prod(a: Operand, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None, *, keepdims: bool = False, initial: Operand | None = None, where: Any = True) -> Any: ...
@overload
def pseudo_huber(delta: NDArray[Any], r: PlainArray) -> NDArray[Any]:
    """delta**2 (sqrt(1 + (r / delta)**2) - 1), a smooth huber; inf for a negative delta."""
@overload
def pseudo_huber(delta: Value, r: Operand) -> Value: ...
@overload
def pseudo_huber(delta: Operand, r: Value) -> Value: ...
@overload
def pseudo_huber(delta: Operand, r: Operand) -> Any: ...
@overload
def ptp(a: NDArray[Any], axis: int | Sequence[int] | None = None, *, keepdims: bool = False) -> Any:
    """Distance from the smallest to the largest element along axes, or of all."""
@overload
def ptp(a: Value, axis: int | Sequence[int] | None = None, *, keepdims: bool = False) -> Value: ...
@overload
def ptp(a: Operand, axis: int | Sequence[int] | None = None, *, keepdims: bool = False) -> Any: ...
@overload
def put(x: NDArray[Any], index: Any, values: PlainArray) -> NDArray[Any]:
    """A copy of the array with values assigned at an index, as by `x[index] = values`."""
@overload
def put(x: Value, index: Any, values: Operand) -> Value: ...
@overload
def put(x: Operand, index: Any, values: Operand) -> Any: ...
def qr(a: Operand, mode: str = 'reduced') -> Any:
    """QR decomposition: orthogonal columns and an upper triangle; the gradient needs full rank."""
def quad(func: Any, a: Operand, b: Operand, args: Any = ..., full_output: int = 0, *positional: Any, **options: Any) -> Any:
    """The integral of a function from a to b, and an estimate of its error; gradients flow to args and to the limits."""
@overload
def quantile(a: NDArray[Any], q: PlainArray | Sequence[PlainArray], axis: int | Sequence[int] | None = None, *, overwrite_input: bool = False, method: str = 'linear', keepdims: bool = False) -> Any:
    """Quantiles at `q`, from 0 to 1, interpolated linearly between elements."""
@overload
def quantile(a: Value, q: Operand, axis: int | Sequence[int] | None = None, *, overwrite_input: bool = False, method: str = 'linear', keepdims: bool = False) -> Value: ...
@overload
def quantile(a: Operand, q: Operand, axis: int | Sequence[int] | None = None, *, overwrite_input: bool = False, method: str = 'linear', keepdims: bool = False) -> Any: ...
@overload
def rad2deg(x: NDArray[Any]) -> NDArray[Any]:
    """Radians as degrees."""
@overload
def rad2deg(x: Value) -> Value: ...
@overload
def rad2deg(x: Operand) -> Any: ...
@overload
def ravel(x: NDArray[Any], order: str = 'C') -> NDArray[Any]:
    """The elements in one row."""
@overload
def ravel(x: Value, order: str = 'C') -> Value: ...
@overload
def ravel(x: Operand, order: str = 'C') -> Any: ...
@overload
def real(x: NDArray[Any]) -> NDArray[Any]:
    """The real part."""
@overload
def real(x: Value) -> Value: ...
@overload
def real(x: Operand) -> Any: ...
@overload
def real_if_close(a: NDArray[Any], tol: float = 100) -> NDArray[Any]:
    """The real part, if all imaginary parts are nearly 0; else the complex numbers."""
@overload
def real_if_close(a: Value, tol: float = 100) -> Value: ...
@overload
def real_if_close(a: Operand, tol: float = 100) -> Any: ...
@overload
def reciprocal(x: float, /) -> float:
    """One over the wire."""
@overload
def reciprocal(x: Value, /) -> Value: ...
@overload
def reciprocal(x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def reciprocal(x: Operand, /) -> Any: ...
@overload
def rel_entr(a: float, b: float, /) -> float:
    """a log(a / b), the relative entropy of two probabilities; 0 where a = 0."""
@overload
def rel_entr(a: Value, b: Operand, /) -> Value: ...
@overload
def rel_entr(a: Operand, b: Value, /) -> Value: ...
@overload
def rel_entr(a: NDArray[Any], b: PlainArray, /) -> NDArray[Any]: ...
@overload
def rel_entr(a: PlainArray, b: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def rel_entr(a: Operand, b: Operand, /) -> Any: ...
@overload
def relu(x: float, /) -> float:
    """The wire where it is positive, else 0; slope 0 at 0."""
@overload
def relu(x: Value, /) -> Value: ...
@overload
def relu(x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def relu(x: Operand, /) -> Any: ...
@overload
def relu6(x: float, /) -> float:
    """The wire between 0 and 6, else the bound; slope 0 on a bound."""
@overload
def relu6(x: Value, /) -> Value: ...
@overload
def relu6(x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def relu6(x: Operand, /) -> Any: ...
@overload
def repeat(x: NDArray[Any], repeats: Any, axis: int | None = None) -> NDArray[Any]:
    """Each element several times in a row."""
@overload
def repeat(x: Value, repeats: Any, axis: int | None = None) -> Value: ...
@overload
def repeat(x: Operand, repeats: Any, axis: int | None = None) -> Any: ...
@overload
def reshape(x: NDArray[Any], /, *lengths: Any, shape: int | Sequence[int] | None = None, order: str = 'C', copy: bool | None = None) -> Any:
    """The same elements in another shape; one length may be -1."""
@overload
def reshape(x: Value, /, *lengths: Any, shape: int | Sequence[int] | None = None, order: str = 'C', copy: bool | None = None) -> Value: ...
@overload
def reshape(x: Operand, /, *lengths: Any, shape: int | Sequence[int] | None = None, order: str = 'C', copy: bool | None = None) -> Any: ...
def resize(a: Operand, new_shape: Any) -> Any:
    """The elements in a new shape, repeated in order as often as it takes."""
def result_type(*xs: Any) -> Any:
    """The dtype that NumPy gives what is computed from these."""
@overload
def rfft(a: NDArray[Any], n: Any = None, axis: int | Sequence[int] | None = -1, norm: Any = None, *scipy: Any, **settings: Any) -> NDArray[Any]:
    """The discrete Fourier transform of real numbers along an axis, without the half that follows by symmetry."""
@overload
def rfft(a: Value, n: Any = None, axis: int | Sequence[int] | None = -1, norm: Any = None, *scipy: Any, **settings: Any) -> Value: ...
@overload
def rfft(a: Operand, n: Any = None, axis: int | Sequence[int] | None = -1, norm: Any = None, *scipy: Any, **settings: Any) -> Any: ...
@overload
def rfft2(a: NDArray[Any], s: Any = None, axes: Any = ..., norm: Any = None, *scipy: Any, **settings: Any) -> NDArray[Any]:
    """The discrete Fourier transform of real numbers along two axes; the last of them is halved."""
@overload
def rfft2(a: Value, s: Any = None, axes: Any = ..., norm: Any = None, *scipy: Any, **settings: Any) -> Value: ...
@overload
def rfft2(a: Operand, s: Any = None, axes: Any = ..., norm: Any = None, *scipy: Any, **settings: Any) -> Any: ...
@overload
def rfftn(a: NDArray[Any], s: Any = None, axes: Any = None, norm: Any = None, *scipy: Any, **settings: Any) -> NDArray[Any]:
    """The discrete Fourier transform of real numbers along several axes; the last of them is halved."""
@overload
def rfftn(a: Value, s: Any = None, axes: Any = None, norm: Any = None, *scipy: Any, **settings: Any) -> Value: ...
@overload
def rfftn(a: Operand, s: Any = None, axes: Any = None, norm: Any = None, *scipy: Any, **settings: Any) -> Any: ...
@overload
def roll(x: NDArray[Any], shift: Any, axis: int | Sequence[int] | None = None) -> NDArray[Any]:
    """The elements rolled along axes; those that leave at one end come back at the other."""
@overload
def roll(x: Value, shift: Any, axis: int | Sequence[int] | None = None) -> Value: ...
@overload
def roll(x: Operand, shift: Any, axis: int | Sequence[int] | None = None) -> Any: ...
@overload
def rollaxis(x: NDArray[Any], axis: int, start: int = 0) -> NDArray[Any]:
    """The array with an axis rolled back until it is before another one."""
@overload
def rollaxis(x: Value, axis: int, start: int = 0) -> Value: ...
@overload
def rollaxis(x: Operand, axis: int, start: int = 0) -> Any: ...
@overload
def roots(p: NDArray[Any]) -> NDArray[Any]:
    """The zeros of a polynomial; where two are equal, their gradient is inf or NaN."""
@overload
def roots(p: Value) -> Value: ...
@overload
def roots(p: Operand) -> Any: ...
@overload
def rot90(x: NDArray[Any], k: int = 1, axes: Any = ...) -> NDArray[Any]:
    """The array turned by quarters in the plane of two axes."""
@overload
def rot90(x: Value, k: int = 1, axes: Any = ...) -> Value: ...
@overload
def rot90(x: Operand, k: int = 1, axes: Any = ...) -> Any: ...
@overload
def round(x: NDArray[Any], decimals: int = 0) -> NDArray[Any]:
    """Numbers rounded to so many decimals; halves go to the even neighbour."""
@overload
def round(x: Value, decimals: int = 0) -> Value: ...
@overload
def round(x: Operand, decimals: int = 0) -> Any: ...
@overload
def scatter_add(x: NDArray[Any], index: Any, values: PlainArray) -> NDArray[Any]:
    """A copy of the array with values added at an index, as often as it names an element, as by `np.add.at`."""
@overload
def scatter_add(x: Value, index: Any, values: Operand) -> Value: ...
@overload
def scatter_add(x: Operand, index: Any, values: Value) -> Value: ...
@overload
def scatter_add(x: Operand, index: Any, values: Operand) -> Any: ...
@overload
def scipy_cholesky(a: NDArray[Any], lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> NDArray[Any]:
    """The upper (or lower) triangular factor of a positive definite matrix; the gradient is symmetric."""
@overload
def scipy_cholesky(a: Value, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Value: ...
@overload
def scipy_cholesky(a: Operand, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any: ...
@overload
def scipy_convolve(in1: NDArray[Any], in2: PlainArray, mode: str = 'full', method: str = 'auto') -> NDArray[Any]:
    """Slide one array, turned around, over another, along all axes."""
@overload
def scipy_convolve(in1: Value, in2: Operand, mode: str = 'full', method: str = 'auto') -> Value: ...
@overload
def scipy_convolve(in1: Operand, in2: Value, mode: str = 'full', method: str = 'auto') -> Value: ...
@overload
def scipy_convolve(in1: Operand, in2: Operand, mode: str = 'full', method: str = 'auto') -> Any: ...
@overload
def scipy_correlate(in1: NDArray[Any], in2: PlainArray, mode: str = 'full', method: str = 'auto') -> NDArray[Any]:
    """Slide one array over another, along all axes, without turning it around."""
@overload
def scipy_correlate(in1: Value, in2: Operand, mode: str = 'full', method: str = 'auto') -> Value: ...
@overload
def scipy_correlate(in1: Operand, in2: Value, mode: str = 'full', method: str = 'auto') -> Value: ...
@overload
def scipy_correlate(in1: Operand, in2: Operand, mode: str = 'full', method: str = 'auto') -> Any: ...
@overload
def scipy_det(a: NDArray[Any], overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The determinant."""
@overload
def scipy_det(a: Value, overwrite_a: bool = False, check_finite: bool = True) -> Value: ...
@overload
def scipy_det(a: Operand, overwrite_a: bool = False, check_finite: bool = True) -> Any: ...
def scipy_eigh(a: Operand, b: Operand | None = None, *, lower: bool = True, eigvals_only: bool = False, overwrite_a: bool = False, overwrite_b: bool = False, type: int = 1, check_finite: bool = True, subset_by_index: Any = None, subset_by_value: Any = None, driver: Any = None) -> Any:
    """Eigenvalues and eigenvectors of a symmetric matrix a, or of a with respect to b; the gradient is symmetric."""
@overload
def scipy_eigvalsh(a: NDArray[Any], b: PlainArray | None = None, **settings: Any) -> NDArray[Any]:
    """Eigenvalues of a symmetric matrix a, or of a with respect to b, in order; the gradient is symmetric."""
@overload
def scipy_eigvalsh(a: Value, b: Operand | None = None, **settings: Any) -> Value: ...
@overload
def scipy_eigvalsh(a: Operand, b: Operand | None = None, **settings: Any) -> Any: ...
@overload
def scipy_inv(a: NDArray[Any], overwrite_a: bool = False, check_finite: bool = True, *, assume_a: Any = None, lower: bool = False) -> NDArray[Any]:
    """The inverse of a matrix."""
@overload
def scipy_inv(a: Value, overwrite_a: bool = False, check_finite: bool = True, *, assume_a: Any = None, lower: bool = False) -> Value: ...
@overload
def scipy_inv(a: Operand, overwrite_a: bool = False, check_finite: bool = True, *, assume_a: Any = None, lower: bool = False) -> Any: ...
@overload
def scipy_lstsq(a: NDArray[Any], b: PlainArray, cond: Any = None, overwrite_a: bool = False, overwrite_b: bool = False, check_finite: bool = True, lapack_driver: Any = None) -> Any:
    """Least squares: the solution, the sums of squared residuals, the rank and the singular values."""
@overload
def scipy_lstsq(a: Value, b: Operand, cond: Any = None, overwrite_a: bool = False, overwrite_b: bool = False, check_finite: bool = True, lapack_driver: Any = None) -> tuple[Value, Value, Any, Value]: ...
@overload
def scipy_lstsq(a: Operand, b: Value, cond: Any = None, overwrite_a: bool = False, overwrite_b: bool = False, check_finite: bool = True, lapack_driver: Any = None) -> tuple[Value, Value, Any, Any]: ...
@overload
def scipy_lstsq(a: Operand, b: Operand, cond: Any = None, overwrite_a: bool = False, overwrite_b: bool = False, check_finite: bool = True, lapack_driver: Any = None) -> Any: ...
@overload
def scipy_norm(a: NDArray[Any], ord: Any = None, axis: int | Sequence[int] | None = None, keepdims: bool = False, check_finite: bool = True) -> Any:
    """A norm of a vector or a matrix."""
@overload
def scipy_norm(a: Value, ord: Any = None, axis: int | Sequence[int] | None = None, keepdims: bool = False, check_finite: bool = True) -> Value: ...
@overload
def scipy_norm(a: Operand, ord: Any = None, axis: int | Sequence[int] | None = None, keepdims: bool = False, check_finite: bool = True) -> Any: ...
def scipy_pinv(a: Operand, *, atol: Any = None, rtol: Operand | None = None, return_rank: bool = False, check_finite: bool = True) -> Any:
    """The pseudo-inverse; the gradient is that among matrices of the same rank."""
@overload
def scipy_qr(a: NDArray[Any], overwrite_a: bool = False, lwork: Any = None, mode: str = 'full', pivoting: bool = False, check_finite: bool = True) -> Any:
    """QR decomposition: orthogonal columns and an upper triangle; the gradient needs full rank."""
@overload
def scipy_qr(a: Value, overwrite_a: bool = False, lwork: Any = None, mode: str = 'full', pivoting: bool = False, check_finite: bool = True) -> tuple[Value, Value]: ...
@overload
def scipy_qr(a: Operand, overwrite_a: bool = False, lwork: Any = None, mode: str = 'full', pivoting: bool = False, check_finite: bool = True) -> Any: ...
@overload
def scipy_solve(a: NDArray[Any], b: PlainArray, lower: bool = False, overwrite_a: bool = False, overwrite_b: bool = False, check_finite: bool = True, assume_a: Any = None, transposed: bool = False) -> NDArray[Any]:
    """The x for which a @ x = b; of a symmetric matrix (`assume_a`) one triangle is read, and gets the gradient."""
@overload
def scipy_solve(a: Value, b: Operand, lower: bool = False, overwrite_a: bool = False, overwrite_b: bool = False, check_finite: bool = True, assume_a: Any = None, transposed: bool = False) -> Value: ...
@overload
def scipy_solve(a: Operand, b: Value, lower: bool = False, overwrite_a: bool = False, overwrite_b: bool = False, check_finite: bool = True, assume_a: Any = None, transposed: bool = False) -> Value: ...
@overload
def scipy_solve(a: Operand, b: Operand, lower: bool = False, overwrite_a: bool = False, overwrite_b: bool = False, check_finite: bool = True, assume_a: Any = None, transposed: bool = False) -> Any: ...
def scipy_svd(a: Operand, full_matrices: bool = True, compute_uv: bool = True, overwrite_a: bool = False, check_finite: bool = True, lapack_driver: str = 'gesdd') -> Any:
    """Left singular vectors, singular values, and right singular vectors as rows; or the values alone."""
@overload
def scipy_svdvals(a: NDArray[Any], overwrite_a: bool = False, check_finite: bool = True) -> NDArray[Any]:
    """Singular values, the largest first."""
@overload
def scipy_svdvals(a: Value, overwrite_a: bool = False, check_finite: bool = True) -> Value: ...
@overload
def scipy_svdvals(a: Operand, overwrite_a: bool = False, check_finite: bool = True) -> Any: ...
def searchsorted(a: Operand, v: Any, side: str = 'left', sorter: Any = None) -> Any:
    """Indices at which to insert elements into a sorted row."""
@overload
def select(condlist: Sequence[Operand], choicelist: Sequence[Operand], default: Value) -> Value:
    """Elements of the first array whose condition holds."""
@overload
def select(condlist: Sequence[Operand], choicelist: Sequence[Operand], default: Operand = 0) -> Any: ...
@overload
def setdiff1d(ar1: NDArray[Any], ar2: PlainArray | Sequence[PlainArray], assume_unique: bool = False) -> NDArray[Any]:
    """The different elements of one array that are not in another, sorted."""
@overload
def setdiff1d(ar1: Value, ar2: Operand, assume_unique: bool = False) -> Value: ...
@overload
def setdiff1d(ar1: Operand, ar2: Operand, assume_unique: bool = False) -> Any: ...
def shape(x: Operand) -> tuple[int, ...]:
    """The shape."""
@overload
def sigmoid(x: float, /) -> float:
    """1 / (1 + exp(-x)) without overflow."""
@overload
def sigmoid(x: Value, /) -> Value: ...
@overload
def sigmoid(x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def sigmoid(x: Operand, /) -> Any: ...
@overload
def sign(x: float, /) -> float:
    """-1, 0 or 1."""
@overload
def sign(x: Value, /) -> Value: ...
@overload
def sign(x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def sign(x: Operand, /) -> Any: ...
def signbit(x: Operand) -> Any:
    """Whether the sign bit is set."""
@overload
def silu(x: float, /) -> float:
    """x * sigmoid(x)."""
@overload
def silu(x: Value, /) -> Value: ...
@overload
def silu(x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def silu(x: Operand, /) -> Any: ...
@overload
def simpson(y: NDArray[Any], x: PlainArray | None = None, *, dx: PlainArray = 1.0, axis: int = -1) -> Any:
    """Integral along an axis by Simpson's rule; of an even number of points, the last interval is corrected."""
@overload
def simpson(y: Value, x: Operand | None = None, *, dx: Operand = 1.0, axis: int = -1) -> Value: ...
@overload
def simpson(y: Operand, x: Operand | None = None, *, dx: Operand = 1.0, axis: int = -1) -> Any: ...
@overload
def sin(x: float, /) -> float:
    """Sine of an angle in radians."""
@overload
def sin(x: Value, /) -> Value: ...
@overload
def sin(x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def sin(x: Operand, /) -> Any: ...
@overload
def sinc(x: float, /) -> float:
    """sin(pi x) / (pi x); 1 at 0."""
@overload
def sinc(x: Value, /) -> Value: ...
@overload
def sinc(x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def sinc(x: Operand, /) -> Any: ...
@overload
def sinh(x: float, /) -> float:
    """Hyperbolic sine."""
@overload
def sinh(x: Value, /) -> Value: ...
@overload
def sinh(x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def sinh(x: Operand, /) -> Any: ...
def size(x: Operand, axis: int | Sequence[int] | None = None) -> int:
    """The number of elements, in all or along axes."""
@overload
def sliding_window_view(x: NDArray[Any], window_shape: Any, axis: int | Sequence[int] | None = None, *, subok: bool = False, writeable: bool = False) -> NDArray[Any]:
    """All windows of a shape, as further axes; the gradients of all windows add up."""
@overload
def sliding_window_view(x: Value, window_shape: Any, axis: int | Sequence[int] | None = None, *, subok: bool = False, writeable: bool = False) -> Value: ...
@overload
def sliding_window_view(x: Operand, window_shape: Any, axis: int | Sequence[int] | None = None, *, subok: bool = False, writeable: bool = False) -> Any: ...
@overload
def slogdet(a: NDArray[Any]) -> Any:
    """Sign and logarithm of the absolute value of the determinant; the gradient is NaN for singular matrices."""
@overload
def slogdet(a: Value) -> tuple[Value, Value]: ...
@overload
def slogdet(a: Operand) -> Any: ...
@overload
def softmax(x: NDArray[Any], axis: int | Sequence[int] | None = -1) -> NDArray[Any]:
    """exp(x) / sum(exp(x)) along an axis, without overflow."""
@overload
def softmax(x: Value, axis: int | Sequence[int] | None = -1) -> Value: ...
@overload
def softmax(x: Operand, axis: int | Sequence[int] | None = -1) -> Any: ...
@overload
def softplus(x: float, /) -> float:
    """log(1 + exp(x)) without overflow."""
@overload
def softplus(x: Value, /) -> Value: ...
@overload
def softplus(x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def softplus(x: Operand, /) -> Any: ...
@overload
def solve(a: NDArray[Any], b: PlainArray) -> NDArray[Any]:
    """The x for which a @ x = b; b is one vector if it has one axis, else matrices."""
@overload
def solve(a: Value, b: Operand) -> Value: ...
@overload
def solve(a: Operand, b: Value) -> Value: ...
@overload
def solve(a: Operand, b: Operand) -> Any: ...
@overload
def solve_banded(l_and_u: Any, ab: NDArray[Any], b: PlainArray, overwrite_ab: bool = False, overwrite_b: bool = False, check_finite: bool = True) -> NDArray[Any]:
    """The x for which a banded matrix, given by its diagonals, times x, is b; gradients are diagonals, too."""
@overload
def solve_banded(l_and_u: Any, ab: Value, b: Operand, overwrite_ab: bool = False, overwrite_b: bool = False, check_finite: bool = True) -> Value: ...
@overload
def solve_banded(l_and_u: Any, ab: Operand, b: Value, overwrite_ab: bool = False, overwrite_b: bool = False, check_finite: bool = True) -> Value: ...
@overload
def solve_banded(l_and_u: Any, ab: Operand, b: Operand, overwrite_ab: bool = False, overwrite_b: bool = False, check_finite: bool = True) -> Any: ...
@overload
def solve_continuous_lyapunov(a: NDArray[Any], q: PlainArray) -> NDArray[Any]:
    """The matrix x with a @ x + x @ a.conj().T = q."""
@overload
def solve_continuous_lyapunov(a: Value, q: Operand) -> Value: ...
@overload
def solve_continuous_lyapunov(a: Operand, q: Value) -> Value: ...
@overload
def solve_continuous_lyapunov(a: Operand, q: Operand) -> Any: ...
def solve_ivp(fun: Any, t_span: Any, y0: Any, method: Any = 'RK45', t_eval: Any = None, dense_output: bool = False, events: Any = None, vectorized: bool = False, args: Any = None, **options: Any) -> Any:
    """Solve a differential equation dy/dt = fun(t, y); gradients flow through the steps that are taken."""
@overload
def solve_sylvester(a: NDArray[Any], b: PlainArray, q: PlainArray) -> NDArray[Any]:
    """The matrix x with a @ x + x @ b = q."""
@overload
def solve_sylvester(a: Value, b: Operand, q: Operand) -> Value: ...
@overload
def solve_sylvester(a: Operand, b: Value, q: Operand) -> Value: ...
@overload
def solve_sylvester(a: Operand, b: Operand, q: Value) -> Value: ...
@overload
def solve_sylvester(a: Operand, b: Operand, q: Operand) -> Any: ...
@overload
def solve_toeplitz(c_or_cr: NDArray[Any] | Sequence[NDArray[Any]], b: PlainArray, check_finite: bool = True) -> NDArray[Any]:
    """The x for which a matrix with constant diagonals, times x, is b; solved as a dense system."""
@overload
def solve_toeplitz(c_or_cr: Value | Sequence[Value], b: Operand, check_finite: bool = True) -> Value: ...
@overload
def solve_toeplitz(c_or_cr: Operand, b: Value, check_finite: bool = True) -> Value: ...
@overload
def solve_toeplitz(c_or_cr: Operand, b: Operand, check_finite: bool = True) -> Any: ...
@overload
def solve_triangular(a: NDArray[Any], b: PlainArray, trans: Any = 0, lower: bool = False, unit_diagonal: bool = False, overwrite_b: bool = False, check_finite: bool = True) -> NDArray[Any]:
    """The x for which the lower or upper triangle of a, times x, is b; the other triangle is not read."""
@overload
def solve_triangular(a: Value, b: Operand, trans: Any = 0, lower: bool = False, unit_diagonal: bool = False, overwrite_b: bool = False, check_finite: bool = True) -> Value: ...
@overload
def solve_triangular(a: Operand, b: Value, trans: Any = 0, lower: bool = False, unit_diagonal: bool = False, overwrite_b: bool = False, check_finite: bool = True) -> Value: ...
@overload
def solve_triangular(a: Operand, b: Operand, trans: Any = 0, lower: bool = False, unit_diagonal: bool = False, overwrite_b: bool = False, check_finite: bool = True) -> Any: ...
@overload
def solveh_banded(ab: NDArray[Any], b: PlainArray, overwrite_ab: bool = False, overwrite_b: bool = False, lower: bool = False, check_finite: bool = True) -> NDArray[Any]:
    """The x for which a positive definite banded matrix, of which one half is given, times x, is b."""
@overload
def solveh_banded(ab: Value, b: Operand, overwrite_ab: bool = False, overwrite_b: bool = False, lower: bool = False, check_finite: bool = True) -> Value: ...
@overload
def solveh_banded(ab: Operand, b: Value, overwrite_ab: bool = False, overwrite_b: bool = False, lower: bool = False, check_finite: bool = True) -> Value: ...
@overload
def solveh_banded(ab: Operand, b: Operand, overwrite_ab: bool = False, overwrite_b: bool = False, lower: bool = False, check_finite: bool = True) -> Any: ...
@overload
def sort(a: NDArray[Any], axis: int | Sequence[int] | None = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> NDArray[Any]:
    """The elements sorted along an axis; each keeps its gradient."""
@overload
def sort(a: Value, axis: int | Sequence[int] | None = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Value: ...
@overload
def sort(a: Operand, axis: int | Sequence[int] | None = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any: ...
@overload
def sort_complex(a: NDArray[Any]) -> NDArray[Any]:
    """The elements as complex numbers, sorted by real part, then by imaginary part."""
@overload
def sort_complex(a: Value) -> Value: ...
@overload
def sort_complex(a: Operand) -> Any: ...
@overload
def spectrogram(x: NDArray[Any], fs: PlainArray = 1.0, window: Any = ..., nperseg: Any = None, noverlap: Any = None, nfft: Any = None, detrend: Any = 'constant', return_onesided: bool = True, scaling: str = 'density', axis: int = -1, mode: str = 'psd') -> Any:
    """Frequencies, times and the power spectra of the segments of a real signal."""
@overload
def spectrogram(x: Value, fs: Operand = 1.0, window: Any = ..., nperseg: Any = None, noverlap: Any = None, nfft: Any = None, detrend: Any = 'constant', return_onesided: bool = True, scaling: str = 'density', axis: int = -1, mode: str = 'psd') -> tuple[Any, Any, Value]: ...
@overload
def spectrogram(x: Operand, fs: Operand = 1.0, window: Any = ..., nperseg: Any = None, noverlap: Any = None, nfft: Any = None, detrend: Any = 'constant', return_onesided: bool = True, scaling: str = 'density', axis: int = -1, mode: str = 'psd') -> Any: ...
@overload
def split(x: NDArray[Any], indices_or_sections: Any, axis: int = 0) -> Any:
    """An array cut along an axis, into equal parts or at indices."""
@overload
def split(x: Value, indices_or_sections: Any, axis: int = 0) -> list[Value]: ...
@overload
def split(x: Operand, indices_or_sections: Any, axis: int = 0) -> Any: ...
@overload
def sqrt(x: float, /) -> float:
    """Square root."""
@overload
def sqrt(x: Value, /) -> Value: ...
@overload
def sqrt(x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def sqrt(x: Operand, /) -> Any: ...
@overload
def sqrtm(A: NDArray[Any], disp: Any = True, blocksize: Any = None) -> NDArray[Any]:
    """The principal square root of a matrix; for a matrix with negative eigenvalues pass it as complex numbers."""
@overload
def sqrtm(A: Value, disp: Any = True, blocksize: Any = None) -> Value: ...
@overload
def sqrtm(A: Operand, disp: Any = True, blocksize: Any = None) -> Any: ...
@overload
def square(x: float, /) -> float:
    """The wire times itself."""
@overload
def square(x: Value, /) -> Value: ...
@overload
def square(x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def square(x: Operand, /) -> Any: ...
@overload
def squeeze(x: NDArray[Any], axis: int | Sequence[int] | None = None) -> Any:
    """The array without axes of length 1."""
@overload
def squeeze(x: Value, axis: int | Sequence[int] | None = None) -> Value: ...
@overload
def squeeze(x: Operand, axis: int | Sequence[int] | None = None) -> Any: ...
@overload
def stack(xs: NDArray[Any] | Sequence[NDArray[Any]], axis: int = 0) -> NDArray[Any]:
    """Arrays of one shape joined along a new axis."""
@overload
def stack(xs: Value | Sequence[Value], axis: int = 0) -> Value: ...
@overload
def stack(xs: Operand, axis: int = 0) -> Any: ...
@overload
def std(a: NDArray[Any], axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None, *, ddof: float = 0, keepdims: bool = False, where: Any = True, mean: Any = None, correction: float | None = None) -> Any:
    """Standard deviation along axes, or of everything; where all elements are equal its gradient is 0."""
@overload
def std(a: Value, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None, *, ddof: float = 0, keepdims: bool = False, where: Any = True, mean: Any = None, correction: float | None = None) -> Value: ...
@overload
def std(a: Operand, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None, *, ddof: float = 0, keepdims: bool = False, where: Any = True, mean: Any = None, correction: float | None = None) -> Any: ...
@overload
def stdtr(df: float, t: float, /) -> float:
    """Cumulative probability of t under Student's distribution with df degrees of freedom."""
@overload
def stdtr(df: Value, t: Operand, /) -> Value: ...
@overload
def stdtr(df: Operand, t: Value, /) -> Value: ...
@overload
def stdtr(df: NDArray[Any], t: PlainArray, /) -> NDArray[Any]: ...
@overload
def stdtr(df: PlainArray, t: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def stdtr(df: Operand, t: Operand, /) -> Any: ...
@overload
def subtract(a: float, b: float, /) -> float:
    """Difference of two wires."""
@overload
def subtract(a: Value, b: Operand, /) -> Value: ...
@overload
def subtract(a: Operand, b: Value, /) -> Value: ...
@overload
def subtract(a: NDArray[Any], b: PlainArray, /) -> NDArray[Any]: ...
@overload
def subtract(a: PlainArray, b: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def subtract(a: Operand, b: Operand, /) -> Any: ...
@overload
def sum(a: NDArray[Any], axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None, *, keepdims: bool = False, initial: PlainArray | None = None, where: Any = True) -> Any:
    """Sum along axes, or of everything."""
@overload
def sum(a: Value, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None, *, keepdims: bool = False, initial: Operand | None = None, where: Any = True) -> Value: ...
@overload
def sum(a: Operand, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None, *, keepdims: bool = False, initial: Operand | None = None, where: Any = True) -> Any: ...
def svd(a: Operand, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    """Left singular vectors, singular values, and right singular vectors as rows; or the values alone."""
@overload
def svdvals(x: NDArray[Any], /) -> NDArray[Any]:
    """Singular values, the largest first."""
@overload
def svdvals(x: Value, /) -> Value: ...
@overload
def svdvals(x: Operand, /) -> Any: ...
@overload
def swapaxes(x: NDArray[Any], axis1: int, axis2: int) -> NDArray[Any]:
    """The array with two axes swapped."""
@overload
def swapaxes(x: Value, axis1: int, axis2: int) -> Value: ...
@overload
def swapaxes(x: Operand, axis1: int, axis2: int) -> Any: ...
@overload
def take(x: NDArray[Any], indices: Any, axis: int | None = None, mode: str = 'raise') -> NDArray[Any]:
    """Elements by index along an axis, or of all in a row."""
@overload
def take(x: Value, indices: Any, axis: int | None = None, mode: str = 'raise') -> Value: ...
@overload
def take(x: Operand, indices: Any, axis: int | None = None, mode: str = 'raise') -> Any: ...
@overload
def take_along_axis(x: NDArray[Any], indices: Any, axis: int | None = -1) -> NDArray[Any]:
    """Elements by an array of indices along an axis; in the other axes the two broadcast."""
@overload
def take_along_axis(x: Value, indices: Any, axis: int | None = -1) -> Value: ...
@overload
def take_along_axis(x: Operand, indices: Any, axis: int | None = -1) -> Any: ...
@overload
def tan(x: float, /) -> float:
    """Tangent of an angle in radians."""
@overload
def tan(x: Value, /) -> Value: ...
@overload
def tan(x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def tan(x: Operand, /) -> Any: ...
@overload
def tanh(x: float, /) -> float:
    """Hyperbolic tangent."""
@overload
def tanh(x: Value, /) -> Value: ...
@overload
def tanh(x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def tanh(x: Operand, /) -> Any: ...
@overload
def tensordot(a: NDArray[Any], b: PlainArray, axes: Any = 2) -> Any:
    """Sum of products over several axes: a number of last and first ones, or two lists of axes."""
@overload
def tensordot(a: Value, b: Operand, axes: Any = 2) -> Value: ...
@overload
def tensordot(a: Operand, b: Value, axes: Any = 2) -> Value: ...
@overload
def tensordot(a: Operand, b: Operand, axes: Any = 2) -> Any: ...
@overload
def tensorinv(a: NDArray[Any], ind: int = 2) -> NDArray[Any]:
    """The inverse of an array taken as a matrix: its first `ind` axes are rows, the others columns."""
@overload
def tensorinv(a: Value, ind: int = 2) -> Value: ...
@overload
def tensorinv(a: Operand, ind: int = 2) -> Any: ...
@overload
def tensorsolve(a: NDArray[Any], b: PlainArray, axes: Any = None) -> NDArray[Any]:
    """The x for which tensordot(a, x) over all axes of x gives b."""
@overload
def tensorsolve(a: Value, b: Operand, axes: Any = None) -> Value: ...
@overload
def tensorsolve(a: Operand, b: Value, axes: Any = None) -> Value: ...
@overload
def tensorsolve(a: Operand, b: Operand, axes: Any = None) -> Any: ...
@overload
def tile(x: NDArray[Any], reps: Any) -> NDArray[Any]:
    """Copies of the array side by side."""
@overload
def tile(x: Value, reps: Any) -> Value: ...
@overload
def tile(x: Operand, reps: Any) -> Any: ...
@overload
def toeplitz(c: NDArray[Any], r: PlainArray | None = None) -> NDArray[Any]:
    """A matrix with constant diagonals: c is its first column and r its first row."""
@overload
def toeplitz(c: Value, r: Operand | None = None) -> Value: ...
@overload
def toeplitz(c: Operand, r: Operand | None = None) -> Any: ...
@overload
def transpose(x: NDArray[Any], /, *order: Any, axes: Any = None) -> NDArray[Any]:
    """The axes in another order; reversed if none is given."""
@overload
def transpose(x: Value, /, *order: Any, axes: Any = None) -> Value: ...
@overload
def transpose(x: Operand, /, *order: Any, axes: Any = None) -> Any: ...
@overload
def trapezoid(y: NDArray[Any], x: PlainArray | None = None, dx: PlainArray = 1.0, axis: int = -1) -> Any:
    """Integral along an axis by the trapezoidal rule."""
@overload
def trapezoid(y: Value, x: Operand | None = None, dx: Operand = 1.0, axis: int = -1) -> Value: ...
@overload
def trapezoid(y: Operand, x: Operand | None = None, dx: Operand = 1.0, axis: int = -1) -> Any: ...
@overload
def tril(x: NDArray[Any], k: int = 0) -> NDArray[Any]:
    """The lower triangle of a matrix, 0 above it."""
@overload
def tril(x: Value, k: int = 0) -> Value: ...
@overload
def tril(x: Operand, k: int = 0) -> Any: ...
def tril_indices_from(x: Operand, k: int = 0) -> tuple[NDArray[Any], NDArray[Any]]:
    """The indices of the lower triangle."""
@overload
def trim_zeros(filt: NDArray[Any], trim: str = 'fb', axis: int | Sequence[int] | None = None) -> NDArray[Any]:
    """A row without the zeros in front and behind."""
@overload
def trim_zeros(filt: Value, trim: str = 'fb', axis: int | Sequence[int] | None = None) -> Value: ...
@overload
def trim_zeros(filt: Operand, trim: str = 'fb', axis: int | Sequence[int] | None = None) -> Any: ...
@overload
def triu(x: NDArray[Any], k: int = 0) -> NDArray[Any]:
    """The upper triangle of a matrix, 0 below it."""
@overload
def triu(x: Value, k: int = 0) -> Value: ...
@overload
def triu(x: Operand, k: int = 0) -> Any: ...
def triu_indices_from(x: Operand, k: int = 0) -> tuple[NDArray[Any], NDArray[Any]]:
    """The indices of the upper triangle."""
@overload
def trunc(x: float, /) -> float:
    """Whole part of the wire, rounded towards 0."""
@overload
def trunc(x: Value, /) -> Value: ...
@overload
def trunc(x: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def trunc(x: Operand, /) -> Any: ...
@overload
def uniform_filter(input: NDArray[Any], size: Any = 3, output: Any = None, mode: Any = 'reflect', cval: PlainArray = 0.0, origin: Any = 0, *, axes: Any = None) -> NDArray[Any]:
    """The mean of every window of an image."""
@overload
def uniform_filter(input: Value, size: Any = 3, output: Any = None, mode: Any = 'reflect', cval: Operand = 0.0, origin: Any = 0, *, axes: Any = None) -> Value: ...
@overload
def uniform_filter(input: Operand, size: Any = 3, output: Any = None, mode: Any = 'reflect', cval: Operand = 0.0, origin: Any = 0, *, axes: Any = None) -> Any: ...
@overload
def uniform_filter1d(input: NDArray[Any], size: int, axis: int = -1, output: Any = None, mode: str = 'reflect', cval: PlainArray = 0.0, origin: int = 0) -> NDArray[Any]:
    """The mean of every window of a size along an axis."""
@overload
def uniform_filter1d(input: Value, size: int, axis: int = -1, output: Any = None, mode: str = 'reflect', cval: Operand = 0.0, origin: int = 0) -> Value: ...
@overload
def uniform_filter1d(input: Operand, size: int, axis: int = -1, output: Any = None, mode: str = 'reflect', cval: Operand = 0.0, origin: int = 0) -> Any: ...
@overload
def union1d(ar1: NDArray[Any], ar2: PlainArray) -> NDArray[Any]:
    """The different elements of two arrays, sorted."""
@overload
def union1d(ar1: Value, ar2: Operand) -> Value: ...
@overload
def union1d(ar1: Operand, ar2: Value) -> Value: ...
@overload
def union1d(ar1: Operand, ar2: Operand) -> Any: ...
def unique(ar: Operand, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False, axis: int | Sequence[int] | None = None, *, equal_nan: bool = True, sorted: bool = True) -> Any:
    """The different elements, sorted; of several equal ones, the first one has the gradient."""
@overload
def unique_all(x: NDArray[Any], /) -> Any:
    """The different elements, sorted, with their first indices, the inverse, and how often each occurs."""
@overload
def unique_all(x: Value, /) -> tuple[Value, Any, Any, Any]: ...
@overload
def unique_all(x: Operand, /) -> Any: ...
@overload
def unique_counts(x: NDArray[Any], /) -> Any:
    """The different elements, sorted, and how often each occurs."""
@overload
def unique_counts(x: Value, /) -> tuple[Value, Any]: ...
@overload
def unique_counts(x: Operand, /) -> Any: ...
@overload
def unique_inverse(x: NDArray[Any], /) -> Any:
    """The different elements, sorted, and for each element the index of its equal."""
@overload
def unique_inverse(x: Value, /) -> tuple[Value, Any]: ...
@overload
def unique_inverse(x: Operand, /) -> Any: ...
@overload
def unique_values(x: NDArray[Any], /) -> NDArray[Any]:
    """The different elements, in the order in which NumPy finds them."""
@overload
def unique_values(x: Value, /) -> Value: ...
@overload
def unique_values(x: Operand, /) -> Any: ...
@overload
def unstack(x: NDArray[Any], *, axis: int = 0) -> Any:
    """The slices of an array along an axis."""
@overload
def unstack(x: Value, *, axis: int = 0) -> tuple[Value, ...]: ...
@overload
def unstack(x: Operand, *, axis: int = 0) -> Any: ...
@overload
def unwrap(p: NDArray[Any], discont: PlainArray | None = None, axis: int = -1, *, period: float = 6.283185307179586) -> NDArray[Any]:
    """The array with whole periods added where neighbours jump by more than half of one."""
@overload
def unwrap(p: Value, discont: Operand | None = None, axis: int = -1, *, period: float = 6.283185307179586) -> Value: ...
@overload
def unwrap(p: Operand, discont: Operand | None = None, axis: int = -1, *, period: float = 6.283185307179586) -> Any: ...
def vander(x: Operand, N: int | None = None, increasing: bool = False) -> Any:
    """The powers of a row as columns of a matrix."""
@overload
def var(a: NDArray[Any], axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None, *, ddof: float = 0, keepdims: bool = False, where: Any = True, mean: PlainArray | None = None, correction: float | None = None) -> Any:
    """Variance along axes, or of everything."""
@overload
def var(a: Value, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None, *, ddof: float = 0, keepdims: bool = False, where: Any = True, mean: Operand | None = None, correction: float | None = None) -> Value: ...
@overload
def var(a: Operand, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None, *, ddof: float = 0, keepdims: bool = False, where: Any = True, mean: Operand | None = None, correction: float | None = None) -> Any: ...
@overload
def vdot(a: NDArray[Any], b: PlainArray, /) -> Any:
    """Sum of the products of all elements, the first ones conjugated."""
@overload
def vdot(a: Value, b: Operand, /) -> Value: ...
@overload
def vdot(a: Operand, b: Value, /) -> Value: ...
@overload
def vdot(a: Operand, b: Operand, /) -> Any: ...
@overload
def vecdot(x1: NDArray[Any], x2: PlainArray, /, *, axis: int = -1) -> Any:
    """Products of vectors along an axis, the first ones conjugated."""
@overload
def vecdot(x1: Value, x2: Operand, /, *, axis: int = -1) -> Value: ...
@overload
def vecdot(x1: Operand, x2: Value, /, *, axis: int = -1) -> Value: ...
@overload
def vecdot(x1: Operand, x2: Operand, /, *, axis: int = -1) -> Any: ...
@overload
def vecmat(x1: NDArray[Any], x2: PlainArray, /) -> NDArray[Any]:
    """Products of vectors, conjugated, and matrices."""
@overload
def vecmat(x1: Value, x2: Operand, /) -> Value: ...
@overload
def vecmat(x1: Operand, x2: Value, /) -> Value: ...
@overload
def vecmat(x1: Operand, x2: Operand, /) -> Any: ...
@overload
def vector_norm(x: NDArray[Any], /, *, axis: int | Sequence[int] | None = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """Length of vectors, along one axis or several."""
@overload
def vector_norm(x: Value, /, *, axis: int | Sequence[int] | None = None, keepdims: bool = False, ord: Any = 2) -> Value: ...
@overload
def vector_norm(x: Operand, /, *, axis: int | Sequence[int] | None = None, keepdims: bool = False, ord: Any = 2) -> Any: ...
@overload
def vsplit(x: NDArray[Any], indices_or_sections: Any) -> Any:
    """An array cut along its first axis."""
@overload
def vsplit(x: Value, indices_or_sections: Any) -> list[Value]: ...
@overload
def vsplit(x: Operand, indices_or_sections: Any) -> Any: ...
@overload
def vstack(xs: NDArray[Any] | Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Arrays joined below each other; a row is a matrix of one row."""
@overload
def vstack(xs: Value | Sequence[Value]) -> Value: ...
@overload
def vstack(xs: Operand) -> Any: ...
@overload
def welch(x: NDArray[Any], fs: PlainArray = 1.0, window: PlainArray | str = 'hann', nperseg: Any = None, noverlap: Any = None, nfft: Any = None, detrend: Any = 'constant', return_onesided: bool = True, scaling: str = 'density', axis: int = -1, average: str = 'mean') -> Any:
    """Frequencies and the power spectrum of a real signal, averaged over segments that overlap."""
@overload
def welch(x: Value, fs: Operand = 1.0, window: Operand | str = 'hann', nperseg: Any = None, noverlap: Any = None, nfft: Any = None, detrend: Any = 'constant', return_onesided: bool = True, scaling: str = 'density', axis: int = -1, average: str = 'mean') -> tuple[Any, Value]: ...
@overload
def welch(x: Operand, fs: Operand = 1.0, window: Operand | str = 'hann', nperseg: Any = None, noverlap: Any = None, nfft: Any = None, detrend: Any = 'constant', return_onesided: bool = True, scaling: str = 'density', axis: int = -1, average: str = 'mean') -> Any: ...
@overload
def where(condition: Any, a: Value, b: Operand | None = None) -> Value:
    """Elements of one array where a condition holds, of another elsewhere; with the condition alone its indices."""
@overload
def where(condition: Any, a: Operand | None, b: Value) -> Value: ...
@overload
def where(condition: Any, a: Operand | None = None, b: Operand | None = None) -> Any: ...
@overload
def xlog1py(a: float, b: float, /) -> float:
    """a log(1 + b), and 0 where a = 0."""
@overload
def xlog1py(a: Value, b: Operand, /) -> Value: ...
@overload
def xlog1py(a: Operand, b: Value, /) -> Value: ...
@overload
def xlog1py(a: NDArray[Any], b: PlainArray, /) -> NDArray[Any]: ...
@overload
def xlog1py(a: PlainArray, b: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def xlog1py(a: Operand, b: Operand, /) -> Any: ...
@overload
def xlogy(a: float, b: float, /) -> float:
    """a log(b), and 0 where a = 0."""
@overload
def xlogy(a: Value, b: Operand, /) -> Value: ...
@overload
def xlogy(a: Operand, b: Value, /) -> Value: ...
@overload
def xlogy(a: NDArray[Any], b: PlainArray, /) -> NDArray[Any]: ...
@overload
def xlogy(a: PlainArray, b: NDArray[Any], /) -> NDArray[Any]: ...
@overload
def xlogy(a: Operand, b: Operand, /) -> Any: ...
@overload
def y0(x: NDArray[Any]) -> NDArray[Any]:
    """Bessel function of the second kind, of order 0."""
@overload
def y0(x: Value) -> Value: ...
@overload
def y0(x: Operand) -> Any: ...
@overload
def y1(x: NDArray[Any]) -> NDArray[Any]:
    """Bessel function of the second kind, of order 1."""
@overload
def y1(x: Value) -> Value: ...
@overload
def y1(x: Operand) -> Any: ...
@overload
def yv(v: Any, z: NDArray[Any]) -> NDArray[Any]:
    """Bessel function of the second kind, of a whole order n."""
@overload
def yv(v: Any, z: Value) -> Value: ...
@overload
def yv(v: Any, z: Operand) -> Any: ...
def zeros_like(x: Operand, dtype: DTypeLike | None = None, order: Any = 'K', subok: bool = True, shape: int | Sequence[int] | None = None) -> Any:
    """Zeros of the same shape and dtype."""
