"""What the card of an array shows: cells of a heat map, a histogram, extremes, and where and why it is not finite.

Invariants: what is sent is bounded, whatever the size of the arrays; a cell that stands for several elements is their
mean, unless one of them is not finite: then it is that one, so that binning never hides a NaN.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wiregrad.backends import RunRecord
from wiregrad.dtypes import MINUS, JsonValue, format_brief_number, format_short
from wiregrad.ir import CircuitGraph
from wiregrad.ir.node_titles import ATOM_LEVEL, binding_level, write_expression
from wiregrad.ops import Elementwise
from wiregrad.ops.gradient_flow import fill_absent

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
