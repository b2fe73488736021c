"""One prompt and all that comes of it, as an asynchronous iterator of events."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn

from msgspec.structs import replace

from accord.client.agent_adapter import Dialect, Ended
from accord.client.event_stream import EventQueue, Feed
from accord.client.events import Event, Media, Meta, Rewritten, StateChanged, UserText
from accord.client.message import AgentText
from accord.client.metadata import said
from accord.errors import (
    AccordError,
    BacklogExceeded,
    CancelTimeout,
    InternalError,
    LocalProtocolError,
    RequestError,
    TransportError,
)
from accord.rules.quirks import tolerates
from accord.text.excerpt import excerpt
from accord.types.content import Content
from accord.types.session import StopReason, Tokens

if TYPE_CHECKING:
    from typing import Self

__all__ = ("ClientTurn",)

log = logging.getLogger("accord.client")


class ClientTurn:
    """A turn: enter it to send the prompt, iterate over its events, read how it ended.

    Leaving the block waits for the end of the turn; leaving it by an exception cancels the turn
    first. Iterating raises `RequestError` when the agent fails and `TransportError` when it is
    gone; so does leaving, unless it was raised before.
    """

    def __init__(
        self,
        feed: Feed,
        dialect: Dialect,
        contents: Sequence[Content],
        *,
        cancel_timeout_s: float,
        meta: Meta | None = None,
    ) -> None:
        self.stop_reason: StopReason | None = None  # None until the turn has ended
        self.tokens: Tokens | None = None  # what it took, where the agent tells
        self.error: BaseException | None = None  # what it failed with
        self._feed = feed
        self._dialect = dialect
        self.meta: Meta | None = None  # the `_meta` that came with its end
        self._contents = contents
        self._meta = meta
        self._cancel_timeout_s = cancel_timeout_s
        self._number = 0  # among the turns of the session
        self._said = AgentText(0)
        self._queue: EventQueue | None = None
        self._call: asyncio.Task[None] | None = None
        self._is_settled = False  # the agent has ended the turn
        self._sent = asyncio.Event()  # the prompt is on its way, or never will be
        self._over = asyncio.Event()
        self._deadline: asyncio.TimerHandle | None = None  # of a cancel
        self._ending = _Ending(None)

    def __repr__(self) -> str:
        state = "not entered" if self._queue is None else self.stop_reason or "running"
        name = excerpt(self._feed.session_id, 60)
        return f"<ClientTurn of session {name!r}: {excerpt(state, 60)}, {excerpt(self.text, 60)!r}>"

    def _repr_markdown_(self) -> str:
        return self.text if self.error is None else f"{self.text}\n\n**Error:** {self.error}"

    @property
    def text(self) -> str:
        """What the agent has said in this turn so far; what comes before the next one counts."""
        if self._queue is None:
            return ""
        starts = self._feed.turns_from
        until = starts[self._number + 1] if self._number + 1 < len(starts) else None
        return self._feed.transcript.said(self._said, until)

    async def __aenter__(self) -> Self:
        feed = self._feed
        if self._queue is not None:
            raise LocalProtocolError("A turn can be entered once")
        if feed.queue is not None:
            raise LocalProtocolError("A turn of this session is still running")
        if feed.ended is not None:
            raise feed.ended
        if feed.is_released:
            raise LocalProtocolError("The session was closed, or loaded again: use the new one")
        self._number = len(feed.turns_from)
        feed.turns_from.append(len(feed.transcript.items))
        self._said = AgentText(feed.turns_from[-1])
        flow = self._dialect.wire.connection.flow
        self._queue = feed.queue = EventQueue(flow.backlogs.open(feed.session_id, self._exceeded))
        feed.cancelling = False
        # The end of a turn that was left may come late, and is not that of this one.
        before = StateChanged(state="running") if feed.unsettled else feed.transcript.state
        self._ending = _Ending(before)
        if self._dialect.echoes_prompts:
            feed.watch, feed.released = self._watch, self._released
        feed.fail = self._fail
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
            self._queue.close()  # they are not taken any more
            if error is None:
                await self._over.wait()
            elif not self._over.is_set():
                await self._give_up()
        finally:
            if not self._over.is_set():
                self._leave()
                self._call.cancel()
        await self._wait_call()
        if error is None and self.error is not None and not self._queue.error_taken:
            raise self.error

    async def _wait_call(self) -> None:
        """Wait for the prompt's response; for that of a failed turn, only for a limited time."""
        assert self._call is not None
        behind = isinstance(self.error, BacklogExceeded)
        await asyncio.wait([self._call], timeout=self._cancel_timeout_s if behind else None)
        if not self._call.done():
            self._call.cancel()
            await asyncio.wait([self._call])

    if not TYPE_CHECKING:  # type checkers are to refuse it

        def __await__(self) -> NoReturn:
            raise TypeError(
                "session.prompt(…) is not awaited: write `async with session.prompt(…) as turn:`,"
                " and in it `await turn.wait()` or `async for event in turn:`"
            )

    def __aiter__(self) -> EventQueue:
        if self._queue is None:
            raise LocalProtocolError("Enter the turn with `async with` first")
        return self._queue

    async def cancel(self, *, timeout_s: float | None = None) -> None:
        """Ask the agent to stop; the turn then ends with the stop reason `cancelled`.

        Tool calls that are not done are shown as cancelled at once; what still comes counts. If
        the agent has not ended the turn after `timeout_s`, which is `cancel_timeout_s` of `prompt`
        if not given, the turn fails with `CancelTimeout`.
        """
        if self._over.is_set() or self._feed.cancelling:
            return
        feed = self._feed
        feed.cancelling = True
        timeout_s = self._cancel_timeout_s if timeout_s is None else timeout_s
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(timeout_s, self._give_in, timeout_s)
        # An agent that does not read would hold both up.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._sent.wait()  # what comes before the prompt cancels nothing
                await self._dialect.cancel(feed.session_id)
        if self._over.is_set():
            return
        state = feed.transcript.state
        background = () if state is None else state.background or ()
        for call in feed.transcript.open_calls:
            if call.id not in background:  # R-CANCEL-02
                feed.emit(replace(call, status="cancelled", changed=("status",)))

    async def wait(self) -> StopReason:
        """Wait for the end without looking at events; return why the turn stopped."""
        async for _ in self:
            pass
        assert self.stop_reason is not None
        return self.stop_reason

    # How it runs.

    async def _run(self) -> None:
        feed, queue = self._feed, self._queue
        assert queue is not None
        try:
            if not self._dialect.echoes_prompts:
                self._tell_of_prompt()
                # In this version the response follows the events of the turn.
                queue.backlog.calls = 1
            self._sent.set()
            ended = await self._dialect.prompt(
                feed.session_id, self._contents, self._inserted, self._meta
            )
        except Exception as exc:  # noqa: BLE001  # raised to who iterates, or leaves
            self._is_settled = isinstance(exc, RequestError)
            self._end(Ended(stop_reason="error"), exc)
            return
        finally:
            queue.backlog.calls = 0
        if ended is not None:
            self._is_settled = True
            self._end(ended)

    def _tell_of_prompt(self) -> None:
        """Let the prompt be in the transcript, as an agent that echoes it would."""
        feed = self._feed
        message_id = f"prompt {feed.transcript.prompts + 1}"
        for content in self._contents:
            if isinstance(content, str):
                feed.emit(said(UserText, content, message_id))
            else:
                feed.emit(Media(content, "user", message_id))
        feed.echo = "".join(content for content in self._contents if isinstance(content, str))
        feed.emit(StateChanged(state="running"))

    def _inserted(self, message_id: str) -> None:
        if (ended := self._ending.inserted(message_id)) is not None:
            self._is_settled = True
            self._end(ended)

    def _watch(self, event: Event) -> None:
        if (ended := self._ending.watch(event)) is not None:
            self._is_settled = True
            self._end(ended)

    def _released(self) -> None:
        """The session was closed, or loaded again: the state that ends this turn cannot come."""
        self._end(Ended(stop_reason="cancelled"))

    def _fail(self, error: BaseException) -> None:
        """The connection has ended."""
        self._end(Ended(stop_reason="error"), error)

    def _exceeded(self, error: BacklogExceeded) -> None:
        """The events come faster than they are taken."""
        self._end(Ended(stop_reason="error"), error)
        self._dialect.wire.connection.spawn(self._stop())

    async def _stop(self) -> None:
        with suppress(AccordError):
            await self._dialect.cancel(self._feed.session_id)

    def _give_in(self, timeout_s: float) -> None:
        """The time to end the cancelled turn is over."""
        within = f"within {timeout_s:g} seconds after it was cancelled"
        error = CancelTimeout(f"The agent did not end the turn {within}")
        self._end(Ended(stop_reason="error"), error)
        if self._call is not None:
            self._call.cancel()

    async def _give_up(self) -> None:
        """Cancel the turn and wait for its end, though not for ever."""
        try:
            async with asyncio.timeout(self._cancel_timeout_s):
                await self.cancel()
                await self._over.wait()
        except TimeoutError:
            log.warning("! the agent did not end a turn that was cancelled")
        except AccordError:
            log.debug("! the turn could not be cancelled", exc_info=True)

    @tolerates("error-after-cancel")
    def _end(self, ended: Ended, error: BaseException | None = None) -> None:
        if self._over.is_set():
            return
        error = error or ended.error
        stop_reason = ended.stop_reason
        if isinstance(error, RequestError) and self._feed.cancelling:
            # R-CANCEL-06 is not known everywhere: an aborted turn is cancelled, not broken.
            log.debug("! the cancelled turn ended in an error: %s", error)
            error, stop_reason = None, "cancelled"
        if stop_reason == "error" and error is None:
            error = InternalError("The agent failed and did not say why")
        self.stop_reason, self.tokens, self.error = stop_reason, ended.tokens, error
        self.meta = ended.meta
        if not self._dialect.echoes_prompts and not isinstance(error, TransportError):
            self._feed.emit(
                StateChanged(
                    state="idle",
                    stop_reason=stop_reason,
                    error=error if isinstance(error, RequestError) else None,
                    tokens=ended.tokens,
                )
            )
        self._leave()

    def _leave(self) -> None:
        """Let the session go on without this turn."""
        assert self._queue is not None
        self._sent.set()
        self._over.set()
        if self._deadline is not None:
            self._deadline.cancel()
        feed = self._feed
        if feed.queue is self._queue:
            feed.queue = feed.watch = feed.fail = feed.released = None
            feed.cancelling = False
            feed.unsettled = not self._is_settled
            feed.echo = ""
        self._queue.end(self.error)


