"""Requests that arrive in part: the explorer's server drops their connections and goes on answering others."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from threading import Thread

import httpx
import pytest

import wiregrad as wg
from wiregrad.explorer import local_server as module
from wiregrad.explorer.local_server import DeadlineProtocol, ExplorerServer
from wiregrad.explorer.page_data import ExplorerSession

from ..support.limits import PATIENCE, wait_for_thread

LIMIT = 0.5
"""Seconds in place of the ten, so that tests need not wait; whole requests get the ten, on a busy machine too."""


@pytest.fixture
def serving() -> Iterator[ExplorerServer]:
    found = ExplorerServer(ExplorerSession(wg.circuit("x * x"), wg.circuit("x * x").run(x=3)))
    found.start()
    yield found
    found.stop()


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REQUEST_SECONDS", LIMIT)


def connected(serving: ExplorerServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", serving.port), timeout=PATIENCE)


def seconds_until_dropped(link: socket.socket) -> float:
    """Read until the server closes the connection."""
    start = time.monotonic()
    try:
        while link.recv(65536):
            pass
    except ConnectionResetError:
        pass
    return time.monotonic() - start


def request(serving: ExplorerServer, *lines: str, end: str = "\r\n\r\n") -> bytes:
    return ("\r\n".join([*lines, f"Host: 127.0.0.1:{serving.port}"]) + end).encode()


PARTS: dict[str, Callable[[ExplorerServer], bytes]] = {
    "nothing": lambda serving: b"",
    "half a line": lambda serving: b"GET / HT",
    "half the headers": lambda serving: request(serving, "GET / HTTP/1.1", end="\r\nCookie: a"),
    "all but the last line": lambda serving: request(serving, "GET / HTTP/1.1", end="\r\n"),
    "no body": lambda serving: request(serving, "POST /run HTTP/1.1", "Content-Length: 10"),
    "half a body": lambda serving: request(serving, "POST /run HTTP/1.1", "Content-Length: 10") + b'{"lea',
    "half a chunk": lambda serving: request(serving, "POST /run HTTP/1.1", "Transfer-Encoding: chunked") + b"5\r\nab",
    "a request and half another": lambda serving: request(serving, "GET /no HTTP/1.1") + b"GET /",
}


def test_the_limit_is_ten_seconds() -> None:
    assert module.REQUEST_SECONDS == 10.0


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("part", PARTS)
def test_a_request_that_is_sent_in_part_is_dropped(part: str, serving: ExplorerServer) -> None:
    with connected(serving) as link:
        link.sendall(PARTS[part](serving))

        assert seconds_until_dropped(link) < PATIENCE


def test_a_body_that_the_page_owes_is_dropped(serving: ExplorerServer, monkeypatch: pytest.MonkeyPatch) -> None:
    cookie = httpx.get(serving.url, trust_env=False, timeout=PATIENCE).headers["set-cookie"].partition(";")[0]
    headers = [f"Cookie: {cookie}", f"Origin: {serving.guard.origin}", "Content-Length: 23"]
    monkeypatch.setattr(module, "REQUEST_SECONDS", LIMIT)
    with connected(serving) as link:
        link.sendall(request(serving, "POST /run HTTP/1.1", *headers) + b'{"leaves": ')

        assert seconds_until_dropped(link) < PATIENCE


@pytest.mark.usefixtures("hurried")
def test_bytes_that_trickle_in_do_not_prolong_it(serving: ExplorerServer) -> None:
    with connected(serving) as link:
        link.sendall(request(serving, "GET / HTTP/1.1", end="\r\nA: "))
        trickling = Thread(target=trickle, args=(link,))
        trickling.start()

        assert seconds_until_dropped(link) < PATIENCE
        wait_for_thread(trickling)


def trickle(link: socket.socket) -> None:
    """Send a byte now and then until the other side is gone."""
    with suppress(OSError):
        while True:
            link.sendall(b"a")
            time.sleep(LIMIT / 10)


def test_many_that_send_nothing_do_not_keep_others_out(
    serving: ExplorerServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REQUEST_SECONDS", LIMIT)
    idle = [connected(serving) for _ in range(50)]
    monkeypatch.setattr(module, "REQUEST_SECONDS", PATIENCE)

    assert httpx.get(serving.url, trust_env=False, timeout=PATIENCE).status_code == 303
    for link in idle:
        link.close()


def test_no_limit_runs_while_an_answer_is_made(serving: ExplorerServer, monkeypatch: pytest.MonkeyPatch) -> None:
    data, deadlines = ExplorerSession.initial_data, []

    def watched(session: ExplorerSession) -> dict[str, object]:
        deadlines.extend(link._deadline for link in connections(serving))
        return data(session)

    monkeypatch.setattr(ExplorerSession, "initial_data", watched)
    with httpx.Client(base_url=serving.guard.origin, trust_env=False, timeout=PATIENCE) as browser:
        browser.get(serving.url)

        assert browser.get("/data").json()["circuit"]["name"] == "f"
    assert deadlines == [None]


def test_no_limit_runs_while_no_request_does(serving: ExplorerServer) -> None:
    with httpx.Client(base_url=serving.guard.origin, trust_env=False, timeout=PATIENCE) as browser:
        browser.get(serving.url)
        browser.get("/data")
        end = time.monotonic() + PATIENCE
        while any(link._deadline for link in connections(serving)) and time.monotonic() < end:
            time.sleep(0.01)

        assert not any(link._deadline for link in connections(serving))


def connections(serving: ExplorerServer) -> list[DeadlineProtocol]:
    return [link for link in serving._server.server_state.connections if isinstance(link, DeadlineProtocol)]
