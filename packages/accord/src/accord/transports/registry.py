"""How to reach a remote agent: the transport for a URL, and what its connections share.

`transport_for_url` finds the transport. `RemoteOptions` and `Reconnect` are settings; `remote_url`
says what a URL may contain, and who may receive the token; `CookieStore` keeps the cookies of one
server; `advice_for` and `tls_reason` explain why a server does not accept a connection.
"""

from __future__ import annotations

import ipaddress
import os
import re
import ssl
import time
from collections.abc import Callable, Iterable
from functools import lru_cache
from importlib import import_module
from typing import Literal, TypeAlias
from urllib.parse import SplitResult, urlsplit, urlunsplit

from msgspec import Struct

from accord.installed import install_command
from accord.text.excerpt import excerpt, one_line
from accord.text.secrets import plain_url
from accord.transports.base import TransportFactory

# How a lost connection is established again, and what is reported about it.

STABLE_S = 1.0  # a connection that was lost earlier does not make the waits short again


class ConnectionChange(Struct, frozen=True, kw_only=True):
    """The connection was lost (`reconnecting`), established again (`connected`), or given up.

    Each attempt is reported before the wait for it. `error` is the loss, or why the last attempt
    failed.
    """

    state: Literal["reconnecting", "connected", "lost"]
    error: Exception | None = None
    attempt: int = 0
    wait_s: float = 0.0


class Reconnect(Struct, frozen=True, kw_only=True):
    """How a lost connection is established again.

    The client waits up to `wait_s` before the first attempt, twice as long before each further
    one, and at most `max_wait_s`; the actual waits are random, from the half to the whole. After
    `attempts` it gives up. `on_change` is called with each change of the connection.
    """

    attempts: int = 10
    wait_s: float = 0.5
    max_wait_s: float = 30.0
    on_change: Callable[[ConnectionChange], None] | None = None

    def wait_before(self, attempt: int) -> float:
        """Return how long to wait before an attempt, in seconds; the first one is 1."""
        longest = min(self.wait_s * 2.0 ** min(attempt - 1, 32), self.max_wait_s)
        from random import uniform  # slow to import

        return longest * uniform(0.5, 1.0)  # spreads the clients of a server


class Waits:
    """The waits of one client. They start again once a connection has lasted for a while.

    Otherwise a server that fails after each connection would be asked without a pause.
    """

    def __init__(self, settings: Reconnect, clock: Callable[[], float]) -> None:
        self._settings = settings
        self._clock = clock
        self._count = 0
        self._since = clock()

    def connected(self) -> None:
        """Note that a connection was established."""
        self._since = self._clock()

    def lost(self) -> None:
        """Note that it was lost."""
        if self._clock() - self._since >= STABLE_S:
            self._count = 0

    def next(self) -> float:
        """Return how long to wait before the next attempt, in seconds."""
        self._count += 1
        return self._settings.wait_before(self._count)


class RemoteOptions(Struct, frozen=True, kw_only=True):
    """How to reach a remote agent.

    `token` is sent as `Authorization: Bearer`. `insecure` allows to send it unencrypted to
    another machine. `ca_file` has the certificates to trust instead of the system's. `cookies`
    keeps the cookies of the server for several connections. `trust_env` uses the proxies that the
    environment names. `h2c` is for `http://` servers that are known to understand HTTP/2.
    With `ends_when_cut`, a connection ends when messages may have been lost on one of its event
    streams: for clients that reconnect.
    """

    token: str | None = None
    insecure: bool = False
    ca_file: str | os.PathLike[str] | None = None
    cookies: CookieStore | None = None
    trust_env: bool = False
    h2c: bool = False
    ends_when_cut: bool = False


UrlOpener: TypeAlias = Callable[[str, RemoteOptions], TransportFactory]

_EXTRA = {"websockets", "h11", "h2", "httpx2"}  # what the extra `remote` installs
_URL = re.compile(r"(unix(?=:)|[A-Za-z][A-Za-z0-9+.-]*(?=://))")
# By scheme: a function, or where to import it from, as "package.module:function".
_openers: dict[str, UrlOpener | str] = {
    "ws": "accord.transports.websocket:websocket",
    "wss": "accord.transports.websocket:websocket",
    "unix": "accord.transports.websocket:unix_socket",
    "http": "accord.transports.http:http",
    "https": "accord.transports.http:http",
}


def register_scheme(scheme: str, opener: UrlOpener | str) -> None:
    """Let `connect` accept URLs with this scheme.

    `opener(url, options)` returns a transport factory. A string "package.module:function" names an
    opener that is imported when it is first used.
    """
    _openers[scheme.lower()] = opener


def is_url(text: str) -> bool:
    """Return True if a text begins with a scheme and `://`, or with `unix:`."""
    return _URL.match(text) is not None


