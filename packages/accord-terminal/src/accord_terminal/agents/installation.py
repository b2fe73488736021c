"""Installs, updates and removes agents: each version in a folder of its own.

An agent is an archive with a program, which is extracted safely, or a package of npm or PyPI, which
npm or uv installs. `install_steps` says beforehand what would be done.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import secrets
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import TypeAlias
from urllib.parse import urlsplit

import msgspec
from filelock import FileLock, Timeout
from msgspec import Struct
from msgspec.structs import replace

from accord.text import lenient_json
from accord_terminal.agents.registry import (
    Binary,
    Catalogue,
    Entry,
    FetchError,
    InstallError,
    Kind,
    Package,
    download,
    write_atomically,
)
from accord_terminal.toolkit.agent_names import (
    InstalledAgent,
    data_dir,
    installed_file,
    load_installed,
)
from accord_terminal.toolkit.text import last_lines, one_line

# Extracts archives of programs into a folder: nothing leads out of it, and size is limited.

MAX_BYTES = 4 << 30  # of all files together
MAX_FILES = 200_000
_CHUNK = 1 << 20
_TAR = (".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar")


def extract(archive: Path, name: str, folder: Path, cmd: str) -> None:
    """Extract an archive into an empty folder; `name` tells its format.

    A file of another format is the program itself, and becomes `cmd`. Raises `InstallError` if
    something in the archive leads out of the folder, or if it is damaged or too large.
    """
    lower = name.lower()
    try:
        if lower.endswith(_TAR):
            _extract_tar(archive, folder)
        elif lower.endswith(".zip"):
            _extract_zip(archive, folder)
        else:
            target = folder.joinpath(*_inside(cmd))
            target.parent.mkdir(parents=True, exist_ok=True)
            archive.replace(target)
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise InstallError(f"The archive {name} is damaged: {error}") from None
    except (NotImplementedError, RuntimeError, ValueError) as error:
        raise InstallError(f"The archive {name} cannot be extracted: {error}") from None


class _Limits:
    """What may still be extracted, and where."""

    def __init__(self) -> None:
        self._bytes = MAX_BYTES
        self._files = MAX_FILES
        self._links: set[tuple[str, ...]] = set()

    def take(self, size: int) -> None:
        self._bytes -= size
        if self._bytes < 0:
            raise InstallError(f"The archive has more than {MAX_BYTES >> 20} MiB")

    def path(self, name: str) -> tuple[str, ...]:
        """Return the parts of a member's path, which no link changes."""
        self._files -= 1
        if self._files < 0:
            raise InstallError(f"The archive has more than {MAX_FILES} files")
        parts = _inside(name)
        for length in range(1, len(parts) + 1):
            if parts[:length] in self._links:
                raise InstallError(
                    f"The archive has a file in a linked folder: {one_line(name, 80)}"
                )
        return parts

    def link(self, parts: tuple[str, ...], target: str) -> None:
        """Note a symbolic link; its target must be inside."""
        if not parts:
            raise InstallError("The archive has a link without a name")
        path = PurePosixPath(target)
        depth = len(parts) - 1
        for part in path.parts:
            depth += -1 if part == ".." else part != "."
            if depth < 0:
                break
        if path.is_absolute() or depth < 0 or "\\" in target:
            raise InstallError(f"The archive has a link that leads out: {one_line(target, 80)}")
        self._links.add(parts)


def _extract_tar(archive: Path, folder: Path) -> None:
    if not hasattr(tarfile, "data_filter"):
        raise InstallError("This Python cannot extract archives safely: update it")
    limits = _Limits()
    with tarfile.open(archive, "r|*") as tar:
        for member in tar:
            parts = limits.path(member.name)
            limits.take(member.size)
            if member.issym():
                limits.link(parts, member.linkname)
            elif member.islnk():
                limits.path(member.linkname)
            elif not (member.isfile() or member.isdir()):
                raise InstallError(f"The archive has a device: {one_line(member.name, 80)}")
            tar.extract(member, folder, filter="data")


