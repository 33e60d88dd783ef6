"""Checks for tests of your own: `check_op` for an op, `check_function` for a function made of ops.

Both raise `CheckError`, which is an AssertionError, unless derivatives were compared and agree: a point at which
nothing could be decided fails too. Read `function_checks` first; `op_checks` applies it to each point of an op.
Nothing inside wiregrad imports this room.
"""

from wiregrad.testing.function_checks import check_function
from wiregrad.testing.op_checks import check_op

__all__ = ["check_function", "check_op"]
