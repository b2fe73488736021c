"""What the updates of version 1 say, as events."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from msgspec.structs import replace

from accord import v1
from accord.client.events import (
    CommandsChanged,
    Compaction,
    ContentChunk,
    Event,
    ModeChanged,
    Notice,
    OptionsChanged,
    Plan,
    Role,
    StateChanged,
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
from accord.client.shared_updates import (
    append_session_message,
    apply_session_message,
    apply_subagent,
)
from accord.client.transcript import Transcript
from accord.errors import RequestError
from accord.rules.quirks import tolerates
from accord.types.convert_v1 import content_from_wire, tool_content_from_wire
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
    "events_from_update",
    "option_from_modes",
    "options_from_wire",
    "state_from_wire",
    "token_usage_from_wire",
)

_Said: TypeAlias = type[Text] | type[Thought] | type[UserText]


def events_from_update(update: Any, transcript: Transcript) -> Event | tuple[Event, ...] | None:
    """Return what an update says is so from now on; None when it changes nothing."""
    if type(update) is v1.AgentMessageChunk:
        content = update.content
        if (
            type(content) is v1.TextContent
            and content.annotations is None
            and content.meta is None
            and update.meta is None
        ):
            return Text(content.text, update.message_id)
    reader = READERS.get(update.__class__)
    if reader is None:
        return UnknownUpdate(to_builtins(update))
    return with_meta(reader(update, transcript), update.meta)


def _chunk(kind: _Said, role: Role) -> Callable[[Any, Transcript], Event]:
    def read_chunk(update: v1.ContentChunk, _transcript: Transcript) -> Event:
        content = content_from_wire(update.content)
        if isinstance(content, str):
            return text_event(kind, content, update.message_id)
        return ContentChunk(content, role, update.message_id)

    return read_chunk


@tolerates("unannounced-tool-call")
def apply_tool_call(details: v1.ToolCallDetails, transcript: Transcript) -> ToolCall | None:
    """Return a tool call with an update applied: None leaves a field as it was (A-24)."""
    changes: dict[str, Any] = {}
    for name in ("title", "name", "kind", "status", "raw_input", "raw_output", "meta"):
        value = getattr(details, name)
        if value is not None:
            changes[name] = value
    if details.content is not None:
        changes["content"] = tuple(map(tool_content_from_wire, details.content))
    if details.locations is not None:
        changes["locations"] = _locations(details.locations)
    known = transcript.tool_call(details.tool_call_id)
    if known is None:
        # Announced only here, by agents that skip `tool_call`.
        return ToolCall(id=details.tool_call_id, changed=tuple(changes), **changes)
    changed = tuple(name for name, value in changes.items() if getattr(known, name) != value)
    return replace(known, changed=changed, **changes) if changed else None


def _tool_call(call: v1.ToolCall, _transcript: Transcript) -> Event:
    return ToolCall(
        id=call.tool_call_id,
        title=call.title,
        kind=call.kind,
        status=call.status,
        name=call.name,
        content=tuple(map(tool_content_from_wire, call.content)),
        locations=_locations(call.locations),
        raw_input=call.raw_input,
        raw_output=call.raw_output,
        meta=call.meta,
        changed=("title", "kind", "status", "name", "content", "locations", "raw_input"),
    )


def _locations(locations: Iterable[v1.ToolCallLocation]) -> tuple[ToolCallLocation, ...]:
    return tuple(ToolCallLocation(place.path, place.line) for place in locations)


def _entries(entries: Iterable[v1.PlanEntry]) -> tuple[PlanEntry, ...]:
    return tuple(PlanEntry(entry.content, entry.status, entry.priority) for entry in entries)


def _plan(update: v1.Plan, _transcript: Transcript) -> Event:
    return Plan(_entries(update.entries))


def _plan_update(update: v1.PlanUpdate, _transcript: Transcript) -> Event:
    match update.plan:
        case v1.PlanItems(plan_id=plan_id, entries=entries):
            return Plan(_entries(entries), plan_id)
        case v1.PlanFile(plan_id=plan_id, uri=uri):
            return Plan(id=plan_id, uri=uri)
        case v1.PlanMarkdown(plan_id=plan_id, content=content):
            return Plan(id=plan_id, markdown=content)


def _plan_removed(update: v1.PlanRemoved, _transcript: Transcript) -> Event:
    return Plan(id=update.plan_id, removed=True)


def _commands(update: v1.AvailableCommandsUpdate, _transcript: Transcript) -> Event:
    return CommandsChanged(
        tuple(
            AvailableCommand(c.name, c.description, None if c.input is None else c.input.hint)
            for c in update.available_commands
        )
    )


def _mode(update: v1.CurrentModeUpdate, transcript: Transcript) -> Event | None:
    mode = update.current_mode_id
    return None if transcript.mode == mode else ModeChanged(mode)


def _options(update: v1.ConfigOptionUpdate, _transcript: Transcript) -> Event:
    return OptionsChanged(options_from_wire(update.config_options))


def options_from_wire(options: Iterable[v1.SessionConfigOption]) -> tuple[SessionOption, ...]:
    """Return config options as options."""
    return _mode_marked(tuple(map(_option, options)))


@tolerates("mode-without-category")
def _mode_marked(options: tuple[SessionOption, ...]) -> tuple[SessionOption, ...]:
    """Give an option `mode` without a category the category `mode`, if no option has it."""
    if any(option.category == "mode" for option in options):
        return options
    return tuple(
        replace(option, category="mode")
        if isinstance(option, SelectOption) and option.id == "mode" and option.category is None
        else option
        for option in options
    )


def _option(option: v1.SessionConfigOption) -> SessionOption:
    match option:
        case v1.SessionConfigBoolean():
            return BooleanOption(
                id=option.id,
                name=option.name,
                value=option.current_value,
                description=option.description,
                category=option.category,
            )
        case v1.SessionConfigSelect():
            choices: list[OptionChoice] = []
            for entry in option.options:
                if isinstance(entry, v1.SessionConfigSelectGroup):
                    group = entry.name
                    choices += (
                        OptionChoice(o.value, o.name, o.description, group) for o in entry.options
                    )
                else:
                    choices.append(OptionChoice(entry.value, entry.name, entry.description))
            return SelectOption(
                id=option.id,
                name=option.name,
                value=option.current_value,
                choices=tuple(choices),
                description=option.description,
                category=option.category,
            )


def option_from_modes(modes: v1.SessionModeState) -> SelectOption:
    """Return the modes of an agent that has no option for them as an option."""
    choices = (OptionChoice(mode.id, mode.name, mode.description) for mode in modes.available_modes)
    return SelectOption(
        id="mode",
        name="Mode",
        value=modes.current_mode_id,
        choices=tuple(choices),
        category="mode",
    )


def _info(update: v1.SessionInfoUpdate, transcript: Transcript) -> tuple[Event, ...] | None:
    events: list[Event] = []
    if update.title is not UNSET and update.title != transcript.title:
        events.append(TitleChanged(update.title))
    if update.updated_at is not UNSET and update.updated_at != transcript.updated_at:
        events.append(UpdatedAtChanged(update.updated_at))
    return tuple(events) or None


def _usage(update: v1.UsageUpdate, _transcript: Transcript) -> Event:
    cost = None if update.cost is None else Cost(update.cost.amount, update.cost.currency)
    return UsageChanged(ContextUsage(update.used, update.size, cost))


def token_usage_from_wire(usage: v1.Usage | None) -> TokenUsage | None:
    """Return counts of tokens."""
    if usage is None:
        return None
    return TokenUsage(
        total=usage.total_tokens,
        input=usage.input_tokens,
        output=usage.output_tokens,
        thought=usage.thought_tokens,
        cached_read=usage.cached_read_tokens,
        cached_write=usage.cached_write_tokens,
    )


def _notice(update: v1.Notice, _transcript: Transcript) -> Event:
    return Notice(update.severity, update.title, update.description)


def _compaction(update: v1.CompactionUpdate, transcript: Transcript) -> Event:
    known = transcript.compaction(update.compaction_id)
    new = replace(known or Compaction(id=update.compaction_id, status=""), status=update.status)
    if update.summary is not UNSET:
        new = replace(new, summary=merge_texts(map(content_from_wire, update.summary or ())))
    if update.error is not UNSET:
        new = replace(new, error=update.error)
    return new


def _compaction_chunk(update: v1.CompactionSummaryChunk, transcript: Transcript) -> Event:
    known = transcript.compaction(update.compaction_id)
    new = known or Compaction(id=update.compaction_id, status="in_progress")
    return replace(new, summary=merge_texts([*new.summary, content_from_wire(update.content)]))


def state_from_wire(state: v1.SessionState) -> StateChanged:
    """Return what a session does; of one of the agent's own kind its name is all there is."""
    match state:
        case v1.IdleState(stop_reason=stop_reason, error=error, usage=usage):
            return StateChanged(
                state="idle",
                stop_reason=stop_reason,
                error=None if error is None else _error(error),
                token_usage=token_usage_from_wire(usage),
            )
        case v1.RunningState():
            return StateChanged(state="running")
        case v1.RequiresActionState():
            return StateChanged(state="requires_action")
        case v1.UnknownState():
            return StateChanged(state="unknown")
        case Unknown(tag=tag):
            return StateChanged(state=tag)


