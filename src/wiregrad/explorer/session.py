"""What one page of the explorer is about: a circuit, its latest run, and the answers to questions about them.

The local server and the notebook's widget both ask it; it needs no package beyond NumPy.
"""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock
from typing import Any

import numpy as np

from wiregrad.backends import RunRecord, interpreter
from wiregrad.errors import InputError, short_repr
from wiregrad.explorer.circuit_views import CircuitViews
from wiregrad.explorer.page_data import (
    MAX_PAGE_NODES,
    build_page_data,
    describe_flipped_branch,
    describe_node_with_source,
    encode_run,
    strip_folders,
    summarize_circuit,
)
from wiregrad.ir import CircuitGraph

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
        data = summarize_circuit(self.views) if self.circuit.size > MAX_PAGE_NODES else encode_run(run)
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
            return build_page_data(self.circuit, self.run, source=self.source, formula=self.formula)


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
