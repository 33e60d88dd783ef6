"""What a person asks of a run, one package or module per question.

The module of a question has a function of the same name, which answers it: `inspect.blame.blame(run)`. A module is
loaded when its question is first asked. Every answer is a `Report`: facts as fields, sentences when printed.

Start with `report` (what questions share: the class of all answers, the steps of a run, and its one index, from which
questions read nodes, wires and numbers), then read `blame`, a question in one module. Other rooms call the functions
named after the questions (`blame.blame`, `paths.paths`, `paths.branches`, `flow.flow`, `flow.histogram`, ...),
`explain.explain_value`, `check.check_gradients`, `flight_recorder.Flight`, `op_counts.count_ops` and what `report`
offers; everything else is private to its question. `wire_rules` compares the rule of one wire with a numeric
derivative, for `check`, `explain` and `wiregrad.testing`.
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
        op_counts,
        paths,
        receipt,
        report,
        rounding,
    )
else:
    blame = load_module_lazily("wiregrad.inspect.blame")
    diff = load_module_lazily("wiregrad.inspect.diff")
    explain = load_module_lazily("wiregrad.inspect.explain")
    flow = load_module_lazily("wiregrad.inspect.flow")
    kinks = load_module_lazily("wiregrad.inspect.kinks")
    op_counts = load_module_lazily("wiregrad.inspect.op_counts")
    paths = load_module_lazily("wiregrad.inspect.paths")
    receipt = load_module_lazily("wiregrad.inspect.receipt")
    report = load_module_lazily("wiregrad.inspect.report")
    rounding = load_module_lazily("wiregrad.inspect.rounding")

__all__ = [
    "blame",
    "diff",
    "explain",
    "flow",
    "kinks",
    "op_counts",
    "paths",
    "receipt",
    "report",
    "rounding",
]
