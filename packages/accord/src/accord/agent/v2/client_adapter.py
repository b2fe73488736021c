"""Sends updates and requests to a client of version 2."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from msgspec.structs import replace

from accord import v2
from accord.agent.background import Background
from accord.agent.shared_client_adapter import SharedClientAdapter
from accord.agent.shared_updates import background_to_wire, usage_to_wire
from accord.agent.text_stream import TextStream
from accord.agent.tool_call import PermissionQuestion
from accord.agent.updates import MessageRole, MessageUpdate, TurnEnded, Update
from accord.agent.v2.updates import (
    error_to_wire,
    in_stable_protocol,
    tool_call_fields,
    update_to_wire,
)
from accord.types.content import ContentBlock
from accord.types.convert_v2 import content_to_wire
from accord.types.session import Implementation, SessionOption
from accord.version import ProtocolVersion

_CHUNKS = {
    "user": v2.UserMessageChunk,
    "agent": v2.AgentMessageChunk,
    "thought": v2.AgentThoughtChunk,
}


class ClientAdapterV2(SharedClientAdapter):
    """Calls a client of version 2."""

    version: ProtocolVersion = 2
    shows_terminals = True

    def __init__(
        self, params: v2.InitializeRequest, context: v2.AgentContext, *, unstable: bool
    ) -> None:
        self._unstable = unstable
        self.shows_subagents: bool = unstable
        super().__init__(v2, context)
        self.capabilities: Any = params.capabilities
        info = params.info
        self.client_info: Implementation | None = Implementation(
            info.name, info.version, info.title
        )

    def send_message_chunk(
        self,
        session_id: str,
        role: MessageRole,
        message_id: str,
        content: ContentBlock,
        meta: dict[str, Any] | None = None,
    ) -> Coroutine[Any, Any, None]:
        block = v2.TextContent(text=content) if type(content) is str else content_to_wire(content)
        chunk = _CHUNKS[role](content=block, message_id=message_id, meta=meta)
        return self._send(session_id, chunk)

    def _send(self, session_id: str, update: v2.SessionUpdate) -> Coroutine[Any, Any, None]:
        return self._client.session_update(
            v2.UpdateSessionNotification(session_id=session_id, update=update)
        )

    def text_stream(self, session_id: str, role: MessageRole, message_id: str) -> TextStream:
        def params_for(text: str) -> v2.UpdateSessionNotification:
            chunk = _CHUNKS[role](content=v2.TextContent(text=text), message_id=message_id)
            return v2.UpdateSessionNotification(session_id=session_id, update=chunk)

        connection = self._context.connection
        return TextStream(connection, session_id, role, params_for, ())

    async def send_update(
        self, session_id: str, update: Update, meta: dict[str, Any] | None = None
    ) -> None:
        if isinstance(update, MessageUpdate) and update.role != "user":
            role, message_id = update.role, update.message_id
            for part in update.content:
                await self.send_message_chunk(session_id, role, message_id, part, meta)
            return
        if not self._unstable:
            update = in_stable_protocol(update)
        wire: Any = update_to_wire(update)
        await self._send(session_id, wire if meta is None else replace(wire, meta=meta))

    async def request_permission(self, session_id: str, question: PermissionQuestion) -> str | None:
        tool = v2.ToolCallDetails(tool_call_id=question.tool.id, **tool_call_fields(question.tool))
        answer = await self._client.request_permission(
            v2.RequestPermissionRequest(
                session_id=session_id,
                title=question.title,
                description=question.description,
                subject=v2.ToolCallPermissionSubject(tool_call=tool),
                options=[
                    v2.PermissionOption(option_id=o.id, name=o.name, kind=o.kind)
                    for o in question.options
                ],
            )
        )
        match answer.outcome:
            case v2.SelectedPermissionOutcome(option_id=option_id):
                return option_id
            case _:
                return None

    async def send_state(self, session_id: str, state: str, background: Background) -> None:
        work = background_to_wire(v2, background.snapshot())  # on every state (R-BGW-02)
        match state:
            case "running":
                await self._send(session_id, v2.RunningStateUpdate(background=work))
            case "requires_action":
                await self._send(session_id, v2.RequiresActionStateUpdate(background=work))
            case _:
                # It ends no turn: it has no stop reason (R-PROMPT-29).
                await self._send(session_id, v2.IdleStateUpdate(background=work))

    async def send_turn_end(
        self,
        session_id: str,
        ended: TurnEnded,
        background: Background,
        meta: dict[str, Any] | None = None,
    ) -> None:
        await self._send(
            session_id,
            v2.IdleStateUpdate(
                stop_reason=ended.stop_reason,
                error=None if ended.failure is None else error_to_wire(ended.failure),
                usage=None if ended.tokens is None else usage_to_wire(v2, ended.tokens),
                background=background_to_wire(v2, background.snapshot()),
                meta=meta,
            ),
        )

    def displayable_options(self, options: tuple[SessionOption, ...]) -> tuple[SessionOption, ...]:
        return options
