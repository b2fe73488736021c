"""Decides who may use a server, and how much: host names, origins, tokens, limits.

`Access` checks a request, and returns who it is from (`Principal`) or why it is refused
(`Refusal`). `ConnectionLimits` and `HttpLimits` bound what clients cost. Above them are the types
of ASGI, which has no package for them, and `NetworkTransport`; below, the responses that are not
streams.
"""

from __future__ import annotations

import asyncio
import binascii
import hashlib
import hmac
import inspect
import logging
import math
import traceback
from base64 import urlsafe_b64decode
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Generator, MutableMapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from accord.connection.limits import FloodLog
from accord.text.excerpt import one_line
from accord.transports.base import Transport
from accord.transports.registry import PING_S, is_loopback

# The types of ASGI applications, which have no package of their own.

# The extension of a scope for a client on a Unix socket: `{"uid": …}` is its checked user.
UNIX_PEER = "accord.unix_peer"
_HEADERS = "accord.headers"  # key of a scope: what `headers_of` returns

Scope: TypeAlias = MutableMapping[str, Any]
Event: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Event]]
Send: TypeAlias = Callable[[Event], Awaitable[None]]
AsgiApp: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


def path_of(scope: Scope) -> str:
    """Return the path of a request within the application, which may be mounted in another one."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "").rstrip("/")
    is_below = bool(root) and (path == root or path.startswith(f"{root}/"))
    return path[len(root) :] if is_below else path


def headers_of(scope: Scope) -> dict[str, list[str]]:
    """Return the headers of a request by name in lower case; they must not be changed."""
    headers: dict[str, list[str]] | None = scope.get(_HEADERS)
    if headers is None:
        headers = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
        scope[_HEADERS] = headers
    return headers


# The bounds on what clients of the HTTP server may make it hold.


class HttpLimits(Struct, frozen=True, kw_only=True):
    """Sizes are in bytes, times in seconds."""

    body_bytes: int = 16 * 1024 * 1024  # of a POST
    body_s: float = 60.0  # for a body; more while it arrives with at least 1 KiB/s
    initialize_s: float = 120.0  # for the agent's response to `initialize`
    unread_bytes: int = 64 * 1024 * 1024  # of a connection; then the agent and requests wait
    total_unread_bytes: int = 512 * 1024 * 1024  # of all; then the same beyond an equal share
    stall_s: float = 60.0  # without any reading; then the connection is closed
    unread_sessions: int = 1024  # with output and without a reader
    provisional_streams: int = 64  # of sessions that the agent has not mentioned
    provisional_s: float = 60.0  # such a stream lives without a request for its session
    waiting_posts: int = 1024  # of a connection, while the agent does not read
    requests: int = 10_000  # of a connection, without a response
    keepalive_s: float = 15.0  # between comments on an idle stream
    idle_s: float = 300.0  # without a stream, POST or running request; 0 is unlimited
    # A second GET of a stream: whether it replaces a reader that has stopped reading.
    second_reader: Literal["takeover", "conflict"] = "takeover"


# The base class of a server's connections to clients.

# Close codes of WebSocket (R-WS-07).
NORMAL = 1000
GOING_AWAY = 1001
PROTOCOL_ERROR = 1002
POLICY_VIOLATION = 1008
INTERNAL = 1011


class NetworkTransport(Transport):
    """A connection that `aclose` ends with a code and a reason.

    The reason has at most 123 bytes and says nothing about the agent (R-WS-16).
    """

    close_code: int = NORMAL
    close_reason: str = ""

    @property
    def unsent_bytes(self) -> int:
        """The bytes of messages that wait for the client to read."""
        return 0


# A token in the list of WebSocket subprotocols: web pages cannot set the header (R-WS-18).

SUBPROTOCOL = "acp.bearer"


def token_in(headers: dict[str, list[str]]) -> str | None:
    """Return the token that a client offers as the second of exactly two subprotocols."""
    offered = [name.strip() for name in ",".join(headers.get(_HEADER, [])).split(",")]
    prefix = f"{SUBPROTOCOL}."
    if len(offered) != 2 or offered[0] != SUBPROTOCOL or not offered[1].startswith(prefix):
        return None
    encoded = offered[1].removeprefix(prefix).rstrip("=")
    try:
        return urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
    except (binascii.Error, ValueError):
        return None


def with_token(headers: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return the headers as if the offered token had come in `Authorization`."""
    token = token_in(headers)
    rest = {name: values for name, values in headers.items() if name != _HEADER}
    if token is None or "authorization" in rest:
        return rest
    return {**rest, "authorization": [f"Bearer {token}"]}


_HEADER = "sec-websocket-protocol"


