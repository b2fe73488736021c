"""The ASGI application of the inspector: access first, then the page and its API.

A token in the first address opens the page once for each browser; all other requests have a cookie.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from collections.abc import Sequence
from contextlib import suppress
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from urllib.parse import parse_qsl, urlencode

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from accord.remote.access import (
    Access,
    ConnectionLimits,
    Event,
    Receive,
    Refusal,
    Scope,
    Send,
    headers_of,
)
from accord.remote.asgi_socket import handshake_of
from accord_inspector.forms import form_routes
from accord_inspector.inspection import Hub, Inspection
from accord_inspector.list_api import comparison_routes, export_routes, list_routes
from accord_inspector.panels import fault_routes, panel_routes
from accord_inspector.talk import conversation_routes
from accord_inspector.timeline import timeline_routes, waterfall_routes
from accord_terminal import conversation
from accord_terminal.conversation import ApiError

# Of every response: nothing runs that is not a file of the page, and nothing is embedded.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "media-src 'self' data: blob:; font-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
HEADERS: tuple[tuple[str, str], ...] = (
    ("Content-Security-Policy", _POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
)


class PageAccess:
    """Checks the host name, the origin and the login of each request.

    `token` opens the page once per browser: the address is `start_path`, and the response sets a
    cookie. `hosts` are names of this server in addition to those of this machine.
    """

    def __init__(self, hosts: Sequence[str] = ()) -> None:
        self.token: str = secrets.token_urlsafe(32)
        self._secret = secrets.token_urlsafe(32)
        self._origins = Access(token=self.token, hosts=hosts)

    @property
    def start_path(self) -> str:
        """The path and the query of the first address."""
        return f"/?token={self.token}"

    def refusal(self, scope: Scope) -> Refusal | None:
        """Return why the host name or the origin is refused; None if they are allowed."""
        refused = self._origins.check_origin(scope)
        return None if refused is None else Refusal(403, refused.text)

    def is_logged_in(self, scope: Scope) -> bool:
        """Return whether a request has the cookie."""
        for value in headers_of(scope).get("cookie", []):
            try:
                found = SimpleCookie(value).get(_cookie_name(scope))
            except CookieError:
                continue
            if found is not None and _equal(found.value, self._secret):
                return True
        return False

    def login(self, scope: Scope) -> tuple[str, str] | None:
        """Return the cookie and the address without the token; None if a request has no token.

        The cookie is empty if the token is wrong.
        """
        query = parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)
        given = [value for name, value in query if name == "token"]
        if not given:
            return None
        rest = urlencode([(name, value) for name, value in query if name != "token"])
        path: str = scope["path"]
        # A path such as //host would be another server.
        target = f"/{path.lstrip('/')}{'?' if rest else ''}{rest}"
        if len(given) != 1 or not _equal(given[0], self.token):
            return "", target
        name = _cookie_name(scope)
        return f"{name}={self._secret}; Path=/; HttpOnly; SameSite=Strict", target


def _cookie_name(scope: Scope) -> str:
    """Return a name for this port: browsers send cookies to all servers of a host."""
    server = scope.get("server")
    return f"accord_inspect_{server[1] if server else 0}"


def _equal(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode())


# The server closes a connection whose request was read only in part, and the browser may have sent
# the next request on it.

_MOST_BYTES = 1024 * 1024  # more is not read: the connection is closed
_MOST_S = 2.0


class UnreadBody:
    """The `receive` and `send` of one request, for its application."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._is_read = scope["method"] in ("GET", "HEAD")

    async def receive(self) -> Event:
        """Receive an event."""
        event = await self._receive()
        if event["type"] != "http.request" or not event.get("more_body", False):
            self._is_read = True
        return event

    async def send(self, event: Event) -> None:
        """Send an event; before the first one, read the rest of the body."""
        if event["type"] == "http.response.start":
            with suppress(TimeoutError):
                async with asyncio.timeout(_MOST_S):
                    await self._read_rest()
        await self._send(event)

    async def _read_rest(self) -> None:
        left = _MOST_BYTES
        while not self._is_read and left > 0:
            left -= len((await self.receive()).get("body", b""))


PAGE: Path = Path(__file__).parent / "page"
_KEPT = "private, max-age=31536000, immutable"


class PageFiles(StaticFiles):
    """The files of the page and of the conversation, which the inspector shares.

    Each is at `NAME`, and at `VERSION/NAME`, where a browser keeps it. A page that is loaded again
    asks for nothing else than `index`, which names the version.
    """

    def __init__(self) -> None:
        super().__init__(directory=PAGE, packages=[("accord_terminal.conversation", "page")])
        self._versions: set[str] = set()

    def index(self) -> Response:
        """Return the page itself."""
        version = _version([PAGE, conversation.PAGE])
        self._versions.add(version)
        text = (PAGE / "index.html").read_text("utf-8")
        return HTMLResponse(text.replace('"/page/', f'"/page/{version}/'))

    async def get_response(self, path: str, scope: Scope) -> Response:
        first, *rest = Path(path).parts or ("",)
        if first not in self._versions:
            return await super().get_response(path, scope)
        response = await super().get_response("/".join(rest), scope)
        response.headers["Cache-Control"] = _KEPT
        return response