def _error(error: v1.Error) -> RequestError:
    return RequestError.of(error.code, error.message, error.data)


def _subagent(update: v1.SubagentUpdate, transcript: Transcript) -> Event | None:
    return apply_subagent(update, transcript, state_from_wire)


def _session_message(update: v1.SessionMessage, transcript: Transcript) -> Event | None:
    return apply_session_message(update, transcript, content_from_wire)


def _session_message_chunk(update: v1.SessionMessageChunk, transcript: Transcript) -> Event:
    return append_session_message(update, transcript, content_from_wire)


READERS: dict[type, Callable[[Any, Transcript], Event | tuple[Event, ...] | None]] = {
    v1.AgentMessageChunk: _chunk(Text, "agent"),
    v1.AgentThoughtChunk: _chunk(Thought, "thought"),
    v1.UserMessageChunk: _chunk(UserText, "user"),
    v1.ToolCall: _tool_call,
    v1.ToolCallUpdate: apply_tool_call,
    v1.Plan: _plan,
    v1.PlanUpdate: _plan_update,
    v1.PlanRemoved: _plan_removed,
    v1.AvailableCommandsUpdate: _commands,
    v1.CurrentModeUpdate: _mode,
    v1.ConfigOptionUpdate: _options,
    v1.SessionInfoUpdate: _info,
    v1.UsageUpdate: _usage,
    v1.Notice: _notice,
    v1.CompactionUpdate: _compaction,
    v1.CompactionSummaryChunk: _compaction_chunk,
    v1.SubagentUpdate: _subagent,
    v1.SessionMessage: _session_message,
    v1.SessionMessageChunk: _session_message_chunk,
}
