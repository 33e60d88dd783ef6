"""Backends run circuits; the interpreter defines the truth."""

from wiregrad.backends import interpreter
from wiregrad.backends.run import RunRecord, RunNode, RunWire

__all__ = ["RunRecord", "RunNode", "RunWire", "interpreter"]
