"""The files of a session: the client's if it supports that, otherwise local ones."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Any

from accord.agent.tool_call import current_tool_call
from accord.errors import (
    FileChanged,
    InternalError,
    MethodNotFound,
    RequestError,
    ResourceNotFound,
)
from accord.local.command import InPlace
from accord.local.files import OutsideRoots, Reads, Roots, TooLarge
from accord.rules.quirks import tolerates
from accord.text import lenient_json
from accord.text.excerpt import excerpt, visible
from accord.types.validation import require_type

if TYPE_CHECKING:
    from accord.agent.session_core import SessionCore


_MARK = "_accord_session_file"  # of the errors of session files: what failed

# What programs write of a missing file. A method or a session that is not found is another thing.
_MISSING = re.compile(
    r"ENOENT|no such file|does ?n[o']t exist|cannot find the (?:file|path)"
    r"|(?<!method )(?<!session )not found",
    re.IGNORECASE,
)
_MAX_TEXTS = 64  # of the data of an error
_MAX_CHARS = 2000  # of each


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
            await self._resolve(path)
            return await self._read(path, line, limit)

    async def write(self, path: str, text: str, *, show: bool = True) -> None:
        """Replace the text of a file, or create it, without asking: see `ToolCallHandle.edit`.

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

    # Internal: changes that are shown before they are made.

    def absolute(self, path: str) -> str:
        """Internal: return the absolute path without dots, links not resolved."""
        return self._roots.absolute(path)

    async def current(self, path: str) -> str | None:
        """Internal: return the whole text of a file, None if it does not exist.

        A client that fails to read the file says nothing of it, so the text on disk counts.
        """
        with _Marked("read", self._roots.absolute(path)):
            return await self._current(path)

    async def _current(self, path: str) -> str | None:
        await self._in_place.call(self._roots.resolve, path)
        text: str | None = None
        if self._core.client_adapter.reads_files:
            with suppress(FileNotFoundError, RequestError):
                text = await self._read(path)
        if text:
            return text
        # A client may answer with an empty text for a missing file.
        with suppress(FileNotFoundError):
            on_disk = await self._reads.read(self._roots, path)
            return on_disk if text is None else text
        return None

    async def replace(self, path: str, old: str | None, text: str) -> None:
        """Internal: write a file whose text is `old`, None for a new one.

        Raises `FileChanged` if it has another text now: on disk at the moment of the write, in a
        client just before it.
        """
        absolute = self._roots.absolute(path)
        with _Marked("write", absolute):
            await self._replace(path, absolute, old, text)

    async def _replace(self, path: str, absolute: str, old: str | None, text: str) -> None:
        adapter = self._core.client_adapter
        if not adapter.reads_files and not adapter.writes_files:
            await asyncio.to_thread(self._replace_local, absolute, old, text)
            return
        if await self.current(path) != old:
            raise _changed(absolute)
        if adapter.writes_files:
            await adapter.write_file(self._core.id, absolute, text)
        else:
            await asyncio.to_thread(self._roots.write, path, text)

    async def remove(self, path: str, old: os.stat_result) -> None:
        """Internal: delete a file on disk; raise `FileChanged` if it has another status now."""
        absolute = self._roots.absolute(path)
        with _Marked("delete", absolute):
            now = await self._status(path, absolute)
            if _version(now) != _version(old):
                raise _changed(absolute)
            await asyncio.to_thread(self._roots.remove, path)

    async def status(self, path: str) -> os.stat_result:
        """Internal: return the status of a file to delete, or of a link; not of a directory."""
        absolute = self._roots.absolute(path)
        with _Marked("delete", absolute):
            return await self._status(path, absolute)

    async def _status(self, path: str, absolute: str) -> os.stat_result:
        await self._in_place.call(self._roots.resolve, path)
        status = await asyncio.to_thread(os.lstat, absolute)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), absolute)
        return status

    def _replace_local(self, absolute: str, old: str | None, text: str) -> None:
        def check(was: bytes | None) -> None:
            if was is None or old is None or was != old.encode():
                raise _changed(absolute)

        if old is not None:
            self._roots.replace(absolute, text.encode(), expected=check)
            return
        try:
            self._roots.create(absolute, text.encode())
        except FileExistsError:
            raise _changed(absolute) from None

    async def _read(self, path: str, line: int | None = None, limit: int | None = None) -> str:
        adapter = self._core.client_adapter
        if not adapter.reads_files:
            return await self._reads.read(self._roots, path, line, limit)
        absolute = self._roots.absolute(path)
        try:
            return await adapter.read_file(self._core.id, absolute, line, limit)
        except RequestError as exc:
            if not means_missing_file(exc, absolute):
                raise
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), absolute) from exc

    async def _resolve(self, path: str) -> None:
        await self._in_place.call(self._roots.resolve, path)
        if (call := current_tool_call(self._core)) is not None:
            await call.start()

    async def _old(self, path: str) -> str | None:
        try:
            return await self.current(path)
        except UnicodeDecodeError:
            return ""  # not text, so the old content is not shown


def _version(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_ino, status.st_size, status.st_mtime_ns


@tolerates("missing-file-code")
def means_missing_file(error: RequestError, path: str) -> bool:
    """Return whether a client's error for a read means that the file at `path` does not exist.

    By its code, or by the text of its message or data, in which the path itself does not count.
    """
    if isinstance(error, ResourceNotFound):
        return True
    if isinstance(error, MethodNotFound):
        return False
    return any(
        _MISSING.search(text[:_MAX_CHARS].replace(path, ""))
        for text in (error.message, *_texts(error.data))
    )


def _texts(data: Any) -> Iterator[str]:
    """Yield the strings in the data of an error, those of inner objects and lists last."""
    waiting, seen = [data], 0
    while waiting and seen < _MAX_TEXTS:
        seen += 1
        value = waiting.pop(0)
        if isinstance(value, str):
            yield value
        elif lenient_json.is_object(value):
            waiting += list(value.values())[:_MAX_TEXTS]
        elif lenient_json.is_array(value):
            waiting += value[:_MAX_TEXTS]


def _changed(absolute: str) -> FileChanged:
    return FileChanged(f"{absolute} has changed since the change was proposed; nothing was written")
