"""What a person asks of a run."""

from wiregrad.inspect.blame import Blame, Origin, blame
from wiregrad.inspect.explain import Cause, Explanation, explain
from wiregrad.inspect.report import Report, where
from wiregrad.inspect.steps import Step, steps

__all__ = [
    "Blame",
    "Cause",
    "Explanation",
    "Origin",
    "Report",
    "Step",
    "blame",
    "explain",
    "steps",
    "where",
]
