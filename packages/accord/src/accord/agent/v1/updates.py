"""Parts of session updates in the types of version 1: tool calls, plan entries, modes."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, UnsetType

from accord import v1
from accord.agent.client_adapter import mode_of
from accord.agent.updates import ToolCallUpdate
from accord.types.convert_v1 import location_to_wire
from accord.types.session import AvailableCommand, PlanEntry, SessionOption

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