flood_log: FloodLog = FloodLog(logging.getLogger("accord.remote"))

AUTHENTICATE_S = 10.0  # for the hook


class Principal(Struct, frozen=True):
    """Who has logged in: connections and sessions belong to a principal.

    One with `all_sessions` uses the sessions of all, such as the user that runs the server.
    """

    name: str
    all_sessions: bool = False

    @property
    def shown(self) -> str:
        """The name for logs, as one short line."""
        return one_line(self.name, 100)


class RemoteRequest(Struct, frozen=True, kw_only=True):
    """What `authenticate` may look at; header names are in lower case."""

    method: str
    path: str
    headers: dict[str, list[str]]
    client: str | None  # the address of the other end
    secure: bool  # whether the connection is encrypted


# Returns None for a request without a valid login. It has 10 s; its errors become status 500.
Authenticate: TypeAlias = Callable[[RemoteRequest], Principal | None | Awaitable[Principal | None]]


class Refusal(Struct, frozen=True):
    """Why a request is not served: an HTTP status, and a text that reveals nothing."""

    status: int
    text: str
    headers: tuple[tuple[str, str], ...] = ()
    kind: str = ""  # what it is about, for `data.kind` of the error (R-HTTP-50)


class Access(Struct, kw_only=True):
    """Checks each request, before its body is read or an agent is started.

    `hosts` are names and addresses that clients may use for this server in addition to those of
    this machine, with or without a port. `origins` are those of web pages that may connect.
    Without `authenticate`, the token in `Authorization: Bearer` must be `token`. With
    `subprotocol_token`, WebSocket clients may offer it as a subprotocol instead (R-WS-18).
    """

    token: str | None = None
    authenticate: Authenticate | None = None
    hosts: Sequence[str] = ()
    origins: Sequence[str] = ()
    insecure: bool = False
    subprotocol_token: bool = False

    def __post_init__(self) -> None:
        if self.token is None and self.authenticate is None and not self.insecure:
            raise ValueError(
                "A server needs token=… or authenticate=…, also on this machine only: other users "
                "and web pages can reach it; insecure=True allows everybody"
            )
        if self.token is not None and len(self.token) < 16:
            raise ValueError("The token must have at least 16 characters")
        for host in self.hosts:  # others would match no request
            if not host.strip() or set("/@*?#, ") & set(host.strip()):
                raise ValueError(f"Expected the name of a host, such as a.example, got {host!r}")
        for origin in self.origins:
            if not _is_origin(origin):
                raise ValueError(
                    "Expected an origin as browsers send it, such as https://a.example or "
                    f"https://a.example:8443, got {origin!r}"
                )

    @property
    def is_for_others(self) -> bool:
        """Whether clients that are not the user of this machine are served."""
        hosts = (_split_host(host)[0] for host in self.hosts)
        return self.authenticate is not None or self.insecure or not all(map(is_loopback, hosts))

    async def check(self, scope: Scope) -> Principal | Refusal:
        """Return who sends a request, or why it is refused."""
        peer = scope.get("extensions", {}).get(UNIX_PEER)
        if peer is not None:
            return Principal(f"uid {peer['uid']}", all_sessions=True)  # R-SEC-13
        headers = headers_of(scope)
        if (refusal := self.check_origin(scope)) is not None:
            return refusal
        if self.subprotocol_token and scope["type"] == "websocket":
            headers = with_token(headers)
        try:
            async with asyncio.timeout(AUTHENTICATE_S):
                principal = await self._log_in(scope, headers)
        except TimeoutError:
            text = "! authenticate took more than %g s"
            flood_log.log(logging.ERROR, text, AUTHENTICATE_S, kind=id(self))
            return Refusal(503, "Logging in takes too long", (("Retry-After", "5"),), "login")
        except Exception as exc:  # noqa: BLE001  # of the hook
            _log_failure(exc, id(self))
            return Refusal(500, "Internal error", kind="login")
        if principal is None:
            challenge = (("WWW-Authenticate", "Bearer"),)
            return Refusal(401, "A valid token is required", challenge)  # R-SEC-04
        return principal

    def subprotocol(self, scope: Scope) -> str | None:
        """Return the subprotocol to select for a client that has offered its token as another."""
        if self.subprotocol_token and token_in(headers_of(scope)) is not None:
            return SUBPROTOCOL
        return None

    def check_origin(self, scope: Scope) -> Refusal | None:
        """Return why the host name or the origin of a request is refused."""
        headers = headers_of(scope)
        if not self._is_own_host(headers.get("host", [])):
            return Refusal(421, "This server has another host name")  # R-SEC-02
        if not self._is_allowed_origin(headers.get("origin", []), scope):
            return Refusal(403, "This origin is not allowed")  # R-SEC-03
        return None

    def _is_own_host(self, values: Sequence[str]) -> bool:
        if len(values) != 1:
            return False
        host, port = _split_host(values[0])
        return is_loopback(host) or any(
            (host, port if allowed_port else "") == (allowed, allowed_port)
            for allowed, allowed_port in map(_split_host, self.hosts)
        )

    def _is_allowed_origin(self, values: Sequence[str], scope: Scope) -> bool:
        if not values:
            return True  # not a web page
        if len(values) > 1:
            return False
        origin = values[0].lower()
        if origin in [allowed.lower().rstrip("/") for allowed in self.origins]:
            return True
        try:
            parts = urlsplit(origin)
            port = parts.port or (443 if parts.scheme == "https" else 80)
        except ValueError:
            return False
        server = scope.get("server")
        own_port = server[1] if server else None
        return bool(parts.hostname) and is_loopback(parts.hostname or "") and port == own_port

    async def _log_in(self, scope: Scope, headers: dict[str, list[str]]) -> Principal | None:
        if self.authenticate is not None:
            client = scope.get("client")
            request = RemoteRequest(
                method=scope.get("method", "GET"),
                path=scope["path"],
                headers=headers,
                client=client[0] if client else None,
                secure=scope.get("scheme") in ("https", "wss"),
            )
            found = self.authenticate(request)
            principal = await found if inspect.isawaitable(found) else found
            if principal is not None and not isinstance(principal, Principal):  # pyright: ignore[reportUnnecessaryIsInstance]  # of the hook
                raise TypeError(f"authenticate returned a {type(principal).__name__}")
            return principal
        if self.token is None:
            return Principal("anonymous", all_sessions=True)
        values = headers.get("authorization", [])
        scheme, _, given = values[0].partition(" ") if len(values) == 1 else ("", "", "")
        equal = hmac.compare_digest(_digest(given.strip()), _digest(self.token))
        return (
            Principal("token", all_sessions=True) if equal and scheme.lower() == "bearer" else None
        )


