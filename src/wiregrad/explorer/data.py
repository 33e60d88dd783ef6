"""What Python hands to the page: the circuit, what one run did on every wire, and nothing of the machine.

Kept true: of a file no more than its name is said, and lines of it only when asked for; what is left out of a large
circuit is said in `note`.
"""

from __future__ import annotations

import linecache
from dataclasses import replace
from typing import Any

import numpy as np

from wiregrad.backends import Run
from wiregrad.dtypes import BOOL, FLOAT
from wiregrad.errors import CircuitError, WiregradError
from wiregrad.explorer import encoded
from wiregrad.explorer.formulas import FILE, formula_of
from wiregrad.explorer.kept import answers
from wiregrad.explorer.nodes import nodes_data, wires_data
from wiregrad.explorer.steering import strayed
from wiregrad.explorer.summary import summary_data
from wiregrad.explorer.views import Views
from wiregrad.inspect.blame import blame
from wiregrad.ir import Circuit, Pattern
from wiregrad.ir.flat import Labels
from wiregrad.ir.mode import Convention, decode
from wiregrad.ops import Elementwise

MOST = 20_000
"""Circuits with more nodes than this are told in a summary."""
SMALL = 64
"""Inputs that are arrays of at most so many elements are told element by element, so that they can be changed."""
ORIGINS = 8
"""How many origins of what is not finite are told."""


def page_data(
    circuit: Circuit, run: Run | None = None, *, source: bool = False, formula: str | None = None
) -> dict[str, Any]:
    """Return what the page is given; with `source` also the lines of code that made the nodes.

    `formula` is the text that the circuit was written as, if it was; without it one is sought.

    >>> import wiregrad as wg
    >>> run = wg.circuit("e = a + b; f = e * c").run(a=2, b=-3, c=10)
    >>> found = page_data(run.circuit, run)
    >>> found["live"], found["run"]["grads"], found["leaves"]
    (True, [10.0, 10.0, -1.0, 10.0, 1.0], {'a': 2.0, 'b': -3.0, 'c': 10.0})
    """
    if run is not None and run.circuit is not circuit and run.circuit != circuit:
        raise CircuitError("the run is of another circuit; explore run.circuit")
    told, ran = anonymous(circuit, run)
    if circuit.size > MOST:
        return _summary(Views(told, ran), circuit if source else None)
    found: dict[str, Any] = {"schema": encoded.SCHEMA, "live": is_live(circuit), "circuit": circuit_data(told, ran)}
    text = formula if formula is not None else formula_of(circuit) if found["live"] else None
    if text is not None:
        found["formula"] = text
    if source:
        _add_lines(found["circuit"]["nodes"], circuit)
    if ran is None:
        return found
    note = strayed(ran)
    return found | run_data(ran) | ({"note": note} if note else {})


def _summary(views: Views, source: Circuit | None) -> dict[str, Any]:
    """Return what is told of a large circuit to somebody who cannot ask for more."""
    found = summary_data(views)
    told = answers(views, found["summary"], lambda node: node_told(views, node, source)) | {"/blame": broken(views)}
    note = (
        f"{found['note']}; the rest is not in this file: circuit.explore() and run.explore() in Python show every node"
    )
    return found | {"note": note, "summary": found["summary"] | {"answers": told}}


def node_told(views: Views, node: int, source: Circuit | None) -> dict[str, Any]:
    """Return all that is known of one node, and of a circuit with places the line of code that made it.

    >>> import wiregrad as wg
    >>> node_told(Views(wg.circuit("y = tanh(x)")), 1, None)["op"]
    'tanh'
    """
    found, text = views.node(node), "" if source is None else line_of(source, node)
    return found | {"place": found["place"] | {"text": text}} if text else found


def anonymous(circuit: Circuit, run: Run | None) -> tuple[Circuit, Run | None]:
    """Return a circuit and its run with no more of each file than its name, whatever is asked of them.

    >>> import wiregrad as wg
    >>> anonymous(wg.circuit("x * x"), None)[1] is None
    True
    """
    places = circuit.columns.places
    bare = tuple(None if place is None else place.without_folder() for place in places.table)
    told = Circuit(replace(circuit.columns, places=Labels(bare, places.index)))
    return told, None if run is None else Run(told, run.values, run.flows, run.sent)


