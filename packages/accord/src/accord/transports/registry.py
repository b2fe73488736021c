"""Finds the transport for a URL."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from accord.installed import install_command
from accord.transports.base import TransportFactory

if TYPE_CHECKING:
    from accord.transports.cookies import CookieStore


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
    "unix": "accord.transports.unix_socket:unix_socket",
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
