"""What is photographed: programs, a training and a notebook cell, each as a page that Chromium can open.

`Pages` makes a page when it is first asked for, and takes everything down at the end.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import wiregrad as wg
from wiregrad.api.diagnostics import LiveFlight
from wiregrad.explorer.page_data import dump_json, read_static_file, render_page
from wiregrad.explorer.widget import widget

ITERATIONS = 1200
"""Iterations of the track: they give so many nodes that the page shows a board of groups."""
CELL = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>cell</title><style>{style}
body {{ margin: 0 }}</style></head><body><div id="cell"></div>
<script type="application/json" id="module">{module}</script>
<script type="application/json" id="state">{state}</script>
<script type="module">
const read = (id) => JSON.parse(document.getElementById(id).textContent);
const module = await import(URL.createObjectURL(new Blob([read("module")], {{type: "text/javascript"}})));
const state = read("state");
const model = {{
  get: (name) => state[name], set: (name, value) => {{ state[name] = value; }},
  on() {{}}, off() {{}}, save_changes() {{}}, send() {{}},
}};
await module.default.render({{model, el: document.getElementById("cell")}});
</script></body></html>
"""
"""A page with the widget in it and nothing behind it, as in a notebook without a kernel."""


class Layer:
    """A layer of a network: weights and a rectifier."""

    def __init__(self, w: np.ndarray) -> None:
        self.w = w

    def __call__(self, x: Any) -> Any:
        return np.maximum(x @ self.w, 0.0)


def loss(y: Any, t: Any) -> Any:
    s = np.sum(y, axis=1, keepdims=True)
    p = y / s
    return np.mean((p - t) ** 2)


def run_model() -> wg.Run:
    """Run two layers and a loss that divides 0 by 0 in the one row of x that is 0."""
    rng = np.random.default_rng(11)
    layer0, layer1 = Layer(rng.normal(size=(4, 8))), Layer(rng.normal(size=(8, 6)))
    x, t = rng.normal(size=(16, 4)), rng.random((16, 6))
    x[9] = 0.0

    def model(x: Any, t: Any) -> Any:
        h = layer0(x)
        y = layer1(h)
        return loss(y, t)

    with np.errstate(all="ignore"):
        return wg.run(model, x, t)


def move(p: Any, angle: Any, pace: float) -> Any:
    x = p[0] + pace * np.cos(angle)
    y = p[1] + pace * np.sin(angle)
    return x, y


def dist(p: Any, q: Any) -> Any:
    dx = p[0] - q[0]
    dy = p[1] - q[1]
    return np.sqrt(dx**2 + dy**2)


def run_track(iterations: int = ITERATIONS) -> wg.Run:
    """Run a track whose distance to its target is 0 half way: the root is infinitely steep there."""
    turn, pace = 0.01, 0.05
    place, where = (0.0, 0.0), []
    for t in range(iterations):
        place = move(place, turn * t, pace)
        where.append((float(place[0]), float(place[1])))
    targets = [(x + np.sin(0.1 * t), y + 1.0) for t, (x, y) in enumerate(where)]
    targets[iterations // 2] = where[iterations // 2]

    def track(turn: Any, pace: Any) -> Any:
        p, total = (0.0 * turn, 0.0 * turn), 0.0
        for t in range(iterations):
            p = move(p, turn * t, pace)
            total = total + dist(p, targets[t])
        return total

    with np.errstate(all="ignore"):
        return wg.run(track, turn, pace)


def train(steps: int = 160) -> LiveFlight:
    """Record a training whose distance is 0 at its last step."""

    def miss(params: dict[str, Any]) -> Any:
        hidden = np.tanh(params["first"] * np.array([0.5, -1.0, 2.0]))
        return np.sqrt((np.sum(hidden * params["second"]) - 1.0) ** 2)

    flight = LiveFlight(function=miss)
    params: dict[str, Any] = {"first": np.array([0.3, -0.2, 0.4]), "second": np.array([0.1, 0.2, -0.3])}
    for step in range(steps):
        if step == steps - 20:
            goal = np.tanh(params["first"] * np.array([0.5, -1.0, 2.0]))
            params["second"] = goal / np.sum(goal * goal)
        with np.errstate(all="ignore"):
            number, gradients = wg.value_and_grad(miss)(params)
        flight.step(number, params, gradients)
        params = {name: params[name] - 0.02 * gradients[name] for name in params}
    return flight


def write_cell() -> str:
    """Write a page with the widget of the neuron in a cell."""
    formula = "n = x1*w1 + x2*w2 + b; o = tanh(n)"
    run = wg.circuit(formula).run(x1=2, w1=-3, x2=0, w2=1, b=6.881373587019543)
    shown = widget(run.circuit, run)
    shown.step = "d"
    state = {name: getattr(shown, name) for name in ("data", "step", "selection", "theme", "bundle")}
    style, module = read_static_file("explorer.css"), dump_json(read_static_file("widget.js"))
    return CELL.format(style=style, module=module, state=json.dumps(state).replace("</", "<\\/"))


class Pages:
    """The addresses of what is photographed, by the name of the subject."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._folder = Path(self._stack.enter_context(TemporaryDirectory()))
        self._addresses: dict[str, str] = {}

    def __enter__(self) -> Pages:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def address_of(self, subject: str) -> str:
        """Return the address of a subject, which is made when it is first asked for."""
        if subject not in self._addresses:
            self._addresses[subject] = self._make(subject)
        return self._addresses[subject]

    def _make(self, subject: str) -> str:
        if subject == "training":
            serving = train().explore(browser=False, wait=False)
            self._stack.callback(serving.stop)
            return serving.url
        path = self._folder / f"{subject}.html"
        path.write_text(WRITERS[subject](), "utf8")
        return path.as_uri()


WRITERS: dict[str, Callable[[], str]] = {
    "presets": lambda: render_page({}, "explorer"),
    "model": lambda: run_model().to_html(source=True),
    "track": lambda: run_track().to_html(source=True),
    "cell": write_cell,
}
