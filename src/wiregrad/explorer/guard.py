"""Who may ask the explorer's server: one browser of one person, from the page that this server sent.

Kept true of every answer, errors included: it carries the headers below and none that lets another site read it. Of
every request that reaches the app: its Host is exactly this server's, its Origin is too unless it is a plain GET, its
body is small and complete, and it brings the cookie that the token of the launch address was traded for.
"""

from __future__ import annotations

import hmac
import secrets
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

BODY = 1 << 20
"""How many bytes a request may bring."""
BITS = 256
"""How hard tokens are to guess."""
METHODS = ("GET", "POST")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
"""What every answer says."""

AGAIN = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="0;url=/"><title>wiregrad</title></head>
<body><a href="/">Open the explorer</a></body></html>
"""
"""What a visit from a link elsewhere gets in place of the page: it asks again, now from here, and brings the cookie."""


class Guard:
    """Stands before an app and lets through what may pass; `authority` is the host and port it is reached at."""

    def __init__(self, app: ASGIApp, authority: str) -> None:
        self.app, self.authority, self.origin = app, authority, f"http://{authority}"
        self.token: str | None = secrets.token_urlsafe(BITS // 8)
        """What the launch address brings; None once it was used."""
        self._session = secrets.token_urlsafe(BITS // 8)
        # Cookies do not know ports: another explorer on this machine must not overwrite this one's.
        self.cookie = f"wiregrad_{authority.rpartition(':')[2]}"

    @property
    def launch(self) -> str:
        """The address that opens the explorer, once."""
        return f"{self.origin}/?token={self.token}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or hand it to the app."""
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            return
        answer = self._refused(scope) or self._opened(scope)
        body = b""
        if answer is None:
            found = await _body(scope, receive)
            answer, body = (
                (_told(413, f"a request has at most {BODY:,} bytes"), b"") if found is None else (None, found)
            )
        headed = _headed(send, close=answer is not None)
        if answer is not None:
            await answer(scope, receive, headed)
        else:
            await self.app(scope, _whole(body, receive), headed)

    def _refused(self, scope: Scope) -> Response | None:
        """Return why a request is refused whoever sent it; None if it is not."""
        if _values(scope, b"host") != [self.authority]:
            return _told(421, f"this is http://{self.authority} and no other name")
        origins = _values(scope, b"origin")
        if origins != [self.origin] and (origins or scope["method"] != "GET"):
            return _told(403, "asked from another site")
        if scope["method"] not in METHODS:
            refused = _told(405, f"wanted {' or '.join(METHODS)}")
            refused.headers["allow"] = ", ".join(METHODS)
            return refused
        return None

    def _opened(self, scope: Scope) -> Response | None:
        """Trade the token for the cookie; return what else there is to say to somebody who has neither."""
        given = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [])
        at_door = scope["method"] == "GET" and scope["path"] == "/" and len(given) == 1
        if at_door and self.token is not None and _same(given[0], self.token):
            self.token = None
            return self._welcome()
        if not any(_same(cookie, self._session) for cookie in self._cookies(scope)):
            if _is_from_elsewhere(scope) and not at_door:
                return HTMLResponse(AGAIN, 403)
            used = "; an address opens it once" if at_door else ""
            return _told(403, f"open the explorer with the address that wiregrad printed{used}")
        # The token has done its work and need not stay in the address.
        return RedirectResponse("/", 303) if at_door else None

    def _welcome(self) -> Response:
        answer = RedirectResponse("/", 303)
        answer.set_cookie(self.cookie, self._session, httponly=True, samesite="strict", path="/")
        return answer

    def _cookies(self, scope: Scope) -> list[str]:
        found = []
        for line in _values(scope, b"cookie"):
            try:
                jar = SimpleCookie(line)
            except CookieError:
                continue
            found += [jar[self.cookie].value] if self.cookie in jar else []
        return found


def _is_from_elsewhere(scope: Scope) -> bool:
    """Return whether a link on another site led here: then a browser keeps the cookie to itself, even if it has it."""
    site, mode = _values(scope, b"sec-fetch-site"), _values(scope, b"sec-fetch-mode")
    return scope["path"] == "/" and site in (["cross-site"], ["same-site"]) and mode == ["navigate"]


def _same(one: str, two: str) -> bool:
    """Return whether two secrets are one, in a time that does not tell how much of them is."""
    return hmac.compare_digest(one.encode("utf-8", "replace"), two.encode())


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name]


def _told(status: int, text: str) -> Response:
    return PlainTextResponse(f"{text}\n", status)


async def _body(scope: Scope, receive: Receive) -> bytes | None:
    """Return the body of a request; None if it is too large, which is seen without reading more than is allowed.

    None too if its sender went away: half a body is none.
    """
    lengths = _values(scope, b"content-length")
    if any(not length.isdigit() or int(length) > BODY for length in lengths):
        return None
    found = bytearray()
    while len(found) <= BODY:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        found += message.get("body", b"")
        if not message.get("more_body", False):
            return bytes(found) if len(found) <= BODY else None
    return None


def _whole(body: bytes, receive: Receive) -> Receive:
    """Return what hands an app a body that was read already."""
    pending = [body]

    async def whole() -> Message:
        if pending:
            return {"type": "http.request", "body": pending.pop(), "more_body": False}
        return await receive()

    return whole


def _headed(send: Send, *, close: bool) -> Send:
    """Return a send that puts the headers on every answer; after a refusal the connection is not kept."""

    async def headed(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = {name.encode(): value.encode() for name, value in HEADERS.items()}
            others = [(name, value) for name, value in message.get("headers", []) if name.lower() not in own]
            extra = [(b"connection", b"close")] if close else []
            message = {**message, "headers": [*others, *own.items(), *extra]}
        await send(message)

    return headed
