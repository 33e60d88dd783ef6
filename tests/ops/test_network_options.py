"""Settings of layers, losses and densities that do not fit are refused with what was expected and what was given."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

import wiregrad as wg
from wiregrad.errors import NoRuleError

from ..support.call_checks import RefusedCall, check_call, check_same_refusal
from ..support.refusals import check_refusal

SIGNAL = np.linspace(-1.0, 1.0, 10).reshape(1, 2, 5)
IMAGE = np.linspace(-1.0, 1.0, 16).reshape(1, 1, 4, 4)
SCORES = np.array([[0.2, -0.3, 1.1], [0.9, 0.4, -0.6]])

REFUSED: dict[str, RefusedCall] = {
    "three strides of two axes": (
        lambda x: wg.conv2d(x, np.ones((1, 1, 2, 2)), stride=(1, 1, 1)),
        IMAGE,
        ValueError,
        "stride needs one number, or 2; got (1, 1, 1)",
    ),
    "input without channels": (
        lambda x: wg.conv1d(x, np.ones((1, 1, 2))),
        SIGNAL[0, 0],
        ValueError,
        "conv1d needs input of 3 axes (batch, channels, ...), or without batch; got (5,)",
    ),
    "the same length with stride 2": (
        lambda x: wg.conv1d(x, np.ones((1, 2, 3)), stride=2, padding="same"),
        SIGNAL,
        ValueError,
        "padding='same' needs stride 1",
    ),
    "weight for other channels": (
        lambda x: wg.conv1d(x, np.ones((1, 3, 2))),
        SIGNAL,
        ValueError,
        "conv1d needs weight (out, 2/groups, size) with out a multiple of 1; got (1, 3, 2)",
    ),
    "transposed weight for other channels": (
        lambda x: wg.conv_transpose1d(x, np.ones((3, 1, 2))),
        SIGNAL,
        ValueError,
        "conv_transpose1d needs weight (2, out/groups, size) and groups that divide 2; got (3, 1, 2)",
    ),
    "more output padding than stride": (
        lambda x: wg.conv_transpose1d(x, np.ones((2, 1, 2)), output_padding=1),
        SIGNAL,
        ValueError,
        "conv_transpose1d needs output_padding smaller than stride; got (1,) and (1,)",
    ),
    "pool without channels": (
        lambda x: wg.max_pool1d(x, 2),
        SIGNAL[0, 0],
        ValueError,
        "max_pool1d needs input of 3 axes",
    ),
    "padding wider than half the kernel": (
        lambda x: wg.max_pool1d(x, 2, padding=2),
        SIGNAL,
        ValueError,
        "max_pool1d needs padding of at most half the kernel; got (2,) for a kernel of (2,)",
    ),
    "weight of another width": (
        lambda x: wg.linear(x, np.ones((2, 4))),
        SIGNAL,
        ValueError,
        "linear needs input (..., 4) for weight (2, 4); got (1, 2, 5)",
    ),
    "norm over another length": (
        lambda x: wg.layer_norm(x, 4),
        SIGNAL,
        ValueError,
        "layer_norm needs input that ends in (4,); got (1, 2, 5)",
    ),
    "class 3 of 3": (
        lambda x: wg.cross_entropy(x, np.array([0, 3])),
        SCORES,
        ValueError,
        "classes must be 0 to 2; got 0 to 3",
    ),
    "unknown reduction": (
        lambda x: wg.mse_loss(x, SCORES, reduction="odd"),
        SCORES,
        ValueError,
        "reduction is 'mean', 'sum' or 'none'; got 'odd'",
    ),
    "z-scores without NaN": (
        lambda x: scipy.stats.zscore(x, nan_policy="omit"),
        SCORES[0],
        NoRuleError,
        "zscore has a rule for nan_policy='propagate'",
    ),
    "skewness without bias": (
        lambda x: scipy.stats.skew(x, bias=False),
        SCORES[0],
        NoRuleError,
        "skew has a rule for bias=True",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_settings_that_do_not_fit_are_refused(name: str) -> None:
    call, x, kind, words = REFUSED[name]

    check_refusal(lambda: call(wg.Value(x)), kind, words)


REFUSED_DENSITIES: dict[str, RefusedCall] = {
    "covariance of another size": (
        lambda x: scipy.stats.multivariate_normal.logpdf(x, [0.0, 0.0], np.eye(3)),
        SCORES[:, :2],
        ValueError,
        "must be square and fit the mean; got (3, 3) for 2 variables",
    ),
    "points in another space": (
        lambda x: scipy.stats.multivariate_normal.logpdf(x, [0.0, 0.0], np.eye(2)),
        SCORES,
        ValueError,
        "points must have 2 coordinates along the last axis; got shape (2, 3)",
    ),
    "shares of other parameters": (
        lambda x: scipy.stats.dirichlet.logpdf(x, np.ones(5)),
        np.array([0.2, 0.3, 0.5]),
        ValueError,
        "x must have 5 or 4 shares along its first axis, as alpha; got (3,)",
    ),
    "a parameter of 0": (
        lambda x: scipy.stats.dirichlet.logpdf(x, np.array([0.0, 1.0, 1.0])),
        np.array([0.2, 0.3, 0.5]),
        ValueError,
        "All parameters must be greater than 0",
    ),
}


@pytest.mark.parametrize("name", REFUSED_DENSITIES)
def test_densities_that_scipy_refuses_are_refused(name: str) -> None:
    check_same_refusal(*REFUSED_DENSITIES[name])


def test_one_hot_rows_are_made_of_whole_numbers() -> None:
    np.testing.assert_array_equal(wg.one_hot(np.array([0, 2])), [[1, 0, 0], [0, 0, 1]])
    check_refusal(lambda: wg.one_hot(np.array([0.5])), TypeError, "one_hot takes whole numbers; got float64")


def test_the_last_window_of_a_pool_begins_in_the_input() -> None:
    """Of 5 numbers in windows of 2 with stride 3, the window that would begin at 6 is left out."""

    def pool(x: np.ndarray) -> np.ndarray:
        if isinstance(x, wg.Value):
            return wg.max_pool1d(x, 2, stride=3, padding=1, ceil_mode=True)
        return np.stack([x[..., 0], np.maximum(x[..., 2], x[..., 3])], -1)

    check_call(pool, SIGNAL)
