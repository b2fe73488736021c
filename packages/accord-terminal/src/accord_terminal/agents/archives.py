"""Extracts archives of programs into a folder: nothing leads out of it, and size is limited."""

from __future__ import annotations

import os
import stat
import tarfile
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from accord_terminal.agents.errors import InstallError
from accord_terminal.toolkit.safe_text import one_line

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
