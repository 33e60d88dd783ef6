"""The explorer's server: who may ask, what every answer says, and what the page can ask for."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from threading import Timer
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import pytest

import wiregrad as wg
from wiregrad.api import Run
from wiregrad.backends import interpreter
from wiregrad.cli.page_commands import explore_command as command
from wiregrad.dtypes import BOOL
from wiregrad.errors import FileAccessError, InputError
from wiregrad.explorer import local_server
from wiregrad.explorer.local_server import (
    MAX_BODY_BYTES,
    SECURITY_HEADERS,
    ExplorerServer,
    RequestGuard,
    build_app,
    check_address,
    open_explorer,
)
from wiregrad.explorer.page_data import ExplorerSession

from ..support.limits import PATIENCE, start_process

HOST = "127.0.0.1:8765"
ORIGIN = f"http://{HOST}"


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let short texts stand in for the built script and style."""
    texts = {"explorer.js": "1;", "drawers.js": "2;", "explorer.css": "p {}"}
    monkeypatch.setattr(local_server, "read_static_file", texts.__getitem__)


def example() -> ExplorerSession:
    run = wg.circuit("e = a + b; f = e * c").run(a=2, b=-3, c=10)
    return ExplorerSession(run.circuit, run)


class Browser:
    """Asks an app without a network, keeps its cookies and follows no redirect."""

    def __init__(self, guard: RequestGuard) -> None:
        self.transport = httpx.ASGITransport(guard, raise_app_exceptions=False)
        self.cookies = httpx.Cookies()

    def request(self, method: str, url: str | httpx.URL, **options: Any) -> httpx.Response:
        return asyncio.run(self._request(method, url, options))

    async def _request(self, method: str, url: str | httpx.URL, options: dict[str, Any]) -> httpx.Response:
        async with httpx.AsyncClient(transport=self.transport, base_url=ORIGIN, cookies=self.cookies) as client:
            answer = await client.request(method, url, **options)
            self.cookies = client.cookies
            return answer

    def get(self, url: str | httpx.URL, **options: Any) -> httpx.Response:
        return self.request("GET", url, **options)

    def post(self, url: str, **options: Any) -> httpx.Response:
        return self.request("POST", url, **options)


def fresh(guard: RequestGuard) -> Browser:
    """Return a browser that has no cookie yet, and is at the right address."""
    return Browser(guard)


def entered(guard: RequestGuard) -> Browser:
    """Return a browser that came in with the token."""
    client = fresh(guard)
    client.get(guard.launch_url)
    return client


@pytest.fixture
def guard() -> RequestGuard:
    return build_app(example(), HOST)


@pytest.fixture
def client(guard: RequestGuard) -> Browser:
    return entered(guard)


def is_headed(answer: Any) -> bool:
    """Return whether an answer has every header it must have, once, and none that opens it to other sites."""
    once = all(answer.headers.get_list(name) == [value] for name, value in SECURITY_HEADERS.items())
    return once and not [name for name in answer.headers if name.startswith("access-control")]


def test_the_token_is_traded_for_a_strict_cookie_and_leaves_the_address(guard: RequestGuard) -> None:
    client = fresh(guard)
    answer = client.get(guard.launch_url)
    cookie = answer.headers["set-cookie"]

    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "Domain" not in cookie
    assert client.get("/").status_code == 200
    assert is_headed(answer)


def test_tokens_and_cookies_have_256_bits_and_differ(guard: RequestGuard) -> None:
    other = build_app(example(), HOST)

    assert guard.token is not None
    assert len(guard.token) == 43
    assert guard.token != other.token
    assert fresh(guard).get(guard.launch_url).cookies != fresh(other).get(other.launch_url).cookies


def test_a_token_opens_the_explorer_once(guard: RequestGuard) -> None:
    launch = guard.launch_url
    first, second = fresh(guard).get(launch), fresh(guard).get(launch)

    assert first.status_code == 303
    assert second.status_code == 403
    assert "set-cookie" not in second.headers
    assert is_headed(second)


def test_a_used_token_does_no_harm_to_who_is_inside(guard: RequestGuard) -> None:
    launch = guard.launch_url
    client = entered(guard)
    answer = client.get(launch)

    assert (answer.status_code, answer.headers["location"]) == (303, "/")


@pytest.mark.parametrize(
    "path", ["/", "/data", "/explorer.js", "/explorer.css", "/heat", "/node/0", "/why/0", "/nothing", "/run"]
)
def test_without_the_token_nothing_is_told(guard: RequestGuard, path: str) -> None:
    answer = fresh(guard).get(path)

    assert answer.status_code == 403
    assert "circuit" not in answer.text
    assert is_headed(answer)