def _log_failure(error: Exception, server: int) -> None:
    """Log where a hook failed, without the text of its error, which may have a token in it."""
    where = "".join(traceback.format_tb(error.__traceback__)).rstrip()
    name = type(error).__name__
    flood_log.log(logging.ERROR, "! authenticate failed: %s\n%s", name, where, kind=(name, server))


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def _is_origin(value: str) -> bool:
    """Return whether a browser can send it: `https://a.example:8443`, or `null` (of a file).

    Browsers leave out the port that is usual for the scheme.
    """
    scheme, _, host = value.lower().removesuffix("/").partition("://")
    port = _split_host(host)[1]
    return value == "null" or (
        bool(scheme and host)
        and not set("/@*?#, ") & set(host)
        and (scheme, port) not in (("http", "80"), ("https", "443"))
    )


def _split_host(value: str) -> tuple[str, str]:
    """Return the host and the port of a `Host` header; the port is empty if there is none."""
    value = value.strip().lower()
    if value.startswith("["):
        host, _, rest = value[1:].partition("]")
        return host, rest.removeprefix(":")
    host, _, port = value.rpartition(":")
    return (host, port) if host and port.isdigit() else (value, "")


# The bounds on the connections of a server, and the connections that are open.


class ConnectionLimits(Struct, frozen=True, kw_only=True):
    """How many connections a server accepts (T12), and how long it keeps idle ones.

    A connection without a message and without a running turn for `idle_s` seconds is closed;
    0 means never. A WebSocket client is sent a ping every `ping_interval_s` seconds, 0 means
    never, and is disconnected if nothing arrives in `ping_timeout_s` seconds after it; 0 means
    that nothing needs to arrive (R-WS-14). Other ASGI servers than `accord serve` have settings
    of their own for pings.
    """

    connections: int = 1000
    per_principal: int = 1000
    starts_per_minute: int = 600
    idle_s: float = 86_400.0
    ping_interval_s: float = PING_S
    ping_timeout_s: float = PING_S


