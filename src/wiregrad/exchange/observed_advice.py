"""What to write instead of an op of PyTorch or JAX that broke, in the spelling of that framework.

A remedy states by the numbers at the element that broke when it applies: a logarithm at 1e-320 has an infinite slope as
one at 0 has, and what replaces zeros does not mend it. Lists run from the most specific remedy to the most general. A
number that is not known meets no condition. For every remedy, a test runs a program that breaks and the same program
written as advised, whose values and gradients must be finite.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from wiregrad.dtypes import format_brief_number

HALF_LIMITS = {"float16": 65504.0}
"""The largest number of dtypes that overflow early."""
LARGEST = {"float64": 1.7e308, "complex128": 1.7e308, **HALF_LIMITS}
"""The largest number of dtypes; that of all others is as large as in float32."""
LARGEST_FLOAT32 = 3.4e38
EXP_BOUNDS = {"float64": 700, "complex128": 700, "float16": 10}
"""Up to which argument an exponential stays far below the largest number; 80 in float32 and bfloat16."""
SHORT_DTYPES = ("float16", "bfloat16")
"""Dtypes that have three digits or fewer."""


class BrokenElement(NamedTuple):
    """The numbers at the element at which an op broke; NaN where one is not known."""

    op: str
    """The title of the op, without the mark of a write in place."""
    phase: str
    """`forward` if its value broke, `backward` if what it sent back did."""
    dtype: str
    inputs: tuple[float, ...] = ()
    """What it read, in the order of its arguments."""
    result: float = math.nan
    """What broke: the value, or the gradient sent back."""
    slot: int = 0
    """Backward: the input whose gradient broke."""
    source: str = ""
    """The title of the op that computed the first input."""
    call: str = ""
    """The function of the library inside which the op ran; empty if the user called the op itself."""
    divisor: str = ""
    """The title of the op that computed the last input."""
    divisor_call: str = ""
    """The function of the library inside which that op ran."""

    @property
    def is_forward(self) -> bool:
        """Whether its value broke."""
        return self.phase == "forward"

    @property
    def x(self) -> float:
        """The first input."""
        return self.inputs[0] if self.inputs else math.nan

    @property
    def last(self) -> float:
        """The last input: the divisor of a quotient, the exponent of a power."""
        return self.inputs[-1] if self.inputs else math.nan

    @property
    def epsilon(self) -> float:
        """A number so far from 0 that the square of its inverse is finite."""
        return 1e-2 if self.dtype in HALF_LIMITS else 1e-12

    @property
    def has_finite_inputs(self) -> bool:
        """Whether all that it read is known and finite."""
        return bool(self.inputs) and all(map(math.isfinite, self.inputs))

    @property
    def smallest_base(self) -> float:
        """A power of ten whose power is finite, and the slope of that."""
        digits = math.log10(LARGEST.get(self.dtype, LARGEST_FLOAT32)) * 0.8
        return max(float(f"1e-{int(digits / max(1.0, 1.0 - self.last))}"), self.epsilon)


class ObservedRemedy(NamedTuple):
    """Advice, and when it applies; names in braces are phrases of the framework (`spell_phrases`)."""

    advice: str
    when: Callable[[BrokenElement], bool] = lambda _: True
    is_pole: bool = True
    """Whether the result is infinite by nature, so that a wider dtype would not mend it."""


# Conditions


def _is_small_divisor(element: BrokenElement) -> bool:
    return abs(element.last) < element.epsilon


def _divides_by_small_positive(element: BrokenElement) -> bool:
    return 0 < element.last < element.epsilon


def _is_fraction_of_negative(element: BrokenElement) -> bool:
    return element.is_forward and element.x < 0 and math.isfinite(element.last) and element.last % 1 != 0


def _asks_for_the_exponent(element: BrokenElement) -> bool:
    return not element.is_forward and element.slot == 1 and element.x < 0


def _inverts_small_base(element: BrokenElement) -> bool:
    return element.last < 0 and abs(element.x) < 1


def _is_root_of_small_base(element: BrokenElement) -> bool:
    return not element.is_forward and 0 < element.last < 1 and 0 <= element.x < 1


def _is_large(element: BrokenElement) -> bool:
    return abs(element.x) > 1


def _overflows(element: BrokenElement) -> bool:
    return math.isinf(element.result) and element.has_finite_inputs


def _overflows_forward(element: BrokenElement) -> bool:
    return element.is_forward and _overflows(element)


def _overflows_backward(element: BrokenElement) -> bool:
    return not element.is_forward and _overflows(element)


def _meets_infinity(element: BrokenElement) -> bool:
    return element.is_forward and any(map(math.isinf, element.inputs)) and math.isnan(element.result)


def _gives_nan(element: BrokenElement) -> bool:
    return element.is_forward and math.isnan(element.result)


def _is_unknown(element: BrokenElement) -> bool:
    return not element.inputs


def _is_forward(element: BrokenElement) -> bool:
    return element.is_forward


def _is_backward(element: BrokenElement) -> bool:
    return not element.is_forward


def _comes_from(*titles: str) -> Callable[[BrokenElement], bool]:
    """Return the condition that the argument, which is 0, was computed by one of some ops."""
    return lambda element: element.source in titles and element.x == 0


def _is_in(*calls: str) -> Callable[[BrokenElement], bool]:
    """Return the condition that a slope broke inside of one of some functions of the library."""
    return lambda element: not element.is_forward and element.call in calls


def _divides_by_zero_of(*calls: str) -> Callable[[BrokenElement], bool]:
    """Return the condition that the divisor is 0 and was computed by one of some functions of the library."""
    return lambda element: element.last == 0 and element.divisor_call in calls


def _divides_by_root_of_zero(element: BrokenElement) -> bool:
    return element.last == 0 and element.divisor == "sqrt"


# Remedies

LOG = (
    ObservedRemedy("use {log_softmax}, which never takes the logarithm of 0", _comes_from("_softmax")),
    ObservedRemedy("use {log_sigmoid}, which never takes the logarithm of 0", _comes_from("sigmoid", "logistic")),
    ObservedRemedy("keep the argument above 0: {lib}.{op}({x_above_0})"),
)
NORMS = ("norm", "vector_norm")
SPREADS = ("std", "nanstd")
ROOT = (
    ObservedRemedy("a norm has no slope at 0: {safe_norm}", _is_in(*NORMS)),
    ObservedRemedy("the spread of equal numbers has no slope: {safe_std}", _is_in(*SPREADS)),
    ObservedRemedy("keep the argument above 0: {root}({x_above_0})"),
)
EXPONENTIAL = (
    ObservedRemedy("keep the argument below {bound}: {lib}.{op}({x_below_bound})", _is_large, is_pole=False),
)
EXP = (
    ObservedRemedy(
        "keep the argument below {bound}, {lib}.exp({x_below_bound}), or use logsumexp, softmax or softplus, which do "
        "not overflow",
        _is_large,
        is_pole=False,
    ),
)
ARC = (ObservedRemedy("keep the argument inside (-1, 1): {x_inside_1}"),)
POSITIVE = (ObservedRemedy("keep the argument above 0: {x_above_0}"),)
SOFTMAX = (ObservedRemedy("if a whole row is masked with -inf, leave it out, or mask with {masked}", _is_forward),)
DIVIDE = (
    ObservedRemedy(
        "the divisor is a norm of 0, which has no slope: divide by {safe_norm}", _divides_by_zero_of(*NORMS)
    ),
    ObservedRemedy(
        "the divisor is the spread of equal numbers, which has no slope: divide by {safe_std}",
        _divides_by_zero_of(*SPREADS),
    ),
    ObservedRemedy(
        "the divisor is a root of 0, whose slope is infinite: divide by {lib}.sqrt({x_above_0})",
        _divides_by_root_of_zero,
    ),
    ObservedRemedy(
        "keep the divisor from 0: divide by {d_above_0} where it is never negative, or by {d_from_0}",
        lambda element: element.last == 0,
    ),
    ObservedRemedy("the divisor is too small: divide by {d_above_0}", _divides_by_small_positive, is_pole=False),
    ObservedRemedy("the divisor is too small: divide by {d_from_0}", _is_small_divisor, is_pole=False),
    ObservedRemedy("keep the divisor from 0", _is_unknown),
)
FILL = (ObservedRemedy("the infinity that it writes reaches the loss: write {masked}, or leave such rows out"),)
SPREAD = (ObservedRemedy("the spread of one number is NaN: take more, or pass correction=0", _is_forward),)
NO_TARGET = (ObservedRemedy("no target counts: leave such batches out, or divide the sum by the count, at least 1"),)
VECTORS = (
    ObservedRemedy(
        "vectors have no derivative where two values are equal: use the values alone, or add different small "
        "numbers to the diagonal",
        _is_backward,
    ),
)
REMEDIES: Mapping[str, tuple[ObservedRemedy, ...]] = {
    **dict.fromkeys(("log", "log2", "log10"), LOG),
    "log1p": (ObservedRemedy("keep the argument above -1: {lib}.log1p({x_above_minus_1})"),),
    **dict.fromkeys(("sqrt", "rsqrt"), ROOT),
    "pow": (
        ObservedRemedy(
            "a power of a negative number is defined for whole exponents only: {x_above_0} ** p",
            _is_fraction_of_negative,
        ),
        ObservedRemedy(
            "a power of a negative number has no slope along its exponent: x ** {fixed_exponent}",
            _asks_for_the_exponent,
        ),
        ObservedRemedy(
            "a power with a negative exponent divides: keep the base from 0, {base_from_0} ** p", _inverts_small_base
        ),
        ObservedRemedy(
            "the slope of a power below 1 is infinite at 0: keep the base above 0, {x_above_0} ** p",
            _is_root_of_small_base,
        ),
        ObservedRemedy("keep the base from 0, or the exponent small", _is_unknown),
    ),
    "integer_pow": (
        ObservedRemedy(
            "a power with a negative exponent divides: keep the base from 0, {d_from_0} ** p",
            lambda element: abs(element.x) < element.epsilon,
        ),
    ),
    **dict.fromkeys(("div", "reciprocal"), DIVIDE),
    **dict.fromkeys(("expm1", "exp2", "sinh", "cosh"), EXPONENTIAL),
    "exp": EXP,
    **dict.fromkeys(("acos", "asin", "atanh", "erfinv", "erf_inv"), ARC),
    "acosh": (ObservedRemedy("keep the argument above 1: {x_above_1}"),),
    "logit": (ObservedRemedy("keep the argument inside (0, 1): {x_inside_01}"),),
    "hypot": (ObservedRemedy("keep one of the arguments from 0: {hypot}", _is_backward),),
    "atan2": (ObservedRemedy("keep one of the arguments from 0: {atan2}", _is_backward),),
    "xlogy": (ObservedRemedy("keep the second argument above 0: {lib}.xlogy(x, {y_above_0})"),),
    **dict.fromkeys(("lgamma", "digamma"), POSITIVE),
    **dict.fromkeys(("_softmax", "_log_softmax"), SOFTMAX),
    **dict.fromkeys(("masked_fill", "where", "select_n", "full_like"), FILL),
    **dict.fromkeys(("std", "var", "std_mean", "var_mean"), SPREAD),
    "mean": (ObservedRemedy("the mean of no numbers is NaN: leave out what is empty", _gives_nan),),
    **dict.fromkeys(("nll_loss_forward", "nll_loss2d_forward"), NO_TARGET),
    "_linalg_slogdet": (ObservedRemedy("the matrix is singular: add a little to its diagonal, {ridge}"),),
    **dict.fromkeys(("_linalg_svd", "_linalg_eigh"), VECTORS),
    "mul": (
        ObservedRemedy(
            "0 times an infinity is NaN: choose with {lib}.where(mask, x, 0) instead of multiplying", _meets_infinity
        ),
    ),
    **dict.fromkeys(
        ("add", "sub"),
        (ObservedRemedy("two infinities met: mask with {masked}, or leave such rows out", _meets_infinity),),
    ),
}
"""The remedies of each op, by its title in the framework."""
GENERAL = (
    ObservedRemedy(
        "the result is beyond the largest number of {dtype}: scale the numbers down, or work with logarithms",
        _overflows_forward,
        is_pole=False,
    ),
)
HALF = "scale the values down, or compute this op in float32 or bfloat16 instead of {dtype}"
"""Advice for results that only a short dtype does not hold."""
ARITHMETIC_OPS = {"mul", "div", "pow", "integer_pow", "exp", "prod", "cumprod", "mm", "bmm", "addmm", "dot_general"}
ARITHMETIC_OPS |= {"convolution", "conv_general_dilated", "_to_copy", "convert_element_type"}
"""Ops that send back more than the dtype holds although their slopes are finite."""
GRADIENT_TOO_LARGE = ObservedRemedy(
    "what flows back is beyond the largest number of {dtype}: scale the loss or the inputs down", _overflows_backward
)
PHRASES: Mapping[str, Mapping[str, str]] = {
    "torch": {
        "lib": "torch",
        "root": "torch.{op}",
        "x_above_0": "x.clamp_min({epsilon})",
        "y_above_0": "y.clamp_min({epsilon})",
        "x_above_1": "x.clamp_min(1 + {edge})",
        "x_above_minus_1": "x.clamp_min(-1 + {edge})",
        "x_inside_1": "x.clamp(-1 + {edge}, 1 - {edge})",
        "x_inside_01": "x.clamp({edge}, 1 - {edge})",
        "x_below_bound": "x.clamp_max({bound})",
        "d_above_0": "d.clamp_min({epsilon})",
        "d_from_0": "torch.where(d.abs() < {epsilon}, 1, d)",
        "base_from_0": "torch.where(x.abs() < {base}, 1, x)",
        "fixed_exponent": "p.detach()",
        "hypot": "torch.hypot(x, torch.where(y == 0, {epsilon}, y))",
        "atan2": "torch.atan2(y, torch.where(x == 0, {epsilon}, x))",
        "ridge": "a + 1e-3 * torch.eye(n)",
        "log_softmax": "torch.log_softmax(x, -1)",
        "log_sigmoid": "torch.nn.functional.logsigmoid(x)",
    },
    "jax": {
        "lib": "jnp",
        "root": "jnp.{op}",
        "x_above_0": "jnp.maximum(x, {epsilon})",
        "y_above_0": "jnp.maximum(y, {epsilon})",
        "x_above_1": "jnp.maximum(x, 1 + {edge})",
        "x_above_minus_1": "jnp.maximum(x, -1 + {edge})",
        "x_inside_1": "jnp.clip(x, -1 + {edge}, 1 - {edge})",
        "x_inside_01": "jnp.clip(x, {edge}, 1 - {edge})",
        "x_below_bound": "jnp.minimum(x, {bound})",
        "d_above_0": "jnp.maximum(d, {epsilon})",
        "d_from_0": "jnp.where(abs(d) < {epsilon}, 1, d)",
        "base_from_0": "jnp.where(abs(x) < {base}, 1, x)",
        "fixed_exponent": "jax.lax.stop_gradient(p)",
        "hypot": "jnp.hypot(x, jnp.where(y == 0, {epsilon}, y))",
        "atan2": "jnp.arctan2(y, jnp.where(x == 0, {epsilon}, x))",
        "ridge": "a + 1e-3 * jnp.eye(n)",
        "log_softmax": "jax.nn.log_softmax(x)",
        "log_sigmoid": "jax.nn.log_sigmoid(x)",
        "safe_norm": "jnp.linalg.norm(jnp.where(x == 0, {epsilon}, x))",
        "safe_std": "jnp.sqrt(jnp.var(x) + {epsilon})",
    },
}
"""How each framework writes what the advice mentions, with numbers that suit the dtype."""


def spell_phrases(element: BrokenElement, framework: str) -> dict[str, str]:
    """Return the phrases of a framework, with numbers that the dtype of the element holds.

    >>> spell_phrases(BrokenElement("log", "forward", "float32"), "torch")["x_above_0"]
    'x.clamp_min(1e-12)'
    """
    is_short = element.dtype in SHORT_DTYPES
    numbers = {
        "op": element.op,
        "dtype": element.dtype,
        "epsilon": format_brief_number(element.epsilon),
        "edge": "0.01" if is_short else "1e-6",
        "bound": str(EXP_BOUNDS.get(element.dtype, 80)),
        "base": format_brief_number(element.smallest_base),
        "masked": "-1e4" if element.dtype in HALF_LIMITS else "-1e9",
    }
    phrases = {name: phrase.format(**numbers) for name, phrase in PHRASES[framework].items()}
    if (framework, element.op) == ("jax", "rsqrt"):
        phrases["root"] = "jax.lax.rsqrt"
    return {**numbers, **phrases}


def find_remedy(element: BrokenElement) -> ObservedRemedy | None:
    """Return the first remedy that applies; None if nothing is known."""
    general = (*GENERAL, GRADIENT_TOO_LARGE) if element.op in ARITHMETIC_OPS else GENERAL
    return next((remedy for remedy in (*REMEDIES.get(element.op, ()), *general) if remedy.when(element)), None)


def only_overflows(element: BrokenElement) -> bool:
    """Return whether a value is infinite only because its dtype is short."""
    if element.dtype not in HALF_LIMITS or not _overflows_forward(element):
        return False
    remedy = find_remedy(element)
    return remedy is None or not remedy.is_pole


def advise(element: BrokenElement, framework: str) -> str:
    """Return what to write instead of an op that broke; empty if nothing is known.

    >>> advise(BrokenElement("log", "backward", "float64", (1e-320,), math.inf), "torch")
    'keep the argument above 0: torch.log(x.clamp_min(1e-12))'
    """
    if only_overflows(element):
        return HALF.format(dtype=element.dtype)
    remedy = find_remedy(element)
    return "" if remedy is None else remedy.advice.format(**spell_phrases(element, framework))
