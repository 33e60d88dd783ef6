"""The web application behind the page: it answers what one person's page asks about a circuit in this process.

It never reads a file that a request names: it answers with the page, its two static files, and JSON about the circuit.
`request_guard` decides which requests reach it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from threading import Lock
from typing import Any

import numpy as np
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from wiregrad.backends import RunRecord, interpreter
from wiregrad.errors import InputError, WiregradError, short_repr
from wiregrad.explorer.circuit_views import CircuitViews
from wiregrad.explorer.html_page import (
    SCRIPT_FILE,
    STYLE_FILE,
    dump_json,
    read_static_file,
    render_page,
    render_served_page,
)
from wiregrad.explorer.page_data import (
    MAX_PAGE_NODES,
    build_page_data,
    describe_flipped_branch,
    describe_node_with_source,
    encode_blame,
    encode_run,
    strip_folders,
    summarize_circuit,
)
from wiregrad.explorer.request_guard import RequestGuard
from wiregrad.ir import CircuitGraph, strict_json

STATIC_FILES = {SCRIPT_FILE: "text/javascript", STYLE_FILE: "text/css"}
"""The files that the page fetches, and their media types."""
MAX_VIEW_BOXES = 2000
"""Upper limit of the depth and the number of boxes that a request may ask for."""
RequestAnswer = Callable[[Request], Any]
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


def build_app(session: ExplorerSession, authority: str) -> RequestGuard:
    """Return the web application for a session, behind its request guard; `authority` is HOST:PORT.

    >>> import wiregrad as wg
    >>> app = build_app(ExplorerSession(wg.circuit("x * x")), "127.0.0.1:8000")
    >>> app.launch_url.startswith("http://127.0.0.1:8000/?token=")
    True
    """
    answers: dict[str, RequestAnswer] = {
        "/data": lambda request: session.initial_data(),
        "/find": lambda request: session.views.find_nodes(request.query_params.get("q", "")),
        "/node/{node:int}": lambda request: session.describe_node(request.path_params["node"]),
        "/why/{node:int}": lambda request: session.views.explain_gradient(request.path_params["node"]),
        "/blame": lambda request: encode_blame(session.views),
        "/heat": lambda request: session.views.build_heat_strip(),
        "/outline": lambda request: session.views.outline_groups(),
        "/view": lambda request: session.views.draw_view(**_parse_view_query(request)),
    }
    routes = [
        Route("/", lambda request: _respond_page(session), methods=["GET"]),
        *(Route(f"/{name}", _serve_static_file(name, kind), methods=["GET"]) for name, kind in STATIC_FILES.items()),
        *(Route(path, _serve_json(answer), methods=["GET"]) for path, answer in answers.items()),
        Route("/export", lambda request: _respond_export(session), methods=["GET"]),
        Route("/run", _serve_rerun(session), methods=["POST"]),
    ]
    starlette = Starlette(
        routes=routes, exception_handlers={HTTPException: _respond_http_error, WiregradError: _respond_error}
    )
    # `/data/` is not `/data`: answer 404 instead of a redirect.
    starlette.router.redirect_slashes = False
    return RequestGuard(starlette, authority)


def _respond_page(session: ExplorerSession) -> Response:
    return Response(render_served_page(session.initial_data(), session.circuit.name), media_type="text/html")


def _respond_export(session: ExplorerSession) -> Response:
    """Respond with the page as one HTML file, which needs no server."""
    headers = {"content-disposition": 'attachment; filename="circuit.html"'}
    return Response(render_page(session.offline_data(), session.circuit.name), media_type="text/html", headers=headers)


def _serve_static_file(name: str, kind: str) -> Callable[[Request], Response]:
    return lambda request: Response(read_static_file(name), media_type=kind)


def _serve_json(answer: RequestAnswer) -> Callable[[Request], Response]:
    return lambda request: _respond_json(answer(request))


def _respond_json(data: object) -> Response:
    return Response(dump_json(data), media_type="application/json")


def _serve_rerun(session: ExplorerSession) -> Callable[[Request], Awaitable[Response]]:
    async def rerun(request: Request) -> Response:
        leaves = _parse_leaves(await request.body())
        return _respond_json(await run_in_threadpool(session.rerun, leaves))

    return rerun


def _parse_leaves(body: bytes) -> Mapping[str, Any]:
    document = strict_json.read_strict_json(body)
    leaves = document.get("leaves") if isinstance(document, dict) else None
    if not isinstance(leaves, dict):
        raise InputError(f'wanted {{"leaves": {{"NAME": VALUE}}}}; got {short_repr(document)}')
    return leaves


def _parse_view_query(request: Request) -> dict[str, Any]:
    """Parse the query string of a request for a view."""
    query = request.query_params
    options: dict[str, Any] = {name: query.get(name, "") for name in ("group", "nodes")}
    options["opened"] = query.getlist("opened")
    options["down"] = query.get("down") == "1"
    for name in ("depth", "cap"):
        if name in query:
            options[name] = min(_parse_whole_number(request, name, 0), MAX_VIEW_BOXES)
    return options


def _parse_whole_number(request: Request, name: str, least: int) -> int:
    text = request.query_params.get(name, "")
    if not (text.isascii() and text.isdigit()) or len(text) > 12 or int(text) < least:
        raise InputError(f"wanted {name}=NUMBER, a whole number of at least {least}; got {short_repr(text)}")
    return int(text)


def _respond_http_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        return PlainTextResponse("\n", 500)
    return PlainTextResponse(f"{error.detail}\n", error.status_code, headers=error.headers)


def _respond_error(request: Request, error: Exception) -> Response:
    # Only the first line: the others may contain the path of a file.
    return Response(dump_json({"error": str(error).partition("\n")[0]}), 400, media_type="application/json")