@pytest.mark.parametrize("token", ["", "x", "x" * 43, "%00", "é", "None"])
def test_a_wrong_token_opens_nothing_and_does_not_spend_the_right_one(guard: RequestGuard, token: str) -> None:
    answer = fresh(guard).get("/", params={"token": token})

    assert answer.status_code == 403
    assert fresh(guard).get(guard.launch_url).status_code == 303


def test_two_tokens_at_once_are_none(guard: RequestGuard) -> None:
    assert fresh(guard).get(f"{guard.launch_url}&token=x").status_code == 403


@pytest.mark.parametrize(
    "cookie", ["", "x", "wiregrad_8765=", "wiregrad_8765=x", "wiregrad_8765=None", "a=b; ;;=", "\x7f"]
)
def test_a_wrong_cookie_is_none(guard: RequestGuard, cookie: str) -> None:
    assert fresh(guard).get("/data", headers={"cookie": cookie}).status_code == 403


@pytest.mark.parametrize("path", ["/", "/data"])
@pytest.mark.parametrize("mode", ["navigate", "no-cors"])
def test_a_link_on_another_site_is_asked_to_come_again_and_told_nothing(
    guard: RequestGuard, path: str, mode: str
) -> None:
    headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": mode}
    answer = fresh(guard).get(path, headers=headers)

    assert answer.status_code == 403
    assert ('http-equiv="refresh" content="0;url=/"' in answer.text) is (path == "/" and mode == "navigate")
    assert "circuit" not in answer.text
    assert is_headed(answer)


def test_who_comes_again_without_the_cookie_is_not_sent_in_circles(guard: RequestGuard) -> None:
    headers = {"sec-fetch-site": "same-origin", "sec-fetch-mode": "navigate"}

    assert "refresh" not in fresh(guard).get("/", headers=headers).text


HOSTS = [
    "127.0.0.1",
    "127.0.0.1:80",
    "127.0.0.1:87650",
    "localhost:8765",
    "evil.example",
    "evil.example:8765",
    "127.0.0.1:8765.evil.example",
    "127.0.0.1:8765@evil.example",
    "127.0.0.1:8765, evil.example",
    " 127.0.0.1:8765 x",
    "[::1]:8765",
    "0.0.0.0:8765",
    "127.1:8765",
    "",
]


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("path", ["/", "/data", "/explorer.js"])
def test_another_host_is_refused(client: Browser, host: str, path: str) -> None:
    answer = client.get(path, headers={"host": host})

    assert answer.status_code == 421
    assert is_headed(answer)


def test_two_hosts_are_none(client: Browser) -> None:
    answer = client.get("/data", headers=[("host", HOST), ("host", HOST)])

    assert answer.status_code == 421


def test_another_host_does_not_spend_the_token(guard: RequestGuard) -> None:
    client = fresh(guard)
    spent = client.get(f"/?token={guard.token}", headers={"host": "evil.example"})

    assert (spent.status_code, "set-cookie" in spent.headers) == (421, False)
    assert client.get(guard.launch_url).status_code == 303


ORIGINS = [
    None,
    "null",
    "http://127.0.0.1",
    "https://127.0.0.1:8765",
    "http://localhost:8765",
    "http://127.0.0.1:8766",
    "http://evil.example",
    "http://127.0.0.1:8765.evil.example",
    "http://127.0.0.1:8765/",
    "HTTP://127.0.0.1:8765",
    "file://",
    "",
]


@pytest.mark.parametrize("origin", ORIGINS)
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "TRACE", "PROPFIND"])
def test_another_origin_is_refused_for_all_but_get(client: Browser, method: str, origin: str | None) -> None:
    headers = {} if origin is None else {"origin": origin}
    answer = client.request(method, "/run", headers=headers, content=b'{"leaves": {"a": 5}}')

    assert answer.status_code == 403
    assert is_headed(answer)


@pytest.mark.parametrize("origin", ORIGINS[1:])
def test_a_get_that_names_another_origin_is_refused(client: Browser, origin: str) -> None:
    assert client.get("/data", headers={"origin": origin}).status_code == 403


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "TRACE", "CONNECT", "get", "X"])
@pytest.mark.parametrize("path", ["/", "/run", "/data"])
def test_other_methods_are_refused(client: Browser, method: str, path: str) -> None:
    answer = client.request(method, path, headers={"origin": ORIGIN})

    # httpx writes methods in capitals.
    assert answer.status_code == (405 if method != "get" or path == "/run" else 200)
    assert is_headed(answer)


