"""Sessions and turns, as a client uses them.

`ClientTurn` is one prompt and its events, as an asynchronous iterator; `ClientSession` starts it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from msgspec.structs import replace

from accord.client.agent_adapter import (
    AgentAdapter,
    EventQueue,
    SessionEventStream,
    SessionSetup,
    SessionStatus,
    TurnResult,
)
from accord.client.events import (
    ContentChunk,
    Event,
    MessageReplaced,
    Meta,
    ModeChanged,
    OptionsChanged,
    StateChanged,
    TitleChanged,
    ToolCall,
    UserText,
    text_event,
)
from accord.client.transcript import AgentText, Transcript, calls_left_open, read_agent_text
from accord.errors import (
    AccordError,
    BacklogExceeded,
    CancelTimeout,
    InternalError,
    LocalProtocolError,
    RequestError,
    TransportError,
    TurnInterrupted,
)
from accord.rules.quirks import tolerates
from accord.text.excerpt import excerpt, one_line
from accord.types.content import ContentBlock, require_contents
from accord.types.must_await import MustEnter, must_await, must_enter
from accord.types.session import SessionOption, StopReason, TokenUsage
from accord.types.tool_calls import TerminalView

if TYPE_CHECKING:
    from accord.client.handlers import ClientHandlers

log: logging.Logger = logging.getLogger("accord.client")


_HINT = (
    "write `async with session.prompt(…) as turn:`, and in it `await turn.wait()` or"
    " `async for event in turn:`"
)


class ClientTurn(MustEnter):
    """A turn: enter it to send the prompt, iterate over its events, read its stop reason.

    Leaving the block waits for the end of the turn. Leaving it by an exception cancels the turn
    first. Iterating raises `RequestError` if the agent fails, and `TransportError` if the
    connection ends: `TurnInterrupted` if it was established again. Leaving the block raises the
    same error if it was not raised before.
    """

    _hint = f"session.prompt(…) is not awaited or used directly: {_HINT}"

    def __init__(
        self,
        stream: SessionEventStream,
        adapter: AgentAdapter,
        contents: Sequence[ContentBlock],
        *,
        cancel_timeout_s: float,
        meta: Meta | None = None,
    ) -> None:
        self.stop_reason: StopReason | None = None
        """Why the turn ended; None until then."""
        self.token_usage: TokenUsage | None = None
        """The tokens that the turn used, if the agent reports them."""
        self.error: BaseException | None = None
        """Why the turn failed."""
        self._stream = stream
        self._adapter = adapter
        self.meta: Meta | None = None
        """The `_meta` of the turn's end."""
        self._contents = contents
        self._meta = meta
        self._cancel_timeout_s = cancel_timeout_s
        self._number = 0  # the number of the turn in its session
        self._agent_text = AgentText(0)
        self._queue: EventQueue | None = None
        self._call: asyncio.Task[None] | None = None
        self._is_settled = False  # the agent has ended the turn
        self._sent = asyncio.Event()  # the prompt was sent, or the turn has ended
        self._has_ended = asyncio.Event()
        self._deadline: asyncio.TimerHandle | None = None  # of the end of a cancelled turn
        self._completion = PromptCompletion(None)

    def __repr__(self) -> str:
        state = "not entered" if self._queue is None else self.stop_reason or "running"
        name = excerpt(self._stream.session_id, 60)
        return f"<ClientTurn of session {name!r}: {excerpt(state, 60)}, {excerpt(self.text, 60)!r}>"

    def _repr_markdown_(self) -> str:
        return self.text if self.error is None else f"{self.text}\n\n**Error:** {self.error}"

    @property
    def text(self) -> str:
        """The text of the agent in this turn so far, up to the start of the next turn."""
        if self._queue is None:
            return ""
        return read_agent_text(self._stream.transcript, self._agent_text, self._items.stop)

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The tool calls that began in this turn, in their current state."""
        if self._queue is None:
            return []
        items = self._stream.transcript.items[self._items]
        return [item for item in items if isinstance(item, ToolCall)]

    @property
    def _items(self) -> slice:
        """The place of the turn's items in the transcript."""
        starts = self._stream.turn_starts
        until = starts[self._number + 1] if self._number + 1 < len(starts) else None
        return slice(starts[self._number], until)

    async def __aenter__(self) -> Self:
        stream = self._stream
        if self._queue is not None:
            raise LocalProtocolError("A turn can be entered only once")
        if stream.queue is not None:
            raise LocalProtocolError("A turn of this session is still running")
        if stream.disconnect_error is not None:
            raise stream.disconnect_error
        if stream.is_released:
            raise LocalProtocolError("The session was closed or loaded again: use the new session")
        self._number = len(stream.turn_starts)
        stream.turn_starts.append(len(stream.transcript.items))
        self._agent_text = AgentText(stream.turn_starts[-1])
        flow = self._adapter.remote.connection.flow
        self._queue = stream.queue = EventQueue(
            flow.backlogs.open(stream.session_id, self._on_backlog_exceeded), self._explain
        )
        stream.is_cancelling = False
        # The end of an earlier turn that was left can arrive late.
        before = (
            StateChanged(state="running") if stream.turn_unfinished else stream.transcript.state
        )
        self._completion = PromptCompletion(before)
        if self._adapter.echoes_prompts:
            stream.on_event, stream.on_release = self._on_event, self._on_release
        stream.on_disconnect = self._on_disconnect
        self._call = asyncio.create_task(self._run(), name="accord turn")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._call is not None
        assert self._queue is not None
        try:
            self._queue.close()  # nothing iterates over them any more
            if error is None:
                await self._has_ended.wait()
            elif not self._has_ended.is_set():
                await self._cancel_and_wait()
        finally:
            if not self._has_ended.is_set():
                self._detach()
                self._call.cancel()
        await self._wait_call()
        if error is None and self.error is not None and not self._queue.error_raised:
            await self._explain(self.error)
            raise self.error

    async def _explain(self, error: BaseException) -> None:
        """Add what the agent's process wrote last; in v2 the error comes as a state."""
        await self._adapter.remote.connection.transport.explain(error)

    async def _wait_call(self) -> None:
        """Wait for the response to the prompt; if the turn has failed, for a limited time."""
        assert self._call is not None
        behind = isinstance(self.error, BacklogExceeded)
        await asyncio.wait([self._call], timeout=self._cancel_timeout_s if behind else None)
        if not self._call.done():
            self._call.cancel()
            await asyncio.wait([self._call])

    def __aiter__(self) -> EventQueue:
        if self._queue is None:
            raise LocalProtocolError(f"Enter the turn with `async with` first: {_HINT}")
        return self._queue

    @must_await("turn")
    async def cancel(self, *, timeout_s: float | None = None) -> None:
        """Cancel the turn, which then ends with the stop reason `cancelled`.

        The open tool calls of this turn are marked as cancelled at once; later updates still
        apply. If the agent does not end the turn within `timeout_s`, the turn fails with
        `CancelTimeout`. The default is the `cancel_timeout_s` of `prompt`.

        Raise `LocalProtocolError` if the turn was not entered with `async with`.
        """
        if self._queue is None:
            raise LocalProtocolError(f"Enter the turn with `async with` first: {_HINT}")
        if self._has_ended.is_set() or self._stream.is_cancelling:
            return
        stream = self._stream
        stream.is_cancelling = True
        timeout_s = self._cancel_timeout_s if timeout_s is None else timeout_s
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(timeout_s, self._on_cancel_timeout, timeout_s)
        # Both would wait for an agent that does not read.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._sent.wait()  # a cancel before the prompt has no effect
                await self._adapter.cancel(stream.session_id)
        if self._has_ended.is_set():
            return
        for call in self._cancelled_calls():
            stream.publish(replace(call, status="cancelled", changed=("status",)))

    def _cancelled_calls(self) -> list[ToolCall]:
        """Return the open tool calls that began in this turn.

        Background work continues (R-CANCEL-02); it is listed by its call or by its terminal.
        """
        state = self._stream.transcript.state
        background = () if state is None else state.background or ()
        return [
            call
            for call in self.tool_calls
            if call.is_open
            and call.id not in background
            and not any(
                isinstance(part, TerminalView) and part.terminal_id in background
                for part in call.content
            )
        ]

    @must_await("turn")
    async def wait(self) -> StopReason:
        """Wait for the end of the turn, dropping its events; return the stop reason."""
        async for _ in self:
            pass
        assert self.stop_reason is not None
        return self.stop_reason

    # Running.

    async def _run(self) -> None:
        stream, queue = self._stream, self._queue
        assert queue is not None
        try:
            if not self._adapter.echoes_prompts:
                self._record_prompt()
                # In v1 the response follows the events of the turn.
                queue.backlog.calls = 1
            self._sent.set()
            ended = await self._adapter.prompt(
                stream.session_id, self._contents, self._on_message_id, self._meta
            )
        except Exception as exc:  # noqa: BLE001  # raised by the iteration or at the end of the block
            self._is_settled = isinstance(exc, RequestError)
            self._end(TurnResult(stop_reason="error"), exc)
            return
        finally:
            queue.backlog.calls = 0
        if ended is not None:
            self._is_settled = True
            self._end(ended)

    def _record_prompt(self) -> None:
        """Add the prompt to the transcript, like an agent that echoes it."""
        stream = self._stream
        message_id = f"prompt {stream.transcript.prompt_count + 1}"
        for content in self._contents:
            if isinstance(content, str):
                stream.publish(text_event(UserText, content, message_id))
            else:
                stream.publish(ContentChunk(content, "user", message_id))
        stream.pending_echo = "".join(
            content for content in self._contents if isinstance(content, str)
        )
        stream.publish(StateChanged(state="running"))

    def _on_message_id(self, message_id: str) -> None:
        if (ended := self._completion.on_message_id(message_id)) is not None:
            self._is_settled = True
            self._end(ended)

    def _on_event(self, event: Event) -> None:
        if (ended := self._completion.on_event(event)) is not None:
            self._is_settled = True
            self._end(ended)

    def _on_release(self) -> None:
        """End the turn: the session was closed or loaded again, so its last state cannot arrive."""
        self._end(TurnResult(stop_reason="cancelled"))

    def _on_disconnect(self, error: BaseException) -> None:
        """End the turn with the connection."""
        self._end(TurnResult(stop_reason="error"), error)

    def _on_backlog_exceeded(self, error: BacklogExceeded) -> None:
        """Fail the turn: its events arrive faster than they are consumed."""
        self._end(TurnResult(stop_reason="error"), error)
        self._adapter.remote.connection.spawn(self._stop())

    async def _stop(self) -> None:
        with suppress(AccordError):
            await self._adapter.cancel(self._stream.session_id)

    @tolerates("cancel-ignored")
    def _on_cancel_timeout(self, timeout_s: float) -> None:
        """Fail the turn: the agent has not ended it in time."""
        within = f"within {timeout_s:g} seconds after it was cancelled"
        error = CancelTimeout(f"The agent did not end the turn {within}")
        self._end(TurnResult(stop_reason="error"), error)
        if self._call is not None:
            self._call.cancel()

    async def _cancel_and_wait(self) -> None:
        """Cancel the turn and wait for its end, up to the cancel timeout."""
        try:
            async with asyncio.timeout(self._cancel_timeout_s):
                await self.cancel()
                await self._has_ended.wait()
        except TimeoutError:
            log.warning("! the agent did not end a cancelled turn")
        except AccordError:
            log.debug("! the turn could not be cancelled", exc_info=True)

    @tolerates("error-after-cancel")
    def _end(self, ended: TurnResult, error: BaseException | None = None) -> None:
        if self._has_ended.is_set():
            return
        error = error or ended.error
        stop_reason = ended.stop_reason
        if isinstance(error, RequestError) and self._stream.is_cancelling:
            # Some agents report the abort as an error: the turn counts as cancelled (R-CANCEL-06).
            log.debug("! the cancelled turn ended in an error: %s", error)
            error, stop_reason = None, "cancelled"
        if stop_reason == "error" and error is None:
            error = InternalError("The agent failed without giving a reason")
        self.stop_reason, self.token_usage, self.error = stop_reason, ended.token_usage, error
        self.meta = ended.meta
        for call in calls_left_open(self._stream.transcript, self._adapter.version):
            self._stream.publish(call)
        if self._has_ended.is_set():
            return  # its consumer was too slow for these events
        if not self._adapter.echoes_prompts and (
            isinstance(error, TurnInterrupted) or not isinstance(error, TransportError)
        ):
            self._stream.publish(
                StateChanged(
                    state="idle",
                    stop_reason=stop_reason,
                    error=error if isinstance(error, RequestError) else None,
                    token_usage=ended.token_usage,
                )
            )
        self._detach()

    def _detach(self) -> None:
        """Detach the turn from the session, so that another turn can start."""
        assert self._queue is not None
        self._sent.set()
        self._has_ended.set()
        if self._deadline is not None:
            self._deadline.cancel()
        stream = self._stream
        if stream.queue is self._queue:
            stream.queue = stream.on_event = stream.on_disconnect = stream.on_release = None
            stream.is_cancelling = False
            stream.turn_unfinished = not self._is_settled
            stream.pending_echo = ""
        self._queue.end(self.error)


