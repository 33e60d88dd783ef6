"""The op table: every op, its rules, and the functions made of ops.

An op is one record, and everything else (derivatives, listings, docs, tests) is derived from it. Start reading in
`elementwise_records`: one record per op on numbers. The ops on whole arrays are in `shape_records`, `reduce_records`,
`linalg_records` and `fourier_records` (filters, too), those that SciPy computes in `solver_records` and
`special_records`; all of these are loaded when the first such op is asked for. `array_ops` defines what all such
records are made of. `functions` holds what people call on arrays, with NumPy's and SciPy's names.

Other rooms may call `TABLE`, every record as an attribute (`ops.tanh` is the record of tanh, and calling it applies the
op), `gradient_flow` (how gradients are multiplied and added), `c_expressions` (an op's scalar text as a tree), and
`advice` (what broke, and what to write instead).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from wiregrad.ir import TABLE, Advice, Op, Pattern
from wiregrad.lazy import import_later, load_names_lazily
from wiregrad.ops import elementwise_records
from wiregrad.ops.array_ops import Elementwise, Interval, Kink
from wiregrad.ops.gradient_flow import only

register = TABLE.register

__all__ = [
    "TABLE",
    "Advice",
    "Elementwise",
    "Interval",
    "Kink",
    "Op",
    "Pattern",
    "docs_table",
    "elementwise_records",
    "only",
    "register",
]

_MODULES = (
    "advice",
    "array_ops",
    "c_expressions",
    "functions",
    "gradient_flow",
    "solver_forward",
    "special_forward",
)
_DEFERRED_RECORDS = (
    "shape_records",
    "reduce_records",
    "linalg_records",
    "solver_records",
    "fourier_records",
    "special_records",
)

TABLE.reserve_names([*__all__, *_MODULES, *_DEFERRED_RECORDS])
TABLE.defer_loading(import_later(*(f"wiregrad.ops.{name}" for name in _DEFERRED_RECORDS)))

if TYPE_CHECKING:
    from wiregrad.ops import (  # noqa: F401
        fourier_records,
        linalg_records,
        reduce_records,
        shape_records,
        solver_records,
        special_records,
    )

    def __getattr__(name: str) -> Op: ...
else:
    __getattr__ = load_names_lazily(__name__, {}, otherwise=TABLE.__getitem__)


def __dir__() -> list[str]:
    return [*__all__, *TABLE.callable_names()]


def docs_table() -> str:
    """Return a Markdown table with one row per op.

    >>> print(next(row for row in docs_table().splitlines() if "`multiply`" in row))
    | `multiply` | `a * b` | swap | Product of two wires. |  |
    """
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
