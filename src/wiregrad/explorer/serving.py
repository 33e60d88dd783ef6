"""Starts and ends the explorer's server, and opens the browser.

The server runs in a thread of its own, so that it works where an event loop runs already, as in a notebook, and ends
with the process.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import sys
import time
import webbrowser
from threading import Thread

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from wiregrad.errors import FileAccessError, InputError, shown
from wiregrad.explorer.guard import Guard
from wiregrad.explorer.server import Exhibit, app

LOOPBACK = "127.0.0.1"
PATIENCE = 60.0
"""How many seconds the server has to begin and to end, on a busy machine too."""
REQUEST_SECONDS = 10.0
"""How many seconds a request may take to arrive; a connection that brings less is dropped."""


class PromptProtocol(H11Protocol):
    """A connection whose requests must arrive whole in time; uvicorn itself waits for ever for the rest of one.

    The time counts from the beginning of a connection or of a request, so that bytes that trickle in do not prolong it.
    Between two requests uvicorn's own limit holds.
    """

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._expect()

    def data_received(self, data: bytes) -> None:
        """Take a part of a request."""
        self._expect()
        super().data_received(data)
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._relax()

    def on_response_complete(self) -> None:
        """Go on with what has already arrived of the next request."""
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY or self.conn.trailing_data[0]:
            self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the connection."""
        self._relax()
        super().connection_lost(exc)

    def _expect(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(REQUEST_SECONDS, self.transport.abort)

    def _relax(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class Serving:
    """A server that runs; `url` opens the explorer once, `stop` ends it."""

    def __init__(self, exhibit: Exhibit, port: int = 0, address: str = LOOPBACK) -> None:
        host = checked(address)
        self._socket = _bound(host, port)
        self.port: int = self._socket.getsockname()[1]
        shown_host = f"[{host}]" if ":" in host else host
        # Browsers leave out the port that is usual.
        authority = shown_host if self.port == 80 else f"{shown_host}:{self.port}"
        self.guard: Guard = app(exhibit, authority)
        config = uvicorn.Config(
            self.guard,
            access_log=False,
            log_config=None,
            log_level="error",
            lifespan="off",
            ws="none",
            http=PromptProtocol,
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._thread = Thread(target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True)

    @property
    def url(self) -> str:
        """The address that opens the explorer, once."""
        return self.guard.launch

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()
        end = time.monotonic() + PATIENCE
        while not self._server.started and self._thread.is_alive() and time.monotonic() < end:
            time.sleep(0.005)
        if not self._server.started:
            raise FileAccessError(f"the explorer's server did not begin at {self.guard.origin}")

    def wait(self) -> None:
        """Wait until the server ends, which Ctrl-C makes it do."""
        try:
            while self._thread.is_alive():
                self._thread.join(0.2)
        except KeyboardInterrupt:
            self.stop()

    def stop(self) -> None:
        """End the server."""
        self._server.should_exit = True
        self._thread.join(PATIENCE)
        self._socket.close()


def checked(address: str) -> str:
    """Return an address that a server can be reached at by exactly one name.

    >>> checked("127.0.0.1")
    '127.0.0.1'
    """
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        raise InputError(f"wanted an address such as 192.168.1.5; got {shown(address)}") from None
    if found.is_unspecified or found.is_multicast:
        raise InputError(f"{address} is no one address; give the one of this machine that others reach it at")
    return str(found)


def _bound(host: str, port: int) -> socket.socket:
    if not 0 <= port < 65536:
        raise InputError(f"a port is a number from 0 (any that is free) to 65535; got {port}")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise FileAccessError(f"cannot listen at {host}, port {port}: {error.strerror}; try --port 0") from None


def explore(
    exhibit: Exhibit, *, port: int = 0, address: str = LOOPBACK, browser: bool = True, wait: bool = True
) -> Serving:
    """Show a circuit in the browser: start a server, open its page, and by default wait for Ctrl-C.

    The address is printed to stderr; it opens the explorer once, in one browser.
    """
    serving = Serving(exhibit, port, address)
    serving.start()
    opened = browser and _open(serving.url)
    hint = "Ctrl-C ends it" if wait else "it ends with this process"
    print(f"the explorer is {'open' if opened else 'ready'} at {serving.url}\n({hint})", file=sys.stderr)  # noqa: T201
    if wait:
        serving.wait()
    return serving


def _open(url: str) -> bool:
    try:
        return webbrowser.open(url)
    except webbrowser.Error:
        return False
