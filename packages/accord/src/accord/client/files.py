"""The files that a v1 agent can read and write: those in the directories of the session."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import inspect
import os
from collections.abc import Awaitable
from typing import Literal, Protocol, TypeAlias

from accord.client.agent_adapter import SessionSetup
from accord.connection.tasks import Owning
from accord.errors import InternalError, InvalidParams, RequestError, ResourceNotFound
from accord.local.command import InPlace
from accord.local.files import (
    MAX_BYTES,
    HardLinked,
    OutsideRoots,
    Reads,
    Roots,
    TooLarge,
    is_within,
    lines_of,
    real_path,
)
from accord.rules.quirks import has_quirk, tolerates
from accord.types.session import Implementation
from accord.wire.base import replace


class TextSource(Protocol):
    """Reads and writes the text of files instead of the disk, such as an editor's buffers.

    Paths are absolute, resolved, and inside the session's directories. `read` raises
    `FileNotFoundError` for a missing file.
    """

    def read(self, path: str) -> str | Awaitable[str]:
        """Return the text of a file."""
        ...

    def write(self, path: str, text: str) -> None | Awaitable[None]:
        """Replace the text of a file, or create the file."""
        ...


# None: no access; "ro": reading; "rw": reading and writing; or a text source for both.
Files: TypeAlias = Literal["ro", "rw"] | TextSource | None

# Errors for a text that cannot be a path on any disk.
_NO_PATH = {errno.EINVAL, errno.EILSEQ, errno.ENAMETOOLONG}


_UNREADABLE = "The file cannot be read"


class ClientFiles:
    """Serves `fs/` requests; errors contain only what the agent may know."""

    def __init__(self, files: Files) -> None:
        self.readable: bool = files is not None
        self.writable: bool = files is not None and files != "ro"
        self._texts = None if isinstance(files, str) else files
        self._missing_is_empty = False
        self._reads = Reads()
        self._in_place = InPlace()

    @tolerates("missing-file-fatal")
    def set_agent(self, info: Implementation) -> None:
        """Answer the reads of missing files as this agent needs it; call it before sessions."""
        self._missing_is_empty = has_quirk("missing-file-fatal", info.name, info.version)

    def read(
        self, setup: SessionSetup, path: str, line: int | None, limit: int | None
    ) -> str | Awaitable[str]:
        """Return the text of a file, or `limit` lines from `line` on.

        The result is awaitable if something must be awaited: then the request needs a task.
        """
        if self._texts is None or self._in_place.is_slow:
            return self._read(setup, path, line, limit)
        with self._read_errors(path):
            roots = _roots_for(setup, path)
            text = self._texts.read(self._in_place.call_here(roots.resolve, path))
            if isinstance(text, str):
                return lines_of(text, line, limit)
            return Owning(self._await_lines(text, path, line, limit), text)
        return ""

    async def _read(
        self, setup: SessionSetup, path: str, line: int | None, limit: int | None
    ) -> str:
        with self._read_errors(path):
            roots = _roots_for(setup, path)
            if self._texts is None:
                return await self._reads.read(roots, path, line, limit)
            text = self._texts.read(await self._in_place.call(roots.resolve, path))
            return lines_of(await text if inspect.isawaitable(text) else text, line, limit)
        return ""

    async def _await_lines(
        self, text: Awaitable[str], path: str, line: int | None, limit: int | None
    ) -> str:
        with self._read_errors(path):
            return lines_of(await text, line, limit)
        return ""

    def _read_errors(self, path: str) -> _AgentErrors:
        """Return the errors of a read; the block is left early only for a missing file."""
        return _AgentErrors(path, _UNREADABLE, missing_is_empty=self._missing_is_empty)

    async def write(self, setup: SessionSetup, path: str, text: str) -> None:
        """Replace the text of a file, or create the file."""
        with _AgentErrors(path, "The file cannot be written"):
            roots = _roots_for(setup, path)
            if self._texts is None:
                await asyncio.to_thread(roots.write, path, text)
                return
            done = self._texts.write(await self._in_place.call(roots.resolve, path), text)
            if done is not None:
                await done


class _AgentErrors:
    """Turns the errors of a file into those for the agent, which contain what it may know.

    With `missing_is_empty` it suppresses the error of a missing file.
    """

    __slots__ = ("_message", "_missing_is_empty", "_path")

    def __init__(self, path: str, message: str, *, missing_is_empty: bool = False) -> None:
        self._path = path
        self._message = message
        self._missing_is_empty = missing_is_empty

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _where: object
    ) -> bool:
        if self._missing_is_empty and isinstance(error, FileNotFoundError):
            return True
        if isinstance(error, OSError | UnicodeError):
            raise _error(error, self._path, self._message) from None
        return False


def restrict_to_parent(child: SessionSetup, parent: SessionSetup) -> SessionSetup:
    """Return the setup of a subagent, without access outside the parent's directories.

    The agent chooses the directories of a subagent; the user has allowed only the session's.
    """
    allowed = parent.real_directories or ()
    real: list[str] = []
    for path in child.directories:
        with contextlib.suppress(OSError):  # a text that cannot be a path
            found = real_path(path)
            if any(is_within(root, found) for root in allowed):
                real.append(found)
    return replace(child, real_directories=tuple(real))


def _roots_for(setup: SessionSetup, path: str) -> Roots:
    if not os.path.isabs(path):  # noqa: PTH117  # a text, not a Path (R-FS-05)
        raise InvalidParams("The path of a file must be absolute")
    if "\0" in path:
        raise InvalidParams("The path of a file must not contain a NUL character")
    if not path.isascii():
        try:
            os.fsencode(path)
        except UnicodeEncodeError:
            raise InvalidParams("The path of a file must not contain lone surrogates") from None
    return Roots(setup.directories, real=setup.real_directories)


def _error(error: OSError | UnicodeError, path: str, message: str) -> RequestError:
    """Return the error for the agent."""
    match error:
        case FileNotFoundError() if message == _UNREADABLE:
            return ResourceNotFound(data={"path": path})
        case HardLinked():
            return InvalidParams(
                "The file has further names (hard links), which may be in other directories"
            )
        case OutsideRoots():
            return InvalidParams("The file is outside the session's directories")
        case TooLarge():
            most = f"{MAX_BYTES >> 20} MiB"
            reason = f"More than {most} in one read: request fewer lines with `line` and `limit`"
            return InvalidParams(reason, data={"path": path})
        case OSError() if error.errno in _NO_PATH:
            return InvalidParams("The path of the file is invalid")
        case _:
            return InternalError(message, data={"path": path})
