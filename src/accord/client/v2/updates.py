"""What the updates of version 2 say, as events."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from msgspec.structs import replace

from accord import v2
from accord.client.events import (
    AgentTerminal,
    CommandsChanged,
    Compaction,
    ContentChunk,
    Event,
    MessageReplaced,
    Notice,
    OptionsChanged,
    Plan,
    Role,
    StateChanged,
    TerminalOutputChunk,
    Text,
    Thought,
    TitleChanged,
    ToolCall,
    UnknownUpdate,
    UpdatedAtChanged,
    UsageChanged,
    UserText,
)
from accord.client.message import merge_texts
from accord.client.metadata import text_event, with_meta
from accord.client.shared_sequence import appended
from accord.client.shared_updates import (
    append_session_message,
    apply_session_message,
    apply_subagent,
)
from accord.client.transcript import Transcript
from accord.errors import RequestError
from accord.types.content import ContentBlock
from accord.types.convert_v2 import content_from_wire, tool_content_from_wire
from accord.types.session import (
    AvailableCommand,
    BooleanOption,
    ContextUsage,
    Cost,
    OptionChoice,
    PlanEntry,
    SelectOption,
    SessionOption,
    TokenUsage,
)
from accord.types.tool_calls import ToolCallLocation
from accord.wire.base import UNSET, Unknown
from accord.wire.codec import to_builtins

__all__ = (
    "READERS",
    "apply_tool_call",
    "commands_from_wire",
    "events_from_update",
    "options_from_wire",
    "state_from_wire",
)

_Reader: TypeAlias = Callable[[Any, Transcript], Event | tuple[Event, ...] | None]
_TEXT_EVENTS: dict[Role, type[Text] | type[Thought] | type[UserText]] = {
    "agent": Text,
    "thought": Thought,
    "user": UserText,
}


def events_from_update(update: Any, transcript: Transcript) -> Event | tuple[Event, ...] | None:
    """Return what an update says is so from now on; None when it changes nothing."""
    if type(update) is v2.AgentMessageChunk:
        content = update.content
        if (
            type(content) is v2.TextContent
            and content.annotations is None
            and content.meta is None
            and update.meta is None
        ):
            return Text(content.text, update.message_id)
    reader = READERS.get(update.__class__)
    if reader is not None:
        return with_meta(reader(update, transcript), update.meta)
    if isinstance(update, Unknown):
        if update.raw.get("sessionUpdate") == "state_update":
            return StateChanged(state=str(update.raw.get("state")))  # R-PROMPT-34
        return UnknownUpdate(update.raw)
    return UnknownUpdate(to_builtins(update))


# Messages.


def _part(content: ContentBlock, role: Role, message_id: str) -> Event:
    if isinstance(content, str):
        return text_event(_TEXT_EVENTS[role], content, message_id)
    return ContentChunk(content, role, message_id)


def _chunk(role: Role) -> _Reader:
    def read_chunk(update: v2.ContentChunk, _transcript: Transcript) -> Event:
        return _part(content_from_wire(update.content), role, update.message_id)

    return read_chunk


def _message(role: Role) -> _Reader:
    def read_message(
        update: v2.MessageUpdateBase, transcript: Transcript
    ) -> Event | tuple[Event, ...] | None:
        message_id = update.message_id
        known = transcript.message(role, message_id)
        if update.content is UNSET:
            return MessageReplaced(role, message_id, ()) if known is None else None
        new = merge_texts(map(content_from_wire, update.content or ()))
        old = () if known is None else known.content
        more = _continuation(old, new)
        if more is None or (known is None and not new):
            return MessageReplaced(role, message_id, new)
        return tuple(_part(content, role, message_id) for content in more) or None

    return read_message


def _continuation(
    old: tuple[ContentBlock, ...], new: tuple[ContentBlock, ...]
) -> tuple[ContentBlock, ...] | None:
    """Return what of new content goes on behind the old, None if it is no continuation."""
    if new[: len(old)] == old:
        # Text behind text would be one text.
        return new[len(old) :]
    *before, last = old
    if len(new) < len(old) or new[: len(before)] != tuple(before):
        return None
    further = new[len(before)]
    if isinstance(last, str) and isinstance(further, str) and further.startswith(last):
        return (further[len(last) :], *new[len(old) :])
    return None


# Tool calls and terminals.


def apply_tool_call(details: v2.ToolCallDetails, transcript: Transcript) -> ToolCall | None:
    """Return a tool call with a patch applied: `UNSET` keeps, None clears (R-TOOL-08)."""
    blank = ToolCall(id=details.tool_call_id)
    known = transcript.tool_call(details.tool_call_id)
    changes: dict[str, Any] = {}
    for name in ("title", "name", "kind", "status", "raw_input", "raw_output", "meta"):
        value = getattr(details, name)
        if value is not UNSET:
            changes[name] = getattr(blank, name) if value is None else value
    if details.content is not UNSET:
        changes["content"] = tuple(map(tool_content_from_wire, details.content or ()))
    if details.locations is not UNSET:
        changes["locations"] = tuple(
            ToolCallLocation(place.path, place.line) for place in details.locations or ()
        )
    if details.capabilities is not UNSET:
        offered = details.capabilities
        changes["cancellable"] = offered is not None and offered.cancel is not None
    old = known or blank
    changed = tuple(name for name, value in changes.items() if getattr(old, name) != value)
    if known is not None and not changed:
        return None
    return replace(old, **changes, changed=changed)


def _tool_content(update: v2.ToolCallContentChunk, transcript: Transcript) -> Event:
    call = transcript.tool_call(update.tool_call_id) or ToolCall(id=update.tool_call_id)
    content = appended(call.content, tool_content_from_wire(update.content))
    return replace(call, content=content, changed=("content",))


def _terminal(update: v2.TerminalUpdate, transcript: Transcript) -> Event | tuple[Event, ...]:
    shell = transcript.terminals.get(update.terminal_id)
    changes: dict[str, Any] = {}
    if update.command is not UNSET:
        changes["command"] = update.command
    if update.cwd is not UNSET:
        changes["cwd"] = update.cwd
    if update.size is not UNSET:
        size = update.size
        changes["size"] = None if size is None else (size.cols, size.rows)
    if update.exit_status is not UNSET:
        exited = update.exit_status
        changes["exited"] = exited is not None  # R-DTERM-08
        changes["exit_code"] = None if exited is None else exited.exit_code
        changes["signal"] = None if exited is None else exited.signal
    if update.capabilities is not UNSET:
        offered = update.capabilities
        changes["cancellable"] = offered is not None and offered.cancel is not None
    old = AgentTerminal(id=update.terminal_id) if shell is None else shell.terminal
    terminal = replace(old, **changes)
    if update.output is UNSET:
        return terminal
    data = b"" if update.output is None else _decoded(update.output.data)
    return terminal, TerminalOutputChunk(update.terminal_id, data, replaces=True)


def _terminal_output(update: v2.TerminalOutputChunk, _transcript: Transcript) -> Event:
    return TerminalOutputChunk(update.terminal_id, _decoded(update.data))


def _decoded(data: str) -> bytes:
    """Decode one chunk by itself (R-DTERM-06); what is no base64 is nothing."""
    try:
        return base64.b64decode(data, validate=True)
    except ValueError:
        return b""


# What holds for the session.


def _plan(update: v2.PlanUpdate, _transcript: Transcript) -> Event:
    match update.plan:
        case v2.PlanItems(plan_id=plan_id, entries=entries):
            steps = (PlanEntry(entry.content, entry.status, entry.priority) for entry in entries)
            return Plan(tuple(steps), plan_id)
        case v2.PlanFile(plan_id=plan_id, uri=uri):
            return Plan(id=plan_id, uri=uri)
        case v2.PlanMarkdown(plan_id=plan_id, content=content):
            return Plan(id=plan_id, markdown=content)
        case Unknown(raw=raw):
            return Plan(id=raw["planId"])  # R-PLAN-13


def _plan_removed(update: v2.PlanRemoved, _transcript: Transcript) -> Event:
    return Plan(id=update.plan_id, removed=True)


def _commands(update: v2.AvailableCommandsUpdate, _transcript: Transcript) -> Event:
    return CommandsChanged(commands_from_wire(update.available_commands))


def commands_from_wire(commands: Iterable[v2.AvailableCommand]) -> tuple[AvailableCommand, ...]:
    """Return commands; one of an unknown type is shown by its name and description."""
    return tuple(map(_command, commands))


def _command(command: v2.AvailableCommand) -> AvailableCommand:
    match command:
        case v2.Command(name=name, description=description, input=v2.TextCommandInput(hint=hint)):
            return AvailableCommand(name, description, hint)
        case v2.Command(name=name, description=description):
            return AvailableCommand(name, description)
        case Unknown(raw=raw):
            return AvailableCommand(raw["name"], raw["description"])


def _options(update: v2.ConfigOptionUpdate, _transcript: Transcript) -> Event:
    return OptionsChanged(options_from_wire(update.config_options))


def options_from_wire(options: Iterable[v2.SessionConfigOption]) -> tuple[SessionOption, ...]:
    """Return config options as options, without those of an unknown type (R-CONF-12)."""
    return tuple(new for option in options if (new := _option(option)) is not None)


def _option(option: v2.SessionConfigOption) -> SessionOption | None:
    match option:
        case v2.SessionConfigBoolean():
            return BooleanOption(
                id=option.config_id,
                name=option.name,
                value=option.current_value,
                description=option.description,
                category=option.category,
            )
        case v2.SessionConfigSelect():
            choices: list[OptionChoice] = []
            for entry in option.options:
                if isinstance(entry, v2.SessionConfigSelectGroup):
                    group = entry.name
                    choices += (
                        OptionChoice(o.value, o.name, o.description, group) for o in entry.options
                    )
                else:
                    choices.append(OptionChoice(entry.value, entry.name, entry.description))
            return SelectOption(
                id=option.config_id,
                name=option.name,
                value=option.current_value,
                choices=tuple(choices),
                description=option.description,
                category=option.category,
            )
        case _:
            return None


def _info(update: v2.SessionInfoUpdate, transcript: Transcript) -> tuple[Event, ...] | None:
    events: list[Event] = []
    if update.title is not UNSET and update.title != transcript.title:
        events.append(TitleChanged(update.title))
    if update.updated_at is not UNSET and update.updated_at != transcript.updated_at:
        events.append(UpdatedAtChanged(update.updated_at))
    return tuple(events) or None


def _usage(update: v2.UsageUpdate, transcript: Transcript) -> Event:
    cost: Cost | None = None
    if update.cost is UNSET:  # R-USAGE-05
        cost = None if transcript.usage is None else transcript.usage.cost
    elif update.cost is not None:
        cost = Cost(update.cost.amount, update.cost.currency)
    return UsageChanged(ContextUsage(update.used, update.size, cost))


def _state(update: Any, _transcript: Transcript) -> Event:
    return state_from_wire(update)


def state_from_wire(state: v2.SessionState | v2.StateUpdate) -> StateChanged:
    """Return what a session does; of one of the agent's own kind its name is all there is."""
    match state:
        case v2.IdleState() | v2.IdleStateUpdate():
            error, usage = state.error, state.usage
            return StateChanged(
                state="idle",
                stop_reason=state.stop_reason,
                error=None if error is None else _error(error),
                token_usage=None if usage is None else _tokens(usage),
                background=_background(state.background),
            )
        case v2.RunningState() | v2.RunningStateUpdate():
            name = "running"
        case v2.RequiresActionState() | v2.RequiresActionStateUpdate():
            name = "requires_action"
        case v2.UnknownState() | v2.UnknownStateUpdate():
            name = "unknown"
        case Unknown(tag=tag):
            return StateChanged(state=tag)
    return StateChanged(state=name, background=_background(state.background))


