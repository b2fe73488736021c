"""A registry: its index and its quarantine, and the last good copies of both."""

from __future__ import annotations

import hashlib
import http.client
import os
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, TypeVar
from urllib.parse import urljoin, urlsplit
from urllib.request import url2pathname

import msgspec
from msgspec import Struct

from accord.transports.remote_address import is_loopback
from accord.version import __version__
from accord_terminal.agents.index import Entry, Index, RegistryError, read_index, read_quarantine
from accord_terminal.toolkit.agent_names import data_dir

# Writes a file so that it has the old or the new contents, never a part.


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file that only the user can read, and make its folder. Raises `OSError`."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # mode 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise


# Loads files by HTTPS, with limits of size and time; HTTP only from this machine.

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


DEFAULT_REGISTRY = "https://cdn.agentclientprotocol.com/registry/v1/latest/registry.json"
REGISTRY_VARIABLE = "ACCORD_REGISTRY"  # another one
TIME_LIMIT_S = 10.0
_MAX_BYTES = 32 << 20

T = TypeVar("T")


class Catalogue(Struct, frozen=True):
    """The agents of a registry. `warnings` says what was skipped, and if a copy is used."""

    url: str
    agents: dict[str, Entry]
    quarantine: dict[str, str]  # reasons by id
    warnings: tuple[str, ...]

    def find(self, name: str) -> Entry:
        """Return an agent; raise `RegistryError` if there is none of this name."""
        entry = self.agents.get(name)
        if entry is None:
            near = [known for known in self.agents if name in known or known in name]
            hint = f"; similar: {', '.join(sorted(near)[:5])}" if near else ""
            raise RegistryError(
                f"The registry has no agent {name!r}{hint}. `accord agents search` lists all"
            )
        return entry


class _Copy(Struct, frozen=True):
    """A file as it was loaded last, and its etag."""

    url: str
    data: str
    etag: str | None = None


def load_catalogue(registry: str) -> Catalogue:
    """Load the index of a registry, or use the last good copy (R-REG-14).

    Raises `RegistryError` if there is neither.
    """
    url = url_of(registry)
    warnings: list[str] = []
    index = _registry_load(url, read_index, warnings)
    if index is None:
        raise RegistryError(f"Cannot load the registry {url}: {warnings[-1]}")
    quarantine = _registry_load(
        urljoin(url, "quarantine.json"), read_quarantine, warnings, optional=True
    )
    warnings += _warnings(index)
    return Catalogue(url, dict(index.agents), quarantine or {}, tuple(warnings))


def _warnings(index: Index) -> list[str]:
    return [f"skipped {why}" for why in index.skipped]


def _registry_load(
    url: str, read: Callable[[bytes], T], warnings: list[str], *, optional: bool = False
) -> T | None:
    """Return what `read` makes of a file; None if there is no good one."""
    path = _copy_path(url)
    copy = _read_copy(path, url, read)
    try:
        fetched = fetch(
            url,
            max_bytes=_MAX_BYTES,
            timeout_s=TIME_LIMIT_S,
            etag=None if copy is None else copy.etag,
        )
        found = read(fetched.data)
    except NotModified:
        assert copy is not None
        return read(copy.data.encode())
    except (FetchError, RegistryError) as error:
        is_missing = isinstance(error, FetchError) and error.status in (403, 404)
        if optional and (is_missing or (url.startswith("file:") and copy is None)):
            return None
        if copy is None:
            warnings.append(f"{Path(url).name} was not loaded: {error}" if optional else f"{error}")
            return None
        warnings.append(f"using the last good copy of {Path(url).name}: {error}")
        return read(copy.data.encode())
    if copy is None or copy.data.encode() != fetched.data or copy.etag != fetched.etag:
        try:
            text = fetched.data.decode()
            write_atomically(path, msgspec.json.encode(_Copy(url, text, fetched.etag)))
        except (OSError, ValueError) as error:
            warnings.append(f"{Path(url).name} was not stored: {error}")
    return found


def _copy_path(url: str) -> Path:
    mark = hashlib.sha256(url.encode()).hexdigest()[:16]
    return data_dir() / "registries" / f"{mark}.json"


def _read_copy(path: Path, url: str, read: Callable[[bytes], object]) -> _Copy | None:
    """Return the last copy; None if it is damaged: the file is then loaded again."""
    try:
        copy = msgspec.json.decode(path.read_bytes(), type=_Copy)
        read(copy.data.encode())
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RegistryError):
        return None
    return copy if copy.url == url else None
