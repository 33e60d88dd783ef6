"""Starts and stops the explorer's server on this machine, and opens the browser.

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
from collections.abc import Callable
from threading import Thread

from wiregrad.errors import FileAccessError, InputError, require_package, short_repr
from wiregrad.explorer.request_guard import RequestGuard
from wiregrad.explorer.session import ExplorerSession
from wiregrad.explorer.web_app import build_app

with require_package("uvicorn", "the explorer's server"):
    import h11
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

LOOPBACK_ADDRESS = "127.0.0.1"
START_STOP_SECONDS = 60.0
"""Seconds to wait for the server to start or stop; generous, for busy machines."""
REQUEST_SECONDS = 10.0
"""Seconds in which a request must arrive completely; otherwise its connection is dropped."""


AppBuilder = Callable[[str], RequestGuard]
"""Builds the web application for HOST:PORT, where it is not that of a circuit."""


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
