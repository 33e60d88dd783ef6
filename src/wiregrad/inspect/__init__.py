"""What a person asks of a run, one package or module per question.

The module of a question has a function of the same name, which answers it: `inspect.blame.blame(run)`. A module is
loaded when its question is first asked. Every answer is a `Report`: facts as fields, sentences when printed.

Start with `report` (what answers share) and `run_index` (the one index of a run, from which questions read nodes, wires
and numbers), then read `blame`, a question in one module. Other rooms call the functions named after the questions
(`blame.blame`, `paths.paths`, `paths.branches`, `flow.flow`, `flow.histogram`, ...), `explain.explain_value`,
`check.check_gradients`, `flight_recorder.Flight` and what `report` offers; everything else is private to its question.
"""

from typing import TYPE_CHECKING

from wiregrad.lazy import load_module_lazily

if TYPE_CHECKING:
    from wiregrad.inspect import (
        blame,
        diff,
        explain,
        flow,
        kinks,
        paths,
        receipt,
        rounding,
        steps,
    )
else:
    blame = load_module_lazily("wiregrad.inspect.blame")
    diff = load_module_lazily("wiregrad.inspect.diff")
    explain = load_module_lazily("wiregrad.inspect.explain")
    flow = load_module_lazily("wiregrad.inspect.flow")
    kinks = load_module_lazily("wiregrad.inspect.kinks")
    paths = load_module_lazily("wiregrad.inspect.paths")
    receipt = load_module_lazily("wiregrad.inspect.receipt")
    rounding = load_module_lazily("wiregrad.inspect.rounding")
    steps = load_module_lazily("wiregrad.inspect.steps")

__all__ = [
    "blame",
    "diff",
    "explain",
    "flow",
    "kinks",
    "paths",
    "receipt",
    "rounding",
    "steps",
]
