"""What the errors of SciPy's functions without a rule advise: each piece of advice is carried out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.integrate
import scipy.interpolate
import scipy.linalg
import scipy.ndimage
import scipy.signal
import scipy.spatial
import scipy.special
import scipy.stats
from numpy.testing import assert_allclose

import wiregrad as wg
from wiregrad.errors import EscapeError, NoRuleError
from wiregrad.frontends.recording.hints import describe_missing_function
from wiregrad.ir import TABLE
from wiregrad.ops.functions.registry import SCIPY_SLOPES, SCIPY_SPELLINGS

NAMES: dict[str, Any] = {
    "np": np,
    "scipy": scipy,
    "wg": wg,
    **{"n": 3, "k": 2, "m": 0.3, "s": 4.0, "p": 0.4, "v": 3.0, "a": 1.5, "b": 2.5, "kappa": 1.7, "loc": 0.2},
    **{"f0": 1.0, "f1": 2.0, "t1": 1.0, "low": 0.25, "high": 1.0, "e": np.array([0.1, 0.2, 0.3, 0.4, 0.5])},
    **{"points": np.linspace(0.0, 1.0, 6), "at": 0.33, "y": np.array([0.3, 0.1, 0.5, 0.2, 0.9, 0.4])},
    **{"t": np.linspace(-0.5, 1.5, 9), "grid": (np.linspace(0.0, 1.0, 6),)},
    **{"sos": scipy.signal.butter(1, 0.3, output="sos"), "up": 2, "down": 1, "lam": 0.1},
    **{"labels": np.array([1, 1, 2, 2, 3, 3]), "index": [1, 2, 3], "others": np.array([0.1, 0.5]), "scale": 1.0},
}
X = np.array([0.31, 0.72, 0.83, 0.94, 0.45, 0.66])
CALLS: dict[str, str] = {
    **dict.fromkeys("rgamma exprel cosm1 cosdg sindg tandg cotdg".split(), "{name}(x)"),
    "radian": "{name}(x, m, s)",
    "diric": "{name}(x, n)",
    "perm": "{name}(x + 3.0, k)",
    "poch": "{name}(x, m)",
    **dict.fromkeys(
        "eval_legendre eval_chebyt eval_chebyu eval_hermite eval_hermitenorm eval_laguerre".split(), "{name}(n, x)"
    ),
    **dict.fromkeys("boxcox boxcox1p inv_boxcox inv_boxcox1p".split(), "{name}(x, p)"),
    **dict.fromkeys(["chdtr", "chdtrc"], "{name}(v, x)"),
    **dict.fromkeys(["gdtr", "gdtrc", "fdtr"], "{name}(a, b, x)"),
    "pdtr": "{name}(k, x)",
    "chirp": "{name}(x, f0, t1, f1)",
    **dict.fromkeys(["sawtooth", "square"], "{name}(x)"),
    **dict.fromkeys("medfilt median_filter maximum_filter minimum_filter".split(), "{name}(x, n)"),
    **dict.fromkeys(["grey_dilation", "grey_erosion"], "{name}(x, n)"),
    "companion": "{name}(x)",
    "resample_poly": "{name}(x, up, down)",
    "ttest_ind": "{name}(x, y).statistic",
    "yeojohnson": "{name}(x, p)",
    "eigvalsh_tridiagonal": "{name}(x, e)",
    **dict.fromkeys(["maximum", "minimum"], "{name}(x, labels, index)"),
    "InterpolatedUnivariateSpline": "{name}(points, x)(at)",
    "splrep": "scipy.interpolate.splev(at, {name}(points, x))",
    "KroghInterpolator": "{name}(points, x)(at)",
    "pearsonr": "{name}(x, y)[0]",
    "moment": "{name}(x, k)",
    "iqr": "{name}(x)",
    "variation": "{name}(x)",
    "ttest_1samp": "{name}(x, m).statistic",
    "tmean": "{name}(x, (low, high))",
    "circvar": "{name}(x)",
    "isf": "{name}(x)",
    "entropy": "{name}(scale=x)",
    "logpmf": "{name}(k, x)",
}
"""How the functions are called, by the last part of their names."""
OTHER_CALLS = {
    "scipy.stats.invgamma.logpdf": "{name}(x, a)",
    "scipy.stats.skewnorm.logpdf": "{name}(x, a)",
    "scipy.stats.truncnorm.logpdf": "{name}(x, -1.5, b)",
    "scipy.stats.vonmises.logpdf": "{name}(x, kappa)",
    "scipy.interpolate.BSpline": "{name}(t, x, k)(at)",
    "scipy.interpolate.make_lsq_spline": "{name}(points, x, t, k)(at)",
    "scipy.interpolate.RegularGridInterpolator": "{name}(grid, x)([[at]])",
    "scipy.interpolate.interpn": "{name}(grid, x, [[at]])",
    "scipy.interpolate.griddata": "{name}(points, x, at)",
    "scipy.interpolate.RBFInterpolator": "{name}(points[:, None], x)([[at]])",
}
RENAMED: dict[str, dict[str, Any]] = {
    "scipy.special.perm": {"shift": 3.0},
    "scipy.stats.norm.entropy": {"scale_is_x": True},
    "scipy.stats.geom.logpmf": {"p_is_x": True},
    "scipy.stats.truncnorm.logpdf": {"a": -1.5},
    "scipy.interpolate.RegularGridInterpolator": {"at": [[0.33]]},
    "scipy.interpolate.interpn": {"at": [[0.33]]},
    "scipy.interpolate.RBFInterpolator": {"points": np.linspace(0.0, 1.0, 6)[:, None], "at": [[0.33]]},
}
"""What the names in the advice stand for, where it is not what they usually do."""
IN_WORDS = {
    "scipy.signal.savgol_filter",
    "scipy.signal.sosfilt",
    "scipy.signal.find_peaks",
    "scipy.signal.butter",
    "scipy.signal.lsim",
    "scipy.signal.decimate",
    "scipy.signal.sosfiltfilt",
    "scipy.interpolate.make_smoothing_spline",
    "scipy.integrate.solve_bvp",
    "scipy.integrate.tanhsinh",
    "scipy.interpolate.NearestNDInterpolator",
    "scipy.stats.binned_statistic",
    "scipy.signal.upfirdn",
    "scipy.linalg.eig",
    "scipy.linalg.eigvals",
    "scipy.linalg.eigh_tridiagonal",
    "scipy.interpolate.UnivariateSpline",
    "scipy.interpolate.Akima1DInterpolator",
    "scipy.interpolate.RectBivariateSpline",
    "scipy.signal.hilbert",
    "scipy.integrate.quad_vec",
    "scipy.integrate.cumulative_simpson",
    "scipy.stats.chisquare",
    "scipy.stats.boxcox",
    "scipy.stats.wasserstein_distance",
    "scipy.stats.gaussian_kde",
    "scipy.stats.norm.mean",
    "scipy.stats.beta.mean",
}
"""Advice that is no expression of x alone, or names another function of the same numbers."""


def make_function(text: str, *, matrix: bool = False, shift: float = 0.0, **renamed: Any) -> Callable[[Any], Any]:
    """Return the weighted sum of what an expression of x gives."""

    def f(x: Any) -> Any:
        own = {key: x if other is True else other for key, other in renamed.items()}
        argument = np.diag(x[:3]) + 0.1 if matrix else x + shift
        result = eval(text, NAMES | {"x": argument} | own)
        return np.sum(result * np.linspace(0.5, 1.5, np.size(result)).reshape(np.shape(result)))

    return f


def take_differences(f: Callable[[Any], Any]) -> Any:
    return np.array([(f(X + step) - f(X - step)) / 2e-6 for step in 1e-6 * np.eye(X.size)])


@pytest.mark.parametrize("name", [name for name in SCIPY_SPELLINGS if name not in IN_WORDS])
def test_what_is_advised_is_the_function_and_has_its_gradient(name: str) -> None:
    renamed = {key.removesuffix("_is_x"): other for key, other in RENAMED.get(name, {}).items()}
    call = (OTHER_CALLS.get(name) or CALLS[name.rpartition(".")[2]]).format(name=name)
    plain = make_function(call, matrix=renamed.get("matrix", False))
    advised = make_function(SCIPY_SPELLINGS[name], **renamed)

    with np.errstate(all="ignore"):
        assert_allclose(advised(X), plain(X), rtol=1e-6)
        assert_allclose(wg.grad(advised)(X), take_differences(plain), rtol=1e-5, atol=1e-6)
        with pytest.raises(NoRuleError) as refusal:
            wg.grad(plain)(X)
    assert SCIPY_SPELLINGS[name] in str(refusal.value)


@pytest.mark.parametrize("short", SCIPY_SLOPES)
def test_an_op_with_the_advised_slope_has_the_gradient(short: str) -> None:
    function = getattr(scipy.special, short)
    with pytest.raises(NoRuleError) as refusal:
        wg.grad(lambda x: np.sum(function(x)))(X)
    lines = str(refusal.value).split("\n")[1:4]
    namespace: dict[str, Any] = {"np": np, "scipy": scipy, "wg": wg}
    exec("\n".join(line.removeprefix("    ") for line in lines), namespace)
    wanted = take_differences(lambda x: np.sum(function(x) ** 2))
    try:
        slope = wg.grad(lambda x: np.sum(namespace[short](x) ** 2))(X)
    finally:
        TABLE.unregister(TABLE[short])

    assert_allclose(slope, wanted, rtol=1e-6)


def test_any_other_function_gets_a_class_to_fill_in() -> None:
    assert describe_missing_function("scipy.ndimage.spline_filter").split("\n")[1:] == [
        "    class SplineFilter(wg.Function):",
        "        def forward(ctx, x): return scipy.ndimage.spline_filter(x)",
        "        def backward(ctx, g): return ...  # g times the derivative by x",
    ]
    assert "return scipy.special.zetac(x)" in describe_missing_function("scipy.special.zetac")


def test_functions_that_are_advised_exist() -> None:
    for name in [*SCIPY_SPELLINGS, *(f"scipy.special.{short}" for short in SCIPY_SLOPES)]:
        home: Any = scipy
        for part in name.split(".")[1:]:
            home = getattr(home, part)

        assert callable(home), name


FOREIGN: dict[str, Callable[[Any], Any]] = {
    "splines of signals": scipy.signal.cspline1d,
    "analysis of variance": lambda x: scipy.stats.f_oneway(x[:3], x[3:]).statistic,
    "density": scipy.stats.gaussian_kde(X),
    "sparse eigenvalues": lambda x: scipy.sparse.linalg.eigsh(np.diag(x), 1)[0],
    "hull": lambda x: scipy.spatial.ConvexHull(np.reshape(x, (3, 2))).volume,
    "triangles": lambda x: scipy.spatial.Delaunay(np.reshape(x, (3, 2))).npoints,
    "nearest neighbours": lambda x: scipy.spatial.KDTree(np.reshape(x, (3, 2))).query([0.1, 0.2])[0],
    "rotation": lambda x: scipy.spatial.transform.Rotation.from_rotvec(x[:3]).as_matrix(),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_compiled_code_that_cannot_read_a_value_is_named(name: str) -> None:
    with pytest.raises(NoRuleError, match=r"has no rule.*(compute it from functions|write )"):
        wg.grad(lambda x: np.sum(FOREIGN[name](x)))(X)


@pytest.mark.parametrize("call", ["ConvexHull(x).volume", "Delaunay(x).npoints", "Voronoi(x).npoints"])
def test_compiled_code_that_is_called_by_code_without_a_source_is_refused_too(call: str) -> None:
    function = eval(f"lambda x: scipy.spatial.{call}", {"scipy": scipy})

    with pytest.raises(NoRuleError, match=r"what is called here has no rule: compute it from functions that have one"):
        wg.grad(function)(np.reshape(X, (3, 2)))


def test_code_without_a_source_may_ask_for_contiguous_memory() -> None:
    function = eval("lambda x: np.sum(np.ascontiguousarray(x) ** 2)", {"np": np})

    np.testing.assert_array_equal(wg.grad(function)(X), 2.0 * X)


def test_an_error_of_plain_data_stays_what_it_is() -> None:
    with pytest.raises(ValueError, match=r"inhomogeneous|sequence") as error:
        wg.grad(lambda x: np.sum(x) * scipy.interpolate.CubicSpline([0.0, [1.0], 2.0], [1.0, 2.0, 3.0])(0.5))(X)

    assert not isinstance(error.value, wg.WiregradError)


LONG = np.sin(np.arange(24.0)) + 0.1 * np.arange(24.0)
CORNERS = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.1, 1.2]])
LINE = np.arange(24.0)
SECTIONS = scipy.signal.butter(1, 0.3, output="sos")
TREE = scipy.spatial.KDTree(CORNERS)
GAUSS = scipy.interpolate.RBFInterpolator(CORNERS, np.arange(4.0), kernel="gaussian", epsilon=2.0, degree=-1)
ADVISED_CALLS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], str, Any]] = {
    "sosfiltfilt": (
        lambda x: scipy.signal.sosfiltfilt(SECTIONS, x),
        lambda x: scipy.signal.sosfiltfilt(SECTIONS, np.eye(len(x)), axis=0) @ x,
        "sosfiltfilt(sos, np.eye(len(x)), axis=0) @ x",
        LONG,
    ),
    "decimate": (
        lambda x: scipy.signal.decimate(x, 2, 3),
        lambda x: scipy.signal.decimate(np.eye(len(x)), 2, 3, axis=0) @ x,
        "decimate(np.eye(len(x)), n, axis=0) @ x",
        np.tile(LONG, 2),
    ),
    "find_peaks": (
        lambda x: x[scipy.signal.find_peaks(x)[0]],
        lambda x: x[scipy.signal.find_peaks(x if type(x) is np.ndarray else x.data)[0]],
        "find_peaks(x.data)[0]",
        LONG,
    ),
    "make_smoothing_spline": (
        lambda x: scipy.interpolate.make_smoothing_spline(LINE, x, lam=0.5)([0.5, 3.2]),
        lambda x: scipy.interpolate.make_smoothing_spline(LINE, np.eye(len(x)), lam=0.5)([0.5, 3.2]) @ x,
        "make_smoothing_spline(points, np.eye(len(x)), lam=lam)(at) @ x",
        LONG,
    ),
    "LinearNDInterpolator": (
        lambda x: scipy.interpolate.LinearNDInterpolator(CORNERS, x)([[0.3, 0.2]]),
        lambda x: scipy.interpolate.LinearNDInterpolator(CORNERS, np.eye(len(x)))([[0.3, 0.2]]) @ x,
        "LinearNDInterpolator(points, np.eye(len(x)))(at) @ x",
        LONG[:4],
    ),
    "NearestNDInterpolator": (
        lambda x: scipy.interpolate.NearestNDInterpolator(CORNERS, x)([[0.3, 0.9]]),
        lambda x: x[scipy.spatial.KDTree(CORNERS).query([[0.3, 0.9]])[1]],
        "x[scipy.spatial.KDTree(points).query(at)[1]]",
        LONG[:4],
    ),
    "RBFInterpolator at points": (
        lambda x: GAUSS(x.reshape(-1, 2)),
        lambda x: (
            np.exp(-((2.0 * scipy.spatial.distance.cdist(x.reshape(-1, 2), CORNERS)) ** 2))
            @ np.linalg.solve(np.exp(-((2.0 * scipy.spatial.distance.cdist(CORNERS, CORNERS)) ** 2)), np.arange(4.0))
        ),
        "kernel(scipy.spatial.distance.cdist(p, points)) @ np.linalg.solve(",
        np.array([0.3, 0.4, 0.9, 0.8]),
    ),
    "KDTree": (
        lambda x: TREE.query(x.reshape(-1, 2))[0],
        lambda x: np.linalg.norm(
            x.reshape(-1, 2) - CORNERS[TREE.query((x if type(x) is np.ndarray else x.data).reshape(-1, 2))[1]],
            axis=-1,
        ),
        "write i = tree.query(x.data)[1]",
        np.array([0.3, 0.4, 0.9, 0.8]),
    ),
    "Rotation.from_rotvec": (
        lambda x: scipy.spatial.transform.Rotation.from_rotvec(x).as_matrix() @ np.arange(3.0),
        lambda x: scipy.linalg.expm(np.cross(np.eye(3), x)) @ np.arange(3.0),
        "scipy.linalg.expm(np.cross(np.eye(3), x))",
        np.array([0.3, -0.4, 0.9]),
    ),
}


@pytest.mark.parametrize("name", ADVISED_CALLS)
def test_advice_for_compiled_code_has_its_value_and_its_gradient(name: str) -> None:
    plain, advised, advice, x = ADVISED_CALLS[name]
    weights = np.linspace(0.5, 1.5, np.size(plain(x)))

    def total(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda x: np.sum(weights * f(x).reshape(-1))

    slopes = [(total(plain)(x + h) - total(plain)(x - h)) / 2e-6 for h in 1e-6 * np.eye(x.size)]
    with pytest.raises((NoRuleError, EscapeError)) as refusal:
        wg.grad(total(plain))(x)
    assert advice in str(refusal.value)
    assert_allclose(advised(x), plain(x), rtol=1e-6, atol=1e-9)
    assert_allclose(wg.grad(total(advised))(x), slopes, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["iv", "jv", "kv", "yv"])
def test_a_bessel_function_of_a_broken_order_can_be_given_its_slope(name: str) -> None:
    function = getattr(scipy.special, name)
    with pytest.raises(NoRuleError, match=rf"^scipy\.special\.{name} has a rule for whole orders") as refusal:
        wg.grad(lambda x: np.sum(function(1.5, x)))(X)
    lines = str(refusal.value).split("\n")[1:4]
    namespace: dict[str, Any] = {"scipy": scipy, "wg": wg}
    exec("\n".join(line.removeprefix("    ") for line in lines), namespace)
    try:
        slope = wg.grad(lambda x: np.sum(namespace[name](x)))(X)
    finally:
        TABLE.unregister(TABLE[name])

    assert_allclose(slope, getattr(scipy.special, f"{name}p")(1.5, X), rtol=1e-9)


def test_the_analytic_signal_can_be_written_with_transforms() -> None:
    with pytest.raises(NoRuleError, match=r"scipy\.signal\.hilbert has no rule: write np\.fft") as refusal:
        wg.grad(lambda x: np.sum(np.abs(scipy.signal.hilbert(x))))(X)
    text = str(refusal.value).partition("write ")[2].partition(", the same")[0]
    advised = make_function(f"np.abs({text})")

    assert_allclose(wg.grad(advised)(X), take_differences(make_function("np.abs(scipy.signal.hilbert(x))")), rtol=1e-6)


def test_recorded_points_of_a_grid_are_refused_by_the_name_of_the_class() -> None:
    plain = scipy.interpolate.RegularGridInterpolator((np.arange(6.0),), X)

    with pytest.raises(NoRuleError, match=r"RegularGridInterpolator has no rule: at recorded points"):
        wg.grad(lambda p: np.sum(plain(p)))(X[:, None])


@pytest.mark.parametrize("name", [name for name in SCIPY_SPELLINGS if name.endswith(".logpdf")])
def test_a_density_with_location_and_scale_is_that_of_the_standard_form(name: str) -> None:
    distribution = getattr(scipy.stats, name.split(".")[2])
    shapes = {"truncnorm": (-1.0, 2.0)}.get(distribution.name, (1.5,))
    with pytest.raises(NoRuleError, match=r"subtract np\.log\(scale\)"):
        wg.grad(lambda x: distribution.logpdf(x, *shapes, loc=0.5, scale=2.0))(1.7)

    advised = distribution.logpdf((1.7 - 0.5) / 2.0, *shapes) - np.log(2.0)
    assert advised == pytest.approx(distribution.logpdf(1.7, *shapes, loc=0.5, scale=2.0), rel=1e-12)
