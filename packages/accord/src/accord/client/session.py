"""Sessions, as a client uses them: `ClientSession.prompt` starts a turn."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from accord.client.agent_adapter import (
    AgentAdapter,
    SessionEventStream,
    SessionSetup,
    SessionStatus,
)
from accord.client.events import (
    Event,
    ModeChanged,
    OptionsChanged,
    TitleChanged,
)
from accord.client.transcript import Transcript
from accord.client.turn import (
    CANCEL_TIMEOUT_S,
    ClientTurn,
    Fallback,
    Steered,
    record,
    require_message,
    steer,
)
from accord.errors import (
    LocalProtocolError,
)
from accord.rules.quirks import tolerates
from accord.text.excerpt import excerpt, one_line
from accord.types.content import ContentBlock, require_contents
from accord.types.must_await import must_await, must_enter
from accord.types.session import SessionOption

if TYPE_CHECKING:
    from accord.client.budget import Spent
    from accord.client.handlers import ClientHandlers

log: logging.Logger = logging.getLogger("accord.client")


class SessionView:
    """The readable part of a session, also of one that the agent has opened."""

    def __init__(
        self,
        stream: SessionEventStream,
        adapter: AgentAdapter,
        handlers: ClientHandlers,
        setup: SessionSetup,
    ) -> None:
        self.id: str = stream.session_id
        """The id of the session."""
        self.cwd: str = setup.cwd
        """The working directory of the session."""
        self.directories: tuple[str, ...] = setup.directories
        """The directories that files may be in: `cwd` and the additional ones."""
        self._stream = stream
        self._adapter = adapter
        self._handlers = handlers

    def __repr__(self) -> str:
        state = self.transcript.state
        doing = "" if state is None else f", {excerpt(state.state, 60)}"
        return f"<{type(self).__name__} {excerpt(self.id, 60)!r} in {self.cwd!r}{doing}>"

    def _repr_markdown_(self) -> str:
        return self.transcript._repr_markdown_()  # pyright: ignore[reportPrivateUsage]  # for notebooks

    @property
    def transcript(self) -> Transcript:
        """The transcript of the session; it grows with each update."""
        return self._stream.transcript

    @must_enter(
        "session.events() is entered: write `async with session.events() as events:`, and in it"
        " `async for event in events:`"
    )
    @asynccontextmanager
    async def events(self) -> AsyncGenerator[AsyncIterator[Event], None]:
        """Yield an iterator over the following events outside turns.

        async with session.events() as events:
            async for event in events:
                print(event)
        """
        queue = self._stream.subscribe(self._adapter.remote.connection.flow.backlogs)
        try:
            yield queue
        finally:
            self._stream.unsubscribe(queue)

    def subagent(self, session_id: str) -> SubagentSession:
        """Return the session of a subagent from `transcript.subagents`."""
        setup = self._handlers.find_setup(session_id)
        if setup is None or session_id not in self.transcript.subagents:
            raise LocalProtocolError(f"The session has no subagent {session_id!r}")
        stream = self._handlers.event_stream(session_id, self._adapter.events_from_update)
        return SubagentSession(stream, self._adapter, self._handlers, setup, self._stream)


class SubagentSession(SessionView):
    """The session of a subagent: its updates arrive, and only the agent prompts it."""

    def __init__(
        self,
        stream: SessionEventStream,
        adapter: AgentAdapter,
        handlers: ClientHandlers,
        setup: SessionSetup,
        parent: SessionEventStream,
    ) -> None:
        super().__init__(stream, adapter, handlers, setup)
        self._parent = parent

    async def cancel(self) -> None:
        """Ask the agent to cancel the subagent.

        Its `state` in the transcript of the parent shows when it has stopped. Raises
        `LocalProtocolError` if the subagent is not `cancellable`.
        """
        subagent = self._parent.transcript.subagents.get(self.id)
        if subagent is None or not subagent.cancellable:  # not advertised (R-SUBAG-05)
            raise LocalProtocolError(f"The subagent {self.id!r} cannot be cancelled")
        await self._adapter.cancel(self.id)


class ClientSession(SessionView):
    """A session: send prompts, and read the results in `transcript`."""

    def prompt(
        self,
        *contents: ContentBlock,
        cancel_timeout_s: float = CANCEL_TIMEOUT_S,
        meta: dict[str, Any] | None = None,
    ) -> ClientTurn:
        """Return a turn, which sends the prompt when it is entered with `async with`.

            async with session.prompt("Fix the test") as turn:
                async for event in turn:
                    print(event)
            print(turn.stop_reason, turn.text)

        `meta` is sent as `_meta`.
        """
        if not contents:
            raise ValueError("The prompt must not be empty")  # no content (R-PROMPT-25)
        require_contents("prompt(contents=…)", contents)
        return ClientTurn(
            self._stream, self._adapter, contents, cancel_timeout_s=cancel_timeout_s, meta=meta
        )

    @property
    def spent(self) -> Spent | None:
        """What the session has used; None without a budget."""
        return None if self._stream.meter is None else self._stream.meter.session

    @must_await("session")
    async def steer(self, *contents: ContentBlock, fallback: Fallback = "queue") -> Steered:
        """Say something to the agent in the running turn: see `ClientTurn.steer`.

        The turn can be one that another client has started, if the agent can be steered. Raises
        `LocalProtocolError` if no turn is running.
        """
        if (said := self._stream.steer) is not None:
            return await said(*contents, fallback=fallback)
        require_message(contents)
        if self._stream.is_released:
            raise LocalProtocolError("The session was closed or loaded again: use the new session")
        outcome = None
        if self._adapter.can_be_steered:
            injected = None
            if not self._adapter.echoes_prompts:
                injected = partial(record, self._stream, contents)
            outcome = await steer(self._adapter, self.id, contents, injected)
        match outcome:
            case "injected":
                return Steered("injected")
            case "startedNewTurn":
                return Steered("started", reason="no turn was running")
            case _:
                raise LocalProtocolError(
                    "No turn of this session is running: send it with `session.prompt(…)`"
                )

    @must_await("session")
    async def cancel(self) -> None:
        """Cancel the turn of this session, also one that another client has started."""
        await self._adapter.cancel(self.id)

    @must_await("session")
    async def cancel_tool_call(self, call_id: str) -> None:
        """Ask the agent to cancel one tool call.

        Returns when the agent accepts the request; the status of the call shows when it has
        stopped. Raises `LocalProtocolError` if the call is not `cancellable`: in version 1 no call
        is.
        """
        call = self.transcript.tool_call(call_id)
        if call is None or not call.cancellable:  # not advertised (R-TCAN-01)
            raise LocalProtocolError(f"The tool call {call_id!r} cannot be cancelled")
        await self._adapter.cancel_tool_call(self.id, call_id)

    @must_await("session")
    async def cancel_terminal(self, terminal_id: str) -> None:
        """Ask the agent to stop the command of one terminal.

        Returns when the agent accepts the request; `exited` of the terminal shows when it has
        stopped. Raises `LocalProtocolError` if the terminal is not `cancellable`: in version 1 no
        terminal is.
        """
        shell = self.transcript.terminals.get(terminal_id)
        if shell is None or not shell.terminal.cancellable:  # not advertised (R-TCAN-01)
            raise LocalProtocolError(f"The terminal {terminal_id!r} cannot be cancelled")
        await self._adapter.cancel_terminal(self.id, terminal_id)

    @must_await("session")
    async def set_mode(self, mode: str) -> None:
        """Set the mode: one of the `choices` of `transcript.mode_option`, by its `value`."""
        option = self.transcript.mode_option
        if option is None:
            raise LocalProtocolError("The session has no modes")
        await self._set(option, mode)

    @must_await("session")
    async def set_option(self, option_id: str, value: str | bool) -> None:
        """Set a config option by its id; `transcript.options` lists the options.

            await session.set_option("model", "large")

        Raises `LocalProtocolError`, which lists the ids, for an unknown option.
        """
        options = self.transcript.options
        for option in options:
            if option.id == option_id:
                await self._set(option, value)
                return
        ids = one_line(", ".join(repr(option.id) for option in options), 300)
        known = f": it has {ids}" if options else ", nor any other"
        raise LocalProtocolError(f"The session has no option {option_id!r}{known}")

    async def _set(self, option: SessionOption, value: str | bool) -> None:
        stream = self._stream
        before = self.transcript.options
        options = await self._adapter.set_option(self.id, option, value)
        if options is not None:
            kept = self._adapter.keep_modes(options, self.transcript.options)
            stream.publish(OptionsChanged(kept))
        elif self.transcript.options is before:
            # The agent sent the options neither in its response nor before it.
            self._changed(option, value)

    @tolerates("options-not-returned")
    def _changed(self, option: SessionOption, value: str | bool) -> None:
        """Change an option in the transcript if the response did not contain the options."""
        if option.value == value:
            return
        if option.category == "mode":
            self._stream.publish(ModeChanged(str(value)))
            return
        changed = replace(option, value=value)
        options = self.transcript.options
        self._stream.publish(OptionsChanged(tuple(changed if o is option else o for o in options)))

    @must_await("session")
    async def close(self) -> None:
        """Close the session: the agent stops its work and frees it. It can be loaded again."""
        stream = self._stream
        before = stream.is_cancelling
        stream.is_cancelling = stream.is_cancelling or stream.queue is not None
        try:
            await self._adapter.close_session(self.id)
        except BaseException:
            stream.is_cancelling = before
            raise
        await self._handlers.close_session(self.id)

    @must_await("session")
    async def set_title(self, title: str) -> str:
        """Set the title of the session; return it as the agent has stored it."""
        stream = self._stream
        stored = await self._adapter.set_session_title(self.id, title)
        if stored != self.transcript.title:
            stream.publish(TitleChanged(stored))  # without waiting for an update (R-TITLE-04)
        return stored

    @must_await("session")
    async def status(self) -> SessionStatus:
        """Return whether the session is open in the agent, and its state."""
        return await self._adapter.session_status(self.id)

    @must_await("session")
    async def archive(self) -> None:
        """Close and archive the session: lists contain it only if archived ones are included."""
        await self._adapter.archive_session(self.id)
        await self._handlers.close_session(self.id)