def _version(folders: Sequence[Path]) -> str:
    """Return a text that is another one when a file has changed."""
    digest = hashlib.sha256()
    for folder in folders:
        for file in sorted(folder.iterdir()):
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]


_NO_LOGIN = Refusal(401, "Open the address that `accord inspect` printed in the terminal")
_NOT_FOUND = Refusal(404, "Unknown address")
_LIVE = "/api/live"
_SOCKET_BYTES = 64 * 1024  # of a message from the page


class InspectorApp:
    """Serves the page, `/api/…`, and the WebSocket `/api/live`, to the user who has the token."""

    def __init__(self, inspection: Inspection, hub: Hub, access: PageAccess) -> None:
        self._hub = hub
        self._access = access
        self._app = Starlette(
            routes=_routes(inspection),
            exception_handlers={ApiError: _api_error, HTTPException: _http_error},
        )

    @property
    def routes(self) -> list[Route]:
        """The addresses of HTTP requests that are answered after the login."""
        return [route for route in self._app.routes if isinstance(route, Route)]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._websocket(scope, receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, _with_headers(send))

    async def drain(self, timeout_s: float) -> None:
        """Close the connections of all pages."""
        await self._hub.aclose()

    async def disconnect(self, timeout_s: float) -> None:
        """Close the connections of all pages."""
        await self._hub.aclose()

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        refused = self._access.refusal(scope)
        response: Response | None = None
        if refused is not None:
            response = Response(f"{refused.text}\n", refused.status, media_type="text/plain")
        elif (login := self._access.login(scope)) is not None and scope["method"] == "GET":
            cookie, target = login
            if cookie:
                response = Response(
                    status_code=303, headers={"Location": target, "Set-Cookie": cookie}
                )
            else:
                response = _login_page(scope)
        elif not _is_public(scope["path"]) and not self._access.is_logged_in(scope):
            response = _login_page(scope)
        body = UnreadBody(scope, receive, send)
        await (response or self._app)(scope, body.receive, body.send)

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        limits = ConnectionLimits()
        handshake = await handshake_of(scope, receive, send, _SOCKET_BYTES, limits)
        refused = self._access.refusal(scope)
        if refused is None and not self._access.is_logged_in(scope):
            refused = _NO_LOGIN
        if refused is None and scope["path"] != _LIVE:
            refused = _NOT_FOUND
        if refused is not None:
            await handshake.refuse(refused)
            return
        await handshake.accept([])
        await self._hub.serve(handshake.transport)


def _routes(inspection: Inspection) -> list[BaseRoute]:
    """Return all routes: those of the API first, then every view of the page."""
    files = PageFiles()

    async def page(_request: Request) -> Response:
        return files.index()

    return [
        *list_routes(inspection),
        *timeline_routes(inspection),
        *conversation_routes(inspection.conversations.of),
        *form_routes(inspection),
        *fault_routes(inspection),
        *panel_routes(inspection),
        *export_routes(inspection),
        *comparison_routes(inspection),
        *waterfall_routes(inspection),
        Route("/api/{rest:path}", _unknown),
        Mount("/page", files),
        Route("/{rest:path}", page, methods=["GET"]),
    ]


async def _unknown(request: Request) -> Response:
    raise ApiError(404, f"Unknown address {request.url.path}")


async def _api_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return JSONResponse({"error": error.text}, error.status)


async def _http_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


def _is_public(path: str) -> bool:
    """Return whether a file is the same for everybody: the page's own files."""
    return path.startswith("/page/")


def _login_page(scope: Scope) -> Response:
    if scope["path"].startswith("/api/"):
        return JSONResponse({"error": _NO_LOGIN.text}, 401)
    return FileResponse(PAGE / "login.html", 401)


def _with_headers(send: Send) -> Send:
    """Return `send` with the headers that every response has. It may say how long it is kept."""
    added = {name.lower().encode(): value.encode() for name, value in HEADERS}
    fixed = added.keys() - {b"cache-control"}

    async def sending(event: Event) -> None:
        if event["type"] == "http.response.start":
            kept = [(name, value) for name, value in event["headers"] if name not in fixed]
            given = {name for name, _ in kept}
            headers = (item for item in added.items() if item[0] not in given)
            event = {**event, "headers": [*kept, *headers]}
        await send(event)

    return sending
