"""The terminals of a v1 agent: processes without a shell, stopped with their children."""

from __future__ import annotations

import asyncio
import itertools
import os
import shlex
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from accord.client.event_stream import SessionEventStream
from accord.client.events import AgentTerminal, TerminalOutputChunk
from accord.errors import InternalError, InvalidParams, ResourceNotFound, StartError
from accord.local.command import LocalCommand, in_shell

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
