"""Decides which requests reach the explorer: those of one browser, from the page that this server sent.

Invariants of every response, errors included: it carries `SECURITY_HEADERS` and no header that lets another site read
it. Invariants of every request that reaches the app: its Host is exactly this server's; so is its Origin, which only a
GET may lack; its body is small and complete; and it carries the session cookie, which the server sets once, in exchange
for the token in the launch URL.
"""

from __future__ import annotations

import hmac
import secrets
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from wiregrad.errors import require_package

with require_package("starlette", "the explorer's server"):
    from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
