"""The ASGI application of the inspector: access first, then the page and its API."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from accord.remote.asgi_socket import handshake_of
from accord.remote.asgi_types import Event, Receive, Scope, Send
from accord.remote.connection_limits import ConnectionLimits
from accord_inspector.api import list_routes
from accord_inspector.exports import export_routes
from accord_inspector.comparisons import comparison_routes
from accord_inspector.faults_api import fault_routes
from accord_inspector.panels_api import panel_routes
from accord_inspector.forms_api import form_routes
from accord_inspector.waterfall import waterfall_routes
from accord_inspector.access import HEADERS, PageAccess
from accord_inspector.inspection import Inspection
from accord_inspector.json_http import ApiError
from accord_inspector.live import Hub
from accord_inspector.page_files import PAGE, PageFiles
from accord_inspector.talk.routes import conversation_routes
from accord_inspector.timeline_api import timeline_routes
from accord_inspector.unread_body import UnreadBody

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
            refused = api.NO_LOGIN
        if refused is None and scope["path"] != _LIVE:
            refused = api.NOT_FOUND
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
        return JSONResponse({"error": api.NO_LOGIN.text}, 401)
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
