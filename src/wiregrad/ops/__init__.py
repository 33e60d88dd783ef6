"""The op table and what its records are made of.

Every record is also an attribute: `ops.tanh` is the record of tanh, and calling it applies the op. The records of ops
on whole arrays are loaded when the first of them is needed.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from wiregrad.ir import TABLE, Op, Pattern
from wiregrad.ops import records
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
    "only",
    "records",
    "register",
]

_MODULES = ("array", "docs", "elementwise", "flow", "functions", "kinks")
_ARRAY_RECORDS = ("shape_records", "reduce_records", "linalg_records", "window_records")

TABLE.reserve_names([*__all__, *_MODULES, *_ARRAY_RECORDS])
TABLE.defer_loading(lambda: [import_module(f"wiregrad.ops.{name}") for name in _ARRAY_RECORDS])


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    return TABLE[name]


def __dir__() -> list[str]:
    return [*__all__, *TABLE.callable_names()]
