"""Session updates in the types of version 2: messages, tool calls, plans, options, terminals."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from msgspec import UNSET

from accord import v2
from accord.agent.shared_updates import cost_to_wire, option_to_wire, plan_lines, to_update
from accord.agent.updates import (
    CommandsUpdate,
    ContextUsageUpdate,
    MessageUpdate,
    OptionsUpdate,
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
from accord.types.convert_v2 import content_to_wire, location_to_wire, tool_content_to_wire
from accord.types.session import AvailableCommand, PlanEntry, SessionOption

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
