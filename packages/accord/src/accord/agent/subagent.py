"""A session inside another one: the work of another agent, shown apart or as a tool call.

`SubagentToolCallAdapter` shows it as a tool call, for clients that do not support subagents.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from accord.agent.client_adapter import ClientAdapter
from accord.agent.session_core import SessionCore
from accord.agent.tool_call import BaseToolCall, current_tool_call
from accord.agent.updates import (
    MessageRole,
    MessageUpdate,
    PermissionQuestion,
    SubagentUpdate,
    ToolCallUpdate,
    ToolContentUpdate,
    TurnEnded,
    Update,
)
from accord.agent.work import CancelScope, TurnState, WorkCancelled
from accord.connection.tasks import is_stopped
from accord.errors import RequestError
from accord.types.content import ContentBlock
from accord.types.session import (
    AuthAccount,
    AuthState,
    Implementation,
    SessionOption,
    StopReason,
    TokenUsage,
)
from accord.types.tool_calls import Diff, TerminalView
from accord.version import ProtocolVersion


class SubagentToolCallAdapter(ClientAdapter):
    """The adapter of a subagent that is shown as a tool call of its parent."""

    def __init__(self, parent: SessionCore, call: BaseToolCall) -> None:
        adapter = parent.client_adapter
        self._adapter = adapter
        self._session_id = parent.id
        self._call = call
        self.version: ProtocolVersion = adapter.version
        self.capabilities: Any = adapter.capabilities
        self.client_info: Implementation | None = adapter.client_info
        self.cancelled_permission_cancels_turn: bool = adapter.cancelled_permission_cancels_turn
        self.reads_files: bool = adapter.reads_files
        self.writes_files: bool = adapter.writes_files
        self.has_terminals: bool = adapter.has_terminals
        self.shows_notices = False

    async def send_message_chunk(
        self,
        session_id: str,
        role: MessageRole,
        message_id: str,
        content: ContentBlock,
        meta: dict[str, Any] | None = None,
    ) -> None:
        if role != "agent":
            return
        if type(content) is str:
            await self._call.append_text(content)
        else:
            await self._call.add_content(content)

    async def send_update(
        self, session_id: str, update: Update, meta: dict[str, Any] | None = None
    ) -> None:
        match update:
            case MessageUpdate(role, message_id, content):
                for part in content:
                    await self.send_message_chunk(session_id, role, message_id, part)
            case ToolCallUpdate(is_new=True, title=str() as title):
                await self._call.append_text(f"\n{title}\n")
            case ToolContentUpdate(content=Diff() | TerminalView() as shown):
                await self._call.add_content(shown)
            case _:
                pass  # not meant primarily for the user

    async def request_permission(self, session_id: str, question: PermissionQuestion) -> str | None:
        call = self._call
        # With the kind, the paths and the raw input of what is asked about: clients decide by them.
        tool = replace(
            question.tool, id=call.id, title=call.title, status=call.status, content=UNSET
        )
        return await self._adapter.request_permission(
            self._session_id, replace(question, tool=tool)
        )

    async def read_file(
        self, session_id: str, path: str, line: int | None, limit: int | None
    ) -> str:
        return await self._adapter.read_file(self._session_id, path, line, limit)

    async def write_file(self, session_id: str, path: str, text: str) -> None:
        await self._adapter.write_file(self._session_id, path, text)

    async def create_terminal(
        self,
        session_id: str,
        argv: Sequence[str],
        cwd: str,
        env: Mapping[str, str],
        output_bytes: int,
    ) -> str:
        return await self._adapter.create_terminal(self._session_id, argv, cwd, env, output_bytes)

    async def terminal_exit(
        self, session_id: str, terminal_id: str
    ) -> tuple[int | None, str | None]:
        return await self._adapter.terminal_exit(self._session_id, terminal_id)

    async def terminal_output(self, session_id: str, terminal_id: str) -> tuple[str, bool]:
        return await self._adapter.terminal_output(self._session_id, terminal_id)

    async def kill_terminal(self, session_id: str, terminal_id: str) -> None:
        await self._adapter.kill_terminal(self._session_id, terminal_id)

    async def release_terminal(self, session_id: str, terminal_id: str) -> None:
        await self._adapter.release_terminal(self._session_id, terminal_id)

    async def elicit_form(
        self, session_id: str, message: str, schema: dict[str, Any], tool_id: str | None
    ) -> dict[str, Any] | None:
        return await self._adapter.elicit_form(self._session_id, message, schema, self._call.id)

    async def elicit_url(
        self, session_id: str, message: str, url: str, elicitation_id: str, tool_id: str | None
    ) -> bool:
        return await self._adapter.elicit_url(
            self._session_id, message, url, elicitation_id, self._call.id
        )

    async def complete_elicitation(self, elicitation_id: str) -> None:
        await self._adapter.complete_elicitation(elicitation_id)

    async def call_extension(self, method: str, params: Any) -> Any:
        return await self._adapter.call_extension(method, params)

    async def notify_extension(self, method: str, params: Any) -> None:
        await self._adapter.notify_extension(method, params)

    async def send_auth_status(self, state: AuthState, accounts: Sequence[AuthAccount]) -> None:
        await self._adapter.send_auth_status(state, accounts)

    def cancel_prompts(self, session_id: str) -> None:
        """Do nothing: a subagent has no prompts."""

    @property
    def is_closed(self) -> bool:
        return self._adapter.is_closed

    def is_clients_error(self, error: RequestError) -> bool:
        return self._adapter.is_clients_error(error)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._adapter.spawn(work)

    def displayable_options(self, options: tuple[SessionOption, ...]) -> tuple[SessionOption, ...]:
        return self._adapter.displayable_options(options)


class SubagentCore(SessionCore):
    """The core of a subagent; `enter` and `leave` are those of the block of `SubagentHandle`."""

    def __init__(
        self,
        parent: SessionCore,
        turn: TurnState | None,
        title: str,
        *,
        description: str | None,
        cwd: str | None,
        additional_directories: Sequence[str] | None,
        cancellable: bool,
    ) -> None:
        works_in = parent.cwd if cwd is None else cwd
        others = (
            parent.directories[1:] if additional_directories is None else additional_directories
        )
        super().__init__(
            f"session-{os.urandom(12).hex()}",
            parent.client_adapter,
            parent.decide_permission,
            parent.all_subagents,
            cwd=works_in,
            directories=tuple(dict.fromkeys((works_in, *others))),
            mcp_servers=parent.mcp_servers,
            system_prompt=parent.system_prompt,
        )
        self.parent = parent
        self.title: str | None = title
        self.description = description
        self.cancellable = cancellable
        self.options: tuple[SessionOption, ...] = parent.options
        self.permission_memory: dict[tuple[str, ...], bool] = parent.permission_memory
        self._given_directories = cwd, additional_directories
        self._turn = turn
        self._around = current_tool_call(parent)
        self._scope = CancelScope()
        self._call: BaseToolCall | None = None  # that it is shown as

    async def enter(self) -> None:
        """Begin the block: show the subagent."""
        parent = self.parent
        self._scope.enter()
        if not parent.client_adapter.shows_subagents:
            await self._enter_call()
            return
        cwd, additional = self._given_directories
        # Before anything else that names it (R-SUBAG-02).
        await parent.publish(
            SubagentUpdate(
                id=self.id,
                title=self.title or UNSET,
                description=UNSET if self.description is None else self.description,
                cwd=UNSET if cwd is None else cwd,
                additional_directories=UNSET if additional is None else tuple(additional),
                cancellable=self.cancellable or UNSET,
                state="running",
            )
        )
        parent.subagents.append(self)
        self.all_subagents[self.id] = self
        try:
            self.turn_queue.append(TurnState())
            self.is_open = True
            await super().update_state()
            await self._notify_parent()
        except BaseException as exc:
            await self.leave(type(exc), exc, None, "end_turn", None)
            raise

    async def _enter_call(self) -> None:
        call = BaseToolCall(
            self.parent, self._turn, self.title or "", kind="think", cancellable=self.cancellable
        )
        await call.__aenter__()
        await call.start()
        self._call = call
        self.set_client_adapter(SubagentToolCallAdapter(self.parent, call))
        if self.description:
            await call.add_content(self.description)

    async def leave(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
        stop_reason: StopReason,
        token_usage: TokenUsage | None,
    ) -> None:
        """End the block: stop background work and show how the subagent ended."""
        cancelled_alone = await self._scope.leave(error)
        try:
            await self.background.stop()
            if self._call is None:
                if cancelled_alone or isinstance(error, asyncio.CancelledError) or is_stopped():
                    stop_reason = "cancelled"
                elif error is not None:
                    stop_reason = "error"
                await self._send_end(stop_reason, token_usage)
        finally:
            self.close()
            self.client_adapter.drop_session(self.id)
            self.all_subagents.pop(self.id, None)
            if self in self.parent.subagents:
                self.parent.subagents.remove(self)
        if self._call is not None:
            await self._call.__aexit__(kind, error, where)
        await self._notify_parent()
        if cancelled_alone:
            raise WorkCancelled(self.title) from None

    async def _send_end(self, stop_reason: StopReason, token_usage: TokenUsage | None) -> None:
        self.turn_queue.clear()
        self.set_idle()
        if self.parent.closed:
            return
        ended = TurnEnded(stop_reason, tokens=token_usage)
        await self.client_adapter.send_turn_end(self.id, ended, self.background)
        await self.parent.publish(
            SubagentUpdate(
                id=self.id,
                state="idle",
                stop_reason=stop_reason,
                tokens=token_usage,
                cancellable=False if self.cancellable else UNSET,
            )
        )

    @property
    def is_in_background(self) -> bool:
        """Whether it works outside any turn and tool call of the session that it is in."""
        return self._around is None and (self._turn is None or self._turn.is_over)

    def turn_here(self) -> TurnState | None:
        """Return the turn that the subagent was started in."""
        return self._turn

    def cancel(self) -> None:
        """Cancel the block, if it is `cancellable` (R-SUBAG-05)."""
        if self.cancellable:
            self._scope.cancel()

    async def update_state(self) -> None:
        """Send the state, and repeat it in the session that the subagent is in (R-SUBAG-07)."""
        previous = self.state
        await super().update_state()
        if self.state != previous and self._call is None:
            await self.parent.publish(
                SubagentUpdate(
                    id=self.id,
                    state=self.state,
                    background=tuple(self.background.items()),
                )
            )

    @asynccontextmanager
    async def waiting_for_user(self, *, detached: bool) -> AsyncGenerator[None, None]:
        """Mark this session, and the session that it is in, as waiting for the user."""
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
            await self.parent.notify_background()
