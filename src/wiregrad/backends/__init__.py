"""Backends run circuits; the interpreter defines the truth."""

from wiregrad.backends import interpreter
from wiregrad.backends.run import Run, RunNode, RunWire, plain

__all__ = ["Run", "RunNode", "RunWire", "interpreter", "plain"]
