"""What one page of the explorer is about (a circuit and its latest run) as JSON, and the page as one HTML file.

A circuit of up to `MAX_PAGE_NODES` nodes is sent whole, with the formula that it was written as if there is one. A
larger one is summarized: a picture of its groups, the largest gradients, and everything that is not finite. Invariants:
of a file only its name is sent, and its lines only when asked for; `note` says what was left out; nothing else of the
machine is sent.

The card of an array shows cells of a heat map, a histogram, extremes, and where and why it is not finite. Invariants:
what is sent is bounded, whatever the size of the arrays; a cell that stands for several elements is their mean, unless
one of them is not finite: then it is that one, so that binning never hides a NaN.

A saved page of a large circuit stores answers, so that it can be explored without a server: each under the URL that the
page would ask for, the most useful first, up to a size limit. For any other question the page says that the answer is
not in the file.

The local server and the notebook's widget ask an `ExplorerSession`; it needs no package beyond NumPy.

The HTML file contains its style, script and data and fetches nothing. Invariants: the content security policy allows
the page's own scripts and its style by their hashes, so no text of a circuit can become either; the data is JSON in
which `<`, `>` and `&` are escaped. The explorer has two scripts: the first draws the circuit, the second waits until a
drawer or a card is opened.
"""

from __future__ import annotations

import hashlib
import html
import json
import math
import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wiregrad.backends import RunRecord, interpreter
from wiregrad.draw.layout.boxes import BoxKind, escape_unprintable
from wiregrad.dtypes import BOOL, FLOAT, MINUS, JsonValue, format_brief_number, format_short
from wiregrad.errors import (
    CircuitError,
    FileAccessError,
    FileFormatError,
    InputError,
    WiregradError,
    read_line_of_code,
    short_repr,
)
from wiregrad.explorer import (
    PAGE_SCHEMA,
    encode_gradient,
    encode_nodes,
    encode_number,
    encode_value,
    encode_wire,
    encode_wires,
)
from wiregrad.explorer.circuit_views import CircuitViews
from wiregrad.frontends import parse_formula
from wiregrad.inspect.blame import blame
from wiregrad.ir import CircuitGraph, Pattern, certificates
from wiregrad.ir.circuit import ATOM_LEVEL, FORMULA_FILE, binding_level, write_expression
from wiregrad.ir.columns import Convention, NodeLabels, decode_mode
from wiregrad.ops import Elementwise
from wiregrad.ops.gradient_flow import fill_absent

MAX_FORMULA_NODES = 2000
"""Circuits with more nodes than this get no formula: nobody would read it."""


def recover_formula(circuit: CircuitGraph) -> str | None:
    """Return a formula that parses to this circuit, names and order included; None if there is none or it was Python.

    >>> print(recover_formula(parse_formula("(a + b) * c")))
    t1 = a + b
    f = t1 * c
    """
    places = circuit.columns.places
    if (
        circuit.size > MAX_FORMULA_NODES
        or any(place.file != FORMULA_FILE for place in places.table)
        or len(circuit.outputs) != 1
    ):
        return None
    text = "\n".join(_write_statements(circuit))
    try:
        parsed = parse_formula(text)
    except WiregradError:
        return None
    return text if _strip_places(parsed) == _strip_places(circuit) else None


def _strip_places(circuit: CircuitGraph) -> CircuitGraph:
    return CircuitGraph(replace(circuit.columns, places=NodeLabels()))


def _write_statements(circuit: CircuitGraph) -> Iterator[str]:
    names = circuit.columns.names
    for row in circuit.rows():
        if row.op.pattern is not Pattern.SOURCE:
            operands = [_write_operand(circuit, source) for source in row.sources]
            text = row.op.expression(*(f"({x})" if x.startswith("-") else x for x in operands))
            node_names = names.names_of(row.node)
            yield f"{node_names[0]} = {text}" if node_names else text


def _write_operand(circuit: CircuitGraph, node: int) -> str:
    is_literal = circuit.constant_of(node) is not None and not circuit.columns.names.names_of(node)
    return circuit.operand_text(node) if is_literal else circuit.name_of(node)


def describe_flipped_branch(run: RunRecord) -> str:
    """Return a note on the first Python branch that would go the other way at the values of a run; empty if none would.

    >>> import wiregrad as wg
    >>> describe_flipped_branch(wg.circuit("x * x").run(x=3.0))
    ''
    """
    certificate = certificates.find_flipped(run.circuit, run.values)
    if certificate is None:
        return ""
    at = "" if certificate.place is None else f" at {certificate.place.without_folder()}"
    condition = certificates.describe_certificate(run.circuit, certificate)
    return (
        f"at these inputs Python would have taken another branch{at}: {condition} when it was traced; "
        "the function itself may give another result"
    )


