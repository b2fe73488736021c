"""The files that an agent's program needs, where it is not in the directories of the system."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

_LINKS = 40  # more than a chain of links can have
_SHEBANG_BYTES = 512


def program_files(command: str, search_path: str | None) -> tuple[str, ...]:
    """Return the paths that a program is made of; () if it is not found.

    These are the file and the links that lead to it, the virtual environment (with the packages
    that it links to) or the installation of Python that it belongs to, the outermost
    `node_modules`, and the same for the interpreter that its first line names.
    """
    found = shutil.which(command, path=search_path)
    if found is None:
        return ()
    paths: dict[str, None] = {}
    _add_program(Path(os.path.abspath(found)), search_path, paths)  # noqa: PTH100  # keeps links
    return tuple(paths)


def is_below(path: str, directories: Iterable[str]) -> bool:
    """Return whether a path is one of the directories, or in one."""
    return any(path == each or path.startswith(f"{each.rstrip('/')}/") for each in directories)


def _add_program(program: Path, search_path: str | None, paths: dict[str, None]) -> None:
    if str(program) in paths:
        return
    for link in _chain(program):
        paths[str(link)] = None
        for directory in _installation(link):
            paths[str(directory)] = None
    words = _shebang(program)
    if words[:1] == ["/usr/bin/env"]:
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    interpreter = shutil.which(words[0], path=search_path) if words else None
    if interpreter is not None:
        _add_program(Path(os.path.abspath(interpreter)), search_path, paths)  # noqa: PTH100


def _chain(path: Path) -> list[Path]:
    """Return a path and those that its links lead to."""
    chain = [path]
    for _ in range(_LINKS):
        if not path.is_symlink():
            break
        path = Path(os.path.normpath(path.parent / path.readlink()))
        chain.append(path)
    real = path.resolve()
    return chain if real in chain else [*chain, real]


def _installation(program: Path) -> list[Path]:
    folder = program.parent
    prefix = folder.parent
    settings = prefix / "pyvenv.cfg"
    if settings.is_file():
        return [prefix, *_base_of(settings), *_editable(prefix)]
    modules = [each for each in program.parents if each.name == "node_modules"]
    if modules:
        return [modules[-1]]
    if folder.name == "bin" and prefix != prefix.parent and (prefix / "lib").is_dir():
        return [prefix]  # an installation of Python, node or another language of its own
    return []


def _base_of(settings: Path) -> list[Path]:
    for line in settings.read_text("utf-8", "replace").splitlines():
        name, _, value = line.partition("=")
        if name.strip() == "home" and value.strip():
            home = Path(value.strip())
            return list(dict.fromkeys((home.parent, home.parent.resolve())))
    return []


def _editable(prefix: Path) -> list[Path]:
    """Return the directories of packages that are installed as links to their source."""
    found: list[Path] = []
    for file in prefix.glob("lib/python*/site-packages/*.pth"):
        lines = file.read_text("utf-8", "replace").splitlines()
        found += (Path(line) for line in lines if line.startswith("/") and Path(line).is_dir())
    return found


def _shebang(program: Path) -> list[str]:
    try:
        with program.open("rb") as file:
            first = file.read(_SHEBANG_BYTES).split(b"\n", 1)[0]
    except OSError:
        return []
    if not first.startswith(b"#!"):
        return []
    return first[2:].decode("utf-8", "replace").split()
