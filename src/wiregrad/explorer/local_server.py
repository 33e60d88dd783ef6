"""The explorer's server on this machine: what it answers, how it starts and stops, and how the browser is opened.

The web application answers what one person's page asks about a circuit in this process. It never reads a file that a
request names: it answers with the page, its static files, and JSON about the circuit. `request_guard` decides which
requests reach it.

The server runs in a daemon thread with an event loop of its own, so that it also works where a loop already runs, as in
a notebook, and ends with the process.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import sys
import time
import webbrowser
from collections.abc import Awaitable, Callable, Mapping, Sequence
from threading import Thread
from typing import Any

from wiregrad.errors import FileAccessError, InputError, WiregradError, require_package, short_repr
from wiregrad.explorer.html_page import (
    LARGE_SCRIPT_FILE,
    LARGE_STYLE_FILE,
    LEARN_SCRIPT_FILE,
    LEARN_STYLE_FILE,
    SCRIPT_FILE,
    STYLE_FILE,
    dump_json,
    read_static_file,
    render_page,
    render_served_page,
)
from wiregrad.explorer.page_data import ExplorerSession, encode_blame
from wiregrad.explorer.request_guard import RequestGuard
from wiregrad.ir import strict_json

with require_package("starlette", "the explorer's server"):
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse, Response
    from starlette.routing import Route
with require_package("uvicorn", "the explorer's server"):
    import h11
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

STATIC_FILES = {
    SCRIPT_FILE: "text/javascript",
    LARGE_SCRIPT_FILE: "text/javascript",
    LEARN_SCRIPT_FILE: "text/javascript",
    STYLE_FILE: "text/css",
    LARGE_STYLE_FILE: "text/css",
    LEARN_STYLE_FILE: "text/css",
}
"""The files that the page fetches, and their media types."""
MAX_VIEW_BOXES = 2000
"""Upper limit of the depth and the number of boxes that a request may ask for."""
LOOPBACK_ADDRESS = "127.0.0.1"
START_STOP_SECONDS = 60.0
"""Seconds to wait for the server to start or stop; generous, for busy machines."""
REQUEST_SECONDS = 10.0
"""Seconds in which a request must arrive completely; otherwise its connection is dropped."""
RequestAnswer = Callable[[Request], Any]
AppBuilder = Callable[[str], RequestGuard]
"""Builds the web application for HOST:PORT, where it is not that of a circuit."""


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


def build_page_app(data: object, title: str, authority: str) -> RequestGuard:
    """Return the web application of a page that holds all it needs, behind its request guard.

    >>> build_page_app({}, "f", "127.0.0.1:8000").launch_url.partition("=")[0]
    'http://127.0.0.1:8000/?token'
    """
    page = render_served_page(data, title)
    route = Route("/", lambda request: Response(page, media_type="text/html"), methods=["GET"])
    return RequestGuard(build_starlette([route]), authority)


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


class DeadlineProtocol(H11Protocol):
    """A connection with a deadline for each request; uvicorn itself waits forever for the rest of one.

    The deadline counts from the start of the connection or request, so a client that sends byte by byte cannot extend
    it. Between two requests uvicorn's keep-alive timeout applies.
    """

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the deadline of the first request."""
        super().connection_made(transport)
        self._start_deadline()

    def data_received(self, data: bytes) -> None:
        """Receive a part of a request; stop the deadline once it is complete."""
        self._start_deadline()
        super().data_received(data)
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._cancel_deadline()

    def on_response_complete(self) -> None:
        """Start the deadline of the next request if a part of it has already arrived."""
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY or self.conn.trailing_data[0]:
            self._start_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the deadline of a closed connection."""
        self._cancel_deadline()
        super().connection_lost(exc)

    def _start_deadline(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(REQUEST_SECONDS, self.transport.abort)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class ExplorerServer:
    """The explorer's server on this machine; `url` opens the page once, `stop` ends the server."""

    def __init__(self, session: ExplorerSession | AppBuilder, port: int = 0, address: str = LOOPBACK_ADDRESS) -> None:
        host = check_address(address)
        self._socket = _bind_socket(host, port)
        self.port: int = self._socket.getsockname()[1]
        shown_host = f"[{host}]" if ":" in host else host
        # Browsers leave the default port out of the Host header.
        authority = shown_host if self.port == 80 else f"{shown_host}:{self.port}"
        self.guard: RequestGuard = (
            build_app(session, authority) if isinstance(session, ExplorerSession) else session(authority)
        )
        config = uvicorn.Config(
            self.guard,
            access_log=False,
            log_config=None,
            log_level="error",
            lifespan="off",
            ws="none",
            http=DeadlineProtocol,
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._thread = Thread(target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True)

    @property
    def url(self) -> str:
        """The URL that opens the explorer; it works once."""
        return self.guard.launch_url

    def start(self) -> None:
        """Start the server; return once it accepts connections."""
        self._thread.start()
        end = time.monotonic() + START_STOP_SECONDS
        while not self._server.started and self._thread.is_alive() and time.monotonic() < end:
            time.sleep(0.005)
        if not self._server.started:
            raise FileAccessError(f"the explorer's server did not start at {self.guard.origin}")

    def wait(self) -> None:
        """Wait until the server ends; Ctrl-C ends it."""
        try:
            while self._thread.is_alive():
                self._thread.join(0.2)
        except KeyboardInterrupt:
            self.stop()

    def stop(self) -> None:
        """Stop the server and release its port."""
        self._server.should_exit = True
        self._thread.join(START_STOP_SECONDS)
        self._socket.close()


def check_address(address: str) -> str:
    """Return an IP address in its normal form; refuse one that does not name a single machine.

    >>> check_address("127.0.0.1")
    '127.0.0.1'
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        raise InputError(f"wanted an address such as 192.168.1.5; got {short_repr(address)}") from None
    if parsed.is_unspecified or parsed.is_multicast:
        raise InputError(
            f"{address} is not the address of a single machine; give the address at which others reach this machine"
        )
    return str(parsed)


def _bind_socket(host: str, port: int) -> socket.socket:
    if not 0 <= port < 65536:
        raise InputError(f"a port is a number from 0 (any that is free) to 65535; got {port}")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise FileAccessError(f"cannot listen at {host}, port {port}: {error.strerror}; try --port 0") from None


def open_explorer(
    session: ExplorerSession | AppBuilder,
    *,
    port: int = 0,
    address: str = LOOPBACK_ADDRESS,
    browser: bool = True,
    wait: bool = True,
) -> ExplorerServer:
    """Start a server for a session, open its page in the browser, and by default wait for Ctrl-C.

    The URL is printed to stderr; it opens the explorer once, in one browser.
    """
    serving = ExplorerServer(session, port, address)
    serving.start()
    opened = browser and _open_browser(serving.url)
    hint = "Ctrl-C ends it" if wait else "it ends with this process"
    print(f"the explorer is {'open' if opened else 'ready'} at {serving.url}\n({hint})", file=sys.stderr)  # noqa: T201
    if wait:
        serving.wait()
    return serving


def _open_browser(url: str) -> bool:
    try:
        return webbrowser.open(url)
    except webbrowser.Error:
        return False
