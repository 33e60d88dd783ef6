"""Random formulas, and how near two gradients of one formula must be."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

import wiregrad as wg
from wiregrad.ops import Elementwise

TOLERANCE = 1e-9
"""Of the sum of path magnitudes: one rounding of tanh(8) moves `1 - y * y`, as peers write its slope, by 2.5e-10."""

LITERALS = ("0.5", "2.0", "0.7", "1.3", "-0.4", "3.0")


class Drawn(NamedTuple):
    """A formula and the run of its circuit at a random point."""

    text: str
    point: dict[str, float]
    run: wg.Run


def template(op: Elementwise) -> str:
    """Return how an op is written in a formula, with a hole per input; operands are squeezed into the op's domain.

    >>> template(wg.ops.log)
    'log(2.425 + 2.375 * tanh({}))'
    """
    if op.domain is None:
        return op.expression(*["{}"] * len(op.inputs))
    ranges = [(min(column), max(column)) for column in zip(*op.sample_points, strict=True)]
    squeezed = [f"{(low + high) / 2:.6g} + {(high - low) / 2:.6g} * tanh({{}})" for low, high in ranges]
    return op.expression(*(f"({text})" if op.infix else text for text in squeezed))


def random_formula(seed: int, templates: Sequence[str], steps: int) -> Drawn:
    """Return the first formula of a seed that is tame: no wire beyond 8.

    Further out sigmoid and tanh saturate, and what the peers make of `1 - y` has fewer digits than a comparison wants.
    """
    rng = np.random.default_rng(seed)
    while True:
        text = _text(rng, templates, int(rng.integers(2, steps + 1)))
        circuit = wg.circuit(text) if len(text) < 3000 else None
        if circuit is not None and circuit.inputs:
            point = dict(zip(circuit.inputs, rng.uniform(-2.0, 2.0, len(circuit.inputs)).tolist(), strict=True))
            run = circuit.run(point)
            if all(abs(value) < 8.0 for value in run.values):
                return Drawn(text, point, run)


def _text(rng: np.random.Generator, templates: Sequence[str], steps: int) -> str:
    pieces = list("abcd"[: rng.integers(1, 5)])
    for _ in range(steps):
        chosen = templates[rng.integers(len(templates))]
        pieces.append(chosen.format(*(_operand(rng, pieces) for _ in range(chosen.count("{}")))))
    return pieces[-1]


def _operand(rng: np.random.Generator, pieces: list[str]) -> str:
    if rng.random() < 0.15:
        return str(rng.choice(LITERALS))
    # Later pieces are likelier, so that formulas grow deep as well as wide.
    piece = pieces[max(rng.integers(len(pieces)), rng.integers(len(pieces)))]
    # Without parentheses the piece is torn apart by what binds tighter around it, in both readers alike.
    return piece if len(piece) == 1 or rng.random() < 0.2 else f"({piece})"


def path_magnitudes(run: wg.Run) -> dict[str, float]:
    """Return, per wire, the sum over all paths to the output of the magnitude of the product of local derivatives."""
    found: dict[str, float] = defaultdict(float, {run.circuit.output: 1.0})
    for node in reversed(list(run)):
        for wire in node.wires:
            found[wire.source] += found[node.name] * abs(wire.local)
    return found


def assert_same_gradient(drawn: Drawn, peer: str, seed: int, value: float, slopes: list[float]) -> None:
    """Fail, with the seed, if a peer's value or gradient is not wiregrad's; rounding is measured along all paths."""
    at = f"seed {seed}, {peer}: {drawn.text} at {drawn.point}"
    assert abs(drawn.run.output - value) <= TOLERANCE * max(1.0, abs(value)), f"{at}: {drawn.run.output!r}, {value!r}"
    magnitudes = path_magnitudes(drawn.run)
    for (name, ours), theirs in zip(drawn.run.grads.items(), slopes, strict=True):
        near = abs(ours - theirs) <= TOLERANCE * magnitudes[name]

        assert near, f"{at}, d/d{name}: wiregrad {ours!r}, peer {theirs!r}"
