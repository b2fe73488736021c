"""Terminals that an agent of version 1 may use: real processes, no shell, nothing left behind."""

from __future__ import annotations

import asyncio
import itertools
import os
import shlex
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from accord.client.event_stream import Feed
from accord.client.events import Terminal, TerminalOutput
from accord.errors import InternalError, InvalidParams, ResourceNotFound, StartError
from accord.local.command import LocalCommand, in_shell

__all__ = ("Exit", "TerminalServer")

MOST_OUTPUT_BYTES = 16 * 1024 * 1024  # kept of an output, whatever the agent asks for

Exit = tuple[int | None, str | None]  # a code, or the name of a signal


class _Running:
    """One terminal; what it prints is shown to whoever follows the session."""

    def __init__(
        self,
        terminal: Terminal,
        argv: Sequence[str],
        cwd: str,
        env: Mapping[str, str],
        limit: int,
        feed: Feed,
    ) -> None:
        self.terminal = terminal
        self.waiting: set[asyncio.Future[None]] = set()
        self._feed = feed
        self._behind = False
        self.command = LocalCommand(
            argv, cwd=cwd, env=env, output_bytes=limit, on_output=self._printed
        )
        self._tell(terminal)
        self._watching = asyncio.create_task(self._watch(), name="accord terminal")

    def _printed(self, data: bytes) -> None:
        if self._feed.full:
            self._behind = True  # nothing of it waits; all of it is told later
        elif self._behind:
            self._catch_up()
        else:
            self._tell(TerminalOutput(self.terminal.id, data))

    def _catch_up(self) -> None:
        self._behind = False
        kept = self.command.output.text().encode("utf-8")
        self._tell(TerminalOutput(self.terminal.id, kept, afresh=True))

    def _tell(self, event: Terminal | TerminalOutput) -> None:
        self._feed.emit(event)

    async def _watch(self) -> None:
        code, signal = await self.command.wait()
        if self._behind:
            self._catch_up()
        self._tell(replace(self.terminal, exited=True, exit_code=code, signal=signal))

    async def aclose(self) -> None:
        await self.command.aclose()
        await asyncio.wait([self._watching, *self.waiting])  # who waits is answered first


class TerminalServer:
    """Answers `terminal/` requests of all sessions of a connection."""

    def __init__(self) -> None:
        self._terminals: dict[tuple[str, str], _Running] = {}
        self._numbers = itertools.count(1)

    def create(
        self,
        feed: Feed,
        argv: Sequence[str],
        cwd: str,
        env: Mapping[str, str],
        limit: int | None,
    ) -> str:
        """Start a command; return the id of its terminal.

        A whole line for a shell, in place of a program, is run by the user's shell.
        """
        if not os.path.isabs(cwd):  # noqa: PTH117  # R-TERM-03, about a text
            raise InvalidParams("The working directory of a terminal is absolute")
        if any("\0" in text for text in (cwd, *argv, *env, *env.values())):
            raise InvalidParams("A command and its directory have no NUL character")
        terminal_id = f"terminal-{next(self._numbers)}"
        run = in_shell(argv, cwd, env)
        shown = shlex.join(argv) if run == list(argv) else argv[0]
        terminal = Terminal(id=terminal_id, command=shown, cwd=cwd)
        limit = MOST_OUTPUT_BYTES if limit is None else min(limit, MOST_OUTPUT_BYTES)
        try:
            running = _Running(terminal, run, cwd, env, limit, feed)
        except StartError as exc:
            raise InternalError("The command cannot be started", data={"reason": str(exc)}) from exc
        self._terminals[feed.session_id, terminal_id] = running
        return terminal_id

    def output(self, session_id: str, terminal_id: str) -> tuple[str, bool, Exit | None]:
        """Return what is kept of the output, whether more was there, and how it ended if it has."""
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
        """End a command with all that it has started; its terminal stays."""
        await self._find(session_id, terminal_id).command.kill()

    async def release(self, session_id: str, terminal_id: str) -> None:
        """End a command and forget its terminal."""
        running = self._find(session_id, terminal_id)
        del self._terminals[session_id, terminal_id]
        await running.aclose()

    async def aclose(self, session_id: str | None = None) -> None:
        """End everything, or everything of one session."""
        ending = [key for key in self._terminals if session_id in (None, key[0])]
        closing = [self._terminals.pop(key).aclose() for key in ending]
        await asyncio.gather(*closing)

    def _find(self, session_id: str, terminal_id: str) -> _Running:
        running = self._terminals.get((session_id, terminal_id))
        if running is None:
            raise ResourceNotFound(data={"terminalId": terminal_id})
        return running
