"""Installs, updates and removes agents: each version in a folder of its own."""

from __future__ import annotations

import hashlib
import os
import platform
import secrets
import shutil
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

import msgspec
from filelock import FileLock, Timeout
from msgspec.structs import replace

from accord_terminal.agents.archives import extract
from accord_terminal.agents.atomic import write_atomically
from accord_terminal.agents.errors import InstallError
from accord_terminal.agents.fetch import FetchError, download
from accord_terminal.agents.index import Binary, Entry, Kind
from accord_terminal.agents.packages import install_npm, install_uv
from accord_terminal.agents.progress import OnProgress, Progress, no_progress
from accord_terminal.agents.registry import Catalogue
from accord_terminal.toolkit.installed_agents import (
    InstalledAgent,
    data_dir,
    installed_file,
    load_installed,
)

MAX_ARCHIVE_BYTES = 1 << 30
_DOWNLOAD_S = 1800.0
_LOCK_S = 10.0
_LEFTOVER_S = 24 * 3600.0
_RESERVED = frozenset(("accord", "script"))  # bundled agents
_MACHINES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}
_SYSTEMS = {"linux": "linux", "darwin": "darwin", "win32": "windows"}
_TOOLS: dict[Kind, tuple[str, ...]] = {"uvx": ("uv",), "npx": ("node", "npm")}


def own_target() -> str:
    """Return the name that registries have for this platform."""
    machine = platform.machine().lower()
    return f"{_SYSTEMS.get(sys.platform, sys.platform)}-{_MACHINES.get(machine, machine)}"


def installable_kinds(entry: Entry) -> dict[Kind, str | None]:
    """Return the kinds of an agent in the order of preference (R-REG-16), with what is missing."""
    kinds: dict[Kind, str | None] = {}
    if entry.binary:
        target = own_target()
        kinds["binary"] = None if target in entry.binary else f"it has none for {target}"
    packages: tuple[tuple[Kind, object], ...] = (("uvx", entry.uvx), ("npx", entry.npx))
    for kind, package in packages:
        if package is not None:
            missing = [tool for tool in _TOOLS[kind] if shutil.which(tool) is None]
            kinds[kind] = f"{' and '.join(missing)} not in PATH" if missing else None
    return kinds


def choose_kind(entry: Entry, wanted: Kind | None = None) -> Kind:
    """Return the kind to install; raise `InstallError` if there is none for this machine."""
    kinds = installable_kinds(entry)
    if wanted is not None and wanted not in kinds:
        raise InstallError(f"{entry.id} has no {wanted}; it has {', '.join(kinds)}")
    for kind, missing in kinds.items():
        if missing is None and wanted in (None, kind):
            return kind
    reasons = "; ".join(f"{kind}: {why}" for kind, why in kinds.items() if wanted in (None, kind))
    raise InstallError(f"{entry.id} cannot be installed here: {reasons}")


def install(
    catalogue: Catalogue,
    entry: Entry,
    kind: Kind,
    *,
    force: bool = False,
    on_progress: OnProgress = no_progress,
) -> InstalledAgent:
    """Install an agent, and then make it the one that its name starts.

    `on_progress` is called often, and may raise to cancel the installation. Raises that, or
    `InstallError`; then everything is as it was.
    """
    if entry.id in _RESERVED:
        raise InstallError(f"{entry.id} is the name of a bundled agent")
    reason = catalogue.quarantine.get(entry.id)
    if reason is not None and not force:
        raise InstallError(
            f"{entry.id} is in quarantine: {reason}. `--force` installs it nevertheless"
        )
    name = f"{entry.id}/{entry.version}-{kind}-{secrets.token_hex(3)}"
    folder = _agents_dir() / name
    try:
        argv, env = _install_files(catalogue.url, entry, kind, folder, on_progress)
        with _records() as records:
            old = records.get(entry.id)
            new = InstalledAgent(
                version=entry.version,
                kind=kind,
                argv=argv,
                env=env,
                folder=name,
                previous=None if old is None else old.folder,
                registry=catalogue.url,
                quarantine=reason,
                forced=reason is not None,
            )
            records[entry.id] = new
    except OSError as error:
        _delete(folder)
        raise InstallError(f"{entry.id} was not installed: {error.strerror or error}") from None
    except BaseException:
        _delete(folder)
        raise
    if old is not None and old.previous is not None:
        _delete(_agents_dir() / old.previous)
    _delete_leftovers(entry.id, new)
    return new


def remove(name: str) -> None:
    """Remove an agent and its files; raise `InstallError` if it is not installed."""
    try:
        with _records() as records:
            if records.pop(name, None) is None:
                raise InstallError(
                    f"{name} is not installed: `accord agents` lists the installed agents"
                )
        _delete(_agents_dir() / name)
    except OSError as error:
        raise InstallError(f"{name} was not removed: {error.strerror or error}") from None


