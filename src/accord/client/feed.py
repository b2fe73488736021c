"""What comes for one session: folded into its transcript, and passed on to who listens.

A queue that is full lets the agent wait: the handler of its updates is then awaited, so that
what comes behind it waits in its lane and at last in the agent.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any, TypeAlias

from accord.client.events import (
    Compaction,
    Event,
    Media,
    Notice,
    Rewritten,
    SessionMessage,
    Terminal,
    TerminalOutput,
    Text,
    Thought,
    ToolCall,
    UserText,
)
from accord.client.transcript import Transcript
from accord.rules.quirks import tolerates

__all__ = ("MOST_EVENTS", "EventQueue", "Feed", "Read")

MOST_EVENTS = 2048  # that wait for a listener before the agent has to wait

# Reads an update of one version: what it says is so from now on.
Read: TypeAlias = Callable[[Any, Transcript], Event | tuple[Event, ...] | None]

# What was said and done. The other events are about the session as it is now.
_HISTORY = (
    Compaction,
    Media,
    Notice,
    Rewritten,
    SessionMessage,
    Terminal,
    TerminalOutput,
    Text,
    Thought,
    ToolCall,
    UserText,
)


class EventQueue:
    """Events that wait to be taken, as an asynchronous iterator."""

    __slots__ = (
        "_ended",
        "_error",
        "_events",
        "_loop",
        "_most",
        "_room",
        "_waiter",
        "error_taken",
        "open_ended",
    )

    def __init__(self, most: int = MOST_EVENTS) -> None:
        self._loop = asyncio.get_running_loop()
        self._events: deque[Event] = deque()
        self._most = most
        self._waiter: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None
        self._ended = False
        self._error: BaseException | None = None
        self.error_taken = False
        self.open_ended = 0  # while not 0, nobody waits for room

    def put(self, event: Event) -> Awaitable[None] | None:
        """Add an event; what is returned has to be awaited before the next one."""
        events = self._events
        events.append(event)
        if self._waiter is not None:
            self._wake()
        return self._wait_for_room() if len(events) >= self._most and self.full else None

    @property
    def full(self) -> bool:
        """Whether whoever adds an event has to wait."""
        return len(self._events) >= self._most and not self.open_ended and not self._ended

    async def _wait_for_room(self) -> None:
        while self.full:
            if self._room is None or self._room.done():
                self._room = self._loop.create_future()
            await asyncio.shield(self._room)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def let_go(self) -> None:
        """Let who waits for room look again."""
        if self._room is not None and not self._room.done():
            self._room.set_result(None)

    def end(self, error: BaseException | None = None) -> None:
        """Nothing more comes; what waits can still be taken, then `error` is raised."""
        if not self._ended:
            self._ended = True
            self._error = error
            self.let_go()
            self._wake()

    def discard(self) -> None:
        """Forget what waits and all that still comes."""
        self._events = deque(maxlen=0)
        self.let_go()

    def __aiter__(self) -> EventQueue:
        return self

    async def __anext__(self) -> Event:
        events = self._events
        while not events:
            if self._ended:
                if self._error is not None and not self.error_taken:
                    self.error_taken = True
                    raise self._error
                raise StopAsyncIteration
            if self._waiter is not None:
                raise RuntimeError("Somebody else iterates over these events")
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        event = events.popleft()
        if self._room is not None and 2 * len(events) < self._most:
            self.let_go()
        return event


class Feed:
    """One session's updates, from before its id is known to whoever asked for it."""

    __slots__ = (
        "_listeners",
        "_read",
        "cancelling",
        "drops_history",
        "echo",
        "ended",
        "fail",
        "queue",
        "session_id",
        "transcript",
        "turns_from",
        "watch",
    )

    def __init__(self, session_id: str, read: Read) -> None:
        self.session_id = session_id
        self.transcript = Transcript()
        self.queue: EventQueue | None = None  # of the turn that runs
        self.watch: Callable[[Event], None] | None = None  # told of all that is not `Text`
        self.fail: Callable[[BaseException], None] | None = None  # told when the connection ends
        self.echo = ""  # of our prompt, as far as it has not come
        self.drops_history = False  # the session is being opened without a replay
        self.cancelling = False  # the turn was cancelled and has not ended yet
        self.turns_from: list[int] = []  # the item of the transcript that each turn began with
        self.ended: BaseException | None = None  # the connection has
        self._listeners: list[EventQueue] = []
        self._read = read

    @property
    def full(self) -> bool:
        """Whether somebody listens who does not keep up."""
        if self.queue is not None:
            return self.queue.full
        return any(listener.full for listener in self._listeners)

    def take(self, update: Any) -> Awaitable[None] | None:
        """Take an update; what is returned has to be awaited before the next one."""
        event = self._read(update, self.transcript)
        if type(event) is Text and (queue := self.queue) is not None:
            # What streams, without a detour.
            self.transcript.apply(event)
            return queue.put(event)
        if self.drops_history:
            event = _without_history(event)
        if event is None or (self.echo and type(event) is UserText and self._is_echo(event)):
            return None
        if type(event) is tuple:
            waits: Awaitable[None] | None = None
            for each in event:
                waits = _later(waits, self.emit(each))
            return waits
        return self.emit(event)  # type: ignore[arg-type]  # no tuple

    def is_live(self, _response: object = None) -> None:
        """The session is open: what comes from now on is new."""
        self.drops_history = False

    @tolerates("prompt-echoed")
    def _is_echo(self, event: UserText) -> bool:
        """Tell whether an agent repeats the prompt, which is known already."""
        if not self.echo.startswith(event.text):
            return False
        self.echo = self.echo.removeprefix(event.text)
        return True

    def emit(self, event: Event) -> Awaitable[None] | None:
        """Let this have happened."""
        self.transcript.apply(event)
        queue = self.queue
        if queue is None:
            if not self._listeners:
                return None
            waits: Awaitable[None] | None = None
            for listener in self._listeners:
                waits = _later(waits, listener.put(event))
            return waits
        outcome = queue.put(event)
        if self.watch is not None:
            self.watch(event)
        return outcome

    def listen(self) -> EventQueue:
        """Return a queue of what happens outside turns from now on."""
        queue = EventQueue()
        if self.ended is not None:
            queue.end()
        self._listeners.append(queue)
        return queue

    def leave(self, queue: EventQueue) -> None:
        """End a queue of `listen`."""
        queue.end()
        if queue in self._listeners:
            self._listeners.remove(queue)

    @contextmanager
    def never_full(self) -> Generator[None, None, None]:
        """Let nothing wait for room meanwhile: for calls whose answer lies behind updates."""
        queues = [*self._listeners, *(() if self.queue is None else (self.queue,))]
        for queue in queues:
            queue.open_ended += 1
            queue.let_go()
        try:
            yield
        finally:
            for queue in queues:
                queue.open_ended -= 1

    def end(self, error: BaseException) -> None:
        """The connection has ended."""
        self.ended = error
        if self.fail is not None:
            self.fail(error)
        for queue in self._listeners:
            queue.end()


@tolerates("replay-on-resume")
def _without_history(
    events: Event | tuple[Event, ...] | None,
) -> Event | tuple[Event, ...] | None:
    if type(events) is tuple:
        return tuple(event for event in events if not isinstance(event, _HISTORY)) or None
    return None if isinstance(events, _HISTORY) else events


def _later(first: Awaitable[None] | None, second: Awaitable[None] | None) -> Awaitable[None] | None:
    """Return what awaits both."""
    if first is None:
        return second
    if second is None:
        return first

    async def both() -> None:
        await first
        await second

    return both()