def transport_for_url(url: str, options: RemoteOptions | None = None) -> TransportFactory:
    """Return what connects to a URL; raise `ValueError` if its scheme is unknown."""
    match = _URL.match(url)
    scheme = match[1].lower() if match is not None else ""
    opener = _openers.get(scheme)
    if opener is None:
        known = ", ".join(sorted(_openers)) or "none is registered"
        raise ValueError(f"Unknown URL scheme {scheme!r}: expected one of: {known}")
    if isinstance(opener, str):
        module, _, name = opener.partition(":")
        try:
            opener = _openers[scheme] = getattr(import_module(module), name)
        except ModuleNotFoundError as exc:
            if (exc.name or "").partition(".")[0] not in _EXTRA:
                raise
            hint = f"{scheme}:// requires more packages: {install_command('remote')}"
            raise ModuleNotFoundError(hint, name=exc.name) from None
    return opener(url, options or RemoteOptions())


# Addresses of remote agents: what a URL may contain, and who may receive the token.

DEFAULT_PATH = "/acp"
REMOTE_FRAME_BYTES = 32 * 1024 * 1024  # of a message or an event (R-WS-13, R-HTTP-49)
PING_S = 20.0  # between two pings, and for the answer (R-WS-14)

_SECURE = {"wss": True, "https": True, "ws": False, "http": False}


def remote_url(url: str, options: RemoteOptions) -> str:
    """Return the exact URL to connect to; raise `ValueError` for one that must not be used.

    An empty path means `/acp`. The token is never sent unencrypted to another machine, unless
    `insecure` (R-SEC-07).
    """
    parts = urlsplit(url)
    secure = _SECURE.get(parts.scheme.lower())
    if secure is None:
        raise ValueError(f"Expected a URL with ws, wss, http or https, got {_shown(parts)}")
    if not parts.hostname:
        raise ValueError(f"The URL has no host: {_shown(parts)}")
    if parts.username is not None or parts.password is not None:  # R-WS-12
        raise ValueError(
            f"The URL of a remote agent must not contain a user or a password: {_shown(parts)}; "
            "a token is given by ACCORD_TOKEN or --token-file (in Python: token=…)"
        )
    if parts.fragment:
        raise ValueError(f"The URL of a remote agent must not have a fragment: {_shown(parts)}")
    is_sent_openly = not secure and not is_loopback(parts.hostname)
    if options.token is not None and is_sent_openly and not options.insecure:
        raise ValueError(
            f"The token would be sent unencrypted to {parts.hostname}: use "
            f"{parts.scheme}s://, or insecure=True if the network is trusted"
        )
    path = DEFAULT_PATH if parts.path in ("", "/") else parts.path
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


def login_headers(options: RemoteOptions) -> dict[str, str]:
    """Return the header with the token, if there is one."""
    return {} if options.token is None else {"Authorization": f"Bearer {options.token}"}


@lru_cache(maxsize=128)
def is_loopback(host: str) -> bool:
    """Return whether a host name or address is that of this machine."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _shown(parts: SplitResult) -> str:
    """Return a URL for an error message, without credentials and query."""
    return repr(plain_url(urlunsplit(parts)))


# Cookies of one server, for the requests to it and to no other.

_MAX_COOKIES = 50
_MAX_BYTES = 4096  # of one cookie
_SECURE_SCHEMES = ("https", "wss")
_PORTS = {True: 443, False: 80}


class CookieStore:
    """Keeps the cookies that a server sets, until they expire (R-HTTP-04).

    The store belongs to the first origin that sets one: encryption, host and port. It has nothing
    for other origins, and takes nothing from them (T20). Pass it in `RemoteOptions.cookies` to keep
    the cookies for later connections. `clock` returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._origin: tuple[bool, str, int] | None = None
        self._cookies: dict[tuple[str, str], tuple[str, float | None]] = {}  # by name and path

    def __repr__(self) -> str:
        return f"<CookieStore with {len(self._cookies)} cookies>"

    def take(self, url: str, headers: Iterable[str]) -> None:
        """Take the values of `Set-Cookie` headers in a response of this URL."""
        origin, path = _origin_of(url)
        for header in headers:
            if self._origin is None:
                self._origin = origin
            if self._origin == origin and len(header) <= _MAX_BYTES:
                self._set(header, path, secure=origin[0])

    def header(self, url: str) -> str:
        """Return the value of `Cookie` for a request to this URL; empty if there is none."""
        origin, path = _origin_of(url)
        if self._origin != origin:
            return ""
        now = self._clock()
        self._cookies = {
            key: (value, expires)
            for key, (value, expires) in self._cookies.items()
            if expires is None or expires > now
        }
        # The most specific path comes first (RFC 6265, 5.4).
        fitting = sorted(
            (item for item in self._cookies.items() if _covers(item[0][1], path)),
            key=lambda item: -len(item[0][1]),
        )
        return "; ".join(f"{name}={value}" for (name, _), (value, _) in fitting)

    def clear(self) -> None:
        """Forget all cookies, and whose they are."""
        self._cookies.clear()
        self._origin = None

    def _set(self, header: str, request_path: str, *, secure: bool) -> None:
        pair, *attributes = header.split(";")
        name, found, value = pair.partition("=")
        name, value = name.strip(), value.strip()
        if not (found and name) or not (name + value).isprintable():
            return
        given = {
            key.strip().lower(): text.strip()
            for key, _, text in (attribute.partition("=") for attribute in attributes)
        }
        if "secure" in given and not secure:
            return
        path = given.get("path", "")
        if not path.startswith("/"):
            path = request_path.rpartition("/")[0] or "/"
        expires = self._expiry(given)
        key = (name, path)
        self._cookies.pop(key, None)
        if expires is not None and expires <= self._clock():
            return
        while len(self._cookies) >= _MAX_COOKIES:
            del self._cookies[next(iter(self._cookies))]
        self._cookies[key] = (value, expires)

    def _expiry(self, given: dict[str, str]) -> float | None:
        """Return when a cookie expires; None means with the store."""
        age = given.get("max-age", "")
        if age.removeprefix("-").isdigit() and len(age) < 12:
            return self._clock() + int(age)
        if "expires" not in given:
            return None
        from email.utils import parsedate_to_datetime  # slow to import, and rarely needed

        try:
            return parsedate_to_datetime(given["expires"]).timestamp()
        except (ValueError, OverflowError):
            return None


