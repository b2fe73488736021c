"""Work that goes on when its turn is over: listed in version 2, and stopped with the session."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from accord.connection.tasks import Tasks, cancel, ends_process, is_dropped
from accord.errors import AccordError, TransportError

if TYPE_CHECKING:
    from accord.agent.session import Session
    from accord.agent.tool_call import ToolCallHandle
    from accord.agent.turn import Turn
    from accord.local.command import LocalCommand

__all__ = ("STOP_S", "Background", "BackgroundItem", "CancelScope", "WorkCancelled", "current_turn")

log = logging.getLogger("accord.agent")

STOP_S = 5.0  # for work that is cancelled to come to its end

# Work that still runs, and whether it is shown as a terminal or as a tool call.
BackgroundItem: TypeAlias = tuple[Literal["tool_call", "terminal", "subagent"], str]

# The turn on whose behalf this code runs; None in the background of its session.
current_turn: ContextVar[Turn | None] = ContextVar("accord.agent.turn")


class WorkCancelled(AccordError):
    """A tool call or a subagent was cancelled by itself; the turn goes on."""


class CancelScope:
    """A block that can be cancelled by itself."""

    def __init__(self) -> None:
        self.cancelled = False
        self._earlier_cancels = 0  # cancels of the task that were there before
        self._task: asyncio.Task[Any] | None = None

    def enter(self) -> None:
        """The block begins."""
        self._task = asyncio.current_task()
        self._earlier_cancels = 0 if self._task is None else self._task.cancelling()

    def cancel(self) -> None:
        """Cancel what runs in the block; when it is too late for that, nothing happens."""
        if self._task is not None and not self.cancelled:
            self.cancelled = True
            cancel(self._task)

    async def leave(self, error: BaseException | None) -> bool:
        """Take back the cancel of this block; return whether that is what ended it."""
        task, self._task = self._task, None
        if not self.cancelled or task is None:
            return False
        if not isinstance(error, asyncio.CancelledError):
            with suppress(asyncio.CancelledError):  # it was faster
                await asyncio.sleep(0)
        return task.uncancel() <= self._earlier_cancels and isinstance(
            error, asyncio.CancelledError
        )


class Background:
    """What runs in a session, as its client may list and stop it (R-BGW-01, R-BGW-04)."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._tasks: Tasks | None = None
        self._last_sent: list[BackgroundItem] = []
        self._running: set[ToolCallHandle] = set()
        # Of version 2: by terminal id, with the call that shows it.
        self.commands: dict[str, tuple[ToolCallHandle, LocalCommand]] = {}

    async def run(
        self, call: ToolCallHandle, work: Callable[[ToolCallHandle], Awaitable[object]]
    ) -> None:
        """Begin work in a tool call that outlives the turn; return once it is shown."""
        if self._tasks is None:
            self._tasks = Tasks()
        self._running.add(call)
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._tasks.spawn(self._run(call, work, begun), name=f"accord background {call.title}")
        await begun

    async def _run(
        self,
        call: ToolCallHandle,
        work: Callable[[ToolCallHandle], Awaitable[object]],
        begun: asyncio.Future[None],
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
            if isinstance(exc, TransportError) and self._session.client_adapter.is_closed:
                log.debug("! the client has gone in the middle of background work", exc_info=True)
                return
            log.exception("! background work failed: %s", call.title)
        finally:
            self._running.discard(call)
            _finish(begun)

    def items(self) -> list[BackgroundItem]:
        """Return what runs detached."""
        found: list[BackgroundItem] = []
        for call in self._session.open_tool_calls.values():
            if call.is_in_background and not call.final_status_sent:
                terminals = [key for key, (owner, _) in self.commands.items() if owner is call]
                # What has a process appears as its terminal alone (R-BGW-04).
                found.extend(("terminal", terminal_id) for terminal_id in terminals)
                if not terminals:
                    found.append(("tool_call", call.id))
        found.extend(
            ("subagent", child.id) for child in self._session.subagents if child.is_in_background
        )
        return found

    def snapshot(self) -> list[BackgroundItem]:
        """Return what runs detached, to tell the client at once."""
        self._last_sent = self.items()
        return self._last_sent

    async def notify_if_changed(self) -> None:
        """Tell the client if there is other work now than it knows of."""
        if self.items() != self._last_sent and not self._session.closed:
            await self._session.client_adapter.send_state(self._session)

    def cancel(self) -> None:
        """Stop what was begun as background work; each tool call ends as cancelled."""
        for call in tuple(self._running):
            call.cancel()

    async def stop(self) -> None:
        """Stop it and wait, but not for ever."""
        self.cancel()
        if self._tasks is not None:
            await self._tasks.cancel(STOP_S)


def _finish(begun: asyncio.Future[None]) -> None:
    if not begun.done():
        begun.set_result(None)