def summarize_circuit(views: CircuitViews) -> dict[str, Any]:
    """Summarize a large circuit: its groups, the largest gradients, and everything that is not finite.

    >>> import wiregrad as wg
    >>> run = wg.circuit("y = tanh(x)").run(x=1.0)
    >>> summarize_circuit(CircuitViews(run.circuit, run))["note"]
    'a summary: 2 boxes stand for all 2 nodes and leaves of the circuit'
    """
    where = views.locate_node(views.stops[0]["node"]) if views.stops else {"opened": [], "focus": []}
    board = views.draw_board(**where)
    summary = {
        "size": views.circuit.size,
        "name": views.circuit.name,
        "ran": views.run is not None,
        "outline": views.outline_groups(),
        "top": views.list_top_gradients(),
        "nonfinite": views.list_nonfinite(),
        "heat": views.build_heat_strip(),
        "board": board,
        "where": where,
        "order": views.board.encode_order(),
        "loop": views.board.find_loop(),
        "stops": views.stops,
    }
    note = _describe_summary(views, len(board["boxes"]))
    return {"schema": PAGE_SCHEMA, "live": False, "note": note, "summary": summary}


def _describe_summary(views: CircuitViews, count: int) -> str:
    boxes = "1 box stands" if count == 1 else f"{count:,} boxes stand"
    return f"a summary: {boxes} for all {views.circuit.size:,} nodes and leaves of the circuit"


def draw_summary(views: CircuitViews) -> dict[str, Any]:
    """Return a picture of a large circuit for a notebook, whose page shows circuits alone.

    `circuit` and `run` in the result describe the picture: each of their nodes is a box, which may contain many.

    >>> import wiregrad as wg
    >>> run = wg.circuit("y = tanh(x)").run(x=1.0)
    >>> len(draw_summary(CircuitViews(run.circuit, run))["circuit"]["nodes"])
    2
    """
    view = views.draw_view()
    note = _describe_summary(views, len(view["boxes"])) + (f"; {view['note']}" if view["note"] else "")
    data = {"schema": PAGE_SCHEMA, "live": False, "note": note}
    return data | _boxes_as_circuit(views, view)


def _boxes_as_circuit(views: CircuitViews, view: dict[str, Any]) -> dict[str, Any]:
    """Encode a picture as a circuit: its boxes as nodes, its links as wires."""
    arriving: list[list[dict[str, Any]]] = [[] for _ in view["boxes"]]
    for link in view["links"]:
        arriving[link["target"]].append(link)
    nodes = [_box_node(box, links) for box, links in zip(view["boxes"], arriving, strict=True)]
    outputs = [{"label": label, "node": k} for k, box in enumerate(view["boxes"]) for label in box["outputs"]]
    data: dict[str, Any] = {"circuit": {"name": views.circuit.name, "nodes": nodes, "outputs": outputs}}
    if views.run is not None:
        data["run"] = _boxes_as_run(views.run, view["boxes"], arriving)
    return data


def _boxes_as_run(run: RunRecord, boxes: list[dict[str, Any]], arriving: list[list[dict[str, Any]]]) -> dict[str, Any]:
    """Encode the numbers of boxes and links: exact for a single node or wire, else the norm over many."""
    numbers = [_box_numbers(run, box) for box in boxes]
    return {
        "values": [value for value, _ in numbers],
        "grads": [grad for _, grad in numbers],
        "wires": [
            _link_numbers(run, link) or [None, grad, _reading_as_summary(link["sent"], "gradient", 0)]
            for (_, grad), links in zip(numbers, arriving, strict=True)
            for link in links
        ],
    }


def _box_numbers(run: RunRecord, box: dict[str, Any]) -> tuple[Any, Any]:
    node = box["node"]
    if box["kind"] != BoxKind.GROUP.value:
        return encode_value(run.values[node]), encode_gradient(run.flows[node], run.circuit.type_of(node).shape)
    value = {"type": "group", "text": box["text"], "norm": 0.0, "bad": box["bad"]}
    return value, _reading_as_summary(box["grad"], "gradient", box["bad"])


def _link_numbers(run: RunRecord, link: dict[str, Any]) -> list[Any] | None:
    return encode_wire(run, link["reader"], link["slot"]) if link["wires"] == 1 else None


def _box_node(box: dict[str, Any], links: list[dict[str, Any]]) -> dict[str, Any]:
    kind = box["kind"] if box["kind"] in (BoxKind.INPUT.value, BoxKind.CONSTANT.value) else BoxKind.GROUP.value
    return {
        "op": kind,
        "sources": [link["source"] for link in links],
        "names": [box["label"]],
        "mode": 0,
        "group": box["group"],
        "type": box["kind"],
        "text": box["text"],
    }


def _reading_as_summary(reading: dict[str, Any] | None, kind: str, bad: int) -> dict[str, Any] | None:
    """Encode the reading of many numbers like the summary of an array; None where no gradient arrived."""
    if reading is None or reading["size"] is None:
        return None
    size = reading["size"]
    return {"type": kind, "text": reading["text"], "norm": size if isinstance(size, str) else abs(size), "bad": bad}


MAX_PAGE_NODES = 20_000
"""Circuits with more nodes than this are sent as a summary."""
MAX_EDITABLE_ELEMENTS = 64
"""Array inputs of at most this many elements are sent element by element, so that each can be edited."""
MAX_NODES_WITH_LINES = 300
"""Circuits with more nodes than this are sent without the lines around the line of each node."""
LINES_BEFORE = 2
LINES_AFTER = 1
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
        "schema": PAGE_SCHEMA,
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


