"""Losses with PyTorch's names and arguments: one number that says how far predictions are from what they should be.

`reduction` is "mean", "sum" or "none". Labels that name no class, an empty batch, and shapes that would broadcast in
silence are errors.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import wiregrad as wg
from wiregrad.errors import DomainError, IndexingError, InputError, ShapeError
from wiregrad.nn.layers import as_array


def cross_entropy(
    input: Any, target: Any, weight: Any = None, reduction: str = "mean", label_smoothing: float = 0.0
) -> Any:
    """Return minus the logarithm of the softmax of the right class; target is classes, or a probability for each.

    `weight` is one factor for each class. Scores are (batch, classes, ...), or (classes,) for a single example.

    >>> float(cross_entropy(np.zeros((1, 4)), np.array([2])).round(6))
    1.386294
    """
    scores = _put_classes_last(as_array(input))
    target = as_array(target)
    logs = wg.log_softmax(scores, axis=-1)
    factors = np.ones(scores.shape[-1], scores.dtype) if weight is None else as_array(weight)
    if target.dtype.kind == "f":
        chances = _put_classes_last(target)
        _check_same_shape(scores, chances)
        right = wg.sum(logs * (chances * factors), axis=-1)
        total = None
    else:
        picks = _mark_classes(scores, target)
        # A class that is masked by a score of -inf is left out, not multiplied by 0.
        right = wg.sum(wg.where(picks, logs * factors, 0.0), axis=-1)
        total = None if weight is None else wg.sum(wg.where(picks, factors, 0.0), axis=-1)
    if label_smoothing:
        right = (1.0 - label_smoothing) * right + label_smoothing * wg.mean(logs * factors, axis=-1)
    return _reduce(-right, reduction, total)


def binary_cross_entropy(input: Any, target: Any, weight: Any = None, reduction: str = "mean") -> Any:
    """Return minus the logarithm of the probability of what is true; input is the probability of 1.

    Logarithms are at least -100, as in PyTorch, so a probability of 0 is no infinity.
    """
    input, target = _take_pair(input, target)
    if input.size and (wg.min(input) < 0.0 or wg.max(input) > 1.0):
        raise InputError("binary_cross_entropy takes probabilities; use binary_cross_entropy_with_logits for scores")
    losses = -(target * _bounded_log(input) + (1.0 - target) * _bounded_log(1.0 - input))
    return _reduce(losses if weight is None else losses * as_array(weight), reduction)


def _bounded_log(x: Any) -> Any:
    return wg.maximum(wg.log(wg.maximum(x, math.exp(-200.0))), -100.0)


def binary_cross_entropy_with_logits(
    input: Any, target: Any, weight: Any = None, reduction: str = "mean", pos_weight: Any = None
) -> Any:
    """Return the binary cross-entropy of the sigmoid of scores, without overflow."""
    input, target = _take_pair(input, target)
    factor = 1.0 if pos_weight is None else 1.0 + (as_array(pos_weight) - 1.0) * target
    losses = (1.0 - target) * input + factor * wg.softplus(-input)
    return _reduce(losses if weight is None else losses * as_array(weight), reduction)


def mse_loss(input: Any, target: Any, reduction: str = "mean") -> Any:
    """Return the mean of the squared differences."""
    input, target = _take_pair(input, target)
    return _reduce((input - target) ** 2, reduction)


def l1_loss(input: Any, target: Any, reduction: str = "mean") -> Any:
    """Return the mean of the absolute differences."""
    input, target = _take_pair(input, target)
    return _reduce(wg.abs(input - target), reduction)


def huber_loss(input: Any, target: Any, reduction: str = "mean", delta: float = 1.0) -> Any:
    """Return half the squared difference where it is at most delta, and a line beyond."""
    input, target = _take_pair(input, target)
    distance = wg.abs(input - target)
    # Written with the smaller of two, so that both parts have finite slopes everywhere.
    near = wg.minimum(distance, delta)
    return _reduce(near * (distance - 0.5 * near), reduction)


def kl_div(input: Any, target: Any, reduction: str = "mean", log_target: bool = False) -> Any:
    """Return how far logarithms of probabilities are from other probabilities, or from their logarithms.

    `reduction="batchmean"` is the sum divided by the number of examples, which is the divergence as usually defined.
    """
    input, target = _take_pair(input, target)
    losses = wg.exp(target) * (target - input) if log_target else wg.xlogy(target, target) - target * input
    if reduction != "batchmean":
        return _reduce(losses, reduction)
    _check_batch(losses)
    return wg.sum(losses) / losses.shape[0]


def hinge_loss(input: Any, target: Any, margin: float = 1.0, reduction: str = "mean") -> Any:
    """Return how far each score falls short of a margin; target is 1 or -1.

    >>> float(hinge_loss(np.array([0.5, -2.0]), np.array([1.0, -1.0])))
    0.25
    """
    input, target = _take_pair(input, target)
    if wg.any(wg.abs(target) != 1.0):
        raise InputError("hinge_loss takes targets of 1 and -1")
    return _reduce(wg.relu(margin - target * input), reduction)


def multi_margin_loss(
    input: Any, target: Any, p: int = 1, margin: float = 1.0, weight: Any = None, reduction: str = "mean"
) -> Any:
    """Return how far each wrong class comes within a margin of the right one: the hinge loss of several classes."""
    scores = as_array(input)
    picks = _mark_classes(scores, as_array(target))
    chosen = wg.sum(wg.where(picks, scores, 0.0), axis=-1, keepdims=True)
    short = wg.where(picks, 0.0, wg.relu(margin - chosen + scores) ** p)
    if weight is not None:
        short = short * wg.sum(wg.where(picks, as_array(weight), 0.0), axis=-1, keepdims=True)
    return _reduce(wg.sum(short, axis=-1) / scores.shape[-1], reduction)


def _put_classes_last(x: Any) -> Any:
    """Return scores (classes,) or (batch, classes, ...) with the classes along the last axis."""
    return x if x.ndim < 3 else wg.moveaxis(x, 1, -1)


def _mark_classes(scores: Any, target: Any) -> Any:
    """Return along the last axis whether each class is that of the example."""
    count = scores.shape[-1]
    if target.dtype.kind not in "iu":
        raise DomainError(f"classes must be whole numbers; got {target.dtype}")
    if target.shape != scores.shape[:-1]:
        raise ShapeError(
            f"scores of {count} classes with shape {scores.shape}, classes last, need classes of shape "
            f"{scores.shape[:-1]}; got {target.shape}"
        )
    # A comparison of recorded numbers is checked whenever a compiled function is replayed.
    if target.size and (wg.min(target) < 0 or wg.max(target) >= count):
        raise IndexingError(f"classes must be 0 to {count - 1}; got {wg.min(target)} to {wg.max(target)}")
    return wg.reshape(target, (*target.shape, 1)) == np.arange(count)


def _take_pair(input: Any, target: Any) -> tuple[Any, Any]:
    """Return predictions and targets as arrays; shapes that differ would broadcast, which is hardly ever meant."""
    input, target = as_array(input), as_array(target)
    _check_same_shape(input, target)
    return input, target


def _check_same_shape(input: Any, target: Any) -> None:
    if input.shape != target.shape:
        raise ShapeError(f"input and target need the same shape; got {input.shape} and {target.shape}")


def _check_batch(losses: Any) -> None:
    if not losses.size:
        raise ShapeError(f"the mean loss of an empty batch is undefined; got losses of shape {losses.shape}")


def _reduce(losses: Any, reduction: str, total: Any = None) -> Any:
    """Return the losses, their sum or their mean; `total` is the sum of weights to divide by instead of a count."""
    if reduction == "none":
        return losses
    if reduction == "sum":
        return wg.sum(losses)
    if reduction != "mean":
        raise InputError(f"reduction is 'mean', 'sum' or 'none'; got {reduction!r}")
    _check_batch(losses)
    return wg.mean(losses) if total is None else wg.sum(losses) / wg.sum(total)