@pytest.mark.parametrize("path", ["/", "/data", "/find", "/explorer.js"])
def test_what_is_read_cannot_be_posted_to(client: Browser, path: str) -> None:
    assert client.post(path, headers={"origin": ORIGIN}, content=b"{}").status_code == 405


PATHS = [
    "/..%2f",
    "/..%2f..%2fetc%2fpasswd",
    "/%2e%2e/%2e%2e/etc/passwd",
    "/..%5c..%5cwindows",
    "//",
    "//evil.example",
    "//evil.example/%2e%2e",
    "///",
    "/%00",
    "/explorer.js%00",
    "/explorer.js%00.css",
    "/explorer.js/",
    "/static/explorer.js",
    "/explorer.py",
    "/data/",
    "/data;x",
    "/./data/../../etc/passwd",
    "/node/",
    "/node/-1",
    "/node/1.5",
    "/node/x",
    "/node/0/..",
    "/node/%2e%2e",
    "/~root",
    "/.git/config",
    "/favicon.ico",
    "/\\evil.example",
    "/%0d%0aset-cookie:x=y",
    "/?/../../etc/passwd%00/x"[:1] + "x" * 5000,
]


@pytest.mark.parametrize("path", PATHS)
def test_a_path_that_is_none_of_the_servers_is_not_found(client: Browser, path: str) -> None:
    # As it is written: httpx would tidy a path up.
    answer = client.get(httpx.URL(ORIGIN).copy_with(raw_path=path.encode()))

    assert answer.status_code == 404
    assert "location" not in answer.headers
    assert "set-cookie" not in answer.headers
    assert is_headed(answer)


def test_a_body_that_is_too_large_is_refused(client: Browser) -> None:
    body = json.dumps({"leaves": {"a": 1.0}}).encode()
    sizes = {
        size: client.post("/run", headers={"origin": ORIGIN}, content=body.ljust(size))
        for size in (MAX_BODY_BYTES, MAX_BODY_BYTES + 1)
    }

    assert [answer.status_code for answer in sizes.values()] == [200, 413]
    assert all(map(is_headed, sizes.values()))