def build_file_data(
    circuit: CircuitGraph, run: RunRecord | None = None, *, source: bool = False, formula: str | None = None
) -> dict[str, Any]:
    """Return the data of a page that is written to a file: where the page computes a formula itself, nothing else.

    >>> import wiregrad as wg
    >>> run = wg.circuit("y = x * 2").run(x=3.0)
    >>> build_file_data(run.circuit, run, formula="y = x * 2")
    {'schema': 1, 'live': True, 'formula': 'y = x * 2', 'leaves': {'x': 3.0}}
    """
    data = build_page_data(circuit, run, source=source, formula=formula)
    if not data.get("live") or "formula" not in data:
        return data
    return {key: data[key] for key in ("schema", "live", "formula", "leaves", "note") if key in data}


def _build_offline_summary(views: CircuitViews, source: CircuitGraph | None) -> dict[str, Any]:
    """Return the summary of a large circuit for a saved page, with the answers that no server will give."""
    data = summarize_circuit(views)
    stored = collect_answers(views, data["summary"], lambda node: describe_node_with_source(views, node, source)) | {
        "/blame": encode_blame(views)
    }
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
            or (isinstance(row.op, Elementwise) and row.op.c and not (row.op.per_call or row.op.settings))
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
    loops = encode_loops(run)
    numbers: dict[str, Any] = encode_run_numbers(run) | ({"loops": loops} if loops else {})
    return {"run": numbers, **_encode_inputs(run), **encode_blame(CircuitViews(run.circuit, run))}


def encode_run_numbers(run: RunRecord) -> dict[str, list[Any]]:
    """Return the values, gradients and wires of a run.

    >>> import wiregrad as wg
    >>> encode_run_numbers(wg.circuit("y = x * x").run(x=3.0))["grads"]
    [6.0, 1.0]
    """
    circuit = run.circuit
    shapes = [circuit.type_of(node).shape for node in range(circuit.size)]
    numbers: dict[str, list[Any]] = {
        "values": [*map(encode_value, run.values)],
        "grads": [encode_gradient(flow, shape) for flow, shape in zip(run.flows, shapes, strict=True)],
        "wires": [*encode_wires(run)],
    }
    add_array_details(run, numbers["values"], numbers["grads"])
    return numbers


MAX_SHOWN_STEPS = 24
"""Maximum number of steps of a loop in the page."""
MAX_BODY_NODES = 200
"""Loops with larger bodies are shown without their inside."""
MAX_OPENED_STEPS = 20_000
"""Loops of more steps are shown without their inside: finding what they carry takes too long."""
MAX_OPENED_LOOPS = 8
"""Maximum number of loops whose inside is in the page."""


def encode_loops(run: RunRecord) -> dict[str, Any]:
    """Return the inside of each loop and branch, by node: its body, and what some of its steps computed."""
    loops: dict[str, Any] = {}
    for node in range(run.circuit.size):
        opened = interpreter.open_loop(run, node) if len(loops) < MAX_OPENED_LOOPS else None
        if opened is None or not 0 < opened.length <= MAX_OPENED_STEPS or opened.body.size > MAX_BODY_NODES:
            continue
        steps = np.unique(np.linspace(0, opened.length - 1, MAX_SHOWN_STEPS).round().astype(int)).tolist()
        runs = opened.run_steps(steps)
        loops[str(node)] = {
            "steps": opened.length,
            "shown": steps,
            "circuit": encode_circuit(*strip_folders(opened.body, runs[0])),
            "runs": [*map(encode_run_numbers, runs)],
        }
    return loops


def _encode_inputs(run: RunRecord) -> dict[str, Any]:
    """Return the values of real inputs: scalars by name, elements of small arrays by names such as `w[0,2]`."""
    inputs = {run.circuit.name_of(node): np.asarray(run.values[node]) for node in run.circuit.input_indices()}
    real = {
        name: x
        for name, x in inputs.items()
        if x.dtype.kind != "c" and (not x.shape or x.size <= MAX_EDITABLE_ELEMENTS)
    }
    elements = {
        f"{name}[{','.join(map(str, index))}]" if index else name: encode_number(x[index].item())
        for name, x in real.items()
        for index in np.ndindex(x.shape)
    }
    # An input may itself be called `w[0,2]`; then its own value counts.
    return {"leaves": elements | {name: encode_number(x.item()) for name, x in real.items() if not x.shape}}


