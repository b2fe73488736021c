"""Files that a command writes at its end: tried before it begins, and whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import click

__all__ = ("check_directory", "check_writable", "write_atomically")

_PRIVATE = 0o600


def check_writable(files: Mapping[str, Path | None]) -> None:
    """Raise `click.UsageError` when one of the files cannot be written, or is named twice.

    The keys are for the message. What a file holds is left as it is.
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
    """Make a folder if it is not there; raise `click.UsageError` when nothing can be put there."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        part = _part_of(path / "accord-check")
        part.touch()
        part.unlink()
    except OSError as error:
        raise click.UsageError(f"{name}: cannot write into {path}: {error.strerror}") from None


def write_atomically(path: Path, data: bytes, *, private: bool = False) -> None:
    """Write a file so that readers never see half of it; raise `OSError`, and leave the old one.

    Only the user can read a private file; else an old file keeps its mode.
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
    """Tell whether there may be another file beside this one."""
    return os.access(Path(os.path.realpath(path)).parent, os.W_OK)


def _part_of(path: Path) -> Path:
    """Return a name beside it that no other program takes."""
    return path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}.part")


def _is_special(path: Path) -> bool:
    """Tell whether it is a device or a pipe, which cannot be replaced."""
    return path.parts[:2] == (os.sep, "dev") or (path.exists() and not path.is_file())