def test_a_body_in_pieces_is_counted_too(client: Browser) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(64):
            yield b" " * (MAX_BODY_BYTES // 32)

    answer = client.post("/run", headers={"origin": ORIGIN}, content=pieces())

    assert answer.status_code == 413
    assert is_headed(answer)


def test_a_body_without_end_is_not_waited_for(client: Browser) -> None:
    read: list[int] = []

    async def endless() -> AsyncIterator[bytes]:
        while len(read) < 1000:
            read.append(MAX_BODY_BYTES // 4)
            yield b" " * (MAX_BODY_BYTES // 4)

    answer = client.post("/run", headers={"origin": ORIGIN}, content=endless())

    assert answer.status_code == 413
    assert sum(read) <= MAX_BODY_BYTES + MAX_BODY_BYTES // 4


@pytest.mark.parametrize("length", ["-1", "x", "1e9", str(10**30), "\uff11"])
def test_a_length_that_is_none_is_refused(client: Browser, length: str) -> None:
    headers = [(b"origin", ORIGIN.encode()), (b"content-length", length.encode())]

    assert client.post("/run", headers=headers, content=b"{}").status_code == 413


def test_a_large_body_of_a_get_is_refused(client: Browser) -> None:
    assert client.request("GET", "/data", content=b" " * (MAX_BODY_BYTES + 1)).status_code == 413


@pytest.mark.parametrize(
    "path", ["/", "/data", "/explorer.js", "/explorer.css", "/heat", "/outline", "/view", "/why/0", "/find?q=x"]
)
def test_every_answer_has_the_headers(client: Browser, path: str) -> None:
    answer = client.get(path)

    assert answer.status_code == 200
    assert is_headed(answer)
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]


def test_the_headers_are_those_that_keep_a_page_to_itself(client: Browser) -> None:
    found = client.get("/").headers

    assert found["x-frame-options"] == "DENY"
    assert found["x-content-type-options"] == "nosniff"
    assert found["referrer-policy"] == "no-referrer"
    assert found["cache-control"] == "no-store"
    assert found["cross-origin-opener-policy"] == found["cross-origin-resource-policy"] == "same-origin"
    assert found["content-security-policy"] == (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def test_what_is_wrong_is_told_without_where_files_lie(guard: RequestGuard, monkeypatch: pytest.MonkeyPatch) -> None:
    client = entered(guard)

    def fail(self: ExplorerSession, leaves: Any) -> None:
        raise InputError("wanted a number\n  recorded at /somewhere/ada/model.py:3")

    monkeypatch.setattr(ExplorerSession, "rerun", fail)

    assert rerun(client, {}).json() == {"error": "wanted a number"}


def test_a_mistake_of_the_servers_own_has_the_headers_and_tells_nothing(
    guard: RequestGuard, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = entered(guard)
    monkeypatch.setattr(ExplorerSession, "initial_data", lambda self: 1 / 0)
    answer = client.get("/data")

    assert answer.status_code == 500
    assert "division" not in answer.text
    assert is_headed(answer)


def test_the_page_carries_its_data_and_asks_its_own_server_for_the_rest(client: Browser) -> None:
    text = client.get("/").text
    block = re.search(r'<script type="application/json" id="wiregrad-data">(.*?)</script>', text)

    assert block is not None
    assert json.loads(block[1]) == client.get("/data").json()
    assert '<script src="/explorer.js" defer></script>' in text
    assert '<link rel="stylesheet" href="/explorer.css">' in text
    assert "http" not in text.replace(block[0], "")


def test_the_data_says_that_there_is_a_server(client: Browser) -> None:
    data = client.get("/data").json()

    assert data["server"] == {"run": True, "views": False}
    assert data["run"]["values"] == [2.0, -3.0, 10.0, -1.0, -10.0]


def rerun(client: Browser, leaves: Any) -> httpx.Response:
    return client.post("/run", headers={"origin": ORIGIN}, json={"leaves": leaves})


def test_a_run_at_other_leaves_keeps_those_that_are_not_given(client: Browser) -> None:
    found = rerun(client, {"c": 4}).json()

    assert found["run"]["values"] == [2.0, -3.0, 4.0, -1.0, -4.0]
    assert found["run"]["grads"] == [4.0, 4.0, -1.0, 4.0, 1.0]
    assert client.get("/data").json()["leaves"] == {"a": 2.0, "b": -3.0, "c": 4.0}


def test_a_run_takes_words_for_what_json_has_no_numbers_for(client: Browser) -> None:
    found = rerun(client, {"a": "nan", "c": "-inf"}).json()

    assert found["run"]["values"][:3] == ["nan", -3.0, "-inf"]
    assert found["blame"]["text"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"{}",
        b'{"leaves": 3}',
        b'{"leaves": {"zz": 1}}',
        b'{"leaves": {"a": "one"}}',
        b'{"leaves": {"a": null}}',
        b'{"leaves": {"a": true}}',
        b'{"leaves": {"a": [1, 2]}}',
        b'{"leaves": {"a": [[1], [1, 2]]}}',
        b'{"leaves": {"a": {"b": 1}}}',
        b'{"leaves": {"a": 1, "a": 2}}',
        b'{"leaves": {"a": NaN}}',
        b'{"leaves": {"a": 1e999}}',
        b'{"leaves": {"a": ' + b"[" * 5000 + b"]" * 5000 + b"}}",
        b"\xff\xfe",
    ],
)
def test_a_run_that_cannot_be_is_told_why(client: Browser, body: bytes) -> None:
    answer = client.post("/run", headers={"origin": ORIGIN}, content=body)

    assert answer.status_code == 400
    assert answer.json()["error"]
    assert client.get("/data").json()["leaves"] == {"a": 2.0, "b": -3.0, "c": 10.0}
    assert is_headed(answer)


def test_a_circuit_of_arrays_is_run_again_in_python() -> None:
    circuit = wg.trace(lambda w: np.sum(w * w), np.array([1.0, 2.0]))
    client = entered(build_app(ExplorerSession(circuit, circuit.run(np.array([1.0, 2.0]))), HOST))
    found = rerun(client, {"w": [3, "inf"]}).json()

    assert found["leaves"] == {"w[0]": 3.0, "w[1]": "inf"}
    assert found["run"]["grads"][0]["text"] == "[6, Inf]"
    assert rerun(client, {"w": [1.0]}).status_code == 400


@pytest.mark.parametrize(("given", "status"), [(0, 200), (1.0, 200), (True, 200), (2, 400), ("nan", 400)])
def test_a_condition_may_come_as_a_number(given: Any, status: int) -> None:
    builder = wg.Builder()
    condition = builder.input("c", BOOL)
    circuit = builder.build(builder.where(condition, builder.input("x"), 0.0))
    client = entered(build_app(ExplorerSession(circuit, circuit.run(c=True, x=2.0)), HOST))
    answer = rerun(client, {"c": given})

    assert answer.status_code == status
    assert status == 400 or answer.json()["run"]["values"][0] is bool(given)


def test_a_run_that_leaves_the_recorded_branch_says_so() -> None:
    circuit = wg.trace(lambda x: x * 2.0 if x > 0 else x * 3.0, 1.0)
    client = entered(build_app(ExplorerSession(circuit, circuit.run(x=1.0)), HOST))

    assert "note" not in rerun(client, {"x": 2.0}).json()
    assert "Python would have taken another branch at" in rerun(client, {"x": -2.0}).json()["note"]


def test_a_circuit_with_several_outputs_is_run_back_from_all() -> None:
    circuit = wg.trace(lambda x: (x * 2.0, x * 3.0), 1.0)
    exhibit = ExplorerSession(circuit, Run.from_backend_run(interpreter.run_all_outputs(circuit, [np.float64(1.0)])))

    assert rerun(entered(build_app(exhibit, HOST)), {"x": 1.0}).json()["run"]["grads"][0] == 5.0


def traced(folder: Path) -> Any:
    file = folder / "model.py"
    file.write_text("def f(x):\n    return x * 3.0  # a secret of the lab\n")
    names: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), names)
    return wg.trace(names["f"], 2.0)


@pytest.mark.parametrize("source", [True, False])
def test_lines_of_code_are_told_only_if_asked_for(tmp_path: Path, source: bool) -> None:
    circuit = traced(tmp_path)
    client = entered(build_app(ExplorerSession(circuit, source=source), HOST))

    for path in (f"/node/{circuit.size - 1}", "/data", "/export"):
        assert ("secret" in client.get(path).text) is source, path


def test_folders_stay_out_of_every_answer(tmp_path: Path) -> None:
    circuit = traced(tmp_path)
    client = entered(build_app(ExplorerSession(circuit, circuit.run(x=float("nan")), source=True), HOST))
    paths = ["/", "/data", "/view", f"/node/{circuit.size - 1}", "/why/0", "/blame", "/find?q=op:multiply", "/outline"]
    answers = [client.get(path).text for path in paths] + [rerun(client, {"x": [1]}).text, rerun(client, {"x": 0}).text]

    assert "model.py" in answers[1]
    assert not [text for text in answers if str(tmp_path) in text or tmp_path.name in text]


@pytest.mark.parametrize(
    "path",
    [
        "/node/99",
        "/why/99",
        "/view?depth=-1",
        "/view?cap=0",
        "/view?group=no",
        "/view?nodes=3",
        "/view?nodes=3-99",
        "/view?nodes=3-2",
        "/view?nodes=1-2,x",
        "/view?opened=no",
        "/find?q=op:no",
        "/find?q=grad>x",
        f"/node/{10**30}",
        "/view?depth=\uff11",
    ],
)
def test_a_question_that_cannot_be_answered_is_told_why(client: Browser, path: str) -> None:
    answer = client.get(path)

    assert answer.status_code == 400
    assert answer.json()["error"]


def test_a_node_is_told_with_its_wires_and_readers(client: Browser) -> None:
    found = client.get("/node/3").json()

    assert (found["names"], found["value"], found["grad"]) == (["e"], -1.0, 10.0)
    assert [wire["sent"] for wire in found["wires"]] == [10.0, 10.0]
    assert [(wire["to"], wire["local"]) for wire in found["branches"]] == [("f", 10.0)]


def arrays() -> Browser:
    """A page of a function of an array."""
    run = wg.run(lambda w: np.sum(w * [1.0, 2.0]), np.array([[1.0, 2.0], [3.0, 4.0]]))
    return entered(build_app(ExplorerSession(run.circuit, run), HOST))


def test_one_element_of_an_array_is_changed_and_the_rest_stays() -> None:
    client = arrays()
    leaves = client.get("/data").json()["leaves"]
    found = rerun(client, leaves | {"w[0,1]": 10}).json()

    assert leaves == {"w[0,0]": 1.0, "w[0,1]": 2.0, "w[1,0]": 3.0, "w[1,1]": 4.0}
    assert found["leaves"] == leaves | {"w[0,1]": 10.0}
    assert found["run"]["values"][-1] == 1.0 + 2 * 10.0 + 3.0 + 2 * 4.0


@pytest.mark.parametrize(
    "leaves", [{"w[2,0]": 1}, {"w[0]": 1}, {"w[-1,0]": 1}, {"z[0]": 1}, {"w[0,0]": "x"}, {"w[0,0]": [1]}]
)
def test_an_element_that_is_not_there_or_no_number_is_refused(leaves: dict[str, Any]) -> None:
    client = arrays()
    answer = rerun(client, leaves)

    assert answer.status_code == 400
    assert answer.json()["error"]
    assert client.get("/data").json()["leaves"]["w[0,0]"] == 1.0


def test_where_something_broke_is_told(client: Browser) -> None:
    rerun(client, {"a": 1e308, "b": 1e308})

    assert client.get("/blame").json()["blame"]["origins"][0]["op"] == "add"


def test_why_a_gradient_is_what_it_is_is_told(client: Browser) -> None:
    found = client.get("/why/0").json()

    assert found["lines"][0] == "the gradient of a is 10: nothing unusual"
    assert found["lines"][-1] == "  10 = 1 x 10 x 1   a -> e -> f"
    assert client.get("/why/99").json() == {"error": "there is no node 99; the circuit has 5, counted from 0"}


def test_of_a_circuit_that_was_not_run_there_is_no_why() -> None:
    client = entered(build_app(ExplorerSession(wg.circuit("x * x")), HOST))

    assert client.get("/why/0").json()["lines"] == ["the circuit was not run: there are no gradients"]


def test_a_search_is_answered(client: Browser) -> None:
    found = client.get("/find", params={"q": "op:add grad>5"}).json()

    assert [(row["name"], row["grad"]) for row in found["nodes"]] == [("e", 10.0)]


def test_a_large_circuit_is_asked_for_in_views() -> None:
    builder = wg.Builder()
    node = builder.input("x")
    for step in range(20_100):
        with builder.at(None, f"net/layer{step // 2010}"):
            node = builder.sin(node)
    run = builder.build(node).run(x=0.5)
    client = entered(build_app(ExplorerSession(run.circuit, run), HOST))
    data = client.get("/data").json()
    inside = client.get("/view", params={"group": "net/layer4"}).json()
    nodes = client.get("/view", params={"nodes": "100-110"}).json()

    assert data["server"]["views"] is True
    assert "a summary" in data["note"]
    assert inside["boxes"]
    assert [box["node"] for box in nodes["boxes"]] == list(range(99, 111))


@pytest.fixture(scope="module")
def serving() -> Iterator[ExplorerServer]:
    found = ExplorerServer(example())
    found.start()
    yield found
    found.stop()


def raw(serving: ExplorerServer, request: bytes) -> bytes:
    """Return what a real connection answers to bytes as they are."""
    with socket.create_connection(("127.0.0.1", serving.port), timeout=PATIENCE) as link:
        link.sendall(request)
        link.shutdown(socket.SHUT_WR)
        found = b""
        while piece := link.recv(65536):
            found += piece
    return found


def test_a_real_server_lets_one_browser_in(serving: ExplorerServer) -> None:
    with httpx.Client(base_url=serving.guard.origin, trust_env=False, timeout=PATIENCE) as browser:
        refused = browser.get("/data")
        page = browser.get(serving.url, follow_redirects=True)
        data = browser.get("/data")
        posted = browser.post("/run", json={"leaves": {"c": 4}}, headers={"origin": serving.guard.origin})

    assert refused.status_code == 403
    assert page.status_code == 200
    assert page.url.path == "/"
    assert not page.url.query
    assert data.json()["circuit"]["name"] == "f"
    assert posted.json()["run"]["values"][-1] == -4.0
    assert all(map(is_headed, (refused, page, data, posted)))
    assert "server" not in data.headers


def test_a_real_server_stands_on_loopback_alone(serving: ExplorerServer) -> None:
    assert serving.guard.origin == f"http://127.0.0.1:{serving.port}"
    assert serving._socket.getsockname()[0] == "127.0.0.1"


@pytest.mark.parametrize(
    "lines",
    [
        [b"GET / HTTP/1.1", b"Host: evil.example"],
        [b"GET / HTTP/1.1"],
        [b"GET / HTTP/1.1", b"Host: %s", b"Host: evil.example"],
        [b"GET http://evil.example/data HTTP/1.1", b"Host: %s"],
        [b"GET /..%%2f..%%2fetc%%2fpasswd HTTP/1.1", b"Host: %s"],
        [b"GET /../../etc/passwd HTTP/1.1", b"Host: %s"],
        [b"GET //evil.example HTTP/1.1", b"Host: %s"],
        [b"GET /%%00 HTTP/1.1", b"Host: %s"],
        [b"GET /\x00 HTTP/1.1", b"Host: %s"],
        [b"GET / HTTP/1.0"],
        [b"POST /run HTTP/1.1", b"Host: %s", b"Content-Length: 99999999"],
        [b"POST /run HTTP/1.1", b"Host: %s", b"Origin: http://%s", b"Content-Length: 99999999"],
        [b"GET /data HTTP/1.1", b"Host: %s", b"Upgrade: websocket", b"Connection: Upgrade", b"Sec-WebSocket-Key: x"],
        [b"garbage"],
    ],
)
def test_a_real_server_refuses_requests_that_are_bent(serving: ExplorerServer, lines: list[bytes]) -> None:
    host = f"127.0.0.1:{serving.port}".encode()
    answer = raw(
        serving,
        b"\r\n".join(line % host if b"%s" in line else line.replace(b"%%", b"%") for line in lines) + b"\r\n\r\n",
    )
    status = int(answer.split(b" ", 2)[1])

    assert status in (400, 403, 421)
    assert b"circuit" not in answer
    assert b"root:" not in answer
    assert b"set-cookie" not in answer.lower()


def test_a_real_server_refuses_a_body_before_it_comes() -> None:
    found = ExplorerServer(example())
    found.start()
    try:
        cookie = httpx.get(found.url, trust_env=False, timeout=PATIENCE).headers["set-cookie"].partition(";")[0]
        link = http.client.HTTPConnection("127.0.0.1", found.port, timeout=PATIENCE)
        headers = {"Origin": found.guard.origin, "Content-Length": str(MAX_BODY_BYTES + 1), "Cookie": cookie}
        link.putrequest("POST", "/run")
        for name, value in headers.items():
            link.putheader(name, value)
        link.endheaders()
        answer = link.getresponse()
        link.close()
    finally:
        found.stop()

    assert answer.status == 413
    assert answer.getheader("connection") == "close"


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "224.0.0.1", "localhost", "evil.example", ""])
def test_an_address_must_be_one(address: str) -> None:
    with pytest.raises(InputError):
        check_address(address)