def encode_blame(views: CircuitViews) -> dict[str, Any]:
    """Return the origins of NaN and infinity in a run, as `blame` finds them; empty if everything is finite.

    >>> import wiregrad as wg
    >>> run = wg.circuit("y = log(x)").run(x=0.0)
    >>> encode_blame(CircuitViews(run.circuit, run))["blame"]["origins"][0]["said"]
    'log gave -Inf at x = 0'
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
        if text and circuit.size <= MAX_NODES_WITH_LINES:
            data["place"]["lines"] = _read_lines_around(circuit, node)


def _read_lines_around(circuit: CircuitGraph, node: int) -> list[list[Any]]:
    """Return the line that made a node and its neighbours, numbered, without the indentation that they share."""
    place = circuit.columns.places.label_of(node)
    assert place is not None
    numbers = range(max(place.line - LINES_BEFORE, 1), place.line + LINES_AFTER + 1)
    lines: list[tuple[int, str]] = [(number, read_line_of_code(place.file, number).rstrip()) for number in numbers]
    shared = min(len(text) - len(text.lstrip()) for _, text in lines if text)
    return [[number, text[shared:]] for number, text in lines if text or number < place.line]


def read_source_line(circuit: CircuitGraph, node: int) -> str:
    """Return the line of code that made a node, stripped of surrounding whitespace; empty if it is not known.

    >>> import wiregrad as wg
    >>> read_source_line(wg.circuit("x * x"), 1)
    ''
    """
    place = circuit.columns.places.label_of(node)
    return "" if place is None or place.file == FORMULA_FILE else read_line_of_code(place.file, place.line).strip()


MAX_SIDE = 32
"""Maximum number of rows and of columns of a heat map."""
MAX_PAGE_CELLS = 30_000
"""Maximum number of cells of all heat maps of a page together; with many arrays, each has fewer rows and columns."""
HISTOGRAM_BINS = 20
MAX_LISTED_PLACES = 3
"""Maximum number of places of non-finite elements that are listed one by one."""


def choose_side(arrays: int) -> int:
    """Return how many rows and columns the heat map of each of so many arrays may have; 0: there is no room for any.

    >>> choose_side(10), choose_side(100), choose_side(100_000)
    (32, 16, 0)
    """
    side = MAX_SIDE
    while side > 4 and arrays * side * side > MAX_PAGE_CELLS:
        side //= 2
    return side if arrays * side * side <= MAX_PAGE_CELLS else 0


def detail_array(array: NDArray[Any], side: int = MAX_SIDE) -> dict[str, JsonValue]:
    """Return the details of an array: cells, histogram, extremes and what is not finite.

    >>> detail = detail_array(np.array([[1.0, 2.0], [np.nan, np.nan]]))
    >>> detail["cells"], detail["where"], detail["high"]
    ([[1.0, 2.0], ['nan', 'nan']], 'NaN at [1, 0] and [1, 1], the whole row', ['2', '[0, 1]'])
    """
    real = np.abs(array) if array.dtype.kind == "c" else np.asarray(array, np.float64)
    finite = np.isfinite(real)
    details: dict[str, JsonValue] = {
        "shape": list(array.shape),
        "zeros": int(np.count_nonzero(real == 0)),
        "nans": int(np.isnan(real).sum()),
        "infs": int(np.isinf(real).sum()),
    }
    if finite.any():
        details |= _find_extremes(real, finite) | _count_bins(real[finite])
    if not finite.all():
        details["where"] = describe_places(real)
    if side and real.size:
        details |= _bin_cells(real, side)
    return details


def _find_extremes(real: NDArray[np.float64], finite: NDArray[np.bool_]) -> dict[str, JsonValue]:
    low = int(np.argmin(np.where(finite, real, np.inf)))
    high = int(np.argmax(np.where(finite, real, -np.inf)))
    pairs = {name: (real.flat[k], _format_index(real.shape, k)) for name, k in (("low", low), ("high", high))}
    return {name: [format_short(float(value)), index] for name, (value, index) in pairs.items()}


def _count_bins(numbers: NDArray[np.float64]) -> dict[str, JsonValue]:
    low, high = float(numbers.min()), float(numbers.max())
    if not math.isfinite(high - low):
        return {}
    edges = (low, high) if low < high else (low - 0.5, high + 0.5)
    counts = np.histogram(numbers, HISTOGRAM_BINS, edges)[0].tolist()
    # Zeros are in one bin, at whose foot the page says how many there are.
    zero = int(HISTOGRAM_BINS * (0.0 - edges[0]) / (edges[1] - edges[0])) if edges[0] <= 0.0 <= edges[1] else -1
    return {"counts": counts, "zero_bin": min(zero, HISTOGRAM_BINS - 1), "edges": [*map(format_short, edges)]}


def _bin_cells(real: NDArray[np.float64], side: int) -> dict[str, JsonValue]:
    """Return the elements as rows of cells; all axes but the last are rows."""
    rows = real.reshape(-1, real.shape[-1]) if real.ndim > 1 else real.reshape(1, -1)
    steps = [math.ceil(length / side) for length in rows.shape]
    blocks = [_split_rows(part, steps[1]) for part in _split_along(rows, steps[0])]
    return {"cells": [[_encode_cell(cell) for cell in row] for row in blocks], "steps": list(steps)}


def _split_along(rows: NDArray[np.float64], step: int) -> list[NDArray[np.float64]]:
    return [rows[k : k + step] for k in range(0, len(rows), step)]


def _split_rows(rows: NDArray[np.float64], step: int) -> list[NDArray[np.float64]]:
    return [rows[:, k : k + step] for k in range(0, rows.shape[1], step)]


def _encode_cell(cell: NDArray[np.float64]) -> JsonValue:
    if np.isnan(cell).any():
        return "nan"
    if np.isinf(cell).any():
        return "inf" if cell[np.isinf(cell)][0] > 0 else "-inf"
    return float(f"{cell.mean():.4g}")


def _format_index(shape: tuple[int, ...], flat: int) -> str:
    return str([int(k) for k in np.unravel_index(flat, shape)])


def describe_places(real: NDArray[np.float64]) -> str:
    """Write where an array is not finite.

    >>> describe_places(np.array([1.0, np.inf, 2.0])), describe_places(np.array([[np.nan] * 2] * 2))
    ('Inf at [1]', 'NaN everywhere')
    """
    bad = ~np.isfinite(real)
    word = "NaN" if np.isnan(real).any() else "Inf"
    places = np.flatnonzero(bad)
    if len(places) == real.size:
        return f"{word} everywhere"
    first, last = (_format_index(real.shape, int(k)) for k in (places[0], places[-1]))
    rows = bad.reshape(-1, real.shape[-1]) if real.ndim > 1 else bad.reshape(1, -1)
    spoilt = np.flatnonzero(rows.any(axis=1))
    whole = real.ndim > 1 and bool(rows[spoilt].all()) and rows.shape[1] > 1
    if whole and len(spoilt) == 1:
        return f"{word} at {first} {'and' if rows.shape[1] == 2 else 'to'} {last}, the whole row"
    if whole and spoilt[-1] - spoilt[0] == len(spoilt) - 1:
        return f"{word} at {first} to {last}, {len(spoilt):,} whole rows"
    if len(places) > 2 and places[-1] - places[0] == len(places) - 1:
        return f"{word} at {first} to {last}"
    listed = [_format_index(real.shape, int(k)) for k in places[:MAX_LISTED_PLACES]]
    more = f" and {len(places) - MAX_LISTED_PLACES:,} more" if len(places) > MAX_LISTED_PLACES else ""
    return f"{word} at {', '.join(listed)}{more}"


def describe_cause(run: RunRecord, node: int) -> dict[str, JsonValue]:
    """Say what an elementwise op did at the first element that is not finite; empty for other ops and finite arrays.

    >>> import wiregrad as wg
    >>> with np.errstate(all="ignore"):
    ...     run = wg.run(lambda x: np.sum(x / x), np.array([1.0, 0.0]))
    >>> describe_cause(run, 1)
    {'cause': '0 / 0', 'because': 'x[1] = 0'}
    """
    circuit = run.circuit
    op = circuit.op_of(node)
    array = np.asarray(run.values[node])
    if not isinstance(op, Elementwise) or array.dtype.kind not in "fc" or np.isfinite(array).all():
        return {}
    at = np.unravel_index(int(np.argmin(np.isfinite(array))), array.shape)
    operands = [np.asarray(run.values[source])[at] for source in circuit.sources_of(node)]
    sources = [_name_element(circuit, source, tuple(map(int, at))) for source in circuit.sources_of(node)]
    facts = dict(zip(sources, operands, strict=True))
    spoilt = {name: x for name, x in facts.items() if name and not np.isfinite(x)}
    because = " and ".join(f"{name} = {format_short(x)}" for name, x in (spoilt or facts).items() if name)
    if spoilt:
        return {"because": because}
    cause = write_expression(op, [*map(format_brief_number, operands)]).replace("-", MINUS)
    return {"cause": cause, "because": because}


def _name_element(circuit: CircuitGraph, source: int, at: tuple[int, ...]) -> str:
    """Name an element of what an op reads, as `s[9, 0]`; a broadcast array by the element that was repeated."""
    while circuit.op_of(source).name == "spread":
        source = circuit.sources_of(source)[0]
        shape = circuit.type_of(source).shape
        at = tuple(0 if length == 1 else k for length, k in zip(shape, at[len(at) - len(shape) :], strict=True))
    if circuit.constant_of(source) is not None and not circuit.columns.names.names_of(source):
        return ""
    title = circuit.title_of(source)
    if at and binding_level(title) < ATOM_LEVEL:
        title = f"({title})"
    return f"{title}[{', '.join(map(str, at))}]" if at else title


def add_array_details(run: RunRecord, values: list[Any], grads: list[Any]) -> None:
    """Add details to the summaries of arrays in an encoded run."""
    arrays = [node for node, value in enumerate(values) if isinstance(value, dict) and np.ndim(run.values[node])]
    side = choose_side(2 * len(arrays))
    for node in arrays:
        array = np.asarray(run.values[node])
        if array.dtype.kind not in "fciub":
            continue
        with np.errstate(all="ignore"):
            values[node]["detail"] = detail_array(array, side) | describe_cause(run, node)
            if isinstance(grads[node], dict):
                gradient = np.broadcast_to(np.asarray(fill_absent(run.flows[node])), array.shape)
                grads[node]["detail"] = detail_array(gradient, side)


NUMBER_WORDS = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}
"""Numbers that JSON cannot write, by the strings that stand for them."""


class ExplorerSession:
    """The circuit that a page shows, with its latest run. `source` allows lines of code to be sent."""

    def __init__(
        self, circuit: CircuitGraph, run: RunRecord | None = None, *, source: bool = False, formula: str | None = None
    ) -> None:
        self.circuit = circuit
        self.source = source
        self.formula = formula
        self._lock = Lock()
        self._show_run(run)

    def _show_run(self, run: RunRecord | None) -> None:
        self.run = run
        self.views = CircuitViews(*strip_folders(self.circuit, run))
        self._data: dict[str, Any] | None = None

    def initial_data(self) -> dict[str, Any]:
        """Return the JSON that the page starts with; `server` in it says that there is a server to ask."""
        with self._lock:
            if self._data is None:
                self._data = self._build_data()
            return self._data

    def notebook_data(self) -> dict[str, Any]:
        """Return the JSON that a notebook's page starts with, which cannot ask for views of a large circuit."""
        if self.circuit.size <= MAX_PAGE_NODES:
            return self.initial_data()
        with self._lock:
            return draw_summary(self.views) | {"server": {"run": True, "views": False}}

    def _build_data(self) -> dict[str, Any]:
        large = self.circuit.size > MAX_PAGE_NODES
        if large:
            data = summarize_circuit(self.views)
        else:
            data = build_page_data(self.circuit, self.run, source=self.source, formula=self.formula)
        return data | {"server": {"run": True, "views": large}}

    def rerun(self, leaves: Mapping[str, Any]) -> dict[str, Any]:
        """Run the circuit at changed inputs, the others as before; return the run as JSON."""
        circuit = self.circuit
        elements = {name: value for name, value in leaves.items() if name not in circuit.inputs and "[" in str(name)}
        whole = {name: value for name, value in leaves.items() if name not in elements}
        interpreter.check_input_names(whole, circuit.inputs)
        with self._lock:
            before = {} if self.run is None else dict(zip(circuit.inputs, self._input_values(self.run), strict=True))
            point = before | {name: self._fit_input(name, value) for name, value in whole.items()}
            for name, value in elements.items():
                _set_element(point, name, value)
            # check=False: an edit that flips a Python branch is shown with a note, not refused.
            self._show_run(
                interpreter.run_all_outputs(circuit, interpreter.bind_inputs(circuit, [point], {}), check=False)
            )
            return self._encode_latest_run()

    def _encode_latest_run(self) -> dict[str, Any]:
        run = self.views.run
        assert run is not None
        data = draw_summary(self.views) if self.circuit.size > MAX_PAGE_NODES else encode_run(run)
        notes = [*filter(None, [data.get("note"), describe_flipped_branch(run)])]
        return data | ({"note": "; ".join(notes)} if notes else {})

    def _fit_input(self, name: str, value: object) -> object:
        """Cast an input to the dtype of its wire if nothing is lost: JavaScript has one type for all numbers."""
        dtype = self.circuit.type_of(self.circuit.index(name)).dtype
        number = _parse_input(name, value)
        if dtype.kind not in "ib" or np.asarray(number).dtype.kind not in "fi":
            return number
        with np.errstate(all="ignore"):
            cast = np.asarray(number).astype(dtype)
        return cast[()] if np.array_equal(cast, np.asarray(number)) else number

    def _input_values(self, run: RunRecord) -> list[Any]:
        return [run.values[node] for node in self.circuit.input_indices()]

    def describe_node(self, node: int) -> dict[str, Any]:
        """Return everything known about one node, with its line of code if `source` allows it."""
        return describe_node_with_source(self.views, node, self.circuit if self.source else None)

    def offline_data(self) -> dict[str, Any]:
        """Return the JSON for a saved page, which has no server to ask."""
        with self._lock:
            return build_file_data(self.circuit, self.run, source=self.source, formula=self.formula)