def _origin_of(url: str) -> tuple[tuple[bool, str, int], str]:
    parts = urlsplit(url)
    secure = parts.scheme.lower() in _SECURE_SCHEMES
    host = (parts.hostname or "").lower()
    return (secure, host, parts.port or _PORTS[secure]), parts.path or "/"


def _covers(cookie_path: str, path: str) -> bool:
    """Return whether a cookie's path covers that of a request (RFC 6265, 5.1.4)."""
    if path == cookie_path:
        return True
    return path.startswith(cookie_path) and (
        cookie_path.endswith("/") or path[len(cookie_path)] == "/"
    )


# What a client says about the HTTP status of a server, and what the user can do.

_ADVICE = {
    400: "the server does not understand this client",
    401: "the server needs a valid token: set ACCORD_TOKEN or give --token-file (Python: token=…)",
    403: "the server does not allow this client",
    404: "there is no agent at this path",
    405: "this address is not that of an agent",
    406: "this address is not that of an agent",
    407: "a proxy needs a login",
    408: "the server has waited too long for the request",
    410: "the connection has ended",
    413: "the message is too large for the server",
    415: "this address is not that of an agent",
    421: "the server does not serve this host name",
    426: "the server does not accept this kind of connection",
    429: "the server limits connections: try again later",
    431: "the token or a cookie is too long for the server",
    502: "a proxy cannot reach the server",
    503: "the server accepts no more connections: try again later",
    504: "a proxy has waited too long for the server",
}


def advice_for(status: int, reason: str = "", **known: str) -> str:
    """Return what to do about a status; `known` has texts by status, as `_426="…"`."""
    text = known.get(f"_{status}") or _ADVICE.get(status) or one_line(excerpt(reason))
    return f": {text}" if text else ""


def redirect_error(asked: str, target: str | None) -> str:
    """Return the error message for a redirect, which is never followed (R-HTTP-48)."""
    shown = excerpt(one_line(plain_url(target or "nowhere")))
    return f"{plain_url(asked)} redirects to {shown}, which is not followed"


# Explains why an encrypted connection failed.

_EXPIRED, _NOT_YET_VALID, _OTHER_HOST = 10, 9, 62


def tls_reason(error: BaseException) -> str | None:
    """Return the reason for an error in TLS, or what caused it; None for any other error."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLError):
        cause = cause.__cause__ or cause.__context__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {_refusal(cause)}"
    if cause is not None and cause.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST"):
        return "it does not use TLS: check the port, or use ws:// or http://"
    return None


def _refusal(error: ssl.SSLCertVerificationError) -> str:
    match error.verify_code:
        case number if number == _EXPIRED:
            return "it has expired"
        case number if number == _NOT_YET_VALID:
            return "it is not valid yet: check the clock of both machines"
        case number if number == _OTHER_HOST:
            return "it is for another host name"
        case _:
            advice = "pass the certificate of its CA by ca_file=…, --ca-file or SSL_CERT_FILE"
            return f"{error.verify_message}; {advice}"
