"""The ASGI application of a gateway: who may send a request, and which protocol serves it.

`GatewayApp` checks and reads requests as `accord serve` does, and passes them to the routes of the
protocols. It can be mounted in another application, or be served by `accord gateway`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import msgspec

from accord.remote.access import (
    Access,
    AsgiApp,
    Event,
    HttpLimits,
    Principal,
    Receive,
    Refusal,
    Scope,
    Send,
    allow_origin,
    cors_preflight,
    headers_of,
    path_of,
    respond,
    respond_json,
)
from accord.remote.access_log import RefusedRequests, RequestLog
from accord.remote.http_server import RequestBody
from accord_bridges.gateways.turns import AgentSessions, GatewayError

log: logging.Logger = logging.getLogger("accord.gateway")
_encode = msgspec.json.Encoder().encode
# Headers of the protocols that web pages may read, and send.
_EXPOSED = ("Mcp-Session-Id",)
_ALLOWED = ("Acp-Cwd", "Mcp-Session-Id", "Mcp-Protocol-Version", "A2A-Version")


def public_address(url: str) -> tuple[str, str]:
    """Return a URL of a gateway without a slash at its end, and its host with the port, if any.

    Raises `ValueError` for a text that is not such a URL.
    """
    wrong = f"Expected the URL of this gateway, such as https://agents.example, got {url[:200]!r}"
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise ValueError(wrong) from None
    if not (is_address and url.isascii() and url.isprintable()) or set(" ?#@\\") & set(url):
        raise ValueError(wrong)
    return url.rstrip("/"), parts.netloc


class Request:
    """A request that was admitted."""

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, principal: Principal, body: bytes
    ) -> None:
        self.scope = scope
        self.method: str = scope["method"]
        self.path = path_of(scope)
        self.headers = headers_of(scope)
        self.principal = principal
        self.body = body
        self.receive = receive
        self._send = send
        self._has_started = False
        self._has_ended = False

    async def send(self, event: Event) -> None:
        """Send a part of the response."""
        self._has_started = True
        self._has_ended = event["type"] == "http.response.body" and not event.get("more_body")
        await self._send(event)

    def header(self, name: str) -> str | None:
        """Return the value of a header, whose name is in lower case."""
        values = self.headers.get(name)
        return values[0] if values else None

    async def respond(
        self, value: Any, status: int = 200, headers: Sequence[tuple[str, str]] = ()
    ) -> None:
        """Send a response of JSON."""
        await respond_json(self.send, status, _encode(value), headers)

    @asynccontextmanager
    async def until_gone(self, left: Callable[[], None]) -> AsyncGenerator[None, None]:
        """Call `left` if the caller disconnects during the block, before the end of the response.

        Servers report each connection that is closed, also after the last bytes were written and
        while `send` still waits: a turn that waits for its caller's tool goes on then.
        """

        async def watch() -> None:
            while (await self.receive())["type"] != "http.disconnect":
                pass
            if not self._has_ended:
                left()

        watching = asyncio.create_task(watch(), name="accord gateway caller")
        try:
            yield
        except BaseException:  # some servers raise where a caller has gone
            left()
            raise
        finally:
            watching.cancel()
            await asyncio.wait([watching])

    async def start_events(self, headers: Sequence[tuple[str, str]] = ()) -> None:
        """Begin a response of server-sent events."""
        sent = [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),
            *((name.lower().encode(), value.encode()) for name, value in headers),
        ]
        await self.send({"type": "http.response.start", "status": 200, "headers": sent})

    async def send_events(self, data: bytes, *, more: bool = True) -> None:
        """Send complete events, the last ones unless there are `more`."""
        await self.send({"type": "http.response.body", "body": data, "more_body": more})

    @property
    def has_started(self) -> bool:
        """Whether a response was begun: its status cannot change any more."""
        return self._has_started


Handler: TypeAlias = Callable[[Request], Awaitable[None]]
# Makes the body of an error in the form of a protocol.
ErrorBody: TypeAlias = Callable[[GatewayError], Any]


class Routes:
    """The paths of a protocol, in which `*` is any segment, and `**` at the end any segments."""

    def __init__(self, error_body: ErrorBody, handlers: Mapping[tuple[str, str], Handler]) -> None:
        self.error_body = error_body
        self._handlers = handlers
        self._paths = {path for _, path in handlers}

    def find(self, path: str) -> str | None:
        """Return the path of the table that serves a path."""
        words = path.split("/")
        for place in self._paths:
            pattern = place.split("/")
            if pattern[-1] == "**" and len(words) >= len(pattern):
                pattern[-1:] = "*" * (len(words) - len(pattern) + 1)
            if len(pattern) == len(words) and all(
                one in ("*", word) for one, word in zip(pattern, words, strict=True)
            ):
                return place
        return None

    def handler(self, method: str, path: str) -> Handler:
        """Return what serves a path. Raises `GatewayError` for another method."""
        found = self._handlers.get((method, path))
        if found is None:
            raise GatewayError(f"{method} is not possible here", status=405)
        return found


class Mount:
    """The paths at and below `root` of another ASGI application.

    It gets requests that were admitted and read; `scope["accord.principal"]` is who sends one.
    `aclose` is called when the gateway has ended its turns.
    """

    def __init__(
        self,
        error_body: ErrorBody,
        root: str,
        app: AsgiApp,
        aclose: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.error_body = error_body
        self.aclose = aclose
        self._root = root
        self._app = app

    def find(self, path: str) -> str | None:
        """Return `root` if the application serves a path."""
        return self._root if f"{path}/".startswith(f"{self._root}/") else None

    async def run(self, request: Request) -> None:
        """Let the application serve a request."""
        first: list[Event] = [{"type": "http.request", "body": request.body, "more_body": False}]

        async def replay() -> Event:
            return first.pop() if first else await request.receive()

        scope = {**request.scope, "accord.principal": request.principal}
        await self._app(scope, replay, request.send)


class GatewayApp:
    """Serves the routes of protocols. `/health` and `/ready` are answered to everybody."""

    def __init__(
        self,
        sessions: AgentSessions,
        routes: Sequence[Routes | Mount],
        access: Access,
        *,
        limits: HttpLimits | None = None,
    ) -> None:
        self.sessions = sessions
        self._routes = routes
        self._access = access
        self._limits = limits or HttpLimits()
        self._refused = RefusedRequests()
        self._draining = False
        self._has_begun = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.start()
        match scope["type"]:
            case "http":
                logged = RequestLog(scope, receive, send, self._refused)
                try:
                    await self._serve(scope, logged)
                finally:
                    logged.done()
            case "lifespan":
                await self._lifespan(receive, send)
            case other:
                raise ValueError(f"Unknown kind of ASGI connection: {other!r}")

    def start(self) -> None:
        """Start the sessions that are to be warm, once; the first request does it, too."""
        if not self._has_begun:
            self._has_begun = True
            self.sessions.start_warm()

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while (await receive())["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        await self.drain(0)
        await send({"type": "lifespan.shutdown.complete"})

    async def _serve(self, scope: Scope, logged: RequestLog) -> None:
        receive: Receive = logged.receive
        send: Send = logged.send
        path = path_of(scope)
        if path in ("/health", "/ready"):
            text = "draining" if self._draining and path == "/ready" else "ok"
            status = 200 if text == "ok" else 503
            await respond(send, status, f"{text}\n".encode(), "text/plain; charset=utf-8")
            return
        headers = headers_of(scope)
        origin = headers.get("origin")
        if origin is not None and self._access.check_origin(scope) is None:
            if scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
                await cors_preflight(allow_origin(send, origin[0], _EXPOSED), _ALLOWED)
                return
            send = allow_origin(send, origin[0], _EXPOSED)
        routes, place = self._find(path)
        body = RequestBody(receive)
        refusal = await self._access.check(scope)
        if isinstance(refusal, Principal):
            principal = refusal
            if self._draining:
                refusal = Refusal(503, "The gateway is going away", (("Retry-After", "5"),))
            elif place is None:
                refusal = Refusal(404, f"There is nothing at {path[:100]!r}")
            else:
                found = await body.read(headers, self._limits)
                if isinstance(found, bytes):
                    request = Request(scope, receive, send, principal, found)
                    with self.sessions.tracing.request(scope, place, principal, logged):
                        await self._run(request, routes, place)
                    return
                refusal = found
        await body.discard()
        error = GatewayError(refusal.text, status=refusal.status)
        content = _encode(routes.error_body(error))
        await respond_json(send, refusal.status, content, refusal.headers)

    def _find(self, path: str) -> tuple[Routes | Mount, str | None]:
        for routes in self._routes:
            place = routes.find(path)
            if place is not None:
                return routes, place
        return self._routes[0], None

    async def _run(self, request: Request, routes: Routes | Mount, place: str) -> None:
        try:
            if isinstance(routes, Mount):
                await routes.run(request)
            else:
                await routes.handler(request.method, place)(request)
        except GatewayError as error:
            await self._fail(request, routes, error)
        except Exception as error:
            if isinstance(routes, Mount) and request.has_started:
                raise  # the server closes the connection
            log.exception("! a request failed")
            text = f"Internal error: {type(error).__name__}"
            await self._fail(request, routes, GatewayError(text, status=500))

    async def _fail(self, request: Request, routes: Routes | Mount, error: GatewayError) -> None:
        body = routes.error_body(error)
        if request.has_started:
            with_end = b"data: " + _encode(body) + b"\n\n"
            await request.send_events(with_end, more=False)
            return
        wait = (("Retry-After", "1"),) if error.status in (429, 503) else ()
        await request.respond(body, error.status, wait)

    @property
    def running_turns(self) -> int:
        """The number of turns that are running."""
        return self.sessions.running_turns

    async def drain(self, timeout_s: float) -> None:
        """Refuse requests, let turns end for `timeout_s` seconds, and cancel the others."""
        self._draining = True
        await self.sessions.cancel_all(timeout_s)
        for one in self._routes:
            if isinstance(one, Mount) and one.aclose is not None:
                await one.aclose()

    async def disconnect(self, timeout_s: float) -> None:
        """Cancel all turns now."""
        await self.drain(0)
