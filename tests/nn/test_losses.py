"""Losses: gradients by numeric derivatives, extreme scores, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad import nn
from wiregrad.errors import DomainError, IndexingError, InputError, ShapeError

from ..support.refusals import check_refusal

RNG = np.random.default_rng(0)
SCORES = RNG.normal(size=(4, 3))
LABELS = np.array([0, 2, 1, 2])
REALS = RNG.normal(size=(4, 3)) * 2.0
CHANCES = RNG.dirichlet(np.ones(3), size=4)
LOSSES: dict[str, Callable[[Any], Any]] = {
    "cross_entropy": lambda x: nn.cross_entropy(x, LABELS),
    "cross_entropy with options": lambda x: nn.cross_entropy(x, LABELS, np.arange(1.0, 4.0), label_smoothing=0.1),
    "cross_entropy of probabilities": lambda x: nn.cross_entropy(x, CHANCES),
    "cross_entropy of some": lambda x: nn.cross_entropy(x, np.array([0, -100, 1, -100])),
    "nll": lambda x: nn.nll_loss(x, LABELS, np.arange(1.0, 4.0)),
    "smooth_l1": lambda x: nn.smooth_l1_loss(x, REALS, beta=0.5),
    "binary": lambda x: nn.binary_cross_entropy(wg.sigmoid(x), CHANCES),
    "binary with logits": lambda x: nn.binary_cross_entropy_with_logits(x, CHANCES, pos_weight=np.arange(1.0, 4.0)),
    "mse": lambda x: nn.mse_loss(x, REALS),
    "l1": lambda x: nn.l1_loss(x, REALS),
    "huber": lambda x: nn.huber_loss(x, REALS, delta=0.5),
    "kl_div": lambda x: nn.kl_div(x, CHANCES, reduction="batchmean"),
    "hinge": lambda x: nn.hinge_loss(x, np.sign(REALS)),
    "multi_margin": lambda x: nn.multi_margin_loss(x, LABELS, p=2),
}


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_of_losses_are_right(name: str) -> None:
    assert wg.check_grads(LOSSES[name], SCORES, order=1).ok


@pytest.mark.parametrize("name", LOSSES)
def test_compiled_losses_compute_the_same(name: str) -> None:
    compiled = wg.compile(LOSSES[name])
    for k in range(3):
        value, grad = compiled.value_and_grad(SCORES * (1.0 + k))
        wanted, wanted_grad = wg.value_and_grad(LOSSES[name])(SCORES * (1.0 + k))
        assert np.allclose(value, wanted, rtol=1e-12)
        assert np.allclose(grad, wanted_grad, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("scores", [[[1000.0, -1000.0]], [[-1000.0, 1000.0]]])
def test_large_scores_give_finite_losses_and_gradients(scores: list[list[float]]) -> None:
    x, label, truth = np.array(scores), np.array([0]), np.array([[1.0, 0.0]])
    for loss in (lambda x: nn.cross_entropy(x, label), lambda x: nn.binary_cross_entropy_with_logits(x, truth)):
        value, grad = wg.value_and_grad(loss)(x)
        assert np.isfinite(value)
        assert np.all(np.isfinite(grad))


@pytest.mark.parametrize("loss", [nn.cross_entropy, nn.multi_margin_loss])
def test_a_masked_class_adds_nothing(loss: Callable[..., Any]) -> None:
    masked, label = np.array([[1.0, 0.5, -np.inf]]), np.array([0])
    value, grad = wg.value_and_grad(lambda x: loss(x, label, reduction="sum"))(masked)
    share = {nn.cross_entropy: 1.0, nn.multi_margin_loss: 3.0 / 2.0}[loss]

    assert value * share == pytest.approx(loss(masked[:, :2], label, reduction="sum"))
    assert np.all(np.isfinite(grad))
    assert grad[0, 2] == 0.0


def test_a_probability_of_zero_has_a_finite_loss() -> None:
    value, grad = wg.value_and_grad(lambda p: nn.binary_cross_entropy(p, np.array([1.0, 0.0])))(np.array([0.0, 1.0]))

    assert value == 100.0
    assert np.all(np.isfinite(grad))


def test_a_target_probability_of_zero_adds_nothing_to_a_divergence() -> None:
    assert nn.kl_div(np.log([[0.5, 0.5]]), np.array([[1.0, 0.0]]), reduction="sum") == pytest.approx(np.log(2.0))


def test_hinge_takes_the_place_of_cross_entropy_in_one_line() -> None:
    losses = {
        loss: wg.grad(lambda x, loss=loss: loss(x, LABELS))(SCORES) for loss in (nn.cross_entropy, nn.multi_margin_loss)
    }

    assert {grad.shape for grad in losses.values()} == {SCORES.shape}


EMPTY = np.zeros((0, 3))
REFUSED_BY_LOSSES: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "label too large": (
        lambda: nn.cross_entropy(SCORES, LABELS + 1),
        IndexingError,
        "cross_entropy: classes must be 0 to 2; got 1 to 3",
    ),
    "negative label": (lambda: nn.cross_entropy(SCORES, LABELS - 1), IndexingError, "got -1 to 1"),
    "label of margin": (lambda: nn.multi_margin_loss(SCORES, LABELS + 5), IndexingError, "got 5 to 7"),
    "labels as numbers": (lambda: nn.cross_entropy(SCORES, LABELS * 1.0), ShapeError, "classes are whole numbers"),
    "truth as labels": (lambda: nn.cross_entropy(SCORES, LABELS > 1), DomainError, "classes must be whole numbers"),
    "too few labels": (
        lambda: nn.cross_entropy(SCORES, LABELS[:2]),
        ShapeError,
        "need classes of shape (4,); got (2,)",
    ),
    "shapes that broadcast": (
        lambda: nn.mse_loss(SCORES, np.zeros(3)),
        ShapeError,
        "need the same shape; got (4, 3) and (3,)",
    ),
    "empty batch": (lambda: nn.mse_loss(EMPTY, EMPTY), ShapeError, "empty batch is undefined"),
    "empty labels": (lambda: nn.cross_entropy(EMPTY, np.zeros(0, int)), ShapeError, "empty batch is undefined"),
    "empty divergence": (lambda: nn.kl_div(EMPTY, EMPTY, reduction="batchmean"), ShapeError, "empty batch"),
    "reduction": (lambda: nn.l1_loss(SCORES, REALS, reduction="average"), InputError, "'mean', 'sum' or 'none'"),
    "probabilities": (lambda: nn.binary_cross_entropy(SCORES, CHANCES), InputError, "takes probabilities"),
    "binary label": (
        lambda: nn.binary_cross_entropy_with_logits(SCORES, CHANCES - 0.9),
        DomainError,
        "binary_cross_entropy_with_logits takes targets from 0 to 1; got -0.",
    ),
    "binary class": (lambda: nn.binary_cross_entropy(CHANCES, CHANCES + 1.0), DomainError, "takes targets from 0 to 1"),
    "weight": (
        lambda: nn.cross_entropy(SCORES, LABELS, np.ones(4)),
        ShapeError,
        "weight needs one factor for each of 3 classes; got shape (4,)",
    ),
    "no classes": (lambda: nn.cross_entropy(SCORES[:, :0], LABELS), ShapeError, "scores of one class or more"),
    "all ignored": (lambda: nn.cross_entropy(SCORES, LABELS * 0 - 100), DomainError, "all labels are ignored"),
    "signs": (lambda: nn.hinge_loss(SCORES, CHANCES), InputError, "targets of 1 and -1"),
}


@pytest.mark.parametrize("name", REFUSED_BY_LOSSES)
def test_bad_input_is_refused(name: str) -> None:
    check_refusal(*REFUSED_BY_LOSSES[name])


def test_labels_out_of_range_are_refused_by_compiled_functions_too() -> None:
    compiled = wg.compile(lambda x, y: nn.cross_entropy(x, y.astype(int)))
    values = [compiled(SCORES, labels.astype(float)) for labels in (LABELS, LABELS[::-1], np.zeros(4))]

    assert values == pytest.approx([nn.cross_entropy(SCORES, y) for y in (LABELS, LABELS[::-1], np.zeros(4, int))])
    assert compiled.info.records == 1
    with pytest.raises(IndexingError, match="got 1 to 3"):
        compiled(SCORES, LABELS + 1.0)


def test_labels_that_are_ignored_may_change_in_a_compiled_function() -> None:
    compiled = wg.compile(lambda x, y: nn.cross_entropy(x, y.astype(int)))
    batches = [LABELS, np.array([0, -100, 1, 2]), np.array([-100, -100, 1, 2]), LABELS[::-1]]
    values = [compiled(SCORES, labels.astype(float)) for labels in batches]

    assert values == pytest.approx([nn.cross_entropy(SCORES, labels) for labels in batches], rel=1e-12)
    with pytest.raises(DomainError, match="all labels are ignored"):
        compiled(SCORES, np.full(4, -100.0))


def test_an_ignored_label_has_no_gradient() -> None:
    gradient = wg.grad(lambda x: nn.cross_entropy(x, np.array([0, -100, 1, 2])))(SCORES)

    assert not gradient[1].any()
    assert gradient[0].any()


def test_classes_that_are_floats_are_refused_with_what_to_write() -> None:
    scores = np.zeros((6, 4))

    with pytest.raises(ShapeError, match=r"classes are whole numbers, .* write target\.astype\(int\)"):
        wg.nn.cross_entropy(scores, np.zeros(6))
    with pytest.raises(ShapeError, match="need the same shape"):
        wg.nn.cross_entropy(scores, np.zeros((6, 3)))
