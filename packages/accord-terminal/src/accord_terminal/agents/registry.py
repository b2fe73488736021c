"""A registry of agents: its index, its quarantine, and the last good copies of both.

The index is read leniently: what is not understood is skipped and named, and an entry may set only
harmless variables for its agent. Files are loaded by HTTPS, with limits of size and time.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import re
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias, TypeVar
from urllib.parse import urljoin, urlsplit
from urllib.request import url2pathname

import msgspec
from msgspec import Struct

from accord.errors import AccordError
from accord.text import lenient_json
from accord.transports.registry import is_loopback
from accord.version import __version__
from accord_terminal.toolkit.agent_names import data_dir
from accord_terminal.toolkit.text import one_line

# The index of a registry, read leniently: what is not understood is skipped and named.

# Why an agent was not found or not installed.


class RegistryError(AccordError):
    """The index of a registry cannot be loaded or read, or has no such agent."""


class InstallError(AccordError):
    """An agent was not installed; what was installed before is as it was."""


# Which variables an entry of a registry may set for its agent.

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# They change which programs and libraries are loaded, where files are, and who is trusted.
_PREFIXES = (
    "ACCORD_",
    "AWS_",
    "AZURE_",
    "BUN_",
    "CARGO_",
    "CONDA_",
    "CURL_",
    "DENO_",
    "DOCKER_",
    "DYLD_",
    "GCONV_",
    "GIT_",
    "GITHUB_",
    "GLIBC_",
    "GPG_",
    "JAVA_",
    "JDK_",
    "KUBE",
    "LD_",
    "LUA_",
    "MALLOC_",
    "NODE_",
    "NPM_",
    "OPENSSL_",
    "PERL",
    "PIP_",
    "PNPM_",
    "PYTHON",
    "RUBY",
    "RUST",
    "SSH_",
    "SSL_",
    "SUDO_",
    "UV_",
    "XDG_",
    "YARN_",
)
_NAMES = frozenset(
    (
        "ALL_PROXY",
        "APPDATA",
        "BASH_ENV",
        "BROWSER",
        "CDPATH",
        "CLASSPATH",
        "COMSPEC",
        "DISPLAY",
        "EDITOR",
        "ENV",
        "GEM_HOME",
        "GEM_PATH",
        "GOFLAGS",
        "GOPATH",
        "HOME",
        "HTTPS_PROXY",
        "HTTP_PROXY",
        "IFS",
        "LOCALAPPDATA",
        "LOGNAME",
        "NO_PROXY",
        "PAGER",
        "PATH",
        "PATHEXT",
        "PROGRAMDATA",
        "PROGRAMFILES",
        "PWD",
        "REQUESTS_CA_BUNDLE",
        "SHELL",
        "SHELLOPTS",
        "SYSTEMROOT",
        "TEMP",
        "TMP",
        "TMPDIR",
        "USER",
        "USERNAME",
        "USERPROFILE",
        "VIRTUAL_ENV",
        "VISUAL",
        "WINDIR",
        "ZDOTDIR",
        "_JAVA_OPTIONS",
    )
)


def is_allowed(name: str) -> bool:
    """Return whether an entry may set this variable (R-REG-12)."""
    upper = name.upper()  # Windows does not distinguish, and proxies have small names too
    return bool(_NAME.fullmatch(name)) and upper not in _NAMES and not upper.startswith(_PREFIXES)


def allowed_environment(env: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return the variables that may be set, and the names of the others."""
    kept = {name: value for name, value in env.items() if is_allowed(name) and "\0" not in value}
    return kept, sorted(env.keys() - kept.keys())