class _Ending:
    """Finds the end of a turn whose prompt is answered when it has its place (R-PROMPT-17).

    The answer, the echo of the message and the states come in any order (R-PROMPT-31): what
    counts is the first idle state after the answer or after the echo.
    """

    def __init__(self, before: StateChanged | None) -> None:
        self._before = before  # the state that the prompt came upon, or an idle one after it
        self._message_id: str | None = None
        self._echoed: set[str] = set()
        self._idle_after: dict[str, StateChanged] = {}
        self._last: StateChanged | None = None  # since the prompt was sent
        self._ran = False

    def watch(self, event: Event) -> Ended | None:
        match event:
            case (
                UserText(message_id=str() as message_id)
                | Rewritten(role="user", message_id=message_id)
                | Media(role="user", message_id=str() as message_id)
            ):
                self._echoed.add(message_id)
            case StateChanged(state="idle"):
                if self._is_about_background(event):
                    self._before = event
                    return None
                self._last = event
                if self._message_id is not None:
                    return _ended(event)
                for message_id in self._echoed:
                    self._idle_after.setdefault(message_id, event)
            case StateChanged():
                self._last = event
                self._ran = True
            case _:
                pass
        return None

    def _is_about_background(self, idle: StateChanged) -> bool:
        """Tell whether a session that was idle only has other work beside it (R-PROMPT-29)."""
        before = self._before
        return (
            not self._ran
            and before is not None
            and before.state == "idle"
            and idle.background is not None
            and idle.background != before.background
            and idle.stop_reason in (None, before.stop_reason)
        )

    def inserted(self, message_id: str) -> Ended | None:
        self._message_id = message_id
        idle = self._idle_after.get(message_id)
        last = self._last
        if idle is None and last is not None and last.state == "idle":
            # No echo, but all that has run since the prompt was sent has run for it.
            was_idle = self._before is None or self._before.state == "idle"
            idle = last if was_idle and self._ran else None
        return None if idle is None else _ended(idle)


@tolerates("idle-without-reason")
def _ended(idle: StateChanged) -> Ended:
    return Ended(
        stop_reason=idle.stop_reason or "end_turn",
        tokens=idle.tokens,
        error=idle.error,
        meta=idle.meta,
    )