def _error(error: v2.Error) -> RequestError:
    return RequestError.of(error.code, error.message, error.data)


def _tokens(usage: v2.Usage) -> TokenUsage:
    return TokenUsage(
        total=usage.total_tokens,
        input=usage.input_tokens,
        output=usage.output_tokens,
        thought=usage.thought_tokens,
        cached_read=usage.cached_read_tokens,
        cached_write=usage.cached_write_tokens,
    )


def _background(work: list[v2.BackgroundWork] | None) -> tuple[str, ...] | None:
    return None if work is None else tuple(map(_work_id, work))


def _work_id(work: v2.BackgroundWork) -> str:
    match work:
        case v2.BackgroundTerminal(terminal_id=work_id):
            return work_id
        case v2.BackgroundToolCall(tool_call_id=work_id):
            return work_id
        case v2.BackgroundSubagent(session_id=work_id):
            return work_id
        case Unknown(tag=tag):
            return tag  # R-BGW-07


def _notice(update: v2.Notice, _transcript: Transcript) -> Event:
    return Notice(update.severity, update.title, update.description)


def _compaction(update: v2.CompactionUpdate, transcript: Transcript) -> Event:
    known = transcript.compaction(update.compaction_id)
    new = replace(known or Compaction(id=update.compaction_id, status=""), status=update.status)
    if update.summary is not UNSET:
        new = replace(new, summary=merge_texts(map(content_from_wire, update.summary or ())))
    if update.error is not UNSET:
        new = replace(new, error=update.error)
    return new