def _set_element(point: dict[str, Any], element: str, value: object) -> None:
    """Replace one element of an array input, named as in `w[0,2]`."""
    name, _, rest = element.rpartition("[")
    index = tuple(
        int(k) if k.isascii() and k.isdigit() and len(k) < 13 else -1 for k in rest.removesuffix("]").split(",")
    )
    shape = np.shape(point.get(name, 0))
    if not shape or len(index) != len(shape) or not all(0 <= k < n for k, n in zip(index, shape, strict=True)):
        raise InputError(f"there is no element {short_repr(element)}")
    number = _parse_input(element, value)
    if type(number) not in (bool, int, float):
        raise InputError(f"{short_repr(element)} is one number; got {short_repr(value)}")
    with np.errstate(all="ignore"):
        array = np.array(point[name])
        cast = np.asarray(number).astype(array.dtype)
    if array.dtype.kind in "ib" and cast != number:
        raise InputError(f"{short_repr(element)} is of type {array.dtype}; got {short_repr(value)}")
    array[index] = cast
    point[name] = array


def _parse_input(name: str, value: object) -> object:
    """Decode an input from JSON: a number, a string for one (`nan`), or nested lists of them."""
    if not isinstance(value, list):
        return NUMBER_WORDS.get(value, value) if isinstance(value, str) else value
    cells = np.array(value, object)
    flat = [NUMBER_WORDS.get(cell, cell) if isinstance(cell, str) else cell for cell in cells.reshape(-1).tolist()]
    try:
        return np.array(flat).reshape(cells.shape)
    except ValueError:
        raise InputError(f"input {name} is a ragged list") from None