class OpenConnections:
    """The connections that are open; `clock` returns seconds."""

    def __init__(self, limits: ConnectionLimits, clock: Callable[[], float] | None = None) -> None:
        self._limits = limits
        self._clock = clock
        self._transports: dict[NetworkTransport, Principal] = {}
        self._per_principal: Counter[Principal] = Counter()
        self._starts: deque[float] = deque()  # in the last minute

    def refusal(self, principal: Principal) -> Refusal | None:
        """Return why another connection is refused, None if it is not."""
        limits = self._limits
        if self.full:
            return Refusal(503, "Too many connections", (("Retry-After", "5"),))
        if self._per_principal[principal] >= limits.per_principal:
            return Refusal(429, "Too many connections", (("Retry-After", "5"),))
        now = self._now()
        while self._starts and now - self._starts[0] >= 60:
            self._starts.popleft()
        if len(self._starts) >= limits.starts_per_minute:
            wait_s = math.ceil(60 - (now - self._starts[0]))
            retry = (("Retry-After", str(max(wait_s, 1))),)
            return Refusal(429, "Too many connections in one minute", retry)
        return None

    @contextmanager
    def opened(self, principal: Principal, transport: NetworkTransport) -> Generator[None]:
        """Count a connection during the block."""
        self.add(principal, transport)
        try:
            yield
        finally:
            self.remove(transport)

    def add(self, principal: Principal, transport: NetworkTransport) -> None:
        """Count a connection."""
        self._starts.append(self._now())
        self._transports[transport] = principal
        self._per_principal[principal] += 1

    def remove(self, transport: NetworkTransport) -> None:
        """Count a connection as closed."""
        principal = self._transports.pop(transport)
        self._per_principal[principal] -= 1
        if not self._per_principal[principal]:
            del self._per_principal[principal]

    @property
    def full(self) -> bool:
        """Whether every further connection is refused."""
        return len(self._transports) >= self._limits.connections

    def _now(self) -> float:
        return asyncio.get_running_loop().time() if self._clock is None else self._clock()


# The responses of the HTTP server that are not streams.

_encode = msgspec.json.Encoder().encode
_CODES = {404: -32002, 408: -32603, 409: -32603, 413: -32603, 429: -32603}  # R-HTTP-50
_ALLOWED_HEADERS = "Acp-Connection-Id, Acp-Session-Id, Acp-Protocol-Version, Last-Event-ID"
_NO_STORE = (b"cache-control", b"no-store")


async def respond(
    send: Send,
    status: int,
    body: bytes = b"",
    content_type: str = "",
    headers: Sequence[tuple[str, str]] = (),
) -> None:
    """Send a complete response."""
    sent = [(b"content-length", str(len(body)).encode()), _NO_STORE]
    if content_type:
        sent.append((b"content-type", content_type.encode()))
    sent += ((name.lower().encode(), value.encode()) for name, value in headers)
    await send({"type": "http.response.start", "status": status, "headers": sent})
    await send({"type": "http.response.body", "body": body})


async def respond_json(
    send: Send, status: int, body: bytes, headers: Sequence[tuple[str, str]] = ()
) -> None:
    """Send a response with a JSON text."""
    await respond(send, status, body, "application/json", headers)


async def respond_refusal(scope: Scope, send: Send, refusal: Refusal) -> None:
    """Send a JSON-RPC error if the client accepts JSON, else a line of text (R-HTTP-50)."""
    if not _accepts_json(headers_of(scope).get("accept", [])):
        text = f"{refusal.text}\n".encode()
        await respond(send, refusal.status, text, "text/plain; charset=utf-8", refusal.headers)
        return
    status = refusal.status
    error: dict[str, object] = {
        "code": _CODES.get(status, -32600 if status < 500 else -32603),
        "message": refusal.text,
    }
    if refusal.kind:
        error["data"] = {"kind": refusal.kind}
    body = _encode({"jsonrpc": "2.0", "id": None, "error": error})
    await respond_json(send, status, body, refusal.headers)


def _accepts_json(values: Sequence[str]) -> bool:
    accepted = {part.partition(";")[0].strip().lower() for v in values for part in v.split(",")}
    return not values or not accepted.isdisjoint(("application/json", "application/*", "*/*"))


async def cors_preflight(send: Send, more: Sequence[str] = ()) -> None:
    """Answer a browser that asks whether a page of an allowed origin may send a request.

    `more` are headers that a page may send in addition to those of ACP.
    """
    allowed = ", ".join(("Authorization", "Content-Type", _ALLOWED_HEADERS, *more))
    headers = (
        ("Access-Control-Allow-Methods", "GET, POST, DELETE"),
        ("Access-Control-Allow-Headers", allowed),
        ("Access-Control-Max-Age", "600"),
    )
    await respond(send, 204, headers=headers)


def allow_origin(send: Send, origin: str, more: Sequence[str] = ()) -> Send:
    """Return `send` with the headers by which a browser passes responses to a page (R-HTTP-46).

    `more` are headers that a page may read in addition to those of ACP.
    """
    exposed = ", ".join((_ALLOWED_HEADERS, *more))
    added = [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-expose-headers", exposed.encode()),
        (b"vary", b"origin"),
    ]

    async def sending(event: Event) -> None:
        if event["type"] == "http.response.start":
            event["headers"] = [*event["headers"], *added]
        await send(event)

    return sending
