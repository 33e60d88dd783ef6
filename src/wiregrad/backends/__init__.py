"""Backends run circuits; the interpreter defines the truth."""

from wiregrad.backends import interpreter
from wiregrad.backends.run import Run, RunNode, RunWire

__all__ = ["Run", "RunNode", "RunWire", "interpreter"]