Kind: TypeAlias = Literal["binary", "uvx", "npx"]
_ID = re.compile(r"[a-z][a-z0-9-]{0,99}")
_VERSION = re.compile(r"\d+\.\d+\.\d+[0-9A-Za-z.+-]{0,50}")
_NPM = re.compile(r"(?:@[\w.-]+/)?[A-Za-z0-9_][\w.-]*(?:@[\w.+-]+)?", re.ASCII)
_PYPI = re.compile(r"[A-Za-z0-9][\w.-]*(?:\[[\w.,-]+\])?(?:(?:==|@)[\w.+!-]+)?", re.ASCII)
_PROGRAM = re.compile(r"[\w][\w.-]*", re.ASCII)
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")
_MAX_AGENTS = 10_000


class Binary(Struct, frozen=True):
    """An archive for one target; `cmd` is a path in it."""

    archive: str
    cmd: str
    args: tuple[str, ...]
    env: Mapping[str, str]
    sha256: str | None


class Package(Struct, frozen=True):
    """A package of npm or PyPI; `cmd` is its program, if it is not named like the package."""

    package: str
    args: tuple[str, ...]
    env: Mapping[str, str]
    cmd: str | None


class Entry(Struct, frozen=True, kw_only=True):
    """An agent of the registry. Texts are safe to show."""

    id: str
    name: str
    version: str
    description: str
    website: str = ""
    license: str = ""
    authors: tuple[str, ...] = ()
    binary: Mapping[str, Binary] = {}  # by target
    uvx: Package | None = None
    npx: Package | None = None
    warnings: tuple[str, ...] = ()  # what was skipped


class Index(Struct, frozen=True):
    """The agents by id, and what was skipped."""

    agents: Mapping[str, Entry]
    skipped: tuple[str, ...]


class _Skip(Exception):
    """A part that is not understood."""


def read_index(data: bytes) -> Index:
    """Return the agents of an index. Raises `RegistryError` if nothing in it can be read."""
    try:
        root = lenient_json.loads(data)
    except ValueError as error:
        raise RegistryError(f"it is not JSON: {one_line(str(error))}") from None
    given = root.get("agents") if lenient_json.is_object(root) else None
    if not lenient_json.is_array(given):
        raise RegistryError("it has no list `agents`")
    agents: dict[str, Entry] = {}
    skipped: list[str] = []
    for number, item in enumerate(given[:_MAX_AGENTS]):
        try:
            entry = _entry(item)
            if entry.id in agents:
                raise _Skip("the id occurs twice")
            agents[entry.id] = entry
        except _Skip as why:
            name = item.get("id") if lenient_json.is_object(item) else None
            shown = one_line(name, 40) if isinstance(name, str) else f"entry {number + 1}"
            skipped.append(f"{shown}: {why}")
    if given and not agents:
        raise RegistryError(f"none of its agents can be read: {skipped[0]}")
    return Index(agents, tuple(skipped))


def read_quarantine(data: bytes) -> dict[str, str]:
    """Return the reasons by id. Raises `RegistryError` if the data is not an object."""
    try:
        given = lenient_json.loads(data)
    except ValueError as error:
        raise RegistryError(f"it is not JSON: {one_line(str(error))}") from None
    if not lenient_json.is_object(given):
        raise RegistryError("it is not an object")
    return {
        key: one_line(reason) if isinstance(reason, str) else "no reason is given"
        for key, reason in given.items()
    }


def _entry(item: Any) -> Entry:
    if not lenient_json.is_object(item):
        raise _Skip("it is not an object")
    name = _text(item, "id", _ID)
    version = _text(item, "version", _VERSION)
    kinds = item.get("distribution")
    if not lenient_json.is_object(kinds):
        raise _Skip("it has no `distribution`")
    warnings: list[str] = []
    binary = dict(_binaries(kinds.get("binary"), warnings))
    packages: dict[str, Package | None] = {}
    for kind, pattern in (("uvx", _PYPI), ("npx", _NPM)):
        packages[kind] = None
        if kind in kinds:
            try:
                packages[kind] = _package(kinds[kind], pattern, warnings)
            except _Skip as why:
                warnings.append(f"{kind}: {why}")
    warnings += [
        f"unknown kind {one_line(kind, 40)!r}"
        for kind in sorted(kinds.keys() - {"binary", "uvx", "npx"})
    ]
    if not binary and not any(packages.values()):
        raise _Skip("; ".join(["nothing in it can be installed", *warnings]))
    authors = item.get("authors")
    return Entry(
        id=name,
        name=_shown(item, "name") or name,
        version=version,
        description=_shown(item, "description"),
        website=_shown(item, "website") or _shown(item, "repository"),
        license=_shown(item, "license"),
        authors=tuple(one_line(text) for text in authors if isinstance(text, str))
        if lenient_json.is_array(authors)
        else (),
        binary=binary,
        uvx=packages["uvx"],
        npx=packages["npx"],
        warnings=tuple(dict.fromkeys(warnings)),
    )


