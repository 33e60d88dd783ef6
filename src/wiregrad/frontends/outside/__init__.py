"""Outside state: everything a function reads besides its arguments, compared before each call with its earlier state.

Other modules use `OutsideState`. Start reading in `walk`, which follows a function's variables. `known_kinds` lists the
kinds of objects that it may follow, `code_reads` finds what bytecode can read, `watches` compares.
"""

from wiregrad.frontends.outside.walk import MAX_BYTES, MAX_THINGS, ComparesItself, OutsideState

__all__ = ["MAX_BYTES", "MAX_THINGS", "ComparesItself", "OutsideState"]
