"""A session of an agent, as a client holds it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

from accord.client.desk import Desk
from accord.client.dialect import Dialect, Opened, Setup
from accord.client.events import Commands, Event, ModeChanged, Options
from accord.client.feed import Feed
from accord.client.transcript import Transcript
from accord.client.turn import ClientTurn
from accord.errors import LocalProtocolError
from accord.model.content import Content
from accord.model.session import SessionOption

__all__ = ("ClientSession",)

CANCEL_TIMEOUT_S = 10.0  # for the agent to end a turn that was cancelled


class ClientSession:
    """A session: prompt it, and read in `transcript` all that came of it."""

    def __init__(self, feed: Feed, dialect: Dialect, desk: Desk, setup: Setup) -> None:
        self.id = feed.session_id
        self.cwd = setup.cwd
        self.roots = (setup.cwd, *setup.roots)
        self._feed = feed
        self._dialect = dialect
        self._desk = desk

    @property
    def transcript(self) -> Transcript:
        """What the session has come to; it grows as updates come."""
        return self._feed.transcript

    def prompt(self, *contents: Content, cancel_timeout_s: float = CANCEL_TIMEOUT_S) -> ClientTurn:
        """Return a turn that sends this when it is entered, with `async with`."""
        if not contents:
            raise ValueError("Expected something to say")  # R-PROMPT-25
        return ClientTurn(self._feed, self._dialect, contents, cancel_timeout_s=cancel_timeout_s)

    @asynccontextmanager
    async def updates(self) -> AsyncGenerator[AsyncIterator[Event], None]:
        """Give an iterator over what happens outside turns from now on."""
        queue = self._feed.listen()
        try:
            yield queue
        finally:
            self._feed.leave(queue)

    async def cancel(self) -> None:
        """Ask the agent to stop what it does in this session, whoever has asked for it."""
        await self._dialect.cancel(self.id)

    async def set_mode(self, mode: str) -> None:
        """Switch the mode; the modes there are stand in `transcript.mode_option`."""
        option = self.transcript.mode_option
        if option is None:
            raise LocalProtocolError("The session has no modes")
        await self._set(option, mode)

    async def set_option(self, option_id: str, value: str | bool) -> None:
        """Set an option; the options there are stand in `transcript.options`."""
        for option in self.transcript.options:
            if option.id == option_id:
                await self._set(option, value)
                return
        raise LocalProtocolError(f"The session has no option {option_id!r}")

    async def _set(self, option: SessionOption, value: str | bool) -> None:
        feed = self._feed
        with feed.never_full():
            options = await self._dialect.set_option(self.id, option, value)
            if options is not None:
                feed.emit(Options(options))
            elif option.category == "mode" and self.transcript.mode != value:
                feed.emit(ModeChanged(str(value)))

    async def close(self) -> None:
        """Let the agent stop what runs in the session and free it; it can be opened again."""
        with self._feed.never_full():
            await self._dialect.close_session(self.id)
        await self._desk.leave(self.id)

    def adopt(self, opened: Opened) -> None:
        """For whoever opens sessions: take what the agent said in its answer."""
        feed = self._feed
        if opened.options is not None:
            feed.emit(Options(opened.options))
        if opened.commands is not None:
            feed.emit(Commands(opened.commands))
