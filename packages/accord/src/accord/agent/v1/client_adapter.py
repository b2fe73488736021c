"""Sends updates and requests to a client of version 1."""

from __future__ import annotations

import logging
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from accord import v1
from accord.agent.client_adapter import mode_of
from accord.agent.shared_client_adapter import SharedClientAdapter
from accord.agent.shared_updates import cost_to_wire, option_to_wire, plan_lines, to_update
from accord.agent.text_stream import TextStream
from accord.agent.tool_call import PermissionQuestion
from accord.agent.updates import (
    CommandsUpdate,
    CompactionSummaryUpdate,
    CompactionUpdate,
    ContextUsageUpdate,
    MessageRole,
    MessageUpdate,
    OptionsUpdate,
    PlanFileUpdate,
    PlanMarkdownUpdate,
    PlanRemoved,
    PlanUpdate,
    TitleUpdate,
    ToolCallUpdate,
    ToolContentUpdate,
    Update,
)
from accord.agent.v1.tool_content import ToolContentBuffers
from accord.agent.v1.updates import (
    commands_to_wire,
    permission_kind,
    plan_entry_to_wire,
    tool_call_fields,
)
from accord.errors import FrameTooLarge, TransportError
from accord.types.content import ContentBlock
from accord.types.convert_v1 import content_to_wire
from accord.types.session import Implementation, PlanEntry, SessionOption, StopReason
from accord.version import ProtocolVersion

log: logging.Logger = logging.getLogger("accord.agent")

_CHUNKS = {
    "user": v1.UserMessageChunk,
    "agent": v1.AgentMessageChunk,
    "thought": v1.AgentThoughtChunk,
}
_STOP_REASONS = frozenset({"end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"})


