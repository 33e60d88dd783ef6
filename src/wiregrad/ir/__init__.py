"""The circuit and what it is made of: nodes, wires, op records. NumPy is the only package beneath it.

Start with `circuit` (the circuit as users see it) and `op` (what an op record is). Other rooms import what `__all__`
lists from here. The text form is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from wiregrad.ir import certificates
from wiregrad.ir.builder import Builder, Port
from wiregrad.ir.circuit import SPLIT, Circuit, Node, Wire, repr_number
from wiregrad.ir.flat import Certificate, Columns, Place, Row, listed
from wiregrad.ir.infer import DERIVE
from wiregrad.ir.names import check_name, normal
from wiregrad.ir.op import CONSTANT, INPUT, TABLE, Level, Op, OpTable, Pattern
from wiregrad.ir.recording import Recording
from wiregrad.ir.verify import verify

if TYPE_CHECKING:
    from wiregrad.ir.text import parse_text, write_text

__all__ = [
    "CONSTANT",
    "DERIVE",
    "INPUT",
    "SPLIT",
    "TABLE",
    "Builder",
    "Certificate",
    "Circuit",
    "Columns",
    "Level",
    "Node",
    "Op",
    "OpTable",
    "Pattern",
    "Place",
    "Port",
    "Recording",
    "Row",
    "Wire",
    "certificates",
    "check_name",
    "listed",
    "normal",
    "parse_text",
    "repr_number",
    "verify",
    "write_text",
]


def __getattr__(name: str) -> Any:
    if name not in ("parse_text", "write_text"):
        raise AttributeError(f"wiregrad.ir has no {name!r}")
    return getattr(import_module("wiregrad.ir.text"), name)
