"""The files and the commands of a session: in the client if it has them, otherwise local ones."""

from __future__ import annotations

import asyncio
import codecs
import errno
import logging
import os
import re
import shlex
import stat
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from accord.agent.tool_call import BaseToolCall, current_tool_call
from accord.agent.updates import TerminalExited, TerminalOutputUpdate, TerminalStarted
from accord.errors import (
    AccordError,
    FileChanged,
    InternalError,
    MethodNotFound,
    RequestError,
    ResourceNotFound,
)
from accord.local.command import InPlace, LocalCommand
from accord.local.files import OutsideRoots, Reads, Roots, TooLarge
from accord.rules.quirks import tolerates
from accord.text import lenient_json
from accord.text.excerpt import excerpt, visible
from accord.types.validation import require_type

if TYPE_CHECKING:
    from accord.agent.client_adapter import ClientAdapter
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


log: logging.Logger = logging.getLogger("accord.agent")

OUTPUT_BYTES = 256 * 1024  # the end of an output, which is kept
_MAX_SHOWN_CHARS = 64 * 1024  # in the tool call of a client without terminals
_INTERVAL_S = 0.1  # between updates


class CommandResult(Struct, frozen=True):
    """The result of a command; if `truncated`, `output` is the end of its output."""

    exit_code: int | None
    signal: str | None
    output: str
    truncated: bool = False
    timed_out: bool = False

    @property
    def ok(self) -> bool:
        """Whether it exited with 0."""
        return self.exit_code == 0


class SessionTerminals:
    """Runs commands without a shell, in the directories of the session."""

    def __init__(self, core: SessionCore) -> None:
        self._core = core
        self._roots = Roots(core.directories)
        self._in_place = InPlace()

    async def run(
        self,
        *argv: str,
        cwd: str | None = None,
        env: Mapping[str, str | None] | None = None,
        timeout_s: float | None = None,
        output_bytes: int = OUTPUT_BYTES,
    ) -> CommandResult:
        """Run a command to its end and show its output in the tool call around it, or in its own.

        None as a value in `env` removes a variable of this process; terminals in the client have
        none of these. The command and the processes that it has started are killed at the
        timeout and when the turn is cancelled. Raises `StartError` if a local command cannot be
        started.
        """
        call = current_tool_call(self._core)
        if call is None:
            core = self._core
            own = BaseToolCall(core, core.turn_here(), shlex.join(argv), kind="execute")
            async with own:
                ran = await self._run(own, argv, cwd, env, timeout_s, output_bytes)
                if not ran.ok:
                    await own.fail()
                return ran
        return await self._run(call, argv, cwd, env, timeout_s, output_bytes)

    async def folder(self, cwd: str | None) -> str:
        """Internal: return the absolute path of a `cwd`; raise `OutsideRoots`."""
        folder = self._roots.absolute(cwd or ".")
        await self._in_place.call(self._roots.resolve, folder)
        return folder

    async def _run(
        self,
        call: BaseToolCall,
        argv: Sequence[str],
        cwd: str | None,
        env: Mapping[str, str | None] | None,
        timeout_s: float | None,
        output_bytes: int,
    ) -> CommandResult:
        folder = await self.folder(cwd)
        await call.start()
        if self._core.client_adapter.has_terminals:
            given = {name: value for name, value in (env or {}).items() if value is not None}
            return await self._run_in_client(call, argv, folder, given, timeout_s, output_bytes)
        view = TerminalOutputView if self._core.client_adapter.shows_terminals else TextOutputView
        shown = view(self._core, call)
        command = LocalCommand(
            argv, cwd=folder, env=env, output_bytes=output_bytes, on_output=shown.add
        )
        timed_out = False
        try:
            await shown.begin(argv, folder, command)
            showing = asyncio.ensure_future(shown.run())
            try:
                async with asyncio.timeout(timeout_s):
                    await command.wait()
            except TimeoutError:
                timed_out = True
                await command.kill()
                await command.wait()
            finally:
                try:
                    await command.kill()
                finally:  # a second cancel leaves no task behind, either
                    shown.ended.set()
                    shown.changed.set()
                    await showing
                await shown.end(*command.status())
        finally:
            await command.aclose()
        code, signal = command.status()
        output = command.output
        return CommandResult(code, signal, output.text(), output.truncated, timed_out)

    async def _run_in_client(
        self,
        call: BaseToolCall,
        argv: Sequence[str],
        cwd: str,
        env: Mapping[str, str],
        timeout_s: float | None,
        output_bytes: int,
    ) -> CommandResult:
        adapter, session_id = self._core.client_adapter, self._core.id
        create = partial(adapter.create_terminal, session_id, argv, cwd, env, output_bytes)
        terminal_id = await self._create_terminal(create)
        timed_out = False
        try:
            await call.add_terminal(terminal_id)  # before it is released (R-TOOL-19)
            try:
                async with asyncio.timeout(timeout_s):
                    code, signal = await adapter.terminal_exit(session_id, terminal_id)
            except TimeoutError:
                timed_out = True
                await adapter.kill_terminal(session_id, terminal_id)
                code, signal = await adapter.terminal_exit(session_id, terminal_id)
            output, truncated = await adapter.terminal_output(session_id, terminal_id)
        finally:
            # Ends it if it still runs (R-TERM-09); a cancel does not stop that.
            adapter.spawn(_release(adapter, session_id, terminal_id))
        return CommandResult(code, signal, output, truncated, timed_out)

    async def _create_terminal(self, create: Callable[[], Coroutine[Any, Any, str]]) -> str:
        """Return the id of the created terminal; release it if the caller was cancelled."""
        adapter, session_id = self._core.client_adapter, self._core.id
        created: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def ask() -> None:
            try:
                terminal_id = await create()
                if created.cancelled():  # R-TERM-09
                    await _release(adapter, session_id, terminal_id)
                else:
                    created.set_result(terminal_id)
            except AccordError as error:
                if not created.done():
                    created.set_exception(error)
            finally:
                created.cancel()  # the connection ends; otherwise it is done

        adapter.spawn(ask())
        try:
            return await created
        except asyncio.CancelledError:
            if created.done() and not created.cancelled() and created.exception() is None:
                adapter.spawn(_release(adapter, session_id, created.result()))
            raise


