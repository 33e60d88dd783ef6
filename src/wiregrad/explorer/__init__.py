"""The explorer: a page that draws a circuit and lets a person step through it and change its inputs.

The page is written as one HTML file, served on this machine, or shown in a notebook. Python hands it JSON, which holds
what was asked for and nothing else of the user's machine. Read `page_data` first: it builds that JSON, holds the
circuit that a page shows, runs it again, and writes the single file. This module writes numbers, arrays, places, nodes
and wires as JSON, in the form that `web/src/types.ts` declares. Invariants: a number that JSON cannot write is a string
(`nan`, `inf`, `-inf`); what is absent is null, never 0; an array is a summary; of a file only its name is written.

- `circuit_views` answers questions about circuits that are too large to send whole, with pictures of parts of them;
  `large_circuits` lays out their groups on a board, and searches them.
- `local_server` decides which requests may pass (`RequestGuard`) and answers them; it starts and stops. It also has
  the page of a training.
- `widget` shows the page in a notebook.

Other rooms call `page_data.to_html`, `local_server.open_explorer` with a `page_data.ExplorerSession`, and `widget`. The
page itself is built from `web/` into `static/`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wiregrad.backends import RunRecord
from wiregrad.backends.interpreter import euclidean_norm
from wiregrad.draw.layout.boxes import NodeMasks, read_value
from wiregrad.draw.layout.picture import MAX_SOURCE_COLUMNS, collect_captions
from wiregrad.dtypes import JsonValue, WireType, format_short
from wiregrad.inspect.report import format_operand
from wiregrad.ir import CONSTANT, CircuitGraph, Pattern, Place, Row
from wiregrad.ir.circuit import find_given_name, write_expression
from wiregrad.ir.op import CONSTANT_CODE
from wiregrad.ops import Elementwise
from wiregrad.ops.gradient_flow import fill_absent

PAGE_SCHEMA = 1
"""Version of the JSON that the page reads."""
MAX_ARRAY_TEXT = 200
"""Maximum number of characters of the text of an array."""
MAX_EXACT_INTEGER = 2**53
"""Whole numbers up to this magnitude are exact in JavaScript."""


def encode_number(value: float | np.number[Any] | np.bool_) -> bool | float | str:
    """Encode a real number; NaN and infinities become strings.

    >>> [encode_number(x) for x in (1.5, float("nan"), float("-inf"), True, 2**60)]
    [1.5, 'nan', '-inf', True, 1.152921504606847e+18]
    """
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value) if abs(int(value)) <= MAX_EXACT_INTEGER else float(value)
    real = float(value)
    if math.isnan(real):
        return "nan"
    if math.isinf(real):
        return "inf" if real > 0 else "-inf"
    return real


def encode_value(carried: object) -> JsonValue:
    """Encode what a wire carries: a number or boolean, or a summary of an array or complex number.

    >>> encode_value(np.float64(2.0)), encode_value(np.array([3.0, 4.0]))["text"]
    (2.0, '[3, 4]')
    """
    array = np.asarray(carried)
    if array.shape or array.dtype.kind == "c":
        return summarize_array(array)
    return encode_number(array.item())


def summarize_array(array: NDArray[Any]) -> dict[str, JsonValue]:
    """Summarize an array: its type, text, norm, and the number of elements that are not finite (`bad`).

    `short` is what a picture shows behind the shape. `sign` is 1 or -1 if all elements have that sign, else 0.

    >>> summarize_array(np.array([3.0, np.inf]))
    {'type': 'float64[2]', 'text': '[3, Inf]', 'norm': 'inf', 'bad': 1, 'short': '1 Inf', 'sign': 1}
    """
    text = format_short(array)
    bad = int(np.count_nonzero(~np.isfinite(array))) if array.dtype.kind in "fc" else 0
    with np.errstate(all="ignore"):
        size = encode_number(euclidean_norm(array))
        reading = read_value(array)
    sign = 0
    if reading.signed:
        sign = -1 if reading.size < 0 else 1
    return {
        "type": str(WireType(array.dtype, array.shape)),
        "text": text if len(text) <= MAX_ARRAY_TEXT else f"{text[: MAX_ARRAY_TEXT - 3]}...",
        "norm": size,
        "bad": bad,
        "short": reading.bare_text,
        "sign": sign,
    }


def encode_gradient(gradient: object, shape: tuple[int, ...]) -> JsonValue:
    """Encode the gradient of a value of the given shape; None where none arrived.

    >>> encode_gradient(None, ()), encode_gradient(np.float64(2.0), ())
    (None, 2.0)
    """
    if gradient is None:
        return None
    settled = fill_absent(gradient)
    return encode_value(np.broadcast_to(settled, shape) if shape else settled)


def encode_place(location: Place) -> dict[str, Any]:
    """Encode a source location: file without its folder, line and column.

    >>> encode_place(Place("/somewhere/model.py", 12))
    {'file': 'model.py', 'line': 12, 'column': 0}
    """
    return location.without_folder()._asdict()


def encode_nodes(circuit: CircuitGraph, run: RunRecord | None = None) -> list[dict[str, Any]]:
    """Encode every node of a circuit, with the caption of its box where the page cannot derive it.

    >>> import wiregrad as wg
    >>> encode_nodes(wg.circuit("y = tanh(x)"))[1]["sources"]
    [0]
    """
    names = circuit.columns.names.group_by_node()
    folded = NodeMasks.from_circuit(circuit).folded & (circuit.columns.codes != CONSTANT_CODE)
    nodes = [_encode_row(circuit, row, names.get(row.node, [])) for row in circuit.rows()]
    for node, text in collect_captions(circuit, run).items():
        nodes[node]["caption"] = text
    for node in np.flatnonzero(folded).tolist():
        nodes[node]["folded"] = True
    return nodes


def encode_node(circuit: CircuitGraph, node: int) -> dict[str, Any]:
    """Encode one node of a circuit.

    >>> import wiregrad as wg
    >>> data = encode_node(wg.circuit("y = tanh(x)"), 1)
    >>> data["op"], data["names"], data["place"]
    ('tanh', ['y'], {'file': 'formula', 'line': 1, 'column': 5})
    """
    modes = circuit.columns.modes
    row = Row(node, circuit.op_of(node), circuit.sources_of(node), 0 if modes is None else int(modes[node]))
    return _encode_row(circuit, row, list(circuit.columns.names.names_of(node)))


def _encode_row(circuit: CircuitGraph, row: Row, names: list[str]) -> dict[str, Any]:
    data: dict[str, Any] = {
        "op": row.op.name,
        "sources": row.sources,
        "names": names,
        "mode": row.mode,
        "group": circuit.columns.groups.label_of(row.node) or "",
        "type": str(circuit.type_of(row.node)),
    }
    if row.op is CONSTANT:
        data["constant"] = encode_value(circuit.constant_of(row.node))
    elif row.sources and (_has_unnamed_operand(circuit, row) or row.op.settings or not isinstance(row.op, Elementwise)):
        data["text"] = write_expression(row.op, [format_operand(circuit, source) for source in row.sources])
    if row.sources and row.op.pattern is not Pattern.MERGE and find_given_name(circuit, row.node) is None:
        data |= _encode_title(circuit, row.node)
    location = circuit.columns.places.label_of(row.node)
    return data if location is None else data | {"place": encode_place(location)}


def _has_unnamed_operand(circuit: CircuitGraph, row: Row) -> bool:
    """Return whether a node reads one that is shown as an expression."""
    if row.op.pattern is Pattern.MERGE:
        return False
    operands = [source for source in row.sources if find_given_name(circuit, source) is None]
    return any(circuit.sources_of(source) and circuit.op_of(source).pattern is not Pattern.MERGE for source in operands)


def _encode_title(circuit: CircuitGraph, node: int) -> dict[str, str]:
    """Encode what a node without a name is called, and its source text if that fits into a box."""
    source = circuit.columns.expressions.label_of(node)
    title = {"title": circuit.title_of(node)}
    return title | ({"source": source} if source is not None and len(source) <= MAX_SOURCE_COLUMNS else {})


def encode_wires(run: RunRecord) -> Iterator[list[Any]]:
    """Yield the wires of a run, by reader and then slot, each as [local, upstream, sent].

    >>> import wiregrad as wg
    >>> list(encode_wires(wg.circuit("a * b").run(a=2.0, b=3.0)))
    [[3.0, 1.0, 3.0], [2.0, 1.0, 2.0]]
    """
    with np.errstate(all="ignore"):
        for row in run.circuit.rows():
            for slot in range(len(row.sources)):
                yield _encode_row_wire(run, row, slot)


def encode_wire(run: RunRecord, reader: int, slot: int) -> list[Any]:
    """Encode one wire as [local, upstream, sent].

    >>> import wiregrad as wg
    >>> encode_wire(wg.circuit("a * b").run(a=2.0, b=3.0), 2, 1)
    [2.0, 1.0, 2.0]
    """
    circuit = run.circuit
    modes = circuit.columns.modes
    mode = 0 if modes is None else int(modes[reader])
    with np.errstate(all="ignore"):
        return _encode_row_wire(run, Row(reader, circuit.op_of(reader), circuit.sources_of(reader), mode), slot)


def _encode_row_wire(run: RunRecord, row: Row, slot: int) -> list[Any]:
    circuit = run.circuit
    kind = circuit.type_of(row.sources[slot])
    local = None
    if kind.differentiable and isinstance(row.op, Elementwise):
        xs = [run.values[k] for k in row.sources]
        local = row.op.local(slot, xs, run.values[row.node], row.mode)
    sent = run.sent[int(circuit.columns.starts[row.node]) + slot]
    upstream = encode_gradient(run.flows[row.node], circuit.type_of(row.node).shape)
    return [encode_gradient(local, kind.shape), upstream, encode_gradient(sent, kind.shape)]
