"""Cookies of one server, for the requests to it and to no other."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from urllib.parse import urlsplit

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
