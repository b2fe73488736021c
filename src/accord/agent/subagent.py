"""A session inside of a session: work of another agent, shown apart or as a tool call."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING

from msgspec import UNSET

from accord.agent.background import CancelScope, WorkCancelled
from accord.agent.session import Session
from accord.agent.tool_call import ToolCallHandle, current_tool_call
from accord.agent.turn_runner import TurnRunner
from accord.agent.updates import SubagentUpdate, TurnEnded
from accord.connection.tasks import is_stopped
from accord.types.session import StopReason, TokenUsage

if TYPE_CHECKING:
    from accord.agent.session_actions import SessionActions
    from accord.agent.turn import Turn

__all__ = ("SubagentHandle",)


class SubagentHandle(Session):
    """A session inside of another, to enter; it says and does what turns do.

    `stop_reason` and `tokens` are told at its end. What the user has allowed for always holds
    for it, too.
    """

    def __init__(
        self,
        owner: SessionActions,
        title: str,
        *,
        description: str | None,
        cwd: str | None,
        additional_directories: Sequence[str] | None,
        cancellable: bool,
    ) -> None:
        parent = owner.session
        works_in = parent.cwd if cwd is None else cwd
        others = (
            parent.directories[1:] if additional_directories is None else additional_directories
        )
        super().__init__(
            f"session-{os.urandom(12).hex()}",
            parent.manager,
            cwd=works_in,
            directories=tuple(dict.fromkeys((works_in, *others))),
            mcp_servers=parent.mcp_servers,
            system_prompt=parent.system_prompt,
        )
        self.parent = parent
        self.title = title
        self.description = description
        self.cancellable = cancellable
        self.options = parent.options
        self.permission_memory = parent.permission_memory
        self.stop_reason: StopReason = "end_turn"
        self.token_usage: TokenUsage | None = None
        self._owner = owner
        self._given_directories = cwd, additional_directories
        self._turn = owner.turn_here
        self._around = current_tool_call(parent)
        self._scope = CancelScope()
        self._call: ToolCallHandle | None = None  # that stands for it

    async def __aenter__(self) -> SubagentHandle:
        parent = self.parent
        self._scope.enter()
        if not parent.client_adapter.shows_subagents:
            await self._enter_call()
            return self
        cwd, additional = self._given_directories
        # Before anything else that names it (R-SUBAG-02).
        await parent.publish(
            SubagentUpdate(
                id=self.id,
                title=self.title or UNSET,
                description=UNSET if self.description is None else self.description,
                cwd=UNSET if cwd is None else cwd,
                additional=UNSET if additional is None else tuple(additional),
                cancellable=self.cancellable or UNSET,
                state="running",
            )
        )
        parent.subagents.append(self)
        self.manager.subagents[self.id] = self
        try:
            self.turn_queue.append(TurnRunner(self, ()))
            self.is_open = True
            await super().update_state()
            await self._notify_parent()
        except BaseException as exc:
            await self.__aexit__(type(exc), exc, None)
            raise
        return self

    async def _enter_call(self) -> None:
        from accord.agent.subagent_tool_call import SubagentToolCallAdapter

        call = self._owner.tool(self.title or "", kind="think", cancellable=self.cancellable)
        await call.__aenter__()
        await call.start()
        self._call = call
        self.link = SubagentToolCallAdapter(self.parent, call)
        if self.description:
            await call.add_content(self.description)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        stopped = await self._scope.leave(error)
        try:
            await self.background_work.stop()
            if self._call is None:
                await self._send_end(error, stopped=stopped)
        finally:
            self.closed = True
            self.link.drop_session(self.id)
            self.manager.subagents.pop(self.id, None)
            if self in self.parent.subagents:
                self.parent.subagents.remove(self)
        if self._call is not None:
            await self._call.__aexit__(kind, error, where)
        await self._notify_parent()
        if stopped:
            raise WorkCancelled(self.title) from None

    async def _send_end(self, error: BaseException | None, *, stopped: bool) -> None:
        reason = self.stop_reason
        if stopped or isinstance(error, asyncio.CancelledError) or is_stopped():
            reason = "cancelled"
        elif error is not None:
            reason = "error"
        self.turn_queue.clear()
        self.set_idle()
        if self.parent.closed:
            return
        await self.link.send_turn_end(self, TurnEnded(reason, tokens=self.token_usage))
        await self.parent.publish(
            SubagentUpdate(
                id=self.id,
                state="idle",
                stop_reason=reason,
                tokens=self.token_usage,
                cancellable=False if self.cancellable else UNSET,
            )
        )

    @property
    def is_in_background(self) -> bool:
        """Whether it works beside any turn and tool call of the session that it is in."""
        return self._around is None and (self._turn is None or self._turn.is_over)

    @property
    def turn_here(self) -> Turn | None:
        """See `SessionActions`: what it does belongs to the turn that it was begun in."""
        return self._turn

    def cancel(self) -> None:
        """Stop what runs in the block, if that was offered (R-SUBAG-05)."""
        if self.cancellable:
            self._scope.cancel()

    async def update_state(self) -> None:
        """Tell the client, and mirror it in the session that it is in (R-SUBAG-07)."""
        was = self.state
        await super().update_state()
        if self.state != was and self._call is None:
            await self.parent.publish(
                SubagentUpdate(
                    id=self.id,
                    state=self.state,
                    background=tuple(self.background_work.items()),
                )
            )

    @asynccontextmanager
    async def waiting_for_user(self, *, detached: bool) -> AsyncGenerator[None, None]:
        """The user is asked for something meanwhile, which may hold up the other session, too."""
        if self._call is not None:
            self._call.is_asking = True
        try:
            async with (
                super().waiting_for_user(detached=detached),
                self.parent.waiting_for_user(detached=detached),
            ):
                yield
        finally:
            if self._call is not None:
                self._call.is_asking = False

    async def _notify_parent(self) -> None:
        if self.is_in_background and self._call is None:
            await self.parent.background_work.notify_if_changed()