def _binaries(given: Any, warnings: list[str]) -> Iterator[tuple[str, Binary]]:
    if not lenient_json.is_object(given):
        return
    for target, item in given.items():
        try:
            if not lenient_json.is_object(item):
                raise _Skip("it is not an object")
            sha256 = item.get("sha256")
            if sha256 is not None and not (isinstance(sha256, str) and _SHA256.fullmatch(sha256)):
                raise _Skip("`sha256` is not a checksum")
            archive, cmd = _text(item, "archive"), _text(item, "cmd")
            args, env = _args(item), _env(item, warnings)
            yield target, Binary(archive, cmd, args, env, sha256 and sha256.lower())
        except _Skip as why:
            warnings.append(f"{one_line(target, 40)}: {why}")


def _package(item: Any, pattern: re.Pattern[str], warnings: list[str]) -> Package:
    if not lenient_json.is_object(item):
        raise _Skip("it is not an object")
    cmd = _text(item, "cmd", _PROGRAM) if item.get("cmd") is not None else None
    package = _text(item, "package", pattern)
    return Package(package, _args(item), _env(item, warnings), cmd)


def _args(item: Mapping[str, Any]) -> tuple[str, ...]:
    try:
        args = msgspec.convert(item.get("args") or [], list[str])
    except msgspec.ValidationError:
        raise _Skip("`args` is not a list of strings") from None
    if any("\0" in word for word in args):
        raise _Skip("`args` has a NUL")
    return tuple(args)


def _env(item: Mapping[str, Any], warnings: list[str]) -> dict[str, str]:
    try:
        given = msgspec.convert(item.get("env") or {}, dict[str, str])
    except msgspec.ValidationError:
        raise _Skip("`env` is not a map of strings") from None
    kept, dropped = allowed_environment(given)
    warnings += [f"{one_line(name, 40)} must not be set by a registry" for name in dropped]
    return kept


def _text(item: Mapping[str, Any], key: str, pattern: re.Pattern[str] | None = None) -> str:
    value = item.get(key)
    if not isinstance(value, str) or not value or "\0" in value:
        raise _Skip(f"`{key}` is missing")
    if pattern is not None and not pattern.fullmatch(value):
        raise _Skip(f"`{key}` is not valid: {one_line(value, 60)}")
    return value


def _shown(item: Mapping[str, Any], key: str) -> str:
    value = item.get(key)
    return one_line(value) if isinstance(value, str) else ""


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
    found = _receive(url, parts.append, max_bytes, timeout_s, etag)
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
    _receive(url, write, max_bytes, timeout_s, None, on_size)


def _receive(
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
    index = _read_good(url, read_index, warnings)
    if index is None:
        raise RegistryError(f"Cannot load the registry {url}: {warnings[-1]}")
    quarantine = _read_good(
        urljoin(url, "quarantine.json"), read_quarantine, warnings, optional=True
    )
    warnings += _warnings(index)
    return Catalogue(url, dict(index.agents), quarantine or {}, tuple(warnings))


def _warnings(index: Index) -> list[str]:
    return [f"skipped {why}" for why in index.skipped]


def _read_good(
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