def is_live(circuit: Circuit) -> bool:
    """Return whether the page itself can run a circuit: numbers and conditions, ops that it knows, no detours.

    A recording that values have steered holds only where they decide the same, which the page cannot see.

    >>> import wiregrad as wg
    >>> is_live(wg.circuit("x * x")), is_live(wg.trace(np.sum, np.ones(3)))
    (True, False)
    """
    kinds = {circuit.columns.type_table[k] for k in np.unique(circuit.columns.types).tolist()}
    return (
        circuit.size <= MOST
        and kinds <= {FLOAT, BOOL}
        and len(circuit.outputs) == 1
        and not circuit.certificates
        and all(
            row.op.pattern is Pattern.SOURCE
            or (isinstance(row.op, Elementwise) and not (row.op.opaque or row.op.per_call or row.op.settings))
            for row in circuit.rows()
        )
        and all(decode(mode)[0] is Convention.MIN_NORM for mode in _modes(circuit))
    )


def _modes(circuit: Circuit) -> list[int]:
    modes = circuit.columns.modes
    return [] if modes is None else np.unique(modes).tolist()


def circuit_data(circuit: Circuit, run: Run | None = None) -> dict[str, Any]:
    """Return a circuit: its name, nodes and outputs; boxes of a run say less of shapes.

    >>> import wiregrad as wg
    >>> circuit_data(wg.circuit("y = tanh(x)"))["outputs"]
    [{'label': 'y', 'node': 1}]
    """
    outputs = zip(circuit.outputs, circuit.columns.outputs.tolist(), strict=True)
    return {
        "name": circuit.name,
        "nodes": nodes_data(circuit, run),
        "outputs": [{"label": label, "node": node} for label, node in outputs],
    }


def run_data(run: Run) -> dict[str, Any]:
    """Return a run: values, gradients and wires, what the leaves were, and where it broke if it did.

    >>> import wiregrad as wg
    >>> run_data(wg.circuit("y = log(x)").run(x=0.0))["run"]["values"]
    [0.0, '-inf']
    """
    circuit = run.circuit
    shapes = [circuit.type_of(node).shape for node in range(circuit.size)]
    told = {
        "values": [*map(encoded.value, run.values)],
        "grads": [encoded.flow(flow, shape) for flow, shape in zip(run.flows, shapes, strict=True)],
        "wires": [*wires_data(run)],
    }
    return {"run": told, **_inputs(run), **broken(Views(circuit, run))}


def _inputs(run: Run) -> dict[str, Any]:
    """Return the values of the inputs: numbers, and the elements of arrays that are small, such as `w[0,2]`."""
    given = {run.circuit.name_of(node): np.asarray(run.values[node]) for node in run.circuit.input_indices()}
    real = {name: x for name, x in given.items() if x.dtype.kind != "c" and (not x.shape or x.size <= SMALL)}
    elements = {
        f"{name}[{','.join(map(str, index))}]" if index else name: encoded.scalar(x[index])
        for name, x in real.items()
        for index in np.ndindex(x.shape)
    }
    # An input may be called what an element of another is.
    return {"leaves": elements | {name: encoded.scalar(x) for name, x in real.items() if not x.shape}}


def broken(views: Views) -> dict[str, Any]:
    """Return where what is not finite comes from; nothing if all is well.

    >>> import wiregrad as wg
    >>> run = wg.circuit("y = log(x)").run(x=0.0)
    >>> broken(Views(run.circuit, run))["blame"]["origins"][0]["said"]
    'log gave -inf at x = 0'
    """
    run = views.run
    if run is None or not views.state("bad").any() or len(run.circuit.outputs) != 1:
        return {}
    try:
        found = blame(run)
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
        for origin in found.origins[:ORIGINS]
    ]
    return {"blame": {"text": str(found), "origins": origins}}


def _add_lines(nodes: list[dict[str, Any]], circuit: Circuit) -> None:
    for node, told in enumerate(nodes):
        text = line_of(circuit, node)
        if text:
            told["place"]["text"] = text


def line_of(circuit: Circuit, node: int) -> str:
    """Return the line of code that made a node, without the space around it; empty if nobody knows it.

    >>> import wiregrad as wg
    >>> line_of(wg.circuit("x * x"), 1)
    ''
    """
    place = circuit.columns.places.at(node)
    return "" if place is None or place.file == FILE else linecache.getline(place.file, place.line).strip()
