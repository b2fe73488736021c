"""Decides who may use a server: host names, origins, tokens."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import inspect
import logging
import traceback
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct

from accord.connection.limits import FloodLog
from accord.remote.asgi_types import UNIX_PEER, Scope, headers_of
from accord.remote.subprotocol_token import SUBPROTOCOL, token_in, with_token
from accord.text.excerpt import one_line
from accord.transports.remote_address import is_loopback

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
