"""Options of NumPy's functions on arrays, and the calls that NumPy refuses too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special

import wiregrad as wg
from wiregrad.errors import AxisError, EscapeError, IndexingError

from ..support.call_checks import AcceptedCall, RefusedCall, check_call, check_same_refusal
from ..support.refusals import check_refusal

ROW = np.array([0.4, -1.2, 0.9, 1.7, -0.3])
MATRIX = np.array([[0.4, -1.2, 0.9], [1.7, -0.3, 2.1]])
CUBE = np.arange(1.0, 13.0).reshape(2, 2, 3)
MASK = np.array([[True, False, True], [True, True, False]])
HOLES = np.array([[0.4, np.nan, 0.9], [1.7, -0.3, 2.1]])

ACCEPTED: dict[str, AcceptedCall] = {
    "reshape by keyword": (lambda x: np.reshape(x, shape=(3, 2)), MATRIX),
    "reshape in Fortran's order": (lambda x: np.reshape(x, (3, 2), "F"), MATRIX),
    "the method reshape in Fortran's order": (lambda x: x.reshape((3, 2), order="F"), MATRIX),
    "concatenate to a wider dtype": (lambda x: np.concatenate([x, x], dtype=np.complex128).real, ROW),
    "pad by a dictionary": (lambda x: np.pad(x, {-1: (1, 2)}), MATRIX),
    "pad by a dictionary of numbers": (lambda x: np.pad(x, {0: 1}, mode="edge"), MATRIX),
    "an empty list as index": (lambda x: x[:, []], MATRIX),
    "nan_to_num of complex numbers": (lambda x: np.nan_to_num(x * (1.0 + 2.0j)).imag, ROW),
    "no columns of powers": (lambda x: np.vander(x, 0), ROW),
    "like a recorded array": (lambda x: np.full_like(x, 2.0) * x, ROW),
    "a recorded number everywhere": (lambda x: np.full_like(MATRIX, x), 0.7),
    "a recorded number in another shape": (lambda x: np.full_like(MATRIX, x, shape=(2, 2)), 0.7),
    "a piece where no element is": (lambda x: np.piecewise(x, [x > 9.0, x < 0.5], [np.exp, np.sin, np.cos]), ROW),
    "mean of some": (lambda x: np.mean(x, 1, where=MASK), MATRIX),
    "median unbiased quantile": (lambda x: np.quantile(x, [0.3, 0.6], method="median_unbiased"), ROW),
    "averaged quantile": (lambda x: np.quantile(x, [0.2, 0.4], method="averaged_inverted_cdf"), ROW),
    "inverted quantile": (lambda x: np.quantile(x, [0.3, 0.7], method="inverted_cdf"), ROW),
    "count as norm": (lambda x: np.linalg.norm(x, 0) + x[0], ROW),
    "correlation with itself": (np.corrcoef, ROW),
    "variance of some, without NaN": (lambda x: np.nanvar(x + HOLES, 1, where=MASK), MATRIX),
    "no elements have no median": (lambda x: np.nan_to_num(np.nanmedian(x[:, :0], 1), nan=3.0) * x[:, 0], MATRIX),
    "nothing but zeros": (lambda x: np.sum(np.trim_zeros(x * 0.0)) + x, ROW),
    "zeros in front": (lambda x: np.trim_zeros(np.concatenate([[0.0], x, [0.0]]), "f"), ROW),
    "a view of the same dtype": (lambda x: x.view(np.float64) * x, ROW),
    "slopes in half steps of an integer grid": (lambda x: np.gradient(x, np.array([0, 1, 3, 4, 7])), ROW),
}


@pytest.mark.parametrize("name", ACCEPTED)
@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore:invalid value")
def test_options_have_numpys_values_and_the_gradient_of_differences(name: str) -> None:
    check_call(*ACCEPTED[name])


REFUSED: dict[str, RefusedCall] = {
    "a recorded index of floats": (lambda x: x[x], ROW, IndexError, "must be of integer (or boolean) type"),
    "slice from a half": (lambda x: x[0.5:], ROW, TypeError, "slice indices must be integers or None"),
    "sum along one axis twice": (lambda x: np.sum(x, (0, 0)), MATRIX, ValueError, "duplicate value in 'axis'"),
    "take with an unknown mode": (lambda x: np.take(x, [0], mode="odd"), ROW, ValueError, "clipmode must be one of"),
    "take along by floats": (
        lambda x: np.take_along_axis(x, np.array([0.0]), 0),
        ROW,
        IndexError,
        "`indices` must be an integer array",
    ),
    "take along by fewer axes": (
        lambda x: np.take_along_axis(x, np.array([0]), 0),
        MATRIX,
        ValueError,
        "must have the same number of dimensions",
    ),
    "compress by a matrix": (lambda x: np.compress(MASK, x), MATRIX, ValueError, "condition must be a 1-d array"),
    "order of elements": (lambda x: np.ravel(x, "X"), MATRIX, ValueError, "order must be one of"),
    "concatenate to integers": (
        lambda x: np.concatenate([x, x], dtype=np.int64),
        ROW,
        TypeError,
        "Cannot cast array data from float64 to int64",
    ),
    "stack of two shapes": (lambda x: np.stack([x, x[:2]]), ROW, ValueError, "must have the same shape"),
    "block with an empty list": (lambda x: np.block([[x], []]), ROW, ValueError, "List at arrays"),
    "block of two depths": (lambda x: np.block([[x], x]), ROW, ValueError, "List depths are mismatched"),
    "split into 0 parts": (lambda x: np.array_split(x, 0), ROW, ValueError, "must be larger than 0"),
    "split into unequal parts": (lambda x: np.split(x, 2), ROW, ValueError, "does not result in an equal division"),
    "vsplit of a row": (lambda x: np.vsplit(x, 1), ROW, ValueError, "only works on arrays of 2 or more dimensions"),
    "dsplit of a matrix": (lambda x: np.dsplit(x, 1), MATRIX, ValueError, "only works on arrays of 3 or more"),
    "fliplr of a row": (np.fliplr, ROW, ValueError, "Input must be >= 2-d."),
    "flipud of a number": (np.flipud, np.float64(1.0), ValueError, "Input must be >= 1-d."),
    "roll by a matrix": (lambda x: np.roll(x, [[1]], (0,)), ROW, ValueError, "should be scalars or 1D sequences"),
    "pad by half": (lambda x: np.pad(x, 0.5), ROW, TypeError, "`pad_width` must be of integral type."),
    "pad by less than 0": (lambda x: np.pad(x, -1), ROW, ValueError, "can't contain negative values"),
    "diagonal of a cube": (np.diag, CUBE, ValueError, "Input must be 1- or 2-d."),
    "where with one choice": (lambda x: np.where(x > 0.0, x), ROW, ValueError, "either both or neither"),
    "select with fewer choices": (
        lambda x: np.select([ROW > 0.0], [x, x]),
        ROW,
        ValueError,
        "list of cases must be same length",
    ),
    "select by numbers": (
        lambda x: np.select([np.ones(5)], [x]),
        ROW,
        TypeError,
        "invalid entry 0 in condlist",
    ),
    "cast by an unsafe rule": (
        lambda x: x.astype(np.int64, casting="safe"),
        ROW,
        TypeError,
        "Cannot cast array data from float64 to int64",
    ),
    "fabs of complex numbers": (np.fabs, ROW * 1j, TypeError, "fabs takes real numbers"),
    "long doubles in interp": (
        lambda x: np.interp(x, ROW.astype(np.longdouble), ROW.astype(np.longdouble)),
        ROW.astype(np.longdouble),
        TypeError,
        "cannot hold long doubles",
    ),
    "powers of a matrix": (np.vander, MATRIX, ValueError, "must be a one-dimensional array"),
    "interpolation in a matrix": (lambda x: np.interp(x, MATRIX, MATRIX), ROW, ValueError, "object too deep"),
    "fewer heights": (lambda x: np.interp(x, [0.0, 1.0], [1.0]), ROW, ValueError, "not of the same length"),
    "no points": (lambda x: np.interp(x, [], []), ROW, ValueError, "array of sample points is empty"),
    "period 0": (
        lambda x: np.interp(x, [0.0, 1.0], [1.0, 2.0], period=0.0),
        ROW,
        ValueError,
        "period must be a non-zero value",
    ),
    "periodic interpolation in a matrix": (
        lambda x: np.interp(x, MATRIX, MATRIX, period=1.0),
        ROW,
        ValueError,
        "Data points must be 1-D sequences",
    ),
    "fewer periodic heights": (
        lambda x: np.interp(x, [0.0, 1.0], [1.0], period=1.0),
        ROW,
        ValueError,
        "fp and xp are not of the same length",
    ),
    "fewer functions than pieces": (
        lambda x: np.piecewise(x, [x > 0.0, x < 0.0], [np.sin]),
        ROW,
        ValueError,
        "2 or 3 functions are expected",
    ),
    "mask of numbers": (lambda x: np.sum(x, where=np.ones(5)), ROW, TypeError, "where= is a mask of bools"),
    "reduceat behind the end": (
        lambda x: np.add.reduceat(x, [0, 9]),
        ROW,
        IndexError,
        "not in the range from 0 to 4; got [0, 9]",
    ),
    "quantile above 1": (lambda x: np.quantile(x, 1.5), ROW, ValueError, "Quantiles must be in the range [0, 1]"),
    "percentile above 100": (lambda x: np.percentile(x, 101), ROW, ValueError, "must be in the range [0, 100]"),
    "nanquantile above 1": (lambda x: np.nanquantile(x, 1.5), ROW, ValueError, "must be in the range [0, 1]"),
    "nanpercentile above 100": (lambda x: np.nanpercentile(x, 101), ROW, ValueError, "in the range [0, 100]"),
    "weights for an unnamed axis": (
        lambda x: np.average(x, weights=[1.0, 2.0]),
        MATRIX,
        TypeError,
        "Axis must be specified",
    ),
    "weights that do not fit": (
        lambda x: np.average(x, 1, weights=[1.0, 2.0]),
        MATRIX,
        ValueError,
        "Shape of weights must be consistent",
    ),
    "weights that cancel": (
        lambda x: np.average(x, weights=[1.0, -1.0, 1.0, -1.0, 0.0]),
        ROW,
        ZeroDivisionError,
        "Weights sum to zero",
    ),
    "covariance of a cube": (np.cov, CUBE, ValueError, "more than 2 dimensions"),
    "negative weights": (
        lambda x: np.cov(x, aweights=[1.0, 1.0, 1.0, 1.0, -1.0]),
        ROW,
        ValueError,
        "negative",
    ),
    "vector norm by a word": (lambda x: np.linalg.norm(x, "fro"), ROW, ValueError, "Invalid norm order 'fro'"),
    "matrix norm of order 3": (lambda x: np.linalg.norm(x, 3), MATRIX, ValueError, "Invalid norm order for matrices."),
    "norm of a cube": (lambda x: np.linalg.norm(x, 1), CUBE, ValueError, "Improper number of dimensions to norm."),
    "norm along one axis twice": (lambda x: np.linalg.norm(x, axis=(1, 1)), MATRIX, ValueError, "Duplicate axes"),
    "differences of order -1": (lambda x: np.diff(x, -1), ROW, ValueError, "order must be non-negative"),
    "differences of a number": (np.diff, np.float64(1.0), ValueError, "at least one dimensional"),
    "distances in a matrix": (lambda x: np.gradient(x, MATRIX), ROW, ValueError, "must be either scalars or 1d"),
    "fewer distances": (lambda x: np.gradient(x, [0.0, 1.0]), ROW, ValueError, "distances must match the length"),
    "slopes of one element": (np.gradient, ROW[:1], ValueError, "Shape of array too small"),
    "slopes of order 3": (lambda x: np.gradient(x, edge_order=3), ROW, ValueError, "greater than 2 not supported"),
    "weights of other length": (
        lambda x: np.bincount(np.array([0, 1]), x),
        ROW,
        ValueError,
        "don't have the same length",
    ),
    "edges up and down": (lambda x: np.digitize(x, [0.0, 2.0, 1.0]), ROW, ValueError, "monotonically"),
    "histogram weights of another shape": (
        lambda x: np.histogram(ROW, weights=x),
        ROW[:2],
        ValueError,
        "weights should have the same shape as a.",
    ),
    "trim with an unknown letter": (lambda x: np.trim_zeros(x, "x"), ROW, ValueError, "unexpected character(s)"),
    "resize to a negative length": (lambda x: np.resize(x, (-1,)), ROW, ValueError, "must be non-negative"),
    "running sum of a matrix": (np.cumulative_sum, MATRIX, ValueError, "``axis`` argument is required"),
    "choice behind the end": (lambda x: np.choose([0, 3], [x, x]), ROW[:2], ValueError, "invalid entry in choice"),
    "exponents that are not whole": (lambda x: np.ldexp(x, np.array(0.5)), ROW, TypeError, "takes whole numbers"),
    "all-NaN slice": (
        np.nanargmax,
        np.full(3, np.nan),
        ValueError,
        "All-NaN slice encountered",
    ),
}
WITHOUT_RULE: dict[str, RefusedCall] = {
    "order of a field": (lambda x: np.argsort(x, order="a"), ROW, TypeError, "does not support order="),
    "reflected differences": (
        lambda x: np.pad(x, 1, "reflect", reflect_type="odd"),
        ROW,
        TypeError,
        "no rule for 'reflect' with reflect_type='odd'",
    ),
    "rows without zeros": (np.trim_zeros, MATRIX, TypeError, "trim_zeros takes a row here; got the shape (2, 3)"),
    "different rows": (lambda x: np.unique(x, axis=0), MATRIX, TypeError, "unique takes no axis= here"),
    "complex numbers among real ones": (
        lambda x: np.insert(x, 0, 1.0 + 1.0j),
        ROW,
        TypeError,
        "values of dtype complex128 cannot be put into an array of dtype float64",
    ),
    "two dtypes of a view": (
        lambda x: x.view(np.float64, dtype=np.float64),
        ROW,
        TypeError,
        "view takes one dtype, or the lengths of a shape",
    ),
    "a list of numbers": (lambda x: x.tolist(), ROW, EscapeError, "use v.data.tolist()"),
    "words among numbers": (lambda x: wg.array([x, "word"]), 1.0, TypeError, "made of numbers; got str"),
    "complex ends": (lambda x: np.geomspace(x, 1.0 + 1.0j), 1.0, TypeError, "geomspace of recorded values needs real"),
    "ends of two signs": (
        lambda x: np.geomspace(x, -1.0),
        1.0,
        ValueError,
        "needs two positive or two negative ends",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_calls_that_numpy_refuses_are_refused(name: str) -> None:
    check_same_refusal(*REFUSED[name])


ALONG_AXIS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda x, axis: np.sum(x, axis=axis),
    "method sum": lambda x, axis: x.sum(axis=axis),
    "mean": lambda x, axis: np.mean(x, axis=axis),
    "var": lambda x, axis: np.var(x, axis=axis),
    "max": lambda x, axis: np.max(x, axis=axis),
    "argmax": lambda x, axis: np.argmax(x, axis=axis),
    "cumsum": lambda x, axis: np.cumsum(x, axis=axis),
    "sort": lambda x, axis: np.sort(x, axis=axis),
    "median": lambda x, axis: np.median(x, axis=axis),
    "concatenate": lambda x, axis: np.concatenate([x, x], axis=axis),
    "stack": lambda x, axis: np.stack([x, x], axis=axis),
    "expand_dims": np.expand_dims,
    "squeeze": lambda x, axis: np.squeeze(x, axis=axis),
    "moveaxis": lambda x, axis: np.moveaxis(x, axis, 0),
    "transpose": lambda x, axis: np.transpose(x, (0, axis)),
    "flip": np.flip,
    "roll": lambda x, axis: np.roll(x, 1, axis=axis),
    "take": lambda x, axis: np.take(x, [0], axis=axis),
    "take_along_axis": lambda x, axis: np.take_along_axis(x, np.zeros((2, 3), int), axis=axis),
    "diff": lambda x, axis: np.diff(x, axis=axis),
    "gradient": lambda x, axis: np.gradient(x, axis=axis),
    "add.reduce": lambda x, axis: np.add.reduce(x, axis=axis),
}


@pytest.mark.parametrize("kind", [np.exceptions.AxisError, ValueError, IndexError, AxisError, IndexingError])
@pytest.mark.parametrize("name", ALONG_AXIS)
def test_an_axis_that_an_array_lacks_is_every_error_that_numpys_is(name: str, kind: type[Exception]) -> None:
    for x in (wg.Value(MATRIX), wg.Value(MATRIX) * 2.0):
        with pytest.raises(kind, match="axis 5 is out of bounds"):
            ALONG_AXIS[name](x, 5)
    with pytest.raises(kind, match="axis 5 is out of bounds"):
        wg.grad(lambda x: np.sum(ALONG_AXIS[name](x, 5)))(MATRIX)


def test_an_index_out_of_range_is_no_value_error() -> None:
    with pytest.raises(IndexingError) as caught:
        wg.Value(MATRIX)[7]

    assert not isinstance(caught.value, ValueError)


WITH_WHOLE_NUMBER: dict[str, Callable[[Any, Any], Any]] = {
    **{name: call for name, call in ALONG_AXIS.items() if name != "gradient"},
    "round": np.round,
    "tile": np.tile,
    "fft n": np.fft.fft,
    "fft axis": lambda x, n: np.fft.fft(x, axis=n),
    "tensordot": lambda x, n: np.tensordot(x, x.T, axes=n),
    "split": lambda x, n: np.split(x, [n], axis=1),
    "nansum": lambda x, n: np.nansum(x, axis=n),
    "average": lambda x, n: np.average(x, axis=n),
    "quantile": lambda x, n: np.quantile(x, 0.5, axis=n),
}


@pytest.mark.parametrize("name", WITH_WHOLE_NUMBER)
def test_a_fraction_is_never_cut_to_a_whole_number(name: str) -> None:
    with pytest.raises(TypeError):
        WITH_WHOLE_NUMBER[name](MATRIX, 1.5)
    with pytest.raises(TypeError, match=r"integer|iterable|whole number"):
        WITH_WHOLE_NUMBER[name](wg.Value(MATRIX), 1.5)


ODD_AXES: dict[str, Any] = {
    "True": True,
    "False": False,
    "NumPy's True": np.True_,
    "a list": [1],
    "a list of two": [0, 1],
    "an empty list": [],
    "a tuple": (1,),
    "a tuple of True": (True,),
    "a tuple of a float": (1.0,),
    "a float": 1.0,
    "a word": "1",
    "a number of NumPy": np.int64(1),
    "an array without axes": np.array(1),
    "an array of one": np.array([1]),
    "an array of a float": np.array(1.0),
}
WITH_AXIS: dict[str, Callable[[Any, Any], Any]] = {
    **{name: call for name, call in WITH_WHOLE_NUMBER.items() if name not in ("round", "tile", "fft n", "split")},
    "min": lambda x, axis: np.min(x, axis=axis),
    "prod": lambda x, axis: np.prod(x, axis=axis),
    "std": lambda x, axis: np.std(x, axis=axis),
    "ptp": lambda x, axis: np.ptp(x, axis=axis),
    "all": lambda x, axis: np.all(x, axis=axis),
    "count_nonzero": lambda x, axis: np.count_nonzero(x, axis=axis),
    "nanmean": lambda x, axis: np.nanmean(x, axis=axis),
    "nanmax": lambda x, axis: np.nanmax(x, axis=axis),
    "nanmedian": lambda x, axis: np.nanmedian(x, axis=axis),
    "nanquantile": lambda x, axis: np.nanquantile(x, 0.3, axis=axis),
    "cumprod": lambda x, axis: np.cumprod(x, axis=axis),
    "argsort": lambda x, axis: np.argsort(x, axis=axis),
    "repeat": lambda x, axis: np.repeat(x, 2, axis=axis),
    "append": lambda x, axis: np.append(x, x, axis=axis),
    "array_split": lambda x, axis: np.array_split(x, 2, axis=axis)[0],
    "swapaxes": lambda x, axis: np.swapaxes(x, axis, 0),
    "norm": lambda x, axis: np.linalg.norm(x, axis=axis),
    "trapezoid": lambda x, axis: np.trapezoid(x, axis=axis),
    "apply_along_axis": lambda x, axis: np.apply_along_axis(np.sum, axis, x),
    "add.accumulate": lambda x, axis: np.add.accumulate(x, axis=axis),
    "method max": lambda x, axis: x.max(axis=axis),
    "linspace": lambda x, axis: np.linspace(x, 2.0 * x, 3, axis=axis),
    "logsumexp": lambda x, axis: scipy.special.logsumexp(x, axis=axis),
    "softmax": lambda x, axis: scipy.special.softmax(x, axis=axis),
}


def call_along(name: str, x: Any, axis: Any) -> Any:
    """Return the result, or the error."""
    try:
        return getattr(WITH_AXIS[name](x, axis), "data", None) if isinstance(x, wg.Value) else WITH_AXIS[name](x, axis)
    except (TypeError, ValueError) as error:
        return error


@pytest.mark.parametrize("axis", ODD_AXES.values(), ids=ODD_AXES)
@pytest.mark.parametrize("name", WITH_AXIS)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_an_odd_axis_has_numpys_answer_or_a_type_error(name: str, axis: Any) -> None:
    """A call with axis 1 goes before, since plans and ops that are kept must not answer for 1.0 and True."""
    matrix = np.array([[0.4], [1.7]]) if name == "squeeze" else MATRIX
    call_along(name, wg.Value(matrix), 1)
    expected = call_along(name, matrix, axis)
    got = call_along(name, wg.Value(matrix), axis)

    if isinstance(expected, Exception):
        assert isinstance(got, TypeError | ValueError)
    elif isinstance(got, Exception):
        assert isinstance(got, TypeError)
        assert "an axis is a whole number" in str(got)
    else:
        np.testing.assert_allclose(got, expected)


@pytest.mark.parametrize("name", ["sum", "max", "nanmean", "method sum", "logsumexp"])
def test_a_list_of_axes_is_answered_with_the_tuple_to_write(name: str) -> None:
    with pytest.raises(TypeError, match=r"several axes are a tuple; write \(0, 1\), not \[0, 1\]"):
        WITH_AXIS[name](wg.Value(MATRIX), [0, 1])


EMPTY_CALLS: dict[str, tuple[Callable[[], Any], str]] = {
    "select": (lambda: wg.select([], []), "select with an empty condition list is not possible"),
    "concatenate": (lambda: wg.concatenate([]), "need at least one array to concatenate"),
    "stack": (lambda: wg.stack([]), "need at least one array to stack"),
    "einsum": (wg.einsum, "at least one operand"),
    "multi_dot": (lambda: wg.multi_dot([ROW]), "Expecting at least two arrays."),
}


@pytest.mark.parametrize("name", EMPTY_CALLS)
def test_calls_without_arrays_are_refused(name: str) -> None:
    check_refusal(EMPTY_CALLS[name][0], ValueError, EMPTY_CALLS[name][1])


@pytest.mark.parametrize("name", WITHOUT_RULE)
def test_calls_without_a_rule_say_what_to_write(name: str) -> None:
    call, x, kind, words = WITHOUT_RULE[name]

    check_refusal(lambda: call(wg.Value(x)), kind, words)


def test_slopes_of_single_precision_stay_single_whatever_the_distances() -> None:
    places = np.array([0.0, 0.5, 1.2, 2.0, 2.3])
    got = np.gradient(wg.Value(ROW.astype(np.float32)), places)
    wanted = np.gradient(ROW.astype(np.float32), places)

    assert got.dtype == wanted.dtype == np.float32
    np.testing.assert_allclose(got.data, wanted, rtol=1e-6)


TRACED: dict[str, Callable[[Any], Any]] = {
    "mean of some truths": lambda x: np.mean(x > 0.0, 1, where=MASK) * x[:, 0],
    "truths without NaN": lambda x: np.nan_to_num(x > 0.0) * x,
    "place of a truth": lambda x: np.take(x, np.nanargmax(x > 0.5)),
    "least squares": lambda x: np.linalg.lstsq(x, x[:, 0], rcond=None)[0],
    "entropy of the largest": lambda x: wg.cross_entropy(x, np.argmax(x, 1)),
}


@pytest.mark.parametrize("name", TRACED)
def test_a_traced_call_has_numpys_value_at_other_numbers(name: str) -> None:
    circuit = wg.trace(TRACED[name], MATRIX)
    other = -MATRIX[::-1] * 0.5

    np.testing.assert_allclose(circuit({circuit.inputs[0]: other}), TRACED[name](other), rtol=1e-12)