MAX_ANSWER_CHARACTERS = 2_000_000
"""Maximum number of characters of JSON that the answers in a page may take."""
MAX_STORED_BOARDS = 80
"""Maximum number of boards stored in the page."""
BoardQuery = dict[str, list[str]]
NodeDescriber = Callable[[int], dict[str, Any]]


def collect_answers(views: CircuitViews, summary: dict[str, Any], node: NodeDescriber) -> dict[str, Any]:
    """Return answers by URL: the important nodes and their surroundings first, then the contents of groups.

    >>> import wiregrad as wg
    >>> run = wg.circuit("y = log(x)").run(x=0.0)
    >>> views = CircuitViews(run.circuit, run)
    >>> sorted(collect_answers(views, summarize_circuit(views)["summary"], views.describe_node))
    ['/board?', '/locate/1', '/node/0', '/node/1']
    """
    urls = {index: f"/node/{index}" for index in _list_stored_nodes(summary)}
    stored: dict[str, Any] = {url: node(index) for index, url in urls.items()}
    places = {f"/locate/{index}": views.locate_node(index) for index in _list_visited_nodes(summary)}
    room = MAX_ANSWER_CHARACTERS - len(json.dumps([stored, places]))
    for url, query in _list_boards(views, summary["where"], [*places.values()]).items():
        board = views.draw_board(**query)
        room -= len(json.dumps(board))
        if room < 0:
            break
        stored[url] = board
    return stored | {url: query for url, query in places.items() if format_board_url(query) in stored}