def _extract_zip(archive: Path, folder: Path) -> None:
    limits = _Limits()
    with zipfile.ZipFile(archive) as opened:
        for info in opened.infolist():
            parts = limits.path(info.filename)
            mode = info.external_attr >> 16
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise InstallError(f"The archive has a link: {one_line(info.filename, 80)}")
            path = folder.joinpath(*parts)
            if info.is_dir():
                path.mkdir(parents=True, exist_ok=True)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            with opened.open(info) as source, path.open("xb") as file:
                while chunk := source.read(_CHUNK):
                    limits.take(len(chunk))
                    file.write(chunk)
            if mode & 0o111:
                path.chmod(0o755)


def _inside(name: str) -> tuple[str, ...]:
    """Return the parts of a path; raise `InstallError` if it leads out of the folder."""
    path = PurePosixPath(name)
    is_foreign = "\\" in name or "\0" in name or (os.name == "nt" and ":" in name)
    if path.is_absolute() or ".." in path.parts or is_foreign:
        raise InstallError(f"The archive has a path that leads out: {one_line(name, 80)}")
    return path.parts


# How far an installation is.


class Progress(Struct, frozen=True):
    """What is being done; the sizes of a download are in bytes."""

    step: str  # downloading, extracting, `npm install`, …
    done: int | None = None
    total: int | None = None  # None if the server did not say it

    def __str__(self) -> str:
        if self.done is None:
            return self.step
        if not self.total:
            return f"{self.step} {_megabytes(self.done)} MB"
        percent = min(self.done * 100 // self.total, 100)
        return f"{self.step} {_megabytes(self.done)} of {_megabytes(self.total)} MB ({percent} %)"


OnProgress: TypeAlias = Callable[[Progress], None]


def no_progress(progress: Progress) -> None:
    """Take no note."""


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f}"


# Installs packages of npm and PyPI into a folder of their own, with npm and uv.

TIME_LIMIT_S = 900.0
PROGRESS_S = 0.1  # between the reports of progress
_NPM_NAME = re.compile(r"(@[^/@]+/)?[^@]+")
_PYPI_NAME = re.compile(r"[A-Za-z0-9._-]+")


def install_npm(package: Package, folder: Path, on_progress: OnProgress) -> list[str]:
    """Install a package of npm; return the command without arguments. Raises `InstallError`."""
    npm, node = _tool("npm"), _tool("node")
    (folder / "package.json").write_text('{"private": true}\n', "utf-8")
    words = ["install", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]
    words += ["--prefix", str(folder), "--", package.package]
    _run([npm, *words], folder, {}, Progress(f"npm install {package.package}"), on_progress)
    found = _NPM_NAME.match(package.package)
    assert found is not None
    name = found[0]
    program = _npm_program(folder / "node_modules" / name, package.cmd or name.rpartition("/")[2])
    with program.open("rb") as file:
        first = file.readline(256)
    # Editors have no `PATH`, so that `#!/usr/bin/env node` would not find node.
    runs_in_node = program.suffix in {".js", ".mjs", ".cjs"} or (
        first.startswith(b"#!") and b"node" in first
    )
    return [node, str(program)] if runs_in_node else [str(program)]


def install_uv(package: Package, folder: Path, on_progress: OnProgress) -> list[str]:
    """Install a package of PyPI; return the command without arguments. Raises `InstallError`."""
    uv = _tool("uv")
    env = {"UV_TOOL_DIR": str(folder / "tools"), "UV_TOOL_BIN_DIR": str(folder / "bin")}
    step = Progress(f"uv tool install {package.package}")
    _run([uv, "tool", "install", "--quiet", package.package], folder, env, step, on_progress)
    found = _PYPI_NAME.match(package.package)
    assert found is not None
    name = package.cmd or found[0]
    program = shutil.which(name, path=str(folder / "bin"))
    if program is None:
        programs = sorted(path.name for path in (folder / "bin").glob("*"))
        raise InstallError(
            f"{package.package} has no program {name}; it has {', '.join(programs) or 'none'}"
        )
    return [program]


