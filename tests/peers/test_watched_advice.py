"""What `seen.blame()` advises mends the program that it was asked about.

Each case is a program that breaks, a piece of the advice and the program as the advice has it. At the same numbers, the
value and the gradients of the second one are finite.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import pytest
import torch

import wiregrad as wg
from wiregrad.exchange import observed_advice
from wiregrad.exchange.observed_advice import GENERAL, GRADIENT_TOO_LARGE, HALF, REMEDIES

FUNCTIONAL = torch.nn.functional


class Case(NamedTuple):
    """A program of x that breaks, what is advised, and the program that follows the advice."""

    broken: str
    advice: str
    mended: str
    x: tuple[float, ...]
    dtype: str = "float32"

    @property
    def name(self) -> str:
        return f"{self.broken} at {self.x[0]:g} in {self.dtype}"


def clamp(broken: str, mended: str, *firsts: float, says: str = "", dtype: str = "float32") -> list[Case]:
    """Return the cases of a program at several numbers, each beside one at which nothing breaks."""
    return [Case(broken, says or mended, mended, (first, 0.5), dtype) for first in firsts]


TORCH_CASES = [
    *(
        case
        for op in ("log", "log2", "log10")
        for case in clamp(f"torch.{op}(x)", f"torch.{op}(x.clamp_min(1e-12))", 0.0, -1.0, 1e-42)
    ),
    *clamp("torch.log(x)", "torch.log(x.clamp_min(1e-12))", 1e-320, 0.0, dtype="float64"),
    *clamp("torch.log(x)", "torch.log(x.clamp_min(0.01))", 6e-8, 0.0, dtype="float16"),
    *clamp(
        "torch.where(x > 0, torch.log(x), 0)",
        "torch.where(x > 0, torch.log(x.clamp_min(1e-12)), 0)",
        0.0,
        1e-42,
        says="torch.log(x.clamp_min(1e-12))",
    ),
    *clamp("torch.log(torch.softmax(x * 400, -1))", "torch.log_softmax(x, -1)", -2.0),
    *clamp("torch.log(torch.sigmoid(x))", "torch.nn.functional.logsigmoid(x)", -200.0),
    *clamp("x * torch.log(x)", "x * torch.log(x.clamp_min(1e-12))", 0.0, says="torch.log(x.clamp_min(1e-12))"),
    *clamp("torch.log1p(x)", "torch.log1p(x.clamp_min(-1 + 1e-6))", -1.0, -2.0),
    *clamp("torch.sqrt(x)", "torch.sqrt(x.clamp_min(1e-12))", 0.0, -1.0),
    Case(
        "x / (x * x).sum().sqrt()",
        "divide by torch.sqrt(x.clamp_min(1e-12))",
        "x / torch.sqrt((x * x).sum().clamp_min(1e-12))",
        (0.0, 0.0),
    ),
    *clamp("torch.sqrt(x)", "torch.sqrt(x.clamp_min(0.01))", 0.0, dtype="float16"),
    *clamp("torch.rsqrt(x)", "torch.rsqrt(x.clamp_min(1e-12))", 0.0, -1.0, 1e-30),
    *clamp("x ** 0.5", "x.clamp_min(1e-12) ** 0.5", 0.0, -1.0, says="x.clamp_min(1e-12) ** p"),
    *clamp("x ** -1.5", "x.clamp_min(1e-12) ** -1.5", -1.0, says="x.clamp_min(1e-12) ** p"),
    *clamp("x ** -1", "torch.where(x.abs() < 1e-12, 1, x) ** -1", 0.0, 1e-42, -1e-30, says="x.abs() < 1e-12, 1, x)"),
    *clamp("x ** -2.0", "torch.where(x.abs() < 1e-10, 1, x) ** -2.0", 0.0, 1e-15, says="torch.where(x.abs() < 1e-10"),
    *clamp("x ** -4", "torch.where(x.abs() < 1e-6, 1, x) ** -4", 1e-8, says="torch.where(x.abs() < 1e-6"),
    *clamp("x ** x", "x ** x.detach()", -2.0, says="x ** p.detach()"),
    *clamp("x ** 20", "(x * 1e-3) ** 20", 1e3, says="scale the numbers down"),
    *clamp("1 / x", "1 / x.clamp_min(1e-12)", 0.0, 1e-42, 1e-25, says="d.clamp_min(1e-12)"),
    *clamp("torch.ones(2) / x", "torch.ones(2) / x.clamp_min(1e-12)", 0.0, 1e-42, 1e-25, says="d.clamp_min(1e-12)"),
    *clamp(
        "torch.ones(2) / x",
        "torch.ones(2) / torch.where(x.abs() < 1e-12, 1, x)",
        -1e-42,
        -1e-25,
        says="torch.where(d.abs() < 1e-12, 1, d)",
    ),
    *clamp(
        "torch.where(x != 0, torch.ones(2) / x, 0)",
        "torch.where(x != 0, torch.ones(2) / torch.where(x.abs() < 1e-12, 1, x), 0)",
        0.0,
        says="torch.where(d.abs() < 1e-12, 1, d)",
    ),
    *clamp("x / (x * 0)", "x / (x * 0).clamp_min(1e-12)", 1.0, says="d.clamp_min(1e-12)"),
    *clamp("x / (x * 0)", "x / (x * 0).clamp_min(0.01)", 1.0, says="d.clamp_min(0.01)", dtype="float16"),
    Case("x / x.norm()", "d.clamp_min(1e-12)", "x / x.norm().clamp_min(1e-12)", (0.0, 0.0)),
    Case("x / x.std()", "d.clamp_min(1e-12)", "x / x.std().clamp_min(1e-12)", (1.0, 1.0)),
    *clamp("torch.exp(x)", "torch.exp(x.clamp_max(80))", 100.0),
    *clamp("torch.exp(x)", "torch.exp(x.clamp_max(700))", 1e4, dtype="float64"),
    *clamp("torch.exp(x)", "torch.exp(x.float()) * 1e-3", 12.0, says="compute this op in float32", dtype="float16"),
    *clamp(
        "torch.where(x < 80, torch.exp(x), 0)",
        "torch.where(x < 80, torch.exp(x.clamp_max(80)), 0)",
        100.0,
        says="torch.exp(x.clamp_max(80))",
    ),
    *clamp("torch.log(1 + torch.exp(x))", "FUNCTIONAL.softplus(x)", 100.0, says="softplus"),
    *(
        case
        for op in ("expm1", "exp2", "sinh", "cosh")
        for case in clamp(f"torch.{op}(x)", f"torch.{op}(x.clamp_max(80))", 200.0)
    ),
    *(
        case
        for op in ("acos", "asin", "atanh", "erfinv")
        for case in clamp(
            f"torch.{op}(x)", f"torch.{op}(x.clamp(-1 + 1e-6, 1 - 1e-6))", 1.0, -1.0, 1.5, says="x.clamp("
        )
    ),
    *clamp("torch.atanh(x)", "torch.atanh(x.clamp(-1 + 0.01, 1 - 0.01))", 1.0, says="1 - 0.01", dtype="bfloat16"),
    Case("torch.acosh(x)", "x.clamp_min(1 + 1e-6)", "torch.acosh(x.clamp_min(1 + 1e-6))", (1.0, 2.0)),
    Case("torch.acosh(x)", "x.clamp_min(1 + 1e-6)", "torch.acosh(x.clamp_min(1 + 1e-6))", (0.5, 2.0)),
    *clamp("torch.logit(x)", "torch.logit(x.clamp(1e-6, 1 - 1e-6))", 0.0, 1.0, 2.0, says="x.clamp(1e-6, 1 - 1e-6)"),
    *clamp("torch.hypot(x, x)", "torch.hypot(x, torch.where(x == 0, 1e-12, x))", 0.0, says="torch.where(y == 0, 1e-12"),
    *clamp("torch.xlogy(x, x)", "torch.xlogy(x, x.clamp_min(1e-12))", 0.0, -1.0, says="y.clamp_min(1e-12)"),
    *(
        case
        for op in ("lgamma", "digamma")
        for case in clamp(f"torch.{op}(x)", f"torch.{op}(x.clamp_min(1e-12))", 0.0, says="x.clamp_min(1e-12)")
    ),
    *clamp(
        "torch.softmax(x.masked_fill(x > 0, -torch.inf), -1)",
        "torch.softmax(x.masked_fill(x > 0, -1e9), -1)",
        1.0,
        says="-1e9",
    ),
    *clamp(
        "x.masked_fill(x > 0, -torch.inf).logsumexp(0)", "x.masked_fill(x > 0, -1e9).logsumexp(0)", 1.0, says="-1e9"
    ),
    *clamp(
        "x.masked_fill(x > 0.7, -torch.inf) * (x < 0.7)",
        "torch.where(x < 0.7, x.masked_fill(x > 0.7, -torch.inf), 0)",
        1.0,
        says="torch.where(mask, x, 0)",
    ),
    *clamp(
        "(x.masked_fill(x > 0, -torch.inf) - x.masked_fill(x > 0, -torch.inf).max()).exp()",
        "(x.masked_fill(x > 0, -1e9) - x.masked_fill(x > 0, -1e9).max()).exp()",
        1.0,
        says="-1e9",
    ),
    Case("x.std()", "correction=0", "x.std(correction=0)", (1.0,)),
    Case("x.var()", "correction=0", "x.var(correction=0)", (1.0,)),
    *clamp("x[x > 5].mean()", "x[x > 0].mean()", 1.0, says="leave out what is empty"),
    *clamp(
        "FUNCTIONAL.cross_entropy(x[None], torch.tensor([-100]))",
        "FUNCTIONAL.cross_entropy(x[None], torch.tensor([-100]), reduction='sum') / max(0, 1)",
        1.0,
        says="at least 1",
    ),
    *clamp(
        "torch.logdet(torch.outer(x, x))",
        "torch.logdet(torch.outer(x, x) + 1e-3 * torch.eye(2))",
        1.0,
        says="torch.eye",
    ),
    Case(
        "torch.linalg.eigh(torch.diag(x))[1]",
        "different small numbers",
        "torch.linalg.eigh(torch.diag(x + torch.tensor([0.0, 1e-3])))[1]",
        (1.0, 1.0),
    ),
    Case("torch.linalg.svd(torch.diag(x))[0]", "the values alone", "torch.linalg.svdvals(torch.diag(x))", (1.0, 1.0)),
    *clamp("x * x", "(x * 1e-15) * (x * 1e-15)", 1e30, says="scale the numbers down"),
    *clamp("torch.prod(torch.outer(x, x))", "torch.log(torch.outer(x, x)).sum()", 1e12, says="work with logarithms"),
    *clamp("x @ x", "(x * 1e-15) @ (x * 1e-15)", 1e30, says="scale the numbers down"),
    *clamp("torch.tanh(x * 1e30) * 1e30", "torch.tanh(x * 1e30) * 1.0", 0.0, says="scale the loss"),
    *clamp("torch.exp(x.float())", "torch.exp(x.float()) * 1e-3", 12.0, says="scale the loss", dtype="float16"),
    *clamp("x * x", "x.float() * x.float() * 1e-3", 1e3, says="float32", dtype="float16"),
]


def watch_torch(program: str, case: Case) -> tuple[Any, torch.Tensor, torch.Tensor]:
    x = torch.tensor(case.x, dtype=getattr(torch, case.dtype), requires_grad=True)
    with wg.watch() as seen:
        loss = eval(program).sum()
        loss.backward()
    assert x.grad is not None
    return seen, loss.detach(), x.grad


@pytest.mark.filterwarnings("ignore:(std|var):UserWarning")
@pytest.mark.parametrize("case", TORCH_CASES, ids=lambda case: case.name)
def test_advice_mends_a_program_of_pytorch(case: Case) -> None:
    seen, _, _ = watch_torch(case.broken, case)
    mended, value, gradient = watch_torch(case.mended, case)

    assert case.advice in seen.blame().origins[0].suggestion
    assert (bool(value.isfinite()), gradient.isfinite().tolist()) == (True, [True] * len(case.x))
    assert not mended.blame()


SAFE_NORM = "jnp.linalg.norm(jnp.where(x == 0, 1e-12, x))"
SAFE_ROOT = "divide by jnp.sqrt(jnp.maximum(x, 1e-12))"
NORM_PROGRAMS = ("{}", "x / {}", "x / jnp.maximum({}, 1e-8)", "x / ({} + 1e-8)", "jnp.where(x > 0, {}, 0)")
STD_PROGRAMS = ("{}", "(x - jnp.mean(x)) / {}", "(x - jnp.mean(x)) / ({} + 1e-8)")


def zeros(program: str, mended: str, broken: str = "", says: str = "") -> list[Case]:
    """Return the case of a program of a norm or spread, in braces, at zeros; mended, another one stands there."""
    broken = broken or ("jnp.linalg.norm(x)" if "norm" in mended else "jnp.std(x)")
    return [Case(program.format(broken), says or mended, program.format(mended), (0.0, 0.0))]


JAX_CASES = [
    *clamp("jnp.log(x)", "jnp.log(jnp.maximum(x, 1e-12))", 0.0, -1.0, 1e-42),
    *clamp("jnp.log(jax.nn.sigmoid(x))", "jax.nn.log_sigmoid(x)", -200.0),
    *clamp("jnp.log1p(x)", "jnp.log1p(jnp.maximum(x, -1 + 1e-6))", -1.0),
    *clamp("jnp.sqrt(x)", "jnp.sqrt(jnp.maximum(x, 1e-12))", 0.0, -1.0),
    *clamp("jax.lax.rsqrt(x)", "jax.lax.rsqrt(jnp.maximum(x, 1e-12))", 0.0),
    *clamp("x ** 1.5", "jnp.maximum(x, 1e-12) ** 1.5", -1.0, says="jnp.maximum(x, 1e-12) ** p"),
    *clamp("x ** -2", "jnp.where(abs(x) < 1e-12, 1, x) ** -2", 0.0, says="jnp.where(abs(d) < 1e-12, 1, d) ** p"),
    *clamp("jnp.float32(1) / x", "jnp.float32(1) / jnp.maximum(x, 1e-12)", 0.0, 1e-25, says="jnp.maximum(d, 1e-12)"),
    *clamp(
        "jnp.float32(1) / x",
        "jnp.float32(1) / jnp.where(abs(x) < 1e-12, 1, x)",
        -1e-25,
        says="jnp.where(abs(d) < 1e-12",
    ),
    *clamp("jnp.exp(x)", "jnp.exp(jnp.minimum(x, 80))", 100.0),
    *clamp("jnp.sinh(x)", "jnp.sinh(jnp.minimum(x, 80))", 200.0),
    *clamp(
        "jnp.arccos(x)", "jnp.arccos(jnp.clip(x, -1 + 1e-6, 1 - 1e-6))", 1.0, says="jnp.clip(x, -1 + 1e-6, 1 - 1e-6)"
    ),
    *clamp("jnp.arccosh(x + 0.5)", "jnp.arccosh(jnp.maximum(x, 1 + 1e-6))", 0.5, says="jnp.maximum(x, 1 + 1e-6)"),
    *clamp("jnp.arctan2(x, x)", "jnp.arctan2(x, jnp.where(x == 0, 1e-12, x))", 0.0, says="jnp.where(x == 0, 1e-12, x)"),
    *clamp("x * x", "(x * 1e-15) * (x * 1e-15)", 1e30, says="scale the numbers down"),
    *(case for program in NORM_PROGRAMS for case in zeros(program, SAFE_NORM)),
    *(case for program in STD_PROGRAMS for case in zeros(program, "jnp.sqrt(jnp.var(x) + 1e-12)")),
    *zeros("x / {}", "jnp.sqrt(jnp.maximum(jnp.sum(x * x), 1e-12))", "jnp.sqrt(jnp.sum(x * x))", says=SAFE_ROOT),
]


@pytest.mark.parametrize("case", JAX_CASES, ids=lambda case: case.name)
def test_advice_mends_a_function_of_jax(case: Case) -> None:
    x = jnp.array(case.x, case.dtype)
    broken, mended = (eval(f"lambda x: jnp.sum({program})", globals()) for program in (case.broken, case.mended))
    seen = wg.watch(broken, x)

    assert case.advice in seen.blame().origins[0].suggestion
    assert bool(jnp.isfinite(mended(x)))
    assert jnp.isfinite(jax.grad(mended)(x)).tolist() == [True] * len(case.x)


@pytest.mark.filterwarnings("ignore:(std|var):UserWarning")
def test_every_remedy_has_a_program_that_it_mends(monkeypatch: pytest.MonkeyPatch) -> None:
    advised: set[str] = {HALF}
    find = observed_advice.find_remedy

    def note(element: Any) -> Any:
        remedy = find(element)
        advised.update([remedy.advice] if remedy else [])
        return remedy

    monkeypatch.setattr(observed_advice, "find_remedy", note)
    for case in TORCH_CASES:
        watch_torch(case.broken, case)[0].blame()
    for case in JAX_CASES:
        wg.watch(eval(f"lambda x: jnp.sum({case.broken})", globals()), jnp.array(case.x, case.dtype)).blame()
    remedies = [*(remedy for rules in REMEDIES.values() for remedy in rules), *GENERAL, GRADIENT_TOO_LARGE]
    unknown = {"keep the divisor from 0", "keep the base from 0, or the exponent small"}

    assert {remedy.advice for remedy in remedies} - advised == unknown


@pytest.mark.parametrize(
    ("program", "advice"),
    [("1 / (x - x)", "keep the divisor from 0"), ("x ** -1", "the base from 0"), ("x.log()", "torch.log(x.clamp_min")],
)
def test_general_advice_is_given_where_the_numbers_were_not_kept(program: str, advice: str) -> None:
    x = torch.zeros(2000, requires_grad=True)
    with wg.watch(keep="summaries") as seen:
        eval(program, {"x": x}).sum().backward()

    assert advice in seen.blame().origins[0].suggestion
