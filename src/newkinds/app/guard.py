"""Who may speak with the workbench: its own page, opened with the address that the terminal shows, and nobody else.

Another web site that the same browser has open can send requests to 127.0.0.1, too, directly or under a name of its own
that it lets point there. So a request needs all of: a Host that is this server's, an Origin that is this server's where
it changes something, no sign of coming from another site, and the cookie that the one-time token was exchanged for.
What is refused changes nothing and is logged.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from newkinds.report.text import visible

LARGEST_BODY = 32_000_000  # bytes of a request: the rows of a few million pictures
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=(), clipboard-read=()",
}
TOKEN = "token"  # the parameter of the address that the terminal shows
CLOSED = "This page is closed. Open the address that `newkinds open` shows in the terminal."


class Keys:
    """The token of the first address, which works once, and the session that it is exchanged for."""

    def __init__(self) -> None:
        self.token = secrets.token_urlsafe(32)
        self._session = secrets.token_urlsafe(32)
        self._is_used = False

    def exchanged(self, token: str) -> str | None:
        """Return the session for the token, None if it is another one or was used before."""
        if self._is_used or not hmac.compare_digest(token.encode(), self.token.encode()):
            return None
        self._is_used = True
        return self._session

    def is_session(self, given: str) -> bool:
        """Return whether a cookie has the session."""
        return hmac.compare_digest(given.encode(), self._session.encode())


class Guard:
    """An ASGI application in front of another one that lets through what may pass."""

    def __init__(self, app: ASGIApp, port: int, keys: Keys, log: Callable[[str], None]) -> None:
        self._app = app
        self._hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        self._origins = {f"http://{host}" for host in self._hosts}
        self._cookie = f"newkinds-{port}"  # browsers do not tell ports apart: two workbenches may be open
        self._keys = keys
        self._log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] != "http":
            return  # no websockets, and nothing to do at start and end
        headers = Headers(scope=scope)
        answer = self._refusal(scope, headers) or self._arrival(scope, headers)
        if answer is None and scope["method"] == "POST":
            body = await _read(receive)
            if body is None:
                answer = self._refused(scope, 413, f"a body of more than {LARGEST_BODY:,} bytes")
            else:
                receive = _replayed(body)
        await (answer or self._app)(scope, receive, self._armoured(send))

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        """Return the answer to a request that does not come from the page, or asks for too much."""
        method, path = scope["method"], scope["path"]
        if headers.get("host", "") not in self._hosts:
            return self._refused(scope, 403, f"Host {headers.get('host', '')!r}")
        if method not in ("GET", "HEAD", "POST"):
            return self._refused(scope, 405, f"method {method!r}")
        origin = headers.get("origin")
        if (origin is not None or method == "POST") and origin not in self._origins:
            return self._refused(scope, 403, f"Origin {origin!r}")
        site = headers.get("sec-fetch-site", "none")
        is_visit = path == "/" and headers.get("sec-fetch-mode", "navigate") == "navigate"
        if site not in ("none", "same-origin") and not is_visit:
            return self._refused(scope, 403, f"a request from another site ({site})")
        if method == "POST":
            if headers.get("content-type", "").partition(";")[0].strip() != "application/json":
                return self._refused(scope, 415, f"content type {headers.get('content-type', '')!r}")
            length = headers.get("content-length", "0")
            if not length.isdecimal() or int(length) > LARGEST_BODY:
                return self._refused(scope, 413, f"a body of {length} bytes; at most {LARGEST_BODY:,} are taken")
        return None

    def _arrival(self, scope: Scope, headers: Headers) -> Response | None:
        """Return the answer to a visitor without a session, or to one who brings the token; None for the others."""
        cookies = dict(part.strip().partition("=")[::2] for part in headers.get("cookie", "").split(";"))
        is_inside = self._keys.is_session(cookies.get(self._cookie, ""))
        given = parse_qs(scope["query_string"].decode("latin-1")).get(TOKEN)
        if scope["path"] == "/" and given:
            session = self._keys.exchanged(given[0])
            if session is not None or is_inside:
                return self._entered(session)
            return self._refused(scope, 403, "a wrong or used token")
        return None if is_inside else self._refused(scope, 403, "a request without a session")

    def _entered(self, session: str | None) -> Response:
        """Return a page that goes on to the workbench: a cookie for this site alone is not sent on a redirect to it."""
        page = '<!doctype html><meta charset="utf-8"><title>newkinds</title><link rel="icon" href="/static/icon.svg">'
        onward = '<meta http-equiv="refresh" content="0;url=/"><a href="/">Open the workbench</a>'
        answer = HTMLResponse(page + onward)
        if session is not None:
            answer.set_cookie(self._cookie, session, httponly=True, samesite="strict", path="/")
        return answer

    def _refused(self, scope: Scope, status: int, what: str) -> Response:
        self._log(f"Refused: {visible(what)}, {scope['method']} {visible(scope['path'])[:200]}")
        return PlainTextResponse(f"Refused. {CLOSED}\n", status)

    def _armoured(self, send: Send) -> Send:
        """Return a sender that adds the headers that keep browsers from doing anything unforeseen."""

        async def armoured(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        return armoured


async def _read(receive: Receive) -> bytes | None:
    """Return the body of a request; None if it is too large, whatever its length was said to be."""
    parts, taken = [], 0
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        taken += len(parts[-1])
        if taken > LARGEST_BODY:
            return None
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            return b"".join(parts)


def _replayed(body: bytes) -> Receive:
    """Return a receiver that gives a body which was read already."""

    async def replayed() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return replayed