def format_board_url(query: BoardQuery) -> str:
    """Return the URL under which the page asks for a board, before it is quoted.

    >>> format_board_url({"opened": ["net"], "focus": ["|t=:3-9"]})
    '/board?opened=net&focus=|t=:3-9'
    """
    return "/board?" + "&".join(f"{name}={text}" for name in ("opened", "focus") for text in query[name])


def _list_first_nonfinite(summary: dict[str, Any]) -> list[int]:
    return [row["node"] for row in summary["nonfinite"]["first"].values() if row is not None]


def _list_stored_nodes(summary: dict[str, Any]) -> Iterator[int]:
    """Yield the nodes to describe in full: the first non-finite ones, large gradients, nodes on the first board."""
    yield from _list_first_nonfinite(summary)
    yield from (row["node"] for row in summary["top"])
    yield from (box["node"] for box in summary["board"]["boxes"] if "node" in box)


def _list_visited_nodes(summary: dict[str, Any]) -> list[int]:
    """Return the nodes to which the page leads: the first non-finite ones and large gradients."""
    return [*dict.fromkeys([*_list_first_nonfinite(summary), *(row["node"] for row in summary["top"])])]


def _list_boards(views: CircuitViews, first: BoardQuery, places: list[BoardQuery]) -> dict[str, BoardQuery]:
    """Return the boards to store by URL: with one box of the first board opened or closed, all closed, and others."""
    closed: BoardQuery = {"opened": [], "focus": []}
    queries = [first, *places[:2], closed]
    for query in (first, closed):
        queries += [
            _turn_box(query, box) for box in views.draw_board(**query)["boxes"] if box["kind"] in ("group", "range")
        ]
    queries += places[2:]
    return dict([(format_board_url(query), query) for query in queries][:MAX_STORED_BOARDS])


def _turn_box(query: BoardQuery, box: dict[str, Any]) -> BoardQuery:
    """Return what is open after a box was opened or closed, in the order in which the page writes it."""
    if box["kind"] == "range":
        stretch = box["stretch"]
        focus = [text for text in query["focus"] if text.rpartition(":")[0] != stretch]
        return {"opened": query["opened"], "focus": [*focus, f"{stretch}:{box['first']}-{box['last']}"]}
    path = box["path"]
    if not box["open"]:
        return {"opened": [*query["opened"], path], "focus": query["focus"]}
    outer = path.rpartition("/")[0]
    opened = [one for one in query["opened"] if not f"{one}/".startswith(f"{path}/")]
    return {"opened": opened, "focus": [text for text in query["focus"] if not _is_closed_with(text, path, outer)]}


def _is_closed_with(focus: str, path: str, outer: str) -> bool:
    group = focus.partition("|")[0]
    first, _, last = focus.rpartition(":")[2].partition("-")
    return f"{group}/".startswith(f"{path}/") or (group == outer and first == last)


SCRIPT_FILE = "explorer.js"
DRAWERS_SCRIPT_FILE = "drawers.js"
"""The script of the drawers and cards: it only defines a function, which the first script calls when it needs it."""
STYLE_FILE = "explorer.css"
LARGE_SCRIPT_FILE = "large.js"
LARGE_STYLE_FILE = "large.css"
"""The script and the style of pages that hold a summary: of a large circuit, or of a training."""
SHEET_FILES = ("sheet.js", "sheet.css")
"""The script and the style of pages that ask the questions of a set, and of the table of a class."""
LEARN_SCRIPT_FILE = "learn.js"
LEARN_STYLE_FILE = "learn.css"
"""The script and the style of pages that hold lessons."""
DATA_ELEMENT_ID = "wiregrad-data"
"""The id of the element that holds the data."""
ROOT_ELEMENT_ID = "explorer"
"""The id of the element that the script fills."""

