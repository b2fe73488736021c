"""Calls a client of version 1: updates and requests in the types of the version.

In version 1 an update of a tool call replaces all of its content, which `ToolContentBuffers` have.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from accord import v1
from accord.agent.client_adapter import (
    SharedClientAdapter,
    TextStream,
    cost_to_wire,
    mode_of,
    option_to_wire,
    plan_lines,
    to_update,
)
from accord.agent.updates import (
    CommandsUpdate,
    CompactionSummaryUpdate,
    CompactionUpdate,
    ContextUsageUpdate,
    MessageRole,
    MessageUpdate,
    OptionsUpdate,
    PermissionQuestion,
    PlanFileUpdate,
    PlanMarkdownUpdate,
    PlanRemoved,
    PlanUpdate,
    TitleUpdate,
    ToolCallUpdate,
    ToolContentUpdate,
    Update,
)
from accord.errors import FrameTooLarge, TransportError
from accord.types.content import ContentBlock
from accord.types.convert_v1 import content_to_wire, location_to_wire, tool_content_to_wire
from accord.types.session import (
    AvailableCommand,
    Implementation,
    PlanEntry,
    SessionOption,
    StopReason,
)
from accord.types.tool_calls import TerminalView, ToolContent
from accord.version import ProtocolVersion

# The content of tool calls in version 1, where every update replaces all of it.

MIN_INTERVAL_S = 0.1  # between two updates of one tool call's content
MAX_CHARS_PER_S = 1_000_000  # longer content is sent less often


class ToolContentBuffer:
    """The content of one tool call; `has_unsent` if some of it has not been sent."""

    def __init__(self) -> None:
        self._items: list[
            v1.ToolCallContent | list[str]
        ] = []  # a list is text that can be continued
        self._chars = 0
        self._sent_at: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def replace(self, items: Iterable[ToolContent]) -> None:
        """Replace the content."""
        self._items = []
        self._chars = 0
        for item in items:
            self.add(item, continues=False)

    def add(self, item: ToolContent, *, continues: bool) -> None:
        """Append an item."""
        self._chars += _char_count(item)
        if type(item) is not str:  # text with annotations is an item of its own
            self._items.append(tool_content_to_wire(item))
        elif continues and self._items and isinstance(last := self._items[-1], list):
            last.append(item)
        else:
            self._items.append([item])

    def content(self) -> list[v1.ToolCallContent]:
        """Return the content."""
        found: list[v1.ToolCallContent] = []
        for item in self._items:
            if isinstance(item, list):
                text = "".join(item)
                item[:] = [text]
                found.append(v1.Content(content=v1.TextContent(text=text)))
            else:
                found.append(item)
        return found

    @property
    def has_unsent(self) -> bool:
        """Whether content waits to be sent."""
        return self._timer is not None

    def postpone(self, send: Callable[[], None]) -> bool:
        """Return True if sending is postponed; `send` runs when the interval is over."""
        if self._timer is None:
            if self._sent_at is None:
                return False
            loop = asyncio.get_running_loop()
            wait_s = (
                self._sent_at + max(MIN_INTERVAL_S, self._chars / MAX_CHARS_PER_S) - loop.time()
            )
            if wait_s <= 0:
                return False
            self._timer = loop.call_later(wait_s, send)
        return True

    def mark_sent(self) -> None:
        """Record that all content is being sent."""
        self._sent_at = asyncio.get_running_loop().time()
        self.cancel_timer()

    def cancel_timer(self) -> None:
        """Cancel the postponed sending."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class ToolContentBuffers:
    """The content of all open tool calls of a connection."""

    def __init__(self, send: Callable[[str, str], None]) -> None:
        self._send = send  # sends the content of one tool call
        self._buffers: dict[str, dict[str, ToolContentBuffer]] = {}
        self.unsent_sessions: dict[
            str, dict[str, None]
        ] = {}  # by session, in the order they became it

    def buffer(self, session_id: str, tool_id: str) -> ToolContentBuffer:
        """Return the buffer of a tool call."""
        return self._buffers.setdefault(session_id, {}).setdefault(tool_id, ToolContentBuffer())

    def add(self, session_id: str, tool_id: str, item: ToolContent, *, continues: bool) -> bool:
        """Append an item; return whether to send the content now."""
        tool = self.buffer(session_id, tool_id)
        tool.add(item, continues=continues)
        # A client can only show a terminal that it knows, so this is not postponed.
        if isinstance(item, TerminalView) or not tool.postpone(
            lambda: self._send(session_id, tool_id)
        ):
            return True
        self.unsent_sessions.setdefault(session_id, {})[tool_id] = None
        return False

    def unsent(self, session_id: str) -> tuple[str, ...]:
        """Return the tool calls of a session that have unsent content."""
        return tuple(self.unsent_sessions.get(session_id, ()))

    def has_unsent(self, session_id: str) -> bool:
        """Return whether a tool call of a session has unsent content."""
        return session_id in self.unsent_sessions

    def is_unsent(self, session_id: str, tool_id: str) -> bool:
        """Return whether a tool call has unsent content."""
        return tool_id in self.unsent_sessions.get(session_id, ())

    def take_content(self, session_id: str, tool_id: str) -> list[v1.ToolCallContent]:
        """Return the content of a tool call, to be sent at once."""
        tool = self.buffer(session_id, tool_id)
        tool.mark_sent()
        late = self.unsent_sessions.get(session_id)
        if late is not None:
            late.pop(tool_id, None)
            if not late:
                del self.unsent_sessions[session_id]
        return tool.content()

    def drop(self, session_id: str, tool_id: str) -> None:
        """Drop a tool call that has ended."""
        tools = self._buffers.get(session_id, {})
        if (tool := tools.pop(tool_id, None)) is not None:
            tool.cancel_timer()
        if not tools:
            self._buffers.pop(session_id, None)

    def drop_session(self, session_id: str) -> None:
        """Drop the tool calls of a session that has ended."""
        for tool in self._buffers.pop(session_id, {}).values():
            tool.cancel_timer()
        self.unsent_sessions.pop(session_id, None)