async def _release(adapter: ClientAdapter, session_id: str, terminal_id: str) -> None:
    """Release a terminal; a client that is shutting down may refuse, and ends it itself."""
    try:
        await adapter.release_terminal(session_id, terminal_id)
    except AccordError as error:
        log.debug("= the terminal %s is not released: %s", terminal_id, error)


class OutputView:
    """Shows the output of a local command while it runs."""

    def __init__(self, core: SessionCore, call: BaseToolCall) -> None:
        self._core = core
        self._call = call
        self._waiting = bytearray()
        self.changed: asyncio.Event = asyncio.Event()
        self.ended: asyncio.Event = asyncio.Event()

    def add(self, data: bytes) -> None:
        self._waiting += data
        if len(self._waiting) > 2 * OUTPUT_BYTES:
            del self._waiting[:-OUTPUT_BYTES]  # the client reads slower
        self.changed.set()

    async def begin(self, argv: Sequence[str], cwd: str, command: LocalCommand) -> None: ...

    async def show(self, data: bytes) -> None: ...

    async def end(self, exit_code: int | None, signal: str | None) -> None: ...

    async def run(self) -> None:
        """Show the output at intervals until the command has ended."""
        while True:
            await self.changed.wait()
            self.changed.clear()
            if self._waiting:
                data = bytes(self._waiting)
                self._waiting.clear()
                await self.show(data)
            if self.ended.is_set():
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(_INTERVAL_S):
                    await self.ended.wait()


class TerminalOutputView(OutputView):
    """Shows the output as a terminal."""

    async def begin(self, argv: Sequence[str], cwd: str, command: LocalCommand) -> None:
        self._id = self._core.next_id("terminal")
        await self._core.publish(TerminalStarted(self._id, shlex.join(argv), cwd, cancellable=True))
        self._core.background.commands[self._id] = self._call, command
        await self._call.add_terminal(self._id)
        await self._tell_background()

    async def show(self, data: bytes) -> None:
        await self._core.publish(TerminalOutputUpdate(self._id, data))

    async def end(self, exit_code: int | None, signal: str | None) -> None:
        try:
            if not self._core.closed:
                await self._core.publish(TerminalExited(self._id, exit_code, signal))
        finally:
            self._core.background.commands.pop(self._id, None)
        await self._tell_background()

    async def _tell_background(self) -> None:
        if self._call.is_in_background:
            await self._core.notify_background()


class TextOutputView(OutputView):
    """Shows the output as text in the tool call, up to a limit."""

    def __init__(self, core: SessionCore, call: BaseToolCall) -> None:
        super().__init__(core, call)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._left = _MAX_SHOWN_CHARS

    async def show(self, data: bytes) -> None:
        text = self._decoder.decode(data)[: self._left]
        if text:
            self._left -= len(text)
            await self._call.append_text(text if self._left else f"{text}\n[…]")
