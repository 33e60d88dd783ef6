"""Losses with PyTorch's names and arguments: one number that says how far predictions are from what they should be.

`reduction` is "mean", "sum" or "none". Labels that name no class, an empty batch, and shapes that would broadcast in
silence are errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec

import numpy as np

import wiregrad as wg
from wiregrad.errors import DomainError, IndexingError, InputError, ShapeError
from wiregrad.nn.layers import as_array

P = ParamSpec("P")


def group_nodes(loss: Callable[P, Any]) -> Callable[P, Any]:
    """Let the nodes that a loss records be a group of its name, in circuits and pictures."""

    @wraps(loss)
    def call_in_group(*args: P.args, **kwargs: P.kwargs) -> Any:
        with wg.group(loss.__name__):
            return loss(*args, **kwargs)

    return call_in_group


IGNORED_CLASS = -100
"""The class that PyTorch leaves out by default: a place in a sequence or picture that has no label."""


@group_nodes
def cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    ignore_index: int = IGNORED_CLASS,
) -> Any:
    """Return minus the logarithm of the softmax of the right class; target is classes, or a probability for each.

    `weight` is one factor for each class. Scores are (batch, classes, ...), or (classes,) for a single example.
    Examples whose class is `ignore_index` add nothing, and are not counted in the mean.

    >>> float(cross_entropy(np.zeros((1, 4)), np.array([2])).round(6))
    1.386294
    """
    scores = _put_classes_last(as_array(input))
    target = as_array(target)
    logs = wg.log_softmax(scores, axis=-1)
    factors = _take_factors("cross_entropy", scores, weight)
    if target.dtype.kind == "f":
        if target.shape == scores.shape[:-1]:
            raise ShapeError(
                f"cross_entropy: classes are whole numbers, and probabilities have the shape {scores.shape}; got "
                f"{target.dtype} of shape {target.shape}: write target.astype(int)"
            )
        chances = _put_classes_last(target)
        _check_same_shape("cross_entropy", scores, chances)
        right = wg.sum(logs * (chances * factors), axis=-1)
        smooth = wg.mean(logs * factors, axis=-1)
        return _reduce(-_mix(right, smooth, label_smoothing), reduction)
    picks, is_counted = _mark_classes("cross_entropy", scores, target, ignore_index)
    right = _pick(logs * factors, picks)
    if label_smoothing:
        right = _mix(right, wg.where(is_counted, wg.mean(logs * factors, axis=-1), 0.0), label_smoothing)
    return _reduce(-right, reduction, _count_labels(picks, is_counted, factors, weight))


@group_nodes
def nll_loss(
    input: Any, target: Any, weight: Any = None, reduction: str = "mean", ignore_index: int = IGNORED_CLASS
) -> Any:
    """Return minus the input of the right class: with `log_softmax` before it, the cross-entropy.

    >>> float(nll_loss(np.log([[0.25, 0.75]]), np.array([1])).round(6))
    0.287682
    """
    logs = _put_classes_last(as_array(input))
    factors = _take_factors("nll_loss", logs, weight)
    picks, is_counted = _mark_classes("nll_loss", logs, as_array(target), ignore_index)
    return _reduce(-_pick(logs * factors, picks), reduction, _count_labels(picks, is_counted, factors, weight))


def _mix(right: Any, smooth: Any, share: float) -> Any:
    return (1.0 - share) * right + share * smooth if share else right


def _pick(numbers: Any, picks: Any) -> Any:
    """Return the number of the right class; a class that is masked by a score of -inf is left out, not multiplied."""
    return wg.sum(wg.where(picks, numbers, 0.0), axis=-1)


def _count_labels(picks: Any, is_counted: Any, factors: Any, weight: Any) -> Any:
    """Return what a mean is divided by: the sum of the weights of all labels, or None if it is their number."""
    if weight is None and is_counted is True:
        return None
    return _pick(factors, picks)


def _take_factors(name: str, scores: Any, weight: Any) -> Any:
    """Return one factor for each class."""
    count = scores.shape[-1] if scores.ndim else 0
    if not count:
        raise ShapeError(f"{name} needs scores of one class or more; got an input of shape {scores.shape}")
    factors = np.ones(count, scores.dtype) if weight is None else as_array(weight)
    if factors.shape != (count,):
        raise ShapeError(f"{name}: weight needs one factor for each of {count} classes; got shape {factors.shape}")
    return factors


@group_nodes
def binary_cross_entropy(input: Any, target: Any, weight: Any = None, reduction: str = "mean") -> Any:
    """Return minus the logarithm of the probability of what is true; input is the probability of 1.

    Logarithms are at least -100, as in PyTorch, so a probability of 0 is no infinity.
    """
    input, target = _take_pair("binary_cross_entropy", input, target)
    if input.size and (wg.min(input) < 0.0 or wg.max(input) > 1.0):
        raise InputError("binary_cross_entropy takes probabilities; use binary_cross_entropy_with_logits for scores")
    _check_truth("binary_cross_entropy", target)
    losses = -(target * _bounded_log(input) + (1.0 - target) * _bounded_log(1.0 - input))
    return _reduce(losses if weight is None else losses * as_array(weight), reduction)


def _bounded_log(x: Any) -> Any:
    return wg.maximum(wg.log(wg.maximum(x, math.exp(-200.0))), -100.0)


@group_nodes
def binary_cross_entropy_with_logits(
    input: Any, target: Any, weight: Any = None, reduction: str = "mean", pos_weight: Any = None
) -> Any:
    """Return the binary cross-entropy of the sigmoid of scores, without overflow."""
    input, target = _take_pair("binary_cross_entropy_with_logits", input, target)
    _check_truth("binary_cross_entropy_with_logits", target)
    factor = 1.0 if pos_weight is None else 1.0 + (as_array(pos_weight) - 1.0) * target
    losses = (1.0 - target) * input + factor * wg.softplus(-input)
    return _reduce(losses if weight is None else losses * as_array(weight), reduction)


def _check_truth(name: str, target: Any) -> None:
    """Raise an error unless targets are probabilities, such as 0 and 1: with others the loss has no lower bound."""
    if target.size and (wg.min(target) < 0.0 or wg.max(target) > 1.0):
        raise DomainError(f"{name} takes targets from 0 to 1; got {wg.min(target)} to {wg.max(target)}")


@group_nodes
def mse_loss(input: Any, target: Any, reduction: str = "mean") -> Any:
    """Return the mean of the squared differences."""
    input, target = _take_pair("mse_loss", input, target)
    return _reduce((input - target) ** 2, reduction)


@group_nodes
def l1_loss(input: Any, target: Any, reduction: str = "mean") -> Any:
    """Return the mean of the absolute differences."""
    input, target = _take_pair("l1_loss", input, target)
    return _reduce(wg.abs(input - target), reduction)


@group_nodes
def huber_loss(input: Any, target: Any, reduction: str = "mean", delta: float = 1.0) -> Any:
    """Return half the squared difference where it is at most delta, and a line beyond."""
    input, target = _take_pair("huber_loss", input, target)
    distance = wg.abs(input - target)
    # Written with the smaller of two, so that both parts have finite slopes everywhere.
    near = wg.minimum(distance, delta)
    return _reduce(near * (distance - 0.5 * near), reduction)


@group_nodes
def smooth_l1_loss(input: Any, target: Any, reduction: str = "mean", beta: float = 1.0) -> Any:
    """Return the absolute difference less beta / 2, and below beta the squared one divided by 2 beta."""
    if beta == 0.0:
        return l1_loss(input, target, reduction)
    return huber_loss(input, target, reduction, beta) / beta


@group_nodes
def kl_div(input: Any, target: Any, reduction: str = "mean", log_target: bool = False) -> Any:
    """Return how far logarithms of probabilities are from other probabilities, or from their logarithms.

    `reduction="batchmean"` is the sum divided by the number of examples, which is the divergence as usually defined.
    """
    input, target = _take_pair("kl_div", input, target)
    losses = wg.exp(target) * (target - input) if log_target else wg.xlogy(target, target) - target * input
    if reduction != "batchmean":
        return _reduce(losses, reduction)
    _check_batch(losses)
    return wg.sum(losses) / losses.shape[0]


@group_nodes
def hinge_loss(input: Any, target: Any, margin: float = 1.0, reduction: str = "mean") -> Any:
    """Return how far each score falls short of a margin; target is 1 or -1.

    >>> float(hinge_loss(np.array([0.5, -2.0]), np.array([1.0, -1.0])))
    0.25
    """
    input, target = _take_pair("hinge_loss", input, target)
    if wg.any(wg.abs(target) != 1.0):
        raise InputError("hinge_loss takes targets of 1 and -1")
    return _reduce(wg.relu(margin - target * input), reduction)


@group_nodes
def multi_margin_loss(
    input: Any, target: Any, p: int = 1, margin: float = 1.0, weight: Any = None, reduction: str = "mean"
) -> Any:
    """Return how far each wrong class comes within a margin of the right one: the hinge loss of several classes."""
    scores = as_array(input)
    factors = _take_factors("multi_margin_loss", scores, weight)
    picks, _ = _mark_classes("multi_margin_loss", scores, as_array(target))
    chosen = wg.sum(wg.where(picks, scores, 0.0), axis=-1, keepdims=True)
    short = wg.where(picks, 0.0, wg.relu(margin - chosen + scores) ** p)
    if weight is not None:
        short = short * wg.sum(wg.where(picks, factors, 0.0), axis=-1, keepdims=True)
    return _reduce(wg.sum(short, axis=-1) / scores.shape[-1], reduction)


def _put_classes_last(x: Any) -> Any:
    """Return scores (classes,) or (batch, classes, ...) with the classes along the last axis."""
    return x if x.ndim < 3 else wg.moveaxis(x, 1, -1)


def _mark_classes(name: str, scores: Any, target: Any, ignored: int | None = None) -> tuple[Any, Any]:
    """Return along the last axis whether each class is that of the example, and which examples count.

    The second is True if all of them do.
    """
    count = scores.shape[-1]
    if target.dtype.kind not in "iu":
        raise DomainError(f"{name}: classes must be whole numbers; got {target.dtype}")
    if target.shape != scores.shape[:-1]:
        raise ShapeError(
            f"{name}: scores of {count} classes with shape {scores.shape}, classes last, need classes of shape "
            f"{scores.shape[:-1]}; got {target.shape}"
        )
    is_counted: Any = True
    # Comparisons of recorded numbers are checked whenever a compiled function is replayed.
    if ignored is not None and target.size and wg.any(target == ignored):
        is_counted = target != ignored
        target = wg.where(is_counted, target, 0)
    if target.size and (wg.min(target) < 0 or wg.max(target) >= count):
        raise IndexingError(f"{name}: classes must be 0 to {count - 1}; got {wg.min(target)} to {wg.max(target)}")
    picks = wg.reshape(target, (*target.shape, 1)) == np.arange(count)
    if is_counted is not True:
        picks = wg.logical_and(picks, wg.reshape(is_counted, (*target.shape, 1)))
    return picks, is_counted


def _take_pair(name: str, input: Any, target: Any) -> tuple[Any, Any]:
    """Return predictions and targets as arrays; shapes that differ would broadcast, which is hardly ever meant."""
    input, target = as_array(input), as_array(target)
    _check_same_shape(name, input, target)
    return input, target


def _check_same_shape(name: str, input: Any, target: Any) -> None:
    if input.shape != target.shape:
        raise ShapeError(f"{name}: input and target need the same shape; got {input.shape} and {target.shape}")


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
    if total is None:
        return wg.mean(losses)
    divisor = wg.sum(total)
    if divisor == 0.0:
        raise DomainError("the mean loss is undefined: all labels are ignored, or their weights add up to 0")
    return wg.sum(losses) / divisor