def _char_count(item: Any) -> int:
    if isinstance(item, str):
        return len(item)
    fields = (getattr(item, name) for name in item.__struct_fields__)
    return sum(len(field) for field in fields if isinstance(field, str | bytes))


# Parts of session updates in the types of version 1: tool calls, plan entries, modes.

_STATUSES = {"paused": "in_progress", "cancelled": "failed"}
_KNOWN_STATUSES = frozenset({"pending", "in_progress", "completed", "failed"})
_KINDS = frozenset(
    {"read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode"}
)


def tool_call_fields(update: ToolCallUpdate) -> dict[str, Any]:
    """Return the fields of a tool call in the types of version 1, where no call is paused."""
    fields: dict[str, Any] = {
        "title": update.title,
        "name": update.name,
        "kind": _known(update.kind, _KINDS, "other"),
        "status": _known(_STATUSES.get(str(update.status), update.status), _KNOWN_STATUSES),
        "raw_input": update.raw_input,
        "raw_output": update.raw_output,
    }
    if update.locations is not UNSET:
        fields["locations"] = location_to_wire(update.locations)
    return {name: value for name, value in fields.items() if value is not UNSET}


def _known(
    value: str | UnsetType, known: frozenset[str], other: str = "in_progress"
) -> str | UnsetType:
    return value if value is UNSET or value in known else other


def permission_kind(kind: str) -> Any:
    """Return the kind of a permission option; version 1 defines four."""
    known = ("allow_once", "allow_always", "reject_once", "reject_always")
    return kind if kind in known else "reject_once"  # which decides only how it looks


def plan_entry_to_wire(entry: PlanEntry) -> v1.PlanEntry:
    """Return an entry of a plan in the types of version 1."""
    status: Any = "completed" if entry.status == "cancelled" else entry.status
    if status not in ("pending", "in_progress", "completed"):
        status = "pending"
    priority: Any = entry.priority if entry.priority in ("high", "medium", "low") else "medium"
    return v1.PlanEntry(content=entry.content, status=status, priority=priority)


def modes_to_wire(options: tuple[SessionOption, ...]) -> v1.SessionModeState | None:
    """Return the modes of version 1, from the option of category `mode`."""
    mode = mode_of(options)
    if mode is None:
        return None
    return v1.SessionModeState(
        current_mode_id=mode.value,
        available_modes=[
            v1.SessionMode(id=choice.value, name=choice.name, description=choice.description)
            for choice in mode.choices
        ],
    )


def commands_to_wire(commands: tuple[AvailableCommand, ...]) -> list[v1.AvailableCommand]:
    """Return commands in the types of version 1."""
    return [
        v1.AvailableCommand(
            name=command.name,
            description=command.description,
            input=None if command.hint is None else v1.UnstructuredCommandInput(hint=command.hint),
        )
        for command in commands
    ]


# Sends updates and requests to a client of version 1.

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
