"""The explorer's server: what one person's page asks of a circuit that stays in this process.

It has no way to a file: its answers are the page, its two static files, and what is known of the circuit. Who may ask
is the business of `guard`.
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
"""What the page fetches, and what it is."""
MOST_BOXES = 2000
"""How many boxes a view has at most, whatever is asked for."""
Answer = Callable[[Request], Any]
WORDS = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}
"""How numbers that JSON does not have are written."""


class Exhibit:
    """A circuit on show, with the latest run of it. `source` allows lines of code to be shown."""

    def __init__(
        self, circuit: Circuit, run: Run | None = None, *, source: bool = False, formula: str | None = None
    ) -> None:
        self.circuit, self.source, self.formula = circuit, source, formula
        self._lock = Lock()
        self._show(run)

    def _show(self, run: Run | None) -> None:
        self.run = run
        self.views = Views(*anonymous(self.circuit, run))
        self._data: dict[str, Any] | None = None

    def data(self) -> dict[str, Any]:
        """Return what the page begins with, and that there is a server to ask."""
        with self._lock:
            if self._data is None:
                self._data = self._made()
            return self._data

    def _made(self) -> dict[str, Any]:
        large = self.circuit.size > MOST
        if large:
            found = summary_data(self.views)
        else:
            found = page_data(self.circuit, self.run, source=self.source, formula=self.formula)
        return found | {"server": {"run": True, "views": large}}

    def rerun(self, leaves: Mapping[str, Any]) -> dict[str, Any]:
        """Run the circuit at other inputs, those that are not given as they were; return what the run did."""
        circuit = self.circuit
        elements = {name: value for name, value in leaves.items() if name not in circuit.inputs and "[" in str(name)}
        whole = {name: value for name, value in leaves.items() if name not in elements}
        interpreter.check_known(whole, circuit.inputs)
        with self._lock:
            given = {} if self.run is None else dict(zip(circuit.inputs, self._inputs(self.run), strict=True))
            point = given | {name: self._fitted(name, value) for name, value in whole.items()}
            for name, value in elements.items():
                _put(point, name, value)
            # Who edits an input wants to see what happens; where a branch flips, a note says so.
            self._show(interpreter.run_all(circuit, interpreter.bind(circuit, [point], {}), check=False))
            return self._ran()

    def _ran(self) -> dict[str, Any]:
        run = self.views.run
        assert run is not None
        found = summary_data(self.views) if self.circuit.size > MOST else run_data(run)
        notes = [*filter(None, [found.get("note"), strayed(run)])]
        return found | ({"note": "; ".join(notes)} if notes else {})

    def _fitted(self, name: str, value: Any) -> Any:
        """Return an input as its wire carries it: a page has one kind of number for whole ones and conditions too."""
        wanted, given = self.circuit.type_of(self.circuit.index(name)).dtype, _number(name, value)
        if wanted.kind not in "ib" or np.asarray(given).dtype.kind not in "fi":
            return given
        with np.errstate(all="ignore"):
            cast = np.asarray(given).astype(wanted)
        return cast[()] if np.array_equal(cast, given) else given

    def _inputs(self, run: Run) -> list[Any]:
        return [run.values[node] for node in self.circuit.input_indices()]

    def node(self, node: int) -> dict[str, Any]:
        """Return all that is known of one node, with its line of code if that may be shown."""
        return node_told(self.views, node, self.circuit if self.source else None)

    def file(self) -> dict[str, Any]:
        """Return what a file to keep begins with, which has no server to ask."""
        with self._lock:
            return page_data(self.circuit, self.run, source=self.source, formula=self.formula)


def _put(point: dict[str, Any], element: str, value: Any) -> None:
    """Change one element of an input that is an array, called as in `w[0,2]`."""
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
    """Return an input as JSON brings it: a number, a word for one, or lists of them."""
    if not isinstance(value, list):
        return WORDS.get(value, value) if isinstance(value, str) else value
    cells = np.array(value, object)
    flat = [WORDS.get(cell, cell) if isinstance(cell, str) else cell for cell in cells.reshape(-1).tolist()]
    try:
        return np.array(flat).reshape(cells.shape)
    except ValueError:
        raise InputError(f"input {name} is a ragged list") from None


def app(exhibit: Exhibit, authority: str) -> Guard:
    """Return the app that shows a circuit at a host and port, with the guard before it.

    >>> import wiregrad as wg
    >>> app(Exhibit(wg.circuit("x * x")), "127.0.0.1:8000").launch.startswith("http://127.0.0.1:8000/?token=")
    True
    """
    answers: dict[str, Answer] = {
        "/data": lambda request: exhibit.data(),
        "/find": lambda request: exhibit.views.find(request.query_params.get("q", "")),
        "/node/{node:int}": lambda request: exhibit.node(request.path_params["node"]),
        "/why/{node:int}": lambda request: exhibit.views.why(request.path_params["node"]),
        "/blame": lambda request: broken(exhibit.views),
        "/heat": lambda request: exhibit.views.heat(),
        "/outline": lambda request: exhibit.views.outline(),
        "/view": lambda request: exhibit.views.view(**_view(request)),
    }
    routes = [
        Route("/", lambda request: _page(exhibit), methods=["GET"]),
        *(Route(f"/{name}", _file(name, kind), methods=["GET"]) for name, kind in FILES.items()),
        *(Route(path, _answering(answer), methods=["GET"]) for path, answer in answers.items()),
        Route("/export", lambda request: _export(exhibit), methods=["GET"]),
        Route("/run", _rerunning(exhibit), methods=["POST"]),
    ]
    made = Starlette(routes=routes, exception_handlers={HTTPException: _missing, WiregradError: _wrong})
    # A slash too many or too few is another path, not a reason to send somebody elsewhere.
    made.router.redirect_slashes = False
    return Guard(made, authority)


def _page(exhibit: Exhibit) -> Response:
    return Response(served_page(exhibit.data(), exhibit.circuit.name), media_type="text/html")


def _export(exhibit: Exhibit) -> Response:
    """Return what is on show as a file to keep, which needs no server."""
    attached = {"content-disposition": 'attachment; filename="circuit.html"'}
    return Response(page_of(exhibit.file(), exhibit.circuit.name), media_type="text/html", headers=attached)


def _file(name: str, kind: str) -> Callable[[Request], Response]:
    return lambda request: Response(static(name), media_type=kind)


def _answering(answer: Answer) -> Callable[[Request], Response]:
    return lambda request: _document(answer(request))


def _document(data: Any) -> Response:
    return Response(as_json(data), media_type="application/json")


def _rerunning(exhibit: Exhibit) -> Callable[[Request], Awaitable[Response]]:
    async def rerun(request: Request) -> Response:
        leaves = _leaves(await request.body())
        return _document(await run_in_threadpool(exhibit.rerun, leaves))

    return rerun


def _leaves(body: bytes) -> Mapping[str, Any]:
    document = strictjson.loads(body)
    leaves = document.get("leaves") if isinstance(document, dict) else None
    if not isinstance(leaves, dict):
        raise InputError(f'wanted {{"leaves": {{"NAME": VALUE}}}}; got {shown(document)}')
    return leaves


def _view(request: Request) -> dict[str, Any]:
    """Return what a view is to show, from the query of a request."""
    query = request.query_params
    found: dict[str, Any] = {name: query.get(name, "") for name in ("group", "nodes")}
    found["opened"] = query.getlist("opened")
    found["down"] = query.get("down") == "1"
    for name in ("depth", "cap"):
        if name in query:
            found[name] = min(_whole(request, name, 0), MOST_BOXES)
    return found


def _whole(request: Request, name: str, least: int) -> int:
    text = request.query_params.get(name, "")
    if not (text.isascii() and text.isdigit()) or len(text) > 12 or int(text) < least:
        raise InputError(f"wanted {name}=NUMBER, a whole number of at least {least}; got {shown(text)}")
    return int(text)


def _missing(request: Request, error: Exception) -> Response:
    status, detail = (error.status_code, error.detail) if isinstance(error, HTTPException) else (500, "")
    headers = error.headers if isinstance(error, HTTPException) else None
    return PlainTextResponse(f"{detail}\n", status, headers=headers)


def _wrong(request: Request, error: Exception) -> Response:
    # The first line alone: the others may say where a file lies.
    return Response(as_json({"error": str(error).partition("\n")[0]}), 400, media_type="application/json")
