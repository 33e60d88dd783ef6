"""What a person asks of a run."""

from wiregrad.inspect.report import Report, where
from wiregrad.inspect.steps import Step, steps

__all__ = ["Report", "Step", "steps", "where"]