def _compaction_chunk(update: v2.CompactionSummaryChunk, transcript: Transcript) -> Event:
    known = transcript.compaction(update.compaction_id)
    new = known or Compaction(id=update.compaction_id, status="in_progress")
    return replace(new, summary=merge_texts([*new.summary, content_from_wire(update.content)]))


def _subagent(update: v2.SubagentUpdate, transcript: Transcript) -> Event | None:
    return apply_subagent(update, transcript, state_from_wire)


def _session_message(update: v2.SessionMessage, transcript: Transcript) -> Event | None:
    return apply_session_message(update, transcript, content_from_wire)


def _session_message_chunk(update: v2.SessionMessageChunk, transcript: Transcript) -> Event:
    return append_session_message(update, transcript, content_from_wire)


READERS: dict[type, _Reader] = {
    v2.AgentMessageChunk: _chunk("agent"),
    v2.AgentThoughtChunk: _chunk("thought"),
    v2.UserMessageChunk: _chunk("user"),
    v2.AgentMessage: _message("agent"),
    v2.AgentThought: _message("thought"),
    v2.UserMessage: _message("user"),
    v2.ToolCallUpdate: apply_tool_call,
    v2.ToolCallContentChunk: _tool_content,
    v2.TerminalUpdate: _terminal,
    v2.TerminalOutputChunk: _terminal_output,
    v2.PlanUpdate: _plan,
    v2.PlanRemoved: _plan_removed,
    v2.AvailableCommandsUpdate: _commands,
    v2.ConfigOptionUpdate: _options,
    v2.SessionInfoUpdate: _info,
    v2.UsageUpdate: _usage,
    v2.RunningStateUpdate: _state,
    v2.RequiresActionStateUpdate: _state,
    v2.UnknownStateUpdate: _state,
    v2.IdleStateUpdate: _state,
    v2.Notice: _notice,
    v2.CompactionUpdate: _compaction,
    v2.CompactionSummaryChunk: _compaction_chunk,
    v2.SubagentUpdate: _subagent,
    v2.SessionMessage: _session_message,
    v2.SessionMessageChunk: _session_message_chunk,
}
