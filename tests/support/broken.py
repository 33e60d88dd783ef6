"""Broken programs: the ways in which gradients fail in real use, each with the op and the line that are to blame.

The programs are written as their users would write them, which is why they carry no annotations; the comment
`# <- here` marks the line a person should be sent to. A mark may stand in a helper that several programs share: what is
wanted is where the op was written, not who called it.

An op is to blame by these rules:
- For "blame" it is the first op, in the order of causes, that makes something non-finite out of finite numbers: on the
  way forward a value, else on the way back a gradient. The NaN that follows from it (0 * inf, inf - inf) is not to
  blame, unless nothing was infinite before it.
- For "explain" it is the op that cuts, shrinks or grows the gradient. A cut belongs to the op, seen from the input, at
  which the number stops being one that can be moved: the comparison, the cast, the op whose value `item()` took.
- Data that came in broken are blamed on `input` or `constant`, and the marked line is where they are first used. An
  infinity in a constant is taken for intended (a mask is filled with -inf): to blame is the op that makes NaN of it.
- What no line can be blamed for (a parameter that nothing reads) has no mark.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import wiregrad as wg

MARK = "# <- here"
"""What the guilty line ends with."""


@dataclass(frozen=True)
class Broken:
    """A program that fails, and who is to blame."""

    name: str
    program: Callable[..., Any]
    args: tuple[Any, ...]
    question: str
    """blame, explain or values; a program of values returns the leaf whose gradient is asked for."""
    op: str
    """The name of the op to blame; none for values, where a call is to blame."""
    words: tuple[str, ...] = ()
    """What the report must say, in any case of letters."""
    of: str = ""
    """For "explain": the input whose gradient is asked for."""
    kind: str = ""
    """For "explain": zero, absent, tiny, huge, nonfinite or cancelling."""
    harmless: bool = False
    """For "blame": what is not finite reaches neither the output nor a gradient."""
    helper: Callable[..., Any] | None = None
    """The function that holds the mark, if it is not the program."""

    @property
    def marked(self) -> Callable[..., Any]:
        """The function whose source holds the mark."""
        return self.helper or self.program


CORPUS: list[Broken] = []


def _broken(question: str, op: str, args: tuple[Any, ...], **facts: Any) -> Callable[..., Any]:
    def add(program: Callable[..., Any]) -> Callable[..., Any]:
        CORPUS.append(Broken(program.__name__, program, args, question, op, **facts))
        return program

    return add


def blame(op: str, *args: Any, **facts: Any) -> Callable[..., Any]:
    """Put a program into the corpus whose output or gradients are not finite."""
    return _broken("blame", op, args, **facts)


def explain(kind: str, of: str, op: str, *args: Any, **facts: Any) -> Callable[..., Any]:
    """Put a program into the corpus whose gradient of one input is not what its user wanted."""
    return _broken("explain", op, args, kind=kind, of=of, **facts)


def array(*rows: Any, dtype: Any = np.float64) -> np.ndarray:
    """Return an array of floats."""
    return np.array(rows, dtype)


# Helpers in which the guilty line stands, away from the program that calls them.


def root_of_squares(v, axis=None):
    return np.sqrt(np.sum(v * v, axis))  # <- here


def softmax_by_hand(z):
    e = np.exp(z)  # <- here
    return e / np.sum(e, -1, keepdims=True)


def masked_mean(x, mask):
    total = np.sum(x * mask)
    return total / np.sum(mask)  # <- here


def hard_step(x):
    return np.where(x > 0.0, 1.0, -1.0)  # <- here


# Values that are not finite on the way forward.


@blame("log", array(0.0, 1.0, 0.0), array(0.0, 1.0, 0.0), words=("product with 0",))
def cross_entropy_of_a_zero_probability(p, labels):
    surprise = -np.log(p)  # <- here
    return np.sum(labels * surprise)


@blame("log", 1.0, 1.0, words=("log1p",))
def binary_cross_entropy_of_a_certain_answer(p, label):
    hit = label * np.log(p)
    miss = (1.0 - label) * np.log(1.0 - p)  # <- here
    return -(hit + miss)


@blame("exp", array(1000.0, 0.0, -5.0), helper=softmax_by_hand, words=("use wg.softmax",))
def overflow_in_a_softmax_by_hand(z):
    weights = softmax_by_hand(z)
    return np.sum(weights * weights)


@blame("exp", array(90.0, 1.0, 2.0, dtype=np.float32), helper=softmax_by_hand, words=("use wg.softmax",))
def float32_overflow_in_a_softmax_by_hand(z):
    return np.sum(softmax_by_hand(z) ** 2)


@blame("exp", array(720.0, 710.0), words=("use wg.logsumexp",))
def logsumexp_by_hand(z):
    total = np.sum(np.exp(z))  # <- here
    return np.log(total)


@blame("log", array(0.0, -800.0, 3.0), 1, words=("use wg.log_softmax",))
def log_of_an_underflown_softmax(z, label):
    shifted = np.exp(z - np.max(z))
    p = shifted / np.sum(shifted)
    return -np.log(p[label])  # <- here


@blame("exp", 800.0, words=("use wg.softplus",))
def softplus_by_hand(x):
    return np.log(1.0 + np.exp(x))  # <- here


@blame("exp", array(3.0, -1.0, 710.0), array(1.0, 0.0, 2.0), words=("709",))
def poisson_loss_of_a_large_rate(log_rate, counts):
    rate = np.exp(log_rate)  # <- here
    return np.mean(rate - counts * log_rate)


@blame("log", array(0.2, 0.0, 0.5), array(1.0, 0.0, 1.0), words=("product with 0",))
def mask_multiplied_after_a_log(x, mask):
    logs = np.log(x)  # <- here
    return np.sum(mask * logs)


@blame("divide", array(1.0, 2.0, 3.0), array(0.0, 0.0, 0.0), helper=masked_mean, words=("count is 0",))
def mean_of_an_empty_mask(x, mask):
    return masked_mean(x, mask) ** 2


@blame("divide", array(0.0, 0.0, 0.0), array(1.0, 2.0, 2.0), words=("keep the divisor from 0",))
def cosine_similarity_of_a_zero_vector(u, v):
    lengths = np.linalg.norm(u) * np.linalg.norm(v)
    return np.dot(u, v) / lengths  # <- here


@blame("divide", {"w": array([3.0, 4.0], [0.0, 0.0])}, words=("length is 0",))
def weight_normalisation_of_a_zero_row(p):
    directions = []
    for row in p["w"]:
        length = np.linalg.norm(row)
        directions.append(row / length)  # <- here
    return np.sum(np.stack(directions)[:, 0])


@blame("divide", array(2.0, 2.0, 2.0, 2.0), words=("nothing varies",))
def batch_norm_of_a_constant_batch(x):
    centred = x - np.mean(x)
    scaled = centred / np.std(x)  # <- here
    return np.sum(scaled * scaled)


@blame("divide", 0.5, 0.5, 0.0, words=("keep the divisor from 0",))
def gaussian_log_likelihood_without_variance(x, mean, variance):
    squares = (x - mean) ** 2
    return -0.5 * (np.log(2.0 * np.pi) + squares / variance)  # <- here


@blame("divide", 0.0, 0.0, words=("arctan2",))
def angle_by_hand_at_the_origin(y, x):
    slope = y / x  # <- here
    return np.arctan(slope)


@blame("arcsin", 1.0 + 2.0**-52, words=("defined", "clip"))
def arcsin_of_slightly_more_than_one(s):
    angle = np.arcsin(s)  # <- here
    return 2.0 * angle


@blame("arccos", array(0.6, 0.8), array(0.6, 0.8 + 1e-15), words=("defined", "clip"))
def angle_between_equal_vectors(u, v):
    cosine = np.sum(u * v)
    return np.arccos(cosine)  # <- here


@blame("arctanh", 1.0, words=("clip",))
def fisher_transform_of_a_perfect_correlation(r):
    return 0.5 * np.arctanh(r)  # <- here


@blame("log", array(0.3, 1.0, 0.9), words=("log1p",))
def logit_of_one(p):
    odds = []
    for k in range(3):
        odds.append(np.log(p[k]) - np.log(1.0 - p[k]))  # <- here
    return sum(odds)


@blame("log1p", -1.0, words=("above -1",))
def log1p_of_minus_one(x):
    return np.log1p(x) * 0.5  # <- here


@blame("log", array(4.0, -0.5), words=("defined", "guard"))
def log_return_of_a_negative_price(price):
    return np.sum(np.log(price))  # <- here


@blame("log", 2.0, 2.0, words=("guard",))
def log_of_a_difference_that_vanished(a, b):
    gap = a - b
    return np.log(gap)  # <- here


@blame("power", array(-0.25, 2.0), 1.5, words=("defined", "whole exponents"))
def fractional_power_of_a_negative_number(x, k):
    total = 0.0
    for element in x:
        total = total + element**k  # <- here
    return total


@blame("sqrt", 1.0, 3.0, 1.0, words=("defined", "np.maximum"))
def roots_of_a_quadratic_without_roots(a, c, b):
    discriminant = b * b - 4.0 * a * c
    return (-b + np.sqrt(discriminant)) / (2.0 * a)  # <- here


@blame("log", array(0.5, 0.5, 0.0), array(0.25, 0.25, 0.5), words=("product with 0",))
def divergence_of_a_zero_probability(p, q):
    return np.sum(p * (np.log(p) - np.log(q)))  # <- here


@blame("divide", array(0.5, 0.5), array(1.0, 0.0), words=("keep the divisor from 0",))
def divergence_from_an_impossible_model(p, q):
    ratio = p / q  # <- here
    return np.sum(p * np.log(ratio))


@blame("log", array(0.7, 0.3, 0.0), words=("p * log(p) is",))
def entropy_of_a_certain_event(p):
    return -np.sum(p * np.log(p))  # <- here


@blame("square", array(3e19, 1.0, dtype=np.float32), words=("beyond the largest number",))
def float32_overflow_of_a_square(x):
    squares = np.square(x)  # <- here
    return np.sqrt(np.sum(squares))


@blame("power", 1e200, words=("beyond the largest number",))
def energy_in_the_wrong_unit(v):
    energy = 0.5 * v**2  # <- here
    return energy / (1.0 + energy)


@blame("sinh", 800.0, words=("use np.tanh",))
def tanh_by_hand(x):
    top = np.sinh(x)  # <- here
    return top / np.cosh(x)


@blame("multiply", 1.5, words=("beyond the largest number",))
def recurrence_that_overflows(x):
    for _ in range(12):
        x = x * x  # <- here
    return x


@blame("log", array(1e-200, 1e-200, 0.5), words=("sum of the logarithms",))
def log_of_a_product_that_underflowed(p):
    likelihood = np.prod(p)
    return -np.log(likelihood)  # <- here


@blame("log", array(0.1, 0.1), words=("np.cumsum",))
def log_of_a_cumulative_product_that_underflowed(rates):
    survival = np.cumprod(np.concatenate([rates ** (40.0 * k) for k in range(1, 6)]))
    return np.sum(np.log(survival))  # <- here


@blame("divide", array(1.0, 2.0), words=("keep the divisor from 0",))
def epsilon_lost_in_float32(x):
    spread = np.var(x - x).astype(np.float32)
    epsilon = np.float32(1e-30) * np.float32(1e-30)
    return np.sum(x) / (spread + epsilon)  # <- here


@blame("log", array([1.0, 2.0], [2.0, 4.0]), words=("singular", "np.eye"))
def log_determinant_of_a_singular_matrix(a):
    volume = np.linalg.det(a)
    return np.log(volume)  # <- here


@blame("softmax", array([1.0, 2.0], [3.0, 4.0]), np.array([[True, False], [False, False]]), words=("whole row",))
def attention_with_a_row_masked_out(scores, keep):
    masked = np.where(keep, scores, -np.inf)
    weights = wg.softmax(masked, axis=-1)  # <- here
    return np.sum(weights @ scores)


@blame("subtract", array([0.5, 1.5], [2.0, 0.0]), np.array([[True, True], [False, False]]), words=("two infinities",))
def softmax_by_hand_of_a_row_masked_out(scores, keep):
    masked = np.where(keep, scores, -np.inf)
    shifted = masked - np.max(masked, -1, keepdims=True)  # <- here
    e = np.exp(shifted)
    return np.sum(e / np.sum(e, -1, keepdims=True) * scores)


@blame("multiply", array(0.5, 1.5, 2.5), array(1.0, 1.0, 0.0), words=("product with 0",))
def additive_mask_multiplied(scores, keep):
    penalty = (1.0 - keep) * -np.inf  # <- here
    return np.sum(np.exp(scores + penalty))


@blame("input", array(1.0, np.inf, 2.0), words=("input x is inf from the start",))
def infinite_value_that_is_centred(x):
    centred = x - np.mean(x)  # <- here
    return np.sum(centred**2)


@blame("input", array(0.5, np.nan, 1.5), array(1.0, 1.0, 1.0), words=("input x is nan from the start",))
def missing_value_in_the_data(x, w):
    product = x * w  # <- here
    return np.sum(np.tanh(product))


@blame("input", 2.0, array(1.0, np.inf), words=("input x is inf from the start",))
def infinite_value_in_the_data(w, x):
    prediction = w * x  # <- here
    return np.mean(prediction)


@blame("constant", array(0.1, 0.2, 0.3), words=("is nan from the start",))
def missing_value_in_the_targets(w):
    targets = np.array([1.0, np.nan, 0.0])
    return np.mean((w - targets) ** 2)  # <- here


# Gradients that are not finite though every value is.


@blame("sqrt", array(0.0, 0.0, 0.0), helper=root_of_squares, words=("use np.linalg.norm(x)",))
def length_of_a_zero_vector(v):
    return root_of_squares(v) + 1.0


@blame("sqrt", array([0.0, 0.0], [3.0, 4.0], [3.0, 4.0]), helper=root_of_squares, words=("use np.linalg.norm(x)",))
def distances_with_a_zero_diagonal(points):
    differences = points[:, None, :] - points[None, :, :]
    return np.sum(root_of_squares(differences, -1))


@blame("sqrt", array(1.0, 2.0), array(1.0, 2.0), helper=root_of_squares, words=("use np.linalg.norm(x)",))
def triplet_loss_of_an_anchor_with_itself(anchor, positive):
    margin = 0.2
    return np.maximum(root_of_squares(anchor - positive) + margin, 0.0)


@blame("sqrt", array([1.0, 1.0, 1.0], [1.0, 2.0, 3.0]), words=("use np.std(x)",))
def deviation_by_hand_of_a_constant_row(x):
    def deviation(row):
        centred = row - np.mean(row)
        return np.sqrt(np.mean(centred**2))  # <- here

    return sum(deviation(row) for row in x)


@blame("sqrt", array(1.0, 2.0), array(1.0, 2.0), words=("np.linalg.norm(e) / np.sqrt(n)",))
def root_mean_square_error_of_a_perfect_fit(prediction, target):
    error = np.mean((prediction - target) ** 2)
    return np.sqrt(error)  # <- here


@blame("sqrt", 0.0, words=("product with 0",))
def zero_times_an_infinite_slope(x):
    weight = 0.0
    return weight * np.sqrt(x) + x  # <- here


@blame("sqrt", array(4.0, 0.0, 1.0), array(1.0, 0.0, 1.0), words=("product with 0",))
def mask_multiplied_after_a_root(x, mask):
    roots = np.sqrt(x)  # <- here
    return np.sum(roots * mask)


@blame("arccos", array(1.0, 0.0), array(1.0, 0.0), words=("clip",))
def angle_to_itself(u, v):
    cosine = np.clip(np.dot(u, v), -1.0, None)
    return np.arccos(cosine) ** 2  # <- here


@blame("arccosh", 1.0, words=("above 1",))
def hyperbolic_distance_to_itself(c):
    return np.arccosh(c) ** 2  # <- here


@blame("power", array(0.0, 1.0), words=("power below 1",))
def gamma_correction_of_black(pixels):
    corrected = pixels ** (1.0 / 2.2)  # <- here
    return np.mean(corrected)


@blame("power", array(0.0, 2.0), array(0.0, 2.0), words=("use np.linalg.norm(x)",))
def root_written_as_a_power(u, v):
    gap = np.sum((u - v) ** 2)
    return gap**0.5  # <- here


@blame("power", -2.0, 3.0, words=("stop_gradient",))
def exponent_of_a_negative_base(x, k):
    return x**k + 1.0  # <- here


@blame("cbrt", array(0.0, 8.0), words=("slope of a cube root",))
def cube_root_of_zero(volume):
    side = np.cbrt(volume)  # <- here
    return np.sum(side)


@blame("divide", 1e-200, words=("divisor is too small",))
def slope_of_a_reciprocal_overflows(x):
    return 1.0 / x  # <- here


@blame("log", array(1e-310, 1.0), words=("slope is infinite",))
def log_of_a_subnormal_probability(p):
    return -np.sum(np.log(p))  # <- here


@blame("log", array(0.0, 2.0, -3.0), harmless=True, words=("harmless",))
def where_with_an_invalid_branch(x):
    safe = np.where(x > 0.0, np.log(x), 0.0)  # <- here
    return np.sum(safe)


@blame("divide", array(1.0, 0.0), array(2.0, 0.0), harmless=True, words=("harmless",))
def where_after_a_division_by_zero(a, b):
    ratio = a / b  # <- here
    return np.sum(np.where(b == 0.0, 0.0, ratio))


@blame("exp", 1000.0, harmless=True, words=("harmless",))
def elu_by_hand_of_a_large_number(x):
    return np.where(x > 0.0, x, np.exp(x) - 1.0)  # <- here


# Faults beside something that is not finite either and is innocent.


@blame("log", array(1.0, 2.0), array(0.0, -np.inf), array(0.0, 0.5), words=("p = 0",))
def attention_with_its_mask_beside_an_impossible_answer(scores, mask, p):
    masked = scores + mask
    e = np.exp(masked - np.max(masked))
    weights = e / np.sum(e)
    return np.sum(weights * np.log(p))  # <- here


@blame("log", 0.0, -1.0, words=("q = -1", "harmless", "p = 0"))
def guarded_log_on_the_line_of_another(p, q):
    return np.where(p > 0.0, np.log(p), 0.0) + np.log(q)  # <- here


@blame("log", array(0.0, -1.0), words=("element = -1", "harmless"))
def loop_that_guards_only_its_first_step(x):
    total = 0.0
    for k, element in enumerate(x):
        surprise = np.log(element)  # <- here
        total = total + (np.where(element > 1.0, surprise, 0.0) if k == 0 else surprise)
    return total


@blame("log", 0.0, 0.0, words=("1. log gave", "2. sqrt sent inf back to y"))
def two_faults_of_two_parameters(x, y):
    surprise = np.log(x)  # <- here
    return surprise + np.sqrt(y)


@blame("log", 0.0, 0.0, words=("harmless", "divide gave inf"))
def branch_not_taken_that_is_infinite(x, y):
    return np.where(x >= 0.0, np.log(x), 1.0 / y)  # <- here


@blame("sqrt", 1000.0, 0.0, words=("harmless", "exp gave inf"))
def overflow_not_taken_beside_a_root(x, y):
    hidden = np.where(x > 0.0, x, np.exp(x) - 1.0)
    return hidden + np.sqrt(y)  # <- here


@blame("log", array(np.nan, 0.0, 2.0), words=("filled = 0",))
def missing_value_filled_in_beside_a_zero(x):
    filled = np.where(np.isnan(x), 1.0, x)
    return np.sum(np.log(filled))  # <- here


@blame("divide", array(3.0, 0.0), 1.0, words=("best = 0",))
def division_by_the_best_of_a_search_from_infinity(costs, w):
    best = np.inf
    for k in range(2):
        best = np.minimum(best, costs[k])
    return w / best  # <- here


@blame("log", array(1.0, 2.0, 3.0), 0.0, words=("p = 0",))
def forbidden_step_beside_an_impossible_one(scores, p):
    allowed = np.where(np.array([True, False, True]), scores, -np.inf)
    best = np.max(allowed)
    return best + np.log(p)  # <- here


class Quantise(wg.Function):
    """Rounds, and lets the gradient pass as if it did not."""

    check = False

    @staticmethod
    def forward(ctx, x):
        return np.round(x)

    @staticmethod
    def backward(ctx, g):
        return g


@blame("log", array(0.2, 3.1), words=("levels = 0",))
def log_of_what_a_function_rounded_away(x):
    levels = Quantise.apply(x)
    return np.sum(np.log(levels))  # <- here


@blame("multiply", array(0.0, 1.0), array(1.0, 2.0), words=("product with 0", "weight = 0"))
def weight_of_zero_on_a_forbidden_step(weight, scores):
    forbidden = np.where(np.array([False, True]), scores, -np.inf)
    weighed = weight * forbidden  # <- here
    return np.sum(np.exp(weighed))


@explain("nonfinite", "v", "sqrt", array(0.0, 0.0), helper=root_of_squares)
def unit_vector_of_zero(v):
    return np.sum(v / (root_of_squares(v) + 1e-8))


# Gradients that do not arrive.


@explain("absent", "x", "relu", -3.0, words=("dead",))
def dead_relu(x):
    hidden = wg.relu(2.0 * x)  # <- here
    return 3.0 * hidden + 1.0


DEAD = {"w": array([-1.0, -2.0], [-0.5, -1.0]), "b": array(-1.0, -1.0)}


@explain("zero", "p_w", "maximum", DEAD, array(1.0, 2.0), words=("dead",))
def dead_layer(p, x):
    def layer(p, x):
        before = p["w"] @ x + p["b"]
        return np.maximum(before, 0.0)  # <- here

    return np.sum(layer(p, x) ** 2)


@explain("absent", "w", "relu", array(0.0, 0.0), array(1.0, -1.0), words=("kink",))
def relu_at_initial_zeros(w, x):
    activation = wg.relu(w * x)  # <- here
    return np.sum(activation)


@explain("absent", "w", "maximum", array(2.0, -1.0), array(3.0, 1.0), words=("dead", "margin = -4"))
def hinge_loss_that_is_satisfied(w, x):
    margin = 1.0 - np.dot(w, x)
    return np.maximum(0.0, margin)  # <- here


@explain("absent", "x", "clip", 7.5, words=("x = 7.5", "low = -1, high = 1"))
def clipped_outside_its_bounds(x):
    bounded = np.clip(x, -1.0, 1.0)  # <- here
    return bounded**2


@explain("absent", "x", "relu6", array(8.0, 9.0), words=("saturated",))
def activation_past_its_ceiling(x):
    total = 0.0
    for element in x:
        total = total + wg.relu6(element)  # <- here
    return total


@explain("absent", "a", "maximum", 1.0, 2.0, words=("returned another of its inputs", "b = 2"))
def maximum_that_went_the_other_way(a, b):
    winner = np.maximum(a, b)  # <- here
    return winner * winner


@explain("absent", "a", "max", 0.5, 4.0, 2.0, words=("chose other elements",))
def pooled_away(a, b, c):
    window = np.stack([a, b, c])
    return np.max(window)  # <- here


@explain("absent", "w", "where", 3.0, 0.1, words=("condition", "true"))
def where_that_went_the_other_way(x, w):
    y = np.where(x > 0.0, x, w * x)  # <- here
    return y * y


@explain("absent", "w", "input", 3.0, 0.1, words=("not used", "branch that was not taken: greater was True"))
def branch_not_taken(x, w):
    if x > 0.0:
        return x * x
    return w * x


@explain("absent", "w", "input", 1.0, 2.0, words=("the input w", "not used"))
def parameter_that_is_not_used(x, w):
    return np.sin(x)


@explain("absent", "w", "input", array(1.0, 2.0), array(0.5, 0.5), words=("the input w", "not used"))
def penalty_that_was_forgotten(x, w):
    terms = {"fit": np.mean(x**2), "penalty": 0.1 * np.sum(w**2)}
    return terms["fit"]


@explain("absent", "x", "stop_gradient", 2.0, words=("on purpose",))
def stop_gradient_left_in(x):
    target = wg.stop_gradient(x * x)  # <- here
    return 3.0 * target


@explain("absent", "x", "stop_gradient", array(1.0, 2.0), words=("on purpose",))
def detached_in_a_helper(x):
    def features(x):
        return np.tanh(x).detach()  # <- here

    return np.sum(features(x))


@explain("absent", "x", "multiply", 2.0, array(1.0, 2.0), words=("left the recording",))
def detached_by_item(x, w):
    scale = (x * 3.0).item()  # <- here
    return scale * np.sum(w)


@explain("absent", "x", "exp", array(1.0, 2.0), array(1.0, 2.0), words=("left the recording",))
def detached_by_data(x, w):
    weights = np.exp(x).data  # <- here
    return np.sum(weights * w)


@explain("absent", "x", "sum", array(1.0, 2.0), 0.5, words=("left the recording",))
def detached_by_float(x, w):
    total = float(np.sum(x).item())  # <- here
    return total * w


@explain("absent", "x", "cast", array(1.2, 2.7), words=("a whole number (int64)",))
def cast_to_integers(x):
    levels = x.astype(int)  # <- here
    return np.sum(levels * 0.5)


@explain("absent", "x", "cast", array(0.3, 2.6), array(10.0, 20.0, 30.0), words=("a whole number (int64)",))
def index_computed_from_a_value(x, table):
    bins = x.astype(int)  # <- here
    return np.sum(table[bins])


@explain("absent", "x", "round", array(0.4, 1.6), array(2.0, 3.0), words=("a step",))
def quantised_by_rounding(x, w):
    steps = np.round(x * 10.0)  # <- here
    return np.sum(steps * w)


@explain("absent", "t", "floor", 3.7, words=("a step",))
def phase_by_floor(t):
    turns = np.floor(t)  # <- here
    return turns * 2.0


@explain("absent", "x", "sign", array(0.5, -2.0), words=("a step",))
def prediction_by_sign(x):
    labels = np.sign(x)  # <- here
    return np.mean((labels - 1.0) ** 2)


@explain("absent", "logits", "greater", array(0.5, -2.0, 1.0), words=("true or false",))
def accuracy_as_a_loss(logits):
    predicted = logits > 0.0  # <- here
    return 1.0 - np.mean(predicted * 1.0)


@explain("absent", "x", "greater", array(0.5, -2.0), helper=hard_step, words=("true or false",))
def hard_step_as_an_activation(x):
    return np.sum(hard_step(2.0 * x))


@explain("absent", "scores", "argmax", array(0.1, 0.9, 0.3), array(1.0, 2.0, 3.0), words=("a whole number",))
def choice_by_argmax(scores, rewards):
    best = np.argmax(scores)  # <- here
    return rewards[best]


@explain("absent", "t", "floor_divide", 7.0, words=("a step",))
def slot_by_floor_division(t):
    slot = t // 2.0  # <- here
    return slot * slot


# Gradients that do not arrive, with something beside the cause that looks like one.


@explain("absent", "a", "max", 0.5, 4.0, 2.0, words=("chose other elements",))
def pooled_away_behind_an_activation(a, b, c):
    window = np.tanh(np.stack([a, b, c]))
    return np.max(window)  # <- here


@explain("absent", "a", "relu", -1.0, 4.0, words=("dead", "before = [-3]"))
def one_dead_unit_beside_a_live_one(a, b):
    before = 3.0 * np.stack([a, b])
    return np.sum(wg.relu(before))  # <- here


@explain("absent", "y", "getitem", 1.0, 2.0, words=("chose other elements",))
def element_that_is_left_out(x, y):
    doubled = np.stack([x, y]) * 2.0
    return doubled[0]  # <- here


@explain("absent", "y", "getitem", 1.0, 5.0, words=("chose other elements",))
def median_that_is_another(x, y):
    return np.median(np.stack([x, y, 3.0 * x]))  # <- here


@explain("absent", "a", "min", 1.0, -2.0, words=("chose other elements",))
def dead_unit_that_is_not_the_one_asked_for(a, b):
    units = wg.relu(np.stack([a, b]))
    return np.min(units)  # <- here


@explain(
    "zero", "w", "multiply", array(-1.0, 2.0, 3.0), array(1.0, 0.0, 0.0), words=("2 of 3", "relu is dead", "1 of 3")
)
def readout_that_is_zero_where_units_live(w, readout):
    units = wg.relu(w)
    return np.sum(units * readout)  # <- here


@explain("zero", "x", "multiply", array(1.0, 2.0), words=("the constant [0, 1]", "the constant [1, 0]", "1 of 2"))
def masks_that_exclude_each_other(x):
    first = x * np.array([1.0, 0.0])
    second = first * np.array([0.0, 1.0])  # <- here
    return np.sum(second)


@explain("absent", "x", "relu", -2.0, words=("dead", "stop_gradient passes", "on purpose"))
def two_ways_that_are_both_cut(x):
    gate = wg.relu(x)  # <- here
    target = wg.stop_gradient(x)
    return gate + target


@explain("absent", "x", "relu", -2.0, words=("dead",))
def dead_unit_that_was_printed(x):
    hidden = 3.0 * x
    _ = f"{hidden}" if hidden < 100.0 else ""
    return wg.relu(hidden) + 1.0  # <- here


@explain("absent", "w", "input", 1.5, 2.0, words=("the input w", "not used"))
def parameter_forgotten_beside_a_loop(x, w):
    while x < 1e6:
        x = x * 2.0
    return x


@explain("absent", "x", "clip", 5.0, 0.0, 1.0, words=("dead or saturated", "lo = 0, hi = 1"))
def clipped_by_bounds_that_are_learned(x, lo, hi):
    bounded = np.clip(x, lo, hi)  # <- here
    return bounded * 2.0


@explain("absent", "lo", "clip", 5.0, 0.0, 1.0, words=("returned another of its inputs", "x = 5, hi = 1"))
def bound_that_is_not_reached(x, lo, hi):
    bounded = np.clip(x, lo, hi)  # <- here
    return bounded * 2.0


@explain("absent", "w", "where", array(1.0, 2.0), np.array([False, False]), words=("its condition is false",))
def mask_that_is_false_everywhere(w, mask):
    kept = np.where(mask, w, 1.0)  # <- here
    return np.sum(kept)


@explain("absent", "w", "where", 1.0, words=("did not choose w = 1", "greater cuts"))
def threshold_that_is_not_reached(w):
    return np.where(w > 5.0, w, 0.0) * 2.0  # <- here


@explain("zero", "x", "absolute", 0.0, words=("kink",))
def magnitude_at_zero(x):
    return np.abs(x)  # <- here


@explain("zero", "x", "cos", 0.0, words=("stationary",))
def cosine_at_its_top(x):
    return 2.0 * np.cos(x)  # <- here


@explain("zero", "x", "square", array(3.0, 3.0), words=("stationary",))
def variance_of_equal_numbers(x):
    return np.var(x)  # <- here


@explain("zero", "x", "multiply", 0.0, words=("by x itself, which is 0",))
def square_by_hand_at_zero(x):
    squared = x * x  # <- here
    return squared + 1.0


@explain("zero", "x", "multiply", 1.0, words=("multiplies 1e-200 by 1e-200", "the product underflows to 0"))
def scales_that_underflow_together(x):
    small = x * 1e-200  # <- here
    return small * 1e-200


# Gradients that are too small, too large, or cancel.


@explain("tiny", "x", "sigmoid", -60.0, words=("saturated",))
def saturated_sigmoid(x):
    gate = wg.sigmoid(x)  # <- here
    return 2.0 * gate


@explain("zero", "x", "sigmoid", array(60.0, 70.0), words=("saturated",))
def gates_stuck_open(x):
    gates = wg.sigmoid(x)  # <- here
    return np.prod(gates)


@explain("zero", "x", "tanh", 40.0, words=("saturated",))
def saturated_tanh(x):
    state = np.tanh(x)  # <- here
    return state + 1.0


@explain("zero", "x", "exp", 800.0, words=("underflow",))
def sigmoid_by_hand_underflows(x):
    return 1.0 / (1.0 + np.exp(-x))  # <- here


@explain("tiny", "z", "softmax", array(0.0, 80.0), words=("saturated",))
def saturated_softmax(z):
    weights = wg.softmax(z, axis=-1)  # <- here
    return weights[0]


@explain("tiny", "x", "erf", 8.0, words=("saturated",))
def saturated_erf(x):
    return wg.erf(x)  # <- here


@explain("tiny", "x", "exp", array(30.0, 40.0))
def kernel_of_distant_points(x):
    distance = (x[0] + x[1]) / 2.0
    return np.exp(-distance * 2.0)  # <- here


@explain("tiny", "h", "tanh", 0.8, words=("30 times",))
def vanishing_chain(h):
    for _ in range(30):
        h = np.tanh(3.0 * h)  # <- here
    return h


@explain("tiny", "h", "multiply", 1.0, words=("40 times", "1e-40 in all"))
def leaky_memory(h):
    for step in range(40):
        h = h * 0.1 + step  # <- here
    return h


@explain("tiny", "x", "multiply", 2.0, words=("by 1e-30",))
def loss_scaled_away(x):
    loss = np.log(1.0 + x * x)
    return 1e-30 * loss  # <- here


@explain("tiny", "x", "divide", 3.0, words=("by 1e-28",))
def mean_over_a_wrong_count(x):
    count = 1e28
    return x**2 / count  # <- here


@explain("zero", "u", "multiply", 0.0, 0.0, words=("by v, which is 0",))
def product_of_zero_initialised_weights(u, v):
    return u * v  # <- here


@explain(
    "zero",
    "p_first",
    "matmul",
    {"first": np.ones((2, 2)), "second": np.zeros((1, 2))},
    array(1.0, 2.0),
    words=("by p_second, which is 0",),
)
def zero_initialised_last_layer(p, x):
    hidden = np.tanh(p["first"] @ x)
    return np.sum(p["second"] @ hidden)  # <- here


@explain("zero", "x", "square", array(0.0, 0.0), words=("stationary",))
def start_at_a_stationary_point(x):
    bowl = np.square(x)  # <- here
    return np.sum(bowl) + 1.0


@explain("huge", "h", "matmul", array(1.0, 1.0), array([2.0, 1.0], [1.0, 2.0]), words=("60 times",))
def exploding_recurrence(h, w):
    for _ in range(60):
        h = w @ h  # <- here
    return np.sum(h)


@explain("huge", "x", "multiply", 1.0, words=("50 times", "1.268e30 in all"))
def growth_compounded(x):
    for _ in range(50):
        x = x * 4.0  # <- here
    return x


@explain("huge", "x", "divide", 3.0, 1e-25, words=("by 1e25",))
def division_by_a_small_number(x, scale):
    return x / scale  # <- here


@explain("huge", "x", "tan", np.pi / 2)
def tangent_near_its_pole(x):
    return np.tan(x)  # <- here


@explain("huge", "x", "log", 1e-40, words=("by 1e40", "x = 1e-40"))
def log_of_a_tiny_probability(x):
    return -np.log(x)  # <- here


@explain("huge", "x", "sqrt", 1e-60, words=("by 5e29",))
def root_of_almost_nothing(x):
    return np.sqrt(x)  # <- here


@explain("huge", "a", "inv", array([1.0, 1.0], [1.0, 1.0 + 1e-12]))
def inverse_of_a_nearly_singular_matrix(a):
    inverse = np.linalg.inv(a)  # <- here
    return inverse[0, 0]


@explain("huge", "a", "solve", array([1.0, 1.0], [1.0, 1.0 + 2.0**-50]), array(1.0, 2.0))
def equations_that_are_nearly_dependent(a, b):
    solution = np.linalg.solve(a, b)  # <- here
    return solution[0]


@explain("huge", "x", "exp", 90.0)
def rate_that_grew_exponentially(x):
    return np.exp(x)  # <- here


@explain("cancelling", "x", "subtract", 3.0, words=("cancel",))
def difference_of_a_value_with_itself(x):
    return x - x  # <- here


@explain("cancelling", "x", "subtract", 1e-9, words=("cancel",))
def difference_of_equal_forms(x):
    left = (x + 1.0) ** 2
    right = x * x + 2.0 * x
    return left - right  # <- here


@explain("cancelling", "x", "add", array(0.0, 0.0), words=("cancel",))
def losses_in_balance(x):
    left = np.sum((x - 1.0) ** 2)
    right = np.sum((x + 1.0) ** 2)
    return left + right  # <- here


@explain("cancelling", "x", "subtract", 0.5, words=("cancel",))
def small_difference_of_large_terms(x):
    gain = 1e12 * x
    loss = (1e12 - 1.0) * x
    return gain - loss  # <- here


# A gradient that was not cleared.


@_broken("values", "", (), words=("backward", "clear"))
def gradient_that_was_not_cleared():
    w = wg.Value(2.0, name="w")
    (w * 3.0).backward()
    (w * 5.0).backward()  # <- here
    return w
