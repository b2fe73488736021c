"""Runs the user's editor at the terminal of the chat, for files and for prompts."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Self

from accord_chat.view.editor import editor_command, has_own_window
from accord_terminal.toolkit.text import one_line


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
