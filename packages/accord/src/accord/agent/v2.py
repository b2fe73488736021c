"""Calls a client of version 2: updates and requests in the types of the version."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Coroutine
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from accord import v2
from accord.agent.client_adapter import (
    SharedClientAdapter,
    TextStream,
    background_to_wire,
    cost_to_wire,
    option_to_wire,
    plan_lines,
    to_update,
    usage_to_wire,
)
from accord.agent.updates import (
    CommandsUpdate,
    ContextUsageUpdate,
    MessageRole,
    MessageUpdate,
    OptionsUpdate,
    PermissionQuestion,
    PlanFileUpdate,
    PlanMarkdownUpdate,
    PlanRemoved,
    PlanUpdate,
    TerminalExited,
    TerminalOutputUpdate,
    TerminalStarted,
    TitleUpdate,
    ToolCallUpdate,
    ToolContentUpdate,
    TurnEnded,
    TurnError,
    Update,
)
from accord.agent.work import Background
from accord.types.content import ContentBlock
from accord.types.convert_v2 import content_to_wire, location_to_wire, tool_content_to_wire
from accord.types.session import AvailableCommand, Implementation, PlanEntry, SessionOption
from accord.version import ProtocolVersion

# Session updates in the types of version 2: messages, tool calls, plans, options, terminals.

_TOOL_CANCEL = v2.ToolCallCapabilities(cancel=v2.ToolCallCancelCapabilities())
_TERMINAL_CANCEL = v2.TerminalCapabilities(cancel=v2.TerminalCancelCapabilities())


def update_to_wire(update: Update) -> v2.SessionUpdate:
    """Return an update in the types of version 2."""
    match update:
        case MessageUpdate(_, message_id, content):
            blocks = [content_to_wire(part) for part in content]
            return v2.UserMessage(message_id=message_id, content=blocks)
        case ToolCallUpdate():
            return v2.ToolCallUpdate(tool_call_id=update.id, **tool_call_fields(update))
        case ToolContentUpdate(id, content, _):
            return v2.ToolCallContentChunk(tool_call_id=id, content=tool_content_to_wire(content))
        case PlanUpdate(id, entries):
            found = [
                v2.PlanEntry(content=e.content, status=e.status, priority=e.priority)
                for e in entries
            ]
            return v2.PlanUpdate(plan=v2.PlanItems(plan_id=id, entries=found))
        case OptionsUpdate(options, _):
            return v2.ConfigOptionUpdate(config_options=options_to_wire(options))
        case CommandsUpdate(commands):
            return v2.AvailableCommandsUpdate(available_commands=commands_to_wire(commands))
        case TitleUpdate(title):
            return v2.SessionInfoUpdate(title=title)
        case ContextUsageUpdate(usage):
            cost = cost_to_wire(v2, usage.cost)
            return v2.UsageUpdate(used=usage.used, size=usage.size, cost=cost)
        case TerminalStarted(id, command, cwd, cancellable):
            return v2.TerminalUpdate(
                terminal_id=id,
                command=command,
                cwd=cwd,
                capabilities=_TERMINAL_CANCEL if cancellable else UNSET,
            )
        case TerminalOutputUpdate(id, data):
            return v2.TerminalOutputChunk(terminal_id=id, data=b64encode(data).decode("ascii"))
        case TerminalExited(id, exit_code, signal):
            status = v2.TerminalExitStatus(exit_code=exit_code, signal=signal)
            # An ended command cannot be cancelled (R-TCAN-03).
            return v2.TerminalUpdate(terminal_id=id, exit_status=status, capabilities=None)
        case TurnEnded():
            raise TypeError("The end of a turn is a state, which `send_turn_end` sends")
        case _:
            return to_update(v2, content_to_wire, update)


def in_stable_protocol(update: Update) -> Update:
    """Return an update in terms of the stable protocol."""
    match update:
        case PlanMarkdownUpdate(id) | PlanFileUpdate(id):
            return PlanUpdate(id, tuple(map(PlanEntry, plan_lines(update))))
        case PlanRemoved(id):
            return PlanUpdate(id, ())
        case _:
            return update


def error_to_wire(failure: TurnError) -> v2.Error:
    """Return the error of a failed turn in the types of version 2."""
    data = None if failure.data is UNSET else failure.data
    return v2.Error(code=failure.code, message=failure.message, data=data)


def tool_call_fields(update: ToolCallUpdate) -> dict[str, Any]:
    """Return the fields of a tool call in the types of version 2, its status among them."""
    fields: dict[str, Any] = {
        "title": update.title,
        "name": update.name,
        "kind": update.kind,
        "status": update.status,
        "raw_input": update.raw_input,
        "raw_output": update.raw_output,
    }
    if update.locations is not UNSET:
        fields["locations"] = location_to_wire(update.locations)
    if update.content is not UNSET:
        fields["content"] = [tool_content_to_wire(item) for item in update.content]
    if update.cancellable is not UNSET:
        fields["capabilities"] = _TOOL_CANCEL if update.cancellable else None
    return fields


def commands_to_wire(commands: tuple[AvailableCommand, ...]) -> list[v2.AvailableCommand]:
    """Return commands in the types of version 2."""
    return [
        v2.Command(
            name=command.name,
            description=command.description,
            input=None if command.hint is None else v2.TextCommandInput(hint=command.hint),
        )
        for command in commands
    ]


def options_to_wire(options: tuple[SessionOption, ...]) -> list[v2.SessionConfigOption]:
    """Return config options in the types of version 2."""
    return [
        option_to_wire(v2, option, id_field="config_id", group_field="group_id")
        for option in options
    ]


# Sends updates and requests to a client of version 2.

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
