"""`chain.toml`: the components of a chain, with their settings."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import cast

import msgspec
from msgspec import Struct

from accord.errors import AccordError
from accord.proxy.dialects import DialectName
from accord.proxy.parts import Component, component
from accord.transports.command_line import argv_of
from accord.transports.registry import is_url


class ChainFileError(AccordError):
    """The file cannot be read, or is invalid."""


class _Entry(Struct, frozen=True, forbid_unknown_fields=True):
    """A table `[[component]]`."""

    command: str | list[str]
    name: str | None = None
    dialect: str | None = None  # one of DIALECTS; `component` checks it
    cwd: str | None = None
    env: dict[str, str] | None = None
    token_file: str | None = None
    insecure: bool = False


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    component: list[_Entry]


def read_chain_file(
    path: Path, on_stderr: Callable[[str, str], None] | None = None
) -> list[Component]:
    """Return the components in a file; raise `ChainFileError`.

    Paths in it are relative to its folder. `on_stderr` receives the name of a component and each
    line that it writes to stderr.
    """
    try:
        file = msgspec.toml.decode(path.read_text("utf-8"), type=_File)
    except (OSError, UnicodeDecodeError) as exc:
        raise ChainFileError(f"Cannot read {path}: {exc}") from None
    except msgspec.DecodeError as exc:
        hint = "; write [[component]]" if "`components`" in str(exc) else ""
        raise ChainFileError(f"{path} is invalid: {exc}{hint}") from None
    if not file.component:
        raise ChainFileError(f"{path} is invalid: expected a table [[component]]")
    parts: list[Component] = []
    for number, entry in enumerate(file.component):
        try:
            parts.append(_component(entry, path.absolute().parent, on_stderr))
        except (ValueError, TypeError, OSError) as exc:
            raise ChainFileError(f"{path} is invalid: component[{number}]: {exc}") from None
    return parts


def _token(path: Path) -> str:
    try:
        return path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as exc:
        raise ValueError(f"token_file: cannot read it: {exc}") from None


def _component(
    entry: _Entry, folder: Path, on_stderr: Callable[[str, str], None] | None
) -> Component:
    command, dialect = entry.command, cast("DialectName | None", entry.dialect)
    if isinstance(command, str) and is_url(command):
        token = None
        if entry.token_file is not None:
            token = _token(folder / entry.token_file)
        return component(
            command,
            name=entry.name,
            dialect=dialect,
            cwd=entry.cwd,
            env=entry.env,
            token=token,
            insecure=entry.insecure,
        )
    if entry.token_file is not None or entry.insecure:
        raise ValueError("token_file and insecure are for an address")
    words = argv_of(command)
    if words[0].endswith(".py"):
        words[0] = os.fspath(folder / words[0])
    name = entry.name
    show = None if on_stderr is None else partial(on_stderr, name or words[0])
    return component(
        words,
        name=name,
        dialect=dialect,
        cwd=None if entry.cwd is None else folder / entry.cwd,
        env=entry.env,
        on_stderr=show,
    )
