"""The JSON that the page starts with: a circuit, the values and gradients of a run, and nothing else of the machine.

Invariants: of a file only its name is sent, and its lines only when asked for; `note` says what was left out of a large
circuit.
"""

from __future__ import annotations

import linecache
from dataclasses import replace
from typing import Any

import numpy as np

from wiregrad.backends import RunRecord
from wiregrad.dtypes import BOOL, FLOAT
from wiregrad.errors import CircuitError, WiregradError
from wiregrad.explorer import encoded
from wiregrad.explorer.formulas import FORMULA_FILE, recover_formula
from wiregrad.explorer.kept import collect_answers
from wiregrad.explorer.nodes import encode_nodes, encode_wires
from wiregrad.explorer.steering import describe_flipped_branch
from wiregrad.explorer.summary import summarize_circuit
from wiregrad.explorer.views import CircuitViews
from wiregrad.inspect.blame import blame
from wiregrad.ir import CircuitGraph, Pattern
from wiregrad.ir.flat import NodeLabels
from wiregrad.ir.mode import Convention, decode_mode
from wiregrad.ops import Elementwise

MAX_PAGE_NODES = 20_000
"""Circuits with more nodes than this are sent as a summary."""
MAX_EDITABLE_ELEMENTS = 64
"""Array inputs of at most this many elements are sent element by element, so that each can be edited."""
MAX_BLAME_ORIGINS = 8
"""Maximum number of origins of non-finite numbers in the page."""


def build_page_data(
    circuit: CircuitGraph, run: RunRecord | None = None, *, source: bool = False, formula: str | None = None
) -> dict[str, Any]:
    """Return the JSON that the page starts with; with `source` it holds the lines of code that made the nodes.

    `formula` is the text that the circuit was written as; without it, one is recovered from the circuit if possible.

    >>> import wiregrad as wg
    >>> run = wg.circuit("e = a + b; f = e * c").run(a=2, b=-3, c=10)
    >>> data = build_page_data(run.circuit, run)
    >>> data["live"], data["run"]["grads"], data["leaves"]
    (True, [10.0, 10.0, -1.0, 10.0, 1.0], {'a': 2.0, 'b': -3.0, 'c': 10.0})
    """
    if run is not None and run.circuit is not circuit and run.circuit != circuit:
        raise CircuitError("the run is of another circuit; explore run.circuit")
    bare_circuit, bare_run = strip_folders(circuit, run)
    if circuit.size > MAX_PAGE_NODES:
        return _build_offline_summary(CircuitViews(bare_circuit, bare_run), circuit if source else None)
    data: dict[str, Any] = {
        "schema": encoded.PAGE_SCHEMA,
        "live": can_run_in_page(circuit),
        "circuit": encode_circuit(bare_circuit, bare_run),
    }
    if formula is None and data["live"]:
        formula = recover_formula(circuit)
    if formula is not None:
        data["formula"] = formula
    if source:
        _add_source_lines(data["circuit"]["nodes"], circuit)
    if bare_run is None:
        return data
    note = describe_flipped_branch(bare_run)
    return data | encode_run(bare_run) | ({"note": note} if note else {})


def _build_offline_summary(views: CircuitViews, source: CircuitGraph | None) -> dict[str, Any]:
    """Return the summary of a large circuit for a saved page, with the answers that no server will give."""
    data = summarize_circuit(views)
    stored = collect_answers(views, data["summary"], lambda node: describe_node_with_source(views, node, source)) | {"/blame": encode_blame(views)}
    note = (
        f"{data['note']}; the rest is not in this file: circuit.explore() and run.explore() in Python show every node"
    )
    return data | {"note": note, "summary": data["summary"] | {"answers": stored}}


def describe_node_with_source(views: CircuitViews, node: int, source: CircuitGraph | None) -> dict[str, Any]:
    """Return everything known about one node; with `source`, a circuit with whole paths, also its line of code.

    >>> import wiregrad as wg
    >>> describe_node_with_source(CircuitViews(wg.circuit("y = tanh(x)")), 1, None)["op"]
    'tanh'
    """
    data = views.describe_node(node)
    text = "" if source is None else read_source_line(source, node)
    if not text:
        return data
    return data | {"place": data["place"] | {"text": text}}


def strip_folders(circuit: CircuitGraph, run: RunRecord | None) -> tuple[CircuitGraph, RunRecord | None]:
    """Return a circuit and its run without the folders of their source files, so that no answer can name one.

    >>> import wiregrad as wg
    >>> strip_folders(wg.circuit("x * x"), None)[1] is None
    True
    """
    places = circuit.columns.places
    bare = tuple(None if place is None else place.without_folder() for place in places.table)
    stripped = CircuitGraph(replace(circuit.columns, places=NodeLabels(bare, places.index)))
    return stripped, None if run is None else RunRecord(stripped, run.values, run.flows, run.sent)


