"""What a v1 agent uses of this machine: files in the directories of a session, and terminals.

Terminals are processes without a shell, stopped with their children.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import inspect
import itertools
import os
import shlex
from collections.abc import Awaitable, Mapping, Sequence
from typing import Literal, Protocol, TypeAlias

from msgspec.structs import replace

from accord.client.agent_adapter import SessionEventStream, SessionSetup
from accord.client.events import AgentTerminal, TerminalOutputChunk
from accord.connection.tasks import Owning
from accord.errors import InternalError, InvalidParams, RequestError, ResourceNotFound, StartError
from accord.local.command import InPlace, LocalCommand, in_shell
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


MAX_OUTPUT_BYTES = 16 * 1024 * 1024  # of the output of a terminal, also if the agent asks for more

Exit = tuple[int | None, str | None]  # a code, or the name of a signal


class _TerminalProcess:
    """One terminal; its output is published as events of the session."""

    def __init__(
        self,
        terminal: AgentTerminal,
        argv: Sequence[str],
        cwd: str,
        env: Mapping[str, str],
        limit: int,
        stream: SessionEventStream,
    ) -> None:
        self.terminal = terminal
        self.waiting: set[asyncio.Future[None]] = set()
        self._stream = stream
        self._has_unsent = False
        self.command = LocalCommand(
            argv, cwd=cwd, env=env, output_bytes=limit, on_output=self._on_output
        )
        self._publish(terminal)
        self._watching = asyncio.create_task(self._watch(), name="accord terminal")

    def _on_output(self, data: bytes) -> None:
        if self._stream.is_full:
            self._has_unsent = True  # all output is published again when the consumer has caught up
        elif self._has_unsent:
            self._send_all()
        else:
            self._publish(TerminalOutputChunk(self.terminal.id, data))

    def _send_all(self) -> None:
        self._has_unsent = False
        kept = self.command.output.text().encode("utf-8")
        self._publish(TerminalOutputChunk(self.terminal.id, kept, replaces=True))

    def _publish(self, event: AgentTerminal | TerminalOutputChunk) -> None:
        self._stream.publish(event)

    async def _watch(self) -> None:
        code, signal = await self.command.wait()
        if self._has_unsent:
            self._send_all()
        self._publish(replace(self.terminal, exited=True, exit_code=code, signal=signal))

    async def aclose(self) -> None:
        await self.command.aclose()
        await asyncio.wait(
            [self._watching, *self.waiting]
        )  # the waiting requests are answered first


class ClientTerminals:
    """Serves the `terminal/` requests of all sessions of a connection."""

    def __init__(self) -> None:
        self._terminals: dict[tuple[str, str], _TerminalProcess] = {}
        self._numbers = itertools.count(1)

    def create(
        self,
        stream: SessionEventStream,
        argv: Sequence[str],
        cwd: str,
        env: Mapping[str, str],
        limit: int | None,
    ) -> str:
        """Start a command; return the id of its terminal.

        If the program is a whole shell command line, the user's shell runs it.
        """
        if not os.path.isabs(cwd):  # noqa: PTH117  # a text, not a Path (R-TERM-03)
            raise InvalidParams("The working directory of a terminal must be absolute")
        if any("\0" in text for text in (cwd, *argv, *env, *env.values())):
            raise InvalidParams("A command and its directory must not contain NUL characters")
        terminal_id = f"terminal-{next(self._numbers)}"
        run = in_shell(argv, cwd, env)
        shown = shlex.join(argv) if run == list(argv) else argv[0]
        terminal = AgentTerminal(id=terminal_id, command=shown, cwd=cwd)
        limit = MAX_OUTPUT_BYTES if limit is None else min(limit, MAX_OUTPUT_BYTES)
        try:
            running = _TerminalProcess(terminal, run, cwd, env, limit, stream)
        except StartError as exc:
            raise InternalError("The command cannot be started", data={"reason": str(exc)}) from exc
        self._terminals[stream.session_id, terminal_id] = running
        return terminal_id

    def output(self, session_id: str, terminal_id: str) -> tuple[str, bool, Exit | None]:
        """Return the kept output, whether it is truncated, and the exit status if it has ended."""
        command = self._find(session_id, terminal_id).command
        ended = None if command.running else command.status()
        text = command.output.text()
        return text, command.output.truncated, ended

    async def wait(self, session_id: str, terminal_id: str) -> Exit:
        """Wait for the end of a command."""
        running = self._find(session_id, terminal_id)
        done = asyncio.get_running_loop().create_future()
        running.waiting.add(done)
        try:
            return await running.command.wait()
        finally:
            running.waiting.discard(done)
            done.set_result(None)

    async def kill(self, session_id: str, terminal_id: str) -> None:
        """Kill a command and its children; the terminal remains."""
        await self._find(session_id, terminal_id).command.kill()

    async def release(self, session_id: str, terminal_id: str) -> None:
        """Stop a command and release its terminal."""
        running = self._find(session_id, terminal_id)
        del self._terminals[session_id, terminal_id]
        await running.aclose()

    async def aclose(self, session_id: str | None = None) -> None:
        """Stop all terminals, or those of one session."""
        ending = [key for key in self._terminals if session_id in (None, key[0])]
        closing = [self._terminals.pop(key).aclose() for key in ending]
        await asyncio.gather(*closing)

    def _find(self, session_id: str, terminal_id: str) -> _TerminalProcess:
        running = self._terminals.get((session_id, terminal_id))
        if running is None:
            raise ResourceNotFound(data={"terminalId": terminal_id})
        return running