def test_a_port_that_is_taken_is_told(serving: ExplorerServer) -> None:
    with pytest.raises(FileAccessError, match="--port 0"):
        ExplorerServer(example(), serving.port)


def test_another_address_is_the_only_host_then() -> None:
    found = ExplorerServer(example(), address="127.0.0.2")
    found.start()
    try:
        answers = [
            httpx.get(f"http://127.0.0.2:{found.port}/", headers=headers, trust_env=False, timeout=PATIENCE).status_code
            for headers in ({}, {"host": f"127.0.0.1:{found.port}"})
        ]
    finally:
        found.stop()

    assert answers == [403, 421]


def test_a_server_that_was_stopped_answers_no_more() -> None:
    found = ExplorerServer(example())
    found.start()
    found.stop()

    with pytest.raises(httpx.ConnectError):
        httpx.get(found.url, trust_env=False, timeout=PATIENCE)


@pytest.mark.parametrize(("opens", "word"), [(True, "open"), (False, "ready")])
def test_the_browser_is_opened_with_the_address_that_is_printed(
    opens: bool, word: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    visited: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda url: visited.append(url) or opens)
    found = open_explorer(example(), wait=False)
    found.stop()

    assert visited == [found.url]
    assert capsys.readouterr().err.startswith(f"the explorer is {word} at {found.url}\n")


