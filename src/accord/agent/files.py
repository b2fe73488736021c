"""The files of a session: the client's if it supports that, otherwise local ones."""

from __future__ import annotations

import asyncio
import errno
import os
from typing import TYPE_CHECKING

from accord.agent.tool_call import current_tool_call
from accord.errors import ResourceNotFound
from accord.local.fast_calls import InPlace
from accord.local.file_reads import Reads
from accord.local.files import Roots
from accord.types.validation import require_type

if TYPE_CHECKING:
    from accord.agent.session_core import SessionCore

__all__ = ("SessionFiles",)


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
