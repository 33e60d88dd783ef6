"""What a person asks of a run."""

from wiregrad.inspect.steps import Step, number, steps

__all__ = ["Step", "number", "steps"]