def _npm_program(folder: Path, wanted: str) -> Path:
    """Return the program of an installed package, which npx would run."""
    try:
        given = lenient_json.loads((folder / "package.json").read_bytes())
    except (OSError, ValueError) as error:
        raise InstallError(f"The package has no package.json: {error}") from None
    programs = given.get("bin") if lenient_json.is_object(given) else None
    match programs:
        case str():
            path: object = programs
        case {**rows}:
            path = rows.get(wanted, next(iter(rows.values())) if len(rows) == 1 else None)
        case _:
            path = None
    program = (folder / path).resolve() if isinstance(path, str) else folder
    if not program.is_file() or not program.is_relative_to(folder.resolve()):
        raise InstallError(f"The package has no program {wanted}")
    return program


def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise InstallError(f"{name} is not installed, or not in PATH")
    return str(Path(found).absolute())


def _run(
    words: Sequence[str],
    folder: Path,
    env: Mapping[str, str],
    step: Progress,
    on_progress: OnProgress,
) -> None:
    """Run an installer; its output is shown only if it fails. It ends if `on_progress` raises."""
    deadline = time.monotonic() + TIME_LIMIT_S
    try:
        process = subprocess.Popen(
            words,
            cwd=folder,
            env={**os.environ, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # so that its children end with it
        )
    except OSError as error:
        raise InstallError(f"{words[0]}: {error.strerror or error}") from None
    try:
        while True:
            on_progress(step)
            try:
                output, _ = process.communicate(timeout=PROGRESS_S)
                break
            except subprocess.TimeoutExpired:
                if time.monotonic() > deadline:
                    raise InstallError(f"{words[0]} took more than {TIME_LIMIT_S:g} s") from None
    finally:
        if process.returncode is None:
            _kill(process)
    if process.returncode != 0:
        shown = "\n  ".join(last_lines(output, 6)[0])
        raise InstallError(f"{Path(words[0]).name} failed:\n  {shown}")


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End an installer and what it has started."""
    if sys.platform == "win32":
        process.kill()
    else:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


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


# What installing an agent would do, in words, before it is done.

MAX_TEXT = 400
_VERSION = re.compile(r"(?<=.)@|==|\[")


def source_text(entry: Entry, kind: Kind) -> str:
    """Return what is installed, and the arguments with which it is started."""
    if kind == "binary":
        found = entry.binary.get(own_target())
        if found is None:
            return f"for {', '.join(sorted(entry.binary))}"
        checked = "" if found.sha256 else " (without a checksum)"
        return f"{one_line(found.archive, MAX_TEXT)}{checked}"
    package = entry.uvx if kind == "uvx" else entry.npx
    assert package is not None
    return one_line(shlex.join([package.package, *package.args]), MAX_TEXT)


def install_steps(entry: Entry, kind: Kind) -> Iterator[tuple[str, str]]:
    """Yield what is run to install an agent that has this kind here, and then to start it."""
    if kind == "binary":
        found = entry.binary[own_target()]
        yield "Download", one_line(found.archive, MAX_TEXT)
        yield "Check", f"sha256 {found.sha256}" if found.sha256 else "nothing: it has no checksum"
        program, args, env = found.cmd, found.args, found.env
    else:
        package = entry.uvx if kind == "uvx" else entry.npx
        assert package is not None
        command = ("uv", "tool", "install") if kind == "uvx" else ("npm", "install")
        yield "Run", shlex.join((*command, package.package))
        yield "From", "PyPI" if kind == "uvx" else "npm, with the install scripts of its packages"
        program = package.cmd or _VERSION.split(package.package)[0].rpartition("/")[2]
        args, env = package.args, package.env
    yield "Start", one_line(shlex.join((program, *args)), MAX_TEXT)
    for name, value in env.items():
        yield "Variable", one_line(f"{name}={value}", MAX_TEXT)