class ClientAdapterV1(SharedClientAdapter):
    """Calls a client of version 1; content of tool calls is sent at intervals."""

    version: ProtocolVersion = 1
    cancelled_permission_cancels_turn = True

    def __init__(
        self, params: v1.InitializeRequest, context: v1.AgentContext, *, unstable: bool
    ) -> None:
        super().__init__(v1, context)
        self.capabilities: Any = params.client_capabilities
        self._tool_content = ToolContentBuffers(self._flush_tool_content_later)
        offered = self.capabilities
        self.reads_files: bool = offered.fs.read_text_file
        self.writes_files: bool = offered.fs.write_text_file
        self.has_terminals: bool = offered.terminal
        shown = offered.session
        self.shows_notices: bool = shown is not None and shown.notices is not None
        self._shows_compactions = shown is not None and shown.compaction is not None
        self.shows_subagents: bool = unstable and offered.subagents is not None
        self._shows_plans = unstable and offered.plan is not None
        if (info := params.client_info) is not None:
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
        block = v1.TextContent(text=content) if type(content) is str else content_to_wire(content)
        chunk = _CHUNKS[role](content=block, message_id=message_id, meta=meta)
        if self._tool_content.has_unsent(session_id):
            return self._send_after_tool_content(session_id, chunk)
        return self._client.session_update(
            v1.SessionNotification(session_id=session_id, update=chunk)
        )

    def text_stream(self, session_id: str, role: MessageRole, message_id: str) -> TextStream:
        def params_for(text: str) -> v1.SessionNotification:
            chunk = _CHUNKS[role](content=v1.TextContent(text=text), message_id=message_id)
            return v1.SessionNotification(session_id=session_id, update=chunk)

        blocked = self._tool_content.unsent_sessions
        return TextStream(self._context.connection, session_id, role, params_for, blocked)

    async def send_update(
        self, session_id: str, update: Update, meta: dict[str, Any] | None = None
    ) -> None:
        match update:
            case MessageUpdate(role, message_id, content):
                for part in content:
                    await self.send_message_chunk(session_id, role, message_id, part, meta)
                return
            case ToolContentUpdate(tool_id, content, continues):
                if not self._tool_content.add(session_id, tool_id, content, continues=continues):
                    return
                await self._send(session_id, [self._content(session_id, tool_id)])
                return
            case _:
                pass
        await self.flush_tool_content(session_id)
        updates = self._updates(session_id, update)
        if meta is not None:
            updates = [replace(each, meta=meta) for each in updates]
        await self._send(session_id, updates)

    async def send_mode(self, session_id: str, mode: str) -> None:
        """Send the mode; the options are in the response that follows."""
        await self._send_after_tool_content(session_id, v1.CurrentModeUpdate(current_mode_id=mode))

    async def flush_tool_content(self, session_id: str) -> None:
        """Send content of tool calls that is postponed: later updates may refer to it."""
        for tool_id in self._tool_content.unsent(session_id):
            await self._flush_tool_call(session_id, tool_id)

    async def _flush_tool_call(self, session_id: str, tool_id: str) -> None:
        """Send postponed content of a tool call; log content that is too large for a message.

        Later updates, such as the status of the call, must still be sent.
        """
        if self._tool_content.is_unsent(session_id, tool_id):  # another task may have sent it
            try:
                await self._send(session_id, [self._content(session_id, tool_id)])
            except FrameTooLarge as exc:
                log.error("! the content of the tool call %s was not sent: %s", tool_id, exc)

    async def _send_after_tool_content(self, session_id: str, update: v1.SessionUpdate) -> None:
        await self.flush_tool_content(session_id)
        await self._send(session_id, [update])

    def _flush_tool_content_later(self, session_id: str, tool_id: str) -> None:
        async def send() -> None:
            with suppress(TransportError):  # the client has disconnected
                await self._flush_tool_call(session_id, tool_id)

        self.spawn(send())

    async def _send(self, session_id: str, updates: Iterable[v1.SessionUpdate]) -> None:
        for update in updates:
            await self._client.session_update(
                v1.SessionNotification(session_id=session_id, update=update)
            )

    def _updates(self, session_id: str, update: Update) -> list[v1.SessionUpdate]:
        match update:
            case ToolCallUpdate():
                return [self._tool(session_id, update)]
            case PlanUpdate() | PlanMarkdownUpdate() | PlanFileUpdate() | PlanRemoved():
                return [self._plan(update)]
            case OptionsUpdate(options, mode_changed):
                updates: list[v1.SessionUpdate] = []
                mode = mode_of(options)
                if mode_changed and mode is not None:
                    updates.append(v1.CurrentModeUpdate(current_mode_id=mode.value))
                return [
                    *updates,
                    v1.ConfigOptionUpdate(config_options=self.options_to_wire(options)),
                ]
            case CommandsUpdate(commands):
                wire = commands_to_wire(commands)
                return [v1.AvailableCommandsUpdate(available_commands=wire)]
            case TitleUpdate(title):
                return [v1.SessionInfoUpdate(title=title)]
            case ContextUsageUpdate(usage):
                cost = cost_to_wire(v1, usage.cost)
                return [v1.UsageUpdate(used=usage.used, size=usage.size, cost=cost)]
            case CompactionUpdate() | CompactionSummaryUpdate() if not self._shows_compactions:
                return []
            case _:
                encoded = to_update(v1, content_to_wire, update)
                return [] if encoded is None else [encoded]  # version 1 does not define it

    def _plan(
        self, update: PlanUpdate | PlanMarkdownUpdate | PlanFileUpdate | PlanRemoved
    ) -> v1.SessionUpdate:
        match update:
            case PlanUpdate(plan_id, entries):
                found = [plan_entry_to_wire(entry) for entry in entries]
                if self._shows_plans:
                    return v1.PlanUpdate(plan=v1.PlanItems(plan_id=plan_id, entries=found))
                return v1.Plan(entries=found)
            case _ if self._shows_plans:
                return to_update(v1, content_to_wire, update)
            case PlanRemoved():
                return v1.Plan(entries=[])
            case _:
                return v1.Plan(
                    entries=[plan_entry_to_wire(PlanEntry(line)) for line in plan_lines(update)]
                )

    def _content(self, session_id: str, tool_id: str) -> v1.ToolCallUpdate:
        shown = self._tool_content.take_content(session_id, tool_id)
        return v1.ToolCallUpdate(tool_call_id=tool_id, content=shown)

    def _tool(self, session_id: str, update: ToolCallUpdate) -> v1.SessionUpdate:
        fields = tool_call_fields(update)
        if update.content is not UNSET:
            self._tool_content.buffer(session_id, update.id).replace(update.content)
            fields["content"] = self._tool_content.take_content(session_id, update.id)
        if fields.get("status") in ("completed", "failed"):
            if self._tool_content.is_unsent(session_id, update.id):
                fields["content"] = self._tool_content.take_content(session_id, update.id)
            self._tool_content.drop(session_id, update.id)
        if update.is_new:
            return v1.ToolCall(tool_call_id=update.id, **fields)
        return v1.ToolCallUpdate(tool_call_id=update.id, **fields)

    async def request_permission(self, session_id: str, question: PermissionQuestion) -> str | None:
        await self.flush_tool_content(session_id)
        tool = question.tool
        fields = tool_call_fields(tool)
        fields["title"] = question.title
        shown = self._tool_content.buffer(session_id, tool.id).content()
        if question.description is not None:
            shown.append(v1.Content(content=v1.TextContent(text=question.description)))
        if shown:
            fields["content"] = shown
        answer = await self._client.request_permission(
            v1.RequestPermissionRequest(
                session_id=session_id,
                tool_call=v1.ToolCallDetails(tool_call_id=tool.id, **fields),
                options=[
                    v1.PermissionOption(option_id=o.id, name=o.name, kind=permission_kind(o.kind))
                    for o in question.options
                ],
            )
        )
        if question.title != tool.title and tool.title is not UNSET:
            # The tool call continues under its own title.
            title = v1.ToolCallUpdate(tool_call_id=tool.id, title=tool.title)
            await self._send(session_id, [title])
        match answer.outcome:
            case v1.SelectedPermissionOutcome(option_id=option_id):
                return option_id
            case _:
                return None

    async def read_file(
        self, session_id: str, path: str, line: int | None, limit: int | None
    ) -> str:
        request = v1.ReadTextFileRequest(session_id=session_id, path=path, line=line, limit=limit)
        return (await self._client.read_text_file(request)).content

    async def write_file(self, session_id: str, path: str, text: str) -> None:
        await self._client.write_text_file(
            v1.WriteTextFileRequest(session_id=session_id, path=path, content=text)
        )

    async def create_terminal(
        self,
        session_id: str,
        argv: Sequence[str],
        cwd: str,
        env: Mapping[str, str],
        output_bytes: int,
    ) -> str:
        command, *args = argv
        created = await self._client.create_terminal(
            v1.CreateTerminalRequest(
                session_id=session_id,
                command=command,
                args=args,
                env=[v1.EnvVariable(name=name, value=value) for name, value in env.items()],
                cwd=cwd,
                output_byte_limit=output_bytes,
            )
        )
        return created.terminal_id

    async def terminal_exit(
        self, session_id: str, terminal_id: str
    ) -> tuple[int | None, str | None]:
        ended = await self._client.wait_for_terminal_exit(
            v1.WaitForTerminalExitRequest(session_id=session_id, terminal_id=terminal_id)
        )
        return ended.exit_code, ended.signal

    async def terminal_output(self, session_id: str, terminal_id: str) -> tuple[str, bool]:
        answer = await self._client.terminal_output(
            v1.TerminalOutputRequest(session_id=session_id, terminal_id=terminal_id)
        )
        return answer.output, answer.truncated

    async def kill_terminal(self, session_id: str, terminal_id: str) -> None:
        await self._client.kill_terminal(
            v1.KillTerminalRequest(session_id=session_id, terminal_id=terminal_id)
        )

    async def release_terminal(self, session_id: str, terminal_id: str) -> None:
        await self._client.release_terminal(
            v1.ReleaseTerminalRequest(session_id=session_id, terminal_id=terminal_id)
        )

    def drop_session(self, session_id: str) -> None:
        self._tool_content.drop_session(session_id)

    def stop_reason(self, reason: StopReason) -> Any:
        return reason if reason in _STOP_REASONS else "end_turn"

    def displayable_options(self, options: tuple[SessionOption, ...]) -> tuple[SessionOption, ...]:
        offered = self.capabilities.session and self.capabilities.session.config_options
        if offered is not None and offered.boolean is not None:
            return options
        return tuple(o for o in options if not isinstance(o.value, bool))  # R-CONF-08

    def options_to_wire(self, options: tuple[SessionOption, ...]) -> list[v1.SessionConfigOption]:
        """Return the options that the client supports, in the types of version 1."""
        return [
            option_to_wire(v1, option, id_field="id", group_field="group")
            for option in self.displayable_options(options)
        ]
