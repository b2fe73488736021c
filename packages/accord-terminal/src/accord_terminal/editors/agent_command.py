"""The command of an agent as editors need it: with absolute paths."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from accord.errors import StartError
from accord.transports.command_line import find_program
from accord.transports.registry import is_url
from accord_terminal.editors.errors import EditorError
from accord_terminal.toolkit.agent_names import NamedAgent

_MODULE = ("-m", "accord")


class EditorCommand(Struct, frozen=True):
    """What an editor starts."""

    command: str  # an absolute path that exists
    args: tuple[str, ...]
    env: Mapping[str, str] = {}


def editor_command(agent: NamedAgent) -> EditorCommand:
    """Return the command of an agent with an absolute path. Raises `EditorError`.

    Editors that are started from a desktop have no `PATH` of a shell (R-EDIT-02), so a script
    that begins with `#!/usr/bin/env node` is given to the absolute path of node.
    """
    argv = agent.argv
    if agent.source == "installed":  # a new version is in another folder
        return EditorCommand(*_split((*accord_program(), "agents", "run", agent.name)))
    if is_url(argv[0]):
        return EditorCommand(*_split((*accord_program(), "bridge", argv[0])), agent.entry.env)
    if argv[:3] == (sys.executable, *_MODULE):
        return EditorCommand(*_split((*accord_program(), *argv[3:])), agent.entry.env)
    try:
        program = find_program(argv[0], None, None)
    except StartError as error:
        raise EditorError(f"{error}; install the agent first") from None
    words = (*_interpreter(program), program, *map(_absolute, argv[1:]))
    return EditorCommand(*_split(words), agent.entry.env)


def accord_program() -> tuple[str, ...]:
    """Return the words that start `accord`, with an absolute path."""
    beside = Path(sys.executable).parent / ("accord.exe" if os.name == "nt" else "accord")
    if not beside.is_file():
        return (sys.executable, *_MODULE)
    # The link that pipx and uv make outlives an upgrade.
    found = shutil.which("accord")
    if found is not None and Path(found).samefile(beside):
        return (str(Path(found).absolute()),)
    return (str(beside),)


def _split(words: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    return words[0], tuple(words[1:])


def _absolute(word: str) -> str:
    """Return a word that names a script of this folder as an absolute path."""
    path = Path(word)
    names_file = bool(path.suffix) or os.sep in word
    return str(path.absolute()) if names_file and path.is_file() else word


def _interpreter(program: str) -> tuple[str, ...]:
    """Return the interpreter of a script whose first line leaves it to `env`."""
    try:
        with Path(program).open("rb") as file:
            line = file.readline(256)
    except OSError:
        return ()
    if not line.startswith(b"#!"):
        return ()
    words = line[2:].decode("utf-8", "replace").split()
    if not words or Path(words[0]).name != "env":
        return ()
    words = words[2:] if words[1:2] == ["-S"] else words[1:]
    if not words or "=" in words[0] or words[0].startswith("-"):
        return ()
    found = shutil.which(words[0])
    if found is None:
        raise EditorError(f"{program} needs {words[0]}, which is not in PATH")
    return (str(Path(found).absolute()), *words[1:])
