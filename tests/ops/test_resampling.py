"""Images read between their pixels: SciPy's values in every mode, and gradients by images and by places."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import ndimage

import wiregrad as wg
from wiregrad.errors import NoRuleError

from ..support.call_checks import AcceptedCall, RefusedCall, check_call, check_same_refusal
from ..support.refusals import check_refusal

RNG = np.random.default_rng(11)
ROW = RNG.normal(size=7)
IMAGE = RNG.normal(size=(4, 5))
VOLUME = RNG.normal(size=(2, 4, 3))
MATRIX = np.array([[0.9, 0.2], [-0.3, 1.1]])
MODES = ("constant", "grid-constant", "nearest", "mirror", "reflect", "grid-mirror", "wrap", "grid-wrap")
ORDERS = range(6)
PLACES = np.concatenate([RNG.uniform(-15.0, 20.0, (2, 30)), RNG.uniform(0.0, 3.0, (2, 30))], axis=1)
BORDERS = RNG.integers(-6, 12, (2, 40)).astype(float)


@pytest.mark.parametrize("places", [PLACES, BORDERS], ids=["between pixels", "at pixels"])
@pytest.mark.parametrize("prefilter", [True, False])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape", [(4, 5), (1, 3), (2, 2)])
def test_values_are_scipys_far_beyond_the_border(
    shape: tuple[int, int], mode: str, order: int, prefilter: bool, places: Any
) -> None:
    image = np.random.default_rng(3).normal(size=shape)
    settings: dict[str, Any] = {"order": order, "mode": mode, "cval": 0.7, "prefilter": prefilter}
    value, _ = wg.vjp(lambda x: ndimage.map_coordinates(x, places, **settings), image)

    np.testing.assert_allclose(value, ndimage.map_coordinates(image, places, **settings), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("mode", MODES)
def test_places_and_pixels_have_the_gradient_of_differences(mode: str, order: int) -> None:
    settings: dict[str, Any] = {"order": order, "mode": mode, "cval": 0.7}
    places = PLACES[:, 20:40]
    check_call(lambda x: ndimage.map_coordinates(x, places, **settings), IMAGE)
    check_call(lambda c: ndimage.map_coordinates(IMAGE, c, **settings), places)


ACCEPTED: dict[str, AcceptedCall] = {
    "an image that is moved": (lambda x: ndimage.shift(x, (0.3, -1.4)), IMAGE),
    "the way of an image": (lambda d: ndimage.shift(IMAGE, d, order=1), np.array([0.3, -1.4])),
    "one way along all axes": (lambda d: ndimage.shift(IMAGE, d, mode="nearest"), 0.4),
    "ways in a list": (lambda d: ndimage.shift(IMAGE, [d, 2.0 * d], order=1), 0.3),
    "an image made larger": (lambda x: ndimage.zoom(x, 2), IMAGE),
    "an image made smaller along one axis": (lambda x: ndimage.zoom(x, (1, 0.5), order=1), IMAGE),
    "an image made larger as a grid": (
        lambda x: ndimage.zoom(x, 2.5, order=1, mode="grid-constant", grid_mode=True),
        IMAGE,
    ),
    "an image that keeps its size": (lambda x: ndimage.zoom(x, 1.0), IMAGE),
    "a row that is turned into one pixel": (lambda x: ndimage.zoom(x, 0.1), ROW),
    "an image that is turned": (lambda x: ndimage.rotate(x, 30.0), IMAGE),
    "the angle of a picture that keeps its shape": (
        lambda a: ndimage.rotate(IMAGE, a, reshape=False, order=1, mode="nearest"),
        25.0,
    ),
    "the angle of a picture": (lambda a: ndimage.rotate(IMAGE, a, mode="mirror"), 25.0),
    "planes of a volume": (lambda x: ndimage.rotate(x, 30.0, (2, 0), order=1), VOLUME),
    "planes of a volume in their shape": (lambda x: ndimage.rotate(x, 30.0, (-1, 1), reshape=False), VOLUME),
    "an image under a matrix": (lambda x: ndimage.affine_transform(x, MATRIX, (0.33, 0.41)), IMAGE),
    "the matrix": (lambda m: ndimage.affine_transform(IMAGE, m, (0.33, 0.41), order=1), MATRIX),
    "the offset": (lambda b: ndimage.affine_transform(IMAGE, MATRIX, b, order=2), np.array([0.33, 0.41])),
    "a matrix with the offset": (
        lambda m: ndimage.affine_transform(IMAGE, m, order=1, output_shape=(3, 6)),
        np.hstack([MATRIX, [[0.33], [0.41]]]),
    ),
    "a diagonal": (lambda m: ndimage.affine_transform(IMAGE, m, 0.35, order=1), np.array([0.9, 1.2])),
    "the constant beyond the border": (lambda c: ndimage.shift(IMAGE, 1.3, order=1, cval=c), 0.6),
    "complex numbers": (lambda x: ndimage.shift(x * (1.0 + 2.0j), 0.3, order=1).imag, ROW),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_calls_have_scipys_values_and_the_gradient_of_differences(name: str) -> None:
    check_call(*ACCEPTED[name])


def test_second_derivatives_by_places_are_those_of_the_spline() -> None:
    def read(c: Any) -> Any:
        return np.sum(ndimage.map_coordinates(IMAGE, np.stack([c, 1.0 + 0.5 * c]), order=4, mode="mirror") ** 2)

    c, step = np.array([0.3, 1.6]), 1e-4
    hessian = wg.hessian(read)(c)
    slopes = [(wg.grad(read)(c + h) - wg.grad(read)(c - h)) / (2.0 * step) for h in step * np.eye(2)]

    np.testing.assert_allclose(hessian, slopes, rtol=1e-6, atol=1e-8)


def test_a_compiled_function_follows_places_to_other_pixels() -> None:
    def read(c: Any) -> Any:
        return np.sum(ndimage.map_coordinates(IMAGE, np.stack([c, 0.5 * c]), order=1, mode="reflect") ** 2)

    fast = wg.compile(read)
    points = RNG.uniform(-8.0, 12.0, (6, 3))
    found = [fast.value_and_grad(c) for c in points]

    assert [value for value, _ in found] == pytest.approx([read(c) for c in points], rel=1e-12)
    for (_, slope), c in zip(found, points, strict=True):
        np.testing.assert_allclose(slope, wg.grad(read)(c), rtol=1e-12, atol=1e-14)
    assert fast.info.records == 1


def test_images_of_a_batch_are_read_one_by_one() -> None:
    images = RNG.normal(size=(3, 4, 5))
    mapped = wg.vmap(lambda x: ndimage.zoom(x, 1.5))(images)

    np.testing.assert_allclose(mapped, [ndimage.zoom(x, 1.5) for x in images], rtol=1e-12, atol=1e-13)


def test_places_that_are_no_numbers_have_the_constant() -> None:
    places = np.array([[np.nan, np.inf, 1.5, -np.inf]])
    (value, slope) = wg.value_and_grad(lambda c: np.sum(ndimage.map_coordinates(ROW, c, order=1, cval=0.3)))(places)

    assert value == pytest.approx(np.sum(ndimage.map_coordinates(ROW, places, order=1, cval=0.3)), rel=1e-14)
    np.testing.assert_allclose(slope, [[0.0, 0.0, ROW[2] - ROW[1], 0.0]], rtol=1e-12)


def test_single_precision_stays() -> None:
    image = IMAGE.astype(np.float32)
    value, pull = wg.vjp(lambda x: ndimage.shift(x, 0.3, order=1), image)

    (slope,) = pull(np.ones_like(image))

    assert (value.dtype, slope.dtype) == (np.float32, np.float32)
    np.testing.assert_array_equal(value, ndimage.shift(image, 0.3, order=1))


REFUSED: dict[str, RefusedCall] = {
    "order 6": (lambda x: ndimage.zoom(x, 2, order=6), IMAGE, RuntimeError, "spline order not supported"),
    "another mode": (lambda x: ndimage.shift(x, 1, mode="odd"), IMAGE, RuntimeError, "boundary mode not supported"),
    "places of a row": (
        lambda x: ndimage.map_coordinates(x, [[1.0, 2.0]]),
        IMAGE,
        RuntimeError,
        "invalid shape for coordinate array",
    ),
    "three ways of two axes": (lambda x: ndimage.shift(x, (1, 2, 3)), IMAGE, RuntimeError, "equal to input rank"),
    "a large matrix": (
        lambda x: ndimage.affine_transform(x, np.eye(4)),
        IMAGE,
        RuntimeError,
        "affine matrix has wrong number of rows",
    ),
    "a row that is turned": (lambda x: ndimage.rotate(x, 10.0), ROW, ValueError, "at least 2D"),
    "a plane that is missing": (lambda x: ndimage.rotate(x, 10.0, (0, 2)), IMAGE, ValueError, "invalid rotation plane"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_calls_that_scipy_refuses_are_refused(name: str) -> None:
    check_same_refusal(*REFUSED[name])


WITHOUT_RULE: dict[str, RefusedCall] = {
    "a factor": (
        lambda k: ndimage.zoom(IMAGE, k),
        np.float64(2.0),
        NoRuleError,
        "write scipy.ndimage.affine_transform",
    ),
    "whole numbers": (
        lambda d: ndimage.shift(np.arange(6), d),
        np.float64(0.5),
        NoRuleError,
        "pass image.astype(float)",
    ),
    "a result written elsewhere": (
        lambda x: ndimage.shift(x, 0.5, output=np.zeros(7)),
        ROW,
        NoRuleError,
        "has no rule for output=",
    ),
}


@pytest.mark.parametrize("name", WITHOUT_RULE)
def test_calls_without_a_rule_say_what_to_write(name: str) -> None:
    call, x, kind, words = WITHOUT_RULE[name]

    check_refusal(lambda: call(wg.Value(x)), kind, words)


def test_the_advice_for_a_factor_has_its_gradient() -> None:
    check_call(lambda k: ndimage.affine_transform(ROW, np.array([1.0 / k]), output_shape=(12,), order=1), 1.7)
