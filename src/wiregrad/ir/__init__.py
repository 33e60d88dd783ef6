"""The circuit and what it is made of: nodes, wires, op records. NumPy is the only package beneath it.

Start with `circuit.py` (the circuit as people see it, and what its nodes are called) and `op.py` (what an op record is,
and the table of all ops). `columns.py` holds the arrays behind a circuit and works out types and kink modes.
`builder.py` makes circuits, and the stub of `builder_methods.py` declares the ops of a builder; `verify`, in
`circuit.py`, checks circuits that come from outside. `certificates.py` says whether a traced circuit is valid at other
inputs. `text_form.py` writes circuits and reads them back, as `wiregrad.files` does with the JSON form; both read JSON
with `text_form.read_strict_json`.

Other rooms import what `__all__` lists from here, and may call the public functions of the modules. The text form is
loaded at its first use.
"""

from typing import TYPE_CHECKING

from wiregrad.ir import certificates
from wiregrad.ir.builder import CircuitRecording, GraphBuilder, Port
from wiregrad.ir.circuit import SPLIT_NAME, CircuitGraph, Node, Wire, repr_number, verify
from wiregrad.ir.columns import (
    DERIVE_MODE,
    Certificate,
    CircuitColumns,
    Place,
    Row,
    check_name,
    join_first_names,
    normalize_name,
)
from wiregrad.ir.op import CONSTANT, INPUT, TABLE, Advice, Level, Op, OpTable, Pattern
from wiregrad.lazy import load_names_lazily

if TYPE_CHECKING:
    from wiregrad.ir.text_form import parse_text, write_text


__all__ = [
    "CONSTANT",
    "DERIVE_MODE",
    "INPUT",
    "SPLIT_NAME",
    "TABLE",
    "Advice",
    "Certificate",
    "CircuitColumns",
    "CircuitGraph",
    "CircuitRecording",
    "GraphBuilder",
    "Level",
    "Node",
    "Op",
    "OpTable",
    "Pattern",
    "Place",
    "Port",
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

if not TYPE_CHECKING:
    __getattr__ = load_names_lazily(
        __name__,
        {
            "parse_text": "wiregrad.ir.text_form",
            "write_text": "wiregrad.ir.text_form",
        },
    )
