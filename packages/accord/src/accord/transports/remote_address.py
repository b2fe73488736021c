"""Addresses of remote agents: what a URL may contain, and who may receive the token."""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from urllib.parse import SplitResult, urlsplit, urlunsplit

from accord.text.secrets import plain_url
from accord.transports.registry import RemoteOptions

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
