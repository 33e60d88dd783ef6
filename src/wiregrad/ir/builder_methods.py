"""The ops of the table as methods of builders, as type checkers and editors see them: they read the stub beside this.

`GraphBuilder` looks up the op of a method in the table; `tools/write_stubs.py` writes the stub from the table.
"""


class BuilderMethods:
    """One method per op of the table: it adds a node to a builder, and returns its output wire."""
