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

from wiregrad.backends import Run, interpreter
from wiregrad.errors import InputError, WiregradError, shown
from wiregrad.explorer.data import MOST, anonymous, broken, node_told, page_data, run_data
from wiregrad.explorer.guard import Guard
from wiregrad.explorer.page import SCRIPT, STYLE, as_json, page_of, served_page, static
from wiregrad.explorer.steering import strayed
from wiregrad.explorer.summary import summary_data
from wiregrad.explorer.views import Views
from wiregrad.ir import Circuit, strictjson

FILES = {SCRIPT: "text/javascript", STYLE: "text/css"}
"""The files that the page fetches, and their media types."""
MOST_BOXES = 2000
"""Upper limit of the depth and the number of boxes that a request may ask for."""
Answer = Callable[[Request], Any]
WORDS = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}
"""Numbers that JSON cannot write, by the strings that stand for them."""


class Exhibit:
    """The circuit that a page shows, with its latest run. `source` allows lines of code to be sent."""

    def __init__(
        self, circuit: Circuit, run: Run | None = None, *, source: bool = False, formula: str | None = None
    ) -> None:
        self.circuit = circuit
        self.source = source
        self.formula = formula
        self._lock = Lock()
        self._show(run)

    def _show(self, run: Run | None) -> None:
        self.run = run
        self.views = Views(*anonymous(self.circuit, run))
        self._data: dict[str, Any] | None = None

    def data(self) -> dict[str, Any]:
        """Return the JSON that the page starts with; `server` in it says that there is a server to ask."""
        with self._lock:
            if self._data is None:
                self._data = self._made()
            return self._data

    def _made(self) -> dict[str, Any]:
        large = self.circuit.size > MOST
        if large:
            data = summary_data(self.views)
        else:
            data = page_data(self.circuit, self.run, source=self.source, formula=self.formula)
        return data | {"server": {"run": True, "views": large}}

    def rerun(self, leaves: Mapping[str, Any]) -> dict[str, Any]:
        """Run the circuit at changed inputs, the others as before; return the run as JSON."""
        circuit = self.circuit
        elements = {name: value for name, value in leaves.items() if name not in circuit.inputs and "[" in str(name)}
        whole = {name: value for name, value in leaves.items() if name not in elements}
        interpreter.check_known(whole, circuit.inputs)
        with self._lock:
            before = {} if self.run is None else dict(zip(circuit.inputs, self._inputs(self.run), strict=True))
            point = before | {name: self._fitted(name, value) for name, value in whole.items()}
            for name, value in elements.items():
                _put(point, name, value)
            # check=False: an edit that flips a Python branch is shown with a note, not refused.
            self._show(interpreter.run_all(circuit, interpreter.bind(circuit, [point], {}), check=False))
            return self._ran()

    def _ran(self) -> dict[str, Any]:
        run = self.views.run
        assert run is not None
        data = summary_data(self.views) if self.circuit.size > MOST else run_data(run)
        notes = [*filter(None, [data.get("note"), strayed(run)])]
        return data | ({"note": "; ".join(notes)} if notes else {})

    def _fitted(self, name: str, value: Any) -> Any:
        """Cast an input to the dtype of its wire if nothing is lost: JavaScript has one type for all numbers."""
        dtype = self.circuit.type_of(self.circuit.index(name)).dtype
        number = _number(name, value)
        if dtype.kind not in "ib" or np.asarray(number).dtype.kind not in "fi":
            return number
        with np.errstate(all="ignore"):
            cast = np.asarray(number).astype(dtype)
        return cast[()] if np.array_equal(cast, number) else number

    def _inputs(self, run: Run) -> list[Any]:
        return [run.values[node] for node in self.circuit.input_indices()]

    def node(self, node: int) -> dict[str, Any]:
        """Return everything known about one node, with its line of code if `source` allows it."""
        return node_told(self.views, node, self.circuit if self.source else None)

    def file(self) -> dict[str, Any]:
        """Return the JSON for a saved page, which has no server to ask."""
        with self._lock:
            return page_data(self.circuit, self.run, source=self.source, formula=self.formula)


def _put(point: dict[str, Any], element: str, value: Any) -> None:
    """Replace one element of an array input, named as in `w[0,2]`."""
    name, _, rest = element.rpartition("[")
    index = tuple(
        int(k) if k.isascii() and k.isdigit() and len(k) < 13 else -1 for k in rest.removesuffix("]").split(",")
    )
    shape = np.shape(point.get(name, 0))
    if not shape or len(index) != len(shape) or not all(0 <= k < n for k, n in zip(index, shape, strict=True)):
        raise InputError(f"there is no element {shown(element)}")
    number = _number(element, value)
    if type(number) not in (bool, int, float):
        raise InputError(f"{shown(element)} is one number; got {shown(value)}")
    with np.errstate(all="ignore"):
        array = np.array(point[name])
        cast = np.asarray(number).astype(array.dtype)
    if array.dtype.kind in "ib" and cast != number:
        raise InputError(f"{shown(element)} is of type {array.dtype}; got {shown(value)}")
    array[index] = cast
    point[name] = array


