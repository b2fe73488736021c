"""Reads the updates of version 2 as events."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from accord import v2
from accord.client.event_stream import UpdateReader
from accord.client.events import (
    AgentTerminal,
    CommandsChanged,
    Event,
    MessageReplaced,
    OptionsChanged,
    Role,
    StateChanged,
    TerminalOutputChunk,
    ToolCall,
    UnknownUpdate,
)
from accord.client.message import continuation, merge_texts
from accord.client.shared_sequence import appended
from accord.client.shared_updates import (
    locations_from_wire,
    message_event,
    option_from_wire,
    shared_readers,
    update_reader,
)
from accord.client.shared_updates import state_from_wire as read_state
from accord.client.transcript import Transcript
from accord.types.convert_v2 import content_from_wire, tool_content_from_wire
from accord.types.session import AvailableCommand, SessionOption
from accord.wire.base import UNSET, Unknown
from accord.wire.codec import to_builtins

_STATES: dict[type, str] = {
    v2.IdleState: "idle",
    v2.IdleStateUpdate: "idle",
    v2.RunningState: "running",
    v2.RunningStateUpdate: "running",
    v2.RequiresActionState: "requires_action",
    v2.RequiresActionStateUpdate: "requires_action",
    v2.UnknownState: "unknown",
    v2.UnknownStateUpdate: "unknown",
}


def _message(role: Role) -> UpdateReader:
    def read_message(
        update: v2.MessageUpdateBase, transcript: Transcript
    ) -> Event | tuple[Event, ...] | None:
        message_id = update.message_id
        known = transcript.message(role, message_id)
        if update.content is UNSET:
            return MessageReplaced(role, message_id, ()) if known is None else None
        new = merge_texts(map(content_from_wire, update.content or ()))
        old = () if known is None else known.content
        more = continuation(old, new)
        if more is None or (known is None and not new):
            return MessageReplaced(role, message_id, new)
        return tuple(message_event(content, role, message_id) for content in more) or None

    return read_message


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
        changes["locations"] = locations_from_wire(details.locations or ())
    if details.capabilities is not UNSET:
        capabilities = details.capabilities
        changes["cancellable"] = capabilities is not None and capabilities.cancel is not None
    old = known or blank
    changed = tuple(name for name, value in changes.items() if getattr(old, name) != value)
    if old.unfinished:
        changed = (*changed, "unfinished")
    if known is not None and not changed:
        return None
    return replace(old, **changes, changed=changed, unfinished=False)


def _tool_content(update: v2.ToolCallContentChunk, transcript: Transcript) -> Event:
    call = transcript.tool_call(update.tool_call_id) or ToolCall(id=update.tool_call_id)
    content = appended(call.content, tool_content_from_wire(update.content))
    changed = ("content", "unfinished") if call.unfinished else ("content",)
    return replace(call, content=content, changed=changed, unfinished=False)


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
        changes["exited"] = exited is not None  # null means running (R-DTERM-08)
        changes["exit_code"] = None if exited is None else exited.exit_code
        changes["signal"] = None if exited is None else exited.signal
    if update.capabilities is not UNSET:
        capabilities = update.capabilities
        changes["cancellable"] = capabilities is not None and capabilities.cancel is not None
    old = AgentTerminal(id=update.terminal_id) if shell is None else shell.terminal
    terminal = replace(old, **changes)
    if update.output is UNSET:
        return terminal
    data = b"" if update.output is None else _decoded(update.output.data)
    return terminal, TerminalOutputChunk(update.terminal_id, data, replaces=True)


def _terminal_output(update: v2.TerminalOutputChunk, _transcript: Transcript) -> Event:
    return TerminalOutputChunk(update.terminal_id, _decoded(update.data))


def _decoded(data: str) -> bytes:
    """Decode a single chunk (R-DTERM-06); invalid Base64 becomes an empty output."""
    try:
        return base64.b64decode(data, validate=True)
    except ValueError:
        return b""


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
    """Return the config options of a session, without those of an unknown type (R-CONF-12)."""
    known = (option_from_wire(v2, option, getattr(option, "config_id", "")) for option in options)
    return tuple(option for option in known if option is not None)


def _state(update: v2.StateUpdate, _transcript: Transcript) -> Event:
    return state_from_wire(update)


def state_from_wire(state: v2.SessionState | v2.StateUpdate) -> StateChanged:
    """Return the state of a session."""
    event = read_state(_STATES, state)
    work = None if isinstance(state, Unknown) else state.background
    return event if work is None else replace(event, background=tuple(map(_work_id, work)))


def _work_id(work: v2.BackgroundWork) -> str:
    match work:
        case v2.BackgroundTerminal(terminal_id=work_id):
            return work_id
        case v2.BackgroundToolCall(tool_call_id=work_id):
            return work_id
        case v2.BackgroundSubagent(session_id=work_id):
            return work_id
        case Unknown(tag=tag):
            return tag  # unknown work is still work (R-BGW-07)


def _unknown(update: Any) -> Event:
    if not isinstance(update, Unknown):
        return UnknownUpdate(to_builtins(update))
    if update.raw.get("sessionUpdate") == "state_update":
        return StateChanged(state=str(update.raw.get("state")))  # never idle (R-PROMPT-34)
    return UnknownUpdate(update.raw)


READERS: dict[type, UpdateReader] = {
    **shared_readers(v2, content_from_wire, state_from_wire),
    v2.AgentMessage: _message("agent"),
    v2.AgentThought: _message("thought"),
    v2.UserMessage: _message("user"),
    v2.ToolCallUpdate: apply_tool_call,
    v2.ToolCallContentChunk: _tool_content,
    v2.TerminalUpdate: _terminal,
    v2.TerminalOutputChunk: _terminal_output,
    v2.AvailableCommandsUpdate: _commands,
    v2.ConfigOptionUpdate: _options,
    v2.RunningStateUpdate: _state,
    v2.RequiresActionStateUpdate: _state,
    v2.UnknownStateUpdate: _state,
    v2.IdleStateUpdate: _state,
}
events_from_update: UpdateReader = update_reader(v2, READERS, _unknown)
