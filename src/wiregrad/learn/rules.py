"""Questions that ask for a backward rule in Python; the rule is compared with slopes measured at random points.

These belong to notebooks: the page has no Python, so this module has no twin there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from wiregrad.errors import short_repr
from wiregrad.ir import Op, Pattern
from wiregrad.learn.answers import Verdict, refuse_answer
from wiregrad.learn.questions import Question, no_question_error
from wiregrad.learn.quiz_run import LEAF_RANGES, Draws, QuizCircuit, show_number
from wiregrad.learn.sentences import NEUTRAL, PROMPTS, TITLES, WORDS, describe_mistake, fill_sentence
from wiregrad.ops import Elementwise

RULE_POINTS: Final = 8
RULE_TOLERANCE: Final = 1e-5
KINK_DISTANCE: Final = 0.05
"""How far from a kink the points are, measured by the kink's own condition."""
STENCIL_STEP: Final = 1e-3


@dataclass(frozen=True)
class RulePoint:
    """One point at which a rule is tried: what arrives, the inputs, the output, and the measured slopes."""

    upstream: float
    inputs: tuple[float, ...]
    output: float
    slopes: tuple[float, ...]

    def describe(self, op: Op) -> str:
        """Write the point as `upstream = 2, a = 1.5`."""
        parts = [("upstream", self.upstream), *zip(op.inputs, self.inputs, strict=True)]
        return ", ".join(f"{name} = {show_number(x)}" for name, x in parts)


def draw_rule_question(
    owner: QuizCircuit, kind: str, seed: int, number: int, fixed: Mapping[str, float], code: int
) -> Question:
    """Draw an op of the circuit whose rule is to be written; raise `NoQuestionError` if there is none."""
    draws = Draws(seed, code, number)
    nodes = {owner.ops[node].name: node for node in owner.functions if _has_plain_rule(owner.ops[node])}
    nodes = {name: node for name, node in nodes.items() if len(measure_points(owner.ops[node], seed)) == RULE_POINTS}
    if not nodes:
        raise no_question_error(owner, kind)
    node = nodes[draws.choose(list(nodes))]
    op = owner.ops[node]
    fields = {"inputs": ", ".join(op.inputs), "node": op.expression(*op.inputs), "count": str(RULE_POINTS)}
    return Question(
        kind=kind,
        form="rule",
        seed=seed,
        number=number,
        target=(node,),
        prompt=fill_sentence(PROMPTS["rule"], fields),
        leaves={},
        given=(),
        answer=None,
        accepted=(),
        options=(),
        mistakes=(),
        neutral=NEUTRAL["rule"],
        hint=f"{op.name} {op.pattern.value}.",
        step=f"{op.name} {op.pattern.value}.",
        why=fill_sentence(WORDS["why.rule"], fields),
    )


def _has_plain_rule(op: Op) -> bool:
    is_elementwise = isinstance(op, Elementwise) and not op.takes_bool and not op.variadic and not op.per_call
    return is_elementwise and op.pattern is not Pattern.BLOCK and all(name.isidentifier() for name in op.inputs)


def measure_points(op: Op, seed: int) -> list[RulePoint]:
    """Measure the slopes of an op at random points, away from kinks and from where it is undefined."""
    draws = Draws(seed, len(op.name))
    points: list[RulePoint] = []
    for attempt in range(60):
        low, high, signed = LEAF_RANGES[attempt % len(LEAF_RANGES)]
        numbers = [(low + draws.below(high - low + 1)) / 10 + draws.below(90) / 1000 for _ in (0, *op.inputs)]
        signs = [-1.0 if signed and draws.below(2) else 1.0 for _ in numbers]
        upstream, *inputs = (number * sign for number, sign in zip(numbers, signs, strict=True))
        point = _measure_point(op, upstream, inputs)
        if point is not None:
            points.append(point)
        if len(points) == RULE_POINTS:
            break
    return points


def _measure_point(op: Op, upstream: float, inputs: Sequence[float]) -> RulePoint | None:
    xs = [np.float64(x) for x in inputs]
    with np.errstate(all="ignore"):
        if any(abs(float(kink.at(*xs))) < KINK_DISTANCE for kink in op.kinks):
            return None
        output = float(op.compute(*xs))
        slopes = tuple(_measure_slope(op, xs, slot) for slot in range(len(xs)))
    if not all(map(math.isfinite, (output, *slopes))):
        return None
    return RulePoint(upstream, tuple(map(float, xs)), output, slopes)


