"""What a person asks of a run, one package or module per question.

`load_question("blame")` returns the function that answers a question; its module is loaded when the question is first
asked. Every answer is a `Report`: facts as fields, sentences when printed.

Start with `report` (what answers share) and `run_index` (the one index of a run, from which questions read nodes, wires
and numbers), then read `blame`, a question in one module. Other rooms call `load_question`, the functions named after
the questions (`blame.blame`, `paths.paths`, ...), `explain.explain_value`, `check.check_gradients`,
`flight_recorder.Flight` and what `report` offers; everything else is private to its question.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

_MODULES = {
    "blame": "wiregrad.inspect.blame",
    "branches": "wiregrad.inspect.paths",
    "diff": "wiregrad.inspect.diff",
    "explain": "wiregrad.inspect.explain",
    "flow": "wiregrad.inspect.flow",
    "histogram": "wiregrad.inspect.histogram",
    "kinks": "wiregrad.inspect.kinks",
    "paths": "wiregrad.inspect.paths",
    "receipt": "wiregrad.inspect.receipt",
    "rounding": "wiregrad.inspect.rounding",
    "steps": "wiregrad.inspect.steps",
}
"""The module of each question; it has a function named after the question."""


def load_question(question: str) -> Callable[..., Any]:
    """Return the function that answers a question.

    >>> import wiregrad as wg
    >>> len(list(load_question("steps")(wg.circuit("x * x").run(x=3.0))))
    5
    """
    function: Callable[..., Any] = getattr(import_module(_MODULES[question]), question)
    return function
