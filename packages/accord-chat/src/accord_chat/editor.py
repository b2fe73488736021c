"""The user's editor: its command, and running it at the terminal of the chat."""

from __future__ import annotations

import asyncio
import os
import shlex
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Self

from accord_terminal.toolkit.text import one_line

# How programs other than those like vi take the line; the first word is the name.
_WITH_COLON = frozenset({"hx", "helix", "subl", "sublime_text", "zed", "micro"})
_WITH_GOTO = frozenset({"code", "code-insiders", "codium", "cursor", "windsurf"})
_WITH_LINE = frozenset({"idea", "pycharm", "webstorm", "goland", "kate"})
_OWN_WINDOW = _WITH_GOTO | _WITH_LINE | {"subl", "sublime_text", "zed", "gedit", "gvim"}


def editor_command(path: Path, line: int | None) -> list[str] | None:
    """Return the command of VISUAL or EDITOR; None if neither is set or can be split."""
    given = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""
    try:
        words = shlex.split(given)
    except ValueError:
        return None
    if not words:
        return None
    name = Path(words[0]).name
    if line is None:
        return [*words, str(path)]
    if name in _WITH_GOTO:
        return [*words, "--goto", f"{path}:{line}"]
    if name in _WITH_COLON:
        return [*words, f"{path}:{line}"]
    if name in _WITH_LINE:
        return [*words, "--line", str(line), str(path)]
    return [*words, f"+{line}", str(path)]


def has_own_window(command: Sequence[str]) -> bool:
    """Return whether an editor does not need this terminal."""
    return Path(command[0]).name in _OWN_WINDOW


class NoEditor(Exception):
    """There is no editor, or it cannot be started."""


class PromptFile:
    """A prompt in a file for this user only, as long as the editor needs it."""

    def __init__(self, text: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="accord-")
        self.path = Path(self._folder.name, "prompt.md")
        self.path.write_text(text, "utf-8")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def read(self) -> str:
        """Return the prompt as it is now."""
        return self.path.read_text("utf-8", "replace")


async def open_in_editor(
    file: Path, line: int | None, terminal_given: Callable[[], AbstractContextManager[None]]
) -> bool:
    """Open a file in VISUAL or EDITOR; return whether the user has left the editor in order.

    An editor with a window of its own is not waited for. Raises `NoEditor`.
    """
    command = editor_command(file, line)
    if command is None:
        raise NoEditor("set VISUAL or EDITOR to the command of your editor.")
    try:
        if has_own_window(command):
            quiet = asyncio.subprocess.DEVNULL
            await asyncio.create_subprocess_exec(
                *command, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
            )
            return False
        with terminal_given():
            process = await asyncio.create_subprocess_exec(*command)
            return await process.wait() == 0
    except OSError as error:
        name = one_line(command[0], 80)
        raise NoEditor(f"{name} cannot be started: {error.strerror}") from None