def _measure_slope(op: Op, xs: Sequence[Any], slot: int) -> float:
    """Return the slope for one input by a five-point stencil."""
    step = STENCIL_STEP * max(1.0, abs(float(xs[slot])))

    def shift(count: int) -> float:
        moved = [x + count * step if k == slot else x for k, x in enumerate(xs)]
        return float(op.compute(*moved))

    return (8.0 * (shift(1) - shift(-1)) - (shift(2) - shift(-2))) / (12.0 * step)


def check_rule(owner: QuizCircuit, question: Question, rule: object) -> Verdict:
    """Return the verdict on a rule: right, a named mistake, or the point at which it does not agree."""
    op = owner.ops[question.target[0]]
    inputs = ", ".join(op.inputs)
    if not callable(rule):
        return refuse_answer(f"A rule is a function: lambda upstream, {inputs}: ...")
    points = measure_points(op, question.seed)
    results: list[tuple[float, ...]] = []
    for point in points:
        result = _call_rule(rule, op, point)
        if isinstance(result, str):
            return refuse_answer(result)
        results.append(result)
    if _agrees(results, [tuple(point.upstream * slope for slope in point.slopes) for point in points]):
        return Verdict(True, "right", TITLES["right"], "")
    for key, numbers in _predict_rules(op, points):
        if _agrees(results, numbers):
            return Verdict(False, key, *describe_mistake("rule", key, {"op": op.name}))
    wanted = [tuple(point.upstream * slope for slope in point.slopes) for point in points]
    first = next(k for k in range(len(points)) if not _agrees(results[k : k + 1], wanted[k : k + 1]))
    text = fill_sentence(question.neutral, {"point": points[first].describe(op)})
    return Verdict(False, "neutral", TITLES["neutral"], text)


def _call_rule(rule: Callable[..., object], op: Op, point: RulePoint) -> tuple[float, ...] | str:
    """Return what a rule gives at a point as numbers, or what is the matter with it."""
    try:
        result = rule(point.upstream, *point.inputs)
    except Exception as error:
        name = f"{type(error).__name__}: {error}"
        return fill_sentence(WORDS["rule.raised"], {"error": name, "point": point.describe(op)})
    parts = result if isinstance(result, tuple | list | np.ndarray) else (result,)
    try:
        numbers = tuple(0.0 if part is None else float(part) for part in parts)
    except (TypeError, ValueError):
        numbers = ()
    if len(numbers) != len(op.inputs):
        return fill_sentence(WORDS["rule.count"], {"count": str(len(op.inputs)), "got": short_repr(result)})
    return numbers


def _agrees(results: Sequence[tuple[float, ...]], wanted: Sequence[tuple[float, ...]]) -> bool:
    return all(
        abs(x - y) <= RULE_TOLERANCE * max(1.0, abs(y))
        for got, right in zip(results, wanted, strict=True)
        for x, y in zip(got, right, strict=True)
    )


def _predict_rules(op: Op, points: Sequence[RulePoint]) -> Iterator[tuple[str, list[tuple[float, ...]]]]:
    """Return what mistaken rules would give at the points."""
    rules: dict[str, Callable[[RulePoint], tuple[float, ...]]] = {
        "upstream-only": lambda at: (at.upstream,) * len(at.slopes),
        "local-only": lambda at: at.slopes,
        "forward-for-local": lambda at: (at.upstream * at.output,) * len(at.slopes),
        "own-not-other": lambda at: tuple(at.upstream * x for x in at.inputs),
        "sign": lambda at: tuple(-at.upstream * slope for slope in at.slopes),
        "twice": lambda at: tuple(2.0 * at.upstream * slope for slope in at.slopes),
    }
    if op.pattern is not Pattern.SWAP:
        del rules["own-not-other"]
    for key, rule in rules.items():
        yield key, [rule(point) for point in points]
    for slot in range(len(op.inputs)):
        yield "same-to-all", [(at.upstream * at.slopes[slot],) * len(at.slopes) for at in points]
