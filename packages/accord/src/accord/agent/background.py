"""Work of a session that outlives its turn: listed in version 2, cancelled with the session."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

from accord.agent.cancel_scope import WorkCancelled
from accord.agent.turn_state import current_turn
from accord.connection.tasks import Tasks, ends_process, is_dropped
from accord.errors import TransportError

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
