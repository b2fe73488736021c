"""Slash commands that the user can put into a prompt (v2)."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from accord.wire.base import Lenient, LenientList, Open, Other, Wire

__all__ = (
    "AvailableCommand",
    "AvailableCommandInput",
    "AvailableCommandsUpdate",
    "Command",
    "CommandBase",
    "TextCommandInput",
)


class TextCommandInput(Wire, tag_field="type", tag="text"):
    """All text after the command's name; `hint` is shown while it is empty."""

    hint: str


AvailableCommandInput: TypeAlias = Open[TextCommandInput]


class CommandBase(Wire):
    """The fields of commands of every type; `name` has no slash."""

    name: str
    description: str


class Command(CommandBase, tag_field="type", tag="command"):
    """A command; names are unique in the list."""

    input: Lenient[AvailableCommandInput | None] = None


AvailableCommand: TypeAlias = Annotated[Open[Command], Other(CommandBase)]


class AvailableCommandsUpdate(Wire, tag_field="sessionUpdate", tag="available_commands_update"):
    """All current commands."""

    available_commands: LenientList[AvailableCommand]
