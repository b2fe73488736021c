"""The files of a session: the client's if it supports that, otherwise local ones."""

from __future__ import annotations

import asyncio
import errno
import os
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from accord.agent.tool_call import current_tool_call
from accord.errors import InternalError, ResourceNotFound
from accord.local.fast_calls import InPlace
from accord.local.file_reads import Reads
from accord.local.files import OutsideRoots, Roots
from accord.local.lines import TooLarge
from accord.text.excerpt import excerpt, visible
from accord.types.validation import require_type

if TYPE_CHECKING:
    from accord.agent.session_core import SessionCore

__all__ = ("SessionFiles", "file_failure")

_MARK = "_accord_session_file"  # of the errors of session files: what failed


class _Marked(AbstractContextManager[None]):
    """Marks the errors of a file, so that a turn that does not catch them can report them."""

    __slots__ = ("_path", "_what")

    def __init__(self, what: str, path: str) -> None:
        self._what = what
        self._path = path

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _where: object
    ) -> None:
        if isinstance(error, OSError | UnicodeError):
            vars(error).setdefault(_MARK, (self._what, self._path))


def file_failure(error: BaseException) -> InternalError | None:
    """Return the error for the client if a turn did not catch that of a session's file.

    The path is one in the session's directories, which the client has named; a path outside of
    them is not sent. The code is not that of a missing resource, which is about the session here.
    """
    found: tuple[str, str] | None = vars(error).get(_MARK)
    if found is None:
        return None
    what, path = found
    match error:
        case OutsideRoots():
            return InternalError(
                f"The agent could not {what} a file: it is outside the session's directories"
            )
        case FileNotFoundError():
            why = "it does not exist"
        case IsADirectoryError():
            why = "it is a directory"
        case NotADirectoryError() | FileExistsError():
            why = "a part of its path is a file"
        case UnicodeError():
            why = "it is not text"
        case TooLarge():
            why = "it is too large"
        case PermissionError():
            why = "permission denied"
        case _:
            why = "an error of the system"
    shown = visible(excerpt(path, 200))
    return InternalError(f"The agent could not {what} the file {shown}: {why}", data={"path": path})


class SessionFiles:
    """Text files in the directories of the session; relative paths are relative to its `cwd`.

    A path outside these directories, also by links, raises `OutsideRoots`, a `PermissionError`.
    A missing file raises `FileNotFoundError`, whether it is missing locally or in the client.
    """

    def __init__(self, core: SessionCore) -> None:
        self._core = core
        self._roots = Roots(core.directories)
        self._reads = Reads()
        self._in_place = InPlace()

    async def read(self, path: str, *, line: int | None = None, limit: int | None = None) -> str:
        """Return the text of a file, or `limit` lines of it from `line` on, counted from 1."""
        with _Marked("read", self._roots.absolute(path)):
            return await self._read(path, line, limit)

    async def _read(self, path: str, line: int | None, limit: int | None) -> str:
        await self._resolve(path)
        adapter = self._core.client_adapter
        if not adapter.reads_files:
            return await self._reads.read(self._roots, path, line, limit)
        absolute = self._roots.absolute(path)
        try:
            return await adapter.read_file(self._core.id, absolute, line, limit)
        except ResourceNotFound as exc:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), absolute) from exc

    async def write(self, path: str, text: str, *, show: bool = True) -> None:
        """Replace the text of a file, or create it.

        A tool call around it shows the change, which reads the old text; not if `show` is false.
        """
        require_type("files.write(text=…)", text, str)
        with _Marked("write", self._roots.absolute(path)):
            await self._write(path, text, show=show)

    async def _write(self, path: str, text: str, *, show: bool) -> None:
        await self._resolve(path)
        call = current_tool_call(self._core) if show else None
        old = await self._old(path) if call is not None else None
        absolute = self._roots.absolute(path)
        if self._core.client_adapter.writes_files:
            await self._core.client_adapter.write_file(self._core.id, absolute, text)
        else:
            await asyncio.to_thread(self._roots.write, path, text)
        if call is not None:
            await call.add_diff(absolute, old, text)

    async def _resolve(self, path: str) -> None:
        await self._in_place.call(self._roots.resolve, path)
        if (call := current_tool_call(self._core)) is not None:
            await call.start()

    async def _old(self, path: str) -> str | None:
        try:
            return await self.read(path)
        except FileNotFoundError:
            return None
        except UnicodeDecodeError:
            return ""  # not text, so the old content is not shown
