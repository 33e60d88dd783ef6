"""The table of ops in the documentation, written from the op table."""

from __future__ import annotations

from collections.abc import Iterator

from wiregrad.ir import TABLE, Op, Pattern
from wiregrad.ops.elementwise import Elementwise


def docs_table() -> str:
    """Return a Markdown table with one row per op.

    >>> print(next(row for row in docs_table().splitlines() if "`multiply`" in row))
    | `multiply` | `a * b` | swap | Product of two wires. |  |
    """
    TABLE.load_deferred()
    head = ["| op | written | pattern | what it does | kinks |", "| --- | --- | --- | --- | --- |"]
    return "\n".join([*head, *_docs_rows()])


def _docs_rows() -> Iterator[str]:
    for op in sorted(TABLE, key=lambda record: record.name):
        if op.pattern is not Pattern.SOURCE and not op.per_call:
            kinks = "; ".join(kink.doc for kink in op.kinks) if isinstance(op, Elementwise) else ""
            names = ", ".join(f"`{name}`" for name in (op.name, *op.aliases))
            yield f"| {names} | `{_written_form(op)}` | {op.pattern.name.lower()} | {op.doc} | {kinks} |"


def _written_form(op: Op) -> str:
    return op.expression(*op.inputs).replace("|", "\\|")
