"""The explorer's server on this machine: what it answers, how it starts and stops, and how the browser is opened.

The web application answers what one person's page asks about a circuit in this process. It never reads a file that a
request names: it answers with the page, its static files, and JSON about the circuit. `RequestGuard` decides which
requests reach it: those of one browser, from the page that this server sent.

The server runs in a daemon thread with an event loop of its own, so that it also works where a loop already runs, as in
a notebook, and ends with the process.

Invariants of every response, errors included: it carries `SECURITY_HEADERS` and no header that lets another site read
it. Invariants of every request that reaches the app: its Host is exactly this server's; so is its Origin, which only a
GET may lack; its body is small and complete; and it carries the session cookie, which the server sets once, in exchange
for the token in the launch URL.

At the end is the page of a training: the loss as a timeline, gradients and parameters beside it, and the step where it
broke. A `TrainingSession` holds a flight, which may still be growing in another thread. The page asks for its state and
gets a new one over server-sent events whenever steps were added. Invariants: an answer is small whatever the number of
steps; a training that waits because of the page goes on when the page is closed.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import math
import secrets
import socket
import sys
import time
import webbrowser
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from http.cookies import CookieError, SimpleCookie
from threading import Condition, Lock, Thread
from threading import Event as ThreadEvent
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import numpy as np

from wiregrad.backends import RunRecord
from wiregrad.errors import FileAccessError, InputError, WiregradError, require_package, short_repr
from wiregrad.explorer import PAGE_SCHEMA, encode_number
from wiregrad.explorer.page_data import (
    DRAWERS_SCRIPT_FILE,
    LARGE_SCRIPT_FILE,
    LARGE_STYLE_FILE,
    LEARN_SCRIPT_FILE,
    LEARN_STYLE_FILE,
    SCRIPT_FILE,
    STYLE_FILE,
    ExplorerSession,
    dump_json,
    encode_blame,
    read_static_file,
    render_page,
    render_served_page,
)
from wiregrad.ir import text_form

if TYPE_CHECKING:
    from wiregrad.inspect.flight_recorder import Band, CurveBand, Event, Flight, GroupRecord

with require_package("starlette", "the explorer's server"):
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
    from starlette.routing import Route
    from starlette.types import ASGIApp, Message, Receive, Scope, Send
with require_package("uvicorn", "the explorer's server"):
    import h11
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_BODY_BYTES = 1 << 20
"""Maximum size of the body of a request."""
TOKEN_BITS = 256
"""Random bits in a token."""
ALLOWED_METHODS = ("GET", "POST")
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SECURITY_HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
"""Headers of every response."""

RELOAD_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="0;url=/"><title>wiregrad</title></head>
<body><a href="/">Open the explorer</a></body></html>
"""
"""Sent to a browser that follows a link on another site: it reloads from this origin, now with the session cookie."""


