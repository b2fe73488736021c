"""One turn, as a client uses it: a prompt, what is said while it runs, its events and its end.

`ClientTurn` is an asynchronous iterator over the events. A turn has one prompt, and a further one
for each message of `steer` that the agent did not take into the running one: these follow in order,
and the turn ends with the last.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from bisect import insort
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from accord.client.agent_adapter import (
    AgentAdapter,
    EventQueue,
    SessionEventStream,
    TurnResult,
)
from accord.client.events import (
    ContentChunk,
    Event,
    MessageReplaced,
    Meta,
    StateChanged,
    ToolCall,
    UserText,
    text_event,
)
from accord.client.transcript import AgentText, calls_left_open, read_agent_text
from accord.errors import (
    AccordError,
    BacklogExceeded,
    CancelTimeout,
    InternalError,
    LocalProtocolError,
    MethodNotFound,
    RequestError,
    SteerTimeout,
    TransportError,
    TurnInterrupted,
)
from accord.rules.quirks import tolerates
from accord.text.excerpt import excerpt, one_line
from accord.types.content import ContentBlock, require_contents
from accord.types.must_await import MustEnter, must_await
from accord.types.session import StopReason, TokenUsage
from accord.types.steering import SteeringOutcome
from accord.types.tool_calls import TerminalView

if TYPE_CHECKING:
    from accord.client.budget import LimitReached, Spent

log: logging.Logger = logging.getLogger("accord.client")

_HINT = (
    "write `async with session.prompt(…) as turn:`, and in it `await turn.wait()` or"
    " `async for event in turn:`"
)


JOIN_S = 1.0  # for an agent of version 2 to say that it has a second prompt
STEER_TIMEOUT_S = 30.0  # for an agent to say what became of a message

Fallback: TypeAlias = Literal["queue", "cancel"]


class Steered(Struct, frozen=True):
    """What became of a message that was said while a turn ran.

    `injected`: the agent has it in the running turn. `queued`: it is the prompt after the running
    one. `restarted`: the running prompt was cancelled, and the message is the next one. `started`:
    the turn had ended, and the agent works on it in a turn of its own that nothing waits for.
    """

    outcome: Literal["injected", "queued", "restarted", "started"]
    by: Literal["agent", "client"] = "agent"
    """Who holds the message while it is queued."""
    reason: str = ""
    """Why it was not injected."""


class _Message:
    """A message of the user, as a prompt that follows the running one."""

    def __init__(self, number: int, contents: tuple[ContentBlock, ...], note: str = "") -> None:
        self.number = number  # in the order in which they were said
        self.contents = contents
        self.note = note  # for the agent, of what was cut

    @property
    def prompt(self) -> Sequence[ContentBlock]:
        """What is sent: the note is part of the first text, since some agents echo a prompt."""
        first, *rest = self.contents
        if self.note and isinstance(first, str):
            return (self.note + first, *rest)
        return (self.note, *self.contents) if self.note else self.contents


# What became of a prompt that was sent while another one ran: the agent has taken it into the
# running turn, or runs it as a turn of its own, or has not taken it.
_Answer: TypeAlias = Literal["joined", "follows", "refused"]


class _SecondPrompt:
    """A prompt of version 2 that was sent while another one ran (R-PROMPT-24)."""

    def __init__(self, message: _Message) -> None:
        self.message = message
        self.completion = PromptCompletion(StateChanged(state="running"))
        self.answered: asyncio.Future[_Answer] = asyncio.get_running_loop().create_future()
        self.error: AccordError | None = None  # why it is not known whether the agent has it
        self.task: asyncio.Task[None] | None = None

    def answer(self, answer: _Answer) -> None:
        """Say what became of it; only the first answer counts."""
        if not self.answered.done():
            self.answered.set_result(answer)

    def wait_behind(self, queue: EventQueue | None) -> None:
        """Let the connection pause reading: the answer follows the events of the running turn."""
        if queue is not None and not self.answered.done():
            backlog = queue.backlog
            backlog.calls += 1
            self.answered.add_done_callback(lambda _: setattr(backlog, "calls", backlog.calls - 1))


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
        """The tokens that the last prompt of the turn used, if the agent reports them."""
        self.error: BaseException | None = None
        """Why the turn failed."""
        self.limit: LimitReached | None = None
        """The limit of the budget that the turn has reached. It cancels a turn that still runs."""
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
        self._inserted = asyncio.Event()  # the agent of version 2 has it, or the turn has ended
        self._has_ended = asyncio.Event()
        self._deadline: asyncio.TimerHandle | None = None  # of the end of a cancelled turn
        self._time_limit: asyncio.TimerHandle | None = None  # of the budget
        self._completion = PromptCompletion(None)
        # What was said while it ran.
        self._prompt_end: asyncio.Future[TurnResult | None] | None = None  # None: of the turn
        self._waiting: list[_Message] = []  # by their numbers
        self._second: list[_SecondPrompt] = []
        self._unconfirmed: list[_Message] = []
        self._messages = 0  # that were said
        self._on_their_way = 0  # messages of which it is not known yet whether they are injected
        self._failure: TurnResult | None = None  # of a prompt, while the agent works on others
        self._order = asyncio.Lock()
        self._changed = asyncio.Event()
        self._is_cut = False  # the running prompt is cancelled for a message
        self._is_cancelled = False  # the turn is

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
    def spent(self) -> Spent | None:
        """What the turn has used, or the last turn of its session; None without a budget."""
        return None if self._stream.meter is None else self._stream.meter.turn

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
        if stream.meter is not None:
            stream.meter.begin_turn()
            stream.meter.on_limit = self._on_limit
            self._check_time()
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
        stream.steer = self.steer
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
        if self._has_ended.is_set() or self._is_cancelled:
            return
        self._is_cancelled = True
        self._changed.set()
        timeout_s = self._cancel_timeout_s if timeout_s is None else timeout_s
        if self._stream.is_cancelling:  # for a message
            self._set_deadline(timeout_s)
        else:
            await self._cancel_prompt(timeout_s)

    def _set_deadline(self, timeout_s: float) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(timeout_s, self._on_cancel_timeout, timeout_s)

    async def _cancel_prompt(self, timeout_s: float) -> None:
        stream = self._stream
        stream.is_cancelling = True
        self._set_deadline(timeout_s)
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
        contents, meta = self._contents, self._meta
        message: _Message | None = None
        while not self._has_ended.is_set():  # the connection can be lost before the first step
            self._prompt_end = asyncio.get_running_loop().create_future()
            self._is_settled = False
            self._inserted.clear()
            try:
                ended = await self._send(contents, meta)
            except Exception as exc:  # noqa: BLE001  # raised by the iteration or at the end of the block
                self._is_settled = isinstance(exc, RequestError)
                if not self._is_settled or not self._is_cut:
                    if message is not None:
                        self._not_answered(message, exc)
                    self._end(TurnResult(stop_reason="error"), exc)
                    return
                if self._adapter.echoes_prompts and self._waiting:
                    # It was cut before the agent had it (R-PROMPT-17): it is said with the message.
                    cut_for = self._waiting[0]
                    cut_for.contents, cut_for.note = (*contents, *cut_for.contents), ""
                ended = TurnResult(stop_reason="cancelled")  # R-CANCEL-06
            if ended is not None:
                self._prompt_ended(ended)
            message, meta = await self._next_prompt(), None
            if message is None:
                return
            contents = message.prompt

    def _not_answered(self, message: _Message, error: Exception) -> None:
        """Keep a message whose prompt has failed, unless the agent has refused it or has it."""
        match error:
            case RequestError() | TurnInterrupted(in_history=True):
                pass
            case TransportError() if getattr(error, "in_history", None) is None:
                self._unconfirmed.append(message)
            case _:
                self._wait_with(message)

    async def _send(self, contents: Sequence[ContentBlock], meta: Meta | None) -> TurnResult | None:
        stream, queue = self._stream, self._queue
        assert queue is not None
        stream.prompt_start = len(stream.transcript.items)
        try:
            if not self._adapter.echoes_prompts:
                stream.pending_echo = ""
                record(stream, contents)
                stream.publish(StateChanged(state="running"))
                # In v1 the response follows the events of the turn.
                queue.backlog.calls = 1
            self._sent.set()
            return await self._adapter.prompt(
                stream.session_id, contents, self._on_message_id, meta
            )
        finally:
            if not self._adapter.echoes_prompts:
                queue.backlog.calls = 0

    def _on_message_id(self, message_id: str) -> None:
        self._inserted.set()
        if (ended := self._completion.on_message_id(message_id)) is not None:
            self._prompt_ended(ended)

    def _on_event(self, event: Event) -> None:
        for second in tuple(self._second):
            if (ended := second.completion.on_event(event)) is not None:
                self._second_ended(second, ended)
        if (ended := self._completion.on_event(event)) is not None:
            self._prompt_ended(ended)

    # What is said while it runs.

    @property
    def unsent(self) -> list[tuple[ContentBlock, ...]]:
        """The messages of `steer` that wait for their turn; after its end, those left unsent.

        A turn that fails or is cancelled leaves what waited: send it with a prompt, or drop it.
        The agent has none of them.
        """
        return [message.contents for message in self._waiting]

    @property
    def unconfirmed(self) -> list[tuple[ContentBlock, ...]]:
        """The messages of `steer` that were sent, and of which the agent has said nothing.

        The connection was lost, or the agent did not answer. It can have them: nothing is sent
        twice. What it has of a session is seen when the session is loaded.
        """
        return [message.contents for message in self._unconfirmed]

    @must_await("turn")
    async def steer(self, *contents: ContentBlock, fallback: Fallback = "queue") -> Steered:
        """Say something to the agent while it works; return what became of the message.

            async with session.prompt("Fix the tests") as turn:
                print(await turn.steer("Leave the slow ones"))
                await turn.wait()

        The agent takes it into the running turn if it can be steered. Otherwise, and if the
        prompt has ended at that moment, it follows as a further prompt of this turn. With the
        fallback `cancel`, an agent that cannot be steered is cancelled first, and told what was
        cut; not while a question to the user is open: no steer answers or cancels one.
        Messages keep their order, and each is run once.

        Raise `LocalProtocolError` if the turn is not running or ends before the agent has the
        message, `RequestError` if the agent refuses it, and `ValueError` for an empty one: it was
        not sent. Raise `SteerTimeout` if the agent does not answer, and `TransportError` if the
        connection is lost: the agent may have it, and it is in `unconfirmed`.
        """
        require_message(contents)
        if fallback not in ("queue", "cancel"):
            raise ValueError(f"steer(fallback=…): expected 'queue' or 'cancel', got {fallback!r}")
        self._require_running()
        self._on_their_way += 1
        try:
            async with self._order:
                await self._sent.wait()
                self._require_running()
                return await self._steer(contents, fallback)
        finally:
            self._on_their_way -= 1
            self._changed.set()

    def _require_running(self) -> None:
        if self._queue is None:
            raise LocalProtocolError(f"Enter the turn with `async with` first: {_HINT}")
        if self._has_ended.is_set():
            raise LocalProtocolError("The turn has ended: send it with `session.prompt(…)`")
        if self._is_cancelled:
            raise LocalProtocolError(
                "The turn is being cancelled: send it with `session.prompt(…)` after its end"
            )

    async def _steer(self, contents: tuple[ContentBlock, ...], fallback: Fallback) -> Steered:
        self._messages += 1
        message = _Message(self._messages, contents)
        if self._waiting or not all(second.answered.done() for second in self._second):
            return self._queue_up(message, "other messages wait before it")
        reason = "the agent cannot be steered"
        if self._adapter.can_be_steered:
            match await self._inject(message):
                case "injected":
                    return Steered("injected")
                case "startedNewTurn":
                    return Steered("started", reason="the turn had ended")
                case "promptRequired":
                    return self._queue_up(message, "the prompt had ended")
                case None:
                    reason = "the agent does not say what became of it"
        if fallback == "cancel" and not self._prompt_has_ended:
            if self._stream.questions:
                return self._queue_up(message, f"{reason}, and a question to the user is open")
            self._require_running()
            await self._cut(message)
            return Steered("restarted", "client", reason)
        if self._adapter.echoes_prompts:
            with suppress(TimeoutError):
                async with asyncio.timeout(JOIN_S):
                    await self._inserted.wait()  # a second prompt must not overtake the first
            if self._inserted.is_set() and (self._second or not self._prompt_has_ended):
                self._require_running()
                return await self._send_second(message)
        return self._queue_up(message, reason)

    async def _inject(self, message: _Message) -> SteeringOutcome | None:
        """Ask the agent to take a message into the running turn."""
        stream, contents = self._stream, message.contents
        injected = None if self._adapter.echoes_prompts else partial(record, stream, contents)
        try:
            return await steer(self._adapter, stream.session_id, contents, injected)
        except RequestError:
            raise
        except BaseException:  # a cancelled caller, too
            self._unconfirmed.append(message)
            raise

    @property
    def _prompt_has_ended(self) -> bool:
        return self._prompt_end is not None and self._prompt_end.done()

    def _queue_up(self, message: _Message, reason: str) -> Steered:
        self._require_running()  # nothing would send it
        self._wait_with(message)
        return Steered("queued", "client", reason)

    def _wait_with(self, message: _Message) -> None:
        """Let a message wait, in its place."""
        insort(self._waiting, message, key=_number)

    async def _cut(self, message: _Message) -> None:
        """Cancel the running prompt; the message follows, with a note of what was cut."""
        cut = ", ".join(f"“{one_line(call.title, 80)}”" for call in self._cancelled_calls()[:10])
        message.note = "[The user has interrupted your work to say this."
        message.note += f" What was running was cancelled: {cut}.]\n\n" if cut else "]\n\n"
        self._wait_with(message)
        self._is_cut = True
        with suppress(TransportError):  # the turn fails, and leaves the message unsent
            await self._cancel_prompt(self._cancel_timeout_s)

    async def _send_second(self, message: _Message) -> Steered:
        """Send a prompt while another runs: the agent takes it into that turn, or queues it."""
        second = _SecondPrompt(message)
        self._second.append(second)
        second.task = asyncio.create_task(self._run_second(second), name="accord second prompt")
        assert self._prompt_end is not None
        await asyncio.wait(
            {second.answered, self._prompt_end},
            timeout=JOIN_S,
            return_when=asyncio.FIRST_COMPLETED,
        )
        match second.answered.result() if second.answered.done() else None:
            case "joined":
                return Steered("injected")
            case "refused" if message in self._waiting:
                if self._has_ended.is_set() or self._is_cancelled:
                    self._waiting.remove(message)  # the caller is told, once
                self._require_running()
                return Steered("queued", "client", "the agent takes no second prompt")
            case "refused":
                raise second.error or SteerTimeout(
                    "The turn has ended before the agent said whether it has the message"
                )
            case _:
                second.wait_behind(self._queue)
                return Steered("queued", "agent", "the agent runs it after the prompt before it")

    async def _run_second(self, second: _SecondPrompt) -> None:
        def inserted(message_id: str) -> None:
            second.answer("follows" if self._prompt_has_ended else "joined")
            if (ended := second.completion.on_message_id(message_id)) is not None:
                self._second_ended(second, ended)

        contents = second.message.prompt
        try:
            await self._adapter.prompt(self._stream.session_id, contents, inserted, None)
        except RequestError:
            log.debug("! the agent refused a second prompt", exc_info=True)
            if second in self._second:
                self._second.remove(second)
                self._wait_with(second.message)  # it is sent after the running prompt
        except AccordError as error:
            log.debug("! a second prompt was not answered", exc_info=True)
            second.error = error
            if second in self._second:
                self._second.remove(second)
                self._unconfirmed.append(second.message)
        finally:
            second.answer("refused")
            self._changed.set()

    def _second_ended(self, second: _SecondPrompt, ended: TurnResult) -> None:
        if second in self._second:
            self._second.remove(second)
            self._changed.set()
            if (meter := self._stream.meter) is not None:
                meter.end_prompt(ended.token_usage)
            if self._prompt_has_ended:
                self._is_settled = True
                if not self._has_more:
                    self._end(self._failure or ended)

    @property
    def _has_more(self) -> bool:
        """Whether something was said that the ended prompt did not contain."""
        return bool(self._waiting or self._second or self._on_their_way)

    def _prompt_ended(self, ended: TurnResult) -> None:
        """The agent has ended the running prompt; the turn ends with it, unless more was said."""
        assert self._prompt_end is not None
        if self._has_ended.is_set() or self._prompt_end.done():
            return
        self._is_settled = True
        if (meter := self._stream.meter) is not None:
            meter.end_prompt(ended.token_usage)  # it may reach a limit, which cancels the turn
        goes_on = self._is_cut or (ended.error is None and ended.stop_reason != "cancelled")
        goes_on = goes_on and self.limit is None
        if goes_on and not self._is_cancelled and self._has_more:
            self._prompt_end.set_result(ended)
        elif self._second:  # the agent says what becomes of them, or works on them
            self._failure = ended
            self._prompt_end.set_result(ended)
        else:
            self._end(ended)

    async def _next_prompt(self) -> _Message | None:
        """Return what follows the running prompt, after its end; None at the end of the turn."""
        assert self._prompt_end is not None
        ended = await self._prompt_end
        while not self._has_ended.is_set() and (
            self._second or (self._on_their_way and not self._is_over)
        ):
            self._changed.clear()
            await self._changed.wait()
        if ended is None or self._has_ended.is_set():
            return None
        if self._is_over or not self._waiting:
            cancelled = TurnResult(stop_reason="cancelled") if self._is_cancelled else ended
            self._end(self._failure or cancelled)
            return None
        self._begin_again(ended)
        # Its events can be more than the consumer takes.
        return None if self._has_ended.is_set() else self._waiting.pop(0)

    @property
    def _is_over(self) -> bool:
        """Whether no more is sent."""
        return self._is_cancelled or self._failure is not None

    def _begin_again(self, ended: TurnResult) -> None:
        """Show the end of a prompt that another one follows."""
        stream = self._stream
        for call in calls_left_open(stream.transcript, self._adapter.version):
            stream.publish(call)
        if not self._adapter.echoes_prompts:
            reason = "cancelled" if self._is_cut else ended.stop_reason
            stream.publish(
                StateChanged(state="idle", stop_reason=reason, token_usage=ended.token_usage)
            )
        self._completion = PromptCompletion(stream.transcript.state)
        self._is_cut = stream.is_cancelling = False
        if self._deadline is not None:
            self._deadline.cancel()

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

    def _on_limit(self, limit: LimitReached) -> None:
        """Cancel the turn: it has reached a limit of the budget."""
        self.limit = limit
        self._adapter.remote.connection.spawn(self._cancel_for_limit())

    async def _cancel_for_limit(self) -> None:
        with suppress(AccordError):
            await self.cancel()

    def _check_time(self) -> None:
        """Check the time of the budget, now and when it may be over."""
        meter = self._stream.meter
        if meter is None or self._has_ended.is_set():
            return
        meter.check_time()
        left = meter.seconds_left
        if left is not None and self.limit is None:
            loop = asyncio.get_running_loop()
            self._time_limit = loop.call_later(max(left, 0.01), self._check_time)

    async def _stop(self) -> None:
        with suppress(AccordError):
            await self._adapter.cancel(self._stream.session_id)

    @tolerates("cancel-ignored")
    def _on_cancel_timeout(self, timeout_s: float) -> None:
        """Fail the turn: the agent has not ended it in time."""
        if self._prompt_has_ended and self._is_over:  # only messages were not answered
            self._end(self._failure or TurnResult(stop_reason="cancelled"))
            return
        within = f"within {timeout_s:g} seconds after it was cancelled"
        error = CancelTimeout(f"The agent did not end the turn {within}")
        self._end(TurnResult(stop_reason="error"), error)
        if self.limit is not None:
            log.warning("! %s, and the agent goes on: the connection is closed", self.limit)
            connection = self._adapter.remote.connection
            connection.spawn(connection.aclose())
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
        self._inserted.set()
        self._has_ended.set()
        self._changed.set()
        if self._prompt_end is not None and not self._prompt_end.done():
            self._prompt_end.set_result(None)
        for second in self._second:
            if not second.answered.done():
                self._unconfirmed.append(second.message)
            if second.task is not None:
                second.task.cancel()
        self._second.clear()
        for timer in (self._deadline, self._time_limit):
            if timer is not None:
                timer.cancel()
        stream = self._stream
        if stream.queue is self._queue:
            if stream.meter is not None:
                stream.meter.end_turn()
            stream.steer = None
            stream.queue = stream.on_event = stream.on_disconnect = stream.on_release = None
            stream.is_cancelling = False
            stream.turn_unfinished = not self._is_settled
            stream.pending_echo = ""
        self._queue.end(self.error)


def require_message(contents: tuple[ContentBlock, ...]) -> None:
    """Raise `ValueError` for an empty message, `TypeError` for a value that is not content."""
    require_contents("steer(contents=…)", contents)
    if all(content == "" for content in contents):
        got = "no content" if not contents else repr(contents[0])
        raise ValueError(f"steer(contents=…): expected text or other content, got {got}")


def record(stream: SessionEventStream, contents: Sequence[ContentBlock]) -> None:
    """Add what the user says to the transcript, like an agent that echoes it."""
    message_id = f"prompt {stream.transcript.prompt_count + 1}"
    for content in contents:
        if isinstance(content, str):
            stream.publish(text_event(UserText, content, message_id))
        else:
            stream.publish(ContentChunk(content, "user", message_id))
    stream.pending_echo += "".join(content for content in contents if isinstance(content, str))


def _number(message: _Message) -> int:
    return message.number


async def steer(
    adapter: AgentAdapter,
    session_id: str,
    contents: Sequence[ContentBlock],
    injected: Callable[[], None] | None = None,
) -> SteeringOutcome | None:
    """Ask the agent to take a message into the running turn; None if it cannot be steered.

    If it has taken it, `injected` was called before any later message was handled.

    Raise `RequestError` if the agent refuses the message, `SteerTimeout` if it does not answer.
    """
    try:
        async with asyncio.timeout(STEER_TIMEOUT_S):
            return await adapter.steer(session_id, contents, injected)
    except MethodNotFound:
        return None
    except TimeoutError:
        raise SteerTimeout(
            f"The agent did not say within {STEER_TIMEOUT_S:g} seconds whether it has the message"
        ) from None


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
