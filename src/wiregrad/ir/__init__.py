"""The circuit and what it is made of: nodes, wires, op records. NumPy is the only package beneath it.

Start with `circuit` (the circuit as users see it) and `op` (what an op record is). Other rooms import what `__all__`
lists from here. The text form is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from wiregrad.ir import certificates
from wiregrad.ir.builder import GraphBuilder, Port
from wiregrad.ir.circuit import SPLIT_NAME, CircuitGraph, Node, Wire, repr_number
from wiregrad.ir.flat import Certificate, CircuitColumns, Place, Row, join_first_names
from wiregrad.ir.infer import DERIVE_MODE
from wiregrad.ir.names import check_name, normalize_name
from wiregrad.ir.op import CONSTANT, INPUT, TABLE, Level, Op, OpTable, Pattern
from wiregrad.ir.recording import CircuitRecording
from wiregrad.ir.verify import verify

if TYPE_CHECKING:
    from wiregrad.ir.text import parse_text, write_text

__all__ = [
    "CONSTANT",
    "DERIVE_MODE",
    "INPUT",
    "SPLIT_NAME",
    "TABLE",
    "GraphBuilder",
    "Certificate",
    "CircuitGraph",
    "CircuitColumns",
    "Level",
    "Node",
    "Op",
    "OpTable",
    "Pattern",
    "Place",
    "Port",
    "CircuitRecording",
    "Row",
    "Wire",
    "certificates",
    "check_name",
    "join_first_names",
    "normalize_name",
    "parse_text",
    "repr_number",
    "verify",
    "write_text",
]


def __getattr__(name: str) -> Any:
    if name not in ("parse_text", "write_text"):
        raise AttributeError(f"wiregrad.ir has no {name!r}")
    return getattr(import_module("wiregrad.ir.text"), name)
