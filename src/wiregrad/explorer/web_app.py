"""The web application behind the page: it answers what one person's page asks about a circuit in this process.

It never reads a file that a request names: it answers with the page, its two static files, and JSON about the circuit.
`request_guard` decides which requests reach it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from wiregrad.errors import InputError, WiregradError, require_package, short_repr
from wiregrad.explorer.html_page import (
    LARGE_SCRIPT_FILE,
    LARGE_STYLE_FILE,
    SCRIPT_FILE,
    STYLE_FILE,
    dump_json,
    read_static_file,
    render_page,
    render_served_page,
)
from wiregrad.explorer.page_data import encode_blame
from wiregrad.explorer.request_guard import RequestGuard
from wiregrad.explorer.session import ExplorerSession
from wiregrad.ir import strict_json

with require_package("starlette", "the explorer's server"):
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse, Response
    from starlette.routing import Route

STATIC_FILES = {
    SCRIPT_FILE: "text/javascript",
    LARGE_SCRIPT_FILE: "text/javascript",
    STYLE_FILE: "text/css",
    LARGE_STYLE_FILE: "text/css",
}
"""The files that the page fetches, and their media types."""
MAX_VIEW_BOXES = 2000
"""Upper limit of the depth and the number of boxes that a request may ask for."""
RequestAnswer = Callable[[Request], Any]


def build_app(session: ExplorerSession, authority: str) -> RequestGuard:
    """Return the web application for a session, behind its request guard; `authority` is HOST:PORT.

    >>> import wiregrad as wg
    >>> app = build_app(ExplorerSession(wg.circuit("x * x")), "127.0.0.1:8000")
    >>> app.launch_url.partition("=")[0]
    'http://127.0.0.1:8000/?token'
    """
    answers: dict[str, RequestAnswer] = {
        "/data": lambda request: session.initial_data(),
        "/find": lambda request: session.views.find_nodes(request.query_params.get("q", "")),
        "/node/{node:int}": lambda request: session.describe_node(request.path_params["node"]),
        "/why/{node:int}": lambda request: session.views.explain_gradient(request.path_params["node"]),
        "/blame": lambda request: encode_blame(session.views),
        "/heat": lambda request: session.views.build_heat_strip(),
        "/outline": lambda request: session.views.outline_groups(),
        "/board": lambda request: session.views.draw_board(
            request.query_params.getlist("opened"), request.query_params.getlist("focus")
        ),
        "/locate/{node:int}": lambda request: session.views.locate_node(request.path_params["node"]),
        "/step/{phase}/{node:int}": lambda request: session.views.describe_step(
            request.path_params["node"], request.path_params["phase"]
        ),
        "/view": lambda request: session.views.draw_view(**_parse_view_query(request)),
    }
    routes = [
        Route("/", lambda request: _respond_page(session), methods=["GET"]),
        *(Route(path, serve_json(answer), methods=["GET"]) for path, answer in answers.items()),
        Route("/export", lambda request: _respond_export(session), methods=["GET"]),
        Route("/run", _serve_rerun(session), methods=["POST"]),
    ]
    return RequestGuard(build_starlette(routes), authority)


def build_starlette(routes: Sequence[Route]) -> Starlette:
    """Return an application with some routes, the static files, and errors as answers."""
    static = [Route(f"/{name}", _serve_static_file(name, kind), methods=["GET"]) for name, kind in STATIC_FILES.items()]
    starlette = Starlette(
        routes=[*routes, *static],
        exception_handlers={HTTPException: _respond_http_error, WiregradError: _respond_error},
    )
    # `/data/` is not `/data`: answer 404 instead of a redirect.
    starlette.router.redirect_slashes = False
    return starlette


def _respond_page(session: ExplorerSession) -> Response:
    return Response(render_served_page(session.initial_data(), session.circuit.name), media_type="text/html")


def _respond_export(session: ExplorerSession) -> Response:
    """Respond with the page as one HTML file, which needs no server."""
    headers = {"content-disposition": 'attachment; filename="circuit.html"'}
    return Response(render_page(session.offline_data(), session.circuit.name), media_type="text/html", headers=headers)


def _serve_static_file(name: str, kind: str) -> Callable[[Request], Response]:
    return lambda request: Response(read_static_file(name), media_type=kind)


def serve_json(answer: RequestAnswer) -> Callable[[Request], Response]:
    """Return an endpoint that answers with JSON."""
    return lambda request: respond_json(answer(request))


def respond_json(data: object) -> Response:
    """Return a response with JSON."""
    return Response(dump_json(data), media_type="application/json")


def _serve_rerun(session: ExplorerSession) -> Callable[[Request], Awaitable[Response]]:
    async def rerun(request: Request) -> Response:
        leaves = _parse_leaves(await request.body())
        return respond_json(await run_in_threadpool(session.rerun, leaves))

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
