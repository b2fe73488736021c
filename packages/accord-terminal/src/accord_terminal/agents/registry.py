"""A registry: its index and its quarantine, and the last good copies of both."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar
from urllib.parse import urljoin

import msgspec
from msgspec import Struct

from accord_terminal.agents.atomic import write_atomically
from accord_terminal.agents.errors import RegistryError
from accord_terminal.agents.fetch import FetchError, NotModified, fetch, url_of
from accord_terminal.agents.index import Entry, Index, read_index, read_quarantine
from accord_terminal.toolkit.installed_agents import data_dir

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
    index = _load(url, read_index, warnings)
    if index is None:
        raise RegistryError(f"Cannot load the registry {url}: {warnings[-1]}")
    quarantine = _load(urljoin(url, "quarantine.json"), read_quarantine, warnings, optional=True)
    warnings += _warnings(index)
    return Catalogue(url, dict(index.agents), quarantine or {}, tuple(warnings))


def _warnings(index: Index) -> list[str]:
    return [f"skipped {why}" for why in index.skipped]


def _load(
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