PAGE_TEMPLATE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
{policy}<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
{style}
</head>
<body>
<div id="{root}"></div>
<noscript>This page draws a circuit with a script of its own. Allow scripts for it, or draw a picture without one:
wiregrad draw FORMULA -o picture.svg</noscript>
{data}
{script}
</body>
</html>
"""
_ELEMENT_END = re.compile(r"</(?:script|style)|<!--", re.IGNORECASE)
_JSON_ESCAPES = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}


def to_html(
    circuit: CircuitGraph,
    run: RunRecord | None = None,
    title: str | None = None,
    *,
    source: bool = False,
    formula: str | None = None,
) -> str:
    """Return the explorer on a circuit, and a run of it, as one HTML file that needs no network.

    `source` adds the lines of code that made the nodes; without it, the page holds only the names of source files.

    >>> import wiregrad as wg
    >>> page = to_html(wg.circuit("y = tanh(x)"))
    >>> page.startswith("<!doctype html>"), "connect-src 'none'" in page
    (True, True)
    """
    return render_page(build_file_data(circuit, run, source=source, formula=formula), title or circuit.name)


def render_page(data: object, title: str) -> str:
    """Return the page as one HTML file that contains its data.

    >>> "<title>a &lt; b" in render_page({}, "a < b")
    True
    """
    names, style_name = choose_files(data)
    # The page writes itself down when its main script begins, so everything else must be there before it.
    scripts = [read_inline_file(name) for name in reversed(names)]
    style = read_inline_file(style_name)
    meta = f'<meta http-equiv="Content-Security-Policy" content="{build_content_policy(scripts, style)}">\n'
    elements = "\n".join(f"<script>{script}</script>" for script in scripts)
    return _fill_template(data, title, policy=meta, style=f"<style>{style}</style>", script=elements)


def render_served_page(data: object, title: str) -> str:
    """Return the page that the server sends: it fetches style and script, and the policy is in the response headers.

    >>> '<script src="/explorer.js" defer></script>' in render_served_page({}, "f")
    True
    """
    # An empty icon keeps browsers from requesting /favicon.ico.
    names, style = choose_files(data)
    links = f'<link rel="icon" href="data:,">\n<link rel="stylesheet" href="/{style}">'
    scripts = "\n".join(f'<script src="/{name}" defer></script>' for name in names)
    return _fill_template(data, title, policy="", style=links, script=scripts)


def choose_files(data: object) -> tuple[tuple[str, ...], str]:
    """Return the scripts of a page, the main one first, and its style.

    >>> choose_files({}), choose_files({"summary": {}})
    ((('explorer.js', 'drawers.js'), 'explorer.css'), (('large.js',), 'large.css'))
    """
    parts = data.keys() if isinstance(data, dict) else set()
    if "course" in parts:
        return (LEARN_SCRIPT_FILE,), LEARN_STYLE_FILE
    if {"sheet", "gradebook"} & parts:
        return (SHEET_FILES[0],), SHEET_FILES[1]
    if {"summary", "training"} & parts:
        return (LARGE_SCRIPT_FILE,), LARGE_STYLE_FILE
    return (SCRIPT_FILE, DRAWERS_SCRIPT_FILE), STYLE_FILE


def _fill_template(data: object, title: str, **parts: str) -> str:
    block = f'<script type="application/json" id="{DATA_ELEMENT_ID}">{dump_json(data)}</script>'
    return PAGE_TEMPLATE.format(title=f"{escape_title(title)} - wiregrad", root=ROOT_ELEMENT_ID, data=block, **parts)


def build_content_policy(scripts: Sequence[str], style: str) -> str:
    """Return the content security policy of a single file: its scripts, its style, images in data URLs, nothing else.

    >>> build_content_policy([""], "").startswith("default-src 'none'; script-src 'sha256-")
    True
    """
    hashes = " ".join(f"'{hash_source(script)}'" for script in scripts)
    return (
        f"default-src 'none'; script-src {hashes}; style-src '{hash_source(style)}'; img-src data:; "
        "connect-src 'none'; base-uri 'none'; form-action 'none'"
    )


def hash_source(text: str) -> str:
    """Return the hash of a script or style, as a content security policy writes it.

    >>> hash_source("")
    'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='
    """
    return f"sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def dump_json(data: object) -> str:
    """Return data as JSON that is safe inside an HTML element.

    >>> dump_json({"name": "</script>"})
    '{"name":"\\\\u003c/script\\\\u003e"}'
    """
    return json.dumps(data, separators=(",", ":"), allow_nan=False).translate(_JSON_ESCAPES)


def escape_title(title: str) -> str:
    """Return a title as HTML text.

    >>> escape_title("a<b")
    'a&lt;b'
    """
    return html.escape(escape_unprintable(title).encode("utf-8", "replace").decode())


@cache
def read_static_file(name: str) -> str:
    """Return the text of a file of the page, which the package contains.

    >>> read_static_file("nothing.js")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    wiregrad.errors.FileAccessError: nothing.js of the explorer's page is not in this installation of wiregrad; ...
    """
    try:
        return (files("wiregrad.explorer") / "static" / name).read_text("utf-8")
    except OSError:
        raise FileAccessError(
            f"{name} of the explorer's page is not in this installation of wiregrad; "
            "a release has it, and in a clone `make page` builds it"
        ) from None


@cache
def read_inline_file(name: str) -> str:
    """Return the text of a file to put into the page; refuse one that would end its own HTML element."""
    text = read_static_file(name).replace("\r\n", "\n")
    end = _ELEMENT_END.search(text)
    if end is not None:
        raise FileFormatError(
            f"{name} contains {end[0]!r}, so it cannot be embedded in a page; rebuild it with `make page`"
        )
    return text