class PromptCompletion:
    """Finds the end of a v2 turn, whose prompt is answered when it is inserted (R-PROMPT-17).

    The answer, the echo of the message and the states come in any order (R-PROMPT-31): what
    counts is the first idle state after the answer or after the echo.
    """

    def __init__(self, before: StateChanged | None) -> None:
        self._before = before  # the state before the prompt, or a later idle one
        self._message_id: str | None = None
        self._echoed: set[str] = set()
        self._idle_after: dict[str, StateChanged] = {}
        self._last: StateChanged | None = None  # since the prompt was sent
        self._ran = False

    def on_event(self, event: Event) -> TurnResult | None:
        match event:
            case (
                UserText(message_id=str() as message_id)
                | MessageReplaced(role="user", message_id=message_id)
                | ContentChunk(role="user", message_id=str() as message_id)
            ):
                self._echoed.add(message_id)
            case StateChanged(state="idle"):
                if self._is_about_background(event):
                    self._before = event
                    return None
                self._last = event
                if self._message_id is not None:
                    return _turn_result(event)
                for message_id in self._echoed:
                    self._idle_after.setdefault(message_id, event)
            case StateChanged():
                self._last = event
                self._ran = True
            case _:
                pass
        return None

    def _is_about_background(self, idle: StateChanged) -> bool:
        """Return whether only the background work of an idle session changed (R-PROMPT-29)."""
        before = self._before
        return (
            not self._ran
            and before is not None
            and before.state == "idle"
            and idle.background is not None
            and idle.background != before.background
            and idle.stop_reason in (None, before.stop_reason)
        )

    def on_message_id(self, message_id: str) -> TurnResult | None:
        self._message_id = message_id
        idle = self._idle_after.get(message_id)
        last = self._last
        if idle is None and last is not None and last.state == "idle":
            # The prompt was not echoed, but only its work has run since it was sent.
            was_idle = self._before is None or self._before.state == "idle"
            idle = last if was_idle and self._ran else None
        return None if idle is None else _turn_result(idle)


@tolerates("idle-without-reason")
def _turn_result(idle: StateChanged) -> TurnResult:
    return TurnResult(
        stop_reason=idle.stop_reason or "end_turn",
        token_usage=idle.token_usage,
        error=idle.error,
        meta=idle.meta,
    )


CANCEL_TIMEOUT_S = 10.0  # for the agent to end a cancelled turn


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
