"""The commands of a session: in the client if it has terminals, otherwise on this machine."""

from __future__ import annotations

import asyncio
import codecs
import logging
import shlex
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from accord.agent.tool_call import BaseToolCall, current_tool_call
from accord.agent.updates import TerminalExited, TerminalOutputUpdate, TerminalStarted
from accord.errors import AccordError
from accord.local.command import InPlace, LocalCommand
from accord.local.files import Roots

if TYPE_CHECKING:
    from accord.agent.client_adapter import ClientAdapter
    from accord.agent.session_core import SessionCore


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
