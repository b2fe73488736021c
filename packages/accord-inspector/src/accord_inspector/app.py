"""The ASGI application of the inspector: access first, then the page and its API.

A token in the first address opens the page once for each browser; all other requests have a cookie.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Sequence
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from urllib.parse import parse_qsl, urlencode

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from accord.remote.access import (
    Access,
    ConnectionLimits,
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
from accord_terminal.conversation import ApiError, PageFiles, UnreadBody, with_headers


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


PAGE: Path = Path(__file__).parent / "page"
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
            await self._http(scope, receive, with_headers(send))

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
    files = PageFiles(PAGE)

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
