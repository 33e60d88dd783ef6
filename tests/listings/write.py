"""The golden listings: which circuits they are of, and where each language's text stands.

`make derive` writes them all again; read what changed before it is committed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import wiregrad as wg

FOLDER = Path(__file__).parent / "written"
ENDINGS = {"python": ".py", "numpy": ".np.py", "c": ".c", "js": ".js", "cuda": ".cu"}
"""The languages, and how the name of a file in each ends."""

MODEL = """
import numpy as np


def loss(w1, b1, w2, x, target):
    hidden = np.tanh(x @ w1 + b1)
    guess = hidden @ w2
    return np.mean((guess - target) ** 2)
"""
POLAR = """
circuit polar
input r, t
x = multiply r %1
y = multiply r %2
%1 = cos t
%2 = sin t
output x, y
"""


class Golden(NamedTuple):
    """A circuit whose listings are kept, and a point to run them at."""

    name: str
    circuit: wg.Circuit
    at: dict[str, Any]
    function: str = "value_and_grad"
    languages: tuple[str, ...] = tuple(ENDINGS)

    def text(self, language: str, **options: Any) -> str:
        """Return the listing in a language."""
        found: str = getattr(self.circuit, f"to_{language}")(self.function, **options)
        return found

    def path(self, language: str) -> Path:
        """Return where the listing is kept."""
        return FOLDER / f"{self.name}{ENDINGS[language]}"


def network() -> Golden:
    """Return a network of two layers, traced; its lines are those of a file called model.py."""
    names: dict[str, Any] = {}
    exec(compile(MODEL.lstrip(), "model.py", "exec"), names)
    rng = np.random.default_rng(0)
    shapes = {"w1": (2, 3), "b1": (3,), "w2": (3, 1), "x": (4, 2), "target": (4, 1)}
    at = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    return Golden("network", wg.trace(names["loss"], *at.values()), at, languages=("numpy", "c"))


def goldens() -> Iterator[Golden]:
    """Return every golden listing."""
    formulas: dict[str, tuple[str, dict[str, Any]]] = {
        "expression": ("e = a + b; f = e * c", {"a": 2, "b": -3, "c": 10}),
        "gates": ("q = x + y; f = q * z", {"x": -2, "y": 5, "z": -4}),
        "neuron": (
            "n = x1*w1 + x2*w2 + b; o = tanh(n)",
            {"x1": 2, "w1": -3, "x2": 0, "w2": 1, "b": 6.8813735870195432},
        ),
        "sigmoid": ("L = sigmoid(w0*x0 + w1*x1 + w2)", {"w0": 2, "x0": -1, "w1": -3, "x1": -2, "w2": -3}),
        "square": ("y = x*x + x", {"x": 3}),
        "router": ("y = maximum(relu(a), b)", {"a": 2, "b": 1}),
        "safe_root": ("y = where(x > 0, sqrt(x), 0)", {"x": 0}),
    }
    for name, (formula, at) in formulas.items():
        yield Golden(name, wg.circuit(formula), at)
    yield Golden("hessian", wg.circuit("f = a * a * b + sin(b)"), {"a": 1.5, "b": 0.5}, "hessian")
    yield Golden("jacobian", wg.Circuit.from_text(POLAR), {"r": 2.0, "t": 0.5}, "jacobian")
    yield network()


GOLDENS = {golden.name: golden for golden in goldens()}


def main() -> None:
    """Write every file again, and remove those that no golden has."""
    wanted = {golden.path(language): golden.text(language) for golden in goldens() for language in golden.languages}
    FOLDER.mkdir(exist_ok=True)
    for path in FOLDER.iterdir():
        if path not in wanted:
            path.unlink()
    for path, text in wanted.items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
