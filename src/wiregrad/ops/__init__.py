"""The op table and what its records are made of.

Every record is also an attribute here: `ops.tanh` is the record of tanh, and calling it applies the op.
"""

from __future__ import annotations

from typing import Any

from wiregrad.ir import TABLE, Op, Pattern
from wiregrad.ops import linalg_records, records, reduce_records, shape_records, window_records
from wiregrad.ops.docs import docs_table
from wiregrad.ops.elementwise import Elementwise
from wiregrad.ops.flow import only
from wiregrad.ops.kinks import Kink

register = TABLE.register

__all__ = [
    "TABLE",
    "Elementwise",
    "Kink",
    "Op",
    "Pattern",
    "docs_table",
    "linalg_records",
    "only",
    "records",
    "reduce_records",
    "register",
    "shape_records",
    "window_records",
]


TABLE.reserve([*__all__, "array", "docs", "elementwise", "flow", "kinks"])


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    return TABLE[name]


def __dir__() -> list[str]:
    return [*__all__, *TABLE.callable_names()]