def can_run_in_page(circuit: CircuitGraph) -> bool:
    """Return whether the page can run a circuit without Python: scalars only, one output, ops that the page knows.

    A traced circuit whose branches depended on values is refused: it holds only where the branches stay the same, and
    the page cannot check that.

    >>> import wiregrad as wg
    >>> can_run_in_page(wg.circuit("x * x")), can_run_in_page(wg.trace(np.sum, np.ones(3)))
    (True, False)
    """
    kinds = {circuit.columns.type_table[k] for k in np.unique(circuit.columns.types).tolist()}
    return (
        circuit.size <= MAX_PAGE_NODES
        and kinds <= {FLOAT, BOOL}
        and len(circuit.outputs) == 1
        and not circuit.certificates
        and all(
            row.op.pattern is Pattern.SOURCE
            or (isinstance(row.op, Elementwise) and not (row.op.opaque or row.op.per_call or row.op.settings))
            for row in circuit.rows()
        )
        and all(decode_mode(mode)[0] is Convention.MIN_NORM for mode in _list_modes(circuit))
    )


def _list_modes(circuit: CircuitGraph) -> list[int]:
    modes = circuit.columns.modes
    return [] if modes is None else np.unique(modes).tolist()


def encode_circuit(circuit: CircuitGraph, run: RunRecord | None = None) -> dict[str, Any]:
    """Return the name, nodes and outputs of a circuit; with a run, captions of boxes leave out most shapes.

    >>> import wiregrad as wg
    >>> encode_circuit(wg.circuit("y = tanh(x)"))["outputs"]
    [{'label': 'y', 'node': 1}]
    """
    outputs = zip(circuit.outputs, circuit.columns.outputs.tolist(), strict=True)
    return {
        "name": circuit.name,
        "nodes": encode_nodes(circuit, run),
        "outputs": [{"label": label, "node": node} for label, node in outputs],
    }


def encode_run(run: RunRecord) -> dict[str, Any]:
    """Return the values, gradients, wires and inputs of a run, and the origins of what is not finite.

    >>> import wiregrad as wg
    >>> encode_run(wg.circuit("y = log(x)").run(x=0.0))["run"]["values"]
    [0.0, '-inf']
    """
    circuit = run.circuit
    shapes = [circuit.type_of(node).shape for node in range(circuit.size)]
    numbers = {
        "values": [*map(encoded.encode_value, run.values)],
        "grads": [encoded.encode_gradient(flow, shape) for flow, shape in zip(run.flows, shapes, strict=True)],
        "wires": [*encode_wires(run)],
    }
    return {"run": numbers, **_encode_inputs(run), **encode_blame(CircuitViews(circuit, run))}


def _encode_inputs(run: RunRecord) -> dict[str, Any]:
    """Return the values of real inputs: scalars by name, elements of small arrays by names such as `w[0,2]`."""
    inputs = {run.circuit.name_of(node): np.asarray(run.values[node]) for node in run.circuit.input_indices()}
    real = {name: x for name, x in inputs.items() if x.dtype.kind != "c" and (not x.shape or x.size <= MAX_EDITABLE_ELEMENTS)}
    elements = {
        f"{name}[{','.join(map(str, index))}]" if index else name: encoded.encode_number(x[index])
        for name, x in real.items()
        for index in np.ndindex(x.shape)
    }
    # An input may itself be called `w[0,2]`; then its own value counts.
    return {"leaves": elements | {name: encoded.encode_number(x) for name, x in real.items() if not x.shape}}


def encode_blame(views: CircuitViews) -> dict[str, Any]:
    """Return the origins of NaN and infinity in a run, as `blame` finds them; empty if everything is finite.

    >>> import wiregrad as wg
    >>> run = wg.circuit("y = log(x)").run(x=0.0)
    >>> encode_blame(CircuitViews(run.circuit, run))["blame"]["origins"][0]["said"]
    'log gave -inf at x = 0'
    """
    run = views.run
    if run is None or not views.get_state_mask("bad").any() or len(run.circuit.outputs) != 1:
        return {}
    try:
        report = blame(run)
    except WiregradError:
        return {}
    origins = [
        {
            "phase": origin.phase,
            "node": run.circuit.index(origin.node),
            "op": origin.op,
            "said": origin.said,
            "spoils": list(origin.spoils),
            "suggestion": origin.suggestion,
        }
        for origin in report.origins[:MAX_BLAME_ORIGINS]
    ]
    return {"blame": {"text": str(report), "origins": origins}}


def _add_source_lines(nodes: list[dict[str, Any]], circuit: CircuitGraph) -> None:
    for node, data in enumerate(nodes):
        text = read_source_line(circuit, node)
        if text:
            data["place"]["text"] = text


def read_source_line(circuit: CircuitGraph, node: int) -> str:
    """Return the line of code that made a node, stripped of surrounding whitespace; empty if it is not known.

    >>> import wiregrad as wg
    >>> read_source_line(wg.circuit("x * x"), 1)
    ''
    """
    place = circuit.columns.places.label_of(node)
    return "" if place is None or place.file == FORMULA_FILE else linecache.getline(place.file, place.line).strip()