class RequestGuard:
    """ASGI middleware that refuses requests which may not reach the app; `authority` is the server's HOST:PORT."""

    def __init__(self, app: ASGIApp, authority: str) -> None:
        self.app = app
        self.authority = authority
        self.origin = f"http://{authority}"
        self.token: str | None = secrets.token_urlsafe(TOKEN_BITS // 8)
        """The token in the launch URL; None once it was used."""
        self._session = secrets.token_urlsafe(TOKEN_BITS // 8)
        # Browsers share cookies between ports, so the port in the name keeps explorers on one machine apart.
        self.cookie = f"wiregrad_{authority.rpartition(':')[2]}"

    @property
    def launch_url(self) -> str:
        """The URL that opens the explorer; it works once."""
        return f"{self.origin}/?token={self.token}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request, or hand it to the app."""
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            return
        answer = self._refuse_request(scope) or self._check_session(scope)
        body = None
        if answer is None:
            body = await _read_body(scope, receive)
        if answer is None and body is None:
            answer = _respond_text(413, f"a request has at most {MAX_BODY_BYTES:,} bytes")
        send_with_headers = _add_headers(send, close=answer is not None)
        if answer is not None:
            await answer(scope, receive, send_with_headers)
        elif body is not None:
            await self.app(scope, _replay_body(body, receive), send_with_headers)

    def _refuse_request(self, scope: Scope) -> Response | None:
        """Return the refusal of a request by its host, origin or method; None if all three are right."""
        if _read_header(scope, b"host") != [self.authority]:
            return _respond_text(421, f"this server is reached only as http://{self.authority}")
        origins = _read_header(scope, b"origin")
        if origins != [self.origin] and (origins or scope["method"] != "GET"):
            return _respond_text(403, "this request comes from another site")
        if scope["method"] not in ALLOWED_METHODS:
            refusal = _respond_text(405, f"wanted {' or '.join(ALLOWED_METHODS)}")
            refusal.headers["allow"] = ", ".join(ALLOWED_METHODS)
            return refusal
        return None

    def _check_session(self, scope: Scope) -> Response | None:
        """Exchange the token for the cookie, or refuse a request that has neither; None if the cookie is right."""
        tokens = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [])
        is_launch = scope["method"] == "GET" and scope["path"] == "/" and len(tokens) == 1
        if is_launch and self.token is not None and _is_same_secret(tokens[0], self.token):
            self.token = None
            return self._start_session()
        if not any(_is_same_secret(cookie, self._session) for cookie in self._read_cookies(scope)):
            if _is_cross_site_visit(scope) and not is_launch:
                return HTMLResponse(RELOAD_PAGE, 403)
            used = "; an address opens it once" if is_launch else ""
            return _respond_text(403, f"open the explorer with the address that wiregrad printed{used}")
        # The session is open already; redirect, so that the used token does not stay in the address bar.
        return RedirectResponse("/", 303) if is_launch else None

    def _start_session(self) -> Response:
        answer = RedirectResponse("/", 303)
        answer.set_cookie(self.cookie, self._session, httponly=True, samesite="strict", path="/")
        return answer

    def _read_cookies(self, scope: Scope) -> list[str]:
        cookies = []
        for line in _read_header(scope, b"cookie"):
            try:
                jar = SimpleCookie(line)
            except CookieError:
                continue
            if self.cookie in jar:
                cookies.append(jar[self.cookie].value)
        return cookies


def _is_cross_site_visit(scope: Scope) -> bool:
    """Return whether a link on another site led here: browsers withhold a strict cookie from such a visit."""
    site = _read_header(scope, b"sec-fetch-site")
    mode = _read_header(scope, b"sec-fetch-mode")
    return scope["path"] == "/" and site in (["cross-site"], ["same-site"]) and mode == ["navigate"]


def _is_same_secret(one: str, two: str) -> bool:
    """Compare two secrets in constant time."""
    return hmac.compare_digest(one.encode("utf-8", "replace"), two.encode())


def _read_header(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name]


def _respond_text(status: int, text: str) -> Response:
    return PlainTextResponse(f"{text}\n", status)


async def _read_body(scope: Scope, receive: Receive) -> bytes | None:
    """Return the body of a request; None if it is too large, or if the client disconnected before it was complete.

    At most one message beyond the limit is read.
    """
    lengths = _read_header(scope, b"content-length")
    if any(not length.isdigit() or int(length) > MAX_BODY_BYTES for length in lengths):
        return None
    body = bytearray()
    while len(body) <= MAX_BODY_BYTES:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        if not message.get("more_body", False):
            return bytes(body) if len(body) <= MAX_BODY_BYTES else None
    return None


def _replay_body(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives the app a body which was already read."""
    pending = [body]

    async def receive_body() -> Message:
        if pending:
            return {"type": "http.request", "body": pending.pop(), "more_body": False}
        return await receive()

    return receive_body


def _add_headers(send: Send, *, close: bool) -> Send:
    """Return a `send` that adds the security headers to every response; `close` ends the connection after it."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            added = {name.encode(): value.encode() for name, value in SECURITY_HEADERS.items()}
            others = [(name, value) for name, value in message.get("headers", []) if name.lower() not in added]
            closing = [(b"connection", b"close")] if close else []
            message = {**message, "headers": [*others, *added.items(), *closing]}
        await send(message)

    return send_with_headers


STATIC_FILES = {
    SCRIPT_FILE: "text/javascript",
    DRAWERS_SCRIPT_FILE: "text/javascript",
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
    document = text_form.read_strict_json(body)
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
        self._thread = Thread(target=self._serve, daemon=True)
        self._ended = ThreadEvent()

    def _serve(self) -> None:
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._ended.set()

    @property
    def url(self) -> str:
        """The URL that opens the explorer; it works once."""
        return self.guard.launch_url

    def start(self) -> None:
        """Start the server; return once it accepts connections."""
        self._thread.start()
        end = time.monotonic() + START_STOP_SECONDS
        while not self._server.started and not self._ended.is_set() and time.monotonic() < end:
            time.sleep(0.005)
        if not self._server.started:
            raise FileAccessError(f"the explorer's server did not start at {self.guard.origin}")

    def wait(self) -> None:
        """Wait until the server ends; Ctrl-C ends it."""
        # An event, because a `Thread.join` that is interrupted takes a running thread for one that has ended (Python
        # 3.11): its socket would be closed while it still serves.
        try:
            while not self._ended.wait(0.2):
                pass
        except KeyboardInterrupt:
            self.stop()

    def stop(self) -> None:
        """Stop the server and release its port."""
        self._server.should_exit = True
        self._ended.wait(START_STOP_SECONDS)
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


MAX_CURVE_POINTS = 240
"""Maximum number of points of a curve in the page."""
MAX_SHOWN_GROUPS = 40
"""Maximum number of groups of parameters in the page."""
MAX_SHOWN_EVENTS = 200
"""Maximum number of events in the page."""
MAX_OPEN_CIRCUITS = 4
"""Maximum number of circuits of steps that are served at a time; the oldest is closed for another one."""
POLL_SECONDS = 0.25
"""Seconds between two looks at a growing flight."""
RUNNING_SECONDS = 2.0
"""A training whose last step was longer ago than this is shown as waiting."""
StepRunner = Callable[[int], RunRecord]


class TrainingSession:
    """A flight that a page shows; `run_step` returns the run of one of the steps that `list_steps` lists.

    The thread that trains calls `record_step` around each step, and `wait_while_paused` after it.
    """

    def __init__(
        self,
        flight: Flight,
        *,
        name: str = "training",
        run_step: StepRunner | None = None,
        list_steps: Callable[[], Sequence[int]] = tuple,
    ) -> None:
        self.flight = flight
        self.name = name
        self.lock = Lock()
        """Held while a step is recorded or the flight is read."""
        self._run_step = run_step
        self._list_steps = list_steps
        self._turn = Condition()
        self._paused = False
        self._permits = 0
        self._pages = 0
        self._latest = -math.inf
        self._servers: list[ExplorerServer] = []

    def note_step(self) -> None:
        """Note that a step was recorded just now."""
        self._latest = time.monotonic()

    def wait_while_paused(self) -> None:
        """Wait until the page lets the training go on; return at once where no page is open. Ctrl-C interrupts it."""
        with self._turn:
            while self._paused and self._pages:
                if self._permits:
                    self._permits -= 1
                    return
                self._turn.wait(0.2)

    def set_paused(self, paused: bool, permits: int = 0) -> dict[str, Any]:
        """Pause or resume the training, or let it take some steps while it is paused."""
        with self._turn:
            self._paused = paused
            self._permits = permits if paused else 0
            self._turn.notify_all()
        return {"paused": paused}

    def add_page(self, count: int) -> None:
        """Count the pages that watch; without any, the training is not held up."""
        with self._turn:
            self._pages += count
            if not self._pages:
                self._paused = False
            self._turn.notify_all()

    @property
    def version(self) -> tuple[int, bool, bool]:
        """A value that changes when there is something new to show."""
        return self.flight.steps, self._paused, self._is_running

    @property
    def _is_running(self) -> bool:
        return time.monotonic() - self._latest < RUNNING_SECONDS

    def encode_state(self) -> dict[str, Any]:
        """Return what the page shows: curves, events, and which steps can be opened."""
        with self.lock:
            state = encode_flight(self.flight)
            kept = list(self._list_steps())
        state["name"] = self.name
        state["state"] = "paused" if self._paused else "running" if self._is_running else "idle"
        return state | {"live": self._latest > -math.inf or not self.flight.steps, "kept": kept}

    def encode_record(self, step: int) -> dict[str, Any]:
        """Return the record that covers a step."""
        with self.lock:
            record = self.flight[step]
        return {
            "first": record.first,
            "last": record.last,
            "loss": _encode_band(record.loss),
            "lost": record.lost,
            "groups": {name: _encode_group(group) for name, group in record.groups.items()},
        }

    def open_step(self, step: int) -> dict[str, str]:
        """Serve the circuit of a step whose parameters were kept; return the address that opens it once."""
        if self._run_step is None:
            raise InputError("to open the circuits of steps, record with wg.record(function=loss, keep=5)")
        with np.errstate(all="ignore"):
            # What is not finite is what the page is opened for.
            run = self._run_step(step)
        serving = ExplorerServer(ExplorerSession(run.circuit, run, source=True))
        serving.start()
        self._servers.append(serving)
        for old in self._servers[:-MAX_OPEN_CIRCUITS]:
            old.stop()
        self._servers = self._servers[-MAX_OPEN_CIRCUITS:]
        return {"url": serving.url}


def encode_flight(flight: Flight) -> dict[str, Any]:
    """Return the curves and events of a flight as JSON.

    >>> from wiregrad.inspect.flight_recorder import Flight
    >>> flight = Flight()
    >>> events = flight.step(2.0, {"w": 1.0}, {"w": 0.5})
    >>> state = encode_flight(flight)
    >>> state["loss"]["mean"], [group["name"] for group in state["groups"]]
    ([2.0], ['w'])
    """
    groups = flight.groups[:MAX_SHOWN_GROUPS]
    return {
        "steps": flight.steps,
        "loss": _encode_curve(flight.curve(most=MAX_CURVE_POINTS) if flight.steps else None),
        "groups": [
            {
                "name": name,
                **{
                    metric: _encode_curve(flight.curve(metric, name, most=MAX_CURVE_POINTS))
                    for metric in ("gradient", "largest", "parameter")
                },
            }
            for name in groups
        ],
        "left_out": len(flight.groups) - len(groups),
        "bad": [list(stretch) for stretch in flight.nonfinite_stretches()],
        "events": [_encode_event(event) for event in flight.events[:MAX_SHOWN_EVENTS]],
    }


def _encode_curve(curve: CurveBand | None) -> dict[str, Any]:
    """Return a curve as JSON; None is one without points."""
    if curve is None:
        return {"steps": [], "low": [], "mean": [], "high": []}
    return {
        "steps": curve.steps,
        "low": _encode_numbers(curve.low),
        "mean": _encode_numbers(curve.mean),
        "high": _encode_numbers(curve.high),
    }


def _encode_numbers(numbers: Sequence[float]) -> list[float | None]:
    """Return numbers for a curve, rounded, since a curve has few pixels; None for what is not finite."""
    return [float(f"{number:.5g}") if math.isfinite(number) else None for number in numbers]


def _encode_event(event: Event) -> dict[str, Any]:
    return {
        "kind": event.kind,
        "what": event.what,
        "group": event.group,
        "step": event.step,
        "text": str(event),
    }


def _encode_band(band: Band) -> list[Any]:
    return [encode_number(number) for number in band]


def _encode_group(group: GroupRecord) -> dict[str, Any]:
    return {
        "gradient": _encode_band(group.gradient),
        "largest": _encode_band(group.largest),
        "parameter": _encode_band(group.parameter),
        "update": _encode_band(group.update),
        "nonfinite": group.nonfinite + group.broken,
    }


def build_training_app(session: TrainingSession, authority: str) -> RequestGuard:
    """Return the web application of a training, behind its request guard; `authority` is HOST:PORT.

    >>> from wiregrad.inspect.flight_recorder import Flight
    >>> app = build_training_app(TrainingSession(Flight()), "127.0.0.1:8000")
    >>> app.launch_url.partition("=")[0]
    'http://127.0.0.1:8000/?token'
    """
    routes = [
        Route("/", lambda request: _respond_training_page(session), methods=["GET"]),
        Route("/state", serve_json(lambda request: session.encode_state()), methods=["GET"]),
        Route(
            "/record/{step:int}", serve_json(lambda r: session.encode_record(r.path_params["step"])), methods=["GET"]
        ),
        Route("/changes", lambda request: _respond_changes(session), methods=["GET"]),
        Route("/pause", _serve_pause(session), methods=["POST"]),
        Route("/open", _serve_open(session), methods=["POST"]),
    ]
    return RequestGuard(build_starlette(routes), authority)


def _respond_training_page(session: TrainingSession) -> Response:
    data = {"schema": PAGE_SCHEMA, "training": session.encode_state()}
    return Response(render_served_page(data, session.name), media_type="text/html")


def _respond_changes(session: TrainingSession) -> Response:
    return StreamingResponse(_stream_changes(session), media_type="text/event-stream")


async def _stream_changes(session: TrainingSession) -> AsyncIterator[str]:
    """Yield the state as server-sent events, whenever it has changed, until the page is closed."""
    session.add_page(1)
    seen: object = None
    try:
        while True:
            version = session.version
            if version != seen:
                seen = version
                state = await run_in_threadpool(session.encode_state)
                yield f"data: {dump_json(state)}\n\n"
            await asyncio.sleep(POLL_SECONDS)
    finally:
        session.add_page(-1)


def _serve_pause(session: TrainingSession) -> Callable[[Request], Awaitable[Response]]:
    async def pause(request: Request) -> Response:
        wish = _parse_object(await request.body())
        paused = wish.get("paused")
        steps = wish.get("steps", 0)
        if not isinstance(paused, bool) or isinstance(steps, bool) or not isinstance(steps, int):
            raise InputError('wanted {"paused": true or false, "steps": NUMBER}')
        return respond_json(session.set_paused(paused, max(0, min(steps, 1_000_000))))

    return pause


def _serve_open(session: TrainingSession) -> Callable[[Request], Awaitable[Response]]:
    async def open_step(request: Request) -> Response:
        step = _parse_object(await request.body()).get("step")
        if isinstance(step, bool) or not isinstance(step, int):
            raise InputError('wanted {"step": NUMBER}')
        try:
            return respond_json(await run_in_threadpool(session.open_step, step))
        except WiregradError:
            raise
        except Exception as error:
            # The user's function failed: that is an answer too, not a failure of the server.
            raise InputError(f"the function raised {type(error).__name__}: {error}") from None

    return open_step


def _parse_object(body: bytes) -> dict[str, Any]:
    document = text_form.read_strict_json(body)
    if not isinstance(document, dict):
        raise InputError("wanted a JSON object")
    return document
