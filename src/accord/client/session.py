"""A session of an agent, as a client holds it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from msgspec.structs import replace

from accord.client.agent_adapter import AgentAdapter, SessionSetup, SessionStatus
from accord.client.event_stream import SessionEventStream
from accord.client.events import Event, ModeChanged, OptionsChanged, TitleChanged
from accord.client.services import ClientServices
from accord.client.transcript import Transcript
from accord.client.turn import ClientTurn
from accord.errors import LocalProtocolError
from accord.rules.quirks import tolerates
from accord.text.excerpt import excerpt
from accord.types.content import ContentBlock, require_contents
from accord.types.session import SessionOption

__all__ = ("ClientSession", "SessionView", "SubagentSession")

CANCEL_TIMEOUT_S = 10.0  # for the agent to end a turn that was cancelled


class SessionView:
    """What can be seen of a session; the agent may have opened it by itself."""

    def __init__(
        self,
        stream: SessionEventStream,
        adapter: AgentAdapter,
        services: ClientServices,
        setup: SessionSetup,
    ) -> None:
        self.id = stream.session_id
        self.cwd = setup.cwd
        self.directories = setup.directories
        self._stream = stream
        self._adapter = adapter
        self._services = services

    def __repr__(self) -> str:
        state = self.transcript.state
        doing = "" if state is None else f", {excerpt(state.state, 60)}"
        return f"<{type(self).__name__} {excerpt(self.id, 60)!r} in {self.cwd!r}{doing}>"

    def _repr_markdown_(self) -> str:
        return self.transcript._repr_markdown_()  # pyright: ignore[reportPrivateUsage]  # of notebooks

    @property
    def transcript(self) -> Transcript:
        """What the session has come to; it grows as updates come."""
        return self._stream.transcript

    @asynccontextmanager
    async def events(self) -> AsyncGenerator[AsyncIterator[Event], None]:
        """Give an iterator over what happens outside turns from now on."""
        queue = self._stream.subscribe(self._adapter.remote.connection.flow.backlogs)
        try:
            yield queue
        finally:
            self._stream.unsubscribe(queue)

    def subagent(self, session_id: str) -> SubagentSession:
        """Return the session of a subagent, one of `transcript.subagents`."""
        setup = self._services.find_setup(session_id)
        if setup is None or session_id not in self.transcript.subagents:
            raise LocalProtocolError(f"The session has no subagent {session_id!r}")
        feed = self._services.event_stream(session_id, self._adapter.events_from_update)
        return SubagentSession(feed, self._adapter, self._services, setup, self._stream)


class SubagentSession(SessionView):
    """The session of a subagent: what it does comes by itself, and it is prompted by its agent."""

    def __init__(
        self,
        stream: SessionEventStream,
        adapter: AgentAdapter,
        services: ClientServices,
        setup: SessionSetup,
        parent: SessionEventStream,
    ) -> None:
        super().__init__(stream, adapter, services, setup)
        self._parent = parent

    async def cancel(self) -> None:
        """Ask the agent to stop the subagent; raise `LocalProtocolError` where that is not offered.

        Its `state`, in the parent's transcript, tells when it has stopped.
        """
        subagent = self._parent.transcript.subagents.get(self.id)
        if subagent is None or not subagent.cancellable:  # R-SUBAG-05
            raise LocalProtocolError(f"The subagent {self.id!r} cannot be cancelled")
        await self._adapter.cancel(self.id)


class ClientSession(SessionView):
    """A session: prompt it, and read in `transcript` all that came of it."""

    def prompt(
        self,
        *contents: ContentBlock,
        cancel_timeout_s: float = CANCEL_TIMEOUT_S,
        meta: dict[str, Any] | None = None,
    ) -> ClientTurn:
        """Return a turn that sends this when it is entered, with `async with`.

        `meta` goes along as `_meta`.
        """
        if not contents:
            raise ValueError("Expected something to say")  # R-PROMPT-25
        require_contents("prompt(contents=…)", contents)
        return ClientTurn(
            self._stream, self._adapter, contents, cancel_timeout_s=cancel_timeout_s, meta=meta
        )

    async def cancel(self) -> None:
        """Ask the agent to stop what it does in this session, whoever has asked for it."""
        await self._adapter.cancel(self.id)

    async def cancel_tool_call(self, call_id: str) -> None:
        """Ask the agent to stop one tool call, one that has `cancellable`.

        Returns when that is accepted; the call's status tells when it has stopped. Raises
        `LocalProtocolError` where it is not offered, which in version 1 it never is.
        """
        call = self.transcript.tool_call(call_id)
        if call is None or not call.cancellable:  # R-TCAN-01
            raise LocalProtocolError(f"The tool call {call_id!r} cannot be cancelled by itself")
        await self._adapter.cancel_tool_call(self.id, call_id)

    async def cancel_terminal(self, terminal_id: str) -> None:
        """Ask the agent to stop the command of one terminal, one that has `cancellable`.

        Returns when that is accepted; the terminal's `exited` tells when it has stopped. Raises
        `LocalProtocolError` where it is not offered, which in version 1 it never is.
        """
        shell = self.transcript.terminals.get(terminal_id)
        if shell is None or not shell.terminal.cancellable:  # R-TCAN-01
            raise LocalProtocolError(f"The terminal {terminal_id!r} cannot be cancelled")
        await self._adapter.cancel_terminal(self.id, terminal_id)

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
        feed = self._stream
        before = self.transcript.options
        options = await self._adapter.set_option(self.id, option, value)
        if options is not None:
            feed.publish(OptionsChanged(options))
        elif self.transcript.options is before:
            # The agent sent no options, neither in its response nor before it.
            self._changed(option, value)

    @tolerates("options-not-returned")
    def _changed(self, option: SessionOption, value: str | bool) -> None:
        """Take an option as changed that the agent has set without returning the options."""
        if option.value == value:
            return
        if option.category == "mode":
            self._stream.publish(ModeChanged(str(value)))
            return
        changed = replace(option, value=value)
        options = self.transcript.options
        self._stream.publish(OptionsChanged(tuple(changed if o is option else o for o in options)))

    async def close(self) -> None:
        """Let the agent stop what runs in the session and free it; it can be opened again."""
        feed = self._stream
        before = feed.is_cancelling
        feed.is_cancelling = feed.is_cancelling or feed.queue is not None
        try:
            await self._adapter.close_session(self.id)
        except BaseException:
            feed.is_cancelling = before
            raise
        await self._services.close_session(self.id)

    async def set_title(self, title: str) -> str:
        """Give the session a title; returns it as the agent has stored it."""
        feed = self._stream
        stored = await self._adapter.set_session_title(self.id, title)
        if stored != self.transcript.title:
            feed.publish(TitleChanged(stored))  # R-TITLE-04
        return stored

    async def status(self) -> SessionStatus:
        """Ask whether the agent has the session in memory, and what it does there."""
        return await self._adapter.session_status(self.id)

    async def archive(self) -> None:
        """Close the session and put it away: lists show it only when asked for archived ones."""
        await self._adapter.archive_session(self.id)
        await self._services.close_session(self.id)
