"""Report files: checked before the run, and written atomically after it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import click

_PRIVATE = 0o600


def check_writable(files: Mapping[str, Path | None]) -> None:
    """Raise `click.UsageError` if a file cannot be written, or is given twice.

    The keys are used in the message. The files are not changed.
    """
    seen: dict[str, str] = {}
    for name, path in files.items():
        if path is None:
            continue
        real = os.path.realpath(path)
        if real in seen and not _is_special(path):
            raise click.UsageError(f"{seen[real]} and {name} name the same file: {path}")
        seen[real] = name
        try:
            _try(path)
        except OSError as error:
            raise click.UsageError(f"{name}: cannot write {path}: {error.strerror}") from None


def check_directory(path: Path, name: str) -> None:
    """Create a folder if it is missing; raise `click.UsageError` if it is not writable."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        part = _part_of(path / "accord-check")
        part.touch()
        part.unlink()
    except OSError as error:
        raise click.UsageError(f"{name}: cannot write into {path}: {error.strerror}") from None


def write_atomically(path: Path, data: bytes, *, private: bool = False) -> None:
    """Replace a file atomically; if that fails, raise `OSError` and keep the old file.

    Only the user can read a private file. Otherwise an existing file keeps its mode.
    """
    if _is_special(path):
        path.write_bytes(data)
        return
    if not _can_create_sibling(path):
        path.write_bytes(data)
        if private:
            path.chmod(_PRIVATE)
        return
    real = Path(os.path.realpath(path))
    part = _part_of(real)
    mode = _PRIVATE if private else 0o666
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(data)
        if real.exists() and not private:
            shutil.copymode(real, part)
        part.replace(real)
    finally:
        part.unlink(missing_ok=True)


def _try(path: Path) -> None:
    if _is_special(path):
        return
    if path.exists():
        with path.open("r+b"):
            return
    part = _part_of(Path(os.path.realpath(path)))
    part.touch()
    part.unlink()


def _can_create_sibling(path: Path) -> bool:
    """Return whether a file can be created in the same folder."""
    return os.access(Path(os.path.realpath(path)).parent, os.W_OK)


def _part_of(path: Path) -> Path:
    """Return an unused name in the same folder."""
    return path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}.part")


def _is_special(path: Path) -> bool:
    """Return whether the path is a device or a pipe, which cannot be replaced."""
    return path.parts[:2] == (os.sep, "dev") or (path.exists() and not path.is_file())
