"""A session inside of a session: work of another agent, shown apart or as a tool call."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING

from msgspec import UNSET

from accord.agent.background import Scope, WorkCancelled
from accord.agent.session import Session
from accord.agent.tool_call import ToolCall, current_tool
from accord.agent.turn_runner import Course
from accord.agent.updates import Ended, SubagentReport
from accord.connection.tasks import is_stopped
from accord.types.session import StopReason, Tokens

if TYPE_CHECKING:
    from accord.agent.session_actions import Verbs
    from accord.agent.turn import Turn

__all__ = ("Subagent",)


class Subagent(Session):
    """A session inside of another, to enter; it says and does what turns do.

    `stop_reason` and `tokens` are told at its end. What the user has allowed for always holds
    for it, too.
    """

    def __init__(
        self,
        owner: Verbs,
        title: str,
        *,
        description: str | None,
        cwd: str | None,
        additional: Sequence[str] | None,
        cancellable: bool,
    ) -> None:
        parent = owner.session
        works_in = parent.cwd if cwd is None else cwd
        others = parent.roots[1:] if additional is None else additional
        super().__init__(
            f"session-{os.urandom(12).hex()}",
            parent.host,
            cwd=works_in,
            roots=tuple(dict.fromkeys((works_in, *others))),
            mcp_servers=parent.mcp_servers,
            system_prompt=parent.system_prompt,
        )
        self.parent = parent
        self.title_now = title
        self.description = description
        self.cancellable = cancellable
        self.options = parent.options
        self.remembered = parent.remembered
        self.stop_reason: StopReason = "end_turn"
        self.tokens: Tokens | None = None
        self._owner = owner
        self._own = cwd, additional
        self._turn = owner.turn_here
        self._within = current_tool(parent)
        self._scope = Scope()
        self._call: ToolCall | None = None  # that stands for it

    async def __aenter__(self) -> Subagent:
        parent = self.parent
        self._scope.enter()
        if not parent.link.shows_subagents:
            await self._enter_call()
            return self
        cwd, additional = self._own
        # Before anything else that names it (R-SUBAG-02).
        await parent.report(
            SubagentReport(
                id=self.id,
                title=self.title_now or UNSET,
                description=UNSET if self.description is None else self.description,
                cwd=UNSET if cwd is None else cwd,
                additional=UNSET if additional is None else tuple(additional),
                cancellable=self.cancellable or UNSET,
                state="running",
            )
        )
        parent.children.append(self)
        self.host.children[self.id] = self
        try:
            self.turns.append(Course(self, ()))
            self.is_open = True
            await super().tell_state()
            await self._tell_parents_background()
        except BaseException as exc:
            await self.__aexit__(type(exc), exc, None)
            raise
        return self

    async def _enter_call(self) -> None:
        from accord.agent.subagent_tool_call import InCall

        call = self._owner.tool(self.title_now or "", kind="think", cancellable=self.cancellable)
        await call.__aenter__()
        await call.start()
        self._call = call
        self.link = InCall(self.parent, call)
        if self.description:
            await call.content(self.description)

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
                await self._tell_end(error, stopped=stopped)
        finally:
            self.closed = True
            self.link.forget(self.id)
            self.host.children.pop(self.id, None)
            if self in self.parent.children:
                self.parent.children.remove(self)
        if self._call is not None:
            await self._call.__aexit__(kind, error, where)
        await self._tell_parents_background()
        if stopped:
            raise WorkCancelled(self.title_now) from None

    async def _tell_end(self, error: BaseException | None, *, stopped: bool) -> None:
        reason = self.stop_reason
        if stopped or isinstance(error, asyncio.CancelledError) or is_stopped():
            reason = "cancelled"
        elif error is not None:
            reason = "error"
        self.turns.clear()
        self.idle()
        if self.parent.closed:
            return
        await self.link.ended(self, Ended(reason, tokens=self.tokens))
        await self.parent.report(
            SubagentReport(
                id=self.id,
                state="idle",
                stop_reason=reason,
                tokens=self.tokens,
                cancellable=False if self.cancellable else UNSET,
            )
        )

    @property
    def is_detached(self) -> bool:
        """Whether it works beside any turn and tool call of the session that it is in."""
        return self._within is None and (self._turn is None or self._turn.is_over)

    @property
    def turn_here(self) -> Turn | None:
        """See `Verbs`: what it does belongs to the turn that it was begun in."""
        return self._turn

    def cancel(self) -> None:
        """Stop what runs in the block, if that was offered (R-SUBAG-05)."""
        if self.cancellable:
            self._scope.cancel()

    async def tell_state(self) -> None:
        """Tell the client, and mirror it in the session that it is in (R-SUBAG-07)."""
        was = self.state
        await super().tell_state()
        if self.state != was and self._call is None:
            await self.parent.report(
                SubagentReport(
                    id=self.id,
                    state=self.state,
                    background=tuple(self.background_work.items()),
                )
            )

    @asynccontextmanager
    async def asking(self, *, detached: bool) -> AsyncGenerator[None, None]:
        """The user is asked for something meanwhile, which may hold up the other session, too."""
        if self._call is not None:
            self._call.asking = True
        try:
            async with super().asking(detached=detached), self.parent.asking(detached=detached):
                yield
        finally:
            if self._call is not None:
                self._call.asking = False

    async def _tell_parents_background(self) -> None:
        if self.is_detached and self._call is None:
            await self.parent.background_work.tell()