def note_quarantine(registry: str, reasons: Mapping[str, str]) -> None:
    """Note which installed agents of a registry are in quarantine, so that they are not started.

    Raises `InstallError` if the list cannot be changed.
    """

    def noted(records: dict[str, InstalledAgent]) -> dict[str, InstalledAgent]:
        return {
            name: replace(agent, quarantine=reasons.get(name), forced=False)
            for name, agent in records.items()
            if agent.registry == registry and agent.quarantine != reasons.get(name)
        }

    if not noted(load_installed()):
        return  # the folder may be one that cannot be written
    try:
        with _records() as records:
            records.update(noted(records))
    except OSError as error:
        raise InstallError(f"Cannot change {installed_file()}: {error.strerror}") from None


def _install_files(
    registry: str, entry: Entry, kind: Kind, folder: Path, on_progress: OnProgress
) -> tuple[list[str], dict[str, str]]:
    """Fill a new folder; return the command and its environment."""
    if kind == "binary":
        binary = entry.binary[own_target()]
        argv = _install_binary(registry, binary, folder, on_progress)
        return [*argv, *binary.args], dict(binary.env)
    package = entry.uvx if kind == "uvx" else entry.npx
    assert package is not None
    folder.mkdir(mode=0o700, parents=True)
    install_package = install_uv if kind == "uvx" else install_npm
    argv = install_package(package, folder, on_progress)
    return [*argv, *package.args], dict(package.env)


def _install_binary(
    registry: str, binary: Binary, folder: Path, on_progress: OnProgress
) -> list[str]:
    """Load and extract an archive into a folder that gets its name when it is complete."""
    address = urlsplit(binary.archive)
    if address.scheme != "https" and (
        registry.startswith("https:") or address.scheme not in ("http", "file")
    ):
        raise InstallError(f"The archive needs https://, not {address.scheme or 'no scheme'}")
    name = PurePosixPath(address.path).name or "archive"
    fresh = folder.with_name(f".{folder.name}")
    fresh.mkdir(mode=0o700, parents=True)
    try:
        archive = fresh / ".download"
        digest = hashlib.sha256()
        with archive.open("wb") as file:
            total: list[int] = []

            def write(chunk: bytes) -> None:
                digest.update(chunk)
                file.write(chunk)
                on_progress(Progress("downloading", file.tell(), total[0] if total else None))

            try:
                download(
                    binary.archive,
                    write,
                    max_bytes=MAX_ARCHIVE_BYTES,
                    timeout_s=_DOWNLOAD_S,
                    on_size=total.append,
                )
            except FetchError as error:
                raise InstallError(f"{binary.archive} was not loaded: {error}") from None
        if binary.sha256 is not None and digest.hexdigest() != binary.sha256:
            raise InstallError(
                f"{name} has the wrong checksum: expected {binary.sha256}, got {digest.hexdigest()}"
            )
        on_progress(Progress("extracting"))
        contents = fresh / "files"
        contents.mkdir()
        extract(archive, name, contents, binary.cmd)
        archive.unlink(missing_ok=True)
        program = _program(contents, binary.cmd)
        folder.parent.mkdir(parents=True, exist_ok=True)
        fresh.rename(folder)
    except BaseException:
        _delete(fresh)
        raise
    return [str(folder / program.relative_to(fresh))]


def _program(folder: Path, cmd: str) -> Path:
    """Return the program, executable, inside of the folder."""
    path = folder / cmd.replace("\\", "/")
    if not path.is_file() or not path.resolve().is_relative_to(folder.resolve()):
        raise InstallError(f"The archive has no program {cmd}")
    path.chmod(path.stat().st_mode | 0o755)
    return Path(os.path.normpath(path))


def _agents_dir() -> Path:
    return data_dir() / "agents"


@contextmanager
def _records() -> Generator[dict[str, InstalledAgent]]:
    """Change the list of installed agents, alone; it is written at the end."""
    path = installed_file()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with FileLock(path.with_suffix(".lock"), timeout=_LOCK_S):
            records = load_installed()
            before = dict(records)
            yield records
            if records != before:
                text = msgspec.json.format(msgspec.json.encode(records), indent=2)
                write_atomically(path, text)
    except Timeout:
        raise InstallError(f"Another program is changing {path}") from None


def _delete(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def _delete_leftovers(name: str, kept: InstalledAgent) -> None:
    """Delete what installations that were killed have left; those that run are younger."""
    keep = {kept.folder, kept.previous}
    for folder in (_agents_dir() / name).glob("*"):
        try:
            is_old = time.time() - folder.stat().st_mtime > _LEFTOVER_S
        except OSError:
            continue
        if is_old and f"{name}/{folder.name}" not in keep:
            _delete(folder)
