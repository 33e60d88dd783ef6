"""Write what ties the engine of the page to Python: the op table in TypeScript, and golden circuits.

Each golden circuit is a formula with leaves and everything Python says of it: nodes, values, gradients, every wire,
the sentences of the steps, faults and paths. JSON has no NaN, so what is not finite is a string. The same seeds give
the same text.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from engine_formulas import AS_PEOPLE_WRITE, AT, BUILT, FOUND, QUERIES, REPEATED, WRITTEN, WRONG, Formulas, systematic

import wiregrad as wg
from wiregrad.backends import RunRecord
from wiregrad.backends.interpreter import bind_inputs, run_all_outputs
from wiregrad.dtypes import format_short
from wiregrad.errors import FormulaError, suggest_name
from wiregrad.explorer.circuit_views import CircuitViews
from wiregrad.explorer.large_circuits import match_query
from wiregrad.frontends.formula import parse_formula_with_notes
from wiregrad.inspect.blame import blame
from wiregrad.inspect.paths import paths
from wiregrad.inspect.report import steps
from wiregrad.ir import CONSTANT, TABLE, CircuitGraph, Node, parse_text
from wiregrad.ir.circuit import repr_number
from wiregrad.ops import Elementwise
from wiregrad.ops.gradient_flow import fill_absent
from wiregrad.passes import insert_splitters

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
from write_page_ops import find_math_functions, write_page_ops

ROOT = Path(__file__).parents[2]

OPS_FILE = ROOT / "web/src/engine/ops.generated.ts"
GOLDEN_FILE = ROOT / "web/golden/engine.json"
SEED = 6
RANDOM = 160
RANDOM_TEXTS = 900
SHOWN_PATHS = 32
ROUNDED_EXACTLY = frozenset("fabs sqrt floor ceil trunc rint fmod copysign number".split())


def encoded(value: Any) -> Any:
    """Return a number or condition as JSON has it; None stays None."""
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return str(float(value))


def written_circuit(circuit: CircuitGraph) -> dict[str, Any]:
    """Return a circuit as the page holds it."""
    outputs = zip(circuit.outputs, circuit.columns.outputs.tolist(), strict=True)
    return {
        "name": circuit.name,
        "nodes": [_written_node(circuit, node) for node in range(circuit.size)],
        "outputs": [{"label": label, "node": node} for label, node in outputs],
    }


def _written_node(circuit: CircuitGraph, node: int) -> dict[str, Any]:
    view = Node(circuit, node)
    found = {
        "op": view.op.name,
        "sources": list(circuit.sources_of(node)),
        "names": list(circuit.columns.names.names_of(node)),
        "mode": view.mode,
        "group": view.group,
        "type": str(view.type),
    }
    if view.op is CONSTANT:
        found["constant"] = encoded(view.constant)
    if view.place is not None:
        found["place"] = {"file": view.place.file, "line": view.place.line, "column": view.place.column}
    return found


def written_run(run: RunRecord) -> dict[str, Any]:
    """Return what a run knows of every node and wire; upstream of a wire is the gradient of its reader."""
    return {
        "values": [encoded(value) for value in run.values],
        "grads": [encoded(flow) for flow in run.flows],
        "wires": [
            [encoded(_local(run, node, slot)), encoded(run.sent[int(run.circuit.columns.starts[node]) + slot])]
            for node in range(run.circuit.size)
            for slot in range(len(run.circuit.sources_of(node)))
        ],
    }


def _local(run: RunRecord, node: int, slot: int) -> Any:
    circuit, view = run.circuit, Node(run.circuit, node)
    sources = circuit.sources_of(node)
    if not circuit.type_of(sources[slot]).differentiable:
        return None
    with np.errstate(all="ignore"):
        local = view.op.local(slot, [run.values[source] for source in sources], run.values[node], view.mode)
    return None if local is None else float(fill_absent(local))


def golden(formula: str, leaves: Sequence[float], *, whole: bool) -> dict[str, Any]:
    """Return everything that Python says of a formula at a point."""
    return {"formula": formula, **golden_circuit(wg.circuit(formula), leaves, whole=whole)}


def golden_circuit(circuit: CircuitGraph, leaves: Sequence[float], *, whole: bool) -> dict[str, Any]:
    """Return everything that Python says of a circuit at a point."""
    given = dict(zip(circuit.inputs, itertools.cycle(leaves), strict=False))
    run = run_all_outputs(circuit, bind_inputs(circuit, [], given))
    several = len(circuit.outputs) > 1
    found = {
        "leaves": {name: encoded(value) for name, value in given.items()},
        "exact": all(_is_exact(row.op) for row in circuit.rows()),
        "circuit": written_circuit(circuit),
        **written_run(run),
        "steps": [] if several else [f"{step.phase}: {step}" for step in steps(run)],
        "kinks": [list(kink) for kink in _kinks(run)],
        "blame": [_written_origin(circuit, origin) for origin in blame(run).origins],
    }
    if whole:
        parted = insert_splitters(circuit)
        told = steps(run_all_outputs(parted, bind_inputs(parted, [], given)))
        found["split"] = {"circuit": written_circuit(parted), "steps": [str(step) for step in told]}
        found["paths"] = {name: _written_paths(run, name) for name in circuit.inputs}
    return found


def _kinks(run: RunRecord) -> Iterator[tuple[int, str]]:
    """Return the nodes that are exactly on a kink of their op, and what kink it is."""
    for row in run.circuit.rows():
        xs = [run.values[source] for source in row.sources]
        for kink in row.op.kinks:
            with np.errstate(all="ignore"):
                on = kink.at(*xs) == 0.0 if kink.on is None else kink.on(*xs)
            if on:
                yield row.node, kink.doc


def _written_origin(circuit: CircuitGraph, origin: Any) -> list[Any]:
    slot = None if origin.wire is None else origin.wire[1]
    return [origin.phase, circuit.index(origin.node), slot, list(origin.spoils), list(origin.chain)]


def _written_paths(run: RunRecord, name: str) -> dict[str, Any]:
    found = paths(run, name, SHOWN_PATHS)
    return {
        "count": str(found.count),
        "live": str(found.live),
        **{key: encoded(getattr(found, key)) for key in ("total", "magnitude", "cancellation", "added", "rest")},
        "paths": [
            [
                encoded(path.contribution),
                [run.circuit.index(node) for node in path.nodes],
                [slot for _, slot in path.wires],
                [encoded(factor) for factor in path.locals],
            ]
            for path in found.paths
        ],
    }


@cache
def _is_exact(op: Any) -> bool:
    """Return whether value and slopes of an op are made of exactly rounded operations alone."""
    return not isinstance(op, Elementwise) or find_math_functions(op) <= ROUNDED_EXACTLY


def circuits() -> Iterator[dict[str, Any]]:
    """Return the golden circuits."""
    TABLE.load_deferred()
    drawn = Formulas(SEED)
    for formula in WRITTEN:
        yield golden(formula, (2.0, -3.0, 10.0, 0.5), whole=True)
        yield golden(formula, drawn.point(), whole=False)
    for formula, point in systematic():
        yield golden(formula, point, whole=False)
    for formula, point in AT:
        yield golden(formula, point, whole=True)
    found = 0
    while found < RANDOM:
        formula = drawn.formula()
        if _mistake(formula) is None:
            found += 1
            yield golden(formula, drawn.point(), whole=found % 3 == 0)


def built() -> Iterator[dict[str, Any]]:
    """Return golden circuits that come from no formula."""
    for text, x in itertools.product(BUILT, (0.0, 1.0, -2.0)):
        yield golden_circuit(parse_text(text), (x,), whole=False)


def suggestions() -> Iterator[list[str]]:
    """Return words, and which name of an op is said to be meant."""
    drawn = Formulas(SEED + 3)
    known = TABLE.scalar_names()
    words = [drawn.broken(drawn.broken(drawn.pick(known))) for _ in range(300)]
    yield from ([word, suggest_name(word, known)] for word in [*words, "arc", "log", "", "a", "is", "xyzzy", "logical"])


def mistakes() -> Iterator[dict[str, Any]]:
    """Return wrong formulas with message and offset."""
    TABLE.load_deferred()
    drawn = Formulas(SEED + 1)
    tried: Iterable[tuple[str, int, str]] = [*((text, 1, "") for text in WRONG), *REPEATED]
    tried = [*tried, *((drawn.broken(drawn.formula()), 1, "") for _ in range(200))]
    for start, times, end in tried:
        error = _mistake(start * times + end)
        if error is not None:
            offset = _page_offset(error.text, error.offset)
            repeated = {"times": times, "end": end} if times > 1 else {}
            yield {"text": start, **repeated, "message": error.message, "offset": offset}


def _mistake(text: str) -> FormulaError | None:
    try:
        wg.circuit(text)
    except FormulaError as error:
        return error
    return None


def readings() -> Iterator[dict[str, Any]]:
    """Return formulas as people write them and random texts, with their circuits and notes, or their mistakes."""
    drawn = Formulas(SEED + 4)
    for text in dict.fromkeys([*AS_PEOPLE_WRITE, *(drawn.text() for _ in range(RANDOM_TEXTS))]):
        try:
            circuit, notes = parse_formula_with_notes(text)
        except FormulaError as error:
            yield {"text": text, "mistake": [error.message, _page_offset(text, error.offset)]}
        else:
            found = [[note.kind, note.message, _page_offset(text, note.offset)] for note in notes]
            yield {"text": text, "circuit": written_circuit(circuit), "notes": found}


def _page_offset(text: str, offset: int) -> int:
    """Return an offset in units of UTF-16, as the page counts them."""
    return len(text[:offset].encode("utf-16-le", "surrogatepass")) // 2


def finds() -> Iterator[dict[str, Any]]:
    """Return queries and the nodes that they find."""
    for formula, point in ((WRITTEN[3], (2.0, -3.0, 10.0, 0.5)), (WRITTEN[9], (1.0,)), (FOUND, (1.5, -2.0))):
        run = wg.circuit(formula).run(**dict(zip(wg.circuit(formula).inputs, itertools.cycle(point), strict=False)))
        for query in QUERIES:
            nodes = np.flatnonzero(match_query(CircuitViews(run.circuit, run), query)).tolist()
            leaves = {name: run[name].value for name in run.circuit.inputs}
            yield {"formula": formula, "leaves": leaves, "query": query, "nodes": nodes}


def numbers() -> Iterator[list[Any]]:
    """Return numbers as JSON, for people, and exactly."""
    drawn = Formulas(SEED + 2)
    special = [0.0, -0.0, 1.0, -1.0, 0.1, 1e16, 1e15, 1e-4, 1e-5, 123456.5, 1234565.0, 1234575.0, 99999.95, 999999.5]
    special += [0.5, 1e5, 1e6, 999999.0, 1e21, 1e22, 1e-7, 5e-324, 1.7976931348623157e308, 2.5e-8, 12345.65, 100000.5]
    special += [0.0000152587890625, 2.0**-20, 2.0**60, 1.5, 1234567890123456789.0, 9.999995, 9.9999949, 100000.25]
    special += [math.nan, math.inf, -math.inf, 1234535.0, -1234545.0, 0.00012345650000000001, 3.0000005]
    halves = [(2 * drawn.below(900000) + 200001) / 2 for _ in range(60)]
    sizes = [(drawn.share() - 0.5) * 10.0 ** (drawn.below(60) - 30) for _ in range(200)]
    for value in (*special, *halves, *sizes):
        yield [encoded(value), format_short(value), repr_number(value)]


def document() -> str:
    """Return the golden file; one entry stands on one line."""
    made = (circuits, built, mistakes, readings, suggestions, finds, numbers)
    parts = {make.__name__: make() for make in made}
    lines = {name: ",\n".join(_json(entry) for entry in entries) for name, entries in parts.items()}
    return "{\n" + ",\n".join(f'"{name}": [\n{text}\n]' for name, text in lines.items()) + "\n}\n"


def _json(entry: Any) -> str:
    return json.dumps(entry, separators=(",", ":"), allow_nan=False)


def files() -> dict[Path, str]:
    """Return what each file should hold."""
    return {OPS_FILE: write_page_ops(), GOLDEN_FILE: document()}


def main() -> None:
    """Write the files."""
    for path, text in files().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        sys.stderr.write(f"{path.relative_to(ROOT)}: {len(text):,} characters\n")


if __name__ == "__main__":
    main()
