"""Loads files by HTTPS, with limits of size and time; HTTP only from this machine."""

from __future__ import annotations

import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from msgspec import Struct

from accord.transports.registry import is_loopback
from accord.version import __version__

_CHUNK = 1 << 16
_STALL_S = 30.0  # without a byte


class FetchError(Exception):
    """A file was not loaded; the message says why, without the address."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status  # of HTTP


class NotModified(Exception):
    """The server has the version that is known."""


class Fetched(Struct, frozen=True):
    """The contents of a file, and the server's mark of this version."""

    data: bytes
    etag: str | None


def url_of(text: str) -> str:
    """Return a URL; the path of a file becomes a `file:` URL."""
    if "://" in text or text.startswith("file:"):
        return text
    return Path(text).expanduser().absolute().as_uri()


def fetch(url: str, *, max_bytes: int, timeout_s: float, etag: str | None = None) -> Fetched:
    """Return a small file. Raises `FetchError`, or `NotModified` if it still has this etag."""
    parts: list[bytes] = []
    found = _load(url, parts.append, max_bytes, timeout_s, etag)
    return Fetched(b"".join(parts), found)


def download(
    url: str,
    write: Callable[[bytes], object],
    *,
    max_bytes: int,
    timeout_s: float,
    on_size: Callable[[int], None] = lambda _: None,
) -> None:
    """Pass the contents of a file to `write`, and its size to `on_size` if the server says it.

    Raises `FetchError`, and what the functions raise.
    """
    _load(url, write, max_bytes, timeout_s, None, on_size)


def _load(
    url: str,
    write: Callable[[bytes], object],
    max_bytes: int,
    timeout_s: float,
    etag: str | None,
    on_size: Callable[[int], None] = lambda _: None,
) -> str | None:
    deadline = time.monotonic() + timeout_s
    _check(url)
    if urlsplit(url).scheme == "file":
        _read_file(url, write, max_bytes)
        return None
    headers = {"User-Agent": f"accord/{__version__}", "Accept": "*/*"}
    if etag is not None:
        headers["If-None-Match"] = etag
    request = urllib.request.Request(url, headers=headers)
    try:
        with _OPENER.open(request, timeout=min(timeout_s, _STALL_S)) as response:
            expected = response.headers.get("Content-Length")
            if expected is not None and expected.isdecimal():
                on_size(int(expected))
            size = 0
            while chunk := response.read1(_CHUNK):
                size += len(chunk)
                if size > max_bytes:
                    raise FetchError(f"it has more than {_size(max_bytes)}")
                if time.monotonic() > deadline:
                    raise FetchError(f"it took more than {timeout_s:g} s")
                write(chunk)
            if expected is not None and expected.isdecimal() and size != int(expected):
                raise FetchError(f"the connection ended after {size} of {expected} bytes")
            return response.headers.get("ETag")
    except urllib.error.HTTPError as error:
        if error.code == 304:
            raise NotModified from None
        raise FetchError(f"the server answered {error.code} {error.reason}", error.code) from None
    except urllib.error.URLError as error:
        raise FetchError(_reason(error.reason)) from None
    except (TimeoutError, ConnectionError, http.client.HTTPException) as error:
        raise FetchError(_reason(error)) from None


def _read_file(url: str, write: Callable[[bytes], object], max_bytes: int) -> None:
    path = Path(url2pathname(urlsplit(url).path))
    try:
        with path.open("rb") as file:
            size = 0
            while chunk := file.read(_CHUNK):
                size += len(chunk)
                if size > max_bytes:
                    raise FetchError(f"it has more than {_size(max_bytes)}")
                write(chunk)
    except OSError as error:
        raise FetchError(error.strerror or str(error)) from None


def _check(url: str) -> None:
    """Raise `FetchError` unless the URL is encrypted, or of this machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        raise FetchError("it is not a URL") from None
    if parts.scheme == "file" or (parts.scheme == "https" and host):
        return
    if parts.scheme == "http" and is_loopback(host):
        return
    raise FetchError(f"expected https://, got {parts.scheme or 'no scheme'}")


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects to encrypted addresses only."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: Any,
        newurl: str,
    ) -> urllib.request.Request | None:
        _check(newurl)
        if req.full_url.startswith("https:") and not newurl.startswith("https:"):
            raise FetchError("it was redirected to an address without encryption")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _reason(error: object) -> str:
    if isinstance(error, TimeoutError):
        return "the server did not answer in time"
    if isinstance(error, http.client.IncompleteRead):
        return f"the connection ended after {len(error.partial)} bytes"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__


def _size(number: int) -> str:
    return f"{number / (1 << 20):g} MiB"


_OPENER = urllib.request.build_opener(_Redirects)
