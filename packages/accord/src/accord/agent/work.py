"""Work and its end: cancellable blocks, the state of a turn, and work that outlives its turn."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

from msgspec import Struct

from accord.connection.tasks import Tasks, cancel, ends_process, is_dropped
from accord.errors import AccordError, TransportError
from accord.types.content import ContentBlock, text_of

# Blocks that can be cancelled individually, without the task that runs them.


class WorkCancelled(AccordError):
    """A tool call or a subagent was cancelled individually; its turn continues."""


class CancelScope:
    """A block of one task that can be cancelled without cancelling the task."""

    def __init__(self) -> None:
        self.cancelled = False
        self._earlier_cancels = 0  # of the task, when the block began
        self._task: asyncio.Task[Any] | None = None

    def enter(self) -> None:
        """Begin the block in the current task."""
        self._task = asyncio.current_task()
        self._earlier_cancels = 0 if self._task is None else self._task.cancelling()

    def cancel(self) -> None:
        """Cancel the block. Has no effect once the block has ended."""
        if self._task is not None and not self.cancelled:
            self.cancelled: bool = True
            cancel(self._task)

    async def leave(self, error: BaseException | None) -> bool:
        """Withdraw the cancel of this block; return whether that cancel ended the block."""
        task, self._task = self._task, None
        if not self.cancelled or task is None:
            return False
        if not isinstance(error, asyncio.CancelledError):
            with suppress(asyncio.CancelledError):  # the block ended before the cancel arrived
                await asyncio.sleep(0)
        return task.uncancel() <= self._earlier_cancels and isinstance(
            error, asyncio.CancelledError
        )


# The state of one turn: its place in the queue of its session, and whether it is cancelled.

# The turn on whose behalf this code runs; None in background work.
current_turn: ContextVar[TurnState | None] = ContextVar("accord.agent.work")


class SteeringMessage(Struct, frozen=True):
    """What the user has said while the agent works."""

    id: str
    """The id of the message in the session."""
    content: tuple[ContentBlock, ...]
    """What the message holds."""

    @property
    def text(self) -> str:
        """The text of the message; links and resources are written as Markdown."""
        return text_of(self.content)


# Lets the agent read a message, once the client knows that the agent has it.
Delivery: TypeAlias = Callable[[], Coroutine[Any, Any, None]]


class Steering:
    """The messages of the user that arrive while a turn runs, until the agent takes them."""

    def __init__(self) -> None:
        self.is_open: bool = False
        self._messages: deque[SteeringMessage] = deque()
        self._arriving = 0
        self._changed: asyncio.Event | None = None

    def begin_arrival(self) -> None:
        """Hold the turn open for a message that is being stored; `is_open` was checked before."""
        self._arriving += 1

    def end_arrival(self) -> None:
        """Let the turn end: the message was added, or it does not come."""
        self._arriving -= 1
        self._notify()

    def add(self, message: SteeringMessage) -> None:
        """Add a message."""
        self._messages.append(message)
        self._notify()

    def take(self) -> list[SteeringMessage]:
        """Return the messages that were not taken yet."""
        taken = list(self._messages)
        self._messages.clear()
        return taken

    def waiting(self) -> list[str]:
        """Return the ids of the messages that were not taken yet."""
        return [message.id for message in self._messages]

    async def next(self) -> SteeringMessage | None:
        """Wait for a message and take it; return None at the end of the turn."""
        while not self._messages:
            if not self.is_open:
                return None
            await self._wait()
        return self._messages.popleft()

    async def close(self) -> SteeringMessage | None:
        """Take a message that was not taken; if there is none, let no more arrive."""
        while not self._messages and self._arriving:
            await self._wait()
        if self._messages:
            return self._messages.popleft()
        self.end()
        return None

    def end(self) -> None:
        """Let no more messages arrive: the turn is over."""
        self.is_open = False
        self._notify()

    async def _wait(self) -> None:
        if self._changed is None or self._changed.is_set():
            self._changed = asyncio.Event()
        await self._changed.wait()

    def _notify(self) -> None:
        if self._changed is not None:
            self._changed.set()


class TurnState:
    """One turn, as the session and the code below `Turn` see it.

    `may_start` is set when the earlier turns of the session are over, `finished` at its end.
    """

    def __init__(self) -> None:
        self.cancelled = False
        self.is_over = False  # what the turn began and did not end is background work now
        self.message_id = ""
        self.prompt_id = ""  # of the message that the handler works on
        self.steering: Steering = Steering()
        self.began: asyncio.Event = (
            asyncio.Event()
        )  # the handler was called, or the turn has ended without it
        # Gives the turn a message, until it has ended; see `TurnRunner.steer`.
        self.steer: Callable[[tuple[ContentBlock, ...]], Awaitable[Delivery | None]] | None = None
        self.may_start: asyncio.Event = asyncio.Event()
        self.finished: asyncio.Event = asyncio.Event()
        self.task: asyncio.Task[object] | None = None  # that runs the handler

    def cancel(self) -> None:
        """Cancel the turn: its stop reason is `cancelled`, however its handler ends."""
        if not self.cancelled:
            self.cancelled: bool = True
            if self.task is not None:
                cancel(self.task)


# Work of a session that outlives its turn: listed in version 2, cancelled with the session.

log: logging.Logger = logging.getLogger("accord.agent")

STOP_S = 5.0  # that cancelled work has to end

# Work that is still running, and whether it is shown as a terminal, a tool call or a subagent.
BackgroundItem: TypeAlias = tuple[Literal["tool_call", "terminal", "subagent"], str]


class OpenToolCall(Protocol):
    """A tool call that has not ended, as its session sees it."""

    id: str
    title: str
    cancellable: bool
    is_asking: bool
    final_status_sent: bool

    @property
    def status(self) -> str:
        """The last status that was reported."""
        ...

    @property
    def is_in_background(self) -> bool:
        """Whether the call belongs to no running turn."""
        ...

    def cancel(self) -> None:
        """Cancel the block of the call."""
        ...

    async def __aenter__(self) -> object: ...

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _where: TracebackType | None,
    ) -> object: ...


class OpenSubagent(Protocol):
    """A subagent that has not ended, as the session that it is in sees it."""

    id: str

    @property
    def state(self) -> str:
        """What it does."""
        ...

    @property
    def is_in_background(self) -> bool:
        """Whether it belongs to no running turn and no tool call."""
        ...


class RunningCommand(Protocol):
    """A local command that is shown as a terminal."""

    def kill(self) -> Coroutine[Any, Any, None]:
        """Kill the command."""
        ...


CallT = TypeVar("CallT", bound=OpenToolCall)


class Background:
    """What a session runs in the background, as its client lists and stops it (R-BGW-01, R-BGW-04).

    `open_tool_calls` and `subagents` are the session's own, which it keeps up to date.
    """

    def __init__(
        self, open_tool_calls: Mapping[str, OpenToolCall], subagents: Sequence[OpenSubagent]
    ) -> None:
        self._open_tool_calls = open_tool_calls
        self._subagents = subagents
        self._tasks: Tasks | None = None
        self._last_sent: list[BackgroundItem] = []
        self._running: set[OpenToolCall] = set()
        # Terminals of version 2 by id, each with the tool call that shows it.
        self.commands: dict[str, tuple[OpenToolCall, RunningCommand]] = {}

    async def run(
        self,
        call: CallT,
        work: Callable[[CallT], Awaitable[object]],
        client_is_gone: Callable[[], bool],
    ) -> None:
        """Start work in a tool call that outlives the turn; return once the call is shown."""
        if self._tasks is None:
            self._tasks = Tasks()
        self._running.add(call)
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._tasks.spawn(
            self._run(call, work, begun, client_is_gone), name=f"accord background {call.title}"
        )
        await begun

    async def _run(
        self,
        call: CallT,
        work: Callable[[CallT], Awaitable[object]],
        begun: asyncio.Future[None],
        client_is_gone: Callable[[], bool],
    ) -> None:
        current_turn.set(None)
        task = asyncio.current_task()
        try:
            async with call:
                _finish(begun)
                await work(call)
        except WorkCancelled:
            pass
        except asyncio.CancelledError:
            raise
        except BaseException as exc:
            if is_dropped(exc, task) or ends_process(exc):
                raise
            if isinstance(exc, TransportError) and client_is_gone():
                log.debug("! the client disconnected during background work", exc_info=True)
                return
            log.exception("! background work failed: %s", call.title)
        finally:
            self._running.discard(call)
            _finish(begun)

    def items(self) -> list[BackgroundItem]:
        """Return what runs in the background."""
        items: list[BackgroundItem] = []
        for call in self._open_tool_calls.values():
            if call.is_in_background and not call.final_status_sent:
                terminals = [key for key, (owner, _) in self.commands.items() if owner is call]
                # A call that has a process is listed only as its terminal (R-BGW-04).
                items.extend(("terminal", terminal_id) for terminal_id in terminals)
                if not terminals:
                    items.append(("tool_call", call.id))
        items.extend(("subagent", child.id) for child in self._subagents if child.is_in_background)
        return items

    def snapshot(self) -> list[BackgroundItem]:
        """Return what runs in the background, to be sent to the client at once."""
        self._last_sent = self.items()
        return self._last_sent

    def has_changed(self) -> bool:
        """Return whether the client knows of other work than there is."""
        return self.items() != self._last_sent

    def cancel(self) -> None:
        """Cancel what `run` started; each tool call ends as cancelled."""
        for call in tuple(self._running):
            call.cancel()

    async def stop(self) -> None:
        """Cancel the background work and wait up to `STOP_S` seconds."""
        self.cancel()
        if self._tasks is not None:
            await self._tasks.cancel(STOP_S)


def _finish(begun: asyncio.Future[None]) -> None:
    if not begun.done():
        begun.set_result(None)