def _number(name: str, value: Any) -> Any:
    """Decode an input from JSON: a number, a string for one (`nan`), or nested lists of them."""
    if not isinstance(value, list):
        return WORDS.get(value, value) if isinstance(value, str) else value
    cells = np.array(value, object)
    flat = [WORDS.get(cell, cell) if isinstance(cell, str) else cell for cell in cells.reshape(-1).tolist()]
    try:
        return np.array(flat).reshape(cells.shape)
    except ValueError:
        raise InputError(f"input {name} is a ragged list") from None


def app(session: Exhibit, authority: str) -> Guard:
    """Return the web application for a session, behind its request guard; `authority` is HOST:PORT.

    >>> import wiregrad as wg
    >>> app(Exhibit(wg.circuit("x * x")), "127.0.0.1:8000").launch.startswith("http://127.0.0.1:8000/?token=")
    True
    """
    answers: dict[str, Answer] = {
        "/data": lambda request: session.data(),
        "/find": lambda request: session.views.find(request.query_params.get("q", "")),
        "/node/{node:int}": lambda request: session.node(request.path_params["node"]),
        "/why/{node:int}": lambda request: session.views.why(request.path_params["node"]),
        "/blame": lambda request: broken(session.views),
        "/heat": lambda request: session.views.heat(),
        "/outline": lambda request: session.views.outline(),
        "/view": lambda request: session.views.view(**_view(request)),
    }
    routes = [
        Route("/", lambda request: _page(session), methods=["GET"]),
        *(Route(f"/{name}", _file(name, kind), methods=["GET"]) for name, kind in FILES.items()),
        *(Route(path, _answering(answer), methods=["GET"]) for path, answer in answers.items()),
        Route("/export", lambda request: _export(session), methods=["GET"]),
        Route("/run", _rerunning(session), methods=["POST"]),
    ]
    starlette = Starlette(routes=routes, exception_handlers={HTTPException: _missing, WiregradError: _wrong})
    # `/data/` is not `/data`: answer 404 instead of a redirect.
    starlette.router.redirect_slashes = False
    return Guard(starlette, authority)


def _page(session: Exhibit) -> Response:
    return Response(served_page(session.data(), session.circuit.name), media_type="text/html")


def _export(session: Exhibit) -> Response:
    """Respond with the page as one HTML file, which needs no server."""
    headers = {"content-disposition": 'attachment; filename="circuit.html"'}
    return Response(page_of(session.file(), session.circuit.name), media_type="text/html", headers=headers)


def _file(name: str, kind: str) -> Callable[[Request], Response]:
    return lambda request: Response(static(name), media_type=kind)


def _answering(answer: Answer) -> Callable[[Request], Response]:
    return lambda request: _document(answer(request))


def _document(data: Any) -> Response:
    return Response(as_json(data), media_type="application/json")


def _rerunning(session: Exhibit) -> Callable[[Request], Awaitable[Response]]:
    async def rerun(request: Request) -> Response:
        leaves = _leaves(await request.body())
        return _document(await run_in_threadpool(session.rerun, leaves))

    return rerun


def _leaves(body: bytes) -> Mapping[str, Any]:
    document = strictjson.loads(body)
    leaves = document.get("leaves") if isinstance(document, dict) else None
    if not isinstance(leaves, dict):
        raise InputError(f'wanted {{"leaves": {{"NAME": VALUE}}}}; got {shown(document)}')
    return leaves


def _view(request: Request) -> dict[str, Any]:
    """Parse the query string of a request for a view."""
    query = request.query_params
    options: dict[str, Any] = {name: query.get(name, "") for name in ("group", "nodes")}
    options["opened"] = query.getlist("opened")
    options["down"] = query.get("down") == "1"
    for name in ("depth", "cap"):
        if name in query:
            options[name] = min(_whole(request, name, 0), MOST_BOXES)
    return options


def _whole(request: Request, name: str, least: int) -> int:
    text = request.query_params.get(name, "")
    if not (text.isascii() and text.isdigit()) or len(text) > 12 or int(text) < least:
        raise InputError(f"wanted {name}=NUMBER, a whole number of at least {least}; got {shown(text)}")
    return int(text)


def _missing(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        return PlainTextResponse("\n", 500)
    return PlainTextResponse(f"{error.detail}\n", error.status_code, headers=error.headers)


def _wrong(request: Request, error: Exception) -> Response:
    # Only the first line: the others may contain the path of a file.
    return Response(as_json({"error": str(error).partition("\n")[0]}), 400, media_type="application/json")
