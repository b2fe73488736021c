"""Applies the updates of one session to its transcript, and passes its events to consumers.

A consumer never delays the stream: its queued events are its backlog, and the connection stops
reading if the backlogs grow too large.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from accord.client.events import (
    AgentTerminal,
    Compaction,
    ContentChunk,
    Event,
    MessageReplaced,
    Notice,
    SessionMessage,
    Subagent,
    TerminalOutputChunk,
    Text,
    Thought,
    ToolCall,
    UserText,
)
from accord.client.transcript import Transcript, append_texts
from accord.connection.lanes import Backlog, Backlogs
from accord.rules.quirks import tolerates

# Returns the events of an update of one protocol version.
UpdateReader: TypeAlias = Callable[[Any, Transcript], Event | tuple[Event, ...] | None]

# The events of the conversation. The other events contain the state of the session.
_HISTORY = (
    Compaction,
    ContentChunk,
    Notice,
    MessageReplaced,
    SessionMessage,
    AgentTerminal,
    TerminalOutputChunk,
    Text,
    Thought,
    ToolCall,
    UserText,
)


class EventQueue:
    """Queued events, as an asynchronous iterator."""

    __slots__ = (
        "_closed",
        "_ended",
        "_error",
        "_events",
        "_explain",
        "_loop",
        "_sizes",
        "_waiter",
        "backlog",
        "error_raised",
    )

    def __init__(
        self,
        backlog: Backlog,
        explain: Callable[[BaseException], Awaitable[None]] | None = None,
    ) -> None:
        self.backlog: Backlog = backlog
        self._explain = explain  # called before an error is raised
        self._loop = asyncio.get_running_loop()
        self._events: deque[Event] = deque()
        self._sizes: deque[int] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._ended = False
        self._closed = False
        self._error: BaseException | None = None
        self.error_raised: bool = False

    def put(self, event: Event, size: int) -> None:
        """Add an event from an update of `size` bytes."""
        if self._closed:
            return
        self._events.append(event)
        self._sizes.append(size)
        self.backlog.add(size)
        if self._waiter is not None:
            self._wake()

    def extend(self, events: Sequence[Event], sizes: Sequence[int]) -> bool:
        """Add events with their sizes; return False, and add none, if a bound would be exceeded."""
        if self._closed:
            return True
        if not self.backlog.add_all(sizes):
            return False
        self._events.extend(events)
        self._sizes.extend(sizes)
        if self._waiter is not None:
            self._wake()
        return True

    @property
    def is_full(self) -> bool:
        """Whether the consumer does not keep up."""
        return self.backlog.is_full

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def end(self, error: BaseException | None = None) -> None:
        """End the iteration, with `error`, after the queued events."""
        if not self._ended:
            self._ended = True
            self._error = error
            self.backlog.ignore()
            self._wake()

    def close(self) -> None:
        """Drop the queued events and all further ones."""
        self._closed = True
        self._events.clear()
        self._sizes.clear()
        self.backlog.clear()

    def __aiter__(self) -> EventQueue:
        return self

    async def __anext__(self) -> Event:
        events = self._events
        while not events:
            if self._ended:
                if self._error is not None and not self.error_raised:
                    if self._explain is not None:
                        await self._explain(self._error)
                    self.error_raised = True
                    raise self._error
                raise StopAsyncIteration
            if self._waiter is not None:
                raise RuntimeError("Another task is already iterating over these events")
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        event = events.popleft()
        self.backlog.remove(self._sizes.popleft())
        return event


class SessionEventStream:
    """The events of one session; it exists before the response that opens the session."""

    __slots__ = (
        "_events_from_update",
        "_listeners",
        "disconnect_error",
        "drops_history",
        "is_cancelling",
        "is_released",
        "on_disconnect",
        "on_event",
        "on_release",
        "on_subagent",
        "pending_echo",
        "queue",
        "session_id",
        "transcript",
        "turn_starts",
        "turn_unfinished",
    )

    def __init__(self, session_id: str, read: UpdateReader) -> None:
        self.session_id: str = session_id
        self.transcript: Transcript = Transcript()
        self.queue: EventQueue | None = None  # of the running turn
        self.on_event: Callable[[Event], None] | None = None  # called for all events except `Text`
        self.on_disconnect: Callable[[BaseException], None] | None = None
        # Called when the session is closed or loaded again, if an event would end the turn.
        self.on_release: Callable[[], None] | None = None
        # Called with the ids of this session and of each subagent.
        self.on_subagent: Callable[[str, str], None] | None = None
        self.is_released: bool = False  # the session was closed or loaded again
        self.pending_echo: str = ""  # the part of the prompt that the agent has not echoed
        self.drops_history: bool = False  # while the session is opened without a replay
        self.is_cancelling: bool = False  # the turn was cancelled and has not ended
        self.turn_starts: list[int] = []  # the index of the first item of each turn
        self.disconnect_error: BaseException | None = None  # why the connection ended
        self.turn_unfinished: bool = False  # the last turn was left before the agent ended it
        self._listeners: list[EventQueue] = []
        self._events_from_update = read

    @property
    def is_full(self) -> bool:
        """Whether a consumer does not keep up."""
        if self.queue is not None:
            return self.queue.is_full
        return any(listener.is_full for listener in self._listeners)

    def receive(self, update: Any, size: int = 0) -> Text | None:
        """Apply an update of `size` bytes; return the event if it is text of a running turn."""
        event = self._events_from_update(update, self.transcript)
        if type(event) is Text and (queue := self.queue) is not None:
            # The short path, for streamed text.
            self.transcript.apply(event)
            queue.put(event, size)
            return event
        if self.drops_history:
            event = _without_history(event)
        if event is None or (
            self.pending_echo and type(event) is UserText and self._is_echo(event)
        ):
            pass
        elif type(event) is tuple:
            for each in event:
                self.publish(each, size)
                size = 0
        else:
            self.publish(event, size)  # type: ignore[arg-type]  # not a tuple
        return None

    def end_replay(self, _response: object = None) -> None:
        """Keep the following updates: the session is open and the replay is over."""
        self.drops_history = False

    @tolerates("prompt-echoed")
    def _is_echo(self, event: UserText) -> bool:
        """Return whether the agent echoes the prompt, which the transcript already contains."""
        if not self.pending_echo.startswith(event.text):
            return False
        self.pending_echo = self.pending_echo.removeprefix(event.text)
        return True

    def publish(self, event: Event, size: int = 0) -> None:
        """Apply an event to the transcript and pass it to the consumers."""
        self.transcript.apply(event)
        if type(event) is Subagent and self.on_subagent is not None:
            self.on_subagent(self.session_id, event.id)
        queue = self.queue
        if queue is None:
            for listener in tuple(self._listeners):
                listener.put(event, size)
            return
        queue.put(event, size)
        if self.on_event is not None:
            self.on_event(event)

    def subscribe(self, backlogs: Backlogs) -> EventQueue:
        """Return a queue of the following events outside turns."""

        def exceeded(error: BaseException) -> None:
            queue.end(error)
            if queue in self._listeners:
                self._listeners.remove(queue)

        queue = EventQueue(backlogs.open(self.session_id, exceeded))
        if self.disconnect_error is not None:
            queue.end()
        self._listeners.append(queue)
        return queue

    def move(self, backlogs: Backlogs) -> None:
        """Count the queued events on a new connection."""
        for queue in (self.queue, *self._listeners):
            if queue is not None:
                queue.backlog.move(backlogs)

    def unsubscribe(self, queue: EventQueue) -> None:
        """End a queue of `subscribe`."""
        queue.end()
        queue.close()
        if queue in self._listeners:
            self._listeners.remove(queue)

    def release(self) -> None:
        """End the stream: the session is closed or loaded again."""
        self.is_released = True
        if self.on_release is not None:
            self.on_release()
        for queue in self._listeners:
            queue.end()

    def end(self, error: BaseException) -> None:
        """End the stream with the connection."""
        self.disconnect_error = error
        if self.on_disconnect is not None:
            self.on_disconnect(error)
        for queue in self._listeners:
            queue.end()


class MessageText:
    """Receives streamed text of one message of the running turn."""

    __slots__ = ("_message_id", "_read", "_stream", "text")

    def __init__(self, stream: SessionEventStream, event: Text, read: UpdateReader) -> None:
        self.text: str = event.text
        self._message_id = event.message_id
        self._stream = stream
        self._read = read

    def fits(self, method: str, params: Any, text: str) -> bool:
        """Return whether these params append the text to the message, and mean nothing else."""
        if method != "session/update" or params.session_id != self._stream.session_id:
            return False
        event = self._read(params.update, self._stream.transcript)
        return type(event) is Text and event == Text(text, self._message_id)

    @property
    def has_ended(self) -> bool:
        """Whether the turn has ended, or the session was closed or loaded again."""
        return self._stream.queue is None or self._stream.is_released

    def receive(self, texts: list[str], sizes: list[int]) -> None:
        """Append texts to the message."""
        stream, message_id = self._stream, self._message_id
        events = [Text(text, message_id) for text in texts]
        assert stream.queue is not None, "the turn has not ended"
        if stream.queue.extend(events, sizes):
            append_texts(stream.transcript, message_id, texts)
            return
        for event, size in zip(events, sizes, strict=True):  # the turn can fail at any of them
            stream.publish(event, size)


@tolerates("replay-on-resume")
def _without_history(
    events: Event | tuple[Event, ...] | None,
) -> Event | tuple[Event, ...] | None:
    if type(events) is tuple:
        return tuple(event for event in events if not isinstance(event, _HISTORY)) or None
    return None if isinstance(events, _HISTORY) else events