# A job in the background ignores interrupts, and so would what it starts.
PROGRAM = """
import signal, sys
from wiregrad.cli.page_commands import explore_command
signal.signal(signal.SIGINT, signal.default_int_handler)
explore_command.main(sys.argv[1:], standalone_mode=False)
"""


def test_an_interrupted_server_has_ended_before_its_socket_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    order = list[str]()
    serving = ExplorerServer(example())
    run_server = serving._server.run

    def run_slowly(**options: Any) -> None:
        run_server(**options)
        time.sleep(0.5)
        order.append("ended")

    monkeypatch.setattr(serving._server, "run", run_slowly)
    serving.start()
    monkeypatch.setattr(serving, "_socket", SimpleNamespace(close=lambda: order.append("closed")))
    wait_for_interrupt = serving.wait
    interrupt = Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        interrupt.start()
        wait_for_interrupt()
    finally:
        signal.signal(signal.SIGINT, before)

    assert order == ["ended", "closed"]


def test_the_command_prints_the_address_and_ends_with_an_interrupt() -> None:
    arguments = [sys.executable, "-c", PROGRAM, "neuron", "--no-browser"]
    with start_process(arguments, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        first = process.stderr.readline()
        address = first.split()[-1]
        with httpx.Client(trust_env=False, timeout=PATIENCE) as browser:
            browser.get(address)
            data = browser.get(address.partition("?")[0] + "data").json()
        process.send_signal(2)
        rest = process.stderr.read()
        code = process.wait(PATIENCE)

    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{43}", address)
    assert data["formula"] == "n = x1*w1 + x2*w2 + b; o = tanh(n)"
    assert data["run"]["grads"][:5] == pytest.approx([-1.5, 1.0, 0.5, 0.0, 0.5])
    assert rest == "(Ctrl-C ends it)\n"
    assert code == 0


def written(arguments: list[str], folder: Path) -> dict[str, Any]:
    file = folder / "page.html"
    command.main([*arguments, "-o", str(file)], standalone_mode=False)
    block = re.search(r'id="wiregrad-data">(.*?)</script>', file.read_text())
    assert block is not None
    found: dict[str, Any] = json.loads(block[1])
    return found


@pytest.mark.usefixtures("inline")
def test_what_is_on_show_can_be_kept_as_a_file(client: Browser) -> None:
    rerun(client, {"c": 4})
    answer = client.get("/export")
    block = re.search(r'id="wiregrad-data">(.*?)</script>', answer.text)

    assert block is not None
    assert json.loads(block[1])["leaves"] == {"a": 2.0, "b": -3.0, "c": 4.0}
    assert "server" not in json.loads(block[1])
    assert "connect-src 'none'" in answer.text
    assert answer.headers["content-disposition"] == 'attachment; filename="circuit.html"'
    assert is_headed(answer)


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wiregrad.explorer.page_data.read_inline_file", lambda name: "")


@pytest.mark.usefixtures("inline")
@pytest.mark.parametrize(
    ("arguments", "leaves"),
    [
        ([], {"a": 2.0, "b": -3.0, "c": 10.0}),
        (["a * b"], {"a": 1.0, "b": 1.0}),
        (["a * b", "b=3"], {"a": 1.0, "b": 3.0}),
        (["fan-out"], {"x": 3.0}),
        (["fan-out", "x=4"], {"x": 4.0}),
        (["-x * 2"], {"x": 1.0}),
    ],
)
def test_leaves_without_a_value_begin_at_the_worked_one_or_at_1(
    arguments: list[str], leaves: dict[str, float], tmp_path: Path
) -> None:
    assert written(arguments, tmp_path)["leaves"] == leaves


@pytest.mark.usefixtures("inline")
def test_a_formula_is_handed_over_as_it_was_written(tmp_path: Path) -> None:
    assert written(["(a + b)  *  c"], tmp_path)["formula"] == "(a + b)  *  c"


@pytest.mark.usefixtures("inline")
def test_circuit_files_and_functions_can_be_explored(tmp_path: Path) -> None:
    wg.circuit("y = tanh(x)").save(tmp_path / "m.wg")
    (tmp_path / "f.txt").write_text("y = tanh(x)")
    (tmp_path / "model.py").write_text("import numpy as np\ndef f(w, x=2.0):\n    return np.tanh(w * x)\n")
    (tmp_path / "two.py").write_text("def f(x):\n    return x * 2.0, x * 3.0\n")
    (tmp_path / "arrays.py").write_text("def f(x):\n    return x * 2.0\n")

    assert written([str(tmp_path / "m.wg")], tmp_path)["leaves"] == {"x": 1.0}
    assert written([str(tmp_path / "f.txt")], tmp_path)["formula"] == "y = tanh(x)"
    assert written([f"{tmp_path}/model.py:f", "w=0.5"], tmp_path)["leaves"] == {"w": 0.5, "x": 2.0}
    assert written([f"{tmp_path}/two.py:f", "x=1"], tmp_path)["run"]["grads"][0] == 5.0
    assert written([f"{tmp_path}/arrays.py:f", "x=[1, 2]"], tmp_path)["leaves"] == {"x[0]": 1.0, "x[1]": 2.0}


@pytest.mark.parametrize("option", ["--browsr", "--prot=3"])
def test_an_option_that_is_none_is_told(option: str) -> None:
    with pytest.raises(Exception, match="there is no option"):
        command.main(["a * b", option], standalone_mode=False)
