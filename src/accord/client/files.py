"""Files that an agent of version 1 may read and write: inside the session's roots, if at all."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Awaitable, Sequence
from typing import Literal, Protocol, TypeAlias

from accord.errors import InternalError, InvalidParams, ResourceNotFound
from accord.local.files import OutsideRoots, Roots, lines_of

__all__ = ("FileServer", "Files", "Texts")


class Texts(Protocol):
    """Where the text of files is, if not just on the disk: an editor with unsaved changes.

    Paths are absolute, resolved, and inside the roots. `read` raises `FileNotFoundError`.
    """

    def read(self, path: str) -> str | Awaitable[str]:
        """Return all of a file's text."""
        ...

    def write(self, path: str, text: str) -> None | Awaitable[None]:
        """Replace all of a file's text, or create the file."""
        ...


# Nothing, reading, reading and writing, or both elsewhere.
Files: TypeAlias = Literal["ro", "rw"] | Texts | None


class FileServer:
    """Answers `fs/` requests; every error says what the agent may know."""

    def __init__(self, files: Files) -> None:
        self.readable = files is not None
        self.writable = files is not None and files != "ro"
        self._texts = None if isinstance(files, str) else files

    async def read(
        self, roots: Sequence[str], path: str, line: int | None, limit: int | None
    ) -> str:
        """Return the text of a file, or some lines of it."""
        data = {"path": path}
        try:
            return lines_of(await self._read(_inside(roots, path), path), line, limit)
        except OutsideRoots:
            raise InvalidParams("The file is outside of the session's directories") from None
        except FileNotFoundError:
            raise ResourceNotFound(data=data) from None
        except (OSError, UnicodeError):
            raise InternalError("The file cannot be read", data=data) from None

    async def write(self, roots: Sequence[str], path: str, text: str) -> None:
        """Replace the text of a file, or create the file."""
        data = {"path": path}
        try:
            await self._write(_inside(roots, path), path, text)
        except OutsideRoots:
            raise InvalidParams("The file is outside of the session's directories") from None
        except (OSError, UnicodeError):
            raise InternalError("The file cannot be written", data=data) from None

    async def _read(self, roots: Roots, path: str) -> str:
        if self._texts is None:
            return await asyncio.to_thread(roots.read, path)
        text = self._texts.read(await asyncio.to_thread(roots.resolve, path))
        return await text if inspect.isawaitable(text) else text

    async def _write(self, roots: Roots, path: str, text: str) -> None:
        if self._texts is None:
            await asyncio.to_thread(roots.write, path, text)
            return
        done = self._texts.write(await asyncio.to_thread(roots.resolve, path), text)
        if done is not None:
            await done


def _inside(roots: Sequence[str], path: str) -> Roots:
    if not os.path.isabs(path):  # noqa: PTH117  # R-FS-05, about a text
        raise InvalidParams("The path of a file is absolute")
    return Roots(roots)
